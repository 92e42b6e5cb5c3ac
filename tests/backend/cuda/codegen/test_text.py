"""The CUDA C++ of kernels made by hand: what it looks like, and that it compiles everywhere."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.codegen import handmade as by_hand
from tests.backend.cuda.codegen.handmade import Maker, apply, lit
from treadle.backend.cuda.codegen import names, operations, text
from treadle.backend.cuda.codegen.scalars import number
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.compile.nvrtc import compile_kernel, compile_kernels, forget
from treadle.backend.runtime.disk_cache import DiskCache
from treadle.dsl.expr import Apply, Const, Var
from treadle.dsl.primitives import RECIPROCAL_DIVIDE, TABLE
from treadle.dsl.types import (
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.kernel import (
    Assign,
    Buffer,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoadVector,
    Store,
    StoreVector,
)
from treadle.skeletons.ir.verify import verify

#: Types whose primitives are shown in full; the others differ in the names of types.
SHOWN = (bool_, uint8, int32, int64, float16, float32, float64, complex64)


@pytest.mark.parametrize("name", by_hand.STATEMENTS)
def test_statements(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = by_hand.STATEMENTS[name]()
    verify(kernel)
    golden(f"{name}.cu", print_kernel(kernel))


@pytest.mark.parametrize("t", SHOWN, ids=str)
def test_primitives(t: Any, golden: Callable[[str, str], None]) -> None:
    golden(f"primitives_{t.name}.cu", print_kernel(by_hand.catalogue(t)))


def test_fast_math(golden: Callable[[str, str], None]) -> None:
    """fast_math takes the machine's approximations for float32, and changes nothing else."""
    kernel = by_hand.catalogue(float32)
    fast = print_kernel(kernel, fast_math=True)
    plain = print_kernel(kernel).splitlines()
    changed = [b for a, b in zip(plain, fast.splitlines(), strict=True) if a != b]
    golden("fast_math.txt", "\n".join(changed) + "\n")
    double = by_hand.catalogue(float64)
    assert print_kernel(double, fast_math=True) == print_kernel(double)


def test_every_primitive_of_every_type_compiles(nvrtc: None) -> None:
    kernels = []
    for t in by_hand.TYPES:
        some = by_hand.cases(t)
        kernels += [
            by_hand.primitive_kernel(f"primitives_{t.name}_{k}", some[k : k + 30])
            for k in range(0, len(some), 30)
        ]
    for made in compile_kernels(kernels, "sm_90a"):
        assert made.spills == 0, made.name


@pytest.mark.sample(1)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100"])
def test_every_statement_compiles(arch: str, nvrtc: None) -> None:
    kernels = [make() for make in by_hand.STATEMENTS.values()]
    some = by_hand.cases(by_hand.bfloat16)[:6]
    for made in compile_kernels([*kernels, by_hand.primitive_kernel("half", some)], arch):
        assert made.image[:4] == b"\x7fELF" and made.spills == 0, made.name


@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_atomics_compile(t: Any, nvrtc: None) -> None:
    ops = ("add", "multiply", "minimum", "bitwise_and", "bitwise_xor", "logical_or")
    kernels = [
        by_hand.atomic_kernel(t, op, t.bits > 64)
        for op in ops
        if TABLE[op].rule(t) == (t, t) and (t.family == "bool" or not op.startswith("logical"))
    ]
    compile_kernels(kernels, "sm_90a")


@pytest.mark.sample(8)
@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_what_threads_exchange_compiles(t: Any, nvrtc: None) -> None:
    made = compile_kernel(by_hand.exchanges(t), "sm_90a")
    assert made.stack == 0


@pytest.mark.parametrize(
    ("t", "count"),
    [(t, n) for t in by_hand.TYPES for n in (1, 2, 4, 8, 16) if n * t.bytes <= 16],
    ids=str,
)
def test_wide_accesses(t: Any, count: int) -> None:
    text = print_kernel(by_hand._vectors(t, count))
    assert ("reinterpret_cast" in text) == (count > 1)


def test_streams_of_packs_of_several_sizes_compile(nvrtc: None) -> None:
    m = Maker("packs")
    for t in by_hand.TYPES:
        for count in (2, 4, 8, 16):
            if count * t.bytes <= 16:
                x = tuple(Var("x", t) for _ in range(count))
                first = at.multiply(m.i, count)
                a, out = (
                    m.buffer(f"a{t.name}{count}", t),
                    m.buffer(f"o{t.name}{count}", t, "output"),
                )
                m.add(LoadVector(x, a, first, True), StoreVector(out, first, x, True))
    compile_kernel(m.kernel(aligned=tuple(m.buffers)), "sm_90a")


@pytest.mark.sample(2)
@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_an_inverted_comparison_has_all_it_needs(t: Any, nvrtc: None) -> None:
    """The opposite operator stands in the text, and it alone: its helper too."""
    for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        if TABLE[op].rule(t) is None:
            continue
        m = Maker("inverse")
        a, out = m.buffer("a", t), m.buffer("out", bool_, "output")
        compared = apply(op, Load(a, m.i), lit(0, t), type_=bool_)
        m.add(Store(out, m.i, apply("logical_not", compared)))
        compile_kernel(m.kernel(), "sm_90a")


# --- compiled -----------------------------------------------------------------------------------


def machine_code(kernel: Kernel) -> str:
    """The SASS, if nvdisasm's wheel is here; skips otherwise."""
    try:
        import nvidia

        tools = [Path(p) / "cu13" / "bin" / "cuobjdump" for p in nvidia.__path__]
        tool = next(t for t in tools if t.exists())
    except (ImportError, StopIteration):
        pytest.skip("cuobjdump is not installed: pip install nvidia-cuda-cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compile_kernel(kernel, "sm_90a").image)
        file.flush()
        done = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize(("t", "count", "access"), [
    (float32, 4, "LDG.E.128"), (float16, 8, "LDG.E.128"), (int8, 16, "LDG.E.128"),
    (bool_, 4, "LDG.E.CONSTANT"), (complex64, 2, "LDG.E.128"), (uint16, 2, "LDG.E.CONSTANT"),
    (complex128, 1, "LDG.E.128"), (uint64, 2, "LDG.E.128")], ids=str)  # fmt: skip
def test_a_wide_access_is_one_instruction(t: Any, count: int, access: str, nvrtc: None) -> None:
    code = machine_code(by_hand._vectors(t, count))
    assert len(re.findall(r"\bLDG\S*", code)) == 1 and access in code
    assert len(re.findall(r"\bSTG\S*", code)) == 2 and "LDL" not in code


# --- wrapping -----------------------------------------------------------------------------------


def body_of(kernel: Kernel) -> str:
    return print_kernel(kernel).split(") {\n", 1)[1]


def test_data_wraps_in_unsigned_arithmetic() -> None:
    """In C++ a signed sum that overflows is undefined: compilers draw conclusions from it."""
    m = Maker("wraps")
    a, out = m.buffer("a", int32), m.buffer("out", bool_, "output")
    x = Load(a, m.i)
    more = apply("add", x, lit(1, int32))
    m.add(Store(out, m.i, apply("greater", more, x, type_=bool_)))
    assert "(int)(a_i + 1u) > a_i" in body_of(m.kernel())


def test_no_conclusion_from_overflow(nvrtc: None) -> None:
    """x + 1 > x is false of the largest x."""
    m = Maker("wraps")
    a, out = m.buffer("a", int32), m.buffer("out", bool_, "output")
    x = Load(a, m.i)
    m.add(Store(out, m.i, apply("greater", apply("add", x, lit(1, int32)), x, type_=bool_)))
    assert "LDG" in machine_code(m.kernel())  # it still looks


def test_indices_are_plain() -> None:
    m = Maker("plain")
    a, out = m.buffer("a", float32), m.buffer("out", float32, "output")
    n1, k, p = Var("n1", int64), Var("k", int64), Var("p", int64)
    place = at.add(at.multiply(m.i, n1), k)
    m.add(For(k, at.add(m.i, 1), n1, (Let(p, place), Store(out, p, Load(a, at.subtract(p, n1))))))
    body = body_of(m.kernel(scalars=(n1,)))
    assert "const int64 p = i * n1 + k;" in body and "out[p] = a[p - n1];" in body
    assert "unsigned" not in body and "uint64" not in body


def test_an_index_that_is_stored_wraps() -> None:
    """What reaches a result is computed as the language says."""
    m = Maker("stored")
    out = m.buffer("out", int64, "output")
    cube = apply("multiply", apply("multiply", m.i, m.i), m.i)
    m.add(Store(out, m.i, cube))
    assert "out[i] = (uint64)i * i * i;" in body_of(m.kernel())


def test_division_of_what_may_be_negative() -> None:
    """C++ truncates, the language floors: one operator only where that is the same."""
    m = Maker("divides")
    a, out = m.buffer("a", int64), m.buffer("out", int64, "output")
    x = Load(a, m.i)
    for name in ("floor_divide", "remainder"):
        m.add(Store(out, m.i, apply(name, x, lit(10, int64))))
        m.add(Store(out, m.i, apply(name, x, lit(8, int64))))
        m.add(Store(out, m.i, apply(name, m.i, lit(10, int64))))
        m.add(Store(out, m.i, apply(name, apply("multiply", m.i, x), lit(10, int64))))
    body = body_of(m.kernel())
    for line in ("floor_divide(a_i, 10ll)", "a_i >> 3", "i / 10", "i % 10", "a_i & 7",
                 "const int64 t = (uint64)i * a_i;", "floor_remainder(t, 10ll)"):  # fmt: skip
        assert line in body


def test_reciprocal_division() -> None:
    m = Maker("reciprocal")
    out = m.buffer("out", int32, "output")
    d, s = Var("n1_multiplier", int32), Var("n1_shift", int32)
    number = apply("cast", m.i, type_=int32)
    m.add(Store(out, m.i, Apply(RECIPROCAL_DIVIDE, (number, d, s), int32)))
    assert "out[i] = quotient((int)i, n1_multiplier, n1_shift);" in body_of(m.kernel((d, s)))


# --- readable -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "t", "expected"), [
    (0.1, float32, "0.1f"), (1, float32, "1.0f"), (1e-7, float32, "1e-7f"), (1e9, float32, "1e+9f"),
    (-0.0, float32, "-0.0f"), (float("inf"), float32, "INFINITY"), (0.1, float64, "0.1"),
    (16777216, float32, "16777216.0f"), (3, int32, "3"), (3, int64, "3"), (3, uint32, "3u"),
    (3, uint64, "3ull"), (2**40, int64, "1099511627776ll"), (-5, int8, "-5"),
    (-(2**31), int32, "-2147483647 - 1"), (-(2**63), int64, "-9223372036854775807ll - 1"),
    (True, bool_, "true"), (0.5, float16, "float16(0.5f)"), (1 + 2j, complex64,
     "complex64(1.0f, 2.0f)")], ids=str)  # fmt: skip
def test_literals(value: Any, t: Any, expected: str) -> None:
    m = Maker("literal")
    out = m.buffer("out", t, "output")
    m.add(Store(out, m.i, Const(value, t)))
    assert f"out[i] = {expected};" in print_kernel(m.kernel())


def test_float_literals_keep_their_bits() -> None:
    rng = np.random.default_rng(1)
    for bits in rng.integers(0, 2**32, 2000, dtype=np.uint32):
        x = bits.view(np.float32)
        if np.isfinite(x):
            code = number(float(x), "float").code
            assert code.endswith("f") and np.float32(code[:-1]) == x
    for bits in rng.integers(0, 2**63, 2000, dtype=np.uint64):
        y = bits.view(np.float64)
        if np.isfinite(y):
            assert float(number(float(y), "double").code) == y


def test_names() -> None:
    assert names.identifier("INT_MAX") == "INT_MAX_" and names.identifier("M_PI") == "M_PI_"
    assert names.identifier("exp") == "exp_" and names.identifier("3d") == "a3d"
    assert names.identifier("a b") == "a_b" and names.identifier("float") == "float_"
    used = names.Names()
    assert [used.fresh("x"), used.fresh("x")] == ["x", "x_1"]
    with used.scope():
        assert used.fresh("y") == "y"
        assert used.fresh("x") == "x_2"
    assert used.fresh("y") == "y"  # free again


def test_variables_that_are_called_like_functions() -> None:
    m = Maker("sqrtf")
    a, out = m.buffer("expf", float32), m.buffer("float", float32, "output")
    n = Var("min", int64)
    m.add(Store(out, m.i, apply("sqrt", Load(a, at.minimum(m.i, n)))))
    kernel = m.kernel(scalars=(n,))
    assert text.entry_name(kernel) == "sqrtf_"
    assert "float_[i] = sqrtf(expf_[min(i, min_)]);" in print_kernel(kernel)


@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_no_variable_hides_a_function_of_the_prelude(t: Any) -> None:
    printed = print_kernel(by_hand.primitive_kernel("every", by_hand.cases(t)))
    defined = set(re.findall(r"__device__[^;{(]*?\b(\w+)\(", printed)) - {"operator"}
    assert defined and all(names.identifier(name) != name for name in defined)


def test_a_buffer_that_is_written_is_not_const() -> None:
    m = Maker("update")
    a = m.buffer("a", float32, "update")
    b = m.buffer("b", float32, "update")
    m.add(Store(a, m.i, apply("add", Load(a, m.i), Load(b, m.i))))
    text = print_kernel(m.kernel())
    assert "(float* __restrict__ a, const float* __restrict__ b)" in text


def test_parameters_in_order() -> None:
    kernel = by_hand.STATEMENTS["checked"]()
    assert [b.name for b in text.parameters(kernel)] == ["a", "out", "where"]
    assert kernel.errors and not by_hand.STATEMENTS["let"]().errors
    assert text.dynamic_shared_bytes(by_hand.STATEMENTS["large_shared"]()) == 72_000
    assert text.dynamic_shared_bytes(by_hand.STATEMENTS["shared"]()) == 0


def test_variants_say_what_they_need() -> None:
    """Conditions of wide accesses are printed as they are, apart from the 32-bit bounds."""
    shown = np.ones((64, 64), np.float32)
    columns = lambda w: w[0, -1] + w[0, 1]
    program = td.jit(lambda a: td.stencil(columns, a), backend="reference").lower(shown)
    text = program.source("cuda").replace("\n//      ", " ")  # long conditions, on one line
    explained = [line[5:] for line in text.splitlines() if line[:7] == "//   1."]
    wide = [line for line in explained if "% 4 == 0" in line]
    assert len(wide) == 1 and wide[0].startswith(
        "1. a.shape[1] % 4 == 0; sizes small enough for 32"
    )
    assert wide[0].endswith("tested by the host); a and out begin at a multiple of 16 bytes")


def test_lines_are_short() -> None:
    for make in by_hand.STATEMENTS.values():
        for line in print_kernel(make()).splitlines():
            assert len(line) <= 100, line


def test_deep_expressions_are_cut() -> None:
    m = Maker("deep")
    a, out = m.buffer("a", float32), m.buffer("out", float32, "output")
    e: Any = Load(a, m.i)
    for k in range(3000):
        e = apply("add", apply("sin", e), lit(k + 1, float32))
    m.add(Store(out, m.i, e))
    assert max(map(len, print_kernel(m.kernel()).splitlines())) <= 400


def test_the_same_text_every_time() -> None:
    first = {name: print_kernel(make()) for name, make in by_hand.STATEMENTS.items()}
    assert first == {name: print_kernel(make()) for name, make in by_hand.STATEMENTS.items()}


def test_operators_group_as_the_tree_does() -> None:
    m = Maker("groups")
    bools = [Var(n, bool_) for n in "pqr"]
    xs = [Var(n, float32) for n in "xyz"]
    words = [Var(n, uint32) for n in "uvw"]
    p, q, r = bools
    x, y, z = xs
    u, v, w = words
    out = {t: m.buffer(f"out_{t.name}", t, "output") for t in (bool_, float32, uint32)}
    for e, expected in (
        (apply("subtract", x, apply("subtract", y, z)), "x - (y - z)"),
        (apply("subtract", apply("subtract", x, y), z), "x - y - z"),
        (apply("multiply", apply("add", x, y), z), "(x + y) * z"),
        (apply("true_divide", x, apply("multiply", y, z)), "x / (y * z)"),
        (apply("negative", apply("negative", x)), "-(-x)"),
        (apply("subtract", x, apply("negative", y)), "x - (-y)"),
        (apply("logical_or", apply("logical_and", p, q), r), "(p && q) || r"),
        (apply("logical_and", apply("logical_or", p, q), r), "(p || q) && r"),
        (apply("logical_not", apply("logical_and", p, q)), "!(p && q)"),
        (apply("logical_not", apply("equal", u, v, type_=bool_)), "u != v"),
        (apply("logical_not", apply("less", u, v, type_=bool_)), "u >= v"),
        (apply("logical_not", apply("less", x, y, type_=bool_)), "!(x < y)"),  # NaN
        (apply("select", p, apply("select", q, x, y), z, type_=float32), "p ? (q ? x : y) : z"),
        (apply("select", p, x, apply("select", q, y, z), type_=float32), "p ? x : q ? y : z"),
        (apply("bitwise_or", apply("bitwise_and", u, v), w), "(u & v) | w"),
        (apply("bitwise_xor", apply("add", u, v), w), "(u + v) ^ w"),
        (apply("left_shift", apply("add", u, v), lit(3, uint32)), "(u + v) << 3"),
        (apply("less", Const(1, uint32), u, type_=bool_), "u > 1u"),
    ):
        assert isinstance(e, Apply)
        made = Kernel(
            "groups", m.kernel().buffers, (m.n, *bools, *xs, *words), (), m.n, m.task,
            (*m.body, Store(out[e.type], m.i, e)), threads=32, thread=m.thread,
        )  # fmt: skip
        assert f"[i] = {expected};" in print_kernel(made)


def test_an_alias_is_no_line() -> None:
    m = Maker("alias")
    a, out = m.buffer("a", float32), m.buffer("out", float32, "output")
    x, y = Var("x", float32), Var("y", float32)
    m.add(Let(x, Load(a, m.i)), Let(y, x), If(at.less(m.i, m.n), (Store(out, m.i, y),)))
    body = body_of(m.kernel())
    assert "out[i] = x;" in body and " y" not in body


# --- caches and errors --------------------------------------------------------------------------


def some_kernel(factor: float = 2.0) -> Kernel:
    m = Maker("scale_line3")
    a, out = m.buffer("a", float32), m.buffer("out", float32, "output")
    m.add(Store(out, m.i, apply("multiply", Load(a, m.i), lit(factor, float32))))
    return m.kernel(comments=("map, example.py:3", "  with scale, example.py:4"))


def test_memory_and_disk(cache: DiskCache, nvrtc: None) -> None:
    first = compile_kernel(some_kernel(), "sm_90a", cache=cache)
    assert not first.from_disk
    assert compile_kernel(some_kernel(), "sm_90a", cache=cache) is first
    assert compile_kernel(some_kernel(), "sm_80", cache=cache) is not first
    assert compile_kernel(some_kernel(3.0), "sm_90a", cache=cache) is not first
    forget()
    again = compile_kernel(some_kernel(), "sm_90a", cache=cache)
    assert again.from_disk and again.image == first.image
    assert (again.registers, again.spills, again.stack, again.shared_bytes) == (
        first.registers, first.spills, first.stack, first.shared_bytes)  # fmt: skip
    assert again.registers > 0 and again.name == "scale_line3" and "expf" not in again.source


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "lacking"])
def test_damaged_files_are_dropped(cache: DiskCache, damage: str, nvrtc: None) -> None:
    made = compile_kernel(some_kernel(), "sm_90a", cache=cache)
    (path,) = cache.directory.rglob("*.o")
    data = bytearray(path.read_bytes())
    if damage == "lacking":
        cache.put(path.stem, made.image, {"arch": "sm_90a"})
    else:
        changed = {"cut": data[: len(data) // 2], "empty": bytearray(),
                   "foreign": bytearray(b"something else" * 20)}  # fmt: skip
        data[-9] ^= 1
        path.write_bytes(changed.get(damage, data))
    forget()
    again = compile_kernel(some_kernel(), "sm_90a", cache=cache)
    assert not again.from_disk and again.image == made.image
    forget()
    assert compile_kernel(some_kernel(), "sm_90a", cache=cache).from_disk


def test_what_nvrtc_refuses_names_the_operation(
    nvrtc: None, monkeypatch: pytest.MonkeyPatch, cache: DiskCache
) -> None:
    monkeypatch.setitem(operations.FUNCTIONS, "exp", "expo")
    m = Maker("broken_line3")
    a, out = m.buffer("a", float32), m.buffer("out", float32, "output")
    m.add(by_hand.Comment("smooth, example.py:7"))
    m.add(Store(out, m.i, apply("exp", Load(a, m.i))))
    with pytest.raises(td.CompilationError) as found:
        compile_kernel(m.kernel(comments=("map, example.py:3",)), "sm_90a", cache=cache)
    message = str(found.value)
    assert "broken_line3 (map, example.py:3)" in message
    assert "out[i] = expof(a[i]);" in message and "smooth, example.py:7" in message
    assert 'identifier "expof" is undefined' in message
    assert "expof" in found.value.source and "expof" in found.value.log


def test_an_architecture_that_nvrtc_does_not_know(nvrtc: None, cache: DiskCache) -> None:
    with pytest.raises(td.CompilationError, match="makes no code for 'sm_999'"):
        compile_kernel(some_kernel(), "sm_999", cache=cache)


def test_local_arrays_need_a_constant_size() -> None:
    m = Maker("local")
    m.buffers.append(Buffer("window", float32, "local", m.n))
    m.add(Store(m.buffers[0], m.i, lit(0, float32)))
    with pytest.raises(AssertionError, match="no constant size"):
        print_kernel(m.kernel())


def test_a_name_for_what_changes_does_not_outlive_its_statement() -> None:
    """`value + 1` is another number once value has changed."""
    m = Maker("changes")
    a, out = m.buffer("a", float32, "update"), m.buffer("out", float32, "output")
    value, k = Var("value", float32), Var("k", int64)
    # Used twice in a condition, and again after the variable, or the buffer, has changed.
    more = apply("exp", apply("add", value, Load(a, m.i)))
    large = apply("less", more, apply("multiply", more, more), type_=bool_)
    again = Assign(value, apply("multiply", more, more))
    m.add(
        Declare(value, lit(0, float32)),
        If(large, (Assign(value, lit(2, float32)), again)),
        For(k, Const(0, int64), apply("cast", more, type_=int64), (again, again)),
        Store(a, m.i, lit(3, float32)),
        again,
        Store(out, m.i, value),
    )
    body = body_of(m.kernel())
    assert body.count("= expf(value + a[i]);") == 5 and body.count("expf") == 6


@pytest.mark.sample(8)
@pytest.mark.parametrize("t", by_hand.TYPES, ids=str)
def test_sums_and_products_of_every_type_compile(t: Any, nvrtc: None) -> None:
    """`x += y` where C++ has it for the type, `x = x + y` where it has not."""
    m = Maker(f"accumulates_{t.name}")
    a, out = m.buffer("a", t), m.buffer("out", t, "output")
    x = Var("x", t)
    m.add(Declare(x, Load(a, m.i)))
    for op in ("add", "multiply", "subtract"):
        if TABLE[op].rule(t) is not None:
            m.add(Assign(x, apply(op, x, Load(a, m.n))), Assign(x, apply(op, x, x)))
            if TABLE[op].commutative:
                m.add(Assign(x, apply(op, Load(a, m.n), x)))
    m.add(Store(out, m.i, x))
    compile_kernel(m.kernel(), "sm_90a")


def test_the_heading_tells_every_number_and_what_states_start_as() -> None:
    def wave(u: Any, v: Any) -> Any:
        def iteration(s: Any) -> Any:
            bend = td.stencil(lambda w: w[0, 1] + w[0, -1] + w[1, 0] + w[-1, 0], s[0])
            return s[0] + s[1], s[1] + bend

        return td.iterate(9, iteration, (u, v))

    field = np.zeros((40, 60), np.float32)
    heading, _, rest = td.jit(wave).lower(field, field).source("cuda").partition('extern "C"')
    parameters = re.findall(r"const (\w+)\*? (?:__restrict__ )?(\w+)|int (\w+)", rest.split("{")[0])
    arrays = [name for kind, name, _ in parameters if kind]
    numbers = [number for kind, _, number in parameters if not kind]
    assert arrays == ["state_u", "state_v"] and numbers
    computed = re.search(r"computed by the host: ([\w, ]+)", heading)
    listed = computed.group(1).split(", ") if computed else []
    for name in numbers:
        divides = name.endswith(("_multiplier", "_shift"))
        assert divides or name in listed or re.search(rf"\b{name} =", heading), name
    variants = [int(k) for k in re.findall(r"^//   (\d+)\. ", heading, re.MULTILINE)]
    assert variants == list(range(1, len(variants) + 1))
    assert f"variant 1 of {len(variants)};" in heading


def test_a_condition_says_nothing_twice() -> None:
    def histogram(p: Any) -> Any:
        def target(i: Any) -> Any:
            return td.where((p[i] >= 0) & (p[i] < 256), p[i], td.ignore)

        ones = td.fill(p.shape[0], 1)
        return td.permute(lambda new, old: new + old, td.fill(256, 0), target, ones)

    text = td.jit(histogram).lower(np.zeros(1 << 12, np.int32)).source("cuda")
    conditions = re.findall(r"if \((.* >= 0 && .*)\) \{", text)
    assert conditions
    assert all(len(set(c.split(" && "))) == len(c.split(" && ")) for c in conditions)
