"""Axes of a few elements in folds: what they share is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(11)


def forces(x: Any, reach: Any) -> Any:
    """Of points on each other, as written with whole arrays."""
    away = x[:, None, :] - x[None, :, :]
    square = td.sum(away * away, axis=2)
    weight = td.where((square < reach) & (square > 0), td.exp(-square) / (square + 0.1), 0.0)
    return td.sum(weight[:, :, None] * away, axis=1)


def expected(x: Any, reach: float) -> Any:
    away = x[:, None, :] - x[None, :, :]
    square = (away * away).sum(axis=2)
    weight = np.where((square < reach) & (square > 0), np.exp(-square) / (square + 0.1), 0.0)
    return (weight[:, :, None] * away).sum(axis=1)


def shapes(f: Any, *args: Any, check: bool = False) -> list[tuple[Any, ...]]:
    """The extents of what is stored, except of the results."""
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(check=check), "native").roots
    nodes = [n for n in topological(roots) if n.inputs()]
    return [n.outputs[0].shape for n in nodes if not any(leaf.node is n for leaf in roots)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5, 70])
def test_forces_of_points_store_no_distances(dimensions: int) -> None:
    x = rng.random((150, dimensions))
    for backend in ("native", "reference"):
        found = td.jit(forces, backend=backend)(x, 0.5)
        np.testing.assert_allclose(found, expected(x, 0.5), rtol=1e-12, atol=1e-13)
    if 1 < dimensions < 5:
        assert all(len(shape) == 1 for shape in shapes(forces, x, 0.5))


def test_another_number_of_coordinates_is_another_program() -> None:
    program = td.jit(forces, backend="native")
    for dimensions in (3, 2, 9, 3, 8):
        x = rng.random((20, dimensions))
        np.testing.assert_allclose(program(x, 2.0), expected(x, 2.0), rtol=1e-12, atol=1e-13)
    with pytest.raises(td.ShapeError, match="an axis with an extent of 3, not 2"):
        program.lower(rng.random((20, 3)), 2.0)(rng.random((20, 2)), 2.0)


def test_bits_of_short_sums_are_those_of_longer_rows() -> None:
    """From the left, after the initial value: as the rows of a stored array."""
    a = rng.standard_normal((7, 11, 3)).astype(np.float32)
    a[0, 0], a[1, 1] = -0.0, np.nan
    for name in ("sum", "prod", "max", "min", "mean", "any"):
        f = getattr(td, name)
        computed = td.jit(lambda a, f=f: f(a + a, axis=2), backend="native")(a)
        stored = td.jit(lambda a, f=f: f(td.compute(a + a), axis=2), backend="native")(a)
        plain = td.jit(lambda a, f=f: f(a, axis=2), backend="native")(a + a)
        assert computed.tobytes() == plain.tobytes() == stored.tobytes(), name


def test_sums_of_one_computed_array_are_one_kernel() -> None:
    def moments(x: Any, y: Any) -> Any:
        weight = td.exp(-((x[:, None] - y[None, :]) ** 2))
        sums = [td.sum(weight * v[None, :], axis=1) for v in (y, y * y)]
        return (*sums, td.sum(weight * x[:, None], axis=0))

    x, y = rng.random(90), rng.random(80)
    program = td.jit(moments, backend="native").lower(x, y)
    folds = [n for n in topological(run_passes(program.source_roots, Settings(), "native").roots)
             if isinstance(n, Fold)]  # fmt: skip
    assert sorted(len(n.elements) for n in folds) == [1, 2]
    weight = np.exp(-((x[:, None] - y[None, :]) ** 2))
    for got, want in zip(program(x, y), (weight @ y, weight @ y**2, weight.T @ x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def nearest(image: Any, centres: Any) -> Any:
    """The nearest of some colours, one after the other."""
    best, label = td.full(image.shape[:2], np.inf), td.zeros(image.shape[:2], td.int64)
    for k in range(9):
        distance = ((image - centres[k]) ** 2).sum(axis=2)
        label = td.where(distance < best, k, label)
        best = td.minimum(distance, best)
    return label


def test_folds_that_element_wise_operations_read_are_expressions() -> None:
    def folds(f: Any, *args: Any, backend: str = "native") -> int:
        program = td.jit(f, backend="native").lower(*args)
        roots = run_passes(program.source_roots, Settings(), backend).roots
        return sum(isinstance(n, Fold) for n in topological(roots))

    image, centres = rng.random((40, 50, 3)), rng.random((9, 3))
    want = ((image[:, :, None] - centres) ** 2).sum(axis=3).argmin(axis=2)
    assert np.array_equal(td.jit(nearest, backend="native")(image, centres), want)
    assert folds(nearest, image, centres) == 0
    assert folds(nearest, image, centres, backend="cuda") > 0
    assert folds(lambda a: td.sqrt((a * a).sum(axis=2)), image) == 0
    assert folds(lambda a: (a * a).sum(axis=2), image) == 1  # a result
    assert folds(lambda a: (a * a).sum(axis=2).max(axis=0), image) > 0
    assert folds(lambda a: td.sqrt((a * a).sum(axis=2)), rng.random((40, 50, 5))) == 1


def test_a_named_or_checked_fold_stays_as_written() -> None:
    def named(x: Any) -> Any:
        away = x[:, None, :] - x[None, :, :]
        weight = td.exp(-td.fold(td.add, 0.0, away * away, axis=2, name="square"))
        return td.sum(weight[:, :, None] * away, axis=1)

    x = rng.random((12, 3))
    program = td.jit(named, backend="native").lower(x)
    other = program.scheduled(square=td.schedule.Column(4))
    np.testing.assert_allclose(program(x), other(x), rtol=1e-13)
    checked = td.run(forces(td.use(x), 1.0), check=True)
    np.testing.assert_allclose(checked, expected(x, 1.0), rtol=1e-12)
