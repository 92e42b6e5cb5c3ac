"""What the limits of the process leave: address space (RLIMIT_AS, RLIMIT_DATA) and threads.

Libraries in C and C++ end the process where they get no memory.  So what they may need is asked for
beforehand, and given back.
"""

from __future__ import annotations

import mmap
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from .errors import DeviceOutOfMemory

#: Bytes that LLVM takes for a machine and a JIT, and for a byte of text (most measured: 60).
LLVM_AT_LEAST, LLVM_PER_BYTE = 24 << 20, 128
#: Bytes that Numba takes for a function, and before the first for SciPy, whose BLAS starts a thread
#: for every core.
NUMBA, SCIPY, SCIPY_PER_CORE = 64 << 20, 96 << 20, 64 << 20
#: Bytes of stack that kernels and LLVM may take.
STACK = 1 << 20
#: Bytes of OpenBLAS's buffers for a product (32 MB for each thread that calls).
BLAS = 40 << 20


def limit() -> int | None:
    """The bytes of memory that the process may have at all; None without a limit."""
    if sys.platform == "win32":
        return None
    import resource

    both = (resource.getrlimit(k)[0] for k in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return min((n for n in both if n != resource.RLIM_INFINITY), default=None)


def require_room(size: int, what: str) -> None:
    """`DeviceOutOfMemory` where a limit leaves no `size` bytes for `what` (an infinitive)."""
    most = limit()
    if most is None:
        return
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError, OverflowError):
        raise DeviceOutOfMemory(
            f"the limit of this process ({most:,} bytes of memory: RLIMIT_AS or RLIMIT_DATA, "
            f"`ulimit -v`) leaves no room {what}: {size:,} bytes may be needed.",
            hint="Raise the limit, or let go of arrays; the program stays usable.",
        ) from None


def require_stack() -> None:
    """`DeviceOutOfMemory` where the main thread may not have the stack that kernels take."""
    if sys.platform == "win32":
        return
    import resource

    most = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if most != resource.RLIM_INFINITY and most < STACK:
        raise DeviceOutOfMemory(
            f"the limit of this process for its stack ({most:,} bytes: RLIMIT_STACK, `ulimit -s`) "
            f"is too small for kernels, which take {STACK:,}.",
            hint="Raise the limit; the backend 'reference' does with less.",
        )


def require_llvm() -> None:
    """Room to load LLVM's library, if it is not loaded."""
    if size := _to_load_llvm():
        require_room(size, "to load LLVM")


def require_numba() -> None:
    """Room for Numba to compile a function, and what it loads first."""
    first = "scipy.linalg" not in sys.modules
    cores = SCIPY + SCIPY_PER_CORE * min(os.cpu_count() or 1, 64) if first else 0
    require_room(NUMBA + cores + _to_load_llvm(), "for Numba to compile a function")


def _to_load_llvm() -> int:
    """The bytes that LLVM's library takes, 0 if it is loaded."""
    spec = None if "llvmlite.binding.ffi" in sys.modules else find_spec("llvmlite")
    folders = (spec and spec.submodule_search_locations) or ()
    files = [p for folder in folders for p in Path(folder, "binding").glob("*llvmlite*.*")]
    return sum(p.stat().st_size for p in files) + LLVM_AT_LEAST if files else 0


def threads(count: int, name: str) -> ThreadPoolExecutor | None:
    """As many of `count` threads as the process may start, all started; None without any."""
    while count:
        pool, go = ThreadPoolExecutor(count, thread_name_prefix=name), Event()
        started = 0
        try:
            for _ in range(count):
                pool.submit(go.wait)
                started += 1
        except RuntimeError:  # a limit of threads, or of memory for their stacks
            pass
        finally:
            go.set()
        if started == count:
            return pool
        pool.shutdown()
        count = started
    return None
