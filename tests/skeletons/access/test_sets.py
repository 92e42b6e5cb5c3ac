"""Sets of a CPU's caches: which of them a walk crowds, against plain counting; and what is done
about it without being asked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treadle as td
from tests.treadle.driver.explained import lower
from treadle.backend.runtime.choosing import deciding
from treadle.dsl.graph import Input
from treadle.dsl.graphs.names import Names
from treadle.dsl.types import float32
from treadle.skeletons.access.footprint import union_lines
from treadle.skeletons.access.maps import Map, kernel_maps
from treadle.skeletons.access.sets import LINE, Cache, occupied, share
from treadle.skeletons.model import report
from treadle.skeletons.model.choose import Decider, across_blocks, choose, has_choice
from treadle.skeletons.model.coverage import Walk
from treadle.skeletons.model.device import UNKNOWN_CPU, from_dict
from treadle.skeletons.model.time import conflicts, fetched, predict
from treadle.skeletons.schedules import Auto, Block, Column, Row, as_schedule

#: Two cores of Zen 5: 12 ways of 64 sets, 16 of 1 024.
ZEN5 = dataclasses.replace(
    UNKNOWN_CPU, units=2, dram=60e9, far=241e9, near=452e9, issue=7.84e9, clock=3.745e9,
    shared=32 << 20, first=48 << 10, lanes=16, first_ways=12, own_ways=16, origin="measured",
)  # fmt: skip
FIRST = Cache(ZEN5.first, ZEN5.first_ways)


def array(*shape):
    """A plain read of an array of float32 by its own indices."""
    axes = range(len(shape))
    unit = tuple(tuple(int(a == k) for k in axes) for a in axes)
    leaf = Input("x", float32, (False,) * len(shape)).leaf()
    return Map(leaf, False, "affine", (), 4, shape, unit, ((0,) * len(shape),))


def column(m, rows, bytes_=4):
    """A box of so many rows of an array, from its first element on."""
    return np.zeros((1, 2), np.int64), np.array([[rows, bytes_ // 4]])


@pytest.mark.parametrize("pitch", [1000, 1008, 1023, 1024, 1040, 1536, 2048, 3072, 4096, 4112])
@pytest.mark.parametrize(("rows", "width"), [(7, 4), (64, 4), (64, 256), (700, 128)])
def test_sets_are_those_of_the_addresses(pitch, rows, width):
    m = array(4096, pitch)
    seen = FIRST.seen(m.size)
    lines = {(r * pitch * 4 + b) // LINE for r in range(rows) for b in range(0, width, 4)}
    used = {line % seen for line in lines}
    wanted = 1.0 if len(used) == len(lines) else len(used) / seen
    assert share(m, *column(m, rows, width), FIRST) == pytest.approx(wanted)


def test_rows_a_power_of_two_apart_have_few_sets():
    assert (FIRST.sets, Cache(1 << 20, 16).sets, Cache(1 << 20).sets) == (64, 1024, 1)
    own, large, small = Cache(1 << 20, 16), array(4096, 4096), array(256, 1024)
    assert share(large, *column(large, 256), FIRST) == 1 / 64
    assert share(large, *column(large, 256), own) == 4 / 1024
    # 4 kB pages: which of 16 places a page has in the second cache is chance.
    assert own.seen(small.size) == 64 and share(small, *column(small, 256), own) == 1 / 64
    # Three axes, and boxes that touch the same rows.
    deep = array(8, 64, 512)
    low, high = np.zeros((2, 3), np.int64), np.array([[8, 16, 1], [8, 16, 1]])
    assert share(deep, low, high, FIRST) == 2 / 64


def test_what_crowds_needs_more_cache_than_it_is_large():
    m = array(4096, 4096)
    low, high = column(m, 12)
    touched, needed = occupied([m], low, high, LINE, (), FIRST)
    assert touched == union_lines([m], low, high, LINE, ()) * LINE
    assert needed <= FIRST.size  # a line for each way
    assert occupied([m], *column(m, 13), LINE, (), FIRST)[1] > FIRST.size
    assert occupied([m], *column(m, 13), LINE, (), Cache(FIRST.size))[1] == 13 * LINE
    odd = array(4096, 4112)  # rows end a line later
    assert occupied([odd], *column(odd, 700), LINE, (), FIRST)[1] < FIRST.size


def scattered(a):
    return td.permute(td.overwrite, td.zeros((a.shape[1], a.shape[0]), td.float32),
                      lambda i, j: (j, i), a)  # fmt: skip


def turned(a):
    return td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i])


def made(function, *shape):
    program = lower(function, np.zeros([2] * len(shape), np.float32), backend="native")
    program.example_shapes = (shape,)
    node = program.kernels[-1]
    return program, node, kernel_maps(node, Names(program).known)


def test_misses_follow_the_sets():
    """Columns of 8 × 32 of a target: 32 lines of it in one set, read again for every row."""
    _, _, maps = made(scattered, 4096, 4096)
    stores = dataclasses.replace(maps, maps=maps.stores, memo={})
    walk = Walk((32, 32), Row(), (1, 8))
    narrow = Walk((32, 8), Row(), (1, 8))
    assert fetched(stores, walk, 1, Cache(FIRST.size), 64) == 32 * 2 * 64
    assert fetched(stores, walk, 1, FIRST, 64) == 32 * 32 * 64
    assert fetched(stores, narrow, 1, FIRST, 64) == 8 * 2 * 64


@pytest.mark.parametrize("shown", [(1024, 3.9), (2048, 20), (4096, 80)])
def test_unfavourable_permutes_are_predicted_and_avoided(shown):
    """Measured on two cores of Zen 5: 3.9, 20 and 80 ms row by row, 1.1, 5.8 and 23 in blocks of
    256 × 8; row by row 0.5 and 2.9 ms at 1 000 and 2 000 squared, 1.8 and 6 in such blocks."""
    n, measured = shown
    _, _, maps = made(scattered, n, n)
    found = choose(maps, ZEN5, complete=True)
    assert found.schedule == as_schedule(Row() | Block(256, 8))
    assert found.plain.seconds * 1e3 == pytest.approx(measured, rel=0.35)
    assert found.chosen.seconds < 0.5 * found.plain.seconds
    ((m, before, after),) = found.crowded
    assert m.store and before.sets == 1 and before.lost == pytest.approx(1 - 12 / 64)
    assert (after.lines, after.lost) == (8, 0)
    (line,) = report.crowds(found)
    assert line.startswith(
        "stores in flight: 64 lines map to 1 set of the first cache, with 12 ways"
    )
    assert line.endswith(
        "81% are evicted before they complete (8 in 1 set, none, under this schedule)"
    )
    assert line in report.lines(found)


@pytest.mark.parametrize("n", [500, 1000, 1023, 1025, 2000, 2047, 2049, 3000, 4000])
def test_others_stay_as_they_are(n):
    _, _, maps = made(scattered, n, n)
    assert choose(maps, ZEN5).schedule is None


def test_blocks_follow_the_rows_of_the_target():
    """… whichever axis of the source that is; and none are tried where elements may meet."""

    def permuted(place, shape):
        return lambda a: td.permute(td.overwrite, td.zeros(shape, td.float32), place, a)

    _, _, maps = made(permuted(lambda h, i, j: (j, i, h), (512, 16, 512)), 512, 16, 512)
    assert choose(maps, ZEN5).schedule == as_schedule(Row() | Block(256, 1, 8))
    _, _, maps = made(permuted(lambda h, i, j: (h, j, i), (16, 512, 512)), 16, 512, 512)
    assert choose(maps, ZEN5).schedule.block.extents[-2] == 256
    for place in (lambda i, j: (i + j, i), lambda i, j: (j, j), lambda i, j: (i, j)):
        _, _, maps = made(permuted(place, (8192, 4096)), 4096, 4096)
        assert across_blocks(maps) == []


def test_who_has_a_choice():
    program, node, _ = made(scattered, 4096, 4096)
    assert has_choice(node, gpu=False) and deciding(program, node) is not None
    added, node, _ = made(lambda a: td.permute(
        lambda new, old: new + old, td.zeros((4, 2), td.float32), lambda i, j: (j, i), a,
        schedule=Auto()), 2, 4)  # fmt: skip
    assert deciding(added, node) is None
    assert "updates of the same element keep the order of the source" in " ".join(
        added.explain().split()
    )
    kept, node, _ = made(lambda a: td.permute(
        td.overwrite, td.zeros((4, 2), td.float32), lambda i, j: (j, i), a, deterministic=True),
        2, 4)  # fmt: skip
    assert deciding(kept, node) is None


def test_a_permute_is_decided_for_its_extents_and_not_their_class(monkeypatch):
    """4 000 and 4 096 squared are as large, and want different things."""
    _, node, _ = made(scattered, 4096, 4096)
    decide, asked = Decider(node, ZEN5), []
    choice = Decider.choice
    monkeypatch.setattr(Decider, "choice",
                        lambda self, known: asked.append(known) or choice(self, known))  # fmt: skip
    values = [decide([n] * len(decide.extents)) for n in (4096, 4000, 4096, 4000)]
    assert values == [Row() | Block(256, 8), None] * 2 and len(asked) == 2


def test_one_that_keeps_the_new_value_overwrites():
    for keep in (lambda new, old: new, td.overwrite):
        _, node, _ = made(lambda a, keep=keep: td.permute(
            keep, td.zeros((4, 2), td.float32), lambda i, j: (j, i), a), 2, 4)  # fmt: skip
        assert node.combine is None


def test_the_bits_stay_under_a_block_that_was_chosen():
    a = np.random.default_rng(0).random((256, 512), np.float32)
    program = td.jit(scattered, backend="native").lower(a)
    np.testing.assert_array_equal(program(a), a.T)
    (step,) = [s for s in program.executable.kernel_steps if s.choosing is not None]
    assert step.choosing(lambda slot: (256, 512)) is not None


def test_loads_wait_together_and_orders_that_fall_out_of_step_cost():
    """A transposition by reads, measured: 0.4 ms at 1 000 squared in blocks of 8 × 32, 0.7 at
    1 024; a permute under Column(64) of 16 × 257 × 257 takes 40 times what it takes row by row."""
    block = as_schedule(Row() | Block(8, 32))
    fair, unfair = (predict(made(turned, n, n)[2], block, ZEN5) for n in (1000, 1024))
    assert 1.5 < unfair.seconds / fair.seconds < 4
    _, _, maps = made(turned, 1024, 1024)
    ((_, met),) = conflicts(maps, ZEN5, block)
    assert (met.lines, met.sets, met.lost) == (32, 1, pytest.approx(1 - 12 / 32))
    _, _, deep = made(lambda a: td.permute(td.overwrite, td.zeros((16, 257, 257), td.float32),
                                           lambda h, i, j: (h, j, i), a), 16, 257, 257)  # fmt: skip
    plain, columns = (predict(deep, s, ZEN5).seconds for s in (None, as_schedule(Column(64))))
    assert columns > 10 * plain


def test_ceilings_from_before_have_the_ways_of_this_machine():
    old = dataclasses.asdict(ZEN5)
    del old["first_ways"], old["own_ways"]
    assert from_dict(old) is None
    assert from_dict(old, UNKNOWN_CPU) == dataclasses.replace(ZEN5, first_ways=8)
