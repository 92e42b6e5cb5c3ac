"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from .. import simplify
from ..array import Array, as_array, map_over
from ..errors import DTypeError, ShapeError, user_location
from ..expr import Const, Expr, Index, Read, constant
from ..graph import Check, Combine, Fold, FoldSeg, Generate, Label, Leaf, Shape, known
from ..primitives import real_part
from ..scalar import Scalar, apply_primitive
from ..tracing import forbid_nesting
from ..types import LEAF, ScalarType, float32, float64, int64, uint64
from .common import (
    combining,
    fit_to,
    label_of,
    normalise_axes,
    normalise_axis,
    operation,
    trace_combine,
)


def split_axes(array: Array, axes: Sequence[int]) -> tuple[Shape, Shape, list[Expr]]:
    """Outer and inner extents, and where an element is in terms of Index(outer…, inner…)."""
    outer_axes = [k for k in range(array.ndim) if k not in axes]
    place: list[Expr] = [constant(0)] * array.ndim
    for position, k in enumerate([*outer_axes, *axes]):
        place[k] = Index(position)
    outer = tuple(array._shape[k] for k in outer_axes)
    inner = tuple(array._shape[k] for k in axes)
    return outer, inner, place


def _with_unit_axis(array: Array) -> tuple[Array, tuple[int, ...]]:
    """Reducing over no axis at all (`axis=()`) is reducing over a new one of extent 1."""
    place = [Index(k) for k in range(array.ndim)]
    made = map_over(array, place, (*array._shape, constant(1)), Label("expand_dims"))
    return made, (array.ndim,)


def _not_empty(array: Array, axes: Sequence[int], operation: str) -> tuple[Check, ...]:
    checks = []
    for k in axes:
        extent = known(array._shape[k])
        text = (
            f"{operation} of an empty axis: axis {k} has extent {{left}} and there is no "
            "neutral element."
        )
        hint = "td.fold(f, init, a) gives init for an empty axis."
        if extent is not None and int(extent) == 0:
            raise ShapeError(text.format(left=0), hint=hint)
        if not isinstance(array._shape[k], Const):
            checks.append(
                Check(
                    array._shape[k],
                    constant(1),
                    text,
                    relation=">=",
                    hint=hint,
                    where=user_location(),
                )
            )
    return tuple(checks)


@operation
def fold(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    axis: Any = -1,
    *,
    name: str | None = None,
    schedule: Any = None,
    deterministic: bool = False,
) -> Array:
    """Reduce along `axis` (an int, a tuple, or None for all) with an associative `f`.

    `f` need not be commutative; `init` is combined once, on the left; an empty axis gives `init`.

    >>> import numpy as np, treadle as td
    >>> td.run(td.fold(lambda x, y: x + y, 0, np.array([[1, 2], [3, 4]])))
    array([3, 7])
    """
    return _fold(f, (init,), a, axis, "fold", name, schedule, deterministic)


@operation
def fold1(
    f: Callable[..., Any],
    a: Any,
    axis: Any = -1,
    *,
    name: str | None = None,
    schedule: Any = None,
    deterministic: bool = False,
) -> Array:
    """`fold` without an initial value; an empty axis is a `ShapeError`."""
    return _fold(f, (), a, axis, "fold1", name, schedule, deterministic)


def _fold(
    f: Callable[..., Any],
    init: tuple[Any, ...],
    a: Any,
    axis: Any,
    operation: str,
    name: str | None,
    schedule: Any,
    deterministic: bool,
) -> Array:
    forbid_nesting(operation)
    where = user_location()
    array = as_array(a, operation)
    axes = normalise_axes(axis, array.ndim, operation)
    if not axes:
        array, axes = _with_unit_axis(array)
    checks = () if init else _not_empty(array, axes, operation)
    types = array.types
    start = (
        fit_to(init[0], array.structure, types, "the initial value", operation) if init else None
    )
    combine = trace_combine(f, array.structure, types, operation, where)
    outer, inner, place = split_axes(array, axes)
    node = Fold(
        outer,
        inner,
        tuple(array._element(place)),
        combine,
        start,
        label=label_of(operation, name, schedule, deterministic),
        where=where,
        checks=checks,
    )
    return Array(node.leaves, array.structure, outer)


# --- segments --------------------------------------------------------------------------------


def segment_offsets(lengths: Any, extent: Expr, operation: str) -> tuple[Leaf, Expr, Array]:
    """Offsets (segments + 1, int64) of segments of `lengths`, checked to cover `extent`.

    The check reads two numbers on the host before any result can be read; until then the offsets
    are kept within the extent, so that a kernel that runs before the check touches nothing else.
    """
    from .scans import scan_array

    array = as_array(lengths, operation)
    if array.ndim != 1 or not array.structure.is_leaf or not array.types[0].is_integer:
        raise ShapeError(
            f"{operation}: lengths must be a rank-1 integer array, got rank {array.ndim} of "
            f"{array.structure.describe(array.types)}.",
        )
    wide = simplify.cast(array._element((Index(0),))[0], int64)
    widened = Generate(array._shape, (wide,), label=Label("lengths"), where=user_location())
    lengths64 = Array(widened.leaves)
    offsets = scan_array(
        lambda x, y: x + y, (0,), lengths64, 0, "exclusive", False, "offsets", None, None
    )
    smallest, total = (
        fold(lambda x, y, f=f: Scalar(apply_primitive(f, [x._expr, y._expr])), 0, lengths64)
        for f in ("minimum", "add")
    )
    where = user_location()
    checks = (
        Check(
            smallest._element(())[0],
            constant(0),
            f"{operation}: a segment has the negative length {{left}}.",
            relation=">=",
            where=where,
        ),
        Check(
            total._element(())[0],
            extent,
            f"{operation}: the segment lengths sum to {{left}}, but the axis has extent {{right}}.",
            where=where,
            hint="Every element belongs to one segment: the lengths must add up to the extent.",
        ),
    )
    source = known_source(array)
    if source is not None:
        import numpy as np

        held = np.asarray(source)
        have = known(extent)
        if (held < 0).any():
            raise ShapeError(checks[0].message.format(left=int(held.min())))
        if have is not None and int(held.sum(dtype=np.int64)) != int(have):
            raise ShapeError(
                checks[1].message.format(left=int(held.sum(dtype=np.int64)), right=int(have)),
                hint=checks[1].hint,
            )
    place = apply_primitive("maximum", [offsets._element((Index(0),))[0], constant(0)])
    held_node = Generate(
        offsets._shape,
        (apply_primitive("minimum", [place, extent]),),
        label=Label("offsets"),
        where=where,
        checks=checks,
    )
    return held_node.leaf(), array._shape[0], lengths64


def known_source(array: Array) -> Any:
    """The host data of an array that is an input, else None."""
    import numpy as np

    from ..graph import Input

    node = array._leaves[0].node
    if isinstance(node, Input) and isinstance(node.source, np.ndarray):
        return node.source
    return None


@combining
def fold_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """`fold` of each segment of the last axis; empty segments give `init`.

    >>> import numpy as np, treadle as td
    >>> td.run(td.fold_seg(lambda x, y: x + y, 0, np.array([1, 2, 3]), np.array([2, 0, 1])))
    array([3, 0, 3])
    """
    return _fold_seg(f, (init,), a, lengths, "fold_seg", name, schedule)


@combining
def fold1_seg(
    f: Callable[..., Any], a: Any, lengths: Any, *, name: str | None = None, schedule: Any = None
) -> Array:
    """`fold1` of each segment of the last axis; an empty segment is a `ShapeError`."""
    return _fold_seg(f, (), a, lengths, "fold1_seg", name, schedule)


def _fold_seg(
    f: Callable[..., Any],
    init: tuple[Any, ...],
    a: Any,
    lengths: Any,
    operation: str,
    name: str | None,
    schedule: Any,
) -> Array:
    forbid_nesting(operation)
    where = user_location()
    array = as_array(a, operation)
    if array.ndim == 0:
        raise ShapeError(f"{operation} needs an axis; the array has rank 0.")
    offsets, segments, lengths64 = segment_offsets(lengths, array._shape[-1], operation)
    checks: tuple[Check, ...] = ()
    if not init:
        smallest = fold(
            lambda x, y: Scalar(apply_primitive("minimum", [x._expr, y._expr])), 1, lengths64
        )
        text = f"{operation}: a segment is empty (length {{left}}) and there is no initial value."
        source = known_source(as_array(lengths))
        if source is not None and (source == 0).any():
            raise ShapeError(text.format(left=0), hint="td.fold_seg(f, init, …) gives init.")
        checks = (Check(smallest._element(())[0], constant(1), text, relation=">=", where=where),)
    start = (
        fit_to(init[0], array.structure, array.types, "the initial value", operation)
        if init
        else None
    )
    combine = trace_combine(f, array.structure, array.types, operation, where)
    place = [Index(k) for k in range(array.ndim)]
    node = FoldSeg(
        array._shape[:-1],
        segments,
        array._shape[-1],
        offsets,
        tuple(array._element(place)),
        combine,
        start,
        label=label_of(operation, name, schedule),
        where=where,
        checks=checks,
    )
    return Array(node.leaves, array.structure, (*array._shape[:-1], segments))


# --- NumPy's reductions ----------------------------------------------------------------------


def simple_combine(name: str, type_: ScalarType) -> Combine:
    """`left op right` for a primitive that is associative and commutative."""
    from ..graph import canonical_combine
    from .common import state_variables

    left, _ = state_variables(LEAF, (type_,), "left")
    right, _ = state_variables(LEAF, (type_,), "right")
    return canonical_combine(left, right, (apply_primitive(name, [left[0], right[0]]),))


def reduce(
    array: Array,
    axis: Any,
    keepdims: bool,
    operation: str,
    element: Callable[[Expr], Expr],
    primitive: str,
    init: Any,
    finish: Callable[[Expr], Expr] | None = None,
) -> Array:
    """A reduction by a primitive over converted elements, NumPy's axis rules."""
    forbid_nesting(operation)
    if not array.structure.is_leaf:
        raise DTypeError(
            f"{operation} works on scalars, but the elements are tuples.",
            hint="Take them apart with td.unzip(a), or use td.fold.",
        )
    ndim = array.ndim
    axes = kept = normalise_axes(axis, ndim, operation)
    if not axes:
        array, axes = _with_unit_axis(array)
    checks = _not_empty(array, axes, operation) if init is None else ()
    outer, inner, place = split_axes(array, axes)
    value = element(array._element(place)[0])
    start = None if init is None else (Const(init, value.type),)
    node = Fold(
        outer,
        inner,
        (value,),
        simple_combine(primitive, value.type),
        start,
        label=Label(operation),
        where=user_location(),
        checks=checks,
    )
    result = Array(node.leaves, LEAF, outer)
    if finish is not None:
        ends = tuple(finish(e) for e in result._element([Index(k) for k in range(len(outer))]))
        made = Generate(outer, ends, label=Label(operation), where=user_location())
        result = Array(made.leaves, LEAF, outer)
    return keep_dimensions(result, kept, ndim) if keepdims else result


def keep_dimensions(result: Array, axes: Sequence[int], ndim: int) -> Array:
    """Put the reduced axes back with extent 1."""
    shape: list[Expr] = []
    place: list[Expr] = []
    for k in range(ndim):
        if k in axes:
            shape.append(constant(1))
        else:
            shape.append(result._shape[len(place)])
            place.append(Index(k))
    return map_over(result, place, tuple(shape), Label("keepdims"))


def summed_type(t: ScalarType) -> ScalarType:
    """The type NumPy sums in."""
    if t.kind == "bool" or t.kind == "int":
        return int64
    return uint64 if t.kind == "uint" else t


def wide_type(t: ScalarType) -> ScalarType:
    """The type sums are accumulated in: half precision in float32."""
    wide = summed_type(t)
    return float32 if wide.is_float and wide.bits == 16 else wide


def _narrow(target: ScalarType, wide: ScalarType) -> Callable[[Expr], Expr] | None:
    return None if target == wide else (lambda e: simplify.cast(e, target))


@combining
def sum(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Sum; small integers and booleans in 64 bits, as NumPy."""
    array = as_array(a, "sum")
    t = array.types[0]
    wide = wide_type(t)
    return reduce(
        array,
        axis,
        keepdims,
        "sum",
        lambda e: simplify.cast(e, wide),
        "add",
        0,
        _narrow(summed_type(t), wide),
    )


@combining
def prod(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Product; small integers and booleans in 64 bits, as NumPy."""
    array = as_array(a, "prod")
    t = array.types[0]
    wide = wide_type(t)
    return reduce(
        array,
        axis,
        keepdims,
        "prod",
        lambda e: simplify.cast(e, wide),
        "multiply",
        1,
        _narrow(summed_type(t), wide),
    )


@operation
def min(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The least element; NaN if there is one; an empty axis is a `ShapeError`."""
    return reduce(as_array(a, "min"), axis, keepdims, "min", lambda e: e, "minimum", None)


@operation
def max(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The greatest element; NaN if there is one; an empty axis is a `ShapeError`."""
    return reduce(as_array(a, "max"), axis, keepdims, "max", lambda e: e, "maximum", None)


amin, amax = min, max


@operation
def all(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether every element is nonzero."""
    from ..scalar import as_truth

    return reduce(as_array(a, "all"), axis, keepdims, "all", as_truth, "logical_and", True)


@operation
def any(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether some element is nonzero."""
    from ..scalar import as_truth

    return reduce(as_array(a, "any"), axis, keepdims, "any", as_truth, "logical_or", False)


@operation
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """How many elements are nonzero (int64)."""
    from ..scalar import as_truth

    return reduce(
        as_array(a, "count_nonzero"),
        axis,
        keepdims,
        "count_nonzero",
        lambda e: simplify.cast(as_truth(e), int64),
        "add",
        0,
    )


@combining
def mean(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Arithmetic mean; integers in float64; an empty axis gives NaN."""
    from .index_space import product

    array = as_array(a, "mean")
    t = array.types[0]
    target = t if t.is_inexact else float64
    wide = float32 if target.is_float and target.bits == 16 else target
    axes = normalise_axes(axis, array.ndim, "mean")
    count = product([array._shape[k] for k in axes])

    def finish(total: Expr) -> Expr:
        share = simplify.cast(simplify.cast(count, real_part(wide)), wide)
        return simplify.cast(apply_primitive("true_divide", [total, share]), target)

    return reduce(array, axis, keepdims, "mean", lambda e: simplify.cast(e, wide), "add", 0, finish)


@combining
def var(
    a: Any,
    axis: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """Variance, in two passes; `name` and `schedule` are those of the second."""
    from ..functions import absolute, cast, square, subtract
    from .index_space import product

    array = as_array(a, "var")
    centred = subtract(array, mean(array, axis, keepdims=True))
    squares = square(absolute(centred))
    axes = normalise_axes(axis, array.ndim, "var")
    count = Scalar(
        apply_primitive("subtract", [product([array._shape[k] for k in axes]), constant(int(ddof))])
    )
    total = sum(squares, axis, keepdims, name=name, schedule=schedule)
    return total / cast(count, squares.types[0])  # type: ignore[no-any-return]


@combining
def std(
    a: Any,
    axis: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """Standard deviation; `name` and `schedule` as of `var`."""
    from ..functions import sqrt

    squared = var(a, axis, ddof, keepdims, name=name, schedule=schedule)
    return sqrt(squared)  # type: ignore[no-any-return]


@operation
def argmin(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Index of the first least element (int64); of the first NaN if there is one."""
    return _argument(a, axis, keepdims, "argmin", "less")


@operation
def argmax(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Index of the first greatest element (int64); of the first NaN if there is one."""
    return _argument(a, axis, keepdims, "argmax", "greater")


def _argument(a: Any, axis: Any, keepdims: bool, operation: str, better: str) -> Array:
    from .index_space import linear

    forbid_nesting(operation)
    array = as_array(a, operation)
    if not array.structure.is_leaf:
        raise DTypeError(f"{operation} works on scalars, but the elements are tuples.")
    axes = (
        tuple(range(array.ndim)) if axis is None else (normalise_axis(axis, array.ndim, operation),)
    )
    checks = _not_empty(array, axes, operation)
    outer, inner, place = split_axes(array, axes)
    value = array._element(place)[0]
    # Two vectorised passes: the extreme itself, then the first place where it stands.
    best = "minimum" if better == "less" else "maximum"
    extreme = Fold(
        outer,
        inner,
        (value,),
        simple_combine(best, value.type),
        None,
        label=Label(operation),
        where=user_location(),
        checks=checks,
    )
    found = Read(extreme, 0, tuple(Index(k) for k in range(len(outer))))
    hit = apply_primitive("equal", [value, found])
    if value.type.is_inexact:
        nan = apply_primitive(
            "logical_and", [apply_primitive("isnan", [e]) for e in (value, found)]
        )
        hit = apply_primitive("logical_or", [hit, nan])
    at = linear([Index(len(outer) + k) for k in range(len(inner))], inner)
    never = Const(int64.highest, int64)
    node = Fold(
        outer,
        inner,
        (simplify.select(hit, at, never),),
        simple_combine("minimum", int64),
        (never,),
        label=Label(operation),
        where=user_location(),
        checks=checks,
    )
    result = Array(node.leaves, LEAF, outer)
    return keep_dimensions(result, axes, array.ndim) if keepdims else result


@lru_cache(maxsize=64)
def argument_combine(type_: ScalarType, better: str) -> Combine:
    """Of two (value, index) the one whose value is better ("less" or "greater"), NaN best of all;
    of equal values the one of lower index.  Commutes."""
    from ..graph import canonical_combine
    from .common import state_variables

    left, _ = state_variables(LEAF, (type_, int64), "left")
    right, _ = state_variables(LEAF, (type_, int64), "right")
    (x, i), (y, j) = left, right
    take = apply_primitive(better, [y, x])
    same = apply_primitive("equal", [x, y])
    if type_.is_inexact:
        x_nan, y_nan = (apply_primitive("isnan", [e]) for e in (x, y))
        only = apply_primitive("logical_and", [y_nan, apply_primitive("logical_not", [x_nan])])
        take = apply_primitive("logical_or", [take, only])
        both = apply_primitive("logical_and", [x_nan, y_nan])
        same = apply_primitive("logical_or", [same, both])
    earlier = apply_primitive("logical_and", [same, apply_primitive("less", [j, i])])
    take = apply_primitive("logical_or", [take, earlier])
    return canonical_combine(
        left, right, (simplify.select(take, y, x), simplify.select(take, j, i))
    )


def argument_ahead(combine: Combine) -> Combine | None:
    """What an `argument_combine` is where the right index is the greater: ties need no test."""
    from ..graph import canonical_combine
    from .common import state_variables

    better = argument_of(combine)
    if better is None:
        return None
    type_ = combine.results[0].type
    left, _ = state_variables(LEAF, (type_, int64), "left")
    right, _ = state_variables(LEAF, (type_, int64), "right")
    take = argument_passes(better, left[0], right[0])
    chosen = (simplify.select(take, y, x) for x, y in zip(left, right, strict=True))
    return canonical_combine(left, right, tuple(chosen))


def argument_passes(better: str, x: Expr, y: Expr) -> Expr:
    """Whether `y`, which comes later, is better than `x`, or the first NaN."""
    if not x.type.is_inexact:
        return apply_primitive(better, [y, x])
    no_better = {"greater": "less_equal", "less": "greater_equal"}[better]
    passes = apply_primitive("logical_not", [apply_primitive(no_better, [y, x])])
    number = apply_primitive("logical_not", [apply_primitive("isnan", [x])])
    return apply_primitive("logical_and", [passes, number])


def argument_of(combine: Combine) -> str | None:
    """ "less" or "greater" if it is that `argument_combine`, else None."""
    types = [r.type for r in combine.results]
    if len(types) != 2 or types[1] != int64 or types[0].is_complex:
        return None
    for better in ("less", "greater"):
        if argument_combine(types[0], better).results == combine.results:
            return better
    return None


def is_commutative(combine: Combine) -> bool:
    """Whether every component is a primitive known to commute, on its own component."""
    from ..expr import Apply

    for left, right, result in zip(combine.left, combine.right, combine.results, strict=True):
        if not (isinstance(result, Apply) and result.op.reduces and len(result.args) == 2):
            return False
        if {result.args[0], result.args[1]} != {left, right}:
            return False
    return True
