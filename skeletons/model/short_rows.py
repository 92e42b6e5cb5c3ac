"""What `explain()` says of short folds that are computed as loops of their readers.

Whether they are depends on extents (passes/short_folds.py), so the text is about the extents that a
program was lowered for.
"""

from __future__ import annotations

from treadle.dsl.combines import SHORT_ROW
from treadle.dsl.graph import Fold, Node
from treadle.dsl.names import Names
from treadle.dsl.passes.short_folds import Short, is_short, length

#: When a GPU's tiled fold computes the folds that it reads itself (backend/cuda/forms.py).
TILED = f"its results fill tiles and their rows have fewer than {SHORT_ROW} elements"


class ShortRows:
    """The short folds of a program on a backend, for the extents known to its names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        found = names.program.offered("forms_of")
        self.short: Short = Short() if found is None else found(names.program)

    def _count(self, fold: Fold) -> int | None:
        return self.names.value(length(fold))

    def loops(self, node: Node) -> frozenset[Node]:
        """The folds that are loops inside a kernel for these extents."""
        return self.short.loops(node, self._count, self.names.value)

    def made(self, node: Node) -> Node:
        """The node that the kernel of a node is lowered from for these extents."""
        return self.short.of(node, self.loops(node))

    def shown(self, node: Node) -> Node:
        """The node that the text describes: the kernel with the folds that it computes itself."""
        return self.made(node) if self.loops(node) - {node} else node

    def left_out(self, node: Node) -> bool:
        """Whether a node is not launched for these extents, because its reader computes it."""
        return node in self.short.reader and node in self.loops(node)

    def told(self, node: Node) -> str | None:
        """One sentence about a fold whose rows may be short."""
        reader = self.short.reader.get(node)
        if not isinstance(node, Fold) or reader is None:
            return None
        where = f"kernel {self.names.kernels[reader]}"
        rows, count = self.names.extent(length(node)), self._count(node)
        if not self.left_out(node):
            known = "" if count is None else f", here {count}"
            if node in self.short.worth:
                return f"a loop in {where} where {TILED}{known}"
            return f"a loop in {where} where {rows} < {SHORT_ROW}{known}"
        size = self.names.size(node.outer)
        results = "its results are" if size is None else f"{size:,} results are"
        few = f"{rows} = {count}" if rows != str(count) else rows
        return (f"{few} < {SHORT_ROW}: a loop in {where}, which reads each result once; "
                f"not launched, {results} not stored")  # fmt: skip

    def why_apart(self, node: Node, reason: str) -> str | None:
        """Why a kernel is separate from its reader; None if it is not."""
        if node not in self.short.reader:
            return reason
        if self.left_out(node):
            return None
        count = self._count(node) if isinstance(node, Fold) else None
        if node in self.short.worth and count is not None and is_short(count):
            return f"no loop in its reader: that is only where {TILED}"
        return f"rows of {SHORT_ROW} elements and more are folded by many lanes together"
