"""Access patterns: the addresses that an output accesses; with a schedule, a trace.

Addresses count the elements of one address space, in which arrays are stored consecutively.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import ScheduleError, user_facing_class, user_facing_maker
from treadle.dsl.schedule import Schedule
from treadle.skeletons.schedules import Row, as_schedule
from treadle.skeletons.schedules.examine import evaluate, extents_of

Addresses = NDArray[np.int64]
#: Accesses in a chunk of a trace: few enough to stay in a cache of the CPU.
PIECE = 1 << 18


@dataclass(frozen=True)
class Trace:
    """Addresses in the order of their access, and the time step (output) of each, not descending.

    `span`: one more than the largest address; `steps`: how many outputs were computed.

    >>> import treadle as td
    >>> td.simulator.transpose_pattern(4, 8).trace().steps
    32
    """

    addresses: Addresses
    step: NDArray[np.int32]
    span: int
    steps: int


@dataclass(frozen=True)
class Placed:
    """An array in an address space, stored row by row from address `base` on.

    >>> import treadle as td
    >>> td.simulator.Placed("a", 0, (4, 8)).shape
    (4, 8)
    """

    name: str
    base: int
    shape: tuple[int, ...]


@user_facing_class
@dataclass(frozen=True)
class Pattern:
    """`touched(points)`: for outputs at `points` (N, rank), their addresses (N, taps).

    A negative address means no access (a tap that an output does not use); all are below `span`.
    `arrays` puts arrays in the address space, for pictures; without it, addresses form one row.

    Raises `ScheduleError`; for results of `touched`, when a trace is built.

    >>> import treadle as td
    >>> td.simulator.transpose_pattern(4, 8).shape
    (4, 8)
    """

    name: str
    shape: tuple[int, ...]
    touched: Callable[[Addresses], Addresses]
    span: int
    arrays: tuple[Placed, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", extents_of(self.shape))
        object.__setattr__(self, "span", count_of(self.span, "span", 0))
        if not callable(self.touched):
            raise ScheduleError(
                f"the pattern {self.name!r} has no function of points to addresses, but "
                f"{self.touched!r}.", hint=_TOUCHED)  # fmt: skip

    def trace(self, schedule: Any = None, at_once: int = 1) -> Trace:
        """The accesses under a schedule; `at_once` consecutive outputs share a time step."""
        at_once = count_of(at_once, "at_once")
        points = visited(schedule, self.shape)
        return self._accesses(points, 0, at_once)

    def pieces(self, schedule: Any = None, at_once: int = 1) -> Iterator[Trace]:
        """The trace in chunks of about `PIECE` accesses, with the steps of the complete trace."""
        at_once = count_of(at_once, "at_once")
        points = visited(schedule, self.shape)
        taps = self._addresses(points[:16]).shape[1]
        size = max(PIECE // max(taps * at_once, 1), 1) * at_once  # complete steps
        for begin in range(0, len(points), size):
            yield self._accesses(points[begin : begin + size], begin, at_once)

    def _accesses(self, points: Addresses, begin: int, at_once: int) -> Trace:
        """The trace of outputs at `points`, the first of which has index `begin`."""
        touched = self._addresses(points)
        output = np.arange(begin, begin + len(points), dtype=np.int32)
        step = np.repeat(output if at_once == 1 else output // at_once, touched.shape[1])
        flat = touched.reshape(-1)
        if flat.size and flat.min() < 0:
            kept = flat >= 0
            flat, step = flat[kept], step[kept]
        return Trace(np.ascontiguousarray(flat), step, self.span, -(-len(points) // at_once))

    def _addresses(self, points: Addresses) -> Addresses:
        """The addresses that `touched` returns for `points`, validated."""
        found = np.asarray(self.touched(points))
        if found.ndim != 2 or len(found) != len(points) or found.dtype.kind not in "iu":
            raise ScheduleError(
                f"the pattern {self.name!r}: {len(points)} points touch {found.dtype} of shape "
                f"{found.shape}.", hint=_TOUCHED)  # fmt: skip
        most = int(found.max(initial=-1))
        if most >= self.span:
            raise ScheduleError(
                f"the pattern {self.name!r} touches address {most}, beyond its span of "
                f"{self.span}.",
                hint=f"Its span is one more than the largest address: {most + 1}, or more.",
            )
        return found.astype(np.int64, copy=False)


_TOUCHED = ("For N points, an integer array of shape (N, rank), it returns their addresses, an "
            "integer array of shape (N, taps): lambda p: p[:, :1] * 640 + p[:, 1:].")  # fmt: skip


def count_of(value: Any, name: str, least: int = 1) -> int:
    """An argument as an int of at least `least`; `ScheduleError` if it is not one."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ScheduleError(f"{name} must be an integer of at least {least}, got {value!r}.",
                            hint=f"Write {name}={max(least, 1)}, or more.")  # fmt: skip
    return number


def visited(schedule: Schedule | None, shape: tuple[int, ...]) -> Addresses:
    """The elements of `shape` in the order of a schedule, one coordinate tuple per row.

    Units of several elements (blocks, several outputs of a thread) are visited one after the other,
    each in row-major order.
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


@user_facing_maker
def stencil_pattern(rows: int, cols: int, height: int, width: int) -> Pattern:
    """A height × width stencil over rows × cols outputs, without boundary handling.

    Indices outside wrap into the neighbouring rows; address 0 is the first tap of the first output,
    and the very last address is left out (Prasetya 2021, figure 4).

    Parameters
        rows: a number of rows.
        cols: a number of columns.
        height: the number of rows.
        width: the number of columns.

    Result: a `Pattern`.

    >>> trace = stencil_pattern(16, 16, 7, 7).trace()
    >>> len(trace.addresses), trace.span
    (12543, 357)
    """
    rows, cols, height, width = (
        count_of(n, name) for n, name in
        ((rows, "rows"), (cols, "cols"), (height, "height"), (width, "width"))
    )  # fmt: skip
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


@user_facing_maker
def matmul_pattern(m: int, n: int, k: int) -> Pattern:
    """The naive product: output (i, j) reads a[i, 0], b[0, j], a[i, 1], …; B is stored after A.

    Parameters
        m: rows of the product.
        n: an integer ≥ 1.
        k: the summed extent.

    Result: a `Pattern`.

    >>> matmul_pattern(16, 16, 16).span
    512
    """
    m, n, k = (count_of(x, name) for x, name in ((m, "m"), (n, "n"), (k, "k")))
    inner = np.arange(k)

    def touched(points: Addresses) -> Addresses:
        a = points[:, :1] * k + inner
        b = m * k + inner * n + points[:, 1:]
        return np.stack((a, b), -1).reshape(len(points), 2 * k)

    placed = (Placed("a", 0, (m, k)), Placed("b", m * k, (k, n)))
    return Pattern("matrix product", (m, n), touched, m * k + k * n, placed)


@user_facing_maker
def transpose_pattern(rows: int, cols: int) -> Pattern:
    """Output (i, j) of rows × cols reads in[j, i] and writes out[i, j], which is stored after.

    Parameters
        rows: a number of rows.
        cols: a number of columns.

    Result: a `Pattern`.

    >>> import treadle as td
    >>> td.simulator.transpose_pattern(4, 8).shape
    (4, 8)
    """
    rows, cols = count_of(rows, "rows"), count_of(cols, "cols")

    def touched(points: Addresses) -> Addresses:
        i, j = points[:, 0], points[:, 1]
        return np.stack((j * rows + i, rows * cols + i * cols + j), -1)

    placed = (Placed("a", 0, (cols, rows)), Placed("result", rows * cols, (rows, cols)))
    return Pattern("transposition", (rows, cols), touched, 2 * rows * cols, placed)
