"""The vocabulary in which the rules of `decompose.py` are written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field
from typing import Any

from treadle.dsl.expr import Apply, Const, Expr
from treadle.dsl.primitives import KERNEL, TABLE, Primitive
from treadle.dsl.records import dataclass
from treadle.dsl.target import Target
from treadle.dsl.types import ScalarType, bool_


@dataclass(frozen=True)
class Operand:
    """Known facts on an operand: its type; its value if constant; for integers, whether it is ≥ 0
    (`natural`), > 0 (`positive`), nonzero, or a shift count below the bit width."""

    type: ScalarType
    constant: Any = None
    natural: bool = False
    positive: bool = False
    nonzero: bool = False
    within: bool = False


@dataclass(eq=False)
class Body:
    """The body of a function under construction."""

    target: Target
    operands: dict[Expr, Operand]
    names: dict[Expr, str] = field(default_factory=dict)
    inline: bool = False
    name: str = ""
    doc: str = ""

    def has(self, operation: str) -> bool:
        """Whether the target implements an operation natively."""
        return operation in self.target.operations


def _binary(name: str, of_bools: str = "") -> Callable[[Value, Operandlike], Value]:
    """The operator of a primitive, or of another primitive for bools."""
    return lambda a, b: a.apply(TABLE[of_bools if of_bools and a.type == bool_ else name], b)


def _reflected(name: str) -> Callable[[Value, complex], Value]:
    """The operator of a primitive whose first operand is a Python number."""
    return lambda b, a: b.literal(a).apply(TABLE[name], b)


class Value:
    """A value in the body of a function: operators and methods (`x.sin()`) apply primitives.

    Python numbers become constants of the value's type.
    """

    __slots__ = ("body", "expr")

    def __init__(self, body: Body, expr: Expr) -> None:
        self.body, self.expr = body, expr

    @property
    def type(self) -> ScalarType:
        return self.expr.type

    @property
    def known(self) -> Operand:
        return self.body.operands.get(self.expr) or Operand(self.type)

    def named(self, name: str) -> Value:
        """This value, with a name in the generated C++."""
        self.body.names[self.expr] = name
        return self

    def literal(self, value: complex, type_: ScalarType | None = None) -> Value:
        """A constant of this value's type, or of `type_`."""
        return Value(self.body, Const(value, type_ or self.type))

    def apply(self, op: Primitive, *others: Operandlike, type_: ScalarType | None = None) -> Value:
        """Apply a primitive to this value and others."""
        args = [self, *(o if isinstance(o, Value) else self.literal(o) for o in others)]
        if type_ is None:
            ruled = op.rule(args[0].type)
            assert ruled is not None, f"{op.name} of {args[0].type}"
            type_ = ruled[1]
        return Value(self.body, Apply(op, tuple(a.expr for a in args), type_))

    def cast(self, type_: ScalarType) -> Value:
        return self if type_ == self.type else self.apply(TABLE["cast"], type_=type_)

    def where(self, yes: Operandlike, no: Operandlike) -> Value:
        if not isinstance(yes, Value):
            assert isinstance(no, Value)
            yes = no.literal(yes)
        return self.apply(TABLE["select"], yes, no if isinstance(no, Value) else yes.literal(no),
                          type_=yes.type)  # fmt: skip

    def __getattr__(self, name: str) -> Callable[..., Value]:
        op = TABLE.get(name) or KERNEL.get(name)
        if op is None:
            raise AttributeError(name)
        return functools.partial(self.apply, op)

    @property
    def real(self) -> Value:
        return self.apply(TABLE["real"])

    @property
    def imag(self) -> Value:
        return self.apply(TABLE["imag"])

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("true_divide"), _reflected("true_divide")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__ = _binary("equal")  # type: ignore[assignment]
    __ne__ = _binary("not_equal")  # type: ignore[assignment]
    __and__ = _binary("bitwise_and", "logical_and")
    __or__ = _binary("bitwise_or", "logical_or")
    __xor__ = _binary("bitwise_xor", "logical_xor")

    def __neg__(self) -> Value:
        return self.apply(TABLE["negative"])

    def __abs__(self) -> Value:
        return self.apply(TABLE["absolute"])


Operandlike = Value | complex


def where(condition: Value, yes: Operandlike, no: Operandlike) -> Value:
    """`yes` where the condition holds, else `no`; one of them is a `Value`."""
    return condition.where(yes, no)


def inline(value: Value, name: str = "") -> Value:
    """Mark the function as inline: its body is as short as a call.  `name` replaces the primitive's
    name for calls, which are used where an operand is long."""
    value.body.inline, value.body.name = True, name
    return value


#: Names of small powers.
POWERS = {1: "", 2: "square", 3: "cube", 4: "fourth_power"}


# --- rules ------------------------------------------------------------------------------------

Rule = Callable[..., "Value | None"]
#: By kind of operand ("bool", "integer", "half", "float", "complex") and primitive: the rule, and
#: whether the functions it makes are large.
RULES: dict[tuple[str, str], tuple[Rule, bool]] = {}


def rule(kinds: str, *names: str, large: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for primitives (by default that of the function's name) on operands of some
    kinds.  If the rule returns None, the primitive is an operation of the target."""

    def enter(made: Rule) -> Rule:
        for kind in kinds.split():
            for name in names or (made.__name__.rstrip("_"),):
                assert (kind, name) not in RULES, f"two rules for {name} of {kind}"
                RULES[kind, name] = made, large
        return made

    return enter


def kind_of(t: ScalarType) -> str:
    """The kind of an operand, by which rules are selected."""
    if t.is_complex or t.family == "bool":
        return t.family
    if t.is_integer:
        return "integer"
    return "half" if t.bits == 16 else "float"
