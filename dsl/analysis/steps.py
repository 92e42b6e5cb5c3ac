"""Where the iterations of a counted loop write: an index of their own for each, along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import TRUE, Expr, Index, Read, Var, constant, substitute, walk
from ..graph import ArrayLoop, Node, Permute
from .polynomial import Polynomial, polynomial


def moving_with(at: Expr, counter: Expr) -> tuple[int, Expr] | None:
    """The sign and the start of an index ±k + start of iteration k; None if it is not one."""
    if at is counter:
        return 1, constant(0)
    k: Expr = Var("k", counter.type)
    form = polynomial(substitute((at,), {counter: k})[0])
    if form is None or (sign := form.coefficient(k)) not in (1, -1):
        return None
    rest = (form - Polynomial.atom(k) * sign).atoms()
    if any(e is k or isinstance(e, Index | Read) for e in walk(tuple(rest))):
        return None
    return sign, substitute((at,), {counter: constant(0)})[0]


def written_alone(loop: ArrayLoop, nodes: Sequence[Node]) -> dict[int, Permute]:
    """The states that an iteration only overwrites in part, by their numbers, and the nodes that do
    so; `nodes` are all nodes of an iteration."""
    found: dict[int, Permute] = {}
    for k, leaf in enumerate(loop.body):
        made, state = leaf.node, loop.state[k].leaf()
        if not isinstance(made, Permute) or made.combine is not None or made.label.ordered:
            continue
        used = any(state in (*n.inputs(), *n.inside()) for n in nodes if n is not made)
        used = used or any(isinstance(e, Read) and e.node is state.node
                           for e in walk(made.bodies()))  # fmt: skip
        if made.valid is TRUE and made.defaults[leaf.component] == state and not used:
            found[k] = made
    roots = set(loop.inner_roots())
    return {k: made for k, made in found.items() if loop.state[k].leaf() not in roots}
