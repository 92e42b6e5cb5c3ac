"""The runner of benchmarks/npbench, on a clone that is made up here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

DESCRIPTION = {
    "relative_path": "made/gemm",
    "module_name": "gemm",
    "func_name": "kernel",
    "parameters": {"S": {"n": 7}},
    "init": {
        "func_name": "initialize",
        "input_args": ["n"],
        "output_args": ["alpha", "beta", "C", "A", "B"],
    },
    "input_args": ["alpha", "beta", "C", "A", "B"],
    "array_args": ["C", "A", "B"],
    "output_args": ["C"],
}
DATA = """
import numpy as np

def initialize(n):
    return 1.5, 0.5, np.eye(n), np.arange(n * n * 1.0).reshape(n, n), np.ones((n, n))
"""
RIGHT = """
def kernel(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C
"""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Runs the command on a clone with this NumPy version; returns its status and the entries."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.npbench import __main__ as command
    from benchmarks.npbench.results import read

    def run(version: str, *options: str):
        folder = tmp_path / "clone" / "npbench" / "benchmarks" / "made" / "gemm"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gemm.py").write_text(DATA, encoding="utf-8")
        (folder / "gemm_numpy.py").write_text(version, encoding="utf-8")
        (tmp_path / "clone" / "npbench" / "__init__.py").touch()
        (tmp_path / "clone" / "bench_info").mkdir(exist_ok=True)
        (tmp_path / "clone" / "bench_info" / "gemm.json").write_text(
            json.dumps({"benchmark": DESCRIPTION}), encoding="utf-8"
        )
        out = tmp_path / "out.json"
        status = command.main(
            ["--clone", str(tmp_path / "clone"), "--preset", "S", "--out", str(out), *options]
        )
        return status, {e.framework: e for e in read(out).entries}

    return run


def test_a_right_result_is_timed(measured, tmp_path):
    status, entries = measured(RIGHT, "--frameworks", "numpy,native")
    assert status == 0
    assert {e.status for e in entries.values()} == {"ok"}
    best = entries["native"].best
    assert best.right and best.error < 1e-12 and 0 < best.median < best.first
    assert "native over NumPy" in (tmp_path / "out.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_wrong_result_does_not_count(measured):
    status, entries = measured(RIGHT.replace("+ beta", "- beta"), "--frameworks", "numpy,native")
    assert status == 1
    assert entries["native"].status == "wrong"
    assert entries["native"].seconds is None


@pytest.mark.long
def test_a_time_limit_ends_a_program(measured):
    slow = "import time\n" + RIGHT.replace("    C[:]", "    time.sleep(60)\n    C[:]")
    _, entries = measured(slow, "--frameworks", "numpy,native", "--time-limit", "3")
    assert entries["numpy"].status == "timeout"
    # Nobody could check treadle's result: it counts, and says so.
    assert entries["native"].best.right is None


def test_a_spent_budget_skips_programs(measured):
    status, entries = measured(RIGHT, "--frameworks", "numpy,native", "--budget", "1")
    assert status == 0
    assert {e.status for e in entries.values()} == {"skipped"}


@pytest.mark.long
def test_a_run_that_was_cut_off_goes_on(measured, tmp_path):
    both = ("--frameworks", "numpy,native")
    again = (*both, "--resume", str(tmp_path / "out.json"))
    measured(RIGHT, *both, "--budget", "1")
    _, first = measured(RIGHT, *again)
    assert {e.status for e in first.values()} == {"ok"}
    _, second = measured(RIGHT, *again)  # nothing is left to do
    assert second == first
    with pytest.raises(SystemExit, match="name the same"):
        measured(RIGHT, *again[2:], "--frameworks", "numpy")


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="chooses cores as Linux does")
def test_parts_of_the_machine_measure_side_by_side(measured, tmp_path):
    before = os.sched_getaffinity(0)
    status, entries = measured(RIGHT, "--frameworks", "numpy,native", "--parts", "2")
    assert status == 0
    assert {e.status for e in entries.values()} == {"ok"}
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["parts"] == 1
    assert not list(tmp_path.glob("out.part*"))
    assert os.sched_getaffinity(0) == before
    with pytest.raises(SystemExit, match="neither --only"):
        measured(RIGHT, "--parts", "2", "--only", "gemm")


def test_what_is_no_clone_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.npbench import __main__ as command

    with pytest.raises(SystemExit, match="no clone of NPBench"):
        command.main(["--clone", str(tmp_path)])


def test_every_program_takes_its_arguments_by_position(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.npbench.registry import Program, load

    programs = load()
    assert len(programs) == 54
    double = Program("double", lambda n, x: x * n, ("n",))
    bound, kept = double.bind([3, 5])
    assert kept == [1] and bound(5) == 15
    with pytest.raises(TypeError, match="takes 2 arguments, NPBench has 1"):
        double.bind([3])
