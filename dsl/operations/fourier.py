"""`td.fft`: discrete Fourier transforms, with numpy.fft's names, arguments and norms.

The transforms are a library's (`dsl/libraries/fft.py`): pocketfft on a CPU, cuFFT on a GPU.  What
comes before and after, as resizing, shifts and frequencies, are operations of the language.

float32 and complex64 are transformed in single precision, and so are 16-bit floats; everything else
in double precision.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeAlias

from .. import late_binding as later
from ..annotations import ArrayLike, AxisLike, DTypeLike, IntLike, ScalarLike
from ..array import Array, generated, require_scalars
from ..errors import DTypeError, ShapeError, TracingError, user_location
from ..expr import Cond, Const, Expr, Index, Proj, constant
from ..frontend.sources import as_array
from ..frontend.standard import require_device
from ..frontend.tracing import forbid_nesting
from ..graph import Check, Label, Library, Output, Shape, indices
from ..libraries.fft import library_operation
from ..scalar import Scalar, apply_primitive, as_count, as_strong, lift, refuse_traced
from ..shapes import as_shape, require
from ..types import ScalarType, as_type, complex64, complex128, float32, float64
from .common import integer, normalise_axes, normalise_axis, operation
from .elements import functions as f
from .indexing import joining

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn",
           "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq",
           "rfftn"]  # fmt: skip

#: Extents of transformed axes, one for each; None or −1: that of the array.
Extents: TypeAlias = Sequence[IntLike | None]

_NORMS = ("backward", "ortho", "forward")
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


# --- operands --------------------------------------------------------------------------------


def _norm(norm: str | None, of: str) -> str:
    refuse_traced(f"fft.{of}", norm=norm)
    if norm is None:
        return "backward"
    if norm not in _NORMS:
        raise TracingError(
            f"fft.{of}: there is no norm {norm!r}.",
            hint='Norms: "backward" (the default: inverses are divided by n), "ortho", "forward".',
        )
    return norm


def _operand(a: ArrayLike, of: str) -> Array:
    name = f"fft.{of}"
    forbid_nesting(name)
    array = as_array(a, name)
    require_scalars(array, name)
    normalise_axis(-1, array.ndim, name)
    return array


def _real(array: Array, of: str) -> Array:
    if array.types[0].is_complex:
        raise DTypeError(
            f"fft.{of} takes real numbers, got {array.types[0]}.",
            hint="td.fft.fft takes complex ones, a.real their real parts.",
        )
    return array


def _precise(t: ScalarType) -> bool:
    """Whether numbers of a type are transformed in double precision."""
    if t.is_inexact:
        return t.bits == (128 if t.is_complex else 64)
    return True


def _in_precision(array: Array, is_complex: bool) -> Array:
    """The array in the real or complex type of its precision; a real one may stay real."""
    t = array.types[0]
    if is_complex and not t.is_complex and t in (float32, float64):
        return array
    if t.is_complex or is_complex:
        target = complex128 if _precise(t) else complex64
    else:
        target = float64 if _precise(t) else float32
    return array if t == target else array.astype(target)


def _given_axes(array: Array, s: Extents | None, axes: AxisLike | None, of: str) -> list[int]:
    """The axes of an n-dimensional transform, in the order given."""
    if axes is None:
        count = array.ndim if s is None else len(s)
        if count > array.ndim:
            raise ShapeError(
                f"fft.{of}: {count} extents for an array of rank {array.ndim}.",
                hint="s has an extent for each transformed axis.",
            )
        return list(range(array.ndim - count, array.ndim))
    given = axes if isinstance(axes, tuple | list) else (axes,)
    found = [normalise_axis(k, array.ndim, f"fft.{of}") for k in given]
    if s is not None and len(s) != len(found):
        raise ShapeError(
            f"fft.{of}: {len(s)} extents for {len(found)} axes.",
            hint="s has an extent for each transformed axis.",
        )
    if not found:
        raise ShapeError(f"fft.{of} needs an axis.", hint="axes=(-2, -1) are the last two.")
    return found


def _extents(array: Array, s: Extents | None, axes: Sequence[int], of: str) -> list[Expr]:
    """The extents of transformed axes."""
    found = []
    for k, n in zip(axes, s if s is not None else (None,) * len(axes), strict=True):
        own = n is None or (isinstance(n, int) and n == -1)
        found.append(array._shape[k] if own else as_shape((n,), f"fft.{of}")[0][0])
    return found


def _resized(array: Array, axes: Sequence[int], extents: Sequence[Expr]) -> Array:
    """Cropped, or padded with zeros behind, along axes."""
    for axis, n in zip(axes, extents, strict=True):
        old = array._shape[axis]
        if old is n or (isinstance(old, Const) and isinstance(n, Const) and old.value == n.value):
            continue
        shape = (*array._shape[:axis], n, *array._shape[axis + 1 :])
        (element,) = array._element(indices(array.ndim))
        inside = apply_primitive("less", [Index(axis), old])
        if not (isinstance(old, Const) and isinstance(n, Const) and n.value <= old.value):
            element = Proj(Cond(inside, (element,), (Const(0, element.type),)), 0)
        array = generated(shape, (element,), "fft.resize")
    return array


def _not_empty(extents: Sequence[Expr], of: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = ()
    for n in extents:
        checks += require(
            n, constant(1), f"fft.{of}: {{left}} points along a transformed axis; it needs one.",
            relation=">=", hint="n= and s= pad with zeros.",
        )  # fmt: skip
    return checks


def _transformed(name: str, of: str, array: Array, axes: Sequence[int], norm: str, *,
                 extents: Sequence[Expr], last: Expr | None, real: bool) -> Array:  # fmt: skip
    """The result of a library's function; `last` is the extent of the last transformed axis where
    it changes."""
    t = array.types[0]
    kinds = (float64, float32) if real else (complex128, complex64)
    shape: Shape = array._shape
    if last is not None:
        shape = (*shape[: axes[-1]], last, *shape[axes[-1] + 1 :])
    node = Library(
        library_operation(name, (tuple(axes), norm)), array._leaves,
        (Output(shape, kinds[0] if _precise(t) else kinds[1]),),
        label=Label(f"fft.{of}"), where=user_location(), checks=_not_empty(extents, of),
    )  # fmt: skip
    return Array(node.leaves)


def _complex(a: ArrayLike, s: Extents | None, axes: AxisLike | None, norm: str | None, of: str,
             name: str) -> Array:  # fmt: skip
    how, array = _norm(norm, of), _operand(a, of)
    chosen = _given_axes(array, s, axes, of)
    if len(set(chosen)) < len(chosen):  # an axis that is given twice is transformed twice
        for k, axis in reversed(list(enumerate(chosen))):
            array = _complex(array, None if s is None else s[k : k + 1], axis, norm, of, name)
        return array
    extents = _extents(array, s, chosen, of)
    array = _in_precision(_resized(array, chosen, extents), True)
    return _transformed(name, of, array, chosen, how, extents=extents, last=None, real=False)


def _half(n: Expr) -> Expr:
    """n // 2 + 1"""
    half = apply_primitive("floor_divide", [n, constant(2)])
    return apply_primitive("add", [half, constant(1)])


def _from_real(a: ArrayLike, s: Extents | None, axes: AxisLike | None, norm: str | None, of: str
               ) -> Array:  # fmt: skip
    how, array = _norm(norm, of), _real(_operand(a, of), of)
    chosen = _given_axes(array, s, axes, of)
    extents = _extents(array, s, chosen, of)
    if len(set(chosen)) < len(chosen):
        every = [Scalar(n) for n in extents]
        last = _from_real(array, every[-1:], chosen[-1], norm, of)
        return _complex(last, every[:-1], chosen[:-1], norm, of, "forward")
    array = _in_precision(_resized(array, chosen, extents), False)
    return _transformed("real_forward", of, array, chosen, how, extents=extents,
                        last=_half(extents[-1]), real=False)  # fmt: skip


def _to_real(a: ArrayLike, s: Extents | None, axes: AxisLike | None, norm: str | None, of: str
             ) -> Array:  # fmt: skip
    how, array = _norm(norm, of), _operand(a, of)
    chosen = _given_axes(array, s, axes, of)
    if len(set(chosen)) < len(chosen):
        first = _complex(array, None if s is None else s[:-1], chosen[:-1], norm, of, "inverse")
        return _to_real(first, None if s is None else s[-1:], chosen[-1], norm, of)
    extents, last = _extents(array, s, chosen, of), chosen[-1]
    given = None if s is None or s[-1] is None else extents[-1]
    if given is None:
        n = apply_primitive("subtract", [array._shape[last], constant(1)])
        extents[-1] = apply_primitive("multiply", [constant(2), n])
    halves = [*extents[:-1], array._shape[last] if given is None else _half(given)]
    array = _in_precision(_resized(array, chosen, halves), True)
    array = array.astype(complex128 if _precise(array.types[0]) else complex64)
    return _transformed("real_inverse", of, array, chosen, how, extents=extents, last=extents[-1],
                        real=True)  # fmt: skip


def _one(n: IntLike | None) -> Extents | None:
    if not isinstance(n, Scalar) and integer(n) == -1:
        raise ShapeError("fft: n=-1 points; a transform needs one.", hint="Leave n out.")
    return None if n is None else (n,)


# --- transforms ------------------------------------------------------------------------------


@operation
def fft(a: ArrayLike, n: IntLike | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis, Σⱼ a[j] e^(−2πi j k / n), complex.

    Parameters
        n: the number of points: the axis is cropped, or padded with zeros; default: its extent.
        norm: "backward" (the default: the inverse is divided by n), "ortho" (both by √n) or
            "forward" (this one by n).

    >>> td.run(td.fft.fft(np.array([1.0, 0.0, -1.0, 0.0])))
    array([0.-0.j, 2.+0.j, 0.-0.j, 2.-0.j])

    See also `rfft`, which computes half of it for real numbers.
    """
    return _complex(a, _one(n), axis, norm, "fft", "forward")


@operation
def ifft(a: ArrayLike, n: IntLike | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`, with the same parameters.

    >>> td.run(td.fft.ifft(np.array([0.0, 4.0, 0.0, 0.0])))
    array([ 1.-0.j,  0.+1.j, -1.-0.j,  0.-1.j])
    """
    return _complex(a, _one(n), axis, norm, "ifft", "inverse")


@operation
def rfft(a: ArrayLike, n: IntLike | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 values of the `fft` of real numbers (the others are conjugates of them).

    >>> td.run(td.fft.rfft(np.array([1.0, 0.0, -1.0, 0.0])))
    array([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return _from_real(a, _one(n), axis, norm, "rfft")


@operation
def irfft(a: ArrayLike, n: IntLike | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: n real numbers.

    >>> td.run(td.fft.irfft(np.array([0.0, 2.0, 0.0])))
    array([ 1.,  0., -1.,  0.])
    """
    return _to_real(a, _one(n), axis, norm, "irfft")


@operation
def hfft(a: ArrayLike, n: IntLike | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The `fft` of a signal with Hermitian symmetry, of which the first n // 2 + 1 values are
    given: n real numbers; default: 2 (m − 1) of an axis of m values.

    >>> td.run(td.fft.hfft(np.array([1.0, 1.0, 1.0])))
    array([4., 0., 0., 0.])
    """
    array = _operand(a, "hfft")
    array = f.conj(array) if array.types[0].is_complex else array
    return _to_real(array, _one(n), axis, _SWAPPED[_norm(norm, "hfft")], "hfft")


@operation
def ihfft(a: ArrayLike, n: IntLike | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: n // 2 + 1 values.

    >>> td.run(td.fft.ihfft(np.array([4.0, 0.0, 0.0, 0.0]))).real
    array([1., 1., 1.])
    """
    found = _from_real(a, _one(n), axis, _SWAPPED[_norm(norm, "ihfft")], "ihfft")
    return f.conj(found)


@operation
def fftn(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = None,
         norm: str | None = None) -> Array:  # fmt: skip
    """The discrete Fourier transform along several axes.

    Parameters
        s: the number of points along each of these axes (None or −1: the extent): they are cropped,
            or padded with zeros.
        axes: which; default: all, or with `s` the last ones.
        norm: as that of `fft`.

    >>> td.run(td.fft.fftn(np.eye(2)))
    array([[2.-0.j, 0.-0.j],
           [0.-0.j, 2.-0.j]])
    """
    return _complex(a, s, axes, norm, "fftn", "forward")


@operation
def ifftn(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = None,
          norm: str | None = None) -> Array:  # fmt: skip
    """The inverse of `fftn`, with the same parameters.

    >>> td.run(td.fft.ifftn(2 * np.eye(2)))
    array([[1.-0.j, 0.-0.j],
           [0.-0.j, 1.-0.j]])
    """
    return _complex(a, s, axes, norm, "ifftn", "inverse")


@operation
def rfftn(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = None,
          norm: str | None = None) -> Array:  # fmt: skip
    """The `fftn` of real numbers, of which the last of the axes has the first n // 2 + 1 values.

    >>> td.run(td.fft.rfftn(np.ones((2, 4))))
    array([[8.+0.j, 0.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return _from_real(a, s, axes, norm, "rfftn")


@operation
def irfftn(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = None,
           norm: str | None = None) -> Array:  # fmt: skip
    """The inverse of `rfftn`: real numbers.

    Parameters
        s: the extents of the result; default: those of `a`, and 2 (m − 1) for the last of the axes,
            of m values.

    >>> td.run(td.fft.irfftn(td.fft.rfftn(np.eye(2))))
    array([[1., 0.],
           [0., 1.]])
    """
    return _to_real(a, s, axes, norm, "irfftn")


@operation
def fft2(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = (-2, -1),
         norm: str | None = None) -> Array:  # fmt: skip
    """`fftn` along two axes, by default the last two.

    >>> td.run(td.fft.fft2(np.ones((3, 2, 2)))).shape
    (3, 2, 2)
    """
    return _complex(a, s, axes, norm, "fft2", "forward")


@operation
def ifft2(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = (-2, -1),
          norm: str | None = None) -> Array:  # fmt: skip
    """`ifftn` along two axes, by default the last two.

    >>> td.run(td.fft.ifft2(2 * np.eye(2))).real
    array([[1., 0.],
           [0., 1.]])
    """
    return _complex(a, s, axes, norm, "ifft2", "inverse")


@operation
def rfft2(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = (-2, -1),
          norm: str | None = None) -> Array:  # fmt: skip
    """`rfftn` along two axes, by default the last two.

    >>> td.run(td.fft.rfft2(np.ones((3, 4, 6)))).shape
    (3, 4, 4)
    """
    return _from_real(a, s, axes, norm, "rfft2")


@operation
def irfft2(a: ArrayLike, s: Extents | None = None, axes: AxisLike | None = (-2, -1),
           norm: str | None = None) -> Array:  # fmt: skip
    """`irfftn` along two axes, by default the last two.

    >>> td.run(td.fft.irfft2(np.ones((3, 4, 4)), (4, 7))).shape
    (3, 4, 7)
    """
    return _to_real(a, s, axes, norm, "irfft2")


# --- frequencies and shifts ------------------------------------------------------------------


def _frequencies(n: IntLike, d: ScalarLike, half: bool, of: str, dtype: DTypeLike | None,
                 device: str | None) -> Array:  # fmt: skip
    name = f"fft.{of}"
    require_device(device, name)
    kind = float64 if dtype is None else as_type(dtype)
    forbid_nesting(name)
    (count,), checks = as_shape((n,), name)
    step = Scalar(as_strong(lift(d, name)))
    if step.dtype.is_complex:
        raise DTypeError(
            f"{name}: d is a real number, got {step.dtype}.", hint="Take the real part."
        )
    unit = 1.0 / (f.cast(Scalar(as_count(n, name)), float64) * f.cast(step, float64))
    number = Scalar(Index(0))
    if not half:
        number = f.where(number < (Scalar(count) + 1) // 2, number, number - Scalar(count))
    element = f.cast(f.cast(number, float64) * unit, kind)
    checks = (*checks, *_not_empty([count], of))
    return generated((_half(count) if half else count,), (element._expr,), name, checks)


@operation
def fftfreq(
    n: IntLike, d: ScalarLike = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Array:
    """The frequencies of `fft`: 0, 1, …, −2, −1, divided by n d.

    Parameters
        n: the number of points.
        d: the distance of samples.
        dtype: the type of the result, float64 by default.

    >>> td.run(td.fft.fftfreq(4))
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies(n, d, False, "fftfreq", dtype, device)


@operation
def rfftfreq(
    n: IntLike, d: ScalarLike = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Array:
    """The frequencies of `rfft`: 0, 1, …, n // 2, divided by n d.

    Parameters
        d: the distance of samples; default 1.
        dtype: the type of the result; default float64.

    Result: an array (n // 2 + 1,).

    >>> td.run(td.fft.rfftfreq(4))
    array([0.  , 0.25, 0.5 ])
    """
    return _frequencies(n, d, True, "rfftfreq", dtype, device)


def _shifted(x: ArrayLike, axes: AxisLike | None, of: str, up: int) -> Array:
    """The upper and lower part of every axis exchanged: of n elements, (n + up) // 2 move up."""
    name = f"fft.{of}"
    forbid_nesting(name)
    array = as_array(x, name)
    for k in normalise_axes(axes, array.ndim, name):
        cut = (array.shape[k] + up) // 2
        before = (slice(None),) * k
        parts = array[(*before, slice(cut, None))], array[(*before, slice(None, cut))]
        array = joining.concatenate(parts, k)
    return array


@operation
def fftshift(x: ArrayLike, axes: AxisLike | None = None) -> Array:
    """Frequency 0 moved from the beginning to the middle of axes (default: of all).

    >>> td.run(td.fft.fftshift(td.fft.fftfreq(4)))
    array([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted(x, axes, "fftshift", 1)


@operation
def ifftshift(x: ArrayLike, axes: AxisLike | None = None) -> Array:
    """The inverse of `fftshift`.

    >>> td.run(td.fft.ifftshift(td.iota(5)))
    array([2, 3, 4, 0, 1])
    """
    return _shifted(x, axes, "ifftshift", 0)


later.offer(fft=sys.modules[__name__])
