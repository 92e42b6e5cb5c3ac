"""The memory that a dask task may use."""

from __future__ import annotations

import os
from typing import Any

from .versions import current_client


def limit() -> int:
    """The bytes of a task: of the client's workers per thread, else of this machine."""
    workers = _workers()
    if workers:
        found = [int(w["memory_limit"]) // max(int(w["nthreads"]), 1)
                 for w in workers if w["memory_limit"]]  # fmt: skip
        if found:
            return min(found)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def has_workers() -> bool:
    """Whether tasks run in other processes, by the current client of distributed."""
    return bool(_workers())


def threads() -> int:
    return sum(int(w["nthreads"]) for w in _workers())


def _workers() -> list[Any]:
    """The scheduler's description of the workers of the current distributed client."""
    client = current_client()
    if client is None:
        return []
    return list(client.scheduler_info(n_workers=-1)["workers"].values())
