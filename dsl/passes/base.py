"""Shared context of passes: settings, and decisions for `explain()`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..graph import Input, Node
from ..process.configuration import Settings
from ..target import Target, target_of


@dataclass
class Context:
    """Inputs of passes: the settings.  Outputs: why a node was (not) fused, which idioms were
    recognised, and which inputs replace those of the graph as written."""

    settings: Settings
    backend: str
    kept: dict[Node, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inputs: dict[Input, Input] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """The target of the program."""
        return target_of(self.backend)
