"""Cholesky factors on a GPU: potrf in place, and what clears the other triangle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from treadle.dsl.graph import Generate, Library, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(5)


def definite(*shape: int, dtype: str = "f8") -> np.ndarray[Any, Any]:
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return np.asarray(a @ np.conj(a.mT) + np.eye(shape[-1])).astype(dtype)


def nodes(f: Any, *args: Any, backend: str = "cuda") -> list[Any]:
    program = td.jit(f, backend="native").lower(*args)
    return list(topological(run_passes(program.source_roots, Settings(), backend).roots))


def libraries(found: list[Any]) -> list[str]:
    return [n.operation.name for n in found if isinstance(n, Library)]


def test_what_is_replaced() -> None:
    large, small = definite(40, 40), definite(7, 8, 8)
    assert libraries(nodes(td.linalg.cholesky, large)) == ["linalg.potrf"]
    assert libraries(nodes(td.linalg.cholesky, large, backend="native")) == ["linalg.cholesky"]
    assert libraries(nodes(td.linalg.cholesky, small)) == ["linalg.cholesky"]  # it has a kernel
    assert libraries(nodes(lambda a: td.linalg.cholesky(a, upper=True), small)) == ["linalg.potrf"]


def test_what_clears_a_triangle_fuses() -> None:
    """The matrix, transposed, and what reads the factor: one element-wise kernel each."""
    for upper, before in ((False, 1), (True, 0)):

        def f(a: Any, upper: bool = upper) -> Any:
            return td.sqrt(td.linalg.cholesky(a, upper=upper) + 1)

        found = [n for n in nodes(f, definite(40, 40)) if isinstance(n, Generate)]
        assert len([n for n in found if len(n.shape) == 2]) == before + 1


@pytest.mark.parametrize("dtype", ["f8", "c8"])
@pytest.mark.parametrize("batch", [(), (3,), (0,)])
@pytest.mark.parametrize("upper", [False, True])
def test_factors(batch: tuple[int, ...], dtype: str, upper: bool) -> None:
    """By an emulated GPU, whose potrf leaves the other triangle alone, too."""
    a = definite(*batch, 40, 40, dtype=dtype)
    bad = a.copy()
    bad.reshape(-1, 40, 40)[-1:, -1, -1] = -1
    read = np.triu if upper else np.tril
    with cuda(True):
        compiled = td.jit(lambda a: td.linalg.cholesky(a, upper=upper), backend="cuda")
        for given in (a, bad):
            found = np.asarray(compiled(read(given)))
            for at in np.ndindex(batch):
                if given is bad and at == tuple(n - 1 for n in batch):
                    assert np.isnan(found[at]).all()
                    continue
                low = np.linalg.cholesky(given[at])
                want = low.conj().T if upper else low
                np.testing.assert_allclose(found[at], want, atol=1e-3 if dtype == "c8" else 1e-11)


def test_extents_of_zero() -> None:
    with cuda(True):
        compiled = td.jit(td.linalg.cholesky, backend="cuda")
        assert compiled(np.ones((2, 0, 0))).shape == (2, 0, 0)
        solve = td.jit(td.linalg.solve_triangular, backend="cuda")
        assert solve(np.eye(40), np.ones((40, 0))).shape == (40, 0)
        assert solve(np.ones((0, 40, 40)), np.ones((40, 9))).shape == (0, 40, 9)
