"""Loops of small kernels, as kernels and as one kernel: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.graphs.test_one_block import PROGRAMS
from treadle.backend.cuda.graphs import one_block

RNG = np.random.default_rng(3)


def elimination(a):
    """Updates in place of parts whose extents depend on the counter."""
    n = a.shape[0]

    def step(k, a):
        below = a[k + 1 :, k] / a[k, k]
        return a.at[k + 1 :, k:].add(-td.outer(below, a[k, k:]))

    return td.loop(n - 1, step, a)


def gradients(a):
    """Products, a fold of them, and a scan."""
    y = td.cumsum(a[:, 0])
    return td.iterate(90, lambda w: w - 0.01 * (td.transpose(a) @ (a @ w - y)), a[0])


MORE = {
    "elimination": (elimination, (RNG.random((60, 60)) + 60 * np.eye(60),)),
    "gradients": (gradients, (RNG.random((50, 20)),)),
}
LOOPS = {**PROGRAMS, **MORE}


def ways(function: Any, args: Any, monkeypatch: Any) -> tuple[list[bytes], int]:
    """The results of calls that try both ways, and how often one block ran."""
    monkeypatch.setattr(one_block, "later", lambda job, _: job())  # between the calls
    return _ways(function, args, monkeypatch)


def _ways(function: Any, args: Any, monkeypatch: Any) -> tuple[list[bytes], int]:
    cupy = pytest.importorskip("cupy")
    runs: list[int] = []
    run = one_block.OneBlock.run

    def counted(self: Any, addresses: Any, stream: int) -> None:
        runs.append(stream)
        run(self, addresses, stream)

    monkeypatch.setattr(one_block, "WORTH", 0.0)
    monkeypatch.setattr(one_block.OneBlock, "run", counted)
    program = td.jit(function, backend="cuda")
    placed = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    found = []
    for _ in range(8):
        made = program(*placed)
        parts = made if isinstance(made, tuple) else (made,)
        found.append(b"".join(cupy.asnumpy(p).tobytes() for p in parts))
    return found, len(runs)


@pytest.mark.parametrize("name", LOOPS)
def test_one_block_computes_the_bits_of_the_kernels(name, monkeypatch):
    function, args = LOOPS[name]
    found, runs = ways(function, args, monkeypatch)
    assert runs and len(set(found)) == 1


def test_a_long_loop_is_launched_in_pieces(monkeypatch):
    monkeypatch.setattr(one_block, "LONGEST", 0.05)
    function, args = PROGRAMS["heat"]
    found, runs = ways(function, args, monkeypatch)
    assert runs and len(set(found)) == 1


def test_calls_go_on_while_the_loop_is_compiled(monkeypatch):
    """What is compiled is taken when it is there; a loop that cannot be compiled runs as before."""
    jobs = []
    function, args = PROGRAMS["heat"]
    monkeypatch.setattr(one_block, "later", lambda job, _: jobs.append(job))
    found, runs = _ways(function, args, monkeypatch)
    assert jobs and not runs and len(set(found)) == 1
    jobs.clear()
    monkeypatch.setattr(one_block, "later", lambda job, _: setattr(job, "ended", True))
    found, runs = _ways(function, args, monkeypatch)
    assert not runs and len(set(found)) == 1
