"""Systems, inverses and Cholesky factors of many matrices of up to 32 rows on a CPU.

A task computes some matrices, one in each lane of its vectors, in local arrays that hold an element
of all of them together:

    for lane (vector):
      copy the matrix (and the right-hand sides; for an inverse, the unit matrix) to local arrays
      for k < n:  pivot, exchange rows (lanes differ), subtract multiples of row k from those below
      back substitution, copy out

All loops inside are the same for all lanes, so that lanes read and write consecutive elements,
except where rows are exchanged.  Local rows have an odd length: the elements of a column are in
different sets of a cache.
"""

from __future__ import annotations

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, Const, Expr, Var
from treadle.dsl.graph import Leaf, Library
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import float64, int64

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Buffer, Kernel, Load, Lowered, Store
from ..ir.linearize import Linearizer
from ..lower import tiling
from ..lower.build import Builder, LoweringContext
from ..products.scalars import add_product
from .small import conjugate, has_kernel, negative, number, over, real, size

#: Bytes that the lanes of a task have of each element.
LANE_BYTES = 64


def lower_linalg(node: Library, context: LoweringContext) -> Lowered:
    """One kernel."""
    if not has_kernel(node):
        raise TypeError(f"{node.operation.name} is a library's")
    builder = Builder(node, context)
    return builder.lowered(_Lanes(builder, node).kernel())


class _Lanes:
    def __init__(self, builder: Builder, node: Library) -> None:
        self.builder, self.node = builder, node
        self.out, self.bad = builder.outputs()
        result = node.outs[0]
        self.batch, self.type = result.shape[:-2], result.type
        self.n = number(node.arguments[0].shape[-1])
        self.columns = number(result.shape[-1])
        self.width = LANE_BYTES // self.type.bytes
        self.what = node.operation.name.removeprefix("linalg.")
        (self.a,) = builder.local("a", (self.type,), self.n * (self.n | 1) * self.width)
        if self.what != "cholesky":
            size = self.n * (self.columns | 1) * self.width
            (self.x,) = builder.local("x", (self.type,), size)
        self.one, self.zero = (simplify.cast(at.integer(k), self.type) for k in (1, 0))

    def kernel(self) -> Kernel:
        builder = self.builder
        into, task = builder.emitter(), Var("task", int64)
        count = builder.scalar(at.product(self.batch), "matrices")
        first, last = tiling.block_range(into, "matrix", task, self.width, count)
        with into.loop("matrix", first, last, "vector") as matrix:
            self.lane = into.let(at.subtract(matrix, first), "lane")
            self._load(into, matrix, self.node.arguments[0], self.a, self.n)
            bad = self._cholesky(into) if self.what == "cholesky" else self._solve(into, matrix)
            into.append(Store(self.bad, matrix, bad))
            self._store(into, matrix, bad)
        comments = (f"matrices of {self.n} x {self.n}, one a lane",)
        return builder.kernel("", at.ceil_div(count, self.width), task, tuple(into.out),
                              comments=comments)  # fmt: skip

    # --- local arrays ---

    def _at(self, buffer: Buffer, i: Expr | int, j: Expr | int) -> Expr:
        pitch = (self.n if buffer is self.a else self.columns) | 1
        return at.add(at.multiply(at.add(at.multiply(i, pitch), j), self.width), self.lane)

    def _get(self, into: Linearizer, buffer: Buffer, i: Expr | int, j: Expr | int) -> Expr:
        return into.let(Load(buffer, self._at(buffer, i, j)), buffer.name)

    def _put(self, into: Linearizer, buffer: Buffer, i: Expr | int, j: Expr | int, value: Expr
             ) -> None:  # fmt: skip
        into.append(Store(buffer, self._at(buffer, i, j), value))

    def _load(
        self, into: Linearizer, matrix: Expr, leaf: Leaf, target: Buffer, columns: int
    ) -> None:
        """Copy a matrix of an operand, whose leading axes broadcast."""
        builder, lead = self.builder, leaf.shape[:-2]
        position = matrix
        alike = len(lead) == len(self.batch) and all(
            builder.same(a, b) for a, b in zip(lead, self.batch, strict=True)
        )
        if not alike:
            indices = at.row_major(matrix, builder.shape(self.batch))
            own: list[Expr] = []
            for k, extent in enumerate(lead, len(self.batch) - len(lead)):
                one = isinstance(e := builder.root(extent), Const) and int(e.value) == 1
                own.append(at.integer(0) if one else indices[k])
            position = at.linear(own, builder.shape(lead))
        start = into.let(at.multiply(position, self.n * columns), "start")
        buffer = builder.input(leaf)
        with into.loop("i", 0, self.n) as i, into.loop("j", 0, columns) as j:
            value = Load(buffer, at.add(start, at.add(at.multiply(i, columns), j)))
            self._put(into, target, i, j, value)

    def _store(self, into: Linearizer, matrix: Expr, bad: Expr) -> None:
        n, columns = self.n, self.columns
        start = into.let(at.multiply(matrix, n * columns), "start")
        nan = simplify.cast(Const(float("nan"), float64), self.type)
        with into.loop("i", 0, n) as i, into.loop("j", 0, columns) as j:
            if self.what == "cholesky":
                low = simplify.select(at.less_equal(j, i), self._get(into, self.a, i, j), self.zero)
                value = simplify.select(bad, nan, low)
            else:
                value = self._get(into, self.x, i, j)
            into.append(Store(self.out, at.add(start, at.add(at.multiply(i, columns), j)), value))

    # --- algorithms ---

    def _solve(self, into: Linearizer, matrix: Expr) -> Expr:
        """Elimination with partial pivoting; the result is in `x`."""
        n = self.n
        if self.what == "solve":
            self._load(into, matrix, self.node.arguments[1], self.x, self.columns)
        else:
            with into.loop("i", 0, n) as i, into.loop("j", 0, n) as j:
                self._put(into, self.x, i, j, simplify.select(at.equal(i, j), self.one, self.zero))
        bad = into.declare(FALSE, "bad")
        with into.loop("k", 0, n) as k:
            pivot, none = self._pivot(into, k)
            into.append(Assign(bad, at.either(bad, none)))
            self._exchange(into, self.a, k, pivot, k, n)
            self._exchange(into, self.x, k, pivot, 0, self.columns)
            top = self._get(into, self.a, k, k)
            is_zero = apply_primitive("equal", [top, self.zero])
            divisor = into.let(simplify.select(is_zero, self.one, top), "divisor")
            with into.loop("i", at.add(k, 1), n) as i:
                below = negative(self._get(into, self.a, i, k))
                factor = into.let(apply_primitive("true_divide", [below, divisor]), "factor")
                self._subtract(into, self.a, i, k, factor, at.add(k, 1), n)
                self._subtract(into, self.x, i, k, factor, 0, self.columns)
        with into.loop("step", 0, n) as step:
            last = into.let(at.subtract(n - 1, step), "last")
            divisor = self._get(into, self.a, last, last)
            with into.loop("c", 0, self.columns) as c:
                found = apply_primitive("true_divide", [self._get(into, self.x, last, c), divisor])
                self._put(into, self.x, last, c, found)
            with into.loop("i", 0, last) as i:
                factor = into.let(negative(self._get(into, self.a, i, last)), "factor")
                self._subtract(into, self.x, i, last, factor, 0, self.columns)
        return bad

    def _pivot(self, into: Linearizer, k: Expr) -> tuple[Expr, Expr]:
        """The row of the largest element of column k, and whether that is zero or NaN."""
        best = into.declare(size(self._get(into, self.a, k, k)), "best")
        pivot = into.declare(k, "pivot")
        with into.loop("i", at.add(k, 1), self.n) as i:
            other = into.let(size(self._get(into, self.a, i, k)), "size")
            larger = into.let(apply_primitive("greater", [other, best]), "larger")
            into.append(Assign(best, simplify.select(larger, other, best)))
            into.append(Assign(pivot, at.select(larger, i, pivot)))
        none = at.negate(apply_primitive("greater", [best, Const(0.0, best.type)]))
        return into.let(pivot, "row"), into.let(none, "none")

    def _exchange(self, into: Linearizer, buffer: Buffer, k: Expr, pivot: Expr, start: Expr | int,
                  stop: int) -> None:  # fmt: skip
        with into.loop("j", start, stop) as j:
            upper, lower = self._get(into, buffer, k, j), self._get(into, buffer, pivot, j)
            self._put(into, buffer, pivot, j, upper)
            self._put(into, buffer, k, j, lower)

    def _subtract(self, into: Linearizer, buffer: Buffer, i: Expr, k: Expr, factor: Expr,
                  start: Expr | int, stop: int) -> None:  # fmt: skip
        """Row i plus `factor` times row k."""
        with into.loop("j", start, stop) as j:
            own, other = self._get(into, buffer, i, j), self._get(into, buffer, k, j)
            self._put(into, buffer, i, j, add_product(self.type, own, factor, other))

    def _cholesky(self, into: Linearizer) -> Expr:
        bad = into.declare(FALSE, "bad")
        with into.loop("k", 0, self.n) as k:
            top = into.let(real(self._get(into, self.a, k, k)), "top")
            fails = at.negate(apply_primitive("greater", [top, Const(0.0, top.type)]))
            into.append(Assign(bad, at.either(bad, fails)))
            root = into.let(apply_primitive("sqrt", [top]), "root")
            with into.loop("i", k, self.n) as i:
                self._put(into, self.a, i, k, over(self._get(into, self.a, i, k), root))
            with into.loop("i", at.add(k, 1), self.n) as i:
                factor = into.let(negative(self._get(into, self.a, i, k)), "factor")
                with into.loop("j", at.add(k, 1), at.add(i, 1)) as j:
                    other = conjugate(self._get(into, self.a, j, k))
                    own = self._get(into, self.a, i, j)
                    self._put(into, self.a, i, j, add_product(self.type, own, factor, other))
        return bad
