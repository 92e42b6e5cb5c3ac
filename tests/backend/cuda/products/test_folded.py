"""Products whose rows are folded where they are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from treadle.backend.cuda.products import choice
from treadle.backend.reference.evaluate import Evaluator
from treadle.dsl.graph import FoldedMatmul, topological
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


WANTED: dict[Callable[..., Any], Callable[[Any, Any], Arrays]] = {
    squares: lambda y, x: ((y * y).sum(2), y),
    turned: lambda y, x: (1 - np.square(y.transpose(1, 0, 2) + x.sum(1)[:, None, None]).sum(2),),
    largest: lambda y, x: (np.abs(y).max(2, initial=-1), np.exp(y)),
}


def arguments(n: int, k: int, d: int, e: int) -> Arrays:
    rng = np.random.default_rng(0)
    return tuple(rng.random(s) for s in ((n, d), (k, d), (k, d, e)))


def on_gpu(f: Any, *args: Any) -> Any:
    return td.jit(f, backend="native").lower(*args)._on("cuda")


@pytest.mark.sample(4)
@pytest.mark.parametrize("f", WANTED)
@pytest.mark.parametrize("price", (0.0, 1.0))
@pytest.mark.parametrize(
    "sizes",
    [(130, 3, 50, 64), (70, 2, 20, 65), (33, 2, 7, 130), (200, 4, 64, 5), (40, 3, 16, 128),
     (70, 3, 600, 6), (0, 3, 4, 5), (9, 0, 4, 5), (9, 3, 0, 5), (9, 3, 4, 0)],
)  # fmt: skip
def test_results(f: Any, sizes: Any, price: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one kernel, for blocks side by side and rows that several blocks add to, and in two."""
    monkeypatch.setattr(choice, "tensor_seconds", lambda *_: price)
    x, means, factors = arguments(*sizes)
    y = (x[None] - means[:, None]) @ factors
    with cuda(True):
        got = td.jit(f, backend="cuda")(x, means, factors)
    for a, b in zip(got if isinstance(got, tuple) else (got,), WANTED[f](y, x), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", WANTED)
def test_the_node(f: Any) -> None:
    """What it means, and its two parts."""
    args = arguments(70, 3, 20, 66)
    program = on_gpu(f, *args)
    (node,) = (n for n in topological(program.roots) if isinstance(n, FoldedMatmul))
    assert len(node.epilogue) == (f is not turned)
    verify(program.roots)
    product, fold = node.apart()
    evaluator = Evaluator(dict(zip(program.inputs, args, strict=True)), {}, False, None)
    got = evaluator.node(node)
    wanted = *(evaluator.array(leaf) for leaf in fold.leaves), *evaluator.node(product)
    assert len(got) == len(node.outputs)
    for a, b, out in zip(got, wanted, node.outputs, strict=False):
        np.testing.assert_array_equal(a, b)
        assert len(out.shape) == a.ndim


def test_what_is_chosen() -> None:
    """The kernel folds rows that no other block adds to."""
    program = on_gpu(squares, *arguments(80, 2, 70, 60))
    (node,) = (n for n in topological(program.roots) if isinstance(n, FoldedMatmul))

    def chosen(size: tuple[int, int, int], count: int) -> tuple[str, frozenset[str]]:
        found = choice.decide(None, node, size, processors=132, count=count)
        return found.by, found.separate

    assert chosen((10_000, 64, 64), 200) == (choice.KERNEL, frozenset())
    assert choice.ROWS in chosen((64, 10_000, 64), 2)[1]
    assert chosen((4096, 4096, 4096), 2) == (choice.LIBRARY, frozenset((choice.LEFT, choice.ROWS)))
    assert "fold of rows" in program.explain()


def test_where_rows_are_folded_alone() -> None:
    """By what is no function of the elements of a row, of columns, or costs much."""
    args = arguments(80, 2, 70, 60)

    def folded(f: Any) -> bool:
        return any(isinstance(n, FoldedMatmul) for n in topological(on_gpu(f, *args).roots))

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
