"""Atomic updates under contention, reports, foreign functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treadle.dsl.expr import Expr, Foreign, Var
from treadle.dsl.graph import Combine
from treadle.dsl.types import (
    ScalarType,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from treadle.skeletons.ir.kernel import Atomic, Body, Buffer, For, If, Kernel, Load, Report, Store

from .helpers import TASK, N, add, ap, avx2, buffer, cast, k, kernel, less, lit, mul, run

TARGETS = [None, *([avx2()] if avx2() else [])]
i = Var("i", int64)


def over_tasks(*body: Any) -> Body:
    """Every task does a tenth of the elements."""
    start, stop = mul(TASK, N), mul(add(TASK, k(1)), N)
    return (For(i, start, stop, tuple(body), "vector"),)


def histogram(t: ScalarType, op: str | None, locks: Buffer | None = None) -> Kernel:
    at, x, o = buffer("at", int32), buffer("x", t), buffer("o", t, "update")
    left, right = Var("left", t), Var("right", t)
    combine = None if op is None else Combine((left,), (right,), (ap(op, left, right),))
    update = Atomic((o,), cast(Load(at, i), int64), (Load(x, i),), combine, locks)
    buffers = [at, x, o, *([locks] if locks else [])]
    return kernel("histogram", buffers, over_tasks(update), tasks=k(40))


OPS = ("add", "minimum", "maximum", "bitwise_xor", "bitwise_or", "multiply")
TYPES = (int8, int16, int32, int64, uint8, uint32, uint64, float16, float32, float64, complex64)


@pytest.mark.sample(8)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_contention(op: str, t: ScalarType) -> None:
    if (t.is_inexact and op.startswith("bit")) or (
        t.is_complex and op != "add" and op != "multiply"
    ):
        pytest.skip("not defined")
    rng = np.random.default_rng(1)
    tasks, each = 40, 257
    at = rng.integers(0, 7, tasks * each).astype(np.int32)
    # Numbers whose sums and products are exact in any order.
    x = rng.choice([1, 1, 1, 2] if op != "multiply" else [1, -1], tasks * each)
    if t.name == "float16":
        at = np.arange(tasks * each, dtype=np.int32)
    x = x.astype(t.numpy) if t.signed or op != "multiply" else np.ones(len(x), t.numpy)
    for target in TARGETS:
        out = np.ones(max(7, int(at.max()) + 1), t.numpy)
        expected = out.copy()
        getattr(np, op).at(expected, at, x)
        run(histogram(t, op), [at, x, out], [each], tasks, target=target)
        assert (out == expected).all()


def test_overwrite_and_bool() -> None:
    rng = np.random.default_rng(1)
    at = rng.integers(0, 50, 4000).astype(np.int32)
    out = np.full(60, -1, np.int32)
    run(histogram(int32, None), [at, np.arange(4000, dtype=np.int32), out], [100], 40)
    for place in range(60):
        assert out[place] in np.flatnonzero(at == place) or (out[place] == -1 and place >= 50)
    flags = np.zeros(60, np.bool_)
    run(histogram(bool_, "logical_or"), [at, at % 2 == 0, flags], [100], 40)
    assert flags.tolist() == [p % 2 == 0 and p < 50 for p in range(60)]


def test_locks() -> None:
    """Pairs and 16-byte numbers change whole."""
    rng = np.random.default_rng(1)
    at = rng.integers(0, 5, 4000).astype(np.int32)
    locks = buffer("locks", int32, "scratch", k(3))
    x = (rng.integers(0, 9, 4000) + 1j * rng.integers(0, 9, 4000)).astype(np.complex128)
    out, expected = np.zeros(5, np.complex128), np.zeros(5, np.complex128)
    held = np.zeros(3, np.int32)
    run(histogram(complex128, "add", locks), [at, x, out, held], [100], 40)
    np.add.at(expected, at, x)
    assert (out == expected).all() and not held.any()

    where, v = buffer("at", int32), buffer("v", float32)
    best, index = buffer("best", float32, "update"), buffer("index", int64, "update")
    l0, l1, r0, r1 = Var("l0", float32), Var("l1", int64), Var("r0", float32), Var("r1", int64)
    first = ap("logical_or", less(l0, r0), ap("logical_and", ap("equal", l0, r0), less(l1, r1)))
    results = (ap("select", first, l0, r0, type_=float32), ap("select", first, l1, r1, type_=int64))
    update = Atomic((best, index), cast(Load(where, i), int64), (Load(v, i), i),
                    Combine((l0, l1), (r0, r1), results), locks)  # fmt: skip
    program = kernel("argmin", [where, v, best, index, locks], over_tasks(update), tasks=k(40))
    numbers = rng.integers(0, 100, 4000).astype(np.float32)
    least, places = np.full(5, np.inf, np.float32), np.zeros(5, np.int64)
    run(program, [at, numbers, least, places, held], [100], 40)
    for p in range(5):
        mine = np.flatnonzero(at == p)
        assert least[p] == numbers[mine].min() and places[p] == mine[numbers[mine].argmin()]


def test_atomics_under_a_mask() -> None:
    at, o = buffer("at", int32), buffer("o", int32, "update")
    left, right = Var("left", int32), Var("right", int32)
    place = cast(Load(at, i), int64)
    combine = Combine((left,), (right,), (add(left, right),))
    body = (For(i, k(0), N, (If(less(k(2), place), (
        Atomic((o,), place, (lit(1, int32),), combine),)),), "vector"),)  # fmt: skip
    program = kernel("masked", [at, o], body)
    for m in (1, 15, 16, 17, 100):
        where = np.random.default_rng(m).integers(0, 6, m).astype(np.int32)
        out = np.zeros(6, np.int32)
        run(program, [where, out], [m])
        expected = np.bincount(where, minlength=6)
        expected[:3] = 0
        assert (out == expected).all()


@pytest.mark.parametrize("kind", ["vector", "serial"])
def test_report(kind: str) -> None:
    at, o = buffer("at", int64), buffer("o", float32, "output")
    index: Expr = Load(at, i)
    fine = ap("logical_and", less(k(-1), index), less(index, N))
    body = (For(i, k(0), N, (Report(fine, 4, index, N), Store(o, i, lit(1, float32))), kind),)
    program = kernel("report", [at, o], body)
    for m in (1, 16, 33, 100):
        where, out, errors = np.arange(m), np.zeros(m, np.float32), np.zeros(4, np.int64)
        run(program, [where, out], [m], errors=errors.ctypes.data)
        assert not errors.any() and out.all()
        where[m // 2] = -5
        where[m - 1] = 1000 if m > 1 else -5
        run(program, [where, out], [m], errors=errors.ctypes.data)
        assert errors[0] == 5 and errors[1] in (-5, 1000) and errors[2] == m
        run(program, [np.zeros(m, np.int64), out], [m], errors=errors.ctypes.data)
        assert errors[0] == 5


def test_foreign() -> None:
    pytest.importorskip("numba")
    from treadle.dsl.operations.elements.foreign import compile_scalar_function

    def gcd(a: int, b: int) -> int:
        while b != 0:
            a, b = b, a % b
        return a

    def half(x: float) -> float:
        return x * 0.5

    def even(n: int) -> bool:
        return n % 2 == 0

    def turn(z: complex) -> complex:
        return z * 1j

    cases: list[tuple[Any, tuple[ScalarType, ...], Any]] = [
        (gcd, (int64, int64), np.gcd),
        (half, (float32,), lambda x: x * np.float32(0.5)),
        (half, (float64,), lambda x: x * 0.5),
        (even, (int32,), lambda n: n % 2 == 0),
        (turn, (complex128,), lambda z: z * 1j),
        (turn, (complex64,), lambda z: z * 1j),
    ]
    for function, types, meaning in cases:
        compiled = compile_scalar_function(function, types)
        inputs = [buffer(f"x{n}", t) for n, t in enumerate(types)]
        out = buffer("o", compiled.result, "output")
        for kind in ("vector", "serial"):
            value = Foreign(compiled, tuple(Load(b, i) for b in inputs), compiled.result)
            program = kernel("foreign", [*inputs, out],
                             (For(i, k(0), N, (Store(out, i, value),), kind),))  # fmt: skip
            arrays = [(np.arange(45) * (n + 3) + 1).astype(t.numpy) for n, t in enumerate(types)]
            result = np.zeros(45, compiled.result.numpy)
            run(program, [*arrays, result], [45])
            assert np.allclose(result, meaning(*arrays))
