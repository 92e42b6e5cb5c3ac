"""Programs that repeat, loops on the device, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import treadle as td

A = np.random.default_rng(0).standard_normal(1000)


def replay_of(program, *args):
    """What replays a program for arguments like these."""
    calls = program.lower(*args).executable.calls
    ((_, _, replay, _),) = calls.tapes.values()
    return replay


def same(function, *args, calls=6):
    cupy = pytest.importorskip("cupy")
    want = td.jit(function, backend="reference")(*args)
    program = td.jit(function, backend="cuda")
    placed = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    for _ in range(calls):
        for given in (args, placed):
            for x, y in zip(_flat(program(*given)), _flat(want), strict=True):
                x = x if isinstance(x, np.ndarray) else x.get()
                assert x.dtype == y.dtype
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
    return program


def _flat(value):
    return [x for part in value for x in _flat(part)] if isinstance(value, tuple) else [value]


def test_several_kernels_become_a_graph():
    cupy = pytest.importorskip("cupy")
    program = td.jit(lambda x: (td.sum(x), td.cumsum(x), td.compute(x * 2) + 1), backend="cuda")
    d = cupy.asarray(A)
    for _ in range(10):
        program(d)  # what a call returns is freed before the next one, which is given its memory
    total, prefix, more = program(d)
    assert replay_of(program, d).graphs
    np.testing.assert_allclose(prefix.get(), np.cumsum(A), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(more.get(), A * 2 + 1)
    np.testing.assert_allclose(total.get(), A.sum())


@pytest.mark.parametrize("name", ["float32", "float64", "complex128"])
def test_products_by_the_library_are_part_of_graphs(name):
    """With the bits of the first call, which has no graph yet, on every stream."""
    cupy = pytest.importorskip("cupy")
    x, y = (cupy.asarray(A[k : k + 900].reshape(30, 30).repeat(8, 0).repeat(8, 1).astype(name))
            for k in (0, 100))  # fmt: skip

    def several(x, y):
        left = td.compute(x * 0.01) @ y
        return left[::-1] + td.matrix_transpose(x) @ td.compute(y + 1), td.sum(left)

    def loop(x, y):
        return td.iterate(300, lambda s: s / (1 + td.abs(s @ x)) + y * 0.01, y)

    for function in (several, loop):
        program = td.jit(function, backend="cuda")
        first = [r.get() for r in _flat(program(x, y))]
        for stream in [cupy.cuda.Stream.null] * 4 + [cupy.cuda.Stream(non_blocking=True)] * 4:
            with stream:
                found = program(x, y)
                stream.synchronize()
            for a, b in zip(_flat(found), first, strict=True):
                np.testing.assert_array_equal(a.get(), b)
        if function is several:
            assert replay_of(program, x, y).whole


def test_checks_are_of_the_call_that_they_belong_to():
    """What the host reads comes with an event, before the work is done: never an earlier call's."""
    cupy = pytest.importorskip("cupy")
    program = td.jit(lambda x, n: td.fold_seg(td.add, 0.0, x, n), backend="cuda")
    n = 1 << 20
    x, right = cupy.ones(16 * n), cupy.full(n, 16, np.int32)
    wrong = right.copy()
    wrong[n // 2] = 15
    want = np.full(n, 16.0)
    for iteration in range(40):
        if iteration % 3 == 1:
            with pytest.raises(td.ShapeError, match="sum to 16777215, but the axis has extent"):
                program(x, wrong)
        else:
            np.testing.assert_array_equal(program(x, right).get(), want)
    assert replay_of(program, x, right).graphs


def test_graphs_follow_numbers_and_arrays():
    cupy = pytest.importorskip("cupy")
    program = td.jit(lambda x, k: (x * k, td.sum(x) * k), backend="cuda")
    kept = []
    for iteration in range(40):
        d = cupy.asarray(A + iteration % 3)
        k = float(iteration % 4)
        many, one = program(d, k)
        kept.append((many, one, (A + iteration % 3) * k))
    for many, one, want in kept:
        np.testing.assert_array_equal(many.get(), want)
        np.testing.assert_allclose(one.get(), want.sum(), rtol=1e-9, atol=1e-9)


def test_loops():
    same(lambda x: td.iterate(1000, lambda s: s * 0.5 + 1, x), A)
    same(lambda x: td.loop(301, lambda k, s: s * 0.5 + k, x), A)
    same(lambda x: td.loop(300, lambda k, s: (s[1], td.roll(s[0], 1) * 0.5 + k), (x, x)), A)
    same(lambda x: td.while_loop(lambda s: s[0] < 300, lambda s: (s[0] + 1, s[1] * 0.9), (0, x)), A)
    same(lambda x: td.iterate(5, lambda s: td.iterate(60, lambda t: t * 0.9, s) + 1, x), A)


def test_loops_that_test_themselves():
    from treadle.backend.cuda.graphs import graphs
    from treadle.backend.cuda.graphs.launch import CudaDevice

    norm = lambda s: td.the(td.sum(s * s))
    same(lambda x: td.while_loop(lambda s: norm(s) > 1e-3, lambda s: s * 0.9, x), A)
    same(
        lambda x: td.while_loop(
            lambda s: norm(s[0]) > 1e-3, lambda s: (s[1] * 0.9, s[0], s[2] + 1), (x, x * 2, 0)
        ),
        A,
    )
    same(lambda x: td.while_loop(lambda s: norm(s) < 0, lambda s: s * 0.9, x), A)
    assert graphs.conditional(CudaDevice.current()) is None


def test_what_data_decides():
    same(lambda x: td.filter(lambda v: v > 0, x), A)
    same(lambda x: td.cond(td.sum(x) > 0, x + 1, x * 2), A)
    same(lambda x: td.iterate(3, lambda s: td.sort(-s), x), A)


def test_out_of_memory_and_on():
    cupy = pytest.importorskip("cupy")
    with pytest.raises(MemoryError, match=r"[\d,]+ bytes asked for, [\d,]+ in use") as caught:
        td.run(td.fill((1 << 40,), 1.0), backend="cuda")
    assert isinstance(caught.value, td.DeviceOutOfMemory)
    # Memory that the pool only holds is given back before giving up.
    free, _ = cupy.cuda.runtime.memGetInfo()
    held = [cupy.empty(free // 8, "u1") for _ in range(4)]
    del held
    n = int(free * 0.7)
    big = td.jit(lambda x: td.fill((n,), td.uint8(1)) + x, backend="cuda")(cupy.zeros(1, "u1"))
    assert int(big[-1]) == 1
    del big
    cupy.get_default_memory_pool().free_all_blocks()
    np.testing.assert_array_equal(td.run(td.use(A) * 2, backend="cuda"), A * 2)


_LOST = """
import numpy as np, treadle as td
a = np.arange(1000)
try:
    td.run(td.map(lambda i: td.use(a)[i * 1_000_000_000_000], td.iota(1000)), backend="cuda")
except td.BackendUnavailable as error:
    print(error.message)
try:
    td.run(td.use(a) + 1, backend="cuda")
except td.BackendUnavailable as error:
    print(error.hint)
print(td.run(td.use(a) + 1, backend="native").sum())
"""


def test_a_lost_gpu():
    """In a process of its own, which it costs."""
    done = subprocess.run(
        [sys.executable, "-c", _LOST], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "is lost for this process" in done.stdout
    assert 'backend="native"' in done.stdout
    assert done.stdout.splitlines()[-1] == str(np.arange(1, 1001).sum())


@pytest.mark.parametrize("boundary", [td.clamp, td.wrap, td.constant(1)], ids=lambda b: b.kind)
@pytest.mark.parametrize("count", [1, 2, 15, 40])
def test_passes_that_store_planes_and_read_them(count, boundary):
    """The gradient of a loop over a stencil: the states it stores, and the reversed loop."""

    def near(u):
        return td.stencil(lambda w: w[-1, 0] + w[1, 0] - w[0, 1] * w[0, 0], u, boundary=boundary)

    def f(u, k):
        return td.sum(td.iterate(count, lambda u: u + k * near(u), u))

    for columns in (300, 77):  # whole vectors, and inner ones without a border, or neither
        u = np.resize(A, (70, columns))
        same(td.value_and_grad(f, argnums=(0, 1)), u, 0.01, calls=3)
