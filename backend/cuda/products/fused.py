"""Code that is fused into a product of the tile engine, in its slots (`form.SLOTS`).

The epilogue of a product, and operand elements that are computed while tiles are loaded, are each
printed as a kernel of one element, which the engine calls when it stores or loads a value.  Their
arrays and scalars are passed as 64-bit words of the launch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.dsl import simplify
from treadle.dsl.expr import Expr, Index, Read, Var, constant, rewrite
from treadle.dsl.graph import Matmul, Shape
from treadle.dsl.passes import operands
from treadle.dsl.process.locks import cached
from treadle.dsl.target import CUDA
from treadle.dsl.types import ScalarType, int32, int64
from treadle.skeletons.ir.kernel import Buffer, Kernel, Store
from treadle.skeletons.lower import transform
from treadle.skeletons.lower.build import Builder, LoweringContext

from ...runtime.operand import plain
from ...runtime.run import HostValues
from ..codegen.scalars import type_name
from ..codegen.text import entry_name, print_file
from ..device.device import Block
from ..running import DeviceRun
from .form import SLOTS, WORDS
from .operand import Operand


class Element:
    """One element as a function of the values `given`, and of its row and column (`int`).

    Arrays that it reads are looked up in `owner` (an executable) when a launch is made; until then
    it may be None.
    """

    def __init__(self, owner: Any, node: Matmul, name: str, root: Expr, given: Sequence[Var],
                 domain: Shape) -> None:  # fmt: skip
        self.owner, self.kernel = owner, _one_element(node, name, root, given, domain)
        self.given = [v.name for v in given]
        own = len(given) + 2
        self.reads = [b for b in self.kernel.buffers if b.role == "input"]
        self.types = [v.type for v in self.kernel.scalars[:-own]]
        self.simple = not any(t.is_complex for t in self.types)
        self.hosts = self.kernel.scalar_values[:-own]

    @cached
    def slots(self) -> list[int]:
        """The slots of the arrays that it reads."""
        return [self.owner.slot_of(b.leaf) for b in self.reads]

    @cached
    def values(self) -> HostValues:
        """Computes its scalars in a run."""
        return HostValues(self.owner.host, self.hosts)

    @property
    def words(self) -> int:
        """The number of words that it reads."""
        return len(self.reads) + len(self.types)

    def numbers(self, run: DeviceRun) -> tuple[tuple[Block, ...], tuple[int, ...]]:
        """The arrays that it reads, and its scalars as words."""
        blocks = tuple(run.dense(s) for s in self.slots)
        values = zip(self.values(run), self.types, strict=True)
        return blocks, tuple(_word(v, t) for v, t in values)

    def call(self, at: int, kind: str) -> str:
        """Statements that return the element; its words begin at `at`."""
        given = []
        for b in self.kernel.buffers:
            if b.role == "output":
                given.append("&made")
            elif b.role == "input":
                given.append(f"reinterpret_cast<const {type_name(b.type)}*>(extra[{at}])")
                at += 1
        for t in self.types:
            given.append(f"*reinterpret_cast<const {type_name(t)}*>(extra + {at})")
            at += 1
        called = ", ".join([*given, *self.given, "i", "j"])
        return f"    {kind} made;\n    {entry_name(self.kernel)}({called});\n    return made;\n"


class Producer:
    """An operand (`slot` "TILE_A" or "TILE_B") that is computed while its tiles are loaded."""

    def __init__(self, owner: Any, node: Matmul, slot: str) -> None:
        self.slot, left = slot, slot == "TILE_A"
        e = node.left if left else node.right
        rows, cols = (node.m, node.k) if left else (node.k, node.n)
        reads = operands.sources(e)
        assert reads is not None
        given = (Var("x", e.type), Var("y", e.type))
        loaded = dict(zip(reads, given, strict=False))
        (root,) = rewrite((e,), lambda q: loaded.get(q, q) if isinstance(q, Read) else q)
        self.type, self.owner, self.reads, self.shape = e.type, owner, reads, (rows, cols)
        self.element = Element(owner, node, f"producer_{slot[-1].lower()}", root, given,
                               (rows, cols))  # fmt: skip

    @cached
    def operands(self) -> list[Operand]:
        """The arrays that it reads."""
        return [Operand(self.owner, r, self.shape) for r in self.reads]

    @property
    def words(self) -> int:
        """The number of words that it reads: the address and strides of its second array, then the
        element's."""
        return 3 * (len(self.reads) > 1) + self.element.words

    def struct(self, at: int) -> str:
        """The struct of its slot; its words begin at `at`."""
        kind, second = type_name(self.type), len(self.reads) > 1
        body = self.element.call(at + 3 * second, kind)
        return (
            f"struct {SLOTS[self.slot]} {{\n  static constexpr bool identity = false;\n"
            f"  static constexpr int sources = {len(self.reads)}, second = {at};\n"
            f"  __device__ static __forceinline__ {kind} apply({kind} x, {kind} y, int i, int j, "
            f"const u64 *extra) {{\n{body}  }}\n}};\n"
        )


class Epilogue:
    """The epilogue of a product: the value that it stores."""

    def __init__(self, owner: Any, node: Matmul) -> None:
        x = Var("x", node.result.type)
        (root,) = rewrite(node.epilogue, lambda e: x if e is node.result else e)
        self.type = node.result.type
        self.element = Element(owner, node, "epilogue", root, (x,), (node.m, node.n))

    @property
    def words(self) -> int:
        """The number of words that it reads."""
        return self.element.words

    def struct(self, at: int) -> str:
        """The struct of its slot; its words begin at `at`."""
        kind = type_name(self.type)
        return (
            f"struct {SLOTS['TILE_EPILOGUE']} {{\n  static constexpr bool identity = false;\n"
            f"  __device__ static __forceinline__ {kind} finish({kind} x, int i, int j, "
            f"const u64 *extra) {{\n{self.element.call(at, kind)}  }}\n}};\n"
        )


Piece = Producer | Epilogue


def pieces_of(owner: Any, node: Matmul, without: frozenset[str] = frozenset()
              ) -> list[Piece] | None:  # fmt: skip
    """The parts that are fused into a launch, except those in `without`; None if the launch cannot
    hold them."""
    sides = (("left operand", "TILE_A", node.left), ("right operand", "TILE_B", node.right))
    found: list[Piece] = [
        Producer(owner, node, slot)
        for name, slot, e in sides if name not in without and not plain(e)
    ]  # fmt: skip
    if node.epilogue != (node.result,) and "epilogue" not in without:
        if len(node.epilogue) != 1 or node.epilogue[0].type != node.left.type:
            return None
        found.append(Epilogue(owner, node))
    simple = all(p.element.simple for p in found)
    return found if simple and sum(p.words for p in found) <= WORDS else None


def fused_source(pieces: Sequence[Piece]) -> tuple[str, list[int]]:
    """CUDA C++ of the slots, and the first word of each."""
    text = print_file([(None, p.element.kernel) for p in pieces], every_scalar=True)
    starts, at = [], 0
    for p in pieces:
        name = entry_name(p.element.kernel)
        head = re.compile(
            r'extern "C" __global__ void __launch_bounds__\([^)]*\)\s+' + name + r"\b"
        )
        text = head.sub(f"static __device__ __forceinline__ void {name}", text)
        starts.append(at)
        at += p.words
    structs = [p.struct(start) for p, start in zip(pieces, starts, strict=True)]
    return "\n".join([text, *structs]), starts


def _one_element(node: Matmul, name: str, root: Expr, given: Sequence[Var], domain: Shape
                 ) -> Kernel:  # fmt: skip
    """A kernel that stores `root` at (i, j); its last scalars are the given values, i and j."""
    builder = Builder(node, LoweringContext(CUDA))
    (root,) = transform.resolve((root,), builder, domain)
    i, j = Var("i", int32), Var("j", int32)
    out = Buffer("out", root.type, "output", constant(1))
    into = builder.emitter()
    row, col = (simplify.cast(v, int64) for v in (i, j))
    bindings: dict[Expr, Expr] = {Index(0): row, Index(1): col, **{v: v for v in given}}
    with into.when_always(bindings):
        into.append(Store(out, constant(0), into.value(root)))
    task, thread = Var("task", int64), Var("thread", int64)
    kernel = builder.kernel(name, constant(1), task, tuple(into.out), threads=32, thread=thread)
    own = (*given, i, j)
    return dataclasses.replace(kernel, scalars=(*kernel.scalars, *own),
                               scalar_values=(*kernel.scalar_values, *own))  # fmt: skip


def _word(value: Any, t: ScalarType) -> int:
    """A scalar as the low bits of a word."""
    raw = np.asarray(value, t.numpy).tobytes()
    return int.from_bytes(raw, "little")
