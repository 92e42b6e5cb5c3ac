"""What branches in loops contain, but no iteration changes, is computed ahead of the loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import ArrayLoop, Generate, Sequential, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.passes.recurrence import is_unsafe
from treadle.dsl.process.configuration import Settings


def optimised(f: Any, *args: Any) -> list[Any]:
    program = td.jit(f, backend="native").lower(*args)
    return [*topological(run_passes(program.source_roots, Settings(), "native").roots)]


def alignment(a: Any, b: Any) -> Any:
    """A table that a scan makes row by row, and the path from its end back to its beginning."""
    n, m = a.shape[0], b.shape[0]
    j = td.arange(m + 1)

    def row(above: Any, letter: Any) -> Any:
        best = td.maximum(above[:-1] + td.where(b == letter, 1, -1), above[1:] - 2)
        made = td.cummax(td.concatenate([(above[0] - 2)[None], best]) + 2 * j) - 2 * j
        return made, made

    table = td.concatenate([(-2 * j)[None], td.scan(row, -2 * j, a)[1]])

    def back(state: Any) -> Any:
        i, j, path, length = state
        match = td.cond((i > 0) & (j > 0), a[i - 1] == b[j - 1], False)
        from_corner = table[i - 1, j - 1] + td.where(match, 1, -1)
        corner = td.cond((i > 0) & (j > 0), table[i, j] == from_corner, False)
        up = td.cond(i > 0, table[i, j] == table[i - 1, j] - 2, False)
        step = td.where(corner, 0, td.where(up, 1, 2))
        i, j = td.where(step < 2, i - 1, i), td.where(step != 1, j - 1, j)
        return i, j, path.at[length].set(step), length + 1

    start = n, m, td.zeros(n + m, td.int64), 0
    return td.while_loop(lambda s: (s[0] > 0) | (s[1] > 0), back, start)[2:]


@pytest.mark.parametrize(("n", "m"), [(40, 50), (1, 7), (7, 0), (0, 0)])
def test_a_path_through_a_table(n: int, m: int) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, n), rng.integers(0, 4, m)
    found, want = (td.jit(alignment, backend=k)(a, b) for k in ("native", "reference"))
    assert all(map(np.array_equal, found, want))


def test_the_path_is_one_kernel_in_a_loop() -> None:
    nodes = optimised(alignment, np.arange(5), np.arange(6))
    assert sum(isinstance(n, Sequential) for n in nodes) == 1
    assert sum(isinstance(n, ArrayLoop) for n in nodes) == 2  # the rows, and 1024 steps at a time


def test_what_must_not_be_computed_stays_in_its_branch() -> None:
    """A table that is read by data, where there may be nothing to read."""

    def f(t: Any, where: Any, n: Any) -> Any:
        table = t[where]

        def step(k: Any, total: Any) -> Any:
            return td.cond(total[0] > 0, total.at[k % 3].add(table[k]), total)

        return td.loop(n, step, td.zeros(3))

    nowhere = np.full(300_000, 1 << 45)  # reading there would end the process
    assert not td.jit(f, backend="native")(np.ones(4), nowhere, 300_000).any()


def test_parts_of_a_domain_that_reads_distinguish() -> None:
    x, y = np.ones(3), np.ones(4)
    joined = lambda x, y: td.concatenate([x, y + 1, 2 * x, y])
    beyond = lambda x, y: td.generate(9, lambda i: td.cond(i < 3, x[i], y[i - 2]))
    for f, unsafe in ((joined, False), (beyond, True)):
        made = [n for n in optimised(f, x, y) if isinstance(n, Generate)]
        assert [is_unsafe(n) for n in made] == [unsafe] * len(made) and made
