"""What other libraries and NumPy's users hand in, and expect to be answered as NumPy answers it."""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import pickle
from typing import Any, NamedTuple

import ml_dtypes
import numba
import numpy as np
import pytest

import treadle as td
from treadle.dsl.text import in_bytes


class Tensor:
    """As PyTorch's: `__dlpack__` and `__array__` refuse gradients and bfloat16."""

    def __init__(self, dtype: str = "torch.float32", requires_grad: bool = False) -> None:
        self.dtype, self.requires_grad, self.shape = dtype, requires_grad, (3,)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("Can't export tensors that require gradient")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


class ShapedTracer:
    """As JAX's."""

    shape = (3,)

    def __dlpack_device__(self) -> tuple[int, int]:
        raise RuntimeError("no buffer")

    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("no buffer")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("The numpy.ndarray conversion method was called on a traced array")


class Half(Tensor):
    """As JAX's arrays of bfloat16: no DLPack that NumPy reads, but an `__array__`."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.array([1, 2, 3], ml_dtypes.bfloat16)


@pytest.mark.parametrize("call", [td.use, td.jit(lambda x: x + 1), td.sum])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (Tensor(requires_grad=True), td.TracingError, r"automatic differentiation[\s\S]*detach"),
        (Tensor("torch.bfloat16"), td.DTypeError, r"bfloat16 cannot be read"),
        (ShapedTracer(), td.TracingError, "another library is tracing"),
        (Tensor(), td.TracingError, r"Tensor cannot be used: Got unsupp[\s\S]*Pass what NumPy"),
    ],
)
def test_arrays_that_are_not_handed_out(call: Any, value: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(value)


def test_bfloat16_by_the_array_protocol() -> None:
    got = td.run(td.use(Half()) + 1)
    assert got.dtype == ml_dtypes.bfloat16 and got.tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", ["opencl", "bogus"])
def test_only_working_backends_are_listed(name: str) -> None:
    with pytest.raises(td.BackendUnavailable) as caught:
        td.run(td.use(np.ones(3)) + 1, backend=name)
    listed = str(caught.value).rpartition("Backends here: ")[2]
    for backend, state in td.backends().items():
        assert (repr(backend) in listed) == state.startswith("works")


def test_bincount_of_negative_numbers(backend: str) -> None:
    count = td.jit(td.bincount, backend=backend)
    with pytest.raises(td.ShapeError, match="must not be negative, the smallest is -2"):
        count(np.array([1, -2, 2]))
    assert count(np.array([1, 2, 2])).tolist() == [0, 1, 2]
    assert count(np.array([], np.int64)).tolist() == []
    assert count(np.array([1, 2, 2], np.uint8)).tolist() == [0, 1, 2]
    with pytest.raises(td.IndexOutOfBounds, match="must not be negative, and one is -2"):
        td.bincount(np.array([1, -2, 2]), length=4)


@pytest.mark.parametrize("t", [td.bool_, td.int8, td.bfloat16, td.float32, td.complex128])
def test_types_have_what_numpys_have(t: Any) -> None:
    for name in [
        "itemsize",
        "type",
        "char",
        "str",
        "num",
        "names",
        "fields",
        "shape",
        "ndim",
        "byteorder",
        "isnative",
    ]:
        assert getattr(t, name) == getattr(t.numpy, name)
    assert hash(t) == hash(t.numpy) and {t.numpy: 1}[t] == 1
    assert pickle.loads(pickle.dumps(t)) == t
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = t.nonsense


def test_sizes_in_bytes() -> None:
    a = td.use(np.ones((2, 3), np.float32))
    assert (a.itemsize, a.nbytes) == (4, 24)
    assert td.zip(a, np.ones((2, 3))).itemsize == 12
    assert td.run(a.mT).shape == (3, 2)
    with pytest.raises(td.AxisError, match="mT needs at least two axes"):
        _ = a[0].mT


@pytest.mark.parametrize(
    "size, text",
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_499, "999 kB"), (999_500, "1 MB"),
     (1_050_000, "1.05 MB"), (999_999_999, "1 GB"), (1.1e12, "1.1 TB")],
)  # fmt: skip
def test_sizes_as_text(size: float, text: str) -> None:
    assert in_bytes(size) == text


def test_the_advice_for_mixed_integers_works() -> None:
    signed, unsigned = td.use(np.array([1, 2])), td.use(np.array([3, 4], np.uint64))
    with pytest.raises(td.DTypeError, match=r"convert the right operand, y\.astype\(td\.int64\)"):
        signed << unsigned
    assert td.run(signed << unsigned.astype(td.int64)).tolist() == [8, 32]


def test_numpys_modules_find_treadles() -> None:
    a = np.array([[2.0, 1], [1, 3]])
    assert isinstance(np.linalg.inv(td.use(a)), td.Array)
    np.testing.assert_allclose(np.linalg.inv(td.use(a)), np.linalg.inv(a))
    np.testing.assert_allclose(np.fft.fft(td.use(a)), np.fft.fft(a))  # type: ignore[call-overload]


def test_foreign_takes_c_functions() -> None:
    with td.config(backend="native"):  # a GPU cannot call them
        _calls_c_functions()


def _calls_c_functions() -> None:
    x = np.array([0.5, 1.5])
    cos = ctypes.CDLL(ctypes.util.find_library("m")).cos
    with pytest.raises(td.TracingError, match="'cos' does not say what it takes"):
        td.map(lambda v: td.foreign(cos, v), x)
    cos.argtypes, cos.restype = [ctypes.c_double], ctypes.c_double
    got = td.run(td.map(lambda v: td.foreign(cos, v) + 1, x))
    np.testing.assert_allclose(got, np.cos(x) + 1, rtol=1e-15)
    twice = numba.cfunc("float64(float64, int64)")(lambda v, n: v * n)
    assert td.run(td.map(lambda v: td.foreign(twice, v, 2), x)).tolist() == [1.0, 3.0]


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Box:
    low: Point
    high: Any


def test_what_jit_returned_is_fed_back() -> None:
    made = td.jit(lambda a: td.map(lambda v: Box(Point(v, v + 1), 2 * v), a))(np.arange(3.0))
    assert isinstance(made, Box) and isinstance(made.low, Point)
    total = td.jit(lambda b: td.map(lambda p: p.low.x + p.low.y + p.high, b))
    assert total(made).tolist() == [1.0, 5.0, 9.0]
    assert td.run(td.map(lambda p: p.low.y, td.use(made))).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("sizes", [(0, 33, 5), (4, 3, 0), (0, 3, 0), (2, 0, 3)])
def test_batches_of_empty_products(backend: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = np.zeros((2, m, k), complex), np.zeros((2, k, n), complex)
    turned = td.jit(lambda a, b: td.einsum("...mk,...kj->...jm", a, b), backend=backend)
    plain = td.jit(lambda a, b: a @ b, backend=backend)
    for _ in range(4):  # recorded, and replayed
        assert np.asarray(turned(a, b)).shape == (2, n, m)
        for right in (b, b[:1], np.broadcast_to(b[0], b.shape)):
            np.testing.assert_array_equal(plain(a, right), a @ right)
