"""Programs on arrays of dask have the bits that they have on one machine, whatever the chunks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import tasks as block_tasks
from treadle.backend.blocks.memory import elements
from treadle.backend.dask import executable, graph, worker

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


def cross(w: Any) -> Any:
    return w[-1, 0] + 2 * w[1, 0] - w[0, -1] + w[0, 1] * 3 - 4 * w[0, 0]


def far(w: Any) -> Any:
    return w[-8, 0] - 2 * w[1, 7] + w[0, -1]


def position(i: Any, j: Any) -> Any:
    return td.cast(i * 100 + j, td.float32)


def last(x: Any, y: Any) -> Any:
    """The last that is not 0: associative, not commutative."""
    return td.where(y != 0, y, x)


def both(v: Any) -> Any:
    """A stencil, and again at other places."""
    return td.stencil(lambda w: w[-2, 0], v) + v


BOUNDARIES = {
    "clamp": td.clamp,
    "mirror": td.mirror,
    "symmetric": td.symmetric,
    "wrap": td.wrap,
    "constant": td.constant(3.0),
    "function": td.function(position),
}

#: Functions of one float32 matrix.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "map": lambda a: td.sqrt(a) * 2 + 1,
    "indices": lambda a: td.sqrt(a) * td.generate(a.shape, position),
    "extents": lambda a: a * td.cast(a.shape[0] * 7 + a.shape[1], td.float32),
    "transpose": lambda a: a.T + 1,
    "difference": lambda a: a[1:] - a[:-1],
    "diagonal": lambda a: td.cos(td.diagonal(a, 2)),
    "strides": lambda a: a[::2, ::-1],
    "reshape": lambda a: td.reshape(a, (a.shape[1], a.shape[0])),
    "concatenate": lambda a: td.concatenate([a, a * 2], axis=0),
    "roll": lambda a: td.roll(a, 3, axis=0) - td.roll(a, -5, axis=1),
    "gather": lambda a: a[td.argsort(a[:, 0])],
    "far roll": lambda a: td.roll(a, 10**8 + 7, axis=0) * td.roll(a, (-20, 31), axis=(0, 1))[::-1],
    "tile": lambda a: td.tile(a, (2, 3)),
    "moved by an array": lambda a: a[td.clip(td.arange(a.shape[0]) - 2, 0, a.shape[0] - 1)],
    "repeated": lambda a: td.resize(td.repeat(a[:, 0], 3), (400,)),
    "neighbours in two ways": lambda a: (
        td.stencil(cross, a, boundary=td.wrap) * a[::-1] + td.stencil(far, a, boundary=td.clamp)
    ),
    **{f"pad {mode}": lambda a, mode=mode: td.pad(a, ((9, 2), (1, 40)), mode=mode)
       for mode in ("constant", "edge", "symmetric", "wrap")},
    "pad reflect": lambda a: td.pad(td.concatenate([a, a * 2, a], axis=1)[:, :3],
                                    ((0, 0), (9, 2)), mode="reflect"),
    "rows": lambda a: a.sum(axis=1),
    "loops inside": lambda a: td.iterate(
        3, lambda u: td.iterate(2, lambda v: v + td.cumsum(v, axis=1), u) * np.float32(0.5), a
    ),
    "columns": lambda a: a.sum(axis=0),
    "total": lambda a: a.sum(),
    "mean": lambda a: (a - td.mean(a, axis=0)) / td.std(a, axis=0),
    "extremes": lambda a: (a.max(), a.min(axis=0), td.argmax(a), td.argmin(a, axis=1)),
    "exact sums": lambda a: (
        td.sum(td.cast(a * 1000, td.int32)),
        td.sum(td.cast(a * 1000, td.int64), axis=0),
    ),
    "scan": lambda a: td.cumsum(a, axis=1),
    "integer scans": lambda a: (
        td.cumsum(td.cast(a * 99, td.int32), axis=0),
        td.cumsum(td.cast(a * 99, td.int32), axis=1) * 2,
    ),
    "scans to the left": lambda a: (
        td.scanr1(td.maximum, a.T[:, ::-1]),
        td.scanl1(last, td.cast(a * 3, td.int32)),
        td.scanr1(last, td.cast(a * 3, td.int32)),
        td.scanl(td.minimum, 0.5, a),
    ),
    "sort": lambda a: td.sort(a, axis=1),
    "product": lambda a: (
        td.cast(a * 50, td.int32) @ td.cast(a.T * 50, td.int32),
    ),
    "histogram": lambda a: td.histogram(a, bins=10, range=(0.0, 1.0)),
    "counts": lambda a: td.bincount(td.cast(a * 20, td.int32).ravel(), length=32),
    "largest at": lambda a: td.fill((7, 5), td.int32(3)).at[
        td.cast(a * 6, td.int32).ravel(), td.cast(a * 4, td.int32).ravel()
    ].max(td.cast(a * 1000, td.int32).ravel()),
    "sums at": lambda a: td.fill(20, td.float32(0)).at[td.cast(a * 19, td.int32).ravel()].add(
        a.ravel()),
    "blurred twice": lambda a: td.stencil(
        cross, td.stencil(far, a, boundary=td.mirror), boundary=td.mirror
    ),
    "a function beyond the edges of two buffers": lambda a: both(
        td.stencil(cross, a, boundary=td.function(position))
    ),
    "segments": lambda a: (
        td.fold_seg(lambda x, y: x + y, 0.0, a[0, :7], np.array([3, 0, 4])),
        td.scanl1_seg(td.maximum, a.T[:, :6], td.cast(a[0, :3] * 0 + 2, td.int32)),
    ),
    "maximum of a stencil": lambda a: td.max(td.stencil(cross, a, boundary=td.clamp)),
    **{f"cross {name}": lambda a, b=b: td.stencil(cross, a, boundary=b)
       for name, b in BOUNDARIES.items()},
    **{f"far {name}": lambda a, b=b: td.stencil(far, a, boundary=b)
       for name, b in BOUNDARIES.items()},
}  # fmt: skip


def chunked(a: np.ndarray, rng: np.random.Generator) -> Any:
    """An array of dask with random chunks, some of one element."""
    chunks = []
    for n in a.shape:
        cuts = rng.integers(0, n + 1, size=int(rng.integers(0, 5)))
        ends = sorted({0, n, *cuts.tolist()})
        chunks.append(tuple(np.diff(ends).tolist()) or (0,))
    return da.from_array(a, chunks=tuple(chunks))


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def check(f: Callable[..., Any], a: np.ndarray, seed: int, scheduler: str = "synchronous") -> None:
    rng = np.random.default_rng(seed)
    given = chunked(a, rng)
    got = flat(td.jit(f)(given))
    assert all(isinstance(g, da.Array) for g in got)
    wanted = flat(td.jit(f, backend="native")(a))
    for g, found, w in zip(got, dask.compute(*got, scheduler=scheduler), wanted, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        assert np.shape(found) == w.shape and np.asarray(found).dtype == w.dtype
        same = np.asarray(found).tobytes() == w.tobytes()
        assert same, f"chunks {given.chunks}: {np.argwhere(np.asarray(found) != w)[:4]}"


def matrix(shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(7).random(shape).astype(np.float32)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_of_one_machine(name: str) -> None:
    for seed in range(3):
        check(PROGRAMS[name], matrix((37, 53)), seed)


def of_data(v: Any) -> Any:
    return v[td.arange(v.shape[0] - 3) + 3]


@pytest.mark.parametrize("f, tasks", [
    (lambda v: td.pad(v, 3, mode="edge"), 10),
    (lambda v: td.pad(v, 3, mode="wrap"), 10),
    (lambda v: td.pad(v, (400_000, 0), mode="reflect"), 10),
    (lambda v: td.roll(v, 3), 10),
    (lambda v: td.roll(v, 432_100), 11),
    (lambda v: td.tile(v, 3), 30),
    (lambda v: td.resize(v, (2_500_000,)), 25),
    (lambda v: td.concatenate([v, 2 * v, v]), 30),
    (lambda v: td.sliding_window_view(v, 4), 10),
    (lambda v: td.reshape(v, (1000, 1000)), 10),
    (lambda v: td.mean(td.reshape(v, (-1, 4)), axis=1), 10),
    (of_data, 10),
])  # fmt: skip
def test_what_moves_elements_is_cut_like_its_argument(f: Callable[..., Any], tasks: int) -> None:
    """Blocks are as many as chunks, and no task reads more than a few chunks."""
    a = np.random.default_rng(2).random(1_000_000)
    x = da.from_array(a, chunks=100_000)
    made = td.jit(f)(x)
    assert made.compute(scheduler="sync").tobytes() == td.jit(f, backend="native")(a).tobytes()
    program = td.jit(f).lower(x)
    stages = list(program.executable.plan([x], ()).every())
    assert max(block_tasks.count(s.blocks) for s in stages) == tasks
    for stage in stages:
        assert all(elements(b) <= 500_001 for b in stage.blocks.buffers)


@pytest.mark.long
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_of_one_machine_for_many_chunks(name: str, scheduler: str) -> None:
    shapes = [(37, 53), (12, 9), (1, 40), (40, 1), (1, 1), (130, 700)]
    for seed, shape in enumerate(shapes * 4):
        if name != "segments" or min(shape) > 6:  # which have lengths of their own
            check(PROGRAMS[name], matrix(shape), seed, scheduler)


def test_periodic_indices_of_few_bits() -> None:
    a = np.arange(62).reshape(2, 31)
    f = td.jit(lambda a, n: a[:, td.cast(td.cast(n, td.uint8), td.int64) % a.shape[1]])
    made = f(da.from_array(a, chunks=(1, 10)), 2**32 + 40)
    assert made.compute(scheduler="sync").tolist() == [9, 40]


def test_results_that_are_arguments_have_the_bytes_of_this_machine() -> None:
    for dtype in (">i4", "<i4", ">f8"):
        a = np.arange(6, dtype=dtype)
        same, twice = td.jit(lambda a: (a, a * 2))(da.from_array(a, chunks=2))
        assert same.dtype == same.compute().dtype == twice.dtype == a.dtype.newbyteorder("=")
        assert np.array_equal(same.compute(), a)
        streamed = td.stream(td.jit(lambda a: (a, a * 2)), a, memory="1 MB")[0]
        assert streamed.dtype == a.dtype.newbyteorder("=") and np.array_equal(streamed, a)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["map", "transpose", "cross clamp", "rows", "exact sums"])
def test_empty_arrays(name: str) -> None:
    for shape in [(0, 5), (5, 0)]:
        check(PROGRAMS[name], matrix(shape), 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["largest at", "integer scans", "total", "cross wrap", "roll"])
def test_short_arrays(name: str) -> None:
    for seed, shape in enumerate([(1, 1), (1, 40), (40, 1), (2, 3)]):
        check(PROGRAMS[name], matrix(shape), seed)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are made as for worker processes, to which it is worth sending any part of a chunk."""
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    monkeypatch.setattr(block_tasks, "WORTH", 0)


@pytest.mark.sample(2)
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["cross wrap", "far mirror", "transpose", "roll", "strides"])
def test_strips_between_processes(name: str) -> None:
    """Tasks get small parts of the chunks of other workers, not the chunks."""
    for seed in range(3):
        check(PROGRAMS[name], matrix((37, 53)), seed)


def counted(chunk: int) -> tuple[list[Any], dict[Any, Any]]:
    """The blocks and the strips of a stencil on 3 × 3 chunks of so many rows and columns."""
    a = da.zeros((3 * chunk, 3 * chunk), chunks=chunk, dtype=np.float32)
    made = td.jit(PROGRAMS["cross clamp"])(a).dask.to_dict()
    tasks = [t for t in made.values() if isinstance(t, tuple) and t[0] is worker.computed]
    strips = {k: t for k, t in made.items() if isinstance(t, tuple) and t[0] is worker.strip_of}
    return tasks, strips


@pytest.mark.usefixtures("processes")
def test_a_task_reads_one_chunk_and_strips() -> None:
    """Both edges of a chunk along an axis are one strip, which corners are read from, too."""
    tasks, strips = counted(30)
    middle = next(t for t in tasks if len(t) == 3 + 9)
    assert sum(key in strips for key in middle[3:]) == 8
    assert len(tasks) == 9 and len(strips) <= 2 * 9
    shapes = {worker.strip_of(np.zeros((30, 30)), cut).shape for _, _, cut in strips.values()}
    assert shapes == {(2, 30), (30, 2), (1, 30), (30, 1)}


def test_small_chunks_are_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that takes less time than the task of a strip."""
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    assert not counted(64)[1] and counted(1024)[1]


@pytest.mark.usefixtures("processes")
def test_parts_of_one_large_chunk_are_cut_for_each_task() -> None:
    a, b = matrix((64, 64)), matrix((64, 64)) + 1
    f = td.jit(lambda x, y: x * y.T + td.roll(y, 1))
    got = f(da.from_array(a, chunks=8), da.from_array(b, chunks=64))
    wanted = td.jit(lambda x, y: x * y.T + td.roll(y, 1), backend="native")(a, b)
    assert got.compute(scheduler="synchronous").tobytes() == wanted.tobytes()


def test_numpy_arrays_are_computed_at_once() -> None:
    a = matrix((5, 6))
    got = td.jit(lambda x: x * 2, backend="dask")(a)
    assert type(got) is np.ndarray and np.array_equal(got, a * 2)


def test_results_share_no_memory() -> None:
    a = matrix((5, 6))
    first, second, third = td.jit(lambda x: (x, x, x[:2]), backend="dask")(a)
    first[...] = 1
    second[...] = 2
    assert (first == 1).all() and np.array_equal(third, a[:2]) and not (a == 2).any()


def test_arrays_and_numbers_together() -> None:
    a, b = matrix((20, 30)), matrix((20, 30))[::-1].copy()
    f = td.jit(lambda x, y, s: x * s + y)
    got = f(da.from_array(a, chunks=(7, 30)), b, 2.5)
    assert got.chunks == ((7, 7, 6), (30,))
    assert np.array_equal(got.compute(), td.jit(lambda x, y, s: x * s + y)(a, b, 2.5))


def test_run_takes_arrays_of_dask() -> None:
    a = matrix((20, 30))
    got = td.run(td.use(da.from_array(a, chunks=8)) + 1)
    assert isinstance(got, da.Array) and np.array_equal(got.compute(), a + 1)


def test_arrays_of_treadle_have_values() -> None:
    """What is written without `jit` is computed by dask, once, where a value is needed."""
    a = matrix((20, 30))
    total = td.sum(da.from_array(a, chunks=8))
    assert np.isclose(float(total), a.sum())
    assert isinstance(td.run(total), np.ndarray)  # the value is kept
    rows = td.sort(da.from_array(a, chunks=8), axis=1)
    assert np.array_equal(rows, np.sort(a, axis=1))
    assert repr(td.use(da.from_array(np.int64(3))) + 1) == "Array(4)"
    lazy = td.jit(lambda x: x + 1)(td.use(da.from_array(a, chunks=8)) * 2)
    assert np.array_equal(lazy, a * 2 + 1)


def test_layers_have_the_names_of_operations() -> None:
    def smooth(a: Any) -> Any:
        return td.stencil(cross, a, boundary=td.clamp, name="five_points")

    got = td.jit(smooth)(da.from_array(matrix((20, 30)), chunks=10))
    assert any(dask.utils.key_split(name) == "smooth-five-points" for name in got.dask.layers)
    mean = td.jit(lambda a: td.mean(a, axis=0))(da.from_array(matrix((3000, 8)), chunks=(500, 8)))
    layers = {dask.utils.key_split(name) for name in mean.dask.layers}
    assert not any("leaves" in name for name in layers) and "lambda-mean" in layers
    spread = td.jit(lambda a: td.std(a, axis=0))(da.ones((40, 30), chunks=(10, 30)))
    assert {
        name for name in map(dask.utils.key_split, spread.dask.layers) if "sum" in name
    } == set()
    assert "lambda-std" in set(map(dask.utils.key_split, spread.dask.layers))
    again = td.jit(smooth)(da.from_array(matrix((20, 30)), chunks=10))
    assert got.name == again.name  # equal work has equal keys


def test_explain_says_what_is_rechunked_and_why() -> None:
    a, b = da.zeros((40, 30), chunks=(10, 10)), da.zeros((40, 30), chunks=(8, 30))

    def lines(f: Any, *args: Any) -> list[str]:
        text = td.jit(f).lower(*args).explain("dask")
        return [line.strip() for line in text.splitlines() if "rechunks" in line]

    assert lines(lambda a: td.sort(a, axis=1), a) == [
        "rechunks a: every block needs axis 1 whole, which is in 3 chunks"
    ]
    assert lines(lambda a, b: a + b, a, b) == [
        "rechunks b: blocks need up to 10 indices of axis 0, in chunks of up to 8"
    ]
    assert not lines(lambda a: a.T + 1, a)
    assert not lines(lambda a: td.stencil(cross, a, boundary=td.clamp), a)  # a halo


def test_different_parts_of_an_array_have_different_keys() -> None:
    a = np.arange(7)
    given = da.from_array(a, chunks=7)
    first, second = td.jit(lambda a: a[:3])(given), td.jit(lambda a: a[2:5])(given)
    assert first.name != second.name
    assert (first - second).compute().tolist() == [-2, -2, -2]


def test_segment_lengths_are_checked_in_their_task() -> None:
    def f(a: Any, lengths: Any) -> Any:
        return td.fold_seg(lambda x, y: x + y, 0.0, a, lengths)

    lazy = td.jit(f)(da.ones(9, chunks=4), da.from_array(np.array([3, 5]), chunks=1))
    with pytest.raises(td.ShapeError, match="the segment lengths sum to 8"):
        lazy.compute(scheduler="synchronous")


def test_blocks_whose_stores_cannot_be_counted_are_computed() -> None:
    """The model counts nothing where bounds of loops depend on where a block is."""
    weights, more = np.arange(9, dtype=np.int32).reshape(3, 3), np.ones((3, 3), np.uint16)

    def f(a: Any) -> Any:
        return td.convolve(a, a, boundary=td.wrap), td.map(lambda x, y: x * x - y * 3, more, a)

    for chunks in ((1, 2), (3, 3)):
        found = dask.compute(td.jit(f)(da.from_array(weights, chunks=chunks)))[0]
        for x, y in zip(found, td.jit(f, backend="reference")(weights), strict=True):
            assert np.array_equal(x, y)


def test_unknown_extents_are_refused() -> None:
    a = da.from_array(matrix((20, 30)), chunks=10)
    with pytest.raises(td.ShapeError, match="not known"):
        td.jit(lambda x: x * 2)(a[a[:, 0] > 0.5])


@pytest.mark.parametrize("step", [-1, 2, -3, 7, 100, -100])
def test_strided_reads_go_by_the_chunks_that_they_read(step: int) -> None:
    """However small the result: nothing comes from other chunks, and no task reads all of them."""
    a = np.random.default_rng(1).random((1000, 60)).astype(np.float32)
    given = da.from_array(a, chunks=((130, 1, 569, 300), (60,)))
    for f in (
        lambda a: a[::step],
        lambda a: a[3:990:step, ::-1] * 2 if step > 0 else a[990:3:step, ::-1] * 2,
        lambda a: td.generate((9, 60), lambda i, j: a[i * abs(step), j] + a[i * abs(step) + 4, j]),
    ):
        made, wanted = td.jit(f)(given), td.jit(f, backend="native")(a)
        assert made.compute(scheduler="synchronous").tobytes() == wanted.tobytes()
    text = td.jit(lambda a: a[::step]).lower(given).explain("dask")
    assert "of which 0 B from other chunks" in text
    made = td.jit(lambda a: a[::step])(given)
    ends = {0, *np.cumsum(given.chunks[0]).tolist()}
    kept = np.arange(1000)[::step]
    cuts = [k for k in range(1, len(kept)) if any(
        min(kept[k - 1 : k + 1]) < e <= max(kept[k - 1 : k + 1]) for e in ends)]  # fmt: skip
    assert np.cumsum(made.chunks[0]).tolist() == [*cuts, len(kept)]


def test_steps_that_calls_give_go_by_chunks() -> None:
    a = np.random.default_rng(1).random(10_000)
    given = da.from_array(a, chunks=1000)
    f = td.jit(lambda a, s: td.generate((20,), lambda i: a[i * s + 7]))
    made = f(given, 500)
    assert made.numblocks == (10,) and np.array_equal(made.compute(), a[7::500])


@pytest.mark.parametrize("name", ["rows", "total", "mean", "transpose", "sort", "argsort of rows"])
def test_what_needs_complete_rows_is_computed_in_as_many_as_fit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks of a row together are more than a task may use."""
    f = {**PROGRAMS, "argsort of rows": lambda a: td.argsort(a, axis=1)}[name]
    a = matrix((400, 1000))
    wanted = flat(td.jit(f, backend="native")(a))
    monkeypatch.setattr(executable, "limit", lambda: 800_000)
    given = da.from_array(a, chunks=(100, 100))
    for g, w in zip(flat(td.jit(f)(given)), wanted, strict=True):
        assert g.compute(scheduler="synchronous").tobytes() == w.tobytes()
    text = td.jit(f).lower(given).explain("dask")
    assert name != "rows" or "in parts of chunks: with whole ones, a task would need 800 kB" in text


def test_chunks_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of them would fit, but not while they are read."""
    monkeypatch.setattr(executable, "limit", lambda: 300_000)
    with pytest.raises(td.MemoryLimitExceeded, match="a block of multiply needs 800 kB"):
        td.jit(lambda a: a * 2)(da.from_array(matrix((400, 1000)), chunks=(100, 1000)))


def test_masked_arrays_are_refused() -> None:
    a = da.ma.masked_greater(da.from_array(matrix((20, 30)), chunks=10), 0.5)
    with pytest.raises(td.TracingError, match="would lose its mask"):
        td.jit(lambda x: td.sum(x))(a)


def delayed(a: Any, shape: tuple[int, ...], dtype: Any = np.float32) -> da.Array:
    """An array of one chunk, and what dask is told of it."""
    return da.from_delayed(dask.delayed(lambda: a)(), shape, dtype)


#: What is said of one chunk, or of the first of two, and what it is.
OTHER_CHUNKS = {
    "narrower": (lambda x: x + 1, delayed(matrix((6, 20)), (6, 30)), "(6, 20), and its array says"),
    "wider": (lambda x: td.sum(x), delayed(matrix((6, 40)), (6, 30)), "(6, 40), and its array"),
    "beside another": (lambda x: x + x.mT, delayed(matrix((6, 5)), (6, 6)), "(6, 5), and its"),
    "of another rank": (lambda x: x * 2, delayed(matrix((6,)), (6, 2)), "(6,), and its array says"),
    "shorter than a halo": (
        lambda x: td.stencil(lambda w: w[-1] + w[1], x, boundary=td.clamp),
        da.concatenate([delayed(matrix((1,)), (6,)), delayed(matrix((6,)), (6,))]),
        "(0,), and its array says (1,)",
    ),
    "a part": (lambda x: x[2:-1], delayed(matrix((3, 2)), (6, 2)), "(1, 2), and its array says"),
    "other elements": (
        lambda x: x + 1, delayed(matrix((6,)), (6,), np.int64),
        "has the dtype int64, and parts of it have float32",
    ),
    "wider elements": (
        lambda x: td.sum(x), delayed(matrix((6,)), (6,), np.float64), "parts of it have float32",
    ),
    "masked": (
        lambda x: x + 1,
        da.ones(6, chunks=3).map_blocks(lambda c: np.ma.masked_equal(c, 1), meta=np.ones(0)),
        "would lose its mask",
    ),
}  # fmt: skip


@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize("name", OTHER_CHUNKS)
def test_chunks_that_are_not_what_their_array_says(
    name: str, workers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels read them as what the array says; dask itself does not look."""
    monkeypatch.setattr(graph, "has_workers", lambda: workers)
    monkeypatch.setattr(block_tasks, "WORTH", 0)
    f, x, said = OTHER_CHUNKS[name]
    with pytest.raises(td.TreadleError, match=re.escape(said)) as raised:
        td.jit(f)(x).compute(scheduler="synchronous")
    assert raised.value.where is not None and raised.value.where.file == __file__


def test_chunks_of_other_classes_with_the_same_elements() -> None:
    """Scalars of NumPy, other orders of bytes, masks without a masked element."""
    a = matrix((6,))
    for x in (delayed(a.astype(">f4"), (6,), ">f4"), delayed(np.ma.array(a), (6,))):
        assert np.array_equal(td.jit(lambda x: x + 1)(x).compute(), a + 1)
    one = td.jit(lambda x: x + 1)(da.from_array(a, chunks=2).max())
    assert one.compute() == a.max() + 1


def test_checked_programs_are_refused() -> None:
    with pytest.raises(td.DistributionError, match="checked mode"):
        td.run(td.use(da.from_array(matrix((4, 5)), chunks=2)) + 1, check=True)


def test_an_array_of_treadle_beside_one_of_dask() -> None:
    """A key of random numbers, also in a structure: results are arrays of dask."""
    x, key = np.arange(600.0).reshape(30, 20), td.random.key(1)
    noisy = td.jit(lambda x, s: {"x": x + td.random.normal(s["key"], x.shape, td.float64)})
    for _ in range(2):
        found = noisy(da.from_array(x, chunks=(8, 20)), {"key": key})["x"]
        assert isinstance(found, da.Array)
        wanted = noisy(x, {"key": np.asarray(key)})["x"]
        assert isinstance(wanted, np.ndarray) and np.array_equal(found.compute(), wanted)


#: Functions of many matrices, and how they are computed.
BY_LIBRARY: dict[str, Callable[..., Any]] = {
    "rfft": lambda a: td.fft.rfft(a, axis=1),
    "fft along the first axis": lambda a: abs(td.fft.fft(a, axis=0)),
    "irfft": lambda a: td.fft.irfft(td.fft.rfft(a), n=a.shape[2] + 1),
    "fft2": lambda a: td.fft.fft2(a),
    "of all axes": lambda a: td.fft.fftn(a),
    "solve": lambda a: td.linalg.solve(a, a[:, :, :3] + 1),
    "solve for the same sides": lambda a: td.linalg.solve(a, a[0, :, :3] + 1),
    "solve with the same matrix": lambda a: td.linalg.solve(a[0], a[:, :, :3] + 1),
    "solve_triangular": lambda a: td.linalg.solve_triangular(a, a[0, :, :3], "T", lower=True),
    "inv": lambda a: td.linalg.inv(a) * 2,
    "slogdet": lambda a: td.linalg.slogdet(a),
    "eigh": lambda a: td.linalg.eigh(a + a.mT),
    "svd": lambda a: td.linalg.svd(a, full_matrices=False),
    "qr": lambda a: td.linalg.qr(a[:, :, :4]),
    "cholesky": lambda a: td.linalg.cholesky(a @ a.mT),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("n", [5, 24])  # small matrices have kernels
@pytest.mark.parametrize("name", BY_LIBRARY)
def test_rows_and_matrices_of_libraries(name: str, n: int) -> None:
    a = np.random.default_rng(n).random((20, n, n)) + n * np.eye(n)
    f = td.jit(BY_LIBRARY[name])
    found, wanted = f(da.from_array(a, chunks=(7, 4, n))), f.on("native")(a)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for x, y in zip(found, wanted, strict=True):
        assert np.array_equal(x.compute(), y)
        assert name == "of all axes" or max(x.numblocks) > 1
