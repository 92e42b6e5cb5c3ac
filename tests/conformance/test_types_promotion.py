"""Types: literals, promotion, conversions, integer arithmetic (docs/reference.md, "Types")."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import treadle as td

from .helpers import (
    BFLOAT16,
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    dt,
    generator,
    small,
    td_dtype,
    wide,
)

LITERALS = {
    "True": (True, "bool"),
    "3": (3, "int64"),
    "2.5": (2.5, "float64"),
    "1j": (1j, "complex128"),
}


def test_python_literals_alone(check):
    cases = {}
    for text, (value, kind) in LITERALS.items():
        want = np.full(3, value, kind)
        cases[f"unit({text})"] = (lambda v=value: td.unit(v), np.array(value, kind))
        cases[f"fill({text})"] = (lambda v=value: td.fill((3,), v), want)
        cases[f"element {text}"] = (lambda v=value: td.generate((3,), lambda i: v), want)
        cases[f"component {text}"] = (
            lambda v=value: td.generate((3,), lambda i: (v, i)),
            (want, np.arange(3)),
        )
        cases[f"state {text}"] = (
            lambda v=value: td.generate((3,), lambda i: td.iterate(2, lambda s: s, v)),
            want,
        )
    check(cases)


def test_typed_scalars(check):
    check(
        {name: (lambda n=name: td.unit(td_dtype(n)(1)), np.array(1, dt(name))) for name in DTYPES}
        | {
            f"{name} element": (
                lambda n=name: td.generate((2,), lambda i: td_dtype(n)(1)),
                np.ones(2, dt(name)),
            )
            for name in DTYPES
        }
    )


def test_array_knows_its_type_before_running():
    for name in DTYPES:
        a = td.use(np.zeros((2, 3), dt(name)))
        assert a.dtype == td_dtype(name)
        assert a.ndim == 2
    assert td.use(np.zeros((2, 3), "f4")).dtype != td.float64
    assert td.map(lambda x: x + 1.5, np.zeros(3, "i4")).dtype == td.float64
    assert len(td.use(np.zeros((2, 3), "f4")).shape) == 2


COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
               "==": operator.eq, "!=": operator.ne}  # fmt: skip


def promotable(left, right):
    """Whether NumPy and the page agree on what two types give."""
    if "bfloat16" in (left, right):
        other = right if left == "bfloat16" else left
        return other in (
            "bool",
            "int8",
            "uint8",
            "bfloat16",
            "float32",
            "float64",
            "complex64",
            "complex128",
        )
    return True


@pytest.mark.sample(4)
@pytest.mark.parametrize("left", DTYPES)
def test_promotion_of_two_arrays(check, left):
    a = small(left, 3, low=1)
    cases = {}
    for right in DTYPES:
        if promotable(left, right):
            b = small(right, 3, seed=1, low=1)
            cases[right] = (lambda b=b: td.use(a) + td.use(b), a + b)
    check(cases)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", DTYPES)
def test_literals_are_weak(check, name):
    a = small(name, 5, low=1)
    cases = {}
    for text, (value, _) in LITERALS.items():
        if name == "bfloat16" and text == "2.5":
            want_add, want_mul = (a + a.dtype.type(2.5)), (a * a.dtype.type(2.5))
        else:
            want_add, want_mul = a + value, value * a
        cases[f"x + {text}"] = (lambda v=value: td.use(a) + v, want_add)
        cases[f"{text} * x"] = (lambda v=value: v * td.use(a), want_mul)
        cases[f"scalar x + {text}"] = (lambda v=value: td.map(lambda x: x + v, a), want_add)
        cases[f"scalar {text} * x"] = (lambda v=value: td.map(lambda x: v * x, a), want_mul)
    check(cases)


@pytest.mark.parametrize("name", ("int8", "uint8", "uint64"))
def test_literals_beyond_the_type_can_be_compared_with(check, name):
    """And with nothing else: NumPy raises for `uint8 array + 300`."""
    a = np.array([0, 1, 100], name)
    cases = {}
    for value in (-1 if name[0] == "u" else -200, 5, 300 if name[-1] == "8" else 99):
        for sign, compare in COMPARISONS.items():
            cases[f"x {sign} {value}"] = (
                lambda c=compare, v=value: c(td.use(a), v),
                compare(a, value),
            )
            cases[f"{value} {sign} x"] = (
                lambda c=compare, v=value: c(v, td.use(a)),
                compare(value, a),
            )
    check(cases)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ("int8", "uint16", "float32", "bfloat16", "complex64"))
def test_weak_values_take_the_element_type_they_meet(check, name):
    a = small(name, (3, 4), low=1)
    want = np.asarray(a.astype(a.dtype))
    total = np.stack([want[:, 0] + want[:, 1] + want[:, 2] + want[:, 3]])[0] + a.dtype.type(1)
    check(
        {
            "fold": (lambda: td.fold(lambda x, y: x + y, 1, a), total.astype(a.dtype)),
            "scanl": (lambda: td.scanl(lambda x, y: x + y, 0, a)[:, 1], a[:, 0]),
            "boundary": (
                lambda: td.stencil(lambda w: w[0, -1], a, boundary=td.constant(2)),
                np.concatenate([np.full((3, 1), 2).astype(a.dtype), a[:, :-1]], axis=1),
            ),
            "where": (
                lambda: td.map(lambda x: td.where(x == 1, x, 0), a),
                np.where(a == 1, a, a.dtype.type(0)),
            ),
            "cond": (
                lambda: td.map(lambda x: td.cond(x == 1, 2, x), a),
                np.where(a == 1, a.dtype.type(2), a),
            ),
        }
    )


def test_index_scalars_are_int64(check):
    a = np.zeros((5, 3), "f4")
    check(
        {
            "generate": (
                lambda: td.generate((2, 3), lambda i, j: i + j),
                np.add.outer(np.arange(2), np.arange(3)),
            ),
            "iota": (lambda: td.iota(4), np.arange(4)),
            "iota of a type": (lambda: td.iota(4, td.uint8), np.arange(4, dtype="u1")),
            "extent": (lambda: td.generate((2,), lambda i: td.use(a).shape[0]), np.full(2, 5)),
            "imap": (lambda: td.imap(lambda i, x: i, np.zeros(3, "i1")), np.arange(3)),
            "beyond 32 bits": (
                lambda: td.map(lambda i: i * 3_000_000_000, td.iota(4)),
                np.arange(4) * 3_000_000_000,
            ),
            "beyond 32 bits, squared": (
                lambda: td.generate((3,), lambda i: (i + 3_000_000_000) * 3 - i),
                np.arange(3) * 2 + 9_000_000_000,
            ),
        }
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("source", DTYPES)
def test_cast_of_small_values(check, source):
    a = small(source, 7, low=0, high=4)
    cases = {}
    for target in DTYPES:
        values = a.real if a.dtype.kind == "c" and dt(target).kind != "c" else a
        want = a != 0 if target == "bool" else values.astype(dt(target))
        cases[f"cast to {target}"] = (lambda t=target: td.cast(a, td_dtype(t)), want)
        cases[f"astype {target}"] = (lambda t=target: td.use(a).astype(td_dtype(t)), want)
        cases[f"scalar astype {target}"] = (
            lambda t=target: td.map(lambda x: x.astype(td_dtype(t)), a),
            want,
        )
    if "c" in a.dtype.kind:  # a complex number becomes a real one by its real part
        cases = {k: v for k, v in cases.items() if "bool" not in k}
    check(cases)


@pytest.mark.parametrize("source", INTEGERS)
def test_cast_between_integers_wraps(check, source):
    a = wide(source, 33)
    check({t: (lambda t=t: td.cast(a, td_dtype(t)), a.astype(t)) for t in INTEGERS})


@pytest.mark.parametrize("source", INTEGERS)
def test_cast_of_integers_to_floats_rounds_to_nearest(check, source):
    a = wide(source, 33)
    with np.errstate(all="ignore"):
        check(
            {
                t: (lambda t=t: td.cast(a, td_dtype(t)), a.astype(t))
                for t in ("float32", "float64", "complex128")
            }
        )


def saturated(value: float, target: np.dtype) -> int:
    info = np.iinfo(target)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return info.max if value > 0 else info.min
    return min(max(int(value), info.min), info.max)


@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer_saturates_and_truncates(check, source):
    numbers = [
        math.nan,
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        0.9,
        -0.9,
        1.5,
        -1.5,
        2.5,
        126.75,
        127.0,
        128.0,
        -128.0,
        -128.75,
        -129.0,
        255.0,
        256.0,
        300.0,
        -300.0,
        32767.0,
        32768.0,
        -32768.0,
        -40000.0,
        65504.0,
        70000.0,
        2.0**31,
        -(2.0**31),
        2.0**31 - 1,
        2.0**32,
        2.0**53 + 2,
        2.0**63,
        -(2.0**63),
        2.0**64,
        1e30,
        -1e30,
        1e300,
        -1e300,
        5e-324,
    ]
    with np.errstate(all="ignore"):
        a = np.array(numbers, dtype="f8").astype(dt(source))
    cases = {}
    for target in INTEGERS:
        want = np.array([saturated(float(v), np.dtype(target)) for v in a], dtype=target)
        cases[f"array to {target}"] = (lambda t=target: td.cast(a, td_dtype(t)), want)
        cases[f"scalar to {target}"] = (
            lambda t=target: td.map(lambda x: td.cast(x, td_dtype(t)), a),
            want,
        )
    cases["bool"] = (lambda: td.cast(a, td.bool_), a != 0)
    check(cases)


def test_cast_between_floats_rounds_to_nearest_even(check):
    numbers = np.array(
        [
            0.1,
            1 / 3,
            65519.9,
            65520.0,
            70000.0,
            1e-8,
            6e-8,
            3.4e38,
            1e39,
            -1e39,
            1 + 2.0**-11,
            1 + 3 * 2.0**-11,
            2049.0,
            2051.0,
            math.inf,
            math.nan,
            -0.0,
        ]
    )
    with np.errstate(all="ignore"):
        singles = numbers.astype("f4")
        cases = {
            "f8 to f4": (lambda: td.cast(numbers, td.float32), singles),
            "f8 to f2": (lambda: td.cast(numbers, td.float16), numbers.astype("f2")),
            "f4 to f2": (lambda: td.cast(singles, td.float16), singles.astype("f2")),
            "f4 to bf16": (lambda: td.cast(singles, td.bfloat16), singles.astype(BFLOAT16)),
            "bf16 to f4": (
                lambda: td.cast(singles.astype(BFLOAT16), td.float32),
                singles.astype(BFLOAT16).astype("f4"),
            ),
            "f2 to f8": (
                lambda: td.cast(numbers.astype("f2"), td.float64),
                numbers.astype("f2").astype("f8"),
            ),
            "c16 to c8": (lambda: td.cast(numbers + 0j, td.complex64), (numbers + 0j).astype("c8")),
        }
    check(cases)


def test_numpy_dtypes_are_accepted(check):
    a = np.arange(4, dtype="i4")
    check(
        {
            "type": (lambda: td.cast(a, np.float32), a.astype("f4")),
            "dtype": (lambda: td.use(a).astype(np.dtype("float16")), a.astype("f2")),
            "bfloat16": (lambda: td.cast(a, BFLOAT16), a.astype(BFLOAT16)),
            "scalar": (lambda: td.map(lambda x: td.cast(x, np.uint8), a), a.astype("u1")),
            "iota": (lambda: td.iota(3, np.int16), np.arange(3, dtype="i2")),
        }
    )


def test_halves_round_after_every_operation(check):
    """No excess precision: each operation on float16 and bfloat16 rounds to the type."""
    cases = {}
    for name in ("float16", "bfloat16"):
        one, tiny = dt(name).type(1), dt(name).type(2.0**-9 if name == "bfloat16" else 2.0**-12)
        a, b = np.full(37, one), np.full(37, tiny)
        cases[name] = (
            lambda a=a, b=b: td.map(lambda x, y: (x + y) + y + y + y - x, a, b),
            np.zeros(37, dt(name)),
        )
    check(cases)


@pytest.mark.parametrize("name", ("float16", "bfloat16"))
def test_halves_are_computed_in_float32_and_rounded_once(check, name):
    """Quotients above all, whose whole part depends on the digits it is computed in."""
    rng, kind = generator("halves", name), dt(name)
    bits = rng.integers(0, 1 << 16, (2, 2000)).astype("u2").view(kind)
    near = (rng.normal(size=(2, 2000)) * 10.0 ** rng.uniform(-2, 3, (2, 2000))).astype(kind)
    a, b = np.concatenate([bits, near, np.full((2, 1), [[135.4], [19.34]], kind)], axis=1)
    x, y = a.astype("f4"), b.astype("f4")
    meanings = {
        "quot": np.trunc(x / y), "rem": np.fmod(x, y), "floor_divide": np.floor_divide(x, y),
        "remainder": np.remainder(x, y), "true_divide": x / y, "add": x + y, "multiply": x * y,
        "subtract": x - y,
    }  # fmt: skip
    cases = {
        op: (lambda op=op: getattr(td, op)(a, b), want.astype(kind))
        for op, want in meanings.items()
    }
    cases["sqrt"] = lambda: td.sqrt(a), np.sqrt(x).astype(kind)
    check(cases)


# ---------------------------------------------------------------------------------------------
# Integer arithmetic


def pairs(name):
    """All pairs of interesting values of an integer type, and random ones."""
    info = np.iinfo(name)
    special = [info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max]
    if info.min < 0:
        special += [-1, -2, -3, -7]
    special = np.array(special, dtype=name)
    first, second = (grid.reshape(-1) for grid in np.meshgrid(special, special))
    left = np.concatenate([first, wide(name, 64, 1)])
    right = np.concatenate([second, wide(name, 64, 2)])
    return left, right


def wrap(values, name):
    """Python integers into a type, modulo 2^width."""
    width = np.iinfo(name).bits
    unsigned = np.array([int(v) % (1 << width) for v in values], dtype=f"uint{width}")
    return unsigned.astype(name) if name.startswith("u") else unsigned.view(name)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC = {
    "+": (lambda x, y: x + y, lambda a, b: a + b),
    "-": (lambda x, y: x - y, lambda a, b: a - b),
    "*": (lambda x, y: x * y, lambda a, b: a * b),
    "//": (lambda x, y: x // y, lambda a, b: a // b if b else 0),
    "%": (lambda x, y: x % y, lambda a, b: a % b if b else 0),
    "quot": (lambda x, y: td.quot(x, y), lambda a, b: truncated(a, b) if b else 0),
    "rem": (lambda x, y: td.rem(x, y), lambda a, b: a - b * truncated(a, b) if b else 0),
    "-x": (lambda x, y: -x, lambda a, b: -a),
    "abs": (lambda x, y: abs(x), lambda a, b: abs(a)),
    "~": (lambda x, y: ~x, lambda a, b: ~a),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_arithmetic(check, name):
    """Wrapping; floor and truncating division; by zero 0; INT_MIN // -1 = INT_MIN, % is 0."""
    a, b = pairs(name)
    cases = {}
    for text, (operation, meaning) in ARITHMETIC.items():
        exact = [meaning(int(x), int(y)) for x, y in zip(a, b, strict=True)]
        want = wrap(exact, name)
        cases[f"arrays {text}"] = (lambda op=operation: op(td.use(a), td.use(b)), want)
        cases[f"scalars {text}"] = (lambda op=operation: td.map(op, a, b), want)
    check(cases)


def test_division_literals(check):
    """The corners again, as numbers one can read."""
    least = np.iinfo("i4").min
    a = np.array([7, -7, 7, -7, 5, -5, 0, least, least], "i4")
    b = np.array([2, 2, -2, -2, 0, 0, 0, -1, 1], "i4")
    check(
        {
            "//": (lambda: td.use(a) // b, np.array([3, -4, -4, 3, 0, 0, 0, least, least], "i4")),
            "%": (lambda: td.use(a) % b, np.array([1, 1, -1, -1, 0, 0, 0, 0, 0], "i4")),
            "quot": (lambda: td.quot(a, b), np.array([3, -3, -3, 3, 0, 0, 0, least, least], "i4")),
            "rem": (lambda: td.rem(a, b), np.array([1, -1, 1, -1, 0, 0, 0, 0, 0], "i4")),
            "// literal": (
                lambda: td.use(a) // 2,
                np.array([3, -4, 3, -4, 2, -3, 0, least // 2, least // 2], "i4"),
            ),
            "literal // x": (
                lambda: 7 // td.use(b),
                np.array([3, 3, -4, -4, 0, 0, 0, -7, 7], "i4"),
            ),
            "% literal": (lambda: td.use(a) % 3, np.array([1, 2, 1, 2, 2, 1, 0, 1, 1], "i4")),
            "// zero": (lambda: td.use(a) // 0, np.zeros(9, "i4")),
        }
    )


def test_quotients_with_literals_beyond_the_integers(check):
    """The quotient is a float, whatever fits beside the integers."""
    a = np.array([1, 2, 255], "u1")
    check(
        {
            "/ -3": (lambda: td.use(a) / -3, a / -3),
            "-3 /": (lambda: -3 / td.use(a), -3 / a),
            "/ 300": (lambda: td.use(a) / 300, a / 300),
            "int8": (lambda: td.use(a[:2].astype("i1")) / 200, a[:2].astype("i1") / 200),
        }
    )


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts(check, name):
    """By the width or more: 0; signed right shifts fill with the sign."""
    width = np.iinfo(name).bits
    counts = np.array([0, 1, 2, 3, width - 2, width - 1, width, width + 1, 100, 127])
    values = wide(name, 12)
    a, k = (v.reshape(-1) for v in np.meshgrid(values, counts))
    left = wrap([int(x) << int(n) for x, n in zip(a, k, strict=True)], name)
    right = wrap([int(x) >> int(n) for x, n in zip(a, k, strict=True)], name)
    a, k = a.astype(name), k.astype(name)
    check(
        {
            "arrays <<": (lambda: td.use(a) << td.use(k), left),
            "arrays >>": (lambda: td.use(a) >> td.use(k), right),
            "scalars <<": (lambda: td.map(lambda x, n: x << n, a, k), left),
            "scalars >>": (lambda: td.map(lambda x, n: x >> n, a, k), right),
            "<< width": (lambda: td.use(a) << width, np.zeros(a.size, name)),
            ">> width": (
                lambda: td.use(a) >> width,
                np.where(a < 0, -1, 0).astype(name) if name in SIGNED else np.zeros(a.size, name),
            ),
            "left_shift": (lambda: td.left_shift(a, k), left),
            "right_shift": (lambda: td.right_shift(a, k), right),
        }
    )


@pytest.mark.parametrize("name", ("bool", *INTEGERS))
def test_bit_operations(check, name):
    a, b = wide(name, 97, 1), wide(name, 97, 2)
    cases = {
        "&": (lambda: td.use(a) & td.use(b), a & b),
        "|": (lambda: td.use(a) | td.use(b), a | b),
        "^": (lambda: td.use(a) ^ td.use(b), a ^ b),
        "~": (lambda: ~td.use(a), ~a),
        "bitwise_and": (lambda: td.map(lambda x, y: td.bitwise_and(x, y), a, b), a & b),
        "bitwise_or": (lambda: td.bitwise_or(a, b), a | b),
        "bitwise_xor": (lambda: td.bitwise_xor(a, b), a ^ b),
        "scalars": (lambda: td.map(lambda x, y: (x & y) ^ ~(x | y), a, b), (a & b) ^ ~(a | b)),
    }
    if name != "bool":
        width = np.iinfo(name).bits
        ones = np.array([(int(x) % (1 << width)).bit_count() for x in a])
        zeros = np.array([width - (int(x) % (1 << width)).bit_length() for x in a])
        cases |= {
            "popcount": (lambda: td.cast(td.popcount(a), td.int64), ones),
            "clz": (lambda: td.cast(td.clz(a), td.int64), zeros),
            "scalar popcount": (
                lambda: td.map(lambda x: td.cast(td.popcount(x), td.int64), a),
                ones,
            ),
            "scalar clz": (lambda: td.map(lambda x: td.cast(td.clz(x), td.int64), a), zeros),
        }
    check(cases)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NUMBERS)
def test_comparisons(check, name):
    a = small(name, 97, 1)
    b = small(name, 97, 2)
    cases = {
        "==": (lambda: td.use(a) == td.use(b), a == b),
        "!=": (lambda: td.use(a) != td.use(b), a != b),
        "scalar ==": (lambda: td.map(lambda x, y: x == y, a, b), a == b),
        "== 1": (lambda: td.use(a) == 1, a == 1),
    }
    if name not in ("complex64", "complex128"):
        cases |= {
            "<": (lambda: td.use(a) < td.use(b), a < b),
            "<=": (lambda: td.use(a) <= td.use(b), a <= b),
            ">": (lambda: td.use(a) > td.use(b), a > b),
            ">=": (lambda: td.use(a) >= td.use(b), a >= b),
            "scalar <": (lambda: td.map(lambda x, y: x < y, a, b), a < b),
            "-x > y": (lambda: td.use(b) > td.use(a) + 1, b > a + a.dtype.type(1)),
        }
    check(cases)


def test_comparisons_with_nan(check):
    a = np.array([1.0, np.nan, np.nan, np.inf, -0.0], "f4")
    b = np.array([np.nan, 1.0, np.nan, np.inf, 0.0], "f4")
    check(
        {
            "==": (lambda: td.use(a) == b, a == b),
            "!=": (lambda: td.use(a) != b, a != b),
            "<": (lambda: td.use(a) < b, a < b),
            ">=": (lambda: td.use(a) >= b, a >= b),
            "not <": (lambda: ~(td.use(a) < b), ~(a < b)),
            "not >=": (lambda: td.map(lambda x, y: td.logical_not(x >= y), a, b), ~(a >= b)),
        }
    )


def test_comparisons_with_integers_beyond_all_types(check):
    """A Python integer of more than 64 bits compares exactly, as in NumPy."""
    cases = {}
    for a in (np.array([0, 1, 2**64 - 1], "u8"), np.array([-(2**63), 0, 2**63 - 1], "i8"),
              np.array([-np.inf, 0, 2.0**64, 3e38, np.inf, np.nan], "f4"),
              np.array([0, 255], "u1")):  # fmt: skip
        for value in (2**64, -(2**63) - 1, 10**30, -(10**30)):
            for name, f in COMPARISONS.items():
                text = f"{a.dtype} {name} {value}"
                cases[text] = (lambda f=f, a=a, v=value: f(td.use(a), v), f(a, value))
                cases[f"mirrored {text}"] = (lambda f=f, a=a, v=value: f(v, td.use(a)), f(value, a))
    check(cases)


def test_mixed_sign_comparisons(check):
    """Signed integers beside uint64 compare as numbers, every bit of them, as NumPy 2 does."""
    a = np.array([-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 2, 2**63 - 1], "i8")
    b = np.array([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], "u8")
    cases = {
        "int8 uint8": (
            lambda: td.use(np.array([-1], "i1")) < td.use(np.array([255], "u1")),
            np.array([True]),
        ),
        "an extent": (lambda: td.map(lambda x: x > td.use(a).shape[0] - 9, td.use(b)), b > -2),
    }
    for name, f in COMPARISONS.items():
        for left, right in ((a, b), (b, a), (a.astype("i2"), b)):
            cases[f"{name} {left.dtype}"] = (
                lambda f=f, x=left, y=right: f(td.use(x)[:, None], td.use(y)),
                f(left[:, None], right),
            )
    check(cases)


@pytest.mark.parametrize(
    ("element", "value", "fits"),
    [
        ("float32", np.float64(0), False),
        ("float32", np.int64(0), False),
        ("int32", np.int64(0), False),
        ("float64", np.float32(0), True),
        ("int64", np.uint8(0), True),
        ("float32", 0, True),
        ("int32", 0.5, False),
        ("float64", 1j, False),
    ],
    ids=str,
)
def test_an_initial_value_takes_the_type_of_the_elements_if_it_fits(element, value, fits):
    """Literals do; a typed value must not be wider: nothing is narrowed unasked."""
    a = np.zeros(3, element)
    for build in (
        lambda: td.fold(np.add, value, a),
        lambda: td.fold_seg(np.add, value, a, [1, 2]),
        lambda: td.scanl(np.add, value, a),
        lambda: td.scanr_total(np.add, value, a)[0],
        lambda: td.scanl_seg(np.add, value, a, [1, 2]),
        lambda: td.stencil(lambda w: w[1], a, boundary=td.constant(value)),
    ):
        if fits:
            assert build().dtype == td_dtype(element)
            continue
        with pytest.raises(td.DTypeError, match=element):
            build()


def test_integers_meet_in_the_floats_of_a_function(check):
    """As in NumPy: int8 and uint8 are float16 before they meet, although they meet in int16."""
    cases = {}
    for name in ("arctan2", "hypot", "copysign", "nextafter", "logaddexp", "heaviside"):
        for a, b in itertools.product(("int8", "uint8", "uint16"), repeat=2):
            x, y = small(a, 5), small(b, 5, seed=1)
            want = getattr(np, name)(x, y)
            cases[f"{name} of {a}, {b}"] = (
                lambda x=x, y=y, n=name: getattr(td, n)(x, y).astype(td.float32),
                want.astype("f4"),
                9000 if want.dtype == np.float16 else 4,
            )
            cases[f"type of {name} of {a}, {b}"] = (
                lambda x=x, y=y, n=name: td.zeros_like(getattr(td, n)(x, y)),
                np.zeros_like(want),
            )
    check(cases)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "complex64", "int32"])
def test_exponents_of_numpy_have_types(kind):
    """As in products: a scalar of NumPy has a type of its own, a number of Python has not."""
    a = (np.arange(6) / 4 + 1).astype(kind)
    for exponent in (
        np.float64(2),
        np.float64(0.5),
        np.float64(-2),
        np.float16(3),
        np.int64(2),
        2.0,
    ):
        got, want = td.run(td.use(a) ** exponent), a**exponent
        assert got.dtype == want.dtype, (exponent, got.dtype)
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(np.zeros(1, kind).real.astype(
            "f2" if kind == "float16" else "f4").dtype).eps)  # fmt: skip


def test_a_part_of_an_array_is_no_value():
    part = td.use(np.ones(3)).at[1]
    for use in (lambda: part == 2, lambda: part > 2, lambda: bool(part), lambda: float(part),
                lambda: -part, lambda: np.sqrt(part), lambda: np.asarray(part), lambda: part[0],
                lambda: np.ones(3) * part):  # fmt: skip
        with pytest.raises(td.TracingError, match="has methods and no operators"):
            use()
