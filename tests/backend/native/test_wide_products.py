"""Products of few rows with a large right operand: kernels that read it once."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import products
from treadle.dsl.types import float32, int32
from treadle.skeletons.products.small import is_wide

rng = np.random.default_rng(4)


@pytest.fixture
def no_library(monkeypatch):
    """Where a library's product is an error."""

    def refuse(*_):
        raise AssertionError("a product by a library")

    monkeypatch.setattr(products, "product", refuse)
    monkeypatch.setattr(products, "matmul", refuse)


def within(found, a, b):
    wide = np.result_type(a.dtype, np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = (a.shape[1] + 2) * np.finfo(wide).eps * (np.abs(a).astype(float) @ np.abs(b)) + 1e-3 * (
        a.dtype == np.float16
    ) * np.abs(exact)
    assert found.shape == exact.shape and (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("shape", [(2, 256, 256), (5, 1025, 260), (8, 2051, 1100), (3, 7, 9999)])
def test_results(shape, dtype, no_library):
    m, k, n = shape
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    f = td.jit(lambda a, b: a @ b, backend="native")
    first, *others = (np.asarray(f(a, b)) for _ in range(3))
    within(first, a, b)
    for other in others:
        assert np.array_equal(first, other)


@pytest.mark.parametrize("turn", [lambda b: b[:, :300], lambda b: b[::-1], lambda b: b[3:, 5:]])
def test_rows_of_another_array(turn, no_library):
    a, b = rng.standard_normal((4, 500)), turn(rng.standard_normal((503, 305))[:500])
    a = a[:, : b.shape[0]]
    within(td.jit(lambda a, b: a @ b, backend="native")(a, b), a, b)


def test_layers(no_library):
    """In a loop, and with what is computed of the products."""
    x, w, c = rng.standard_normal((6, 300)), rng.standard_normal((300, 300)) / 20, rng.random(300)
    f = td.jit(lambda x, w, c: td.iterate(3, lambda x: td.maximum(x @ w + c, 0), x))
    for _ in range(3):
        found, wanted = f(x, w, c), x
        for _ in range(3):
            wanted = np.maximum(wanted @ w + c, 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_who_computes_the_others(monkeypatch):
    called = []
    real = products.matmul
    monkeypatch.setattr(products, "matmul", lambda *a: called.append(1) or real(*a))
    monkeypatch.setattr(products, "product", lambda a, b, *_: called.append(1) or a @ b)
    f = td.jit(lambda a, b: a @ b, backend="native")
    b = rng.standard_normal((300, 300))
    for a, right in ((np.ones((9, 300)), b), (np.ones((4, 300)), b.T), (np.ones((4, 9)), b[:9])):
        called.clear()
        np.testing.assert_allclose(f(a, right), a @ right)
        assert called


def test_extents():
    assert is_wide(float32, 8, 30000, 10000) and is_wide(float32, 2, 256, 256)
    for m, k, n in ((1, 3000, 3000), (9, 3000, 3000), (4, 3000, 255), (4, 255, 256), (0, 300, 300)):
        assert not is_wide(float32, m, k, n)
    assert not is_wide(int32, 8, 3000, 1000)


def test_explanation():
    f = td.jit(lambda a, b: a @ b, backend="native")
    text = f.lower(np.ones((8, 3000), "f4"), np.ones((3000, 1000), "f4")).explain()
    assert "rows of the right operand" in text and "sums in the first cache" in text
