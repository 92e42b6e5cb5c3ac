"""Neighbours modulo the extent are a stencil that wraps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Read, walk
from treadle.dsl.graph import Generate, topological


def boundaries(program: Any) -> list[str | None]:
    """Of all reads of its kernels, sorted."""
    found = [e.boundary for node in topological(program.roots) if isinstance(node, Generate)
             for e in walk(node.elements) if isinstance(e, Read)]  # fmt: skip
    return sorted(map(str, found))


def laplacian(u: Any) -> Any:
    return sum(td.roll(u, s, axis) for axis in (0, 1) for s in (1, -1)) - 4 * u


def by_indices(u: Any) -> Any:
    rows, cols = u.shape
    return td.generate(u.shape, lambda i, j: (
        u[(i - 1) % rows, j] + u[(i + 1) % rows, j] + u[i, (j - 1) % cols] + u[i, (j + 1) % cols]
        - 4 * u[i, j]))  # fmt: skip


def diagonal(u: Any) -> Any:
    return td.roll(td.roll(td.roll(u, 1, 0), 2, 1), 1, 0) * 2 - td.roll(u, (1, 1), (0, 1))


def of_numpy(function: Any, u: np.ndarray) -> np.ndarray:
    if function is diagonal:
        return np.roll(u, (2, 2), (0, 1)) * 2 - np.roll(u, (1, 1), (0, 1))
    return sum(np.roll(u, s, axis) for axis in (0, 1) for s in (1, -1)) - 4 * u


@pytest.mark.parametrize("function", [laplacian, by_indices, diagonal], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 5), (17, 130), (0, 4)], ids=str)
def test_rolls_are_neighbours(function: Any, shape: tuple[int, ...]):
    u = np.random.default_rng(0).integers(-9, 9, shape)
    program = td.jit(function).lower(u)
    if 1 not in shape:  # a single element is its own neighbour
        assert set(boundaries(program)) == {"wrap"}
    np.testing.assert_array_equal(program(u), of_numpy(function, u))


def test_a_program_of_rolls_is_the_program_of_a_stencil():
    u = np.random.default_rng(0).random((40, 300), np.float32)

    def stencil(u: Any) -> Any:
        return td.stencil(lambda w: w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0], u,
                          boundary=td.wrap)  # fmt: skip

    rolled, wrapped = td.jit(by_indices).lower(u), td.jit(stencil).lower(u)
    np.testing.assert_array_equal(rolled(u), wrapped(u))
    assert boundaries(rolled) == boundaries(wrapped)


@pytest.mark.parametrize("function", [
    lambda u: td.roll(u, 65, 1),  # too far to share anything
    lambda u: td.generate(u.shape, lambda i, j: u[i, (2 * j) % 30]),
    lambda u: td.generate(u.shape, lambda i, j: u[i, (j + 1) % 29]),  # another period
    lambda u: td.generate((5, 40), lambda i, j: u[(i + 1) % u.shape[0], j % 30]),
    lambda u: td.generate((20, 30), lambda i, j: u[i // 2, (j + 1) % u.shape[1]]),
])  # fmt: skip
def test_what_is_left_alone(function: Any):
    u = np.random.default_rng(0).integers(-9, 9, (20, 30))
    program = td.jit(function).lower(u)
    want = td.jit(function, backend="reference")(u)
    np.testing.assert_array_equal(program(u), want)


def test_a_checked_program_still_finds_what_is_outside():
    u = np.zeros((4, 6))

    def outside(u: Any) -> Any:
        return td.generate((5, 6), lambda i, j: u[i, (j + 1) % 6] + u[i, j])

    with pytest.raises(td.IndexOutOfBounds, match="axis 0"), td.config(check=True):
        td.jit(outside)(u)
