"""argsort gives the indices of NumPy's stable sort, however it finds them."""

import numpy as np
import pytest

from treadle.dsl.libraries import sort
from treadle.dsl.libraries.sort import argsort

EDGES = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]


def keys(kind: str, shape: tuple[int, ...], spread: str) -> np.ndarray:
    draw = np.random.default_rng(5)
    t = np.dtype(kind)
    if t.kind == "f":
        found = (
            draw.choice([*EDGES, 5e-7, 60.0], shape)
            if spread == "few"
            else draw.normal(0, 99, shape)
        )
        return found.astype(t)
    if t.kind == "b":
        return draw.random(shape) < 0.5
    low, high = np.iinfo(t).min, np.iinfo(t).max
    if spread == "few":
        return draw.choice(np.array([low, high, 3, 4], t), shape)
    if spread == "near":
        return (high - draw.integers(0, 100, shape).astype(t)).astype(t)
    return draw.integers(low, high, shape, t, endpoint=True)


@pytest.mark.parametrize("spread", ["few", "near", "any"])
@pytest.mark.parametrize("kind", ["?", "i1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_argsort_is_stable(kind: str, spread: str) -> None:
    for shape in ((0,), (1,), (300,), (5000,), (3, 600), (600, 3), (2, 600, 2), (0, 600)):
        x = keys(kind, shape, spread)
        for axis in range(x.ndim):
            want = np.argsort(x, axis=axis, kind="stable")
            np.testing.assert_array_equal(argsort(x, axis), want)


@pytest.mark.parametrize("spread", ["few", "near", "any"])
@pytest.mark.parametrize("kind", ["?", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4"])
def test_sort_is_that_of_numpy(kind: str, spread: str) -> None:
    for shape in ((0,), (300,), (5000,), (3, 600), (600, 3), (0, 600)):
        x = keys(kind, shape, spread)
        for axis in range(x.ndim):
            made = sort.sort(x, axis)
            assert made.dtype == x.dtype and not np.shares_memory(made, x)
            np.testing.assert_array_equal(made, np.sort(x, axis=axis))


def test_integers_of_a_narrow_range_are_counted() -> None:
    """At the ends of their types, of as many values as fit, and of one more."""
    for kind in ("i2", "u2", "i4", "i8", "u8"):
        ends = np.iinfo(kind)
        for low in (int(ends.min), int(ends.max) - 0xFFFF):
            steps = np.random.default_rng(7).permutation(0x10000)
            x = np.array([low + int(step) for step in steps[:3000]] + [low, low + 0xFFFF], kind)
            narrow = sort._narrow(x, 0)
            assert narrow is not None and narrow[0].dtype == np.uint16
            np.testing.assert_array_equal(sort.sort(x, 0), np.sort(x))
            np.testing.assert_array_equal(argsort(x, 0), np.argsort(x, kind="stable"))
    wide = np.arange(0x10001)
    assert sort._narrow(wide, 0) is None and sort._narrow(wide[1:], 0) is not None


def test_argsort_sorts_what_it_cannot_change() -> None:
    x = np.arange(1999)[::-1].copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(argsort(x[::2], 0), np.arange(1000)[::-1])


def test_floats_are_not_made_integers_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where some are NaN, which NumPy's unstable sort leaves in any order."""
    monkeypatch.setattr(sort, "_integers", None)
    for x in (np.random.default_rng(1).random(3000), np.array([0.0, -0.0, 1.0] * 400)):
        np.testing.assert_array_equal(argsort(x, 0), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("kind", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8"])
def test_partition_places_every_position(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = keys(kind, (500,), "any")
    np.testing.assert_array_equal(sort.partition(few, np.array([3]), 0), np.sort(few))
    monkeypatch.setattr(sort, "SORTED", 0)
    for shape, axis in ((0,), 0), ((1,), 0), ((500,), 0), ((3, 200), 1), ((200, 3), 0):
        x = keys(kind, shape, "few" if kind == "u8" else "any")
        ordered, n = np.sort(x, axis), x.shape[axis]
        draw = np.random.default_rng(3)
        some = [draw.integers(0, max(n, 1), k) for k in (1, 2, 5, sort.MANY, sort.MANY + 1)]
        pairs = [np.clip([k - 1, k], 0, max(n - 1, 0)) for k in (1, n // 2, n)]
        for at in (*some, *pairs, np.concatenate(pairs)):
            made = sort.partition(x, at, axis)
            assert made.dtype == x.dtype and not np.shares_memory(made, x)
            np.testing.assert_array_equal(np.sort(made, axis), ordered)
            if n:
                np.testing.assert_array_equal(made.take(at, axis), ordered.take(at, axis))
