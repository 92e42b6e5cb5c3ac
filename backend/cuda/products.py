"""Matrix products by cuBLAS, and Strassen-like recursions over them, queued as library work.

Operands are read in place as strided views; the result is written where the program wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dsl.expr import Apply, Const, Expr, Index, Read, substitute
from treadle.dsl.graph import Leaf, Matmul
from treadle.dsl.types import ScalarType
from treadle.skeletons.algorithms import NAMED, BilinearAlgorithm

from .device import Call, Fill
from .running import HostFunction, Run


def by_library(node: Matmul) -> bool:
    """Whether cuBLAS computes a product: inexact numbers and plain operands, nothing fused into
    the write-back; or a Strassen-like algorithm over exact ones.  The rest are kernels of ours."""
    if node.epilogue != (node.result,) or node.left.type.kind == "bool":
        return False
    if not plain_operands(node):
        return False
    return node.left.type.is_inexact or node.options.algorithm not in ("auto", "standard")


def plain_operands(node: Matmul) -> bool:
    """Whether both operands are arrays read under affine index maps: views."""
    return _plain(node.left) and _plain(node.right)


def _plain(e: Expr) -> bool:
    while isinstance(e, Apply) and e.op.name == "cast":
        e = e.args[0]
    return isinstance(e, Read) and e.boundary is None


class Operand:
    """One operand: a read under an affine index map is a view, whatever was transposed or
    broadcast; conversions of its type are made before the product."""

    def __init__(self, owner: Any, e: Expr, shape: Sequence[Expr]) -> None:
        self.casts: list[Any] = []
        while isinstance(e, Apply) and e.op.name == "cast":
            self.casts.insert(0, e.type.numpy)
            e = e.args[0]
        assert isinstance(e, Read), e
        self.slot = owner.planner.slots[Leaf(e.node, e.component)]
        self.rank, self.axes = len(shape), len(e.args)
        # An affine map is known from its value at the origin and at the unit vectors.
        hosts: list[Expr] = list(shape)
        for at in range(-1, self.rank):
            point: dict[Expr, Expr] = {
                Index(k): Const(int(k == at), Index(0).type) for k in range(self.rank)
            }
            hosts += substitute(e.args, point)
        self.values = HostFunction(owner.host, hosts)

    def layout(self, run: Run) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Extents, strides in bytes, and the indices of the first element."""
        values = self.values(run)
        extents = tuple(max(int(v), 0) for v in values[: self.rank])
        block = run.block(self.slot)
        rows = [
            [int(v) for v in values[self.rank + k * self.axes : self.rank + (k + 1) * self.axes]]
            for k in range(self.rank + 1)
        ]
        strides = tuple(
            sum(
                (x - o) * s for x, o, s in zip(rows[k + 1], rows[0], block.strides, strict=True)
            )
            for k in range(self.rank)
        )  # fmt: skip
        return extents, strides, tuple(rows[0])

    def view(self, run: Run) -> tuple[tuple[int, ...], Callable[[Any, Any], Any]]:
        """The extents, and a function (library, array) → the operand."""
        extents, strides, origin = self.layout(run)
        casts = self.casts

        def view(library: Any, array: Any) -> Any:
            corner = array[tuple(slice(o, None) for o in origin)]
            made = library.lib.stride_tricks.as_strided(corner, extents, strides)
            for t in casts:
                made = made.astype(t)
            return made

        return extents, view


class Product:
    """One `Matmul` by the library."""

    def __init__(self, owner: Any, node: Matmul) -> None:
        slots = owner.planner.slots
        self.owner, self.node = owner, node
        self.left = Operand(owner, node.left, (*node.batch, node.m, node.k))
        self.right = Operand(owner, node.right, (*node.batch, node.k, node.n))
        self.slot = slots[node.leaf()]

    def __call__(self, run: Run) -> None:
        library, t, options = self.owner.device.library, self.node.left.type, self.node.options
        left, view_left = self.left.view(run)
        right, view_right = self.right.view(run)
        out = run.queue.block((*left[:-1], right[-1]), t.numpy)
        run.faces[self.slot] = out
        if out.size == 0:
            return
        if left[-1] == 0:
            run.queue.put(Fill(out, np.zeros((), t.numpy)))
            return

        def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
            a, b = view_left(library, reads[0]), view_right(library, reads[1])
            product_into(library, writes[0], a, b, t, options)

        blocks = (run.block(self.left.slot), run.block(self.right.slot))
        run.queue.put(Call(action, blocks, (out,)))


def product_into(library: Any, out: Any, a: Any, b: Any, t: ScalarType, options: Any) -> None:
    """`out[...] = a @ b` as the options say; 16-bit floats accumulate in float32."""
    algorithm = _algorithm(options.algorithm)
    wide = np.float32 if t.is_float and t.bits == 16 else None
    if algorithm is None or not options.levels:
        tf32 = options.precision == "tf32" and t.name == "float32"
        if library is not np and (wide is not None or tf32):
            from .cublas import gemm

            gemm(out, a, b, tf32=tf32)
        elif wide is not None:
            out[...] = library.matmul(a.astype(wide), b.astype(wide)).astype(out.dtype)
        else:
            library.matmul(a, b, out=out)
        return
    if wide is not None:
        a, b = a.astype(wide), b.astype(wide)
    out[...] = bilinear(library, a, b, algorithm, options.levels).astype(out.dtype)


def _algorithm(choice: Any) -> BilinearAlgorithm | None:
    if isinstance(choice, BilinearAlgorithm):
        return choice
    return None if choice in ("auto", "standard") else NAMED[choice]


def bilinear(library: Any, a: Any, b: Any, algorithm: BilinearAlgorithm, levels: int) -> Any:
    """`levels` recursive levels of `algorithm`; fringes are padded with zeros at each level.

    Sums are formed in the operands' type (integers wrap, so any integer product stays exact).
    """
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if levels == 0 or min(m, k, n) < max(algorithm.m, algorithm.k, algorithm.n):
        return library.matmul(a, b)
    rows, inner, cols = -(-m // algorithm.m), -(-k // algorithm.k), -(-n // algorithm.n)
    blocks_a = _blocks(library, a, algorithm.m, algorithm.k, rows, inner)
    blocks_b = _blocks(library, b, algorithm.k, algorithm.n, inner, cols)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = library.zeros((*batch, algorithm.m * rows, algorithm.n * cols), a.dtype)
    for r in range(algorithm.products):
        left = _combination(blocks_a, algorithm.u[:, r])
        right = _combination(blocks_b, algorithm.v[:, r])
        product = bilinear(library, left, right, algorithm, levels - 1)
        for p in np.flatnonzero(algorithm.w[:, r]):
            i, j = divmod(int(p), algorithm.n)
            block = c[..., i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
            _add_scaled(block, product, int(algorithm.w[p, r]))
    return c[..., :m, :n]


def _blocks(library: Any, x: Any, down: int, across: int, rows: int, cols: int) -> list[Any]:
    whole = x
    if down * rows != x.shape[-2] or across * cols != x.shape[-1]:
        whole = library.zeros((*x.shape[:-2], down * rows, across * cols), x.dtype)
        whole[..., : x.shape[-2], : x.shape[-1]] = x
    return [
        whole[..., i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
        for i in range(down)
        for j in range(across)
    ]


def _combination(blocks: list[Any], coefficients: Any) -> Any:
    total: Any = None
    for block, coefficient in zip(blocks, coefficients, strict=True):
        if not coefficient:
            continue
        if total is None:
            total = block if coefficient == 1 else block * block.dtype.type(coefficient)
        elif coefficient == 1:
            total = total + block
        elif coefficient == -1:
            total = total - block
        else:
            total = total + block * block.dtype.type(coefficient)
    return total


def _add_scaled(target: Any, value: Any, coefficient: int) -> None:
    if coefficient == 1:
        target += value
    elif coefficient == -1:
        target -= value
    else:
        target += value * target.dtype.type(coefficient)
