"""The programs of tests/dsl/zoo.py along random directions: the derivative is that of central
differences, or an error."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.dsl.zoo import ZOO
from treadle.dsl.types import flatten

STEP = 1e-6
#: The programs, and their arguments, that have no derivative yet.
REFUSED = {("fold_segments", 0), ("counted_loop_in_kernel", 0)}


def inexact(values: Any) -> list[Any]:
    """The real results of floats, in a flat list."""
    if isinstance(values, dict):
        values = tuple(values.values())
    if isinstance(values, list):
        values = tuple(values)
    if dataclasses.is_dataclass(values) or isinstance(values, tuple):
        return [v for part in flatten(values, lambda v: False)[0] for v in inexact(part)]
    if isinstance(values, td.Array) and not values.structure.is_leaf:
        return inexact(td.unzip(values))
    return [values] if td.use(values).dtype in (td.float64, td.float32) else []


def weighted(values: Any) -> Any:
    """One number that depends on every element of every result, on each in its own way."""
    total: Any = 0.0
    for k, v in enumerate(inexact(values)):
        flat = td.flatten(v)
        total = total + td.sum(td.imap(lambda i, x, k=k: x * td.cos(i * 1.3 + k), flat))
    return total


def cases() -> list[Any]:
    return [pytest.param(name, k, id=f"{name}-{k}") for name, made in ZOO.items()
            for k, a in enumerate(made.arguments)
            if isinstance(a, np.ndarray) and a.dtype == np.float64]  # fmt: skip


@pytest.mark.parametrize(("name", "place"), cases())
def test_directional_derivatives(name: str, place: int) -> None:
    function, arguments = ZOO[name]
    a = arguments[place]

    def loss(x: Any) -> Any:
        given = [td.use(v) if isinstance(v, np.ndarray) else v for v in arguments]
        given[place] = x
        return weighted(function(*given))

    direction = np.random.default_rng(place).normal(size=a.shape)
    with td.config(backend="native"):
        if (name, place) in REFUSED:
            with pytest.raises(td.GradientError, match=r'File ".*zoo\.py"'):
                td.grad(loss)(td.use(a))
            return
        gradient = np.asarray(td.grad(loss)(td.use(a)))
        run = td.jit(loss)
        ahead, behind = (float(run(a + s * STEP * direction)) for s in (1, -1))
    expected = (ahead - behind) / (2 * STEP)
    scale = np.abs(gradient * direction).sum() + 1
    assert abs((gradient * direction).sum() - expected) < 1e-6 * scale
