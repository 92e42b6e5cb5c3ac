"""Folds of everything: sums of floats have the bits of one machine, by the leaves of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

from .test_arrays import check, chunked, da, flat

PROGRAMS = {
    "sum": lambda a: a.sum(),
    "mean": lambda a: td.mean(a),
    "norm": lambda a: td.sqrt(td.sum(a * a)) / 3,
    "std": lambda a: td.std(a),
    "of a stencil": lambda a: td.sum(td.stencil(lambda w: w[-1] + w[1], a.ravel())),
    "by index": lambda a: td.sum(td.generate(a.shape, lambda *i: td.cast(i[0], td.float32))),
    "product": lambda a: td.prod(a + 0.5),
    "deterministic": lambda a: td.sum(a, deterministic=True),
    "exact": lambda a: (td.max(a), td.argmin(a.ravel()), td.sum(td.cast(a * 9, td.int64))),
}
SHAPES = [(100_003,), (500, 301), (32_768,), (300, 8192), (9, 40, 500), (3, 5)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_folds_of_everything(name: str, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(3).random(shape).astype(np.float32)
    check(PROGRAMS[name], a, seed=len(shape))


COLUMNS = {
    "sums": lambda a: td.sum(a, axis=0),
    "mean and deviation": lambda a: (td.mean(a, axis=0), td.std(a, axis=0)),
    "quotients": lambda a: a / td.sum(a, axis=0),
    "of a stencil": lambda a: td.sum(td.roll(a, 1, axis=0) * a, axis=0),
    "deterministic": lambda a: td.sum(a, axis=0, deterministic=True),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(3000, 30), (1030, 7), (2048, 3, 5), (5000, 1)])
@pytest.mark.parametrize("name", COLUMNS)
def test_sums_of_columns(name: str, shape: tuple[int, ...]) -> None:
    """Blocks of 1,024 rows, then these together, as one kernel does, whatever the chunks."""
    a = np.random.default_rng(3).random(shape).astype(np.float32)
    check(COLUMNS[name], a, seed=len(shape))
    got = td.stream(COLUMNS[name], a, memory=a.nbytes * 4)
    for g, w in zip(flat(got), flat(td.jit(COLUMNS[name], backend="native")(a)), strict=True):
        assert np.asarray(g).tobytes() == np.asarray(w).tobytes()


def test_sums_of_columns_read_an_array_once() -> None:
    a = da.zeros((8192, 64), chunks=(1024, 64), dtype=np.float32)
    stages = td.jit(lambda a: a.sum(axis=0)).lower(a).executable.plan([a], ()).stages
    assert [s.blocks.grid for s in stages] == [(8, 1), (1,)]


def test_a_sum_that_no_function_contains_is_computed_on_demand() -> None:
    a = np.random.default_rng(3).random((90, 1000)).astype(np.float32)
    total = td.sum(da.from_array(a, chunks=(20, 1000)))
    assert float(total) == td.run(td.sum(a), backend="native")


def test_leaves_are_tasks_of_their_chunks() -> None:
    a = da.zeros((1000, 8192), chunks=(100, 8192), dtype=np.float32)
    program = td.jit(lambda a: a.sum()).lower(a)
    stages = program.executable.plan([a], ()).stages
    assert [s.blocks.grid for s in stages] == [(10,), ()]


@pytest.mark.long
def test_more_leaves_than_a_block() -> None:
    a = np.random.default_rng(3).random(70_000_001).astype(np.float32)
    wanted: Any = td.jit(lambda a: a.sum(), backend="native")(a)
    got = td.jit(lambda a: a.sum())(chunked(a, np.random.default_rng(1)))
    assert np.asarray(flat(got)[0].compute()).tobytes() == np.asarray(wanted).tobytes()
