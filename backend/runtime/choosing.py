"""The schedule that `Auto` or `Tuned` chooses for a kernel once the extents are known.

Most kernels have no choice, as a cheap test of their expressions shows; the performance model is
imported only for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treadle.dsl.expr import Expr, Extent, Loop, Read, walk
from treadle.dsl.graph import Fold, Generate, Leaf, Matmul, Node, Permute, indices, is_identity_read
from treadle.dsl.graphs.names import Names
from treadle.dsl.program import TracedProgram
from treadle.dsl.schedule import Schedule
from treadle.dsl.target import target_of
from treadle.dsl.text import duration
from treadle.skeletons.schedules import Auto, Tuned, as_schedule

if TYPE_CHECKING:
    from treadle.skeletons.model.choose import Decider
    from treadle.skeletons.model.folds import FoldDecider

    from .executor import Executor


class Choosing:
    """The choice for one kernel, made at every call; a repeated choice takes two look-ups.

    `positions`: the (slot, axis) pairs of the extents that the choice depends on.
    """

    def __init__(self, owner: Executor[Any], decide: Decider | FoldDecider | TunedChooser) -> None:
        self.decide = decide
        self.positions = [(owner.slot_of(Leaf(e.node, 0)), e.axis) for e in decide.extents]

    def __call__(self, shape: Callable[[int], Sequence[int]]) -> Schedule | None:
        """The schedule for the arrays in the slots, None for the kernel's default."""
        return self.decide([shape(slot)[axis] for slot, axis in self.positions])

    def first(self, program: TracedProgram) -> Schedule | None:
        """The schedule for the arguments that a program was traced with, None if unknown."""
        return chosen_first(program, self.decide)


def choosing(owner: Executor[Any], node: Node) -> Choosing | None:
    """A kernel's choice; None without one, and in checked mode, which does not aim at speed."""
    found = deciding(owner.program, node)
    return None if found is None else Choosing(owner, found)


class TunedChooser:
    """The schedule that `tune` measured for a program on these extents, or else `Auto`'s choice.

    Call it with the values of `extents`, the extents of all inputs of the program.
    """

    def __init__(
        self, program: TracedProgram, node: Node, auto: Decider | FoldDecider | None
    ) -> None:
        self.auto = auto
        self.operation = Names(program).address(node)
        self.memory = program.memory()
        self.extents = self.memory.extents

    def __call__(self, values: Sequence[int]) -> Schedule | None:
        known: dict[Expr, int] = dict(zip(self.extents, values, strict=True))
        table = self.memory.table(known)
        found = None if table is None else table.winners.get(self.operation)
        if found is None and self.auto is not None:
            return self.auto([known[e] for e in self.auto.extents])
        return found

    def reasons(self, known: Mapping[Expr, int]) -> list[str]:
        """For `explain`: the stored measurements, or that there are none."""
        unknown = [e for e in self.extents if e not in known]
        table = None if unknown else self.memory.table(known)
        rows = {} if table is None else {r.schedule: r.ms for r in table.of(self.operation)}
        found = None if table is None else table.winners.get(self.operation)
        if found is not None and found in rows:
            was = f", {duration(rows[None] / 1e3)} without a schedule" if None in rows else ""
            return [f"{found!r}", f"measured {duration(rows[found] / 1e3)}{was} (remembered)"]
        if rows:
            return [f"without a schedule: nothing faster among {len(rows)} measured"]
        from treadle.skeletons.model.report import explained

        lines = [] if self.auto is None else explained(self.auto, known)
        return ["nothing was measured for such extents (program.tune): as Auto()", *lines]


def deciding(program: TracedProgram, node: Node) -> Decider | FoldDecider | TunedChooser | None:
    """The object that chooses for a kernel of a program; None if there is no choice."""
    if program.settings.check:
        return None
    auto = _automatic(program, node)
    return TunedChooser(program, node, auto) if _is_tuned(node) else auto


def _is_tuned(node: Node) -> bool:
    """Whether measurement chooses a kernel's schedule (for products: `Program.execute`)."""
    if node.label.schedule is None or isinstance(node, Matmul):
        return False
    if isinstance(node, Generate) and not node.shape:
        return False
    return as_schedule(node.label.schedule).chooser == Tuned()


def _automatic(program: TracedProgram, node: Node) -> Decider | FoldDecider | None:
    gpu = target_of(program.backend).gpu
    if not _may_gain(node, gpu):
        return None
    from treadle.skeletons.model.device import device_of

    if isinstance(node, Fold):
        from treadle.skeletons.model.folds import FoldDecider

        return FoldDecider(node, device_of(program))
    from treadle.skeletons.model.choose import Decider, has_choice

    return Decider(node, device_of(program)) if has_choice(node, gpu) else None


def _may_gain(node: Node, gpu: bool) -> bool:
    """A cheap necessary condition of `has_choice`: two axes, schedule layers left open, and loops
    that several outputs can share (on a GPU also reads at other indices); or a permute that does
    not store rows contiguously."""
    if isinstance(node, Fold):
        return gpu and bool(node.outer) and node.label.schedule in (Auto(), Tuned())
    if not isinstance(node, Generate) or len(node.shape) < 2:
        if not isinstance(node, Permute) or not (gpu or node.combine is None):
            return False
        rank = len(node.domain)
        rows = node.target[-rank:] == indices(rank)
        return rank > 1 and not rows and node.label.schedule in (None, Auto(), Tuned())
    given = node.label.schedule
    if given is not None:
        schedule = as_schedule(given)
        if schedule.order is not None:
            return False
        if schedule.block is not None:
            return True
    rank = len(node.shape)
    return any(
        isinstance(e, Loop) or (gpu and isinstance(e, Read) and not is_identity_read(e, rank))
        for e in walk(node.elements)
    )


def reasons(program: TracedProgram, node: Node, known: Mapping[Expr, int]) -> list[str]:
    """For `explain`: the choice for these extents and its reasons, or, on a GPU, the predicted time
    of a given schedule.  Empty without a choice, unless the schedule is `Auto`."""
    from treadle.skeletons.model.device import device_of
    from treadle.skeletons.model.report import against_plain, compared, explained, no_choice

    if not target_of(program.backend).kernels:
        return []
    decide = deciding(program, node)
    if decide is not None:
        if isinstance(decide, TunedChooser):
            return decide.reasons(known)
        return explained(decide, known)
    if node.label.schedule == Auto():
        device = device_of(program)
        reason = f"nothing to choose: {no_choice(node, device.gpu)}"
        return [reason, *compared(node, known, device)]
    explained_kind = isinstance(node, Generate | Permute | Fold)
    if target_of(program.backend).gpu and explained_kind and node.label.schedule:
        return against_plain(node, known, device_of(program))
    return []


def chosen_first(
    program: TracedProgram, decide: Decider | FoldDecider | TunedChooser
) -> Schedule | None:
    """The choice for the arguments that a program was traced with, None if these are unknown."""
    known = example_extents(program)
    if not all(e in known for e in decide.extents):
        return None
    return decide([known[e] for e in decide.extents])


def first_choice(program: TracedProgram, node: Node) -> Schedule | None:
    """The schedule of a kernel for the arguments that a program was traced with; None (the default
    schedule) if there is no choice or the arguments are unknown."""
    decide = deciding(program, node)
    return None if decide is None else chosen_first(program, decide)


def example_extents(program: TracedProgram) -> dict[Extent, int]:
    """The extents of the arguments that a program was traced with, and of captured arrays."""
    shapes = dict(zip(program.arguments, program.example_shapes or (), strict=False))
    found: dict[Extent, int] = {}
    for node in program.inputs:
        shape = shapes.get(node, getattr(node.source, "shape", None))
        for axis, extent in enumerate(node.shape):
            if shape is not None and isinstance(extent, Extent):
                found[extent] = int(shape[axis])
    return found
