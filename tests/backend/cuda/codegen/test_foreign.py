"""Numba's scalar functions in CUDA C++: what they become, and that it computes the same.

The C++ is plain enough for the host's compiler, which runs it here; tests/gpu run it on a device.
"""

from __future__ import annotations

import cmath
import ctypes
import itertools
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.codegen.foreign import _Function, device_function
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.compile.nvrtc import compile_kernel
from treadle.backend.cuda.source import kernels_of, nodes
from treadle.dsl.expr import Var, constant
from treadle.dsl.operations.elements.foreign import compile_scalar_function
from treadle.dsl.types import (
    ScalarType,
    as_type,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint64,
)
from treadle.skeletons.ir.kernel import Kernel, raise_failure

numba = pytest.importorskip("numba")

#: What the text takes for granted, for the host's compiler.
SHIM = """
#include <algorithm>
#include <cmath>
#include <cstring>
#define __device__
#define __forceinline__ inline
using namespace std;
using int8 = signed char; using int16 = short; using int64 = long long;
using uint8 = unsigned char; using uint16 = unsigned short; using uint32 = unsigned;
using uint64 = unsigned long long;
template <class T> struct complex_ { T real, imag; complex_(T r, T i) : real(r), imag(i) {} };
#define complex64 complex_<float>
#define complex128 complex_<double>
inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
inline uint64 atomicCAS(uint64* place, uint64 old, uint64 x) {
  uint64 found = *place; if (found == old) *place = x; return found;
}
inline int __popcll(uint64 x) { return __builtin_popcountll(x); }
inline int __clzll(uint64 x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffsll(uint64 x) { return __builtin_ffsll(x); }
"""


@numba.njit
def modulo(a, b):
    return a % b if b > 0 else a // 3


@numba.njit
def greatest_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


def called(a, b):
    return modulo(a, b) + modulo(b, a)


def logic(p, q):
    return p and not q


def complex_function(z, w):
    return z * w / abs(z) + cmath.exp(z)


def loop(x, n):
    total = 0.0
    for k in range(n):
        total += math.sin(x * k) + math.floor(x) + math.atan2(x, k) + min(x, k) + abs(x)
    return total


def fibonacci(x):
    a, b = 0, 1
    while a < x:
        a, b = b, a + b
    return a


def quotient(a, b):
    return a // b


def power(a, b):
    return a**b


def larger(x):
    return x > 2


def library(x):
    return math.exp(x) + math.sqrt(x) + math.erf(x) + math.gamma(x) + math.hypot(x, x)


def cases(x):
    if x == 1:
        return 2
    if x == 2:
        return 5
    if x == 7:
        return 9
    return x


def bits(a):
    return (a >> 3) ^ (a << 2) & ~a


def rounding(x):
    return math.ceil(x) + int(x) % 7


def divisors(a, b):
    return greatest_divisor(a, b)


def cubes(n):
    """A sum in closed form, which LLVM computes in 65 bits."""
    total = 0
    for k in range(n):
        total += k * k * k
    return total


def waves(x, n):
    """Sines of products, in steps of eight: LLVM counts them in 28 bits."""
    total = 0.0
    for k in range(n):
        total += math.sin(x * k) + math.atan2(x, k + 1.0)
    return total


def nan_or_infinite(x):
    return math.inf if x > 1 else math.nan if x < -1 else x


FUNCTIONS: list[tuple[Callable[..., Any], tuple[ScalarType, ...]]] = [
    (called, (int64, int32)), (logic, (bool_, bool_)), (complex_function, (complex64, complex64)),
    (complex_function, (complex128, complex128)), (loop, (float64, int32)), (fibonacci, (int64,)),
    (quotient, (int32, int32)), (quotient, (uint8, uint8)), (quotient, (float64, float64)),
    (power, (int64, int64)), (power, (float32, float32)), (larger, (float32,)),
    (library, (float64,)), (library, (float32,)), (cases, (int32,)), (bits, (int16,)),
    (bits, (uint64,)), (rounding, (float64,)), (divisors, (int64, int64)), (cases, (int8,)),
    (nan_or_infinite, (float32,)), (nan_or_infinite, (float64,)), (cubes, (int64,)),
    (cubes, (int32,)), (waves, (float64, int32)),
]  # fmt: skip


def samples(t: ScalarType) -> list[Any]:
    if t.family == "bool":
        return [False, True]
    if t.is_integer:
        return [1, 2, 3, 7, 12, 60, *([-1, -5, -9] if t.signed else [])]
    if t.is_complex:
        return [1 + 2j, -0.5 + 0.25j, 3 - 1j]
    return [0.5, 1.0, 2.5, 3.75, 9.0]


def on_the_host(text: str, name: str, types: Any, result: ScalarType, folder: Path,
                errors: Any = None) -> Any:  # fmt: skip
    """The C++ of a function, compiled by the host's compiler and callable with numbers; `errors`:
    an array for what it raises, as site 7."""
    kinds = {"float32": "float", "float64": "double", "int32": "int"}

    def kind(t: ScalarType) -> str:
        return kinds.get(t.name, t.name)

    parts = {t: "float" if t.bits == 64 else "double" for t in (complex64, complex128)}
    parameters = [f"const void* p{k}" for k in range(len(types))]
    given = [
        f"{kind(t)}((({parts[t]}*)p{k})[0], (({parts[t]}*)p{k})[1])" if t.is_complex
        else f"*(const {kind(t)}*)p{k}" for k, t in enumerate(types)
    ]  # fmt: skip
    if errors is not None:
        given += [f"(int64*){errors.ctypes.data}ull", "7"]
    source = folder / "function.cpp"
    source.write_text(
        f'{SHIM}{text}\nextern "C" void run({", ".join(parameters)}, void* out) {{\n'
        f"  const auto r = {name}({', '.join(given)});\n  memcpy(out, &r, sizeof(r));\n}}\n",
        encoding="utf-8",
    )
    library_ = folder / "function.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", library_, source], check=True)
    entry = ctypes.CDLL(str(library_)).run

    def call(*values: Any) -> Any:
        arrays = [np.array(v, t.numpy) for v, t in zip(values, types, strict=True)]
        out = np.zeros(1, result.numpy)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
        entry(*pointers)
        return out[0]

    return call


@pytest.mark.sample(1)
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize(("function", "types"), FUNCTIONS)
def test_the_same_on_the_host(function: Any, types: Any, tmp_path: Path) -> None:
    compiled = compile_scalar_function(function, types)
    text = device_function(compiled, "f")
    errors = np.zeros(8, np.int64) if compiled.raises else None
    run = on_the_host(text, "f", types, compiled.result, tmp_path, errors)
    grid = np.array(np.meshgrid(*[np.arange(len(samples(t))) for t in types])).reshape(
        len(types), -1)  # fmt: skip
    for places in grid.T:
        values = [t.numpy.type(samples(t)[k]) for t, k in zip(types, places, strict=True)]
        want = compiled(*values)
        got = run(*values)
        close = 1e-5 if {float32, complex64} & set(types) else 1e-12
        assert np.allclose(got, want, rtol=close, equal_nan=True), (values, got, want)
        assert errors is None or not errors.any()


@pytest.mark.sample(1)
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize(
    ("function", "values"),
    [
        (quotient, (np.int32(-5), np.int32(0))),
        (quotient, (np.uint8(5), np.uint8(0))),
        (quotient, (-2.5, 0.0)),
        (complex_function, (0j, 1 + 2j)),
        (complex_function, (np.complex64(0), np.complex64(3 - 1j))),
    ],
)
def test_an_exception_leaves_its_arguments(function: Any, values: Any, tmp_path: Path) -> None:
    """A status is what Numba makes of it; what the kernel tells, the host calls again with."""
    types = tuple(as_type(np.asarray(v).dtype) for v in values)
    compiled = compile_scalar_function(function, types)
    errors = np.zeros(8, np.int64)
    text = device_function(compiled, "f")
    run = on_the_host(text, "f", types, compiled.result, tmp_path, errors)
    run(*values)
    kernel = Kernel("f", (), (), (), constant(1), Var("task", int64), ())
    kernel.__dict__["raising"] = (compiled,)
    assert errors[0] == 7
    errors[0] = 1
    with pytest.raises(ZeroDivisionError) as raised:
        raise_failure(kernel, errors)
    assert all(str(v) in raised.value.__notes__[0] for v in values)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_integers_of_any_width(tmp_path: Path) -> None:
    """Instructions on 12 bits, which lie in 16: as LLVM's reference says."""
    codes = [
        "add i12 %a, %b",
        "sub i12 %a, %b",
        "mul i12 %a, %b",
        "shl i12 %a, 3",
        "lshr i12 %a, 3",
        "ashr i12 %a, 3",
        "sdiv i12 %a, %c",
        "srem i12 %a, %c",
        "udiv i12 %a, %c",
        "xor i12 %a, -1",
        "call i12 @llvm.smin.i12(i12 %a, i12 %b)",
        "call i12 @llvm.abs.i12(i12 %a, i1 false)",
        "call i12 @llvm.ctlz.i12(i12 %a, i1 0)",
    ]
    wrap = lambda v: v & 4095
    sign = lambda v: (wrap(v) ^ 2048) - 2048
    div = lambda a, b: abs(a) // abs(b) * (1 if a * b >= 0 else -1)
    wants = [
        lambda a, b, c: a + b,
        lambda a, b, c: a - b,
        lambda a, b, c: a * b,
        lambda a, b, c: a << 3,
        lambda a, b, c: wrap(a) >> 3,
        lambda a, b, c: sign(a) >> 3,
        lambda a, b, c: div(sign(a), sign(c)),
        lambda a, b, c: sign(a) - div(sign(a), sign(c)) * sign(c),
        lambda a, b, c: wrap(a) // wrap(c),
        lambda a, b, c: ~a,
        lambda a, b, c: min(sign(a), sign(b)),
        lambda a, b, c: abs(sign(a)),
        lambda a, b, c: 12 - wrap(a).bit_length(),
    ]
    body = ["  %a = trunc i64 %p to i12", "  %b = trunc i64 %q to i12", "  %c = or i12 %b, 1"]
    for k, code in enumerate(codes):
        body += [f"  %r{k} = {code}", f"  %x{k} = {('sext', 'zext')[k % 2]} i12 %r{k} to i64",
                 f"  %o{k} = getelementptr i64, ptr %out, i64 {k}",
                 f"  store i64 %x{k}, ptr %o{k}"]  # fmt: skip
    head = "define i32 @f(ptr %out, i64 %p, i64 %q) {\nentry:\n"
    text = head + "\n".join([*body, "  ret i32 0", "}"])
    made = _Function(text, "f", set(), str).text()
    made += (f"\ninline int64 g(int64 p, int64 q, int64 k) {{ int64 r[{len(codes)}]; "
             "f((char*)r, p, q); return r[k]; }")  # fmt: skip
    run = on_the_host(made, "g", (int64, int64, int64), int64, tmp_path)
    for p, q in itertools.product((0, 5, -5, 2047, -2048, 4000, 123456), (3, -7, 2048, 99999)):
        for k, (code, want) in enumerate(zip(codes, wants, strict=True)):
            assert run(p, q, k) == (sign, wrap)[k % 2](want(p, q, q | 1)), (code, p, q)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_classes_of_floats_and_memset(kind: str, tmp_path: Path) -> None:
    short = {"double": "f64", "float": "f32"}[kind]
    masks = (3, *(1 << k for k in range(2, 10)), 0b1000000100, 0b0001111000, 0b0000100011, 0)
    body = ["call void @llvm.memset.p0.i64(ptr nonnull align 8 %out, i8 0, i64 8, i1 false)",
            "%before = load i64, ptr %out"]  # fmt: skip
    if kind == "float":
        body.append("%y = fptrunc double %x to float")
    for k, mask in enumerate(masks):
        x = "%y" if kind == "float" else "%x"
        body += [f"%r{k} = call i1 @llvm.is.fpclass.{short}({kind} {x}, i32 {mask})",
                 f"%z{k} = zext i1 %r{k} to i64", f"%s{k} = shl i64 %z{k}, {k}",
                 f"%o{k} = or i64 {f'%o{k - 1}' if k else '%before'}, %s{k}"]  # fmt: skip
    body.append(f"store i64 %o{len(masks) - 1}, ptr %out")
    lines = "".join(f"  {line}\n" for line in body)
    text = f"define i32 @f(ptr %out, double %x) {{\nentry:\n{lines}  ret i32 0\n}}"
    made = _Function(text, "f", set(), str).text()
    made += "\ninline int64 g(double x) { int64 r = -1; f((char*)&r, x); return r; }"
    run = on_the_host(made, "g", (float64,), int64, tmp_path)
    tiny = 1e-310 if kind == "double" else 1e-40
    values = [math.nan, -math.inf, -1.5, -tiny, -0.0, 0.0, tiny, 1.5, math.inf]
    for bit, x in enumerate(values, 1):  # the class of each, by its bit
        want = sum(1 << k for k, mask in enumerate(masks) if mask >> bit & 1)
        assert run(x) == want, (x, bin(run(x)), bin(want))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Numba reads another bytecode")
def test_text(golden: Callable[[str, str], None]) -> None:
    compiled = compile_scalar_function(fibonacci, (int64,))
    golden("foreign.cu", device_function(compiled, "fibonacci"))


def test_in_a_kernel(nvrtc: None) -> None:
    x = np.zeros(100, "f4")

    def program(a: Any) -> Any:
        return td.map(lambda v: td.foreign(larger, v), td.map(lambda v: td.foreign(library, v), a))

    lowered = td.jit(program).lower(x)
    for node in nodes(lowered):
        for chain in kernels_of(node, "sm_90a"):
            text = print_kernel(chain[0])
            assert "larger(library(" in text and "larger_numba" in text
            assert compile_kernel(chain[0], "sm_90a").spills == 0


def test_what_may_raise_in_a_kernel(nvrtc: None) -> None:
    x, z = np.zeros(100, "i8"), np.zeros(100, "c16")

    def program(a: Any, z: Any) -> Any:
        return td.map(
            lambda n, w: td.while_loop(
                lambda s: s[0] > 0,
                lambda s: (td.foreign(quotient, n, s[0]), td.foreign(complex_function, s[1], w)),
                (n, w),
            ),
            a,
            z,
        )

    (node,) = nodes(td.jit(program).lower(x, z))
    kernel = kernels_of(node, "sm_90a")[0][0]
    text = print_kernel(kernel)
    assert kernel.errors == 5 and "int64* __restrict__ errors" in text
    assert ", errors, 1)" in text and ", errors, 2)" in text and "unreported(errors)" in text
    compile_kernel(kernel, "sm_90a")


def test_what_is_more_than_numbers() -> None:
    def array(x):
        return np.zeros(3).sum() + x

    compiled = compile_scalar_function(array, (float64,))
    with pytest.raises(td.CompilationError, match="'array' cannot run on a GPU"):
        device_function(compiled, "f")
