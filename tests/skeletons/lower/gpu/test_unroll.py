"""Loops on a GPU that read several iterations at once: which, how, and that not a bit changes."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run_array
from treadle.dsl.target import CUDA
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.gpu import unroll
from treadle.skeletons.lower.lower import LoweringContext, lower

RANDOM = np.random.default_rng(0)


def variants(array, **context):
    """The chain of variants of the one kernel of an array."""
    (kernel,) = lower(array._leaves[0].node, LoweringContext(target=CUDA, **context)).kernels
    found = [kernel]
    while found[-1].fallback is not None:
        found.append(found[-1].fallback)
    for k in found:
        verify(k)
    return found


def loops(kernel):
    """Of each loop that loads vectors its step, and how many elements each vector has."""
    inner = [(s, [v for v in s.body if isinstance(v, ir.LoadVector)])
             for s in ir.statements(kernel.body) if isinstance(s, ir.For)]  # fmt: skip
    return [(s.step, [len(v.vars) for v in found]) for s, found in inner if found]


def product(a, b):
    x, y = td.use(a), td.use(b)
    return td.generate(
        (x.shape[0], y.shape[1]),
        lambda i, j: td.loop(x.shape[1], lambda k, t: t + x[i, k] * y[k, j], a.dtype.type(0)),
    )


def in_order(a, b):
    """The product, iteration by iteration, each rounded as its type rounds."""
    total = np.zeros((len(a), b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total = total + a[:, k, None] * b[k]
    return total


@pytest.mark.sample(2)
@pytest.mark.parametrize(("dtype", "iterations"), [("f4", 4), ("f8", 2), ("i2", 8), ("u1", 16),
                                              ("c8", 2)])  # fmt: skip
def test_a_turn_reads_for_the_next_ones(dtype, iterations):
    a, b = (RANDOM.random((5, 48)) * 9).astype(dtype), (RANDOM.random((48, 7)) * 9).astype(dtype)
    made = product(a, b)
    wide, plain = variants(made)[-2:]
    assert loops(wide) == [(iterations, [iterations])] and not loops(plain)
    assert len(wide.aligned) == 1 and not plain.requires
    assert np.array_equal(run_array(made), in_order(a, b))


def test_rows_that_begin_anywhere_are_read_turn_by_turn():
    """The interpreter refuses vectors that are not aligned."""
    data, b = RANDOM.random(5 * 24 + 1).astype("f4"), RANDOM.random((25, 7)).astype("f4")
    a = data[1:].reshape(5, 24)
    assert a.ctypes.data % 16
    assert np.array_equal(run_array(product(a, b[:24])), in_order(a, b[:24]))
    x = td.use(RANDOM.random((5, 25)).astype("f4"))  # rows of 25, of which 24 are read
    made = td.generate(
        (5,), lambda i: td.loop(x.shape[1] - 1, lambda k, t: t + x[i, k], td.float32(0))
    )
    assert np.array_equal(run_array(made), td.run(made, backend="reference"))


def test_types_of_different_width_have_a_common_count():
    a, b = RANDOM.random((5, 24)).astype("f4"), RANDOM.random(24)
    x, y = td.use(a), td.use(b)
    made = td.generate(
        (x.shape[0],), lambda i: td.loop(x.shape[1], lambda k, t: t + x[i, k] * y[k], 0.0)
    )
    assert loops(variants(made)[0]) == [(2, [2, 2])]
    assert np.array_equal(run_array(made), in_order(a.astype("f8"), b[:, None])[:, 0])


@pytest.mark.sample(8)
@pytest.mark.parametrize("depth", [24, 22, 21])
@pytest.mark.parametrize("schedule", [
    None, sc.Row() | sc.Block(8, 32), sc.Column(8, grain="thread") | sc.Block(64),
    sc.Row() | sc.Block(8, 32) | sc.PerThread(4, 4), sc.PerThread(rows=3),
    sc.Column(8) | sc.Block(4, 32) | sc.PerThread(rows=2), sc.PerThread(cols=2),
], ids=repr)  # fmt: skip
def test_under_any_schedule_not_a_bit_changes(schedule, depth):
    a, b = RANDOM.random((13, depth)).astype("f4"), RANDOM.random((depth, 20)).astype("f4")
    made = product(a, b)
    assert any(step == 4 for step, _ in loops(variants(made, schedule=schedule)[0]))
    assert np.array_equal(run_array(made, schedule=schedule), in_order(a, b))


def test_jammed_elements_share_their_vectors():
    a, b = RANDOM.random((8, 24)).astype("f4"), RANDOM.random((24, 64)).astype("f4")
    schedule = sc.Row() | sc.Block(8, 32) | sc.PerThread(2, 4)
    whole, edge = loops(variants(product(a, b), schedule=schedule)[0])
    assert whole == (
        4,
        [4] * 6,
    )  # two rows of one array, four of the other: a row for each iteration
    assert edge == (4, [4])


def test_both_operands_in_rows_and_a_loop_around():
    points, centres = RANDOM.random((37, 8)).astype("f4"), RANDOM.random((5, 8)).astype("f4")
    x, c = td.use(points), td.use(centres)

    def nearest(i):
        def iteration(n, best):
            def add(k, s):
                d = x[i, k] - c[n, k]
                return s + d * d

            far = td.loop(x.shape[1], add, td.float32(0))
            closer = far < best[0]
            return td.where(closer, far, best[0]), td.where(closer, n, best[1])

        return td.loop(c.shape[0], iteration, (td.float32(np.inf), 0))[1]

    made = td.generate((x.shape[0],), nearest)
    assert loops(variants(made)[0]) == [(4, [4, 4])]
    want = ((points[:, None] - centres) ** 2).sum(-1).argmin(-1)
    assert np.array_equal(run_array(made), want)


A, V = RANDOM.random((6, 24)), RANDOM.random(25)


@pytest.mark.parametrize(("iteration", "count"), [
    (lambda x, v, i, k, s: s + x[i, 23 - k], 24),
    (lambda x, v, i, k, s: s + x[i, 2 * k], 12),
    (lambda x, v, i, k, s: s + v[k + 1], 24),
    (lambda x, v, i, k, s: s + v[k + i], 12),
    (lambda x, v, i, k, s: s + x[k, i], 6),
    (lambda x, v, i, k, s: s + x[i, k], 21),
    (lambda x, v, i, k, s: s + x[td.cast(s, "i8") % 6, k], 24),
    (lambda x, v, i, k, s: td.cond(k > i, s + td.sqrt(x[i, k]), s), 24),
], ids=["backwards", "every second", "beside a vector", "from anywhere", "down a column",
        "count is odd", "row follows the state", "not in every iteration"])  # fmt: skip
def test_what_is_read_turn_by_turn(iteration, count):
    x, v = td.use(A), td.use(V)
    made = td.generate((6,), lambda i: td.loop(count, lambda k, s: iteration(x, v, i, k, s), 0.0))
    assert not any(loops(k) for k in variants(made))
    assert np.array_equal(run_array(made), td.run(made, backend="reference"))


def test_a_count_of_its_own_for_every_element_and_checks_stay_turn_by_turn():
    x = td.use(A)
    made = td.generate((6,), lambda i: td.loop(4 * i, lambda k, s: s + x[i, k], 0.0))
    assert loops(variants(made)[0]) == [(2, [2])]  # a multiple, whichever it is
    assert np.array_equal(run_array(made), td.run(made, backend="reference"))
    ragged = td.generate((6,), lambda i: td.loop(i, lambda k, s: s + x[i, k], 0.0))
    assert len(variants(ragged)) == 1
    assert len(variants(product(A, A.T.copy()), check=True)) == 1


def test_as_many_turns_as_registers_hold(monkeypatch):
    a, b = RANDOM.random((8, 24)).astype("f4"), RANDOM.random((24, 64)).astype("f4")
    schedule = sc.Row() | sc.Block(8, 32) | sc.PerThread(2, 4)
    for most, iterations in ((64, 4), (48, 2), (40, 1)):
        monkeypatch.setattr(unroll, "MOST_BYTES", most)
        steps = [step for step, _ in loops(variants(product(a, b), schedule=schedule)[0])]
        assert steps[0] == iterations
        assert np.array_equal(run_array(product(a, b), schedule=schedule), in_order(a, b))
