"""What a kernel does, counted from the kernel IR for the performance model and `explain`: the
launches, and what threads store.

Nothing runs.  The index arithmetic of a kernel (its `Let`s, the bounds of its loops, and its
conditions as far as they are known) is evaluated for many tasks and threads at a time.  Conditions
on data count as true.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.expr import Apply, Const, Expr, substitute
from treadle.dsl.graphs.names import evaluate
from treadle.dsl.process.locks import cached
from treadle.dsl.records import dataclass

from . import kernel as ir

#: The longest loops followed completely; of others, the first and the last iteration are.
MOST_ITERATIONS = 256

Numbers = NDArray[np.int64]
Path = tuple[tuple[ir.If | ir.For, bool], ...]
"""The loops and conditions around a statement, and whether the conditions hold."""


@dataclass(frozen=True)
class Stored:
    """What one statement stores: `index` and `exists` by thread and iteration of the enclosing
    loops; `width` consecutive elements from each index on.

    `count`: the elements of all threads; `jammed`: the iterations of unrolled loops.
    """

    index: Numbers
    exists: NDArray[np.bool_]
    width: int
    loops: tuple[ir.For, ...]
    count: int
    jammed: int

    @property
    def positions(self) -> Numbers:
        """The positions in the buffer, for the iterations that are followed."""
        found: Numbers = (self.index[self.exists][:, None] + np.arange(self.width)).reshape(-1)
        return found

    def of_thread(self, thread: int) -> Stored:
        only = slice(thread, thread + 1)
        return Stored(self.index[only], self.exists[only], self.width, self.loops,
                      self.count // len(self.index), self.jammed)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A kernel, and the number of its tasks (blocks, on a GPU) for the extents that are `known`."""

    kernel: ir.Kernel
    tasks: int
    known: Mapping[Expr, int]

    @cached
    def _scalars(self) -> dict[Expr, Any]:
        values = zip(self.kernel.scalars, self.kernel.scalar_values, strict=True)
        found = {v: evaluate(e, self.known) for v, e in values}
        return {v: n for v, n in found.items() if n is not None}

    @cached
    def _definitions(self) -> dict[Expr, Expr]:
        return {s.var: s.value for s in ir.statements(self.kernel.body) if isinstance(s, ir.Let)}

    def fullest(self) -> list[Stored]:
        """What a task stores to the first result, by statement: the task that stores most, of the
        first one and some in the middle."""
        numbers = {0, (self.tasks - 1) // 2, self.tasks // 2}
        return max((self.stored(n) for n in numbers), key=lambda found: sum(s.count for s in found))

    def stored(self, task: int) -> list[Stored]:
        """What all threads of a task store to the first result, by statement."""
        stores = ir.Store | ir.StoreVector
        sites = [(s, around) for s, around in _paths(self.kernel.body)
                 if isinstance(s, stores) and s.buffer.role == "output"]  # fmt: skip
        found = (self._of_statement(s, around, task) for s, around in sites
                 if s.buffer is sites[0][0].buffer)  # fmt: skip
        return [made for made in found if made is not None]

    @property
    def updates(self) -> int:
        """The updates of the target (or a block's copy) by a thread in one loop iteration."""
        found: dict[Path, set[Expr]] = {}
        for s, around in _paths(self.kernel.body):
            if (isinstance(s, ir.Store | ir.Atomic | ir.FetchUpdate)
                    and ir.written(s)[0].role in ("update", "shared")):  # fmt: skip
                loops = tuple((f, n) for f, n in around if isinstance(f, ir.For))
                found.setdefault(loops, set()).add(s.index)
        return max(map(len, found.values()), default=1)

    def _of_statement(self, s: ir.Store | ir.StoreVector, around: Path, task: int) -> Stored | None:
        loops = tuple(f for f, _ in around if isinstance(f, ir.For))
        threads = max(self.kernel.threads, 1)
        values = {**self._scalars, self.kernel.task: np.int64(task)}
        if self.kernel.thread is not None:
            values[self.kernel.thread] = np.arange(threads).reshape(-1, *(1,) * len(loops))
        exists: Any = np.ones((threads, *(1,) * len(loops)), np.bool_)
        rest, skipped = len(loops), 1.0
        for f, holds in around:
            if isinstance(f, ir.If):
                condition = self._value(f.condition, values)
                if condition is None and not holds:
                    return None
                if condition is not None:
                    exists = exists & (condition if holds else np.logical_not(condition))
                continue
            start, stop = self._value(f.start, values), self._value(f.stop, values)
            if start is None or stop is None:
                return None
            trips = int(np.where(exists, -((start - stop) // f.step), 0).max())
            if trips <= 0:
                return None
            followed = np.arange(trips) if trips <= MOST_ITERATIONS else np.array([0, trips - 1])
            rest, skipped = rest - 1, skipped * trips / len(followed)
            values[f.var] = start + f.step * followed.reshape(-1, *(1,) * rest)
            exists = exists & (values[f.var] < stop)
        index = self._value(s.index, values)
        if index is None or not exists.any():
            return None
        index, exists = np.broadcast_arrays(np.asarray(index, np.int64), exists)
        width = len(s.values) if isinstance(s, ir.StoreVector) else 1
        jammed = math.prod(-(-int(f.stop.value - f.start.value) // f.step) for f in loops
                           if f.kind == "unrolled" and isinstance(f.start, Const)
                           and isinstance(f.stop, Const))  # fmt: skip
        return Stored(index.reshape(threads, -1), exists.reshape(threads, -1), width, loops,
                      round(int(exists.sum()) * width * skipped), jammed)  # fmt: skip

    def _value(self, root: Expr, values: dict[Expr, Any]) -> Any:
        """The value of an expression or None; memoises those of subexpressions in `values`."""
        stack, unknown = [root], set[Expr]()
        while stack:
            e = stack[-1]
            if e in values or e in unknown:
                stack.pop()
                continue
            parts: Sequence[Expr] = e.args if isinstance(e, Apply) else ()
            if e in self._definitions:
                parts = (self._definitions[e],)
            missing = [p for p in parts if p not in values]
            if isinstance(e, Const):
                values[e] = e.value
            elif not parts or any(p in unknown for p in parts):
                unknown.add(e)
            elif missing:
                stack += missing
            else:
                given = [values[p] for p in parts]
                values[e] = e.value(given) if isinstance(e, Apply) else given[0]
        return values.get(root)


def launched(lowered: ir.Lowered, known: Mapping[Expr, int]) -> Launch:
    """The first kernel of a lowering that is launched for known extents."""
    for first in lowered.kernels:
        kernel, tasks = variant(first, known)
        if tasks is None or tasks > 0:
            return Launch(kernel, tasks or 1, known)
    raise ValueError("nothing is launched: there are no elements")


def variant(kernel: ir.Kernel, known: Mapping[Expr, int]) -> tuple[ir.Kernel, int | None]:
    """The variant launched for data aligned to 16 bytes, and its tasks (None if unknown)."""
    for made in kernel.variants:
        tasks, *requires = substitute([made.tasks, *made.requires], made.hosts)
        if all(evaluate(r, known) != 0 for r in requires):
            return made, evaluate(tasks, known)
    raise AssertionError(f"{kernel.name}: no variant fits")


def _paths(body: ir.Body, around: Path = ()) -> Iterator[tuple[ir.Statement, Path]]:
    """The statements of a body with their loops and conditions; none inside `While`."""
    for s in body:
        yield s, around
        if isinstance(s, ir.If | ir.For):
            for k, inner in enumerate(ir.children(s)):
                yield from _paths(inner, (*around, (s, not k)))
