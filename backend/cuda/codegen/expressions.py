"""Expressions of kernel IR as C++ text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var
from treadle.dsl.types import ScalarType
from treadle.skeletons.ir.kernel import Buffer, Load

from . import casts, complexes, floats, integers, policies
from .facts import Facts
from .prelude import Prelude
from .scalars import (
    AND,
    CHOICE,
    PRODUCT,
    SUM,
    UNARY,
    Term,
    literal,
    type_name,
    unsigned_name,
)

#: The bits of a float as an integer, and back.
_BITS = {
    ("to_bits", 32): "__float_as_uint", ("to_bits", 64): "__double_as_longlong",
    ("from_bits", 32): "__uint_as_float", ("from_bits", 64): "__longlong_as_double",
}  # fmt: skip
LIBRARY = {**integers.HELPERS, **casts.HELPERS, **floats.HELPERS, **complexes.HELPERS,
           **policies.HELPERS}  # fmt: skip


class Expressions:
    """Prints expressions.

    `name` gives the text of a variable, `buffer` of a buffer.  What has been given a name in the
    text (`bind`) is printed as that name.
    """

    def __init__(self, prelude: Prelude, facts: Facts, name: Callable[[Var], Term],
                 buffer: Callable[[Buffer], str], fast_math: bool) -> None:  # fmt: skip
        self.prelude, self.facts, self.fast_math = prelude, facts, fast_math
        self._name, self._buffer = name, buffer
        self.bound: dict[Expr, str] = {}
        self.policies: dict[Buffer, str] = {}  # how the caches treat what is in a buffer
        self.foreign: dict[Any, str] = {}  # compiled scalar functions: their names
        self.failing: dict[Any, int] = {}  # those that may raise: what says so among the errors

    def use(self, key: str) -> None:
        self.prelude.use(key)

    def type(self, t: ScalarType) -> str:
        """The name of a type, declared when it is not C++'s own."""
        name = type_name(t)
        self.use(name)
        return name

    def is_named(self, e: Expr) -> bool:
        return e in self.bound

    def text(self, e: Expr) -> str:
        """An expression where any operator may stand."""
        return self.term(e).code

    def term(self, e: Expr) -> Term:
        bound = self.bound.get(e)
        if bound is not None:
            return Term(bound)
        if isinstance(e, Var):
            return self._name(e)
        if isinstance(e, Const):
            return self.literal(e)
        if isinstance(e, Load):
            place = f"{self._buffer(e.buffer)}[{self.index(e.index)}]"
            if e.buffer in self.policies:
                hinted = policies.load(self, e.buffer, f"&{place}", self.type(e.type), e.type.bytes)
                place = hinted or place
            return Term(place)
        if isinstance(e, Foreign):
            name = self.foreign[e.function]
            self.use(name)
            site = self.failing.get(e.function)
            told = () if site is None else (Term("errors"), Term(str(site)))
            return self.call(name, *(self.term(a) for a in e.args), *told)
        assert isinstance(e, Apply), f"{type(e).__name__} in kernel IR"
        return self._apply(e)

    def literal(self, e: Const) -> Term:
        term = literal(e)
        for macro in ("INFINITY", "NAN"):
            if macro in term.code:
                self.use(macro)
        if not e.type.is_integer:
            self.use(type_name(e.type))
        return term

    def _apply(self, e: Apply) -> Term:
        name = e.op.name
        source = e.args[0].type
        if name == "select":
            condition, yes, no = e.args
            return Term(f"{self.term(condition).within(CHOICE + 1)} ? "
                        f"{self.term(yes).within(CHOICE + 1)} : {self.term(no).within(CHOICE)}",
                        CHOICE)  # fmt: skip
        if name == "cast":
            return casts.cast(self, e.args[0], e.type)
        if name in ("to_bits", "from_bits"):
            made = self.call(_BITS[name, e.type.bits], self.term(e.args[0]))
            return self.cast(self.type(e.type), made) if name == "to_bits" else made
        if name == "complex":
            return self.call(self.type(e.type), *(self.term(a) for a in e.args))
        if source.is_complex:
            return complexes.number(self, e)
        if source.kind == "bool":
            return integers.boolean(self, e)
        if source.is_integer:
            return integers.integer(self, e)
        return floats.real(self, e)

    def index(self, e: Expr) -> str:
        """The place of an element: C++ widens it by itself."""
        if e not in self.bound and isinstance(e, Apply):
            if e.op.name == "cast" and e.args[0].type.is_integer:
                if e.args[0].type.bits <= e.type.bits and e.args[0].type.bits >= 32:
                    return self.text(e.args[0])
            if e.op.name in ("add", "subtract") and isinstance(e.args[1], Const):
                first = self.index(e.args[0])  # below 2³¹ with its constant: no 64 bits needed
                if first != self.text(e.args[0]):
                    symbol = "+" if e.op.name == "add" else "-"
                    value = int(e.args[1].value)
                    if value < 0:
                        symbol, value = "-" if symbol == "+" else "+", -value
                    return f"{first} {symbol} {value}"
        return self.text(e)

    # --- pieces ---

    def call(self, function: str, *args: Term) -> Term:
        return Term(f"{function}({', '.join(a.code for a in args)})")

    def binary(self, a: Expr, symbol: str, b: Expr, level: int) -> Term:
        """`a symbol b`, grouped as the tree is: only + × of a kind may drop the right brackets."""
        if symbol in _MIRRORED and isinstance(a, Const) and not isinstance(b, Const):
            a, symbol, b = b, _MIRRORED[symbol], a
        left, right = self.term(a), self.term(b)
        if symbol == "+" and isinstance(b, Const) and right.code.startswith("-"):
            return Term(f"{left.within(level)} - {right.code[1:]}", level)
        first = left.within(level)
        if symbol == "||" and left.level == AND:
            first = f"({left.code})"
        second = right.within(level + 1 if symbol not in ("&&", "||") else level)
        if symbol == "||" and right.level == AND:
            second = f"({right.code})"
        if second.startswith("-") and symbol in ("+", "-"):
            second = f"({second})"
        return Term(f"{first} {symbol} {second}", level)

    def with_right(self, a: Expr, symbol: str, right: str, level: int) -> Term:
        """Shifts: their operand with an operator of its own is put in parentheses."""
        return Term(f"{self.exact(a).within(PRODUCT + 1)} {symbol} {right}", level)

    def cast(self, type_: str, term: Term) -> Term:
        self.use(type_)
        return Term(f"({type_}){term.within(UNARY)}", UNARY)

    def narrowed(self, t: ScalarType, term: Term) -> Term:
        """C++ computes 8 and 16 bits in 32: back to the type."""
        return self.cast(self.type(t), term) if t.bits < 32 else term

    def rounded(self, t: ScalarType, term: Term) -> Term:
        """A float as its half-precision type."""
        return Term(f"{self.type(t)}({term.code})") if t.bits == 16 else term

    def as_float(self, e: Expr) -> Term:
        """A real float as the type it is computed in, for templates and overloads."""
        term = self.term(e)
        if e.type.bits == 16:
            return Term(f"(float){term.within(UNARY)}", UNARY)
        return term

    def exact(self, e: Expr) -> Term:
        """An operand whose C++ type is exactly its own, for templates and overloads."""
        term = self.term(e)
        if self._says_its_type(e):
            return term
        if isinstance(e, Const) and e.type.bits == 64:
            plain = e.type.signed and term.code.lstrip("-").isdigit()
            return Term(f"{term.code}ll", term.level) if plain else term
        return self.cast(self.type(e.type), term)

    def _says_its_type(self, e: Expr) -> bool:
        """Whether C++ gives an integer expression its own type: literals and what is picked of
        them may be int."""
        if e in self.bound or not e.type.is_integer or e.type.name in ("int32", "uint32"):
            return True
        if isinstance(e, Const):
            return False
        if not isinstance(e, Apply):
            return True
        if e.op.name == "select":
            return all(self._says_its_type(a) for a in e.args[1:])
        if e.op.name in ("floor", "ceil", "trunc", "rint", "conjugate", "real", "absolute"):
            return self._says_its_type(e.args[0])
        if e.op.name == "cast" and e.args[0].type == e.type:
            return self._says_its_type(e.args[0])
        if e.op.name == "imag":
            return False
        if e.type.bits < 32 or e.op.name in ("cast", "sign"):
            return True  # by a cast, or a function's result
        return any(self._says_its_type(a) for a in e.args)

    def wrapped(self, e: Apply, t: ScalarType) -> Term:
        """+ − × on integers, which wrap: in unsigned arithmetic where they might."""
        if t.bits < 32:
            product = t.name == "uint16" and e.op.name in ("multiply", "fma")
            if e.op.name in ("add", "subtract"):
                return self.narrowed(t, self._sum(e))
            return self.narrowed(t, self._unsigned(e, t) if product else self._linear(e))
        if not t.signed or self.facts.is_plain(e):
            return self._linear(e)
        return self.cast(self.type(t), self._unsigned(e, t))

    def _sum(self, e: Apply) -> Term:
        """A sum of 8 or 16 bits, in the int that C++ computes it in: only its end is narrowed."""
        a, b = e.args
        symbol = "+" if e.op.name == "add" else "-"
        if not (isinstance(a, Apply) and a.op.name in ("add", "subtract")) or a in self.bound:
            return self.binary(a, symbol, b, SUM)
        return Term(f"{self._sum(a).code} {symbol} {self.term(b).within(SUM + 1)}", SUM)

    def _linear(self, e: Apply) -> Term:
        """As C++'s operators."""
        name, args = e.op.name, e.args
        if name == "negative":
            return Term(f"-{self.term(args[0]).within(UNARY + 1)}", UNARY)
        if name == "fma":
            product = self.binary(args[0], "*", args[1], PRODUCT)
            return Term(f"{product.code} + {self.term(args[2]).within(SUM + 1)}", SUM)
        symbol, level = _SYMBOLS[name]
        if name == "add" and (taken := self._negated(args[1])) is not None:
            return self.binary(args[0], "-", taken, level)
        if e.type.bits == 64 and not any(self._says_its_type(a) for a in args):
            left, right = self.exact(args[0]), self.term(args[1])
            return Term(f"{left.within(level)} {symbol} {right.within(level + 1)}", level)
        return self.binary(args[0], symbol, args[1], level)

    def _negated(self, e: Expr) -> Expr | None:
        """The x of `x · −1` and `0 − x`, which do not wrap."""
        if not isinstance(e, Apply) or e in self.bound or not self.facts.is_plain(e):
            return None
        if e.op.name not in ("multiply", "subtract"):
            return None
        known, x = e.args[::-1] if e.op.name == "multiply" else e.args
        minus = -1 if e.op.name == "multiply" else 0
        return x if isinstance(known, Const) and int(known.value) == minus else None

    def _unsigned(self, e: Apply, t: ScalarType) -> Term:
        """The same, of a type that C++ computes modulo 2 to the width."""
        name, args = e.op.name, e.args
        if name == "negative":
            inner = self._as_unsigned(args[0], t).within(UNARY)
            return Term(f"-({inner})" if inner.startswith("-") else f"-{inner}", UNARY)
        if name == "fma":
            product = f"{self._as_unsigned(args[0], t).within(PRODUCT)} * " + self.term(
                args[1]).within(PRODUCT + 1)  # fmt: skip
            return Term(f"{product} + {self.term(args[2]).within(SUM + 1)}", SUM)
        symbol, level = _SYMBOLS[name]
        a, b = args
        constant = isinstance(b, Const) and (t.bits >= 32)
        left = self._as_unsigned(a, t, force=not (constant or self._wraps(b, t)))
        right = self._as_unsigned(b, t, force=False)
        if constant:
            value = int(b.value)  # type: ignore[attr-defined]
            if symbol == "+" and -(2**20) < value < 0:
                symbol, value = "-", -value
            right = Term(f"{value % (1 << t.bits)}{'u' if t.bits == 32 else 'ull'}")
        return Term(f"{left.within(level)} {symbol} {right.within(level + 1)}", level)

    def _wraps(self, e: Expr, t: ScalarType) -> bool:
        """Whether `e` is printed as unsigned arithmetic."""
        return (isinstance(e, Apply) and e.op.name in _LINEAR and e not in self.bound
                and e.type == t and t.bits >= 32 and not self.facts.is_plain(e))  # fmt: skip

    def _as_unsigned(self, e: Expr, t: ScalarType, force: bool = True) -> Term:
        if self._wraps(e, t):
            assert isinstance(e, Apply)
            return self._unsigned(e, t)
        return self.cast(unsigned_name(t.bits), self.term(e)) if force else self.term(e)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_SYMBOLS = {"add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT)}
_LINEAR = (*_SYMBOLS, "negative", "fma")
