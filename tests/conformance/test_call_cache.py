"""Calls of operations with data are cached by their signature, and nothing else changes."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.array import Array

from .test_numpy_words import EXACT

RNG = np.random.default_rng(3)


def is_deferred(a: Any) -> bool:
    return isinstance(a, Array) and a._pending is not None


def other(x: Any) -> Any:
    """An argument of the same type and shape with other values."""
    if not isinstance(x, np.ndarray) or x.dtype == object:
        return x
    return np.sort(x.ravel())[::-1].reshape(x.shape).copy()


def outcome(call: Any) -> Any:
    try:
        made = call()
        return [np.asarray(a) for a in (made if isinstance(made, tuple | list) else [made])]
    except (td.TreadleError, ValueError, IndexError) as error:
        return re.sub(r"\d+", "#", str(error))


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", range(len(EXACT)))
def test_cached_calls_of_other_values(case: int) -> None:
    """What a call returns does not depend on the calls before it."""
    name, *args = EXACT[case]
    operation: Any = td
    for part in name.split("."):
        operation = getattr(operation, part)
    changed = [other(a) for a in args]
    with td.config(fast_math=True):  # (calls of other settings are not cached)
        first, second = outcome(lambda: operation(*args)), outcome(lambda: operation(*changed))
    for _ in range(3):
        outcome(lambda: operation(*args))
    for given, expected in ((changed, second), (args, first)):
        found = outcome(lambda given=given: operation(*given))
        if isinstance(expected, str):
            assert found == expected
        else:
            for x, y in zip(found, expected, strict=True):
                assert x.dtype == y.dtype and x.shape == y.shape
                np.testing.assert_allclose(x, y, 1e-12, 1e-12)


def warmed(f: Any, *args: Any) -> None:
    for _ in range(3):
        f(*args)
    assert is_deferred(f(*args))


def test_a_deferred_array_is_one_like_others() -> None:
    x, y = RNG.random(7), RNG.random(7)
    warmed(td.std, x)
    a = td.std(x)
    assert is_deferred(a) and float(a) == pytest.approx(x.std())
    assert a.shape == () and a.dtype == td.float64 and a.ndim == 0
    b = td.std(y)  # the call decides which data
    assert float(td.std(x) + b * 2) == pytest.approx(x.std() + 2 * y.std())
    assert float(b) == pytest.approx(y.std())
    warmed(td.sort, x)
    c = td.sort(x)
    np.testing.assert_allclose(td.run(td.sum(c) + c), x.sum() + np.sort(x))
    np.testing.assert_array_equal(td.run(c), np.sort(x))
    assert repr(c) == repr(td.use(np.sort(x)))


def test_elements_are_read_when_the_value_is_needed() -> None:
    x = RNG.random(5)
    warmed(td.sort, x)
    a, b = td.sort(x), td.sort(x)
    kept = np.asarray(a)
    x[:] = 0
    assert np.asarray(b).sum() == 0 and np.asarray(a) is not x and kept.sum() > 0
    np.testing.assert_array_equal(td.run(a), kept)
    y = RNG.random(6)
    warmed(td.sort, y)
    late = td.sort(y)
    assert td.run(late).sum() > 0
    y[:] = 0
    assert td.run(late).sum() == 0  # td.run keeps nothing


def test_the_shape_is_that_of_the_call() -> None:
    x = RNG.random((2, 3))
    f = lambda a: td.sum(a, axis=0)
    warmed(f, x)
    a, b = f(x), f(x)
    x.shape = (3, 2)
    assert np.asarray(a).shape == (3,) and td.run(b + 1).shape == (3,)


def test_arrays_that_are_one_object() -> None:
    x, y = RNG.random(4), RNG.random(4)
    for _ in range(4):
        np.testing.assert_array_equal(td.run(td.add(x, x)), x + x)
        np.testing.assert_array_equal(td.run(td.add(x, y)), x + y)
    np.testing.assert_array_equal(td.run(td.add(y, y)), y + y)


def test_captured_by_functions_that_are_traced() -> None:
    x = RNG.random(5)
    warmed(td.sort, x)
    table = td.sort(x)
    f = td.jit(lambda k: td.map(lambda i: table[i], k))
    np.testing.assert_array_equal(f(np.array([4, 0])), np.sort(x)[[4, 0]])
    x[:] = 1
    np.testing.assert_array_equal(f(np.array([4, 0])), [1, 1])  # contents may change
    late = td.sort(x)
    np.testing.assert_array_equal(td.run(td.map(lambda i: late[i], np.array([1]))), [1])


def test_values_that_decide_are_looked_at_again() -> None:
    v = np.arange(5.0)
    for _ in range(4):
        assert td.run(td.take(v, np.array([1, 4]))).tolist() == [1, 4]
    with pytest.raises(td.IndexOutOfBounds):
        td.take(v, np.array([1, 5]))
    for _ in range(4):
        td.run(td.fold_seg(td.maximum, 0.0, v, np.array([2, 3])))
        td.run(td.quantile(v, np.array([0.5])))
    with pytest.raises(td.ShapeError):
        td.run(td.fold_seg(td.maximum, 0.0, v, np.array([2, 2])))
    with pytest.raises(td.ShapeError, match="q must be"):
        td.quantile(v, np.array([1.5]))


def test_errors_name_the_line_of_their_call() -> None:
    good, bad = np.array([0.0, 1.0]), np.array([0.0, np.nan])
    for _ in range(4):
        td.run(td.histogram(good, bins=2)[0])
    with pytest.raises(td.TreadleError, match=r"histogram(?s:.*)bins=2\)\[0\]\)  # this one"):
        td.run(td.histogram(bad, bins=2)[0])  # this one


def test_settings_of_the_moment() -> None:
    x = RNG.random(5)
    warmed(td.sort, x)
    a = td.sort(x)
    with td.config(backend="reference"):
        np.testing.assert_array_equal(np.asarray(a), np.sort(x))
        assert not is_deferred(td.sort(x)) or td.run(td.sort(x)).shape == (5,)


def test_data_is_released() -> None:
    x = RNG.random(5)
    warmed(td.sort, x)
    a = td.sort(x)
    np.asarray(a)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    assert np.asarray(a).shape == (5,)
