"""Removes tests of a kernel whose outcome can be proved: before → after.

    while: [break unless k < n] a[k + n if k < 0 else k] …; k = k + 1      →  a[k]
    if i >= 0 and i < 4096: head[i] = …, where i = x & 4095                →  head[i] = …
    minimum(i + l, n - 1), where i + l < n                                 →  i + l
    if j + 1 < size, where j < n and the host has size = n + 1             →  always

This is an abstract interpretation of the statements in program order.  An int64 value is a
polynomial over atoms (`Form`).  An atom is a value that is not computed from others, such as a
variable at the start of a loop or an array element; it is constant within an iteration.  The
abstract state (`_Path`) holds ranges of atoms (by the rules of `dsl/analysis/bounds.py`) and forms
known to be non-negative.  Facts come from loop and branch conditions, from counters that only grow,
and from variables that only shrink.  A loop is repeated until the facts assumed at its start also
hold at its end (a fixed point).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from treadle.dsl import expr as ex, simplify
from treadle.dsl.analysis.bounds import Intervals, Range, exact, whole, wraps
from treadle.dsl.analysis.polynomial import Polynomial, arithmetic
from treadle.dsl.expr import FALSE, TRUE, Apply, Const, Expr, Var
from treadle.dsl.types import bool_, int64

from . import kernel as ir

#: A polynomial over atoms, which are identified by number.
Form: TypeAlias = Polynomial[int]

_WHOLE = whole(int64)
_FAR, _FURTHEST = 1 << 58, 1 << 62
#: The steps by which a growing range is widened, unless a comparison bounds it.
_ENDS = (*_WHOLE, -_FURTHEST, -1, 0, _FURTHEST)
#: A variable is slow if it starts below 1 << 58 and changes only to other values below that, or by
#: less than that limit at a time, in loops that access arrays.  It never exceeds 1 << 62: that
#: would take years.
_SLOW = 16
#: Limits: passes over a kernel, and statements of a kernel.  A kernel beyond them stays unchanged.
_PASSES, _LARGEST = 24, 300
#: Limits of a proof: steps, depth and terms.
_TRIES, _DEPTH, _TERMS = 100, 3, 8
_COMPARISONS = {"less": (0, 1, 1), "less_equal": (0, 1, 0), "greater": (1, 0, 1),
                "greater_equal": (1, 0, 0)}  # fmt: skip
_WALKED = (ir.Comment, ir.Let, ir.Declare, ir.Assign, ir.Store, ir.If, ir.For, ir.While)


@dataclass(eq=False)
class _Test:
    """An unknown truth value.  `denied`: its negation, created when needed."""

    denied: _Test | None = field(default=None, init=False)

    def opposite(self) -> _Test:
        return _Test()


@dataclass(eq=False)
class _Least(_Test):
    """True if a form is non-negative."""

    form: Form

    def opposite(self) -> _Test:
        return _Least(-self.form - 1)


@dataclass(eq=False)
class _Same(_Test):
    """True if a form is 0 or, with `other`, if it is not."""

    form: Form
    other: bool = False

    def opposite(self) -> _Test:
        return _Same(self.form, not self.other)


@dataclass(eq=False)
class _All(_Test):
    """The conjunction of the parts or, with `some`, their disjunction."""

    parts: tuple[Condition, ...]
    some: bool = False

    def opposite(self) -> _Test:
        return _All(tuple(map(_opposite, self.parts)), not self.some)


Condition: TypeAlias = bool | _Test


def _opposite(c: Condition) -> Condition:
    if isinstance(c, bool):
        return not c
    if c.denied is None:
        c.denied = c.opposite()
        c.denied.denied = c
    return c.denied


def _both(*parts: Condition, some: bool = False) -> Condition:
    rest = tuple(p for p in parts if p is not (not some))
    if any(p is some for p in rest):
        return some
    if not rest:
        return not some
    return rest[0] if len(rest) == 1 else _All(rest, some)


@dataclass
class _Path:
    """The abstract state at a point of the kernel."""

    #: The values of variables: forms, conditions, or keys that identify a value.
    values: dict[Expr, object] = field(default_factory=dict)
    ranges: dict[int, Range] = field(default_factory=dict)
    #: Forms known to be non-negative.
    facts: dict[Hashable, Form] = field(default_factory=dict)
    #: Conditions known to hold, and their negations.
    truths: frozenset[Condition] = frozenset()
    denied: frozenset[Condition] = frozenset()
    #: Atoms with one of two values, each with the state in which it has that value.
    cases: dict[int, tuple[tuple[Form, _Path], tuple[Form, _Path]]] = field(default_factory=dict)
    #: Keys that identify the current contents of buffers.
    contents: dict[ir.Buffer, object] = field(default_factory=dict)
    #: Whether this point is unreachable.
    dead: bool = False
    forms: dict[Expr, Form] = field(default_factory=dict)
    keys: dict[Expr, Hashable] = field(default_factory=dict)

    def forget(self) -> None:
        """Invalidate the memoised forms and keys of expressions."""
        self.forms, self.keys = {}, {}

    def copy(self) -> _Path:
        return replace(
            self, values=self.values.copy(), ranges=self.ranges.copy(), facts=self.facts.copy(),
            cases=self.cases.copy(), contents=self.contents.copy(), forms={}, keys={},
        )  # fmt: skip

    def become(self, other: _Path) -> None:
        self.values, self.ranges, self.facts = other.values, other.ranges, other.facts
        self.truths, self.denied = other.truths, other.denied
        self.cases, self.contents = other.cases, other.contents
        self.dead = other.dead
        self.forget()

    def bound(self, p: Form) -> Range:
        low = high = 0
        for monomial, c in p.terms.items():
            a = b = c
            for atom in monomial:
                least, most = self.ranges.get(atom, _WHOLE)
                if a == b:
                    a, b = (a * least, a * most) if a >= 0 else (a * most, a * least)
                else:
                    ends = a * least, a * most, b * least, b * most
                    a, b = min(ends), max(ends)
            low, high = low + a, high + b
        return low, high

    def learn(self, p: Form) -> None:
        """Record that a form is non-negative, and tighten the ranges of its atoms."""
        if self.bound(p)[0] >= 0 or (key := p.key) in self.facts:
            return
        self.facts[key] = p
        high = self.bound(p)[1]
        if high < 0:
            self.dead = True
            return
        for monomial, c in p.terms.items():
            if len(monomial) != 1:
                continue
            (atom,) = monomial
            least, most = self.ranges.get(atom, _WHOLE)
            rest = high - (c * most if c > 0 else c * least)  # upper bound of the other terms
            if c > 0:
                least = max(least, -(rest // c))
            else:
                most = min(most, rest // -c)
            self.ranges[atom] = least, most
            self.dead |= least > most

    def assume(self, c: Condition) -> None:
        self.forget()
        if not isinstance(c, bool):
            self.truths, self.denied = self.truths | {c}, self.denied | {_opposite(c)}
        match c:
            case False:
                self.dead = True
            case _Least():
                self.learn(c.form)
            case _Same(other=False):
                self.learn(c.form)
                self.learn(-c.form)
            case _All(some=False):
                for part in c.parts:
                    self.assume(part)


class _Growing:
    """A range that is widened to one of `_ENDS` from its second growth on."""

    def __init__(self, ends: Iterable[int] = _ENDS, found: Range | None = None) -> None:
        self.ends, self.found, self.grown = ends, found, [False, False]

    def add(self, more: Range) -> bool:
        """Extend the range; returns whether it grew."""
        if self.found is None:
            self.found = more
            return True
        low, high = min(self.found[0], more[0]), max(self.found[1], more[1])
        grown = low < self.found[0], high > self.found[1]
        if grown[0] and self.grown[0]:
            low = max(x for x in self.ends if x <= low)
        if grown[1] and self.grown[1]:
            high = min(x for x in self.ends if x >= high)
        self.grown = [a or b for a, b in zip(self.grown, grown, strict=True)]
        self.found = low, high
        return any(grown)


class _Begin:
    """Facts on a variable at the start of a loop: its range, and whether it is at least, or at
    most, its value before the loop."""

    def __init__(self, ends: Iterable[int]) -> None:
        self.range, self.sides = _Growing(ends), {1, -1}


def decided(kernel: ir.Kernel, first: Mapping[ir.Buffer, Range]) -> ir.Kernel:
    """The kernel without tests that always have the same outcome.  `first`: the ranges of the
    elements of its buffers before its first launch; only this kernel changes them."""
    every = ir.statements(kernel.body)
    if len(every) > _LARGEST or len(set(map(id, every))) < len(every):
        return kernel
    if not all(isinstance(s, _WALKED) for s in every):
        return kernel
    walk = _Walk(kernel, first)
    for _ in range(_PASSES):
        walk.changed = False
        walk.body(kernel.body, walk.begin())
        if not walk.changed:
            walk.last = True
            made = walk.body(kernel.body, walk.begin())
            return kernel if walk.changed else replace(kernel, body=made)
    return kernel


class _Walk:
    def __init__(self, kernel: ir.Kernel, first: Mapping[ir.Buffer, Range]) -> None:
        self.kernel = kernel
        self.atoms: dict[Hashable, int] = {}
        self.begins: dict[tuple[int, Expr], _Begin] = {}
        self.elements = {b: _Growing(_ENDS, first.get(b, _WHOLE))
                         for b in kernel.buffers if b.type == int64}  # fmt: skip
        self.changing: dict[int, tuple[list[Var], list[ir.Buffer]]] = {}
        self.changed, self.last, self.tries = False, False, 0
        #: Variables not known to be slow, and buffers that may hold elements other than small
        #: numbers and values of slow variables.
        self.fast: set[Var | ir.Buffer] = {
            b for b, span in self.elements.items() if not _is_near(span.found or _WHOLE)
        }
        self.declared = {s.var for s in ir.statements(kernel.body) if isinstance(s, ir.Declare)}
        _find_fast(kernel.body, False, self.fast)

    def begin(self) -> _Path:
        """The initial state: relations among the kernel's scalars, often sums of equal extents."""
        path, small = _Path(), Intervals()
        hosts = {v: host for v, host in self.kernel.hosts.items() if v.type == int64}
        for e in ex.walk(hosts.values()):
            if e.type == int64 and not isinstance(e, Apply | Const):
                path.values[e] = self.new(path, ("number", e), small.range(e))
        for v, host in hosts.items():
            low, high = small.range(host)
            found = self.form(host, path)
            path.learn(found - low)
            path.learn(-found + high)
            self.bind(path, v, found)
        last = path.bound(self.form(self.kernel.tasks, path))[1] - 1
        task = self.new(path, ("number", self.kernel.task), (0, max(last, 0)))
        self.bind(path, self.kernel.task, task)
        return path

    @staticmethod
    def bind(path: _Path, v: Expr, value: object) -> None:
        if v in path.values:
            path.forget()
        path.values[v] = value

    # --- statements ---

    def body(self, body: ir.Body, path: _Path) -> ir.Body:
        """Interpret the statements; on the last pass, also return the simplified ones."""
        made: list[ir.Statement] = []
        for s in body:
            if path.dead:
                made.append(s)
            elif isinstance(s, ir.If):
                made += self.branch(s, path)
            elif isinstance(s, ir.For | ir.While):
                made.append(self.loop(s, path))
            else:
                if self.last:
                    made.append(ir.mapped(s, lambda e: self.simplified(e, path)))
                self.follow(s, path)
        return ir.same(body, made) if self.last else body

    def follow(self, s: ir.Statement, path: _Path) -> None:
        if isinstance(s, ir.Let | ir.Declare | ir.Assign):
            made = self.value(s.value, path, s)
            if isinstance(made, Polynomial) and not _is_near(path.bound(made)):
                if isinstance(s, ir.Assign) and s.var not in self.fast:
                    step = made - self.form(s.var, path)
                    if not self.proves(path, step + _SLOW, -step + _SLOW):
                        self.is_fast(s.var)
                elif isinstance(s, ir.Declare) and not self.is_slow(s.value):
                    self.is_fast(s.var)
            self.bind(path, s.var, made)
        elif isinstance(s, ir.Store):
            if s.buffer in self.elements:
                found = path.bound(self.form(s.value, path))
                self.changed |= self.elements[s.buffer].add(found)
                if not _is_near(found) and not self.is_slow(s.value):
                    self.is_fast(s.buffer)
            path.contents[s.buffer] = id(s)
            path.forget()

    def is_fast(self, changed: Var | ir.Buffer) -> None:
        self.changed |= changed not in self.fast
        self.fast.add(changed)

    def is_slow(self, e: Expr) -> bool:
        """Whether this is a slow variable, or an element that holds the value of one."""
        held = e.buffer if isinstance(e, ir.Load) else e
        return held not in self.fast and (held in self.declared or held in self.elements)

    def branch(self, s: ir.If, path: _Path) -> ir.Body:
        condition = self.simplified(s.condition, path) if self.last else s.condition
        c = self.condition(s.condition, path)
        then, other = path.copy(), path.copy()
        then.assume(c)
        other.assume(_opposite(c))
        bodies = self.body(s.then, then), self.body(s.other, other)
        self.join(s, path, c, then, other)
        if isinstance(condition, Const):
            return bodies[0] if condition is TRUE else bodies[1]
        same = condition is s.condition and bodies[0] is s.then and bodies[1] is s.other
        return (s if same else ir.If(condition, *bodies),)

    def loop(self, s: ir.For | ir.While, path: _Path) -> ir.Statement:
        variables, buffers = self.changes(s)
        ends = self.ends(s)
        head, entry = path.copy(), dict[Var, Form]()
        for v in variables:
            if v not in path.values:  # declared within the loop
                continue
            key = "begin", id(s), v
            if v.type != int64:
                self.bind(head, v, _Test() if v.type is bool_ else key)
                continue
            begin = self.begins.setdefault((id(s), v), _Begin(ends))
            entry[v] = self.form(v, path)
            self.changed |= begin.range.add(path.bound(entry[v]))
            low, high = begin.range.found or _WHOLE
            if v not in self.fast:
                low, high = max(low, -_FURTHEST), min(high, _FURTHEST)
            now = self.new(head, key, (low, high))
            self.bind(head, v, now)
            for sign in begin.sides:
                head.learn((now - entry[v]) * sign)
        for b in buffers:
            head.contents[b] = "begin", id(s)
        inner, changes = head.copy(), dict[str, object]()
        if isinstance(s, ir.For):
            start, stop = self.form(s.start, path), self.form(s.stop, path)
            i = self.new(inner, ("counter", id(s)), _WHOLE)
            self.bind(inner, s.var, i)
            inner.assume(_both(_Least(i - start), _Least(stop - 1 - i)))
        else:
            before = self.body(s.before, inner)
            head = inner.copy()
            if self.last:
                changes = {"before": before, "condition": self.simplified(s.condition, inner)}
            c = self.condition(s.condition, inner)
            inner.assume(c)
            head.assume(_opposite(c))
        inside = self.body(s.body, inner)
        if not inner.dead:
            for v, was in entry.items():
                begin, last = self.begins[id(s), v], self.form(v, inner)
                self.changed |= begin.range.add(inner.bound(last))
                for sign in [*begin.sides]:
                    if not self.proves(inner, (last - was) * sign):
                        begin.sides.discard(sign)
                        self.changed = True
        path.become(head)
        return replace(s, body=inside, **changes) if self.last else s  # type: ignore[arg-type]

    @staticmethod
    def ends(s: ir.For | ir.While) -> set[int]:
        """Possible ends of a loop variable's range: values it is compared with, and neighbours."""
        tests = () if isinstance(s, ir.For) else (*ir.statements(s.before), s)
        every = ex.walk(e for t in tests for e in ir.expressions(t))
        compared = {
            int(a.value) for e in every if isinstance(e, Apply) and e.op.name in _COMPARISONS
            for a in e.args if isinstance(a, Const) and a.type == int64
        }  # fmt: skip
        return {*_ENDS, *(n + more for n in compared if abs(n) < _FAR for more in (-1, 0, 1))}

    def changes(self, s: ir.Statement) -> tuple[list[Var], list[ir.Buffer]]:
        """The variables that a loop assigns to, and the buffers it stores to."""
        if id(s) not in self.changing:
            every = ir.statements((s,))
            variables = dict.fromkeys(x.var for x in every if isinstance(x, ir.Assign))
            buffers = dict.fromkeys(b for x in every for b in ir.written(x))
            self.changing[id(s)] = [*variables], [*buffers]
        return self.changing[id(s)]

    def join(self, s: ir.If, path: _Path, c: Condition, then: _Path, other: _Path) -> None:
        """Merge the states of both sides after a branch."""
        if then.dead or other.dead:
            path.become(other if then.dead else then)
            return
        variables, buffers = self.changes(s)
        for v in variables:
            if v not in path.values:
                continue
            a, b = then.values[v], other.values[v]
            if a == b:
                self.bind(path, v, a)
            elif v.type == int64:
                assert isinstance(a, Polynomial) and isinstance(b, Polynomial)
                self.bind(path, v, self.choice(("join", id(s), v), path, (a, then), (b, other)))
            elif v.type is bool_:
                self.bind(path, v, self.either(c, a, b))
            else:
                self.bind(path, v, ("join", id(s)))
        for buffer in buffers:
            path.contents[buffer] = ("join", id(s))

    # --- values ---

    def new(self, path: _Path, key: Hashable, found: Range) -> Form:
        """The atom with this key; facts already known about its range are kept."""
        atom = self.atoms.setdefault(key, len(self.atoms))
        old = path.ranges.get(atom, found)
        path.ranges[atom] = max(old[0], found[0]), min(old[1], found[1])
        return Polynomial.atom(atom)

    def choice(
        self, key: Hashable, path: _Path, a: tuple[Form, _Path], b: tuple[Form, _Path]
    ) -> Form:
        """A form that has one of two values."""
        if a[1].dead or b[1].dead:
            return b[0] if a[1].dead else a[0]
        if a[0] == b[0]:
            return a[0]
        (low, high), (least, most) = a[1].bound(a[0]), b[1].bound(b[0])
        made = self.new(path, key, (min(low, least), max(high, most)))
        path.cases[self.atoms[key]] = a, b
        return made

    @staticmethod
    def either(c: Condition, a: object, b: object) -> Condition:
        """The truth value `a` if `c` holds, else `b`."""
        if b is False:
            return _both(c, a)  # type: ignore[arg-type]
        if a is True:
            return _both(c, b, some=True)  # type: ignore[arg-type]
        return _Test()

    def value(self, e: Expr, path: _Path, s: ir.Statement) -> object:
        if e.type == int64:
            return self.form(e, path)
        if e.type is not bool_:
            return "value", id(s)
        return self.condition(e, path)

    def form(self, e: Expr, path: _Path) -> Form:
        found = path.forms.get(e)
        if found is None:
            found = self._form(e, path)
            path.forms[e] = found
        return found

    def _form(self, e: Expr, path: _Path) -> Form:
        if isinstance(e, Const):
            return Polynomial.number(int(e.value))
        if isinstance(known := path.values.get(e), Polynomial):
            return known
        if isinstance(e, Var):
            return self.new(path, ("variable", e), _WHOLE)
        key = self.key(e, path)
        if isinstance(e, ir.Load):
            at, size = self.form(e.index, path), self.form(e.buffer.size, path)
            found = _WHOLE
            known = self.elements.get(e.buffer)
            if known and known.found and e.buffer.dense and known.found != found:
                if self.proves(path, at, size - 1 - at):
                    found = known.found
            return self.new(path, key, found)
        if not isinstance(e, Apply):
            return self.new(path, key, _WHOLE)
        if e.op.name == "cast":
            t = e.args[0].type
            return self.new(path, key, whole(int64 if t.is_inexact else t))
        if e.op.name == "select":
            c = self.condition(e.args[0], path)
            sides = []
            for assumed, side in ((c, e.args[1]), (_opposite(c), e.args[2])):
                where = path.copy()
                where.assume(assumed)
                sides.append((self.form(side, where), where))
            return self.choice(key, path, *sides)
        return self.operation(e, key, path)

    def operation(self, e: Apply, key: Hashable, path: _Path) -> Form:
        args = [self.form(a, path) for a in e.args]
        made = arithmetic(e.op.name, args)
        if made is not None and len(made.terms) <= _TERMS:
            if not wraps(path.bound(made), int64):
                return made
        spans = [path.bound(a) for a in args]
        if e.op.name in ("remainder", "floor_divide"):
            low, high = spans[1]
            if low < 1 <= high and self.proves(path, args[1] - 1):
                spans[1] = 1, high
        found = exact(e.op.name, int64, spans)
        result = self.new(path, key, _WHOLE if wraps(found, int64) else found)
        if e.op.name in ("minimum", "maximum"):
            least = e.op.name == "minimum"
            sides = []
            for one, other in (args, args[::-1]):
                where, less = path.copy(), other - one if least else one - other
                where.learn(less)
                sides.append((one, where))
                path.learn(one - result if least else result - one)
            if sides[0][1].dead or sides[1][1].dead:
                return self.choice(key, path, *sides)
            path.cases[self.atoms[key]] = sides[0], sides[1]
        elif e.op.name == "remainder" and spans[1][0] >= 1:
            path.learn(args[1] - 1 - result)
            if spans[0][0] >= 0:
                path.learn(args[0] - result)
        elif e.op.name == "floor_divide" and isinstance(e.args[1], Const) and spans[1][0] >= 1:
            rest = args[0] - result * spans[1][0]
            path.learn(rest)
            path.learn(-rest + (spans[1][0] - 1))
        elif e.op.name == "bitwise_and" and spans[0][0] >= 0:
            path.learn(args[0] - result)
        return result

    def key(self, e: Expr, path: _Path) -> Hashable:
        """A key such that expressions with equal keys have equal values."""
        if e not in path.keys:
            path.keys[e] = self._key(e, path)
        return path.keys[e]

    def _key(self, e: Expr, path: _Path) -> Hashable:
        if isinstance(e, Const):
            return e.type, e.value.item()
        if isinstance(e, Var) and e.type != int64:
            return e, path.values.get(e)
        if isinstance(e, ir.Load):
            return "load", e.buffer, path.contents.get(e.buffer), self.form(e.index, path).key
        if isinstance(e, Apply):
            parts = (self.form(a, path).key if a.type == int64 else self.key(a, path)
                     for a in e.args)  # fmt: skip
            return e.op, e.type, *parts
        return object()  # a function of the user's

    # --- truth values ---

    def condition(self, e: Expr, path: _Path) -> Condition:
        if isinstance(e, Const):
            return bool(e.value)
        if isinstance(e, Var):
            return path.values.get(e, _Test())  # type: ignore[return-value]
        if not isinstance(e, Apply):
            return _Test()
        name, args = e.op.name, e.args
        if name in _COMPARISONS and args[0].type == int64:
            low, high, more = _COMPARISONS[name]
            return _Least(self.form(args[high], path) - self.form(args[low], path) - more)
        if name in ("equal", "not_equal") and args[0].type == int64:
            difference = self.form(args[0], path) - self.form(args[1], path)
            return _Same(difference, name == "not_equal")
        if name in ("logical_and", "logical_or"):
            parts = [self.condition(a, path) for a in args]
            return _both(*parts, some=name == "logical_or")
        if name == "logical_not":
            return _opposite(self.condition(args[0], path))
        if name == "select":
            c = self.condition(args[0], path)
            sides = []
            for assumed, side in ((c, args[1]), (_opposite(c), args[2])):
                where = path.copy()
                where.assume(assumed)
                sides.append(self.condition(side, where))
            return self.either(c, *sides)
        return _Test()

    def decide(self, path: _Path, c: Condition) -> bool | None:
        """Whether a condition always holds or never holds; None if undecided."""
        if c in path.truths or c in path.denied:
            return c in path.truths
        match c:
            case bool():
                return c
            case _Least():
                if self.proves(path, c.form):
                    return True
                return False if self.proves(path, -c.form - 1) else None
            case _All():
                found = [self.decide(path, part) for part in c.parts]
                if c.some in found:
                    return c.some
                return not c.some if None not in found else None
            case _Same():
                if self.proves(path, c.form - 1) or self.proves(path, -c.form - 1):
                    return c.other
        return None

    def proves(self, path: _Path, *forms: Form) -> bool:
        """Whether all forms are provably non-negative."""
        self.tries = _TRIES
        return all(self._proves(path, p, _DEPTH) for p in forms)

    def _proves(self, path: _Path, p: Form, depth: int) -> bool:
        if path.dead or path.bound(p)[0] >= 0:
            return True
        self.tries -= 1
        if depth == 0 or self.tries < 0:
            return False
        for monomial, c in p.terms.items():
            if not monomial or path.bound(Polynomial({monomial: c}))[0] >= 0:
                continue
            for fact in path.facts.values():
                d = fact.terms.get(monomial, 0)
                if d * c <= 0:
                    continue
                rest = p * abs(d) - fact * abs(c)
                if len(rest.terms) <= len(p.terms) + 1 and self._proves(path, rest, depth - 1):
                    return True
        for atom in p.atoms():
            if atom not in path.cases or not (c := p.coefficient(atom)):
                continue
            rest = p - Polynomial.atom(atom) * c
            for form, known in path.cases[atom]:
                one = rest + form * c
                if known.bound(one)[0] < 0 and not self._proves(_with(path, known), one, depth):
                    break
            else:
                return True
        return False

    # --- what statements become ---

    def simplified(self, e: Expr, path: _Path) -> Expr:
        def change(x: Expr) -> Expr:
            if not isinstance(x, Apply):
                return x
            if x.type is bool_:
                known = self.decide(path, self.condition(x, path))
                if known is not None:
                    return TRUE if known else FALSE
                if x.op.name in ("logical_and", "logical_or"):
                    return simplify.apply(x.op, x.args, bool_)
            if x.op.name in ("minimum", "maximum") and x.type == int64:
                a, b = x.args
                less = self.form(b, path) - self.form(a, path)
                for sign in (1, -1):
                    if self.proves(path, less * sign):
                        return a if (x.op.name == "minimum") == (sign == 1) else b
            return simplify.select(*x.args) if x.op.name == "select" else x

        return ex.rewrite((e,), change)[0]


def _is_near(found: Range) -> bool:
    return -_FAR < found[0] <= found[1] < _FAR


def _find_fast(body: ir.Body, slow: bool, found: set[Var | ir.Buffer]) -> None:
    """Collect the variables assigned in loops that access no arrays: such iterations are too short
    for the argument of `_SLOW`."""
    for s in body:
        if isinstance(s, ir.Assign) and not slow:
            found.add(s.var)
        inside = slow
        if isinstance(s, ir.For | ir.While):
            every = ir.statements(ir.children(s)[0] + ir.children(s)[-1])
            used = ex.walk(e for x in every for e in ir.expressions(x))
            inside = any(isinstance(x, ir.Store) for x in every) or any(
                isinstance(e, ir.Load) and not isinstance(e.index, Const) for e in used
            )
        for inner in ir.children(s):
            _find_fast(inner, inside, found)


def _with(path: _Path, more: _Path) -> _Path:
    """The state here, with the facts of the state in which an atom got its value."""
    return replace(
        path, ranges={**more.ranges, **path.ranges}, facts={**more.facts, **path.facts},
        truths=path.truths | more.truths, denied=path.denied | more.denied,
        cases={**more.cases, **path.cases}, forms={}, keys={},
        dead=path.dead or not more.truths.isdisjoint(path.denied),
    )  # fmt: skip
