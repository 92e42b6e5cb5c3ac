"""Products that store an operand, and fold it, as they load it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from treadle.backend.cuda.products import choice
from treadle.backend.reference.evaluate import Evaluator
from treadle.dsl.graph import FoldedMatmul, StoringFold, StoringMatmul, topological
from treadle.dsl.graphs.verify import verify

Arrays = tuple[np.ndarray, ...]


def right(x: Any, means: Any, y: Any, w: Any) -> Any:
    """The cotangent of a product, its sum, and a product with it."""
    g = y * w[:, :, None]
    apart = x[None] - means[:, None]
    return td.sum(g, axis=1), td.matmul(td.matrix_transpose(apart), g), g


def turned(x: Any, means: Any, y: Any, w: Any) -> Any:
    """An array of other axes, whose sum has an epilogue, by the left operand."""
    g = td.transpose(y * w[:, :, None], (1, 0, 2))
    apart = x[:, None] - means[None]
    product = td.matmul(td.transpose(g, (1, 2, 0)), td.transpose(apart, (1, 0, 2)))
    return 1 - td.sum(g, axis=0), product, td.sin(td.flip(g, axis=2))


def powers(x: Any, means: Any, y: Any, w: Any) -> Any:
    """A sum of squares of what is stored; the product alone is a result."""
    g = y * w[:, :, None]
    apart = x[None] - means[:, None]
    return td.sum(g * g, axis=1), td.matmul(td.matrix_transpose(apart), g)


def outer(x: Any, means: Any, y: Any, w: Any) -> Any:
    """Of arrays that lie along the other axis."""
    g = w[:, :, None] * td.sum(y, axis=1)[:, None]
    apart = x[None] - means[:, None]
    return td.sum(g, axis=1), td.matmul(td.matrix_transpose(apart), g), g


WANTED: dict[Callable[..., Any], Callable[[Any, Any], Arrays]] = {
    right: lambda a, g: (g.sum(1), a.transpose(0, 2, 1) @ g, g),
    turned: lambda a, g: (
        1 - g.sum(1),
        g.transpose(0, 2, 1) @ a,
        np.sin(g.transpose(1, 0, 2)[:, :, ::-1]),
    ),
    outer: lambda a, g: (g.sum(1), a.transpose(0, 2, 1) @ g, g),
    powers: lambda a, g: ((g * g).sum(1), a.transpose(0, 2, 1) @ g),
}


def stored(f: Any, y: Any, w: Any) -> Any:
    return w[:, :, None] * (y.sum(1)[:, None] if f is outer else y)


def arguments(n: int, k: int, d: int, e: int) -> Arrays:
    rng = np.random.default_rng(0)
    return tuple(rng.random(s) for s in ((n, d), (k, d), (k, n, e), (k, n)))


def on_gpu(f: Any, *args: Any) -> Any:
    return td.jit(f, backend="native").lower(*args)._on("cuda")


@pytest.mark.sample(4)
@pytest.mark.parametrize("f", WANTED)
@pytest.mark.parametrize("price", (0.0, 1.0))
@pytest.mark.parametrize(
    "sizes",
    [(130, 3, 50, 64), (70, 2, 20, 65), (33, 2, 7, 130), (600, 2, 66, 6), (40, 3, 128, 16),
     (1100, 1, 6, 70), (0, 3, 4, 5), (9, 0, 4, 5), (9, 3, 0, 5), (9, 3, 4, 0)],
)  # fmt: skip
def test_results(f: Any, sizes: Any, price: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one kernel, with lines of several blocks and of parts along k, and in two."""
    monkeypatch.setattr(choice, "tensor_seconds", lambda *_: price)
    x, means, y, w = args = arguments(*sizes)
    wanted = WANTED[f](x[None] - means[:, None], stored(f, y, w))
    strided = np.asfortranarray(x), means, y[:, ::-1][:, ::-1], np.asfortranarray(w)
    for given in (args, strided):
        with cuda(True):
            got = td.jit(f, backend="cuda")(*given)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)


@pytest.mark.sample(2)
@pytest.mark.parametrize("price", (0.0, 1.0))
@pytest.mark.parametrize("axes", list(permutations(range(3))))
def test_orders_of_axes(axes: Any, price: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is folded and stored has its axes in any order, with two leading axes of the product."""
    monkeypatch.setattr(choice, "tensor_seconds", lambda *_: price)
    rng = np.random.default_rng(0)
    shapes = (70, 20), (2, 3, 20), (2, 3, 20, 33), (2, 3, 70, 33), (2, 3, 70)
    x, means, factors, y, w = args = tuple(rng.random(s) for s in shapes)
    back = (*np.argsort(axes).tolist(), 3)

    def both(x: Any, means: Any, factors: Any, y: Any, w: Any) -> Any:
        apart = x[None, None] - means[:, :, None]
        g = td.transpose(y * w[:, :, :, None], (*axes, 3))
        rows = td.square(td.transpose(td.matmul(apart, factors), (*axes, 3)))
        product = td.matmul(td.matrix_transpose(apart), td.transpose(g, back))
        return td.sum(rows, axis=3), td.sum(g, axis=axes.index(2)), product, td.flip(g, axis=3) * 2

    apart, g = x[None, None] - means[:, :, None], y * w[:, :, :, None]
    turned = g.transpose(*axes, 3)
    wanted = (np.square(apart @ factors).sum(3).transpose(axes), turned.sum(axes.index(2)),
              apart.swapaxes(2, 3) @ g, turned[:, :, :, ::-1] * 2)  # fmt: skip
    kinds = {type(n) for n in topological(on_gpu(both, *args).roots)}
    assert {FoldedMatmul, StoringMatmul} <= kinds
    with cuda(True):
        got = td.jit(both, backend="cuda")(*args)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", WANTED)
def test_the_node(f: Any) -> None:
    """What it means, and its two parts."""
    args = arguments(70, 3, 20, 66)
    program = on_gpu(f, *args)
    (node,) = (n for n in topological(program.roots) if isinstance(n, StoringMatmul))
    assert node.side == (f is not turned)
    verify(program.roots)
    storing, product = node.apart()
    assert [len(o.shape) for o in node.outputs] == [
        *(len(o.shape) for o in storing.outputs), *(len(o.shape) for o in product.outputs)
    ]  # fmt: skip
    evaluator = Evaluator(dict(zip(program.inputs, args, strict=True)), {}, False)
    wanted = WANTED[f](args[0][None] - args[1][:, None], stored(f, *args[2:]))
    got = evaluator.node(node)
    np.testing.assert_allclose(got[-1], wanted[1], rtol=1e-12)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-12)


def test_what_is_chosen() -> None:
    program = on_gpu(right, *arguments(80, 2, 70, 60))
    (node,) = (n for n in topological(program.roots) if isinstance(n, StoringMatmul))

    def chosen(size: tuple[int, int, int], count: int) -> tuple[str, frozenset[str]]:
        found = choice.decide(None, node, size, processors=132, count=count)
        return found.by, found.separate

    assert chosen((64, 10_000, 64), 200) == (choice.KERNEL, frozenset())
    assert choice.STORED in chosen((64, 0, 64), 2)[1]
    assert chosen((4096, 4096, 4096), 2) == (
        choice.LIBRARY,
        frozenset((choice.LEFT, choice.STORED)),
    )
    assert "stored operand" in program.explain()


def test_where_it_is_stored_before() -> None:
    """Sums of rows, of what the other operand needs, and of products of arrays."""
    args = arguments(80, 2, 70, 60)

    def stores(f: Any) -> bool:
        return any(isinstance(n, StoringMatmul) for n in topological(on_gpu(f, *args).roots))

    def of_rows(x: Any, means: Any, y: Any, w: Any) -> Any:
        g = y * w[:, :, None]
        apart = x[None] - means[:, None]
        return td.sum(g, axis=2), td.matmul(td.matrix_transpose(apart), g)

    def of_arrays(x: Any, means: Any, y: Any, w: Any) -> Any:
        g = y * w[:, :, None]
        return td.sum(g, axis=1), td.matmul(td.matrix_transpose(y), g)

    def needed(x: Any, means: Any, y: Any, w: Any) -> Any:
        g = y * w[:, :, None]
        total = td.sum(g, axis=1)
        apart = x[None] - (means + td.sum(total, axis=1, keepdims=True))[:, None]
        return total, td.matmul(td.matrix_transpose(apart), g), g

    assert stores(right) and stores(turned) and stores(powers)
    assert not (stores(of_rows) or stores(of_arrays) or stores(needed))
    folds = topological(on_gpu(needed, *args).roots)
    assert any(isinstance(n, StoringFold) for n in folds)
