"""Kernels to callable machine code."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.dsl.errors import CompilationError
from treadle.dsl.expr import Var
from treadle.skeletons.kernel.ir import Buffer, Kernel

from ..disk_cache import DiskCache
from . import engine, threads
from .emitter import emit
from .fingerprint import fingerprint
from .target import Target

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FORMATS = {
    "bool": "q", "int8": "q", "int16": "q", "int32": "q", "int64": "q", "uint8": "Q",
    "uint16": "Q", "uint32": "Q", "uint64": "Q", "float16": "f4x", "bfloat16": "f4x",
    "float32": "f4x", "float64": "d", "complex64": "f4xf4x", "complex128": "dd",
}  # fmt: skip


class CompiledKernel:
    """Machine code of one kernel.

    `buffers` are the buffers that a launch needs addresses of, in order (all but local ones).
    """

    def __init__(self, kernel: Kernel, target: Target, fast_math: bool, linked: engine.Linked,
                 from_disk: bool, llvm_ir: str | None) -> None:  # fmt: skip
        self.kernel, self.target, self.fast_math = kernel, target, fast_math
        self.buffers: tuple[Buffer, ...] = tuple(b for b in kernel.buffers if b.role != "local")
        self.scalars: tuple[Var, ...] = kernel.scalars
        self.from_disk = from_disk
        self._linked = linked
        self._llvm_ir = llvm_ir
        self.entry: int = linked.addresses["entry"]

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR before optimisation."""
        if self._llvm_ir is None:
            self._llvm_ir = self._emit()[0]
        return self._llvm_ir

    def _emit(self) -> tuple[str, bool]:
        _, functions = fingerprint(self.kernel, self.target, self.fast_math)
        text, emitter = emit(self.kernel, self.target, self.fast_math, functions)
        return text, emitter.thorough

    def assembly(self) -> str:
        """The machine code as text."""
        text, thorough = self._emit()
        return engine.to_assembly(text, self.target, thorough)

    def bind(self) -> Launcher:
        """A callable with memory of its own for the arguments; one per thread at a time."""
        return Launcher(self)

    def launch(self, addresses: Sequence[int], scalars: Sequence[int | float | complex],
               tasks: int, errors_address: int = 0, work: float | None = None) -> None:  # fmt: skip
        """Run `tasks` tasks; see `Launcher`."""
        Launcher(self)(addresses, scalars, tasks, errors_address, work)


class Launcher:
    """Packs arguments and runs the tasks, on all cores when there is work for them.

    `launcher(addresses, scalars, tasks, errors_address=0, work=None)`: `work` estimates the whole
    launch in elementary operations (about a nanosecond each); below `threads.SERIAL_WORK` the
    calling thread does it alone.  None: not known, so all cores.  `pack` and `run` are its halves,
    for launches that repeat.  Not for two threads at once.
    """

    __slots__ = ("_call", "_complex", "_data", "_pack", "_pointer", "_space", "kernel")

    def __init__(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel
        layout = "=" + "Q" * (len(kernel.buffers) + 1)
        layout += "".join(_FORMATS[v.type.name] for v in kernel.scalars)
        packer = struct.Struct(layout)
        self._space = ctypes.create_string_buffer(max(packer.size, 8))
        self._pointer = ctypes.addressof(self._space)
        self._pack = packer.pack_into
        self._complex = any(v.type.is_complex for v in kernel.scalars)
        self._call = _ENTRY(kernel.entry)

    def pack(self, addresses: Sequence[int], scalars: Sequence[Any], errors_address: int) -> None:
        """Set the arguments."""
        if self._complex:
            scalars = self._real_parts(scalars)
        try:
            self._pack(self._space, 0, *addresses, errors_address, *scalars)
        except (struct.error, OverflowError, TypeError):
            fitted = [_fit(s, v) for s, v in zip(scalars, self._slots(), strict=True)]
            self._pack(self._space, 0, *addresses, errors_address, *fitted)

    def _slots(self) -> list[Var]:
        return [v for v in self.kernel.scalars for _ in range(2 if v.type.is_complex else 1)]

    def _real_parts(self, scalars: Sequence[Any]) -> list[Any]:
        flat: list[Any] = []
        for value, var in zip(scalars, self.kernel.scalars, strict=True):
            if var.type.is_complex:
                number = complex(value)
                flat += [number.real, number.imag]
            else:
                flat.append(value)
        return flat

    def run(self, tasks: int, work: float | None = None) -> None:
        """Run with the arguments set last."""
        if tasks <= 1 or (work is not None and work < threads.SERIAL_WORK):
            self._call(self._pointer, 0, tasks)
        else:
            threads.parallel(self.kernel.entry, self._call, self._pointer, tasks)

    def __call__(self, addresses: Sequence[int], scalars: Sequence[Any], tasks: int,
                 errors_address: int = 0, work: float | None = None) -> None:  # fmt: skip
        self.pack(addresses, scalars, errors_address)
        if tasks <= 1 or (work is not None and work < threads.SERIAL_WORK):
            self._call(self._pointer, 0, tasks)
        else:
            threads.parallel(self.kernel.entry, self._call, self._pointer, tasks)


def _fit(value: Any, var: Var) -> Any:
    """A number as its slot holds it: integers wrap, floats overflow to infinity."""
    t = var.type
    if t.kind == "bool":
        return int(bool(value))
    if t.is_integer:
        number = int(value) & ((1 << t.bits) - 1)
        return number - (1 << t.bits) if t.signed and number >> (t.bits - 1) else number
    with np.errstate(over="ignore"):
        if t.is_complex:
            return float(np.float32(value) if t.bits == 64 else value)
        return float(np.asarray(value).astype(t.numpy))


#: Code by key.  Kernels are not kept: their buffers may hold on to arrays.
_memory: OrderedDict[tuple[Any, ...], tuple[engine.Linked, list[Any]]] = OrderedDict()
_memory_lock = threading.Lock()
_MEMORY_LIMIT = 1024
_disk = DiskCache()


def compile_kernel(kernel: Kernel, *, fast_math: bool = False, target: Target | None = None,
                   cache: DiskCache | None = None) -> CompiledKernel:  # fmt: skip
    """Machine code for a kernel: from memory, from disk, or made now.

    `CompilationError` carries the LLVM IR when LLVM refuses it.
    """
    target = target or Target.host()
    disk = _disk if cache is None else cache
    digest, functions = fingerprint(kernel, target, fast_math)
    key = (digest, tuple(id(f) for f in functions), id(cache))
    with _memory_lock:
        held = _memory.get(key)
        if held is not None:
            _memory.move_to_end(key)
            return CompiledKernel(kernel, target, fast_math, held[0], False, None)
    foreign = {f"foreign.{k}": int(f.address) for k, f in enumerate(functions)}
    text: str | None = None
    linked = _from_disk(digest, foreign, disk)
    from_disk = linked is not None
    if linked is None:
        text, emitter = emit(kernel, target, fast_math, functions)
        image = engine.to_object(text, target, emitter.thorough)
        symbols = sorted(emitter.module.symbols)
        linked = engine.link(image, ["entry"], symbols, foreign)
        disk.put(digest, image, {"symbols": symbols})
    with _memory_lock:
        _memory[key] = linked, functions
        while len(_memory) > _MEMORY_LIMIT:
            _memory.popitem(last=False)
    return CompiledKernel(kernel, target, fast_math, linked, from_disk, text)


def _from_disk(digest: str, foreign: dict[str, int], disk: DiskCache) -> engine.Linked | None:
    found = disk.get(digest)
    if found is None:
        return None
    image, about = found
    try:
        return engine.link(image, ["entry"], list(about["symbols"]), foreign)
    except (CompilationError, KeyError, TypeError):  # a whole file that does not load here
        disk.drop(digest)
        return None


def forget() -> None:
    """Drop the memory cache (tests)."""
    with _memory_lock:
        _memory.clear()
