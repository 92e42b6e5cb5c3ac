"""Who runs a block: every block once, whatever multiprocessors do; results stay the same."""

from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treadle as td
from tests.backend.cuda.emulated import emulation
from tests.skeletons.ir import simt
from treadle.dsl.expr import Var, constant
from treadle.dsl.target import CUDA, NATIVE, Target
from treadle.dsl.types import int32, int64
from treadle.skeletons.ir import arithmetic as at, kernel as ir
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower import agents
from treadle.skeletons.lower.locality import queues_of
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.schedules import (
    Agents,
    Block,
    Clusters,
    Column,
    Grid,
    LocalityGraph,
    Morton,
    Residency,
    Row,
    ScheduleError,
    Stage,
)

N, TASK, THREAD = Var("n", int64), Var("task", int64), Var("thread", int64)
WHEN = ir.Buffer("when", int64, "output", N)
COUNT = ir.Buffer("count", int64, "output", N)
CLOCK = ir.Buffer("clock", int64, "update", constant(1))
ORDER = ir.Buffer("order", int32, "scratch", N)


def counting() -> ir.Kernel:
    """Task k adds one to count[k], and notes when it came."""
    now = Var("now", int64)
    body: ir.Body = (
        ir.If(
            at.equal(THREAD, 0),
            (
                ir.FetchUpdate(now, CLOCK, constant(0), constant(1)),
                ir.FetchUpdate(Var("old", int64), COUNT, TASK, constant(1)),
                ir.Publish(WHEN, TASK, now),
            ),
        ),
    )
    return ir.Kernel("counting", (WHEN, COUNT, CLOCK), (N,), (N,), N, TASK, body, threads=32,
                     thread=THREAD)  # fmt: skip


def run(kernel: ir.Kernel, tasks: int, blocks: int, places: list[int] | None = None,
        seed: int | random.Random = 0, order: Any = None
        ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Counts, and tasks in the order of their coming."""
    verify(kernel)
    arrays = {WHEN: np.full(tasks, -1), COUNT: np.zeros(tasks, np.int64),
              CLOCK: np.zeros(1, np.int64)}  # fmt: skip
    for b in kernel.buffers:
        if b.name == "zero_words":
            arrays[b] = np.zeros(int(b.size.value), np.int64)  # type: ignore[attr-defined]
    if order is not None:
        arrays[ORDER] = np.asarray(order, np.int32)
    known = {"n": tasks, "share": 0, "spare": 0, "grouped": 0}
    queues = [b for b in kernel.buffers if b.name == "zero_words"]
    if queues:
        count = int(queues[0].size.value) // agents.STRIDE  # type: ignore[attr-defined]
        known["share"], known["spare"] = divmod(tasks, count)
    scalars = [known[v.name] for v in kernel.scalars]
    chance = seed if isinstance(seed, random.Random) else random.Random(seed)
    simt.Compiled(kernel).launch(arrays, scalars, blocks, chance, places)
    return arrays[COUNT], np.argsort(arrays[WHEN], kind="stable")


def with_agents(queues: int, per_queue: int, table: bool = False) -> ir.Kernel:
    words = ir.Buffer("zero_words", int64, "scratch", constant(queues * agents.STRIDE))
    return agents.agents(counting(), queues, per_queue, words, ORDER if table else None)


# --- agents --------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_task_once_whatever_multiprocessors_do(data: st.DataObject):
    """Missing, starved and unknown multiprocessors; more queues than tasks; any interleaving."""
    queues, per = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    tasks = data.draw(st.integers(1, 25))
    blocks = min(tasks, queues * per)
    places = data.draw(st.lists(st.integers(0, queues + 2), min_size=blocks, max_size=blocks))
    order = data.draw(st.permutations(range(tasks))) if data.draw(st.booleans()) else None
    kernel = with_agents(queues, per, order is not None)
    counts, _ = run(kernel, tasks, blocks, places, data.draw(st.integers(0, 999)), order)
    assert counts.tolist() == [1] * tasks


def test_more_queues_than_a_block_has_threads():
    counts, came = run(with_agents(70, 1), 90, 3, [69, 3, 3], seed=1)
    assert counts.tolist() == [1] * 90
    assert came[0] in (6, 89)


def test_an_agent_takes_its_own_tasks_from_the_front_and_others_from_the_tail():
    _, came = run(with_agents(2, 1), 9, 1, [1])
    assert came.tolist() == [5, 6, 7, 8, 4, 3, 2, 1, 0]
    _, came = run(with_agents(2, 1, table=True), 6, 1, [0], order=[5, 3, 1, 0, 2, 4])
    assert came.tolist() == [5, 3, 1, 4, 2, 0]


def test_the_fullest_queue_is_robbed_first():
    _, came = run(with_agents(3, 1), 8, 1, [0])  # queues of 3, 3 and 2
    assert came.tolist() == [0, 1, 2, 5, 4, 3, 7, 6]
    _, came = run(with_agents(3, 1), 9, 1, [1])  # of equals the next
    assert came.tolist() == [3, 4, 5, 8, 7, 6, 2, 1, 0]


class Together(random.Random):
    """Chance, but that the largest number is chosen: of blocks side by side, for one."""

    def choice(self, seq: Any) -> Any:
        return max(seq)


@pytest.mark.parametrize(("queues", "per"), [(1, 3), (2, 2)])
def test_as_many_agents_as_tasks_take_one_each(queues: int, per: int):
    """Tasks that wait until all have begun: an agent that held another one back, having asked for
    it ahead, would never come to it."""
    tasks, seen, begun = queues * per, Var("seen", int64), Var("begun", int64)
    wait = ir.While(
        (ir.Fetch(seen, CLOCK, constant(0)),), at.less(seen, N), (ir.Assign(begun, seen),)
    )
    kernel = counting()
    (single,) = kernel.body
    together = ir.If(single.condition, (*single.then, ir.Declare(begun, constant(0)), wait))
    words = ir.Buffer("zero_words", int64, "scratch", constant(queues * agents.STRIDE))
    made = agents.agents(replace(kernel, body=(together,)), queues, per, words)
    places = [k % queues for k in range(tasks)]
    for chance in range(3):
        counts, _ = run(made, tasks, tasks, places, Together(chance))
        assert counts.tolist() == [1] * tasks


def test_agents_in_32_bits_are_the_same():
    wide = with_agents(3, 2)
    small = narrow(wide)
    assert small is not None
    assert small.task.type == int32
    assert "register smid" in str(small)
    counts, _ = run(small, 20, 6, [0, 0, 0, 1, 1, 1])
    assert counts.tolist() == [1] * 20


def test_tasks_that_wait_for_others_are_left_alone():
    assert not agents.independent(counting())  # it asks a clock
    noted = lowered(td.cumsum(td.use(np.arange(5000.0))), Agents(2)).notes
    assert noted[-1].startswith("Agents(2) has no effect here: blocks of this operation pass")


# --- redirection ---------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 40))
def test_redirection_is_a_bijection(neighbours: int, multiprocessors: int, tasks: int):
    kernel = agents.redirected(counting(), neighbours, multiprocessors)
    group = neighbours * multiprocessors
    whole = tasks // group * group
    fixed = {v.name: whole for v in kernel.scalars if v.name == "grouped"} | {"n": tasks}
    arrays = {WHEN: np.full(tasks, -1), COUNT: np.zeros(tasks, np.int64),
              CLOCK: np.zeros(1, np.int64)}  # fmt: skip
    scalars = [fixed[v.name] for v in kernel.scalars]
    simt.Compiled(kernel).launch(arrays, scalars, tasks, random.Random(tasks))
    assert arrays[COUNT].tolist() == [1] * tasks


def test_neighbours_are_launched_as_far_apart_as_multiprocessors_are_many():
    kernel = agents.redirected(counting(), 2, 3)
    number = kernel.body[0].value  # type: ignore[attr-defined]
    (mine,) = [v for v in (kernel.task,)]
    from treadle.dsl.graphs.names import evaluate

    grouped = next(v for v in kernel.scalars if v.name == "grouped")
    found = [evaluate(number, {mine: u, N: 7, grouped: 6}) for u in range(7)]
    assert found == [0, 2, 4, 1, 3, 5, 6]


# --- whole operations ----------------------------------------------------------------------------


def lowered(array: Any, schedule: Any, target: Target = CUDA) -> ir.Lowered:
    context = LoweringContext(target=target, threads=4, schedule=schedule)
    return lower(array._leaves[0].node, context)


def blur(w: Any) -> Any:
    return w[-1, 0] + w[0, 0] * 2 + w[1, 0] + w[0, 1]


IMAGE = np.arange(21 * 70, dtype=np.float32).reshape(21, 70)
LAYERS = (
    Agents(2), Clusters(3), LocalityGraph(), LocalityGraph("kway"),
    LocalityGraph("bisect") | Block(4, 16), Column(32) | Block(4, 16) | Agents(1),
    Morton() | Block(4, 16) | LocalityGraph(),
)  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("schedule", LAYERS, ids=repr)
def test_results_are_the_same(schedule: Any):
    want = td.run(td.stencil(blur, td.use(IMAGE)), backend="reference")
    made = td.stencil(blur, td.use(IMAGE), schedule=schedule)
    for seed, count in enumerate((4, 132)):
        found = simt.run_array(made, multiprocessors=count, seed=seed)
        np.testing.assert_array_equal(found, want)
    if isinstance(schedule, Residency):  # on a CPU only a graph differs, and blocks change nothing
        np.testing.assert_array_equal(td.run(made, backend="native"), want)


@pytest.mark.sample(1)
@pytest.mark.parametrize("layer", [Agents(2), Clusters(2)], ids=repr)
def test_residency_of_other_operations(layer: Any):
    values = td.use(np.arange(40 * 300).reshape(40, 300) % 7)
    for make in (
        lambda s: td.sum(values, axis=1, schedule=s),
        lambda s: td.map(lambda x: x * 2, values, schedule=s),
    ):
        want = td.run(make(None), backend="reference")
        np.testing.assert_array_equal(simt.run_array(make(layer), multiprocessors=5), want)


def gathered(schedule: Any, backend: str) -> Any:
    def program(table: Any, index: Any) -> Any:
        picked = td.generate(index.shape, lambda i, j: table[index[i, j], j], schedule=schedule)
        return td.stencil(blur, picked, schedule=schedule)

    return td.jit(program, backend=backend)


@pytest.mark.parametrize(("backend", "method"), [("native", "kway"), ("cuda", "mst")])
def test_data_dependent_reads_are_followed_at_every_call(backend: str, method: str):
    program = gathered(LocalityGraph(method), backend)
    plain = td.jit(lambda t, i: td.stencil(
        blur, td.generate(i.shape, lambda r, c: t[i[r, c], c])), backend="reference")  # fmt: skip
    rng = np.random.default_rng(3)
    with emulation():
        for shape in ((20, 70), (20, 70), (9, 33), (0, 5)):
            index = rng.integers(0, 21, shape)
            np.testing.assert_array_equal(program(IMAGE, index), plain(IMAGE, index))


def test_queues_of_known_places_are_a_constant_of_the_recording():
    """One table for each extents, uploaded once; loops on the device use it too."""

    def iterations(x: Any) -> Any:
        return td.iterate(9, lambda y: td.stencil(blur, y, schedule=LocalityGraph()) * 0.25, x)

    want = td.jit(iterations, backend="reference")(IMAGE)
    with emulation() as device:
        program = td.jit(iterations, backend="cuda")
        np.testing.assert_array_equal(program(IMAGE), want)
        uploads = []
        plain = device.upload
        device.upload = lambda value: uploads.append(value.shape) or plain(value)  # type: ignore
        np.testing.assert_array_equal(program(IMAGE), want)
        assert uploads == [IMAGE.shape]


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_extents_that_data_decides(backend: str):
    def program(x: Any) -> Any:
        kept, _ = td.filter(lambda v: v > 4, x)
        return td.generate(kept.shape, lambda i: kept[kept.shape[0] - 1 - i] * 2,
                           schedule=LocalityGraph())  # fmt: skip

    values = np.random.default_rng(1).integers(0, 9, 700)
    with emulation():
        for given in (values, values[:300], values * 0):
            found = td.jit(program, backend=backend)(given)
            np.testing.assert_array_equal(found, given[given > 4][::-1] * 2)


def test_without_the_layer_nothing_is_touched():
    from treadle.skeletons.lower.caching import cached
    from treadle.skeletons.lower.resident import resident

    for schedule in (None, Row() | Block(4, 16), Grid()):
        array = td.stencil(blur, td.use(IMAGE), schedule=schedule)
        context = LoweringContext(target=CUDA)
        node = array._leaves[0].node
        made = lower(node, context)
        assert resident(made, node, context) is made
        assert cached(made, node, context) is made
        assert not made.tables
        assert not any(k.policies for k in made.kernels)


# --- words ---------------------------------------------------------------------------------------


def test_what_came_of_a_layer_is_explained():
    text = explained(Agents(2), "cuda")
    assert "at most 132 × 2 blocks stay and fetch their work" in text
    assert "every thread has a queue of neighbouring tasks" in explained(Agents(2), "native")
    text = explained(Clusters(4), "cuda")
    assert "4 neighbours are launched 132 blocks apart" in text
    program = td.jit(lambda x: td.stencil(blur, x, schedule=LocalityGraph()), backend="native")
    made = program.lower(IMAGE)
    assert "made at the first call for any extents" in one_line(made.explain())
    made(IMAGE)
    assert "9 blocks, 26 pairs of them share lines; graph" in one_line(made.explain())


def explained(schedule: Any, backend: str) -> str:
    program = td.jit(lambda x: td.stencil(blur, x, schedule=schedule), backend=backend)
    with emulation():
        return one_line(program.lower(IMAGE).explain())


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_graph_of_elements_is_refused():
    with pytest.raises(ScheduleError, match="queues blocks of elements") as caught:
        Column(8, grain="thread") | LocalityGraph()
    assert "Column(8) | Block(8, 32) | LocalityGraph()" in str(caught.value)


def test_without_pymetis_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    made = td.stencil(blur, td.use(IMAGE), schedule=LocalityGraph("bisect"))
    with pytest.raises(ScheduleError, match="pymetis, which is not installed") as caught:
        td.run(made, backend="native")
    assert 'LocalityGraph(method="mst")' in str(caught.value)


# --- permutes by a graph -------------------------------------------------------------------------

PLACES = np.random.default_rng(3).integers(0, 40, 700)
WHOLE = np.random.default_rng(4).integers(0, 100, 700)


def add(new: Any, old: Any) -> Any:
    return new + old


PERMUTES = {
    "sums": lambda s: td.permute(add, np.zeros(40, int), lambda i: td.use(PLACES)[i], WHOLE,
                                 schedule=s),
    "some": lambda s: td.permute(
        add, np.ones(40, int), lambda i: td.where(i % 3 == 0, td.ignore, td.use(PLACES)[i]), WHOLE,
        schedule=s),
    "pairs": lambda s: td.permute(
        lambda x, y: (td.minimum(x[0], y[0]), x[1] + y[1]),
        td.zip(np.full(40, 99), np.zeros(40, int)), lambda i: td.use(PLACES)[i],
        td.zip(WHOLE, WHOLE), schedule=s),
    "transposed": lambda s: td.permute(td.overwrite, np.zeros(IMAGE.shape[::-1]),
                                       lambda i, j: (j, i), IMAGE, schedule=s),
}  # fmt: skip
#: A GPU keeps the order of some of these.
IN_ORDER = {
    "transposed": lambda s: td.permute(
        td.overwrite, np.zeros(IMAGE.shape[::-1]), lambda i, j: (j, i), IMAGE, schedule=s,
        deterministic=True),
    "reversed": lambda s: td.permute(
        lambda x, y: x + y, np.zeros(3000, np.float32), lambda i: 2999 - i,
        td.generate((3000,), lambda i: td.cast(i, td.float32) / 3), schedule=s,
        deterministic=True),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["native", "cuda"])
@pytest.mark.parametrize("make", [*PERMUTES.values(), *IN_ORDER.values()])
def test_permutes_follow_a_graph_to_the_same_results(make: Any, backend: str):
    plain = td.run(make(None), backend="reference")
    for schedule in (LocalityGraph(), Column(2) | Block(16) | LocalityGraph()):
        with emulation():
            found = td.run(make(schedule), backend=backend)
        np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("block", [Block(1), Block(1, 1), Block(3)])
def test_the_blocks_of_a_graph_may_be_counted_by_another_array(block: Any):
    """Extents that are checked to be equal are one: blocks of one element are as many as either."""
    a, b = np.arange(70.0), np.arange(70.0)[::-1].copy()
    f = td.jit(lambda a, b: td.add(td.copysign(b, b), a).scheduled(Column(4) | block
                                                                   | LocalityGraph()),
               backend="native")  # fmt: skip
    np.testing.assert_array_equal(f(a, b), a + b)


def test_the_graph_of_a_permute_is_of_what_it_reads_and_where_it_goes():
    sites = np.repeat([3, 0, 3, 1, 0, 1, 2, 2], 32)  # which line of `data` a block of 32 reads
    data = np.arange(128.0, dtype=np.float32)
    graph = Row() | Block(32) | LocalityGraph()

    def reading(sites: Any) -> Any:
        def value(i: Any) -> Any:
            return td.use(data)[td.use(sites)[i] * 32 + i % 32]

        return td.permute(add, np.zeros(1, np.float32), lambda i: 0, td.generate((256,), value))

    def going(sites: Any) -> Any:
        return td.permute(add, data * 0, lambda i: td.use(sites)[i] * 32 + i % 32,
                          np.ones(256, np.float32))  # fmt: skip

    for make in (reading, going):
        order = queues_of(td.jit(lambda make=make: make(sites)).lower(), graph, 2).order.tolist()
        assert sorted(order) == list(range(8))
        lines = [int(sites[32 * b]) for b in order]
        assert sum(a == b for a, b in itertools.pairwise(lines)) == 4  # partners are neighbours


def test_places_that_only_a_run_tells_are_no_part_of_the_graph():
    """A place behind a condition: the rest of the reads make the graph, and results are right."""

    def counted(x: Any, s: Any) -> Any:
        return td.permute(add, np.zeros(8, int), lambda i: td.cond(x[i] > 0.5, i % 8, 0),
                          np.ones(64, int), schedule=s)  # fmt: skip

    data = td.use(np.random.default_rng(6).random(64))
    plain = td.run(counted(data, None), backend="reference")
    graph = Row() | Block(16) | LocalityGraph()
    assert np.array_equal(td.run(counted(data, graph), backend="native"), plain)


def test_the_kernels_of_a_permute_look_its_blocks_up():
    for make in PERMUTES.values():
        for target in (NATIVE, CUDA):
            made = lowered(make(None), Row() | Block(8) | LocalityGraph(), target)
            (table,) = made.tables
            assert any(table.buffer in k.buffers for k in made.kernels)
            assert any("queues of blocks by the lines they share" in n for n in made.notes)


def test_a_pinned_permute_keeps_the_order_of_the_source():
    made = td.permute(add, np.zeros(40), lambda i: td.use(PLACES)[i], WHOLE * 0.1,
                      deterministic=True)  # fmt: skip
    for target in (NATIVE, CUDA):
        noted = lowered(made, LocalityGraph(), target).notes
        assert any("has no effect here: deterministic=True keeps" in n for n in noted)


def test_a_scan_has_no_graph():
    noted = lowered(td.cumsum(td.use(np.arange(50.0))), LocalityGraph(), NATIVE).notes
    assert noted[-1].startswith("LocalityGraph() has no effect here: only elements that are")


def test_more_agents_than_fit_are_told():
    made = td.map(lambda x: x + 1, td.use(np.zeros((64, 64), np.float32)))
    for per_sm, shown in ((8, False), (100, True)):
        schedule = Row() | Block(8, 32) | Agents(per_sm)
        notes = lower(made._leaves[0].node, LoweringContext(CUDA, schedule=schedule)).notes
        assert any("at most 8 blocks of so many threads fit" in n for n in notes) == shown, notes


def test_blocks_of_staged_tiles_make_a_graph():
    """Tiles that have no block in the schedule are left alone, and explain() says so."""
    a = np.arange(2000.0).reshape(40, 50)
    for blocks in (None, Block(32, 32), Block(8, 8)):
        schedule = (blocks or Row()) | Stage() | LocalityGraph()

        def program(a: Any, schedule: Any = schedule) -> Any:
            return td.transpose(a, schedule=schedule)

        text = " ".join(td.jit(program).lower(a).explain("cuda").split())
        idle = "LocalityGraph() has no effect here: Stage() has tiles of its own"
        assert (idle in text) == (blocks is None)
        assert ("queues of blocks by the lines they share" in text) == (blocks is not None)
        with emulation():
            np.testing.assert_array_equal(td.jit(program, backend="cuda")(a), a.T)
