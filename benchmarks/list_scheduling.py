"""How long a plan takes on a number of workers, by list scheduling with measured costs.

Tasks are handed out in the order of the plan, by one scheduler that needs some time for each, and
hears of the end of those before.  A task goes to the worker on which it can finish first: one that
has parts of what it reads, or the one that is free first.  What it reads of other workers is sent
before it starts.  Small parts of chunks, those that depend on data, and each of several results of
a block are tasks of their own, whose work is counted in that of the stage.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from treadle.backend.blocks.buffers import Whole
from treadle.backend.blocks.domain import Chunks
from treadle.backend.blocks.localise import Blocks, Buffer
from treadle.backend.blocks.stages import Plan, Stage
from treadle.backend.blocks.tasks import Task, chunks_in, tasks, travels_alone
from treadle.dsl.graph import Leaf

#: Seconds of a block of a stage, given the number of elements that it computes or reads, whichever
#: are more.
Work = Callable[[Blocks, int], float]


@dataclass(frozen=True)
class Costs:
    """Seconds that the scheduler and a worker need for a task, seconds from the end of a task to
    the start of one that waits for it, bytes a second from one worker to another, and seconds of
    a call beside those of its tasks: to make the graph, to send it, to hear of its end."""

    schedule: float
    task: float
    latency: float
    rate: float
    start: float = 0.0


def simulated(plan: Plan, workers: int, costs: Costs, work: Work) -> float:
    """The seconds of a call; of the arrays that are given, workers have chunks in turn, about as
    schedulers hand out tasks that read nothing."""
    return costs.start + _Machine(plan, workers, costs, work).run()


def measured(plan: Plan, seconds: Sequence[float]) -> Work:
    """The work of the blocks of a plan of which each stage took so many seconds, all together."""
    elements: Counter[int] = Counter()

    def count(blocks: Blocks, n: int) -> float:
        elements[id(blocks)] += n
        return 0.0

    simulated(plan, 1, Costs(0.0, 0.0, 0.0, inf), count)
    each = {
        id(stage.blocks): took / max(elements[id(stage.blocks)], 1)
        for stage, took in zip(plan.every(), seconds, strict=True)
    }
    return lambda blocks, n: n * each[id(blocks)]


#: When something is there, and on which worker; and how many bytes of it a task needs.
_Made = tuple[float, int]
_Sent = tuple[float, int, float]


class _Machine:
    """Workers, each with the time from which it is free, and where chunks are, and since when."""

    def __init__(self, plan: Plan, workers: int, costs: Costs, work: Work) -> None:
        self.plan, self.costs, self.work = plan, costs, work
        self.free = [0.0] * workers
        self.queue = [(0.0, w) for w in range(workers)]
        self.made: dict[tuple[Leaf, tuple[int, ...]], _Made] = {}
        for leaf in plan.given:
            chunks = list(product(*(range(len(sizes)) for sizes in plan.chunks[leaf])))
            for k, chunk in enumerate(chunks):
                self.made[leaf, chunk] = 0.0, k % workers
        self.scheduled = 0.0

    def run(self) -> float:
        for stage in self.plan.every():
            self._stage(stage)
        return max(self.free, default=0.0)

    def _stage(self, stage: Stage) -> None:
        """Parts are cut some tasks ahead, so that a worker need not wait for them."""
        blocks = stage.blocks
        chunks = [self.plan.chunks[b.leaf] for b in blocks.buffers]
        strips: dict[tuple[Leaf, tuple[int, ...]], _Made] = {}
        ahead: deque[tuple[Task, list[_Sent], int]] = deque()
        most, order = len(self.free), tasks(blocks, chunks)
        read = {b.leaf for b in blocks.buffers}
        own = [r for x, r in zip(stage.leaves, blocks.results, strict=True) if x in read]
        if own and (axis := own[0].axes[-1]) is not None and axis.dimension is not None:
            # Blocks go on where others ended: those beside each other, then the next ones.
            dimension, sign = axis.dimension, -1 if blocks.backwards else 1
            most, order = 0, iter(sorted(order, key=lambda t: sign * t.position[dimension]))
        for task in order:
            ahead.append((task, *self._read(blocks, chunks, task, strips)))
            if len(ahead) > most:
                self._run(stage, *ahead.popleft())
        while ahead:
            self._run(stage, *ahead.popleft())

    def _read(
        self, blocks: Blocks, chunks: Sequence[Chunks], task: Task,
        strips: dict[tuple[Leaf, tuple[int, ...]], _Made],
    ) -> tuple[list[_Sent], int]:  # fmt: skip
        """What a task reads, cut where that is a part of a chunk; the most elements of a buffer."""
        read: list[_Sent] = []
        taken = 0
        for k, (buffer, used) in enumerate(zip(blocks.buffers, task.chunks, strict=True)):
            parts = _parts(buffer, task, k, chunks[k])
            taken = max(taken, int(sum(parts)))
            each = buffer.leaf.type.numpy.itemsize
            table = 0.0
            if buffer.windows is not None:
                table, _ = self.made.get((buffer.windows, (0, 0, 0)), (0.0, 0))
            for chunk, count in zip(used, parts, strict=True):
                found = self.made.get((buffer.leaf, chunk))
                if found is None:
                    continue
                if buffer.windows is not None:
                    read.append((*self._cut(found, table), each * count))
                    continue
                n = prod([sizes[c] for sizes, c in zip(chunks[k], chunk, strict=True)])
                if travels_alone(int(count), n, each * n):
                    strip = strips.get((buffer.leaf, chunk))
                    if strip is None:
                        strip = strips[buffer.leaf, chunk] = self._cut(found)
                    found = strip
                read.append((*found, each * count))
        return read, taken

    def _run(self, stage: Stage, task: Task, read: list[_Sent], taken: int) -> None:
        blocks = stage.blocks
        most = max(_elements(blocks, task.position), taken)
        made = self._placed(read, self.work(blocks, most) + self.costs.task)
        for leaf, result in zip(stage.leaves, blocks.results, strict=True):
            # Of several results, or chunks, of a block a task takes one.
            for chunk, part in chunks_in(stage, result.axes, task.position):
                own = self._cut(made) if len(stage.leaves) > 1 or part is not None else made
                self.made[leaf, chunk] = own

    def _cut(self, of: _Made, after: float = 0.0) -> _Made:
        """A part of what a worker has, cut there `after` something else is known."""
        found, worker = of
        self.scheduled += self.costs.schedule
        last = max(found, after)
        ready = max(last + self.costs.latency if last else 0.0, self.scheduled)
        self.free[worker] = max(ready, self.free[worker]) + self.costs.task
        return self.free[worker], worker

    def _placed(self, read: list[_Sent], seconds: float) -> _Made:
        """When a task ends, and where: on the worker where it does first."""
        self.scheduled += self.costs.schedule
        while self.queue[0][0] < self.free[self.queue[0][1]]:
            worker = self.queue[0][1]
            heapq.heapreplace(self.queue, (self.free[worker], worker))
        last = max([time for time, _, _ in read], default=0.0)
        ready = max(last + self.costs.latency if last else 0.0, self.scheduled)
        has: dict[int, float] = {}
        for _, worker, size in read:
            has[worker] = has.get(worker, 0.0) + size
        every = sum(has.values())
        candidates = dict.fromkeys([*heapq.nlargest(2, has, key=has.__getitem__), self.queue[0][1]])

        def end(worker: int) -> float:
            sent = every - has.get(worker, 0.0)
            return max(ready + sent / self.costs.rate, self.free[worker]) + seconds

        best = min(candidates, key=end)
        self.free[best] = end(best)
        return self.free[best], best


def _parts(buffer: Buffer, task: Task, k: int, chunks: Chunks) -> list[float]:
    """The number of elements that a task reads of each chunk of a buffer."""
    used, cut = task.chunks[k], task.block.cuts[k]
    if buffer.windows is not None:
        return [float((buffer.high[0] - buffer.low[0]).max()) / len(used)] * len(used)
    if isinstance(cut, Whole):
        return [float(prod(n[c] for n, c in zip(chunks, x, strict=True))) for x in used]
    return [float(prod(p[1] - p[0] for p in position)) for position in product(*cut)]


def _elements(blocks: Blocks, position: tuple[int, ...]) -> int:
    """The elements of the domain that a block computes."""
    total = 1
    for axis in blocks.axes:
        k = 0 if axis.dimension is None else position[axis.dimension]
        total *= int((axis.high - axis.low).reshape(-1)[k])
    return total


__all__ = ["Costs", "Work", "measured", "simulated"]
