"""Calls with arrays of the host in pieces: order of copies and kernels, memory, bits, errors."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import DeviceArray, EmulatedDevice, Transfer, on_device
from treadle.backend import registry
from treadle.backend.cuda import availability, executable, pieces

RNG = np.random.default_rng(0)
A = RNG.random((50, 32), dtype=np.float32)
B = RNG.random((50, 32), dtype=np.float32)
ROW = A[0].nbytes


class Noted(Transfer):
    def __init__(self, device, name, target, source):
        super().__init__(target, source)
        self.device, self.name = device, name

    def finish(self):
        self.device.log.append(f"{self.name} done")
        super().finish()


class Noting(EmulatedDevice):
    """Notes copies and kernels in order, and how many bytes are taken at a time."""

    def __init__(self):
        super().__init__()
        self.log, self.held, self.most, self.limit = [], 0, 0, 1 << 60

    def empty(self, shape, dtype):
        made = super().empty(shape, dtype)
        self._take(made)
        return made

    def upload(self, value):
        self.log.append(f"upload {value.shape}")
        return super().upload(value)

    def _take(self, made):
        self.held += made.nbytes
        if self.held > self.limit:
            self.held -= made.nbytes
            raise td.DeviceOutOfMemory("no memory on the emulated GPU.")
        self.most = max(self.most, self.held)
        weakref.finalize(made, self._give, made.nbytes)

    def _give(self, size):
        self.held -= size

    @contextmanager
    def lanes(self):
        try:
            with super().lanes() as lanes:
                yield lanes
        finally:
            self.log.append("lanes closed")

    def send(self, target, source, after):
        super().send(target, source, after)
        self.log.append(f"up after {after}")
        return Noted(self, "up", target, source)

    def fetch(self, target, source, after):
        super().fetch(target, source, after)
        self.log.append("down")
        return Noted(self, "down", target, source)

    def _launch(self, operation):
        self.log.append("kernel")
        super()._launch(operation)


@pytest.fixture
def gpu(monkeypatch):
    """An emulated GPU, and pieces of eight rows of A."""
    device = Noting()
    monkeypatch.setattr(executable, "device_here", lambda: device)
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    monkeypatch.setattr(pieces, "LARGE", 40 * ROW)
    monkeypatch.setattr(pieces, "PIECE", 8 * ROW)
    monkeypatch.setattr(pieces, "SHARED", 2)
    for cache in (registry.load, registry.why_not):
        cache.cache_clear()
    yield device
    for cache in (registry.load, registry.why_not):
        cache.cache_clear()


def whole(program, *args):
    """The results without pieces: arrays of the device."""
    return [r.get() for r in _flat(program(*(on_device(a) for a in args)))]


def _flat(value):
    return list(value) if isinstance(value, tuple) else [value]


def softmax(a):
    e = td.exp(a - td.max(a, axis=1)[:, None])
    return e / td.sum(e, axis=1)[:, None]


def blurred(a):
    return td.stencil(lambda w: (w[-1, 0] + w[2, 0] * 3 + w[0, 1]) / 5, a, boundary=td.mirror)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda a, b: td.sqrt(a * b + 1), (A, B)),
        (lambda a, b: (a + b, td.compute(a) * 2 - b, td.max(a * b, axis=1)), (A, B)),
        (blurred, (A,)),
        (softmax, (A,)),
        (lambda a, t: td.map(lambda x: t[td.cast(x * 9, "i4")], a), (A, B[0])),
        (lambda a, b: a - b, (np.asfortranarray(A), B[::-1])),
        (lambda a: a, (A,)),
        (lambda a, b: td.outer(a, b), (A[:, 0], B[0])),
        (lambda a: a * 2, (np.arange(100.0),)),
    ],
)
def test_the_bits_are_those_of_the_whole(gpu, monkeypatch, function, args):
    if args[0].ndim == 1 and len(args) == 1:  # an axis of vectors
        monkeypatch.setattr(pieces, "LARGE", 100)
        monkeypatch.setattr(pieces, "PIECE", 200)
        monkeypatch.setattr(pieces, "MULTIPLE", 16)
    program = td.jit(function, backend="cuda")
    want = whole(program, *args)
    for _ in range(2):
        for got, expected in zip(_flat(program(*args)), want, strict=True):
            assert type(got) is np.ndarray
            np.testing.assert_array_equal(got, expected)
    calls = program.lower(*args).executable.calls.piecewise
    assert 1 <= len(calls.of_pieces.tapes) <= 3


def test_copies_of_one_piece_begin_beside_the_work_on_another(gpu):
    program = td.jit(lambda a: a * 2, backend="cuda")
    program(A[:40])
    # Pieces are sent one ahead, into memory whose last reader is done; results are waited for
    # when those of the next piece are on their way.
    piece = ["up done", "kernel", "down"]
    assert gpu.log == [
        "up after 0",
        "up after 0", *piece,
        "up after 1", *piece,
        "up after 2", "up done", "down done", "kernel", "down",
        "up after 3", "up done", "down done", "kernel", "down",
        "up done", "down done", "kernel", "down",
        "down done", "down done", "lanes closed",
    ]  # fmt: skip


def test_the_device_holds_two_pieces_and_what_all_read(gpu):
    program = td.jit(lambda a, b, t: a * b + t, backend="cuda")
    for rows in (50, 500):
        a, b = (np.concatenate([x] * (rows // 50)) for x in (A, B))
        gc.collect()
        gpu.most = gpu.held
        before = gpu.held
        np.testing.assert_array_equal(program(a, b, A[1]), a * b + A[1])
        assert gpu.most - before == 2 * 3 * 8 * ROW
    assert gpu.log.count("upload (32,)") == 2


def test_recordings_of_pieces_are_not_shared(gpu):
    program = td.jit(lambda a: a + 1, backend="cuda")
    for rows in (45, 46, 47):
        program(A[:rows])
    held = program.lower(A).executable.calls
    assert not held.tapes and len(held.piecewise.of_pieces.tapes) == 4  # 8 rows; 5, 6, 7 are left
    assert held.codes() == held.piecewise.of_pieces.codes()


def test_small_arrays_and_arrays_of_the_device_go_whole(gpu):
    program = td.jit(lambda a, b: a + b, backend="cuda")
    program(A[:30], B[:30])
    assert "down" not in gpu.log
    assert type(program(A, on_device(B))) is DeviceArray
    assert "down" not in gpu.log
    program(A, B)
    assert "down" in gpu.log


def test_a_program_without_results_has_no_pieces(gpu):
    assert td.run({}, backend="cuda") == {}
    assert td.jit(lambda x: (), backend="cuda")(A) == ()


def test_pieces_that_would_mostly_be_their_neighbours_rows_are_not_made(gpu, monkeypatch):
    program = td.jit(blurred, backend="cuda")
    monkeypatch.setattr(pieces, "PIECE", 6 * ROW)
    program(A)
    assert "down" not in gpu.log


def test_extents_that_do_not_fit_are_the_error_that_they_are(gpu):
    program = td.jit(lambda a, b: td.map(lambda x, y: x + y, a, b), backend="cuda")
    shown = []
    for args in ((A, B[:41]), (A[:4], B[:3])):
        with pytest.raises(td.ShapeError) as caught:
            program(*args)
        shown.append(str(caught.value))
    assert shown[0] == shown[1].replace("4", "50", 1).replace("3", "41", 1)
    assert not gpu.log


def test_arrays_that_need_not_be_equally_long(gpu):
    program = td.jit(lambda a, b: td.generate(a.shape, lambda i, j: a[i, j] + b[i, j]),
                     backend="cuda")  # fmt: skip
    np.testing.assert_array_equal(program(A[:45], B), A[:45] + B[:45])
    assert "down" not in gpu.log


def test_sums_that_pieces_would_round_otherwise_are_made_whole(gpu):
    """Long rows are cut into parts, where there are few of them into more."""
    program = td.jit(lambda a: td.sum(a, axis=1), backend="cuda")
    calls = program.lower(A).executable.calls.piecewise
    for rows, length, several in ((8192, 8191, True), (50, 1 << 15, True), (8192, 1 << 15, False)):
        a = np.broadcast_to(np.float32(0), (rows, length))
        assert bool(calls.pieces([a], (), [(rows,)])) is several


def test_numbers_are_those_of_the_call(gpu):
    program = td.jit(lambda a, s: a * s, backend="cuda")
    for s in (2.0, 3.0):
        np.testing.assert_array_equal(program(A, s), A * np.float32(s))


def test_without_memory_nothing_stays_under_way(gpu):
    program = td.jit(lambda a, b: a + b, backend="cuda")
    gc.collect()
    before = gpu.held
    for rows in (8, 33, 41):  # no memory for the inputs, the first results, the second ones
        gpu.limit, gpu.log = before + rows * ROW, []
        with pytest.raises(td.DeviceOutOfMemory):
            program(A, B)
        assert gpu.log[-1:] in ([], ["lanes closed"])
        gc.collect()
        assert gpu.held == before
    gpu.limit = 1 << 60
    np.testing.assert_array_equal(program(A, B), A + B)
