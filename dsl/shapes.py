"""Shapes: extents as scalars, and relations between shapes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import expr as ex, late_binding as later, simplify
from .analysis.bounds import bounds
from .errors import DTypeError, ShapeError, as_called, user_location
from .expr import Apply, Const, Expr, Foreign, Index, Loop, Read, While, walk
from .frontend.tracing import is_tracing
from .graph import Check, Generate, Label, Shape, known
from .graphs.relations import verify_checks
from .scalar import KnownExtent, Scalar, apply_primitive, as_count
from .simplify import is_const
from .types import int64


def Extent(e: Expr) -> Scalar | KnownExtent:
    """An extent as users see it: outside traced functions a Python int where known, else a scalar
    that compares equal to its value where that is known.

    It is weak, like the Python ints in NumPy's `shape`: x / x.shape[0] has the type of a float x.
    """
    value = None if is_tracing() else known(e)
    weak = simplify.cast(e, e.type, True)
    return KnownScalar(weak) if value is None else KnownExtent(value, weak)


class KnownScalar(Scalar):
    """A scalar for a run-time extent whose value may be known at trace time."""

    __slots__ = ()

    def __repr__(self) -> str:
        value = self._value()
        return super().__repr__() if value is None else str(value)

    def _both_known(self, other: object) -> tuple[Any, Any] | None:
        value = known(self._expr)
        if isinstance(other, KnownScalar):
            other = known(other._expr)
        elif not isinstance(other, int | float | np.number):
            return None
        return None if value is None or other is None else (int(value), other)

    def __eq__(self, other: object) -> Any:
        if other is None or (isinstance(other, Scalar) and other._expr is self._expr):
            return other is not None
        numbers = self._both_known(other)
        return super().__eq__(other) if numbers is None else bool(numbers[0] == numbers[1])

    def __ne__(self, other: object) -> Any:
        if other is None or (isinstance(other, Scalar) and other._expr is self._expr):
            return other is None
        numbers = self._both_known(other)
        return super().__ne__(other) if numbers is None else bool(numbers[0] != numbers[1])

    def __hash__(self) -> int:
        value = known(self._expr)
        return super().__hash__() if value is None else hash(int(value))


def extents(shape: Shape) -> tuple[Any, ...]:
    """A shape as users see it: an int for each constant extent, a scalar for the others."""
    return tuple(int(e.value) if isinstance(e, Const) else Extent(e) for e in shape)


def on_host(e: Expr) -> Expr:
    """A scalar that determines control flow or extents, in a form that the host can evaluate: loops
    and foreign functions are computed by a kernel that stores a rank-0 array."""
    if not any(isinstance(x, While | Loop | Foreign) for x in walk((e,))):
        return e
    return Generate((), (e,), label=Label("unit"), where=user_location()).leaf().at()


def as_shape(shape: Any, operation: str) -> tuple[Shape, tuple[Check, ...]]:
    """Extents from an int, a scalar or a sequence of them.

    A negative extent is an error: now if it is known, else by a run-time check.
    """
    parts = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    extents: list[Expr] = []
    checks: list[Check] = []
    for axis, part in enumerate(parts):
        if isinstance(part, float):
            raise DTypeError(
                f"{operation} needs integer extents, got {part!r}.",
                hint="Write n // 2 instead of n / 2, or int(n).",
            )
        if isinstance(part, Scalar) and not part.dtype.is_integer:
            raise DTypeError(
                f"{operation} needs integer extents, got a {part.dtype}.",
                hint="Write n // 2 instead of n / 2, or td.cast(n, td.int64).",
            )
        if isinstance(part, int) and int64.highest < part < 2**64:
            raise ShapeError(
                f"{operation}: no array has {part} elements along an axis: they cannot be counted.",
                hint="Extents are below 2**63.",
            )
        if (isinstance(part, later.Array) or later.is_arraylike(part)) and np.ndim(part):
            raise DTypeError(
                f"{operation} needs extents, got an array.",
                hint="Write a.shape for those of an array a.",
            )
        e = on_host(as_count(part, f"{operation}'s shape"))
        extents.append(e)
        checks += _not_negative(e, part, axis, operation)
    return tuple(extents), tuple(checks)


def _not_negative(e: Expr, given: Any, axis: int, operation: str) -> tuple[Check, ...]:
    if bounds(e)[0] >= 0:
        return ()
    if isinstance(given, KnownScalar) and any(isinstance(x, Read) for x in walk((e,))):
        return ()  # a count computed by the backend, as in `compact`
    return require(
        # Formulated as an equation, because backends compare many of these at once.
        apply_primitive("minimum", [e, ex.constant(0)]),
        ex.constant(0),
        f"{operation}: the extent of axis {axis} is {{left}}; extents cannot be negative.",
        hint="td.maximum(n, 0) makes the array empty instead.",
    )


def show_shape(shape: Sequence[Expr]) -> str:
    values = [known(e) for e in shape]
    parts = [_show(e) if v is None else str(int(v)) for e, v in zip(shape, values, strict=True)]
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


#: Operations of extents that are shown as expressions.
_SHOWN = ("add", "subtract", "multiply", "floor_divide")


def _show(extent: Expr) -> str:
    """An unknown extent as the user writes it: `x.shape[0]`; `?` if it is no arithmetic."""
    text = repr(extent)
    for e in walk((extent,)):
        if isinstance(e, ex.Apply):
            e = e.args[0] if e.op.name == "cast" else e
            if isinstance(e, ex.Apply) and e.op.name not in _SHOWN:
                return "?"
        elif not isinstance(e, ex.Extent | ex.Param | ex.Const):
            return "?"
        if isinstance(e, ex.Extent):
            name = e.node.label.called
            text = text.replace(f"%{e.node.uid}.", f"{name}.")
    return text


def require(
    left: Expr,
    right: Expr,
    message: str,
    *,
    hint: str,
    relation: str = "==",
    error: str = "ShapeError",
) -> tuple[Check, ...]:
    """The check `left relation right`: an error now if it is false, no check if always true."""
    if left is right:
        return ()
    u, v = known(left), known(right)
    fixed = isinstance(left, Const) and isinstance(right, Const)
    if fixed and (u >= v if relation == ">=" else u == v):
        return ()
    check = Check(left, right, as_called(message), error, relation, hint, user_location())
    if u is not None and v is not None:
        verify_checks((check,), {left: u, right: v}.__getitem__)
    return (check,)


def same_shape(a: Shape, b: Shape, operation: str) -> tuple[Check, ...]:
    """Require equal shapes: an error now if they cannot be equal, else run-time checks."""
    if len(a) != len(b):
        raise ShapeError(
            f"{operation} needs arrays of equal shape, got {show_shape(a)} and {show_shape(b)}.",
            hint="td.replicate(a, n, axis) or td.broadcast_to(a, shape) adds an axis."
            if a and b
            else "A number is used in the function as it is: lambda x: f(x, n).",
        )
    checks = []
    where = user_location()
    for axis, (x, y) in enumerate(zip(a, b, strict=True)):
        if x is y:
            continue
        u, v = known(x), known(y)
        if u is not None and v is not None and int(u) != int(v):
            raise ShapeError(
                f"{operation} needs arrays of equal shape, got {show_shape(a)} and "
                f"{show_shape(b)}: axis {axis} has {int(u)} against {int(v)}.",
                hint="Slice to the common extent, a[:n], or use operators (a + b), which "
                "broadcast extents of 1.",
            )
        message = as_called(
            f"{operation} needs arrays of equal shape, but axis {axis} has extent {{left}} in one "
            "and {right} in the other."
        )
        checks.append(Check(x, y, message, where=where, hint="Slice to the common extent: a[:n]."))
    return tuple(checks)


def broadcast_shapes(shapes: Sequence[Shape], operation: str) -> tuple[Shape, tuple[Check, ...]]:
    """NumPy's broadcasting: extents known to be 1 stretch, others must be equal (checked)."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Expr] = []
    checks: list[Check] = []
    for axis in range(-rank, 0):
        chosen: Expr | None = None
        for shape in shapes:
            if len(shape) < -axis:
                continue
            e = shape[axis]
            if chosen is None or chosen is e:
                chosen = e
                continue
            u, v = known(chosen), known(e)
            if v is not None and int(v) == 1:
                continue
            if u is not None and int(u) == 1:
                chosen = e
                continue
            if _at_most_one(e) and not _at_most_one(chosen):
                checks += _must_be_one(e, chosen, f"{operation} cannot broadcast")
                continue
            if _at_most_one(chosen) and not _at_most_one(e):
                checks += _must_be_one(chosen, e, f"{operation} cannot broadcast")
                chosen = e
                continue
            if u is not None and v is not None and int(u) != int(v):
                shown = " and ".join(show_shape(s) for s in shapes)
                raise ShapeError(
                    f"{operation} cannot broadcast the shapes {shown}: axis {axis} has "
                    f"{int(u)} against {int(v)}.",
                    hint=_inserted(shapes),
                )
            checks.append(
                Check(
                    chosen,
                    e,
                    as_called(
                        f"{operation} cannot broadcast: axis {axis} has extent {{left}} in one "
                        "operand and {right} in another{by_chance}."
                    ),
                    hint="Extents must be equal, or 1 as written: a[:1], a[-1:], a[k:k + 1], "
                    "a[:, None], keepdims=True, td.reshape(b, (-1, 1)).",
                    where=user_location(),
                )
            )
        result.append(chosen if chosen is not None else ex.constant(1))
    return tuple(result), tuple(checks)


def _inserted(shapes: Sequence[Shape]) -> str:
    """A hint for shapes that do not broadcast: where to insert an axis of extent 1."""
    rank = max(len(s) for s in shapes)
    columns = itertools.zip_longest(*([known(e) for e in s] for s in shapes))
    fits = all(len({int(n) for n in column if n is not None} - {1}) <= 1 for column in columns)
    short = min(len(s) for s in shapes)
    if fits and 0 < short < rank:  # e.g. a mask of pixels with pixels of three channels
        nones = ", ".join(["None"] * (rank - short))
        return f"Axes are aligned from the last one; a[..., {nones}] adds extents of 1 behind it."
    return "Extents must be equal or 1; a[:, None] inserts an axis of extent 1."


def _at_most_one(e: Expr) -> bool:
    """Whether this is an extent like that of `a[:1]` or `a[-1:]`: 1, or 0 if `a` is empty."""
    return isinstance(e, Apply) and e.op.name == "minimum" and any(is_const(x, 1) for x in e.args)


def _must_be_one(e: Expr, other: Expr, misfit: str) -> tuple[Check, ...]:
    """Checks for an extent of 1 or 0 that broadcasts to `other`: it is 1, or both are 0."""
    if other in e.args:  # min(n, 1) with n
        return ()
    return require(
        apply_primitive("minimum", [e, other]),
        apply_primitive("minimum", [other, ex.constant(1)]),
        f"{misfit}: an operand is empty (extent {{left}}), another is not.",
        hint="a[k:k + 1] is empty if there is no element k; a[:1] and a[-1:] if a is empty.",
    )


def stretched(shape: Shape, target: Shape) -> tuple[Expr, ...]:
    """Indices into an array of `shape` for an element of the broadcast shape `target`."""
    offset = len(target) - len(shape)
    index: list[Expr] = []
    for axis, e in enumerate(shape):
        one = known(e)
        goal = target[offset + axis]
        if goal is not e and (_at_most_one(e) or (one is not None and int(one) == 1)):
            index.append(ex.constant(0))
        else:
            index.append(Index(offset + axis))
    return tuple(index)


def stretch_checks(shape: Shape, target: Shape, misfit: str, hint: str) -> tuple[Check, ...]:
    """Checks that an array of `shape` broadcasts to `target`, of no smaller rank: extents known to
    be 1 stretch, others are equal.  `misfit` is the error before "axis k has n against m"."""
    checks: tuple[Check, ...] = ()
    for axis, e in enumerate(shape, len(target) - len(shape)):
        one, goal = known(e), target[axis]
        if one is not None and int(one) == 1:
            continue
        if _at_most_one(e) and not _at_most_one(goal):
            checks += _must_be_one(e, goal, misfit)
        else:
            text = f"{misfit}: axis {axis} has {{left}} against {{right}}."
            checks += require(e, goal, text, hint=hint)
    return checks
