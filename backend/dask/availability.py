"""Whether the dask backend works here."""

from __future__ import annotations

from importlib.util import find_spec


def unavailable() -> str | None:
    """None if dask's arrays can be used, else the reason and what to install."""
    if find_spec("dask") is None or find_spec("dask.array") is None:
        return "dask is not installed; pip install 'dask[array]' distributed"
    return None
