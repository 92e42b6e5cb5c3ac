"""What the user let go of goes at once, without Python's collector of cycles; what stays is what a
hundred programs leave."""

from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.backend.runtime.memory import SMALLEST, Pool
from treadle.driver import expressions
from treadle.dsl.operations.elements.foreign import compile_scalar_function

ADD = lambda x, y: x + y

#: Programs of one array that they capture.
PROGRAMS = {
    "fold": td.sum,
    "map": lambda a: td.map(lambda x: x * 2.5 + 1, a),
    "scan": lambda a: td.scanl1(ADD, a),
    "filter": lambda a: td.filter(lambda x: x > 0, a),
    "stencil": lambda a: td.stencil(lambda w: w[-1] + w[1], a),
    "convolution": lambda a: td.convolve(a, np.array([1.0, 2.0, 1.0])),
    "permute": lambda a: td.permute(ADD, a, lambda i: i, a),
    "gather": lambda a: td.map(lambda x: td.use(a)[td.int64(x)], a),
    "segments": lambda a: td.fold_seg(ADD, 0.0, a, np.array([50, 50])),
    "folds together": lambda a: td.fold(
        lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1] + td.use(a)[0])), (0.0, 0.0), td.zip(a, a)
    ),
    "rows": lambda a: td.sum(td.reshape(a, (10, 10)), axis=1),
    "measured product": lambda a: td.matmul(
        td.reshape(a, (10, 10)), td.reshape(a, (10, 10)), schedule=td.schedule.Tuned()
    ),
    "product": lambda a: td.matmul(td.reshape(a, (10, 10)), td.reshape(a, (10, 10))),
    "sorted": td.sort,
    "loop": lambda a: td.loop(3, lambda k, u: u + a, td.use(a)),
    "while": lambda a: td.while_loop(lambda s: td.the(td.sum(s)) < 500, lambda s: s + a, td.use(a)),
    "branch": lambda a: td.cond(td.sum(td.use(a)) > 0, td.use(a) + 1, td.use(a)),
    "extent": lambda a: td.fill(td.use(a).shape[0], 1.0),
    "concatenation": lambda a: td.concatenate([a, a]),
}


def goes(use) -> bool:
    """Whether an array goes with the last name of it, after `use(array)`."""
    array = np.ones(100)
    gone = weakref.ref(array)
    gc.collect()
    gc.disable()
    try:
        use(array)
        del array
        for _ in range(50):  # another thread may hold it for a moment longer, without a cycle
            if gone() is None:
                return True
            time.sleep(0.01)
        return False
    finally:
        gc.enable()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_arrays_go(name, backend):
    program = PROGRAMS[name]

    def called(program, a):
        compiled = td.jit(lambda n: (program(a), n), backend=backend)
        for n in (2.0, 2.0, 3.0):
            compiled(n)

    uses = {
        "traced": lambda program, a: program(a),
        "run": lambda program, a: td.run(program(a), backend=backend),
        "in a closure": called,
    }
    assert not [how for how, use in uses.items() if not goes(lambda a, use=use: use(program, a))]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_go(name, backend):
    """With what they have compiled and recorded."""
    compiled = td.jit(PROGRAMS[name], backend=backend)
    a = np.ones(100)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            compiled(a)
        lowered = compiled.lower(a)
        gone = weakref.ref(lowered), weakref.ref(lowered.executable)
        del compiled, lowered
        assert all(one() is None for one in gone)
    finally:
        gc.enable()


def test_programs_that_were_called_long_ago_go(backend, monkeypatch):
    """Of a function's many signatures the last ones stay."""
    monkeypatch.setattr(expressions, "PROGRAMS", 3)
    traced = []

    def scaled(a, word):
        traced.append(word)
        return a * len(word)

    compiled, a = td.jit(scaled, backend=backend), np.array([1.0, 2.0])
    gone = [weakref.ref(compiled.lower(a, "x"))]
    for word in ("xx", "xxx", "x", "xxxx", "x", "xx"):
        np.testing.assert_array_equal(compiled(a, word), a * len(word))
        gone.append(weakref.ref(compiled.lower(a, word)))
    assert traced == ["x", "xx", "xxx", "xxxx", "xx"]
    assert [one() is None for one in gone] == [False, True, True, False, False, False, False]


class Backwards(td.schedule.Order):
    """An order of the user's."""

    def coordinates(self, i, shape):
        return (shape[0] - 1 - i,)


@pytest.mark.sample(1)
@pytest.mark.parametrize("make", [Backwards, lambda: td.schedule.Table(np.arange(100)[::-1])])
def test_orders_go(make, backend):
    """What was found out about an order goes with it."""
    order = make()
    gone = weakref.ref(order)
    for grain in (order, order | td.schedule.Block(1)):
        got = td.run(td.scanl1(ADD, np.arange(100)) * 2, schedule=grain, backend=backend)
        assert got.tolist() == (np.arange(100).cumsum() * 2).tolist()
    del order, grain
    gc.collect()
    assert gone() is None


def assert_function_goes(held, factor, backend):
    """The one in `held`, which multiplies by `factor`, and is compiled once."""
    gone = weakref.ref(held[0])
    a = np.ones(5)
    compiled = td.jit(lambda a: td.map(lambda x: td.foreign(held[0], x), a), backend=backend)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(a), a * factor)
    one = compile_scalar_function(held[0], (td.float64,))
    assert compile_scalar_function(held[0], (td.float64,)) is one
    del compiled, one
    held.clear()
    gc.collect()
    assert gone() is None


def test_foreign_functions_go(backend):
    pytest.importorskip("numba")

    def scaling(factor):
        def scaled(x):
            return x * factor

        return scaled

    assert_function_goes([scaling(3.5)], 3.5, backend)


def test_functions_of_numba_go(backend):
    numba = pytest.importorskip("numba")
    assert_function_goes([numba.njit(lambda x: x * 2.5)], 2.5, backend)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_arrays_are_not_kept(name, backend):
    """With the collector, on every backend."""
    array = np.ones(100)
    gone = weakref.ref(array)
    td.run(PROGRAMS[name](array), backend=backend)
    del array
    gc.collect()
    assert gone() is None


def test_functions_that_lead_to_their_results_go(backend):
    """What a user's function holds may hold what is made of the function."""

    class Owner:
        def __init__(self, array):
            self.made = td.foreign_array({backend: self.double}, array, fallback=lambda x: x * 2)

        def double(self, x):
            return x * 2

    array = np.ones(100)
    gone = weakref.ref(array)
    with td.config(backend=backend):
        Owner(array)
    del array
    gc.collect()
    assert gone() is None


def test_a_scalar_keeps_what_it_is_of():
    """An extent, whose array has no other name."""
    extent = td.use(np.ones(7)).shape[0]
    gc.collect()
    assert td.run(td.iota(extent) + extent).tolist() == list(range(7, 14))
    a = td.use(np.ones(7))
    assert a.shape[0]._expr is a.shape[0]._expr


def test_memory_of_many_sizes_is_not_kept():
    pool, byte = Pool(), np.dtype("u1")
    used = pool.allocate((SMALLEST,), byte)
    used[:] = 7
    for k in range(1, 1000):
        pool.allocate((SMALLEST + k,), byte)
    assert pool.pooled <= pool.sizes * (SMALLEST + 1000)
    address = pool.allocate((SMALLEST + 999,), byte).ctypes.data
    assert pool.allocate((SMALLEST + 999,), byte).ctypes.data == address
    assert pool.allocate((SMALLEST,), byte).ctypes.data != used.ctypes.data
    assert (used == 7).all()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def flood(of: range) -> None:
    a = np.ones(10)
    for k in of:
        td.run(td.map(lambda x: td.sqrt(x + float(k)) * 1.5, a), backend="native")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say")
def test_ten_thousand_programs_end_where_a_hundred_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    flood(range(100))
    gc.collect()
    before = resident()
    flood(range(100, 10_000))
    gc.collect()
    assert resident() - before < 20e6


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say")
def test_memory_is_flat_over_many_arrays(backend):
    if backend == "cuda":
        pytest.skip("the GPU is emulated: too slow")
    before = 0
    for k in range(20_000):
        td.run(td.sum(np.ones(50_000)), backend=backend)
        before = resident() if k == 500 else before
    assert resident() - before < 20e6
