"""Residency: which processor runs a block."""

from __future__ import annotations

from .layers import Layer
from .validate import choice, integer

METHODS = ("mst", "kway", "bisect")


class Residency(Layer):
    """The base class of residencies."""

    slot = "residency"


class Grid(Residency):
    """The hardware assigns blocks to multiprocessors, roughly in the order of their ids.

    >>> Grid()
    Grid()
    """


class Clusters(Residency):
    """Groups of ``n`` neighbouring blocks run on one multiprocessor, if the hardware assigns blocks
    round-robin: the ids of a group are as far apart as there are multiprocessors (redirection;
    Li et al., ASPLOS 2017). On a CPU neighbouring blocks run together anyway.

    >>> Clusters(4)
    Clusters(4)
    """

    n: int

    def __post_init__(self) -> None:
        integer(self, "n")


class Agents(Residency):
    """``per_sm`` persistent blocks on each multiprocessor process the blocks assigned to it.

    A persistent block reads its multiprocessor from ``%smid``, takes the next block of a contiguous
    range, and steals from the tail of the fullest range when its own is empty (Li et al., ASPLOS
    2017, agent-based clustering). The threads of a CPU always work like this.

    >>> Agents(2)
    Agents(2)
    """

    per_sm: int

    def __post_init__(self) -> None:
        integer(self, "per_sm")


class LocalityGraph(Residency):
    """Persistent blocks with a queue per multiprocessor, filled from the block-sharing graph.

    Blocks that read many cache lines in common share a queue; on a CPU, a thread. ``method``:
    "mst", the order of a maximum spanning tree; "kway", a partition into as many parts as there
    are multiprocessors; "bisect", recursive bisection (PAVER: Tripathy et al., TACO 2021). The
    last two need ``pymetis`` (the extra ``schedules``). Blocks are 8 x 32 unless a ``Block`` says
    otherwise. The graph is built at the first call for given extents and, if indices depend on
    the contents of arguments, rebuilt whenever these change.

    >>> LocalityGraph(method="kway")
    LocalityGraph(method="kway")
    """

    method: str = "mst"

    def __post_init__(self) -> None:
        choice(self.method, METHODS, LocalityGraph, "method")
