"""The arithmetic of orders of a user's own and of tables: in 32 bits, divided by reciprocals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.source import kernels_of, nodes
from treadle.skeletons.schedules import Block, Morton, Order, Table, minimum

EXTENTS = (64, 256)
TABLE = Table(np.random.default_rng(0).permutation(64 * 256), grain="thread")


class Backwards(Order):
    def coordinates(self, i: Any, shape: Any) -> Any:
        j = shape[0] * shape[1] - 1 - i
        return j // shape[1], j % shape[1]


class Columns(Order):
    """Divides by what is no choice between two numbers known before."""

    width: int

    def coordinates(self, i: Any, shape: Any) -> Any:
        g, r = i // (shape[0] * self.width), i % (shape[0] * self.width)
        t = minimum(shape[1] - g * self.width, self.width)
        return r // t, g * self.width + r % t


def text(order: Any) -> str:
    """The first variant, for extents whose indices are 32-bit numbers, of a stencil."""

    def program(a: Any) -> Any:
        block = Block(256) if order.grain == "thread" else Block(8, 32)
        return td.stencil(lambda w: w[-1, 0] + w[1, 0], a, schedule=order | block)

    made = td.jit(program).lower(np.zeros(EXTENTS, np.float32))
    return print_kernel(kernels_of(nodes(made)[0], "sm_90a")[0][0])


@pytest.mark.parametrize("order", [TABLE, Backwards(grain="thread")], ids=["table", "backwards"])
def test_numbers_that_are_never_negative_are_divided_by_reciprocals(order: Any) -> None:
    found = text(order)
    assert "quotient(" in found and "floor_divide" not in found and "int64" not in found


def test_what_no_reciprocal_divides_is_divided_in_32_bits() -> None:
    found = text(Columns(100, grain="thread"))
    assert "floor_divide(" in found and "int64" not in found


@pytest.mark.parametrize("order", [Morton(), Morton(grain="thread")], ids=["blocks", "elements"])
def test_a_curve_is_decoded_in_32_bits(order: Any) -> None:
    found = text(order)
    assert "1431655765" in found and "int64" not in found and "& -1" not in found
