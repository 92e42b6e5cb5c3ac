"""The study of schedules: its programs are what they say, its controls have the same block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.dsl.target import CUDA
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.lower.lower import LoweringContext, lower

ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture(autouse=True)
def benchmarks_importable(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def test_every_program_has_its_operation_and_nothing_else_decides():
    from benchmarks.schedules import programs, study, unseen

    assert len(programs.STUDY) >= 24 and len(study.schedules()) >= 20
    names = [c.name for c in (*programs.STUDY, *unseen.UNSEEN)]
    assert len(set(names)) == len(names)
    for case in (*programs.STUDY, *unseen.UNSEEN):
        function, args = case.build(lambda extent: max(extent // 256, 16))
        lowered = td.jit(function, backend="reference").lower(*args)
        assert study.operation(lowered).label.name == "op", case.name


def test_orders_change_no_bit_of_a_program_of_each_kind():
    from benchmarks.schedules import programs

    for kind in ("stores", "reuse", "gather"):
        case = next(c for c in programs.STUDY if c.kind == kind)
        function, args = case.build(lambda extent: max(extent // 256, 16))
        base = td.jit(function, backend="native").lower(*args)
        row, other = (
            base.scheduled(op=s)(*args) for s in (td.schedule.Row(), td.schedule.Column(8))
        )
        np.testing.assert_array_equal(row, other)


def test_controls():
    from benchmarks.schedules import study

    names = study.schedules()
    for name in names:
        assert study.control(name) in names
    assert study.control("Column(64) | Block(8, 32)") == "Row() | Block(8, 32)"
    assert study.control("Hilbert()") == "Row()"


def test_what_is_said_of_a_result():
    from benchmarks.schedules import summary
    from benchmarks.schedules.study import Measured, Result

    made = Result("a program", "reuse", {
        "Row()": Measured(4.0, 5.0, 2.0), "default": Measured(1.5, 5.0, 1.5),
        "Auto()": Measured(2.0, 5.0), "Column(8)": Measured(2.0, 5.0, 1.0),
        "Row() | Block(8, 32)": Measured(3.0, 5.0, 1.8),
        "Column(64) | Block(8, 32)": Measured(1.0, 5.0, 0.9, same=False),
    })  # fmt: skip
    assert made.best == "Column(64) | Block(8, 32)" and made.gain == 3.0
    assert made.auto == 2.0
    assert made.rank == pytest.approx(0.9)
    assert summary.against_row(made) == 2.0 and summary.against_row(made, cold=True) == 1.0
    # Predicted fastest: 0.9 (1.0), 1.0 (2.0), 1.5 (1.5): the first is the fastest of all.
    assert summary.best_timed(made) == 1.0
    made.measured["Column(64) | Block(8, 32)"].predicted = 9.0
    assert summary.best_timed(made) == 1.5
    made.measured["Column(64) | Block(8, 32)"].predicted = 0.9
    about = {"title": "A study", "date": "today",
             "device": {"gpu": "a GPU", "driver": "1", "cuda": 2}, "dirty": False,
             "versions": {"treadle": "0"}, "commit": "abc"}  # fmt: skip
    text = summary.table([made], about)
    assert "`Column(64) \\| Block(8, 32)`" in text
    assert "but: a program under `Column(64) | Block(8, 32)`" in text


def test_ties_pairs_and_errors():
    from benchmarks.schedules import ranks, study

    assert ranks.levels([1.03, 1.0, 1.019, 2.0]) == [1, 0, 0, 2]
    pairs = [(1.0, 1.0), (1.5, 1.01), (2.0, 3.0), (1.8, 4.0)]
    assert ranks.ordered(pairs) == (4, 5)  # the first two are a tie, the last two the wrong way
    assert ranks.correlation(pairs[:3]) is None
    near = [(1.0, 1.01), (1.01, 1.0), (2.0, 3.0), (3.0, 2.0)]
    assert ranks.correlation(near, tied=False) == pytest.approx(0.6)
    assert ranks.correlation(near) == pytest.approx(7 / 9)  # the first two are a tie
    result = study.Result(
        "", "", {str(k): study.Measured(t, t, p) for k, (p, t) in enumerate(near)}
    )
    assert result.spread == 3.0 and result.untied == pytest.approx(0.6)
    assert study.middle_half([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0
    assert ranks.error([(1.0, 2.0), (4.0, 2.0)]) == pytest.approx(1.0)
    shares = np.array(ranks.relative([(1.0, 2.0), (4.0, 8.0)]))
    np.testing.assert_allclose(shares, [(0.5, 0.5), (2.0, 2.0)])


def test_hopeless_schedules_are_measured_once():
    from benchmarks.schedules import study

    class Clock:
        backend = "cuda"

        def sample(self, name, run, calls):
            return run()

    found = {"fast": 0.002, "slow": 0.009, "short": 1e-4}
    calls = dict.fromkeys(found, 0)

    def run(name):
        calls[name] += 1
        return found[name]

    runs = {n: lambda n=n: run(n) for n in ("fast", "slow")}
    samples, slow = study.timed(runs, Clock(), 0.01)
    assert slow == {"slow"} and samples["slow"] == [0.009] and calls["slow"] == 1
    assert len(samples["fast"]) >= 5
    quick = {n: lambda n=n: run(n) / 100 for n in found}  # all below LONG: nothing is cut
    assert study.timed(quick, Clock(), 0.001)[1] == set()


def test_counters_are_read_by_kernel():
    from benchmarks.schedules import traffic

    names = [n for counters in traffic.COUNTERS.values() for n in counters]
    head = '==PROF== begins\n"ID","Kernel Name","Metric Name","Metric Value"\n'
    log = head + "".join(f'"{k}","op","{name}","1,{k}00"\n' for k in (0, 1) for name in names)
    first, second = map(traffic.counted, traffic.metrics_of(log))
    assert first["L1 sectors"] == 1000 and second["L1 sectors"] == 1100
    assert first["DRAM sectors"] == 2000 and first["time, ms"] == pytest.approx(1e-3)
    assert traffic.metrics_of("nothing\n") == []
    assert len(traffic.table([("a", "Row()", first), ("a", "Column(8)", second)])) == 4
    for name, _, _, schedules in traffic.works(["transposition"]):
        assert name.startswith("transposition") and len(schedules) == 3


def test_orders_alone_have_the_row_order_of_as_many_threads_for_a_control():
    """… whose kernels read, compute and write the same things in the same loops."""
    from benchmarks.schedules import reorder

    def body(case, schedule):
        made = case.function(*[td.use(np.zeros((4, 4), np.float32))] * case.arrays)
        context = LoweringContext(target=CUDA, schedule=schedule)
        (kernel,) = lower(made._leaves[0].node, context).kernels
        done = [
            s
            for s in ir.statements(kernel.body)
            if isinstance(s, ir.For | ir.LoadVector | ir.Assign | ir.Store | ir.StoreVector)
        ]
        return kernel.threads, [(type(s), getattr(s, "step", 0)) for s in done]

    for case in reorder.CASES:
        for row, group in case.groups.items():
            assert next(iter(group)) == row and row.startswith("Row() | Block(")
            control = body(case, group[row])
            for schedule in group.values():
                elements = np.prod(schedule.block.extents)
                assert elements == np.prod(group[row].block.extents)
                assert schedule.per_thread == group[row].per_thread
                assert body(case, schedule) == control
    case = reorder.CASES[0]
    times = {row: {n: float(k) for k, n in enumerate(group)} for row, group in case.groups.items()}
    larger = reorder.larger(case, times)
    assert larger.extent == 2 * case.extent
    assert all(len(g) == 1 + reorder.KEPT for g in larger.groups.values())


# --- what was measured, and what the model says of it ------------------------------------------


@pytest.fixture(scope="module")
def measured():
    from benchmarks.schedules import pages, study

    return study.read(pages.newest("schedules-gpu"))


def test_the_study_is_large_and_orders_changed_no_bit(measured):
    results, about = measured
    assert about["backend"] == "cuda" and len(results) >= 24
    assert sum(len(r.measured) >= 20 for r in results) >= 24
    for r in results:
        assert all(m.same for n, m in r.measured.items() if n not in ("default", "Auto()"))
        assert {"Row()", "default", "Auto()"} <= set(r.measured)


def test_what_is_done_unasked_is_near_the_fastest_and_never_slower_than_rows(measured):
    from benchmarks.schedules.ranks import geometric

    results, _ = measured
    lost = {r.program: r.measured["default"].warm / min(m.warm for m in r.measured.values())
            for r in results}  # fmt: skip
    assert geometric([*lost.values()]) <= 1.05 and max(lost.values()) <= 1.15, lost
    for r in results:  # measured twice: `Auto()` is what saying nothing is
        unasked = min(r.measured[n].warm for n in ("default", "Auto()"))
        assert r.measured["Row()"].warm >= 0.98 * unasked, r.program


@pytest.mark.long
def test_the_model_ranks_what_was_measured(measured, monkeypatch, tmp_path):
    """Of every kind one or two programs, predicted here with the shipped ceilings of the device;
    all of them: `python -m benchmarks.schedules.pages --predict`.

    Not sums along axis 0, whose ranks depend on the card, and the Mandelbrot set."""
    import dataclasses

    from benchmarks.schedules import pages, ranks

    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    names = ("√(x² + 1)", "transposition", "transposition by permute", "3×3", "9×9",
             "27-point 3-D stencil", "A·B", "Aᵀ·B", "A·Bᵀ", "all distances",
             "gather of rows")  # fmt: skip
    results = [dataclasses.replace(r, measured={n: dataclasses.replace(m)
                                                for n, m in r.measured.items()})
               for r in measured[0] if r.program in names]  # fmt: skip
    assert len(results) == len(names)
    pages.predict(results, "cuda")
    pairs = [p for r in results for p in r.predicted]
    counted = [ranks.ordered(r.predicted) for r in results]
    right, apart = (sum(x) for x in zip(*counted, strict=True))
    assert ranks.error(pairs) <= 0.12
    assert ranks.correlation(pairs) >= 0.97
    assert right / apart >= 0.92
    for r in results:
        assert ranks.correlation(r.predicted) >= 0.85, r.program


def test_levels_are_predicted_by_the_model_of_now():
    """What stands in the results is what would be written: the model has not moved on since."""
    import json

    from benchmarks.schedules import levels, pages

    about = json.loads(pages.newest("levels-gpu").read_text(encoding="utf-8"))
    mine = [r for r in about["results"] if r["program"] == "gather of rows"]
    shown = levels.predicted("gather of rows", [r["schedule"] for r in mine])
    for r in mine:
        assert shown[r["schedule"]] == pytest.approx(r["predicted"], rel=1e-6), r["schedule"]
    made = {"predicted": {**mine[0]["counted"]}, "counted": mine[0]["counted"], "program": "one"}
    twice = {**made, "predicted": {k: 2 * v for k, v in made["predicted"].items()}}
    assert levels.table([made])[-1] == "| all | 1 | 0% | 0% | 0% | 0% | 1.00 |"
    assert levels.table([twice])[-1] == "| all | 1 | 100% | 100% | 100% | 0% | 2.00 |"


def test_auto_is_what_is_done_without_a_schedule():
    """Also where treadle recognises something: a box is summed one axis after the other."""
    from benchmarks.schedules import pages, programs

    case = next(c for c in programs.STUDY if "box" in c.name)
    base = pages.lowered(case, "cuda")
    texts = [program.source("cuda").replace("Auto()", "default")
             for program in (base, base.scheduled(op=td.schedule.Auto()))]  # fmt: skip
    assert texts[0] == texts[1]
    assert base.scheduled(op=td.schedule.Row()).source("cuda") != texts[0]


def test_the_pages_have_the_numbers_of_the_results():
    from benchmarks.schedules import pages

    for page in dict.fromkeys(page for page, _ in pages.PARTS.values()):
        text = page.read_text(encoding="utf-8")
        assert pages.written(page, text) == text, "run python -m benchmarks.schedules.pages"


def test_a_study_of_a_gpu_that_is_not_there(monkeypatch):
    from benchmarks.schedules import study

    monkeypatch.setattr(td, "backends", lambda: {"cuda": "unavailable: no driver"})
    with pytest.raises(SystemExit, match="measures a GPU, and the backend cuda is unavailable"):
        study.main(["--backend", "cuda", "--tiny"])
