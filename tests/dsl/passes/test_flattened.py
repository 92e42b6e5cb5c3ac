"""Elements of flattened views are visited by the axes of the arrays behind them, on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Apply, walk
from treadle.dsl.graph import Fold, Generate, Node, Permute, topological
from treadle.dsl.operations.indexing.index_space import reshaped
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(11)
IMAGE = rng.integers(0, 256, (37, 21, 3)).astype(np.uint8)
MATRIX = rng.random((37, 21))
CUBE = rng.integers(0, 9, (5, 7, 9))


def nodes(f: Any, *args: Any, backend: str = "native", **settings: Any) -> list[Node]:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(**settings), backend).roots
    return [n for n in topological(roots) if isinstance(n, Permute | Fold | Generate)]


def divides(node: Node) -> bool:
    """Whether an element of a node divides, other than to give elements another shape."""
    names = {e.op.name for e in walk(node.per_element()) if isinstance(e, Apply)}
    return bool(names & {"floor_divide", "remainder"}) and reshaped(node) is None


def channels(a: Any) -> Any:
    return td.stack([td.bincount(a[:, :, k].ravel(), length=256) for k in range(3)])


def weighted(a: Any, w: Any) -> Any:
    k = a[:, :, 1].ravel().astype(td.int64)
    return td.zeros(256).at[k].add(w[:, ::-1].ravel()[td.arange(k.shape[0])])


def last(a: Any) -> Any:
    k = a[1:, :, 2].ravel()
    return td.full(256, -1).at[k].max(td.arange(k.shape[0]))


def test_histograms_of_channels_divide_nothing() -> None:
    assert not any(map(divides, nodes(channels, IMAGE)))
    assert any(map(divides, nodes(channels, IMAGE, backend="cuda")))
    expected = np.stack([np.bincount(IMAGE[:, :, k].ravel(), minlength=256) for k in range(3)])
    for _ in range(4):
        assert np.array_equal(td.jit(channels, backend="native")(IMAGE), expected)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "weighted": (weighted, (IMAGE, MATRIX)),
    "positions": (last, (IMAGE,)),
    "sums": (lambda a: td.sum(a[:, 1:, 0].ravel().astype(td.int64)), (IMAGE,)),
    "maps": (lambda m: m[:, 1:].ravel() * 2, (MATRIX,)),
    "transposes": (lambda m: m.T.ravel() + td.arange(m.size), (MATRIX,)),
    "cubes": (lambda c: c[:, 1:, ::2].ravel() + 1, (CUBE,)),
    "permuted": (lambda c: td.transpose(c, (2, 0, 1)).ravel() * 3, (CUBE,)),
    "partly": (lambda c: c[:, :, 1:].reshape(5, -1) - 1, (CUBE,)),
    "least": (lambda c: td.min(c[:, :, 1:].reshape(5, -1), axis=1), (CUBE,)),
    "argument": (lambda c: td.argmax(c[:, :, 1:].ravel()), (CUBE,)),
    "constant": (lambda c: td.bincount(c[:, :, :4].ravel(), length=9), (CUBE,)),
    "two shapes": (lambda m, c: m[:, 1:16].ravel()[:180] + c[:, 3:, :].ravel(), (MATRIX, CUBE)),
    "blocks": (lambda m, c: td.kron(m, c[0]), (MATRIX, CUBE)),
    "pairs": (lambda m: td.unzip(td.map(lambda x: (x, -x), m[1:].T.ravel())), (MATRIX,)),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_graph_as_written(case: str) -> None:
    f, arguments = CASES[case]
    expected = td.jit(f, backend="reference")(*arguments)
    for given in (arguments, tuple(np.asfortranarray(a) for a in arguments)):
        found = td.jit(f, backend="native")(*given)
        if case == "weighted":  # the order of a sum
            np.testing.assert_allclose(found, expected, rtol=1e-12)
            continue
        pairs = zip(found, expected, strict=True) if case == "pairs" else [(found, expected)]
        for one, other in pairs:
            assert np.array_equal(one, other) and np.shape(one) == np.shape(other)


@pytest.mark.parametrize("case", ["sums", "maps", "transposes", "cubes", "permuted",
                                  "constant", "blocks", "pairs"])  # fmt: skip
def test_no_element_divides(case: str) -> None:
    f, arguments = CASES[case]
    assert not any(map(divides, nodes(f, *arguments)))


def test_folds_of_floats_keep_their_blocks() -> None:
    found = nodes(lambda m: td.sum(m[:, 1:].ravel()), MATRIX)
    assert [len(n.inner) for n in found if isinstance(n, Fold)] == [1]


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (1, 1, 3), (1, 9, 3), (9, 1, 3)])
def test_extents_of_none_and_one(shape: tuple[int, ...]) -> None:
    image = rng.integers(0, 256, shape).astype(np.uint8)
    expected = np.stack([np.bincount(image[:, :, k].ravel(), minlength=256) for k in range(3)])
    assert np.array_equal(td.jit(channels, backend="native")(image), expected)
