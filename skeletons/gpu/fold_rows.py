"""Rows of a fold: `lanes` threads (a power of two up to a block) fold a row.

    strided    operators that commute and have a neutral element: threads take turns, VECTOR
               elements each, with an accumulator for each place of the vector
    in order   all others: a warp folds consecutive elements, each thread some of them in order,
               then the warp in order

Threads are combined by shuffles and warps through shared memory (`collectives.py`).  Long rows
are cut into parts where there are few; a second kernel combines the parts of a row.  A schedule
says which parts follow each other in a block, and which blocks (`visits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Const, Expr, Index, Read, Var, constant, primitive, walk
from treadle.dsl.graph import Combine, Fold, Shape
from treadle.dsl.operations.folds import argument_of, argument_passes
from treadle.dsl.simplify import apply
from treadle.dsl.types import int32, int64
from treadle.skeletons.combining import (
    Values,
    accumulate,
    assign,
    declare,
    zeros,
)
from treadle.skeletons.fold import RowFold
from treadle.skeletons.kernel import arithmetic as at
from treadle.skeletons.kernel import tiling, transform
from treadle.skeletons.kernel.build import Builder, element_cost
from treadle.skeletons.kernel.ir import Assign, Buffer, Kernel, Load, Lowered
from treadle.skeletons.kernel.linearize import Linearizer

from .collectives import (
    combine_cost,
    get,
    is_exact,
    neutral_of,
    put,
    reduce_block,
    reduce_warp,
)
from .common import WARP, Group, Threads, multiples, vector_count
from .visits import Turns, Visits, leaf

#: Threads of a block; of one that combines partial results, and the vectors it loads at once.
THREADS, COMBINE_THREADS, COMBINE_UNROLL = 256, 512, 8
#: Blocks that rows are cut into altogether; vectors of a thread below which it does not pay.
BLOCKS, LEAST = 16384, 8
#: Vectors of a thread that make it worth having fewer threads for a row.
DEPTH = 4
#: Lanes of a row that are used before a lane takes more than one vector; rows of one vector to a
#: lane that a thread takes.
FEW_LANES, TURNS = 8, 4
#: Vectors, or rows across, loaded before the first is used.
UNROLL = 4
#: Consecutive elements of a thread where order matters, in vectors; of larger values half of it.
RUN = 4
#: Elements, or combinations, that cost more are not unrolled.
_CHEAP, _DEAR = 12.0, 40.0


def unrolling(cost: float, most: int = UNROLL) -> int:
    """How many vectors are loaded at once, for elements of this cost."""
    return most if cost <= _CHEAP else max(most // 2, 1) if cost <= _DEAR else 1


# --- where elements come from --------------------------------------------------------------------


class RowElements:
    """The elements of a row, by their position along it.

    `lead` are the extents of the inner axes before the last, which `variable` runs along; without
    `lead` it runs along the whole row.  `first` is the Index of the first inner axis.
    """

    def __init__(self, builder: Builder, roots: Sequence[Expr], variable: Expr, count: int,
                 lead: Shape = (), run: Expr | None = None, first: int = 0) -> None:  # fmt: skip
        self.builder, self.roots, self.variable = builder, tuple(roots), variable
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

    def component(self, k: int) -> RowElements:
        """One component of the elements alone, wide only where all of them are."""
        made = RowElements(self.builder, self.roots[k : k + 1], self.variable, self.count,
                           self.lead, self.run, self.first)  # fmt: skip
        made.wide = made.wide and self.wide
        return made

    def share(self, into: Linearizer) -> None:
        """What the elements of a row have in common, once."""
        if not self.lead:
            self.group.share(into)

    def _place(self, into: Linearizer, p: Expr) -> tuple[dict[Expr, Expr], Expr]:
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
        bindings, k = self._place(into, into.let(p, "p"))
        if self.run is not None:
            self.builder.stays_below(k, self.run)
        with into.when_always({**bindings, self.variable: k}):
            return into.emit(self.roots, named=True)

    def vectors(self, into: Linearizer, places: Sequence[Expr]) -> list[list[Values]]:
        """`count` elements from each of `places` (multiples of `count`) on, all loads in front."""
        if not self.wide:
            return [[self.one(into, at.add(p, k)) for k in range(self.count)] for p in places]
        loaded = []
        for p in places:
            bindings, k = self._place(into, into.let(p, "p"))
            with into.when_always(bindings):
                loaded.append((bindings, k, self.group.load(into, k)))
        found = []
        for bindings, k, reads in loaded:
            with into.when_always(bindings):
                one = []
                for n, held in enumerate(reads):
                    with into.when_always({self.variable: at.add(k, n), **held}):
                        one.append(into.emit(self.roots, named=True))
                found.append(one)
        return found


def vector_of(node: Fold) -> int:
    """RowElements of a vector: by what is read where grouping never changes a bit, else by what is
    folded."""
    if not is_exact(node.combine):
        return vector_count(r.type for r in node.combine.results)
    read = [e.type for e in walk(node.elements) if isinstance(e, Read) and e.args]
    return vector_count(read) if read else 1


# --- how rows are dealt out ----------------------------------------------------------------------


def part_of(rows: Expr, count: Expr, step: int) -> Expr:
    """Elements of a part of a row, where rows may be cut; a block takes `step` at a time."""
    most = at.minimum(at.floor_divide(BLOCKS, at.maximum(rows, 1)),
                      at.floor_divide(count, step * LEAST))  # fmt: skip
    share = at.ceil_div(count, at.maximum(most, 1))
    return at.maximum(at.multiply(at.ceil_div(share, step), step), step)


def run_of(combine: Combine) -> int:
    """Vectors that a thread folds in order, where order matters."""
    return RUN if sum(r.type.bytes for r in combine.results) <= 8 else RUN // 2


@dataclass(frozen=True)
class _Deal:
    """`rows` rows of `count` elements to blocks of THREADS threads, as scalars of the kernel.

    `lanes` threads fold a part of `span` elements, of which a row has `parts`; a block has
    `per_block` such parts.
    """

    rows: Expr
    count: Expr
    lanes: Expr
    parts: Expr
    span: Expr
    per_block: Expr
    units: Expr
    tasks: Expr
    host_lanes: Expr
    host_parts: Expr

    @classmethod
    def of(cls, builder: Builder, rows: Expr, count: Expr, each: int, threads: int, cut: bool,
           when: Expr = TRUE) -> _Deal:  # fmt: skip
        """`each`: consecutive elements of a thread; `cut`: rows may be cut into parts."""
        lanes: Expr = at.integer(threads)
        width = threads // 2
        while width:
            depth = DEPTH if width >= FEW_LANES else 1
            lanes = at.select(at.less_equal(count, width * each * depth), width, lanes)
            width //= 2
        parts: Expr = constant(1)
        span: Expr = at.maximum(count, 1)
        if cut:
            span = part_of(rows, count, threads * each)
            parts = at.maximum(at.ceil_div(count, span), 1)
        per_block = at.floor_divide(threads, lanes)
        units = at.multiply(rows, parts)
        tasks = at.select(when, at.ceil_div(units, per_block), 0)
        names = ("rows", "count", "lanes", "parts", "span", "per_block", "units", "blocks")
        hosts = (rows, count, lanes, parts, span, per_block, units, tasks)
        a, b, c, d, e, f, g, h = map(builder.scalar, hosts, names)
        return cls(a, b, c, d, e, f, g, h, lanes, parts)


class RowFolder:
    """The threads of a part of a row: emits what they do.

    `start` … `stop` is the part, `lane` the number of the thread among `lanes`.
    """

    def __init__(self, combine: Combine, elements: RowElements, lanes: Expr, unroll: int = UNROLL,
                 shift: Expr | None = None) -> None:  # fmt: skip
        """`shift`: the logarithm of `lanes`, where `lanes` is no scalar of the kernel."""
        self.combine, self.elements, self.lanes = combine, elements, lanes
        self.shift = shift
        self.neutral = neutral_of(combine)
        self.vector = elements.count
        self.run = run_of(combine)
        self.unroll = unrolling(elements.cost * self.vector / 4, unroll)
        if is_exact(combine):
            self.unroll = max(1, min(self.unroll, 32 // self.vector))

    @property
    def each(self) -> int:
        """Consecutive elements of a thread."""
        return self.vector if self.neutral is not None else self.vector * self.run

    def fold(self, into: Linearizer, grid: Threads, lane: Expr, start: Expr, stop: Expr,
             held: Sequence[Buffer]) -> tuple[Var, ...]:  # fmt: skip
        """The combination of start … stop − 1, in the first of the threads."""
        total, warps = self.fold_warps(into, lane, start, stop)
        reduce_block(into, self.combine, total, grid.thread, held, self.lanes, warps)
        return total

    def fold_warps(self, into: Linearizer, lane: Expr, start: Expr, stop: Expr
                   ) -> tuple[tuple[Var, ...], Expr | None]:  # fmt: skip
        """The combination of a warp's share, in its first thread, or that of all of fewer threads;
        and how many warps have one, where that matters."""
        if self.neutral is None:
            return self._ordered(into, lane, start, stop)
        total = self._strided(into, self.neutral, lane, start, stop)
        reduce_warp(into, self.combine, total, lane, self.lanes)
        return total, None

    # --- taking turns ---

    def _strided(self, into: Linearizer, neutral: Sequence[Expr], lane: Expr, start: Expr,
                 stop: Expr) -> tuple[Var, ...]:  # fmt: skip
        v = self.vector
        places = min(v, 4) if is_exact(self.combine) else v
        totals = [declare(into, neutral) for _ in range(places)]
        with into.when(at.less(start, stop)):
            self.elements.share(into)
            whole = into.let(at.floor_divide(at.subtract(stop, start), v), "whole")
            all_have = at.floor_divide(at.maximum(whole, 0), self.lanes)
            if self.shift is not None:
                all_have = apply(primitive("right_shift"), (whole, self.shift), int64)
            all_have = into.let(all_have, "all_have")
            left = at.subtract(whole, at.multiply(all_have, self.lanes))
            mine = at.add(all_have, at.select(at.less(lane, left), 1, 0))
            mine = into.let(mine, "mine")
            rounds = into.let(at.floor_divide(all_have, self.unroll), "rounds")
            first = into.let(at.add(start, at.multiply(lane, v)), "first")
            step = into.let(at.multiply(self.lanes, v), "step")

            def place(k: Expr) -> Expr:
                return into.let(at.add(first, at.multiply(k, step)), "p")

            better = argument_of(self.combine)
            if better is not None:
                self._arguments(into, better, totals, first, rounds, place)
            else:
                with into.loop("round", 0, rounds) as turn:
                    for group in self.elements.vectors(into, self._round(turn, place)):
                        self._add(into, totals, group)
            self._rest(into, neutral, totals, rounds, mine, place)
            if v > 1:
                last = place(mine)
                for k in range(v - 1):
                    p = into.let(at.add(last, k), "p")
                    with into.when(at.less(p, stop)):
                        value = self.elements.one(into, p)
                        accumulate(into, self.combine, totals[k % places], value)
        return self.tree(into, totals)

    def _round(self, turn: Expr, place: Callable[[Expr], Expr]) -> list[Expr]:
        """The places of the vectors of a round."""
        base = at.multiply(turn, self.unroll)
        return [place(at.add(base, u)) for u in range(self.unroll)]

    def _arguments(self, into: Linearizer, better: str, totals: Sequence[tuple[Var, ...]],
                   first: Expr, rounds: Expr, place: Callable[[Expr], Expr]) -> None:  # fmt: skip
        """The whole rounds of argmin and argmax, into `totals`, which have met nothing yet.

        A total meets its elements in order, so ties need no test; it keeps the number of the best
        instead of its place (32 bits; 2³¹ rounds of one thread would take hours), and reads the
        element again in the end.
        """
        values, places = self.elements.component(0), len(totals)
        with into.when(at.less(0, rounds)):
            (group,) = values.vectors(into, [first])
            best = [into.declare(group[k][0], "best") for k in range(places)]
            numbers = [into.declare(Const(0, int32), "number") for _ in best]
            each = self.vector // places
            with into.loop("round", 0, rounds) as turn:
                base = into.let(simplify.cast(at.multiply(turn, self.unroll * each), int32), "base")
                for u, group in enumerate(values.vectors(into, self._round(turn, place))):
                    for k, (value,) in enumerate(group):
                        later = Const(u * each + k // places, int32)
                        number = apply(primitive("add"), (base, later), int32)
                        old, last = best[k % places], numbers[k % places]
                        passes = into.let(argument_passes(better, old, value), "passes")
                        into.append(Assign(old, simplify.select(passes, value, old)))
                        into.append(Assign(last, simplify.select(passes, number, last)))
            for k, (total, last) in enumerate(zip(totals, numbers, strict=True)):
                number = simplify.cast(last, int64)
                vector = place(at.floor_divide(number, each))
                within = at.add(at.multiply(at.remainder(number, each), places), k)
                assign(into, total, self.elements.one(into, at.add(vector, within)))

    def tree(self, into: Linearizer, totals: list[tuple[Var, ...]]) -> tuple[Var, ...]:
        """The combination of a power of two of them, in the first."""
        while len(totals) > 1:
            for a, b in zip(totals[::2], totals[1::2], strict=True):
                accumulate(into, self.combine, a, b)
            totals = totals[::2]
        return totals[0]

    def short(self, into: Linearizer, first: Expr, count: Expr, held: Sequence[Buffer],
              slot: Expr) -> None:  # fmt: skip
        """The vector at `first` of a row of `count` elements, neutral beyond it, into `held`."""
        neutral = self.neutral or ()
        for k in range(self.vector):
            put(into, held, at.add(slot, k), neutral)
        if self.elements.wide:
            with into.when(at.less(first, count)):
                (found,) = self.elements.vectors(into, [first])
                for k, value in enumerate(found):
                    put(into, held, at.add(slot, k), value)
            return
        for k in range(self.vector):
            p = into.let(at.add(first, k), "p")
            with into.when(at.less(p, count)):
                put(into, held, at.add(slot, k), self.elements.one(into, p))

    def _add(self, into: Linearizer, totals: Sequence[Sequence[Var]],
             group: Sequence[Values]) -> None:  # fmt: skip
        for k, value in enumerate(group):
            accumulate(into, self.combine, totals[k % len(totals)], value)

    def _rest(self, into: Linearizer, neutral: Sequence[Expr], totals: Sequence[Sequence[Var]],
              rounds: Expr, mine: Expr, place: Callable[[Expr], Expr]) -> None:  # fmt: skip
        """The vectors that are no whole round: all loads in front, neutral where there is none."""
        base = into.let(at.multiply(rounds, self.unroll), "base")
        with into.when(at.less(base, mine)):
            groups = []
            for u in range(self.unroll):
                values = [declare(into, neutral, "x") for _ in range(self.vector)]
                k = at.add(base, u)
                with into.when(at.less(k, mine)):
                    (found,) = self.elements.vectors(into, [place(k)])
                    for variables, value in zip(values, found, strict=True):
                        assign(into, variables, value)
                groups.append(values)
            for values in groups:
                self._add(into, totals, values)

    # --- in order ---

    def _ordered(self, into: Linearizer, lane: Expr, start: Expr, stop: Expr
                 ) -> tuple[tuple[Var, ...], Expr]:  # fmt: skip
        """A warp of the part takes consecutive tiles; the first thread of it collects them."""
        run = self.vector * self.run
        width = into.let(at.minimum(self.lanes, WARP), "width")
        warps = into.let(at.maximum(at.floor_divide(self.lanes, WARP), 1), "warps")
        tile = into.let(at.multiply(width, run), "tile")
        tiles = at.ceil_div(at.subtract(stop, start), tile)
        share = into.let(at.multiply(at.ceil_div(tiles, warps), tile), "share")
        warp, inside = at.floor_divide(lane, WARP), into.let(at.remainder(lane, width), "inside")
        begin = into.let(at.add(start, at.multiply(warp, share)), "begin")
        end = into.let(at.minimum(at.add(begin, share), stop), "end")
        total = declare(into, zeros(self.combine))
        with into.loop("turn", 0, at.floor_divide(share, tile)) as turn:
            origin = into.let(at.add(begin, at.multiply(turn, tile)), "origin")
            first = into.let(at.add(origin, at.multiply(inside, run)), "first")
            part = self._run(into, first, at.add(first, run), end)
            left = at.minimum(at.ceil_div(at.subtract(end, origin), run), width)
            reduce_warp(into, self.combine, part, inside, width, into.let(left, "left"))
            with into.when(at.less(origin, end)):
                begun = at.equal(turn, 0)
                with into.when(begun):
                    assign(into, total, part)
                with into.otherwise(begun):
                    accumulate(into, self.combine, total, part)
        return total, at.ceil_div(at.subtract(stop, start), at.maximum(share, 1))

    def _run(self, into: Linearizer, first: Expr, stop: Expr, end: Expr) -> tuple[Var, ...]:
        """RowElements first … min(stop, end) − 1 of one thread, in order."""
        part = declare(into, zeros(self.combine), "part")
        cheap = max(self.elements.cost, combine_cost(self.combine)) <= _DEAR
        whole = at.less_equal(stop, end) if cheap and self.elements.wide else at.less(end, end)
        if cheap and self.elements.wide:
            with into.when(whole):
                places = [at.add(first, k * self.vector) for k in range(self.run)]
                values = [x for v in self.elements.vectors(into, places) for x in v]
                assign(into, part, values[0])
                for value in values[1:]:
                    accumulate(into, self.combine, part, value)
            with into.otherwise(whole):
                self._one_by_one(into, part, first, stop, end)
        else:
            self._one_by_one(into, part, first, stop, end)
        return part

    def _one_by_one(self, into: Linearizer, part: Sequence[Var], first: Expr, stop: Expr,
                    end: Expr) -> None:  # fmt: skip
        with into.loop("k", first, at.minimum(stop, end)) as k:
            value = self.elements.one(into, k)
            begun = at.equal(k, first)
            with into.when(begun):
                assign(into, part, value)
            with into.otherwise(begun):
                accumulate(into, self.combine, part, value)


class RowsFold(RowFold):
    """Rows along the inner axes."""

    def __init__(self, builder: Builder, node: Fold) -> None:
        super().__init__(builder, node, node.outer)
        roots = transform.resolve(node.elements, builder, (*node.outer, *node.inner))
        rank, inner = len(node.outer), node.inner
        vector = vector_of(node)
        self.rows, self.count = at.product(node.outer), at.product(inner)
        position = Var("p", int64)
        linear = None
        if len(inner) > 1:
            domain = (*node.outer, *inner)
            linear = transform.collapse(roots, domain, builder, position, rank)
        if linear is not None or not inner:
            self.elements = RowElements(builder, linear or roots, position, vector)
        else:
            last = Index(rank + len(inner) - 1)
            self.elements = RowElements(builder, roots, last, vector, inner[:-1], inner[-1], rank)
        types = [r.type for r in node.combine.results]
        if self.outer and self.elements.wide:
            whole = multiples(self.count, vector, builder)
            self.elements.wide = whole is not None
            self.elements.requires += tuple(whole or ())
        self.held = builder.shared("warp", types, COMBINE_THREADS // WARP)

    def lower(self) -> Lowered:
        builder = self.builder
        each = RowFolder(self.combine, self.elements, constant(1)).each
        short: Expr = FALSE
        if self.outer and neutral_of(self.combine) is not None:
            short = at.less_equal(self.count, FEW_LANES * each)
        deal = _Deal.of(builder, self.rows, self.count, each, THREADS, True, at.negate(short))
        self.visits = Visits.of(builder, (deal.host_parts, *self.outer), (
            THREADS * each * LEAST, *(1 for _ in self.outer)), not self.outer)  # fmt: skip
        self.long = at.negate(short)
        partials = at.multiply(self.rows, deal.host_parts)
        self.scratch = self.partials(builder.scalar(partials, "partials"))
        kernels = []
        plain = self.elements.scalar_only()
        if short is not FALSE:
            kernels.append(self._short(deal, plain, short, None))
            if self.elements.wide:
                kernels[0] = self._short(deal, self.elements, short, kernels[0])
        first = self._blocks(deal, plain, None)
        if self.elements.wide:
            first = self._blocks(deal, self.elements, first)
        return builder.lowered(*kernels, first, self._combine(deal))

    def _blocks(self, deal: _Deal, elements: RowElements, fallback: Kernel | None) -> Kernel:
        into, grid = self.builder.emitter(), Threads.of(THREADS)
        folder = RowFolder(self.combine, elements, deal.lanes)

        def end(at_row: Sequence[Expr], row: Expr, part: Expr, total: tuple[Var, ...]) -> None:
            alone = at.equal(deal.parts, 1)
            with into.when(alone):
                self.finish(into, at_row, total, deal.count)
            with into.otherwise(alone):
                put(into, self.scratch, at.add(at.multiply(row, deal.parts), part), total)

        tasks = deal.tasks
        if self.visits is None:
            self._emit(into, grid, deal, folder, end)
        else:
            tasks = self._emit_visits(self.visits, into, grid, deal, folder, end)
        gpu = grid.launch(elements.requires if elements.wide else (),
                          elements.group.aligned if elements.wide else (), fallback)  # fmt: skip
        return self.kernel("blocks", tasks, grid.task, into, how(self.combine), **gpu)

    def _emit_visits(self, visits: Visits, into: Linearizer, grid: Threads, deal: _Deal,
                     folder: RowFolder, end: Callable[..., None]) -> Expr:  # fmt: skip
        """What a thread does under a schedule; the number of thread blocks."""
        turns = Turns(visits, at.floor_divide(THREADS, deal.host_lanes))
        lane = into.let(at.remainder(grid.thread, deal.lanes), "lane")
        group = into.let(at.floor_divide(grid.thread, deal.lanes), "group")
        with turns.leaves(into, grid.task, group) as (owner, (part, *at_row)):
            row = into.let(at.linear(at_row, self.extents), "row")
            self._part(into, grid, deal, folder, end, (lane, owner, row, part), at_row)
        tasks = at.select(self.long, turns.tasks, 0)
        return self.builder.scalar(tasks, "visit_blocks")

    def _combine(self, first: _Deal) -> Kernel:
        """Partial results of each row, in order."""
        builder = self.builder
        parts = first.host_parts
        into, grid = builder.emitter(), Threads.of(COMBINE_THREADS)
        base, k = Var("base", int64), Var("k", int64)
        roots = [Load(s, at.add(base, k)) for s in self.scratch]
        elements = RowElements(builder, roots, k, 1)
        elements = elements.scalar_only()
        each = RowFolder(self.combine, elements, constant(1)).each
        deal = _Deal.of(builder, self.rows, parts, each, COMBINE_THREADS, False, at.less(1, parts))
        folder = RowFolder(self.combine, elements, deal.lanes, COMBINE_UNROLL)

        def end(at_row: Sequence[Expr], row: Expr, part: Expr, total: tuple[Var, ...]) -> None:
            self.finish(into, at_row, total, first.count)

        self._emit(into, grid, deal, folder, end, base)
        return self.kernel("combine", deal.tasks, grid.task, into,
                           "partial results from left to right", **grid.launch())  # fmt: skip

    def _short(self, deal: _Deal, elements: RowElements, when: Expr, fallback: Kernel | None
               ) -> Kernel:  # fmt: skip
        """Rows of one vector to a lane, TURNS of them to a thread: all loads in front."""
        builder, into, grid = self.builder, self.builder.emitter(), Threads.of(THREADS)
        folder = RowFolder(self.combine, elements, deal.lanes)
        side_host = at.floor_divide(THREADS, deal.host_lanes)
        visits = self.visits
        numbers = self.rows if visits is None else visits.total_host
        blocks = at.ceil_div(numbers, at.multiply(side_host, TURNS))
        tasks = builder.scalar(at.select(when, blocks, 0), "short_blocks")
        side = builder.scalar(side_host, "side")
        lane = into.let(at.remainder(grid.thread, deal.lanes), "lane")
        first = into.let(at.multiply(lane, folder.vector), "first")
        begin = at.multiply(at.multiply(grid.task, side), TURNS)
        begin = into.let(at.add(begin, at.floor_divide(grid.thread, deal.lanes)), "begin")
        types = [r.type for r in self.combine.results]
        held = builder.local("row", types, TURNS * folder.vector)
        last = at.subtract(deal.rows, 1)
        with into.loop("turn", 0, TURNS, "unrolled") as turn:
            number = at.add(begin, at.multiply(side, turn))
            if visits is None:
                row = into.let(at.minimum(number, last), "row")
                at_row = tiling.coordinates(builder, into, row, self.outer)
            else:
                at_row = leaf(visits, into, into.let(number, "number"))[1][1:]
            slot = into.let(at.multiply(turn, folder.vector), "slot")
            with into.when_always({Index(k): c for k, c in enumerate(at_row)}):
                folder.short(into, first, deal.count, held, slot)
        with into.loop("turn", 0, TURNS, "unrolled") as turn:
            slot = into.let(at.multiply(turn, folder.vector), "slot")
            places = [at.add(slot, k) for k in range(folder.vector)]
            total = folder.tree(into, [declare(into, get(into, held, p)) for p in places])
            reduce_warp(into, self.combine, total, lane, deal.lanes, most=FEW_LANES)
            number = at.add(begin, at.multiply(side, turn))
            if visits is None:
                row = into.let(number, "row")
                with into.when(at.both(at.equal(lane, 0), at.less(row, deal.rows))):
                    at_row = tiling.coordinates(builder, into, row, self.outer)
                    self.finish(into, at_row, total, deal.count)
            else:
                own, place = leaf(visits, into, into.let(number, "number"))
                with into.when(at.both(at.equal(lane, 0), own)):
                    self.finish(into, place[1:], total, deal.count)
        gpu = grid.launch(elements.requires if elements.wide else (),
                          elements.group.aligned if elements.wide else (), fallback)  # fmt: skip
        return self.kernel("short", tasks, grid.task, into, f"{TURNS} short rows a thread", **gpu)

    def _emit(self, into: Linearizer, grid: Threads, deal: _Deal, folder: RowFolder,
              end: Callable[..., None], base: Var | None = None) -> None:  # fmt: skip
        """What a thread does; `base` is bound to where the partial results of a row begin."""
        lane = into.let(at.remainder(grid.thread, deal.lanes), "lane")
        own = into.let(at.add(at.multiply(grid.task, deal.per_block),
                              at.floor_divide(grid.thread, deal.lanes)), "own")  # fmt: skip
        unit = into.let(at.minimum(own, at.subtract(deal.units, 1)), "unit")
        row = into.let(at.floor_divide(unit, deal.parts), "row")
        part = into.let(at.remainder(unit, deal.parts), "part")
        at_row = tiling.coordinates(self.builder, into, row, self.outer)
        which = (lane, at.less(own, deal.units), row, part)
        self._part(into, grid, deal, folder, end, which, at_row, base)

    def _part(self, into: Linearizer, grid: Threads, deal: _Deal, folder: RowFolder,
              end: Callable[..., None], which: tuple[Expr, Expr, Expr, Expr],
              at_row: Sequence[Expr], base: Var | None = None) -> None:  # fmt: skip
        """One part of one row: `which` are the lane, whether the part is its own, row and part."""
        lane, owner, row, part = which
        start, stop = tiling.block_range(into, "part", part, deal.span, deal.count)
        bindings: dict[Expr, Expr] = {Index(k): c for k, c in enumerate(at_row)}
        if base is not None:
            bindings = {base: into.let(at.multiply(row, deal.count), "base")}
        with into.when_always(bindings):
            total = folder.fold(into, grid, lane, start, stop, self.held)
        with into.when(at.both(at.equal(lane, 0), owner)):
            end(at_row, row, part, total)


def how(combine: Combine) -> str:
    return "threads take turns" if neutral_of(combine) is not None else "in order"
