"""Whose memory it is: arrays that are read again after they could have been overwritten, results
and arguments that must not share memory, functions of the user's that keep what they get."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import treadle as td

from .helpers import AT_ONCE, THREADS, assert_same, not_in_parts, to_host

N = 8
A = np.arange(1, N + 1)
B = A[::-1].copy() * 10
ADD = lambda x, y: x + y


def running(a):
    return td.scanl1(ADD, a)


def from_the_right(a):
    return td.scanr1(ADD, a)


def into(defaults, values=B):
    """Something that could be added in place to `defaults`."""
    return td.permute(ADD, defaults, lambda i: (i * 3) % N, values)


def shifted(s, x, y):
    return s[1], s[0][::-1] * 2 + s[1], y


def nested(a, b):
    x = running(a)
    return td.iterate(4, lambda s: td.iterate(3, lambda u: u * 3 + s[::-1] + x, s), x)


def nested_computed(a, b):
    x = running(a)

    def iteration(s):
        y = running(s)
        return s + td.iterate(3, lambda u: u * 3 + y[::-1] + x, y)

    return td.iterate(4, iteration, x)


def apart(s):
    """Two chains of kernels, which may run at the same time, with memory in between."""
    u = running(from_the_right(s[0]) % 7) % 1000
    v = from_the_right(running(s[1]) % 5) % 1000
    w = running(v % 3)
    return u + td.sum(s[1]) % 11, v[::-1] + td.max(s[0]), from_the_right(s[2] % 9) + w % 4


#: Two arguments to results.
PROGRAMS = {
    # defaults of a permute
    "defaults are the source": lambda a, b: into(x := running(a), x),
    "defaults are in the source": lambda a, b: into(x := running(a), x[::-1] + b),
    "defaults are in the index": lambda a, b: td.permute(
        ADD, x := running(a), lambda i: x[i] % N, b
    ),
    "defaults twice": lambda a, b: td.permute(
        lambda n, o: (n[0] + o[0], n[1] + o[1]),
        td.zip(x := running(a), x),
        lambda i: N - 1 - i,
        td.zip(a, b),
    ),
    "defaults are an argument, chosen": lambda a, b: into(td.cond(td.sum(a) > 3, a, b)),
    "defaults are an argument after no iterations": lambda a, b: into(
        td.iterate(td.the(td.sum(a)) * 0, lambda s: s + 1, a)
    ),
    "defaults are an argument after no turns at all": lambda a, b: into(
        td.iterate(0, lambda s: s + 1, a)
    ),
    "defaults are an argument, computed": lambda a, b: into(td.compute(a)),
    "defaults are read again, computed": lambda a, b: (
        into(td.compute(x := running(a))),
        from_the_right(x),
    ),
    "defaults are read again, chosen": lambda a, b: (
        into(td.cond(td.sum(a) > 3, x := running(a), b)),
        from_the_right(x),
    ),
    "defaults are read again, after no iterations": lambda a, b: (
        into(td.while_loop(lambda s: td.the(td.sum(s)) < 0, lambda s: s + 1, x := running(a))),
        from_the_right(x),
    ),
    # states of loops
    "first state in the body": lambda a, b: td.iterate(5, lambda s: s * 3 + x, x := running(a)),
    "first state in the body, reduced": lambda a, b: td.iterate(
        5, lambda s: s * 3 + td.sum(x) + x[::-1], x := running(a)
    ),
    "first state in the body of a while_loop": lambda a, b: td.while_loop(
        lambda s: td.the(td.sum(s)) < 100_000, lambda s: s * 3 + x[::-1], x := running(a)
    ),
    "first state in the test": lambda a, b: td.while_loop(
        lambda s: td.the(td.sum(s)) < 50 * td.the(td.sum(x)), lambda s: s * 3 + 1, x := running(a)
    ),
    "first state with the counter": lambda a, b: td.loop(
        5, lambda k, s: s * 3 + x * k, x := running(a)
    ),
    "first state of a stencil": lambda a, b: td.iterate(
        6, lambda s: td.stencil(lambda w: w[-1] + w[1], s) + x, x := running(a)
    ),
    "first state twice": lambda a, b: td.iterate(
        5, lambda s: (s[0] * 3 + 1, s[1] * 5 - s[0]), (x := running(a), x)
    ),
    "first state is a result": lambda a, b: (
        td.iterate(5, lambda s: s * 3 + 1, x := running(a)),
        x,
    ),
    "first state from the body": lambda a, b: td.loop(
        5, lambda k, s: td.cond(k % 2 == 0, x, s[::-1]), x := running(a)
    ),
    "first state from a body in the body": lambda a, b: td.loop(
        5, lambda k, s: td.loop(k, lambda n, u: x, s)[::-1] + s * 2, x := running(a)
    ),
    "first state from a body in the body, alone": lambda a, b: td.loop(
        4, lambda k, s: running(td.loop(k, lambda n, u: x, s)), x := running(a)
    ),
    "first state from a test in the body": lambda a, b: td.loop(
        5,
        lambda k, s: running(td.while_loop(lambda u: td.the(td.min(u)) < 0, lambda u: x, -s)) % 99,
        x := running(a),
    ),
    "states change places": lambda a, b: td.iterate(
        5, lambda s: (s[1], s[0] + 1), (running(a), from_the_right(b))
    ),
    "arguments change places": lambda a, b: td.iterate(1, lambda s: (s[1], s[0]), (a, b)),
    "states move on": lambda a, b: td.iterate(
        7, lambda s: shifted(s, x, y), (x := running(a), y := from_the_right(b), x)
    ),
    "permutes in a loop": lambda a, b: td.iterate(
        5, lambda s: into(s, td.map(lambda v: v % 7, s)), running(a)
    ),
    "permutes of an array from outside": lambda a, b: td.iterate(
        5, lambda s: into(x, s) % 1000, x := running(a)
    ),
    "permutes of a state under another name": lambda a, b: td.iterate(
        9, lambda s: into(td.compute(s), s % 7) - s, running(a)
    ),
    "iterations of independent kernels": lambda a, b: td.iterate(20, apart, (a, b, running(a))),
    "a loop in a loop": nested,
    "a loop in a loop, of what is computed there": nested_computed,
    "the test and the iteration read the same": lambda a, b: td.while_loop(
        lambda s: td.the(td.sum(td.fold_seg(ADD, 0, s, np.array([3, 0, 5])))) < 10_000,
        lambda s: s + td.the(td.max(td.fold_seg(ADD, 0, s, np.array([3, 0, 5])))),
        a,
    ),
    # results
    "one array several times": lambda a, b: (
        x := running(a),
        x,
        td.compute(x),
        td.cond(td.sum(a) > 0, x, b),
    ),
    "arguments and views of them": lambda a, b: (
        a,
        a,
        a[::-1],
        td.reshape(a, (2, N // 2)),
        td.transpose(b),
        td.compute(b),
    ),
    "a compacted array twice": lambda a, b: ((f := td.filter(lambda x: x > 3, a))[0], f[1], f[0]),
}


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


def test_what_is_still_read_is_not_overwritten(backend):
    """In calls of a compiled function, whose results stay as they are."""
    failures = []
    for name, program in PROGRAMS.items():
        a, b = A.copy(), B.copy()
        want = as_tuple(td.run(program(td.use(a), td.use(b)), backend="reference"))
        compiled = td.jit(program, backend=backend)
        calls = 2 if backend == "cuda" else 4  # natively, the third is the first that is replayed
        found = [as_tuple(compiled(a, b)) for _ in range(calls)]
        try:
            for got in found:
                assert_same(got, want, label=name)
            assert_same((a, b), (A, B), label=f"arguments of {name}")
            arrays = [a, b, *(r for got in found for r in got)]
            for k, one in enumerate(arrays):
                for other in arrays[:k]:
                    assert not np.shares_memory(one, other), f"{name}: memory is shared"
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("n", [30_000])
def test_large_defaults_that_are_read(n, backend):
    """Several threads, or blocks, each at its own time."""
    if backend == "cuda":
        n = 600
    a = np.arange(n) % 17

    def program(v):
        x = td.scanl1(ADD, v)
        return td.permute(ADD, x, lambda i: (i * 7) % n, x + 1)

    x = np.cumsum(a)
    want = x.copy()
    np.add.at(want, (np.arange(n) * 7) % n, x + 1)
    assert_same(td.jit(program, backend=backend)(a), want)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[:], lambda x: x.reshape(-1)])
def test_a_function_of_the_users_may_keep_arrays(view, backend):
    """What it was given, and what it gives."""
    kept = []

    def function(x):
        kept.append((x, to_host(x).copy()))
        return view(x)

    def program(a):
        x = td.scanl1(ADD, a)
        same = td.foreign_array({backend: function}, x, fallback=lambda x: x + 0)
        given = td.foreign_array({backend: function}, a, fallback=lambda x: x + 0)
        return into(same), into(td.compute(x)), into(given), given

    a, x = A.copy(), np.cumsum(A)
    want = x.copy()
    np.add.at(want, np.arange(N) * 3 % N, B)
    with_a = A.copy()
    np.add.at(with_a, np.arange(N) * 3 % N, B)
    compiled = td.jit(program, backend=backend)
    results = [compiled(a) for _ in range(3)]
    for got in results:
        assert_same(got, (want, want, with_a, A))
        got[3][...] = 0  # the caller's own
    assert_same(a, A)
    for array, before in kept:
        assert_same(to_host(array), before, label="what the function kept")


@pytest.mark.parametrize("many", [False, True])
def test_what_a_function_of_the_users_made_is_not_copied(many):
    """An array with no other reference is the result; one with others is copied."""
    addresses, kept = [], [np.empty_like(A)]

    def function(x):
        made = x * 2
        addresses.append(made.ctypes.data)
        kept[0][:] = made
        return (made, kept[0]) if many else made

    def program(a):
        return td.foreign_array(
            {"native": function}, a, fallback=lambda x: (x * 2, x * 2) if many else x * 2
        )

    compiled = td.jit(program, backend="native")
    for k in range(3):
        results = compiled(A + k) if many else (compiled(A + k),)
        assert results[0].ctypes.data == addresses[-1]
        kept[0][:] = 0
        for found in results:
            assert_same(found, (A + k) * 2)


def test_arguments_that_overlap(backend):
    """Views of one array, any strides, read-only: all are only read."""
    base = np.arange(40.0)
    base.flags.writeable = False
    views = {
        "forward": base[:20], "shifted": base[3:23], "backward": base[19::-1],
        "every second": base[1::2], "repeated": np.broadcast_to(base[7], (20,)),
    }  # fmt: skip

    def program(u, v):
        x = td.scanl1(ADD, u)
        return td.iterate(3, lambda s: s + v, x), td.permute(ADD, v, lambda i: 19 - i, u), u, v[1:]

    compiled = td.jit(program, backend=backend)
    for first in views.values():
        for second in views.values():
            want = (np.cumsum(first) + 3 * second, second + first[::-1], first, second[1:])
            got = compiled(first, second)
            assert_same(got, want)
            for array in got:
                assert not np.shares_memory(array, base)
                array[...] = -1


def test_an_argument_twice(backend):
    def program(u, v):
        x = td.scanl1(ADD, u)
        return td.iterate(2, lambda s: s * 2 + v, x), td.permute(ADD, u, lambda i: N - 1 - i, v)

    a = A.copy()
    got = td.jit(program, backend=backend)(a, a)
    assert_same(got, (4 * np.cumsum(A) + 3 * A, A + A[::-1]))
    assert_same(a, A)


@not_in_parts(THREADS, emulated=True)
def test_threads_with_one_function(backend):
    """Each thread has its own arrays and results."""

    @td.jit(backend=backend)
    def program(a):
        x = td.scanl1(ADD, a)
        return td.iterate(5, lambda s: s * 3 + x, x), into(x, a)

    failures = []

    def work(seed):
        try:
            kept = []
            for k in range(6):
                a = np.arange(N) + 100 * seed + k
                x = np.cumsum(a)
                want = x.copy()
                np.add.at(want, np.arange(N) * 3 % N, a)
                kept.append((program(a), (364 * x, want)))
            for got, want in kept:
                assert_same(got, want)
        except Exception as error:
            failures.append(error)

    program(A)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


@not_in_parts(AT_ONCE, emulated=True)
def test_a_program_that_a_function_of_the_users_runs(backend):
    """The same program, from inside itself, and another one."""
    depth = []

    def function(x):
        if len(depth) == 2:
            return x
        depth.append(None)
        inner = compiled(to_host(x) + 1)
        depth.pop()
        return inner[0]

    def program(a):
        x = td.scanl1(ADD, a)
        y = td.foreign_array({backend: function}, x, fallback=lambda x: x + 0)
        return into(x, y), td.iterate(3, lambda s: s + x, y)

    def plain(a, level=0):
        x = np.cumsum(a)
        y = x if level == 2 else plain(x + 1, level + 1)[0]
        out = x.copy()
        np.add.at(out, np.arange(N) * 3 % N, y)
        return out, y + 3 * x

    compiled = td.jit(program, backend=backend)
    for _ in range(3):
        assert_same(compiled(A), plain(A))


class Refused(Exception):
    pass


@not_in_parts(AT_ONCE, emulated=True)
@pytest.mark.parametrize("error", [Refused, KeyboardInterrupt])
def test_after_an_error_in_the_middle(error, backend):
    """What was on its way is dropped, what was returned stays, and later calls are right."""
    raising = [False]

    def function(x):
        if raising[0]:
            raise error
        return x * 2

    def program(a):
        x = td.scanl1(ADD, a)
        y = td.foreign_array({backend: function}, x, fallback=lambda x: x * 2)
        return td.iterate(3, lambda s: td.permute(ADD, s, lambda i: i, y), y), into(x, y)

    n = 20_000 if backend == "native" else N
    a = np.arange(n)
    x = np.cumsum(a)
    compiled = td.jit(program, backend=backend)
    first = compiled(a)
    before = tuple(r.copy() for r in first)
    for _ in range(3):
        raising[0] = True
        with pytest.raises(error):
            compiled(a)
        raising[0] = False
        again = compiled(a)
        assert_same(again, before)
        assert_same(again[0], 8 * x)
        assert_same(first, before)


def change_shape(b):
    with warnings.catch_warnings(action="ignore"):  # NumPy's, of the assignment
        b.shape = (3, 2)


def change_strides(b):
    with warnings.catch_warnings(action="ignore"):  # NumPy's, of the assignment
        b.strides = (0, 0)


def change_type(b):
    b.dtype = np.int64


@pytest.mark.parametrize("change", [change_shape, change_strides, change_type])
def test_an_array_that_is_reshaped_after_it_was_used(change, backend):
    """What was used keeps the shape, the strides and the type it had; its elements are read when
    a program runs."""
    b = np.arange(6.0).reshape(2, 3)
    before, used = b.copy(), td.use(b)
    total = used * 2 + td.sum(used, axis=0)
    change(b)
    assert_same(td.run((used, total), backend=backend), (before, before * 2 + before.sum(0)))
    assert_same(td.run(td.use(b), backend=backend), b.copy())
    assert_same(td.run(used, backend=backend), before)


def test_elements_are_read_when_a_program_runs(backend):
    b = np.arange(6.0)
    used = td.use(b)
    f = td.jit(lambda x: x + used, backend=backend)
    assert_same(f(np.zeros(6)), np.arange(6.0))
    b[2] = 50
    assert_same(f(np.zeros(6)), b.copy())
    assert_same(td.run(used + 1, backend=backend), b + 1)
