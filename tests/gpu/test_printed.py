"""What the printer writes, run: every primitive of every type, and every statement, on a device.

Kernels are those of tests/backend/cuda/codegen/handmade.py, expectations NumPy's.
"""

from __future__ import annotations

import functools
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.codegen import handmade as by_hand
from tests.backend.cuda.codegen.handmade import Maker, apply, lit
from tests.backend.native.codegen.test_primitives import _arguments, check
from tests.backend.native.codegen.ulps import samples
from treadle.backend.cuda.codegen.text import parameters
from treadle.backend.cuda.compile.nvrtc import compile_kernel
from treadle.dsl.expr import Apply, Const, Expr, Var
from treadle.dsl.graph import Combine
from treadle.dsl.primitives import TABLE, convert
from treadle.dsl.types import ScalarType, bool_, complex128, float32, int32, int64, uint32, uint64
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.kernel import (
    Assign,
    Atomic,
    Barrier,
    Collective,
    Declare,
    Fence,
    Fetch,
    FetchUpdate,
    If,
    Kernel,
    Load,
    LoadVector,
    Publish,
    Report,
    Store,
    StoreVector,
    While,
)

cupy = pytest.importorskip("cupy")


@functools.cache
def arch() -> str:
    found = cupy.cuda.Device().compute_capability
    return "sm_90a" if found == "90" else f"sm_{found}"


class Memory:
    """An array on the device as bytes, with room after it."""

    def __init__(self, values: Any) -> None:
        flat = np.ascontiguousarray(values).reshape(-1)
        self.count, self.dtype = flat.size, flat.dtype
        self.bytes = cupy.full(flat.nbytes + 64, 0xAB, "u1")
        if flat.size:
            self.bytes[: flat.nbytes] = cupy.asarray(flat.view("u1"))

    def get(self) -> Any:
        return cupy.asnumpy(self.bytes)[: self.count * self.dtype.itemsize].view(self.dtype).copy()


def poison(count: int, t: ScalarType) -> Memory:
    return Memory(np.full(count * t.bytes, 0xAB, "u1").view(t.numpy))


def launch(kernel: Kernel, arrays: list[Memory], blocks: int, n: int, errors: Any = None) -> None:
    made = compile_kernel(kernel, arch())
    module = cupy.cuda.function.Module()
    module.load(made.image)
    assert len(arrays) == len(parameters(kernel)) and kernel.errors == (0 if errors is None else 3)
    given = [a.bytes for a in arrays] + ([errors] if errors is not None else [])
    module.get_function(made.name)(
        (blocks,), (kernel.threads,), (*given, np.int64(n)), shared_mem=made.dynamic_shared_bytes
    )
    cupy.cuda.Device().synchronize()


# --- primitives ---------------------------------------------------------------------------------


def _groups(t: ScalarType) -> list[Any]:
    """Primitives that take the same arguments, a dozen at once."""
    found: dict[Any, list[Any]] = {}
    for case in by_hand.cases(t):
        own = case[0].name if case[0].name in ("cast", "select", "complex") else ""
        found.setdefault((case[1], own), []).append(case)
    return [some[k : k + 12] for some in found.values() for k in range(0, len(some), 12)]


def _inputs(name: str, t: ScalarType, types: Any) -> list[Any]:
    rng = np.random.default_rng(3)
    if name == "cast":
        x = samples(t, rng, 200)
        if t.is_float and t.bits > 16:
            edges = [1 + 2.0**-11 + 2.0**-40, 65519.999, 65520.0, 2.0**31, -(2.0**31), 2.0**32, 3e9,
                     2.0**63, -(2.0**63), 2.0**64, 127.5, 128.0, 255.5, -0.5]  # fmt: skip
            x = np.concatenate([x, np.array(edges, t.numpy)])
        return [x]
    if name in ("select", "complex"):
        base = np.resize(samples(t, rng), 300)
        chosen = rng.integers(0, 2, 300).astype(bool)
        return [chosen if u == bool_ and k == 0 and name == "select" else np.roll(base, k)
                for k, u in enumerate(types)]  # fmt: skip
    return _arguments(len(types), t)


@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_primitives(t: ScalarType) -> None:
    wrong = []
    for k, some in enumerate(_groups(t)):
        kernel = by_hand.primitive_kernel(f"primitives_{t.name}_{k}", some)
        args = _inputs(some[0][0].name, t, some[0][1])
        count = len(args[0])
        total = -(-count // by_hand.THREADS) * by_hand.THREADS
        arrays, outs = [], []
        for _, _, result in some:
            outs.append(poison(total, result))
            arrays += [*(Memory(np.resize(a, total)) for a in args), outs[-1]]
        launch(kernel, arrays, total // by_hand.THREADS, total)
        for (op, _, result), out in zip(some, outs, strict=True):
            found = out.get()[:count]
            try:
                _compare(op, t, result, args, found)
            except AssertionError as error:
                wrong.append(f"{op.name} -> {result}: {error}")
    assert not wrong, "\n".join(wrong)


def _compare(op: Any, t: ScalarType, result: ScalarType, args: list[Any], found: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if op.name == "cast":
            want = convert(args[0], result)
        elif op.name == "select":
            want = np.where(*args)
        elif op.name == "complex":
            want = np.zeros(len(found), result.numpy)
            want.real, want.imag = args
            found, want = found.view(t.numpy), want.view(t.numpy)
        elif op.name == "nextafter":  # of equal zeros NumPy's versions give one or the other
            want = op.numpy(*args)
        else:
            check(op, t, result, args, found)
            return
    bad = ~((found == want) | ((found != found) & (want != want)))
    if op.name == "complex":
        bad = bad.reshape(-1, 2).any(1)
        found, want = found.reshape(-1, 2), want.reshape(-1, 2)
    assert not bad.any(), [args[0][bad][0], found[bad][0], want[bad][0]]


# --- atomics ------------------------------------------------------------------------------------


def _numbers(t: ScalarType, op: str, count: int, rng: np.random.Generator) -> Any:
    """Numbers whose sums and products are exact in any order."""
    if t.family == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if t.is_integer:
        return rng.integers(t.lowest, t.highest, count, dtype=t.numpy, endpoint=True)
    if t.is_complex:
        return rng.choice([1, -1, 1j, -1j], count).astype(t.numpy)
    return (rng.integers(-3, 4, count) if op == "add" else rng.choice([-1, 1], count)).astype(
        t.numpy
    )


@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_atomics(t: ScalarType) -> None:
    rng, count, places = np.random.default_rng(5), 4096, 37
    for op in ("add", "multiply", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor"):
        if TABLE[op].rule(t) != (t, t):
            continue
        locks = t.bits > 64
        kernel = by_hand.atomic_kernel(t, op, locks)
        a, where = _numbers(t, op, count, rng), rng.integers(0, places, count)
        first = _numbers(t, op, places, rng)
        want = first.copy()
        with np.errstate(all="ignore"):
            for k in range(count):
                want[where[k]] = convert(TABLE[op].numpy(a[k], want[where[k]]), t)[()]
        out = Memory(first)
        lock = [Memory(np.zeros(64, "i4"))] if locks else []
        launch(kernel, [Memory(a), Memory(where), out, *lock], count // by_hand.THREADS, count)
        assert np.array_equal(out.get(), want), op


@pytest.mark.parametrize("combine", [False, True])
def test_tuples_are_never_torn(combine: bool) -> None:
    """Updates of three places by many threads at once, two locks for all."""
    m, count = Maker("tuples"), 1 << 15
    a = m.buffer("a", int64)
    outs = [m.buffer(f"out{k}", t, "update", 3) for k, t in enumerate((int64, float32, complex128))]
    locks = m.buffer("locks", int32, "scratch", 2)
    x = Load(a, m.i)
    values = (x, apply("cast", x, type_=float32), apply("cast", x, type_=complex128))
    left = tuple(Var(f"l{k}", b.type) for k, b in enumerate(outs))
    right = tuple(Var(f"r{k}", b.type) for k, b in enumerate(outs))
    more = apply("greater", left[0], right[0], type_=bool_)
    larger = Combine(
        left,
        right,
        tuple(apply("select", more, p, q, type_=p.type) for p, q in zip(left, right, strict=True)),
    )
    place = apply("remainder", m.i, lit(3, int64))
    m.add(Atomic(tuple(outs), place, values, larger if combine else None, locks))
    numbers = np.random.default_rng(1).permutation(count).astype("i8")
    made = [Memory(np.full(3, -5, b.type.numpy)) for b in outs]
    launch(m.kernel(), [Memory(numbers), *made, Memory(np.zeros(2, "i4"))], count // 256, count)
    got = [o.get() for o in made]
    assert (got[1] == got[0]).all() and (got[2] == got[0]).all() and (got[0] >= 0).all()
    if combine:
        assert got[0].tolist() == [numbers[k::3].max() for k in range(3)]


@pytest.mark.parametrize("t", (int32, uint32, int64, uint64), ids=str)
def test_fetch_and_update(t: ScalarType) -> None:
    rng, count = np.random.default_rng(6), 512
    reduced = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum, "exchange": None,
               "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
               "bitwise_xor": np.bitwise_xor}  # fmt: skip
    for op, function in reduced.items():
        m = Maker("updates", 64)
        a, cell = m.buffer("a", t), m.buffer("cell", t, "scratch", 1)
        out, old = m.buffer("out", t, "output"), Var("old", t)
        m.add(FetchUpdate(old, cell, Const(0, int64), Load(a, m.i), op), Store(out, m.i, old))
        x, first = _numbers(t, op, count, rng), np.array([77], t.numpy)
        held, olds = Memory(first), poison(count, t)
        launch(m.kernel(), [Memory(x), held, olds], count // 64, count)
        everything = np.concatenate([first, x])
        with np.errstate(all="ignore"):
            if function is not None:
                assert held.get()[0] == function.reduce(everything, dtype=t.numpy), op
            else:
                passed = np.concatenate([olds.get(), held.get()])
                assert np.array_equal(np.sort(passed), np.sort(everything))


# --- threads and blocks -------------------------------------------------------------------------


@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_warps_vectors_and_shared_memory(t: ScalarType) -> None:
    m, count = Maker("warps", 64), 256
    a = m.buffer("a", t)
    outs = []
    for op, by in (("shuffle", 5), ("shuffle_up", 3), ("shuffle_down", 7), ("shuffle_xor", 9)):
        outs.append(m.buffer(op, t, "output"))
        v = Var("v", t)
        m.add(Collective(v, op, (Load(a, m.i), Const(by, int64))), Store(outs[-1], m.i, v))
    tile, back = m.buffer("tile", t, "shared", 64), m.buffer("back", t, "output")
    m.add(Store(tile, m.thread, Load(a, m.i)), Barrier(),
          Store(back, m.i, Load(tile, at.subtract(63, m.thread))))  # fmt: skip
    turned, wide = m.buffer("turned", t, "output"), 16 // t.bytes
    vs = tuple(Var("v", t) for _ in range(wide))
    m.add(If(at.less(m.i, at.floor_divide(m.n, wide)), (
        LoadVector(vs, a, at.multiply(m.i, wide)),
        StoreVector(turned, at.multiply(m.i, wide), vs[::-1]))))  # fmt: skip
    x = np.resize(samples(t, np.random.default_rng(2)), count).astype(t.numpy)
    if t.is_integer:
        x = (x % 3).astype(t.numpy)
        same, some = m.buffer("same", uint32, "output"), m.buffer("some", uint32, "output")
        v, u = Var("v", uint32), Var("u", uint32)
        positive = apply("greater", Load(a, m.i), lit(0, t), type_=bool_)
        m.add(Collective(v, "match", (Load(a, m.i),)), Store(same, m.i, v),
              Collective(u, "ballot", (positive,)), Store(some, m.i, u))  # fmt: skip
    made = [poison(count, t) for _ in range(6)]
    bits = [poison(count, uint32) for _ in range(2)] if t.is_integer else []
    launch(m.kernel(aligned=(a, turned)), [Memory(x), *made, *bits], count // 64, count)
    rows, lane = x.reshape(-1, 32), np.arange(32)
    want = [np.repeat(rows[:, 5:6], 32, 1), rows[:, np.where(lane >= 3, lane - 3, lane)],
            rows[:, np.where(lane + 7 < 32, lane + 7, lane)], rows[:, lane ^ 9],
            x.reshape(-1, 64)[:, ::-1], x.reshape(-1, wide)[:, ::-1]]  # fmt: skip
    for memory, values in zip(made, want, strict=True):
        assert memory.get().tobytes() == np.ascontiguousarray(values).tobytes()
    if t.is_integer:
        power = (1 << lane).astype("u8")
        match = (rows[:, :, None] == rows[:, None, :]) @ power
        ballot = np.repeat(((rows > 0) @ power)[:, None], 32, 1)
        assert np.array_equal(bits[0].get(), match.reshape(-1).astype("u4"))
        assert np.array_equal(bits[1].get(), ballot.reshape(-1).astype("u4"))


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_a_chain_of_blocks(t: ScalarType, ordered: bool) -> None:
    """A number passes from block to block, each waiting for the one before."""
    m, count = Maker("chain", 32), 190
    ticket = m.buffer("ticket", int64, "scratch", 1)
    flags, values = (m.buffer(n, u, "scratch", 200) for n, u in (("flags", uint32), ("values", t)))
    mine, seen, got = Var("mine", int64), Var("seen", uint32), Var("got", t)
    state, one = Var("state", uint32), lit(1, uint32)
    waiting = apply("equal", state, lit(0, uint32), type_=bool_)
    m.add(If(at.equal(m.thread, 0), (
        FetchUpdate(mine, ticket, Const(0, int64), lit(1, int64), "add"),
        Declare(state, lit(0, uint32)),
        While((Fetch(seen, flags, mine), Assign(state, seen)), waiting, ()),
        Fetch(got, values, mine, ordered),
        Publish(values, at.add(mine, 1), got, ordered), Fence(),
        Publish(flags, at.add(mine, 1), one))))  # fmt: skip
    first = samples(t, np.random.default_rng(8))[1:2]
    start, ready = np.zeros(200, t.numpy), np.zeros(200, "u4")
    start[0], ready[0] = first[0], 1
    passed = Memory(start)
    launch(m.kernel(), [Memory(np.zeros(1, "i8")), Memory(ready), passed], count, count * 32)
    assert passed.get()[: count + 1].tobytes() == np.repeat(first, count + 1).tobytes()


def test_the_first_failed_check_is_reported() -> None:
    m = Maker("checked", 64)
    a, out = m.buffer("a", int64), m.buffer("out", int64, "output")
    ok: Expr = Apply(TABLE["less"], (Load(a, m.i), Const(5, int64)), bool_)
    m.add(Report(ok, 3, Load(a, m.i), m.n), Store(out, m.i, m.i))
    for value, expected in ((1, [0, 0, 0]), (9, [4, 9, 128])):
        x = np.zeros(128, "i8")
        x[70] = value
        errors = cupy.zeros(3, "i8")
        launch(m.kernel(), [Memory(x), poison(128, int64)], 2, 128, errors)
        assert errors.tolist() == expected


# --- foreign functions --------------------------------------------------------------------------


def fibonacci(x):
    a, b = 0, 1
    while a < x:
        a, b = b, a + b
    return a


def mixed(x, n):
    total = 0.0
    for k in range(n):
        total += math.sin(x * k) + math.atan2(x, k + 1.0)
    return total


RANDOM = np.random.default_rng(4)
NUMBERS, REALS = RANDOM.integers(0, 10**6, 1000), RANDOM.normal(size=1000)
COUNTS = RANDOM.integers(0, 20, 1000).astype("i4")
FOREIGN = {
    "integers": lambda: td.map(lambda v: td.foreign(fibonacci, v), NUMBERS),
    "mixed": lambda: td.map(lambda v, k: td.foreign(mixed, v, k), REALS, COUNTS),
    "complex": lambda: td.map(lambda z: td.foreign(lambda w: w * w + 1, z), REALS + 1j * REALS),
}


@pytest.mark.parametrize("which", FOREIGN)
def test_foreign_functions(which: str) -> None:
    e = FOREIGN[which]()
    got = td.run(e, backend="cuda")
    assert np.allclose(got, td.run(e, backend="reference"), rtol=1e-12)


def test_kernels_compile_on_several_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda t: compile_kernel(by_hand.catalogue(t), arch()), by_hand.TYPES))
    assert [m.name for m in made] == [f"catalogue_{t.name}" for t in by_hand.TYPES]
