"""drop_marks: removes operations that kernels do not compute: `stop`, the end of derivatives, and
`also`, the index tests of checked programs.

Index tests cover every operation as written.  A read out of range is an error even if the element
does not affect a result: in an unused component, before a slice, in an operand of `x * 0`.  A
checked program therefore computes a producer in full if its reader would skip some of its indices,
and keeps the reads left over by simplification (`also`, simplify.py).  Unchecked programs need
neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from ..analysis.polynomial import always_inside
from ..expr import Apply, Expr, Index, Read, evaluated, primitive, reading, walk
from ..graph import Check, Fold, Generate, Input, Leaf, Node, Scan, Shape, topological
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..primitives import Primitive
from .base import Context


def drop_marks(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """`stop(x)` → `x` and, in unchecked programs, `also(x, y)` → `x`."""
    marks = {_STOP} if context.settings.check else {_STOP, _ALSO}
    marked = {node for node in topological(roots) if _has_marks(node, marks)}
    if not marked:
        return list(roots)
    return replace_nodes(roots, lambda _, made: made, context.kept, _Dropping(marks, marked))


_ALSO, _STOP = primitive("also"), primitive("stop")


def _has_marks(node: Node, marks: Set[Primitive]) -> bool:
    checked = (e for c in node.checks for e in (c.left, c.right))
    every = walk((*node.expressions(), *checked))
    return any(True for e in every if type(e) is Apply and e.op in marks)


class _Dropping(Rebuilder):
    def __init__(self, marks: Set[Primitive], marked: Set[Node]) -> None:
        super().__init__()
        self.marks, self.marked = marks, marked

    def _read(self, e: Expr) -> Expr:
        return e.args[0] if isinstance(e, Apply) and e.op in self.marks else super()._read(e)

    def node(self, node: Node) -> Node:
        if isinstance(node, Input) or node not in self.marked:
            return super().node(node)
        made, dropped = self.over(node, self), self._dropped(node)
        return made.with_(checks=(*made.checks, *dropped)) if dropped else made

    def _dropped(self, node: Node) -> list[Check]:
        """The checks of arrays that only a dropped operand reads: extents do not depend on it."""
        unread = [x for e in walk(node.expressions()) if isinstance(e, Apply) and e.op in self.marks
                  for x in e.args[1:]]  # fmt: skip
        read = [Leaf(e.node, e.component) for e in reading(unread)]
        checks = dict.fromkeys(c for n in topological(read, inside=False) for c in n.checks)
        return [c for c in map(self.field, checks) if c not in node.checks]


def keeps_tests(body: Sequence[Expr], shape: Shape, readers: Iterable[tuple[Node, Read]]) -> bool:
    """Whether inlining into `readers` still tests every index: those in `body`, with one expression
    per component over the domain `shape`, and the readers' own."""
    found = list(readers)
    # If an index may be out of range, inlining would lose its test.
    if any(may_be_outside(e, node.iteration_space()) for node, e in found):
        return False
    read = {e.component for _, e in found}
    whole = {e.component for node, e in found if _reads_all(node, e)}
    for k, e in enumerate(body):
        reads = [x for x in walk((e,)) if isinstance(x, Read)]
        if reads and k not in read:  # these indices would not be tested
            return False
        if k not in whole and any(may_be_outside(x, shape) for x in reads):
            return False
    return True


def may_be_outside(read: Read, over: Sequence[Expr | None]) -> bool:
    """Whether an index is not provably in range; `over`: the reader's extents, None if unknown."""
    extents = read.node.outputs[read.component].shape
    indices = zip(read.args, extents, strict=True)
    return read.boundary is None and not all(_is_inside(i, n, over) for i, n in indices)


def _is_inside(index: Expr, extent: Expr, over: Sequence[Expr | None]) -> bool:
    if isinstance(index, Index) and index.axis < len(over) and over[index.axis] is extent:
        return True
    return always_inside(index, extent, over)


def _reads_all(reader: Node, read: Read) -> bool:
    """Whether a kernel unconditionally reads every element, at indices in range."""
    if not isinstance(reader, Generate | Fold | Scan) or read.boundary is not None:
        return False
    over, extents = reader.iteration_space(), read.node.outputs[read.component].shape
    axes = [e.axis if isinstance(e, Index) else -1 for e in read.args]
    every = sorted(axes) == list(range(len(over)))
    whole = every and all(over[k] is n for k, n in zip(axes, extents, strict=True))
    return whole and read in evaluated(reader.elements)
