"""`Scalar`, the handle on which kernel functions operate: operators, lifting and promotion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import errors, expr as ex, late_binding as later, simplify
from .analysis.bounds import bounds, whole, wraps
from .errors import DTypeError, TracingError, shown
from .expr import Const, Expr, Extent, Param, walk
from .frontend import tracing
from .frontend.operators import Operators
from .frontend.refusals import (
    HINT_EXTENT,
    given_to_numpy,
    hint_of_extent,
    instead_of_comparing,
    instead_of_math,
    instead_of_storing,
    never_set,
    no_operand,
    refuse_grid,
)
from .node import Check
from .primitives import TABLE, floating
from .types import (
    DEFAULT_OF_KIND,
    ScalarType,
    as_type,
    bool_,
    float64,
    int64,
    kind_of_literal,
    promote,
    uint64,
)

_HINT_FLOAT = "Use td's functions, td.sin instead of math.sin; convert with td.cast(x, td.float64)."
_HINT_IF = (
    "Values are not known while a program is traced.  Write\n"
    "  td.where(p, a, b)                both sides are evaluated\n"
    "  td.cond(p, a, b)                 only one is\n"
    "  td.while_loop(pred, body, init)  a loop with a condition on its values\n"
    "  p & q, p | q, ~p                 instead of and, or, not\n"
    "  td.maximum(a, b), td.minimum     instead of max, min"
)

#: What to write instead if Python needs a hash.
HINT_HASH = (
    "Its value is not known while a program is traced.  Write\n"
    "  td.isin(k, (3, 1))     instead of k in {3, 1}\n"
    "  td.where(k == 3, a, b) instead of a dict of two values\n"
    "  table[k]               instead of a dict of many: table = td.use([…]) before"
)

_HINT_ARGUMENT = (
    "Put values that determine the program into a closure, one program per value: "
    "td.jit(lambda a: f(a, {}))."
)
#: NumPy's functions of a count, which td has for run-time values.
_COUNTED = re.compile(r"(?:np|numpy)\.(arange|linspace|zeros|ones|full|eye|identity|tri)\(").match

_HINT_EXTENTS = (
    "Extents are run-time values, so that one program serves all; ranks, x.ndim, are known.  Omit "
    "a test of extents that must be equal (operations compare them), test others before the call, "
    "or choose at run time: td.cond(p, a, b)."
)


@never_set
@errors.user_facing_methods
class Scalar(Operators["Scalar"], tracing.Scoped):
    """One value inside a kernel (Accelerate's `Exp`); arithmetic on it builds an expression.

    >>> import treadle as td
    >>> td.map(lambda x: 2 * x + 1, td.iota(3))  # x is a Scalar
    Array([1, 3, 5])
    >>> td.Scalar is type(td.sqrt(2.0))
    True
    """

    __slots__ = ("_expr",)

    def __init__(self, expression: Expr) -> None:
        if not isinstance(expression, Expr):
            raise TracingError(
                f"td.Scalar cannot make a scalar of {type(expression).__name__}.",
                hint="Typed scalars are made by their type: td.float32(3.5), td.int64(3).",
            )
        self._expr = expression
        self.scope = tracing.current_scope()

    def needs(self) -> tuple[Expr, ...]:
        """The expressions that must be in scope."""
        return (self._expr,)

    def __hash__(self) -> int:
        if self._value() is not None:
            raise TracingError(
                "a scalar has no hash: == makes another scalar.",
                hint="Its value as a Python number has one: int(x), float(x).",
            )
        raise self._no_value("a hash, for a dict, a set or a cache,", HINT_HASH)

    def __reduce__(self) -> Any:
        value = self._value()
        if value is not None:
            return self.dtype, (value,)
        raise self._no_value("pickle", "Return it from its function, and pickle td.run's result.")

    def __len__(self) -> int:
        raise TracingError(
            "a scalar has no length: it is one value.", hint="The extent of an array is a.shape[0]."
        )

    def __contains__(self, value: object) -> bool:
        raise TracingError(
            "a scalar has no members: it is one value.",
            hint="Write td.isin(x, a) of an array a, outside of the function.",
        )

    def rescoped(self, scope: tracing.Scope | None) -> Scalar:
        """The scalar in another scope."""
        made = type(self)(self._expr)
        made.scope = scope
        return made

    @property
    def dtype(self) -> ScalarType:
        """The type of the value.

        >>> import treadle as td
        >>> (td.int32(1) + 1).dtype
        int32
        """
        return self._expr.type

    @property
    def ndim(self) -> int:
        """0: the rank of a number."""
        return 0

    @property
    def shape(self) -> tuple[()]:
        """(): the shape of a number."""
        return ()

    def __repr__(self) -> str:
        value = self._value()
        shown = repr(self._expr) if value is None else str(value)
        return f"Scalar({shown}: {self._expr.type})"

    def __str__(self) -> str:
        value = self._value()
        return repr(self) if value is None else str(value)

    def _no_value(self, what: str, hint: str = _HINT_IF) -> TracingError:
        traced = "traced scalar" if tracing.is_tracing() else "scalar"
        return run_time_argument(self, what, hint) or TracingError(
            f"{what} needs the value of a {traced} ({self._expr.type}).", hint=hint
        )

    def _value(self) -> Any:
        """The number, if it depends only on known extents or, outside traced functions, on arrays
        that can be computed now; else None."""
        if isinstance(self._expr, Const):
            return self._expr.value[()]
        return later.computed.value_of_scalar(self._expr)

    def __bool__(self) -> bool:
        value = self._value()
        if value is not None:
            return bool(value)
        if errors.at_membership():
            raise self._no_value("`in`", "Write td.isin(k, (3, 1)) instead of k in (3, 1).")
        leaves = [e for e in walk((self._expr,)) if not (e.args or isinstance(e, Const))]
        sized = bool(leaves) and all(isinstance(e, Extent) for e in leaves)
        raise self._no_value(
            "a Python `if`, `while`, `and`, `or`, `not` or bool()",
            instead_of_comparing() or (_HINT_EXTENTS if sized else _HINT_IF),
        )

    def __int__(self) -> int:
        value = self._value()
        if value is not None:
            return int(value)
        raise self._no_value("int()", "Convert with td.cast(x, td.int64).")

    def __index__(self) -> int:
        value = self._value() if self._expr.type.is_integer else None
        if value is not None:
            return int(value)
        if any(isinstance(e, Extent) for e in walk((self._expr,))):
            raise self._no_value("a Python index, range() or a length", HINT_EXTENT)
        raise self._no_value(
            "a Python index, range() or a length",
            instead_of_storing(scalar=True)
            or "To read an array at this index inside a kernel make it treadle's first: "
            "a = td.use(a), then a[i].  For a loop of run-time length write td.loop(n, f, init).",
        )

    def __float__(self) -> float:
        value = self._value()
        if value is not None:
            return float(value)
        refuse_grid()
        raise self._no_value("float() (or a function of math)", instead_of_math() or _HINT_FLOAT)

    def item(self) -> bool | int | float | complex:
        """The value as a Python number.

        Errors: `TracingError` for a value that is not known while a program is traced.
        """
        value = self._value()
        if value is not None:
            number: bool | int | float | complex = np.asarray(value).item()
            return number
        raise self._no_value("item()", _HINT_FLOAT)

    def __complex__(self) -> complex:
        value = self._value()
        if value is not None:
            return complex(value)
        raise self._no_value("complex()")

    def __format__(self, how: str) -> str:
        if not how:
            return str(self)
        value = self._value()
        if value is not None:
            return format(value, how)
        raise self._no_value(
            f"formatting by {how!r}",
            "It represents all elements: return it from the function to see the values.",
        )

    def __iter__(self) -> Any:
        raise TracingError(
            "a scalar cannot be iterated or unpacked.",
            hint="The function receives one argument per array; tuple elements are passed "
            "as tuples.",
        )

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if all(part is ... for part in parts) and len(parts) < 2:
            return self
        if tracing.enclosing_kernel() is None and all(
            part is None or part is ... for part in parts
        ):
            return later.as_array(self)[index]
        raise TracingError(
            f"a scalar of type {self._expr.type} cannot be indexed.",
            hint="Index the array itself: a[i, j] inside a kernel is a gather."
            if tracing.enclosing_kernel() is not None
            else "It is one number: x[None] makes an array of it.",
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = self._value()
        if value is not None:
            return np.array(value, dtype=dtype or self._expr.type.numpy)
        if isinstance(self._expr, Param) and self._expr.name.endswith("]"):
            raise number_by_itself(self._expr)
        refuse_grid()
        if any(isinstance(e, Extent) for e in walk((self._expr,))):
            raise self._no_value("NumPy", hint_of_extent())
        raise self._no_value(
            "a NumPy conversion",
            given_to_numpy(scalar=True)
            or "To read a NumPy array inside a kernel write a = td.use(a) first; use td's "
            "functions, td.where instead of np.where.",
        )


class KnownExtent(int):
    """A known extent outside traced functions: a Python int, as in NumPy's shapes, that programs
    built with it read as an extent, so that one program serves all."""

    _expr: Expr

    def __new__(cls, value: Any, expression: Expr) -> KnownExtent:
        made = int.__new__(cls, value)
        made._expr = expression
        return made

    def __reduce__(self) -> Any:
        return int, (int(self),)

    __copy__ = __deepcopy__ = lambda self, *_: self


def _arithmetic(name: str, method: str) -> Any:
    """An operator of `KnownExtent`: that of ints, returning a known extent."""
    plain = getattr(int, method)
    swapped = method.startswith("__r") and method != "__rshift__"

    def operator(self: KnownExtent, other: Any) -> Any:
        value = plain(self, other)
        if type(other) not in (int, KnownExtent) or not -(1 << 62) < value < 1 << 62:
            return value
        operands = (other, self) if swapped else (self, other)
        return KnownExtent(value, apply_primitive(name, [lift(x) for x in operands]))

    return operator


for _name, _method in (("add", "add"), ("subtract", "sub"), ("multiply", "mul"),
                       ("floor_divide", "floordiv"), ("remainder", "mod")):  # fmt: skip
    for _form in (f"__{_method}__", f"__r{_method}__"):
        setattr(KnownExtent, _form, _arithmetic(_name, _form))


def number_by_itself(param: Param) -> TracingError:
    """The error for a list of numbers, passed to a compiled function, that is used as an array."""
    return TracingError(
        f"{param.name} is a number by itself: a list of numbers (or a tuple) given to a compiled "
        "function is as many arguments.",
        hint="Give one array: f(np.array(x)).",
    )


def run_time_argument(value: Any, what: str, hint: str = "") -> TracingError | None:
    """The error for `what` (an axis, an offset) that is computed only from scalar arguments of a
    compiled function, which are run-time values; None if `value` is not such a scalar."""
    if not isinstance(value, Scalar):
        return None
    leaves = {e for e in walk((value._expr,)) if not (e.args or isinstance(e, Const))}
    if not leaves or not all(isinstance(e, Param) for e in leaves):
        return None
    names = ", ".join(sorted(e.name for e in leaves if isinstance(e, Param)))
    where = errors.user_location()
    if made := where and _COUNTED(where.text()):
        hint = f"td.{made[1]} takes it.\n{hint}"
    first = names.split(", ")[0]
    given = f"{first}=…" if first.isidentifier() else "…"
    which = "an argument" if len(leaves) == 1 else "arguments"
    return TracingError(
        f"{what} needs the value of {names}, {which} of the compiled function: a run-time value.",
        hint=f"{_HINT_ARGUMENT.format(given)}\n{hint}".rstrip(),
    )


def refuse_argument(value: Any, what: str, hint: str = "") -> None:
    """Raise the error of `run_time_argument`, if there is one."""
    error = run_time_argument(value, what, hint)
    if error is not None:
        raise error


def refuse_traced(operation: str, **options: Any) -> None:
    """Raise an error if an option, which must be known at trace time, is a run-time value."""
    for word, value in options.items():
        if isinstance(value, Operators):
            refuse_argument(value, f"{operation}: {word}=")
            raise TracingError(
                f"{operation}: {word}= determines the program, so it cannot be a run-time value.",
                hint=f"Give a Python number or a name: see help(td.{operation}).",
            )


def lift(value: Any, operation: str = "an operation") -> Expr:
    """The expression of a scalar, a Python number, a NumPy scalar or a rank-0 array."""
    if isinstance(value, Scalar):
        if value.scope is not None and value.scope is not tracing.current_scope():
            tracing.reject_escaped(value)
        return value._expr
    if isinstance(value, Expr | KnownExtent):
        return value if isinstance(value, Expr) else value._expr
    kind = kind_of_literal(value)
    if kind is not None:
        if kind == "int" and not -(1 << 63) <= value < (1 << 63):
            if 0 <= value < (1 << 64):
                return Const(value, uint64, weak=True)
            raise DTypeError(
                f"the integer {shown(value)} does not fit in 64 bits.",
                hint="Use a float, 1e30, or np.uint64 for integers below 2**64.",
            )
        return Const(value, DEFAULT_OF_KIND[kind], weak=kind != "bool")
    if isinstance(value, np.generic):
        return Const(value, as_type(value.dtype))
    if isinstance(value, later.Array) or later.is_arraylike(value):
        array = later.as_array(value)
        if array.ndim == 0 and array.structure.is_leaf:
            return array._element(())[0]
        raise TracingError(
            f"{operation} needs a scalar here, got an array of rank {array.ndim}.",
            hint="Index it: a[i, j] inside a kernel reads one element; td.the(a) makes a scalar "
            "of a rank-0 array.",
        )
    raise no_operand(value, operation)


def typed_scalar(value: Any, type_: ScalarType) -> Any:
    """`td.float32(x)`: a typed literal, or a cast of a scalar or an array."""
    if isinstance(value, later.Array) or later.is_arraylike(value):
        return later.cast(value, type_)
    e = lift(value, f"td.{type_}{'_' * (type_ == bool_)}")
    whole = e.weak and e.type.is_integer and type_.is_integer
    return Scalar(fit_weak(e, type_) if whole else simplify.cast(e, type_))


def as_strong(e: Expr) -> Expr:
    """A weak value converted to its default type."""
    return simplify.cast(e, e.type) if e.weak else e


def fit_weak(e: Expr, type_: ScalarType) -> Expr:
    """Cast a weak value to `type_`; a literal that does not fit is an error."""
    if e.weak and promote(type_, False, e.type, True)[0] != type_ and not isinstance(e, Const):
        raise DTypeError(
            f"a {e.type} computed from extents and Python numbers does not fit in {type_}.",
            hint=f"Say how to convert it, as in td.{type_}(td.floor(x)), or convert the elements: "
            f"a.astype(td.{e.type}).",
        )
    if not (isinstance(e, Const) and e.weak):
        if e.weak and e.type.is_integer and type_.is_integer:
            _check_weak(e, type_)
        return simplify.cast(e, type_)
    if e.type.is_integer and type_.is_integer:
        value = int(e.value)
        if not type_.lowest <= value <= type_.highest:
            raise DTypeError(
                f"the literal {value} does not fit in {type_} ({type_.lowest} … {type_.highest}).",
                hint=f"Say what you mean: td.{e.type}({value}), or td.cast(td.{e.type}({value}), "
                f"td.{type_}) to wrap.",
            )
    unreal = e.type.is_complex and not type_.is_complex
    if unreal or (e.type.is_float and type_.is_integer and not float(e.value).is_integer()):
        raise DTypeError(
            f"the literal {e.value} does not fit in {type_}.",
            hint=f"Convert the array, a.astype(td.{e.type}), or say td.{type_}({e.value}).",
        )
    return simplify.cast(e, type_)


def _check_weak(e: Expr, type_: ScalarType) -> None:
    """Check in every call that a weak integer computed from arguments fits in its type."""
    least, most = bounds(e)
    parts = list(walk((e,)))
    numbers = [x for x in parts if isinstance(x, Param)]
    if not numbers or not all(isinstance(x, Const | Param | ex.Apply) for x in parts):
        return
    name = numbers[0].name.replace("{", "{{").replace("}", "}}")
    first, comma = (f"the argument {name}, ", ",") if len(parts) < 3 else ("the integer ", "")
    rest = f"{comma} does not fit in {type_} ({type_.lowest} … {type_.highest})."
    hint = f"Say what you mean: convert the array, or td.cast(td.int64(n), td.{type_}) to wrap."
    value, where = as_strong(e), errors.user_location()
    for limit, beyond, side in (
        (type_.lowest, least < type_.lowest, "left"),
        (type_.highest, most > type_.highest, "right"),
    ):
        if beyond:
            bound = Const(limit, e.type)
            left, right = (value, bound) if side == "left" else (bound, value)
            text = f"{first}{{{side}}}{rest}"
            numbers[0].fits += (Check(left, right, text, "DTypeError", ">=", hint, where),)


def unify(values: Sequence[Expr]) -> tuple[list[Expr], bool]:
    """All operands in their common type (by NumPy 2's rules), and whether that is still weak."""
    typed: ScalarType | None = None
    for e in values:
        if not e.weak:
            typed = e.type if typed is None else promote(typed, False, e.type, False)[0]
    loose = [e.weak and (typed is None or yields(e, typed)) for e in values]
    type_, weak = values[0].type, loose[0]
    for e, is_weak in zip(values[1:], loose[1:], strict=True):
        type_, weak = promote(type_, weak, e.type, is_weak)
    if weak:
        if type_ == uint64:  # a literal from 2**63 on: the other operand must fit, too
            values = [fit_weak(e, type_) for e in values]
        return [simplify.cast(e, type_, True) for e in values], True
    return [fit_weak(e, type_) for e in values], False


def unify_in_floats(values: Sequence[Expr]) -> tuple[list[Expr], bool]:
    """The operands of a function of floats: int8 and uint8 promote to float16, not to int16, and a
    Python number need not fit the integer type of the other operand."""
    integers = {e.type for e in values if not e.weak and not e.type.is_inexact}
    number = any(e.weak and e.type.is_integer and not _counts(e) for e in values)
    if len(integers) > 1 or (number and bool_ not in integers):
        values = [e if e.weak else simplify.cast(e, floating(e.type)) for e in values]
    return unify(values)


def yields(e: Expr, type_: ScalarType) -> bool:
    """Whether a weak value takes the type of the typed operand.

    Python numbers do.  Extents do if int64 would turn both operands into floats (next to floats or
    uint64).  Next to narrower integers they stay int64, so that counts do not overflow.
    """
    return e.weak and not (promote(e.type, False, type_, False)[0] == int64 and _counts(e))


def _counts(e: Expr) -> bool:
    """Whether a weak number is computed from extents.  Data-dependent extents are reads, as are
    Python numbers that are data."""
    return isinstance(e, ex.Apply) and any(
        isinstance(x, Extent) or (isinstance(x, ex.Read) and x.node.label.operation != "number")
        for x in walk((e,))
    )


def apply_primitive(name: str, operands: Sequence[Expr]) -> Expr:
    """Promote the operands, check the type rule, build the expression."""
    op = TABLE[name]
    if name in ("left_shift", "right_shift"):
        values, weak = unify(operands)
    elif name == "complex":
        values, weak = unify(operands)
        part = values[0].type if values[0].type.is_float else float64
        target = as_type(np.complex64 if part.bits <= 32 else np.complex128)
        part = as_type(np.float32 if target.bits == 64 else np.float64)
        return ex.Apply(op, tuple(simplify.cast(v, part) for v in values), target)
    elif name in ("arctan2", "hypot", "copysign", "nextafter"):
        values, weak = unify_in_floats(operands)
    elif name.startswith("logical_"):
        truths = tuple(as_truth(v) for v in operands)
        return simplify.apply(op, truths, bool_)
    else:
        exact = exact_comparison(name, operands)
        if exact is not None:
            return exact
        if name == "true_divide" and all(e.type.is_integer for e in operands):
            # The quotient is a float, so a literal need not fit the integer type of the other
            # operand.
            operands = [simplify.cast(e, float64, e.weak) if type(e) is Const else e
                        for e in operands]  # fmt: skip
        if name == "power":
            _refuse_inverse(*operands)
        values, weak = unify(operands)
    type_ = values[0].type
    ruled = op.rule(type_)
    if ruled is None:
        shown = ", ".join(str(e.type) for e in operands)
        hint = _hint_for(name, type_, operands)
        raise DTypeError(f"{name} is not defined for {shown}.", hint=hint)
    argument, result = ruled
    if argument != type_:
        values = [simplify.cast(v, argument, weak) for v in values]
    return simplify.apply(op, tuple(values), result, weak and result.family != "bool")


def _refuse_inverse(base: Expr, exponent: Expr) -> None:
    """Raise an error for integers to a negative power that is known at trace time."""
    whole = not base.type.is_inexact and exponent.type.is_integer
    if whole and isinstance(exponent, Const) and int(exponent.value) < 0:
        raise errors.ExponentError(
            f"integers to negative integer powers are not allowed, got the exponent "
            f"{int(exponent.value)}.",
            hint=f"Convert the base: a.astype(td.float64) ** {int(exponent.value)}.",
        )


def _hint_for(name: str, type_: ScalarType, operands: Sequence[Expr]) -> str | None:
    if type_.family == "bool" and name in ("subtract", "negative"):
        return "On booleans use ^ (exclusive or) and ~ (not), or convert: x.astype(td.int32)."
    if type_.is_complex:
        return "Complex numbers have no order; compare abs(z), z.real or z.imag."
    if not type_.is_float:
        return None
    if all(e.type.is_integer for e in operands):
        return (
            "No integer type holds both: convert the right operand, "
            f"y.astype(td.{operands[0].type})."
        )
    sign = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}.get(name)
    if sign == "^" and not operands[0].weak:
        return "A power is written with **: a ** 2."
    if sign is not None and any(e.weak or e.type.family == "bool" for e in operands):
        tight = f"{sign} binds more tightly than comparisons: (a > 1) {sign} (b < 2)."
        if operands[-1].weak and operands[-1].type.is_integer:
            return f"Integers have bits, x.astype(td.int64) {sign} 1.  {tight}"
        return tight
    return "Convert first: td.cast(x, td.int32)."


def as_truth(e: Expr) -> Expr:
    """The value converted to a boolean: whether it is nonzero."""
    if e.type.family == "bool":
        return simplify.cast(e, bool_)
    return simplify.apply(TABLE["not_equal"], (as_strong(e), Const(0, e.type)), bool_)


def as_index(value: Any, operation: str, wanted: str = "an integer index") -> Expr:
    """An index or an extent: an integer scalar in int64."""
    e = lift(value, operation)
    if not e.type.is_integer:
        raise DTypeError(
            f"{operation} needs {wanted}, got {e.type}.",
            hint="Convert it: td.cast(x, td.int64); floor division // keeps integers.",
        )
    return simplify.cast(e, int64)


def as_count(value: Any, operation: str) -> Expr:
    """An extent, a bound or a count in int64; larger values of uint64 are clamped."""
    e = lift(value, operation)
    if e.type == uint64:
        e = simplify.apply(TABLE["minimum"], (as_strong(e), Const(int64.highest, uint64)), uint64)
    return as_index(e, operation, "an integer")


# --- Exact comparisons of integers without a common integer type, as in NumPy 2 -------------------

COMPARISONS = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))
#: The comparison with exchanged operands.
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
             "greater_equal": "less_equal"}  # fmt: skip


def exact_comparison(name: str, operands: Sequence[Expr]) -> Expr | None:
    """An exact comparison of two integers whose common type cannot represent both: a Python integer
    that may not fit in the other type, or uint64 with a signed type.  None for other operands."""
    if name not in COMPARISONS:
        return None
    first, second = operands
    if not (first.type.is_integer and second.type.is_integer):
        return None
    if promote(first.type, False, second.type, False)[0].is_float:
        return _by_sign(name, first, second)
    if second.weak and not first.weak:
        return _with_number(name, first, simplify.cast(second, second.type))
    if first.weak and not second.weak:
        return _with_number(_MIRRORED.get(name, name), second, simplify.cast(first, first.type))
    return None


def _with_number(name: str, e: Expr, number: Expr) -> Expr | None:
    """Compare with an integer that may not fit in the type of `e`: clamp it to that type's range;
    if it was out of range, the result is constant.  None if it always fits."""
    least, most = bounds(number)
    if not wraps((least, most), e.type):
        return None
    low, high = (Const(limit, number.type) for limit in whole(e.type))
    above = simplify.apply(TABLE["greater"], (number, high), bool_)
    below = simplify.apply(TABLE["less"], (number, low), bool_)
    nearest = simplify.apply(TABLE["maximum"], (number, low), number.type)
    nearest = simplify.apply(TABLE["minimum"], (nearest, high), number.type)
    found = simplify.apply(TABLE[name], (e, simplify.cast(nearest, e.type)), bool_)
    for beyond, decides in ((above, ("less", "greater_equal")), (below, ("greater", "less_equal"))):
        if name in (decides[0], "not_equal"):
            found = simplify.apply(TABLE["logical_or"], (found, beyond), bool_)
        elif name in (decides[1], "equal"):
            inside = simplify.apply(TABLE["logical_not"], (beyond,), bool_)
            found = simplify.apply(TABLE["logical_and"], (found, inside), bool_)
    return found


def _by_sign(name: str, first: Expr, second: Expr) -> Expr:
    """Compare signed integers with uint64: negative ones are less; the others fit in uint64."""
    if not first.type.signed:
        return _by_sign(_MIRRORED.get(name, name), second, first)
    below = simplify.apply(TABLE["less"], (first, Const(0, first.type)), bool_)
    whole = tuple(simplify.cast(e, uint64) for e in (first, second))
    compared = simplify.apply(TABLE[name], whole, bool_)
    if name in ("less", "less_equal", "not_equal"):
        return simplify.apply(TABLE["logical_or"], (below, compared), bool_)
    inside = simplify.apply(TABLE["logical_not"], (below,), bool_)
    return simplify.apply(TABLE["logical_and"], (inside, compared), bool_)


later.offer(Scalar=Scalar, lift=lift, refuse_argument=refuse_argument, typed_scalar=typed_scalar)
