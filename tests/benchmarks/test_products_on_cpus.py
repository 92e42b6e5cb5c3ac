"""The benchmark of products on CPUs: fair rounds, and all of its works, small."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.matmul import cpu

    for name, value in {"QUICK": (8, 40), "SMALL": (4,), "SECONDS": 1e-9, "FEWEST": 1,
                        "PAUSE": 0.0, "BYTES": 1e4}.items():  # fmt: skip
        monkeypatch.setattr(cpu, name, value)
    assert cpu.main(["--quick"]) == 0
    text = capsys.readouterr().out
    for work in ("plain", "plain, asleep", "plain, behind a kernel", "layer", "chosen", "many"):
        assert f"| {work} | float32 |" in text and f"| {work} | float64 |" in text
