"""Programs by what they compute: of signatures of arguments, and of expressions.

One program serves an expression and all others that differ from it in their data only: what
`td.run` computes, and arrays outside of compiled functions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.backend.registry import choose
from treadle.dsl.analysis.short_extents import SpecialisedExtents, specialising
from treadle.dsl.expr import Param
from treadle.dsl.frontend.deferred import MOST_LITERALS, HostArray, Number
from treadle.dsl.frontend.sources import is_lazy
from treadle.dsl.frontend.trees import Tree, array_tree, joined_tree
from treadle.dsl.graph import Input, Leaf, topological
from treadle.dsl.graphs.inputs import inputs_of
from treadle.dsl.graphs.literals import Family, without_literals
from treadle.dsl.graphs.rebuild import Lines, over_arguments
from treadle.dsl.process import locks
from treadle.dsl.process.configuration import Settings, refresh_settings, settings
from treadle.dsl.process.recent import Recent
from treadle.dsl.types import LEAF, ScalarType

from .arguments import split_arguments
from .program import Program
from .replaying import replay_for


def backend_for(name: str | None, data: Iterable[Any]) -> str:
    """The backend of this name; for None `dask` for its arrays, else that of the settings."""
    if name is None and any(map(is_lazy, data)):
        name = "dask"
    return choose(name if name is not None else settings().backend)


#: The programs kept per function and settings: the most recently used ones.
PROGRAMS = 256


class Programs(Recent[Any, Program | SpecialisedExtents]):
    """Programs by signature, least recently used first.  (Replayed calls do not look up.)

    If a program is specialised for short extents, the entry of its signature is their list
    (`SpecialisedExtents`), and the key of the program has their values in addition.
    """

    def __init__(self) -> None:
        super().__init__(PROGRAMS)

    def find(self, key: Any, flat: Sequence[Any]) -> Program | None:
        try:
            while True:
                self.move_to_end(key)
                found = self[key]
                if not isinstance(found, SpecialisedExtents):
                    return found
                key = key, found.values(shapes_of(flat))
        except KeyError:  # possibly just dropped by another thread
            return None

    def keep(
        self, key: Any, flat: Sequence[Any], program: Program, specialised: SpecialisedExtents
    ) -> None:
        shapes = shapes_of(flat)
        while isinstance(found := self.get(key), SpecialisedExtents):
            key = key, found.values(shapes)
        if specialised:
            self[key] = specialised
            key = key, specialised.values(shapes)
        self[key] = program


def shapes_of(flat: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """The shapes of the arrays among flat arguments."""
    data, _ = split_arguments(flat)
    return tuple(tuple(int(n) if n == n else -1 for n in a.shape) for a in data)


_programs = Programs()
_lock = locks.lock()


@lru_cache(maxsize=4096)
def _nth_argument(number: int, type_: ScalarType, ones: tuple[bool, ...], lines: Lines) -> Input:
    """The same node for all data of this rank and type: equal expressions are one graph."""
    return Input(f"input {number}", type_, ones)


def _argument(number: int, node: Input, lines: Lines) -> Input:
    return _nth_argument(number, node.type, tuple(int(n) == 1 for n in node.source.shape), lines)


def evaluate(leaves: Sequence[Leaf], chosen: Settings, backend: str | None) -> list[Any]:
    """The arrays of closed leaves.

    Not shared are checked programs, whose errors name the line of each operation, and programs
    with schedules, which may be objects of the user's.
    """
    found: list[object]
    own = chosen.check or any(node.label.ordered for node in topological(leaves))
    over = None if own else over_arguments(leaves, _argument)
    if over is None:
        read = (node.source for node in inputs_of(leaves, (), ()))
        program = Program(leaves, _list_of(leaves), chosen, backend_for(backend, read))
        found = program.execute(())
        return found
    program, numbers = _program_of(*over, chosen, backend)
    found = program.execute(over[2], numbers)
    return found


def _list_of(leaves: Sequence[Leaf]) -> Tree:
    return joined_tree([array_tree(LEAF)] * len(leaves), "list")


#: By the graph over placeholders for its literals.
_families = Recent[Hashable, Family](PROGRAMS)


def _program_of(
    roots: Sequence[Leaf],
    arguments: Sequence[Input],
    data: Sequence[HostArray],
    chosen: Settings,
    backend: str | None,
) -> tuple[Program, Sequence[Number]]:
    """The program of an expression, and its numbers: of the literals that decide extents, once
    they have varied."""
    name = backend_for(backend, data)
    with _lock:
        known = _programs.find((tuple(roots), name, chosen, ()), data)
        split = None if known is not None else without_literals(roots)
        if split is not None:
            general, literals = split
            key = tuple(general), name, chosen
            family = _families.made(key, lambda: Family(general, literals))
            family.join(literals)
    if known is not None:
        return known, ()
    if split is not None and family.graphs > MOST_LITERALS:
        made = family.general(literals)
        if made is not None:
            roots, numbers = made
            program = _program(roots, arguments, data, chosen, backend, tuple(numbers))
            return program, tuple(numbers.values())
    return _program(roots, arguments, data, chosen, backend), ()


def _program(
    roots: Sequence[Leaf],
    arguments: Sequence[Input],
    data: Sequence[HostArray],
    chosen: Settings,
    backend: str | None,
    params: Sequence[Param] = (),
) -> Program:
    """The program of these results, made or found."""
    name = backend_for(backend, data)
    key = tuple(roots), name, chosen, tuple(params)
    with _lock:
        program = _programs.find(key, data)
    if program is None:
        with specialising(arguments, [d.shape for d in data]) as specialised:
            program = Program(roots, _list_of(roots), chosen, name, arguments, params)
        with _lock:
            _programs.keep(key, data, program, specialised)
    return program


class DataProgram:
    """The program of a call, made when needed: its `arguments` are the call's data at these
    positions, or constant, and its parameters the call's numbers."""

    def __init__(
        self,
        roots: Sequence[Leaf],
        arguments: Sequence[Input],
        positions: Sequence[int | HostArray],
        params: Sequence[Param],
    ) -> None:
        self.roots, self.arguments, self.positions = roots, arguments, positions
        self.params, self.settings = params, settings()
        self._program: Program | None = None
        self._replay: Callable[..., list[HostArray] | None] | None = None

    def __call__(self, data: Sequence[HostArray], numbers: Sequence[Number]) -> list[HostArray]:
        given = [data[k] if isinstance(k, int) else k for k in self.positions]
        found: list[HostArray] | None = None
        if self._replay is not None:
            found = self._replay(*given, *numbers)
        if found is None:
            if self._program is None:
                self._program = _program(self.roots, self.arguments, given, self.settings, None,
                                         self.params)  # fmt: skip
            found = self._program.execute(given, numbers)
            self._replay = replay_for(self._program, [*given, *numbers], given, numbers)
        return found


def data_program(
    leaves: Sequence[Leaf],
    data: Sequence[HostArray],
    others: Sequence[Leaf],
    other_data: Sequence[HostArray],
    params: Sequence[Param],
) -> DataProgram | None:
    """See `Evaluator.call_program`."""
    if any(node.label.ordered for node in topological(leaves)):
        return None
    first = over_arguments(leaves, _argument, params)
    second = over_arguments(others, _argument, params)
    if first is None or second is None or first[0] != second[0]:
        return None
    positions = [_position(*both, data, other_data)
                 for both in zip(first[2], second[2], strict=True)]  # fmt: skip
    if any(k is None for k in positions):
        return None
    refresh_settings()
    return DataProgram(*first[:2], [k for k in positions if k is not None], params)


def _position(source: HostArray, other: HostArray, data: Sequence[HostArray],
              other_data: Sequence[HostArray]) -> int | HostArray | None:  # fmt: skip
    """The position in the data of what an input has as its source, with other data as its `other`
    source; the source itself if it is in neither, but constant.  None for anything else.  (Data
    that a function refers to is its own other data.)"""
    place, its = _place_of(source, data), _place_of(other, other_data)
    if place is not None or its is not None:
        return place if (place == its or source is other) and place != -1 else None
    same = source.dtype == other.dtype and np.array_equal(source, other)
    return source.copy() if type(source) is np.ndarray and same else None


def _place_of(source: HostArray, data: Sequence[HostArray]) -> int | None:
    """Which of the data this is; None if there is none, −1 if there are several."""
    places = [k for k, d in enumerate(data) if source is d] or [
        k for k, d in enumerate(data) if _same_view(source, d)
    ]
    return None if not places else places[0] if len(places) == 1 else -1


def _same_view(a: HostArray, b: HostArray) -> bool:
    return type(a) is np.ndarray and (
        all(getattr(a, name) == getattr(b, name) for name in ("shape", "strides", "dtype"))
        and a.ctypes.data == b.ctypes.data
    )
