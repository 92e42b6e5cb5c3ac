"""A dense array in another shape is the same memory of the GPU, without a visible effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import EmulatedDevice, emulation, on_device
from treadle.backend.cuda.device.device import Block


@pytest.fixture(autouse=True)
def gpu() -> Iterator[EmulatedDevice]:
    with emulation() as device:
        yield device


def matrix(*shape: int) -> Any:
    return np.random.default_rng(5).random(shape)


def around_a_product(a: Any, w: Any) -> Any:
    n, p, q = a.shape
    return td.reshape(td.reshape(a, (n * p, q)) @ w, (n, p, w.shape[1]))


def compiled(f: Any) -> Any:
    return td.jit(f, backend="cuda")


def test_no_kernel_reshapes_the_operand_or_the_result_of_a_product(gpu: EmulatedDevice) -> None:
    a, w = matrix(30, 7, 40), matrix(40, 50)
    assert np.allclose(compiled(around_a_product)(a, w), a @ w)
    assert not gpu.launched


def test_what_is_not_dense_is_copied(gpu: EmulatedDevice) -> None:
    a, w = on_device(matrix(30, 14, 40))[:, ::2], matrix(40, 50)
    found = compiled(around_a_product)(a, w)
    assert np.allclose(np.asarray(found), np.asarray(a) @ w)
    assert sum(gpu.launched.values()) == 1


def test_a_transposed_reshape_is_no_view() -> None:
    def f(a: Any) -> Any:
        return td.reshape(td.transpose(a), (a.shape[0], a.shape[1]))

    a = matrix(30, 20)
    assert np.array_equal(compiled(f)(a), a.T.reshape(30, 20))


def test_results_share_no_memory_with_arguments_nor_each_other() -> None:
    @compiled
    def f(a: Any) -> Any:
        made = td.compute(a * 2)
        return td.reshape(a, (-1,)), td.reshape(made, (-1,)), made, td.reshape(made, (40, 30))

    a = on_device(matrix(30, 40))
    host = np.array(a)
    for _ in range(4):
        arrays = [a, *f(a)]
        same, flat, made, other = map(np.asarray, arrays[1:])
        assert np.array_equal(same, host.reshape(-1)) and np.array_equal(flat, 2 * same)
        assert np.array_equal(made, 2 * host) and np.array_equal(other.reshape(-1), flat)
        assert not any(np.shares_memory(x, y) for k, x in enumerate(arrays) for y in arrays[:k])


def test_an_argument_is_not_changed_through_its_reshaped_array() -> None:
    @compiled
    def f(a: Any, x: Any) -> Any:
        return td.update(td.compute(td.reshape(a, (-1,))), 3, x)

    a = on_device(matrix(30, 40))
    kept = np.array(a)
    for _ in range(4):
        found = f(a, 7.0)
        assert np.asarray(found)[3] == 7 and np.array_equal(a, kept)


@pytest.mark.parametrize("stepwise", [False, True])
def test_a_value_that_is_still_read_is_not_changed_through_its_reshaped_array(
    stepwise: bool,
) -> None:
    def f(a: Any) -> Any:
        made = td.compute(a @ a)
        changed = td.update(td.compute(td.reshape(made, (-1,))), 0, -1.0)
        return made @ a, changed

    a = matrix(20, 20)
    program = compiled(f)
    for _ in range(4):
        with td.config(check=stepwise):  # then operations are run one by one
            product, changed = program(a)
        expected = (a @ a).reshape(-1)
        expected[0] = -1
        assert np.allclose(product, a @ a @ a) and np.allclose(changed, expected)


def _pair(k: Any, s: Any) -> Any:
    """Two states of which one is the other in another shape."""
    a, b = s
    made = td.compute(a @ a / a.shape[0])
    return made + td.reshape(b, a.shape) * 0, td.reshape(made, (-1,))


def _turned(k: Any, s: Any) -> Any:
    flat = td.compute(td.reshape(s, (-1,)))
    s = td.update(s, (k % 2, 0), 5.0)
    return s + td.reshape(flat, s.shape)


def _product(k: Any, s: Any) -> Any:
    """The next state is a product in another shape."""
    n = s.shape[0]
    return td.reshape(td.reshape(s, (n * n // 2, 2)) @ td.use(np.eye(2) * 0.5), (n, n))


@pytest.mark.parametrize("steps", [1, 2, 3, 80])
@pytest.mark.parametrize("body", [_turned, _product])
def test_the_state_of_a_loop_is_not_changed_through_its_reshaped_array(
    body: Any, steps: int
) -> None:
    a = matrix(4, 4) * 1e-3

    def f(a: Any) -> Any:
        return td.loop(steps, body, a)

    expected = td.jit(f, backend="reference")(a)
    for _ in range(3):
        assert np.allclose(compiled(f)(a), expected)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_states_that_are_the_same_memory_in_a_step(steps: int) -> None:
    def f(a: Any) -> Any:
        return td.loop(steps, _pair, (a, td.reshape(a, (-1,))))

    a = matrix(6, 6)
    expected = td.jit(f, backend="reference")(a)
    for _ in range(3):
        found = compiled(f)(a)
        assert all(np.allclose(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("above", [0.0, 1e9])
def test_a_side_of_a_branch_in_another_shape(above: float) -> None:
    def f(a: Any, x: Any) -> Any:
        made = td.compute(a * 2)
        flat = td.cond(td.sum(made) > x, td.reshape(made, (-1,)), td.ravel(a) * 3)
        return made, td.update(flat, 0, 9.0)

    a = matrix(8, 8)
    for _ in range(3):
        made, flat = compiled(f)(a, above)
        expected = (a * (2 if above == 0 else 3)).reshape(-1)
        assert np.array_equal(made, a * 2) and np.allclose(flat[1:], expected[1:])
        assert flat[0] == 9


def test_blocks_in_several_shapes_are_equal() -> None:
    made = Block((6, 4), np.dtype("f8"))
    flat = made.reshaped((24,))
    assert flat == made and hash(flat) == hash(made) and flat.reshaped((6, 4)) == made
    assert flat.strides == (8,) and flat.whole is made and made.reshaped((6, 4)) is made
    assert Block((6, 4), np.dtype("f8")) != made
    assert flat.array is None
    made.array = np.arange(24.0).reshape(6, 4)
    flat.kind = "input"
    assert np.shares_memory(flat.array, made.array) and flat.array.shape == (24,)
    assert made.kind == "input"


def test_explain_says_that_nothing_is_moved() -> None:
    program = compiled(around_a_product).lower(matrix(30, 7, 40), matrix(40, 50))
    assert str(program.explain()).count("none if what it reads is dense: the same memory") == 2
