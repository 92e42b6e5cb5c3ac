"""What an order costs: instructions of the kernel more than in row order, counted on sm_90a."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.codegen.test_text import machine_code
from treadle.backend.cuda.source import kernels_of, nodes

S = td.schedule
A = np.zeros((4096, 4096), np.float32)
#: Of more threads than the grid needs none is left out: the same blocks as in row order.
ELEMENTS, BLOCKS = S.Block(256), S.Block(8, 32)


class Upwards(S.Order):
    def coordinates(self, i: Any, shape: Any) -> Any:
        return shape[0] - 1 - i // shape[1], i % shape[1]


def square_root(a: Any) -> Any:
    return td.map(lambda x: td.sqrt(x), a, name="op")


def five_points(a: Any) -> Any:
    around = ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0))
    return td.stencil(lambda w: sum(w[at] for at in around), a, name="op")


def instructions(function: Any, schedule: Any) -> int:
    """Of the first variant, without what pads the code."""
    program = td.jit(function).lower(A).scheduled(op=schedule)
    ((kernel, *_),) = (chain for node in nodes(program) for chain in kernels_of(node, "sm_90a"))
    found = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(.*?);", machine_code(kernel), re.MULTILINE)
    return len([line for line in found if not line.startswith("NOP")])


@pytest.mark.parametrize("function", [square_root, five_points], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "order",
    [S.Hilbert(), S.Table(np.arange(512 * 128)[::-1].copy()), Upwards()],
    ids=lambda o: type(o).__name__,
)
def test_orders_of_blocks_that_are_looked_up(nvrtc: None, function: Any, order: Any) -> None:
    row = instructions(function, S.Row() | BLOCKS)
    assert instructions(function, order | BLOCKS) <= row + 6


@pytest.mark.parametrize("function", [square_root, five_points], ids=lambda f: f.__name__)
def test_columns(nvrtc: None, function: Any) -> None:
    by_element = instructions(function, S.Row(grain="thread") | S.PerThread(cols=1) | ELEMENTS)
    by_block = instructions(function, S.Row() | BLOCKS)
    for width in (256, 100):
        columns = S.Column(width, grain="thread") | ELEMENTS
        assert instructions(function, columns) <= min(by_element, by_block) + 20
    assert instructions(function, S.Column(256) | BLOCKS) <= by_block + 20
