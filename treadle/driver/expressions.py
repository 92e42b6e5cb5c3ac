"""Programs by what they compute: of signatures of arguments, and of expressions.

One program serves an expression and all others that differ from it in their data only: what
`td.run` computes, and arrays outside of compiled functions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from treadle.backend.registry import choose
from treadle.dsl.analysis.short_extents import SpecialisedExtents, specialising
from treadle.dsl.frontend.call_cache import HostArray
from treadle.dsl.frontend.sources import is_lazy
from treadle.dsl.frontend.trees import Tree, array_tree, joined_tree
from treadle.dsl.graph import Input, Leaf, topological
from treadle.dsl.graphs.inputs import inputs_of
from treadle.dsl.graphs.rebuild import Lines, over_arguments
from treadle.dsl.process import locks
from treadle.dsl.process.configuration import Settings, refresh_settings, settings
from treadle.dsl.types import LEAF, ScalarType

from .arguments import split_arguments
from .program import Program


def backend_for(name: str | None, data: Iterable[Any]) -> str:
    """The backend of this name; for None `dask` for its arrays, else that of the settings."""
    if name is None and any(map(is_lazy, data)):
        name = "dask"
    return choose(name if name is not None else settings().backend)


#: The programs kept per function and settings: the most recently used ones.
PROGRAMS = 256


class Programs(OrderedDict[Any, Program | SpecialisedExtents]):
    """Programs by signature, least recently used first.  (Replayed calls do not look up.)

    If a program is specialised for short extents, the entry of its signature is their list
    (`SpecialisedExtents`), and the key of the program has their values in addition.
    """

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
        if specialised.most:
            self[key] = specialised
            key = key, specialised.values(shapes)
        self[key] = program
        while len(self) > PROGRAMS:
            self.popitem(last=False)


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
    found = _program(*over, chosen, backend).execute(over[2])
    return found


def _list_of(leaves: Sequence[Leaf]) -> Tree:
    return joined_tree([array_tree(LEAF)] * len(leaves), "list")


def _program(roots: Sequence[Leaf], arguments: Sequence[Input], data: Sequence[HostArray],
             chosen: Settings, backend: str | None) -> Program:  # fmt: skip
    """The program of these results, made or found."""
    name = backend_for(backend, data)
    key = tuple(roots), name, chosen
    with _lock:
        program = _programs.find(key, data)
    if program is None:
        with specialising(arguments, [d.shape for d in data]) as specialised:
            program = Program(roots, _list_of(roots), chosen, name, arguments)
        with _lock:
            _programs.keep(key, data, program, specialised)
    return program


class DataProgram:
    """The program of a call, of data that are its arguments in this `order`; made when needed."""

    def __init__(
        self, roots: Sequence[Leaf], arguments: Sequence[Input], order: Sequence[int]
    ) -> None:
        self.roots, self.arguments, self.order = roots, arguments, order
        self.settings = settings()
        self._program: Program | None = None
        self._replay: Callable[..., list[HostArray] | None] | None = None

    def __call__(self, data: Sequence[HostArray]) -> list[HostArray]:
        given = [data[k] for k in self.order]
        found: list[HostArray] | None = None if self._replay is None else self._replay(*given)
        if found is None:
            if self._program is None:
                self._program = _program(self.roots, self.arguments, given, self.settings, None)
            found = self._program.execute(given)
            self._replay = self._program.replay(given, given, ())
        return found


def data_program(
    leaves: Sequence[Leaf],
    data: Sequence[HostArray],
    others: Sequence[Leaf],
    other_data: Sequence[HostArray],
) -> DataProgram | None:
    """See `Evaluator.call_program`."""
    if any(node.label.ordered for node in topological(leaves)):
        return None
    first, second = over_arguments(leaves, _argument), over_arguments(others, _argument)
    if first is None or second is None or first[0] != second[0]:
        return None
    order = _places_of(first[2], data)
    if order is None or order != _places_of(second[2], other_data):
        return None
    refresh_settings()
    return DataProgram(*first[:2], order)


def _places_of(sources: Sequence[HostArray], data: Sequence[HostArray]) -> list[int] | None:
    """Which of the data each source is a view of; None if one is something else."""
    found = []
    for source in sources:
        places = [k for k, d in enumerate(data) if source is d or (source.base is (
            d if d.base is None else d.base) and _same_view(source, d))]  # fmt: skip
        if len(places) != 1:
            return None
        found += places
    return found


def _same_view(a: HostArray, b: HostArray) -> bool:
    return all(getattr(a, word) == getattr(b, word) for word in ("shape", "strides", "dtype")) and (
        a.ctypes.data == b.ctypes.data
    )
