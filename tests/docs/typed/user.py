"""A user's program: no expression of it is Any (checked by tests/docs/test_typed.py, not run)."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle import schedule as S

Matrix = NDArray[np.float64]


def smooth(image: td.Array, passes: int = 1) -> td.Array:
    blurred = td.stencil(lambda w: (w[-1, 0] + w[0, 0] + w[1, 0]) / 3, image, boundary=td.mirror)
    assert_type(blurred, td.Array)
    return td.clip(blurred * passes + 0.5, 0.0, 1.0)


@td.jit
def contrast(image: td.Array) -> td.Array:
    low, high = td.min(image), td.max(image)
    assert_type(low, td.Array)
    return (image - low) / (high - low)


@td.jit(backend="native")
def moments(x: td.Array) -> tuple[td.Array, td.Array]:
    return td.mean(x), td.std(x, axis=0, name="spread")


fast = td.jit(smooth, fast_math=True)
data: Matrix = np.zeros((4, 5))
assert_type(contrast(data), NDArray[Any])
assert_type(fast(data, 2), NDArray[Any])
assert_type(moments(data), tuple[NDArray[Any], NDArray[Any]])
assert_type(smooth(td.use(data)), td.Array)

a = td.use(data)
assert_type(a + 1, td.Array)
assert_type(2 / a, td.Array)
assert_type(a**2, td.Array)
assert_type(a > 0, td.Array)
assert_type(a == 0, td.Array)
assert_type(a[1:, None], td.Array)
assert_type(a @ a.T, td.Array)
assert_type(td.sqrt(a), td.Array)
assert_type(td.sqrt(2.0), td.Scalar)
assert_type(td.maximum(a, 0), td.Array)
assert_type(td.where(a > 0, a, 0.0), td.Array)
assert_type(td.cast(a, td.float32), td.Array)
assert_type(td.sum(a, axis=0, keepdims=True), td.Array)
assert_type(td.iota(3).reshape(3, 1), td.Array)
assert_type(a.shape, tuple[int | td.Scalar, ...])
assert_type(td.run(a), NDArray[Any])
assert_type(td.run((a, a)), tuple[NDArray[Any], NDArray[Any]])
assert_type(td.linalg.solve(a, a), td.Array)
assert_type(td.fft.fft(a), td.Array)
assert_type(td.linalg.eigh(a).eigenvalues, td.Array)
assert_type(S.Column(256) | S.Block(8, 32), S.Schedule)
assert_type(contrast.lower(data), td.Program)
assert_type(contrast.lower(data).explain(), str)
assert_type(float(td.sum(a)), float)
