"""Products of float64 that compute what was broadcast as they load it, on tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from treadle.backend.cuda.products import choice
from treadle.backend.cuda.products.form import machine_of
from treadle.backend.cuda.products.ways import tensor_seconds
from treadle.dsl.expr import Read
from treadle.dsl.graph import Matmul, topological


def centred(x: Any, means: Any, factors: Any, moved: Any) -> Any:
    """Two products of one array that is smaller before it is broadcast."""
    apart = x[None] - means[:, None]
    return td.matmul(apart, factors), td.matmul(td.matrix_transpose(apart), moved)


def arguments(k: int, n: int, d: int, e: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.random(s) for s in ((n, d), (k, d), (k, d, e), (k, n, e)))


def products(f: Any, *args: Any) -> list[Matmul]:
    """The products of a program for a GPU."""
    roots = td.jit(f, backend="native").lower(*args)._on("cuda").roots
    return [n for n in topological(roots) if isinstance(n, Matmul)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("price", (0.0, 1.0))
@pytest.mark.parametrize(
    "sizes", [(3, 600, 50, 66), (2, 70, 64, 64), (2, 130, 49, 51), (2, 0, 64, 64), (0, 5, 64, 64)]
)
def test_both_ways(sizes: Any, price: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel, and by a library after the operand was stored; also of views."""
    monkeypatch.setattr(choice, "tensor_seconds", lambda *_: price)
    x, means, factors, moved = arguments(*sizes)
    apart = x[None] - means[:, None]
    turned = np.asfortranarray(x), means[:, ::-1][:, ::-1], factors, np.asfortranarray(moved)
    for given in ((x, means, factors, moved), turned):
        with cuda(True):
            got = td.jit(centred, backend="cuda")(*given)
        for a, b in zip(got, (apart @ factors, apart.transpose(0, 2, 1) @ moved), strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-13, atol=1e-13)


def test_what_is_chosen() -> None:
    first, second = products(centred, *arguments(2, 80, 70, 60))
    for size, node in (((10_000, 64, 64), first), ((64, 10_000, 64), second)):
        chosen = choice.decide(None, node, size, processors=132, count=200)
        assert chosen.by == choice.KERNEL and not chosen.separate
    assert choice.decide(None, first, (64, 64, 64), processors=132, count=2).by == choice.LIBRARY
    many = (10_000, 64, 64), machine_of("sm_86", 84), "sm_86", 0, 200
    assert tensor_seconds(*many) == float("inf")


def test_where_it_is_stored() -> None:
    """What is as large before, costs others more than reading it, or belongs to a product without
    leading axes."""
    x, means, factors, moved = arguments(2, 80, 70, 60)

    def stored(f: Any, *args: Any) -> bool:
        return all(isinstance(p.left, Read) for p in products(f, *args))

    def summed(x: Any, means: Any, factors: Any) -> Any:
        apart = x[None] - means[:, None]
        return td.matmul(apart, factors), td.sum(td.exp(apart), axis=1)

    def often(x: Any, means: Any, factors: Any) -> Any:
        apart = x[None] - means[:, None]
        shifted = [td.roll(apart, k, axis=1) for k in range(8)]
        return td.matmul(apart, factors), td.max(td.stack(shifted), axis=0)

    assert not stored(centred, x, means, factors, moved)
    assert stored(lambda a, b, c: td.matmul(a - b, c), moved, moved * 2, factors.swapaxes(1, 2))
    assert not stored(summed, x, means, factors)
    assert stored(often, x, means, factors)
    assert stored(lambda a, b, c: td.matmul(a - b, c), x, means[0], factors[0])
