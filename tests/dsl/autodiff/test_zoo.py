"""The programs of tests/dsl/zoo.py along random directions: the derivative is that of central
differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.dsl.zoo import ZOO

from .helpers import weighted

STEP = 1e-6


def cases() -> list[Any]:
    return [pytest.param(name, k, id=f"{name}-{k}") for name, made in ZOO.items()
            for k, a in enumerate(made.arguments)
            if isinstance(a, np.ndarray) and a.dtype == np.float64]  # fmt: skip


@pytest.mark.sample(1)
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
        gradient = np.asarray(td.grad(loss)(td.use(a)))
        _, forward = td.run(td.jvp(loss, (td.use(a),), (direction,)))
        run = td.jit(loss)
        ahead, behind = (float(run(a + s * STEP * direction)) for s in (1, -1))
    expected = (ahead - behind) / (2 * STEP)
    scale = np.abs(gradient * direction).sum() + 1
    assert abs((gradient * direction).sum() - expected) < 1e-6 * scale
    assert abs(forward - expected) < 1e-6 * scale
