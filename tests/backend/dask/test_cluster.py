"""Programs on a `LocalCluster` of processes: the bits of one machine, also if a worker dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

from .test_arrays import PROGRAMS, chunked, da, dask, flat, matrix
from .test_loops import smooth

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="1GB"
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        yield client


def heat(u: Any, n: Any) -> Any:
    return td.iterate(n, lambda u: td.stencil(smooth, u, boundary=td.clamp), u)


def test_the_bits_of_one_machine(client: Any) -> None:
    a = matrix((37, 53))
    given = chunked(a, np.random.default_rng(2))
    for name in ("cross mirror", "total", "transpose", "product", "extremes"):
        f = PROGRAMS[name]
        got = dask.compute(*flat(td.jit(f)(given)))
        for g, w in zip(got, flat(td.jit(f, backend="native")(a)), strict=True):
            assert np.asarray(g).tobytes() == np.asarray(w).tobytes(), name


def test_a_worker_that_dies_changes_nothing(client: Any) -> None:
    a = matrix((400, 300))
    held = td.jit(heat)(da.from_array(a, chunks=(50, 300)), 300).persist()
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert held.compute().tobytes() == td.jit(heat, backend="native")(a, 300).tobytes()


def test_what_does_not_fit_on_a_worker_is_refused(client: Any) -> None:
    with pytest.raises(td.MemoryLimitExceeded, match=r"fft, computed whole.*may use 1 GB"):
        td.jit(lambda a: td.fft.fft(a))(da.zeros(1 << 30, chunks=1 << 20))


@pytest.mark.long
def test_workers_that_die_at_any_time(client: Any) -> None:
    a = matrix((400, 300))
    wanted = td.jit(heat, backend="native")(a, 400).tobytes()
    rng = np.random.default_rng(1)
    for _ in range(5):
        held = td.jit(heat)(da.from_array(a, chunks=(25, 300)) + 0, 400).persist()
        distributed.wait([], timeout=1)
        pids = list(client.run(os.getpid).values())
        os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
        assert held.compute().tobytes() == wanted
        client.wait_for_workers(2, timeout=60)
