"""Generate on a GPU, by the SIMT interpreter: vectors, tiles of shared memory, schedules."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported
from tests.skeletons.ir.simt import run, run_array
from treadle.dsl.target import CUDA
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.elementwise import gpu as generate
from treadle.skeletons.lower.gpu import jam_neighbours as loops_together, orders
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.lower.transpose import gpu as transpose

pytestmark = pytest.mark.usefixtures("small")
RANDOM = np.random.default_rng(0)
TYPES = ["?", "u1", "i2", "f4", "f8", "c8", "c16"]


@pytest.fixture
def small(monkeypatch):
    """Small blocks and tiles, so that small arrays have several of them."""
    monkeypatch.setattr(orders, "THREADS", 32)
    monkeypatch.setattr(transpose, "SIDES", dict.fromkeys(transpose.SIDES, 32))
    monkeypatch.setattr(transpose, "SIDES_ONE_BY_ONE", dict.fromkeys(transpose.SIDES, 32))


def values(shape, dtype="f4", high=100):
    return RANDOM.integers(0, high, shape).astype(dtype)


def lowered(array, **context):
    made = lower(array._leaves[0].node, LoweringContext(target=CUDA, **context))
    for k in made.kernels:
        verify(k)
    return made


def variants(array, **context):
    """The chain of variants of the one kernel of an array."""
    (kernel,) = lowered(array, **context).kernels
    found = [kernel]
    while found[-1].fallback is not None:
        found.append(found[-1].fallback)
    return found


def text(kernel):
    return str(replace(kernel, fallback=None))


def vectors(kernel, kind=ir.LoadVector):
    return [s for s in ir.statements(kernel.body) if isinstance(s, kind)]


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.sample(24)
@pytest.mark.parametrize("size", [0, 1, 31, 128, 255, 256, 257, 1000])
@pytest.mark.parametrize("dtype", TYPES)
def test_sizes_and_types(size, dtype):
    a = values(size, dtype)
    made = td.map(lambda x: (x, x == x), td.use(a))
    same, true = run_array(made)
    assert np.array_equal(same, a) and true.all() and len(true) == size


@pytest.mark.parametrize(("dtype", "count"), [("u1", 16), ("i2", 8), ("f4", 4), ("f8", 2)])
def test_accesses_of_16_bytes(dtype, count):
    a = values((6, 40), dtype)
    wide, plain = variants(td.use(a) + a)
    assert {len(s.vars) for s in vectors(wide)} == {count}
    assert {len(s.values) for s in vectors(wide, ir.StoreVector)} == {count}
    assert not vectors(plain) and not wide.requires and set(wide.aligned) == set(wide.buffers)


def test_mixed_types_have_a_common_count():
    a, b = values(300, "u1"), values(300, "f8")
    made = td.use(a) * td.use(b)
    assert {len(s.vars) for s in vectors(variants(made)[0])} == {2}
    assert np.array_equal(run_array(made), a * b)


def test_complex128_is_16_bytes_by_itself():
    assert len(variants(td.use(values(9, "c16")) * 2)) == 1


def test_trailing_axes_are_one_where_leading_ones_are_not():
    a, column = values((5, 3, 8)), values((5, 1, 1))
    made = td.use(a) + column
    kernel = variants(made)[0]
    assert "2 contiguous axes as one" in kernel.comments
    assert np.array_equal(run_array(made), a + column)


@pytest.mark.parametrize("width", [5, 8, 12, 32, 33, 64])
def test_rows_of_any_width(width):
    a, row, column = values((7, width)), values(width), values((7, 1))
    made = td.use(a) * row + column
    assert np.array_equal(run_array(made), a * row + column)


@pytest.mark.parametrize(("n", "wide"), [(4, 0), (65, 0), (301, 2), (512, 2), (1027, 2)])
def test_neighbours_share_wide_loads(n, wide):
    """Where a block is whole: eight elements hold the six that four need."""
    a = values(n + 2)
    made = td.generate((n,), lambda i: td.use(a)[i] + 2 * td.use(a)[i + 1] - td.use(a)[i + 2])
    assert np.array_equal(run_array(made), a[:-2] + 2 * a[1:-1] - a[2:])
    assert len(vectors(variants(made)[0])) == wide


@pytest.mark.parametrize("shape", [(64,), (6, 32), (6, 33), (3, 4, 8)])
def test_reversed_rows(shape):
    a = values(shape)
    made = td.use(a)[..., ::-1]
    assert len(vectors(variants(made)[0])) == 1
    assert np.array_equal(run_array(made), a[..., ::-1])


def test_heavy_elements_are_written_once():
    a = RANDOM.random(700).astype("f4")

    def heavy(x):
        for k in range(12):
            x = td.sqrt(x * x + k)
        return x

    made = td.map(heavy, td.use(a))
    kernel = variants(made)[0]
    assert text(kernel).count("sqrt") == 24  # once, and once in the tail
    want = a
    for k in range(12):
        want = np.sqrt(want * want + np.float32(k))
    assert np.array_equal(run_array(made), want)


def test_loops_and_conditions():
    a = values(333, "i4")

    def steps(x):
        return td.while_loop(lambda s: s[0] > 0, lambda s: (s[0] // 2, s[1] + 1), (x, 0))[1]

    assert np.array_equal(run_array(td.map(steps, td.use(a))), [int(x).bit_length() for x in a])
    chosen = td.map(lambda x: td.cond(x > 50, td.sqrt(td.cast(x, "f8")), 0.0), td.use(a))
    assert np.array_equal(run_array(chosen), np.where(a > 50, np.sqrt(a), 0))


def test_what_does_not_change_in_a_loop_is_computed_before_it():
    a = values((6, 7), "f8", 9)

    def element(i, j):
        step = td.sqrt(td.cast(i * 7 + j, "f8")) + 1
        wide = td.while_loop(lambda s: s < 40, lambda s: s * step + 2, td.use(a)[i, j])
        return wide + td.loop(3, lambda k, s: s + step * td.cast(k, "f8"), 0.0)

    made = td.generate((6, 7), element)
    (kernel,) = variants(made)
    assert text(kernel).count("sqrt") == 1
    assert text(kernel).index("sqrt") < text(kernel).index("while:")
    assert np.array_equal(run_array(made), td.run(made, backend="reference"))


def test_gathers():
    a, at = values((40, 9)), values(500, "i4", 40)
    x, ix = td.use(a), td.use(at)
    made = td.generate((500,), lambda i: x[ix[i], ix[i] % 9])
    assert np.array_equal(run_array(made), a[at, at % 9])


def test_what_all_elements_share_is_computed_once():
    a, column = values((8, 64)), values((8, 1), high=9)
    made = td.generate((8, 64), lambda i, j: td.use(a)[i, j] * td.exp(td.use(column)[i, 0]))
    wide = text(variants(made)[0])
    assert wide.count("exp(") == 2  # for a group, and for one of the tail
    assert np.allclose(run_array(made), a * np.exp(column), rtol=1e-6)


def test_rank_0_and_nothing():
    assert run_array(td.unit(td.float32(2)) * 3) == 6
    for shape in [(0,), (0, 5), (5, 0)]:
        assert run_array(td.use(values(shape)) + 1).shape == shape


def test_strided_inputs():
    base = values((40, 48))
    for view in [base[::2, ::-3], base.T, base[3:9, 4:], base[::-1]]:
        x = td.use(view)
        leaves = frozenset([x._leaves[0]])
        (got,) = run(*(x * 2)._leaves, strided=leaves)
        assert np.array_equal(got, view * 2)
        (got,) = run(*td.transpose(x)._leaves, strided=leaves)
        assert np.array_equal(got, view.T)


def test_checked_mode():
    a, at = values(40), np.array([0, 39, 40, -1, 2])
    made = td.generate((5,), lambda i: td.use(a)[td.use(at)[i]])
    with pytest.raises(Reported) as caught:
        run_array(made, check=True)
    assert sorted(found[1:] for found in caught.value.args[0]) == [(-1, 40), (40, 40)]
    for fine in (td.use(a) * 2, td.use(values((33, 35))).T):
        assert not lowered(fine, check=True).kernels[0].sites


# --- through shared memory -----------------------------------------------------------------------


@pytest.mark.sample(8)
@pytest.mark.parametrize("shape", [(16, 16), (32, 64), (64, 96), (65, 33), (17, 200), (100, 3)])
@pytest.mark.parametrize("dtype", TYPES)
def test_transpose(shape, dtype):
    a = values(shape, dtype)
    assert np.array_equal(run_array(td.use(a).T), a.T)


@pytest.mark.sample(4)
@pytest.mark.parametrize("sides", [{}, {1: 128, 2: 64, 4: 64, 8: 32, 16: 32}])
@pytest.mark.parametrize("dtype", TYPES)
def test_tiles_of_any_side(sides, dtype, monkeypatch):
    for side in ("SIDES", "SIDES_ONE_BY_ONE"):
        monkeypatch.setattr(transpose, side, sides or dict.fromkeys(transpose.SIDES, 64))
    a = values((160, 144), dtype)
    assert np.array_equal(run_array(td.use(a).T), a.T)


@pytest.mark.sample(8)
@pytest.mark.parametrize("axes", list(itertools.permutations(range(4))))
def test_permuted_axes(axes):
    a = values((3, 20, 2, 36))
    assert np.array_equal(run_array(td.transpose(td.use(a), axes)), a.transpose(axes))


def test_a_transposing_read_is_wide_on_both_sides():
    wide, single, short, rows = variants(td.use(values((64, 64))).T)
    assert "tiles of 32 × 32 in shared memory: input" in wide.comments
    assert vectors(wide) and vectors(wide, ir.StoreVector)
    assert not vectors(single) and "in shared memory" in single.comments[-1]
    assert not any("shared memory" in c for k in (short, rows) for c in k.comments)


@pytest.mark.parametrize("shape", [(5, 7, 3), (1000, 2), (64, 20, 4)])
def test_short_axes(shape):
    a = values(shape)
    axes = (2, 0, 1) if len(shape) == 3 else (1, 0)
    made = td.transpose(td.use(a), axes)
    assert any("axis 0 innermost" in k.comments for k in variants(made))
    assert np.array_equal(run_array(made), a.transpose(axes))
    back = td.transpose(td.use(np.ascontiguousarray(a.transpose(axes))), np.argsort(axes))
    assert np.array_equal(run_array(back), a)


def test_fused_with_anything():
    a, b, c = values((70, 50)), values((70, 50), "f8"), values((50, 70))
    x, y, z = td.use(a), td.use(b), td.use(c)
    made = td.generate((50, 70), lambda i, j: (x[j, i] * 2 + y[j, i] * z[i, j] + i, x[j, i]))
    first, second = run_array(made)
    assert np.array_equal(second, a.T)
    assert np.array_equal(first, a.T * np.float32(2) + b.T * c + np.arange(50)[:, None])


def test_reversed_and_cut_out():
    a = values((80, 96))
    for index in [np.s_[::-1], np.s_[:, ::-1], np.s_[4:, 8:], np.s_[1:, 3:-2], np.s_[::2]]:
        x = td.use(a)[index]
        made = td.generate((a[index].shape[1], a[index].shape[0]), lambda i, j, x=x: x[j, i])
        assert np.array_equal(run_array(made), a[index].T)
    x = td.use(a)
    turned = td.generate((96, 80), lambda i, j: x[79 - j, 95 - i])
    assert np.array_equal(run_array(turned), a[::-1, ::-1].T)
    assert "shared memory" in variants(turned)[0].comments[-1]


def test_rows_chosen_by_data():
    a, at = values((30, 64)), values(40, "i4", 30)
    made = td.generate((64, 40), lambda i, j: td.use(a)[td.use(at)[j], i])
    assert "shared memory" in variants(made)[0].comments[-1]
    assert np.array_equal(run_array(made), a[at].T)


def test_what_cannot_be_staged():
    a = values((40, 40))
    x = td.use(a)
    guarded = td.generate((40, 40), lambda i, j: td.cond(i < j, x[j, i], td.float32(0)))
    assert not any("shared memory" in c for k in variants(guarded) for c in k.comments)
    assert np.array_equal(run_array(guarded), np.where(np.tri(40, k=-1).T > 0, a.T, 0))
    assert len(variants(x.T, check=True)) == 1


def test_many_staged_reads_have_room():
    arrays = [values((40, 36), "f8") for _ in range(9)]
    xs = [td.use(a) for a in arrays]
    made = td.generate((36, 40), lambda i, j: sum(x[j, i] for x in xs))
    assert np.array_equal(run_array(made), sum(arrays).T)


# --- schedules -----------------------------------------------------------------------------------


class Backwards(sc.Order):
    """A user's order."""

    def coordinates(self, i, shape):
        last = shape[0] * shape[1] - 1 - i
        return last // shape[1], last % shape[1]


SCHEDULES = [
    sc.Row(), sc.Row() | sc.Block(64), sc.Column(4), sc.ZigZag(3), sc.Tile(2, 3), sc.Morton(),
    sc.Hilbert(), sc.Swizzle(2), Backwards(), sc.Table(np.random.default_rng(0).permutation(1128)),
    sc.PerThread(rows=2, cols=4), sc.PerThread(cols=3), sc.Column(8) | sc.PerThread(rows=3),
    sc.Row() | sc.Block(4, 4) | sc.PerThread(rows=2), sc.Column(8) | sc.Block(2, 4),
    sc.Column(64) | sc.Block(8, 32), sc.Morton() | sc.Block(4, 4), sc.Hilbert() | sc.Block(40, 40),
    sc.Swizzle(8) | sc.Block(8, 32) | sc.PerThread(rows=2, cols=4),
    Backwards(grain="block") | sc.Block(5, 7), sc.Row() | sc.Block(8, 32) | sc.Lanes(0),
    sc.Column(4, grain="thread") | sc.Block(96), sc.Column(16, grain="block"),
]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_schedules_never_change_a_bit(schedule):
    a = RANDOM.random((24, 47))
    for array in (a, a[:, :44]):
        if isinstance(schedule, sc.Table) and array is not a:
            continue
        cases = [td.use(array) * 2, td.use(array).T.T + 1,
                 td.stencil(lambda w: w[1, 0] + w[-1, 0] + w[0, 2], array)]  # fmt: skip
        for made in cases:
            assert np.array_equal(run_array(made, schedule=schedule), run_array(made))


def test_schedules_of_other_ranks():
    a = RANDOM.random((3, 6, 9))
    for schedule in (sc.Column(2) | sc.Block(2, 2, 3), sc.Tile(2, 2), sc.Morton() | sc.Block(4, 4)):
        assert np.array_equal(run_array(td.use(a) + 1, schedule=schedule), a + 1)
    line = RANDOM.random(99)
    for schedule in (sc.Column(4), sc.Hilbert(), sc.PerThread(cols=4), sc.Row() | sc.Block(64)):
        assert np.array_equal(run_array(td.use(line) + 1, schedule=schedule), line + 1)


def test_row_order_asked_for_is_nothing_but_that():
    made = td.use(values((64, 64))).T
    for schedule in (sc.Row(), sc.Row(grain="thread") | sc.Block(64)):
        found = variants(made, schedule=schedule)
        assert len(found) == 2
        assert not any("shared memory" in c for k in found for c in k.comments)


def test_one_computation_of_the_coordinates_per_thread():
    made = td.use(values((40, 48))).T
    (kernel,) = variants(made, schedule=sc.Column(8))
    assert text(kernel).count(" // ") == 3 and text(kernel).count(" % ") == 3
    assert any(v.name.startswith("h") for v in kernel.scalars)  # what the host computes


def test_outputs_per_thread_are_wide():
    made = td.use(values((40, 48))) * 2
    wide, plain = variants(made, schedule=sc.Row() | sc.Block(8, 32) | sc.PerThread(2, 4))
    assert vectors(wide) and not vectors(plain) and wide.threads == 32


def test_layers_without_effect_are_noted():
    made = td.use(values((40, 48))) * 2
    schedule = sc.Column(8) | sc.Stage() | sc.Hints(random="evict_first")
    notes = lowered(made, schedule=schedule).notes
    assert [n for n in notes if "no effect" in n] == [
        "Stage() has no effect: no element that two of a block's threads read",
        'Hints(random="evict_first") has no effect here']  # fmt: skip
    assert not lowered(made, schedule=sc.Column(32) | sc.Grid()).notes


def test_orders_that_break_the_rows_of_a_warp_are_noted():
    made = td.use(values((40, 48))) * 2
    for order, pieces in ((sc.Column(8), 4), (sc.Swizzle(2), 2), (sc.ZigZag(64), 1),
                          (sc.Tile(4, 32), 1), (sc.Morton(), 4)):  # fmt: skip
        (note,) = lowered(made, schedule=order).notes or ("1 piece",)
        assert f"{pieces} piece" in note


def test_threads_of_a_block_are_whole_warps():
    made = td.use(values((40, 48))) * 2
    schedule = sc.Column(32, grain="thread") | sc.Block(100)
    found = lowered(made, schedule=schedule)
    assert found.kernels[0].threads == 128
    assert found.notes == ("100 threads per block asked for: 128, whole warps",)


def test_items_and_bytes_in_flight(monkeypatch):
    made = td.use(values(64)) * 2
    for size, items in ((32, 1), (64, 2), (1000, 4)):
        monkeypatch.setattr(generate, "THREAD_BYTES", size)
        assert f"4 × {items} elements a thread" in variants(made)[0].comments


@pytest.mark.sample(6)
@pytest.mark.parametrize("order", [sc.Row(), sc.Column(64), sc.Morton(), sc.Swizzle(64)], ids=repr)
@pytest.mark.parametrize("shape", [(128, 100), (70, 96), (3, 40, 36)])
def test_staged_blocks_in_any_order(order, shape):
    a = values(shape)
    made = td.use(a).T if len(shape) == 2 else td.transpose(td.use(a), (0, 2, 1))
    schedule = order | sc.Block(32, 32) | sc.Stage()
    found = variants(made, schedule=schedule)
    assert "tiles of 32 × 32 in shared memory: input" in found[0].comments
    assert f"schedule: {schedule!r}" in found[0].comments
    assert not lowered(made, schedule=schedule).notes
    assert np.array_equal(run_array(made, schedule=schedule), np.moveaxis(a, -1, -2))


# --- loops of several elements together ----------------------------------------------------------


def product(a, b):
    x, y = td.use(a), td.use(b)

    def element(i, j):
        return td.loop(a.shape[1], lambda k, t: t + x[i, k] * y[k, j], td.float32(0))

    return td.generate((x.shape[0], y.shape[1]), element)


@pytest.mark.parametrize("columns", [44, 45])
@pytest.mark.parametrize("schedule", [
    sc.Row() | sc.Block(8, 32) | sc.PerThread(4, 4), sc.PerThread(rows=3), sc.PerThread(cols=2),
    sc.Column(8) | sc.Block(8, 32) | sc.PerThread(rows=8), sc.Tile(8, 8) | sc.PerThread(2, 2),
], ids=repr)  # fmt: skip
def test_jammed_products(schedule, columns):
    a, b = values((37, 21), high=9), values((21, columns), high=9)
    assert np.array_equal(run_array(product(a, b), schedule=schedule), a @ b)


def test_neighbours_in_a_loop_are_read_at_once():
    made = product(values((32, 19)), values((19, 64)))
    wide, plain = variants(made, schedule=sc.Row() | sc.Block(8, 32) | sc.PerThread(2, 4))
    (loop,) = (s for s in ir.statements(wide.body) if isinstance(s, ir.For) and vectors(s))
    assert len(vectors(loop)) == 1 and len(vectors(loop)[0].vars) == 4
    assert text(wide).count("for k") == 2  # the whole unit's, and the one at the edge
    assert not vectors(plain)


def test_jammed_loops_of_several_states_nested_and_guarded():
    a = values((20, 24), "i4", 9)
    x = td.use(a)

    def element(i, j):
        def iteration(k, s):
            inner = td.loop(3, lambda m, t: t * 2 + x[(i + m) % 20, k], s[1])
            return td.cond(k > j, s[0] + x[i, k], s[0]), inner % 1001

        return td.loop(24, iteration, (td.int32(0), x[i, j]))[0] + td.loop(i, lambda k, t: t + k, 0)

    made = td.generate((20, 24), element)
    schedule = sc.Row() | sc.Block(8, 32) | sc.PerThread(2, 4)
    assert np.array_equal(run_array(made, schedule=schedule), run_array(made))
    assert np.array_equal(run_array(made, schedule=schedule), td.run(made, backend="reference"))


@pytest.mark.parametrize("columns", [64, 65])
def test_loops_that_share_reads_run_together_by_themselves(columns, monkeypatch):
    for plans in ("PLANS", "ONE_BY_ONE"):
        always = [[(*plan[:2], 0) for plan in pair] for pair in getattr(loops_together, plans)]
        monkeypatch.setattr(loops_together, plans, always)
    a, b = values((70, 21), high=9), values((21, columns), high=9)
    made = product(a, b)
    found = variants(made)
    assert [text(k).count("var s0") for k in found] == [65, 9, 1]
    assert [bool(vectors(k)) for k in found] == [True, False, False]
    assert np.array_equal(run_array(made), a @ b)
    found = variants(product(values((70, 24)), values((24, columns))))
    assert [text(k).count("var s0") for k in found] == [65, 17, 65, 9, 1, 1]
    assert ["step 4" in text(k) for k in found] == [True, True, False, False, True, False]
    alone = td.generate((9, 9), lambda i, j: td.loop(9, lambda k, t: t + td.use(a)[i + k, j], 0.0))
    assert len(variants(alone)) == 1


def test_jammed_stencils_resolve_their_boundary(monkeypatch):
    from treadle.dsl.operations import stencils

    monkeypatch.setattr(stencils, "UNROLLED_TAPS", 0)
    a, weights = values((22, 36), "i8"), values((3, 5), "i8", 9)
    made = td.correlate(a, weights)
    want = td.run(made, backend="reference")
    schedule = sc.Row() | sc.Block(8, 32) | sc.PerThread(2, 2)
    assert np.array_equal(run_array(made, schedule=schedule), want)
    for plans in ("PLANS", "ONE_BY_ONE"):
        always = [[(*plan[:2], 0) for plan in pair] for pair in getattr(loops_together, plans)]
        monkeypatch.setattr(loops_together, plans, always)
    assert np.array_equal(run_array(made), want)


# --- run-time strides ----------------------------------------------------------------------------


def strided_variants(view):
    x = td.use(view) * 2
    leaf = frozenset([td.use(view)._leaves[0], *x._leaves[0].node.inputs()])
    return variants(x, strided=leaf)


def test_variants_for_run_time_strides():
    """Column order through shared memory, rows that are cut out as wide as dense ones."""
    found = strided_variants(values((64, 48)).T)
    assert ["shared memory" in k.comments[-1] for k in found] == [True, True, False, False, False]
    assert [bool(vectors(k)) for k in found] == [True, False, False, True, False]
    wide = str(replace(found[3], fallback=None))
    assert "(stride1 == 1)" in wide and "((stride0 % 4) == 0)" in wide
