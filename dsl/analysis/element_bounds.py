"""The ranges of the elements of integer arrays, from how they are computed.

x & 255, y % 10, clip(z, 0, n - 1)    whatever x, y and z are
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from ..expr import Cond, Expr, Proj, Read
from ..graph import ArrayLoop, Generate, Leaf, Node, Permute
from .bounds import Intervals, Range, whole

#: Arrays through which a range is followed, one computed from the other.
DEEPEST = 40
#: Arrays that are looked at: those in front of a loop again for each range tried of its state.
MOST = 1000


def element_bounds(leaf: Leaf) -> Range:
    """The least and the greatest value that elements of an integer array can have."""
    return _Elements().of(leaf)


class _Elements(Intervals):
    """The ranges where states of loops have those of `assumed`."""

    def __init__(self, assumed: Mapping[Node, Range] | None = None, depth: int = 0,
                 steps: Iterator[int] | None = None) -> None:  # fmt: skip
        super().__init__()
        self.assumed, self.depth, self.steps = assumed or {}, depth, steps or count()

    def of(self, leaf: Leaf) -> Range:
        if self.depth == DEEPEST or next(self.steps) >= MOST:
            return whole(leaf.type)
        self.depth += 1
        try:
            return self._of(leaf)
        finally:
            self.depth -= 1

    def _of(self, leaf: Leaf) -> Range:
        node, component = leaf
        if type(node) is Generate:
            return self.range(node.elements[component])
        if type(node) is Permute and node.combine is None:  # some of the elements are new
            return _hull(self.of(node.defaults[component]), self.range(node.values[component]))
        if isinstance(node, ArrayLoop):
            return self._last(node, component)
        return self.assumed.get(node, whole(leaf.type))

    def _last(self, loop: ArrayLoop, component: int) -> Range:
        """The range of a state: one that an iteration keeps."""
        found = self.of(loop.init[component])
        for _ in range(2):
            assumed = {**self.assumed, loop.state[component]: found}
            inside = _Elements(assumed, self.depth, self.steps)
            after = _hull(found, inside.of(loop.body[component]))
            if after == found:
                return found
            found = after
        return whole(loop.state[component].type)

    def leaf(self, e: Expr) -> Range:
        if isinstance(e, Read) and e.boundary is None:
            return self.of(Leaf(e.node, e.component))
        if isinstance(e, Proj) and isinstance(e.args[0], Cond):
            sides = e.args[0].then[e.which], e.args[0].other[e.which]
            return _hull(*map(self.range, sides))
        return super().leaf(e)


def _hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])
