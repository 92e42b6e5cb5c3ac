"""QR decompositions and eigenvalues of many matrices on a CPU, one a lane.

qr       for k < min(m, n): the reflection of column k, applied to the columns behind it;
         Q from the unit matrix, reflections in reverse order
eigh     while a rotation acts: for p < q: rotate so that element (p, q) becomes zero
         (Jacobi's cyclic method on the upper triangle; eigenvectors in rows)
"""

from __future__ import annotations

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Const, Expr, Var
from treadle.dsl.types import int64

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Load, Store, While
from ..ir.linearize import Linearizer
from ..products.elements import add_product
from . import small
from .lanes import Lanes, Local
from .transformations import Reflection, Rotation, Scale, comes_before, unbounded


class QR(Lanes):
    def compute(self, into: Linearizer, matrix: Expr) -> None:
        m, n, count = self.rows, self.n, min(self.rows, self.n)
        *of_q, r = self.builder.outputs()
        self.taus = self.local("tau", 1, count)
        self.load(into, matrix, self.node.arguments[0], self.a)
        with into.loop("k", 0, count) as k:
            self._reflect(into, k)
        height = small.number(self.node.outs[-1].shape[-2])

        def upper(i: Expr, j: Expr) -> Expr:
            return simplify.select(at.less_equal(i, j), self.get(into, self.a, i, j), self.zero)

        self.store(into, matrix, r, height, n, upper)
        if not of_q:
            return
        q = self.local("q", m, height)
        self.unit(into, q)
        with into.loop("step", 0, count) as step:
            last = into.let(count - 1 - step, "last")
            tau = self.get(into, self.taus, 0, last)
            with into.loop("j", last, height) as j:
                self._apply(into, last, tau, q, j)
        self.store(into, matrix, of_q[0], m, height, lambda i, j: self.get(into, q, i, j))

    def _reflect(self, into: Linearizer, k: Expr) -> None:
        m, n, a = self.rows, self.n, self.a
        kind = small.real_type(self.type)
        alpha = self.get(into, a, k, k)
        rest = into.declare(small.constant_of(0, kind), "rest")
        with into.loop("i", k + 1, m) as i:
            into.append(Assign(rest, small.larger(rest, small.size(self.get(into, a, i, k)))))
        scale = Scale.of(into, small.larger(rest, small.size(alpha)))
        first = into.let(small.times(alpha, scale.inverse), "first")
        squares = into.declare(small.squared(first), "squares")
        with into.loop("i", k + 1, m) as i:
            scaled = into.let(small.times(self.get(into, a, i, k), scale.inverse), "scaled")
            into.append(Assign(squares, small.plus(squares, small.squared(scaled))))
            self.put(into, a, i, k, scaled)
        made = Reflection.of(into, alpha, rest, squares, scale)
        with into.loop("i", k + 1, m) as i:
            self.put(into, a, i, k, small.times(self.get(into, a, i, k), made.inverse))
        self.put(into, a, k, k, made.top)
        self.put(into, self.taus, 0, k, made.tau)
        with into.loop("j", k + 1, n) as j:
            self._apply(into, k, small.conjugate(made.tau), a, j)

    def _apply(self, into: Linearizer, k: Expr, tau: Expr, of: Local, j: Expr) -> None:
        """Reflection k to column j of a matrix."""
        m, a = self.rows, self.a
        dot = into.declare(self.get(into, of, k, j), "dot")
        with into.loop("i", k + 1, m) as i:
            v, x = small.conjugate(self.get(into, a, i, k)), self.get(into, of, i, j)
            into.append(Assign(dot, add_product(self.type, dot, v, x)))
        factor = into.let(small.negative(small.times(tau, dot)), "factor")
        self.put(into, of, k, j, small.plus(self.get(into, of, k, j), factor))
        with into.loop("i", k + 1, m) as i:
            self.add_product(into, of, i, j, factor, self.get(into, a, i, k))


class Eigh(Lanes):
    result_axes = 1

    def compute(self, into: Linearizer, matrix: Expr) -> None:
        n, kind = self.n, small.real_type(self.type)
        (triangle,) = self.node.operation.parameters
        values, vectors, failed = self.builder.outputs()
        self.d, self.v = self.local("d", 1, n, kind), self.local("v", n, n)
        most = self._load(into, matrix, triangle == "U")
        self.unit(into, self.v)
        bad = into.let(unbounded(most), "unbounded")
        scale = Scale.of(into, most)
        self._scale(into, scale.inverse)
        acts, sweep = into.declare(TRUE, "acts"), into.declare(Const(0, int64), "sweep")
        with into.body() as body:
            into.append(Assign(acts, FALSE), Assign(sweep, sweep + 1))
            with into.loop("p", 0, n - 1) as p, into.loop("q", p + 1, n) as q:
                self._rotate(into, p, q, acts)
        going = at.both(acts, at.both(at.negate(bad), at.less(sweep, small.SWEEPS)))
        into.append(While((), going, tuple(body)))
        bad = into.let(at.either(bad, acts), "bad")
        into.append(Store(failed, matrix, bad))
        nan, many = (
            small.constant_of(float("nan"), kind),
            small.constant_of(float("nan"), self.type),
        )
        line, square = matrix * n, matrix * (n * n)
        with into.loop("j", 0, n) as j:
            own = self.get(into, self.d, 0, j)
            rank = self._rank(into, j, own, bad)
            value = simplify.select(bad, nan, small.times(own, scale.value))
            into.append(Store(values, line + rank, value))
            with into.loop("i", 0, n) as i:
                x = simplify.select(bad, many, self.get(into, self.v, j, i))
                position = square + i * n + rank
                into.append(Store(vectors, position, x))

    def _load(self, into: Linearizer, matrix: Expr, upper: bool) -> Expr:
        """The upper triangle of the matrix, its diagonal apart; the largest size of an element."""
        n, leaf = self.n, self.node.arguments[0]
        buffer, kind = self.builder.input(leaf), small.real_type(self.type)
        start = into.let(matrix * (n * n), "start")
        most = into.declare(small.constant_of(0, kind), "most")
        with into.loop("i", 0, n) as i, into.loop("j", 0, i + 1) as j:
            row, column = (j, i) if upper else (i, j)
            x = Load(buffer, start + (row * n + column))
            value = into.let(x if upper else small.conjugate(x), "value")
            self.put(into, self.a, j, i, value)
            own = simplify.select(at.equal(i, j), small.size(small.real(value)), small.size(value))
            into.append(Assign(most, small.larger(most, own)))
        with into.loop("j", 0, n) as j:
            self.put(into, self.d, 0, j, small.real(self.get(into, self.a, j, j)))
        return into.let(most, "largest")

    def _scale(self, into: Linearizer, inverse: Expr) -> None:
        n = self.n
        with into.loop("i", 0, n) as i:
            self.put(into, self.d, 0, i, small.times(self.get(into, self.d, 0, i), inverse))
            with into.loop("j", i + 1, n) as j:
                self.put(into, self.a, i, j, small.times(self.get(into, self.a, i, j), inverse))

    def _rotate(self, into: Linearizer, p: Expr, q: Expr, acts: Var) -> None:
        n, a, v, d = self.n, self.a, self.v, self.d
        left, right = self.get(into, d, 0, p), self.get(into, d, 0, q)
        made = Rotation.of(into, left, right, self.get(into, a, p, q))
        into.append(Assign(acts, at.either(acts, made.acts)))
        self.put(into, d, 0, p, small.minus(left, made.shift))
        self.put(into, d, 0, q, small.plus(right, made.shift))
        self.put(into, a, p, q, self.zero)

        def pair(first: tuple[Local, Expr, Expr], second: tuple[Local, Expr, Expr],
                 flipped: tuple[bool, bool] = (False, False)) -> None:  # fmt: skip
            """The elements of columns p and q in one row; `flipped`: stored in the other triangle,
            as their conjugates."""
            x, y = self.get(into, *first), self.get(into, *second)
            x, y = small.conjugate(x) if flipped[0] else x, small.conjugate(y) if flipped[1] else y
            if made.phase is not None:
                y = into.let(small.times(y, made.phase), "turned")
            low = into.let(small.minus(small.times(made.c, x), small.times(made.s, y)), "low")
            high = into.let(small.plus(small.times(made.s, x), small.times(made.c, y)), "high")
            self.put(into, *first, small.conjugate(low) if flipped[0] else low)
            self.put(into, *second, small.conjugate(high) if flipped[1] else high)

        with into.loop("k", 0, p) as k:
            pair((a, k, p), (a, k, q))
        with into.loop("k", p + 1, q) as k:
            pair((a, p, k), (a, k, q), (True, False))
        with into.loop("k", q + 1, n) as k:
            pair((a, p, k), (a, q, k), (True, True))
        with into.loop("k", 0, n) as k:
            pair((v, p, k), (v, q, k))

    def _rank(self, into: Linearizer, j: Expr, own: Expr, bad: Expr) -> Expr:
        """How many eigenvalues come before that of axis j."""
        rank = into.declare(Const(0, int64), "rank")
        with into.loop("i", 0, self.n) as i:
            before = comes_before(self.get(into, self.d, 0, i), i, own, j)
            into.append(Assign(rank, rank + at.select(before, at.integer(1), at.integer(0))))
        return into.let(at.select(bad, j, rank), "rank")
