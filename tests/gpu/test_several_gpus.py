"""Programs on two GPUs have the bits that they have on one, in every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from benchmarks.gpus import counts, heat
from treadle.backend.cuda.several import engine, running

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

PROGRAMS: dict[str, Callable[..., Any]] = {
    "map": lambda a: td.sqrt(a) + 1,
    "heat": heat,
    "transposition": lambda a: a.T + 1,
    "sum": td.sum,
    "sums of rows": lambda a: td.sum(a, axis=1),
    "sums of columns": lambda a: td.sum(a, axis=0),
    "histogram": counts,
    "scan": lambda a: td.cumsum(td.cast(a * 99, td.int32).ravel()),
    "scans of rows": lambda a: td.cumsum(a, axis=1),
    "rolled": lambda a: td.roll(a, 700, axis=0),
    "product of integers": lambda a: td.cast(a * 9, td.int32) @ td.cast(a.T * 9, td.int32),
}


@pytest.fixture(autouse=True)
def two() -> None:
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")


@pytest.mark.parametrize("much", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call(name: str, much: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`much`: all copies are treated as large ones.  Calls after the first replay their blocks, in
    the same memory or in other."""
    if much:
        monkeypatch.setattr(engine, "PIPELINED", 1)
        monkeypatch.setattr(running, "LARGE", 1)
    for shape in ((1000, 1024), (1001, 77)):
        a = np.random.default_rng(1).random(shape).astype(np.float32)
        wanted = np.asarray(td.jit(PROGRAMS[name], backend="cuda")(a))
        compiled = td.jit(PROGRAMS[name], backend="cuda", devices=2)
        u, held = td.shard(a, 2), []
        for call in range(6):
            found = compiled(u)
            assert np.asarray(found).tobytes() == wanted.tobytes(), (shape, call)
            held += [found] if call % 2 else []
        assert np.asarray(compiled(a)).tobytes() == wanted.tobytes()
