"""`fixed_point`: solutions of x = f(x), differentiated by the implicit function theorem.

The equation is a function of `x` and of everything else that `f` uses, all of them symbols
(`Equation`), so that its derivatives remain valid wherever the program that solves it is copied to,
including loops with other states (values that extents depend on are operands too).  The derivative
solves a linear equation of the same kind, whose solution therefore has derivatives by the same
rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..annotations import Value
from ..array import Array
from ..errors import TracingError, user_facing_maker, user_location
from ..expr import Const, Expr, Read, constant, walk
from ..frontend.tracing import enclosing_kernel
from ..graph import Barrier, Generate, Label, Leaf, ended, indices
from ..graphs.rebuild import Rebuilder
from ..node import Check
from ..operations import control
from ..operations.common import whole_number
from ..operations.elements.functions import abs as abs_, cast, fmax, fmin, maximum, where
from ..operations.queries import finfo
from ..operations.reducing import folds
from ..scalar import Scalar, lift
from ..shapes import require
from ..types import float64, int64
from .arguments import Substitution
from .custom import Form, Ruled, captured_by, leaves_of, symbol
from .forward import Forward
from .reverse import pulled

__all__ = ["fixed_point"]


@user_facing_maker
def fixed_point(f: Callable[[Any], Any], x0: Any, tol: float, maxiter: int = 100_000) -> Any:
    """A fixed point of `f`: it is applied to `x0` again and again, until |f(x) − x| ≤ tol in every
    element.  After `maxiter` times without that, all elements are NaN.

    The derivative is that of the implicit function theorem, whose linear equations are solved by
    iteration as well: to the relative accuracy tol / max(1, largest |x|), and to half of the digits
    at least.  It needs no memory for the iterations.

    Parameters
        f: from an array, or a tuple of arrays, to one of the same shapes and types; it may use
            other arrays, by which the result can be differentiated.
        x0: where to start, in floats; the result does not depend on it differentiably.
        tol: stop when no element of any array changes by more; not negative, and not below the
            rounding errors of `f`, which may change elements for ever.
        maxiter: how often `f` is applied at most, and as often in the equations of a derivative;
            default 100000.  An `f` that brings no two points closer together takes all of them.

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
    most = whole_number(maxiter, "fixed_point", "maxiter", "Write maxiter=1000.", least=1)
    form = Form(x0, "fixed_point")
    if not form.leaves or not all(leaf.type.is_float for leaf in form.leaves):
        raise TracingError(
            "fixed_point: x0 is an array of floats, or a tuple of them.",
            hint="Convert it: x.astype(td.float64).",
        )
    symbols = [symbol(leaf, "x") for leaf in form.leaves]
    result = form.taken(f(form.put([s.leaf() for s in symbols])), "result", form.leaves)
    body = [leaf for leaf in result if leaf is not None]
    if len(body) != len(symbols):
        raise TracingError("fixed_point: the function returned None.", hint="Return the next x.")
    captured = _with_extents(form.leaves, captured_by(body, symbols))
    ended(symbols)
    here = [s.leaf() for s in symbols]

    def step(x: Sequence[Leaf], given: Sequence[Leaf]) -> list[Leaf]:
        return _replaced(body, [*here, *captured], [*x, *given])

    end = Generate((), (lift(tol, "fixed_point"),), label=Label("fixed_point"),
                   where=user_location(), checks=_tolerable(tol)).leaf()  # fmt: skip
    equation = Equation(step, form.leaves, captured, most)
    return form.put(equation.solved(form.leaves, captured, end, relative=False))


def _replaced(
    roots: Sequence[Leaf], old: Sequence[Leaf], new: Sequence[Leaf],
    more: Sequence[tuple[Leaf, Leaf]] = (),
) -> list[Leaf]:  # fmt: skip
    put = Substitution((), [*((a, b) for a, b in zip(old, new, strict=True) if a != b), *more])
    put.renew([*roots, *(b for _, b in more)])
    return put.leaves(roots)


class Equation:
    """The equation x = step(x, given), whose solution depends on the given values."""

    def __init__(
        self, step: Callable[[Sequence[Leaf], Sequence[Leaf]], Sequence[Leaf]],
        x: Sequence[Leaf], given: Sequence[Leaf], most: int,
    ) -> None:  # fmt: skip
        """`x` and `given`: leaves with the shapes and types of the step's operands; `most`: the
        maximum number of steps."""
        self._most = most
        inner = [*(symbol(leaf, "x") for leaf in x), *(symbol(leaf, "given") for leaf in given)]
        extents = Rebuilder()  # computed from the given values, as outside
        extents.leaves.update((g, s.leaf()) for g, s in zip(given, inner[len(x) :], strict=True))
        for leaf, s in zip((*x, *given), inner, strict=True):
            s.of_shape(extents.exprs(leaf.shape))
        self._x = [s.leaf() for s in inner[: len(x)]]
        self._given = [s.leaf() for s in inner[len(x) :]]
        self._body = step(self._x, self._given)

    def _at(
        self, x: Sequence[Leaf], given: Sequence[Leaf], roots: Sequence[Leaf],
        more: Sequence[tuple[Leaf, Leaf]] = (),
    ) -> list[Leaf]:  # fmt: skip
        """Results derived from the body, for these values."""
        return _replaced(roots, [*self._x, *self._given], [*x, *given], more)

    def solved(
        self, start: Sequence[Leaf], given: Sequence[Leaf], tol: Leaf, relative: bool
    ) -> tuple[Leaf, ...]:
        """The solution, by iteration from `start` until nothing changes by more than `tol` (with
        `relative`, times the largest element)."""
        found = _iterated(
            lambda x: self._at(x, given, self._body), start, tol, relative, self._most
        )
        many = len(given)

        def accuracy(y: Sequence[Leaf], operands: Sequence[Leaf]) -> Leaf:
            return operands[many] if relative else _relative(operands[many], y)

        def back(
            y: Sequence[Leaf], operands: Sequence[Leaf], bars: Sequence[Leaf]
        ) -> list[Leaf | None]:
            """u = ybar + Jᵀ u, then its cotangents with respect to the given values."""

            us = [symbol(leaf, "u").leaf() for leaf in self._x]

            def moved(u: Sequence[Leaf], targets: Sequence[Leaf], x: Sequence[Leaf],
                      given: Sequence[Leaf]) -> list[Leaf]:  # fmt: skip
                made, replaced = pulled(self._body, us, targets)
                return self._at(x, given, made, [*zip(us, u, strict=True), *replaced.items()])

            def step(u: Sequence[Leaf], at: Sequence[Leaf]) -> list[Leaf]:
                x, given, bars = _split(at, len(y), many)
                return [_sum(b, m) for b, m in zip(bars, moved(u, self._x, x, given), strict=True)]

            at = _with_extents(y, [*y, *operands[:many], *bars])
            linear = Equation(step, y, at, self._most)
            u = linear.solved(bars, at, accuracy(y, operands), relative=True)
            targets = [g for g in self._given if g.type.is_inexact]
            by = dict(zip(targets, moved(u, targets, y, operands[:many]), strict=True))
            return [*(by.get(g) for g in self._given), None]

        def ahead(
            y: Sequence[Leaf], operands: Sequence[Leaf], tangents: Sequence[Leaf]
        ) -> list[Leaf | None]:
            """dx = J dx + the contribution of the given values' tangents."""

            def moved(
                along: Sequence[Leaf], by: Sequence[Leaf], x: Sequence[Leaf], given: Sequence[Leaf]
            ) -> list[Leaf]:
                pairs = [(s, symbol(s, "tangent").leaf(), t)
                         for s, t in zip(along, by, strict=True) if s.type.is_inexact]  # fmt: skip
                forward = Forward({s: d for s, d, _ in pairs})
                forward.run(self._body)
                made = [forward.of(leaf) for leaf in self._body]
                more = [*((d, t) for _, d, t in pairs), *forward.replaced.items()]
                return self._at(x, given, made, more)

            def step(dx: Sequence[Leaf], at: Sequence[Leaf]) -> list[Leaf]:
                x, given, start = _split(at, len(y), many)
                along = moved(self._x, dx, x, given)
                return [_sum(b, m) for b, m in zip(start, along, strict=True)]

            given = operands[:many]
            start = moved(self._given, tangents[:many], y, given)
            at = _with_extents(y, [*y, *given, *start])
            return list(
                Equation(step, y, at, self._most).solved(
                    start, at, accuracy(y, operands), relative=True
                )
            )

        node = Barrier((*found, *given, tol), Ruled("fixed_point", back, ahead), len(found),
                       label=Label("fixed_point"), where=user_location())  # fmt: skip
        return tuple(node.leaves[: len(found)])


def _with_extents(x: Sequence[Leaf], given: Sequence[Leaf]) -> list[Leaf]:
    """The given values, and all others from which the extents of these and of `x` are computed."""
    extents = [e for leaf in (*x, *given) for e in leaf.shape]
    read = (Leaf(e.node, e.component) for e in walk(extents) if isinstance(e, Read))
    return [*given, *(leaf for leaf in dict.fromkeys(read) if leaf not in given)]


def _split(
    leaves: Sequence[Leaf], many: int, given: int
) -> tuple[Sequence[Leaf], Sequence[Leaf], Sequence[Leaf]]:
    """Split leaves: `many` unknowns, the given values, and values of the unknowns."""
    end = many + given
    return leaves[:many], leaves[many:end], leaves[end : end + many]


def _tolerance(tol: float) -> float:
    """The tolerance at which iterations end; literals are validated."""
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
    """The check that a run-time tolerance is a non-negative number."""
    if not isinstance(tol, Array | Scalar):
        return ()
    fine = cast(Scalar(lift(tol, "fixed_point")) >= 0, int64)
    return require(
        fine._expr, constant(1), "fixed_point: tol must not be negative, nor NaN.",
        error="TracingError",
        hint="Give the largest change of an element at which to stop, as 1e-9.",
    )  # fmt: skip


def _relative(tol: Leaf, x: Sequence[Leaf]) -> Leaf:
    """The relative tolerance for the solution of a linear equation, given the tolerance `tol` of
    the elements of `x`: between the rounding error and half of the digits."""
    eps = max(finfo(leaf.type).eps for leaf in x)
    most = math.sqrt(eps)
    part = Array((tol,)) / maximum(_largest(x), 1.0)
    (found,) = leaves_of(fmin(fmax(part, min(16 * eps, most)), most), "fixed_point")
    return found


def _largest(x: Sequence[Leaf]) -> Any:
    found: Any = 0.0
    for leaf in x:
        part = folds.fold(maximum, 0.0, abs_(Array((leaf,))).astype(float64), axis=None)
        found = maximum(found, part)
    return found


def _sum(a: Leaf, b: Leaf) -> Leaf:
    ix = indices(len(a.shape))
    e: Expr = (Scalar(a.at(*ix)) + Scalar(b.at(*ix)))._expr
    return Generate(a.shape, (e,), label=Label("fixed_point"), where=user_location()).leaf()


def _iterated(
    step: Callable[[Sequence[Leaf]], Sequence[Leaf]], start: Sequence[Leaf], tol: Leaf,
    relative: bool, most: int,
) -> tuple[Leaf, ...]:  # fmt: skip
    """The step repeated until nothing changes by more than `tol` (with `relative`, times the
    largest element) or a value is not finite.  NaN if `most` steps are not enough."""

    def goes_on(state: Sequence[Array]) -> Value:
        return (state[-2] > Array((tol,))) & (state[-1] < most)

    def body(state: Any) -> Any:
        *x, _, count = state
        new = step([a._leaves[0] for a in x])
        change = _largest([(Array((a,)) - b)._leaves[0] for a, b in zip(new, x, strict=True)])
        change = change / _largest(new) if relative else change
        return (*(Array((a,)) for a in new), change, count + 1)

    label, where_ = Label("fixed_point"), user_location()
    first = [Generate((), (Const(v, t),), label=label, where=where_).leaf()
             for v, t in ((np.inf, float64), (0, int64))]  # fmt: skip
    *x, change, _ = control.while_loop(goes_on, body, tuple(Array((a,)) for a in (*start, *first)))
    ended = ~(change > Array((tol,)))
    return tuple(where(ended, a, np.nan).astype(a.dtype)._leaves[0] for a in x)
