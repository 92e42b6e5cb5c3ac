"""Integers at the edges of their types, where a number is meant: nothing wraps unseen."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import treadle as td

from .helpers import INTEGERS, assert_same

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def edges(name):
    """Numbers of an integer type where differences and sums leave it."""
    info = np.iinfo(name)
    near = (0, 1, 5, 10, info.max // 2, info.max // 2 + 1, info.max - 1, info.max)
    below = (info.min, info.min + 1, -1, -2) if info.min else ()
    return np.array([*near, *below], name)


def pairs(first, second):
    """All pairs of edges of two types, as two vectors."""
    a, b = np.meshgrid(edges(first), edges(second))
    return a.ravel(), b.ravel()


# ---------------------------------------------------------------------------------------------
# Functions of the library


@pytest.mark.parametrize("name", INTEGERS)
def test_functions_of_two_integers(check, name):
    a, b = pairs(name, name)
    cases = {}
    for atol in (0, 2, 10, 300):
        want = np.isclose(a, b, rtol=0, atol=atol)
        cases[f"isclose to {atol}"] = (lambda t=atol: td.isclose(a, b, rtol=0, atol=t), want)
    cases["isclose"] = lambda: td.isclose(a, b), np.isclose(a, b)
    for f in ("logaddexp", "heaviside", "hypot"):
        want = getattr(np, f)(a, b)
        cases[f] = lambda f=f: getattr(td, f)(a, b), want, 4
    check(cases)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", INTEGERS)
def test_statistics(check, name):
    a = edges(name)
    middle = int(a[len(a) // 2])
    check({
        "mean": (lambda: td.mean(a), np.mean(a), 8),
        "var": (lambda: td.var(a), np.var(a), 64),
        "std": (lambda: td.std(a), np.std(a), 64),
        "linspace": (lambda: td.linspace(a[0], a[7], 5), np.linspace(a[0], a[7], 5), 2),
        "beyond both": (lambda: td.clip(a, -(2**62), 2**62), np.clip(a, -(2**62), 2**62)),
        "beyond": (lambda: td.clip(a, middle, 2**62), np.clip(a, middle, 2**62)),
    })  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", INTEGERS)
def test_rounding_to_tens_is_exact_and_wraps(check, name):
    a, info = np.append(edges(name), np.array([15, 25, 35, 45], name)), np.iinfo(name)
    width = int(info.max) - int(info.min) + 1

    def rounded(x, unit):
        times, rest = divmod(int(x), unit)
        times += rest * 2 > unit or (rest * 2 == unit and times % 2 == 1)
        return (times * unit - int(info.min)) % width + int(info.min)

    cases = {}
    for k in (1, 2, 3, 18):
        want = np.array([rounded(x, 10**k) for x in a], dtype=name)
        cases[f"{k} digits"] = (lambda k=k: td.round(a, -k)), want
    for k in (20, 400, 2**63):  # beyond every integer: at once
        cases[f"{k} digits"] = (lambda k=k: td.round(a, -k)), np.zeros_like(a)
    check(cases)


def test_the_width_of_bins_of_integers(run):
    edges = np.array([-128, 0, 127], np.int8)
    counts, _ = run(td.histogram(np.array([-5, 5, 100], np.int8), edges, density=True))
    assert_same(counts, np.array([1 / 128, 2 / 127]) / 3, ulps=2)


def test_infinities_are_close(check):
    a = np.array([np.inf, -np.inf, np.nan, 1.0, np.inf])
    b = np.array([np.inf, np.inf, np.nan, np.inf, 1.0])
    check({"isclose": (lambda: td.isclose(a, b), np.isclose(a, b))})


# ---------------------------------------------------------------------------------------------
# Python's numbers beside narrower integers


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", INTEGERS)
def test_comparisons_with_numbers_are_exact(backend, name):
    info, a = np.iinfo(name), edges(name)
    numbers = {-(2**63), info.min - 1, info.min, -1, 0, 5, 257, info.max, info.max + 1, 2**63 - 1}
    numbers = [n for n in numbers if -(2**63) <= n < 2**63]

    def compared(a, n):
        return tuple(f(a, n) for f in COMPARISONS) + tuple(f(n, a) for f in COMPARISONS)

    compiled = td.jit(compared, backend=backend)
    for n in numbers:
        want = tuple(np.asarray(x) for x in compared(a, n))
        assert_same(compiled(a, n), want, label=f"argument {n}")
        assert_same(td.run(compared(td.use(a), n), backend=backend), want, label=f"literal {n}")


#: What an integer array does with a number of its type.
TAKING = {
    "add": lambda a, n: a + n,
    "subtract from": lambda a, n: n - a,
    "an expression": lambda a, n: a * (2 * n - 3),
    "minimum": lambda a, n: td.minimum(a, n),
    "where": lambda a, n: td.where(a > 3, a, n),
    "in a kernel": lambda a, n: td.map(lambda x: x + n, a),
    "an initial value": lambda a, n: td.fold(lambda x, y: x + y, n, a),
    "a border": lambda a, n: td.stencil(lambda w: w[-1] + w[1], a, boundary=td.constant(n)),
    "padding": lambda a, n: td.pad(a, 1, constant_values=n),
}


@pytest.mark.parametrize("of", TAKING)
def test_numbers_that_do_not_fit_are_refused(backend, of):
    f = td.jit(TAKING[of], backend=backend)
    a = np.arange(4, dtype=np.uint8)
    for n in (5, 7, 7, 7, 9):
        want = td.run(TAKING[of](td.use(a), n), backend="reference")
        assert_same(f(a, n), want, label=f"{n}")
        for wrong in (257, -1, 2**40):
            with pytest.raises(td.DTypeError, match="does not fit in uint8") as error:
                f(a, wrong)
            assert "in <lambda>" in str(error.value)
    with pytest.raises(td.DTypeError):
        TAKING[of](td.use(a), 257)


def test_the_argument_is_named():
    with pytest.raises(td.DTypeError, match=r"the argument shift, -1, does not fit in uint8 \(0"):
        td.jit(lambda a, shift: a + shift)(np.arange(3, dtype=np.uint8), -1)


def test_a_stored_program_tests_numbers(tmp_path, backend):
    a = np.arange(3, dtype=np.uint8)
    td.jit(lambda a, n: a + n, backend=backend).lower(a, 3).save(tmp_path / "sum.treadle")
    loaded = td.load(tmp_path / "sum.treadle")
    assert_same(loaded(a, 3), a + np.uint8(3))
    with pytest.raises(td.DTypeError, match="300"):
        loaded(a, 300)


# ---------------------------------------------------------------------------------------------
# Extents that the library adds up


def test_extents_of_arguments_never_wrap(backend, emulated):
    """Sums and products of extents that int64 does not hold are no memory, whatever they are of."""
    if emulated is not None:
        pytest.skip("the memory of the emulated GPU is NumPy's")
    ones = lambda n: td.fill(n, td.int8(1))
    for f, n in (
        (lambda n: td.concatenate([ones(n)] * 2), 2**62),
        (lambda n: td.concatenate([ones(n)] * 4), 2**62),
        (lambda n: td.flatten(ones((n, n))), 2**32),
        (lambda n: td.reshape(ones(0), (n, n)), 2**32),
        (lambda n: td.pad(ones(n), 1), 2**63 - 1),
        (lambda n: td.scanl(td.maximum, 0, ones(n)), 2**63 - 1),
        (lambda n: td.arange(-n, n), 2**63 - 1),
        (lambda n: td.expand(lambda x: x + n, lambda x, k: k, td.iota(4)), 2**62),
    ):
        with pytest.raises((td.DeviceOutOfMemory, td.ShapeError)):
            td.jit(f, backend=backend)(n)


@pytest.mark.sample(2)
@pytest.mark.parametrize("lengths", [
    (2**63 - 1, 2**63 - 1, 6), (2**62, 2**62, 2**62, 2**62, 4), (2**63 - 1, 5),
])  # fmt: skip
def test_lengths_that_wrap(backend, lengths):
    add, a = operator.add, np.arange(4)
    lengths = np.array(lengths)
    for f in (
        lambda a, n: td.fold_seg(add, 0, a, n),
        lambda a, n: td.fold1_seg(add, a, n),
        lambda a, n: td.scanl_seg(add, 0, a, n),
        lambda a, n: td.scanr1_seg(add, a, n),
        lambda a, n: td.scanl_total_seg(add, 0, a, n),
    ):
        with pytest.raises(td.ShapeError, match="lengths sum to"):
            td.jit(f, backend=backend)(a, lengths)
        with pytest.raises(td.ShapeError, match="lengths sum to"):
            td.run(f(a, lengths), backend=backend)


def test_large_steps_and_shifts(backend):
    a = np.arange(5)
    for step in (2**62, 2**63 - 1, -(2**63), -(2**62) - 1):
        assert_same(td.run(td.use(a)[::step], backend=backend), a[::step])
    roll = td.jit(lambda a, s: td.roll(a, s), backend=backend)
    for shift in (2**63 - 1, -(2**63), -(2**63) + 3, 2**62, -7):
        assert_same(roll(a, shift), np.roll(a, shift))
        assert_same(td.run(td.roll(a, shift), backend=backend), np.roll(a, shift))


def test_large_unsigned_numbers_stay_large(backend):
    a, large = np.arange(5), np.uint64(2**63 + 1)
    sliced = td.jit(lambda a, n: (a[n:], a[:n], a[n::-1]), backend=backend)
    assert_same(sliced(a, large), (a[5:], a, a[::-1]))
    with pytest.raises(td.IndexOutOfBounds):
        td.jit(lambda a, n: a[n], backend=backend)(a, large)


# ---------------------------------------------------------------------------------------------
# Minima and maxima of three, of which one is negated: assemblers have lost the sign


@pytest.mark.parametrize("name", INTEGERS)
def test_extrema_of_three(check, name):
    rng = np.random.default_rng(3)
    x, y, z = rng.integers(-100 if np.iinfo(name).min else 0, 100, (3, 500)).astype(name)
    n, m = x.dtype.type(7), x.dtype.type(3)
    up, down = np.maximum, np.minimum
    check({
        "max": (lambda: td.maximum(td.maximum(x, -td.use(y)), z), up(up(x, -y), z)),
        "min": (lambda: td.minimum(z, td.minimum(-td.use(y), x)), down(z, down(-y, x))),
        "all": (lambda: -td.maximum(td.maximum(-td.use(x), -td.use(y)), -td.use(z)),
                -up(up(-x, -y), -z)),
        "scalars": (lambda: td.jit(lambda x, n, m: td.maximum(td.maximum(x, -n), -m))(x, n, m),
                    up(up(x, -n), -m)),
    })  # fmt: skip


def test_scans_from_the_right_in_blocks(check):
    a = np.random.default_rng(4).normal(size=(3, 31))
    want = np.maximum.accumulate(a[:, ::-1], axis=1)[:, ::-1]
    schedules = [td.schedule.Row() | td.schedule.Block(n, m) for n, m in ((3, 5), (2, 7), (5, 3))]
    check({
        str(s): (lambda s=s: td.scanr1(td.maximum, a, schedule=s), want) for s in schedules
    })  # fmt: skip


def test_literals_beyond_int64_take_the_type_beside_them():
    """A literal from 2**63 on is uint64 by itself, fits in uint64 and floats, compares exactly, and
    is refused beside other integers: it never makes floats of them."""
    m, wide = td.use(np.arange(3)), td.use(np.uint64([1, 2]))
    big = 2**63
    for refused in (lambda: m * big, lambda: big - m, lambda: m % big, lambda: td.maximum(m, big),
                    lambda: td.use(np.uint8([1])) + big, lambda: td.mod(big, -3),
                    lambda: td.generate(3, lambda i: i * big)):  # fmt: skip
        with pytest.raises(td.DTypeError, match="does not fit in"):
            refused()
    for made, wanted in (
        (wide + big, np.uint64([big + 1, big + 2])),
        (m < big, np.array([True, True, True])),
        (td.fill(1, big), np.uint64([big])),
        (td.use(np.float32([1])) * big, np.float32([big])),
        (td.use(np.array([True, False])) ^ big, np.uint64([big + 1, big])),
        (td.map(lambda x: td.where(x > 1, big, 1), wide), np.uint64([1, big])),
    ):
        got = td.run(made)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    assert td.run(td.mod(big, 3)) == big % 3
    assert td.run(td.right_shift(big, 1)) == big >> 1
