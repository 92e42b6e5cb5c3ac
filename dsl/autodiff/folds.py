"""The derivatives of folds and scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .. import graph, simplify
from ..analysis.combines import (
    argument_combine,
    argument_of,
    independent_parts,
    simple_combine,
    ways,
)
from ..array import Array
from ..expr import FALSE, TRUE, Const, Expr, Index, Var, constant
from ..graph import Leaf, Node
from ..operations.indexing.row_major import linear
from ..operations.reducing.recurrences import scan
from ..operations.reducing.segments import segment_of_position
from ..passes.separable import by_axis
from ..scalar import Scalar, apply_primitive
from ..types import int8
from .expressions import Condition, add, both, guarded, index_map, negated, optional, shifted, zero
from .forward import Forward, forward_rule
from .reads import summed
from .reverse import Bars, Reverse, adjoint, combine_vjp, own, reverse_rule, through_epilogue

Seeds = list[tuple[Expr, Expr]]
#: Passes on the cotangents of combinations (left, right), except where the last argument says that
#: there is none.
Captured = Callable[[Sequence[Expr], Sequence[Expr], Sequence[Expr | None], Expr], None]
#: The cotangents of a state and of the element combined with it, given those of the result.
Through = Callable[
    [Sequence[Expr], Sequence[Expr], Sequence[Expr | None]],
    tuple[list[Expr | None], list[Expr | None]],
]


def _apply(name: str, *operands: Expr) -> Expr:
    return apply_primitive(name, operands)


# --- folds -------------------------------------------------------------------------------------


@forward_rule(graph.Fold)
@forward_rule(graph.FoldSeg)
def _fold_tangents(f: Forward, node: graph.Fold | graph.FoldSeg) -> None:
    f.epilogue(node, f.combined(node)[0])


@reverse_rule(graph.Fold)
def _fold(r: Reverse, node: graph.Fold, bars: Bars) -> None:
    plain = node.with_(epilogue=node.results)
    bars = through_epilogue(r, node, bars)
    chain = by_axis(plain, EXTREME_COST) if _is_extreme(node) else None
    if chain is not None and bars[0] is not None:
        if plain == node:
            r.replaced[node.leaf()] = chain.leaf()  # the same numbers
        r.pass_on(chain.leaf(), own(bars[0], len(node.outer)))
        return
    seeds: Seeds = []
    starts: Seeds = []
    for group, combine in independent_parts(node.combine):
        some = tuple(node.elements[k] for k in group)
        init = None if node.init is None else tuple(node.init[k] for k in group)
        given = [bars[k] for k in group]
        if all(g is None for g in given):
            continue
        if not any(r.active(e) for e in (*some, *(init or ()), *combine.results)):
            continue
        part = _Folded(node, some, combine, init, given)
        if part.way == "add":
            part.sum(seeds, starts)
        elif part.way in ("minimum", "maximum"):
            part.extreme("less" if part.way == "minimum" else "greater", seeds, starts)
        elif argument_of(combine) is not None:
            part.argument([plain.leaves[k] for k in group], seeds)
        else:
            part.general(seeds, _capturing(r, combine, (*node.outer, *node.inner), node))
        if init is not None and part.way not in ("add", "minimum", "maximum"):
            if any(r.active(e) for e in init):
                part.start(starts)
    r.through((*node.outer, *node.inner), seeds, node)
    r.through((), starts, node)


#: Operations for an element of a window: a comparison and two choices.
EXTREME_COST = 3


def _is_extreme(node: graph.Fold) -> bool:
    """Whether a fold is a minimum or maximum, whose gradient by axes of windows is the same: the
    first of equal extremes is in the first row that has it."""
    return node.init is None and ways(node.combine)[0] in ("minimum", "maximum")


class _Folded:
    """Components of a fold that are combined together, with their cotangents."""

    def __init__(
        self,
        node: graph.Fold,
        elements: tuple[Expr, ...],
        combine: graph.Combine,
        init: tuple[Expr, ...] | None,
        bars: Sequence[Leaf | None],
    ) -> None:
        self.node, self.elements, self.combine, self.init = node, elements, combine, init
        self.rank = len(node.outer)
        self.bars = [None if b is None else own(b, self.rank) for b in bars]
        self.way = ways(combine)[0] if len(elements) == 1 else ""

    def fold(
        self, elements: Sequence[Expr], combine: graph.Combine, init: tuple[Expr, ...] | None
    ) -> graph.Fold:
        return graph.over(self.node, elements, combine, init, adjoint(self.node))

    def _of_init(self, g: Expr) -> Expr:
        """The sum of every row's contribution to the initial value."""
        leaf = summed((), self.node.outer, g, adjoint(self.node), self.node.where)
        return leaf.at()

    def sum(self, seeds: Seeds, starts: Seeds) -> None:
        (g,) = self.bars
        assert g is not None
        seeds.append((self.elements[0], g))
        if self.init is not None and self.init[0].reads:
            starts.append((self.init[0], self._of_init(g)))

    def start(self, starts: Seeds) -> None:
        """Differentiate the combination of the initial value with a fold without it, unless there
        are no elements."""
        assert self.init is not None
        without = (FALSE, *(zero(e.type) for e in self.elements))
        made = self.fold((TRUE, *self.elements), optional(self.combine), without)
        some, *rest = (own(leaf, self.rank) for leaf in made.leaves)
        found, _ = combine_vjp(self.combine, self.init, rest, self.bars)
        starts += [
            (e, self._of_init(_otherwise(negated(some), g, t, e)))
            for e, g, t in zip(self.init, self.bars, found, strict=True)
            if e.type.is_inexact and e.reads
        ]

    def extreme(self, better: str, seeds: Seeds, starts: Seeds) -> None:
        """Another fold finds the indices; the first of equal extremes gets the cotangent."""
        (g,) = self.bars
        assert g is not None
        (e,) = self.elements
        inner = self.node.inner
        here = linear(graph.indices(self.rank + len(inner))[self.rank :], inner)
        combine = argument_combine(e.type, better)
        init = None if self.init is None else (self.init[0], constant(-1))
        found = self.fold((e, here), combine, init)
        if _few(inner):  # as `here` is not an index of elements, 8 bits suffice
            value, index = found.results
            found = found.with_(epilogue=(value, simplify.cast(index, int8)))
            here = simplify.cast(here, int8)
        position = own(found.leaf(1), self.rank)
        seeds.append((e, simplify.select(_apply("equal", here, position), g, zero(g.type))))
        if self.init is not None and self.init[0].reads:
            first = _apply("equal", position, Const(-1, position.type))
            starts.append((self.init[0], self._of_init(simplify.select(first, g, zero(g.type)))))

    def argument(self, results: Sequence[Leaf], seeds: Seeds) -> None:
        """A pair of value and index: the element at the resulting index receives the cotangent."""
        g = self.bars[0]
        if g is not None:
            won = _apply("equal", self.elements[1], own(results[1], self.rank))
            seeds.append((self.elements[0], simplify.select(won, g, zero(g.type))))

    def general(self, seeds: Seeds, captured: Captured | None) -> None:
        """Any combination: result = l · a · r, where l combines all elements before a and r all
        after it, computed by two scans."""
        node, rank = self.node, self.rank
        inner = node.inner
        n: Expr = constant(1)
        for extent in inner:
            n = _apply("multiply", n, extent)
        at: list[Expr] = list(graph.indices(rank))
        left_over: Expr = Index(rank)
        within: list[Expr] = []
        for extent in inner[:0:-1]:
            within.insert(0, _apply("remainder", left_over, extent))
            left_over = _apply("floor_divide", left_over, extent)
        flat_map = index_map([*at, left_over, *within])
        shape: graph.Shape = (*node.outer, n)
        stored = graph.Generate(shape, tuple(shifted(e, flat_map) for e in self.elements),
                                label=adjoint(node), where=node.where)  # fmt: skip
        own_index = graph.indices(rank + 1)
        values = tuple(leaf.at(*own_index) for leaf in stored.leaves)
        scans = [
            graph.Scan(shape, rank, values, self.combine, None, "inclusive", back,
                       label=adjoint(node), where=node.where)
            for back in (False, True)
        ]  # fmt: skip
        here = linear(graph.indices(rank + len(inner))[rank:], inner)
        row = graph.indices(rank)

        def read(of: graph.Generate | graph.Scan, position: Expr) -> list[Expr]:
            return [leaf.at(*row, position) for leaf in of.leaves]

        before = read(scans[0], _apply("subtract", here, constant(1)))
        after = read(scans[1], _apply("add", here, constant(1)))
        is_first = _apply("equal", here, constant(0))
        is_last = _apply("equal", _apply("add", here, constant(1)), n)
        seeds += _between(self.combine, self.elements, self.init, self.bars, before, after,
                          is_first, is_last, captured)  # fmt: skip


def _few(inner: graph.Shape) -> bool:
    """Whether positions along axes fit into 8 bits."""
    counts = [int(n.value) for n in inner if isinstance(n, Const)]
    return len(counts) == len(inner) and math.prod(counts) <= int8.highest


def _between(
    combine: graph.Combine,
    x: Sequence[Expr],
    init: Sequence[Expr] | None,
    bars: Sequence[Expr | None],
    before: Sequence[Expr],
    after: Sequence[Expr],
    is_first: Expr,
    is_last: Expr,
    captured: Captured | None,
) -> Seeds:
    """Cotangents of elements x in `init · before · x · after`, given those of results."""
    tail = [
        guarded(is_last, a, b) if not b.reads else guarded(negated(is_last), b, a)
        for a, b in zip(x, combine.of(x, after), strict=True)
    ]
    if init is not None:
        inside = combine.of(init, before)
        before = [guarded(negated(is_first), b, a) for a, b in zip(init, inside, strict=True)]
    _, through = combine_vjp(combine, before, tail, bars)
    middle: list[Expr | None] = []
    for t, g, e in zip(through, bars, x, strict=True):
        if not e.type.is_inexact or (t is None and g is None):
            middle.append(None)
        elif init is not None:
            middle.append(t)
        else:
            middle.append(_otherwise(is_first, g, t, e))
    lefts, _ = combine_vjp(combine, x, after, middle)
    if captured is not None:
        state, _ = combine_vjp(combine, combine.of(before, x), after, bars)
        given = [
            None if g is None and b is None else _otherwise(is_last, b, g, e)
            for g, b, e in zip(state, bars, x, strict=True)
        ]
        captured(before, x, given, is_first if init is None else FALSE)
    return [
        (e, _otherwise(is_last, m, g, e))
        for e, g, m in zip(x, lefts, middle, strict=True)
        if e.type.is_inexact and not (g is None and m is None)
    ]


def _capturing(
    r: Reverse, combine: graph.Combine, shape: graph.Shape, node: Node, inside: Expr = TRUE
) -> Captured | None:
    """A function that passes cotangents of combinations on to the arrays that the combining
    function itself reads, if these are differentiated.  Where `inside` does not hold, nothing is
    combined.

    The derivative with respect to these arrays is the sum over all combinations of a fold from the
    left.
    """
    if not any(map(r.active, combine.results)):
        return None

    def send(
        left: Sequence[Expr], right: Sequence[Expr], bars: Sequence[Expr | None], none: Expr
    ) -> None:
        conditions = [inside] if none is FALSE else [inside, negated(none)]
        mask = tuple(Condition(c, True) for c in conditions if c is not TRUE)
        r.through_function(shape, combine, (*left, *right), bars, mask, node)

    return send


def _otherwise(p: Expr, at_end: Expr | None, inside: Expr | None, like: Expr) -> Expr:
    """`at_end` where p holds; elsewhere `inside`, which is evaluated only there."""
    a, b = at_end or zero(like.type), inside or zero(like.type)
    return guarded(negated(p), b, a)


# --- segmented folds ---------------------------------------------------------------------------


@reverse_rule(graph.FoldSeg)
def _fold_seg(r: Reverse, node: graph.FoldSeg, bars: Bars) -> None:
    """Like folds, with the cotangent of each element's segment."""
    plain = node.with_(epilogue=node.results)
    stored = plain.outputs[0].shape
    bars = through_epilogue(r, node, bars)
    rank = len(node.outer)
    shape = (*node.outer, node.extent)
    here = Index(rank)
    owner = segment_of_position(node.offsets, node.segments, node.extent, 0)
    segment = owner._leaves[0].at(here)
    start = node.offsets.at(segment)
    end = node.offsets.at(_apply("add", segment, constant(1)))
    inside = both(_apply("less_equal", start, here), _apply("less", here, end))
    label = adjoint(node)

    def of_segment(leaf: Leaf) -> Expr:
        return leaf.at(*graph.indices(rank), segment)

    def fold(
        elements: tuple[Expr, ...], combine: graph.Combine, init: tuple[Expr, ...] | None
    ) -> graph.FoldSeg:
        return graph.over(node, elements, combine, init, label)

    seeds: Seeds = []
    starts: Seeds = []
    for group, combine in independent_parts(node.combine):
        x = tuple(node.elements[k] for k in group)
        init = None if node.init is None else tuple(node.init[k] for k in group)
        given = [bars[k] for k in group]
        if all(g is None for g in given):
            continue
        if init is not None and any(r.active(e) for e in init):
            without = (FALSE, *(zero(e.type) for e in x))
            rest = [own(leaf, rank + 1)
                    for leaf in fold((TRUE, *x), optional(combine), without).leaves]  # fmt: skip
            of_results = [None if g is None else own(g, rank + 1) for g in given]
            of_init, _ = combine_vjp(combine, init, rest[1:], of_results)
            for e, g, t in zip(init, of_results, of_init, strict=True):
                if e.type.is_inexact:
                    part = _otherwise(negated(rest[0]), g, t, e)
                    starts.append((e, summed((), stored, part, label, node.where).at()))
        captured = _capturing(r, combine, shape, node, inside)
        if captured is None and not any(r.active(e) for e in x):
            continue
        received = [None if g is None else of_segment(g) for g in given]
        way = ways(combine)[0] if len(group) == 1 else ""
        better = {"minimum": "less", "maximum": "greater"}.get(way)
        found: Seeds
        if way == "add":
            assert received[0] is not None
            found = [(x[0], received[0])]
        elif better is not None or argument_of(combine) is not None:
            if better is not None:
                first = None if init is None else (init[0], constant(-1))
                positions = fold((x[0], here), argument_combine(x[0].type, better), first).leaf(1)
                won = _apply("equal", here, of_segment(positions))
            else:
                won = _apply("equal", x[1], of_segment(plain.leaf(group[1])))
            g = received[0]
            found = [] if g is None else [(x[0], simplify.select(won, g, zero(g.type)))]
        else:
            scans = [_segmented(shape, x, combine, start, end, back, node)
                     for back in (False, True)]  # fmt: skip
            row = graph.indices(rank)
            before, after = (
                [scan.leaf(k).at(*row, _apply("add", here, constant(step)))
                 for k in range(1, len(x) + 1)]
                for scan, step in zip(scans, (-1, 1), strict=True)
            )  # fmt: skip
            is_first = _apply("equal", here, start)
            is_last = _apply("equal", _apply("add", here, constant(1)), end)
            found = _between(combine, x, init, received, before, after, is_first, is_last, captured)
        seeds += [(e, guarded(inside, g, zero(g.type))) for e, g in found]
    r.through(shape, seeds, node)
    r.through((), starts, node)


def _segmented(
    shape: graph.Shape, x: Sequence[Expr], combine: graph.Combine, start: Expr, end: Expr,
    back: bool, node: graph.FoldSeg,
) -> graph.Scan:  # fmt: skip
    """Scans of all segments in one scan of pairs: a flag, set at the first (or last) element of
    each segment, and the element."""
    here = Index(len(shape) - 1)
    edge = _apply("equal", _apply("add", here, constant(1)), end) if back else (
        _apply("equal", here, start))  # fmt: skip
    left = [Var("left", e.type) for e in (edge, *x)]
    right = [Var("right", e.type) for e in (edge, *x)]
    stop, kept = (left[0], left[1:]) if back else (right[0], right[1:])
    joined = combine.of(left[1:], right[1:])
    results = [
        _apply("logical_or", left[0], right[0]),
        *(simplify.select(stop, k, j) for k, j in zip(kept, joined, strict=True)),
    ]
    both = graph.canonical_combine(tuple(left), tuple(right), tuple(results))
    return graph.Scan(shape, len(shape) - 1, (edge, *x), both, None, "inclusive", back,
                      label=adjoint(node), where=node.where)  # fmt: skip


# --- scans -------------------------------------------------------------------------------------

#: The most components of a scan whose derivative is a scan of square matrices; with more, it is a
#: walk along the axis.
_MOST_COMPONENTS = 3


@forward_rule(graph.Scan)
def _scan_tangents(f: Forward, node: graph.Scan) -> None:
    moved, last = f.combined(node)
    f.epilogue(node, moved)
    for k, t in enumerate(last):
        if t is not None:
            f.tangents[node.leaf(len(node.epilogue) + k)] = t


@reverse_rule(graph.Scan)
def _scan(r: Reverse, node: graph.Scan, bars: Bars) -> None:
    prefixes = through_epilogue(r, node, bars)
    others = bars[len(node.epilogue) :]
    totals = list(others) if node.form == "total" else [None] * len(node.elements)
    seeds: Seeds = []
    for group, combine in independent_parts(node.combine):
        part = _Scanned(node, group, combine, prefixes, totals)
        moving = (*(node.elements[k] for k in group), *combine.results)
        if not part.given or not any(map(r.active, moving)):
            part.given = part.given and part.init_moves(r)
            if not part.given:
                continue
        if ways(combine) == ["add"]:
            seeds += part.sum()
            if part.init_moves(r):
                part.start(r)
        else:
            seeds += part.general(r)
    r.through(node.shape, seeds, node)


class _Scanned:
    def __init__(
        self,
        node: graph.Scan,
        group: Sequence[int],
        combine: graph.Combine,
        prefixes: Sequence[Leaf | None],
        totals: Sequence[Leaf | None],
    ) -> None:
        self.node, self.group, self.combine = node, group, combine
        self.prefixes = [prefixes[k] for k in group]
        self.totals = [totals[k] for k in group]
        self.given = any(b is not None for b in (*self.prefixes, *self.totals))
        self.rank, self.axis = len(node.shape), node.axis
        self.n = node.shape[node.axis]

    def init_moves(self, r: Reverse) -> bool:
        init = self.node.init
        return init is not None and any(r.active(init[k]) for k in self.group)

    def at(self, leaf: Leaf, position: Expr) -> Expr:
        index: list[Expr] = list(graph.indices(self.rank))
        index[self.axis] = position
        return leaf.at(*index)

    def after(self, k: int) -> Expr | None:
        """The given cotangent of the state after element Index(axis) was combined."""
        prefix, total = self.prefixes[k], self.totals[k]
        here, one = Index(self.axis), constant(1)
        back = self.node.reverse
        if self.node.form == "inclusive":
            return None if prefix is None else self.at(prefix, here)
        if self.node.form == "exclusive":
            if prefix is None:
                return None
            return self.at(prefix, here if back else _apply("add", here, one))
        type_ = self.node.elements[self.group[k]].type
        ends = (
            _apply("equal", here, constant(0))
            if back
            else _apply("equal", _apply("add", here, one), self.n)
        )
        inside = None
        if prefix is not None:
            inside = self.at(prefix, _apply("subtract" if back else "add", here, one))
        last = None
        if total is not None:
            index = [Index(j) for j in range(self.rank) if j != self.axis]
            last = total.at(*index)
        if inside is None and last is None:
            return None
        return _otherwise(ends, last, inside, zero(type_))

    def scan(self, elements: Sequence[Expr], combine: graph.Combine, back: bool) -> graph.Scan:
        return graph.Scan(self.node.shape, self.axis, tuple(elements), combine, None, "inclusive",
                          back, label=adjoint(self.node), where=self.node.where)  # fmt: skip

    def sum(self) -> Seeds:
        g = self.after(0)
        e = self.node.elements[self.group[0]]
        if g is None:
            return []
        made = self.scan((g,), simple_combine("add", g.type), not self.node.reverse)
        return [(e, own(made.leaf(), self.rank))]

    def start(self, r: Reverse) -> None:
        """The initial value of a sum is in every result."""
        assert self.node.init is not None
        parts: list[Expr] = []
        for b in (self.prefixes[0], self.totals[0]):
            if b is not None:
                g = own(b, len(b.shape))
                parts.append(summed((), b.shape, g, adjoint(self.node), self.node.where).at())
        total = parts[0]
        for p in parts[1:]:
            total = add(total, p)
        r.through((), [(self.node.init[self.group[0]], total)], self.node)

    def general(self, reverse: Reverse) -> Seeds:
        """Any combination: the state after element i has the cotangent r_i = z_i + J_iᵀ r_(i+1),
        where z_i is given and J_i is the derivative of the next state with respect to it: a scan of
        affine functions (z, J)."""
        node, back = self.node, self.node.reverse
        x = [node.elements[k] for k in self.group]
        floats = [k for k, e in enumerate(x) if e.type.is_inexact]
        d = len(floats)
        init = None if node.init is None else tuple(node.init[k] for k in self.group)
        states = self.scan(x, self.combine, back)
        here: Expr = Index(self.axis)
        following = _apply("subtract" if back else "add", here, constant(1))
        previous = _apply("add" if back else "subtract", here, constant(1))
        count = _apply("subtract", self.n, constant(1))
        first = _apply("equal", here, count if back else constant(0))
        last = _apply("equal", here, constant(0) if back else count)

        def states_at(position: Expr) -> Sequence[Expr]:
            found = [self.at(leaf, position) for leaf in states.leaves]
            if init is None:
                return found
            if back:
                return self.combine.of(found, init)
            return self.combine.of(init, found)

        moved = index_map(list(graph.indices(self.rank)))
        moved[here] = following
        beyond = [shifted(e, moved) for e in x]
        now = states_at(here)

        def through(
            state: Sequence[Expr], element: Sequence[Expr], g: Sequence[Expr | None]
        ) -> tuple[list[Expr | None], list[Expr | None]]:
            """The cotangents of the state and of the element that are combined."""
            if back:
                right, left = combine_vjp(self.combine, element, state, g)
                return left, right
            return combine_vjp(self.combine, state, element, g)

        z = [self.after(k) or zero(x[k].type) for k in floats]
        if d > _MOST_COMPONENTS or any(x[k].type.is_complex for k in floats):
            found = self._step_by_step(through, floats, z, now, beyond, last)
        else:
            found = self._at_once(through, floats, z, now, beyond, last)
        r: list[Expr | None] = [None] * len(x)
        for leaf, k in zip(found, floats, strict=True):
            r[k] = own(leaf, self.rank)
        _, of_element = through(states_at(previous), x, r)
        at_start = r
        if init is not None:
            of_init, at_start = through(init, x, r)
            if self.init_moves(reverse):
                self.starts(reverse, of_init, count if back else constant(0))
        captured = _capturing(reverse, self.combine, node.shape, node)
        if captured is not None:
            before = states_at(previous)
            if init is not None:
                before = [guarded(negated(first), b, a) for a, b in zip(init, before, strict=True)]
            left, right = (x, before) if back else (before, x)
            captured(left, right, r, first if init is None else FALSE)
        return [(x[k], _otherwise(first, at_start[k], of_element[k], x[k])) for k in floats]

    def _at_once(
        self,
        through: Through,
        floats: Sequence[int],
        z: Sequence[Expr],
        now: Sequence[Expr],
        beyond: Sequence[Expr],
        last: Expr,
    ) -> Sequence[Leaf]:
        """The cotangents of the states, by a scan of affine functions."""
        d = len(floats)
        rows: list[list[Expr]] = []  # rows[j][i]: ∂ result i / ∂ state j
        for i in floats:
            g = [Const(1, now[k].type) if k == i else None for k in range(len(now))]
            of_state, _ = through(now, beyond, g)
            rows.append([_otherwise(last, None, of_state[j], now[j]) for j in floats])
        elements = [*z, *(rows[i][j] for j in range(d) for i in range(d))]
        left = [Var("left", e.type) for e in elements]
        right = [Var("right", e.type) for e in elements]

        def matrix(v: Sequence[Expr], j: int, i: int) -> Expr:
            return v[d + j * d + i]

        def dot(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
            total = _apply("multiply", a[0], b[0])
            for p, q in zip(a[1:], b[1:], strict=True):
                total = _apply("add", total, _apply("multiply", p, q))
            return total

        # The outer function, closer to the start, is applied last.
        outer, inner = (right, left) if self.node.reverse else (left, right)
        values = [
            _apply("add", outer[j], dot([matrix(outer, j, i) for i in range(d)], inner[:d]))
            for j in range(d)
        ]
        values += [
            dot([matrix(outer, j, k) for k in range(d)], [matrix(inner, k, i) for k in range(d)])
            for j in range(d)
            for i in range(d)
        ]
        combine = graph.canonical_combine(tuple(left), tuple(right), tuple(values))
        made = self.scan(elements, combine, not self.node.reverse)
        return made.leaves[:d]

    def _step_by_step(
        self,
        through: Through,
        floats: Sequence[int],
        z: Sequence[Expr],
        now: Sequence[Expr],
        beyond: Sequence[Expr],
        last: Expr,
    ) -> Sequence[Leaf]:
        """The cotangents of the states, step by step along the axis."""
        node, many = self.node, len(now)
        label, where = adjoint(node), node.where
        inside = tuple(guarded(last, e, b) for e, b in zip(now, beyond, strict=True))
        xs = graph.Generate(node.shape, (last, *z, *now, *inside), label=label, where=where)
        outer = tuple(n for j, n in enumerate(node.shape) if j != self.axis)
        start = graph.Generate(outer, tuple(zero(e.type) for e in z), label=label, where=where)

        def of(value: Array | Scalar) -> Expr:
            return value._expr if isinstance(value, Scalar) else own(value._leaves[0], len(outer))

        def step(
            carried: Sequence[Array], given: Sequence[Array | Scalar]
        ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
            end, *values = map(of, given)
            add_to, values = values[: len(z)], values[len(z) :]
            g: list[Expr | None] = [None] * many
            for k, c in zip(floats, carried, strict=True):
                g[k] = of(c)
            found, _ = through(values[:many], values[many:], g)
            elements = tuple(
                add(e, _otherwise(end, None, found[k], e))
                for k, e in zip(floats, add_to, strict=True)
            )
            made = graph.Generate(outer, elements, label=label, where=where)
            new = tuple(Array((leaf,)) for leaf in made.leaves)
            return new, new

        first = tuple(Array((leaf,)) for leaf in start.leaves)
        _, found = scan(step, first, tuple(Array((leaf,)) for leaf in xs.leaves),
                        axis=self.axis, reverse=not node.reverse)  # fmt: skip
        return [part._leaves[0] for part in found]

    def starts(self, r: Reverse, of_init: Sequence[Expr | None], first: Expr) -> None:
        """Contributions to the initial value: `of_init` from its combination with the element at
        `first`, if there is one; and, if the scan is not inclusive, from being a result itself."""
        node, init = self.node, self.node.init
        assert init is not None
        outer = tuple(n for j, n in enumerate(node.shape) if j != self.axis)
        places = [Index(j - (j > self.axis)) for j in range(self.rank)]
        none = _apply("equal", self.n, constant(0))
        for j, k in enumerate(self.group):
            prefix, total = self.prefixes[j], self.totals[j]
            if not init[k].type.is_inexact:
                continue
            at = [*places[: self.axis], first, *places[self.axis + 1 :]]
            part = of_init[j]
            part = None if part is None else shifted(part, index_map(at))
            empty: Expr | None = None if total is None else own(total, len(outer))
            if prefix is not None and node.form == "exclusive":
                at[self.axis] = self.n if node.reverse else constant(0)
                empty = prefix.at(*at)
                part = empty if part is None else add(part, empty)
            elif prefix is not None and node.form == "total":
                here = prefix.at(*at)
                part = here if part is None else add(part, here)
            g = _otherwise(none, empty, part, init[k])
            total_of = summed((), outer, g, adjoint(node), node.where).at()
            r.through((), [(init[k], total_of)], node)
