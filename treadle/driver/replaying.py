"""Replay functions: calls like earlier ones, made without a look at the types of their arguments.

The structure of arguments (tuples, lists, dicts, dataclasses) is found once.  A call that has it is
opened into arrays and numbers, which the program's own replay function compares with its records.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from typing import TypeAlias

import numpy as np

from treadle.dsl.array import Array
from treadle.dsl.frontend.evaluation import values_now
from treadle.dsl.frontend.sources import IN_PARTS, PLAIN_ARRAYS, is_arraylike
from treadle.dsl.frontend.tracing import is_tracing
from treadle.dsl.types import is_composite

from .arguments import is_constant
from .binding import Value
from .program import Program

Replay: TypeAlias = Callable[..., Value]

#: Puts the arrays and numbers of a value into a list; False for a value of another structure.
_Opener: TypeAlias = Callable[[Value, list[object]], bool]

#: Classes of scalar arguments that replayed calls may have, in addition to plain arrays.
_REPLAYED = frozenset((float, int, bool, complex))

#: In addition, NumPy's scalars that kernels take with the bits of Python's numbers.
_AS_PYTHONS: dict[type, Callable[..., object]] = {
    **{kind: kind for kind in _REPLAYED},
    np.float64: float,
    np.int64: int,
    np.bool_: bool,
    np.complex128: complex,
}

_PROGRAMS = 4


class Replays:
    """Functions that replay calls like earlier ones: those of the programs called last."""

    def __init__(self, known: Sequence[tuple[Program, Replay]] = ()) -> None:
        self._known = known
        self.functions = tuple(replay for _, replay in known)

    def having(self, program: Program, replay: Replay) -> Replays:
        """These, and one more."""
        others = [known for known in self._known if known[0] is not program]
        return Replays([(program, replay), *others[: _PROGRAMS - 1]])


def replay_for(
    program: Program,
    args: Sequence[object],
    data: Sequence[object],
    params: Sequence[object],
    as_arrays: bool = False,
) -> Replay | None:
    """After a call: a function that replays calls with arguments of this structure and of these
    classes, or returns None; None where calls are never replayed.  `data` and `params` are the
    arrays and the numbers in `args`."""
    try:
        parts = [_opener(a, program) for a in args]
    except _NeverReplayed:
        return None
    first: list[object] = []
    if not _opened(parts, args, first):
        return None
    if any(type(a) is int and a.bit_length() > 63 for a in first):
        return None  # (a uint64 of this size is called without, later ones, too)
    own = [_AS_PYTHONS[type(a)](a) if type(a) in _AS_PYTHONS else a for a in params]
    replay = program.replay(first, data, own, as_arrays)
    if replay is None or not any(parts):
        return replay
    count = len(args)

    def opened(*given: Value) -> Value:
        flat: list[object] = []
        return replay(*flat) if len(given) == count and _opened(parts, given, flat) else None

    return opened


class _NeverReplayed(Exception):
    """An argument that must be converted before each call."""


def _opened(parts: Sequence[_Opener | None], values: Collection[Value], into: list[object]) -> bool:
    for part, value in zip(parts, values, strict=True):
        if part is None:
            into.append(value)
        elif not part(value, into):
            return False
    return True


def _opener(value: Value, program: Program) -> _Opener | None:
    """What opens values of this structure; None where the value is an array or a number itself."""
    kind = type(value)
    if kind in _REPLAYED or kind in PLAIN_ARRAYS or kind in IN_PARTS:
        return None
    if isinstance(value, np.generic):
        return _opener_of_scalars(kind, program)
    if isinstance(value, dict):
        keys = list(value)
        return _opener_of_containers(
            kind, list(value.values()), program, lambda d: d.values() if list(d) == keys else None
        )
    if isinstance(value, tuple | list):
        return _opener_of_containers(kind, value, program)
    if is_composite(value):
        names = [f.name for f in fields(value) if f.init]
        get = operator.attrgetter(*names) if len(names) > 1 else None
        items = get or (lambda v: [getattr(v, name) for name in names])
        return _opener_of_containers(kind, items(value), program, items)
    if kind is Array:
        return _opener_of_arrays(value)
    if is_constant(value) and not is_arraylike(value):
        return _opener_of_constants(value)
    raise _NeverReplayed


def _opener_of_containers(
    kind: type,
    values: Collection[Value],
    program: Program,
    items: Callable[[Value], Collection[Value] | None] = lambda value: value,
) -> _Opener:
    parts = [_opener(v, program) for v in values]
    count, nested = len(parts), any(parts)

    def opened(value: Value, into: list[object]) -> bool:
        if type(value) is not kind:
            return False
        found = items(value)
        if found is None or len(found) != count:
            return False
        if nested:
            return _opened(parts, found, into)
        into.extend(found)
        return True

    return opened


def _opener_of_scalars(kind: type, program: Program) -> _Opener:
    """NumPy's scalars become numbers of Python's with the bits that kernels take."""
    number = (_AS_PYTHONS | (program.offered("other_numbers") or {})).get(kind)
    if number is None:
        raise _NeverReplayed

    def opened(value: Value, into: list[object]) -> bool:
        if type(value) is not kind:
            return False
        into.append(number(value))
        return True

    return opened


def _opener_of_arrays(array: Array) -> _Opener:
    structure = array.structure

    def opened(value: Value, into: list[object]) -> bool:
        if type(value) is not Array or value.structure != structure or is_tracing():
            return False
        found = values_now(value)
        if found is None:
            return False
        into.extend(found)
        return True

    return opened


def _opener_of_constants(constant: object) -> _Opener:
    """Text, functions and types are a part of the program."""

    def opened(value: Value, into: list[object]) -> bool:
        return value is constant or (type(value) is type(constant) is str and value == constant)

    return opened
