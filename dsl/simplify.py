"""Smart constructors: the only functions that create an `Apply`.

All simplifications preserve every bit of every result.  Constants are folded by the primitives' own
definitions (functions that backends round differently, only while tracing).  Identities apply to
integers (which wrap, so `+` and `*` re-associate exactly), and to floats only where IEEE 754
permits them for all operands.

They also preserve every read: `x[i] * 0` becomes `also(0, x[i])`, because a checked program tests
the index, and whether a program is checked is known only when it runs (passes/tested.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from . import late_binding as later
from .expr import (
    FALSE,
    TRUE,
    Apply,
    Cond,
    Const,
    Expr,
    Foreign,
    Proj,
    Read,
    constant,
    evaluated,
    primitive,
)
from .primitives import TABLE, Primitive, convert, is_rounded, value_of
from .types import ScalarType, bool_, int64

#: Arithmetic on booleans.
LOGICAL_ON_BOOL = {
    "add": "logical_or",
    "maximum": "logical_or",
    "fmax": "logical_or",
    "bitwise_or": "logical_or",
    "multiply": "logical_and",
    "minimum": "logical_and",
    "fmin": "logical_and",
    "bitwise_and": "logical_and",
    "bitwise_xor": "logical_xor",
    "not_equal": "logical_xor",
    "invert": "logical_not",
}
#: Primitives without special rules for some types.
_ORDINARY = frozenset(("add", "subtract", "multiply", "less", "less_equal", "equal", "minimum",
                       "maximum", "floor_divide", "remainder", "fma"))  # fmt: skip
_INTEGER_IDENTITY = ("floor", "ceil", "trunc", "rint", "conjugate", "real")


def apply(op: Primitive, args: tuple[Expr, ...], type_: ScalarType, weak: bool = False) -> Expr:
    """`op` applied to operands of one type, simplified.

    A value computed only from literals and extents is weak.  A weak cast around the entire
    expression marks it; the expression inside is not weak, so that equal expressions are shared.
    """
    if op.name == "cast":
        return cast(args[0], type_, weak)
    if op.name == "also":
        return also(*args)
    for a in args:
        if a.weak:
            made = apply(op, tuple([cast(a, a.type) for a in args]), type_)
            return cast(made, type_, True) if weak else made
    if op.name == "select":
        return select(*args)
    first = args[0].type
    if first.family == "bool" and op.name in LOGICAL_ON_BOOL:
        op = TABLE[LOGICAL_ON_BOOL[op.name]]
    if op.name in _ORDINARY:
        pass
    elif not first.is_inexact:
        if op.name in _INTEGER_IDENTITY or (op.name == "absolute" and not first.signed):
            return args[0]
        if op.name in ("isnan", "isinf"):
            return also(FALSE, args[0])
        if op.name == "isfinite":
            return also(TRUE, args[0])
        if op.name == "fmod":
            op = TABLE["rem"]
        if op.name in ("fmin", "fmax"):
            op = TABLE["minimum" if op.name == "fmin" else "maximum"]
    elif not first.is_complex and op.name in ("real", "conjugate"):
        return args[0]
    for a in args:
        if type(a) is not Const:
            break
    else:
        # Bounds of kernels (ir/narrow.py) are exact numbers: folding them must not wrap.
        return Apply(op, args, type_) if _overflows(op, args, type_) else _fold(op, args, type_)
    if op.name == "logical_and":
        return _logical_and(args)
    if op.name == "logical_or":
        return _logical_or(args)
    if type_ is bool_ and op.name in ("logical_xor", "equal", "not_equal"):
        found = _compared(op.name, args) or _compared(op.name, args[::-1])
        if found is not None:
            return found
    if op.name == "logical_not" and isinstance(args[0], Apply) and args[0].op.name == "logical_not":
        return args[0].args[0]
    if type_.is_integer and first.is_integer:
        found = _integer(op, args, type_)
        if found is not None:
            return found
    if op.commutative and isinstance(args[0], Const) and not isinstance(args[1], Const):
        args = (args[1], args[0])
    if op.name in ("equal", "less_equal", "greater_equal") and args[0] is args[1]:
        if not first.is_inexact:
            return also(TRUE, args[0])
    return Apply(op, args, type_)


def reapply(op: Primitive, args: tuple[Expr, ...], type_: ScalarType, weak: bool) -> Expr:
    """`apply`, for an expression that was traced earlier: operations that backends round
    differently are kept even for constants, so that no bit depends on which operations are
    fused."""
    if is_rounded(op, args[0].type) and all(type(a) is Const for a in args):
        made = Apply(op, tuple(cast(a, a.type) for a in args), type_)
        return cast(made, type_, weak)
    return apply(op, args, type_, weak)


def also(value: Expr, *dropped: Expr) -> Expr:
    """`value`, also performing those reads of `dropped` that it does not perform itself."""
    reading = _reading(dropped)
    if not reading:
        return value
    if value.weak:
        return cast(also(cast(value, value.type), *dropped), value.type, True)
    own = _reading((value,))
    for e in reading:
        if e not in own:
            value = Apply(TABLE["also"], (value, e), value.type)
    return value


def _reading(roots: tuple[Expr, ...]) -> dict[Expr, None]:
    """The reads in `roots`, and the conditionals and loops that contain reads."""
    return dict.fromkeys(
        e for e in evaluated(roots, lambda e: isinstance(e, Apply | Foreign))
        if isinstance(e, Read) or (isinstance(e, Proj) and e.reads)
    )  # fmt: skip


_EXACTLY = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


def _overflows(op: Primitive, args: tuple[Expr, ...], type_: ScalarType) -> bool:
    """Whether the exact result for int64 constants overflows."""
    if type_ != int64 or op.name not in _EXACTLY:
        return False
    exact = _EXACTLY[op.name](*(int(a.value) for a in args))  # type: ignore[attr-defined]
    return not int64.lowest <= exact <= int64.highest


#: Integer operations that Python computes like NumPy if the result fits its type; divisions only by
#: positive numbers.
_OF_INTEGERS: dict[str, Callable[..., int]] = {
    **_EXACTLY, "minimum": min, "maximum": max, "less": operator.lt, "less_equal": operator.le,
    "equal": operator.eq, "floor_divide": operator.floordiv, "remainder": operator.mod,
}  # fmt: skip


def _fold(op: Primitive, args: tuple[Expr, ...], type_: ScalarType) -> Expr:
    values = [a.value for a in args]  # type: ignore[attr-defined]
    simple = _OF_INTEGERS.get(op.name) if args[0].type.is_integer else None
    if simple is not None and (values[1] > 0 or op.name not in ("floor_divide", "remainder")):
        found = simple(*map(int, values))
        if type_ is bool_:
            return TRUE if found else FALSE
        if type_.lowest <= found <= type_.highest:
            return Const(found, type_)
    return Const(value_of(op, [a.type for a in args], values, type_)[()], type_)


def _logical_and(args: tuple[Expr, ...]) -> Expr:
    a, b = args
    if a is FALSE or b is FALSE:
        return also(FALSE, a, b)
    if a is TRUE:
        return b
    if b is TRUE or a is b:
        return a
    return Apply(TABLE["logical_and"], args, bool_)


def _logical_or(args: tuple[Expr, ...]) -> Expr:
    a, b = args
    if a is TRUE or b is TRUE:
        return also(TRUE, a, b)
    if a is FALSE:
        return b
    if b is FALSE or a is b:
        return a
    return Apply(TABLE["logical_or"], args, bool_)


def _compared(name: str, args: tuple[Expr, ...]) -> Expr | None:
    """A boolean, or a number made of one, compared with 0 or 1; as a boolean."""
    value, known = args
    if not isinstance(known, Const) or known.value not in (0, 1):
        return None
    if value.type is not bool_:
        if not (isinstance(value, Apply) and value.op.name == "cast"
                and value.args[0].type is bool_):  # fmt: skip
            return None
        value = value.args[0]
    same = (name == "equal") is bool(known.value)
    return value if same else apply(TABLE["logical_not"], (value,), bool_)


def is_const(e: Expr, value: int) -> bool:
    return type(e) is Const and e.type.is_integer and int(e.value) == value


def _wrapped(value: int, type_: ScalarType) -> Const:
    return Const(type_.wrapped(value), type_)


_WITH_RULES = frozenset(
    ("subtract", "add", "multiply", "floor_divide", "quot", "remainder", "rem", "minimum",
     "maximum", "left_shift", "right_shift")
)  # fmt: skip


def _integer(op: Primitive, args: tuple[Expr, ...], type_: ScalarType) -> Expr | None:
    if op.name not in _WITH_RULES:
        return None
    a = args[0]
    b = args[1] if len(args) > 1 else None
    if op.name == "subtract" and b is not None:
        if a is b:
            return also(_wrapped(0, type_), a)
        if isinstance(b, Const):
            return apply(TABLE["add"], (a, _wrapped(-int(b.value), type_)), type_)
        if isinstance(a, Apply) and a.op.name == "add":  # (x + y) − y
            if a.args[1] is b:
                return also(a.args[0], b)
            if a.args[0] is b:
                return also(a.args[1], b)
            if isinstance(a.args[1], Const):  # (x + c) − y → (x − y) + c
                inner = apply(TABLE["subtract"], (a.args[0], b), type_)
                return apply(TABLE["add"], (inner, a.args[1]), type_)
        return None
    if op.name == "add" and b is not None:
        if isinstance(a, Const):
            a, b = b, a
        if is_const(b, 0):
            return a
        if isinstance(b, Const) and isinstance(a, Apply) and isinstance(a.args[-1], Const):
            inner = a.args[-1]
            if a.op.name == "add" and not _overflows(op, (inner, b), type_):
                total = _wrapped(int(inner.value) + int(b.value), type_)
                return apply(op, (a.args[0], total), type_)
        if isinstance(a, Apply) and a.op.name == "add" and isinstance(a.args[1], Const):
            if not isinstance(b, Const):  # move constants outward: (x + c) + y → (x + y) + c
                return apply(op, (apply(op, (a.args[0], b), type_), a.args[1]), type_)
        if isinstance(b, Apply) and b.op.name == "add" and isinstance(b.args[1], Const):
            return apply(op, (apply(op, (a, b.args[0]), type_), b.args[1]), type_)
        if isinstance(a, Apply) and a.op.name == "subtract" and a.args[1] is b:
            return also(a.args[0], b)
        if isinstance(b, Apply) and b.op.name == "subtract" and b.args[1] is a:
            return also(b.args[0], a)
        return None
    if op.name == "multiply" and b is not None:
        if isinstance(a, Const):
            a, b = b, a
        if is_const(b, 1):
            return a
        if is_const(b, 0):
            return also(b, a)
        if isinstance(b, Const) and isinstance(a, Apply) and isinstance(a.args[-1], Const):
            if a.op.name == "multiply" and not _overflows(op, (a.args[-1], b), type_):
                total = _wrapped(int(a.args[1].value) * int(b.value), type_)  # type: ignore[attr-defined]
                return apply(op, (a.args[0], total), type_)
        return None
    if op.name in ("floor_divide", "quot") and b is not None and is_const(b, 1):
        return a
    if op.name in ("remainder", "rem") and b is not None and is_const(b, 1):
        return also(_wrapped(0, type_), a)
    if op.name in ("minimum", "maximum") and a is b:
        return a
    if op.name in ("left_shift", "right_shift") and b is not None and is_const(b, 0):
        return a
    return None


def cast(value: Expr, type_: ScalarType, weak: bool = False) -> Expr:
    """Convert to a type; constants are folded."""
    if value.type == type_ and value.weak == weak:
        return value
    if value.weak and isinstance(value, Apply):  # a weak cast
        value = cast(value.args[0], value.type)
        if value.type == type_ and not weak:
            return value
    if isinstance(value, Const):
        return Const(convert(np.asarray(value.value), type_)[()], type_, weak)
    if isinstance(value, Apply) and value.op.name == "cast" and not weak:
        inner = value.args[0]
        # Widening integers and back is the identity; bool fits everywhere.
        if inner.type == type_ and inner.type.is_integer and value.type.is_integer:
            if value.type.bits >= type_.bits:
                return inner
    if _chooses_constants(value) and not weak:
        assert isinstance(value, Apply)
        predicate, *sides = value.args
        return select(predicate, *(cast(side, type_) for side in sides))
    return Apply(TABLE["cast"], (value,), type_, weak)


def _chooses_constants(e: Expr) -> bool:
    """Whether an expression selects among constants, such as `where(p, 1, 0)`."""
    return isinstance(e, Apply) and e.op.name == "select" and all(
        isinstance(side, Const) or _chooses_constants(side) for side in e.args[1:]
    )  # fmt: skip


def in_order(e: Expr) -> Expr:
    """A boolean with short-circuit evaluation: in `p & q`, q is evaluated only where p holds, and
    in `p | q` only where it does not, if q reads anything.  A loop that ends at the end of an array
    then reads nothing beyond it."""
    if not isinstance(e, Apply) or e.type is not bool_:
        return e
    both = e.op.name in ("logical_and", "bitwise_and")
    if not (both or e.op.name in ("logical_or", "bitwise_or")) or not e.args[1].reads:
        return e
    first, second = in_order(e.args[0]), in_order(e.args[1])
    sides = ((second,), (FALSE,)) if both else ((TRUE,), (second,))
    return Proj(Cond(first, *sides), 0)


def select(predicate: Expr, a: Expr, b: Expr) -> Expr:
    """Select a side; both are evaluated."""
    if a.weak and b.weak:
        return cast(select(predicate, cast(a, a.type), cast(b, b.type)), a.type, True)
    if isinstance(predicate, Const):
        return also(a, b) if bool(predicate.value) else also(b, a)
    if a is b:
        return also(a, predicate)
    if a is TRUE and b is FALSE:
        return predicate
    if isinstance(predicate, Apply) and predicate.op.name == "logical_not":
        return select(predicate.args[0], b, a)
    return Apply(TABLE["select"], (predicate, a, b), a.type)


def chosen(e: Expr) -> Expr:
    """The selected side of a `cond` with a known predicate."""
    if not (isinstance(e, Proj) and isinstance(e.args[0], Cond)):
        return e
    predicate = e.args[0].args[0]
    if not isinstance(predicate, Const):
        return e
    return (e.args[0].then if predicate.value else e.args[0].other)[e.which]


# --- integers: operators of expressions -------------------------------------------------------

#: An int64, or a number that is one.
Int: TypeAlias = Expr | int
#: Constants below this are added and multiplied immediately.
_SMALL = 1 << 31
_constants: dict[int, Expr] = {}  # small ones


def integer(value: Int) -> Expr:
    if not isinstance(value, int):
        return value
    found = _constants.get(value)
    if found is None:
        found = constant(value)
        if -64 <= value <= 1024:
            _constants[value] = found
    return found


def of_integers(name: str, a: Int, b: Int) -> Expr:
    args = integer(a), integer(b)
    assert args[0].type is int64 is args[1].type, (name, *args)
    return apply(primitive(name), args, int64)


def _known(a: Int, b: Int) -> tuple[int, int] | None:
    """Both values, if they are constants far from the limits of int64."""
    found = []
    for e in (a, b):
        value = e if isinstance(e, int) else int(e.value) if isinstance(e, Const) else None
        if value is None or not -_SMALL < value < _SMALL:
            return None
        found.append(value)
    return found[0], found[1]


def add(a: Int, b: Int) -> Expr:
    known = _known(a, b)
    return integer(known[0] + known[1]) if known else of_integers("add", a, b)


def subtract(a: Int, b: Int) -> Expr:
    known = _known(a, b)
    return integer(known[0] - known[1]) if known else of_integers("subtract", a, b)


def multiply(a: Int, b: Int) -> Expr:
    known = _known(a, b)
    return integer(known[0] * known[1]) if known else of_integers("multiply", a, b)


def floor_divide(a: Int, b: Int) -> Expr:
    return of_integers("floor_divide", a, b)


def remainder(a: Int, b: Int) -> Expr:
    return of_integers("remainder", a, b)


later.offer(simplified_apply=reapply, add=add, subtract=subtract, multiply=multiply,
            floor_divide=floor_divide, remainder=remainder)  # fmt: skip
