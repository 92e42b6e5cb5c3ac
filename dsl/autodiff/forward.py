"""The forward derivative of an array graph, as another graph of ordinary nodes.

The nodes are visited in order.  Each leaf that moves has a tangent, an array of its shape.  Sums
and other linear operations are applied to tangents as they are; folds, scans and permutes of other
functions combine pairs of value and tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..analysis.combines import independent_parts, ways
from ..errors import GradientError
from ..expr import Expr, Read, Var
from ..graph import (
    ArrayLoop,
    Barrier,
    Branch,
    Combine,
    Fold,
    FoldSeg,
    Generate,
    Input,
    Label,
    Leaf,
    Library,
    Matmul,
    Node,
    Output,
    Permute,
    Scan,
    Shape,
    canonical_combine,
    topological,
)
from ..libraries.base import LibraryOperation
from .arguments import Substitution, constant_leaf
from .expressions import Active, add, expr_jvp, resolved, shifted, zero
from .loops import active_states, closed_loop, invariants, needed_states, state_like
from .reverse import located, one_to_one, operand, own, pulled, refused, stored


class Forward:
    """The tangents of leaves, for those of some.  `fixed`: leaves that have no tangents but these.
    `replaced`: leaves of the program, and others that compute the same together with their
    tangents."""

    def __init__(self, tangents: Mapping[Leaf, Leaf], fixed: Sequence[Leaf] = ()) -> None:
        self.tangents = dict(tangents)
        self.replaced: dict[Leaf, Leaf] = {}
        self._done: set[Node] = {leaf.node for leaf in (*tangents, *fixed)}
        #: The leaves that are used, by those whose tangents are asked for.
        self.used: set[Leaf] = set()
        self.active = Active(
            lambda e: isinstance(e, Read) and Leaf(e.node, e.component) in self.tangents
        )

    def run(self, roots: Sequence[Leaf]) -> None:
        self.used.update(roots)
        for node in topological(roots, known=self._done):
            self.used.update((*node.inputs(), *node.inside()))
        for node in topological(roots, inside=False, known=tuple(self._done)):
            if isinstance(node, Input) or node in self._done:
                continue
            self._done.add(node)
            try:
                RULES[type(node)](self, node)
            except GradientError as error:
                raise located(error, node) from None

    def along(
        self, bodies: Sequence[Expr], variables: Mapping[Expr, Expr] | None = None
    ) -> list[Expr | None]:
        """The tangents of expressions that read arrays and `variables` with tangents."""
        known = variables or {}

        def tangent(e: Expr) -> Expr | None:
            if not isinstance(e, Read):
                return known.get(e)
            moved = self.tangents.get(Leaf(e.node, e.component))
            if moved is None:
                return None
            if e.boundary in ("constant", "function"):
                outside = (zero(e.type),)
                return Read(moved.node, moved.component, e.args, "constant", outside)
            return Read(moved.node, moved.component, e.args, e.boundary)

        return list(expr_jvp(resolved(bodies, self.active), tangent))

    def give(self, leaves: Sequence[Leaf], tangents: Sequence[Expr | None], node: Node) -> None:
        """Tangents of one shape, expressions over its indices, computed together."""
        kept = [(x, t) for x, t in zip(leaves, tangents, strict=True) if t is not None]
        if len(kept) == 1:
            ((leaf, t),) = kept
            self.tangents[leaf] = stored(leaf.shape, t, tangent_of(node), node.where)
        elif kept:
            elements = tuple(t for _, t in kept)
            made = Generate(kept[0][0].shape, elements, label=tangent_of(node), where=node.where)
            self.tangents.update(zip((x for x, _ in kept), made.leaves, strict=True))

    def of(self, leaf: Leaf) -> Leaf:
        """The tangent of a leaf, zeros if it has none."""
        return self.tangents.get(leaf) or constant_leaf(0, leaf, "no tangent")

    def combined(
        self,
        combine: Combine,
        elements: Sequence[Expr],
        init: Sequence[Expr] | None,
        make: Callable[[tuple[Expr, ...], Combine, tuple[Expr, ...] | None], Node],
        totals: bool = False,
    ) -> tuple[list[Leaf | None], list[Leaf | None]]:
        """The tangents of what `make(elements, combine, init)` computes; of a scan with `totals`
        also of those."""
        moved = self.along(elements)
        starts = [None] * len(elements) if init is None else self.along(init)
        results: list[Leaf | None] = [None] * len(elements)
        last: list[Leaf | None] = [None] * len(elements)
        for group, one in independent_parts(combine):
            floats = [k for k in group if elements[k].type.is_inexact]
            if all(moved[k] is None and starts[k] is None for k in floats):
                continue
            tangents = [moved[k] or zero(elements[k].type) for k in floats]
            beginning = [starts[k] or zero(elements[k].type) for k in floats]
            linear = ways(one) == ["add"]
            values = [] if linear else [elements[k] for k in group]
            first = None
            if init is not None:
                first = (*([] if linear else [init[k] for k in group]), *beginning)
            made = make((*values, *tangents), one if linear else dual(one), first)
            count = len(values) + len(tangents)
            for j, k in enumerate(floats):
                results[k] = made.leaf(len(values) + j)
                if totals:
                    last[k] = made.leaf(count + len(values) + j)
        return results, last

    def epilogue(
        self,
        node: Node,
        shape: Shape,
        variables: Sequence[Var],
        values: Sequence[Leaf],
        epilogue: Sequence[Expr],
        tangents: Sequence[Leaf | None],
    ) -> None:
        """Tangents of the expressions of `variables`, whose values are stored in `values`."""
        rank = len(shape)
        if tuple(epilogue) == tuple(variables):
            exprs = [None if t is None else own(t, rank) for t in tangents]
        else:
            moved: dict[Expr, Expr] = {
                v: own(t, rank) for v, t in zip(variables, tangents, strict=True) if t is not None
            }
            stored: dict[Expr, Expr] = {
                v: own(x, rank) for v, x in zip(variables, values, strict=True)
            }
            exprs = [None if t is None else shifted(t, stored) for t in self.along(epilogue, moved)]
        self.give(node.leaves[: len(epilogue)], exprs, node)


def tangent_of(node: Node) -> Label:
    return Label(f"tangent of {node.label}")


def dual(combine: Combine) -> Combine:
    """The combination of pairs of values and tangents."""
    floats = [k for k, r in enumerate(combine.results) if r.type.is_inexact]
    left = [Var("d_left", combine.left[k].type) for k in floats]
    right = [Var("d_right", combine.right[k].type) for k in floats]
    tangents: dict[Expr, Expr] = {combine.left[k]: v for k, v in zip(floats, left, strict=True)}
    tangents.update((combine.right[k], v) for k, v in zip(floats, right, strict=True))
    moved = expr_jvp([combine.results[k] for k in floats], tangents.get)
    results = [t or zero(v.type) for t, v in zip(moved, left, strict=True)]
    return canonical_combine((*combine.left, *left), (*combine.right, *right),
                             (*combine.results, *results))  # fmt: skip


# --- rules -------------------------------------------------------------------------------------

RULES: dict[type[Node], Callable[..., None]] = {}


def rule_for(cls: type[Node]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        RULES[cls] = function
        return function

    return register


@rule_for(Generate)
def _generate(f: Forward, node: Generate) -> None:
    f.give(node.leaves, f.along(node.elements), node)


@rule_for(Fold)
def _fold(f: Forward, node: Fold) -> None:
    def make(elements: tuple[Expr, ...], combine: Combine, init: tuple[Expr, ...] | None) -> Fold:
        return Fold(node.outer, node.inner, elements, combine, init,
                    label=tangent_of(node), where=node.where)  # fmt: skip

    moved, _ = f.combined(node.combine, node.elements, node.init, make)
    plain = node.with_(epilogue=node.results)
    f.epilogue(node, node.outer, node.results, plain.leaves, node.epilogue, moved)


@rule_for(FoldSeg)
def _fold_seg(f: Forward, node: FoldSeg) -> None:
    def make(
        elements: tuple[Expr, ...], combine: Combine, init: tuple[Expr, ...] | None
    ) -> FoldSeg:
        return FoldSeg(node.outer, node.segments, node.extent, node.offsets, elements, combine,
                       init, label=tangent_of(node), where=node.where)  # fmt: skip

    moved, _ = f.combined(node.combine, node.elements, node.init, make)
    plain = node.with_(epilogue=node.results)
    shape = plain.outputs[0].shape
    f.epilogue(node, shape, node.results, plain.leaves, node.epilogue, moved)


@rule_for(Scan)
def _scan(f: Forward, node: Scan) -> None:
    def make(elements: tuple[Expr, ...], combine: Combine, init: tuple[Expr, ...] | None) -> Scan:
        return Scan(node.shape, node.axis, elements, combine, init, node.form, node.reverse,
                    label=tangent_of(node), where=node.where)  # fmt: skip

    totals = node.form == "total"
    moved, last = f.combined(node.combine, node.elements, node.init, make, totals)
    plain = node.with_(epilogue=node.results)
    shape = plain.outputs[0].shape
    many = len(node.elements)
    f.epilogue(node, shape, node.results, plain.leaves[:many], node.epilogue, moved)
    for k, t in enumerate(last):
        if t is not None:
            f.tangents[node.leaf(len(node.epilogue) + k)] = t


@rule_for(Permute)
def _permute(f: Forward, node: Permute) -> None:
    moved = f.along(node.values)

    def make(group: Sequence[int], values: Sequence[Expr], combine: Combine | None) -> Permute:
        """Of values, and of tangents of components that have any."""
        defaults = [node.defaults[k] for k in group][: len(values)]
        floats = [k for k in group if node.defaults[k].type.is_inexact]
        return Permute(
            node.domain, node.valid, node.target,
            (*values, *(moved[k] or zero(node.defaults[k].type) for k in floats)),
            (*defaults, *(f.of(node.defaults[k]) for k in floats)),
            combine, label=tangent_of(node), where=node.where,
        )  # fmt: skip

    every = range(len(node.values))
    groups: list[tuple[Sequence[int], Combine | None]]
    groups = [(every, None)] if node.combine is None else list(independent_parts(node.combine))
    for group, combine in groups:
        floats = [k for k in group if node.defaults[k].type.is_inexact]
        if all(moved[k] is None and node.defaults[k] not in f.tangents for k in floats):
            continue
        if combine is None:
            together = not one_to_one(node)  # the same source wins
            made = make(group, node.values if together else (), None)
            if together:
                f.replaced.update(zip(node.leaves, made.leaves, strict=False))
            before = len(node.values) if together else 0
        elif ways(combine) == ["add"]:
            made, before = make(group, (), combine), 0
        else:
            made = make(group, [node.values[k] for k in group], dual(combine))
            before = len(group)
        for j, k in enumerate(floats):
            f.tangents[node.leaf(k)] = made.leaf(before + j)


@rule_for(Matmul)
def _matmul(f: Forward, node: Matmul) -> None:
    left, right = f.along((node.left, node.right))
    shape = (*node.batch, node.m, node.n)
    rank = len(shape)
    total: Expr | None = None
    if left is not None:
        left = operand(left, (*node.batch, node.m, node.k), node)
    if right is not None:
        right = operand(right, (*node.batch, node.k, node.n), node)
    for a, b in ((left, node.right), (node.left, right)):
        if a is not None and b is not None:
            made = Matmul(node.batch, node.m, node.n, node.k, a, b, node.options,
                          label=tangent_of(node), where=node.where)  # fmt: skip
            part = own(made.leaf(), rank)
            total = part if total is None else add(total, part)
    moved = None if total is None else stored(shape, total, tangent_of(node), node.where)
    plain = node.with_(epilogue=(node.result,))
    f.epilogue(node, shape, (node.result,), plain.leaves, node.epilogue, (moved,))


@rule_for(Barrier)
def _barrier(f: Forward, node: Barrier) -> None:
    if node.rule is not None:
        given = [f.tangents.get(leaf) for leaf in node.arguments]
        if isinstance(node.rule, LibraryOperation):
            given[: node.ruled] = [None] * node.ruled
            moved = transposed(node, given, f) if any(given) else []
        else:
            moved = node.rule.forward(node, given, f)
        for leaf, t in zip(node.leaves, moved, strict=False):
            if t is not None:
                f.tangents[leaf] = t
        return
    for leaf, argument in zip(node.leaves, node.arguments, strict=True):
        if argument in f.tangents:
            f.tangents[leaf] = f.tangents[argument]


@rule_for(Library)
def _library(f: Forward, node: Library) -> None:
    given = [f.tangents.get(leaf) for leaf in node.arguments]
    if any(t is not None for t in given):
        for leaf, t in zip(node.leaves, transposed(node, given, f), strict=True):
            if t is not None:
                f.tangents[leaf] = t


@rule_for(Branch)
def _branch(f: Forward, node: Branch) -> None:
    f.run(node.inside())
    pairs = list(zip(node.then, node.other, strict=True))
    moving = [k for k, pair in enumerate(pairs) if any(x in f.tangents for x in pair)]
    if not moving:
        return
    made = Branch(
        node.predicate,
        tuple(f.of(node.then[k]) for k in moving),
        tuple(f.of(node.other[k]) for k in moving),
        tuple(Output(node.outputs[k].shape, node.outputs[k].type) for k in moving),
        label=tangent_of(node),
        where=node.where,
    )
    f.tangents.update((node.leaf(k), made.leaf(j)) for j, k in enumerate(moving))


@rule_for(ArrayLoop)
def _loop(f: Forward, node: ArrayLoop) -> None:
    """The loop with the tangents of its state as further parts of the state."""
    outside = invariants(node)
    f.run(outside)
    fixed = [leaf for leaf in outside if leaf in f.tangents]
    wanted = needed_states(node, [k for k, x in enumerate(node.leaves) if x in f.used])
    active = active_states(f.tangents, node, fixed, wanted)
    if not active:
        return
    states = [state_like(node.state[k].leaf(), "tangent", node.where) for k in active]
    inside = {node.state[k].leaf(): s.leaf() for k, s in zip(active, states, strict=True)}
    inner = Forward({**{leaf: f.tangents[leaf] for leaf in fixed}, **inside}, outside)
    inner.run([node.body[k] for k in active])
    roots = [*node.inner_roots(), *(inner.of(node.body[k]) for k in active)]
    if inner.replaced:  # in this body only: others may have the same nodes
        roots = Substitution((), list(inner.replaced.items())).leaves(roots)
    many = len(node.state)
    predicate = None if node.predicate is None else roots.pop(many)
    made = closed_loop(
        ArrayLoop(
            (*node.state, *states),
            (*node.init, *(f.of(node.init[k]) for k in active)),
            tuple(roots),
            predicate,
            node.count,
            node.index,
            label=node.label,
            where=node.where,
            checks=node.checks,
        )
    )
    f.replaced.update(zip(node.leaves, made.leaves, strict=False))
    f.tangents.update((node.leaf(k), made.leaf(many + j)) for j, k in enumerate(active))


# --- forward derivatives from reverse ones -----------------------------------------------------


def transposed(node: Node, tangents: Sequence[Leaf | None], f: Forward) -> list[Leaf | None]:
    """The tangents of a node's results from its reverse rule: its cotangents are linear in those of
    the results, and are differentiated by them."""
    operands = [leaf for leaf, t in zip(node.operands(), tangents, strict=True) if t is not None]
    given = [t for t in tangents if t is not None]
    floats = [leaf for leaf in node.leaves if leaf.type.is_inexact]
    bars = [
        Input("cotangent", leaf.type, (False,) * len(leaf.shape), kind="argument")
        .of_shape(leaf.shape).leaf()
        for leaf in floats
    ]  # fmt: skip
    found, first = pulled(floats, bars, operands)
    made, second = pulled(found, given, bars)
    if any(bar.node in set(topological(made)) for bar in bars):
        raise refused(
            f"'{node.label}' has no forward derivative: its reverse one is not linear.",
            "A rule multiplies its cotangents, and adds them.",
        )
    f.replaced.update({**first, **second})
    moved = dict(zip(floats, made, strict=True))
    return [moved.get(leaf) for leaf in node.leaves]
