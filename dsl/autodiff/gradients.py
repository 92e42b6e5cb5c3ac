"""`grad`, `value_and_grad`, `vjp` and `stop`: reverse derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..annotations import Function
from ..array import Array
from ..errors import DTypeError, GradientError, ShapeError, TracingError, user_facing, user_location
from ..expr import Const, Expr, Var
from ..frontend.refusals import called
from ..frontend.sources import as_array
from ..frontend.tracing import enclosing_kernel
from ..graph import Generate, Label, Leaf, indices
from ..operations.functions import elementwise
from ..scalar import Scalar, apply_primitive, as_strong, lift
from ..shapes import same_shape
from ..simplify import cast
from .arguments import Substitution, Variable, constant_leaf, flatten, is_value, names_of
from .expressions import Active, expr_vjp, settled, shifted
from .reverse import Reverse

__all__ = ["grad", "stop", "value_and_grad", "vjp"]


@user_facing
def stop(x: Any) -> Any:
    """`x`, through which no gradient passes: derivatives treat it as a constant.

    x: an array or a number, or a tuple of them.

    >>> import treadle as td
    >>> td.run(td.grad(lambda x: x * td.stop(x))(3.0))
    array(3.)
    """
    flat, build = flatten(x)
    return build([elementwise("stop", v) if not isinstance(v, Array) or v.structure.is_leaf
                  else _stopped(v) for v in flat])  # fmt: skip


def _stopped(x: Array) -> Array:
    elements = tuple(apply_primitive("stop", [e]) for e in x._element(indices(x.ndim)))
    node = Generate(x._shape, elements, label=Label("stop"), where=user_location())
    return Array(node.leaves, x.structure, x._shape)


def _argnums(argnums: Any, count: int, operation: str) -> tuple[int, ...]:
    numbers = argnums if isinstance(argnums, tuple | list) else (argnums,)
    if not numbers or not all(type(k) is int for k in numbers):
        raise TracingError(
            f"{operation}: argnums is the number of an argument, or a tuple of numbers, got "
            f"{called(argnums)}.",
            hint="Write argnums=0 for the first argument, argnums=(0, 1) for the first two.",
        )
    for k in numbers:
        if not -count <= k < count:
            raise TracingError(
                f"{operation}: argnums={k}, but the function was called with {count} argument(s).",
                hint="Arguments are counted from 0.",
            )
    return tuple(k % count for k in numbers)


def _loss(result: Any, operation: str) -> tuple[Leaf, bool]:
    """The leaf of a differentiated function's result, and whether it was a number."""
    if not is_value(result):
        raise TracingError(
            f"{operation}: the function must return one real number, got {called(result)}.",
            hint="Return td.sum(…); for several results write (value, aux) and has_aux=True, or "
            "use td.vjp.",
        )
    number = not isinstance(result, Array) and not hasattr(result, "__array__")
    array = as_array(result, operation) if not number else None
    if array is None:
        strong = as_strong(lift(result, operation))
        node = Generate((), (strong,), label=Label("value"), where=user_location())
        array = Array(node.leaves)
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


def pulled(
    roots: Sequence[Leaf], seeds: Sequence[Leaf | Expr | None], targets: Sequence[Leaf]
) -> tuple[list[Leaf], dict[Leaf, Leaf]]:
    """The cotangents of `targets` for those of `roots`: arrays, or expressions over their indices.
    Targets that the roots do not depend on get zeros.  Also leaves of the program to replace by
    others that compute the same."""
    reverse = Reverse(roots, targets)
    for root, seed in zip(roots, seeds, strict=True):
        if isinstance(seed, Leaf):
            seed = seed.at(*indices(len(root.shape)))
        if seed is not None:
            reverse.give(root, seed)
    reverse.run()
    found = [reverse.bar(t) or constant_leaf(0, t, "no gradient") for t in targets]
    return found, reverse.replaced


def _differentiated(
    f: Function, args: tuple[Any, ...], argnums: Any, has_aux: bool, operation: str
) -> tuple[Any, Any, Any]:
    """The value, the auxiliary results and the gradients."""
    if not callable(f):
        raise TracingError(f"{operation} needs a function, got {called(f)}.",
                           hint=f"Write td.{operation}(f)(x).")  # fmt: skip
    chosen = _argnums(argnums, len(args), operation)
    if enclosing_kernel() is not None:
        return _in_kernel(f, args, chosen, has_aux, operation)
    names = names_of(f, len(args))
    symbols = list(args)
    groups: list[tuple[list[Variable], Callable[[Sequence[Any]], Any]]] = []
    for k in chosen:
        flat, build = flatten(args[k])
        own = [Variable(v, names[k], operation) for v in flat]
        symbols[k] = build([v.symbol for v in own])
        groups.append((own, build))
    variables = [v for own, _ in groups for v in own]
    result = f(*symbols)
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise TracingError(
                f"{operation}: with has_aux=True the function returns the pair (value, aux), but "
                f"returned {called(result)}.",
                hint="Return (loss, other).",
            )
        result, aux = result
    root, number = _loss(result, operation)
    targets = [leaf for v in variables for leaf in v.leaves]
    bars, replaced = pulled([root], [Const(1, root.type)], targets)
    put = Substitution(variables, list(replaced.items()))
    for v in variables:
        v.close()
    value_leaf, *made = put.leaves([root, *bars])
    value = Scalar(value_leaf.at()) if number else Array((value_leaf,))
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
    f: Function, args: tuple[Any, ...], chosen: tuple[int, ...], has_aux: bool, operation: str
) -> tuple[Any, Any, Any]:
    """Inside a scalar function: by the expressions alone."""
    symbols = list(args)
    variables: list[Var] = []
    given: dict[Expr, Expr] = {}
    builds: list[tuple[int, Callable[[Sequence[Any]], Any]]] = []
    for k in chosen:
        flat, build = flatten(args[k])
        own = []
        for v in flat:
            e = lift(v, operation)
            if not e.type.is_inexact:
                raise DTypeError(f"{operation}: the argument {k} is {e.type}, and has no gradient.",
                                 hint="Convert it: td.cast(x, td.float64).")  # fmt: skip
            variable = Var("x", e.type)
            given[variable] = as_strong(e)
            variables.append(variable)
            own.append(Scalar(cast(variable, e.type, True) if e.weak else variable))
        symbols[k] = build(own)
        builds.append((len(flat), build))
    result = f(*symbols)
    result, aux = result if has_aux else (result, None)
    value = as_strong(lift(result, operation))
    if not value.type.is_float:
        raise DTypeError(
            f"{operation}: the function must return one real number, got {value.type}.",
            hint="Convert it: td.cast(x, td.float64).",
        )
    wanted = set(variables)
    found = expr_vjp([(value, Const(1, value.type))], Active(lambda e: e in wanted))

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


def _as_asked(gradients: Any, argnums: Any, in_kernel: bool) -> Any:
    if in_kernel and not isinstance(argnums, tuple | list):
        return gradients[0]
    return tuple(gradients) if in_kernel else gradients


@user_facing
def value_and_grad(f: Function, argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns `f`'s value and its gradient: (value, gradient), in one program.

    f: returns one real number, an array of rank 0 or a scalar; with `has_aux`, the pair of it and
        other results, and the value is then this pair.
    argnums: the number of the argument to differentiate by, or a tuple of numbers; the gradient
        has the structure and the types of the argument (a tuple of them for a tuple).

    Errors: `GradientError` at the line of an operation that has no derivative; `DTypeError` for
    integers among the arguments; `ShapeError` if `f` returns an array.

    >>> import numpy as np, treadle as td
    >>> loss = lambda w, x: td.sum((w * x) ** 2)
    >>> td.run(td.value_and_grad(loss)(2.0, np.array([1.0, 2.0])))
    (array(20.), array(20.))
    """

    @_named_after(f)
    def differentiated(*args: Any) -> Any:
        inside = enclosing_kernel() is not None
        value, aux, gradients = _differentiated(f, args, argnums, has_aux, "value_and_grad")
        return (value, aux) if has_aux else value, _as_asked(gradients, argnums, inside)

    return differentiated


@user_facing
def grad(f: Function, argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of `f`, a function of the same arguments; see `value_and_grad`.

    With `has_aux`, it returns (gradient, aux).

    >>> import numpy as np, treadle as td
    >>> td.run(td.grad(lambda x: td.sum(x ** 3))(np.array([1.0, 2.0])))
    array([ 3., 12.])
    """

    @_named_after(f)
    def differentiated(*args: Any) -> Any:
        inside = enclosing_kernel() is not None
        _, aux, gradients = _differentiated(f, args, argnums, has_aux, "grad")
        found = _as_asked(gradients, argnums, inside)
        return (found, aux) if has_aux else found

    return differentiated


def _named_after(f: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def rename(made: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(f)(user_facing(made)) if callable(f) else made

    return rename


@user_facing
def vjp(f: Function, *args: Any) -> tuple[Any, Callable[[Any], Any]]:
    """`(y, back)`: the value of `f` and the function that maps a cotangent of `y` to those of the
    arguments (one, or a tuple for several).

    >>> import numpy as np, treadle as td
    >>> y, back = td.vjp(td.sin, np.array([0.0, 1.0]))
    >>> td.run(back(td.ones(2)))
    array([1.        , 0.54030231])
    """
    if enclosing_kernel() is not None:
        raise GradientError(
            "td.vjp works on arrays, outside of scalar functions.",
            hint="Inside, use td.grad of a scalar function.",
        )
    names = names_of(f, len(args))
    groups = []
    symbols = []
    for k, a in enumerate(args):
        flat, build = flatten(a)
        own = [Variable(v, names[k], "vjp") for v in flat]
        symbols.append(build([v.symbol for v in own]))
        groups.append((own, build))
    variables = [v for own, _ in groups for v in own]
    result = f(*symbols)
    for v in variables:
        v.close()
    results, _ = flatten(result)
    arrays = [as_array(v, "vjp") for v in results]
    roots = [leaf for a in arrays for leaf in a._leaves]

    def back(ybar: Any) -> Any:
        given, _ = flatten(ybar)
        if len(given) != len(arrays):
            raise TracingError(
                f"the cotangent has {len(given)} part(s), the value {len(arrays)}.",
                hint="Give one cotangent for each array of the value, in the same nesting.",
            )
        seeds: list[Leaf | Expr | None] = []
        for v, a in zip(given, arrays, strict=True):
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

    return Substitution(variables).value(result), back


def _like(g: Array, a: Array) -> Array:
    """The cotangent, with checks that it has the extents of its value."""
    checks = same_shape(a._shape, g._shape, "vjp")
    if not checks:
        return g
    node = Generate(a._shape, tuple(g._element(indices(a.ndim))), label=Label("cotangent"),
                    where=user_location(), checks=checks)  # fmt: skip
    return Array(node.leaves, g.structure, a._shape)
