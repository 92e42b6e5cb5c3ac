"""The interface of a schedule: a value attached to labels and validated by operations.

Schedules are implemented in `treadle.skeletons.schedules`.  `as_schedule` converts both layers
(`Column(256)`) and their compositions (`Column(256) | Block(8, 32)`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from .errors import Location, ScheduleError


class Schedule(Protocol):
    """Layers that determine the order, threads and blocks in which elements are computed."""

    @property
    def layers(self) -> tuple[Any, ...]:
        """The fixed layers; empty if the schedule is left open."""

    def as_schedule(self) -> Schedule:
        """The schedule itself; for a layer, the schedule with that layer alone."""

    def require(
        self, axes: int, extents: Sequence[int] | None = None, *, line: bool = False,
        user_orders: bool = True,
    ) -> None:  # fmt: skip
        """Raise `ScheduleError` unless the schedule fits an operation with this number of axes and,
        if `extents` are given, its order can enumerate them.  `line`: the axes are treated as one.
        Without `user_orders`, user-defined orders are not evaluated."""

    def along_a_line(self) -> Schedule:
        """This schedule for a domain whose axes are treated as one."""

    def to_dict(self) -> dict[str, Any]:
        """The schedule as plain data, for files."""

    def __eq__(self, other: object) -> bool:
        """A schedule with one layer equals that layer."""


class ScheduleTypeError(ScheduleError, TypeError):
    """An argument of the wrong type: caught as ``ScheduleError`` and as ``TypeError``.

    >>> issubclass(ScheduleTypeError, TypeError)
    True
    """


# Tracebacks show the public name, by which pickles find the class.
ScheduleTypeError.__module__, ScheduleTypeError.__qualname__ = (
    "treadle", "schedule.ScheduleTypeError")  # fmt: skip


def as_schedule(value: Any) -> Schedule:
    """Convert a value to a schedule; `ScheduleTypeError` if that is impossible."""
    made = getattr(value, "as_schedule", None)
    if made is None:
        raise ScheduleTypeError(
            f"a schedule is made of layers, got {value!r} ({type(value).__name__}).",
            hint="For example Column(256), or Row() | Block(8, 32) | PerThread(rows=8), or Auto().",
        )
    if isinstance(value, type):
        raise ScheduleTypeError(
            f"{value.__name__} is the class, not a layer.",
            hint=f"Write {value.example()}." if hasattr(value, "example") else None,
        )
    found: Schedule = made()
    return found


@contextmanager
def of_operation(label: object, where: Location | None) -> Iterator[None]:
    """Add the operation and its location to schedule errors raised in the block.

    >>> try:
    ...     with of_operation("stencil 'blur'", None):
    ...         raise ScheduleError("Block(2, 2) has 2 axes, the operation has 1.")
    ... except ScheduleError as error:
    ...     print(error.message)
    stencil 'blur': Block(2, 2) has 2 axes, the operation has 1.
    """
    try:
        yield
    except ScheduleError as error:
        here = error.where
        elsewhere = where is not None and (
            here is None or (here.file, here.line) != (where.file, where.line)
        )
        raise type(error)(
            f"{label}: {error.message}",
            hint=error.hint,
            where=here,
            also=(
                *error.also,
                *((("the operation is written here:", where),) if elsewhere else ()),
            ),
        ) from error.__cause__


__all__ = ["Schedule", "ScheduleError", "ScheduleTypeError", "as_schedule", "of_operation"]
