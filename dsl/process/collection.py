"""Python's collector of cycles, which runs rarely while programs are made.

Tracing, passes and lowering make many small objects that stay.  With Python's usual threshold the
collector would traverse them dozens of times during a first call, and find nothing.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from . import locks

P = ParamSpec("P")
T = TypeVar("T")

#: Objects that can be made between two collections meanwhile: some 20 MB, if all are garbage.
OBJECTS = 100_000

_usual = [gc.get_threshold()]  # before the last change


def collected_rarely(function: Callable[P, T]) -> Callable[P, T]:
    """The function, during which the collector runs once per `OBJECTS` objects.

    Nothing changes inside another such function, in this thread or another, or where collections
    are off or rarer already.  The thresholds are those of before when the function ends, with an
    exception as well.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        usual = gc.get_threshold()
        if not 0 < usual[0] < OBJECTS:
            return function(*args, **kwargs)
        _usual[0] = usual
        try:
            gc.set_threshold(OBJECTS, *usual[1:])
            return function(*args, **kwargs)
        finally:
            # A single call, before which Python does not look for signals.
            gc.set_threshold(*usual)

    return called


def _restore() -> None:
    """In the child of a fork, where the thread that changed the thresholds may not exist."""
    if gc.get_threshold()[0] == OBJECTS:
        gc.set_threshold(*_usual[0])


locks.after_fork(_restore)
