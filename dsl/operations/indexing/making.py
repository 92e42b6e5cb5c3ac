"""Array constructors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import ArrayLike, DTypeLike, Element, FunctionN, IntLike, ScalarLike, ShapeLike
from ...array import Array, generated
from ...errors import DTypeError, ShapeError, TracingError, user_location
from ...expr import Const, Expr, Index, constant, known_before
from ...frontend.refusals import no_array, no_operand
from ...frontend.sources import as_array, owned, use
from ...frontend.standard import require_device
from ...frontend.tracing import forbid_nesting
from ...graph import Check, Shape, known
from ...scalar import (
    KnownExtent,
    Scalar,
    apply_primitive,
    as_count,
    as_index,
    as_strong,
    fit_weak,
    lift,
)
from ...shapes import as_shape, broadcast_shapes, on_host, require
from ...types import (
    Structure,
    as_type,
    complex128,
    flatten,
    float64,
    int64,
    kind_of_literal,
    promote,
)
from ..common import operation, rounded_product, trace_elements
from ..elements.functions import cast, log10, power, where
from .row_major import distance, greatest, minus, plus

__all__ = ["arange", "array", "asarray", "astype", "copy", "empty", "empty_like", "eye", "fill",
           "from_dlpack", "full", "full_like", "generate", "geomspace", "iota", "linspace",
           "logspace", "ones", "ones_like", "the", "unit", "zeros", "zeros_like"]  # fmt: skip

#: What an array is made of: data, or nested lists of it.
Nested: TypeAlias = "ArrayLike | Sequence[Nested]"


@operation
def generate(shape: ShapeLike, f: FunctionN) -> Array:
    """The array of `shape` whose element at (i, j, …) is `f(i, j, …)`.

    Parameters
        f: a function of the index, one integer scalar for each axis.

    Result: an array of that shape, whose elements are what `f` returns.

    >>> td.run(td.generate((2, 3), lambda i, j: 10 * i + j))
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    forbid_nesting("generate")
    where = user_location()
    extents, checks = as_shape(shape, "generate")
    arguments = [Scalar(Index(k)) for k in range(len(extents))]
    elements, structure = trace_elements(f, arguments, "generate", where)
    return generated(extents, elements, "generate", checks, structure)


@operation
def fill(shape: ShapeLike, s: Element) -> Array:
    """An array whose elements are all `s`.

    >>> td.fill((2, 2), 7)
    Array([[7, 7],
           [7, 7]])
    """
    return _everywhere(shape, s, None, "fill")


def _components(value: Any, operation: str) -> tuple[list[Expr], Structure]:
    """The expressions and the nesting of an element: a scalar or a tuple of scalars."""
    leaves, structure = flatten(value, lambda v: False)
    if not leaves:
        raise no_operand(value, operation)
    return [lift(leaf, operation) for leaf in leaves], structure


def _everywhere(
    shape: ShapeLike, value: ScalarLike, dtype: DTypeLike | None, operation: str
) -> Array:
    """A constant array, cast to `dtype` unless that is None; errors name `operation`."""
    forbid_nesting(operation)
    if dtype is not None:
        given, target = lift(value, operation), as_type(dtype)
        literal = given.weak and given.type.is_integer and target.is_integer
        value = Scalar(fit_weak(given, target) if literal else simplify.cast(given, target))
    leaves, structure = _components(value, operation)
    extents, checks = as_shape(shape, operation)
    elements = tuple(as_strong(e) for e in leaves)
    return generated(extents, elements, "fill", checks, structure)


@operation
def unit(s: Element) -> Array:
    """The rank-0 array of one value.

    >>> td.unit(5)
    Array(5)
    """
    forbid_nesting("unit")
    leaves, structure = _components(s, "unit")
    return generated((), tuple(as_strong(e) for e in leaves), "unit", structure=structure)


@operation
def the(a: ArrayLike) -> Scalar:
    """The value of a rank-0 array as a scalar; a scalar is returned as it is.

    Parameters
        a: a rank-0 array, or a scalar.

    >>> least = td.min(np.array([3, 1, 2]))
    >>> td.map(lambda e: e - td.the(least), np.array([3, 1, 2]))
    Array([2, 0, 1])
    """
    if isinstance(a, Scalar):
        return a
    array = as_array(a, "the")
    if array.ndim != 0:
        raise ShapeError(
            f"the() takes a rank-0 array, got rank {array.ndim}.",
            hint="Index it: a[i, j], or reduce it first: td.sum(a).",
        )
    made: Scalar = array._scalar_at(())
    return made


@operation
def array(object: Nested, dtype: DTypeLike | None = None) -> Array:
    """An array of what `td.use` takes, or of nested lists of numbers, which may be scalars and
    arrays of the program: those of one list have one shape, and are stacked along a new axis.

    An array of NumPy's is copied, as by `np.array`; `asarray` and `use` do not copy it.

    Parameters
        object: data, a number, or nested lists of numbers and arrays.

    Result: an array, with an axis for each level of lists before those of the elements.

    >>> n = td.sum(td.iota(4))
    >>> td.array([[1, n], [n + 1, 4]])
    Array([[1, 6],
           [7, 4]])
    """
    return asarray(object, dtype, copy=True)


def _nested(value: Nested) -> Array:
    if not isinstance(value, list | tuple):
        return as_array(value, "array")
    if not any(isinstance(x, Array | Scalar) for x in _leaves(value)):
        return use(list(value))
    parts = [_nested(x) for x in value]
    ranks = {p.ndim for p in parts}
    if len(ranks) > 1:
        raise ShapeError(
            f"array: a list of arrays of the ranks {', '.join(map(str, sorted(ranks)))}.",
            hint="All of a list have one shape.",
        )
    return later.stack(parts)


def _leaves(value: Nested) -> Iterator[ArrayLike]:
    for x in value if isinstance(value, list | tuple) else ():
        if isinstance(x, list | tuple):
            yield from _leaves(x)
        else:
            yield x


@operation
def asarray(
    a: Nested,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Array:
    """`array`: data is not copied before a program runs, unless `copy` is True.

    Parameters
        a: an array of any shape, a number, or nested lists of numbers.

    Result: an array of the shape of `a`, in its type unless `dtype` is given.

    Errors: `ShapeError` for `copy=False` of what has no memory of its own, such as a list.

    >>> td.asarray([1, 2], float)
    Array([1., 2.])
    """
    require_device(device, "asarray")
    listed = isinstance(a, list | tuple) or kind_of_literal(a) is not None
    if copy is False and listed:
        raise ShapeError(
            f"asarray: copy=False, but a {type(a).__name__} has no memory that could be shared.",
            hint="Omit copy.",
        )
    made = owned(_nested(a)) if copy else _nested(a)
    return made if dtype is None else made.astype(dtype)


@operation
def from_dlpack(x: ArrayLike, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """The array of an object with `__dlpack__`, without a copy unless `copy` is True.

    Parameters
        x: an object with `__dlpack__`.

    Result: an array of the shape and type of `x`.

    Errors: `TracingError` for an object without `__dlpack__`.

    >>> td.from_dlpack(np.array([1, 2]))
    Array([1, 2])
    """
    if not hasattr(x, "__dlpack__"):
        raise no_array(x, "from_dlpack")
    return asarray(x, device=device, copy=copy)


@operation
def copy(a: ArrayLike) -> Array:
    """An array with a copy of the data of an array of NumPy's, as they are now.

    Others never change, and are not copied: what treadle has computed, and, as long as it is not
    computed, a formula, which will read the data that it names.

    >>> q = np.array([3, 1, 2])
    >>> a = td.copy(q)
    >>> q[0] = 0
    >>> a
    Array([3, 1, 2])
    """
    return owned(as_array(a, "copy"))


@operation
def astype(
    x: ArrayLike, dtype: DTypeLike, *, copy: bool = True, device: str | None = None
) -> Array:
    """The array converted to `dtype`, as by `cast`.

    Parameters
        copy: no effect, as arrays never change; default True.

    >>> td.astype(np.array([1.5, 2.0]), int)
    Array([1, 2])
    """
    require_device(device, "astype")
    return cast(as_array(x, "astype"), dtype)


@operation
def iota(n: IntLike, dtype: DTypeLike = int64) -> Array:
    """0, 1, …, n − 1.

    Parameters
        dtype: the element type: td.float32, np.float32, float, "float32", …; default int64.

    >>> td.iota(4)
    Array([0, 1, 2, 3])
    """
    forbid_nesting("iota")
    extents, checks = as_shape((n,), "iota")
    element = simplify.cast(Index(0), as_type(dtype))
    return generated(extents, (element,), "iota", checks)


@operation
def full(
    shape: ShapeLike,
    fill_value: ScalarLike,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """An array whose elements are all `fill_value`, in `dtype`.

    >>> td.full(2, 7)
    Array([7, 7])
    """
    require_device(device, "full")
    return _everywhere(shape, fill_value, dtype, "full")


@operation
def zeros(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """An array of zeros, in float64 unless `dtype` is given.

    >>> td.zeros(2)
    Array([0., 0.])
    """
    require_device(device, "zeros")
    return _everywhere(shape, 0, float64 if dtype is None else dtype, "zeros")


@operation
def ones(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """An array of ones, in float64 unless `dtype` is given.

    >>> td.ones(2, dtype=td.int8)
    Array([1, 1], dtype=int8)
    """
    require_device(device, "ones")
    return _everywhere(shape, 1, float64 if dtype is None else dtype, "ones")


@operation
def empty(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """An array of zeros: arrays never change, so none is made to be filled later.

    >>> td.empty(2).shape
    (2,)
    """
    return zeros(shape, dtype, device=device)


@operation
def empty_like(a: ArrayLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """An array of any values, zeros, in the shape of `a`, and in its type unless `dtype` is
    given.

    >>> td.empty_like(np.arange(6).reshape(2, 3)).shape
    (2, 3)
    """
    return zeros_like(a, dtype, device=device)


@operation
def zeros_like(a: ArrayLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Zeros in the shape of `a`, and in its type unless `dtype` is given.

    >>> td.zeros_like(np.arange(6).reshape(2, 3))
    Array([[0, 0, 0],
           [0, 0, 0]])
    """
    array = as_array(a, "zeros_like")
    return full(array.shape, 0, array.types[0] if dtype is None else dtype, device=device)


@operation
def ones_like(a: ArrayLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Ones in the shape of `a`, and in its type unless `dtype` is given.

    >>> td.ones_like(np.array([3, 1, 2]))
    Array([1, 1, 1])
    """
    array = as_array(a, "ones_like")
    return full(array.shape, 1, array.types[0] if dtype is None else dtype, device=device)


@operation
def full_like(
    a: ArrayLike,
    fill_value: ScalarLike,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """`fill_value` in the shape of `a`, and in its type unless `dtype` is given.

    >>> td.full_like(np.array([0.0, 0.5, 1.0]), 0.25)
    Array([0.25, 0.25, 0.25])
    """
    array = as_array(a, "full_like")
    kind = array.types[0] if dtype is None else dtype
    return full(array.shape, fill_value, kind, device=device)


@operation
def arange(
    start: ScalarLike,
    stop: ScalarLike | None = None,
    step: ScalarLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """NumPy's arange; bounds and step may be integer scalars (run-time values) or Python numbers.

    Parameters
        start: the first number.
        stop: the end, excluded; default: `start`, and the range begins at 0.
        step: the distance of neighbours; default 1.

    >>> td.arange(1, 7, 2)
    Array([1, 3, 5])
    """
    forbid_nesting("arange")
    require_device(device, "arange")
    first: Any
    last: Any
    by: Any = step
    first, last = (0, start) if stop is None else (start, stop)
    if kind_of_literal(by) is not None and by == 0:
        raise ShapeError("arange: the step is 0.", hint="Give a step ≠ 0.")
    numbers = [
        isinstance(v, np.generic) or (kind_of_literal(v) and not isinstance(v, KnownExtent))
        for v in (first, last, by)
    ]
    if all(numbers):
        return _numbers(first, last, by, dtype)
    if kind_of_literal(by) == "float":
        raise TracingError(
            "arange with run-time bounds needs an integer step.",
            hint="Scale the result: start + step * td.iota(n).",
        )
    low, high, by = (on_host(as_count(v, "arange")) for v in (first, last, by))
    size, none = apply_primitive("absolute", [by]), constant(0)
    checks: tuple[Check, ...] = ()
    if isinstance(by, Const):
        span, wraps = distance(low, high) if by.value > 0 else distance(high, low)
    else:
        if known_before(by):
            checks = require(size, constant(1), "arange: the step is 0.", relation=">=",
                             hint="Give a step ≠ 0.")  # fmt: skip
        up, down = distance(low, high), distance(high, low)
        sides = [n if wrapped else greatest(n, none) for n, wrapped in (up, down)]
        span = simplify.select(apply_primitive("greater", [by, none]), *sides)
        wraps = up[1] or down[1]
    if wraps:
        checks += require(
            span,
            none,
            "arange: more than 2**63 - 1 numbers: no memory holds them.",
            relation=">=",
            error="DeviceOutOfMemory",
            hint="Use smaller arrays, or compute in parts.",
        )
    before = apply_primitive("floor_divide", [minus(span, constant(1)), size])
    count = greatest(plus(before, constant(1)), none)
    target = int64 if dtype is None else as_type(dtype)
    return _line(count, low, by, target, checks)


def _numbers(start: Any, stop: Any, step: Any, dtype: DTypeLike | None) -> Array:
    """`np.arange` from two of its values: first + k · (second - first)."""
    try:
        count = max(math.ceil((stop - start) / step), 0)
        kind = np.result_type(np.int64, *map(np.asarray, (start, stop, step)))
        kind = kind if dtype is None else as_type(dtype).numpy
        end = start + 2 * step if count > 2 and kind != np.bool_ else stop
        host = np.arange(start, end, step, dtype=kind)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ShapeError(
            f"arange: there are no numbers from {start!r} to {stop!r} in steps of {step!r}.",
            hint="Give finite real bounds, as in td.arange(0, 10, 2).",
        ) from error
    target = as_type(host.dtype)
    first = host[0] if len(host) else host.dtype.type(0)
    second = host[1] if len(host) > 1 else first
    if target.is_float:
        line = lift(np.float64(first)), lift(np.float64(second - first))
    else:
        line = lift(int(first)), lift(int(second) - int(first))
    return _line(constant(count), *line, target)


def _line(
    count: Expr, first: Expr, delta: Expr, target: Any, checks: tuple[Check, ...] = ()
) -> Array:
    first, delta = as_strong(first), as_strong(delta)
    k = simplify.cast(Index(0), delta.type)
    value = apply_primitive("add", [first, rounded_product(k, delta)])
    return generated((count,), (simplify.cast(value, target),), "arange", checks)


@operation
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: IntLike = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """`num` evenly spaced values from start to stop; the last is exactly `stop`.

    Parameters
        start: the first value, or an array of them.
        stop: the last value, or an array of them.
        dtype: the type; default: the common type of both, float64 of integers.

    Result: an array of rank 1; of arrays, which broadcast, with an axis in front of theirs.

    >>> td.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> td.linspace(0, np.array([1, 2]), 3)
    Array([[0. , 0. ],
           [0.5, 1. ],
           [1. , 2. ]])
    """
    forbid_nesting("linspace")
    require_device(device, "linspace")
    (count,), checks = as_shape((num,), "linspace")
    between, ends, more = _ends(start, stop)
    kind, _ = promote(ends[0].type, ends[0].weak, ends[1].type, ends[1].weak)
    kind = kind if kind.is_inexact else float64
    among = complex128 if kind.is_complex else float64
    a, b = (simplify.cast(as_strong(e), among) for e in ends)
    gaps = apply_primitive("subtract", [count, constant(1)]) if endpoint else count
    parts = simplify.cast(apply_primitive("maximum", [gaps, constant(1)]), among)
    step = apply_primitive("true_divide", [apply_primitive("subtract", [b, a]), parts])
    k = simplify.cast(Index(0), among)
    value = apply_primitive("add", [rounded_product(k, step), a])
    if endpoint:
        last = apply_primitive(
            "logical_and",
            [
                apply_primitive("equal", [Index(0), gaps]),
                apply_primitive("greater", [gaps, constant(0)]),
            ],
        )
        value = simplify.select(last, b, value)
    target = as_type(dtype) if dtype is not None else kind
    if target.is_integer:
        value = simplify.cast(value, float64)
        value = apply_primitive("floor", [value])
    made = (simplify.cast(value, target),)
    return generated((count, *between), made, "linspace", (*checks, *more))


def _ends(*values: ArrayLike) -> tuple[Shape, list[Expr], tuple[Check, ...]]:
    """The shape to which numbers and arrays broadcast, and their elements behind a first axis."""
    arrays = [as_array(v, "linspace") if _has_axes(v) else None for v in values]
    shapes = [() if a is None else a._shape for a in arrays]
    shape, checks = broadcast_shapes(shapes, "linspace")
    found = []
    for v, a in zip(values, arrays, strict=True):
        if a is None:
            found.append(lift(v, "linspace"))
            continue
        if not a.structure.is_leaf:
            raise DTypeError(
                f"linspace needs numbers, got {a.structure.describe(a.types)}.",
                hint="td.unzip(a) are the arrays of its components.",
            )
        axes = enumerate(a._shape, 1 + len(shape) - a.ndim)
        at = [constant(0) if known(n) == 1 else Index(k) for k, n in axes]
        found.append(a._element(tuple(at))[0])
    return shape, found, checks


def _has_axes(value: object) -> bool:
    """Whether it is an array of rank 1 or more, or lists of numbers."""
    return later.is_rows(value) or getattr(value, "ndim", 0) > 0


@operation
def logspace(
    start: ScalarLike,
    stop: ScalarLike,
    num: IntLike = 50,
    endpoint: bool = True,
    base: ScalarLike = 10.0,
    dtype: DTypeLike | None = None,
) -> Array:
    """`num` powers of `base` whose exponents are evenly spaced from `start` to `stop`.

    Parameters
        base: the base; default 10.

    >>> td.logspace(0, 3, 4)
    Array([   1.,   10.,  100., 1000.])
    """
    exponents = linspace(start, stop, num, endpoint)
    found: Array = power(cast(base, exponents.dtype), exponents)
    return found if dtype is None else found.astype(dtype)


@operation
def geomspace(
    start: ScalarLike,
    stop: ScalarLike,
    num: IntLike = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """`num` values from `start` to exactly `stop` (neither is 0, both have one sign, or are
    complex) with a constant ratio.

    >>> td.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.])
    """
    ends = [as_strong(lift(v, "geomspace")) for v in (start, stop)]
    among = complex128 if any(e.type.is_complex for e in ends) else float64
    first, last = (Scalar(simplify.cast(e, among)) for e in ends)
    exponents = linspace(0.0, 1.0, num, endpoint) * log10(last / first)
    gaps = exponents.shape[0] - 1 if endpoint else -1

    def value(k: Scalar) -> Scalar:
        between = first * power(cast(10.0, among), exponents[k])
        found: Scalar = where(k == 0, first, where(k == gaps, last, between))
        return found

    made: Array = generate(exponents.shape, value)
    return made if dtype is None else made.astype(dtype)


@operation
def eye(
    n: IntLike,
    m: IntLike | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """1 on the k-th diagonal, 0 elsewhere, in float64 unless `dtype` is given.

    Parameters
        dtype: the element type: td.float32, np.float32, float, "float32", …; default float64.

    >>> td.eye(2, dtype=int)
    Array([[1, 0],
           [0, 1]])
    """
    forbid_nesting("eye")
    require_device(device, "eye")
    if isinstance(n, tuple | list):
        raise ShapeError("eye takes two numbers, not a shape.", hint="Write td.eye(n, m).")
    extents, checks = as_shape((n, n if m is None else m), "eye")
    target = float64 if dtype is None else as_type(dtype)
    if isinstance(k, int):  # no axis is as long
        k = max(min(k, 1 << 62), -(1 << 62))
    on = apply_primitive(
        "equal", [apply_primitive("add", [Index(0), as_index(k, "eye")]), Index(1)]
    )
    element = simplify.select(on, Const(1, target), Const(0, target))
    return generated(extents, (element,), "eye", checks)


later.offer(unit=unit)
