"""Control flow (cond, while_loop, iterate, loop) on scalars in kernels and on whole arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, TypeVar, cast as cast_type

import numpy as np

from .. import errors, expr as ex, graph, simplify
from ..analysis.short_extents import equal_extents
from ..annotations import (
    ArrayLike,
    Element,
    Function,
    IntLike,
    IterateFunction,
    LoopFunction,
    WhileFunction,
)
from ..array import Array
from ..errors import DTypeError, Location, ShapeError, TracingError
from ..expr import Expr, Index, Proj, Var
from ..frontend import tracing
from ..frontend.evaluation import number
from ..frontend.refusals import called, returned
from ..frontend.sources import as_array, is_arraylike
from ..graph import Leaf
from ..node import Node, fresh_uid
from ..scalar import (
    Scalar,
    apply_primitive,
    as_count,
    as_strong,
    as_truth,
    fit_weak,
    lift,
    unify,
    yields,
)
from ..shapes import on_host, show_shape
from ..types import LEAF, Constant, ScalarType, Structure, children_of, flatten, int64, is_composite
from .common import (
    OtherType,
    changed_component,
    hint_to_convert,
    is_literal,
    keep_type,
    label_of,
    operation,
    require_type,
)
from .elements.choosing import Ignore, MaybeIndex, choose_index
from .indexing.row_major import distance

__all__ = ["cond", "iterate", "loop", "while_loop"]

R = TypeVar("R")

# --- conditionals ----------------------------------------------------------------------------


def is_array(value: Any) -> bool:
    return isinstance(value, Array) or is_arraylike(value)


def _predicate(p: Any, operation: str) -> Expr:
    if is_array(p):
        p = as_array(p, operation)
        if p.ndim != 0:
            raise ShapeError(
                f"the predicate of {operation} must be one truth value, got an array of rank "
                f"{p.ndim}.",
                hint="td.where(p, a, b) chooses element by element; td.any(p), td.all(p) reduce.",
            )
    return as_truth(lift(p, operation))


def _iterations(count: Any, operation: str) -> Expr:
    """The number of iterations of a counted loop."""
    if count is None or isinstance(count, range | str | list | tuple):
        raise TracingError(
            f"{operation} needs the number of its iterations, got {called(count)}.",
            hint="Write td.loop(start, stop, f, init)."
            if isinstance(count, range) and operation == "loop"
            else f"Write td.{operation}(n, f, init).",
        )
    return as_count(count, operation)


def _loop_predicate(pred: Function, state: Any, operation: str) -> Expr:
    """The value of a loop's predicate for a state."""
    value = pred(state)
    tracing.check_result(value, f"the predicate of {operation}", "one truth value")
    return _predicate(value, operation)


@operation
def cond(p: ArrayLike, then: Element, else_: Element) -> Element:
    """`then` if p else `else_`, for scalars or arrays: only the chosen side is evaluated.

    Inside kernels, an index in the other side is neither read nor checked; nor one in `q` of a
    predicate `p & q` where `p` is false, or `p | q` where `p` is true.

    Parameters
        p: a boolean: of Python, a scalar or a rank-0 array.
        then: the result where `p` is true: a number, an array, or a tuple, list or dict of them.
        else_: the same, where it is false.

    Result: `then` or `else_`.

    >>> td.generate(4, lambda i: td.cond(i < 3, td.use(np.array([3, 1, 2]))[i], -1))
    Array([ 3,  1,  2, -1])
    """
    tracing.guard_sides(then, else_)
    if isinstance(then, Ignore | MaybeIndex) or isinstance(else_, Ignore | MaybeIndex):
        return choose_index(_predicate(p, "cond"), then, else_, both=False)
    for side in (then, else_):
        if callable(side) and not isinstance(side, Scalar | Array | ScalarType):
            raise TracingError(
                "cond takes expressions, not functions.",
                hint="Write td.cond(p, a, b): only the chosen one is evaluated.",
            )
    left, structure = flat(then, "a side of cond")
    right, other = flat(else_, "a side of cond", structure)
    if not structure.same_nesting(other):
        raise DTypeError(
            f"the two sides of cond have different structure: {structure.outline()} against "
            f"{other.outline()}.",
            hint="Both sides must have the same nesting.",
        )
    predicate = _predicate(p, "cond")
    if tracing.enclosing_kernel() is None and any(is_array(v) for v in (*left, *right)):
        return _array_cond(on_host(predicate), left, right, structure)
    pairs = [unify([lift(x, "cond"), lift(y, "cond")])[0] for x, y in zip(left, right, strict=True)]
    pairs = [[as_strong(e) for e in pair] for pair in pairs]
    if isinstance(predicate, ex.Const):
        chosen = [pair[0 if bool(predicate.value) else 1] for pair in pairs]
        return structure.build([Scalar(e) for e in chosen])
    first, second = (tuple(side) for side in zip(*pairs, strict=True))
    node = ex.Cond(simplify.in_order(predicate), first, second)
    return structure.build([Scalar(Proj(node, k)) for k in range(len(pairs))])


def _array_cond(
    predicate: Expr, left: Sequence[Any], right: Sequence[Any], structure: Structure
) -> Any:
    where = errors.user_location()
    then = [as_array(v, "cond") for v in left]
    other = [as_array(v, "cond") for v in right]
    outs: list[graph.Output] = []
    checks: list[graph.Check] = []
    for x, y in zip(then, other, strict=True):
        if x.ndim != y.ndim or not x.structure.same_nesting(y.structure):
            raise ShapeError(
                f"the two sides of cond have ranks {x.ndim} and {y.ndim} or elements of different "
                "structure.",
                hint="Both sides must have the same rank and element type.",
            )
        if x.types != y.types:
            raise DTypeError(
                f"the two sides of cond have types {x.structure.describe(x.types)} and "
                f"{y.structure.describe(y.types)}.",
                hint="Convert one: a.astype(td.float64).",
            )
        shape = list[Expr]()
        for u, v in zip(x._shape, y._shape, strict=True):
            same = u is v or (graph.known(u) is not None and graph.known(u) == graph.known(v))
            # The state of a loop that may change its extents is slow.
            if not same and tracing.in_iteration():
                found = equal_extents(u, v, "cond")
                same, checks = found is not None, [*checks, *(found or ())]
            shape.append(u if same else simplify.select(predicate, u, v))
        outs += [graph.Output(tuple(shape), t) for t in x.types]
    node = graph.Branch(
        predicate,
        tuple(le for x in then for le in x._leaves),
        tuple(le for y in other for le in y._leaves),
        tuple(outs),
        label=graph.Label("cond"),
        where=where,
        checks=tuple(checks),
    )
    return regroup(node.leaves, then, structure)


def regroup(leaves: Sequence[Leaf], like: Sequence[Array], structure: Structure) -> Any:
    """Group flat leaves into arrays with the element structures of `like`."""
    parts, at = [], 0
    for array in like:
        count = array.structure.count
        mine = leaves[at : at + count]
        parts.append(Array(mine, array.structure, mine[0].shape))
        at += count
    return structure.build(parts)


# --- loops -----------------------------------------------------------------------------------


def _while_function(function: object) -> WhileFunction:
    return cast_type(WhileFunction, function)


def _iterate_function(function: object) -> IterateFunction:
    return cast_type(IterateFunction, function)


def _loop_function(function: object) -> LoopFunction:
    return cast_type(LoopFunction, function)


@_while_function
@operation
def while_loop(
    pred: Function, body: Function, init: Element, *, name: str | None = None
) -> Element:
    """`while pred(state): state = body(state)`; a tuple state is passed as one argument.

    On scalars the loop runs inside a kernel; with an array in the state it is a loop over arrays.

    Parameters
        pred: a function of the state that gives a boolean.
        body: a function from state to state.

    >>> td.run(td.while_loop(lambda s: s < 100, lambda s: 2 * s, 3))
    array(192)
    """
    return _values(_loop("while_loop", None, pred, body, init, name))


@_iterate_function
@operation
def iterate(n: IntLike, f: Function, init: Element, *, name: str | None = None) -> Element:
    """`f` applied `n` times: f(f(… f(init))).

    Parameters
        n: how many times; a run-time value is allowed.
        f: a function from state to state.

    >>> td.iterate(3, lambda s: s + s, np.array([3, 1, 2]))
    Array([24,  8, 16])
    """
    return _values(_loop("iterate", n, None, f, init, name))


def _counted(n: Any, f: Function, init: Any) -> tuple[Any, Function, Any]:
    return n, f, init


def _between(start: Any, stop: Any, f: Function, init: Any) -> tuple[Any, Function, Any]:
    first, end = (_iterations(bound, "loop") for bound in (start, stop))
    count = Scalar(distance(first, end)[0])
    if not callable(f):
        return count, f, init  # refused as that of `_counted`
    require_signature(f, ("k", "state"), "the body of loop")

    def body(k: Scalar, state: Any) -> Any:
        return f(Scalar(apply_primitive("add", [first, k._expr])), state)

    return count, body, init


_counted.__name__ = _between.__name__ = "loop"  # in errors
_ABSENT: Any = object()


@_loop_function
@operation
def loop(
    *given: Any,
    n: Any = _ABSENT,
    start: Any = _ABSENT,
    stop: Any = _ABSENT,
    f: Function = _ABSENT,
    init: Any = _ABSENT,
    name: str | None = None,
) -> Any:
    """`loop(n, f, init)`: `state = f(k, state)` for k = 0 … n − 1, from the state `init`;
    `loop(start, stop, f, init)`: for k = start … stop − 1.  The access analysis knows the range
    of k.

    Parameters
        n: the number of iterations; a run-time value is allowed.
        f: a function (k, state) that returns the next state.

    >>> td.run(td.loop(2, 5, lambda k, state: state + k, td.unit(0)))
    array(9)
    """
    named = {"n": n, "start": start, "stop": stop, "f": f, "init": init}
    named = {word: value for word, value in named.items() if value is not _ABSENT}
    between = len(given) + len(named) > 3 or not named.keys().isdisjoint(("start", "stop"))
    form = _between if between else _counted
    try:
        bound = inspect.signature(form).bind(*given, **named)
    except TypeError as misfit:
        raise errors.misfitting(form, given, misfit) from None
    count, body, first = form(*bound.args, **bound.kwargs)
    return _values(_loop("loop", count, None, body, first, name))


loop.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    lambda n, f, init, *, name=None: None
)


def counted(n: int, f: Function, init: Element) -> Element:
    """`loop` of scalars for what makes expressions: none is an array that is computed by itself."""
    made: Element = _loop("loop", n, None, f, init, None)
    return made


def _values(state: Element) -> Element:
    """The results of a loop: the scalars among them as `number` gives them."""
    leaves, structure = flat(state, "the state")
    made: Element = structure.build(
        [number(v._expr) if isinstance(v, Scalar) else v for v in leaves]
    )
    return made


def _loop(
    operation: str,
    count: Any,
    pred: Function | None,
    body: Function,
    init: Any,
    name: str | None,
    paths: Sequence[str] | None = None,
) -> Any:
    """`paths`: what the parts of the state are called in errors, by default as in `init`."""
    for function, what in ((pred, "predicate"), (body, "body")):
        if function is None:
            continue
        given = ("k", "state") if operation == "loop" and what == "body" else ("state",)
        require_signature(function, given, f"the {what} of {operation}")
    leaves, structure = flat(init, f"the state of {operation}")
    if not leaves:
        raise TracingError(
            f"{operation} needs a state, got {called(init)}.",
            hint="Give it the initial value: a number, an array, or a tuple, list or dict of them.",
        )
    paths = paths or structure.paths("state")
    if not structure.only_tuples:
        made = _loop(operation, count, *_on_parts(pred, body, structure, operation),
                     tuple(leaves), name, paths)  # fmt: skip
        return structure.build(made)
    where = errors.user_location()

    def trace(first: Sequence[object]) -> object:
        if tracing.enclosing_kernel() is not None or not any(is_array(v) for v in first):
            begun = fresh_uid()
            node = _scalar_loop(operation, count, pred, body, first, structure, paths, where)
            if tracing.enclosing_kernel() is None:
                node = _over_numbers(node, begun)
            if tracing.enclosing_kernel() is not None or not _makes_arrays(node, begun):
                return structure.build([Scalar(Proj(node, k)) for k in range(len(first))])
        return _array_loop(operation, count, pred, body, first, structure, paths, name, where)

    return with_literals(leaves, trace)


def with_literals(init: Sequence[object], trace: Callable[[Sequence[object]], R]) -> R:
    """`trace(init)`.  Where a body returns a float of another size for what is Python's float at
    first, or an integer for an integer, it is traced again: numbers without a type take one."""
    first = list(init)
    while True:
        try:
            return trace(first)
        except OtherType as other:
            first[other.part] = Scalar(fit_weak(lift(first[other.part]), other.type))


def _over_numbers(loop: ex.While | ex.Loop, begun: int) -> ex.While | ex.Loop:
    """The loop with numbers in place of the arrays of rank 0 that its body makes of the state, as
    `x[i]` does: what is one number needs no kernel."""
    memo: dict[Expr, Expr] = {}

    def number(e: Expr) -> Expr:
        if not isinstance(e, ex.Read) or e.args or e.boundary is not None:
            return e
        node = e.node
        if (
            type(node) is not graph.Generate
            or node.uid < begun
            or node.checks
            or node.label.ordered
        ):
            return e
        (made,) = ex.rewrite((node.elements[e.component],), number, memo)
        return made if any(isinstance(x, Var) for x in ex.walk((made,))) else e

    scoped = ex.rewrite(loop.scoped, number, memo)
    if isinstance(loop, ex.While):
        scoped = simplify.in_order(scoped[0]), *scoped[1:]
    made = loop.rebuild(loop.args, scoped)
    assert isinstance(made, ex.While | ex.Loop)
    return made


def _makes_arrays(loop: ex.While | ex.Loop, begun: int) -> bool:
    """Whether arrays that the body makes of the loop's numbers were traced, since `begun`: then it
    is a loop over arrays, whose numbers have rank 0."""
    waiting = [e.node for e in ex.walk((loop,)) if isinstance(e, ex.Read | ex.Extent)]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen or node.uid < begun:
            continue
        seen.add(node)
        if any(isinstance(e, Var) and e in loop.vars for e in ex.walk(node.expressions())):
            return True
        waiting += [leaf.node for leaf in (*node.inputs(), *node.inside())]
    return False


def flat(value: Any, what: str, like: Structure | None = None) -> tuple[list[Any], Structure]:
    """The leaves and the nesting of tuples, named tuples, dataclasses, lists and dicts; None, text,
    types and functions have no leaves.  `like` is the expected nesting: entries of dicts come in
    its order, and constants must be its constants."""
    names: tuple[Any, ...] = ()
    children: tuple[Any, ...]
    cls: type
    if value is None or is_constant(value):
        children, cls, names = (), Constant, (value,)
    elif isinstance(value, dict):
        names, children, cls = tuple(value), tuple(value.values()), dict
    elif isinstance(value, list):
        children, cls = tuple(value), list
    elif not is_array(value) and is_composite(value):
        children, cls = children_of(value), type(value)
    else:
        children, cls = (), Leaf
    if like is not None and like.cls in (dict, Constant) and (like.cls, like.names) != (cls, names):
        if like.cls is not cls or cls is Constant or set(like.names) != set(names):
            raise _other_part(value, what, like)
        names, children = like.names, tuple(value[k] for k in like.names)
    if cls is Leaf:
        return [value], LEAF
    inner = like.children if like is not None and len(like.children) == len(children) else None
    leaves: list[Any] = []
    parts: list[Structure] = []
    for k, child in enumerate(children):
        found, part = flat(child, what, None if inner is None else inner[k])
        leaves += found
        parts.append(part)
    return leaves, Structure(cls, tuple(parts), names)


def is_constant(value: Any) -> bool:
    """Whether a value is no part of a state that changes: text, a member of an enumeration, a type
    or a function."""
    named = isinstance(value, Enum) and not isinstance(value, int | float)
    return (
        named
        or isinstance(value, str | np.dtype | type | ScalarType)
        or (callable(value) and not is_composite(value) and not isinstance(value, Array | Scalar))
    )


def _other_part(value: Any, what: str, like: Structure) -> TracingError:
    """The error for a body that returns other keys than its state has, or another constant."""
    if like.cls is Constant:
        return TracingError(
            f"{what} must return {like.names[0]!r} unchanged, but returned {called(value)}.",
            hint="Only numbers and arrays change: put other values into a closure.",
        )
    keys = ", ".join(map(repr, like.names))
    said = f"a dict of {', '.join(map(repr, value))}" if isinstance(value, dict) else called(value)
    return TracingError(
        f"{what} must return a dict of {keys}, but returned {said}.",
        hint="Return the same keys always: {**state, 'x': …}.",
    )


def _on_parts(
    pred: Function | None, body: Function, like: Structure, operation: str
) -> tuple[Function | None, Function]:
    """The functions of a loop whose state holds lists, dicts or constants, converted to take a
    tuple of its leaves."""

    def iteration(*given: Any) -> Any:
        *index, parts = given
        what = f"the body of {operation}"
        made = body(*index, like.build(parts))
        if made is None:
            raise returned(made, what, "the state")
        leaves, found = flat(made, what, like)
        if not found.same_nesting(like):
            raise TracingError(
                f"{what} must return the structure of the state, {like.outline()}, but returned "
                f"{found.outline()}.",
                hint="Return lists of the lengths, and dicts of the keys, that the state has.",
            )
        return tuple(leaves)

    if pred is None:
        return None, iteration
    return lambda parts: pred(like.build(parts)), iteration


#: By loop and number of arguments that its body takes: the loop that calls one with so many.
_OTHER_LOOPS = {
    ("iterate", 2): "td.loop(n, lambda k, state: …, init) gives it the number of the iteration.  ",
    ("loop", 1): "td.iterate(n, lambda state: …, init) gives it the state alone.  ",
}


def require_signature(function: Function, given: Sequence[str], what: str) -> None:
    """Raise an error if `what` is no function, or cannot be called with these arguments."""
    if not callable(function):
        raise TracingError(
            f"{what} must be a function, got {called(function)}.",
            hint=errors.form_of(what.rpartition(" ")[2]),
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in without a signature
        return
    try:
        signature.bind(*given)
    except TypeError:
        asked = ", ".join(signature.parameters)
        other = _OTHER_LOOPS.get((what.rpartition(" ")[2], len(signature.parameters)), "")
        raise TracingError(
            f"{what} is called with {' and '.join(given)}, but takes ({asked}).",
            hint=f"{other}A state of several parts is one argument, a tuple:\n"
            f"  def body({', '.join(given)}):\n      x, y = state\n      …\n"
            "      return x, y",
        ) from None


def _scalar_loop(
    operation: str,
    count: Any,
    pred: Function | None,
    body: Function,
    init: Sequence[Any],
    structure: Structure,
    paths: Sequence[str],
    where: Location | None,
) -> ex.While | ex.Loop:
    start = tuple(as_strong(lift(v, operation)) for v in init)
    types = [e.type for e in start]
    literals = [is_literal(v) for v in init]
    state = tuple(Var(f"s{k}", t) for k, t in enumerate(types))

    def next_numbers(made: Any) -> tuple[Expr, ...]:
        for value, path in zip(flatten(made, is_array)[0], paths, strict=False):
            _require_number(value, operation, path, where)
        what = f"the body of {operation}"
        return keep_type(made, structure, types, what, "state", paths, literals)

    if pred is not None:
        with tracing.Scope(operation, where, state).active():
            seen = structure.build([Scalar(v) for v in state])
            result = next_numbers(body(seen))
            predicate = simplify.in_order(_loop_predicate(pred, seen, operation))
        return ex.While(start, state, predicate, result)
    n = _iterations(count, operation)
    index = Var("k", int64)
    with tracing.Scope(operation, where, (index, *state)).active():
        seen = structure.build([Scalar(v) for v in state])
        made = body(seen) if operation == "iterate" else body(Scalar(index), seen)
        result = next_numbers(made)
    return ex.Loop(n, start, (index, *state), result)


def _array_loop(
    operation: str,
    count: Any,
    pred: Function | None,
    body: Function,
    init: Sequence[Any],
    structure: Structure,
    paths: Sequence[str],
    name: str | None,
    where: Location | None,
) -> Any:
    tracing.forbid_nesting(operation)
    # Scalars in the state are carried as rank-0 arrays and returned as scalars.
    scalar = [not is_array(v) for v in init]
    arrays = [
        as_array(Scalar(as_strong(lift(v))) if s else v, operation)
        for v, s in zip(init, scalar, strict=True)
    ]
    literals = [is_literal(v) for v in init]
    traced = _Traced(
        operation, pred is None, body, arrays, scalar, literals, structure, paths, where
    )
    states, index, seen = traced.states, traced.index, traced.seen
    next_leaves, checks = traced.next_leaves, traced.checks
    predicate: Leaf | None = None
    if pred is not None:
        with tracing.traced_iteration():
            truth = _loop_predicate(pred, seen, operation)
        predicate = graph.Generate((), (truth,), label=graph.Label("predicate"), where=where).leaf()
    node = graph.ArrayLoop(
        tuple(states),
        (*traced.extents, *(le for a in arrays for le in a._leaves)),
        tuple(next_leaves),
        predicate,
        None if pred is not None else on_host(_iterations(count, operation)),
        index,
        label=label_of(operation, name, None),
        where=where,
        checks=tuple(checks),
    )
    graph.ended(node.bound)
    own = node.leaves[len(traced.extents) :]
    results = regroup(own, arrays, Structure(tuple, (LEAF,) * len(arrays)))
    shown = [r._scalar_at(()) if s else r for r, s in zip(results, scalar, strict=True)]
    return structure.build(shown)


#: An axis of a part of a loop's state.
Axis = tuple[int, int]


class _Traced:
    """The body of a loop over arrays, traced with the extents of the state that change.

    First all extents are those of the initial value.  Where the next state has others that the
    state may decide, the body is traced again with extents of the state's own; those that turn out
    not to depend on it are checked against the initial value after all.
    `extents` are the first values of those that change, which come first among `states`.
    """

    def __init__(self, operation: str, counted: bool, body: Function, arrays: Sequence[Array],
                 scalar: Sequence[bool], literals: Sequence[bool], structure: Structure,
                 paths: Sequence[str], where: Location | None) -> None:  # fmt: skip
        self.operation, self.counted, self.body = operation, counted, body
        self.arrays, self.scalar = arrays, scalar
        self.structure, self.where = structure, where
        changing: set[Axis] = set()
        fixed: set[Axis] = set()
        while True:
            result = self._trace(changing)
            parts = [as_array(v, operation) if is_array(v) else None
                     for v in flatten(result, is_array)[0]]  # fmt: skip
            if len(parts) != len(arrays):
                break  # refused by `next_state`
            same = {at for at in changing if self._is_fixed(parts, at)}
            more = {at for at in self._differing(parts) if at not in changing | fixed}
            if not same and not more:
                break
            fixed |= same
            changing = (changing | more) - same
        axes = sorted(changing)
        self.extents = [as_array(Scalar(arrays[k]._shape[axis]), operation)._leaves[0]
                        for k, axis in axes]  # fmt: skip
        leaves, self.checks = next_state(
            result, structure, self.like, scalar, literals, self.bound, operation, paths, where,
            changing,
        )  # fmt: skip
        following = []
        for k, axis in axes:
            part = parts[k]
            assert part is not None
            following.append(as_array(Scalar(part._shape[axis]), operation)._leaves[0])
        self.next_leaves = [*following, *leaves]

    def _trace(self, changing: set[Axis]) -> Any:
        """What the body returns, for a state of which these axes have extents of their own."""
        where = self.where
        own = {
            at: graph.Input("extent", int64, (), kind="state", where=where)
            for at in sorted(changing)
        }
        self.states = list(own.values())
        self.like, inside = [], []
        for k, (array, is_scalar) in enumerate(zip(self.arrays, self.scalar, strict=True)):
            shape = tuple(own[k, axis].leaf().at() if (k, axis) in own else e
                          for axis, e in enumerate(array._shape))  # fmt: skip
            made = [state_input(leaf, where).of_shape(shape) for leaf in array._leaves]
            self.states += made
            view = Array([s.leaf() for s in made], array.structure, shape)
            self.like.append(view)
            inside.append(view._scalar_at(()) if is_scalar else view)
        self.seen = self.structure.build(inside)
        self.index = None
        if self.counted:
            self.index = graph.Input("k", int64, (), kind="counter", where=where)
        self.bound = self.states if self.index is None else [*self.states, self.index]
        with tracing.traced_iteration():
            if self.index is not None and self.operation != "iterate":
                return self.body(index_scalar(self.index), self.seen)
            return self.body(self.seen)

    def _differing(self, parts: Sequence[Array | None]) -> set[Axis]:
        """The axes whose next extents are others, which the state may decide."""
        found: set[Axis] = set()
        symbols = {e for a in self.like for e in ex.walk(a._shape) if not isinstance(e, ex.Const)}
        plain = any(isinstance(e, ex.Const) for a in self.arrays for e in a._shape)
        for k, (made, like) in enumerate(zip(parts, self.like, strict=True)):
            if made is None or made.ndim != like.ndim:
                continue
            for axis, (new, old) in enumerate(zip(made._shape, like._shape, strict=True)):
                if new is old:
                    continue
                read = _arrays_read((new,))
                of_nodes = (
                    e
                    for n in graph.topological(read)
                    for e in (*n.host_expressions(), *(e for o in n.outputs for e in o.shape))
                )
                of_state = any(e in symbols and e is not new for e in ex.walk((new, *of_nodes)))
                unnamed = plain and (bool(read) or graph.known(new) is not None)
                if of_state or unnamed or depends(new, self.bound):
                    found.add((k, axis))
        return found

    def _is_fixed(self, parts: Sequence[Array | None], at: Axis) -> bool:
        """Whether an extent does not change, or not because of the state."""
        made, (k, axis) = parts[at[0]], at
        if made is None or made.ndim != self.like[k].ndim:
            return True
        new, old = made._shape[axis], self.like[k]._shape[axis]
        return new is old or not depends(new, self.bound)


def _require_number(value: Any, operation: str, path: str, where: Location | None) -> None:
    """An error for an array where the state is one number."""
    if is_array(value) and as_array(value, operation).ndim:
        raise ShapeError(
            f"the body of {operation} returned an array for {path}, which is one number at first.",
            hint="Give the initial value the shape, td.zeros(shape); or reduce the result, "
            "td.sum(x).",
            where=where,
        )


def _origin(leaf: Leaf, loop: Location | None) -> tuple[tuple[str, Location | None], ...]:
    """Where the type of an array comes from: the first operation that has it, of operands that
    have not; nothing if that is the line of the loop, which the error names."""
    for node in graph.topological((leaf,)):
        of_it = any(made.type == leaf.type for made in node.leaves)
        before = any(read.type == leaf.type for read in node.inputs())
        if of_it and not before and node.where is not None:
            if loop is not None and node.where.place() == loop.place():
                break
            return ((f"{leaf.type} comes from:", node.where),)
    return ()


def state_input(leaf: Leaf, where: Location | None) -> graph.Input:
    """The Input for one buffer of a loop's state.

    It has the shape of the initial value; if that is an argument, it is named after it.
    """
    first, name = leaf.node, "state"
    if isinstance(first, graph.Input) and first.kind == "argument" and first.name.isidentifier():
        name = f"state_{first.name}"
    node = graph.Input(name, leaf.type, (False,) * len(leaf.shape), kind="state", where=where)
    return node.of_shape(leaf.shape)


def index_scalar(index: graph.Input) -> Scalar:
    return Scalar(index.leaf().at())


def next_state(
    result: Any,
    structure: Structure,
    arrays: Sequence[Array],
    scalar: Sequence[bool],
    literals: Sequence[bool],
    states: Sequence[graph.Input],
    operation: str,
    paths: Sequence[str],
    where: Location | None,
    changing: Collection[tuple[int, int]] = (),
) -> tuple[list[Leaf], list[graph.Check]]:
    """The leaves of the next state, with the state's types and shapes; checks before the loop.

    Extents computed by an iteration are checked in each iteration, but those that are `changing`:
    (part, axis).
    """
    found, nesting = flatten(result, is_array)
    for value in found:
        tracing.check_result(
            value, f"the body of {operation}", "the state, of several parts as a tuple"
        )
    if not nesting.same_nesting(structure):
        hint = "Return as many values as the state has, in a tuple of the same nesting."
        if any(isinstance(x, Array) and not x.structure.is_leaf for x in found):
            hint += "  Of an array of tuples, td.unzip(a) makes a tuple of arrays."
        raise DTypeError(
            f"the body of {operation} must return the structure of the state, "
            f"{structure.outline()}, but returned {nesting.outline()}.",
            hint=hint,
            where=where,
        )
    leaves: list[Leaf] = []
    checks: list[graph.Check] = []
    for part, (value, like, is_scalar) in enumerate(zip(found, arrays, scalar, strict=True)):
        if is_scalar:
            _require_number(value, operation, paths[part], where)
        if is_scalar or not is_array(value):
            e = lift(value, operation)
            e = fit_weak(e, like.types[0]) if yields(e, like.types[0]) else as_strong(e)
            made = as_array(Scalar(e), operation)
        else:
            made = as_array(value, operation)
        if literals[part] and made.structure.is_leaf:
            require_type(made.types[0], like.types[0], part)
        if made.types != like.types or not made.structure.same_nesting(like.structure):
            raise DTypeError(
                f"the body of {operation} must return the state's type "
                f"{like.structure.describe(like.types)}, but returned "
                f"{made.structure.describe(made.types)}"
                f"{changed_component(paths, part, made.types[0], like.types[0])}.",
                hint=hint_to_convert(like.types[0], made.types[0], literals[part])
                if is_scalar
                else f"Convert the result: x.astype(td.{like.types[0]}); or the initial value: "
                f"x.astype(td.{made.types[0]}).",
                where=where,
                also=_origin(made._leaves[0], where),
            )
        if made.ndim != like.ndim:
            raise ShapeError(
                f"the body of {operation} must keep the state's rank {like.ndim}, but returned "
                f"rank {made.ndim}.",
                hint="Keep an array of the final extents in the state, and a count in addition.",
                where=where,
            )
        repeated: list[graph.Check] = []
        for axis, (new, old) in enumerate(zip(made._shape, like._shape, strict=True)):
            if new is old or (part, axis) in changing:
                continue
            u, v = graph.known(new), graph.known(old)
            if u is not None and v is not None:
                if int(u) != int(v):
                    raise ShapeError(
                        f"the body of {operation} must keep the state's shape "
                        f"{show_shape(like._shape)}, but returned {show_shape(made._shape)}.",
                        hint="Slice or pad the result to the extents of the state.",
                        where=where,
                    )
                continue
            check = graph.Check(
                new,
                old,
                f"the body of {operation} changed the extent of axis "
                f"{axis} of its state from {{right}} to {{left}}.",
                where=where,
            )
            (repeated if depends(new, states) else checks).append(check)
        if repeated:
            elements = tuple(made._element(tuple(map(Index, range(like.ndim)))))
            shape = tuple(
                new if (part, axis) in changing else old
                for axis, (new, old) in enumerate(zip(made._shape, like._shape, strict=True))
            )
            stored = graph.Generate(
                shape, elements, label=graph.Label("state"), where=where, checks=tuple(repeated)
            )
            leaves += stored.leaves
        else:
            leaves += made._leaves
    return leaves, checks


def depends(extent: Expr, states: Sequence[graph.Input]) -> bool:
    """Whether an extent depends on the state or the counter of a loop."""
    read = _arrays_read((extent,))
    return bool(read) and not set(states).isdisjoint(graph.topological(read))


def _arrays_read(extents: Sequence[Expr]) -> list[Leaf]:
    return [Leaf(e.node, e.component) for e in ex.walk(extents) if isinstance(e, ex.Read)]
