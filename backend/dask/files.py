"""Parts of memory-mapped arrays, read and written by system calls.

Touching mapped pages costs a page fault for every few of them.  One call (`madvise`) lets the
system read and map all pages of a part, so that kernels read the file without a copy; another call
drops them, since they count as memory of the process.  On systems without these calls, the part is
copied (`preadv`) to memory that is reused.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from treadle.dsl.errors import StorageError

from ..blocks.buffers import Cut, Whole

#: Linux's MADV_POPULATE_READ (since 5.14).
POPULATE = 22
#: Along with a page, the system may map this many bytes around it.
AROUND = 2 << 20


class File:
    """The file that a row-major array maps."""

    def __init__(self, descriptor: int, name: str, offset: int, array: Any) -> None:
        """`offset`: of the first element in the file."""
        self.descriptor, self.name, self.offset, self.array = descriptor, name, offset, array
        self.first: int = array.ctypes.data
        #: Like `mmap.madvise`, but releases Python's lock.
        self.advise = ctypes.CDLL(None).madvise
        self.advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self.shape, self.dtype = array.shape, array.dtype
        self.row = prod(self.shape[1:]) * self.dtype.itemsize if self.shape else 0

    def read(self, cut: Cut, into: Sequence[Any]) -> Any:
        """A part that consists of whole rows; None if it does not.  It is a view of the file's
        pages, valid until it is passed to `free`, or a copy: into one of the arrays `into`, which
        may be overwritten, if one has its shape."""
        if not self.shape:
            return None
        rows = self.shape[0]
        if isinstance(cut, Whole):
            cut = (((0, rows, 0, rows),),)
        pieces, inner = cut[0], cut[1:]
        whole = all(p == ((0, n, 0, n),) for p, n in zip(inner, self.shape[1:], strict=False))
        if not whole or not pieces or any(low < 0 or high <= low for _, _, low, high in pieces):
            return None
        if len(pieces) == 1 and (pages := self._pages(*pieces[0][2:])) is not None:
            return pages
        shape = (pieces[-1][1], *self.shape[1:])
        made = next((a for a in into if a.shape == shape), None)
        if made is None:
            made = np.empty(shape, self.dtype)
        for begin, end, low, _ in pieces:
            self._fill(made[begin:end], low)
        return made

    def _pages(self, low: int, high: int) -> Any:
        """Some rows as a view of the mapped file, after all of their pages have been read."""
        if not self.array.flags.aligned:
            return None
        begin, size = self.offset + low * self.row, (high - low) * self.row
        os.posix_fadvise(self.descriptor, begin, size, os.POSIX_FADV_WILLNEED)
        if self._advised(self.first + low * self.row, size, POPULATE):
            return None
        return np.asarray(self.array[low:high])

    def free(self, part: Any) -> bool:
        """Drop the pages of a part that is no longer used; False if it is a copy."""
        address = part.ctypes.data
        if not self.first <= address < self.first + self.array.nbytes:
            return False
        before = min(AROUND, address - self.first)
        self._advised(address - before, part.nbytes + before, mmap.MADV_DONTNEED)
        return True

    def _advised(self, address: int, size: int, advice: int) -> int:
        before = address % mmap.PAGESIZE
        return int(self.advise(address - before, size + before, advice))

    def _fill(self, rows: Any, first: int) -> None:
        left, at = memoryview(rows.reshape(-1).view(np.uint8)), self.offset + first * self.row
        while left:
            count = os.preadv(self.descriptor, [left], at)
            if not count:
                raise StorageError(
                    f"{self.name} ends before the array that maps it.",
                    hint="Another program may have changed it.  Write it again.",
                )
            left, at = left[count:], at + count

    def write(self, at: Sequence[slice], array: Any) -> bool:
        """Write a part that consists of whole rows; False if it does not."""
        own = array.dtype == self.dtype and array.flags.c_contiguous and bool(self.shape)
        if not own or array.shape[1:] != self.shape[1:]:
            return False
        left = memoryview(array.reshape(-1).view(np.uint8))
        place = self.offset + (at[0].start or 0) * self.row
        while left:
            count = os.pwrite(self.descriptor, left, place)
            left, place = left[count:], place + count
        return True

    def close(self) -> None:
        os.close(self.descriptor)


def opened(array: Any, write: bool = False) -> File | None:
    """The file that an array maps, if its position is known and the file still exists."""
    if not isinstance(array, np.memmap) or sys.platform != "linux" or not array.size:
        return None
    if not array.flags.c_contiguous or array.filename is None or not array.dtype.isnative:
        return None
    first = array.ctypes.data
    found = _mapped(first, first + array.nbytes)
    if found is None:
        return None
    offset, node = found
    try:
        descriptor = os.open(array.filename, os.O_RDWR if write else os.O_RDONLY)
    except OSError:
        return None
    if os.fstat(descriptor).st_ino != node:
        os.close(descriptor)
        return None
    return File(descriptor, str(array.filename), offset, array)


def _mapped(first: int, last: int) -> tuple[int, int] | None:
    """The position in a file of shared mapped memory, and the file's inode number."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                span, access, offset, _, node = line.split(maxsplit=5)[:5]
                low, high = (int(end, 16) for end in span.split("-"))
                if low <= first < high:
                    shared = access[3] == "s" and last <= high
                    return (int(offset, 16) + first - low, int(node)) if shared else None
    except OSError:
        pass
    return None
