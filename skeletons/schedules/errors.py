"""The errors of schedules: every one says what was wrong and what to write instead."""

from __future__ import annotations

from treadle.dsl.errors import ScheduleError


class ScheduleTypeError(ScheduleError, TypeError):
    """An argument of the wrong kind: caught as ``ScheduleError`` and as ``TypeError``.

    >>> issubclass(ScheduleTypeError, TypeError)
    True
    """


__all__ = ["ScheduleError", "ScheduleTypeError"]
