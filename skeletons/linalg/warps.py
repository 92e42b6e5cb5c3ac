"""Linear algebra of many matrices of up to 32 rows on a GPU: what its algorithms share.

A warp holds 32 / LANES matrices, with LANES = 8, 16 or 32 lanes each.  A lane has a row or a column
in registers; shuffles exchange elements.

    load             each lane its row or column
    an algorithm     `warps_rows.py`, `warps_columns.py`
    store            through shared memory, so that neighbouring lanes store neighbouring elements
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from treadle.dsl.expr import Expr, Var
from treadle.dsl.graph import Library
from treadle.dsl.records import dataclass

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Barrier, Buffer, Kernel, Let, Load, Store, StoreVector
from ..ir.linearize import Linearizer
from ..lower.build import Builder
from ..lower.gpu.collectives import shuffled
from ..lower.gpu.common import WARP, Threads, load_vector
from ..products.elements import add_product
from .small import number

#: Threads of a block.
THREADS = 128
#: The largest matrices whose steps are unrolled; the phases of larger ones, in each of which a step
#: does what its first one needs.
UNROLLED, PHASES = 8, 4


@dataclass(frozen=True)
class Staged:
    """Matrices of a block in shared memory, `stride` elements apart; their rows, or complete ones
    (`pitch` None), are in different banks."""

    buffer: Buffer
    rows: int
    columns: int
    pitch: int | None
    stride: int
    #: The elements that are copied together where data are aligned.
    vector: int = 1

    def held(self, into: Linearizer, inside: Expr) -> Expr:
        """Where an element is, of the elements of all matrices."""
        line, pitch = self.columns, self.pitch
        if pitch is None:
            line, pitch = self.rows * self.columns, self.stride
        start = inside // line * pitch
        return into.let(start + inside % line, "held")


@dataclass(frozen=True)
class Left:
    """The registers of a row or column that are left at step k, n − k of its n: not fewer than
    `least` and not more than `most`, which are the same where k is a constant."""

    least: int
    most: int


#: Step k of an algorithm: (k, what is left, all registers) → the new registers.
Step = Callable[[Expr, Left, list[Expr]], list[Expr]]


class Warps(ABC):
    """A kernel of one operation."""

    #: The axes of a matrix in the first result.
    result_axes = 2

    def __init__(self, builder: Builder, node: Library) -> None:
        self.builder, self.node = builder, node
        given, first = node.arguments[0], node.outs[0].shape
        self.type, self.batch = given.type, first[: len(first) - self.result_axes]
        self.m, self.n = (number(e) for e in given.shape[-2:])
        self.lanes, self.threads = self.fewest(max(self.m, self.n)), THREADS
        self.aligned: list[Buffer] = []

    @staticmethod
    def fewest(count: int) -> int:
        return next(w for w in (8, 16, WARP) if w >= count)

    @abstractmethod
    def compute(self, into: Linearizer, grid: Threads, count: Expr, member: Expr) -> None:
        """What a thread does: `member` is the number of its matrix in the block, `count` the number
        of all matrices."""

    @property
    def each(self) -> int:
        """The matrices of a block."""
        return self.threads // self.lanes

    def variants(self) -> Kernel:
        """The kernel, with a variant for data that is not aligned."""
        return self.kernel(True, self.kernel(False, None))

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        builder = self.builder
        self.wide, self.aligned = wide, []
        grid, into = Threads.of(self.threads), builder.emitter()
        count = builder.scalar(at.product(self.batch), "matrices")
        self.own = into.let(grid.thread % self.lanes, "own")
        self.lane = into.let(grid.lane, "lane")
        self.first = into.let(self.lane - self.own, "first_lane")
        member = into.let(grid.thread // self.lanes, "member")
        matrix = into.let(grid.task * self.each + member, "matrix")
        self.exists = into.let(at.less(matrix, count), "exists")
        # All threads of a warp shuffle: those without a matrix compute the last one again.
        self.matrix = into.let(at.minimum(matrix, count - 1), "at")
        self.compute(into, grid, count, member)
        each = f"{self.lanes} lanes" if self.lanes > 1 else "a thread"
        comments = (f"matrices of {self.m} x {self.n}, {each} each",)
        launch = grid.launch((), self.aligned, fallback)
        return builder.kernel("", at.ceil_div(count, self.each), grid.task, tuple(into.out),
                              comments=comments, **launch)  # fmt: skip

    def store_flag(self, into: Linearizer, out: Buffer, value: Expr) -> None:
        """A result of one element for each matrix."""
        with into.when(at.both(self.exists, at.equal(self.own, 0))):
            into.append(Store(out, self.matrix, value))

    # --- shared memory ---

    def stage(self, name: str, rows: int, columns: int) -> Staged:
        stride = rows * (columns | 1)
        (buffer,) = self.builder.shared(name, (self.type,), self.each * stride)
        return Staged(buffer, rows, columns, columns | 1, stride)

    def put_row(self, into: Linearizer, staged: Staged, member: Expr, exists: Expr, row: Expr,
                values: Sequence[Expr], columns: Iterable[Expr | int]) -> None:  # fmt: skip
        """Values to columns of a row of this lane's matrix in shared memory, if the row exists."""
        with into.when(exists):
            pitch = staged.columns if staged.pitch is None else staged.pitch
            position = member * staged.stride + row * pitch
            position = into.let(position, "position")
            into.append(*(Store(staged.buffer, position + c, v)
                          for c, v in zip(columns, values, strict=True)))  # fmt: skip

    def copy(self, into: Linearizer, grid: Threads, count: Expr, staged: Staged, buffer: Buffer,
             first: bool = False) -> None:  # fmt: skip
        """Copies the matrices of a block from shared memory to a result, or from an operand
        (`first`) to shared memory."""
        if not first:
            into.append(Barrier())
        size, vector = staged.rows * staged.columns, staged.vector if self.wide else 1
        if vector > 1:
            self.aligned.append(buffer)
        start = into.let(grid.task * (self.each * size), "start")
        stop = into.let(count * size, "stop")
        shares = -(-self.each * size // (self.threads * vector))
        with into.loop("u", 0, shares, "unrolled") as u:
            number = u * self.threads + grid.thread
            inside = into.let(number * vector, "inside")
            outside = into.let(start + inside, "p")
            held = staged.held(into, inside)
            with into.when(at.both(at.less(inside, self.each * size), at.less(outside, stop))):
                source, target = (buffer, staged.buffer) if first else (staged.buffer, buffer)
                there, here = (outside, held) if first else (held, outside)
                if vector == 1:
                    into.append(Store(target, here, Load(source, there)))
                else:
                    into.append(StoreVector(target, here, load_vector(into, source, there, vector)))
        if first:
            into.append(Barrier())

    # --- arithmetic of lanes ---

    def from_lane(self, into: Linearizer, value: Expr, number: Expr | int) -> Expr:
        """The value of the lane of this number among those of the same matrix."""
        return self.shuffled(into, value, into.let(self.first + number, "source"))

    def shuffled(self, into: Linearizer, value: Expr, lane: Expr) -> Expr:
        """The value of a lane of the warp."""
        (got,) = shuffled(into, "shuffle", (value,), lane)
        return got

    def among_lanes(self, into: Linearizer, value: Expr, combine: Callable[[Expr, Expr], Expr]
                    ) -> Expr:  # fmt: skip
        """The combination of the values of all lanes of the same matrix."""
        step = self.lanes // 2
        while step:
            (other,) = shuffled(into, "shuffle_xor", (value,), step)
            value = into.let(combine(value, other), "best")
            step //= 2
        return value

    def minus(self, into: Linearizer, total: Expr, factor: Expr, x: Expr) -> Expr:
        """total − factor · x, given −factor."""
        return into.let(add_product(self.type, total, factor, x), "a")

    def steps(self, into: Linearizer, state: Sequence[Expr], step: Step, phases: int = 1,
              count: int | None = None, together: int = 4) -> list[Expr]:  # fmt: skip
        """`step(k, left, state)` for k = 0 … count − 1 (default: n − 1).

        Registers have no run-time numbers: a step uses the first one and rotates them.  Small
        matrices are unrolled; others are loops of at most `together` steps.
        """
        long, values = self.m, list(state)
        count = long if count is None else count
        if long <= UNROLLED:
            for k in range(count):
                values = step(at.integer(k), Left(long - k, long - k), values)
            return values
        each = next(u for u in (4, 2, 1) if count % u == 0 and u <= together)
        size = -(-count // phases // each) * each  # the steps of a phase
        for first in range(0, count, size):
            held = Registers(into, values)
            stop = min(first + size, count)
            with into.loop("k", first, stop, step=each) as start:
                values = list(held.values)
                for u in range(each):
                    left = Left(long - (stop - each + u), long - (first + u))
                    values = step(into.let(start + u, "k"), left, values)
                held.assign(into, values)
            values = list(held.values)
        return values


class Registers:
    """Variables of a loop."""

    def __init__(self, into: Linearizer, values: Sequence[Expr]) -> None:
        self.values = [into.declare(v, "held") for v in values]

    def assign(self, into: Linearizer, values: Sequence[Expr]) -> None:
        copies = []
        for v in values:
            copies.append(Var("next", v.type))
            into.append(Let(copies[-1], v))
        into.append(*(Assign(h, v) for h, v in zip(self.values, copies, strict=True)))
