"""Tests of indices that always have the same result: which go, which stay, and that values do."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Sequential, topological
from treadle.dsl.target import NATIVE
from treadle.skeletons.lower.lower import LoweringContext, lower


def kernels(f: Any, *args: Any) -> str:
    """The kernels of the loops of a program, as text."""
    roots = td.jit(f, backend="native").lower(*args).roots
    found = [n for n in topological(roots) if isinstance(n, Sequential)]
    assert found
    return "\n".join(
        str(k) for n in found for k in lower(n, LoweringContext(target=NATIVE)).kernels
    )


TEXT = np.frombuffer(b"abracadabra abracadabra abracadabra", np.uint8)


def matches(t: Any) -> Any:
    """The lengths of matches of a text with itself, found by a table of hashes."""
    n = t.shape[0]

    def step(s: Any) -> Any:
        head, i, total = s
        key = t[i].astype(td.int64) * 31 + t[i + 1] & 63
        at = head[key]
        same = td.while_loop(
            lambda k: (i + k < n) & (k < 9) & (t[td.minimum(at + k, n - 1)] == t[i + k]),
            lambda k: k + 1, 0,
        )  # fmt: skip
        same = td.where(at >= 0, same, 0)
        return head.at[key].set(i), i + td.where(same >= 2, same, 1), total + same

    return td.while_loop(lambda s: s[1] + 2 <= n, step, (td.full(64, -1), 0, 0))[2]


def test_counters_masks_and_what_a_table_holds() -> None:
    text = kernels(matches, TEXT)
    assert "< 0" not in text and "< 64" not in text
    made = [int(td.jit(matches, backend=backend)(TEXT)) for backend in ("reference", "native")]
    assert made[0] == made[1] > 0


def stack(n: Any) -> Any:
    """Numbers with a bit fewer in each step, and what they push on a stack."""

    def step(s: Any) -> Any:
        held, top, total = s
        x = held[top]
        more = x > 0
        held = held.at[top].set(x - 1)
        held = td.cond(more, held.at[top + 1].set(x // 2), held)
        return held, td.where(more, top + 1, top - 1), total + x

    start = td.zeros(8, td.int64).at[0].set(n)
    return td.while_loop(lambda s: s[1] >= 0, step, (start, 0, 0))[2]


def test_a_stack_may_be_too_small_but_not_negative() -> None:
    text = kernels(stack, 5)
    assert text.count("< 0") == 0
    assert text.count("< 8") > 1  # nothing says how many it holds
    assert int(td.jit(stack, backend="native")(5)) == int(td.jit(stack, backend="reference")(5))


def exchanges(a: Any) -> Any:
    """Reversed by exchanges from both ends, and again without these, and so on."""

    def swap(s: Any) -> Any:
        t, p, q = s
        return t.at[p].set(t[q]).at[q].set(t[p]), p + 1, q - 1

    def inner(k: Any, t: Any) -> Any:
        return td.while_loop(lambda s: s[1] < s[2], swap, (t, k, a.shape[0] - 1 - k))[0]

    return td.loop(3, inner, a)


def test_two_ends_that_meet() -> None:
    text = kernels(exchanges, np.arange(9))
    assert "select" not in text and "if " not in text
    made = [td.jit(exchanges, backend=b)(np.arange(9)) for b in ("reference", "native")]
    assert np.array_equal(*made)


@pytest.mark.parametrize(
    "index",
    [lambda k, n, x: x, lambda k, n, x: k + x, lambda k, n, x: k * 3, lambda k, n, x: k - n,
     lambda k, n, x: (k + 1) * (1 << 62)],
    ids=["data", "data added", "too large", "from the end", "it wraps"],
)  # fmt: skip
def test_what_may_be_outside_is_tested(index: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        def step(s: Any) -> Any:
            a, k = s
            return a.at[index(k, a.shape[0], b[k])].set(k), k + 1

        return td.while_loop(lambda s: s[1] < 4, step, (a, 0))[0]

    a, b = np.zeros(4, np.int64), np.array([-9, 3, 1 << 62, -1])
    assert "if " in kernels(f, a, b)
    reference, native = (td.jit(f, backend=backend)(a, b) for backend in ("reference", "native"))
    assert np.array_equal(reference, native)


def test_elements_that_other_loops_write_are_not_known() -> None:
    """A table is read at what it holds: first 0 and 1, later what a loop around it adds."""

    def f(a: Any) -> Any:
        def walk(s: Any) -> Any:
            a, k, at = s
            return a.at[at].set(k), k + 1, td.clip(a[k], -5, 9)

        def outer(_: Any, a: Any) -> Any:
            return td.while_loop(lambda s: s[1] < 4, walk, (a - 3, 0, 1))[0]

        return td.loop(3, outer, a)

    a = np.array([0, 1, 1, 0])
    reference, native = (td.jit(f, backend=backend)(a) for backend in ("reference", "native"))
    assert np.array_equal(reference, native)


@pytest.mark.parametrize("start", [(1 << 63) - 3, 1 << 62, 5, -3, 3 - (1 << 63)])
@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("given", ["element", "number", "literal"])
def test_counters_that_begin_far_away_wrap(start: int, step: int, given: str) -> None:
    def f(a: Any, b: Any, n: Any) -> Any:
        first = {"element": b[0], "number": n, "literal": start}[given]

        def count(s: Any) -> Any:
            a, k, j = s
            far = td.where(k < first, 1, 2) + td.where(k + step > k, 10, 20)
            return a.at[j].set(td.where(k >= 0, far, -far)), k + step, j + 1

        return td.while_loop(lambda s: s[2] < 5, count, (a, first, 0))

    args = np.zeros(5, np.int64), np.array([start]), start
    found, want = (td.jit(f, backend=b)(*args) for b in ("native", "reference"))
    assert all(map(np.array_equal, found, want))


class Programs:
    """Random programs: nests of up to three loops that read in range and write anywhere."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = random.Random(seed), 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def number(self, numbers: list[str], arrays: list[str], depth: int = 0) -> str:
        r, pick = self.random, self.random.choice
        kind = "name" if depth > 2 else pick(["name", "name", "read", "read", "literal", "where",
                                              "least", "divide", "mask", "sum", "sum"])  # fmt: skip

        def inner() -> str:
            return self.number(numbers, arrays, depth + 1)

        if kind == "name":
            return pick(numbers)
        if kind == "read":
            i = inner()
            at = pick([f"td.clip({i}, -n, n - 1)", f"td.clip({i}, 0, n - 1)", f"({i}) % n",
                       f"td.minimum(({i}) & 7, n - 1)"])  # fmt: skip
            return f"{pick(arrays)}[{at}]"
        if kind == "literal":
            return str(r.randint(-3, 6))
        if kind == "where":
            return f"td.where({self.test(numbers, arrays, depth + 1)}, {inner()}, {inner()})"
        if kind == "least":
            return f"td.{pick(['minimum', 'maximum'])}({inner()}, {inner()})"
        if kind == "divide":
            return f"(({inner()}) {pick(['//', '%'])} {pick(['2', '3', 'n', '(n - 2)', '-3'])})"
        if kind == "mask":
            return f"(({inner()}) & {pick([3, 7, 15])})"
        return f"(({inner()}) {pick('+-+-*')} ({inner()}))"

    def test(self, numbers: list[str], arrays: list[str], depth: int = 0) -> str:
        pick = self.random.choice
        kind = pick(["both", "not", "compare", "compare"]) if depth < 2 else "compare"
        if kind == "both":
            first, second = (self.test(numbers, arrays, depth + 1) for _ in range(2))
            return f"({first} {pick('&|')} {second})"
        if kind == "not":
            return f"td.logical_not({self.test(numbers, arrays, depth + 1)})"
        left, right = (self.number(numbers, arrays, depth + 1) for _ in range(2))
        return f"({left} {pick(['<', '<=', '>', '>=', '==', '!='])} {pick(['0', 'n', right])})"

    def small(self, e: str) -> str:
        return f"(({e}) % {self.random.choice([7, 50])} - {self.random.choice([0, 0, 3])})"

    def next(self, name: str, numbers: list[str], arrays: list[str]) -> str:
        pick = self.random.choice
        step = f"{name} {pick(['+ 1', '- 1', '+ 2'])}"
        chosen = f"td.where({self.test(numbers, arrays)}, {step}, {name})"
        return pick([step, chosen, self.small(self.number(numbers, arrays))])

    def update(self, numbers: list[str], arrays: list[str]) -> tuple[str, str]:
        pick, a = self.random.choice, self.random.choice(arrays)
        at = pick([pick(numbers), f"{pick(numbers)} {pick(['+ 1', '- 1'])}",
                   self.number(numbers, arrays)])  # fmt: skip
        made = f"{a}.at[{at}].{pick(['set', 'add'])}({self.small(self.number(numbers, arrays))})"
        return a, pick([made, f"td.cond({self.test(numbers, arrays)}, {made}, {a})"])

    def block(self, numbers: list[str], arrays: list[str], depth: int, pad: str
              ) -> tuple[list[str], list[str], list[str]]:  # fmt: skip
        r = self.random
        lines, numbers, arrays = list[str](), [*numbers], [*arrays]
        for _ in range(r.randint(1, 3)):
            kind = r.choice(["update", "update", "number", "loop", "loop"] if depth else ["update"])
            if kind == "number":
                name = self.new("s")
                lines.append(f"{pad}{name} = {self.number(numbers, arrays)}")
                numbers.append(name)
                continue
            name = self.new("a")
            if kind == "update":
                a, made = self.update(numbers, arrays)
                lines.append(f"{pad}{name} = {made}")
            else:
                f, k, s, a = self.new("f"), self.new("k"), self.new("s"), r.choice(arrays)
                inner, more, other = self.block(
                    [*numbers, k, s], [*arrays, name], depth - 1, pad + "    "
                )
                test = self.test([k, s], [name])
                lines += [
                    f"{pad}def {f}(st):", f"{pad}    {name}, {s}, {k} = st", *inner,
                    f"{pad}    return {other[-1]}, {self.next(s, more, other)}, {k} + 1",
                    f"{pad}def p{f}(st):", f"{pad}    {name}, {s}, {k} = st",
                    f"{pad}    return ({k} < {r.randint(2, 5)}) & {test}",
                ]  # fmt: skip
                start = f"({a}, {r.choice(['0', '1', 'n - 1', r.choice(numbers)])}, 0)"
                lines.append(f"{pad}{name}, {s}, _ = td.while_loop(p{f}, {f}, {start})")
                numbers.append(s)
            arrays = [x for x in arrays if x != a] + [name]
        return lines, numbers, arrays

    def program(self) -> str:
        lines, numbers, arrays = self.block(["k", "s"], ["a", "b"], 2, "        ")
        test = self.test(["s", "k"], ["a"])
        return "\n".join([
            "def f(a, b, n):", "    def step(st):", "        a, b, s, k = st", *lines,
            f"        return {arrays[-1]}, {arrays[0]}, {self.next('s', numbers, arrays)}, k + 1",
            "    def goes_on(st):", "        a, b, s, k = st", f"        return (k < 6) & {test}",
            "    return td.while_loop(goes_on, step, (a, b, 1, 0))",
        ])  # fmt: skip


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(300))
def test_random_programs(seed: int) -> None:
    programs = Programs(seed)
    source, n = programs.program(), programs.random.choice([1, 2, 3, 5, 8])
    made: dict[str, Any] = {"td": td}
    exec(source, made)
    a, b = np.array([3, 1, 4, 1, 5, -2, 6, 9][:n]), np.array([2, 7, 1, -8, 2, 0, 0, 5][:n])

    def run(backend: str) -> Any:
        try:
            return td.jit(made["f"], backend=backend)(a, b, n)
        except td.IndexOutOfBounds:  # a literal in the place of an index
            return ()

    for left, right in zip(run("reference"), run("native"), strict=True):
        assert np.array_equal(left, right), source


def banded(x: Any, y: Any) -> Any:
    """A table with a row and a column more than there are numbers, filled near its diagonal."""
    n, m = x.shape[0], y.shape[0]

    def cell(i: Any, j: Any, t: Any) -> Any:
        best = td.minimum(td.minimum(t[i - 1, j], t[i, j - 1]), t[i - 1, j - 1])
        return t.at[i, j].set(td.abs(x[i - 1] - y[j - 1]) + best)

    def row(i: Any, t: Any) -> Any:
        last = td.minimum(m, i + 3) + 1
        return td.loop(td.maximum(1, i - 3), last, lambda j, t: cell(i, j, t), t)

    return td.loop(1, n + 1, row, td.full((n + 1, m + 1), np.inf).at[0, 0].set(0.0))


def shuffled(x: Any, seed: Any) -> Any:
    """What is left to choose from is at least one element."""
    n = x.shape[0]

    def step(k: Any, s: Any) -> Any:
        x, seed = s
        seed = seed * 6364136223846793005 + 1442695040888963407
        i, j = n - 1 - k, (seed >> 33) % (n - k)
        return x.at[i].set(x[j]).at[j].set(x[i]), seed

    return td.loop(n - 1, step, (x, seed))[0]


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_extents_that_the_host_computes_from_others(n: int) -> None:
    x = np.random.default_rng(n).random((2, n))
    for f, args in ((banded, (*x,)), (shuffled, (x[0], np.int64(n)))):
        tests = [line for line in kernels(f, *args).splitlines() if line.strip().startswith("if ")]
        assert not any("< size" in line or "< n0" in line for line in tests), f.__name__
        found, want = (td.jit(f, backend=b)(*args) for b in ("native", "reference"))
        assert found.tobytes() == want.tobytes(), f.__name__
