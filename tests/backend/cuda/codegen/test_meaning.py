"""Printed expressions mean what the language says: random ones, run by the host's C++ compiler.

Signed overflow traps in these programs: arithmetic that wraps must not be written in signed C++.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backend.cuda.codegen.handmade import FLOATS, INTEGERS, Maker, apply, lit
from treadle.backend.cuda.codegen.text import parameters, print_file, print_kernel
from treadle.dsl.expr import Apply, Const, Expr, walk
from treadle.dsl.primitives import TABLE
from treadle.dsl.types import ScalarType, bool_, float16, int32, int64
from treadle.skeletons.ir.kernel import Buffer, Kernel, Load, Store

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

#: CUDA for the host: one thread after the other.
SHIM = r"""
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct { unsigned x; } blockIdx, threadIdx;
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
template <class A, class B> A bits_as(B x) { A y; memcpy(&y, &x, sizeof(y)); return y; }
float __int_as_float(int x) { return bits_as<float>(x); }
float __uint_as_float(unsigned x) { return bits_as<float>(x); }
unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
int __popc(unsigned x) { return __builtin_popcount(x); }
int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
int __ffs(unsigned x) { return __builtin_ffs(x); }
unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int k = 0; k < 32; ++k) y |= (x >> k & 1) << (31 - k);
  return y;
}
unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev(x) << 32 | __brev(x >> 32);
}
template <class T, class F> T held(F x, F low, F above, T lowest, T highest, T nan) {
  return x != x ? nan : x < low ? lowest : x >= above ? highest : T(x);
}
#define TO(name, F, T, low, above, lowest, highest, nan) \
  T name(F x) { return held<T, F>(x, low, above, lowest, highest, nan); }
using ll = long long;
using ull = unsigned long long;
TO(__float2int_rz, float, int, -0x1p31f, 0x1p31f, -2147483647 - 1, 2147483647, 0)
TO(__float2uint_rz, float, unsigned, 0, 0x1p32f, 0, 0xffffffffu, 0)
TO(__double2int_rz, double, int, -0x1p31, 0x1p31, -2147483647 - 1, 2147483647, 1)
TO(__double2uint_rz, double, unsigned, 0, 0x1p32, 0, 0xffffffffu, 1)
TO(__float2ll_rz, float, ll, -0x1p63f, 0x1p63f, -(~0ull >> 1) - 1, ~0ull >> 1, 1)
TO(__float2ull_rz, float, ull, 0, 0x1p64f, 0, ~0ull, 1)
TO(__double2ll_rz, double, ll, -0x1p63, 0x1p63, -(~0ull >> 1) - 1, ~0ull >> 1, 1)
TO(__double2ull_rz, double, ull, 0, 0x1p64, 0, ~0ull, 1)
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
using std::copysign;
using std::floor;
using std::fmod;
"""

#: Exact, and written without the machine's own instructions; nothing asks for the sign of a NaN.
OPERATIONS = ("add", "subtract", "multiply", "floor_divide", "remainder", "quot", "rem", "minimum",
              "maximum", "negative", "absolute", "sign", "bitwise_and", "bitwise_or", "bitwise_xor",
              "invert", "left_shift", "right_shift", "popcount", "clz", "ctz", "power", "fma",
              "floor", "ceil", "trunc", "rint", "isnan", "isfinite",
              "true_divide", "equal", "not_equal", "less", "less_equal", "greater",
              "greater_equal", "logical_and", "logical_or", "logical_xor",
              "logical_not")  # fmt: skip
TYPES = (bool_, *INTEGERS, *(t for t in FLOATS if t is not float16))
COUNT = 64


def random_expression(
    rng: random.Random, t: ScalarType, depth: int, leaves: dict[str, Expr]
) -> Expr:
    """An expression of type `t`, a few operations deep."""
    if depth == 0 or rng.random() < 0.1:
        if rng.random() < 0.25:
            some = [0, 1, 2, 3, 7, 100] + ([-1, -5] if t.signed else [])
            return Const(rng.choice([*some, t.highest, t.lowest] if t.is_integer else some), t)
        return leaves[t.name]
    if rng.random() < 0.15:
        source = rng.choice(TYPES)
        return Apply(TABLE["cast"], (random_expression(rng, source, depth - 1, leaves),), t)
    if rng.random() < 0.1:
        sides = [random_expression(rng, u, depth - 1, leaves) for u in (bool_, t, t)]
        return Apply(TABLE["select"], tuple(sides), t)
    for _ in range(100):
        op = TABLE[rng.choice(OPERATIONS)]
        if op.name == "power" and not t.is_integer:
            continue
        for argument in (t, *rng.sample(TYPES, len(TYPES))):
            rule = op.rule(argument)
            if rule is None or rule != (argument, t):
                continue
            if op.name in ("fma", "minimum", "maximum") and argument.is_float:
                continue  # rounding, and which zero is smaller
            if argument.is_integer and op.name in ("floor", "ceil", "trunc", "rint"):
                continue
            made = [random_expression(rng, argument, depth - 1, leaves) for _ in range(op.arity)]
            return Apply(op, tuple(made), t)
    return leaves[t.name]


def value(e: Expr, known: dict[Expr, Any]) -> Any:
    """The meaning, node by node."""
    for node in walk((e,)):
        if node in known:
            continue
        if isinstance(node, Const):
            known[node] = np.full(COUNT, node.value, node.type.numpy)
            continue
        assert isinstance(node, Apply)
        known[node] = node.value([known[a] for a in node.args])
    return known[e]


def samples(t: ScalarType, rng: np.random.Generator) -> Any:
    if t.family == "bool":
        return rng.integers(0, 2, COUNT).astype(bool)
    if t.is_integer:
        some = rng.integers(t.lowest, t.highest, COUNT, dtype=t.numpy, endpoint=True)
        some[:5] = [0, 1, t.highest, t.lowest, 2]
        some[5:20] = some[5:20] % t.numpy.type(10)
        return some
    wide = rng.normal(0, 10.0 ** rng.uniform(-2, 6, COUNT))
    wide[:10] = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 2.5, -1.5]
    return wide.astype(t.numpy)


def run_on_the_host(kernel: Kernel, arrays: list[Any], scalars: list[int], folder: Path) -> None:
    """Every thread of every block, one after the other; outputs are filled in."""
    main = ["int main() {"]
    for k in range(len(parameters(kernel))):
        (folder / f"{k}.bin").write_bytes(arrays[k].tobytes())
        main.append(f"  static char b{k}[{arrays[k].nbytes}] __attribute__((aligned(16)));")
        main.append(
            f'  {{ FILE* f = fopen("{folder}/{k}.bin", "rb"); '
            f"if (fread(b{k}, 1, sizeof(b{k}), f) == 0) abort(); fclose(f); }}"
        )
    text = print_file([(None, kernel)], every_scalar=True)
    first = text.index(f"{kernel.name}(") + len(kernel.name) + 1
    inside = text[first : text.index(") {", first)]
    types = [p.rsplit(" ", 1)[0].replace("__restrict__", "") for p in inside.split(",")]
    call = ", ".join([f"({types[k].strip()})b{k}" for k in range(len(arrays))]
                     + [str(s) for s in scalars])  # fmt: skip
    main.append(f"  for (blockIdx.x = 0; blockIdx.x < {COUNT // kernel.threads}; ++blockIdx.x)")
    main.append(f"    for (threadIdx.x = 0; threadIdx.x < {kernel.threads}; ++threadIdx.x)")
    main.append(f"      {kernel.name}({call});")
    for k in range(len(arrays)):
        main.append(
            f'  {{ FILE* f = fopen("{folder}/{k}.bin", "wb"); '
            f"fwrite(b{k}, 1, sizeof(b{k}), f); fclose(f); }}"
        )
    (folder / "kernel.cpp").write_text(
        f"{SHIM}\n{text}\n" + "\n".join([*main, "}", ""]), encoding="utf-8"
    )
    options = ["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-fsanitize=signed-integer-overflow",
               "-fsanitize-undefined-trap-on-error"]  # fmt: skip
    made, source = folder / "kernel", folder / "kernel.cpp"
    subprocess.run(["g++", *options, "-o", made, source], check=True)
    subprocess.run([folder / "kernel"], check=True)
    for k, a in enumerate(arrays):
        a[...] = np.frombuffer((folder / f"{k}.bin").read_bytes(), a.dtype)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(seed: int, tmp_path: Path) -> None:
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    m = Maker("many", 32)
    inputs: list[Buffer] = [m.buffer(f"a_{t.name}", t) for t in TYPES]
    leaves: dict[str, Expr] = {b.type.name: Load(b, m.i) for b in inputs}
    arrays = [samples(t, numbers) for t in TYPES]
    known: dict[Expr, Any] = {leaves[t.name]: a for t, a in zip(TYPES, arrays, strict=True)}
    known[m.i] = np.arange(COUNT)
    wanted = []
    for k in range(120):
        t = rng.choice(TYPES)
        e = random_expression(rng, t, rng.choice((2, 3, 5)), leaves)
        m.add(Store(m.buffer(f"out_{k}", t, "output"), m.i, e))
        wanted.append((e, value(e, known)))
        arrays.append(np.zeros(COUNT, t.numpy))
    run_on_the_host(m.kernel(), arrays, [COUNT], tmp_path)
    for (e, want), got in zip(wanted, arrays[len(TYPES) :], strict=True):
        same = (got == want) | ((got != got) & (want != want))
        assert same.all(), (e, got[~same][:3], want[~same][:3])


def test_positions_that_are_data(tmp_path: Path) -> None:
    """What is computed from the number of an element wraps like any other data."""
    m = Maker("many", 32)
    place = apply("cast", m.i, type_=int32)
    hashed = apply("add", apply("multiply", place, lit(1664525, int32)), lit(1013904223, int32))
    cube = apply("multiply", apply("multiply", m.i, m.i), lit(2**60 + 1, int64))
    results = [hashed, apply("right_shift", hashed, lit(7, int32)), cube,
               apply("remainder", cube, lit(10, int64)), apply("negative", cube),
               apply("floor_divide", hashed, lit(-3, int32))]  # fmt: skip
    for k, e in enumerate(results):
        m.add(Store(m.buffer(f"out_{k}", e.type, "output"), m.i, e))
    arrays = [np.zeros(COUNT, e.type.numpy) for e in results]
    run_on_the_host(m.kernel(), arrays, [COUNT], tmp_path)
    known: dict[Expr, Any] = {m.i: np.arange(COUNT)}
    for e, got in zip(results, arrays, strict=True):
        assert (got == value(e, known)).all(), e


NARROW = [t for t in INTEGERS if t.bits < 32]
WRAPPING = ("add", "subtract", "multiply", "negative", "absolute", "invert", "left_shift", "quot",
            "floor_divide", "fma", "power")  # fmt: skip
CONSUMING = ("equal", "less", "greater_equal", "minimum", "maximum", "quot", "rem", "floor_divide",
             "remainder", "right_shift", "left_shift", "absolute", "sign", "popcount", "clz",
             "signbit", "cast")  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("t", NARROW, ids=str)
def test_what_wraps_is_used_wrapped(t: ScalarType, tmp_path: Path) -> None:
    """C++ computes narrow integers in 32 bits: whoever uses a result sees it wrapped."""
    m = Maker("pairs", 32)
    a, b = Load(m.buffer("a", t), m.i), Load(m.buffer("b", t), m.i)
    edges = [int(t.lowest), int(t.highest), 0, 1, 2, int(t.highest) - 1, int(t.lowest) + 1, 7]
    left, right = (np.array(x, t.numpy) for x in zip(*((x, y) for x in edges for y in edges),
                                                     strict=True))  # fmt: skip
    results: list[Apply] = []
    for first in WRAPPING:
        made = apply(first, *(a, b, b)[: TABLE[first].arity])
        for then in CONSUMING:
            if then == "cast":
                results += [apply(then, made, type_=u) for u in TYPES if u != t]
                continue
            op = TABLE[then]
            rule = op.rule(t)
            assert rule is not None
            results += [apply(then, *args[: op.arity], type_=rule[1])
                        for args in ((made, a), (a, made))[: op.arity]]  # fmt: skip
    for k, e in enumerate(results):
        m.add(Store(m.buffer(f"out_{k}", e.type, "output"), m.i, e))
    arrays = [left, right, *(np.zeros(COUNT, e.type.numpy) for e in results)]
    run_on_the_host(m.kernel(), arrays, [COUNT], tmp_path)
    known: dict[Expr, Any] = {a: left, b: right, m.i: np.arange(COUNT)}
    for e, got in zip(results, arrays[2:], strict=True):
        want = value(e, known)
        assert (got == want).all(), (e, got[got != want][:3], want[got != want][:3])


@pytest.mark.parametrize("t", [t for t in INTEGERS if t.bits == 16], ids=str)
def test_negations_of_16_bits_are_not_the_assemblers(t: ScalarType) -> None:
    """CUDA 13.0's assembler does not wrap them: see the helper `negated`."""
    m = Maker("negations", 32)
    a = Load(m.buffer("a", t), m.i)
    minus = lit(-1 if t.signed else t.highest, t)
    for k, e in enumerate([apply("negative", a), apply("subtract", lit(0, t), a),
                           apply("multiply", a, minus), apply("multiply", minus, a)]):  # fmt: skip
        m.add(Store(m.buffer(f"out_{k}", t, "output"), m.i, e))
    assert print_kernel(m.kernel()).count("= negated(") == 4
