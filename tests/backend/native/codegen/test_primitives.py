"""Every primitive on every type against its meaning, in vectors, tails and scalars."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen.target import Target
from treadle.dsl.expr import Apply, Const, Var
from treadle.dsl.primitives import TABLE, Primitive, convert, value_of
from treadle.dsl.types import (
    ALL_TYPES,
    ScalarType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from treadle.skeletons.ir.kernel import For, Load, Store

from .helpers import N, ap, avx2, buffer, cast, elementwise, k, kernel, run
from .ulps import distance, samples

EXACT = frozenset(
    ("add", "subtract", "multiply", "true_divide", "negative", "absolute", "sign", "sqrt",
     "minimum", "maximum", "fmin", "fmax", "copysign", "nextafter", "floor", "ceil", "trunc",
     "rint", "real", "imag", "conjugate", "floor_divide", "remainder", "quot", "rem", "fmod")
)  # fmt: skip
ULPS = 4.0


def _defined(t: ScalarType) -> list[Primitive]:
    found = []
    for name, op in TABLE.items():
        whole = name in ("rint", "floor", "ceil", "trunc")  # the identity on integers
        if name in ("cast", "select", "complex") or (whole and not t.is_inexact):
            continue
        rule = op.rule(t)
        if rule is not None and rule[0] == t:
            found.append(op)
    return found


def _cases() -> list[Any]:
    return [pytest.param(op, t, id=f"{op.name}-{t.name}") for t in ALL_TYPES for op in _defined(t)]


@functools.cache
def _arguments(arity: int, t: ScalarType) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    base = samples(t, rng)
    if arity == 1:
        return [base]
    grids = np.meshgrid(*[base if n < 2 else samples(t, rng, 3)[:9] for n in range(arity)])
    return [np.ascontiguousarray(g.ravel()) for g in grids]


def _run(t: ScalarType, arity: int, results: list[ScalarType], make: Any,
         args: list[np.ndarray[Any, Any]], target: Target | None,
         kind: str) -> list[np.ndarray[Any, Any]]:  # fmt: skip
    """Many functions of the same arguments, each into an array of its own, in one kernel."""
    i = Var("i", int64)
    inputs = [buffer(f"x{j}", t) for j in range(arity)]
    outputs = [buffer(f"o{j}", r, "output") for j, r in enumerate(results)]
    values = make(*(Load(b, i) for b in inputs))
    stores = tuple(Store(o, i, v) for o, v in zip(outputs, values, strict=True))
    program = kernel("many", [*inputs, *outputs], (For(i, k(0), N, stores, kind),))
    outs = [np.zeros(len(args[0]), r.numpy) for r in results]
    run(program, [*args, *outs], [len(args[0])], target=target)
    return outs


@functools.cache
def _natives(t: ScalarType, arity: int, which: int) -> dict[str, np.ndarray[Any, Any]]:
    """Every primitive of this type and arity: in vectors, serially, in shorter vectors."""
    ops = [(op, op.rule(t)) for op in _defined(t) if op.arity == arity]
    kind = "serial" if which == 1 else "vector"
    outs = _run(t, arity, [rule[1] for _, rule in ops if rule],
                lambda *a: [Apply(op, a, rule[1]) for op, rule in ops if rule],
                _arguments(arity, t), avx2() if which == 2 else None, kind)  # fmt: skip
    return {op.name: out for (op, _), out in zip(ops, outs, strict=True)}


def test_next_to_an_equal_number() -> None:
    """Of equal arguments the second, of every type."""
    zeros = np.array([0.0, -0.0])
    for t in (float16, bfloat16, float32, float64):
        args = [zeros.astype(t.numpy), -zeros.astype(t.numpy)]
        op = TABLE["nextafter"]
        (found,) = _run(t, 2, [t], lambda *a: [Apply(op, a, t)], args, None, "serial")
        for got in (found, value_of(op, [t, t], args, t)):
            assert list(np.signbit(got.astype("f8"))) == [True, False]


def _reference(op: Primitive, t: ScalarType, args: list[np.ndarray[Any, Any]]) -> Any:
    """The meaning, in more digits than the type where results are rounded."""
    with np.errstate(all="ignore"):
        if t.is_float and op.name not in EXACT and op.name not in ("signbit",):
            wide = np.longdouble if t == float64 and op.name not in ("erf", "erfc") else np.float64
            return op.numpy(*(a.astype(wide) for a in args))
        result = op.rule(t)
        assert result is not None
        return value_of(op, [t] * len(args), args, result[1])


@pytest.mark.sample(24)
@pytest.mark.parametrize(("op", "t"), _cases())
def test_primitive(op: Primitive, t: ScalarType) -> None:
    rule = op.rule(t)
    assert rule is not None
    args = _arguments(op.arity, t)
    found, serial = (_natives(t, op.arity, which)[op.name] for which in (0, 1))
    same = found.tobytes() == serial.tobytes()
    if not same and rule[1].is_inexact:
        same = bool(np.array_equal(found, serial, equal_nan=True))
    assert same, "scalars and vectors differ"
    check(op, t, rule[1], args, found)
    if avx2():
        check(op, t, rule[1], args, _natives(t, op.arity, 2)[op.name])


@pytest.mark.parametrize("slow_masks", [False, True])
@pytest.mark.parametrize("t", [float32, float64], ids=str)
@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extremes_of_zeros_and_nan(
    name: str, t: ScalarType, slow_masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In vectors and one after the other, with long vectors and short ones: −0 is below 0."""
    monkeypatch.setattr(Target, "slow_masks", slow_masks)
    special = np.array([np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf], t.numpy)
    args = [np.ascontiguousarray(g.ravel()) for g in np.meshgrid(special, special)]
    a, b = args
    below = (a < b) | ((a == b) & (np.signbit(a) >= np.signbit(b)))
    want = np.where(below == (name == "minimum"), a, b)
    want[np.isnan(a) | np.isnan(b)] = np.nan
    for kind in ("serial", "vector"):
        for target in (None, avx2()):
            (out,) = _run(
                t, 2, [t], lambda a, b: [Apply(TABLE[name], (a, b), t)], args, target, kind
            )
            np.testing.assert_array_equal(out, want)
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(out)[numbers], np.signbit(want)[numbers])
            assert np.unique(out.view(f"u{t.bytes}")[~numbers]).size == 1  # one kind of NaN


def check(op: Primitive, t: ScalarType, result: ScalarType, args: list[np.ndarray[Any, Any]],
          found: np.ndarray[Any, Any]) -> None:  # fmt: skip
    reference = _reference(op, t, args)
    if t.is_complex and result != bool_:
        _check_complex(op, t, args, found, reference)
        return
    if not t.is_inexact or result == bool_:
        reference = convert(reference, result)
        bad = found != reference
        assert not bad.any(), [(*(a[bad][0] for a in args), found[bad][0], reference[bad][0])]
        return
    if op.name in EXACT:
        exact = np.asarray(reference).astype(t.numpy)
        same = (found == exact) | ((found != found) & (exact != exact))
        if op.name not in ("minimum", "maximum", "fmin", "fmax", "sign"):
            f, x = found.astype("f8"), exact.astype("f8")
            same &= (np.signbit(f) == np.signbit(x)) | np.isnan(x)
        bad = ~same
        assert not bad.any(), [(*(a[bad][0] for a in args), found[bad][0], exact[bad][0])]
        return
    if op.name == "fma":
        return  # its rounding is tested apart
    off = distance(found, np.asarray(reference), t)
    worst = int(np.argmax(off))
    limit = ULPS if t.bits > 16 else 1.0
    assert off[worst] <= limit, (
        f"{off[worst]} ulp at {[a[worst] for a in args]}: {found[worst]}, not {reference[worst]}"
    )


def _check_complex(op: Primitive, t: ScalarType, args: list[np.ndarray[Any, Any]],
                   found: np.ndarray[Any, Any], reference: Any) -> None:  # fmt: skip
    with np.errstate(all="ignore"):
        wide = np.asarray(op.numpy(*(a.astype(np.clongdouble) for a in args)))
        size = np.abs(wide)
        if op.name == "fma":  # cancellation: relative to the terms
            size = np.abs(args[0]) * np.abs(args[1]) + np.abs(args[2])
        if op.name == "power":  # an error of the logarithm, times the exponent
            size = size * (1 + np.abs(args[1] * np.log(args[0])))
    usable = np.isfinite(wide) & (np.abs(wide) < 1e30)
    if op.name in ("power", "true_divide", "multiply", "fma"):
        usable &= np.isfinite(found) & np.isfinite(size)
    eps = float(np.finfo(t.numpy).eps)
    off = np.abs(found[usable].astype(wide.dtype) - wide[usable])
    bad = off > 8 * eps * np.maximum(size[usable], eps)
    where = np.flatnonzero(usable)[bad]
    assert not bad.any(), [(*(a[where[0]] for a in args), found[where[0]], wide[where[0]])]


INVERSE = ("sqrt", "log", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")


@pytest.mark.parametrize("t", [complex64, complex128], ids=str)
def test_inverse_functions_of_infinities(t: ScalarType) -> None:
    """As C99's annex G and NumPy have them, the signs of zeros included."""
    ends = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf])
    x, y = (g.ravel() for g in np.meshgrid(ends, ends))
    z = np.empty(x.size, t.numpy)
    z.real, z.imag = x, y
    z = np.concatenate([z[np.isinf(x) | np.isinf(y)], np.array([complex(0.0, np.nan)], t.numpy)])
    outs = _run(t, 1, [t] * len(INVERSE), lambda a: [Apply(TABLE[name], (a,), t)
                for name in INVERSE], [z], None, "vector")  # fmt: skip
    for name, out in zip(INVERSE, outs, strict=True):
        wanted = getattr(np, name)(z)
        for f, w in ((out.real, wanted.real), (out.imag, wanted.imag)):
            if name in INVERSE[2:]:
                f, w = f[:-1], w[:-1]  # of NaN some have a part that is none
            assert np.allclose(f, w, rtol=1e-6, atol=0, equal_nan=True), (name, z, out, wanted)
            assert (np.signbit(f) == np.signbit(w))[~np.isnan(w)].all(), (name, z, out, wanted)


@pytest.mark.sample(3)
@pytest.mark.parametrize("source", ALL_TYPES, ids=str)
def test_cast(source: ScalarType) -> None:
    x = samples(source, np.random.default_rng(3), 200)
    if source.is_float and source.bits > 16:
        extra = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 65519.999, 65520.0, 2.0**31,
                          -(2.0**31), 2.0**63, 2.0**64, 127.5, 128.0, 255.5, -0.5])  # fmt: skip
        x = np.concatenate([x, extra.astype(source.numpy)])
    targets = [t for t in ALL_TYPES if t != source]
    for target, kind in ((None, "vector"), (None, "serial"), (avx2(), "vector")):
        outs = _run(source, 1, targets,
                    lambda a: [Apply(TABLE["cast"], (a,), t) for t in targets],
                    [x], target, kind)  # fmt: skip
        for out, t in zip(outs, targets, strict=True):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                reference = convert(x, t)
            bad = ~((out == reference) | ((out != out) & (reference != reference)))
            assert not bad.any(), (t, x[bad][0], out[bad][0], reference[bad][0])


@pytest.mark.parametrize("t", ALL_TYPES, ids=str)
def test_select_and_tails(t: ScalarType) -> None:
    rng = np.random.default_rng(5)
    for size in (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000):
        base = samples(t, rng, 8)
        a, b = rng.choice(base, max(size, 1)), rng.choice(base, max(size, 1))
        p = rng.integers(0, 2, max(size, 1)).astype(np.bool_)
        program = elementwise(
            [buffer("p", bool_), buffer("a", t), buffer("b", t)], buffer("o", t, "output"),
            lambda c, x, y: Apply(TABLE["select"], (c, x, y), x.type),
        )  # fmt: skip
        guard = np.zeros(size + 130, t.numpy)
        guard[:] = base[-1]
        run(program, [p, a, b, guard], [size])
        expected = np.where(p, a, b)[:size]
        assert np.array_equal(guard[:size], expected, equal_nan=t.is_inexact)
        assert (guard[size:] == base[-1]).all() or base[-1] != base[-1]


def test_fma_rounds_once() -> None:
    x = [buffer(c, float32) for c in "abc"]
    program = elementwise(x, buffer("o", float32, "output"),
                          lambda *a: Apply(TABLE["fma"], a, float32))  # fmt: skip
    a = np.full(40, 1 + 2.0**-12, np.float32)
    c = np.full(40, -1.0, np.float32)
    out = np.zeros(40, np.float32)
    run(program, [a, a, c, out], [40])
    assert (out == np.float32(2.0**-11 + 2.0**-24)).all()


@pytest.mark.sample(16)
@pytest.mark.parametrize("name", ["fmax", "fmin", "maximum", "minimum"])
@pytest.mark.parametrize("t", [float16, float32, float64], ids=str)
@pytest.mark.parametrize("kind", ["serial", "vector"])
def test_extremes_of_what_is_surely_a_number(name: str, t: ScalarType, kind: str) -> None:
    """LLVM knows that an integer converted is not NaN."""
    integers = np.arange(-20, 20, dtype=np.int32)
    floats = np.tile([np.nan, 3, -0.0, -np.inf], 10).astype(t.numpy)
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(integers.astype(t.numpy), floats)
    for order in (1, -1):
        program = elementwise(
            [buffer("n", int32), buffer("x", t)],
            buffer("o", t, "output"),
            lambda n, x, order=order: ap(name, *(cast(n, t), x)[::order], type_=t),
            kind,
        )
        out = np.zeros(40, t.numpy)
        run(program, [integers, floats, out], [40])
        assert np.array_equal(out, expected, equal_nan=True)


def test_plain_x86() -> None:
    """A CPU without AVX: no half-precision, fused or rounding instructions."""
    if not Target.host().is_x86:
        pytest.skip("x86 only")
    plain = Target("x86-64", "", 16)
    names = ("add", "fma", "exp", "rint", "floor_divide", "minimum", "power", "nextafter")
    for t in (float16, float32):
        for name in names:
            op = TABLE[name]
            args = _arguments(op.arity, t)
            (out,) = _run(t, op.arity, [t], lambda *a: [Apply(op, a, t)], args, plain, "vector")
            check(op, t, t, args, out)


def test_complex_parts() -> None:
    for t, part in ((complex64, float32), (complex128, float64)):
        r, i = buffer("r", part), buffer("i", part)
        program = elementwise([r, i], buffer("o", t, "output"),
                              lambda a, b, t=t: Apply(TABLE["complex"], (a, b), t))  # fmt: skip
        x, y = np.arange(37).astype(part.numpy), -np.arange(37).astype(part.numpy)
        out = np.zeros(37, t.numpy)
        run(program, [x, y, out], [37])
        assert (out == x + 1j * y).all()


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, -1, -2])
def test_integer_power_of_a_constant(exponent: int) -> None:
    x = samples(int32, np.random.default_rng(2))
    program = elementwise([buffer("x", int32)], buffer("o", int32, "output"), lambda a: Apply(
        TABLE["power"], (a, Const(exponent, int32)), int32))  # fmt: skip
    out = np.zeros_like(x)
    run(program, [x, out], [len(x)])
    assert (out == TABLE["power"].numpy(x, np.full_like(x, exponent))).all()


def test_division_by_constants() -> None:
    names = ("floor_divide", "remainder", "quot", "rem")
    for t in (int32, int64, uint8):
        x = samples(t, np.random.default_rng(2))
        divisors = [d for d in (0, 1, -1, 2, -2, 3, 7, 16, 100) if d >= 0 or t.signed]
        cases = [(name, d) for name in names for d in divisors]
        outs = _run(t, 1, [t] * len(cases),
                    lambda a: [Apply(TABLE[name], (a, Const(d, t)), t) for name, d in cases],
                    [x], None, "vector")  # fmt: skip
        for (name, d), out in zip(cases, outs, strict=True):
            with np.errstate(all="ignore"):
                expected = TABLE[name].numpy(x, np.full_like(x, d))
            assert (out == expected).all(), (name, t, d)


@pytest.mark.parametrize("t", [float16, float32, float64], ids=str)
def test_division_by_zeros_of_both_signs(t: ScalarType) -> None:
    x = np.array([1.5, -1.5, 0.0, 3.0], t.numpy)
    cases = [(name, d) for d in (0.0, -0.0, np.nan) for name in ("floor_divide", "power")]
    outs = _run(t, 1, [t] * len(cases),
                lambda a: [Apply(TABLE[name], (a, Const(d, t)), t) for name, d in cases],
                [x], None, "vector")  # fmt: skip
    for (name, d), out in zip(cases, outs, strict=True):
        wanted = value_of(TABLE[name], [t, t], [x, np.full_like(x, d)], t)
        assert np.array_equal(out, wanted, equal_nan=True), (name, d, out)


def test_long_division() -> None:
    """64-bit quotients around what float64 numbers decide."""
    edges = [1, 2, 3, 7, 1 << 26, (1 << 51) - 1, 1 << 51, (1 << 51) + 1, 1 << 53, (1 << 62) + 1]
    near = [e + d for e in edges for d in (-1, 0, 1)]
    products = [p * q + d for p in (3, 94906267, 33554393) for q in (5, 67108859, 33554467)
                for d in (-1, 0, 1)]  # fmt: skip
    x = np.array([s * e for e in near + products for s in (1, -1)], np.int64)
    a, b = (np.ascontiguousarray(g.ravel()) for g in np.meshgrid(x, x))
    small = np.abs(a) < 1 << 51
    for chosen in (slice(None), small & (np.abs(b) < 1 << 51)):
        args = [np.ascontiguousarray(a[chosen]), np.ascontiguousarray(b[chosen])]
        for name in ("quot", "floor_divide"):
            (out,) = _run(int64, 2, [int64], lambda *v, name=name: [Apply(TABLE[name], v, int64)],
                          args, None, "vector")  # fmt: skip
            with np.errstate(all="ignore"):
                assert (out == TABLE[name].numpy(*args)).all()


def test_a_quotient_and_its_remainder_are_one_division() -> None:
    x, y = np.arange(-9, 9), np.arange(18) % 5
    joint = td.jit(
        lambda x, y: td.loop(18, lambda k, s: (s + x[k]) // y[k] - (s + x[k]) % y[k], 0),
        backend="native",
    ).lower(x, y)
    assert joint.source("native").count("sdiv") == 1
    want = 0
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        want = (want + a) // b - (want + a) % b if b else 0
    assert joint(x, y) == want


def test_empty() -> None:
    program = elementwise([buffer("x", float32)], buffer("o", float32, "output"), lambda a: a)
    out = np.full(4, 9, np.float32)
    run(program, [out, out], [0])
    assert (out == 9).all() and k(0).value == 0
