"""Histograms of points in several dimensions, and the edges of bins."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Sequence
from typing import cast

from ...annotations import ArrayLike
from ...array import Array
from ...errors import DTypeError, ShapeError
from ...frontend.sources import as_array
from ...graph import known
from ...scalar import Scalar
from ...types import float64, promote
from ..common import alike, combining, integer, operation, require_real
from ..elements import functions as fn
from ..elements.choosing import ignore
from ..indexing.making import full, zeros
from ..indexing.permuting import histogram, permute
from .differences import diff
from .reductions import sum as sum_
from .searching import searchsorted

__all__ = ["histogram2d", "histogram_bin_edges", "histogramdd"]

#: The lowest and the highest value that count.
Range = tuple[float, float]


@operation
def histogram_bin_edges(
    a: ArrayLike,
    bins: int | ArrayLike = 10,
    range: Range | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of the bins of `td.histogram`: one more than bins.  `weights` have no effect.

    Parameters
        bins: the number of bins (default 10), or the edges.

    Result: an array (bins + 1,), ascending.

    >>> td.histogram_bin_edges(np.array([0, 4]), bins=2)
    Array([0., 2., 4.])
    """
    return histogram(a, bins, range)[1]


@combining
def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike],
    bins: int | Sequence[int | ArrayLike] = 10,
    range: Sequence[Range | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, list[Array]]:
    """Counts (float64) of points in a grid of bins, and the edges along each axis.

    `sample`: an array with a row for each point, or a sequence of the coordinates of all points.
    `bins`: a number for all axes, or for each a number or an array of edges; `range`: for each axis
    the lowest and the highest value, or None (those of the sample).  A point at the last edge is in
    the last bin.  `weights`: added instead of 1; `density`: the integral is 1.

    Parameters
        sample: points: an array (n, d), or a sequence of d arrays.
        bins: the number of bins (default 10), or edges, for all axes or for each.

    Result: the counts, with an axis for each coordinate, and a list of the edges along each axis.

    >>> points = np.array([[0.0, 0.0], [0.9, 0.2], [1.0, 1.0]])
    >>> td.histogramdd(points, bins=2)[0]
    Array([[1., 0.],
           [1., 1.]])
    """
    columns = _columns(sample)
    rank = len(columns)
    each = list(bins) if isinstance(bins, tuple | list) else [bins] * rank
    counts = cast(list[int | ArrayLike], each)
    spans = [None] * rank if range is None else list(range)
    if len(counts) != rank or len(spans) != rank:
        raise ShapeError(
            f"histogramdd: {len(counts)} bins and {len(spans)} ranges for {rank} axes.",
            hint="Give one number of bins for all axes, or one for each.",
        )
    columns = [alike(column, columns[0], "histogramdd") for column in columns]
    for column in columns:
        require_real(column, "histogramdd")
    kinds = [column.types[0] for column in columns]
    kind = functools.reduce(lambda s, t: promote(s, False, t, False)[0], kinds)
    edges = [
        histogram_bin_edges(
            column.astype(kind if kind.is_float and span is None else float64), count, span
        )
        for column, count, span in zip(columns, counts, spans, strict=True)
    ]
    positions = [
        searchsorted(edge, column, side="right") - 1 - (column == edge[-1])
        for edge, column in zip(edges, columns, strict=True)
    ]
    shape = tuple(edge.shape[0] - 1 for edge in edges)

    def bin_of(k: Scalar) -> object:
        at = tuple(position[k] for position in positions)
        inside = fn.equal(0, 0)
        for index, extent in zip(at, shape, strict=True):
            inside = inside & (index >= 0) & (index < extent)
        return fn.where(inside, at, ignore)

    n = columns[0].shape[0]
    new = full(n, 1.0) if weights is None else as_array(weights, "histogramdd")
    if new.types[0].is_complex:
        raise DTypeError("histogramdd needs real weights.", hint="Take a part: td.real(w).")
    new = alike(new, columns[0], "histogramdd")
    found: Array = permute(fn.add, zeros(shape), bin_of, new.astype(float))
    if density:
        for axis, edge in enumerate(edges):
            widths = diff(edge)
            found = found / widths[(slice(None), *[None] * (rank - axis - 1))]
        found = found / sum_(permute(fn.add, zeros(shape), bin_of, new.astype(float)))
    return found, edges


def _columns(sample: ArrayLike | Sequence[ArrayLike]) -> list[Array]:
    if isinstance(sample, tuple | list):
        columns = [as_array(x, "histogramdd") for x in sample]
        if not columns or any(column.ndim != 1 for column in columns):
            raise ShapeError(
                f"histogramdd: coordinates have rank 1, got ranks {[c.ndim for c in columns]}.",
                hint="Flatten them: td.histogramdd((td.flatten(x), td.flatten(y))).",
            )
        return columns
    array = as_array(sample, "histogramdd")
    axes = known(array._shape[1]) if array.ndim == 2 else 1 if array.ndim == 1 else None
    if axes is None:
        raise ShapeError(
            "histogramdd takes an array with a row for each point, of a known number of axes.",
            hint="Give the coordinates: td.histogramdd((x, y, z)).",
        )
    return [array] if array.ndim == 1 else [array[:, k] for k in builtins.range(int(axes))]


@combining
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: int | Sequence[int | ArrayLike] = 10,
    range: Sequence[Range | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """`histogramdd` of points (x, y): the counts, and the edges along both axes.

    One array of edges is for both axes.

    Parameters
        bins: the number of bins (default 10), or edges, for both axes or for each.

    Result: three arrays: counts (float64, one axis for x and one for y), the edges along x, and
        along y.

    >>> td.histogram2d(np.array([0, 0, 1]), np.array([0, 1, 1]), bins=2)[0]
    Array([[1., 1.],
           [0., 1.]])
    """
    given = bins
    if integer(bins) is None and not (isinstance(bins, tuple | list) and len(bins) == 2):
        given = [bins, bins]  # type: ignore[list-item]
    counts, (first, second) = histogramdd((x, y), given, range, density, weights)
    return counts, first, second
