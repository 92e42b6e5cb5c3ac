"""Reads at indices that depend on data: chunks are asked for the elements that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import gather, plan
from treadle.backend.dask import worker

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

rng = np.random.default_rng(3)
MATRIX = rng.random((60, 45))
ROWS, COLUMNS = rng.integers(0, 60, 150), rng.integers(0, 45, 150)
CUBE = rng.random((12, 14, 10), dtype=np.float32)


def guarded(a: Any, k: Any, m: Any) -> Any:
    """Of indices beyond the table `m`, and beyond `a`, none is used."""
    i = td.generate(k.shape, lambda i: k[i] - 10)
    return td.map(lambda i: td.where(i >= 0, a[m[i], 3], -1.0), i)


#: Functions of a matrix and of indices of its rows and columns, and what NumPy has (None: the bits
#: of one machine).
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "rows": (lambda a, i, j: a[i], lambda a, i, j: a[i]),
    "columns": (lambda a, i, j: a[:, j] * 2, lambda a, i, j: a[:, j] * 2),
    "points": (lambda a, i, j: a[i, j], lambda a, i, j: a[i, j]),
    "two arrays": (lambda a, i, j: a[i] + a.T[j][:, :1], lambda a, i, j: a[i] + a.T[j][:, :1]),
    "part of rows": (lambda a, i, j: a[i][:, 5:40], lambda a, i, j: a[i][:, 5:40]),
    "nested": (lambda a, i, j: a[i[j]], lambda a, i, j: a[i[j]]),
    "one row": (lambda a, i, j: a[td.argmax(a[:, 0])], lambda a, i, j: a[a[:, 0].argmax()]),
    "along a diagonal": (
        lambda a, i, j: td.generate((45,), lambda k: a[i[k], k]),
        lambda a, i, j: a[i[:45], range(45)],
    ),
    "table": (
        lambda a, i, j: td.generate((9, 150), lambda r, k: a[(i[k] + r) % 60, j[k]]),
        lambda a, i, j: a[(i + np.arange(9)[:, None]) % 60, j],
    ),
    "none": (lambda a, i, j: a[i[:0]], lambda a, i, j: a[i[:0]]),
    "sum": (lambda a, i, j: td.max(a[i], axis=1), lambda a, i, j: a[i].max(1)),
    "float sum of columns": (
        lambda a, i, j: td.sum(a[i] * 0.5, axis=0) + td.sum(a[i[:60]], axis=0),
        None,
    ),
    "float sum of all": (lambda a, i, j: td.sum(a[i, j]) + td.sum(a[:, j] * 0.3), None),
    "loop": (
        lambda a, i, j: td.iterate(3, lambda x: x[i[:60]] + 1, a),
        lambda a, i, j: a[i[:60]][i[:60]][i[:60]] + 1 + 1 + 1,
    ),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan, "LARGE", 100)
    monkeypatch.setattr(gather, "READ", 1.0)
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("chunks", [((13, 20), 40), ((60, 9), 60), ((7, 45), 150)])
def test_equal(name: str, chunks: tuple[Any, int], tmp_path: Path) -> None:
    """On arrays of dask, and from files."""
    f, wanted = PROGRAMS[name]
    indices = [da.from_array(x, chunks=chunks[1]) for x in (ROWS, COLUMNS)]
    got = td.jit(f)(da.from_array(MATRIX, chunks=chunks[0]), *indices)
    wanted = wanted or td.jit(f, backend="native")
    expected = wanted(MATRIX, ROWS, COLUMNS)
    assert got.shape == expected.shape
    assert np.array_equal(got.compute(), expected)
    file = np.memmap(tmp_path / "a", np.float64, "w+", shape=MATRIX.shape)
    file[...] = MATRIX
    assert np.array_equal(td.stream(f, file, ROWS, COLUMNS, memory="40 kB"), expected)


def test_cube() -> None:
    x = da.from_array(CUBE, chunks=(5, 4, 3))
    k = rng.integers(0, 10, (6, 12))
    got = td.jit(lambda x, k: td.generate((12, 6, 14), lambda a, b, c: x[a, c, k[b, a]]))(x, k)
    a, b, c = np.ogrid[:12, :6, :14]
    assert np.array_equal(got.compute(), CUBE[a, c, k[b, a]])


def test_indices_out_of_range_are_not_read() -> None:
    a, k, m = MATRIX, rng.integers(0, 40, 80), rng.integers(0, 60, 30)
    got = td.jit(guarded)(da.from_array(a, chunks=20), da.from_array(k, chunks=30), m)
    wanted = np.where(k >= 10, a[m[np.maximum(k - 10, 0)], 3], -1.0)
    assert np.array_equal(got.compute(), wanted)


def test_an_element_moves_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers have the elements of the result, and nothing else is read of the array."""
    answers: list[Any] = []

    def answer(request: Any, *args: Any) -> Any:
        answers.append(answer_of(request, *args))
        return answers[-1]

    answer_of = worker.answer_of
    monkeypatch.setattr("treadle.backend.dask.gathers.answer_of", answer)
    a, i = da.from_array(MATRIX, chunks=(10, 15)), da.from_array(ROWS, chunks=50)
    f = td.jit(lambda a, i: a[i])
    got = f(a, i).compute()
    assert sum(x.nbytes for x in answers if x is not None) == got.nbytes
    assert all(x is None or x.nbytes < MATRIX.nbytes for x in answers)
    text = f.lower(a, i).explain("dask")
    assert "6 chunks asked for each block, 54 kB in answers" in text
    assert "every task reads all of a" not in text
    # (One of the graph is the program of the positions.)
    assert (
        f": 2 stages, {len(dict(f(a, i).dask)) - a.npartitions - i.npartitions - 1} tasks, " in text
    )


def test_the_faster_way_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a large array are asked for; a table that many elements read goes to every task."""
    monkeypatch.undo()
    f = td.jit(lambda a, k: td.sum(a[k]))
    k = da.zeros(2_000_000, dtype=np.int64, chunks=200_000)
    few = da.zeros(10_000, dtype=np.int64, chunks=1_000)
    table, rows = da.zeros(2_000_000, chunks=250_000), da.zeros((20_000, 1_000), chunks=2_000)
    assert "every task reads all of a" in f.lower(table, k).explain("dask")
    f = td.jit(lambda a, k: a[k])
    assert "10 chunks asked for each block" in f.lower(rows, few).explain("dask")


def test_sums_of_gathered_floats_have_the_bits_of_one_machine() -> None:
    """No task reads the whole array."""
    table = rng.random(70_000, dtype=np.float32)
    k = rng.integers(0, table.size, 50_000)
    given = da.from_array(table, chunks=9_000), da.from_array(k, chunks=11_000)
    f = td.jit(lambda t, k: td.sum(t[k] * 1.5))
    assert f(*given).compute().tobytes() == f(table, k).tobytes()
    assert "8 chunks asked for" in f.lower(*given).explain("dask")


def test_answers_from_files_fit_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are written some rows at a time."""
    sizes: list[int] = []

    def answer(*args: Any) -> Any:
        found = worker.answer_of(*args)
        sizes.append(found.nbytes)
        return found

    monkeypatch.setattr("treadle.backend.dask.stream.answer_of", answer)
    a = np.memmap(tmp_path / "a", np.float64, "w+", shape=(400, 1000))
    a[...] = np.arange(400)[:, None]
    k = rng.integers(0, 400, 1500)
    out = np.memmap(tmp_path / "b", np.float64, "w+", shape=(1500, 1000))
    td.stream(lambda a, k: a[k] * 2, a, k, out=out, memory="1 MB")
    assert (out[:, 7] == 2 * k).all()
    assert sum(sizes) == out.nbytes and max(sizes) <= 1_000_000 // 12
