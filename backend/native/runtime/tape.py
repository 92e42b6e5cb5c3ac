"""What a call does, as a list: launches, fills and copies on arrays, recorded without running.

For given extents a program does the same every time, unless the contents of arrays decide
(`Unrecordable`).  `replay.py` makes records of whole calls out of tapes, `../loops.py` the
iterations of loops.  An array is named by its number where every call brings its own (the inputs
of a program), by itself otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.expr import Expr, Param, Read, walk

from ...runtime.run import Unrecordable
from . import threads

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Kernel

    from .code import CompiledKernel

#: Data of any type by nature.
HostArray = np.ndarray[Any, Any]
#: A scalar, as Python has it.
Number = bool | int | float | complex
#: An input's number, or an array.
Named = int | HostArray


class TooLarge(Unrecordable):
    """More memory than a tape may ask for: so for these extents."""


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel's arguments and tasks.  `given` says which scalars are a parameter of the program:
    (position, its number); `errors`: an array for what fails."""

    compiled: CompiledKernel
    arrays: tuple[Named, ...]
    scalars: tuple[Number, ...]
    tasks: int
    work: float
    given: tuple[tuple[int, int], ...] = ()
    errors: HostArray | None = None

    @property
    def threads(self) -> int:
        """How many share the tasks."""
        few = self.tasks <= 1 or self.work < threads.SERIAL_WORK
        return 1 if few else min(self.tasks, threads.thread_count())


@dataclass(frozen=True, eq=False)
class Fill:
    """Zeros."""

    target: Named


@dataclass(frozen=True, eq=False)
class Copy:
    """One dense array into another of its size."""

    target: Named
    source: Named


@dataclass(frozen=True, eq=False)
class Failure:
    """Nothing follows if something has failed in a launch of `kernel`, of which `errors` tells."""

    errors: HostArray
    kernel: Callable[[], Kernel]


Operation = Launch | Fill | Copy | Failure


@dataclass
class Tape:
    """Operations in order.  Slots of `inputs` are named by their numbers; `allocate(shape, dtype)`
    makes arrays, of at most `limit` bytes together."""

    inputs: frozenset[int]
    limit: int
    allocate: Callable[[tuple[int, ...], np.dtype[Any]], HostArray]
    operations: list[Operation] = field(default_factory=list)
    pinned: set[int] = field(default_factory=set)  # parameters whose values decided something
    limits: dict[int, tuple[int, int]] = field(default_factory=dict)  # where others must lie
    size: int = 0
    arrays: dict[int, HostArray] = field(default_factory=dict)  # those made, by identity

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        """An array that the operations will write."""
        size = dtype.itemsize
        for n in shape:
            size *= n
        self.size += size
        if self.size > self.limit:
            raise TooLarge
        array = self.allocate(shape, dtype)
        self.arrays[id(array)] = array
        return array

    def made(self, array: HostArray) -> bool:
        """Whether the operations write this array."""
        return id(array) in self.arrays

    def named(self, slots: Sequence[HostArray], slot: int) -> Named:
        return slot if slot in self.inputs else slots[slot]


@dataclass(frozen=True)
class Dependence:
    """What host expressions depend on besides extents and strides.

    `reads`: elements of arrays; `params`: the numbers of parameters.
    """

    reads: bool
    params: frozenset[int]


def dependence(roots: Sequence[Expr], index: dict[Param, int]) -> Dependence:
    """What the values of `roots` depend on."""
    nodes = list(walk(roots))
    return Dependence(
        any(isinstance(e, Read) for e in nodes),
        frozenset(index[e] for e in nodes if isinstance(e, Param)),
    )


def given(values: Sequence[Expr], index: dict[Param, int]) -> tuple[tuple[int, int], ...]:
    """The scalars that are a parameter as Python's numbers are: (position, its number)."""
    return tuple(
        (k, index[e])
        for k, e in enumerate(values)
        if isinstance(e, Param) and e.type.name in ("float64", "int64", "bool")
    )
