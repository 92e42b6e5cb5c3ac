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
    """Groups of ``n`` neighbouring blocks run on one multiprocessor, as far as the hardware deals
    out blocks round robin: they are launched as far apart as it has multiprocessors (redirection;
    Li et al., ASPLOS 2017). On a CPU neighbours are together as it is.

    >>> Clusters(4)
    Clusters(4)
    """

    n: int

    def __post_init__(self) -> None:
        integer(self, "n")


class Agents(Residency):
    """``per_sm`` persistent blocks on each multiprocessor fetch the work of that multiprocessor.

    They learn where they run from ``%smid``, take the next of a range of neighbouring blocks, and
    steal from the tail of the fullest range when their own is empty (Li et al., ASPLOS 2017,
    agent-based clustering). The threads of a CPU do that without being asked.

    >>> Agents(2)
    Agents(2)
    """

    per_sm: int

    def __post_init__(self) -> None:
        integer(self, "per_sm")


class LocalityGraph(Residency):
    """Persistent blocks with a queue per multiprocessor, filled from the block-sharing graph.

    Blocks that read many cache lines in common share a queue; on a CPU, a thread. ``method``:
    "mst", the order of a maximum spanning tree; "kway", a partition into as many parts as
    multiprocessors; "bisect", recursive bisection (PAVER: Tripathy et al., TACO 2021). The last
    two need ``pymetis`` (the extra ``schedules``). Blocks are 8 x 32 unless a ``Block`` says
    otherwise. The graph is made at the first call for any extents; where places depend on the
    contents of arguments, again whenever these change.

    >>> LocalityGraph(method="kway")
    LocalityGraph(method="kway")
    """

    method: str = "mst"

    def __post_init__(self) -> None:
        choice(self.method, METHODS, LocalityGraph, "method")
