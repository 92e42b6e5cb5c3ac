"""Sorts by samples and what is made of them, with the bits of one machine, in a part of the memory
of the array."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import gather, plan
from treadle.backend.blocks.engine import Engine
from treadle.backend.dask import executable, graph, windows as exchanging
from treadle.dsl.libraries.sort import boundaries, keyed, windows

from .test_arrays import da, dask, flat
from .test_loops import stages

RNG = np.random.default_rng(5)
ARRAYS = {
    "floats": RNG.random(3001).astype(np.float32),
    "few values": RNG.integers(0, 5, 4000),
    "equal": np.zeros(2000),
    "ascending": np.arange(2500),
    "descending": np.arange(2500, dtype=np.int16)[::-1].copy(),
    "not numbers": np.array([np.nan, 1, 2, np.nan, -np.inf] * 300),
    "complex": RNG.integers(0, 3, 1000) + 1j * RNG.integers(0, 4, 1000),
    "booleans": RNG.random(900) > 0.2,
    "short": np.array([3, 1, 2]),
}
MATRIX = RNG.random((70, 110)).astype(np.float32)
PROGRAMS: dict[str, Callable[..., Any]] = {
    "median": lambda a: td.median(a),
    "percentiles": lambda a: td.percentile(a, [3.0, 50.0, 99.5]),
    "along an axis": lambda a: td.percentile(a, 30.0, axis=0),
    "of the others": lambda a: td.nanmedian(td.where(a > 0.2, a, td.nan)),
    "few elements": lambda a: a[td.cast(a[:3, :2] * 69, td.int64), td.cast(a[:3, :2], td.int64)],
    "ranks": lambda a: td.argsort(td.argsort(a.ravel())),
    "largest": lambda a: td.sort(a.ravel(), descending=True)[:7],
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are treated as large ones."""
    monkeypatch.setattr(plan, "FEW", 0)
    monkeypatch.setattr(plan, "LARGE", 100)
    monkeypatch.setattr(gather, "READ", 1.0)


def of_some(a: Any, k: Any) -> Any:
    """Rows at indices of which only those in range are read."""
    return td.where((k >= 0) & (k < a.shape[0]), a[:, 1][k], -1)


def test_indices_that_are_not_read_may_be_out_of_range() -> None:
    k = np.array([3, -(2**50), 69, 2**60, 0, 70], np.int64)
    for where in (da.from_array(k, chunks=2), k):
        made = td.jit(of_some)(da.from_array(MATRIX, chunks=(70, 3)), where)
        wanted = [MATRIX[n, 1] if 0 <= n < 70 else -1 for n in k]
        assert made.compute(scheduler="synchronous").tolist() == wanted


def check(f: Callable[..., Any], a: np.ndarray, chunks: Any) -> None:
    wanted = flat(td.jit(f, backend="native")(a))
    for got, w in zip(flat(td.jit(f)(da.from_array(a, chunks=chunks))), wanted, strict=True):
        assert got.shape == w.shape
        assert np.asarray(got.compute(scheduler="synchronous")).tobytes() == w.tobytes(), chunks


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ARRAYS)
def test_sorts(name: str) -> None:
    a = ARRAYS[name]
    third = len(a) // 3
    for chunks in (third + 1, max(len(a) // 17, 1), ((1, 2 * third, 0, len(a) - 2 * third - 1),)):
        check(lambda a: (td.sort(a), td.argsort(a)), a, chunks)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_order_statistics(name: str) -> None:
    for chunks in ((30, 110), (13, 31), (70, 7)):
        check(PROGRAMS[name], MATRIX, chunks)
    streamed = td.stream(PROGRAMS[name], MATRIX, memory=120_000)
    assert (
        np.asarray(streamed).tobytes() == td.jit(PROGRAMS[name], backend="native")(MATRIX).tobytes()
    )


def keys_of(f: Callable[..., Any], chunks: int, size: int) -> tuple[Any, int]:
    """The result of a program of a row of so many chunks, and the number of its tasks for each."""
    row = da.zeros(chunks * size, chunks=size, dtype=np.float32)
    made = td.jit(f)(row)
    return made, -(-(len(made.dask.to_dict()) - chunks) // chunks)


def test_tasks_are_no_more_than_three_for_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of large arrays are sorted together; on threads, no parts are tasks."""
    made, tasks = keys_of(lambda a: td.sort(a), 100, 1 << 20)
    assert len(made.chunks[0]) == 64 and tasks <= 4  # besides a few tasks of the call
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    monkeypatch.setattr(executable, "threads", lambda: 2)
    for chunks in (100, 400, 1000):
        made, tasks = keys_of(lambda a: td.sort(a), chunks, 1 << 20)
        assert 15 <= len(made.chunks[0]) <= 64 and tasks <= 4, chunks


@pytest.mark.sample(2)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 17])
def test_parts_go_in_levels(apart: bool, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many runs for one; each has tasks in the order of their logarithm."""
    monkeypatch.setattr(exchanging, "FAN", 2)
    monkeypatch.setattr(graph, "has_workers", lambda: apart)
    monkeypatch.setattr(Engine, "runs", lambda self, sizes, each: sizes)
    a = ARRAYS["few values"][: 40 * count]
    check(lambda a: (td.sort(a), td.argsort(a)), a, 40)
    few, many = (len(td.jit(lambda a: td.sort(a))(da.from_array(np.zeros(40 * n), chunks=40))
                     .dask.to_dict()) / n for n in (16, 64))  # fmt: skip
    assert many - few <= 4 * 2 + 1, "two levels more of two parts, and what joins them"


def test_parts_read_little_more_than_they_have() -> None:
    """Also of equal elements; and no task reads the whole array."""
    a = da.from_array(np.zeros(80_000), chunks=10_000)
    found = stages(lambda a: td.percentile(a, 7.0), a)
    for stage in found:
        for buffer in stage.blocks.buffers:
            extents = [(h - x).max() for x, h in zip(buffer.low, buffer.high, strict=True)]
            assert np.prod(extents) < 12_809
    lengths, ranks = np.full(10, 10_000), np.arange(11) * 10_000
    runs = [np.sort(np.floor(part)) for part in RNG.random((10, 10_000)) * 3]
    keys, at = boundaries(125, np.concatenate([r[::125] for r in runs]), lengths, ranks)
    before = [keyed(r, np.array([k]), keys, at) for k, r in enumerate(runs)]
    parts, skipped = windows(np.concatenate(before, 1), ranks[:-1], ranks)
    sizes = (parts[..., 1] - parts[..., 0]).sum(axis=1)
    assert (skipped >= 0).all() and (sizes - skipped >= 10_000).all() and sizes.max() < 12_750


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["sums", "last", "integers", "rows"])
def test_few_elements_into_a_large_array(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of the result takes its own; nothing of it is in one task."""
    monkeypatch.setattr(plan, "FEW", 0)
    rng = np.random.default_rng(3)
    a = rng.standard_normal((5000, 3) if name == "rows" else 5000).astype(np.float32)
    at = rng.integers(-3, 5003, 40)
    v = rng.standard_normal(40).astype(np.float32)

    def f(a: Any, at: Any, v: Any) -> Any:
        if name == "integers":
            return td.cast(a * 9, td.int32).at[at].max(td.cast(v * 30, td.int32))
        if name == "rows":
            return td.permute(lambda x, y: x + y, a, lambda k: (at[k], k % 3), v)
        return a.at[at].add(v) if name == "sums" else a.at[at].set(v)

    wanted = td.jit(f, backend="native")(a, at, v)
    given = da.from_array(a, chunks=(700, 3) if name == "rows" else 700)
    made = td.jit(f)(given, at, v)
    assert made.chunks[0] == given.chunks[0]
    assert made.compute(scheduler="sync").tobytes() == wanted.tobytes()
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = td.stream(f, a, at, v, memory="24 kB")
    assert found.tobytes() == wanted.tobytes()


def test_every_layer_has_the_name_of_the_function() -> None:
    """Also the numbers that tasks read; and what gathers do."""
    a = da.from_array(MATRIX, chunks=(20, 7), name="given")

    def ranked(a: Any) -> Any:
        v = td.sort(a.ravel())
        return v[td.cast(a.ravel() * 69, td.int64)]

    names = {dask.utils.key_split(name) for name in td.jit(ranked)(a).dask.layers}
    assert all(name.startswith(("given", "ranked-")) for name in names), names
    assert {"ranked-sort-runs", "ranked-numbers", "ranked-gather"} <= names
