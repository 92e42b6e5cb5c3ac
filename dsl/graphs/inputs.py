"""Collects a program's inputs, and rejects escaped tracers.

An argument of another compiled function and the state of a finished loop have no value in this
program; a Python list or a global variable can carry them out of their function.  (Escaped
elements, and counters and states of loops over scalars, are rejected where they are used: see
tracing.py.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import Location, TracingError
from ..expr import Expr, Extent, Needed, Param, Var, walk
from ..graph import ArrayLoop, Input, Leaf, Node, topological

_NO_STATES: frozenset[Input] = frozenset()


def inputs_of(
    roots: Sequence[Leaf], arguments: Sequence[Input], params: Sequence[Param]
) -> tuple[Input, ...]:
    """The arguments, then every captured input in order of first use.

    TracingError: a tracer of another program, or of a loop, is used outside of it.
    """
    found: dict[Input, None] = dict.fromkeys(arguments)
    own, numbers, looping = set(arguments), set(params), False
    met: set[Expr] = set()  # expressions without variables

    def into(e: Expr) -> bool:
        if e in met:
            return False
        if not e.varies:
            met.add(e)
        return True

    others: set[Node] = set()  # arguments of other programs, visited before their users
    for node in topological(roots):
        if isinstance(node, Input):
            if node.bound:
                looping = True
            else:
                found[node] = None
                if node.kind == "argument" and node not in own:
                    others.add(node)
            continue
        if others:
            _refuse_others(others, (*node.inputs(), *node.inside()), node)
        variables: list[Expr] = []
        binders: list[Expr] = []
        checked = (e for c in node.checks for e in (c.left, c.right))
        for e in walk((*node.expressions(), *checked), into):
            if e.args:
                if e.vars:
                    binders.append(e)
            elif isinstance(e, Extent | Needed):
                of = e.node
                if isinstance(of, Input) and not of.bound:
                    if of.kind == "argument" and of not in own:
                        raise _of_another_call(of, "array", node)
                    found[of] = None
            elif isinstance(e, Var):
                variables.append(e)
            elif isinstance(e, Param) and e not in numbers:
                raise _of_another_call(e, "number", node)
        if variables:
            bound = {*bound_by(node), *(v for e in binders for v in e.vars)}
            if not bound.issuperset(variables):
                raise _in_an_array_operation(node)
    _refuse_others(others, roots, None)
    if looping:
        _refuse_escaped_states(roots)
    return tuple(found)


def _refuse_others(others: set[Node], used: Iterable[Leaf], user: Node | None) -> None:
    """Raise an error if `user` reads arguments of other programs."""
    for leaf in used:
        if isinstance(leaf.node, Input) and leaf.node in others:
            raise _of_another_call(leaf.node, "array", user)


def bound_by(node: Node) -> Iterable[Var]:
    """The variables that a node binds in its combination and its epilogue."""
    combine = getattr(node, "combine", None)
    if combine is not None:
        yield from (*combine.left, *combine.right)
    yield from getattr(node, "results", ())
    if hasattr(node, "result"):
        yield node.result


def _location(tracer: Input | Param, user: Node | None) -> Location | None:
    """The location where `user` uses a tracer; None if the tracer is a result of the program.

    A node made inside the tracer's own function may also represent equal nodes made later, so its
    location is not the right one.
    """
    if user is None or (tracer.until is not None and user.uid < tracer.until):
        return None
    return user.where


def _of_another_call(tracer: Input | Param, kind: str, user: Node | None) -> TracingError:
    if tracer.until is None:
        return TracingError(
            f"this run needs the value of {tracer.name!r}, which represents any {kind} "
            "while a program is traced.",
            hint="Return the value from the compiled function, or pass arrays to td.run.",
        )
    return TracingError(
        f"{tracer.name!r} was used outside the function that it belongs to: it represents any "
        f"{kind} while that is traced, and has no value in another program.",
        hint="Return the value from the compiled function, or pass arrays to td.run; pass values "
        "to another compiled function as arguments.",
        where=_location(tracer, user),
    )


def _in_an_array_operation(node: Node) -> TracingError:
    return TracingError(
        f"{node.label.operation} makes arrays, and is used in a loop whose state has only numbers: "
        "such a loop runs inside one kernel.",
        hint="Give the loop an array as state: td.unit(x) for a number x makes it a loop over "
        "arrays.",
        where=node.where,
    )


def free_states(roots: Sequence[Leaf]) -> dict[Node, frozenset[Input]]:
    """The states and counters of enclosing loops on which each node depends."""
    free: dict[Node, frozenset[Input]] = {}
    for node in topological(roots):
        if isinstance(node, Input):
            free[node] = frozenset((node,)) if node.bound else _NO_STATES
            continue
        inside = _NO_STATES.union(*(free[leaf.node] for leaf in node.inside()))
        if isinstance(node, ArrayLoop):
            inside -= set(node.bound)
        free[node] = inside.union(*(free[leaf.node] for leaf in node.inputs()))
    return free


def _refuse_escaped_states(roots: Sequence[Leaf]) -> None:
    """Raise an error if the state or counter of a loop over arrays is used outside its body."""
    free = free_states(roots)
    left = _NO_STATES.union(*(free[leaf.node] for leaf in roots))
    if not left:
        return
    state = min(left, key=lambda s: s.uid)
    raise TracingError(
        f"the {state.kind} of a loop was used outside the function that it belongs to: there is "
        "one value of it per iteration of that loop, and none here.",
        also=(("the loop is here:", state.where),),
        hint="Make it part of the loop's state, and use what the loop returns.",
        where=_location(state, _user_of(state, roots, free)),
    )


def _user_of(
    state: Input, roots: Sequence[Leaf], free: dict[Node, frozenset[Input]]
) -> Node | None:
    """The node outside the loop's body that reads its state; None if the state is a result."""
    node: Node | None = None
    within = [leaf.node for leaf in roots]
    while state not in within:
        node = next(n for n in within if state in free[n])
        within = [leaf.node for leaf in node.inputs()]
        if not (isinstance(node, ArrayLoop) and state in node.bound):
            within += [leaf.node for leaf in node.inside()]
    return node
