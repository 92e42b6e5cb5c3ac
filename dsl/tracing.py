"""Calling the user's functions on symbols, and saying clearly what cannot be traced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import Location, NestedParallelismError, TracingError
from .expr import Expr, Index, Var, walk
from .types import Structure, flatten


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[str, Location | None]] = []
        self.scopes: list[object] = []


_state = _State()


@contextmanager
def scalar_function_of(operation: str, where: Location | None) -> Iterator[None]:
    """While active, code runs inside the scalar function of `operation`."""
    _state.stack.append((operation, where))
    try:
        yield
    finally:
        _state.stack.pop()


def enclosing_kernel() -> tuple[str, Location | None] | None:
    """The operation whose scalar function is being traced, if any."""
    return _state.stack[-1] if _state.stack else None


def current_scope() -> object | None:
    """What identifies this very call of a scalar function; None outside."""
    return _state.scopes[-1] if _state.scopes else None


def refuse_strangers(scope: object, e: Expr) -> None:
    """What depends on an element means something only in the call of the function it was given to;
    an extent, say, is the same everywhere."""
    if scope not in _state.scopes and any(isinstance(x, Index | Var) for x in walk((e,))):
        raise TracingError(
            "a scalar was used outside the function that it belongs to: there is one value of it "
            "per element of that operation, and none here.",
            hint="Return it from its function (several values as a tuple) and use the array that "
            "results.",
        )


_ARGUMENTS = {
    "td.function": "A boundary function gets one coordinate per axis: lambda i, j: …",
    "generate": "It gets one index per axis: lambda i, j: … for rank 2.",
    "imap": "It gets the index first, then one element per array: lambda i, j, x: ….",
    "fold": "It combines two elements: lambda x, y: ….",
    "fold1": "It combines two elements: lambda x, y: ….",
    "stencil": "It gets one neighbourhood per array: lambda w: w[-1, 0] + w[1, 0].",
    "permute": "The combination gets (new, old), the index function one index per axis.",
}
_UNNESTED = {
    "sum": "td.sum(a, axis=1) outside, and index the result: sums[i]",
    "fold": "td.fold(f, init, a, axis=…) outside, and index the result",
    "map": "one td.map (or td.generate over the product of both index spaces)",
    "matmul": "a @ b outside, and index the result: product[i, j]",
}


def forbid_nesting(operation: str) -> None:
    """A collective operation may not start inside a scalar function."""
    outer = enclosing_kernel()
    if outer is None:
        return
    name, where = outer
    instead = _UNNESTED.get(
        operation, f"td.{operation}(…) outside, and index its result: result[i]"
    )
    raise NestedParallelismError(
        f"'{operation}' was started inside the scalar function of '{name}': one thread cannot "
        "start a parallel operation.",
        also=((f"the enclosing '{name}' is here:", where),),
        hint=f"Un-nest it: compute {instead}; or fold in the thread with td.loop(n, f, init).",
    )


def call_scalar_function(
    function: Callable[..., Any], arguments: Sequence[Any], operation: str, where: Location | None
) -> Any:
    """Run a user's scalar function under tracing; its result is checked to be usable."""
    if not callable(function):
        raise TracingError(
            f"{operation} needs a function, got {type(function).__name__}.",
            hint=f"Write td.{operation}(lambda …: …, …).",
            where=where,
        )
    _state.scopes.append(object())
    _belong(tuple(arguments), _state.scopes[-1])
    with scalar_function_of(operation, where):
        try:
            value = function(*arguments)
            _belong(value, None)  # what a function returns may be used outside
            return value
        except TypeError as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if inside or isinstance(error, TracingError):
                raise
            raise TracingError(
                f"the function given to {operation} cannot take {len(arguments)} argument(s): "
                f"{error}.",
                hint=_ARGUMENTS.get(operation, "It gets one argument per array."),
                where=where,
            ) from None
        finally:
            _state.scopes.pop()


def _belong(value: Any, scope: object | None) -> None:
    """Say of every scalar in `value` which call it belongs to."""
    from .scalar import Scalar

    for leaf in flatten(value, lambda v: False)[0]:
        if isinstance(leaf, Scalar):
            leaf.scope = scope


def check_result(value: Any, operation: str, function: Any = None) -> None:
    """Refuse what no kernel can return."""
    if value is None:
        raise TracingError(
            f"the function given to {operation} returned None.",
            hint="Did you forget `return`?  It must return a scalar or a tuple of scalars.",
        )
    if isinstance(value, list | dict | set | str):
        kind = type(value).__name__
        raise TracingError(
            f"the function given to {operation} returned a {kind}.",
            hint="Return a scalar or a tuple of scalars: write (x, y) instead of [x, y].",
        )


def flatten_result(value: Any, operation: str) -> tuple[list[Any], Structure]:
    """Flat expressions (not yet settled: weak literals stay weak) and structure of a result."""
    from .scalar import lift

    check_result(value, operation)
    leaves, structure = flatten(value, lambda v: False)
    for leaf in leaves:
        check_result(leaf, operation)
    return [lift(leaf, operation) for leaf in leaves], structure
