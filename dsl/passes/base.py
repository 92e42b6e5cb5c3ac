"""Shared context of passes: settings, and decisions for `explain()`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import Location
from ..expr import Expr
from ..graph import Input, Label, Node
from ..process.configuration import Settings
from ..target import Target, target_of

#: Fused operations, and where they were written.
Fused = tuple[tuple[Label, Location | None], ...]


@dataclass
class Context:
    """The context of passes.  Inputs: the settings.  Outputs: why a node was (not) fused, which
    idioms were recognised, and which inputs replace those of the graph as written."""

    settings: Settings
    backend: str
    #: Whether arrays are partitioned over several devices.
    in_parts: bool = False
    kept: dict[Node, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inputs: dict[Input, Input] = field(default_factory=dict)
    #: For each recurrence, the expressions that producers became in its steps, with the operations
    #: they contain: a pass that moves part of these steps elsewhere attributes the operations to
    #: it.
    inlined: dict[Node, dict[Expr, Fused]] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        return target_of(self.backend)
