"""Loops over arrays whose extents change: by the counter, and as part of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.runtime import steps

from .helpers import not_in_parts

Pair = tuple[Callable[..., Any], Callable[..., Any]]
COUNTS = (0, 1, 2, 9)


def repeated(f: Callable[..., Any], n: int, x: Any) -> Any:
    for _ in range(n):
        x = f(x)
    return x


def agree(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


# --- the counter -------------------------------------------------------------------------------


def forward(a: Any, b: Any) -> Any:
    def row(i: Any, x: Any) -> Any:
        return td.update(x, i, (b[i] - td.the(a[i, :i] @ x[:i])) / a[i, i])

    return td.loop(b.shape[0], row, td.zeros_like(b))


@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_slices_up_to_the_counter(backend: str, n: int) -> None:
    random = np.random.default_rng(n)
    a, b = np.tril(random.random((n, n))) + n * np.eye(n), random.random(n)
    solve = td.jit(forward, backend=backend)
    for _ in range(3):
        agree(solve(a, b), np.linalg.solve(a, b) if n else b)


def test_slices_from_the_counter_to_another_loops(backend: str) -> None:
    """Both counters of a nest, and an inner loop whose length the outer counter decides."""

    def program(a: Any, n: int) -> Any:
        def outer(i: Any, s: Any) -> Any:
            def inner(j: Any, t: Any) -> Any:
                return t + td.the(td.sum(a[j : i + 1])) * (j + 1)

            return td.loop(i + 1, inner, s * 0.5)

        return td.loop(n, outer, td.zeros(3))

    a = np.arange(12.0) ** 1.5
    compiled = td.jit(program, backend=backend)
    for n in (0, 1, 5, 11):
        want = np.zeros(3)
        for i in range(n):
            want = want * 0.5
            for j in range(i + 1):
                want = want + a[j : i + 1].sum() * (j + 1)
        for _ in range(3):
            agree(compiled(a, n), want)


def test_an_extent_of_the_counter_is_clipped(backend: str) -> None:
    """Counters that lead outside: slices are empty, or end where the array does."""

    def program(x: Any, n: int) -> Any:
        def body(k: Any, s: Any) -> Any:
            left, right = x[: k - 3], x[k * k :]
            return s + td.the(td.sum(left)) * 2 + td.the(td.sum(right)) * 3 + td.sum(x[k:2])

        return td.loop(n, body, td.unit(0.0))

    x = np.random.default_rng(0).random(7)
    compiled = td.jit(program, backend=backend)
    for n in (0, 1, 9):
        want = 0.0
        for k in range(n):
            left = x[: max(k - 3 if k >= 3 else k - 3 + 7, 0)]
            want += left.sum() * 2 + x[k * k :].sum() * 3 + x[k:2].sum()
        for _ in range(3):
            agree(compiled(x, n), want)


def test_extents_that_the_body_computed(backend: str) -> None:
    """A scalar of the state decides how much of an array is read."""

    def program(x: Any, n: int) -> Any:
        def body(s: Any) -> Any:
            used, total = s
            return used * 5 % 11, total + td.the(td.sum(x[:used]))

        return td.iterate(n, body, (td.unit(7), td.unit(0.0)))[1]

    x = np.random.default_rng(1).random(10)
    compiled = td.jit(program, backend=backend)
    for n in (0, 1, 12):
        used, want = 7, 0.0
        for _ in range(n):
            used, want = used * 5 % 11, want + x[:used].sum()
        for _ in range(3):
            agree(compiled(x, n), want)


def test_a_mismatch_is_found_in_its_iteration(backend: str) -> None:
    def program(a: Any, b: Any, n: int) -> Any:
        return td.loop(n, lambda k, s: s + td.sum(a[:k] * b[k:]), td.unit(0.0))

    compiled = td.jit(program, backend=backend)
    a = np.arange(4.0)
    for _ in range(3):
        with pytest.raises(td.ShapeError) as found:
            compiled(a, a, 3)
        assert "a[:k] * b[k:]" in str(found.value)


# --- the state ---------------------------------------------------------------------------------

STATES: dict[str, Pair] = {
    "filter": (lambda s: td.filter(lambda e: e > 0.3, s)[0] * 0.9,
               lambda s: s[s > 0.3] * 0.9),
    "halve": (lambda s: s[: s.shape[0] // 2], lambda s: s[: len(s) // 2]),
    "restrict": (lambda s: s[::2] * 2, lambda s: s[::2] * 2),
    "drop one": (lambda s: s[1:], lambda s: s[1:]),
    "drop places": (
        lambda s: td.compact(td.iota(s.shape[0]) % 3 != 0, s)[0],
        lambda s: s[np.arange(len(s)) % 3 != 0]),
    "each twice": (lambda s: td.expand(lambda e: 2, lambda e, k: e + k, s)[:30],
                   lambda s: (np.repeat(s, 2) + np.tile([0, 1], len(s)))[:30]),
    "append": (lambda s: td.concatenate([s, s[:2] + 1]), lambda s: np.concatenate([s, s[:2] + 1])),
    "double": (lambda s: td.concatenate([s, s * 0.5]), lambda s: np.concatenate([s, s * 0.5])),
    "grow and shrink": (
        lambda s: td.filter(lambda e: e < 2.5, td.concatenate([s, s + 1]))[0],
        lambda s: (lambda t: t[t < 2.5])(np.concatenate([s, s + 1]))),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_states_that_change_their_extent(backend: str, name: str) -> None:
    body, meaning = STATES[name]
    compiled = td.jit(lambda x, n: td.iterate(n, body, x), backend=backend)
    x = np.random.default_rng(3).random(20)
    for n in COUNTS:
        want = repeated(meaning, n, x)
        for _ in range(3):
            agree(compiled(x, n), want)


def test_an_extent_of_1_as_written(backend: str) -> None:
    def body(s: Any) -> Any:
        return td.compact(td.iota(s.shape[0]) % 3 != 0, s)[0]

    compiled = td.jit(lambda x, n: td.iterate(n, body, x), backend=backend)
    for n in COUNTS:
        agree(compiled(np.ones(1), n), np.ones(1 if n == 0 else 0))


@pytest.mark.parametrize("name", STATES)
def test_sums_of_states_that_change_their_extent(backend: str, name: str) -> None:
    """The result has fixed extents, so that complete calls can be recorded."""
    body, meaning = STATES[name]
    compiled = td.jit(lambda x, n: td.sum(td.iterate(n, body, x)), backend=backend)
    x = np.random.default_rng(4).random(20)
    for n in COUNTS:
        want = repeated(meaning, n, x).sum()
        for _ in range(3):
            agree(compiled(x, n), want)


def test_extents_as_constants(backend: str) -> None:
    def program() -> Any:
        return td.iterate(3, lambda s: td.concatenate([s, s], axis=1), td.ones((2, 3)))

    agree(td.run(program(), backend=backend), np.ones((2, 24)))
    with pytest.raises(td.ShapeError, match="must keep the state's shape"):
        td.iterate(3, lambda s: td.ones(5), td.ones(4))


def test_extents_of_a_matrix_change_along_both_axes(backend: str) -> None:
    """The rows of what is stored are as long as they are in the iteration."""

    def body(s: Any) -> Any:
        return td.concatenate([s[1:, :], s[:1, :] * 2], axis=0)[:, : s.shape[1] - 1]

    compiled = td.jit(lambda x, n: td.iterate(n, body, x), backend=backend)
    x = np.random.default_rng(5).random((4, 6))
    for n in (0, 1, 3, 6):
        want = repeated(lambda s: np.concatenate([s[1:], s[:1] * 2])[:, :-1], n, x)
        for _ in range(3):
            agree(compiled(x, n), want)


def test_while_there_is_work(backend: str) -> None:
    """A work list, with a counter and an array of fixed extents beside it."""

    def program(x: Any) -> Any:
        def body(s: Any) -> Any:
            work, done, iterations = s
            done = td.permute(
                lambda a, b: a + b, done, lambda e: td.cast(work[e] * 4, td.int64) % 4, work
            )
            return td.filter(lambda e: e > 0, work - 0.25)[0], done, iterations + 1

        return td.while_loop(lambda s: s[0].shape[0] > 0, body, (x, td.zeros(4), td.unit(0)))[1:]

    x = np.random.default_rng(6).random(30) * 3
    done, iterations, work = np.zeros(4), 0, x
    while len(work):
        np.add.at(done, (work * 4).astype(int) % 4, work)
        work, iterations = work - 0.25, iterations + 1
        work = work[work > 0]
    compiled = td.jit(program, backend=backend)
    for _ in range(3):
        got = compiled(x)
        agree(got[0], done)
        assert int(got[1]) == iterations


def test_nests_of_loops_that_change_extents(backend: str) -> None:
    def body(s: Any) -> Any:
        grown = td.iterate(2, lambda t: td.concatenate([t, t[:1] * 0.5]), s)
        return td.filter(lambda e: e > 0.2, grown)[0]

    def meaning(s: Any) -> Any:
        s = repeated(lambda t: np.concatenate([t, t[:1] * 0.5]), 2, s)
        return s[s > 0.2]

    compiled = td.jit(lambda x, n: td.sum(td.iterate(n, body, x)), backend=backend)
    x = np.random.default_rng(7).random(6) + 0.2
    for n in COUNTS:
        for _ in range(3):
            agree(compiled(x, n), repeated(meaning, n, x).sum())


def test_two_states_that_change_places(backend: str) -> None:
    def body(s: Any) -> Any:
        a, b = s
        return td.concatenate([b, a[:1]]), a

    def meaning(s: Any) -> Any:
        return np.concatenate([s[1], s[0][:1]]), s[0]

    compiled = td.jit(lambda a, b, n: td.iterate(n, body, (a, b)), backend=backend)
    a, b = np.arange(5.0), np.arange(3.0) - 7
    for n in COUNTS:
        want = repeated(meaning, n, (a, b))
        for _ in range(3):
            for got, one in zip(compiled(a, b, n), want, strict=True):
                agree(got, one)


def test_changing_extents_in_checked_mode(backend: str) -> None:
    def checked(x: Any, n: int, body: Callable[..., Any]) -> Any:
        return td.run(td.iterate(n, body, td.use(x)), backend=backend, check=True)

    body, meaning = STATES["filter"]
    x = np.random.default_rng(8).random(20)
    for n in COUNTS:
        agree(checked(x, n, body), repeated(meaning, n, x))

    def shorter(s: Any) -> Any:
        return s[: s.shape[0] - 1] + s[3]

    agree(checked(x[:6], 2, shorter), repeated(lambda s: s[:-1] + s[3], 2, x[:6]))
    with pytest.raises(td.IndexOutOfBounds):
        checked(x[:6], 5, shorter)


def random_body(random: np.random.Generator) -> Pair:
    """A few of these in a row, with numbers in between."""
    steps: list[Pair] = []
    for name in random.choice(list(STATES), random.integers(1, 4)):
        steps.append(STATES[name])
        if random.integers(2):
            c = float(random.random())
            steps.append((lambda s, c=c: s * c + 0.3, lambda s, c=c: s * c + 0.3))  # type: ignore[misc]

    def chain(which: int) -> Callable[[Any], Any]:
        def body(s: Any) -> Any:
            for step in steps:
                s = step[which](s)
            return s

        return body

    return chain(0), chain(1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(seed: int) -> None:
    random = np.random.default_rng(seed)
    body, meaning = random_body(random)
    x = random.random(int(random.integers(1, 30)))
    listed = td.jit(lambda x, n: td.iterate(n, body, x), backend="native")
    summed = td.jit(lambda x, n: td.sum(td.iterate(n, body, x)), backend="native")
    for n in (0, 1, 6):
        want = repeated(meaning, n, x)
        for _ in range(3):
            agree(listed(x, n), want)
            np.testing.assert_allclose(summed(x, n), want.sum(), rtol=1e-12)


@not_in_parts("every iteration is planned")
@pytest.mark.parametrize("program", ["counter", "state"])
def test_nothing_is_planned_anew_in_an_iteration(backend: str, program: str) -> None:
    """Kernels are made for the program, not for the extents of an iteration."""
    body, _ = STATES["filter"]
    f, args = {
        "counter": (lambda a, b, n: forward(a[:n, :n], b[:n]), (np.eye(30) * 2, np.ones(30))),
        "state": (lambda a, b, n: td.sum(td.iterate(n, body, a[0] + b)), (np.eye(30), np.ones(30))),
    }[program]
    made: list[object] = []
    init = steps.NodeKernels.__init__
    compiled = td.jit(f, backend=backend)

    def counted(self: Any, *given: Any) -> None:
        made.append(self)
        init(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps.NodeKernels, "__init__", counted)
        compiled(*args, 3)
        few = len(made)
        for n in (4, 9, 30):
            compiled(*args, n)
    # On native, scalars that Python computes in its iterations are kernels of what is recorded.
    assert len(made) <= few + 3


# --- while loops that count --------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_while_loops_that_count(backend: str, dtype: str) -> None:
    """Up and down, in kernels and over arrays, with no iteration and with many."""
    t = getattr(td, dtype)

    def up(first: Any, last: Any, x: Any) -> Any:
        return td.while_loop(
            lambda s: s[0] < last,
            lambda s: (s[0] + td.cast(1, t), s[1] * 0.5 + td.cast(s[0], td.float64)),
            (first, x),
        )

    def down(first: Any, last: Any, x: Any) -> Any:
        return td.while_loop(
            lambda s: last < s[0],
            lambda s: (s[0] - td.cast(1, t), s[1] * 0.5 + td.cast(s[0], td.float64)),
            (first, x),
        )

    def program(x: Any, ends: Any) -> Any:
        a, b = ends[0], ends[1]
        inside = [td.map(lambda e, f=f: f(a, b, e)[1], x) for f in (up, down)]  # type: ignore[misc]
        return (*inside, *up(a, b, x), *down(a, b, x))

    compiled = td.jit(program, backend=backend)
    x = np.arange(3.0)
    for a, b in ((3, 3), (3, 4), (7, 2), (100, 127), (0, 100)):
        ends = np.array([a, b], dtype)
        rising, falling = x, x
        for k in range(a, b):
            rising = rising * 0.5 + k
        for k in range(a, b, -1):
            falling = falling * 0.5 + k
        want = (rising, falling, max(a, b), rising, min(a, b), falling)
        for _ in range(3):
            for got, one in zip(compiled(x, ends), want, strict=True):
                agree(got, one)


def test_while_loops_that_only_seem_to_count(backend: str) -> None:
    """The bound changes, the step is 2, or the counter is also something else."""

    def program(n: int) -> Any:
        def run(pred: Any, body: Any) -> Any:
            return td.while_loop(pred, body, (td.unit(0), td.unit(12)))

        return (
            run(lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1] - 2)),
            run(lambda s: s[0] < n, lambda s: (s[0] + 2, s[1] + s[0])),
            run(lambda s: s[0] < n, lambda s: (td.maximum(s[0], 3) + 1, s[1] - s[0])),
            run(lambda s: s[0] < n, lambda s: (s[1] - 11, s[1] + 2)),
        )

    want = [(4, 4), (10, 12 + 2 + 4 + 6 + 8), (9, 12 - 4 - 5 - 6 - 7 - 8), (9, 22)]
    for got, one in zip(td.jit(program, backend=backend)(9), want, strict=True):
        assert tuple(map(int, got)) == one


def test_counted_while_loops_are_said_to_be() -> None:
    def halves(x: Any, n: int) -> Any:
        return td.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] / 2), (0, x))

    f = td.jit(halves, backend="native")
    assert "a while loop over arrays that counts" in str(f.lower(np.ones(3), 4).explain())
