"""Runs every test of this folder on every backend that works here.

`TREADLE_TEST_BACKENDS=reference,native` restricts (and insists on) the backends.

Where there is no GPU, `make test` runs an instance of every fourth test on an emulated one.
All of them:

    TREADLE_TEST_BACKENDS=cuda-emulated pytest -n auto tests/conformance

`TREADLE_TEST_DEVICES=2` compiles the programs of the backend "cuda" for two GPUs, real or emulated;
those that have no rule for several are skipped, with the reason.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import treadle as td

from .helpers import EMULATED, check_cases, cuda, devices, emulation, first_line, working_backends

#: Of so many tests one has an instance that `make test` runs on the emulated GPU.
EMULATED_TESTS = 4


def pytest_configure(config):
    config.addinivalue_line("markers", "emulated: runs on a GPU made of NumPy")


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        backends = list(working_backends())
        if emulation():
            backends.append(pytest.param("cuda", id=EMULATED, marks=pytest.mark.emulated))
        metafunc.parametrize("backend", backends, scope="session")


def pytest_itemcollected(item):
    if emulation() == "some" and "emulated" in item.keywords:
        one = zlib.crc32(item.nodeid.partition("[")[0].encode()) % EMULATED_TESTS == 0
        item.add_marker(pytest.mark.sample(1) if one else pytest.mark.long, append=False)


@pytest.fixture(autouse=True)
def emulated(request):
    """The emulated GPU, for the tests that run on it."""
    with cuda("emulated" in request.keywords) as device:
        yield device


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A program that is refused on several GPUs is no failure where they were asked for."""
    try:
        return (yield)
    except td.DistributionError as refused:
        if devices() is None:
            raise
        pytest.skip(f"refused on {devices()} GPUs: {first_line(refused)}")


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
