"""The benchmark of linear algebra: libraries that fail or need much memory end nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.gpu_works import common
from benchmarks.matmul import linalg


class Library:
    """NumPy, with room for `most` matrices."""

    def __init__(self, most):
        self.most, self.sizes, self.linalg = most, [], SimpleNamespace(eigh=self.eigh)

    def eigh(self, a):
        self.sizes.append(len(a))
        if len(a) > self.most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 250 GiB")
        return a


@pytest.fixture
def given(monkeypatch):
    monkeypatch.setattr(common, "sample", lambda name, run, count: 1e-6)
    monkeypatch.setattr(linalg, "_free", lambda: None)
    return np.zeros((64_000, 2, 2), "f4"), np.zeros((64_000, 2, 1), "f4")


def test_a_library_gets_as_many_matrices_as_fit(given):
    one = Library(20_000)
    run, scale = linalg._fitting("one", one, given, None, "eigh", 64_000)
    assert one.sizes == [1000, 64_000, 16_000] and scale == 4
    run()
    assert one.sizes[-1] == 16_000
    with pytest.raises(RuntimeError, match="out of memory"):
        linalg._fitting("one", Library(10), given, None, "eigh", 64_000)


def test_failures_are_listed_below_the_table():
    rows = [
        {"work": "eigh", "n": 2, "type": "float32", "count": 9, "treadle": 1e-3, "torch": 2e-3,
         "copy": 5e-4, "scaled": ["torch"], "failed": {"CuPy": "MemoryError: 250 GiB"}},
        {"work": "eigh", "n": 3, "type": "float32", "count": 0,
         "failed": {"the whole row": "AssertionError: 9"}},
    ]  # fmt: skip
    made = linalg.table(rows).splitlines()
    assert made[2] == "| eigh | float32 | 2 | 9 | 1.000 | ≈ 2.000 | 0.500 | 2.0 | 50% |"
    assert made[3] == "| eigh | float32 | 3 | 0 |  |  |  |  |  |"
    assert made[-2:] == ["- eigh of float32 2 × 2, CuPy: MemoryError: 250 GiB",
                         "- eigh of float32 3 × 3, the whole row: AssertionError: 9"]  # fmt: skip


def test_a_row_that_fails_does_not_end_the_benchmark(monkeypatch, tmp_path, capsys):
    def fails(n, name, work):
        if n == 3:
            raise ValueError("singular")
        return {"work": work, "n": n, "type": name, "count": 1, "treadle": 1.0, "NumPy": 2.0}

    monkeypatch.setattr(linalg, "on_cpu", fails)
    linalg.main(["cpu", "det", "--out", str(tmp_path)])
    assert "det of float64 3 × 3, the whole row: ValueError: singular" in capsys.readouterr().out
