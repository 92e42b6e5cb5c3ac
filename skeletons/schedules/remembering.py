"""What tuning found, under the names that find it again: program, extents, machine, versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import store
from .chooser import Auto, Tuned
from .schedule import as_schedule
from .tuning_table import TuningTable

if TYPE_CHECKING:
    from treadle.dsl.graph import Leaf, Node
    from treadle.dsl.program import Program


def extents_class(shape: Sequence[int]) -> tuple[int, ...]:
    """Extents up to the next power of two: one winner serves a class.

    >>> extents_class((1000, 1, 1025))
    (10, 0, 11)
    """
    return tuple(max(int(n) - 1, 0).bit_length() for n in shape)


def key_of(program: Program, args: Sequence[Any]) -> str:
    """The name of what is measured for a program on these arguments."""
    from treadle.dsl.jit import bind

    data, _ = bind(program, args)
    return key_for(program, [a.shape for a in data])


def key_for(program: Program, shapes: Sequence[Sequence[int]]) -> str:
    """The name of what was measured for a program on arguments of these shapes."""
    captured = [np.shape(n.source) for n in program.inputs[len(program.arguments) :]]
    classes = [extents_class(s) for s in [*shapes, *captured]]
    here = [*store.machine(), *program.machine()]
    return store.key(_meaning(program), program.backend, classes, here)


def _meaning(program: Program) -> str:
    """The program's key, without `Tuned()`, which asks for what was measured without it; what
    cannot be written down is told apart by what it prints."""
    from treadle.dsl.errors import ScheduleError, StorageError
    from treadle.dsl.serialise import canonical_key

    try:
        return canonical_key(_untuned(program.source_roots), program.settings)
    except (StorageError, ScheduleError):  # as of an order that is written in a script
        return f"{program.name} {program}"


def _untuned(roots: Sequence[Leaf]) -> list[Leaf]:
    from treadle.dsl.passes.rebuild import rewrite_graph

    def change(node: Node) -> Node:
        given = node.label.schedule
        schedule = None if given is None else as_schedule(given)
        if schedule is None or schedule.chooser != Tuned():
            return node
        others = replace(schedule, chooser=Auto())
        label = replace(node.label, schedule=others if others.layers else None)
        return node.with_(label=label)  # type: ignore[no-any-return]

    return list(rewrite_graph(roots, change))


def remembered(program: Program, shapes: Sequence[Sequence[int]]) -> TuningTable | None:
    """What `tune` found for a program on arguments of such shapes, if it was called."""
    return recall(key_for(program, shapes), program)


def recall(name: str, program: Program) -> TuningTable | None:
    """The table under a key; one that does not fit the program is dropped."""
    value = store.get(name)
    if value is None:
        return None
    try:
        table = TuningTable.from_dict(value)
        program.scheduled(**table.winners)
    except (ValueError, KeyError, TypeError, AttributeError):
        store.drop(name)
        return None
    return table
