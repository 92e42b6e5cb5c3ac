"""Streams ordered by what touches the same memory: any order that the waits allow is right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from treadle.backend.cuda.products.flow import Flow, region
from treadle.backend.cuda.products.library import GpuKit
from treadle.skeletons.products import LADERMAN, STRASSEN, WINOGRAD
from treadle.skeletons.products.executions import execute, plan


class Lane:
    """Keeps what is queued until `settle`."""

    def __init__(self, machine):
        self.machine, self.work = machine, []

    def mark(self):
        return self, len(self.work)

    def wait(self, event):
        self.work.append(event)

    def run(self, action):
        self.work.append(action)


class Machine:
    def __init__(self):
        self.lanes = [Lane(self) for _ in range(3)]

    def settle(self, order):
        """Everything, in a random order that lanes and waits allow; how often two lanes could go
        on."""
        done = dict.fromkeys(self.lanes, 0)
        both = 0
        while True:
            free = []
            for lane in self.lanes:
                if done[lane] < len(lane.work):
                    head = lane.work[done[lane]]
                    if callable(head) or done[head[0]] >= head[1]:
                        free.append(lane)
            if not free:
                assert all(done[x] == len(x.work) for x in self.lanes), "stuck"
                return both
            both += len(free) > 1
            lane = order.choice(free)
            head = lane.work[done[lane]]
            done[lane] += 1
            if callable(head):
                head()


def test_regions():
    x = np.zeros((8, 12))
    parts = [x[:4, :6], x[:4, 6:], x[4:, :6], x[4:, 6:]]
    for a, p in enumerate(parts):
        for b, q in enumerate(parts):
            assert region(p).overlaps(region(q)) == (a == b)
            assert region(p.T).overlaps(region(q.T)) == (a == b)
    for one, other in ((x[:4, :7], x[2:, 6:]), (x, x[3:4, 3:4]), (x[::-1], x[:1]), (x[:, ::2], x)):
        assert region(one).overlaps(region(other)) and region(other).overlaps(region(one))
    assert not region(x[:2]).overlaps(region(x[2:])) and not region(x[3::-1]).overlaps(
        region(x[4:])
    )
    rng = random.Random(1)
    flat = np.arange(400)
    for _ in range(2000):
        width = rng.choice((10, 10, 20))
        cells = flat.reshape(-1, width)
        cuts = []
        for _ in range(2):
            r, c = rng.randrange(len(cells)), rng.randrange(width)
            cuts.append(cells[r : r + rng.randrange(1, 6), c : c + rng.randrange(1, 6)])
        if np.intersect1d(*cuts).size:
            assert region(cuts[0]).overlaps(region(cuts[1]))


@pytest.mark.parametrize("algorithm", (STRASSEN, WINOGRAD, LADERMAN), ids=lambda a: a.name)
@pytest.mark.parametrize("execution", ("batched", "recursive", "sequential"))
def test_any_order_that_is_allowed(algorithm, execution):
    device = type("Device", (), {"library": np})()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        levels = 1 + seed % 2 if algorithm.products < 10 else 1
        size = tuple(p**levels * 4 + seed % 3 for p in (algorithm.m, algorithm.k, algorithm.n))
        a, b = (rng.integers(-5, 5, s).astype(float) for s in (size[:2], size[1:]))
        made = plan(algorithm, execution, levels, size, 1, True)
        out, room = np.full((size[0], size[2]), np.nan), np.full(made.workspace, np.nan)
        machine = Machine()
        flow = Flow(machine.lanes)
        execute(GpuKit(device, True, None, flow), made, a, b, out, room)
        flow.finish()
        both = machine.settle(random.Random(seed))
        assert np.array_equal(out, a @ b)
        assert both > 3 or execution == "sequential"
        assert not any(callable(w) for w in machine.lanes[0].work[-2:])  # the others are awaited
