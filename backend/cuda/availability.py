"""Whether this machine can run programs on an NVIDIA GPU; if not, the reason and the remedy.

This imports no CUDA package: it queries the driver directly and looks up packages by name.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

#: The architecture for which kernels are printed without a GPU.
DEFAULT_ARCH = "sm_90a"
OLDEST_CAPABILITY = (7, 5)
_INSTALL = {12: "pip install 'treadle[cuda12]'", 13: "pip install 'treadle[cuda13]'"}
_DRIVERS = {12: "525", 13: "580"}
_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_NO_DEVICE = 100


def unavailable(
    load: Callable[[str], Any] = ctypes.CDLL,
    find: Callable[[str], Any] = importlib.util.find_spec,
    release: Callable[[], int | None] | None = None,
) -> str | None:
    """None if everything is available, else the reason and how to fix it.

    `load`, `find` and `release` (the CUDA release that the installed CuPy is for) can be replaced.
    """
    try:
        driver = load(_DRIVER)
    except OSError:
        return (
            f"no NVIDIA driver was found ({_DRIVER}); install the driver of your GPU, or run on "
            'the CPU: backend="native"'
        )
    code = driver.cuInit(0)
    if code == _NO_DEVICE:
        return "the NVIDIA driver finds no GPU here (is CUDA_VISIBLE_DEVICES set to nothing?)"
    if code:
        return (
            f"the NVIDIA driver does not start ({_error_name(driver, code)}); nvidia-smi tells "
            "more; after an update of the driver the machine has to be restarted"
        )
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    supported = version.value // 1000
    if supported < min(_INSTALL):
        return (
            f"the NVIDIA driver is too old: it supports CUDA {_shown(version.value)}, "
            f"treadle needs 12.0; update it to {_DRIVERS[12]} or later"
        )
    driver.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        return "the NVIDIA driver finds no GPU here (is CUDA_VISIBLE_DEVICES set to nothing?)"
    install = _INSTALL[min(supported, max(_INSTALL))]
    for package, name in (("cupy", "CuPy"), ("cuda.bindings", "cuda-bindings"),
                          ("cuda.core", "cuda-core")):  # fmt: skip
        if not _there(find, package):
            return f"{name} is not installed; {install}"
    needed = (release or cupy_release)()
    if needed is not None and needed > supported:
        return (
            f"the NVIDIA driver is too old for the installed CuPy: it supports CUDA "
            f"{_shown(version.value)}, CuPy is for {needed}; update the driver to "
            f"{_DRIVERS.get(needed, 'the newest')} or later, or {install}"
        )
    major, minor = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY[0], 0)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY[1], 0)
    if (major.value, minor.value) < OLDEST_CAPABILITY:
        return (
            f"the GPU has compute capability {major.value}.{minor.value}; "
            f"{OLDEST_CAPABILITY[0]}.{OLDEST_CAPABILITY[1]} (Turing) or later is needed"
        )
    return None


def cupy_release() -> int | None:
    """The CUDA release of the installed CuPy; None if its package name does not say."""
    import importlib.metadata  # takes longer than the rest, and needs a GPU

    for release in _INSTALL:
        try:
            importlib.metadata.version(f"cupy-cuda{release}x")
        except importlib.metadata.PackageNotFoundError:
            continue
        return release
    return None


def _there(find: Callable[[str], Any], package: str) -> bool:
    try:
        return find(package) is not None
    except ImportError:  # its parent package is missing
        return False


def _error_name(driver: Any, code: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {code}"


def _shown(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
