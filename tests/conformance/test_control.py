"""where, cond, and loops, on scalars in kernels and on Arrays outside."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import steps

from .helpers import AT_ONCE, EXTENTS, assert_same, devices, not_in_parts, small, wide


@pytest.mark.parametrize("n", EXTENTS)
def test_where_and_cond_in_kernels(check, n):
    a = wide("int32", n)
    b = small("float32", n)
    check(
        {
            "where": (
                lambda: td.map(lambda x, y: td.where(x > 0, x, y), a, b),
                np.where(a > 0, a, b),
            ),
            "cond": (
                lambda: td.map(lambda x, y: td.cond(x > 0, y, -y), a, b),
                np.where(a > 0, b, -b),
            ),
            "promoted": (
                lambda: td.map(lambda x, y: td.cond(x > 0, x, y), a, b),
                np.where(a > 0, a, b),
            ),
            "nested": (
                lambda: td.map(
                    lambda x: td.cond(x > 0, td.cond(x % 2 == 0, 1, 2), td.where(x < -5, 3, 4)), a
                ),
                np.where(a > 0, np.where(a % 2 == 0, 1, 2), np.where(a < -5, 3, 4)),
            ),
            "tuples": (
                lambda: td.map(lambda x, y: td.cond(x > 0, (x, y), (-x, y + 1)), a, b),
                (np.where(a > 0, a, -a), np.where(a > 0, b, b + 1)),
            ),
            "of a literal": (
                lambda: td.map(lambda x: td.cond(x > 0, 1.5, 2), a),
                np.where(a > 0, 1.5, 2.0),
            ),
        }
    )


def test_cond_never_reads_the_other_side(run):
    """A guarded index is neither read nor checked, in kernels, loops, folds and permutes."""
    a = np.arange(10.0)
    used = td.use(a)
    table = td.use(np.array([1, 2, 3]))
    nothing = td.use(np.zeros(0))
    i = np.arange(20)
    halved = np.where(i < 10, np.minimum(i, 9) * 1.0, -1.0)

    def guarded(k):
        return td.cond((k >= 0) & (k < 10), used[k], -1.0)

    def shared(k):
        value = used[k] * 2  # used twice, under the guard both times
        return td.cond(k < 10, value + value, 0.0)

    programs = {
        "index": (td.generate((20,), guarded), halved),
        "shifted": (
            td.generate((20,), lambda k: guarded(k - 5) + guarded(k + 5)),
            np.array([*([-1.0] * 5), *range(10), *([-1.0] * 5)])
            + np.array([*range(5, 10), *([-1.0] * 15)]),
        ),
        "shared": (td.generate((20,), shared), np.where(i < 10, np.minimum(i, 9) * 4.0, 0.0)),
        "both sides": (
            td.generate(
                (13,), lambda k: td.cond(k < 10, used[k], td.cast(table[k - 10], td.float64))
            ),
            np.concatenate([a, [1.0, 2.0, 3.0]]),
        ),
        "nested": (
            td.generate(
                (20,),
                lambda k: td.cond(k < 10, td.cond(used[k] > 4, used[k - 4], used[k + 5]), -1.0),
            ),
            np.array([*range(5, 10), *range(1, 6), *([-1.0] * 10)]),
        ),
        "of an empty array": (
            td.generate((5,), lambda k: td.cond(k < 0, nothing[k], 3.5)),
            np.full(5, 3.5),
        ),
        "in a loop": (
            td.generate(
                (4,),
                lambda k: td.loop(6, lambda j, s: s + td.cond(k + j < 4, used[k + j], 0.0), 0.0),
            ),
            np.array([6.0, 6.0, 5.0, 3.0]),
        ),
        "in a fold": (
            td.fold(lambda x, y: x + y, 0.0, td.generate((20,), guarded)),
            np.array(45.0 - 10),
        ),
        "in a permute": (
            td.permute(
                lambda n, o: n + o,
                np.zeros(3, "i8"),
                lambda k: td.cond(k < 3, table[k] - 1, td.ignore),
                np.ones(20, "i8"),
            ),
            np.ones(3, "i8"),
        ),
        "division": (
            td.map(lambda x: td.cond(x != 0, 12 // x, -1), np.array([0, 3, 5])),
            np.array([-1, 4, 2]),
        ),
    }
    for label, (expression, want) in programs.items():
        assert_same(run(expression, check=True), want, label=f"checked {label}")
    unchecked = run({label: expression for label, (expression, _) in programs.items()})
    for label, (_, want) in programs.items():
        assert_same(unchecked[label], want, label=label)


def test_a_negative_index_may_stand_in_a_side_of_cond(run):
    """A number below 0 is no index inside kernels; on the side that is not taken that is no error,
    neither while tracing nor later."""
    a, pairs = np.arange(5.0), td.zip(np.arange(5), np.arange(5.0))
    used = td.use(a)
    never = np.array([9.0])
    cases = {
        "then": td.map(lambda x: td.cond(x > 5, used[-1], x), a),
        "else": td.map(lambda x: td.cond(x < 9, x, used[-7] * 2), a),
        "nested": td.map(lambda x: td.cond(x > 5, td.cond(x > 6, used[-1], used[-2]), x), a),
        "one of two components": td.map(lambda x: td.cond(x > 5, pairs[-1][1], x), a),
        "a tuple": td.map(lambda x: td.cond(x > 5, pairs[-3], (0, x)), a),
        "a known side": td.map(lambda x: td.cond(False, used[-1], x), a),
        "in a loop": td.map(
            lambda x: td.loop(3, lambda k, s: td.cond(k > 5, used[-1], s + k), x), a
        ),
        "ignored": td.permute(
            lambda new, old: new + old,
            np.zeros(5),
            lambda i: td.cond(a[0] > 1, td.cast(used[-1], td.int64), i),
            a,
        ),
    }
    for name, expression in cases.items():
        for check in (False, True):
            run(expression, check=check)
        assert name
    taken = td.map(lambda x: td.cond(x > 5, used[-1], x), never)
    with pytest.raises(td.IndexOutOfBounds):
        run(taken, check=True)


@pytest.mark.parametrize(
    "f",
    {
        "used": lambda a: lambda x: a[-1] + x,
        "not used": lambda a: lambda x: (a[-1], x)[1],
        "where": lambda a: lambda x: td.where(x > 5, a[-1], x),
        "beside the side": lambda a: lambda x: (lambda v: td.cond(x > 5, v, x) + v)(a[-1]),
        "the predicate": lambda a: lambda x: td.cond(a[-1] > 5, x, -x),
        "a body": lambda a: lambda x: td.loop(0, lambda k, s: s + a[-1], x),
        "the known side": lambda a: lambda x: td.cond(True, a[-1], x),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_elsewhere_a_negative_index_is_an_error_of_tracing(f):
    a = td.use(np.arange(5.0))
    with pytest.raises(td.IndexOutOfBounds, match="never count from the end"):
        td.map(f[1](a), a)


def test_where_evaluates_both_sides(run):
    used = td.use(np.arange(10.0))
    expression = td.generate((20,), lambda k: td.where(k < 10, used[k], -1.0))
    with pytest.raises(td.IndexOutOfBounds):
        run(expression, check=True)


def test_cond_on_arrays(run):
    a, b = small("int32", (4, 5), 1), small("int32", (4, 5), 2)
    ua, ub = td.use(a), td.use(b)
    for threshold in (-1000, 1000):
        chosen = td.cond(td.sum(ua) > threshold, ua * 2, ub - 1)
        want = a * 2 if a.sum() > threshold else b - 1
        assert_same(run(chosen), want)
        assert_same(run(chosen + ub), want + b)
        pair = td.cond(td.the(td.sum(ua)) > threshold, td.zip(ua, ub), td.zip(ub, ua))
        assert_same(run(pair), (a, b) if a.sum() > threshold else (b, a))


def test_cond_on_arrays_evaluates_one_side(run):
    """The side not chosen would fail its checks."""
    a = td.use(np.arange(5))
    bad = td.generate((3,), lambda i: a[i + 100])
    good = td.generate((3,), lambda i: a[i])
    assert_same(run(td.cond(td.sum(a) > 0, good, bad), check=True), np.arange(3))
    assert_same(run(td.cond(td.sum(a) < 0, bad, good), check=True), np.arange(3))


# ---------------------------------------------------------------------------------------------
# Loops on scalars


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def test_while_loop_on_scalars(check):
    a, b = np.arange(1, 98), np.arange(98, 1, -1)

    def steps(n):
        return td.while_loop(
            lambda s: s[0] != 1,
            lambda s: (td.cond(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )[1]

    def gcd(x, y):
        return td.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (x, y))[0]

    def mandelbrot(x, y):
        def body(s):
            z, k = s
            return z * z + (x + y * 1j), k + 1

        return td.while_loop(
            lambda s: (td.real(s[0] * td.conj(s[0])) <= 4.0) & (s[1] < 30), body, (0j, 0)
        )[1]

    x = np.linspace(-2, 0.5, 7)
    check(
        {
            "collatz": (lambda: td.map(steps, a), np.array([collatz(int(n)) for n in a])),
            "gcd": (lambda: td.map(gcd, a, b), np.gcd(a, b)),
            "one state": (
                lambda: td.map(lambda n: td.while_loop(lambda s: s < 100, lambda s: s * 2, n), a),
                np.array([n * 2 ** max(0, int(np.ceil(np.log2(100 / n)))) for n in a]),
            ),
            "no iteration": (
                lambda: td.map(lambda n: td.while_loop(lambda s: s < 0, lambda s: s - 1, n), a),
                a,
            ),
            "complex state": (
                lambda: td.generate(
                    (7,), lambda i: mandelbrot(-2 + i * (2.5 / 6), td.float64(0.25))
                ),
                np.array([escape(v + 0.25j) for v in x]),
            ),
        }
    )


def escape(c):
    z, k = 0j, 0
    while abs(z * z.conjugate()) <= 4 and k < 30:
        z, k = z * z + c, k + 1
    return k


def test_iterate_and_loop_on_scalars(check):
    a = np.arange(20)
    m, v = small("int64", (5, 7), 1), small("int64", (7, 6), 2)
    um, uv = td.use(m), td.use(v)
    f = small("float32", 9)
    uf = td.use(f)
    check(
        {
            "iterate": (
                lambda: td.map(lambda x: td.iterate(5, lambda s: s * 3 + 1, x), a),
                a * 243 + 121,
            ),
            "iterate 0": (lambda: td.map(lambda x: td.iterate(0, lambda s: s * 3, x), a), a),
            "iterate x times": (
                lambda: td.map(lambda x: td.iterate(x, lambda s: s + 2, td.int64(1)), a),
                1 + 2 * a,
            ),
            "iterate a tuple": (
                lambda: td.map(
                    lambda x: td.iterate(x, lambda s: (s[1], s[0] + s[1]), (0, 1))[0], a
                ),
                np.array([fibonacci(int(n)) for n in a]),
            ),
            "loop": (
                lambda: td.map(lambda x: td.loop(x, lambda k, s: s + k * k, 0), a),
                np.array([sum(k * k for k in range(n)) for n in a]),
            ),
            "product": (
                lambda: td.generate(
                    (5, 6), lambda i, j: td.loop(7, lambda k, s: s + um[i, k] * uv[k, j], 0)
                ),
                m @ v,
            ),
            "float state": (
                lambda: td.generate(
                    (3,), lambda i: td.loop(9, lambda k, s: s + uf[k], td.float32(0))
                ),
                np.full(3, f.sum()),
            ),
            "loop in a loop": (
                lambda: td.map(
                    lambda x: td.loop(
                        x, lambda k, s: td.loop(k, lambda j, t: t + j * k, s), td.int64(0)
                    ),
                    a,
                ),
                np.array([sum(j * k for k in range(n) for j in range(k)) for n in a]),
            ),
            "to the extent": (
                lambda: td.generate(
                    (5,), lambda i: td.loop(um.shape[1], lambda k, s: s + um[i, k], 0)
                ),
                m.sum(axis=1),
            ),
        }
    )


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


# ---------------------------------------------------------------------------------------------
# Loops on Arrays


def test_while_loop_on_arrays(check):
    a = np.array([1.0, 5.0, 100.0, 3.0])

    def halve():
        return td.while_loop(lambda x: td.max(x) > 1, lambda x: x / 2, td.use(a))

    def counted():
        def body(state):
            x, k = state
            return x + td.cast(k, td.float64), k + 1

        return td.while_loop(lambda s: s[1] < 10, body, (td.use(a), td.unit(0)))

    def growing_sum():
        return td.while_loop(
            lambda s: td.the(td.sum(s)) < 1000, lambda s: s + td.use(a), td.fill((4,), 0.0)
        )

    want, iterations = np.zeros(4), 0
    while want.sum() < 1000:
        want, iterations = want + a, iterations + 1
    assert iterations > 3
    check(
        {
            "one array": (halve, a / 128),
            "a tuple": (counted, (a + 45, np.array(10))),
            "captured": (growing_sum, want),
            "no iteration": (
                lambda: td.while_loop(lambda x: td.max(x) > 1e9, lambda x: x * 2, td.use(a)),
                a,
            ),
            "then used": (lambda: td.sum(halve()) * 2, np.array((a / 128).sum() * 2)),
        }
    )


def test_iterate_and_loop_on_arrays(check):
    a = small("int64", (5, 6), high=50)
    used = td.use(a)
    smooth = np.array([0.0, 0.0, 64.0, 0.0, 0.0])

    def diffuse(x):
        return td.stencil(lambda w: (w[-1] + w[1]) / 2, x, boundary=td.wrap)

    want = smooth
    for _ in range(3):
        want = (np.roll(want, 1) + np.roll(want, -1)) / 2
    pair = (a, a.sum())
    for _ in range(3):
        pair = (pair[0] + pair[1], pair[0].max())
    check(
        {
            "iterate": (lambda: td.iterate(4, lambda x: x * 2 + 1, used), a * 16 + 15),
            "iterate 0": (lambda: td.iterate(0, lambda x: x * 2 + 1, used), a),
            "iterate a computed count": (
                lambda: td.iterate(td.the(td.unit(2) + 1), lambda x: x + 5, used),
                a + 15,
            ),
            "loop": (lambda: td.loop(5, lambda k, x: x + k * k, used), a + 30),
            "loop 0": (lambda: td.loop(0, lambda k, x: x + k * k, used), a),
            "stencil": (lambda: td.iterate(3, diffuse, smooth), want),
            "roll": (
                lambda: td.iterate(7, lambda x: td.roll(x, 1, axis=1), used),
                np.roll(a, 7, 1),
            ),
            "tuple": (
                lambda: td.iterate(3, lambda s: (s[0] + s[1], td.max(s[0])), (used, td.sum(used))),
                pair,
            ),
            "nested": (
                lambda: td.loop(3, lambda i, x: td.loop(2, lambda j, y: y + i * 10 + j, x), used),
                a + 63,
            ),
            "index in a kernel": (
                lambda: td.loop(4, lambda k, x: td.imap(lambda i, j, v: v + k * i - j, x), used),
                a + 6 * np.arange(5)[:, None] - 4 * np.arange(6),
            ),
            "input of a loop used again": (
                lambda: td.iterate(3, lambda x: x + used, used) - used,
                a * 3,
            ),
        }
    )


def test_dicts_as_states(run):
    a = np.arange(4.0)

    def iteration(s):
        return {"speed": {"v": s["speed"]["v"] / 2}, "x": s["x"] + s["speed"]["v"]}

    got = run(td.iterate(2, iteration, {"x": td.use(a), "speed": {"v": td.ones(4)}}))
    assert list(got) == ["x", "speed"]
    assert_same(got, {"x": a + 1.5, "speed": {"v": np.full(4, 0.25)}})
    counted = run(
        td.while_loop(
            lambda s: s["n"] < 3, lambda s: {**s, "n": s["n"] + 1}, {"n": 0, "y": td.use(a)}
        )
    )
    assert_same(counted, {"n": np.array(3), "y": a})

    def inside(x):
        return td.loop(3, lambda k, s: {"p": s["p"] + k, "q": s["p"]}, {"p": x, "q": x})["q"]

    assert_same(run(td.map(inside, a)), a + 1)


def test_other_keys_than_the_state_has():
    with pytest.raises(td.TracingError, match="a dict of 'x', 'y', but returned a dict of 'x'"):
        td.iterate(2, lambda s: {"x": s["x"]}, {"x": np.ones(2), "y": 1.0})
    with pytest.raises(td.TracingError, match="a dict of 'x', but returned an Array"):
        td.iterate(2, lambda s: s["x"], {"x": np.ones(2)})
    with pytest.raises(td.TracingError, match=r"state, \(a, \[b\]\), but returned \(a, \[b, c\]\)"):
        td.iterate(2, lambda s: (s[0], [s[0], 1.0]), (np.ones(2), [1.0]))
    with pytest.raises(td.TracingError, match="the body of iterate returned None"):
        td.iterate(2, lambda s: None, [np.ones(2)])
    with pytest.raises(td.TracingError, match=r"\[\[a, b\], c\], but returned \[a, \[b, c\]\]"):
        td.iterate(2, lambda s: [s[0][0], [s[0][1], s[1]]], [[1.0, 2.0], 3.0])
    with pytest.raises(td.TracingError, match="must return 'relu' unchanged, but returned a str"):
        td.iterate(2, lambda s: [s[0], "tanh"], [np.ones(2), "relu"])
    with pytest.raises(td.TracingError, match="needs a state, got None"):
        td.iterate(2, lambda s: s, None)


@dataclasses.dataclass
class Layer:
    weights: object
    bias: object
    activation: object = None


def test_states_are_what_arguments_of_compiled_functions_are(run):
    """Lists, dicts and classes of arrays, with text, functions and None inside."""
    w = np.arange(4.0).reshape(2, 2)

    def layers():
        return [Layer(td.use(w), [1.0, None], td.tanh), {"kind": "last", "w": (td.use(w[0]),)}]

    def halve(state):
        first, last = state
        assert first.activation is td.tanh and first.bias[1] is None and last["kind"] == "last"
        first = Layer(first.weights / 2, [first.bias[0] + 1, None], first.activation)
        return [first, {"w": (last["w"][0] + 1,), "kind": "last"}]

    for looped in (
        td.iterate(3, halve, layers()),
        td.loop(3, lambda k, s: halve(s), layers()),
        td.while_loop(lambda s: s[0].bias[0] < 4, halve, layers()),
        td.scan(lambda s, x: (halve(s), None), layers(), length=3)[0],
    ):
        first, last = looped
        assert isinstance(first, Layer) and first.activation is td.tanh and last["kind"] == "last"
        got = run((first.weights, first.bias[0], last["w"][0]))
        assert_same(got, (w / 8, np.array(4.0), w[0] + 3))

    def inside(x):
        a, b = td.iterate(3, lambda s: [s[1], s[0] + s[1]], [x, x])
        return a + b

    assert_same(run(td.map(inside, w)), 8 * w)
    chosen = td.cond(td.use(w)[0, 1] > 0, [w, {"a": 1.0}], [2 * w, {"a": 2.0}])
    assert_same(run(chosen), [w, {"a": np.array(1.0)}])


def test_none_inside_results(run):
    """As `td.scan` returns it where there is nothing to collect."""
    x = np.arange(4.0)
    assert_same(run(td.scan(lambda s, x: (s + x, None), 0.0, x)[0]), np.array(6.0))
    last, nothing = td.jit(lambda x: td.scan(lambda s, x: (s + x, None), 0.0, x))(x)
    assert nothing is None and last == 6.0
    assert td.run({"a": [None, td.use(x)]})["a"][0] is None
    with pytest.raises(td.TracingError, match="the compiled function returned None"):
        td.jit(lambda x: None)(x)


def test_gradients_of_states_that_are_lists(run):
    def loss(params):
        last = td.iterate(3, lambda s: [s[0] * s[1]["b"], s[1]], params)
        return td.sum(last[0])

    a, b = np.array([1.0, 2.0]), np.array([3.0, 0.5])
    assert_same(run(td.grad(loss)([a, {"b": b}])), [b**3, {"b": 3 * a * b**2}])


def test_dicts_inside_tuples(check):
    def body(state):
        x, inner = state
        return x + inner["y"], {"y": inner["y"] * 2}

    check({"": (lambda: td.iterate(3, body, (np.ones(2), {"y": 1.0}))[0], np.full(2, 8.0))})


def test_many_turns(run):
    """A thousand iterations of an array loop."""

    def body(state):
        x, k = state
        return td.roll(x, 1), k + 1

    x, k = run(td.while_loop(lambda s: s[1] < 1000, body, (td.iota(7), td.unit(0))))
    assert_same(x, np.roll(np.arange(7), 1000))
    assert_same(k, np.array(1000))


def test_loop_states_do_not_disturb_each_other(run):
    """Swapped and shifted states: an iteration reads the old state whole."""
    a, b = np.arange(5), np.arange(5) * 10
    used = td.use(a), td.use(b)
    swapped = td.iterate(3, lambda s: (s[1], s[0]), used)
    shifted = td.iterate(3, lambda s: (s[1] + 1, td.reverse(s[0], 0)), used)
    want = (a, b)
    for _ in range(3):
        want = (want[1] + 1, want[0][::-1])
    assert_same(run(swapped), (b, a))
    assert_same(run(shifted), want)
    first, second = run((swapped[0], used[0] + 0))
    assert_same(first, b)
    assert_same(second, a)


def test_run_time_counts(backend):
    """The number of iterations may be an argument of a compiled function; it is traced once."""
    traces = []

    @td.jit(backend=backend)
    def program(a, n):
        traces.append(1)
        return td.iterate(n, lambda x: x * 2, a), td.map(
            lambda x: td.iterate(n, lambda s: s + 1, x), a
        )

    a = np.arange(5)
    for n in (0, 1, 7):
        assert_same(program(a, n), (a * 2**n, a + n))
    assert len(traces) == 1


def test_checked_loops_stop_where_the_index_leaves(run):
    used = td.use(np.arange(5.0))
    good = td.generate((1,), lambda i: td.loop(5, lambda k, s: s + used[k], 0.0))
    bad = td.generate((1,), lambda i: td.loop(6, lambda k, s: s + used[k], 0.0))
    assert_same(run(good, check=True), np.array([10.0]))
    with pytest.raises(td.IndexOutOfBounds):
        run(bad, check=True)


def test_checks_of_a_side_hold_where_it_is_chosen(backend):
    """Of extents that are known at the call; the other side's do not matter."""
    full, empty = small("float64", (4,)), np.zeros(0)
    shaped = td.jit(
        lambda p, x: td.cond(p, td.fill((2, 2), 0.0), td.reshape(x, (2, 2))), backend=backend
    )
    largest = td.jit(lambda p, x: td.cond(p, td.unit(0.0), td.max(x)), backend=backend)
    added = td.jit(lambda p, x, y: td.cond(p, td.unit(0.0), td.sum(x + y)), backend=backend)
    for _ in range(2):  # the first call, and one like it
        assert_same(shaped(False, full), full.reshape(2, 2))
        assert_same(shaped(True, full[:3]), np.zeros((2, 2)))
        assert_same(largest(True, empty), np.array(0.0))
        assert_same(added(True, full, full[:3]), np.array(0.0))
        with pytest.raises(td.ShapeError, match=r"3 elements of shape .x\.shape.* \(2, 2\)"):
            shaped(False, full[:3])
        with pytest.raises(td.ShapeError, match="empty axis"):
            largest(False, empty)
        with pytest.raises(td.ShapeError, match="broadcast"):
            added(False, full, full[:3])


def test_states_whose_extents_a_turn_computes(backend):
    """What a filter makes of a state may have other extents in every iteration; what a cond
    makes of it and of another array is checked where that is."""

    def program(a, b, n):
        chosen = td.iterate(n, lambda s: td.cond(td.sum(s) % 2 == 0, a, s + b), b)
        kept = td.iterate(n, lambda s: td.filter(lambda x: x >= 0, s)[0] - 1, a)
        return chosen, kept

    compiled = td.jit(program, backend=backend)
    a, b = np.arange(3, 9), np.arange(6) * 3
    for _ in range(2):
        want = b
        for _ in range(4):
            want = a if want.sum() % 2 == 0 else want + b
        assert_same(compiled(a, b, 4), (want, a - 4))
        want = a if want.sum() % 2 == 0 else want + b
        assert_same(compiled(a, b, 5), (want, a[1:] - 5))
        with pytest.raises(td.ShapeError):
            compiled(a, b[1:], 4)


def test_conds_on_arrays_in_loops_over_arrays(check):
    """Chosen by the counter or the state, also in loops within loops; extents agree each time."""
    x = np.arange(5, dtype="i4")
    y, zero = 10 * x, np.asarray(np.int64(0))

    def iteration(s):
        return td.cond(td.the(s[2]) % 2 == 0, s[0], s[1]), s[1], s[2] + 1

    def after(n):
        return x if n < 2 else y  # iteration 0 keeps x, iteration 1 takes y

    three = td.iterate(2, lambda s: iteration(td.iterate(2, iteration, s)), (x, y, zero))
    check(
        {
            "the counter": (
                lambda: td.loop(3, lambda k, s: td.cond(k % 2 == 0, s, y), td.use(x)), y),
            "the state": (lambda: td.iterate(1, iteration, (x, y, zero))[0], after(1)),
            "two iterations": (lambda: td.iterate(2, iteration, (x, y, zero))[0], after(2)),
            "loops in loops": (lambda: three, (y, y, np.array(6))),
        }
    )  # fmt: skip


def test_a_kernel_that_a_side_of_a_cond_shares_with_what_is_outside(check):
    """One kernel has a row and its opposite; a side takes the row, the next state the opposite."""
    rows = np.arange(12).reshape(4, 3) % 5 < 2

    def step(s, row):
        chosen = td.cond(s[2] < 2, row, s[1])
        return (chosen, ~row, s[2] + 1), chosen

    taken = [rows[0], rows[1], ~rows[1], ~rows[2]]
    used = td.use(rows)
    check(
        {
            "in a loop": (
                lambda: td.scan(step, (used[3], used[3], 0), used),
                ((taken[3], ~rows[3], np.array(4)), np.array(taken)),
            ),
            "of arrays of their own": (
                lambda: td.scan(step, (rows[3].copy(), rows[3].copy(), 0), used),
                ((taken[3], ~rows[3], np.array(4)), np.array(taken)),
            ),
            "outside of loops": (
                lambda: (td.cond(td.sum(used[0]) > 0, used[0] & used[1], used[2]),
                         ~(used[0] & used[1])),
                (rows[0] & rows[1], ~(rows[0] & rows[1])),
            ),
        }
    )  # fmt: skip


def test_conds_that_change_an_extent_in_a_turn(backend):
    x = np.arange(5, dtype="i4")
    f = td.jit(lambda x, z: td.loop(3, lambda k, s: td.cond(k < 1, s, z), x), backend=backend)
    assert_same(f(x, x + 1), x + 1)
    assert_same(f(x, x[1:]), x[1:])


@not_in_parts(AT_ONCE, emulated=True)
def test_what_does_not_change_is_computed_once(backend):
    """An earlier loop, and what is the same in all iterations of a nest."""
    calls = []

    def half(x):
        calls.append(None)
        return x * 0.5

    def halved(a):
        return td.foreign_array({backend: half}, a, fallback=lambda x: x * 0.5)

    def program(a):
        earlier = td.loop(5, lambda k, m: halved(m), a)

        def outer(k, s):
            return td.loop(2, lambda j, s: s + earlier + halved(a), s)

        return td.loop(4, outer, a)

    a = np.arange(3.0)
    assert_same(td.jit(program, backend=backend)(a), a + 8 * (a / 32 + a / 2))
    if devices() is None:  # parts of loops on several GPUs begin anew
        assert len(calls) == 6


def test_a_function_of_no_arrays_is_called_at_each_call(backend):
    calls = []

    def numbers():
        calls.append(None)
        return np.arange(3) + len(calls)

    @td.jit(backend=backend)
    def program(a):
        return a + td.foreign_array({backend: numbers}, fallback=lambda: td.iota(3))

    a = np.arange(3)
    first = program(a)
    assert [int(program(a)[0] - first[0]) for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (2**63 - 3, 3 - 2**63),
        (1, -(2**63)),
        (2**63 - 1, -(2**63)),
        (-(2**63), 2 - 2**63),
        (2**63 - 3, 2**63 - 1),
        (2**62, -(2**62) - 1),
        (3, 5),
        (5, 3),
    ],
)
def test_bounds_whose_difference_wraps(backend, start, stop):
    a = np.arange(5)
    want = a + sum(k % 7 for k in range(start, stop))
    programs = {
        "of elements": lambda n, m: td.map(
            lambda x: td.loop(n, m, lambda k, s: s + k % 7, x), td.use(a)
        ),
        "of bounds that are elements": lambda n, m: td.map(
            lambda x: td.loop(x * 0 + n, x * 0 + m, lambda k, s: s + k % 7, x), td.use(a)
        ),
        "of arrays": lambda n, m: td.loop(n, m, lambda k, s: s + k % 7, td.use(a)),
    }
    for label, program in programs.items():
        got = td.jit(program, backend=backend)(start, stop)
        assert_same(got, want, label=label)


def test_a_fold_that_only_the_epilogue_of_a_product_reads(backend):
    a = np.random.default_rng(1).integers(0, 5, (5, 9)).astype(np.uint16)

    def step(s):
        product = (s // 2) @ td.eye(s.shape[1], dtype=td.uint16)
        return product + (s + td.sum(s, axis=0, keepdims=True)).astype(td.uint16)

    wanted = a
    for _ in range(3):
        product = (wanted // 2) @ np.eye(9, dtype=np.uint16)
        wanted = product + (wanted + wanted.sum(0, keepdims=True)).astype(np.uint16)
    assert_same(td.jit(lambda a: td.loop(3, lambda k, s: step(s), a), backend=backend)(a), wanted)
    counted = td.jit(
        lambda a: td.while_loop(lambda s: s[1] < 3, lambda s: (step(s[0]), s[1] + 1), (a, 0))[0],
        backend=backend,
    )
    assert_same(counted(a), wanted)


def test_numbers_without_a_type_take_that_of_the_body(backend):
    x = np.float32([1, 2, 3])

    def step(state):
        s, _, n = state
        after = s * 0.5
        return after, td.max(td.abs(after - s)), td.uint8(n + 1)

    found = td.jit(
        lambda x: td.while_loop(lambda c: c[1] > 0.1, step, (x, np.inf, 0)), backend=backend
    )(x)
    assert [str(a.dtype) for a in found] == ["float32", "float32", "uint8"] and found[2] == 5
    inside = td.jit(
        lambda x: td.map(lambda v: td.iterate(3, lambda s: td.float32(s) * v, 1.0), x),
        backend=backend,
    )(x)
    assert_same(inside, x**3)
    last, before = td.jit(
        lambda x: td.scan(lambda s, v: (td.float32(s * 0.5) + v, s), 0.0, x), backend=backend
    )(x)
    assert_same(last, np.float32(4.25))
    assert_same(before, np.float32([0, 1, 2.5]))
    for f, init in (
        (lambda s: s * 0.5, 1),  # another kind of number
        (lambda s: td.cast(s, td.float32), np.float64(1)),  # with a type of its own
        (lambda s: td.cast(s, td.uint8), 300),
    ):
        with pytest.raises(td.DTypeError):
            td.iterate(2, f, init)


def test_a_search_reads_nothing_behind_the_end(backend):
    """`p & q` of a loop's predicate evaluates q where p holds: with checks, no index is out of
    range."""
    x = np.arange(5.0)
    first = lambda x, t: td.while_loop(lambda i: (i < x.shape[0]) & (x[i] < t), lambda i: i + 1, 0)
    inside = lambda x, t: td.map(
        lambda v: td.while_loop(
            lambda i: (i < x.shape[0]) & (x[i] != 7.0) & (x[i] < v), lambda i: i + 1, 0
        ),
        td.use(t),
    )
    with td.config(check=True):
        found = td.jit(first, backend=backend)
        assert [int(found(x, t)) for t in (-1.0, 2.5, 9.0)] == [0, 3, 5]
        found = td.jit(inside, backend=backend)
        np.testing.assert_array_equal(found(x, np.array([-1.0, 2.5, 9.0])), [0, 3, 5])


def _row(a: Any, k: Any) -> Any:
    """New elements that are no single expression: the update is no sequence."""
    return a[(k * 7 + 1) % a.shape[0]] * 0.5 + td.cumsum(a[k % a.shape[0]]) * 0.001


def _row_of_numpy(a: Any, k: int) -> Any:
    return a[(k * 7 + 1) % len(a)] * 0.5 + np.cumsum(a[k % len(a)]) * 0.001


def _set(a: Any, k: Any) -> Any:
    return a.at[k % a.shape[0]].set(_row(a, k))


def _set_of_numpy(a: Any, k: int) -> Any:
    a = a.copy()
    a[k % len(a)] = _row_of_numpy(a, k)
    return a


#: The body of a loop over two arrays, and the same on NumPy's.
SIDES: dict[str, tuple[Any, Any]] = {
    "one side": (
        lambda k, a, b: (td.cond(k % 3 == 0, _set(a, k), a), b),
        lambda k, a, b: (_set_of_numpy(a, k) if k % 3 == 0 else a, b),
    ),
    "both sides": (
        lambda k, a, b: (td.cond(k % 3 == 0, _set(a, k), _set(a, k + 1)), b),
        lambda k, a, b: (_set_of_numpy(a, k if k % 3 == 0 else k + 1), b),
    ),
    "two states": (
        lambda k, a, b: td.cond(k % 2 == 0, (_set(a, k), b), (a, _set(b, k))),
        lambda k, a, b: (_set_of_numpy(a, k), b) if k % 2 == 0 else (a, _set_of_numpy(b, k)),
    ),
    "exchanged": (
        lambda k, a, b: td.cond(k % 3 == 0, (b, _set(a, k)), (a, b)),
        lambda k, a, b: (b, _set_of_numpy(a, k)) if k % 3 == 0 else (a, b),
    ),
    "the old one is kept": (
        lambda k, a, b: td.cond(k % 3 == 0, (_set(a, k), a), (a, b)),
        lambda k, a, b: (_set_of_numpy(a, k), a) if k % 3 == 0 else (a, b),
    ),
    "the old one is kept elsewhere": (
        lambda k, a, b: (td.cond(k % 3 == 0, _set(a, k), a), a),
        lambda k, a, b: (_set_of_numpy(a, k) if k % 3 == 0 else a, a),
    ),
    "the same update in both": (
        lambda k, a, b: td.cond(k % 3 == 0, (_set(a, k), b), (_set(a, k), a)),
        lambda k, a, b: (_set_of_numpy(a, k), b if k % 3 == 0 else a),
    ),
    "read by another node": (
        lambda k, a, b: (td.cond(k % 3 == 0, _set(a, k), a), b + td.cumsum(a, axis=0)),
        lambda k, a, b: (_set_of_numpy(a, k) if k % 3 == 0 else a, b + np.cumsum(a, 0)),
    ),
    "read in the side": (
        lambda k, a, b: td.cond(k % 3 == 0, (_set(a, k), td.cumsum(a * b, axis=0)), (a, b)),
        lambda k, a, b: (_set_of_numpy(a, k), np.cumsum(a * b, 0)) if k % 3 == 0 else (a, b),
    ),
    "nested": (
        lambda k, a, b: (
            td.cond(k % 3 == 0, _set(a, k), td.cond(k % 3 == 1, a, _set(a, k + 2))), b),
        lambda k, a, b: (a if k % 3 == 1 else _set_of_numpy(a, k + k % 3), b),
    ),
    "one after the other": (
        lambda k, a, b: (td.cond(k % 3 == 0, _set(a, k), _set(_set(a, k), k + 2)), b),
        lambda k, a, b: (
            _set_of_numpy(a, k) if k % 3 == 0 else _set_of_numpy(_set_of_numpy(a, k), k + 2), b),
    ),
    "data decides": (
        lambda k, a, b: (td.cond(td.the(td.sum(a)) > 12, _set(a, k), a + 0.5), b),
        lambda k, a, b: (_set_of_numpy(a, k) if a.sum() > 12 else a + 0.5, b),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIDES)
def test_sides_that_update_a_state(backend: str, name: str) -> None:
    """A side may write into the state, if nothing needs the old one."""
    body, of_numpy = SIDES[name]
    first = np.random.default_rng(5).random((2, 5, 6))
    a, b = first.copy()
    for k in range(9):
        a, b = of_numpy(k, a, b)
    f = td.jit(lambda a, b: td.loop(0, 9, lambda k, s: body(k, *s), (a, b)), backend=backend)
    given = first.copy()
    for _ in range(3):
        found = f(*given)
        np.testing.assert_allclose(found[0], a, rtol=1e-12)
        np.testing.assert_allclose(found[1], b, rtol=1e-12)
        assert (given == first).all()


def test_a_side_that_updates_a_state_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Any] = []
    made = steps.Copy

    def counted(target: Any, source: Any) -> Any:
        copied.append(target.shape)
        return made(target, source)

    monkeypatch.setattr(steps, "Copy", counted)
    given = np.random.default_rng(5).random((2, 5, 6))
    for name in ("one side", "both sides", "two states", "nested"):
        body, _ = SIDES[name]
        f = td.jit(
            lambda a, b, body=body: td.loop(0, 9, lambda k, s: body(k, *s), (a, b)),
            backend="native",
        )
        for _ in range(3):
            f(*given)
        assert f.lower(*given).executable.calls.replays.records and not copied, name


def test_predicates_of_branches_read_nothing_that_an_earlier_part_decides(backend):
    """`p & q` and `p | q` in a predicate of `cond`, nested and for indices that may be ignored."""
    x, to = td.use(np.array([3.0, -1.0, 2.0])), np.arange(-2, 6)
    both = lambda i: td.cond((i >= 0) & (i < 3) & (x[i] > 0), x[i], -9.0)
    either = lambda i: td.cond((i < 0) | (i >= 3) | (x[i] > 0), 1, 0)
    mixed = lambda i: td.cond((i >= 0) & ((i >= 3) | (x[i] < 0)), 1, 0)
    target = lambda i: td.cond((i < 3) & (x[i] > 0), i, td.ignore)
    f = td.jit(
        lambda to: (
            *(td.map(g, to) for g in (both, either, mixed)),
            td.permute(td.overwrite, td.zeros(3, td.int64), target, to),
        ),
        backend=backend,
    )
    with td.config(check=True):
        found = f(to)
    assert_same(found[0], np.array([-9, -9, 3, -9, 2, -9, -9, -9.0]))
    assert_same(found[1], np.array([1, 1, 1, 0, 1, 1, 1, 1]))
    assert_same(found[2], np.array([0, 0, 0, 1, 0, 1, 1, 1]))
    assert_same(found[3], np.array([-2, 0, 0]))
    with td.config(check=True), pytest.raises(td.IndexOutOfBounds, match=r"td\.cond"):
        td.jit(lambda to: td.map(lambda i: td.where((i < 3) & (x[i] > 0), 1, 0), to),
               backend=backend)(to)  # fmt: skip


def test_a_slice_of_one_element_at_a_counter_broadcasts(backend: str) -> None:
    """`d[:, k:k + 1]` has extent 1 as written, of loops' counters too; if there is no element k,
    the message says so."""
    d = np.random.default_rng(1).random((5, 5))
    wanted = d.copy()
    for k in range(5):
        wanted = np.minimum(wanted, wanted[:, k : k + 1] + wanted[k : k + 1])
    shortest = td.jit(
        lambda d: td.loop(5, lambda k, d: td.minimum(d, d[:, k : k + 1] + d[k : k + 1]), d),
        backend=backend,
    )
    np.testing.assert_array_equal(shortest(d), wanted)
    v = np.arange(6.0)
    for first, message in ((1, ""), (0, "empty")):  # v[-1:0] is empty
        f = td.jit(
            lambda v, first=first: td.loop(
                first, first + 3, lambda k, s: s + v[k - 1 : k], td.zeros(6)
            ),
            backend=backend,
        )
        if message:
            with pytest.raises(td.ShapeError, match=message):
                f(v)
        else:
            np.testing.assert_array_equal(f(v), np.full(6, v[:3].sum()))


def test_counts_that_read_the_first_state():
    """A while loop that counts from a number that is stored."""

    def program(q, n, x):
        step = lambda s: (s[0] + 1, td.flip(s[1]) + 1)
        last = td.while_loop(lambda s: s[0] < n, step, (0, x))[1]
        most = td.argmax(td.map(lambda a: td.loop(5, lambda k, s: s * 3, a), last), axis=0)
        return (most, x.at[1 % x.shape[0]].min(q))[:1]

    compiled = td.jit(program, backend="native")
    for n in (4, 0, 30):
        (found,) = compiled(5, n, np.ones((1, 2, 4, 3), np.uint64))
        np.testing.assert_array_equal(found, np.zeros((2, 4, 3)))
