"""Scatters into large arrays: each part of the target takes its elements in the order of the
source, with the bits of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import plan

from .test_arrays import da
from .test_loops import stages

RNG = np.random.default_rng(5)
VALUES, KEYS = RNG.random((100, 200)).astype(np.float32), RNG.integers(0, 500, (100, 200))
F32 = td.float32(0)


def corner(w: Any) -> Any:
    return w[-1, 0] + w[0, 1]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sums": lambda a, k: td.fill(500, F32).at[k.ravel()].add(a.ravel(), deterministic=True),
    "counts": lambda a, k: td.bincount(k.ravel(), length=500),
    "largest": lambda a, k: td.fill((50, 10), F32).at[k // 10, k % 10].max(a),
    "last": lambda a, k: td.fill(500, F32).at[k.ravel()].set(a.ravel()),
    "into data": lambda a, k: a.at[k[:, 0] // 5, k[:, 1] // 5].add(a[:, 3], deterministic=True),
    "scaled": lambda a, k: td.permute(
        lambda x, y: y + x * 3, td.fill(500, F32), lambda i, j: (i * 7 + j) % 500, a,
        deterministic=True),
    "of a stencil": lambda a, k: td.fill(500, td.int32(0)).at[k].add(
        td.cast(9 * td.stencil(corner, a, boundary=td.clamp), td.int32)),
    "to some places": lambda a, k: td.fill(500, F32).at[k // 7 * 3].min(a),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are treated as large ones."""
    monkeypatch.setattr(plan, "FEW", 0)
    monkeypatch.setattr(plan, "SMALL", 100)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_of_one_machine(name: str) -> None:
    f = PROGRAMS[name]
    wanted = td.jit(f, backend="native")(VALUES, KEYS)
    for chunks in ((30, 200), (10, 57), (100, 60)):
        given = (da.from_array(x, chunks=chunks) for x in (VALUES, KEYS))
        got = td.jit(f)(*given).compute(scheduler="synchronous")
        assert got.tobytes() == wanted.tobytes(), chunks
    assert td.stream(f, VALUES, KEYS, memory=300_000).tobytes() == wanted.tobytes()


def test_no_task_has_all() -> None:
    a, k = (da.from_array(x, chunks=(10, 200)) for x in (VALUES, KEYS))
    found = stages(PROGRAMS["sums"], a, k)
    assert [s.blocks.grid for s in found if "exchange" in str(s.blocks.node.label)] == [(10,)]
    assert found[-1].blocks.grid == (10,) and found[-1].blocks.buffers[0].windows is not None


def test_what_goes_to_one_place_must_fit() -> None:
    with pytest.raises(td.MemoryLimitExceeded, match="go to one block of the result"):
        td.stream(PROGRAMS["last"], VALUES, KEYS * 0, memory=300_000)


def test_many_floats_are_combined_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SMALL", 1 << 20)
    monkeypatch.setattr(plan, "MANY", 0)

    def sums(a: Any, k: Any) -> Any:
        return td.fill(500, F32).at[k.ravel()].add(a.ravel())

    got = td.jit(sums)(da.from_array(VALUES, chunks=50), da.from_array(KEYS, chunks=50)).compute()
    np.testing.assert_allclose(got, np.bincount(KEYS.ravel(), VALUES.ravel()), rtol=1e-5)
