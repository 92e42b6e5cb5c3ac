"""Tests that need an NVIDIA GPU; elsewhere they are skipped, saying why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import treadle as td


def pytest_collection_modifyitems(config, items):
    state = td.backends()["cuda"]
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.gpu)
            if not state.startswith("works"):
                item.add_marker(pytest.mark.skip(reason=state))
