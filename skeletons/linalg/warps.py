"""Systems, inverses and Cholesky factors of many matrices of up to 32 rows on a GPU.

A warp holds 32 / LANES matrices, with LANES = 8, 16 or 32 ≥ n lanes each.  A lane has one row in
registers; rows meet by shuffles:

    load             each lane its row, as vectors
    for k < n:       pivot: the row of the largest element in column k that was no pivot before (a
                     maximum by shuffles and a ballot), broadcast element by element
      solve          the other rows without a pivot subtract their multiple of it
      inv            all other rows do (Gauss-Jordan, in place); at the end, each is divided by its
                     pivot
      cholesky       row k is the pivot; lanes below it subtract
    store            solve: back substitution leaves component k in lane k.  Others: rows go through
                     shared memory (those of an inverse are permuted there), so that stores are of
                     consecutive elements

Rows are never exchanged: which row was the pivot of a column stays in a register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, Const, Expr, Var
from treadle.dsl.graph import Leaf, Library
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import float64, int64, uint32

from ..ir import arithmetic as at
from ..ir.kernel import (
    Assign,
    Barrier,
    Buffer,
    Collective,
    Kernel,
    Let,
    Load,
    Lowered,
    Store,
)
from ..ir.linearize import Linearizer
from ..lower import tiling
from ..lower.build import Builder, LoweringContext
from ..lower.gpu.collectives import shuffled
from ..lower.gpu.common import WARP, WIDEST, Threads, load_vector
from ..products.scalars import add_product
from .small import conjugate, has_kernel, negative, number, over, real, size

THREADS = 128
#: The largest matrices whose steps are unrolled; the phases of larger ones, in each of which a step
#: does what its first one needs.
UNROLLED, PHASES = 8, 4
#: Step k of an algorithm: (k, the columns that are left, the registers) → the new registers.
Step = Callable[[Expr, int, list[Expr]], list[Expr]]


def lower_linalg(node: Library, context: LoweringContext) -> Lowered:
    """One kernel, with a variant for data that is not aligned."""
    if not has_kernel(node):
        raise TypeError(f"{node.operation.name} is a library's")
    builder = Builder(node, context)
    made = _Warps(builder, node)
    return builder.lowered(made.kernel(True, made.kernel(False, None)))


class _Warps:
    def __init__(self, builder: Builder, node: Library) -> None:
        self.builder, self.node = builder, node
        self.out, self.bad = builder.outputs()
        result = node.outs[0]
        self.batch, self.type = result.shape[:-2], result.type
        self.n = number(node.arguments[0].shape[-1])
        self.columns = number(result.shape[-1])
        self.lanes = next(w for w in (8, 16, WARP) if w >= self.n)
        self.each = THREADS // self.lanes  # matrices of a block
        self.pitch = self.n + (self.n % 2 == 0)  # odd: rows of a matrix are in different banks
        self.staged: Buffer | None = None
        if node.operation.name != "linalg.solve":
            size = self.each * self.n * self.pitch
            (self.staged,) = builder.shared("rows", (self.type,), size)
        self.aligned: list[Buffer] = []

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        builder, node = self.builder, self.node
        self.wide, self.aligned = wide, []
        grid, into = Threads.of(THREADS), builder.emitter()
        total = at.product(self.batch)
        count = builder.scalar(total, "matrices")
        self.own = into.let(at.remainder(grid.thread, self.lanes), "row")
        lane = into.let(grid.lane, "lane")
        self.first = into.let(at.subtract(lane, self.own), "first_lane")
        member = into.let(at.floor_divide(grid.thread, self.lanes), "member")
        matrix = into.let(at.add(at.multiply(grid.task, self.each), member), "matrix")
        self.exists = into.let(at.less(matrix, count), "exists")
        # All threads of a warp shuffle: those without a matrix compute the last one again.
        self.matrix = into.let(at.minimum(matrix, at.subtract(count, 1)), "at")
        self.real_row = into.let(at.less(self.own, self.n), "is_row")
        self.row = into.let(at.minimum(self.own, self.n - 1), "own_row")
        compute = {"inv": self._inv, "solve": self._solve, "cholesky": self._cholesky}
        bad = compute[node.operation.name.removeprefix("linalg.")](into, member)
        with into.when(at.both(self.exists, at.equal(self.own, 0))):
            into.append(Store(self.bad, self.matrix, bad))
        if self.staged is not None:
            into.append(Barrier())
            self._copy_out(into, grid, count, self.staged)
        comments = (f"matrices of {self.n} x {self.n}, {self.lanes} lanes each",)
        launch = grid.launch((), self.aligned, fallback)
        return builder.kernel("", at.ceil_div(count, self.each), grid.task, tuple(into.out),
                              comments=comments, **launch)  # fmt: skip

    # --- memory ---

    def _load(self, into: Linearizer, leaf: Leaf, width: int) -> list[Expr]:
        """This lane's row of an operand, whose leading axes broadcast."""
        builder = self.builder
        buffer = builder.input(leaf)
        lead = leaf.shape[:-2]
        indices = tiling.coordinates(builder, into, self.matrix, self.batch)
        own = []
        for k, extent in enumerate(lead, len(self.batch) - len(lead)):
            one = isinstance(e := builder.root(extent), Const) and int(e.value) == 1
            own.append(at.integer(0) if one else indices[k])
        rows = int(number(leaf.shape[-2]))
        position = at.linear((*own, self.row, 0), (*builder.shape(lead), rows, width))
        start = into.let(position, "start")
        count = min(width & -width, max(WIDEST // buffer.type.bytes, 1)) if self.wide else 1
        if count == 1:
            return [into.let(Load(buffer, at.add(start, j)), buffer.name) for j in range(width)]
        self.aligned.append(buffer)
        found: list[Expr] = []
        for j in range(0, width, count):
            found += load_vector(into, buffer, at.add(start, j), count)
        return found

    def _copy_out(self, into: Linearizer, grid: Threads, count: Expr, rows: Buffer) -> None:
        size = self.n * self.n
        start = into.let(at.multiply(grid.task, self.each * size), "start")
        stop = into.let(at.multiply(count, size), "stop")
        with into.loop("u", 0, at.ceil_div(self.each * size, THREADS)) as u:
            inside = into.let(at.add(at.multiply(u, THREADS), grid.thread), "inside")
            outside = into.let(at.add(start, inside), "p")
            ok = at.both(at.less(inside, self.each * size), at.less(outside, stop))
            with into.when(ok):
                row, column = at.floor_divide(inside, self.n), at.remainder(inside, self.n)
                held = at.add(at.multiply(row, self.pitch), column)
                into.append(Store(self.out, outside, Load(rows, held)))

    # --- arithmetic of lanes ---

    def _from(self, into: Linearizer, value: Expr, lane: Expr | int) -> Expr:
        """The value of a lane of the same matrix."""
        (got,) = shuffled(into, "shuffle", (value,), into.let(at.add(self.first, lane), "source"))
        return got

    def _minus(self, into: Linearizer, total: Expr, factor: Expr, x: Expr) -> Expr:
        """total − factor · x, given −factor."""
        return into.let(add_product(self.type, total, factor, x), "a")

    def _pivot(self, into: Linearizer, value: Expr, used: Expr) -> tuple[Expr, Expr]:
        """The lane of the largest of these values among rows that were no pivot, the first of
        several; and whether it is zero or NaN."""
        length = size(value)
        free = into.let(at.both(self.real_row, at.negate(used)), "free")
        least = Const(-1.0, length.type)
        best = into.let(simplify.select(free, length, least), "size")
        own, step = best, self.lanes // 2
        while step:
            (other,) = shuffled(into, "shuffle_xor", (best,), step)
            best = into.let(apply_primitive("maximum", [best, other]), "best")
            step //= 2
        # (NaN is not less than NaN: then any free row is one.)
        smaller = apply_primitive("less", [own, best])
        chosen = Var("chosen", uint32)
        into.append(Collective(chosen, "ballot", (at.both(free, at.negate(smaller)),)))
        mine = apply_primitive("right_shift", [chosen, simplify.cast(self.first, uint32)])
        lane = simplify.cast(apply_primitive("ctz", [mine]), int64)
        zero = Const(0.0, length.type)
        none = at.negate(apply_primitive("greater", [best, zero]))
        return into.let(lane, "pivot"), into.let(none, "none")

    def _steps(self, into: Linearizer, state: Sequence[Expr], step: Step, phases: int = 1
               ) -> list[Expr]:  # fmt: skip
        """`step(k, left, state)` for k = 0 … n − 1, where at most `left` columns are left.

        Columns are in registers, so that their number cannot be a run-time value: a step uses the
        first one and rotates them.  Small matrices are unrolled; others are loops of a few steps.
        """
        n, values = self.n, list(state)
        if n <= UNROLLED:
            for k in range(n):
                values = step(at.integer(k), n - k, values)
            return values
        each = next(u for u in (4, 2, 1) if n % u == 0)
        size = -(-n // phases // each) * each  # the steps of a phase
        for first in range(0, n, size):
            held = [into.declare(v, "held") for v in values]
            with into.loop("k", first, min(first + size, n), step=each) as start:
                values = list(held)
                for u in range(each):
                    values = step(into.let(at.add(start, u), "k"), n - first, values)
                copies = []
                for v in values:
                    copies.append(Var("next", v.type))
                    into.append(Let(copies[-1], v))
                into.append(*(Assign(h, v) for h, v in zip(held, copies, strict=True)))
            values = list(held)
        return values

    def _solve(self, into: Linearizer, member: Expr) -> Expr:
        n, node, columns = self.n, self.node, self.columns
        a = self._load(into, node.arguments[0], n)
        b = self._load(into, node.arguments[1], columns)
        one, zero = (simplify.cast(at.integer(k), self.type) for k in (1, 0))
        # Of this lane: whether its row was a pivot, of which column; the pivot of column `lane`.
        start = [*a, *b, FALSE, at.integer(0), at.integer(0), FALSE]

        def eliminate(k: Expr, left: int, state: list[Expr]) -> list[Expr]:
            a, b, (used, column, mine, bad) = (
                state[:n],
                state[n : n + columns],
                state[n + columns :],
            )
            pivot, none = self._pivot(into, a[0], used)
            here = into.let(at.equal(self.own, pivot), "here")
            top = self._from(into, a[0], pivot)
            is_zero = apply_primitive("equal", [top, zero])
            divisor = into.let(simplify.select(is_zero, one, top), "divisor")
            used = into.let(at.either(used, here), "used")
            quotient = apply_primitive("true_divide", [negative(a[0]), divisor])
            factor = into.let(simplify.select(used, zero, quotient), "factor")
            rest = [self._minus(into, x, factor, self._from(into, x, pivot)) for x in a[1:left]]
            b = [self._minus(into, x, factor, self._from(into, x, pivot)) for x in b]
            column = into.let(at.select(here, k, column), "column")
            mine = into.let(at.select(at.equal(self.own, k), pivot, mine), "mine")
            bad = into.let(at.either(bad, none), "bad")
            return [*rest, *a[left:], a[0], *b, used, column, mine, bad]

        state = self._steps(into, start, eliminate, PHASES)
        a, b, (_, column, mine, bad) = state[:n], state[n : n + columns], state[n + columns :]

        def substitute(k: Expr, _: int, state: list[Expr]) -> list[Expr]:
            a, b, x = state[:n], state[n : n + columns], state[n + columns :]
            here = into.let(at.subtract(n - 1, k), "column")
            pivot = self._from(into, mine, here)
            before = at.less(column, here)
            factor = into.let(simplify.select(before, negative(a[-1]), zero), "factor")
            for c in range(columns):
                quotient = into.let(apply_primitive("true_divide", [b[c], a[-1]]), "x")
                found = self._from(into, quotient, pivot)
                x[c] = into.let(simplify.select(at.equal(self.own, here), found, x[c]), "x")
                b[c] = self._minus(into, b[c], factor, found)
            return [a[-1], *a[:-1], *b, *x]

        x = self._steps(into, [*a, *b, *([zero] * columns)], substitute)[n + columns :]
        with into.when(at.both(self.exists, self.real_row)):
            position = at.add(at.multiply(self.matrix, n), self.row)
            position = into.let(at.multiply(position, columns), "place")
            into.append(*(Store(self.out, at.add(position, c), x[c]) for c in range(columns)))
        return bad

    def _inv(self, into: Linearizer, member: Expr) -> Expr:
        n = self.n
        a = self._load(into, self.node.arguments[0], n)
        one, zero = (simplify.cast(at.integer(k), self.type) for k in (1, 0))

        def eliminate(k: Expr, _: int, state: list[Expr]) -> list[Expr]:
            a, (own, used, column, mine, bad) = state[:n], state[n:]
            pivot, none = self._pivot(into, a[0], used)
            here = into.let(at.equal(self.own, pivot), "here")
            top = self._from(into, a[0], pivot)
            inverse = into.let(apply_primitive("true_divide", [one, top]), "inverse")
            scaled = apply_primitive("multiply", [negative(a[0]), inverse])
            factor = into.let(simplify.select(here, zero, scaled), "factor")
            rest = [self._minus(into, x, factor, self._from(into, x, pivot)) for x in a[1:]]
            last = into.let(simplify.select(here, one, factor), "a")
            own = into.let(simplify.select(here, inverse, own), "own_inverse")
            used = into.let(at.either(used, here), "used")
            column = into.let(at.select(here, k, column), "column")
            mine = into.let(at.select(at.equal(self.own, k), pivot, mine), "mine")
            bad = into.let(at.either(bad, none), "bad")
            return [*rest, last, own, used, column, mine, bad]

        start = [*a, one, FALSE, at.integer(0), at.integer(0), FALSE]
        state = self._steps(into, start, eliminate)
        a, (own, _, column, mine, bad) = state[:n], state[n:]
        a = [into.let(apply_primitive("multiply", [x, own]), "a") for x in a]
        # Element j of this lane's row is that of row `column` and column `pivot of j`.
        pivots = [self._from(into, mine, j) for j in range(n)]
        self._put_row(into, member, column, a, pivots)
        return bad

    def _cholesky(self, into: Linearizer, member: Expr) -> Expr:
        n = self.n
        a = self._load(into, self.node.arguments[0], n)
        zero = simplify.cast(at.integer(0), self.type)

        def eliminate(k: Expr, left: int, state: list[Expr]) -> list[Expr]:
            a, bad = state[:n], state[n]
            top = into.let(real(self._from(into, a[0], k)), "top")
            fails = at.negate(apply_primitive("greater", [top, Const(0.0, top.type)]))
            bad = into.let(at.either(bad, fails), "bad")
            root = into.let(apply_primitive("sqrt", [top]), "root")
            first = into.let(over(a[0], root), "a")
            # Only rows below take part.  A loop's last steps have fewer columns than its first one:
            # what they take for others comes from lanes of other rows, and is zero.
            below = at.both(self.real_row, at.less(k, self.own))
            kept = into.let(simplify.select(below, first, zero), "kept")
            factor, other = into.let(negative(kept), "factor"), conjugate(kept)
            rest = list(a[1:])
            for j in range(1, left):
                there = self._from(into, other, at.remainder(at.add(k, j), self.lanes))
                rest[j - 1] = self._minus(into, a[j], factor, there)
            return [*rest, first, bad]

        state = self._steps(into, [*a, FALSE], eliminate, PHASES)
        a, bad = state[:n], state[n]
        nan = simplify.cast(Const(float("nan"), float64), self.type)
        found = [simplify.select(bad, nan, simplify.select(at.less_equal(j, self.own), x, zero))
                 for j, x in enumerate(a)]  # fmt: skip
        self._put_row(into, member, self.own, found, range(n))
        return bad

    def _put_row(self, into: Linearizer, member: Expr, row: Expr, values: Sequence[Expr],
                 columns: Iterable[Expr | int]) -> None:  # fmt: skip
        """This lane's values to columns of a row of its matrix in shared memory."""
        assert self.staged is not None
        with into.when(self.real_row):
            position = at.add(at.multiply(member, self.n), row)
            position = into.let(at.multiply(position, self.pitch), "place")
            into.append(*(Store(self.staged, at.add(position, c), v)
                          for c, v in zip(columns, values, strict=True)))  # fmt: skip
