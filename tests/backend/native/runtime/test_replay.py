"""Calls repeated by native code: only for arguments as recorded, always with new results."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import calls, products
from treadle.backend.native.codegen import engine
from treadle.backend.native.codegen.target import Target
from treadle.backend.native.runtime import modules, replay, tape, threads
from treadle.driver.replaying import Replays
from treadle.dsl.frontend import deferred

pytestmark = pytest.mark.skipif(not replay.supported(), reason="calls are not repeated here")


ROOT = str(Path(__file__).parents[4])


@pytest.fixture(autouse=True)
def records_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are not compiled as a whole meanwhile, after which calls are recorded again."""
    monkeypatch.setattr(calls, "later", lambda *_: None)


class Counted:
    """A compiled function that knows how many of its calls went the ordinary way."""

    def __init__(self, f: Any, **options: Any) -> None:
        self.jit = td.jit(f, backend="native", **options)
        self.ordinary = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        execute = td.Program.execute

        def counted(program: Any, *given: Any, **how: Any) -> Any:
            self.ordinary += 1
            return execute(program, *given, **how)

        td.Program.execute = counted  # type: ignore[method-assign]
        try:
            return self.jit(*args, **kwargs)
        finally:
            td.Program.execute = execute  # type: ignore[method-assign]

    def records(self, *args: Any, **kwargs: Any) -> int:
        return len(self.jit.lower(*args, **kwargs).executable.calls.replays.records)


def warmed(f: Any, *args: Any, **options: Any) -> Counted:
    """With a record of calls with these arguments."""
    counted = Counted(f, **options)
    for _ in range(2):
        counted(*args)
    assert counted.records(*args) == 1
    counted.ordinary = 0
    return counted


def saxpy(a: Any, x: Any, y: Any) -> Any:
    return a * x + y


X, Y = np.arange(100.0), np.arange(100.0) ** 2


def test_repeated_calls() -> None:
    f = warmed(saxpy, 2.0, X, Y)
    kept = [f(float(k), X, Y) for k in range(5)]
    assert f.ordinary == 0
    for k, result in enumerate(kept):
        assert np.array_equal(result, k * X + Y)
        assert type(result) is np.ndarray and result.flags.writeable and result.flags.carray


def test_arguments_in_another_order_and_the_same_twice() -> None:
    f = warmed(saxpy, 1.0, X, X)
    assert np.array_equal(f(1.0, X, Y), X + Y) and np.array_equal(f(3.0, Y, X), 3 * Y + X)
    assert f.ordinary == 0


@pytest.mark.parametrize("size", [1000, 100_000])
def test_results_are_never_shared(size: int) -> None:
    """Views keep the memory of a large result from being used again; so does the result itself."""
    x = np.arange(float(size))
    f = warmed(lambda x: x + 1, x)
    first = f(x)
    view = f(x)[10:20]
    held = [f(x) for _ in range(4)]
    first[:] = -1
    for array in held:
        array *= 2
    assert view.tolist() == list(range(11, 21)) and (first == -1).all()
    for array in held:
        assert np.array_equal(array, 2 * (x + 1))
    del first, view, held, array
    f.ordinary = 0
    for _ in range(3):
        assert np.array_equal(f(x), x + 1)
    assert f.ordinary == 0


def test_what_is_not_as_recorded_goes_the_ordinary_way() -> None:
    f = warmed(saxpy, 2.0, X, Y)
    strange: list[tuple[Any, ...]] = [
        (2, X, Y),
        (np.float64(2), X, Y),
        (True, X, Y),
        (2.0, X.astype(np.float32), Y),
        (2.0, X[::-1], Y),
        (2.0, np.repeat(X, 2)[::2], Y),
        (2.0, X[:50], Y[:50]),
        (2.0, X.reshape(10, 10), Y.reshape(10, 10)),
        (2.0, X.astype(">f8"), Y),
        (2.0, list(X), Y),
        (2.0, np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64), Y),
    ]
    for args in strange[:-2] + strange[-1:]:
        f.ordinary = 0
        a, x, y = args
        assert np.array_equal(f(*args), np.asarray(a) * np.asarray(x) + y), args
        assert f.ordinary == 1
    with pytest.raises(td.TreadleError):
        f(1 << 70, X, Y)
    with pytest.raises(td.ShapeError):
        f(2.0, X, Y[:50])
    with pytest.raises(TypeError):
        f(2.0, X)


def test_a_class_of_arrays_of_its_own() -> None:
    class Mine(np.ndarray[Any, Any]):
        pass

    f = warmed(saxpy, 2.0, X, Y)
    assert np.array_equal(f(2.0, X.view(Mine), Y), 2 * X + Y)
    assert f.ordinary == 1


def test_arrays_changed_in_place() -> None:
    x = np.arange(12.0)
    f = warmed(lambda x: x * 2, x)
    x[3] = 100
    x.flags.writeable = False
    assert f(x)[3] == 200 and f.ordinary == 0
    x.shape = (3, 4)
    assert f(x).shape == (3, 4) and f.ordinary == 1
    x.shape = (12,)
    x.dtype = np.dtype(np.int64)
    assert np.array_equal(f(x), x * 2) and f.ordinary == 2


def test_captured_arrays_are_read_at_each_call() -> None:
    table = np.arange(10.0)
    f = warmed(lambda x: x + td.use(table), np.ones(10))
    table[:] = 5
    assert (f(np.ones(10)) == 6).all() and f.ordinary == 0
    table.shape = (2, 5)  # says nothing about what was used
    assert (f(np.ones(10)) == 6).all() and f.ordinary == 0


def test_numbers_that_decide_more_than_a_value() -> None:
    """An extent from a number: a record is for one of them."""
    f = warmed(lambda n, a: td.generate((n,), lambda i: a * i), 10, 2)
    assert f(10, 3).tolist() == [3 * k for k in range(10)] and f.ordinary == 0
    assert f(4, 3).tolist() == [0, 3, 6, 9] and f.ordinary == 1
    assert f(10, 4).tolist() == [4 * k for k in range(10)] and f.ordinary == 1


def test_numbers_of_every_kind() -> None:
    x = np.arange(5, dtype=np.float32)
    f = warmed(lambda a, n, b, x: td.where(b, a * x, x) + n, 0.5, 1, True, x)
    for a in (0.1, -0.0, 1e300, np.inf):
        for n in (-1, 2**62):
            for b in (True, False):
                with np.errstate(all="ignore"):
                    expected = (np.float32(a) * x if b else x) + np.float32(n)
                assert np.array_equal(f(a, n, b, x), expected, equal_nan=True)
    assert f.ordinary == 0


@pytest.mark.parametrize("number", [complex, np.complex64, np.complex128])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
def test_complex_numbers(number: Any, dtype: Any) -> None:
    x = np.arange(5).astype(dtype)
    f = warmed(lambda a, b, x: td.where(b, a * x, x) + a, number(1j), True, x)
    for a in (number(2 - 3j), number(-0.1), number(complex(0.3, np.inf))):
        for b in (True, False):
            with np.errstate(all="ignore"):
                expected = (a * x if b else x) + a
            found = f(a, b, x)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert f.ordinary == 0
    f(number(1j).real, True, x)
    assert f.ordinary == 1


def test_complex_numbers_in_loops() -> None:
    """Of several kernels, which native code repeats."""

    def program(a: Any, k: Any) -> Any:
        small = lambda s: td.sum(abs(s)) < 1e6
        return td.while_loop(small, lambda s: td.sort(s.real) * k + td.cumsum(td.roll(s, 1)), a)

    a = np.ones(300, np.complex64)
    f, g = td.jit(program, backend="native"), td.jit(program, backend="reference")
    for k in (1j, 2 + 1j, np.complex64(0.5 - 2j), np.complex64(3j)):
        for _ in range(2):
            np.testing.assert_allclose(f(a, k), g(a, k), rtol=1e-4)


def test_several_results_and_kernels() -> None:
    a = np.random.default_rng(0).random((200, 300)).astype(np.float32)

    def program(a: Any) -> dict[str, Any]:
        smooth = td.stencil(lambda w: (w[-1, 0] + w[0, 0] + w[1, 0]) / 3, a)
        return {"smooth": smooth, "top": (td.max(a), td.sum(td.cumsum(smooth, axis=0)))}

    f = warmed(program, a)
    for seed in range(3):
        b = np.random.default_rng(seed).random((200, 300)).astype(np.float32)
        found, expected = f(b), td.jit(program, backend="reference")(b)
        assert np.allclose(found["smooth"], expected["smooth"], rtol=1e-5)
        assert np.allclose(found["top"], expected["top"], rtol=1e-4)
    assert f.ordinary == 0


def test_one_array_in_a_list_and_tuples_as_elements() -> None:
    f = warmed(lambda x: [x + 1], X)
    assert np.array_equal(f(X)[0], X + 1) and isinstance(f(X), list) and f.ordinary == 0
    g = warmed(lambda x: td.map(lambda v: (v, v * 2), x), X)
    assert np.array_equal(g(X)[1], X * 2) and g.ordinary == 0


class Named(NamedTuple):
    n: Any
    mean: Any
    sums: Any


@dataclass(frozen=True)
class Fields:
    n: Any
    mean: Any
    sums: Any
    more: Any = field(default=None, init=False)


def as_dict(n: Any, mean: Any, sums: Any) -> dict[str, Any]:
    return {"n": n, "mean": mean, "sums": sums}


def as_list(*parts: Any) -> list[Any]:
    return list(parts)


def as_nested(n: Any, mean: Any, sums: Any) -> tuple[Any, ...]:
    return n, [mean, {"sums": (sums,)}]


def opened(state: Any) -> list[Any]:
    """The arrays and numbers in a state, in order."""
    if isinstance(state, Fields):
        return [state.n, state.mean, state.sums]
    if isinstance(state, dict):
        state = tuple(state.values())
    return [x for v in state for x in opened(v)] if isinstance(state, tuple | list) else [state]


@pytest.mark.parametrize(
    "state", [Named, Fields, as_dict, as_list, as_nested, lambda *parts: parts]
)
def test_structures_of_arrays_and_numbers(state: Any) -> None:
    """Welford's statistics: the state that a call returns is an argument of the next one."""

    def update(s: Any, x: Any) -> Any:
        n, mean, sums = opened(s)
        n, d = n + 1, x - mean
        mean = mean + d / n
        return state(n, mean, sums + d * (x - mean))

    rows = np.random.default_rng(0).random((9, 16))
    f, s = Counted(update), state(0.0, np.zeros(16), np.zeros(16))
    for k, row in enumerate(rows):
        s = f(s, row)
        assert type(s) is type(state(0, 0, 0)) and opened(s)[0] == k + 1
    _, mean, sums = opened(s)
    np.testing.assert_allclose(mean, rows.mean(0))
    np.testing.assert_allclose(sums, rows.var(0) * 9)
    assert f.ordinary == 3  # a Python number is the first n, later ones are arrays


def test_other_structures_go_the_ordinary_way() -> None:
    def total(s: Any, x: Any) -> Any:
        return td.sum(x) + sum(td.sum(v) for v in opened(s))

    f = warmed(total, (2.0, X), Y)
    for given in [
        [2.0, X], (2.0, X, X), (2.0,), (X, 2.0), (2.0, (X,)), (2, X), {"a": 2.0, "b": X}, (),
        Named(2.0, X, X), {}, (2.0, X.astype(np.float32)),
    ]:  # fmt: skip
        f.ordinary = 0
        assert f(given, Y) == Y.sum() + sum(np.sum(v) for v in opened(given)), given
        assert f.ordinary == 1
    assert f((3.0, X), Y) == Y.sum() + 3 + X.sum() and f.ordinary == 1  # four have come since


def test_keys_of_dicts_and_empty_ones() -> None:
    f = warmed(lambda d, x: x + sum(d.values()) * len(d), {"a": 1.0}, X)
    assert (f({"a": 2.0}, X) == X + 2).all() and f.ordinary == 0
    assert (f({"b": 2.0}, X) == X + 2).all() and f.ordinary == 1
    assert (f({}, X) == X).all() and (f({}, X) == X).all() and f.ordinary == 3
    assert (f({"a": 4.0}, X) == X + 4).all() and (f({}, X) == X).all() and f.ordinary == 3


def test_constants_among_the_arguments() -> None:
    f = Counted(lambda x, how, g: g(x) if how == "call" else x * 2)
    for _ in range(2):
        f(X, "call", np.sqrt)
        f(X, "twice", None)
    f.ordinary = 0
    assert (f(X, "".join(["ca", "ll"]), np.sqrt) == np.sqrt(X)).all()
    assert (f(X, "twice", None) == X * 2).all() and f.ordinary == 0
    assert (f(X, "call", np.square) == X * X).all() and f.ordinary == 1


def test_arguments_by_name() -> None:
    f = Counted(lambda x, a=1.0, *, b=2.0, **more: x * a + b - sum(more.values()))
    calls: list[dict[str, Any]] = [
        {"a": 3.0}, {"b": 4.0}, {"b": 4.0, "a": 3.0}, {"a": 3.0, "b": 5.0}, {"c": 1.0}, {},
    ]  # fmt: skip
    for _ in range(3):
        f.ordinary = 0
        for kwargs in calls:
            expected = X * kwargs.get("a", 1.0) + kwargs.get("b", 2.0) - kwargs.get("c", 0.0)
            assert (f(X, **kwargs) == expected).all()
    assert f.ordinary == 0


def test_types_that_alternate() -> None:
    f = Counted(lambda x: x + 1)
    for k in range(4):
        for kind in (np.float32, np.float64, np.int32):
            assert f(np.arange(3, dtype=kind)).dtype == kind
        f.ordinary = f.ordinary if k < 2 else 0
    assert f.ordinary == 0


def test_arrays_of_treadle() -> None:
    """Their values are known; inside of a program that is traced they are its own."""
    f = Counted(lambda s, x: (s["a"] + x, s["a"] * 2))
    state, other = {"a": td.use(X)}, {"a": td.use(Y)}
    for _ in range(3):
        first, second = f(state, X)
        assert isinstance(first, td.Array) and isinstance(second, td.Array)
    f.ordinary = 0
    assert (np.asarray(f(other, X)[0]) == X + Y).all() and f.ordinary == 0
    outer = td.jit(lambda x: f.jit(other, x)[0] + 1, backend="native")
    assert (outer(X) == X + Y + 1).all()


def test_deferred_arrays_are_computed_without_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cached call returns is an argument like any other array."""
    x, y = td.use(np.arange(6.0)), td.use(np.full(5, 3.0))
    f = Counted(lambda a, b: (a * b, td.sum(a)))

    def call(k: int) -> Any:
        return f(x[1:] * float(k) + 1, y)

    for _ in range(4):
        call(2)
    f.ordinary = 0

    def refused(array: Any) -> None:
        raise AssertionError("traced")

    monkeypatch.setattr(deferred, "make", refused)
    product, total = call(5)
    assert f.ordinary == 0
    assert product.tolist() == [3 * (5 * k + 1) for k in range(1, 6)] and total.item() == 80
    assert product.shape == (5,) and product.ndim == 1 and total.ndim == 0


M, V = np.random.default_rng(3).random((2, 40, 40))
LIBRARIES: dict[str, tuple[Any, ...]] = {
    "epilogue": (lambda a, b: td.sqrt(a @ b) + 1, M, V),
    "two products": (lambda a, b: (a @ b) @ b.T, M, V),
    "batch": (lambda a, b: td.tanh(a[None] @ b), M, np.stack([V, M])),
    "strided": (lambda a, b: td.abs(a[1:, :-1] @ b), M, V.T[:-1, ::-1]),
    "deterministic": (lambda a, b: td.matmul(a, b.T, deterministic=True) * 2, M, V),
    "captured": (lambda a: 1 + a @ td.use(V), M),
    "loop": (lambda a, v: td.iterate(5, lambda v: (a @ v) * 0.05, v), M, V),
    "while": (
        lambda a, v: td.while_loop(lambda v: td.the(td.max(v)) < 1e6, lambda v: a @ v, v), M, V),
    "cond": (lambda a, b: td.cond(td.the(td.max(a)) < 4, a @ b + 1, a), M, V),
    "fft": (lambda a: td.abs(td.fft.fft(a + 1)) + 1, M),
    "solve": (lambda a, b: td.linalg.solve(a @ a.T + td.eye(40), b) * 2, M, V),
    "complex": (lambda a, b: td.conj(a @ b), M + 1j * V, V - 1j * M),
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARIES)
def test_calls_of_libraries_are_repeated(name: str) -> None:
    """A program that calls BLAS, LAPACK or an FFT is one record, with the bits of other calls."""
    f, *args = LIBRARIES[name]
    counted = warmed(f, *args)
    for _ in range(3):
        found = counted(*args)
        assert counted.ordinary == 0
        assert found.tobytes() == td.jit(f, backend="native")(*args).tobytes()
        args[0] = 2 * args[0]


def test_products_of_integers_are_repeated() -> None:
    a, b = np.arange(4000).reshape(50, 80), np.arange(3200).reshape(80, 40)
    f = warmed(lambda a, b: a @ b, a, b)
    assert (f(a + 1, b) == (a + 1) @ b).all() and f.ordinary == 0


def test_exceptions_during_calls_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt, or a lack of memory, is raised by the call; the next one is repeated again."""
    f = warmed(LIBRARIES["epilogue"][0], M, V)
    expected = f(M, V)

    for error in (KeyboardInterrupt(), MemoryError("full")):

        def fails(*_: Any, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as patched, pytest.raises((KeyboardInterrupt, MemoryError)):
            patched.setattr(products, "matmul", fails)
            f(M, V)
        assert f(M, V).tobytes() == expected.tobytes()
    assert f.ordinary == 0


def test_updates_and_zeros() -> None:
    """Permutes: a copy of the defaults, tables that start as zeros, at every call."""
    data, base = np.random.default_rng(1).integers(0, 50, 5000), np.arange(50)
    f = warmed(lambda d: td.bincount(d, length=50), data)

    def add_at(b: Any, d: Any) -> Any:
        return td.permute(lambda new, old: new + old, b, lambda i: d[i], d)

    g = warmed(add_at, base, data)
    for seed in range(3):
        d = np.random.default_rng(seed).integers(0, 50, 5000)
        assert np.array_equal(f(d), np.bincount(d, minlength=50))
        assert np.array_equal(g(base, d), base + np.bincount(d, d, 50).astype(np.int64))
    assert f.ordinary == g.ordinary == 0 and np.array_equal(base, np.arange(50))


def test_results_of_extents_that_the_data_decides() -> None:
    """They take over the memory that a call has written, also where one is the result twice."""
    f = Counted(lambda x: td.filter(lambda v: v > 3, x))
    g = Counted(lambda x: (kept := td.filter(lambda v: v > 3, x)[0], kept, kept + 1))
    h = Counted(lambda x: td.bincount(x, minlength=4))
    found = []
    for k in (0, 2, 5, -20, 8, 100, 1):
        x = np.arange(10.0) + k
        wanted = [v for v in x.tolist() if v > 3]
        kept, counts = f(x)
        assert kept.tolist() == wanted and counts.tolist() == len(wanted)
        assert kept.dtype == x.dtype and kept.flags.writeable and kept.flags.c_contiguous
        same, again, more = g(x)
        assert same.tolist() == again.tolist() == wanted and not np.shares_memory(same, again)
        assert more.tolist() == [v + 1 for v in wanted]
        whole = abs(x).astype(int)
        assert h(whole).tolist() == np.bincount(whole, minlength=4).tolist()
        found += [(a, a.copy()) for a in (kept, same, again, more)]
    assert all(np.array_equal(a, kept) for a, kept in found)  # no call writes to earlier results
    assert f.ordinary == g.ordinary == h.ordinary == 2
    with pytest.raises(td.TreadleError, match="must not be negative"):
        h(np.arange(10) - 5)
    assert h.ordinary == 3 and h(np.arange(10)).tolist() == [1] * 10 and h.ordinary == 3


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say")
def test_memory_of_results_is_given_back() -> None:
    """Also that of large ones, which are in use as long as an array refers to them."""
    f = warmed(lambda x: td.filter(lambda v: v > 0, x)[0], np.ones(1 << 18))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

    before = resident()
    for _ in range(200):
        assert len(f(np.ones(1 << 18))) == 1 << 18
    assert f.ordinary == 0 and resident() - before < 64 << 20
    part = f(np.ones(1 << 18))[5:7]
    gc.collect()
    del f
    assert part.tolist() == [1, 1]


def test_copies_of_arguments_are_recorded() -> None:
    g = Counted(lambda x: x, recognise=True)
    for k in range(4):
        x = np.arange(10.0) + k
        same = g(x)
        assert same is not x and not np.shares_memory(same, x)
    assert g.ordinary == 2


def test_checked_programs_are_checked_at_each_call() -> None:
    at = np.array([0, 1])
    with td.config(check=True):
        f = Counted(lambda x, at: td.map(lambda k: x[k], at))
        for _ in range(3):
            f(X, at)
        with pytest.raises(td.IndexOutOfBounds):
            f(X, np.array([0, 1000]))


def test_settings_choose_the_program() -> None:
    f = warmed(saxpy, 2.0, X, Y)
    with td.config(fast_math=True):
        f(2.0, X, Y)
    assert f.ordinary == 1
    f(2.0, X, Y)
    with td.config(check=False):  # the same as without
        f(2.0, X, Y)
    assert f.ordinary == 1


def test_inside_another_program() -> None:
    inner = td.jit(saxpy, backend="native")
    for _ in range(3):
        inner(2.0, X, Y)
    outer = td.jit(lambda x: inner(3.0, x, x), backend="native")
    assert np.array_equal(outer(X), 4 * X)


def test_many_extents() -> None:
    """Records for the last few; extents that never come twice in a row are not recorded."""
    f = Counted(lambda x: x + 1)
    for n in range(1, 40):
        f(np.zeros(n + 1))
    assert f.records(X) == 0
    for n in range(2, 2 * replay.MOST):
        for _ in range(4):
            assert f(np.zeros(n)).size == n
    assert f.records(X) == replay.MOST


def test_memory_of_records_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LIMIT", 3_000_000)
    x = np.zeros(100_000)
    made = [warmed(lambda x, k=k: x + k, x) for k in range(4)]
    for k, f in enumerate(made):
        assert (f(x) == k).all()
    assert sum(r.size for r in replay._live) <= 3_000_000
    large = Counted(lambda x: x + 1)
    for _ in range(3):
        large(np.zeros(replay.LARGEST // 8 + 1))
    assert large.records(x) == 0


def test_records_die_with_their_function() -> None:
    f = warmed(saxpy, 2.0, X, Y)
    before = len(replay._live)
    del f
    gc.collect()
    assert len(replay._live) < before


def test_many_threads_call_one_function() -> None:
    x = np.arange(60_000.0)
    f = td.jit(lambda a, x: td.sqrt(a * x) + a, backend="native")
    for _ in range(3):
        f(1.0, x)
    wrong: list[Any] = []

    def work(a: float) -> None:
        for _ in range(50):
            if not np.array_equal(f(a, x), np.sqrt(a * x) + a):
                wrong.append(a)

    running = [threading.Thread(target=work, args=(float(k),)) for k in range(5)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert not wrong


def test_other_threads_repeat_calls() -> None:
    f = warmed(saxpy, 2.0, X, Y)
    other = threading.Thread(target=f.jit, args=(2.0, X, Y))
    known, replays = f.jit._replays
    program, again = replays[()]._known[0]
    seen: list[Any] = []

    def spy(*args: Any) -> Any:
        seen.append(again(*args))
        return seen[-1]

    f.jit._replays = known, {(): Replays([(program, spy)])}
    other.start()
    other.join()
    assert np.array_equal(seen[0], 2 * X + Y)


def test_an_interrupt_ends_a_loop() -> None:
    """Ctrl-C is heard while native code makes the iterations."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("no timers here")

    class Stop(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    f = td.jit(
        lambda x: td.while_loop(lambda s: td.sum(s) > -1, lambda s: s * 0.5, x), backend="native"
    )
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(2):  # the second time everything has been compiled
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Stop):
                f(np.ones(8))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its work, and by whether a loop repeats it: a brief job then has threads, too."""
    monkeypatch.setattr(threads, "thread_count", lambda: 4)
    found = []

    class Seen(tape.Launch):
        def threads(self, repeated: bool) -> int:
            found.append((self.tasks, repeated, super().threads(repeated)))
            return found[-1][2]

    monkeypatch.setattr("treadle.backend.native.steps.tape_launch", Seen)

    def heat(n: Any, u: Any) -> Any:
        return td.iterate(n, lambda v: td.stencil(lambda w: w[0, 0] + w[1, 0] + w[0, -1], v), u)

    f = td.jit(heat, backend="native")
    for rows, expected in ((30, 1), (120, -3), (400, 4)):
        u = np.ones((rows, 200))
        found.clear()
        for _ in range(4):
            again = f(5, u)
        assert [t for _, repeated, t in found if repeated] == [expected]
        assert np.array_equal(again, td.jit(heat, backend="reference")(5, u))


def test_without_native_threads() -> None:
    """Where there is no team, large calls go the ordinary way, to Python's threads."""
    code = """if True:
        import numpy as np, treadle as td
        from treadle.backend.native.runtime import modules, threads
        modules.team_target = lambda: None
        threads.thread_count = lambda: 3
        f = td.jit(lambda a, x: td.sqrt(a * x) + a, backend="native")
        for n in (10, 300_000):
            x = np.arange(float(n))
            for _ in range(4):
                assert np.array_equal(f(2.0, x), np.sqrt(2 * x) + 2)
        replays = f.lower(2.0, x).executable.calls.replays
        print(threads.team(), len(replays.records))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ROOT}, check=False)  # fmt: skip
    assert done.stdout.split() == ["None", "1"], done.stderr


@pytest.mark.parametrize("effort", ["quick", "usual"])
def test_code_that_was_made_quickly_or_well(
    effort: engine.Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process runs what it finds (`modules.py`): records, loops, late numbers and branches."""

    def image(text: str) -> bytes:
        host = Target.host()
        return engine.to_object(engine.header(host) + text, host, effort)

    monkeypatch.setattr(modules, "_image", image)
    found = modules.replayer.__wrapped__()
    monkeypatch.setattr(modules, "replayer", lambda: found)
    monkeypatch.setattr(replay, "_run", replay._run.__wrapped__)
    assert replay._layout_agrees()

    def f(a: Any, scale: Any, n: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            s = td.update(s, (slice(None, k),), s[:k] * scale)  # the extent is a late number
            return td.cond(td.sum(s) > 3, s - 0.5, s + 0.25)

        return td.loop(1, n, step, a), td.cumsum(a * scale)

    program = td.jit(f, backend="native")
    for n in (2, 5, 300):
        for length in (3, 40):
            a = np.linspace(-1.0, 1.0, length)
            s = a.copy()
            for k in range(1, n):
                s[:k] *= 0.5
                s = s - 0.5 if s.sum() > 3 else s + 0.25
            for _ in range(3):
                got, sums = program(a, 0.5, n)
                np.testing.assert_allclose(got, s, rtol=1e-12)
                np.testing.assert_allclose(sums, np.cumsum(a * 0.5), rtol=1e-12, atol=1e-15)
    assert program.lower(a, 0.5, n).executable.calls.replays.records


# --- loops -----------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [0, 1, 3, 4, 5, 9, 10, 40, 300])
def test_iterate(iterations: int) -> None:
    """States that alternate: (a, b) → (b, f(a, b)); the arguments stay as they are."""
    a, b = np.arange(5.0), np.arange(5.0) + 1

    def step(s: Any) -> Any:
        return s[1], 0.5 * s[1] - 0.25 * s[0] + 1

    f = td.jit(lambda a, b, n: td.iterate(n, step, (a, b)), backend="native")
    p, q = a, b
    for _ in range(iterations):
        p, q = step((p, q))
    for _ in range(2):
        found = f(a, b, iterations)
        assert np.array_equal(found[0], p) and np.array_equal(found[1], q)
        found[0][:] = found[1][:] = 7  # not shared
    assert np.array_equal(a, np.arange(5.0)) and np.array_equal(b, a + 1)


def test_while_loop() -> None:
    """Predicates on states of rank 0 and on data; states that pass through or change places."""

    def halve(x: Any, n: Any) -> Any:
        state = (td.unit(td.int32(0)), x, x * 3, td.unit(n))
        return td.while_loop(
            lambda s: (s[0] < 100) & (td.sum(s[1]) > 1e-3),
            lambda s: (s[0] + 1, s[2] * 0.5, s[1], s[3]),
            state,
        )

    f = td.jit(halve, backend="native")
    x = np.arange(10.0)
    p, q, iteration = x, 3 * x, 0
    while iteration < 100 and p.sum() > 1e-3:
        p, q, iteration = q * 0.5, p, iteration + 1
    for _ in range(3):
        count, first, second, n = f(x, 9)
        assert (count, n) == (iteration, 9)
        assert np.array_equal(first, p) and np.array_equal(second, q)


def test_counted_loops_see_their_turn() -> None:
    f = td.jit(lambda x, n: td.loop(n, lambda k, s: s + k, x), backend="native")
    assert np.array_equal(f(np.zeros(3), 100), np.full(3, 4950.0))


def _step(s: Any, total: Any) -> Any:
    return s * 0.5 + total(s) * 0.25


def _nested(x: Any, n: int, m: int) -> Any:
    for _ in range(n):
        for _ in range(m):
            x = _step(x, np.sum)
        x = x + 1
    return x


def test_loops_in_loops_are_one_record() -> None:
    """A nest is recorded once; no iterations at each level; counts that change between calls."""

    def nest(x: Any, n: Any, m: Any) -> Any:
        inner = lambda v: td.iterate(m, lambda s: _step(s, td.sum), v) + 1
        return td.iterate(n, inner, x)

    f = Counted(nest)
    x = np.array([0.25, 0.5, 1.0])
    for n in (0, 1, 2, 7):
        for m in (0, 1, 2, 5):
            for _ in range(3):
                found = f(x, n, m)
                np.testing.assert_allclose(found, _nested(x, n, m))
                found[:] = 7  # not shared
    assert f.ordinary < 40


def test_counts_that_depend_on_an_outer_counter() -> None:
    f = warmed(
        lambda x: td.loop(6, lambda k, s: td.iterate(k, lambda v: _step(v, td.sum), s) + 1, x),
        np.ones(3),
    )
    expected = np.ones(3)
    for k in range(6):
        for _ in range(k):
            expected = _step(expected, np.sum)
        expected = expected + 1
    np.testing.assert_allclose(f(np.ones(3)), expected)
    assert f.ordinary == 0


def _decay(u: Any, k: Any, n: int) -> Any:
    return td.sum(td.iterate(n, lambda u: u + k * (td.roll(u, 1, 0) - u) * u, u))


def test_gradients_with_few_states_are_one_record() -> None:
    """Only extents and numbers that are pinned decide which states are computed again."""
    u = np.linspace(0.5, 1.0, 50)
    given = td.value_and_grad(_decay, (0, 1), memory=9 * u.nbytes)
    every = td.value_and_grad(_decay, (0, 1))
    f = warmed(given, u, 0.2, 30)
    for n, ordinary in ((30, 0), (11, 1), (4, 1), (30, 0), (11, 0)):
        f.ordinary = 0
        for k in (0.1, 0.3, 0.3):
            value, (by_u, by_k) = f(u, k, n)
            expected, (u_bar, k_bar) = td.run(every(u, k, n), backend="reference")
            np.testing.assert_allclose(value, expected, rtol=1e-12)
            np.testing.assert_allclose(by_u, u_bar, rtol=1e-12)
            np.testing.assert_allclose(by_k, k_bar, rtol=1e-12)
        assert f.ordinary == ordinary
    assert f.records(u, 0.2, 30) == 3


def test_numbers_of_the_host_are_never_written_to() -> None:
    """An update of one is an update of a copy: the record has the number for all calls."""
    f = td.jit(lambda x: td.generate((), lambda: x.shape[0]).at[()].add(1), backend="native")
    assert [int(f(X)) for _ in range(6)] == [101] * 6


def test_branches_in_loops_are_recorded() -> None:
    f = warmed(
        lambda x: td.loop(9, lambda k, s: td.cond(td.sum(s) > 3.0, s * 0.5, s + td.sum(s)), x),
        np.ones(3),
    )
    expected = np.ones(3)
    for _ in range(9):
        expected = expected * 0.5 if expected.sum() > 3 else expected + expected.sum()
    np.testing.assert_allclose(f(np.ones(3)), expected)
    assert f.ordinary == 0


def test_loops_in_loops() -> None:
    def inner(x: Any) -> Any:
        return td.iterate(3, lambda v: v * 0.5, x)

    f = td.jit(lambda x: td.iterate(20, lambda v: inner(v) * 8 + 1, x), backend="native")
    assert np.array_equal(f(np.zeros(4)), np.full(4, 20.0))


def _update(s: Any, k: Any, value: Any) -> Any:
    return td.update(s, k % 12, value)


#: Loops over (x, y) with n iterations: state in place, shared, exchanged, from outside.
LOOPS: dict[str, Any] = {
    "exchanged": lambda x, y, n: td.iterate(
        n, lambda s: (s[1], s[0] * 0.5 + td.sum(s[1]) * 0.01), (x, y)
    ),
    "in place and exchanged": lambda x, y, n: td.loop(
        n, lambda k, s: (s[1], _update(s[0], k, td.sum(s[1]) * 0.1)), (x, y)
    ),
    "one first value": lambda x, y, n: td.loop(
        n, lambda k, s: (_update(s[0], k, td.sum(s[1])), s[1] + td.sum(s[0]) * 0.01), (x, x)
    ),
    "one next value": lambda x, y, n: td.loop(
        n, lambda k, s: (_update(s[0], k, td.sum(s[1]) * 0.1),) * 2, (x, y)
    ),
    "from outside": lambda x, y, n: td.loop(
        n, lambda k, s: (_update(s[1], k, td.sum(s[0]) * 0.1), y), (x, x)
    ),
    "nest in place": lambda x, y, n: td.loop(
        n, lambda k, s: td.loop(k, lambda j, t: _update(t, j, td.sum(t) * 0.1), s), x
    ),
    "nest of what is still read": lambda x, y, n: td.loop(
        n,
        lambda k, s: (
            td.loop(k, lambda j, t: _update(t, j, td.sum(t) * 0.1), s[0]),
            s[0] + td.sum(s[1]) * 0.01,
        ),
        (x, y),
    ),
    "a side that keeps the state": lambda x, y, n: td.loop(
        n, lambda k, s: td.cond(td.sum(s) > 40.0, _update(s, k, 0.0), s), x
    ),
    "tested": lambda x, y, n: td.while_loop(
        lambda s: td.sum(s) < n * 50.0, lambda s: s * 1.1 + td.sum(s) * 0.01, x
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LOOPS)
def test_state_of_recorded_loops(name: str) -> None:
    f, reference = (td.jit(LOOPS[name], backend=b) for b in ("native", "reference"))
    x, y = np.arange(12.0) + 1, np.arange(12.0) * 3 + 3
    for n in (0, 1, 2, 3, 7, 20):
        expected = reference(x, y, n)
        for _ in range(3):
            found = f(x, y, n)
            pairs = [(found, expected)]
            if isinstance(found, tuple):
                pairs = list(zip(found, expected, strict=True))
            for a, b in pairs:
                np.testing.assert_allclose(a, b, rtol=1e-9)
                a[...] = -1  # not shared
    assert np.array_equal(x, np.arange(12.0) + 1)
    assert np.array_equal(y, np.arange(12.0) * 3 + 3)
    assert len(f.lower(x, y, 2).executable.calls.replays.records) == 1


VIEWS = {
    "transposed": lambda: np.asfortranarray(np.arange(9.0).reshape(3, 3) / 9),
    "reversed": lambda: (np.arange(9.0).reshape(3, 3) / 9)[::-1],
    "strided": lambda: (np.arange(36.0).reshape(6, 6) / 36)[::2, ::2],
    "broadcast": lambda: np.broadcast_to(np.arange(3.0), (3, 3)),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("turns", [0, 1, 5, 40])
def test_captured_views_in_loops(view: str, turns: int) -> None:
    """Products copy what is not dense: once, before the loop, and again in every call."""
    a = VIEWS[view]()

    def plain(p: Any, n: int) -> Any:
        q = p
        for k in range(n):
            p, q = a @ p @ a.T * 0.5 + a, (a.T if k % 2 else p) + 0.25 * q
        return p, q

    def step(k: Any, state: Any) -> Any:
        p, q = state
        return a @ p @ a.T * 0.5 + a, td.where(k % 2 == 1, td.use(a).T, p) + 0.25 * q

    f = Counted(lambda p, n: td.loop(n, step, (p, p)))
    p = np.eye(3)
    for _ in range(4):
        for got, want in zip(f(p, turns), plain(p, turns), strict=True):
            assert np.allclose(got, want)
        if a.flags.writeable:
            a += 0.01  # captured arrays are read at each call
    assert f.ordinary == 2


def test_views_that_become_the_state() -> None:
    """A copy made before a loop is no array of an iteration."""
    a = np.arange(9.0).reshape(3, 3)
    f = td.jit(
        lambda p, n: td.iterate(n, lambda s: (a.T, s[0] @ a.T + s[1]), (p, p)), backend="native"
    )
    for n in (1, 2, 3, 30):
        p = q = np.eye(3)
        for _ in range(n):
            p, q = a.T, p @ a.T + q
        for _ in range(3):
            got = f(np.eye(3), n)
            assert np.array_equal(got[0], p) and np.allclose(got[1], q)
    assert np.array_equal(a, np.arange(9.0).reshape(3, 3))


def test_numpys_numbers_are_repeated_as_pythons() -> None:
    x = np.arange(5, dtype=np.float32)
    given = np.float64(0.5), np.int64(1), np.bool_(True)
    f = warmed(lambda a, n, b, x: td.where(b, a * x, x) + n, *given, x)
    for a in (0.1, -0.0, np.inf):
        for n in (-1, 2**62):
            for b in (True, False):
                with np.errstate(all="ignore"):
                    expected = (np.float64(a) * x if b else x.astype(float)) + n
                found = f(np.float64(a), np.int64(n), np.bool_(b), x)
                assert found.dtype == expected.dtype and np.array_equal(found, expected, True)
    assert f.ordinary == 0
    assert f(0.5, 1, True, x).dtype == np.float32 and f.ordinary == 1  # another program


def test_narrow_numbers_of_numpys_are_repeated() -> None:
    x = np.arange(5, dtype=np.float32)
    f = warmed(lambda a, x: a * x + a, np.float32(0.5), x)
    for a in (0.1, -0.0, np.nan, -np.inf, 1e-45, 3e38):
        number = np.float32(a)
        with np.errstate(all="ignore"):
            assert np.array_equal(f(number, x), number * x + number, True)
    assert f.ordinary == 0
    for kind in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32):
        ints = np.arange(5, dtype=kind)
        g = warmed(lambda n, x: n * x - n, kind(2), ints)
        for n in (np.iinfo(kind).min, 3, np.iinfo(kind).max):
            with np.errstate(all="ignore"):
                found, expected = g(kind(n), ints), kind(n) * ints - kind(n)
            assert found.dtype == kind and np.array_equal(found, expected)
        assert g.ordinary == 0


def test_narrow_numbers_that_count_and_choose() -> None:
    def program(n: Any, s: Any) -> Any:
        x = td.fill(n * n, s)
        return td.iterate(n, lambda y: y + td.cond(s > 2, s, -s), x)

    f = td.jit(program, backend="native")
    for n in (3, 3, 3, 5, 100):
        for s in (1.5, 1.5, 2.5, -0.0):
            found = f(np.int8(n), np.float32(s))
            with np.errstate(over="ignore"):
                expected = np.full(np.int8(n) * np.int8(n), np.float32(s))
            for _ in range(n):
                expected = expected + np.float32(s if s > 2 else -s)
            assert found.dtype == np.float32 and np.array_equal(found, expected)


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64, np.uint64, np.bool_]
)
def test_numbers_of_numpys_in_recorded_loops(kind: type[np.generic]) -> None:
    """A loop of so many iterations is recorded in the first call already."""
    steps = 300

    def program(m: Any, x: Any, c: Any) -> Any:
        return m.where(x == c, m.roll(x, 1), c)

    f = td.jit(lambda x, c: td.iterate(steps, lambda y: program(td, y, c), x), backend="native")
    x = np.arange(1000).astype(kind)
    largest = 1 if kind is np.bool_ else 0.3 if kind(0.5) else np.iinfo(kind).max
    for c in (kind(1), kind(largest), kind(0)):
        expected = x
        for _ in range(steps):
            expected = program(np, expected, c)
        for _ in range(3):
            np.testing.assert_array_equal(f(x, c), expected)


def test_half_precision_and_unsigned_numbers_are_repeated() -> None:
    x = np.arange(5, dtype=np.float16)
    f = warmed(lambda a, x: a * x + a, np.float16(0.5), x)
    for a in (0.1, -0.0, np.nan, -np.inf, 6e-8, 65504):
        number = np.float16(a)
        with np.errstate(all="ignore"):
            expected = (np.float32(number) * x).astype(np.float16) + number
            assert np.array_equal(f(number, x), expected, True)
    assert f.ordinary == 0
    ints = np.arange(5, dtype=np.uint64)
    g = warmed(lambda n, x: n * x - n, np.uint64(2), ints)
    for n in (0, 3, 2**63 - 1, 2**63, 2**64 - 1, 7):
        with np.errstate(over="ignore"):
            found, expected = g(np.uint64(n), ints), np.uint64(n) * ints - np.uint64(n)
        assert found.dtype == np.uint64 and np.array_equal(found, expected)
    assert g.ordinary == 2  # of 64 bits
    h = td.jit(lambda n, x: td.where(n > 2**62, x, n), backend="native")
    for n in (2**64 - 1, 3, 2**63, 2**62 + 1, 3):
        assert np.array_equal(h(np.uint64(n), ints), np.where(n > 2**62, ints, np.uint64(n)))


def test_unsigned_numbers_that_count_and_choose() -> None:
    f = td.jit(lambda n, s: td.iterate(n, lambda y: y + td.cond(n > 2, s, -s), td.fill(n, s)),
               backend="native")  # fmt: skip
    for n in (3, 3, 3, 2, 5):
        found = f(np.uint64(n), np.float16(0.5))
        assert found.dtype == np.float16
        assert np.array_equal(found, np.full(n, 0.5 + (n if n > 2 else -n) * 0.5, np.float16))
