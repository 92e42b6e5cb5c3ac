"""Einstein sums: products of arrays summed over named axes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

from ...annotations import ArrayLike
from ...array import Array
from ...errors import ShapeError, TracingError
from ...expr import Expr
from ...frontend.sources import as_array
from ...graph import Check, known
from ...process.configuration import settings
from ...shapes import require
from ...simplify import is_const
from ...types import ScalarType, promote
from ..common import combining
from ..indexing.index_space import backpermute, expand_dims, reshape, transpose
from ..reducing.reductions import sum as sum_
from .products import matmul

__all__ = ["einsum"]


@combining
def einsum(subscripts: str, *operands: ArrayLike) -> Array:
    """The sum of products over named axes: `"ij,jk->ik"` is a matrix product.

    A letter names an axis; `...` stands for the other axes, which broadcast; a letter twice in one
    operand is a diagonal; letters that are not in the result are summed.  Without `->` the result
    has the letters that occur once, in alphabetical order.  Pairs are contracted as (batched)
    matrix products, first the pairs with the smallest results; extents that are not known while
    a function is traced count as 100, and so does every extent under `deterministic=True` of
    `td.config` or `td.jit`: compiled or not, the order is then the same.

    Parameters
        subscripts: the axes of the operands and of the result, "ij,jk->ik".
        *operands: arrays, one for each group of subscripts.

    Result: an array with an axis for each letter of the result, in the promoted type.

    >>> td.einsum("ij,j->i", np.array([[1, 2], [3, 4]]), np.array([1, 10]))
    Array([21, 43])
    """
    if not isinstance(subscripts, str):
        raise TracingError(
            f"einsum needs its subscripts as text, got {type(subscripts).__name__}.",
            hint='Write td.einsum("ij,jk->ik", a, b).',
        )
    arrays = [as_array(x, "einsum") for x in operands]
    inputs, output = _parsed(subscripts, arrays)
    common = functools.reduce(_promoted, (a.dtype for a in arrays))
    terms = [_diagonal(a, names) for a, names in zip(arrays, inputs, strict=True)]
    while len(terms) > 1:
        i, j = _cheapest(terms, output)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        wanted = set(output).union(*(names for _, names in rest))
        # The right operand has the axis that is the last of the result: rows stay rows.
        if output and output[-1] in terms[i][1] and output[-1] not in terms[j][1]:
            i, j = j, i
        terms = [*rest, _contracted(terms[i], terms[j], wanted, common)]
    array, names = _summed(*terms[0], set(output), common)
    if tuple(names) == tuple(output):
        return array
    return transpose(array, [names.index(n) for n in output])


Term = tuple[Array, tuple[str, ...]]


def _promoted(a: ScalarType, b: ScalarType) -> ScalarType:
    return promote(a, False, b, False)[0]


def _parsed(text: str, arrays: Sequence[Array]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The names of each operand's axes and of the result's; those of `...` are numbers."""
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise ShapeError(
            f"einsum: {len(parts)} subscripts for {len(arrays)} operands.",
            hint="Write the subscripts of each operand, with commas between them.",
        )
    inputs, most = [], 0
    for part, array in zip(parts, arrays, strict=True):
        before, dots, after = part.partition("...")
        letters = before + after
        spread = array.ndim - len(letters)
        if (not letters.isalpha() and letters) or spread < 0 or (spread and not dots):
            raise ShapeError(
                f"einsum: {part!r} names {len(letters)} axes of an array of rank {array.ndim}.",
                hint="One letter for each axis; ... stands for the others.",
            )
        most = max(most, spread)
        inputs.append((*before, *(str(spread - k) for k in range(spread)), *after))
    shared = tuple(str(most - k) for k in range(most))
    if arrow:
        before, dots, after = right.partition("...")
        output = (*before, *(shared if dots else ()), *after)
    else:
        every = [n for names in inputs for n in names if n.isalpha()]
        output = (*shared, *sorted(n for n in set(every) if every.count(n) == 1))
    known_names = {n for names in inputs for n in names}
    if len(set(output)) != len(output) or not known_names.issuperset(output):
        raise ShapeError(
            f"einsum: the result {right!r} names an axis twice, or one that no operand has.",
            hint='Each letter once, of those of the operands: "ij,jk->ik".',
        )
    return inputs, output


def _diagonal(array: Array, names: tuple[str, ...]) -> Term:
    """The diagonal over axes of one name."""
    different = tuple(dict.fromkeys(names))
    if len(different) == len(names):
        return array, names
    extents = []
    checks: list[Check] = []
    for name in different:
        found = [n for n, other in zip(array._shape, names, strict=True) if other == name]
        for n in found[1:]:
            checks += _alike(found[0], n, name)
        extents.append(array.shape[names.index(name)])

    def index(*at: Any) -> tuple[Any, ...]:
        return tuple(at[different.index(n)] for n in names)

    return _checked(backpermute(tuple(extents), index, array), checks), different


def _alike(first: Expr, second: Expr, name: str) -> tuple[Check, ...]:
    message = f"einsum: the axes named {name!r} have extents {{left}} and {{right}}."
    return require(first, second, message, hint="Axes of one name have one extent.")


def _checked(array: Array, checks: Sequence[Check]) -> Array:
    """An array that was just made, whose operation makes these checks first."""
    if not checks:
        return array
    node = array._leaves[0].node
    made = node.with_(checks=(*checks, *node.checks))
    return Array(made.leaves, array.structure, array._shape)


def known_extent(n: Any) -> int | None:
    found = n if isinstance(n, int) else known(n._expr)
    return None if found is None else int(found)


def _cheapest(terms: Sequence[Term], output: Sequence[str]) -> tuple[int, int]:
    """The pair whose product has the fewest elements; unknown extents count as 100."""
    alike = settings().deterministic

    def size(pair: tuple[int, int]) -> float:
        (a, left), (b, right) = (terms[k] for k in pair)
        others = [names for k, (_, names) in enumerate(terms) if k not in pair]
        wanted = set(output).union(*others)
        extents = {
            **dict(zip(left, a.shape, strict=True)),
            **dict(zip(right, b.shape, strict=True)),
        }
        return math.prod(
            100 if alike else known_extent(n) or 100 for m, n in extents.items() if m in wanted
        )

    return min(itertools.combinations(range(len(terms)), 2), key=size)


def _summed(array: Array, names: tuple[str, ...], wanted: set[str], common: ScalarType) -> Term:
    """Axes that nothing else needs, summed in the type of the result."""
    axes = tuple(k for k, n in enumerate(names) if n not in wanted)
    if not axes:
        return array, names
    total = sum_(array.astype(common), axis=axes).astype(common)
    return total, tuple(n for n in names if n in wanted)


def _contracted(first: Term, second: Term, wanted: set[str], common: ScalarType) -> Term:
    """The product of two terms in the type of the result, summed over axes that only these have."""
    a, left = _summed(*first, wanted | set(second[1]), common)
    b, right = _summed(*second, wanted | set(left), common)
    if _promoted(a.dtype, b.dtype) != common:
        a = a.astype(common)
    both = [n for n in left if n in right]
    checks: list[Check] = []
    for n in both:
        pair = a._shape[left.index(n)], b._shape[right.index(n)]
        if not (n.isdigit() and any(is_const(e, 1) for e in pair)):
            checks += _alike(*pair, n)
    inner = [n for n in both if n not in wanted]
    batch = [n for n in both if n in wanted]
    rows = [n for n in left if n not in both]
    columns = [n for n in right if n not in both]
    if not inner:
        names = (*batch, *rows, *columns)
        return _checked(_spread(a, left, names) * _spread(b, right, names), checks), names
    x = transpose(a, [left.index(n) for n in (*batch, *rows, *inner)])
    y = transpose(b, [right.index(n) for n in (*batch, *inner, *columns)])
    head, k = len(batch), len(inner)
    x = reshape(x, [*x.shape[:head], *_merged(x.shape[head:-k]), *_merged(x.shape[-k:])])
    y = reshape(y, [*y.shape[:head], *_merged(y.shape[head : head + k]),
                    *_merged(y.shape[head + k :])])  # fmt: skip
    made = _checked(matmul(x, y), checks)
    shape = [
        *made.shape[:head],
        *(a.shape[left.index(n)] for n in rows),
        *(b.shape[right.index(n)] for n in columns),
    ]
    return reshape(made, shape), (*batch, *rows, *columns)


def _merged(extents: Sequence[Any]) -> list[Any]:
    total: Any = 1
    for n in extents:
        total = total * n
    return [total]


def _spread(array: Array, names: tuple[str, ...], order: Sequence[str]) -> Array:
    """The array with axes of extent 1 for the names that it lacks."""
    there = [n for n in order if n in names]
    made = transpose(array, [names.index(n) for n in there])
    for k, n in enumerate(order):
        if n not in names:
            made = expand_dims(made, k)
    return made
