"""Compiled functions as objects of Python's."""

from __future__ import annotations

import copy
import enum
import pickle
import subprocess
import sys

import numpy as np
import pytest

import treadle as td


@td.jit
def decorated(x):
    return x * 2


def plain(x):
    return x + 1


class Holder:
    @td.jit
    def method(x):
        return x * 3


@pytest.mark.parametrize("f", [decorated, Holder.method])
def test_decorated_functions_are_pickled_by_name(f):
    f(np.ones(2))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(f, protocol)) is f
    assert copy.deepcopy(f) is f and copy.copy(f) is f


SCRIPT = """
import pickle, sys
import cloudpickle, numpy as np, treadle as td
FACTOR = 3.0

@td.jit
def inner(x):
    return x * FACTOR

@td.jit(backend="reference")
def outer(x):
    return inner(x) + 1 if x.ndim else outer(x[None])

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(outer)) is outer
    sys.stdout.buffer.write(cloudpickle.dumps((outer, td.jit(lambda x: x - FACTOR))))
"""


def test_functions_of_a_script_are_sent_by_value(tmp_path):
    """As joblib and dask send them to processes that have another `__main__`."""
    pytest.importorskip("cloudpickle")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    made = subprocess.run([sys.executable, script], capture_output=True, check=True)
    outer, less = pickle.loads(made.stdout)
    assert outer.__qualname__ == "outer" and repr(outer) == "<treadle.jit of outer>"
    np.testing.assert_array_equal(outer(np.ones(2)), [4, 4])
    np.testing.assert_array_equal(outer(np.array(2.0)), [7])
    np.testing.assert_array_equal(less(np.ones(2)), [-2, -2])
    assert outer.lower(np.ones(2)).backend == "reference"


def test_other_compiled_functions_are_compiled_anew():
    f = td.jit(plain, backend="reference")
    f(np.ones(2))
    g = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(g(np.ones(2)), [2, 2])
    assert g.lower(np.ones(2)).backend == "reference"
    with pytest.raises(Exception, match="<lambda>"):
        pickle.dumps(td.jit(lambda x: x))


def scaled(x, axis=0, *more, scale, how="sum", **others):
    """A function with parameters of every kind."""
    total = td.sum(x, axis=axis) if how == "sum" else td.max(x, axis=axis)
    return total * scale + sum(more) - sum(others.values())


X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_arguments_by_name(backend):
    """What is given is an argument, by position or by name; what is not has its default, which is
    a constant."""
    f = td.jit(scaled, backend=backend)
    for _ in range(2):
        np.testing.assert_array_equal(f(X, scale=2.0), X.sum(0) * 2)
        np.testing.assert_array_equal(f(X, scale=X[0]), X.sum(0) * X[0])
        np.testing.assert_array_equal(f(scale=2, x=X, how="max"), X.max(0) * 2)
        np.testing.assert_array_equal(f(X, how="max", scale=2), X.max(0) * 2)
        np.testing.assert_array_equal(f(X, b=2, a=1, scale=2), X.sum(0) * 2 - 3)
        np.testing.assert_array_equal(f(X, None, 4, 5, scale=3), X.sum() * 3 + 9)
    with pytest.raises(td.TracingError, match="axis= needs the value of axis"):
        f(X, axis=1, scale=2)


def test_defaults_between_arguments_by_name_are_constants():
    f = td.jit(lambda x, axis=1, scale=1: td.sum(x, axis=axis) * scale)
    np.testing.assert_array_equal(f(X, scale=3), X.sum(1) * 3)


def test_arguments_by_name_of_compiled_functions_in_others():
    inner = td.jit(lambda x, *, scale: x * scale)
    outer = td.jit(lambda x, s: inner(x, scale=s))
    np.testing.assert_array_equal(outer(X, 3), X * 3)
    slope = td.jit(td.grad(lambda x, *, scale: td.sum(x * scale)))
    np.testing.assert_array_equal(slope(X, scale=3.0), np.full(X.shape, 3.0))


@pytest.mark.parametrize("given", [np.arange(3.0), memoryview(np.arange(3.0))], ids=type)
def test_arrays_are_arguments_of_compiled_functions_in_others(given):
    @td.jit
    def weighted(by, x):
        return td.sum(td.map(lambda a, k: a * by["weights"][k], x, td.iota(3)))

    x = np.array([3.0, 4.0, 5.0])
    inside = lambda x: weighted({"weights": given}, x)
    assert td.jit(inside)(x) == weighted({"weights": given}, x) == 14
    assert td.grad(inside)(x).tolist() == [0, 1, 2]


def test_programs_take_arguments_by_name(tmp_path):
    program = td.jit(lambda x, a, *, b: x * a + b).lower(X, b=1, a=2)
    program.save(tmp_path / "program.treadle")
    for one in (program, td.load(tmp_path / "program.treadle"), program.scheduled()):
        np.testing.assert_array_equal(one(X, 3, b=4), X * 3 + 4)
        np.testing.assert_array_equal(one(X, 3, 4), X * 3 + 4)
        np.testing.assert_array_equal(one(b=4, a=3, x=X), X * 3 + 4)
        with pytest.raises(td.TracingError, match="takes a, b after 1 values, got b, c"):
            one(X, b=4, c=3)


def test_arrays_of_treadle_in_structures():
    """They make results of treadle, and belong to the program that is traced where one is."""
    f = td.jit(lambda state, x: {"sum": state["sum"] + x, "n": state["n"] + 1})
    state = f({"sum": td.use(X), "n": 1}, X)
    assert isinstance(state["sum"], td.Array) and isinstance(state["n"], td.Array)
    np.testing.assert_array_equal(np.asarray(state["sum"]), 2 * X)
    twice = td.jit(lambda x: f(f({"sum": x, "n": 0}, x), x)["sum"])
    np.testing.assert_array_equal(twice(X), 3 * X)
    total = td.the(td.use(np.array(2.0)))  # a scalar outside of functions has a value
    np.testing.assert_array_equal(np.asarray(f({"sum": X, "n": total}, X)["n"]), 3)


class Rule(enum.Enum):
    SUM = 1
    MOST = 2


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_members_of_enumerations_are_constants(backend):
    """Each traces a program of its own, as text does; so they may be parts of a loop's state."""
    f = td.jit(lambda x, rule: td.sum(x) if rule is Rule.SUM else td.max(x), backend=backend)
    for _ in range(3):
        assert [float(f(X, rule)) for rule in (Rule.SUM, Rule.MOST)] == [15, 5]
    last = td.jit(lambda x, s: td.iterate(3, lambda s: {**s, "x": s["x"] + 1}, {**s, "x": x})["x"])
    assert last(1.0, {"rule": Rule.SUM}) == 4
