"""Loops whose trip count differs between SIMD lanes: run as vectors, as scalars, or both.

A vector loop runs W elements at once.  An inner loop whose trip count differs between elements (a
`while_loop`, or bounds that depend on data) iterates until the last lane is done, so W elements
take as long as the longest of them.  The time of one iteration, as a vector (V) and for one element
(S), selects one of three forms:

    lanes     V < 3 S: vectors until the last lane is done (much arithmetic, or dependent loads,
              whose latencies overlap across lanes)
    rest      otherwise: vectors while at least V / S lanes iterate, then lane by lane.  No
              iteration takes longer than in the better of the other two forms
    scalar    if W elements with equal trip counts are not faster as a vector: one at a time

Bits do not depend on the form: scalars and vectors use the same operations in the same order.

The times are estimates in cycles: the larger of the issue time of an iteration's operations and the
longest dependency path from a variable of the loop to its next value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, walk
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType, int64
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.ranges import is_varying, varying_variables

from .analysis import lanes_for, modified, nodes
from .lanes import BITS
from .mathlib import FUNCTIONS
from .target import Target
from .values import parts, register_element

# Estimates for recent x86-64 cores, adjusted on an AMD EPYC.  They only choose among forms that
# give the same bits: what matters is the ratio of a vector's time to a scalar's, and where it is
# wrong, a slower form runs.  `benchmarks/cliffs` has "loops that differ in length".
#: Scalar and vector instructions that start per cycle.
_SCALARS, _VECTORS = 4.0, 2.0
#: Cycles per lane of a gather: as one instruction, and as a branch and a load per lane.
_GATHER, _BY_LANE = 2.0, 3.5
#: Cycles of the test and the masks of a vector iteration, and of the test of a scalar iteration.
_MASKS, _TEST = 4.0, 1.0
#: Cycles of a load whose address was computed just before: more than in the first-level cache, far
#: less than in memory.
_LATE_LOAD = 20.0
#: Cycles per iteration of a branch that is taken half of the time, and thus often mispredicted.
_BRANCH = 5.0
#: Cycles of entering and leaving the scalar loop of a lane, spread over a few iterations.
_ENTRY = 1.5
#: A loop is emitted a second time only if a vector iteration takes this many times as long as a
#: scalar one.
_WORTH = 3
#: The assumed trip count of a loop of unknown length.
_ITERATIONS = 16.0
#: Loops of more operations are not emitted a second time.
_LONGEST = 400
#: The time of a vector division of 64-bit integers (as float64 numbers) relative to 32-bit ones.
_LONG_DIVISION = 2.0
#: Cycles of a call of a user's function.
_FOREIGN = 50.0


@dataclass(frozen=True)
class Form:
    """How an inner loop runs in vectors of `lanes`: lane by lane once fewer than `least` lanes
    iterate (0: never; more than `lanes`: from the beginning).

    `one` and `vector`: estimated cycles of an iteration.
    """

    lanes: int
    one: float
    vector: float
    least: int


@dataclass(frozen=True)
class VectorForm:
    """How a vector loop runs: element by element if `scalar`; `loops`: the forms of the inner loops
    whose trip counts differ between lanes."""

    scalar: bool
    lanes: int
    loops: tuple[Form, ...]

    @property
    def remark(self) -> str:
        """What `explain` says of this form; "" if all loops run as vectors to the end."""
        slow = max(self.loops, key=lambda f: f.least, default=None)
        if slow is None or not (self.scalar or slow.least):
            return ""
        times = (
            f"an iteration of {self.lanes} is estimated at {slow.vector:.0f} cycles, of one at "
            f"{slow.one:.0f}"
        )
        why = "its loops differ in length between elements"
        if self.scalar:
            return f"one element at a time, not in SIMD lanes: {why}; {times}"
        if slow.least > self.lanes:
            return f"loops one element at a time, not in SIMD lanes: {why}; {times}"
        return (
            f"loops in {self.lanes} SIMD lanes, one by one when fewer than {slow.least} still "
            f"iterate: {why}; {times}"
        )


Inner = ir.For | ir.While


def form_of(s: Inner, lanes: int, varying: set[Var], target: Target, around: ir.For | None) -> Form:
    """The form of a loop whose trip count differs between the lanes of the enclosing vector
    loop."""
    times = _Times(lanes, varying, target, around)
    one, vector = times.iteration(s)
    least = 0 if _has_uniform_loops(s, varying) else _least(s, one, vector)
    return Form(lanes, one, vector, least)


def vector_form(s: ir.For, target: Target, lanes: int = 0) -> VectorForm:
    """The form of a vector loop; `lanes`: the length of its vectors, if known."""
    lanes = lanes or lanes_for(s.body, target)[0]
    varying = varying_variables(s.body, {s.var})
    inner = [x for x in _loops(s.body) if _differs(x, varying)]
    if not inner:
        times = _Times(lanes, varying, target, s, predicted=True)
        stores = (x for x in ir.statements(s.body) if isinstance(x, ir.Store))
        scalar = any(map(times.scatters, stores)) and times.is_scalar(s.body)
        return VectorForm(scalar, lanes, ())
    loops = tuple(form_of(x, lanes, varying, target, s) for x in inner)
    return VectorForm(_Times(lanes, varying, target, s).is_scalar(s.body), lanes, loops)


def remarks(kernel: ir.Kernel, target: Target) -> Iterator[str]:
    """The remarks on the vector loops of a kernel."""
    for s in ir.statements(kernel.body):
        if isinstance(s, ir.For) and s.kind == "vector":
            form = vector_form(s, target)
            if form.remark and (form.scalar or not kernel.errors):
                yield form.remark


def _least(s: Inner, one: float, vector: float) -> int:
    least = int(vector / (one + _ENTRY))
    if least < _WORTH or nodes((s,)) > _LONGEST or not _repeatable(s):
        return 0
    return least


def _has_uniform_loops(s: Inner, varying: set[Var]) -> bool:
    """Whether it contains loops with the same trip count in all lanes.  What vectors gain there
    exceeds what the last lanes of the outer loop cost."""
    body = s.body if isinstance(s, ir.For) else (*s.before, *s.body)
    return any(not _differs(inner, varying) for inner in _loops(body))


def _repeatable(s: Inner) -> bool:
    """Whether the test may be evaluated twice, since it changes nothing but its own variables."""
    if isinstance(s, ir.For):
        return True
    own = {v for x in ir.statements(s.before) for v in ir.defined(x)}
    return modified(s.before) <= own


def free(s: ir.Statement) -> list[Var]:
    """The variables that a statement uses and does not define."""
    used: dict[Var, None] = {}
    own: set[Var] = set()
    for x in ir.statements((s,)):
        own.update(ir.defined(x))
        if isinstance(x, ir.For | ir.Reduce):
            own.add(x.var)
        if isinstance(x, ir.Assign):
            used[x.var] = None
        if isinstance(x, ir.Reduce):
            used.update(dict.fromkeys(x.accumulators))
            own.update(v for v in (*x.combine.left, *x.combine.right) if isinstance(v, Var))
        used.update(dict.fromkeys(e for e in walk(ir.evaluated(x)) if isinstance(e, Var)))
    return [v for v in used if v not in own]


def _loops(body: ir.Body) -> Iterator[Inner]:
    """The outermost loops; a reduction inside a vector loop counts as a loop."""
    for s in body:
        if isinstance(s, ir.Reduce):
            yield ir.as_loop(s)
        elif isinstance(s, ir.While) or (isinstance(s, ir.For) and s.kind != "unrolled"):
            yield s
        else:
            for inner in ir.children(s):
                yield from _loops(inner)


def _differs(s: Inner, varying: set[Var]) -> bool:
    if isinstance(s, ir.While):
        return is_varying(s.condition, varying)
    return is_varying(s.start, varying) or is_varying(s.stop, varying)


class _Times:
    """Estimates in cycles, (for one element, for a vector of `lanes`)."""

    def __init__(
        self,
        lanes: int,
        varying: set[Var],
        target: Target,
        around: ir.For | None,
        predicted: bool = False,
    ) -> None:
        """`predicted`: tests of positions are, as they hold but at the ends."""
        self.lanes, self.varying, self.target, self.predicted = lanes, varying, target, predicted
        self.position = None if around is None else around.var
        inside = () if around is None else ir.statements(around.body)
        self.named = {s.var: s.value for s in inside if isinstance(s, ir.Let)}

    def scatters(self, s: ir.Store) -> bool:
        """Whether a vector would be stored lane by lane."""
        apart = is_varying(s.index, self.varying) and self._step(s.index) not in (1, -1)
        return apart and not self.target.masks("scatter", s.buffer.type.bytes * 8)

    def is_scalar(self, body: ir.Body) -> bool:
        """Whether as many elements one by one take no longer than a vector of them."""
        one, vector = self.block(body)
        return self.lanes * one <= vector

    def block(self, body: ir.Body, variant: set[Var] | None = None) -> tuple[float, float]:
        """The issue time of statements; with `variant`, without what does not depend on these
        variables, which is hoisted."""
        one = vector = 0.0
        for s in body:
            if isinstance(s, ir.Reduce):
                s = ir.as_loop(s)
            a, b = self.operations(ir.expressions(s), variant)
            if isinstance(s, ir.Store):
                a += 1 / _SCALARS
                b += self._access(s.buffer.type, s.index, "scatter")
            if isinstance(s, ir.While) or (isinstance(s, ir.For) and s.kind != "unrolled"):
                c, d = self.iteration(s)
                a, b = a + _ITERATIONS * c, b + _ITERATIONS * d
            else:
                copies = 1.0
                if isinstance(s, ir.For) and isinstance(s.stop, Const):
                    copies = max(float(s.stop.value), 1.0)
                for inner in ir.children(s):
                    c, d = self.block(inner, variant)
                    a, b = a + copies * c, b + copies * d
                if isinstance(s, ir.If) and is_varying(s.condition, self.varying):
                    a += 1 / _SCALARS if self.predicted else _BRANCH
            one, vector = one + a, vector + b
        return one, vector

    def iteration(self, s: Inner) -> tuple[float, float]:
        """One iteration of a loop."""
        body = s.body if isinstance(s, ir.For) else (*s.before, *s.body)
        variant = {v for x in ir.statements(body) for v in ir.defined(x)}
        variant |= {v for v in modified(body) if isinstance(v, Var)}
        if isinstance(s, ir.For):
            variant.add(s.var)
        one, vector = self.block(body, variant)
        if isinstance(s, ir.While):
            a, b = self.operations((s.condition,), variant)
            one, vector = one + a, vector + b
        # A branch that leaves the loop is predicted well, even if the test has two parts.
        exits = [x for x in (s.before if isinstance(s, ir.While) else ()) if isinstance(x, ir.If)]
        one -= _BRANCH * sum(is_varying(x.condition, self.varying) for x in exits)
        path = _longest_cycle(body)
        return max(one + _TEST, path), max(vector + _MASKS, path + _MASKS)

    def operations(self, roots: Iterable[Expr], variant: set[Var] | None) -> tuple[float, float]:
        one = vector = 0.0
        for e in walk(tuple(roots)):
            if isinstance(e, Const | Var) or not (variant is None or is_varying(e, variant)):
                continue
            if isinstance(e, ir.Load):
                one += 1 / _SCALARS
                vector += self._access(e.buffer.type, e.index, "gather")
            elif isinstance(e, Foreign):
                one, vector = one + _FOREIGN, vector + self.lanes * _FOREIGN
            elif isinstance(e, Apply):
                cost = _issue(e)
                differs = is_varying(e, self.varying)
                vectors = self._vectors(e) if differs else 1.0
                if e.op.name in FUNCTIONS and e.type.is_inexact:  # one routine for both
                    one, vector = one + cost, vector + cost * vectors
                else:
                    one += cost / _SCALARS
                    if differs and e.type == int64 and _divides(e):
                        vectors *= _LONG_DIVISION
                    vector += cost * vectors / (_VECTORS if differs else _SCALARS)
        return one, vector

    def _vectors(self, e: Expr) -> float:
        types = [e.type, *(a.type for a in e.args)]
        bits = max(BITS[register_element(t)] * parts(t) for t in types)
        return max(self.lanes * bits / (8 * self.target.vector_bytes), 1.0)

    def _access(self, t: ScalarType, index: Expr, what: str) -> float:
        """The time of a load or a store by all lanes."""
        if not is_varying(index, self.varying):
            return 1 / _SCALARS
        bits = BITS[register_element(t)] * parts(t)
        if self._step(index) in (1, -1):
            return max(self.lanes * bits / (8 * self.target.vector_bytes), 1.0)
        each = _GATHER if self.target.masks(what, max(t.bytes * 8 // parts(t), 1)) else _BY_LANE
        return each * self.lanes

    def _step(self, e: Expr) -> int | None:
        """The stride of an index between neighbouring lanes; None if it is not constant."""
        if e is self.position:
            return 1
        if not is_varying(e, self.varying):
            return 0
        if isinstance(e, Var):
            value = self.named.get(e)
            return None if value is None else self._step(value)
        if isinstance(e, Apply) and e.op.name in ("add", "subtract"):
            a, b = map(self._step, e.args)
            if a is not None and b is not None:
                return a + b if e.op.name == "add" else a - b
        return None


_DIVISIONS = ("floor_divide", "remainder", "quot", "rem", "divide", "modulo")


def _divides(e: Apply) -> bool:
    """Whether the divisor is not a constant."""
    return e.op.name in _DIVISIONS and not isinstance(e.args[1], Const)


def _issue(e: Apply) -> float:
    """The approximate number of instructions of an operation."""
    name, kind = e.op.name, e.args[-1].type
    if name in _DIVISIONS and kind.is_integer and isinstance(e.args[1], Const):
        n = int(e.args[1].value)
        return 2.0 if n > 0 and not n & (n - 1) else 5.0
    if kind.is_float and name in ("minimum", "maximum"):
        return 3.0  # NaN and the sign of zero
    return max(e.op.cost, 1.0)


def _latency(e: Apply) -> float:
    """The latency of an operation in cycles."""
    name, kind = e.op.name, e.args[-1].type
    if name == "select":
        return 1.0
    if kind.is_inexact:
        if name in ("add", "subtract", "multiply", "fma"):
            return 4.0 * parts(kind)
        return max(3.0, e.op.cost * 1.5 if e.op.cost > 1 else 0.0)
    if name == "multiply":
        return 3.0
    return _issue(e)


def _longest_cycle(body: ir.Body) -> float:
    """The length per iteration of the longest loop-carried dependency: from a variable that an
    iteration assigns to its next value, maybe through other variables."""
    own = {v for x in ir.statements(body) for v in ir.defined(x)}
    carried = [v for v in dict.fromkeys(_assigned(body)) if v not in own][:8]
    paths = {u: _paths(body, u) for u in carried}
    longest = 0.0
    for u in carried:
        for v in carried:
            there, back = paths[u].get(v), paths[v].get(u)
            if u is v and there is not None:
                longest = max(longest, there)
            elif there is not None and back is not None and there and back:
                longest = max(longest, (there + back) / 2)
    return longest


def _assigned(body: ir.Body) -> Iterator[Var]:
    return (s.var for s in ir.statements(body) if isinstance(s, ir.Assign))


def _paths(body: ir.Body, start: Var) -> Mapping[Var, float]:
    """The longest paths from the value of `start` before the statements to the variables after
    them."""
    at: dict[Var, float] = {start: 0.0}
    done: dict[Expr, float | None] = {}

    def path(root: Expr) -> float | None:
        done.clear()
        for e in walk((root,)):
            if isinstance(e, Var):
                done[e] = at.get(e)
                continue
            before = [p for a in e.args if (p := done[a]) is not None]
            own = 0.0
            if isinstance(e, Apply):
                own = _latency(e)
            elif isinstance(e, ir.Load):
                own = _LATE_LOAD
            elif isinstance(e, Foreign):
                own = _FOREIGN
            done[e] = max(before) + own if before else None
        return done[root]

    def follow(inside: Sequence[ir.Statement], under: bool) -> None:
        for s in inside:
            if isinstance(s, ir.Let | ir.Declare | ir.Assign):
                found = path(s.value)
                if under and s.var in at:
                    found = max(at[s.var], found or 0.0)
                if found is None:
                    at.pop(s.var, None)
                else:
                    at[s.var] = found
            elif isinstance(s, ir.Reduce):
                follow((ir.as_loop(s),), under)
            else:
                for inner in ir.children(s):
                    follow(inner, True)

    follow(body, False)
    return at
