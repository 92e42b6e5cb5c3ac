"""Sums of blocks by a compiled kernel: NumPy's numbers, in any layout, in place."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import product_kit as sums
from treadle.dsl.types import float32, int8
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.products import kit
from treadle.skeletons.products.sums_cpu import SumTable, sums_kernel

TYPES = ("float32", "float64", "complex64", "complex128", "int8", "uint16", "int32", "uint64")


def blocks(count: int, shape: tuple[int, int], name: str, layout: str, seed: int) -> list[Any]:
    """Matrices of one shape, as blocks of a larger one."""
    rng = np.random.default_rng(seed)
    rows, cols = shape
    if np.dtype(name).kind in "iu":
        about = np.iinfo(name)
        whole = rng.integers(about.min, about.max, (rows, count * cols), name, endpoint=True)
    else:
        whole = rng.standard_normal((rows, count * cols)).astype(name)
        whole.flat[:: whole.size // 7 + 1] = 0
    if layout == "columns":
        whole = np.asfortranarray(whole)
    elif layout == "every other":
        whole = np.repeat(whole, 2, 1)[:, ::2]
    return [whole[:, k * cols : (k + 1) * cols] for k in range(count)]


def drawn(rng: random.Random, count: int, whole: bool) -> tuple[list[Any], list[Any]]:
    """Sums and shared terms, as indices.  The shared ones contain a target; then no sum reads
    another one's target."""
    factors = (1, -1, 2) if whole else (1, -1, 0.5)
    targets = rng.sample(range(count), rng.randint(1, 3))
    terms = {t: [(rng.choice(factors), k) for k in rng.sample(range(count), rng.randint(1, 4))]
             for t in targets}  # fmt: skip
    if rng.random() < 0.6:
        return list(terms.items()), []
    home = targets[0]
    shared = [(rng.choice(factors), k) for k in (home, *{*range(count)} - {home})][:3]
    apart = {t: [(c, k) for c, k in own if k == t or k not in targets] for t, own in terms.items()}
    apart[home] = [(c, k) for c, k in apart[home] if k != home]
    return list(apart.items()), shared


@pytest.mark.sample(2)
@pytest.mark.parametrize("layout", ["rows", "columns", "every other", "mixed"])
@pytest.mark.parametrize("name", TYPES)
def test_the_numbers_of_numpy(name: str, layout: str) -> None:
    rng = random.Random(f"{name} {layout}")
    for trial in range(6):
        shape = rng.choice(((1, 1), (3, 130), (130, 3), (33, 31), (64, 4096)))
        given = [
            block for k in range(2)
            for block in blocks(3, shape, name, rng.choice(("rows", "columns")) if layout == "mixed"
                                else layout, trial + k)
        ]  # fmt: skip
        made, shared = drawn(rng, len(given), np.dtype(name).kind in "iu")
        want = [x.copy(order="K") for x in given]
        for arrays, function in ((given, sums.add_up), (want, by_numpy)):
            function([(arrays[t], [(c, arrays[k]) for c, k in own]) for t, own in made],
                     [(c, arrays[k]) for c, k in shared])  # fmt: skip
        for mine, theirs in zip(given, want, strict=True):
            np.testing.assert_array_equal(mine, theirs, str((trial, shape, made, shared)))


def by_numpy(made: Any, shared: Any) -> None:
    with np.errstate(all="ignore"):
        kit.add_up(np, made, shared)


def test_nothing_to_add() -> None:
    sums.add_up([(np.empty((0, 3)), [(1, np.empty((0, 3)))])])


def test_an_algorithm_needs_few_kernels() -> None:
    for name in ("strassen", "winograd"):
        sums._kernel.cache_clear()
        a = np.arange(64.0 * 64).reshape(64, 64) % 7
        for levels in (1, 2):
            made = td.matmul(a, a, algorithm=name, levels=levels)
            assert np.array_equal(td.run(made, backend="native"), a @ a)
        assert 1 < sums._kernel.cache_info().currsize < 10


def test_kernels_are_valid() -> None:
    verify(
        sums_kernel(SumTable(float32, ((0, (0, 1)), (2, (1,))), (2, 3), (True, False, True, True)))
    )
    verify(sums_kernel(SumTable(int8, ((0, (1,)),), (), (True, True))))
