"""The driver's implementation of the language's `Evaluator` (`dsl/evaluator.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

# The first four are imported for their `later.offer` calls.
import treadle.dsl.frontend.evaluation
import treadle.dsl.frontend.suggestions
import treadle.dsl.graphs.names
import treadle.dsl.graphs.printer  # noqa: F401
from treadle.backend import registry
from treadle.dsl.expr import Param
from treadle.dsl.frontend.deferred import HostArray
from treadle.dsl.frontend.trees import Tree
from treadle.dsl.graph import Input, Leaf
from treadle.dsl.process.configuration import Settings, refresh_settings, settings

from .expressions import DataProgram, data_program, evaluate
from .program import Program


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

    def borrowed(self, value: Any) -> Any:
        return registry.load("cuda").borrowed(value)

    def values(self, leaves: Sequence[Leaf]) -> Sequence[Any]:
        refresh_settings()
        return evaluate(leaves, settings(), None)

    def call_program(self, leaves: Sequence[Leaf], data: Sequence[HostArray],
                     others: Sequence[Leaf], other_data: Sequence[HostArray],
                     numbers: Sequence[Param]) -> DataProgram | None:  # fmt: skip
        return data_program(leaves, data, others, other_data, numbers)

    def program(self, roots: Sequence[Leaf], tree: Tree, settings: Settings, backend: str,
                arguments: Sequence[Input]) -> Program:  # fmt: skip
        return Program(roots, tree, settings, backend, arguments)
