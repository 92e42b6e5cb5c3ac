"""The simulator of several multiprocessors, and the study made with it."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.skeletons.schedules import Block, Row
from treadle.skeletons.simulator import stencil_pattern, transpose_pattern
from treadle.skeletons.simulator.device import (
    BlockTrace,
    Multiprocessors,
    block_trace,
    redirected,
    run_blocks,
)
from treadle.skeletons.simulator.engines import lru, lru_state

PLAN = (Row() | Block(4, 16)).resolve(2)
STENCIL = block_trace(stencil_pattern(20, 48, 3, 3), PLAN, 8, stores=0)


def test_what_the_warps_of_a_block_touch():
    """Four rows of 16: two warps; lines of 8 elements, every line of a load of a warp once."""
    trace = block_trace(transpose_pattern(8, 32), PLAN, 8)
    assert trace.blocks == 2 * 2
    first = trace.lines[: trace.starts[1]]
    # A warp is two rows of 16 outputs: it reads 16 rows of the input, and writes two pieces.
    reads = [j * 8 // 8 for j in range(16)]
    writes = [-1 - (256 + i * 32 + j) // 8 for i in (0, 1) for j in (0, 8)]
    np.testing.assert_array_equal(np.sort(first[:20]), np.sort([*reads, *writes]))


@pytest.mark.parametrize("lines", [3, 17, 60])
def test_one_multiprocessor_with_one_block_is_a_plain_cache(lines: int):
    span, nothing = STENCIL.span, np.zeros(0, np.bool_)
    state = lru_state(span, lines)
    lru(STENCIL.lines, *state, nothing)
    expected = state[-1][1]
    ran = run_blocks(STENCIL, Multiprocessors(1, 1, lines, 1))
    assert (ran.l1_misses, ran.accesses) == (expected, len(STENCIL.lines))
    assert ran.steps == ran.accesses
    shared = run_blocks(STENCIL, Multiprocessors(1, 1, 1, lines))
    through = STENCIL.lines[np.r_[True, STENCIL.lines[1:] != STENCIL.lines[:-1]]]
    state = lru_state(span, lines)
    lru(through, *state, nothing)
    assert shared.l2_misses == state[-1][1]


def test_every_block_runs_once_however_it_is_handed_out():
    order = np.random.default_rng(0).permutation(STENCIL.blocks)
    for device in (Multiprocessors(), Multiprocessors(3, 2), Multiprocessors(40, 1)):
        for queues in (False, True):
            ran = run_blocks(STENCIL, device, order, queues)
            assert ran.accesses == len(STENCIL.lines)
            assert ran.l1_misses >= len(np.unique(STENCIL.lines))
            assert ran.l2_misses == len(np.unique(STENCIL.lines))


def test_queues_of_uneven_work_are_stolen_from():
    lengths = np.r_[np.full(8, 50), np.full(8, 1)]  # one multiprocessor has all the work
    starts = np.r_[0, np.cumsum(lengths)]
    trace = BlockTrace(np.zeros(starts[-1], np.int64), starts, 1)
    ran = run_blocks(trace, Multiprocessors(2, 1), queues=True)
    assert ran.stolen > 0
    assert ran.steps < 300


def test_redirection_gives_neighbours_to_one_multiprocessor():
    moved = redirected(24, 3, 4)
    assert sorted(moved.tolist()) == list(range(24))
    for m in range(4):
        assert (np.diff(moved[m:12:4]) == 1).all()


def test_the_study_compares_every_family():
    from benchmarks.provenance import processor
    from benchmarks.schedules.paver import FAMILIES, Options, markdown, run, summary

    results = [r for found in run(Options(size=128, only=("3×3", "permuted"))) for r in found]
    assert {r.family for r in results} == {"row", *FAMILIES}
    for name in ("3×3 stencil", "windows of permuted blocks"):
        mine = [r for r in results if r.program == name]
        assert len({r.accesses for r in mine}) == 1
        graph = min(r.l1_misses for r in mine if r.family == "graph")
        plain = next(r.l1_misses for r in mine if r.family == "row")
        assert graph < plain
    about = {"title": "t", "date": "d", "versions": {"treadle": "0"}, "commit": "c", "dirty": None,
             "device": processor(), "simulated": vars(Multiprocessors()),
             "ran_on": None}  # fmt: skip
    assert len(summary(results)) == 2
    assert markdown(results, about).count("\n## ") == 2
