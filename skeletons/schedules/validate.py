"""Parameter checks for layers; their errors show the wrong call and the right form."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable

from treadle.dsl.scalar import run_time_argument
from treadle.dsl.schedule import ScheduleError, ScheduleTypeError

from .layers import Layer, legal_form, literal


def integer(layer: Layer, name: str, least: int | None = 1) -> None:
    """Checks and normalises an integer parameter of a layer under construction.

    Raises ``ScheduleTypeError`` for anything but an integer, ``ScheduleError`` below ``least``.
    """
    value = checked_integer(getattr(layer, name), type(layer), name, least)
    object.__setattr__(layer, name, value)


def checked_integer(value: object, owner: type[Layer], name: str, least: int | None) -> int:
    """``value`` as an ``int`` that is at least ``least``, or an error that shows the form.

    >>> checked_integer(8, Layer, "width", 1)
    8
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        of_the_run = run_time_argument(value, f"{owner.__name__}: {name}")
        if of_the_run is not None:
            raise ScheduleTypeError(of_the_run.message, hint=of_the_run.hint) from None
        raise ScheduleTypeError(
            f"{owner.__name__}: {name} must be an integer, got {literal(value)} "
            f"({type(value).__name__}).",
            hint=f"The form is {legal_form(owner)}.",
        ) from None
    if least is not None and number < least:
        raise ScheduleError(
            f"{owner.__name__}: {name} must be {least} or more, got {number}.",
            hint=f"The form is {legal_form(owner)}.",
        )
    return number


def choice(value: object, legal: Iterable[str], owner: type[Layer], name: str) -> str:
    """``value`` when it is one of a few words; else an error that lists them.

    >>> choice("mst", ("mst", "kway"), Layer, "method")
    'mst'
    """
    words = tuple(legal)
    if isinstance(value, str) and value in words:
        return value
    kind = ScheduleError if isinstance(value, str) else ScheduleTypeError
    raise kind(
        f"{owner.__name__}: {name} must be one of {', '.join(map(literal, words))}, "
        f"got {literal(value)}.",
        hint=did_you_mean(value, words),
    )


def did_you_mean(word: object, legal: Iterable[str]) -> str | None:
    """A suggestion for a misspelt word, if one is near.

    >>> did_you_mean("strem", ["stream", "random"])
    'Did you mean "stream"?'
    """
    near = difflib.get_close_matches(str(word), list(legal), 1)
    return f"Did you mean {literal(near[0])}?" if near else None
