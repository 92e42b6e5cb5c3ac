"""Functions that refer to arrays, and derivatives by nested arguments, are traced once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.autodiff import gradients
from treadle.dsl.frontend.functions import MOST_BYTES

POINT = np.array([1.0, 2.0, 3.0])
x = td.use(POINT)
TIMES = 4


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every differentiated function."""
    found: list[int] = []
    pulled = gradients.pulled
    monkeypatch.setattr(gradients, "pulled", lambda *a: found.append(0) or pulled(*a))
    return found


def weights(a: Any, at: Any) -> Any:
    """The gradient of `gradient`."""
    found = a / POINT
    np.add.at(found, at, a)
    return found


def gradient(a: Any, at: Any) -> Any:
    return td.run(td.grad(lambda x: td.sum(td.log(x) * a) + td.sum(x[at] * a))(x))


@pytest.mark.parametrize("given", [np.array, lambda values: td.use(np.array(values))])
def test_captured_arrays_are_traced_once(given: Callable[[Any], Any], traces: list[int]) -> None:
    a, at = given([1.5, 2.5, 3.5]), given([0, 2, 2])
    for k in range(3 * TIMES):
        if k == TIMES:
            traces.clear()
        assert np.allclose(gradient(a, at), weights(np.asarray(a), np.asarray(at)))
    assert not traces


def test_numpys_arrays_that_change_in_place() -> None:
    a, at = np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2])
    for _ in range(TIMES):
        assert np.allclose(gradient(a, at), weights(a, at))
    before, places = a.copy(), at.copy()
    a[:] = 7
    for _ in range(TIMES):  # the old elements, in another array, and the new ones
        assert np.allclose(gradient(before, at), weights(before, at))
        assert np.allclose(gradient(a, at), weights(a, at))
    at[:] = 2
    for _ in range(TIMES):
        assert np.allclose(gradient(a, at), weights(a, at))
        assert np.allclose(gradient(a, places), weights(a, places))
    at[:] = 9
    with pytest.raises(td.IndexOutOfBounds, match="index 9 is out of range"):
        gradient(a, at)
    at[:] = 0
    assert np.allclose(gradient(a, at), weights(a, at))


def test_what_is_computed_in_numpy_is_computed_again() -> None:
    a = np.zeros(3)
    for k in range(1, 3 * TIMES):
        a[:] = k % 5 + 1
        f = lambda x: td.sum(x * np.log(a) * float(a.max()))
        assert np.allclose(td.run(td.grad(f)(x)), np.log(a) * a.max())
        g = lambda x, a: td.sum(x * np.log(a) * float(a.max()))
        assert np.allclose(td.run(td.grad(g)(x, a)), np.log(a) * a.max())


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses_of_numpys_arrays_compute_otherwise() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    matrix = np.matrix(a)
    f = lambda x, a: td.sum(x * td.use(np.ravel(a * a))[:3])
    for _ in range(TIMES):
        assert np.asarray(td.grad(f)(x, matrix)).tolist() == [7, 10, 15]
        assert np.asarray(td.grad(f)(x, a)).tolist() == [1, 4, 9]
        assert np.asarray(td.grad(lambda x: f(x, matrix))(x)).tolist() == [7, 10, 15]


def test_the_order_of_memory_of_numpys_arrays() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    f = lambda x, a: td.sum(x * td.use(a.ravel("K"))[:3])
    for _ in range(TIMES):
        for order, want in (("C", [1, 2, 3]), ("F", [1, 3, 2])):
            same = np.asarray(a, order=order)
            assert np.asarray(td.grad(f)(x, same)).tolist() == want
            assert np.asarray(td.grad(lambda x, a=same: f(x, a))(x)).tolist() == want


class Kind(StrEnum):
    cube = "cube"


def test_a_text_and_an_enumeration_of_texts() -> None:
    f = lambda p, kind: td.sum(p["x"] ** (1 if type(kind) is str else 3))
    for kind, want in [("cube", POINT**0)] * TIMES + [(Kind.cube, 3 * POINT**2)] * TIMES:
        assert np.allclose(np.asarray(td.grad(f)({"x": x}, kind)["x"]), want)


def test_data_of_treadles_arrays_is_read_when_it_is_needed() -> None:
    a, at = np.zeros(3), np.zeros(3, int)
    own, places = td.use(a), td.use(at)
    for k in range(2 * TIMES):
        a[:], at[:] = k, [k % 3, 0, 1]
        found = td.run(td.grad(lambda x: td.sum(x * own) + td.sum(x[places]))(x))
        want = a.copy()
        np.add.at(want, at, 1)
        assert np.allclose(found, want)
    at[:] = 5
    with pytest.raises(td.IndexOutOfBounds, match="index 5 is out of range"):
        td.run(td.grad(lambda x: td.sum(x[places]))(x))


def test_other_arrays_of_the_same_shape_are_data(traces: list[int]) -> None:
    for k in range(3 * TIMES):
        if k == TIMES:
            traces.clear()
        data = np.full((40, 3), float(k))
        batch, targets = td.use(data), td.use(np.ones(40)) * k  # a result, which is computed
        np.asarray(targets)
        found = td.run(td.grad(lambda w: td.sum((batch @ w - targets) ** 2))(x))
        assert np.allclose(found, 2 * data.T @ (data @ POINT - k))
    assert not traces
    shorter = td.use(np.ones((7, 3)))
    assert np.allclose(td.grad(lambda w: td.sum(shorter @ w))(x), 7)


def test_operations_with_functions_that_refer_to_arrays() -> None:
    places = td.use(np.array([2, 0, 1]))
    for k in range(2 * TIMES):
        own, numpys = td.use(POINT * k), POINT + k
        found = td.map(lambda n: own[n] * 2, places)
        assert np.array_equal(found, 2 * k * POINT[[2, 0, 1]])
        found = td.iterate(2, lambda u: u * own + numpys, x)
        want = (POINT * POINT * k + numpys) * POINT * k + numpys
        assert np.allclose(found, want)
        chain = td.sum(td.sqrt(td.map(lambda n: own[n] + 1, places) * own))
        assert np.allclose(chain, np.sqrt((k * POINT[[2, 0, 1]] + 1) * k * POINT).sum())


def test_an_array_that_is_passed_and_captured() -> None:
    y = td.use(np.full(3, 2.0))
    for _ in range(TIMES):
        found = td.run(td.grad(lambda x, z: td.sum(x * y * z))(x, y))
        assert np.allclose(found, 4)
        assert np.allclose(td.run(td.grad(lambda z: td.sum(z * y * y), 0)(y)), 4)


def test_large_arrays() -> None:
    large = np.ones(MOST_BYTES // 8 + 1)
    own = td.use(large)
    for k in range(TIMES):
        large[0] = k
        for array in (large, own):
            found = td.run(td.grad(lambda x, a=array: td.sum(x) * td.sum(a))(x))
            assert np.allclose(found, large.sum())


@dataclass
class Layer:
    weight: Any
    bias: Any


def test_nested_arguments_are_traced_once(traces: list[int]) -> None:
    layer, rest = Layer(x, 2.0), [POINT]

    def loss(layer: Layer, scale: float, rest: list[Any]) -> Any:
        return (td.sum(layer.weight * rest[0]) + layer.bias) * scale

    for k in range(3 * TIMES):
        if k == TIMES:
            traces.clear()
        both = td.value_and_grad(loss, argnums=(0, -1))(layer, 3.0, rest)
        value, (by_layer, by_rest) = both
        assert isinstance(by_layer, Layer) and isinstance(by_rest, list)
        assert float(value) == 48 and float(by_layer.bias) == 3
        assert np.allclose(by_layer.weight, 3 * POINT) and np.allclose(by_rest[0], 3 * POINT)
        by = td.run(td.grad(lambda p: td.sum(p["w"] ** 2 * p["b"]))({"w": x, "b": POINT}))
        assert list(by) == ["w", "b"] and np.allclose(by["w"], 2 * POINT**2)
        assert np.allclose(by["b"], POINT**2)
    assert not traces


def test_another_nesting_or_constant_is_another_function() -> None:
    def loss(p: Any, kind: str = "sum") -> Any:
        parts = list(p.values()) if isinstance(p, dict) else p
        total = sum(td.sum(part * (k + 1)) for k, part in enumerate(parts))
        return total if kind == "sum" else total**2 / 2

    for _ in range(TIMES):
        one = td.run(td.grad(loss)([x, x]))
        two = td.run(td.grad(loss)({"a": x, "b": x}))
        three = td.run(td.grad(loss)({"b": x, "a": x}, "square"))
        assert isinstance(one, list) and list(two) == ["a", "b"] and list(three) == ["b", "a"]
        assert np.allclose(one, [[1] * 3, [2] * 3]) and np.allclose(two["b"], 2)
        assert np.allclose(three["b"], 18) and np.allclose(three["a"], 36)


def test_auxiliary_results() -> None:
    for _ in range(TIMES):
        found, aux = td.grad(
            lambda p: (td.sum(p["w"] ** 2), {"n": td.sum(p["w"])}), has_aux=True
        )({"w": x})  # fmt: skip
        assert np.allclose(found["w"], 2 * POINT) and float(aux["n"]) == 6


def test_run_of_nested_results() -> None:
    @dataclass
    class Pair:
        low: Any
        high: Any

    for _ in range(TIMES):
        found = td.run({"a": x + 1, "b": [x * 2, (td.sum(x),)], "c": Pair(x - 1, td.max(x))})
        assert np.array_equal(found["a"], POINT + 1) and np.array_equal(found["b"][0], POINT * 2)
        assert found["b"][1][0] == 6 and isinstance(found["b"], list)
        assert isinstance(found["b"][1], tuple) and isinstance(found["c"], Pair)
        assert np.array_equal(found["c"].low, POINT - 1) and found["c"].high == 3


def test_defaults_are_those_of_the_call() -> None:
    weights = np.ones(3)

    def loss(x: Any, w: Any = weights, *, v: Any = weights) -> Any:
        return td.sum(x * x * w * v)

    for k in range(2 * TIMES):
        found, want = td.grad(loss)(POINT), 2 * POINT * weights**2
        weights[k % 3] += 1
        assert np.allclose(found, want)
