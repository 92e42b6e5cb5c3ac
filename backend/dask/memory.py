"""How much memory a block needs, and how much there is."""

from __future__ import annotations

import os
import sys
from math import prod
from typing import Any

from treadle.dsl.errors import MemoryLimitExceeded
from treadle.dsl.graph import Node
from treadle.dsl.text import in_bytes

from .localise import Blocks, Buffer


def elements(buffer: Buffer) -> int:
    """The number of elements of a buffer, in its largest block or a few more."""
    return prod(
        int((high - low).max(initial=0)) for low, high in zip(buffer.low, buffer.high, strict=True)
    )


def projected(blocks: Blocks) -> int:
    """The bytes that the largest block needs at once: its buffers, the chunks that these are put
    together from, and its results with their halos."""
    read = sum(elements(b) * b.leaf.type.numpy.itemsize for b in blocks.buffers)
    whole = all(a.before == a.after == 0 for a in blocks.axes)
    written = 0
    for result in blocks.results:
        sizes = [
            n if axis is None else int((axis.high - axis.low).max(initial=0))
            for n, axis in zip(result.shape, result.axes, strict=True)
        ]
        written += prod(sizes) * result.type.numpy.itemsize
    return read + written if whole else 2 * (read + written)


def limit() -> int:
    """The bytes that a task may use: of the current client's workers, shared by their threads, else
    of this machine."""
    workers = _workers()
    if workers:
        found = [int(w["memory_limit"]) // max(int(w["nthreads"]), 1)
                 for w in workers if w["memory_limit"]]  # fmt: skip
        if found:
            return min(found)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _workers() -> list[Any]:
    """What the scheduler of the current client of distributed says about its workers."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return []
    try:
        client = distributed.get_client()
    except ValueError:
        return []
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def require(blocks: Blocks, node: Node, allowed: int) -> None:
    """Raises `MemoryLimitExceeded` for blocks that need more than `allowed` bytes."""
    needed = projected(blocks)
    if needed <= allowed:
        return
    what = f"a block of {node.label}" if blocks.axes else f"{node.label}, {blocks.notes[0]},"
    raise MemoryLimitExceeded(
        f"{what} needs {in_bytes(needed)}, and a task may use {in_bytes(allowed)}.",
        hint="Give the arrays smaller chunks, x.rechunk(…), or tasks more memory.",
        where=node.where,
    )


__all__ = ["elements", "limit", "projected", "require"]
