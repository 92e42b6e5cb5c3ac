"""Limits of the process: address space (RLIMIT_AS, RLIMIT_DATA), stack and threads.

C and C++ libraries terminate the process if an allocation fails.  These functions therefore reserve
and release the memory that a library may need, before it is called.
"""

from __future__ import annotations

import mmap
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import DeviceOutOfMemory

#: Bytes that LLVM needs for a target machine and a JIT, and per byte of IR text (measured: up to
#: 60).
LLVM_AT_LEAST, LLVM_PER_BYTE = 24 << 20, 128
#: Bytes that Numba needs to compile a function; before the first one also for SciPy, whose BLAS
#: starts a thread per core.
NUMBA, SCIPY, SCIPY_PER_CORE = 64 << 20, 96 << 20, 64 << 20
#: Bytes of stack that kernels and LLVM may use.
STACK = 1 << 20
#: Bytes of OpenBLAS's buffers for a product (32 MB per calling thread).
BLAS = 40 << 20


def limit() -> int | None:
    """The process's memory limit in bytes; None without a limit."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    data = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if most == data == resource.RLIM_INFINITY:
        return None
    return min(n for n in (most, data) if n != resource.RLIM_INFINITY)


def require_memory(size: int, what: str) -> None:
    """`DeviceOutOfMemory` if a limit leaves fewer than `size` bytes for `what` (an infinitive)."""
    most = limit()
    if most is None:
        return
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError, OverflowError):
        raise DeviceOutOfMemory(
            f"the limit of this process ({most:,} bytes of memory: RLIMIT_AS or RLIMIT_DATA, "
            f"`ulimit -v`) leaves too little memory {what}: {size:,} bytes may be needed.",
            hint="Raise the limit, or delete arrays; the program stays usable.",
        ) from None


def require_stack() -> None:
    """`DeviceOutOfMemory` if the main thread's stack limit is too small for kernels."""
    if sys.platform == "win32":
        return
    import resource

    most = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if most != resource.RLIM_INFINITY and most < STACK:
        raise DeviceOutOfMemory(
            f"the limit of this process for its stack ({most:,} bytes: RLIMIT_STACK, `ulimit -s`) "
            f"is too small for kernels, which need {STACK:,}.",
            hint="Raise the limit; the backend 'reference' needs less.",
        )


def require_llvm() -> None:
    """Require memory to load LLVM's library, unless it is loaded."""
    if size := _to_load_llvm():
        require_memory(size, "to load LLVM")


def require_numba() -> None:
    """Require memory for Numba to compile a function, including libraries that it loads first."""
    first = "scipy.linalg" not in sys.modules
    cores = SCIPY + SCIPY_PER_CORE * min(os.cpu_count() or 1, 64) if first else 0
    require_memory(NUMBA + cores + _to_load_llvm(), "for Numba to compile a function")


def _to_load_llvm() -> int:
    """The bytes needed to load LLVM's library; 0 if it is loaded."""
    spec = None if "llvmlite.binding.ffi" in sys.modules else find_spec("llvmlite")
    folders = (spec and spec.submodule_search_locations) or ()
    files = [p for folder in folders for p in Path(folder, "binding").glob("*llvmlite*.*")]
    return sum(p.stat().st_size for p in files) + LLVM_AT_LEAST if files else 0
