"""Loops of small launches that are one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import calls, merged
from treadle.backend.native.runtime import replay

pytestmark = pytest.mark.skipif(not replay.supported(), reason="calls are not repeated here")

A, B = np.random.default_rng(3).random((2, 20))
M = np.random.default_rng(4).random((20, 20))


@pytest.fixture
def compiled(monkeypatch):
    """The loops that were compiled as a whole, to run few iterations at a time."""
    found = []
    monkeypatch.setattr(merged, "CHUNK", 64)
    monkeypatch.setattr(merged, "OUTER_CHUNK", 3)
    monkeypatch.setattr(merged, "AT_ONCE", 0)
    compile_loop = merged._compiled

    def noted(*args):
        found.append(compile_loop(*args))
        return found[-1]

    monkeypatch.setattr(merged, "_compiled", noted)
    return found


def perceptron(m, w):
    def step(k, w):
        row = m[k % 20]
        return td.cond(td.sum(row * w) < 1, w + 0.1 * row, w)

    return td.loop(500, step, w)


def cache(a, b):  # single elements of small arrays, by what folds find
    def step(k, s):
        keys, age, misses = s
        x = td.cast(a[k % 20] * 9, td.int64)
        known = td.any(keys == x)
        slot = td.where(known, td.argmax(keys == x), td.argmin(age))
        return keys.at[slot].set(x), age.at[slot].set(k), misses + td.where(known, 0, 1)

    return td.loop(500, step, (td.full(8, -1), td.zeros(8, "int64"), 0))


def moving(a, b):  # each state becomes the next one
    return td.loop(301, lambda k, s: (s[1], s[2], td.roll(s[0], 1) * 0.9), (a, b, a + b))


def alternating(m, w):
    def step(k, s):
        x, y = s
        return td.minimum(m @ y, 1.0) + 0.1 * x, x - y * 0.5

    return td.loop(400, step, (w, w * 2))


def triangle(a, b):  # slices whose extents depend on the counter
    def step(k, c):
        return c.at[k % 20 :].set((c[k % 20 :] - c[k % 20 - 1 : -1]) / (b[k % 20 :] + 1.0))

    return td.loop(1, 200, lambda k, c: step(td.maximum(k % 20, 1), c), a)


def halving(a, b):
    def body(s):
        x, n, k = s
        h = n // 2
        left, right = x[:n:2], x[1:n:2]
        x = x.at[:h].set((left + right) / 2).at[h : 2 * h].set((left - right) / 2)
        return x, td.where(h > 1, h, 16), k + 1

    return td.while_loop(lambda s: (s[2] < 100) & (td.max(s[0]) < 9), body, (a[:16], 16, 0))


def nested(m, w):
    def outer(k, s):
        m, w = s

        def inner(j, w):
            return td.cumsum(td.roll(w, 1))[::-1] * 0.1 + m[j]

        w = td.loop(7, inner, w)
        return m.at[k % 20].set(w / (1 + td.max(td.abs(w)))), w

    return td.loop(40, outer, (m, w))


def growing(a, b):  # more elements than there is memory for on the stack
    def step(k, c):
        n = 1000 + k % 3
        more = td.cumsum(td.replicate(c[:1], n)) * 1e-3
        return c.at[k % 20].set(td.sum(more[: n - 1] * more[1:]) * 1e-3)

    return td.loop(100, step, a)


def sieve(a, b):  # slices whose steps depend on the counter, in branches
    def step(k, s):
        p = k % 50 + 2
        return td.cond(s[p], s.at[p * p :: p].set(False), s)

    return td.loop(210, step, td.replicate(a[0] < 9, 3000))


def inner(a, b):  # the state grows, and the inner loop reads an array that does
    def step(k, s):
        c, w = s
        more = td.cumsum(c) * 0.1
        w = td.loop(150, lambda j, w: td.roll(w, 1) * 0.5 + more[j % 20] * td.max(w), w)
        return td.concatenate([c, more[:1]]), w

    return td.loop(9, step, (a, b))


PROGRAMS = [
    (perceptron, M, A), (cache, A, B), (moving, A, B), (alternating, M, A), (triangle, A, B),
    (halving, A, B), (nested, M, A), (growing, A, B), (inner, A, B), (sieve, A, B),
]  # fmt: skip


@pytest.mark.parametrize(("program", "x", "y"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_results_are_those_of_single_launches(program, x, y, compiled, monkeypatch):
    merges = td.jit(program, backend="native")
    results = [merges(x, y) for _ in range(4)]
    assert compiled
    for where in ("calls", "loops"):
        monkeypatch.setattr(f"treadle.backend.native.{where}.merge", lambda *_, **__: None)
    single = td.jit(program, backend="native")
    expected = [single(x, y) for _ in range(3)][-1]
    for result in results:
        for one, other in zip(_flat(result), _flat(expected), strict=True):
            assert np.array_equal(one, other)
    reference = td.jit(program, backend="reference")(x, y)
    for one, other in zip(_flat(results[-1]), _flat(reference), strict=True):
        assert np.allclose(one, other)


def _flat(result):
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_folds_of_few_elements_have_the_same_bits(dtype, compiled, monkeypatch):
    """How many elements there are is known to the kernel of the loop, and decides its code."""

    def program(a, i):
        def step(k, s):
            a, total = s
            found = td.stack(
                [
                    td.sum(a),
                    td.min(a),
                    td.max(a),
                    td.prod(a[:3]),
                    td.cast(td.argmin(a), a.dtype),
                    td.cast(td.argmax(a), a.dtype),
                ]
            )
            return td.roll(a, 1), total + td.cast(found, total.dtype)

        return td.loop(260, step, (a, td.zeros(6)))[1], td.loop(
            260, lambda k, m: td.maximum(td.min(a), m * 0 + td.max(a[i:])), td.max(a)
        )

    for n in (1, 3, 8, 13, 17, 40, 63, 65):
        for special in ([], [-0.0, 0.0], [0.0, -0.0], [np.nan], [np.inf, -np.inf]):
            a = np.random.default_rng(n).integers(0, 99, n).astype(dtype)
            if special and not np.issubdtype(dtype, np.floating):
                continue
            a[-len(special) :] = special[: a.size] if special else a
            merges, single = (td.jit(program, backend="native") for _ in range(2))
            results = [merges(a, 0) for _ in range(3)]
            with monkeypatch.context() as alone:
                for where in ("calls", "loops"):
                    alone.setattr(f"treadle.backend.native.{where}.merge", lambda *_, **__: None)
                expected = [single(a, 0) for _ in range(3)][-1]
            for one, other in zip(results[-1], expected, strict=True):
                assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert compiled


def test_parameters_are_those_of_the_call(compiled):
    def program(a, n, factor, big):
        return td.loop(n, lambda k, a: td.roll(a, 1) * factor + td.sum(a) * big, a)

    f, wanted = td.jit(program, backend="native"), td.jit(program, backend="reference")
    for n, factor, big in [(300, 0.5, False), (300, 0.5, False), (2, 0.25, True), (0, 1.0, True)]:
        assert np.allclose(f(A, n, factor, big), wanted(A, n, factor, big))
    assert compiled


def test_no_small_loop_is_compiled_for_few_iterations(compiled):
    f = td.jit(
        lambda a, b: td.loop(20, lambda k, a: td.roll(a, 1) * td.sum(b), a), backend="native"
    )
    for _ in range(4):
        f(A, B)
    assert not compiled


def test_few_loops_of_a_program_are_compiled(compiled, monkeypatch):
    factor = float(np.random.default_rng().random())  # another program each time
    monkeypatch.setattr(merged, "MOST", 1)

    def program(a):
        return td.loop(300, lambda k, a: td.roll(a, 1) * factor * td.sum(a), a)

    f = td.jit(program, backend="native")
    for n in (3, 4, 5):
        for _ in range(3):
            result = f(np.ones(n))
        assert np.allclose(result, td.jit(program, backend="reference")(np.ones(n)))
    assert compiled[0] is not None and not any(compiled[1:])


def test_large_arrays_keep_their_threads(compiled):
    large = np.ones(1 << 20)
    f = td.jit(lambda a: td.loop(300, lambda k, a: td.roll(a, 1) * 0.5, a), backend="native")
    for _ in range(2):
        f(large)
    assert not compiled


def test_a_failed_check_is_reported_as_before(compiled):
    def program(a, n):
        def step(k, a):
            m = td.where(k < n, 3, 4)
            return a.at[: td.cast(td.minimum(a[0], 3.0), td.int64)].set(a[1 : m + 1] * 0.5)

        return td.loop(300, step, a)

    f = td.jit(program, backend="native")
    start = np.full(20, 1e9)
    start[1:4] = 1e120
    for _ in range(3):
        with pytest.raises(td.TreadleError):
            f(start, 2)


def test_calls_go_on_while_loops_are_compiled(monkeypatch):
    """Another thread compiles a loop; it is part of the calls that are recorded after that."""
    waiting, recorded = [], []
    monkeypatch.setattr(calls, "later", lambda job, after: waiting.append(job))
    compile_loop = merged._compiled
    monkeypatch.setattr(
        merged, "_compiled", lambda *given: recorded.append(compile_loop(*given)) or recorded[-1]
    )
    factor = float(np.random.default_rng().random())  # another program each time

    def program(a):
        return td.loop(300, lambda k, a: td.roll(a, 1) * factor * td.sum(a) + 1 / 300, a)

    f, wanted = td.jit(program, backend="native"), td.run(program(td.use(A)), backend="native")
    for _ in range(5):
        assert np.array_equal(f(A), wanted)
    assert recorded == [None] and len(waiting) == 1
    waiting.pop()()
    for _ in range(3):
        assert np.array_equal(f(A), wanted)
    assert len(recorded) == 2 and recorded[1] is not None and not waiting
