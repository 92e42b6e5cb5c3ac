"""A verifier of the array graph: the invariants that every pass must preserve.

`verify(roots)` raises `BrokenGraph` for the first violation: a read of a missing component or with
a wrong number of indices, an index or a variable outside its scope, inconsistent types, a cycle.
Tests run it after every pass; programs do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from .. import graph
from ..expr import Apply, Cond, Expr, Index, Loop, Proj, Read, Var, While, walk
from ..libraries.base import LibraryOperation, is_builtin
from ..types import ScalarType, bool_, int64


class BrokenGraph(AssertionError):
    """A graph that no pass may produce: a bug in treadle."""


def verify(roots: Sequence[graph.Leaf]) -> None:
    """Check every node reachable from `roots`, including the bodies of loops and branches."""
    _no_cycles(roots)
    free: dict[Expr, frozenset[Var]] = {}
    for node in graph.topological(roots):
        for leaf in (*node.operands(), *graph.inner_inputs(node)):
            _need(leaf.component < len(leaf.node.outputs), node, f"no component {leaf}")
        for what, body, axes, variables in _bodies(node):
            for e in walk(body):
                _expression(node, what, e)
                if isinstance(e, Index):
                    _need(e.axis < axes, node, f"{what} uses axis {e.axis} of {axes}")
                free[e] = _free(e, free)
            for e in body:
                outside = [v.name for v in free[e] if v not in variables]
                _need(not outside, node, f"{what} has unbound variables {outside}")
        _types(node)


def _need(holds: bool, node: graph.Node, message: str) -> None:
    if not holds:
        raise BrokenGraph(f"{node!r}: {message}")


def _no_cycles(roots: Sequence[graph.Leaf]) -> None:
    """A node must not depend on itself, not even through a loop's body."""
    open_, closed = set[graph.Node](), set[graph.Node]()
    stack: list[tuple[graph.Node, bool]] = [(leaf.node, False) for leaf in roots]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            open_.discard(node)
            closed.add(node)
        elif node not in closed:
            _need(node not in open_, node, "it depends on itself")
            open_.add(node)
            stack.append((node, True))
            needed = {leaf.node for leaf in (*node.inputs(), *graph.inner_inputs(node))}
            for other in needed:
                _need(other not in open_, node, f"a cycle through {other!r}")
                if other not in closed:
                    stack.append((other, False))


def _bodies(node: graph.Node) -> Iterator[tuple[str, Sequence[Expr], int, Iterable[Var]]]:
    """(what, expressions, number of axes in scope, variables in scope)."""
    host: list[Expr] = [e for o in node.outputs for e in o.shape]
    host += [e for c in node.checks for e in (c.left, c.right)]
    host += node.host_expressions()
    yield from node.scopes()
    combine = getattr(node, "combine", None)
    if combine is not None:
        yield "the combination", combine.results, 0, (*combine.left, *combine.right)
    yield "the host's numbers", host, 0, ()


def _free(e: Expr, free: dict[Expr, frozenset[Var]]) -> frozenset[Var]:
    if isinstance(e, Var):
        return frozenset((e,))
    inside = frozenset[Var]().union(*(free[s] for s in e.scoped)) - frozenset(e.vars if (
        isinstance(e, Read | Loop | While)) else ())  # fmt: skip
    return inside.union(*(free[a] for a in e.args))


def _expression(node: graph.Node, what: str, e: Expr) -> None:
    """Check one expression against its children."""
    if isinstance(e, Read):
        outputs = e.node.outputs
        _need(0 <= e.component < len(outputs), node, f"{what} reads component {e.component} of "
              f"{e.node!r}, which has {len(outputs)}")  # fmt: skip
        rank = len(outputs[e.component].shape)
        _need(len(e.args) == rank, node, f"{what} reads {e.node!r} of rank {rank} at {len(e.args)} "
              "indices")  # fmt: skip
        _need(all(a.type == int64 for a in e.args), node, f"{what} has an index that is not int64")
        _need(e.type == outputs[e.component].type, node, f"{what} reads {e.node!r} as {e.type}")
        _need(all(s.type == e.type for s in e.scoped), node, f"{what} has a border of another type")
        outside = e.boundary in ("constant", "function")
        _need(len(e.scoped) == outside and len(e.vars) in (0, rank * outside), node,
              f"{what} has a border of {len(e.scoped)} values")  # fmt: skip
    elif isinstance(e, Apply):
        _need(len(e.args) == e.op.arity, node, f"{what}: {e.op.name} of {len(e.args)} arguments")
        types = [a.type for a in e.args]
        if e.op.name == "select":
            _need(types[0] == bool_ and types[1] == types[2] == e.type, node,
                  f"{what}: select of {types}")  # fmt: skip
        elif e.op.name == "also":
            _need(types[0] == e.type, node, f"{what}: also of {types[0]} gives {e.type}")
        else:
            _need(len(set(types)) <= 1, node, f"{what}: {e.op.name} of {types}")
            rule = None if e.op.name in ("cast", "complex", "from_bits") else e.op.rule(types[0])
            if rule is not None:
                _need(rule == (types[0], e.type), node, f"{what}: {e.op.name} of {types[0]} gives "
                      f"{e.type}")  # fmt: skip
    elif isinstance(e, Cond):
        _need(e.args[0].type == bool_, node, f"{what}: a condition that is not boolean")
        _same(node, what, e.then, e.types)
        _same(node, what, e.other, e.types)
    elif isinstance(e, While):
        _need(e.scoped[0].type == bool_, node, f"{what}: a predicate that is not boolean")
        _same(node, what, e.args, e.types)
        _same(node, what, e.scoped[1:], e.types)
    elif isinstance(e, Loop):
        _need(e.args[0].type == int64, node, f"{what}: a count that is not int64")
        _same(node, what, e.args[1:], e.types)
        _same(node, what, e.scoped, e.types)
    elif isinstance(e, Proj):
        types_ = e.args[0].types  # type: ignore[attr-defined]
        _need(e.which < len(types_) and types_[e.which] == e.type, node, f"{what}: a wrong result")


def _same(node: graph.Node, what: str, values: Sequence[Expr], types: Sequence[Any]) -> None:
    found = [v.type for v in values]
    _need(found == list(types), node, f"{what}: types {found} where {list(types)} are meant")


def _types(node: graph.Node) -> None:
    """Check that the types of elements, variables, results and outputs of a node agree."""
    if isinstance(node, graph.Input):
        return
    stored = getattr(node, "epilogue", None) or getattr(node, "elements", None)
    if isinstance(node, graph.FoldingMatmul):
        kept = (node.kept,) if isinstance(node, graph.StoringMatmul) else ()
        stored = (*node.finish, *kept, *node.epilogue)
    elif isinstance(node, graph.CrossedFolds):
        stored = (*node.epilogue, *node.across_epilogue)
        for fold in node.apart():
            _types(fold)
    if stored is not None:
        outputs = [o.type for o in node.outputs[: len(stored)]]
        _same(node, "what is stored", stored, outputs)
    if isinstance(node, graph.Fold | graph.FoldSeg | graph.Scan):
        types = [e.type for e in node.elements]
        _same(node, "the results", node.results, types)
        if node.init is not None:
            _same(node, "the initial value", node.init, types)
        _combine(node, node.combine, types)
    elif isinstance(node, graph.Permute):
        types = [d.type for d in node.defaults]
        _same(node, "the values", node.values, types)
        rank = len(node.defaults[0].shape)
        _need(len(node.target) == rank, node, f"a target of {len(node.target)} indices, not {rank}")
        _same(node, "the target", node.target, [int64] * rank)
        _same(node, "the validity", (node.valid,), [bool_])
        if node.combine is not None:
            _combine(node, node.combine, types)
    elif isinstance(node, graph.Sequential):
        types = [*(leaf.type for leaf in node.defaults), *(v.type for v in node.variables)]
        written = [bool_ if k < 0 else types[k] for k in node.written]
        _same(node, "the values", node.values, written)
        _same(node, "the targets", node.target, [int64] * len(node.target))
        ranks = sum(map(len, node.targets()))
        _need(ranks == len(node.target), node, "targets of other ranks")
        depths = [*accumulate((k == graph.BEGIN) - (k == graph.END) for k in node.written)]
        _need(min(depths) == depths[-1] == 0, node, "loops that do not end")
        _same(node, "the validity", node.valid, [bool_] * len(node.written))
        _same(node, "the variables", node.names, [e.type for e in node.early])
    elif isinstance(node, graph.Matmul):
        _same(node, "the operands", (node.left, node.right), [node.result.type] * 2)
        if isinstance(node, graph.FoldingMatmul):
            _types(node.fold())
    elif isinstance(node, graph.Library):
        _need(isinstance(node.operation, LibraryOperation), node, "no operation of a library")
        if node.operation.name in ("sort", "argsort") and is_builtin(node.operation):
            ((of,), (out,), (axis,)) = node.arguments, node.outs, node.operation.parameters
            rank = len(of.shape)
            _need(len(out.shape) == rank, node, f"results of rank {len(out.shape)}, not {rank}")
            _need(axis in range(rank), node, f"axis {axis} of {rank}")
    elif isinstance(node, graph.ArrayLoop):
        kinds = [_kind(leaf) for leaf in node.init]
        _need([_kind(s.leaf()) for s in node.state] == kinds == [_kind(b) for b in node.body], node,
              "a state that changes its type or rank")  # fmt: skip
        _need((node.predicate is None) != (node.count is None), node, "not one end")
        if node.predicate is not None:
            _need(_kind(node.predicate) == (bool_, 0), node, "a predicate that is not boolean")
        if node.index is not None:
            _need(_kind(node.index.leaf()) == (int64, 0), node, "a counter that is not int64")
        if node.count is not None:
            _same(node, "the count", (node.count,), [int64])
    elif isinstance(node, graph.Branch):
        kinds = [(o.type, len(o.shape)) for o in node.outs]
        for side in (node.then, node.other):
            _need([_kind(leaf) for leaf in side] == kinds, node, "sides of different types or rank")
        _same(node, "the predicate", (node.predicate,), [bool_])
    if isinstance(node, graph.Recurrence):
        types = [v.type for v in node.state]
        _same(node, "the first state", node.start, types)
        _same(node, "the next state", node.steps, types)
        _need(set(node.last) <= set(range(len(types))), node, f"no parts {node.last} of the state")
    if isinstance(node, graph.Scan | graph.Recurrence):
        _need(node.axis in range(len(node.shape)), node, f"axis {node.axis} of {len(node.shape)}")
    if isinstance(node, graph.Scan):
        _need(node.form in ("inclusive", "exclusive", "total"), node, f"form {node.form!r}")
        _need(node.form == "inclusive" or node.init is not None, node, "no initial value")
    elif isinstance(node, graph.FoldSeg):
        _need(_kind(node.offsets) == (int64, 1), node, "offsets that are not a vector of int64")


def _kind(leaf: graph.Leaf) -> tuple[ScalarType, int]:
    return leaf.type, len(leaf.shape)


def _combine(node: graph.Node, combine: graph.Combine, types: Sequence[Any]) -> None:
    _same(node, "the left operands", combine.left, types)
    _same(node, "the right operands", combine.right, types)
    _same(node, "the combination", combine.results, types)
