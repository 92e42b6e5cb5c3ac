"""Updates by a sum of columns are updates of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Generate, Permute, known, topological

rng = np.random.default_rng(6)


def read(table: Any, i: Any, *columns: int) -> Any:
    """A sum of what is read of columns of the rows i; its gradient by the table updates these."""
    rows = table[i]
    return td.sum(sum(td.sin(rows[:, c] * (k + 1)) for k, c in enumerate(columns)))


CASES: dict[str, tuple[int, ...]] = {
    "all": (0, 1, 2, 3, 4), "some": (3, 1), "one more than once": (2, 0, 2, 2),
    "many": tuple(range(12)), "from the end": (-1, 0), "too many": tuple(range(20)),
}  # fmt: skip


def permutes(f: Any, *args: Any) -> list[Permute]:
    program = td.jit(f, backend="native").lower(*args)
    return [n for n in topological(program.roots) if isinstance(n, Permute)]


@pytest.mark.parametrize("n", [0, 1, 7, 40_000])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, n: int) -> None:
    columns = CASES[name]
    table, i = rng.random((9, max(columns) + 2)), rng.integers(-9, 9, n)
    want = np.zeros_like(table)
    for k, c in enumerate(columns):
        np.add.at(want, (i, c), (k + 1) * np.cos(table[i, c] * (k + 1)))
    for backend in ("native", "reference"):
        got = td.jit(td.grad(lambda t, i: read(t, i, *columns)), backend=backend)(table, i)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_what_is_not_stored() -> None:
    table, i = rng.random((9, 13)), rng.integers(0, 9, 50)
    gradient = td.grad(lambda t, i: read(t, i, *CASES["many"]))
    (found,) = permutes(gradient, table, i)
    assert known(found.domain[-1]) == 12
    stored = [n for n in topological((found.leaf(),)) if isinstance(n, Generate)]
    assert [n for n in stored if len(n.shape) == 2] == [found.defaults[0].node]
    (found,) = permutes(
        td.grad(lambda t, i: read(t, i, *CASES["too many"])), rng.random((9, 22)), i
    )
    assert known(found.domain[-1]) is None


@pytest.mark.parametrize("t", [np.int32, np.float32, np.complex128])
def test_columns_beyond_the_rows(t: Any) -> None:
    """Those that do not exist are not updated, and others receive nothing."""

    def f(i: Any, x: Any, y: Any, like: Any) -> Any:
        def joined(p: Any, j: Any) -> Any:
            return td.where(j == 1, x[p], 0) + td.where(j == 4, y[p], 0)

        values = td.generate((x.shape[0], like.shape[1]), joined)
        return td.zeros(like.shape, dtype=like.dtype).at[i].add(values)

    i, x, y = rng.integers(0, 5, 30), *((rng.random((2, 30)) * 9).astype(t))
    for width in (0, 1, 2, 4, 5, 7):
        like = np.zeros((5, width), t)
        want = like.copy()
        for c, values in ((1, x), (4, y)):
            if c < width:
                np.add.at(want, (i, c), values)
        np.testing.assert_allclose(td.jit(f, backend="native")(i, x, y, like), want, rtol=1e-5)
    assert known(permutes(f, i, x, y, like)[0].domain[-1]) == 2


@pytest.mark.parametrize("start", [-0.0, 1.0])
def test_what_zero_could_change(start: float) -> None:
    def f(i: Any, x: Any, like: Any) -> Any:
        def joined(p: Any, j: Any) -> Any:
            return td.where(j == 0, x[p], 0.0) + td.where(j == 1, x[p], 0.0)

        values = td.generate((x.shape[0], like.shape[1]), joined)
        return td.full(like.shape, start).at[i].add(values)

    i, x, like = rng.integers(0, 2, 3), rng.random(3), np.zeros((3, 4))
    a, b = (np.asarray(td.jit(f, backend=k)(i, x, like)) for k in ("native", "reference"))
    assert np.array_equal(np.signbit(a), np.signbit(b))
    np.testing.assert_allclose(a, b)
    assert known(permutes(f, i, x, like)[0].domain[-1]) is None
