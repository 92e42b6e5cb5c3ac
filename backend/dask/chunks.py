"""The blocks of arrays that a call of `td.stream` gives by `chunks=`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.dsl.errors import ShapeError

from ..blocks.domain import Chunks
from ..blocks.engine import cut


def given_chunks(given: Any, sources: Sequence[Any]) -> list[Chunks | None]:
    """The blocks of each array; None: as memory allows."""
    shapes = [tuple(int(n) for n in s.shape) for s in sources]
    if given is None:
        return [None] * len(shapes)
    ranks = sorted({len(shape) for shape in shapes} - {0})
    if isinstance(given, tuple | list) and len(given) not in ranks:
        raise ShapeError(
            f"chunks has {len(given)} extents, and the arrays have "
            f"{' or '.join(map(str, ranks)) or 'no'} axes."
        )
    return [
        tuple(_sizes(size, n, given) for size, n in zip(sizes, shape, strict=True))
        if shape and len(sizes := _per_axis(given, len(shape))) == len(shape)
        else None
        for shape in shapes
    ]


def _per_axis(given: Any, rank: int) -> Sequence[Any]:
    return given if isinstance(given, tuple | list) else (given,) * rank


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
