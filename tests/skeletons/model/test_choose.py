"""`Auto`: what the model chooses, on devices whose ceilings are fixed here; and its reasons."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import threading
import time

import numpy as np
import pytest

import treadle as td
from tests.treadle.driver.explained import lower
from treadle.backend.runtime.choosing import Choosing, deciding
from treadle.dsl.graphs.names import Names
from treadle.dsl.text import duration
from treadle.skeletons.access.maps import kernel_maps
from treadle.skeletons.model import device, report
from treadle.skeletons.model.choose import MARGIN, Decider, choose, has_choice, strategy_of
from treadle.skeletons.model.device import H200, UNKNOWN_CPU
from treadle.skeletons.model.folds import FoldChoice, FoldDecider, predict_fold
from treadle.skeletons.model.time import footprints, predict
from treadle.skeletons.schedules import (
    Agents,
    Auto,
    Block,
    Column,
    Hints,
    Morton,
    PerThread,
    Row,
    Stage,
    Table,
    Tile,
    ZigZag,
    as_schedule,
)

CPU = dataclasses.replace(UNKNOWN_CPU, units=4, dram=40e9, far=120e9, near=320e9, issue=36e9)
ORDERS = [Row(), *(Column(w) for w in (4, 8, 16, 32, 64, 256, 1024)), ZigZag(128), Tile(32, 32)]


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    return tmp_path / "ceilings"


def product(a, b):
    return td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0)),
        name="product",
    )


def turned(a):
    return td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i])


def box(radius):
    taps = range(-radius, radius + 1)
    return lambda a: td.stencil(
        lambda w: sum(w[i, j] * (1.0 + i + 7 * j + i * j) for i in taps for j in taps), a
    )


def sized(function, *shapes, backend="native"):
    """A program as if lowered for large arrays: small ones are traced, extents are only numbers."""
    program = lower(function, *[np.zeros([2] * len(s), np.float32) for s in shapes],
                    backend=backend)  # fmt: skip
    program.example_shapes = shapes
    return program


def kernel(function, *shapes):
    program = sized(function, *shapes)
    node = program.kernels[-1]
    return node, kernel_maps(node, Names(program).known)


# --- facts measured on an H200 (docs/design.md) -----------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(("n", "row", "narrow"), [
    (2048, 3.07e-3, 2.32e-3), (4096, 22.7e-3, None), (8192, 198e-3, None)])  # fmt: skip
def test_naive_products_want_columns(n, row, narrow):
    """A narrow column, or narrow tiles, find more of the second matrix in the L1; where it is
    larger than the L2, columns also in that."""
    _, maps = kernel(product, (n, n), (n, n))
    found = choose(maps, H200, pool=ORDERS, complete=True)
    times = {p.schedule: p.seconds for p in found.predictions}
    assert times[as_schedule(Row())] == pytest.approx(row, rel=0.2)
    assert isinstance(found.schedule.order, Column | ZigZag | Tile)
    assert n == 2048 or not isinstance(found.schedule.order, Tile)
    if narrow is not None:
        assert times[as_schedule(Column(32))] == pytest.approx(narrow, rel=0.2)


def test_a_transpose_wants_columns_of_eight():
    """491 → 320 us; its stores decide as much as its reads."""
    _, maps = kernel(turned, (8192, 8192))
    found = choose(maps, H200, pool=ORDERS, complete=True)
    assert found.schedule == Column(8) and found.plain.seconds == pytest.approx(491e-6, rel=0.15)
    assert found.chosen.seconds == pytest.approx(320e-6, rel=0.15)
    scattered = lower(
        lambda a: td.permute(td.overwrite, td.zeros((4, 2), "float32"), lambda i, j: (j, i), a),
        np.zeros((2, 4), np.float32),
    )
    node = scattered.kernels[-1]
    maps = kernel_maps(node, Names(scattered).known)
    large = dataclasses.replace(maps, outputs=(8192, 8192), maps=tuple(
        dataclasses.replace(m, shape=(8192, 8192)) for m in maps.maps))  # fmt: skip
    assert isinstance(choose(large, H200, pool=ORDERS).schedule.order, Column)


def test_many_small_blocks_take_what_launching_them_takes():
    """√(x² + 1), u·v, a transposition: 318.8 to 320.3 us in any order of elements (measured)."""
    for function, shapes in ((turned, [(8192, 8192)]), (lambda a: a * 2.0, [(8192, 8192)])):
        _, maps = kernel(function, *shapes)
        found = predict(maps, as_schedule(Morton()), H200)
        assert found.seconds == pytest.approx(320e-6, rel=0.05) and found.limit == "turnover"
        assert found.dispatch > max(*found.terms, found.turnover)


@pytest.mark.sample(1)
@pytest.mark.parametrize("radius", [1, 2, 4])
def test_stencils_gain_nothing_by_order_alone(radius):
    """Strips that share what they read are what helps, and are how it is done anyhow."""
    _, maps = kernel(box(radius), (4096, 4096))
    found = choose(maps, H200, pool=ORDERS, complete=True)
    assert found.schedule == Row() and found.best.seconds > 0.97 * found.plain.seconds
    plain, blocks = (predict(maps, s, H200) for s in (None, as_schedule(Row() | Block(8, 32))))
    assert plain.seconds == found.plain.seconds < blocks.seconds


def test_footprints_of_warps_blocks_and_waves():
    """A 9 × 9 stencil in blocks of 8 × 32; a product, of which a wave touches one side whole."""
    _, maps = kernel(box(4), (4096, 4096))
    found = footprints(maps, as_schedule(Row() | Block(8, 32)), H200)
    assert found["block"].pieces == 16 * 6 + 8 * 4 and found["block"].lines == 16 * 3 + 8
    assert found["warp"].lines == 9 * 3 + 1
    wave = 132 * 8 * 256 / 4096  # rows of outputs
    assert found["wave"].lines == pytest.approx((2 * wave + 8) * 4096 * 4 / 128, rel=0.15)
    _, maps = kernel(product, (8192, 8192), (8192, 8192))
    found = footprints(maps, as_schedule(Row()), H200)
    assert found["wave"].lines * 128 == pytest.approx(8192**2 * 4, rel=0.1)
    assert footprints(maps, as_schedule(Column(256)), H200)["wave"].lines < found["wave"].lines
    assert footprints(maps, None, CPU)["warp"].lines <= 4


# --- choices on programs ----------------------------------------------------------------------

PROGRAMS = {
    "map": (lambda a: a * 2 + 1, [(4096, 4096)]),
    "sum of two": (lambda a, b: a + b, [(2048, 2048)] * 2),
    "rolled": (lambda a: td.roll(a, 3, axis=1) + 0, [(512, 512)]),
    "transpose": (lambda a: td.transpose(a) + 0, [(2048, 2048)]),
    "stencil": (box(1), [(2048, 2048)]),
    "row sum": (lambda a: td.sum(a, axis=1), [(2048, 2048)]),
    "scan": (lambda a: td.cumsum(a, axis=1), [(512, 512)]),
    "one axis": (lambda a: td.generate((4,), lambda i: td.loop(8, lambda k, s: s + a[i, k],
                                                               td.float32(0))), [(512, 512)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_most_kernels_have_no_choice_on_a_cpu(name):
    function, shapes = PROGRAMS[name]
    program = sized(function, *shapes)
    assert all(deciding(program, node) is None for node in program.kernels)


def distances(a, b):
    def difference(i, j, k):
        return (a[i, k] - b[j, k]) * (a[i, k] - b[j, k])

    return td.generate((a.shape[0], b.shape[0]), lambda i, j: td.loop(
        a.shape[1], lambda k, s: s + difference(i, j, k), td.float32(0)))  # fmt: skip


@pytest.mark.parametrize("function", [product, distances])
@pytest.mark.parametrize("n", [256, 1200])
def test_loops_want_several_rows_at_once_on_a_cpu(function, n):
    """Measured on two cores: a product of 768 squared takes 34 ms, in blocks of 8 rows 2.4."""
    node, maps = kernel(function, (n, n), (n, n))
    assert has_choice(node, gpu=False)
    found = choose(maps, CPU)
    assert found.schedule.per_thread == PerThread(rows=8)
    assert found.chosen.seconds < MARGIN * found.plain.seconds


def test_a_gpu_runs_as_many_loops_together_as_registers_hold():
    """Measured at 2 048 squared: 0.91 ms with 8 × 8 outputs a thread, 1.65 with 8."""

    def by_rows(zero):
        return lambda a, b: td.generate(
            (a.shape[0], b.shape[0]),
            lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[j, k], zero),
        )

    _, maps = kernel(product, (2048, 2048), (2048, 2048))
    asked = as_schedule(Row() | Block(64, 128) | PerThread(8, 8))
    assert choose(maps, H200).schedule is None  # it is done so anyhow
    assert predict(maps, None, H200).seconds == predict(maps, asked, H200).seconds
    assert predict(maps, None, H200).seconds < predict(maps, as_schedule(Row()), H200).seconds / 4
    _, small = kernel(product, (512, 512), (512, 512))  # measured: 60 us, 83 with 8 a thread
    assert choose(small, H200).schedule is None
    _, maps = kernel(by_rows(td.float32(0)), (2048, 2048), (2048, 2048))
    # Neighbours are not read at once, measured: 2.3 ms with 8 a thread, 2.36 with 64, 1.4 … 1.8.
    assert choose(maps, H200).schedule == as_schedule(Row() | Block(64, 128) | PerThread(8, 4))
    _, maps = kernel(by_rows(td.float64(0)), (2048, 2048), (2048, 2048))
    patches = [p.schedule.per_thread for p in choose(maps, H200).predictions if p.schedule]
    assert max(p.rows * p.cols * 8 for p in patches if p) <= 256


def test_stores_all_over_the_target_cost_by_what_a_warp_fills():
    """A permute to the transposed, measured: 360 us row by row, 215 where 4 rows follow each other
    in a warp, as in blocks of 8 columns, 148 in columns of 8; `PerThread(cols=4)` changes nothing.
    """
    _, maps = kernel(lambda a: td.permute(
        lambda new, old: new, td.fill((a.shape[1], a.shape[0]), td.float32(0)),
        lambda i, j: (j, i), a), (4096, 4096))  # fmt: skip
    block = Row() | Block(8, 32)
    row, four, narrow, same, eight = (
        predict(maps, as_schedule(s), H200).seconds
        for s in (block, block | PerThread(rows=4), Row() | Block(32, 8), block | PerThread(cols=4),
                  Column(8))
    )  # fmt: skip
    assert row == same and four == pytest.approx(narrow, rel=0.05)
    assert row == pytest.approx(0.36e-3, rel=0.1) and eight < narrow < 0.7 * row


def seconds(function, shapes, *schedules):
    """Of a kernel on an H200, under each of the schedules."""
    _, maps = kernel(function, *shapes)
    return [predict(maps, as_schedule(s), H200).seconds for s in schedules]


def test_blocks_that_all_begin_with_the_same_sector_wait_for_it():
    """u[i]·v[j] of 8 192 squared, measured: 175 us row by row, where all multiprocessors ask for
    one u[i] at a time; 164 in columns of 256; 491 by two agents each, which go along a row."""
    block = Row() | Block(8, 32)
    row, columns, agents = seconds(
        lambda u, v: td.generate((u.shape[0], v.shape[0]), lambda i, j: u[i] * v[j]),
        ((8192,), (8192,)), block, Column(256) | Block(8, 32), block | Agents(2))  # fmt: skip
    assert row == pytest.approx(175e-6, rel=0.1) and columns == pytest.approx(164e-6, rel=0.05)
    assert columns < row < 0.5 * agents
    past = Hints(horizontal="no_l1", vertical="no_l1")  # measured: 225 us, 325
    added, added_past = seconds(lambda a, u: td.generate(a.shape, lambda i, j: a[i, j] + u[i]),
                                ((8192, 8192), (8192,)), block, block | past)  # fmt: skip
    assert added_past / added == pytest.approx(325 / 225, rel=0.1)


def test_past_the_first_cache_lines_are_looked_up_one_by_one():
    """Axes turned round, measured: 124 us, and past the L1, whose lines the L2 gives up first, 149.
    A transposition, whose warps ask for the same lines at the same time: 314 and 349."""
    block, past = Row() | Block(8, 32), Hints(horizontal="no_l1", vertical="no_l1")
    around, around_past = seconds(
        lambda a: td.generate((a.shape[2], a.shape[1], a.shape[0]), lambda h, i, j: a[j, i, h]),
        ((512, 64, 512),), block, block | past)  # fmt: skip
    plain, plain_past = seconds(turned, ((8192, 8192),), block, block | past)
    assert 1.05 < around_past / around < 1.3 and 1.05 < plain_past / plain < 1.35


def test_columns_narrower_than_a_piece_of_memory_fetch_rows_twice():
    """262 144 rows of 64 in random order, measured: 81 us, 119 in columns of 8."""
    rows, narrow = seconds(
        lambda a, p: td.generate(a.shape, lambda i, j: a[td.int32(p[i]), j]),
        ((1 << 18, 64), (1 << 18,)), Row() | Block(8, 32), Column(8))  # fmt: skip
    assert narrow > 1.08 * rows


def test_loops_of_unlike_turns_want_compact_warps_and_many_of_them():
    """The Mandelbrot set, measured: 81.1 us, 78.6 where a warp is 4 × 8, 117 by two agents each."""

    def iterations(i, j, step):
        inside = lambda s: (s[0] * s[0] + s[1] < 4) & (s[1] < 100)
        iteration = lambda s: (s[0] * s[0] + step * i, s[1] + 1)
        return td.while_loop(inside, iteration, (0.1 * j, 0.0))[1]

    def set_of(scale):
        return td.generate((2048, 2048), lambda i, j: iterations(i, j, scale[0]))

    block = Row() | Block(8, 32)
    # Columns that take as many blocks as are resident are dear or cheap as a whole: 83.4.
    row, compact, agents, wide = seconds(
        set_of, ((1,),), block, Row() | Block(32, 8), block | Agents(2), ZigZag(128) | Block(8, 32)
    )
    assert 1.005 < wide / row < 1.03
    assert 0.94 < compact / row < 0.98 and agents > 1.2 * row


def test_what_a_loop_does_not_change_is_counted_once():
    def steps(x, a):
        return td.loop(100, lambda k, s: s * s + td.sqrt(x) + a[k], x)

    made = [kernel(lambda a, t=t: td.generate((64, 64), lambda i, j: steps(t(i), a)), (100,))[1]
            for t in (td.float32, td.float64)]  # fmt: skip
    single, double = made  # a root, not 100; a product with a sum, a sum, of doubles a conversion
    assert 200 < single.operations < 220 and 300 < double.operations < 320
    assert single.doubles == 0 and double.doubles == double.operations
    assert single.loads == double.loads == 100


def test_folds_want_enough_blocks():
    """Measured: sums of 8 192 rows take 62 us, 68 in blocks of 8 rows, 450 in blocks of 256; in
    blocks of 8 rows 64 where 8 blocks fit a multiprocessor, not 6; in blocks of 32 rows 99 where 32
    registers leave no room for what is waited for, 78 where there are 40."""
    _, maps = kernel(lambda a: td.fold(lambda x, y: x + y, 0.0, a, axis=1), (8192, 8192))
    plain, eight, many = (
        predict_fold(maps, s, H200) for s in (None, Row() | Block(32, 8), Row() | Block(1, 256))
    )
    assert 0.99 * plain < eight < 1.1 * plain and many == pytest.approx(450e-6, rel=0.1)
    assert predict_fold(maps, Row() | Block(32, 8), H200, 40) > 1.03 * eight
    assert predict_fold(maps, None, H200, 32, spilled=True) > predict_fold(maps, None, H200, 32)
    few, enough = (predict_fold(maps, Row() | Block(8, 32), H200, n) for n in (32, 40))
    assert few == pytest.approx(99e-6, rel=0.1) and enough == pytest.approx(78e-6, rel=0.1)


def test_blocks_in_step_leave_some_alone_and_spilled_registers_cost():
    """Sums of 8 192 columns, measured, us: 66.8 with 34 or 40 registers (6 blocks at a time), 67.5
    with 48 (5, which is 3.1 waves: out of step), 68.7 with 32 of which one is spilled, 70.5 and
    71.2 in half as many blocks (1.3 waves: the last 232 are alone)."""
    _, maps = kernel(lambda a: td.fold(lambda x, y: x + y, 0.0, a, axis=0), (8192, 8192))
    found = [predict_fold(maps, s, H200, *taken) * 1e6 for s, taken in (
        (None, (40,)), (None, (34,)), (as_schedule(Morton()), (48,)), (None, (32, True)),
        (as_schedule(Row() | Block(1, 256)), (40,)))]  # fmt: skip
    assert found == sorted(found)
    assert found == pytest.approx([66.8, 66.8, 67.5, 68.7, 71], rel=0.02)


def test_sums_into_few_places_stay_in_shared_memory():
    def counts(values, bins):
        return td.permute(lambda new, old: new + old, td.fill(bins.shape, 0), lambda i: values[i],
                          td.fill(values.shape, 1))  # fmt: skip

    seconds = []
    for bins in (256, 1 << 20):
        program = sized(lambda v, b: counts(td.map(lambda x: td.int32(x), v), b), (1 << 24,),
                        (bins,))  # fmt: skip
        node = program.kernels[-1]
        maps = kernel_maps(node, Names(program).known)
        assert maps.binned is (bins == 256)
        seconds.append(predict(maps, None, H200).seconds)
    assert 5 * seconds[0] < seconds[1]


def test_defaults_that_are_better_stay():
    """What a lowering does by itself, in tiles and strips, is no matter of orders."""
    node, _ = kernel(turned, (512, 512))
    assert (strategy_of(node, True), strategy_of(node, False)) == ("tiles", "tiles")
    node, maps = kernel(box(2), (2048, 2048))
    assert strategy_of(node, True) == "strips" and not has_choice(node, gpu=True)
    assert choose(maps, H200).schedule is None


@pytest.mark.parametrize(("reads", "dtype", "how"), [
    (5, "f4", "whole"), (5, "f8", "whole"), (5, "u1", "strips"), (5, "i2", "strips"),
    (9, "f4", "strips"), (9, "u1", "strips")])  # fmt: skip
def test_rows_go_from_end_to_end_for_few_and_wide_reads_only(reads, dtype, how):
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if reads == 9 or i == 0 or j == 0]

    def largest(w):
        return functools.reduce(td.maximum, [w[o] for o in around])

    program = lower(lambda a: td.stencil(largest, a), np.zeros((9, 8), dtype), backend="native")
    assert strategy_of(program.kernels[-1], False) == how


def test_layers_that_were_given_stay():
    """Blocks of a row, column by column: 18.5 ms at 4 096² (measured), row by row 23.9."""
    node, maps = kernel(product, (4096, 4096), (4096, 4096))
    given = as_schedule(Block(1, 256) | Hints(stream="evict_first"))
    found = choose(maps, H200, given)
    assert found.plain.schedule == given and isinstance(found.schedule.order, Column)
    tried = [p.schedule for p in found.predictions[1:]]
    assert found.schedule in tried
    assert {s.order for s in tried} == {Column(64), Column(256), Column(1024)}
    assert all((s.block, s.hints) == (given.block, given.hints) for s in tried)
    fixed = sized(product, (64, 64), (64, 64)).scheduled(product=Row()).kernels[-1]
    assert not has_choice(fixed, gpu=True) and has_choice(node, gpu=True)


def test_a_small_gain_is_no_reason():
    _, maps = kernel(product, (4096, 4096), (4096, 4096))
    plain = choose(maps, H200, pool=[Column(256), Column(512), Column(1024)], complete=True)
    assert plain.schedule == Column(256)
    assert plain.best.seconds >= MARGIN * plain.plain.seconds


def test_what_cannot_win_costs_little_and_changes_nothing():
    _, maps = kernel(product, (8192, 8192), (8192, 8192))
    quick, full = choose(maps, H200), choose(maps, H200, complete=True)
    assert quick.schedule == full.schedule and len(quick.predictions) == len(full.predictions)
    assert all(a.seconds <= b.seconds for a, b in zip(quick.predictions, full.predictions,
                                                      strict=True))  # fmt: skip
    odd = choose(maps, H200, pool=[Row(), Table(range(4)), Column(64)][::2])
    assert odd.schedule == Column(64)


# --- on programs that run ---------------------------------------------------------------------


def test_a_decision_is_made_once_for_a_class_of_extents(monkeypatch):
    node, _ = kernel(product, (64, 64), (64, 64))
    decide = Decider(node, CPU)
    made = []
    choice = Decider.choice
    monkeypatch.setattr(Decider, "choice",
                        lambda self, known: made.append(known) or choice(self, known))  # fmt: skip
    first = decide([200] * len(decide.extents))
    assert first.per_thread == PerThread(rows=8)
    assert decide([250] * len(decide.extents)) is first and len(made) == 1
    assert decide([0] * len(decide.extents)) is None
    assert decide([1] * len(decide.extents)) is None


def test_auto_runs_what_it_chose_and_the_bits_stay():
    rng = np.random.default_rng(0)
    a, b = (rng.random((160, 160), np.float32) for _ in range(2))
    plain = td.jit(product, backend="native").scheduled(product=Row()).lower(a, b)
    auto = td.jit(product, backend="native").scheduled(product=Auto()).lower(a, b)
    np.testing.assert_array_equal(auto(a, b), plain(a, b))
    (step,) = auto.executable.kernel_steps
    chosen = step.choosing(lambda slot: (160, 160))
    assert chosen.per_thread == PerThread(rows=8)
    assert [key[-1] for key in step.variants] == [chosen]
    assert isinstance(step.choosing, Choosing)
    np.testing.assert_array_equal(auto(a[:16, :80], b[:80]), plain(a[:16, :80], b[:80]))
    np.testing.assert_array_equal(auto(a.T, b), plain(a.T.copy(), b))
    # A short loop has kernels of its own for its extent, and they follow the choice, too.
    short = a[:, :24].copy(), b[:24].copy()
    np.testing.assert_array_equal(auto(*short), plain(*short))
    assert any(24 in dict(form.sizes).values() and schedule is not None
               for _, form, schedule in step.variants)  # fmt: skip


def test_in_checked_mode_nothing_is_chosen():
    with td.config(check=True):
        program = td.jit(product, backend="native").lower(*[np.zeros((200, 200), np.float32)] * 2)
    assert deciding(program, program.kernels[-1]) is None


# --- reasons ----------------------------------------------------------------------------------


def test_the_reasons_are_numbers():
    _, maps = kernel(distances, (4096, 64), (4096, 64))
    pool = [Row(), Column(8), Row() | Block(64, 128) | PerThread(8, 8)]
    shown = report.lines(choose(maps, H200, pool=pool, complete=True))
    assert shown[0] == "Row() | Block(64, 128) | PerThread(rows=8, cols=8)"
    assert re.fullmatch(r"\d+ µs predicted, [\d.]+ ms Row\(\)", shown[1])
    assert shown[2].split() == ["time", "DRAM", "L2", "issue", "L1", "blocks", "candidate"]
    assert shown[3].split()[:2] == shown[1].split()[:2] and "*" in shown[3]
    assert "ceilings of NVIDIA H200" in shown and max(map(len, shown)) <= 101
    assert len({line.index("Row()") for line in shown[3:6] if "Row()" in line}) == 1


def test_explain_tells_them_and_why_there_is_no_choice(monkeypatch):
    monkeypatch.setattr(device, "ceilings", lambda backend, machine: CPU)
    program = sized(product, (1200, 1200), (1200, 1200))
    text = program.explain()
    assert "Block(64, 128) | PerThread(rows=8)\n" in text and "ceilings of a CPU" in text
    assert "L3" in text and "without a schedule" in text
    assert "*: the slowest term dominates" in text
    assert "equal times: no schedule first, then the least sum of all terms" in text
    assert "guessed: `treadle ceilings` measures this machine" in text
    auto = program.scheduled(product=Auto()).explain()
    assert "schedule   Auto()" in auto and "ms predicted" in auto
    added = sized(lambda a: td.map(lambda x: x + 1, a, schedule=Auto()), (64, 64))
    assert "nothing to choose: elements share no reads" in added.explain()
    folded = sized(lambda a: td.sum(a, axis=1, schedule=Auto()), (64, 64))
    assert "nothing to choose: neighbouring lanes fold the same row" in folded.explain()
    unknown = sized(product, (64, 64), (64, 64))
    unknown.example_shapes = None
    assert "when the extents are known" in unknown.explain()


def test_predictions_are_data():
    program = sized(product, (512, 512), (512, 512))
    found = report.predictions(program, [None, Row(), Column(64) | Block(32, 64)], "product")
    assert [r["schedule"] for r in found] == [None, "Row()", "Column(64) | Block(32, 64)"]
    assert all(r["seconds"] >= max(r[k] for k in r if k.startswith("t_")) for r in found)
    json.dumps(found)
    with pytest.raises(td.ScheduleError, match="supports 0 kernels"):
        report.predictions(program, [None], "other")


# --- ceilings ---------------------------------------------------------------------------------


def test_ceilings_are_kept_and_damaged_files_dropped(own_store):
    assert device.ceilings("cuda", ["some GPU"]) == H200
    mine = dataclasses.replace(H200, dram=1e12, origin="measured")
    device.keep("cuda", ["some GPU"], mine)
    assert device.ceilings("cuda", ["some GPU"]) == mine
    assert device.ceilings("cuda", ["another GPU"]) == H200
    (path,) = own_store.glob("*.json")
    whole = path.read_text(encoding="utf-8")
    for broken in (whole[:-20], whole.replace("1000000000000.0", "2000000000000.0"), "", "[]"):
        path.write_text(broken, encoding="utf-8")
        device._recall.cache_clear()
        assert device.ceilings("cuda", ["some GPU"]) == H200 and not path.exists()
        path.write_text(whole, encoding="utf-8")
    for wrong in ({"dram": -1.0}, {"gpu": False}, {"units": "many"}, {"launch": float("inf")}):
        device.keep("cuda", ["some GPU"], dataclasses.replace(H200, **wrong))
        assert device.ceilings("cuda", ["some GPU"]) == H200
    assert device.from_dict({**dataclasses.asdict(H200), "more": 1}) is None


def test_writers_of_ceilings_do_not_disturb_each_other(own_store):
    threads = [
        threading.Thread(target=device.keep, args=("cuda", ["x"], found))
        for found in (dataclasses.replace(H200, units=n) for n in range(1, 9))
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert 1 <= device.ceilings("cuda", ["x"]).units <= 8
    assert [p.suffix for p in own_store.iterdir()] == [".json"]


def test_shipped_ceilings_say_where_they_are_from():
    cpu = device.default("native")
    assert cpu.units >= 1 and not cpu.gpu and "guess" in cpu.origin and "H200" in H200.origin
    assert (H200.line, H200.piece, cpu.line, cpu.piece) == (128, 32, 64, 64)
    assert device.ceilings("native", []).name == "a CPU"


def test_the_command_measures_and_keeps(own_store, monkeypatch):
    from typer.testing import CliRunner

    from treadle import ceilings as measuring
    from treadle.backend.native import crossover
    from treadle.cli import app
    from treadle.skeletons.products.model import Rates

    monkeypatch.setattr(measuring, "measure", lambda backend: CPU)
    measured, quick = (
        [],
        crossover.Measured(Rates(((512, 1e11), (1024, 1e11)), 1e13), time.time(), 0),
    )
    monkeypatch.setattr(crossover, "measure", lambda t: measured.append(t) or quick)
    done = CliRunner().invoke(app, ["ceilings", "--backend", "native"])
    assert done.exit_code == 0 and "40.0 GB/s" in done.output
    assert device.ceilings("native", measuring.machine_of("native")) == CPU
    shown = CliRunner().invoke(app, ["ceilings", "--backend", "native", "--show"])
    assert "40.0 GB/s" in shown.output and measured == list(crossover.TYPES)
    for description in (done, shown):
        assert "winograd from 1,024² on: 1.14 ×" in description.output
        assert "strassen from 1,024² on" in description.output
    wrong = CliRunner().invoke(app, ["ceilings", "--backend", "reference"])
    assert wrong.exit_code == 1


def test_measuring_gives_sane_ceilings():
    from treadle.ceilings import measure

    found = measure("native", 1e-3, copied=1 << 20)
    assert device.from_dict(dataclasses.asdict(found)) == found
    assert found.origin.startswith("measured") and found.lanes in (4, 8, 16)


def test_auto_by_name_is_as_without_and_says_what_is_done_already():
    """`Auto()` neither keeps an operation from being fused nor from being recognised."""

    def two(schedule):
        def program(a):
            lap = td.stencil(lambda w: (w[-1, 0] + w[0, 0] + w[1, 0]) / 3, a, schedule=schedule)
            return td.map(lambda x: x + 1, lap)

        return program

    assert len(sized(two(Auto()), (64, 64)).kernels) == 1
    assert len(sized(two(Row()), (64, 64)).kernels) == 2
    text = sized(lambda a: td.stencil(
        lambda w: sum(w[i, j] * (1.0 + i + 7 * j + i * j) for i in (-1, 0, 1) for j in (-1, 0, 1)),
        a, schedule=Auto()), (4096, 4096), backend="cuda").explain()  # fmt: skip
    assert "nothing to choose: without a schedule a thread computes several rows" in text
    assert "without a schedule" in text and "Row() | Block(8, 32)" in text
    summed = sized(lambda a: td.sum(a, axis=1, schedule=Auto()), (4096, 4096), backend="cuda")
    assert "predicted, and no candidate is faster" in " ".join(summed.explain().split())


# --- folds, scans, permutes ---------------------------------------------------------------------


def decider(f, *shapes):
    program = sized(f, *shapes)
    node = program.kernels[-1]
    return FoldDecider(node, H200), Names(program).known


def test_a_fold_is_compared_with_orders_of_its_parts():
    """No candidate is faster than no schedule, under which most blocks access memory at a time."""
    decide, known = decider(lambda a: td.sum(a, axis=1, schedule=Auto()), (8192, 8192))
    found = decide.choice(known)
    assert found.schedule is None and len(found.others) == 4
    assert all(t >= found.plain for _, t in found.others)
    (line,) = found.lines()
    assert line.startswith(f"{duration(found.plain)} predicted, and no candidate is faster: ")
    assert "Row() | Block(1, 256) 45" in line  # 456 us: measured
    assert decide([known[e] for e in decide.extents]) is None


def test_another_order_of_parts_has_to_promise_clearly_less():
    narrow, wide = as_schedule(Column(8)), as_schedule(Column(64))
    assert FoldChoice(1e-3, ((narrow, 0.8e-3), (wide, 0.7e-3))).schedule == wide
    assert FoldChoice(1e-3, ((narrow, 0.95e-3),)).schedule is None
    assert FoldChoice(20e-6, ((narrow, 10e-6),)).schedule is None  # not worth a compilation
    assert FoldChoice(20e-6, ()).schedule is None


@pytest.mark.parametrize(
    ("f", "shapes", "why"),
    [
        (lambda a: td.sum(a, schedule=Auto()), ((64, 64),), "one row, read once"),
        (lambda a: td.sum(a, axis=1, schedule=Auto()), ((1 << 20, 8),), "fold the same row"),
        (lambda a, b: td.min(td.generate((64, 64, 64), lambda i, j, k: a[i, k] + b[k, j]), axis=2,
                             schedule=Auto()), ((64, 64), (64, 64)), "fold different results"),
        (lambda a: td.cumsum(a, axis=1, schedule=Auto()), ((64, 64),), "needs the one before"),
        (lambda a: td.permute(td.overwrite, td.zeros((64, 64)), lambda i, j: (i, j), a,
                              schedule=Auto()), ((64, 64),), "stored row by row"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_where_there_is_no_choice_a_sentence_says_why(f, shapes, why, backend):
    program = td.jit(f, backend="native").lower(*(np.zeros(s, np.float32) for s in shapes))
    description = " ".join(program.explain(backend).split())
    assert "schedule Auto(); as Row()" in description
    assert re.search(rf"nothing to choose: [^:]*{why}", description)


def test_a_schedule_that_was_given_is_told_beside_none():
    """Predicted times, and M_cache and M_loads of its columns; nothing where a layer is unknown."""

    def description(schedule):
        taps = range(-3, 4)
        program = sized(lambda a: td.stencil(
            lambda w: sum(w[i, j] * (1.0 + i + 7 * j + i * j) for i in taps for j in taps), a,
            schedule=schedule), (4096, 4096))  # fmt: skip
        return " ".join(program.explain("cuda").split())

    text = description(Column(256))
    assert re.search(r"[\d.]+ µs predicted, [\d.]+ µs without a schedule", text)
    # 7 rows of 256 + 3 elements of the first column, in lines of 32.
    assert "columns of 256: 256 outputs keep 8.06 kB of lines in use (M_cache)" in text
    assert re.search(r"lines are fetched \(M_loads\), 1\.\d\d × the lines touched", text)
    assert "predicted" not in description(Row() | Block(8, 32) | Stage())


def test_extents_that_are_equal_by_a_check_are_known_by_either_name():
    """A kernel names its extents after `b`, its results are named after `a`."""
    rng = np.random.default_rng(2)
    a, b, w = rng.integers(9, size=(17, 17)), rng.integers(9, size=(17, 17)), np.ones((1, 2), int)
    sums, found = td.jit(lambda a, b, w: (b + a, td.correlate(a, w, td.constant(7))),
                         backend="native")(a, b, w)  # fmt: skip
    want = a + np.pad(a, ((0, 0), (1, 0)), constant_values=7)[:, :17]
    np.testing.assert_array_equal(sums, a + b)
    np.testing.assert_array_equal(found, want)
