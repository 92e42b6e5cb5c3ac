"""Runs every test of this folder on every backend that works here.

`TREADLE_TEST_BACKENDS=reference,native` restricts (and insists on) the backends; tests marked
`long` run only with `-m long` or with `TREADLE_TEST_LONG=1`.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import treadle as td

from .helpers import check_cases, working_backends


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; runs with `-m long`")


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", working_backends(), scope="session")


def pytest_collection_modifyitems(config, items):
    if "long" in (config.getoption("-m") or "") or os.environ.get("TREADLE_TEST_LONG"):
        return
    skip = pytest.mark.skip(reason="long: run with `-m long`")
    here = Path(__file__).parent
    for item in items:
        if "long" in item.keywords and here in Path(item.fspath).parents:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def quiet_numpy():
    """The oracles divide by zero and overflow on purpose."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def run(backend):
    """`run(expr, **options)`: `td.run` on the backend under test."""

    def runner(expr, **options):
        return td.run(expr, backend=backend, **options)

    return runner


@pytest.fixture
def check(backend):
    """`check({label: (thunk, want[, ulps])})`: one program for all; every difference reported."""

    def checker(cases, **options):
        check_cases(cases, backend=backend, **options)

    return checker
