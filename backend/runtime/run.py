"""One run of a program: what its slots hold, on the device and on the host.

A run is direct, what it asks for is done at once; or it records, and what it asks for is noted, to
be repeated for other arrays of the same extents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from treadle.dsl.expr import Expr, Param, Read, substitute, walk
from treadle.dsl.graph import Check, Leaf
from treadle.dsl.locks import cached

from .host import HostCompiler

A = TypeVar("A")
HostArray = np.ndarray[Any, Any]
Slots = list[Any]
Params = Sequence[Any]


class Unrecordable(Exception):
    """Not every call does the same, or it does something that is no operation of the device."""


class Run(ABC, Generic[A]):
    """The state of one run on a device whose arrays are of class `A`.

    `slots[k]` is such an array, or one that is only on the host (numbers that the host computed,
    data not copied yet), or None.  `pinned` collects the positions of the parameters that decide
    what runs, or over which extents: a recording is good for one value of them.
    """

    __slots__ = ("params", "pinned", "slots")

    def __init__(self, slots: Slots, params: Params) -> None:
        self.slots, self.params = slots, params
        self.pinned: set[int] = set()

    @property
    @abstractmethod
    def recording(self) -> bool: ...

    def refuse_recording(self, why: str) -> None:
        """What follows cannot be recorded."""
        if self.recording:
            raise Unrecordable(why)

    # --- memory ---

    @abstractmethod
    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> A:
        """An uninitialised dense array."""

    @abstractmethod
    def constant(self, value: HostArray) -> A:
        """An array that the host made for these extents, only read."""

    @abstractmethod
    def clear(self, array: A) -> None:
        """Zeros."""

    @abstractmethod
    def copy(self, target: A, slot: int) -> None:
        """Copy what a slot holds into a dense array of its extents."""

    # --- slots ---

    @abstractmethod
    def array(self, slot: int) -> A:
        """What a slot holds, on the device."""

    @abstractmethod
    def dense(self, slot: int) -> A:
        """What a slot holds, dense on the device; it holds that from now on."""

    @abstractmethod
    def on_host(self, slot: int) -> HostArray:
        """What a slot holds, on the host; not while it is recorded what puts it there."""

    @abstractmethod
    def is_away(self, slot: int) -> bool:
        """Whether the host would have to wait, or stop recording, for what a slot holds."""

    @abstractmethod
    def alone(self, slot: int) -> bool:
        """Whether a slot holds an array of the program's own that nobody else holds."""

    def hold(self, slots: Sequence[int]) -> None:
        """What these hold may be kept by a function of the user's, which was given it on the host:
        it is not written to any more."""

    def readable(self, slots: Sequence[int]) -> Slots:
        """The slots, of which these are readable on the host."""
        found = list(self.slots)
        for slot in slots:
            found[slot] = self.on_host(slot)
        return found

    def with_dense(self, slots: Sequence[int]) -> Self:
        """A run in which these slots are dense: this one, if they may stay so."""
        for slot in slots:
            self.dense(slot)
        return self

    # --- checks ---

    def defer(self, check: Check, values: HostValues) -> bool:
        """Have a check made once what it reads is there, if that can be; whether it will be."""
        return False

    def repeat(self, check: Check, values: HostValues) -> None:
        """Have a check of parameters alone made again for those of each call of a recording."""


class HostValues:
    """Host expressions over extents, parameters and the contents of small arrays, for a run.

    `conditions`, over `scalars`, as `HostCompiler.plan` takes them.  `params` are the positions of
    the parameters, and `reads` the slots of the arrays, that the values depend on.
    """

    def __init__(
        self,
        compiler: HostCompiler,
        roots: Sequence[Expr],
        conditions: Sequence[Expr] = (),
        scalars: Mapping[Expr, Expr] = MappingProxyType({}),
    ) -> None:
        self._compiler, self._conditions = compiler, (conditions, scalars)
        self.roots = (*roots, *substitute(conditions, dict(scalars)))
        nodes = list(walk(self.roots))
        self.params = {compiler.param_index[e] for e in nodes if isinstance(e, Param)}
        reads = [compiler.slot(Leaf(e.node, e.component)) for e in nodes if isinstance(e, Read)]
        self.reads = tuple(dict.fromkeys(reads))

    @cached
    def plain(self) -> Callable[[Slots, Params], tuple[Any, ...]]:
        """(slots, parameters) → values, for slots that hold all it reads as arrays of the host."""
        conditions, scalars = self._conditions
        roots = self.roots[: len(self.roots) - len(conditions)]
        return self._compiler.plan(roots, conditions, scalars).function()

    def __call__(self, run: Run[Any], *, shapes: bool = True) -> tuple[Any, ...]:
        """The values; `shapes`: what runs, or over which extents, depends on them."""
        if shapes and self.params:
            run.pinned |= self.params
        return self.plain(run.readable(self.reads) if self.reads else run.slots, run.params)

    def later(self, run: Run[Any]) -> Callable[[Params], tuple[Any, ...]]:
        """A function of the parameters alone, for the extents of this run."""
        slots, function = run.readable(self.reads), self.plain
        return lambda params: function(slots, params)
