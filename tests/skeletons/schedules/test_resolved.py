"""Orders of blocks that a GPU looks up: the table, and what it costs."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.schedule import ScheduleError
from treadle.skeletons.schedules.resolved import BlockTable, block_table, looked_up

S = td.schedule


class Upwards(S.Order):
    def coordinates(self, i: Any, shape: Any) -> Any:
        return shape[0] - 1 - i // shape[1], i % shape[1]


class Stuck(S.Order):
    """Visits the first column again and again where there are many."""

    def coordinates(self, i: Any, shape: Any) -> Any:
        return i // shape[1], S.where(shape[1] > 2000, 0, i % shape[1])


@pytest.mark.parametrize("order", [S.Morton(), S.Hilbert(), S.Column(3), Upwards()], ids=repr)
@pytest.mark.parametrize("grid", [(1, 1), (5, 7), (8, 8), (1, 40), (33, 2), (3, 5, 6)], ids=str)
def test_the_table_is_the_order(order: Any, grid: tuple[int, ...]):
    if isinstance(order, Upwards) and len(grid) != 2:
        pytest.skip("of two axes")
    points = S.evaluate(order, grid)
    np.testing.assert_array_equal(
        np.stack(np.unravel_index(block_table(order, grid), grid), 1), points
    )
    assert block_table(order, grid) is block_table(order, grid)
    assert not block_table(order, grid).flags.writeable


def test_nothing_to_visit_is_a_table_all_the_same():
    assert BlockTable(S.Hilbert())((0, 5), ()).tolist() == [0]


def test_an_order_that_is_none_is_refused_at_any_size():
    """Where the check before a launch takes an order on trust, the table does not."""
    with pytest.raises(ScheduleError, match="Stuck"):
        block_table(Stuck(), (2000, 2200))


def kernel_of(schedule: Any) -> list[str]:
    """The first variant's lines without comments."""
    a = np.zeros((100, 300), np.float32)
    program = td.jit(lambda a: td.map(lambda x: x + 1, a, name="m", schedule=schedule)).lower(a)
    lines = [line.split("//")[0].strip() for line in program.source("cuda").splitlines()]
    begin = next(k for k, line in enumerate(lines) if line.startswith('extern "C"'))
    return lines[begin:]


@pytest.mark.parametrize(
    "order", [S.Hilbert(), Upwards(), S.Table(range(130))], ids=lambda o: type(o).__name__
)
def test_a_table_costs_one_load(order: Any):
    """The row order's kernel, its block being one of a table (3 instructions more on sm_90a)."""
    row, other = kernel_of(S.Row() | S.Block(8, 32)), kernel_of(order | S.Block(8, 32))
    assert "const int block = block_order[task];" in other
    changed = [line for line in difflib.unified_diff(row, other, n=0) if line[:1] in "+-"]
    inside = [line for line in changed if line.startswith("+const int ") and "=" in line]
    assert len(inside) <= 3, "\n".join(changed)  # the block, its row, its columns
    assert not any("/" in line or "%" in line for line in inside)


def test_which_orders_are_looked_up():
    assert not any(
        looked_up(o) for o in (S.Row(), S.Column(8), S.Tile(4, 4), S.Swizzle(4), S.Morton())
    )
    assert all(looked_up(o) for o in (S.Hilbert(), Upwards(), S.Table([0])))
    graph = S.Hilbert() | S.Block(8, 32) | S.LocalityGraph()
    assert not any("block_order" in line for line in kernel_of(graph))
