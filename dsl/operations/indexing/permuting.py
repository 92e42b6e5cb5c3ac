"""Scattering (permute, scatter), histogram and bincount."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ... import simplify, types
from ...analysis.bounds import element_bounds
from ...analysis.short_extents import extent_now
from ...annotations import ArrayLike, Element, Function, IntLike, ScalarLike
from ...array import Array, generated, map_over
from ...errors import DTypeError, IndexOutOfBounds, ShapeError, TracingError, user_location
from ...expr import Const, Index, constant
from ...frontend.deferred import HostArray, fact, in_range, needed_by
from ...frontend.refusals import called
from ...frontend.sources import as_array
from ...frontend.tracing import call_scalar_function, check_result, forbid_nesting
from ...graph import Check, Label, Permute, indices, known
from ...scalar import Scalar, apply_primitive, as_index, as_strong, lift, refuse_argument
from ...shapes import as_shape, require, same_shape
from ..common import alike, combining, integer, require_real, rounded_product, trace_combine
from ..control import while_loop
from ..elements.choosing import MaybeIndex, as_maybe_index, ignore
from ..elements.foreign import compute
from ..elements.functions import cast, floor, isfinite, maximum, minimum, where
from ..elements.mapping import with_checks
from ..reducing.folds import fold
from ..reducing.reductions import max as max_, min as min_, sum as sum_
from .index_space import flatten
from .making import fill, generate, the
from .parts import untyped
from .row_major import least, plus
from .slicing import require_in_range

__all__ = ["bincount", "histogram", "overwrite", "permute", "scatter"]


class Overwrite:
    """The combination that keeps one of the colliding values: `td.overwrite`."""

    def __repr__(self) -> str:
        return "td.overwrite"

    def __call__(self, new: Any, old: Any) -> Any:
        return new


overwrite = Overwrite()


@combining
def permute(combine: Function, defaults: Element, f: Function, a: ArrayLike) -> Array:
    """Scatter with combination into a copy of `defaults`.

    For every source index, `out[f(*ix)] = combine(new, old)`; `f` may return `td.ignore`. `combine`
    is associative and commutative, or `td.overwrite`.  The result has the type of the defaults;
    values are cast to it before they are combined, so floats are truncated for integer defaults.
    Where threads combine by atomics, the last bits of float sums may differ from run to run;
    `deterministic=True` adds in order.

    Parameters
        combine: an associative and commutative function (new, old) of two elements.
        f: a function of the index in `a` that returns the index in the result, or td.ignore.

    >>> x = np.array([0, 2, 2, 1])
    >>> bins = td.zeros(3, td.int32)
    >>> td.run(td.permute(lambda new, old: new + old, bins, lambda i: td.use(x)[i],
    ...                   td.ones(4, td.int32)))
    array([1, 1, 2], dtype=int32)
    """
    forbid_nesting("permute")
    where = user_location()
    target, source = as_array(defaults, "permute"), as_array(a, "permute")
    if not target.structure.same_nesting(source.structure):
        raise DTypeError(
            f"permute: defaults have elements {target.structure.describe(target.types)}, the "
            f"source {source.structure.describe(source.types)}.",
            hint="Both need the same nesting; the source is cast to the defaults' type.",
        )
    index = indices(source.ndim)
    value = call_scalar_function(f, [Scalar(i) for i in index], "permute", where)
    if not isinstance(value, MaybeIndex):
        check_result(value, "the index function of permute")
    chosen = as_maybe_index(value)
    if chosen.index is not None and len(chosen.index) != target.ndim:
        raise ShapeError(
            f"the index function of permute returned {len(chosen.index)} indices for a target of "
            f"rank {target.ndim}.",
            hint=f"Return {target.ndim} indices, or td.ignore.",
            where=where,
        )
    values = tuple(
        simplify.cast(v, t) for v, t in zip(source._element(index), target.types, strict=True)
    )
    combined = None
    if not isinstance(combine, Overwrite):
        combined = trace_combine(combine, target.structure, target.types, "permute", where)
        if combined.results == combined.left:  # `lambda new, old: new`
            combined = None
    node = Permute(
        source._shape,
        chosen.valid,
        chosen.index or (constant(0),) * target.ndim,
        values,
        target._leaves,
        combined,
        label=Label("permute"),
        where=where,
    )
    return Array(node.leaves, target.structure, target._shape)


@combining
def scatter(
    defaults: Element, indices: ArrayLike, a: ArrayLike, combine: Function = overwrite
) -> Array:
    """`out[indices[k]] = combine(a[k], out[indices[k]])` along the first axis of `defaults`.

    Parameters
        indices: an array of integers: where each element of `a` goes.
        combine: a function (new, old); default td.overwrite.

    >>> td.scatter(np.zeros(4, int), [3, 1], [7, 8])
    Array([0, 8, 0, 7])
    """
    forbid_nesting("scatter")
    target, source, at = (as_array(x, "scatter") for x in (defaults, a, untyped(indices)))
    if not at.structure.is_leaf or not at.types[0].is_integer:
        raise DTypeError(
            f"scatter needs integer indices, got {at.dtype}.",
            hint="Convert them: td.cast(indices, td.int64).",
        )
    if not callable(combine) and not isinstance(combine, Overwrite):
        raise TracingError(
            f"scatter needs a function to combine with, got {called(combine)}.",
            hint="Write td.add, td.maximum, … or lambda new, old: new + old.",
        )
    if target.ndim == 0:
        raise ShapeError(
            "scatter needs defaults of rank 1 at least.",
            hint="Write td.zeros(n), or td.permute(f, …) for rank 0.",
        )
    if source.ndim != at.ndim + target.ndim - 1:
        raise ShapeError(
            f"scatter: values of rank {source.ndim} do not fit indices of rank {at.ndim} into "
            f"defaults of rank {target.ndim}.",
            hint="values[k] goes to defaults[indices[k]]: the axes of the indices come first.",
        )
    checks = require_in_range(at, target._shape[0], 0, "scatter", from_end=False)
    checks += same_shape(at._shape, source._shape[: at.ndim], "scatter")
    checks += same_shape(target._shape[1:], source._shape[at.ndim :], "scatter")
    if checks:
        own = tuple(Index(k) for k in range(source.ndim))
        source = map_over(source, own, source._shape, "scatter", checks)
    return permute(
        combine, target, lambda *ix: (at[ix[: at.ndim]], *ix[at.ndim :]), source, name="scatter"
    )


@combining
def bincount(
    a: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    length: IntLike | None = None,
) -> Array:
    """Counts (or sums of weights) of the non-negative integers in `a`.

    Without `length`, the extent is the largest value + 1, but at least `minlength`; it is known
    only after the maximum has been computed; a negative element is then an error, as in NumPy.
    Elements that are below `minlength` however they come out, `x % 10` of ten bins, need no
    maximum.  A given `length` avoids this synchronisation, and promises that all values are below:
    others are an error in data on the host; if they are computed, they are dropped, and reported in
    checked mode.

    Parameters
        a: integers ≥ 0, or truths, an array of any shape (NumPy: of rank 1).
        minlength: the least number of counts; default 0.
        length: the extent, if it is known; optional.

    Result: an array: the number of each integer from 0 on.

    >>> td.bincount(np.array([3, 1, 2]))
    Array([0, 1, 1, 1])
    """
    forbid_nesting("bincount")
    given = as_array(a, "bincount")
    values = flatten(given)
    if values.types[0] == types.bool_:
        values = cast(values, types.uint8)
    if not values.types[0].is_integer:
        raise DTypeError(
            f"bincount needs integers, got {values.types[0]}.",
            hint="Convert them: td.cast(a, td.int64).",
        )
    (asked,), checks = as_shape((minlength,), "bincount")
    bins, (lowest, highest) = known(asked), element_bounds(values._leaves[0])
    if length is None:
        if bins is not None and bins > highest:
            needed = asked  # bytes have 256 bins, x % 10 has ten
        else:
            top = the(
                fold(
                    lambda x, y: Scalar(apply_primitive("maximum", [lift(x), lift(y)])),
                    -1,
                    cast(values, types.int64),
                )
            )
            needed = plus(least(lift(top), constant(types.int64.highest - 1)), constant(1))
        if lowest < 0:
            low = fold(
                lambda x, y: Scalar(apply_primitive("minimum", [lift(x), lift(y)])),
                0,
                cast(values, types.int64),
            )
            checks = (
                *checks,
                *require(
                    lift(the(low)),
                    constant(0),
                    "bincount: the elements must not be negative, the smallest is {left}.",
                    hint="Shift them, a - td.min(a), or drop them, a[a >= 0].",
                ),
            )
    else:
        (needed,), more = as_shape((length,), "bincount")
        checks = (*checks, *more)
    extent = apply_primitive("maximum", [needed, asked])
    promised = None if length is None else extent_now(extent)
    if promised is not None:
        fact(given, in_range(promised, False, partial(_no_bin, promised)))
    if length is not None and (least_extent := needed_by(given, from_end=False)) is not None:
        checks += require(
            extent, least_extent, "bincount: an element has no bin: length={left} is too little.",
            relation=">=", error="IndexOutOfBounds", hint=f"{_BINS}.",
        )  # fmt: skip
    if weights is None:
        source = fill(values.shape, Scalar(constant(1)))
        kind = types.int64
    else:
        source = flatten(as_array(weights, "bincount"))
        kind = types.float64
        if source.types[0].is_complex:
            raise DTypeError(
                "bincount needs real weights.",
                hint="Count real and imaginary parts separately: td.real(w), td.imag(w).",
            )
    defaults = generated((extent,), (Const(0, kind),), "bincount", checks)
    if weights is not None:
        source = alike(source, values, "bincount")

    def bin_of(i: Any) -> Any:
        return Scalar(simplify.cast(lift(values[i]), types.int64))

    return permute(lambda new, old: new + old, defaults, bin_of, source, name="bincount")


_BINS = "Leave length out (minlength=n is the least number of bins)"


def _no_bin(length: int, value: int) -> IndexOutOfBounds:
    """The error for an element that none of so many bins counts."""
    return IndexOutOfBounds(
        f"bincount: there is no bin for {value}: length={length} is too little."
        if value >= 0
        else f"bincount: the elements must not be negative, and one is {value}.",
        hint=f"{_BINS}, or drop them: a[a < {length}]."
        if value >= 0
        else "Shift them, a - td.min(a), or drop them, a[a >= 0].",
    )


@combining
def histogram(
    a: ArrayLike,
    bins: IntLike | Sequence[float] | ArrayLike = 10,
    range: tuple[ScalarLike, ScalarLike] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """NumPy's histogram: (counts, edges).  `bins` is a number or an array of edges.

    Counts are int64, or of the weights' type.  Without `range`, the minimum and maximum of `a` are
    used. With `density`, the counts are a density whose integral over the range is 1.

    Parameters
        bins: the number of bins (default 10), or the edges, increasing.

    Result: the counts and the edges, of float16 elements computed in float32 and rounded once.

    >>> td.histogram(np.array([0.0, 0.5, 1.0]), 2, (0, 1))
    (Array([1, 2]), Array([0. , 0.5, 1. ]))
    """
    forbid_nesting("histogram")
    values = flatten(as_array(a, "histogram"))
    checks: tuple[Check, ...] = ()
    refuse_argument(bins, "histogram: bins=")
    if isinstance(bins, str):
        raise TracingError(
            f"histogram: bins is a number, or the edges, got {bins!r}.",
            hint="NumPy chooses edges from values, before the program: "
            f"np.histogram_bin_edges(x, {bins!r}).",
        )
    if range is not None and not (isinstance(range, tuple | list | np.ndarray) and len(range) == 2):
        raise TracingError(
            f"histogram: range is a pair of numbers, got {called(range)}.",
            hint="Write range=(low, high), or leave it out.",
        )
    numbers = range is None or all(types.kind_of_literal(v) is not None for v in range)
    narrow = numbers and values.types[0] in (types.float16, types.bfloat16, types.float32)
    real = values.types[0] if narrow else types.float64  # as NumPy's edges
    wide = types.float32 if narrow else types.float64
    count = integer(bins)
    if count is not None:
        if count < 1:
            raise ShapeError("histogram needs at least one bin.", hint="Write bins=10.")
        require_real(values, "histogram")
        if range is None:
            low_x, high_x = (cast(the(x), wide) for x in _extremes(values))
            empty = values.shape[0] == 0  # as in NumPy, it has the range 0 … 1
            low_x, high_x = where(empty, 0.0, low_x), where(empty, 1.0, high_x)
        else:
            low, high = range
            for bound in (low, high):
                if isinstance(bound, float) and not np.isfinite(bound):
                    raise ShapeError(
                        "histogram: the range must be finite.",
                        hint="Write range=(low, high), or leave it out.",
                    )
            if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
                raise ShapeError(
                    "histogram: the range's maximum must not be below its minimum.",
                    hint="Write range=(low, high).",
                )
            low_x, high_x = (
                Scalar(simplify.cast(as_strong(lift(v, "histogram")), types.float64))
                for v in (low, high)
            )
            if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
                width = (float(high) - float(low)) / count
                if not (np.isfinite(width) and low + width > low and high - width < high):
                    raise ShapeError(
                        f"histogram: floats are too far apart for {count} bins from {low!r} to "
                        f"{high!r}.",
                        hint="Write a wider range=(low, high), or fewer bins.",
                    )
        same = low_x == high_x
        low_s = where(same, low_x - 0.5, low_x)
        high_s = where(same, high_x + 0.5, high_x)
        step = (high_s - low_s) / float(count)
        if values.types[0].is_float and range is None:

            def ordered() -> Scalar:
                first, last = cast(low_s + step, real), cast(high_s - step, real)
                apart = (first > cast(low_s, real)) & (last < cast(high_s, real))
                return cast(isfinite(step) & apart, types.int64)

            checks = require(  # (Of an array: native code, which repeats calls, checks integers.)
                lift(the(generate((), ordered))), constant(1),
                f"histogram: the smallest and the largest element are no range of bins={count}: "
                "one of them or their difference is NaN or infinite, or bins are narrower than "
                "floats are apart.",
                hint="Give one, range=(low, high): elements outside are not counted.",
            )  # fmt: skip

        def edge(k: Any, rounded: bool = False) -> Any:
            """Of both kinds the same: what a permute computes is not contracted."""
            x = cast(k, low_s.dtype)
            along = Scalar(rounded_product(lift(x), lift(step))) if rounded else x * step
            return cast(where(k == count, high_s, along + low_s), real)

        edges = generate((count + 1,), lambda k: edge(k, rounded=True))
        edges = with_checks(edges, checks, "histogram")

        def uniform_bin(i: Any) -> Any:
            x = values[i].astype(real)
            guess = floor((x - low_s) / (high_s - low_s) * float(count)).astype(types.int64)
            k = minimum(maximum(guess, 0), count - 1)
            # Correct by one bin so that bins agree with the edges, as NumPy does.
            k = where((x < edge(k)) & (k > 0), k - 1, k)
            k = where((x >= edge(k + 1)) & (k < count - 1), k + 1, k)
            return where((x >= cast(low_s, real)) & (x <= cast(high_s, real)), k, ignore)

        bin_of: Callable[[Any], Any] = uniform_bin
        extent: Any = count
    else:
        edges = as_array(bins, "histogram")
        if edges.ndim != 1:
            raise ShapeError(
                "histogram: edges must be of rank 1.",
                hint="Give a number of bins, or their edges in ascending order.",
            )
        fact(edges, _require_ascending)
        # (A copy: cached calls return arrays of their own.)
        edges = map_over(edges, (Index(0),), edges._shape, "histogram", ())
        extent = Scalar(apply_primitive("subtract", [edges._shape[0], constant(1)]))

        def searched_bin(i: Any) -> Any:
            x = values[i]
            last = edges.shape[0] - 1
            # Largest k with edges[k] <= x, by bisection.
            low, _high = while_loop(
                lambda s: s[1] - s[0] > 1,
                lambda s: (
                    where(edges[(s[0] + s[1]) // 2] <= x, (s[0] + s[1]) // 2, s[0]),
                    where(edges[(s[0] + s[1]) // 2] <= x, s[1], (s[0] + s[1]) // 2),
                ),
                (Scalar(constant(0)), Scalar(as_index(last, "histogram"))),
            )
            inside = (x >= edges[Scalar(constant(0))]) & (x <= edges[last])
            return where(inside, low, ignore)

        bin_of = searched_bin
    if weights is None:
        source = fill(values.shape, Scalar(constant(1)))
        kind = types.int64
    else:
        source = alike(flatten(as_array(weights, "histogram")), values, "histogram")
        kind = _widest(source.types[0])
    defaults = fill((extent,), Scalar(Const(0, kind)))
    counts = permute(lambda new, old: new + old, defaults, bin_of, source, name="histogram")
    counts = with_checks(counts, checks, "histogram")
    counts = counts if weights is None else cast(counts, source.types[0])
    if not density:
        return counts, edges
    counted: Any = compute(counts)
    sides = (
        edges if edges.types[0].is_inexact else cast(edges, types.float64)
    )  # integers may overflow
    widths = cast(sides[1:] - sides[:-1], types.float64)
    return counted / widths / sum_(counted), edges


def _require_ascending(edges: HostArray) -> bool:
    if np.any(np.greater(edges[:-1], edges[1:])):
        raise ShapeError(
            "histogram: the edges must not descend.", hint="Sort them: bins=np.sort(edges)."
        )
    return True


def _widest(type_: types.ScalarType) -> types.ScalarType:
    """The type in which weights of a type are added."""
    if type_.is_complex:
        return types.complex128
    if type_.is_float:
        return types.float64
    return types.uint64 if type_ == types.uint64 else types.int64


def _extremes(values: Array) -> tuple[Array, Array]:
    """The smallest and the largest element; of no elements, the bounds of their type."""
    t = values.types[0]
    low, high = (-np.inf, np.inf) if t.is_inexact else (t.lowest, t.highest)
    return min_(values, initial=high), max_(values, initial=low)
