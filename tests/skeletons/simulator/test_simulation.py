"""Caches in simulation: the paper's figures exactly, and every engine against a plain model."""

from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from treadle.skeletons.schedules import (
    Block,
    Column,
    Morton,
    Row,
    Table,
    Tile,
    ZigZag,
    as_schedule,
    evaluate,
    padding,
)
from treadle.skeletons.simulator import (
    Cache,
    Lru,
    Pattern,
    RandomFour,
    Sectored,
    SetAssociative,
    StepLru,
    capacity_sweep,
    engines,
    matmul_pattern,
    simulate,
    stencil_pattern,
    transpose_pattern,
)
from treadle.skeletons.simulator.programs import pattern_of
from treadle.skeletons.simulator.simulation import cache_needed, line_loads

STENCIL, PRODUCT = stencil_pattern(16, 16, 7, 7), matmul_pattern(16, 16, 16)


# --- Prasetya 2021 ------------------------------------------------------------------------------


def test_figure_4():
    found = [simulate(STENCIL, s, Cache(24, 4, StepLru())) for s in (Row(), Column(4))]
    assert [f.accesses for f in found] == [12543, 12543]
    assert [f.misses for f in found] == [462, 264]
    assert [f.optimal for f in found] == [276, 249]


def test_figure_5():
    found = [simulate(PRODUCT, s, Cache(32, 4, StepLru())) for s in (Row(), Column(4))]
    assert [f.misses for f in found] == [1088, 320]
    assert [f.optimal for f in found] == [848, 272]
    assert [f.compulsory for f in found] == [128, 128]


def test_accesses_of_a_step_are_simultaneous():
    """In whatever order a pattern lists them."""
    other = replace(PRODUCT, touched=lambda points: PRODUCT.touched(points)[:, ::-1])
    for schedule, misses in ((Tile(4, 4), 432), (Morton(), 448)):
        for pattern in (PRODUCT, other):
            assert simulate(pattern, schedule, Cache(32, 4, StepLru())).misses == misses
    for at_once in (1, 3):
        first, second = (
            simulate(pattern, Row(), Cache(32, 4, StepLru()), at_once=at_once).misses
            for pattern in (PRODUCT, other)
        )
        assert first == second


def test_figure_3():
    columns = (8, 16, 32, 64, 128)
    assert [line_loads(c, 7, 7, 256, 256, 8) for c in columns] == [25152, 16768, 12576, 10480, 9432]
    assert [line_loads(c, 7, 7, 512, 512, 8) for c in columns] == [
        99456, 66304, 49728, 41440, 37296,
    ]  # fmt: skip
    assert cache_needed(4, 7, 7) == 88  # 22 lines of 4


def test_columns_win_in_a_window_of_sizes():
    lines = [20, 22, 24, 26, 28]
    found = capacity_sweep(STENCIL, [Row(), Column(4)], 4, lines, StepLru())
    assert found.tolist() == [[1057, 462, 462, 462, 90], [1584, 264, 264, 264, 264]]


# --- engines against plain models -----------------------------------------------------------------


def plain_lru(keys, capacity, recency=None):
    """Last use and arrival by line; misses and evictions."""
    resident, misses, evictions = {}, 0, 0
    for t, key in enumerate(keys):
        now = t if recency is None else recency[t]
        if key in resident:
            resident[key] = (now, resident[key][1])
            continue
        misses += 1
        if len(resident) == capacity:
            del resident[min(resident, key=resident.get)]
            evictions += 1
        resident[key] = (now, t)
    return len(keys) - misses, misses, evictions


def plain_belady(keys, capacity):
    resident, misses = set(), 0
    for t, key in enumerate(keys):
        if key in resident:
            continue
        misses += 1
        if len(resident) == capacity:
            rest = keys[t + 1 :].tolist()
            resident.remove(
                max(resident, key=lambda k: rest.index(k) if k in rest else len(rest) + 1)
            )
        resident.add(key)
    return misses


def played(engine, lines, state):
    """Hits, misses and evictions of line numbers that come in three pieces."""
    for piece in np.array_split(np.asarray(lines), 3):
        engine(piece, *state, np.zeros(0, bool))
    return tuple(state[-1][:3])


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("capacity", [1, 2, 7, 16])
def test_engines(seed, capacity):
    random = np.random.default_rng(seed)
    lines = random.integers(0, random.integers(2, 40), 400) + random.integers(0, 3)
    step = np.repeat(np.arange(80, dtype=np.int32), 5)
    span, none = int(lines.max()) + 1, np.zeros(0, bool)
    timed = engines.step_lru_state(span, capacity)
    assert played(engines.lru, lines, engines.lru_state(span, capacity)) == plain_lru(
        lines, capacity
    )
    for at in (0, 150):  # in two pieces
        engines.step_lru(lines[at : at + 150 + 2 * at], step[at : at + 150 + 2 * at], *timed, none)
    assert tuple(timed[-1][:3]) == plain_lru(lines, capacity, step)
    whole = engines.set_associative_state(1, capacity)
    assert played(engines.set_associative, lines, whole) == plain_lru(lines, capacity)
    sets = 3
    parts = [plain_lru(lines[lines % sets == s], capacity) for s in range(sets)]
    found = played(engines.set_associative, lines, engines.set_associative_state(sets, capacity))
    assert found == tuple(sum(p[k] for p in parts) for k in range(3))
    best = engines.optimal(lines, engines.next_uses(lines, span), span, capacity, none)
    assert best[1] == plain_belady(lines, capacity)
    assert best[1] <= plain_lru(lines, capacity)[1]


def test_sectors_are_brought_in_one_by_one():
    # Lines of 2 sectors: 0 and 1 are one line, 2 and 3 the next.
    sectors = np.array([0, 1, 0, 2, 0, 4, 1, 3])
    # Two lines: 4 evicts the line of 2 (0 was used later); 3 evicts that of 4.
    assert played(engines.sectored, sectors, engines.sectored_state(2, 6, 1, 2)) == (3, 5, 2)


def test_the_random_policy_throws_out_groups():
    lines, state = np.arange(16) % 12, engines.random_groups_state
    hits, misses, evictions = played(engines.random_groups, lines, state(12, 8, 4, 1))
    assert hits + misses == 16
    assert evictions % 4 == 0 and evictions >= 4
    assert played(engines.random_groups, lines, state(12, 12, 4, 1)) == (4, 12, 0)
    again = np.random.default_rng(0).integers(0, 99, 4000)
    seeds = [played(engines.random_groups, again, state(99, 64, 4, seed)) for seed in (1, 1, 2, 3)]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) > 1


def test_caches_that_are_none():
    with pytest.raises(td.ScheduleError, match="cache of 0 lines"):
        Cache(0, 4)
    with pytest.raises(td.ScheduleError, match="sets of 3"):
        Cache(8, 4, SetAssociative(3))
    with pytest.raises(td.ScheduleError, match="equal sectors"):
        Cache(8, 6, Sectored(4))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "policy",
    [Lru(), StepLru(), SetAssociative(4), Sectored(4), Sectored(4, ways=4), RandomFour()],
    ids=repr,
)
def test_every_access_is_counted(policy):
    for pattern in (STENCIL, transpose_pattern(20, 12)):
        for schedule in (None, Column(8), ZigZag(4), Morton(), Column(8) | Block(4, 8)):
            found = simulate(pattern, schedule, Cache(16, 8, policy), mark=True)
            assert found.accesses == len(found.trace.addresses)
            assert found.missed.sum() == found.misses >= found.compulsory
            if not isinstance(policy, RandomFour | SetAssociative | Sectored):
                assert found.misses >= found.optimal >= found.compulsory
            assert f"{found.misses:,} misses" in str(found)


# --- programs ---------------------------------------------------------------------------------


def test_a_stencil_of_a_program():
    image = np.zeros((12, 10), np.float32)
    box = td.jit(lambda a: td.stencil(lambda w: w[-1, 0] + w[0, -1] + w[0, 1] + w[1, 0], a))
    pattern = pattern_of(box.lower(image))
    assert pattern.shape == (12, 10) and pattern.span == 240
    touched = pattern.touched(np.array([[0, 0], [5, 5]]))
    assert sorted(touched[1].tolist()) == [45, 54, 56, 65, 175]
    assert sorted(touched[0].tolist()) == [0, 0, 1, 10, 120]  # clamped


def test_a_program_brings_its_schedule_along():
    add = lambda a: td.map(lambda x: x + 1, td.transpose(a), name="add")
    program = td.jit(add).scheduled(add=Column(2)).lower(np.zeros((8, 8)))
    found = simulate(program, cache=Cache(4, 4))
    assert found.schedule == Column(2)
    assert found.misses == simulate(program, Column(2), Cache(4, 4)).misses
    assert simulate(program, Row(), Cache(4, 4)).misses != found.misses
    assert simulate(td.jit(add).lower(np.zeros((8, 8)))).schedule == Row()


def test_a_product_of_a_program():
    a, b = np.zeros((6, 5), np.float32), np.zeros((5, 7), np.float32)

    def product(a, b):
        def element(i, j):
            return td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0))

        return td.generate((a.shape[0], b.shape[1]), element)

    pattern = pattern_of(td.jit(product).lower(a, b))
    assert pattern.shape == (6, 7) and pattern.span == 30 + 35 + 42
    (touched,) = pattern.touched(np.array([[2, 3]])).tolist()
    assert touched[:-1] == [v for k in range(5) for v in (2 * 5 + k, 30 + k * 7 + 3)]
    assert touched[-1] == 65 + 2 * 7 + 3
    found = simulate(td.jit(product).lower(a, b), Column(2), Cache(8, 4))
    assert found.accesses == 6 * 7 * 11


def test_a_gather_needs_its_data():
    x, at = np.zeros(9), np.array([8, 0, 3, 3])
    program = td.jit(lambda x, at: td.gather(x, at)).lower(x, at)
    with pytest.raises(td.ScheduleError, match="an index depends on data"):
        simulate(program)
    pattern = pattern_of(program, arrays=(x, at))
    rows = pattern.touched(np.arange(4)[:, None]).tolist()
    assert [row[-1] for row in rows] == [13, 14, 15, 16]
    assert simulate(program, arrays=(x, at)).accesses == 12


def test_a_fold_of_a_program():
    a = np.zeros((4, 6), np.float32)
    found = simulate(td.jit(lambda a: td.sum(a, axis=1)).lower(a), cache=Cache(4, 4))
    assert found.accesses == 4 * 7
    assert found.misses == found.compulsory == 7


def test_a_turn_of_a_loop_over_arrays():
    plate = np.zeros((12, 10), np.float32)

    def cool(plate, steps):
        def step(u):
            return td.stencil(lambda w: w[0, 0] + w[0, 1] + w[1, 0], u, name="heat")

        return td.iterate(steps, step, plate)

    pattern = pattern_of(td.jit(cool).lower(plate, 7))
    assert (pattern.name, pattern.shape, pattern.span) == ("heat", (12, 10), 240)
    assert [a.name for a in pattern.arrays] == ["state_plate", "result"]
    assert sorted(pattern.touched(np.array([[2, 3]]))[0].tolist()) == [23, 24, 33, 143]

    def grow(u):  # a kernel, and the sum that ends the loop
        body = lambda u: td.map(lambda x: x * 2, u, name="double")
        return td.while_loop(lambda u: td.sum(u) < 9, body, u)

    program = td.jit(grow).lower(np.ones((3, 4)))
    with pytest.raises(td.ScheduleError, match=r"2 kernels; there are: .*double"):
        simulate(program)
    assert simulate(program, kernel="double").accesses == 24


def test_a_permute_writes_where_its_data_says():
    levels = np.array([[0, 2], [5, 1]], np.int32)

    def histogram(levels):
        keep = lambda i, j: td.where(levels[i, j] < 4, levels[i, j], td.ignore)
        add = lambda new, old: new + old
        return td.permute(add, td.fill(4, 0), keep, td.fill(levels.shape, 1), name="count")

    program = td.jit(histogram).lower(levels)
    pattern = pattern_of(program, "count", (levels,))
    assert [(a.name, a.base, a.shape) for a in pattern.arrays] == [
        ("levels", 0, (2, 2)), ("result", 4, (4,)),
    ]  # fmt: skip
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert pattern.touched(points)[:, -1].tolist() == [4, 6, -1, 5]  # the 5 is dropped
    with pytest.raises(td.ScheduleError, match="an index depends on data"):
        simulate(program, kernel="count")


def test_diagrams(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from treadle.skeletons.simulator.diagrams import BROUGHT, KEPT, USED, states

    found = simulate(STENCIL, Column(4), Cache(24, 4, StepLru()))
    picture = states(found)
    assert picture.shape == (357, 256)
    assert set(np.unique(picture)) <= {0, KEPT, USED, BROUGHT}
    assert (picture[found.trace.addresses, found.trace.step] >= USED).all()
    linear = states(simulate(STENCIL, Row(), Cache(24, 4, StepLru())))
    assert [(linear[:, t] > 0).sum() for t in (5, 10, 16, 40)] == [84, 96, 96, 96]  # 24 lines of 4
    assert found.plot().get_title().endswith("264 misses")
    td.simulator.plot_sweep(STENCIL, [Row(), Column(4)], 4, [20, 24, 28], StepLru())
    drawn = td.simulator.plot_predictions([1.0, 2.0, 4.0], [1.1, 1.9, 9.0], ["a", "b", "c"])
    assert drawn.get_title() == "rank correlation 1.00, median error 9%"
    with pytest.raises(td.ScheduleError, match="2 predictions and 1 measurements"):
        td.simulator.plot_predictions([1.0, 2.0], [1.0])
    pyplot.close("all")


@pytest.mark.parametrize(("shape", "large"), [((8, 16), False), ((96, 96), True)])
def test_maps_tell_a_column_from_a_zigzag(shape, large):
    """By the path where all of it is drawn, else by arrows, to the right only or to both sides."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    _, (left, right) = pyplot.subplots(1, 2)
    seen = [order.plot(shape, ax=ax) for order, ax in ((Column(8), left), (ZigZag(8), right))]
    assert seen == [left, right]
    if large:
        iterations = [{note.xy[0] > note.xyann[0] for note in ax.texts} for ax in seen]
        assert iterations == [{True}, {True, False}]
    else:
        jumps = [len(ax.collections[-1].get_segments()) for ax in seen]
        assert jumps == [15, 1]  # at the end of each row; at the end of each column
    pyplot.close("all")


@pytest.mark.parametrize(
    ("schedule", "shape"),
    [(Column(8), (6, 20)), (Column(16) | Block(4, 8), (2, 9, 20)), (Row(), (40,))],
    ids=repr,
)
def test_a_map_of_an_order(schedule, shape):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from treadle.skeletons.simulator.patterns import visited

    axes = schedule.plot(shape)
    when = axes.images[0].get_array().reshape(-1)
    found = np.ravel_multi_index(tuple(visited(schedule, shape).T), shape)
    assert when[found].tolist() == list(range(when.size))
    blocks = hasattr(schedule, "resolve") and schedule.resolve(len(shape)).grain == "block"
    assert len(axes.collections) == 3 + blocks  # borders of warps (and blocks), path and jumps
    assert axes.get_title().startswith(repr(schedule))
    with pytest.raises(td.ScheduleError, match="nothing to draw"):
        schedule.plot((0, 4))
    pyplot.close("all")


def test_what_cannot_be_simulated():
    a = np.zeros((4, 4))
    with pytest.raises(td.ScheduleError, match="needs a pattern or a program, got Jit"):
        simulate(td.jit(lambda a: a + 1))
    program = td.jit(lambda a: td.map(lambda x: x + 1, a, name="step")).lower(a)
    with pytest.raises(td.ScheduleError, match=r"0 kernels called 'blur'.*there are: step"):
        simulate(program, kernel="blur")
    with pytest.raises(td.ScheduleError, match=r"no kernel that the simulator.*cumsum"):
        simulate(td.jit(lambda a: td.cumsum(a, axis=1)).lower(a))

    def chase(at):
        walk = lambda k: td.while_loop(lambda x: x > 3, lambda x: at[x], k)
        return td.generate(at.shape, walk)

    with pytest.raises(td.ScheduleError, match="depends on the state of a loop in the kernel"):
        simulate(td.jit(chase).lower(np.arange(5)))


# --- what is not played, and mistakes -----------------------------------------------------------


def made_of(extents=(16, 16)):
    return td.jit(lambda a: td.stencil(lambda w: w[-1, 0] + w[1, 0], a)).lower(
        np.zeros(extents, np.float32)
    )


def test_layers_that_are_not_played_are_named():
    s = td.schedule
    found = td.simulate(made_of(), s.Row() | s.Block(4, 8) | s.PerThread(rows=2) | s.Agents(2))
    assert found.left_out == ("PerThread(rows=2)", "Agents(2)")
    assert "(not simulated: PerThread(rows=2), Agents(2))" in str(found)
    assert td.simulate(made_of(), s.Auto()).left_out == ("Auto(), simulated as Row()",)
    assert not td.simulate(made_of(), s.Column(4) | s.Block(4, 8)).left_out


def test_sweeps_take_programs_and_long_tables_are_cut_short():
    s = td.schedule
    found = td.simulator.capacity_sweep(made_of(), [s.Row(), s.Column(4)], 8, [8, 64])
    assert found.shape == (2, 2) and found[0, 1] == 64
    assert "Table(… 256 entries …)" in str(td.simulate(made_of(), s.Table(np.arange(256)[::-1])))


def test_policies_by_name():
    by_name, by_value = td.Cache(24, 4, "step_lru"), td.Cache(24, 4, td.simulator.StepLru())
    assert by_name == by_value
    sweeps = [td.simulator.capacity_sweep(STENCIL, [Row()], 4, [24], p) for p in ("lru", None)]
    np.testing.assert_array_equal(*sweeps)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda p, s: td.simulate(p, s.Row(), 24), "24 is not a cache"),
        (lambda p, s: td.Cache(24, 8, "belady"), "'belady' is not a cache policy"),
        (lambda p, s: td.simulator.capacity_sweep(p, 8, [24], [s.Row()]), "takes a list of sched"),
        (lambda p, s: td.Cache(24.5, 8), "24.5 lines"),
        (lambda p, s: td.simulate(p, s.Row(), arrays=[np.zeros((3, 3))]), r"a \(16, 16\)"),
        (lambda p, s: td.simulate(p, s.Row(), arrays=np.zeros(3)), "takes the program's arguments"),
        (lambda p, s: s.draw(s.Column(8) | s.Block(2, 4), (4, 4)), "more than an order"),
        (lambda p, s: s.check(s.Auto(), (4, 4)), "has no order"),
        (lambda p, s: s.check(s.Hilbert, (4, 4)), "is the class"),
        (lambda p, s: s.Row().plot("64x64"), "a shape is a tuple of extents"),
    ],
)
def test_mistakes_are_answered(wrong, said):
    with pytest.raises(td.TreadleError, match=said):
        wrong(made_of(), td.schedule)


def test_a_sweep_of_sectors_is_what_is_simulated_one_by_one():
    sizes, policy = [8, 16, 64], Sectored(4)
    found = capacity_sweep(STENCIL, [Row(), Column(4)], 8, sizes, policy)
    alone = [[simulate(STENCIL, s, Cache(n, 8, policy)).misses for n in sizes]
             for s in (Row(), Column(4))]  # fmt: skip
    assert found.tolist() == alone


def test_sizes_that_are_none():
    for call in (lambda: line_loads(0, 7, 7, 256, 256, 8), lambda: line_loads(8, 7, 7, 256, 256, 0),
                 lambda: cache_needed(0, 7, 7)):  # fmt: skip
        with pytest.raises(td.ScheduleError, match="must be a positive integer"):
            call()
    assert (td.Cache(24).line_width, td.Cache()) == (32, Cache(256, 32))


def test_a_given_order_is_played_as_it_would_run():
    """A stencil with separable weights is two kernels, but one under an order."""
    image, sides = np.zeros((12, 12), np.float32), range(-3, 4)

    def box(x):
        return td.stencil(lambda w: sum(w[i, j] for i in sides for j in sides) * (1 / 49), x)

    program = td.jit(box).lower(image)
    with pytest.raises(td.ScheduleError, match="has 2 kernels"):
        simulate(program, None, Cache(24, 4))
    found = simulate(program, Column(4), Cache(24, 4))
    assert found.misses + found.hits == 144 * 50
    scheduled = td.jit(lambda x: box(x).scheduled(Column(4))).lower(image)
    assert found.misses == simulate(scheduled, None, Cache(24, 4)).misses


@pytest.mark.parametrize(
    "policy", [Lru(), StepLru(), SetAssociative(4), Sectored(2), Sectored(2, ways=4), RandomFour()]
)
def test_a_diagram_shows_what_the_cache_holds(policy):
    from treadle.skeletons.simulator.diagrams import BROUGHT, USED, states

    found = simulate(STENCIL, Row(), Cache(24, 4, policy), mark=True)
    picture, trace = states(found), found.trace
    piece = 2 if isinstance(policy, Sectored) else 4
    brought = {(a // piece, t) for a, t in np.argwhere(picture == BROUGHT)}
    missed = zip(trace.addresses[found.missed] // piece, trace.step[found.missed], strict=True)
    assert brought == set(missed)
    assert (picture[trace.addresses, trace.step] >= USED).all()
    full = (picture > 0).sum(0)  # lines that a step evicts again are shown, too
    assert full.max() <= 24 * 4 + len(np.unique(trace.addresses[trace.step == 0])) * 4
    away = (picture[:, :-1] == 0) & (picture[:, 1:] > 0)  # nothing comes back but by a miss
    assert (picture[:, 1:][away] == BROUGHT).all() or isinstance(policy, RandomFour)


# --- mistakes -------------------------------------------------------------------------------------


def own(touched, span=16, shape=(4, 4)):
    return Pattern("own", shape, touched, span)


@pytest.mark.parametrize(("pattern", "said"), [
    (lambda: own(lambda p: p, 1), "touches address 3, beyond its span of 1"),
    (lambda: own(lambda p: p / 2), "16 points touch float64 of shape"),
    (lambda: own(lambda p: p[:, 0]), r"int64 of shape \(16,\)"),
    (lambda: own(lambda p: 3), r"of shape \(\)"),
    (lambda: own("p"), "no function of points to addresses"),
    (lambda: own(lambda p: p, shape=4), "a shape is a tuple of extents"),
    (lambda: own(lambda p: p, span=2.5), "span must be an integer"),
    (lambda: stencil_pattern(4, 4, -3, 3), "height must be an integer of at least 1, got -3"),
    (lambda: stencil_pattern("4", 4, 3, 3), "rows must be an integer of at least 1, got '4'"),
    (lambda: matmul_pattern(-4, 4, 4), "m must be an integer"),
    (lambda: SetAssociative(0), "SetAssociative: ways must be an integer of at least 1, got 0"),
    (lambda: SetAssociative(-2), "got -2"),
    (lambda: RandomFour(0, 0), "together must be an integer"),
    (lambda: Sectored(0), "sectors must be an integer from 1 to 32"),
    (lambda: Sectored(-1), "got -1"),
    (lambda: evaluate("x", (3,)), "x"),
    (lambda: evaluate(Row, (3,)), "Row is the class"),
    (lambda: padding(Row, (3,)), "Row is the class"),
])  # fmt: skip
def test_what_is_no_pattern_nor_policy(pattern, said):
    with pytest.raises(td.ScheduleError, match=said):
        simulate(pattern(), Row(), Cache(8, 1))


@pytest.mark.parametrize("given", [{"at_once": 0}, {"at_once": -1}, {"at_once": 2.5},
                                   {"kernel": "blur"}, {"arrays": []}])  # fmt: skip
def test_what_a_pattern_is_not_played_with(given):
    with pytest.raises(td.ScheduleError, match=next(iter(given))):
        simulate(STENCIL, Row(), **given)


def test_errors_do_not_quote_long_tables():
    with pytest.raises(td.ScheduleError) as error:
        _ = Table(range(5000), grain="thread") | Block(8, 32)
    assert "Table(…" in str(error.value) and len(str(error.value)) < 1000


# --- programs -------------------------------------------------------------------------------------


def test_kernels_go_by_their_numbers_too():
    def two(x):
        return td.compute(td.map(lambda v: v + 1, x)), td.transpose(x) + 1

    program = td.jit(two, backend="reference").lower(np.ones((8, 8)))
    with pytest.raises(td.ScheduleError, match=r"map #1, .* add #\d"):
        simulate(program)
    assert simulate(program, kernel="#1").pattern == "map"


def test_a_fold_is_played_by_its_results_and_says_so():
    blocks = Row() | Block(8, 32)
    fold = td.jit(lambda x: td.fold(lambda a, b: a + b, 0, x, name="m", schedule=blocks))
    found = simulate(fold.lower(np.ones((64, 64))))
    assert found.accesses == 64 * 64 + 64
    assert found.left_out == ("Row() | Block(8, 32), which orders parts of what is folded",)
    assert not simulate(fold.lower(np.ones((64, 64))), Row()).left_out
    assert "Column(16)" in str(simulate(fold.lower(np.ones((64, 64))), Column(16)))


def test_a_sweep_of_a_program_schedules_it_as_simulate_does():
    def box(a):
        return td.stencil(lambda w: sum(w[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)), a)

    program = td.jit(box, backend="native").lower(np.ones((16, 16)))  # two passes by itself
    misses = capacity_sweep(program, [Row(), Column(4)], 4, [24, 32])
    assert misses[1, 0] == simulate(program, Column(4), Cache(24, 4)).misses


@pytest.mark.parametrize(("schedule", "threads", "warps"), [
    (Row() | Block(2, 4) | td.schedule.Lanes(0),
     [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]], [[0] * 4 + [1] * 2] * 2),
    (Row() | Block(2, 4) | td.schedule.PerThread(2, 2),
     [[0, 0, 1, 1, 2, 2]] * 2, [[0] * 4 + [1] * 2] * 2),
    (Column(2) | td.schedule.PerThread(rows=2), [[0, 1, 2, 3, 4, 5]] * 2, [[0] * 6] * 2),
])  # fmt: skip
def test_a_map_shows_whose_elements_they_are(schedule, threads, warps):
    from treadle.skeletons.simulator.diagrams import threads_of

    found = threads_of(as_schedule(schedule).resolve(2), (2, 6))
    assert [x.tolist() for x in found] == [threads, warps]


def test_of_a_condition_the_chosen_side_is_read():
    def program(x, y):
        return td.generate((6,), lambda i: td.cond(i < 3, x[i], td.cond(i < 5, y[5 - i], x[i + 4])))

    found = simulate(td.jit(program, backend="reference").lower(np.ones(6), np.ones(6)))
    touched = [set(found.trace.addresses[found.trace.step == t].tolist()) for t in range(6)]
    read = [{a for a in step if a < 12} for step in touched]
    places = pattern_of(td.jit(program, backend="reference").lower(np.ones(6), np.ones(6))).arrays
    base = {p.name: p.base for p in places}
    x, y = base["x"], base["y"]
    assert read == [{x}, {x + 1}, {x + 2}, {y + 2}, {y + 1}, set()]  # x[9] is outside


@pytest.mark.parametrize(
    ("program", "read"),
    [
        # One read that two conditions guard is made where either of them holds.
        (lambda x: td.generate((4,), lambda i: td.cond(i < 1, x[0], 0) + td.cond(i > 2, x[0], 0)),
         [{0}, set(), set(), {0}]),
        # The conditions are data: in range where they hold, and a neighbour beyond the border.
        (lambda x: td.map(lambda v: td.cond(v < 4, x[td.cond(v < 4, x[v], 0)], 0), x),
         [{0, 3}, {1}, {2}, {0, 3}]),
        (lambda x: td.stencil(lambda w: td.cond(w[-1] == 0, w[1], 0), x, boundary=td.wrap),
         [{1, 3}, {0}, {1}, {2}]),
        (lambda x: td.stencil(lambda w: td.cond(w[1] == 0, w[0], 0), x, boundary=td.constant(0)),
         [{1}, {2}, {2, 3}, {3}]),
        # A loop of no iterations.
        (lambda x: td.map(lambda v: td.loop(0, lambda k, s: s + x[k + 2], v), x),
         [{0}, {1}, {2}, {3}]),
    ],
)  # fmt: skip
def test_what_is_read_hangs_on_data(program, read):
    x = np.array([3, 9, 2, 0])
    found = simulate(td.jit(program, backend="reference").lower(x), arrays=[x])
    touched = found.trace.addresses, found.trace.step
    assert [{a for a in touched[0][touched[1] == t].tolist() if a < 4} for t in range(4)] == read


def test_sectors_of_a_cache_of_one_set_are_those_of_as_many_ways():
    pattern = own(lambda p: (p[:, :1] * 37 + p[:, 1:] * 11 + np.arange(9) * 5) % 300, 300, (20, 20))
    whole, set_of_all = (
        simulate(pattern, Row(), Cache(8, 8, Sectored(4, ways)), mark=True) for ways in (0, 8)
    )
    assert (whole.missed == set_of_all.missed).all() and whole.evictions == set_of_all.evictions > 0
