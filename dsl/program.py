"""The interface of a traced program for everything below the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .expr import Expr, Extent, Needed, Param
    from .frontend.trees import Tree
    from .graph import Input, Leaf, Node
    from .operations.algebra.product_way import ProductWay
    from .process.configuration import Settings
    from .schedule import Schedule


class TracedProgram(Protocol):
    """The part of a program that passes, analyses, lowerings, backends and tuning use: its graph,
    its example arguments, and facts about a node that depend on its backend."""

    name: str
    #: The names of a call's values, in order.
    names: Sequence[str]
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
    #: Additional parameters: numbers that each call computes from its data.
    found: Sequence[Needed]
    #: Extents and scalar arguments for which the program was lowered, if known.
    example_shapes: tuple[tuple[int, ...], ...] | None
    example_numbers: tuple[Any, ...]
    #: The chunks of arguments that are dask arrays, None for others; empty if unknown.
    example_chunks: tuple[Any, ...]
    #: The numbers of the GPUs that it is compiled for; None for the current GPU.
    devices: tuple[int, ...] | None
    #: Whether results are on the device even if no argument is.
    stays: bool
    tuning: Any
    #: The program under which timings are stored, if it is another one.
    measured_as: TracedProgram | None
    tuned_products: Any

    @property
    def executable(self) -> Any:
        """The program as compiled by the backend."""

    def numbers(self, given: Sequence[object], params: Sequence[object]) -> Sequence[object]:
        """A run's parameters: `params`, then the numbers computed from the data."""

    def execute(self, data: Sequence[Any], params: Sequence[Any] = ()) -> Any:
        """Run on the data of the arguments."""

    def scheduled(self, **schedules: Any) -> TracedProgram:
        """The same program under other schedules, by operation name."""

    def offered(self, what: str) -> Any:
        """The attribute `what` of the backend's module, or None."""

    def lowering(self, node: Node) -> Any:
        """The context for lowering a kernel; None if the node has none."""

    def first_choice(self, node: Node) -> Schedule | None:
        """The schedule chosen, for the example extents, for a kernel whose schedule is open."""

    def placed(self, data: Sequence[Any]) -> list[Any]:
        """The data of the arguments, moved to the backend's device."""

    def machine(self) -> list[str]:
        """A description of the backend's device; empty if it is the processor."""

    def product_ways(self, node: Node, size: tuple[int, int, int]) -> list[ProductWay]:
        """Permitted ways to compute an (m, k) by (k, n) product."""

    def wait(self) -> None:
        """Wait for the completion of previous calls."""

    def measured(self) -> Any:
        """The tuning results for the example extents on this device, or None."""

    def memory(self) -> TuningMemory:
        """The tuning results for the extents of any call."""


class TuningMemory(Protocol):
    """Tables of measurements by extents."""

    @property
    def extents(self) -> Sequence[Extent]:
        """The extents on which a table depends."""

    def table(self, known: Mapping[Expr, int]) -> Any:
        """The table for these extents; None if nothing was measured."""
