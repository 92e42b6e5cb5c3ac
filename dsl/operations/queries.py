"""What is known of values without computing them: shapes, ranks, types and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import ml_dtypes
import numpy as np

from ..annotations import ArrayLike, DTypeLike, IntLike
from ..errors import DTypeError, ShapeError, user_facing_maker
from ..frontend.sources import as_array
from ..frontend.standard import KINDS
from ..scalar import Scalar, lift
from ..shapes import extents
from ..types import ScalarType, as_type, promote
from .common import normalise_axes
from .descriptions import complete
from .indexing.row_major import product

__all__ = ["broadcast_shapes", "can_cast", "finfo", "iinfo", "iscomplexobj", "isdtype", "isrealobj",
           "isscalar", "issubdtype", "ndim", "promote_types", "result_type", "shape",
           "size"]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def query(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function whose result is known without computing anything."""
    complete(function)
    return user_facing_maker(function)


@query
def shape(a: ArrayLike) -> tuple[IntLike, ...]:
    """The extents: an int where one is known, a scalar of the program for others.

    Result: a tuple; extents that are not known yet are scalars.

    >>> td.shape(np.zeros((2, 3)))
    (2, 3)
    """
    return () if isinstance(a, Scalar) else as_array(a, "shape").shape


@query
def ndim(a: ArrayLike) -> int:
    """The number of axes, the rank.

    Result: a Python int.

    >>> td.ndim(np.zeros((2, 3)))
    2
    """
    return len(shape(a))


@query
def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> IntLike:
    """The number of elements, or the extent of an axis (the product of those of several).

    `AxisError` for an axis that is none.

    Result: a Python int if it is known, else a scalar.

    Errors: `AxisError` if there is no such axis.

    >>> td.size(np.zeros((2, 3))), td.size(np.zeros((2, 3)), 1)
    (6, 3)
    """
    if isinstance(a, Scalar):
        return 1
    array = as_array(a, "size")
    axes = normalise_axes([axis] if isinstance(axis, int) else axis, array.ndim, "size")
    total: IntLike = extents((product([array._shape[k] for k in axes]),))[0]
    return total


@query
def isscalar(element: object) -> bool:
    """Whether this is a number, of Python, NumPy or the program, or text; arrays of rank 0 are not.

    >>> td.isscalar(3), td.isscalar(td.unit(3))
    (True, False)
    """
    return isinstance(element, Scalar) or bool(np.isscalar(element))


def _type(x: ArrayLike, operation: str) -> ScalarType:
    return lift(x, operation).type if isinstance(x, Scalar) else as_array(x, operation).types[0]


@query
def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the elements are of a complex type.

    >>> td.iscomplexobj(1 + 0j), td.iscomplexobj(td.unit(3))
    (True, False)
    """
    return bool(_type(x, "iscomplexobj").is_complex)


@query
def isrealobj(x: ArrayLike) -> bool:
    """Whether the elements are not of a complex type.

    >>> td.isrealobj(np.array([3 + 4j]))
    False
    """
    return not iscomplexobj(x)


@query
def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> ScalarType:
    """The type of a sum of these: arrays, types, and numbers of Python, which yield to others.

    Parameters
        *arrays_and_dtypes: arrays, numbers and types.

    >>> import numpy as np, treadle as td
    >>> td.result_type(td.float32, td.int16, 3.5)
    float32
    """
    if not arrays_and_dtypes:
        raise ShapeError("result_type needs one operand at least.", hint="Give arrays or types.")
    found: tuple[ScalarType, bool] | None = None
    for given in arrays_and_dtypes:
        if isinstance(given, Scalar | int | float | complex) and not isinstance(given, np.generic):
            value = lift(given, "result_type")
            operand = value.type, value.weak
        elif isinstance(given, ScalarType | np.dtype | type | str):
            operand = as_type(given), False
        else:
            operand = as_array(given, "result_type").types[0], False
        found = operand if found is None else promote(*found, *operand)
    assert found is not None
    return found[0]


@query
def promote_types(type1: DTypeLike, type2: DTypeLike) -> ScalarType:
    """The type to which both types are promoted.

    Parameters
        type1: an element type.
        type2: an element type.

    >>> td.promote_types(td.int8, td.uint8)
    int16
    """
    return result_type(as_type(type1), as_type(type2))


#: From strict to loose, the rules of `can_cast`.
_RULES = ("no", "equiv", "safe", "same_kind", "unsafe")


@query
def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a conversion keeps the rule `casting`: "no" and "equiv" (the same type), "safe" (no
    value is lost), "same_kind" (of floats, say, to smaller ones), or "unsafe" (any).

    Parameters
        from_: an element type, or an array.
        to: an element type.
        casting: "safe" (default), "same_kind", "unsafe", "equiv" or "no".

    >>> td.can_cast(td.int32, td.int64), td.can_cast(td.float64, td.int64)
    (True, False)
    """
    if casting not in _RULES:
        raise ShapeError(f"can_cast: no rule {casting!r}.", hint=f"Choose of {', '.join(_RULES)}.")
    source = _of_value(from_)
    return bool(np.can_cast(source.numpy, as_type(to).numpy, casting=casting))  # type: ignore[arg-type]


def _of_value(value: ArrayLike | DTypeLike) -> ScalarType:
    if isinstance(value, ScalarType | np.dtype | type | str):
        return as_type(value)
    return _type(value, "can_cast")


@query
def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Whether a type is of a kind, or of one of several: "bool", "signed integer", "unsigned
    integer", "integral", "real floating", "complex floating", "numeric", or a type.

    Parameters
        kind: a type, the name of a kind ("integral", "real floating", …), or a tuple of them.

    >>> td.isdtype(td.int8, "integral"), td.isdtype(td.int8, (td.int16, "bool"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if dtype is None:
        raise DTypeError("isdtype: None is no type.", hint="Write td.float64, or a.dtype.")
    own = as_type(dtype)
    if isinstance(kind, str) and kind in KINDS:
        return own.family in KINDS[kind]
    return own == as_type(kind)


@query
def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether a type is one of those of NumPy's abstract type `arg2` (`np.floating`), or that type.

    Parameters
        arg1: an element type.
        arg2: an element type, or one of NumPy's abstract types.

    >>> td.issubdtype(td.float32, np.floating), td.issubdtype(td.float32, td.float64)
    (True, False)
    """
    own = as_type(arg1)
    if isinstance(arg2, type) and issubclass(arg2, np.generic):
        return np.issubdtype(own.numpy, arg2) or (
            own.is_float and arg2 in (np.floating, np.inexact, np.number, np.generic)
        )
    return own == as_type(arg2)


@dataclass(frozen=True)
class FloatInfo:
    """The result of `finfo`: `eps` is the distance of 1 to the next larger number, `epsneg` to the
    next smaller one, `precision` the number of reliable decimal digits, `resolution` its power of
    ten."""

    dtype: ScalarType
    bits: int
    precision: int
    eps: float
    epsneg: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    smallest_subnormal: float
    tiny: float


_FLOATS = ("eps", "epsneg", "max", "min", "resolution", "smallest_normal", "smallest_subnormal",
           "tiny")  # fmt: skip


@query
def finfo(dtype: DTypeLike | ArrayLike) -> FloatInfo:
    """The limits of a type of floats (of complex numbers: of their parts), as NumPy's `finfo`, but
    as Python floats.

    Result: an object with `eps`, `max`, `tiny`, … as NumPy's.

    >>> td.finfo(td.float32).max
    3.4028234663852886e+38
    """
    found = ml_dtypes.finfo(_of_value(dtype).numpy)  # type: ignore[no-untyped-call]
    floats = {n: float(getattr(found, n)) for n in _FLOATS}
    return FloatInfo(as_type(found.dtype), int(found.bits), int(found.precision), **floats)


@query
def iinfo(dtype: DTypeLike | ArrayLike) -> np.iinfo:
    """The limits of a type of integers, as NumPy's `iinfo`.

    Result: an object with `min`, `max` and `bits`.

    >>> td.iinfo(td.int16).max
    32767
    """
    return np.iinfo(_of_value(dtype).numpy)


@query
def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast; `ShapeError` if there is none.

    Parameters
        *shapes: shapes.

    Result: a tuple of integers.

    >>> td.broadcast_shapes((3, 1), 4)
    (3, 4)
    """
    try:
        return np.broadcast_shapes(*shapes)
    except (ValueError, TypeError):
        shown = ", ".join(map(str, shapes))
        raise ShapeError(
            f"broadcast_shapes: {shown} do not broadcast.",
            hint="Extents along one axis, counted from the last, are equal or 1.",
        ) from None
