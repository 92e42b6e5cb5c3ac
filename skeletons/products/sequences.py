"""Strassen and Winograd as straight-line programs over quadrants: sums in memory, two temporaries.

A step forms its targets from sums of blocks, or stores a product of two blocks:

    Sums(((target, ((c, block), …)), …), shared)     several sums at once, each operand read once
    Product(w, x, target, sign, addends)             target = sign · w·x + addends

`addends` are (coefficient, block) pairs; an update has the target among them.  Block names:
A11 … B22 inputs, C11 … C22 outputs, T1, T2 temporaries.  `executions` runs programs on arrays,
`passes` counts what they move.  The order is that of Li, Ranka, Sahni (2011), figures 8 and 15:
products are separate, because they recur, and their additions are Sums.
"""

from __future__ import annotations

from treadle.dsl.records import dataclass

from .primitives import instances
from .tables import STRASSEN, WINOGRAD, BilinearAlgorithm

Addends = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Sums:
    """Sums formed in one pass: every block is read once, every target written once.

    `shared`: terms common to all sums, which are added only once.
    """

    made: tuple[tuple[str, Addends], ...]
    shared: Addends = ()

    @property
    def reads(self) -> int:
        return len({name for _, addends in (*self.made, ("", self.shared)) for _, name in addends})

    @property
    def writes(self) -> int:
        return len(self.made)


@dataclass(frozen=True)
class Product:
    """target = sign · w·x + addends."""

    w: str
    x: str
    target: str
    sign: float = 1
    addends: Addends = ()


Step = Sums | Product
Program = tuple[Step, ...]


def _sum(target: str, *addends: tuple[int, str]) -> Sums:
    return Sums(((target, addends),))


def _add(x: str, y: str, target: str) -> Sums:
    return _sum(target, (1, x), (1, y))


def _sub(x: str, y: str, target: str) -> Sums:
    return _sum(target, (1, x), (-1, y))


STRASSEN_STEPS: Program = (
    _sub("A21", "A11", "T1"),
    _add("B11", "B12", "T2"),
    Product("T1", "T2", "C22"),
    _sub("A12", "A22", "T1"),
    _add("B21", "B22", "T2"),
    Product("T1", "T2", "C11"),
    _add("A11", "A22", "T1"),
    _add("B11", "B22", "T2"),
    Product("T1", "T2", "C12"),
    Sums((("C11", ((1, "C11"), (1, "C12"))), ("C22", ((1, "C22"), (1, "C12"))))),
    _add("A21", "A22", "T1"),
    Product("T1", "B11", "C21"),
    _sub("C22", "C21", "C22"),
    _sub("B21", "B11", "T2"),
    Product("A22", "T2", "C12"),
    Sums((("C11", ((1, "C11"), (1, "C12"))), ("C21", ((1, "C21"), (1, "C12"))))),
    _sub("B12", "B22", "T2"),
    Product("A11", "T2", "C12"),
    _add("C22", "C12", "C22"),
    _add("A11", "A12", "T1"),
    Product("T1", "B22", "T2"),
    Sums((("C11", ((1, "C11"), (-1, "T2"))), ("C12", ((1, "C12"), (1, "T2"))))),
)
"""A level of Strassen.

The paper's steps, reordered so that sums of operands are in temporaries and never in C: then blocks
need not be square (T1 has A's shape, T2 B's and once C's).
"""

WINOGRAD_STEPS: Program = (
    _sub("A11", "A21", "T1"),
    _sub("B22", "B12", "T2"),
    Product("T1", "T2", "C21"),
    _add("A21", "A22", "T1"),
    _sub("B12", "B11", "T2"),
    Product("T1", "T2", "C22"),
    _sub("T1", "A11", "T1"),
    _sub("B22", "T2", "T2"),
    Product("T1", "T2", "C11"),
    _sub("A12", "T1", "T1"),
    Product("T1", "B22", "C12"),
    _add("C12", "C22", "C12"),
    Product("A11", "B11", "T1"),
    Sums((("C12", ((1, "C12"),)), ("C11", ((1, "C21"),))), shared=((1, "C11"), (1, "T1"))),
    _sub("T2", "B21", "T2"),
    Product("A22", "T2", "C21"),
    Sums((("C21", ((1, "C11"), (-1, "C21"))), ("C22", ((1, "C11"), (1, "C22"))))),
    Product("A12", "B21", "C11"),
    _add("C11", "T1", "C11"),
)  # fmt: skip
"""A level of Winograd."""


RECURSIVE: dict[BilinearAlgorithm, Program] = {STRASSEN: STRASSEN_STEPS, WINOGRAD: WINOGRAD_STEPS}
"""The program of a level whose products recur; others sum A, sum B and multiply, one by one."""


def kinds(program: Program) -> dict[str, set[str]]:
    """The shapes of every temporary: "A" (m, k), "B" (k, n), "C" (m, n) of a block.

    >>> {name: sorted(found) for name, found in kinds(WINOGRAD_STEPS).items()}
    {'T1': ['A', 'C'], 'T2': ['B']}
    """
    now: dict[str, str] = {}
    found: dict[str, set[str]] = {}

    def kind(name: str) -> str:
        return now.get(name, name[0])

    def made(name: str, what: str) -> None:
        if name[0] not in "ABC":
            now[name] = what
            found.setdefault(name, set()).add(what)

    for step in program:
        if isinstance(step, Sums):
            for target, addends in step.made:
                made(target, kind((*step.shared, *addends)[0][1]))
        else:
            made(step.target, "C")
    return found


def passes(algorithm: BilinearAlgorithm) -> dict[str, int]:
    """How often the sums of one level read or write a block of A, of B and of C (by shape), as
    `executions` runs them.

    >>> sum(passes(STRASSEN).values()), sum(passes(WINOGRAD).values())
    (51, 41)
    """
    found = {"A": 0, "B": 0, "C": 0}
    program = RECURSIVE.get(algorithm)
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
            now |= {step.target: "C"} if step.target in now else {}
            continue
        name = (*step.shared, *step.made[0][1])[0][1]
        kind = now.get(name, name[0])
        found[kind] += step.reads + step.writes
        now |= {target: kind for target, _ in step.made if target in now}
    return found
