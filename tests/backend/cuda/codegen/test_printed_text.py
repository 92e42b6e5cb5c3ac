"""What a reader of `program.source("cuda")` sees: no more than the program needs."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.source import kernels_of, nodes
from treadle.skeletons import schedules as sc
from treadle.skeletons.schedules import Block, Morton, Order, Table, minimum


def printed(function: Any, *arguments: Any) -> str:
    return str(td.jit(function).lower(*arguments).source("cuda"))


def test_a_loop_of_much_work_stands_in_a_fold_once():
    def program() -> Any:
        return td.mean(td.generate((100_000,), lambda i: td.loop(
            200, lambda k, s: s * s * 0.5 + i * 1e-3, 0.0)))  # fmt: skip

    text = printed(program)
    assert text.count("k < 200") == 1


def test_a_choice_of_powers_of_two_divides_by_a_shift():
    def program(x: Any, lengths: Any) -> Any:
        return td.fold_seg(lambda a, b: a + b, 0.0, x, lengths)

    text = printed(program, np.ones(100), np.array([40, 60]))
    assert re.search(r"thread >> \(\w+ \? 0 : ", text)
    assert "2147483647 - 1" not in text


def test_places_are_of_32_bits_where_only_their_products_are_of_64():
    def program(a: Any) -> Any:
        numbered = td.imap(lambda i, j, x: x + i * j, a)
        return td.stencil(lambda w: w[-1, 0] + w[0, 1], numbered, boundary=td.wrap)

    text = printed(program, np.ones((64, 64))).split("__global__")[1]
    assert not re.search(r"const int64 (row|column|first|i1)\b", text)
    inside = text.split("if (plain) {")[1].split("} else {")[0]
    assert "remainder" not in inside and "quotient" not in inside
    assert "(uint64)" not in text


def test_what_an_atomic_operation_finds_is_named_where_it_is_read():
    def program(x: Any) -> Any:
        order = sc.Row() | sc.Block(256) | sc.LocalityGraph()
        return td.map(lambda v: v + 1.0, x, schedule=order)

    text = printed(program, np.ones(10_000))
    for name in re.findall(r"const \w+ (\w+) = atomic\w+\(", text):
        assert len(re.findall(rf"\b{name}\b", text)) > 1


def test_printing_leaves_nothing_behind() -> None:
    """What a printer holds, kernels and with them arrays, goes without the collector of cycles."""
    program = td.jit(lambda a: td.sum(td.cumsum(a) * 2), backend="native").lower(np.ones(40))
    program.source("cuda")
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        program.source("cuda")
        gc.collect()
        assert not [x for x in gc.garbage if type(x).__module__.startswith("treadle")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


# --- user-defined orders and tables: 32-bit arithmetic, division by reciprocals ------------------

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
