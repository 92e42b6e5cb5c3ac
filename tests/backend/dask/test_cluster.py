"""Programs on a `LocalCluster` of processes: the bits of one machine, also if a worker dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import loops, plan, scans, tasks
from treadle.backend.dask import memory

from .test_arrays import PROGRAMS, chunked, da, dask, flat, matrix
from .test_loops import STEERED, smooth
from .test_selected import PROGRAMS as SELECTED
from .test_sorting import PROGRAMS as SORTED

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    # (So long after a worker has died, the cluster gives up one that starts again at this time.)
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    with patient, distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="1GB"
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        yield client


def heat(u: Any, n: Any) -> Any:
    return td.iterate(n, lambda u: td.stencil(smooth, u, boundary=td.clamp), u)


def test_the_bits_of_one_machine(client: Any) -> None:
    a = matrix((37, 53))
    given = chunked(a, np.random.default_rng(2))
    for name in ("total", "transpose"):
        f = PROGRAMS[name]
        got = dask.compute(*flat(td.jit(f)(given)))
        for g, w in zip(got, flat(td.jit(f, backend="native")(a)), strict=True):
            assert np.asarray(g).tobytes() == np.asarray(w).tobytes(), name


#: Programs of every kind of node.
EVERY = {
    **PROGRAMS,
    **{f"selected: {name}": f for name, f in SELECTED.items()},
    **{f"sorted: {name}": f for name, f in SORTED.items()},
    **{f"steered: {name}": f for name, f in STEERED.items()},
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EVERY)
def test_every_kind_of_node_on_processes(name: str, client: Any, monkeypatch: Any) -> None:
    """With known chunks, also as if arrays were large and parts of chunks worth sending."""
    f = EVERY[name]
    a = matrix((100, 7)) if name.startswith("selected") else matrix((70, 110))
    wanted = flat(td.jit(f, backend="native")(a))
    for large in (False, True)[: 1 if name == "sums at" else 2]:  # sums of floats in any order
        if large:
            monkeypatch.setattr(plan, "FEW", 0)
            monkeypatch.setattr(tasks, "WORTH", 0)
        for chunks in ((30, a.shape[1]), (13, 31)):
            got = flat(td.jit(f)(da.from_array(a, chunks=chunks)))
            assert all(n == n for g in got for sizes in g.chunks for n in sizes)
            for g, found, w in zip(got, dask.compute(*got), wanted, strict=True):
                assert g.shape == w.shape
                assert np.asarray(found).tobytes() == np.asarray(w).tobytes(), (large, chunks)


def test_a_worker_that_dies_changes_nothing(client: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(loops, "NEARLY", np.inf)  # as many blocks as chunks
    a = matrix((400, 300))
    held = td.jit(heat)(da.from_array(a, chunks=(100, 300)), 60).persist()
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert held.compute().tobytes() == td.jit(heat, backend="native")(a, 60).tobytes()


def test_what_does_not_fit_on_a_worker_is_refused(client: Any) -> None:
    with pytest.raises(td.MemoryLimitExceeded, match=r"fft, computed whole.*may use 1 GB"):
        td.jit(lambda a: td.fft.fft(a))(da.zeros(1 << 30, chunks=1 << 20))


@pytest.mark.long
def test_a_worker_that_dies_in_an_exchange_a_selection_or_a_loop(
    client: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(plan, "FEW", 0)
    a = np.random.default_rng(3).random(100_000)
    given = da.from_array(a, chunks=10_000) + 0
    for f, wanted in (
        (lambda a: td.argsort(a), np.argsort(a, kind="stable")),
        (lambda a: a[a > 0.4], a[a > 0.4]),
    ):
        held = td.jit(f)(given).persist()
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert held.compute().tobytes() == wanted.tobytes()
        client.wait_for_workers(2, timeout=60)
    pid = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(1, os.kill, (pid, signal.SIGKILL))
    timer.start()
    u = matrix((400, 300))

    def doubled(u: Any) -> Any:
        return td.while_loop(lambda u: td.max(u) < 1e9, lambda u: td.roll(u, 1) * 1.5, u)

    found = td.jit(doubled)(da.from_array(u, chunks=(100, 300)) + 0)
    assert found.compute().tobytes() == td.jit(doubled, backend="native")(u).tobytes()
    timer.join()


@pytest.mark.long
@pytest.mark.parametrize("together", [False, True])
def test_workers_that_die_at_any_time(together: bool, client: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(loops, "NEARLY", 1 if together else np.inf)
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


def test_a_worker_that_dies_between_two_files(client: Any, tmp_path: Any) -> None:
    pytest.importorskip("zarr")
    a = matrix((600, 200))
    da.from_array(a, chunks=(50, 200)).to_zarr(str(tmp_path / "u.zarr"))
    held = td.jit(heat)(da.from_zarr(str(tmp_path / "u.zarr")), 200).persist()
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    held.to_zarr(str(tmp_path / "v.zarr"))
    got = da.from_zarr(str(tmp_path / "v.zarr")).compute()
    assert got.tobytes() == td.jit(heat, backend="native")(a, 200).tobytes()


def test_the_dashboard_shows_names_of_functions_and_operations(client: Any) -> None:
    v = td.jit(heat)(da.from_array(matrix((400, 300)), chunks=(50, 300)), 100)
    own = {distributed.utils.key_split(key) for key in v.dask.to_dict()}
    wanted = {"heat-iterate", "heat-iterate-program", "heat-iterate-result"}
    assert {name for name in own if not name.startswith("array")} == wanted, own


def test_chunks_of_a_loop_are_one_task_for_each_worker(client: Any) -> None:
    client.wait_for_workers(2, timeout=60)
    a = matrix((4000, 1000))
    u = client.persist(da.from_array(a, chunks=(500, 500)))
    v = td.jit(heat)(u, 100)
    blocks = [key for key in v.dask.to_dict() if distributed.utils.key_split(key) == "heat-iterate"]
    assert len(blocks) % 2 == 0 and len(blocks) < 16 and v.chunks == u.chunks
    assert "of a grid of 8 × 2" in td.jit(heat).lower(u, 100).explain("dask")
    assert v.compute().tobytes() == td.jit(heat, backend="native")(a, 100).tobytes()


def test_parts_of_a_block_stay_where_it_is(client: Any) -> None:
    """The scheduler does not spread them over idle workers, which would get all of the block."""
    client.wait_for_workers(2, timeout=60)
    u = client.persist(da.from_array(matrix((4096, 512)), chunks=(512, 512)))
    v = td.jit(heat)(u, 100).persist()
    distributed.wait(v)

    def spread(name: str, dask_scheduler: Any) -> list[bool]:
        tasks = dask_scheduler.tasks.values()
        return [dask_scheduler.is_rootish(t) for t in tasks if t.key[0] == name]

    assert client.run_on_scheduler(spread, v.name) == [False] * 8


def test_a_call_asks_the_scheduler_as_often_for_many_stages(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    workers = memory._workers
    monkeypatch.setattr(memory, "_workers", lambda: asked.append(1) or workers())
    a, counts = da.from_array(matrix((1000, 600)).ravel(), chunks=60_000), []
    for f in (td.sqrt, td.sort):
        td.jit(f)(a)
        counts.append(len(asked))
        asked.clear()
    assert counts[0] == counts[1] <= 3


def test_retries_are_those_of_the_engine(client: Any) -> None:
    """`dask.annotate` reaches the tasks of a call, also those that it computes at once."""
    a = da.from_array(matrix((60, 40)), chunks=(20, 40))
    with dask.annotate(retries=3):
        made = td.jit(lambda a: td.cumsum(td.stencil(smooth, a, boundary=td.clamp), axis=0))(a)
    own = [layer for name, layer in made.dask.layers.items() if not name.startswith("array")]
    assert own and all(layer.annotations == {"retries": 3} for layer in own)


def test_a_loop_in_parts_has_the_bits_of_one_call(client: Any, tmp_path: Any) -> None:
    pytest.importorskip("zarr")
    a = matrix((200, 100))
    u = da.from_array(a, chunks=(50, 100))
    for k in range(3):
        td.jit(heat)(u, 20).to_zarr(str(tmp_path / f"{k}.zarr"))
        u = da.from_zarr(str(tmp_path / f"{k}.zarr"))
    assert u.compute().tobytes() == td.jit(heat, backend="native")(a, 60).tobytes()


#: What is computed by tasks that read each other's results, or parts of chunks that data tell.
CHAINED = {
    "columns": lambda a: td.cumsum(a, axis=0),
    "a row": lambda a: td.cumsum(td.reshape(a, (a.shape[0] * a.shape[1],))),
    "a recurrence": lambda a: td.scan(
        lambda s, v: (s * np.float32(0.5) + v, s - v), a[0], a)[1],
    "segments": lambda a: td.fold_seg(
        td.add, 0.0, a[:, 0], td.fill(a.shape[0] // 2, 2)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", CHAINED)
def test_a_worker_that_dies_where_blocks_go_on_from_others(
    name: str, client: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(plan, "FEW", 0)
    monkeypatch.setattr(scans, "ALONE", 0)
    client.wait_for_workers(2, timeout=60)
    a = matrix((4000, 200))
    held = td.jit(CHAINED[name])(da.from_array(a, chunks=(100, 100)) + 0).persist()
    distributed.wait([], timeout=1)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert held.compute().tobytes() == td.jit(CHAINED[name], backend="native")(a).tobytes()
    client.wait_for_workers(2, timeout=60)
