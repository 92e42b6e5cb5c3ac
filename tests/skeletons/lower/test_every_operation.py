"""Every operation that takes `schedule=` follows it, and not one bit of a result changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, Input, topological
from treadle.dsl.target import CUDA, NATIVE, Target
from treadle.skeletons.lower import combining
from treadle.skeletons.lower.fold import cpu as fold_across, cpu as fold_along
from treadle.skeletons.lower.launches import lowering_report
from treadle.skeletons.lower.lower import LoweringContext, lower, notes_of
from treadle.skeletons.lower.scan import cpu as scan
from treadle.skeletons.lower.scatter import cpu as permute
from treadle.skeletons.products import kernel_cpu as matmul
from treadle.skeletons.schedules import (
    Block,
    Column,
    Hilbert,
    Hints,
    Lanes,
    LocalityGraph,
    Morton,
    Order,
    PerThread,
    Row,
    ScheduleError,
    Stage,
    Swizzle,
    Table,
    Tile,
    ZigZag,
)


class Backwards(Order):
    """A user's own."""

    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        found = []
        for extent in shape[:0:-1]:
            found.append(extent - 1 - i % extent)
            i = i // extent
        return (shape[0] - 1 - i, *found[::-1])


SCHEDULES = [
    Column(3),
    ZigZag(4),
    Tile(2, 3),
    Swizzle(2) | PerThread(rows=2),
    Morton() | Block(2, 8),
    Hilbert(),
    Backwards() | Block(4, 4) | PerThread(cols=2),
    Row() | Block(3, 5) | Lanes(0),
]
#: Those under which the tiles of a row come from left to right.
ASCENDING = [Column(3), Tile(2, 3), Morton() | Block(2, 8), Row() | Block(3, 5) | Lanes(0)]


def add(x: Any, y: Any) -> Any:
    return x + y


def affine(x: Any, y: Any) -> Any:
    """Associative, not commutative."""
    (a, b), (c, d) = x, y
    return a * c % 10007, (b * c + d) % 10007


RANDOM = np.random.default_rng(0)
FLOATS = {shape: RANDOM.random(shape) for shape in ((7, 33), (33, 7), (2, 23, 5))}
WHOLE = {shape: RANDOM.integers(0, 9, shape) for shape in FLOATS}
LENGTHS = np.array([0, 3, 1, 20, 0, 9])

OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum of all": lambda x, k, s: td.sum(x, schedule=s),
    "sums of rows": lambda x, k, s: td.sum(x, axis=-1, schedule=s),
    "sums of columns": lambda x, k, s: td.fold(add, 1.5, x, axis=0, schedule=s),
    "argmin": lambda x, k, s: td.argmin(x, axis=-1, schedule=s),
    "in order": lambda x, k, s: td.fold(affine, (2, 1), td.zip(k, k), axis=0, schedule=s),
    "segments": lambda x, k, s: td.fold_seg(add, 0.5, td.use(x[..., :1]) + np.zeros(33), LENGTHS,
                                            schedule=s),
    "prefixes": lambda x, k, s: td.scanl(add, 1.5, x, schedule=s),
    "suffixes": lambda x, k, s: td.scanr1(affine, td.zip(k, k), schedule=s),
    "down": lambda x, k, s: td.cumsum(x, axis=0, schedule=s),
    "totals": lambda x, k, s: td.scanl_total(add, 0.0, x, axis=0, schedule=s),
    "histogram": lambda x, k, s: td.permute(add, np.zeros(9, int), lambda *i: td.use(k)[i], k,
                                            schedule=s),
    "transpose": lambda x, k, s: td.permute(td.overwrite, np.zeros(x.shape[::-1]),
                                            lambda *i: i[::-1], x, schedule=s),
    "product": lambda x, k, s: td.matmul(k, np.swapaxes(k, -1, -2), schedule=s),
}  # fmt: skip
SCANS_OF_ROWS = ("prefixes", "suffixes")


@pytest.fixture
def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays have several."""
    sizes = {
        fold_along: {"BLOCK": 8, "LANE_BLOCK": 5, "LANE_UNITS": 3},
        fold_across: {"ACROSS_ROWS": 6, "ACROSS_COLUMNS": 4, "ACROSS_STEP": 3, "LANE_BLOCK": 5},
        scan: {"BLOCK": 16, "STAGE": 8, "GROUPED": 4, "ACROSS_COLUMNS": 5, "ACROSS_STEP": 3},
        permute: {"CHUNK_ELEMENTS": 16, "STAGE": 8, "COPIES": 3, "GATHER": 4},
        matmul: {"ROWS": 8, "COLUMNS": 6, "DEPTH": 5, "STRIP": 3, "TOGETHER": 2},
        combining: {"GROUP": 3},
    }  # fmt: skip
    for module, values in sizes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


def results(array: Any, run: Any) -> list[np.ndarray]:
    arrays = array if isinstance(array, tuple) else (array,)
    found = [run(a) for a in arrays]
    return [np.asarray(x) for f in found for x in (f if isinstance(f, tuple) else (f,))]


def unchanged(make: Callable[[Any], Any], schedules: list[Any], run: Any) -> None:
    plain = results(make(None), run)
    for schedule in schedules:
        for got, want in zip(results(make(schedule), run), plain, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=repr(schedule))


@pytest.mark.sample(4)
@pytest.mark.usefixtures("small_leaves")
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", OPERATIONS)
def test_kernels_of_a_cpu(name: str, half: int) -> None:
    from tests.skeletons.ir.interpret import run_array

    shape = list(FLOATS)[(len(name) + half) % 3]
    x, k = FLOATS[shape], WHOLE[shape]
    unchanged(lambda s: OPERATIONS[name](x, k, s), SCHEDULES[half::2], run_array)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", OPERATIONS)
def test_kernels_of_a_gpu(name: str) -> None:
    from tests.skeletons.ir.simt import run_array

    shape = list(FLOATS)[len(name) % 3]
    x, k = FLOATS[shape], WHOLE[shape]
    legal = ASCENDING if name in SCANS_OF_ROWS else SCHEDULES
    steps = (0,) if name in ("segments", "histogram") else (0, 3)
    some = [legal[(len(name) + step) % len(legal)] for step in steps]
    unchanged(lambda s: OPERATIONS[name](x, k, s), some, run_array)


def test_compiled() -> None:
    x = RANDOM.random((300, 70)).astype("f4")

    def program(x: Any, s: Any) -> Any:
        return (td.sum(x, axis=0, schedule=s), td.mean(x, schedule=s),
                td.cumsum(x, axis=1, schedule=s), td.scanr1(add, x, axis=0, schedule=s),
                td.permute(add, np.zeros(70, int), lambda i, j: (i * j) % 70,
                           td.fill((300, 70), 1), schedule=s))  # fmt: skip

    plain = td.jit(lambda x: program(x, None), backend="native")(x)
    for schedule in (Hilbert() | Block(8, 32), ZigZag(16)):
        made = td.jit(lambda x, s=schedule: program(x, s), backend="native")
        for got, want in zip(made(x), plain, strict=True):
            assert np.array_equal(got, want)


def test_programs_on_a_gpu() -> None:
    from tests.backend.cuda import emulated

    x = FLOATS[33, 7]

    def program(x: Any, s: Any) -> Any:
        return td.mean(x, axis=0, schedule=s), td.cumsum(x, axis=0, schedule=s)

    with emulated.emulation():
        plain = td.jit(lambda x: program(x, None), backend="cuda")(x)
        made = td.jit(lambda x: program(x, Hilbert() | Block(8, 4)), backend="cuda")(x)
        for got, want in zip(made, plain, strict=True):
            assert np.array_equal(got, want)
        with pytest.raises(ScheduleError, match="a Table for 4 ids cannot order shape"):
            td.run(td.sum(x, axis=1, schedule=Table([1, 0, 2, 3])), backend="cuda")


@pytest.mark.sample(4)
@pytest.mark.parametrize("target", [NATIVE, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_order_reaches_the_kernels(name: str, target: Target) -> None:
    shape = (33, 7)
    x, k = FLOATS[shape], WHOLE[shape]
    made = [OPERATIONS[name](x, k, s) for s in (None, Tile(2, 3))]
    kernels = []
    for array in made:
        array = array[0] if isinstance(array, tuple) else array
        found = lower(array._leaves[0].node, LoweringContext(target)).kernels
        kernels.append([str(kernel) for kernel in found])
    assert kernels[0] != kernels[1]


# --- what is refused, and what is said ----------------------------------------------------------


def test_a_scan_that_looks_back_goes_from_left_to_right() -> None:
    for order in (ZigZag(1 << 20), Hilbert()):
        node = td.cumsum(FLOATS[7, 33], axis=1, schedule=order)._leaves[0].node
        notes = lower(node, LoweringContext(CUDA)).notes
        assert any(f"{order!r} has no effect on long rows: a part waits" in n for n in notes)
        assert not any("has no effect" in n for n in lower(node, LoweringContext(NATIVE)).notes)


@pytest.mark.parametrize("layer", [Lanes(0), Stage()])
def test_layers_of_a_block_beside_an_order_of_elements(layer: Any) -> None:
    with pytest.raises(ScheduleError, match=r"applies to blocks(.|\n)*Write Column\(8\) \| Block"):
        Column(8, grain="thread") | layer


def test_notes_do_not_name_layers_that_were_not_written() -> None:
    """What is suggested beside a schedule fits it: a block is made of whole threads."""
    data = np.ones((2, 8, 8))
    for layer in (PerThread(cols=3), PerThread(rows=3), PerThread(rows=3, cols=5)):
        x = td.map(lambda x: x + 1, data, schedule=Column(32) | layer)
        assert np.array_equal(td.run(x, backend="native"), data + 1)
        program = td.jit(lambda x=x: x, backend="native").lower()
        assert "add a Block" in program.explain()


def test_a_table_says_which_grid_it_does_not_fit() -> None:
    x = np.zeros((5, 4))
    with pytest.raises(ScheduleError, match=r"a Table for 4 ids cannot order shape \(1, 5\)"):
        td.run(td.sum(x, axis=1, schedule=Table([1, 0, 2, 3])), backend="native")
    assert td.run(td.sum(x, axis=1, schedule=Table([1, 0, 2, 4, 3])), backend="native").sum() == 0


def test_a_block_of_an_axis_too_many() -> None:
    with pytest.raises(ScheduleError, match=r"Block\(2, 4, 8\) has 3 axes, the operation has 2"):
        td.run(td.sum(FLOATS[7, 33], axis=0, schedule=Block(2, 4, 8)), backend="native")


def test_deterministic_permutes_keep_the_order_of_the_source() -> None:
    made = td.permute(add, np.zeros(7), lambda i, j: j, FLOATS[33, 7], schedule=Hilbert(),
                      deterministic=True)  # fmt: skip
    for target in (NATIVE, CUDA):
        node, context = made._leaves[0].node, LoweringContext(target)
        notes = notes_of(lower(node, context), node, context)
        assert "deterministic=True: the source is visited in its own order" in notes


STENCIL_STAGED = [Stage(), Stage() | Column(16), Hilbert() | Block(4, 8) | Stage(),
                  Stage() | PerThread(cols=2)]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("boundary", [td.clamp, td.mirror, td.wrap, td.constant(3.0)], ids=str)
def test_stencils_in_shared_memory(boundary: Any) -> None:
    from tests.skeletons.ir.simt import run_array

    def make(s: Any) -> Any:
        return td.stencil(lambda w: w[0, 0] * 2 + w[0, 1] + w[-2, -1], FLOATS[33, 7],
                          boundary=boundary, schedule=s)  # fmt: skip

    unchanged(make, STENCIL_STAGED, run_array)
    for s in STENCIL_STAGED:
        (kernel,) = lower(make(s)._leaves[0].node, LoweringContext(CUDA)).kernels
        assert [b.name for b in kernel.buffers if b.role == "shared"] == ["staged"]


ONE_SIDED = {
    "below": lambda w: w[1, 0] - w[0, 0],
    "right": lambda w: w[0, 2] - w[0, 1],
    "above": lambda w: w[-2, 0] - w[0, 0],
}


@pytest.mark.parametrize("window", ONE_SIDED.values(), ids=ONE_SIDED)
def test_windows_to_one_side_in_shared_memory(window: Any) -> None:
    """What a block at the edge loads beyond the array is what the boundary says."""
    from tests.skeletons.ir.simt import run_array

    unchanged(lambda s: td.stencil(window, FLOATS[33, 7], schedule=s), [Stage()], run_array)


def test_staging_what_does_not_fit() -> None:
    made = td.stencil(lambda w: w[0, 0] + w[1, 0], FLOATS[33, 7], schedule=Block(256, 64) | Stage())
    with pytest.raises(ScheduleError, match=r"bytes of shared memory(.|\n)*Block\(64, 64\)"):
        lower(made._leaves[0].node, LoweringContext(CUDA))


def test_lanes_of_elements_on_both_targets() -> None:
    from tests.skeletons.ir.interpret import run_array
    from tests.skeletons.ir.simt import run_array as run_on_gpu

    def make(s: Any) -> Any:
        return td.stencil(lambda w: w[0, 0, 0] + w[1, 0, -1], FLOATS[2, 23, 5], schedule=s)

    some = [Lanes(0), Lanes(1) | Column(8), Hilbert() | Block(16, 8) | Lanes(-2)]
    unchanged(make, some, run_array)
    unchanged(make, some, run_on_gpu)


# --- nothing is silent --------------------------------------------------------------------------

IDLE = {
    # operation → a layer that cannot change anything there
    "sums of rows": PerThread(rows=2),
    "prefixes": PerThread(cols=2),
    "sum of all": Lanes(0),
    "product": PerThread(rows=2),
    "segments": LocalityGraph(),
    "down": LocalityGraph(),
    "histogram": Stage(),
}


@pytest.mark.parametrize("target", [NATIVE, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", IDLE)
def test_what_changes_nothing_is_told(name: str, target: Target) -> None:
    made = OPERATIONS[name](FLOATS[33, 7], WHOLE[33, 7], IDLE[name])
    node = (made[0] if isinstance(made, tuple) else made)._leaves[0].node
    notes = lowering_report(node, LoweringContext(target), {}).notes
    layer = repr(IDLE[name])
    assert any(n.startswith((f"{layer} has no effect", f"{layer} changes nothing")) for n in notes)


def test_every_layer_does_something_or_is_told() -> None:
    some = (Block(4), Hints(stream="evict_first", stores="streaming"), Lanes(-1))
    for name in ("sums of rows", "sums of columns", "transpose"):
        for layer in some:
            node = OPERATIONS[name](FLOATS[7, 33], WHOLE[7, 33], layer)._leaves[0].node
            for target in (NATIVE, CUDA):
                context = LoweringContext(target)
                kernels = [[str(k) for k in lower(node, replace(context, schedule=s)).kernels]
                           for s in (layer, Row())]  # fmt: skip
                notes = lowering_report(node, context, {}).notes
                assert kernels[0] != kernels[1] or notes, (name, layer, target)


@pytest.mark.parametrize(
    ("make", "whose"),
    [
        (lambda x, s: td.compute(x * 2, schedule=s), "its operand has its own"),
        (lambda x, s: td.iterate(2, lambda y: y * td.sum(y), x, schedule=s), "in its body"),
        (lambda x, s: td.cond(td.the(td.sum(x)) > 0, x * 2, x, schedule=s), "of its sides"),
    ],
)
def test_what_computes_nothing_says_who_has_schedules(make: Any, whose: str) -> None:
    program = td.jit(lambda x: make(x, Column(8)), backend="native").lower(FLOATS[7, 33])
    text = " ".join(program.explain().split())
    assert "schedule Column(8): no effect: it computes nothing itself" in text
    assert whose in text


def test_a_recurrence_says_that_it_has_its_own_order() -> None:
    program = td.jit(lambda x: td.iterate(2, lambda y: y * 2, x, schedule=Column(8)))
    text = program.lower(FLOATS[7, 33]).explain()
    assert "Column(8) has no effect: every walk goes along the axis" in text


@pytest.mark.parametrize("make", [td.zip, td.compute])
def test_what_is_no_schedule_is_refused_everywhere(make: Any) -> None:
    given = (td.use(FLOATS[7, 33]),) * (1 + (make is td.zip))
    with pytest.raises(TypeError, match="a schedule is made of layers"):
        make(*given, schedule="rows")


def test_a_librarys_operation_says_that_it_has_its_own_order() -> None:
    program = td.jit(lambda x: td.foreign_array({"native": np.sqrt}, x, fallback=td.sqrt,
                                                schedule=Column(8)), backend="native")  # fmt: skip
    text = program.lower(FLOATS[7, 33]).explain()
    assert "no effect: the library's foreign_array has an order of its own" in text


# --- by name, and beside fusion -----------------------------------------------------------------


def kernels(program: Any) -> dict[str, Any]:
    found = [n for n in topological(program.roots) if not isinstance(n, Input)]
    return {n.label.name: n.label.schedule for n in found}


def test_operations_with_a_schedule_are_kernels_of_their_own() -> None:
    @td.jit(backend="native")
    def program(x: Any) -> Any:
        scaled = td.map(lambda v: v * 2, x, name="scaled")
        total = td.sum(scaled, axis=0, name="total")
        return td.map(lambda v: td.sqrt(v), total, name="root")

    x = FLOATS[33, 7]
    plain = program.lower(x)
    assert len(kernels(plain)) == 1
    for given in ({"scaled": Column(4)}, {"total": Block(8)}, {"root": Block(4)},
                  {"scaled": Column(4), "total": Hilbert(), "root": Block(4)}):  # fmt: skip
        made = plain.scheduled(**given)
        found = kernels(made)
        assert {k: v for k, v in found.items() if v is not None} == given
        assert np.array_equal(made(x), plain(x))
    assert kernels(plain.scheduled(total=Block(8))) == {"total": Block(8)}


def test_a_mean_is_its_fold() -> None:
    for made in (
        td.mean(FLOATS[33, 7], axis=0, keepdims=True, schedule=Column(16), name="m"),
        td.mean(FLOATS[33, 7], axis=0, keepdims=True, name="m").scheduled(Column(16)),
    ):
        labels = [(type(n), n.label.name, n.label.schedule)
                  for n in topological(made._leaves) if n.label.schedule]  # fmt: skip
        assert labels == [(Fold, "m", Column(16))]


@pytest.mark.parametrize(("schedule", "target", "said"), [
    (td.schedule.Morton(), CUDA, "of 65,536 elements that Morton() visits, 48,895 lie outside"),
    (td.schedule.Morton() | td.schedule.Block(8, 32), NATIVE, "107 lie outside and are skipped"),
    (td.schedule.Hilbert() | td.schedule.Block(8, 32), CUDA, None),  # looked up: none is skipped
    (td.schedule.Column(8), CUDA, None),
])  # fmt: skip
def test_padding_is_reported(schedule, target, said):
    program = td.jit(lambda a: td.map(lambda x: x + 1, a, schedule=schedule), backend="reference")
    node = program.lower(np.ones((129, 129))).roots[0].node
    known = dict.fromkeys(node.shape, 129)
    lines = " ".join(lowering_report(node, LoweringContext(target), known).launches)
    assert "lie outside" not in lines if said is None else said in lines, lines
