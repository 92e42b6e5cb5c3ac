"""`grad`, `value_and_grad`, `vjp` and `stop`: reverse derivatives."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast as cast_type, overload

import numpy as np

from .. import errors
from ..annotations import Derivative, Function
from ..array import Array, generated, map_over
from ..errors import DTypeError, GradientError, ShapeError, TracingError
from ..evaluator import evaluator
from ..expr import Const, Expr, Var
from ..frontend.call_cache import CallCache
from ..frontend.evaluation import number
from ..frontend.functions import Fixed, FixedArray
from ..frontend.refusals import called, result_of
from ..frontend.sources import as_array, use
from ..frontend.tracing import enclosing_kernel
from ..graph import Label, Leaf, indices
from ..operations.common import integer
from ..operations.elements.lifting import elementwise
from ..scalar import Scalar, apply_primitive, as_strong, lift
from ..shapes import same_shape
from ..simplify import cast
from ..text import byte_count
from .arguments import (
    Substitution,
    Variable,
    flatten,
    is_value,
    names_of,
    outline,
    parts_in_order,
    paths,
)
from .diagonals import with_diagonals
from .expressions import Active, expr_vjp, settled, shifted
from .forward import Forward
from .magnitudes import smooth
from .reads import stored
from .reverse import pulled

P = ParamSpec("P")
R = TypeVar("R")
#: The argument to differentiate by.
A = TypeVar("A")

__all__ = ["check_grad", "grad", "jvp", "stop", "value_and_grad", "vjp"]


@errors.user_facing_maker
def stop(x: Any) -> Any:
    """`x`, through which no gradient passes: derivatives treat it as a constant.

    x: an array or a number, or a tuple of them.

    Parameters
        x: an array, or a tuple of arrays.

    Result: the same values.

    >>> import treadle as td
    >>> td.run(td.grad(lambda x: x * td.stop(x))(3.0))
    array(3.)

    See also `grad`, `value_and_grad`, `vjp`.
    """
    flat, build = flatten(x)
    return build([elementwise("stop", v) if not isinstance(v, Array) or v.structure.is_leaf
                  else _stopped(v) for v in flat])  # fmt: skip


def _stopped(x: Array) -> Array:
    elements = tuple(apply_primitive("stop", [e]) for e in x._element(indices(x.ndim)))
    return generated(x._shape, elements, "stop", structure=x.structure)


def _numbers(argnums: object, operation: str) -> list[int]:
    given = argnums if isinstance(argnums, tuple | list) else (argnums,)
    numbers = [k for k in map(integer, given) if k is not None]
    if not numbers or len(numbers) < len(given):
        raise TracingError(
            f"{operation}: argnums is the number of an argument, or a tuple of numbers, got "
            f"{called(argnums)}.",
            hint="Write argnums=0 for the first argument, argnums=(0, 1) for the first two; "
            f"td.{operation}(f)(x) is the derivative at x.",
        )
    return numbers


def _argnums(argnums: object, count: int, operation: str) -> tuple[int, ...]:
    numbers = _numbers(argnums, operation)
    for k in numbers:
        if not -count <= k < count:
            raise TracingError(
                f"{operation}: argnums={k}, but the function was called with {count} argument(s).",
                hint="Arguments are counted from 0.",
            )
    found = tuple(k % count for k in numbers)
    if len(set(found)) < len(found):
        raise TracingError(
            f"{operation}: argnums={tuple(numbers)} names an argument twice.",
            hint="Give every number once; the gradients come in their order.",
        )
    return found


def _no_number(result: object, operation: str) -> TracingError:
    return TracingError(
        f"{operation}: the function must return one real number, got {called(result)}.",
        hint="Return td.sum(…); for several results write (value, aux) and has_aux=True, or "
        "use td.vjp.",
    )


def _pair(result: object, operation: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TracingError(
            f"{operation}: with has_aux=True the function returns the pair (value, aux), but "
            f"returned {called(result)}.",
            hint="Return (value, other).",
        )
    value, aux = result
    return value, aux


def _loss(result: object, operation: str) -> tuple[Leaf, bool]:
    """The leaf of a differentiated function's result, and whether it was a number."""
    if not is_value(result):
        raise _no_number(result, operation)
    number = not isinstance(result, Array) and not hasattr(result, "__array__")
    array = as_array(result, operation) if not number else None
    if array is None:
        strong = as_strong(lift(result, operation))
        array = generated((), (strong,), "value")
    if array.ndim:
        raise ShapeError(
            f"{operation}: the function must return one number, got an array of rank {array.ndim}.",
            hint="Reduce it: td.sum(…), td.mean(…); or use td.vjp, which takes a cotangent.",
        )
    if not array.structure.is_leaf or not array.types[0].is_float:
        raise DTypeError(
            f"{operation}: the function must return one real number, got "
            f"{array.structure.describe(array.types)}.",
            hint="Convert it: td.cast(x, td.float64); of complex numbers return abs(z), z.real.",
        )
    return array._leaves[0], number


def _require_function(f: object, operation: str, rest: str) -> None:
    if not callable(f):
        raise TracingError(f"{operation} needs a function, got {called(f)}.",
                           hint=f"Write td.{operation}{rest}.")  # fmt: skip


def _differentiated(
    f: Function,
    args: tuple[object, ...],
    argnums: object,
    has_aux: bool,
    memory: object,
    operation: str,
) -> tuple[Any, Any, Any]:
    _require_function(f, operation, "(f)(x)")
    chosen = _argnums(argnums, len(args), operation)
    if enclosing_kernel() is not None:
        return _in_kernel(f, args, chosen, has_aux, operation)
    names = names_of(f, len(args))
    symbols = list(args)
    groups: list[tuple[list[Variable], Callable[[Sequence[Any]], Any]]] = []
    for k in chosen:
        flat, build = flatten(args[k])
        own = [Variable(v, names[k], operation, path)
               for v, path in zip(flat, paths(args[k], names[k]), strict=True)]  # fmt: skip
        symbols[k] = build([v.symbol for v in own])
        groups.append((own, build))
    variables = [v for own, _ in groups for v in own]
    result = result_of(f, symbols)
    result, aux = _pair(result, operation) if has_aux else (result, None)
    root, is_number = _loss(result, operation)
    targets = [leaf for v in variables for leaf in v.leaves]
    limit = None if memory is None else byte_count(memory)
    if memory is not None and limit is None:
        raise TracingError(
            f"{operation}: memory is an amount of memory, got {memory!r}.",
            hint='Write "2 GB", "300 MB" or a positive number of bytes.',
        )
    joined = Substitution((), with_diagonals([root], targets))
    (root,), aux = joined.leaves([root]), joined.value(aux)
    bars, replaced = pulled([root], [Const(1, root.type)], targets, limit)
    put = Substitution(variables, list(replaced.items()))
    for v in variables:
        v.close()
    value_leaf, *made = put.leaves([root, *bars])
    value = number(value_leaf.at()) if is_number else Array((value_leaf,))
    gradients, at = [], 0
    for own, build in groups:
        parts = []
        for v in own:
            parts.append(v.like(made[at : at + len(v.leaves)]))
            at += len(v.leaves)
        gradients.append(build(parts))
    single = not isinstance(argnums, tuple | list)
    return value, put.value(aux), gradients[0] if single else tuple(gradients)


def _in_kernel(
    f: Function, args: tuple[object, ...], chosen: tuple[int, ...], has_aux: bool, operation: str
) -> tuple[Any, Any, Any]:
    """The same inside a scalar function, by expressions alone."""
    symbols = list(args)
    variables: list[Var] = []
    given: dict[Expr, Expr] = {}
    builds: list[tuple[int, Callable[[Sequence[Any]], Any]]] = []
    names = names_of(f, len(args))
    for k in chosen:
        flat, build = flatten(args[k])
        own = []
        for v, path in zip(flat, paths(args[k], names[k]), strict=True):
            e = lift(v, operation)
            if not e.type.is_inexact:
                raise DTypeError(
                    f"{operation}: the argument {path} is {e.type}, and has no gradient.",
                    hint="Convert it: td.cast(x, td.float64).",
                )
            variable = Var("x", e.type)
            given[variable] = as_strong(e)
            variables.append(variable)
            own.append(Scalar(cast(variable, e.type, True) if e.weak else variable))
        symbols[k] = build(own)
        builds.append((len(flat), build))
    result = result_of(f, symbols)
    result, aux = _pair(result, operation) if has_aux else (result, None)
    if not is_value(result):
        raise _no_number(result, operation)
    value = as_strong(lift(result, operation))
    if not value.type.is_float:
        raise DTypeError(
            f"{operation}: the function must return one real number, got {value.type}.",
            hint="Convert it: td.cast(x, td.float64).",
        )
    wanted = set(variables)
    active = Active(lambda e: e in wanted)
    (root,) = smooth((value,), active)
    found = expr_vjp([(root, Const(1, value.type))], active)

    def of(v: Var) -> Scalar:
        g = settled(found[v]) if v in found else Const(0, v.type)
        return Scalar(shifted(g, given))

    flat = [of(v) for v in variables]
    gradients, at = [], 0
    for count, build in builds:
        gradients.append(build(flat[at : at + count]))
        at += count
    parts, rebuild = flatten(aux)
    aux = rebuild([Scalar(shifted(p._expr, given)) if isinstance(p, Scalar) else p for p in parts])
    return Scalar(shifted(value, given)), aux, gradients


def _as_requested(gradients: Any, argnums: Any, in_kernel: bool) -> Any:
    if in_kernel and not isinstance(argnums, tuple | list):
        return gradients[0]
    return tuple(gradients) if in_kernel else gradients


@overload
def value_and_grad(
    f: Callable[Concatenate[A, P], R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    memory: float | str | None = None,
) -> Derivative[Concatenate[A, P], tuple[R, A]]: ...
@overload
def value_and_grad(
    f: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    memory: float | str | None = None,
) -> Callable[..., Any]: ...
@errors.user_facing_maker
def value_and_grad(
    f: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    memory: float | str | None = None,
) -> Callable[..., Any]:
    """A function that returns `f`'s value and its gradient: (value, gradient), in one program.

    Parameters
        f: a function that returns one real number, an array of rank 0 or a scalar; with `has_aux`,
            the pair of it and other results, and the value is then this pair.
        argnums: the position of the argument to differentiate by, or a tuple of positions; default
            0. The gradient has the structure and the types of the argument (a tuple of them for a
            tuple).
        has_aux: whether `f` returns a pair, of which the second is not differentiated; default
            False.
        memory: how much the stored states of each loop over arrays may take, in bytes or as "2 GB";
            the others are computed again from these. None (default) stores all that are needed.

    Result: a function with the parameters of `f` that returns (value, derivatives).

    Errors: `GradientError` at the line of an operation that has no derivative; `DTypeError` for
        integers among the arguments; `ShapeError` if `f` returns an array.

    >>> import numpy as np, treadle as td
    >>> loss = lambda w, x: td.sum((w * x) ** 2)
    >>> td.run(td.value_and_grad(loss)(2.0, np.array([1.0, 2.0])))
    (array(20.), array(20.))

    See also `grad`, `vjp`, `stop`.
    """
    _numbers(argnums, "value_and_grad")

    @_named_after(f)
    def differentiated(*args: object, **named: object) -> object:
        return _derivatives(*_in_order(f, args, named), argnums, has_aux, memory, "value_and_grad")

    return differentiated


@overload
def grad(
    f: Callable[Concatenate[A, P], object],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    memory: float | str | None = None,
) -> Derivative[Concatenate[A, P], A]: ...
@overload
def grad(
    f: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    memory: float | str | None = None,
) -> Callable[..., Any]: ...
@errors.user_facing_maker
def grad(
    f: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    memory: float | str | None = None,
) -> Callable[..., Any]:
    """The gradient of `f`, a function of the same arguments; see `value_and_grad`.

    With `has_aux`, it returns (gradient, aux).

    Parameters
        f: a function of arrays that returns one number.
        argnums: the positions of the arguments to differentiate by; default 0.
        has_aux: whether `f` returns a pair, of which the second is not differentiated; default
            False.
        memory: how much the stored states of each loop over arrays may take, in bytes or as "2 GB";
            the others are computed again from these. None (default) stores all that are needed.

    Result: a function with the parameters of `f` that returns derivatives, with the shapes of these
        arguments.

    >>> import numpy as np, treadle as td
    >>> td.run(td.grad(lambda x: td.sum(x ** 3))(np.array([1.0, 2.0])))
    array([ 3., 12.])

    See also `value_and_grad`, `vjp`, `stop`.
    """
    _numbers(argnums, "grad")

    @_named_after(f)
    def differentiated(*args: object, **named: object) -> object:
        return _derivatives(*_in_order(f, args, named), argnums, has_aux, memory, "grad")

    return differentiated


class _Given(Fixed):
    """The nesting of a call's arguments.  Its `parts` are arrays and numbers; NumPy arrays that are
    not differentiated are fixed, since a function may use their elements in NumPy."""

    def __init__(self, args: tuple[object, ...], chosen: Sequence[int]) -> None:
        found = [flatten(a) for a in args]
        self.nested = [(len(parts), build) for parts, build in found]
        self.outline = outline(args)
        self.parts: list[object] = []
        for k, (parts, _) in enumerate(found):
            by = k in chosen or k - len(args) in chosen
            self.parts += parts if by else map(_fixed, parts)
        #: Whether the call has a signature; there is none with large NumPy arrays.
        self.known = self.outline is not None and not any(p is None for p in self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Given) and self.outline == other.outline

    def __hash__(self) -> int:
        return hash(self.outline)

    def args(self, parts: Sequence[object]) -> list[object]:
        left = iter([p.array if isinstance(p, FixedArray) else p for p in parts])
        return [build(list(islice(left, n))) for n, build in self.nested]

    def gradients(self, chosen: Sequence[int], single: bool, left: Iterator[object]) -> object:
        """The nested result of `grad`, from its arrays."""
        made = [build(list(islice(left, n))) for n, build in (self.nested[k] for k in chosen)]
        return made[0] if single else tuple(made)


def _fixed(part: object) -> object:
    return FixedArray.of(part) if isinstance(part, np.ndarray) else part


def _derivatives(f: Function, args: tuple[object, ...], argnums: int | Sequence[int],
                 has_aux: bool, memory: float | str | None, operation: str) -> object:  # fmt: skip
    """The result of `grad`'s and `value_and_grad`'s functions; cached if there is a signature."""
    chosen = _numbers(argnums, operation)
    given = _Given(args, chosen)
    if not given.known:
        return _called(f, operation, argnums, has_aux, memory, *args)
    found = _calls_of_derivatives((f, operation, argnums, has_aux, memory, given, *given.parts), {})
    if has_aux:
        return found
    left = iter(cast_type("tuple[object, ...]", found))
    value = () if operation == "grad" else (next(left),)
    gradients = given.gradients(chosen, not isinstance(argnums, tuple | list), left)
    return (*value, gradients) if value else gradients


def _called(
    f: Function,
    operation: str,
    argnums: int | Sequence[int],
    has_aux: bool,
    memory: float | str | None,
    *args: object,
) -> object:
    inside = enclosing_kernel() is not None
    value, aux, gradients = _differentiated(f, args, argnums, has_aux, memory, operation)
    found = _as_requested(gradients, argnums, inside)
    if operation == "grad":
        return (found, aux) if has_aux else found
    return (value, aux) if has_aux else value, found


def _in_parts(
    f: Function,
    operation: str,
    argnums: int | Sequence[int],
    has_aux: bool,
    memory: float | str | None,
    given: _Given,
    *parts: object,
) -> object:
    """The results in one tuple, unless there are other results."""
    found = _called(f, operation, argnums, has_aux, memory, *given.args(parts))
    return found if has_aux else tuple(flatten(found)[0])


#: For calls outside traced functions.
_calls_of_derivatives = CallCache(_in_parts)


def _in_order(
    f: Function, args: tuple[object, ...], named: dict[str, object]
) -> tuple[Function, tuple[object, ...]]:
    """A function with its keyword-only arguments bound, and its other arguments by position."""
    if not callable(f):  # `_differentiated` says so
        return f, args
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # a built-in without a signature
        return functools.partial(f, **named), args
    try:
        bound = signature.bind(*args, **named)
    except TypeError as misfit:
        known = errors.keywords(f)
        if known is not None and not known.issuperset(named):
            raise errors.unknown_keyword(f, named, known) from None
        raise errors.misfitting(f, args, misfit) from None
    return (functools.partial(f, **bound.kwargs) if bound.kwargs else f), bound.args


def _named_after(f: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def rename(made: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(f)(errors.user_facing_maker(made)) if callable(f) else made

    return rename


@overload
def vjp(
    f: Function, *args: object, has_aux: Literal[False] = False
) -> tuple[Any, Callable[[object], Any]]: ...
@overload
def vjp(
    f: Function, *args: object, has_aux: Literal[True]
) -> tuple[Any, Callable[[object], Any], Any]: ...
@errors.user_facing_maker
def vjp(f: Function, *args: object, has_aux: bool = False) -> tuple[Any, ...]:
    """`(y, back)`: the value of `f` and the function that maps a cotangent of `y` to those of the
    arguments (one, or a tuple for several).  With `has_aux`, `(y, back, aux)`.

    Parameters
        f: a function of arrays.
        *args: the arguments of `f`.
        has_aux: whether `f` returns a pair, of which the second is not differentiated; default
            False.

    Result: the result of `f`, and a function from its cotangent to those of the arguments. Where a
        cotangent, or a part of one, is None, it is 0.

    >>> import numpy as np, treadle as td
    >>> y, back = td.vjp(td.sin, np.array([0.0, 1.0]))
    >>> td.run(back(td.ones(2)))
    array([1.        , 0.54030231])

    See also `grad`, `value_and_grad`, `stop`.
    """
    if enclosing_kernel() is not None:
        raise GradientError(
            "td.vjp works on arrays, outside of scalar functions.",
            hint="Inside, use td.grad of a scalar function.",
        )
    given = _Given(args, range(len(args))) if callable(f) else None
    if given is None or not given.known:
        return _vjp(f, args, has_aux)
    found = _calls_of_values((f, has_aux, given, *given.parts), {})
    value = cast_type("tuple[object, object]", found) if has_aux else (found,)

    def back(ybar: object) -> Any:
        bar = _Given((ybar,), (0,))
        if not bar.known:
            return _vjp(f, args, has_aux)[1](ybar)
        parts = *given.parts, *bar.parts
        made = _calls_of_pullbacks((f, has_aux, given, bar, *parts), {})
        left = iter(cast_type("tuple[object, ...]", made))
        return given.gradients(range(len(args)), len(args) == 1, left)

    return (value[0], back, *value[1:])


def _value_in_parts(f: Function, has_aux: bool, given: _Given, *parts: object) -> object:
    result, _, *aux = _vjp(f, given.args(parts), has_aux)
    return (result, *aux) if has_aux else result


def _pulled_in_parts(
    f: Function, has_aux: bool, given: _Given, bar: _Given, *parts: object
) -> object:
    count = len(given.parts)
    back = _vjp(f, given.args(parts[:count]), has_aux)[1]
    (ybar,) = bar.args(parts[count:])
    return tuple(flatten(back(ybar))[0])


#: As `_calls_of_derivatives`: the values of `vjp`, and what its functions return.
_calls_of_values = CallCache(_value_in_parts)
_calls_of_pullbacks = CallCache(_pulled_in_parts)


def _vjp(f: Function, args: Sequence[object], has_aux: bool) -> tuple[Any, ...]:
    _require_function(f, "vjp", "(f, x)")
    names = names_of(f, len(args))
    groups = []
    symbols = []
    for k, a in enumerate(args):
        flat, build = flatten(a)
        own = [Variable(v, names[k], "vjp", path)
               for v, path in zip(flat, paths(a, names[k]), strict=True)]  # fmt: skip
        symbols.append(build([v.symbol for v in own]))
        groups.append((own, build))
    variables = [v for own, _ in groups for v in own]
    result = result_of(f, symbols)
    result, aux = _pair(result, "vjp") if has_aux else (result, None)
    for v in variables:
        v.close()
    results, _ = flatten(result)
    joined = with_diagonals(
        [leaf for v in results for leaf in as_array(v, "vjp")._leaves],
        [leaf for v in variables for leaf in v.leaves],
    )
    result, aux = Substitution((), joined).value((result, aux))
    arrays = [as_array(v, "vjp") for v in flatten(result)[0]]
    roots = [leaf for a in arrays for leaf in a._leaves]

    def back(ybar: object) -> Any:
        given = parts_in_order(ybar, result, "the cotangent")
        if len(given) != len(arrays):
            raise TracingError(
                f"the cotangent has {len(given)} part(s), the value {len(arrays)}.",
                hint="Give one cotangent for each array of the value, in the same nesting.",
            )
        seeds: list[Leaf | Expr | None] = []
        for v, a in zip(given, arrays, strict=True):
            if v is None:
                seeds += [None] * len(a._leaves)
                continue
            g = as_array(v, "vjp")
            if g.ndim != a.ndim or len(g._leaves) != len(a._leaves):
                raise ShapeError(
                    f"a cotangent has rank {g.ndim}, its value {a.ndim}.",
                    hint="A cotangent has the shape of its value.",
                )
            checked = _like(g, a)
            seeds += [
                cast(leaf.at(*indices(a.ndim)), t)
                for leaf, t in zip(checked._leaves, a.types, strict=True)
            ]
        targets = [leaf for v in variables for leaf in v.leaves]
        bars, replaced = pulled(roots, seeds, targets)
        made = Substitution(variables, list(replaced.items())).leaves(bars)
        found, at = [], 0
        for own, build in groups:
            parts = []
            for v in own:
                parts.append(v.like(made[at : at + len(v.leaves)]))
                at += len(v.leaves)
            found.append(build(parts))
        return found[0] if len(found) == 1 else tuple(found)

    result, aux = Substitution(variables).value((result, aux))
    return (result, back, aux) if has_aux else (result, back)


def _like(g: Array, a: Array, operation: str = "vjp") -> Array:
    """The (co)tangent, with checks that it has the extents of its value."""
    for given, wanted in zip(g.types, a.types, strict=True):
        if given.is_complex and not wanted.is_complex:
            raise DTypeError(
                f"{operation}: a {'tangent' if operation == 'jvp' else 'cotangent'} is {given}, "
                f"its value {wanted}.",
                hint="Give its real part, td.real(g).",
            )
    checks = same_shape(a._shape, g._shape, operation)
    if not checks:
        return g
    return map_over(g, indices(a.ndim), a._shape, operation, checks)


@overload
def jvp(
    f: Function, args: Sequence[object], tangents: Sequence[object], has_aux: Literal[False] = False
) -> tuple[Any, Any]: ...
@overload
def jvp(
    f: Function, args: Sequence[object], tangents: Sequence[object], has_aux: Literal[True]
) -> tuple[Any, Any, Any]: ...
@errors.user_facing_maker
def jvp(
    f: Function, args: Sequence[object], tangents: Sequence[object], has_aux: bool = False
) -> tuple[Any, ...]:
    """`(y, dy)`: the value of `f` at `args`, and its derivative along `tangents`, in one program.
    With `has_aux`, `(y, dy, aux)`.

    It costs about as much as `f` again, whatever the number of results, and no memory for loops.

    Parameters
        f: a function of arrays and numbers.
        args: a tuple of its arguments: floats, complex numbers, arrays, or nested values of them.
        tangents: a tuple of as many values, in the same nesting and of the same shapes. None is the
            tangent of what does not move, as integers.
        has_aux: whether `f` returns a pair, of which the second is not differentiated; default
            False.

    Result: a pair (value, derivative), both in the structure that `f` returns.

    Errors: `GradientError` at the line of an operation that has no derivative; `DTypeError` for
        the tangent of an integer; `ShapeError` for a tangent of another shape.

    >>> import numpy as np, treadle as td
    >>> y, dy = td.jvp(td.sin, (np.array([0.0, 1.0]),), (np.array([1.0, 2.0]),))
    >>> td.run(dy)
    array([1.        , 1.08060461])
    """
    if enclosing_kernel() is not None:
        raise GradientError(
            "td.jvp works on arrays, outside of scalar functions.",
            hint="Inside, use td.grad of a scalar function.",
        )
    _require_function(f, "jvp", "(f, (x,), (dx,))")
    if not isinstance(args, tuple | list) or not isinstance(tangents, tuple | list):
        raise TracingError(
            "jvp takes a tuple of arguments and a tuple of tangents.",
            hint="Write td.jvp(f, (x,), (dx,)) for a function of one argument.",
        )
    if len(args) != len(tangents):
        raise TracingError(
            f"jvp: {len(args)} argument(s), but {len(tangents)} tangent(s).",
            hint="Give one tangent for each argument.",
        )
    given = _Given((*args, *tangents), range(2 * len(args)))
    if not given.known:
        return _jvp(f, args, tangents, has_aux)
    found = _calls_of_tangents((f, has_aux, given, *given.parts), {})
    return cast_type("tuple[Any, ...]", found)


def _tangents_in_parts(f: Function, has_aux: bool, given: _Given, *parts: object) -> object:
    both = given.args(parts)
    count = len(both) // 2
    return _jvp(f, both[:count], both[count:], has_aux)


_calls_of_tangents = CallCache(_tangents_in_parts)


def _jvp(
    f: Function, args: Sequence[object], tangents: Sequence[object], has_aux: bool
) -> tuple[Any, ...]:
    names = names_of(f, len(args))
    symbols: list[object] = []
    variables: list[Variable] = []
    moved: list[Leaf] = []
    for a, t, name in zip(args, tangents, names, strict=True):
        flat, build = flatten(a)
        given = parts_in_order(t, a, f"jvp: the tangent of {name}")
        if len(given) != len(flat):
            raise TracingError(
                f"jvp: the tangent of {name} has {len(given)} part(s), the argument {len(flat)}.",
                hint="Give one for each array of the argument, in the same nesting.",
            )
        seen = []
        for part, g, path in zip(flat, given, paths(a, name), strict=True):
            if g is not None:
                variables.append(Variable(part, name, "jvp", path))
                moved += _tangent(variables[-1], g, name)
            seen.append(part if g is None else variables[-1].symbol)
        symbols.append(build(seen))
    result = result_of(f, symbols)
    result, aux = _pair(result, "jvp") if has_aux else (result, None)
    for v in variables:
        v.close()
    results, build = flatten(result)
    roots = [leaf for v in results for leaf in as_array(v, "jvp")._leaves]
    forward = Forward(dict(zip([x for v in variables for x in v.leaves], moved, strict=True)))
    forward.run(roots)
    put = Substitution(variables, list(forward.replaced.items()))
    along = []
    for v in results:
        like = as_array(v, "jvp")
        mine = put.leaves([forward.of(leaf) for leaf in like._leaves])
        along.append(number(mine[0].at()) if isinstance(v, Scalar)
                     else Array(tuple(mine), like.structure, mine[0].shape))  # fmt: skip
    value, aux = put.value((result, aux))
    return (value, build(along), aux) if has_aux else (value, build(along))


def _tangent(v: Variable, given: Any, name: str) -> list[Leaf]:
    """The components of an argument's tangent, in its shape and types."""
    g, like = as_array(given, "jvp"), Array(v.given, v.structure, v.shape)
    if g.ndim != like.ndim or len(g._leaves) != len(like._leaves):
        raise ShapeError(
            f"jvp: the tangent of {name} has rank {g.ndim}, the argument {like.ndim}.",
            hint="A tangent has the shape of its argument.",
        )
    checked = _like(g, like, "jvp")
    elements = [
        cast(leaf.at(*indices(g.ndim)), t)
        for leaf, t in zip(checked._leaves, like.types, strict=True)
    ]
    return [stored(like._shape, e, Label("tangent"), errors.user_location()) for e in elements]


@errors.user_facing_maker
def check_grad(f: Function, *args: object, rtol: float = 1e-5, eps: float = 1e-4) -> None:
    """Compare the derivatives of `f` at `args` with central differences, along a random direction.

    Both derivatives are checked: the gradient, and the forward one of `jvp`.  At a kink, as that of
    abs at 0, differences say nothing.

    Parameters
        f: a function that returns one real number.
        *args: its arguments, in float64 or complex128, as differences need the precision.
        rtol: the difference that is allowed, relative to the sum of what the elements contribute;
            default 1e-5.
        eps: how far apart the differences are along a direction of elements of about 1; default
            1e-4.  Arguments that are far from 1 need another: 1e-7 for some of about 1e-3.

    Result: None if they agree.

    Errors: `GradientError` if a derivative differs by more; `DTypeError` for arguments of other
        types.

    >>> import numpy as np, treadle as td
    >>> td.check_grad(lambda x: td.sum(td.sin(x) ** 2), np.linspace(0, 1, 5))
    """
    _require_function(f, "check_grad", "(f, x)")
    flat, build = flatten(tuple(args))
    values = [np.asarray(v) for v in flat]
    values = [v.astype(v.dtype.newbyteorder("="), copy=False) for v in values]
    names = [part for arg, name in zip(args, names_of(f, len(args)), strict=True)
             for part in paths(arg, name)]  # fmt: skip
    for v, name in zip(values, names, strict=True):
        if v.dtype not in (np.float64, np.complex128):
            leave = f"Leave it out, td.check_grad(lambda x: f(x, {name}), x), or convert it"
            raise DTypeError(
                f"check_grad: the argument {name} is {v.dtype}.",
                hint=f"{'Convert it' if v.dtype.kind in 'fc' else leave}: "
                f"{name}.astype(np.float64); differences need the precision.",
            )
    random = np.random.default_rng(0)

    def direction(v: np.ndarray[Any, Any]) -> Any:
        d = random.standard_normal(v.shape)
        return d + 1j * random.standard_normal(v.shape) if v.dtype.kind == "c" else d

    along = [direction(v) for v in values]

    def computed(value: Any) -> float:
        (found,) = evaluator().values([_loss(value, "check_grad")[0]])
        return float(found)

    def at(t: float) -> float:
        moved = [v + t * d for v, d in zip(values, along, strict=True)]
        return computed(f(*build([use(m) if m.ndim else m[()] for m in moved])))

    if not (isinstance(rtol, float | int | np.number) and rtol >= 0):
        raise TracingError(f"check_grad: rtol is a number, 0 or more, got {rtol!r}.",
                           hint="Write rtol=1e-5, or leave it out.")  # fmt: skip
    if not (isinstance(eps, float | int | np.number) and 0 < eps < np.inf):
        raise TracingError(f"check_grad: eps is a positive number, got {eps!r}.",
                           hint="Write eps=1e-4, or leave it out.")  # fmt: skip
    h = float(eps)
    beside = [at(k * h) for k in (-2, -1, 1, 2)]
    if not np.all(np.isfinite(beside)):
        raise GradientError(
            f"check_grad: central differences need f within {2 * h:g} of its arguments, where it "
            f"is {next(v for v in beside if not np.isfinite(v))}.",
            hint=f"Choose other arguments, or differences nearby: eps={h / 100:g}.",
        )
    before, left, right, after = beside
    difference = (8 * (right - left) - after + before) / (12 * h)
    numbers = tuple(range(len(args)))
    if not numbers:
        raise TracingError("check_grad: there is no argument to differentiate by.",
                           hint="Write td.check_grad(f, x).")  # fmt: skip
    gradients, _ = flatten(grad(f, argnums=numbers)(*args))
    leaves = [leaf for g in gradients for leaf in as_array(g, "check_grad")._leaves]
    found = evaluator().values(leaves)
    parts = [(np.conj(np.asarray(g)) * d).real for g, d in zip(found, along, strict=True)]
    backward = float(sum(p.sum() for p in parts))
    _, dy = jvp(f, tuple(args), build(along))
    forward = computed(dy)
    most = rtol * (float(sum(np.abs(p).sum() for p in parts)) + abs(difference))
    most += abs(at(0.0)) * 1e-14 / h  # what rounding makes of the difference
    for name, value in (("the gradient", backward), ("jvp", forward)):
        if not abs(value - difference) <= most:
            raise GradientError(
                f"{name} gives {value:.10g} along a random direction, central differences "
                f"{difference:.10g}.",
                hint="At a kink (abs at 0, equal maxima) they may, and where the function of a "
                "td.fold is not associative; elsewhere a rule is wrong.",
            )
