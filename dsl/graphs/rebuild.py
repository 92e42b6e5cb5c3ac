"""Rewriting the array graph: rebuild nodes over changed inputs, bottom-up and iteratively."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

from ..expr import BINDERS, Expr, Extent, Foreign, Needed, Param, Read, Var, rewrite, walk
from ..graph import Check, Combine, Input, Leaf, Library, Node, Output, topological
from ..libraries.base import is_builtin
from ..types import ScalarType
from .inputs import bound_by, inputs_of


class Rebuilder:
    """Maps old leaves to new ones; expressions are rewritten with one shared memo."""

    def __init__(self) -> None:
        self.nodes: dict[Node, Node] = {}
        self.leaves: dict[Leaf, Leaf] = {}
        self.memo: dict[Expr, Expr] = {}
        #: Renamed variables that nodes bind; also in `memo`.
        self.variables: dict[Var, Var] = {}

    def leaf(self, leaf: Leaf) -> Leaf:
        found = self.leaves.get(leaf)
        if found is not None:
            return found
        return Leaf(self.nodes.get(leaf.node, leaf.node), leaf.component)

    def expr(self, e: Expr) -> Expr:
        return self.exprs((e,))[0]

    def exprs(self, es: Sequence[Expr]) -> tuple[Expr, ...]:
        return rewrite(es, self._read, self.memo)

    def _read(self, e: Expr) -> Expr:
        if not isinstance(e, Read):
            return e
        leaf = self.leaf(Leaf(e.node, e.component))
        if leaf.node is e.node and leaf.component == e.component:
            return e
        return Read(leaf.node, leaf.component, e.args, e.boundary, e.scoped, e.vars)

    def field(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return self.expr(value)
        if isinstance(value, Leaf):
            return self.leaf(value)
        if isinstance(value, Node):  # the state of a loop
            return self.nodes.get(value, value)
        if isinstance(value, Output):
            return Output(self.exprs(value.shape), value.type)
        if isinstance(value, Combine):
            left, right = ([self.variables.get(v, v) for v in side]
                           for side in (value.left, value.right))  # fmt: skip
            return Combine(tuple(left), tuple(right), self.exprs(value.results))
        if isinstance(value, Check):
            first, second = self.expr(value.left), self.expr(value.right)
            if first is value.left and second is value.right:
                return value
            return replace(value, left=first, right=second)
        if isinstance(value, tuple) and value and not isinstance(value, str):
            return tuple(self.field(v) for v in value)
        return value

    def _changed(self, *used: Sequence[Leaf]) -> bool:
        return any(leaf.node in self.nodes or leaf in self.leaves for part in used for leaf in part)

    def take(self, node: Input) -> None:
        """Replace a loop's state if the shape of its initial value has changed."""
        self.replace(node, self.node(node))

    def replace(self, node: Node, made: Node, kept: dict[Node, str] | None = None) -> None:
        """Replace a node by `made` from now on; the decision about it (`kept`) carries over."""
        if made is not node:
            self.nodes[node] = made
            if kept is not None and node in kept:
                kept[made] = kept[node]

    def join(self, nodes: Sequence[Node], made: Node) -> None:
        """Replace the components of several nodes, in order, by those of `made`."""
        leaves = [leaf for node in nodes for leaf in node.leaves]
        self.leaves.update(zip(leaves, made.leaves, strict=True))

    def node(self, node: Node) -> Node:
        """The node over the new leaves, or the node itself if nothing changed."""
        if not self.nodes and not self.leaves:
            return node
        if node in self.nodes and isinstance(node, Input):
            return self.nodes[node]
        if not self._changed(node.inputs(), node.inside()):
            return node
        if isinstance(node, Input):
            return node.copy().of_shape(self.exprs(node.shape))
        return self.over(node, self)

    def over(self, node: Node, checks: Rebuilder) -> Node:
        """The node over the new leaves and expressions, its checks over those of `checks`."""
        for state in getattr(node, "bound", ()):  # even if the body does not read it
            self.take(state)
        changes = {}
        for name in node.fields:
            old = getattr(node, name)
            new = self.field(old)
            if new is not old and new != old:
                changes[name] = new
        checked = checks.field(node.checks)
        if not changes and checked == node.checks:
            return node
        return node.with_(**changes, checks=checked)


def rewrite_graph(roots: Sequence[Leaf], change: Callable[[Node], Node | Sequence[Leaf]],
                  kept: dict[Node, str] | None = None) -> list[Leaf]:  # fmt: skip
    """Rebuild every node over its changed inputs and apply `change`, which gives a node, or a leaf
    for each component.  Decisions about a node (`kept`) are carried over to the node that replaces
    it."""
    return replace_nodes(roots, lambda _, made: change(made), kept)


def replace_nodes(roots: Sequence[Leaf], change: Callable[[Node, Node], Node | Sequence[Leaf]],
                  kept: dict[Node, str] | None = None, builder: Rebuilder | None = None
                  ) -> list[Leaf]:  # fmt: skip
    """`rewrite_graph` for a change that also receives the original node."""
    builder = builder or Rebuilder()
    for node in topological(roots):
        made = change(node, builder.node(node))
        if isinstance(made, Node):
            builder.replace(node, made, kept)
        else:
            builder.leaves.update(zip(node.leaves, made, strict=True))
    return [builder.leaf(r) for r in roots]


def _calls_user(node: Node) -> bool:
    if isinstance(node, Library):
        return not is_builtin(node.operation)
    return any(isinstance(e, Foreign) for e in walk(node.expressions()))


@lru_cache(maxsize=1024)
def _nth_variable(number: int, type_: ScalarType) -> Var:
    return Var(f"v{number}", type_)


@lru_cache(maxsize=1024)
def _nth_state(
    number: int, name: str, type_: ScalarType, kind: str, shape: tuple[Expr | None, ...]
) -> Input:
    made = Input(name, type_, (False,) * len(shape), kind=kind)
    return made.of_shape(
        tuple(o if e is None else e for e, o in zip(shape, made.shape, strict=True))
    )


#: The source locations that the checks of a graph name.
Lines = tuple[tuple[object, ...] | None, ...]


def _places(node: Node) -> list[tuple[object, ...] | None]:
    return [None if check.where is None else check.where.place() for check in node.checks]


class _OverArguments(Rebuilder):
    """Rebuilds graphs in canonical form, so that equal ones are one object: over arguments instead
    of data, with numbered variables and states of loops."""

    def __init__(self, argument: Callable[[int, Input], Input]) -> None:
        super().__init__()
        self.argument = argument
        self.arguments: list[Input] = []
        self.given: dict[Input, Input] = {}
        self.states = 0

    def _read(self, e: Expr) -> Expr:
        if isinstance(e, Needed):
            return Needed(self.given[e.node], e.from_end)
        made = super()._read(e)
        if isinstance(made, BINDERS) and made.vars and made.vars[0] in self.variables:
            return made.over(tuple(self.variables[v] for v in made.vars))
        return made

    def instead(self, given: Input, made: Input) -> None:
        self.nodes[given] = made
        self.memo.update(zip(given.shape, made.shape, strict=True))

    def take_data(self, given: Input) -> None:
        self.arguments.append(self.argument(len(self.arguments), given))
        self.given[given] = self.arguments[-1]
        self.instead(given, self.arguments[-1])

    def take(self, node: Input) -> None:
        if node in self.nodes:
            return
        shape = (None if e is Extent(node, k) else self.expr(e) for k, e in enumerate(node.shape))
        self.instead(node, _nth_state(self.states, node.name, node.type, node.kind, tuple(shape)))
        self.states += 1

    def take_node(self, node: Node) -> Node:
        inside = (v for e in walk(node.expressions()) if isinstance(e, BINDERS) for v in e.vars)
        for var in chain(bound_by(node), inside):
            if var not in self.variables:
                renamed = _nth_variable(len(self.variables), var.type)
                self.memo[var] = self.variables[var] = renamed
        made = self.over(node, self)
        self.replace(node, made)
        return made


def over_arguments(
    roots: Sequence[Leaf],
    argument: Callable[[int, Input, Lines], Input],
    params: Sequence[Param] = (),
) -> tuple[list[Leaf], list[Input], list[Any]] | None:
    """The graph over arguments instead of data, the arguments, and the data.  `argument(k, node,
    lines)` replaces the k-th input that has data, in a graph whose checks name these source lines;
    the n-th variable of a combination, and the n-th state of a loop, are likewise the same in all
    graphs.  The graph may depend on `params`.

    None if the graph calls user functions, which are not kept for other data, or if an equal graph
    without data exists whose checks name other lines.
    """
    nodes = list(topological(roots))
    if any(_calls_user(node) for node in nodes):
        return None
    lines = tuple(place for node in nodes for place in _places(node))
    builder = _OverArguments(lambda k, node: argument(k, node, lines))
    given = inputs_of(roots, (), params)  # including those of which only extents are used
    for one in given:
        builder.take_data(one)
    for node in nodes:
        if isinstance(node, Input):
            if node.bound:
                builder.take(node)
            continue
        made = builder.take_node(node)
        if _places(made) != _places(node):
            return None
    return [builder.leaf(r) for r in roots], builder.arguments, [one.source for one in given]
