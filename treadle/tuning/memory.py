"""Stored tuning results, with keys made of program, extents, machine and versions."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.backend.runtime.storage import canonical_key
from treadle.driver.arguments import bind
from treadle.dsl.errors import BackendUnavailable, ScheduleError, StorageError, TreadleError
from treadle.dsl.expr import Const, Expr, Extent
from treadle.dsl.graph import Matmul, topological
from treadle.dsl.graphs.names import address, operations
from treadle.dsl.graphs.rebuild import rewrite_graph
from treadle.skeletons import store
from treadle.skeletons.schedules.layers import Auto, Tuned
from treadle.skeletons.schedules.schedule import as_schedule

from .table import TuningTable

if TYPE_CHECKING:
    from treadle.dsl.graph import Leaf, Node
    from treadle.dsl.program import TracedProgram


def extents_class(shape: Sequence[int]) -> tuple[int, ...]:
    """Extents rounded up to powers of two, as exponents: one winner serves a class.

    >>> extents_class((1000, 1, 1025))
    (10, 0, 11)
    """
    return tuple(max(int(n) - 1, 0).bit_length() for n in shape)


def key_of(program: TracedProgram, args: Sequence[Any]) -> str:
    """The key for measurements of a program on these arguments."""
    data, _ = bind(program, args)
    return key_for(program, [a.shape for a in data])


def key_for(program: TracedProgram, shapes: Sequence[Sequence[int]]) -> str:
    """The key for measurements of a program on arguments of these shapes."""
    captured = [np.shape(n.source) for n in program.inputs[len(program.arguments) :]]
    classes = [extents_class(s) for s in [*shapes, *captured]]
    here = [*store.machine(program.backend), *program.machine()]
    return store.key(_meaning(program), program.backend, classes, here)


def _meaning(program: TracedProgram) -> str:
    """The program's key without `Tuned()`, as measurements are made without it; for programs that
    cannot be stored, the name and the printed text."""
    try:
        return canonical_key(_untuned(program.source_roots), program.settings)
    except (StorageError, ScheduleError):  # e.g. an order defined in a script
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


#: The most classes of extents cached.
KEPT = 64


class Memory:
    """The results of `tune` for a program by class of extents; each is looked up once.

    `extents`: those of all inputs, on which the results depend.
    """

    def __init__(self, program: TracedProgram) -> None:
        self.program = program
        shapes = [e for node in program.inputs for e in node.shape]
        self.extents = tuple(e for e in dict.fromkeys(shapes) if isinstance(e, Extent))
        self._tables: dict[tuple[int, ...], TuningTable | None] = {}

    def table(self, known: Mapping[Expr, int]) -> TuningTable | None:
        """The table for such extents; None if they were not tuned."""
        key = extents_class([known[e] for e in self.extents])
        try:
            return self._tables[key]
        except KeyError:
            shapes = [
                [int(e.value) if isinstance(e, Const) else known[e] for e in node.shape]
                for node in self.program.arguments
            ]
            found = remembered(self.program, shapes)
            if len(self._tables) >= KEPT:
                self._tables.clear()
            self._tables[key] = found
            return found


class TunedProducts:
    """Dispatcher for a program with products under `Tuned()`: one program per class of extents,
    with the fastest measured ways to compute its products."""

    def __init__(self, program: TracedProgram) -> None:
        #: The owner of this object; a strong reference would be a cycle, collected late.
        self.program: TracedProgram = weakref.proxy(program)
        self._made: dict[tuple[tuple[int, ...], ...], TracedProgram] = {}

    @classmethod
    def of(cls, program: TracedProgram) -> TunedProducts | None:
        """The dispatcher of a program; None if it has no product under `Tuned()`."""
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
    """Whether an operation has the schedule `Tuned()`."""
    return label.schedule is not None and as_schedule(label.schedule).chooser == Tuned()


def remembered(program: TracedProgram, shapes: Sequence[Sequence[int]]) -> TuningTable | None:
    """The stored results of `tune` for a program on arguments of such shapes, on this device."""
    program = program.measured_as or program
    try:
        name = key_for(program, shapes)
    except BackendUnavailable:  # explained for a GPU that is not present
        return None
    return recall(name, program)


def recall(name: str, program: TracedProgram) -> TuningTable | None:
    """The table stored under a key; one that does not fit the program is dropped."""
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
