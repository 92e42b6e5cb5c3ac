"""Which rows operations touch, and which loops are made row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import ArrayLoop, topological
from treadle.skeletons.access.rows import Rows, access_of, by_rows

A = np.zeros((40, 30))


def body(step: Callable[[Any], Any], start: Any = A, loop: Any = td.iterate) -> ArrayLoop:
    program = td.jit(lambda x: loop(9, step, x), backend="native").lower(start)
    (found,) = (n for n in topological(program.roots) if isinstance(n, ArrayLoop))
    return found


def touched(step: Callable[[Any], Any]) -> list[Rows | None]:
    """The rows of the state that the only operation of an iteration reads."""
    loop = body(step)
    (node,) = by_rows(loop)
    access = access_of(node)
    assert access is not None and set(access.writes.values()) <= {Rows(0, 0), Rows(1, 1)}
    return list(access.reads.values())


def shifted(*rows: int) -> Callable[[Any], Any]:
    return lambda w: sum((w[r, 0] for r in rows), w[0, 1])


@pytest.mark.parametrize(("step", "rows"), [
    (lambda x: td.stencil(shifted(-2, 1), x, boundary=td.constant(0)), Rows(-2, 1)),
    (lambda x: td.stencil(shifted(1, 2), x, boundary=td.clamp), Rows(0, 2)),
    (lambda x: td.stencil(shifted(-2, 1), x, boundary=td.mirror), Rows(-2, 2)),
    (lambda x: td.stencil(shifted(-1), x, boundary=td.wrap), Rows(-1, 0, True)),
    (lambda x: x + td.roll(x, 3, axis=0), Rows(-3, 0, True)),
    (lambda x: td.stencil(shifted(1), td.stencil(shifted(1), x)), Rows(0, 2)),
])  # fmt: skip
def test_rows_of_an_operation(step: Callable[[Any], Any], rows: Rows) -> None:
    (found,) = touched(step)
    assert found is not None
    assert found.low <= rows.low and found.high >= rows.high  # the state's own row included
    assert found.wraps == rows.wraps
    assert found.high - found.low <= rows.high - rows.low + 1


def test_a_row_at_a_border() -> None:
    loop = body(lambda x: td.stencil(shifted(-1), x).at[-1].set(x[-2]))
    rows = {a.row for n in by_rows(loop) if (a := access_of(n)) is not None}
    assert len(by_rows(loop)) == len(rows) == 2 and None in rows


@pytest.mark.parametrize("step", [
    lambda x: x - td.sum(x),  # a fold in between
    lambda x: x[::-1] + 1,  # from the other end
    lambda x: td.scan(lambda a, b: (a + b, a + b), x[0], x)[1],
    lambda x: td.stencil(shifted(-1), x, boundary=td.function(lambda i, j: 1.0)),
    lambda x: td.stencil(shifted(-1), x).scheduled(td.schedule.Morton()),
])  # fmt: skip
def test_what_is_not_made_row_by_row(step: Callable[[Any], Any]) -> None:
    assert not by_rows(body(step))


def test_an_update_of_the_inside() -> None:
    loop = body(lambda x: x.at[1:-1].set(x[:-2] + x[2:]))
    writes = {rows for n in by_rows(loop) if (a := access_of(n)) for rows in a.writes.values()}
    assert writes <= {Rows(0, 0), Rows(1, 1)} and writes


def test_loops_that_test_are_not() -> None:
    def loop(_: int, step: Callable[[Any], Any], x: Any) -> Any:
        return td.while_loop(lambda s: td.max(s) < 9, step, x)

    assert not by_rows(body(lambda x: x + 1, loop=loop))


def test_arrays_that_stay_may_be_read_anywhere() -> None:
    table = np.arange(30.0)
    assert by_rows(body(lambda x: td.stencil(shifted(-1), x) + td.use(table)[::-1]))
