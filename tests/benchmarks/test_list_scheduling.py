"""List scheduling of plans: tasks beside each other and after each other, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest

import treadle as td
from benchmarks.list_scheduling import Costs, measured, simulated
from tests.backend.dask.test_arrays import PROGRAMS, da
from treadle.backend.dask import graph

FREE = Costs(0.0, 0.0, 0.0, 1e30)


def seconds(f: Any, workers: int, costs: Costs, chunks: int = 8) -> float:
    """Of a program whose blocks take a second each."""
    a = da.zeros((800, 800), chunks=(800 // chunks, 800), dtype="float32")
    plan = td.jit(f).lower(a).executable.plan([a], ())
    return simulated(plan, workers, costs, lambda blocks, n: 1.0)


def test_blocks_of_a_kernel_run_beside_each_other() -> None:
    times = [seconds(PROGRAMS["map"], workers, FREE) for workers in (1, 2, 3, 8, 100)]
    assert times == [8, 4, 3, 1, 1]


def test_a_worker_computes_a_task_and_the_scheduler_hands_out_one_at_a_time() -> None:
    assert seconds(PROGRAMS["map"], 1, Costs(0.0, 0.5, 0.0, 1e30)) == pytest.approx(12)
    assert seconds(PROGRAMS["map"], 8, Costs(0.25, 0.0, 0.0, 1e30)) == pytest.approx(3)


def test_what_other_workers_have_is_sent() -> None:
    """Half of the rows of a block are those of another worker's chunk."""
    costs = Costs(0.0, 0.0, 0.0, 50 * 800 * 4)  # a second
    assert seconds(lambda a: td.roll(a, 50, axis=0), 8, costs) == pytest.approx(2)
    assert seconds(lambda a: td.roll(a, 50, axis=0), 1, costs) == pytest.approx(8)


def test_a_task_that_waits_for_others_starts_after_the_latency() -> None:
    """A second stage waits for all blocks of the first."""
    alone = seconds(PROGRAMS["total"], 8, FREE)
    assert seconds(PROGRAMS["total"], 8, Costs(0.0, 0.0, 0.5, 1e30)) == pytest.approx(alone + 0.5)


def test_a_call_has_a_start_and_stages_take_what_was_measured() -> None:
    """On one worker the prediction is the start, and the seconds of the stages."""
    a = da.zeros((800, 800), chunks=(100, 800), dtype="float32")
    plan = td.jit(PROGRAMS["total"]).lower(a).executable.plan([a], ())
    given = [2.0 + k for k, _ in enumerate(plan.every())]
    work = measured(plan, given)
    costs = Costs(0.0, 0.0, 0.0, 1e30, 0.25)
    assert simulated(plan, 1, costs, work) == pytest.approx(0.25 + sum(given))
    assert simulated(plan, 8, costs, work) < 0.25 + sum(given)


def test_the_arrays_of_a_plan_name_the_layers_of_its_stages() -> None:
    a = da.zeros((800, 800), chunks=(100, 800), dtype="float32")
    program = td.jit(PROGRAMS["total"]).lower(a)
    plan = program.executable.plan([a], ())
    names = {graph.every_array(plan, [a], program.name)[s.leaves[0]].name for s in plan.every()}
    assert names <= set(td.jit(PROGRAMS["total"])(a).dask.layers)


def test_parts_of_chunks_are_tasks_of_their_own(monkeypatch: Any) -> None:
    """Each chunk of a stencil is cut once; each part of a sort reads of all chunks."""
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    a = da.zeros((8000, 800), chunks=(1000, 800), dtype="float32")
    row = da.zeros(1 << 20, chunks=1 << 17, dtype="float32")
    paid = Costs(0.0, 1.0, 0.0, 1e30)
    for given, f in (a, PROGRAMS["cross clamp"]), (row, lambda a: td.sort(a)):
        plan = td.jit(f).lower(given).executable.plan([given], ())
        layers = graph.every_array(plan, [given], "f")[plan.roots[0]].dask.to_dict()
        made = [k for k in layers if k[0].startswith("f-") and "numbers" not in k[0]]
        assert simulated(plan, 1, paid, lambda blocks, n: 0.0) == len(made)


@pytest.mark.parametrize("f", [lambda a: td.cumsum(a, axis=0), lambda a: td.scanr1(td.add, a, 0)])
def test_blocks_that_go_on_from_others_wait_for_them(f: Any) -> None:
    """Those beside each other run at the same time, whatever the order of the grid."""

    def seconds(chunks: tuple[int, int], workers: int) -> float:
        a = da.zeros((800, 800), chunks=chunks, dtype="float32")
        plan = td.jit(f).lower(a).executable.plan([a], ())
        return simulated(plan, workers, FREE, lambda blocks, n: 1.0)

    assert seconds((100, 800), 8) == pytest.approx(8)
    assert seconds((100, 100), 8) == pytest.approx(8)
    assert seconds((100, 100), 4) == pytest.approx(16)
    assert seconds((800, 100), 8) == pytest.approx(1)
