"""td.fft against numpy.fft: names, arguments, types, norms and boundary cases."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import treadle as td

from .helpers import generator

TYPES = ("float32", "float64", "complex64", "complex128", "int32", "bool", "float16")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
OF_REAL = ("rfft", "ihfft", "rfft2", "rfftn")
NORMS = (None, "backward", "ortho", "forward")


def data(dtype, *shape):
    rng = generator("fft", dtype, shape)
    a = 4 * rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 4j * rng.standard_normal(shape)
    return a > 0 if dtype == "bool" else a.astype(dtype)


def agrees(found, want):
    kind = "c" if want.dtype.kind == "c" else "f"
    single = want.dtype in (np.float16, np.float32, np.complex64)
    assert found.dtype == {"c": ("c16", "c8"), "f": ("f8", "f4")}[kind][single]
    scale = np.abs(want).max(initial=0) or 1
    np.testing.assert_allclose(found, want, rtol=0, atol=scale * (2e-5 if single else 1e-13))


def same(run, name, a, *args, **kwargs):
    wide = a.astype(np.float32) if a.dtype == np.float16 else a
    want = getattr(np.fft, name)(wide, *args, **kwargs)
    agrees(run(getattr(td.fft, name)(a, *args, **kwargs)), want)


def test_every_name_and_its_arguments():
    names = [n for n in np.fft.__all__ if callable(getattr(np.fft, n))]
    assert sorted(td.fft.__all__) == sorted(names)
    for name in names:
        ours, its = (inspect.signature(getattr(of.fft, name)).parameters for of in (td, np))
        theirs = {k: p.default for k, p in its.items() if k not in ("out", "device")}
        ours = {k: p for k, p in ours.items() if k not in ("dtype", "device")}  # the standard's
        assert {k: p.default for k, p in ours.items() if k not in ("name", "schedule")} == theirs


@pytest.mark.sample(32)
@pytest.mark.parametrize("name", (*ONE, *TWO, *SEVERAL))
@pytest.mark.parametrize("dtype", TYPES)
def test_types(run, name, dtype):
    if name in OF_REAL and dtype.startswith("complex"):
        with pytest.raises(td.DTypeError, match="real numbers"):
            getattr(td.fft, name)(data(dtype, 3, 4, 6))
        return
    same(run, name, data(dtype, 3, 4, 6))


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("extent", [1, 2, 3, 7, 8, 30, 97])
def test_extents(run, name, extent):
    if extent == 1 and name in ("irfft", "hfft"):
        with pytest.raises(td.ShapeError, match="0 points"):
            run(getattr(td.fft, name)(data("float64", 1)))
        return
    same(run, name, data("float64" if name in OF_REAL else "complex128", extent))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("n", [1, 2, 5, 6, 9, 12])
def test_cropped_and_padded(run, name, n):
    a = data("float64" if name in OF_REAL else "complex128", 4, 6, 3)
    for axis in (0, 1, -1):
        same(run, name, a, n, axis)


@pytest.mark.parametrize("name", ONE)
def test_extents_of_run_time(backend, name):
    """n of run time, also of inverses, and arrays of other extents: one program."""
    f = td.jit(lambda a, n: getattr(td.fft, name)(a, n), backend=backend)
    for m in (6, 9):
        a = data("float64" if name in OF_REAL else "complex128", 4, m)
        for n in (1, 4, 6, 7, 15):
            agrees(f(a, n), getattr(np.fft, name)(a, n))


def test_several_extents_of_run_time(backend):
    f = td.jit(lambda a, n, m: td.fft.irfftn(a, (n, m), (0, 2)), backend=backend)
    a = data("complex128", 5, 4, 6)
    for n, m in ((3, 6), (5, 10), (8, 11)):
        agrees(f(a, n, m), np.fft.irfftn(a, (n, m), (0, 2)))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", (*ONE, *TWO, *SEVERAL))
def test_norms(run, name, norm):
    same(run, name, data("float32", 3, 4, 5), norm=norm)


AXES = [
    {}, {"axes": (0, 1)}, {"axes": (-1, 0)}, {"axes": (1,)}, {"s": (4, 7)},
    {"s": (3, -1), "axes": (0, 2)}, {"s": (2, 3, 8), "axes": (2, 1, 0)}, {"axes": (1, 1)},
    {"axes": (0, 2, 0)},
]  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("how", AXES, ids=str)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_axes(run, name, how):
    same(run, name, data("float64" if name in OF_REAL else "complex128", 5, 4, 6), **how)


def test_inverses(run):
    for dtype in ("float32", "complex128"):
        a = data(dtype, 6, 7)
        agrees(run(td.fft.ifftn(td.fft.fftn(a))), a.astype(np.result_type(a, np.complex64)))
    a = data("float64", 6, 7)
    agrees(run(td.fft.irfftn(td.fft.rfftn(a), a.shape)), a)
    agrees(run(td.fft.hfft(td.fft.ihfft(a), 7)), a)


def test_empty_batches_and_axes(run):
    assert run(td.fft.fft(np.zeros((0, 4)))).shape == (0, 4)
    assert run(td.fft.irfft(np.zeros((0, 4), np.complex64))).shape == (0, 6)
    for wrong in (np.zeros((3, 0)), np.zeros(0)):
        with pytest.raises(td.ShapeError, match="0 points"):
            run(td.fft.fft(wrong))
    f = td.jit(lambda a: td.fft.rfft(a))
    f(np.zeros((2, 3)))
    with pytest.raises(td.ShapeError, match="0 points"):
        f(np.zeros((2, 0)))


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9])
def test_frequencies(run, n):
    for d in (1.0, 0.3, 2):
        for name in ("fftfreq", "rfftfreq"):
            want = getattr(np.fft, name)(n, d)
            found = run(getattr(td.fft, name)(n, d))
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found, want)
            np.testing.assert_array_equal(td.jit(getattr(td.fft, name))(n, float(d)), want)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (8,), (3, 4), (0, 3), (2, 3, 5)])
def test_shifts(run, shape):
    a = data("float64", *shape)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, -1, *(((0, 1), (-1,)) if len(shape) > 1 else ())):
            want = getattr(np.fft, name)(a, axes)
            np.testing.assert_array_equal(run(getattr(td.fft, name)(a, axes)), want)


def test_between_other_operations(backend):
    """A low-pass filter: what surrounds the library's transforms is fused as usual."""

    def smooth(x, width):
        frequencies = td.fft.rfftfreq(x.shape[-1])
        damped = td.fft.rfft(2 * x + 1) * td.exp(-((frequencies * width) ** 2))
        return td.fft.irfft(damped, x.shape[-1]) - 1

    def by_numpy(x, width):
        damped = np.fft.rfft(2 * x + 1) * np.exp(-((np.fft.rfftfreq(x.shape[-1]) * width) ** 2))
        return np.fft.irfft(damped, x.shape[-1]) - 1

    f = td.jit(smooth, backend=backend)
    for shape in ((3, 64), (2, 63), (5, 1)):
        x = data("float64", *shape)
        for _ in range(3):  # (recorded, replayed)
            agrees(f(x, 4.0), by_numpy(x, 4.0))


def test_in_a_loop(backend):
    """The heat equation, exactly: every step in frequencies."""

    def steps(u, n):
        k = 2 * np.pi * td.fft.fftfreq(u.shape[0])
        return td.iterate(n, lambda v: td.real(td.fft.ifft(td.fft.fft(v) * td.exp(-k * k))), u)

    u = data("float64", 48)
    k = 2 * np.pi * np.fft.fftfreq(48)
    want = np.fft.ifft(np.fft.fft(u) * np.exp(-5 * k * k)).real
    f = td.jit(steps, backend=backend)
    for _ in range(2):
        agrees(f(u, 5), want)


MISTAKES = [
    (lambda: td.fft.fft(1.0), td.ShapeError, "axis"),
    (lambda: td.fft.fft(np.ones(3), norm="both"), td.TracingError, "ortho"),
    (lambda: td.fft.fft(np.ones(3), 0), td.ShapeError, "0 points"),
    (lambda: td.fft.fft(np.ones(3), -2), td.ShapeError, "negative"),
    (lambda: td.fft.fft(np.ones(3), 2.5), td.DTypeError, "integer"),
    (lambda: td.fft.fft(np.ones(3), axis=1), td.AxisError, "axis 1"),
    (lambda: td.fft.fft2(np.ones(3)), td.AxisError, "axis"),
    (lambda: td.fft.fftn(np.ones((3, 3)), (2,), (0, 1)), td.ShapeError, "1 extents for 2"),
    (lambda: td.fft.fftn(np.ones(3), (2, 2)), td.ShapeError, "2 extents"),
    (lambda: td.fft.fft(td.zip(np.ones(3), np.ones(3))), td.DTypeError, "unzip"),
    (lambda: td.fft.fftfreq(0), td.ShapeError, "0 points"),
    (lambda: td.fft.fftfreq(2.5), td.DTypeError, "integer"),
    (lambda: td.generate(3, lambda i: td.fft.fft(np.ones(3))[i]), td.NestedParallelismError, "fft"),
]  # fmt: skip


@pytest.mark.parametrize("wrong, error, said", MISTAKES)
def test_mistakes(wrong, error, said):
    with pytest.raises(error, match=said):
        td.run(wrong())


def test_without_scipy(monkeypatch):
    """NumPy's own transforms, in the same types."""
    from treadle.dsl.libraries import fft as fft_library

    monkeypatch.setattr(fft_library, "_pocketfft", lambda: (np.fft, 0))
    for name in ("fft", "irfft"):
        same(lambda e: td.run(e, backend="native"), name, data("complex64", 5, 6))
