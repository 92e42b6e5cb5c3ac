"""Products that the tile engine computes, with what is fused into their write-back.

The epilogue of a node is printed as a kernel of one element and called where the engine stores a
finished value: its arrays and numbers travel as 64-bit words of the launch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dsl.expr import Expr, Index, Var, constant
from treadle.dsl.graph import Leaf, Matmul
from treadle.dsl.types import ScalarType, int32
from treadle.skeletons.kernel.ir import Buffer, Kernel, Store

from .device import Block, Call
from .engine import Engine, Fused, Matrix, arithmetic_of, engine_for
from .products import Operand, plain_operands
from .running import HostFunction, Run

#: Words of a launch for fused code (f32_engine.cuh, `extra`).
WORDS = 16
#: Exact products of at least this extent take a level of Strassen by themselves.
EXACT_STRASSEN = 3072
#: How an `execution=` is done; all products in one launch is what "atomic" does.
MODES = {None: "atomic", "atomic": "atomic", "batched": "atomic", "persistent": "atomic",
         "owner": "owner", "sequential": "sequential", "streams": "sequential",
         "hybrid": "atomic"}  # fmt: skip

Action = Callable[[Run], None]


def engine_step(owner: Any, node: Matmul, other: Action) -> Action:
    """The step of a product: by the engine where it is the best, else `other`."""
    engine = engine_for(owner.device)
    if engine is None or arithmetic_of(node.left.type) is None or not plain_operands(node):
        return other
    fused = None
    if node.epilogue != (node.result,):
        if len(node.epilogue) > 1 or node.epilogue[0].type != node.left.type or node.batch:
            return other
        if owner.program.settings.check or not _standard(node):
            return other
        fused = Epilogue(owner, node)
        if not fused.fits:
            return other
    return EngineProduct(owner, node, engine, fused, other)


def _standard(node: Matmul) -> bool:
    return node.options.algorithm in ("auto", "standard") or not node.options.levels


class EngineProduct:
    """One `Matmul` (module docstring)."""

    def __init__(self, owner: Any, node: Matmul, engine: Engine, fused: Epilogue | None,
                 other: Action) -> None:  # fmt: skip
        self.node, self.engine, self.fused, self.other = node, engine, fused, other
        self.left = Operand(owner, node.left, (*node.batch, node.m, node.k))
        self.right = Operand(owner, node.right, (*node.batch, node.k, node.n))
        self.slot = owner.planner.slots[node.leaf()]
        self.arithmetic = arithmetic_of(node.left.type) or ""

    def __call__(self, run: Run) -> None:
        left, right = _Given(self.left, run), _Given(self.right, run)
        batch, m, k, n = left.extents[:-2], *left.extents[-2:], right.extents[-1]
        way = self._way(m, n, k)
        if way is None:
            self.other(run)
            return
        out = run.queue.block((*batch, m, n), self.node.left.type.numpy)
        blocks = [run.block(self.left.slot), run.block(self.right.slot)]
        read, numbers = self.fused.words(run) if self.fused is not None else ((), ())
        run.faces[self.slot] = out
        if out.size == 0:
            return
        engine, arithmetic, fused = self.engine, self.arithmetic, self.fused
        (mode, levels), each = way, m * n * out.itemsize
        places = list(np.ndindex(*batch))

        def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
            library = engine.device.library
            a, b = (g.matrices(library, x, levels == 2) for g, x in
                    ((left, reads[0]), (right, reads[1])))  # fmt: skip
            code = None
            if fused is not None:
                code = Fused(fused.source, (*(_address(r) for r in reads[2:]), *numbers))
            first = _address(writes[0])
            for number, place in enumerate(places):
                c = Matrix(first + number * each, m, n, n, 1)
                if levels:
                    engine.strassen(c, a(place), b(place), mode, arithmetic, levels)
                else:
                    engine.standard(c, a(place), b(place), mode, arithmetic, code)

        run.queue.put(Call(action, (*blocks, *read), (out,)))

    def _way(self, m: int, n: int, k: int) -> tuple[str, int] | None:
        """(mode, levels of Strassen) of the engine; None where something else is better."""
        options = self.node.options
        if options.precision == "tf32":
            return None
        whole = self.engine.standard_mode(m, n, k, self.fused is not None)
        if _standard(self.node):
            large = min(m, n, k) >= EXACT_STRASSEN and options.algorithm == "auto"
            if whole and large and self.arithmetic == "Int32" and self.fused is None:
                return "atomic", 1
            return (whole, 0) if whole else None
        mode = MODES.get(options.execution)
        # A level on less than a tile, three and more levels: sums in memory, by the library.
        if options.algorithm != "strassen" or options.levels > 2 or min(m, n, k) < 64:
            return None
        if mode is None:
            return None
        if options.deterministic and mode == "atomic" and self.arithmetic == "Float32":
            mode = "owner"
        return mode, options.levels


class _Given:
    """An operand of one run: its extents, and where its matrices are."""

    def __init__(self, operand: Operand, run: Run) -> None:
        self.operand = operand
        self.extents, self.strides, self.origin = operand.layout(run)
        block = run.block(operand.slot)
        self.offset = sum(o * s for o, s in zip(self.origin, block.strides, strict=True))
        self.width = block.itemsize
        self.plain = not operand.casts and all(s % self.width == 0 for s in self.strides)
        _, self.view = operand.view(run)

    def matrices(self, library: Any, array: Any, dense: bool) -> Callable[[Any], Matrix]:
        """A function of the leading indices; `dense`: with columns side by side."""
        first, strides = _address(array) + self.offset, self.strides
        held: Any = None
        if not self.plain or (dense and strides[-1] != self.width):
            held = library.ascontiguousarray(self.view(library, array))
            first, strides = _address(held), held.strides
        rows, cols = self.extents[-2:]
        down, across = (s // 4 for s in strides[-2:])

        def matrix(place: Sequence[int], keep: Any = held) -> Matrix:
            offset = sum(p * s for p, s in zip(place, strides, strict=False))
            return Matrix(first + offset, rows, cols, down, across)

        return matrix


def _address(array: Any) -> int:
    """Of an array of CuPy, or of NumPy in the emulation."""
    data: Any = array.data
    found: int = data.ptr if hasattr(data, "ptr") else array.ctypes.data
    return found


class Epilogue:
    """What a product stores, as code for the engine."""

    def __init__(self, owner: Any, node: Matmul) -> None:
        kernel = _one_element(node)
        self.reads = [b for b in kernel.buffers if b.role == "input"]
        self.types = [v.type for v in kernel.scalars[:-3]]
        self.fits = len(self.reads) + len(self.types) <= WORDS and not any(
            t.is_complex for t in self.types
        )
        self.slots = [owner.slot_of(b.leaf) for b in self.reads]
        self.values = HostFunction(owner.host, kernel.scalar_values[:-3])
        self.source = self._text(kernel) if self.fits else ""

    def words(self, run: Run) -> tuple[tuple[Block, ...], tuple[int, ...]]:
        """The arrays that it reads, and its numbers as words."""
        blocks = tuple(run.dense(s) for s in self.slots)
        values = zip(self.values(run), self.types, strict=True)
        return blocks, tuple(_word(v, t) for v, t in values)

    def _text(self, kernel: Kernel) -> str:
        from .text import entry_name, print_kernel

        name = entry_name(kernel)
        head = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]*\)\s+' + name)
        text = head.sub(f"static __device__ __forceinline__ void {name}", print_kernel(kernel))
        pointers = [b for b in kernel.buffers if b.role in ("input", "output")]
        given, at = [], 0
        for b in pointers:
            if b.role == "output":
                given.append("&y")
            else:
                given.append(f"reinterpret_cast<const {_c_type(b.type)}*>(extra[{at}])")
                at += 1
        for t in self.types:
            given.append(_from_word(t, at))
            at += 1
        kind = _c_type(kernel.scalars[-3].type)
        return (
            f"{text}\nstruct Fused {{\n  static constexpr bool identity = false;\n"
            f"  __device__ static __forceinline__ {kind} finish({kind} x, int i, int j, "
            f"const u64 *extra) {{\n    {kind} y;\n"
            f"    {name}({', '.join([*given, 'x', 'i', 'j'])});\n    return y;\n  }}\n}};\n"
        )


def _one_element(node: Matmul) -> Kernel:
    """A kernel that stores the element at (i, j) of a product's value x; its last scalars are
    x, i and j."""
    from treadle.skeletons.kernel import transform
    from treadle.skeletons.kernel.build import Builder, LoweringContext

    builder = Builder(node, LoweringContext(target="cuda"))
    (root,) = transform.resolve(node.epilogue, builder, (node.m, node.n))
    x, i, j = Var("x", node.result.type), Var("i", int32), Var("j", int32)
    out = Buffer("out", root.type, "output", constant(1))
    into = builder.emitter()
    from treadle.dsl import simplify
    from treadle.dsl.types import int64

    row, col = (simplify.cast(v, int64) for v in (i, j))
    bindings: dict[Expr, Expr] = {Index(0): row, Index(1): col, node.result: x}
    with into.when_always(bindings):
        into.append(Store(out, constant(0), into.value(root)))
    task, thread = Var("task", int64), Var("thread", int64)
    kernel = builder.kernel("epilogue", constant(1), task, tuple(into.out), threads=32,
                            thread=thread)  # fmt: skip
    return dataclasses.replace(kernel, scalars=(*kernel.scalars, x, i, j),
                               scalar_values=(*kernel.scalar_values, x, i, j))  # fmt: skip


def _word(value: Any, t: ScalarType) -> int:
    """A number as the low bits of a word."""
    raw = np.asarray(value, t.numpy).tobytes()
    return int.from_bytes(raw, "little")


def _c_type(t: ScalarType) -> str:
    from .scalars import type_name

    return type_name(t)


def _from_word(t: ScalarType, at: int) -> str:
    return f"*reinterpret_cast<const {_c_type(t)}*>(extra + {at})"


__all__ = ["EngineProduct", "Leaf", "engine_step"]
