"""Orders and awkward shapes for hypothesis."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from hypothesis import strategies as st

from treadle.skeletons import schedules
from treadle.skeletons.schedules import Order, Table

MOST = 3000
AWKWARD = [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 23, 31, 32, 33, 61, 63, 64, 65, 127, 129]
LONG = [257, 509, 1021, 1024, 1025]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """1 to 5 axes of 1, primes, 2**k and its neighbours; flat, tall; sometimes empty."""
    rank = draw(st.integers(1, 5))
    extents: list[int] = []
    for _ in range(rank):
        room = MOST // math.prod(extents)
        pool = [n for n in AWKWARD + (LONG if rank <= 2 else []) if n <= max(room, 1)]
        extents.append(draw(st.sampled_from(pool)))
    if draw(st.integers(0, 24)) == 24:
        extents[draw(st.integers(0, rank - 1))] = 0
    return tuple(draw(st.permutations(extents)))


lengths = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 127, 1000, 2**31]))

#: The built-in orders whose parameters are lengths, and how many they have.
LENGTHS: dict[type[Order], int] = {
    cls: len(dataclasses.fields(cls)) - 1  # without `grain`
    for cls in (getattr(schedules, name) for name in schedules.__all__)
    if isinstance(cls, type) and issubclass(cls, Order)
    if cls not in (Order, schedules.PlaneOrder, Table)
}
PARAMETRIC: dict[str, st.SearchStrategy[Order]] = {
    cls.__name__: st.builds(cls, *[lengths] * count) for cls, count in LENGTHS.items()
}


def examples(length: int) -> list[Order]:
    """One of each of these orders, with lengths from `length` on.

    >>> examples(2)[:4]
    [Column(2), Hilbert(), Morton(), Row()]
    """
    return [cls(*range(length, length + count)) for cls, count in LENGTHS.items()]


def table_for(shape: tuple[int, ...], seed: int) -> Table:
    """A random permutation of the ids of a shape."""
    return Table(np.random.default_rng(seed).permutation(math.prod(shape)))
