"""run, jit, inputs, results, configuration (docs/reference.md, "Running")."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td

from .helpers import (
    AT_ONCE,
    DTYPES,
    KNOWN_BACKENDS,
    THREADS,
    assert_same,
    backends_report,
    not_in_parts,
    same_bits,
    small,
    wide,
    working_backends,
)


class Pair(NamedTuple):
    first: object
    second: object


def test_the_backends_of_this_machine():
    """`reference` and `native` work everywhere; the page's names are all reported."""
    report = backends_report()
    assert set(KNOWN_BACKENDS) <= set(report)
    assert report["reference"]
    assert report["native"]
    assert set(working_backends()) <= set(report)


def test_the_default_backend_runs():
    assert_same(td.run(td.use(np.arange(3)) + 1), np.arange(1, 4))


# ---------------------------------------------------------------------------------------------
# Structures


def test_structures_of_results(run):
    a, b = np.arange(3), np.arange(4.0)
    x, y = td.use(a) + 1, td.use(b) * 2
    assert_same(run(x), a + 1)
    assert_same(run((x, y)), (a + 1, b * 2))
    assert_same(run([x, y]), [a + 1, b * 2])
    assert_same(run({"x": x, "y": y}), {"x": a + 1, "y": b * 2})
    assert_same(run({"n": (x, [y, {"z": x}])}), {"n": (a + 1, [b * 2, {"z": a + 1}])})
    assert_same(run((x,)), (a + 1,))
    assert_same(run((x, x)), (a + 1, a + 1))
    assert_same(run((td.zip(x, x + 1), y)), ((a + 1, a + 2), b * 2))
    rank_zero = run(td.sum(x))
    assert isinstance(rank_zero, np.ndarray)
    assert_same(rank_zero, np.array(6))


def test_several_results_at_once(backend):
    x, total = td.run(td.use(A) + 1, td.sum(A), backend=backend)
    assert_same((x, total), (A + 1, np.array(A.sum())))
    with pytest.raises(td.TracingError, match="there are several results"):
        td.run(td.iota(3), td.iota(3), schedule=td.schedule.Row())


A = np.arange(6.0).reshape(2, 3)
SURPLUS = {
    "sum(a, (0, 1, 2))": lambda: td.sum(A, 0, 1, 2),
    "reshape(a, (3, 2))": lambda: td.reshape(A, 3, 2),
    "transpose(a, (1, 0))": lambda: td.transpose(A, 1, 0),
    "tile(a, (2, 2))": lambda: td.tile(A, 2, 2),
    "ones((2, 3, 4))": lambda: td.ones(2, 3, 4),
    "a.sum((0, 1, 2, 3))": lambda: td.use(A).sum(0, 1, 2, 3),
    "max(a, axis, keepdims)": lambda: td.max(A, 0, None, True),
    "random.normal(key, (2, 3))": lambda: td.random.normal(td.random.key(0), 2, 3),
    "boundary=td.wrap": lambda: td.stencil(lambda w: w[0], A[0], td.wrap),
    "schedule=": lambda: td.map(lambda x: x, A, td.schedule.Row()),
}


@pytest.mark.parametrize("advice", SURPLUS)
def test_surplus_arguments(advice):
    with pytest.raises(TypeError) as caught:
        SURPLUS[advice]()
    assert isinstance(caught.value, td.TreadleError) and advice in str(caught.value)
    assert "test_running.py" in str(caught.value)


def test_structures_of_compiled_results(backend):
    @td.jit(backend=backend)
    def program(a):
        return {"sum": td.sum(a), "both": [a + 1, (a, Pair(a, a * 2))]}

    for n in (3, 5):
        a = np.arange(n)
        want = {"sum": np.array(a.sum()), "both": [a + 1, (a, Pair(a, a * 2))]}
        got = program(a)
        assert_same(got["sum"], want["sum"])
        assert_same(got["both"][0], want["both"][0])
        assert_same(tuple(got["both"][1][1]), (a, a * 2))


def test_arguments_by_keyword(backend):
    """Arguments by position and by keyword, defaults included."""

    @td.jit(backend=backend)
    def program(x, y, scale=2.0):
        return x * scale + y

    a, b = np.arange(4.0), np.ones(4)
    assert_same(program(a, b), a * 2 + b)
    assert_same(program(a, b, scale=3.0), a * 3 + b)
    assert_same(program(y=a, x=b), b * 2 + a)


# ---------------------------------------------------------------------------------------------
# Tracing


def test_traced_once_per_rank_and_type(backend):
    traces = []

    @td.jit(backend=backend)
    def double(a):
        traces.append(a.ndim)
        return a * 2

    def call(a, expected):
        assert_same(double(a), a * 2)
        assert len(traces) == expected, f"{a.dtype} {a.shape}"

    call(np.arange(5), 1)
    call(np.arange(7), 1)
    call(np.arange(70001), 1)
    call(np.arange(10)[::-2], 1)
    call(np.arange(5.0), 2)
    call(np.arange(5, dtype="f4"), 3)
    call(np.arange(6).reshape(2, 3), 4)
    call(np.arange(60).reshape(3, 20).T, 4)
    call(np.arange(9), 4)
    call(np.arange(9.0), 4)


def test_extents_are_run_time_values(backend):
    """Empty, prime and large arrays through one trace; and extent 1, which broadcasts."""
    traces = []

    @td.jit(backend=backend)
    def program(a, b):
        traces.append(1)
        return {
            "map": a * 2 + b,
            "sum": td.sum(a, axis=0),
            "scan": td.cumsum(a, axis=1),
            "extent": td.fill((a.shape[1],), a.shape[0]),
            "stencil": td.stencil(lambda w: w[-1, 0] + w[0, 2], a),
            "transpose": a.T,
        }

    def oracle(a, b):
        up = a[[max(i - 1, 0) for i in range(a.shape[0])]]
        right = a[:, [min(j + 2, a.shape[1] - 1) for j in range(a.shape[1])]]
        return {
            "map": a * 2 + b,
            "sum": a.sum(axis=0),
            "scan": np.cumsum(a, axis=1),
            "extent": np.full(a.shape[1], a.shape[0]),
            "stencil": up + right,
            "transpose": a.T,
        }

    for shape in ((3, 5), (31, 33), (97, 2), (0, 5), (5, 0), (257, 65)):
        a, b = wide("int64", shape, 1), wide("int64", shape, 2)
        assert_same(program(a, b), oracle(a, b), label=f"{shape}")
    assert len(traces) == 1
    for shape, other in (((3, 5), (1, 5)), ((3, 5), (3, 1)), ((1, 5), (3, 5)), ((1, 1), (1, 1))):
        a, b = wide("int64", shape, 1), wide("int64", other, 2)
        assert_same(program(a, b), oracle(a, b), label=f"{shape} with {other}")


def test_python_scalars_are_run_time_values(backend):
    traces = []

    @td.jit(backend=backend)
    def program(a, k):
        traces.append(1)
        return a * k + td.map(lambda x: x + k, a), td.fill((2,), k)

    a = np.arange(5, dtype="i4")
    for k in (2, 3, -7):
        assert_same(program(a, k), (a * k + (a + k), np.full(2, k)))
    assert len(traces) == 1
    assert_same(program(a, 0.5), (a * 0.5 + (a + 0.5), np.full(2, 0.5)))
    f = np.arange(5, dtype="f4")
    assert_same(program(f, 0.5)[0], f * np.float32(0.5) + (f + np.float32(0.5)))
    count = len(traces)
    assert_same(program(f, 0.25)[0], f * np.float32(0.25) + (f + np.float32(0.25)))
    assert len(traces) == count


def test_scalars_as_extents_and_indices(backend):
    traces = []

    @td.jit(backend=backend)
    def program(a, n):
        traces.append(1)
        return td.iota(n) * 2, td.generate((n, 2), lambda i, j: a[i] + j)

    a = np.arange(100)
    for n in (0, 3, 40):
        assert_same(program(a, n), (np.arange(n) * 2, a[:n, None] + np.arange(2)))
    assert len(traces) == 1


def test_captured_arrays_are_read_at_each_call(backend):
    table = np.arange(5.0)
    weights = np.ones((2, 2))
    used = td.use(table)

    @td.jit(backend=backend)
    def program(a):
        return a + table, td.map(lambda i: used[i], td.iota(5)), td.sum(td.use(weights))

    a = np.full(5, 10.0)
    assert_same(program(a), (a + table, table.copy(), np.array(4.0)))
    table[:] = [5, 4, 3, 2, 1]
    weights[0, 0] = 7
    assert_same(program(a), (a + table, table.copy(), np.array(10.0)))


def test_jit_as_a_function_and_as_a_decorator(backend):
    def double(a):
        return a * 2

    a = np.arange(4)
    assert_same(td.jit(double, backend=backend)(a), a * 2)
    assert_same(td.jit(double)(a), a * 2)

    @td.jit
    def triple(a):
        """Three times."""
        return a * 3

    assert_same(triple(a), a * 3)
    assert triple.__name__ == "triple"
    assert triple.__doc__ == "Three times."


# ---------------------------------------------------------------------------------------------
# Inputs


def strided(kind):
    """Arrays of awkward memory layouts, by name."""
    base = wide(kind, (6, 8))
    cube = wide(kind, (3, 4, 5))
    frozen = wide(kind, (4, 5))
    frozen.setflags(write=False)
    flat = wide(kind, 40)
    return {
        "every other": base[::2, ::3],
        "reversed": base[::-1, ::-1],
        "transposed": base.T,
        "Fortran": np.asfortranarray(base),
        "column": base[:, 3],
        "reversed column": base[::-1, 2],
        "broadcast": np.broadcast_to(base[0], (5, 8)),
        "broadcast scalar": np.broadcast_to(base[0, 0], (3, 4)),
        "axes permuted": cube.transpose(2, 0, 1)[:, ::-1],
        "read-only": frozen,
        "offset": flat[7:],
        "unaligned": np.frombuffer(b"\0" + flat.tobytes(), flat.dtype, offset=1),
        "rank 0 view": base[2, 3, ...],
        "empty view": base[3:3, ::-1],
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ("int32", "float64", "uint8", "complex64"))
def test_memory_layouts_of_inputs(check, kind):
    """Slices, transposes, negative and zero strides, read-only and unaligned arrays."""
    cases = {}
    for label, a in strided(kind).items():
        cases[label] = (lambda a=a: td.use(a) + td.use(a), a + a)
        if a.ndim == 2:
            cases[f"fold of {label}"] = (
                lambda a=a: td.fold1(lambda x, y: y, a, axis=0) if a.shape[0] else td.use(a[:, 0]),
                a[-1] if a.shape[0] else a[:, 0],
            )
            cases[f"rows of {label}"] = (lambda a=a: td.reverse(a, 0)[:, 1:], a[::-1, 1:])
    check(cases)


def test_layouts_through_one_compiled_function(backend):
    traces = []

    @td.jit(backend=backend)
    def program(a):
        traces.append(1)
        return a * 2, td.cumsum(a, axis=0)

    for label, a in strided("int64").items():
        if a.ndim == 2:
            assert_same(program(a), (a * 2, np.cumsum(a, axis=0)), label=label)
    assert len(traces) == 1


class Exporter:
    """Something that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_in_and_out(run, backend):
    a = np.arange(6.0).reshape(2, 3)
    assert_same(run(td.use(Exporter(a)) + 1), a + 1)
    assert_same(run(td.map(lambda x: x * 2, Exporter(a))), a * 2)
    result = run(td.use(a) * 3)
    assert_same(np.from_dlpack(result), a * 3)

    @td.jit(backend=backend)
    def double(x):
        return x * 2

    assert_same(double(Exporter(a)), a * 2)


class Column:
    """A column of a table, as pandas has them: NumPy asks it for its values."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


def test_what_numpy_makes_arrays_of(run, backend):
    """Compiled functions take what `td.use` and operations take."""
    doubled = td.jit(lambda a: 2 * a, backend=backend)
    values = np.arange(5.0)
    for column in (Column(values), memoryview(values), array("d", values)):
        assert_same(doubled(column), 2 * values)
        assert_same(run(td.use(column) + column), 2 * values)
    with pytest.raises(td.DTypeError, match="dtype object"):
        doubled(Column(np.array(["a", 1], object)))
    with pytest.raises(td.TracingError, match="of type range"):
        doubled(range(5))


def test_inputs_are_never_changed(backend):
    a = np.arange(12).reshape(3, 4)
    before = a.copy()

    @td.jit(backend=backend)
    def program(x):
        y = x + 1
        return (
            td.permute(td.overwrite, x, lambda i, j: (2 - i, j), y),
            td.sort(x, axis=0),
            td.iterate(2, lambda s: s * 2, x),
            td.cumsum(x, axis=0),
        )

    program(a)
    assert_same(a, before)


# ---------------------------------------------------------------------------------------------
# Results


def identities(a):
    """Programs whose result could be the input itself, or a view of it."""
    return [
        td.use(a),
        td.use(a)[:, ::1],
        td.use(a)[1:],
        td.use(a).T,
        td.reshape(a, (4, 3)),
        td.flatten(a),
        td.map(lambda x: x, a),
        td.broadcast_to(a, (3, 4)),
        td.iterate(0, lambda x: x + 1, td.use(a)),
        td.cond(td.unit(True), td.use(a), td.use(a) + 1),
        td.cast(a, td.float64),
        td.reverse(td.reverse(a, 0), 0),
        td.concatenate([a]),
        td.compute(td.use(a)),
        td.sort(td.use(a)),
    ]


def test_results_never_alias_inputs(run, backend):
    a = np.arange(12.0).reshape(3, 4)
    before = a.copy()
    results = run(identities(a))
    for place, result in enumerate(results):
        assert not np.shares_memory(result, a), f"identities()[{place}]"
    copies = [r.copy() for r in results]
    a[:] = -1
    for place, (result, copy) in enumerate(zip(results, copies, strict=True)):
        assert_same(result, copy, label=f"identities()[{place}]")
    a[:] = before
    same = td.jit(lambda x: (x, x.T, x[0]), backend=backend)(a)
    assert all(not np.shares_memory(r, a) for r in same)
    assert_same(run(td.zip(a, a)), (a, a))
    assert all(not np.shares_memory(r, a) for r in run(td.zip(a, a)))


def test_later_calls_leave_earlier_results_alone(backend):
    @td.jit(backend=backend)
    def program(x):
        return x * 2, td.cumsum(x), td.sum(x)

    a, b = np.arange(1000), np.arange(1000)[::-1].copy()
    first = program(a)
    copies = [r.copy() for r in first]
    second = program(b)
    assert_same(list(first), copies)
    assert_same(second[0], b * 2)
    for x in first:
        for y in second:
            assert not np.shares_memory(x, y)


def test_two_results_do_not_share_memory(run):
    a = td.use(np.arange(6)) + 1
    first, second = run((a, a))
    first[0] = 99
    assert second[0] == 1


# ---------------------------------------------------------------------------------------------
# Sharing and size


def test_shared_values_are_computed_once(run):
    """Without sharing these would take 2^60 additions."""
    x = td.use(np.arange(1, 6))
    for _ in range(60):
        x = x + x
    y = td.map(double_often, np.arange(1, 6))
    z = td.use(np.array([3]))
    for _ in range(16):
        z = td.concatenate([z[:1] + td.sum(z[:1]), z[:1]])
    first, second, third = run((x, y, z))
    assert_same(first, np.arange(1, 6) << 60)
    assert_same(second, np.arange(1, 6) << 60)
    assert_same(third, np.array([3 << 16, 3 << 15]))


def double_often(v):
    for _ in range(60):
        v = v + v
    return v


def test_a_thousand_operations(run):
    x = td.use(np.arange(5, dtype="i4"))
    want = np.arange(5, dtype="i4")
    for k in range(1000):
        x, want = x * 3 + k, want * np.int32(3) + np.int32(k)
    assert_same(run(x), want)


def test_compute_materialises(check):
    a = small("int64", (5, 7))
    check(
        {
            "compute": (lambda: td.compute(td.use(a) * 2) + 1, a * 2 + 1),
            "inside a chain": (
                lambda: td.sum(td.compute(td.compute(td.use(a).T) + 1), axis=0),
                (a.T + 1).sum(0),
            ),
        }
    )


def test_foreign(run, backend):
    numba = pytest.importorskip("numba")

    @numba.njit
    def smooth(x, y):
        return x * x + 0.5 * y if x > 0 else y

    a, b = small("float64", 97, 1), small("float64", 97, 2)
    got = run(td.map(lambda x, y: td.foreign(smooth, x, y) + 1, a, b))
    assert_same(got, np.where(a > 0, a * a + 0.5 * b, b) + 1)


def test_foreign_functions_of_every_type(run):
    pytest.importorskip("numba")
    a = np.arange(70)
    z = (a * (1 - 2j) + 1j).astype("c8")
    kinds = ("bool", "int8", "uint16", "int32", "uint64", "float32", "float64")
    for t in kinds:
        got = run(td.map(lambda x: td.foreign(lambda v: v, x), (a % 3).astype(t)))
        assert_same(got, (a % 3).astype(t))
    for t in ("c8", "c16"):
        got = run(td.map(lambda x: td.foreign(lambda w: w * w.imag, x), z.astype(t)))
        assert_same(got, z.astype(t) * z.astype(t).imag)
        parts = td.map(lambda x, n: td.foreign(lambda w, k: w.real - k, x, n), z.astype(t), a)
        assert_same(run(parts), z.real.astype("f8") - a)


def inverse(x):
    return 1.0 / x


def odd(z, n, x, p):
    if n == 13 and p:
        raise ValueError("an unlucky number")
    return z * n + x


X = np.arange(50.0) - 37

RAISING = {
    "map": lambda: td.map(lambda x: td.foreign(inverse, x), X),
    "in float32": lambda: td.map(lambda x: td.foreign(inverse, x), X.astype("f4")),
    "one element": lambda: td.generate((), lambda: td.foreign(inverse, td.use(X)[37])),
    "fold": lambda: td.fold(lambda x, y: x + td.foreign(inverse, y), 0.0, X),
    "scan": lambda: td.scanl1(lambda x, y: x + td.foreign(inverse, y), X),
    "updates": lambda: td.permute(
        lambda x, y: x + td.foreign(inverse, y - y), np.zeros(3), lambda i: i % 3, X
    ),
    "stencil": lambda: td.stencil(lambda w: td.foreign(inverse, w[-1] + w[1]), X),
    "an endless loop": lambda: td.map(
        lambda x: td.while_loop(lambda s: s < 1e6, lambda s: s + x + td.foreign(inverse, x), x),
        X[37:],
    ),
    "a loop over arrays": lambda: td.iterate(
        500, lambda s: td.map(lambda x: x + 1 + 0 * td.foreign(inverse, x - 490), s), np.zeros(9)
    ),
    "an index": lambda: td.generate(
        50, lambda i: td.use(X)[td.cast(td.foreign(inverse, i * 1.0), td.int64)]
    ),
    "behind a product": lambda: td.map(
        lambda x: td.foreign(inverse, x - x), td.use(np.ones((30, 30))) @ np.ones((30, 30))
    ),
    "a library's": lambda: td.foreign_array(
        {"native": lambda x: 1 // 0, "cuda": lambda x: 1 // 0, "reference": lambda x: 1 // 0},
        X,
        fallback=lambda x: x,
    ),
}


@not_in_parts(AT_ONCE, emulated=True)
def test_what_a_foreign_function_raises_comes_out(run, backend):
    pytest.importorskip("numba")
    for label, build in RAISING.items():
        with td.config(backend=backend), pytest.raises(ZeroDivisionError, match="zero"):
            run(build())
            pytest.fail(label)
    with pytest.raises(ValueError, match="unlucky") as raised:
        run(
            td.imap(
                lambda i, x: td.foreign(
                    odd, td.cast(x, td.complex128), td.cast(i, td.uint8), x, x < 0
                ),
                X,
            )
        )
    assert "'odd' for ((-24+0j), 13, -24.0, True)" in raised.value.__notes__[0]


@not_in_parts(AT_ONCE, emulated=True)
def test_a_function_that_has_raised_works_again(backend):
    pytest.importorskip("numba")
    f = td.jit(lambda a: td.map(lambda x: td.foreign(inverse, x), a), backend=backend)
    for _ in range(5):
        for _ in range(4):
            assert_same(f(X[:30]), 1 / X[:30])
        with pytest.raises(ZeroDivisionError):
            f(X[10:40])
    guarded = td.jit(lambda a: td.map(lambda x: td.cond(x == 0, x, td.foreign(inverse, x)), a))
    assert_same(guarded(X), np.divide(1, X, where=X != 0, out=np.zeros(50)))


def test_foreign_array_without_an_implementation_uses_the_fallback(run):
    a = small("float64", 9)
    doubled = td.foreign_array({}, td.use(a), fallback=lambda x: x * 2)
    assert_same(run(doubled + 1), a * 2 + 1)


# ---------------------------------------------------------------------------------------------
# Names and schedules


def plus(x, y):
    return x + y


VECTOR, MATRIX = np.arange(12), np.arange(12).reshape(3, 4)
LENGTHS = np.array([5, 0, 7])
OPERATIONS = {
    "fill": lambda **o: td.fill((3,), 1, **o),
    "generate": lambda **o: td.generate((3,), lambda i: i, **o),
    "iota": lambda **o: td.iota(3, **o),
    "arange": lambda **o: td.arange(3, **o),
    "linspace": lambda **o: td.linspace(0.0, 1.0, 3, **o),
    "eye": lambda **o: td.eye(3, **o),
    "zeros": lambda **o: td.zeros((3,), **o),
    "ones": lambda **o: td.ones((3,), **o),
    "full": lambda **o: td.full((3,), 2, **o),
    "map": lambda **o: td.map(lambda x: x + 1, VECTOR, **o),
    "imap": lambda **o: td.imap(lambda i, x: x + i, VECTOR, **o),
    "indexed": lambda **o: td.indexed(VECTOR, **o),
    "zip": lambda **o: td.zip(VECTOR, VECTOR, **o),
    "cast": lambda **o: td.cast(VECTOR, td.int8, **o),
    "where": lambda **o: td.where(VECTOR > 3, VECTOR, 0, **o),
    "reshape": lambda **o: td.reshape(VECTOR, (3, 4), **o),
    "flatten": lambda **o: td.flatten(MATRIX, **o),
    "transpose": lambda **o: td.transpose(MATRIX, **o),
    "broadcast_to": lambda **o: td.broadcast_to(VECTOR, (2, 12), **o),
    "replicate": lambda **o: td.replicate(VECTOR, 2, 0, **o),
    "reverse": lambda **o: td.reverse(VECTOR, 0, **o),
    "take": lambda **o: td.take(VECTOR, LENGTHS, axis=0, **o),
    "concatenate": lambda **o: td.concatenate([VECTOR, VECTOR], **o),
    "stack": lambda **o: td.stack([VECTOR, VECTOR], **o),
    "pad": lambda **o: td.pad(VECTOR, 1, **o),
    "roll": lambda **o: td.roll(VECTOR, 1, **o),
    "diagonal": lambda **o: td.diagonal(MATRIX, **o),
    "backpermute": lambda **o: td.backpermute((3,), lambda i: i, VECTOR, **o),
    "gather": lambda **o: td.gather(VECTOR, LENGTHS, **o),
    "scatter": lambda **o: td.scatter(VECTOR, LENGTHS, LENGTHS, plus, **o),
    "permute": lambda **o: td.permute(plus, VECTOR, lambda i: i // 2, VECTOR, **o),
    "fold": lambda **o: td.fold(plus, 0, MATRIX, **o),
    "fold1": lambda **o: td.fold1(plus, MATRIX, **o),
    "fold_seg": lambda **o: td.fold_seg(plus, 0, VECTOR, LENGTHS, **o),
    "fold1_seg": lambda **o: td.fold1_seg(plus, VECTOR, np.array([5, 7]), **o),
    "sum": lambda **o: td.sum(MATRIX, **o),
    "prod": lambda **o: td.prod(MATRIX, **o),
    "min": lambda **o: td.min(MATRIX, **o),
    "max": lambda **o: td.max(MATRIX, **o),
    "all": lambda **o: td.all(MATRIX, **o),
    "any": lambda **o: td.any(MATRIX, **o),
    "mean": lambda **o: td.mean(MATRIX, **o),
    "argmin": lambda **o: td.argmin(MATRIX, **o),
    "argmax": lambda **o: td.argmax(MATRIX, **o),
    "count_nonzero": lambda **o: td.count_nonzero(MATRIX, **o),
    "scanl": lambda **o: td.scanl(plus, 0, VECTOR, **o),
    "scanl1": lambda **o: td.scanl1(plus, VECTOR, **o),
    "scanl_total": lambda **o: td.scanl_total(plus, 0, VECTOR, **o),
    "scanr": lambda **o: td.scanr(plus, 0, VECTOR, **o),
    "scanr1": lambda **o: td.scanr1(plus, VECTOR, **o),
    "scanr_total": lambda **o: td.scanr_total(plus, 0, VECTOR, **o),
    "scanl_seg": lambda **o: td.scanl_seg(plus, 0, VECTOR, LENGTHS, **o),
    "scanl1_seg": lambda **o: td.scanl1_seg(plus, VECTOR, LENGTHS, **o),
    "cumsum": lambda **o: td.cumsum(VECTOR, **o),
    "cumprod": lambda **o: td.cumprod(VECTOR, **o),
    "cummax": lambda **o: td.cummax(VECTOR, **o),
    "cummin": lambda **o: td.cummin(VECTOR, **o),
    "stencil": lambda **o: td.stencil(lambda w: w[-1] + w[1], VECTOR, **o),
    "correlate": lambda **o: td.correlate(VECTOR, np.array([1, 2, 1]), **o),
    "convolve": lambda **o: td.convolve(VECTOR, np.array([1, 2, 1]), **o),
    "cond": lambda **o: td.cond(td.unit(True), VECTOR, -VECTOR, **o),
    "while_loop": lambda **o: td.while_loop(
        lambda s: td.max(s) < 99, lambda s: s * 2, td.use(VECTOR), **o
    ),
    "iterate": lambda **o: td.iterate(2, lambda s: s + 1, td.use(VECTOR), **o),
    "loop": lambda **o: td.loop(2, lambda k, s: s + k, td.use(VECTOR), **o),
    "filter": lambda **o: td.filter(lambda x: x > 3, VECTOR, **o),
    "compact": lambda **o: td.compact(VECTOR > 3, VECTOR, **o),
    "expand": lambda **o: td.expand(lambda x: x % 3, lambda x, k: x + k, VECTOR, **o),
    "sort": lambda **o: td.sort(VECTOR, **o),
    "argsort": lambda **o: td.argsort(VECTOR, **o),
    "unique": lambda **o: td.unique(VECTOR, **o),
    "bincount": lambda **o: td.bincount(VECTOR, **o),
    "histogram": lambda **o: td.histogram(VECTOR, **o),
    "matmul": lambda **o: td.matmul(MATRIX, MATRIX.T, **o),
    "strassen": lambda **o: td.strassen(MATRIX, MATRIX.T, **o),
    "dot": lambda **o: td.dot(VECTOR, VECTOR, **o),
    "outer": lambda **o: td.outer(VECTOR, VECTOR, **o),
    "tensordot": lambda **o: td.tensordot(MATRIX, MATRIX.T, 1, **o),
    "compute": lambda **o: td.compute(td.use(VECTOR) + 1, **o),
}


def test_every_operation_takes_a_name_and_a_schedule(run):
    plain = run({label: build() for label, build in OPERATIONS.items()})
    refused, named = [], {}
    for label, build in OPERATIONS.items():
        for option in ({"name": f"my_{label}"}, {"schedule": td.schedule.Row()}):
            try:
                named[f"{label} {next(iter(option))}"] = build(**option)
            except TypeError as error:
                refused.append(f"{label}: {error}")
    assert not refused, "\n".join(refused)
    for label, got in run(named).items():
        assert_same(got, plain[label.split()[0]], label=label)


# ---------------------------------------------------------------------------------------------
# Programs as values


def test_lowered_programs(backend):
    @td.jit(backend=backend)
    def edges(image):
        smooth = td.stencil(
            lambda w: (w[0, -1] + w[0, 0] * 2 + w[0, 1]) / 4,
            image,
            boundary=td.mirror,
            name="smooth",
        )
        return td.sqrt(smooth * smooth)

    image = small("float64", (33, 97))
    program = edges.lower(image)
    explanation, graph = str(program.explain()), str(program.graph())
    assert "smooth" in explanation
    assert "digraph" in graph
    plain = edges(image)
    scheduled = edges.scheduled(smooth=td.schedule.Column(8))
    same_bits(scheduled(image), plain)


def test_sources_can_be_read():
    if "native" not in working_backends():
        pytest.skip("the native backend does not work here")

    @td.jit(backend="native")
    def scale(a):
        return a * 2.5

    assert "define" in str(scale.lower(np.arange(3.0)).source())


# ---------------------------------------------------------------------------------------------
# Configuration


def test_config_sets_the_backend(backend):
    a = td.use(np.arange(3)) + 1
    with td.config(backend=backend):
        assert_same(td.run(a), np.arange(1, 4))
        with pytest.raises(td.BackendUnavailable), td.config(backend="no-such-backend"):
            td.run(a)
        assert_same(td.run(a), np.arange(1, 4))
    with pytest.raises(td.BackendUnavailable), td.config(backend="no-such-backend"):
        td.run(a)
    assert_same(td.run(a), np.arange(1, 4))


def test_config_is_per_thread():
    a = td.use(np.arange(3)) + 1
    outcome = []

    def elsewhere():
        try:
            outcome.append(td.run(a))
        except Exception as error:
            outcome.append(error)

    try:
        block = td.config(backend="no-such-backend")
    except td.BackendUnavailable:
        pytest.skip("the name is refused before the block begins")
    with block:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert_same(outcome[0], np.arange(1, 4))


def test_config_switches_checks(backend):
    table = td.use(np.arange(5))
    bad = td.generate((3,), lambda i: table[i + 10])
    with td.config(check=True):
        with pytest.raises(td.IndexOutOfBounds):
            td.run(bad, backend=backend)
        good = td.generate((3,), lambda i: table[i])
        assert_same(td.run(good, backend=backend), np.arange(3))


def test_checks_by_environment(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import numpy as np, treadle as td
            table = td.use(np.arange(5))
            try:
                td.run(td.generate((3,), lambda i: table[i + 10]), backend="reference")
            except td.IndexOutOfBounds:
                print("caught")
            """
        ),
        encoding="utf-8",
    )
    root = Path(td.__file__).resolve().parent.parent
    environment = os.environ | {
        "TREADLE_CHECK": "1",
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.strip() == "caught", done.stderr


def test_precision_and_other_options(backend):
    a = small("float32", (9, 9))
    with td.precision(fast=True):
        assert_same(td.run(td.matmul(a, a), backend=backend), a @ a)
    with td.config(recognise=False, deterministic=True):
        assert_same(td.run(td.sum(a), backend=backend), np.asarray(a.sum()))
    quick = td.jit(lambda x: td.exp(x), backend=backend, fast_math=True)
    np.testing.assert_allclose(quick(a), np.exp(a), rtol=1e-3)


@not_in_parts(THREADS, emulated=True)
def test_threads_may_run_programs_at_once(backend):
    a = np.arange(5000)

    @td.jit(backend=backend)
    def program(x, k):
        return td.cumsum(x * k), td.sum(x) + k

    def work(k):
        return [program(a, k) for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for k in range(4):
        for got in results[k]:
            assert_same(got, (np.cumsum(a * k), np.array(a.sum() + k)))


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", DTYPES)
def test_every_type_through_a_compiled_function(backend, kind):
    same = td.jit(lambda x: x[::-1], backend=backend)
    for n in (0, 1, 33):
        a = wide(kind, n)
        assert_same(same(a), a[::-1])


def test_a_function_of_the_users_that_returns_other_extents(backend):
    """Kernels would read what is not there."""

    def program(a):
        cut = td.foreign_array({backend: lambda x: x[:3]}, a, fallback=lambda x: x + 0)
        return cut * 2, td.sum(cut)

    compiled = td.jit(program, backend=backend)
    assert_same(compiled(np.arange(3)), (np.arange(3) * 2, np.array(3)))
    with pytest.raises(td.ShapeError, match=r"returned an array of shape \(3,\).* \(8,\)"):
        compiled(np.arange(8))
