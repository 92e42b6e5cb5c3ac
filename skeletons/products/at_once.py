"""One level of any bilinear algorithm as a program that reads every block of A and of B once.

One pass forms all sums of A's blocks, another all of B's.  Each product is then stored in a block
of C or in a buffer that is no longer needed, and one pass over the products forms the blocks of C.
If products can be added to C in place (`adds`), those that contribute to a single block of C come
last and are added, so that the last pass does not read them and they need no memory.

Passes over half-size blocks, Winograd's tables: 8 for A, 8 for B, 7 for C (11 if products are not
added); Strassen's: 9, 9, 9 (11).  In the order with two temporaries (`sequences`) these are 41 and
51 in total.
"""

from __future__ import annotations

from functools import lru_cache

from .primitives import Instance, Terms, instances
from .sequences import Addends, Product, Program, Sums
from .tables import BilinearAlgorithm


def block_names(letter: str, rows: int, cols: int) -> list[str]:
    """The names of a matrix's blocks, row by row.

    >>> block_names("A", 2, 2)
    ['A11', 'A12', 'A21', 'A22']
    """
    between = "." if max(rows, cols) > 9 else ""
    return [f"{letter}{i}{between}{j}" for i in range(1, rows + 1) for j in range(1, cols + 1)]


@lru_cache(maxsize=32)
def at_once(algorithm: BilinearAlgorithm, adds: bool) -> Program:
    """The level's steps; temporaries S1 … are sums of A, T1 … of B, M1 … products.

    >>> from .tables import WINOGRAD
    >>> [type(step).__name__ for step in at_once(WINOGRAD, True)]
    ['Product', 'Sums', 'Sums', 'Product', 'Product', 'Product', 'Sums', 'Product', 'Product', \
'Product']
    """
    made = instances(algorithm)
    left = _Operands("S", block_names("A", algorithm.m, algorithm.k), [i.a for i in made])
    right = _Operands("T", block_names("B", algorithm.k, algorithm.n), [i.b for i in made])
    blocks = block_names("C", algorithm.m, algorithm.n)
    # What product r adds to block p, for operands without their signs.
    reaches = [
        tuple((p, c * x * y) for p, c in i.c)
        for i, x, y in zip(made, left.factors, right.factors, strict=True)
    ]
    last = [r for r, to in enumerate(reaches) if adds and len(to) == 1]
    first = [r for r in range(len(made)) if r not in last]
    # Products with the most sums come first: later products without a block of C reuse their
    # buffers.  The very first, however, is one that needs the fewest: the other sums can be formed
    # while it runs.
    first.sort(key=lambda r: -_summed(made[r]))
    first[:0] = [first.pop()] if first else []
    homes = _at_home(first, reaches, blocks)
    first.sort(key=lambda r: r not in homes)
    sums = [side.sums for side in (left, right) if side.sums.made]
    needed = [side.sums for side in (left, right) if first and side.summed(first[0])]
    steps: list[Product | Sums] = list(needed)
    used = {name: r for r in (*first, *last) for name in (left.names[r], right.names[r])}
    for at, r in enumerate(first):
        if r not in homes:
            later = {*first[at:], *last}
            free = [name for name, by in used.items() if name[0] in "ST" and by not in later
                    and name not in homes.values()]  # fmt: skip
            homes[r] = free[0] if free else f"M{1 + at}"
        step = Product(left.names[r], right.names[r], homes[r])
        steps.append(step)
        if not at:
            steps += [s for s in sums if s not in needed]
    steps += [] if first else sums
    results = [
        (name, tuple((c, homes[r]) for r in first for q, c in reaches[r] if q == p))
        for p, name in enumerate(blocks)
    ]
    written = {name for name, addends in results if addends}
    results = [(name, addends) for name, addends in results if addends not in ((), ((1, name),))]
    if results:
        steps.append(Sums(tuple(results)))
    for r in last:
        ((p, c),) = reaches[r]
        name = blocks[p]
        old: Addends = ((1, name),) if name in written else ()
        written.add(name)
        steps.append(Product(left.names[r], right.names[r], name, c, old))
    return tuple(steps)


def passes_at_once(algorithm: BilinearAlgorithm, adds: bool) -> dict[str, int]:
    """How many blocks of A, of B and of C the sums of a level read or write.

    >>> from .tables import STRASSEN
    >>> passes_at_once(STRASSEN, True), passes_at_once(STRASSEN, False)
    ({'A': 9, 'B': 9, 'C': 9}, {'A': 9, 'B': 9, 'C': 11})
    """
    found = {"A": 0, "B": 0, "C": 0}
    for step in at_once(algorithm, adds):
        if isinstance(step, Sums):
            first = step.made[0][1][0][1][0]
            found[first if first in "AB" else "C"] += step.reads + step.writes
    return found


def _summed(instance: Instance) -> int:
    return (len(instance.a) > 1) + (len(instance.b) > 1)


def _at_home(first: list[int], reaches: list[Terms], blocks: list[str]) -> dict[int, str]:
    """Assign a block of C as storage to as many products as possible; a block that equals one
    product is assigned to that product."""
    homes: dict[int, str] = {}
    for p, name in enumerate(blocks):
        mine = [(r, c) for r in first for q, c in reaches[r] if q == p]
        if len(mine) == 1 and mine[0][1] == 1 and mine[0][0] not in homes:
            homes[mine[0][0]] = name
    left = [name for name in blocks if name not in homes.values()]
    for r in first:
        if r not in homes and left:
            homes[r] = left.pop(0)
    return homes


class _Operands:
    """One operand of all products: the block or sum that each reads, and its factor."""

    def __init__(self, letter: str, blocks: list[str], columns: list[Terms]) -> None:
        self.names: list[str] = []
        self.factors: list[float] = []
        made: dict[Terms, str] = {}
        for terms in columns:
            if len(terms) == 1:
                ((p, c),) = terms
                self.names.append(blocks[p])
                self.factors.append(c)
                continue
            sign = -1 if terms[0][1] < 0 else 1
            key = tuple((p, sign * c) for p, c in terms)
            self.names.append(made.setdefault(key, f"{letter}{1 + len(made)}"))
            self.factors.append(sign)
        self.sums = Sums(tuple(
            (name, tuple((c, blocks[p]) for p, c in terms)) for terms, name in made.items()
        ))  # fmt: skip

    def summed(self, r: int) -> bool:
        return any(self.names[r] == name for name, _ in self.sums.made)
