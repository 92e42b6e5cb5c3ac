"""The work of compiling grows as the program does: calls of functions are counted, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Cond, Read, walk
from treadle.dsl.graph import Fold
from treadle.skeletons.lower.lower import LoweringContext, lower

ROW = np.arange(5, dtype="f4")


def rows(n: int) -> list[np.ndarray[Any, Any]]:
    return [ROW + k for k in range(n)]


def nested(x: Any, *others: Any) -> Any:
    for y in others:
        x = td.concatenate([x, y])
    return x


def padded(x: Any, *others: Any) -> Any:
    for _ in others:
        x = td.pad(x, 1)
    return x


def centred(x: Any, *others: Any) -> Any:
    for _ in others:
        x = x + td.sum(x)
    return x


PROGRAMS: dict[str, Callable[..., Any]] = {
    "joined": lambda *a: td.concatenate(a),
    "joined maps": lambda *a: td.concatenate([x * 2 + 1 for x in a]),
    "summed": lambda *a: td.sum(td.concatenate(a)),
    "stacked": lambda *a: td.stack(a),
    "stacked columns": lambda *a: td.stack(a, axis=1),
    "nested": nested,
    "joins joined": lambda *a: td.concatenate(
        [td.concatenate(a[k : k + 10]) for k in range(0, len(a), 10)]
    ),
    "padded": padded,
    "sums": centred,
    "one sum": lambda *a: sum(a[1:], a[0]),
    "gathers": lambda *a: sum((a[0][td.cast(x, td.int64)] for x in a[1:]), a[0]),
    "results": lambda *a: tuple(x * 2 for x in a),
}


def work(function: Callable[..., Any], n: int) -> tuple[int, list[Any]]:
    """How many calls it takes to trace, rewrite and lower a program, and its kernels."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    arguments = rows(n)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        program = td.jit(function, backend="native").lower(*arguments)
        for node in program.kernels:
            lower(node, LoweringContext())
    finally:
        sys.setprofile(before)
    return calls, program.kernels


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_work_is_linear(name: str) -> None:
    function = PROGRAMS[name]
    work(function, 3)  # what is imported and met for the first time
    few, many = work(function, 130)[0], work(function, 260)[0]
    assert many < 2.7 * few


def test_kernels_are_given_sums_of_many_extents() -> None:
    """A kernel that meets the ends of joined arrays in every element does not add them up."""
    a = [np.ones(3 + k) for k in range(200)]
    program = td.jit(lambda *a: td.sum(td.concatenate(a)), backend="native")
    (fold,) = [n for n in program.lower(*a).kernels if isinstance(n, Fold)]
    for kernel in lower(fold, LoweringContext()).kernels:
        assert len(kernel.scalars) <= 16
    assert program(*a) == sum(len(x) for x in a)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_bounded(name: str) -> None:
    for node in work(PROGRAMS[name], 200)[1]:
        found = list(walk(node.bodies()))
        arrays = {e.node for e in found if isinstance(e, Read)}
        assert len(arrays) <= 66
        assert sum(isinstance(e, Cond) for e in found) <= 64


@pytest.mark.parametrize("count", [2, 20, 63])
def test_few_arrays_are_joined_by_one_kernel(count: int) -> None:
    program = td.jit(lambda *a: td.concatenate([x * 2 for x in a]) + 1, backend="native")
    assert len(program.lower(*rows(count)).kernels) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [64, 130, 200])
@pytest.mark.parametrize("axis", [0, 1])
def test_many_arrays_are_joined_by_several(count: int, axis: int) -> None:
    arrays = [np.full((2, 1 + k % 3) if axis else (1 + k % 3, 2), k, "i4") for k in range(count)]
    made = td.jit(lambda *a: td.concatenate(a, axis=axis) * 2, backend="native")
    wanted = np.concatenate(arrays, axis) * 2
    assert np.array_equal(made(*arrays), wanted)
    assert 1 < len(made.lower(*arrays).kernels) <= 1 + -(-count // 62)
    assert np.array_equal(
        td.run(td.concatenate(arrays, axis=axis) * 2, backend="reference"), wanted
    )


def test_deeply_nested_joins_and_paddings_are_right() -> None:
    arrays = rows(70)
    run = {name: td.jit(PROGRAMS[name], backend="native")(*arrays) for name in ("nested", "padded")}
    assert np.array_equal(run["nested"], np.concatenate(arrays))
    assert np.array_equal(run["padded"], np.pad(arrays[0], 69))


def test_what_does_not_fit_is_told() -> None:
    program = td.jit(PROGRAMS["one sum"], backend="native").lower(*rows(130))
    assert len(program.kernels) == 3
    assert "the fused kernel would read more than 64 arrays" in program.explain()
