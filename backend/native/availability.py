"""Whether the native backend works here.  LLVM's library is not loaded for that."""

from __future__ import annotations

from importlib.util import find_spec


def unavailable() -> str | None:
    """Why the native backend does not work here, None when it does."""
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed; pip install llvmlite"
    return None
