"""What the CPU's kernels do differently where there are many threads, whatever machine tests run
on: strategies of scatters are chosen by the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np, treadle as td
rng = np.random.default_rng(1)
dtype = "{dtype}"

def numbers(n):
    made = rng.integers(0, 3, n)
    return (made + 1j * rng.integers(0, 3, n) if dtype[0] == "c" else made).astype(dtype)

for n in (7, 1000, 200_000):
    x, to = numbers(n), rng.permutation(n)
    assert np.array_equal(td.jit(lambda x: x[x != 0], backend="native")(x), x[x != 0])
    moved = td.jit(lambda x, to: td.zeros(n, dtype).at[to].set(x), backend="native")(x, to)
    assert np.array_equal(moved[to], x)
    few = to % 5
    added = td.jit(lambda x, to: td.zeros(5, dtype).at[to].add(x), backend="native")(x, few)
    wanted = np.zeros(5, complex if dtype[0] == "c" else np.int64)
    np.add.at(wanted, few, x)
    if dtype != "float16":  # whose sums round
        assert np.array_equal(added, wanted.astype(dtype))
    last = td.jit(lambda x, to: td.zeros(5, dtype).at[to].set(x), backend="native")(x, few)
    assert np.isin(last, np.append(x, 0).astype(dtype)).all()
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", [16])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "complex64", "complex128"])
def test_scatters(dtype: str, threads: int) -> None:
    environment = {
        **os.environ,
        "TREADLE_NUM_THREADS": str(threads),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    script = SCRIPT.format(dtype=dtype)
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=300)
