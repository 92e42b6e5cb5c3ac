"""Choices that are branches, since the next iteration would wait for them."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen.compile import llvm_ir
from treadle.backend.native.codegen.late_choices import late_choices

U = np.random.default_rng(2).random(400)


def metropolis(u):
    def step(k, s):
        x, accepted = s
        y = x + u[k] - 0.5
        better = u[k + 200] < td.exp(0.5 * (x * x - y * y))
        return td.where(better, y, x), accepted + td.where(better, 1, 0)

    return td.loop(200, step, (0.0, 0))


def division(u):
    def step(k, s):
        n, p = s
        divides = n % p == 0
        return td.where(divides, n // p, n), td.where(divides, p, p + 1)

    return td.loop(40, step, (3**7 * 2**9, 2))


def walk(u):
    def step(x, y):
        x = td.where(td.sqrt(x + y) / (x + 1) > 0.7, x * 0.5, x + 1.1)
        return x, x

    return td.scan(step, 0.3, u)[1]


def counted(u):  # what is counted does not matter to the next iteration
    def step(k, s):
        x, n = s
        x = 3.9 * x * (1 - x)
        return x, n + td.where(td.sqrt(x) / (x + 1) > 0.4, 1, 0)

    return td.loop(200, step, (0.3, 0))


def search(u):  # known as soon as the element is
    t = td.sort(u)

    def half(s):
        middle = (s[0] + s[1]) // 2
        less = t[middle] < 0.3
        return td.where(less, middle + 1, s[0]), td.where(less, s[1], middle)

    return td.while_loop(lambda s: s[0] < s[1], half, (0, 400))[0]


@pytest.mark.parametrize(
    ("program", "branches"),
    [(metropolis, 1), (division, 2), (walk, 1), (counted, 0), (search, 0)],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_choices_that_an_iteration_waits_for_are_branches(program, branches):
    f = td.jit(program, backend="native")
    result = f(U)
    kernels = [k for s in f.lower(U).executable.kernel_steps for k in s.compiled()]
    assert sum(len(late_choices(k.kernel.body)) for k in kernels) == branches
    assert any(", !prof !3" in llvm_ir(k) for k in kernels) == (branches > 0)
    reference = td.jit(program, backend="reference")(U)
    for one, other in zip(_flat(result), _flat(reference), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def _flat(result):
    return result if isinstance(result, tuple) else (result,)


def test_lanes_of_vectors_choose():
    """Each lane has a loop of its own: nothing to branch by."""

    def each(x):
        return td.loop(9, lambda k, s: td.where(td.sqrt(s) / (s + x) > 0.7, s * 0.5, s + 1), x)

    f = td.jit(lambda u: td.map(each, u), backend="native")
    f(U)
    (kernel,) = [k for s in f.lower(U).executable.kernel_steps for k in s.compiled()]
    assert not late_choices(kernel.kernel.body)
