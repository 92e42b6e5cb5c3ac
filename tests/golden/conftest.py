"""`pytest tests/golden --update-golden` writes the files instead of comparing."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    try:
        parser.addoption("--update-golden", action="store_true", default=False,
                         help="write the golden files of tests/golden instead of comparing")  # fmt: skip
    except ValueError:
        pass  # another conftest has it


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare text with a file beside the tests, or write it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        if request.config.getoption("--update-golden", default=False):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{name} is missing: run pytest tests/golden --update-golden"
        assert text == path.read_text(), f"{name} differs: see --update-golden"

    return compare
