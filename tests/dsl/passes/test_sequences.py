"""Loops that write a few elements in each iteration are one kernel."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from benchmarks.cliffs.loops import fannkuch
from treadle.dsl.expr import TRUE, Index, While, constant, walk
from treadle.dsl.graph import BEGIN, ArrayLoop, Sequential, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.target import NATIVE
from treadle.skeletons.lower.lower import LoweringContext, lower


def kinds(f: Any, *args: Any, backend: str = "native", check: bool = False) -> tuple[int, int]:
    """How many sequences and loops remain."""
    program = td.jit(f, backend="native").lower(*args)
    nodes = list(
        topological(run_passes(program.source_roots, Settings(check=check), backend).roots)
    )
    return tuple(sum(isinstance(n, t) for n in nodes) for t in (Sequential, ArrayLoop))  # type: ignore[return-value]


def fibonacci(start: Any) -> Any:
    return td.loop(2, start.shape[0], lambda k, t: t.at[k].set(t[k - 1] + t[k - 2]), start)


def sums(start: Any, to: Any, of: Any) -> Any:
    """At places that data decide, from what the additions before have made."""
    return td.loop(to.shape[0], lambda k, t: t.at[to[k]].add(0.5 * t[of[k]] + 1), start)


def chased(start: Any, n: Any) -> Any:
    """The place to write to is read from the state."""
    return td.loop(n, lambda k, t: t.at[t[k]].set((t[t[k]] + 3) % t.shape[0]), start)


def halves(start: Any, n: Any) -> Any:
    """Some iterations write nothing."""

    def step(k: Any, t: Any) -> Any:
        return t.at[td.where(t[k] % 2 == 0, k, -k - 1) + 0 * k].max(t[k] // 2 + t[k - 1])

    return td.loop(1, n, step, start)


def test_an_iteration_reads_what_those_before_wrote() -> None:
    start = np.arange(40)
    want = start.copy()
    for k in range(2, 40):
        want[k] = want[k - 1] + want[k - 2]
    assert np.array_equal(td.jit(fibonacci, backend="native")(start), want)
    assert np.array_equal(start, np.arange(40))  # the argument is as it was
    assert kinds(fibonacci, start) == (1, 0)
    assert kinds(fibonacci, start, check=True) == kinds(fibonacci, start, backend="cuda") == (0, 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
def test_on_every_backend_alike(n: int) -> None:
    rng = np.random.default_rng(n)
    numbers, places = rng.random(31), rng.integers(0, 31, (2, n))
    links = rng.permutation(max(n, 2) + 5)
    for f, args in ((sums, (numbers, *places)), (chased, (links, n)), (halves, (links, n)),
                    (fibonacci, (links,))):  # fmt: skip
        found, want = (td.jit(f, backend=b)(*args) for b in ("native", "reference"))
        assert found.tobytes() == want.tobytes(), f.__name__
        assert kinds(f, *args) == (1, 0), f.__name__


def test_inside_loops_and_beside_other_readers() -> None:
    """The outer loop is another axis of the kernel; others read the initial value."""

    def f(a: Any, b: Any, rounds: Any) -> Any:
        def around(r: Any, t: Any) -> Any:
            return td.loop(1, b.shape[0], lambda k, t: t.at[k].set(t[k - 1] + b[k] * a[r]), t)

        return td.loop(rounds, around, b) - b

    a, b = np.arange(1.0, 6.0), np.linspace(-1, 1, 50)
    want = b.copy()
    for r in range(5):
        for k in range(1, 50):
            want[k] = want[k - 1] + b[k] * a[r]
    assert np.array_equal(td.jit(f, backend="native")(a, b, 5), want - b)
    assert np.array_equal(td.jit(f, backend="native")(a[:0], b, 0), 0 * b)
    assert kinds(f, a, b, 5) == (1, 0)
    text = td.jit(f, backend="native").lower(a, b, 5).explain()
    assert "one kernel writes an element in each iteration" in text


def test_an_iteration_returns_what_another_state_begins_with() -> None:
    """The derivative of a loop that does not use its state: its cotangent becomes 0, and the sum
    for what it does use begins with the same 0."""
    x = np.array([0.1, 0.7, -0.4])

    def loss(a: Any) -> Any:
        return td.sum(td.scan(lambda s, v: (td.tanh(a + v), v), a, x)[0])

    for a in (np.float64(0.3), np.full(4, 0.3)):
        found = td.jit(td.grad(loss), backend="native")(a)
        np.testing.assert_allclose(found, np.full_like(a, 1 - np.tanh(0.3 + x[-1]) ** 2))


def test_the_initial_value_keeps_its_elements() -> None:
    """What is read of the array that the state starts from is not what the loop has written."""

    def own(b: Any) -> Any:
        return td.loop(1, b.shape[0], lambda k, t: t.at[k].set(t[k - 1] + b[k - 1]), b)

    def computed(b: Any) -> Any:
        return td.loop(1, b.shape[0], lambda k, t: t.at[k].set(t[k - 1] + (2 * b)[k - 1]), 2 * b)

    def outer(b: Any) -> Any:
        def around(r: Any, t: Any) -> Any:
            n = t.shape[0]
            return td.loop(1, n, lambda k, s: s.at[k].set(s[k - 1] + 0.5 * t[k - 1] + r), t)

        return td.loop(0, 4, around, b)

    b = np.random.default_rng(1).random(50)
    start = b.copy()
    for f in (own, computed, outer):
        found, want = (td.jit(f, backend=x)(b) for x in ("native", "reference"))
        assert found.tobytes() == want.tobytes(), f.__name__
        assert kinds(f, b)[0] == 1, f.__name__
        assert np.array_equal(b, start)


def edit_distances(a: Any, b: Any) -> Any:
    def border(i: Any, j: Any) -> Any:
        return td.where(i == 0, j, td.where(j == 0, i, 0))

    def cell(i: Any, j: Any, d: Any) -> Any:
        least = td.minimum(d[i, j + 1] + 1, d[i + 1, j] + 1)
        return d.at[i + 1, j + 1].set(td.minimum(least, d[i, j] + td.where(a[i] == b[j], 0, 1)))

    def row(i: Any, d: Any) -> Any:
        return td.loop(0, b.shape[0], lambda j, d: cell(i, j, d), d)

    return td.loop(0, a.shape[0], row, td.generate((a.shape[0] + 1, b.shape[0] + 1), border))


def test_indices_that_are_always_in_range_are_not_tested() -> None:
    a = np.arange(5)
    program = td.jit(edit_distances, backend="native").lower(a, a)
    roots = run_passes(program.source_roots, Settings(), "native").roots
    (node,) = (n for n in topological(roots) if isinstance(n, Sequential))
    assert node.valid == (TRUE,)
    assert node.target == tuple(apply_primitive("add", [Index(k), constant(1)]) for k in (0, 1))
    below = td.jit(lambda t, n: td.loop(n, lambda k, t: t.at[k - 1].set(k), t), backend="native")
    # k − 1 is −1 at first, which is the last index, and too large at the end.
    assert below(np.zeros(3), 6).tolist() == [1, 2, 3]
    assert below(np.zeros(3), 3).tolist() == [1, 2, 0]


def scaled_rows(b: Any) -> Any:
    """A number of the outer iteration is computed inside the nest."""

    def around(r: Any, t: Any) -> Any:
        scale = 0.5 * r * b[2 * r] + 1
        return td.loop(0, 6, lambda q, t: td.loop(1, 20, lambda k, t: t.at[k].add(
            scale * t[k - 1] - q), t), t)  # fmt: skip

    return td.loop(0, 5, around, td.ones(20))


def test_nests_of_loops_are_one_kernel() -> None:
    rng = np.random.default_rng(3)
    a, b, x = rng.integers(0, 4, 23), rng.integers(0, 4, 31), rng.random(20)
    pairs = ((a, b), (a[:0], b), (a, b[:0]))
    for f, args in (*((edit_distances, pair) for pair in pairs), (scaled_rows, (x,))):
        found, want = (td.jit(f, backend=k)(*args) for k in ("native", "reference"))
        assert found.tobytes() == want.tobytes(), f.__name__
        assert kinds(f, *args) == (1, 0), f.__name__


def test_nests_whose_lengths_differ() -> None:
    """The inner loop's length, or a number that it uses, depends on what the outer loop does."""

    def triangle(b: Any, n: Any) -> Any:
        return td.loop(0, 20, lambda r, t: td.loop(
            0, r, lambda k, t: t.at[r].add(0.1 * t[k]), t), b)  # fmt: skip

    def lengths(b: Any, n: Any) -> Any:
        return td.loop(0, 4, lambda r, t: td.loop(
            0, n[r], lambda k, t: t.at[k + 1].add(0.1 * t[k] - r), t), b)  # fmt: skip

    def heads(b: Any, n: Any) -> Any:
        def around(r: Any, t: Any) -> Any:
            head = t[r] + 1
            return td.loop(0, 19, lambda k, s: s.at[k].add(head * s[k + 1]), t)

        return td.loop(0, 5, around, b)

    b, n = np.random.default_rng(4).random(20), np.array([3, 0, 7, 19])
    for f in (triangle, lengths, heads):
        found, want = (td.jit(f, backend=k)(b, n) for k in ("native", "reference"))
        assert found.tobytes() == want.tobytes(), f.__name__
        assert kinds(f, b, n) == (1, 0), f.__name__
    text = td.jit(triangle, backend="native").lower(b, n).explain()
    assert "written in each iteration, in place" in text


def test_dask_computes_them_in_one_block() -> None:
    da = pytest.importorskip("dask.array")
    x = np.arange(1.0, 13.0)

    def f(x: Any) -> Any:
        return td.loop(1, x.shape[0], lambda k, t: t.at[k].set(t[k - 1] + t[k]), x)

    found = td.jit(f)(da.from_array(x, chunks=5))
    assert np.array_equal(found.compute(scheduler="synchronous"), np.cumsum(x))


def test_what_reads_outside_is_not_computed_without_an_iteration() -> None:
    def f(a: Any, i: Any, n: Any) -> Any:
        return td.loop(n, lambda k, t: t.at[k].set(t[k] + a[td.sum(i)]), td.zeros(9))

    a, i = np.ones(3), np.array([1, 1])
    assert np.array_equal(td.jit(f, backend="native")(a, i, 4), np.r_[np.ones(4), np.zeros(5)])
    assert np.array_equal(td.jit(f, backend="native")(a[:0], i + (1 << 40), 0), np.zeros(9))


def exchanged(t: Any, n: Any) -> Any:
    return td.loop(n, lambda k, t: t.at[td.stack([k, k + 1])].set(t[td.stack([k + 1, k])]), t)


def shuffled(t: Any, n: Any) -> Any:
    """Each of two writes needs what the other overwrites."""

    def step(k: Any, t: Any) -> Any:
        j = (7 * k + 3) % t.shape[0]
        return t.at[k].set(t[j]).at[j].set(t[k])

    return td.loop(n, step, t)


def counted(t: Any, n: Any) -> Any:
    def step(k: Any, s: Any) -> Any:
        t, total = s
        return t.at[k].set(total + t[k]), total + t[k]

    return td.loop(n, step, (t, td.unit(0.0)))


def walked(t: Any, n: Any) -> Any:
    """A walk that counts its visits: a number, a place of two elements and two arrays."""

    def step(k: Any, s: Any) -> Any:
        t, visits, place, drawn = s
        m = t.shape[0]
        drawn = (drawn * 1103515245 + 12345) % 2147483648
        to = td.stack([(place[1] + drawn) % m, place[0]])
        visits = visits.at[to[0]].add(1)
        return t.at[to[1]].add(visits[to[0]] + t[place[0]]), visits, to, drawn

    start = (t, td.zeros(t.shape[0], td.int64), td.use(np.array([1, 2])), td.unit(17))
    return td.loop(n, step, start)


def pairs_in_order(t: Any, n: Any) -> Any:
    """Tuples as elements; the states of an iteration change places."""

    def step(k: Any, s: Any) -> Any:
        both, a, b = s
        at = k % 5
        new = td.zip(td.reshape(a + t[k], (1,)), td.reshape(b, (1,)))
        both = td.permute(td.overwrite, both, lambda i: at, new)
        return both, b + td.unzip(both)[0][at], a

    first = td.zip(td.zeros(5), td.ones(5))
    both, a, b = td.loop(n, step, (first, td.unit(1.0), td.unit(2.0)))
    return (*td.unzip(both), a, b)


def written_outside(t: Any, n: Any) -> Any:
    """Of an index that is out of range nothing is written, and nothing is read for it."""

    def step(k: Any, t: Any) -> Any:
        old = t[k]
        return t.at[k].set(-1.0).at[k + 5].set(t[k + 5] + old).at[k].add(old)

    return td.loop(n, step, t)


@pytest.mark.sample(6)
@pytest.mark.parametrize("n", [0, 1, 12])
@pytest.mark.parametrize(
    "f", [exchanged, shuffled, counted, walked, pairs_in_order, written_outside]
)
def test_iterations_that_write_several_elements(f: Any, n: int) -> None:
    x = np.random.default_rng(5).integers(1, 90, 13) * 1.0
    found, want = (td.jit(f, backend=b)(x, n) for b in ("native", "reference"))
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, want)), strict=True):
        assert np.array_equal(a, b), f.__name__
    assert kinds(f, x, n) == (1, 0), f.__name__


def test_a_number_goes_from_task_to_task() -> None:
    """A kernel of several tasks loads in each what the one before has stored."""

    def f(t: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            t, total = s
            return t.at[k % 7].add(total), (5 * total + t[3] + k) % 1009

        return td.loop(300_000, step, (t, td.unit(1)))

    want, total = list(range(7)), 1
    for k in range(300_000):
        fourth = want[3]
        want[k % 7] += total
        total = (5 * total + fourth + k) % 1009
    found = td.jit(f, backend="native")(np.arange(7))
    assert found[0].tolist() == want and found[1] == total


def test_replayed_calls_begin_with_the_same_number() -> None:
    def f(t: Any, n: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            t, total = s
            return t.at[k % 7].add(total), (5 * total + t[3] + k) % 1009

        return td.loop(n, step, (t, 1))

    compiled = td.jit(f, backend="native")
    for n in (20, 20, 20, 20, 20, 30, 30, 30, 30):
        t, total = list(range(7)), 1
        for k in range(n):
            fourth = t[3]
            t[k % 7] += total
            total = (5 * total + fourth + k) % 1009
        want = np.array(t), np.array(total)
        assert all(map(np.array_equal, compiled(np.arange(7), n), want))


def test_what_the_iteration_before_wrote_stays_in_a_register() -> None:
    """Rows of any length, none included; several tasks; reads that only some iterations do."""

    def sums(t: Any) -> Any:
        def cell(i: Any, j: Any, t: Any) -> Any:
            return t.at[i, j + 1].set(t[i, j + 1] + 0.5 * t[i, j] - t[(3 * i) % t.shape[0], 0])

        n, m = t.shape
        return td.loop(n, lambda i, t: td.loop(m - 1, lambda j, t: cell(i, j, t), t), t)

    def some(t: Any) -> Any:
        def step(k: Any, t: Any) -> Any:
            return t.at[k].set(td.where(k > 0, t[k - 1], 1.0) + t[k])

        return td.loop(t.shape[0], step, t)

    rng = np.random.default_rng(7)
    for shape in ((5, 1), (0, 4), (3, 9), (40, 700), (2, 9000)):
        x = rng.random(shape)
        found, want = td.jit(sums, backend="native")(x), x.copy()
        for i in range(shape[0]):
            for j in range(shape[1] - 1):
                want[i, j + 1] += 0.5 * want[i, j] - want[(3 * i) % shape[0], 0]
        assert np.allclose(found, want, rtol=1e-13)
        assert np.allclose(td.jit(some, backend="native")(x[:, 0]), 1 + np.cumsum(x[:, 0]))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 1), (5, 3), (3, 9), (2, 2)])
def test_iterations_at_the_end_that_write_nothing_are_not_made(shape: tuple[int, int]) -> None:
    def passed_on(u: Any) -> Any:
        n = u.shape[0]

        def row(i: Any, u: Any) -> Any:
            return td.loop(n, lambda j, u: u.at[i, j + 1].set(0.5 * u[i, j] + i), u)

        return td.loop(n, row, u)

    u = np.random.default_rng(4).random(shape)
    program = td.jit(passed_on, backend="native").lower(u)
    assert np.array_equal(program(u), td.jit(passed_on, backend="reference")(u))
    (node,) = (n for n in topological(program.roots) if isinstance(n, Sequential))
    assert node.valid == (TRUE,) and "minimum" in str(node.domain[1])


def test_the_element_before_the_written_one_is_read_after_the_write() -> None:
    def f(x: Any) -> Any:
        def step(j: Any, s: Any) -> Any:
            h = s[0].at[j + 1].set(0.5 * s[0][j] + x[j])
            return h, s[1].at[j].set(h[j])

        n = x.shape[0]
        return td.loop(n, step, (td.zeros(n + 1), td.zeros(n)))

    x = np.arange(1.0, 9.0)
    after, before = td.jit(f, backend="native")(x)
    assert np.array_equal(before, after[:-1]) and after[2] == 2.5
    assert kinds(f, x) == (1, 0)


def diffused(image: Any) -> Any:
    """Errors of rounding passed on to four neighbours (Floyd and Steinberg 1976)."""
    h, w = image.shape

    def pixel(i: Any, j: Any, t: Any) -> Any:
        old = t[i, j]
        new = td.where(old < 128, 0.0, 255.0)
        error = old - new
        t = t.at[i, j].set(new).at[i, j + 1].add(error * 7 / 16)
        t = t.at[i + 1, td.where(j > 0, j - 1, w)].add(error * 3 / 16)
        return t.at[i + 1, j].add(error * 5 / 16).at[i + 1, j + 1].add(error / 16)

    def row(i: Any, t: Any) -> Any:
        return td.loop(w, lambda j, t: pixel(i, j, t), t)

    return td.loop(h, row, image)


def test_nests_that_write_several_elements() -> None:
    image = np.random.default_rng(6).random((9, 14)) * 255
    want = image.copy()
    for i in range(9):
        for j in range(14):
            old = want[i, j]
            want[i, j] = 0 if old < 128 else 255
            error = old - want[i, j]
            for y, x, part in ((0, 1, 7), (1, -1, 3), (1, 0, 5), (1, 1, 1)):
                if i + y < 9 and 0 <= j + x < 14:
                    want[i + y, j + x] += error * part / 16
    assert np.array_equal(td.jit(diffused, backend="native")(image), want)
    assert np.array_equal(td.jit(diffused, backend="reference")(image), want)
    assert kinds(diffused, image) == (1, 0)
    text = td.jit(diffused, backend="native").lower(image).explain()
    assert "one kernel writes 5 elements in each iteration" in text
    assert "5 written in each iteration, in place" in text


def test_other_loops_stay() -> None:
    """Those that write a part that may be large, or need an array as it was long before."""

    def rows(t: Any) -> Any:
        return td.loop(1, 12, lambda k, t: t.at[:k].add(t[k]), t)

    def kept(t: Any) -> Any:
        return td.loop(5, lambda k, t: td.where(k > 2, t, 0.0).at[k].add(t[k + 1]), t)

    x = np.arange(12.0)
    for f in (rows, kept):
        assert kinds(f, x) == (0, 1), f.__name__
        found, want = (td.jit(f, backend=b)(x) for b in ("native", "reference"))
        assert np.array_equal(found, want)


def test_a_saved_program_runs_the_same(tmp_path: Any) -> None:
    start = np.arange(40)
    program = td.jit(fibonacci, backend="native").lower(start)
    program.save(tmp_path / "fibonacci.treadle")
    assert np.array_equal(td.load(tmp_path / "fibonacci.treadle")(start), program(start))
    assert program.explain().count("Kernel ") == 1
    assert program.source("native")


def test_what_an_iteration_waits_for_comes_last() -> None:
    """Minima are grouped so that the next iteration waits for one of them."""

    def least(d: Any) -> Any:
        def cell(i: Any, j: Any, d: Any) -> Any:
            return d.at[i + 1, j + 1].set(td.minimum(td.minimum(d[i, j + 1], d[i + 1, j]), d[i, j]))

        n, m = d.shape
        return td.loop(n - 1, lambda i, d: td.loop(m - 1, lambda j, d: cell(i, j, d), d), d)

    x = np.random.default_rng(2).standard_normal((5, 7)).round(1)
    x[3, 4], x[4, 1] = np.nan, -0.0
    program = td.jit(least, backend="native").lower(x)
    (node,) = (n for n in topological(program.roots) if isinstance(n, Sequential))
    text = str(lower(node, LoweringContext(target=NATIVE)).kernels[0])
    assert "= minimum(minimum(out[" in text and ", before)\n" in text, text
    want = td.jit(least, backend="reference")(x)
    assert np.array_equal(program(x).view(np.int64), want.view(np.int64))


# --- loops with a predicate -------------------------------------------------------------------


def breadth_first(walls: Any, start: Any, n: int, dropped: bool) -> Any:
    """The steps to each cell from `start`, by a queue."""
    m = walls.shape[0]

    def visit(state: Any) -> Any:
        steps, queue, head, tail = state
        cell = queue[head]
        for by in (1, -1, n, -n):
            to = cell + by
            free = ~walls[to] & (steps[to] < 0)
            if dropped:
                steps = steps.at[td.where(free, to, m)].set(steps[cell] + 1)
                queue = queue.at[td.where(free, tail, m)].set(to)
            else:
                steps = td.cond(free, steps.at[to].set(steps[cell] + 1), steps)
                queue = td.cond(free, queue.at[tail].set(to), queue)
            tail = td.where(free, tail + 1, tail)
        return steps, queue, head + 1, tail

    steps = td.full(m, -1).at[start].set(0)
    queue = td.zeros(m, dtype=td.int64).at[0].set(start)
    return td.while_loop(lambda s: s[2] < s[3], visit, (steps, queue, 0, 1))[0]


@pytest.mark.parametrize("dropped", [False, True], ids=["cond", "dropped"])
@pytest.mark.parametrize("n", [4, 50])
def test_a_queue(n: int, dropped: bool) -> None:
    walls = np.random.default_rng(n).random((n, n)) < 0.3
    walls[0] = walls[-1] = True
    walls[:, 0] = walls[:, -1] = True
    walls[1, 1:3] = False
    flat = walls.ravel()
    want = np.full(n * n, -1)
    want[n + 1] = 0
    queue = [n + 1]
    for cell in queue:
        for to in (cell + 1, cell - 1, cell + n, cell - n):
            if not flat[to] and want[to] < 0:
                want[to] = want[cell] + 1
                queue.append(to)
    f = lambda w, start: breadth_first(w, start, n, dropped)
    assert np.array_equal(td.jit(f, backend="native")(flat, n + 1), want)
    assert kinds(f, flat, n + 1) == (1, 1)


def roots_of(parents: Any, x: Any) -> Any:
    """Path halving: the predicate reads the array that is written."""
    return td.while_loop(
        lambda s: s[0][s[1]] != s[1],
        lambda s: (s[0].at[s[1]].set(s[0][s[0][s[1]]]), s[0][s[0][s[1]]]),
        (parents, x),
    )


def insertion(values: Any, x: Any) -> Any:
    """Moves larger values up until the place is found; nothing is read below the first."""
    return td.while_loop(
        lambda s: (s[1] > 0) & (s[0][td.maximum(s[1] - 1, 0)] > x),
        lambda s: (s[0].at[s[1]].set(s[0][s[1] - 1]), s[1] - 1),
        (values, values.shape[0] - 1),
    )


def exchanged(a: Any, n: Any) -> Any:
    """Both ends move to the middle."""

    def swap(s: Any) -> Any:
        a, i, j = s
        return a.at[i].set(a[j]).at[j].set(a[i]), i + 1, j - 1

    return td.while_loop(lambda s: s[1] < s[2], swap, (a, 0, n - 1))[0]


def chained(next_: Any, start: Any) -> Any:
    """A list is followed to its end, beyond which there is nothing to read."""

    def step(s: Any) -> Any:
        at, order, n = s
        return next_[at], order.at[at].set(n), n + 1

    return td.while_loop(lambda s: s[0] >= 0, step, (start, td.full(next_.shape[0], -1), 0))


def test_paths_insertions_exchanges_lists() -> None:
    rng = np.random.default_rng(5)
    n = 3000
    parents = np.maximum(np.arange(n) - rng.integers(1, 3, n), 0)
    parents[0] = 0
    want, x = parents.copy(), n - 1
    while want[x] != x:
        want[x] = want[want[x]]
        x = want[x]
    found, root = td.jit(roots_of, backend="native")(parents, n - 1)
    assert np.array_equal(found, want) and root == x
    assert kinds(roots_of, parents, n - 1) == (1, 1)
    values = np.sort(rng.random(2500))
    for x in (-1.0, 0.5, 2.0):
        found, place = td.jit(insertion, backend="native")(values, x)
        after = min(np.searchsorted(values, x, "right"), len(values) - 1)
        assert place == after
        assert np.array_equal(found, np.concatenate(
            [values[:after], values[after : after + 1], values[after:-1]]))  # fmt: skip
    assert kinds(insertion, values, 0.5) == (1, 1)
    for n in (0, 1, 2, 1023, 2048, 4097):
        a = rng.random(max(n, 1))
        assert np.array_equal(td.jit(exchanged, backend="native")(a, n), a[::-1] if n else a)
    assert kinds(exchanged, values, 9) == (1, 1)
    order = rng.permutation(2048)
    next_ = np.empty(2048, np.int64)
    next_[order[:-1]], next_[order[-1]] = order[1:], -(1 << 40)
    at, places, count = td.jit(chained, backend="native")(next_, order[0])
    assert at < -1 and count == 2048 and np.array_equal(places[order], np.arange(2048))
    assert kinds(chained, next_, order[0]) == (1, 1)
    at, places, count = td.jit(chained, backend="native")(next_, -5)
    assert at == -5 and count == 0 and np.all(places == -1)


def test_branches_that_write_or_not() -> None:
    def f(a: Any, flags: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            a, hits = s
            more = td.cond(flags[k], a.at[k].add(a[k - 1]), a)
            less = td.cond(a[k] > 3, more, more.at[0].set(k))
            return less, td.cond(flags[k], hits + 1, hits)

        return td.loop(1, a.shape[0], step, (a, 0))

    rng = np.random.default_rng(6)
    a, flags = rng.integers(0, 7, 50), rng.random(50) < 0.5
    want, hits = a.copy(), 0
    for k in range(1, 50):
        before = want[k]
        if flags[k]:
            want[k] += want[k - 1]
            hits += 1
        if before <= 3:
            want[0] = k
    found, count = td.jit(f, backend="native")(a, flags)
    assert np.array_equal(found, want) and count == hits
    assert kinds(f, a, flags) == (1, 0)


def test_a_branch_reads_what_exists_only_there() -> None:
    """An index far outside on the side that is not taken is not read."""

    def f(a: Any, at: Any) -> Any:
        def step(k: Any, a: Any) -> Any:
            return td.cond(at[k] >= 0, a.at[k].set(a[at[k]] + 1), a)

        return td.loop(at.shape[0], step, a)

    at = np.array([1, -(1 << 45), 0, -(1 << 45)])
    found = td.jit(f, backend="native")(np.arange(4.0), at)
    assert found.tolist() == [2, 1, 3, 3]
    assert kinds(f, np.arange(4.0), at) == (1, 0)


def sorted_by_exchanges(a: Any) -> Any:
    """Sorted by exchanges of neighbours, until a round makes none."""

    def step(s: Any) -> Any:
        a, i, made = s
        x, y = a[i], a[i + 1]
        a = a.at[i].set(td.minimum(x, y)).at[i + 1].set(td.maximum(x, y))
        last = i + 2 >= a.shape[0]
        return a, td.where(last, 0, i + 1), td.where(last, 0, made + (x > y))

    return td.while_loop(lambda s: (s[1] != 0) | (s[2] > 0), step, (a, 0, 1))[0]


def versions(a: Any, most: Any) -> Any:
    """Each write reads what those before it have written, and the test an element."""

    def step(s: Any) -> Any:
        t, i, total = s
        u = t.at[i].set(t[i] + 1)
        v = u.at[(i + 1) % 5].set(2 * u[i] + t[(i + 1) % 5]).at[td.stack([0, 0, i])].add(i)
        return v, (i + v[i]) % 5, (total + t[i] + u[i] + td.where(v[0] > t[1], v[i], u[2])) % 4096

    return td.while_loop(lambda s: (s[2] < most) & (s[0][2] >= 0), step, (a, 0, 0))


def reached(free: Any) -> Any:
    """The distances from the first place of a grid, by a queue of places."""
    h, w = free.shape
    n = h * w

    def step(s: Any) -> Any:
        d, queue, first, end = s
        i, j = queue[first] // w, queue[first] % w
        near = d[queue[first]]
        for y, x in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
            to = td.where(inside, y * w + x, 0)
            new = inside & free.ravel()[to] & (d[to] < 0)
            d = d.at[td.where(new, to, n)].set(near + 1)
            queue = queue.at[td.where(new, end, n)].set(to)
            end = end + new
        return d, queue, first + 1, end

    start = td.full(n, -1).at[0].set(0), td.zeros(n, td.int64), 0, 1
    return td.while_loop(lambda s: s[2] < s[3], step, start)[0]


numbers = np.random.default_rng(5).random(300)


@pytest.mark.parametrize(
    "f, args",
    [
        (sorted_by_exchanges, (numbers[:12],)),
        (versions, (np.arange(5), 4000)),
        (reached, (numbers.reshape(15, 20) > 0.3,)),
    ],
)
def test_loops_with_a_test(f: Any, args: tuple[Any, ...]) -> None:
    """The loop remains; each of its iterations is a kernel of many."""
    want = td.jit(f, backend="reference")(*args)
    compiled = td.jit(f, backend="native")
    for _ in range(6):  # Python's, recorded and replayed
        got = compiled(*args)
        parts = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        assert all(np.array_equal(x, y) for x, y in parts)
    assert kinds(f, *args) == (1, 1)
    assert kinds(f, *args, check=True) == kinds(f, *args, backend="cuda") == (0, 1)


def near_first(rows: Any, to: Any) -> Any:
    """The distances from node 0 in a graph, by a queue; `rows` are the ends of rows of `to`."""
    n = rows.shape[0] - 1

    def visit(s: Any) -> Any:
        d, queue, first, end = s
        node = queue[first]

        def edge(e: Any, s: Any) -> Any:
            d, queue, end = s
            new = d[to[e]] < 0
            d, at = td.cond(new, d.at[to[e]].set(d[node] + 1), d), end
            return d, td.cond(new, queue.at[at].set(to[e]), queue), td.where(new, end + 1, end)

        d, queue, end = td.loop(rows[node], rows[node + 1], edge, (d, queue, end))
        return d, queue, first + 1, end

    start = td.full(n, -1).at[0].set(0), td.zeros(n, td.int64), 0, 1
    return td.while_loop(lambda s: s[2] < s[3], visit, start)[0]


def insertions(a: Any) -> Any:
    """An inner loop with a test, after which an element is written."""

    def insert(k: Any, a: Any) -> Any:
        x = a[k]

        def shift(s: Any) -> Any:
            a, i = s
            return a.at[i].set(a[i - 1]), i - 1

        a, i = td.while_loop(lambda s: (s[1] > 0) & (s[0][s[1] - 1] > x), shift, (a, k))
        return a.at[i].set(x)

    return td.loop(1, a.shape[0], insert, a)


def heaps(a: Any) -> Any:
    """Two inner loops: numbers go up a heap, and the least goes out of it from the top down."""

    def least(n: Any, h: Any, i: Any) -> Any:
        left, right = td.minimum(2 * i + 1, n - 1), td.minimum(2 * i + 2, n - 1)
        return td.where(h[right] < h[left], right, left)

    def exchange(h: Any, i: Any, j: Any) -> Any:
        return h.at[i].set(h[j]).at[j].set(h[i])

    def step(k: Any, s: Any) -> Any:
        h, n, out = s
        h = h.at[n].set(a[k])
        h, _ = td.while_loop(
            lambda s: (s[1] > 0) & (s[0][s[1]] < s[0][(s[1] - 1) // 2]),
            lambda s: (exchange(s[0], s[1], (s[1] - 1) // 2), (s[1] - 1) // 2),
            (h, n),
        )
        takes = k % 3 == 2
        out = td.cond(takes, out.at[k].set(h[0]), out)
        n = n + 1 - takes
        h = td.cond(takes, h.at[0].set(h[n]), h)
        h, _ = td.while_loop(
            lambda s: (2 * s[1] + 1 < n) & (s[0][least(n, s[0], s[1])] < s[0][s[1]]),
            lambda s: (exchange(s[0], s[1], least(n, s[0], s[1])), least(n, s[0], s[1])),
            (h, td.where(takes, 0, n)),
        )
        return h, n, out

    empty = td.full(a.shape, np.inf)
    return td.loop(a.shape[0], step, (empty, 0, empty))


def primes_three_deep(n: Any) -> Any:
    """How often a number is crossed out, each by a loop, once for each number of rounds."""

    def rounds(r: Any, t: Any) -> Any:
        def number(k: Any, t: Any) -> Any:
            cross = lambda m, t: t.at[m * k].add(1)
            return td.loop(r + 2, (n - 1) // k + 1, cross, t)

        return td.loop(2, r + 4 + t[0] % 2, number, t)

    return td.loop(n // 8, rounds, td.zeros(n, td.int64))


def before_and_after(a: Any, most: Any) -> Any:
    """What an iteration reads before its inner loop is used inside of it, and after it."""

    def step(s: Any) -> Any:
        t, k, total = s
        first, n = t[k % 7], t.shape[0]
        t = t.at[(k + 1) % n].set(first + 1)
        inner = lambda i, s: (s[0].at[(i + k) % n].add(first), s[1] + s[0][i])
        t, part = td.loop(t[k % n] % 4, inner, (t, k))
        return t.at[k % n].set((t[k % n] + part) % 1000), k + 1, total + first + part

    return td.while_loop(lambda s: (s[1] < most) & (s[0][0] >= 0), step, (a, 0, 0))


def from_before(a: Any, n: Any) -> Any:
    """The inner loops use an element that has been overwritten since."""

    def step(k: Any, t: Any) -> Any:
        x = t[k % n]
        t = t.at[k % n].set(3 * x % 17)
        less = lambda s: (s[1] < n) & (s[0][s[1] % n] < x)
        t, i = td.while_loop(less, lambda s: (s[0].at[s[1] % n].add(x), s[1] + 1), (t, k % 2))
        return td.loop(t[i % n] % 4, lambda i, t: t.at[(i + k) % n].set((x + i) % 13), t)

    return td.loop(2 * a.shape[0], step, a)


def graph(n: int) -> tuple[Any, Any]:
    random = np.random.default_rng(n)
    rows = np.concatenate([[0], np.cumsum(random.integers(0, 4, n))])
    return rows, random.integers(0, n, rows[-1])


@pytest.mark.parametrize(
    "f, args",
    [
        (near_first, graph(60)),
        (near_first, graph(1)),
        (insertions, (numbers[:40],)),
        (insertions, (numbers[:1],)),
        (insertions, (np.arange(50)[::-1],)),  # inner loops in which a kernel ends
        (heaps, (numbers[:50],)),
        (heaps, (numbers[:1],)),
        (heaps, (np.random.default_rng(1).random(120),)),
        (primes_three_deep, (40,)),
        (primes_three_deep, (3,)),
        (before_and_after, (np.arange(9), 30)),
        (before_and_after, (np.arange(9), 0)),
        (from_before, (np.arange(9), 9)),
        (from_before, (np.array([5]), 1)),
    ],
)
def test_loops_as_long_as_their_iterations_decide(f: Any, args: tuple[Any, ...]) -> None:
    """A loop around them is one kernel with them."""
    want = td.jit(f, backend="reference")(*args)
    compiled = td.jit(f, backend="native")
    for _ in range(4):
        got = compiled(*args)
        parts = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        assert all(np.array_equal(x, y) for x, y in parts)
    assert kinds(f, *args) == (1, f in (near_first, before_and_after))
    assert sum(kinds(f, *args, check=True)) > 1


#: Loops three deep, of which some change a copy of the state, which another changes in place.
FANNKUCH = fannkuch(2)


def rotations(a: Any, n: Any) -> Any:
    """An inner loop begins with the row before, whose next value is another."""

    def step(k: Any, s: Any) -> Any:
        old, new, total = s
        turn = lambda i, u: u.at[(i + k) % n].set(old[(i * k + 1) % n] + u[i % n])
        new = td.loop(old[k % n] % 7, turn, old)
        old = td.loop(new[k % n] % 5, lambda i, u: u.at[i % n].add(1), old)
        return old, new, total + new[k % n]

    return td.loop(9, step, (a, 2 * a, 0))


@pytest.mark.parametrize(
    "f, args",
    [
        (FANNKUCH.jits[""].__wrapped__, FANNKUCH.data),
        (rotations, (np.arange(3, 10), 7)),
        (rotations, (np.array([4]), 1)),
    ],
)
def test_inner_loops_that_change_copies(f: Any, args: tuple[Any, ...]) -> None:
    """What an inner loop begins with is copied in the kernel if the iteration needs it, too."""
    program = td.jit(f, backend="native").lower(*args)
    want = td.jit(f, backend="reference")(*args)
    for _ in range(2):
        assert all(map(np.array_equal, program(*args), want))
    assert "written in each iteration, in place" in program.explain()
    if f is rotations:
        assert kinds(f, *args) == (1, 0)


@pytest.mark.parametrize("kept", [True, False])
def test_inner_loops_begin_with_what_loops_around_them_have(kept: bool) -> None:
    """The innermost loop begins, again and again, with a number that only a loop around the one
    around it changes, or that stays as it is."""

    def f(t: Any) -> Any:
        def step(k: Any, t: Any) -> Any:
            def first(i: Any, s: Any) -> Any:
                t, number = s

                def second(j: Any, t: Any) -> Any:
                    add = lambda s: (s[0].at[s[1] % 6].add(s[1]), s[1] + 3)
                    return td.while_loop(lambda s: s[1] < 9, add, (t, number))[0]

                return td.loop(2, second, t), number if kept else t[i] % 5

            t, number = td.loop(2, first, (t, t[k] % 5))
            return t.at[k].add(number)

        return td.loop(6, step, t)

    a = np.arange(3, 9)
    got, want = (td.jit(f, backend=b)(a) for b in ("native", "reference"))
    assert np.array_equal(got, want)
    assert kinds(f, a) == (1, 0)


def test_what_does_not_change_is_computed_before_inner_loops_that_begin() -> None:
    """An element that only exists where there is an iteration."""

    def f(a: Any, rows: Any) -> Any:
        def row(k: Any, t: Any) -> Any:
            x = a[rows[k]] + 1
            return td.loop(rows[k], rows[k + 1], lambda i, t: t.at[i].set(x * t[i - 1] + t[k]), t)

        return td.loop(rows.shape[0] - 1, row, td.ones(a.shape))

    a, rows = np.arange(6.0), np.array([0, 0, 2, 5, 6, 6])
    want, got = (td.jit(f, backend=b)(a, rows) for b in ("reference", "native"))
    assert np.array_equal(got, want)
    assert kinds(f, a, rows) == (1, 0)


def test_what_no_iteration_changes_is_computed_once() -> None:
    """A table that only a loop reads, which must not be computed if that has no iteration."""

    def table(x: Any, at: Any) -> Any:
        step = lambda i, t: t.at[i].set(t[td.maximum(i - 1, 0)] + x[at[i]])
        return td.loop(at.shape[0], step, td.zeros(at.shape))

    def counted(x: Any, at: Any, n: Any) -> Any:
        t = table(x, at)
        return td.loop(n, lambda k, s: s.at[k].set(s[td.maximum(k - 1, 0)] + t[k]), td.zeros(n))

    def tested(x: Any, at: Any, n: Any) -> Any:
        t = table(x, at)
        step = lambda s: (s[0].at[s[1]].set(t[s[1]]), s[1] + 1 + (t[s[1]] > 9.0))
        return td.while_loop(lambda s: s[1] < n, step, (td.zeros(n), 0))[0]

    x, at = np.random.default_rng(2).random(9), np.arange(30) % 9
    for f in (counted, tested):
        found, want = (td.jit(f, backend=b)(x, at, 25) for b in ("native", "reference"))
        assert np.array_equal(found, want)
        assert td.jit(f, backend="native")(x[:0], at + 10**15, 0).shape == (0,)
        program = td.jit(f, backend="native").lower(x, at, 25)
        sequences = [n for n in topological(program.roots) if isinstance(n, Sequential)]
        assert len(sequences) == 2  # and not one with the table's loop in it
        assert not any(k == BEGIN for n in sequences for k in n.written)


def test_loops_in_branches() -> None:
    """A branch that runs loops or leaves an array: loops that may have no iteration."""

    def root(parent: Any, k: Any) -> Any:  # of a tree, whose paths are halved
        def halve(s: Any) -> Any:
            parent, k = s
            above = parent[parent[k]]
            return parent.at[k].set(above), above

        return td.while_loop(lambda s: s[0][s[1]] != s[1], halve, (parent, k))

    def joined(n: Any, a: Any, b: Any, p: Any) -> Any:
        def join(k: Any, parent: Any) -> Any:
            new, first = root(parent, a[k])
            new, second = root(new, b[k])
            new = new.at[td.maximum(first, second)].set(td.minimum(first, second))
            return td.cond(p[k], new, parent)

        return td.loop(a.shape[0], join, td.iota(n))

    def moved(n: Any, a: Any, b: Any, p: Any) -> Any:
        """In both directions, in branches that follow each other and are in each other; of the
        side that is not chosen nothing is read, nor are its lengths."""

        def step(k: Any, s: Any) -> Any:
            t, number = s
            far = a[k + 10**15 * p[k]]
            up = td.loop(far % 3, lambda i, t: t.at[i].add(t[b[k]] + number), t)
            t = td.cond(p[k], t, up.at[far % n].set(far))
            down = td.loop(b[k], lambda i, t: t.at[i].set(t[i] * (i + 1) - a[k]), t)
            t = td.cond(b[k] > 1, td.cond(p[k], down, t), t)
            return t, td.where(t[0] > 5, number + 1, number)

        return td.loop(a.shape[0], step, (td.iota(n), 0))

    rng = np.random.default_rng(4)
    for f in (joined, moved):
        for n, steps in ((5, 40), (50, 40), (5, 0)):
            a, b = rng.integers(0, n, (2, steps))
            args = n, a, b, rng.random(steps) < 0.6
            found, want = (td.jit(f, backend=x)(*args) for x in ("native", "reference"))
            pairs = [(found, want)] if f is joined else zip(found, want, strict=True)
            assert all(np.array_equal(x, y) for x, y in pairs), f.__name__
            assert kinds(f, *args) == (1, 0), f.__name__


def test_a_number_that_a_search_finds_is_the_same_as_index_and_as_value() -> None:
    """The products differ by what rounding leaves, if one of them is part of a multiply-add."""

    def f(x: Any, y: Any, u: Any, v: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            found, k = s
            turns = lambda k: (k > 0) & (x[k] * y[k] - u[k] * v[k] <= 0)
            k = td.while_loop(turns, lambda k: k - 1, k)
            return found.at[k].set(i + 1), k + 1 + i % 3

        return td.loop(x.shape[0], step, (td.zeros(4 * x.shape[0], td.int64), 0))

    x, y = np.random.default_rng(0).random((2, 40))
    program = td.jit(f, backend="native").lower(x, y, x.copy(), y.copy())
    found, number = program(x, y, x.copy(), y.copy())
    assert found[number - 1] == 40  # where the last iteration was, and said that it was
    (node,) = (n for n in topological(program.roots) if isinstance(n, Sequential))
    text = str(lower(node, LoweringContext(target=NATIVE)).kernels[0])
    assert text.count("while:") == 1, text


def test_what_a_branch_chooses_is_in_it() -> None:
    """The next number depends on a test that decides about a write."""

    def f(a: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            a, number = s
            new = a[(k * k) % a.shape[0]] > 0.5
            a, at = td.cond(new, a.at[number].set(k), a), number + 2 * k
            return a, td.where(new, td.where(k % 3 == 0, 0, at % a.shape[0]), number)

        return td.loop(a.shape[0], step, (a, 0))

    a = np.random.default_rng(1).random(60)
    program = td.jit(f, backend="native").lower(a)
    for got, want in zip(program(a), td.jit(f, backend="reference")(a), strict=True):
        assert np.array_equal(got, want)
    (node,) = (n for n in topological(program.roots) if isinstance(n, Sequential))
    text = str(lower(node, LoweringContext(target=NATIVE)).kernels[0])
    assert "select(value" not in text and len(re.findall("if value", text)) == 1, text


def test_choices_are_not_branches() -> None:
    """Of what data decide, a processor would predict every second one wrongly."""

    def alignment(s: Any, t: Any) -> Any:
        def cell(i: Any, j: Any, state: Any) -> Any:
            h, best = state
            match = h[i, j] + td.where(s[i] == t[j], 3, -3)
            new = td.maximum(match, td.maximum(h[i, j + 1], h[i + 1, j]) - 2)
            return h.at[i + 1, j + 1].set(new), td.maximum(best, new)

        n, m = s.shape[0], t.shape[0]
        start = td.zeros((n + 1, m + 1), dtype=td.int64), 0
        return td.loop(n, lambda i, h: td.loop(m, lambda j, h: cell(i, j, h), h), start)[1]

    def found(s: Any, t: Any, backend: str) -> Any:
        return td.jit(alignment, backend=backend)(s, t)

    s, t = np.random.default_rng(3).integers(0, 4, (2, 20))
    assert found(s, t, "native") == found(s, t, "reference")
    text = td.jit(alignment, backend="native").lower(s, t).source("native")
    body = text[text.index("@loop_sequence") :]
    chosen = [line for line in body.splitlines() if "= select i1" in line]
    assert len(chosen) >= 4 and all("!unpredictable" in line for line in chosen), body
    assert "llvm.smax" not in body  # LLVM makes branches of those, too


def test_inner_loops_are_loops_of_their_kernel() -> None:
    def number_of_loops(f: Any, *args: Any) -> list[int]:
        roots = td.jit(f, backend="native").lower(*args).roots
        found = [n for n in topological(roots) if isinstance(n, Sequential)]
        kernels = [lower(n, LoweringContext(target=NATIVE)).kernels[0] for n in found]
        return [len(re.findall(r"^ *(?:while|loop)\b", str(k), re.M)) for k in kernels]

    assert number_of_loops(near_first, *graph(60)) == [2]
    assert number_of_loops(heaps, numbers[:50]) == [2]
    assert number_of_loops(roots_of, np.arange(9), 3) == [1]


def test_indices_from_the_end_are_rare() -> None:
    """A branch that is predicted chooses them, where nothing says that an index is not negative."""
    text = str(td.jit(roots_of, backend="native").lower(np.arange(9), 3).source("native"))
    assert "!prof !3" in text and "branch_weights" in text
    gathered = td.jit(lambda a, i: a[i], backend="native").lower(np.arange(9), np.arange(3))
    assert "prof" not in str(gathered.source("native"))


def the_same_each_time(a: Any, n: Any) -> Any:
    """The inner loop is computed once, before the outer one."""

    def step(k: Any, s: Any) -> Any:
        t = td.loop(0, a[0] % 4, lambda i, t: t.at[i % n].add(i + 1), a)
        return s.at[k % s.shape[0]].add(t[k % s.shape[0]])

    return td.loop(5, step, a)


def copies(a: Any, n: Any) -> Any:
    """The second of the inner loops reads a changed copy of what is no state of it."""

    def step(k: Any, s: Any) -> Any:
        t, total = s
        t = td.loop(0, t[k % n] % 4, lambda i, t: t.at[(i + k) % n].add(1), t)

        def inner(s: Any) -> Any:
            i, total = s
            changed = a.at[(t[i % n] + i) % n].set(k)
            return i + 1, (total + td.where(total > changed[5 % n], total, changed[5 % n])) % 1000

        _, total = td.while_loop(lambda s: s[0] < t[k % n] % 5, inner, (0, total))
        return t, total

    return td.loop(6, step, (a, 1))


def copies_of_states(a: Any, n: Any) -> Any:
    """The second of the inner loops reads a changed copy of a state of the outer one."""

    def step(k: Any, s: Any) -> Any:
        t, c = s
        c = td.loop(0, c[k % n] % 4, lambda i, c: c.at[(i + k) % n].add(1), c)
        first = c[1 % n]
        t = t.at[(k + 1) % n].set(first * 3 - k)

        def inner(s: Any) -> Any:
            i, c = s
            copy = t.at[first % n].add(2)
            x, at = copy[i % n], copy[c[first % n] % n] % n
            return i + 1, c.at[at].add(td.where(x > 5, x, 6))

        return t, td.while_loop(lambda s: s[0] < k % 6, inner, (first % 3, c))[1]

    return td.loop(9, step, (a, a + 1))


def copies_in_tests(a: Any, n: Any) -> Any:
    """The test of the outer loop reads a changed copy of its state."""

    def step(s: Any) -> Any:
        k, t = s
        return k + 1, td.loop(0, t[k % n] % 4, lambda i, t: t.at[(i + k) % n].add(1), t)

    def test(s: Any) -> Any:
        k, t = s
        copy = t.at[k % n].add(100)
        return (k < 12) & (copy[copy[k % n] % n] + copy[(k + 1) % n] < 500)

    return td.while_loop(test, step, (0, a))


@pytest.mark.parametrize("f", [the_same_each_time, copies, copies_of_states, copies_in_tests])
@pytest.mark.parametrize("a", [np.arange(3, 10), np.array([7])])
def test_inner_loops_that_are_not_joined(f: Any, a: Any) -> None:
    want, got = (td.jit(f, backend=b)(a, len(a)) for b in ("reference", "native"))
    parts = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    assert all(np.array_equal(x, y) for x, y in parts)


def test_a_phase_writes_what_is_known_in_it() -> None:
    """The value of a write reads a name that no other part of its phase needs."""

    def f(t: Any, a: Any, b: Any) -> Any:
        n = t.shape[0]

        def around(k: Any, s: Any) -> Any:
            t, a, b = td.loop(s[1] % 4, lambda i, s: s, s)
            a = 1 + 0 * a
            even = (b % 2 == 0) & (a % 2 == 0)
            at = td.cond(even, (2 - b) % 101 + 0 * t[0], a + 0 * t[0])
            return t.at[at % n].max(t[1 % n]), a, b

        return td.loop(n, around, (t, a, b))

    t = np.array([-6, 18, 15, 13, -2])
    found, want = (td.jit(f, backend=b)(t, 5, 6) for b in ("native", "reference"))
    assert all(map(np.array_equal, found, want))


def test_what_an_inner_loop_checks_is_an_error() -> None:
    def f(a: Any, b: Any) -> Any:
        def inner(s: Any) -> Any:
            b, k = s
            return b.at[6].add(k), k + 1

        def step(s: Any) -> Any:
            a, b, k = s
            b, _ = td.while_loop(lambda s: (s[1] < 3) & (s[0][0] > 0), inner, (b, 0))
            return a.at[k].set(b[0]), b, k + 1

        return td.while_loop(lambda s: (s[2] < 6) & (s[0][0] >= 0), step, (a, b, 0))

    for backend in ("reference", "native"):
        g = td.jit(f, backend=backend)
        with pytest.raises(td.IndexOutOfBounds, match="index 6 is out of range"):
            g(np.arange(3), np.arange(1, 4))
        assert np.array_equal(g(np.arange(3), np.arange(1, 9))[0], [1, 1, 1])


def test_what_a_loop_around_computes_in_another_loop() -> None:
    """The second inner loop reads a number of the first, in which an update is the same always."""

    def f(a: Any, b: Any, n: Any) -> Any:
        def step(st: Any) -> Any:
            a, b, k = st

            def middle(s: Any) -> Any:
                c, x, m = s
                _, i, _ = td.while_loop(
                    lambda s: (s[2] < 2) & (s[1] < n + m),
                    lambda s: (a.at[b[k]].set(n), s[1] + x, s[2] + 1), (b, n - 1, 0),
                )  # fmt: skip
                c, _ = td.while_loop(
                    lambda s: s[1] < n + m % 2, lambda s: (a.at[i + 1].add(n), s[1] + 1), (c, n - 1)
                )
                return c, c[i % n], m + 1

            c, *_ = td.while_loop(lambda s: (s[1] >= 0) & (s[2] < 3), middle, (b, 1, 0))
            return c, a, k + 1

        return td.while_loop(lambda s: s[2] < n, step, (a, b, 0))

    for a, b in (([-1], [2]), ([3, 1, 4, 0], [2, 7, 1, 0]), ([2, 0, 1], [0, -1, 1])):
        args = np.array(a), np.array(b), len(a)
        found, want = (td.jit(f, backend=backend)(*args) for backend in ("native", "reference"))
        assert all(map(np.array_equal, found, want))


@pytest.mark.parametrize("n", [0, 3, 12])
def test_a_loop_of_a_conjunction_that_ends_a_loop(n: int) -> None:
    """It is computed ahead of the test, which also has it, where that needs it in any case."""

    def first(a: Any, n: Any) -> Any:
        return td.while_loop(
            lambda s: (s[1] < td.loop(n % 5, lambda k, _: k, 3)) & (td.sum(a) != 2),
            lambda s: (a * 3 + s[0], s[1] + 1), (a, 0),
        )[0]  # fmt: skip

    def second(a: Any, n: Any) -> Any:
        return td.while_loop(
            lambda s: (s[0][0] < 100) & (s[1] < td.loop(n % 5, lambda k, _: k, 3)),
            lambda s: (a * 3 + s[0], s[1] + 1), (a, 0),
        )[0]  # fmt: skip

    for a in (np.array([5]), np.array([2]), np.array([200])):
        for f in (first, second):
            found, want = (td.jit(f, backend=b)(a, n) for b in ("native", "reference"))
            np.testing.assert_array_equal(found, want)


def triangular(a: Any) -> Any:
    """Cholesky's factor: sums of products of what earlier iterations have written."""

    def column(i: Any, j: Any, t: Any) -> Any:
        rest = td.loop(j, lambda k, s: s - t[i, k] * t[j, k], a[i, j])
        return t.at[i, j].set(td.where(i == j, td.sqrt(rest), rest / t[j, j]))

    n = a.shape[0]
    return td.loop(
        n, lambda i, t: td.loop(i + 1, lambda j, t: column(i, j, t), t), td.zeros((n, n))
    )


def extremes(a: Any, n: Any) -> Any:
    """Two numbers of each part of a row, found backwards, and used by its next elements."""

    def step(k: Any, s: Any) -> Any:
        a, total = s
        low, at = td.loop(
            k, lambda i, s: (td.minimum(s[0], a[k - 1 - i]), td.where(a[i] < s[0], i, s[1])),
            (a[k], -1),
        )  # fmt: skip
        return a.at[k].set(a[k] - low / 2), total + at

    return td.loop(n, step, (a, 0))


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_walks_over_numbers_are_loops_of_the_kernel(n: int) -> None:
    a = np.random.default_rng(n).random((n, n))
    a = a @ a.T + n * np.eye(n)
    for f, args in ((triangular, (a,)), (extremes, (np.ravel(a), n * n))):
        found, want = (td.jit(f, backend=b)(*args) for b in ("native", "reference"))
        assert [np.asarray(x).tolist() for x in found] == [np.asarray(x).tolist() for x in want]
        assert kinds(f, *args) == (1, 0), f.__name__


def test_walks_in_vectors_stay_kernels() -> None:
    def f(w: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            out, a = s
            a = td.loop(w.shape[0], lambda i, a: a * 0.5 + w[i] / (1 + a * a), a)
            return out.at[k].set(a[0]), a

        return td.loop(5, step, (td.zeros(5), td.ones(8)))[0]

    w = np.random.default_rng(0).random((20, 8))
    assert kinds(f, w) == (0, 1)
    found, want = (td.jit(f, backend=b)(w) for b in ("native", "reference"))
    assert found.tobytes() == want.tobytes()


def middle(x: Any) -> Any:
    """Hoare's selection: an inner loop whose parts need what two searches have found."""

    def part(s: Any) -> Any:
        x, low, high = s
        pivot = x[(low + high) // 2]

        def swap(s: Any) -> Any:
            x, i, j = s
            i = td.while_loop(lambda i: x[i] < pivot, lambda i: i + 1, i)
            j = td.while_loop(lambda j: x[j] > pivot, lambda j: j - 1, j)
            go, left, right = i <= j, x[i], x[j]
            x = td.cond(go, x.at[i].set(right).at[j].set(left), x)
            return x, td.where(go, i + 1, i), td.where(go, j - 1, j)

        x, i, j = td.while_loop(lambda s: s[1] <= s[2], swap, (x, low, high))
        return x, td.where(j < k, i, low), td.where(k < i, j, high)

    n = x.shape[0]
    k = n // 2
    return td.while_loop(lambda s: s[1] < s[2], part, (x, 0, n - 1))[0]


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_searches_in_inner_loops_are_made_once(n: int) -> None:
    x = np.random.default_rng(n).integers(0, 25, n)
    found, want = (td.jit(middle, backend=b)(x) for b in ("native", "reference"))
    assert found.tolist() == want.tolist()
    assert found[n // 2] == np.sort(x)[n // 2]
    roots = td.jit(middle, backend="native").lower(x).roots
    (node,) = (n for n in topological(roots) if isinstance(n, Sequential))
    assert sum(isinstance(e, While) for e in walk((*node.bodies(), *node.early))) == 2


def grown(keys: Any) -> Any:
    """A search tree: where its last node is, at which side, and how far down."""

    def insert(k: Any, s: Any) -> Any:
        left, right, steps = s

        def down(at: Any) -> Any:
            node, _, _, depth = at
            greater = keys[k + 1] > keys[node]
            return td.where(greater, right[node], left[node]), node, greater, depth + 1

        _, last, greater, depth = td.while_loop(lambda s: s[0] >= 0, down, (0, 0, False, 0))
        left = td.cond(greater, left, left.at[last].set(k + 1))
        right = td.cond(greater, right.at[last].set(k + 1), right)
        return left, right, steps + depth

    n = keys.shape[0]
    return td.loop(n - 1, insert, (td.full(n, -1), td.full(n, -1), 0))


def test_a_search_with_several_results_is_made_once() -> None:
    keys = np.random.default_rng(1).permutation(60)
    for found, want in zip(*(td.jit(grown, backend=b)(keys) for b in ("native", "reference")),
                           strict=True):  # fmt: skip
        assert np.array_equal(found, want)
    roots = td.jit(grown, backend="native").lower(keys).roots
    (node,) = (n for n in topological(roots) if isinstance(n, Sequential))
    kernel = lower(node, LoweringContext(target=NATIVE)).kernels[0]
    assert len(re.findall(r"^ *while\b", str(kernel), re.M)) == 1


def test_an_array_that_only_inner_loops_read_is_computed_before_them() -> None:
    """Where one of them has no iteration, an index of it may be out of range."""

    def visited(first: Any, order: Any, to: Any) -> Any:
        targets, n = to[order], first.shape[0] - 1

        def visit(s: Any) -> Any:
            queue, head, tail, seen = s

            def edge(k: Any, s: Any) -> Any:
                queue, tail, seen = s
                v = targets[k]
                new = ~seen[v]
                queue = td.cond(new, queue.at[tail].set(v), queue)
                return queue, tail + new, seen.at[v].set(True)

            at = queue[head]
            queue, tail, seen = td.loop(first[at], first[at + 1], edge, (queue, tail, seen))
            return queue, head + 1, tail, seen

        start = td.zeros(n, td.int64), 0, 1, td.zeros(n, bool).at[0].set(True)
        return td.while_loop(lambda s: s[1] < s[2], visit, start)[0]

    rng = np.random.default_rng(8)
    first, order, to = np.arange(0, 201, 4), rng.permutation(200), rng.integers(0, 50, 200)
    assert kinds(visited, first, order, to) == (1, 1)
    found, want = (td.jit(visited, backend=b)(first, order, to) for b in ("native", "reference"))
    assert np.array_equal(found, want) and len(set(want.tolist())) > 40
    nowhere = np.full(200, 1 << 40)  # reading there would end the process
    assert not td.jit(visited, backend="native")(np.zeros(51, int), nowhere, to).any()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (0, 3), (3, 0), (0, 0)])
def test_what_two_inner_loops_need_is_computed_for_both(n: int, m: int, deep: bool) -> None:
    """One of them may have no iteration, and one may need it in a loop of its own."""

    def f(places: Any, a: Any, n: Any, m: Any) -> Any:
        def step(k: Any, a: Any) -> Any:
            def half(i: Any, a: Any) -> Any:
                return a.at[places[k]].add(0.5 * a[i % 5])

            def first(i: Any, a: Any) -> Any:
                return td.loop(2, half, a) if deep else half(i, a)

            a = td.loop(n, first, a)
            return td.loop(m, lambda i, a: a.at[places[k]].add(3.0 + a[(i + 2) % 5]), a)

        return td.loop(4, step, a)

    args = np.array([3, 1, 4, 1, 2]), np.ones(5), n, m
    assert kinds(f, *args) == (1, 0)
    found, want = (td.jit(f, backend=b)(*args) for b in ("native", "reference"))
    assert np.array_equal(found, want)


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_an_update_of_what_the_loop_began_with(n: int) -> None:
    """Every iteration begins with that again, not with what the one before made of it."""

    def f(a: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            return a.at[td.minimum(k, 1)].add(3), s[1]

        return td.loop(n, step, (a, td.zeros((3,), a.dtype)))[0]

    a = np.array([[5, 7], [1, 2]])
    for given in (lambda: f(td.use(a)), lambda: f(td.use(a) + 1)):
        found, want = (td.jit(given, backend=b)() for b in ("native", "reference"))
        assert np.array_equal(found, want)
    assert np.array_equal(a, [[5, 7], [1, 2]])
