"""Evaluates host expressions (extents, scalar arguments, trip counts), or compiles them to Python.

Integers are Python ints, wrapped only where a value may leave its type (`dsl/analysis/bounds.py`);
everything else goes through the primitives' NumPy implementations.  Most programs need host values
only in their first calls, after which calls are replayed.  Host expressions are therefore data that
is evaluated entry by entry; those needed at every call become one generated function per step.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from treadle.dsl.analysis.bounds import Range, exact, whole, wraps
from treadle.dsl.expr import Apply, Cond, Const, Expr, Extent, Param, Proj, Read, unknown, walk
from treadle.dsl.graph import Leaf
from treadle.dsl.primitives import TABLE, Primitive, value_of
from treadle.dsl.types import ALL_TYPES, ScalarType, bool_, int32, int64
from treadle.skeletons.ir.hosted import Most, Reciprocal, Stride, reciprocal

_TYPES = {t.name: t for t in ALL_TYPES}

#: Arrays by slot, parameters, or computed values.
Values = Sequence[Any]
#: (arrays by slot, params) → values.
Evaluator = Callable[[Values, Values], tuple[Any, ...]]
#: A value and its type, if it is one number.
_Typed = tuple[Any, ScalarType | None]

_COMPARISONS: dict[str, tuple[str, Callable[..., int]]] = {
    "less": ("({0} < {1})", operator.lt),
    "less_equal": ("({0} <= {1})", operator.le),
    "greater": ("({0} > {1})", operator.gt),
    "greater_equal": ("({0} >= {1})", operator.ge),
    "equal": ("({0} == {1})", operator.eq),
    "not_equal": ("({0} != {1})", operator.ne),
}
#: Operations on integers and bools, without wrapping: as source text, and as a function.
_FORMS: dict[str, tuple[str, Callable[..., int]]] = {
    "add": ("({0} + {1})", operator.add),
    "subtract": ("({0} - {1})", operator.sub),
    "multiply": ("({0} * {1})", operator.mul),
    "minimum": ("({0} if {0} < {1} else {1})", lambda a, b: a if a < b else b),
    "maximum": ("({0} if {0} > {1} else {1})", lambda a, b: a if a > b else b),
    "negative": ("(-{0})", operator.neg),
    "absolute": ("abs({0})", abs),
    "floor_divide": ("({0} // {1} if {1} else 0)", lambda a, b: a // b if b else 0),
    "remainder": ("({0} % {1} if {1} else 0)", lambda a, b: a % b if b else 0),
    "select": ("({1} if {0} else {2})", lambda p, a, b: a if p else b),
    "logical_and": ("({0} and {1})", lambda a, b: a and b),
    "logical_or": ("({0} or {1})", lambda a, b: a or b),
    "logical_xor": ("({0} != {1})", operator.ne),
    "logical_not": ("(not {0})", operator.not_),
    "bitwise_and": ("({0} & {1})", operator.and_),
    "bitwise_or": ("({0} | {1})", operator.or_),
    "bitwise_xor": ("({0} ^ {1})", operator.xor),
    "invert": ("(~{0})", operator.invert),  # for bools this is
    "cast": ("int({0})", int),
    **_COMPARISONS,
}

#: Calls of a function before it is compiled, which takes as long as a hundred evaluations.
OFTEN = 8


@lru_cache(maxsize=256)
def _code_of(source: str) -> CodeType:
    """Compiled generated text, without user input; kernels of equal forms share it."""
    return compile(source, "<treadle host>", "exec")


def _wrapped(value: int, low: int, bits: int) -> int:
    """A value wrapped to an integer type of `bits` bits whose lowest value is `low`."""
    return (value - low & (1 << bits) - 1) + low


def _stride(array: Any, axis: int) -> int:
    return int(array.strides[axis] // array.itemsize)


class Cell:
    """A scalar with the interface through which host functions read rank-0 arrays."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getitem__(self, key: tuple[()]) -> Any:
        return self.value


def _most(function: Callable[..., tuple[Any, ...]], arrays: Values, params: Values,
          slots: Sequence[int], counts: Sequence[int]) -> list[int]:  # fmt: skip
    """The largest results of a function over all values of the counters in `slots`; at least 0."""
    cells, found = [Cell(0) for _ in slots], list(arrays)
    for slot, cell in zip(slots, cells, strict=True):
        found[slot] = cell
    rows: list[tuple[Any, ...]] = []
    for at in product(*map(range, counts)):
        for cell, k in zip(cells, at, strict=True):
            cell.value = k
        rows.append(function(found, params))
    columns = zip(*(rows or [function(found, params)]), strict=True)
    return [max(0, *column) if rows else 0 for column in columns]


def _element(array: Any, index: Sequence[int]) -> Any:
    """An element; an arbitrary value outside the array, which a correct program never reads."""
    if not array.size:
        return array.dtype.type(0)
    return array[tuple([min(max(i, 0), n - 1) for i, n in zip(index, array.shape, strict=True)])]


def _general(op: Primitive, types: Sequence[ScalarType], type_: ScalarType, *args: Any) -> Any:
    value = value_of(op, types, args, type_)[()]
    return value if type_.is_inexact else value.item()


def is_host_work(elements: Sequence[Expr]) -> bool:
    """Whether rank-0 elements take only a few integer operations, comparisons or logical
    operations, which the host computes exactly, in less time than a launch."""
    nodes = list(walk(elements))
    if len(nodes) > 32:
        return False
    for e in nodes:
        if e.type is None or not (e.type.family == "bool" or e.type.is_integer):
            if not (isinstance(e, Const | Read | Param) and e.type and e.type.family == "float"):
                return False
        if isinstance(e, Apply):
            if e.op.name not in _FORMS:
                return False
            if e.op.name == "cast" and e.args[0].type.is_inexact:
                return False
        elif isinstance(e, Read):
            if e.args or e.boundary is not None:
                return False
        elif not isinstance(e, Const | Param | Extent):
            return False
    return True


#: The kinds of entries whose first field is a slot.
_OF_ARRAYS = ("extent", "stride", "read")


class HostFunction(NamedTuple):
    """Host expressions as plain data, which `function` evaluates or compiles.

    `entries` are lists of strings and numbers that refer to earlier entries by position:
    `["extent", slot, axis]`, `["apply", "add", "int64", [0, 1]]`, …; `results` are positions.
    Integers wrap, except in "bound" entries, which are "apply" entries of bounds.
    """

    entries: Sequence[Sequence[Any]]
    results: Sequence[int]

    def data(self) -> list[Any]:
        """The function as JSON data; `of` is the inverse."""
        return [list(self.entries), list(self.results)]

    @staticmethod
    def of(data: Sequence[Any]) -> HostFunction:
        entries, results = data
        return HostFunction([list(e) for e in entries], [int(r) for r in results])

    @property
    def slots(self) -> set[int | None]:
        """The slots whose extents and strides are used; None if elements are read."""
        return {None if kind == "read" else fields[0] for kind, *fields in self.entries
                if kind in _OF_ARRAYS}  # fmt: skip

    def moved(self, slots: Mapping[int, int]) -> HostFunction:
        entries = [
            [kind, slots[fields[0]], *fields[1:]] if kind in _OF_ARRAYS
            else [kind, *fields] for kind, *fields in self.entries
        ]  # fmt: skip
        return HostFunction(entries, self.results)

    def function(self) -> Evaluator:
        """(arrays by slot, params) → results: Python ints and bools, NumPy floats."""
        return _Function(self)

    def compiled(self) -> Evaluator:
        space: dict[str, Any] = {
            "_general": _general,
            "_stride": _stride,
            "_element": _element,
            "_reciprocal": reciprocal,
            "_most": _most,
            "_wrapped": _wrapped,
        }
        writer = _Writer(space)
        for entry in self.entries:
            writer.entry(*entry)
        results = "".join(f"{writer.names[int(r)]}, " for r in self.results)
        body = "\n".join(writer.lines)
        source = f"def host(A, P):\n{body}\n    return ({results})\n"
        exec(_code_of(source), space)
        made: Evaluator = space.pop("host")
        return made


class _Function:
    """A host function: evaluated entry by entry until it has been called often."""

    __slots__ = ("calls", "host", "made")

    def __init__(self, host: HostFunction) -> None:
        self.host, self.calls = host, 0
        self.made: Evaluator | None = None

    def __call__(self, arrays: Values, params: Values) -> tuple[Any, ...]:
        if self.made is not None:
            return self.made(arrays, params)
        self.calls += 1
        if self.calls > OFTEN:
            self.made = self.host.compiled()
            return self.made(arrays, params)
        return _Evaluation(arrays, params).of(self.host)


class _Evaluation:
    """The values of entries, one after the other."""

    def __init__(self, arrays: Values, params: Values) -> None:
        self.arrays, self.params = arrays, params
        self.values: list[Any] = []
        self.types: list[ScalarType | None] = []
        self.inexact: set[int] = set()  # entries of inexact types

    def of(self, host: HostFunction) -> tuple[Any, ...]:
        values, types = self.values, self.types
        for kind, *fields in host.entries:
            value, t = getattr(self, "_" + kind)(*fields)
            if t is not None and t.is_inexact:
                self.inexact.add(len(values))
            values.append(value)
            types.append(t)
        return tuple([values[r] for r in host.results])

    def _const(self, type_: str, data: str) -> _Typed:
        t = _TYPES[type_]
        value = _number_of(data, t)
        return (value if t.is_inexact else value.item()), t

    def _extent(self, slot: int, axis: int) -> _Typed:
        return self.arrays[slot].shape[axis], int64

    def _stride(self, slot: int, axis: int) -> _Typed:
        return _stride(self.arrays[slot], axis), int64

    def _reciprocal(self, divisor: int, part: str) -> _Typed:
        return reciprocal(self.values[divisor], part), int32

    def _most(self, data: Values, slots: Sequence[int], counts: Sequence[int]
              ) -> _Typed:  # fmt: skip
        function, times = HostFunction.of(data).function(), [self.values[c] for c in counts]
        return _most(function, self.arrays, self.params, slots, times), None

    def _param(self, number: int, type_: str) -> _Typed:
        t = _TYPES[type_]
        return _caster(t)(self.params[number]), t

    def _read(self, slot: int, type_: str, at: Sequence[int]) -> _Typed:
        array, t = self.arrays[slot], _TYPES[type_]
        found = _element(array, [self.values[a] for a in at]) if at else array[()]
        return _caster(t)(found), t

    def _cond(self, predicate: int, then: Sequence[int], other: Sequence[int]) -> _Typed:
        side = then if self.values[predicate] else other
        return tuple([self.values[s] for s in side]), None

    def _proj(self, of: int, which: int, type_: str) -> _Typed:
        return self.values[of][which], _TYPES[type_]

    def _apply(self, op: str, type_: str, arguments: Sequence[int], wrapping: bool = True
               ) -> _Typed:  # fmt: skip
        t, values = _TYPES[type_], self.values
        args = [values[a] for a in arguments]
        if op in _FORMS and not t.is_inexact and self.inexact.isdisjoint(arguments):
            value = args[0] != 0 if t is bool_ and op == "cast" else _FORMS[op][1](*args)
            if wrapping and not t.lowest <= value <= t.highest:
                value = _wrapped(value, t.lowest, t.bits)
            return value, t
        if op in _COMPARISONS:
            return bool(_COMPARISONS[op][1](*args)), t
        types = [found for a in arguments if (found := self.types[a]) is not None]
        return _general(TABLE[op], types, t, *args), t

    def _bound(self, op: str, type_: str, arguments: Sequence[int]) -> _Typed:
        return self._apply(op, type_, arguments, wrapping=False)


def _number_of(data: str, t: ScalarType) -> np.generic:
    found: np.generic = np.frombuffer(bytes.fromhex(data), t.numpy)[0]
    return found


def _caster(t: ScalarType) -> type:
    """The constructor of a host value of this type."""
    return bool if t is bool_ else int if t.is_integer else t.numpy.type


class _Writer:
    """Python text for entries: one line each, except constants.

    `ranges` has the bounds of integer entries only.
    """

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.lines: list[str] = []
        self.names: list[str] = []
        self.types: list[ScalarType | None] = []
        self.ranges: list[Range] = []

    def entry(self, kind: str, *fields: Any) -> None:
        text, type_, *known = getattr(self, f"_{kind}")(*fields)
        inexact = type_ is None or type_.is_inexact
        found: Range = known[0] if known else (0, 0) if inexact else whole(type_)
        if kind != "const":
            name = f"v{len(self.names)}"
            self.lines.append(f"    {name} = {text}")
            if kind == "apply" and not inexact and wraps(found, type_):
                self._wrap(name, type_, found)
                found = whole(type_)
            text = name
        self.names.append(text)
        self.types.append(type_)
        self.ranges.append(found)

    def _wrap(self, name: str, t: ScalarType, found: Range) -> None:
        """Wrap a value with bounds `found` to its type."""
        low, high = whole(t)
        if not t.signed:
            self.lines.append(f"    {name} &= {(1 << t.bits) - 1}")
            return
        outside = [f"{name} < {low}"] * (found[0] < low) + [f"{name} > {high}"] * (found[1] > high)
        self.lines.append(
            f"    if {' or '.join(outside)}: {name} = _wrapped({name}, {low}, {t.bits})"
        )

    def _captured(self, value: Any) -> str:
        name = f"c{len(self.space)}"
        self.space[name] = value
        return name

    def _const(self, type_: str, data: str) -> tuple[Any, ...]:
        t = _TYPES[type_]
        value = _number_of(data, t)
        if t.is_inexact:
            return self._captured(value), t
        return repr(value.item()), t, (int(value), int(value))

    def _extent(self, slot: int, axis: int) -> tuple[Any, ...]:
        return f"A[{int(slot)}].shape[{int(axis)}]", int64, (0, int64.highest)

    def _stride(self, slot: int, axis: int) -> tuple[Any, ...]:
        return f"_stride(A[{int(slot)}], {int(axis)})", int64

    def _reciprocal(self, divisor: int, part: str) -> tuple[Any, ...]:
        return f"_reciprocal({self.names[divisor]}, {part!r})", int32

    def _most(self, data: Values, slots: Sequence[int], counts: Sequence[int]
              ) -> tuple[Any, ...]:  # fmt: skip
        function = self._captured(HostFunction.of(data).function())
        times = "".join(f"{self.names[c]}, " for c in counts)
        return f"_most({function}, A, P, {tuple(map(int, slots))}, ({times}))", None

    def _number(self, text: str, t: ScalarType) -> tuple[Any, ...]:
        made = _caster(t)
        caster = self._captured(made) if t.is_inexact else made.__name__
        return f"{caster}({text})", t

    def _param(self, number: int, type_: str) -> tuple[Any, ...]:
        return self._number(f"P[{int(number)}]", _TYPES[type_])

    def _read(self, slot: int, type_: str, at: Sequence[int]) -> tuple[Any, ...]:
        index = "".join(f"{self.names[a]}, " for a in at)
        array = f"A[{int(slot)}]"
        return self._number(
            f"_element({array}, ({index}))" if at else f"{array}[()]", _TYPES[type_]
        )

    def _cond(self, predicate: int, then: Sequence[int], other: Sequence[int]) -> tuple[Any, ...]:
        yes = "".join(f"{self.names[s]}, " for s in then)
        no = "".join(f"{self.names[s]}, " for s in other)
        return f"(({yes}) if {self.names[predicate]} else ({no}))", None

    def _proj(self, of: int, which: int, type_: str) -> tuple[Any, ...]:
        return f"{self.names[of]}[{int(which)}]", _TYPES[type_]

    def _apply(self, op: str, type_: str, arguments: Sequence[int]) -> tuple[Any, ...]:
        t = _TYPES[type_]
        args = [self.names[a] for a in arguments]
        types = [found for a in arguments if (found := self.types[a]) is not None]
        plain = not t.is_inexact and not any(a.is_inexact for a in types)
        if op == "cast" and plain and t == bool_:
            op, args, types = "not_equal", [*args, "0"], [*types, *types]
        if plain and op in _FORMS:
            ranges = [self.ranges[a] for a in arguments]
            form = _FORMS[op][0]
            if op in ("floor_divide", "remainder") and ranges[1][0] > 0:
                form = form.split(" if")[0] + ")"
            if op == "cast" and types[0].is_integer:
                form = "{0}"
            return form.format(*args), t, whole(t) if t == bool_ else exact(op, t, ranges)
        if op in _COMPARISONS:
            return f"bool{_COMPARISONS[op][0].format(*args)}", t
        made = ", ".join(
            (self._captured(TABLE[op]), self._captured(tuple(types)), self._captured(t), *args)
        )
        return f"_general({made})", t

    _bound = _apply


class HostCompiler:
    """Turns host expressions into one function of (arrays, params).

    `slot(leaf)`: the position of a leaf's array in `arrays`; `param_index`: that of a parameter.
    """

    def __init__(self, slot: Callable[[Leaf], int], param_index: dict[Param, int]) -> None:
        self.slot, self.param_index = slot, param_index

    def compile(self, roots: Sequence[Expr]) -> Evaluator:
        """A function from (arrays by slot, params) to the values of `roots`."""
        return self.plan(roots).function()

    def plan(
        self,
        roots: Sequence[Expr],
        conditions: Sequence[Expr] = (),
        scalars: Mapping[Expr, Expr] = MappingProxyType({}),
    ) -> HostFunction:
        """The function as data.  The `roots` are followed by the `conditions` of a kernel over its
        `scalars`, each of which has a host expression; conditions use unbounded integers."""
        numbers: dict[Expr, int] = {}
        entries: list[list[Any]] = []
        used = [scalars[v] for v in walk(conditions) if v in scalars]
        self._put_most((*roots, *conditions, *used), numbers, entries)
        for e in unknown((*roots, *used), numbers):
            numbers[e] = len(entries)
            entries.append(self._entry(e, numbers))
        bounds = {v: numbers[e] for v, e in scalars.items() if e in numbers}
        bounds |= {e: number for e, number in numbers.items() if isinstance(e, Most)}
        for e in walk(conditions):
            if e not in bounds:
                bounds[e] = len(entries)
                kind, *fields = self._entry(e, bounds)
                entries.append(["bound" if kind == "apply" else kind, *fields])
        results = [*(numbers[r] for r in roots), *(bounds[c] for c in conditions)]
        return HostFunction(entries, results)

    def _put_most(self, roots: Sequence[Expr], numbers: dict[Expr, int], entries: list[list[Any]]
                  ) -> None:  # fmt: skip
        """Add entries for the largest values over iterations, one per set of loops."""
        groups: dict[tuple[tuple[Expr, Expr], ...], list[Most]] = {}
        for e in walk(roots):
            if isinstance(e, Most):
                groups.setdefault(e.loops, []).append(e)
        for loops, group in groups.items():
            counts = [count for _, count in loops]
            self._put_most(counts, numbers, entries)
            for e in unknown(counts, numbers):
                numbers[e] = len(entries)
                entries.append(self._entry(e, numbers))
            slots = [self.slot(Leaf(k.node, k.component)) for k, _ in loops if isinstance(k, Read)]
            at, data = len(entries), self.plan([e.of for e in group]).data()
            entries.append(["most", data, slots, [numbers[c] for c in counts]])
            for number, e in enumerate(group):
                numbers[e] = len(entries)
                entries.append(["proj", at, number, e.type.name])

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
