"""Rows that share work, on a GPU, by the SIMT interpreter: vectors, and rows in shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run, run_array
from treadle.dsl.analysis.short_extents import fixed
from treadle.dsl.array import Array
from treadle.dsl.autodiff.custom import without_rules
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import CUDA
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.elementwise.gpu_rows import THREADS, vector_of
from treadle.skeletons.lower.lower import LoweringContext, lower

RANDOM = np.random.default_rng(0)


def basis(a):
    """Rows as long as those of `a`, whose elements share a sum of exponentials; the program is for
    rows of this length."""
    n = a.shape[1]
    array = td.use(a)
    made = td.generate(
        (a.shape[0], n),
        lambda i, j: array[i, j] / sum((td.exp(array[i, k]) for k in range(1, n)), 1.0),
    )
    checks = (*fixed(array._shape[0], a.shape[0], "basis"), *fixed(array._shape[1], n, "basis"))
    return Array(made._leaves[0].node.with_(checks=checks).leaves)


def want(a):
    wide = a.astype("f8")
    return wide / (1 + np.exp(wide[:, 1:]).sum(-1))[:, None]


def fused(array):
    (leaf,) = run_passes(without_rules(array._leaves), Settings(), "cuda").roots
    return leaf


def text_of(array):
    (kernel,) = lower(fused(array).node, LoweringContext(target=CUDA)).kernels
    verify(kernel)
    return str(replace(kernel, fallback=None))


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("width", [2, 3, 4, 5, 6, 8, 9, 16])
def test_every_row_is_computed(width, dtype):
    for rows in (1, THREADS - 1, THREADS, 2 * THREADS + 3):
        a = RANDOM.standard_normal((rows, width)).astype(dtype)
        (got,) = run(fused(basis(a)))
        np.testing.assert_allclose(got, want(a), rtol=1e-5 if dtype == "f4" else 1e-13)


def test_no_rows():
    assert run_array(basis(np.ones((0, 4)))).shape == (0, 4)


def test_the_shared_part_is_computed_once():
    made = text_of(basis(np.ones((300, 4), "f4")))
    assert "a thread a row of 4 elements" in made
    assert made.count("exp(") == 3


def test_single_vectors_are_loaded_and_stored_directly():
    assert [vector_of(n, td.float32) for n in (1, 2, 3, 4, 6, 8, 12)] == [1, 2, 1, 4, 2, 4, 4]
    assert [vector_of(n, td.complex128) for n in (1, 2, 3)] == [1, 1, 1]
    assert "out_rows" not in text_of(basis(np.ones((300, 4), "f4")))
    assert "out_rows" not in text_of(basis(np.ones((300, 2), "f4")))


def test_several_vectors_are_stored_through_shared_memory():
    made = text_of(basis(np.ones((300, 8), "f4")))
    assert "shared out_rows: float32[1536]" in made and "input_rows" not in made
    assert made.count("barrier") == 1


def test_other_rows_go_through_shared_memory():
    made = text_of(basis(np.ones((300, 3), "f4")))
    assert "shared input_rows: float32[384], shared out_rows: float32[384]" in made
    assert made.count("barrier") == 2


def test_strided_rows():
    base = RANDOM.standard_normal((80, 8))
    for view in (base[:, ::2], base[::-1, 1:4], base.T[:4].T):
        array = td.use(view)
        n = view.shape[1]
        made = td.generate(
            view.shape,
            lambda i, j, a=array, n=n: a[i, j] / sum((td.exp(a[i, k]) for k in range(1, n)), 1.0),
        )
        (got,) = run(made._leaves[0], strided=frozenset([array._leaves[0]]))
        np.testing.assert_allclose(got, want(view), rtol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_single_elements_load_their_own_rows(n, dtype):
    for count in (1, THREADS + 3):
        a = RANDOM.standard_normal((count, n, n)).astype(dtype)
        made = run(fused(td.linalg.det(a)))[0]
        np.testing.assert_allclose(made, np.linalg.det(a), rtol=1e-4, atol=1e-5)
    made = text_of(td.linalg.det(np.ones((300, n, n), dtype)))
    assert "a thread an element, which reads rows" in made
    whole = a[0].nbytes % 16 == 0
    assert ("input_rows" in made) == (not whole)
