"""Sorting by NumPy: the `Library` operations `sort`, `argsort`, `partition` and `argpartition`.

NumPy's unstable sort of numbers uses vectors, on some processors; its stable `argsort` does not,
and takes ten times as long.  Only integers of 8 and 16 bits are counted, digit by digit, and in
`argsort` those that are as close together become such.  Other keys become integers of the same
order, and are sorted together with their indices, as one number each.  Keys that are too far apart
for that are replaced by their ranks first.  NumPy's selection of one position uses vectors, too;
that of several at once does not, and is one after the other here.

An array in parts is sorted by samples: parts are sorted by themselves (*runs*); `sort_boundaries`
finds elements near those that begin the parts of the result, in a few samples of every run;
`sort_ranks` counts what comes before them in each run, and `sort_windows` says from which
elements of the runs each part of the result is sorted.  Equal elements come in the order of runs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..types import bfloat16
from .base import LibraryOperation, builtin, register

Values = np.ndarray[Any, Any]

#: So few keys are quicker to sort than to prepare.
FEW = 512
#: So few elements are sorted where they could be partitioned.
SORTED = 1024
#: For more positions than that, sorting takes no longer.
MANY = 12
#: Rows of at least so many bytes are counted by NumPy's stable sort, which takes a table for each.
BYTES = 128


def _ordered(x: Values) -> Values:
    """The array in a type that orders NaN correctly: float32 for bfloat16, which does not."""
    return x.astype(np.float32) if x.dtype == bfloat16.numpy else x


def _narrow(x: Values, axis: int) -> Values | None:
    """Integers that differ by less than 2¹⁶ as distances from the smallest, which NumPy's stable
    `argsort` counts, digit by digit; None for others, and for few along the axis."""
    if x.dtype.kind not in "iu" or x.itemsize == 1 or x.shape[axis] < FEW or not x.size:
        return None
    low, high = x.min(), x.max()
    return (x - low).astype(np.uint16) if int(high) - int(low) < 1 << 16 else None


def sort(x: Values, axis: int) -> Values:
    """As NumPy's, which is not stable: among 0.0 and −0.0, either may be any."""
    least = {1: BYTES, 2: FEW}.get(x.itemsize, x.shape[axis] + 1)
    if x.dtype.kind in "biu" and x.shape[axis] >= least:
        return np.sort(x, axis=axis, kind="stable")
    return np.sort(_ordered(x), axis=axis).astype(x.dtype, copy=False)


def partition(x: Values, at: Values, axis: int) -> Values:
    """The elements along an axis in an order in which those at some positions are where sorting
    puts them, with none before them that is larger and none after them that is smaller."""
    few = x.itemsize == 1 or x.size <= SORTED
    if few or (len(at) > MANY and len(np.unique(at)) > MANY):
        return sort(x, axis)
    made = np.array(_ordered(x))
    if len(at) == 1:
        made.partition(int(at[0]), axis)
    else:
        _place(np.moveaxis(made, axis, -1), np.unique(at))
    return made.astype(x.dtype, copy=False)


def argpartition(x: Values, at: Values, axis: int) -> Values:
    """The indices of the elements in the order of a partition."""
    if x.itemsize == 1 or not x.size or len(at) > MANY:
        return argsort(x, axis)
    return np.argpartition(_ordered(x), int(at[0]) if len(at) == 1 else np.unique(at), axis)


def _place(rows: Values, places: Values) -> None:
    """Partition rows at ascending positions."""
    if len(places):
        middle = len(places) // 2
        k = places[middle]
        if k == rows.shape[-1] - 1 and rows.dtype.kind != "c":  # such as the one before another
            largest = np.expand_dims(rows.argmax(axis=-1), -1)
            last = rows[..., k:].copy()
            rows[..., k:] = np.take_along_axis(rows, largest, -1)
            np.put_along_axis(rows, largest, last, -1)
        else:
            rows.partition(k, axis=-1)
        _place(rows[..., :k], places[:middle])
        _place(rows[..., k + 1 :], places[middle + 1 :] - (k + 1))


def argsort(x: Values, axis: int) -> Values:
    """As NumPy's with `kind="stable"`."""
    x = _ordered(x)
    if (narrow := _narrow(x, axis)) is not None:
        x = narrow
    small = x.dtype.kind in "biu" and x.dtype.itemsize <= 2  # a radix sort
    if small or x.dtype.kind == "c" or x.shape[axis] < FEW or not x.size:
        return np.argsort(x, axis=axis, kind="stable")
    order = _along_last(x if x.ndim == 1 else np.moveaxis(x, axis, -1))
    return order if x.ndim == 1 else np.moveaxis(order, -1, axis)


def _along_last(x: Values) -> Values:
    n = x.shape[-1]
    bits = n.bit_length()
    if x.dtype == np.float64:  # too far apart
        order, differs = _unstable(x)
        if differs is None:
            order, differs = _unstable(_integers(x))
    else:
        keys = _integers(x)
        low, high = int(keys.min()), int(keys.max())
        if (high - low + 1) << bits < 2**63:
            keyed = (keys - keys.dtype.type(low)).astype(np.int64, copy=False) << bits
            keyed |= np.arange(n)
            return _indices(keyed, bits)
        order, differs = _unstable(keys)
    assert differs is not None
    if differs.all():
        return order
    order[..., 1:] += np.cumsum(differs, axis=-1) << bits
    return _indices(order, bits)


def _unstable(keys: Values) -> tuple[Values, Values | None]:
    """An order of the keys, and which of them differ from those before; None if some are NaN."""
    order = np.argsort(keys, axis=-1)
    ordered = keys[order] if keys.ndim == 1 else np.take_along_axis(keys, order, -1)
    if np.isnan(ordered[..., -1]).any():
        return order, None
    return order, ordered[..., 1:] != ordered[..., :-1]


def _indices(keyed: Values, bits: int) -> Values:
    """Indices of so many bits, in the order of the keys above them."""
    keyed.sort(axis=-1)
    keyed &= (1 << bits) - 1
    return keyed


def _integers(x: Values) -> Values:
    """Integers of the order of `x`: equal for equal keys, the largest for all NaN."""
    if x.dtype.kind != "f":
        return x.astype(np.uint64 if x.dtype.kind == "u" else np.int64, copy=False)
    x = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    bits = np.where(np.isnan(x), x.dtype.type(np.nan), x + x.dtype.type(0)).view(f"i{x.itemsize}")
    negative = bits >> (8 * x.itemsize - 1)
    made: Values = (bits ^ (negative & np.iinfo(bits.dtype).max)).astype(np.int64)
    return made


def boundaries(step: int, samples: Values, lengths: Values, ranks: Values) -> tuple[Values, Values]:
    """Elements of runs that are not after, and then elements that are not before, those at `ranks`
    of all: their keys, and for each its run and its position in it.

    `samples`: the elements 0, `step`, 2·`step` … of runs of the given `lengths`, run by run.  A
    position of −1: all elements are before it.
    """
    counts = -(-lengths // step)
    run = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.argsort(_ordered(samples), kind="stable")
    run, number = run[order], number[order]
    # How many elements are before each sample, at least and at most: of a run of which q samples
    # are before it, more than step·(q − 1), and no more than step·q or all.
    position = number * step
    most = np.minimum(position + step, lengths[run]) - position
    least = np.where(number == 0, 1, step)
    most, least = np.cumsum(most) - most, np.cumsum(least) - least
    below = np.searchsorted(most, ranks, "right") - 1
    above = np.searchsorted(least, ranks, "left")
    chosen = np.concatenate([below, np.minimum(above, len(run) - 1)])
    positions = position[chosen]
    positions[len(ranks) :][above == len(run)] = -1
    keys = samples[order[chosen]]
    return keys, np.stack([run[chosen], positions], axis=1)


def keyed(run: Values, number: Values, keys: Values, at: Values) -> Values:
    """How many elements of a sorted run are before the given elements of runs (see `boundaries`);
    its own `number` is that of the run."""
    of, position = at[:, 0], at[:, 1]
    ordered, keys = _ordered(run), _ordered(keys)
    first, last = (np.searchsorted(ordered, keys, side) for side in ("left", "right"))
    own = int(number[0])
    found = np.where(of < own, first, np.where(of > own, last, position))
    return np.where(position < 0, len(run), found)[:, None]


def windows(before: Values, starts: Values, ranks: Values) -> tuple[Values, Values]:
    """For each part of the result (between two `ranks`) and each run, the indices of the elements
    that it is made of, and how many of these come before it.

    `starts`: of the runs; `before`: the ranks of the boundaries in each run.
    """
    low, high = before[: len(ranks) - 1], before[len(ranks) + 1 :]
    return np.stack([low, high], axis=2) + starts[:, None], ranks[:-1] - low.sum(axis=1)


register("sort", lambda axis: lambda x: sort(x, axis), along=lambda by, rank: by)
register("argsort", lambda axis: lambda x: argsort(x, axis), along=lambda by, rank: by)
register("partition", lambda axis: partial(partition, axis=axis), along=lambda by, rank: by)
register("argpartition", lambda axis: partial(argpartition, axis=axis), along=lambda by, rank: by)


register("sort_boundaries", lambda step: partial(boundaries, step))
register("sort_ranks", lambda: keyed)
register("sort_windows", lambda: windows)


def sorting(name: str, axis: int) -> LibraryOperation:
    """The operation `sort` or `argsort` along an axis; `partition` and `argpartition` also take
    positions, which count from 0."""
    return builtin(name, (axis,))


def sorted_axis(operation: LibraryOperation) -> int | None:
    """The axis along which an operation sorts; None for others than `sort` and `argsort`."""
    return operation.parameters[0] if operation.name in ("sort", "argsort") else None
