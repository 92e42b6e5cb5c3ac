"""split_walks: moves costly work out of a recurrence if its steps need not do it in order.

    s, ys = scan(lambda s, x: (a·s + exp(x), log(s)), s₀, xs)
        →   e = exp(xs)                 in parallel, in the lanes of vectors
            for k: u[k] = s; s = a·s + e[k]
            ys = log(u)                 in parallel

A walk is a recurrence along one line of its axis: its steps run in order, and a single walk runs on
one thread, element by element.  Two parts of a step can be computed for all steps in parallel: what
depends on other arrays alone, and what is computed from a state only to be stored.  They become
kernels of their own if they are so costly that a step would wait for them.  Many walks already fill
vectors and threads, except for walks along rows on a CPU: vectors of these would have to gather
what they read.  So if the steps are cheap without the costly parts, they run walk by walk.  The
pass runs after producers are inlined, and finds them in the steps.

A loop over numbers, such as `loop(n, lambda k, s: s + log(x[k]), 0.0)`, is a walk, too: what it
computes from the elements of an array that it passes over is computed before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from .. import expr as ex
from ..analysis.polynomial import Polynomial, polynomial
from ..analysis.regions import regions
from ..expr import Expr
from ..graph import Generate, Label, Leaf, Node, Recurrence, indices, topological
from ..graphs.rebuild import Rebuilder
from ..operations.indexing.row_major import greatest
from .base import Context, Fused
from .cost import operations
from .recurrence import is_unsafe

#: Up to this many walks, if their number is a constant, do not fill the lanes of a vector.
FEW_WALKS = 4
#: A step of a walk on a CPU waits for the state of the step before it.  Meanwhile it can do as much
#: independent work as HIDDEN additions, but not call functions of the cost FUNCTION, such as an
#: exponential (`benchmarks/cliffs`, "walk with …": benchmarks/results/cliffs-walks-2026-11-30).
HIDDEN, FUNCTION = 64.0, 15.0
AHEAD = "one walk would compute its elements one after the other"


def split_walks(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with costly work outside of the kernels of single walks and of walks along rows."""
    order = list(topological(roots))
    if not any(isinstance(node, Recurrence) or _is_number(node) for node in order):
        return list(roots)
    region, cpu = regions(roots), not context.target.gpu
    builder = Rebuilder()
    for node in order:
        made = builder.node(node)
        if isinstance(made, Recurrence) and (_is_lone(made) or (cpu and _goes_along_rows(made))):
            inlined = context.inlined.get(node, {})
            parts = dict(zip(builder.exprs(tuple(inlined)), inlined.values(), strict=True))
            _Split(made, bool(region[node]), context, parts).put(node, builder)
        elif isinstance(made, Generate) and _is_number(made) and not region[node]:
            builder.replace(node, _after_elements(made, context), context.kept)
        else:
            builder.replace(node, made, context.kept)
    return [builder.leaf(r) for r in roots]


def _is_lone(node: Recurrence) -> bool:
    others = [int(n.value) if isinstance(n, ex.Const) else None for n in node.others]
    return None not in others and prod(n for n in others if n is not None) <= FEW_WALKS


def _goes_along_rows(node: Recurrence) -> bool:
    """Whether the steps read along the rows of arrays, assuming these are dense."""
    last = ex.Index(len(node.shape) - 1)
    if node.axis != last.axis:
        return False
    rows = [e.args[-1] for e in ex.walk(node.per_element()) if isinstance(e, ex.Read) and e.args]
    return all(last in ex.walk((row,)) or not row.varies for row in rows)


def _is_number(node: Node) -> bool:
    """Whether a loop computes a number, which is no part of a larger array."""
    return isinstance(node, Generate) and not node.shape and any(
        isinstance(e, ex.Loop) for e in ex.evaluated(node.elements)
    )  # fmt: skip


def _after_elements(node: Generate, context: Context) -> Generate:
    """A number computed by loops that read the costly parts of their iterations."""
    memo: dict[Expr, Expr] = {}
    for loop in () if context.settings.check else ex.evaluated(node.elements):
        if not isinstance(loop, ex.Loop) or loop.count.reads or loop.count.varies:
            continue
        if parts := _elements_of(loop):
            label = Label(f"{node.label.operation} (elements)")
            before = Generate((greatest(loop.count, ex.constant(0)),), tuple(parts.values()),
                              label=label, where=node.where)  # fmt: skip
            context.kept[before] = AHEAD
            memo |= {e: Leaf(before, k).at(loop.vars[0]) for k, e in enumerate(parts)}
    return node.with_(elements=ex.rewrite(node.elements, lambda e: e, memo)) if memo else node


def _elements_of(loop: ex.Loop) -> dict[Expr, Expr]:
    """The costly parts of iterations that only need the counter and an array, over its elements."""
    counter, free = loop.vars[0], _free(loop.scoped)
    always = ex.evaluated(loop.scoped, lambda e: len(free[e]) > 1)
    found = [e for e in always if free[e] == {counter} and e.type is not None]
    here = ex.substitute(found, {counter: ex.Index(0)})
    return {e: at for e, at in zip(found, here, strict=True)
            if is_costly(at, set()) and _passes_over(at)}  # fmt: skip


def _passes_over(e: Expr) -> bool:
    """Whether there is an array with an element for every iteration: as many results are not more
    than this."""
    return any(
        isinstance(x, ex.Read) and any((ex.Index(0),) in _affine(at).terms for at in x.args)
        for x in ex.walk((e,))
    )


def _affine(index: Expr) -> Polynomial[Expr]:
    """An index as a polynomial, which may count from the end if it is negative."""
    if isinstance(index, ex.Apply) and index.op.name == "select":
        index = index.args[2]
    return polynomial(index) or Polynomial({})


class _Split:
    """A recurrence, and the kernels before and after it.

    `inside`: the recurrence depends on the state of an enclosing loop over arrays.  The kernel
    before it may be hoisted out of that loop's body, so it must be safe to run without an
    iteration.  `inlined`: the expressions in the steps that stem from producers, with the
    operations they contain.
    """

    def __init__(self, node: Recurrence, inside: bool, context: Context,
                 inlined: Mapping[Expr, Fused]) -> None:  # fmt: skip
        self.node, self.inside, self.context, self.inlined = node, inside, context, inlined
        self.free = _free(node.per_element())
        self.moved: Fused = ()  # the operations that are in the parts

    def put(self, old: Node, builder: Rebuilder) -> None:
        node, kept = self._without_early(), self.context.kept.get(old)
        late = self._late(node)
        rest = (*node.steps, *(e for k, e in enumerate(node.collected) if k not in late))
        if not _is_lone(node) and any(is_costly(e, set()) for e in rest):
            node, late, self.moved = self.node, {}, ()  # vectors of walks compute what remains
        if not late:
            node = self._remaining(node)
            if node is not old:
                builder.nodes[old] = node
                if kept is not None:
                    self.context.kept[node] = kept
            return
        stay = [k for k in range(len(node.collected)) if k not in late]
        cuts = dict.fromkeys(e for found in late.values() for e in found)
        stored = (*(node.collected[k] for k in stay), *cuts)
        results = [node.collected[k] for k in late]
        moved = self._fused(results, cuts)
        walked = self._remaining(node.with_(collected=stored), moved)
        memo: dict[Expr, Expr] = {e: self._here(walked, len(stay) + n) for n, e in enumerate(cuts)}
        values = ex.rewrite(results, lambda e: e, memo)
        after = self._parallel(values, "results").with_(fused=moved)
        self.context.kept[walked] = "its results are known only when it has finished"
        if kept is not None:
            self.context.kept[after] = kept
        for n, k in enumerate(stay):
            builder.leaves[Leaf(old, k)] = Leaf(walked, n)
        for n, k in enumerate(late):
            builder.leaves[Leaf(old, k)] = Leaf(after, n)
        for n in range(len(node.last)):
            builder.leaves[Leaf(old, len(node.collected) + n)] = Leaf(walked, len(stored) + n)

    def _here(self, node: Node, component: int) -> Expr:
        return Leaf(node, component).at(*indices(len(self.node.shape)))

    def _parallel(self, elements: tuple[Expr, ...], what: str) -> Generate:
        label = Label(f"{self.node.label.operation} ({what})")
        return Generate(self.node.shape, elements, label=label, where=self.node.where,
                        checks=self.node.checks, fused=self._fused(elements))  # fmt: skip

    def _fused(self, roots: Sequence[Expr], cuts: Collection[Expr] = ()) -> Fused:
        """The producers' operations that expressions contain, down to `cuts`."""
        here = {*ex.walk(roots, lambda e: e not in cuts)}.difference(cuts)
        return tuple(dict.fromkeys(p for e, of in self.inlined.items() if e in here for p in of))

    def _remaining(self, node: Recurrence, moved: Fused = ()) -> Recurrence:
        """The recurrence without the labels of operations that are only in the parts."""
        gone = {*self.moved, *moved}.difference(self._fused((*node.start, *node.per_element())))
        return node.with_(fused=tuple(p for p in node.fused if p not in gone)) if gone else node

    def _without_early(self) -> Recurrence:
        """The recurrence, reading the values that do not depend on its state."""
        node = self.node
        always = ex.evaluated(node.per_element(), lambda e: bool(self.free[e]))
        found = [e for e in always if self._is_early(e)]
        if not found:
            return node
        before = self._parallel(tuple(found), "elements")
        self.moved += before.fused
        self.context.kept[before] = AHEAD
        memo: dict[Expr, Expr] = {e: self._here(before, n) for n, e in enumerate(found)}
        roots = ex.rewrite(node.per_element(), lambda e: e, memo)
        count = len(node.steps)
        return node.with_(steps=roots[:count], collected=roots[count:])

    def _is_early(self, e: Expr) -> bool:
        if self.free[e] or e.type is None or not is_costly(e, set()):
            return False
        if ex.Index(self.node.axis) not in ex.walk((e,)):  # computed once
            return False
        return not (self.inside and is_unsafe(self._parallel((e,), "")))

    def _late(self, node: Recurrence) -> dict[int, list[Expr]]:
        """The collected components that are costly to compute from what a step computes anyway, by
        number, and the values to store for each instead."""
        computed, free = {*ex.evaluated(node.steps), *node.state}, _free(node.per_element())
        found: dict[int, list[Expr]] = {}
        for k, e in enumerate(node.collected):
            cuts = [c for c in _parts(e, computed) if free[c]]
            if e not in computed and is_costly(e, {*ex.walk(cuts)}):
                found[k] = cuts
        return found


def _free(steps: Sequence[Expr]) -> dict[Expr, frozenset[ex.Var]]:
    """The variables of the state, and of loops around it, in each expression of a step."""
    found: dict[Expr, frozenset[ex.Var]] = {}
    for e in ex.walk(steps):
        mine = {e} if isinstance(e, ex.Var) else set[ex.Var]()
        mine.update(*(found[c] for c in (*e.args, *e.scoped)))
        found[e] = frozenset(mine.difference(e.vars))
    return found


def is_costly(e: Expr, computed: set[Expr]) -> bool:
    """Whether a step would wait for this expression, apart from parts that are `computed` in any
    case.  Parts that are the same for all steps are hoisted."""
    for part in ex.walk((e,)):
        if part in computed or not part.varies:
            continue
        slow = isinstance(part, ex.Apply) and part.op.cost >= FUNCTION
        if slow or isinstance(part, ex.Loop | ex.While | ex.Foreign):
            return True
    return operations((e,)) - operations(computed) > HIDDEN


def _parts(e: Expr, computed: set[Expr]) -> list[Expr]:
    """The largest parts of an expression that are `computed` and are single values."""
    seen, stack, found = set[Expr](), [e], list[Expr]()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e in computed and e.type is not None:
            found.append(e)
        else:
            stack += (*e.args, *e.scoped)
    return found
