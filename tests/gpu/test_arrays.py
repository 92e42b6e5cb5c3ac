"""Arrays of other libraries in and out, without a copy; copies; several GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

A = np.random.default_rng(0).standard_normal(1000).astype("f4")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def double(x):
    return x * 2 + 1


def test_cupy(cupy):
    program = td.jit(double, backend="cuda")
    for view in (lambda x: x, lambda x: x[1:], lambda x: x[::-1], lambda x: x[::3],
                 lambda x: x.reshape(10, 100).T, lambda x: x[:0]):  # fmt: skip
        found = program(view(cupy.asarray(A)))
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_array_equal(found.get(), view(A) * 2 + 1)


def test_results_are_new_arrays(cupy):
    d = cupy.asarray(A)
    program = td.jit(lambda x: (x, x, x + 1), backend="cuda")
    first = program(d)
    kept = [r.get() for r in first]
    for r in program(d * 2):
        r[...] = -1
    for r, k in zip(first, kept, strict=True):
        np.testing.assert_array_equal(r.get(), k)
    np.testing.assert_array_equal(d.get(), A)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "bool", "complex64"])
def test_torch(cupy, dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(12, device="cuda").reshape(3, 4).to(getattr(torch, dtype))
    same = td.jit(lambda a: a.T, backend="cuda")
    found = same(x)
    assert isinstance(found, cupy.ndarray) and found.shape == (4, 3)
    if dtype != "bfloat16":  # CuPy gives no DLPack of these
        assert torch.equal(torch.from_dlpack(found), x.T)
    assert td.run(td.use(x), backend="native").shape == (3, 4)


def test_jax(cupy):
    jax = pytest.importorskip("jax")
    try:
        gpu = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")
    x = jax.device_put(A, gpu)
    found = td.jit(double, backend="cuda")(x)
    np.testing.assert_array_equal(found.get(), A * 2 + 1)
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(found)), A * 2 + 1)


def test_streams(cupy):
    """Work goes to CuPy's current stream."""
    program = td.jit(lambda x: td.iterate(50, lambda s: s * 0.99 + 1, x), backend="cuda")
    want = program(A)
    for _ in range(5):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            d = cupy.asarray(A)
            found = program(d)
            stream.synchronize()
            np.testing.assert_array_equal(found.get(), want)


def test_host_arrays_of_every_layout():
    big = np.random.default_rng(1).standard_normal((3000, 4000))
    program = td.jit(double, backend="cuda")
    for x in (big, big.T, big[::2, ::3], big[::-1], big.astype(">f8"), big[:0]):
        np.testing.assert_array_equal(program(x), x * 2 + 1)


@pytest.mark.parametrize("size", [1000, 1 << 18, 1 << 23])
def test_host_arrays_may_change_after_the_call(size):
    program = td.jit(lambda x: td.sum(x), backend="cuda")
    x = np.ones(size)
    found = []
    for k in range(5):
        x[:] = k
        found.append(program(x))
    assert [float(f) for f in found] == [k * x.size for k in range(5)]


def test_several_gpus(cupy):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU")
    program = td.jit(double, backend="cuda")
    for ordinal in (0, 1, 0):
        with cupy.cuda.Device(ordinal):
            found = program(cupy.asarray(A))
            assert found.device.id == ordinal
            np.testing.assert_array_equal(found.get(), A * 2 + 1)


def test_more_elements_than_32_bits_count(cupy):
    free, _ = cupy.cuda.runtime.memGetInfo()
    if free < 12 << 30:
        pytest.skip("too little memory")
    n = (1 << 31) + 5
    x = cupy.arange(n, dtype="u1")
    found = td.jit(lambda a: a[::-1] + 1, backend="cuda")(x)
    assert found[-1] == 1 and found[0] == (n - 1 + 1) % 256
    assert int(td.jit(lambda a: td.sum(a, axis=0), backend="cuda")(x)) == int(x.sum())
