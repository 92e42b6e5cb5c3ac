"""The reverse derivative of an array graph, as another graph of ordinary nodes.

The nodes are visited in reverse.  Each leaf collects contributions, expressions over its own
indices, which are summed in one `Generate`; a cotangent of 0 is no contribution.  A rule per node
class (`reverse_rule`) gives the contributions of a node to its operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from .. import graph
from ..errors import GradientError
from ..expr import Apply, Const, Expr, Read, Var, rewrite, walk
from ..graph import Leaf, Node
from ..graphs.relations import checks_before
from ..passes.extents import equal_extents
from . import reads
from .arguments import constant_leaf
from .contractions import contracted
from .expressions import Active, Cotangent, Mask, expr_vjp, resolved, settled, shifted
from .magnitudes import smooth
from .reads import stored
from .rules import TESTS, WILD

#: The cotangents of a node's components; None is 0.
Bars = Sequence[Leaf | None]


class Reverse:
    """The cotangents of `targets`, given those of results."""

    def __init__(
        self, roots: Sequence[Leaf], targets: Sequence[Leaf], memory: int | None = None
    ) -> None:
        #: The bytes that the states of one loop may take; None for all states.
        self.memory = memory
        self.roots, self.targets = roots, dict.fromkeys(targets)
        self.parts: dict[Leaf, list[Expr]] = {}
        self.nodes = list(graph.topological(roots))
        #: All nodes for which dependence on targets is known (`moving`).
        self.known = set(self.nodes)
        #: Nodes whose stored elements derivatives read: exp(x)' is this result.
        self.results: Collection[Node] = ()
        #: The number of readers of each node; counted on first use.
        self.readers: Counter[Node] | None = None
        #: The nodes that are computed outside of loops and branches.
        self.outside = set(graph.topological(roots, inside=False))
        #: Leaves of loops, mapped to those of equivalent loops that store their states.
        self.replaced: dict[Leaf, Leaf] = {}
        self._same = equal_extents(checks_before(roots))
        self.moving = moving(roots, targets)
        self.active = Active(lambda e: isinstance(e, Read) and self.moves(e.node, e.component))
        #: Nodes with possibly non-finite elements; inputs are finite unless the program tests them.
        self.unbounded: set[Node] = set()
        bodies = [e for node in self.nodes for e in node.bodies()]
        if any(isinstance(x, Apply) and x.op.name in TESTS for x in walk(bodies)):
            self.unbounded.update(node for node in self.nodes if isinstance(node, graph.Input))
        for node in self.nodes:
            used = any(leaf.node in self.unbounded for leaf in node.inputs())
            if used or node.inside() or any(self.wild(e) for e in node.bodies() if e.type):
                self.unbounded.add(node)

    def moves(self, node: Node, component: int = 0) -> bool:
        """Whether a leaf depends differentiably on a target."""
        return Leaf(node, component) in self.moving

    def only_reads(self, node: Node, view: Node) -> bool:
        """Whether `node` is the only reader of a map with one component."""
        if len(view.outputs) > 1 or view.leaf() in self.targets or view.leaf() in self.parts:
            return False
        if self.readers is None:
            self.readers = Counter(
                n for node in self.nodes for n in {x.node for x in node.inputs()}
            )
            self.readers.update(leaf.node for leaf in self.roots)
        return self.readers[view] == 1

    def wild(self, e: Expr) -> bool:
        """Whether the values or the derivatives of an expression may be non-finite."""
        return any(
            (x.op.name in WILD or _is_infinite_multiple(x)) if isinstance(x, Apply)
            else x.node in self.unbounded
            for x in walk((e,))
            if isinstance(x, Apply | Read) and x.type.is_inexact
        )  # fmt: skip

    def tame(self, e: Expr) -> bool:
        return not self.wild(e)

    def give(self, leaf: Leaf, part: Expr) -> None:
        """Add a contribution, an expression over the leaf's indices."""
        if leaf in self.moving:
            self.parts.setdefault(leaf, []).append(part)
            return
        # Leaves that do not depend on targets need none.  A leaf made by a rule may depend on them:
        # it must be admitted first, or `pass_on` finds its operands.
        assert leaf.node in self.known, f"a cotangent of '{leaf.node.label}', which is not known"

    def admit(self, roots: Sequence[Leaf]) -> None:
        """Propagate dependence on targets to leaves made by a rule, before `pass_on`."""
        nodes = graph.topological(roots)
        known = [x for node in nodes for x in node.leaves if x in self.moving]
        self.moving |= moving(roots, known)
        self.known.update(nodes)

    def pass_on(self, leaf: Leaf, part: Expr) -> None:
        """Add a contribution to a leaf or, for a leaf made by a rule, to its operands."""
        nodes = set(self.nodes)
        if leaf.node in nodes:
            self.give(leaf, part)
            return
        known = [x for node in graph.topological((leaf,)) if node in nodes for x in node.leaves
                 if x in self.moving]  # fmt: skip
        inner = Reverse((leaf,), known, self.memory)
        inner.give(leaf, part)
        inner.run()
        for x in known:
            for e in inner.parts.get(x, ()):
                self.give(x, e)
        self.replaced.update(inner.replaced)

    def bar(self, leaf: Leaf) -> Leaf | None:
        """The sum of a leaf's contributions, as an array."""
        parts = self.parts.get(leaf)
        if not parts:
            return None
        total = reads.total_of(parts)
        if graph.is_identity_read(total, len(leaf.shape)):
            assert isinstance(total, Read)
            found = Leaf(total.node, total.component)
            if self.unified(found.shape) == self.unified(leaf.shape):
                return found
        return stored(leaf.shape, total, adjoint(leaf.node), leaf.node.where)

    def unified(self, shape: graph.Shape) -> graph.Shape:
        """The extents, with a single expression for those that checks make equal."""
        return rewrite(shape, lambda e: self._same.get(e, e)) if self._same else shape

    def run(self) -> None:
        for node in reversed(self.nodes):
            open_ = [leaf for leaf in node.leaves if leaf not in self.targets]
            if not any(leaf in self.parts for leaf in open_):
                continue
            bars = [self.bar(x) if x not in self.targets else None for x in node.leaves]
            try:
                rule(node)(self, node, bars)
            except GradientError as error:
                raise located(error, node) from None

    # --- for rules ---
    def smooth(self, bodies: Sequence[Expr]) -> tuple[Expr, ...]:
        """The expressions to differentiate in place of these."""
        targets = self.targets
        return smooth(resolved(bodies, self.active), self.active,
                      lambda e: Leaf(e.node, e.component) in targets)  # fmt: skip

    def through(
        self, domain: graph.Shape, seeds: Sequence[tuple[Expr, Expr | Cotangent]], node: Node,
        known: Mapping[Expr, Expr] | None = None,
    ) -> None:  # fmt: skip
        """Pass cotangents of expressions over `domain` on to the arrays they read; `known`:
        expressions that are read where they are stored."""
        bodies = self.smooth([e for e, _ in seeds])
        pairs = [(e, g) for e, (_, g) in zip(bodies, seeds, strict=True)]
        send = reads.Scatterer(domain, adjoint(node), node.where, self.unified, self.tame)
        for leaf, cotangent in expr_vjp(pairs, self.active).items():
            assert isinstance(leaf, Read)
            if known:
                (value,) = rewrite((cotangent.value,), lambda e: known.get(e, e))
                cotangent = cotangent._replace(value=value)
            self.give(Leaf(leaf.node, leaf.component), send.contribution(leaf, cotangent))

    def through_function(
        self, domain: graph.Shape, combine: graph.Combine, sides: Sequence[Expr],
        bars: Sequence[Expr | None], mask: Mask, node: Node,
    ) -> None:  # fmt: skip
        """Pass cotangents of the results of a function of the `sides`, expressions over `domain`,
        on to the arrays that the function itself reads."""
        values: dict[Expr, Expr] = dict(zip((*combine.left, *combine.right), sides, strict=True))
        bodies = self.smooth(combine.results)
        seeds = [(e, g) for e, g in zip(bodies, bars, strict=True) if g is not None]
        send = reads.Scatterer(domain, adjoint(node), node.where, self.unified, self.tame)
        for leaf, cotangent in expr_vjp(seeds, self.active).items():
            own_mask = (c._replace(holds=shifted(c.holds, values)) for c in cotangent.mask)
            given = Cotangent((*mask, *own_mask), shifted(cotangent.value, values))
            read = shifted(leaf, values)
            assert isinstance(read, Read)
            self.give(Leaf(read.node, read.component), send.contribution(read, given))


def pulled(
    roots: Sequence[Leaf],
    seeds: Sequence[Leaf | Expr | None],
    targets: Sequence[Leaf],
    memory: int | None = None,
) -> tuple[list[Leaf], dict[Leaf, Leaf]]:
    """The cotangents of `targets`, given those of `roots`: arrays, or expressions over their
    indices.  Targets that the roots do not depend on get zeros.  Also returns leaves of the program
    to replace by equivalent ones."""
    reverse = Reverse(roots, targets, memory)
    for root, seed in zip(roots, seeds, strict=True):
        if isinstance(seed, Leaf):
            seed = seed.at(*graph.indices(len(root.shape)))
        if seed is not None:
            reverse.give(root, seed)
    reverse.run()
    found = [reverse.bar(t) or constant_leaf(0, t, "no gradient") for t in targets]
    return contracted(found, reverse.replaced.values(), reverse.nodes), reverse.replaced


def _is_infinite_multiple(e: Apply) -> bool:
    """Whether an expression is inf · x, as programs write an array of infinities."""
    return e.op.name == "multiply" and any(
        isinstance(c, Const) and not np.isfinite(c.value) for c in e.args
    )


def adjoint(node: Node) -> graph.Label:
    """The label of nodes that compute the adjoint of this one."""
    name = f"adjoint of {node.label}"
    return graph.Label(
        name if not node.label.operation.startswith("adjoint of") else node.label.operation
    )


def located(error: GradientError, node: Node) -> GradientError:
    """The error at the user's line of the operation, mentioning the line that differentiates."""
    if node.where is None or getattr(error, "at_node", False):
        return error
    made = GradientError(
        error.message,
        hint=error.hint,
        where=node.where,
        also=(*error.also, ("differentiated here:", error.where)),
    )
    made.at_node = True  # type: ignore[attr-defined]
    return made


def refused(what: str, hint: str) -> GradientError:
    return GradientError(what, hint=hint)


def moving(roots: Sequence[Leaf], targets: Sequence[Leaf]) -> set[Leaf]:
    """The leaves that depend differentiably on a target, the targets included."""
    found: set[Leaf] = {t for t in targets if t.type.is_inexact}
    active = Active(lambda e: isinstance(e, Read) and Leaf(e.node, e.component) in found)
    for node in graph.topological(roots):
        if isinstance(node, graph.Generate):
            for leaf, e in zip(node.leaves, node.elements, strict=True):
                if active(e):
                    found.add(leaf)
            continue
        used = [*node.operands(), *node.inside()]
        bodies = node.bodies()
        if any(leaf in found for leaf in used) or any(active(e) for e in bodies):
            found.update(leaf for leaf in node.leaves if leaf.type.is_inexact)
    return found


def combine_vjp(
    combine: graph.Combine, left: Sequence[Expr], right: Sequence[Expr], bars: Sequence[Expr | None]
) -> tuple[list[Expr | None], list[Expr | None]]:
    """The cotangents of the operands of a combination, for those of its results."""
    active = Active(lambda e: isinstance(e, Var))
    bodies = smooth(combine.results, active)
    seeds = [(e, g) for e, g in zip(bodies, bars, strict=True) if g is not None]
    found = expr_vjp(seeds, active)
    values: dict[Expr, Expr] = dict(
        zip((*combine.left, *combine.right), (*left, *right), strict=True)
    )

    def of(v: Var) -> Expr | None:
        return shifted(settled(found[v]), values) if v in found else None

    return [of(v) for v in combine.left], [of(v) for v in combine.right]


# --- rules -------------------------------------------------------------------------------------

RULES: dict[type[Node], Callable[..., None]] = {}


def rule(node: Node) -> Callable[..., None]:
    found = RULES.get(type(node))
    if found is None:
        raise refused(
            f"'{node.label}' has no derivative here.",
            "Stop the gradient before it with td.stop(x).",
        )
    return found


def reverse_rule(cls: type[Node]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        RULES[cls] = function
        return function

    return register


#: The nodes with epilogues.
Reducing: TypeAlias = graph.Fold | graph.FoldSeg | graph.Scan | graph.Matmul


def own(bar: Leaf, rank: int) -> Expr:
    return bar.at(*graph.indices(rank))


def results_of(node: Reducing) -> tuple[tuple[Var, ...], graph.Shape, dict[Expr, Expr]]:
    """The variables of an epilogue, their shape, and their values, stored for it."""
    variables = (node.result,) if isinstance(node, graph.Matmul) else node.results
    plain = node.with_(epilogue=variables)
    shape = plain.outputs[0].shape
    leaves = plain.leaves[: len(variables)]
    return variables, shape, {
        v: own(leaf, len(shape)) for v, leaf in zip(variables, leaves, strict=True)
    }  # fmt: skip


def through_epilogue(r: Reverse, node: Reducing, bars: Bars) -> list[Leaf | None]:
    """The cotangents of the variables that an epilogue uses."""
    variables, shape, by_variable = results_of(node)
    bars, rank = bars[: len(node.epilogue)], len(shape)
    if node.epilogue == variables:
        return list(bars)
    active = Active(
        lambda e: isinstance(e, Var) or (isinstance(e, Read) and r.moves(e.node, e.component))
    )
    bodies = smooth(node.epilogue, active, lambda e: Leaf(e.node, e.component) in r.targets)
    seeds = [(e, own(b, rank)) for e, b in zip(bodies, bars, strict=True) if b is not None]
    send = reads.Scatterer(shape, adjoint(node), node.where, r.unified, r.tame)
    made: list[Leaf | None] = [None] * len(variables)
    for leaf, cotangent in expr_vjp(seeds, active).items():
        mask = tuple(c._replace(holds=shifted(c.holds, by_variable)) for c in cotangent.mask)
        cotangent = cotangent._replace(mask=mask, value=shifted(cotangent.value, by_variable))
        if isinstance(leaf, Read):
            r.give(Leaf(leaf.node, leaf.component), send.contribution(leaf, cotangent))
        else:
            k = list(variables).index(leaf)  # type: ignore[arg-type]
            made[k] = stored(shape, settled(cotangent), adjoint(node), node.where)
    return made
