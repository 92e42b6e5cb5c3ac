"""Generate for a GPU: element-wise work, index transforms, transposes, schedules."""

from __future__ import annotations

import itertools
from collections import namedtuple

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported
from tests.skeletons.ir.simt import run, run_array
from tests.skeletons.lower.gpu_cases import EXTENTS, SHAPES, TYPES, agrees, data, same
from treadle.skeletons import schedules as sc

pytestmark = pytest.mark.sample(1)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("n", EXTENTS)
def test_elementwise(n, check):
    a, b = data(n, "int32"), data(n, "int32", 1)
    agrees(td.use(a) * 2 + b, check=check)
    agrees(td.generate((n,), lambda i: i * i - 3), check=check)


@pytest.mark.sample(6)
@pytest.mark.parametrize("shape", [(), *SHAPES])
def test_of_every_rank(shape):
    a, b = data(shape), data(shape, seed=1)
    agrees(td.use(a) * 2 + b)
    agrees(td.generate(shape, lambda *ix: sum((k + 2) * i for k, i in enumerate(ix)) + 1))
    agrees(td.use(a) * 2 - b, check=True, seed=1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    for n in (33, 512, 1021):
        a, b = data(n, name), data(n, name, 1)
        agrees(td.use(a) + b)
        agrees(td.where(td.use(a) == b, a, b))
        agrees(td.use(a).astype(td.float32) if not name.startswith("c") else td.real(td.use(a)))


def test_types_of_different_widths():
    n = 1024
    a, b, c = data(n, "int8"), data(n, "float64"), data(n, "int16")
    for m in (n, n - 1, n - 8):
        agrees(td.use(a[:m]) * b[:m] + c[:m])
        agrees(td.map(lambda x, y: (x, y, x * y), a[:m], b[:m]))


def test_several_components():
    pair = namedtuple("pair", "x y")
    a = data((5, 7), "int32")
    got = run_array(td.map(lambda v: pair(v + 1, v * 0.5), a))
    assert np.array_equal(got.x, a + 1) and np.array_equal(got.y, a * 0.5)


@pytest.mark.parametrize("n", (1, 31, 256, 1021))
def test_control_inside(n):
    a = data(n, "int64", high=200)

    def steps(x):
        return td.while_loop(
            lambda s: s[0] > 1,
            lambda s: (td.cond(s[0] % 2 == 1, s[0] * 3 + 1, s[0] // 2), s[1] + 1),
            (x + 1, td.int64(0)),
        )[1]

    agrees(td.map(steps, a))
    agrees(td.map(lambda x: td.loop(x % 7, lambda k, s: s * 2 + k, x), a))


def test_broadcasting():
    a, row, column = data((37, 130)), data(130), data((37, 1))
    agrees(td.use(a) + row + column)
    agrees(td.use(row) + column)
    agrees(td.broadcast_to(td.use(row), (5, 7, 130)))


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", ["int8", "int32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 40), (40, 1), (31, 33), (32, 32), (64, 64),
                                   (65, 127), (130, 67), (8, 300)])  # fmt: skip
def test_transposes(shape, name):
    a = data(shape, name, high=100)
    agrees(td.transpose(td.use(a)))
    agrees(td.transpose(td.use(a)) + data(shape[::-1], name))
    agrees(td.transpose(td.use(a)) * 2, check=True, seed=1)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_transposes_of_rank_three(axes):
    for shape in ((5, 18, 11), (3, 33, 34), (33, 2, 35), (0, 4, 5)):
        agrees(td.transpose(td.use(data(shape, "int32")), axes))


def test_slices_and_reversals():
    for shape in ((9, 11), (70, 260), (64, 256)):
        x = td.use(data(shape, "int32", high=1000))
        for index in (np.s_[::-1, 2:7], np.s_[1:, ::3], np.s_[::-2, ::-1], np.s_[3], np.s_[:, None],
                      np.s_[:, ::-1], np.s_[:, 1:], np.s_[:, 4:]):  # fmt: skip
            agrees(x[index])
            agrees(x[index] + 1, check=True)


def test_reshapes():
    a = data((6, 10), "int32")
    for shape in ((60,), (4, 15), (3, 4, 5)):
        agrees(td.reshape(td.use(a), shape))
        agrees(td.reshape(td.use(a), shape), check=True)


def test_index_arithmetic():
    for n in (31, 256, 1021):
        x = td.use(data(n, "int32"))
        for f in (lambda i: x[n - 1 - i], lambda i: x[i // 2], lambda i: x[(i * 7 + 3) % n],
                  lambda i: x[td.minimum(i + 3, n - 1)] - x[td.maximum(i - 2, 0)]):  # fmt: skip
            agrees(td.generate((n,), f))


def test_strided_inputs():
    base = data((34, 60), "int32", high=100)
    for view in (base[::2, ::-3], base.T, base[3:9, 4:], base[::-1], base[:, 1:], base[:, :1]):
        x = td.use(view)
        doubled = x * 2 + td.transpose(td.transpose(x))
        (got,) = run(*doubled._leaves, strided=frozenset([x._leaves[0]]))
        assert np.array_equal(got, view * 3)


def test_data_that_is_not_aligned():
    base = data(2000, "int32", high=100)
    for first in (0, 1, 2, 3, 4):
        agrees(td.use(base[first : first + 1024]) * 3)


ORDERS = (
    sc.Column(4), sc.ZigZag(3), sc.Tile(2, 3), sc.Morton(), sc.Hilbert(), sc.Swizzle(2),
    sc.Row() | sc.Block(4, 4) | sc.PerThread(rows=2), sc.Column(8) | sc.Block(2, 4),
    sc.Morton() | sc.Block(4, 4), sc.Column(4) | sc.PerThread(rows=2), sc.PerThread(cols=4),
    sc.Row() | sc.Block(1, 256), sc.Row() | sc.Block(9, 32) | sc.PerThread(rows=3),
)  # fmt: skip


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_schedules(order):
    for shape in ((9, 11), (64, 64), (35, 97), (1, 300), (0, 5)):
        a = np.random.default_rng(0).random(shape)
        for made in (td.use(a) * 2, td.stencil(lambda w: w[1, 0] + w[-1, 0], a),
                     td.transpose(td.use(a)) + 1):  # fmt: skip
            same(run_array(made, schedule=order), td.run(made, backend="reference"), repr(shape))


def test_tables():
    a = np.random.default_rng(0).random((9, 11))
    order = sc.Table(np.random.default_rng(1).permutation(99))
    same(run_array(td.use(a) * 2, schedule=order), a * 2)


def test_schedules_of_other_ranks():
    for order in (sc.Column(2) | sc.Block(2, 2, 3), sc.Morton(), sc.Hilbert(), sc.Tile(2, 3)):
        a = np.random.default_rng(0).random((5, 6, 7))
        same(run_array(td.use(a) + a[:, 0:1, :], schedule=order), a + a[:, 0:1, :])
    for order in (sc.Column(2), sc.Morton(), sc.ZigZag(5)):
        b = np.random.default_rng(0).random(1021)
        same(run_array(td.use(b) * 3, schedule=order), b * 3)


def test_checked_mode_reports_and_does_not_read():
    a, at = data(5, "int32"), np.array([0, 4, 5, -1, 2])
    x, ix = td.use(a), td.use(at)
    with pytest.raises(Reported) as caught:
        run_array(td.generate((5,), lambda i: x[ix[i]]), check=True)
    found = sorted((site.operation, site.axis, index, extent)
                   for site, index, extent in caught.value.args[0])  # fmt: skip
    assert found == [("generate", 0, -1, 5), ("generate", 0, 5, 5)]
