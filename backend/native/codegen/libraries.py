"""The C libraries whose functions kernels call: libmvec and libm of glibc, or another libm."""

from __future__ import annotations

import ctypes
import functools
import sys

if sys.platform != "linux":
    import ctypes.util


@functools.lru_cache(maxsize=1)
def libraries() -> tuple[ctypes.CDLL | None, ctypes.CDLL | None]:
    """libmvec and libm; None for what is not there."""
    return _load("libmvec.so.1"), _load(_libm())


def _libm() -> str:
    if sys.platform == "linux":
        return "libm.so.6"
    return ctypes.util.find_library("m") or "libm.so.6"


def _load(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def address_in(library: ctypes.CDLL | None, symbol: str) -> int:
    """Where a symbol of a library is, 0 if it is not there."""
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def address_of(symbol: str) -> int:
    """The address of a mathematical function, 0 if it is unknown here."""
    mvec, libm = libraries()
    return address_in(mvec, symbol) or address_in(libm, symbol)
