"""Folds along an axis along which arrays were joined are expressions of these arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda

rng = np.random.default_rng(4)


def shifted(x: Any) -> list[Any]:
    return [td.roll(x, (i, j), axis=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]


FOLDS: dict[str, Any] = {
    "sum": lambda x: td.sum(td.stack(shifted(x)), axis=0),
    "maximum at the end": lambda x: td.max(td.stack(shifted(x), axis=-1), axis=-1),
    "of squares": lambda x: td.sum(td.stack(shifted(x), axis=1) ** 2, axis=1),
    "with a start": lambda x: td.fold(lambda a, b: a + b, 3, td.stack(shifted(x)[:2]), axis=0),
    "of a part": lambda x: td.sum(td.concatenate([x[None], 2 * x[None], x[:1] * x[None]]), axis=0),
    "rows": lambda x: td.min(td.stack([x[0], x[1] * 2, x[2]]), axis=0),
    "components": lambda x: td.sum(td.zeros((2, *x.shape), x.dtype).at[0, 1:].set(x[:-1])
                                   .at[1, :, 1:].set(x[:, 1:] - x[:, :-1]), axis=0),
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "joined along another axis": lambda x: td.sum(td.stack(shifted(x)), axis=1),
    "read twice": lambda x: (td.sum(h := td.stack(shifted(x)), axis=0), h * 2),
    "a larger domain": lambda x: td.max(
        td.exp(td.stack([x[k] for k in range(5)], axis=1))[None] * x[:, None, :5], axis=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("t", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("name", [*FOLDS, *OTHERS])
def test_bits(name: str, t: Any) -> None:
    """Those of the fold, which checked programs make."""
    f = {**FOLDS, **OTHERS}[name]
    x = (rng.random((37, 41)) * 9 - 4).astype(t)
    found, other = (td.jit(f, backend=b)(x) for b in ("native", "reference"))
    with td.config(check=True):
        want = td.jit(f, backend="native")(x)
    results = ([*v] if isinstance(v, tuple) else [v] for v in (found, want, other))
    for a, b, c in zip(*results, strict=True):
        assert a.dtype == b.dtype == c.dtype
        assert np.array_equal(a, b) and np.allclose(a, c, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["sum", "maximum at the end", "components"])
def test_a_gpu(name: str) -> None:
    x = rng.random((37, 41))
    with cuda(True):
        found = td.jit(FOLDS[name], backend="cuda")(x)
    assert np.array_equal(found, td.jit(FOLDS[name], backend="native")(x))


@pytest.mark.parametrize("name", FOLDS)
def test_one_kernel(name: str) -> None:
    program = td.jit(FOLDS[name], backend="native").lower(rng.random((37, 41)))
    assert len(program.kernels) == 1, program.explain()
    assert "each from" not in program.explain()  # no fold is left


def test_bits_of_negative_zeros() -> None:
    """A sum starts from 0.0, whatever it is made by."""
    x = np.full((3, 4), -0.0)
    y = td.jit(lambda x: td.sum(td.stack([x, x]), axis=0), backend="native")(x)
    assert not np.signbit(y).any()


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_a_fold(name: str) -> None:
    program = td.jit(OTHERS[name], backend="native").lower(rng.random((37, 41)))
    assert "each from" in program.explain()
