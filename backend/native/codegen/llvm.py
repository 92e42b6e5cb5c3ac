"""LLVM's library, loaded; or why it is not."""

from __future__ import annotations

from treadle.dsl.errors import BackendUnavailable
from treadle.dsl.process.limits import require_llvm

require_llvm()
try:
    import llvmlite.binding as llvm
except (ImportError, OSError) as error:
    raise BackendUnavailable(
        f"the backend 'native' does not work here: LLVM cannot be loaded ({error}).",
        hint="pip install --force-reinstall llvmlite",
    ) from error


__all__ = ["llvm"]
