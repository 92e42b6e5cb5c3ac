"""Scans: all prefixes, from either end, whole or by segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import simplify
from ..array import Array, as_array, map_over
from ..errors import DTypeError, ShapeError, user_location
from ..expr import Cond, Expr, Index, Proj, Read, constant
from ..graph import Generate, Label, Leaf, Scan
from ..scalar import apply_primitive
from ..tracing import forbid_nesting
from ..types import LEAF, bool_, tuple_of
from .common import combining, fit_to, label_of, normalise_axis, operation, trace_combine


def scan_array(
    f: Callable[..., Any],
    init: tuple[Any, ...],
    a: Any,
    axis: int,
    form: str,
    backward: bool,
    operation: str,
    name: str | None,
    schedule: Any,
) -> Array:
    """A Scan node; for form "total" the Array holds only the prefixes (see `_with_total`)."""
    forbid_nesting(operation)
    where = user_location()
    array = as_array(a, operation)
    if array.ndim == 0:
        raise ShapeError(f"{operation} needs an axis; the array has rank 0.")
    k = normalise_axis(axis, array.ndim, operation)
    types = array.types
    start = (
        fit_to(init[0], array.structure, types, "the initial value", operation) if init else None
    )
    combine = trace_combine(f, array.structure, types, operation, where)
    node = Scan(
        array._shape,
        k,
        tuple(array._element([Index(j) for j in range(array.ndim)])),
        combine,
        start,
        form,
        backward,
        label=label_of(operation, name, schedule),
        where=where,
    )
    count = array.structure.count
    return Array(node.leaves[:count], array.structure, node.outputs[0].shape)


def _with_total(prefix: Array) -> tuple[Array, Array]:
    node = prefix._leaves[0].node
    count = prefix.structure.count
    totals = Array(node.leaves[count:], prefix.structure, node.outputs[count].shape)
    return prefix, totals


@combining
def scanl(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    axis: int = -1,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """init, f(init, a₀), f(f(init, a₀), a₁), …: length n + 1; `f` associative.

    >>> import numpy as np, treadle as td
    >>> td.run(td.scanl(lambda x, y: x + y, 0, np.array([1, 2, 3])))
    array([0, 1, 3, 6])
    """
    return scan_array(f, (init,), a, axis, "exclusive", False, "scanl", name, schedule)


@combining
def scanl1(
    f: Callable[..., Any], a: Any, axis: int = -1, *, name: str | None = None, schedule: Any = None
) -> Array:
    """a₀, f(a₀, a₁), …: length n."""
    return scan_array(f, (), a, axis, "inclusive", False, "scanl1", name, schedule)


@combining
def scanl_total(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    axis: int = -1,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> tuple[Array, Array]:
    """The first n elements of `scanl`, and its last."""
    return _with_total(
        scan_array(f, (init,), a, axis, "total", False, "scanl_total", name, schedule)
    )


@combining
def scanr(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    axis: int = -1,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """From the right: element k is aₖ combined with all after it and `init`; length n + 1."""
    return scan_array(f, (init,), a, axis, "exclusive", True, "scanr", name, schedule)


@combining
def scanr1(
    f: Callable[..., Any], a: Any, axis: int = -1, *, name: str | None = None, schedule: Any = None
) -> Array:
    """From the right without an initial value: length n."""
    return scan_array(f, (), a, axis, "inclusive", True, "scanr1", name, schedule)


@combining
def scanr_total(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    axis: int = -1,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> tuple[Array, Array]:
    """The last n elements of `scanr`, and its first."""
    return _with_total(
        scan_array(f, (init,), a, axis, "total", True, "scanr_total", name, schedule)
    )


# --- segmented: a scan over (starts a segment, value) ------------------------------------------


def _segmented_inclusive(
    f: Callable[..., Any],
    a: Any,
    lengths: Any,
    backward: bool,
    operation: str,
    name: str | None,
    schedule: Any,
) -> tuple[Array, Leaf, Expr, Array]:
    """Inclusive scan of each segment of the last axis, with the offsets and their check."""
    from .folds import segment_offsets

    array = as_array(a, operation)
    if array.ndim == 0:
        raise ShapeError(f"{operation} needs an axis; the array has rank 0.")
    offsets, segments, _ = segment_offsets(lengths, array._shape[-1], operation)
    heads = _heads(offsets, segments, array._shape[-1], backward)
    rank = array.ndim
    flag = heads._element((Index(rank - 1),))[0]
    place = [Index(k) for k in range(rank)]
    joined = Generate(
        array._shape, (flag, *array._element(place)), label=Label("heads"), where=user_location()
    )
    structure = tuple_of([LEAF, array.structure])
    pairs = Array(joined.leaves, structure, array._shape)

    def combine(x: Any, y: Any) -> Any:
        from ..functions import where

        (head_x, u), (head_y, v) = x, y
        if backward:
            return head_x | head_y, where(head_x, u, f(u, v))
        return head_x | head_y, where(head_y, v, f(u, v))

    scanned = scan_array(combine, (), pairs, -1, "inclusive", backward, operation, name, schedule)
    values = Array(scanned._leaves[1:], array.structure, array._shape)
    return values, offsets, segments, array


def _heads(offsets: Leaf, segments: Expr, extent: Expr, backward: bool) -> Array:
    """True where a segment starts (or, backward, ends)."""
    from ..graph import Permute

    none = Generate(
        (extent,), (simplify.cast(constant(0), bool_),), label=Label("heads"), where=user_location()
    )
    at: Expr = offsets.at(Index(0))
    after = offsets.at(apply_primitive("add", [Index(0), constant(1)]))
    full = apply_primitive("less", [at, after])
    if backward:
        at = apply_primitive("subtract", [after, constant(1)])
    node = Permute(
        (segments,),
        full,
        (at,),
        (simplify.cast(constant(1), bool_),),
        none.leaves,
        None,
        label=Label("heads"),
        where=user_location(),
    )
    return Array(node.leaves)


def segment_of_position(offsets: Leaf, segments: Expr, extent: Expr, shift: int) -> Array:
    """The segment that each of `extent` positions belongs to, segment s starting at
    offsets[s] + shift·s."""
    from ..graph import Permute, canonical_combine
    from ..types import int64
    from .common import state_variables

    zero = Generate((extent,), (constant(0),), label=Label("segments"), where=user_location())
    start = apply_primitive(
        "add", [offsets.at(Index(0)), apply_primitive("multiply", [Index(0), constant(shift)])]
    )
    left, _ = state_variables(LEAF, (int64,), "new")
    right, _ = state_variables(LEAF, (int64,), "old")
    largest = canonical_combine(left, right, (apply_primitive("maximum", [left[0], right[0]]),))
    inside = apply_primitive("less", [start, extent])
    marks = Permute(
        (segments,),
        inside,
        (start,),
        (Index(0),),
        zero.leaves,
        largest,
        label=Label("segments"),
        where=user_location(),
    )
    return scan_array(
        lambda x, y: _maximum(x, y),
        (),
        Array(marks.leaves),
        0,
        "inclusive",
        False,
        "segments",
        None,
        None,
    )


def _maximum(x: Any, y: Any) -> Any:
    from ..functions import maximum

    return maximum(x, y)


def _exclusive_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    backward: bool,
    operation: str,
    name: str | None,
    schedule: Any,
) -> Array:
    """`scanl`/`scanr` of each segment: n + 1 results each, concatenated."""
    forbid_nesting(operation)
    values, offsets, segments, array = _segmented_inclusive(
        f, a, lengths, backward, operation, name, schedule
    )
    extent = apply_primitive("add", [array._shape[-1], segments])
    owner = segment_of_position(offsets, segments, extent, 1)
    last = array.ndim - 1
    segment = owner._element((Index(last),))[0]
    # Position inside its segment, and the element that the segment's prefix ends with.
    begin = apply_primitive("add", [_at(offsets, segment), segment])
    inside = apply_primitive("subtract", [Index(last), begin])
    length = apply_primitive(
        "subtract",
        [_after(offsets, segment, segments), _at(offsets, segment)],
    )
    alone = apply_primitive("equal", [inside, length if backward else constant(0)])
    source = apply_primitive("subtract", [Index(last), segment])
    if not backward:
        source = apply_primitive("subtract", [source, constant(1)])
    elements = _with_init(f, init, values, alone, source, backward, operation)
    shape = (*array._shape[:-1], extent)
    node = Generate(shape, elements, label=Label(operation), where=user_location())
    return Array(node.leaves, array.structure, shape)


def _at(leaf: Leaf, index: Expr) -> Read:
    return Read(leaf.node, leaf.component, (index,))


def _after(offsets: Leaf, segment: Expr, segments: Expr) -> Read:
    """The offset behind a segment; the last one where there is none (lengths that are wrong are
    found out while this runs already)."""
    following = apply_primitive("add", [segment, constant(1)])
    return _at(offsets, apply_primitive("minimum", [following, segments]))


def _with_init(
    f: Callable[..., Any],
    init: Any,
    values: Array,
    alone: Expr,
    source: Expr,
    backward: bool,
    operation: str,
) -> tuple[Expr, ...]:
    """`init` where `alone`, else init combined with the prefix that ends at `source` (there is none
    where lengths are wrong, which is found out while this runs already)."""
    from ..expr import substitute

    below = apply_primitive("less", [source, constant(0)])
    beyond = apply_primitive("greater_equal", [source, values._shape[-1]])
    none = apply_primitive("logical_or", [below, beyond])
    alone = apply_primitive("logical_or", [alone, none])

    start = fit_to(init, values.structure, values.types, "the initial value", operation)
    combine = trace_combine(f, values.structure, values.types, operation, user_location())
    lead = [Index(k) for k in range(values.ndim - 1)]
    prefix = values._element([*lead, source])
    left, right = (prefix, start) if backward else (start, prefix)
    mapping: dict[Expr, Expr] = dict(
        zip((*combine.left, *combine.right), (*left, *right), strict=True)
    )
    node = Cond(alone, start, substitute(combine.results, mapping))
    return tuple(Proj(node, k) for k in range(len(start)))


def _total_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    backward: bool,
    operation: str,
    name: str | None,
    schedule: Any,
) -> tuple[Array, Array]:
    """`scanl_total`/`scanr_total` of each segment: (n results each, one total per segment)."""
    forbid_nesting(operation)
    values, offsets, segments, array = _segmented_inclusive(
        f, a, lengths, backward, operation, name, schedule
    )
    last = array.ndim - 1
    owner = segment_of_position(offsets, segments, array._shape[-1], 0)
    segment = owner._element((Index(last),))[0]
    if backward:
        after = _after(offsets, segment, segments)
        source = apply_primitive("add", [Index(last), constant(1)])
        alone = apply_primitive("greater_equal", [source, after])
    else:
        source = apply_primitive("subtract", [Index(last), constant(1)])
        alone = apply_primitive("less_equal", [Index(last), _at(offsets, segment)])
    elements = _with_init(f, init, values, alone, source, backward, operation)
    prefix = Generate(array._shape, elements, label=Label(operation), where=user_location())
    s = Index(last)
    first = _at(offsets, s)
    behind = _at(offsets, apply_primitive("add", [s, constant(1)]))
    empty = apply_primitive("equal", [first, behind])
    at = first if backward else apply_primitive("subtract", [behind, constant(1)])
    ends = _with_init(f, init, values, empty, at, backward, operation)
    shape = (*array._shape[:-1], segments)
    totals = Generate(shape, ends, label=Label(operation), where=user_location())
    return (
        Array(prefix.leaves, array.structure, array._shape),
        Array(totals.leaves, array.structure, shape),
    )


@combining
def scanl_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """`scanl` of each segment of the last axis, results concatenated (n + 1 for each)."""
    return _exclusive_seg(f, init, a, lengths, False, "scanl_seg", name, schedule)


@combining
def scanl1_seg(
    f: Callable[..., Any], a: Any, lengths: Any, *, name: str | None = None, schedule: Any = None
) -> Array:
    """`scanl1` of each segment of the last axis."""
    forbid_nesting("scanl1_seg")
    return _segmented_inclusive(f, a, lengths, False, "scanl1_seg", name, schedule)[0]


@combining
def scanl_total_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> tuple[Array, Array]:
    """`scanl_total` of each segment of the last axis."""
    return _total_seg(f, init, a, lengths, False, "scanl_total_seg", name, schedule)


@combining
def scanr_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> Array:
    """`scanr` of each segment of the last axis, results concatenated (n + 1 for each)."""
    return _exclusive_seg(f, init, a, lengths, True, "scanr_seg", name, schedule)


@combining
def scanr1_seg(
    f: Callable[..., Any], a: Any, lengths: Any, *, name: str | None = None, schedule: Any = None
) -> Array:
    """`scanr1` of each segment of the last axis."""
    forbid_nesting("scanr1_seg")
    return _segmented_inclusive(f, a, lengths, True, "scanr1_seg", name, schedule)[0]


@combining
def scanr_total_seg(
    f: Callable[..., Any],
    init: Any,
    a: Any,
    lengths: Any,
    *,
    name: str | None = None,
    schedule: Any = None,
) -> tuple[Array, Array]:
    """`scanr_total` of each segment of the last axis."""
    return _total_seg(f, init, a, lengths, True, "scanr_total_seg", name, schedule)


# --- NumPy's ---------------------------------------------------------------------------------


def _cumulative(a: Any, axis: int | None, operation: str, primitive: str, widen: bool) -> Array:
    from .folds import simple_combine, summed_type
    from .index_space import flatten

    forbid_nesting(operation)
    array = as_array(a, operation)
    if not array.structure.is_leaf:
        raise DTypeError(f"{operation} works on scalars, but the elements are tuples.")
    if axis is None:
        array, axis = flatten(array), 0
    if array.ndim == 0:
        array = map_over(array, (), (constant(1),), Label(operation))
    k = normalise_axis(axis, array.ndim, operation)
    t = summed_type(array.types[0]) if widen else array.types[0]
    element = simplify.cast(array._element([Index(j) for j in range(array.ndim)])[0], t)
    node = Scan(
        array._shape,
        k,
        (element,),
        simple_combine(primitive, t),
        None,
        "inclusive",
        False,
        label=Label(operation),
        where=user_location(),
    )
    return Array(node.leaves, LEAF, array._shape)


@combining
def cumsum(a: Any, axis: int | None = None) -> Array:
    """Running sums; axis None: of the flattened array."""
    return _cumulative(a, axis, "cumsum", "add", True)


@combining
def cumprod(a: Any, axis: int | None = None) -> Array:
    """Running products."""
    return _cumulative(a, axis, "cumprod", "multiply", True)


@operation
def cummax(a: Any, axis: int | None = None) -> Array:
    """Running maxima."""
    return _cumulative(a, axis, "cummax", "maximum", False)


@operation
def cummin(a: Any, axis: int | None = None) -> Array:
    """Running minima."""
    return _cumulative(a, axis, "cummin", "minimum", False)
