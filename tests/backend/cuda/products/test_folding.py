"""Products that fold their rows where they are computed, or an operand that they store as they
load it."""

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
from treadle.dsl.graph import (
    FoldedMatmul,
    FoldingMatmul,
    Node,
    StoringFold,
    StoringMatmul,
    topological,
)
from treadle.dsl.graphs.verify import verify

Arrays = tuple[np.ndarray, ...]


def moved(x: Any, means: Any, factors: Any) -> Any:
    return td.matmul(x[None] - means[:, None], factors)


def squares(x: Any, means: Any, factors: Any) -> Any:
    y = moved(x, means, factors)
    return td.sum(y * y, axis=2), y


def turned(x: Any, means: Any, factors: Any) -> Any:
    """Of other arrays, too, along the axes in another order, with an epilogue."""
    y = td.transpose(moved(x, means, factors), (1, 0, 2))
    return 1 - td.sum(td.square(y + td.sum(x, axis=1)[:, None, None]), axis=2)


def largest(x: Any, means: Any, factors: Any) -> Any:
    y = moved(x, means, factors)
    return td.max(td.abs(y), axis=2, initial=-1.0), td.exp(y)


def right(x: Any, means: Any, y: Any, w: Any) -> Any:
    """The cotangent of a product, its sum, and a product with it."""
    g = y * w[:, :, None]
    apart = x[None] - means[:, None]
    return td.sum(g, axis=1), td.matmul(td.matrix_transpose(apart), g), g


def turned_operand(x: Any, means: Any, y: Any, w: Any) -> Any:
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


#: Of products y that fold their rows, by x and y.
ROWS: dict[Callable[..., Any], Callable[[Any, Any], Arrays]] = {
    squares: lambda x, y: ((y * y).sum(2), y),
    turned: lambda x, y: (1 - np.square(y.transpose(1, 0, 2) + x.sum(1)[:, None, None]).sum(2),),
    largest: lambda x, y: (np.abs(y).max(2, initial=-1), np.exp(y)),
}
#: Of products of the transpose of a, by a and the operand g.
OPERANDS: dict[Callable[..., Any], Callable[[Any, Any], Arrays]] = {
    right: lambda a, g: (g.sum(1), a.transpose(0, 2, 1) @ g, g),
    turned_operand: lambda a, g: (
        1 - g.sum(1),
        g.transpose(0, 2, 1) @ a,
        np.sin(g.transpose(1, 0, 2)[:, :, ::-1]),
    ),
    outer: lambda a, g: (g.sum(1), a.transpose(0, 2, 1) @ g, g),
    powers: lambda a, g: ((g * g).sum(1), a.transpose(0, 2, 1) @ g),
}
WANTED = {**ROWS, **OPERANDS}


def arguments(f: Any, n: int, k: int, d: int, e: int) -> Arrays:
    rng = np.random.default_rng(0)
    others = ((k, d, e),) if f in ROWS else ((k, n, e), (k, n))
    return tuple(rng.random(s) for s in ((n, d), (k, d), *others))


def wanted(f: Any, x: Any, means: Any, *others: Any) -> Arrays:
    apart = x[None] - means[:, None]
    if f in ROWS:
        return ROWS[f](x, apart @ others[0])
    y, w = others
    return OPERANDS[f](apart, w[:, :, None] * (y.sum(1)[:, None] if f is outer else y))


def on_gpu(f: Any, *args: Any) -> Any:
    return td.jit(f, backend="native").lower(*args)._on("cuda")


def kinds_in(f: Any, args: Arrays) -> set[type[Node]]:
    return {type(n) for n in topological(on_gpu(f, *args).roots)}


def folding(program: Any) -> FoldingMatmul:
    (node,) = (n for n in topological(program.roots) if isinstance(n, FoldingMatmul))
    return node


@pytest.mark.sample(8)
@pytest.mark.parametrize("f", WANTED)
@pytest.mark.parametrize("price", (0.0, 1.0))
@pytest.mark.parametrize(
    "sizes",
    [(130, 3, 50, 64), (70, 2, 20, 65), (33, 2, 7, 130), (200, 4, 64, 5), (600, 2, 66, 6),
     (40, 3, 16, 128), (40, 3, 128, 16), (70, 3, 600, 6), (1100, 1, 6, 70),
     (0, 3, 4, 5), (9, 0, 4, 5), (9, 3, 0, 5), (9, 3, 4, 0)],
)  # fmt: skip
def test_results(f: Any, sizes: Any, price: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one kernel, with lines of several blocks and of parts along k, and in two."""
    monkeypatch.setattr(choice, "tensor_seconds", lambda *_: price)
    args = arguments(f, *sizes)
    strided = tuple(np.asfortranarray(a) for a in args)
    turned = tuple(a[:, ::-1][:, ::-1] for a in args)
    for given in (args, strided, turned):
        with cuda(True):
            got = td.jit(f, backend="cuda")(*given)
        for a, b in zip(got if isinstance(got, tuple) else (got,), wanted(f, *args), strict=True):
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
    assert {FoldedMatmul, StoringMatmul} <= kinds_in(both, args)
    with cuda(True):
        got = td.jit(both, backend="cuda")(*args)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", WANTED)
def test_the_node(f: Any) -> None:
    """What it means, and its two parts."""
    args = arguments(f, 70, 3, 20, 66)
    program = on_gpu(f, *args)
    node = folding(program)
    assert isinstance(node, FoldedMatmul | StoringMatmul)
    assert isinstance(node, FoldedMatmul) == (f in ROWS)
    if isinstance(node, StoringMatmul):
        assert node.side == (f is not turned_operand)
    else:
        assert len(node.epilogue) == (f is not turned)
    verify(program.roots)
    parts = node.apart()
    evaluator = Evaluator(dict(zip(program.inputs, args, strict=True)), {}, False, None)
    got = evaluator.node(node)
    of_parts = [a for part in parts[:: -1 if f in ROWS else 1] for a in evaluator.node(part)]
    assert len(got) == len(node.outputs)
    for a, b, out in zip(got, of_parts, node.outputs, strict=False):
        np.testing.assert_array_equal(a, b)
        assert len(out.shape) == a.ndim
    if f in OPERANDS:
        total, product, *_ = wanted(f, *args)
        np.testing.assert_allclose(got[-1], product, rtol=1e-12)
        np.testing.assert_allclose(got[0], total, rtol=1e-12)


@pytest.mark.parametrize("f", (squares, right))
def test_what_is_chosen(f: Any) -> None:
    """The kernel folds lines that no other block adds to."""
    program = on_gpu(f, *arguments(f, 80, 2, 70, 60))
    node = folding(program)
    part = choice.ROWS if f is squares else choice.STORED

    def chosen(size: tuple[int, int, int], count: int) -> tuple[str, frozenset[str]]:
        found = choice.decide(None, node, size, processors=132, count=count)
        return found.by, found.separate

    whole, several = ((10_000, 64, 64), (64, 10_000, 64))[:: 1 if f is squares else -1]
    assert chosen(whole, 200) == (choice.KERNEL, frozenset())
    assert part in chosen(several if f is squares else (64, 0, 64), 2)[1]
    assert chosen((4096, 4096, 4096), 2) == (choice.LIBRARY, frozenset((choice.LEFT, part)))
    assert ("fold of rows" if f is squares else "stored operand") in program.explain()


def test_where_rows_are_folded_alone() -> None:
    """By what is no function of the elements of a row, of columns, or costs much."""
    args = arguments(squares, 80, 2, 70, 60)

    def folded(f: Any) -> bool:
        return FoldedMatmul in kinds_in(f, args)

    def other(change: Callable[[Any], Any]) -> bool:
        return folded(lambda *given: change(moved(*given)))

    assert other(lambda y: td.sum(y, axis=2))
    assert not other(lambda y: td.sum(y, axis=1))
    assert not other(lambda y: td.sum(y * td.flip(y, axis=2), axis=2))
    assert not other(lambda y: td.sum(td.exp(td.sin(y)), axis=2))
    assert not other(lambda y: td.sum(y * td.sum(y, axis=1, keepdims=True), axis=2))
    assert not folded(lambda x, means, factors: td.sum(td.matmul(x, factors), axis=2))
    with td.config(deterministic=True):
        assert not other(lambda y: td.sum(y, axis=2))
    with td.config(check=True):
        assert not other(lambda y: td.sum(y, axis=2))


def test_where_it_is_stored_before() -> None:
    """Sums of rows, of what the other operand needs, and of products of arrays."""
    args = arguments(right, 80, 2, 70, 60)

    def stores(f: Any) -> bool:
        return StoringMatmul in kinds_in(f, args)

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

    assert stores(right) and stores(turned_operand) and stores(powers)
    assert not (stores(of_rows) or stores(of_arrays) or stores(needed))
    assert StoringFold in kinds_in(needed, args)
