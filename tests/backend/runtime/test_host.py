"""Host functions: what evaluates their entries agrees with the code made of them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.backend.runtime import host
from treadle.backend.runtime.host import OFTEN, HostFunction
from treadle.dsl.primitives import TABLE, value_of
from treadle.dsl.types import bool_, float32, int8, int32, int64, uint8, uint64

TYPES = [int8, int32, int64, uint8, uint64, bool_]
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def constant(t: Any, value: Any) -> list[Any]:
    return ["const", t.name, np.asarray(value, t.numpy).tobytes().hex()]


def both(function: HostFunction, arrays: Any = (), params: Any = ()) -> Any:
    """The values of a function, which do not depend on how often it has been called."""
    called = function.function()
    assert isinstance(called, host._Function)
    first = called(arrays, params)
    assert called.made is None
    for _ in range(OFTEN):
        later = called(arrays, params)
    assert called.made is not None
    assert later == first == function.compiled()(arrays, params)
    return first


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("op", sorted(host._FORMS))
def test_operations(op: str, t: Any) -> None:
    """Of integers and truth values, at the limits of their types, as NumPy computes them."""
    primitive = TABLE[op]
    count = 3 if op == "select" else primitive.arity
    known = [t.lowest, t.highest] if t == bool_ else [t.lowest, 0, 1, 3, t.highest - 1, t.highest]
    of_bools = op in ("logical_and", "logical_or", "logical_xor", "logical_not")
    arithmetic = ("add", "subtract", "multiply", "negative", "floor_divide", "remainder",
                  "absolute")  # fmt: skip
    if (of_bools and t != bool_) or (t == bool_ and op in (*arithmetic, "invert")):
        pytest.skip("no operation of this type")
    made = bool_ if op in COMPARISONS or of_bools else t
    for values in itertools.product(known, repeat=count):
        types = [t] * count
        if op == "select":
            types[0], values = bool_, (bool(values[0]), *values[1:])
        entries = [constant(s, v) for s, v in zip(types, values, strict=True)]
        for kind in ("apply", "bound"):
            function = HostFunction([*entries, [kind, op, made.name, [*range(count)]]], [count])
            (found,) = both(function)
            if kind == "apply" and op not in ("floor_divide", "remainder", "invert", "absolute"):
                args = [np.asarray(v, s.numpy) for v, s in zip(values, types, strict=True)]
                expected = value_of(primitive, types, args, made)
                assert found == expected, (op, values)


def test_conversions_between_types() -> None:
    for t, s, value in itertools.product(TYPES, TYPES, (-1, 0, 1, 200, 1 << 40)):
        number = np.asarray(value).astype(t.numpy)
        entries = [constant(t, number), ["apply", "cast", s.name, [0]]]
        assert both(HostFunction(entries, [1])) == (number.astype(s.numpy),)


def test_bounds_do_not_wrap() -> None:
    entries: list[list[Any]] = [constant(int32, 1 << 30), ["bound", "multiply", "int32", [0, 0]],
               ["apply", "multiply", "int32", [0, 0]]]  # fmt: skip
    assert both(HostFunction(entries, [1, 2])) == (1 << 60, 0)


def test_arrays_and_parameters() -> None:
    """Extents, strides, elements (also outside), numbers of Python, sides of a branch, floats."""
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    entries: list[list[Any]] = [
        ["extent", 0, 1], ["stride", 0, 0], ["param", 0, "float32"], ["param", 1, "int64"],
        ["read", 0, "float32", [3, 0]], ["read", 1, "int64", []],
        ["apply", "multiply", "float32", [2, 4]], ["apply", "less", "bool", [2, 4]],
        ["cond", 7, [0, 2], [1, 4]], ["proj", 8, 1, "float32"], ["apply", "cast", "int64", [6]],
        ["reciprocal", 3, "multiplier"], ["reciprocal", 3, "shift"],
    ]  # fmt: skip
    found = both(HostFunction(entries, list(range(len(entries)))), [a, np.array(7)], [2.5, 2])
    assert found[:8] == (4, 4, 2.5, 2, 11.0, 7, 27.5, True)
    assert found[8] == (4, 2.5) and found[9:11] == (2.5, 27)
    assert type(found[2]) is np.float32 and type(found[3]) is int and type(found[7]) is bool


def test_the_largest_value_of_a_loop() -> None:
    inner = HostFunction([["read", 1, "int64", []], ["extent", 0, 0],
                          ["apply", "multiply", "int64", [0, 1]]], [2])  # fmt: skip
    entries: list[list[Any]] = [
        ["extent", 0, 0],
        ["most", inner.data(), [1], [0]],
        ["proj", 1, 0, "int64"],
    ]
    arrays = [SimpleNamespace(shape=(5,)), None]
    assert both(HostFunction(entries, [2]), arrays) == (20,)


def test_floats_take_numpys_operations() -> None:
    entries = [constant(float32, 0.1), constant(float32, 3), ["apply", "add", "float32", [0, 1]],
               ["apply", "exp", "float32", [2]]]  # fmt: skip
    (found,) = both(HostFunction(entries, [3]))
    assert found == np.exp(np.float32(0.1) + np.float32(3)) and type(found) is np.float32
