"""recognise_counted: while loops that count up or down to a bound become counted loops.

    while k < n: k, s = k + 1, f(k, s)   →   loop over i < n − k₀:  s = f(k₀ + i, s)

The trip count is then known before the loop, and indices are affine in the counter.  The bound must
not depend on the state, and steps are 1, so that no counter overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .. import expr as ex, simplify
from ..expr import Expr
from ..graph import ArrayLoop, Generate, Input, Leaf, Node, topological
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..primitives import TABLE
from ..types import ScalarType, int64
from .base import Context


def recognise_counted(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    if not any(map(_has_while, topological(roots))):
        return list(roots)
    return replace_nodes(roots, lambda _, made: made, builder=_Counting(context))


def _has_while(node: Node) -> bool:
    if isinstance(node, ArrayLoop) and node.predicate is not None:
        return True
    return any(type(e) is ex.While for e in ex.walk(e for e in node.expressions() if e.scopes))


class _Counting(Rebuilder):
    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def _read(self, e: Expr) -> Expr:
        e = super()._read(e)
        made = _counted(e) if type(e) is ex.While else None
        if made is None:
            return e
        self.context.notes.append("a while loop that counts → a counted loop")
        return made

    def node(self, node: Node) -> Node:
        if isinstance(node, Input):
            return super().node(node)
        made = self.over(node, self)
        counted = _counted_arrays(made) if isinstance(made, ArrayLoop) else None
        if counted is None:
            return made
        self.context.notes.append("a while loop over arrays that counts → a counted loop")
        return counted


#: The component of the state that counts, the bound, and the step: 1 or −1.
Counter = tuple[int, Expr, int]
_UP = {"less": (0, 1), "greater": (1, 0)}


def _counter(predicate: Expr, states: Sequence[Expr], following: Sequence[Expr | None],
             varies: Callable[[Expr], bool]) -> Counter | None:  # fmt: skip
    """The counter that a predicate tests, if the state has one."""
    if not isinstance(predicate, ex.Apply) or predicate.op.name not in _UP:
        return None
    low, high = (predicate.args[k] for k in _UP[predicate.op.name])
    for state, bound, step in ((low, high, 1), (high, low, -1)):
        if state not in states or not _is_index(state.type) or varies(bound):
            continue
        k = list(states).index(state)
        if following[k] is not None and _step(following[k], state) == step:
            return k, bound, step
    return None


def _is_index(t: ScalarType) -> bool:
    return t.is_integer and (t.signed or t.bits < 64)


def _step(following: Expr | None, state: Expr) -> int | None:
    """The constant by which the next value exceeds the state, if it is 1 or −1."""
    if not isinstance(following, ex.Apply) or following.op.name not in ("add", "subtract"):
        return None
    left, right = following.args
    if following.op.name == "add" and isinstance(left, ex.Const):
        left, right = right, left
    if left is not state or not isinstance(right, ex.Const):
        return None
    step = int(right.value)
    return step if following.op.name == "add" else -step


def _count(first: Expr, bound: Expr, step: int) -> Expr:
    low, high = (simplify.cast(e, int64) for e in ((first, bound) if step > 0 else (bound, first)))
    return simplify.apply(TABLE["subtract"], (high, low), int64)


def _value(first: Expr, index: Expr, step: int) -> Expr:
    op = TABLE["add" if step > 0 else "subtract"]
    return simplify.apply(op, (first, simplify.cast(index, first.type)), first.type)


def _counted(loop: ex.While) -> Expr | None:
    predicate, body = loop.scoped[0], loop.scoped[1:]
    own = set(loop.vars)
    found = _counter(predicate, loop.vars, body, lambda e: not own.isdisjoint(ex.walk((e,))))
    if found is None:
        return None
    k, bound, step = found
    index = ex.Var("k", int64)
    now = _value(loop.args[k], index, step)
    return ex.Loop(_count(loop.args[k], bound, step), loop.args, (index, *loop.vars),
                   ex.substitute(body, {loop.vars[k]: now}))  # fmt: skip


def _counted_arrays(loop: ArrayLoop) -> ArrayLoop | None:
    if loop.predicate is None:
        return None
    (predicate,) = _element((loop.predicate,))
    following = _element(loop.body)
    states = [
        state_input.leaf().at() if not state_input.shape else ex.constant(0)
        for state_input in loop.state
    ]
    bound_states: set[Node] = set(loop.state)

    def varies(e: Expr) -> bool:
        if any(isinstance(x, ex.While | ex.Loop | ex.Foreign | ex.Cond) for x in ex.walk((e,))):
            return True
        read = [Leaf(x.node, x.component) for x in ex.walk((e,)) if isinstance(x, ex.Read)]
        return not bound_states.isdisjoint(topological(read))

    if predicate is None:
        return None
    found = _counter(predicate, states, following, varies)
    if found is None:
        return None
    k, bound, step = found
    (known,) = _element((loop.init[k],))
    simple = isinstance(known, ex.Const | ex.Param)
    first = known if simple and known is not None else loop.init[k].at()
    counter = Input("k", int64, (), kind="counter", where=loop.where)
    counter.until = loop.state[k].until
    builder = Rebuilder()
    builder.memo[states[k]] = _value(first, counter.leaf().at(), step)
    for node in topological(loop.body):
        made = builder.node(node) if isinstance(node, Input) else builder.over(node, builder)
        builder.replace(node, made)
    state = tuple(builder.nodes.get(state_input, state_input) for state_input in loop.state)
    body = tuple(map(builder.leaf, loop.body))
    return loop.with_(state=state, body=body, predicate=None, index=counter,
                      count=_count(first, bound, step))  # fmt: skip


def _element(leaves: Iterable[Leaf]) -> list[Expr | None]:
    """The expressions of single elements, None where another operation computes one."""
    return [
        leaf.node.elements[leaf.component]
        if isinstance(leaf.node, Generate) and not leaf.node.shape and not leaf.node.checks
        else None
        for leaf in leaves
    ]
