"""Host expressions (extents, scalar arguments, trip counts) compiled to plain Python.

A program evaluates them at every call, so they become one generated function per step: integers
as Python ints, everything else through the primitives' own meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dsl.expr import Apply, Cond, Const, Expr, Extent, Param, Proj, Read, walk
from treadle.dsl.graph import Leaf
from treadle.dsl.primitives import convert
from treadle.skeletons.kernel.build import Stride
from treadle.skeletons.kernel.narrow import Reciprocal, reciprocal

# Extents stay far below 2^63, so wrapping need not be modelled for these.
_INTEGER_FORMS = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "minimum": "min({0}, {1})",
    "maximum": "max({0}, {1})",
    "negative": "(-{0})",
    "floor_divide": "_floor_divide({0}, {1})",
    "remainder": "_remainder({0}, {1})",
    "less": "({0} < {1})",
    "less_equal": "({0} <= {1})",
    "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})",
    "equal": "({0} == {1})",
    "not_equal": "({0} != {1})",
    "select": "({1} if {0} else {2})",
    "logical_and": "({0} and {1})",
    "logical_or": "({0} or {1})",
    "logical_not": "(not {0})",
}


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a % b if b else 0


_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def _wrap(value: int, bits: int = 64, signed: bool = True) -> int:
    """An integer as it wraps."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def _stride(array: Any, axis: int) -> int:
    return int(array.strides[axis] // array.itemsize)


def _general(op: Any, type_: Any, *args: Any) -> Any:
    with np.errstate(all="ignore"):
        if op.name == "cast":
            return convert(np.asarray(args[0]), type_)[()]
        return convert(np.asarray(op.numpy(*args)), type_)[()]


_SMALL = frozenset(
    {"add", "subtract", "multiply", "minimum", "maximum", "negative", "select", "logical_and",
     "logical_or", "logical_not", "less", "less_equal", "greater", "greater_equal", "equal",
     "not_equal", "cast"}
)  # fmt: skip
_WRAPPING = ("add", "subtract", "multiply", "negative")


def is_host_work(elements: Sequence[Expr]) -> bool:
    """Whether rank-0 elements are a few integer operations, comparisons or truth values: exact on
    the host, and done before a kernel would have been launched."""
    nodes = list(walk(elements))
    if len(nodes) > 32:
        return False
    for e in nodes:
        if e.type is None or not (e.type.kind == "bool" or e.type.is_integer):
            if not (isinstance(e, Const | Read | Param) and e.type and e.type.kind == "float"):
                return False
        if isinstance(e, Apply):
            if e.op.name not in _SMALL:
                return False
            if e.op.name == "cast" and e.args[0].type.is_inexact:
                return False
        elif isinstance(e, Read):
            if e.args or e.boundary is not None:
                return False
        elif not isinstance(e, Const | Param | Extent):
            return False
    return True


class HostCompiler:
    """Turns host expressions into one function of (arrays, params).

    `slot(node)` is the position in `arrays` of an input's array; rank-0 reads of leaves come from
    `leaf_slot(leaf)`.
    """

    def __init__(
        self, slot: Callable[[Leaf], int], param_index: dict[Param, int], wrap: bool = False
    ) -> None:
        self.slot, self.param_index, self.wrap = slot, param_index, wrap

    def compile(
        self, roots: Sequence[Expr]
    ) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
        """A function from (arrays by slot, params) to the values of `roots`."""
        lines: list[str] = []
        names: dict[Expr, str] = {}
        space: dict[str, Any] = {
            "_floor_divide": _floor_divide,
            "_remainder": _remainder,
            "_general": _general,
            "_stride": _stride,
            "_wrap": _wrap,
            "_reciprocal": reciprocal,
        }
        for e in walk(roots):
            text = self._one(e, names, space)
            if text is None:
                continue
            if isinstance(e, Const | Extent) and text.isidentifier():
                names[e] = text
                continue
            name = f"v{len(names)}"
            lines.append(f"    {name} = {text}")
            names[e] = name
        results = "".join(f"{names[r]}, " for r in roots)
        source = "def host(A, P):\n" + "\n".join(lines) + f"\n    return ({results})\n"
        exec(compile(source, "<treadle host>", "exec"), space)  # our own text, nothing of a user's
        made: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]] = space["host"]
        return made

    def _one(self, e: Expr, names: dict[Expr, str], space: dict[str, Any]) -> str | None:
        def held(value: Any) -> str:
            name = f"c{len(space)}"
            space[name] = value
            return name

        if isinstance(e, Const):
            return repr(int(e.value)) if e.type.is_integer else held(e.value)
        if isinstance(e, Extent):
            return f"A[{self.slot(Leaf(e.node, 0))}].shape[{e.axis}]"
        if isinstance(e, Stride):
            return f"_stride(A[{self.slot(e.leaf)}], {e.axis})"
        if isinstance(e, Reciprocal):
            return f"_reciprocal({names[e.args[0]]}, {e.part!r})"
        if isinstance(e, Param):
            where = self.param_index[e]
            t = held(e.type.numpy.type)
            return f"int(P[{where}])" if e.type.is_integer else f"{t}(P[{where}])"
        if isinstance(e, Read):
            slot = self.slot(Leaf(e.node, e.component))
            place = "".join(f"{names[a]}, " for a in e.args)
            value = f"A[{slot}][({place})]"
            return f"int({value})" if e.type.is_integer else value
        if isinstance(e, Apply):
            args = [names[a] for a in e.args]
            integral = all(not a.type.is_inexact for a in e.args)
            if (
                e.op.name == "cast"
                and e.type.is_integer
                and e.type.bits == 64
                and (e.args[0].type.is_integer or e.args[0].type.kind == "bool")
                and (e.args[0].type.name != "uint64")
            ):
                return f"int({args[0]})"
            if self.wrap and e.op.name == "cast" and integral and e.type.is_integer:
                return f"_wrap(int({args[0]}), {e.type.bits}, {e.type.signed})"
            if (
                e.op.name in _INTEGER_FORMS
                and integral
                and (e.type.kind == "bool" or e.type.bits == 64 or self.wrap)
            ):
                text = _INTEGER_FORMS[e.op.name].format(*args)
                wraps = self.wrap and e.op.name in _WRAPPING and e.type.is_integer
                return f"_wrap({text}, {e.type.bits}, {e.type.signed})" if wraps else text
            if self.wrap and e.op.name in _COMPARISONS:
                return _INTEGER_FORMS[e.op.name].format(*args)
            typed = ", ".join(
                f"{held(a.type.numpy.type)}({n})" for a, n in zip(e.args, args, strict=True)
            )
            value = f"_general({held(e.op)}, {held(e.type)}, {typed})"
            return f"int({value})" if e.type.is_integer else value
        if isinstance(e, Cond):
            n = len(e.types)
            then = "".join(f"{names[s]}, " for s in e.scoped[:n])
            other = "".join(f"{names[s]}, " for s in e.scoped[n:])
            return f"(({then}) if {names[e.args[0]]} else ({other}))"
        if isinstance(e, Proj):
            return f"{names[e.args[0]]}[{e.which}]"
        raise AssertionError(f"{type(e).__name__} cannot be evaluated on the host: {e!r}")
