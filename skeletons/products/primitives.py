"""The fused primitive: sums of blocks multiplied, the product added to blocks.

    M = (Σ δᵢ·A[i]) · (Σ εⱼ·B[j]);      C[p] += γₚ·M   for every p

Every product of a bilinear algorithm, of any number of levels, is an *instance* of it.  Instances
with the same numbers of terms form one *variant*: one specialised kernel.  (Huang, Yu, van de
Geijn 2020, equations 4, 5 and 7, figures 5, 6 and 7.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .tables import BilinearAlgorithm

Terms = tuple[tuple[int, float], ...]
"""(block, coefficient) pairs; blocks are numbered row-major, integer coefficients are int."""


@dataclass(frozen=True)
class Instance:
    """One product: its terms of A and B, and the blocks of C that it is added to.

    >>> print(Instance(((0, 1), (3, 1)), ((0, 1), (3, 1)), ((0, 1), (3, 1))))
    M = (A0 + A3)(B0 + B3); C0 += M; C3 += M
    """

    a: Terms
    b: Terms
    c: Terms

    @property
    def variant(self) -> tuple[int, int, int]:
        """The numbers of terms of A, of B, and of C."""
        return len(self.a), len(self.b), len(self.c)

    def __str__(self) -> str:
        updates = "; ".join(_update(p, w) for p, w in self.c)
        return f"M = ({_sum('A', self.a)})({_sum('B', self.b)}); {updates}"


def _update(block: int, w: float) -> str:
    scale = "" if abs(w) == 1 else f"{abs(w)}·"
    return f"C{block} {'+' if w > 0 else '-'}= {scale}M"


def _sum(name: str, terms: Terms) -> str:
    text = ""
    for k, (block, c) in enumerate(terms):
        sign = "-" if c < 0 else "+"
        scale = "" if abs(c) == 1 else f"{abs(c)}·"
        joint = (f" {sign} " if k else "") if k or c > 0 else "-"
        text += f"{joint}{scale}{name}{block}"
    return text


def _terms(column: Any) -> Terms:
    return tuple((k, int(c) if c == int(c) else float(c)) for k, c in enumerate(column) if c)


@lru_cache(maxsize=64)
def instances(algorithm: BilinearAlgorithm) -> tuple[Instance, ...]:
    """One per product, in the order of the tables.

    >>> from .tables import STRASSEN
    >>> print(instances(STRASSEN)[1])
    M = (A2 + A3)(B0); C2 += M; C3 -= M
    """
    return tuple(
        Instance(_terms(algorithm.u[:, r]), _terms(algorithm.v[:, r]), _terms(algorithm.w[:, r]))
        for r in range(algorithm.products)
    )


def variants(algorithm: BilinearAlgorithm) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """The indices of the instances of every variant.

    >>> from .tables import STRASSEN
    >>> {v: len(members) for v, members in variants(STRASSEN).items()}
    {(2, 2, 2): 1, (2, 1, 2): 2, (1, 2, 2): 2, (2, 2, 1): 2}
    """
    found: dict[tuple[int, int, int], tuple[int, ...]] = {}
    for r, instance in enumerate(instances(algorithm)):
        found[instance.variant] = (*found.get(instance.variant, ()), r)
    return found


Stage = tuple[tuple[int, ...], tuple[int, ...]]
"""Indices of the instances of two streams that never write the same block of C."""


#: With more products than this, a stage starts from the first pair that fits, not from the best.
SEARCHED = 64


@lru_cache(maxsize=32)
def stages(algorithm: BilinearAlgorithm) -> tuple[Stage, ...]:
    """Instances in stages of two streams, without races and without atomics.

    Inside a stage the streams write different blocks of C; between stages they synchronise.  Each
    stage starts from the pair of instances that admits most others (those that write only blocks
    that one of the streams writes already).

    >>> from .tables import STRASSEN
    >>> stages(STRASSEN)
    (((1, 5), (4, 6)), ((2,), (3,)), ((0,), ()))
    """
    made = instances(algorithm)
    writes = [frozenset(p for p, _ in i.c) for i in made]
    left = list(range(len(made)))
    found: list[Stage] = []
    while left:
        best = _largest(left, writes)
        found.append(best)
        left = [r for r in left if r not in best[0] and r not in best[1]]
    return tuple(found)


def _largest(left: Sequence[int], writes: Sequence[frozenset[int]]) -> Stage:
    best: Stage = ((left[0],), ())
    if len(left) > SEARCHED:
        first = left[0]
        second = next((r for r in left if not writes[r] & writes[first]), None)
        seeds = (first,) if second is None else (first, second)
        found = [tuple(r for r in left if writes[r] <= writes[seed]) for seed in seeds]
        return found[0], found[1] if len(found) > 1 else ()
    for k, first in enumerate(left):
        for second in left[k + 1 :]:
            if writes[first] & writes[second]:
                continue
            members = tuple(
                tuple(r for r in left if writes[r] <= writes[seed]) for seed in (first, second)
            )
            if sum(map(len, members)) > sum(map(len, best)):
                best = members[0], members[1]
    return best
