"""`rule` and `fixed_point`: functions whose derivatives are given, not computed from their bodies.

The results of such a function are those of a `Barrier` with a rule, whose operands are the results
and the arguments.  Derivatives ask the rule; programs that are run have the barrier removed
(`without_rules`), so that it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import Array
from ..errors import (
    DTypeError,
    GradientError,
    ShapeError,
    TracingError,
    user_facing_maker,
    user_location,
)
from ..expr import Const, Expr, constant
from ..frontend.refusals import called
from ..frontend.sources import as_array
from ..frontend.tracing import enclosing_kernel
from ..graph import ArrayLoop, Barrier, Generate, Input, Label, Leaf, Node, indices, topological
from ..graphs.rebuild import Rebuilder
from ..node import Check, fresh_uid
from ..operations import control
from ..operations.elements.functions import abs as abs_, cast, maximum
from ..operations.reducing import folds
from ..scalar import Scalar, as_strong, lift
from ..shapes import require, same_shape
from ..types import float64, int64, kind_of_literal
from .arguments import Substitution, constant_leaf, flatten, parts_in_order
from .forward import Forward, transposed
from .reverse import Reverse, moving, pulled, refused

__all__ = ["fixed_point", "rule"]


def leaves_of(value: Any, operation: str) -> tuple[Leaf, ...]:
    """The components of an array or a number."""
    if isinstance(value, Scalar) or kind_of_literal(value) is not None:
        strong = as_strong(lift(value, operation))
        return Generate((), (strong,), label=Label("number"), where=user_location()).leaves
    return tuple(as_array(value, operation)._leaves)


class Form:
    """The nesting of a value whose arrays and numbers were taken apart into leaves."""

    def __init__(self, value: Any, operation: str) -> None:
        flat, self._build = flatten(value)
        self.operation, self._value = operation, value
        self._parts = [leaves_of(v, operation) for v in flat]
        self._like = [
            None if isinstance(v, Scalar) or kind_of_literal(v) is not None
            else as_array(v, operation).structure
            for v in flat
        ]  # fmt: skip
        self.leaves = tuple(leaf for part in self._parts for leaf in part)

    def put(self, leaves: Sequence[Leaf]) -> Any:
        """A value of this form with these components."""
        made, at = [], 0
        for part, structure in zip(self._parts, self._like, strict=True):
            own = leaves[at : at + len(part)]
            at += len(part)
            made.append(Scalar(own[0].at()) if structure is None
                        else Array(tuple(own), structure, own[0].shape))  # fmt: skip
        return self._build(made)

    def taken(self, value: Any, what: str, like: Sequence[Leaf]) -> list[Leaf | None]:
        """The components of a derivative that a rule returned, with the shapes and types of `like`;
        None where it is None."""
        if value is None:
            return [None] * len(self.leaves)
        flat = parts_in_order(value, self._value, f"the {what} of {self.operation}")
        if len(flat) != len(self._parts):
            raise TracingError(
                f"the rule of {self.operation} returned {len(flat)} {what}(s) for "
                f"{len(self._parts)} value(s).",
                hint=f"Return one {what} for each array or number, None for 0.",
            )
        found: list[Leaf | None] = []
        at = 0
        for v, part in zip(flat, self._parts, strict=True):
            own = like[at : at + len(part)]
            at += len(part)
            if v is None:
                found += [None] * len(part)
                continue
            given = leaves_of(v, self.operation)
            if len(given) != len(part) or len(given[0].shape) != len(own[0].shape):
                raise ShapeError(
                    f"the rule of {self.operation} returned a {what} of rank "
                    f"{len(given[0].shape)} for a value of rank {len(own[0].shape)}.",
                    hint=f"A {what} has the shape of its value.",
                )
            found += [_fitted(g, o, what) for g, o in zip(given, own, strict=True)]
        return found


def _fitted(g: Leaf, like: Leaf, what: str) -> Leaf:
    """A derivative in the shape and the type of what it belongs to."""
    if not like.type.is_inexact:
        return constant_leaf(0, like, what)
    if g.type.is_complex and not like.type.is_complex:
        raise DTypeError(f"a {what} is {g.type}, its value {like.type}.",
                         hint="Return its real part, td.real(g).")  # fmt: skip
    checks = same_shape(like.shape, g.shape, what)
    value = Array((g,)).astype(like.type) if g.type != like.type else Array((g,))
    (element,) = value._element(indices(len(like.shape)))
    node = Generate(like.shape, (element,), label=Label(what), where=user_location(), checks=checks)
    return node.leaf()


# --- rules in the graph ------------------------------------------------------------------------


class Ruled:
    """The rule of a barrier.  `back(y, arguments, bars)` gives the cotangents of the arguments and
    `ahead(y, arguments, tangents)` the tangents of the results, by leaves; one may be None."""

    def __init__(
        self,
        name: str,
        back: Callable[[Sequence[Leaf], Sequence[Leaf], Sequence[Leaf]], list[Leaf | None]] | None,
        ahead: Callable[[Sequence[Leaf], Sequence[Leaf], Sequence[Leaf]], list[Leaf | None]] | None,
        captured: int = 0,
    ) -> None:
        self.name, self._back, self._ahead = name, back, ahead
        #: The last operands: what the function uses beside its arguments.
        self.captured = captured

    def split(self, node: Barrier) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...], tuple[Leaf, ...]]:
        """The results, the arguments, and what else is used."""
        n, end = node.ruled, len(node.arguments) - self.captured
        return node.leaves[:n], node.arguments[n:end], node.arguments[end:]

    def _refuse_captured(self) -> GradientError:
        return refused(
            f"{self.name} has a rule, and uses an array that it was not given as an argument and "
            "that the derivative is by.",
            "Pass the array as an argument, or td.stop(x) of it.",
        )

    def reverse(self, r: Reverse, node: Barrier, bars: Sequence[Leaf | None]) -> None:
        y, arguments, captured = self.split(node)
        if any(leaf in r.moving for leaf in captured):
            raise self._refuse_captured()
        given = [b or constant_leaf(0, leaf, "cotangent") for b, leaf in zip(bars, y, strict=False)]
        if self._back is not None:
            found = self._back(y, arguments, given)
        else:
            found = self._by_transposition(y, arguments, given)
        for leaf, g in zip(arguments, found, strict=True):
            if g is not None:
                r.give(leaf, g.at(*indices(len(g.shape))))

    def _by_transposition(
        self, y: Sequence[Leaf], arguments: Sequence[Leaf], bars: Sequence[Leaf]
    ) -> list[Leaf | None]:
        assert self._ahead is not None
        directions = [_symbol(a, "tangent") for a in arguments]
        found = self._ahead(y, arguments, [d.leaf() for d in directions])
        directions = [d for d in directions if d.type.is_inexact]
        pairs = [(t, g) for t, g in zip(found, bars, strict=True) if t is not None]
        made, _ = pulled([t for t, _ in pairs], [g for _, g in pairs],
                         [d.leaf() for d in directions])  # fmt: skip
        require_linear(made, directions, self.name)
        moved = iter(made)
        return [next(moved) if a.type.is_inexact else None for a in arguments]

    def forward(
        self, node: Barrier, tangents: Sequence[Leaf | None], f: Forward
    ) -> dict[Leaf, Leaf]:
        y, arguments, captured = self.split(node)
        if any(leaf in f.tangents for leaf in captured):
            raise self._refuse_captured()
        given = tangents[len(y) : len(y) + len(arguments)]
        moved = {leaf: t for leaf, t in zip(arguments, given, strict=True) if t is not None}
        if not moved:
            return {}
        if self._ahead is None:
            return transposed(node, moved, f)
        found = self._ahead(y, arguments, [
            t or constant_leaf(0, a, "tangent") for t, a in zip(given, arguments, strict=True)
        ])  # fmt: skip
        return {leaf: t for leaf, t in zip(y, found, strict=True) if t is not None}


def _symbol(leaf: Leaf, name: str) -> Input:
    made = Input(name, leaf.type, (False,) * len(leaf.shape), kind="argument")
    return made.of_shape(leaf.shape)


def require_linear(found: Sequence[Leaf], symbols: Sequence[Node], name: str) -> None:
    used = set(topological(found))
    if any(s in used for s in symbols):
        raise refused(
            f"the rule of {name} is not linear in what it is given.",
            "A rule multiplies its cotangents or tangents, and adds them.",
        )


def without_rules(roots: Sequence[Leaf]) -> list[Leaf]:
    """The graph without barriers of rules."""
    nodes = list(topological(roots))
    if not any(isinstance(n, Barrier) and n.rule is not None for n in nodes):
        return list(roots)
    builder = Rebuilder()
    for node in nodes:
        if isinstance(node, Input):
            builder.take(node)
            continue
        if isinstance(node, Barrier) and node.rule is not None:
            for leaf, argument in zip(node.leaves, node.arguments, strict=True):
                builder.leaves[leaf] = builder.leaf(argument)
            continue
        made = builder.node(node)
        if made is not node:
            builder.nodes[node] = made
    return [builder.leaf(r) for r in roots]


def captured_by(roots: Sequence[Leaf], symbols: Sequence[Input]) -> list[Leaf]:
    """The arguments and states of functions being traced that a graph uses beside `symbols`."""
    found: dict[Leaf, None] = {}
    nodes = list(topological(roots))
    own = {*symbols, *(b for n in nodes if isinstance(n, ArrayLoop) for b in n.bound)}
    for node in nodes:
        if isinstance(node, Input) and node not in own and node.kind not in ("use", "number"):
            found[node.leaf()] = None
    return list(found)


# --- td.rule -----------------------------------------------------------------------------------


class Rule:
    """A function with derivatives of its own: see `rule`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._vjp: Callable[..., Any] | None = None
        self._jvp: Callable[..., Any] | None = None
        self.__name__ = getattr(function, "__name__", "the function")
        self.__doc__ = getattr(function, "__doc__", None)

    def vjp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register `function(ybar, y, *args)`, which returns a cotangent for each argument, or the
        cotangent of the only one; None is 0."""
        self._vjp = function
        return function

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register `function(args, tangents)`, which returns the tangent of the result."""
        self._jvp = function
        return function

    @user_facing_maker
    def __call__(self, *args: Any) -> Any:
        name = self.__name__
        if enclosing_kernel() is not None:
            raise TracingError(
                f"{name} has a rule, and is called inside a scalar function; rules are of "
                "functions of arrays.",
                hint=f"Apply it to the whole array: {name}(a), with td.map inside.",
            )
        if self._vjp is None and self._jvp is None:
            raise TracingError(
                f"{name} was given to td.rule, and has no derivative.",
                hint=f"Write @{name}.vjp before a function (ybar, y, *args), or @{name}.jvp before "
                "one (args, tangents).",
            )
        form = Form(args, name)
        symbols = [_symbol(leaf, f"argument of {name}") for leaf in form.leaves]
        result = self._function(*form.put([s.leaf() for s in symbols]))
        of_result = Form(result, name)
        roots = of_result.leaves
        captured = [  # not what extents alone are computed from
            leaf for leaf in captured_by(roots, symbols)
            if not moving(roots, [leaf]).isdisjoint(roots)
        ]  # fmt: skip
        swap = list(zip([s.leaf() for s in symbols], form.leaves, strict=True))
        results = Substitution((), swap).leaves(of_result.leaves)
        ended = fresh_uid()
        for s in symbols:
            s.until = ended

        def back(
            y: Sequence[Leaf], arguments: Sequence[Leaf], bars: Sequence[Leaf]
        ) -> list[Leaf | None]:
            assert self._vjp is not None
            given = form.put(arguments)
            found = self._vjp(of_result.put(bars), of_result.put(y), *given)
            return form.taken(found, "cotangent", arguments)

        def ahead(
            y: Sequence[Leaf], arguments: Sequence[Leaf], tangents: Sequence[Leaf]
        ) -> list[Leaf | None]:
            assert self._jvp is not None
            found = self._jvp(form.put(arguments), form.put(tangents))
            return of_result.taken(found, "tangent", results)

        ruled = Ruled(name, back if self._vjp else None,
                      ahead if self._jvp else None, len(captured))  # fmt: skip
        node = Barrier((*results, *form.leaves, *captured), ruled, len(results), label=Label(name),
                       where=user_location())  # fmt: skip
        return of_result.put(node.leaves[: len(results)])


@user_facing_maker
def rule(f: Callable[..., Any]) -> Rule:
    """`f`, with a derivative of its own, which is used instead of that of its body.

    With `f = td.rule(f)`, `@f.vjp` registers a function (ybar, y, *args) that returns a cotangent
    for each argument, and `@f.jvp` one (args, tangents) that returns the tangent of y.  One of the
    two is enough; they must be linear in ybar or the tangents.

    Parameters
        f: takes and returns arrays and numbers, or tuples of them; of the arrays that it uses
            beside its arguments, no derivative may be taken.

    Result: a function with the parameters of `f`, with `vjp` and `jvp`.

    Errors: `TracingError` without either; `GradientError` for a function that is not linear, or
        uses what the derivative is by.

    >>> import numpy as np, treadle as td
    >>> @td.rule
    ... def clipped(x):
    ...     return td.minimum(x, 1.0)
    >>> @clipped.vjp
    ... def _(ybar, y, x):
    ...     return ybar  # as if nothing had been clipped
    >>> td.run(td.grad(lambda x: td.sum(clipped(x)))(np.array([0.5, 2.0])))
    array([1., 1.])
    """
    if not callable(f):
        raise TracingError(f"td.rule needs a function, got {called(f)}.",
                           hint="Write @td.rule before a function.")  # fmt: skip
    return Rule(f)


# --- fixed points ------------------------------------------------------------------------------


@user_facing_maker
def fixed_point(f: Callable[[Any], Any], x0: Any, tol: float) -> Any:
    """A fixed point of `f`: it is applied to `x0` again and again, until |f(x) − x| ≤ tol in every
    element.

    The derivative is that of the implicit function theorem, whose linear equations are solved by
    iteration as well, and needs no memory for the iterations.

    Parameters
        f: from an array, or a tuple of arrays, to one of the same shapes and types; it may use
            other arrays, by which the result can be differentiated.
        x0: where to start, in floats; the result does not depend on it differentiably.
        tol: stop when no element of any array changes by more; not negative, and not below the
            rounding errors of `f`, which may change elements for ever.

    Result: an array, or a tuple of arrays, as `x0`.

    Errors: `TracingError` inside of scalar functions, and for other types than floats.

    >>> import numpy as np, treadle as td
    >>> root = lambda a: td.fixed_point(lambda x: (x + a / x) / 2, a, 1e-12)
    >>> td.run(td.value_and_grad(lambda a: td.sum(root(a)))(np.array([4.0])))
    (array(2.), array([0.25]))
    """
    if enclosing_kernel() is not None:
        raise TracingError(
            "td.fixed_point works on arrays, outside of scalar functions.",
            hint="Inside, use td.while_loop.",
        )
    tol = _tolerance(tol)
    form = Form(x0, "fixed_point")
    if not form.leaves or not all(leaf.type.is_float for leaf in form.leaves):
        raise TracingError(
            "fixed_point: x0 is an array of floats, or a tuple of them.",
            hint="Convert it: x.astype(td.float64).",
        )
    symbols = [_symbol(leaf, "x") for leaf in form.leaves]
    result = form.taken(f(form.put([s.leaf() for s in symbols])), "result", form.leaves)
    body = [leaf for leaf in result if leaf is not None]
    if len(body) != len(symbols):
        raise TracingError("fixed_point: the function returned None.", hint="Return the next x.")
    captured = captured_by(body, symbols)
    ended = fresh_uid()
    for s in symbols:
        s.until = ended

    def at(
        x: Sequence[Leaf], given: Sequence[Leaf], roots: Sequence[Leaf],
        replaced: dict[Leaf, Leaf],
    ) -> list[Leaf]:  # fmt: skip
        """The roots for these values of x and of what is captured."""
        swap = [*zip([s.leaf() for s in symbols], x, strict=True),
                *((c, g) for c, g in zip(captured, given, strict=True) if c != g)]  # fmt: skip
        put = Substitution((), [*swap, *replaced.items()])
        put.renew([*roots, *replaced.values()])
        return put.leaves(roots)

    found = _iterated(lambda x: at(x, captured, body, {}), form.leaves, tol)

    def back(
        y: Sequence[Leaf], arguments: Sequence[Leaf], bars: Sequence[Leaf]
    ) -> list[Leaf | None]:
        """u = ybar + Jᵀ u, then its cotangents by what is captured."""

        def following(u: Sequence[Leaf]) -> list[Leaf]:
            made, replaced = pulled(body, u, [s.leaf() for s in symbols])
            moved = at(y, arguments, made, replaced)
            return [_sum(b, m) for b, m in zip(bars, moved, strict=True)]

        u = _iterated(following, bars, tol)
        targets = [c for c in captured if c.type.is_inexact]
        made, replaced = pulled(body, u, targets)
        moved = dict(zip(targets, at(y, arguments, made, replaced), strict=True))
        return [moved.get(c) for c in captured]

    def ahead(
        y: Sequence[Leaf], arguments: Sequence[Leaf], tangents: Sequence[Leaf]
    ) -> list[Leaf | None]:
        """dx = J dx + what comes from the tangents of what is captured."""

        def moved(given: dict[Leaf, Leaf]) -> list[Leaf]:
            forward = Forward(given)
            forward.run(body)
            made = [forward.of(leaf) for leaf in body]
            return at(y, arguments, made, forward.replaced)

        floats = {c: t for c, t in zip(captured, tangents, strict=True) if c.type.is_inexact}
        start = moved(floats)

        def following(dx: Sequence[Leaf]) -> list[Leaf]:
            made = moved(dict(zip([s.leaf() for s in symbols], dx, strict=True)))
            return [_sum(b, m) for b, m in zip(start, made, strict=True)]

        return list(_iterated(following, start, tol))

    node = Barrier((*found, *captured), Ruled("fixed_point", back, ahead), len(found),
                   label=Label("fixed_point"), where=user_location())  # fmt: skip
    return form.put(node.leaves[: len(found)])


def _tolerance(tol: float) -> float:
    """A tolerance at which iterations end; literals are checked."""
    if isinstance(tol, Array | Scalar):
        return tol
    number = np.asarray(tol)
    if number.ndim or number.dtype.kind not in "biuf":
        raise TracingError(
            f"fixed_point: tol is a real number, got {tol!r}.",
            hint="Give the largest change of an element at which to stop, as 1e-9.",
        )
    if not number >= 0:
        what = "no step is small enough" if number < 0 else "no change compares with it"
        raise TracingError(
            f"fixed_point: tol must not be negative, got {tol}: {what}.",
            hint="Give the largest change of an element at which to stop, as 1e-9.",
        )
    return float(number)


def _tolerable(tol: float) -> tuple[Check, ...]:
    """The check that a tolerance of the run is not negative, and a number."""
    if not isinstance(tol, Array | Scalar):
        return ()
    fine = cast(Scalar(lift(tol, "fixed_point")) >= 0, int64)
    return require(
        fine._expr, constant(1), "fixed_point: tol must not be negative, nor NaN.",
        error="TracingError",
        hint="Give the largest change of an element at which to stop, as 1e-9.",
    )  # fmt: skip


def _sum(a: Leaf, b: Leaf) -> Leaf:
    ix = indices(len(a.shape))
    e: Expr = (Scalar(a.at(*ix)) + Scalar(b.at(*ix)))._expr
    return Generate(a.shape, (e,), label=Label("fixed_point"), where=user_location()).leaf()


def _iterated(
    step: Callable[[Sequence[Leaf]], Sequence[Leaf]], start: Sequence[Leaf], tol: float
) -> tuple[Leaf, ...]:
    """The step applied until nothing changes by more than `tol`; what is not finite ends it."""

    def body(state: Any) -> Any:
        *x, _ = state
        new = [Array((leaf,)) for leaf in step([a._leaves[0] for a in x])]
        change: Any = None
        for a, b in zip(new, x, strict=True):
            part = folds.fold(maximum, 0.0, abs_(a - b).astype(float64), axis=None)
            change = part if change is None else maximum(change, part)
        return (*new, change)

    first = Generate((), (Const(np.inf, float64),), label=Label("fixed_point"),
                     where=user_location(), checks=_tolerable(tol)).leaf()  # fmt: skip
    made = control.while_loop(lambda s: s[-1] > tol, body,
                              (*(Array((leaf,)) for leaf in start), Array((first,))))  # fmt: skip
    return tuple(a._leaves[0] for a in made[:-1])
