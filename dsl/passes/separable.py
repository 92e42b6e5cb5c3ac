"""recognise_separable: computes a linear stencil whose weights are an outer product axis by axis.

A 9 × 9 box or Gaussian takes 81 multiplications in one pass and 18 in two.  The weights must be
literals in the stencil's function, the boundary must treat axes independently, and the saving must
exceed a round trip through memory.  An explicit schedule disables the pass.

    CPU   one operation per axis, the last axis first, through memory
    GPU   one operation, a sum of sums: its skeleton computes the sum of every row once

On a CPU, a sum, minimum or maximum over the axes of windows is also computed axis by axis:

    max(sliding_window_view(a, (9, 9)), axis=(2, 3))   →   of 9 rows the maxima of 9 columns
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr import Apply, Const, Expr, Index, Read, constant, substitute, walk
from ..graph import Fold, Generate, Label, Leaf, Node, indices, known
from ..graphs.rebuild import rewrite_graph
from ..primitives import TABLE
from ..simplify import apply
from ..types import int64
from .base import Context
from .cost import ROUND_TRIP

Offsets = tuple[int, ...]
_INDEPENDENT = ("clamp", "mirror", "symmetric", "wrap")


def recognise_separable(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace linear stencils with separable weights by a chain of one-dimensional ones."""
    if not context.settings.recognise:
        return list(roots)

    folds = not (context.target.gpu or context.settings.check or context.settings.deterministic)

    def change(node: Node) -> Node:
        if isinstance(node, Fold):
            made: Node | None = by_axis(node) if folds else None
            why = "it folds windows"
        else:
            made = _separated(node, context.target.gpu)
            why = "its weights are an outer product"
        if made is None:
            return node
        context.notes.append(f"{node.label}: {why}, so it runs one axis after the other")
        return made

    return rewrite_graph(roots, change)


#: The multiplications per element that nested sums must save.
NESTED_SAVING = 8


def _separated(node: Node, nested: bool) -> Node | None:
    if not isinstance(node, Generate) or len(node.elements) != 1 or len(node.shape) < 2:
        return None
    element = node.elements[0]
    if node.label.ordered or element.type.family != "float" or element.type.bits < 32:
        return None
    found = linear_form(element)
    if found is None:
        return None
    read, weights = found
    if read.boundary not in _INDEPENDENT or read.node.outputs[read.component].shape != node.shape:
        return None
    low = np.min(list(weights), axis=0)
    high = np.max(list(weights), axis=0)
    table = np.zeros(tuple(high - low + 1), np.float64)
    for offsets, weight in weights.items():
        table[tuple(np.subtract(offsets, low))] = weight
    factors = outer_factors(table, 4 * float(np.finfo(element.type.numpy).eps))
    if factors is None:
        return None
    taps = sum(int(np.count_nonzero(f)) for f in factors)
    passes = sum(1 for f in factors if len(f) > 1)
    least = NESTED_SAVING if nested else ROUND_TRIP * (passes - 1)
    if np.count_nonzero(table) - taps <= least or passes < 2:
        return None
    return (_nest if nested else _chain)(node, read, factors, low)


#: Operations whose results do not depend on the order, apart from the rounding of sums.
_ANY_ORDER = ("add", "minimum", "maximum", "logical_and", "logical_or")


def by_axis(node: Fold, operations: int = 1) -> Fold | None:
    """A fold over axes of windows as a chain of folds over one axis each, last axis first; None if
    that does not save a round trip through memory, by so many `operations` an element."""
    rank, label = len(node.outer), node.label
    lengths = [known(n) for n in node.inner]
    (result, *others), (element, *_) = node.combine.results, node.elements
    plain = not (label.ordered or label.schedule) and len(lengths) > 1 and not others
    if not plain or None in lengths or not isinstance(result, Apply) or (
        element.type.is_inexact and element.type.bits < 32
    ):  # fmt: skip
        return None
    taps = [int(n) for n in lengths if n is not None]
    of_both = {*result.args} == {node.combine.left[0], node.combine.right[0]}
    if result.op.name not in _ANY_ORDER or not of_both or min(taps) < 1:
        return None
    if (math.prod(taps) - sum(taps)) * operations <= ROUND_TRIP * (len(taps) - 1):
        return None
    read = _behind_views(element)
    places = None if read is None else _window_axes(read.args, rank, len(taps))
    if read is None or places is None:
        return None
    for inner in reversed(range(1, len(taps))):
        # Fold the last remaining axis; the other axes extend as far as windows reach.
        outer, at = list(node.outer), list(read.args)
        again: list[Expr] = [Index(k) for k in range(rank)]
        for q in range(inner):
            axis, place = places[q]
            reach = _plus(node.outer[axis], taps[q] - 1)
            if reach is not read.node.outputs[read.component].shape[place]:
                some = apply(TABLE["minimum"], (node.outer[axis], constant(1)), int64)
                more = apply(TABLE["multiply"], (some, constant(taps[q] - 1)), int64)
                reach = apply(TABLE["add"], (node.outer[axis], more), int64)
            outer[axis] = reach
            (at[place],) = substitute((at[place],), {Index(rank + q): constant(0)})
            again[axis] = _plus_index(axis, rank + q)
        last: dict[Expr, Expr] = {Index(rank + inner): Index(rank)}
        element = Read(read.node, read.component, substitute(at, last))
        made = Fold(
            tuple(outer), (node.inner[inner],), (element,), node.combine, None,
            label=Label(f"{label.operation} (axis {rank + inner})"), where=node.where,
        )  # fmt: skip
        read = made.leaf().at(*again)
        places = [(axis, axis) for axis, _ in places]
    return node.with_(inner=node.inner[:1], elements=(read,))


def _behind_views(e: Expr) -> Read | None:
    """The read of the underlying array, through arrays that are only views."""
    while isinstance(e, Read) and e.boundary is None:
        node = e.node
        if type(node) is not Generate or not isinstance(node.elements[e.component], Read):
            return e
        here: dict[Expr, Expr] = dict(zip(indices(len(node.shape)), e.args, strict=True))
        (e,) = substitute((node.elements[e.component],), here)
    return None


def _window_axes(args: Sequence[Expr], rank: int, windows: int) -> list[tuple[int, int]] | None:
    """For each axis of a window, the outer axis along which it moves by one, and the position of
    the index that is the sum of both; None if another index depends on them."""
    found = dict[int, tuple[int, int]]()
    used = [{i.axis for i in walk((a,)) if isinstance(i, Index)} for a in args]
    for place, (arg, axes) in enumerate(zip(args, used, strict=True)):
        if all(axis < rank for axis in axes):
            continue
        terms = _terms(arg)
        own = [t.axis for t in terms if isinstance(t, Index)]
        if len(axes) != 2 or sorted(own) != sorted(axes) or min(own) >= rank or max(own) < rank:
            return None
        # The other terms of the sum must not depend on either.
        if any(isinstance(e, Index) for t in terms if not isinstance(t, Index) for e in walk((t,))):
            return None
        if sum(min(own) in axes for axes in used) > 1 or max(own) in found:
            return None
        found[max(own)] = min(own), place
    if sorted(found) != list(range(rank, rank + windows)):
        return None
    return [found[rank + q] for q in range(windows)]


def _terms(e: Expr) -> list[Expr]:
    if isinstance(e, Apply) and e.op.name == "add":
        return [t for a in e.args for t in _terms(a)]
    return [e]


def _plus_index(axis: int, other: int) -> Expr:
    return apply(TABLE["add"], (Index(axis), Index(other)), int64)


def linear_form(element: Expr) -> tuple[Read, dict[Offsets, float]] | None:
    """Σ weight·a[i + offset…] with constant weights: (a sample read, the weights)."""
    forms: dict[Expr, dict[Offsets, float] | float] = {}
    sample: Read | None = None
    for e in walk((element,)):
        if isinstance(e, Const):
            forms[e] = float(e.value) if not e.type.is_complex else np.nan
        elif isinstance(e, Read):
            offsets = _offsets(e)
            if offsets is None or e.type != element.type:
                return None
            if sample is not None and (e.node, e.component, e.boundary) != (
                sample.node,
                sample.component,
                sample.boundary,
            ):
                return None
            sample = e
            forms[e] = {offsets: 1.0}
        elif isinstance(e, Apply) and e.type == element.type:
            made = _combined(e.op.name, [forms.get(a) for a in e.args])
            if made is None:
                return None
            forms[e] = made
        elif isinstance(e, Index) or (isinstance(e, Apply) and e.type.is_integer):
            continue  # part of a read's index
        else:
            return None
    result = forms.get(element)
    if sample is None or not isinstance(result, dict):
        return None
    return sample, result


def _offsets(read: Read) -> Offsets | None:
    offsets = []
    for axis, a in enumerate(read.args):
        if isinstance(a, Index) and a.axis == axis:
            offsets.append(0)
        elif (
            isinstance(a, Apply)
            and a.op.name == "add"
            and isinstance(a.args[1], Const)
            and isinstance(a.args[0], Index)
            and a.args[0].axis == axis
        ):
            offsets.append(int(a.args[1].value))
        else:
            return None
    return tuple(offsets)


def _combined(name: str, parts: list[Any]) -> dict[Offsets, float] | None:
    if any(p is None for p in parts):
        return None
    if name == "negative" and isinstance(parts[0], dict):
        return {k: -v for k, v in parts[0].items()}
    if len(parts) != 2:
        return None
    a, b = parts
    if name == "add" and 0.0 in (x for x in parts if isinstance(x, float)):  # Python's sum()
        return a if isinstance(a, dict) else b if isinstance(b, dict) else None
    if name in ("add", "subtract") and isinstance(a, dict) and isinstance(b, dict):
        total = dict(a)
        for k, v in b.items():
            total[k] = total.get(k, 0.0) + (v if name == "add" else -v)
        return total
    if name == "multiply" and isinstance(a, float) and isinstance(b, dict):
        a, b = b, a
    if name == "multiply" and isinstance(a, dict) and isinstance(b, float):
        return {k: v * b for k, v in a.items()}
    if name == "true_divide" and isinstance(a, dict) and isinstance(b, float) and b:
        return {k: v / b for k, v in a.items()}
    return None


def outer_factors(table: Any, tolerance: float) -> list[Any] | None:
    """Vectors whose outer product is `table`, within `tolerance` times its peak, else None.

    The tolerance is a few roundings of the element type, to which literals were rounded.
    """
    if not np.isfinite(table).all() or not table.any():
        return None
    peak = np.unravel_index(np.argmax(np.abs(table)), table.shape)
    factors = []
    for axis in range(table.ndim):
        line = tuple(slice(None) if k == axis else p for k, p in enumerate(peak))
        factors.append(table[line] / table[peak])
    factors[0] = factors[0] * table[peak]
    product = factors[0]
    for f in factors[1:]:
        product = np.multiply.outer(product, f)
    close = np.abs(product - table).max() <= tolerance * np.abs(table).max()
    return factors if close else None


def _chain(node: Generate, read: Read, factors: list[Any], low: Any) -> Node:
    """A stencil per axis, the last axis first, because its reads are contiguous."""
    source, component = read.node, read.component
    made: Any = None
    axes = [k for k in reversed(range(len(factors))) if len(factors[k]) > 1]
    scale = [k for k in range(len(factors)) if len(factors[k]) == 1]
    for position, axis in enumerate(axes):
        last = position == len(axes) - 1
        factor = factors[axis]
        if last:
            for k in scale:
                factor = factor * factors[k][0]
        total: Expr | None = None
        for step, weight in enumerate(factor):
            if not weight:
                continue
            index: list[Expr] = []
            for k in range(len(factors)):
                # An axis with one weight may have an offset, which the first pass applies.
                shift = int(low[k]) + (step if k == axis else 0)
                move = k == axis or (position == 0 and k in scale)
                index.append(_plus(Index(k), shift if move else 0))
            value: Expr = Read(source, component, tuple(index), read.boundary)
            term = (
                value
                if weight == 1
                else apply(TABLE["multiply"], (value, Const(weight, read.type)), read.type)
            )
            total = term if total is None else apply(TABLE["add"], (total, term), read.type)
        assert total is not None
        label = node.label if last else Label(f"{node.label.operation} (axis {axis})")
        made = Generate(
            node.shape,
            (total,),
            label=label,
            where=node.where,
            checks=node.checks if last else (),
            fused=node.fused if last else (),
        )
        source, component = made, 0
    return made  # type: ignore[no-any-return]


def _nest(node: Generate, read: Read, factors: list[Any], low: Any) -> Node:
    """Sums along the last axis inside sums along the previous one: the arithmetic of `_chain`."""
    rank = len(factors)
    summed = [k for k in range(rank) if len(factors[k]) > 1]
    outer = factors[summed[0]]
    for k in range(rank):
        if len(factors[k]) == 1:
            outer = outer * factors[k][0]

    sums = [(axis, factors[axis]) for axis in summed]
    sums[0] = summed[0], outer
    return node.with_(elements=(_summed(read, sums, [int(n) for n in low]),))


def _summed(read: Read, sums: Sequence[tuple[int, Any]], shifts: list[int]) -> Expr:
    """The read at these shifts, summed with the weights along each axis of `sums`."""
    if not sums:
        index = tuple(_plus(Index(k), s) for k, s in enumerate(shifts))
        return Read(read.node, read.component, index, read.boundary)
    axis, weights = sums[0]
    total: Expr | None = None
    for step, weight in enumerate(weights):
        if weight:
            moved = [s + step if k == axis else s for k, s in enumerate(shifts)]
            value = _summed(read, sums[1:], moved)
            if weight != 1:
                factor = Const(weight, read.type)
                value = apply(TABLE["multiply"], (value, factor), read.type)
            if total is not None:
                value = apply(TABLE["add"], (total, value), read.type)
            total = value
    assert total is not None
    return total


def _plus(e: Expr, n: int) -> Expr:
    return e if n == 0 else apply(TABLE["add"], (e, Const(n, e.type)), e.type)
