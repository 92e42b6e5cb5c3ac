"""A checked program says that the function of a fold or a scan is not associative."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

A = np.random.default_rng(2).random(3000)


def decay(p, x):
    return 0.5 * p + x


def less(p, x):
    return p - x


def restart(a, b):
    return td.where(b[1], b[0], a[0] + b[0]), a[1] | b[1]


def after(a, b):
    return a[0] * b[0], a[1] * b[0] + b[1]


def log_of_sum(a, b):
    most = td.maximum(a[0], b[0])
    return most, a[1] * td.exp(a[0] - most) + b[1] * td.exp(b[0] - most)


WRONG = {
    "scanl1": lambda a: td.scanl1(decay, a),
    "scanl": lambda a: td.scanl(decay, 1.0, a),
    "scanr1": lambda a: td.scanr1(less, td.reshape(a, (50, 60))),
    "scan of columns": lambda a: td.scanl1(less, td.reshape(a, (50, 60)), axis=0),
    "fold": lambda a: td.fold(less, 0.0, a),
    "fold of rows": lambda a: td.fold(less, 0.0, td.reshape(a, (1000, 3))),
    "fold of two axes": lambda a: td.fold(less, 0.0, td.reshape(a, (3, 10, 100)), axis=(0, 2)),
    "fold_seg": lambda a: td.fold_seg(less, 0.0, a, np.array([1000, 0, 2000])),
    "integers": lambda a: td.fold1(lambda x, y: 10 * x + y, td.cast(a * 10, td.int64)),
    "one component": lambda a: td.fold1(lambda x, y: (x[0] + y[0], x[1] - y[1]), td.zip(a, a)),
    "float32": lambda a: td.scanl1(decay, td.cast(a, td.float32)),
    "complex": lambda a: td.scanl1(less, td.complex_(a, -a)),
    "in a loop": lambda a: td.loop(2, lambda k, s: s + td.scanl1(less, s), a),
}

RIGHT = {
    "a component that is a number": lambda a: td.scanl1(after, td.zip(a + 0.5, td.fill(3000, 0.0))),
    "numbers only": lambda a: td.fold1(after, td.zip(td.fill(9, 0.3), td.fill(9, 0.7))),
    "second derivative of products": lambda a: td.grad(
        lambda x: td.sum(td.jvp(lambda y: td.sum(td.cos(td.cumprod(y))), (x,), (a[:6],))[1])
    )(a[:6]),
    "a built-in function": lambda a: td.cumsum(a * 1e300),
    "pairs with flags": lambda a: td.unzip(td.scanl1(restart, td.zip(a, a < 0.1)))[0],
    "affine functions": lambda a: td.unzip(td.scanl1(after, td.zip(a, a)))[1],
    "logarithms of sums": lambda a: td.unzip(td.fold1(log_of_sum, td.zip(a * 900, a * 0 + 1)))[1],
    "infinite": lambda a: td.scanl1(lambda x, y: x * y + x + y, a * 1e160),
    "rounded": lambda a: td.fold(lambda x, y: x + y + x * y, 0.0, td.cast(a, td.float32)),
    "matrices": lambda a: td.fold1(
        lambda x, y: (x[0] * y[0] + x[1] * y[1], x[0] * y[1] + x[1] * y[0]), td.zip(a, a / 2)
    ),
    "one element": lambda a: td.scanl1(decay, a[:1]),
    "none": lambda a: td.fold(less, 0.0, a[:0]),
    "no row": lambda a: td.fold(less, 0.0, td.reshape(a, (1000, 3))[:0]),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", WRONG)
def test_wrong(backend, name):
    f = td.jit(WRONG[name], backend=backend)
    f(A)  # an unchecked program makes no check
    with td.config(check=True), pytest.raises(td.NotAssociative, match="not associative") as error:
        f(A)
    assert "test_associative.py" in str(error.value)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", RIGHT)
def test_right(backend, name):
    with np.errstate(all="ignore"):
        found = td.jit(RIGHT[name], backend=backend)(A)
        with td.config(check=True):
            checked = td.jit(RIGHT[name], backend=backend)(A)
    assert np.allclose(found, checked, rtol=1e-4, equal_nan=True)
