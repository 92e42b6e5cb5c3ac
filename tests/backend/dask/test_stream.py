"""`td.stream`: files larger than the memory that blocks may use."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks.buffers import Whole
from treadle.backend.dask import files, stream

from .test_arrays import PROGRAMS, flat, matrix
from .test_loops import smooth

ROOT = Path(__file__).resolve().parents[3]


def heat(u: Any, n: Any) -> Any:
    return td.iterate(n, lambda u: td.stencil(smooth, u, boundary=td.clamp), u)


@pytest.fixture
def plate() -> np.ndarray:
    return np.random.default_rng(0).random((900, 700)).astype(np.float32)


def mapped(path: Path, a: np.ndarray) -> Any:
    made = np.memmap(path, a.dtype, "w+", shape=a.shape)
    made[...] = a
    return made


@pytest.mark.parametrize("where", ["result", "temporary file"])
def test_a_full_disk_is_an_error_before_anything_is_written(
    where: str, tmp_path: Path, plate: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing to the pages of a file without room would end the process."""

    def full(file: int, offset: int, size: int) -> None:
        if (where == "result") == (size == plate.nbytes and offset == 128):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    out = np.lib.format.open_memmap(tmp_path / "b.npy", "w+", plate.dtype, plate.shape)
    with pytest.raises(td.StorageError, match=r"no room for the 2\.52 MB of .*No space left"):
        td.stream(heat, mapped(tmp_path / "a", plate), 23, out=out, memory="1 MB")
    assert not out.any()


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="files have no reserved room here")
def test_results_have_room_before_they_are_written(tmp_path: Path, plate: np.ndarray) -> None:
    out = np.memmap(tmp_path / "b", plate.dtype, "w+", shape=plate.shape)
    assert (tmp_path / "b").stat().st_blocks * 512 < plate.nbytes / 2  # a hole
    stream._reserve_mapped(out)
    assert (tmp_path / "b").stat().st_blocks * 512 >= plate.nbytes


def test_memory_maps(tmp_path: Path, plate: np.ndarray) -> None:
    source, out = mapped(tmp_path / "a", plate), mapped(tmp_path / "b", plate * 0)
    assert td.stream(heat, source, 23, out=out, memory="1 MB") is out
    assert out.tobytes() == td.jit(heat, backend="native")(plate, 23).tobytes()


def test_zarr(tmp_path: Path, plate: np.ndarray) -> None:
    zarr = pytest.importorskip("zarr")
    of = {"shape": plate.shape, "dtype": plate.dtype, "chunks": (100, 350)}
    source = zarr.create_array(tmp_path / "a.zarr", **of)
    out = zarr.create_array(tmp_path / "b.zarr", **of)
    source[...] = plate
    td.stream(heat, source, 23, out=out, memory="1 MB")
    assert out[...].tobytes() == td.jit(heat, backend="native")(plate, 23).tobytes()


def test_hdf5(tmp_path: Path, plate: np.ndarray) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "plates.h5", "w") as file:
        source = file.create_dataset("before", data=plate, chunks=(128, 100))
        out = file.create_dataset("after", plate.shape, plate.dtype, chunks=(100, 128))
        assert td.stream(heat, source, 23, out=out, memory="1 MB") is out
        means = td.stream(lambda a: td.mean(a, axis=0), source, memory="1 MB")
    with h5py.File(tmp_path / "plates.h5") as file:
        after = file["after"][...]
    assert after.tobytes() == td.jit(heat, backend="native")(plate, 23).tobytes()
    alone = td.jit(lambda a: td.mean(a, axis=0), backend="native")(plate)
    assert means.tobytes() == alone.tobytes()


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name",
    [
        "map",
        "indices",
        "cross wrap",
        "far mirror",
        "transpose",
        "difference",
        "rows",
        "columns",
        "total",
        "extremes",
        "product",
        "maximum of a stencil",
        "histogram",
        "counts",
        "largest at",
    ],
)
def test_the_bits_of_one_machine(name: str) -> None:
    f, a = PROGRAMS[name], matrix((200, 300))
    got = flat(td.stream(f, a, memory=200_000))
    for g, w in zip(got, flat(td.jit(f, backend="native")(a)), strict=True):
        assert type(g) is np.ndarray and np.asarray(g).tobytes() == np.asarray(w).tobytes()


def test_blocks_fit_in_memory(plate: np.ndarray) -> None:
    from treadle.backend.blocks.memory import projected
    from treadle.backend.dask.stream import BLOCKS_IN_MEMORY, Stream

    program = td.jit(heat, backend="dask").lower(plate, 23)
    for memory in (300_000, 1_000_000, 10_000_000):
        plan = Stream(program, [plate], [23], memory).plan
        assert BLOCKS_IN_MEMORY * max(projected(s.blocks) for s in plan.stages) <= memory


RESIDENT = """
import sys, numpy as np, treadle as td
from tests.backend.dask.test_stream import heat

def kilobytes(what):
    return int(open("/proc/self/status").read().split(what)[1].split()[0])

n, folder, name = 4096, sys.argv[1], sys.argv[2]
f, more = {"heat": (heat, (40,)), "transpose": (lambda a: td.transpose(a), ()),
           "reversed": (lambda a: a[::-1, ::-1], ()),
           "columns": (lambda a: td.sort(a, axis=0), ())}[name]
for file in ("a", "b"):
    open(folder + "/" + file, "wb").truncate(4 * n * n)
td.stream(f, np.zeros((64, 64), np.float32), *more, memory="1 MB")
source = np.memmap(folder + "/a", np.float32, "r", shape=(n, n))
out = np.memmap(folder + "/b", np.float32, "r+", shape=(n, n))
before = kilobytes("VmRSS:")
td.stream(f, source, *more, out=out, memory="16 MB")
print(kilobytes("VmHWM:") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["heat", "transpose", "reversed", "columns"])
def test_resident_memory_stays_within_the_limit(name: str, tmp_path: Path) -> None:
    """Two files of 67 MB, and temporary ones."""
    ran = subprocess.run([sys.executable, "-c", RESIDENT, str(tmp_path), name], cwd=ROOT,
                         check=True, capture_output=True, text=True)  # fmt: skip
    assert int(ran.stdout) < 24_000, "16 MB, and what the C library keeps"


def test_blocks_that_windows_are_read_into_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read into memory of its own: of the earlier ones only some may be there."""
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []
    read = stream._Reader._windows

    def windows(*args: Any) -> Any:
        alive.append(sum(r() is not None for r in made))
        buffer = read(*args)
        made.append(weakref.ref(buffer))
        return buffer

    monkeypatch.setattr(stream._Reader, "_windows", windows)
    source = np.memmap(tmp_path / "a", np.float32, "w+", shape=1 << 20)
    source[:] = np.random.default_rng(1).random(1 << 20, dtype=np.float32)
    got = td.stream(lambda a: td.sort(a), source, memory="1 MB")
    assert np.array_equal(got, np.sort(source))
    assert len(alive) > 30 and max(alive) <= stream.BLOCKS_IN_MEMORY + 1


def test_what_does_not_fit_is_refused(plate: np.ndarray) -> None:
    with pytest.raises(td.MemoryLimitExceeded, match="fft, computed whole"):
        td.stream(lambda a: td.fft.fft(a.ravel()), plate, memory="1 MB")


def test_it_is_refused_at_once_and_in_terms_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller blocks are tried only where they help; what has no rule needs no other memory."""
    tried = []
    planner = stream.Planner

    def counted(*given: Any) -> Any:
        tried.append(given)
        return planner(*given)

    monkeypatch.setattr(stream, "Planner", counted)
    large = np.broadcast_to(np.float32(1), (5000, 10000))
    with pytest.raises(td.MemoryLimitExceeded) as raised:
        td.stream(lambda a: td.fft.fft(a.ravel()), large, memory="50 MB")
    said = str(raised.value)
    assert "of memory=50 MB a third" in said and "memory='1.8 GB'" in said
    assert "rechunk" not in said and "a task may" not in said
    assert len(tried) == 5  # of which one without a limit


def test_memory_for_tiny_blocks_of_a_large_file_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the least amount that is enough."""
    large = np.broadcast_to(np.float32(1), (1 << 22, 16))
    f = td.jit(lambda a: td.sqrt(a))
    program = f.on("dask").lower(large)
    with monkeypatch.context() as patch:
        patch.setattr(stream, "Planner", None)
        with pytest.raises(td.MemoryLimitExceeded, match="268 MB into 161,126 blocks") as raised:
            td.stream(f, large, memory="10 KB")
    assert "Write memory='162 kB' or more" in str(raised.value)
    assert stream.Stream(program, [large], (), 162_000).total <= 10_100
    assert td.stream(f, large[:100], memory="10 KB").shape == (100, 16)
    with pytest.raises(td.MemoryLimitExceeded, match="of 166 B; blocks have 512 B or more"):
        td.stream(f, large[:1000], memory="1 kB")


class Chunked:
    """An array in chunks, as a file of zarr's, that counts how often each is decoded."""

    def __init__(self, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        self.array, self.chunks = array, chunks
        self.shape, self.dtype = array.shape, array.dtype
        self.decoded: dict[int, int] = {}

    def __getitem__(self, at: Any) -> np.ndarray:
        first, last, _ = (at[0] if isinstance(at, tuple) else at).indices(self.shape[0])
        for k in range(first // self.chunks[0], (last - 1) // self.chunks[0] + 1):
            self.decoded[k] = self.decoded.get(k, 0) + 1
        return self.array[at]


def test_chunks_that_are_decoded_again() -> None:
    a = np.arange(400.0 * 100).reshape(400, 100)
    source = Chunked(a, (100, 100))
    with pytest.warns(UserWarning, match="chunks of 100 rows, each of which is decoded") as said:
        got = td.stream(lambda a: a * 2, source, memory="100 kB")
    assert np.array_equal(got, a * 2)
    text = str(said[0].message)
    times, enough = re.search(r"decoded (\d+) times.*memory='(.*)' or more", text).groups()
    assert min(source.decoded.values()) >= int(times) >= 2
    source.decoded.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        td.stream(lambda a: a * 2, source, memory=enough)
        assert set(source.decoded.values()) == {1}
        td.stream(lambda a: a * 2, source, memory="100 kB", chunks=(20, -1))  # who asks for it


def test_mistakes(plate: np.ndarray) -> None:
    with pytest.raises(td.ShapeError, match=r"out is float32(?s:.*)open_memmap"):
        td.stream(heat, plate, 2, out=np.empty((3, 4), np.float32))
    with pytest.raises(td.ShapeError, match="also an argument"):
        td.stream(heat, plate, 2, out=plate)
    for wrong in ("much", "8 megs", -1, 0.5, None, True):
        with pytest.raises(td.ShapeError, match=r'no number of bytes(?s:.*)"500 MB", "1\.5 GiB"'):
            td.stream(heat, plate, 2, memory=wrong)
    for wrong in ({"out": "v.npy"}, {"out": (3, 4)}):
        with pytest.raises(td.TracingError, match="stream writes to arrays") as raised:
            td.stream(heat, plate, 2, **wrong)
        assert "open_memmap" in raised.value.hint
    for path in ("u.npy", Path("u.npy")):
        with pytest.raises(td.TracingError, match="stream reads arrays, no paths"):
            td.stream(heat, path, 2)
    with pytest.raises(td.ShapeError, match="2 results"):
        td.stream(lambda a: (a, a + 1), plate, out=plate.copy())


REVERSED = lambda a: a[::-1]


def test_what_is_read_is_not_written(tmp_path: Path, plate: np.ndarray) -> None:
    """Other views of an argument, and other maps of its file: parts of it would be overwritten
    before they are read."""
    source = mapped(tmp_path / "a", np.concatenate([plate, plate]))
    again = np.memmap(tmp_path / "a", plate.dtype, "r+", shape=source.shape)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    middle = np.memmap(link, plate.dtype, "r+", 899 * 2800, plate.shape)
    for given, out in (
        (source, source[:]),
        (source, source[::-1]),
        (source[:900], source[450:1350]),
        (source, again),
        (source[:900], middle),
        (source[:900, ::2], again[899:1799, 350:]),
        (plate, plate.reshape(-1).reshape(plate.shape)),
    ):
        with pytest.raises(td.ShapeError, match="out is also an argument"):
            td.stream(REVERSED, given, out=out, memory="1 MB")
    assert np.array_equal(source, np.concatenate([plate, plate]))
    for given, out in (
        (source[:899], middle[1:]),
        (source[:900], source[900:]),
        (source[:, ::2], source[:, 1::2]),
        (source[:, :350], again[:, 350:]),
    ):
        wanted = given[::-1].copy()
        assert np.array_equal(td.stream(REVERSED, given, out=out, memory="1 MB"), wanted)
        assert np.array_equal(out, wanted)
    with pytest.raises(td.ShapeError, match="two arrays of out are the same"):
        td.stream(lambda a: (a, a + 1), plate, out=(source[:900], again[899:1799]))


def test_what_is_read_is_not_written_in_other_formats(tmp_path: Path, plate: np.ndarray) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "a.zarr", data=plate, chunks=(100, 350))
    one, two = (zarr.open_array(tmp_path / "a.zarr", mode="r+") for _ in range(2))
    other = zarr.create_array(tmp_path / "b.zarr", shape=plate.shape, dtype=plate.dtype)
    with pytest.raises(td.ShapeError, match="out is also an argument"):
        td.stream(REVERSED, one, out=two, memory="1 MB")
    td.stream(REVERSED, one, out=other, memory="1 MB")
    assert np.array_equal(other[...], plate[::-1]) and np.array_equal(one[...], plate)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["v"] = plate, plate * 0
        with pytest.raises(td.ShapeError, match="out is also an argument"):
            td.stream(REVERSED, file["u"], out=file["u"], memory="1 MB")
        td.stream(REVERSED, file["u"], out=file["v"], memory="1 MB")
        assert np.array_equal(file["v"], plate[::-1]) and np.array_equal(file["u"], plate)


def test_what_can_only_be_read_is_not_written(tmp_path: Path, plate: np.ndarray) -> None:
    mapped(tmp_path / "a", plate)
    fixed = plate.copy()
    fixed.flags.writeable = False
    outs = [np.memmap(tmp_path / "a", plate.dtype, "r", shape=plate.shape), fixed]
    try:
        import zarr

        zarr.create_array(tmp_path / "a.zarr", data=plate)
        outs.append(zarr.open_array(tmp_path / "a.zarr", mode="r"))
    except ImportError:
        pass
    try:
        import h5py

        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["u"] = plate
        outs.append(h5py.File(tmp_path / "a.h5", "r")["u"])
    except ImportError:
        pass
    for out in outs:
        with pytest.raises(td.StorageError, match="out can only be read"):
            td.stream(lambda a: a + 1, plate.copy(), out=out, memory="1 MB")
        assert np.array_equal(np.asarray(out), plate)


def test_results_of_which_some_are_written(tmp_path: Path, plate: np.ndarray) -> None:
    """Those without an array of `out` are returned, in the place of the function's result."""
    f = lambda a: {"twice": a * 2, "more": (td.sum(a, axis=0), a + 1)}
    wanted = td.jit(f, backend="native")(plate)
    out, other = np.empty_like(plate), np.empty_like(plate)
    for given, written in (
        ({"more": (None, other), "twice": out}, True),
        ({"more": None, "twice": out}, False),
        ((out, None, other), True),
    ):
        found = td.stream(f, plate, out=given, memory="1 MB")
        assert found["twice"] is out
        assert (found["more"][1] is other) == written
        for got, w in zip((found["twice"], *found["more"]), (wanted["twice"], *wanted["more"]),
                          strict=True):  # fmt: skip
            assert np.asarray(got).tobytes() == np.asarray(w).tobytes()
        out[...], other[...] = 0, 0
    with pytest.raises(td.ShapeError, match=r"a dict with \['twice', 'more'\]"):
        td.stream(f, plate, out={"twice": out})


def test_a_few_rows_of_a_file_that_does_not_fit() -> None:
    """The result would be one block, which would read all of the file."""
    a = np.random.default_rng(1).random((100_000, 20), dtype=np.float32)
    for f in (lambda a: a[::1000], lambda a: a[::-777, 3]):
        found = td.stream(f, a, memory="1 MB")
        assert np.array_equal(found, td.jit(f, backend="native")(a))


def test_parts_that_are_not_what_their_array_says(plate: np.ndarray) -> None:
    """As variables of netCDF4, which scale and mask what they store, do."""

    class Source:
        def __init__(self, part: Any) -> None:
            self.shape, self.dtype, self.part = plate.shape, plate.dtype, part

        def __getitem__(self, at: Any) -> Any:
            return self.part(plate[at])

    def found(part: Any) -> Any:
        f = lambda a: (a, a + 1)
        same, more = td.stream(f, Source(part), memory="1 MB")
        assert np.array_equal(same, plate) and np.array_equal(more, plate + 1)

    found(lambda a: a)
    found(lambda a: a.astype(">f4"))
    found(lambda a: np.ma.array(a))
    for part, error, said in (
        (lambda a: a.astype(np.float64), td.DTypeError, "dtype float32, and parts of it have flo"),
        (lambda a: np.ma.array(a, mask=a > 0.9), td.TracingError, "would lose its mask"),
        (lambda a: a[:1], td.ShapeError, r"a part that should have \(\d+, 700\) has \(1, 700\)"),
    ):
        with pytest.raises(error, match=said):
            td.stream(lambda a: a + 1, Source(part), memory="1 MB")


def test_blocks_that_are_given(plate: np.ndarray) -> None:
    def blocks(f: Any, *arrays: Any, chunks: Any) -> list[Any]:
        seen: list[Any] = []

        class Source:
            def __init__(self, array: Any) -> None:
                self.array, self.shape, self.dtype = array, array.shape, array.dtype

            def __getitem__(self, at: Any) -> Any:
                seen.append(self.array[at].shape)
                return self.array[at]

        found = td.stream(f, *map(Source, arrays), memory="20 MB", chunks=chunks)
        assert np.array_equal(found, td.jit(f, backend="native")(*arrays))
        return seen

    twice = lambda a: a * 2
    assert blocks(twice, plate, chunks=(300, -1)) == [(300, 700)] * 3
    assert blocks(twice, plate, chunks=(None, 350)) == [(900, 350)] * 2
    assert blocks(twice, plate, chunks=450) == [(450, 450), (450, 250)] * 2
    assert blocks(twice, plate, chunks=((100, 800), 700)) == [(100, 700), (800, 700)]
    scaled = blocks(lambda a, b: a * b, plate, plate[0], chunks=(450, 700))
    assert scaled.count((450, 700)) == 2
    for wrong, said in (
        ((3,), "has 1 extents, and the arrays have 2 axes"),
        ((0, 1), "has 0, which is no extent"),
        ((1.5, 1), "has 1.5, which is no extent"),
        (True, "has True, which is no extent"),
        (((100, 100), 700), "for an axis of extent 900"),
    ):
        with pytest.raises(td.ShapeError, match=said):
            td.stream(twice, plate, chunks=wrong)
    with pytest.raises(td.MemoryLimitExceeded, match="of memory=1 MB a third"):
        td.stream(twice, plate, memory="1 MB", chunks=((100, 800), 700))


def test_arrays_that_are_not_plain_are_refused(plate: np.ndarray) -> None:
    with pytest.raises(td.TracingError, match="would lose its mask"):
        td.stream(lambda a: td.sum(a), np.ma.array(plate, mask=plate > 0.5))
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(td.DTypeError, match="a sparse matrix"):
        td.stream(lambda a: td.sum(a), sparse.csr_matrix(plate))


def test_arrays_of_treadle_and_structures(plate: np.ndarray) -> None:
    key = td.random.key(3)
    noisy = td.jit(lambda x, k: x + td.random.normal(k, x.shape, td.float32))
    found = td.stream(noisy, plate, key, memory=1e5)
    assert np.array_equal(found, noisy(plate, np.asarray(key)))
    wanted = plate * 2 + plate + 3
    both = lambda a, s: a * s["scale"] + s["more"][0] + s["more"][1]
    state = {"scale": 2, "more": (td.use(plate), 3)}
    assert np.array_equal(td.stream(both, plate, state, memory=1e5), wanted)
    pairs = td.zip(plate, plate)
    assert np.array_equal(td.stream(lambda p: td.map(sum, p), pairs), plate * 2)
    with pytest.raises(td.TracingError, match="got a generator") as raised:
        td.stream(heat, (row for row in plate))
    assert "for part in parts" in raised.value.hint


def test_transforms_of_rows_in_blocks(plate: np.ndarray) -> None:
    f = lambda a: td.fft.rfft(a, axis=1)
    assert np.array_equal(td.stream(f, plate, memory="500 kB"), td.jit(f, backend="native")(plate))


def test_a_small_array_does_not_cut_a_large_one() -> None:
    """The quotients are computed in blocks of rows, as the matrix is cut, not as the sums are."""
    a = np.random.default_rng(1).random((2048, 512))
    program = td.jit(lambda a: a / td.sum(a, axis=0), backend="dask").lower(a)
    made = stream.Stream(program, [a], (), 1 << 20)
    *_, quotients = (stage.blocks for stage in made.plan.every())
    assert [len(axis.sizes) > 1 for axis in quotients.axes] == [True, False]
    (out,) = made.run([None], lambda done, total: None)
    assert np.array_equal(out, td.run(a / td.sum(a, axis=0), backend="native"))


def test_sums_of_columns_read_whole_rows() -> None:
    """Also in a program whose other blocks are smaller: parts of rows are many small reads."""
    a = np.broadcast_to(np.float32(1), (8192, 4096))
    program = td.jit(lambda a: a / td.sum(a, axis=0), backend="dask").lower(a)
    leaves, *_ = (s.blocks for s in stream.Stream(program, [a], (), 64 << 20).plan.every())
    assert [len(axis.sizes) for axis in leaves.axes] == [8, 1, 1]
    leaves, *_ = (s.blocks for s in stream.Stream(program, [a], (), 16 << 20).plan.every())
    assert len(leaves.axes[1].sizes) > 1, "rows that do not fit"


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex128])
def test_a_product_along_a_file_reads_it_once(dtype: Any) -> None:
    """The products of its parts, added in order, also if the last one is smaller."""
    rng = np.random.default_rng(1)
    a, b = ((rng.random((5003, n)) * 10).astype(dtype) for n in (24, 16))
    f = td.jit(lambda a, b: (a.T @ b * 2 + 1, a.T @ a))
    plan = stream.Stream(f.on("dask").lower(a, b), [a, b], (), 500_000).plan
    read = [s.blocks for s in plan.stages if getattr(s.blocks.node, "batch", ())]
    assert len(read) == 2 and all(
        len(axis.sizes) == 1 for blocks in read for axis in blocks.axes[1:]
    )
    for got, wanted in zip(td.stream(f, a, b, memory=500_000), f(a, b), strict=True):
        if dtype == np.int32:
            assert np.array_equal(got, wanted)
        assert np.allclose(got, wanted, rtol=1e-5)


def test_memory_for_tiny_blocks_is_warned_of():
    a = np.zeros((600, 300), np.float32)
    with pytest.warns(UserWarning, match=r"memory=10 kB makes 600 blocks of 1\.2 kB.*'160 kB'"):
        td.stream(lambda x: x * 2, a, memory="10 KB")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        td.stream(lambda x: x * 2, a, memory="160 KB")


def test_blocks_of_a_loop_are_as_large_as_what_a_pass_reads() -> None:
    """Each pass over the file reads all of it: many passes are no small blocks."""
    a = np.zeros((1024, 1024), np.float32)
    program = td.jit(heat, backend="dask").lower(a, 2000)
    run = stream.Stream(program, [a], [2000], 8_000_000)
    assert run.total > stream.MANY and run.too_small() is None
    said = stream.Stream(program, [a], [2000], 800_000).too_small()
    assert said is not None and re.match(r"memory=800 kB makes \S+ blocks of \S+ kB", said)


def test_the_memory_for_larger_blocks_is_more_than_what_was_given():
    """Also where blocks are small for another reason than the bytes of what is read."""
    a = np.ones((600, 200), np.float32)
    with pytest.warns(UserWarning, match=r"memory=100 kB makes .* Write memory='(\d+) kB'") as said:
        td.stream(lambda x: x.T @ x, a, memory="100 KB")
    (more,) = re.findall(r"Write memory='(\d+) kB'", str(said[0].message))
    assert int(more) > 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (td.stream(lambda x: x.T @ x, a, memory=f"{more} KB") == 600).all()


def test_a_product_of_one_chunk_has_square_blocks():
    """Each reads rows and columns, so that few blocks read little; whole if it fits."""

    def grid(a: np.ndarray, memory: int) -> tuple[int, ...]:
        program = td.jit(lambda x: x.mT @ x).on("dask").lower(a)
        (stage,) = stream.Stream(program, [a], (), memory).plan.stages
        return tuple(stage.blocks.grid)

    one, many = np.ones((1000, 300), np.float32), np.ones((50, 100, 20), np.float32)
    assert grid(one, 2_000_000) == (4, 4) and grid(one, 9_000_000) == (1, 1)
    assert grid(many, 300_000) == (10, 1, 1) and grid(many, 50_000_000) == (1, 1, 1)
    assert grid(np.ones((1, 1000), np.float32), 3_000_000)[1] == 1  # whole rows of the result


def test_parts_of_maps_are_read_from_their_files(tmp_path: Path, plate: np.ndarray) -> None:
    """Also behind a header and from the middle of a file; changes that no file has are read from
    the map."""
    np.save(tmp_path / "a.npy", plate)
    path = tmp_path / "a.npy"
    f = td.jit(lambda a: td.sqrt(a) * 2 + 1)

    def same(source: Any, wanted: np.ndarray, from_file: bool) -> None:
        file = files.opened(source)
        assert (file is not None) == (from_file and sys.platform == "linux")
        if file is not None:
            file.close()
        out = np.lib.format.open_memmap(tmp_path / "b.npy", "w+", plate.dtype, wanted.shape)
        td.stream(f, source, out=out, memory="300 kB")
        assert out.tobytes() == f.on("native")(wanted).tobytes()
        assert np.load(tmp_path / "b.npy").tobytes() == out.tobytes()

    for mode in ("r", "r+"):
        same(np.load(path, mmap_mode=mode), plate, True)
        same(np.load(path, mmap_mode=mode)[101:700], plate[101:700], True)
        same(np.load(path, mmap_mode=mode).reshape(-1), plate.reshape(-1), True)
        same(np.load(path, mmap_mode=mode)[:, 3:90], plate[:, 3:90].copy(), False)
    own = np.load(path, mmap_mode="c")
    own[5] = 4
    same(own, np.array(own), False)
    moved = np.load(path, mmap_mode="r")
    path.rename(tmp_path / "c.npy")
    np.save(path, plate * 0)
    same(moved, plate, False)


def test_kernels_read_whole_rows_where_the_file_is_mapped(
    tmp_path: Path, plate: np.ndarray
) -> None:
    """Where the system has the call for that; other rows are copied to memory of earlier ones."""
    source = mapped(tmp_path / "a", plate)
    file = files.opened(source)
    if file is None:
        pytest.skip("arrays are read from maps here")
    inner = ((0, plate.shape[1], 0, plate.shape[1]),)
    rows = (((0, 50, 100, 150),), inner)
    read = file.read(rows, [])
    assert read.tobytes() == plate[100:150].tobytes()
    if not np.may_share_memory(read, source):
        pytest.skip("this kernel is older than 5.14")
    assert file.free(read) and read.tobytes() == plate[100:150].tobytes()
    file.advise = lambda *_: -1
    spare = np.empty((50, plate.shape[1]), np.float32)
    copied = file.read(rows, [spare])
    assert copied is spare and copied.tobytes() == plate[100:150].tobytes()
    assert not file.free(copied)
    file.close()


def test_a_file_that_is_too_short_is_an_error(tmp_path: Path, plate: np.ndarray) -> None:
    source = mapped(tmp_path / "a", plate)
    file = files.opened(source)
    if file is None:
        pytest.skip("arrays are read from maps here")
    os.truncate(tmp_path / "a", plate.nbytes // 2)
    with pytest.raises(td.StorageError, match="ends before the array"):
        file.read(Whole(plate.shape), [])
    file.close()


def test_data_frames_are_read_as_arrays():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "y": [4, 5, 6]})
    means = td.stream(lambda a, b: (td.mean(a, axis=0), td.sum(b["y"])), frame, {"y": frame["y"]})
    np.testing.assert_array_equal(means[0], [2, 5])
    assert means[1] == 15
    with pytest.raises(td.DTypeError, match="dtype object"):
        td.stream(lambda a: a, pandas.DataFrame({"x": ["one", "two"]}))


def test_equal_streams_are_traced_and_planned_once(
    plate: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of few megabytes would take as long as its planning."""
    traced, planned = [], []

    @td.jit
    def scaled(a: Any, factor: Any) -> Any:
        traced.append(1)
        return a * factor

    plan = stream.plan_for
    monkeypatch.setattr(stream, "plan_for", lambda *given: planned.append(1) or plan(*given))
    for factor in (2.0, 2.0, -0.0, 0.0, 2.0):
        got = td.stream(scaled, plate, factor, memory="1 MB")
        assert got.tobytes() == (plate * np.float32(factor)).tobytes()
    assert (len(traced), len(planned)) == (1, 3)
    td.stream(scaled, plate[:450], 2.0, memory="1 MB")
    td.stream(scaled, plate, 2.0, memory="2 MB")
    td.stream(scaled, plate, 2.0, memory="1 MB", chunks=(50, -1))
    assert (len(traced), len(planned)) == (1, 6)


def test_what_fits_needs_no_threads_and_no_files(
    plate: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are computed alone, and arrays between them if memory has room."""
    f = lambda a: td.sort(a / td.sum(a, axis=0), axis=0)

    def refused(*given: Any, **named: Any) -> Any:
        raise AssertionError(given)

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "TemporaryDirectory", refused)
        patched.setattr(threading.Thread, "start", refused)
        got = td.stream(f, plate, memory="64 MB")
    assert got.tobytes() == td.jit(f, backend="native")(plate).tobytes()


def test_an_error_while_blocks_are_read_ahead_ends_the_stream(plate: np.ndarray) -> None:
    """After the reads that are under way, as these use files that are closed then."""

    class Broken:
        shape, dtype = plate.shape, plate.dtype

        def __getitem__(self, at: Any) -> Any:
            if at[0].start >= 300:
                raise OSError("broken")
            return plate[at]

    before = threading.active_count()
    with pytest.raises(OSError, match="broken"):
        td.stream(lambda a: a + 1, Broken(), memory="1 MB")
    assert threading.active_count() == before


@pytest.mark.parametrize("rows", [600, 900, 4000])
def test_sums_of_few_groups_need_no_memory_for_all_elements(rows: int) -> None:
    """All go to one place, so that a part of the result has no room for those that go there."""
    rng = np.random.default_rng(1)
    a, groups = rng.random((rows, 300)).astype(np.float32), np.zeros(rows, np.int64)
    f = lambda a, g: td.zeros((7, a.shape[1])).at[g].add(a)
    wanted = np.zeros((7, 300))
    wanted[0] = a.sum(axis=0, dtype=np.float64)
    np.testing.assert_allclose(td.stream(f, a, groups, memory="3 MB"), wanted, rtol=1e-12)


COLUMN = {
    "sums": lambda a, g: td.bincount(g, weights=a[:, 3], length=7),
    "in order": lambda a, g: td.bincount(g, weights=a[:, 3], length=7, deterministic=True),
    "last": lambda a, g: td.zeros(7, a.dtype).at[g].set(a[:, 3]),
    "of neighbours": lambda a, g: td.zeros(7, a.dtype).at[g].set(a[:, 3] - a[:, 4]),
    "segments": lambda a, g: td.fold_seg(td.maximum, 0, a[:, 3], np.full(9, 100)),
    "twice": lambda a, g: td.zeros(7, a.dtype).at[g].set(a[:, 3]).at[g[::-1]].set(a[:, 0]),
}


@pytest.mark.parametrize("name", COLUMN)
def test_few_elements_of_a_matrix_that_has_no_room_are_read_in_blocks(
    name: str, plate: np.ndarray
) -> None:
    """A column fits, and the matrix that has it does not."""
    f, groups = COLUMN[name], np.arange(len(plate)) * 31 % 7
    wanted = td.jit(f, backend="native")(plate, groups)
    got = td.stream(f, plate, groups, memory="1 MB")
    if name == "sums":
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    else:
        assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes()
