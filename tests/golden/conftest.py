"""`pytest tests/golden --update-golden` writes the files instead of comparing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # another conftest may have it
        parser.addoption("--update-golden", action="store_true", help="write the golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare text with a file beside the tests, or write it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        if request.config.getoption("--update-golden", default=False):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{name} is missing: run pytest tests/golden --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: see --update-golden"

    return compare
