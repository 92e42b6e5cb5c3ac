"""Operations, memory transactions and volume of the programs of `sequences`, in closed form.

The machine is that of Li, Ranka, Sahni (2011), section III: sums move 128 bytes per transaction,
the additions of a product's kernel 64, elements have 4 bytes; the standard product of m×m matrices
takes 2m³ − m² operations, 17m³/4096 + m²/16 transactions and 9m³/32 + 4m² bytes (their kernel
GPU8).  This reproduces their figures 3, 6, 9–14.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .primitives import instances
from .sequences import (
    STRASSEN_FUSED,
    STRASSEN_OUTER,
    WINOGRAD_FUSED,
    WINOGRAD_OUTER,
    Product,
    Program,
    Sums,
    kinds,
)
from .tables import BilinearAlgorithm

RECURSIVE: dict[str, Program] = {"strassen": STRASSEN_OUTER, "winograd": WINOGRAD_OUTER}
"""The program of a level whose products recur; others sum A, sum B and multiply, one by one."""

PROGRAMS: dict[str, tuple[Program, Program]] = {
    "strassen": (STRASSEN_FUSED, STRASSEN_OUTER),
    "winograd": (WINOGRAD_FUSED, WINOGRAD_OUTER),
}


@dataclass(frozen=True)
class Polynomial:
    """cubic·n³ + square·n².

    >>> print(Polynomial(Fraction(7, 4), Fraction(11, 4)))
    7n³/4 + 11n²/4
    """

    cubic: Fraction
    square: Fraction

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial(self.cubic + other.cubic, self.square + other.square)

    def __mul__(self, factor: int | Fraction) -> Polynomial:
        return Polynomial(self.cubic * factor, self.square * factor)

    def of_half(self) -> Polynomial:
        """The same count for matrices of half the extent, as a function of n."""
        return Polynomial(self.cubic / 8, self.square / 4)

    def __call__(self, n: int) -> Fraction:
        return self.cubic * n**3 + self.square * n**2

    def __str__(self) -> str:
        def term(c: Fraction, power: str) -> str:
            top = "" if abs(c.numerator) == 1 else str(abs(c.numerator))
            bottom = "" if c.denominator == 1 else f"/{c.denominator}"
            return f"{top}{power}{bottom}"

        sign = "-" if self.square < 0 else "+"
        return f"{term(self.cubic, 'n³')} {sign} {term(self.square, 'n²')}"


@dataclass(frozen=True)
class Counts:
    """Arithmetic operations, memory transactions, bytes moved."""

    operations: Polynomial
    transactions: Polynomial
    volume: Polynomial

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.operations + other.operations,
            self.transactions + other.transactions,
            self.volume + other.volume,
        )

    def __mul__(self, factor: int) -> Counts:
        return Counts(self.operations * factor, self.transactions * factor, self.volume * factor)

    def of_half(self) -> Counts:
        return Counts(self.operations.of_half(), self.transactions.of_half(), self.volume.of_half())

    def saved(self, n: int) -> tuple[float, float, float]:
        """Savings over the standard product of n×n matrices, in per cent."""
        pairs = (
            (self.operations, STANDARD_COUNTS.operations),
            (self.transactions, STANDARD_COUNTS.transactions),
            (self.volume, STANDARD_COUNTS.volume),
        )
        found = [float(100 * (1 - mine(n) / theirs(n))) for mine, theirs in pairs]
        return found[0], found[1], found[2]


def _square(operations: int, passes: int, per_transaction: int) -> Counts:
    """The counts of additions, and of passes over complete blocks."""
    zero = Fraction(0)
    return Counts(
        Polynomial(zero, Fraction(operations)),
        Polynomial(zero, Fraction(passes, per_transaction)),
        Polynomial(zero, Fraction(4 * passes)),
    )


STANDARD_COUNTS = Counts(
    Polynomial(Fraction(2), Fraction(-1)),
    Polynomial(Fraction(17, 4096), Fraction(1, 16)),
    Polynomial(Fraction(9, 32), Fraction(4)),
)
"""One product by the standard algorithm, its result written once."""


def of_step(step: Sums | Product, product: Counts = STANDARD_COUNTS) -> Counts:
    """The counts of one kernel on m×m blocks (figure 3)."""
    if isinstance(step, Sums):
        return _square(step.additions, step.reads + step.writes, 32)
    return product + _square(step.additions, step.reads + step.writes - 1, 16)


def of_program(program: Program, product: Counts = STANDARD_COUNTS) -> Counts:
    """The counts of a program on n×n matrices whose products cost `product`."""
    total = of_step(program[0], product)
    for step in program[1:]:
        total = total + of_step(step, product)
    return total.of_half()


def of_levels(name: str, levels: int) -> Counts:
    """The counts of `levels` levels of "strassen" or "winograd" on n×n matrices (figures 6, 9–11).

    The innermost level updates C while it stores its products; outer levels add in memory.

    >>> print(of_levels("strassen", 1).operations, "|", of_levels("winograd", 2).volume)
    7n³/4 + 11n²/4 | 441n³/2048 + 451n²/4
    """
    if levels == 0:
        return STANDARD_COUNTS
    fused, outer = PROGRAMS[name]
    found = of_program(fused)
    for _ in range(levels - 1):
        found = of_program(outer, found)
    return found


# --- by kind of block -----------------------------------------------------------------------------


def passes(algorithm: BilinearAlgorithm) -> dict[str, int]:
    """How often the sums of one level read or write a block of A, of B and of C (by shape), as
    `executions` runs it.

    >>> from .tables import STRASSEN, WINOGRAD
    >>> sum(passes(STRASSEN).values()), sum(passes(WINOGRAD).values())
    (51, 41)
    """
    found = {"A": 0, "B": 0, "C": 0}
    program = RECURSIVE.get(algorithm.name)
    if program is None:
        seen: set[int] = set()
        for i in instances(algorithm):
            a, b, _ = i.variant
            found["A"] += (a + 1) * (i.a != ((i.a[0][0], 1),))
            found["B"] += (b + 1) * (i.b != ((i.b[0][0], 1),))
            found["C"] += 1 + sum(1 + (p in seen) for p, _ in i.c)
            seen |= {p for p, _ in i.c}
        return found
    now = {name: min(of) for name, of in kinds(program).items()}
    for step in program:
        if not isinstance(step, Sums):
            now |= {target: "C" for target, *_ in step.stores if target in now}
            continue
        name = (*step.shared, *step.made[0][1])[0][1]
        kind = now.get(name, name[0])
        found[kind] += step.reads + step.writes
        now |= {target: kind for target, _ in step.made if target in now}
    return found
