"""Folds of segments on chunks: blocks of whole segments, with the bits of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import plan, tasks as block_tasks
from treadle.backend.dask import graph, worker

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

F = Callable[..., Any]


def lengths_of(rng: np.random.Generator, n: int, count: int) -> np.ndarray:
    """Lengths that add up to n; some are 0, and with few segments one is most of them."""
    ends = np.sort(rng.integers(0, n + 1, size=count - 1))
    if count < 8:
        ends = ends // 50
    return np.diff([0, *ends, n])


def sizes_of(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    ends = sorted({0, n, *rng.integers(0, n + 1, size=int(rng.integers(1, 7))).tolist()})
    return tuple(np.diff(ends).tolist()) or (0,)


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


#: Functions of a float32 array, of which segments are folded, the lengths, and a number.
FOLDS: dict[str, F] = {
    "sums": lambda a, l, s: td.fold_seg(td.add, 0.0, a, l),
    "of sines": lambda a, l, s: td.fold_seg(td.add, 1.0, td.sin(a) * s, l),
    "a number in the function": lambda a, l, s: td.fold_seg(
        lambda x, y: x + y + s * x * y, s, a, l
    ),
    "scaled": lambda a, l, s: td.fold_seg(td.add, 0.0, a, l) * s + td.cast(l, td.float32),
    "extremes": lambda a, l, s: (
        td.fold_seg(td.maximum, -9.0, a, l), td.fold_seg(td.minimum, 9.0, a, l)
    ),
    "integers": lambda a, l, s: td.fold_seg(td.add, 5, td.cast(a * 99, td.int16), l),
    "pairs": lambda a, l, s: td.fold_seg(
        lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (1.0, 0.0), td.zip(a, a + 1), l
    ),
    "of neighbours": lambda a, l, s: td.fold_seg(
        td.add, 0.0, td.stencil(lambda w: w[-1] + w[1], a, boundary=td.clamp), l
    ),
    "deterministic": lambda a, l, s: td.jit(
        lambda a, l: td.fold_seg(td.add, 0.0, a, l), deterministic=True)(a, l),
}  # fmt: skip


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are cut as large ones are."""
    monkeypatch.setattr(plan, "FEW", 0)


def check(f: F, a: np.ndarray, lengths: np.ndarray, chunks: Any, of_lengths: Any = None) -> Any:
    given = lengths if of_lengths is None else da.from_array(lengths, chunks=of_lengths)
    made = flat(td.jit(f)(da.from_array(a, chunks=chunks), given, np.float32(0.5)))
    wanted = flat(td.jit(f, backend="native")(a, lengths, np.float32(0.5)))
    for g, found, w in zip(made, dask.compute(*made, scheduler="sync"), wanted, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        assert found.tobytes() == w.tobytes(), (chunks, lengths)
    return made


@pytest.mark.usefixtures("large")
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FOLDS)
def test_segments_in_blocks(name: str) -> None:
    rng = np.random.default_rng(8)
    for n, count in ((1000, 90), (3000, 5), (40, 700), (1, 3), (17, 1)):
        a = rng.standard_normal(n).astype(np.float32)
        for k in range(2):
            lengths = lengths_of(rng, n, count)
            check(FOLDS[name], a, lengths, (sizes_of(rng, n),), sizes_of(rng, count) if k else None)


@pytest.mark.usefixtures("large")
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["sums", "integers", "pairs"])
def test_between_processes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    monkeypatch.setattr(block_tasks, "WORTH", 0)
    rng = np.random.default_rng(9)
    a = rng.standard_normal(5000).astype(np.float32)
    check(FOLDS[name], a, lengths_of(rng, 5000, 300), 700, 100)


@pytest.mark.usefixtures("large")
def test_segments_of_rows_are_cut_by_rows() -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((30, 200)).astype(np.float32)
    lengths = lengths_of(rng, 200, 12)
    (made,) = check(FOLDS["of sines"], a, lengths, ((7, 13, 10), (90, 110)))
    assert made.chunks == ((7, 13, 10), (12,))


@pytest.mark.usefixtures("large")
def test_lengths_are_still_checked() -> None:
    a = da.from_array(np.arange(100.0), chunks=30)
    made = td.jit(lambda a, l: td.fold_seg(td.add, 0.0, a, l))(a, da.from_array(np.array([70, 31])))
    with pytest.raises(td.ShapeError, match="sum to 101, but the axis has extent 100"):
        made.compute(scheduler="sync")


def test_a_block_takes_what_its_segments_have() -> None:
    """Two tasks for each chunk, one for its elements, and those that find where segments are."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal(1 << 20).astype(np.float32)
    lengths = rng.multinomial(len(a), np.ones(4000) / 4000)
    (made,) = check(FOLDS["of sines"], a, lengths, 1 << 17, 1000)
    assert made.chunks == ((500,) * 8,)
    tasks = [t for t in made.dask.to_dict().values() if isinstance(t, tuple)]
    assert sum(t[0] is worker.computed for t in tasks) <= 2 * 8 + 9


@pytest.mark.usefixtures("large")
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["sums", "integers", "pairs", "scaled"])
def test_segments_of_files(name: str) -> None:
    rng = np.random.default_rng(6)
    a = rng.standard_normal(300_000).astype(np.float32)
    lengths = lengths_of(rng, len(a), 3000)
    f = FOLDS[name]
    wanted = flat(td.jit(f, backend="native")(a, lengths, np.float32(0.5)))
    found = flat(td.stream(f, a, lengths, np.float32(0.5), memory="1 MB"))
    assert [g.tobytes() for g in found] == [w.tobytes() for w in wanted]


def test_a_segment_that_does_not_fit_is_told() -> None:
    a, lengths = np.ones(1_000_000, np.float32), np.array([10] * 50 + [999_500])
    with pytest.raises(td.MemoryLimitExceeded, match="go to one block"):
        td.stream(lambda a, l: td.fold_seg(td.add, 0.0, a, l), a, lengths, memory="2 MB")
