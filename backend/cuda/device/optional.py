"""Calls of the driver and their errors; CuPy's modules, or, where it is not installed, stand-ins
with the error of importing them.

So every module of the package can be imported, by documentation tools say, without CuPy; the error
is raised where CuPy is used.
"""

from __future__ import annotations

import importlib
from typing import Any


class _Missing:
    """Stands for a module that cannot be imported."""

    def __init__(self, error: ImportError) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked of any value, by classes and tools
            raise AttributeError(name)
        raise self.error


def _modules() -> tuple[Any, ...]:
    try:
        cuda = importlib.import_module("cupy.cuda")
    except ImportError as error:
        return (*[_Missing(error)] * 2, None, None)
    except (OSError, RuntimeError) as error:  # a library of CUDA's cannot be loaded
        return (*[_Missing(ImportError(f"CuPy cannot be loaded: {error}"))] * 2, None, None)
    own = importlib.import_module("cupy")
    return own, cuda.runtime, own.ndarray, cuda.driver.launchKernel


#: CuPy, its module of the runtime, its arrays, and its wrapper of cuLaunchKernel, which has the
#: least overhead.
cupy, runtime, ndarray, launchKernel = _modules()


def require() -> None:
    """Raise the ImportError if CuPy is missing."""
    if isinstance(cupy, _Missing):
        raise cupy.error


class DriverError(Exception):
    """A call of the driver that failed: `name` is the error's, as in CUDA_ERROR_…"""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{what}: {name}")
        self.name = name


def checked(result: tuple[Any, ...], what: str) -> Any:
    """The result of a cuda.bindings call without its status, which is checked."""
    status, *values = result
    if int(status):
        raise DriverError(getattr(status, "name", str(status)), what)
    return values[0] if len(values) == 1 else tuple(values)
