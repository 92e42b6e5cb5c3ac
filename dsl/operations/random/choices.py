"""Permutations and choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import late_binding as later, simplify
from ...annotations import ArrayLike, ShapeLike
from ...array import Array, generated
from ...errors import ShapeError
from ...expr import Expr, Index
from ...frontend.sources import as_array
from ...frontend.tracing import enclosing_kernel, forbid_nesting
from ...scalar import Scalar, as_count
from ...shapes import as_shape, require, show_shape
from ...types import float64, int64, uint64
from ..common import normalise_axis, operation
from ..control import while_loop
from ..elements.functions import cast, where
from ..indexing import index_space
from ..reducing import irregular, scans
from .distributions import exponential
from .philox import KeyLike, ScalarKey, drawn_word, is_array, random_values
from .uniforms import bits, integers, unit_fraction


def _shuffled(key: KeyLike, n: Expr, name: str) -> Array:
    """The numbers below n in random order: where sorting random numbers of 64 bits moves them."""
    forbid_nesting(f"random.{name}")
    return irregular.argsort(bits(key, (Scalar(n),), uint64))


@operation
def permutation(key: KeyLike, x: ArrayLike, axis: int = 0) -> Array:
    """The numbers 0 … x − 1 of an integer in random order, int64; of an array, its slices along an
    axis in random order.  The same on every backend.

    Parameters
        x: an integer, known at trace time or not, or an array.
        axis: of an array: which slices move.

    Result: an int64 array (x,) for an integer; for an array, one of its shape and type.

    >>> td.run(td.random.permutation(td.random.key(0), 5))
    array([4, 0, 3, 1, 2])
    """
    forbid_nesting("random.permutation")
    if not is_array(x):
        return _shuffled(key, as_count(x, "random.permutation"), "permutation")
    return shuffle(key, x, axis)


@operation
def shuffle(key: KeyLike, x: ArrayLike, axis: int = 0) -> Array:
    """The slices of an array along an axis in random order (a new array: `x` stays as it is).

    Parameters
        x: an array, of at least one axis.
        axis: which slices move.

    >>> td.run(td.random.shuffle(td.random.key(0), np.array([10, 20, 30, 40, 50])))
    array([50, 10, 40, 20, 30])

    See also `permutation`, which gives indices.
    """
    forbid_nesting("random.shuffle")
    array = as_array(x, "random.shuffle")
    k = normalise_axis(axis, array.ndim, "random.shuffle")
    return index_space.take(array, _shuffled(key, array._shape[k], "shuffle"), k)


@operation
def choice(
    key: KeyLike, a: ArrayLike, shape: ShapeLike = (), replace: bool = True,
    p: ArrayLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    """Elements chosen at random: of 0 … a − 1 for an integer `a`, else slices of an array along an
    axis, of which the result has `shape` in that place.

    Parameters
        a: an integer, known at trace time or not, or an array.
        shape: the extents; () for one element.
        replace: whether an element may be chosen again.
        p: a probability for each element (their sum need not be 1); without: all are equal.
        axis: of an array.

    With `p` and `replace`, the element is the first whose cumulative probability exceeds a uniform
    number.  With `p` but not `replace`, elements come in the order of exponential waiting times of
    rates p, which is choosing one after the other; those of probability 0 come last.  More choices
    than elements, without `replace`: `ShapeError`.

    Result: an array in the type of `a` (int64 for an integer).

    >>> td.run(td.random.choice(td.random.key(0), np.array([2, 3, 5, 7]), 6))
    array([3, 5, 7, 5, 2, 2])
    """
    if enclosing_kernel() is not None and not is_array(a) and p is None and replace:
        return integers(key, shape, 0, a)
    forbid_nesting("random.choice")
    array = as_array(a, "random.choice") if is_array(a) else None
    k = 0 if array is None else normalise_axis(axis, array.ndim, "random.choice")
    n = as_count(a, "random.choice") if array is None else array._shape[k]
    extents, _ = as_shape(shape, "random.choice")
    weights = None if p is None else _weights(p, n)
    if replace:
        chosen = (
            integers(key, shape, 0, Scalar(n))
            if weights is None
            else _weighted(key, shape, weights)
        )
    else:
        order = _shuffled(key, n, "choice") if weights is None else _heaviest(key, weights)
        chosen = _leading(order, n, extents)
    if array is None:
        return chosen
    flat = index_space.flatten(chosen)
    taken = index_space.take(array, flat, k)
    target = (*taken._shape[:k], *extents, *taken._shape[k + 1 :])
    return index_space.reshape(taken, tuple(Scalar(e) for e in target))


def _weights(p: ArrayLike, n: Expr) -> Array:
    array = as_array(p, "random.choice")
    if array.ndim != 1 or not array.structure.is_leaf or array.types[0].is_complex:
        raise ShapeError(
            f"random.choice: p is a vector of real numbers, got {show_shape(array._shape)} of "
            f"{array.structure.describe(array.types)}.",
            hint="One probability for each element.",
        )
    checks = require(
        array._shape[0], n, "random.choice: {left} probabilities for {right} elements.",
        hint="One probability for each element.",
    )  # fmt: skip
    element = simplify.cast(array._element((Index(0),))[0], float64)
    return generated(array._shape, (element,), "random.choice", checks)


def _weighted(key: KeyLike, shape: ShapeLike, weights: Array) -> Array:
    """Indices drawn independently, with probabilities in proportion to weights."""
    sums = scans.cumsum(weights)
    n = sums.shape[0]

    def draw(key: ScalarKey, i: Scalar) -> Scalar:
        u = unit_fraction(drawn_word(key, i, 64), float64) * sums[n - 1]

        def half(span: tuple[Any, Any]) -> tuple[Any, Any]:
            low, high = span
            middle = (low + high) // 2
            beyond = sums[middle] > u
            return where(beyond, low, middle + 1), where(beyond, middle, high)

        return while_loop(lambda s: s[0] < s[1], half, (int64(0), cast(n - 1, int64)))[0]

    return random_values("choice", key, shape, draw)


def _heaviest(key: KeyLike, weights: Array) -> Array:
    """Indices in the order of their draws without replacement, by exponential clocks."""
    waiting = exponential(key, weights.shape) / weights
    return irregular.argsort(waiting)


def _leading(order: Array, n: Expr, extents: Sequence[Expr]) -> Array:
    """The first elements of an order, in a shape."""
    count = later.product_of(extents)
    checks = require(
        n, count, "random.choice: {right} of {left} elements, without replacement.",
        hint="replace=True may choose an element again.", relation=">=",
    )  # fmt: skip
    first = generated((count,), (order._element((Index(0),))[0],), "random.choice", checks)
    return index_space.reshape(first, tuple(Scalar(e) for e in extents))
