"""drop_marks: removes operations that kernels do not compute: `stop`, the end of derivatives, and
`also`, the index tests of checked programs.

Index tests cover every operation as written.  A read out of range is an error even if the element
does not affect a result: in an unused component, before a slice, in an operand of `x * 0`.  A
checked program therefore computes a producer in full if its reader would skip some of its indices,
and keeps the reads left over by simplification (`also`, simplify.py).  Unchecked programs need
neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from ..analysis.polynomial import always_inside
from ..expr import (
    Apply,
    Cond,
    Expr,
    Foreign,
    Index,
    Proj,
    Read,
    While,
    evaluated,
    primitive,
    reading,
    rewrite,
    substitute,
    walk,
)
from ..graph import Check, Fold, Generate, Input, Leaf, Node, Scan, Shape, topological
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..primitives import Primitive
from ..scalar import apply_primitive
from .base import Context

#: The conditions that divide the domain of an expression, at most.
MOST_PARTS = 16


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


def is_total(roots: Iterable[Expr], over: Sequence[Expr | None]) -> bool:
    """Whether expressions may be computed over the whole domain: they do not read outside an array,
    run a loop that may not end, or call a user's function.  `cond(i < n, a, b)`, as concatenations
    are, divides the domain into parts."""
    parts, most = [(root, over) for root in roots], MOST_PARTS
    while parts:
        e, extents = parts.pop()
        inside = [*walk((e,))]
        if any(isinstance(x, While | Foreign) for x in inside):
            return False
        if not any(isinstance(x, Read) and may_be_outside(x, extents) for x in inside):
            continue
        conds = (x for x in reversed(inside) if isinstance(x, Cond))
        at = next(((x.args[0], *found) for x in conds if (found := _split(x, extents))), None)
        if at is None or not most:
            return False
        parts += _in_parts(e, *at, extents)
        most -= 1
    return True


def _in_parts(e: Expr, predicate: Expr, axis: int, n: Expr, over: Sequence[Expr | None]
              ) -> Iterator[tuple[Expr, Sequence[Expr | None]]]:  # fmt: skip
    """An expression in the two parts of a domain that a `cond` in it distinguishes at place `n` of
    an axis, with indices that begin with 0, and the extents of the part."""

    def chosen(side: int) -> Expr:
        return rewrite((e,), lambda x: (x.args[0].then, x.args[0].other)[side][x.which]
                       if isinstance(x, Proj) and isinstance(x.args[0], Cond)
                       and x.args[0].args[0] is predicate else x)[0]  # fmt: skip

    index, extent = Index(axis), over[axis]
    assert extent is not None
    yield chosen(0), [*over[:axis], n, *over[axis + 1 :]]
    moved = substitute((chosen(1),), {index: apply_primitive("add", [index, n])})
    yield moved[0], [*over[:axis], apply_primitive("subtract", [extent, n]), *over[axis + 1 :]]


def _split(cond: Cond, over: Sequence[Expr | None]) -> tuple[int, Expr] | None:
    """The axis and the place at which `i < n`, or `i + m < n`, divides a domain."""
    predicate = cond.args[0]
    if not isinstance(predicate, Apply) or predicate.op.name != "less":
        return None
    i, n = predicate.args
    if isinstance(i, Apply) and i.op.name == "add" and isinstance(i.args[0], Index):
        i, n = i.args[0], apply_primitive("subtract", [n, i.args[1]])
    if not isinstance(i, Index) or i.axis >= len(over) or over[i.axis] is None:
        return None
    return None if any(isinstance(e, Index | Read) for e in walk((n,))) else (i.axis, n)


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
