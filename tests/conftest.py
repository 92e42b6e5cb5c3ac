"""What tests of every folder share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest


def pytest_collection_finish() -> None:
    """Programs are made of many small objects: left alone, Python's collector of cycles spends a
    sixth of the tests' time looking through them, and through all that was imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


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
