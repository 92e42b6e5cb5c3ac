"""Loops that end at different iterations in different lanes: as vectors, lane by lane, or both."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen import single_lanes, vector
from treadle.backend.native.codegen.divergence import Form, VectorForm, vector_form
from treadle.backend.native.codegen.target import Target
from treadle.dsl.expr import Var, primitive
from treadle.dsl.graph import Combine
from treadle.dsl.types import ScalarType, as_type, bool_, float64, int32, int64
from treadle.skeletons.ir.kernel import (
    Assign,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Load,
    Reduce,
    Statement,
    Store,
    While,
    statements,
)

from .helpers import N, add, ap, avx2, buffer, cast, k, kernel, less, lit, mul, run

TARGETS = [None, *([avx2()] if avx2() else [])]
#: Lanes below which the rest runs lane by lane: never, in the end, soon, from the beginning.
THRESHOLDS = (0, 3, 7, 1000)
i, j = Var("i", int64), Var("j", int64)
_salts = itertools.count(1)


def forced(monkeypatch: pytest.MonkeyPatch, least: int, scalar: bool = False) -> None:
    monkeypatch.setattr(single_lanes, "threshold", lambda em, s: least)
    form = VectorForm(scalar, 0, (Form(0, 1.0, 1.0, least),))
    monkeypatch.setattr(vector, "vector_form", lambda *_: form)


def looped(*body: Statement, kind: str = "vector") -> tuple[Statement, ...]:
    """A loop over N elements; what follows makes its code new, whatever was compiled before."""
    salt = Let(Var("salt", int64), k(next(_salts)))
    return (For(i, k(0), N, (*body, salt), kind),)


def lengths(n: int) -> Any:
    found = (np.random.default_rng(n).pareto(0.7, n) * 3).astype(np.int64).clip(0, 900)
    return found if n < 40 else np.concatenate([np.zeros(16, np.int64), found[16:]])


def counting(t: ScalarType) -> Kernel:
    """A while loop whose state has several types: a counter, a flag, and a value of type t."""
    times, out, flags = buffer("times", int64), buffer("out", t, "output"), buffer(
        "flags", bool_, "output")  # fmt: skip
    n, c, x = Var("n", int64), Var("c", int64), Var("x", t)
    flag, more, bound = Var("flag", bool_), Var("more", bool_), Var("bound", int64)
    return kernel("counting", [times, out, flags], looped(
        Let(n, Load(times, i)), Declare(c, k(0)), Declare(x, cast(ap("remainder", i, k(3)), t)),
        Declare(flag, less(i, k(5))),
        While(
            (Let(bound, add(n, k(0))), Declare(more, lit(False, bool_)),
             If(less(c, bound), (Assign(more, less(Load(times, i), k(5000))),))),
            more,
            (Assign(x, add(x, cast(ap("remainder", c, k(2)), t))), Assign(c, add(c, k(1))),
             Assign(flag, ap("logical_not", flag))),
        ),
        Store(out, i, x), Store(flags, i, flag),
    ))  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("least", THRESHOLDS)
@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16", "int8", "complex64", "bool"])
def test_state_of_all_types(
    monkeypatch: pytest.MonkeyPatch, target: Any, least: int, name: str
) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    t = as_type(dtype)
    for n in (1, 7, 16, 137):
        times = lengths(n)
        made = []
        for threshold, scalar in ((least, False), (0, True)):
            forced(monkeypatch, threshold, scalar)
            out, flags = np.zeros(n, dtype), np.zeros(n, bool)
            run(counting(t), [times, out, flags], [n], target=target)
            made.append((out, flags))
        assert made[0][0].tobytes() == made[1][0].tobytes()
        assert (made[0][1] == made[1][1]).all()
        assert (made[0][1] == ((np.arange(n) < 5) ^ (times % 2 == 1))).all()
        if name == "float64":
            assert (made[0][0] == np.arange(n) % 3 + times // 2).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("least", THRESHOLDS)
@pytest.mark.parametrize("step", [1, 3])
def test_bounds_of_data(
    monkeypatch: pytest.MonkeyPatch, target: Any, least: int, step: int
) -> None:
    """Rows of a sparse matrix, under a condition, and the sums of their loops as reductions."""
    first, values = buffer("first", int64), buffer("values", float64)
    out = buffer("out", float64, "output")
    total = Var("total", float64)
    left, right = Var("left", float64), Var("right", float64)
    plus = Combine((left,), (right,), (add(left, right),))
    bounds = Load(first, i), Load(first, add(i, k(1)))
    value = mul(Load(values, j), cast(i, float64))
    for n in (1, 16, 200):
        edges = np.concatenate([[0], np.cumsum(lengths(n))])
        data = np.random.default_rng(0).random(max(int(edges[-1]), 1))
        loop = For(j, *bounds, (Assign(total, add(total, value)),), step=step)
        reduction = Reduce(j, *bounds, (), (value,), (total,), plus)
        wanted = []
        for row in range(n):
            sum_ = 0.0
            for x in data[edges[row] : edges[row + 1] : step]:
                sum_ += x * row
            wanted.append(sum_ if row != 3 else -1.0)
        for inner in (loop, reduction) if step == 1 else (loop,):
            for threshold, scalar in ((least, False), (0, True)):
                forced(monkeypatch, threshold, scalar)
                found = np.zeros(n)
                body = looped(
                    Declare(total, lit(0, float64)),
                    If(ap("equal", i, k(3)), (Assign(total, lit(-1, float64)),), (inner,)),
                    Store(out, i, total),
                )
                made = kernel("rows", [first, values, out], body)
                run(made, [edges, data, found], [n], target=target)
                assert found.tolist() == wanted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("least", THRESHOLDS)
def test_loops_inside_loops(monkeypatch: pytest.MonkeyPatch, target: Any, least: int) -> None:
    times, out = buffer("times", int64), buffer("out", int64, "output")
    c, d, total = Var("c", int64), Var("d", int64), Var("total", int64)
    body = (
        Declare(c, k(0)), Declare(total, k(0)),
        While((), less(c, ap("remainder", Load(times, i), k(11))), (
            Declare(d, k(0)),
            While((), less(mul(d, d), Load(times, add(i, ap("negative", ap("remainder", c, i))))), (
                Assign(total, add(total, mul(c, d))), Assign(d, add(d, k(1))),
            )),
            For(j, c, Load(times, i), (Assign(total, add(total, j)),), step=2),
            Assign(c, add(c, k(1))),
        )),
        Store(out, i, total),
    )  # fmt: skip
    n = 99
    data = lengths(n)
    data[0] = 0  # i = 0 would divide by 0
    made = []
    for threshold, scalar in ((least, False), (0, True)):
        forced(monkeypatch, threshold, scalar)
        found = np.zeros(n, np.int64)
        run(kernel("nest", [times, out], looped(*body)), [data, found], [n], target=target)
        made.append(found.tolist())
    wanted = []
    for row in range(n):
        total_ = 0
        for a in range(data[row] % 11):
            b = 0
            while b * b < data[row - a % row]:
                total_ += a * b
                b += 1
            total_ += sum(range(a, data[row], 2))
        wanted.append(total_)
    assert made == [wanted, wanted]


# --- which form ---------------------------------------------------------------------------------

AVX512 = Target("znver4", "+avx2,+avx512f", 64)


def form(f: Any, *args: Any) -> VectorForm:
    """The form of the first vector loop of a program, on a CPU with AVX-512."""
    from treadle.backend.native.executable import lowering
    from treadle.dsl.graph import Generate, topological
    from treadle.skeletons.lower.lower import lower

    program = td.jit(f, backend="native").lower(*args)
    for node in topological(program.roots):
        context = lowering(program, node) if isinstance(node, Generate) else None
        for made in lower(node, context).kernels if context else ():
            for s in statements(made.body):
                if isinstance(s, For) and s.kind == "vector":
                    return vector_form(s, AVX512)
    raise AssertionError("no vector loop")


def prominences(x: Any, peaks: Any) -> Any:
    n = x.shape[0]

    def side(p: Any, step: int) -> Any:
        def inside(k: Any) -> Any:
            return td.clip(k, 0, n - 1)

        return td.while_loop(
            lambda s: (s[0] >= 0) & (s[0] < n) & (x[inside(s[0])] <= x[p]),
            lambda s: (s[0] + step, td.minimum(s[1], x[inside(s[0])])),
            (p, x[p]),
        )[1]

    return td.map(lambda p: x[p] - td.maximum(side(p, -1), side(p, 1)), peaks)


def rows(first: Any, columns: Any, values: Any, x: Any) -> Any:
    return td.generate(
        (first.shape[0] - 1,),
        lambda i: td.loop(first[i], first[i + 1], lambda k, s: s + values[k] * x[columns[k]], 0.0),
    )


def descent(left: Any, right: Any, keys: Any, wanted: Any) -> Any:
    def find(x: Any) -> Any:
        return td.while_loop(
            lambda k: (k >= 0) & (keys[td.maximum(k, 0)] != x),
            lambda k: td.where(x < keys[k], left[k], right[k]),
            0,
        )

    return td.map(find, wanted)


def escape(re: Any, im: Any) -> Any:
    def steps(a: Any, b: Any) -> Any:
        return td.while_loop(
            lambda s: (s[2] < 100) & (s[0] * s[0] + s[1] * s[1] <= 4),
            lambda s: (s[0] * s[0] - s[1] * s[1] + a, 2 * s[0] * s[1] + b, s[2] + 1),
            (a, b, np.int32(0)),
        )[2]

    return td.map(steps, re, im)


def factors(numbers: Any) -> Any:
    def count(n: Any) -> Any:
        def step(s: Any) -> Any:
            n, p, found = s
            divides = n % p == 0
            return td.where(divides, n // p, n), td.where(divides, p, p + 1), found + divides

        n, _, found = td.while_loop(lambda s: s[1] * s[1] <= s[0], step, (n, 2, 0))
        return found + (n > 1)

    return td.map(count, numbers)


def arguments(name: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    x = np.cumsum(rng.standard_normal(3000))
    match name:
        case "prominences":
            return x, np.flatnonzero((x[1:-1] > x[:-2]) & (x[1:-1] > x[2:])) + 1
        case "rows":
            first = np.concatenate([[0], np.cumsum(lengths(300))])
            return first, rng.integers(0, 3000, first[-1]), rng.random(first[-1]), x
        case "factors":
            return (rng.integers(2, 10_000, 300),)
        case "descent":
            n = 1023  # a complete tree, keys in order
            keys, left, right = np.zeros(n), np.full(n, -1), np.full(n, -1)

            def fill(at: int, low: int, high: int) -> None:
                keys[at] = (low + high) // 2
                if low < (low + high) // 2:
                    left[at], right[at] = 2 * at + 1, 2 * at + 2
                    fill(2 * at + 1, low, (low + high) // 2 - 1)
                    fill(2 * at + 2, (low + high) // 2 + 1, high)

            fill(0, 0, n - 1)
            return left, right, keys, rng.integers(-3, n + 3, 500).astype(float)
    points = rng.standard_normal(700).astype(np.float32)
    return points, points[::-1].copy()


PROGRAMS = {"prominences": prominences, "rows": rows, "descent": descent, "escape": escape,
            "factors": factors}  # fmt: skip


def test_the_form_follows_from_the_work() -> None:
    """Independent loads: scalars.  Loads that wait for each other, divisions of 64-bit integers:
    vectors, then lane by lane.  Other arithmetic: vectors."""
    made = {name: form(f, *arguments(name)) for name, f in PROGRAMS.items()}
    assert {name: x.scalar for name, x in made.items()} == {
        "prominences": True, "rows": True, "descent": False, "escape": False, "factors": False,
    }  # fmt: skip
    (tree,), (points,), (division,) = (made[k].loops for k in ("descent", "escape", "factors"))
    assert 3 <= tree.least < tree.lanes and points.least == 0
    assert 3 <= division.least < division.lanes
    for x in made.values():
        for loop in x.loops:  # lane by lane where the lanes that are left take less than a vector
            assert not loop.least or loop.least * loop.one <= loop.vector


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("check", [False, True])
def test_programs(name: str, check: bool) -> None:
    f, args = PROGRAMS[name], arguments(name)
    wanted = td.run(f(*map(td.array, args)), backend="reference")
    found = td.run(f(*map(td.array, args)), backend="native", check=check)
    assert np.allclose(found, wanted, rtol=1e-12)  # native has fused multiply-adds
    both = td.jit(lambda *a: td.sum(td.astype(f(*a), int32)), backend="native")(*args)
    assert both == np.asarray(found).astype(np.int32).sum()


def test_explain_says_why() -> None:
    text = " ".join(str(td.jit(rows, backend="native").lower(*arguments("rows")).explain()).split())
    assert "not in SIMD lanes: its loops differ in length between elements" in text
    text = str(td.jit(escape, backend="native").lower(*arguments("escape")).explain())
    assert "SIMD lanes" not in text


def test_one_lane_of_many_iterations() -> None:
    """A number of elements that iterate long, at any place of their vector, while the others end
    soon: what takes long is no slower than alone."""
    plus = primitive("add")
    assert plus.reduces
    keys = np.arange(4096.0)
    nxt = np.arange(1, 4097) % 4096

    def walk(stops: Any, keys: Any, nxt: Any) -> Any:
        return td.map(
            lambda stop: td.while_loop(
                lambda s: keys[s[0]] < stop, lambda s: (nxt[s[0]], s[1] + keys[s[0]]), (0, 0.0)
            )[1],
            stops,
        )

    stops = np.ones(161)
    stops[[0, 17, 18, 35, 79, 159, 160]] = [4000, 3000, 2000, 4095, 77, 1, 4095]
    found = td.jit(walk, backend="native")(stops, keys, nxt)
    assert (found == stops * (stops - 1) / 2).all()


def test_loops_of_equal_length_inside_stay_vectors():
    """Sweeps over matrices: the number of sweeps differs, what one does does not."""
    program = td.jit(td.linalg.eigh, backend="native").lower(np.ones((100, 8, 8)))
    assert "one by one" not in program.explain()


@pytest.mark.parametrize(
    ("type_", "step", "scalar"), [("uint8", 3, True), ("uint8", 1, False), ("float64", 3, False)]
)
def test_bytes_that_are_scattered_are_stored_one_by_one(type_, step, scalar):
    """No instruction stores bytes of several lanes at different places."""
    target = Target.host()
    if not target.masks("scatter", 64):
        pytest.skip("this CPU scatters nothing")
    out = buffer("out", as_type(type_), "output")
    at = i if step == 1 else Var("at", int64)
    body: tuple[Statement, ...] = (Store(out, at, cast(i, as_type(type_))),)
    if step > 1:
        body = (Let(at, mul(i, k(step))), If(less(at, N), body))
    (loop,) = looped(*body)
    assert isinstance(loop, For)
    assert vector_form(loop, target).scalar == scalar
