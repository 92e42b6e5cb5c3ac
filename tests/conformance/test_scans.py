"""Scans: inclusive, exclusive, with totals, both directions, any axis, segmented."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import (
    DTYPES,
    EXTENTS,
    affine,
    assert_same,
    dt,
    matrix_product,
    scan_left,
    scan_right,
    scan_steps,
    segments,
    small,
    wide,
)


def plus(x, y):
    return x + y


def last_nonzero(x, y):
    return td.where(y != 0, y, x)


def last_nonzero_numpy(x, y):
    return np.where(y != 0, y, x)


def flip(f):
    return lambda x, y: f(y, x)


@pytest.mark.sample(4)
@pytest.mark.parametrize("n", EXTENTS)
def test_scans_of_every_extent(check, n):
    a = wide("int64", n)
    before = np.concatenate([[5], 5 + np.cumsum(a)])
    after = np.concatenate([np.cumsum(a[::-1])[::-1] + 5, [5]])
    places = np.where(np.arange(n) % 37 == 4, np.arange(n), 0)
    check(
        {
            "scanl": (lambda: td.scanl(plus, 5, a), before),
            "scanl1": (lambda: td.scanl1(plus, a), np.cumsum(a)),
            "scanl_total": (lambda: td.scanl_total(plus, 5, a), (before[:-1], before[-1:][0])),
            "scanr": (lambda: td.scanr(plus, 5, a), after),
            "scanr1": (lambda: td.scanr1(plus, a), np.cumsum(a[::-1])[::-1]),
            "scanr_total": (lambda: td.scanr_total(plus, 5, a), (after[1:], after[:1][0])),
            "last": (lambda: td.scanl1(last_nonzero, places), np.maximum.accumulate(places)),
            "last from the right": (lambda: td.scanr1(last_nonzero, places), carried_back(places)),
            "of a computed array": (
                lambda: td.scanl1(plus, td.map(lambda x: x & 15, a)),
                np.cumsum(a & 15),
            ),
            "and mapped": (lambda: td.scanl1(plus, a) * 2, np.cumsum(a) * 2),
        }
    )


def carried_back(a):
    """out[k]: the last non-zero element of a[k:] (0 without one)."""
    out = np.zeros_like(a)
    last = a[np.max(np.flatnonzero(a), initial=-1)] if a.any() else 0
    limit = np.max(np.flatnonzero(a), initial=-1)
    out[: limit + 1] = last
    return out


@pytest.mark.parametrize("shape", ((33,), (3, 257), (0,), (2, 0), (1,), (97, 2)))
def test_non_commutative_scans(check, shape):
    a, b = wide("int64", shape, 1), wide("int64", shape, 2)
    c, d = wide("int64", shape, 3), wide("int64", shape, 4)
    left = scan_steps(affine, (3, 5), (a, b))
    flipped = tuple(p[..., ::-1] for p in (a, b))
    right = tuple(p[..., ::-1] for p in scan_steps(flip(affine), (3, 5), flipped))
    check(
        {
            "scanl": (lambda: td.scanl(affine, (3, 5), td.zip(a, b)), left),
            "scanl1": (lambda: td.scanl1(affine, td.zip(a, b)), scan_steps(affine, None, (a, b))),
            "scanl_total": (
                lambda: td.scanl_total(affine, (3, 5), td.zip(a, b)),
                (tuple(p[..., :-1] for p in left), tuple(p[..., -1] for p in left)),
            ),
            "scanr": (lambda: td.scanr(affine, (3, 5), td.zip(a, b)), right),
            "scanr1": (
                lambda: td.scanr1(affine, td.zip(a, b)),
                tuple(p[..., ::-1] for p in scan_steps(flip(affine), None, flipped)),
            ),
            "scanr_total": (
                lambda: td.scanr_total(affine, (3, 5), td.zip(a, b)),
                (tuple(p[..., 1:] for p in right), tuple(p[..., 0] for p in right)),
            ),
            "matrices": (
                lambda: td.scanl(matrix_product, (1, 2, 3, 4), td.zip(a, b, c, d)),
                scan_steps(matrix_product, (1, 2, 3, 4), (a, b, c, d)),
            ),
        }
    )


def test_non_commutative_scan_beyond_one_block(check):
    n = 70001
    a = wide("int64", n, 1) | 1
    b = wide("int64", n, 2)
    slope, offset, modulus = 3, 5, 1 << 64
    slopes, offsets = [slope], [offset]
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        slope, offset = slope * x % modulus, (offset * x + y) % modulus
        slopes.append(slope)
        offsets.append(offset)
    want = np.array(slopes, "u8").view("i8"), np.array(offsets, "u8").view("i8")
    check(
        {
            "scanl": (lambda: td.scanl(affine, (3, 5), td.zip(a, b)), want),
            "scanr of the reversed": (
                lambda: td.scanr(flip(affine), (3, 5), td.zip(a[::-1], b[::-1])),
                tuple(w[::-1] for w in want),
            ),
        }
    )


def test_directions_of_a_readable_example(check):
    """Digits written one after another: 1, 12, 123."""
    a = np.array([1, 2, 3])
    one = np.full(3, 10)

    def append(x, y):
        (p, u), (q, v) = x, y
        return p * v + q, u * v

    check(
        {
            "scanl1": (
                lambda: td.scanl1(append, td.zip(a, one)),
                (np.array([1, 12, 123]), np.array([10, 100, 1000])),
            ),
            "scanr1": (
                lambda: td.scanr1(append, td.zip(a, one)),
                (np.array([123, 23, 3]), np.array([1000, 100, 10])),
            ),
            "scanl": (
                lambda: td.scanl(append, (9, 10), td.zip(a, one)),
                (np.array([9, 91, 912, 9123]), np.array([10, 100, 1000, 10000])),
            ),
            "scanr": (
                lambda: td.scanr(append, (9, 10), td.zip(a, one)),
                (np.array([1239, 239, 39, 9]), np.array([10000, 1000, 100, 10])),
            ),
        }
    )


def test_axes(check):
    a = wide("int64", (4, 5, 6))
    cases = {}
    for axis in (0, 1, 2, -1, -2):
        turned = np.moveaxis(a, axis, -1)

        def back(x, axis=axis):
            return np.moveaxis(x, -1, axis)

        left, right = scan_left(plus, 9, turned), scan_right(plus, 9, turned)
        cases |= {
            f"scanl {axis}": (lambda x=axis: td.scanl(plus, 9, a, axis=x), back(left)),
            f"scanl1 {axis}": (lambda x=axis: td.scanl1(plus, a, axis=x), np.cumsum(a, axis)),
            f"scanl_total {axis}": (
                lambda x=axis: td.scanl_total(plus, 9, a, axis=x),
                (back(left[..., :-1]), left[..., -1]),
            ),
            f"scanr {axis}": (lambda x=axis: td.scanr(plus, 9, a, axis=x), back(right)),
            f"scanr1 {axis}": (
                lambda x=axis: td.scanr1(plus, a, axis=x),
                back(scan_right(plus, None, turned)),
            ),
            f"scanr_total {axis}": (
                lambda x=axis: td.scanr_total(plus, 9, a, axis=x),
                (back(right[..., 1:]), right[..., 0]),
            ),
        }
    check(cases)


@pytest.mark.parametrize("shape", ((2, 5000), (5000, 2), (257, 97)))
def test_scans_of_large_matrices(check, shape):
    a = wide("int32", shape)
    check(
        {
            "rows": (lambda: td.scanl1(plus, a), np.cumsum(a, 1, dtype="i4")),
            "columns": (lambda: td.scanl1(plus, a, axis=0), np.cumsum(a, 0, dtype="i4")),
            "right": (lambda: td.scanr1(plus, a), np.cumsum(a[:, ::-1], 1, dtype="i4")[:, ::-1]),
        }
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", DTYPES)
def test_scans_of_every_type(check, name):
    a = small(name, 97, low=-1, high=2)
    b = np.where(np.arange(97) % 11 == 3, 2, 1).astype(dt(name))
    sums = scan_left(lambda x, y: (x + y).astype(dt(name)), None, a)
    cases = {"scanl1": (lambda: td.scanl1(plus, a), sums)}
    for function, values in (("cumsum", a), ("cumprod", b)):
        want = getattr(np, function)(values)
        cases[function] = (lambda f=function, v=values: getattr(td, f)(v), want)
    if not name.startswith("complex"):
        w = wide(name, 97)
        cases["cummax"] = (lambda: td.cummax(w), np.maximum.accumulate(w))
        cases["cummin"] = (lambda: td.cummin(w), np.minimum.accumulate(w))
    check(cases)


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", ((33,), (0,), (3, 5), (0, 4), (4, 0), (2, 3, 4)))
def test_cumulative_functions_of_every_axis(check, shape):
    a = small("int32", shape, low=-9, high=9)
    cases = {}
    for axis in (None, *range(len(shape)), -1):
        flat, along = (a.reshape(-1), 0) if axis is None else (a, axis)
        cases |= {
            f"cumsum {axis}": (lambda x=axis: td.cumsum(a, axis=x), np.cumsum(a, axis=axis)),
            f"cumprod {axis}": (lambda x=axis: td.cumprod(a, axis=x), np.cumprod(a, axis=axis)),
            f"cummax {axis}": (
                lambda x=axis: td.cummax(a, axis=x),
                np.maximum.accumulate(flat, axis=along),
            ),
            f"cummin {axis}": (
                lambda x=axis: td.cummin(a, axis=x),
                np.minimum.accumulate(flat, axis=along),
            ),
        }
    check(cases)


LENGTHS = {
    "ragged": (3, 0, 1, 7, 0, 0, 2, 20),
    "all empty": (0, 0, 0),
    "no segments": (),
    "one": (33,),
    "ones": (1,) * 20,
    "long": (5000, 0, 1, 40000, 25000),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("label", LENGTHS)
def test_segmented_scans(check, label):
    lengths = np.array(LENGTHS[label], "i8")
    a = wide("int64", int(lengths.sum()))
    pieces = [a[s] for s in segments(lengths)]
    empty = a[:0]

    def joined(parts):
        return np.concatenate([empty, *parts])

    exclusive = [np.concatenate([[5], 5 + np.cumsum(p)]) for p in pieces]
    backward = [np.concatenate([[5], 5 + np.cumsum(p[::-1])])[::-1] for p in pieces]
    totals = joined([e[-1:] for e in exclusive])
    check(
        {
            "scanl_seg": (lambda: td.scanl_seg(plus, 5, a, lengths), joined(exclusive)),
            "scanl1_seg": (
                lambda: td.scanl1_seg(plus, a, lengths),
                joined([np.cumsum(p) for p in pieces]),
            ),
            "scanl_total_seg": (
                lambda: td.scanl_total_seg(plus, 5, a, lengths),
                (joined([e[:-1] for e in exclusive]), totals),
            ),
            "scanr_seg": (lambda: td.scanr_seg(plus, 5, a, lengths), joined(backward)),
            "scanr1_seg": (
                lambda: td.scanr1_seg(plus, a, lengths),
                joined([np.cumsum(p[::-1])[::-1] for p in pieces]),
            ),
            "scanr_total_seg": (
                lambda: td.scanr_total_seg(plus, 5, a, lengths),
                (joined([b[1:] for b in backward]), totals),
            ),
        }
    )


def test_segmented_scans_of_rows_and_tuples(check):
    lengths = np.array([2, 0, 4, 1], "i4")
    a, b = wide("int64", (3, 7), 1), wide("int64", (3, 7), 2)
    parts = [scan_steps(affine, (3, 5), (a[:, s], b[:, s])) for s in segments(lengths)]
    inclusive = [scan_steps(affine, None, (a[:, s], b[:, s])) for s in segments(lengths)]
    check(
        {
            "scanl_seg": (
                lambda: td.scanl_seg(affine, (3, 5), td.zip(a, b), lengths),
                tuple(np.concatenate([p[k] for p in parts], axis=1) for k in (0, 1)),
            ),
            "scanl1_seg": (
                lambda: td.scanl1_seg(affine, td.zip(a, b), lengths),
                tuple(np.concatenate([p[k] for p in inclusive], axis=1) for k in (0, 1)),
            ),
        }
    )


@pytest.mark.parametrize("n", (0, 1, 2, 33, 5000))
def test_right_scans_are_reversed_left_scans(run, n):
    """scanr(f, z, x) = reversed scanl(flip f, z, reversed x), and so for the other forms."""
    a, b = wide("int64", n, 1), wide("int64", n, 2)
    x = td.zip(a, b)
    y = td.reverse(x, 0)
    other = flip(affine)
    right, left, right1, left1, righttotal, lefttotal = run(
        (
            td.scanr(affine, (3, 5), x),
            td.reverse(td.scanl(other, (3, 5), y), 0),
            td.scanr1(affine, x),
            td.reverse(td.scanl1(other, y), 0),
            td.scanr_total(affine, (3, 5), x)[1],
            td.scanl_total(other, (3, 5), y)[1],
        )
    )
    assert_same(right, left)
    assert_same(right1, left1)
    assert_same(righttotal, lefttotal)
    assert right[0].shape == (n + 1,)
    steps = scan_steps(other, (3, 5), (a[::-1], b[::-1]))
    assert_same(right, tuple(p[::-1] for p in steps))
    assert_same(righttotal, tuple(p[-1] for p in steps))


def test_float_scans(check):
    """Whole numbers: exact whatever the order of additions."""
    a = small("float32", (3, 5000))
    check(
        {
            "cumsum": (lambda: td.cumsum(a, axis=1), np.cumsum(a, axis=1)),
            "scanl": (lambda: td.scanl(plus, 0.5, a)[:, -1], a.sum(axis=1) + np.float32(0.5)),
            "max": (
                lambda: td.scanl1(lambda x, y: td.maximum(x, y), a),
                np.maximum.accumulate(a, axis=1),
            ),
        }
    )
