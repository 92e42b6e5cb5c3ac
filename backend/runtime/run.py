"""One run of a program: the contents of its slots, on the device and on the host.

A direct run executes each operation at once.  A recording run records the operations, which are
replayed later for other arrays of the same extents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

from treadle.dsl.expr import Expr, Param, Read, substitute, walk
from treadle.dsl.graph import Check, Leaf
from treadle.dsl.process.locks import cached
from treadle.skeletons.ir.hosted import Most

from .host import HostCompiler, HostFunction
from .types import DType, HostArray, Numbers

A = TypeVar("A")
Slots = list[Any]
Params = Sequence[Any]


class Unrecordable(Exception):
    """A call cannot be recorded: calls differ, or perform work other than device operations."""


class Run(ABC, Generic[A]):
    """The state of one run on a device whose arrays are of class `A`.

    `slots[k]` is such an array, an array that is only on the host (numbers that the host computed,
    data not copied yet), or None.  `pinned` collects the positions of the parameters that determine
    which steps run, or over which extents: a recording is valid for one value of each.
    """

    __slots__ = ("params", "pinned", "slots")

    def __init__(self, slots: Slots, params: Params) -> None:
        self.slots, self.params = slots, params
        self.pinned: set[int] = set()

    @property
    @abstractmethod
    def recording(self) -> bool: ...

    def refuse_recording(self, why: str) -> None:
        """Raise `Unrecordable` if this run records: the next operation cannot be recorded."""
        if self.recording:
            raise Unrecordable(why)

    def has(self, slots: Iterable[int | None]) -> bool:
        """Whether all these slots have arrays; None stands for unknown ones."""
        count = len(self.slots)
        return all(k is not None and k < count and self.slots[k] is not None for k in slots)

    # --- memory ---

    @abstractmethod
    def new(self, shape: tuple[int, ...], dtype: DType) -> A:
        """An uninitialised dense array."""

    def extents(self, values: Numbers, least: int = 0) -> tuple[int, ...]:
        """The extents of a new array from host values, at least `least`."""
        return tuple([v if v > least else least for v in map(int, values)])

    def counts(self, values: HostValues) -> Numbers:
        """Trip counts that select the form of kernels; large numbers if still unknown."""
        return values(self)

    @abstractmethod
    def constant(self, value: HostArray) -> A:
        """A read-only array that the host computed for these extents."""

    @abstractmethod
    def clear(self, array: A) -> None:
        """Fill an array with zeros."""

    @abstractmethod
    def copy(self, target: A, slot: int) -> None:
        """Copy what a slot holds into a dense array of its extents."""

    # --- slots ---

    def known(self, value: HostArray) -> HostArray:
        """An array made by the host from extents and pinned parameters, equal in all replays."""
        return value

    @abstractmethod
    def array(self, slot: int) -> A:
        """The array in a slot, on the device."""

    @abstractmethod
    def dense(self, slot: int) -> A:
        """The array in a slot, dense on the device; the slot is updated to it."""

    @abstractmethod
    def reshaped(self, slots: Sequence[int], extents: HostValues) -> list[A] | None:
        """The arrays in these slots with other extents; None if memory cannot be shared."""

    @abstractmethod
    def on_host(self, slot: int) -> HostArray:
        """The array in a slot, on the host; an error if a recorded operation computes it."""

    @abstractmethod
    def needs_sync(self, slot: int) -> bool:
        """Whether the host would have to wait or to stop recording for the array in a slot."""

    @abstractmethod
    def alone(self, slot: int) -> bool:
        """Whether the program owns the array in a slot, and nothing else refers to it."""

    def mark_shared(self, slots: Sequence[int]) -> None:
        """Record that a user's function may keep these arrays: they must not be overwritten."""

    def recorded(
        self,
        function: Callable[..., object],
        sources: Sequence[int],
        targets: Sequence[tuple[int, tuple[int, ...], DType]],
    ) -> bool:
        """Record the call of a library if this run records calls, and return whether it was
        recorded; otherwise the caller must make the call now.  `function` takes the arrays in the
        slots `sources` and new dense ones for `targets`, (slot, shape, type), which it writes."""
        return False

    def readable(self, slots: Sequence[int]) -> Slots:
        """All slots; the given ones are readable on the host."""
        found = list(self.slots)
        for slot in slots:
            found[slot] = self.on_host(slot)
        return found

    def with_dense(self, slots: Sequence[int]) -> Self:
        """A run in which these slots are dense: this run itself if they may stay dense."""
        for slot in slots:
            self.dense(slot)
        return self

    # --- checks ---

    def defer(self, check: Check, values: HostValues) -> bool:
        """Defer a check until its inputs are computed, if possible; whether it was deferred."""
        return False

    def repeat(self, check: Check, values: HostValues) -> None:
        """Repeat a check of a parameter (`limit_of`) before each replay of a recording."""


class HostValues:
    """Host expressions over extents, parameters and the contents of small arrays, for a run.

    `conditions` and `scalars`: as for `HostCompiler.plan`.  `params`: the positions of the
    parameters, and `reads`: the slots of the arrays, that the values depend on.
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
        most = [e for e in nodes if isinstance(e, Most)]
        counters = {counter for e in most for counter, _ in e.loops}
        over = [e for e in walk([p for e in most for p in e.parts]) if e not in counters]
        #: Positions of the parameters that affect the largest values over loop iterations.
        self.over = {compiler.param_index[e] for e in over if isinstance(e, Param)}
        self.params = {compiler.param_index[e] for e in nodes if isinstance(e, Param)} | self.over
        reads = [compiler.slot(Leaf(e.node, e.component)) for e in (*nodes, *over)
                 if isinstance(e, Read)]  # fmt: skip
        self.reads = tuple(dict.fromkeys(reads))

    def of(self, roots: Sequence[Expr]) -> HostValues:
        """The values of other expressions over the same slots and parameters."""
        return HostValues(self._compiler, roots)

    @cached
    def hosted(self) -> HostFunction:
        conditions, scalars = self._conditions
        roots = self.roots[: len(self.roots) - len(conditions)]
        return self._compiler.plan(roots, conditions, scalars)

    @cached
    def plain(self) -> Callable[[Slots, Params], tuple[Any, ...]]:
        """(slots, parameters) → values, if all arrays are on the host."""
        return self.hosted.function()

    def __call__(self, run: Run[Any], *, shapes: bool = True) -> tuple[Any, ...]:
        """The values; `shapes`: they determine which steps run, or over which extents."""
        if shapes and self.params:
            run.pinned |= self.params
        return self.plain(run.readable(self.reads) if self.reads else run.slots, run.params)

    def later(self, run: Run[Any]) -> Callable[[Params], tuple[Any, ...]]:
        """A function of the parameters alone, for the extents of this run."""
        slots, function = run.readable(self.reads), self.plain
        return lambda params: function(slots, params)
