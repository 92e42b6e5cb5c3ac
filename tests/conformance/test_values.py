"""Arrays are values: outside of traced functions they compute themselves, once (docs/guide.md)."""

from __future__ import annotations

import copy
import gc
import inspect
import json
import pickle
import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td
from treadle.driver import expressions as eager
from treadle.dsl.frontend import held

from .helpers import AT_ONCE, DTYPES, assert_same, dt, not_in_parts, small, to_host


class Point(NamedTuple):
    x: float
    y: int


@pytest.fixture(autouse=True)
def here(backend):
    with td.config(backend=backend):
        yield


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_takes_them(name):
    a = small(name, (3, 4))
    x = td.use(a)[:, ::2]
    assert_same(np.asarray(x), a[:, ::2])
    assert np.asarray(x, dtype="c16").dtype == "c16"
    assert np.array(x).flags.writeable
    assert not np.asarray(x).flags.writeable
    assert x.tolist() == a[:, ::2].tolist()
    assert x.item(1, 0) == a[1, 0].item()
    assert np.asarray(x).dtype == dt(name)


def test_numbers():
    total = td.sum(np.arange(5))
    assert (int(total), float(total), complex(total), total.item()) == (10, 10.0, 10 + 0j, 10)
    assert f"{total / 4:.2f} {total}" == "2.50 10"
    assert range(20)[total] == 10
    assert bool(total > 3) and not bool(total < 3)
    assert float(td.sum(np.ones(3, "f2"))) == 3.0
    with pytest.raises(td.DTypeError, match="needs an integer"):
        range(20)[total / 2]
    for convert in (int, float, complex, bool, "{:.2f}".format):
        with pytest.raises(td.ShapeError, match=r"one number, but the array has the shape \(3,\)"):
            convert(td.iota(3))


def test_a_scalar_that_is_known_has_an_item():
    for root in (td.sqrt(144.0), td.the(td.sum(np.full(3, 4.0)))):
        assert isinstance(root, td.Scalar) and type(root.item()) is float and root.item() == 12
    with pytest.raises(td.TracingError, match=r"item\(\) needs the value of a traced scalar"):
        td.map(lambda x: x.item(), np.ones(2))


def test_how_they_are_shown():
    a = np.arange(6.0).reshape(2, 3)
    assert repr(td.use(a) * 2) == "Array([[ 0.,  2.,  4.],\n       [ 6.,  8., 10.]])"
    assert str(td.use(a) * 2) == str(a * 2)
    assert repr(td.zeros((2,), td.float32)) == "Array([0., 0.], dtype=float32)"
    assert repr(td.iota(10_000)).count("\n") == 0 and "..." in repr(td.iota(10_000))
    assert repr(td.sum(a)) == "Array(15.)"
    assert repr(td.zip(td.iota(2), td.iota(2))) == "Array((array([0, 1]), array([0, 1])))"


def test_containers():
    a = np.arange(6).reshape(3, 2)
    x = td.use(a) + 0
    assert len(x) == 3 and [np.asarray(row).tolist() for row in x] == a.tolist()
    assert [int(v) for v in td.iota(3)] == [0, 1, 2]
    kept = td.filter(lambda v: v > 1, td.use(a[:, 0]))[0]
    assert len(kept) == 2 and list(map(int, kept)) == [2, 4]
    assert 4 in x and 7 not in x
    first, second = td.use(a[0]) * 2
    assert (int(first), int(second)) == (0, 2)
    pairs = list(td.zip(td.iota(2), td.iota(2) * 0.5))
    assert [float(td.sum(td.map(lambda p: p[0] + p[1], p))) for p in pairs] == [0.0, 1.5]


def test_pickle_and_copy():
    x = td.iota(4) * 2
    again = pickle.loads(pickle.dumps(x))
    assert_same(np.asarray(again), np.arange(4) * 2)
    points = td.map(lambda k: Point(k * 0.5, k), td.iota(3))
    again = pickle.loads(pickle.dumps(points))
    got = td.run(again)
    assert type(got) is Point
    assert_same(tuple(map(to_host, got)), (np.arange(3) * 0.5, np.arange(3)))
    assert copy.copy(x) is x and copy.deepcopy(x) is x


def test_dlpack():
    x = td.use(np.arange(6.0)) + 1
    if hasattr(x, "__cuda_array_interface__"):
        pytest.skip("its values are on the GPU")
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(6.0) + 1)
    assert x.__dlpack_device__() == (1, 0)
    assert not np.from_dlpack(x).flags.writeable  # arrays never change


def test_an_array_on_the_host_has_no_gpu_interface(backend):
    if backend == "cuda":
        pytest.skip("its values may be on the GPU")
    assert not hasattr(td.iota(3), "__cuda_array_interface__")


def test_functions_of_numpy_that_treadle_lacks():
    a = np.arange(4.0).reshape(2, 2) + np.eye(2)
    x = td.use(a) + 0
    np.testing.assert_allclose(np.linalg.inv(x), np.linalg.inv(a))
    np.testing.assert_array_equal(np.add.reduce(x), a.sum(0))
    np.testing.assert_array_equal(np.vstack([x, a]), np.vstack([a, a]))
    out = np.zeros((2, 2))
    np.add(x, 1, out=out)
    np.testing.assert_array_equal(out, a + 1)
    assert isinstance(np.sum(x), td.Array)


@not_in_parts(AT_ONCE, emulated=True)
def test_a_value_is_computed_once_and_kept():
    a = np.arange(4.0)
    x = td.use(a) + 1
    first = np.asarray(x)
    a[:] = 100
    assert np.shares_memory(np.asarray(x), first)  # nothing ran again
    assert_same(np.asarray(x * 2), np.array([2.0, 4.0, 6.0, 8.0]))  # what is built later reads it
    assert_same(np.asarray(td.use(a) + 1), np.full(4, 101.0))  # a new expression reads the data


def test_data_that_was_given_is_its_own_value():
    a = np.arange(4.0)
    assert np.shares_memory(np.asarray(td.use(a)), a)
    assert not np.asarray(td.use(a)).flags.writeable and a.flags.writeable


def test_while_a_function_is_traced_they_have_no_value():
    closed, seen = td.iota(3) * 2, []
    asked = (
        float, int, bool, complex, np.asarray, np.linalg.cond, pickle.dumps, "{:.1f}".format,
        lambda a: a.item(), lambda a: a.tolist(), lambda a: range(3)[a], lambda a: 3 in a,
        lambda a: np.from_dlpack(a),
    )  # fmt: skip

    def program(v):
        for a in (v, closed, td.sum(closed), td.sum(v)):
            for ask in asked:
                with pytest.raises(td.TracingError):
                    ask(a)
        seen.extend((repr(closed), repr(v)))
        return v + closed

    assert_same(to_host(td.jit(program)(np.ones(3))), np.array([1.0, 3.0, 5.0]))
    assert seen[0].startswith("<Array (3,) of int64") and seen[1].startswith("<Array (?,)")

    def body(k, s):
        with pytest.raises(td.TracingError):
            float(td.sum(closed))
        return s + k

    assert int(td.loop(3, body, td.unit(td.int64(0)))) == 3
    total = td.sum(closed)
    with pytest.raises(td.TracingError):
        td.map(lambda v: v + float(total), np.ones(3))
    assert float(td.sum(closed)) == 6.0  # and after it they have


def test_what_left_its_function_has_no_value():
    kept = []
    td.jit(lambda a: (kept.append(a * 2), a)[1])(np.ones(3))
    with pytest.raises(td.TracingError, match="a function whose call has ended"):
        float(td.sum(kept[0]))


def test_arguments_of_compiled_functions():
    f = td.jit(lambda a: a["x"] + td.sum(a["y"]))
    got = f({"x": td.iota(3) * 1.0, "y": np.ones(2)})
    assert isinstance(got, td.Array)  # as an array of treadle among the arguments makes them
    assert_same(np.asarray(got), np.arange(3.0) + 2)
    g = td.jit(lambda a: td.map(lambda p: p[0] + p[1], a[0]))
    assert_same(np.asarray(g([td.zip(td.iota(3), td.iota(3))])), np.arange(3) * 2)


def test_one_program_serves_other_data(backend, monkeypatch):
    monkeypatch.setattr(eager, "_programs", eager.Programs())  # an empty one: nothing is dropped

    def value(a, k):
        return float(td.sum(td.use(a) * 2 + td.use(a)[0])) + float(td.max(td.use(a)[k:]))

    want = [float((a * 2 + a[0]).sum() + a[1:].max()) for a in (np.arange(5.0), np.ones(9) * 3)]
    assert [value(np.arange(5.0), 1), value(np.ones(9) * 3, 1)] == want
    made = len(eager._programs)
    assert made == 2
    assert value(np.arange(7.0), 1) == (np.arange(7.0) * 2).sum() + 6
    assert len(eager._programs) == made


def _asked(monkeypatch, backend):
    """The programs that are made from now on: how many there are."""
    monkeypatch.setattr(eager, "_programs", eager.Programs())
    return eager._programs


@pytest.mark.parametrize(
    "build",
    [
        lambda a: td.sum(a * 2),
        lambda a: {"x": [td.cumsum(a), None], "y": td.max(a)},
        lambda a: td.iterate(3, lambda s: td.stencil(lambda w: w[1] + w[-1], s), a),
        lambda a: td.loop(2, lambda k, s: (s[0] + k, s[1] * td.sum(s[0])), (a, 1.0)),
        lambda a: td.while_loop(lambda s: s.shape[0] > 2, lambda s: s[1:] + s[:-1], a),
        lambda a: td.iterate(2, lambda s: td.iterate(3, lambda t: t + s, s) - s, a),
        lambda a: td.scan(lambda c, row: (c + row, c), 0.0, a),
        lambda a: td.sort(a)[1:],
    ],
)
def test_run_uses_the_program_of_an_equal_expression(build, backend, monkeypatch):
    made = _asked(monkeypatch, backend)
    first, other = np.arange(5.0), np.array([3.0, 1.0, 2.0, 7.0])
    for a in (first, other, first):
        got = td.run(build(td.use(a)))
        want = td.run(build(td.use(a)), backend="reference")
        assert repr(got) == repr(want)
    assert sum(key[1] == backend for key in made) == 1


def test_results_have_the_structure_of_their_own_expression(backend):
    a = np.arange(3)
    for k in (True, 1, 1.0):
        (found,) = td.run({k: td.use(a) + 5})
        assert type(found) is type(k)
    assert type(td.run(Point(td.use(a) + 5, td.sum(a)))) is Point
    assert type(td.run((td.use(a) + 5, td.sum(a)))) is tuple


def test_errors_of_equal_expressions_name_their_own_lines(backend):
    def add(a, b):
        return td.filter(lambda v: v > 0, a)[0] + b

    def subtracted(a, b):
        return td.filter(lambda v: v > 0, a)[0] + b  # the same, in another line

    a, b = np.array([1.0, -1.0]), np.ones(2)
    lines = []
    for build in (add, subtracted, add):
        with pytest.raises(td.ShapeError) as caught:
            td.run(build(a, b))
        lines.append(caught.value.where.line)
    assert lines[1] == lines[0] + 3 and lines[0] == lines[2]


@pytest.mark.parametrize("look", [lambda u: float(td.sum(u)), lambda u: np.asarray(u[1:]), td.max])
def test_a_loop_of_pythons_computes_no_step_again_and_again(look, backend, monkeypatch):
    def step(u):
        around = td.stencil(lambda w: w[1] + w[-1], u, boundary=td.wrap)
        return around * 0.5 + 1

    made = _asked(monkeypatch, backend)
    given = np.arange(6.0)
    u, want = td.use(given), given
    for k in range(9):
        u = step(u)
        want = (np.roll(want, 1) + np.roll(want, -1)) * 0.5 + 1
        np.testing.assert_allclose(np.asarray(look(td.use(want))), np.asarray(look(u)))
        if k == 3:
            programs = len(made)
    assert len(made) == programs  # of one step and of two


def test_what_is_computed_twice_is_kept_by_arrays_that_are_held():
    a = np.arange(4.0)
    x = td.use(a) + 1
    assert float(td.sum(x)) == 10
    assert x._leaves[0].node.label.operation == "add"  # nothing is kept at first
    assert float(td.max(x)) == 4
    a[:] = 0
    assert float(td.max(x)) == 4 and not np.any(a)
    again = td.use(a) + 1  # a new expression reads the data
    assert float(td.max(again)) == 1
    pairs = td.zip(td.iota(3), td.iota(3) * 2.0)
    for _ in range(3):
        first, second = td.unzip(td.map(lambda p: (p[0] + 1, p[1]), pairs))
        assert (int(td.sum(first)), float(td.sum(second))) == (6, 6.0)


@pytest.mark.parametrize("look", [lambda a: a, lambda a: td.sum(a)], ids=["it", "its sum"])
def test_looking_at_one_of_two_arrays_costs_one_step(look, monkeypatch, backend):
    """The other array's chain does not grow: it is computed along once it shares enough."""
    made = _asked(monkeypatch, backend)
    u, v = td.use(np.arange(6.0)), td.use(np.ones(6))
    p, q = np.arange(6.0), np.ones(6)
    for k in range(90):
        u, v = u * 0.5 + td.roll(v, 1), v * 0.25 + td.roll(u, -1) * 0.5
        p, q = p * 0.5 + np.roll(q, 1), q * 0.25 + np.roll(p, -1) * 0.5
        np.testing.assert_allclose(np.asarray(look(u)), np.asarray(look(td.use(p))))
        if k == 60:
            programs = len(made)
    assert len(made) == programs
    np.testing.assert_allclose(v, q)


def test_an_array_that_is_computed_along_raises_its_error_where_it_is_looked_at():
    u = td.use(np.arange(6))
    for _ in range(6):
        w = u * 2 + 1
        u, bad = w + 1, td.filter(lambda x: x >= 0, w)[0] + np.ones(4)
        assert int(td.sum(u)) > 0 and int(td.max(u)) > 0
    with pytest.raises(td.ShapeError):
        np.asarray(bad)


def test_an_equal_expression_reads_data_that_has_changed():
    frame = np.zeros(3)
    for k in range(5):
        frame[:] = k
        last = td.use(frame) * 2  # while the last one is alive
        assert float(td.sum(last)) == 6 * k and float(td.max(last)) == 2 * k


def test_what_is_larger_than_what_it_is_computed_from_is_not_kept(monkeypatch):
    monkeypatch.setattr(held, "MOST_KEPT", 1000)
    x = td.use(np.arange(20.0))
    away = x[:, None] - x[None, :]
    for _ in range(3):
        assert float(td.max(away)) == 19
    assert not hasattr(away._leaves[0].node, "source")
    inside = td.iterate(2, lambda s: s + away[0], x)
    for _ in range(3):
        assert float(td.sum(inside)) == float(np.arange(20.0).sum()) * -1


def test_threads_get_the_same_value():
    x = td.cumsum(td.iota(1000) ** 2)
    found = []
    threads = [threading.Thread(target=lambda: found.append(np.asarray(x))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8 and all(np.shares_memory(found[0], other) for other in found)


def test_no_more_is_held_than_the_user_holds():
    a = np.ones(1000)
    given = weakref.ref(a)
    x = td.use(a) * 2
    total = float(td.sum(x))
    del a
    np.asarray(x)
    gc.collect()
    assert given() is None and total == 2000.0  # the value replaces the expression
    value = weakref.ref(x._leaves[0].node.source)
    y = x + 1
    del x
    gc.collect()
    assert value() is not None  # y reads it
    del y
    gc.collect()
    assert value() is None


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "build",
    [
        lambda u: td.zeros(u.shape) + 1,  # the extents alone
        lambda u: td.generate(3, lambda i: i * u.shape[0]),
        lambda u: td.generate(3, lambda i: u[i]),
        lambda u: td.fold1(lambda x, y: x + y + u[0], td.iota(4) * 1.0),
        lambda u: td.stencil(lambda w: w[1] * u[0], u),
        lambda u: td.iterate(3, lambda s: s * 0.5, u),
        lambda u: td.iterate(100, lambda s: td.stencil(lambda w: w[1] + w[-1], s) * 0.5, u),
        lambda u: td.while_loop(lambda s: td.sum(s) < 1e9, lambda s: s * 2 + u, u),
        lambda u: td.filter(lambda x: x > 0, u)[0],
        lambda u: td.sort(u),
        lambda u: td.map(lambda x, y: x + y, u, u),
    ],
)
def test_the_programs_that_are_kept_hold_no_data(build):
    a = np.ones(1000)
    given = weakref.ref(a)
    x = build(td.use(a))
    np.asarray(x)
    del x, a
    gc.collect()
    assert given() is None


def test_the_programs_that_are_kept_hold_no_function_of_the_user(backend):
    weights = np.ones(10)
    held = weakref.ref(weights)

    def closure(weights):
        return lambda a: a + weights[0]

    x = td.foreign_array({backend: closure(weights)}, np.ones(3), fallback=lambda a: a + 1)
    assert np.asarray(x).tolist() == [2.0, 2.0, 2.0]
    del x, weights
    gc.collect()
    assert held() is None


def test_extents_of_values_are_numbers():
    """What is computed of the extents of arrays outside of tracing: bool(), float(), NumPy."""
    y = td.sum(td.use(np.ones((3, 4))), axis=0)
    n = y.shape[0]
    assert n - 1 > 2 and not n < 4
    assert float(n / 8) == 0.5 and int(n * 2) == 8 and list(range(n - 2)) == [0, 1]
    assert np.arange(y.shape[0], dtype=float).tolist() == [0, 1, 2, 3]
    assert np.asarray(n).tolist() == 4

    @td.jit
    def f(a):
        return a if a.shape[0] - 1 > 2 else a + 1

    with pytest.raises(td.TracingError, match="Extents are run-time values"):
        f(np.ones(4))


def test_compiled_functions_take_the_values_of_arrays(backend):
    """Outside of traced functions a treadle array is data, for compiled functions as well: there
    is one program for all calls, and the results are treadle arrays."""
    traces = []

    @td.jit(backend=backend)
    def scaled(x, n):
        traces.append(x)
        return {"all": x * n, "two": (td.zip(x, x), x[n.astype(int)])}

    for n in range(3):
        found = scaled(td.iota(4) + 1.5, td.the(td.sum(td.fill(n, 1.0))))
    assert len(traces) == 1
    assert isinstance(found["all"], td.Array) and found["all"].tolist() == [3.0, 5.0, 7.0, 9.0]
    pairs, one = found["two"]
    assert pairs.structure.count == 2 and float(one) == 3.5
    np.testing.assert_array_equal(np.asarray(td.sum(scaled(np.ones(2), 1.0)["all"])), 2.0)


def test_compiled_functions_are_a_part_of_what_is_traced(backend):
    twice = td.jit(lambda x: x * 2.0, backend=backend)
    x = td.use(np.ones(3))
    assert np.array_equal(td.run(td.grad(lambda v: td.sum(twice(v) * v))(x)), [4, 4, 4])
    assert np.array_equal(td.run(td.jvp(twice, (x,), (x,))[1]), [2, 2, 2])
    assert np.array_equal(td.run(td.map(lambda v: twice(v), x)), [2, 2, 2])
    assert np.array_equal(td.jit(lambda v: twice(v + twice(x)))(np.ones(3)), [6, 6, 6])


def test_results_of_rank_0_as_numbers():
    data = np.array([0.5, 1.25])
    for r in (td.sum(td.use(data)), td.run(td.sum(data)), td.jit(lambda x: td.sum(x))(data)):
        assert f"{r:.1f} {r}" == "1.8 1.75" and format(r, ".3f") == "1.750"
        assert json.dumps(r.item()) == "1.75" and round(r.item(), 1) == 1.8
    assert float(round(td.sum(td.use(data)), 1)) == 1.8
    with pytest.raises(td.TracingError, match=r"a\.item\(\)"):
        hash(td.sum(td.use(data)))


def test_bytes_of_an_array():
    for a in np.arange(3), np.array(3), np.arange(6.0).reshape(2, 3)[:, ::2]:
        assert bytes(td.use(a) * 1) == a.tobytes()


def test_numbers_and_functions_are_pickled():
    for number in td.float32(0.1), td.bfloat16(1.5), td.bool(True), td.complex64(1j), td.uint64(5):
        again = pickle.loads(pickle.dumps(number))
        assert again.dtype == number.dtype and complex(again) == complex(number)
    for name in td.__all__:
        function = getattr(td, name)
        if inspect.isfunction(function) and name not in ("constant", "function"):
            assert pickle.loads(pickle.dumps(function)) is function, name
    with pytest.raises(td.TracingError, match=r"pickle needs the value of x\[0\]"):
        td.jit(lambda x: pickle.dumps(x)).lower([1.0, 2.0])
