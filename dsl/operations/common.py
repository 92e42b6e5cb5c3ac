"""Helpers shared by the operations: tracing element functions, normalising axes, labels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import index
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from .. import errors, graph, late_binding as later, simplify
from ..analysis.combines import over_any_keys
from ..annotations import AxisLike, Function, ScheduleLike
from ..array import Array
from ..errors import DTypeError, Location, ShapeError, TracingError, shown
from ..expr import Const, Expr, Read, Var, walk
from ..frontend.call_cache import CallCache
from ..frontend.deferred import Numbers
from ..frontend.refusals import called
from ..frontend.sources import as_array, is_rows
from ..frontend.tracing import call_scalar_function, flatten_result
from ..graph import Leaf, Node, known
from ..graphs.rebuild import Rebuilder
from ..naming import operation_wrapper
from ..scalar import Scalar, apply_primitive, as_strong, fit_weak, lift, refuse_argument, yields
from ..schedule import as_schedule, of_operation
from ..shapes import same_shape
from ..types import ScalarType, Structure, complex128, flatten, float64, promote
from .descriptions import complete

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Operation(Protocol[P, R_co]):
    """A public operation: its own parameters, and the `name=` and `schedule=` of all operations.

    (Type checkers check the others where neither of the two is given.)
    """

    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(
        self, *args: Any, name: str, schedule: ScheduleLike | None = None, **kwargs: Any
    ) -> R_co: ...
    @overload
    def __call__(self, *args: Any, schedule: ScheduleLike, **kwargs: Any) -> R_co: ...


class Combining(Operation[P, R_co], Protocol[P, R_co]):
    """An operation that also takes `deterministic=`."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(
        self, *args: Any, name: str, schedule: ScheduleLike | None = None, **kwargs: Any
    ) -> R_co: ...
    @overload
    def __call__(self, *args: Any, schedule: ScheduleLike, **kwargs: Any) -> R_co: ...
    @overload
    def __call__(self, *args: Any, deterministic: bool, **kwargs: Any) -> R_co: ...


def checked(array: Array, checks: tuple[graph.Check, ...]) -> Array:
    """The same array, after checks."""
    (leaf,) = array._leaves
    rank = len(leaf.shape)
    node = graph.Generate(leaf.shape, (leaf.at(*graph.indices(rank)),), label=leaf.node.label,
                          where=leaf.node.where, checks=checks)  # fmt: skip
    return Array(node.leaves)


def require_real(array: Array, operation: str) -> None:
    """Refuse complex numbers where an operation needs an order."""
    if any(t.is_complex for t in array.types):
        raise DTypeError(
            f"{operation} needs real numbers: complex ones have no order.",
            hint="Take a part or the size: td.real(a), td.imag(a), td.abs(a).",
        )


def alike(array: Array, other: Array, operation: str) -> Array:
    """The same array, which must have the shape of another."""
    checks = same_shape(other._shape, array._shape, operation)
    return checked(array, checks) if checks else array


#: Operations that a number of the user's may write one after the other.
MOST_UNROLLED = 1 << 16


def unrolled(n: int, operation: str, word: str) -> range:
    """`range(n)`, for what is written `n` times; `ShapeError` above `MOST_UNROLLED`."""
    if n > MOST_UNROLLED:
        raise ShapeError(
            f"{operation}: {word}={shown(int(n))} is as many operations, one after the other.",
            hint=f"At most {MOST_UNROLLED:,}; in a loop, see td.loop, as many as you like.",
        )
    return range(n)


def operation(function: Callable[P, R]) -> Operation[P, R]:
    """Decorate a public operation: hide treadle's frames in errors, accept `name=` and `schedule=`.

    If the function itself has no such parameters, the arrays that it returns are relabelled.
    """
    complete(function)
    made: Operation[P, R] = _operation(function, ("name", "schedule"))
    return made


def operation_of_numbers(function: Callable[P, R]) -> Operation[P, R]:
    """`operation` for functions that take numbers as run-time values: see `CallCache`."""
    complete(function)
    made: Operation[P, R] = _operation(function, ("name", "schedule"), "inexact")
    return made


def operation_of_integers(function: Callable[P, R]) -> Operation[P, R]:
    """The same where integers are run-time values, too, from the first call on: an index that
    every call has another of."""
    complete(function)
    made: Operation[P, R] = _operation(function, ("name", "schedule"), "all")
    return made


def method(function: Callable[..., R]) -> Callable[..., R]:
    """`operation` for a method."""
    made: Callable[..., R] = _operation(function, ("name", "schedule"))
    return made


def combining_method(function: Callable[..., R]) -> Callable[..., R]:
    """`combining` for a method."""
    made: Callable[..., R] = _operation(function, ("name", "schedule", "deterministic"))
    return made


def combining(function: Callable[P, R]) -> Combining[P, R]:
    """`operation` for functions that may sum floats: `deterministic=True` fixes the order."""
    complete(function)
    made: Combining[P, R] = _operation(function, ("name", "schedule", "deterministic"))
    return made


def _operation(function: Callable[P, R], common: tuple[str, ...], numbers: Numbers = "none") -> Any:
    own = errors.keywords(function)
    if own is None:
        raise AssertionError(f"{function!r}: an operation names its arguments")
    given = tuple(k for k in common if k not in own)
    known, truths = own.union(common), errors.Truths(function)
    operands = errors.annotated(function, ("Operand", "Operand | None"))

    def compute(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not known.issuperset(kwargs):
            raise errors.unknown_keyword(function, kwargs, known)
        if truths.parameters:
            truths.require(args, kwargs)
        extra = {k: kwargs.pop(k) for k in given if k in kwargs}
        args, kwargs = _with_arrays(args, kwargs, operands, function.__name__)
        try:
            result: Any = function(*args, **kwargs)
        except errors.UNFIT as error:
            found = errors.refused(error, function, args, kwargs)
            raise found from found.__cause__
        if any(v is not None for v in extra.values()):
            # validate them even if no node results
            fixed = extra.get("deterministic")
            label_of(function.__name__, None, extra.get("schedule"), fixed is not None and fixed)
            result = relabel(result, **extra)
        elif kwargs.get("schedule") is not None and isinstance(result, Array):
            for node in dict.fromkeys(leaf.node for leaf in result._leaves):
                require_axes(node, node.label)
        return result

    calls = CallCache(compute, numbers)

    @errors.without_frames
    @operation_wrapper
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        return calls(args, kwargs)

    return call


def _with_arrays(args: Any, kwargs: Any, operands: Sequence[tuple[str, int]],
                 operation: str) -> Any:  # fmt: skip
    """The arguments of a call with arrays in place of operands that are lists and tuples of
    numbers."""
    for name, k in operands:
        value = args[k] if k < len(args) else kwargs.get(name)
        if not is_rows(value):
            continue
        if k < len(args):
            args = (*args[:k], as_array(value, operation), *args[k + 1 :])
        else:
            kwargs[name] = as_array(value, operation)
    return args, kwargs


def relabel(result: Any, name: str | None = None, schedule: ScheduleLike | None = None,
            deterministic: bool = False, user_orders: bool = False) -> Any:  # fmt: skip
    """The same arrays, with a new name or schedule for their operation, or made deterministic.
    `user_orders`: whether orders defined by users are tried now, not when the program runs.

    The label goes to a fold if an element-wise node of the same operation finishes it (`mean`).
    """
    if isinstance(result, tuple):
        return tuple(relabel(r, name, schedule, deterministic, user_orders) for r in result)
    if not isinstance(result, Array):
        return result

    made = Rebuilder()
    renamed = made.nodes
    leaves = []
    for leaf in result._leaves:
        node, finish = leaf.node, []
        while (folds := _folded_for(node)) is not None:
            finish.append(node)
            node = folds
        if not isinstance(node, graph.Input) and node not in renamed:
            pinned = deterministic or node.label.deterministic
            asked = label_of(node.label.operation, name, schedule, pinned)
            label = graph.Label(
                asked.operation,
                asked.name or node.label.name,
                asked.schedule if schedule is not None else node.label.schedule,
                asked.deterministic,
            )
            if schedule is not None:
                require_order(node, label, user_orders)
            changes: dict[str, Any] = {"label": label}
            if pinned and isinstance(node, graph.Matmul):
                changes["options"] = replace(node.options, deterministic=True)
            renamed[node] = node.with_(**changes)
        for step in reversed(finish):
            renamed[step] = made.node(step)
        leaves.append(Leaf(renamed.get(leaf.node, leaf.node), leaf.component))
    return Array(leaves, result.structure, result._shape)


def _folded_for(node: Node) -> Node | None:
    """The fold whose result this element-wise node of the same operation only finishes, if any."""
    if not isinstance(node, graph.Generate):
        return None
    found = list(dict.fromkeys(leaf.node for leaf in node.inputs()))
    if len(found) != 1:
        return None
    if node.label.operation == "keepdims":
        return found[0] if isinstance(found[0], graph.Fold | graph.Generate) else None
    same = found[0].label.operation == node.label.operation
    return found[0] if same and isinstance(found[0], graph.Fold) else None


def label_of(
    operation: str, name: str | None, schedule: ScheduleLike | None, deterministic: bool = False
) -> graph.Label:
    """A label.  Raises an error if the schedule is not one."""
    if name is not None and not isinstance(name, str):
        raise TracingError(
            f"name must be a string, got {type(name).__name__}.", hint='Write name="blur".'
        )
    errors.require_truth(operation, "deterministic", deterministic)
    if schedule is not None:
        schedule = as_schedule(schedule)
    return graph.Label(operation, name, schedule, bool(deterministic))


def require_order(node: Node, label: graph.Label, user_orders: bool = True) -> None:
    """Reject a schedule that does not fit the axes of `node`, or cannot enumerate them."""
    schedule = label.schedule
    if schedule is None or isinstance(node, graph.Input):
        return
    axes = node.schedule_axes()
    line = isinstance(node, graph.Fold) and not node.outer and len(node.inner) > 1
    if axes:
        extents: tuple[int, ...] | None = None
        if isinstance(node, graph.Generate | graph.Permute):  # other nodes schedule only some axes
            domain = node.shape if isinstance(node, graph.Generate) else node.domain
            found = [known(e) for e in domain]
            extents = None if None in found else tuple(int(n) for n in found)
        with of_operation(label, node.where):
            schedule.require(axes, extents, line=line, user_orders=user_orders)


def require_axes(node: Node, label: graph.Label) -> None:
    """Reject a schedule whose blocks, lanes or outputs per thread do not fit the axes of `node`.

    This runs when the operation is traced; user-defined orders are checked when the program runs.
    """
    if label.schedule is not None:
        require_order(node, label, user_orders=False)


def trace_elements(
    function: Function,
    arguments: Sequence[Any],
    operation: str,
    where: Location | None,
    operands: Sequence[Array] = (),
) -> tuple[tuple[Expr, ...], Structure]:
    """The elements that a user's function returns; weak literals take their default type.

    An operation depends on all its `operands`, arrays over the operation's own axes.  Operands that
    the function does not use are read together with its first result (`simplify.also`).
    """
    value = call_scalar_function(function, arguments, operation, where)
    leaves, structure = flatten_result(value, operation)
    elements = [as_strong(e) for e in leaves]
    computed = [le for a in operands for le in a._leaves if not isinstance(le.node, graph.Input)]
    if computed and elements:
        read = {(e.node, e.component) for e in walk(elements) if isinstance(e, Read)}
        unread = [le for le in computed if (le.node, le.component) not in read]
        reads = (le.at(*graph.indices(len(le.shape))) for le in unread)
        elements[0] = simplify.also(elements[0], *reads)
    return tuple(elements), structure


def integer(value: object) -> int | None:
    """A Python integer, one of NumPy's or an array of rank 0 with one; None for anything else:
    a truth value, a float and an array of one element are no numbers of things."""
    if isinstance(value, bool | np.bool_ | Array):
        return None
    try:
        return index(value)  # type: ignore[arg-type]
    except TracingError:
        raise
    except TypeError:
        return None


def whole_number(
    value: object, operation: str, word: str, hint: str = "", least: int | None = None
) -> int:
    """An integer that determines the program, the argument `word` of an operation."""
    refuse_argument(value, f"{operation}: {word}=")
    number = integer(value)
    if number is None:
        shown = called(value) if isinstance(value, Array) else repr(value)
        raise TracingError(
            f"{operation}: {word} must be an integer, got {shown}.",
            hint=hint or f"Write {word}={1 if least is None else max(least, 1)}, or int(x).",
        )
    if least is not None and number < least:
        raise ShapeError(
            f"{operation}: {word} must be {least} or more, got {number}.",
            hint=hint or f"Write {word}={max(least, 1)}.",
        )
    return number


#: What else two arguments of a reduction may mean.
_LARGER = {
    "max": "  The larger of two is td.maximum(x, y).",
    "min": "  The smaller of two is td.minimum(x, y).",
}


def normalise_axis(axis: object, ndim: int, operation: str) -> int:
    """A non-negative axis, 0 … ndim − 1."""
    refuse_argument(axis, f"{operation}: axis=")
    value = integer(axis)
    if value is None:
        raise ShapeError(
            f"{operation}: axis must be an integer, got "
            f"{called(axis) if isinstance(axis, Array) else repr(axis)}.",
            hint="An axis is a Python int, or a tuple of them where several make sense."
            + _LARGER.get(operation, ""),
        )
    if ndim == 0:
        raise errors.AxisError(
            f"{operation} needs an axis; the array has rank 0.",
            hint="Give it an axis first: a[None]." + _LARGER.get(operation, ""),
        )
    if not -ndim <= value < ndim:
        raise errors.AxisError(
            f"{operation}: axis {value} does not exist in an array of rank {ndim}.",
            hint=f"Axes run from 0 to {ndim - 1}; negative ones count from the end.",
        )
    return int(value) % ndim


def normalise_axes(axis: AxisLike | None, ndim: int, operation: str) -> tuple[int, ...]:
    """All axes for None; otherwise the given ones, sorted."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    chosen = sorted(normalise_axis(a, ndim, operation) for a in axes)
    if len(set(chosen)) != len(chosen):
        raise ShapeError(
            f"{operation}: an axis appears twice in {axis!r}.",
            hint="Name each axis once; negative ones count from the end.",
        )
    return tuple(chosen)


def flatten_value(value: Any, structure: Structure, what: str, operation: str) -> list[Any]:
    """The flat components of a value, which must have the nesting `structure`."""
    if isinstance(value, list):
        raise TracingError(
            f"{what} of {operation} is a list.", hint="Use a tuple: (x, y) instead of [x, y]."
        )
    leaves, found = flatten(value, lambda v: False)
    if not found.same_nesting(structure):
        raise DTypeError(
            f"{what} of {operation} is {found.outline()}, the elements are {structure.outline()}.",
            hint="It must have the same nesting as the elements.",
        )
    return leaves


def fit_to(
    value: Any, structure: Structure, types: Sequence[ScalarType], what: str, operation: str
) -> tuple[Expr, ...]:
    """A value with the nesting of the elements, each component in the type of its element.

    Literals take that type.  A typed value must not be wider: nothing is narrowed implicitly.
    """
    leaves = flatten_value(value, structure, what, operation)
    fitted = []
    for leaf, t in zip(leaves, types, strict=True):
        e = lift(leaf, operation)
        common = t if yields(e, t) else promote(e.type, False, t, False)[0]
        if common != t:
            raise DTypeError(
                f"{what} of {operation} is {e.type}, the elements are {t}.",
                hint=f"Convert one of them: a.astype(td.{common}), or td.cast(x, td.{t}).",
            )
        fitted.append(fit_weak(e, t))
    return tuple(fitted)


def state_variables(
    structure: Structure, types: Sequence[ScalarType], name: str
) -> tuple[tuple[Var, ...], Any]:
    """Fresh variables of the given types: as a flat tuple, and as passed to the user's function."""
    variables = tuple(Var(f"{name}{k}", t) for k, t in enumerate(types))
    return variables, structure.build([Scalar(v) for v in variables])


def trace_combine(
    function: Function,
    structure: Structure,
    types: Sequence[ScalarType],
    operation: str,
    where: Location | None,
) -> graph.Combine:
    """Trace a binary function on elements as a Combine; it must return the element's type."""
    left, a = state_variables(structure, types, "left")
    right, b = state_variables(structure, types, "right")
    value = call_scalar_function(function, (a, b), operation, where)
    what = f"the function of {operation}"
    results = keep_type(value, structure, types, what, "elements", structure.paths("element"))
    return over_any_keys(graph.canonical_combine(left, right, results))


def changed_component(paths: Sequence[str], k: int, now: ScalarType, before: ScalarType) -> str:
    """A clause for an error message: which component of several changed its type."""
    return f": {paths[k]} was {before} and becomes {now}" if len(paths) > 1 else ""


class OtherType(Exception):
    """A body returns another type of the same kind for a part of its state that is a literal."""

    def __init__(self, part: int, type_: ScalarType) -> None:
        super().__init__(part, type_)
        self.part, self.type = part, type_


def is_literal(value: object) -> bool:
    """Whether an initial value has no type of its own."""
    return type(value) in (int, float, complex)


def require_type(made: ScalarType, of: ScalarType, part: int) -> None:
    """Raise `OtherType` if a literal of type `of` is to be `made`."""
    if made != of and (made.family == of.family or (made.is_integer and of.is_integer)):
        raise OtherType(part, made)


def hint_to_convert(before: ScalarType, now: ScalarType, literal: bool) -> str:
    """A hint for a number of a state that changes its type: convert it, or begin with the other
    type, which is another number of Python's where the initial value is a `literal`."""
    begun = _LITERALS.get((before.family, now)) if literal else None
    result = f"onvert the result: td.cast(x, td.{before})"
    if begun is not None:
        return f"Start from {begun}; or c{result}."
    return f"C{result}; or the initial value: td.{now}(…)."


#: What is written instead of a number of Python's that begins a state of another type.
_LITERALS = {
    ("int", float64): "a float: 0.0 instead of 0",
    ("int", complex128): "a complex number: 0j instead of 0",
    ("float", complex128): "a complex number: 0j instead of 0.0",
}


def keep_type(
    value: Any,
    structure: Structure,
    types: Sequence[ScalarType],
    what: str,
    of: str,
    paths: Sequence[str],
    literals: Sequence[bool] = (),
) -> tuple[Expr, ...]:
    """The flat result of a function that must return the type of its argument, whose components
    are called `paths`.  For those that are `literals` a type of the same kind is `OtherType`."""
    leaves, found = flatten_result(value, what, what)
    if not found.same_nesting(structure):
        raise DTypeError(
            f"{what} must return the type of the {of}, {structure.describe(types)}, but returned "
            f"{found.outline()}.",
            hint="Return a tuple of the same nesting.",
        )
    results = []
    for k, (leaf, t) in enumerate(zip(leaves, types, strict=True)):
        leaf = fit_weak(leaf, t) if yields(leaf, t) else as_strong(leaf)
        if literals and literals[k]:
            require_type(leaf.type, t, k)
        if leaf.type != t:
            got = found.describe([e.type for e in leaves])
            raise DTypeError(
                f"{what} must return the type of the {of}, {structure.describe(types)}, but "
                f"returned {got}{changed_component(paths, k, leaf.type, t)}.",
                hint=hint_to_convert(t, leaf.type, bool(literals) and literals[k]),
            )
        results.append(leaf)
    return tuple(results)


later.offer(relabel=relabel)


def rounded_product(a: Expr, b: Expr) -> Expr:
    """a · b, rounded even where a sum follows: `form_fma` contracts products, and this is a sum."""
    if a.type.family != "float":
        return apply_primitive("multiply", [a, b])
    return apply_primitive("fma", [a, b, Const(-0.0, a.type)])
