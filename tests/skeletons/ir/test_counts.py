"""What is counted of kernels without running them: what all tasks store is every element."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.treadle.driver.explained import lower
from treadle.dsl.graphs.names import Names
from treadle.dsl.target import CUDA, NATIVE
from treadle.skeletons.ir import counts
from treadle.skeletons.ir.counts import launched
from treadle.skeletons.lower.lower import LoweringContext, lower as lower_node
from treadle.skeletons.schedules import Block, Column, PerThread, Row, as_schedule

PROGRAMS = {
    "map": lambda a: td.map(lambda x: x * 2.0, a),
    "row": lambda a: td.generate(a.shape, lambda i, j: a[i, j] + a[i, 0]),
    "transpose": lambda a: td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i]),
    "3 × 3": lambda a: td.stencil(
        lambda w: sum(w[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)), a),
    "7 × 1": lambda a: td.stencil(lambda w: sum(w[i, 0] for i in range(-3, 4)), a),
    "product": lambda a: td.generate(
        (a.shape[0], a.shape[0]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * a[j, k], td.float32(0))),
}  # fmt: skip
SCHEDULES = (None, Row() | PerThread(rows=4), Column(8) | Block(8, 32))


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", [NATIVE, CUDA], ids=["native", "cuda"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_tasks_store_every_element(name, target, monkeypatch):
    monkeypatch.setattr(counts, "MOST_ITERATIONS", 1 << 16)
    for shape in ((96, 128), (37, 41)):
        program = lower(PROGRAMS[name], np.zeros(shape, np.float32), backend=target.name)
        node, known = program.kernels[-1], Names(program).known
        for schedule in SCHEDULES:
            given = None if schedule is None else as_schedule(schedule)
            launch = launched(lower_node(node, LoweringContext(target, schedule=given)), known)
            found = [s.positions for task in range(launch.tasks) for s in launch.stored(task)]
            size = np.prod([Names(program).value(n) for n in node.shape])
            assert (np.unique(np.concatenate(found)) == np.arange(size)).all(), (shape, schedule)


def test_long_loops_are_counted_by_their_ends():
    """A task of 4 rows of 4 096 elements: the ends of each row, and the number of all."""
    program = lower(PROGRAMS["row"], np.zeros((64, 4096), np.float32))
    known = Names(program).known
    launch = launched(lower_node(program.kernels[-1], LoweringContext(NATIVE)), known)
    (stored,) = launch.stored(0)
    assert stored.count == 64 * 4096 // launch.tasks
    assert set(stored.positions % 4096) == {0, 4095}


def test_updates_that_a_thread_makes_together_are_counted():
    """Eight elements of a cheap permute, by each of 512 threads."""
    program = lower(
        lambda a: td.permute(td.overwrite, td.fill((64, 32), td.float32(0)),
                             lambda i, j: (j, i), a),
        np.zeros((32, 64), np.float32), backend="cuda")  # fmt: skip
    node, known = program.kernels[-1], Names(program).known
    launch = launched(lower_node(node, LoweringContext(CUDA)), known)
    assert (launch.kernel.threads, launch.updates) == (512, 8)
