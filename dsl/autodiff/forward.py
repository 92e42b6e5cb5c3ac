"""The forward derivative of an array graph, as another graph of ordinary nodes.

The nodes are visited in order.  Each leaf that depends on a differentiated input has a tangent, an
array of its shape.  Linear operations such as sums are applied to tangents directly; folds, scans
and permutes of other functions combine pairs of value and tangent.  The rules of a node class,
forward beside reverse, are in the module of its family (`elements.py`, `folds.py`, `permutes.py`,
…).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from .. import graph
from ..analysis.combines import independent_parts, ways
from ..errors import GradientError
from ..expr import Expr, Read, Var
from ..graph import Leaf, Node
from .arguments import constant_leaf
from .expressions import Active, expr_jvp, resolved, shifted, zero
from .magnitudes import smooth
from .reads import stored
from .reverse import Reducing, located, own, pulled, refused, results_of


class Forward:
    """The tangents of leaves, given those of some.  `fixed`: leaves that have no tangents but
    these.  `replaced`: leaves of the program, with those that compute the same together with
    tangents."""

    def __init__(self, tangents: Mapping[Leaf, Leaf], fixed: Sequence[Leaf] = ()) -> None:
        self.tangents = dict(tangents)
        self._given = frozenset((*tangents, *fixed))
        self.replaced: dict[Leaf, Leaf] = {}
        self._done: set[Node] = {leaf.node for leaf in (*tangents, *fixed)}
        #: The leaves on which the requested tangents depend.
        self.used: set[Leaf] = set()
        self.active = Active(
            lambda e: isinstance(e, Read) and Leaf(e.node, e.component) in self.tangents
        )

    def run(self, roots: Sequence[Leaf]) -> None:
        self.used.update(roots)
        for node in graph.topological(roots, known=self._done):
            self.used.update((*node.inputs(), *node.inside()))
        reached = _reached(roots, self._done)
        for node in graph.topological(roots, inside=False, known=tuple(self._done)):
            if isinstance(node, graph.Input) or node not in reached:
                continue
            self._done.add(node)
            try:
                RULES.get(type(node), _by_transposition)(self, node)
            except GradientError as error:
                raise located(error, node) from None

    def along(
        self, bodies: Sequence[Expr], variables: Mapping[Expr, Expr] | None = None
    ) -> list[Expr | None]:
        """The tangents of expressions that read arrays and `variables` with tangents."""
        known = variables or {}

        def tangent(e: Expr) -> Expr | None:
            return self.read(e) if isinstance(e, Read) else known.get(e)

        return list(expr_jvp(self.smooth(bodies, known), tangent))

    def smooth(self, bodies: Sequence[Expr], known: Container[Expr] = ()) -> tuple[Expr, ...]:
        """The expressions to differentiate in place of these."""
        active = self.active
        if known:
            active = Active(lambda e: e in known or (isinstance(e, Read) and self.active(e)))
        return smooth(resolved(bodies, self.active), active,
                      lambda e: Leaf(e.node, e.component) in self._given)  # fmt: skip

    def read(self, e: Read) -> Expr | None:
        moved = self.tangents.get(Leaf(e.node, e.component))
        if moved is None:
            return None
        if e.boundary in ("constant", "function"):
            outside = (zero(e.type),)
            return Read(moved.node, moved.component, e.args, "constant", outside)
        return Read(moved.node, moved.component, e.args, e.boundary)

    def captures(self, combine: graph.Combine) -> bool:
        """Whether a combining function itself reads arrays that have a tangent."""
        return any(map(self.active, combine.results))

    def dual(self, combine: graph.Combine) -> graph.Combine:
        floats = [k for k, r in enumerate(combine.results) if r.type.is_inexact]
        left = [Var("d_left", combine.left[k].type) for k in floats]
        right = [Var("d_right", combine.right[k].type) for k in floats]
        tangents: dict[Expr, Expr] = {combine.left[k]: v for k, v in zip(floats, left, strict=True)}
        tangents.update((combine.right[k], v) for k, v in zip(floats, right, strict=True))
        moved = self.along([combine.results[k] for k in floats], tangents)
        results = [t or zero(v.type) for t, v in zip(moved, left, strict=True)]
        return graph.canonical_combine((*combine.left, *left), (*combine.right, *right),
                                       (*combine.results, *results))  # fmt: skip

    def give(self, leaves: Sequence[Leaf], tangents: Sequence[Expr | None], node: Node) -> None:
        """Record tangents of one shape, as expressions computed together."""
        kept = [(x, t) for x, t in zip(leaves, tangents, strict=True) if t is not None]
        if len(kept) == 1:
            ((leaf, t),) = kept
            self.tangents[leaf] = stored(leaf.shape, t, tangent_of(node), node.where)
        elif kept:
            elements = tuple(t for _, t in kept)
            made = graph.Generate(
                kept[0][0].shape, elements, label=tangent_of(node), where=node.where
            )
            self.tangents.update(zip((x for x, _ in kept), made.leaves, strict=True))

    def of(self, leaf: Leaf) -> Leaf:
        """The tangent of a leaf, zeros if it has none."""
        return self.tangents.get(leaf) or constant_leaf(0, leaf, "no tangent")

    def combined(self, node: graph.Fold | graph.FoldSeg | graph.Scan
                 ) -> tuple[list[Leaf | None], list[Leaf | None]]:  # fmt: skip
        """The tangents of the elements of a fold or a scan, and of a scan's totals."""
        elements, init = node.elements, node.init
        moved = self.along(elements)
        starts = [None] * len(elements) if init is None else self.along(init)
        results: list[Leaf | None] = [None] * len(elements)
        last: list[Leaf | None] = [None] * len(elements)
        for group, one in independent_parts(node.combine):
            floats = [k for k in group if elements[k].type.is_inexact]
            still = all(moved[k] is None and starts[k] is None for k in floats)
            if still and not self.captures(one):
                continue
            tangents = [moved[k] or zero(elements[k].type) for k in floats]
            beginning = [starts[k] or zero(elements[k].type) for k in floats]
            linear = ways(one) == ["add"]
            values = [] if linear else [elements[k] for k in group]
            first = None
            if init is not None:
                first = (*([] if linear else [init[k] for k in group]), *beginning)
            both = one if linear else self.dual(one)
            made = graph.over(node, (*values, *tangents), both, first, tangent_of(node))
            count = len(values) + len(tangents)
            for j, k in enumerate(floats):
                results[k] = made.leaf(len(values) + j)
                if isinstance(node, graph.Scan) and node.form == "total":
                    last[k] = made.leaf(count + len(values) + j)
        return results, last

    def epilogue(self, node: Reducing, tangents: Sequence[Leaf | None]) -> None:
        """Record the tangents of an epilogue, given those of the variables it uses."""
        variables, shape, values = results_of(node)
        rank = len(shape)
        if node.epilogue == variables:
            exprs = [None if t is None else own(t, rank) for t in tangents]
        else:
            moved: dict[Expr, Expr] = {
                v: own(t, rank) for v, t in zip(variables, tangents, strict=True) if t is not None
            }
            along = self.along(node.epilogue, moved)
            exprs = [None if t is None else shifted(t, values) for t in along]
        self.give(node.leaves[: len(node.epilogue)], exprs, node)


def tangent_of(node: Node) -> graph.Label:
    return graph.Label(f"tangent of {node.label}")


def _reached(roots: Sequence[Leaf], known: Container[Node]) -> set[Node]:
    """The roots' dependences, without nodes that only serve results of functions with rules."""
    found: set[Node] = set()
    stack = [leaf.node for leaf in roots]
    while stack:
        node = stack.pop()
        if node in found or node in known:
            continue
        found.add(node)
        leaves: Sequence[Leaf] = tuple(node.inputs())
        if isinstance(node, graph.Barrier) and node.rule is not None:
            leaves = node.arguments[node.ruled :]
        stack += [leaf.node for leaf in leaves]
    return found


# --- rules -------------------------------------------------------------------------------------

#: The rules of node classes.  A node without one has the transpose of its reverse derivative.
RULES: dict[type[Node], Callable[..., None]] = {}


def forward_rule(cls: type[Node]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        RULES[cls] = function
        return function

    return register


def _by_transposition(f: Forward, node: Node) -> None:
    given = {leaf: f.tangents[leaf] for leaf in node.inputs() if leaf in f.tangents}
    if given:
        f.tangents.update(transposed(node, given, f))


def transposed(node: Node, tangents: Mapping[Leaf, Leaf], f: Forward) -> dict[Leaf, Leaf]:
    """The tangents of a node's results, given those of some inputs, by its reverse rule: its
    cotangents are linear in those of the results, and are differentiated with respect to them."""
    floats = [leaf for leaf in node.leaves if leaf.type.is_inexact]
    bars = [
        graph.Input("cotangent", leaf.type, (False,) * len(leaf.shape), kind="argument")
        .of_shape(leaf.shape).leaf()
        for leaf in floats
    ]  # fmt: skip
    found, first = pulled(floats, bars, list(tangents))
    made, second = pulled(found, list(tangents.values()), bars)
    if any(bar.node in set(graph.topological(made)) for bar in bars):
        raise refused(
            f"'{node.label}' has no forward derivative: its reverse one is not linear.",
            "A rule multiplies its cotangents, and adds them.",
        )
    f.replaced.update({**first, **second})
    return dict(zip(floats, made, strict=True))
