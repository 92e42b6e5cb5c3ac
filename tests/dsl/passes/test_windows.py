"""Sums, minima and maxima over the axes of windows are computed axis by axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

image = np.random.default_rng(4).random((30, 40))
whole = np.random.default_rng(4).integers(-1000, 1000, (3, 30, 40))
Fold = Callable[..., Any]


def windows(fold: Fold, lengths: tuple[int, ...], axes: tuple[int, ...]) -> Fold:
    def f(a: Any) -> Any:
        folded = tuple(range(a.ndim, a.ndim + len(axes)))
        return fold(td.sliding_window_view(a, lengths, axis=axes), axis=folded)

    return f


def by_axis(f: Fold, *args: Any, **options: Any) -> bool:
    return "it folds windows" in td.jit(f, backend="native", **options).lower(*args).explain()


def agree(f: Fold, a: Any, *, exact: bool) -> None:
    want = td.jit(f, backend="reference")(a)
    got = td.jit(f, backend="native")(a)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0 if exact else 1e-13)


@pytest.mark.parametrize("fold", [td.sum, td.mean, td.max, td.min])
def test_windows_of_two_axes(fold: Fold) -> None:
    for lengths in ((9, 9), (7, 11), (30, 40)):
        f = windows(fold, lengths, (0, 1))
        assert by_axis(f, image)
        agree(f, image, exact=fold in (td.max, td.min))
    assert not by_axis(windows(fold, (3, 3), (0, 1)), image)  # it would not be faster


def test_more_axes_integers_and_views() -> None:
    agree(windows(td.sum, (9, 8), (1, 2)), whole, exact=True)
    assert by_axis(windows(td.sum, (9, 8), (1, 2)), whole)
    agree(windows(td.max, (2, 7, 8), (0, 1, 2)), whole, exact=True)
    assert by_axis(windows(td.max, (2, 7, 8), (0, 1, 2)), whole)

    def views(a: Any) -> Any:
        """Of a part, padded, on transposes, and every second window only."""
        w = td.sliding_window_view(td.pad(a[3:-2, 1:], 4, mode="symmetric").T, (9, 9))
        return td.max(w, axis=(3, 2)), td.sum(w[::2], axis=(2, 3)), td.sum(w * 2.5, axis=(2, 3))

    want, got = (td.jit(views, backend=b)(image) for b in ("reference", "native"))
    for x, y in zip(want, got, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)


def test_no_number_windows_and_none() -> None:
    holes = image.copy()
    holes[5, 6] = np.nan
    agree(windows(td.max, (9, 9), (0, 1)), holes, exact=True)
    agree(windows(td.sum, (9, 9), (0, 1)), holes, exact=False)

    def part(a: Any, n: Any) -> Any:
        return td.sum(td.sliding_window_view(a, (9, 9))[:n], axis=(2, 3))

    for n in (0, 1, 5, 99):
        want, got = (td.jit(part, backend=b)(image, n) for b in ("reference", "native"))
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_what_stays_one_fold() -> None:
    f = windows(td.sum, (9, 9), (0, 1))
    assert not by_axis(f, image, recognise=False)
    assert not by_axis(f, image, deterministic=True)
    assert not by_axis(lambda a: td.sum(td.sliding_window_view(a, (9, 9))), image)


@pytest.mark.parametrize(
    "place",
    [
        lambda i, p: i + p + 2 * i, lambda i, p: i + p + i * i, lambda i, p: i + p + p // 2,
        lambda i, p: i + p + td.where(i > 3, 5, 0), lambda i, p: i - p + 9, lambda i, p: 2 * p + i,
    ],
)  # fmt: skip
def test_places_that_are_no_windows(place: Fold) -> None:
    """Sums of both indices and of what depends on one of them again."""

    def f(a: Any) -> Any:
        taken = td.generate((9, 9, 9, 9), lambda i, j, p, q: a[place(i, p), j + q])
        return td.sum(taken, axis=(2, 3))

    agree(f, np.arange(100 * 20).reshape(100, 20) ** 2 % 1009, exact=True)

    def moved(a: Any) -> Any:
        taken = td.generate((9, 9, 9, 9), lambda i, j, p, q: a[i + p + 5, q + j])
        return td.sum(taken, axis=(2, 3))

    agree(moved, whole[0], exact=True)
    assert by_axis(moved, whole[0])
