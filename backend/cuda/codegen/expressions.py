"""Expressions of kernel IR as C++ text."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, constant, substitute, walk
from treadle.dsl.primitives import is_rounded
from treadle.dsl.target import CUDA
from treadle.dsl.types import ScalarType, int64
from treadle.skeletons.ir.decompose import (
    Function,
    definition,
    depends_on_operands,
    is_decomposed,
    of_constant,
)
from treadle.skeletons.ir.kernel import Buffer, Kernel, Load
from treadle.skeletons.ir.rules import Operand

from . import functions, operations, policies
from .facts import Facts
from .prelude import Helper, Prelude
from .scalars import (
    AND,
    CHOICE,
    PRODUCT,
    SUM,
    UNARY,
    Term,
    literal,
    number,
    part,
    type_name,
    unsigned_name,
)

LIBRARY = {**operations.HELPERS, **policies.HELPERS}


class Expressions:
    """Prints expressions.

    `name` returns the text of a variable, `buffer` that of a buffer.  An expression that has a name
    in the text (`bind`) is printed as that name.
    """

    def __init__(self, prelude: Prelude, facts: Facts, name: Callable[[Var], Term],
                 buffer: Callable[[Buffer], str], fast_math: bool) -> None:  # fmt: skip
        self.prelude, self.facts, self.fast_math = prelude, facts, fast_math
        self._name, self._buffer = name, buffer
        self.bound: dict[Expr, str] = {}
        self.policies: dict[Buffer, str] = {}  # cache policies of buffers
        self.foreign: dict[Any, str] = {}  # compiled scalar functions: their names
        self.failing: dict[Any, int] = {}  # those that may raise: their error codes
        self._bodies: dict[Expr, Expr] = {}  # replacements of operations
        self.precise: set[Expr] = set()  # parts of decompositions, not approximated

    def use(self, key: str) -> None:
        self.prelude.use(key)

    def type(self, t: ScalarType) -> str:
        """The name of a type, which is declared if it is not built into C++."""
        name = type_name(t)
        self.use(name)
        return name

    def is_named(self, e: Expr) -> bool:
        return e in self.bound

    def text(self, e: Expr) -> str:
        """An expression in a context that accepts any operator without parentheses."""
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
            element = f"{self._buffer(e.buffer)}[{self.index(e.index)}]"
            if e.buffer in self.policies:
                kind, size = self.type(e.type), e.type.bytes
                element = policies.load(self, e.buffer, f"&{element}", kind, size) or element
            return Term(element)
        if isinstance(e, Foreign):
            name = self.foreign[e.function]
            self.use(name)
            site = self.failing.get(e.function)
            report = () if site is None else (Term("errors"), Term(str(site)))
            return self.call(name, *(self.term(a) for a in e.args), *report)
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
        if e.op.name == "select":
            condition, yes, no = e.args
            return Term(f"{self.term(condition).within(CHOICE + 1)} ? "
                        f"{self.term(yes).within(CHOICE + 1)} : {self.term(no).within(CHOICE)}",
                        CHOICE)  # fmt: skip
        bound = self.bound
        constants = all(isinstance(a, Const) for a in e.args)
        if constants and e.args and is_rounded(e.op, e.args[0].type):
            self.bound = {**bound, **{a: self._opaque(a) for a in e.args if isinstance(a, Const)}}
        try:
            function = self._definition(e)
            if function is None:
                return operations.operation(self, e)
            return self._inlined(e, function) or self._call(e, function)
        finally:
            self.bound = bound

    def _opaque(self, e: Const) -> str:
        """A constant that the CUDA compiler does not compute with: its functions round in another
        way than those of the GPU."""
        t = e.type
        if t.bits == 16:  # is made by an instruction
            return self.literal(e).code
        self.use("opaque")
        if not t.is_complex:
            return f"opaque({self.literal(e).code})"
        self.use(t.name)
        parts = (number(float(x), part(t)).code for x in (e.value.real, e.value.imag))
        return f"{t.name}({', '.join(f'opaque({x})' for x in parts)})"

    def _definition(self, e: Apply) -> Function | None:
        """The decomposition of an operation, if the target does not provide it."""
        types = [a.type for a in e.args]
        if not is_decomposed(e.op, types[0]):
            return None
        if depends_on_operands(e.op):
            found = definition(CUDA, e.op, e.type, *map(self._known, e.args))
            if found is None or found.inline:
                return found
        return definition(CUDA, e.op, e.type, *map(Operand, types))

    def _known(self, e: Expr) -> Operand:
        t = e.type
        if isinstance(e, Const):
            return of_constant(t, e.value)
        if not t.is_integer:
            return Operand(t)
        low, high = self.facts.range(e)
        return Operand(t, None, low >= 0, low > 0, low > 0 or high < 0, low >= 0 and high < t.bits)

    def _inlined(self, e: Apply, function: Function) -> Term | None:
        """The body of a function instead of a call, if that duplicates no operand."""
        if not function.inline:
            return None
        body = self._bodies.get(e)
        if body is None:
            uses = Counter(a for x in function.steps for a in x.args)
            pairs: dict[Expr, Expr] = dict(zip(function.parameters, e.args, strict=True))
            if any(uses[v] > 1 and not self._is_short(a) for v, a in pairs.items()):
                return None
            (body,) = substitute((function.result,), pairs)
            self._bodies[e] = body
            self.precise.update(x for x in walk((body,), lambda x: x not in e.args)
                                if x not in e.args)  # fmt: skip
        return self.term(body)

    def _call(self, e: Apply, function: Function) -> Term:
        """A call of the function that implements an operation."""
        name = functions.name_of(function)
        self.prelude.include(_written(function, name, e.type))
        args = [a for a, v in zip(e.args, function.parameters, strict=True) if v in function.steps]
        if not name.startswith("operator"):
            return self.call(name, *map(self.exact, args))
        symbol = name.removeprefix("operator")
        if len(args) == 1:
            return Term(f"{symbol}{self.term(args[0]).within(UNARY + 1)}", UNARY)
        return self.binary(args[0], symbol, args[1], functions.OPERATORS[function.name][1])

    def _is_short(self, e: Expr) -> bool:
        """Whether its text is a name, a member of one, or a literal."""
        code = self.term(e).code
        return isinstance(e, Const) or code.replace(".", "_").isidentifier()

    def operand(self, e: Expr) -> Term:
        """An operand in a context where C++ converts half precision to float implicitly."""
        if e in self.precise and e not in self.bound and isinstance(e, Apply):
            if e.op.name == "cast" and e.type.name == "float32" and e.args[0].type.bits == 16:
                if e.args[0].type.is_float:
                    return self.term(e.args[0])
        return self.term(e)

    def index(self, e: Expr) -> str:
        """The index of an element, without a widening cast: C++ widens it implicitly."""
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

    # --- parts ---

    def call(self, function: str, *args: Term) -> Term:
        return Term(f"{function}({', '.join(a.code for a in args)})")

    def binary(self, a: Expr, symbol: str, b: Expr, level: int) -> Term:
        """`a symbol b`, grouped as the tree is: only + × of a kind may drop the right brackets."""
        if symbol in _MIRRORED and isinstance(a, Const) and not isinstance(b, Const):
            a, symbol, b = b, _MIRRORED[symbol], a
        left, right = self.operand(a), self.operand(b)
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
        """A shift; a left operand that contains an operator is put in parentheses."""
        return Term(f"{self.exact(a).within(PRODUCT + 1)} {symbol} {right}", level)

    def cast(self, type_: str, term: Term) -> Term:
        self.use(type_)
        return Term(f"({type_}){term.within(UNARY)}", UNARY)

    def narrowed(self, t: ScalarType, term: Term) -> Term:
        """Convert a result back to its type: C++ computes 8 and 16 bits in 32."""
        return self.cast(self.type(t), term) if t.bits < 32 else term

    def exact(self, e: Expr) -> Term:
        """An operand whose C++ type is exactly its own, for templates and overloads."""
        term = self.term(e)
        if self._has_own_type(e):
            return term
        if isinstance(e, Const) and e.type.bits == 64:
            plain = e.type.signed and term.code.lstrip("-").isdigit()
            return Term(f"{term.code}ll", term.level) if plain else term
        return self.cast(self.type(e.type), term)

    def _has_own_type(self, e: Expr) -> bool:
        """Whether the C++ type of an integer expression is its type: literals and selections of
        literals may be int."""
        if e in self.bound or not e.type.is_integer or e.type.name in ("int32", "uint32"):
            return True
        if isinstance(e, Const):
            return False
        if e in self._bodies:
            return self._has_own_type(self._bodies[e])
        if not isinstance(e, Apply):
            return True
        if e.op.name == "select":
            return all(self._has_own_type(a) for a in e.args[1:])
        if e.type.bits < 32 or e.op.name in ("cast", "sign"):
            return True  # by a cast, or a function's result
        return any(self._has_own_type(a) for a in e.args)

    def wrapped(self, e: Apply, t: ScalarType) -> Term:
        """Wrapping + − × on integers: in unsigned arithmetic where they might overflow."""
        if t.bits < 32:
            product = t.name == "uint16" and e.op.name == "multiply"
            if e.op.name in ("add", "subtract"):
                return self.narrowed(t, self._sum(e))
            return self.narrowed(t, self._unsigned(e, t) if product else self._linear(e))
        if not t.signed or self.facts.is_plain(e):
            return self._linear(e)
        return self.cast(self.type(t), self._unsigned(e, t))

    def _sum(self, e: Apply) -> Term:
        """A sum of 8 or 16 bits, computed as int in C++: only the final result is narrowed."""
        a, b = e.args
        symbol = "+" if e.op.name == "add" else "-"
        if not (isinstance(a, Apply) and a.op.name in ("add", "subtract")) or a in self.bound:
            return self.binary(a, symbol, b, SUM)
        return Term(f"{self._sum(a).code} {symbol} {self.term(b).within(SUM + 1)}", SUM)

    def _linear(self, e: Apply) -> Term:
        """Linear arithmetic as C++ operators."""
        name, args = e.op.name, e.args
        if name == "negative":
            return Term(f"-{self.term(args[0]).within(UNARY + 1)}", UNARY)
        symbol, level = _SYMBOLS[name]
        if name == "add" and (taken := self._negated(args[1])) is not None:
            return self.binary(args[0], "-", taken, level)
        if e.type.bits == 64 and not any(self._has_own_type(a) for a in args):
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
        """The same in an unsigned type, in which C++ computes modulo 2 to the width."""
        name, args = e.op.name, e.args
        if name == "negative":
            inner = self._as_unsigned(args[0], t).within(UNARY)
            return Term(f"-({inner})" if inner.startswith("-") else f"-{inner}", UNARY)
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


@functools.lru_cache(maxsize=512)
def _written(function: Function, name: str, result: ScalarType) -> Prelude:
    """The text of a function, preceded by the helpers it needs."""
    made, terms = Prelude(LIBRARY), dict[Var, Term]()
    task = Var("task", int64)
    nothing = Facts(Kernel("", (), (), (), constant(1), task, ()))  # no facts are known
    p = Expressions(made, nothing, terms.__getitem__, lambda b: b.name, False)
    key = f"{function.name} {function.parameters[0].type.name} {result.name}"
    made.add(key, Helper(functions.text(p, function, name, result, terms)))
    made.use(key)
    return made


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_SYMBOLS = {"add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT)}
_LINEAR = (*_SYMBOLS, "negative")
