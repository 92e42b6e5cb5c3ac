"""Folds across columns: the order in which rows are added."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import treadle as td


def down_columns(x: np.ndarray[Any, Any]) -> Any:
    """The sums of columns: fewer than 64 rows one by one; else in steps of 8 rows, in blocks of
    1 024, which are combined in order."""
    blocks = []
    height = 1 if len(x) < 64 else 8
    for first in range(0, len(x), 1024):
        block = x[first : first + 1024]
        steps = []
        for row in range(0, len(block), height):
            step = block[row]
            for one in block[row + 1 : row + height]:
                step = step + one
            steps.append(step)
        blocks.append(functools.reduce(np.add, steps))
    return x.dtype.type(0) + functools.reduce(np.add, blocks)


@pytest.mark.sample(3)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 63, 64, 65, 71, 72, 100, 1023, 1024, 1033, 3000])
@pytest.mark.parametrize("t", [np.float32, np.float64])
def test_columns_are_summed_in_the_documented_order(rows: int, t: Any) -> None:
    total = td.jit(lambda x, y: td.sum(x * y[:, None], axis=0), backend="native")
    rng = np.random.default_rng(rows)
    y = rng.normal(0, 1, rows).astype(t)
    for columns in (1, 10, 16, 17, 100):
        x = rng.normal(0, 1, (rows, columns)).astype(t)
        assert np.asarray(total(x, y)).tobytes() == down_columns(x * y[:, None]).tobytes(), columns
