"""Scan on a GPU, by the lockstep interpreter: every form, direction, axis and way of scanning."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run, run_array
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.dsl.scalar import Scalar
from treadle.dsl.target import CUDA
from treadle.dsl.types import ALL_TYPES
from treadle.skeletons.ir.kernel import For, LoadVector, Store, StoreVector, children, statements
from treadle.skeletons.lower.build import Builder, LoweringContext
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.lower.scan import (
    gpu as scan,
    gpu_columns as scan_columns,
    gpu_pipelined as scan_pipelined,
    gpu_rows as scan_rows,
    gpu_tiles as scan_tiles,
    gpu_tiles as words,
)

pytestmark = pytest.mark.sample(1)

SHAPES = [(0,), (1,), (2,), (63,), (64,), (65,), (300,), (3, 33), (33, 3), (4, 0), (0, 4),
          (2, 3, 40), (2, 70, 3), (17, 2, 3), (5, 260)]  # fmt: skip
FORMS = {"inclusive": ("scanl1", "scanr1"), "exclusive": ("scanl", "scanr"),
         "total": ("scanl_total", "scanr_total")}  # fmt: skip


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    sizes = {
        scan: {"SHORT_ROW": 40, "MANY_ROWS": 16, "LONG_ROW": 260, "fits": lambda node: True},
        scan_rows: {"THREADS": 64},
        scan_tiles: {"THREADS": 64, "BYTES": 16},
        scan_pipelined: {"THREADS": 64, "BYTES": 16},
        scan_columns: {"THREADS": 64, "ENOUGH": 100, "LEAST": 5},
    }
    for module, values in sizes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


def plus(x, y):
    return x + y


def affine(x, y):
    """Composition of affine maps: associative, not commutative."""
    (a, b), (c, d) = x, y
    return a * c % 10007, (b * c + d) % 10007


def data(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 50, shape)


def scanned(f, arrays, init, axis, form, reverse):
    """Prefixes and totals, by the definition, all rows at once."""
    arrays = [np.moveaxis(v, axis, 0) for v in arrays]
    n, rest = arrays[0].shape[0], arrays[0].shape[1:]
    state = None if init is None else [np.full(rest, i) for i in init]
    results = []
    for k in range(n)[::-1] if reverse else range(n):
        e = [v[k] for v in arrays]
        if form != "inclusive":
            results.append(state)
        state = e if state is None else f(e, state) if reverse else f(state, e)
        if form == "inclusive":
            results.append(state)
    if form == "exclusive":
        results.append(state)
    if reverse:
        results.reverse()
    count = len(arrays)
    prefixes = [np.array([r[c] for r in results]).reshape(len(results), *rest)
                for c in range(count)]  # fmt: skip
    return [np.moveaxis(p, 0, axis) for p in prefixes], state


def both_ways(form, reverse, init, values, f, axis):
    """(got prefixes, got totals), each a list of components."""
    function = getattr(td, FORMS[form][reverse])
    made = function(f, values, axis=axis) if form == "inclusive" else (
        function(f, init, values, axis=axis))  # fmt: skip
    if form == "total":
        prefix, totals = made
        found = run(*prefix._leaves, *totals._leaves)
        count = len(prefix._leaves)
        return found[:count], found[count:]
    return run(*made._leaves), None


@pytest.mark.sample(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape, form, reverse):
    a = data(shape)
    for axis in range(len(shape)):
        init = None if form == "inclusive" else (7,)
        got, totals = both_ways(form, reverse, 7, a, plus, axis)
        want, last = scanned(lambda x, y: [x[0] + y[0]], [a], init, axis, form, reverse)
        assert np.array_equal(got[0], want[0])
        if form == "total":
            assert np.array_equal(totals[0], last[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(1,), (300,), (33, 3), (5, 260), (2, 70, 3)])
def test_order_is_kept(shape, form, reverse):
    a, b = data(shape), data(shape, 1)

    def step(x, y):
        return [x[0] * y[0] % 10007, (x[1] * y[0] + y[1]) % 10007]

    for axis in range(len(shape)):
        init = None if form == "inclusive" else (2, 1)
        got, totals = both_ways(form, reverse, (2, 1), td.zip(a, b), affine, axis)
        want, last = scanned(step, [a, b], init, axis, form, reverse)
        assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))
        if form == "total":
            assert all(np.array_equal(g, w) for g, w in zip(totals, last, strict=True))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "u1", "i2", "?"])
@pytest.mark.parametrize("shape", [(3000,), (20, 30)])
def test_types(dtype, shape):
    a = (np.random.default_rng(0).random(shape) * 2).astype(dtype)
    got = run_array(td.scanl1(lambda x, y: td.where(y != 0, y, x), a, axis=0))
    want, _ = scanned(lambda x, y: [np.where(y[0] != 0, y[0], x[0])], [a], None, 0, "inclusive",
                      False)  # fmt: skip
    assert np.array_equal(got, want[0])
    if dtype not in ("?", "f2"):
        assert np.allclose(run_array(td.cumsum(a, axis=-1)), a.cumsum(-1), rtol=1e-5)


@pytest.mark.long
def test_many_groups_of_tiles(monkeypatch):
    monkeypatch.setattr(scan_tiles, "BACK", 2)
    a = np.random.default_rng(0).random(20_000).astype("f4")
    found = [run_array(td.cumsum(a), seed=s) for s in range(3)]
    assert np.allclose(found[0], a.astype("f8").cumsum(), rtol=1e-6)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def test_signed_zero_and_nan():
    zeros = np.full(200, -0.0)
    assert np.signbit(run_array(td.scanl1(plus, zeros))).all()
    a = np.random.default_rng(0).random(400)
    a[177] = np.nan
    got = run_array(td.cummax(a))
    assert np.isnan(got[177:]).all() and np.array_equal(got[:177], np.maximum.accumulate(a[:177]))


@pytest.mark.parametrize("shape", [(300,), (5, 32), (5, 320), (40, 6)])
@pytest.mark.parametrize("axis", [0, -1])
def test_elements_and_results_are_fused(shape, axis):
    a = np.random.default_rng(0).random(shape)
    node = td.cumsum(td.map(lambda x: x * 2, td.use(a)), axis=axis)._leaves[0].node
    (result,) = node.results
    from treadle.dsl.expr import Index

    back = td.use(a)._element([Index(k) for k in range(len(shape))])[0]
    made = node.with_(epilogue=((Scalar(result) - Scalar(back))._expr,))
    (got,) = run(made.leaf())
    assert np.allclose(got, (a * 2).cumsum(axis) - a)
    (checked,) = run(made.leaf(), check=True)
    assert checked.tobytes() == got.tobytes()


@pytest.mark.parametrize("lengths", [[5, 0, 1, 14, 300, 0, 80]])
def test_segments(lengths):
    lengths = np.array(lengths)
    x = data((2, lengths.sum()))
    got = run_array(td.scanl1_seg(plus, x, lengths))
    ends = np.cumsum(lengths)
    want = [np.concatenate([r[e - n : e].cumsum() for e, n in zip(ends, lengths, strict=True)])
            for r in x]  # fmt: skip
    assert np.array_equal(got, want)


def test_wide_accesses():
    kernels = lower(td.cumsum(np.ones(64, "f4"))._leaves[0].node, LoweringContext(CUDA)).kernels
    for kernel in kernels:
        found = list(statements(kernel.body))
        assert any(isinstance(s, LoadVector) for s in found)
        assert any(isinstance(s, StoreVector) for s in found)
        assert kernel.fallback is not None


@pytest.mark.parametrize("t", ALL_TYPES, ids=str)
def test_values_survive_their_pieces(t):
    """A value cut into words and put together again, as an expression folded here."""
    from treadle.dsl.expr import Const

    for x in (0, 1, 1.5, -3, 200):
        value = Const(x if t.is_inexact or t.signed else abs(int(x)), t)
        found = words.value(words.pieces(value), t)
        assert isinstance(found, Const) and found.value == value.value


@pytest.mark.parametrize("axis", [0, 1])
def test_strided_and_dense_agree_to_the_bit(axis):
    big = np.random.default_rng(0).random((40, 600)).astype("f4")
    made = td.cumsum(td.use(big[::2, 1:]), axis=axis)
    (dense,) = run(*made._leaves)
    source = next(iter(made._leaves[0].node.inputs()))
    (strided,) = run(*made._leaves, strided=frozenset([source]))
    assert dense.tobytes() == strided.tobytes()
    (checked,) = run(*made._leaves, check=True)
    assert checked.tobytes() == dense.tobytes()


@pytest.mark.parametrize("shape", [(5000,), (3, 2600)])
def test_pipelined_scans_and_tiles_agree_to_the_bit(shape, monkeypatch):
    """Elements asked for ahead or not, blocks that are few or many, whichever comes first."""
    a = np.random.default_rng(0).random(shape).astype("f4")
    node = td.cumsum(a, axis=-1)._leaves[0].node
    kernel = lower(node, LoweringContext(CUDA)).kernels[-1]
    assert "pipelined" in kernel.name and "tiles" in kernel.fallback.name
    found = [run(node.leaf(), seed=s, multiprocessors=m)[0] for s, m in enumerate((1, 2, 3, 40))]
    monkeypatch.setattr(scan_pipelined, "PREFETCHED", 0)
    assert "tiles" in lower(node, LoweringContext(CUDA)).kernels[-1].name
    plain = run_array(td.cumsum(a, axis=-1))
    assert np.allclose(plain, a.astype("f8").cumsum(-1), rtol=1e-5)
    assert all(f.tobytes() == plain.tobytes() for f in found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reverse", [False, True])
def test_very_long_rows(form, reverse):
    a = np.random.default_rng(0).integers(-50, 50, 2999).astype("i4")
    init = None if form == "inclusive" else (7,)
    got, totals = both_ways(form, reverse, np.int32(7), a, plus, 0)
    want, last = scanned(lambda x, y: [x[0] + y[0]], [a], init, 0, form, reverse)
    assert np.array_equal(got[0], want[0])
    if form == "total":
        assert np.array_equal(totals[0], last[0])


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [259, 258, 767, 1601, 1602])
@pytest.mark.parametrize("long", [10_000, 260])
def test_vectors_of_the_last_tile_take_turns(n, long, form, reverse, monkeypatch):
    """Six vectors of a thread, by code for three of them (pipelined: of two, three times)."""
    monkeypatch.setattr(scan, "LONG_ROW", long)
    monkeypatch.setattr(scan_tiles, "BYTES", 96)
    monkeypatch.setattr(scan_pipelined, "BYTES", 96)
    a, b = data((n,)), data((n,), 1)

    def step(x, y):
        return [x[0] * y[0] % 10007, (x[1] * y[0] + y[1]) % 10007]

    def check(init, started, values, arrays, f, by_hand):
        got, totals = both_ways(form, reverse, init, values, f, 0)
        started = None if form == "inclusive" else started
        want, last = scanned(by_hand, arrays, started, 0, form, reverse)
        assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))
        if form == "total":
            assert all(np.array_equal(g, w) for g, w in zip(totals, last, strict=True))

    check(7, (7,), a, [a], plus, lambda x, y: [x[0] + y[0]])
    check((2, 1), (2, 1), td.zip(a, b), [a, b], affine, step)


def _copies(body, times=1):
    """How often the machine code stores results: loops that are unrolled count as their copies."""
    found = 0
    for s in body:
        inside = times
        if isinstance(s, For) and s.kind == "unrolled":
            inside *= int(s.stop.value) - int(s.start.value)
        elif isinstance(s, Store | StoreVector) and s.buffer.role == "output":
            found += times
        found += sum(_copies(part, inside) for part in children(s))
    return found


@pytest.mark.parametrize("form", ["segments", "exclusive"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1"])
def test_few_copies_of_an_element_in_the_code_of_tiles(dtype, form, monkeypatch):
    """Compilers take as long as there are copies; those for the last tile of a row are few, and so
    are those for what follows the last element."""
    monkeypatch.setattr(scan_tiles, "THREADS", 512)
    monkeypatch.setattr(scan_tiles, "BYTES", 192)
    values = np.ones(9, dtype)
    if form == "segments":
        made = td.scanl1_seg(lambda x, y: y, values, np.array([4, 5]))
    else:
        made = td.scanl(plus, values.dtype.type(0), values)
    node = made._leaves[0].node
    (kernel,) = (k for k in lower(node, LoweringContext(CUDA)).kernels if "tiles" in k.name)
    tile = scan_tiles.TileScan(Builder(node, LoweringContext(CUDA)), node)
    whole, last = tile.vectors * tile.vector, 2 * max(scan_rows.TOGETHER, tile.vector)
    assert tile.together < tile.vectors
    assert _copies(kernel.body) <= whole + last + 3 * (form == "exclusive")
    rolled = [s for s in statements(kernel.body) if isinstance(s, For) and s.kind == "rolled"]
    # Distances in a warp; groups in between; reading and writing the last tile, each in two ways.
    assert len(rolled) == 6
    assert print_kernel(kernel).count("#pragma unroll 1") >= len(rolled)


def test_only_values_of_one_register_take_turns():
    for dtype, expected in (("f4", True), ("i4", True), ("f8", False), ("i1", False)):
        assert scan_pipelined.fits(td.cummax(np.ones(9, dtype))._leaves[0].node) == expected


def test_nothing_depends_on_the_machine():
    node = td.cumsum(np.ones((3, 5)), axis=1)._leaves[0].node
    one, many = (lower(node, LoweringContext(CUDA, threads=t)) for t in (2, 64))
    assert [str(k) for k in one.kernels] == [str(k) for k in many.kernels]
