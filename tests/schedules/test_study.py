"""The study of schedules: its programs are what they say, its controls have the same block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle as td

ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture(autouse=True)
def benchmarks_importable(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def test_every_program_has_its_operation_and_nothing_else_decides():
    from benchmarks.schedules import programs, study

    assert len(programs.STUDY) >= 24 and len(study.schedules()) >= 20
    for case in programs.STUDY:
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
    from benchmarks.schedules.study import Measured, Result, table

    made = Result("a program", "reuse", {
        "Row()": Measured(4.0, 5.0, 2.0), "default": Measured(1.5, 5.0, 1.5),
        "Auto()": Measured(2.0, 5.0), "Column(8)": Measured(2.0, 5.0, 1.0),
        "Row() | Block(8, 32)": Measured(3.0, 5.0, 1.8),
        "Column(64) | Block(8, 32)": Measured(1.0, 5.0, 0.9, same=False),
    })  # fmt: skip
    assert made.best == "Column(64) | Block(8, 32)" and made.gain == 3.0
    assert made.auto == 2.0
    assert made.rank == pytest.approx(0.9)
    about = {"date": "today", "device": {"gpu": "a GPU", "driver": "1", "cuda": 2}, "dirty": False,
             "versions": {"treadle": "0"}, "commit": "abc"}  # fmt: skip
    text = table([made], about)
    assert "`Column(64) \\| Block(8, 32)`" in text
    assert "but: a program under `Column(64) | Block(8, 32)`" in text
