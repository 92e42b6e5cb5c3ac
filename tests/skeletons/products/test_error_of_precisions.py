"""`td.error_bound` of float32 products by planes on tensor cores."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.skeletons.products.error import IN_A_ROW, SPLITS

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal(s).astype("f4") for s in ((64, 1024), (1024, 48)))


def _split(x: Any, precision: str) -> list[Any]:
    """The planes of an array, largest first, as float64."""
    x, found = x.astype("f8"), []
    for _ in range(3 if precision == "bf16x6" else 2):
        bits = {"fp16x3": 11, "bf16x6": 8, "tf32x3": 11}[precision]
        m, e = np.frexp(x)
        found.append(np.ldexp(np.rint(np.ldexp(m, bits)), e - bits))
        x = x - found[-1]
    return found


@pytest.mark.parametrize("precision", SPLITS)
def test_the_bound_covers_what_planes_leave_out(precision: str) -> None:
    """And every sum of a chunk rounded toward zero, as far as float32 can round it."""
    split = SPLITS[precision]
    left, right = _split(A, precision), _split(B, precision)
    planes = len(left)
    kept = sum(left[i] @ right[j] for i in range(planes) for j in range(planes - i))
    true, most = A.astype("f8") @ B.astype("f8"), float(np.abs(A).max() * np.abs(B).max())
    left_out = float(np.abs(kept - true).max())
    shown = td.error_bound(A, B, "standard", precision=precision)
    assert left_out < A.shape[1] * split.bound * most < shown.bound
    assert left_out > 0


@pytest.mark.parametrize("precision", SPLITS)
def test_errors_by_precision(precision: str) -> None:
    for algorithm in ("standard", "strassen", "winograd"):
        for x, y in ((A, B), (abs(A), abs(B))):
            plain = td.error_bound(x, y, algorithm)
            precise = td.error_bound(x, y, algorithm, precision=precision)
            assert precise.typical < plain.typical and precise.typical < precise.bound
            assert td.error_bound(x, y, algorithm, precision="float32") == plain
    one, two = (td.error_bound(A, B, "strassen", levels, precision) for levels in (1, 2))
    assert one.bound < two.bound and one.typical < two.typical


@pytest.mark.parametrize("precision", SPLITS)
def test_short_products_are_those_of_float32(precision: str) -> None:
    least = SPLITS[precision].least
    assert least < IN_A_ROW  # so that float32's are one sum
    for k, same in ((least - 1, True), (least, False)):
        a, b = np.ones((8, k), "f4"), np.ones((k, 8), "f4")
        found = td.error_bound(a, b, "standard", precision=precision)
        assert (found == td.error_bound(a, b, "standard")) == same
        assert found.typical <= td.error_bound(a, b, "standard").typical


def test_precisions_without_a_bound() -> None:
    for precision in ("fp8", ""):
        with pytest.raises(td.TracingError) as said:
            td.error_bound(A, B, "standard", precision=precision)
        assert f"error_bound: there is no bound for precision {precision!r}." in str(said.value)
        assert said.value.hint == ("Precisions: 'float32', 'tf32', 'fp16x3', 'bf16x6', 'tf32x3'.")
    for t, precision in itertools.product(("f8", "f2", "c8", "i4"), ("fp16x3", "tf32")):
        with pytest.raises(
            td.DTypeError, match=f"precision '{precision}' applies to products of float32"
        ):
            td.error_bound(A.astype(t), B.astype(t), "standard", precision=precision)
    with pytest.raises(td.TracingError, match="11 significant bits") as said:
        td.error_bound(A, B, precision="tf32")
    assert 'error_bound(a, b, "standard", precision="tf32")' in str(said.value.hint)


def _in_tf32(a: Any, b: Any) -> Any:
    """The product of operands rounded to tf32, as Hopper's tensor cores add: eight products and the
    sum are aligned to the largest exponent, cut to 25 bits behind its point, and summed; the sum is
    rounded toward zero (tests/backend/cuda/products/emulation/tensor.h)."""
    half = np.uint32(0xFFF)
    bits = (v.view("u4") for v in (a, b))
    x, y = (((u + half + (u >> 13 & 1)) & np.uint32(0xFFFFE000)).view("f4").astype("f8")
            for u in bits)  # fmt: skip
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], 8):
        p, q = x[:, k : k + 8, None], y[None, k : k + 8]
        terms = np.concatenate([p * q, total[:, None]], 1)
        most = np.frexp(np.concatenate([np.ldexp(1.0, np.frexp(p)[1] + np.frexp(q)[1] - 2),
                                        total[:, None]], 1))[1].max(1) - 1  # fmt: skip
        unit = np.ldexp(1.0, most - 25)
        found = np.trunc(terms / unit[:, None]).sum(1)
        drop = np.ldexp(1.0, np.maximum(np.frexp(np.abs(found))[1] - 24, 0))
        total = np.trunc(found / drop) * drop * unit
    return total


@pytest.mark.parametrize("kind", ["centred", "positive"])
@pytest.mark.parametrize("k", [200, 4096])
def test_the_error_of_tf32(kind: str, k: int) -> None:
    """Within the bound, and as large as is typical: that of rounded operands, of positive ones and
    many products that of sums which are rounded toward zero."""
    rng = np.random.default_rng(k)
    draw = rng.random if kind == "positive" else rng.standard_normal
    a, b = (np.asarray(draw(s), "f4") for s in ((32, k), (k, 32)))
    error = _in_tf32(a, b) - a.astype("f8") @ b
    shown = td.error_bound(a, b, "standard", precision="tf32")
    assert np.abs(error).max() <= shown.bound
    assert 0.75 < float(np.sqrt(np.mean(error**2))) / shown.typical < 1.25
    assert shown.typical > 2 * td.error_bound(a, b, "standard").typical


def test_operands_that_parts_cannot_hold_have_float32_s_errors() -> None:
    """The rule that the engine follows (tests/backend/cuda/products/test_tensor.py)."""
    plain = td.error_bound(A, B, "standard")
    huge, tiny = A * np.float32(1e-7), A * np.float32(2.0**-110)
    huge[3, 0], few = 1e3, A.copy()
    few[3, :128] *= np.float32(1e-8)  # an eighth of the elements
    for precision, x, held in (
        ("fp16x3", huge, False), ("bf16x6", huge, True), ("tf32x3", huge, True),
        ("fp16x3", tiny, True), ("bf16x6", tiny, False), ("tf32x3", tiny, False),
        ("fp16x3", few, True), ("fp16x3", A, True),
    ):  # fmt: skip
        for left, right in ((x, B), (B.T, x.T)):
            shown = td.error_bound(left, right, "standard", precision=precision)
            alone = td.error_bound(left, right, "standard")
            assert (shown == alone) is not held, (precision, held)
    few[3, 128] *= np.float32(1e-8)
    assert td.error_bound(few, B, "standard", precision="fp16x3") == td.error_bound(
        few, B, "standard"
    )
    assert td.error_bound(A, B, "standard") == plain
