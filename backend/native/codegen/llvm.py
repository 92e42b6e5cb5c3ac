"""LLVM's library, loaded; or why it is not.

Loading it takes longer than a small program needs to compile: what runs programs that are on disk
does not import this module.
"""

from __future__ import annotations

from treadle.dsl.errors import BackendUnavailable
from treadle.dsl.process import locks
from treadle.dsl.process.limits import require_llvm
from treadle.dsl.process.workers import on_other_thread

require_llvm()
try:
    import llvmlite.binding as llvm
except (ImportError, OSError) as error:
    raise BackendUnavailable(
        f"the backend 'native' does not work here: LLVM cannot be loaded ({error}).",
        hint="pip install --force-reinstall llvmlite",
    ) from error


__all__ = ["host", "llvm", "lock"]


#: llvmlite's lock, which it takes for each call of LLVM, also when Python frees LLVM objects.
lock = locks.held_across_fork(llvm.ffi.lib._lock._lock)


@on_other_thread
def host() -> tuple[str, str]:
    """The name of this CPU, and its features."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
