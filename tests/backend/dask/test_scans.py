"""Scans and recurrences on chunks: the bits of one machine, also of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

F = Callable[..., Any]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def check(f: F, a: np.ndarray, chunks: Any) -> list[Any]:
    """The results on arrays of dask, whose values have the bits of `native`."""
    made = flat(td.jit(f)(da.from_array(a, chunks=chunks)))
    wanted = flat(td.jit(f, backend="native")(a))
    for g, found, w in zip(made, dask.compute(*made, scheduler="sync"), wanted, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        assert np.asarray(found).tobytes() == np.asarray(w).tobytes(), (a.shape, chunks)
    return made


@pytest.mark.parametrize(
    "f",
    [
        lambda a: td.cumsum(a, axis=1),
        lambda a: td.scanr1(td.add, a),
        lambda a: td.scanl1(lambda x, y: x + y + x * y, a),
    ],
)
def test_a_few_of_many_long_rows_are_scanned_as_on_one_machine(f: F) -> None:
    """A kernel scans a few long rows in blocks, but many, as there are in the whole array, each in
    one piece."""
    check(f, numbers((18, 40_000)), ((7, 11), (40_000,)))
