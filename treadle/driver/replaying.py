"""Replay functions for calls with numbers: of Python's and of NumPy's classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dsl.frontend.sources import PLAIN_ARRAYS

from .program import Program

#: Classes of scalar arguments that replayed calls may have, in addition to plain arrays.
_REPLAYED = frozenset((float, int, bool))


#: In addition, NumPy's scalars that kernels take with the bits of Python's numbers.
_AS_PYTHONS: dict[type, Callable[..., object]] = {
    **{kind: kind for kind in _REPLAYED},
    np.float64: float,
    np.int64: int,
    np.bool_: bool,
}


def never(*args: Any) -> None:
    """A replay function that accepts no call."""


def replay_for(
    program: Program, args: Sequence[object], data: Sequence[object], params: Sequence[object]
) -> Callable[..., Any] | None:
    """After a call: a function that replays calls with arguments of these classes, or returns None;
    None for classes that are never replayed."""
    if all(type(a) in _REPLAYED or type(a) in PLAIN_ARRAYS for a in args):
        return program.replay(args, data, params) or never
    kinds = tuple(map(type, args))
    if not all(issubclass(kind, np.generic) for kind in set(kinds) - _REPLAYED - PLAIN_ARRAYS):
        return None
    numbers = _AS_PYTHONS | (program.offered("other_numbers") or {})
    if not all(kind in numbers or kind in PLAIN_ARRAYS for kind in kinds):
        return None
    changes = [(k, numbers[kind]) for k, kind in enumerate(kinds) if kind in numbers]

    def converted(given: Sequence[object]) -> list[object]:
        made = list(given)
        for k, number in changes:
            made[k] = number(made[k])
        return made

    first = converted(args)
    if any(type(a) is int and a.bit_length() > 63 for a in first):
        return None  # (a uint64 of this size is called without, later ones, too)
    own = [_AS_PYTHONS[type(a)](a) if type(a) in _AS_PYTHONS else a for a in params]
    replay = program.replay(first, data, own)
    if replay is None:
        return None
    return lambda *given: replay(*converted(given)) if tuple(map(type, given)) == kinds else None
