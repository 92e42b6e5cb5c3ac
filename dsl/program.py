"""A traced program, as everything below the driver sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .configuration import Settings
    from .expr import Expr, Param
    from .graph import Input, Leaf, Node
    from .product_way import ProductWay
    from .schedule import Schedule
    from .values import Tree


class TracedProgram(Protocol):
    """What passes, analyses, lowerings, backends and tuning may ask of a program: the graph, what
    is known of its arguments, and what the backend that it is for says of a node."""

    name: str
    backend: str
    settings: Settings
    tree: Tree
    roots: Sequence[Leaf]
    source_roots: Sequence[Leaf]
    inputs: Sequence[Input]
    source_inputs: Sequence[Input]
    source_arguments: Sequence[Input]
    arguments: Sequence[Input]
    params: Sequence[Param]
    #: Extents of the arrays, and numbers, that it was lowered for, where these are known.
    example_shapes: tuple[tuple[int, ...], ...] | None
    example_numbers: tuple[Any, ...]
    tuning: Any
    #: Under whose name timings are kept, if not its own; who runs it in its place.
    measured_as: TracedProgram | None
    tuned_products: Any

    @property
    def executable(self) -> Any:
        """What the backend made of it."""

    def execute(self, data: Sequence[Any], params: Sequence[Any] = ()) -> Any:
        """Run on the data of the arguments."""

    def scheduled(self, **schedules: Any) -> TracedProgram:
        """The same meaning under other schedules, by the names of operations."""

    def offered(self, what: str) -> Any:
        """What the module of its backend offers under a name; None where it does not."""

    def lowering(self, node: Node) -> Any:
        """The context in which a kernel is lowered; None where no kernel is."""

    def first_choice(self, node: Node) -> Schedule | None:
        """The schedule that is chosen, on the examples, for a kernel that leaves it open."""

    def placed(self, data: Sequence[Any]) -> list[Any]:
        """The data of the arguments where the backend works on it."""

    def machine(self) -> list[str]:
        """What the backend runs on, beside this machine's processor."""

    def product_ways(self, node: Node, size: tuple[int, int, int]) -> list[ProductWay]:
        """Ways to compute an (m, k) by (k, n) product that are left open."""

    def wait(self) -> None:
        """Return when what was called is done."""

    def measured(self) -> Any:
        """What tuning measured for it on this device at the extents of the examples, or None."""

    def memory(self) -> TuningMemory:
        """What tuning found for extents that a call brings."""


class TuningMemory(Protocol):
    """Tables of measurements by extents."""

    @property
    def extents(self) -> Sequence[Expr]:
        """What a table depends on."""

    def table(self, known: Mapping[Expr, int]) -> Any:
        """The table for such extents, None where nothing was measured."""
