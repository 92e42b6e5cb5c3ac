"""Literals that become arguments of a kernel, and those that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.treadle.driver.explained import lower
from treadle.backend.native.codegen.fingerprint import without
from treadle.dsl.expr import Const
from treadle.dsl.target import NATIVE
from treadle.skeletons.ir.literals import (
    MOST,
    Differences,
    as_arguments,
    integers_as_arguments,
    stored_as_arguments,
)
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.lower import LoweringContext, lower as lower_node

A = np.arange(30.0).reshape(5, 6)


def kernel_of(function: Any, a: Any = A) -> Any:
    program = lower(function, a)
    (kernel,) = lower_node(program.kernels[-1], LoweringContext(NATIVE)).kernels
    return kernel


def arguments(function: Any, a: Any = A) -> list[float]:
    """The literals of a function's kernel that become arguments."""
    kernel = kernel_of(function, a)
    made = as_arguments(kernel)
    verify(made)
    count = made.literals
    assert made.scalars[: len(made.scalars) - count] == kernel.scalars
    values = made.scalar_values[len(kernel.scalar_values) :]
    found = [float(v.value) for v in values if isinstance(v, Const)]
    assert len(found) == len(values) == count
    return found


def test_operands_of_sums_and_products() -> None:
    assert arguments(lambda a: a * 1.25 + 0.3) == [1.25, 0.3]
    assert arguments(lambda a: (0.1 - a) * (a + 0.7) - 0.1) == [0.1, 0.7]
    assert arguments(lambda a: a * 1.25 + 0.3, A.astype("f4")) == [1.25, float(np.float32(0.3))]
    assert sorted(arguments(lambda a: td.stencil(lambda w: w[-1, 0] * 0.3 + w[0, 1] * 0.7, a))) == [
        0.3, 0.7]  # fmt: skip


@pytest.mark.parametrize("number", [0.0, 1.0, -1.0, 2.0, 0.125, float("inf"), float("nan"), 5e-324])
def test_numbers_that_are_known(number: float) -> None:
    """Sums with and products by these may be other operations."""
    assert not arguments(lambda a: td.sin(a) * number + number)


def test_operands_of_other_operations() -> None:
    """How a quotient or a power is computed may depend on the number, wherever else it is used."""
    assert not arguments(lambda a: a / 0.3)
    assert not arguments(lambda a: a**1.7)
    assert not arguments(lambda a: a**1.7 + 1.7)
    assert arguments(lambda a: a**1.7 + 1.3) == [1.3]
    assert not arguments(lambda a: td.where(a > 0.3, a, 0.7))
    assert not arguments(lambda a: a * (1.3 + 0.7j))
    assert not arguments(lambda a: a * 3 + 5, np.arange(30))


def test_literals_that_are_stored() -> None:
    """Unless they are used for something else, too."""

    def stored(function: Any, a: Any = A) -> list[float]:
        kernel = kernel_of(function, a)
        made = stored_as_arguments(kernel)
        verify(made)
        return [float(v.value) for v in made.scalar_values[len(kernel.scalar_values) :]]

    assert stored(lambda a: td.zeros(a.shape)) == [0.0]
    assert stored(lambda a: td.full(a.shape, 3)) == [3.0]
    assert stored(lambda a: td.full(a.shape, True)) == []
    assert stored(lambda a: a + 1) == []
    assert stored(lambda a: td.map(lambda x: (0.5, x + 0.5), a)) == []
    assert stored(lambda a: td.map(lambda x: (0.5, x + 1), a)) == [0.5]


def test_at_most_so_many() -> None:
    def polynomial(count: int) -> Any:
        def f(a: Any) -> Any:
            made = a
            for k in range(count):
                made = made * a + (k + 0.3)
            return made

        return f

    assert len(arguments(polynomial(MOST))) == MOST
    assert not arguments(polynomial(MOST + 1))


def test_integers_that_differ() -> None:
    """Only those in which kernels have differed before."""

    def shifted(k: int, factor: int = 3) -> Any:
        return kernel_of(lambda a: a + 5 + td.minimum(a, k) * factor, np.arange(30))

    found, one, two = Differences(), shifted(11), shifted(12)
    assert found.of(one, without) == ()
    assert found.of(one, without) == ()
    (which,) = found.of(two, without)
    assert found.of(one, without) == (which,)
    assert found.of(shifted(11, 7), without) == ()  # a factor stays
    made = integers_as_arguments(two, (which,))
    verify(made)
    assert made.literals == 1
    assert made.scalar_values[len(two.scalar_values) :] == (Const(12, td.int64),)
    assert without(made, ()) == without(integers_as_arguments(one, (which,)), ())
