"""Linear algebra of many matrices of up to 32 rows on a CPU: what its algorithms share.

A task computes some matrices, one in each lane of its vectors, in local arrays that hold an element
of all of them together:

    for lane (vector):
      copy the operands to local arrays
      an algorithm: `lanes_elimination.py`, `lanes_orthogonal.py`
      copy out

All loops inside are the same for all lanes, so that lanes read and write consecutive elements,
except where rows are exchanged.  Local rows have an odd length: the elements of a column are in
different sets of a cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from treadle.dsl import simplify
from treadle.dsl.expr import Const, Expr, Var
from treadle.dsl.graph import Leaf, Library
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType, int64

from ..ir import arithmetic as at
from ..ir.kernel import Buffer, Kernel, Load, Store
from ..ir.linearize import Linearizer
from ..lower import tiling
from ..lower.build import Builder
from ..products.elements import add_product
from .small import constant_of, number

#: Bytes that the lanes of a task have of each element.
LANE_BYTES = 64


@dataclass(frozen=True)
class Local:
    """A local array of a matrix for each lane."""

    buffer: Buffer
    rows: int
    columns: int

    @property
    def pitch(self) -> int:
        return self.columns | 1


class Lanes(ABC):
    """A kernel of one operation; `compute` emits what a lane does with its matrix."""

    def __init__(self, builder: Builder, node: Library) -> None:
        self.builder, self.node = builder, node
        given = node.arguments[0]
        self.type = given.type
        self.batch = node.outs[0].shape[: len(node.outs[0].shape) - self.result_axes]
        self.rows, self.n = (number(e) for e in given.shape[-2:])
        self.width = LANE_BYTES // self.type.bytes
        self.a = self.local("a", self.rows, self.n)
        self.one, self.zero = constant_of(1, self.type), constant_of(0, self.type)

    #: The axes of a matrix in the first result.
    result_axes = 2

    @abstractmethod
    def compute(self, into: Linearizer, matrix: Expr) -> None:
        """What a lane does with the matrix of this number."""

    def kernel(self) -> Kernel:
        builder = self.builder
        into, task = builder.emitter(), Var("task", int64)
        count = builder.scalar(at.product(self.batch), "matrices")
        first, last = tiling.block_range(into, "matrix", task, self.width, count)
        with into.loop("matrix", first, last, "vector") as matrix:
            self.lane = into.let(matrix - first, "lane")
            self.compute(into, matrix)
        comments = (f"matrices of {self.rows} x {self.n}, one a lane",)
        return builder.kernel("", at.ceil_div(count, self.width), task, tuple(into.out),
                              comments=comments)  # fmt: skip

    # --- local arrays ---

    def local(self, name: str, rows: int, columns: int, type_: ScalarType | None = None) -> Local:
        size = rows * (columns | 1) * self.width
        return Local(self.builder.local(name, (type_ or self.type,), size)[0], rows, columns)

    def _at(self, of: Local, i: Expr | int, j: Expr | int) -> Expr:
        place = at.multiply(i, of.pitch) + j
        return place * self.width + self.lane

    def get(self, into: Linearizer, of: Local, i: Expr | int, j: Expr | int) -> Expr:
        return into.let(Load(of.buffer, self._at(of, i, j)), of.buffer.name)

    def put(self, into: Linearizer, of: Local, i: Expr | int, j: Expr | int, value: Expr) -> None:
        into.append(Store(of.buffer, self._at(of, i, j), value))

    def add_product(self, into: Linearizer, of: Local, i: Expr | int, j: Expr | int, factor: Expr,
                    x: Expr) -> None:  # fmt: skip
        """An element plus `factor · x`."""
        own = self.get(into, of, i, j)
        self.put(into, of, i, j, add_product(self.type, own, factor, x))

    def load(self, into: Linearizer, matrix: Expr, leaf: Leaf, target: Local) -> None:
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
        start = into.let(position * (target.rows * target.columns), "start")
        buffer = builder.input(leaf)
        with into.loop("i", 0, target.rows) as i, into.loop("j", 0, target.columns) as j:
            value = Load(buffer, start + (i * target.columns + j))
            self.put(into, target, i, j, value)

    def unit(self, into: Linearizer, target: Local) -> None:
        """The unit matrix."""
        with into.loop("i", 0, target.rows) as i, into.loop("j", 0, target.columns) as j:
            here = simplify.select(at.equal(i, j), self.one, self.zero)
            self.put(into, target, i, j, here)

    def store(self, into: Linearizer, matrix: Expr, out: Buffer, rows: int, columns: int,
              value: Callable[[Expr, Expr], Expr]) -> None:  # fmt: skip
        """The elements of a result: `value(i, j)`."""
        start = into.let(matrix * (rows * columns), "start")
        with into.loop("i", 0, rows) as i, into.loop("j", 0, columns) as j:
            position = start + (i * columns + j)
            into.append(Store(out, position, value(i, j)))
