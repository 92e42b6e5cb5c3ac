"""Systems, inverses, LU and Cholesky factors of many matrices on a GPU, a row a lane.

Of matrices that are inverted, if n ≤ 8, a lane has two rows (4 lanes are enough, and a shuffle or
the search for a pivot serves twice as many matrices), or all of them, if they fit into 64
registers: nothing is shuffled, and matrices go through shared memory both ways, so that
neighbouring lanes access neighbouring elements.

    load             each lane its row, as vectors
    for k < n:       pivot: the row of the largest element in column k that was no pivot before (a
                     maximum by shuffles and a ballot), broadcast element by element
      solve, lu      the other rows without a pivot subtract their multiple of it
      inv            all other rows do (Gauss-Jordan, in place); at the end, each is divided by its
                     pivot
      cholesky       row k is the pivot; lanes below it subtract
      triangular     row k has component k; lanes whose components follow subtract
    store            solve: back substitution leaves component k in lane k.  Others: rows go through
                     shared memory (there, those of an inverse and of LU are permuted), so that
                     stores are of consecutive elements

Rows are never exchanged: which row was the pivot of a column stays in a register.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Const, Expr, Var
from treadle.dsl.graph import Leaf, Library
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import float64, int32, int64, uint32

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Collective, Load, Store
from ..ir.linearize import Linearizer
from ..lower import tiling
from ..lower.build import Builder
from ..lower.gpu.common import WARP, WIDEST, Threads, load_vector
from .small import COLUMNS, conjugate, negative, number, over, real, size
from .warps import PHASES, UNROLLED, Left, Staged, Warps

#: Threads of a block if a thread has a matrix; the bytes of a matrix at most that it inverts.
FEW, OF_A_THREAD = 64, 256


def halves(values: list[Expr]) -> tuple[list[Expr], list[Expr]]:
    middle = len(values) // 2
    return values[:middle], values[middle:]


class Rows(Warps):
    def __init__(self, builder: Builder, node: Library) -> None:
        super().__init__(builder, node)
        self.out, *others = builder.outputs()
        self.other = others[0] if others else self.out
        self.what = node.operation.name.removeprefix("linalg.")
        self.columns = number(node.outs[0].shape[-1])
        #: Rows of a lane: number s of them is LANES · s behind the first.
        self.per_lane = 1
        if self.what == "inv" and self.n <= UNROLLED:
            whole = self.n**2 * self.type.bytes <= OF_A_THREAD
            self.per_lane = self.n if whole else 2
            self.lanes = 8 // self.per_lane
        self.staged: Staged | None = None
        if self.lanes == 1:
            # Lanes read vectors of different matrices from different banks.
            self.threads, elements = FEW, self.n**2
            stride = elements + (4 - elements) % 8 * (self.n % 2 == 0)
            (buffer,) = builder.shared("rows", (self.type,), self.each * stride)
            vector = min(stride & -stride, elements & -elements, WIDEST // self.type.bytes)
            self.staged = Staged(buffer, self.n, self.n, None, stride, vector)
        elif not self.what.startswith("solve"):
            self.staged = self.stage("rows", self.n, self.n)

    def compute(self, into: Linearizer, grid: Threads, count: Expr, member: Expr) -> None:
        numbers = [self.own + s * self.lanes for s in range(self.per_lane)]
        self.real = [into.let(at.less(i, self.n), "is_row") for i in numbers]
        self.rows = [into.let(at.minimum(i, self.n - 1), "own_row") for i in numbers]
        members = Const((1 << self.lanes) - 1, uint32)
        first = simplify.cast(self.first, uint32)
        self.group = into.let(apply_primitive("left_shift", [members, first]), "group")
        if self.lanes == 1:
            assert self.staged is not None
            operand = self.builder.input(self.node.arguments[0])
            self.copy(into, grid, count, self.staged, operand, first=True)
        algorithms = {"inv": self._inv, "solve": self._solve, "cholesky": self._cholesky}
        if self.what == "lu":
            self._lu(into, member)
        elif self.what == "solve_triangular":
            self._triangular(into)
        else:
            self.store_flag(into, self.other, algorithms[self.what](into, member))
        if self.staged is not None:
            self.copy(into, grid, count, self.staged, self.out)

    def _load(self, into: Linearizer, leaf: Leaf, width: int, slot: int = 0,
              turned: bool = False) -> list[Expr]:  # fmt: skip
        """A row (`turned`: a column) of this lane's of an operand, whose leading axes broadcast."""
        builder = self.builder
        buffer = builder.input(leaf)
        lead = leaf.shape[:-2]
        indices = tiling.coordinates(builder, into, self.matrix, self.batch)
        own = []
        for k, extent in enumerate(lead, len(self.batch) - len(lead)):
            one = isinstance(e := builder.root(extent), Const) and int(e.value) == 1
            own.append(at.integer(0) if one else indices[k])
        rows = int(number(leaf.shape[-2]))
        first = (0, self.rows[slot]) if turned else (self.rows[slot], 0)
        position = at.linear((*own, *first), (*builder.shape(lead), rows, width))
        start = into.let(position, "start")
        if turned:
            return [into.let(Load(buffer, start + j * width), buffer.name)
                    for j in range(rows)]  # fmt: skip
        count = min(width & -width, max(WIDEST // buffer.type.bytes, 1)) if self.wide else 1
        if count == 1:
            return [into.let(Load(buffer, start + j), buffer.name) for j in range(width)]
        self.aligned.append(buffer)
        found: list[Expr] = []
        for j in range(0, width, count):
            found += load_vector(into, buffer, start + j, count)
        return found

    def _own(self, into: Linearizer, member: Expr) -> list[Expr]:
        """The elements of the matrix of this lane."""
        staged = self.staged
        assert staged is not None
        start = into.let(member * staged.stride, "start")
        vector = staged.vector if self.wide else 1
        found: list[Expr] = []
        for e in range(0, self.n**2, vector):
            where = start + e
            found += ([into.let(Load(staged.buffer, where), "a")] if vector == 1
                      else load_vector(into, staged.buffer, where, vector))  # fmt: skip
        return found

    def _put_row(self, into: Linearizer, member: Expr, exists: Expr, row: Expr,
                 values: Sequence[Expr], columns: Iterable[Expr | int]) -> None:  # fmt: skip
        assert self.staged is not None
        self.put_row(into, self.staged, member, exists, row, values, columns)

    def _pivot(self, into: Linearizer, values: Sequence[Expr], used: Sequence[Expr],
               place: Expr | None = None) -> tuple[Expr, list[Expr], Expr, Expr]:  # fmt: skip
        """The row of the largest of these values among rows that were no pivot: its lane in the
        warp; which of this lane's rows it is if it is this lane (one at most); its number; and
        whether all values are zero or NaN.  Of several rows that of the lowest `place`, or any."""
        free = [into.let(at.both(real, at.negate(u)), "free")
                for real, u in zip(self.real, used, strict=True)]  # fmt: skip
        zero = simplify.cast(at.integer(0), self.type)
        own = [size(into.let(simplify.select(f, v, zero), "value"))
               for f, v in zip(free, values, strict=True)]  # fmt: skip
        best = own[0]
        for x in own[1:]:
            best = into.let(apply_primitive("fmax", [best, x]), "best")
        best = self.among_lanes(into, best, lambda x, y: apply_primitive("fmax", [x, y]))
        # (NaN is not less than a number: it is taken as if it were the largest.)
        could: list[Expr] = []
        for f, x in zip(free, own, strict=True):
            one = at.both(f, at.negate(apply_primitive("less", [x, best])))
            could.append(into.let(at.both(one, at.negate(at.either(*could))) if could else one,
                                  "largest"))  # fmt: skip
        group = self._those(into, at.either(*could))
        if place is not None:
            group = self._first_of(into, group, could[0], place)
        lane = into.let(simplify.cast(apply_primitive("ctz", [group]), int64), "pivot")
        number = lane - self.first
        if len(could) > 1:
            mine: Expr = self.own
            for s, one in enumerate(could[1:], 1):
                mine = at.select(one, self.own + s * self.lanes, mine)
            mine = into.let(simplify.cast(mine, uint32), "mine")
            number = simplify.cast(self.shuffled(into, mine, lane), int64)
        none = at.negate(apply_primitive("greater", [best, Const(0.0, best.type)]))
        return lane, could, into.let(number, "pivot_row"), into.let(none, "none")

    def _those(self, into: Linearizer, condition: Expr) -> Expr:
        """The lanes of the same matrix for which a condition holds, as bits."""
        chosen = Var("chosen", uint32)
        into.append(Collective(chosen, "ballot", (condition,)))
        if self.lanes == WARP:
            return chosen
        return into.let(apply_primitive("bitwise_and", [chosen, self.group]), "those")

    def _first_of(self, into: Linearizer, group: Expr, here: Expr, place: Expr) -> Expr:
        """Of several lanes the one of the lowest `place`; `here`: whether this is one of them."""
        none = Const(0, uint32)
        rest = apply_primitive("bitwise_and", [group, apply_primitive(
            "subtract", [group, Const(1, uint32)])])  # fmt: skip
        tied = Var("tied", uint32)
        into.append(Collective(tied, "ballot", (apply_primitive("not_equal", [rest, none]),)))
        found = into.declare(group, "found")
        with into.when(apply_primitive("not_equal", [tied, none])):  # the same for all lanes
            own = into.let(at.select(here, place, at.integer(WARP)), "own_place")
            lowest = self.among_lanes(into, own, at.minimum)
            first = at.both(here, at.equal(own, lowest))
            into.append(Assign(found, self._those(into, first)))
        return found

    def _solve(self, into: Linearizer, member: Expr) -> Expr:
        n, node, columns = self.n, self.node, self.columns
        a = self._load(into, node.arguments[0], n)
        b = self._load(into, node.arguments[1], columns)
        one, zero = (simplify.cast(at.integer(k), self.type) for k in (1, 0))
        # Of this lane: whether its row was a pivot, of which column; the pivot of column `lane`.
        start = [*a, *b, FALSE, at.integer(0), at.integer(0), FALSE]

        def eliminate(k: Expr, left: Left, state: list[Expr]) -> list[Expr]:
            a, b, (used, column, mine, bad) = (
                state[:n],
                state[n : n + columns],
                state[n + columns :],
            )
            pivot, _, _, none = self._pivot(into, [a[0]], [used])
            here = into.let(at.equal(self.lane, pivot), "here")
            top = self.shuffled(into, a[0], pivot)
            is_zero = apply_primitive("equal", [top, zero])
            divisor = into.let(simplify.select(is_zero, one, top), "divisor")
            used = into.let(at.either(used, here), "used")
            quotient = apply_primitive("true_divide", [negative(a[0]), divisor])
            factor = into.let(simplify.select(used, zero, quotient), "factor")
            rest = [self.minus(into, x, factor, self.shuffled(into, x, pivot))
                    for x in a[1 : left.most]]  # fmt: skip
            b = [self.minus(into, x, factor, self.shuffled(into, x, pivot)) for x in b]
            column = into.let(at.select(here, k, column), "column")
            mine = into.let(at.select(at.equal(self.own, k), pivot, mine), "mine")
            bad = into.let(at.either(bad, none), "bad")
            return [*rest, *a[left.most :], a[0], *b, used, column, mine, bad]

        state = self.steps(into, start, eliminate, PHASES)
        a, b, (_, column, mine, bad) = state[:n], state[n : n + columns], state[n + columns :]

        def substitute(k: Expr, _: Left, state: list[Expr]) -> list[Expr]:
            a, b, x = state[:n], state[n : n + columns], state[n + columns :]
            here = into.let(n - 1 - k, "column")
            pivot = self.from_lane(into, mine, here)
            before = at.less(column, here)
            factor = into.let(simplify.select(before, negative(a[-1]), zero), "factor")
            for c in range(columns):
                quotient = into.let(apply_primitive("true_divide", [b[c], a[-1]]), "x")
                found = self.shuffled(into, quotient, pivot)
                x[c] = into.let(simplify.select(at.equal(self.own, here), found, x[c]), "x")
                b[c] = self.minus(into, b[c], factor, found)
            return [a[-1], *a[:-1], *b, *x]

        x = self.steps(into, [*a, *b, *([zero] * columns)], substitute)[n + columns :]
        self._put_solution(into, x)
        return bad

    def _triangular(self, into: Linearizer) -> None:
        """A lane has a row of op(a), those of the last components first if these are known first;
        its elements are in the order of the components, too."""
        n, columns, (lower, trans, unit) = self.n, self.columns, self.node.operation.parameters
        forward = lower == (trans == "N")
        if not forward:
            self.rows = [into.let(n - 1 - self.rows[0], "own_row")]
        a = self._load(into, self.node.arguments[0], n, turned=trans != "N")
        a = [conjugate(x) for x in a] if trans == "C" else a
        a = a if forward else a[::-1]
        b = self._load(into, self.node.arguments[1], columns)
        zero = simplify.cast(at.integer(0), self.type)

        def substitute(k: Expr, _: Left, state: list[Expr]) -> list[Expr]:
            a, (b, x) = state[:n], halves(state[n:])
            here = at.equal(self.own, k)
            after = into.let(at.less(k, self.own), "after")
            factor = into.let(simplify.select(after, negative(a[0]), zero), "factor")
            for c, own in enumerate(b):
                quotient = own if unit else apply_primitive("true_divide", [own, a[0]])
                found = self.from_lane(into, into.let(quotient, "x"), k)
                x[c] = into.let(simplify.select(here, found, x[c]), "x")
                b[c] = self.minus(into, own, factor, found)
            return [*a[1:], a[0], *b, *x]

        solution: list[Expr] = []
        for first in range(0, columns, COLUMNS):  # as many as registers are enough for
            part = b[first : first + COLUMNS]
            state = self.steps(into, [*a, *part, *([zero] * len(part))], substitute, count=n)
            solution += halves(state[n:])[1]
        self._put_solution(into, solution)

    def _put_solution(self, into: Linearizer, x: Sequence[Expr]) -> None:
        """A row of X."""
        with into.when(at.both(self.exists, self.real[0])):
            position = self.matrix * self.n + self.rows[0]
            position = into.let(position * self.columns, "position")
            into.append(*(Store(self.out, position + c, e) for c, e in enumerate(x)))

    def _lu(self, into: Linearizer, member: Expr) -> None:
        """Rows stay in their lanes, and know the places to which LAPACK's exchanges bring them."""
        n = self.n
        a = self._load(into, self.node.arguments[0], n)
        one, zero = (simplify.cast(at.integer(k), self.type) for k in (1, 0))

        def eliminate(k: Expr, left: Left, state: list[Expr]) -> list[Expr]:
            a, (used, place, mine) = state[:n], state[n:]
            pivot, *_ = self._pivot(into, [a[0]], [used], place)
            here = into.let(at.equal(self.lane, pivot), "here")
            narrow = into.let(simplify.cast(place, uint32), "narrow")
            taken = into.let(simplify.cast(self.shuffled(into, narrow, pivot), int64), "taken")
            mine = into.let(at.select(at.equal(self.own, k), taken, mine), "mine")
            moved = at.select(at.equal(place, k), taken, place)
            place = into.let(at.select(here, k, moved), "place")
            top = self.shuffled(into, a[0], pivot)
            is_zero = apply_primitive("equal", [top, zero])
            divisor = into.let(simplify.select(is_zero, one, top), "divisor")
            used = into.let(at.either(used, here), "used")
            multiple = into.let(apply_primitive("true_divide", [a[0], divisor]), "multiple")
            factor = into.let(simplify.select(used, zero, negative(multiple)), "factor")
            rest = [self.minus(into, x, factor, self.shuffled(into, x, pivot))
                    for x in a[1 : left.most]]  # fmt: skip
            if not isinstance(k, Const):
                # Behind the row's end are columns of L, which a loop's last steps leave alone.
                for j in range(left.least, left.most):
                    inside = at.less(k + j, n)
                    rest[j - 1] = into.let(simplify.select(inside, rest[j - 1], a[j]), "a")
            kept = into.let(simplify.select(used, a[0], multiple), "kept")
            return [*rest, *a[left.most :], kept, used, place, mine]

        start = [*a, FALSE, self.own, at.integer(0)]
        *a, _, place, mine = self.steps(into, start, eliminate, PHASES)
        with into.when(at.both(self.exists, self.real[0])):
            position = self.matrix * n + self.own
            into.append(Store(self.other, position, simplify.cast(mine, int32)))
        self._put_row(into, member, self.real[0], place, a, range(n))

    def _inv_of_lane(self, into: Linearizer, member: Expr) -> Expr:
        """The inverse of a matrix in a lane's registers, by Gauss-Jordan in place.  The pivot's row
        of column k becomes row k, so that what is left to do is known when this is compiled."""
        n = self.n
        one = simplify.cast(at.integer(1), self.type)
        whole = self._own(into, member)
        # Of each row: its elements, and the number that it had at first.
        rows = [[*whole[i * n : (i + 1) * n], at.integer(i)] for i in range(n)]
        inverses: list[Expr] = []
        bad: Expr = FALSE
        for k in range(n):
            for i in range(k + 1, n):
                # (NaN is not less than a number: it is taken as if it were the largest.)
                is_less = apply_primitive("less_equal", [size(rows[i][k]), size(rows[k][k])])
                exchanged = into.let(at.negate(is_less), "exchanged")
                pair = list(zip(rows[k], rows[i], strict=True))
                rows[k] = [into.let(simplify.select(exchanged, y, x), "x") for x, y in pair]
                rows[i] = [into.let(simplify.select(exchanged, x, y), "y") for x, y in pair]
            above = rows[k]
            best = size(above[k])
            none = at.negate(apply_primitive("greater", [best, Const(0.0, best.type)]))
            bad = into.let(at.either(bad, none), "bad")
            inverses.append(into.let(apply_primitive("true_divide", [one, above[k]]), "inverse"))
            for i in range(n):
                if i != k:
                    scaled = apply_primitive("multiply", [negative(rows[i][k]), inverses[k]])
                    factor = into.let(scaled, "factor")
                    rest = [factor if j == k else self.minus(into, x, factor, above[j])
                            for j, x in enumerate(rows[i][:n])]  # fmt: skip
                    rows[i] = [*rest, rows[i][n]]
            rows[k] = [*above[:k], one, *above[k + 1 :]]
        numbers = [row[n] for row in rows]
        for i, (row, inverse) in enumerate(zip(rows, inverses, strict=True)):
            a = [into.let(apply_primitive("multiply", [x, inverse]), "a") for x in row[:n]]
            self._put_row(into, member, TRUE, at.integer(i), a, numbers)
        return bad

    def _inv(self, into: Linearizer, member: Expr) -> Expr:
        if self.lanes == 1:
            return self._inv_of_lane(into, member)
        n, per_lane = self.n, self.per_lane
        one, zero = (simplify.cast(at.integer(k), self.type) for k in (1, 0))
        # Of each row of this lane: its elements, the inverse of its pivot, the column of which it
        # was the pivot (-1: of none).  Of the matrix: the rows of pivots, and whether one was
        # missing.  Where columns are numbered at run time, a lane keeps the pivot's row of its own
        # number.
        each, kept = n + 2, n if n <= UNROLLED else 1
        start: list[Expr] = []
        for s in range(per_lane):
            start += self._load(into, self.node.arguments[0], n, s)
            start += [one, at.integer(-1)]
        start += [at.integer(0)] * kept + [FALSE]

        def eliminate(k: Expr, _: Left, state: list[Expr]) -> list[Expr]:
            parts = [state[s * each : (s + 1) * each] for s in range(per_lane)]
            pivots, bad = state[per_lane * each : -1], state[-1]
            used = [at.less_equal(0, p[n + 1]) for p in parts]
            pivot, could, row, none = self._pivot(into, [p[0] for p in parts], used)
            own = into.let(at.equal(self.lane, pivot), "own")
            above = []
            for j in range(n):
                x = parts[0][j]
                for p, flag in zip(parts[1:], could[1:], strict=True):
                    x = into.let(simplify.select(flag, p[j], x), "x")
                above.append(self.shuffled(into, x, pivot))
            inverse = into.let(apply_primitive("true_divide", [one, above[0]]), "inverse")
            made: list[Expr] = []
            for part, flag in zip(parts, could, strict=True):
                a, (mine, column) = part[:n], part[n:]
                here = into.let(at.both(own, flag), "here")
                scaled = apply_primitive("multiply", [negative(a[0]), inverse])
                factor = into.let(simplify.select(here, zero, scaled), "factor")
                made += [self.minus(into, x, factor, y)
                         for x, y in zip(a[1:], above[1:], strict=True)]  # fmt: skip
                made.append(into.let(simplify.select(here, one, factor), "a"))
                made.append(into.let(simplify.select(here, inverse, mine), "own_inverse"))
                made.append(into.let(at.select(here, k, column), "column"))
            if kept == n:
                pivots[number(k)] = row
            else:
                last = at.select(at.equal(self.own, k), row, pivots[0])
                pivots = [into.let(last, "mine")]
            return [*made, *pivots, into.let(at.either(bad, none), "bad")]

        state = self.steps(into, start, eliminate)
        pivots = state[per_lane * each : -1]
        if kept == 1:
            pivots = [self.from_lane(into, pivots[0], j) for j in range(n)]
        for s in range(per_lane):
            # Element j of this row is that of row `column` and column `pivot of j`.
            *a, inverse, column = state[s * each : (s + 1) * each]
            a = [into.let(apply_primitive("multiply", [x, inverse]), "a") for x in a]
            self._put_row(into, member, self.real[s], column, a, pivots)
        return state[-1]

    def _cholesky(self, into: Linearizer, member: Expr) -> Expr:
        n = self.n
        a = self._load(into, self.node.arguments[0], n)
        zero = simplify.cast(at.integer(0), self.type)

        def eliminate(k: Expr, left: Left, state: list[Expr]) -> list[Expr]:
            a, bad = state[:n], state[n]
            top = into.let(real(self.from_lane(into, a[0], k)), "top")
            fails = at.negate(apply_primitive("greater", [top, Const(0.0, top.type)]))
            bad = into.let(at.either(bad, fails), "bad")
            root = into.let(apply_primitive("sqrt", [top]), "root")
            first = into.let(over(a[0], root), "a")
            # Only rows below take part.  A loop's last steps have fewer columns than its first one:
            # what they take for others comes from lanes of other rows, and is zero.
            below = at.both(self.real[0], at.less(k, self.own))
            kept = into.let(simplify.select(below, first, zero), "kept")
            factor, other = into.let(negative(kept), "factor"), conjugate(kept)
            rest = list(a[1:])
            for j in range(1, left.most):
                there = self.from_lane(into, other, (k + j) % self.lanes)
                rest[j - 1] = self.minus(into, a[j], factor, there)
            return [*rest, first, bad]

        state = self.steps(into, [*a, FALSE], eliminate, PHASES)
        a, bad = state[:n], state[n]
        nan = simplify.cast(Const(float("nan"), float64), self.type)
        found = [simplify.select(bad, nan, simplify.select(at.less_equal(j, self.own), x, zero))
                 for j, x in enumerate(a)]  # fmt: skip
        self._put_row(into, member, self.real[0], self.own, found, range(n))
        return bad
