"""Temporal blocking of loops over 2-D stencils: the analysis of the body, and the pipeline of rows.

    x₁ = f(w(x₀));  y₁ = y₀ + g(w(x₁))       an iteration: operations on whole arrays (`Body`)

    A pass walks down the rows.  In the step whose newest row is Y, it
        loads     row Y      of x₀
        computes  row Y − 1  of x₁           f reads the row below
        computes  row Y − 2  of y₁           … and so on, for all iterations (`Pipeline`)

An update of part of an array counts as an operation on the whole array that copies the rest.  So
does one that stores its results as a plane of an array, a new one in each iteration (`Record`):
states that are kept, as for a gradient.  `gpu_temporal.py` turns a pipeline into a kernel.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from treadle.dsl import expr as ex
from treadle.dsl.analysis.polynomial import Polynomial, polynomial
from treadle.dsl.analysis.steps import moving_with
from treadle.dsl.expr import Expr
from treadle.dsl.graph import (
    ArrayLoop,
    Check,
    Generate,
    Input,
    Leaf,
    Node,
    Permute,
    Shape,
    indices,
    topological,
)
from treadle.dsl.operations.stencils import resolve_index
from treadle.dsl.passes.dense import as_elements
from treadle.dsl.passes.neighbours import neighbour
from treadle.dsl.records import dataclass
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import ScalarType

from .gpu_loads import folded
from .gpu_stream import NotAStream, moves, row_of


class Source(NamedTuple):
    """The array that an iteration reads, or a plane, row or column of it.

    `at`: for each axis, `Index(0)` if it runs along the rows, `Index(1)` if along the columns, and
    otherwise an index that is the same for all elements of an iteration.
    """

    leaf: Leaf
    at: tuple[Expr, ...]

    @property
    def shared(self) -> bool:
        """Whether an index is the same for all elements of an iteration."""
        return any(not isinstance(a, ex.Index) for a in self.at)


@dataclass(frozen=True)
class Tap:
    """A read at a constant offset (`row`, `column`) from the element that is computed.

    `rows`: the row offsets from which the boundary condition may take the value instead.
    """

    source: Source
    row: int
    column: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Stage:
    """An operation of an iteration: its element expressions, and their reads at offsets."""

    elements: tuple[Expr, ...]
    taps: Mapping[ex.Read, Tap]

    @property
    def height(self) -> int:
        """The distance between the first and the last row that an element reads."""
        rows = [r for t in self.taps.values() for r in t.rows]
        return max(rows) - min(rows) if rows else 0


@dataclass(frozen=True)
class Record:
    """A state of which every iteration writes a plane of its own, at `plane` of the first axis,
    which is counted from the front if it is not negative.

    `valid`: a condition that holds in all iterations if it does in the first and last.  `last`
    stands for the plane at `before` in the body: what the iteration before has written."""

    state: Leaf
    counter: Expr
    plane: Expr
    valid: Expr
    before: Expr
    last: Leaf


@dataclass(frozen=True)
class Body:
    """One iteration: stencil operations on arrays of a single shape.

    `states` are the loop states that change, and `results` their next values.  `records`: for those
    that stand for the last plane of a state, what that is.  `written` is the number of arrays (or
    fractions of arrays) that an iteration writes.  The states must have one shape, which the
    program may not guarantee: `equal` maps extents to the ones that replace them in the
    expressions, and has to be tested at run time.
    """

    loop: ArrayLoop
    shape: Shape
    nodes: tuple[Generate, ...]
    states: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    records: Mapping[Leaf, Record]
    written: float
    equal: dict[Expr, Expr]

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(c for n in self.nodes for c in n.checks)

    @property
    def elements(self) -> tuple[Expr, ...]:
        return tuple(e for n in self.nodes for e in n.elements)


def changed(loop: ArrayLoop) -> list[int]:
    """The numbers of the states that iterations change; they only read the others."""
    return [k for k, s in enumerate(loop.state) if loop.body[k] != s.leaf()]


def records_of(loop: ArrayLoop) -> dict[int, Record]:
    """The states, by their numbers, of which every iteration writes a plane of its own."""
    found: dict[int, Record] = {}
    varying = loop.varying(list(topological(loop.body)))
    for k, (state, result) in enumerate(zip(loop.state, loop.body, strict=True)):
        put, own = result.node, state.leaf()
        if loop.index is None or not isinstance(put, Permute) or put.defaults != (own,):
            continue
        rank, counter = len(put.domain), loop.index.leaf().at()
        if put.combine is not None or put.target[1:] != indices(rank) or put.label.ordered:
            continue
        plane, valid = ex.rewrite((put.target[0], put.valid), _from_front)
        moving = moving_with(plane, counter)
        if moving is None or not _is_range(valid, counter, varying):
            continue
        before = apply_primitive("add", [plane, ex.constant(-moving[0])])
        last = Input(state.name, state.type, (False,) * rank, kind="state", where=state.where)
        found[k] = Record(own, counter, plane, valid, before, last.of_shape(put.domain).leaf())
    return found


def _from_front(e: Expr) -> Expr:
    """For `rewrite`: an index x + n if x < 0, as x, which then must not be negative."""
    if isinstance(e, ex.Apply) and e.op.name == "select":
        test, _, index = e.args
        if test is apply_primitive("less", [index, ex.constant(0)]):
            return index
    return e


def _is_range(condition: Expr, counter: Expr, varying: Container[Node]) -> bool:
    """Whether a condition holds for a range of a loop's counter, and for all elements or none.
    `varying`: what iterations compute."""
    if condition is ex.TRUE:
        return True
    if not isinstance(condition, ex.Apply):
        return False
    if condition.op.name == "logical_and":
        return all(_is_range(e, counter, varying) for e in condition.args)
    return condition.op.name in _COMPARISONS and all(
        moving_with(e, counter) or not any(
            isinstance(x, ex.Index) or (isinstance(x, ex.Read) and (x.args or x.node in varying))
            for x in ex.walk((e,))
        ) for e in condition.args
    )  # fmt: skip


def body_of(loop: ArrayLoop) -> Body | None:
    """The body of a counted loop, or None if it has other operations.  A state may take the
    previous value of another one, as in a wave equation."""
    if loop.count is None or loop.predicate is not None:
        return None
    changing, records = changed(loop), records_of(loop)
    states = tuple(records[k].last if k in records else loop.state[k].leaf() for k in changing)
    kept = {r.state: r for r in records.values()}
    equal = _equal([s.shape for s in states])
    if equal is None:
        return None
    shape = ex.substitute(states[0].shape, equal)
    order = list(topological(loop.body))
    inside = loop.varying(order)
    known: set[Node] = {*loop.state}
    if loop.index is not None:
        known.add(loop.index)
    now: dict[Leaf, Leaf] = {}
    nodes, written = list[Generate](), Fraction(0)
    for node in order:
        if node not in inside or node in known or (type(node) is Generate and not node.shape):
            continue
        made = _as_operation(node, inside, kept, now, shape, equal)
        if made is None:
            return None
        operation, part = made
        if any(isinstance(e, ex.Read) and e.node in inside - known
               for e in ex.walk(operation.elements)):  # fmt: skip
            return None
        nodes.append(operation)
        known.add(operation)
        written += part * len(operation.elements)
        now.update(zip(node.leaves, operation.leaves, strict=True))
    results = []
    for k in changing:
        result = now.get(loop.body[k], loop.body[k])
        if result not in states and result.node not in nodes:
            if result.node not in known:
                return None
            element = result.at(*indices(len(shape)))  # a state that does not change
            nodes.append(Generate(shape, (element,), label=result.node.label))
            result = nodes[-1].leaf()
        results.append(result)
    ends = {r.last: r for r in records.values()}
    return Body(loop, shape, tuple(nodes), states, tuple(results), ends, float(written), equal)


def _equal(shapes: Sequence[Shape]) -> dict[Expr, Expr] | None:
    """For arrays that must have one shape: each extent, with the one that replaces it.  None if
    their ranks or constant extents differ."""
    equal: dict[Expr, Expr] = {}
    if len({len(s) for s in shapes}) != 1:
        return None
    for extents in zip(*shapes, strict=True):
        fixed = [e for e in dict.fromkeys(extents) if not isinstance(e, ex.Extent)]
        if len(fixed) > 1:
            return None
        one = equal.get(extents[0], extents[0]) if not fixed else fixed[0]
        equal |= {e: one for e in extents if e is not one}
    return equal


def _as_operation(node: Node, inside: Container[Node], kept: Mapping[Leaf, Record],
                  now: Mapping[Leaf, Leaf], shape: Shape, equal: dict[Expr, Expr]
                  ) -> tuple[Generate, Fraction] | None:  # fmt: skip
    """A node of the body as an operation on whole arrays that reads the operations before it, and
    the fraction of the array that it writes.  None if it is not element-wise."""
    if node.label.schedule is not None:
        return None
    if isinstance(node, Permute) and kept.keys() & {*node.defaults}:
        node = Generate(node.domain, node.values, label=node.label, where=node.where,
                        checks=node.checks, fused=node.fused)  # fmt: skip
    if type(node) is Generate and ex.substitute(node.shape, equal) == shape:
        made, part = node, Fraction(1)
    elif isinstance(node, Permute) and ex.substitute(node.defaults[0].shape, equal) == shape:
        own = node.domain, node.target, node.values
        domain, target, values = (ex.substitute(roots, equal) for roots in own)
        (valid,) = ex.substitute((node.valid,), equal)
        moved = node.with_(domain=domain, target=target, values=values, valid=valid)
        found = as_elements(moved, shape, inside)
        if found is None:
            return None
        made, part = found
    else:
        return None
    elements: Sequence[Expr] = made.elements
    while numbers := _numbers(elements, inside):
        elements = ex.rewrite(elements, partial(_known, numbers))
    if kept:
        elements = ex.rewrite(elements, partial(_last, kept))
        stay = (Leaf(e.node, e.component) for e in ex.walk(elements) if isinstance(e, ex.Read))
        if any(leaf in kept or not kept.keys().isdisjoint(_defaults(leaf)) for leaf in stay):
            return None  # of other planes
    elements = ex.rewrite(ex.substitute(elements, equal), partial(_renamed, now))
    near: dict[Expr, Expr] = {
        e: neighbour(e, shape, ex.substitute(e.node.outputs[e.component].shape, equal))
        for e in ex.walk(elements) if isinstance(e, ex.Read)
    }  # fmt: skip
    made = made.with_(shape=shape, elements=ex.rewrite(elements, partial(_known, near)))
    return made, part


def _numbers(elements: Sequence[Expr], inside: Container[Node]) -> dict[Expr, Expr]:
    """The reads of numbers that an iteration computes, with the expressions of these numbers."""
    return {
        e: e.node.elements[e.component] for e in ex.walk(elements)
        if isinstance(e, ex.Read) and e.node in inside and type(e.node) is Generate
        and not e.node.shape
    }  # fmt: skip


def _known(values: Mapping[Expr, Expr], e: Expr) -> Expr:
    return values.get(e, e)


def _last(kept: Mapping[Leaf, Record], e: Expr) -> Expr:
    """A read of the plane that the iteration before has written as one of its stand-in."""
    record = kept.get(Leaf(e.node, e.component)) if isinstance(e, ex.Read) else None
    if record is None:
        return e
    assert isinstance(e, ex.Read)
    places = ex.rewrite((e.args[0], record.before), _from_front)
    there, before = (moving_with(x, record.counter) for x in places)
    if there is None or before is None or there[0] != before[0]:
        return e
    if polynomial(there[1]) != polynomial(before[1]):
        return e
    return ex.Read(record.last.node, 0, e.args[1:], e.boundary, e.scoped, e.vars)


def _defaults(leaf: Leaf) -> tuple[Leaf, ...]:
    return leaf.node.defaults if isinstance(leaf.node, Permute) else ()


def _renamed(now: Mapping[Leaf, Leaf], e: Expr) -> Expr:
    leaf = now.get(Leaf(e.node, e.component)) if isinstance(e, ex.Read) else None
    if leaf is None:
        return e
    assert isinstance(e, ex.Read)
    return ex.Read(leaf.node, leaf.component, e.args, e.boundary, e.scoped, e.vars)


# --- reads of operations -------------------------------------------------------------------------


def stages(body: Body, inside: tuple[int, int] | None = None) -> tuple[Stage, ...] | None:
    """The operations of the body; None if one reads anything but numbers and elements at constant
    offsets.

    With `inside`, they are specialised for elements at least that many rows and columns away from
    the edges: boundaries and conditions on the indices are gone.
    """
    made = []
    for node in body.nodes:
        elements = node.elements
        if any(isinstance(e, ex.While | ex.Loop | ex.Foreign) for e in ex.walk(elements)):
            return None
        if inside is not None:
            elements = ex.rewrite(elements, partial(_decided, body.shape, inside))
        taps: dict[ex.Read, Tap] = {}
        for e in ex.walk(elements):
            if isinstance(e, ex.Read) and moves(e):
                tap = _tap(e, inside is not None)
                if tap is None:
                    return None
                taps[e] = tap
        made.append(Stage(tuple(elements), taps))
    return tuple(made)


def _tap(read: ex.Read, inside: bool) -> Tap | None:
    """A read as an offset from the element; None if the offset is not constant, or the boundary is
    a function."""
    if read.boundary == "function" or any(isinstance(x, ex.Read) for x in ex.walk(read.scoped)):
        return None
    try:
        offsets = [row_of(read, ex.Index(k)) for k in range(2)]
    except NotAStream:
        return None
    axes = [_axis(a) for a in read.args]
    moving = [a for a in axes if isinstance(a, ex.Index)]
    if None in axes or moving not in ([ex.Index(0), ex.Index(1)], [ex.Index(0)], [ex.Index(1)]):
        return None
    if ex.Index(1) in moving and axes[-1] is not ex.Index(1):
        return None
    leaf, at = Leaf(read.node, read.component), [a for a in axes if a is not None]
    if read.boundary in ("mirror", "symmetric"):
        pairs = zip(at, leaf.shape, strict=True)
        at = [a if a in moving else resolve_index(read.boundary, a, n) for a, n in pairs]
    source = Source(leaf, tuple(at))
    if source.shared and read.boundary == "constant":
        return None
    row, column = (offset or 0 for offset in offsets)
    rows = [row]
    if not inside and read.boundary in ("clamp", "mirror", "symmetric"):
        rows += rows_inside(read.boundary, row)
    return Tap(source, row, column, tuple(rows))


def _axis(index: Expr) -> Expr | None:
    """The axis along which an index runs; the index itself if it depends on the counter and on
    numbers only, so that all elements share it; otherwise None."""
    found = {x for x in ex.walk((index,)) if isinstance(x, ex.Index)}
    if len(found) == 1:
        return found.pop()
    alone = all(not x.args for x in ex.walk((index,)) if isinstance(x, ex.Read))
    return index if not found and alone else None


def rows_inside(boundary: str, offset: int) -> list[int]:
    """The row offsets that replace `offset` if the row read is 1, 2, … |offset| rows outside the
    array."""
    backs = [(depth, folded(boundary, depth)) for depth in range(1, abs(offset) + 1)]
    if offset < 0:
        return [offset + depth + back for depth, back in backs]
    return [offset - depth - back for depth, back in backs]


_COMPARISONS = {
    "less": (False, 1), "less_equal": (False, 0), "greater": (True, 1), "greater_equal": (True, 0),
}  # fmt: skip


def _decided(shape: Shape, inside: tuple[int, int], e: Expr) -> Expr:
    """For `rewrite`: decides comparisons of an index with positions near an edge, and the
    conditionals that depend on them, for elements far from the edges."""
    if isinstance(e, ex.Proj) and isinstance(cond := e.args[0], ex.Cond):
        (chosen,) = cond.args
        if isinstance(chosen, ex.Const):
            return (cond.then if chosen.value else cond.other)[e.which]
    if not isinstance(e, ex.Apply) or e.op.name not in (*_COMPARISONS, "equal", "not_equal"):
        return e
    left, right = (polynomial(a) for a in e.args)
    if left is None or right is None:
        return e
    below, above = (_least(d, shape, inside) for d in (right - left, left - right))
    if e.op.name in ("equal", "not_equal"):
        differs = any(d is not None and d > 0 for d in (below, above))
        return ex.constant(e.op.name == "not_equal") if differs else e
    swapped, by = _COMPARISONS[e.op.name]
    if swapped:
        below, above = above, below
    if below is not None and below >= by:
        return ex.TRUE
    return ex.FALSE if above is not None and above >= 1 - by else e


def _least(p: Polynomial[Expr], shape: Shape, inside: tuple[int, int]) -> int | None:
    """A lower bound of a difference over the elements far from the edges; None if unknown."""
    for k, (n, margin) in enumerate(zip(shape, inside, strict=True)):
        index: Expr = ex.Index(k)
        extent, c = polynomial(n), p.coefficient(index)
        if extent is None:
            return None
        end = Polynomial.number(margin) if c > 0 else extent - (margin + 1)
        p = p - Polynomial.atom(index) * c + end * c
    return p.value


# --- the pipeline of rows ------------------------------------------------------------------------


class Value(NamedTuple):
    """An array in the pipeline: a result `component` of operation `node` in an iteration.  In
    iteration −1, `node` is the number of a state before the pass.  Negative nodes −1, −2, … are the
    `windows` of the pipeline: planes that an iteration reads, of arrays that it does not change."""

    iteration: int
    node: int
    component: int

    @property
    def unit(self) -> tuple[int, int]:
        """The (iteration, operation) that computes it."""
        return self[:2]


class Needs(NamedTuple):
    """What rows first … last of the results depend on: rows first + low … last + high, and columns
    up to `beside` further left and right."""

    low: int
    high: int
    beside: int


class Pipeline:
    """The iterations of a pass.  `lag`: how many rows each operation is behind the row that is
    loaded.

    `counts`: the numbers of iterations that one kernel can make, the largest first.  `windows`: the
    planes of which rows are kept, loaded a step before they are used.
    """

    def __init__(self, body: Body, operations: Sequence[Stage], counts: Sequence[int],
                 windows: Sequence[Source] = ()) -> None:  # fmt: skip
        self.body, self.stages, self.counts, self.windows = body, operations, counts, windows
        self._nodes: dict[Node, int] = {node: k for k, node in enumerate(body.nodes)}
        self.finals = {n: [self.value(n, s) for s in body.states] for n in counts}
        #: What a pass stores: the final states, and every plane.
        self.stored = {
            n: [*finals, *(self.value(k, s) for k in range(1, n) for s in body.records)]
            for n, finals in self.finals.items()
        }  # fmt: skip
        self.reads: dict[tuple[int, int], list[tuple[Value, Tap]]] = {}
        waiting = [v.unit for stored in self.stored.values() for v in stored]
        while waiting:
            unit = waiting.pop()
            if unit not in self.reads:
                self.reads[unit] = self._reads(unit)
                waiting += [v.unit for v, _ in self.reads[unit]]
        self.units = sorted(self.reads)
        self.rows = max(1, *(s.height for s in operations))
        self.lag = self._lags()
        self.needs = {n: self._needs(n) for n in counts}

    def value(self, iteration: int, leaf: Leaf) -> Value:
        """The array that a leaf of the body stands for in an iteration."""
        while leaf in self.body.states:
            state = self.body.states.index(leaf)
            if iteration == 0:
                return Value(-1, state, 0)
            iteration, leaf = iteration - 1, self.body.results[state]
        return Value(iteration, self._nodes[leaf.node], leaf.component)

    def of(self, iteration: int, source: Source) -> Value | None:
        """The array that a source stands for; None if it is loaded where it is read."""
        if source in self.windows:
            return Value(iteration, ~self.windows.index(source), 0)
        if source.leaf in self.body.states or source.leaf.node in self._nodes:
            return self.value(iteration, source.leaf)
        return None

    def type_of(self, value: Value) -> ScalarType:
        if value.iteration < 0:
            return self.body.states[value.node].type
        if value.node < 0:
            return self.windows[~value.node].leaf.type
        return self.body.nodes[value.node].outputs[value.component].type

    def _reads(self, unit: tuple[int, int]) -> list[tuple[Value, Tap]]:
        found = ((self.of(unit[0], t.source), t) for t in self._taps(unit))
        return [(v, t) for v, t in found if v is not None]

    def _lags(self) -> dict[tuple[int, int], int]:
        """The lag of each operation, in rows behind the newest one.

        First the smallest possible (as soon as possible), then the largest that its readers permit
        (as late as possible), so that rows stay in registers for as few steps as possible."""
        lag: dict[tuple[int, int], int] = {}
        for unit in self.units:
            behind = (lag[v.unit] + max(t.rows) for v, t in self.reads[unit])
            lag[unit] = max(behind, default=0)
        latest: dict[tuple[int, int], int] = {}
        for unit in reversed(self.units):
            lag[unit] = latest.get(unit, lag[unit]) - (self.rows if unit[1] < 0 else 0)
            for v, t in self.reads[unit]:
                most = lag[unit] - max(t.rows)
                latest[v.unit] = min(latest.get(v.unit, most), most)
        first = min(lag.values())
        return {unit: n - first for unit, n in lag.items()}

    def _needs(self, count: int) -> dict[tuple[int, int], Needs]:
        found = {v.unit: Needs(0, 0, 0) for v in self.stored[count]}
        for unit in reversed(self.units):
            if unit not in found:
                continue
            low, high, beside = found[unit]
            for v, t in self.reads[unit]:
                a, b, c = found.get(v.unit, Needs(0, 0, 0))
                found[v.unit] = Needs(min(a, low + min(t.rows)), max(b, high + max(t.rows)),
                                      max(c, beside + abs(t.column)))  # fmt: skip
        return found

    @property
    def beside(self) -> int:
        """How many columns left and right of the results a pass depends on."""
        return max(
            needs.beside + max((abs(t.column) for t in self._taps(unit)), default=0)
            for unit, needs in self.needs[self.counts[0]].items()
        )

    def _taps(self, unit: tuple[int, int]) -> list[Tap]:
        return [] if min(unit) < 0 else list(self.stages[unit[1]].taps.values())

    def begin(self, count: int) -> int:
        """The newest row in the first step, relative to the first row of the results."""
        return min(n.low + self.lag[u] for u, n in self.needs[count].items()) + self.rows - 1

    def stop(self, count: int) -> int:
        """The end of the newest rows, relative to the end of the rows of the results."""
        return max(self.lag[v.unit] for v in self.stored[count]) + self.rows - 1

    def touched(self) -> tuple[int, int]:
        """The first row that is loaded, relative to the first row of the results, and the last one,
        relative to their end."""
        count = self.counts[0]
        lows, highs = [], []
        for unit, lag in self.lag.items():
            rows = [r for t in self._taps(unit) for r in t.rows] or [0]
            oldest = self.begin(count) - lag - (self.rows - 1)
            newest = self.stop(count) - 1 - lag + (self.rows if unit[0] < 0 else 0)
            lows += [oldest + min(rows), oldest]
            highs += [newest + max(rows), newest]
        return min(lows), max(highs)
