"""Recurrence: a state carried along an axis, as a serial walk for each index of the other axes.

    CPU    along the last axis, cheap steps: tasks are groups of walks.  A few walks are stepped
           together, with their states in registers, so that they do not wait for each other
           otherwise: tasks are strips of adjacent walks.  Some steps of every walk of a strip,
           several walks in the lanes of a vector, then the next steps: the rows that they read
           stay in the caches
    GPU    a thread per walk, adjacent threads on adjacent walks; the state stays in registers

An array of one axis has a single walk.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.expr import Apply, Expr, Index, Read, Var, walk
from treadle.dsl.graph import Leaf, Recurrence
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Load, Lowered
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import FUNCTION, Builder, LoweringContext, element_cost
from ..combining import Values, assign, copied, declare, put
from ..gpu.common import Threads

#: Walks of a CPU task, and the steps that each makes before the next walk's.
STRIP, STEPS = 64, 16
#: Walks stepped together along the last axis, and the fewest steps of a task.
TOGETHER, TASK_STEPS = 4, 1 << 14
#: The cost of a step, in additions, up to which vectors gain nothing along the last axis; steps
#: with functions as costly as an exponential use vectors.
CHEAP_STEP = 64.0
#: Threads of a block of a GPU.
THREADS = 64


def lower_on_cpu(node: Recurrence, context: LoweringContext) -> Lowered:
    """One kernel."""
    return _Walks(Builder(node, context), node).on_cpu()


def lower_on_gpu(node: Recurrence, context: LoweringContext) -> Lowered:
    """One kernel."""
    return _Walks(Builder(node, context), node).on_gpu()


class _Walks:
    def __init__(self, builder: Builder, node: Recurrence) -> None:
        self.builder, self.node = builder, node
        given = builder.context.schedule_of(node)
        if given is not None and given.layers:
            builder.notes.append(f"{given!r} has no effect: every walk goes along the axis")
        outs, stored = builder.outputs(), len(node.collected)
        self.collected, self.last = outs[:stored], outs[stored:]
        roots = transform.resolve(node.per_element(), builder, node.shape)
        self.steps, self.values = roots[: len(node.state)], roots[len(node.state) :]
        self.start = transform.resolve(node.start, builder, node.others)
        self.n = builder.extent(node.shape[node.axis], "steps")
        self.shape, self.others = builder.shape(node.shape), builder.shape(node.others)

    def on_cpu(self) -> Lowered:
        builder, others = self.builder, self.node.others
        into, task = builder.emitter(), Var("task", int64)
        if not others:
            state = declare(into, self._first(into, ()), "state")
            self._walk(into, (), state, 0, self.n)
            self._end(into, (), state)
            return builder.lowered(builder.kernel("", at.integer(1), task, tuple(into.out),
                                                  comments=("one walk",)))  # fmt: skip
        if self._goes_along_rows():
            return self._in_rows()
        width = others[-1]
        strips = builder.scalar(at.ceil_div(width, STRIP), "strips")
        planes = builder.scalar(at.product(others[:-1]), "planes")
        plane = task // strips
        lead = tiling.coordinates(builder, into, plane, others[:-1])
        columns = tiling.block_range(into, "column", task % strips, STRIP,
                                     self.others[-1])  # fmt: skip
        strip = builder.local("held", [v.type for v in self.node.state], STRIP)

        with into.loop("j", *columns, "vector") as j:
            builder.stays_below(j, width)
            put(into, strip, j - columns[0], self._first(into, (*lead, j)))
        with into.loop("step", 0, self.n, step=STEPS) as step:
            stop = into.let(at.minimum(step + STEPS, self.n), "step_stop")
            with into.loop("j", *columns, "vector") as j:
                builder.stays_below(j, width)
                slot = into.let(j - columns[0], "slot")
                state = declare(into, [Load(b, slot) for b in strip], "state")
                self._walk(into, (*lead, j), state, step, stop)
                put(into, strip, slot, state)
        if self.last:
            with into.loop("j", *columns, "vector") as j:
                slot = into.let(j - columns[0], "slot")
                self._end(into, (*lead, j), [into.let(Load(b, slot), "last") for b in strip])
        how = f"strips of {STRIP} walks, {STEPS} steps of one after the other"
        return builder.lowered(
            builder.kernel("", planes * strips, task, tuple(into.out), comments=(how,))
        )

    def _goes_along_rows(self) -> bool:
        """Whether a walk goes along the rows of its operands, and vectors make it no cheaper."""
        node, roots = self.node, (*self.steps, *self.values)
        last = len(node.shape) - 1
        if node.axis != last or element_cost(roots) > CHEAP_STEP:
            return False
        if any(isinstance(e, Apply) and e.op.cost >= FUNCTION for e in walk(roots)):
            return False
        for e in walk(roots):
            if isinstance(e, Read) and e.args:
                row = self.builder.row_axis(Leaf(e.node, e.component))
                along = set(walk((e.args[-1 if row is None else row],)))
                if Index(last) not in along and any(isinstance(i, Index) for i in along):
                    return False
        return True

    def _in_rows(self) -> Lowered:
        """Kernels whose tasks are groups of walks along the last axis."""
        builder, others = self.builder, self.node.others
        into, task = builder.emitter(), Var("task", int64)
        total = at.product(others)
        steps = at.maximum(self.node.shape[-1] * TOGETHER, 1)
        groups = at.maximum(TASK_STEPS // steps, 1)
        per_task_host = groups * TOGETHER
        per_task = builder.scalar(per_task_host, "walks_per_task")
        first, end = tiling.block_range(into, "walk", task, per_task,
                                        builder.scalar(total, "walks"))  # fmt: skip
        whole = (end - first) // TOGETHER
        left = into.let(first + whole * TOGETHER, "left_over")

        def group(walk_: Expr, count: int) -> None:
            where, states = [], []
            for u in range(count):
                where.append(tiling.coordinates(builder, into, walk_ + u, others))
                states.append(declare(into, self._first(into, where[-1]), "state"))
            with into.loop("p", 0, self.n) as p:
                for here, state in zip(where, states, strict=True):
                    self._step(into, here, state, p)
            for here, state in zip(where, states, strict=True):
                self._end(into, here, state)

        with into.loop("walk", first, left, step=TOGETHER) as walk_:
            group(walk_, TOGETHER)
        with into.loop("walk", left, end) as walk_:
            group(walk_, 1)
        tasks = builder.scalar(at.ceil_div(total, per_task_host), "groups")
        how = f"{TOGETHER} walks together, step by step"
        return builder.lowered(builder.kernel("", tasks, task, tuple(into.out), comments=(how,)))

    def on_gpu(self) -> Lowered:
        builder = self.builder
        into, grid = builder.emitter(), Threads.of(THREADS)
        total = at.product(self.node.others)
        walks = builder.scalar(total, "walks")
        walk = into.let(grid.ident, "walk")
        with into.when(at.less(walk, walks)):
            others = tiling.coordinates(builder, into, walk, self.node.others)
            state = declare(into, self._first(into, others), "state")
            self._walk(into, others, state, 0, self.n)
            self._end(into, others, state)
        tasks = builder.scalar(at.ceil_div(total, THREADS), "blocks")
        kernel = builder.kernel("", tasks, grid.task, tuple(into.out),
                                comments=("a thread is a walk",), **grid.launch())  # fmt: skip
        return builder.lowered(kernel)

    def _first(self, into: Linearizer, others: Sequence[Expr]) -> Values:
        """The state of a walk before its first step."""
        with into.when_always({Index(a): i for a, i in enumerate(others)}):
            return into.emit(self.start, named=True)

    def _walk(self, into: Linearizer, others: Sequence[Expr], state: Sequence[Var],
              start: Expr | int, stop: Expr) -> None:  # fmt: skip
        """Steps start … stop − 1 of a walk; `state` is updated."""
        with into.loop("p", start, stop) as p:
            self._step(into, others, state, p)

    def _step(self, into: Linearizer, others: Sequence[Expr], state: Sequence[Var], p: Expr
              ) -> None:  # fmt: skip
        """Step `p` of a walk; `state` is updated."""
        node, axis = self.node, self.node.axis
        self.builder.stays_below(p, node.shape[axis])
        k: Expr = self.n - 1 - p if node.reverse else p
        if node.reverse:
            k = into.let(k, "k")
            self.builder.stays_below(k, node.shape[axis])
        index = (*others[:axis], k, *others[axis:])
        bindings: dict[Expr, Expr] = {Index(a): i for a, i in enumerate(index)}
        bindings.update(zip(node.state, state, strict=True))
        with into.when_always(bindings):
            made = into.emit((*self.steps, *self.values), named=True)
            where = at.linear(index, self.shape)
            put(into, self.collected, where, made[len(state) :])
            following = [copied(into, v) if v in state else v for v in made[: len(state)]]
            assign(into, state, following)

    def _end(self, into: Linearizer, others: Sequence[Expr], state: Sequence[Expr]) -> None:
        """Store the parts of the final state that are read."""
        last = [state[k] for k in self.node.last]
        where = at.linear(others, self.others)
        put(into, self.last, where, last)
