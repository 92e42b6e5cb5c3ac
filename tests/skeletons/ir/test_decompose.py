"""Decompositions mean what primitives mean, for every target, and leave operations alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.native.codegen.compile import compile_kernel
from treadle.dsl.expr import Apply, Const, Expr, Var
from treadle.dsl.primitives import KERNEL, TABLE, Primitive, value_of
from treadle.dsl.target import CUDA, NATIVE, Target
from treadle.dsl.types import (
    ALL_TYPES,
    ScalarType,
    bool_,
    complex128,
    float32,
    float64,
    int32,
    int64,
)
from treadle.skeletons.ir.decompose import Function, definition, of_constant
from treadle.skeletons.ir.kernel import Buffer, For, Kernel, Let, Load, Store
from treadle.skeletons.ir.rules import Operand, Value, kind_of

#: A machine that has nothing of its own.
PLAIN = Target("plain", gpu=True)
TARGETS = (NATIVE, CUDA, PLAIN)
#: What a printer knows beside the functions of a mathematical library.
OPERATIONS = {
    "bool": {"cast", "select", "equal", "less", "less_equal", "greater", "greater_equal",
             "logical_and", "logical_or", "logical_xor", "logical_not"},
    "integer": {"cast", "select", "equal", "not_equal", "less", "less_equal", "greater",
                "greater_equal", "add", "subtract", "multiply", "negative", "minimum", "maximum",
                "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "popcount", "clz", "ctz",
                "divide", "modulo", "shift_left", "shift_right", "natural_power", "from_bits"},
    "float": {"cast", "select", "complex", "equal", "not_equal", "less", "less_equal", "greater",
              "greater_equal", "add", "subtract", "multiply", "true_divide", "negative", "absolute",
              "minimum", "maximum", "fmin", "fmax", "fma", "sqrt", "copysign", "floor", "ceil",
              "trunc", "rint", "rem", "power", "to_bits", "to_integer", "narrow"},
    "half": {"cast", "select", "to_bits"},
    "complex": {"select", "real", "imag"},
}  # fmt: skip
LIBRARY = {"exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
           "arcsinh", "arccosh", "arctanh", "exp2", "expm1", "log2", "log10", "log1p", "cbrt",
           "erf", "erfc", "arctan2", "hypot"}  # fmt: skip


def cases() -> Iterator[tuple[Primitive, ScalarType, ScalarType]]:
    """Primitives with the types of their operands and of their result."""
    for t in ALL_TYPES:
        for op in TABLE.values():
            ruled = op.rule(t)
            if op.name == "cast":
                yield from ((op, t, u) for u in ALL_TYPES)
            elif ruled is not None and ruled[0] == t and op.name != "select":
                yield op, t, ruled[1]


def operations(
    target: Target, op: Primitive, types: tuple[ScalarType, ...], result: ScalarType
) -> Iterator[tuple[str, str]]:
    """The kinds and names of the operations that are left."""
    function = definition(target, op, result, *map(Operand, types))
    if function is None:
        yield kind_of(types[0]), op.name
        return
    for e in function.steps:
        if isinstance(e, Apply):
            yield from operations(target, e.op, tuple(a.type for a in e.args), e.type)


def test_printers_need_few_operations() -> None:
    found = {x for op, t, u in cases() for x in operations(PLAIN, op, (t,) * op.arity, u)}
    for kind, names in OPERATIONS.items():
        left = {name for k, name in found if k == kind}
        allowed = names | LIBRARY if kind == "float" else names
        assert left <= allowed, (kind, left - allowed)


def evaluate(target: Target, function: Function, args: list[np.ndarray]) -> np.ndarray:
    """The body by NumPy: primitives in it by what they are decomposed to."""
    known: dict[Expr, np.ndarray] = dict(zip(function.parameters, args, strict=True))
    for e in function.steps:
        if isinstance(e, Const):
            known[e] = np.full(args[0].shape, e.value, e.type.numpy)
        elif isinstance(e, Apply):
            given = [known[a] for a in e.args]
            inner = definition(target, e.op, e.type, *(Operand(a.type) for a in e.args))
            if inner is not None:
                known[e] = evaluate(target, inner, given)
            elif e.op.name in ("to_bits", "from_bits"):
                known[e] = given[0].view(e.type.numpy)
            else:
                known[e] = value_of(e.op, [a.type for a in e.args], given, e.type)
    return known[function.result]


def samples(t: ScalarType) -> np.ndarray:
    if t.family == "bool":
        return np.array([False, True] * 24)
    rng = np.random.default_rng(3)
    if t.is_integer:
        some = [0, 1, 2, 3, 7, int(t.highest), int(t.lowest), int(t.highest) - 1]
        some += [-1, -2, -3, -8] if t.signed else [8, 31, 63, 100]
        return np.array([*some, *rng.integers(0, 70, 36)], t.numpy)
    ends = [0.0, -0.0, 1, -1, 0.5, -2.5, 3, 1e3, 70000, -1e5, 3e9, 1e20, -1e20, np.inf, -np.inf,
            np.nan]  # fmt: skip
    real = np.array([*ends, *rng.normal(0, 4, 32)])
    if not t.is_complex:
        with np.errstate(over="ignore"):
            return real.astype(t.numpy)
    finite = real[np.abs(real) < 1e15]  # test_complex_specials has the others
    return (finite + 1j * finite[::-1]).astype(t.numpy)


def agree(op: Primitive, t: ScalarType, found: np.ndarray, wanted: np.ndarray) -> bool:
    if wanted.dtype.kind != "c" and (not t.is_inexact or op.name == "cast"):
        return bool(((found == wanted) | ((found != found) & (wanted != wanted))).all())
    if t.is_complex:
        fine = np.isfinite(wanted)  # NumPy's infinities of products and powers are others
        found, wanted = found[fine], wanted[fine]
    epsilon = 1e-2 if t.bits == 16 else 1e-6 if t.bits <= 32 or t.name == "complex64" else 1e-13
    f, w = found.astype(complex), wanted.astype(complex)
    near = np.abs(f - w) <= 8 * epsilon * (1 + np.abs(w))
    return bool((near | (f == w) | ((f != f) & (w != w))).all())


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("t", ALL_TYPES, ids=str)
def test_meaning(target: Target, t: ScalarType) -> None:
    count = 0
    for op, source, result in cases():
        if source != t:
            continue
        function = definition(target, op, result, *[Operand(t)] * op.arity)
        if function is None:
            continue
        x = samples(t)
        args = [x, np.roll(x, 5), np.roll(x, 11)][: op.arity]
        if op.name == "power" and t.is_complex:
            args[1] = np.full_like(x, 0.5 + 0.25j)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = np.asarray(value_of(op, [t] * op.arity, args, result))
            found = evaluate(target, function, args)
            assert found.dtype == wanted.dtype
            assert agree(op, t, found, wanted), (op, t, result)
        count += 1
    assert count > 0


@pytest.mark.parametrize("t", [t for t in ALL_TYPES if t.is_integer], ids=str)
def test_constant_operands(t: ScalarType) -> None:
    x = samples(t)
    for name in ("power", "floor_divide", "remainder", "quot", "rem", "left_shift", "right_shift"):
        for c in (0, 1, 2, 3, 7, 8, 100, *((-1, -2, -7) if t.signed else ())):
            function = definition(PLAIN, TABLE[name], t, Operand(t), of_constant(t, c))
            assert function is not None
            args = [x, np.full_like(x, c)]
            with np.errstate(all="ignore"):
                wanted = value_of(TABLE[name], [t, t], args, t)
                assert (evaluate(PLAIN, function, args) == wanted).all(), (name, c)


def test_what_is_known_of_operands_decides() -> None:
    divide = TABLE["floor_divide"]
    general = definition(PLAIN, divide, int32, Operand(int32), Operand(int32))
    plain = definition(PLAIN, divide, int32, Operand(int32, natural=True),
                       Operand(int32, natural=True, positive=True, nonzero=True))  # fmt: skip
    assert general is not None and not general.inline and len(general.steps) > 10
    assert plain is not None and plain.inline
    assert isinstance(plain.result, Apply) and plain.result.op is KERNEL["divide"]


def test_a_target_says_what_it_has() -> None:
    some = Target("some", operations=frozenset(("nextafter", "saturating conversion")))
    after = TABLE["nextafter"]
    assert definition(some, after, float32, Operand(float32), Operand(float32)) is None
    assert definition(PLAIN, after, float32, Operand(float32), Operand(float32)) is not None
    to_int = [definition(t, TABLE["cast"], int32, Operand(float64)) for t in (some, PLAIN)]
    assert to_int[0] is not None and to_int[1] is not None
    assert len(to_int[0].steps) < len(to_int[1].steps)


def test_names_of_steps_are_of_the_body() -> None:
    function = definition(PLAIN, TABLE["sqrt"], complex128, Operand(complex128))
    assert function is not None and function.large and "root" in function.names.values()
    assert set(function.names) <= set(function.steps)
    assert all(isinstance(v, Var) for v in function.parameters)
    assert definition(PLAIN, TABLE["equal"], bool_, Operand(complex128), Operand(complex128))


def test_a_primitive_is_one_entry() -> None:
    """Types, meaning, cost and formula: LLVM IR and CUDA C++ of it follow."""

    def sinc(x: Value) -> Value:
        """sin(pi x) / (pi x)"""
        angle = (x * np.pi).named("angle")
        return (x == 0.0).where(1.0, angle.sin() / angle)

    op = Primitive("sinc", 1, lambda t: (t, t), np.sinc, cost=40, formula=sinc)
    for t in (float32, float64, complex128):
        i, thread, task = (Var(name, int64) for name in ("i", "thread", "task"))
        size = Const(256, int64)
        x, out = Buffer("x", t, "input", size), Buffer("out", t, "output", size)
        store = Store(out, i, Apply(op, (Load(x, i),), t))
        loop = For(i, Const(0, int64), size, (store,), "vector")
        kernel = Kernel("k", (x, out), (), (), Const(1, int64), task, (loop,))
        given = np.linspace(-4, 4, 256).astype(t.numpy)
        found = np.zeros_like(given)
        compile_kernel(kernel).bind()([given.ctypes.data, found.ctypes.data], (), 1)
        epsilon = 1e-5 if t == float32 else 1e-13
        assert np.allclose(found, np.sinc(given), rtol=0, atol=epsilon)
        body = (Let(i, thread), store)
        text = print_kernel(Kernel("k", (x, out), (), (), Const(1, int64), task, body,
                                   threads=256, thread=thread))  # fmt: skip
        assert "// sin(pi x) / (pi x)" in text and "out[thread] = sinc(x[thread]);" in text
        assert text.count("sinc(") == 2
