"""What passes share: settings, and the decisions they leave for `explain()`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..configuration import Settings
from ..graph import Node


@dataclass
class Context:
    """Settings in; decisions out: why a node was (not) fused, which idioms were recognised."""

    settings: Settings
    backend: str
    kept: dict[Node, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
