"""A cluster whose workers have other versions is refused at the call, before any task."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.dask import versions

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        yield client


@pytest.fixture
def worker(client: Any) -> Iterator[str]:
    """One of the workers, which is asked again."""
    versions._asked.clear()
    addresses = list(client.scheduler_info()["workers"])
    yield addresses[0]

    def mend() -> None:
        import sys

        for name in [n for n in sys.modules if n.startswith("treadle")]:
            del sys.modules[name]

    client.run(mend)
    versions._asked.clear()


def doubled() -> Any:
    return td.jit(lambda a: a * 2)(da.from_array(np.arange(12.0), chunks=5))


def change(client: Any, worker: str, name: str, value: str) -> None:
    """Have a worker say that it has something else."""

    def changed(name: str, value: str) -> None:
        from treadle.backend.dask import versions

        before = versions.environment
        versions.environment = lambda: {**before(), name: value}  # type: ignore[assignment]

    client.run(changed, name, value, workers=[worker])


@pytest.mark.parametrize("name", ["treadle", "numpy", "llvmlite"])
def test_other_versions_are_refused_at_the_line_of_the_call(
    name: str, client: Any, worker: str
) -> None:
    change(client, worker, name, "0.0.7")
    before = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
    with pytest.raises(td.DistributionError, match="other versions than this process") as raised:
        doubled()
    said = str(raised.value)
    here = versions.environment()
    table = [
        line.split()
        for line in said.splitlines()
        if "0.0.7" in line or line.split()[:1] == ["here"]
    ]
    assert table == [["here", worker], [name, here[name], "0.0.7"]]
    assert raised.value.where is not None and raised.value.where.function == "doubled"
    after = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
    assert before == after  # no task was sent


def test_a_worker_without_treadle(client: Any, worker: str) -> None:
    def without() -> None:
        import sys

        sys.modules["treadle.backend.dask.versions"] = None  # type: ignore[assignment]

    client.run(without, workers=[worker])
    with pytest.raises(td.DistributionError, match=rf"treadle +{td.__version__} +none"):
        doubled()


def test_another_processor_is_told_once(client: Any, worker: str) -> None:
    change(client, worker, "processor", "z80, vectors of 1 bytes")
    with pytest.warns(UserWarning, match="z80, vectors of 1 bytes") as told:
        made = doubled()
    lines, first = inspect.getsourcelines(doubled)
    assert told[0].filename == __file__ and first <= told[0].lineno < first + len(lines)
    assert np.array_equal(made.compute(), np.arange(12.0) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doubled()


def test_a_worker_whose_connection_broke_is_asked_again(
    client: Any, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(client, worker, "numpy", "0.0.7")
    run, broken = type(client).run, [worker]

    def breaking(self: Any, f: Any, *args: Any, workers: Any = None, **kwargs: Any) -> Any:
        answers = run(self, f, *args, workers=workers, **kwargs)
        lost = [broken.pop() for w in list(broken) if w in answers]
        return {**answers, **{w: ConnectionResetError() for w in lost}}

    monkeypatch.setattr(type(client), "run", breaking)
    with pytest.raises(td.DistributionError, match=r"0\.0\.7"):
        doubled()
    assert not broken


def test_workers_are_asked_once(client: Any, worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    run = type(client).run
    monkeypatch.setattr(type(client), "run", lambda self, f, *args, **kwargs: (
        asked.append(kwargs["workers"]), run(self, f, *args, **kwargs))[1])  # fmt: skip
    for _ in range(3):
        doubled()
    assert [len(some) for some in asked] == [2]
    client.cluster.scale(3)
    client.wait_for_workers(3)
    doubled()
    assert [len(some) for some in asked] == [2, 1]
