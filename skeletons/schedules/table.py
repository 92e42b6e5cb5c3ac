"""An order given as a permutation of one extent."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treadle.dsl.schedule import ScheduleError, ScheduleTypeError

from .arithmetic import Index, lookup
from .layers import checked_integer
from .orders import Order, row_major

# Longer tables print as packed text, which is still the code that makes them.
_PRINTED = 64


class Table(Order):
    """Visits the row-major ids of one fixed extent in the order of ``permutation``.

    ``permutation`` is a rank-1 array that holds each of 0 ... n - 1 once (or the text that a long
    table prints as): id ``i`` visits element ``permutation[i]``. It fits any shape of n elements,
    or only ``shape`` where that is given. Tables are equal when their contents are.

    >>> table = Table([2, 0, 1])
    >>> table, [table.coordinates(i, (3,)) for i in range(3)]
    (Table([2, 0, 1]), [(2,), (0,), (1,)])
    """

    permutation: ArrayLike
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "permutation", _permutation(self.permutation))
        if self.shape is None:
            return
        if not isinstance(self.shape, tuple | list):
            raise ScheduleTypeError(
                f"Table: shape must be a tuple of extents, got {self.shape!r}.",
                hint=f"Write Table(permutation, shape=({self.ids.size},)).",
            )
        shape = tuple(checked_integer(n, Table, "an extent of shape", 0) for n in self.shape)
        object.__setattr__(self, "shape", shape)
        if np.prod(shape, dtype=np.int64) != self.ids.size:
            raise ScheduleError(
                f"Table: the permutation has {self.ids.size} ids, but shape {shape} has "
                f"{np.prod(shape, dtype=np.int64)} elements."
            )

    @property
    def ids(self) -> NDArray[np.int64]:
        """The permutation as a read-only int64 array."""
        assert isinstance(self.permutation, np.ndarray)  # __post_init__ converts it
        return self.permutation

    def coordinates(self, i: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        if all(isinstance(extent, int | np.integer) for extent in shape):
            self.require(shape)
        return row_major(lookup(self.ids, i), shape)

    def require(self, shape: tuple[int, ...]) -> None:
        shape = tuple(int(extent) for extent in shape)
        size = int(np.prod(shape, dtype=np.int64))
        if size != self.ids.size or self.shape not in (None, shape):
            made_for = f"shape {self.shape}" if self.shape else f"{self.ids.size} ids"
            raise ScheduleError(
                f"a Table for {made_for} cannot order shape {shape} ({size} ids).",
                hint="Make a table for each extent, or use an order that fits all: Row(), "
                "Column(width), Morton(), Hilbert().",
            )

    def arguments(self) -> dict[str, Any]:
        packed = self.ids.size > _PRINTED
        result: dict[str, Any] = {"permutation": _pack(self.ids) if packed else self.ids.tolist()}
        if self.shape is not None:
            result["shape"] = self.shape
        if self.grain is not None:
            result["grain"] = self.grain
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        same = (self.shape, self.grain) == (other.shape, other.grain)
        return same and np.array_equal(self.ids, other.ids)

    def __hash__(self) -> int:
        return hash((self.ids.tobytes(), self.shape, self.grain))


def _permutation(given: object) -> NDArray[np.int64]:
    if isinstance(given, str):
        return _checked(_unpack(given))
    try:
        array = np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise ScheduleTypeError(
            f"Table: permutation must be a rank-1 array of integers, got {given!r}.",
            hint="Write Table(np.random.permutation(n)); several axes are numbered row by row.",
        ) from error
    if array.size == 0:
        array = array.astype(np.int64)  # an empty list has no type of its own
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ScheduleTypeError(
            f"Table: permutation must be a rank-1 array of integers, got rank {array.ndim} of "
            f"{array.dtype}.",
            hint="Write Table(np.random.permutation(n)); several axes are numbered row by row.",
        )
    return _checked(array.astype(np.int64))


def _checked(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    outside = (ids < 0) | (ids >= ids.size)
    if outside.any():
        at = int(np.argmax(outside))
        raise ScheduleError(
            f"Table: not a permutation: entry {at} is {ids[at]}, outside 0 ... {ids.size - 1}.",
            hint=f"A table of {ids.size} entries holds each of 0 ... {ids.size - 1} once.",
        )
    counts = np.bincount(ids, minlength=ids.size)
    if (counts > 1).any():
        twice = int(np.argmax(counts > 1))
        first, second = np.flatnonzero(ids == twice)[:2]
        missing = int(np.argmax(counts == 0))
        raise ScheduleError(
            f"Table: not a permutation: entries {first} and {second} are both {twice}, and "
            f"{missing} is missing."
        )
    ids.flags.writeable = False
    return ids


def _pack(ids: NDArray[np.int64]) -> str:
    raw = ids.astype("<u4" if ids.size < 2**32 else "<u8").tobytes()
    return base64.b64encode(zlib.compress(raw)).decode("ascii")


def _unpack(text: str) -> NDArray[np.int64]:
    try:
        raw = zlib.decompress(base64.b64decode(text, validate=True))
        # Permutations of 2**32 ids and more (32 GiB as int64) are packed eight bytes an id.
        return np.frombuffer(raw, "<u4" if len(raw) < 2**34 else "<u8").astype(np.int64)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ScheduleError(
            f"Table: the packed permutation is damaged ({error}).",
            hint="Write the permutation as a list of integers.",
        ) from None
