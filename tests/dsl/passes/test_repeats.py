"""How often index maps want an element, and what is stored for it."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Read, walk
from treadle.dsl.passes.cost import UNKNOWN_TRIP_COUNT
from treadle.dsl.passes.repeats import FAR, GATHERED, counters, times_read

LINE, PLANE, PLACES = np.ones(12), np.ones((3, 4)), np.arange(12) % 3


def read(f, *arrays, gpu=False):
    """How often f's last operation wants an element of the array called y."""
    (node,) = td.jit(f, backend="reference").lower(*arrays).source_roots
    bodies = node.node.elements
    wanted = [e for e in walk(bodies) if isinstance(e, Read)]
    found = {
        times_read(e.args, node.node.iteration_space(), counters(bodies), gpu)
        for e in wanted if e.node.label.name == "y"
    }  # fmt: skip
    (times,) = found
    return times


def loop(n, at):
    return lambda i: td.loop(n, lambda k, s: s + at(i, k), 0.0)


def march(until):
    return td.while_loop(until, lambda s: s + 1, 0)


ONCE = [
    lambda y: td.generate(y.shape, lambda i: y[y.shape[0] - 1 - i]),
    lambda y: td.roll(y, 3),
    lambda y: td.pad(y, 2, mode="wrap"),
    lambda y: td.generate((3, 4), lambda i, j: y[4 * i + j]),
    lambda y: td.generate(5, lambda i: y[2 * i + 1]),
    lambda y: td.generate(4, loop(3, lambda i, k: y[3 * i + k])),
]


@pytest.mark.parametrize("f", ONCE, ids=range(len(ONCE)))
def test_maps_that_are_injective_want_an_element_once(f):
    assert read(lambda x: f(td.map(lambda v: v, x, name="y")), LINE) == 1


@pytest.mark.parametrize("f", [
    lambda y: td.reshape(y, (-1,)),
    lambda y: td.reshape(y, (4, 3)),
    lambda y: y.T,
    lambda y: td.generate(3, loop(4, lambda i, k: y[i, k])),
    lambda y: td.generate((3, 2), lambda i, j: y[i, i + j]),
])  # fmt: skip
def test_so_do_maps_of_planes(f):
    assert read(lambda x: f(td.map(lambda v: v, x, name="y")), PLANE) == 1


@pytest.mark.parametrize("f, times", [
    (lambda y: td.generate((9, 4), lambda i, j: y[i + j]), 4),  # windows
    (lambda y: td.generate(y.shape[0] - 2, loop(3, lambda i, k: y[i + k])), 3),
    (lambda y: td.generate(5, loop(4, lambda i, k: y[2 * i + k])), 2),
    (lambda y: td.generate(y.shape[0], loop(y.shape[0], lambda i, k: y[i + k])),
     UNKNOWN_TRIP_COUNT),
    (lambda y: td.generate(y.shape, lambda i: march(lambda s: y[i + s] > 0)), UNKNOWN_TRIP_COUNT),
    (lambda y: td.generate(24, lambda i: y[i // 2]), 2),
    (lambda y: td.generate(24, lambda i: y[i % 4]), 6),
    (lambda y: td.generate(24, lambda i: y[i % y.shape[0]]), FAR),
    (lambda y: td.generate((3, 4), lambda i, j: y[j]), FAR),
    (lambda y: td.generate(3, lambda i: y[td.use(PLACES)[i]]), GATHERED),
    (lambda y: td.generate((3, 4), lambda i, j: y[td.use(PLACES)[i + j]]), FAR),
    (lambda y: td.generate(3, loop(4, lambda i, k: y[td.use(PLACES)[k] + i])), FAR),
    (lambda y: td.generate(3, loop(4, lambda i, k: y[td.use(PLACES)[i] + k])), 1),
])  # fmt: skip
def test_others_want_it_again(f, times):
    assert read(lambda x: f(td.map(lambda v: v, x, name="y")), LINE) == times


@pytest.mark.parametrize("f, times", [
    (lambda y: td.generate((9, 4), lambda i, j: y[i + j]), 1),
    (lambda y: td.generate((9, 16), lambda i, j: y[i + j]), 9),
    (lambda y: td.generate((32, 16), lambda i, j: y[i + j]), 16),
    (lambda y: td.generate(y.shape[0], loop(y.shape[0], lambda i, k: y[i + k])),
     UNKNOWN_TRIP_COUNT),
    (lambda y: td.generate(24, lambda i: y[i % y.shape[0]]), FAR),
    (lambda y: td.generate((3, 4), lambda i, j: y[j]), FAR),
    (lambda y: td.generate(3, lambda i: y[td.use(PLACES)[i]]), 1),
    (lambda y: td.generate((3, 4), lambda i, j: y[td.use(PLACES)[i + j]]), 1),
])  # fmt: skip
def test_on_a_gpu_only_what_is_wanted_often_is_worth_an_array(f, times):
    found = read(lambda x: f(td.map(lambda v: v, x, name="y")), LINE, gpu=True)
    assert found == (times if times >= 16 else 1)


def kernels(f, *arrays):
    return len(td.jit(f, backend="native").lower(*arrays).kernels)


@pytest.mark.parametrize("f, stored", [
    (lambda y, k: td.generate((9, 4), lambda i, j: y[i + j]), 2),
    (lambda y, k: td.generate(24, lambda i: y[i // 2]), 2),
    (lambda y, k: td.gather(y, k), 2),
    (lambda y, k: td.gather(y, td.reshape(k, (3, 4))), 2),
    (lambda y, k: y[::2], 1),
    (lambda y, k: td.reshape(y, (3, 4)), 1),
    (lambda y, k: td.roll(y, 1), 1),
])  # fmt: skip
def test_what_is_costly_is_computed_once(f, stored):
    assert kernels(lambda x, k: f(td.exp(td.sin(x)), k), LINE, PLACES) == stored


def test_windows_of_unknown_extents_are_worth_a_cast_and_not_a_root():
    both = np.ones((9, 9), np.uint8), np.ones((3, 3), np.float32)
    assert kernels(lambda a, w: td.correlate(td.cast(a, td.float32), w), *both) == 1
    assert kernels(lambda a, w: td.correlate(td.sqrt(td.cast(a, td.float32)), w), *both) == 2


def test_what_is_cheap_is_computed_where_data_reads_it_but_not_for_a_larger_array():
    assert kernels(lambda x, k: td.gather(x + 1, k), LINE, PLACES) == 1
    assert kernels(lambda x, k: td.gather(x + 1, k[:, None]), LINE, PLACES) == 2
    costly = td.jit(lambda x, k: td.gather(td.exp(td.exp(x)), k), backend="native")
    assert "it is read where data says" in costly.lower(LINE, PLACES).explain()
