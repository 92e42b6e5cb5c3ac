"""Sums over several axes of elements computed from much smaller arrays are loops per result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, topological


def convolution(x: Any, w: Any) -> Any:
    n, h, wide, c = x.shape
    kh, kw, _, out = w.shape
    products = td.generate(
        (n, h - kh + 1, wide - kw + 1, out, kh, kw, c),
        lambda b, i, j, o, p, q, k: x[b, i + p, j + q, k] * w[p, q, k, o],
    )
    return td.sum(products, axis=(4, 5, 6))


def expected(x: Any, w: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))
    return np.einsum("bijcpq,pqco->bijo", windows, w)


def loops(f: Any, *args: Any) -> set[str]:
    """The labels of the folds that are loops for these arguments."""
    program = td.jit(f, backend="native").lower(*args)
    program(*args)
    made = program.executable
    found = set()
    for step in made.kernel_steps:
        for _, form, _ in step.variants:
            found |= {node.label.operation for node in form.loops}
    return found


def data(*shape: int) -> Any:
    return np.random.default_rng(3).random(shape).astype(np.float32)


@pytest.mark.sample(1)
@pytest.mark.parametrize("channels", [(1, 1), (3, 32), (16, 5), (9, 17)])
def test_a_convolution_is_loops(channels: tuple[int, int]) -> None:
    c, out = channels
    x, w = data(2, 40, 30, c), data(3, 3, c, out)
    assert loops(convolution, x, w) == {"sum"}
    f = td.jit(convolution, backend="native")
    for _ in range(3):
        assert np.allclose(f(x, w), expected(x, w), rtol=1e-4)
    assert "by loops, in a register" in str(f.lower(x, w).explain())


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (1, 8, 9, 4), (1, 3, 3, 2), (0, 9, 9, 3)])
def test_few_results_and_empty_ones_are_right(shape: tuple[int, ...]) -> None:
    x, w = data(*shape), data(2, 3, shape[3], 7)
    found = td.jit(convolution, backend="native")(x, w)
    assert found.shape == (shape[0], shape[1] - 1, shape[2] - 2, 7)
    if found.size:
        assert np.allclose(found, expected(x, w), rtol=1e-4)


def test_one_program_serves_few_and_many_results_and_deep_ones() -> None:
    f = td.jit(convolution, backend="native")
    for shape, kernel in (((1, 40, 40, 3), 3), ((1, 6, 6, 3), 3), ((1, 60, 60, 70), 9)):
        x, w = data(*shape), data(kernel, kernel, shape[3], 4)
        assert np.allclose(f(x, w), expected(x, w), rtol=1e-3)


def test_an_epilogue_is_computed_with_the_result() -> None:
    def f(x: Any, w: Any, bias: Any) -> Any:
        return td.maximum(convolution(x, w) + bias, 0.0)

    x, w, bias = data(1, 40, 40, 8), data(3, 3, 8, 16), data(16) - 40
    assert loops(f, x, w, bias) == {"sum"}
    program = td.jit(f, backend="native").lower(x, w, bias)
    assert len(program.kernels) == 1
    want = np.maximum(expected(x, w) + bias, 0)
    assert np.allclose(program(x, w, bias), want, rtol=1e-4, atol=1e-4)


def test_other_functions_are_loops_too() -> None:
    def f(x: Any, w: Any) -> Any:
        cube = td.generate((40, 40, 16, 3, 3), lambda i, j, o, p, q: x[i + p, j + q] + w[p, q, o])
        return td.max(cube, axis=(3, 4)), td.fold(lambda a, b: a * b % 251, 1, td.cast(
            cube * 100, td.int64), axis=(3, 4))  # fmt: skip

    x, w = data(42, 42), data(3, 3, 16)
    cube = np.lib.stride_tricks.sliding_window_view(x, (3, 3))[:, :, None] + w.transpose(2, 0, 1)
    most, product = td.jit(f, backend="native")(x, w)
    want = np.ones(most.shape, np.int64)
    for p in range(3):
        for q in range(3):
            want = want * (cube[..., p, q] * 100).astype(np.int64) % 251
    assert np.allclose(most, cube.max(axis=(3, 4))) and np.array_equal(product, want)


def test_what_reads_each_element_once_stays_a_fold() -> None:
    def plain(x: Any) -> Any:
        return td.sum(x * 2, axis=(0, 2))

    assert not loops(plain, data(30, 50, 40))
    transposed = td.jit(lambda x, w: td.sum(td.generate(
        (50, 60, 20, 9), lambda i, j, k, q: x[i, k, q] * w[j, k, q]), axis=(2, 3)),
        backend="native")  # fmt: skip
    x, w = data(50, 20, 9), data(60, 20, 9)
    assert np.allclose(transposed(x, w), np.einsum("ikq,jkq->ij", x, w), rtol=1e-4)
    program = transposed.lower(x, w)
    (fold,) = [n for n in topological(program.roots) if isinstance(n, Fold)]
    assert fold not in program.executable.short.deep


def test_no_bit_depends_on_the_number_of_results() -> None:
    f = td.jit(convolution, backend="native")
    for c in (5, 100):
        x, w = data(1, 40, 40, c), data(2, 2, c, 8)
        assert f(x[:, :4, :9], w).tobytes() == f(x, w)[:, :3, :8].tobytes()


def test_checked_and_deterministic_programs_keep_their_folds() -> None:
    x, w = data(1, 40, 40, 3), data(3, 3, 3, 8)
    for options in ({"check": True}, {"deterministic": True}):
        with td.config(**options):
            assert not loops(convolution, x, w)
            assert np.allclose(td.jit(convolution, backend="native")(x, w), expected(x, w))
