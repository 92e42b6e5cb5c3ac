"""Results whose extents depend on data have known chunks, and the bits of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import plan
from treadle.backend.dask.stream import Stream

from .test_arrays import da, flat, matrix


def near(w: Any) -> Any:
    return w[-1, 0] - w[0, 0]


def steep(a: Any) -> Any:
    s = td.stencil(near, a, boundary=td.clamp)
    return s[s > 0.2]


def twice(a: Any) -> Any:
    b = a[a > 0.3]
    return td.sort(b[b < 0.8]), td.sum(b)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "compact": lambda a: td.compact(a > 0.5, a),
    "filter": lambda a: td.filter(lambda x: x > 0.5, a),
    "mask": lambda a: a[a > 0.5] * 2,
    "none": lambda a: a[a > 2],
    "all": lambda a: a[a < 2],
    "rows": lambda a: a[a[:, 0] > 0.3],
    "one of columns": lambda a: td.compact(a[:, 0] > 0.5, a[:, 1])[0],
    "nonzero": lambda a: td.nonzero(a > 0.5),
    "of a stencil": steep,
    "twice": twice,
    "several": lambda a: (a[a[:, 0] > 0.5], a[a[:, 1] < 0.2], td.compact(a > 0.4, a)[1]),
    "states of a loop": lambda a: td.iterate(3, lambda s: td.roll(s, 1) + a.sum(), a[a > 0.7]),
    "unique": lambda a: td.unique(td.cast(a * 10, td.int32)),
    "repeat": lambda a: td.repeat(a[:, 0], td.cast(a[:, 1] * 3, td.int64)),
    "bincount": lambda a: td.bincount(td.cast(a.ravel() * 9, td.int64)),
    "expand": lambda a: td.expand(
        lambda x: td.cast(x * 4, td.int64), lambda x, k: x + td.cast(k, td.float32), a),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_of_one_machine(name: str) -> None:
    f, a = PROGRAMS[name], matrix((100, 7))
    wanted = flat(td.jit(f, backend="native")(a))
    for chunks in ((30, 7), (100, 3), ((1, 0, 60, 39), (4, 3))):
        got = flat(td.jit(f)(da.from_array(a, chunks=chunks)))
        for g, found, w in zip(got, dask.compute(*got, scheduler="threads"), wanted, strict=True):
            assert g.shape == w.shape, "the extents are known"
            assert np.asarray(found).tobytes() == w.tobytes(), chunks
    for got, w in zip(flat(td.stream(f, a, memory=100_000)), wanted, strict=True):
        assert np.asarray(got).tobytes() == w.tobytes()


def test_of_one_element() -> None:
    for a in np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32):
        found = td.jit(lambda a: a[a > 0.5])(da.from_array(a)).compute()
        assert found.tolist() == a[a > 0].tolist()


def test_numbers_that_are_planned_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of an exchange."""
    monkeypatch.setattr(plan, "FEW", 0)
    a = matrix((100, 7))
    got = td.jit(lambda a: td.sort(a[a > 0.5]))(da.from_array(a, chunks=(30, 7)))
    assert np.array_equal(got.compute(scheduler="synchronous"), np.sort(a[a > 0.5]))
    found = td.stream(lambda a: td.sort(a[a > 0.5]), a, memory=40_000)
    assert np.array_equal(found, np.sort(a[a > 0.5]))


def test_a_chunk_has_what_is_selected_of_a_chunk() -> None:
    """One task for each computes it, which reads nothing else."""
    a = matrix((100, 7))
    given = da.from_array(a, chunks=(30, 7))
    rows = td.jit(PROGRAMS["rows"])(given)
    counts = [int((part[:, 0] > 0.3).sum()) for part in (a[k : k + 30] for k in (0, 30, 60, 90))]
    assert rows.chunks == (tuple(counts), (7,))
    taken = next(name for name in rows.dask.layers if "take" in name)
    tasks = [t for k, t in rows.dask.to_dict().items() if k[0] == taken]
    assert len(tasks) == 4 and all(len(task) == 3 + 2 for task in tasks), "indices and rows"


def test_what_is_selected_of_a_file_fits_in_memory() -> None:
    a = np.random.default_rng(1).random((4000, 32)).astype(np.float32)
    program = td.jit(lambda a: a[a[:, 0] > 0.9], backend="dask").lower(a)
    stream = Stream(program, [a], (), 200_000)
    assert np.array_equal(*stream.run([None], lambda *_: None), a[a[:, 0] > 0.9])
    assert stream.total > 3 * 8, "the plan grows"
    with pytest.raises(td.ShapeError, match="no out can have them"):
        td.stream(lambda a: a[a > 0.5], a, out=np.empty(5, np.float32))
    with pytest.raises(td.MemoryLimitExceeded, match=r"a block of segments.*memory="):
        td.stream(lambda a: td.repeat(a[:, 0], td.cast(a[:, 1], td.uint8)), a, memory=20_000)


def test_explain_says_what_is_planned_later() -> None:
    report = (
        td.jit(PROGRAMS["rows"]).lower(da.from_array(matrix((100, 7)), chunks=30)).explain("dask")
    )
    assert "and what follows: planned when the function is called" in report
    assert "depend on what arrays hold: count" in report


def test_in_the_body_of_a_loop_it_is_refused() -> None:
    def f(a: Any) -> Any:
        return td.while_loop(lambda u: u.shape[0] > 9, lambda u: u[u > td.mean(u)], a)

    with pytest.raises(td.DistributionError, match=r"while_loop|compact"):
        td.jit(f)(da.from_array(matrix((50, 2))[:, 0].copy(), chunks=20))


def test_repeats_of_many_elements_are_in_chunks() -> None:
    """Counts are checked when the function is called, as the extent of the result is known then."""
    rng = np.random.default_rng(8)
    x, counts = rng.random(400_000), rng.integers(0, 4, 400_000)
    given = da.from_array(x, chunks=50_000), da.from_array(counts, chunks=50_000)
    f = td.jit(lambda x, c: td.repeat(x, c))
    made = f(*given)
    assert len(made.chunks[0]) == 8
    assert np.array_equal(made.compute(scheduler="synchronous"), np.repeat(x, counts))
    assert "computed whole" not in f.lower(*given).explain("dask")
    with pytest.raises(td.ShapeError, match="a number of repeats is negative, -1"):
        f(given[0], given[1] - 1)
