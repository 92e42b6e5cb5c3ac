"""Permute by the interpreter: every strategy, on targets small and large."""

from __future__ import annotations

import re

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported, execute, run_array
from treadle.dsl.errors import WRITTEN
from treadle.dsl.graph import Permute
from treadle.dsl.passes import recognise
from treadle.dsl.target import CUDA
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.lower.launches import lowering_report
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.lower.scatter import cpu as permute

SHAPES = [(0,), (1,), (5,), (300,), (17, 9), (3, 0)]


@pytest.fixture(params=["usual", "small blocks", "never private", "indivisible", "one copy"])
def sizes(request, monkeypatch):
    if request.param != "usual":
        request.getfixturevalue("small_blocks")
    if request.param in ("never private", "indivisible"):
        monkeypatch.setattr(permute, "PRIVATE_TARGET", 0)
    if request.param == "indivisible":
        monkeypatch.setattr(permute, "AS_FAST", 0)
    if request.param == "one copy":
        monkeypatch.setattr(permute, "COPIED_BYTES", 0)


@pytest.mark.sample(4)
@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("targets", [1, 3, 10, 600])
@pytest.mark.parametrize("shape", SHAPES)
def test_combinations(shape, targets):
    rng = np.random.default_rng(0)
    at, values = rng.integers(-2, targets, shape), rng.integers(0, 100, shape)
    start = rng.integers(0, 100, targets)
    there, x = at >= 0, td.use(at)

    def place(*ix):
        return td.cond(x[ix] >= 0, x[ix], td.ignore)

    def scattered(f, defaults, source, **options):
        return td.permute(f, defaults, place, source, **options)

    sums, most, modular = start.copy(), start.copy(), start.copy()
    np.add.at(sums, at[there], values[there])
    np.maximum.at(most, at[there], values[there])
    last = start.copy()
    for i, v in zip(at.ravel(), values.ravel(), strict=True):
        if i >= 0:
            modular[i], last[i] = (modular[i] + v) % 1000, v
    added = scattered(lambda new, old: new + old, start, values)
    assert np.array_equal(run_array(added), sums)
    assert np.array_equal(run_array(added, check=True, seed=1), sums)
    greatest = scattered(lambda new, old: td.maximum(new, old), start, values)
    assert np.array_equal(run_array(greatest), most)
    own = scattered(lambda new, old: (new + old) % 1000, start, values)
    assert np.array_equal(run_array(own), modular)
    pairs = scattered(lambda new, old: (new[0] + old[0], td.maximum(new[1], old[1])),
                      td.zip(start, start * 1.0), td.zip(values, values * 1.0))  # fmt: skip
    first, second = run_array(pairs)
    assert np.array_equal(first, sums) and np.array_equal(second, most)
    kept = scattered(td.overwrite, td.zip(start, start), td.zip(values, values * 2))
    first, second = run_array(kept)
    for t in range(targets):
        meeting = values[at == t]
        if meeting.size:
            assert first[t] in meeting and second[t] == 2 * first[t]
        else:
            assert first[t] == second[t] == start[t]
    assert np.array_equal(run_array(scattered(td.overwrite, start, values, deterministic=True)),
                          last)  # fmt: skip


def test_targets_are_checked():
    at = td.use(np.array([0, 3, -1, 2]))
    made = td.permute(lambda new, old: new + old, np.zeros(3), lambda i: at[i], np.ones(4))
    with pytest.raises(Reported) as caught:
        run_array(made, check=True)
    found = sorted((site.array, index, extent) for site, index, extent in caught.value.args[0])
    assert found == [(WRITTEN, -1, 3), (WRITTEN, 3, 3)]


def test_histograms():
    image = np.random.default_rng(0).random((20, 30))
    uniform, _ = td.histogram(image, bins=7, range=(0.0, 1.0))
    assert np.array_equal(run_array(uniform), np.histogram(image, 7, (0, 1))[0])
    edges = np.array([0, 0.2, 0.5, 0.9])
    searched, _ = td.histogram(image, bins=edges)
    assert np.array_equal(run_array(searched), np.histogram(image, edges)[0])


def test_rank_two_targets_and_rank_zero_sources():
    image = np.random.default_rng(0).integers(0, 9, (20, 30))
    made = td.permute(lambda new, old: new + old, np.zeros((4, 5), "i8"),
                      lambda i, j: (i % 4, j % 5), image)  # fmt: skip
    want = np.zeros((4, 5), "i8")
    for i, j in np.ndindex(20, 30):
        want[i % 4, j % 5] += image[i, j]
    assert np.array_equal(run_array(made, check=True), want)
    single = td.permute(lambda new, old: new + old, np.zeros(3, "i8"), lambda: 1,
                        np.array(5))  # fmt: skip
    assert np.array_equal(run_array(single), [0, 5, 0])


def test_tuples_are_never_torn(monkeypatch):
    at = td.use(np.array([0, 0]))
    pairs = td.zip(np.array([1, 2]), np.array([1.0, 2.0]))
    made = td.permute(td.overwrite, td.zip(np.zeros(1, "i8"), np.zeros(1)), lambda i: at[i], pairs)
    monkeypatch.setattr(permute, "AS_FAST", 0)
    (kernel,) = lower(made._leaves[0].node).kernels
    (update,) = [s for s in ir.statements(kernel.body) if isinstance(s, ir.Atomic)]
    assert update.locks is not None and update.locks.name.startswith("zero_")


@pytest.mark.sample(3)
@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.parametrize("t", [td.int32, td.int64, td.uint8])
def test_many_targets_are_counted_in_bytes(monkeypatch, t, narrowed):
    monkeypatch.setattr(recognise, "BYTE_COUNTS", 4)
    monkeypatch.setattr(permute, "CHUNK_ELEMENTS", 400)
    places = np.where(np.arange(1400) % 3 > 0, 5, np.arange(1400) % 7)

    def count(a):
        ones = td.fill(a.shape, t(3))
        start = td.fill((9,), t(2))
        return td.permute(lambda new, old: new + old, start, lambda i: a[i], ones)

    program = td.jit(count).lower(places)
    first, node = program.kernels
    lowered = lower(node, LoweringContext())
    assert {b.type.name for b in lowered.scratch} == {"uint8"}
    if narrowed:
        kernels = tuple(narrow(k) or k for k in lowered.kernels)
        lowered = ir.Lowered(kernels, lowered.scratch)
    arrays = {program.inputs[0].leaf(): places}
    execute(lower(first, LoweringContext()), first, arrays, {})
    execute(lowered, node, arrays, {})
    expected = (2 + 3 * np.bincount(places, minlength=9)).astype(t.numpy)
    assert np.array_equal(arrays[node.leaf()], expected)


ATOMICS = "updates by atomics"


def launched(value, combine, targets, threads):
    """What runs for 9 sources and so many targets on so many threads."""
    arrays = np.ones(9), np.zeros(9, "i8"), np.zeros(targets)
    program = td.jit(
        lambda a, at, start: td.permute(combine, start, lambda k: at[k], value(a))
    ).lower(*arrays)
    known = {e: n for leaf, a in zip(program.inputs, arrays, strict=True)
             for e, n in zip(leaf.leaf().shape, a.shape, strict=True)}  # fmt: skip
    (node,) = program.kernels
    found = lowering_report(node, LoweringContext(threads=threads), known)
    assert not any(ATOMICS in note for note in found.notes)  # of what runs, or nothing
    return " ".join(found.launches)


def plus(new, old):
    return new + old


@pytest.mark.parametrize(
    ("threads", "targets", "value", "way"),
    [
        (2, 100_000, lambda a: a, "in the order"),
        (2, 2_000_000, lambda a: a, "in the order"),
        (4, 100_000, lambda a: a, "in the order"),
        (4, 2_000_000, lambda a: a, "atomic"),
        (16, 100_000, lambda a: a, "atomic"),
        (16, 6000, lambda a: a, "in the order"),  # threads would keep meeting
        (1, 100_000, lambda a: td.sin(td.exp(a)) ** 0.3, "in the order"),
        (2, 100_000, lambda a: td.sin(td.exp(a)) ** 0.3, "atomic"),  # the work is shared
    ],
)
def test_the_order_is_taken_where_it_is_as_fast(threads, targets, value, way):
    launches = launched(value, plus, targets, threads)
    assert way in launches
    assert (ATOMICS in launches) == (way == "atomic")
    assert ATOMICS not in launched(value, lambda n, o: td.maximum(n, o), targets, threads)


def test_a_gpu_says_that_floats_meet_in_any_order():
    def notes(start, **options):
        made = td.permute(plus, start, lambda k: k % 5, np.ones(9, start.dtype), **options)
        return " ".join(lower(made._leaves[0].node, LoweringContext(target=CUDA)).notes)

    assert ATOMICS in notes(np.zeros(5))
    assert ATOMICS not in notes(np.zeros(5), deterministic=True)
    assert ATOMICS not in notes(np.zeros(5, "i4"))
    table = td.use(np.arange(9.0))  # a warp takes the sources of its targets in their order
    read = td.permute(lambda n, o: n + o + table[0], np.zeros(5), lambda k: k % 5, np.ones(9))
    found = lower(read._leaves[0].node, LoweringContext(target=CUDA)).notes
    assert found and ATOMICS not in " ".join(found)


@pytest.mark.parametrize(("weights", "most"), [
    (["f8"], 256),
    (["f8", "f8"], 128),
    (["f4"] * 3, 85),  # whose sums are of float64
])  # fmt: skip
def test_copies_of_a_chunk_fit_in_a_cache(weights, most):
    """Together: more displace each other, and what is read meanwhile."""

    def sums(at, n, *weights):
        return [td.bincount(at, weights=w, length=n) for w in weights]

    program = td.jit(sums).lower(np.zeros(9, int), 5, *(np.ones(9, t) for t in weights))
    (found,) = (n for n in program.kernels if isinstance(n, Permute))
    kernel = lower(found, LoweringContext()).kernels[0]
    named = {v.name: e for v, e in zip(kernel.scalars, kernel.scalar_values, strict=True)}
    assert str(named["copies"]) == f"select((maximum(int64(n), 0) <= {most}), 4, 1)"


def test_one_copy_alone_is_no_copy():
    # Whatever the threads: what repeats its bits on one machine does so on another.
    at = np.arange(40_000) % 5000
    made = td.permute(plus, np.zeros(5000, "f4"), lambda k: td.use(at)[k], np.ones(at.size, "f4"))
    for threads in (1, 64):
        lowered = lower(made._leaves[0].node, LoweringContext(threads=threads))
        assert any("ordered" in k.name for k in lowered.kernels)


@pytest.mark.parametrize(("type_", "threads", "count", "tasks"), [
    ("i8", 1, 400_000, [1]),  # in order
    ("i8", 2, 400_000, [2, 64]),
    ("i8", 16, 400_000, [3, 64]),  # two updates for each element of a copy
    ("i8", 2, 4_000_000, [8, 64]),  # not seven
    ("i8", 2, 100_000, [1]),
    ("f8", 2, 4_000_000, [7, 64]),  # other chunks would have other bits
    ("f8", 16, 4_000_000, [7, 64]),
])  # fmt: skip
def test_each_thread_has_as_many_chunks(type_, threads, count, tasks):
    at, weights = np.zeros(count, "i8"), np.ones(count, type_)
    start = np.zeros(1 << 16, type_)
    program = td.jit(lambda at, w, start: start.at[at].add(w)).lower(at, weights, start)
    known = {e: n for leaf, a in zip(program.inputs, (at, weights, start), strict=True)
             for e, n in zip(leaf.leaf().shape, a.shape, strict=True)}  # fmt: skip
    launches = lowering_report(
        program.kernels[-1], LoweringContext(threads=threads), known
    ).launches
    assert [int(re.search(r"(\d+) task", text)[1]) for text in launches] == tasks


@pytest.mark.usefixtures("small_blocks")
def test_ordered_updates_keep_the_order(monkeypatch):
    monkeypatch.setattr(permute, "PRIVATE_TARGET", 0)
    rng = np.random.default_rng(0)
    at, x = rng.integers(0, 40, 60), rng.random(60).astype("f4")
    start = np.zeros(40, "f4")
    for value in (lambda a: a, lambda a: td.where(a > 0.1, td.cast(td.sqrt(a), td.float32), a)):
        source = value(td.use(x))
        made = td.permute(plus, start, lambda k: td.use(at)[k], source)
        want = start.copy()
        for k, v in zip(at, td.run(source), strict=True):
            want[k] += v
        for seed in (0, 1):
            assert np.array_equal(run_array(made, seed=seed), want)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize(
    ("rows", "columns", "angles"), [(5, 7, 40), (3, 0, 9), (0, 4, 9), (6, 5, 1)]
)
def test_a_condition_of_a_row_is_tested_once(rows, columns, angles):
    # Votes of the points that a mask selects: nothing is computed for the others.
    rng = np.random.default_rng(0)
    mask, slope = rng.random((rows, columns)) < 0.4, rng.integers(1, 4, angles)
    m, s, bins = td.use(mask), td.use(slope), 50

    def by_cond(i, j, t):
        return td.cond(m[i, j], ((s[t] * j + i) % bins, t), td.ignore)

    def by_and(i, j, t):  # its second part is read where the first holds only
        inside = (t < angles - 1) & m[i, j]
        return td.cond(inside, ((s[t] * j + i) % bins, t), td.ignore)

    ones = td.broadcast_to(td.ones((), td.int64), (rows, columns, angles))
    for place, last in ((by_cond, angles), (by_and, angles - 1)):
        votes = td.permute(plus, td.zeros((bins, angles), td.int64), place, ones)
        expected = np.zeros((bins, angles), int)
        for i, j, t in np.argwhere(np.repeat(mask[:, :, None], last, 2)):
            expected[(slope[t] * j + i) % bins, t] += 1
        assert np.array_equal(run_array(votes), expected)
        assert np.array_equal(run_array(votes, check=True), expected)


def test_what_a_row_needs_is_tested_outside_of_its_loop():
    mask = np.ones((5, 7), bool)

    def votes(m, x):
        where = lambda i, j, t: td.cond(m[i, j], (td.cast(x[t] * j, td.int64), t), td.ignore)
        ones = td.broadcast_to(td.ones((), td.int64), (*m.shape, x.shape[0]))
        return td.permute(plus, td.zeros((50, x.shape[0]), td.int64), where, ones)

    node = td.jit(votes).lower(mask, np.ones(9)).kernels[-1]
    for kernel in lower(node, LoweringContext()).kernels[:1]:
        text = ir.show(kernel)
        head = text[: text.index("for j")]
        assert "m[" in head and "m[" not in text[len(head) :], text


def test_rows_are_split_where_conditions_on_indices_guard_reads():
    """As rows of elements are: a vector would load both sides, and select."""

    def loss(y):
        return td.sum(td.iterate(3, lambda y: y * td.concatenate([td.ones(2), y[:-2]]), y))

    program = td.jit(td.grad(loss)).lower(np.linspace(0.5, 1.5, 40))
    (node,) = (n for n in program.kernels if isinstance(n, Permute) and n.fused)
    (kernel,) = lower(node, LoweringContext()).kernels
    text = ir.show(kernel)
    assert text.count("for j") == 2
    assert "if" not in text[text.index("for j") :], text
