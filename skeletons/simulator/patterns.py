"""Access patterns: which addresses an output touches; with a schedule, a trace.

Addresses count elements of one address space in which the arrays lie one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import ScheduleError
from treadle.skeletons.schedules import Row, as_schedule
from treadle.skeletons.schedules.examine import evaluate

Addresses = NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    """Addresses in the order of their access, and the time step (output) of each.

    `span`: one more than the largest address; `steps`: how many outputs were computed.
    """

    addresses: Addresses
    step: NDArray[np.int32]
    span: int
    steps: int


@dataclass(frozen=True)
class Placed:
    """An array of an address space: its elements lie row by row from address `base` on."""

    name: str
    base: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Pattern:
    """`touched(points)`: for outputs at `points` (N, rank), their addresses (N, taps).

    Negative addresses are none (a tap that an output does not make).  `arrays` says what lies
    where, for pictures; without it the addresses are one row.
    """

    name: str
    shape: tuple[int, ...]
    touched: Callable[[Addresses], Addresses]
    span: int
    arrays: tuple[Placed, ...] = ()

    def trace(self, schedule: Any = None, at_once: int = 1) -> Trace:
        """The accesses under a schedule; `at_once` consecutive outputs share a time step."""
        points = visited(schedule, self.shape)
        touched = self.touched(points)
        step = np.repeat(np.arange(len(points), dtype=np.int32) // at_once, touched.shape[1])
        flat = touched.reshape(-1)
        kept = flat >= 0
        if not kept.all():
            flat, step = flat[kept], step[kept]
        return Trace(np.ascontiguousarray(flat), step, self.span, -(-len(points) // at_once))


def visited(schedule: Any, shape: tuple[int, ...]) -> Addresses:
    """The elements of `shape` in the order of a schedule, one coordinate tuple a row.

    Units of several elements (blocks, several outputs of a thread) are visited whole, row-major.
    """
    plan = as_schedule(Row() if schedule is None else schedule).resolve(len(shape))
    if all(u == 1 for u in plan.unit):
        return evaluate(plan.order, shape)
    grid = tuple(-(-n // u) for n, u in zip(shape, plan.unit, strict=True))
    origins = evaluate(plan.order, grid) * np.array(plan.unit)
    inside = np.stack(np.meshgrid(*map(np.arange, plan.unit), indexing="ij"), -1)
    points = (origins[:, None, :] + inside.reshape(1, -1, len(shape))).reshape(-1, len(shape))
    found: Addresses = points[(points < np.array(shape)).all(1)]
    return found


def stencil_pattern(rows: int, cols: int, height: int, width: int) -> Pattern:
    """A height × width stencil over rows × cols outputs, without handling of borders.

    Indices outside wrap into the neighbouring rows; addresses begin at 0 with the first tap of
    the first output, and the very last address is left out (Prasetya 2021, figure 4).

    >>> trace = stencil_pattern(16, 16, 7, 7).trace()
    >>> len(trace.addresses), trace.span
    (12543, 357)
    """
    if height % 2 == 0 or width % 2 == 0:
        raise ScheduleError(f"a {height} x {width} stencil has no centre.",
                            hint="Choose odd extents.")  # fmt: skip
    dy, dx = np.arange(height) - height // 2, np.arange(width) - width // 2
    offsets = np.sort((dy[:, None] * cols + dx[None, :]).reshape(-1))
    first = -int(offsets[0])
    span = rows * cols - 1 + 2 * first

    def touched(points: Addresses) -> Addresses:
        centre = points[:, 0] * cols + points[:, 1] + first
        found = centre[:, None] + offsets[None, :]
        return np.where(found < span, found, -1)

    image = Placed("image", 0, (-(-span // cols), cols))
    return Pattern(f"{height}×{width} stencil", (rows, cols), touched, span, (image,))


def matmul_pattern(m: int, n: int, k: int) -> Pattern:
    """The naive product: output (i, j) reads a[i, 0], b[0, j], a[i, 1], …; B lies behind A.

    >>> matmul_pattern(16, 16, 16).span
    512
    """
    inner = np.arange(k)

    def touched(points: Addresses) -> Addresses:
        a = points[:, :1] * k + inner
        b = m * k + inner * n + points[:, 1:]
        return np.stack((a, b), -1).reshape(len(points), 2 * k)

    placed = (Placed("a", 0, (m, k)), Placed("b", m * k, (k, n)))
    return Pattern("matrix product", (m, n), touched, m * k + k * n, placed)


def transpose_pattern(rows: int, cols: int) -> Pattern:
    """Output (i, j) of rows × cols reads in[j, i] and writes out[i, j], which lies behind."""

    def touched(points: Addresses) -> Addresses:
        i, j = points[:, 0], points[:, 1]
        return np.stack((j * rows + i, rows * cols + i * cols + j), -1)

    placed = (Placed("a", 0, (cols, rows)), Placed("result", rows * cols, (rows, cols)))
    return Pattern("transposition", (rows, cols), touched, 2 * rows * cols, placed)
