"""Derivatives by what the function that combines elements reads itself."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

rng = np.random.default_rng(3)
W = rng.random((3, 1))


def _scaled(c):
    """Associative for every c."""
    return lambda p, q: p * q * c[0]


#: Functions that read what is differentiated in the function that combines elements.
CAPTURED = {
    "fold": lambda x, c: td.fold(_scaled(c), 1 / c[0], x),
    "fold from a constant": lambda x, c: td.fold(_scaled(c), 2.0, x),
    "rows": lambda x, c: td.sum(td.sin(td.fold(_scaled(c), c[1], x[None] * td.use(W)))),
    "sum and product": lambda x, c: td.fold(lambda p, q: p + q + c[1] * p * q, 0.0, x),
    "pairs": lambda x, c: td.unzip(td.fold(
        lambda p, q: (p[0] * q[0] * c[0], p[1] * q[0] * c[0] + q[1]), (1 / c[0], 0.0),
        td.map(lambda v: (v, td.sin(v)), x),
    ))[1],
    "scanl": lambda x, c: td.sum(td.sin(td.scanl(_scaled(c), 1 / c[0], x))),
    "scanr1": lambda x, c: td.sum(td.sin(td.scanr1(_scaled(c), x))),
    "segments": lambda x, c: td.sum(td.sin(td.fold_seg(_scaled(c), c[1], x, [0, x.shape[0], 0]))),
    "segmented scan": lambda x, c: td.sum(td.sin(td.scanl1_seg(_scaled(c), x, [x.shape[0], 0]))),
    "permute": lambda x, c: td.sum(td.permute(_scaled(c), td.ones(3), lambda i: i % 3, x) ** 2),
    "permute to each": lambda x, c: td.sum(td.permute(_scaled(c), x, lambda i: i, td.sin(x)) ** 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_what_the_function_that_combines_reads_has_a_derivative(name):
    f, c = CAPTURED[name], rng.random(2) + 0.8
    for n in (6, 1, 0):
        if n or name not in ("scanr1", "segmented scan"):
            x = rng.random(n) + 0.5
            td.check_grad(f, x, c)
            td.check_grad(lambda c, f=f, x=x: f(td.use(x), c), c)


def test_second_derivatives_by_what_the_function_that_combines_reads():
    x, c = rng.random(5) + 0.3, rng.random(2) + 0.3
    for name in ("sum and product", "scanl", "segments"):
        td.check_grad(
            lambda x, c, f=CAPTURED[name]: td.sum(td.tanh(0.1 * td.grad(f, 1)(x, c))), x, c
        )


def test_loops_in_elements_that_do_not_use_their_state():
    """Both loops become loops over arrays, as they read arrays at changing indices; the body of the
    outer one is the same in every iteration."""
    v, a = rng.random(5), rng.random(3)

    def loss(v, a):
        def element(i, x):
            def inner(k, s):
                return td.sin(s[0] + v[k] * x), v[k] * x

            return td.loop(2, lambda k, s: td.loop(i % 4, inner, (x, x))[0], -0.8)

        return td.sum(td.imap(element, a) ** 2)

    td.check_grad(loss, v, a)
