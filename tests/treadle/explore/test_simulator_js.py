"""The page's simulator gives the numbers of the simulator in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.skeletons.schedules import (
    Block,
    Column,
    Hilbert,
    Morton,
    Row,
    Swizzle,
    Table,
    Tile,
    ZigZag,
    as_schedule,
)
from treadle.skeletons.simulator import Pattern, matmul_pattern, simulate, stencil_pattern
from treadle.skeletons.simulator.cache import Cache, Lru, SetAssociative, StepLru
from treadle.skeletons.simulator.patterns import visited

ORDERS = [Row(), Column(4), Column(7), ZigZag(5), Tile(3, 4), Swizzle(3), Morton(), Hilbert()]
SHAPES = [(1, 1), (7, 5), (16, 16), (9, 40), (40, 9), (3, 5, 6), (11,)]
POLICIES = {"StepLru": StepLru(), "Lru": Lru(), "SetAssociative": SetAssociative(4)}

Node = Callable[[str, Any], Any]


def spelled(order: Any, block: tuple[int, int] | None = None) -> dict[str, Any]:
    """An order as the page has it."""
    if isinstance(order, Table):
        return {"ids": order.ids.tolist()}
    found = {"name": type(order).__name__, **order.arguments()}
    return {**found, "block": block} if block else found


def test_orders(node: Node) -> None:
    cases, expected = [], []
    for shape in SHAPES:
        table = Table(np.random.default_rng(1).permutation(int(np.prod(shape))))
        for order in [*ORDERS, table] if len(shape) < 3 else ORDERS:
            for block in [None] if len(shape) < 2 or order is table else [None, (2, 4)]:
                schedule = order | Block(*block) if block else as_schedule(order)
                cases.append({"order": spelled(order, block), "shape": shape})
                points = visited(schedule, shape)
                expected.append(np.ravel_multi_index(tuple(points.T), shape).tolist())
    found = node("return given.map((g) => Array.from(S.visited(g.order, g.shape)));", cases)
    for case, there, here in zip(cases, found, expected, strict=True):
        assert there == here, case


SIMULATE = """return given.map((g) => {
    const table = Int32Array.from(g.table), ids = S.visited(g.order, g.shape);
    const trace = S.trace(table, table.length / ids.length, ids);
    const r = S.simulate(trace, g.span, g.policy, g.lines, g.width);
    const marks = [r.log.missed, r.bestMissed, r.firstUse].map((x) => x.reduce((a, b) => a + b, 0));
    const gone = r.log.evicted.filter((line) => line >= 0).length;
    return [r.hits, r.misses, r.evictions, r.compulsory, r.optimal, ...marks, gone,
            S.misses(trace, g.span, g.policy, g.lines, g.width)];
});"""


def case(pattern: Pattern, order: Any, policy: str, lines: int, width: int) -> dict[str, Any]:
    points = np.stack(np.unravel_index(np.arange(np.prod(pattern.shape)), pattern.shape), -1)
    table = pattern.touched(points).T.reshape(-1).tolist()
    return {"table": table, "shape": pattern.shape, "span": pattern.span, "order": spelled(order),
            "policy": policy, "lines": lines, "width": width}  # fmt: skip


def test_the_papers_figures(node: Node) -> None:
    window, product = stencil_pattern(16, 16, 7, 7), matmul_pattern(16, 16, 16)
    cases = [case(window, o, "StepLru", 24, 4) for o in (Row(), Column(4))]
    cases += [case(product, o, "StepLru", 32, 4) for o in (Row(), Column(4))]
    found = node(SIMULATE, cases)
    assert [(hits + misses, misses, best) for hits, misses, _, _, best, *_ in found] == [
        (12543, 462, 276), (12543, 264, 249), (8192, 1088, 848), (8192, 320, 272),
    ]  # fmt: skip
    simultaneous = [case(product, o, "StepLru", 32, 4) for o in (Tile(4, 4), Morton())]
    assert [misses for _, misses, *_ in node(SIMULATE, simultaneous)] == [432, 448]


@pytest.mark.parametrize("seed", range(3))
def test_random_patterns(node: Node, seed: int) -> None:
    random = np.random.default_rng(seed)
    cases, expected = [], []
    for policy, value in POLICIES.items():
        for _ in range(8):
            shape = tuple(random.integers(1, 12, 2).tolist())
            span = int(random.integers(5, 300))
            table = random.integers(-1, span, (int(np.prod(shape)), int(random.integers(1, 7))))

            def touched(points: Any, table: Any = table, shape: Any = shape) -> Any:
                return table[np.ravel_multi_index(tuple(points.T), shape)]

            pattern = Pattern("random", shape, touched, span)
            order = ORDERS[int(random.integers(len(ORDERS)))]
            lines, width = 4 * int(random.integers(1, 6)), int(random.integers(1, 9))
            cases.append(case(pattern, order, policy, lines, width))
            s = simulate(pattern, order, Cache(lines, width, value))
            counts = [s.hits, s.misses, s.evictions, s.compulsory, s.optimal]
            expected.append([*counts, s.misses, s.optimal, s.compulsory, s.evictions, s.misses])
    assert node(SIMULATE, cases) == expected


def test_lines_of_warps(node: Node) -> None:
    cases, expected = [], []
    for order in (Row(), Column(4), Hilbert()):
        given = case(stencil_pattern(9, 40, 3, 5), order, "Lru", 4, 8)
        cases.append(given)
        points = visited(order, (9, 40))
        lines = np.array(given["table"]).reshape(-1, 360)[:, points @ [40, 1]] // 8
        warps = [
            np.unique(x).size - (-1 in x) for t in lines for x in np.split(t, range(32, 360, 32))
        ]
        expected.append(np.mean(warps))
    count = """return given.map((g) => S.linesOfWarps(
        Int32Array.from(g.table), 15, S.visited(g.order, g.shape), g.width));"""
    found = node(count, cases)
    np.testing.assert_allclose(found, expected)


def test_a_rule_of_ones_own(node: Node) -> None:
    walk = """return given.map(([rule, r, c]) => {
        try { return Array.from(S.visited({rule}, [r, c])); }
        catch (error) { return error.message; }
    });"""
    snake = "i / cols, (i / cols & 1) ? cols - 1 - i % cols : i % cols"
    found = node(walk, [[snake, 2, 3], ["0, i", 2, 2], ["i / 4, 0", 2, 2]])
    assert found[0] == [0, 1, 2, 5, 4, 3]
    assert found[1] == "step 2 visits (0, 2), which is outside 2 × 2"
    assert found[2] == "steps 0 and 1 both visit (0, 0)"


def test_the_addresses_in_the_page(node: Node, html: str) -> None:
    """What the page brings along, unpacked, is what the programs touch."""
    from tests.treadle.explore.pagedata import data_of
    from treadle.explore import presets

    tables = [v["table"] for p in data_of(html) for v in p["variants"]]
    unpack = "return Promise.all(given.map(async (t) => Array.from(await S.unpackTable(t))));"
    patterns = [v.pattern for p in presets(((8, 12),)) for v in p.variants]
    for pattern, found in zip(patterns, node(unpack, tables), strict=True):
        points = np.stack(np.unravel_index(np.arange(np.prod(pattern.shape)), pattern.shape), -1)
        assert found == pattern.touched(points).T.reshape(-1).tolist(), pattern.name


def test_own_programs_are_what_the_simulator_says(node: Node) -> None:
    u = np.zeros((10, 9), np.float32)
    step = td.jit(lambda u: td.stencil(lambda w: w[-1, 0] + w[0, 1], u))
    from treadle.skeletons.simulator.programs import pattern_of

    program = step.lower(u)
    pattern = pattern_of(program)
    (found,) = node(SIMULATE, [case(pattern, Column(4), "Lru", 8, 4)])
    assert found[1] == td.simulate(program, Column(4), td.Cache(8, 4)).misses
