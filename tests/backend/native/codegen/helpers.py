"""Small kernels by hand, and a way to run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.backend.native.codegen import engine
from treadle.backend.native.codegen.compile import CompiledKernel, _emitted, compile_kernel
from treadle.backend.native.codegen.target import Target
from treadle.dsl.expr import Const, Expr, Var, constant
from treadle.dsl.primitives import TABLE
from treadle.dsl.simplify import apply, cast as cast_to
from treadle.dsl.types import ScalarType, bool_, int64
from treadle.skeletons.ir.kernel import Body, Buffer, For, Kernel, Load, Store
from treadle.skeletons.ir.verify import verify

N = Var("n", int64)
TASK = Var("task", int64)


def assembly(compiled: CompiledKernel) -> str:
    """The machine code of a kernel as text."""
    text, effort = _emitted(compiled)
    with engine.compiler(compiled.target) as one, one.parsed(text) as module:
        one.optimise(module, effort)
        return str(one.machine.emit_assembly(module))


def optimised(compiled: CompiledKernel) -> str:
    """The LLVM IR of a kernel as machine code is made of it."""
    text, effort = _emitted(compiled)
    with engine.compiler(compiled.target) as one, one.parsed(text) as module:
        one.optimise(module, effort)
        return str(module)


def ap(name: str, *args: Expr, type_: ScalarType | None = None) -> Expr:
    """A primitive applied, with the result type that its rule says."""
    if type_ is None:
        rule = TABLE[name].rule(args[-1].type)
        type_ = rule[1] if rule else args[-1].type
    return apply(TABLE[name], args, type_)


def add(*args: Expr) -> Expr:
    total = args[0]
    for a in args[1:]:
        total = ap("add", total, a)
    return total


def mul(a: Expr, b: Expr) -> Expr:
    return ap("multiply", a, b)


def less(a: Expr, b: Expr) -> Expr:
    return ap("less", a, b, type_=bool_)


def cast(e: Expr, t: ScalarType) -> Expr:
    return cast_to(e, t)


def lit(value: Any, t: ScalarType) -> Const:
    return Const(value, t)


def k(value: int) -> Const:
    return constant(value)


def buffer(name: str, t: ScalarType, role: str = "input", size: Expr = N) -> Buffer:
    return Buffer(name, t, role, size)


def kernel(name: str, buffers: Sequence[Buffer], body: Body, scalars: Sequence[Var] = (N,),
           tasks: Expr | None = None) -> Kernel:  # fmt: skip
    made = Kernel(name, tuple(buffers), tuple(scalars), tuple(scalars), tasks or k(1), TASK, body)
    verify(made)
    return made


def elementwise(
    inputs: Sequence[Buffer], output: Buffer, make: Any, kind: str = "vector"
) -> Kernel:
    """out[i] = make(in0[i], in1[i], …)"""
    i = Var("i", int64)
    value = make(*(Load(b, i) for b in inputs))
    body = (For(i, k(0), N, (Store(output, i, value),), kind),)
    return kernel("elementwise", [*inputs, output], body)


def run(
    program: Kernel,
    arrays: Sequence[np.ndarray[Any, Any]],
    scalars: Sequence[Any],
    tasks: int = 1,
    target: Target | None = None,
    errors: int = 0,
) -> CompiledKernel:
    compiled = compile_kernel(program, target=target)
    compiled.bind()([a.ctypes.data for a in arrays], scalars, tasks, errors)
    return compiled


def avx2() -> Target | None:
    """The same machine with 32-byte vectors, where it has longer ones."""
    host = Target.host()
    if host.vector_bytes <= 32 or not host.is_x86:
        return None
    return host.with_vectors_of(32)
