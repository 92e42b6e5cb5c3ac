"""Code for the threads that fold a row: its elements by position, and their combination.

    strided    operators that commute and have an identity: threads take vectors of elements
               round-robin, with an accumulator for each element of the vector
    in order   all others: a warp folds consecutive elements, each thread some of them in order,
               then the warp in order

Shuffles combine threads, shared memory combines warps (`collectives.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import argument_of, argument_passes
from treadle.dsl.expr import Const, Expr, Index, Read, Var, primitive, walk
from treadle.dsl.graph import Combine, Fold, Shape
from treadle.dsl.simplify import apply
from treadle.dsl.types import int32, int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Buffer
from ...ir.linearize import Linearizer
from ..build import Builder, element_cost
from ..combining import Values, accumulate, assign, declare, join, put, zeros
from ..gpu import collectives
from ..gpu.common import WARP, Group, Threads, has_loops, multiples, vector_count
from .rows import Kept

#: Vectors, or rows across, loaded before the first is used.
UNROLL = 4
#: Vectors of consecutive elements per thread if order matters; half as many for larger values.
RUN = 4
#: Elements, or combinations, that cost more are not unrolled.
_CHEAP, _EXPENSIVE = 12.0, 40.0


def unrolling(cost: float, most: int = UNROLL) -> int:
    """The number of vectors loaded at once, for elements of this cost."""
    return most if cost <= _CHEAP else max(most // 2, 1) if cost <= _EXPENSIVE else 1


def heavy_loops(roots: Sequence[Expr]) -> bool:
    """Whether elements are expensive loops, which a thread computes one at a time."""
    return has_loops(roots) and element_cost(roots) > _EXPENSIVE


# --- where elements come from --------------------------------------------------------------------


class RowElements:
    """The elements of a row, by their position along it.

    `lead` are the extents of the inner axes before the last, which `variable` runs along; without
    `lead` it runs along the whole row.  `first` is the Index of the first inner axis.
    """

    def __init__(self, builder: Builder, roots: Sequence[Expr], variable: Expr, count: int,
                 lead: Shape = (), run: Expr | None = None, first: int = 0,
                 kept: Kept | None = None) -> None:  # fmt: skip
        """`kept`: the roots to store when they are computed."""
        self.builder, self.roots, self.variable = builder, tuple(roots), variable
        self.kept = kept
        self.lead, self.run, self.first, self.count = lead, run, first, count
        self.group = Group(builder, roots, variable, count)
        requires = list(self.group.requires)
        self.wide = bool(self.group.streams)
        if lead and run is not None:
            whole = multiples(run, count, builder)
            self.wide = self.wide and whole is not None
            requires += whole or []
        self.requires = tuple(requires)
        self.cost = element_cost(roots)

    def scalar_only(self) -> RowElements:
        """The same elements, read one by one."""
        made = object.__new__(RowElements)
        made.__dict__.update(self.__dict__)
        made.wide = False
        return made

    @property
    def aligned(self) -> tuple[Buffer, ...]:
        """The buffers of wide accesses."""
        stored = () if self.kept is None else self.kept.buffers(self.builder)
        return (*self.group.aligned, *stored) if self.wide else ()

    def _folded(self, into: Linearizer, values: list[Values]) -> list[Values]:
        """Store the kept values of neighbouring elements, the first of which is that of this scope;
        returns the values to fold."""
        if self.kept is None:
            return values
        position = None if isinstance(self.variable, Index) else into.value(self.variable)
        where = self.kept.where(into, self.builder, position)
        return self.kept.store(into, self.builder, where, values)

    def component(self, k: int) -> RowElements:
        """One component of the elements, with wide access only if all components have it."""
        made = RowElements(self.builder, self.roots[k : k + 1], self.variable, self.count,
                           self.lead, self.run, self.first)  # fmt: skip
        made.wide = made.wide and self.wide
        return made

    def share(self, into: Linearizer) -> None:
        """Compute values that the elements of a row share, once."""
        if not self.lead:
            self.group.share(into)

    def _coordinates(self, into: Linearizer, p: Expr) -> tuple[dict[Expr, Expr], Expr]:
        """The coordinates along the leading axes, and the position along the last."""
        if not self.lead or self.run is None:
            return {}, p
        *lead, k = at.row_major(p, self.builder.shape((*self.lead, self.run)))
        named = [into.let(c, "k") for c in lead]
        for c, extent in zip(named, self.lead, strict=True):
            self.builder.stays_below(c, extent)
        return {Index(self.first + n): c for n, c in enumerate(named)}, into.let(k, "k")

    def one(self, into: Linearizer, p: Expr) -> Values:
        """The element at `p`."""
        bindings, k = self._coordinates(into, into.let(p, "p"))
        if self.run is not None:
            self.builder.stays_below(k, self.run)
        with into.when_always({**bindings, self.variable: k}):
            return self._folded(into, [into.emit(self.roots, named=True)])[0]

    def vectors(self, into: Linearizer, starts: Sequence[Expr]) -> list[list[Values]]:
        """`count` elements from each of `positions` (multiples of `count`) on, all loads first."""
        if not self.wide:
            return [[self.one(into, p + k) for k in range(self.count)] for p in starts]
        loaded = []
        for p in starts:
            bindings, k = self._coordinates(into, into.let(p, "p"))
            with into.when_always(bindings):
                loaded.append((bindings, k, self.group.load(into, k)))
        found = []
        for bindings, k, reads in loaded:
            with into.when_always(bindings):
                one = []
                for n, values in enumerate(reads):
                    with into.when_always({self.variable: k + n, **values}):
                        one.append(into.emit(self.roots, named=True))
                with into.when_always({self.variable: k}):
                    found.append(self._folded(into, one))
        return found


def vector_of(node: Fold) -> int:
    """Row elements per vector: determined by the folded types if grouping changes the result,
    otherwise by the reads.  In the latter case 1 for elements with expensive loops: their reads
    hardly matter, and the kernel would contain the loop once per element."""
    if not collectives.is_exact(node.combine):
        return vector_count(r.type for r in node.combine.results)
    if heavy_loops(node.elements):
        return 1
    read = [e.type for e in walk(node.elements) if isinstance(e, Read) and e.args]
    return vector_count(read) if read else 1


def run_of(combine: Combine) -> int:
    """The number of vectors that a thread folds in order, if order matters."""
    return RUN if sum(r.type.bytes for r in combine.results) <= 8 else RUN // 2


class RowFolder:
    """Emits the code of the threads that fold a part of a row.

    `start` … `stop` is the part, `lane` the index of the thread among `lanes`.
    """

    def __init__(self, combine: Combine, elements: RowElements, lanes: Expr, unroll: int = UNROLL,
                 shift: Expr | None = None) -> None:  # fmt: skip
        """`shift`: the logarithm of `lanes`, if `lanes` is not a kernel scalar."""
        self.combine, self.elements, self.lanes = combine, elements, lanes
        self.shift = shift
        self.neutral = collectives.neutral_of(combine)
        self.vector = elements.count
        self.run = run_of(combine)
        self.unroll = unrolling(elements.cost * self.vector / 4, unroll)
        if heavy_loops(elements.roots):
            self.unroll = 1
        elif collectives.is_exact(combine):
            self.unroll = max(1, min(self.unroll, 32 // self.vector))

    @property
    def each(self) -> int:
        """Consecutive elements of a thread."""
        return self.vector if self.neutral is not None else self.vector * self.run

    def fold(self, into: Linearizer, grid: Threads, lane: Expr, start: Expr, stop: Expr,
             buffers: Sequence[Buffer]) -> tuple[Var, ...]:  # fmt: skip
        """The combination of start … stop − 1, in the first thread."""
        total, warps = self.fold_warps(into, lane, start, stop)
        collectives.reduce_block(into, self.combine, total, grid.thread, buffers, self.lanes, warps)
        return total

    def fold_warps(self, into: Linearizer, lane: Expr, start: Expr, stop: Expr
                   ) -> tuple[tuple[Var, ...], Expr | None]:  # fmt: skip
        """The combination of a warp's share in its first thread (of all threads if they are fewer
        than a warp), and the number of warps that have one, if that matters."""
        if self.neutral is None:
            return self._ordered(into, lane, start, stop)
        total = self._strided(into, self.neutral, lane, start, stop)
        into.note("The lanes of a warp, by halves.")
        collectives.reduce_warp(into, self.combine, total, lane, self.lanes)
        return total, None

    # --- strided ---

    def _strided(self, into: Linearizer, neutral: Sequence[Expr], lane: Expr, start: Expr,
                 stop: Expr) -> tuple[Var, ...]:  # fmt: skip
        v = self.vector
        positions = min(v, 4) if collectives.is_exact(self.combine) else v
        totals = [declare(into, neutral) for _ in range(positions)]
        with into.when(at.less(start, stop)):
            self.elements.share(into)
            whole = into.let((stop - start) // v, "whole")
            all_have = at.maximum(whole, 0) // self.lanes
            if self.shift is not None:
                all_have = apply(primitive("right_shift"), (whole, self.shift), int64)
            all_have = into.let(all_have, "all_have")
            left = whole - all_have * self.lanes
            mine = all_have + at.select(at.less(lane, left), 1, 0)
            mine = into.let(mine, "mine")
            better = argument_of(self.combine)
            # With one element at a time, iterations that only some threads execute need no special
            # code.
            alone = self.unroll == 1 and better is None
            rounds = mine if alone else into.let(all_have // self.unroll, "rounds")
            first = into.let(start + lane * v, "first")
            step = into.let(self.lanes * v, "step")

            def position(k: Expr) -> Expr:
                return into.let(first + k * step, "p")

            if better is not None:
                self._arguments(into, better, totals, first, rounds, position)
            elif alone and v > 1 and heavy_loops(self.elements.roots):
                self._round_robin(into, neutral, totals, mine + 1, stop, position)
                return collectives.tree(into, self.combine, totals)
            else:
                with into.loop("iteration", 0, rounds) as iteration:
                    if self.unroll > 1:
                        into.note(
                            f"{self.unroll} loads on their way before the first is waited for."
                        )
                    for group in self.elements.vectors(into, self._round(iteration, position)):
                        self._add(into, totals, group)
            if not alone:
                self._rest(into, neutral, totals, rounds, mine, position)
            if v > 1:
                into.note("Elements that are no whole vector.")
                last = position(mine)
                for k in range(v - 1):
                    p = into.let(last + k, "p")
                    with into.when(at.less(p, stop)):
                        value = self.elements.one(into, p)
                        accumulate(into, self.combine, totals[k % positions], value)
        return collectives.tree(into, self.combine, totals)

    def _round_robin(self, into: Linearizer, neutral: Sequence[Expr],
                     totals: Sequence[tuple[Var, ...]], vectors: Expr, stop: Expr,
                     position: Callable[[Expr], Expr]) -> None:  # fmt: skip
        """Vectors whose elements are expensive loops.  The loop is emitted once: the totals rotate
        instead and are back in position after each vector.  The last vector ends at `stop`."""
        with into.loop("iteration", 0, vectors) as iteration:
            first = position(iteration)
            into.note("Elements and totals alternate round-robin.")
            with into.loop("own", 0, self.vector) as own:
                value = declare(into, neutral, "x")
                p = into.let(first + own, "p")
                with into.when(at.less(p, stop)):
                    assign(into, value, self.elements.one(into, p))
                accumulate(into, self.combine, totals[0], value)
                done = declare(into, totals[0], "done")
                for total, following in itertools.pairwise(totals):
                    assign(into, total, following)
                assign(into, totals[-1], done)

    def _round(self, iteration: Expr, position: Callable[[Expr], Expr]) -> list[Expr]:
        """The positions of the vectors of a round."""
        base = iteration * self.unroll
        return [position(base + u) for u in range(self.unroll)]

    def _arguments(
        self, into: Linearizer, better: str, totals: Sequence[tuple[Var, ...]], first: Expr,
        rounds: Expr, position: Callable[[Expr], Expr],
    ) -> None:  # fmt: skip
        """The complete rounds of argmin and argmax, into `totals`, which are still empty.

        A total receives its elements in order, so ties need no test.  It stores the round of the
        best element instead of its index (32 bits; 2³¹ rounds of one thread would take hours) and
        reads the element again at the end.
        """
        values, positions = self.elements.component(0), len(totals)
        with into.when(at.less(0, rounds)):
            (group,) = values.vectors(into, [first])
            best = [into.declare(group[k][0], "best") for k in range(positions)]
            numbers = [into.declare(Const(0, int32), "number") for _ in best]
            each = self.vector // positions
            with into.loop("iteration", 0, rounds) as iteration:
                base = into.let(simplify.cast(iteration * (self.unroll * each), int32), "base")
                for u, group in enumerate(values.vectors(into, self._round(iteration, position))):
                    for k, (value,) in enumerate(group):
                        later = Const(u * each + k // positions, int32)
                        number = apply(primitive("add"), (base, later), int32)
                        old, last = best[k % positions], numbers[k % positions]
                        passes = into.let(argument_passes(better, old, value), "passes")
                        into.append(Assign(old, simplify.select(passes, value, old)))
                        into.append(Assign(last, simplify.select(passes, number, last)))
            for k, (total, last) in enumerate(zip(totals, numbers, strict=True)):
                number = simplify.cast(last, int64)
                vector = position(number // each)
                within = number % each * positions + k
                assign(into, total, self.elements.one(into, vector + within))

    def short(self, into: Linearizer, first: Expr, count: Expr, buffers: Sequence[Buffer],
              slot: Expr) -> None:  # fmt: skip
        """The vector at `first` of a row of `count` elements, neutral beyond it, into `held`."""
        neutral = self.neutral or ()
        for k in range(self.vector):
            put(into, buffers, slot + k, neutral)
        if self.elements.wide:
            with into.when(at.less(first, count)):
                (found,) = self.elements.vectors(into, [first])
                for k, value in enumerate(found):
                    put(into, buffers, slot + k, value)
            return
        for k in range(self.vector):
            p = into.let(first + k, "p")
            with into.when(at.less(p, count)):
                put(into, buffers, slot + k, self.elements.one(into, p))

    def _add(self, into: Linearizer, totals: Sequence[Sequence[Var]],
             group: Sequence[Values]) -> None:  # fmt: skip
        for k, value in enumerate(group):
            accumulate(into, self.combine, totals[k % len(totals)], value)

    def _rest(self, into: Linearizer, neutral: Sequence[Expr], totals: Sequence[Sequence[Var]],
              rounds: Expr, mine: Expr, position: Callable[[Expr], Expr]) -> None:  # fmt: skip
        """The vectors of the incomplete last round: all loads first, neutral beyond the end."""
        base = into.let(rounds * self.unroll, "base")
        with into.when(at.less(base, mine)):
            into.note("What is no whole round: neutral elements stand for what does not exist.")
            groups: list[Sequence[Values]] = []
            groups += self.elements.vectors(into, [position(base)])
            for u in range(1, self.unroll):
                values = [declare(into, neutral, "x") for _ in range(self.vector)]
                k = base + u
                with into.when(at.less(k, mine)):
                    (found,) = self.elements.vectors(into, [position(k)])
                    for variables, value in zip(values, found, strict=True):
                        assign(into, variables, value)
                groups.append(values)
            for group in groups:
                self._add(into, totals, group)

    # --- in order ---

    def _ordered(self, into: Linearizer, lane: Expr, start: Expr, stop: Expr
                 ) -> tuple[tuple[Var, ...], Expr]:  # fmt: skip
        """Each warp of the part takes consecutive tiles; its first thread accumulates them."""
        run = self.vector * self.run
        width = into.let(at.minimum(self.lanes, WARP), "width")
        warps = into.let(at.maximum(self.lanes // WARP, 1), "warps")
        tile = into.let(width * run, "tile")
        # (Division of provably non-negative numbers becomes multiplication.)
        length = into.let(at.maximum(stop - start, 0), "length")
        tiles = into.let(at.ceil_div(at.ceil_div(length, tile), warps), "tiles")
        share = into.let(tiles * tile, "share")
        warp, inside = lane // WARP, into.let(lane % width, "inside")
        begin = into.let(start + warp * share, "begin")
        end = into.let(at.minimum(begin + share, stop), "end")
        total = declare(into, zeros(self.combine))
        with into.loop("iteration", 0, tiles) as iteration:
            origin = into.let(begin + iteration * tile, "origin")
            first = into.let(origin + inside * run, "first")
            part = self._run(into, first, first + run, end)
            left = at.minimum(at.ceil_div(end - origin, run), width)
            collectives.reduce_warp(into, self.combine, part, inside, width, into.let(left, "left"))
            with into.when(at.less(origin, end)):
                join(into, self.combine, total, part, first=at.equal(iteration, 0))
        return total, at.ceil_div(length, at.maximum(share, 1))

    def _run(self, into: Linearizer, first: Expr, stop: Expr, end: Expr) -> tuple[Var, ...]:
        """Elements first … min(stop, end) − 1 of one thread, in order."""
        part = declare(into, zeros(self.combine), "part")
        cheap = max(self.elements.cost, collectives.combine_cost(self.combine)) <= _EXPENSIVE
        whole = at.less_equal(stop, end) if cheap and self.elements.wide else at.less(end, end)
        if cheap and self.elements.wide:
            with into.when(whole):
                starts = [first + k * self.vector for k in range(self.run)]
                values = [x for v in self.elements.vectors(into, starts) for x in v]
                assign(into, part, values[0])
                for value in values[1:]:
                    accumulate(into, self.combine, part, value)
            with into.otherwise(whole):
                self._one_by_one(into, part, first, stop, end, "rolled")
        else:
            self._one_by_one(into, part, first, stop, end)
        return part

    def _one_by_one(self, into: Linearizer, part: Sequence[Var], first: Expr, stop: Expr,
                    end: Expr, kind: str = "serial") -> None:  # fmt: skip
        with into.loop("k", first, at.minimum(stop, end), kind) as k:
            value = self.elements.one(into, k)
            join(into, self.combine, part, value, first=at.equal(k, first))
