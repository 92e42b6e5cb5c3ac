"""Schedules as plain dictionaries, for files. Never pickle: reading runs no code of the file, and
finds a user-defined order only in a module that has been imported already.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from treadle.dsl.errors import user_facing
from treadle.dsl.graphs.encoding import import_first, imported
from treadle.dsl.schedule import ScheduleError

from .layers import Layer, is_built_in
from .schedule import SLOTS, VERSION, Schedule, ScheduleLike, as_schedule


@user_facing
def to_dict(schedule: ScheduleLike) -> dict[str, Any]:
    """``Schedule.to_dict`` for a schedule or a layer.

    Parameters
        schedule: a schedule or a layer.

    Result: a dictionary that JSON can store.

    >>> from treadle.skeletons.schedules import Block, Column
    >>> to_dict(Column(256) | Block(8, 32))["order"]
    {'kind': 'Column', 'width': 256}
    """
    return as_schedule(schedule).to_dict()


@user_facing
def from_dict(data: Mapping[str, Any]) -> Schedule:
    """The schedule that ``to_dict`` wrote; raises ``ScheduleError`` for anything else.

    Parameters
        data: what `to_dict` returned.

    Result: a `Schedule`.

    >>> from treadle.skeletons.schedules import Block, Column
    >>> from_dict(to_dict(Column(256) | Block(8, 32)))
    Column(256) | Block(8, 32)
    """
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise ScheduleError(
            f"not a schedule of version {VERSION}: {data!r}.",
            hint="Write it with to_dict(schedule).",
        )
    schedule = Schedule()
    for slot, entry in data.items():
        if slot == "version":
            continue
        if slot not in SLOTS or not isinstance(entry, Mapping) or "kind" not in entry:
            raise ScheduleError(f"not a layer of a schedule: {slot!r}: {entry!r}.")
        arguments = {key: _frozen(value) for key, value in entry.items() if key != "kind"}
        try:
            layer = _class_of(entry["kind"]).from_arguments(arguments)
        except (KeyError, TypeError) as error:
            raise ScheduleError(
                f"a stored layer is damaged: {slot!r}: {entry!r} ({error})."
            ) from error
        if layer.slot != slot:
            raise ScheduleError(f"{layer!r} is not the {slot} of a schedule.")
        schedule = schedule | layer
    return schedule


@functools.cache
def _built_in() -> dict[str, type[Layer]]:
    """The built-in layers by name: the classes without built-in subclasses."""

    def leaves(cls: type[Layer]) -> Iterator[type[Layer]]:
        derived = [c for c in cls.__subclasses__() if is_built_in(c)]
        yield from (leaf for c in derived for leaf in leaves(c)) if derived else (cls,)

    return {cls.__name__: cls for cls in leaves(Layer)}


def _class_of(kind: object) -> type[Layer]:
    if isinstance(kind, str) and kind in _built_in():
        return _built_in()[kind]
    module, _, name = kind.partition(":") if isinstance(kind, str) else ("", "", "")
    found: Any = None
    if module and name:
        try:
            found = imported(f"{module}:{name}")
        except LookupError as error:
            raise ScheduleError(
                f"the class of a stored layer is not here: {kind!r} ({error.args[0]}).",
                hint=import_first(module),
            ) from None
    if not (isinstance(found, type) and issubclass(found, Layer)):
        raise ScheduleError(f"{kind!r} is not a kind of layer.")
    return found


def _frozen(value: Any) -> Any:
    # JSON has no tuples; parameters are never lists, which are not hashable.
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
