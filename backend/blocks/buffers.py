"""One block of one kernel as plain numbers: the chunks that its buffers are assembled from, and the
part of its results that it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from treadle.dsl.errors import ShapeError

from ..runtime.memory import POOL

#: One piece of a buffer along an axis: the index range in the buffer, then the range in the chunk,
#: which may count from the end.
Piece = tuple[int, int, int, int]


class Whole(NamedTuple):
    """A buffer that is one whole chunk, of this shape."""

    shape: tuple[int, ...]


#: How a buffer is assembled: from pieces along each axis, or from one whole chunk.
Cut = tuple[tuple[Piece, ...], ...] | Whole
#: A buffer concatenated from rank-1 arrays, passed as one argument: a list of lists of arrays.
ALL: Piece = (0, -1, 0, -1)


class Block:
    """The numbers of a task: how its buffers are assembled from chunks, the scalar arguments of its
    program, and the part of each result that it keeps (None: all).

    `flat`: for each buffer, the range of elements in row-major order that is the program's argument
    (None: the buffer itself); empty if there is none.
    """

    __slots__ = ("cuts", "flat", "kept", "numbers")

    def __init__(
        self,
        cuts: tuple[Cut, ...],
        numbers: tuple[Any, ...],
        kept: tuple[tuple[slice | None, ...] | None, ...],
        flat: tuple[slice | None, ...] = (),
    ) -> None:
        self.cuts, self.numbers, self.kept, self.flat = cuts, numbers, kept, flat

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.cuts, self.numbers, self.kept, self.flat)


def pieces_of(cut: Cut) -> int:
    """The number of pieces that a buffer is assembled from."""
    return 1 if isinstance(cut, Whole) else prod(map(len, cut))


def assembled(cut: Cut, pieces: Sequence[Any], dtype: Any) -> Any:
    """A row-major buffer assembled from chunks; `ShapeError` if they lack part of it."""
    if isinstance(cut, Whole):
        return np.asarray(_of_shape(pieces[0], cut.shape), order="C")
    if cut and cut[0] == (ALL,):
        return np.concatenate([array for arrays in pieces[0] for array in arrays])
    if len(pieces) == 1:
        return np.asarray(_part(pieces[0], [p for (p,) in cut]), order="C")
    made = POOL.allocate(tuple(along[-1][1] if along else 0 for along in cut), np.dtype(dtype))
    for at, piece in zip(product(*cut), pieces, strict=True):
        target = tuple(slice(p[0], p[1]) for p in at)
        made[target] = _part(piece, at)
    return made


def _part(chunk: Any, at: Sequence[Piece]) -> Any:
    """A part of a chunk.  Verifies that the chunk contains it, since kernels read all of it."""
    if len(chunk.shape) != len(at):
        raise _other(chunk.shape, f"{len(at)} axes")
    indices = tuple([slice(p[2], p[3] or None) for p in at])
    return _of_shape(chunk[indices], tuple([p[1] - p[0] for p in at]))


def _of_shape(part: Any, shape: tuple[int, ...]) -> Any:
    if part.shape != shape:
        raise _other(part.shape, str(shape))
    return part


def _other(found: tuple[int, ...], wanted: str) -> ShapeError:
    return ShapeError(
        f"a chunk, or a part of it, has the shape {found}, and its array says {wanted}.",
        hint="x.compute_chunk_sizes() asks the chunks of an array of dask for their extents.",
    )


def kept(block: Block, found: Sequence[Any]) -> list[Any]:
    """The parts of a program's results that a block keeps: as views if these are dense and at least
    seven eighths of the results, otherwise as copies."""
    made = []
    for array, part in zip(found, block.kept, strict=True):
        own = array if part is None else array[part]
        dense = own.flags.c_contiguous and 8 * own.nbytes >= 7 * array.nbytes
        made.append(own if dense else np.array(own, order="C"))
    return made
