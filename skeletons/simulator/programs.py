"""Patterns of programs: the reads and the write of one kernel, index by index.

NumPy evaluates the index expressions of a kernel's reads for every output. A read inside `td.loop`
is evaluated once per iteration, in a reduction once per element that is folded, in a `td.cond` on
the side that is chosen, or on both if the condition is unknown.  Indices that depend on data need
the data; boundaries are resolved (a read beyond the border with a constant boundary makes no
access).  A permute reads and writes its result at the target index, if the element is kept.  A
kernel inside a loop over arrays is evaluated for one iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treadle.dsl import expr as ex, graph
from treadle.dsl.errors import ScheduleError
from treadle.dsl.expr import Expr
from treadle.dsl.graphs.names import Names, address, operations
from treadle.dsl.operations.stencils import resolve_index
from treadle.dsl.program import TracedProgram
from treadle.dsl.schedule import Schedule
from treadle.skeletons.schedules import Row, ScheduleLike, as_schedule

from .patterns import Pattern, Placed

#: Outputs per batch when addresses are computed.
_BATCH = 1 << 16

#: Extents of an array, or the leaf that has them.
Shape: TypeAlias = tuple[int, ...] | graph.Leaf


def pattern_of(
    program: TracedProgram,
    kernel: str | None = None,
    arrays: Sequence[Any] | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> Pattern:
    """The pattern of one kernel of a program (`td.jit(f).lower(*args)`).

    kernel: the operation's name or index (`#3`) if there are several; arrays: the arguments, for
    indices that depend on data; numbers: the scalar arguments, by name.  Arrays are stored one
    after the other in the order of their first read, the result last.
    Errors: `ScheduleError` for kernels other than maps, stencils, folds and permutes, and for
    ambiguous names.
    """
    if not hasattr(program, "roots"):
        raise ScheduleError(
            f"simulate needs a pattern or a program, got {type(program).__name__}.",
            hint="Write td.simulate(td.jit(f).lower(*args), …).",
        )
    node = _chosen(program, kernel)
    given = _given(program, arrays)
    data: dict[graph.Node, NDArray[Any]] = {
        source: source.source for source in program.inputs if source.source is not None
    }
    data.update(zip(program.inputs, given, strict=False))
    host = _Host(_shapes(program), data, numbers or {})
    domain_of, inner, bodies = _parts(node)
    domain = tuple(int(host.value(e)) for e in domain_of)
    inside = tuple(int(host.value(e)) for e in inner)
    reads = [e for e in ex.walk(bodies) if isinstance(e, ex.Read)]
    bases: dict[tuple[graph.Node, int], int] = {}
    placed: list[Placed] = []
    end = 0
    for r in reads:
        key = (r.node, r.component)
        if key not in bases:
            bases[key] = end
            placed.append(Placed(_called(program, r.node), end, host.shape(r.node)))
            end += math.prod(host.shape(r.node))
    target = (
        node.target if isinstance(node, graph.Permute) else tuple(map(ex.Index, range(len(domain))))
    )
    made = host.shape(node) if isinstance(node, graph.Permute) else domain
    valid = node.valid if isinstance(node, graph.Permute) else None
    addresses = _Addresses(
        bodies, reads, bases, host, domain, inside, _Store(target, valid, made, end)
    )
    name = node.label.called
    placed.append(Placed("result", end, made))
    return Pattern(name, domain, addresses, end + math.prod(made), tuple(placed))


def _given(program: TracedProgram, arrays: Any) -> tuple[Any, ...]:
    """The arguments as arrays, which must have the extents that the program was lowered for."""
    if arrays is None:
        return ()
    made = [np.asarray(a) for a in arrays] if isinstance(arrays, Sequence) else []
    shapes = [tuple(s) for s in program.example_shapes or ()]
    if [a.shape for a in made] != shapes[: len(made)] or len(made) != len(program.arguments):
        wanted = ", ".join(f"{source.name} {shape}" for source, shape in
                           zip(program.arguments, shapes, strict=False))  # fmt: skip
        raise ScheduleError(f"arrays= takes the program's arguments: {wanted}.",
                            hint="Write arrays=[a, b, …], as the program is called.")  # fmt: skip
    return tuple(made)


def schedule_of(program: TracedProgram, kernel: str | None = None) -> Schedule | None:
    """The schedule that a program gives one of its kernels, or None."""
    return _chosen(program, kernel).label.schedule


def of_results(
    program: TracedProgram, kernel: str | None, schedule: Schedule | None
) -> tuple[Schedule | None, list[str]]:
    """The part of a schedule that is simulated, and descriptions of the rest. The schedule of a
    fold orders parts of what is folded: only the order of its results is simulated, if any."""
    given = None if schedule is None else as_schedule(schedule)
    node = _chosen(program, kernel)
    if given is None or not isinstance(node, graph.Fold) or given == as_schedule(Row()):
        return schedule, []
    if not (given.order or given.visits_blocks):
        return schedule, []
    rank = len(node.outer)
    try:
        given.resolve(rank)
        fits = rank > 1
    except ScheduleError:
        fits = False
    words = [repr(x) for x in given.layers if x.slot in ("order", "block")]
    if fits:
        return schedule, ["the order of the parts of a fold"]
    others = [x for x in given.layers if x.slot not in ("order", "block", "per_thread", "lanes")]
    return as_schedule(Row()).replace(*others), [f"{' | '.join(words)}, which orders parts of what "
                                                 "is folded"]  # fmt: skip


def as_scheduled(
    program: TracedProgram, kernel: str | None, schedule: ScheduleLike | Schedule
) -> TracedProgram:
    """The program with this schedule for the selected operation, if that is unambiguous: with an
    order the operation is one kernel, whereas without one it may be several."""
    written = operations(getattr(program, "source_roots", ()))
    meant = [
        (number, node) for number, node in enumerate(written, 1)
        if kernel in (None, node.label.name, node.label.operation, address(number))
    ]  # fmt: skip
    given = as_schedule(schedule)
    if len(meant) != 1 or not (given.order or given.visits_blocks):
        return program
    number, node = meant[0]
    return program.scheduled(**{node.label.name or address(number): schedule})


def _parts(
    node: graph.Generate | graph.Fold | graph.Permute,
) -> tuple[Sequence[Expr], Sequence[Expr], Sequence[Expr]]:
    """The extents of the outputs, the extents that are folded, and the expressions that read."""
    if isinstance(node, graph.Permute):
        return node.domain, (), (node.valid, *node.target, *node.values)
    inner = node.inner if isinstance(node, graph.Fold) else ()
    return node.leaf().shape, inner, node.elements


def _called(program: TracedProgram, node: graph.Node) -> str:
    """The name of an array for people: the argument's name, or the operation's."""
    if isinstance(node, graph.Input):
        names = [source.name for source in program.arguments if source is node]
        return names[0] if names else node.name
    return node.label.called


def _chosen(
    program: TracedProgram, kernel: str | None
) -> graph.Generate | graph.Fold | graph.Permute:
    known = graph.Generate | graph.Fold | graph.Permute
    kernels = [n for n in graph.topological(program.roots) if isinstance(n, known)]
    names_of = Names(program)
    numbers = {n: address(names_of.number(n) or 0) for n in kernels}
    made = [n for n in kernels if kernel in (None, n.label.name, n.label.operation, numbers[n])]
    if len(made) == 1:
        return made[0]
    names = ", ".join(f"{n.label.called} {numbers[n]}" for n in kernels)
    asked = "" if kernel is None else f" called {kernel!r} (it may be fused into another)"
    if not kernels:
        others = {n.label.operation for n in graph.topological(program.roots)
                  if not isinstance(n, graph.Input | graph.Barrier | graph.ArrayLoop)}  # fmt: skip
        raise ScheduleError(
            f"the program has no kernel that the simulator supports (there is: "
            f"{', '.join(sorted(others)) or 'nothing to compute'}).",
            hint="It supports maps, stencils, generate, folds along axes and permutes; write "
            "td.generate with td.loop for a product, td.simulator.Pattern for other addresses.",
        )
    raise ScheduleError(
        f"the program has {len(made)} kernels{asked}; there are: {names}.",
        hint=f"Select one by kernel=…, a name or an index such as {numbers[kernels[0]]!r}. An "
        "operation that is fused, or split into several kernels, is one kernel under a schedule: "
        "program.scheduled(name=Row()).",
    )


def _shapes(program: TracedProgram) -> dict[graph.Node, Shape]:
    """The extents of arrays that kernels read: integers, or the leaf that has them."""
    found: dict[graph.Node, Shape] = {}
    examples = program.example_shapes or ()
    for source, shape in zip(program.arguments, examples, strict=False):
        found[source] = tuple(shape)
    for source in program.inputs[len(program.arguments) :]:
        found[source] = tuple(source.source.shape)
    for node in graph.topological(program.roots):
        if isinstance(node, graph.ArrayLoop):  # all iterations have the extents of the first one
            found |= {s: i for s, i in zip(node.state, node.init, strict=True)}
            if node.index is not None:
                found[node.index] = ()
    return found


class _Host:
    """Values of host expressions, and shapes of nodes, for the example's extents."""

    def __init__(self, shapes: dict[graph.Node, Shape], data: Mapping[graph.Node, NDArray[Any]],
                 numbers: Mapping[str, Any]) -> None:  # fmt: skip
        self.shapes, self.data, self.numbers = shapes, data, numbers

    def shape(self, node: graph.Node) -> tuple[int, ...]:
        if node not in self.shapes:
            if isinstance(node, graph.Input):
                raise ScheduleError("the program does not know the extents of its arguments.",
                                    hint="Make it with td.jit(f).lower(*args).")  # fmt: skip
            self.shapes[node] = tuple(int(self.value(e)) for e in node.outputs[0].shape)
        known = self.shapes[node]
        if isinstance(known, graph.Leaf):
            known = self.shapes[node] = tuple(int(self.value(e)) for e in known.shape)
        return known

    def value(self, e: Expr) -> Any:
        return self.evaluate(e, {})

    def evaluate(self, root: Expr, known: dict[Expr, Any]) -> Any:
        """`root` evaluated by NumPy, vectorised over `known`; both sides of a condition."""
        found: dict[Expr, Any] = dict(known)
        for e in ex.walk((root,)):
            if e not in found:
                found[e] = self._one(e, found)
        if isinstance(found[root], ScheduleError):
            raise found[root]
        return found[root]

    def _one(self, e: Expr, found: dict[Expr, Any]) -> Any:
        """The value of `e` from those of its operands in `found`; for a condition, the values of
        all its results; or the error if there is no value."""
        if isinstance(e, ex.Const):
            return e.value
        if isinstance(e, ex.Extent):
            return np.int64(self.shape(e.node)[e.axis])
        if isinstance(e, ex.Param) and e.name in self.numbers:
            return np.asarray(self.numbers[e.name], e.type.numpy)
        values = [found[a] for a in e.args]
        for missing in values:
            if isinstance(missing, ScheduleError):
                return missing
        if isinstance(e, ex.Apply):
            return e.value(values)
        if isinstance(e, ex.Cond):
            pairs = [(found[t], found[o]) for t, o in zip(e.then, e.other, strict=True)]
            return [_chosen_of(values[0], *pair) for pair in pairs]
        if isinstance(e, ex.Proj) and isinstance(e.args[0], ex.Cond):
            return values[0][e.which]
        if isinstance(e, ex.Read) and e.node in self.data:
            return self._read(e, values, found)
        return _unknown(e)

    def _read(self, e: ex.Read, index: list[Any], found: dict[Expr, Any]) -> Any:
        """The value that is read.  Out of range it is arbitrary: such a read is guarded."""
        data = self.data[e.node]
        inside: Any = np.True_
        for k, extent in enumerate(data.shape):
            if e.boundary in ("constant", "function"):
                inside = inside & (index[k] >= 0) & (index[k] < extent)
            elif e.boundary is not None:
                within = resolve_index(e.boundary, ex.Index(0), ex.constant(extent))
                index[k] = self.evaluate(within, {ex.Index(0): index[k]})
            index[k] = np.clip(index[k], 0, max(extent - 1, 0))
        if not data.size:
            return np.zeros(np.broadcast_shapes(*map(np.shape, index)), data.dtype)
        taken = data[tuple(map(np.asarray, index))]
        if np.all(inside):
            return taken
        if e.boundary == "function":
            return ScheduleError(
                "an index depends on the result of a boundary function, which the simulator does "
                "not run.", hint="Let it depend on what is inside, or on td.constant.")  # fmt: skip
        return _chosen_of(inside, taken, found[e.scoped[0]])


def _chosen_of(p: Any, a: Any, b: Any) -> Any:
    """A choice between two values, either of which may be an error."""
    missing = [x for x in (a, b) if isinstance(x, ScheduleError)]
    return missing[0] if missing else np.where(p, a, b)


def _unknown(e: Expr) -> ScheduleError:
    if isinstance(e, ex.Read):
        return ScheduleError("an index depends on data, which the simulator does not have.",
                             hint="Give the arguments: arrays=….")  # fmt: skip
    if isinstance(e, ex.Param):
        return ScheduleError(f"an index depends on the scalar argument {e.name!r}.",
                             hint="Write the number into the program.")  # fmt: skip
    return ScheduleError(
        "an index depends on the state of a loop in the kernel, which the simulator does not run.",
        hint="Let it depend on the loop index: td.loop(n, lambda k, s: … a[i, k] …, init).",
    )


@dataclass(frozen=True)
class _Store:
    """The address of an output: indices into an array of extents `shape` at address `base`."""

    target: tuple[Expr, ...]
    valid: Expr | None
    shape: tuple[int, ...]
    base: int


def _around(bodies: Sequence[Expr], reads: Sequence[ex.Read]) -> dict[ex.Read, list[Expr]]:
    """The conditions and the trip counts of every `td.cond` and `td.loop` around a read."""
    found: dict[ex.Read, list[Expr]] = {r: [] for r in reads}
    for c in ex.walk(bodies):
        if isinstance(c, ex.Cond | ex.Loop):
            inside = set(ex.walk(c.scoped))
            for r in reads:
                if r in inside:
                    found[r].append(c.args[0])
    return found


def _either(a: Any, b: Any) -> Any:
    """`a | b`; True and False stand for all outputs."""
    if a is b or a is True or b is False:
        return a
    return b if b is True or a is False else a | b


class _Addresses:
    """The addresses of a batch of outputs: reads in the order of the expression, then the store."""

    def __init__(self, bodies: Sequence[Expr], reads: list[ex.Read],
                 bases: dict[tuple[graph.Node, int], int], host: _Host, domain: tuple[int, ...],
                 inside: tuple[int, ...], store: _Store) -> None:  # fmt: skip
        self.reads, self.bases, self.host = reads, bases, host
        self.domain, self.inside, self.store = domain, inside, store
        self.loops = {e.vars[0]: e for e in ex.walk(bodies) if isinstance(e, ex.Loop)}
        self.bodies, self.around = bodies, _around(bodies, reads)
        self.loop_of = {r: self._loops_around(r) for r in reads}

    def _loops_around(self, read: ex.Read) -> tuple[ex.Var, ...]:
        roots = (*read.args, *self.around[read])
        used = {e for e in ex.walk(roots) if isinstance(e, ex.Var)}
        return tuple(v for v in self.loops if v in used)

    def __call__(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        parts = [self._some(points[k : k + _BATCH]) for k in range(0, len(points), _BATCH)]
        width = 1 + sum(self._iterations(r) for r in self.reads)
        return np.concatenate(parts) if parts else np.empty((0, width), np.int64)

    def _iterations(self, read: ex.Read) -> int:
        count = math.prod(self.inside)
        for v in self.loop_of[read]:
            count *= int(self.host.value(self.loops[v].count))
        return count

    def _some(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        outputs, count = [points[:, k] for k in range(len(self.domain))], len(points)
        groups: dict[tuple[ex.Var, ...], list[ex.Read]] = {}
        for r in self.reads:
            groups.setdefault(self.loop_of[r], []).append(r)
        columns: list[Any] = []
        for loops, reads in groups.items():
            counts = [int(self.host.value(self.loops[v].count)) for v in loops]
            sizes = (count, *self.inside, *counts)
            rank = len(sizes)
            known: dict[Expr, Any] = {
                ex.Index(k): o.reshape(-1, *[1] * (rank - 1)) for k, o in enumerate(outputs)
            }
            inner = (ex.Index(len(outputs) + k) for k in range(len(self.inside)))
            for axis, variable in enumerate((*inner, *loops), 1):
                known[variable] = np.arange(sizes[axis]).reshape(-1, *[1] * (rank - 1 - axis))
            made = self._made(known) if any(self.around[r] for r in reads) else {}
            found = [self._address(r, known, sizes, made).reshape(count, -1) for r in reads]
            columns.append(np.stack(found, -1).reshape(count, -1))
        return np.concatenate([*columns, self._stored(outputs, count)[:, None]], 1)

    def _stored(self, outputs: list[Any], count: int) -> NDArray[np.int64]:
        known: dict[Expr, Any] = {ex.Index(k): o for k, o in enumerate(outputs)}
        where = np.zeros(count, np.int64)
        exists = np.ones(count, np.bool_)
        if self.store.valid is not None:
            exists &= np.broadcast_to(self.host.evaluate(self.store.valid, known), (count,))
        for e, extent in zip(self.store.target, self.store.shape, strict=True):
            index = np.broadcast_to(self.host.evaluate(e, known), (count,))
            exists &= (index >= 0) & (index < extent)
            where = where * extent + index
        return np.where(exists, where + self.store.base, -1)

    def _made(self, known: dict[Expr, Any]) -> dict[Expr, Any]:
        """The outputs and iterations that compute each expression: in a condition those of the
        chosen side, or of both if it is unknown; in a loop those with at least one iteration."""
        made: dict[Expr, Any] = dict.fromkeys(self.bodies, True)
        for e in reversed(list(ex.walk(self.bodies))):
            m = made[e]
            sides = [m] * len(e.scoped)
            if isinstance(e, ex.Cond | ex.Loop):
                with suppress(ScheduleError):
                    p = np.asarray(self.host.evaluate(e.args[0], known))
                    if isinstance(e, ex.Cond):
                        sides = [p & m] * len(e.then) + [~p & m] * len(e.other)
                    else:
                        sides = [(p > 0) & m] * len(e.scoped)
            for child, there in zip((*e.args, *e.scoped), [m] * len(e.args) + sides, strict=True):
                made[child] = _either(made.get(child, False), there)
        return made

    def _address(self, read: ex.Read, known: dict[Expr, Any], sizes: tuple[int, ...],
                 made: Mapping[Expr, Any]) -> NDArray[np.int64]:  # fmt: skip
        """Addresses as an array of extents `sizes`: outputs, then iterations around the read."""
        shape = self.host.shape(read.node)
        where: Any = np.int64(0)
        exists: Any = np.asarray(made.get(read, True))
        for k, e in enumerate(read.args):
            if read.boundary not in (None, "constant", "function"):
                e = resolve_index(str(read.boundary), e, read.node.outputs[read.component].shape[k])
            index = self.host.evaluate(e, known)
            exists = exists & (index >= 0) & (index < shape[k])
            where = where * shape[k] + index
        found = np.where(exists, where + self.bases[read.node, read.component], -1)
        return np.broadcast_to(found, sizes)
