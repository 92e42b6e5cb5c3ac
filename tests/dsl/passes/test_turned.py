"""Intermediate arrays that are made of transposes are stored the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from treadle.dsl.expr import Index, Read, walk
from treadle.dsl.graph import Generate, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

u = np.random.default_rng(2).random((37, 41))


def across(f: Any, *args: Any) -> int:
    """How many reads of two indices go across the rows."""
    program = td.jit(f, backend="native").lower(*args)
    nodes = topological(run_passes(program.source_roots, Settings(), "native").roots)
    return sum(
        Index(0) in walk(e.args[1:]) and Index(1) in walk(e.args[:1])
        for n in nodes if isinstance(n, Generate) and len(n.shape) == 2
        for e in walk(n.elements) if isinstance(e, Read) and len(e.args) == 2
    )  # fmt: skip


def differences(u: Any) -> Any:
    """Along the first axis, of values that are worth storing."""
    waves = td.exp(u) / td.sqrt(1 + u * u)
    top = td.maximum(waves, td.roll(waves, -1, 0)) * (td.roll(u, -1, 0) - u)
    return top - td.roll(top, 1, 0)


def step(u: Any) -> Any:
    return u - 0.1 * (differences(u) + differences(u.T).T)


def steps(u: Any, n: Any) -> Any:
    return td.iterate(n, step, u)


def chain(u: Any) -> Any:
    """Of two arrays in a row, both are turned."""
    first = td.exp(u.T) + u.T
    second = td.sqrt(td.roll(first, 1, 1) + first) + first
    third = td.roll(second, 1, 0) * td.roll(second, -1, 0) + td.roll(second, 1, 1)
    return (third + td.roll(third, 2, 0)).T * u


def kept(u: Any) -> Any:
    """A copy that was asked for, a result, and what a sum reads stay as they are."""
    copy: Any = td.compute(u.T)
    result = td.exp(u.T)
    return copy + td.roll(copy, 1, 0), result, result.T + td.roll(result.T, 1, 0) + td.sum(result)


@pytest.mark.parametrize("f, args", [(step, (u,)), (steps, (u, 3)), (chain, (u,)), (kept, (u,))])
def test_every_backend_computes_the_same(f: Any, args: Any) -> None:
    want = td.jit(f, backend="reference")(*args)
    with cuda(True):
        for backend in ("native", "cuda"):
            got = td.jit(f, backend=backend)(*args)
            parts = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
            for x, y in parts:
                np.testing.assert_allclose(x, y, rtol=1e-12)


def test_no_read_goes_across_rows() -> None:
    for f, args in ((step, (u,)), (steps, (u, 3)), (chain, (u,))):
        assert across(f, *args) == 0
        assert "stored transposed" in td.jit(f, backend="native").lower(*args).explain()
    assert across(kept, u) > 0
    assert "stored transposed" not in td.jit(kept, backend="native").lower(u).explain()
