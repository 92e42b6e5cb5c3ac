"""A user's program: no expression of it is Any (checked by tests/docs/test_typed.py, not run)."""

from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

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
assert_type(td.percentile(a, (2, 98), axis=(0, 1), keepdims=True), td.Array)
assert_type(td.quantile(a, [0.5, 0.75]), td.Array)
assert_type(td.unique(a), td.Array)
assert_type(td.unique(a, return_counts=True), td.Array | tuple[td.Array, ...])
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
assert_type(td.linalg.solve_triangular(a, a, "T", lower=True), td.Array)
assert_type(td.fft.fft(a), td.Array)
assert_type(td.linalg.eigh(a).eigenvalues, td.Array)
assert_type(S.Column(256) | S.Block(8, 32), S.Schedule)
assert_type(contrast.lower(data), td.Program)
assert_type(contrast.lower(data).explain(), str)
assert_type(float(td.sum(a)), float)

numbers: list[float] = [3.0, 1.0, 2.0]
assert_type(td.sum([1.0, 2.0]), td.Array)
assert_type(td.sum(((1, 2), (3, 4))), td.Array)
assert_type(td.sqrt([1.0, 2.0]), td.Array)
assert_type(td.maximum(range(3), 1), td.Array)
assert_type(a - [1.0], td.Array)
assert_type(td.mean([[1, 2], [3, 4]], axis=0), td.Array)
assert_type(td.median(numbers), td.Array)
assert_type(td.stack([numbers, numbers]), td.Array)
assert_type(td.sum([data, data]), td.Array)
assert_type(td.dot([1, 2], [[1.0, 2.0], [3.0, 4.0]]), td.Array)
assert_type(a @ [1, 2, 3, 4, 5], td.Array)
assert_type(td.map(lambda x, y: x + y, numbers, numbers), td.Array)
assert_type(td.fold(lambda x, y: x + y, 0.0, numbers), td.Array)


class Motion(NamedTuple):
    place: td.Array
    speed: td.Array


@dataclass
class Weights:
    w: td.Array
    b: td.Array


def moved(k: td.Scalar, m: Motion) -> Motion:
    return Motion(m.place + m.speed, m.speed * 0.9)


def loss(p: Weights, x: td.Array) -> td.Array:
    return td.sum((x @ p.w + p.b) ** 2)


motion, weights = Motion(a, a), Weights(a, a)
assert_type(td.loop(10, moved, motion), Motion)
assert_type(td.loop(2, 10, moved, motion), Motion)
assert_type(td.iterate(3, lambda m: m, motion), Motion)
assert_type(td.while_loop(lambda m: td.sum(m.speed) > 1, lambda m: m, motion).place, td.Array)
assert_type(td.while_loop(lambda x: td.sum(x) > 1, lambda x: x / 2, data), td.Array)
assert_type(td.scan(lambda m, x: (m, x), motion, data)[0], Motion)
assert_type(td.grad(loss)(weights, a), Weights)
assert_type(td.value_and_grad(loss)(weights, a)[1].w, td.Array)
line, covariances = td.polyfit(data[0], data[1], 1, cov=True)
assert_type(line, td.Array)
assert_type(td.polyfit(data[0], data[1], 1), td.Array)
