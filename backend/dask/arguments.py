"""Checks of the arguments of `td.stream`, made before anything is computed: the arrays that it
reads (whose parts must have the declared shape and type), their blocks, and the targets of its
results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from treadle.dsl.errors import DTypeError, ShapeError, StorageError, TracingError

from ..blocks.domain import Chunks
from ..blocks.engine import cut

#: The effort to decide whether two strided arrays share an element; beyond it, they may.
ATTEMPTS = 10_000


def check_shape(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """`ShapeError` if a result with this shape and type cannot be written to `out`."""
    if (tuple(out.shape), np.dtype(out.dtype)) != (shape, dtype):
        raise ShapeError(
            f"out is {np.dtype(out.dtype)}{tuple(out.shape)}, and the result is {dtype}{shape}.",
            hint=f'Make it so: np.lib.format.open_memmap(path, "w+", "{dtype}", {shape}).',
        )


def check_storage(outs: Sequence[Any | None], sources: Sequence[Any]) -> None:
    """Raise an error if an array of `outs` is read-only, or shares elements with one of `sources`
    or with another of `outs`: parts are written before others are read."""
    given = [out for out in outs if out is not None]
    for out in given:
        if _is_read_only(out):
            raise StorageError(
                "out can only be read.",
                hint='Open it for writing: np.load(path, mmap_mode="r+"), zarr.open_array(path, '
                'mode="r+"), h5py.File(path, "r+").',
            )
        if any(share(out, source) for source in sources):
            raise ShapeError(
                "out is also an argument, or another view of its file or memory, which is read "
                "after parts of out are written.",
                hint="Pass another array.",
            )
    if any(share(x, y) for x, y in combinations(given, 2)):
        raise ShapeError(
            "two arrays of out are the same, or share elements, so one result would overwrite the "
            "other.",
            hint="Pass an array of its own for each result.",
        )


def _is_read_only(out: Any) -> bool:
    """Whether an array of NumPy, zarr or h5py is read-only (others raise an error when written)."""
    if isinstance(out, np.ndarray):
        return not out.flags.writeable
    return getattr(out, "read_only", False) is True or (
        getattr(getattr(out, "file", None), "mode", None) == "r"
    )


def share(a: Any, b: Any) -> bool:
    """Whether two arrays have elements in common: in memory, or in the same file."""
    if a is b:
        return True
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        # h5py data sets and zarr arrays compare equal if they are the same.
        return type(a) is type(b) and not isinstance(a, np.ndarray) and (a == b) is True
    if _overlap(a, b):
        return True
    first, second = _file_of(a), _file_of(b)
    return (
        first is not None
        and second is not None
        and os.path.samestat(first[0], second[0])
        and _overlap(_at(a, first[1]), _at(b, second[1]))
    )


def _overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=ATTEMPTS))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _file_of(array: Any) -> tuple[os.stat_result, int] | None:
    """The file that an array maps, if it still exists, and its first element's position."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    whole = array  # a view keeps the offset of its base
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    try:
        return os.stat(array.filename), whole.offset + array.ctypes.data - whole.ctypes.data
    except OSError:
        return None


class _At:
    """An array of these extents and strides at another address, which is never accessed."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _at(array: np.ndarray[Any, Any], position: int) -> np.ndarray[Any, Any]:
    given = dict(array.__array_interface__)
    # (Address 0 would not be a valid array.)
    given["data"] = (position + (1 << 20), True)
    return np.asarray(_At(given))


def given_chunks(given: Any, sources: Sequence[Any]) -> list[Chunks | None]:
    """The blocks of each array; None: as large as memory allows."""
    shapes = [tuple(int(n) for n in s.shape) for s in sources]
    if given is None:
        return [None] * len(shapes)
    ranks = sorted({len(shape) for shape in shapes} - {0})
    per_axis = isinstance(given, tuple | list)
    if per_axis and len(given) not in ranks:
        raise ShapeError(
            f"chunks has {len(given)} extents, and the arrays have "
            f"{' or '.join(map(str, ranks)) or 'no'} axes."
        )
    return [
        tuple(_sizes(size, n, given) for size, n in zip(sizes, shape, strict=True))
        if shape and len(sizes := given if per_axis else (given,) * len(shape)) == len(shape)
        else None
        for shape in shapes
    ]


def _sizes(size: Any, extent: int, given: Any) -> tuple[int, ...]:
    """The extents of blocks along an axis."""
    if isinstance(size, tuple | list):
        sizes = tuple(size)
        if all(_is_integer(n) and n >= 0 for n in sizes) and sum(sizes) == extent:
            return tuple(int(n) for n in sizes) or (0,)
        raise ShapeError(
            f"chunks has the blocks {sizes} for an axis of extent {extent}.",
            hint="Their extents add up to that of the axis.",
        )
    if size is None or (_is_integer(size) and size == -1):
        return (extent,)
    if not _is_integer(size) or size <= 0:
        raise ShapeError(
            f"chunks={given!r} has {size!r}, which is no extent of a block.",
            hint="Write a number for each axis, such as chunks=(1000, -1); -1: the whole axis.",
        )
    return cut(extent, int(size))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def plain(
    part: Any, dtype: np.dtype[Any], name: str, other: str, masked: str
) -> np.ndarray[Any, Any]:
    """A part of an array as a NumPy array of this dtype; `name` is for errors; `other`, `masked`:
    the advice if its elements have another dtype, or are masked."""
    made: np.ndarray[Any, Any] = np.asanyarray(part)
    if made.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise DTypeError(
            f"{name} has the dtype {dtype}, and parts of it have {made.dtype}.", hint=other
        )
    if isinstance(made, np.ma.MaskedArray):
        if np.ma.is_masked(made):
            raise TracingError(f"a part of {name} is masked, and would lose its mask.", hint=masked)
        made = np.asarray(made.data)
    return made


class Parts:
    """An array read in parts, each checked: kernels rely on its shape and type."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(int(n) for n in array.shape)
        self.dtype = np.dtype(array.dtype)
        self.chunks = getattr(array, "chunks", None)

    def __getitem__(self, at: Any) -> np.ndarray[Any, Any]:
        part = plain(
            self.array[at], self.dtype, self._name(),
            "If it scales what is stored (a variable of netCDF4 does), read what is stored, "
            "variable.set_auto_maskandscale(False), and scale it in the function.",
            "Read the values that stand for missing ones, variable.set_auto_mask(False), and "
            "compare with them in the function.",
        )  # fmt: skip
        wanted = self._shape(at)
        if part.shape != wanted:
            raise ShapeError(
                f"{self._name()} has the shape {self.shape}, and a part that should have "
                f"{wanted} has {part.shape}.",
                hint="Another program may have changed it.  Open it again.",
            )
        return part

    def _shape(self, at: Any) -> tuple[int, ...]:
        """The extents of a part: slices along the first axes, and the other axes in full."""
        slices = () if at is Ellipsis else at if isinstance(at, tuple) else (at,)
        along = zip(slices, self.shape, strict=False)
        return (*(len(range(*s.indices(n))) for s, n in along), *self.shape[len(slices) :])

    def _name(self) -> str:
        return f"an argument of type {type(self.array).__name__}"
