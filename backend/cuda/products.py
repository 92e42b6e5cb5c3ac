"""Matrix products by cuBLAS, and Strassen-like recursions over them, queued as library work.

Operands are read in place as strided views; the result is written where the program wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dsl.errors import ScheduleError
from treadle.dsl.expr import Apply, Const, Expr, Index, Read, substitute
from treadle.dsl.graph import Leaf, Matmul
from treadle.dsl.passes.operands import ENGINES, sources
from treadle.dsl.types import ScalarType
from treadle.skeletons.algorithms import NAMED, BilinearAlgorithm
from treadle.skeletons.algorithms.executions import Job, Kit, execute, plan
from treadle.skeletons.algorithms.scaling import scaled, undo

from .device import Call, Fill
from .running import HostFunction, Run

Leafs = Callable[[Any, Any, Any], bool]
"""(a, b, out) → whether it made the product."""


def by_library(node: Matmul) -> bool:
    """Whether cuBLAS computes a product: inexact numbers and plain operands, nothing fused into
    the write-back; or a Strassen-like algorithm over exact ones.  The rest are kernels of ours.

    A product `in_parts` is queued like a library's."""
    if in_parts(node):
        return True
    if node.epilogue != (node.result,) or node.left.type.kind == "bool":
        return False
    if not plain_operands(node):
        return False
    return node.left.type.is_inexact or node.options.algorithm not in ("auto", "standard")


def plain_operands(node: Matmul) -> bool:
    """Whether both operands are arrays read under affine index maps: views."""
    return plain(node.left) and plain(node.right)


def plain(e: Expr) -> bool:
    """Whether an operand is an array read under an affine index map, perhaps converted."""
    while isinstance(e, Apply) and e.op.name == "cast":
        e = e.args[0]
    return isinstance(e, Read) and e.boundary is None


def in_parts(node: Matmul) -> bool:
    """Whether an engine may compute operands of a product, or the epilogue of a fast one, with it;
    otherwise kernels around it do (engine_parts.py)."""
    if node.batch or node.left.type.name not in ENGINES:
        return False
    if not all(plain(e) or sources(e) is not None for e in (node.left, node.right)):
        return False
    ends = node.epilogue != (node.result,)
    return not plain_operands(node) or (ends and algorithm_of(node.options.algorithm) is not None)


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
        self.leaf: Leafs | None = None
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
            product_into(library, writes[0], a, b, t, options, self.leaf)

        blocks = (run.block(self.left.slot), run.block(self.right.slot))
        run.queue.put(Call(action, blocks, (out,)))


#: What the library's standard product is combined into; the rest is for engines of ours.
BY_LIBRARY = ("recursive", "sequential", "streams", "batched")


def product_into(library: Any, out: Any, a: Any, b: Any, t: ScalarType, options: Any,
                 leaf: Leafs | None = None) -> None:  # fmt: skip
    """`out[...] = a @ b` as the options say; 16-bit floats accumulate in float32.

    `leaf`: the standard product for the blocks of a fast one (default: the library's).
    """
    algorithm = algorithm_of(options.algorithm)
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
    kit = Card(library, leaf)
    made = plan(algorithm, options.execution or "recursive", options.levels,
                (a.shape[-2], a.shape[-1], b.shape[-1]), kit.workers)  # fmt: skip
    if wide is not None:
        a, b = a.astype(wide), b.astype(wide)
    rows = columns = None
    if options.scaling is not None and t.is_inexact:
        a, b, rows, columns = scaled(library, a, b, options.scaling)
    target = out if out.dtype == a.dtype else library.empty(out.shape, a.dtype)
    room = kit.empty(made.workspace, a.dtype)
    a, b = (library.broadcast_to(x, (*out.shape[:-2], *x.shape[-2:])) for x in (a, b))
    for at in np.ndindex(*out.shape[:-2]):
        execute(kit, made, a[at], b[at], target[at], room)
    if rows is not None:
        undo(library, target, rows, columns)
    if target is not out:
        out[...] = target.astype(out.dtype)


class Card(Kit):
    """CuPy, with a standard product for the leaves; `streams` run on two streams."""

    workers = 2

    def __init__(self, library: Any, leaf: Leafs | None = None) -> None:
        super().__init__(library)
        self.leaf = leaf

    def product(self, a: Any, b: Any, out: Any) -> None:
        if self.leaf is not None and a.ndim == 2 and self.leaf(a, b, out):
            return
        if self.library is not np and a.dtype.kind in "fc":
            from .cublas import gemm

            gemm(out, a, b)
        elif self.library is not np and not out.flags.c_contiguous:
            out[...] = self.library.matmul(a, b)
        else:
            self.library.matmul(a, b, out=out)

    def sums(self, made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
             shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
        """CuPy copies an operand whose range of addresses meets the result's, as those of two
        blocks of one matrix do, element for element though they are apart: as arrays with memory of
        their own they are read in place."""
        if self.library is not np:
            every = [*(x for out, terms in made for x in (out, *(t for _, t in terms))),
                     *(x for _, x in shared)]  # fmt: skip
            alone = {id(x): _alone(self.library, x) for x in every}
            made = [(alone[id(out)], [(c, alone[id(x)]) for c, x in terms]) for out, terms in made]
            shared = [(c, alone[id(x)]) for c, x in shared]
        super().sums(made, shared)

    def together(self, jobs: Sequence[Sequence[Job]]) -> None:
        if self.library is np or len(jobs) == 1:
            super().together(jobs)
            return
        from .engine import beside

        def all_of(worker: int) -> None:
            for job in jobs[worker]:
                job(worker)

        beside([lambda w=w: all_of(w) for w in range(len(jobs))])  # type: ignore[misc]


def _alone(library: Any, x: Any) -> Any:
    """The same elements, in memory that ends where they do."""
    size = x.itemsize + sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides, strict=True))
    memory = library.cuda.UnownedMemory(x.data.ptr, max(size, 1), x)
    return library.ndarray(x.shape, x.dtype, library.cuda.MemoryPointer(memory, 0), x.strides)


def refuse(node: Matmul, why: str, nearest: str) -> ScheduleError:
    """What is asked for does not exist on this device; the nearest that does."""
    asked = node.options.execution
    return ScheduleError(
        f"matmul: execution {asked!r} does not exist here for {node.left.type.name}: {why}.",
        hint=f"The nearest is execution={nearest!r}.",
        where=node.where,
    )


def algorithm_of(choice: Any) -> BilinearAlgorithm | None:
    """The algorithm an option names; None for the standard product."""
    if isinstance(choice, BilinearAlgorithm):
        return choice
    return None if choice in ("auto", "standard") else NAMED[choice]
