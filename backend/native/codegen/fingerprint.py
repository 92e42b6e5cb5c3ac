"""What a kernel's machine code depends on, as a hash."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, walk
from treadle.dsl.graph import Combine
from treadle.skeletons.ir.kernel import (
    Body,
    Buffer,
    Comment,
    For,
    Kernel,
    Load,
    Reduce,
    Statement,
    Store,
    statements,
)

from ...runtime.disk_cache import sources
from ..runtime import machine
from .analysis import natural_scalars, positive_scalars
from .target import Target

if TYPE_CHECKING:
    from treadle.dsl.operations.elements.foreign import CompiledScalarFunction


@functools.lru_cache(maxsize=64)
def _fields(kind: type[Statement]) -> list[str]:
    return [f.name for f in fields(kind)]  # type: ignore[arg-type]


class _Writer:
    """Kernel IR as unambiguous text: every expression, variable and buffer has a number."""

    def __init__(self, hidden: Collection[Const] = ()) -> None:
        self.hidden = hidden  # literals of which only the types are written
        self.out: list[str] = []
        self.numbers: dict[Expr, int] = {}
        self.buffers: dict[Buffer, int] = {}
        self.functions: list[CompiledScalarFunction] = []

    def expression(self, e: Expr) -> int:
        found = self.numbers.get(e)
        if found is not None:
            return found
        simple = all(a in self.numbers for a in e.args)
        for node in (e,) if simple else walk((e,), lambda x: x not in self.numbers):
            if node not in self.numbers:
                text = self._node(node)
                self.numbers[node] = len(self.numbers)
                self.out.append(text)
        return self.numbers[e]

    def _node(self, node: Expr) -> str:
        args = ",".join(str(self.numbers[a]) for a in node.args)
        if isinstance(node, Const):
            if node in self.hidden:
                return f"c {node.type.name}"
            return f"c {node.type.name} {node.value.tobytes().hex()}"
        if isinstance(node, Apply):
            return f"{node.op.name} {node.type.name} {args}"
        if isinstance(node, Load):
            return f"l {self.buffer(node.buffer)} {args}"
        if isinstance(node, Var):
            return f"v {node.type.name}"
        if isinstance(node, Foreign):
            if node.function not in self.functions:
                self.functions.append(node.function)
            which = f"{self.functions.index(node.function)} {node.function.raises}"
            return f"f {which} {node.type.name} {args}"
        raise AssertionError(f"{type(node).__name__} in kernel IR")

    def buffer(self, b: Buffer) -> int:
        if b not in self.buffers:
            self.buffers[b] = len(self.buffers)
            self.out.append(f"b {b.type.name} {b.role} {self.expression(b.size)} {b.dense}")
        return self.buffers[b]

    def body(self, body: Body) -> None:
        for s in body:
            if isinstance(s, Comment):
                continue
            parts = [self.part(getattr(s, name)) for name in _fields(type(s))]  # type: ignore[arg-type]
            self.out.append(f"{type(s).__name__} {' '.join(parts)}")

    def part(self, x: Any) -> str:
        """A field of a statement; of statements, the lines before its own."""
        match x:
            case Expr():
                return str(self.expression(x))
            case Buffer():
                return f"b{self.buffer(x)}"
            case Combine():
                return self.part((x.left, x.right, x.results))
            case (Statement(), *_):
                self.out.append("{")
                self.body(x)
                self.out.append("}")
                return "{}"
            case tuple():
                return f"({' '.join(map(self.part, x))})"
        return repr(x)


def targets_of(kernel: Kernel) -> list[Target]:
    """What a kernel is compiled for: this machine without streaming stores, and with them, if there
    are results that vector loops or reductions store."""
    host = Target.host()
    stores = (
        isinstance(t, Store) and t.buffer.role in ("output", "scratch")
        for s in statements(kernel.body)
        if isinstance(s, Reduce) or (isinstance(s, For) and s.kind == "vector")
        for t in statements(s.body)
    )  # fmt: skip
    return [host.regular, host] if host.streaming_bytes and any(stores) else [host.regular]


def _written(kernel: Kernel, hidden: Collection[Const] = ()) -> _Writer:
    w = _Writer(hidden)
    for b in kernel.buffers:
        w.buffer(b)
    for v in (*kernel.scalars, kernel.task):
        w.out.append(f"argument {w.expression(v)}")
    for some in (natural_scalars(kernel), positive_scalars(kernel)):
        w.out.append(f"at least {[w.expression(v) for v in kernel.scalars if v in some]}")
    w.out.append(str([(w.buffer(b), policy) for b, policy in kernel.policies]))
    w.out.append(f"literals {kernel.literals}")
    w.body(kernel.body)
    return w


def without(kernel: Kernel, hidden: Collection[Const]) -> str:
    """The text of a kernel, without the values of some literals."""
    return "\n".join(_written(kernel, frozenset(hidden)).out)


def fingerprints(kernel: Kernel, targets: Sequence[Target], fast_math: bool
                 ) -> tuple[list[str], list[CompiledScalarFunction]]:  # fmt: skip
    """Hashes of all that decides the machine code for each target, and the foreign functions that
    the kernel calls.  Its name is only in texts."""
    w = _written(kernel)
    text = "\n".join(w.out)
    about = f"{sources()}|{machine.llvm()}|{fast_math}"
    texts = (f"{about}|{target}\n{text}" for target in targets)
    return [hashlib.sha256(x.encode()).hexdigest() for x in texts], w.functions


def fingerprint(kernel: Kernel, target: Target, fast_math: bool
                ) -> tuple[str, list[CompiledScalarFunction]]:  # fmt: skip
    """The hash for one target, and the foreign functions."""
    (digest,), functions = fingerprints(kernel, (target,), fast_math)
    return digest, functions
