"""QR decompositions and eigenvalues of many matrices on a GPU, a column a lane.

qr: a lane has a column of the matrix and one of the unit matrix, which becomes Qᴴ.  Reflection k is
that of lane k's column, which is broadcast element by element and applied by all lanes to both.

eigh: Jacobi's method with N / 2 rotations at once (Brent and Luk's round robin, N = n rounded up to
an even number).  A lane has a column of the matrix and a row of the eigenvectors:

    while a rotation of the warp acts:
      for N − 1 steps, after which every pair of axes has met:
        the axes at positions 2i and 2i + 1 are a pair; its rotation is that of the first one's lane
        columns: each lane combines its own with that of the other lane
        rows, and the columns of the eigenvectors: registers 2i and 2i + 1 of every lane
        axes move on: registers are renamed, and lanes know the new position of their axis

Columns stay in their lanes; position is where a row is in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Const, Expr, Var
from treadle.dsl.graph import Library
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import int64, uint32

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Collective, Load, Store, While
from ..ir.linearize import Linearizer
from ..lower.build import Builder
from ..lower.gpu.common import Threads
from ..products.elements import add_product
from .small import (
    SWEEPS,
    conjugate,
    constant_of,
    larger,
    minus,
    negative,
    number,
    plus,
    real,
    real_type,
    size,
    squared,
    times,
)
from .transformations import Reflection, Rotation, Scale, comes_before, unbounded
from .warps import PHASES, Left, Registers, Staged, Warps


class QR(Warps):
    def __init__(self, builder: Builder, node: Library) -> None:
        super().__init__(builder, node)
        *of_q, self.r = builder.outputs()
        self.height = number(node.outs[-1].shape[-2])
        self.q: Staged | None = None
        if of_q:
            self.out, self.q = of_q[0], self.stage("rows", self.m, self.height)
        else:
            self.lanes = self.fewest(self.n)

    def compute(self, into: Linearizer, grid: Threads, count: Expr, member: Expr) -> None:
        m, n, steps = self.m, self.n, min(self.m, self.n)
        one, zero = constant_of(1, self.type), constant_of(0, self.type)
        buffer = self.builder.input(self.node.arguments[0])
        column = at.minimum(self.own, n - 1)
        start = into.let(self.matrix * (m * n) + column, "start")
        state = [into.let(Load(buffer, start + i * n), buffer.name) for i in range(m)]
        if self.q is not None:
            state += [simplify.select(at.equal(self.own, i), one, zero) for i in range(m)]

        # (A step is long: its registers are renamed at little cost.)
        state = self.steps(into, state, partial(self._reflect, into), PHASES, steps, together=1)
        turned = [[c[(i - steps) % m] for i in range(self.height)]
                  for c in (state[:m], state[m:]) if c]  # fmt: skip
        with into.when(at.both(self.exists, at.less(self.own, n))):
            start = self.matrix * (self.height * n) + self.own
            start = into.let(start, "start")
            for i, x in enumerate(turned[0]):
                upper = simplify.select(at.less_equal(i, self.own), x, zero)
                into.append(Store(self.r, start + i * n, upper))
        if self.q is not None:
            row = [conjugate(x) for x in turned[1]]
            exists = at.less(self.own, m)
            self.put_row(into, self.q, member, exists, self.own, row, range(self.height))
            self.copy(into, grid, count, self.q, self.out)

    def _reflect(self, into: Linearizer, k: Expr, left: Left, state: list[Expr]) -> list[Expr]:
        m, kind = self.m, real_type(self.type)
        zero = constant_of(0, self.type)
        alpha, below = state[0], list(state[1 : left.most])
        if not isinstance(k, Const):
            # Behind the column's end are rows of R, which a loop's last steps have to leave alone.
            below = [x if i < left.least else into.let(
                         simplify.select(at.less(k + i, m), x, zero), "below")
                     for i, x in enumerate(below, 1)]  # fmt: skip
        rest: Expr = constant_of(0, kind)
        for x in below:
            rest = into.let(larger(rest, size(x)), "rest")
        scale = Scale.of(into, larger(rest, size(alpha)))
        scaled = [into.let(times(x, scale.inverse), "scaled") for x in (alpha, *below)]
        squares: Expr = constant_of(0, kind)
        for x in scaled:
            total = (plus(squares, squared(x)) if self.type.is_complex
                     else add_product(kind, squares, x, x))  # fmt: skip
            squares = into.let(total, "squares")
        made = Reflection.of(into, alpha, rest, squares, scale)
        tau = conjugate(self.from_lane(into, made.tau, k))
        vector = [self.from_lane(into, times(x, made.inverse), k) for x in scaled[1:]]
        found: list[Expr] = []
        for column in (state[:m], state[m:]):
            if not column:
                continue
            dot = column[0]
            for v, x in zip(vector, column[1 : left.most], strict=True):
                dot = into.let(add_product(self.type, dot, conjugate(v), x), "dot")
            factor = into.let(negative(times(tau, dot)), "factor")
            rest_of = [into.let(add_product(self.type, x, factor, v), "a")
                       for v, x in zip(vector, column[1 : left.most], strict=True)]  # fmt: skip
            first = into.let(plus(column[0], factor), "a")
            if not found:
                is_own = at.equal(self.own, k)
                first = into.let(simplify.select(is_own, made.top, first), "a")
            found += [*rest_of, *column[left.most :], first]
        return found


class Eigh(Warps):
    result_axes = 1

    def __init__(self, builder: Builder, node: Library) -> None:
        super().__init__(builder, node)
        self.values, self.vectors, self.failed = builder.outputs()
        self.even = self.n + self.n % 2
        self.lanes = self.fewest(self.even)
        self.staged = self.stage("rows", self.n, self.n)

    def compute(self, into: Linearizer, grid: Threads, count: Expr, member: Expr) -> None:
        n, kind = self.n, real_type(self.type)
        exists = into.let(at.less(self.own, n), "is_row")
        a, d = self._load(into, exists)
        most: Expr = size(d)
        for x in a:
            most = into.let(larger(most, size(x)), "most")
        most = self.among_lanes(into, most, larger)
        unlimited = into.let(unbounded(most), "unbounded")
        scale = Scale.of(into, most)
        a = [into.let(times(x, scale.inverse), "a") for x in a]
        d = into.let(times(d, scale.inverse), "d")
        one, zero = constant_of(1, self.type), constant_of(0, self.type)
        v = [simplify.select(at.equal(self.own, j), one, zero) for j in range(self.even)]
        d, v, acts = self._rotated(into, a, d, v)
        bad = at.either(unlimited, self.among_lanes(into, acts, at.either))
        bad = into.let(bad, "bad")
        self.store_flag(into, self.failed, bad)
        before = into.declare(Const(0, int64), "before")
        with into.loop("j", 0, n) as j:
            first = comes_before(self.from_lane(into, d, j), j, d, self.own)
            step = at.select(first, at.integer(1), at.integer(0))
            into.append(Assign(before, before + step))
        rank = into.let(at.select(bad, self.own, before), "rank")
        nan, many = (constant_of(float("nan"), t) for t in (kind, self.type))
        with into.when(at.both(self.exists, exists)):
            position = self.matrix * n + rank
            value = simplify.select(bad, nan, times(d, scale.value))
            into.append(Store(self.values, position, value))
        ranks = [self._number_of(into, rank, j) for j in range(n)]
        row = [simplify.select(bad, many, x) for x in v[:n]]
        self.put_row(into, self.staged, member, exists, self.own, row, ranks)
        self.copy(into, grid, count, self.staged, self.vectors)

    def _load(self, into: Linearizer, exists: Expr) -> tuple[list[Expr], Expr]:
        """A column without its diagonal element, from one triangle, and that element."""
        n, zero = self.n, constant_of(0, self.type)
        (triangle,) = self.node.operation.parameters
        buffer = self.builder.input(self.node.arguments[0])
        start = into.let(self.matrix * (n * n), "start")
        column = into.let(at.minimum(self.own, n - 1), "column")
        found: list[Expr] = []
        for i in range(n):
            below = into.let(at.less_equal(column, i), "below")
            as_stored = below if triangle == "L" else at.negate(below)
            there, other = column + i * n, column * n + i
            x = into.let(Load(buffer, start + at.select(as_stored, there, other)), "x")
            x = simplify.select(as_stored, x, conjugate(x))
            off = at.both(exists, at.negate(at.equal(column, i)))
            found.append(into.let(simplify.select(off, x, zero), "a"))
        own = real(Load(buffer, start + column * (n + 1)))
        none = constant_of(0, real_type(self.type))
        diagonal = into.let(simplify.select(exists, own, none), "d")
        return found + [zero] * (self.even - n), diagonal

    def _number_of(self, into: Linearizer, value: Expr, lane: Expr | int) -> Expr:
        """A lane number that a lane of the same matrix holds."""
        narrow = into.let(simplify.cast(value, uint32), "number")
        return into.let(simplify.cast(self.from_lane(into, narrow, lane), int64), "axis")

    def _rotated(self, into: Linearizer, a: Sequence[Expr], d: Expr, v: Sequence[Expr]
                 ) -> tuple[Expr, list[Expr], Expr]:  # fmt: skip
        """Eigenvalues, the rows of eigenvectors, and whether a rotation acted in the last sweep."""
        width = self.even
        acts, sweep = into.declare(TRUE, "acts"), into.declare(Const(0, int64), "sweep")
        going = into.declare(TRUE, "going")
        # The position of this lane's axis, and the axis at the position of this lane's number.
        held = Registers(into, [*a, *v, d, self.own, self.own])
        source = into.let(self._before(self.own), "from")
        with into.body() as body:
            into.append(Assign(acts, FALSE), Assign(sweep, sweep + 1))
            with into.loop("step", 0, max(width - 1, 0)):
                state: list[Expr] = list(held.values)
                position, axis = state[2 * width + 1 :]
                made = self._step(into, state[:width], state[width : 2 * width], state[2 * width],
                                  position, axis, acts)  # fmt: skip
                moved = into.let(self._after(position), "moved")
                held.assign(into, [*made, moved, self._number_of(into, axis, source)])
            any_acts = Var("any", uint32)
            into.append(Collective(any_acts, "ballot", (acts,)))
            some = apply_primitive("not_equal", [any_acts, Const(0, uint32)])
            into.append(Assign(going, at.both(some, at.less(sweep, SWEEPS))))
        into.append(While((), going, tuple(body)))
        return held.values[2 * width], list(held.values[width : 2 * width]), acts

    def _step(self, into: Linearizer, a: list[Expr], v: list[Expr], d: Expr, position: Expr,
              axis: Expr, acts: Var) -> list[Expr]:  # fmt: skip
        width, t = self.even, self.type
        zero = constant_of(0, t)
        first = into.let(at.equal(position % 2, 0), "is_first")
        pair = into.let(position // 2, "pair")
        beside = at.select(first, position + 1, position - 1)
        partner = self._number_of(into, axis, beside)
        x: Expr = a[1]
        for i in range(1, width // 2):
            x = simplify.select(at.equal(pair, i), a[2 * i + 1], x)
        made = Rotation.of(into, d, self.from_lane(into, d, partner), into.let(conjugate(x), "x"))
        acting = at.both(first, made.acts)
        into.append(Assign(acts, at.either(acts, acting)))

        # Of the pair of this lane's axis, and of that at the position of this lane's number.
        def of_axis(value: Expr) -> Expr:
            other = self.from_lane(into, value, partner)
            return into.let(simplify.select(first, value, other), "own")

        leader = self._number_of(into, axis, self.own - self.own % 2)

        def of_position(value: Expr) -> Expr:
            return self.from_lane(into, value, leader)

        c, s, shift = of_axis(made.c), of_axis(made.s), of_axis(made.shift)
        all_c, all_s = of_position(made.c), of_position(made.s)
        d = into.let(simplify.select(first, minus(d, shift), plus(d, shift)), "d")
        alpha: Expr = c
        beta: Expr = simplify.select(first, negative(s), s)
        all_phases: Expr | None = None
        if made.phase is not None:
            phase, all_phases = of_axis(made.phase), of_position(made.phase)
            wide_c, wide_s = simplify.cast(c, t), simplify.cast(s, t)
            alpha = simplify.select(first, wide_c, times(c, phase))
            beta = simplify.select(first, negative(times(s, phase)), wide_s)
        alpha, beta = into.let(alpha, "alpha"), into.let(beta, "beta")
        columns = []
        for x in a:
            other = self.from_lane(into, x, partner)
            own = into.let(times(alpha, x), "own")
            columns.append(into.let(add_product(t, own, beta, other), "a"))
        wide = simplify.cast(d, t)
        a, v = list(columns), list(v)
        for i in range(width // 2):
            c, s = self.from_lane(into, all_c, 2 * i), self.from_lane(into, all_s, 2 * i)
            turn = None if all_phases is None else self.from_lane(into, all_phases, 2 * i)
            back = None if turn is None else conjugate(turn)
            mine = into.let(at.equal(pair, i), "mine")
            low, high = self._pair(into, c, s, back, a[2 * i], a[2 * i + 1])
            one, two = simplify.select(first, wide, zero), simplify.select(first, zero, wide)
            a[2 * i] = into.let(simplify.select(mine, one, low), "a")
            a[2 * i + 1] = into.let(simplify.select(mine, two, high), "a")
            v[2 * i], v[2 * i + 1] = self._pair(into, c, s, turn, v[2 * i], v[2 * i + 1])
        order = [self._source(p) for p in range(width)]
        return [*(a[p] for p in order), *(v[p] for p in order), d]

    def _pair(self, into: Linearizer, c: Expr, s: Expr, phase: Expr | None, x: Expr, y: Expr
              ) -> tuple[Expr, Expr]:  # fmt: skip
        if phase is not None:
            y = into.let(times(y, phase), "turned")
            return (into.let(minus(times(c, x), times(s, y)), "low"),
                    into.let(plus(times(s, x), times(c, y)), "high"))  # fmt: skip
        low = add_product(self.type, into.let(times(c, x), "t"), negative(s), y)
        high = add_product(self.type, into.let(times(s, x), "t"), c, y)
        return into.let(low, "low"), into.let(high, "high")

    # The first axes of pairs are at positions 0, 2, 4, …, the second ones at 1, 3, 5, …:
    #
    #     0   2 → 4 → 6          position 0 stays
    #       ↗           ↓
    #     1 ← 3 ← 5 ← 7

    def _source(self, p: int) -> int:
        """The position from which an axis moves to p."""
        last = self.even - 1
        if p == 0 or last < 3:
            return p
        if p % 2:
            return last - 1 if p == last else p + 2
        return 1 if p == 2 else p - 2

    def _before(self, p: Expr) -> Expr:
        return self._looked_up(p, [self._source(k) for k in range(self.even)])

    def _after(self, p: Expr) -> Expr:
        sources = [self._source(k) for k in range(self.even)]
        return self._looked_up(p, [sources.index(k) for k in range(self.even)])

    def _looked_up(self, p: Expr, table: Sequence[int]) -> Expr:
        """table[p]; of a lane without an axis p."""
        found = p
        runs: dict[tuple[int, int], list[int]] = {}
        for k, value in enumerate(table):
            runs.setdefault((value - k, k % 2), []).append(k)
        for (distance, odd), members in runs.items():
            if distance == 0:
                continue
            inside = at.both(at.less_equal(members[0], p), at.less_equal(p, members[-1]))
            here = at.both(inside, at.equal(p % 2, odd))
            found = at.select(here, p + distance, found)
        return found
