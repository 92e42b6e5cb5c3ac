"""Interval analysis: bounds of the int64 values of a kernel.

Bounds are expressions over the kernel's scalars (constants where possible), so that a launcher,
which has the scalars, can check them for a launch.  They are in unbounded integers.  Monotonic
operations use the rule of `dsl/analysis/bounds.py`; the bounds of other operations are coarser than
its `RULES`, because every launch evaluates them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from treadle.dsl import expr as ex
from treadle.dsl.analysis.bounds import Intervals, Range, monotonic, whole
from treadle.dsl.analysis.polynomial import Polynomial, arithmetic
from treadle.dsl.expr import Expr, Var, walk
from treadle.dsl.primitives import convert
from treadle.dsl.types import int64

from . import arithmetic as at, kernel as ir
from .kernel import Assign, Body, Declare, For, If, Let, Reduce, While

#: The lower and upper bound.
Bounds: TypeAlias = tuple[Expr, Expr]
#: Bounds, or None if unknown or not worth a test.
Span: TypeAlias = Bounds | None

LEAST, LARGEST = -(1 << 31), (1 << 31) - 1
#: Bounds of data beyond this (the range of an int32) are useless once something is added.
_DATA = 1 << 30
#: A bound is as good as another if it is higher by at most this.
_SLACK = 1 << 16
#: The largest expression that the host computes for a kernel.
_LARGE = 64
#: Extents at which a scalar is evaluated to guess its lower bound.
_SAMPLES = (1, 2, 37, 997, 1000, 4096, 5040)


#: Symbolic bounds of monotonic operations.
_MONOTONIC = {
    name: monotonic(name, apply)
    for name, apply in (("add", at.add), ("subtract", at.subtract), ("minimum", at.minimum),
                        ("maximum", at.maximum), ("negative", lambda a: at.subtract(0, a)))
}  # fmt: skip


class Ranges:
    """The ranges of all int64 expressions of a kernel."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self._hosts = kernel.hosts
        self._numbers, self._small = _Numbers(self._hosts), Intervals()
        self._variables: dict[ex.Var, Span] = {v: (v, v) for v in kernel.scalars if v.type == int64}
        self._variables[kernel.task] = (ex.constant(0), kernel.tasks - 1)
        if kernel.thread is not None:
            self._variables[kernel.thread] = (ex.constant(0), ex.constant(kernel.threads - 1))
        self._memo: dict[Expr, Span] = {}
        self._computed: dict[Expr, bool] = {}
        bound = Counter(
            s.var for s in ir.statements(kernel.body) if isinstance(s, ir.Let | ir.For | ir.Reduce)
        )
        #: Variables that several statements bind, for which no range is derived.
        self.repeated = {v for v, count in bound.items() if count > 1}
        #: Values of variables bound once, and upper bounds at all uses of a variable.
        self._given: dict[Expr, Expr] = {
            s.var: s.value for s in ir.statements(kernel.body)
            if isinstance(s, ir.Let) and s.var.type == int64 and s.var not in self.repeated
        }  # fmt: skip
        self._guarded = _guards(kernel)
        lanes = {s.var for s in ir.statements(kernel.body)
                 if isinstance(s, ir.For) and s.kind == "vector"}  # fmt: skip
        #: Variables that depend on a SIMD lane.
        self.varying = varying_variables(kernel.body, lanes) if lanes else set[ex.Var]()
        assigned: dict[ex.Var, list[Expr]] = {}
        for s in ir.statements(kernel.body):
            if isinstance(s, ir.Declare | ir.Assign) and s.var.type == int64:
                assigned.setdefault(s.var, []).append(s.value)
            elif isinstance(s, ir.Reduce):  # its combination is not analysed
                for v in s.accumulators:
                    assigned.setdefault(v, []).append(v)
        # A mutable variable has the union of the ranges of its values, once these are known.
        waiting = set(assigned)
        while True:
            self._body(kernel.body)
            found = {v: self._union([self.of(e) for e in assigned[v]]) for v in waiting}
            known = {v: r for v, r in found.items() if r is not None}
            if not known:
                break
            self._variables.update(known)
            waiting -= set(known)
            self._memo.clear()

    # --- queries ---------------------------------------------------------------------------

    def of(self, e: Expr) -> Span:
        if e not in self._memo:
            self._memo[e] = self._find(e) if e.type == int64 else None
        return self._memo[e]

    def fits(self, e: Expr) -> bool:
        """Whether `e` fits int32, given that the scalars satisfy `conditions`."""
        found = self.of(e)
        if found is None:
            return False
        return not any(
            isinstance(b, ex.Const) and not LEAST <= int(b.value) <= LARGEST for b in found
        )

    def is_natural(self, e: Expr) -> bool:
        """Whether an expression over scalars is known to be non-negative."""
        return self.least(e) >= 0

    def least(self, e: Expr) -> int:
        """A lower bound of an expression over scalars.

        It may rest on guesses about scalars, which are then in `assumed`.
        """
        return self._numbers.range(e)[0]

    @property
    def assumed(self) -> dict[ex.Var, int]:
        """The guessed lower bounds of scalars, which must be tested before a launch."""
        return self._numbers.assumed

    def never_negative(self, e: Expr) -> bool:
        found = self.of(e)
        return found is not None and (self.is_natural(found[0]) or self._difference(e))

    def _difference(self, e: Expr) -> bool:
        """Whether `e`, a sum of differences such as `ids - 1 - id`, is non-negative because the
        subtrahends are at most the minuends."""
        form = self._linear(e)
        for _ in range(len(self._variables)):  # until only scalars are left
            v = next((m[0] for m in form.terms if m and not self.is_host(m[0])), None)
            if v is None:
                break
            count = form.coefficient(v)
            bound = self._guarded.get(v) if count < 0 else None
            bound = self._given.get(v) if bound is None else bound
            if bound is None:
                bounds = self.of(v)
                if bounds is None or v in bounds:
                    return False
                bound = bounds[0] if count > 0 else bounds[1]
            form += (self._linear(bound) - Polynomial.atom(v)) * count
        more = {m[0]: n for m, n in form.terms.items() if m}
        if any(n < 0 for n in more.values()):
            return False
        least = {v: self.least(v) for v in more}
        low = form.constant + sum(n * least[v] for v, n in more.items())
        return low >= 0 and all(x >= 0 for x in least.values())

    def is_host(self, e: Expr) -> bool:
        """Whether the host can compute `e`."""
        known = self._computed
        for x in ex.unknown((e,), known):
            known[x] = all(known[a] for a in x.args) and (
                isinstance(x, ex.Const | ex.Apply) or x in self._hosts)  # fmt: skip
        return known[e]

    def of_scalars(self, e: Expr) -> Expr | None:
        """`e` over the kernel's scalars alone, if the host can compute it."""
        found = e
        while not self.is_host(found):
            values = {v: self._given[v] for v in ex.walk((found,)) if v in self._given}
            if not values:
                return None
            (found,) = ex.substitute((found,), values)
            if sum(1 for _ in ex.walk((found,))) > _LARGE:
                return None
        return found

    def _linear(self, e: Expr) -> Polynomial[Expr]:
        """A linear combination of variables and opaque expressions."""
        if isinstance(e, ex.Const):
            return Polynomial.number(int(e.value))
        if isinstance(e, ex.Apply) and (e.op.name in ("add", "subtract") or (
                e.op.name == "multiply" and isinstance(e.args[1], ex.Const))):  # fmt: skip
            found = arithmetic(e.op.name, [self._linear(a) for a in e.args])
            assert found is not None
            return found
        return Polynomial.atom(e)

    def conditions(self, fitting: Iterable[Expr], highest: Iterable[Expr]) -> list[Expr]:
        """Conditions on the scalars under which the expressions in `fitting` (for which `fits` is
        true) are int32 numbers, and those in `highest`, over scalars, are at most `LARGEST`.
        Redundant conditions are omitted."""
        lows: dict[Expr, None] = {}
        highs: dict[Expr, None] = {}
        for e in highest:
            _parts(e, "maximum", highs)
        for e in fitting:
            found = self.of(e)
            assert found is not None
            _parts(found[0], "minimum", lows)
            _parts(found[1], "maximum", highs)
        above, below = self._above(lows), self._below(highs)
        tests = [at.less_equal(LEAST, e) for e in lows if e not in above]
        return tests + [at.less_equal(e, LARGEST) for e in highs if e not in below]

    def _below(self, tested: dict[Expr, None]) -> set[Expr]:
        """Expressions that are at most LARGEST because subexpressions in `tested` are."""
        found: set[Expr] = set()
        for e in ex.walk(tested):
            known = [a in found or a in tested for a in e.args]
            if isinstance(e, ex.Const):
                follows = int(e.value) <= LARGEST
            elif not isinstance(e, ex.Apply):
                follows = False
            elif e.op.name == "minimum":
                follows = any(known)
            elif e.op.name == "maximum":
                follows = all(known)
            elif e.op.name == "floor_divide":
                follows = known[0] and all(self.is_natural(a) for a in e.args)
            else:
                last = e.args[-1]
                follows = (e.op.name == "add" and known[0] and isinstance(last, ex.Const)
                           and int(last.value) <= 0)  # fmt: skip
            if follows:
                found.add(e)
        return found

    def _above(self, tested: dict[Expr, None]) -> set[Expr]:
        """Expressions that are at least LEAST because subexpressions in `tested` are."""
        found: set[Expr] = set()
        for e in ex.walk(tested):
            known = [a in found or a in tested for a in e.args]
            last = e.args[-1] if e.args else e
            follows = self.is_natural(e)
            if isinstance(e, ex.Const):
                follows = int(e.value) >= LEAST
            elif isinstance(e, ex.Apply) and e.op.name == "minimum":
                follows |= all(known)
            elif isinstance(e, ex.Apply) and e.op.name == "maximum":
                follows |= any(known)
            elif isinstance(e, ex.Apply) and e.op.name == "add" and isinstance(last, ex.Const):
                natural = self.is_natural(e.args[0]) and int(last.value) >= LEAST
                follows |= natural or (int(last.value) >= 0 and known[0])
            if follows:
                found.add(e)
        return found

    def depends_on_lanes(self, e: Expr) -> bool:
        return bool(self.varying) and is_varying(e, self.varying)

    # --- variables ------------------------------------------------------------------------

    def _body(self, body: ir.Body) -> None:
        for s in body:
            if isinstance(s, ir.Let) and s.var.type == int64:
                self._bind(s.var, self.of(s.value))
            elif isinstance(s, ir.For | ir.Reduce):
                self._bind(s.var, self._iterations(s.start, s.stop))
            for inner in ir.children(s):
                self._body(inner)

    def _bind(self, v: ex.Var, found: Span) -> None:
        self._variables[v] = None if v in self.repeated else found

    def _iterations(self, start: Expr, stop: Expr) -> Span:
        first, last = self.of(start), self.of(stop)
        if first is None or last is None:
            return None
        return first[0], last[1] - 1

    # --- expressions ----------------------------------------------------------------------

    @staticmethod
    def _union(parts: list[Span]) -> Span:
        known = [p for p in parts if p is not None]
        if len(known) < len(parts) or not known:
            return None
        low, high = known[0]
        for other in known[1:]:
            low, high = at.minimum(low, other[0]), at.maximum(high, other[1])
        return low, high

    def _find(self, e: Expr) -> Span:
        if isinstance(e, ex.Const):
            return e, e
        if isinstance(e, ex.Var):
            return self._variables.get(e)
        if not isinstance(e, ex.Apply):
            return None
        if e.op.name == "cast":
            (source,) = e.args
            if isinstance(source, ir.Load) and source.buffer.below is not None:
                return ex.constant(0), at.maximum(source.buffer.below - 1, 0)
            if source.type.is_inexact or source.type.bits >= 64:
                return None
            low, high = self._small.range(source)
            return ex.constant(low), ex.constant(high)
        if e.op.name == "select":
            return self._union([self.of(a) for a in e.args[1:]])
        if e.op.name == "left_shift":
            found = self._shifted_back(e)
            if found is not None:
                return found
        if e.op.name == "bitwise_and":
            for mask, other in (e.args, e.args[::-1]):
                if isinstance(mask, ex.Const) and int(mask.value) >= 0:
                    found = self.of(other)
                    if found is None or not self.is_natural(found[0]) or _is_data(found):
                        return ex.constant(0), mask
                    small = int(mask.value) <= LARGEST
                    return ex.constant(0), at.minimum(found[1], mask) if small else found[1]
        args = [self.of(a) for a in e.args]
        known = [a for a in args if a is not None]
        if len(known) < len(args):
            if e.op.name in ("remainder", "floor_divide"):
                return self._divided(e.op.name, None, args[1])
            return self._clamped(e) if e.op.name == "minimum" else None
        if e.op.name in _MONOTONIC:
            data = e.op.name not in ("minimum", "maximum") and any(map(_is_data, known))
            return None if data else _MONOTONIC[e.op.name](*known)
        if len(known) == 1:
            return self._unary(e.op.name, known[0])
        if len(known) == 2:
            return self._binary(e.op.name, *known)
        return None

    def _clamped(self, e: ex.Apply) -> Span:
        """The range of min(max(x, low), high) for any x."""
        inner, high = e.args[0], self.of(e.args[1])
        if high is None or not (isinstance(inner, ex.Apply) and inner.op.name == "maximum"):
            return None
        low = next((r for r in map(self.of, inner.args) if r is not None), None)
        return None if low is None else (at.minimum(low[0], high[0]), high[1])

    def _shifted_back(self, e: ex.Apply) -> Span:
        """The range of (y >> 2·s) << s, used by space-filling curves: at most y, for any s."""
        inner, back = e.args
        if isinstance(inner, ex.Var):
            inner = self._given.get(inner, inner)
        if not (isinstance(inner, ex.Apply) and inner.op.name == "right_shift"):
            return None
        source, forth = self.of(inner.args[0]), self._host(inner.args[1])
        twice = isinstance(forth, ex.Apply) and forth.op.name == "multiply" and (
            forth.args == (self._host(back), ex.constant(2)))  # fmt: skip
        if not twice or source is None or not self.is_natural(source[0]):
            return None
        return ex.constant(0), source[1]

    def _host(self, e: Expr) -> Expr | None:
        """The expression that the host computes a scalar from."""
        return self._hosts.get(e) if isinstance(e, ex.Var) else None

    def _unary(self, name: str, a: Bounds) -> Span:
        if _is_data(a):
            return None
        match name:
            case "absolute":
                return ex.constant(0), at.maximum(0 - a[0], a[1])
            case "sign":
                return ex.constant(-1), ex.constant(1)
        return None

    def _binary(self, name: str, a: Bounds, b: Bounds) -> Span:
        match name:
            case "floor_divide" | "remainder":
                return self._divided(name, a, b)
            case "quot" | "rem" if self.is_natural(a[0]) and self.is_natural(b[0]):
                return self._divided("floor_divide" if name == "quot" else "remainder", a, b)
            case "right_shift" if self.is_natural(a[0]):
                if isinstance(b[0], ex.Const) and b[0] is b[1] and 0 <= int(b[0].value) < 32:
                    by = 1 << int(b[0].value)
                    return a[0] // by, a[1] // by
                return ex.constant(0), a[1]
        if _is_data(a) or _is_data(b):
            return None
        match name:
            case "multiply":
                return self._product(a, b)
            case "left_shift":
                if isinstance(b[0], ex.Const) and b[0] is b[1] and 0 <= int(b[0].value) < 32:
                    factor = ex.constant(1 << int(b[0].value))
                    return self._product(a, (factor, factor))
                least, most = self._small.range(b[0])[0], self._small.range(b[1])[1]
                if 0 <= least <= most < 32 and self.is_natural(a[0]):
                    return a[0] * (1 << least), a[1] * (1 << most)
            case "bitwise_and" if self.is_natural(a[0]) and self.is_natural(b[0]):
                return ex.constant(0), at.minimum(a[1], b[1])
            case "bitwise_or" | "bitwise_xor" if self.is_natural(a[0]) and self.is_natural(b[0]):
                return ex.constant(0), a[1] + b[1]
        return None

    def _product(self, a: Bounds, b: Bounds) -> Span:
        if a[0] is not a[1] and b[0] is not b[1]:
            return None  # both factors vary: not an index but data, which may be large
        if self.is_natural(a[0]) and self.is_natural(b[0]):
            return a[0] * b[0], a[1] * b[1]
        corners = [x * y for x in a for y in b]
        low = high = corners[0]
        for c in corners[1:]:
            low, high = at.minimum(low, c), at.maximum(high, c)
        return low, high

    def _divided(self, name: str, a: Span, b: Span) -> Span:
        """The range of a floor division or remainder, where division by 0 gives 0."""
        if b is None:
            return None
        if not self.is_natural(b[0]):  # at worst by -1; a remainder is closer to 0 than b
            if name == "remainder":
                return None if _is_data(b) else (at.minimum(b[0], 0), at.maximum(b[1], 0))
            if a is None or _is_data(a) or not self.is_natural(a[0]):
                return None
            return 0 - a[1], a[1]
        if name == "remainder":
            high = at.maximum(b[1] - 1, 0)
            if a is not None and self.is_natural(a[0]):
                high = at.minimum(a[1], high)
            return ex.constant(0), high
        if a is None:
            return None
        least = at.maximum(b[0], 1)
        if self.is_natural(a[0]):
            return ex.constant(0), a[1] // least
        return at.minimum(a[0], 0), at.maximum(a[1], 0)


class _Numbers(Intervals):
    """The ranges of expressions over scalars, in unbounded integers."""

    def __init__(self, hosts: Mapping[Expr, Expr]) -> None:
        super().__init__()
        self.hosts = hosts
        self.assumed: dict[ex.Var, int] = {}

    def enters(self, e: Expr) -> bool:
        return isinstance(e, ex.Apply) and e.type == int64 and e.op.name != "cast"

    def result(self, e: ex.Apply, found: Range) -> Range:
        return found

    def leaf(self, e: Expr) -> Range:
        if isinstance(e, ex.Var) and (guess := self._guess(e)) is not None:
            self.assumed[e] = guess
            return guess, int64.highest
        of = e.args[0].type if isinstance(e, ex.Apply) and e.op.name == "cast" else e.type
        return whole(int64 if of.is_inexact else of)

    def _guess(self, v: ex.Var) -> int | None:
        """A guessed lower bound, at most 1, of a scalar computed from nonzero extents.

        Integer arguments of the program count as extents.  The guess must be tested.
        """
        host = self.hosts.get(v)
        known = ex.Const | ex.Extent | ex.Param | ex.Apply
        if host is None or not all(isinstance(x, known) for x in ex.walk((host,))):
            return None
        if any(x.type.is_inexact for x in ex.walk((host,))):
            return None
        rest = any(isinstance(x, ex.Apply) and x.op.name == "remainder" for x in ex.walk((host,)))
        return min(0 if rest else 1, _sample(host))


def _sample(host: Expr) -> int:
    """The smallest value of a host expression over some sample extents, with all extents equal."""
    values: dict[Expr, Any] = {}
    for x in ex.walk((host,)):
        if isinstance(x, ex.Extent | ex.Param):
            values[x] = convert(np.asarray(_SAMPLES), x.type)
        elif isinstance(x, ex.Const):
            values[x] = x.value
        else:
            assert isinstance(x, ex.Apply)
            values[x] = x.value([values[a] for a in x.args])
    return int(np.min(values[host]))


def _guards(kernel: ir.Kernel) -> dict[Expr, Expr]:
    """Upper bounds of variables used only under `variable < bound`, a scalar or constant."""
    every = list(ir.statements(kernel.body))
    uses = {id(s): _variables(ir.expressions(s)) for s in every}
    used = Counter(chain.from_iterable(uses[id(s)] for s in every))
    changed = {s.var for s in every if isinstance(s, ir.Declare | ir.Assign)}
    found: dict[Expr, Expr] = {}
    for s in every:
        if not isinstance(s, ir.If) or s.other:
            continue
        bounds = [
            e.args
            for e in ex.conjuncts(s.condition)
            if isinstance(e, ex.Apply) and e.op.name == "less" and e.args[0].type == int64
            and isinstance(e.args[0], ex.Var) and e.args[0] not in changed
            and (e.args[1] in kernel.scalars or isinstance(e.args[1], ex.Const))
        ]  # fmt: skip
        if bounds:
            inside = Counter(chain(uses[id(s)], *(uses[id(t)] for t in ir.statements(s.then))))
            for v, bound in bounds:
                if used[v] == inside[v]:
                    found.setdefault(v, bound - 1)
    return found


def _variables(roots: Iterable[Expr]) -> list[Expr]:
    """The variables in some expressions, once per expression that contains them."""
    return [e for root in roots for e in ex.walk((root,)) if isinstance(e, ex.Var)]


def _is_data(r: Bounds) -> bool:
    return any(isinstance(b, ex.Const) and abs(int(b.value)) > _DATA for b in r)


def _parts(e: Expr, name: str, found: dict[Expr, None]) -> None:
    """Collect the tests for `e`: both operands of a maximum (or minimum)."""
    stack, seen = [e], set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, ex.Apply) and e.op.name == name:
            stack += e.args
        elif (
            isinstance(e, ex.Apply) and e.op.name == "add" and name == "maximum"
            and isinstance(e.args[1], ex.Const) and -_SLACK < int(e.args[1].value) < 0
        ):  # fmt: skip
            stack.append(e.args[0])  # slightly stronger, but the same in many tests
        else:
            found[e] = None


def varying_variables(body: Body, seeds: set[Var]) -> set[Var]:
    """The variables whose values may differ between lanes, given those that do (`seeds`).

    A variable assigned under a condition, or in a loop, that differs between lanes differs too.
    """
    varying = set(seeds)
    while True:
        before = len(varying)
        _spread(body, varying, False)
        if len(varying) == before:
            return varying


def is_varying(e: Expr, varying: set[Var]) -> bool:
    return any(node in varying for node in walk((e,)) if isinstance(node, Var))


def _spread(body: Body, varying: set[Var], under: bool) -> None:
    for s in body:
        match s:
            case Let():
                if is_varying(s.value, varying):
                    varying.add(s.var)
            case Declare() | Assign():
                if under or is_varying(s.value, varying):
                    varying.add(s.var)
            case If():
                inside = under or is_varying(s.condition, varying)
                _spread(s.then, varying, inside)
                _spread(s.other, varying, inside)
            case For() | Reduce():
                starts = is_varying(s.start, varying)
                if starts:
                    varying.add(s.var)
                inside = under or starts or is_varying(s.stop, varying)
                _spread(s.body, varying, inside)
                if isinstance(s, Reduce) and (
                    inside or any(is_varying(v, varying) for v in s.values)
                ):
                    varying.update(s.accumulators)
            case While():
                _spread(s.before, varying, under)
                inside = under or is_varying(s.condition, varying)
                _spread(s.before, varying, inside)
                _spread(s.body, varying, inside)
