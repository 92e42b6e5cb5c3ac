"""The linear algebra that has kernels of its own, and the arithmetic that these kernels share."""

from __future__ import annotations

from treadle.dsl import simplify
from treadle.dsl.expr import Const, Expr
from treadle.dsl.graph import Library
from treadle.dsl.libraries.base import is_builtin
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import ScalarType

#: The largest matrices, also of the right-hand sides of triangular systems, and the most right-hand
#: sides of another system.
LARGEST, COLUMNS = 32, 8
#: The bytes of a column at most, of matrices whose threads hold two columns in registers.
COLUMN_BYTES = 256
SYSTEMS = ("linalg.solve", "linalg.solve_triangular")
ELIMINATIONS = (*SYSTEMS, "linalg.inv", "linalg.cholesky", "linalg.lu")
ORTHOGONAL = ("linalg.qr", "linalg.eigh")
#: Sweeps of Jacobi's method at most.  Of 300 random matrices of 32 rows, none needed more than 8 in
#: float32 and 9 in float64, with the last one, in which no rotation acts.
SWEEPS = 16


def has_kernel(node: Library) -> bool:
    """Whether kernels compute a library operation: the matrices have constant extents."""
    operation = node.operation
    name = operation.name
    if not is_builtin(operation) or name not in ELIMINATIONS + ORTHOGONAL:
        return False
    if name == "linalg.cholesky" and any(operation.parameters):
        return False
    given = node.arguments[0]
    sizes = [*given.shape[-2:]]
    if name in SYSTEMS:
        sizes += node.outs[0].shape[-2:]
    if not all(isinstance(e, Const) for e in sizes):
        return False
    rows, columns = map(number, sizes[:2])
    if not (0 < rows <= LARGEST and 0 < columns <= LARGEST):
        return False
    if name in SYSTEMS:
        return 0 < number(sizes[3]) <= (COLUMNS if name == "linalg.solve" else LARGEST)
    # (A library computes one matrix faster: it uses more of the machine than a lane.)
    several = len(given.shape) > 2
    return name not in ORTHOGONAL or (
        several and max(rows, columns) * given.type.bytes <= COLUMN_BYTES
    )


def number(e: Expr) -> int:
    assert isinstance(e, Const)
    return int(e.value)


def real_type(t: ScalarType) -> ScalarType:
    return apply_primitive("real", [Const(0, t)]).type if t.is_complex else t


def constant_of(value: float, t: ScalarType) -> Expr:
    return simplify.cast(Const(value, real_type(t)), t)


def real(x: Expr) -> Expr:
    return apply_primitive("real", [x]) if x.type.is_complex else x


def conjugate(x: Expr) -> Expr:
    return apply_primitive("conjugate", [x]) if x.type.is_complex else x


def negative(x: Expr) -> Expr:
    return apply_primitive("negative", [x])


def plus(x: Expr, y: Expr) -> Expr:
    return apply_primitive("add", [x, y])


def minus(x: Expr, y: Expr) -> Expr:
    return apply_primitive("subtract", [x, y])


def quotient(x: Expr, y: Expr) -> Expr:
    return apply_primitive("true_divide", [x, y])


def larger(x: Expr, y: Expr) -> Expr:
    """The larger of two real numbers, NaN if one is NaN."""
    return apply_primitive("maximum", [x, y])


def size(x: Expr) -> Expr:
    """|x|, or |re| + |im|, by which LAPACK chooses pivots."""
    if not x.type.is_complex:
        return apply_primitive("absolute", [x])
    parts = [apply_primitive("absolute", [apply_primitive(part, [x])]) for part in ("real", "imag")]
    return apply_primitive("add", parts)


def squared(x: Expr) -> Expr:
    """|x|²."""
    if not x.type.is_complex:
        return apply_primitive("multiply", [x, x])
    parts = [apply_primitive(part, [x]) for part in ("real", "imag")]
    return apply_primitive("add", [apply_primitive("multiply", [p, p]) for p in parts])


def times(x: Expr, y: Expr) -> Expr:
    """x · y, where one of them may be real and the other one complex."""
    if x.type.is_complex == y.type.is_complex:
        return apply_primitive("multiply", [x, y])
    if y.type.is_complex:
        x, y = y, x
    parts = [apply_primitive("multiply", [apply_primitive(part, [x]), y])
             for part in ("real", "imag")]  # fmt: skip
    return apply_primitive("complex", parts)


def over(x: Expr, r: Expr) -> Expr:
    """x / r for a real r."""
    if not x.type.is_complex:
        return apply_primitive("true_divide", [x, r])
    parts = [apply_primitive("true_divide", [apply_primitive(part, [x]), r])
             for part in ("real", "imag")]  # fmt: skip
    return apply_primitive("complex", parts)
