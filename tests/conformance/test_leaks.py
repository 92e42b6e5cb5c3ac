"""Traced values that a list or a variable carried out of the function that they were given to."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same

A = np.arange(5.0)
WORDS = "used outside the function that it belongs to"


def kept(build):
    """What `build(keep)` keeps while it is traced, and hands out through the list."""
    found = []

    def keep(x):
        found.append(x)
        return x

    td.run(build(keep))
    return found[0]


def kept_of_loop(operation):
    return kept(lambda keep: operation(lambda u: keep(u) + 1, td.use(A)))


def kept_of_jit(part, argument):
    found = []
    td.jit(lambda v: found.append(part(v)) or v + 1)(argument)
    return found[0]


def index_function(keep):
    return lambda i: keep(td.where(i > 2, td.ignore, i))


SCALARS = {
    "element": lambda: kept(lambda keep: td.map(keep, A)),
    "element, changed": lambda: kept(lambda keep: td.map(lambda x: keep(x * 2), A)),
    "element of a tuple": lambda: kept(lambda keep: td.map(lambda x: keep(x)[0], td.zip(A, A)))[1],
    "index": lambda: kept(lambda keep: td.generate(3, keep)),
    "imap": lambda: kept(lambda keep: td.imap(lambda i, x: keep(i), A)),
    "neighbour": lambda: kept(lambda keep: td.stencil(lambda w: keep(w[1]), A)),
    "fold": lambda: kept(lambda keep: td.fold(lambda x, y: keep(x) + y, 0.0, A)),
    "scan": lambda: kept(lambda keep: td.scanl1(lambda x, y: x + keep(y), A)),
    "combination": lambda: kept(
        lambda keep: td.permute(lambda new, old: keep(new) + old, A, lambda i: i, A)
    ),
    "place": lambda: kept(lambda keep: td.backpermute(3, lambda i: keep(i), A)),
    "target": lambda: kept(lambda keep: td.permute(td.overwrite, A, keep, A)),
    "coordinate": lambda: kept(
        lambda keep: td.stencil(lambda w: w[1], A, boundary=td.function(lambda i: keep(i) * 1.0))
    ),
    "chosen": lambda: kept(lambda keep: td.map(lambda x: keep(td.cond(x > 0, x, 1.0)), A)),
    "counter": lambda: kept(
        lambda keep: td.map(lambda x: td.loop(3, lambda k, s: s + keep(k), x), A)
    ),
    "state": lambda: kept(
        lambda keep: td.map(lambda x: td.while_loop(lambda s: keep(s) < 3, lambda s: s + 1, x), A)
    ),
    "state of numbers": lambda: kept(
        lambda keep: td.iterate(3, lambda s: keep(s) + 1, td.float64(0))
    ),
    "array's counter": lambda: kept(
        lambda keep: td.loop(3, lambda k, u: u + keep(k), td.use(A))
    ),
    "number of jit": lambda: kept_of_jit(lambda v: v, 2.0),
    "extent of jit": lambda: kept_of_jit(lambda v: v.shape[0], A),
}  # fmt: skip
ARRAYS = {
    "iterate": lambda: kept_of_loop(lambda f, u: td.iterate(3, f, u)),
    "while_loop": lambda: kept_of_loop(
        lambda f, u: td.while_loop(lambda u: td.the(td.sum(u)) < 40, f, u)
    ),
    "jit": lambda: kept_of_jit(lambda v: v, A),
    "jit, changed": lambda: kept_of_jit(lambda v: td.sum(v) * 2, A),
}
USES = {
    "in an element": lambda x: td.run(td.map(lambda y: y + x, A)),
    "as an element": lambda x: td.run(td.map(lambda y: x, A)),
    "beside an array": lambda x: td.run(td.use(A) + x),
    "alone": lambda x: td.run(x),
    "by the same operation": lambda x: td.run(x + 1),
    "in jit": lambda x: td.jit(lambda v: v + x)(A),
    "as a result of jit": lambda x: td.jit(lambda v: (v, x))(A),
    "in a combination": lambda x: td.run(td.fold(lambda p, q: p + q + x, 0.0, A)),
    "in a loop": lambda x: td.run(td.loop(2, lambda k, s: s + x, 0.0)),
    "in a loop over arrays": lambda x: td.run(td.loop(2, lambda k, u: u + x, td.use(A))),
}


@pytest.mark.sample(64)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("leak", SCALARS)
def test_scalars(leak, use):
    """Never the value of another index, nor an error of ours."""
    value = SCALARS[leak]()
    with pytest.raises(td.TracingError, match=WORDS) as error:
        USES[use](value)
    assert inspect.getsourcelines(USES[use])[1] == error.value.where.line


@pytest.mark.parametrize("use", ["beside an array", "alone", "by the same operation", "in jit",
                                 "as a result of jit", "in a loop over arrays"])  # fmt: skip
@pytest.mark.parametrize("leak", ARRAYS)
def test_arrays(leak, use):
    value = ARRAYS[leak]()
    with pytest.raises(td.TracingError, match=WORDS) as error:
        USES[use](value)
    assert inspect.getsourcelines(USES[use])[1] == error.value.where.line


def test_inside_one_program():
    """A loop's own values after the loop, in the function around it."""

    def element(x):
        found = []
        return td.loop(3, lambda k, s: found.append(k) or s + k, x) + found[0]

    def iteration(u):
        found = []
        return td.iterate(2, lambda v: found.append(v) or v * 2, u) + found[0]

    for build in (
        lambda: td.map(element, A),
        lambda: td.iterate(3, iteration, td.use(A)),
        lambda: iteration(td.use(A)),
    ):
        with pytest.raises(td.TracingError, match=WORDS):
            td.run(build())


def test_what_scalars_are_made_of():
    """Neighbourhoods and places that may be ignored belong to their functions, too."""
    window = kept(lambda keep: td.stencil(lambda w: keep(w)[1], A))
    place = kept(lambda keep: td.permute(td.overwrite, A, index_function(keep), A))
    for build in (
        lambda: td.stencil(lambda w: w[0] + window[1], A),
        lambda: window[0],
        lambda: td.permute(td.overwrite, A, lambda i: place, A),
        lambda: td.permute(td.overwrite, A, lambda i: td.where(i > 1, place, i), A),
    ):
        with pytest.raises(td.TracingError, match=WORDS):
            td.run(build())


def test_the_function_is_named():
    found = []
    td.map(lambda x: found.append(x) or x, A)
    with pytest.raises(td.TracingError) as error:
        td.generate(3, lambda i: i + found[0])
    assert "it belongs to the function of 'map' here:" in str(error.value)
    assert "td.map(lambda x: found.append(x) or x, A)" in str(error.value)


def test_loops_over_scalars_start_operations_on_their_state_outside_of_kernels():
    def body(k, s):
        return s + td.the(td.sum(td.use(A) * s))

    with pytest.raises(td.NestedParallelismError, match="'multiply' was started inside"):
        td.run(td.map(lambda x: td.loop(3, body, x), A))
    assert td.run(td.loop(3, body, 1.0)) == 11.0**3
    assert td.run(td.loop(3, lambda k, s: s + td.sum(td.use(A) * s), td.unit(1.0))) == 11.0**3


def test_what_may_be_used_elsewhere(run):
    """Values of functions that have not ended, and those that mean the same everywhere."""
    a = td.use(A)
    of_outer, kept_constants = [], []

    def element(x):
        def body(k, s):
            of_outer.append(x * x)  # made in the loop, of the function around it
            inner = td.loop(2, lambda m, t: t + m * k + x, 0.0)
            return s + td.cond(x > k, inner, td.where(x > 1, x, 0.0))

        kept_constants.append((td.float64(3), a.shape[0], a))
        return td.loop(3, body, x) + of_outer[-1]

    wanted = []
    for x in A:
        s = x
        for k in range(3):
            inner = sum(m * k + x for m in range(2))
            s += inner if x > k else (x if x > 1 else 0.0)
        wanted.append(s + x * x)
    assert_same(run(td.map(element, A)), np.array(wanted))
    three, extent, same = kept_constants[0]
    assert_same(run(td.map(lambda y: y * three + extent + same[0], A)), A * 3 + 5)
    assert_same(run(td.fill(extent, 2.0)), np.full(5, 2.0))


def test_arrays_of_enclosing_functions(backend):
    shared = []

    def weights():
        if not shared:
            shared.append(td.use(np.full(5, 2.0)) * 3)  # made where the first call is traced
        return shared[0]

    twice = td.jit(lambda u: u * 2 + weights(), backend=backend)

    def program(v, n):
        def outer(u):
            inner = td.loop(2, lambda k, w: w + u + v * k + n, u)
            return twice(inner) + td.map(lambda x: x + n + v[0], v)

        return td.iterate(2, outer, v)

    def plain(v, n):
        u = v
        for _ in range(2):
            w = u
            for k in range(2):
                w = w + u + v * k + n
            u = w * 2 + 6.0 + v + n + v[0]
        return u

    assert_same(td.jit(program, backend=backend)(A, 2.0), plain(A, 2.0))
    assert_same(td.run(td.use(A) + weights(), backend=backend), A + 6)
    assert_same(twice(A), A * 2 + 6)
    outside = td.use(A) + 1
    assert_same(td.jit(lambda v: v + td.run(outside), backend=backend)(A), A + A + 1)
