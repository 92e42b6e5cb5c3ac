"""Schedules as values: composition, printing, storing, the grain rule, and their errors."""

from __future__ import annotations

import doctest
import importlib
import json
import pickle
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treadle as td
import treadle.skeletons.schedules as schedules
from tests.skeletons.schedules import users_order
from tests.skeletons.schedules.strategies import PARAMETRIC
from treadle.skeletons.schedules import (
    Agents,
    Auto,
    Block,
    Clusters,
    Column,
    Grid,
    Hilbert,
    Hints,
    Lanes,
    Layer,
    LocalityGraph,
    Morton,
    PerThread,
    Row,
    Schedule,
    ScheduleError,
    ScheduleTypeError,
    Stage,
    Swizzle,
    Table,
    Tile,
    Tuned,
    ZigZag,
    as_schedule,
    from_dict,
    to_dict,
)

small = st.integers(1, 64)
policies = st.sampled_from([None, "streaming", "evict_first", "evict_last", "no_l1"])
LAYERS: list[st.SearchStrategy[Layer]] = [
    st.one_of(
        *PARAMETRIC.values(),
        st.builds(Column, small, grain=st.just("block")),
        st.integers(0, 90).map(lambda n: Table(np.random.default_rng(n).permutation(n))),
    ),
    st.lists(small, min_size=1, max_size=3).map(lambda e: Block(*(8 * n for n in e[:-1]), 8)),
    st.builds(PerThread, st.just(1), st.sampled_from([1, 2, 4, 8])),
    st.builds(Lanes, st.integers(-2, 1)),
    st.builds(Stage),
    st.one_of(
        st.builds(Grid),
        st.builds(Clusters, small),
        st.builds(Agents, small),
        st.builds(LocalityGraph, st.sampled_from(["mst", "kway", "bisect"])),
    ),
    st.builds(
        Hints,
        stream=policies,
        random=policies,
        stores=policies,
        arrays=st.dictionaries(st.text(max_size=3), st.just("no_l1"), max_size=2),
    ),
    st.one_of(st.builds(Auto), st.builds(Tuned)),
]


@st.composite
def layer_sets(draw: st.DrawFn) -> list[Layer]:
    chosen = draw(st.lists(st.sampled_from(range(len(LAYERS))), min_size=1, unique=True))
    return [draw(LAYERS[k]) for k in chosen]


def compose(layers: list[Layer]) -> Schedule:
    schedule = as_schedule(layers[0])
    for layer in layers[1:]:
        schedule = schedule | layer
    return schedule


@settings(max_examples=100, deadline=None)
@given(layer_sets(), st.data())
def test_algebra_printing_and_storing(layers: list[Layer], data: st.DataObject) -> None:
    schedule = compose(layers)
    assert compose(data.draw(st.permutations(layers))) == schedule
    cut = data.draw(st.integers(1, len(layers)))
    if layers[cut:]:
        assert compose(layers[:cut]) | compose(layers[cut:]) == schedule
    assert schedule | Auto() == schedule == Auto() | schedule
    again = eval(repr(schedule), {**vars(schedules), **globals()})
    assert again == schedule and hash(again) == hash(schedule) and repr(again) == repr(schedule)
    stored = from_dict(json.loads(json.dumps(to_dict(schedule))))
    assert stored == schedule and repr(stored) == repr(schedule)
    assert schedule.replace(*layers) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


def test_prints_as_code_in_one_order() -> None:
    schedule = PerThread(rows=8) | Block(8, 32) | Column(256, grain="block")
    assert str(schedule) == 'Column(256, grain="block") | Block(8, 32) | PerThread(rows=8)'
    everything = Tuned() | Hints(stream="evict_first") | Agents(2) | Stage() | Lanes(0) | schedule
    assert str(everything) == (
        'Column(256, grain="block") | Block(8, 32) | PerThread(rows=8) | Lanes(0) | Stage() | '
        'Agents(2) | Hints(stream="evict_first") | Tuned()'
    )
    assert str(Schedule()) == "Auto()"
    assert [repr(x) for x in (Tile(8, 32), Morton(grain="thread"), LocalityGraph())] == [
        "Tile(8, 32)", 'Morton(grain="thread")', "LocalityGraph()",
    ]  # fmt: skip


def test_a_bare_layer_is_a_schedule() -> None:
    assert as_schedule(Column(8)) == Column(8) == as_schedule(Column(8))
    assert hash(as_schedule(Column(8))) == hash(Column(8))
    assert Schedule() == Auto() and hash(Schedule()) == hash(Auto())
    assert Column(8) != Column(9) and Column(8) != ZigZag(8) and Column(8) != "Column(8)"
    schedule = as_schedule(Column(8))
    assert schedule.order == Column(8)
    assert (schedule.block, schedule.residency, schedule.hints) == (None, None, None)
    assert schedule.chooser == Auto()
    assert (Column(8) | Tuned()).chooser == Tuned()


def test_replace() -> None:
    schedule = Column(8) | Block(8, 32)
    assert schedule.replace(ZigZag(4)) == ZigZag(4) | Block(8, 32)
    assert schedule.replace(ZigZag(4), Stage()) == ZigZag(4) | Block(8, 32) | Stage()


def test_numbers_are_normalised() -> None:
    assert Column(np.int32(8)) == Column(8)  # type: ignore[arg-type]
    assert repr(Column(np.int64(8))) == "Column(8)"  # type: ignore[arg-type]
    assert Block(np.int64(8), 32) == Block(8, 32)  # type: ignore[arg-type]
    assert Hints(arrays={"b": "no_l1", "a": "no_l1"}) == Hints(arrays={"a": "no_l1", "b": "no_l1"})


def test_long_tables_print_packed() -> None:
    table = Table(np.random.default_rng(1).permutation(1000), shape=(10, 100))
    assert len(repr(table)) < 4000
    assert eval(repr(table)) == table != Table(np.arange(1000), shape=(10, 100))
    assert hash(eval(repr(table))) == hash(table)
    assert to_dict(table)["order"]["shape"] == [10, 100]


# --- the grain rule -------------------------------------------------------------------------


def test_alone_an_order_visits_elements() -> None:
    plan = as_schedule(Column(64)).resolve(2)
    assert (plan.grain, plan.order, plan.unit, plan.block) == ("thread", Column(64), (1, 1), None)
    assert plan.threads is None
    assert plan.grid((100, 30)) == (100, 30)
    assert plan.origin(65, (100, 200)) == (1, 1)


def test_beside_a_block_it_visits_blocks() -> None:
    plan = (Column(64) | Block(8, 32)).resolve(2)
    assert (plan.grain, plan.order, plan.unit) == ("block", Column(2), (8, 32))
    assert plan.block == (8, 32) and plan.threads == 256
    assert plan.grid((100, 100)) == (13, 4)
    assert plan.linear_size((100, 100)) == 52
    assert [plan.origin(i, (100, 100)) for i in range(3)] == [(0, 0), (0, 32), (8, 0)]


@pytest.mark.parametrize(
    ("order", "in_blocks"),
    [
        (Column(65), Column(3)),
        (ZigZag(1), ZigZag(1)),
        (Tile(9, 64), Tile(2, 2)),
        (Swizzle(16), Swizzle(2)),
        (Hilbert(), Hilbert()),
        (Column(65, grain="block"), Column(3, grain="block")),
    ],
)
def test_lengths_are_rounded_up_to_whole_blocks(order: Any, in_blocks: Any) -> None:
    assert (order | Block(8, 32)).resolve(2).order == in_blocks


def test_block_grain_without_a_block() -> None:
    plan = as_schedule(Column(64, grain="block")).resolve(2)
    assert plan.block == (8, 32) and plan.order.width == 2  # type: ignore[attr-defined]
    chosen = as_schedule(Column(64, grain="block")).resolve(2, block=Block(4, 64))
    assert chosen.block == (4, 64)
    assert as_schedule(Row(grain="block")).resolve(1).block == (256,)
    assert as_schedule(Row(grain="block")).resolve(3).block == (1, 8, 32)
    assert as_schedule(Row(grain="block")).resolve(0).block == ()
    odd = (Row(grain="block") | PerThread(rows=3)).resolve(2)
    assert odd.block == (9, 32) and odd.threads == 96


def test_thread_grain_beside_a_run_of_threads() -> None:
    plan = (Column(64, grain="thread") | Block(256)).resolve(2)
    assert (plan.grain, plan.unit, plan.block, plan.threads) == ("thread", (1, 1), None, 256)
    # A block that something else chose does not change what the user's order visits.
    assert as_schedule(Column(64)).resolve(2, block=Block(8, 32)).grain == "thread"
    assert as_schedule(Column(64)).resolve(2, block=Block(8, 32)).threads == 256


def test_outputs_per_thread_are_the_unit_of_a_thread() -> None:
    plan = (Column(64) | PerThread(rows=4, cols=2)).resolve(3)
    assert (plan.grain, plan.unit, plan.per_thread) == ("thread", (1, 4, 2), (1, 4, 2))
    assert plan.order == Column(32)
    blocked = (Row() | Block(16, 64) | PerThread(rows=4, cols=2)).resolve(2)
    assert blocked.unit == (16, 64) and blocked.threads == 128


def test_ranks() -> None:
    assert as_schedule(Block(256)).resolve(2).block == (1, 256)
    assert as_schedule(Block(4, 8, 32)).resolve(4).block == (1, 4, 8, 32)
    assert as_schedule(Block(1, 256)).resolve(1).block == (256,)
    assert as_schedule(Lanes(0)).resolve(2).lanes == 0
    assert as_schedule(Lanes(-2)).resolve(2).lanes == 0
    assert as_schedule(Row()).resolve(3).lanes == 2
    assert as_schedule(Row()).resolve(0).ndim == 0


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(*PARAMETRIC.values()),
    st.tuples(st.integers(1, 5), st.integers(1, 9)),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_blocks_cover_every_element_once(
    order: Any, block: tuple[int, int], shape: tuple[int, int]
) -> None:
    plan = (order | Block(*block)).resolve(2)
    seen = np.zeros(shape, int)
    for i in range(plan.linear_size(shape)):
        row, col = plan.origin(i, shape)
        seen[row : row + block[0], col : col + block[1]] += 1
    assert (seen == 1).all()


# --- errors ---------------------------------------------------------------------------------

WRONG: list[tuple[Any, str]] = [
    (lambda: Column(0), r"Column: width must be 1 or more, got 0"),
    (lambda: Column(-3), r"width must be 1 or more, got -3"),
    (lambda: Column("x"), r'width must be an integer, got "x" \(str\)'),
    (lambda: Column(2.0), r"width must be an integer, got 2.0 \(float\)"),
    (lambda: Column(True), r"width must be an integer, got True \(bool\)"),
    (lambda: Column(), r"Column: missing.*'width'"),
    (lambda: Column(8, width=8), r"Column: multiple values for argument 'width'"),
    (lambda: Column(8, grain="warp"), r'grain must be one of "thread", "block", got "warp"'),
    (lambda: Column(8, grian="block"), r"Column: .*'grian'"),
    (lambda: Block(2**70, 32), r"Block: an extent must be 2147483648 or less, got 11805916"),
    (lambda: Block(2**20, 32), r"Block: the product of extents must be 16777216 or less"),
    (lambda: PerThread(2**13, 2**12), r"rows times cols must be 16777216 or less"),
    (lambda: Tile(8, 0), r"Tile: cols must be 1 or more"),
    (lambda: Swizzle(0), r"Swizzle: group must be 1 or more"),
    (lambda: Block(), r"Block: at least one extent"),
    (lambda: Block(8, -32), r"Block: an extent must be 1 or more, got -32"),
    (lambda: Block((8, 32)), r"Block: an extent must be an integer, got \(8, 32\)"),
    (lambda: PerThread(rows=0), r"PerThread: rows must be 1 or more"),
    (lambda: Agents(0), r"Agents: per_sm must be 1 or more"),
    (lambda: Clusters("4"), r"Clusters: n must be an integer"),
    (lambda: LocalityGraph(method="mts"), r'must be one of "mst", "kway", "bisect", got "mts"'),
    (lambda: Lanes(0.5), r"Lanes: axis must be an integer"),
    (lambda: Hints(strem="no_l1"), r'no access class "strem"; there are horizontal'),
    (lambda: Hints(stream="evict_fist"), r"stream must be one of"),
    (lambda: Hints(arrays=3), r"arrays must map names to policies"),
    (lambda: Hints(arrays={3: "no_l1"}), r"called by name"),
    (lambda: Hints(arrays={"a": "l1"}), r"arrays\['a'\] must be one of"),
    (lambda: Table([0, 1, 1]), r"entries 1 and 2 are both 1, and 2 is missing"),
    (lambda: Table([0, 3, 1]), r"entry 1 is 3, outside 0 ... 2"),
    (lambda: Table([[0, 1]]), r"rank-1 array of integers, got rank 2"),
    (lambda: Table([0.0, 1.0]), r"rank-1 array of integers, got rank 1 of float64"),
    (lambda: Table("@@"), r"the packed permutation is damaged"),
    (lambda: Table([0, 1], shape=(3,)), r"2 ids, but shape \(3,\) has 3 elements"),
    (lambda: Table([0, 1], shape=2), r"shape must be a tuple"),
    (lambda: Column(8) | Column(4),
     r"Column\(8\) and Column\(4\) are both an order(.|\n)*schedule.replace\(Column\(4\)\)"),
    (lambda: Block(8, 32) | PerThread(rows=8) | Block(3), r"both a block"),
    (lambda: Block(8) | Row() | Block(4), r"both a block"),
    (lambda: Hints(stream="no_l1") | Hints(random="no_l1"), r"both sides have hints"),
    (lambda: Grid() | Agents(2), r"both a residency"),
    (lambda: Column(8) | 5, r"a schedule is made of layers, got 5 \(int\)"),
    (lambda: "Row" | Row(), r"a schedule is made of layers, got 'Row'"),
    (lambda: Morton | Block(8, 32), r"Morton is the class, not a layer"),
    (lambda: as_schedule(Column), r"Column is the class(.|\n)*Write Column\(width\)\."),
    (lambda: Column(8, grain="thread") | Block(8, 32),
     r"Column\(8\) \| Block\(8, 32\).*Block\(256\)"),
    (lambda: Block(8, 32) | PerThread(rows=3), r"Write Block\(9, 32\)"),
    (lambda: Block(256) | PerThread(rows=2), r"Write Block\(2, 256\)"),
    (lambda: as_schedule(Block(8, 32)).resolve(1),
     r"2 axes, the operation has 1(.|\n)*Block\(32\)"),
    (lambda: as_schedule(PerThread(rows=2)).resolve(1), r"Write PerThread\(cols=...\)"),
    (lambda: as_schedule(Lanes(2)).resolve(2), r"The axis is one of -2 ... 1"),
    (lambda: from_dict({"order": {}}), r"not a schedule of version 1"),
    (lambda: from_dict({"version": 1, "ordre": {"kind": "Row"}}), r"not a layer of a schedule"),
    (lambda: from_dict({"version": 1, "order": {"kind": "Rwo"}}), r"'Rwo' is not a kind of layer"),
    (lambda: from_dict({"version": 1, "order": {"kind": "os:getcwd"}}), r"is not a kind of layer"),
    (lambda: from_dict({"version": 1, "order": {"kind": f"{users_order.__name__}:Gone"}}),
     r"is not here.*'[a-z.]*users_order' has no Gone"),
    (lambda: from_dict({"version": 1, "order": {"kind": "antigravity:Order"}}),
     r"'antigravity' has not been imported(.|\n)*import antigravity"),
    (lambda: from_dict({"version": 1, "block": {"kind": "Row"}}), r"Row\(\) is not the block"),
    (lambda: from_dict({"version": 1, "block": {"kind": "Block"}}), r"layer is damaged: 'block'"),
    (lambda: from_dict({"version": 1, "order": {"kind": "Column", "w": 1}}),
     r"layer is damaged: 'order'.*Column"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors_say_what_to_write(number: int) -> None:
    make, message = WRONG[number]
    with pytest.raises(ScheduleError) as caught:
        make()
    assert re.search(message, str(caught.value)), str(caught.value)


def test_errors_are_of_the_kind_one_would_catch() -> None:
    with pytest.raises(TypeError):
        Column("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Column(0)
    with pytest.raises(ScheduleTypeError):
        Column()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="Did you mean"):
        Hints(strem="no_l1")


def test_a_schedule_has_to_fit_the_axes_when_it_is_written():
    line = np.zeros(8)
    with pytest.raises(td.ScheduleError, match="Block\\(8, 32\\) has 2 axes, the operation has 1"):
        td.map(lambda v: v + 1, line, schedule=td.schedule.Block(8, 32))
    with pytest.raises(td.ScheduleError, match="Lanes\\(2\\): the operation has 2 axes"):
        td.map(lambda v: v + 1, np.zeros((4, 4)), schedule=td.schedule.Lanes(2))
    with pytest.raises(td.ScheduleError, match="compact: Block"):
        td.filter(lambda v: v > 0, np.zeros((4, 4)), schedule=td.schedule.Block(2, 32))


def test_blocks_of_more_threads_than_there_are_say_so():
    program = td.jit(lambda a: td.map(lambda v: v + 1, a, schedule=Row() | Block(64, 64)))
    lowered = program.lower(np.zeros((128, 128), np.float32))
    assert "at most 1,024 threads: of 4,096 asked for" in lowered.explain("cuda")
    assert "asked for" not in lowered.explain("native")


def test_a_layer_has_what_a_schedule_has_to_exchange_it():
    assert Row().replace(Column(3)) == Column(3)
    assert Row().replace(Block(8, 32)) == (Row() | Block(8, 32))


def test_calls_that_are_none_say_the_form():
    with pytest.raises(ScheduleTypeError, match=r"Hints: too many positional") as caught:
        Hints(3)  # type: ignore[misc]
    assert "The form is Hints(" in str(caught.value)
    with pytest.raises(td.TracingError, match="an array takes one schedule") as wrong:
        (td.use(np.ones(3)) + 1).scheduled(blur=Row())
    assert "by name in programs" in str(wrong.value)


# --- the package: its docstrings, its imports ----------------------------------------------------

MODULES = [schedules.__name__] + [
    f"{schedules.__name__}.{module.name}" for module in pkgutil.iter_modules(schedules.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 and result.failed == 0


def test_orders_on_numbers_do_not_start_the_language() -> None:
    code = (
        "import sys\n"
        "from treadle.skeletons.schedules import Hilbert, draw\n"
        "name = 'treadle.dsl.operations.elements.functions'\n"
        "before = {m for m in sys.modules if m.startswith(name)}\n"
        "draw(Hilbert(), (8, 8))\n"
        "assert before == {m for m in sys.modules if m.startswith(name)}\n"
    )
    environment = {"PYTHONPATH": str(Path(schedules.__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
