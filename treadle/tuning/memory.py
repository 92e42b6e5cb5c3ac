"""What tuning found, under the names that find it again: program, extents, machine, versions."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.driver.arguments import bind
from treadle.driver.storage import canonical_key
from treadle.dsl.errors import BackendUnavailable, ScheduleError, StorageError, TreadleError
from treadle.dsl.expr import Const, Expr, Extent
from treadle.dsl.graph import Matmul, topological
from treadle.dsl.names import address, operations
from treadle.dsl.rebuild import rewrite_graph
from treadle.skeletons import store
from treadle.skeletons.schedules.chooser import Auto, Tuned
from treadle.skeletons.schedules.schedule import as_schedule

from .table import TuningTable

if TYPE_CHECKING:
    from treadle.dsl.graph import Leaf, Node
    from treadle.dsl.program import TracedProgram


def extents_class(shape: Sequence[int]) -> tuple[int, ...]:
    """Extents up to the next power of two: one winner serves a class.

    >>> extents_class((1000, 1, 1025))
    (10, 0, 11)
    """
    return tuple(max(int(n) - 1, 0).bit_length() for n in shape)


def key_of(program: TracedProgram, args: Sequence[Any]) -> str:
    """The name of what is measured for a program on these arguments."""
    data, _ = bind(program, args)
    return key_for(program, [a.shape for a in data])


def key_for(program: TracedProgram, shapes: Sequence[Sequence[int]]) -> str:
    """The name of what was measured for a program on arguments of these shapes."""
    captured = [np.shape(n.source) for n in program.inputs[len(program.arguments) :]]
    classes = [extents_class(s) for s in [*shapes, *captured]]
    here = [*store.machine(program.backend), *program.machine()]
    return store.key(_meaning(program), program.backend, classes, here)


def _meaning(program: TracedProgram) -> str:
    """The program's key, without `Tuned()`, which asks for what was measured without it; what
    cannot be written down is told apart by what it prints."""
    try:
        return canonical_key(_untuned(program.source_roots), program.settings)
    except (StorageError, ScheduleError):  # as of an order that is written in a script
        return f"{program.name} {program}"


def _untuned(roots: Sequence[Leaf]) -> list[Leaf]:
    def change(node: Node) -> Node:
        given = node.label.schedule
        schedule = None if given is None else as_schedule(given)
        if schedule is None or schedule.chooser != Tuned():
            return node
        others = replace(schedule, chooser=Auto())
        label = replace(node.label, schedule=others if others.layers else None)
        return node.with_(label=label)

    return list(rewrite_graph(roots, change))


#: Classes of extents that are known at a time.
KEPT = 64


class Memory:
    """What `tune` found for a program, by class of extents: looked up once each.

    `extents` are those of all inputs, on which it depends.
    """

    def __init__(self, program: TracedProgram) -> None:
        self.program = program
        shapes = [e for held in program.inputs for e in held.shape]
        self.extents = tuple(e for e in dict.fromkeys(shapes) if isinstance(e, Extent))
        self._tables: dict[tuple[int, ...], TuningTable | None] = {}

    def table(self, known: Mapping[Expr, int]) -> TuningTable | None:
        """The table of a tuning on such extents, None if there was none."""
        key = extents_class([known[e] for e in self.extents])
        try:
            return self._tables[key]
        except KeyError:
            shapes = [
                [int(e.value) if isinstance(e, Const) else known[e] for e in held.shape]
                for held in self.program.arguments
            ]
            found = remembered(self.program, shapes)
            if len(self._tables) >= KEPT:
                self._tables.clear()
            self._tables[key] = found
            return found


class TunedProducts:
    """A program with products under `Tuned()`, as what was measured for a class of extents makes
    it: another program for each, which computes them so."""

    def __init__(self, program: TracedProgram) -> None:
        #: Which owns this: were it kept, both would stay until Python looks for cycles.
        self.program: Any = weakref.proxy(program)
        self._made: dict[tuple[tuple[int, ...], ...], TracedProgram] = {}

    @classmethod
    def of(cls, program: TracedProgram) -> TunedProducts | None:
        """None where no product asks for it."""
        asked = any(isinstance(node, Matmul) and is_tuned(node.label)
                    for node in topological(program.source_roots))  # fmt: skip
        return cls(program) if asked else None

    def on(self, shapes: Sequence[Sequence[int]]) -> TracedProgram:
        """The program for arguments of these shapes."""
        key = tuple(map(extents_class, shapes))
        made = self._made.get(key)
        if made is None:
            table = remembered(self.program, shapes)
            winners = {}
            for number, node in enumerate(operations(self.program.source_roots), 1):
                name = node.label.name or address(number)
                asked = isinstance(node, Matmul) and is_tuned(node.label)
                if asked and table is not None and name in table.winners:
                    winners[name] = table.winners[name]
            made = self.program.scheduled(**winners)
            made.measured_as, made.tuned_products = self.program, None
            if len(self._made) >= KEPT:
                self._made.clear()
            self._made[key] = made
        return made


def is_tuned(label: Any) -> bool:
    """Whether an operation asks for what was measured."""
    return label.schedule is not None and as_schedule(label.schedule).chooser == Tuned()


def remembered(program: TracedProgram, shapes: Sequence[Sequence[int]]) -> TuningTable | None:
    """What `tune` found for a program on arguments of such shapes, if it was called where this is
    to run."""
    program = program.measured_as or program
    try:
        name = key_for(program, shapes)
    except BackendUnavailable:  # text for a GPU that is not here
        return None
    return recall(name, program)


def recall(name: str, program: TracedProgram) -> TuningTable | None:
    """The table under a key; one that does not fit the program is dropped."""
    value = store.get(name)
    if value is None:
        return None
    try:
        table = TuningTable.from_dict(value)
        program.scheduled(**table.winners)
    except (TreadleError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        store.drop(name)
        return None
    return table
