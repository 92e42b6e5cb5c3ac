"""Tuning of folds, scans, products and hints; refusals; what survives in the store.

Times are made up, for certainty: milliseconds by candidate.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import treadle as td
from tests.treadle.tuning.test_tuning import same_bits, subjects
from treadle.driver.program import Program
from treadle.dsl.graph import Matmul, Memory
from treadle.dsl.graphs.names import Names
from treadle.dsl.operations.algebra.product_way import ProductWay, left_open
from treadle.skeletons import store
from treadle.skeletons.schedules import Block, Column, Hints, Row, as_schedule
from treadle.tuning import trials
from treadle.tuning.candidates import (
    fold_candidates,
    hint_candidates,
    options,
    scan_candidates,
    tunable,
)
from treadle.tuning.progress import Bar
from treadle.tuning.trials import difference, rounding

S = td.schedule
TALL = np.linspace(0, 1, 300 * 900, dtype=np.float32).reshape(300, 900)
WHOLE = np.arange(64 * 64, dtype=np.int32).reshape(64, 64) % 97


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    return tmp_path / "tuning"


@pytest.fixture
def clock(monkeypatch):
    """Made-up milliseconds by candidate; 10 as it was, 11 for others; `calls` in order."""
    times: dict = {None: 10.0, "calls": []}

    def measure(runner):
        times["calls"].append(runner.schedule)
        runner.times.append(times.get(runner.schedule, 11.0) / 1e3)

    once = trials.Runner.once
    monkeypatch.setattr(trials.Runner, "measure", measure)
    monkeypatch.setattr(trials.Runner, "once", lambda runner: (once(runner)[0], 1e-3))
    return times


def words(text):
    """Without line breaks."""
    return " ".join(text.split())


def lowered(function, *args, backend="native"):
    return td.jit(function, backend=backend).lower(*args)


def summed(a, schedule=None):
    return lowered(lambda a: td.sum(a, axis=0, name="total", schedule=schedule), a)


def multiplied(a, **given):
    return lowered(lambda a: td.matmul(a, a, name="product", **given), a)


# --- candidates ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "cuda"])
@pytest.mark.parametrize("extents", [(7,), (1 << 19,), (300, 900), (9000, 3, 5), (None, None),
                                     (9000, 3, 500), (8, 2, 3, 1031)])  # fmt: skip
def test_candidates_of_folds_fit(backend, extents):
    found = fold_candidates(backend, extents)
    assert len(set(found)) == len(found) <= 12
    for schedule in found:
        schedule.resolve(len(extents))
    assert found or max(n or 99 for n in extents[1:] or (7,)) < 64


def test_candidates_of_scans_fit():
    assert scan_candidates((100,)) == []
    for schedule in scan_candidates((4, 64, 300)):
        schedule.resolve(3)


def test_what_makes_the_very_same_kernels_is_not_tried():
    """A block of one leaf in row order is what a fold does by itself."""
    program = lowered(lambda a: td.sum(a), np.zeros(40_000, np.float32))
    names = Names(program)
    ((_, node, extents),) = tunable(names)
    assert options(program, names, node, extents) == [None, Row() | Block(32768)]
    small = lowered(lambda a: td.sum(a), np.zeros(100, np.float32))
    assert "nothing to tune" in str(small.tune(np.zeros(100, np.float32)).tuning)


def test_memory_alone_is_no_kernel_to_tune():
    """What a loop collects into is read by a second one: no kernel writes it alone."""

    def program(a):
        def step(s, x):
            return td.maximum(s, x), td.sort(x - s)

        _, first = td.scan(step, a[0], a)
        return td.scan(step, first[0], first)

    a = np.arange(12, dtype=np.uint32).reshape(3, 4)
    names = Names(lowered(program, a))
    assert any(isinstance(node, Memory) for node in names.kernels)
    assert not any(isinstance(node, Memory) for _, node, _ in tunable(names))
    tuned = lowered(program, a).tune(a, budget=0.2, progress=False)
    assert np.array_equal(tuned(a)[1], td.jit(program)(a)[1])


def test_every_kind_of_kernel_can_be_tuned():
    def program(a, at, offsets):
        return (
            td.sum(a, axis=1, name="fold"),
            td.cumsum(a, axis=0, name="scan"),
            td.permute(lambda new, old: new + old, td.zeros(900, td.float32),
                       lambda i, j: td.use(at)[i], a, name="bins"),
            td.matmul(td.cast(a, td.int32), td.transpose(td.cast(a, td.int32)), name="product"),
        )  # fmt: skip

    found = subjects(lowered(program, TALL, np.zeros(300, np.int64), np.arange(3)))
    assert {"fold": (900, 300), "scan": (300, 900), "bins": (300, 900)}.items() <= found.items()
    assert found["product"] == (300, 300)


def test_hints_for_those_that_could_profit():
    def hints(function, *args, backend="cuda", size=1 << 22):
        (node,) = lowered(function, *args).kernels
        return hint_candidates(node, backend, size)

    a, row = np.zeros((64, 300), np.float32), np.zeros(300, np.float32)
    both = [Hints(stream="evict_first"), Hints(stores="streaming")]
    assert hints(lambda a, r: a + r, a, row) == both
    assert hints(lambda a: a * 2, a) == []  # nothing is read again
    places = np.zeros((64, 300), np.int64)
    assert Hints(random="no_l1") in hints(lambda r, p: td.take(r, p), row, places)
    assert hints(lambda a: a * 2, a, backend="native") == [Hints(stores="streaming")]
    assert hints(lambda a: a * 2, a, backend="native", size=100) == []


def test_what_a_product_leaves_open():
    def asked(a, fast=False, **given):
        with td.precision(fast=fast):
            (node,) = multiplied(a, **given).kernels
        assert isinstance(node, Matmul)
        return left_open(node)

    floats = WHOLE.astype(np.float32)
    assert asked(floats) == "" and asked(floats, True) == "way" == asked(WHOLE)
    assert asked(floats, algorithm="strassen") == "execution"
    assert asked(floats, algorithm="strassen", execution="owner") == ""
    assert asked(WHOLE, algorithm="standard") == "" == asked(WHOLE, levels=0)


# --- folds and hints -------------------------------------------------------------------------


def test_a_fold_is_tuned_and_remembered(clock):
    best = as_schedule(Column(256))
    clock[best] = 2.0
    program = summed(TALL)
    tuned = program.tune(TALL, progress=False)
    assert tuned.tuning.winners == {"total": best} and not tuned.tuning.refused
    assert same_bits(tuned(TALL), program(TALL))
    pasted = eval(tuned.tuning.best, {"program": program, "td": td})
    assert pasted.kernels[0].label.schedule == best
    by_itself = summed(TALL, S.Tuned())
    assert same_bits(by_itself(TALL), program(TALL))
    (step,) = by_itself.executable.kernel_steps
    assert [key[-1] for key in step.variants] == [best]
    shown = words(program.explain())
    assert "Column(256) is the fastest of" in shown and "5.00 × as fast as it was" in shown
    assert "2 ms Column(256)" in shown and "10 ms as it was" in shown
    assert "Column(256) is the fastest of" in words(tuned.explain())
    assert "measured" not in summed(TALL[:100, :100]).explain()  # another class of extents


def scanned(a, schedule=None):
    return lowered(lambda a: td.cumsum(a, axis=0, name="scan", schedule=schedule), a)


def test_hints_are_tried_on_the_winner(clock):
    a, best = np.zeros((1024, 1100), np.float32), as_schedule(Column(256))
    clock.update({best: 4.0, best | Hints(stores="streaming"): 3.0})
    assert scanned(a).tune(a).tuning.winners == {"scan": best | Hints(stores="streaming")}


def test_hints_that_were_asked_for_stay(clock):
    a, mine = np.zeros((1024, 1100), np.float32), Hints(stores="evict_first")
    clock[Column(256) | mine] = 4.0
    table = scanned(a, mine).tune(a).tuning
    assert table.winners == {"scan": Column(256) | mine}
    assert all(r.schedule is None or r.schedule.hints == mine for r in table.rows)


# --- products --------------------------------------------------------------------------------


def test_a_product_is_tuned_written_and_remembered(clock):
    floats = WHOLE.astype(np.float32)
    best = ProductWay("strassen", 1, "batched")
    clock[best] = 2.0
    program = multiplied(floats, algorithm="strassen")
    tuned = program.tune(floats, progress=False)
    table = tuned.tuning
    assert table.winners == {"product": best} and (table.before, table.after) == (10.0, 2.0)
    assert not table.refused and len(table.rows) >= 6
    shown = '# product: td.matmul(a, b, algorithm="strassen", levels=1, execution="batched")'
    assert table.best == f"program.scheduled()\n{shown}" and table.best in str(table)
    written = multiplied(floats, algorithm="strassen", levels=1, execution="batched")
    assert same_bits(tuned(floats), written(floats))
    assert tuned.kernels[0].options == written.kernels[0].options
    again = program.tune(floats).tuning
    assert again.stored and again.winners == table.winners and again.rows == table.rows
    f = td.jit(lambda a: td.matmul(a, a, name="product", algorithm="strassen"), backend="native")
    assert f.tune(floats).lower(floats).kernels[0].options == written.kernels[0].options


def test_a_product_asks_for_what_was_measured(clock):
    floats = WHOLE.astype(np.float32)
    clock[ProductWay("strassen", 1, "batched")] = 2.0
    asked = multiplied(floats, algorithm="strassen", schedule=S.Tuned())
    assert "execution recursive" in asked.explain()
    multiplied(floats, algorithm="strassen").tune(floats)
    asked = multiplied(floats, algorithm="strassen", schedule=S.Tuned())
    shown = words(asked.explain())
    assert "execution batched" in shown and "strassen, 1 level, batched is the fastest of" in shown
    written = multiplied(floats, algorithm="strassen", levels=1, execution="batched")
    assert same_bits(asked(floats), written(floats))
    assert asked.source() == written.source()
    larger = np.zeros((130, 130), np.float32)
    assert same_bits(asked(larger), larger)
    f = td.jit(lambda a: td.matmul(a, a, name="product", algorithm="strassen",
                                   schedule=S.Tuned()), backend="native")  # fmt: skip
    assert all(same_bits(f(floats), written(floats)) for _ in range(3))


def test_an_exact_product_may_take_any_way_or_order_of_tiles(clock):
    a = np.arange(256 * 256, dtype=np.int32).reshape(256, 256) % 97
    clock[as_schedule(Row() | Block(128, 256))] = 1.0
    tuned = multiplied(a).tune(a)
    assert tuned.tuning.winners == {"product": Row() | Block(128, 256)}
    assert same_bits(tuned(a), a @ a) and not tuned.tuning.refused


def test_floats_keep_their_digits_until_somebody_asks(clock):
    floats = WHOLE.astype(np.float32)
    table = multiplied(floats).tune(floats).tuning
    assert not table.rows and "inside td.precision(fast=True)" in str(table)
    assert table.before == table.after > 0 and str(table).endswith(" as it is\n")


def test_ways_are_no_schedules():
    with pytest.raises(td.ScheduleError, match="a way to compute a product, but this is not one"):
        summed(TALL).scheduled(total=ProductWay("strassen", 1))
    for wrong in ({"algorithm": "x", "levels": 1, "execution": None}, {"algorithm": None},
                  {"algorithm": None, "levels": 99, "execution": None}):  # fmt: skip
        with pytest.raises((ValueError, KeyError)):
            ProductWay.from_dict(wrong)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("error", [td.ScheduleError("not on this backend"),
                                   RuntimeError("ptxas: too many registers\nmore"),
                                   MemoryError("out of memory")])  # fmt: skip
def test_what_cannot_be_compiled_or_launched_is_told(clock, monkeypatch, error):
    plain = trials.with_schedules

    def failing(program, schedules):
        if schedules.get("total") == Column(64):
            raise error
        return plain(program, schedules)

    monkeypatch.setattr(trials, "with_schedules", failing)
    clock[as_schedule(Column(256))] = 2.0
    table = summed(TALL).tune(TALL).tuning
    assert [r.schedule for r in table.refused] == [Column(64)] and table.winners
    first = str(error).splitlines()[0].rstrip(".")
    assert table.refused[0].why.startswith(f"{type(error).__name__}: {first}")
    assert f"Column(64)  refused: {type(error).__name__}: {first}" in str(table)
    assert "1 refused: Column(64)" in summed(TALL).explain()


def test_another_result_is_refused_loudly(clock, monkeypatch):
    plain = trials.with_schedules

    def wrong(program, schedules):
        made = plain(program, schedules)
        if schedules.get("total") == Column(64):
            execute = made.execute
            made.execute = lambda *a: execute(*a) * 1.5
        return made

    monkeypatch.setattr(trials, "with_schedules", wrong)
    with pytest.warns(RuntimeWarning, match="total under Column.* gives another result"):
        table = summed(TALL).tune(TALL).tuning
    (refusal,) = table.refused
    assert refusal.differs and "900 of 900 elements differ" in refusal.why
    assert Column(64) not in [r.schedule for r in table.rows]


def test_a_program_that_rounds_differently_each_time_is_compared_within_rounding(
    clock, monkeypatch
):
    calls, execute = [], Program.execute

    def wavering(self, data, params=()):
        calls.append(1)
        return execute(self, data, params) * np.float32(1 + (len(calls) % 3) * 1.2e-7)

    monkeypatch.setattr(Program, "execute", wavering)
    clock[as_schedule(Column(256))] = 2.0
    table = summed(TALL).tune(TALL).tuning
    assert not table.refused and table.winners == {"total": Column(256)}


def test_separable_stencils_stay_as_they_are(clock):
    """Under any schedule they round otherwise than without one: one candidate tells that."""

    def mean(w):
        return sum(w[i, j] for i in range(-3, 4) for j in range(-3, 4)) / 49

    a = np.random.default_rng(0).random((100, 300), np.float32)
    program = lowered(lambda a: td.stencil(mean, a, name="blur"), a)
    table = program.tune(a).tuning
    assert len(table.refused) == 1 and table.refused[0].differs and not table.winners
    assert "blur: every schedule has those results: no other is tried" in str(table)


def test_before_and_after_are_of_the_whole_program(clock, monkeypatch):
    """With several operations both are timed once more, interleaved: machines change meanwhile."""

    def both(a):
        return td.sum(a, axis=0, name="x"), td.cumsum(a, axis=0, name="y")

    clock[as_schedule(Column(256))] = 2.0
    monkeypatch.setattr(trials.Session, "before_and_after", lambda self: (
        7.0, 7.0 - len(self.winners)))  # fmt: skip
    table = lowered(both, TALL).tune(TALL).tuning
    assert set(table.winners) == {"x", "y"} and (table.before, table.after) == (7.0, 5.0)


def test_differences_are_told():
    x = np.ones(100, np.float32)
    y = x.copy()
    y[3] += 1e-6
    assert difference([x], [x.copy()]) == ""
    assert "1 of 100 elements differ" in difference([y], [x])
    assert difference([y], [x], rounding(4096)) == ""
    assert "rounding explains" in difference([y + 1], [x], rounding(4096))
    y[3] = np.nan
    assert "some in being finite" in difference([y], [x], rounding(4096))
    assert "int64[2] instead of float32[100]" in difference([np.zeros(2, int)], [x])
    assert "2 results instead of 1" in difference([x, x], [x])
    whole = np.array([1, 2])
    assert "1 of 2" in difference([np.array([1, 3])], [whole], rounding(4096))


# --- runs and budget -------------------------------------------------------------------------


def test_what_is_four_times_as_slow_runs_once(clock):
    clock.update({None: 10.0, as_schedule(Column(64)): 41.0, as_schedule(Column(256)): 39.0})
    summed(TALL).tune(TALL)
    assert clock["calls"].count(as_schedule(Column(64))) == 1
    assert clock["calls"].count(as_schedule(Column(256))) > 1


def test_long_runs_are_few(monkeypatch):
    """A program of seconds: what compiles and runs too long once leaves, others run twice, and so
    often as they are near; the winner and what was run once more."""
    seconds = {None: 3.0, as_schedule(Column(64)): 40.0, as_schedule(Column(256)): 2.0}
    runs, once = [], trials.Runner.once

    def slow(runner):
        found, _ = once(runner)
        runs.append(runner.schedule)
        return found, seconds.get(runner.schedule, 13.0)

    def measure(runner):
        runs.append(runner.schedule)
        runner.times.append(seconds.get(runner.schedule, 13.0))

    monkeypatch.setattr(trials.Runner, "once", slow)
    monkeypatch.setattr(trials.Runner, "measure", measure)
    table = summed(TALL).tune(TALL, budget=1000.0).tuning
    assert table.winners == {"total": Column(256)}
    assert runs.count(as_schedule(Column(64))) == 1
    assert runs.count(Row() | Block(1, 64)) == 2  # 13 s, the best 2 s
    assert runs.count(as_schedule(Column(256))) == 4 and runs.count(None) == 5
    # With less time than a second candidate takes, it is not begun.
    runs.clear()
    table = summed(TALL[:100]).tune(TALL[:100], budget=3.0).tuning
    assert set(runs) == {None} and not table.complete


def test_a_first_run_that_compiles_is_no_measurement(monkeypatch):
    """A kernel for a GPU is compiled when it is launched first: 0.3 s before one of 70 µs."""
    seen, once = [], trials.Runner.once

    def compiling(runner):
        found, _ = once(runner)
        first = runner.schedule is not None and runner.schedule not in seen
        seen.append(runner.schedule)
        return found, 0.4 if first else 1e-4

    monkeypatch.setattr(trials.Runner, "once", compiling)
    table = summed(TALL).tune(TALL).tuning
    assert table.rows and all(r.ms < 200 for r in table.rows)


def test_what_fails_when_it_is_timed_is_refused(clock, monkeypatch):
    measure = trials.Runner.measure

    def failing(runner):
        if runner.schedule == Column(64) and len(runner.times) == 1:
            raise RuntimeError("out of resources")
        measure(runner)

    monkeypatch.setattr(trials.Runner, "measure", failing)
    clock.update({as_schedule(Column(64)): 2.0, as_schedule(Column(256)): 3.0})
    table = summed(TALL).tune(TALL).tuning
    assert [r.why for r in table.refused] == ["RuntimeError: out of resources"]
    assert table.winners == {"total": Column(256)}
    assert Column(64) not in [r.schedule for r in table.rows]


def test_what_takes_longest_comes_first_and_every_operation_has_its_turn(clock, monkeypatch):
    def several(a):
        return (td.cumsum(a[:20], axis=0, name="short"), td.cumsum(a, axis=0, name="long"))

    a = np.zeros((600, 900), np.float32)
    program = lowered(several, a)
    rows = program.tune(a).tuning.rows
    assert list(dict.fromkeys(r.operation for r in rows)) == ["long", "short"]
    # The share of the first is over at once: the second has all that is left.
    tune = trials.Session.tune

    def hasty(self, subject, left, bar):
        tune(self, subject, left, bar)
        self.limit = 0.0

    monkeypatch.setattr(trials.Session, "tune", hasty)
    a = np.zeros((1200, 900), np.float32)
    rows = lowered(several, a).tune(a).tuning.rows
    assert {r.operation for r in rows} == {"long", "short"}


def test_who_wins_by_chance_does_not_win_again(clock, monkeypatch):
    """Of twelve that are alike one is the fastest: it has to be so in new runs, too."""
    clock[as_schedule(Column(256))] = 5.0
    with monkeypatch.context() as later:
        later.setattr(trials.Session, "_confirmed", lambda *_: False)
        table = summed(TALL).tune(TALL).tuning
    assert table.winners == {} and table.after == table.before == 10.0
    session = trials.Session(summed(TALL), (TALL,), 0.0, 1e9)
    best, plain = (session._made({}, s) for s in (as_schedule(Column(256)), None))
    best.times, plain.times = [0.004], [0.010]
    assert session._confirmed(None, best, plain)  # 5 and 10 ms
    clock[None] = 5.0
    best.times, plain.times = [0.004], [0.010]
    assert not session._confirmed(None, best, plain)  # the 4 and 10 ms of before do not count


def test_what_was_cut_short_is_kept_until_somebody_has_more_time(clock, monkeypatch):
    with monkeypatch.context() as short:
        short.setattr(trials.Session, "_no_time", lambda self: len(clock["calls"]) == 3)
        first = summed(TALL).tune(TALL, budget=5.0).tuning
    assert not first.complete and "stopped early" in str(first)
    count = len(clock["calls"])
    again = summed(TALL).tune(TALL, budget=5.0).tuning
    assert again.stored and len(clock["calls"]) == count and "(remembered" in str(again)
    more = summed(TALL).tune(TALL, budget=50.0).tuning
    assert not more.stored and more.complete and len(clock["calls"]) > count


def test_operations_share_the_budget(clock):
    both = lowered(lambda a: (td.sum(a, axis=0, name="x"), td.cumsum(a, axis=0, name="y")), TALL)
    session = trials.Session(both, (TALL,), 0.0, 1e9)
    subject = trials.Subject("x", both.kernels[0], Names(both), [None])
    session.tune(subject, 2, Bar())
    assert session.limit < 0.51e9


# --- the store -------------------------------------------------------------------------------


def test_another_version_measures_anew(clock, monkeypatch):
    summed(TALL).tune(TALL)
    assert summed(TALL).tune(TALL).tuning.stored
    monkeypatch.setattr(td.dsl, "VERSION", "999.0")
    assert not summed(TALL).tune(TALL).tuning.stored


@pytest.mark.sample(1)
@pytest.mark.parametrize("damage", [
    lambda v: v["rows"][1].__setitem__(1, {"version": 1, "order": {"kind": "Spiral"}}),
    lambda v: v["winners"].update(total={"version": 2}),
    lambda v: v["winners"].update(total={"product": {"algorithm": "x"}}),
    lambda v: v["winners"].update(other=v["winners"]["total"]),
    lambda v: v["winners"].update(total={"version": 1, "block": {"kind": "Block",
                                                                "extents": [1, 2, 3, 4, 5, 6]}}),
    lambda v: v["rows"][0].__setitem__(2, float("nan")),
    lambda v: v.update(rows=None),
    lambda v: v.pop("when"),
])  # fmt: skip
def test_what_no_longer_fits_is_measured_anew(clock, own_store, damage):
    """A schedule that no longer parses, one that is illegal now, times that no clock shows."""
    clock[as_schedule(Column(256))] = 2.0
    summed(TALL).tune(TALL)
    (path,) = own_store.iterdir()
    document = json.loads(path.read_text(encoding="utf-8"))
    damage(document["value"])
    store.put(document["key"], document["value"])
    shown = summed(TALL, S.Tuned()).explain()
    assert "nothing was measured for such extents" in shown
    table = summed(TALL).tune(TALL).tuning
    assert not table.stored and table.winners == {"total": Column(256)}


def test_a_device_that_was_not_measured_or_whose_ceilings_are_damaged(clock):
    from treadle.skeletons.model import device

    clock[as_schedule(Column(256))] = 2.0
    store.put(device.key("native", []), {"name": "a CPU"}, device.FOLDER)
    assert summed(TALL).tune(TALL).tuning.winners == {"total": Column(256)}


def test_two_processes_write_whole_entries(own_store):
    code = (
        "import sys\n"
        "from treadle.skeletons import store\n"
        "for i in range(150):\n"
        "    store.put('same', [sys.argv[1], i] * 500)\n"
        "    found = store.get('same')\n"
        "    assert found is not None and found == found[:2] * 500, found\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [w.wait(60) for w in writers] == [0, 0]
    assert [p.name for p in own_store.iterdir()] == ["same.json"]
