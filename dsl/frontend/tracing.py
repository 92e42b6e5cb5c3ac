"""Call user functions on symbolic values, and report what cannot be traced."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import late_binding as later
from ..errors import Location, NestedParallelismError, TracingError, form_of
from ..expr import Cond, Expr, Index, Var, walk
from ..types import Structure, flatten
from .refusals import of_structure, returned


class Scope:
    """A call of a user's scalar function or of a loop's predicate and body.

    `kernel` is the scope whose indices a value made here may contain: this scope for the function
    of an array operation (`variables` None), the enclosing one for a loop.  The scope binds
    `variables`, and those in `arguments`, while it is active.  `refused` are invalid reads, each
    with its error and whether it occurs only in a side of a `cond`.
    """

    __slots__ = ("arguments", "kernel", "operation", "refused", "variables", "where")

    def __init__(
        self, operation: str, where: Location | None, variables: Sequence[Var] | None = None
    ) -> None:
        self.operation, self.where = operation, where
        self.arguments: Sequence[Any] = ()
        self.refused: list[Refused] = []
        self.variables: Sequence[Var] = () if variables is None else variables
        if variables is None:
            self.kernel: Scope | None = self
        else:
            outer = current_scope()
            self.kernel = None if outer is None else outer.kernel

    @contextmanager
    def active(self) -> Iterator[Scope]:
        """While active, the scope's variables are bound."""
        before = _state.now
        _state.now = before._replace(scopes=(*before.scopes, self))
        try:
            yield self
        finally:
            _state.now = before
            self.arguments = ()

    def bound(self) -> Iterator[Expr]:
        """The variables that the scope binds."""
        yield from self.variables
        for argument in self.arguments:
            if isinstance(argument, Scoped):
                yield from argument.needs() or ()


@dataclass
class Refused:
    """Invalid reads of one element, which are errors unless they are never executed."""

    reads: Sequence[Expr]
    error: Exception
    guarded: bool = False


class Scoped:
    """A value that is valid only while a function is traced; everywhere if `scope` is None."""

    __slots__ = ("scope",)
    scope: Scope | None

    def needs(self) -> tuple[Expr, ...] | None:
        """The expressions it consists of; None: it is valid only in its function."""
        return None

    def rescoped(self, scope: Scope | None) -> Any:
        """A copy for another scope; the user may still hold the original."""
        return self


class _Now(NamedTuple):
    """What is being traced."""

    stack: tuple[tuple[str, Location | None], ...] = ()
    scopes: tuple[Scope, ...] = ()
    programs: int = 0
    loops: int = 0


_NOTHING = _Now()


class _State(threading.local):
    """Replaced as a whole and restored by one assignment, which no interruption divides."""

    now = _NOTHING


_state = _State()


@contextmanager
def traced_function() -> Iterator[None]:
    """While active, code runs inside a function of arrays that is traced."""
    before = _state.now
    _state.now = before._replace(programs=before.programs + 1)
    try:
        yield
    finally:
        _state.now = before


@contextmanager
def traced_iteration() -> Iterator[None]:
    """While active, code runs inside the function, or the predicate, of a loop over arrays."""
    before = _state.now
    _state.now = before._replace(programs=before.programs + 1, loops=before.loops + 1)
    try:
        yield
    finally:
        _state.now = before


def in_iteration() -> bool:
    """Whether what is traced is executed in each iteration of a loop over arrays."""
    return _state.now.loops > 0


@contextmanager
def outside() -> Iterator[None]:
    """While active, code runs as outside of functions that are traced."""
    before = _state.now
    _state.now = _NOTHING
    try:
        yield
    finally:
        _state.now = before


def is_tracing() -> bool:
    """Whether a function is being traced: of a program, of a kernel or of a loop."""
    return _state.now is not _NOTHING and _state.now != _NOTHING


def is_tracing_program() -> bool:
    """Whether a function of arrays is being traced: its program runs later, and again."""
    return _state.now.programs > 0


@contextmanager
def scalar_function_of(operation: str, where: Location | None) -> Iterator[None]:
    """While active, code runs inside the scalar function of `operation`."""
    before = _state.now
    _state.now = before._replace(stack=(*before.stack, (operation, where)))
    try:
        yield
    finally:
        _state.now = before


def enclosing_kernel() -> tuple[str, Location | None] | None:
    """The operation whose scalar function is being traced, if any."""
    return _state.now.stack[-1] if _state.now.stack else None


def current_scope() -> Scope | None:
    """The current call of a scalar function, or None."""
    return _state.now.scopes[-1] if _state.now.scopes else None


def reject_escaped(value: Scoped) -> None:
    """Raise an error for an escaped tracer: a value that depends on an element, a counter or a
    state, used outside the call it belongs to.  Extents, for example, are valid everywhere."""
    scope = value.scope
    if scope is None or scope in _state.now.scopes or not _has_escaped(value.needs(), scope):
        return
    looped = scope.kernel is not scope
    raise TracingError(
        "a scalar was used outside the function that it belongs to: there is one value of it "
        f"per {'iteration of that loop' if looped else 'element of that operation'}, "
        "and none here.",
        also=((f"it belongs to the function of '{scope.operation}' here:", scope.where),),
        hint="Make it part of the loop's state, and use what the loop returns."
        if looped
        else "Return it from its function (several values as a tuple) and use the array that "
        "results.",
    )


def refuse_unless_guarded(reads: Sequence[Expr], error: Exception) -> None:
    """Raise `error` for reads inside a scalar function when the function has returned, unless they
    occur only in sides of a `cond`."""
    scope = current_scope()
    if scope is None or scope.kernel is None:
        raise error
    scope.kernel.refused.append(Refused(reads, error))


def guard_sides(*sides: Any) -> None:
    """Permit invalid reads in the sides of a `cond`, only one of which is evaluated."""
    scope = current_scope()
    refused = None if scope is None or scope.kernel is None else scope.kernel.refused
    if refused:
        inside = set(walk(_needs(sides)))
        for entry in refused:
            entry.guarded = entry.guarded or not inside.isdisjoint(entry.reads)


def _raise_refused(scope: Scope, value: Any) -> None:
    """Raise the error of an invalid read that is not only in sides of a `cond`."""
    made: set[Expr] = set()
    stack = list(_needs(value))
    while stack:
        e = stack.pop()
        if e not in made:
            made.add(e)
            stack += e.args if isinstance(e, Cond) else (*e.args, *e.scoped)
    for entry in scope.refused:
        if not (entry.guarded and made.isdisjoint(entry.reads)):
            raise entry.error


def _needs(value: Any) -> tuple[Expr, ...]:
    """The expressions of a nested value."""
    leaves = flatten(value, lambda v: False)[0]
    return tuple(e for leaf in leaves if isinstance(leaf, Scoped) for e in leaf.needs() or ())


def _has_escaped(needs: tuple[Expr, ...] | None, scope: Scope) -> bool:
    """Whether a value made in the finished `scope` is invalid in the active scopes."""
    if needs is None:
        return True
    found = list(walk(needs))
    bound = {v for e in found for v in e.vars}
    free = {e for e in found if isinstance(e, Var)} - bound
    if scope.kernel is not None and scope.kernel not in _state.now.scopes:
        return bool(free) or any(isinstance(e, Index) for e in found)
    return not free.issubset(v for s in _state.now.scopes for v in s.bound())


_COMBINES = "It combines two elements: lambda x, y: …."
_INDEXED = "It gets one index per axis: lambda i, j: … for rank 2."
_ARGUMENTS = {
    "td.function": "A boundary function gets one coordinate per axis: lambda i, j: …",
    "generate": _INDEXED,
    "backpermute": _INDEXED,
    "imap": "It gets the index first, then one element per array: lambda i, j, x: ….",
    "expand": "count gets an element, get an element and a number: lambda x, k: ….",
    "stencil": "It gets one neighbourhood per array, lambda w: w[-1, 0] + w[1, 0], after the index "
    "with index=True: lambda i, j, w: ….",
    "permute": "The combination gets (new, old), the index function one index per axis.",
}
_UNNESTED = {
    "sum": "td.sum(a, axis=1) outside, and index the result: sums[i]",
    "fold": "td.fold(f, init, a, axis=…) outside, and index the result",
    "map": "one td.map (or td.generate over the product of both index spaces)",
    **dict.fromkeys(
        ("zeros", "ones", "fill", "full", "empty"),
        "it outside, and index its result; a "
        "few values of the thread's own are a list of Python's, p = [0.0] * 3",
    ),
    "matmul": "a @ b outside, and index the result: product[i, j]",
}


def forbid_nesting(operation: str) -> None:
    """Raise an error for a collective operation inside a scalar function."""
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
        hint=f"Compute {instead}; or fold in the thread with td.loop(n, f, init).",
    )


def call_scalar_function(
    function: Callable[..., Any], arguments: Sequence[Any], operation: str, where: Location | None
) -> Any:
    """Trace a user's scalar function, and check that its result is usable."""
    if not callable(function):
        gathers = operation in ("permute", "backpermute") and hasattr(function, "dtype")
        raise TracingError(
            f"{operation} needs a function, got {type(function).__name__}.",
            hint="An array k of indices is the function lambda i: td.use(k)[i].  " * gathers
            + form_of(operation),
            where=where,
        )
    outer = current_scope()
    with Scope(operation, where).active() as scope, scalar_function_of(operation, where):
        _set_scope(arguments, scope)
        try:
            value = function(*arguments)
            if scope.refused:
                _raise_refused(scope, value)
            return _returned(value, outer)
        except (TypeError, ValueError) as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if inside or isinstance(error, TracingError | ValueError):
                found = of_structure(error, arguments, of_numbers=True)
                if found is error:
                    raise
                raise found from None
            combines = operation.startswith(("fold", "scan"))
            hint = "It gets one argument per array; an element that is a tuple is one argument."
            raise TracingError(
                f"the function given to {operation} cannot take {len(arguments)} argument(s): "
                f"{error}.",
                hint=_COMBINES if combines else _ARGUMENTS.get(operation, hint),
                where=where,
            ) from None


def _set_scope(arguments: Sequence[Any], scope: Scope) -> None:
    """Set the scope of everything in `arguments`."""
    scope.arguments = flatten(tuple(arguments), lambda v: False)[0]
    for leaf in scope.arguments:
        if isinstance(leaf, Scoped):
            leaf.scope = scope


def _returned(value: Any, outer: Scope | None) -> Any:
    """A function's result for the enclosing operation; copies that the user has kept stay in the
    scope of the function."""
    if isinstance(value, Scoped):
        reject_escaped(value)
        return value if value.scope is None else value.rescoped(outer)
    leaves, structure = flatten(value, lambda v: False)
    if structure.is_leaf:
        return value
    return structure.build([_returned(leaf, outer) for leaf in leaves])


_ELEMENT = "a scalar or a tuple of scalars"


def check_result(value: Any, whose: str, wanted: str = _ELEMENT) -> None:
    """Raise an error unless a result is a number or an array; errors name the function `whose`."""
    if isinstance(value, Scoped | int | float):
        return
    if (
        value is None
        or isinstance(value, list | dict | set | frozenset | str | bytes | type | range | Iterator)
        or inspect.isroutine(value)
        or inspect.iscoroutine(value)
        or inspect.isasyncgen(value)
    ):
        raise returned(value, whose, wanted)


def flatten_result(value: Any, operation: str, whose: str = "") -> tuple[list[Any], Structure]:
    """The flat expressions of a result (literals are still weak) and its structure."""
    whose = whose or f"the function given to {operation}"
    leaves, structure = flatten(value, lambda v: False)
    if not leaves:
        raise returned((), whose, _ELEMENT)
    for leaf in leaves:
        check_result(leaf, whose)
    return [later.lift(leaf, operation) for leaf in leaves], structure
