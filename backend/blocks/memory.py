"""How much memory a block needs."""

from __future__ import annotations

from math import prod

import numpy as np

from treadle.dsl.errors import MemoryLimitExceeded
from treadle.dsl.graph import Node
from treadle.dsl.text import in_bytes

from .domain import Chunks, edges
from .engine import Engine
from .localise import Blocks, Buffer


def elements(buffer: Buffer) -> int:
    """The number of elements of a buffer in its largest block, or slightly more."""
    return prod(
        int((high - low).max(initial=0)) for low, high in zip(buffer.low, buffer.high, strict=True)
    )


def is_a_chunk(buffer: Buffer, chunks: Chunks) -> bool:
    """Whether every block reads exactly one chunk of an array, so that the buffer needs no copy."""
    for low, high, sizes in zip(buffer.low, buffer.high, chunks, strict=True):
        ends = np.asarray(edges(sizes))
        at = np.searchsorted(ends, low)
        if (at >= len(sizes)).any() or (ends[at] != low).any() or (ends[at + 1] != high).any():
            return False
    return buffer.windows is None


def projected(blocks: Blocks) -> int:
    """The bytes that the largest block needs at once: its buffers, the chunks that they are
    assembled from, and its results with their halos."""
    read = sum(elements(b) * b.leaf.type.numpy.itemsize for b in blocks.buffers)
    copied = sum(elements(b) * b.leaf.type.numpy.itemsize for b in blocks.copied)
    whole = blocks.around or all(a.before == a.after == 0 or a.split_boundary for a in blocks.axes)
    written = 0
    for result in blocks.results:
        sizes = [
            n if axis is None else int((axis.high - axis.low).max(initial=0))
            for n, axis in zip(result.shape, result.axes, strict=True)
        ]
        written += prod(sizes) * result.type.numpy.itemsize
    return read + copied + written if whole else 2 * (read + written)


def require(blocks: Blocks, node: Node, engine: Engine) -> None:
    """Raise `MemoryLimitExceeded` for blocks that need more bytes than a task may use."""
    needed, allowed = projected(blocks), engine.allowed
    if needed <= allowed:
        return
    what = f"a block of {node.label}"
    if not blocks.axes:
        what = ", ".join((str(node.label), *blocks.notes[:1], ""))[:-1]
    error = MemoryLimitExceeded(
        f"{what} needs {in_bytes(needed)}, and a task may use {in_bytes(allowed)}.",
        hint=engine.smaller,
        where=node.where,
    )
    error.what, error.needed = what, needed
    raise error
