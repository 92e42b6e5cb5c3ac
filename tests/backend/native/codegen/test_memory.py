"""Gathers, strides, reversal, scatters, complex arrays, local buffers; nothing past the end."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from treadle.backend.native.codegen import engine
from treadle.backend.native.codegen.compile import llvm_ir
from treadle.backend.native.codegen.llvm import llvm
from treadle.backend.native.codegen.target import Target
from treadle.backend.runtime.memory import address
from treadle.dsl.expr import Expr, Var
from treadle.dsl.types import (
    ALL_TYPES,
    ScalarType,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint64,
)
from treadle.skeletons.ir.kernel import For, If, Let, Load, Store

from .helpers import N, add, ap, assembly, avx2, buffer, cast, k, kernel, less, lit, mul, run

TARGETS = [None, *([avx2()] if avx2() else [])]
SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100, 1000)
i = Var("i", int64)
PATTERNS: dict[str, Any] = {
    "forward": (i, lambda m: np.arange(m)),
    "shifted": (add(i, k(3)), lambda m: np.arange(m) + 3),
    "reversed": (ap("subtract", add(N, k(-1)), i), lambda m: np.arange(m)[::-1]),
    "every second": (mul(i, k(2)), lambda m: 2 * np.arange(m)),
    "every third": (add(mul(i, k(3)), k(1)), lambda m: 3 * np.arange(m) + 1),
    "every fourth": (mul(i, k(4)), lambda m: 4 * np.arange(m)),
    "every fifth": (mul(i, k(5)), lambda m: 5 * np.arange(m)),
    "every second back": (mul(ap("subtract", add(N, k(-1)), i), k(2)),
                          lambda m: 2 * np.arange(m)[::-1]),
    "one": (k(2), lambda m: np.full(m, 2)),
    "run-time stride": (mul(i, ap("minimum", N, k(3))), lambda m: np.arange(m) * min(m, 3)),
    "not linear": (ap("remainder", mul(i, i), add(N, k(1))),
                   lambda m: np.arange(m) ** 2 % (m + 1)),
}  # fmt: skip


def values(t: ScalarType, count: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(count).integers(0, 100, count)
    if t.is_complex:
        return (numbers + 1j * numbers[::-1]).astype(t.numpy)
    return (numbers % 2 if t.family == "bool" else numbers).astype(t.numpy)


@pytest.mark.sample(6)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("t", [float32, int64, complex64, complex128, bool_], ids=str)
def test_load(pattern: str, t: ScalarType) -> None:
    index, positions = PATTERNS[pattern]
    x, o = buffer("x", t), buffer("o", t, "output")
    program = kernel("load", [x, o], (For(i, k(0), N, (Store(o, i, Load(x, index)),), "vector"),))
    for target in TARGETS:
        for m in SIZES:
            at = positions(m)
            source = values(t, int(at.max(initial=0)) + 4)
            out = values(t, m + 70)
            rest = out[m:].copy()
            run(program, [source, out], [m], target=target)
            assert (out[:m] == source[at]).all()
            assert (out[m:] == rest).all()


@pytest.mark.sample(6)
@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p not in ("one", "not linear")])
@pytest.mark.parametrize("t", [float32, complex64, int64, bool_], ids=str)
def test_store(pattern: str, t: ScalarType) -> None:
    index, positions = PATTERNS[pattern]
    x, o = buffer("x", t), buffer("o", t, "output")
    program = kernel("store", [x, o], (For(i, k(0), N, (Store(o, index, Load(x, i)),), "vector"),))
    for target in TARGETS:
        for m in SIZES:
            source, at = values(t, max(m, 1)), positions(m)
            out = values(t, int(at.max(initial=0)) + 70)
            expected = out.copy()
            expected[at] = source[:m]
            run(program, [source, out], [m], target=target)
            assert (out == expected).all()


def test_store_to_one_place_keeps_the_last() -> None:
    x, o = buffer("x", float32), buffer("o", float32, "output")
    program = kernel("last", [x, o], (For(i, k(0), N, (Store(o, k(1), Load(x, i)),), "vector"),))
    for m in (1, 15, 16, 17, 33, 100):
        source, out = np.arange(m, dtype=np.float32), np.zeros(3, np.float32)
        run(program, [source, out], [m])
        assert out.tolist() == [0, m - 1, 0]


@pytest.mark.sample(6)
@pytest.mark.parametrize("t", ALL_TYPES, ids=str)
def test_gather(t: ScalarType) -> None:
    x, at, o = buffer("x", t), buffer("at", int32), buffer("o", t, "output")
    body = (For(i, k(0), N, (Store(o, i, Load(x, cast(Load(at, i), int64))),), "vector"),)
    program = kernel("gather", [x, at, o], body)
    for target in TARGETS:
        for m in SIZES:
            source = values(t, 1000)
            places = np.random.default_rng(m).integers(0, 1000, max(m, 1)).astype(np.int32)
            out = np.zeros(m + 1, t.numpy)
            run(program, [source, places, out], [m], target=target)
            assert (out[:m] == source[places[:m]]).all()


def test_index_through_variables() -> None:
    """Linear indices are found through Let, in any association."""
    row, w = Var("row", int64), Var("w", int64)
    x, o = buffer("x", float32), buffer("o", float32, "output")
    index: Expr = add(mul(add(row, k(1)), w), add(i, k(-1)))
    body = (Let(row, k(2)), For(i, k(1), w, (Store(o, i, Load(x, index)),), "vector"))
    program = kernel("through", [x, o], body, scalars=[w])
    source, out = np.arange(400, dtype=np.float32), np.zeros(100, np.float32)
    compiled = run(program, [source, out], [100])
    assert (out[1:] == source[300:399]).all()
    assert "gather" not in llvm_ir(compiled)


def test_loops_with_steps() -> None:
    o = buffer("o", int64, "output")
    for kind in ("serial", "vector"):
        program = kernel("steps", [o], (For(i, k(3), N, (Store(o, i, i),), kind, 3),))
        for m in (0, 3, 4, 50, 51, 52, 200):
            out = np.zeros(m + 1, np.int64)
            run(program, [out], [m])
            expected = np.zeros(m + 1, np.int64)
            expected[3:m:3] = np.arange(3, m, 3)
            assert (out == expected).all()


def test_local_buffer() -> None:
    """A task's own memory: written in one loop, read in the next."""
    j = Var("j", int64)
    x, o = buffer("x", float32), buffer("o", float32, "output")
    held = buffer("held", float32, "local", k(100))
    body = (
        For(i, k(0), N, (Store(held, i, mul(Load(x, i), Load(x, i))),), "vector"),
        For(j, k(0), N, (Store(o, j, Load(held, ap("subtract", add(N, k(-1)), j))),), "vector"),
    )
    program = kernel("local", [x, held, o], body)
    for m in (1, 16, 33, 100):
        source, out = np.arange(m, dtype=np.float32), np.zeros(m, np.float32)
        compiled = run(program, [source, out], [m])
        assert (out == (source**2)[::-1]).all()
    assert [b.name for b in compiled.kernel.buffers if b.role != "local"] == ["x", "o"]


def test_large_local_buffer() -> None:
    """Beyond what a thread's stack should hold."""
    j = Var("j", int64)
    x, o = buffer("x", int64), buffer("o", int64, "output")
    held = buffer("held", int64, "local", k(200_000))
    body = (
        For(i, k(0), N, (Store(held, i, Load(x, i)),), "vector"),
        For(j, k(0), N, (Store(o, j, Load(held, j)),), "vector"),
    )
    source, out = np.arange(200_000), np.zeros(200_000, np.int64)
    run(kernel("large", [x, held, o], body), [source, out], [200_000], 3)
    assert (out == source).all()


def test_loads_see_stores() -> None:
    """A store ends the sharing of loads of its own buffer, and of no other."""
    a, b = Var("a", float32), Var("b", float32)
    x, u = buffer("x", float32), buffer("u", float32, "update")
    body = (
        Let(a, Load(u, k(0))),
        Store(u, k(0), add(a, Load(x, k(0)))),
        Let(b, Load(u, k(0))),
        Store(u, k(1), add(b, Load(x, k(0)))),
    )
    program = kernel("sees", [x, u], body)
    out = np.array([1, 0], np.float32)
    compiled = run(program, [np.array([10], np.float32), out], [1])
    assert out.tolist() == [11, 21]
    assert llvm_ir(compiled).count("load float, ptr %a0") <= 1


def test_condition_guards_loads() -> None:
    """A lane that is not active never reads: an index far outside is harmless."""
    x, o = buffer("x", float32), buffer("o", float32, "output")
    v = Var("v", float32)
    far = mul(i, k(1 << 40))
    from treadle.skeletons.ir.kernel import Assign, Declare, If

    body = (
        For(i, k(0), N, (
            Declare(v, cast(i, float32)),
            If(less(i, k(1)), (Assign(v, Load(x, far)),)),
            Store(o, i, v),
        ), "vector"),
    )  # fmt: skip
    program = kernel("guard", [x, o], body)
    for m in (1, 5, 40):
        out = np.zeros(m, np.float32)
        run(program, [np.array([7], np.float32), out], [m])
        assert out.tolist() == [7.0, *map(float, range(1, m))]


@pytest.mark.parametrize("t", [float32, complex64], ids=str)
def test_streaming_stores(t: ScalarType) -> None:
    """Large aligned results go past the caches; others, and small ones, do not; all are right."""
    host = Target.host()
    if not host.is_x86:
        pytest.skip("x86 only")
    target = Target(host.cpu, host.features, host.vector_bytes, 4096)
    x, o = buffer("x", t), buffer("o", t, "output")
    body = (For(i, k(0), N, (Store(o, i, ap("negative", Load(x, i))),), "vector"),)
    program = kernel("stream", [x, o], body)
    space = np.zeros(5000, t.numpy)
    first = -(space.ctypes.data // t.bytes) % (64 // t.bytes)
    for offset in (0, 1, 7):
        for m in (1, 100, 1024, 1025, 3000):
            source = values(t, m)
            out = space[first + offset : first + offset + m]
            compiled = run(program, [source, out], [m], target=target)
            assert (out == -source).all()
    assert "vmovnt" in assembly(compiled)
    small = run(kernel("no", [x, o], body), [source, out], [m], target=host.with_vectors_of(16))
    assert llvm_ir(small).count("nontemporal") <= 2


@pytest.mark.parametrize("pitch", [1024, 1030])
def test_streaming_rows(pitch: int) -> None:
    """Several rows at a time, wherever their lines begin; nothing beyond them is written."""
    host = Target.host()
    if not host.is_x86:
        pytest.skip("x86 only")
    target = Target(host.cpu, host.features, host.vector_bytes, 4096)
    x, o = buffer("x", float32), buffer("o", float32, "output")
    row, u, start = Var("row", int64), Var("u", int64), Var("start", int64)
    place = ap("add", ap("multiply", ap("add", row, u), k(pitch)), i)
    store = Store(o, place, ap("negative", Load(x, place)))
    inner = For(i, start, N, (For(u, k(0), k(2), (store,), "unrolled"),), "vector")
    program = kernel("rows", [x, o], (For(row, k(0), k(4), (inner,), "serial", 2),), [N, start])
    source = values(float32, 4 * pitch)
    for begin in range(0, 40, 3):
        for stop in (pitch, pitch - 5, begin + 1, begin):
            out = np.zeros(4 * pitch, np.float32)
            compiled = run(program, [source, out], [stop, begin], target=target)
            expected = np.zeros((4, pitch), np.float32)
            expected[:, begin:stop] = -source.reshape(4, pitch)[:, begin:stop]
            assert (out.reshape(4, pitch) == expected).all()
    assert "vmovnt" in assembly(compiled)


def test_addresses() -> None:
    whole = np.zeros((6, 7))
    for a in (whole, whole[2:, 3], whole[::-1, ::2], whole[:0], np.zeros(())):
        assert address(a) == a.ctypes.data


#: Stores of wide values to narrow elements, on all lanes and under conditions that are known.
GUARDS: dict[str, tuple[Any, Any]] = {
    "all": (None, lambda at: at >= 0),
    "first": (less(i, k(1)), lambda at: at < 1),
    "one": (ap("equal", i, k(4), type_=bool_), lambda at: at == 4),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("wide, narrow", [
    (int64, int8), (int64, int16), (int64, int32), (int32, int8), (int32, int16), (int16, int8),
    (float64, float32), (float64, int8), (float32, int16), (uint64, uint8),
], ids=str)  # fmt: skip
def test_truncated_stores_of_known_lanes(guard: str, wide: ScalarType, narrow: ScalarType) -> None:
    """Rows of a known length: nothing is written after the last lane that is stored."""
    condition, chosen = GUARDS[guard]
    x, o = buffer("x", wide), buffer("o", narrow, "output")
    # A function, and as many lanes as a vector has wide elements: one vector is stored.
    y, real = buffer("y", wide, "output"), float64 if wide.bits == 64 else float32
    root = cast(ap("exp", mul(cast(Load(x, i), real), lit(0, real))), wide)
    stores = Store(y, i, mul(Load(x, i), root)), Store(o, i, cast(Load(x, i), narrow))
    inside = stores if condition is None else (If(condition, stores),)
    for target in TARGETS:
        for m in (*range(1, 10), 15, 16, 17, 33):
            program = kernel("truncated", [x, y, o], (For(i, k(0), k(m), inside, "vector"),))
            source, at = values(wide, m), np.flatnonzero(chosen(np.arange(m)))
            outs = [np.full(m + 70, 113).astype(t.numpy) for t in (wide, narrow)]
            expected = [out.copy() for out in outs]
            for out in expected:
                out[at] = source[at].astype(out.dtype)
            run(program, [source, *outs], [m], target=target)
            for out, want in zip(outs, expected, strict=True):
                assert (out == want).all(), (m, out)


MASKED = {
    "load": "<8 x {t}> @llvm.masked.load.v8i{n}.p0(ptr %p, <8 x i1> %m, <8 x {t}> %x)",
    "store": "void @llvm.masked.store.v8i{n}.p0(<8 x {t}> %x, ptr %p, <8 x i1> %m)",
    "gather": "<8 x {t}> @llvm.masked.gather.v8i{n}.v8p0(<8 x ptr> %q, <8 x i1> %m, <8 x {t}> %x)",
    "scatter": "void @llvm.masked.scatter.v8i{n}.v8p0(<8 x {t}> %x, <8 x ptr> %q, <8 x i1> %m)",
}


@pytest.mark.sample(16)
@pytest.mark.skipif(not Target.host().is_x86, reason="x86 instructions")
@pytest.mark.parametrize("size, cpu", [
    (16, "x86-64"), (32, "x86-64-v3"), (32, "haswell"), (32, "broadwell"), (32, "skylake"),
    (32, "alderlake"), (32, "znver1"), (32, "znver3"), (64, "znver4"), (64, "znver5"),
    (64, "skylake-avx512"), (64, "icelake-server"), (64, "sapphirerapids"),
])  # fmt: skip
@pytest.mark.parametrize("what", MASKED)
def test_masks_are_what_llvm_has_instructions_for(what: str, size: int, cpu: str) -> None:
    target = Target(cpu, "+avx2" if size > 16 else "", size)
    engine.header(Target.host())  # which initialises LLVM
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    machine = triple.create_target_machine(cpu=cpu, features=target.features, opt=3, reloc="pic")
    for bits in (8, 16, 32, 64):
        call = MASKED[what].format(t=f"i{bits}", n=bits)
        kind = call.partition(" @")[0]
        made, result = ("%r = ", "%r") if kind != "void" else ("", "")
        text = (
            f"declare {re.sub(' %[a-z]', '', call)}\n"
            f"define {kind} @f(ptr %p, <8 x ptr> %q, <8 x i1> %m, <8 x i{bits}> %x) {{\n"
            f"{made}call {call}\nret {kind} {result}\n}}"
        )
        with engine.compiler(Target.host()) as one, one.parsed(text) as module:
            lines = machine.emit_assembly(module).splitlines()
        branches = sum(line.startswith("\tj") for line in lines)
        assert (branches == 0) == target.masks(what, bits), bits


@pytest.mark.sample(3)
@pytest.mark.parametrize("t", [int8, int16, uint8, float16, complex64], ids=str)
@pytest.mark.parametrize("period", [1, 2, 5, 63])
def test_masks_of_consecutive_elements(t: ScalarType, period: int) -> None:
    """Tails, runs, and single elements: what is active is loaded and stored, and nothing else."""
    x, o = buffer("x", t), buffer("o", t, "output")
    chosen = less(k(0), ap("remainder", add(i, k(1)), k(period))) if period > 1 else less(i, N)
    guarded = If(chosen, (Store(o, add(i, k(3)), Load(x, add(i, k(3)))),))
    program = kernel("masked", [x, o], (For(i, k(0), N, (guarded,), "vector"),))
    for target in TARGETS:
        for m in SIZES:
            source, out = values(t, m + 3), np.zeros(m + 3, t.numpy)
            expected, places = out.copy(), np.arange(m)
            written = places[(places + 1) % period > 0] if period > 1 else places
            expected[written + 3] = source[written + 3]
            run(program, [source, out], [m], target=target)
            assert (out == expected).all(), m


@pytest.mark.sample(2)
@pytest.mark.parametrize("t", [int8, int16, bool_, int32], ids=str)
@pytest.mark.parametrize("scatters", [False, True])
def test_guarded_gathers_are_no_branches_for_each_lane(t: ScalarType, scatters: bool) -> None:
    """What is compiled of many gathers or scatters under masks does not grow by branches."""
    x, at, o = buffer("x", t), buffer("at", int32), buffer("o", t, "output")

    def compiled(count: int) -> Any:
        inside = []
        for c in range(count):
            found = Var(f"found{c}", int64)
            place = cast(Load(at, add(mul(i, k(count)), k(c))), int64)
            one = Store(o, found, Load(x, i)) if scatters else Store(o, add(i, N), Load(x, found))
            inside.append(If(less(k(3), place), (Let(found, place), one)))
        program = kernel("guarded", [x, at, o], (For(i, k(0), N, tuple(inside), "vector"),))
        m = 77
        places = np.random.default_rng(count).permutation(count * m).astype(np.int32) // count
        source, out = values(t, m), np.zeros(2 * m, t.numpy)
        expected = out.copy()
        for at_once in range(m):
            for p in places[at_once * count : (at_once + 1) * count]:
                if p > 3 and scatters:
                    expected[p] = source[at_once]
                elif p > 3:
                    expected[at_once + m] = source[p]
        done = run(program, [source, places, out], [m])
        if count == 1:
            assert (out == expected).all()
        return assembly(done)

    few, many = (sum("\tj" in line for line in compiled(n).splitlines()) for n in (1, 9))
    assert many - few < 8 * 2 * 16
