"""Literals as arguments: kernels that differ in them alone have the same machine code.

    out[i] = 1.25 * a[i] + 0.3   →   out[i] = literal * a[i] + literal1,  over 1.25 and 0.3

A Python loop that is unrolled while a program is traced makes many such kernels.  The bits of
results are the same: only operands of sums and products change, and none of the numbers for which
LLVM does something else (powers of two, 0, infinities, NaN).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from treadle.dsl.expr import Apply, Const, Expr, Var, rewrite, walk
from treadle.dsl.types import float32, float64

from .kernel import Body, Kernel, Store, evaluated, mapped, statements

#: The operations that do the same with a number whether it is known or not.
_OPERATIONS = ("add", "subtract", "multiply", "fma")
#: A kernel with more literals keeps them.
MOST = 64


def as_arguments(kernel: Kernel) -> Kernel:
    """The kernel with its literals as further scalars, in the order in which it uses them."""
    found = _literals(kernel)
    if not 0 < len(found) <= MOST:
        return kernel
    given: dict[Expr, Expr] = {}
    scalars = tuple(Var("literal", e.type) for e in found)
    given.update(zip(found, scalars, strict=True))

    def value(e: Expr) -> Expr:
        return rewrite((e,), lambda x: x, given)[0]

    def body(made: Body) -> Body:
        return tuple(mapped(s, value, body) for s in made)

    return replace(
        kernel,
        scalars=(*kernel.scalars, *scalars),
        scalar_values=(*kernel.scalar_values, *found),
        body=body(kernel.body),
        literals=len(found),
    )


def _literals(kernel: Kernel) -> Sequence[Const]:
    """The literals of a kernel that may be arguments."""
    found: dict[Const, None] = {}
    others: set[Const] = set()
    for s in statements(kernel.body):
        roots = evaluated(s)
        if not isinstance(s, Store):
            others.update(e for e in roots if isinstance(e, Const))
        for e in walk(roots):
            if not e.args and not e.scoped:
                continue
            used = [a for a in (*e.args, *e.scoped) if isinstance(a, Const)]
            if isinstance(e, Apply) and e.op.name in _OPERATIONS:
                found.update((a, None) for a in used if _is_ordinary(a))
            else:
                others.update(used)
    return [e for e in found if e not in others]


def _is_ordinary(e: Const) -> bool:
    """Whether it is a float that is neither 0, a power of two, infinite nor NaN."""
    if e.type not in (float32, float64):
        return False
    value = float(e.value)
    return math.isfinite(value) and abs(math.frexp(value)[0]) not in (0.0, 0.5)
