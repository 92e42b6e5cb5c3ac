"""Operations on segments of the last axis: `fold_seg` and the scans whose names contain `_seg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import simplify
from ...analysis.combines import simple_combine
from ...annotations import ArrayLike, Element, Function, ScheduleLike
from ...array import Array, generated
from ...errors import ShapeError, user_location
from ...expr import Cond, Const, Expr, Index, Proj, Read, constant
from ...frontend.deferred import HostArray, fact
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Check, Combine, Fold, FoldSeg, Generate, Label, Leaf, Permute, known
from ...scalar import apply_primitive
from ...types import LEAF, bool_, int64, tuple_of
from ..common import combining, fit_to, normalise_axis, trace_combine
from ..elements.functions import maximum, minimum, where
from ..indexing.row_major import ends
from .scans import scan_array

__all__ = ["fold1_seg", "fold_seg", "scanl1_seg", "scanl_seg", "scanl_total_seg", "scanr1_seg",
           "scanr_seg", "scanr_total_seg"]  # fmt: skip

# --- offsets of segments ---------------------------------------------------------------------

#: Lengths and sums of lengths saturate here instead of overflowing; no array has so many elements.
ENDLESS = (1 << 62) - 1


def length_of(e: Expr) -> Expr:
    """A length as int64, clamped to `ENDLESS`."""
    bounded = e.type.bits < 64
    most = e if bounded else apply_primitive("minimum", [e, Const(ENDLESS, e.type)])
    return simplify.cast(most, int64)


def add_lengths(x: Element, y: Element) -> Element:
    """The sum of two lengths, clamped to `ENDLESS`."""
    return minimum(x + y, ENDLESS)


def segment_offsets(lengths: ArrayLike, extent: Expr, operation: str) -> tuple[Leaf, Expr, Array]:
    """Offsets (segments + 1, int64) of segments of `lengths`, checked to cover `extent`.

    The host reads two numbers for the check before any result can be read.  Until then the offsets
    are clamped to the extent, so that kernels that run before the check stay in range.
    """
    array = as_array(lengths, operation)
    if array.ndim != 1 or not array.structure.is_leaf or not array.types[0].is_integer:
        raise ShapeError(
            f"{operation}: lengths must be a rank-1 integer array, got rank {array.ndim} of "
            f"{array.structure.describe(array.types)}.",
            hint="Give one length per segment: np.array([3, 0, 2]).",
        )
    wide = length_of(array._element((Index(0),))[0])
    lengths64 = generated(array._shape, (wide,), "lengths")
    offsets = scan_array(lambda x, y: x + y, (0,), lengths64, 0, "exclusive", False, "offsets")
    where = user_location()
    smallest = _of_lengths(simple_combine("minimum", int64), 0, lengths64)
    added = trace_combine(add_lengths, LEAF, (int64,), operation, where)
    total = _of_lengths(added, 0, lengths64)
    checks = (
        Check(
            smallest,
            constant(0),
            f"{operation}: a segment has the negative length {{left}}.",
            relation=">=",
            where=where,
            hint="The length of an empty segment is 0.",
        ),
        Check(
            total,
            extent,
            f"{operation}: the segment lengths sum to {{left}}, but the axis has extent {{right}}.",
            where=where,
            hint="Every element belongs to one segment: the lengths must add up to the extent.",
        ),
    )
    have = known(extent)
    negative, other = ((check.message, check.hint) for check in checks)

    def fit(data: HostArray) -> bool:
        if np.less(data, 0).any():
            raise ShapeError(negative[0].format(left=int(data.min())), hint=negative[1])
        small = not data.size or int(data.max()) * data.size < 1 << 63
        sum_ = int(data.sum(dtype=np.int64 if small else object))
        if have is not None and sum_ != int(have):
            raise ShapeError(other[0].format(left=sum_, right=int(have)), hint=other[1])
        return True

    fact(array, fit)
    index = apply_primitive("maximum", [offsets._element((Index(0),))[0], constant(0)])
    lengths_node = Generate(
        offsets._shape,
        (apply_primitive("minimum", [index, extent]),),
        label=Label("offsets"),
        where=where,
        checks=checks,
    )
    return lengths_node.leaf(), array._shape[0], lengths64


def _of_lengths(combine: Combine, init: int, lengths: Array) -> Expr:
    """All lengths combined, for a check to compare."""
    node = Fold(
        (),
        lengths._shape,
        tuple(lengths._element((Index(0),))),
        combine,
        (constant(init),),
        label=Label("check of lengths"),
        where=user_location(),
    )
    return node.leaf().at()


# --- folds -----------------------------------------------------------------------------------


@combining
def fold_seg(f: Function, init: Element, a: ArrayLike, lengths: ArrayLike) -> Array:
    """`fold` of each segment of the last axis; empty segments give `init`.

    >>> td.run(td.fold_seg(lambda x, y: x + y, 0, np.array([1, 2, 3]), np.array([2, 0, 1])))
    array([3, 0, 3])
    """
    return _fold_seg(f, (init,), a, lengths, "fold_seg")


@combining
def fold1_seg(f: Function, a: ArrayLike, lengths: ArrayLike) -> Array:
    """`fold1` of each segment of the last axis; an empty segment raises a `ShapeError`.

    >>> add = lambda a, b: a + b
    >>> td.fold1_seg(add, np.array([3, 1, 2]), [2, 1])
    Array([4, 2])
    """
    return _fold_seg(f, (), a, lengths, "fold1_seg")


def _fold_seg(
    f: Function, init: tuple[Any, ...], a: ArrayLike, lengths: ArrayLike, operation: str
) -> Array:
    forbid_nesting(operation)
    where = user_location()
    array = as_array(a, operation)
    normalise_axis(-1, array.ndim, operation)
    offsets, segments, lengths64 = segment_offsets(lengths, array._shape[-1], operation)
    checks: tuple[Check, ...] = ()
    if not init:
        smallest = _of_lengths(simple_combine("minimum", int64), 1, lengths64)
        text = f"{operation}: a segment is empty (length {{left}}) and there is no initial value."

        def none_is_empty(data: HostArray) -> bool:
            if (data == 0).any():
                raise ShapeError(text.format(left=0), hint="td.fold_seg(f, init, …) gives init.")
            return True

        fact(as_array(lengths), none_is_empty)
        checks = (Check(smallest, constant(1), text, relation=">=", where=where),)
    start = (
        fit_to(init[0], array.structure, array.types, "the initial value", operation)
        if init
        else None
    )
    combine = trace_combine(f, array.structure, array.types, operation, where)
    index = [Index(k) for k in range(array.ndim)]
    node = FoldSeg(
        array._shape[:-1],
        segments,
        array._shape[-1],
        offsets,
        tuple(array._element(index)),
        combine,
        start,
        label=Label(operation),
        where=where,
        checks=checks,
    )
    return Array(node.leaves, array.structure, (*array._shape[:-1], segments))


# --- scans over pairs (whether a segment starts, value) --------------------------------------


def _segmented_inclusive(
    f: Function,
    a: ArrayLike,
    lengths: ArrayLike,
    backward: bool,
    operation: str,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> tuple[Array, Leaf, Expr, Array]:
    """Inclusive scan of each segment of the last axis, with the offsets and their check."""
    array = as_array(a, operation)
    normalise_axis(-1, array.ndim, operation)
    offsets, segments, _ = segment_offsets(lengths, array._shape[-1], operation)
    heads = _heads(offsets, segments, array._shape[-1], backward)
    rank = array.ndim
    flag = heads._element((Index(rank - 1),))[0]
    index = [Index(k) for k in range(rank)]
    joined = Generate(
        array._shape, (flag, *array._element(index)), label=Label("heads"), where=user_location()
    )
    structure = tuple_of([LEAF, array.structure])
    pairs = Array(joined.leaves, structure, array._shape)

    def combine(x: Element, y: Element) -> Element:
        (head_x, u), (head_y, v) = x, y
        if backward:
            return head_x | head_y, where(head_x, u, f(u, v))
        return head_x | head_y, where(head_y, v, f(u, v))

    scanned = scan_array(combine, (), pairs, -1, "inclusive", backward, operation, name, schedule)
    values = Array(scanned._leaves[1:], array.structure, array._shape)
    return values, offsets, segments, array


def _heads(offsets: Leaf, segments: Expr, extent: Expr, backward: bool) -> Array:
    """True where a segment starts (backward: where it ends)."""
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
    """The segment of each of `extent` positions; segment s starts at offsets[s] + shift·s."""
    zero = Generate((extent,), (constant(0),), label=Label("segments"), where=user_location())
    start = apply_primitive(
        "add", [offsets.at(Index(0)), apply_primitive("multiply", [Index(0), constant(shift)])]
    )
    inside = apply_primitive("less", [start, extent])
    marks = Permute(
        (segments,),
        inside,
        (start,),
        (Index(0),),
        zero.leaves,
        simple_combine("maximum", int64),
        label=Label("segments"),
        where=user_location(),
    )
    return scan_array(maximum, (), Array(marks.leaves), 0, "inclusive", False, "segments")


def _exclusive_seg(
    f: Function,
    init: Element,
    a: ArrayLike,
    lengths: ArrayLike,
    backward: bool,
    operation: str,
    name: str | None,
    schedule: ScheduleLike | None,
) -> Array:
    """`scanl`/`scanr` of each segment, concatenated (n + 1 results each)."""
    forbid_nesting(operation)
    values, offsets, segments, array = _segmented_inclusive(
        f, a, lengths, backward, operation, name, schedule
    )
    (_, extent), checks = ends([array._shape[-1], segments], operation)
    owner = segment_of_position(offsets, segments, extent, 1)
    last = array.ndim - 1
    segment = owner._element((Index(last),))[0]
    # The position inside its segment, and the last element of the prefix.
    begin = apply_primitive("add", [_at(offsets, segment), segment])
    inside = apply_primitive("subtract", [Index(last), begin])
    length = apply_primitive(
        "subtract", [_after(offsets, segment, segments), _at(offsets, segment)]
    )
    alone = apply_primitive("equal", [inside, length if backward else constant(0)])
    source = apply_primitive("subtract", [Index(last), segment])
    if not backward:
        source = apply_primitive("subtract", [source, constant(1)])
    elements = _with_init(f, init, values, alone, source, backward, operation)
    shape = (*array._shape[:-1], extent)
    return generated(shape, elements, operation, checks, array.structure)


def _at(leaf: Leaf, index: Expr) -> Read:
    return Read(leaf.node, leaf.component, (index,))


def _after(offsets: Leaf, segment: Expr, segments: Expr) -> Read:
    """The end offset of a segment, clamped to the last offset: with invalid lengths, which the
    check reports later, the segment may be out of range."""
    following = apply_primitive("add", [segment, constant(1)])
    return _at(offsets, apply_primitive("minimum", [following, segments]))


def _with_init(
    f: Function,
    init: Element,
    values: Array,
    alone: Expr,
    source: Expr,
    backward: bool,
    operation: str,
) -> tuple[Expr, ...]:
    """`init` where `alone`, else init combined with the prefix that ends at `source`.

    With invalid lengths, which the check reports later, `source` may be out of range; then `init`.
    """
    below = apply_primitive("less", [source, constant(0)])
    beyond = apply_primitive("greater_equal", [source, values._shape[-1]])
    none = apply_primitive("logical_or", [below, beyond])
    alone = apply_primitive("logical_or", [alone, none])

    start = fit_to(init, values.structure, values.types, "the initial value", operation)
    combine = trace_combine(f, values.structure, values.types, operation, user_location())
    lead = [Index(k) for k in range(values.ndim - 1)]
    prefix = values._element([*lead, source])
    left, right = (prefix, start) if backward else (start, prefix)
    node = Cond(alone, start, combine.of(left, right))
    return tuple(Proj(node, k) for k in range(len(start)))


def _total_seg(
    f: Function,
    init: Element,
    a: ArrayLike,
    lengths: ArrayLike,
    backward: bool,
    operation: str,
    name: str | None,
    schedule: ScheduleLike | None,
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
    return (
        Array(prefix.leaves, array.structure, array._shape),
        generated(shape, ends, operation, structure=array.structure),
    )


@combining
def scanl_seg(
    f: Function,
    init: Element,
    a: ArrayLike,
    lengths: ArrayLike,
    *,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """`scanl` of each segment of the last axis, concatenated (n + 1 results each).

    >>> add = lambda a, b: a + b
    >>> td.scanl_seg(add, 0, np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([0, 3, 4, 0, 0, 2])
    """
    return _exclusive_seg(f, init, a, lengths, False, "scanl_seg", name, schedule)


@combining
def scanl1_seg(f: Function, a: ArrayLike, lengths: ArrayLike) -> Array:
    """`scanl1` of each segment of the last axis.

    >>> add = lambda a, b: a + b
    >>> td.scanl1_seg(add, np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([3, 4, 2])
    """
    forbid_nesting("scanl1_seg")
    return _segmented_inclusive(f, a, lengths, False, "scanl1_seg")[0]


@combining
def scanl_total_seg(
    f: Function,
    init: Element,
    a: ArrayLike,
    lengths: ArrayLike,
    *,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> tuple[Array, Array]:
    """`scanl_total` of each segment of the last axis.

    Result: the prefixes, of the shape of `a`, and the total of each segment.

    >>> add = lambda a, b: a + b
    >>> td.scanl_total_seg(add, 0, np.array([3, 1, 2]), np.array([2, 0, 1]))
    (Array([0, 3, 0]), Array([4, 0, 2]))
    """
    return _total_seg(f, init, a, lengths, False, "scanl_total_seg", name, schedule)


@combining
def scanr_seg(
    f: Function,
    init: Element,
    a: ArrayLike,
    lengths: ArrayLike,
    *,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """`scanr` of each segment of the last axis, concatenated (n + 1 results each).

    >>> add = lambda a, b: a + b
    >>> td.scanr_seg(add, 0, np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([4, 1, 0, 0, 2, 0])
    """
    return _exclusive_seg(f, init, a, lengths, True, "scanr_seg", name, schedule)


@combining
def scanr1_seg(f: Function, a: ArrayLike, lengths: ArrayLike) -> Array:
    """`scanr1` of each segment of the last axis.

    >>> add = lambda a, b: a + b
    >>> td.scanr1_seg(add, np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([4, 1, 2])
    """
    forbid_nesting("scanr1_seg")
    return _segmented_inclusive(f, a, lengths, True, "scanr1_seg")[0]


@combining
def scanr_total_seg(
    f: Function,
    init: Element,
    a: ArrayLike,
    lengths: ArrayLike,
    *,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> tuple[Array, Array]:
    """`scanr_total` of each segment of the last axis.

    Result: the suffixes, of the shape of `a`, and the total of each segment.

    >>> add = lambda a, b: a + b
    >>> td.scanr_total_seg(add, 0, np.array([3, 1, 2]), np.array([2, 0, 1]))
    (Array([1, 0, 0]), Array([4, 0, 2]))
    """
    return _total_seg(f, init, a, lengths, True, "scanr_total_seg", name, schedule)
