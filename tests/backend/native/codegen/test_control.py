"""Branches, masks, loops: each lane as if it were alone."""

from __future__ import annotations

import functools
import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen.compile import llvm_ir
from treadle.backend.runtime import steps
from treadle.dsl.expr import Var
from treadle.dsl.types import float32, float64, int32, int64
from treadle.skeletons.ir import narrow, ranges
from treadle.skeletons.ir.kernel import Assign, Declare, For, If, Let, Load, Store, While
from treadle.skeletons.ir.verify import InvalidKernel

from .helpers import (
    TASK,
    N,
    add,
    ap,
    assembly,
    avx2,
    buffer,
    cast,
    k,
    kernel,
    less,
    lit,
    mul,
    optimised,
    run,
)

TARGETS = [None, *([avx2()] if avx2() else [])]
KINDS = ("vector", "serial")
i, j = Var("i", int64), Var("j", int64)


def mandelbrot(kind: str, width: int, iterations: int) -> Any:
    out = buffer("out", int32, "output")
    zr, zi, count = Var("zr", float32), Var("zi", float32), Var("count", int32)
    cr, ci, next_r = Var("cr", float32), Var("ci", float32), Var("next_r", float32)
    inside = ap(
        "logical_and",
        less(add(mul(zr, zr), mul(zi, zi)), lit(4, float32)),
        less(count, lit(iterations, int32)),
    )
    body = (
        For(i, k(0), N, (
            Let(cr, add(mul(cast(i, float32), lit(3 / width, float32)), lit(-2, float32))),
            Let(ci, add(mul(cast(TASK, float32), lit(2 / width, float32)), lit(-1, float32))),
            Declare(zr, lit(0, float32)), Declare(zi, lit(0, float32)),
            Declare(count, lit(0, int32)),
            While((), inside, (
                Let(next_r, add(ap("subtract", mul(zr, zr), mul(zi, zi)), cr)),
                Assign(zi, add(mul(mul(lit(2, float32), zr), zi), ci)),
                Assign(zr, next_r),
                Assign(count, add(count, lit(1, int32))),
            )),
            Store(out, add(mul(TASK, N), i), count),
        ), kind),
    )  # fmt: skip
    return kernel("mandelbrot", [out], body, tasks=N)


@pytest.mark.parametrize("target", TARGETS)
def test_mandelbrot(target: Any) -> None:
    width, iterations = 77, 60
    out = np.zeros((width, width), np.int32)
    compiled = run(mandelbrot("vector", width, iterations), [out], [width], width, target=target)
    serial = np.zeros_like(out)
    run(mandelbrot("serial", width, iterations), [serial], [width], width, target=target)
    assert (out == serial).all() and out.max() == iterations and out.min() == 1
    step = np.arange(width, dtype=np.float32)
    cr = (step * np.float32(3 / width) - 2)[None, :] + np.zeros((width, 1), np.float32)
    ci = (step * np.float32(2 / width) - 1)[:, None] + np.zeros((1, width), np.float32)
    zr, zi, count = np.zeros_like(cr), np.zeros_like(ci), np.zeros_like(out)
    for _ in range(iterations):
        active = zr * zr + zi * zi < 4
        zr, zi = (np.where(active, zr * zr - zi * zi + cr, zr),
                  np.where(active, 2 * zr * zi + ci, zi))  # fmt: skip
        count += active
    assert (out == count).all()
    if target is None and compiled.target.vector_bytes == 64:
        assert "zmm" in assembly(compiled)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_different_lengths(kind: str) -> None:
    """Sparse rows: a loop whose bounds differ between lanes, then a branch that does."""
    rows, v, y = buffer("rows", int64), buffer("v", float64), buffer("y", float64, "output")
    total = Var("total", float64)
    body = (
        For(i, k(0), N, (
            Declare(total, lit(0, float64)),
            For(j, Load(rows, i), Load(rows, add(i, k(1))), (
                Assign(total, add(total, Load(v, j))),
            )),
            If(less(total, lit(3, float64)), (Store(y, i, total),),
               (Store(y, i, ap("negative", total)),)),
        ), kind),
    )  # fmt: skip
    program = kernel("rows", [rows, v, y], body)
    rng = np.random.default_rng(4)
    for target in TARGETS:
        for m in (0, 1, 7, 8, 9, 100):
            starts = np.concatenate([[0], np.cumsum(rng.integers(0, 20, m))]).astype(np.int64)
            numbers, out = rng.random(starts[-1] + 1), np.full(m + 20, -9.0)
            run(program, [starts, numbers, out], [m], target=target)
            parts = [numbers[starts[r] : starts[r + 1]].tolist() for r in range(m)]
            sums = [functools.reduce(operator.add, part, 0.0) for part in parts]
            assert out[:m].tolist() == [s if s < 3 else -s for s in sums]
            assert (out[m:] == -9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_nested_branches_and_steps(kind: str) -> None:
    o, a, s = buffer("o", int64, "output"), Var("a", int64), Var("s", int64)
    body = (
        For(i, k(0), N, (
            Declare(a, k(0)),
            If(less(ap("remainder", i, k(5)), k(3)), (
                Declare(s, i),
                For(j, k(0), ap("remainder", i, k(7)), (
                    If(less(s, k(40)), (Assign(s, add(s, j)), Assign(a, add(a, s)))),
                ), step=2),
                If(less(a, k(50)), (Assign(a, add(a, k(1000))),), (Assign(a, mul(a, k(2))),)),
            ), (Assign(a, ap("negative", i)),)),
            Store(o, i, a),
        ), kind),
    )  # fmt: skip
    program = kernel("nested", [o], body)

    def one(x: int) -> int:
        if x % 5 >= 3:
            return -x
        total, at = 0, x
        for step in range(0, x % 7, 2):
            if at < 40:
                at += step
                total += at
        return total + 1000 if total < 50 else total * 2

    for target in TARGETS:
        for m in (1, 8, 15, 31, 64, 97):
            out = np.zeros(m, np.int64)
            run(program, [out], [m], target=target)
            assert out.tolist() == [one(x) for x in range(m)]


@pytest.mark.parametrize("kind", KINDS)
def test_while_with_work_before_its_test(kind: str) -> None:
    """Collatz: `before` computes the condition's values each iteration."""
    x, o = buffer("x", int64), buffer("o", int32, "output")
    n, iterations, odd = Var("n", int64), Var("iterations", int32), Var("odd", int64)
    body = (
        For(i, k(0), N, (
            Declare(n, Load(x, i)), Declare(iterations, lit(0, int32)),
            While((Let(odd, ap("bitwise_and", n, k(1))),), ap("not_equal", n, k(1)), (
                If(ap("equal", odd, k(1)), (Assign(n, add(mul(n, k(3)), k(1))),),
                   (Assign(n, ap("quot", n, k(2))),)),
                Assign(iterations, add(iterations, lit(1, int32))),
            )),
            Store(o, i, iterations),
        ), kind),
    )  # fmt: skip
    program = kernel("collatz", [x, o], body)

    def collatz(value: int) -> int:
        count = 0
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        return count

    source = np.arange(1, 101)
    out = np.zeros(100, np.int32)
    run(program, [source, out], [100])
    assert out.tolist() == [collatz(int(v)) for v in source]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("t", [float32, float64], ids=str)
def test_a_loop_with_few_iterations_is_emitted_once(t: Any, target: Any) -> None:
    """If masks are free; the elements are the same, and none beyond them."""

    def made(rare: bool) -> Any:
        x, o = buffer("x", t), buffer("o", t, "output")
        value = add(mul(Load(x, i), lit(1.3, t)), lit(0.7, t))
        return kernel(
            "rare", [x, o], (For(i, k(1), N, (Store(o, i, value),), "vector", rare=rare),)
        )

    source = np.random.default_rng(1).random(80).astype(t.numpy)
    for n in range(80):
        found = []
        for rare in (True, False):
            out = np.zeros_like(source)
            compiled = run(made(rare), [source, out], [n], target=target)
            assert not out[n:].any() and not out[0]
            found.append(out)
        assert found[0].tobytes() == found[1].tobytes()
    text = llvm_ir(run(made(True), [source, out], [n], target=target))
    free = compiled.target.vector_bytes == 64
    assert ("\nvector" in text, "\ntail" in text) == (True, not free)
    assert (
        "x float> @llvm.masked.load" in text or "x double> @llvm.masked.load" in text
    ) or not free


@pytest.mark.parametrize("inner", ["serial", "vector"])
def test_unrolled_copies_share_their_loads(inner: str) -> None:
    """A 3×3 box over four rows at once reads each of six rows three times, not twelve rows."""
    w, row = Var("w", int64), Var("row", int64)
    x, o = buffer("x", float32), buffer("o", float32, "output")
    r, top = Var("r", int64), Var("top", int64)
    at = mul(add(top, r), w)
    taps = [Load(x, add(mul(add(top, r, k(dy)), w), i, k(dx)))
            for dy in (-1, 0, 1) for dx in (-1, 0, 1)]  # fmt: skip
    body = (
        Let(top, add(mul(TASK, k(4)), k(1))),
        For(i, k(1), add(w, k(-1)), (
            For(r, k(0), k(4), (Store(o, add(at, i), add(*taps)),), "unrolled"),
        ), inner),
    )  # fmt: skip
    program = kernel("box", [x, o], body, scalars=[w])
    width, height = 70, 10
    source = np.random.default_rng(1).random((height, width)).astype(np.float32)
    out = np.zeros_like(source)
    compiled = run(program, [source, out], [width], 2)
    expected = np.zeros_like(source)
    total = np.zeros((8, width - 2), np.float32)
    for dy in (0, 1, 2):
        for dx in (0, 1, 2):
            total = source[dy : dy + 8, dx : dx + width - 2] + total
    expected[1:9, 1:-1] = total
    assert np.allclose(out, expected, rtol=1e-6)
    text = llvm_ir(compiled)
    main = text[: text.index("\nenter_tail")] if inner == "vector" else text
    assert main.count("!invariant.load") == 18
    assert row.type == int64


@pytest.mark.parametrize("t", [float32, float64])
@pytest.mark.parametrize("size", [1, 3, 8, 15, 33, 71])
def test_a_tail_takes_one_vector_at_a_time(t: Any, size: int) -> None:
    """Its code is short, and rows shorter than a group of vectors run no more lanes than needed."""
    x, o = buffer("x", t), buffer("o", t, "output")
    body = (For(i, k(0), N, (Store(o, i, mul(Load(x, i), Load(x, i))),), "vector"),)
    source = np.random.default_rng(2).random(size).astype(t.numpy)
    out = np.full(size + 40, 7, t.numpy)
    compiled = run(kernel("square", [x, o], body), [source, out], [size])
    assert np.array_equal(out[:size], source * source) and (out[size:] == 7).all()
    lanes = compiled.target.vector_bytes // t.bytes
    text = llvm_ir(compiled)
    tail = text[text.index("\nenter_tail") :]
    assert f"fmul <{lanes} x " in tail and tail.count("fmul") == 1


def test_unrolled_reductions_run_together() -> None:
    """Four dot products in one loop: nested loops of equal bounds are one loop."""
    x, y, o = buffer("x", float64), buffer("y", float64), buffer("o", float64, "output")
    r, total = Var("r", int64), Var("total", float64)
    body = (
        For(r, k(0), k(4), (
            Declare(total, lit(0, float64)),
            For(j, k(0), N, (
                Assign(total, add(total, mul(Load(x, add(mul(r, N), j)), Load(y, j)))),)),
            Store(o, r, total),
        ), "unrolled"),
    )  # fmt: skip
    program = kernel("dots", [x, y, o], body)
    a, b, out = np.random.rand(4, 33), np.random.rand(33), np.zeros(4)
    compiled = run(program, [a, b, out], [33])
    assert np.allclose(out, a @ b)
    assert llvm_ir(compiled).count("\nfor") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_change_in_a_loop_is_loaded_before(kind: str) -> None:
    x, y, o = buffer("x", float64), buffer("y", float64), buffer("o", float64, "output")
    product = mul(Load(x, i), Load(y, j))
    row = For(j, k(0), N, (Store(o, add(mul(i, N), j), product),), kind)
    a, b, out = np.random.rand(37), np.random.rand(37), np.zeros((37, 37))
    program = kernel("outer", [x, y, o], (For(i, k(0), N, (row,)),))
    compiled = run(program, [a, b, out], [37])
    assert np.array_equal(out, np.outer(a, b))
    loop = "vector" if kind == "vector" else "for"
    inside = llvm_ir(compiled).rpartition(f"\n{loop}")[2]
    assert inside.split("br i1")[0].count(", !invariant.load") == 1


def test_what_a_loop_stores_is_loaded_inside() -> None:
    x, o = buffer("x", float64), buffer("o", float64, "output")
    total = Store(o, i, add(Load(o, i), Load(x, j)))
    program = kernel("sums", [x, o], (For(i, k(0), N, (For(j, k(0), N, (total,)),)),))
    a, out = np.arange(9.0), np.zeros(9)
    run(program, [a, out], [9])
    assert np.array_equal(out, np.full(9, a.sum()))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_loaded_before_a_loop_that_does_not_load_it(kind: str) -> None:
    """In a branch that is not taken, in a loop without iterations, in one inside of those."""
    x, o = buffer("x", float64), buffer("o", float64, "output")
    far, none = Var("far", int64), Var("none", int64)
    store = Store(o, j, Load(x, mul(far, add(i, k(1)))))
    bodies = (
        If(less(j, none), (store,)),
        If(less(i, none), (For(Var("q", int64), k(0), N, (store,)),)),
    )
    for body in bodies:
        loop = For(j, k(0), N, (body,), kind)
        program = kernel("far", [x, o], (For(i, k(0), N, (loop,)),), [N, far, none])
        run(program, [np.zeros(1), np.zeros(50)], [50, 1 << 50, 0])
    for first in (i, j):  # the outer or the inner loop has no iteration
        loop = For(j, k(0), none if first is j else N, (store,), kind)
        body = (For(i, k(0), none if first is i else N, (loop,)),)
        program = kernel("none", [x, o], body, [N, far, none])
        run(program, [np.zeros(1), np.zeros(50)], [50, 1 << 50, 0])


@pytest.mark.parametrize("of", ["elements", "indices"])
def test_what_costs_much_and_does_not_change_is_computed_before_an_inner_loop(of: str) -> None:
    """In vectors, where loads and floats are not moved by our own code generator."""
    x, at, o = buffer("x", float64), buffer("at", int64), buffer("o", float64, "output")
    total = Var("total", float64)
    same = Load(x, Load(at, i)) if of == "elements" else cast(i, float64)
    loop = For(j, k(0), N, (Assign(total, add(total, mul(ap("sqrt", same), Load(x, j)))),))
    body = Declare(total, lit(0, float64)), loop, Store(o, i, total)
    program = kernel("same", [x, at, o], (For(i, k(0), N, body, "vector"),))
    a, chosen, out = np.arange(40.0), np.arange(40)[::-1].copy(), np.zeros(40)
    compiled = run(program, [a, chosen, out], [40])
    np.testing.assert_allclose(out, np.sqrt(a[chosen] if of == "elements" else a) * a.sum())
    blocks = re.split(r"\n(?=[\w.]+:)", optimised(compiled))
    inner = [b for b in blocks if f"label %{b.split(':')[0]}," in b]
    assert any("sqrt" in b for b in blocks) and any("fma" in b or "fadd" in b for b in inner)
    assert not any("sqrt" in b or "gather" in b for b in inner), inner


@pytest.mark.parametrize("length", [1, 5, 16, 31, 64, 70, 200])
def test_loops_of_known_length(length: int) -> None:
    x, o = buffer("x", float64), buffer("o", float64, "output")
    total = Var("total", float64)
    body = (
        Declare(total, lit(0, float64)),
        For(j, k(0), k(length), (Assign(total, add(total, Load(x, j))),)),
        For(i, k(0), k(length), (Store(o, i, mul(total, Load(x, i))),), "vector"),
    )
    a, out = np.arange(1.0, length + 1), np.zeros(length)
    run(kernel("known", [x, o], body), [a, out], [length])
    assert np.array_equal(out, a.sum() * a)


def test_assignment_to_a_shared_variable_is_refused() -> None:
    o, a = buffer("o", int64, "output"), Var("a", int64)
    body = (Declare(a, k(0)), For(i, k(0), N, (Assign(a, i), Store(o, i, a)), "vector"))
    with pytest.raises(InvalidKernel, match="outside a vector loop"):
        run(kernel("shared", [o], body), [np.zeros(4, np.int64)], [4])


def test_a_thousand_operations() -> None:
    """Long chains neither recurse nor repeat shared parts."""
    x, o = buffer("x", float32), buffer("o", float32, "output")
    e: Any = Load(x, i)
    for _ in range(1000):
        e = add(mul(e, e), lit(0.1, float32))
    program = kernel("long", [x, o], (For(i, k(0), N, (Store(o, i, e),), "vector"),))
    source = np.linspace(0, 0.5, 100).astype(np.float32)
    out = np.zeros_like(source)
    run(program, [source, out], [100])
    value = source
    for _ in range(1000):
        value = value * value + np.float32(0.1)
    assert (out == value).all()


def test_run_time_weights_of_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for the sizes that come, one for all when these are many or large."""
    monkeypatch.setattr(steps, "_SIZES", 3)
    rng = np.random.default_rng(0)
    a = rng.random((20, 30)).astype("f4")
    correlate = td.jit(lambda a, w: td.correlate(a, w))
    for size in [(3, 3), (5, 1), (3, 3), (1, 4), (2, 2), (12, 12)]:
        w = rng.random(size).astype("f4")
        padded = td.run(td.correlate(a, w), backend="reference")
        assert np.allclose(correlate(a, w), padded, rtol=1e-5)
        assert np.allclose(correlate(a[::-1], w)[::-1], td.run(
            td.correlate(a[::-1].copy(), w), backend="reference")[::-1], rtol=1e-5)  # fmt: skip
    with pytest.raises(td.ShapeError):
        correlate(a, np.zeros((3, 0, 3), "f4"))
    assert np.array_equal(correlate(a, np.zeros((0, 3), "f4")), np.zeros_like(a))


def test_divisions_in_32_bits_where_they_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kernel for small arrays and one for all; each call takes the right one."""
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))  # no other test uses such kernels
    monkeypatch.setattr(ranges, "LARGEST", 5000)
    monkeypatch.setattr(narrow, "LARGEST", 5000)
    schedule = td.schedule.Column(8)
    double = td.jit(lambda a: td.map(lambda x: x * 2, a, schedule=schedule))
    small, large = np.arange(600.0).reshape(20, 30), np.arange(20_000.0).reshape(100, 200)
    (step,) = double.lower(small).executable.kernel_steps
    (choice,) = step.dense.launches
    first, last = choice.variants
    for array, variant in ((small, first), (large, last), (small, first), (small[:0], last)):
        assert np.array_equal(double(array), array * 2)
        assert choice._last[1] is variant
    assert "lshr" in llvm_ir(first.compiled(False))
