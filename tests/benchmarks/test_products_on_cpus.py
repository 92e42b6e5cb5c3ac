"""The benchmark of products on CPUs: fair rounds, and all of its works, small."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest


def test_no_contender_always_follows_the_same_one() -> None:
    from benchmarks.harness import round_robin

    for count in (1, 2, 3, 4):
        names = [str(k) for k in range(count)]
        rounds = [round_robin(names, r) for r in range(2 * count)]
        assert all(sorted(r) == names for r in rounds)
        before = Counter(pair for r in rounds for pair in pairwise(r))
        assert all(before[x, y] == before[y, x] for x, y in before)


def test_every_work_runs_and_is_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from benchmarks.matmul import cpu

    for name, value in {"EXTENTS": (8, 40), "SMALL": (4,), "FEWEST": 1, "MOST": 1, "PAUSE": 0.0,
                        "BYTES": 1e4}.items():  # fmt: skip
        monkeypatch.setattr(cpu, name, value)
    assert cpu.main(["--budget", "60", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for work in ("plain", "plain, asleep", "plain, behind a kernel", "layer", "chosen", "many"):
        assert f"| {work} | float32 |" in text and f"| {work} | float64 |" in text
    (kept,) = tmp_path.glob("*.json")
    rows = json.loads(kept.read_text(encoding="utf-8"))["rows"]
    assert {(r["work"], r["n"]) for r in rows} >= {("plain", 8), ("plain", 40), ("many", 4)}


def test_what_would_take_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.matmul import cpu

    def square(n: int, name: str, seconds: float) -> list[dict[str, Any]]:
        return [{"work": "plain", "type": name, "n": n, "NumPy": 1e-12 * n**3}]

    monkeypatch.setattr(cpu, "square", square)
    monkeypatch.setattr(cpu, "small", lambda n, name, seconds: [])
    rows, missing = cpu.measured(1.0)
    assert {r["n"] for r in rows} == {256, 512, 1024, 2048}
    assert missing == ["square float32 4096", "square float64 4096"]
