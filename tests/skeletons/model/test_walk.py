"""What the model looks at of a walk: boxes that cover what is visited, no more and no less, places
inside the domain, rows that taps lie in; and what follows for predicted bytes and times."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.treadle.driver.explained import lower
from treadle.dsl.graph import Fold, Input
from treadle.dsl.graphs.names import Names
from treadle.dsl.target import CUDA
from treadle.dsl.types import float32
from treadle.skeletons.access.footprint import distinct, union_lines
from treadle.skeletons.access.maps import Map, kernel_maps
from treadle.skeletons.ir.counts import variant
from treadle.skeletons.lower.lower import LoweringContext, lower as lower_node
from treadle.skeletons.model.coverage import Walk, form_of, points_of
from treadle.skeletons.model.device import H200
from treadle.skeletons.model.folds import POOL, _blocks
from treadle.skeletons.model.gpu import turnover, work
from treadle.skeletons.model.time import predict
from treadle.skeletons.schedules import (
    Block,
    Column,
    Hilbert,
    Morton,
    PerThread,
    Row,
    Swizzle,
    Tile,
    ZigZag,
    as_schedule,
)

ORDERS = (Row(), Column(8), Column(64), ZigZag(128), Tile(8, 32), Swizzle(8), Morton(), Hilbert())


def kernel(function, *shapes):
    program = lower(function, *[np.zeros(s, np.float32) for s in shapes])
    return kernel_maps(program.kernels[-1], Names(program).known)


def elements(domain):
    """A map of each output to an array's element of its own."""
    rank = len(domain)
    own = tuple(tuple(int(a == k) for k in range(rank)) for a in range(rank))
    leaf = Input(0, float32, domain).leaves[0]
    return Map(leaf, False, "affine", (), 4, domain, own, ((0,) * rank,))


@pytest.mark.parametrize("order", ORDERS, ids=repr)
@pytest.mark.parametrize("domain", [(512, 512), (24, 128, 128)])
def test_windows_of_a_walk_are_covered(order, domain):
    """As many outputs as there are ids, give or take what a curve's corners hide."""
    walk, m = Walk(domain, order, (1,) * len(domain)), elements(domain)
    for count in (4096, 20_000, 100_000):
        for start in (0, walk.size // 3, walk.size // 2 + 4096):
            low, high = walk.boxes(start, count)
            assert union_lines([m], low, high, 4, ()) == pytest.approx(count, rel=0.15)


def test_places_are_inside_the_domain():
    """Two ids of three of Morton's curve over 320 × 320 units are outside."""
    walk = Walk((320, 320), Morton(), (1, 1))
    assert walk.size > 2 * walk.inside == 2 * 320 * 320
    parts = np.linspace(0, 0.99, 12)
    ids = np.array([walk.at(part) for part in parts])
    assert (walk.origins(ids) < 320).all() and (np.diff(ids) > 0).all()
    plain = Walk((320, 320), Row(), (1, 1))
    assert plain.at(0.5, 1000) == (320 * 320 - 1000) // 2


def test_a_star_touches_the_rows_of_its_points():
    """13 points in space lie in 9 rows, of the 25 of the box around them."""
    places = [(0, 0, 0)]
    places += [tuple(d * (k == m) for m in range(3)) for k in range(3) for d in (-2, -1, 1, 2)]
    maps = kernel(lambda a: td.stencil(lambda w: sum(w[p] for p in places), a), (16, 16, 64))
    (m,) = maps.reads
    assert len(m.parts) == 9 and sorted(o for p in m.parts for o in p.offsets) == sorted(m.offsets)
    low, high = np.array([[5, 6, 16]]), np.array([[6, 8, 48]])
    assert union_lines([m], low, high, 32, ()) == distinct([m], points_of(low[0], high[0]), 32)
    (whole,) = kernel(
        lambda a: td.stencil(lambda w: sum(w[i, j] for i in (-1, 0, 1) for j in (0, 1)), a),
        (64, 64)).reads  # fmt: skip
    assert whole.parts == (whole,)


def test_blocks_outside_the_domain_end_at_once():
    """Blocks along Morton's curve over 1 536 × 5 120 (of 192 × 160 blocks 256² are launched): A·B
    takes as long as row by row, 2.1 ms as measured, not twice that."""
    maps = kernel(lambda a, b: td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0))),
        (1536, 1024), (1024, 5120))  # fmt: skip
    rows, curve = (predict(maps, as_schedule(order | Block(8, 32)), H200)
                   for order in (Row(), Morton()))  # fmt: skip
    assert rows.seconds == pytest.approx(2.1e-3, rel=0.1)
    assert curve.seconds < 1.1 * rows.seconds
    form = form_of(maps, as_schedule(Morton() | Block(8, 32)), H200)
    done = work(maps, form, H200, None)
    assert turnover(maps, form, H200, done, None)[1] > 2 * rows.dispatch  # but all are launched


def turned(shape, axes):
    """A permute to an array whose axes are those of the source in another order."""
    target = tuple(shape[k] for k in axes)
    return kernel(lambda a: td.permute(
        td.overwrite, td.fill(target, td.float32(0)),
        lambda *index: tuple(index[k] for k in axes), a), shape)  # fmt: skip


def test_parts_of_sectors_cost_by_the_rows_that_are_written_at_a_time():
    """Permutes row by row, measured: to the transposed of 512 × 32 768 441 us, of 4 096 × 4 000
    341, of 32 768 × 512 331; to axes (1, 2, 0) of 192 × 320 × 256 415 in blocks of 8 × 32."""
    for shape, axes, measured in (
        ((512, 32768), (1, 0), 441e-6), ((4096, 4000), (1, 0), 341e-6),
        ((32768, 512), (1, 0), 331e-6), ((192, 320, 256), (1, 2, 0), 415e-6),
    ):  # fmt: skip
        schedule = as_schedule(Row() | Block(8, 32) if len(shape) > 2 else Row())
        found = predict(turned(shape, axes), schedule, H200).seconds
        assert found == pytest.approx(measured, rel=0.12), shape


def test_bytes_of_the_l2_are_sectors_and_its_time_requests():
    """Transposing row by row: 32 bytes for every element read, of which the L2 looks up one after
    the other (counted: 2.64 GB of a + aᵀ of 8 192 squared)."""
    maps = kernel(lambda a: td.generate(a.shape, lambda i, j: a[i, j] + a[j, i]), (8192, 8192))
    p = predict(maps, as_schedule(Row()), H200)
    assert p.far == pytest.approx(2.64e9, rel=0.03)
    assert p.terms[1] * H200.far > 1.5 * p.far


def test_parts_of_sectors_along_rows_cost_no_more_than_sectors():
    """Rows of 900 elements begin within sectors, whose rest neighbours store at once: axes
    (0, 2, 1) of 24 × 900 × 1 100, measured 95 us in blocks of 16 × 16, 102 in 8 × 32."""
    maps = kernel(lambda a: td.generate(
        (a.shape[0], a.shape[2], a.shape[1]), lambda h, i, j: a[h, j, i]),
        (24, 900, 1100))  # fmt: skip
    for block, measured in ((Block(16, 16), 95e-6), (Block(8, 32), 102e-6)):
        found = predict(maps, as_schedule(Row() | block), H200).seconds
        assert found == pytest.approx(measured, rel=0.15)


def test_threads_that_store_whole_sectors_in_two_goes_fill_them():
    """Four neighbours of eight bytes, 16 of which a store holds (measured: 175 us of a + aᵀ, as
    with rows of neighbours; no part of a sector waits for another block)."""
    maps = kernel(lambda a: td.generate(
        a.shape, lambda i, j: td.cast(a[i, j], td.float64) + td.cast(a[j, i], td.float64)),
        (2048, 2048))  # fmt: skip
    cols, rows = (work(maps, form_of(maps, as_schedule(Row() | Block(8, 32) | own), H200),
                       H200, None) for own in (PerThread(cols=4), PerThread(rows=4)))  # fmt: skip
    assert cols.written.bytes == 2 * rows.written.bytes == 2 * 8 * 2048**2
    assert cols.written.busy < 2.5 * cols.written.bytes


def product(a, b):
    return td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0)),
    )


#: Programs, their extents, and how they are lowered without a schedule.
LOWERED = {
    "rows": (lambda a: td.generate(a.shape, lambda i, j: a[i, j] + a[i, 0]), [(2048, 4096)]),
    "loops": (product, [(2048, 512), (512, 1024)]),
    "strips": (lambda a: td.stencil(lambda w: w[-1, 0] + w[0, 1], a), [(2048, 4096)]),
    "tiles": (lambda a: td.generate(a.shape, lambda i, j: a[j, i]), [(2048, 2048)]),
    "tiles of doubles": (
        lambda a: td.generate(a.shape, lambda i, j: td.cast(a[j, i], td.float64)), [(2048, 2048)]),
    "folded rows": (lambda a: td.sum(a, axis=1), [(3000, 8192)]),
    "folded columns": (lambda a: td.sum(a, axis=0), [(3000, 1024)]),
    "all folded": (lambda a: td.sum(a), [(8192, 8192)]),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", LOWERED)
def test_the_model_knows_the_blocks_and_threads_that_are_launched(name):
    """Those of the kernel IR: the model asks the lowerings for their rules."""
    function, shapes = LOWERED[name]
    program = lower(function, *[np.zeros(s, np.float32) for s in shapes], backend="cuda")
    node, known = program.kernels[-1], Names(program).known
    maps = kernel_maps(node, known)
    orders = () if isinstance(node, Fold) else ORDERS
    several = Row() | Block(64, 128) | PerThread(8, 4)
    for schedule in (None, several, *POOL, *orders, *(o | Block(8, 32) for o in orders)):
        given = None if schedule is None else as_schedule(schedule)
        lowered = lower_node(node, LoweringContext(CUDA, schedule=given))
        launched = (variant(k, known) for k in lowered.kernels)
        made, blocks = next((k, n) for k, n in launched if n)
        if isinstance(node, Fold):
            assert _blocks(maps, given, H200) == blocks, schedule
            continue
        form = form_of(maps, given, H200)
        assert (form.threads, -(-form.walk.size // form.ids)) == (made.threads, blocks), schedule
