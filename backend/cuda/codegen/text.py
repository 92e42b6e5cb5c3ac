"""Kernel IR as CUDA C++: a file with one `extern "C"` kernel, or with all of a program.

Parameters, in order: a pointer for every buffer that is not local or shared (in the kernel's
order), `int64* errors` if something can fail (`Kernel.errors`), then the scalars in their own
types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.dsl.expr import Const, Expr, Foreign, Param, Var, walk
from treadle.skeletons.ir.kernel import (
    Buffer,
    Fetch,
    Kernel,
    LoadVector,
    StoreVector,
    evaluated,
    statements,
    written,
)

from . import atomics, vectors, warps
from .expressions import LIBRARY
from .facts import Facts
from .foreign import device_function
from .names import Names, identifier
from .prelude import Helper, Prelude
from .scalars import ALIASES, Term, type_name
from .statements import Writer

#: Bytes of shared memory that a kernel may declare statically; more is requested at the launch.
STATIC_SHARED = 48 * 1024
#: Computes the comments above a kernel from the names of its scalars.
Heading = Callable[[Mapping[Var, str]], str]
_LIBRARY = {**LIBRARY, **atomics.HELPERS, **vectors.HELPERS, **warps.HELPERS}


def entry_name(kernel: Kernel) -> str:
    """The name of the `extern "C"` function."""
    return identifier(kernel.name)


def parameters(kernel: Kernel) -> tuple[Buffer, ...]:
    """The buffers whose addresses a launch passes, in order."""
    return tuple(b for b in kernel.buffers if b.role not in ("local", "shared"))


def dynamic_shared_bytes(kernel: Kernel) -> int:
    """Bytes of shared memory that a launch must request; 0 if the text declares them."""
    total = sum(_room(b) for b in kernel.buffers if b.role == "shared")
    return total if total > STATIC_SHARED else 0


def _room(b: Buffer) -> int:
    """Bytes of a shared array, rounded up to a multiple of 16."""
    return -(-_count(b) * b.type.bytes // 16) * 16


def _count(b: Buffer) -> int:
    if not isinstance(b.size, Const):
        raise AssertionError(f"{b.role} buffer {b.name} has no constant size")
    return int(b.size.value)


def passed(kernel: Kernel) -> tuple[Var, ...]:
    """The scalars that a launch passes: those that the kernel's body reads (the others determine
    the number of blocks, or which variant runs)."""
    asked = set(_evaluated(kernel))
    return tuple(v for v in kernel.scalars if v in asked)


def _evaluated(kernel: Kernel) -> list[Expr]:
    """The expressions in a kernel's body, each once."""
    return walk(e for s in statements(kernel.body) for e in evaluated(s))


def print_kernel(kernel: Kernel, *, fast_math: bool = False) -> str:
    """The CUDA C++ of a GPU kernel (its fallback is a separate text)."""
    return print_file([(None, kernel)], fast_math=fast_math)


def print_file(parts: Sequence[tuple[Heading | None, Kernel]], *, fast_math: bool = False,
               every_scalar: bool = False) -> str:  # fmt: skip
    """The CUDA C++ of several kernels, each under its heading: one file, which compiles.

    Shared helpers are printed once, at the head; kernels of the same name are numbered.
    `every_scalar`: the kernels also take the scalars that they do not read.
    """
    prelude, names = Prelude(_LIBRARY), Names()
    foreign: dict[Any, str] = {}
    texts = []
    for heading, kernel in parts:
        entry = names.fresh(entry_name(kernel))
        scalars = kernel.scalars if every_scalar else passed(kernel)
        texts.append(_kernel(kernel, entry, scalars, prelude, names, foreign, fast_math, heading))
    body = "\n".join(texts)
    return prelude.text(body) + body


@dataclass(frozen=True)
class Function:
    """A kernel as a function for a group of threads of a larger block.  It takes the index of the
    kernel's block, that of the thread in it, the number of the group's barrier, the group's shared
    memory, and then the kernel's own parameters, which have these types."""

    name: str
    pointers: tuple[str, ...]
    scalars: tuple[str, ...]


#: The parameters of a `Function` before those of the kernel.
_BLOCK = (
    "const int block", "const int thread", "const int barrier", "unsigned char* shared_memory"
)  # fmt: skip


def shared_bytes(kernel: Kernel) -> int:
    """Bytes of shared memory of a block."""
    return sum(_room(b) for b in kernel.buffers if b.role == "shared")


def print_functions(kernels: Sequence[Kernel], fast_math: bool) -> (
        tuple[list[Function], Callable[[str], str]]):  # fmt: skip
    """Kernels as functions, and what makes the complete text with the text of their caller."""
    prelude, names = Prelude(_LIBRARY), Names()
    foreign: dict[Any, str] = {}
    functions, texts = [], []
    for kernel in kernels:
        name = names.fresh(entry_name(kernel))
        scalars = passed(kernel)
        texts.append(_kernel(kernel, name, scalars, prelude, names, foreign, fast_math, None, True))
        types = tuple(type_name(b.type) for b in parameters(kernel))
        functions.append(Function(name, types, tuple(type_name(v.type) for v in scalars)))
    body = "\n".join(texts)

    def complete(caller: str) -> str:
        return prelude.text(body + caller) + body + "\n" + caller

    return functions, complete


def _kernel(kernel: Kernel, entry: str, scalars: Sequence[Var], prelude: Prelude, file: Names,
            foreign: dict[Any, str], fast_math: bool, heading: Heading | None, inside: bool = False
            ) -> str:  # fmt: skip
    if kernel.thread is None:
        raise AssertionError(f"{kernel.name} is no GPU kernel")
    names, facts = Names(file), Facts(kernel)
    w = Writer(kernel, prelude, names, facts, fast_math)
    w.p.foreign = foreign
    w.p.failing = {f: len(kernel.sites) + k + 1 for k, f in enumerate(kernel.raising)}
    changed = {b for s in statements(kernel.body) for b in written(s)}
    changed |= {s.buffer for s in statements(kernel.body) if isinstance(s, Fetch)}
    w.constant_buffers = {b for b in kernel.buffers if b not in changed}
    given = [*_BLOCK] if inside else []
    if inside:
        for own in _BLOCK:
            names.fresh(own.split()[-1])
        w.barrier = f'asm volatile("bar.sync %0, {kernel.threads};" : : "r"(barrier) : "memory");'
    values = zip(kernel.scalars, kernel.scalar_values, strict=False)  # by hand: without values
    computed = {v for v, host in values if not isinstance(host, Param)}
    for b in parameters(kernel):
        w.buffers[b] = names.fresh(_plain(b.name) if b.role == "scratch" else b.name)
        const = "" if b in changed else "const "
        given.append(f"{const}{w.type(b.type)}* __restrict__ {w.buffers[b]}")
    if kernel.errors:
        given.append(f"{_use(w, 'int64')}* __restrict__ errors")
    for v in scalars:
        w.variables[v] = Term(names.fresh(_plain(v.name) if v in computed else v.name))
        given.append(f"{w.type(v.type)} {w.variables[v].code}")
    _foreign(w, file)
    _declarations(w, inside)
    _numbers(w, ("block", "thread") if inside else ("blockIdx.x", "threadIdx.x"))
    for s in kernel.body:
        w.statement(s)
    if inside:
        lines = ["static __device__ __forceinline__ void", *_signature(entry, given)]
        return "\n".join([*lines, *w.lines, "}", ""])
    bounds = f"{kernel.threads}, {kernel.resident}" if kernel.resident else f"{kernel.threads}"
    head = [f"// {c}" for comment in kernel.comments for c in comment.splitlines()]
    if heading is not None:
        head += heading({v: w.variables[v].code for v in scalars}).splitlines()
    lines = [*head, f'extern "C" __global__ void __launch_bounds__({bounds})',
             *_signature(entry, given), *w.lines, "}", ""]  # fmt: skip
    return "\n".join(lines)


def _plain(name: str) -> str:
    """A generated name without the number that distinguishes it from those of other variants."""
    return re.sub(r"_\d+(?=_multiplier$|_shift$|$)", "", name)


def _use(w: Writer, name: str) -> str:
    w.p.use(name)
    return name


def _signature(entry: str, given: list[str]) -> list[str]:
    """The signature, wrapped over several lines if needed."""
    lines, line = [], f"{entry}("
    pad = " " * len(line) if len(line) < 40 else "    "
    for k, g in enumerate(given):
        piece = g + (") {" if k == len(given) - 1 else ",")
        if len(line) + len(piece) + 1 > 98 and line.strip():
            lines.append(line)
            line = pad + piece
        else:
            line += piece if line.endswith("(") else f" {piece}"
    if not given:
        line += ") {"
    return [*lines, line]


def _foreign(w: Writer, file: Names) -> None:
    """Name every foreign function and add its text."""
    for e in _evaluated(w.kernel):
        if isinstance(e, Foreign) and e.function not in w.p.foreign:
            name = w.p.foreign[e.function] = file.fresh(e.function.name)
            text = device_function(e.function, name)
            needed = [a for a in (*ALIASES, "complex64", "complex128")
                      if re.search(rf"\b{a}\b", text)]  # fmt: skip
            w.p.prelude.add(name, Helper(text, tuple(needed)))


def _declarations(w: Writer, given: bool) -> None:
    """Declare shared memory, unless it is `given`, and thread-local arrays."""
    wide = {s.buffer for s in statements(w.kernel.body) if isinstance(s, LoadVector | StoreVector)}
    dynamic = dynamic_shared_bytes(w.kernel) > 0
    if dynamic and not given:
        w.line("extern __shared__ __align__(16) unsigned char shared_memory[];")
    at = 0
    for b in w.kernel.buffers:
        if b.role not in ("local", "shared"):
            continue
        name = w.buffers[b] = w.names.fresh(_plain(b.name))
        kind = w.type(b.type)
        align = "__align__(16) " if b in wide else ""
        if b.role == "local":
            w.line(f"{align}{kind} {name}[{_count(b)}];")
        elif dynamic or given:
            start = f"shared_memory + {at}" if at else "shared_memory"
            w.line(f"{kind}* const {name} = reinterpret_cast<{kind}*>({start});")
            at += _room(b)
        else:
            w.line(f"__shared__ {align}{kind} {name}[{_count(b)}];")


def _numbers(w: Writer, sources: tuple[str, str]) -> None:
    """Define the indices of this block and this thread, if they are used."""
    for v, source in zip((w.kernel.task, w.kernel.thread), sources, strict=True):
        if v is not None and w.is_read(v):
            w.line(f"const {w.type(v.type)} {w.introduce(v)} = {source};")
