"""What the tests of schedules share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # for the helper modules beside the tests, in any import mode
    sys.path.insert(0, str(HERE))
if importlib.util.find_spec("treadle") is None:  # a checkout that is not installed
    sys.path.insert(0, str(HERE.parents[1]))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: many cases; run with -m long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in (config.getoption("markexpr") or ""):
        return
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long: run with -m long"))
