"""A dense array in another shape is the same memory, without a visible effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.steps import KernelStep


def matrix(*shape: int) -> Any:
    return np.random.default_rng(5).random(shape)


def around_a_product(a: Any, w: Any) -> Any:
    n, p, q = a.shape
    return td.reshape(td.reshape(a, (n * p, q)) @ w, (n, p, w.shape[1]))


def steps(program: Any) -> list[Any]:
    return program.executable.kernel_steps


def test_no_kernel_reshapes_the_operand_or_the_result_of_a_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KernelStep, "__call__", lambda *_: pytest.fail("a kernel was launched"))
    a, w = matrix(300, 7, 40), matrix(40, 50)
    found = td.jit(around_a_product, backend="native")(a, w)
    assert np.allclose(found, a @ w)


@pytest.mark.parametrize("view", [lambda a: a[:, ::2], lambda a: a.transpose(1, 0, 2)])
def test_what_is_not_dense_is_copied(view: Any) -> None:
    a, w = view(matrix(30, 14, 40)), matrix(40, 50)
    assert np.allclose(td.jit(around_a_product, backend="native")(a, w), a @ w)


def test_a_transposed_reshape_is_no_view() -> None:
    def f(a: Any) -> Any:
        return td.reshape(td.transpose(a), (a.shape[0], a.shape[1]))

    a = matrix(30, 20)
    assert np.array_equal(td.jit(f, backend="native")(a), a.T.reshape(30, 20))
    program = td.jit(f, backend="native").lower(a)
    assert not any(s.reshaped for s in steps(program))


def test_results_share_no_memory_with_arguments_nor_each_other() -> None:
    @td.jit(backend="native")
    def f(a: Any) -> Any:
        made = td.compute(a * 2)
        return td.reshape(a, (-1,)), td.reshape(made, (-1,)), made

    a = matrix(300, 40)
    for _ in range(4):
        same, flat, made = f(a)
        assert np.array_equal(same, a.reshape(-1)) and np.array_equal(flat, 2 * a.reshape(-1))
        assert np.array_equal(made, 2 * a)
        assert not np.shares_memory(same, a) and not np.shares_memory(flat, made)


def test_an_argument_is_not_changed_through_its_reshaped_array() -> None:
    @td.jit(backend="native")
    def f(a: Any, x: Any) -> Any:
        flat = td.reshape(a, (-1,))
        return td.update(flat, 3, x)

    a = matrix(300, 40)
    kept = a.copy()
    for _ in range(4):
        found = f(a, 7.0)
        assert found[3] == 7 and np.array_equal(a, kept)


def test_a_value_that_is_still_read_is_not_changed_through_its_reshaped_array() -> None:
    def f(a: Any) -> Any:
        made = td.compute(a @ a)
        changed = td.update(td.reshape(made, (-1,)), 0, -1.0)
        return made @ a, changed

    a = matrix(80, 80)
    for _ in range(4):
        product, changed = td.jit(f, backend="native")(a)
        expected = (a @ a).reshape(-1)
        expected[0] = -1
        assert np.allclose(product, a @ a @ a) and np.allclose(changed, expected)


@pytest.mark.parametrize("n", [3, 300])
def test_the_state_of_a_loop_is_not_changed_through_its_reshaped_array(n: int) -> None:
    def f(a: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            flat = td.compute(td.reshape(s, (-1,)))
            s = td.update(s, (k, 0), 5.0)
            return s + td.reshape(flat, (s.shape[0], s.shape[1]))

        return td.loop(3, step, a)

    a = matrix(n, n)
    expected = a
    for k in range(3):
        following = expected.copy()
        following[k, 0] = 5
        expected = following + expected
    for _ in range(4):
        assert np.array_equal(td.jit(f, backend="native")(a), expected)


def test_explain_says_that_nothing_is_moved() -> None:
    program = td.jit(around_a_product, backend="native").lower(matrix(30, 7, 40), matrix(40, 50))
    assert str(program.explain()).count("none if what it reads is dense: the same memory") == 2
