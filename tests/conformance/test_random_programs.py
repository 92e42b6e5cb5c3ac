"""Random programs over the whole public API: a few at every run, many in `make test-long`.

`python -m tests.conformance.fuzz` runs more, and prints a failing program as a script.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import treadle as td

from .fuzz import GENERATED, NOT_GENERATED, Line, Manner, Program, campaign, draw, judge, shrink
from .helpers import boundary_index

SEED = 1


def report(summary) -> str:
    return "\n\n".join(f.report(summary.backend) for f in summary.failures)


def test_random_programs(backend, request):
    emulated = "emulated" in request.keywords
    count = 3 if emulated else 20
    summary = campaign(backend, count, SEED, emulated=emulated, most=3)
    assert not summary.failures, report(summary)
    assert summary.kinds.total() == count


@pytest.mark.long
def test_many_random_programs(backend, request):
    emulated = "emulated" in request.keywords
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    batch = 16 if backend == "cuda" and not emulated else 1
    summary = campaign(backend, 10_000, seed, batch=batch, emulated=emulated, seconds=600)
    assert not summary.failures, report(summary)
    assert summary.kinds["right"] > 0


def test_every_public_name_is_drawn_or_has_a_reason():
    loaded = {
        "cli",
        "doctor",
        "examples",
        "explore",
        "ceilings",
    }  # modules, where another test imported them
    public = {name for name in dir(td) if not name.startswith("_")} - loaded
    assert public == set(GENERATED) | set(NOT_GENERATED)
    assert not set(GENERATED) & set(NOT_GENERATED)


def test_programs_depend_on_their_number_alone():
    assert draw(3, 5) == draw(3, 5) != draw(3, 6)


def test_what_is_wrong_is_found_and_shrunk():
    """A line that says something else than NumPy is left alone with its argument."""
    wrong = Line("a3", "td.sum(a2 * 2)", numpy="np.sum(a2) * 3")
    program = Program(
        (("a0", "np.arange(4)"), ("a1", "np.arange(3.0)")),
        (Line("a2", "td.roll(a0 + 1, 1)"), wrong, Line("a4", "td.sqrt(a1)")),
        ("a4", "a3"),
        Manner("jit", 3, 4, check=True),
    )
    verdict = judge(program, "reference")
    assert verdict.kind == "numpy"
    small, _ = shrink(program, verdict, lambda p: judge(p, "reference"))
    assert small.results == ("a3",) and small.manner == Manner() and len(small.inputs) == 1
    right = replace(program, lines=(program.lines[0], replace(wrong, numpy="np.sum(a2) * 2")),
                    results=("a3",))  # fmt: skip
    assert judge(right, "reference").kind == "right"


@pytest.mark.long
def test_a_crash_and_a_hang_are_findings(tmp_path):
    from .fuzz.workers import Worker

    worker = Worker()
    crash = Program((), (Line("a0", "td.unit(__import__('os').abort())"),), ("a0",))
    hang = Program((), (Line("a0", "td.unit(__import__('time').sleep(60))"),), ("a0",))
    assert worker.judge(crash, "reference").kind == "crashed: SIGABRT"
    assert worker.judge(hang, "reference", 0.5).kind == "hung"
    right = Program((), (Line("a0", "td.unit(1)"),), ("a0",))
    assert worker.judge(right, "reference").kind == "right"
    worker.stop()


def test_a_script_runs_by_itself(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(draw(SEED, 0).script("reference"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(td.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_model_knows_its_boundaries():
    assert [boundary_index("mirror", k, 3) for k in range(-3, 6)] == [1, 2, 1, 0, 1, 2, 1, 0, 1]
    assert [boundary_index("symmetric", k, 3) for k in range(-3, 6)] == [2, 1, 0, 0, 1, 2, 2, 1, 0]
