"""Decomposed primitives as C++ functions: a text defines each that it uses once
(`skeletons/ir/decompose.py` has the bodies)."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from treadle.dsl.expr import Apply, Expr, Var, unknown, walk
from treadle.dsl.types import ScalarType
from treadle.skeletons.ir.decompose import Function

from .layout import WIDTH, wrap
from .names import Names
from .operations import FUNCTIONS
from .scalars import EQUALITY, PRODUCT, SUM, Term

if TYPE_CHECKING:
    from .expressions import Expressions

#: At most this many operations are repeated rather than named.
_FEW = 3
#: Operators of complex numbers.
OPERATORS = {
    "add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT),
    "true_divide": ("/", PRODUCT), "equal": ("==", EQUALITY), "not_equal": ("!=", EQUALITY),
}  # fmt: skip
#: Names that differ from those of the C library and of the primitives.
_NAMES = {"remainder": "floor_remainder", "conjugate": "conj", "left_shift": "shift_left",
          "right_shift": "shift_right"}  # fmt: skip


def name_of(function: Function) -> str:
    """The C++ name of a function; operators are overloaded operators."""
    name = function.name
    if function.parameters[0].type.is_complex:
        if name in OPERATORS:
            return f"operator{OPERATORS[name][0]}"
        if name in ("negative", "absolute"):
            return "operator-" if name == "negative" else "abs"
        return _NAMES.get(name) or FUNCTIONS.get(name, name)
    return _NAMES.get(name, name)


def text(p: Expressions, function: Function, name: str, result: ScalarType,
         terms: dict[Var, Term]) -> str:  # fmt: skip
    """The definition of a function; `p` prints its body, in which parameters become `terms`."""
    names, given = Names(), []
    for v in function.parameters:
        if v in function.steps:
            terms[v] = Term(names.fresh(v.name))
            given.append(f"{p.type(v.type)} {terms[v].code}")
    body = _Body(p, function, names)
    body.write(function.result, 1)
    how = "__device__" if function.large else "__device__ __forceinline__"
    head = [f"// {line}" for line in textwrap.wrap(function.doc, WIDTH - 3)]
    head.append(f"{how} {p.type(result)} {name}({', '.join(given)}) {{")
    return "\n".join([*head, *body.lines, "}"])


class _Body:
    """The statements of a function; a chain of selections returns as early as possible."""

    def __init__(self, p: Expressions, function: Function, names: Names) -> None:
        self.p, self.function, self.names = p, function, names
        self.lines: list[str] = []

    def write(self, e: Expr, depth: int) -> None:
        """Compute `e` and return it."""
        while self._is_choice(e):
            condition, yes, no = e.args
            self._name(condition, depth)
            later = self._worth_names(no)
            self._name(yes, depth, [x for x in self._worth_names(yes) if x in later])
            if not self._is_choice(no) and not (self._worth_names(yes) or self._worth_names(no)):
                self._line(f"return {self.p.text(e)};", depth)
                return
            test = f"if ({self.p.text(condition)})"
            short = not self._is_choice(yes) and not self._worth_names(yes)
            line = f"{test} return {self.p.text(yes)};" if short else ""
            if short and 2 * depth + len(line) <= WIDTH:
                self._line(line, depth)
            else:
                self._line(f"{test} {{", depth)
                bound = dict(self.p.bound)
                with self.names.scope():
                    self.write(yes, depth + 1)
                self.p.bound = bound
                self._line("}", depth)
            e = no
        self._name(e, depth)
        self._line(f"return {self.p.text(e)};", depth)

    def _line(self, text: str, depth: int) -> None:
        self.lines += wrap("  " * depth + text)

    def _is_choice(self, e: Expr) -> bool:
        return isinstance(e, Apply) and e.op.name == "select" and e not in self.p.bound

    def _worth_names(self, e: Expr) -> list[Expr]:
        """The subexpressions of `e` that get a name: `function.names`, and those used again."""
        steps = unknown((e,), self.p.bound)
        uses = Counter([a for x in steps for a in x.args])
        return [x for x in steps if isinstance(x, Apply)
                and (x in self.function.names or (uses[x] > 1 and not self._is_short(x)))
                and x is not e]  # fmt: skip

    def _name(self, e: Expr, depth: int, wanted: list[Expr] | None = None) -> None:
        """Name subexpressions of `e`: `wanted`, or all of `_worth_names`."""
        pairs = _angles(e, self.p.bound) if wanted is None else {}
        wanted = self._worth_names(e) if wanted is None else wanted
        for x in walk((e,), lambda x: x not in self.p.bound):
            if x in self.p.bound or not isinstance(x, Apply):
                continue
            if x in pairs:
                sine, cosine = pairs[x]
                s, c = self.names.fresh("s"), self.names.fresh("c")
                self._line(f"double {s}, {c};", depth)
                self._line(f"sincos({self.p.text(x.args[0])}, &{s}, &{c});", depth)
                self.p.bound[sine], self.p.bound[cosine] = s, c
            elif x in wanted:
                text = self.p.text(x)
                name = self.names.fresh(self.function.names.get(x, "t"))
                self._line(f"const {self.p.type(x.type)} {name} = {text};", depth)
                self.p.bound[x] = name

    def _is_short(self, e: Expr) -> bool:
        """Whether `e` needs no name: a few cheap operations on named values."""
        steps = [x for x in walk((e,), self._is_inside) if self._is_inside(x)]
        return len(steps) <= _FEW and all(isinstance(x, Apply) and x.op.cost <= 2 for x in steps)

    def _is_inside(self, e: Expr) -> bool:
        """Whether `e` is printed inline."""
        return isinstance(e, Apply) and e not in self.p.bound and e not in self.function.names


def _angles(e: Expr, bound: dict[Expr, str]) -> dict[Expr, tuple[Expr, Expr]]:
    """Sines and cosines of the same float64, which one function (sincos) computes."""
    found: dict[Expr, dict[str, Expr]] = {}
    for x in walk((e,), lambda x: x not in bound):
        if isinstance(x, Apply) and x.op.name in ("sin", "cos") and x.type.name == "float64":
            if x not in bound:
                found.setdefault(x.args[0], {})[x.op.name] = x
    both = [(pair["sin"], pair["cos"]) for pair in found.values() if len(pair) == 2]
    return {x: pair for pair in both for x in pair}
