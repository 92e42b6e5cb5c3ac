"""Residency: who runs a block."""

from __future__ import annotations

from .layers import Layer
from .validate import choice, integer

METHODS = ("mst", "kway", "bisect")


class Residency(Layer):
    """Any answer to "who runs a block?"."""

    slot = "residency"


class Grid(Residency):
    """The hardware hands out the blocks, in the order of their ids as far as it keeps one.

    >>> Grid()
    Grid()
    """


class Clusters(Residency):
    """The hardware hands out groups of ``n`` blocks with neighbouring ids.

    >>> Clusters(4)
    Clusters(4)
    """

    n: int

    def __post_init__(self) -> None:
        integer(self, "n")


class Agents(Residency):
    """``per_sm`` persistent blocks on each multiprocessor fetch the work of that multiprocessor.

    They learn where they run from ``%smid`` and steal what others leave undone (Li et al.,
    ASPLOS 2017, agent-based clustering).

    >>> Agents(2)
    Agents(2)
    """

    per_sm: int

    def __post_init__(self) -> None:
        integer(self, "per_sm")


class LocalityGraph(Residency):
    """Persistent blocks with a queue per multiprocessor, filled from the block-sharing graph.

    ``method``: "mst", the order of a maximum spanning tree; "kway", a partition into as many
    parts as multiprocessors; "bisect", recursive bisection (PAVER: Tripathy et al., TACO 2021).

    >>> LocalityGraph(method="kway")
    LocalityGraph(method="kway")
    """

    method: str = "mst"

    def __post_init__(self) -> None:
        choice(self.method, METHODS, LocalityGraph, "method")
