"""Two folds of the same array in one traversal, or in two, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import crossed
from treadle.skeletons.lower.fold.traversals import why_apart

rng = np.random.default_rng(5)


def values(shape, dtype):
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return (rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if
            np.dtype(dtype).kind == "c" else 0)).astype(dtype)  # fmt: skip


PROGRAMS = {
    "both sides": lambda a, x, y: (y @ a, a @ x),
    "rows": lambda a, x, y: a.T @ (a @ x - y),
    "value": lambda a, x, y: (td.sum((a @ x - y) ** 2), (a @ x - y) @ a),
    "extremes": lambda a, x, y: (td.max(td.abs(a), axis=1), td.min(td.abs(a), axis=0)),
    "planes": lambda a, x, y: (td.sum(a, axis=2), td.sum(a * td.sum(a, axis=2)[..., None], axis=1)),
    "in a loop": lambda a, x, y: td.iterate(3, lambda s: y + a @ (s @ a), y),
    "in place": lambda a, x, y: td.iterate(3, lambda s: x - (a @ s) @ a, x),
}  # fmt: skip


def results(f, args, together, monkeypatch):
    """Of a first call, of one that is recorded, and of a replay."""
    made = []
    with monkeypatch.context() as m:
        launched = []
        m.setattr(crossed, "why_apart", lambda *_: launched.append(1) and None if together else "")
        g = td.jit(lambda *a: f(*a), backend="native")
        for _ in range(3):
            found = g(*args)
            made.append([np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))])
        return made, bool(launched)


@pytest.mark.sample(12)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "i8", "i1"])
@pytest.mark.parametrize("shape", [(64, 64), (66, 70), (1024, 65), (2060, 90), (1030, 8200)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_two_traversals(name, shape, dtype, monkeypatch):
    m, n = shape
    args = (
        values((2, *shape) if name == "planes" else shape, dtype),
        values(n, dtype),
        values(m, dtype),
    )
    apart, _ = results(PROGRAMS[name], args, False, monkeypatch)
    together, used = results(PROGRAMS[name], args, True, monkeypatch)
    assert used or name == "in a loop"
    for one, other in zip(apart, together, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1], np.array])
def test_any_memory_layout(view):
    a = view(rng.standard_normal((2100, 2100)))
    x, y = rng.standard_normal(a.shape[1]), rng.standard_normal(a.shape[0])
    for _ in range(2):
        along, across = td.jit(lambda a, x, y: (a @ x, y @ a), backend="native")(a, x, y)
        np.testing.assert_allclose(along, a @ x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(across, y @ a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ((1, 4000, 5000, 8, 2), None),
        ((1, 30000, 12500, 8, 16), None),
        ((1, 10000, 12500, 8, 16), "10 blocks of 1,024 rows are too few for 16 threads"),
        ((4, 1000, 300, 4, 4), None),
        ((1, 4000, 5000, 8, 16), "4 blocks of 1,024 rows are too few for 16 threads"),
        ((1, 4000, 20000, 8, 2), "8 rows do not stay in a core's cache"),
        ((1, 4000, 63, 8, 2), "rows or columns have fewer than 64 elements"),
        ((0, 4000, 5000, 8, 2), "rows or columns have fewer than 64 elements"),
    ],
)
def test_when_there_are_two(sizes, why):
    assert why_apart(*sizes) == why


def test_explanation(monkeypatch):
    monkeypatch.setenv("TREADLE_NUM_THREADS", "2")
    f = td.jit(lambda a, x: (a @ x) @ a, backend="native")
    text = f.lower(np.ones((3000, 400)), np.ones(400)).explain()
    assert "2 operations written, 1 kernel launched" in text
    assert "each along [n2]" in text and "each across [n1]" in text
    assert "8 of them folded, then added to the columns" in text
    text = f.lower(np.ones((3000, 40)), np.ones(40)).explain()
    assert "2 kernels launched" in text
    assert "two traversals: rows or columns have fewer than 64 elements" in text
