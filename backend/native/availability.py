"""Whether the native backend works here, found out without loading LLVM's library."""

from __future__ import annotations

from importlib.util import find_spec


def unavailable() -> str | None:
    """Why the native backend does not work here, None when it does."""
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed; pip install llvmlite"
    return None
