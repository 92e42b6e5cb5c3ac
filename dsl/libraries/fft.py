"""Fourier transforms by pocketfft (SciPy's, or NumPy's without SciPy) and cuFFT.

Every function takes the array module, NumPy or CuPy, its parameters (axes and norm) and one array,
which is never empty along a transformed axis; all extents are those of the array and its result.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from ..process.environment import variable
from .base import LibraryOperation, builtin, register_portable

Arrays = tuple[Any, ...]
#: Threads do not pay for smaller arrays.
_THREADED = 1 << 16


@cache
def _pocketfft() -> tuple[ModuleType, int]:
    """The module to compute with on a CPU, and its most threads (0: it has none)."""
    if importlib.util.find_spec("scipy") is None:
        return np.fft, 0
    import scipy.fft

    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return scipy.fft, int(variable("TREADLE_NUM_THREADS") or here or 1)


def _call(xp: ModuleType, name: str, a: Any, **options: Any) -> Any:
    module, threads = (xp.fft, 0) if xp is not np else _pocketfft()
    if threads and a.size >= _THREADED:
        options["workers"] = threads
    return getattr(module, name)(a, **options)


def forward(xp: ModuleType, parameters: Arrays, a: Any) -> Arrays:
    axes, norm = parameters
    return (_call(xp, "fftn", a, axes=axes, norm=norm),)


def inverse(xp: ModuleType, parameters: Arrays, a: Any) -> Arrays:
    axes, norm = parameters
    return (_call(xp, "ifftn", a, axes=axes, norm=norm),)


def real_forward(xp: ModuleType, parameters: Arrays, a: Any) -> Arrays:
    axes, norm = parameters
    return (_call(xp, "rfftn", a, axes=axes, norm=norm),)


def real_inverse(xp: ModuleType, parameters: Arrays, a: Any, shape: tuple[int, ...]) -> Arrays:
    axes, norm = parameters
    return (_call(xp, "irfftn", a, s=[shape[k] for k in axes], axes=axes, norm=norm),)


def _axes(parameters: Arrays, rank: int) -> tuple[int, ...]:
    return tuple(parameters[0])


for _function in (forward, inverse, real_forward):
    register_portable(f"fft.{_function.__name__}", _function, along=_axes)
register_portable("fft.real_inverse", real_inverse, sized=True, along=_axes)


def library_operation(name: str, parameters: tuple[Any, ...]) -> LibraryOperation:
    """The operation of one of these functions."""
    return builtin(f"fft.{name}", parameters)
