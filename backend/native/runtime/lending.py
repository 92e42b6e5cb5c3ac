"""Memory that a recording has only while it runs: blocks of the pool.

A recorded loop needs memory for what its operations write in each run, but not between runs.  Many
recordings and runs, such as those of the segments of a loop with checkpoints, thus share a few
blocks, whose pages the system has already mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ...runtime.memory import POOL, SMALLEST, address
from ...runtime.types import HostArray
from .replay import KEPT, release, write
from .structures import Memory
from .tape import fresh

_BYTE = np.dtype(np.uint8)
#: Bytes between arrays: kernels may read beyond an array, and begin at lines of the caches.
_LINE = 64


class Place(NamedTuple):
    """An array of so many bytes, and the words that take its address."""

    bytes: int
    words: Sequence[int]


class Lending:
    """The memory of one recording: of the `fixed` arrays, and of those that `grow`, each with the
    words that take its address."""

    def __init__(self, fixed: Sequence[Place], growing: Sequence[tuple[Memory, Sequence[int]]]
                 ) -> None:  # fmt: skip
        self._places: list[tuple[int, Sequence[int]]] = []
        self._size = 0
        for place in fixed:
            self._places.append((self._size, place.words))
            self._size += -(-place.bytes // _LINE) * _LINE + _LINE
        self._start = 0  # of the block in the last run
        self._own = fresh((self._size,), _BYTE) if self._size < SMALLEST else None
        self._growing = growing
        self._most = [0] * len(growing)  # bytes that they have had

    @contextmanager
    def held(self) -> Iterator[None]:
        """The arrays have memory inside, if there is enough: else this is a `DeviceOutOfMemory`,
        and nothing has changed.  Those that grow begin with as much as they have had."""
        block = self._own
        if block is None:
            block = POOL.allocate((self._size,), _BYTE)
        blocks: list[HostArray | None] = [
            POOL.allocate((most + _LINE,), _BYTE) if most > KEPT else None for most in self._most
        ]
        start = address(block)
        if start != self._start:
            for offset, words in self._places:
                write(words, start + offset)
            self._start = start
        for (memory, words), most, lent in zip(self._growing, self._most, blocks, strict=True):
            if lent is not None:
                release(memory, -1)
                memory.address, memory.capacity = address(lent), most
                write(words, memory.address)
        try:
            yield
        finally:
            for k, (memory, _) in enumerate(self._growing):
                self._most[k] = max(self._most[k], memory.capacity)
                if not memory.block:  # lent
                    memory.address = memory.size = memory.capacity = 0
                release(memory, KEPT)
