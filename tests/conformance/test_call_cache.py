"""Calls of operations with data are cached by their signature, and nothing else changes."""

from __future__ import annotations

import ast
import gc
import math
import os
import random
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.driver.program import Program
from treadle.dsl.array import Array
from treadle.dsl.autodiff import gradients
from treadle.dsl.frontend import deferred
from treadle.dsl.frontend.call_cache import CallCache
from treadle.dsl.frontend.functions import key_of
from treadle.dsl.graph import Matmul, topological

from .test_numpy_words import EXACT

RNG = np.random.default_rng(3)


def is_deferred(a: Any) -> bool:
    return isinstance(a, Array) and a._pending is not None and not a._pending.call.cached.alone


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
        return re.sub(r"\d+", "#", str(error).splitlines()[0])  # (the others show the call)


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


def test_indices_are_required_to_be_in_range_in_later_calls() -> None:
    """Cached calls look at the indices that are data, and only at them."""
    v, k = np.arange(5.0), np.array([1, 4, -5])
    calls: dict[str, Any] = {
        "read": lambda i: td.use(v)[i],
        "of rows": lambda i: td.use(np.ones((2, 5)))[:, i],
        "take": lambda i: td.take(v, i),
        "beside others": lambda i: td.use(np.ones((3, 5)))[np.array([0, 1, 2]), i],
        "add": lambda i: td.use(v).at[i].add(2.0),
        "set": lambda i: td.use(v).at[i].set(v[:3]),
        "update": lambda i: td.update(v, i, v[:3]),
        "along": lambda i: td.take_along_axis(v, i, 0),
        "gather": lambda i: td.gather(np.arange(10.0), i + 5),
        "scatter": lambda i: td.scatter(np.arange(10.0), i + 5, v[:3]),
    }
    for name, call in calls.items():
        for _ in range(4):
            found = call(k)
        assert is_deferred(found), name
        for wrong in (np.array([1, 5, 0]), np.array([1, 2, -6])):
            with pytest.raises(td.IndexOutOfBounds, match="is out of range for axis"):
                call(wrong)  # at this line
        assert is_deferred(call(k)), name
    for _ in range(4):
        counts = td.bincount(abs(k), v[:3], length=6)
    assert is_deferred(counts)
    with pytest.raises(td.IndexOutOfBounds, match="no bin for 6"):
        td.bincount(abs(k) + 1, v[:3], length=6)
    with pytest.raises(td.IndexOutOfBounds, match="must not be negative, and one is -5"):
        td.bincount(k, v[:3], length=6)


def test_facts_about_data_are_looked_at_in_later_calls() -> None:
    x, up = RNG.random(20), np.array([0.1, 0.4, 0.7])
    down, mixed = up[::-1].copy(), np.array([0.1, 0.7, 0.4])
    for edges in (up, down):
        for _ in range(4):
            found = td.digitize(x, edges)
        np.testing.assert_array_equal(found, np.digitize(x, edges))
    assert is_deferred(td.digitize(x, up))
    np.testing.assert_array_equal(td.digitize(x, down), np.digitize(x, down))
    with pytest.raises(td.ShapeError, match="neither ascend nor descend"):
        td.digitize(x, mixed)
    for _ in range(4):
        counts, edges = td.histogram(x, up)
        shares = td.quantile(x, up)
        sums = td.fold_seg(td.add, 0.0, x, np.array([5, 15]))
    assert is_deferred(counts) and is_deferred(edges) and is_deferred(shares) and is_deferred(sums)
    np.testing.assert_array_equal(edges, up)
    np.testing.assert_array_equal(counts, np.histogram(x, up)[0])
    np.testing.assert_allclose(td.quantile(x, down), np.quantile(x, down))
    np.testing.assert_allclose(td.fold_seg(td.add, 0.0, x, np.array([2, 18])), [
        x[:2].sum(), x[2:].sum()])  # fmt: skip
    with pytest.raises(td.ShapeError, match="must not descend"):
        td.histogram(x, mixed)
    with pytest.raises(td.ShapeError, match="q must be"):
        td.quantile(x, up + 0.5)
    with pytest.raises(td.ShapeError, match="the negative length -2"):
        td.fold_seg(td.add, 0.0, x, np.array([22, -2]))
    with pytest.raises(td.ShapeError, match="sum to 19"):
        td.fold_seg(td.add, 0.0, x, np.array([2, 17]))


def test_facts_within_a_chain_that_is_cut() -> None:
    """A loop of Python's, whose state is gathered and counted at indices that are data."""
    n = 50
    weights, state, expected = RNG.random(n), td.use(np.ones(n)), np.ones(n)
    for step in range(60):
        k = RNG.integers(0, n, n)
        state = td.bincount(k, state, length=n)[k] * 0.5 + td.take(weights, k)
        expected = np.bincount(k, expected, n)[k] * 0.5 + weights[k]
        if step % 20 == 19:
            np.testing.assert_allclose(state, expected, rtol=1e-12)
    with pytest.raises(td.IndexOutOfBounds):
        state[np.array([n])]


def test_edges_that_descend_are_refused_in_later_calls() -> None:
    x, edges = RNG.random(5), np.array([0.0, 0.5, 1.0])
    for _ in range(4):
        td.run(*td.histogram(x, edges))
    with pytest.raises(td.ShapeError, match="must not descend"):
        td.histogram(x, np.array([0.0, 2.0, 1.0]))


def test_operations_look_at_host_data_in_one_way() -> None:
    """`fact` says what has been looked at: cached calls look at it again."""
    folder = Path(td.__file__).parent / "dsl" / "operations"
    reading = [
        f"{path.name}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "source"
    ]
    assert not reading


def test_a_value_that_is_looked_at_is_no_constant() -> None:
    """A table made of values, equal for the data of which it is traced, is not that of others."""

    def table(a: Any) -> Any:
        found = td.use(np.array([float(np.asarray(a).max() > 5)]))
        return td.sum(td.use(a)) + found

    call = CallCache(table)
    for data in (np.array([0.0, 1.0]), np.array([2.0, 3.0]), np.array([0.0, 9.0])) * 2:
        for a in (data, td.use(data)):
            found = td.run(call((a,), {}))
            np.testing.assert_array_equal(found, [data.sum() + float(data.max() > 5)])


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


def test_a_call_has_the_settings_of_its_moment_wherever_it_is_traced() -> None:
    """Permission to be fast is part of a product, also of one that a chain reads."""
    x, y = RNG.random((2, 5, 6)).astype(np.float32), RNG.random((2, 6, 5)).astype(np.float32)
    a, b = td.use(x), td.use(y)

    def product(fast: bool) -> Array:
        with td.precision(fast=fast):
            return a @ b

    def permitted(found: Array) -> list[bool]:
        nodes = topological(found._leaves)
        return [node.options.fast for node in nodes if isinstance(node, Matmul)]

    for fast in (True, False, True):
        warmed(product, fast)
        assert is_deferred(product(fast))
        assert permitted(product(fast)) == [fast]
        warmed(lambda fast: product(fast) + product(not fast) * 2, fast)
        chain = product(fast) + product(not fast) * 2
        assert is_deferred(chain)
        with td.precision(fast=True):
            assert sorted(permitted(chain)) == [False, True]
        np.testing.assert_allclose(chain, x @ y * 3, rtol=1e-5)


def test_chains_have_one_program() -> None:
    x, y = RNG.random(9), RNG.random(9)
    a = td.use(x)
    chains: list[tuple[Any, Any]] = [
        (lambda a, y: a * 2 + 1, lambda x, y: x * 2 + 1),
        (lambda a, y: td.sqrt(td.abs(a)) - y, lambda x, y: np.sqrt(np.abs(x)) - y),
        (lambda a, y: (a - y).sum(), lambda x, y: (x - y).sum()),
        (lambda a, y: (a - td.mean(a)) / td.std(a), lambda x, y: (x - x.mean()) / x.std()),
        (lambda a, y: -a[1:] + a[:-1] * y[1:], lambda x, y: -x[1:] + x[:-1] * y[1:]),
        (lambda a, y: td.concatenate([a, y])[::2], lambda x, y: np.concatenate([x, y])[::2]),
        (lambda a, y: a + td.cumsum([2.0] * 9), lambda x, y: x + np.cumsum([2.0] * 9)),
        (lambda a, y: a * y + a * a, lambda x, y: x * y + x * x),
        (
            lambda a, y: td.histogram(a.reshape(3, 3).ravel() * 2, bins=4, range=(0, 2))[0],
            lambda x, y: np.histogram(x * 2, bins=4, range=(0, 2))[0],
        ),
        (lambda a, y: td.where(td.use(y) > 0.5, y, a), lambda x, y: np.where(y > 0.5, y, x)),
    ]
    for mine, numpys in chains:
        warmed(mine, a, y)
        z = RNG.random(9)
        for given in (x, z, y):  # (the last is both of the data: another signature)
            found = mine(td.use(given), y)
            assert is_deferred(found) or given is y
            assert found.shape == numpys(given, y).shape
            np.testing.assert_allclose(td.run(found), numpys(given, y), 1e-13, 1e-14)
            np.testing.assert_allclose(np.asarray(found), numpys(given, y), 1e-13, 1e-14)


def test_numbers_of_operators_are_run_time_values() -> None:
    x = RNG.random(6)
    a = td.use(x)
    for kind in (float, np.float64, np.float32, complex):
        warmed(lambda a, v: (a - v) * v, a, kind(0.5))
        for v in map(kind, (0.25, -0.0, 0.0, 1.0, 3.5, np.inf)):
            found, expected = (a - v) * v, (x - v) * v
            assert is_deferred(found) and found.dtype == expected.dtype
            np.testing.assert_array_equal(td.run(found), expected)
    assert td.run(a * np.nan + np.nan).shape == (6,)
    warmed(lambda a: td.maximum(a, 0.5) ** 2.5, a)
    np.testing.assert_allclose(td.run(td.maximum(a, 0.25) ** 0.5), np.maximum(x, 0.25) ** 0.5)
    single = td.use(np.float32([1, 2]))
    warmed(lambda s: s * 0.1, single)
    assert (single * 0.3).dtype == td.float32
    np.testing.assert_array_equal(td.run(single * 0.3), np.float32([1, 2]) * np.float32(0.3))


def _programs_made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    make = Program.__init__
    monkeypatch.setattr(
        Program, "__init__", lambda self, *a, **k: (made.append(self), make(self, *a, **k))[1]
    )
    return made


@pytest.mark.parametrize("n", [7, 1 << 20])
def test_integers_that_vary_are_run_time_numbers(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.random(n)
    a = td.use(x)
    made = _programs_made(monkeypatch)
    for k in range(40):
        value = float(td.sum(a * k)) / (k + 1)
        assert value == pytest.approx(x.sum() * k / (k + 1))
        assert (td.use(np.uint8([250])) + (k % 9)).tolist() == [(250 + k % 9) % 256]
        found = a / (k - 5)
        assert found.dtype == td.float64
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(np.asarray(found), x / (k - 5))
        key = np.asarray(td.random.fold_in(td.random.key(3), k))
        with td.config(fast_math=True):  # (calls of other settings are not cached)
            expected = np.asarray(td.random.fold_in(td.random.key(3), k))
        np.testing.assert_array_equal(key, expected)
        if k == 12:
            programs = sum(not p.settings.fast_math for p in made)
    assert sum(not p.settings.fast_math for p in made) == programs
    with pytest.raises(td.TreadleError):
        td.use(np.uint8([250])) + 300


def test_keys_of_a_loop_have_two_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the first call, and that of the others, whose number is a parameter."""
    made = _programs_made(monkeypatch)
    for k in (*range(9), -1, 1 << 62):
        found = np.asarray(td.random.uniform(td.random.fold_in(td.random.key(3), k), 5))
        own = [p for p in made if not p.settings.fast_math]
        assert len(own) <= 2
        with td.config(fast_math=True):  # (calls of other settings are not cached)
            key = np.asarray(td.random.fold_in(td.random.key(3), k))
            np.testing.assert_array_equal(found, np.asarray(td.random.uniform(key, 5)))


@pytest.mark.parametrize("n", [64, 1 << 20])
def test_positions_that_vary_are_run_time_numbers(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.random((n, 3))
    a = td.use(x)
    made = _programs_made(monkeypatch)
    indices: list[Any] = [
        lambda k: k, lambda k: -k - 1, lambda k: (k, 1), lambda k: slice(k, k + 5),
        lambda k: (slice(k + 20, k, -2), None, 0), lambda k: (..., slice(k % 3, k % 3 + 1)),
        lambda k: (slice(None), k % 3), lambda k: slice(n - k, None),
    ]  # fmt: skip
    for k in range(40):
        for index in indices[:-1]:
            found = a[index(k)]
            assert found.shape == x[index(k)].shape
            np.testing.assert_array_equal(np.asarray(found), x[index(k)])
        if k == 12:
            programs = len(made)
    assert len(made) == programs
    for k in range(12):  # of other extents each time
        np.testing.assert_array_equal(np.asarray(a[indices[-1](k)]), x[indices[-1](k)])
    for k in (n, -n - 1):
        with pytest.raises(IndexError):
            a[k]
    assert a[n - 2 : n + 3].shape == (2, 3) and a[n + 3 : n + 8].shape == (0, 3)


def test_numbers_that_vary_are_data_where_calls_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of arrays that are no data, and of deferred calls that an operation reads which is not
    cached: a loop of Python's runs the same programs, whatever its numbers are."""
    x = RNG.random(50)
    a = td.use(x)
    made = _programs_made(monkeypatch)

    def written(k: int, v: float) -> Any:
        found = np.zeros(50, np.float32)
        found[k] = v
        return found

    calls: list[tuple[Any, Any]] = [
        (lambda k: td.zeros(50, td.float32).at[k].set(k / 2) * k, lambda k: written(k, k / 2) * k),
        (lambda k: td.zeros(50, td.float32).at[k].add(3.5) / (k + 0.25),
         lambda k: written(k, 3.5) / np.float32(k + 0.25)),
        (lambda k: td.maximum(td.iota(50) - k, k // 2),
         lambda k: np.maximum(np.arange(50) - k, k // 2)),
        (lambda k: 2 - td.ones((3, 4), td.uint8) * k, lambda k: 2 - np.ones((3, 4), np.uint8) * k),
        (lambda k: td.unzip(td.zip(a * k, a + k / 8))[1] + k, lambda k: x + k / 8 + k),
        (lambda k: td.zip(a > k / 40, a * k), lambda k: (x > k / 40, x * k)),
        (lambda k: a.at[k].set(k) * (k + 0.5),
         lambda k: np.where(np.arange(50) == k, k, x) * (k + 0.5)),
        (lambda k: td.iota(60)[k : k + 5] * k, lambda k: np.arange(k, k + 5) * k),
    ]  # fmt: skip
    for k in range(1, 40):
        for number, (call, expected) in enumerate(calls):
            found, right = td.run(call(k)), expected(k)
            pairs = zip(found, right, strict=True) if type(right) is tuple else [(found, right)]
            for one, its in pairs:
                np.testing.assert_array_equal(one, its, err_msg=f"call {number} of {k}")
                assert one.dtype == its.dtype
        if k == 12:
            programs = len(made)
    assert len(made) == programs
    for k in (50, -51):
        with pytest.raises(IndexError):
            td.zeros(50).at[k].set(1.0)
        with pytest.raises(IndexError):
            a.at[k].set(1.0)
    with pytest.raises(td.TreadleError):
        td.ones(3, td.uint8) + 300


def test_parts_chosen_by_arrays_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of Python's over groups, `x[k == g].mean()`, runs one program."""
    x, groups = RNG.random((60, 4)), RNG.integers(0, 9, 60)
    rows = RNG.integers(0, 60, (3, 7))
    a, b, r = td.use(x), td.use(groups), td.use(rows)
    made = _programs_made(monkeypatch)
    calls: list[tuple[Any, Any]] = [
        (lambda g: a[b == g % 9], lambda g: x[groups == g % 9]),
        (lambda g: a[groups == g % 9], lambda g: x[groups == g % 9]),
        (lambda g: a[b == g % 9].mean(axis=0), lambda g: x[groups == g % 9].mean(axis=0)),
        (lambda g: a[a > g / 40].sum(), lambda g: x[x > g / 40].sum()),
        (lambda g: a[:, x[0] > 0.5][b == g % 9], lambda g: x[:, x[0] > 0.5][groups == g % 9]),
        (lambda g: a[(b == g % 9) & (a[:, 0] > 0.1), 1], lambda g: x[
            (groups == g % 9) & (x[:, 0] > 0.1), 1]),
        (lambda g: a[(r + g) % 60], lambda g: x[(rows + g) % 60]),
        (lambda g: a[(r + g) % 60, None, 1:3], lambda g: x[(rows + g) % 60, None, 1:3]),
    ]  # fmt: skip
    for g in range(40):
        for call, expected in calls:
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(np.asarray(call(g)), expected(g), rtol=1e-12)
        if g == 12:
            programs = len(made)
            assert is_deferred(a[b == g])
    assert len(made) == programs
    for _ in range(5):
        with pytest.raises(IndexError):
            a[np.array([60])]
        with pytest.raises(IndexError):
            a[b[:-1] == 3]
        np.testing.assert_array_equal(np.asarray(a[np.array([59, -1])]), x[[59, -1]])


def test_what_a_chain_reads_is_that_of_its_calls() -> None:
    x = RNG.random((2, 3))
    f = lambda a: td.sum(a * 2, axis=0)
    warmed(f, x)
    a = f(x)
    x.shape = (3, 2)
    assert a.shape == (3,) and np.asarray(a).shape == (3,)
    x[:] = 1
    np.testing.assert_array_equal(td.run(f(x)), [6, 6])


def test_steps_of_a_python_loop_are_kept() -> None:
    """What evaluations have computed on their way is computed once more, and kept."""
    u = td.use(RNG.random(5))
    expected = np.asarray(u).copy()
    for k in range(60):
        u = u * 0.5 + td.sqrt(u)
        expected = expected * 0.5 + np.sqrt(expected)
        assert float(td.sum(u)) == pytest.approx(expected.sum())
        if k > 5:
            assert u._pending is not None and u._pending[0].depth < 5
    for _ in range(100):  # nobody looks
        u = u * 0.5
    np.testing.assert_allclose(np.asarray(u), expected / 2.0**100)


def _reaction(m: Any, u: Any, v: Any) -> tuple[Any, Any]:
    def spread(a: Any) -> Any:
        return m.roll(a, 1, 0) + m.roll(a, -1, 0) + m.roll(a, 1, 1) + m.roll(a, -1, 1) - 4 * a

    both = u * v * v
    return u + 0.16 * spread(u) - both + 0.035 * (1 - u), v + 0.08 * spread(v) + both - 0.1 * v


@pytest.mark.parametrize("every", [1, 3, 10])
def test_a_loop_of_pythons_runs_the_same_programs_again(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom its state is looked at."""
    made = []
    execute = Program.execute
    monkeypatch.setattr(Program, "execute", lambda p, *a: made.append(p) or execute(p, *a))
    p, q = np.ones((5, 6)), RNG.random((5, 6)) * 0.1
    u, v = td.use(p), td.use(q)
    for k in range(60):
        u, v = _reaction(td, u, v)
        p, q = _reaction(np, p, q)
        if k % every == every - 1:
            np.testing.assert_allclose(float(td.max(v)), q.max(), rtol=1e-12)
        if k == 29:
            programs = len({id(program) for program in made})
        if k > 30:
            assert u._pending is not None and u._pending[0].depth < 20
    assert len({id(program) for program in made}) == programs
    np.testing.assert_allclose(np.asarray(u), p, rtol=1e-12)


LONG_BODY = "def step(m, u, v):\n" + "".join(
    f"    w = m.sin(u) * {k + 1}.5 + v\n"
    f"    v = (v - w) * 0.25 + m.{'roll(u, 1, axis=0)' if k % 3 else 'flip(u, axis=0)'}\n"
    "    u = u * 0.75 + w * 0.125\n"
    for k in range(7)
) + "    return u, v\n"  # fmt: skip


@pytest.mark.parametrize("operation", ["map", "grad"])
def test_functions_of_deferred_calls_keep_what_they_referred_to(operation):
    """What is evaluated later, or as a part of a chain, is what was written."""
    x, want, weight = td.array(np.ones(3)), np.ones(3), 0.0
    grad = td.grad(lambda x: td.sum(x * x) * weight)
    for step in range(60):
        weight = (1.0, 2.0)[step % 2]
        if operation == "grad":
            x, want = x - 0.01 * grad(x), want - 0.02 * weight * want
        else:
            x = td.map(lambda v: v * (0.8 + 0.1 * weight) + 0.01, x)
            want = want * (0.8 + 0.1 * weight) + 0.01
    np.testing.assert_allclose(x, want, rtol=1e-12)
    numbers = []
    for weight in (1.0, 2.0) * 3:  # noqa: B007
        numbers.append(grad(np.ones(3)))
    weight = 50.0
    np.testing.assert_allclose(td.map(lambda a: a * 1.0, numbers[-1]), np.full(3, 4.0))


def test_views_that_begin_at_the_same_place():
    """An element, backwards and forwards; a row and a column of one."""
    a = np.arange(7.0, 8.0)[::1]
    square = np.arange(4.0).reshape(2, 2)
    for x, y in (
        (a, a[::-1]),
        (square[0], square[:, 0]),
        (square, square.T),
        (a, a.view(np.int64)),
    ):
        for _ in range(4):
            np.testing.assert_array_equal(td.where(td.use(x) == x, td.use(x) * 2, y), x * 2)
            np.testing.assert_array_equal(td.use(x) * 3 - td.use(y), x * 3 - y)


def test_functions_of_objects_are_not_known_by_their_names():
    state = [1.0]
    times = np.frompyfunc(lambda v: v * state[0], 1, 1)
    grad = td.grad(lambda x: td.sum(x * float(times(1.0))))
    for state[0] in (1.0, 1.0, 1.0, 2.0):
        np.testing.assert_array_equal(grad(np.ones(2)), np.full(2, state[0]))


@pytest.mark.parametrize("alone", [False, True])
def test_the_body_of_a_loop_may_be_long(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains longer than the longest that has a program are cut at the same lines in each
    iteration, with all arrays that belong to them; calls that are not cached are parts of them."""
    made = []
    execute, compute = Program.execute, deferred._compute
    monkeypatch.setattr(Program, "execute", lambda p, *a: made.append(p) or execute(p, *a))
    cuts: list[int] = []
    monkeypatch.setattr(deferred, "_compute", lambda c: cuts.append(len(c)) or compute(c))
    named: dict[str, Any] = {}
    exec(compile(LONG_BODY, "a long body", "exec"), named)
    p, q = RNG.random((2, 40))
    u, v, table = td.use(p), td.use(q), [1.0]
    for k in range(30):
        u, v = named["step"](td, u, v)
        p, q = named["step"](np, p, q)
        if alone:  # a function of what can change
            u = td.map(lambda x: x * table[0], u)
        if k == 14:
            programs = len({id(program) for program in made})
            cuts.clear()
        assert u._pending is None or u._pending.call.depth <= deferred.MOST_DEEP
    assert 15 <= len(cuts) <= 15 * 8 and max(cuts) > 1
    assert len({id(program) for program in made}) <= programs + 1
    np.testing.assert_allclose(np.asarray(u), p, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(v), q, rtol=1e-12)


def test_arrays_that_nobody_needs_are_not_computed_at_cuts() -> None:
    x = td.use(RNG.random(5))
    other = td.use(RNG.random(5))
    for _ in range(3):
        a = x * 3
        apart, wide = other * 2, td.replicate(a, 1 << 30, axis=0)
        for _ in range(40):
            a = a * 0.5 + 1
        apart_call, wide_call = apart._pending, wide._pending
        assert apart_call is not None and apart_call.call.values is None
        assert wide_call is not None and wide_call.call.values is None  # (40 GB)
        assert a._pending is not None and a._pending.call.depth < 20


def test_what_is_too_large_to_keep_is_not_computed_at_cuts(tmp_path: Path) -> None:
    """Nor data in parts."""
    a = td.replicate(td.use(RNG.random(5)), 1 << 30, axis=0)  # (40 GB)
    shown = [2.0]
    for k in range(1100):  # more than Python's calls inside each other
        a = a * 0.5 + 1 if k % 50 else td.map(lambda x: x * shown[0], a)
    assert a._pending is None or a._pending.call.values is None
    dask = pytest.importorskip("dask.array")
    computed: list[int] = []
    parts = dask.ones((6, 4), chunks=(3, 4)).map_blocks(lambda b: computed.append(1) or b)
    computed.clear()
    b = td.use(parts)
    for _ in range(40):
        b = b * 0.5 + 1
    assert not computed
    np.testing.assert_allclose(np.asarray(b), 2.0)


def test_what_calls_read_is_that_of_then() -> None:
    """A list may be changed, and an index read, before the value is needed."""
    for _ in range(5):
        parts = [td.use(np.arange(3.0)) * 2, td.use(np.ones(3)) * 2]
        both = td.stack(parts)
        parts[0] = parts[1]
        np.testing.assert_array_equal(np.asarray(both), [[0, 2, 4], [2, 2, 2]])
    for _ in range(5):
        plain = [np.arange(3.0), np.ones(3)]
        both = td.stack(plain)
        plain[0] = plain[1]
        np.testing.assert_array_equal(np.asarray(both), [[0, 1, 2], [1, 1, 1]])


def test_a_chain_without_a_loop_is_one_program() -> None:
    x = td.use(RNG.random(5))

    def chain(a: Any) -> Any:
        a = td.sin(a * 2 + 1) * 3 - 1
        a = td.cos(a * 2 + 1) * 3 - 1
        return td.sqrt(a * a + 1) + 2

    warmed(chain, x)
    found = chain(x)
    assert is_deferred(found) and found._pending[0].depth > 10
    sums = [found]
    for k in range(6):  # short loops of sums, too
        sums.append(sums[-1] + td.roll(x, k))
    assert sums[-1]._pending is None or sums[-1]._pending[0].values is None


def test_an_error_in_a_chain_names_its_own_line() -> None:
    good, bad = np.array([0.0, 1.0]), np.array([0.0, np.nan])
    f = lambda x: td.histogram(td.use(x) * 2, bins=2)[0]  # this one
    for _ in range(4):
        td.run(f(good) + 1)
    with pytest.raises(td.TreadleError, match=r"# this one"):
        td.run(f(bad) + 1)


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


SCALE = 2.0
TABLE = [1.0, 2.0]


def _twice(x: Any) -> Any:
    return SCALE * x


def called(make: Any, times: int = 4) -> Any:
    """The last of some calls."""
    for _ in range(times - 1):
        np.asarray(make())
    return make()


def test_functions_are_known_by_their_code() -> None:
    """A function that is written again in each call is the same one."""
    x, y = td.use(RNG.random((2, 30)))
    for make in (
        lambda: td.stencil(lambda w: w[-1] + 2 * w[1], x),
        lambda: td.map(lambda a: td.where(a > 0.5, np.sqrt(a), math.pi), x),
        lambda: td.map(_twice, x),
        lambda: td.fold(lambda a, b: a * b, 1.0, x),
        lambda: td.iterate(3, lambda u: td.map(lambda v: v * 0.5, u) + 1, x),
        lambda: td.iterate(3, lambda u: u * y + y.shape[0], x),
    ):
        expected = np.asarray(make())
        found = called(make)
        assert is_deferred(found) and np.asarray(found).tobytes() == expected.tobytes()


def test_what_functions_refer_to_is_that_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of closures, defaults and modules, and functions that functions call."""
    data = np.arange(4.0)
    x = td.use(data)

    def shifted(k: float) -> Any:
        def inner(a: Any, unused: float = k) -> Any:
            return _twice(a) + k

        return td.map(inner, x)

    assert is_deferred(called(lambda: shifted(1.0)))
    for k in (1.0, 3.0, -0.0, 1):
        assert np.asarray(shifted(k)).tolist() == (2 * data + k).tolist()
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert np.asarray(shifted(1.0)).tolist() == (5 * data + 1).tolist()
    monkeypatch.setitem(globals(), "_twice", lambda a: -a)
    assert np.asarray(shifted(1.0)).tolist() == (1 - data).tolist()


def test_functions_of_what_can_change_are_traced_in_each_call() -> None:
    """Lists, objects, and functions that change something or that draw numbers."""
    x, calls = td.use(np.arange(4.0)), []
    count = 0

    class Config:
        k = 2.0

    def counting(a: Any) -> Any:
        nonlocal count
        count += 1
        return a

    def printing(a: Any) -> Any:
        print(a, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        return a

    def importing(a: Any) -> Any:
        import time

        return a + time.time()

    for function in (
        lambda a: a * Config.k,
        lambda a: a + (calls.append(1) or 0),
        lambda a: a + np.random.random(),
        lambda a: a + random.random(),
        counting,
        printing,
        importing,
    ):
        assert key_of(function) is None
        assert not is_deferred(called(lambda function=function: td.map(function, x)))
    assert len(calls) >= 4 and count >= 4
    for k in (7.0, 8.0, 7.0, 7.0, 7.0, 9.0):
        TABLE[0] = k
        assert np.asarray(td.map(lambda a: a + TABLE[0], x))[0] == k


def test_parts_that_are_changed_are_cached() -> None:
    data = RNG.random((4, 5))
    x, row = td.use(data), td.use(np.arange(5.0))
    for make, expected in (
        (lambda: x.at[1].set(row), [np.r_[data[:1], [np.arange(5.0)], data[2:]]]),
        (lambda: x.at[1:3, ::2].add(2.0), [data + np.outer([0, 1, 1, 0], [2.0, 0, 2.0, 0, 2.0])]),
        (lambda: x.at[0].max(0.5), [np.r_[np.maximum(data[:1], 0.5), data[1:]]]),
    ):
        found = called(make)
        assert is_deferred(found) and np.array_equal(np.asarray(found), expected[0])
    assert is_deferred(called(lambda: td.update(x, (0, slice(None)), 1.0)))


def test_several_results_of_one_program() -> None:
    """`td.run(a, b)` of deferred arrays is a cached call, too."""
    x = td.use(RNG.random(50))
    for _ in range(5):
        both = x * 2
        first, second, third = td.run(both + 1, both - 1, both + 1)
        listed = td.run([x - 1.0, td.sum(x)])
    assert np.array_equal(first, 2 * np.asarray(x) + 1) and first is not third
    assert np.array_equal(second, 2 * np.asarray(x) - 1) and np.array_equal(first, third)
    assert isinstance(listed, list) and listed[1] == np.asarray(td.sum(x))
    first[0] = 7.0  # of nobody else
    assert third[0] != 7.0 and td.run(both + 1, x)[0][0] != 7.0
    assert td.run([]) == [] and td.run(()) == ()


def test_parts_of_equal_extents_run_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _programs_made(monkeypatch)
    x = np.arange(420.0).reshape(60, 7)
    ends = list(range(4, 60, 4))
    for split, wanted in (
        (lambda a: td.split(a, 30), np.split(x, 30)),
        (lambda a: td.array_split(a, 28), np.array_split(x, 28)),
        (lambda a: td.split(a, ends), np.split(x, ends)),
        (td.unstack, list(x)),
    ):
        for given in (x, td.use(x)):
            before = len(made)
            for part, want in zip(split(given), wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(td.sum(part, axis=0)), want.sum(axis=0))
            assert len(made) - before < 12


def test_small_parts_of_data_are_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of data, or a part of rows, is no program of its own; what reads it is one."""
    made = _programs_made(monkeypatch)
    x = RNG.random((40, 30))
    a = td.use(x)
    for index in (3, -1, (2, 5), (2, slice(3, 9)), slice(4, 9), slice(-3, None), slice(9, 4)):
        part = a[index]
        assert np.shares_memory(np.asarray(part), x) or not part.size
        np.testing.assert_array_equal(np.asarray(part), x[index])
        assert not np.asarray(part).flags.writeable
    assert not made
    for k in range(40):
        assert float(td.sum(a[k] * 2)) == pytest.approx(2 * x[k].sum())
    assert len(made) < 6
    for index in (slice(1, None), slice(None, None, 2), (slice(None), 3), (..., 0)):
        assert not np.shares_memory(np.asarray(a[index]), x)
        np.testing.assert_array_equal(np.asarray(a[index]), x[index])
    x[3] = 7.0  # data is read when a program runs
    row = a[3]
    x[3] = 8.0
    assert float(td.sum(row)) == 240.0
    with pytest.raises(td.IndexOutOfBounds, match="40"):
        np.asarray(a[40])


def test_derivatives_are_cached_where_functions_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = RNG.random((20, 3)), RNG.random(20)
    tx, ty = td.use(x), td.use(y)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return td.sum((x @ w - y) ** 2)

    w, expected = td.use(np.ones(3)), np.ones(3)
    for _ in range(6):
        slope = td.grad(loss)(w, tx, ty)
        value, same = td.value_and_grad(loss)(w, tx, ty)
        np.testing.assert_allclose(slope, 2 * x.T @ (x @ expected - y))
        np.testing.assert_array_equal(np.asarray(slope), np.asarray(same))
        np.testing.assert_allclose(float(value), ((x @ expected - y) ** 2).sum())
        w, expected = w - 0.01 * slope, expected - 0.01 * np.asarray(slope)
    assert is_deferred(slope) and is_deferred(value)

    def of_symbols(v: Any) -> Any:
        """They and what is made of them have no values, however it is called."""
        table = [2.0]
        for a in v * 2, td.map(lambda i: v[i] * table[0], td.iota(3)), td.stack([v, v]):
            assert a._pending is None and not a._is_closed() and repr(a).startswith("<Array (")
        return td.sum(v * table[0])

    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(td.grad(of_symbols)(w)), [2.0] * 3)

    factors, scale = [1.0], 1.0
    for k in range(5):  # never those of an earlier call
        factors[0] = scale = float(k)
        for f in lambda a: td.sum(a * factors[0]), lambda a: td.sum(a * scale):
            np.testing.assert_array_equal(np.asarray(td.grad(f)(w)), [k] * 3)

    seen = []

    def of_numpys(w: Any, x: Any) -> Any:
        seen.append(type(x))
        return td.sum(w * (1.0 if x.max() > 1 else 2.0)) + x.astype(int).flatten().sum()

    for k in range(5):
        host = np.full(2, float(k))
        assert td.grad(of_numpys)(w, host)[0].item() == (1 if k > 1 else 2)
    assert set(seen) == {np.ndarray}


def test_products_with_jacobians_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and functions of `vjp`, values and derivatives of `jvp`."""
    traced = [0]

    def counted(made: Any) -> Any:
        def differentiated(*args: Any) -> Any:
            traced[0] += 1
            return made(*args)

        return differentiated

    monkeypatch.setattr(gradients, "_vjp", counted(gradients._vjp))
    monkeypatch.setattr(gradients, "_jvp", counted(gradients._jvp))

    def f(x: Any, scale: Any = 2.0) -> Any:
        return td.sin(x) * scale

    host = np.linspace(0, 1, 20)
    for k in range(6):
        x, bar = td.use(host + k), td.use(host * k)
        y, back = td.vjp(f, x)
        dx = back(bar)
        value, along = td.jvp(f, (x,), (bar,))
        np.testing.assert_allclose(dx, 2 * np.cos(host + k) * host * k)
        np.testing.assert_allclose(along, 2 * np.cos(host + k) * host * k)
        np.testing.assert_array_equal(np.asarray(y), np.asarray(value))
        if k == 3:
            before = traced[0]
    assert traced[0] == before and all(map(is_deferred, (y, dx, value)))

    def several(x: Any) -> Any:
        return {"sum": td.sum(x), "rest": (x * 2, x[0])}

    for k in range(4):
        x = td.use(host + k)
        _, slope = td.vjp(f, x, 2.0)[1](x)
        np.testing.assert_allclose(float(slope), np.sum(np.sin(host + k) * (host + k)))
        y, back, aux = td.vjp(lambda x: (several(x), x.shape), x, has_aux=True)
        assert sorted(y) == ["rest", "sum"] and len(aux) == 1
        dx = back({"sum": 1.0, "rest": (None, 3.0)})
        np.testing.assert_array_equal(dx, [4.0] + [1.0] * 19)
        value, along = td.jvp(several, (x,), (td.use(host),))
        np.testing.assert_allclose(float(along["sum"]), host.sum())
        np.testing.assert_allclose(along["rest"][0], 2 * host)
        with pytest.raises(td.ShapeError):
            td.vjp(td.sin, x)[1](td.use(np.ones((2, 2))))
        with pytest.raises(td.DTypeError):
            td.jvp(td.sin, (td.use(np.arange(3)),), (td.use(np.ones(3)),))


def test_loops_whose_bodies_read_results_of_loops():
    """A chain of them is looked through once, not once for every way through it."""
    u0, found, wanted = np.linspace(0, 1, 20), td.use(0.4), 0.4
    for _ in range(24):
        step = found
        v = td.iterate(3, lambda u: u - step * (u - td.roll(u, 1)), u0)
        found = found - 0.1 * td.mean((v - 0.3) ** 2)
        w = u0
        for _ in range(3):
            w = w - wanted * (w - np.roll(w, 1))
        wanted -= 0.1 * np.mean((w - 0.3) ** 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
