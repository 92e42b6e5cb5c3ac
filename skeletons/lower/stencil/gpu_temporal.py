"""Several iterations of a loop over a stencil in one pass through memory.

    a warp            32 · columns neighbouring columns of a strip of rows
      for Y           walks down the strip; a step loads `rows` more rows
        iterations    u₀(Y) gives u₁(Y − h), which gives u₂(Y − 2h), …: every iteration keeps its
                      last rows in registers; shuffles provide the neighbours' columns
        store         u_T(Y − T·h)

The strip and the columns of a warp overlap those of their neighbours by the reach of T iterations:
the values there are computed twice, and the outermost lanes only serve the others.  Arrays that the
loop only reads, of which an iteration may read a plane of its own, are loaded where an iteration
needs them.  Every value is computed by the expression as written, with the boundary resolved in
every iteration, so the result equals that of single iterations bit for bit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from treadle.dsl import expr as ex, simplify
from treadle.dsl.expr import Expr
from treadle.dsl.graph import ArrayLoop, Generate, Leaf, Node, indices, topological
from treadle.dsl.passes.neighbours import neighbour
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Collective, If, Kernel, Let, Lowered, StoreVector
from ...ir.linearize import Linearizer, zero
from ..build import Builder, LoweringContext, flop_count
from ..elementwise.gpu_elements import make_kernel
from ..gpu.common import WARP, Threads, in_scalars, load_vector, multiples, vector_count
from .gpu_loads import folded
from .gpu_stream import NotAStream, moves, row_of

#: Threads of a block.
THREADS = 128
#: Values that a thread has in registers at most (carried between steps, loaded for this step and
#: the next), and the threads that are then on a multiprocessor at once.
RESIDENT = ((96, 512), (140, 384))
#: Iterations in one pass: at most so many, reaching at most so many lanes to either side.
MOST_ITERATIONS, MOST_LANES = 8, 2
#: Additions per element and state that take as long as its way through memory; elements that cost
#: more than half of it gain nothing.
BALANCE = 48.0
#: Rows of a strip: many iterations waste as many rows at its ends.
SHORTEST, LONG = 16, 128

#: The scalar of a kernel that says how many iterations a launch computes.
COUNT = "iterations"

#: A boundary, and its value where it has one.
_Border = tuple[str, tuple[Expr, ...]]
#: What an iteration reads elements of: an array, or a plane of one, with the index of the plane.
_Source = tuple[Leaf, Expr | None]
#: (source, row relative to the newest, column relative to the thread's first, border)
_Key = tuple[int, int, int, _Border | None]


@dataclass(frozen=True)
class Temporal:
    """Several iterations of a loop as one kernel: one of the numbers `steps`, the largest first,
    which each launch gives as the scalar `COUNT` of the kernel.

    `lowered` reads the leaves of the loop's state, and its counter where an iteration does, and
    writes those of `node`, the body.  It has no fallback: if `requires` or `aligned` of its kernel
    do not hold, and for the remaining iterations, single iterations must run.
    """

    node: Generate
    lowered: Lowered
    steps: tuple[int, ...]


def temporal(loop: ArrayLoop, context: LoweringContext) -> Temporal | None:
    """Several iterations of `loop` at once; None if single iterations are as good, or required."""
    node = _body(loop)
    if node is None or context.check or context.schedule or node.label.schedule is not None:
        return None
    builder = Builder(node, context)
    builder.outputs()
    shape = _shape_of(loop, node, builder)
    if shape is None:
        return None
    requires = _requires(node, shape, builder)
    if requires is None:
        return None
    steps = _iterations(node, shape)
    while steps > 1:
        made = _Pass(builder, node, loop, shape, requires, steps)
        if made.resident:
            return Temporal(node, builder.lowered(made.kernel()), made.counts)
        steps -= 1
    return None


def changed(loop: ArrayLoop) -> list[int]:
    """The states that iterations change; the others are arrays that they only read."""
    return [k for k, s in enumerate(loop.state) if loop.body[k] != s.leaf()]


def _body(loop: ArrayLoop) -> Generate | None:
    """The body of a counted loop as one operation: one that there is, with states that take the
    value of another, such as the time before in a wave equation."""
    if loop.count is None or loop.predicate is not None:
        return None
    states, changing = [s.leaf() for s in loop.state], changed(loop)
    computed = [leaf for leaf in loop.body if leaf not in states]
    node = computed[0].node if computed else None
    if type(node) is not Generate or node.leaves != tuple(computed):
        return None
    if any(loop.state[k].shape != node.shape for k in changing):
        return None
    here = indices(len(node.shape))
    elements: Sequence[Expr] = [
        leaf.at(*here) if leaf in states else node.elements[leaf.component]
        for leaf in (loop.body[k] for k in changing)]  # fmt: skip
    inside = loop.varying(list(topological(loop.body)))
    while numbers := _numbers(elements, inside):
        elements = ex.rewrite(elements, partial(_known, numbers))
    known = {s.node for s in states} | {loop.index}
    if any(isinstance(e, ex.Read) and e.node in inside - known for e in ex.walk(elements)):
        return None
    reads = [e for e in ex.walk(elements) if isinstance(e, ex.Read)]
    found: dict[Expr, Expr] = {e: neighbour(e, node.shape) for e in reads}
    return node.with_(elements=ex.rewrite(elements, partial(_known, found)))


def _numbers(elements: Sequence[Expr], inside: Container[Node]) -> dict[Expr, Expr]:
    """What elements read of numbers that an iteration computes, as expressions."""
    return {
        e: e.node.elements[e.component] for e in ex.walk(elements)
        if isinstance(e, ex.Read) and e.node in inside and type(e.node) is Generate
        and not e.node.shape
    }  # fmt: skip


def _known(values: Mapping[Expr, Expr], e: Expr) -> Expr:
    return values.get(e, e)


@dataclass(frozen=True)
class _Shape:
    """What an element reads: rows low … high of the state, before … after of other arrays, columns
    −radius … radius.  `columns` of a thread; `sources`: the states, then the other arrays."""

    low: int
    high: int
    before: int
    after: int
    radius: int
    columns: int
    sources: tuple[_Source, ...]

    @property
    def rows(self) -> int:
        """Rows of a step: the rows that the next one needs are then all new in this one."""
        return max(self.high - self.low, 1)


def _shape_of(loop: ArrayLoop, node: Generate, builder: Builder) -> _Shape | None:
    rank = len(node.shape)
    if rank != 2 or any(
        isinstance(e, ex.While | ex.Loop | ex.Foreign) for e in ex.walk(node.elements)
    ):
        return None
    states = [loop.state[k].leaf() for k in changed(loop)]
    sources: dict[_Source, set[tuple[int, int]]] = {(s, None): set() for s in states}
    reach, radius = [0, 0, 0, 0], 0
    folded, kinds = False, set[str | None]()
    for e in ex.walk(node.elements):
        if not isinstance(e, ex.Read):
            continue
        source = _source(e)
        if not moves(e):  # a number, of all elements of an iteration
            if e.boundary is not None or source[0] in states:
                return None
            continue
        extents = zip(source[0].shape[-2:], node.shape, strict=True)
        if not _is_plane(e) or not all(builder.same(a, b) for a, b in extents):
            return None
        try:
            rows = [row_of(e, ex.Index(k)) for k in range(rank)]
        except NotAStream:
            return None
        if rows[0] is None or rows[1] is None or not _moves_with(e.args[-2:]):
            return None
        sources.setdefault(source, set()).add((rows[0], rows[1]))
        k = 0 if source[0] in states else 2
        reach[k], reach[k + 1] = min(reach[k], rows[0]), max(reach[k + 1], rows[0])
        radius = max(radius, abs(rows[1]))
        folded |= e.boundary in ("mirror", "symmetric")
        kinds.add(e.boundary)
    if any(plane is not None and len(at) > 1 for (_, plane), at in sources.items()):
        return None  # a window of what is new to each iteration: what it waits for is as long
    if "wrap" in kinds and (kinds - {"wrap", None} or _uses_index(node.elements)):
        return None  # what is computed beyond the edges would not be what it stands for
    low, high, before, after = reach
    if folded:  # what the border folds back to is as far on the other side
        low, high = min(low, -high), max(high, -low)
        before, after = min(before, -after), max(after, -before)
    columns = vector_count([s.type for s in states])
    if low == high == radius == 0 or columns < 2 or radius > columns - folded:
        return None
    return _Shape(low, high, before, after, radius, min(columns, 4), tuple(sources))


def _source(read: ex.Read) -> _Source:
    """What a read is of; its plane, if it is of an array of planes."""
    return Leaf(read.node, read.component), read.args[0] if len(read.args) == 3 else None


def _is_plane(read: ex.Read) -> bool:
    """Whether this is an element of an array of two axes, or of a plane that all elements of an
    iteration read; the index of the plane is computed from the counter and numbers."""
    if read.boundary == "function" or any(isinstance(x, ex.Read) for x in ex.walk(read.scoped)):
        return False
    if len(read.args) == 2:
        return True
    if len(read.args) != 3 or read.boundary not in (None, "wrap", "clamp"):
        return False
    return not any(
        isinstance(x, ex.Index) or (isinstance(x, ex.Read) and x.args)
        for x in ex.walk(read.args[:1])
    )


def _requires(node: Generate, shape: _Shape, builder: Builder) -> list[Expr] | None:
    """What must hold of the extents: whole vectors in a row, and an element's window inside; None
    if it is known not to."""
    host0, host1 = node.shape
    whole = multiples(host1, shape.columns, builder)
    fits = [
        at.less_equal(shape.high - shape.low + 1, in_scalars(builder, host0)),
        at.less_equal(2 * shape.columns, in_scalars(builder, host1)),
        *(at.less_equal(1, in_scalars(builder, leaf.shape[0]))
          for leaf, plane in shape.sources if plane is not None),
    ]  # fmt: skip
    if whole is None or any(e is ex.FALSE for e in fits):
        return None
    return [*whole, *fits]


def _moves_with(args: Sequence[Expr]) -> bool:
    """Whether axis k of an array goes with axis k of the domain."""
    return all(any(x is ex.Index(k) for x in ex.walk((a,))) for k, a in enumerate(args))


def _uses_index(roots: Sequence[Expr]) -> bool:
    """Whether an index is used for anything but the index of a read."""
    stack, seen = list(roots), set[Expr]()
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            if isinstance(e, ex.Index):
                return True
            stack += e.scoped if isinstance(e, ex.Read) else (*e.args, *e.scoped)
    return False


def _iterations(node: Generate, shape: _Shape) -> int:
    """As many as balance computing and memory."""
    cost, balance = max(flop_count(node.elements), 1.0), BALANCE * len(node.elements)
    if cost > balance / 2:
        return 1
    lanes = MOST_LANES * shape.columns // max(shape.radius, 1)
    return max(min(int(balance / cost) + 1, MOST_ITERATIONS, lanes), 1)


@dataclass
class _Pass:
    """The kernel of `iterations` iterations, or of half as many: so at most a few are left over,
    each of which goes through memory alone.  A quarter would need more registers than there are."""

    builder: Builder
    node: Generate
    loop: ArrayLoop
    shape: _Shape
    requires: list[Expr]
    iterations: int

    def __post_init__(self) -> None:
        shape, rows = self.shape, self.shape.rows
        self.newest, self.row, self.column = (
            ex.Var("y", int64),
            ex.Var("i", int64),
            ex.Var("j", int64),
        )
        half = self.iterations // 2
        self.counts = (self.iterations, half) if half > 1 else (self.iterations,)
        self.count: Expr = ex.constant(self.iterations)
        self.sources = {source: q for q, source in enumerate(shape.sources)}
        self.states = [self.loop.state[k].leaf() for k in changed(self.loop)]
        reads = (e for e in ex.walk(self.node.elements) if isinstance(e, ex.Read))
        self.counter = next((e for e in reads if e.node is self.loop.index), None)
        self.extents = self.builder.shape(self.node.shape)
        self.points: list[tuple[Expr, ...]] = []
        self.at_row: list[int] = []
        for r in range(rows):
            row_offset = -shape.high - (rows - 1 - r)
            for k in range(shape.columns):
                mapping: dict[Expr, Expr] = {
                    ex.Index(0): self.newest + row_offset,
                    ex.Index(1): self.column + k,
                }
                self.points.append(ex.substitute(self.node.elements, mapping))
                self.at_row.append(row_offset)
        self.halo = -(-shape.radius * self.iterations // shape.columns)
        self.wraps = any(e.boundary == "wrap" for e in self._taps())
        self.taken = {True: self._keys(True), False: self._keys(False)}

    def within(self, q: int) -> Expr:
        """The index of the plane of a source, in range: the boundary of its reads makes it so, or
        what is read is used only where it is."""
        leaf, plane = self.shape.sources[q]
        assert plane is not None
        wraps = any(t.boundary == "wrap" for t in self._taps() if self.sources[_source(t)] == q)
        last = leaf.shape[0] - 1
        return plane % leaf.shape[0] if wraps else at.minimum(at.maximum(plane, 0), last)

    def _taps(self) -> list[ex.Read]:
        return [e for e in ex.walk(e for p in self.points for e in p)
                if isinstance(e, ex.Read) and moves(e)]  # fmt: skip

    @property
    def carried(self) -> int:
        """Values in registers between steps, of all iterations."""
        return self.iterations * len(self._carried(True))

    @property
    def values(self) -> int:
        """Values in registers: those carried, loaded for this step and the next, and of planes."""
        step = self.shape.rows * self.shape.columns
        rows = {key[:2] for key in self.taken[True] if key[0] >= len(self.states)}
        address = 2
        return (self.carried + 2 * step * len(self.states)
                + len(rows) * (self.shape.columns + address))  # fmt: skip

    @property
    def resident(self) -> int:
        """Threads on a multiprocessor at once; 0 if the values do not fit."""
        return next((threads for most, threads in RESIDENT if self.values <= most), 0)

    # --- which values ---

    def _position(self, tap: ex.Read) -> tuple[int, int, int]:
        """Source, row relative to the newest, column relative to the thread's first."""
        _, row = ex.split_constant(tap.args[-2])
        _, column = ex.split_constant(tap.args[-1])
        return self.sources[_source(tap)], row, column

    def _keys(self, inside: bool) -> dict[_Key, None]:
        """The values that the points need: row, column, and how the boundary is read."""
        found: dict[_Key, None] = {}
        for point, row_offset in zip(self.points, self.at_row, strict=True):
            for tap in ex.walk(point):
                if isinstance(tap, ex.Read) and moves(tap):
                    q, row, column = self._position(tap)
                    for r in self._rows_for(tap, row, row_offset, inside):
                        found[self._key(q, r, column, tap, inside)] = None
        return found

    def _key(self, q: int, row: int, column: int, tap: ex.Read, inside: bool) -> _Key:
        """Reads that mean the same value have one key: those within the thread's columns do not
        depend on the boundary, nor do any where all is in range."""
        plain = inside or 0 <= column < self.shape.columns or tap.boundary in (None, "wrap")
        return (q, row, column, None if plain else (str(tap.boundary), tap.scoped))

    def _rows_for(self, tap: ex.Read, row: int, row_offset: int, inside: bool) -> list[int]:
        """The rows that a tap of the output at `row_offset` may read."""
        if inside or tap.boundary in (None, "wrap", "constant"):
            return [row]
        return [row, *(row_offset + r for r in _inside(str(tap.boundary), row - row_offset))]

    def _carried(self, inside: bool) -> list[_Key]:
        rows = self.shape.rows
        return [k for k in self.taken[inside] if k[0] < len(self.states) and k[1] <= -rows]

    # --- the kernel ---

    def kernel(self) -> Kernel:
        builder, shape, iterations = self.builder, self.shape, self.iterations
        launched = ex.Param(COUNT, int64)
        if len(self.counts) > 1:
            self.count = builder.scalar(launched, COUNT)
        grid, into = Threads.of(THREADS), builder.emitter()
        n0, n1 = self.extents
        width = (WARP - 2 * self.halo) * shape.columns
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
        left = tile * width - self.halo * shape.columns
        left = into.let(left, "left")
        j = into.let(left + lane * shape.columns, "j")
        # The first rows of the last iteration, of which no result is used, begin before the strip.
        before = -iterations * shape.low
        if len(self.sources) > len(self.states):
            before = iterations * (shape.high - shape.low) + shape.rows - shape.before
        after = max(shape.after - shape.high, 0)
        reach = last + (iterations * shape.high + 2 * shape.rows - 1 + after)
        inside = at.both(
            at.less_equal(shape.columns, left),
            at.less_equal(left + (WARP + 1) * shape.columns, n1),
            at.less_equal(before, first),
            at.less_equal(reach, n0),
        )
        inside = into.let(inside, "inside")
        stores = at.both(
            at.less_equal(self.halo, lane), at.less(lane, WARP - self.halo), at.less(j, n1)
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
        buffers = [builder.input(leaf) for leaf, _ in self.sources] + list(builder.outputs())
        buffers = list(dict.fromkeys(buffers))
        counts = " or ".join(map(str, self.counts))
        comment = f"{counts} iterations in a pass, {self.carried} values carried"
        blocks = at.ceil_div(across_host * strips_host, THREADS // WARP)
        made = make_kernel(
            builder, self.node, builder.scalar(blocks, "blocks"), grid, into, [comment],
            **grid.launch(self.requires, buffers, None, self.resident // THREADS),
        )  # fmt: skip
        values = ex.substitute(made.scalar_values, {launched: ex.constant(iterations)})
        return replace(made, scalar_values=tuple(values))

    def _strip_rows(self, across: Expr) -> Expr:
        """Strips of `LONG` rows or up to twice as many, so that the warps that are resident at once
        begin and end together; of fewer rows, if all are resident then."""
        warps = self.builder.context.processors * self.resident // WARP
        n = self.node.shape[0]
        rounds = at.ceil_div(n * across, warps) // LONG
        resident = at.maximum(rounds, 1) * warps
        strips = at.maximum(resident // across, 1)
        return at.maximum(at.ceil_div(n, strips), SHORTEST)


class _Walk:
    """The walk of a warp, where everything is in range (`inside`) or at the border."""

    def __init__(self, made: _Pass, into: Linearizer, inside: bool, j: Expr, first: Expr,
                 last: Expr, stores: Expr) -> None:  # fmt: skip
        self.made, self.into, self.inside = made, into, inside
        self.j, self.first, self.last, self.stores = j, first, last, stores
        self.keys = list(made.taken[inside])
        self.carried = made._carried(inside)
        n1 = made.extents[1]
        if not inside:
            columns = made.shape.columns
            self.leftmost = into.let(at.equal(j, 0), "leftmost")
            self.rightmost = into.let(at.equal(j + columns, n1), "rightmost")

    def emit(self) -> None:
        made, into = self.made, self.into
        shape, rows = made.shape, made.shape.rows
        state = [
            {k: into.declare(zero(made.states[k[0]].type), f"u{t}") for k in self.carried}
            for t in range(made.iterations)
        ]
        begin = into.let(self.first + (made.count * shape.low + rows - 1), "begin")
        stop = self.last + (made.count * shape.high + rows - 1)
        loaded = [into.declare(e, "x") for e in self._load(begin - (rows - 1))]
        with into.loop("y", begin, stop, step=rows) as y:
            ahead = self._load(y + 1)
            self._store(y - made.count * shape.high, self._iterations(y, loaded, state, 0))
            into.append(*(Assign(v, e) for v, e in zip(loaded, ahead, strict=True)))

    def _iterations(self, y: Expr, fresh: Sequence[Expr], state: Sequence[dict[_Key, ex.Var]],
                    done: int) -> Sequence[Expr]:  # fmt: skip
        """The newest rows after all iterations of the pass, from those after `done` of them."""
        made, into = self.made, self.into
        stop = min(n for n in made.counts if n > done)
        for t in range(done, stop):
            fresh = self._iteration(y - t * made.shape.high, fresh, state[t], t)
        if stop == made.iterations:
            return fresh
        last = [into.declare(e, "x") for e in fresh]
        with into.when(at.less(stop, made.count)):
            after = self._iterations(y, fresh, state, stop)
            into.append(*(Assign(v, e) for v, e in zip(last, after, strict=True)))
        return last

    def _load(self, row: Expr) -> list[Expr]:
        """The next rows of the state, every component: index (q·rows + r)·columns + k."""
        return [e for leaf in self.made.states for r in range(self.made.shape.rows)
                for e in self._load_row(leaf, (), row + r)]  # fmt: skip

    def _load_row(self, leaf: Leaf, plane: tuple[Expr, ...], row: Expr) -> list[Expr]:
        """The thread's columns of a row of an array, or of one of its planes."""
        made, into = self.made, self.into
        (n0, n1), count, column = made.extents, made.shape.columns, self.j
        if not self.inside:
            column = column % n1 if made.wraps else at.minimum(at.maximum(column, 0), n1 - count)
            row = row % n0 if made.wraps else at.minimum(at.maximum(row, 0), n0 - 1)
            column = into.let(column, "column")
        buffer, wide = made.builder.input(leaf), min(max(16 // leaf.type.bytes, 1), count)
        position = at.linear((*plane, row, column), made.builder.shape(leaf.shape))
        return [e for k in range(0, count, wide)
                for e in load_vector(into, buffer, position + k, wide)]  # fmt: skip

    def _planes(self, newest: Expr) -> dict[_Key, Expr]:
        """What an iteration needs of arrays that are not its state."""
        made, into = self.made, self.into
        rows: dict[tuple[int, int], list[Expr]] = {}
        found: dict[_Key, Expr] = {}
        for key in self.keys:
            q, row = key[:2]
            if q < len(made.states):
                continue
            if (q, row) not in rows:
                leaf, plane = made.shape.sources[q]
                index = () if plane is None else into.emit((made.within(q),))
                rows[q, row] = self._load_row(leaf, tuple(index), newest + row)
            found[key] = self._beside(key, rows[q, row])
        return found

    def _iteration(self, newest: Expr, fresh: Sequence[Expr], state: dict[_Key, ex.Var], done: int
              ) -> list[Expr]:  # fmt: skip
        """One iteration, after `done` of the pass: from the newest rows of its input to the newest
        of its output."""
        made, into = self.made, self.into
        rows = made.shape.rows
        newest = newest if self.inside else into.let(newest, "newest")
        known: dict[Expr, Expr] = {made.newest: newest, made.column: self.j}
        if made.counter is not None:
            known[made.counter] = into.let(made.begun + done, "counter")
        with into.when_always(known):
            values: dict[_Key, Expr] = {**state, **self._planes(newest)}
            for key in self.keys:
                if key[0] < len(made.states) and key[1] > -rows:
                    values[key] = self._fresh(key, fresh)
            for key in self.carried:  # what the next step finds
                moved = (key[0], key[1] + rows, *key[2:])
                if moved not in values:
                    values[moved] = self._fresh(moved, fresh)
            results: list[Expr] = []
            for point, row_offset in zip(made.points, made.at_row, strict=True):
                row = into.let(newest + row_offset, "row") if not self.inside else newest
                taps: dict[Expr, Expr] = {
                    tap: self._tap(tap, row_offset, row, values)
                    for tap in ex.walk(point)
                    if isinstance(tap, ex.Read) and moves(tap)
                }
                with into.when_always(taps):
                    for e in into.emit(point, named=True):
                        if e in state.values():  # which changes before the result is used
                            copy = ex.Var("kept", e.type)
                            into.append(Let(copy, e))
                            e = copy
                        results.append(e)
            into.append(*(Assign(v, values[(k[0], k[1] + rows, *k[2:])]) for k, v in state.items()))
        components = len(made.states)
        return [e for q in range(components) for e in results[q::components]]

    def _fresh(self, key: _Key, fresh: Sequence[Expr]) -> Expr:
        """A value of the newest rows of the state."""
        q, row = key[:2]
        columns, rows = self.made.shape.columns, self.made.shape.rows
        start = (q * rows + row + rows - 1) * columns
        return self._beside(key, fresh[start : start + columns])

    def _beside(self, key: _Key, own: Sequence[Expr]) -> Expr:
        """A value of a row of which the thread has its `own` columns: one of them, or a
        neighbour's."""
        made, into = self.made, self.into
        *_, column, border = key
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

    def _tap(self, tap: ex.Read, row_offset: int, row: Expr, values: dict[_Key, Expr]) -> Expr:
        """What a read of the output at `row` means."""
        made = self.made
        q, at_row, column = made._position(tap)

        def value(r: int) -> Expr:
            return values[made._key(q, r, column, tap, self.inside)]

        offset = at_row - row_offset
        if self.inside or tap.boundary in (None, "wrap") or offset == 0:
            return value(at_row)
        n0 = made.extents[0]
        index = row + offset
        outside = at.less(index, 0) if offset < 0 else at.less_equal(n0, index)
        if tap.boundary == "constant":
            (other,) = self.into.emit(tap.scoped)
            return simplify.select(outside, other, value(at_row))
        found = value(at_row)
        for depth, inner in enumerate(_inside(str(tap.boundary), offset), 1):
            edge = -depth if offset < 0 else n0 + (depth - 1)
            found = simplify.select(at.equal(index, edge), value(row_offset + inner), found)
        return found

    def _store(self, newest: Expr, fresh: Sequence[Expr]) -> None:
        made, into = self.made, self.into
        rows, columns = made.shape.rows, made.shape.columns
        for r in range(rows):
            row = newest - (rows - 1 - r)
            position = at.linear((row, self.j), made.extents)
            stores = []
            for q, out in enumerate(made.builder.outputs()):
                start = (q * rows + r) * columns
                wide = max(16 // out.type.bytes, 1)
                for k in range(0, columns, wide):
                    part = tuple(fresh[start + k : start + min(k + wide, columns)])
                    stores.append(StoreVector(out, position + k, part))
            ok = at.both(self.stores, at.less_equal(self.first, row), at.less(row, self.last))
            into.append(If(ok, tuple(stores)))


def _inside(boundary: str, offset: int) -> list[int]:
    """For a tap `offset` rows away that is 1, 2, … |offset| rows outside: the rows, relative to the
    output, that stand for it."""
    backs = [(depth, folded(boundary, depth)) for depth in range(1, abs(offset) + 1)]
    if offset < 0:
        return [offset + depth + back for depth, back in backs]
    return [offset - depth - back for depth, back in backs]
