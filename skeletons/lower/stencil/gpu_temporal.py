"""Temporal blocking on a GPU: several iterations of a loop over stencils in one pass over memory.

    a warp            32 · columns neighbouring columns of a strip of rows
      for Y           walks down the strip; a step loads `rows` more rows
        iterations    x₀(Y) gives x₁(Y − h), which gives x₂(Y − 2h), …: every operation keeps the
                      last rows of what it reads in registers; shuffles provide the neighbours'
                      columns (`iterations.Pipeline`)
        store         x_T(Y − T·h)

Strips and the columns of warps overlap by the reach of T iterations (the halo): values there are
computed twice, and the outermost lanes of a warp store nothing.  Elements at an edge may depend on
more columns than others (`a[:, -1] = a[:, -2]`).  The last warp of a row ends at the edge, and
stores all such elements, so the halo is that of inner elements.

Arrays that the loop only reads are loaded in the step that needs them.  An iteration may read a
plane of its own; the rows of a window of it are loaded once, a step before they are needed.  It may
also store its results as a plane.  Every value is computed by the expression as written, with
boundaries resolved in every iteration, so results equal those of single iterations bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from treadle.dsl import expr as ex, simplify
from treadle.dsl.expr import Expr
from treadle.dsl.graph import ArrayLoop, Generate, Leaf, indices
from treadle.dsl.process.locks import cached
from treadle.dsl.records import dataclass
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Buffer, Collective, If, Kernel, Lowered, StoreVector
from ...ir.linearize import Linearizer, zero
from ..build import Builder, LoweringContext
from ..elementwise.gpu_elements import make_kernel
from ..gpu.common import WARP, Threads, in_scalars, load_vector, multiples, vector_count
from .gpu_loads import folded
from .iterations import (
    Body,
    Pipeline,
    Record,
    Source,
    Stage,
    Tap,
    Value,
    body_of,
    changed,
    records_of,
    rows_inside,
    stages,
)

#: Threads of a block.
THREADS = 128
#: The most registers for the values of a thread (carried between steps, and loaded for this step
#: and the next), with the number of threads that are then resident on a multiprocessor.
RESIDENT = ((96, 512), (140, 384))
#: Registers for addresses and temporaries, if values have 4 bytes.
OTHERS = 32
#: The most iterations in a pass, and its largest halo, in columns and in lanes.
MOST_ITERATIONS, MOST_COLUMNS, MOST_LANES = 8, 8, 4
#: The arithmetic, in additions, that takes as long as reading and writing an element of a state.
#: Iterations with more than half of it gain nothing.
BALANCE = 48.0
#: The fewest rows of a strip, and the fewest in large arrays: a pass computes as many rows at the
#: ends of a strip twice as it has iterations.
SHORTEST, LONG = 8, 128
#: The distance from the edges from which on elements do not depend on it.
MARGIN = 4

#: The name of the kernel's scalar for the number of iterations of a launch.
COUNT = "iterations"

#: A boundary, and its value where it has one.
_Border = tuple[str, tuple[Expr, ...]]
#: (value, row relative to its newest, column relative to the thread's first, border)
_Key = tuple[Value, int, int, _Border | None]
#: The same of an array that the loop only reads: (source, row relative to the newest of the
#: operation, column, border)
_Place = tuple[int, int, int, _Border | None]


@dataclass(frozen=True)
class Temporal:
    """A kernel that makes several iterations of a loop: one of the numbers `steps`, the largest
    first, which the launch passes as the scalar `COUNT`.

    `lowered` reads the leaves of the loop's state (and the counter, if the body does) and writes
    the leaves of `node`, the states number `states`, those that change.  States of which iterations
    write planes (`records`) it updates in place.  It has no fallback: the caller runs single
    iterations if the kernel's `requires` or `aligned` do not hold, and for those left over.
    """

    node: Generate
    states: tuple[int, ...]
    records: tuple[int, ...]
    lowered: Lowered
    steps: tuple[int, ...]


def temporal(loop: ArrayLoop, context: LoweringContext, whole: bool = True) -> Temporal | None:
    """The kernel for several iterations of `loop`; None if it cannot be made, or is no faster.

    With `whole`, a thread has a vector of columns, and rows must be whole vectors; otherwise it has
    one column.
    """
    body = None if context.check or context.schedule else body_of(loop)
    if body is None or not body.written:
        return None
    *others, last = body.nodes
    records = tuple(records_of(loop))
    node = Generate(
        body.shape,
        tuple(s.at(*indices(len(body.shape))) for s in body.states if s not in body.records),
        label=last.label, where=last.where, checks=body.checks,
        fused=(*last.fused, *(f for n in others for f in ((n.label, n.where), *n.fused))),
    )  # fmt: skip
    builder = Builder(node, context)
    builder.outputs()
    shape = _shape_of(body, builder, whole)
    if shape is None:
        return None
    requires = _requires(shape, builder)
    if requires is None:
        return None
    for steps in range(_iterations(body, shape), 0, -1):
        if steps * len(body.nodes) == 1:
            return None
        made = _Pass(builder, node, shape, requires, steps)
        if made.resident and made.enough:
            own = tuple(k for k in changed(loop) if k not in records)
            return Temporal(node, own, records, builder.lowered(made.kernel()), made.counts)
    return None


@dataclass(frozen=True)
class _Shape:
    """How warps compute a body: `columns` per thread.

    `stages`: its operations, for elements near the edges (False) and inside (True).  `sources`: the
    arrays that it only reads; `windows`: those that are new to each iteration and read at several
    offsets.  `equal`: pairs of extents that must be equal at run time.
    """

    body: Body
    stages: dict[bool, tuple[Stage, ...]]
    columns: int
    sources: tuple[Source, ...]
    windows: tuple[Source, ...]
    equal: dict[Expr, Expr]

    @cached
    def wrapped(self) -> set[Leaf]:
        """The arrays that are read with a periodic boundary."""
        taps = (e for s in self.stages[False] for e in s.taps)
        return {Leaf(e.node, e.component) for e in taps if e.boundary == "wrap"}

    def pipeline(self, inside: bool, counts: Sequence[int]) -> Pipeline:
        return Pipeline(self.body, self.stages[inside], counts, self.windows)

    @cached
    def apart(self) -> bool:
        """Whether elements near the edges depend on more columns than inner ones."""
        border, inside = (self.pipeline(k, (1,)).beside for k in (False, True))
        return inside < border and not self.wrapped


def _shape_of(body: Body, builder: Builder, whole: bool) -> _Shape | None:
    if len(body.shape) != 2:
        return None
    columns = min(vector_count([s.type for s in body.states]), 4) if whole else 1
    found = stages(body), stages(body, (MARGIN, MARGIN))
    if (whole and columns < 2) or found[0] is None or found[1] is None:
        return None
    own = {*body.states, *(leaf for n in body.nodes for leaf in n.leaves)}
    here = indices(2)
    sources: dict[Source, set[tuple[int, int]]] = {}
    kinds, height, radius, equal = set[str | None](), 0, 0, dict(body.equal)
    for stage in found[0]:
        height = max(height, stage.height)
        for e, tap in stage.taps.items():
            leaf, axes = tap.source
            for a, axis in zip(leaf.shape, axes, strict=True):
                if not isinstance(axis, ex.Index):
                    continue
                b = body.shape[axis.axis]
                if not builder.same(equal.get(a, a), b):
                    if not isinstance(a, ex.Extent):
                        return None
                    equal[a] = b
            if (leaf in own and axes != here) or abs(tap.column) > columns - (
                e.boundary == "mirror"
            ):
                return None
            if leaf not in own:
                sources.setdefault(tap.source, set()).add((tap.row, tap.column))
            radius = max(radius, abs(tap.column))
            kinds.add(e.boundary)
        numbers = (
            e for e in ex.walk(stage.elements) if isinstance(e, ex.Read) and e not in stage.taps
        )
        if any(e.boundary is not None or Leaf(e.node, e.component) in own for e in numbers):
            return None
    windows = [s for s, taps in sources.items()
               if {*here} <= {*s.at} and s.shared and len(taps) > 1]  # fmt: skip
    if "wrap" in kinds and kinds - {"wrap", None}:
        return None  # what is computed beyond the edges would not be what it stands for
    if height == radius == 0:
        return None
    for record in body.records.values():
        pairs = zip(record.state.shape[1:], body.shape, strict=True)
        equal |= {a: b for a, b in pairs if not builder.same(equal.get(a, a), b)}
    if any(not isinstance(a, ex.Extent) for a in equal):
        return None
    return _Shape(body, {False: found[0], True: found[1]}, columns, tuple(sources), tuple(windows),
                  equal)  # fmt: skip


def _requires(shape: _Shape, builder: Builder) -> list[Expr] | None:
    """The conditions on the extents: rows of whole vectors, and arrays no smaller than a window.
    None if one is known not to hold."""
    host0, host1 = shape.body.shape
    whole = multiples(host1, shape.columns, builder)
    height = max(s.height for s in shape.stages[False])
    fits = [
        at.less_equal(height + 1, in_scalars(builder, host0)),
        at.less_equal(2 * shape.columns, in_scalars(builder, host1)),
        *(at.less_equal(1, in_scalars(builder, n))
          for s in shape.sources for n, axis in zip(s.leaf.shape, s.at, strict=True)
          if not isinstance(axis, ex.Index)),
        *(at.equal(in_scalars(builder, a), in_scalars(builder, b))
          for a, b in shape.equal.items()),
        *(e for r in shape.body.records.values() for e in _planes(r, shape.body, builder)),
    ]  # fmt: skip
    if whole is None or any(e is ex.FALSE for e in fits):
        return None
    return [*whole, *fits]


def _planes(record: Record, body: Body, builder: Builder) -> list[Expr]:
    """That the state has the planes that iterations write, and that the first one reads."""
    loop = body.loop
    assert loop.index is not None and loop.count is not None
    counter, n = loop.index.leaf().at(), record.state.shape[0]
    is_read = any(isinstance(e, ex.Read) and Leaf(e.node, e.component) == record.last
                  for e in ex.walk(body.elements))  # fmt: skip
    ends = [ex.constant(0), simplify.subtract(loop.count, ex.constant(1))]
    found = [ex.substitute((record.plane,), {counter: e})[0] for e in ends]
    found += ex.substitute((record.before,), {counter: ends[0]}) if is_read else ()
    valid = [ex.substitute((record.valid,), {counter: e})[0] for e in ends]
    return [
        *(in_scalars(builder, e) for e in valid),
        *(e for x in found for e in (at.less_equal(0, in_scalars(builder, x)),
                                     at.less(in_scalars(builder, x), in_scalars(builder, n)))),
    ]  # fmt: skip


def _iterations(body: Body, shape: _Shape) -> int:
    """The number of iterations that balances arithmetic and memory."""
    cost = max(sum(_work(s.elements) for s in shape.stages[True]), 1.0)
    balance = BALANCE * max(body.written, len(body.states))
    if cost > balance / 2:
        return 1 if len(body.nodes) > 1 else 0
    reach = shape.pipeline(shape.apart, (1,)).beside
    most = min(MOST_ITERATIONS, min(MOST_COLUMNS, MOST_LANES * shape.columns) // max(reach, 1))
    return max(min(int(balance / cost) + 1, most), 1)


def _work(elements: Sequence[Expr]) -> float:
    """The cost of the operations of an element, without index arithmetic."""
    stack, seen, total = list(elements), set[Expr](), 0.0
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack += e.scoped if isinstance(e, ex.Read) else (*e.args, *e.scoped)
            total += e.op.cost if isinstance(e, ex.Apply) else 0.0
    return total


class _Rows:
    """The values that a walk over the rows keeps, loads and computes, `inside` the array or near
    its edges."""

    def __init__(self, shape: _Shape, counts: Sequence[int], inside: bool) -> None:
        self.columns, self.inside = shape.columns, inside
        self.pipeline = pipeline = shape.pipeline(inside, counts)
        self.rows = pipeline.rows
        self.sources = {source: q for q, source in enumerate(shape.sources)}
        self.row = [ex.Var("i", int64) for _ in range(self.rows)]
        self.column = [ex.Var("j", int64) for _ in range(self.columns)]
        #: For each operation, and each row and column of a step: the elements, and their taps.
        self.points: list[list[tuple[tuple[Expr, ...], dict[Expr, tuple[ex.Read, Tap]]]]] = []
        for stage in pipeline.stages:
            made = []
            for r, k in product(range(self.rows), range(self.columns)):
                mapping: dict[Expr, Expr] = {
                    ex.Index(0): self.row[r], ex.Index(1): self.column[k],
                }  # fmt: skip
                n = len(stage.elements)
                moved = ex.substitute((*stage.elements, *stage.taps), mapping)
                taps = dict(zip(moved[n:], stage.taps.items(), strict=True))
                made.append((moved[:n], taps))
            self.points.append(made)
        #: The values carried from step to step, and the loads of each operation.
        self.carried: dict[_Key, None] = {}
        self.places: dict[tuple[int, int], dict[_Place, None]] = {}
        for unit in pipeline.units:
            self._add(unit)

    def _add(self, unit: tuple[int, int]) -> None:
        places = self.places.setdefault(unit, {})
        if min(unit) < 0:
            return
        for point, (_, taps) in enumerate(self.points[unit[1]]):
            for read, tap in taps.values():
                for row in tap.rows:
                    key = self.key(unit, point, read, tap, row)
                    if isinstance(key[0], int):
                        places[key] = None
                        continue
                    value, at_row, *rest = key
                    while at_row <= -self.rows:  # from a step to the next
                        self.carried[value, at_row, *rest] = None  # type: ignore[index]
                        at_row += self.rows

    def key(self, unit: tuple[int, int], point: int, read: ex.Read, tap: Tap, row: int
            ) -> _Key | _Place:  # fmt: skip
        """The key of the value that a tap takes from `row`.  Equal values have one key: the
        boundary is part of it only where the tap may be outside the array."""
        r, k = divmod(point, self.columns)
        row, column = row - (self.rows - 1 - r), tap.column + k
        plain = self.inside or 0 <= column < self.columns or read.boundary in (None, "wrap")
        border = None if plain else (str(read.boundary), read.scoped)
        value = self.pipeline.of(unit[0], tap.source)
        if value is None:
            return self.sources[tap.source], row, column, border
        lag = self.pipeline.lag
        return value, row + lag[value.unit] - lag[unit], column, border


class _Pass:
    """The kernel for `iterations` iterations or half as many, so that few are left over, which take
    a pass each.  (For a quarter, too, it would need more registers than there are.)"""

    def __init__(self, builder: Builder, node: Generate, shape: _Shape, requires: list[Expr],
                 iterations: int) -> None:  # fmt: skip
        self.builder, self.node, self.shape, self.requires = builder, node, shape, requires
        self.iterations, self.states = iterations, shape.body.states
        self.records = shape.body.records
        for record in self.records.values():
            builder.updated(record.state)
        half = iterations // 2
        self.counts = (iterations, half) if half > 1 else (iterations,)
        self.count: Expr = ex.constant(iterations)
        loop, elements = shape.body.loop, shape.body.elements
        reads = (e for e in ex.walk(elements) if isinstance(e, ex.Read))
        self.counter = next((e for e in reads if e.node is loop.index), None)
        if self.records and loop.index is not None:
            self.counter = loop.index.leaf().at()
        #: The operations whose results are stored as planes: (number, component).
        self.recorded = {
            (shape.body.nodes.index(result.node), result.component): self.records[state]
            for state, result in zip(self.states, shape.body.results, strict=True)
            if state in self.records
        }  # fmt: skip
        self.extents = builder.shape(node.shape)
        self.walks = {inside: _Rows(shape, self.counts, inside) for inside in (True, False)}
        self.halo = -(-self.walks[shape.apart].pipeline.beside // shape.columns)
        #: Columns that a warp stores.
        self.width = (WARP - 2 * self.halo) * shape.columns

    def within(self, leaf: Leaf, axis: int, index: Expr) -> Expr:
        """An index that all elements share, made valid: out of range, its read has a boundary, or
        its value is not used."""
        n = leaf.shape[axis]
        if leaf in self.shape.wrapped:
            return index % n
        return at.minimum(at.maximum(index, 0), n - 1)

    @property
    def enough(self) -> bool:
        """Whether a warp at an edge has all columns that elements near the edge depend on."""
        most = MARGIN + self.walks[False].pipeline.beside
        return not self.shape.apart or most <= self.width

    @property
    def carried(self) -> int:
        """The number of values that are carried from step to step, over all iterations."""
        return len(self.walks[True].carried)

    @property
    def registers(self) -> int:
        """Registers for values that are carried, loaded for this step and the next, or loaded from
        arrays that the loop only reads."""
        walk, columns = self.walks[True], self.shape.columns
        given = [u for u in walk.pipeline.units if u[0] < 0]
        words = sum(self._words(key[0].unit, key[0].component) for key in walk.carried)
        words += 2 * walk.rows * columns * sum(self._words(u) for u in given)
        loads = [u for u in walk.pipeline.units if u[1] < 0]
        words += walk.rows * columns * sum(self._words(u) for u in loads)
        rows = max(len({place[:2] for place in places}) for places in walk.places.values())
        address = 2
        return words + rows * (columns + address)

    def _words(self, unit: tuple[int, int], component: int = 0) -> int:
        """Registers of a value."""
        return -(-self.walks[True].pipeline.type_of(Value(*unit, component)).bytes // 4)

    @property
    def resident(self) -> int:
        """The number of resident threads per multiprocessor; 0 if the values do not fit."""
        widest = max(self._words(u) for u in self.walks[True].pipeline.units)
        needed = self.registers + OTHERS * (widest - 1)
        return next((threads for most, threads in RESIDENT if needed <= most), 0)

    # --- the kernel ---

    def kernel(self) -> Kernel:
        builder, columns = self.builder, self.shape.columns
        launched = ex.Param(COUNT, int64)
        if len(self.counts) > 1:
            self.count = builder.scalar(launched, COUNT)
        grid, into = Threads.of(THREADS), builder.emitter()
        n0, n1 = self.extents
        width = self.width
        host0, host1 = self.node.shape
        across_host = at.ceil_div(host1, width)
        rows_host = self._strip_rows(across_host)
        strips_host = at.ceil_div(host0, rows_host)
        across = builder.scalar(across_host, "across")
        height = builder.scalar(rows_host, "strip")
        warps = builder.scalar(across_host * strips_host, "warps")
        number = into.let(grid.ident // WARP, "number")
        lane = into.let(grid.lane, "lane")
        strip, tile = at.row_major(number, (builder.scalar(strips_host, "strips"), across))
        first = into.let(strip * height, "first")
        last = into.let(at.minimum(first + height, n0), "last")
        start, stop = tile * width, n1
        if self.shape.apart:  # the last warp of a row ends at the edge
            end = into.let(at.maximum(n1 - width, 0), "end")
            start = at.minimum(start, end)
            stop = into.let(simplify.select(at.equal(tile, across - 1), n1, end), "stop")
        left = into.let(start - self.halo * columns, "left")
        j = into.let(left + lane * columns, "j")
        before, after = self.walks[True].pipeline.touched()
        inside = at.both(
            at.less_equal(MARGIN, left),
            at.less_equal(left + (WARP * columns + MARGIN), n1),
            at.less_equal(MARGIN - before, first),
            at.less_equal(last + (after + MARGIN + 1), n0),
        )
        inside = into.let(inside, "inside")
        stores = at.both(
            at.less_equal(self.halo, lane), at.less(lane, WARP - self.halo), at.less(j, stop)
        )
        stores = into.let(stores, "stores")
        if self.counter is not None:
            (begun,) = into.emit((self.counter,))
            self.begun = into.let(begun, "counter")
        with into.when(at.less(number, warps)):
            with into.when(inside):
                _Walk(self, into, True, j, first, last, stores).emit()
            with into.otherwise(inside):
                _Walk(self, into, False, j, first, last, stores).emit()
        own = [self.records[s].state if s in self.records else s for s in self.states]
        read = [*own, *(s.leaf for s in self.shape.sources)]
        buffers = [*map(builder.input, read), *builder.outputs()]
        counts = " or ".join(map(str, self.counts))
        comment = f"{counts} iterations in a pass, {self.carried} values carried"
        blocks = at.ceil_div(across_host * strips_host, THREADS // WARP)
        made = make_kernel(
            builder, self.node, builder.scalar(blocks, "blocks"), grid, into, [comment],
            **grid.launch(self.requires, list(dict.fromkeys(buffers)), None,
                          self.resident // THREADS),
        )  # fmt: skip
        values = ex.substitute(made.scalar_values, {launched: ex.constant(self.iterations)})
        return replace(made, scalar_values=tuple(values))

    def _strip_rows(self, across: Expr) -> Expr:
        """The rows of a strip: `LONG` to twice as many, so that the last wave of warps is full;
        fewer if all warps are resident then."""
        warps = self.builder.context.processors * self.resident // WARP
        n = self.node.shape[0]
        rounds = at.ceil_div(n * across, warps) // LONG
        resident = at.maximum(rounds, 1) * warps
        strips = at.maximum(resident // across, 1)
        return at.maximum(at.ceil_div(n, strips), SHORTEST)


class _Walk:
    """The walk of a warp over its strip, `inside` the array or near its edges."""

    def __init__(self, made: _Pass, into: Linearizer, inside: bool, j: Expr, first: Expr,
                 last: Expr, stores: Expr) -> None:  # fmt: skip
        self.made, self.into, self.inside = made, into, inside
        self.j, self.first, self.last, self.stores = j, first, last, stores
        self.plan = made.walks[inside]
        self.pipeline, self.rows = self.plan.pipeline, self.plan.rows
        #: In a step: the newest rows of each value, and the values derived from them so far.
        self.fresh: dict[Value, list[Expr]] = {}
        self.state: dict[_Key, ex.Var] = {}
        self.found: dict[_Key, Expr] = {}
        n1 = made.extents[1]
        if not inside:
            columns = made.shape.columns
            self.leftmost = into.let(at.equal(j, 0), "leftmost")
            self.rightmost = into.let(at.equal(j + columns, n1), "rightmost")

    def _by_count(self, numbers: Sequence[int]) -> Expr:
        """The number for the iteration count of the launch."""
        made = self.made
        *others, last = map(ex.constant, numbers)
        found: Expr = last
        for count, number in zip(made.counts, others, strict=False):
            found = simplify.select(at.equal(made.count, count), number, found)
        return found

    def emit(self) -> None:
        made, into, pipeline = self.made, self.into, self.pipeline
        self.state = {
            key: into.declare(zero(self.pipeline.type_of(key[0])), "u") for key in self.plan.carried
        }
        begin = into.let(self.first + self._by_count([*map(pipeline.begin, made.counts)]), "begin")
        stop = self.last + self._by_count([*map(pipeline.stop, made.counts)])
        given = [Value(*unit, 0) for unit in pipeline.units if unit[0] < 0]
        with into.when_always(self._counter(0)):
            loaded = [
                into.declare(e, "x") for v in given for e in self._load(v, begin - (self.rows - 1))
            ]
        size = self.rows * made.shape.columns
        with into.loop("y", begin, stop, step=self.rows) as y:
            with into.when_always(self._counter(0)):
                ahead = [e for v in given for e in self._load(v, y + 1)]
            self.fresh = {v: list(loaded[k * size : (k + 1) * size]) for k, v in enumerate(given)}
            self.found = {}
            self._iterations(y, 0)
            self._keep([u for u in pipeline.units if u[0] < min(made.counts)])
            into.append(*(Assign(v, e) for v, e in zip(loaded, ahead, strict=True)))

    def _iterations(self, y: Expr, done: int) -> None:
        """Emit the iterations after the first `done`, and the stores of their results."""
        made, into = self.made, self.into
        stop = min(n for n in made.counts if n > done)
        units = [u for u in self.pipeline.units if done <= u[0] < stop]
        for unit in units:
            self._operation(unit, y)
        if stop == made.iterations:
            self._store(y, stop)
            return
        more = into.let(at.less(stop, made.count), "more")
        with into.when(more):
            fresh, found = self.fresh.copy(), self.found.copy()
            self._iterations(y, stop)
            self._keep([u for u in self.pipeline.units if u[0] >= stop])
            self.fresh, self.found = fresh, found
        with into.otherwise(more):
            self._store(y, stop)

    def _keep(self, units: Sequence[tuple[int, int]]) -> None:
        """Shift the carried values of some operations by a step, the oldest rows first."""
        kept = sorted((k for k in self.state if k[0].unit in units), key=lambda k: k[1])
        values = [self._value((k[0], k[1] + self.rows, *k[2:])) for k in kept]
        self.into.append(*(Assign(self.state[k], e) for k, e in zip(kept, values, strict=True)))

    def _load(self, value: Value, row: Expr) -> list[Expr]:
        """Load the next rows of a state or window; element (r, k) is at r·columns + k."""
        state = self.made.states[value.node] if value.iteration < 0 else None
        record = self.made.records.get(state) if state is not None else None
        if record is not None:
            source = Source(record.state, (record.before, *indices(2)))
        elif state is not None:
            source = Source(state, indices(2))
        else:
            source = self.pipeline.windows[~value.node]
        row = row - self.pipeline.lag[value.unit]
        return [e for r in range(self.rows) for e in self._load_row(source, row + r)]

    def _load_row(self, source: Source, row: Expr) -> list[Expr]:
        """Load the thread's columns of a row of an array, or of a plane of it."""
        made, into = self.made, self.into
        (n0, n1), count, column = made.extents, made.shape.columns, self.j
        if not self.inside:
            wraps = bool(made.shape.wrapped)
            column = column % n1 if wraps else at.minimum(at.maximum(column, 0), n1 - count)
            row = row % n0 if wraps else at.minimum(at.maximum(row, 0), n0 - 1)
            column = into.let(column, "column")
        leaf, axes = source
        moving: dict[Expr, Expr] = {ex.Index(0): row, ex.Index(1): column}
        index = [
            moving[a] if a in moving else into.emit((made.within(leaf, k, a),))[0]
            for k, a in enumerate(axes)
        ]
        buffer = made.builder.input(leaf)
        position = at.linear(index, made.builder.shape(leaf.shape))
        if axes[-1] is not ex.Index(1):
            (shared,) = load_vector(into, buffer, position, 1)
            return [shared for _ in range(count)]
        wide = min(max(16 // leaf.type.bytes, 1), count)
        return [e for k in range(0, count, wide)
                for e in load_vector(into, buffer, position + k, wide)]  # fmt: skip

    def _places(self, unit: tuple[int, int], newest: Expr) -> dict[_Place, Expr]:
        """Load what an operation reads of arrays that the loop does not change."""
        rows: dict[tuple[int, int], list[Expr]] = {}
        found: dict[_Place, Expr] = {}
        for place in self.plan.places[unit]:
            q, row, column, border = place
            source = self.made.shape.sources[q]
            if (q, row) not in rows:
                rows[q, row] = self._load_row(source, newest + row)
            if source.at[-1] is not ex.Index(1):
                column = 0
            found[place] = self._beside(column, border, rows[q, row])
        return found

    def _operation(self, unit: tuple[int, int], y: Expr) -> None:
        """Compute the newest rows of an operation."""
        made, into, plan = self.made, self.into, self.plan
        now = self._counter(unit[0])
        if unit[1] < 0:
            with into.when_always(now):
                loads = Value(*unit, 0)
                self.fresh[loads] = self._load(loads, y - (self.rows - 1))
            return
        newest = y - self.pipeline.lag[unit]
        newest = newest if self.inside else into.let(newest, "newest")
        known = self._indices(newest) | now
        node = made.shape.body.nodes[unit[1]]
        results: list[list[Expr]] = [[] for _ in node.outputs]
        with into.when_always(known):
            places = self._places(unit, newest)
            for point, (elements, taps) in enumerate(plan.points[unit[1]]):
                back = self.rows - 1 - point // plan.columns
                row = newest if self.inside else into.let(newest - back, "row")
                values: dict[Expr, Expr] = {
                    moved: self._tap(unit, point, read, tap, row, places)
                    for moved, (read, tap) in taps.items()
                }
                with into.when_always(values):
                    for found, e in zip(results, into.emit(elements, named=True), strict=True):
                        found.append(e)
            for c, found in enumerate(results):
                self.fresh[value := Value(*unit, c)] = found
                if (record := made.recorded.get((unit[1], c))) is not None:
                    (plane,) = into.emit((record.plane,))
                    own = made.builder.shape(record.state.shape)
                    self._store_rows(made.builder.updated(record.state), own, (plane,), value, y)

    def _counter(self, iteration: int) -> dict[Expr, Expr]:
        """The loop's counter in an iteration of the pass."""
        made = self.made
        if made.counter is None:
            return {}
        return {made.counter: self.into.let(made.begun + iteration, "counter")}

    def _indices(self, newest: Expr) -> dict[Expr, Expr]:
        """The indices of the elements of an operation, modulo the extents if an array is
        periodic."""
        n0, n1 = self.made.extents
        rows: list[Expr] = [newest - (self.rows - 1 - r) for r in range(self.rows)]
        columns: list[Expr] = [self.j + k for k in range(self.plan.columns)]
        if self.made.shape.wrapped and not self.inside:
            rows, columns = [r % n0 for r in rows], [c % n1 for c in columns]
        return dict(zip((*self.plan.row, *self.plan.column), (*rows, *columns), strict=True))

    def _value(self, key: _Key) -> Expr:
        """A value of this step, or a carried one."""
        if key in self.state:
            return self.state[key]
        if key not in self.found:
            value, row, column, border = key
            columns = self.made.shape.columns
            start = (row + self.rows - 1) * columns
            own = self.fresh[value][start : start + columns]
            self.found[key] = self._beside(column, border, own)
        return self.found[key]

    def _beside(self, column: int, border: _Border | None, own: Sequence[Expr]) -> Expr:
        """A column of a row: one of the thread's `own`, or a neighbouring lane's, by a shuffle."""
        made, into = self.made, self.into
        columns = made.shape.columns
        if 0 <= column < columns:
            return own[column]
        before = column < 0
        distance = -column if before else column - columns + 1
        away = own[columns - distance if before else distance - 1]
        value = ex.Var("neighbour", away.type)
        how = "shuffle_up" if before else "shuffle_down"
        into.append(Collective(value, how, (away, ex.constant(1))))
        if border is None:
            return value
        if border[0] == "constant":
            (other,) = into.emit(border[1])
        else:
            back = folded(border[0], distance)
            other = own[back if before else columns - 1 - back]
        edge = self.leftmost if before else self.rightmost
        return into.let(simplify.select(edge, other, value), "neighbour")

    def _tap(self, unit: tuple[int, int], point: int, read: ex.Read, tap: Tap, row: Expr,
             places: dict[_Place, Expr]) -> Expr:  # fmt: skip
        """The value of a read by an element of `row`, with its boundary resolved."""

        def value(at_row: int) -> Expr:
            key = self.plan.key(unit, point, read, tap, at_row)
            return places[key] if isinstance(key[0], int) else self._value(key)

        offset = tap.row
        if self.inside or read.boundary in (None, "wrap") or offset == 0:
            return value(offset)
        n0 = self.made.extents[0]
        index = row + offset
        outside = at.less(index, 0) if offset < 0 else at.less_equal(n0, index)
        if read.boundary == "constant":
            (other,) = self.into.emit(read.scoped)
            return simplify.select(outside, other, value(offset))
        found = value(offset)
        for depth, inner in enumerate(rows_inside(str(read.boundary), offset), 1):
            edge = -depth if offset < 0 else n0 + (depth - 1)
            found = simplify.select(at.equal(index, edge), value(inner), found)
        return found

    def _store(self, y: Expr, count: int) -> None:
        """Store the newest row of each state after `count` iterations."""
        made = self.made
        finals = zip(self.pipeline.finals[count], made.states, strict=True)
        values = (value for value, state in finals if state not in made.records)
        for out, value in zip(made.builder.outputs(), values, strict=True):
            self._store_rows(out, made.extents, (), value, y)

    def _store_rows(self, out: Buffer, extents: tuple[Expr, ...], plane: tuple[Expr, ...],
                    value: Value, y: Expr) -> None:  # fmt: skip
        """Store the newest rows of a value, in a plane of an array if one is given."""
        columns, wide = self.made.shape.columns, max(16 // out.type.bytes, 1)
        newest = y - self.pipeline.lag[value.unit]
        for r in range(self.rows):
            row = newest - (self.rows - 1 - r)
            position = at.linear((*plane, row, self.j), extents)
            fresh = self.fresh[value][r * columns : (r + 1) * columns]
            stores = tuple(
                StoreVector(out, position + k, tuple(fresh[k : k + wide]))
                for k in range(0, columns, wide)
            )
            ok = at.both(self.stores, at.less_equal(self.first, row), at.less(row, self.last))
            self.into.append(If(ok, stores))
