"""The driver's implementation of the language's `Evaluator` (`dsl/evaluator.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

# The first four are imported for their `later.offer` calls.
import treadle.dsl.frontend.evaluation
import treadle.dsl.frontend.suggestions
import treadle.dsl.graphs.names
import treadle.dsl.graphs.printer  # noqa: F401
from treadle.backend import registry
from treadle.dsl.analysis.short_extents import specialising
from treadle.dsl.frontend.trees import Tree, array_tree, joined_tree
from treadle.dsl.graph import Input, Leaf
from treadle.dsl.graphs.inputs import inputs_of
from treadle.dsl.graphs.rebuild import over_arguments
from treadle.dsl.process import locks
from treadle.dsl.process.configuration import Settings, refresh_settings, settings
from treadle.dsl.types import LEAF, ScalarType

from .jit import Programs, backend_for
from .program import Program

# --- Values outside of compiled functions: one program serves an expression and all others that ---
# differ from it in their data only.

_programs = Programs()
_lock = locks.lock()


@lru_cache(maxsize=1024)
def _nth_argument(number: int, type_: ScalarType, ones: tuple[bool, ...]) -> Input:
    """The same node for all data of this rank and type: equal expressions are one graph."""
    return Input(f"input {number}", type_, ones)


def _argument(number: int, node: Input) -> Input:
    return _nth_argument(number, node.type, tuple(int(n) == 1 for n in node.source.shape))


def values(leaves: Sequence[Leaf]) -> list[Any]:
    """The arrays of closed leaves, computed by the backend of the settings."""
    refresh_settings()
    chosen = settings()
    tree = joined_tree([array_tree(LEAF)] * len(leaves), "list")
    found: list[Any]
    over = over_arguments(leaves, _argument)
    if over is None:
        read = (node.source for node in inputs_of(leaves, (), ()))
        found = Program(leaves, tree, chosen, backend_for(None, read)).execute(())
        return found
    roots, arguments, data = over
    backend = backend_for(None, data)
    key = tuple(roots), backend, chosen
    with _lock:
        program = _programs.find(key, data)
    if program is None:
        with specialising(arguments, [d.shape for d in data]) as specialised:
            program = Program(roots, tree, chosen, backend, arguments)
        with _lock:
            _programs.keep(key, data, program, specialised)
    found = program.execute(data)
    return found


class Driver:
    """The evaluator of this package, `module`; `names` are its public names."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.names: Mapping[str, Any] = vars(module)

    def backends(self) -> tuple[str, ...]:
        return tuple(registry.BACKENDS)

    def choose_backend(self, name: str | None) -> str:
        return registry.choose(name)

    def require_backend_name(self, name: str | None) -> None:
        registry.require_name(name)

    def is_backend_name(self, name: str) -> bool:
        return registry.is_name(name)

    def borrowed(self, value: Any) -> Any:
        return registry.load("cuda").borrowed(value)

    def values(self, leaves: Sequence[Leaf]) -> Sequence[Any]:
        return values(leaves)

    def program(self, roots: Sequence[Leaf], tree: Tree, settings: Settings, backend: str,
                arguments: Sequence[Input]) -> Program:  # fmt: skip
        return Program(roots, tree, settings, backend, arguments)
