"""Neighbours resolved by hand are a stencil, and the element is one of them."""

from __future__ import annotations

import re
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


# --- which places are neighbours -----------------------------------------------------------------


def by_resolved(kind: str) -> Any:
    """The cross of a stencil whose producer uses its indices: places resolved before they are
    read."""

    def program(u: Any) -> Any:
        made = td.imap(lambda i, j, x: x + i * 7 + j, u)
        return td.stencil(lambda w: w[-1, 0] + w[2, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0], made,
                          boundary=getattr(td, kind))  # fmt: skip

    return program


def clipped(u: Any) -> Any:
    rows, cols = u.shape
    return td.generate(u.shape, lambda i, j: (
        u[td.maximum(i - 1, 0), j] + u[td.minimum(i + 1, rows - 1), j]
        + u[i, td.minimum(td.maximum(j - 2, 0), cols - 1)] - u[i, j]))  # fmt: skip


@pytest.mark.parametrize("kind", ["clamp", "mirror", "symmetric", "wrap"])
def test_places_that_fusion_resolves(kind: str):
    u = np.random.default_rng(0).integers(-9, 9, (17, 30))
    program = td.jit(by_resolved(kind)).lower(u)
    assert set(boundaries(program)) == {kind}
    want = td.jit(by_resolved(kind), backend="reference")(u)
    np.testing.assert_array_equal(program(u), want)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (17, 130), (0, 4)], ids=str)
def test_places_kept_inside_by_hand(shape: tuple[int, ...]):
    u = np.random.default_rng(0).integers(-9, 9, shape)
    program = td.jit(clipped).lower(u)
    if 1 not in shape:
        assert set(boundaries(program)) == {"clamp"}
    np.testing.assert_array_equal(program(u), td.jit(clipped, backend="reference")(u))


def test_both_edges_are_kept_where_both_can_be_left():
    """`min(i + 1, n − 1)` of a longer domain, and `max(i − 1, 0)` of an index that goes beyond."""
    u = np.arange(20.0).reshape(4, 5)

    def program(u: Any) -> Any:
        return td.generate((9, 5), lambda i, j: u[td.minimum(i + 1, u.shape[0] - 1), j])

    np.testing.assert_array_equal(td.jit(program)(u), u[np.minimum(np.arange(9) + 1, 3)])


# --- the element itself --------------------------------------------------------------------------


def leapfrog(lap: Any) -> Any:
    def program(u: Any, v: Any) -> Any:
        v = v + 0.1 * lap(u)
        return u + 0.1 * v, v

    return program


def at_border(kind: Any) -> Any:
    return lambda u: td.stencil(lambda w: w[-1, 0] + w[0, 1] - 2 * w[0, 0], u, boundary=kind)


@pytest.mark.parametrize("lap", [
    laplacian, by_indices, clipped, at_border(td.wrap), at_border(td.mirror),
    at_border(td.constant(2.0)), at_border(td.function(lambda i, j: 0.5 * i)),
], ids=["rolls", "indices", "clipped", "wrap", "mirror", "constant", "function"])  # fmt: skip
def test_a_kernel_reads_an_element_once(lap: Any):
    """However its parts were written, and in whatever order they were fused."""
    rng = np.random.default_rng(0)
    u, v = rng.random((20, 70), np.float32), rng.random((20, 70), np.float32)
    program = td.jit(leapfrog(lap)).lower(u, v)
    (kernel,) = [n for n in topological(program.roots) if isinstance(n, Generate)]
    places = [(e.node, e.args) for e in walk(kernel.elements) if isinstance(e, Read)]
    assert len(places) == len(set(places))
    for got, want in zip(program(u, v), td.jit(leapfrog(lap), backend="reference")(u, v),
                         strict=True):  # fmt: skip
        np.testing.assert_array_equal(got, want)


def test_the_printed_kernel_loads_an_element_once():
    """A thread of 4 × 4 elements: six rows of u and four of v, inside and at the border."""
    u = np.zeros((64, 64), np.float32)
    program = td.jit(leapfrog(by_indices)).lower(u, u)
    inside, border = program.source("cuda").split("if (plain) {")[1].split("} else {")
    loads = [re.findall(r"const float4 (\w)_\w+ =", part) for part in (inside, border)]
    assert [loads[0].count(x) for x in "uv"] == [6, 4]
    assert [loads[1].count(x) for x in "uv"] == [6 + 2 * 4, 4]  # with their neighbours' groups
