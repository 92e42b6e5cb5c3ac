"""Blocks, outputs per thread, lanes and staging: how a block is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from treadle.dsl.schedule import ScheduleTypeError

from .layers import Layer
from .validate import checked_integer, integer


class Block(Layer):
    """What one thread block (one task on the CPU) covers, in elements: ``Block(rows, cols)``.

    Any number of axes: ``Block(256)``, ``Block(8, 32)``, ``Block(4, 8, 32)``. The extents belong
    to the last axes; a block has extent 1 along the axes before them. With ``PerThread`` a block
    has fewer threads than elements, not more elements.

    >>> Block(8, 32), Block(8, 32).extents
    (Block(8, 32), (8, 32))
    """

    slot = "block"
    extents: tuple[int, ...]

    def __init__(self, *extents: int) -> None:
        if not extents:
            raise ScheduleTypeError(
                "Block: at least one extent is needed.", hint="Write Block(256) or Block(8, 32)."
            )
        checked = tuple(checked_integer(n, Block, "an extent", 1) for n in extents)
        object.__setattr__(self, "extents", checked)

    def arguments(self) -> dict[str, Any]:
        return {"extents": self.extents}

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        return cls(*arguments["extents"])

    def __repr__(self) -> str:
        return f"Block({', '.join(map(str, self.extents))})"


class PerThread(Layer):
    """The outputs that one thread computes: ``rows`` x ``cols`` neighbours on the last two axes.

    >>> PerThread(rows=8), PerThread()
    (PerThread(rows=8), PerThread())
    """

    slot = "per_thread"
    rows: int = 1
    cols: int = 1

    def __post_init__(self) -> None:
        integer(self, "rows")
        integer(self, "cols")

    @property
    def extents(self) -> tuple[int, ...]:
        """The outputs along the last axes, as the extents of a ``Block``."""
        return (self.rows, self.cols) if self.rows > 1 else (self.cols,)


class Lanes(Layer):
    """The axis of a block along which the 32 lanes of a warp are placed; by default the last axis.

    On a CPU it is the axis of the vectors. Lanes apply to blocks: without a ``Block``, blocks have
    32 elements along this axis and 8 along the last.

    >>> Lanes(0)
    Lanes(0)
    """

    slot = "lanes"
    axis: int

    def __post_init__(self) -> None:
        integer(self, "axis", least=None)


class Stage(Layer):
    """Stages in shared memory what a block reads more than once: neighbours, transposed reads.

    It makes an order visit blocks, of 8 x 32 elements unless there is a ``Block``. It has no effect
    on a CPU, where the caches do this.

    >>> Block(8, 32) | Stage()
    Block(8, 32) | Stage()
    """

    slot = "stage"
