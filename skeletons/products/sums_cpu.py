"""The CPU kernel for sums of blocks: one pass, in which each element is read before it is written.

    for each row of a task:
      for each column (vector):
        x_k = array_k[row, column]
        array_j[row, column] = shared + Σ c·x_k       for every sum, in the order of its terms

Coefficients are run-time values, so that the sums of an algorithm need few kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treadle.dsl.expr import Apply, Expr, Var, constant, primitive
from treadle.dsl.types import ScalarType, int64

from ..ir import arithmetic as at
from ..ir.kernel import Buffer, Comment, For, Kernel, Let, Load, Statement, Store

Terms = tuple[int, ...]
"""Indices of arrays."""


@dataclass(frozen=True)
class SumTable:
    """Sums of matrices of one shape and a real type, as (target, terms) pairs.  Shared terms are
    added after a target that is a term of its own sum, and before all other terms.  Also records
    for each array whether its columns are contiguous."""

    type: ScalarType
    made: tuple[tuple[int, Terms], ...]
    shared: Terms
    contiguous: tuple[bool, ...]


def sums_kernel(table: SumTable) -> Kernel:
    """The kernel, with an address for each array.

    Its scalars are the numbers of rows, of columns, and of rows per task; each array's row stride
    in elements, and its column stride if columns are not contiguous; the coefficients of the shared
    terms, and of each sum.
    """
    rows, columns, each = (Var(name, int64) for name in ("rows", "columns", "each"))
    task, row, column = (Var(name, int64) for name in ("task", "row", "column"))
    targets = {target for target, _ in table.made}
    read = {k for _, terms in (*table.made, (0, table.shared)) for k in terms}
    buffers, down, across = list[Buffer](), list[Var](), list[Var]()
    starts, positions, body = list[Statement](), list[Expr](), list[Statement]()
    values: dict[int, Expr] = {}
    for k, contiguous in enumerate(table.contiguous):
        role = "input" if k not in targets else "update" if k in read else "output"
        down.append(Var(f"down{k}", int64))
        step: Expr = constant(1)
        if not contiguous:
            across.append(Var(f"across{k}", int64))
            step = across[-1]
        size = rows * down[-1]
        buffers.append(Buffer(f"x{k}", table.type, role, size, dense=False))
        start = Var(f"start{k}", int64)
        starts.append(Let(start, row * down[-1]))
        positions.append(start + column * step)
        if k in read:
            value = values[k] = Var(f"value{k}", table.type)
            body.append(Let(value, Load(buffers[-1], positions[-1])))
    count = len(table.shared) + sum(len(terms) for _, terms in table.made)
    factors = [Var(f"c{k}", table.type) for k in range(count)]
    left = iter(factors)
    shared = [_sum(_products(table.shared, values, left))] if table.shared else []
    results = []
    for target, terms in table.made:
        addends = list(_products(terms, values, left))
        first = bool(terms) and terms[0] == target
        results.append(_sum([*addends[:first], *shared, *addends[first:]]))
    body += [Store(buffers[target], positions[target], value)
             for (target, _), value in zip(table.made, results, strict=True)]  # fmt: skip
    top = task * each
    last = at.minimum(top + each, rows)
    loop = For(column, constant(0), columns, tuple(body), "vector")
    scalars = (rows, columns, each, *down, *across, *factors)
    words = Comment(f"{len(table.made)} sums of {len(read)} blocks")
    return Kernel(
        "sums", tuple(buffers), scalars, scalars, at.ceil_div(rows, each), task,
        (words, For(row, top, last, (*starts, loop))), light=True,
    )  # fmt: skip


def _products(terms: Terms, values: dict[int, Expr], factors: Iterator[Var]) -> Iterator[Expr]:
    """The terms, each with the next coefficient."""
    for k in terms:
        c = next(factors)
        yield Apply(primitive("multiply"), (values[k], c), c.type)


def _sum(terms: Sequence[Expr] | Iterator[Expr]) -> Expr:
    total, *rest = terms
    for x in rest:
        total = Apply(primitive("add"), (total, x), total.type)
    return total
