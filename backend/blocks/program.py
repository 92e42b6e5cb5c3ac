"""The program that computes one block, as it travels to the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treadle.dsl.errors import ScheduleError
from treadle.dsl.frontend.trees import Tree, array_tree, joined_tree
from treadle.dsl.graph import Input, Leaf, Node
from treadle.dsl.program import TracedProgram
from treadle.dsl.types import LEAF

from ..registry import load, offered

if TYPE_CHECKING:
    from treadle.dsl.expr import Param
    from treadle.dsl.operations.algebra.product_way import ProductWay
    from treadle.dsl.process.configuration import Settings
    from treadle.dsl.program import TuningMemory

    from .engine import Engine


class BlockProgram(TracedProgram):
    """A program to which no passes are applied: its kernels are parts of those of an optimised
    program, and further passes could change their bits.  Its results are a tuple."""

    def __init__(
        self,
        roots: Sequence[Leaf],
        tree: Tree,
        settings: Settings,
        backend: str,
        arguments: Sequence[Input] = (),
        params: Sequence[Param] = (),
        name: str = "block",
    ) -> None:
        self.tree, self.settings, self.backend, self.name = tree, settings, backend, name
        self.names: Sequence[str] = ()
        self.roots = self.source_roots = list(roots)
        self.params, self.found = tuple(params), ()
        self.inputs = self.source_inputs = self.arguments = self.source_arguments = tuple(arguments)
        self.example_shapes, self.example_numbers, self.example_chunks = None, (), ()
        self.tuning = self.measured_as = self.tuned_products = self.devices = None
        self.stays = True
        self._executable: Any = None
        #: The serialised program, once it has been sent.
        self.text: str | None = None

    @classmethod
    def over(
        cls, roots: Sequence[Leaf], like: Engine | BlockProgram, arguments: Sequence[Input],
        params: Sequence[Param], name: str,
    ) -> BlockProgram:  # fmt: skip
        """A program with these results, for an engine, or with the settings of another program."""
        tree = joined_tree([array_tree(LEAF)] * len(roots), "tuple", tuple)
        return cls(roots, tree, like.settings, like.backend, arguments, params, name)

    @property
    def executable(self) -> Any:
        if self._executable is None:
            self._executable = load(self.backend).executable(self)
        return self._executable

    def execute(self, data: Sequence[Any], params: Sequence[Any] = ()) -> Any:
        return tuple(self.executable(list(data), params))

    def scheduled(self, **schedules: Any) -> TracedProgram:
        raise ScheduleError("the program of a block has no schedules.")

    def offered(self, what: str) -> Any:
        return offered(self.backend, what)

    def lowering(self, node: Node) -> Any:
        return self.offered("lowering")(self, node)

    def first_choice(self, node: Node) -> None:
        return None

    def placed(self, data: Sequence[Any]) -> list[Any]:
        return list(data)

    def machine(self) -> list[str]:
        return []

    def product_ways(self, node: Node, size: tuple[int, int, int]) -> list[ProductWay]:
        return []

    def wait(self) -> None:
        """Does nothing: calls are complete when they return."""

    def measured(self) -> None:
        return None

    def memory(self) -> TuningMemory:
        raise ScheduleError("nothing is measured for the program of a block.")
