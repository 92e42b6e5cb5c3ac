"""What passes share: settings, and the decisions they leave for `explain()`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..configuration import Settings
from ..graph import Input, Node
from ..target import Target, target_of


@dataclass
class Context:
    """Settings in; decisions out: why a node was (not) fused, which idioms were recognised, and
    which inputs of the graph as written others stand for."""

    settings: Settings
    backend: str
    kept: dict[Node, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inputs: dict[Input, Input] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """What the program is for."""
        return target_of(self.backend)
