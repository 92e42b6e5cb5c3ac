"""Which linear algebra has kernels of its own, and what they compute of a matrix element."""

from __future__ import annotations

from treadle.dsl.expr import Const, Expr
from treadle.dsl.graph import Library
from treadle.dsl.libraries.base import is_builtin
from treadle.dsl.scalar import apply_primitive

#: The largest matrices, and the most right-hand sides of a system.
LARGEST, COLUMNS = 32, 8
NAMES = ("linalg.inv", "linalg.solve", "linalg.cholesky")


def has_kernel(node: Library) -> bool:
    """Whether kernels compute a library operation: the matrices have constant extents."""
    operation = node.operation
    if not is_builtin(operation) or operation.name not in NAMES or any(operation.parameters):
        return False
    rows, columns = node.outs[0].shape[-2:]
    sizes = node.arguments[0].shape[-1], rows, columns
    if not all(isinstance(e, Const) for e in sizes):
        return False
    n, _, k = map(number, sizes)
    return 0 < n <= LARGEST and (operation.name != "linalg.solve" or 0 < k <= COLUMNS)


def number(e: Expr) -> int:
    assert isinstance(e, Const)
    return int(e.value)


def real(x: Expr) -> Expr:
    return apply_primitive("real", [x]) if x.type.is_complex else x


def conjugate(x: Expr) -> Expr:
    return apply_primitive("conjugate", [x]) if x.type.is_complex else x


def negative(x: Expr) -> Expr:
    return apply_primitive("negative", [x])


def size(x: Expr) -> Expr:
    """|x|, or |re| + |im|, by which LAPACK chooses pivots."""
    if not x.type.is_complex:
        return apply_primitive("absolute", [x])
    parts = [apply_primitive("absolute", [apply_primitive(part, [x])]) for part in ("real", "imag")]
    return apply_primitive("add", parts)


def over(x: Expr, r: Expr) -> Expr:
    """x / r for a real r."""
    if not x.type.is_complex:
        return apply_primitive("true_divide", [x, r])
    parts = [apply_primitive("true_divide", [apply_primitive(part, [x]), r])
             for part in ("real", "imag")]  # fmt: skip
    return apply_primitive("complex", parts)
