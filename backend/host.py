"""Host expressions (extents, scalar arguments, trip counts) compiled to plain Python.

A program evaluates them at every call, so they become one generated function per step: integers
as Python ints, everything else through the primitives' own meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.dsl.expr import Apply, Cond, Const, Expr, Extent, Param, Proj, Read, walk
from treadle.dsl.graph import Leaf
from treadle.dsl.primitives import TABLE, convert
from treadle.dsl.types import ALL_TYPES, ScalarType, int32, int64
from treadle.skeletons.kernel.hosted import Reciprocal, Stride, reciprocal

_TYPES = {t.name: t for t in ALL_TYPES}

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


@dataclass(frozen=True)
class HostFunction:
    """Host expressions as plain data, which `function` compiles.

    `entries` are lists of strings and numbers that refer to earlier ones by their position:
    `["extent", slot, axis]`, `["apply", "add", "int64", [0, 1]]`, …; `results` are positions.
    `wrap`: integers wrap (where they are a program's, not extents).
    """

    entries: Sequence[Sequence[Any]]
    results: Sequence[int]
    wrap: bool = False

    def data(self) -> list[Any]:
        """For JSON; `of` is the way back."""
        return [list(self.entries), list(self.results), self.wrap]

    @staticmethod
    def of(data: Sequence[Any]) -> HostFunction:
        entries, results, wrap = data
        return HostFunction([list(e) for e in entries], [int(r) for r in results], bool(wrap))

    def function(self) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
        """A function from (arrays by slot, params) to the values of the results."""
        space: dict[str, Any] = {
            "_floor_divide": _floor_divide,
            "_remainder": _remainder,
            "_general": _general,
            "_stride": _stride,
            "_wrap": _wrap,
            "_reciprocal": reciprocal,
        }
        writer = _Writer(space, self.wrap)
        for entry in self.entries:
            writer.entry(*entry)
        results = "".join(f"{writer.names[int(r)]}, " for r in self.results)
        body = "\n".join(writer.lines)
        source = f"def host(A, P):\n{body}\n    return ({results})\n"
        exec(compile(source, "<treadle host>", "exec"), space)  # our own text, nothing of a user's
        made: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]] = space.pop("host")
        return made


class _Writer:
    """Python text for entries: a line each, but for constants."""

    def __init__(self, space: dict[str, Any], wrap: bool) -> None:
        self.space, self.wrap = space, wrap
        self.lines: list[str] = []
        self.names: list[str] = []
        self.types: list[ScalarType | None] = []

    def entry(self, kind: str, *fields: Any) -> None:
        text, type_ = getattr(self, f"_{kind}")(*fields)
        if kind != "const":
            name = f"v{len(self.names)}"
            self.lines.append(f"    {name} = {text}")
            text = name
        self.names.append(text)
        self.types.append(type_)

    def _held(self, value: Any) -> str:
        name = f"c{len(self.space)}"
        self.space[name] = value
        return name

    def _const(self, type_: str, data: str) -> tuple[str, ScalarType]:
        t = _TYPES[type_]
        (value,) = np.frombuffer(bytes.fromhex(data), t.numpy)
        return repr(int(value)) if t.is_integer else self._held(value), t

    def _extent(self, slot: int, axis: int) -> tuple[str, ScalarType]:
        return f"A[{int(slot)}].shape[{int(axis)}]", int64

    def _stride(self, slot: int, axis: int) -> tuple[str, ScalarType]:
        return f"_stride(A[{int(slot)}], {int(axis)})", int64

    def _reciprocal(self, divisor: int, part: str) -> tuple[str, ScalarType]:
        return f"_reciprocal({self.names[divisor]}, {part!r})", int32

    def _param(self, number: int, type_: str) -> tuple[str, ScalarType]:
        t = _TYPES[type_]
        caster = "int" if t.is_integer else self._held(t.numpy.type)
        return f"{caster}(P[{int(number)}])", t

    def _read(self, slot: int, type_: str, at: Sequence[int]) -> tuple[str, ScalarType]:
        t = _TYPES[type_]
        place = "".join(f"{self.names[a]}, " for a in at)
        value = f"A[{int(slot)}][({place})]"
        return f"int({value})" if t.is_integer else value, t

    def _cond(
        self, predicate: int, then: Sequence[int], other: Sequence[int]
    ) -> tuple[str, ScalarType | None]:
        yes = "".join(f"{self.names[s]}, " for s in then)
        no = "".join(f"{self.names[s]}, " for s in other)
        return f"(({yes}) if {self.names[predicate]} else ({no}))", None

    def _proj(self, of: int, which: int, type_: str) -> tuple[str, ScalarType]:
        return f"{self.names[of]}[{int(which)}]", _TYPES[type_]

    def _apply(self, op: str, type_: str, arguments: Sequence[int]) -> tuple[str, ScalarType]:
        t = _TYPES[type_]
        return self._applied(op, t, arguments), t

    def _applied(self, op: str, t: ScalarType, arguments: Sequence[int]) -> str:
        args = [self.names[a] for a in arguments]
        types = [self.types[a] for a in arguments]
        integral = all(not a.is_inexact for a in types if a is not None)
        first = types[0]
        assert first is not None
        if op == "cast" and t.is_integer and t.bits == 64:
            if first.kind == "bool" or (first.is_integer and first.name != "uint64"):
                return f"int({args[0]})"
        if self.wrap and op == "cast" and integral and t.is_integer:
            return f"_wrap(int({args[0]}), {t.bits}, {t.signed})"
        if op in _INTEGER_FORMS and integral and (t.kind == "bool" or t.bits == 64 or self.wrap):
            text = _INTEGER_FORMS[op].format(*args)
            wraps = self.wrap and op in _WRAPPING and t.is_integer
            return f"_wrap({text}, {t.bits}, {t.signed})" if wraps else text
        if self.wrap and op in _COMPARISONS:
            return _INTEGER_FORMS[op].format(*args)
        typed = ", ".join(
            f"{self._held(a.numpy.type)}({n})"
            for a, n in zip(types, args, strict=True)
            if a is not None
        )
        value = f"_general({self._held(TABLE[op])}, {self._held(t)}, {typed})"
        return f"int({value})" if t.is_integer else value


class HostCompiler:
    """Turns host expressions into one function of (arrays, params).

    `slot(leaf)` is the position of a leaf's array in `arrays`, `param_index` that of a parameter.
    """

    def __init__(
        self, slot: Callable[[Leaf], int], param_index: dict[Param, int], wrap: bool = False
    ) -> None:
        self.slot, self.param_index, self.wrap = slot, param_index, wrap

    def compile(
        self, roots: Sequence[Expr]
    ) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
        """A function from (arrays by slot, params) to the values of `roots`."""
        return self.plan(roots).function()

    def plan(self, roots: Sequence[Expr]) -> HostFunction:
        """The same as data."""
        numbers: dict[Expr, int] = {}
        entries: list[list[Any]] = []
        for e in walk(roots):
            numbers[e] = len(entries)
            entries.append(self._entry(e, numbers))
        return HostFunction(entries, [numbers[r] for r in roots], self.wrap)

    def _entry(self, e: Expr, numbers: dict[Expr, int]) -> list[Any]:
        args = [numbers[a] for a in e.args]
        match e:
            case Const():
                return ["const", e.type.name, np.asarray(e.value, e.type.numpy).tobytes().hex()]
            case Extent():
                return ["extent", self.slot(Leaf(e.node, 0)), e.axis]
            case Stride():
                return ["stride", self.slot(e.leaf), e.axis]
            case Reciprocal():
                return ["reciprocal", args[0], e.part]
            case Param():
                return ["param", self.param_index[e], e.type.name]
            case Read():
                return ["read", self.slot(Leaf(e.node, e.component)), e.type.name, args]
            case Apply():
                return ["apply", e.op.name, e.type.name, args]
            case Cond():
                then, other = ([numbers[s] for s in side] for side in (e.then, e.other))
                return ["cond", args[0], then, other]
            case Proj():
                return ["proj", args[0], e.which, e.type.name]
        raise AssertionError(f"{type(e).__name__} cannot be evaluated on the host: {e!r}")
