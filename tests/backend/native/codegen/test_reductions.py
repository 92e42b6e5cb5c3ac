"""Reductions: right, precise, and the same bits whatever surrounds them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen.target import Target
from treadle.dsl.expr import Expr, Var
from treadle.dsl.graph import Combine
from treadle.dsl.types import (
    ScalarType,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int8,
    int64,
    uint16,
)
from treadle.skeletons.ir.kernel import (
    Assign,
    Body,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Load,
    Reduce,
    Statement,
    Store,
)

from .helpers import N, add, ap, assembly, avx2, buffer, cast, k, kernel, lit, mul, run

TARGETS = [None, *([avx2()] if avx2() else [])]
SIZES = (0, 1, 3, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 8191, 8192, 8193, 100_000)
i = Var("i", int64)


def reduction(op: str, t: ScalarType, first: Any, value: Any = None, body: Body = (),
              long: bool = False) -> Kernel:  # fmt: skip
    x, o = buffer("x", t), buffer("o", t, "output", k(1))
    acc, left, right = Var("acc", t), Var("left", t), Var("right", t)
    taken: Expr = Load(x, i) if value is None else value(Load(x, i))
    combine = Combine((left,), (right,), (ap(op, left, right),))
    made = (
        Declare(acc, lit(first, t)),
        Reduce(i, k(0), N, body, (taken,), (acc,), combine, long),
        Store(o, k(0), acc),
    )
    return kernel("reduce", [x, o], made)


def values(t: ScalarType, m: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(m)
    if t.is_complex:
        return (rng.random(m) + 1j * rng.random(m)).astype(t.numpy)
    if t.is_float:
        return rng.random(m).astype(t.numpy)
    return rng.integers(0 if not t.signed else -100, 100, m).astype(t.numpy)


@pytest.mark.sample(4)
@pytest.mark.parametrize("op", ["add", "multiply", "minimum", "maximum", "fmin", "bitwise_xor",
                                "bitwise_and", "bitwise_or"])  # fmt: skip
@pytest.mark.parametrize("t", [float32, float64, complex64, int8, uint16, int64, float16], ids=str)
def test_reduce(op: str, t: ScalarType) -> None:
    bitwise = op.startswith("bitwise") and t.is_inexact
    if bitwise or (t.is_complex and op in ("minimum", "maximum", "fmin")):
        pytest.skip("not defined")
    ufunc = getattr(np, op)
    program = reduction(op, t, 1)
    for target in TARGETS:
        for m in SIZES if t != float16 else SIZES[:12]:
            x, out = values(t, m), np.zeros(1, t.numpy)
            run(program, [x, out], [m], target=target)
            wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, t.numpy)
            expected = ufunc.reduce(x.astype(wide), initial=t.numpy.type(1), dtype=wide)
            if t.is_inexact:
                error = 1e-2 if t == float16 else 2e-6
                assert np.allclose(
                    out[0], expected, rtol=error, atol=1e-6 if t == float16 else 1e-30
                ), (m, out, expected)
            else:
                assert out[0] == expected.astype(t.numpy)


def test_bits_do_not_depend_on_the_code_of_the_rest() -> None:
    for target in TARGETS:
        for m in SIZES:
            x, found = values(float32, m), []
            for long in (False, True):
                out = np.zeros(1, np.float32)
                run(reduction("add", float32, 0, long=long), [x, out], [m], target=target)
                found.append(out.tobytes())
            assert found[0] == found[1], m


def test_precision() -> None:
    x = np.random.default_rng(0).random(1 << 22).astype(np.float32)
    out = np.zeros(1, np.float32)
    run(reduction("add", float32, 0), [x, out], [len(x)])
    exact = x.astype(np.float64).sum()
    assert abs(out[0] - exact) / exact < 3e-7


def test_bits_do_not_depend_on_the_body_or_the_vectors() -> None:
    """Fused work, other vector lengths and longer bodies leave the sum's bits alone."""
    x = np.random.default_rng(1).normal(0, 1, 20_011).astype(np.float32)
    sums = []
    doubled = x * np.float32(2)
    heavy = x.copy()
    for _ in range(80):
        heavy = heavy * np.float32(0.5) + np.float32(0.25)

    def long(v: Expr) -> Expr:
        for _ in range(80):
            v = add(mul(v, lit(0.5, float32)), lit(0.25, float32))
        return v

    for target in TARGETS:
        for source, value in ((doubled, None), (x, lambda v: mul(v, lit(2, float32))),
                              (heavy, None), (x, long)):  # fmt: skip
            out = np.zeros(1, np.float32)
            run(reduction("add", float32, 0, value), [source, out], [len(x)], target=target)
            sums.append(out.tobytes())
    assert len(set(sums)) == 2 and sums[0] == sums[1] and sums[2] == sums[3]


def in_documented_order(x: np.ndarray[Any, Any]) -> Any:
    """The sum as the module says: 64 partials in each block of 8 192, those of blocks in order."""
    total = np.full(64, -0.0, x.dtype)
    for first in range(0, len(x), 8192):
        block = x[first : first + 8192]
        padded = np.full(-(-len(block) // 64) * 64, -0.0, x.dtype)
        padded[: len(block)] = block
        partials = np.full(64, -0.0, x.dtype)
        for group in padded.reshape(-1, 64):
            partials = partials + group
        total = total + partials
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    return x.dtype.type(0) + total[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("cost", [0, 80])
@pytest.mark.parametrize("t", [float32, float64], ids=str)
def test_the_documented_order(t: ScalarType, cost: int) -> None:
    """Of any number of elements, whatever the rest of a group; also of those that cost much."""
    rng = np.random.default_rng(3)

    def element(v: Expr) -> Expr:
        for _ in range(cost):
            v = add(mul(v, lit(0.5, t)), lit(0.25, t))
        return v

    for target in TARGETS:
        for m in (*SIZES[:-1], *range(64, 128, 3 if cost else 1), 500, 20_011):
            x, out = rng.normal(0, 1, m).astype(t.numpy), np.zeros(1, t.numpy)
            run(reduction("add", t, 0, element), [x, out], [m], target=target)
            y = x
            for _ in range(cost):
                y = y * x.dtype.type(0.5) + x.dtype.type(0.25)
            assert out.tobytes() == in_documented_order(y).tobytes(), (m, target)


def test_nan_and_signed_zero() -> None:
    for op, data, expected in (
        ("minimum", [1.0, np.nan, -1.0], np.nan), ("fmin", [1.0, np.nan, -1.0], -1.0),
        ("fmax", [np.nan] * 70, 1.0), ("maximum", [2.0] * 70 + [np.nan], np.nan),
    ):  # fmt: skip
        x, out = np.array(data), np.zeros(1)
        run(reduction(op, float64, 1), [x, out], [len(x)])
        assert np.array_equal(out[0], expected, equal_nan=True)
    out = np.ones(1)
    run(reduction("add", float64, -0.0), [np.full(70, -0.0), out], [70])
    assert out[0] == 0 and np.signbit(out[0])


def test_several_at_once() -> None:
    """Sum, maximum and count in one pass, of different types."""
    x, s = buffer("x", float32), buffer("s", float64, "output", k(1))
    m, c = buffer("m", float32, "output", k(1)), buffer("c", int64, "output", k(1))
    types = (float64, float32, int64)
    acc = tuple(Var(f"acc{n}", t) for n, t in enumerate(types))
    left = tuple(Var(f"l{n}", t) for n, t in enumerate(types))
    right = tuple(Var(f"r{n}", t) for n, t in enumerate(types))
    v = Var("v", float32)
    combine = Combine(left, right, (add(left[0], right[0]), ap("maximum", left[1], right[1]),
                                    add(right[2], left[2])))  # fmt: skip
    body = (
        Declare(acc[0], lit(0, float64)), Declare(acc[1], lit(-1, float32)), Declare(acc[2], k(0)),
        Reduce(i, k(0), N, (Let(v, Load(x, i)),),
               (cast(v, float64), v, cast(ap("less", v, lit(0.5, float32), type_=bool_), int64)),
               acc, combine),
        Store(s, k(0), acc[0]), Store(m, k(0), acc[1]), Store(c, k(0), acc[2]),
    )  # fmt: skip
    program = kernel("several", [x, s, m, c], body)
    for target in TARGETS:
        for size in (0, 1, 64, 1000):
            data = np.random.default_rng(size).random(size).astype(np.float32)
            outs: list[Any] = [np.zeros(1), np.zeros(1, np.float32), np.zeros(1, np.int64)]
            run(program, [data, *outs], [size], target=target)
            assert np.isclose(outs[0][0], data.astype(np.float64).sum(), rtol=1e-14)
            assert outs[1][0] == (data.max() if size else -1)
            assert outs[2][0] == (data < 0.5).sum()


def test_pairs_that_are_no_known_primitive() -> None:
    """Argmin: the smaller value, of equal ones the smaller index."""
    x, o = buffer("x", float32), buffer("o", int64, "output", k(1))
    best, at = Var("best", float32), Var("at", int64)
    l0, l1, r0, r1 = Var("l0", float32), Var("l1", int64), Var("r0", float32), Var("r1", int64)
    earlier = ap("logical_and", ap("equal", l0, r0), ap("less", l1, r1))
    first = ap("logical_or", ap("less", l0, r0), earlier)
    results = (ap("select", first, l0, r0, type_=float32), ap("select", first, l1, r1, type_=int64))
    body = (
        Declare(best, lit(np.inf, float32)), Declare(at, k(-1)),
        Reduce(i, k(0), N, (), (Load(x, i), i), (best, at), Combine((l0, l1), (r0, r1), results)),
        Store(o, k(0), at),
    )  # fmt: skip
    data = np.random.default_rng(0).integers(0, 50, 1000).astype(np.float32)
    out = np.zeros(1, np.int64)
    run(kernel("argmin", [x, o], body), [data, out], [1000])
    assert out[0] == np.argmin(data)


@pytest.mark.sample(1)
@pytest.mark.parametrize("t", [np.float32, np.float64, np.int8, np.uint16, np.bool_])
@pytest.mark.parametrize("operation", ["argmax", "argmin"])
def test_places_of_extremes(operation: str, t: Any) -> None:
    """The first of equal ones, the first NaN, in whichever block it lies; along any axis."""
    rng = np.random.default_rng(5)
    found, numpy = td.jit(getattr(td, operation), backend="native"), getattr(np, operation)
    for size in (1, 5, 8192, 8193, 50_000):
        data = rng.integers(0, 100, size).astype(t)
        assert found(data) == numpy(data)
        if data.dtype.kind == "f":
            data[data == numpy(data)] = -np.inf
            data[[size // 3, size // 2]] = np.nan
            assert found(data) == size // 3
            assert found(np.full(size, np.nan, t)) == 0
    many = rng.integers(0, 50, (3, 70, 9)).astype(t)
    for axis in (0, 1, 2):
        along = td.run(getattr(td, operation)(many, axis=axis), backend="native")
        assert np.array_equal(along, numpy(many, axis=axis))
    rows = rng.integers(0, 1000, (3, 30_000)).astype(t)
    both = td.run(getattr(td, operation)(rows, axis=1), backend="native")
    assert np.array_equal(both, numpy(rows, axis=1))
    assert found(many[:, ::-1]) == numpy(many[:, ::-1])


def test_inside_a_vector_loop() -> None:
    """One reduction per lane."""
    x, o = buffer("x", float64), buffer("o", float64, "output")
    j, acc, left, right = Var("j", int64), Var("acc", float64), Var("l", float64), Var("r", float64)
    combine = Combine((left,), (right,), (add(left, right),))
    body = (
        For(j, k(0), N, (
            Declare(acc, lit(0, float64)),
            Reduce(i, k(0), j, (), (Load(x, add(mul(i, N), j)),), (acc,), combine),
            Store(o, j, acc),
        ), "vector"),
    )  # fmt: skip
    data, out = np.random.default_rng(0).random((37, 37)), np.zeros(37)
    run(kernel("columns", [x, o], body), [data, out], [37])
    assert np.allclose(out, [data[:c, c].sum() for c in range(37)])


@pytest.mark.sample(3)
@pytest.mark.parametrize("schedule", [td.schedule.Tile(2, 3), td.schedule.Column(64)], ids=repr)
@pytest.mark.parametrize("layout", "CF")
@pytest.mark.parametrize("axis", [0, 1])
def test_means_in_an_order_are_loaded_before_the_loop_over_deviations(
    axis: int, layout: Any, schedule: td.schedule.Schedule
) -> None:
    """The lanes' indices were first used inside the loop."""
    x = np.array(np.random.default_rng(1).normal(0, 10, (9, 70)), np.float32, order=layout)
    found = td.jit(lambda x: td.var(x, axis=axis, schedule=schedule), backend="native")(x)
    np.testing.assert_allclose(found, x.var(axis=axis), rtol=1e-4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("bounds", [(0, 0), (1, 3), (1, 64), (70, 500), (64, 640), (5, 1 << 40),
                                    (-(1 << 63), 400), (3, (1 << 63) - 1)])  # fmt: skip
@pytest.mark.parametrize("t", [float32, float64, int8], ids=str)
def test_interiors(t: ScalarType, bounds: tuple[int, int]) -> None:
    """Elements that are computed otherwise near the ends: the same bits as by one form."""
    low, high = bounds
    x, o = buffer("x", t), buffer("o", t, "output", k(1))
    acc, left, right, v = (Var(n, t) for n in ("acc", "left", "right", "v"))
    combine = Combine((left,), (right,), (ap("add", left, right),))
    here: Expr = Load(x, i)
    test = ap("logical_and", ap("less_equal", k(low), i), ap("less", i, k(high)))
    sides = If(test, (Assign(v, here),), (Assign(v, add(here, here)),))

    def summed(*body: Statement, value: Expr) -> Kernel:
        made = Reduce(i, k(0), N, body, (value,), (acc,), combine)
        return kernel("reduce", [x, o], (Declare(acc, lit(0, t)), made, Store(o, k(0), acc)))

    for target in TARGETS:
        for m in SIZES:
            a, found, want = values(t, m), np.zeros(1, t.numpy), np.zeros(1, t.numpy)
            run(summed(Declare(v, lit(0, t)), sides, value=mul(v, lit(3, t))), [a, found], [m],
                target=target)  # fmt: skip
            places = np.arange(m)
            b = np.where((low <= places) & (places < high), a, a + a)
            run(summed(value=mul(here, lit(3, t))), [b, want], [m], target=target)
            assert found.tobytes() == want.tobytes(), m


def test_bounds_that_a_program_gives() -> None:
    """Also those that are no numbers of elements, or change with the element."""
    a = np.random.default_rng(2).random(1000)

    def summed(a: Any, low: Any, high: Any) -> Any:
        def element(k: Any) -> Any:
            inside = td.cond((low <= k) & (k < high), a[k], 2.0)
            return inside + td.cond((k - low <= k) & (k < k * high), 0.5, a[k])

        return td.sum(td.generate(a.shape, element))

    for bounds in ((-(1 << 63), 7), (5, (1 << 63) - 1), (900, 100), (3, 800)):
        found, want = (td.jit(summed, backend=b)(a, *bounds) for b in ("native", "reference"))
        assert np.isclose(found, want, rtol=1e-12), bounds


def test_folds_of_stencils_load_vectors() -> None:
    """Not elements one by one, except at the ends of rows; the bits are those of a stored one."""

    def blur(u: Any) -> Any:
        return td.stencil(lambda w: w[0, -1] + w[0, 1] + w[1, 0], u)

    u = np.random.default_rng(1).random((70, 300)).astype(np.float32)
    stored = td.jit(lambda u: td.compute(blur(u)), backend="native")(u)
    folds: dict[str, Any] = {
        "all": td.sum, "rows": lambda x: td.max(x, axis=1), "columns": lambda x: td.sum(x, axis=0),
        "places": td.argmax, "around": lambda x: td.sum(td.roll(x, 1, 1)),
    }  # fmt: skip
    for name, fold in folds.items():
        program = td.jit(lambda u, fold=fold: fold(blur(u)), backend="native").lower(u)
        want = td.jit(fold, backend="native")(stored)
        assert np.asarray(program(u)).tobytes() == np.asarray(want).tobytes(), name
        text = str(program.source())
        kind = "vector" if name == "columns" else "group"
        loop = re.search(rf"^{kind}\d+:$(.*?)^end_", text, re.MULTILINE | re.DOTALL)
        assert loop and "load <" in loop[1] and "gather" not in loop[1], name


@pytest.mark.parametrize("t", [float32, complex64], ids=str)
def test_what_is_stored_beside_a_sum_goes_past_the_caches(t: ScalarType) -> None:
    """Of large aligned arrays; others, and small ones, are stored as usual.  All bits are equal."""
    host = Target.host()
    if not host.is_x86 or host.vector_bytes < 64:
        pytest.skip("vectors as long as cache lines only")
    large = Target(host.cpu, host.features, host.vector_bytes, 4096)
    x, s, o = buffer("x", t), buffer("s", t, "output", k(1)), buffer("o", t, "output")
    acc, left, right, v = Var("acc", t), Var("left", t), Var("right", t), Var("v", t)
    body = (
        Declare(acc, lit(0, t)),
        Reduce(i, k(0), N, (Let(v, ap("negative", Load(x, i))), Store(o, i, v)), (mul(v, v),),
               (acc,), Combine((left,), (right,), (add(left, right),))),
        Store(s, k(0), acc),
    )  # fmt: skip
    program = kernel("stored", [x, s, o], body)
    space = np.zeros(21_000, t.numpy)
    first = -(space.ctypes.data // t.bytes) % (64 // t.bytes)
    for size in (0, 1, 100, 1024, 1100, 20_000):
        data, sums = values(t, size), []
        for offset, target in ((0, large), (1, large), (0, host.regular)):
            out, total = space[first + offset : first + offset + size], np.zeros(1, t.numpy)
            space[:] = 7
            compiled = run(program, [data, total, out], [size], target=target)
            assert (out == -data).all() and (space == 7).sum() == len(space) - size
            assert ("vmovnt" in assembly(compiled)) == (target is large)
            sums.append(total[0])
        assert sums[0] == sums[1] == sums[2]
