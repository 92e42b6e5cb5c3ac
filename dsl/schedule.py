"""A schedule, as the language sees it: a value that labels carry and operations check.

The schedules themselves are in `treadle.skeletons.schedules`; both their layers (`Column(256)`) and
their compositions (`Column(256) | Block(8, 32)`) become one by `as_schedule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from .errors import Location, ScheduleError


class Schedule(Protocol):
    """Layers that say in which order, by whom and in what grains elements are computed."""

    @property
    def layers(self) -> tuple[Any, ...]:
        """The layers that are fixed; none: everything is left open."""

    def as_schedule(self) -> Schedule:
        """Itself (a layer: the schedule of that layer alone)."""

    def require(
        self, axes: int, extents: Sequence[int] | None = None, *, line: bool = False,
        own_orders: bool = True,
    ) -> None:  # fmt: skip
        """Refuse (`ScheduleError`) what does not fit an operation of so many axes, nor, where its
        `extents` are given, an order that cannot number them.  `line`: its axes are taken as one.
        Without `own_orders`, orders that a user wrote are not tried."""

    def along_a_line(self) -> Schedule:
        """This schedule for a domain whose axes are taken as one."""

    def to_dict(self) -> dict[str, Any]:
        """What files hold."""

    def __eq__(self, other: object) -> bool:
        """A schedule of one layer equals that layer."""


class ScheduleTypeError(ScheduleError, TypeError):
    """An argument of the wrong kind: caught as ``ScheduleError`` and as ``TypeError``.

    >>> issubclass(ScheduleTypeError, TypeError)
    True
    """


# Tracebacks show its public name, and pickles find it there.
ScheduleTypeError.__module__, ScheduleTypeError.__qualname__ = (
    "treadle", "schedule.ScheduleTypeError")  # fmt: skip


def as_schedule(value: Any) -> Schedule:
    """The schedule that a value stands for; `ScheduleTypeError` for anything else."""
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
    """Errors of schedules raised inside say which operation they are about, and where it is.

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
        apart = where is not None and (
            here is None or (here.file, here.line) != (where.file, where.line)
        )
        raise type(error)(
            f"{label}: {error.message}",
            hint=error.hint,
            where=here,
            also=(*error.also, *((("the operation is written here:", where),) if apart else ())),
        ) from error.__cause__


__all__ = ["Schedule", "ScheduleError", "ScheduleTypeError", "as_schedule", "of_operation"]
