"""Element-wise functions: NumPy's names and meanings, on arrays and on scalars."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import treadle as td

from .helpers import (
    BFLOAT16,
    COMPLEXES,
    DTYPES,
    EXTENTS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REALS,
    assert_same,
    dt,
    generator,
    precise,
    same_bits,
    small,
    to_host,
    wide,
)

# name: where a float argument is drawn from
FLOAT_FUNCTIONS = {
    "sin": (-30, 30),
    "cos": (-30, 30),
    "tan": (-30, 30),
    "arcsin": (-1, 1),
    "arccos": (-1, 1),
    "arctan": (-50, 50),
    "sinh": (-9, 9),
    "cosh": (-9, 9),
    "tanh": (-9, 9),
    "arcsinh": (-100, 100),
    "arccosh": (1, 100),
    "arctanh": (-1, 1),
    "exp": (-9, 9),
    "exp2": (-9, 9),
    "expm1": (-9, 9),
    "log": (0, 1000),
    "log2": (0, 1000),
    "log10": (0, 1000),
    "log1p": (-1, 1000),
    "sqrt": (0, 1000),
}
# Correctly rounded, or exact: no tolerance.
EXACT_FUNCTIONS = ("floor", "ceil", "trunc", "rint", "abs", "sign", "isnan", "isinf", "isfinite")
# Present in NumPy, not named by the page: tested where they exist.
MORE_FLOAT_FUNCTIONS = {
    "cbrt": (-100, 100),
    "deg2rad": (-360, 360),
    "rad2deg": (-9, 9),
    "degrees": (-9, 9),
    "radians": (-360, 360),
}
MORE_EXACT_FUNCTIONS = ("square", "positive", "negative", "fabs", "signbit")
PAGE_NAMES = " ".join((*FLOAT_FUNCTIONS, *EXACT_FUNCTIONS)) + (
    " round erf popcount clz quot rem arctan2 hypot power minimum maximum clip where cast "
    "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift "
    "logical_and logical_or logical_not logical_xor real imag conj"
)
SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.5, np.nan, np.inf, -np.inf)


def arguments(name, kind, low, high, n=84):
    """Random arguments of a domain, and the special ones (97 in all)."""
    kind = dt(kind)
    if kind.kind in "iu":
        return small(kind, 97, seed=name, low=-3, high=8)
    if kind.kind == "b":
        return small(kind, 97, seed=name)
    rng = generator(name, kind.name)
    if kind.kind == "c":
        parts = rng.uniform(-2, 2, 97) + 1j * rng.uniform(-2, 2, 97)
        return parts.astype(kind)
    return np.concatenate([rng.uniform(low, high, n), SPECIAL]).astype(kind)


def test_the_names_of_the_page_exist():
    assert [name for name in PAGE_NAMES.split() if not hasattr(td, name)] == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [n for n in DTYPES if n not in COMPLEXES])
def test_float_functions(check, kind):
    """Within 4 ulps of the rounded exact result; integers and bools give NumPy's float type."""
    cases = {}
    table = FLOAT_FUNCTIONS | {k: v for k, v in MORE_FLOAT_FUNCTIONS.items() if hasattr(td, k)}
    for name, (low, high) in table.items():
        if kind == "bfloat16" and name in ("degrees", "radians"):
            continue  # no bfloat16 in NumPy
        a = arguments(name, kind, low, high)
        want = precise(getattr(np, name), a)
        cases[name] = (lambda n=name, a=a: getattr(td, n)(a), want, 4)
        if kind in ("float32", "int32"):
            cases[f"scalar {name}"] = (
                lambda n=name, a=a: td.map(lambda x: getattr(td, n)(x), a),
                want,
                4,
            )
    check(cases)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", COMPLEXES)
def test_complex_functions(check, kind):
    names = [n for n in FLOAT_FUNCTIONS if n not in ("exp2", "log2")]
    cases = {}
    for name in names:
        a = arguments(name, kind, -2, 2)
        want = precise(getattr(np, name), a)
        cases[name] = (lambda n=name, a=a: getattr(td, n)(a), want, 64)
    a, b = arguments("a", kind, 0, 0), arguments("b", kind, 0, 0)
    cases |= {
        "+": (lambda: td.use(a) + b, a + b),
        "-": (lambda: td.use(a) - b, a - b),
        "*": (lambda: td.use(a) * b, precise(np.multiply, a, b), 8),
        "/": (lambda: td.use(a) / b, precise(np.divide, a, b), 16),
        "negative": (lambda: -td.use(a), -a),
        "abs": (lambda: td.abs(a), np.abs(a.astype("c16")).astype(a.real.dtype), 4),
        "real": (lambda: td.real(a), a.real.copy()),
        "imag": (lambda: td.imag(a), a.imag.copy()),
        "conj": (lambda: td.conj(a), a.conj()),
        "isnan": (lambda: td.isnan(a), np.isnan(a)),
        "x ** 2": (lambda: td.use(a) ** 2, precise(np.square, a), 16),
        "scalars": (lambda: td.map(lambda x, y: td.conj(x) - y, a, b), a.conj() - b),
        "with a real": (lambda: td.use(a) + np.ones(97, "f4"), a + np.ones(97, "f4")),
    }
    check(cases)


def test_complex_numbers_of_special_parts(check):
    parts = np.float32([0, -0.0, 1, np.inf, np.nan]), np.float32([-np.inf, np.inf, np.nan, 2, 3])
    wanted = np.empty(5, np.complex64)
    wanted.real, wanted.imag = parts
    check({"complex_": (lambda: td.complex_(*map(td.use, parts)), wanted)})


def multiplied(a, b):
    """A product of complex numbers in which every product and sum rounds."""
    made = np.empty_like(a)
    made.real = a.real * b.real - a.imag * b.imag
    made.imag = a.real * b.imag + a.imag * b.real
    return made


@pytest.mark.parametrize("kind", COMPLEXES)
def test_complex_products_have_the_same_bits_everywhere(check, kind):
    """Also where the terms of a part cancel: no term is kept in more digits than the other."""
    rng = generator("products", kind)
    a, b, c = ((rng.normal(size=(2, 1001)) * 10.0 ** rng.uniform(-3, 3, (2, 1001))).T
               .astype(dt(kind).type(0).real.dtype).copy().view(kind)[:, 0]
               for _ in range(3))  # fmt: skip
    cases = {
        "x y": (lambda: td.use(a) * b, multiplied(a, b)),
        "x²": (lambda: td.use(a) ** 2, multiplied(a, a)),
        "|x|²": (lambda: td.use(a) * td.conj(a), multiplied(a, a.conj())),
        "x y + z": (lambda: td.map(lambda x, y, z: x * y + z, a, b, c), multiplied(a, b) + c),
        "x y z": (lambda: td.map(lambda x, y, z: x * y * z, a, b, c),
                  multiplied(multiplied(a, b), c)),
        "of few": (lambda: td.use(a[:3]) * b[:3], multiplied(a[:3], b[:3])),
    }  # fmt: skip
    check(cases)


@pytest.mark.parametrize("kind", COMPLEXES)
def test_small_complex_logarithms(check, kind):
    a = np.array([1e-6 + 3e-5j, -7e-3 + 3e-5j, 1e-12j, 2e-9 - 1e-3j, 0.1 + 0.2j]).astype(kind)
    wide = a.astype("G")
    want = (np.log1p(wide.real * (2 + wide.real) + wide.imag**2) / 2).astype("f8") + 1j * (
        np.arctan2(wide.imag, 1 + wide.real)).astype("f8")  # fmt: skip
    check({"log1p": (lambda: td.log1p(a), want.astype(kind), 4)})


def test_complex_special_values(check):
    a = np.array([0, -4, -4 - 0j, 1j, -1j, 3 + 4j, -3 - 4j])
    check(
        {
            "sqrt": (lambda: td.sqrt(a), np.sqrt(a), 4),
            "abs": (lambda: td.abs(a), np.array([0.0, 4, 4, 1, 1, 5, 5]), 1),
            "exp": (lambda: td.exp(np.array([1j * np.pi, 0])), np.array([-1 + 0j, 1]), 2),
        }
    )


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", REALS)
def test_exact_functions(check, kind):
    """Rounding, signs and tests of kind: bit for bit; integers stay what they are."""
    a = arguments("exact", kind, -9, 9) if kind in FLOATS else wide(kind)
    cases = {}
    for name in (*EXACT_FUNCTIONS, *(n for n in MORE_EXACT_FUNCTIONS if hasattr(td, n))):
        if kind in INTEGERS and name in ("rint", "signbit", "fabs"):
            continue
        with np.errstate(all="ignore"):
            want = getattr(np, name)(a)
        cases[name] = (lambda n=name: getattr(td, n)(a), want)
        if kind in ("float32", "int32"):
            cases[f"scalar {name}"] = (lambda n=name: td.map(lambda x: getattr(td, n)(x), a), want)
    cases["round"] = (lambda: td.round(a), np.round(a))
    cases["scalar round"] = (lambda: td.map(lambda x: td.round(x), a), np.round(a))
    cases["abs()"] = (lambda: abs(td.use(a)), np.abs(a))
    cases["+x"] = (lambda: +td.use(a), a)
    if kind in FLOATS:
        cases["-x"] = (lambda: -td.use(a), -a)
    check(cases)


def test_sign_of_zero_and_rounding_to_even(run):
    a = np.array([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -0.3], "f4")
    rounded, negated, roots = run((td.round(a), -td.use(a), td.sqrt(a[:2])))
    same_bits(rounded, np.array([0.0, -0.0, 0.0, -0.0, 2.0, -2.0, 2.0, -0.0], "f4"))
    same_bits(negated, -a)
    same_bits(roots, np.array([0.0, -0.0], "f4"))


@pytest.mark.parametrize("kind", COMPLEXES)
def test_complex_numbers_are_rounded_by_parts(run, kind):
    a = np.array([1.5 - 2.5j, -0.3 + 0.5j, complex(np.nan, 7.6), complex(-np.inf, 1.25)], kind)
    for decimals in (0, 1, -1):
        np.testing.assert_allclose(run(td.round(a, decimals)), np.round(a, decimals), rtol=1e-6)
    np.testing.assert_array_equal(run(td.rint(a)), np.rint(a))
    same_bits(run(td.rint(a[:2])), np.rint(a[:2]))  # (which of the NaNs it is differs)


@pytest.mark.parametrize("kind", ("float16", "float32", "float64"))
def test_erf(check, kind):
    a = arguments("erf", kind, -4, 4)
    want = scipy.special.erf(a.astype("f8")).astype(kind)
    check(
        {
            "erf": (lambda: td.erf(a), want, 4),
            "scalar": (lambda: td.map(lambda x: td.erf(x), a), want, 4),
        }
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", REALS)
def test_arithmetic(check, kind):
    a, b = small(kind, 97, 1, -9, 10), small(kind, 97, 2, 1, 6)
    quotient = np.true_divide if kind in FLOATS else np.divide
    cases = {
        "+": (lambda: td.use(a) + b, a + b),
        "-": (lambda: td.use(a) - b, a - b),
        "*": (lambda: td.use(a) * b, a * b),
        "/": (lambda: td.use(a) / b, quotient(a, b)),
        "//": (lambda: td.use(a) // b, a // b),
        "%": (lambda: td.use(a) % b, a % b),
        "**": (
            lambda: td.use(a) ** b,
            precise(np.power, a, b) if kind in FLOATS else a**b,
            0 if kind in INTEGERS else 4,
        ),
        "** 2": (lambda: td.use(a) ** 2, a * a),
        "minimum": (lambda: td.minimum(a, b), np.minimum(a, b)),
        "maximum": (lambda: td.maximum(a, b), np.maximum(a, b)),
        "clip": (
            lambda: td.clip(a, 2, 5),
            np.minimum(np.maximum(a, a.dtype.type(2)), a.dtype.type(5)),
        ),
        "clip arrays": (lambda: td.clip(a, b, b + b), np.minimum(np.maximum(a, b), b + b)),
        "scalars": (
            lambda: td.map(
                lambda x, y: (td.minimum(x, y), td.maximum(x, y), td.clip(x, y, y)), a, b
            ),
            (np.minimum(a, b), np.maximum(a, b), b),
        ),
        "scalar /": (lambda: td.map(lambda x, y: x / y, a, b), quotient(a, b)),
        "scalar **": (lambda: td.map(lambda x: x**3, a), a * a * a),
    }
    check(cases)


@pytest.mark.parametrize("kind", FLOATS)
def test_float_binary_functions(check, kind):
    rng = generator("binary", kind)
    a = rng.uniform(-20, 20, 97).astype(dt(kind))
    b = rng.uniform(0.5, 4, 97).astype(dt(kind))
    cases = {
        "power": (lambda: td.power(abs(a), b), precise(np.power, abs(a), b), 4),
        "arctan2": (lambda: td.arctan2(a, b), precise(np.arctan2, a, b), 4),
        "hypot": (lambda: td.hypot(a, b), precise(np.hypot, a, b), 4),
        "scalar power": (
            lambda: td.map(lambda x, y: abs(x) ** y, a, b),
            precise(np.power, abs(a), b),
            4,
        ),
        "scalar arctan2": (
            lambda: td.map(lambda x, y: td.arctan2(x, y), a, b),
            precise(np.arctan2, a, b),
            4,
        ),
        "/": (lambda: td.use(a) / b, a / b),
    }
    for name in ("copysign", "fmin", "fmax", "fmod", "nextafter", "heaviside"):
        if hasattr(td, name):
            cases[name] = (lambda n=name: getattr(td, n)(a, b), getattr(np, name)(a, b))
    for name in ("logaddexp", "logaddexp2"):
        if hasattr(td, name):
            cases[name] = (lambda n=name: getattr(td, n)(a, b), precise(getattr(np, name), a, b), 8)
    check(cases)


@pytest.mark.parametrize("kind", ("float32", "float64"))
def test_float_floor_division(check, kind):
    """`//` and `%` of floats as NumPy, special values included."""
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 5.5, -5.5, np.inf, -np.inf, np.nan])
    a, b = (v.reshape(-1).astype(kind) for v in np.meshgrid(special, special))
    rng = generator("floor", kind)
    a = np.concatenate([a, rng.uniform(-50, 50, 60).astype(kind)])
    b = np.concatenate([b, rng.uniform(-3, 3, 60).astype(kind)])
    with np.errstate(all="ignore"):
        check(
            {
                "//": (lambda: td.use(a) // b, a // b),
                "%": (lambda: td.use(a) % b, a % b),
                "/": (lambda: td.use(a) / b, a / b),
            }
        )


@pytest.mark.parametrize("kind", FLOATS)
def test_nan_in_minimum_and_maximum(check, kind):
    values = np.array([1.0, -2.0, np.nan, np.inf, -np.inf]).astype(dt(kind))
    a, b = (v.reshape(-1) for v in np.meshgrid(values, values))
    cases = {
        "minimum": (lambda: td.minimum(a, b), np.minimum(a, b)),
        "maximum": (lambda: td.maximum(a, b), np.maximum(a, b)),
        "scalar": (
            lambda: td.map(lambda x, y: td.minimum(x, y) + td.maximum(x, y), a, b),
            np.minimum(a, b) + np.maximum(a, b),
        ),
    }
    check(cases)


@pytest.mark.parametrize("kind", (*FLOATS, "complex128"))
def test_constant_powers_are_products(check, kind):
    """The same bits on every backend, arrays and scalars."""
    a = generator("products", kind).uniform(-3, 3, 97).astype(dt(kind))
    square = a * a
    fourth = square * square
    products = {2: square, 3: a * square, 4: fourth, 5: a * fourth, 6: square * fourth,
                7: a * square * fourth, 8: fourth * fourth}  # fmt: skip
    cases = {}
    for n, want in products.items():
        cases[f"{n}"] = (lambda n=n: td.use(a) ** n, want, 2 if kind == "complex128" else 0)
        inverse = (lambda n=n: td.map(lambda x: x**-n, a), dt(kind).type(1) / want)
        cases[f"-{n}"] = (*inverse, 8 if kind == "complex128" else 0)
    check(cases)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_powers_wrap(check, kind):
    a = wide(kind, 40)
    exponents = np.arange(40).astype(kind) % 8
    width = np.iinfo(kind).bits
    want = [pow(int(x), int(n), 1 << width) for x, n in zip(a, exponents, strict=True)]
    want = np.array(want, f"uint{width}").astype(kind)
    check(
        {
            "arrays": (lambda: td.use(a) ** td.use(exponents), want),
            "scalars": (lambda: td.map(lambda x, n: x**n, a, exponents), want),
            "literal": (lambda: td.use(a) ** 3, a * a * a),
        }
    )


@pytest.mark.parametrize("kind", ("int8", "int32", "int64"))
def test_negative_powers_of_the_run(check, backend, kind):
    """An exponent of the run raises nothing: the integer part of the inverse."""
    a = np.array([-3, -2, -1, -1, 0, 1, 2, 127], kind)
    n = np.array([-1, -2, -1, -2, -1, -5, -1, -100], kind)
    want = np.array([0, 0, -1, 1, 0, 1, 0, 0], kind)
    check(
        {
            "arrays": (lambda: td.use(a) ** td.use(n), want),
            "elements": (lambda: td.map(lambda x, y: x**y, a, n), want),
        }
    )
    inverse = td.jit(lambda x, y: x**y, backend=backend)
    assert_same(inverse(a, -1), np.array([0, 0, -1, -1, 0, 1, 0, 0], kind))


def test_logic(check):
    a, b = small("bool", 97, 1), small("bool", 97, 2)
    x = np.array([0.0, 2.0, np.nan, -0.0])
    y = np.array([1, 0, 3, 0], "i4")
    check(
        {
            "and": (lambda: td.logical_and(a, b), a & b),
            "or": (lambda: td.logical_or(a, b), a | b),
            "xor": (lambda: td.logical_xor(a, b), a ^ b),
            "not": (lambda: td.logical_not(a), ~a),
            "and of numbers": (lambda: td.logical_and(x, y), np.logical_and(x, y)),
            "or of numbers": (lambda: td.logical_or(x, y), np.logical_or(x, y)),
            "not of numbers": (lambda: td.logical_not(x), np.logical_not(x)),
            "scalars": (
                lambda: td.map(lambda p, q: td.logical_and(p, ~q) | (p == q), a, b),
                (a & ~b) | (a == b),
            ),
            "invert": (lambda: td.invert(y), ~y),
            "bool + bool": (lambda: td.use(a) + td.use(b), a + b),
            "bool * bool": (lambda: td.use(a) * td.use(b), a * b),
            "bool + 1": (lambda: td.use(a) + 1, a + 1),
        }
    )


def test_where_on_arrays(check):
    p = small("bool", (3, 4))
    a, b = small("int32", (3, 4), 1), small("float32", (4,), 2)
    check(
        {
            "broadcast": (lambda: td.where(p, a, b), np.where(p, a, b)),
            "weak": (lambda: td.where(p, a, 0), np.where(p, a, np.int32(0))),
            "two literals": (lambda: td.where(p, 1, 2), np.where(p, 1, 2)),
            "column": (lambda: td.where(p[:, :1], b, 2.5), np.where(p[:, :1], b, np.float32(2.5))),
            "NumPy arguments": (lambda: td.where(td.use(a) > 0, a, -a), np.where(a > 0, a, -a)),
        }
    )


BROADCASTS = (
    ((), (3,)),
    ((1,), (5,)),
    ((4,), (3, 4)),
    ((3, 1), (1, 4)),
    ((3, 1), (4,)),
    ((2, 1, 4), (3, 1)),
    ((1, 1), (0, 3)),
    ((0, 1), (1, 3)),
    ((1,), (0,)),
    ((5, 1, 1), (1, 6, 7)),
    ((1, 1, 1), (1,)),
)


def test_broadcasting(check):
    cases = {}
    for left, right in BROADCASTS:
        a, b = small("int64", left, 1), small("int64", right, 2)
        cases[f"{left} - {right}"] = (lambda a=a, b=b: td.use(a) - td.use(b), a - b)
        cases[f"minimum {left}, {right}"] = (lambda a=a, b=b: td.minimum(a, b), np.minimum(a, b))
    check(cases)


def test_numpy_on_either_side(check):
    """A NumPy array, a NumPy scalar or a Python number may stand left or right of an operator."""
    a, b = small("float32", (3, 4), 1), small("float32", (4,), 2)
    check(
        {
            "array + x": (lambda: a + td.use(b), a + b),
            "array < x": (lambda: a < td.use(b), a < b),
            "array @ x": (lambda: a @ td.use(a.T), a @ a.T),
            "x - array": (lambda: td.use(b) - a, b - a),
            "NumPy scalar * x": (lambda: np.float32(3) * td.use(b), np.float32(3) * b),
            "x * NumPy scalar": (lambda: td.use(b) * np.float64(3), b * np.float64(3)),
            "number - x": (lambda: 1 - td.use(b), 1 - b),
            "number ** x": (lambda: 2 ** td.use(abs(b)), 2 ** abs(b)),
            "number / x": (lambda: 6 / td.use(abs(b) + 1), 6 / (abs(b) + 1)),
            "raw arguments": (lambda: td.map(lambda x, y: x + y, b, b), b + b),
        }
    )


@pytest.mark.parametrize("n", EXTENTS)
def test_map_of_every_extent(check, n):
    a, b = wide("int32", n, 1), small("float32", n, 2)
    c = wide("uint8", n, 3)
    check(
        {
            "one": (lambda: td.map(lambda x: x * 3 - 1, a), a * np.int32(3) - np.int32(1)),
            "three types": (
                lambda: td.map(lambda x, y, z: (td.where(z > 7, y, y + y), z + z, x), a, b, c),
                (np.where(c > 7, b, b + b), c + c, a),
            ),
            "indexed": (lambda: td.indexed(a), (np.arange(n), a)),
            "imap": (
                lambda: td.imap(lambda i, x, y: i * 2 + x * (y > 0), a, b),
                np.arange(n) * 2 + a * (b > 0),
            ),
        }
    )


def test_imap_and_indexed_of_rank_two(check):
    a, b = small("int16", (5, 3), 1), small("int16", (5, 3), 2)
    i, j = np.indices((5, 3))
    check(
        {
            "imap": (
                lambda: td.imap(lambda i, j, x, y: i * 100 + j * 10 + x - y, a, b),
                i * 100 + j * 10 + a - b,
            ),
            "indexed": (lambda: td.indexed(a), (i, j, a)),
            "map of indexed": (
                lambda: td.map(lambda t: t[0] * t[1] + t[2], td.indexed(a)),
                i * j + a,
            ),
            "rank 0": (lambda: td.indexed(np.array(3.5)), (np.array(3.5),)),
        }
    )


def test_rank_zero_arrays(check):
    a = np.array(2.5)
    check(
        {
            "map": (lambda: td.map(lambda x: x * 2, a), np.array(5.0)),
            "+": (lambda: td.use(a) + 1, np.array(3.5)),
            "sin": (lambda: td.sin(a), np.array(np.sin(2.5)), 4),
            "zip": (lambda: td.zip(a, np.array(3)), (a, np.array(3))),
        }
    )


@pytest.mark.parametrize("name", NUMBERS)
def test_deep_expressions(check, name):
    """Many operations in one kernel, with sharing."""
    a, b = small(name, 257, 1), small(name, 257, 2)

    def chain(x, y):
        for _ in range(6):
            x, y = x + y, x - y
        return x + x * y

    if name in ("bfloat16", "float16"):
        a, b = abs(a) // 2, abs(b) // 2
    check(
        {
            "chain": (lambda: td.map(chain, a, b), chain(a, b)),
            "arrays": (lambda: chain(td.use(a), td.use(b)), chain(a, b)),
        }
    )


def test_one_bit_pattern_whatever_the_position(backend):
    """Vector bodies and their masked tails compute the same bits."""
    rng = generator("tails")
    a = rng.uniform(-9, 9, 200).astype("f4")

    @td.jit(backend=backend)
    def program(x):
        return td.exp(x), td.sin(x) * x + td.tanh(x), td.arctan2(x, x * x + 1)

    whole = program(a)
    for n in (*range(2, 20), 31, 33, 63, 65, 127, 199):
        for start in (0, 1):
            for part, full in zip(program(a[start:n]), whole, strict=True):
                if n - start > 1:
                    same_bits(part, full[start:n], f"elements {start} to {n}")


def test_types_of_mixed_kernels(check):
    """Scalars promote as arrays do."""
    a, b = small("int8", 5, 1), small("uint8", 5, 2)
    h, z = small("float16", 5, 3), small("complex64", 5, 4)
    w = small("bfloat16", 5, 5)
    check(
        {
            "int8 + uint8": (lambda: td.map(lambda x, y: x + y, a, b), a + b),
            "int8 + float16": (lambda: td.map(lambda x, y: x + y, a, h), a + h),
            "float16 * complex64": (lambda: td.map(lambda x, y: x * y, h, z), h * z),
            "bfloat16 + float32": (
                lambda: td.map(lambda x: x + td.float32(1), w),
                w.astype("f4") + np.float32(1),
            ),
            "bfloat16 * 2": (lambda: td.map(lambda x: x * 2, w), (w * BFLOAT16.type(2))),
            "typed scalar": (lambda: td.map(lambda x: x + td.int64(1), a), a + np.int64(1)),
        }
    )


def test_methods_of_arrays(check):
    """Those of NumPy's arrays that the reference lists."""
    a = np.array([[0.26, -1.5, 2.0], [7.0, 0.5, -0.04]])
    x = td.use(a)
    check(
        {
            "round": (lambda: x.round(1), a.round(1)),
            "clip": (lambda: x.clip(0, 1.5), a.clip(0, 1.5)),
            "clip below": (lambda: x.clip(0), a.clip(0)),
            "astype": (lambda: x.astype(td.int32), a.astype("i4")),
            "reshape": (lambda: x.reshape(3, 2), a.reshape(3, 2)),
            "transpose": (lambda: x.transpose(1, 0), a.T),
            "ravel": (lambda: x.ravel(), a.ravel()),
            "max": (lambda: x.max(axis=1), a.max(axis=1)),
            "all": (lambda: x.all(0), a.all(0)),
            "argmin": (lambda: x.argmin(), np.array(a.argmin())),
        }
    )


_ENDS = (0.0, -0.0, 1.0, 100.0, -2000.0, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["exp", "sinh", "cosh", "tanh", "sin", "cos", "tan"])
def test_complex_functions_at_infinity(backend, name, dtype):
    """Which parts are infinite or NaN, as C's Annex G and NumPy say: 1 + 0i for tanh(∞ + i∞)."""
    z = np.empty((len(_ENDS), len(_ENDS)), dtype)
    z.real, z.imag = np.meshgrid(_ENDS, _ENDS)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(z)
    got = to_host(td.run(getattr(td, name)(td.use(z)), backend=backend))
    for part in ("real", "imag"):
        a, b = getattr(got, part), getattr(want, part)
        assert np.array_equal(np.isnan(a), np.isnan(b)), (part, z[np.isnan(a) != np.isnan(b)])
        assert np.array_equal(np.isinf(a), np.isinf(b)), (part, z[np.isinf(a) != np.isinf(b)])


@pytest.mark.sample(8)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "name", ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sqrt", "log"]
)
def test_inverse_complex_functions_at_the_edges(backend, name, dtype):
    """Values and signs, of zeros too, where a part is infinite, NaN, 0, 1 or almost 0: C's Annex G,
    as NumPy has it.  Of results that a NaN leads to, Annex G leaves the signs open."""
    parts = (*_ENDS, 0.5, -2.0, np.finfo(dtype).tiny)
    z = np.empty((len(parts), len(parts)), dtype)
    z.real, z.imag = np.meshgrid(parts, parts)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(z.astype("complex128")).astype(dtype)
    got = to_host(td.run(getattr(td, name)(td.use(z)), backend=backend))
    for part in ("real", "imag"):
        a, b = (np.where(np.isnan(z), abs(x), x) for x in (getattr(got, part), getattr(want, part)))
        close = np.isclose(a, b, rtol=8 * np.finfo(dtype).eps, atol=0, equal_nan=True)
        wrong = ~close | ((np.signbit(a) != np.signbit(b)) & ~np.isnan(b))
        assert not wrong.any(), (part, z[wrong], a[wrong], b[wrong])
