"""What the tests of all folders share.

Tests marked `long` are skipped, except under `-m long` or with `TREADLE_TEST_LONG=1`. So are most
instances of those marked `sample` (sampling.py), except with `--all-instances`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

import pytest

from .sampling import left_out


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files")
    parser.addoption(
        "--all-instances", action="store_true", help="run every instance of tests marked `sample`"
    )


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--all-instances"):
        for item in left_out(items):
            item.add_marker("long")
    if "long" in (config.getoption("markexpr") or "") or os.environ.get("TREADLE_TEST_LONG"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long: run with -m long"))


def pytest_collection_finish() -> None:
    """Programs are made of many small objects: left alone, Python's collector of cycles spends a
    sixth of the tests' time looking through them, and through all that was imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def updating(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(request: pytest.FixtureRequest, updating: bool) -> Callable[[str, str], None]:
    """`golden(name, text)` compares a text with a file in `golden/` next to the test.

    `--update-golden` writes the file instead."""

    def compare(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if updating:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs: see --update-golden"

    return compare


@pytest.fixture
def calls() -> Callable[[Callable[[], object]], int]:
    """How many functions `run` calls, Python's and C's: its work, the same on every machine."""

    def count(run: Callable[[], object]) -> int:
        counted = 0

        def event(frame: object, kind: str, argument: object) -> None:
            nonlocal counted
            counted += kind in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(event)
        try:
            run()
        finally:
            sys.setprofile(before)
        return counted

    return count
