"""Calls with arrays of the host in pieces: the same bits, little memory, errors that pass."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(0)
A = RNG.random((3001, 700), dtype=np.float32)
B = RNG.random((3001, 700), dtype=np.float32)
WIDE = RNG.random((3001, 1400), dtype=np.float32)
BLUR = td.jit(
    lambda a: td.stencil(
        lambda w: (w[-1, 0] + w[2, 0] + w[0, -1] + w[0, 0]) / 4, a, boundary=td.mirror
    ),
    backend="cuda",
)
PROGRAMS = {
    "map": (lambda a, b: td.sqrt(a * b + 1), (A, B)),
    "line": (lambda a, b: (a + b, a - b), (A.reshape(-1), B.reshape(-1))),
    "stencil": (lambda a: BLUR(a), (A,)),
    "softmax": (lambda a: softmax(a), (A,)),
    "rows": (lambda a: (td.max(a, axis=1), td.argmin(a, axis=1)), (A,)),
    "prefixes": (lambda a: td.cumsum(a, axis=1), ((A * 100).astype(np.int32),)),
    "table": (lambda i, t: td.map(lambda k: t[k], i), ((A * 99).astype(np.int32), A[0, :100])),
    "view": (lambda a, b: a * b, (WIDE[:, ::2], B)),
    "outer": (lambda a, b: td.outer(a, b), (A[:, 0], B[0])),
}


def softmax(a):
    e = td.exp(a - td.max(a, axis=1)[:, None])
    return e / td.sum(e, axis=1)[:, None]


@pytest.fixture
def cupy(monkeypatch):
    """Pieces of a megabyte, for arrays from two megabytes on."""
    from treadle.backend.cuda import pieces

    monkeypatch.setattr(pieces, "LARGE", 2 << 20)
    monkeypatch.setattr(pieces, "PIECE", 1 << 20)
    return pytest.importorskip("cupy")


def in_pieces(program, *args):
    """How many different pieces a program was recorded for."""
    calls = program.lower(*args).executable.calls.piecewise
    return 0 if calls is None else len(calls.of_pieces.tapes)


def _flat(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_are_those_of_the_whole(cupy, name):
    function, args = PROGRAMS[name]
    program = td.jit(function, backend="cuda")
    whole = _flat(program(*(cupy.asarray(a) for a in args)))
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            for _ in range(4):
                for got, want in zip(_flat(program(*args)), whole, strict=True):
                    assert type(got) is np.ndarray
                    np.testing.assert_array_equal(got, want.get())
    assert in_pieces(program, *args) > 1


def test_the_device_holds_a_few_pieces(cupy):
    program = td.jit(lambda a, b: td.sqrt(a * b + 1), backend="cuda")
    want = program(A, B)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    try:
        pool.set_limit(size=pool.total_bytes() + (7 << 20))  # three arrays are 25 megabytes
        np.testing.assert_array_equal(program(A, B), want)
        pool.free_all_blocks()
        pool.set_limit(size=pool.total_bytes() + (1 << 20))
        with pytest.raises(td.DeviceOutOfMemory, match="asked for"):
            program(A, B)
    finally:
        pool.set_limit(size=before)
    np.testing.assert_array_equal(program(A, B), want)


def test_threads_that_call_at_once(cupy):
    program = td.jit(lambda a, b: a * 2 + b, backend="cuda")
    given = [(A + k, B) for k in range(4)]
    want = [program(*g) for g in given]
    with ThreadPoolExecutor(4) as threads:
        for got, expected in zip(threads.map(lambda g: program(*g), given * 3), want * 3,
                                 strict=True):  # fmt: skip
            np.testing.assert_array_equal(got, expected)


def test_large_copies_of_whole_arrays(cupy):
    """Up and down by threads, also of sizes that are no multiple of what they take at a time."""
    from treadle.backend.cuda.device import copies

    a = RNG.random((copies.LARGE + 12_340) // 8)
    program = td.jit(lambda a: td.cumsum(a), backend="cuda")
    np.testing.assert_array_equal(program(a), program(cupy.asarray(a)).get())
