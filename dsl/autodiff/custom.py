"""`rule`: functions with user-defined derivatives.

The results of such a function are those of a `Barrier` with a rule, whose operands are the results
and the arguments.  Differentiation uses the rule; programs that run have the barrier removed
(`without_rules`), so that it costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .. import errors, graph
from ..array import Array
from ..errors import DTypeError, GradientError, ShapeError, TracingError
from ..frontend.evaluation import number
from ..frontend.refusals import called
from ..frontend.sources import as_array
from ..frontend.tracing import enclosing_kernel
from ..graph import Leaf, Node
from ..graphs.rebuild import Rebuilder
from ..scalar import Scalar, as_strong, lift
from ..shapes import require
from ..types import kind_of_literal
from .arguments import Substitution, constant_leaf, flatten, names_of, parts_in_order
from .forward import Forward, transposed
from .reverse import Reverse, moving, pulled, refused

__all__ = ["rule"]


def leaves_of(value: Any, operation: str) -> tuple[Leaf, ...]:
    if isinstance(value, Scalar) or kind_of_literal(value) is not None:
        strong = as_strong(lift(value, operation))
        return graph.Generate(
            (), (strong,), label=graph.Label("number"), where=errors.user_location()
        ).leaves
    return tuple(as_array(value, operation)._leaves)


class Form:
    """The nesting of a value that was flattened into leaves."""

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
        made, at = [], 0
        for part, structure in zip(self._parts, self._like, strict=True):
            own = leaves[at : at + len(part)]
            at += len(part)
            made.append(number(own[0].at()) if structure is None
                        else Array(tuple(own), structure, own[0].shape))  # fmt: skip
        return self._build(made)

    def taken(self, value: Any, what: str, like: Sequence[Leaf]) -> list[Leaf | None]:
        """The components of a derivative that a rule returned, with the shapes and types of `like`;
        None for components without one."""
        if value is None:
            return [None] * len(self.leaves)
        flat = parts_in_order(value, self._value, f"the {what} of {self.operation}")
        if len(flat) != len(self._parts):
            both = what == "tangent" and len(flat) == 2 * len(self._parts)
            raise TracingError(
                f"the rule of {self.operation} returned {len(flat)} {what}(s) for "
                f"{len(self._parts)} value(s).",
                hint="Return the tangent alone, without the value before it." if both
                else f"Return one {what} for each array or number, None for 0.",
            )  # fmt: skip
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
    """A derivative converted to the shape and type of its value."""
    if not like.type.is_inexact:
        return constant_leaf(0, like, what)
    if g.type.is_complex and not like.type.is_complex:
        raise DTypeError(f"a {what} is {g.type}, its value {like.type}.",
                         hint="Return its real part, td.real(g).")  # fmt: skip
    checks: tuple[graph.Check, ...] = ()
    for axis, (x, y) in enumerate(zip(like.shape, g.shape, strict=True)):
        checks += require(
            x, y, f"a {what} has extent {{right}} in axis {axis}, its value {{left}}.",
            hint=f"A {what} has the shape of its value.",
        )  # fmt: skip
    value = Array((g,)).astype(like.type) if g.type != like.type else Array((g,))
    (element,) = value._element(graph.indices(len(like.shape)))
    node = graph.Generate(
        like.shape, (element,), label=graph.Label(what), where=errors.user_location(), checks=checks
    )
    return node.leaf()


# --- rules in the graph ------------------------------------------------------------------------


class Ruled:
    """The rule of a barrier, in terms of leaves: `back(y, arguments, bars)` returns the
    cotangents of the arguments, `ahead(y, arguments, tangents)` the tangents of the results; one
    may be None."""

    def __init__(
        self,
        name: str,
        back: Callable[[Sequence[Leaf], Sequence[Leaf], Sequence[Leaf]], list[Leaf | None]] | None,
        ahead: Callable[[Sequence[Leaf], Sequence[Leaf], Sequence[Leaf]], list[Leaf | None]] | None,
        captured: int = 0,
    ) -> None:
        self.name, self._back, self._ahead = name, back, ahead
        #: The number of trailing operands: values that the function uses besides its arguments.
        self.captured = captured

    def split(
        self, node: graph.Barrier
    ) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...], tuple[Leaf, ...]]:
        """The results, the arguments, and the other values that the function uses."""
        n, end = node.ruled, len(node.arguments) - self.captured
        return node.leaves[:n], node.arguments[n:end], node.arguments[end:]

    def _refuse_captured(self) -> GradientError:
        return refused(
            f"{self.name} has a rule, and uses an array that it was not given as an argument and "
            "that the derivative is by.",
            "Pass the array as an argument, or td.stop(x) of it.",
        )

    def reverse(self, r: Reverse, node: graph.Barrier, bars: Sequence[Leaf | None]) -> None:
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
                r.give(leaf, g.at(*graph.indices(len(g.shape))))

    def _by_transposition(
        self, y: Sequence[Leaf], arguments: Sequence[Leaf], bars: Sequence[Leaf]
    ) -> list[Leaf | None]:
        assert self._ahead is not None
        directions = [symbol(a, "tangent") for a in arguments]
        found = self._ahead(y, arguments, [d.leaf() for d in directions])
        directions = [d for d in directions if d.type.is_inexact]
        pairs = [(t, g) for t, g in zip(found, bars, strict=True) if t is not None]
        made, _ = pulled([t for t, _ in pairs], [g for _, g in pairs],
                         [d.leaf() for d in directions])  # fmt: skip
        require_linear(made, directions, self.name)
        moved = iter(made)
        return [next(moved) if a.type.is_inexact else None for a in arguments]

    def forward(
        self, node: graph.Barrier, tangents: Sequence[Leaf | None], f: Forward
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


def symbol(leaf: Leaf, name: str) -> graph.Input:
    """An array that stands for others of this shape and type."""
    made = graph.Input(name, leaf.type, (False,) * len(leaf.shape), kind="argument")
    return made.of_shape(leaf.shape)


def require_linear(found: Sequence[Leaf], symbols: Sequence[Node], name: str) -> None:
    used = set(graph.topological(found))
    if any(s in used for s in symbols):
        raise refused(
            f"the rule of {name} is not linear in what it is given.",
            "A rule multiplies its cotangents or tangents, and adds them.",
        )


def without_rules(roots: Sequence[Leaf]) -> list[Leaf]:
    """The graph without barriers of rules."""
    nodes = list(graph.topological(roots))
    if not any(isinstance(n, graph.Barrier) and n.rule is not None for n in nodes):
        return list(roots)
    builder = Rebuilder()
    for node in nodes:
        if isinstance(node, graph.Input):
            builder.take(node)
            continue
        if isinstance(node, graph.Barrier) and node.rule is not None:
            for leaf, argument in zip(node.leaves, node.arguments, strict=True):
                builder.leaves[leaf] = builder.leaf(argument)
            continue
        made = builder.node(node)
        if made is not node:
            builder.nodes[node] = made
    return [builder.leaf(r) for r in roots]


def captured_by(roots: Sequence[Leaf], symbols: Sequence[graph.Input]) -> list[Leaf]:
    """The arguments and states of functions being traced that a graph uses besides `symbols`."""
    found: dict[Leaf, None] = {}
    nodes = list(graph.topological(roots))
    own = {*symbols, *(b for n in nodes if isinstance(n, graph.ArrayLoop) for b in n.bound)}
    for node in nodes:
        if isinstance(node, graph.Input) and node not in own and node.kind not in ("use", "number"):
            found[node.leaf()] = None
    return list(found)


# --- td.rule -----------------------------------------------------------------------------------


class Rule:
    """A function with user-defined derivatives: see `rule`."""

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

    if not TYPE_CHECKING:  # type checkers should report misspelled attributes

        def __getattr__(self, name: str) -> NoReturn:
            said = f"'Rule' object has no attribute {name!r}"
            if name == "defvjp":
                said = (f"a rule has no {name!r}: write @f.vjp before one function (ybar, y, "
                        "*args), which returns the cotangents of the arguments.")  # fmt: skip
            elif name in ("defjvp", "defjvps"):
                said = (f"a rule has no {name!r}: write @f.jvp before one function (args, "
                        "tangents), which returns the tangent of the result.")  # fmt: skip
            raise errors.no_attribute(said, name)

    @errors.user_facing_maker
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
        if self._vjp is not None:
            _require_parameters(
                self._vjp, f"{name}.vjp", ("ybar", "y"), names_of(self._function, len(args))
            )
        if self._jvp is not None:
            _require_parameters(self._jvp, f"{name}.jvp", ("args", "tangents"))
        form = Form(args, name)
        symbols = [symbol(leaf, f"argument of {name}") for leaf in form.leaves]
        result = self._function(*form.put([s.leaf() for s in symbols]))
        of_result = Form(result, name)
        roots = of_result.leaves
        captured = [  # not arrays that only extents depend on
            leaf for leaf in captured_by(roots, symbols)
            if not moving(roots, [leaf]).isdisjoint(roots)
        ]  # fmt: skip
        swap = list(zip([s.leaf() for s in symbols], form.leaves, strict=True))
        results = Substitution((), swap).leaves(of_result.leaves)
        graph.ended(symbols)

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
        node = graph.Barrier((*results, *form.leaves, *captured), ruled, len(results),
                             label=graph.Label(name), where=errors.user_location())  # fmt: skip
        return of_result.put(node.leaves[: len(results)])


def _require_parameters(
    function: Callable[..., object],
    registered: str,
    first: Sequence[str],
    others: Sequence[str] = (),
) -> None:
    """Raise an error for a derivative that does not take these arguments."""
    given = [*first, *(p.replace(" ", "_") for p in others)]
    try:
        inspect.signature(function).bind(*given)
    except ValueError:  # a built-in without a signature
        return
    except TypeError as misfit:
        raise TracingError(
            f"the function given to @{registered} does not take what it is called with: {misfit}.",
            hint=f"Write def _({', '.join(given)}): …",
        ) from None


@errors.user_facing_maker
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
