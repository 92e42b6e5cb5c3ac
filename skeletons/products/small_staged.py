"""GPU kernels for many products of medium-sized matrices: too large for the L1 cache to serve every
thread of a product, so a group of warps stages both operands in shared memory.

    stage     every element of both operands once, as vectors where they are contiguous (fused
              producers run here), both operands in flight together
    barrier
    multiply  from shared memory, sums in registers
    store     with the epilogue, from registers

A multiprocessor holds several blocks, so one loads while another multiplies.  Extents are
compile-time constants; lines in shared memory are padded so that the lanes of a warp read different
banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.dsl import simplify
from treadle.dsl.expr import TRUE, Expr, Var
from treadle.dsl.graph import Matmul
from treadle.dsl.types import ScalarType

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Barrier, Buffer, Kernel, Load, Store, StoreVector
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder
from ..lower.gpu import common
from .elements import add_product
from .small import Share, share_for, width
from .small_gpu import GpuProduct, Results, Side
from .small_tensor import COLUMNS, DEPTH, ROWS, TensorProducts

#: The fewest threads of a block; the 32-bit registers of a thread that hold elements in flight.
THREADS, ON_THE_WAY = 64, 64
#: The 16-bit elements in one row of all banks of shared memory, and in one access.
BANKS, ACCESS = 64, 8
#: Rows of the right operand that a thread multiplies at once on tensor cores.
TOGETHER = 4
#: Products beyond extent FLIGHT issue all loads before the first store to shared memory, unless k
#: fills whole steps (otherwise the compiler saves registers by several round trips to memory), and
#: limit the blocks of a multiprocessor so that a thread has ENOUGH of its REGISTERS.
FLIGHT, ENOUGH, REGISTERS = 48, 80, 1 << 16
#: If lanes would load more vectors than this, each with a division for its address, lanes load
#: whole lines together, even if that takes more loads: so many addresses would be spilled.
PLACES = 20


@dataclass(frozen=True)
class Stage:
    """An operand of a product in shared memory: `lines` lines of `length` elements, padded with
    zeros to `padded` lines of `wide` elements.  `deep` lines are interleaved, so that their
    elements at the same position are adjacent; such groups of lines are `pitch` apart."""

    side: Side
    group: common.Group
    buffer: Buffer
    lines: int
    length: int
    padded: int
    wide: int
    pitch: int
    deep: int
    #: The extents of both axes in the graph.
    ends: tuple[Expr, Expr]

    @property
    def size(self) -> int:
        return self.padded // self.deep * self.pitch

    @property
    def across(self) -> int:
        return self.length // self.group.count

    @property
    def groups(self) -> int:
        """Groups of lines that do not consist of padding."""
        return -(-self.lines // self.deep)

    @property
    def vectors(self) -> int:
        return self.groups * self.across

    @property
    def registers(self) -> int:
        """The registers that hold a thread's vector of a group of lines."""
        return -(-self.group.count * self.deep * self.buffer.type.bytes // 4)


class Staging(GpuProduct):
    """Shared by both kernels: a block computes `together` products with `lanes` threads each."""

    stages: tuple[Stage, Stage]
    lanes: int
    together: int
    #: Whether all loads are issued before the first store.
    flight = False
    #: Whether lanes load whole lines together, so that a lane's vectors have constant distances.
    strided = False
    #: The number of pieces of BANKS elements, within a group of lines of the right operand, that
    #: are rotated, each by as many accesses as its number: then lanes that store accesses of
    #: several vectors use all banks.
    turned = 0

    def block(self, lanes: int) -> common.Threads:
        self.lanes, self.together = lanes, max(THREADS // lanes, 1)
        return common.Threads.of(lanes * self.together)

    def stage(self, side: Side, group: common.Group, name: str, kind: ScalarType,
              lines: tuple[int, int], length: tuple[int, int], pitch: int,
              ends: tuple[Expr, Expr], deep: int = 1) -> Stage:  # fmt: skip
        """Allocate shared memory for an operand; `lines`, `length`: without and with padding."""
        (buffer,) = self.builder.shared(name, [kind], self.together * lines[1] // deep * pitch)
        return Stage(side, group, buffer, lines[0], length[0], lines[1], length[1], pitch, deep,
                     ends)  # fmt: skip

    def begin(self, into: Linearizer, grid: common.Threads) -> Expr:
        """Find these threads' product and whether they store it; returns the number of blocks."""
        builder, node = self.builder, self.node
        batches = builder.scalar(at.product(node.batch), "products")
        slot = into.let(grid.thread // self.lanes, "slot")
        self.lane = into.let(grid.thread % self.lanes, "lane")
        number = into.let(grid.task * self.together + slot, "number")
        # All threads meet at the barrier: those beyond the last product repeat it.
        product = into.let(at.minimum(number, batches - 1), "product")
        self.own = into.let(at.less(number, batches), "own")
        self.batch = tiling.coordinates(builder, into, product, node.batch, "batch")
        self.bases = [into.let(slot * s.size, "base") for s in self.stages]
        return at.ceil_div(batches, self.together)

    def fill(self, into: Linearizer) -> None:
        """Stage both operands, as much at a time as registers can hold."""
        for x in range(len(self.stages)):
            self._clear(into, x)
        together: list[list[tuple[int, int]]] = [[]]
        registers = 0
        for x, s in enumerate(self.stages):
            for share in range(-(-s.vectors // self._loading(s))):
                if together[-1] and registers + s.registers > ON_THE_WAY:
                    together.append([])
                    registers = 0
                together[-1].append((x, share))
                registers += s.registers
        for moves in together:
            loaded = [self._load(into, *move) for move in moves]
            if self.flight:
                into.append(Barrier())
            for (x, _), (mine, group, start, values) in zip(moves, loaded, strict=True):
                with into.when(mine):
                    self._put(into, x, group, start, values)
        into.append(Barrier())

    def _loading(self, s: Stage) -> int:
        """The number of a product's lanes that load an operand."""
        return self.lanes // s.across * s.across if self.strided else self.lanes

    def _by_lines(self) -> bool:
        """Whether lanes should load whole lines together: if each then loads as many vectors as if
        all lanes loaded, or if there are many vectors."""
        lanes = [self.lanes // s.across * s.across for s in self.stages]
        all_load = [-(-s.vectors // self.lanes) for s in self.stages]
        if 0 in lanes:
            return False
        loads = [-(-s.vectors // n) for s, n in zip(self.stages, lanes, strict=True)]
        return loads == all_load or sum(all_load) > PLACES

    def _load(self, into: Linearizer, x: int, share: int) -> tuple[Expr, Expr, Expr, list[Expr]]:
        """A thread's vector number `share` of a group of lines of operand `x`: whether it exists,
        its destination, and its elements in the order of shared memory."""
        s = self.stages[x]
        per, count = s.across, s.group.count
        lanes = self._loading(s)
        whole = (share + 1) * lanes <= s.vectors
        # Lanes beyond the last vector load one again.
        if lanes % per == 0:  # constant distances from the first
            group = self.lane // per + share * (lanes // per)
            mine = at.both(TRUE if lanes == self.lanes else at.less(self.lane, lanes),
                           TRUE if whole else at.less(group, s.groups))  # fmt: skip
            if share * lanes + self.lanes > s.vectors:
                group = at.minimum(group, s.groups - 1)
            start = self.lane % per * count
        else:
            number = into.let(self.lane + share * self.lanes, "vector")
            mine = TRUE if whole else at.less(number, s.vectors)
            number = number if whole else into.let(at.minimum(number, s.vectors - 1), "vector")
            group = number // per
            start = number % per * count
        group, start = into.let(group, "line"), into.let(start, "start")
        self.builder.stays_below(start, s.ends[1])
        lines = []
        for e in range(s.deep):
            line = group if s.deep == 1 else into.let(group * s.deep + e, "line")
            inside = TRUE if s.lines % s.deep == 0 else at.less(line, s.lines)
            self.builder.stays_below(line, s.ends[0])
            lines.append(s.side.elements(into, s.group, self.batch, line, start, s.buffer.type,
                                         inside))  # fmt: skip
        return mine, group, start, [line[v] for v in range(count) for line in lines]

    def _clear(self, into: Linearizer, x: int) -> None:
        """Write the zeros of operand `x`'s padding."""
        s = self.stages[x]
        most = common.WIDEST // s.buffer.type.bytes
        behind = s.padded // s.deep - s.groups
        parts = [(s.groups * s.pitch, behind * s.pitch, 1, s.pitch)]
        parts.append((s.length * s.deep, (s.wide - s.length) * s.deep, s.groups, s.pitch))
        for first, length, lines, pitch in parts:
            count = width(first, width(length, width(pitch, most))) if length else 1
            per = length // count
            for share in range(-(-lines * per // self.lanes)):
                number = into.let(self.lane + share * self.lanes, "zero")
                line, column = number // per, number % per
                where = line * pitch + (column * count + first)
                where = self.bases[x] + where
                nothing = (zero(s.buffer.type),) * count
                with into.when(at.less(number, lines * per)):
                    into.append(Store(s.buffer, where, nothing[0]) if count == 1
                                else StoreVector(s.buffer, where, nothing))  # fmt: skip

    def _put(self, into: Linearizer, x: int, group: Expr, start: Expr, values: Sequence[Expr]
             ) -> None:  # fmt: skip
        s = self.stages[x]
        count = width(s.pitch, min(len(values), common.WIDEST // s.buffer.type.bytes))
        first = start * s.deep
        offset = self.bases[x] + group * s.pitch
        turned = self.turned if x == 1 else 0
        inside = first
        if turned:
            piece = into.let(first // BANKS, "piece")
            turn = at.select(at.less(piece, turned), piece, 0) * ACCESS
            inside = into.let(first % BANKS + turn, "turned")
            first = piece * BANKS
        where = into.let(offset + first, "to")
        for v in range(0, len(values), count):
            there, some = where + v, tuple(values[v : v + count])
            if turned:
                there = where + (inside + v) % BANKS
            into.append(Store(s.buffer, there, some[0]) if count == 1
                        else StoreVector(s.buffer, there, some))  # fmt: skip

    def take(self, into: Linearizer, x: int, where: Expr, count: int) -> list[Expr]:
        """Load `count` consecutive elements of a staged operand."""
        buffer = self.stages[x].buffer
        if count == 1:
            return [into.let(Load(buffer, where), "x")]
        return list(common.load_vector(into, buffer, where, count))


class StagedTensorProducts(Staging, TensorProducts):
    """The kernel on tensor cores: a warp computes 16 rows, with the fragments of `TensorProducts`;
    V = 2.

    Four rows of the right operand are interleaved: a thread's elements of both its columns, which
    tensor cores need in pairs along k, are one access.
    """

    def __init__(self, builder: Builder, node: Matmul, left: Side, right: Side,
                 epilogue: Sequence[Expr], m: int, n: int, k: int) -> None:  # fmt: skip
        super().__init__(builder, node, left, right, epilogue, m, n, k)
        self.vector = 2

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        node, m, n, k = self.node, self.m, self.n, self.k
        grid = self.block(common.WARP * -(-m // ROWS))
        kind, deep = node.left.type, -(-k // DEPTH) * DEPTH
        groups = [s.group(s.widest(e) if wide else 1) for s, e in ((self.left, k), (self.right, n))]
        self.flight = max(m, n, k) > FLIGHT and k < deep
        for group in groups:
            group.streaming = self.flight
        resident = max(REGISTERS // (ENOUGH * grid.count), 1) if self.flight else 0
        # Four rows of A are in different banks, and four groups of four rows of B.
        pitches = (deep + (16 - deep) % 32, TOGETHER * n + (16 - TOGETHER * n) % 64)
        self.stages = (
            self.stage(self.left, groups[0], "left", kind, (m, m), (k, deep), pitches[0],
                       (node.m, node.k)),
            self.stage(self.right, groups[1], "right", kind, (k, deep), (n, n), pitches[1],
                       (node.k, node.n), TOGETHER),
        )  # fmt: skip
        self.strided = self.flight and self._by_lines()
        # (If registers are scarce, rotate only where strided lanes save the divisions.)
        turns = self.strided or (groups[1].count == ACCESS and not self.flight)
        self.turned = TOGETHER * n // BANKS if turns else 0
        widest = max(o.type.bytes for o in node.outputs)
        stored = min(width(n, common.WIDEST // widest), 2 * self.vector) if wide else 1
        self.results = Results(self.builder, node, self.epilogue, stored)
        into = self.builder.emitter()
        tasks = self.begin(into, grid)
        self.fill(into)
        thread = into.let(self.lane % common.WARP, "thread")
        self.g = into.let(thread // 4, "g")
        self.q = into.let(thread % 4, "q")
        warp = self.lane // common.WARP
        self._tiles(into, [into.let(warp * ROWS, "row")])
        comment = "16 rows of a product a warp, on tensor cores, from shared memory"
        return self.made(into, grid, tasks, comment, groups, fallback, resident)

    def _along_k(self, into: Linearizer, row: Expr | int, half: int, step: int) -> list[Expr]:
        i = self.g + row + half
        if not self._within(row, half):
            i = at.minimum(i, self.m - 1)
        line = i * self.stages[0].pitch
        where = line + (self.q * 4 + step)
        return self.take(into, 0, into.let(self.bases[0] + where, "at"), 4)

    def _rows(self, into: Linearizer, step: int, column: int) -> list[list[Expr]]:
        j = self.g * self.vector + column
        if column + COLUMNS * self.vector > self.n:
            j = at.minimum(j, self.n - self.vector)
        group = (self.q + step // TOGETHER) * self.stages[1].pitch
        within = j * TOGETHER
        piece = column * TOGETHER // BANKS
        if piece < self.turned:
            within = (self.g + piece) * ACCESS
            within = within % BANKS + piece * BANKS
        where = into.let(self.bases[1] + (group + within), "at")
        found = self.take(into, 1, where, TOGETHER * self.vector)
        return [found[e::TOGETHER] for e in range(TOGETHER)]

    def _store_row(self, into: Linearizer, row: Expr | int, half: int,
                   values: Sequence[Sequence[Var]]) -> None:  # fmt: skip
        """Store a row such that four threads fill whole sectors, even if the row begins within a
        sector: the last of them then store one access later, when the first ones store what follows
        in memory."""
        count, span = self.results.count, COLUMNS * self.vector
        straddles = len(values) > 1 and count == 2 * self.vector and self.n % (4 * count) > 0
        if not (self.strided and straddles):
            return super()._store_row(into, row, half, values)
        i = self.g + row + half
        inside = TRUE if self._within(row, half) else at.less(i, self.m)
        i = into.let(i, "i")
        shape = self.builder.shape((*self.node.batch, self.node.m, self.node.n))
        start = at.linear((*self.batch, i, at.integer(0)), shape) // count
        late = into.let(at.less_equal(4, self.q + start % 4), "late")
        column = self.q * count - at.select(late, span, 0)
        column = into.let(column, "column")
        for c in range(len(values) + 1):
            first = into.let(column + c * span, "j")
            some: list[Expr]
            if c == 0:
                there, some = at.negate(late), [*values[0]]
            elif c == len(values):
                there, some = late, [*values[-1]]
            else:
                pairs = zip(values[c - 1], values[c], strict=True)
                there = TRUE
                some = [into.let(simplify.select(late, b, a), "sum") for b, a in pairs]
            if (c + 1) * span > self.n:
                there = at.both(there, at.less(first, self.n))
            with into.when(at.both(self.own, inside, there)):
                self.builder.stays_below(i, self.node.m)
                self.results.store(into, self.batch, i, first, some)


class StagedProducts(Staging):
    """By multiply-adds: each thread has evenly spaced rows and vectors of columns."""

    def __init__(self, builder: Builder, node: Matmul, left: Side, right: Side,
                 epilogue: Sequence[Expr], m: int, n: int, k: int) -> None:  # fmt: skip
        super().__init__(builder, node, left, right, epilogue, m, n, k)
        self.share: Share = share_for(m, n, k)

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        node, m, n, k, share = self.node, self.m, self.n, self.k, self.share
        grid = self.block(-(-share.lanes(m, n) // common.WARP) * common.WARP)
        groups = [s.group(s.widest(e) if wide else 1) for s, e in ((self.left, k), (self.right, n))]
        pitch = (-(-k // share.deep) | 1) * share.deep  # rows are in different banks
        self.stages = (
            self.stage(self.left, groups[0], "left", self.type, (m, m), (k, k), pitch,
                       (node.m, node.k)),
            self.stage(self.right, groups[1], "right", self.type, (k, k), (n, n), n,
                       (node.k, node.n)),
        )  # fmt: skip
        widest = max(o.type.bytes for o in node.outputs)
        stored = width(share.vector, common.WIDEST // widest) if wide else 1
        self.results = Results(self.builder, node, self.epilogue, stored)
        into = self.builder.emitter()
        tasks = self.begin(into, grid)
        self.fill(into)
        self._product(into)
        comment = f"{share.rows} x {share.columns} of a product a thread, from shared memory"
        return self.made(into, grid, tasks, comment, groups, fallback)

    def _product(self, into: Linearizer) -> None:
        share, m, n = self.share, self.m, self.n
        down, across = share.grid(m, n)
        row, column = self._place(into, down, across)
        col = into.let(column * share.vector, "col")
        cols = [into.let(col + c * across * share.vector, "j")
                for c in range(share.columns // share.vector)]  # fmt: skip
        if self.lanes > down * across:  # the remaining threads of the last warp repeat a row
            self.own = into.let(at.both(self.own, at.less(row, down)), "own")
            row = into.let(at.minimum(row, down - 1), "row")
        rows = [into.let(row + r * down, "i") for r in range(share.rows)]
        outside = [(r + 1) * down > m for r in range(share.rows)]
        beyond = [(c + 1) * across * share.vector > n for c in range(len(cols))]
        lines = [
            into.let(
                self.bases[0] + (at.minimum(i, m - 1) if out else i) * self.stages[0].pitch, "from"
            )
            for i, out in zip(rows, outside, strict=True)
        ]
        firsts = [into.let(self.bases[1] + (at.minimum(j, n - share.vector) if out else j),
                           "from") for j, out in zip(cols, beyond, strict=True)]  # fmt: skip
        sums = [[into.declare(zero(self.type), "sum") for _ in range(share.columns)] for _ in rows]
        with into.loop("k", 0, self.k, step=share.deep) as k:
            left = [self.take(into, 0, into.let(x + k, "at"), share.deep) for x in lines]
            for e in range(share.deep):
                line = into.let((k + e) * self.n, "line")
                right = [v for f in firsts
                         for v in self.take(into, 1, into.let(f + line, "at"),
                                            share.vector)]  # fmt: skip
                for r, mine in enumerate(sums):
                    for total, v in zip(mine, right, strict=True):
                        made = add_product(self.node.left.type, total, left[r][e], v)
                        into.append(Assign(total, made))
        for i, out, mine in zip(rows, outside, sums, strict=True):
            self._store(into, i, out, cols, beyond, mine)

    def _place(self, into: Linearizer, down: int, across: int) -> tuple[Expr, Expr]:
        """A thread's position in the grid of a product's threads: four neighbours form a square,
        since pairs of lanes that read the same vector of 16 bytes take fewer cycles."""
        widest = max(self.share.vector, self.share.deep) * self.type.bytes
        if down % 2 or across % 2 or widest < common.WIDEST:
            row = into.let(self.lane // across, "row")
            return row, self.lane % across
        square = into.let(self.lane // 4, "square")
        low = self.lane // 2 % 2
        row = square // (across // 2) * 2 + low
        column = square % (across // 2) * 2
        return into.let(row, "row"), column + self.lane % 2

    def _store(self, into: Linearizer, i: Expr, outside: bool, cols: Sequence[Expr],
               beyond: Sequence[bool], sums: Sequence[Var]) -> None:  # fmt: skip
        """Store a thread's results in a row."""
        vector, count = self.share.vector, self.results.count
        for c, (j, over) in enumerate(zip(cols, beyond, strict=True)):
            there = at.both(self.own, at.less(i, self.m) if outside else TRUE,
                            at.less(j, self.n) if over else TRUE)  # fmt: skip
            for v in range(0, vector, count):
                first = into.let(j + v, "first")
                with into.when(there):
                    self.builder.stays_below(i, self.node.m)
                    mine = sums[c * vector + v : c * vector + v + count]
                    self.results.store(into, self.batch, i, first, mine)
