"""The parts of a plan: stages, and loops and branches that run step by step.

A plan is independent of what runs it: `dask/graph.py` turns it into dask tasks, `dask/stream.py`
runs it from files, `cuda/several/` on several GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from treadle.dsl.graph import ArrayLoop, Branch, Leaf, Node

from .domain import Chunks
from .localise import Blocks


@dataclass
class Stage:
    """A kernel in blocks, and the arrays that it computes.  A block may read the parts of these
    arrays that earlier blocks computed (later blocks, if they go `backwards`).  `chunks`: those of
    the arrays if a block covers several."""

    blocks: Blocks
    leaves: list[Leaf]
    chunks: Chunks | None = None

    def uses(self) -> set[Leaf]:
        read = (leaf for b in self.blocks.buffers for leaf in (b.leaf, b.windows))
        return {leaf for leaf in read if leaf is not None}


@dataclass
class Repeat:
    """A loop whose iterations are not planned one by one: `step` has the stages of an iteration,
    which computes `body` from `state`; `test` those of `predicate`, which says whether there is
    another iteration (None: there are `count`, numbered by `index`)."""

    node: ArrayLoop
    state: list[Leaf]
    init: list[Leaf]
    leaves: list[Leaf]
    body: list[Leaf]
    step: Plan
    test: Plan
    predicate: Leaf | None
    count: int
    index: Leaf | None

    def uses(self) -> set[Leaf]:
        return {*self.init, *self.step.uses(), *self.test.uses()}


@dataclass
class Either:
    """A branch: the stages of the first side run if `predicate` holds, else those of the second."""

    node: Branch
    predicate: Leaf
    sides: tuple[Plan, Plan]
    #: The results of each side, and the names of the branch's results.
    results: tuple[list[Leaf], list[Leaf]]
    leaves: list[Leaf]

    def uses(self) -> set[Leaf]:
        sides = (leaf for plan in self.sides for leaf in plan.uses())
        return {self.predicate, *sides, *self.results[0], *self.results[1]}


@dataclass
class Gathered:
    """The elements of an array at computed positions: `positions` are element numbers, in row-major
    order, along `axes` of the `source`.  The result has the axes of the positions, then the other
    axes of the source."""

    node: Node
    source: Leaf
    axes: tuple[int, ...]
    positions: Leaf
    leaves: list[Leaf]

    def uses(self) -> set[Leaf]:
        return {self.source, self.positions}

    def others(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.source.shape)) if a not in self.axes)


@dataclass
class Later:
    """The rest of a plan whose extents depend on the contents of arrays: `resume` plans it, given
    the values of the arrays that it `needs`; `read`: the arrays that it may read."""

    node: Node
    needs: list[Leaf]
    read: set[Leaf]
    resume: Callable[[Sequence[Any]], Plan]
    leaves: list[Leaf] = field(default_factory=list)

    def uses(self) -> set[Leaf]:
        return {*self.needs, *self.read}


#: The parts of a plan between stages.
Steering = Repeat | Either | Gathered | Later


@dataclass
class Plan:
    """The stages of a call, in order.

    `steering`: the loops, branches and gathers that precede the stage of each number; the arrays
    `given` (with the position of their data), the `chunks` of all arrays, and the results, `roots`.
    """

    stages: list[Stage] = field(default_factory=list)
    given: dict[Leaf, int] = field(default_factory=dict)
    chunks: dict[Leaf, Chunks] = field(default_factory=dict)
    roots: list[Leaf] = field(default_factory=list)
    #: Small arrays of numbers that stages read.
    constants: dict[Leaf, Any] = field(default_factory=dict)
    steering: dict[int, list[Steering]] = field(default_factory=dict)

    def parts(self) -> Iterator[Stage | Steering]:
        """The stages, the parts between them, and the part planned later, in order."""
        for k in range(len(self.stages) + 1):
            yield from self.steering.get(k, ())
            yield from self.stages[k : k + 1]

    def uses(self) -> set[Leaf]:
        return {leaf for part in self.parts() for leaf in part.uses()}

    def every(self) -> Iterator[Stage]:
        """All planned stages; those of loops and branches once."""
        return (part for part in self._inner() if isinstance(part, Stage))

    def gathers(self) -> Iterator[Gathered]:
        return (part for part in self._inner() if isinstance(part, Gathered))

    def _inner(self) -> Iterator[Stage | Steering]:
        for part in self.parts():
            match part:
                case Repeat():
                    yield from (*part.test._inner(), *part.step._inner())
                case Either():
                    yield from (*part.sides[0]._inner(), *part.sides[1]._inner())
                case _:
                    yield part
