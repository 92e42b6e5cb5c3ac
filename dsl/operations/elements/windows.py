"""Window functions for spectra and filters: Bartlett, Blackman, Hamming, Hann, Kaiser."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...annotations import IntLike, ScalarLike
from ...array import Array
from ...errors import DTypeError
from ...scalar import Scalar, lift
from ..common import operation, whole_number
from ..indexing.making import generate
from . import functions as fn
from .numeric import i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _window(of: str, count: IntLike, value: Callable[[Scalar], Scalar]) -> Array:
    """`value(t)` at `count` points from −1 to 1; at 0 if there is one."""
    if not isinstance(count, Scalar):
        count = whole_number(count, of, "M")
    extent = fn.maximum(count, 0) if isinstance(count, Scalar) else max(count, 0)
    last = fn.maximum(count - 1, 1)
    return generate((extent,), lambda k: value(fn.cast(2 * k - (count - 1), float) / last))


@operation
def bartlett(M: IntLike) -> Array:
    """The triangle 1 − |t| at `M` points t from −1 to 1 (float64); empty if M < 1.

    >>> td.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return _window("bartlett", M, lambda t: 1.0 - fn.absolute(t))


@operation
def hanning(M: IntLike) -> Array:
    """The raised cosine 0.5 + 0.5 cos(πt) at `M` points t from −1 to 1 (float64).

    >>> td.hanning(3)
    Array([0., 1., 0.])
    """
    return _window("hanning", M, lambda t: 0.5 + 0.5 * fn.cos(np.pi * t))


@operation
def hamming(M: IntLike) -> Array:
    """The raised cosine 0.54 + 0.46 cos(πt) at `M` points t from −1 to 1 (float64).

    >>> td.round(td.hamming(3), 2)
    Array([0.08, 1.  , 0.08])
    """
    return _window("hamming", M, lambda t: 0.54 + 0.46 * fn.cos(np.pi * t))


@operation
def blackman(M: IntLike) -> Array:
    """0.42 + 0.5 cos(πt) + 0.08 cos(2πt) at `M` points t from −1 to 1 (float64).

    >>> round(float(td.blackman(5)[1]), 2)
    0.34
    """
    return _window(
        "blackman", M, lambda t: 0.42 + 0.5 * fn.cos(np.pi * t) + 0.08 * fn.cos(2 * np.pi * t)
    )


@operation
def kaiser(M: IntLike, beta: ScalarLike) -> Array:
    """I₀(β √(1 − t²)) / I₀(β) at `M` points t from −1 to 1 (float64).

    `beta` (a number, also of the run) is the shape: 0 is a rectangle, 5 nearly `hamming`, 8.6
    nearly `blackman`.

    Parameters
        beta: the shape: 0 a rectangle, larger narrower.

    >>> td.kaiser(3, 0.0)
    Array([1., 1., 1.])
    """
    if lift(beta, "kaiser").type.is_complex:
        raise DTypeError("kaiser: beta is a real number.", hint="Take the real part.")
    shape = fn.cast(beta, float)
    return _window("kaiser", M, lambda t: i0(shape * fn.sqrt(1.0 - t * t)) / i0(shape))
