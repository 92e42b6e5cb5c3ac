"""Tuning: what is tried, what is chosen, what is remembered.  Times are made up, for certainty."""

from __future__ import annotations

import json
import re
import threading

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graphs.names import Names
from treadle.skeletons import store
from treadle.skeletons.schedules import Block, Column, Row, as_schedule
from treadle.tuning import trials, tune as tuning
from treadle.tuning.candidates import tunable
from treadle.tuning.memory import key_of
from treadle.tuning.table import Timing, TuningTable, _code, fewest
from treadle.tuning.trials import difference, on_host
from treadle.tuning.tune import candidates, extents_class, tune

A = np.linspace(0, 1, 64 * 300, dtype=np.float32).reshape(64, 300)


def same_bits(a, b):
    """Whether two results are equal in all bits, NaN included."""
    return difference(on_host(a), on_host(b)) == ""


def subjects(program):
    """The address of every kernel that can be tuned, with the extents of its domain if known."""
    return {address: extents for address, _, extents in tunable(Names(program))}


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    return tmp_path / "tuning"


def program(a=A, backend="reference"):
    def blurred(a):
        b = td.stencil(lambda w: w[0, 1] + w[1, 0], a, name="blur")
        return td.sum(b), td.transpose(b) * 2

    return td.jit(blurred, backend=backend).lower(a)


@pytest.fixture
def clock(monkeypatch):
    """Made-up milliseconds by schedule; the calls are counted."""
    times: dict = {None: 10.0}
    calls: list = []

    def measure(runner):
        calls.append(runner.schedule)
        runner.times.append(times.get(runner.schedule, 11.0) / 1e3)

    monkeypatch.setattr(trials.Runner, "measure", measure)
    times["calls"] = calls
    return times


# --- candidates ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "native", "cuda"])
@pytest.mark.parametrize("extents", [(1, 1), (64, 300), (4096, 4096), (3, 64, 64), (None, None)])
def test_candidates_fit(backend, extents):
    found = candidates(backend, extents)
    assert found[0] == Row() and len(set(found)) == len(found) <= 25
    for schedule in found:
        schedule.resolve(len(extents))
        assert eval(_code(schedule), {"td": td}) == schedule
    if extents[-1] == 4096:
        assert Column(64) in found and Column(256) in found


def test_subjects_are_addressed_by_name_or_number():
    every = {"blur": (64, 300), "#2": (64 * 300,), "#3": (300, 64), "#4": (300, 64)}
    assert subjects(program()) == every
    assert list(subjects(program(backend="native"))) == ["#2", "#4"]
    p = td.jit(lambda a: a[0] + 1, backend="reference").lower(A)
    assert subjects(p) == {}
    assert "nothing to tune" in str(p.tune(A).tuning)


def test_numbers_address_operations():
    changed = program().scheduled(**{"#4": Row(), "blur": Column(64)})
    labels = {n.label.operation: n.label.schedule for n in changed.kernels}
    assert labels["stencil"] == Column(64) and labels["multiply"] == Row()
    with pytest.raises(td.TracingError, match="#99"):
        program().scheduled(**{"#99": Row()})


# --- choosing --------------------------------------------------------------------------------


def test_the_fastest_is_chosen(clock):
    clock.update({as_schedule(Column(64)): 4.0, as_schedule(Column(256)): 5.0})
    tuned = program().tune(A, progress=False)
    table = tuned.tuning
    assert table.winners["blur"] == Column(64)
    assert table.before == 10.0
    assert {r.operation for r in table.rows} == {"blur", "#3", "#4"}
    assert [n.label.schedule for n in tuned.kernels if n.label.name == "blur"] == [Column(64)]
    text = str(table)
    assert "as it was" in text and "best" in text and table.best in text
    again = eval(table.best, {"program": program(), "td": td})
    assert str(again) == str(tuned) or len(again.kernels) == len(tuned.kernels)
    assert same_bits(tuned(A), program()(A))


def test_a_small_gain_changes_nothing(clock):
    clock[as_schedule(Column(64))] = 9.9
    assert program().tune(A).tuning.winners == {}


def test_the_slow_half_leaves(clock):
    clock[as_schedule(Column(64))] = 1.0
    program().tune(A)
    counts = {s: clock["calls"].count(s) for s in clock["calls"]}
    assert counts[as_schedule(Column(64))] > min(counts.values())


def test_real_times_on_the_native_backend():
    tuned = program(backend="native").tune(A, budget=5, progress=False)
    assert tuned.tuning.rows and all(r.ms > 0 for r in tuned.tuning.rows)
    assert same_bits(tuned(A), program(backend="native")(A))


def test_a_compiled_function_can_be_tuned(clock):
    clock[as_schedule(Column(64))] = 1.0
    f = td.jit(lambda a: td.stencil(lambda w: w[0, 1], a), backend="reference")
    tuned = f.tune(A, progress=False)
    assert [k.label.schedule for k in tuned.lower(A).kernels] == [Column(64)]
    assert tuned.tuning.winners == {"#1": Column(64)}
    np.testing.assert_array_equal(tuned(A), f(A))


def test_what_the_backend_refuses_or_computes_differently_is_left_out(clock, monkeypatch):
    plain = trials.with_schedules

    def strange(program, schedules):
        chosen = schedules.get("blur")
        if chosen == Column(64):
            raise td.ScheduleError("not on this backend")
        made = plain(program, schedules)
        if chosen == Column(256):
            execute = made.execute
            made.execute = lambda *a: (execute(*a)[0] + 1, execute(*a)[1])
        return made

    clock.update({as_schedule(Column(64)): 1.0, as_schedule(Column(256)): 1.0})
    monkeypatch.setattr(trials, "with_schedules", strange)
    rows = [r.schedule for r in program().tune(A).tuning.rows if r.operation == "blur"]
    assert Column(64) not in rows and Column(256) not in rows and Row() in rows


def test_interruption_keeps_the_best(clock, monkeypatch, own_store):
    clock[as_schedule(Column(64))] = 4.0
    measure, calls = trials.Runner.measure, clock["calls"]

    def interrupted(runner):
        if len(calls) == 5:
            raise KeyboardInterrupt
        measure(runner)

    monkeypatch.setattr(trials.Runner, "measure", interrupted)
    tuned = program().tune(A, progress=False)
    assert tuned.tuning.winners == {"blur": as_schedule(Column(64))} and not tuned.tuning.complete
    assert "stopped early" in str(tuned.tuning)
    assert not own_store.exists() or not list(own_store.iterdir())


def test_the_budget_ends_it(clock):
    table = program().tune(A, budget=1e-9).tuning
    assert not table.complete


@pytest.mark.parametrize("options", [{"budget": 0}, {"keep": 0}, {"tolerance": 1.0}])
def test_options_are_checked(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        tune(program(), (A,), **options)


def test_bits():
    nan = np.array([np.nan, 1.0])
    assert same_bits({"a": (nan, [nan])}, {"a": (nan.copy(), [nan.copy()])})
    assert not same_bits(np.array([0.0]), np.array([-0.0]))
    assert not same_bits(np.array([0.0]), np.array([0.0], np.float32))


# --- remembering -----------------------------------------------------------------------------


def test_the_second_time_answers_from_the_store(clock):
    clock[as_schedule(Column(64))] = 4.0
    first = program().tune(A)
    count = len(clock["calls"])
    second = program().tune(A)
    assert len(clock["calls"]) == count and second.tuning.stored
    assert second.tuning.winners == first.tuning.winners
    assert second.tuning.rows == first.tuning.rows
    assert "remembered" in str(second.tuning)


def test_the_key_is_of_program_extents_and_backend(clock):
    program().tune(A)

    def measured(*args):
        count = len(clock["calls"])
        program(*args).tune(args[0] if args else A)
        return len(clock["calls"]) > count

    assert not measured(A[:60, :290])  # the same powers of two
    assert measured(np.zeros((128, 300), np.float32))
    assert measured(A.astype(np.float64))
    assert measured(A, "native")


def test_extents_classes():
    assert extents_class((1, 2, 3, 4, 5, 1024, 1025)) == (0, 1, 2, 2, 3, 10, 11)


def test_damaged_entries_are_dropped(clock, own_store):
    def program():
        blurred = td.jit(lambda a: td.stencil(lambda w: w[0, 1], a), backend="reference")
        return blurred.lower(A)

    program().tune(A)
    (path,) = own_store.iterdir()
    text = path.read_text(encoding="utf-8")
    for damage in ("", text[: len(text) // 2], text.replace("10.0", "99.0"), "[]", "{}"):
        path.write_text(damage, encoding="utf-8")
        count = len(clock["calls"])
        program().tune(A)
        assert len(clock["calls"]) > count
        assert json.loads(path.read_text(encoding="utf-8"))["format"] == store.FORMAT
    document = json.loads(path.read_text(encoding="utf-8"))
    store.put(document["key"], {"rows": 3})
    assert not program().tune(A).tuning.stored


def test_a_store_that_cannot_be_used_is_no_store(clock, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="TREADLE_CACHE_DIR=.* cannot be used"):
        assert program().tune(A).tuning.rows
    assert store.get("x") is None


def test_concurrent_writers_leave_whole_entries():
    wrong = []

    def work(k):
        for i in range(30):
            store.put("same", [k, i] * 1000)
            value = store.get("same")
            if value is None or value != value[:2] * 1000:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_tables_round_trip():
    s = as_schedule(Column(64) | Block(8, 32))
    table = TuningTable([Timing("a", None, 2.0), Timing("a", s, 1.0)], {"a": s}, 2.0, 1.0)
    again = TuningTable.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again.rows == table.rows and again.winners == table.winners and again.stored
    assert table.best == "program.scheduled(a=td.schedule.Column(64) | td.schedule.Block(8, 32))"


def stencilled(a, schedule=None):
    return td.jit(
        lambda a: td.stencil(lambda w: w[0, 1] + w[1, 0], a, name="blur", schedule=schedule),
        backend="native",
    ).lower(a)


def test_tuned_takes_what_was_measured():
    """`Tuned()` finds what `tune` stored for the program without it; until then it is `Auto`."""
    asked = stencilled(A, td.schedule.Tuned())
    assert "nothing was measured for such extents" in asked.explain()
    winner = as_schedule(Row() | Block(16, 256))
    table = TuningTable([Timing("blur", None, 10.0), Timing("blur", winner, 4.0)],
                        {"blur": winner}, 10.0, 4.0)  # fmt: skip
    name = key_of(stencilled(A), (A,))
    assert name == key_of(asked, (A,)) != key_of(stencilled(A, Row()), (A,))
    store.put(name, table.to_dict())
    tuned = stencilled(A, td.schedule.Tuned())
    assert same_bits(tuned(A), stencilled(A)(A))
    (step,) = tuned.executable.kernel_steps
    assert [key[-1] for key in step.variants] == [winner]
    assert "measured 4 ms, 10 ms without a schedule (remembered)" in tuned.explain()
    large = np.zeros((300, 300), np.float32)
    tuned(large)  # another class of extents: as Auto, which has nothing to choose here
    assert step.choosing(lambda slot: large.shape) is None
    assert tuned.tune(A).tuning.stored


def test_the_model_says_what_is_tried():
    """For a loop, blocks of several rows come first; never more than so many."""
    b = np.zeros((400, 500), np.float32)

    def product(a, b):
        return td.generate((64, 500), lambda i, j: td.loop(
            400, lambda k, s: s + a[i, k % 300] * b[k, j], td.float32(0)))  # fmt: skip

    p = td.jit(product, backend="native").lower(A, b)
    ((_, options),) = [(s.operation, s.options) for s in tuning._work(p, (A, b))]
    assert options[:2] == [None, as_schedule(Row())] and len(options) <= 2 + tuning.MOST
    assert options[2].per_thread is not None
    assert len(set(options)) == len(options)


# --- fewer kernels ---------------------------------------------------------------------------


def test_no_tolerance_takes_every_winner():
    a, b = as_schedule(Row()), as_schedule(Column(64))
    times = {"x": {a: 1.0, b: 1.01}, "y": {a: 2.0, b: 1.0}}
    assert fewest(times, 10, 0.0) == {"x": a, "y": b}
    assert fewest(times, 10, 0.15) == {"x": b, "y": b}
    assert fewest(times, 1, 0.15) == {"x": a, "y": b}


def test_the_times_are_before_and_after(clock):
    clock[as_schedule(Row())] = 4.0
    p = td.jit(lambda a: td.stencil(lambda w: w[0, 1], a), backend="reference").lower(A)
    table = p.tune(A).tuning
    assert (table.before, table.after) == (10.0, 4.0)


def test_more_tolerance_never_loses_more_than_it_says():
    rng = np.random.default_rng(3)
    names = [as_schedule(Column(w)) for w in range(1, 12)]
    times = {str(p): {s: float(rng.uniform(1, 1.4)) for s in names} for p in range(15)}
    sizes = []
    for tolerance in (0.0, 0.05, 0.10, 0.15, 0.25):
        chosen = fewest(times, 10, tolerance)
        for point, s in chosen.items():
            best = min(times[point].values())
            assert best / times[point][s] >= 1 - tolerance - 1e-12
        sizes.append(len(set(chosen.values())))
    assert sizes[-1] < sizes[0]


def test_tune_reduces_the_schedules_of_a_program(clock, monkeypatch):
    clock.update({as_schedule(Column(64)): 4.0, as_schedule(Row()): 4.1})
    tuned = program().tune(A, keep=10, tolerance=0.15)
    assert len(set(tuned.tuning.winners.values())) == 1


def test_the_fewest_are_found():
    """The most frequent first would take three here; two are enough."""
    s = [as_schedule(Column(w)) for w in (1, 2, 3)]
    points = {"a": (s[0], s[1]), "b": (s[0], s[1]), "c": (s[0], s[2]), "d": (s[0], s[2]),
              "e": (s[1],), "f": (s[2],)}  # fmt: skip
    times = {p: dict.fromkeys(found, 1.0) for p, found in points.items()}
    assert set(fewest(times, 10, 0.0).values()) == {s[1], s[2]}
    assert fewest({}, 10, 0.0) == {}


# --- words, pictures, and machines that are not here ------------------------------------------


def test_a_table_is_drawn(clock):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    clock.update({as_schedule(Column(64)): 4.0})
    table = program().tune(A, progress=False).tuning
    axes = table.plot()
    assert len(axes.patches) == len(table.rows)
    texts = [label.get_text() for label in axes.get_yticklabels()]
    assert texts[0] == "blur: Column(64)" and "blur: as it was" in texts
    pyplot.close(axes.figure)
    empty = TuningTable([], {}, 0.0, 0.0)
    assert "nothing to tune: no kernel has another schedule" in str(empty)
    with pytest.raises(td.ScheduleError, match="nothing to draw: nothing to tune"):
        empty.plot()


@pytest.mark.parametrize("options", [{"budget": "x"}, {"keep": 1.5}, {"tolerance": "much"}])
def test_options_of_another_type(options):
    with pytest.raises(td.ScheduleError, match=r"tune: \w+ is a "):
        program().tune(A, **options)


def test_text_for_a_gpu_that_is_not_here_is_as_auto():
    p = td.jit(lambda x: td.map(lambda y: y + 1, x, schedule=td.schedule.Tuned()), backend="native")
    lowered = p.lower(A)
    assert "nothing was measured for such extents" in lowered.explain("cuda")
    assert "__global__" in lowered.source("cuda")


def test_what_is_as_auto_names_what_was_chosen():
    def product(a, b):
        def element(i, j):
            return td.loop(512, lambda k, s: s + a[i, k] * b[k, j], td.float32(0))

        return td.generate((512, 512), element, schedule=td.schedule.Tuned())

    b = np.zeros((512, 512), np.float32)
    shown = td.jit(product, backend="native").lower(b, b).explain()
    assert re.search(r"Tuned\(\); Row\(\) \| Block\(.*\) \| PerThread\(rows=8\) was chosen", shown)
    assert "nothing was measured for such extents (program.tune): as Auto()\n" in shown
    assert "  without a schedule\n" in shown and "Tuned()\n" not in shown


class Upwards(td.schedule.Order):
    def coordinates(self, i, shape):
        return shape[0] - 1 - i // shape[1], i % shape[1]


Upwards.__module__ = "__main__"  # of a script or a notebook: no other process can import it


def test_a_program_with_an_order_of_a_script_is_tuned_and_may_be_tuned_itself(clock):
    def program(x):
        up = td.map(lambda v: v * 2, x, schedule=Upwards())
        return td.stencil(lambda w: w[0, 1] + w[1, 0], td.compute(up), name="blur")

    clock[Column(64)] = 3.0
    lowered = td.jit(program, backend="reference").lower(A)
    assert lowered.tune(A, progress=False).tuning.rows
    assert lowered.tune(A, progress=False).tuning.stored
    by_itself = lowered.scheduled(blur=td.schedule.Tuned())
    assert same_bits(by_itself(A), lowered(A)) and "blur" in by_itself.explain()


def test_stopping_before_anything_was_timed(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_work", stop)
    found = program().tune(A)
    assert not found.tuning.rows and "nothing was timed" in str(found.tuning)
    assert same_bits(found(A), program()(A))


def test_a_misspelt_option():
    with pytest.raises(td.TracingError, match="tune has no argument 'bugdet'") as error:
        program().tune(A, bugdet=3)
    assert "Did you mean budget" in str(error.value) and "program" not in str(error.value.hint)
