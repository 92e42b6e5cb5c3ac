"""Hints: how loads and stores are cached."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from treadle.dsl.schedule import ScheduleError, ScheduleTypeError

from .layers import Layer, literal
from .validate import choice, did_you_mean

POLICIES = ("default", "streaming", "evict_first", "evict_last", "no_l1")
CLASSES = ("horizontal", "vertical", "stream", "random", "stores")


class Hints(Layer):
    """Cache policies by access class, or for single arrays (Prasetya 2021, sections 1.1, 4.3).

    Classes: ``horizontal`` and ``vertical`` (reuse along a row, between rows), ``stream`` (read
    once), ``random`` (data-dependent), ``stores``. ``arrays`` maps names of arrays to policies
    and takes precedence over the classes: an argument has its own name, a result that of the
    operation. Policies: "default", "streaming" (read or written once), "evict_first",
    "evict_last", "no_l1" (cached in L2 only). Without a policy the hardware decides.

    >>> Hints(stream="evict_first", arrays={"image": "evict_last"})
    Hints(stream="evict_first", arrays={"image": "evict_last"})
    """

    slot = "hints"
    horizontal: str | None = None
    vertical: str | None = None
    stream: str | None = None
    random: str | None = None
    stores: str | None = None
    arrays: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __init__(
        self,
        *,
        horizontal: str | None = None,
        vertical: str | None = None,
        stream: str | None = None,
        random: str | None = None,
        stores: str | None = None,
        arrays: Mapping[str, str] | tuple[tuple[str, str], ...] = (),
        **unknown: str,
    ) -> None:
        for name in unknown:
            raise ScheduleError(
                f"Hints: there is no access class {literal(name)}; there are "
                f"{', '.join(CLASSES)}, and arrays={{name: policy}} for single arrays.",
                hint=did_you_mean(name, CLASSES),
            )
        given = (horizontal, vertical, stream, random, stores)
        for name, policy in zip(CLASSES, given, strict=True):
            if policy is not None:
                policy = choice(policy, POLICIES, Hints, name)
            object.__setattr__(self, name, policy)
        object.__setattr__(self, "arrays", _by_array(arrays))

    @property
    def by_array(self) -> dict[str, str]:
        """The policies of single arrays."""
        return dict(self.arrays)

    def arguments(self) -> dict[str, Any]:
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        given["arrays"] = self.by_array
        return {name: value for name, value in given.items() if value}


def _by_array(arrays: object) -> tuple[tuple[str, str], ...]:
    """Sorted pairs, so that hints are hashable and equal when they mean the same."""
    try:
        pairs = dict(arrays)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise ScheduleTypeError(
            f"Hints: arrays must map names to policies, got {arrays!r}.",
            hint='Write Hints(arrays={"image": "evict_last"}).',
        ) from None
    for name in pairs:
        if not isinstance(name, str):
            raise ScheduleTypeError(f"Hints: names of arrays are strings, got {name!r}.")
    return tuple(
        sorted((k, choice(v, POLICIES, Hints, f"arrays[{k!r}]")) for k, v in pairs.items())
    )
