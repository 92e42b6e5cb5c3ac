"""Machine code of kernels: found in memory or on disk, and launched.

Neither LLVM nor the modules that emit its language are loaded for it.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from treadle.dsl.errors import CompilationError
from treadle.dsl.process import locks
from treadle.dsl.process.recent import Recent
from treadle.dsl.types import ScalarType

from ...runtime.disk_cache import DiskCache
from ..codegen.target import Target
from . import objects, threads
from .objects import Linked

if TYPE_CHECKING:
    from treadle.dsl.operations.elements.foreign import CompiledScalarFunction
    from treadle.skeletons.ir.kernel import Kernel

    from .tape import Number

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FORMATS = {
    "bool": "q", "int8": "q", "int16": "q", "int32": "q", "int64": "q", "uint8": "Q",
    "uint16": "Q", "uint32": "Q", "uint64": "Q", "float16": "f4x", "bfloat16": "f4x",
    "float32": "f4x", "float64": "d", "complex64": "f4xf4x", "complex128": "dd",
}  # fmt: skip


class CompiledKernel:
    """Machine code of one kernel.

    A launch needs as many addresses as there are `pointers` (of the kernel's buffers in order, but
    for local ones), and scalars of these `types`.  `kernel` makes the kernel IR again: for texts,
    and where loops are merged.  `digest`: the key of the code; "" if it calls foreign functions.
    """

    def __init__(self, kernel: Callable[[], Kernel], pointers: int, types: tuple[ScalarType, ...],
                 fast_math: bool, linked: Linked, from_disk: bool,
                 target: Target | None = None, digest: str = "") -> None:  # fmt: skip
        self._kernel, self.pointers, self.types = kernel, pointers, types
        self.fast_math, self.from_disk = fast_math, from_disk
        self._linked, self._target, self.digest = linked, target, digest
        self.entry: int = linked.addresses["entry"]

    @property
    def kernel(self) -> Kernel:
        return self._kernel()

    @property
    def target(self) -> Target:
        return self._target or Target.host()

    @property
    def words(self) -> int:
        """Words of packed arguments: addresses, that of the errors, scalars."""
        return self.pointers + 1 + sum(2 if t.is_complex else 1 for t in self.types)

    def bind(self) -> Launcher:
        """A callable with memory of its own for the arguments; one per thread at a time."""
        return Launcher(self)


class Launcher:
    """Packs arguments and runs the tasks, on all cores when there is work for them.

    `launcher(addresses, scalars, tasks, errors_address=0, work=None, in_order=False)`: `work`
    estimates the whole launch in elementary operations (about a nanosecond each); below
    `threads.SERIAL_WORK` the calling thread does it alone.  None: not known, so all cores.
    `in_order`: as `Kernel.in_order`.  Not for two threads at once.
    """

    __slots__ = ("_call", "_complex", "_data", "_pack", "_pointer", "_space", "kernel")

    def __init__(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel
        layout = "=" + "Q" * (kernel.pointers + 1)
        layout += "".join(_FORMATS[t.name] for t in kernel.types)
        packer = struct.Struct(layout)
        self._space = ctypes.create_string_buffer(max(packer.size, 8))
        self._pointer = ctypes.addressof(self._space)
        self._pack = packer.pack_into
        self._complex = any(t.is_complex for t in kernel.types)
        self._call = _ENTRY(kernel.entry)

    @property
    def arguments(self) -> int:
        """The address of the packed arguments: addresses, that of the errors, scalars."""
        return self._pointer

    def pack(
        self, addresses: Sequence[int], scalars: Sequence[Number], errors_address: int
    ) -> None:
        """Set the arguments."""
        if self._complex:
            scalars = self._real_parts(scalars)
        try:
            self._pack(self._space, 0, *addresses, errors_address, *scalars)
        except (struct.error, OverflowError, TypeError):
            parts = cast("Sequence[float]", scalars)
            fitted = [_fit(s, t) for s, t in zip(parts, self._slots(), strict=True)]
            self._pack(self._space, 0, *addresses, errors_address, *fitted)

    def _slots(self) -> list[ScalarType]:
        return [t for t in self.kernel.types for _ in range(2 if t.is_complex else 1)]

    def _real_parts(self, scalars: Sequence[Number]) -> list[Number]:
        flat: list[Number] = []
        for value, type_ in zip(scalars, self.kernel.types, strict=True):
            if type_.is_complex:
                number = complex(value)
                flat += [number.real, number.imag]
            else:
                flat.append(value)
        return flat

    def __call__(self, addresses: Sequence[int], scalars: Sequence[Number], tasks: int,
                 errors_address: int = 0, work: float | None = None,
                 in_order: bool = False) -> None:  # fmt: skip
        self.pack(addresses, scalars, errors_address)
        if tasks <= 1 or (work is not None and work < threads.SERIAL_WORK):
            self._call(self._pointer, 0, tasks)
        elif in_order:
            threads.alone(self._call, self._pointer, tasks)
        else:
            threads.parallel(self.kernel.entry, self._call, self._pointer, tasks, work)


def _fit(value: float, t: ScalarType) -> float:
    """A number as its slot holds it: integers wrap, floats overflow to infinity."""
    if t.family == "bool":
        return int(bool(value))
    if t.is_integer:
        return t.wrapped(int(value))
    with np.errstate(over="ignore"):
        if t.is_complex:
            return float(np.float32(value) if t.bits == 64 else value)
        return float(np.asarray(value).astype(t.numpy))


#: A digest, the identities of foreign functions, and the cache.
_Key = tuple[str, tuple[int, ...], DiskCache | None]
#: Code by key.  Kernels are not kept: their buffers may hold on to arrays.
_memory = Recent[_Key, Linked](256)
#: Code that calls foreign functions, which it keeps, as long as a program does.
_calling: weakref.WeakValueDictionary[_Key, Linked] = weakref.WeakValueDictionary()
_memory_lock = locks.lock()
_disk = DiskCache()


def find(digest: str, functions: Sequence[CompiledScalarFunction] = (),
         cache: DiskCache | None = None) -> tuple[Linked, bool] | None:  # fmt: skip
    """The code kept under a digest, and whether it came from disk just now."""
    key = (digest, tuple(id(f) for f in functions), cache)
    with _memory_lock:
        cached = _calling.get(key) if functions else _memory.get(key)
        if cached is not None:
            if not functions:
                _memory.move_to_end(key)
            return cached, False
    disk = _disk if cache is None else cache
    found = disk.get(digest)
    if found is None:
        return None
    image, about = found
    try:
        return keep(digest, image, list(about["symbols"]), functions, cache), True
    except (CompilationError, KeyError, TypeError):  # a whole file that does not load here
        disk.drop(digest)
        return None


def keep(digest: str, image: bytes, symbols: Sequence[str],
         functions: Sequence[CompiledScalarFunction], cache: DiskCache | None
         ) -> Linked:  # fmt: skip
    """Load an object file, and hold it in memory."""
    foreign = {f"foreign.{k}": int(f.address) for k, f in enumerate(functions)}
    linked = objects.load(image, ["entry"], symbols, foreign, functions)
    key = (digest, tuple(id(f) for f in functions), cache)
    with _memory_lock:
        if functions:
            _calling[key] = linked
            return linked
        _memory[key] = linked
    return linked


def store(digest: str, image: bytes, symbols: Sequence[str], cache: DiskCache | None) -> None:
    """Put an object file on disk."""
    (_disk if cache is None else cache).put(digest, image, {"symbols": list(symbols)})


def forget() -> None:
    """Drop the memory cache (tests)."""
    with _memory_lock:
        _memory.clear()
        _calling.clear()
