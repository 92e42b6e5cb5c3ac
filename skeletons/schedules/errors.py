"""The errors of schedules: every one says what was wrong and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.dsl.errors import Location, ScheduleError


class ScheduleTypeError(ScheduleError, TypeError):
    """An argument of the wrong kind: caught as ``ScheduleError`` and as ``TypeError``.

    >>> issubclass(ScheduleTypeError, TypeError)
    True
    """


# Tracebacks show its public name, and pickles find it there.
ScheduleTypeError.__module__, ScheduleTypeError.__qualname__ = (
    "treadle", "schedule.ScheduleTypeError")  # fmt: skip


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


__all__ = ["ScheduleError", "ScheduleTypeError", "of_operation"]
