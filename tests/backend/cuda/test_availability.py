"""Why there is no GPU to work with: every reason, without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

import treadle as td
from treadle.backend.cuda.availability import unavailable
from treadle.backend.cuda.device import optional


class Driver:
    """libcuda as ctypes shows it."""

    def __init__(self, init=0, version=13000, count=1, capability=(9, 0)):
        self.init, self.version, self.count, self.capability = init, version, count, capability

    def cuInit(self, flags):
        return self.init

    def cuDriverGetVersion(self, out):
        out._obj.value = self.version
        return 0

    def cuDeviceGetCount(self, out):
        out._obj.value = self.count
        return 0

    def cuDeviceGetAttribute(self, out, which, device):
        out._obj.value = self.capability[which - 75]
        return 0

    def cuGetErrorName(self, code, out):
        out._obj.value = b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
        return 0


def reason(driver, missing=(), release=13):
    def load(name):
        if driver is None:
            raise OSError(name)
        return driver

    return unavailable(load, lambda p: None if p in missing else p, lambda: release)


def test_everything_is_there():
    assert reason(Driver()) is None
    assert reason(Driver(version=12040), release=12) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"driver": None}, "no NVIDIA driver was found"),
        ({"driver": Driver(init=100)}, "finds no GPU here"),
        ({"driver": Driver(count=0)}, "finds no GPU here"),
        ({"driver": Driver(init=803)}, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ({"driver": Driver(version=11080)}, "too old: it supports CUDA 11.8"),
        ({"driver": Driver(version=12080)}, "CuPy is for 13; update the driver to 580 or later"),
        ({"driver": Driver(), "missing": ("cupy",)}, r"CuPy is not installed; pip .*cuda13"),
        ({"driver": Driver(version=12080), "missing": ("cupy",)}, r"not installed; pip .*cuda12"),
        ({"driver": Driver(), "missing": ("cuda.core",)}, "cuda-core is not installed"),
        ({"driver": Driver(capability=(7, 0))}, r"compute capability 7.0; 7.5"),
    ],
)
def test_reasons(given, says):
    import re

    assert re.search(says, reason(**given))


def _without(packages, code):
    """Run Python where these packages cannot be imported."""
    head = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {packages!r}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=False
    )


def test_kernels_are_printed_without_anything_of_cuda():
    done = _without(
        ("cupy", "cuda", "numba"),
        "import numpy as np, treadle as td\n"
        "f = td.jit(lambda x: (td.sin(x), td.sum(x)))\n"
        "print(f.lower(np.ones(5)).source('cuda', arch='sm_90a'))\n"
        "print(td.backends()['cuda'])\n",
    )
    assert done.returncode == 0, done.stderr
    assert "__global__" in done.stdout and "sinx" not in done.stdout
    assert "unavailable" in done.stdout.splitlines()[-1]


def test_asking_for_a_gpu_that_is_not_there():
    if not td.backends()["cuda"].startswith("unavailable"):
        pytest.skip("there is a GPU here")
    with pytest.raises(td.BackendUnavailable, match="'cuda' does not work here"):
        td.run(td.iota(3), backend="cuda")
    assert td.run(td.iota(3), backend="auto").sum() == 3


def test_importing_treadle_imports_nothing_of_cuda():
    code = (
        "import sys, treadle as td\ntd.backends()\ntd.run(td.iota(3), backend='auto')\n"
        "assert not {'cupy', 'cuda.bindings'} & set(sys.modules), 'imported'\n"
    )
    if not td.backends()["cuda"].startswith("unavailable"):
        pytest.skip("there is a GPU here, and it is used")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("raised", [ModuleNotFoundError, OSError, RuntimeError])
def test_libraries_that_cannot_be_loaded(monkeypatch, raised):
    """CuPy raises a RuntimeError where memory is limited."""

    def refused(name):
        raise raised("failed to map segment from shared object")

    monkeypatch.setattr(optional.importlib, "import_module", refused)
    cupy, runtime, ndarray, launch = optional._modules()
    assert ndarray is launch is None
    for module in (cupy, runtime):
        with pytest.raises(ImportError, match="failed to map segment"):
            module.anything  # noqa: B018
