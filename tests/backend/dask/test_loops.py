"""Loops over arrays of dask: several iterations per task, with the bits of one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

from .test_arrays import BOUNDARIES, da, flat, matrix

CHUNKS = [
    ((37,), (53,)),
    ((20, 17), (53,)),
    ((10, 10, 10, 7), (20, 20, 13)),
    ((1,) * 37, (53,)),
    ((5, 1, 1, 30), (3, 50)),
]


def smooth(w: Any) -> Any:
    return w[-1, 0] * 0.1 + 0.2 * w[1, 0] + w[0, -1] * 0.3 + w[0, 1] * 0.1 + 0.2 * w[0, 0]


def stages(f: Any, *args: Any) -> list[Any]:
    program = td.jit(f).lower(*args)
    arrays = [a for a in args if isinstance(a, da.Array)]
    numbers = [a for a in args if not isinstance(a, da.Array)]
    return list(program.executable.plan(arrays, numbers).stages)


def check(f: Any, *args: Any, chunks: Any = CHUNKS) -> None:
    wanted = flat(td.jit(f, backend="native")(*args))
    for some in chunks:
        given = [da.from_array(a, chunks=some) if isinstance(a, np.ndarray) else a for a in args]
        for got, w in zip(flat(td.jit(f)(*given)), wanted, strict=True):
            assert got.compute(scheduler="synchronous").tobytes() == w.tobytes(), some


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_stencils(boundary: str) -> None:
    b = BOUNDARIES[boundary]
    check(lambda a, n: td.iterate(n, lambda u: td.stencil(smooth, u, boundary=b), a),
          matrix((37, 53)), 13)  # fmt: skip


def test_states_coefficients_and_counters() -> None:
    a, b = matrix((37, 53)), matrix((37, 53))[::-1].copy()

    def weighted(u: Any, h: Any, n: Any) -> Any:
        return td.iterate(n, lambda u: td.stencil(smooth, u, boundary=td.clamp) * h, u)

    def counted(u: Any, n: Any) -> Any:
        def body(k: Any, u: Any) -> Any:
            return td.stencil(smooth, u, boundary=td.mirror) + td.cast(k, td.float32)

        return td.loop(n, body, u)

    def waves(u: Any, v: Any, n: Any) -> Any:
        def body(s: Any) -> Any:
            return td.stencil(smooth, s[1], boundary=td.clamp), s[0] * 0.5 + s[1]

        return td.iterate(n, body, (u, v))

    check(weighted, a, b, 7, chunks=CHUNKS[1:3])
    check(counted, a, 7, chunks=CHUNKS[1:3])
    check(waves, a, b, 6, chunks=CHUNKS[1:3])


def test_no_iteration() -> None:
    check(lambda a, n: td.iterate(n, lambda u: u * 2, a), matrix((37, 53)), 0, chunks=CHUNKS[1:2])


def test_other_bodies_and_conditions() -> None:
    a = matrix((37, 53))
    check(lambda u, n: td.iterate(n, lambda u: u / td.max(u), u), a, 3, chunks=CHUNKS[1:3])
    check(lambda u: td.while_loop(lambda u: td.max(u) < 5, lambda u: u * 2, u), a,
          chunks=CHUNKS[1:2])  # fmt: skip


def test_several_iterations_per_task() -> None:
    a = da.from_array(matrix((40, 50)), chunks=(20, 50))
    found = stages(lambda u, n: td.iterate(n, lambda u: td.stencil(smooth, u), u), a, 30)
    assert [s.blocks.notes for s in found] == 2 * [["15 iterations per task"]]
    assert found[0].blocks.program is found[1].blocks.program  # one binary
