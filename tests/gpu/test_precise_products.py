"""float32 products by planes on tensor cores: exact on integers, as precise as float32, with every
layout, fused part and shape, and recomputed in float32 where the planes cannot hold an operand."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.gpu.test_fused_products import PROGRAMS, arrays, program

PRECISIONS = ("fp16x3", "bf16x6", "tf32x3")
RNG = np.random.default_rng(7)
SHAPES = ((300, 200, 272), (257, 329, 131), (1, 192, 1), (127, 255, 193), (129, 4097, 65),
          (64, 15, 17), (1100, 700, 900))  # fmt: skip


def multiplied(precision, **more):
    return td.jit(lambda a, b: td.matmul(a, b, precision=precision, **more), backend="cuda")


def error(made, a, b):
    """The relative Frobenius error."""
    true = a.astype("f8") @ b.astype("f8")
    return np.linalg.norm(made - true) / np.linalg.norm(true)


def of_float32(a, b):
    """The same error of a product whose sums are rounded to float32 in order."""
    made = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        made += a[:, k : k + 1] * b[k]
    return error(made, a, b)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_fused(name, precision):
    made = program(name, lambda a, b: td.matmul(a, b, precision=precision))
    fast = program(name, lambda a, b: td.matmul(a, b, precision=precision, algorithm="strassen"))
    for shape in SHAPES[:2]:
        for transposed in (False, True):
            given = arrays(*shape, transposed=transposed)
            want = PROGRAMS[name](np.matmul, np.maximum, *given)
            for function in (made, fast):
                np.testing.assert_array_equal(
                    function(*given), want, err_msg=f"{shape} {transposed}"
                )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_integers_of_22_bits_are_exact(shape, precision):
    """A permutation moves numbers of 22 bits without a change, in every layout."""
    m, k, n = shape
    function, fast = multiplied(precision), multiplied(precision, algorithm="winograd")
    for layout in range(4):
        b = RNG.integers(-(2**21), 2**21, (k, n)).astype("f4")
        a = np.zeros((m, k), "f4")
        a[np.arange(m), RNG.integers(0, k, m)] = 1
        want = a @ b
        x, y = (np.asfortranarray(v) if layout >> s & 1 else v for s, v in enumerate((a, b)))
        np.testing.assert_array_equal(function(x, y), want)
        small = RNG.integers(-8, 9, (m, k)).astype("f4"), RNG.integers(-8, 9, (k, n)).astype("f4")
        np.testing.assert_array_equal(fast(*small), small[0] @ small[1])
    strided = np.zeros((3 * m, 2 * k), "f4")[::3, ::2] + a
    np.testing.assert_array_equal(function(strided[::-1], b), want[::-1])


def made(kind, shape, rng=RNG):
    """Operands: centred, positive, lognormal with a spread, badly scaled rows or columns."""
    x = rng.standard_normal(shape)
    if kind == "positive":
        return rng.random(shape).astype("f4")
    if kind.startswith("spread"):
        return (x * np.exp(float(kind.split()[1]) * rng.standard_normal(shape))).astype("f4")
    if kind == "rows":
        return (x * 10.0 ** rng.integers(-12, 13, (shape[0], 1))).astype("f4")
    if kind == "columns":
        return (x * 10.0 ** rng.integers(-12, 13, (1, shape[1]))).astype("f4")
    return x.astype("f4")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("left, right", [("centred", "centred"), ("positive", "positive"),
                                         ("spread 1", "spread 1"), ("spread 2", "spread 2"),
                                         ("rows", "columns"), ("centred", "positive")])  # fmt: skip
def test_as_precise_as_float32(left, right, precision):
    # A few large elements dominate rows with a spread of 2: float32 hardly rounds their sums.
    most = 1.3 if left == "spread 2" else 1.02
    rng = np.random.default_rng(7)  # the same operands, whatever other tests run
    for k in (64, 200, 2048):
        a, b = made(left, (200, k), rng), made(right, (k, 220), rng)
        assert error(multiplied(precision)(a, b), a, b) <= most * of_float32(a, b)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_planes_cannot_hold_is_computed_in_float32(precision):
    function = multiplied(precision)
    standard = td.jit(lambda a, b: td.matmul(a, b, algorithm="standard", precision="float32"),
                      backend="cuda")  # fmt: skip
    a, b = made("centred", (300, 200)), made("centred", (200, 260))
    for value in (np.inf, -np.inf, np.nan, 3.4e38):
        x = a.copy()
        x[7, 11] = value
        got, want = function(x, b), standard(x, b)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=np.abs(want[:7]).max() * 1e-5)
    x, y = a * np.float32(1e-7), b * np.float32(1e-3)  # one huge element a row meets a zero
    x[:, 0], y[0] = 1e9, 0
    assert error(function(x, y), x, y) < 1e-6
    tiny = a * np.float32(2.0**-140)  # subnormal operands
    assert error(function(tiny, b * np.float32(2.0**100)), tiny, b * np.float32(2.0**100)) < 1e-5
    assert error(function(a * np.float32(1e30), b * np.float32(1e-30)), a, b) < 1e-5


@pytest.mark.parametrize("precision", PRECISIONS)
def test_batches_and_empty(precision):
    function = multiplied(precision)
    a, b = (RNG.integers(-8, 9, s).astype("f4") for s in ((3, 150, 70), (70, 140)))
    np.testing.assert_array_equal(function(a, b), a @ b)
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        np.testing.assert_array_equal(function(np.ones((m, k), "f4"), np.ones((k, n), "f4")),
                                      np.ones((m, k), "f4") @ np.ones((k, n), "f4"))  # fmt: skip


def test_fast_precision_takes_tensor_cores():
    def product(a, b):
        with td.precision(fast=True):
            return a @ b

    function = td.jit(product, backend="cuda")
    a, b = made("centred", (2048, 2048)), made("centred", (2048, 2048))
    assert "fp16x3 on tensor cores" in function.lower(a, b).explain()
    standard = td.jit(lambda a, b: a @ b, backend="cuda")
    assert "tensor cores" not in standard.lower(a, b).explain()
    assert error(function(a, b), a, b) < error(standard(a, b), a, b)
    np.testing.assert_array_equal(function(a, b), function(a, b))
