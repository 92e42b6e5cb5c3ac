"""Scans and recurrences on chunks: the bits of one machine, also of floats."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import scans, tasks as block_tasks
from treadle.backend.dask import graph, worker

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

F = Callable[..., Any]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def check(f: F, a: np.ndarray, chunks: Any) -> list[Any]:
    """The results on arrays of dask, whose values have the bits of `native`."""
    made = flat(td.jit(f)(da.from_array(a, chunks=chunks)))
    wanted = flat(td.jit(f, backend="native")(a))
    for g, found, w in zip(made, dask.compute(*made, scheduler="sync"), wanted, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        assert np.asarray(found).tobytes() == np.asarray(w).tobytes(), (a.shape, chunks)
    return made


@pytest.mark.parametrize(
    "f",
    [
        lambda a: td.cumsum(a, axis=1),
        lambda a: td.scanr1(td.add, a),
        lambda a: td.scanl1(lambda x, y: x + y + x * y, a),
    ],
)
def test_a_few_of_many_long_rows_are_scanned_as_on_one_machine(f: F) -> None:
    """A kernel scans a few long rows in blocks, but many, as there are in the whole array, each in
    one piece."""
    check(f, numbers((18, 40_000)), ((7, 11), (40_000,)))


def last(x: Any, y: Any) -> Any:
    """The last that is not 0: associative, not commutative."""
    return td.where(y != 0, y, x)


def affine(x: Any, y: Any) -> Any:
    """The composition of two affine functions, as pairs."""
    return x[0] * y[0], x[1] * y[0] + y[1]


def smoothed(x: Any) -> Any:
    """A recurrence with a result for every step and a last state."""
    start = td.zeros(x.shape[1:], dtype=td.float32)
    end, every = td.scan(lambda s, v: (s * np.float32(0.5) + v, s - v), start, x)
    return end, every


def segments(a: Any) -> Any:
    """Lengths, one of them 0, that add up to those of a row."""
    n = a.shape[-1]
    return td.generate((3,), lambda k: td.where(k == 0, n // 3, td.where(k == 1, 0, n - n // 3)))


#: Scans of all forms, of a float32 array of any rank.
SCANS: dict[str, F] = {
    "sums": lambda a: td.cumsum(a, axis=0),
    "sums of sines": lambda a: td.cumsum(td.sin(a), axis=0) * 2,
    "products": lambda a: td.cumprod(1 + a * np.float32(0.01), axis=0),
    "from the end": lambda a: td.scanr1(td.add, a),
    "from the end, with a first value": lambda a: td.scanr(td.add, 0.5, a),
    "with a first value": lambda a: td.scanl(td.add, 0.5, a),
    "and the total": lambda a: td.scanl_total(td.add, 0.5, a),
    "columns from the end": lambda a: td.scanr1(td.add, a, 0),
    "columns, with a first value": lambda a: td.scanl(td.add, 0.5, a, 0),
    "columns from the end, with one": lambda a: td.scanr(td.add, 0.5, a, 0),
    "columns and their total": lambda a: td.scanl_total(td.add, 0.5, a, 0),
    "columns from the end and their total": lambda a: td.scanr_total(td.add, 0.5, a, 0),
    "columns without a neutral element": lambda a: td.scanr1(last, a, 0),
    "integers of columns and their total": lambda a: td.scanr_total(
        td.add, 3, td.cast(a * 99, td.int32), 0
    ),
    "a recurrence from the end": lambda a: td.scan(
        lambda s, v: (s * np.float32(0.5) + v, s - v),
        td.zeros(a.shape[1:], dtype=td.float32), a, reverse=True,
    ),
    "of columns": lambda a: td.cumsum(a.T, axis=0),
    "without a neutral element": lambda a: td.scanl1(last, a),
    "without one, with a first value": lambda a: td.scanl(last, 0.25, a),
    "pairs": lambda a: td.scanl1(affine, td.zip(a, a + 1)),
    "of a stencil": lambda a: td.cumsum(
        td.stencil(lambda w: w[(-1,) * a.ndim] + w[(1,) * a.ndim], a, boundary=td.clamp), axis=0
    ),
    "integers, with a first value": lambda a: td.scanl(td.add, 7, td.cast(a * 99, td.int32)),
    "integers from the end, with one": lambda a: td.scanr(td.add, 7, td.cast(a * 99, td.int32)),
    "integers and their total": lambda a: td.scanl_total(td.add, 3, td.cast(a * 99, td.int32)),
    "largest, and that of all": lambda a: td.scanl_total(td.maximum, -0.5, a),
    "segments": lambda a: td.scanl1_seg(td.add, a, segments(a)),
    "segments from the end": lambda a: td.scanr1_seg(td.add, a, segments(a)),
    "segments, with a first value": lambda a: td.scanl_seg(td.add, 0.5, a, segments(a)),
    "segments of integers": lambda a: td.scanl1_seg(
        td.add, td.cast(a * 99, td.int32), segments(a)
    ),
    "a recurrence": smoothed,
    "states": lambda a: td.scan(lambda s, v: (s + v, s), td.sum(a, axis=0), a)[1],
}  # fmt: skip


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are cut as large ones are."""
    monkeypatch.setattr(scans, "ALONE", 0)


@pytest.mark.usefixtures("large")
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SCANS)
def test_every_form_in_blocks(name: str) -> None:
    f, rng = SCANS[name], np.random.default_rng(3)
    for shape in ((50,), (37, 5), (20, 3, 4), (1, 3), (3, 1)):
        a = numbers(shape)
        for _ in range(2):
            check(f, a, tuple(random_sizes(rng, n) for n in shape))


@pytest.mark.usefixtures("large")
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SCANS)
def test_long_rows_in_blocks(name: str) -> None:
    """By the blocks of the kernel, of which a row has several."""
    f, rng = SCANS[name], np.random.default_rng(4)
    for shape in ((50_000,), (32_768,), (3, 40_000), (18, 17_000), (16, 53), (2, 2, 4, 16)):
        a = numbers(shape) if len(shape) == 1 else np.ascontiguousarray(numbers(shape).T)
        for _ in range(2):
            check(f, a, tuple(random_sizes(rng, n) for n in a.shape))
            g = (lambda a: f(a.T)) if len(shape) == 2 and "pairs" not in name else f
            check(g, a, tuple(random_sizes(rng, n) for n in a.shape))


def random_sizes(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    ends = sorted({0, n, *rng.integers(0, n + 1, size=int(rng.integers(0, 5))).tolist()})
    return tuple(np.diff(ends).tolist()) or (0,)


@pytest.mark.usefixtures("large")
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SCANS)
def test_every_form_from_files(name: str) -> None:
    """Blocks that begin where others ended are computed in order, and what these wrote is read."""
    for shape, memory in (((3000, 40), "100 kB"), ((70_001,), "1 MB"), ((1, 70_001), "1 MB")):
        a = numbers(shape)
        wanted = flat(td.jit(SCANS[name], backend="native")(a))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = flat(td.stream(SCANS[name], a, memory=memory))
        for g, w in zip(found, wanted, strict=True):
            assert np.asarray(g).tobytes() == np.asarray(w).tobytes(), shape


def blocks_of(f: F, a: Any) -> list[str]:
    """The stages of a function of an array of dask, each with its notes."""
    text = td.jit(f).lower(a).explain("dask")
    return re.split(r"\n  (?=\d+\. )", text[text.index("On arrays") :].split("\n\n")[0])[1:]


def test_columns_go_on_from_block_to_block() -> None:
    """One stage, whose results have the chunks of the array, and nothing is moved but states."""
    a = numbers((4000, 500))
    given = da.from_array(a, chunks=(500, 250))
    (stage,) = blocks_of(lambda a: td.cumsum(a, axis=0) * 2, given)
    assert "grid of 8 × 2 blocks" in stage and "of which 0 B from other chunks" in stage
    (made,) = check(lambda a: td.cumsum(a, axis=0) * 2, a, given.chunks)
    assert made.chunks == given.chunks
    tasks = [t for t in made.dask.to_dict().values() if isinstance(t, tuple)]
    assert sum(t[0] is worker.computed for t in tasks) == 16
    assert len(made.dask.to_dict()) <= 4 * 16 + 1  # chunks, blocks, and their results


def test_a_long_row_is_three_stages() -> None:
    a = numbers((1 << 20,))
    given = da.from_array(a, chunks=1 << 17)
    stages = blocks_of(td.cumsum, given)
    assert [re.search(r"(\d+) task", s)[1] for s in stages] == ["8", "1", "8"]  # type: ignore[index]
    (made,) = check(td.cumsum, a, given.chunks)
    assert made.chunks == given.chunks


def test_rows_go_on_from_block_to_block() -> None:
    """Many rows, whose kernel makes several steps together: blocks may begin within a group."""
    for dtype in (np.float16, np.float32, np.complex64):
        a = numbers((20, 40_000)).astype(dtype)
        given = da.from_array(a, chunks=((20,), (10_003, 9_997, 1, 19_999)))
        (stage,) = blocks_of(lambda a: td.cumsum(a, axis=1), given)
        assert "grid of 1 × 4 blocks" in stage and "of which 0 B from other chunks" in stage
        (made,) = check(lambda a: td.cumsum(a, axis=1), a, given.chunks)
        assert made.chunks == given.chunks
        # The chunks, and for each its block, the state that it hands on, and its result.
        assert len(made.dask.to_dict()) <= 4 * (1 + 3) + 2
        check(lambda a: td.cumsum(td.sin(a), axis=1) * 2, a, given.chunks)


def test_small_rows_stay_complete() -> None:
    a = da.from_array(numbers((20, 4_000)), chunks=(20, 1_000))
    (stage,) = blocks_of(lambda a: td.cumsum(a, axis=1), a)
    assert "axis 1 is complete: it is small" in stage


@pytest.mark.usefixtures("large")
def test_states_travel_without_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between processes, a block gets the states before it, not the chunks they come from."""
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    monkeypatch.setattr(block_tasks, "WORTH", 0)
    for f in (lambda a: td.cumsum(a, axis=0), smoothed, lambda a: td.scanr1(td.add, a)):
        check(f, numbers((60, 30)), (13, 7))
