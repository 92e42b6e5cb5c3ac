"""The block-sharing graph against all pairs of blocks, and the orders and queues made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treadle as td
from treadle.dsl.expr import Extent, walk
from treadle.skeletons.lower.locality import LINE, lines_of, queues
from treadle.skeletons.schedules import Block, Column, LocalityGraph, Morton, Row, as_schedule
from treadle.skeletons.schedules.sharing import (
    MOST_SHARERS,
    BlockGraph,
    Footprints,
    bisected,
    block_graph,
    parts,
    spanning_order,
)


def dense(graph: BlockGraph) -> np.ndarray:
    found = np.zeros((graph.count, graph.count), np.int64)
    rows = np.repeat(np.arange(graph.count), np.diff(graph.starts))
    found[rows, graph.neighbours] = graph.weights
    return found


def all_pairs(sets: list[set[int]]) -> np.ndarray:
    found = np.array([[len(a & b) for b in sets] for a in sets], np.int64).reshape(len(sets), -1)
    np.fill_diagonal(found, 0)
    return found


def footprints(sets: list[set[int]]) -> Footprints:
    """Blocks with equal sets have one owner."""
    distinct = list(dict.fromkeys(map(frozenset, sets)))
    pairs = [(line, k) for k, lines in enumerate(distinct) for line in lines]
    lines, owners = np.array(pairs, np.int64).reshape(-1, 2).T
    owner = np.array([distinct.index(frozenset(s)) for s in sets], np.int64)
    return Footprints(lines, owners, owner)


SETS = st.lists(st.sets(st.integers(0, 30), max_size=8), min_size=1, max_size=24)


@settings(max_examples=60, deadline=None)
@given(SETS, SETS)
def test_weights_are_the_lines_shared(first: list[set[int]], second: list[set[int]]):
    """Summed over arrays; no pair that shares nothing has an edge."""
    second = (second * len(first))[: len(first)]
    graph = block_graph(len(first), [footprints(first), footprints(second)])
    np.testing.assert_array_equal(dense(graph), all_pairs(first) + all_pairs(second))
    assert (graph.weights > 0).all()


def test_a_line_that_all_share_links_the_next_ones_only():
    count = 3 * MOST_SHARERS
    graph = block_graph(count, [footprints([{7}] * count)])
    assert graph.edges == sum(count - d for d in range(1, MOST_SHARERS + 1))


def random_graph(count: int, seed: int) -> BlockGraph:
    rng = np.random.default_rng(seed)
    sets = [set(rng.integers(0, 3 * count, 6).tolist()) for _ in range(count)]
    return block_graph(count, [footprints(sets)])


@pytest.mark.parametrize("seed", range(4))
def test_the_spanning_walk_takes_the_heaviest_edge(seed: int):
    graph = random_graph(40, seed)
    weights, order = dense(graph), spanning_order(graph)
    assert sorted(order.tolist()) == list(range(40))
    assert order[0] == 0
    for k in range(1, 40):
        ahead = weights[np.ix_(order[:k], order[k:])].max(0)  # from what is reached to what is not
        best = int(ahead.max())
        wanted = min(order[k:][ahead == best])
        assert order[k] == wanted


@pytest.mark.parametrize(("count", "pieces"), [(40, 7), (64, 4), (5, 9), (1, 3)])
def test_parts_are_of_equal_size_and_share_little(count: int, pieces: int):
    graph = random_graph(count, 1)
    order = parts(graph, pieces)
    assert sorted(order.tolist()) == list(range(count))
    line = block_graph(count, [footprints([{b, b + 1} for b in range(count)])])
    order = parts(line, min(pieces, count))
    pieces = min(pieces, count)
    queue = np.empty(count, np.int64)
    queue[order] = np.repeat(
        np.arange(pieces), count // pieces + (np.arange(pieces) < count % pieces)
    )
    cut = int((queue[1:] != queue[:-1]).sum())  # a path has one edge between neighbouring parts
    assert cut <= 2 * pieces


def test_bisection_keeps_what_shares_together():
    blocks = np.arange(64)
    hidden = np.random.default_rng(5).permutation(64)
    sets = [{1000 + int(hidden[b]) // 8} for b in blocks]  # eight groups of eight
    order = bisected(block_graph(64, [footprints(sets)]), 8)
    assert sorted(order.tolist()) == blocks.tolist()
    groups = hidden[order] // 8
    assert (groups.reshape(8, 8) == groups.reshape(8, 8)[:, :1]).all()


@pytest.mark.parametrize("method", ["mst", "kway", "bisect"])
def test_no_blocks_and_no_edges(method: str):
    for count in (0, 1, 9):
        none = BlockGraph(count, np.zeros(count + 1, np.int64), *np.zeros((2, 0), np.int64))
        assert sorted(queues(none, method, 4, 2, 0.0).order.tolist()) == list(range(count))


# --- what blocks read ----------------------------------------------------------------------------


def by_elements(array: Any, schedule: Any, shape: tuple[int, ...], reads: Any) -> np.ndarray:
    """The graph from the reads of every element, as pairs of (array, line)."""
    plan = as_schedule(schedule).resolve(len(shape))
    grid = plan.grid(shape)
    sets = []
    for i in range(int(plan.linear_size(shape))):
        first = [int(v) for v in plan.origin(np.int64(i), shape)]
        inside = all(f < n for f, n in zip(first, shape, strict=True))
        rows = [range(f, min(f + u, n)) for f, u, n in zip(first, plan.unit, shape, strict=True)]
        found: set[Any] = set()
        for point in np.stack(np.meshgrid(*rows, indexing="ij"), -1).reshape(-1, len(shape)):
            found |= reads(*map(int, point)) if inside else set()
        sets.append(found)
    assert len(grid) == len(shape)
    return all_pairs(sets)


def graph_of(array: Any, schedule: Any, contents: Any = ()) -> np.ndarray:
    node = array._leaves[0].node
    plan = as_schedule(schedule).resolve(len(node.shape))
    roots = [*node.elements, *node.shape]
    known = {}
    for e in walk(roots):
        for leaf in [getattr(e, "node", None)]:
            if leaf is not None and getattr(leaf, "source", None) is not None:
                known.update({Extent(leaf, k): n for k, n in enumerate(leaf.source.shape)})
    held = {leaf: leaf.node.source for e in walk(node.elements)
            for leaf in [_leaf(e)] if leaf is not None}  # fmt: skip
    count, lines = lines_of(node, plan, known, held)
    return dense(block_graph(count, lines))


def _leaf(e: Any) -> Any:
    from treadle.dsl.expr import Read
    from treadle.dsl.graph import Leaf

    return Leaf(e.node, e.component) if isinstance(e, Read) and hasattr(e.node, "source") else None


IMAGE = np.arange(13 * 70, dtype=np.float32).reshape(13, 70)
BLOCKS = (Row() | Block(4, 32), Column(32) | Block(3, 16), Morton() | Block(4, 16))


@pytest.mark.parametrize("schedule", BLOCKS, ids=repr)
def test_boxes_of_a_stencil_are_what_its_elements_read(schedule: Any):
    made = td.stencil(lambda w: w[-1, -1] + w[0, 0] + w[1, 2], td.use(IMAGE))

    def reads(i: int, j: int) -> set[int]:
        # The box of the three places is what counts as read, as a block is a box.
        return {
            (min(max(i + y, 0), 12) * 70 + min(max(j + x, 0), 69)) * 4 // LINE
            for y in (-1, 0, 1) for x in (-1, 0, 1, 2)
        }  # fmt: skip

    np.testing.assert_array_equal(graph_of(made, schedule),
                                  by_elements(made, schedule, IMAGE.shape, reads))  # fmt: skip


def test_places_that_data_decides_are_looked_up():
    index = np.random.default_rng(0).integers(0, 13, (9, 40))
    table, places = td.use(IMAGE), td.use(index)
    made = td.generate(index.shape, lambda i, j: table[places[i, j], j])
    schedule = Row() | Block(2, 16)

    def reads(i: int, j: int) -> set[tuple[str, int]]:
        own = int(index[i, j] * 70 + j) * 4 // LINE
        return {("table", own), ("index", (i * 40 + j) * 8 // LINE)}

    np.testing.assert_array_equal(graph_of(made, schedule),
                                  by_elements(made, schedule, index.shape, reads))  # fmt: skip


def test_loops_and_any_rank():
    """A naive product, whose blocks share rows and columns; and a volume."""
    a, b = td.use(np.zeros((12, 40), np.float32)), td.use(np.zeros((40, 64), np.float32))
    made = td.generate((12, 64), lambda i, j: td.loop(
        40, lambda k, total: total + a[i, k] * b[k, j], np.float32(0)))  # fmt: skip
    schedule = Row() | Block(4, 32)

    def reads(i: int, j: int) -> set[tuple[str, int]]:
        rows = {("a", (i * 40 + k) * 4 // LINE) for k in range(40)}
        return rows | {("b", (k * 64 + j) * 4 // LINE) for k in range(40)}

    np.testing.assert_array_equal(graph_of(made, schedule),
                                  by_elements(made, schedule, (12, 64), reads))  # fmt: skip
    cube = td.use(np.zeros((5, 6, 40), np.float32))
    made = td.stencil(lambda w: w[-1, 0, 0] + w[1, 0, 0], cube)
    schedule = Row() | Block(2, 3, 32)

    def volume(i: int, j: int, k: int) -> set[int]:
        return {((min(max(i + z, 0), 4) * 6 + j) * 40 + k) * 4 // LINE for z in (-1, 0, 1)}

    np.testing.assert_array_equal(graph_of(made, schedule),
                                  by_elements(made, schedule, (5, 6, 40), volume))  # fmt: skip


def test_preprocessing_is_timed_and_kept():
    graph = random_graph(30, 2)
    found = queues(graph, LocalityGraph().method, 3, 4, 0.5)
    assert found.seconds == 0.5 + found.order_seconds > 0.5
    shown = f"30 blocks, {graph.edges} pairs of them share lines; graph 500 ms"
    assert str(found).startswith(shown)


@pytest.mark.parametrize("width", [8, 40, 70])
def test_rows_that_data_decides_are_looked_at_a_line_apart(width: int):
    """All of their lines are found, though not all of their elements are looked at."""
    index = np.random.default_rng(1).integers(0, 13, 9)
    table, places = td.use(IMAGE), td.use(index)
    made = td.generate((9, 70), lambda i, j: table[places[i], j])
    schedule = Row() | Block(2, width)

    def reads(i: int, j: int) -> set[tuple[str, int]]:
        return {("table", int(index[i] * 70 + j) * 4 // LINE), ("index", i * 8 // LINE)}

    np.testing.assert_array_equal(graph_of(made, schedule),
                                  by_elements(made, schedule, (9, 70), reads))  # fmt: skip


def test_methods_have_their_graph_in_common(monkeypatch: pytest.MonkeyPatch):
    from treadle.skeletons.lower import locality

    made = []
    monkeypatch.setattr(locality, "_GRAPHS", locality.Recent(2))
    monkeypatch.setattr(locality.sharing, "block_graph",
                        lambda *given: made.append(given) or block_graph(*given))  # fmt: skip
    program = td.jit(lambda a: td.stencil(lambda w: w[-1, 0] + w[1, 0], a)).lower(IMAGE)
    for _ in range(2):
        for method in ("mst", "kway"):
            pytest.importorskip("pymetis")
            schedule = Row() | Block(4, 32) | LocalityGraph(method)
            found = locality.queues_of(program, schedule, 4, (IMAGE,))
            assert sorted(found.order.tolist()) == list(range(12))
    assert [count for count, _ in made if count > 2] == [12]  # without those of `ready`
    locality.queues_of(program, Row() | Block(2, 32) | LocalityGraph(), 4, (IMAGE,))
    assert [count for count, _ in made if count > 2] == [12, 21]
