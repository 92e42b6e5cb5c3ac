"""Strassen and Winograd as straight-line programs over quadrants: sums in memory, two temporaries.

A step forms its targets from sums of blocks, or adds a product of two blocks to them:

    Sums(((target, ((c, block), …)), …), shared)     several sums at once, each operand read once
    Product(w, x, ((target, sign, addends), …))      M = w·x;  target = sign·M + addends

`addends` are (coefficient, block) pairs, here of ±1; an update has the target among them.  Block
names: A11 … B22 inputs, C11 … C22 outputs, T1, T2 temporaries; `M`, the product, is not stored by
itself.  `executions` runs programs on arrays, `counts` counts what they move.  The order and the
kernels are those of Li, Ranka, Sahni (2011), figures 4 and 5; at an inner node of the recursion
(figures 8 and 15) products are separate, and their additions are Sums.
"""

from __future__ import annotations

from dataclasses import dataclass

Addends = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Sums:
    """Sums formed in one pass: every block is read once, every target written once.

    `shared` is a part of all sums, and is computed once.
    """

    made: tuple[tuple[str, Addends], ...]
    shared: Addends = ()

    @property
    def reads(self) -> int:
        return len({name for _, addends in (*self.made, ("", self.shared)) for _, name in addends})

    @property
    def writes(self) -> int:
        return len(self.made)

    @property
    def additions(self) -> int:
        if self.shared:
            return len(self.shared) - 1 + sum(len(addends) for _, addends in self.made)
        return sum(len(addends) - 1 for _, addends in self.made)


@dataclass(frozen=True)
class Product:
    """M = w·x, and its targets in order, each of which can use those before.

    `stores`: (target, sign of M, addends, whether it is written to memory or stays in a register
    for a later target).
    """

    w: str
    x: str
    stores: tuple[tuple[str, float, Addends, bool], ...]

    @property
    def reads(self) -> int:
        """The number of blocks read for the additions."""
        made: set[str] = set()
        read: set[str] = set()
        for target, _, addends, _written in self.stores:
            read |= {name for _, name in addends if name not in made}
            made.add(target)
        return len(read)

    @property
    def writes(self) -> int:
        return sum(written for *_, written in self.stores)

    @property
    def additions(self) -> int:
        total = 0
        for _, sign, addends, _written in self.stores:
            total += len(addends) - (0 if sign else 1)
        return total


Step = Sums | Product
Program = tuple[Step, ...]


def _sum(target: str, *addends: tuple[int, str]) -> Sums:
    return Sums(((target, addends),))


def _add(x: str, y: str, target: str) -> Sums:
    return _sum(target, (1, x), (1, y))


def _sub(x: str, y: str, target: str) -> Sums:
    return _sum(target, (1, x), (-1, y))


def _mul(w: str, x: str, target: str) -> Product:
    return Product(w, x, ((target, 1, (), True),))


def _inc(w: str, x: str, *updates: tuple[str, int]) -> Product:
    """Every target += sign·M."""
    return Product(w, x, tuple((t, s, ((1, t),), True) for t, s in updates))


def _store_inc(w: str, x: str, target: str, update: str, sign: int) -> Product:
    """target = M, and update += sign·M."""
    return Product(w, x, ((target, 1, (), True), (update, sign, ((1, update),), True)))


STRASSEN_FUSED: Program = (
    _sub("A21", "A11", "C12"),
    _add("B11", "B12", "C21"),
    _mul("C12", "C21", "C22"),
    _sub("A12", "A22", "C12"),
    _add("B21", "B22", "C21"),
    _mul("C12", "C21", "C11"),
    _add("A11", "A22", "C12"),
    _add("B11", "B22", "C21"),
    _inc("C12", "C21", ("C11", 1), ("C22", 1)),
    _add("A21", "A22", "T2"),
    _store_inc("T2", "B11", "C21", "C22", -1),
    _sub("B21", "B11", "T1"),
    _inc("A22", "T1", ("C21", 1), ("C11", 1)),
    _sub("B12", "B22", "T1"),
    _store_inc("A11", "T1", "C12", "C22", 1),
    _add("A11", "A12", "T2"),
    _inc("T2", "B22", ("C12", 1), ("C11", -1)),
)
"""One level of Strassen: 10 sums and 7 products that update C as they are stored."""

WINOGRAD_FUSED: Program = (
    _sub("A11", "A21", "T1"),
    _sub("B22", "B12", "T2"),
    _mul("T1", "T2", "C21"),
    _add("A21", "A22", "T1"),
    _sub("B12", "B11", "T2"),
    _mul("T1", "T2", "C22"),
    _sub("T1", "A11", "T1"),
    _sub("B22", "T2", "T2"),
    _mul("T1", "T2", "C11"),
    _sub("A12", "T1", "T1"),
    Product("T1", "B22", (("C12", 1, ((1, "C22"),), True),)),
    # T1 = M; C11 += M (in a register); C12 += C11; C11 += C21
    Product("A11", "B11", (
        ("T1", 1, (), True),
        ("M+", 1, ((1, "C11"),), False),
        ("C12", 0, ((1, "M+"), (1, "C12")), True),
        ("C11", 0, ((1, "M+"), (1, "C21")), True),
    )),
    _sub("T2", "B21", "T2"),
    Product("A22", "T2", (
        ("C21", -1, ((1, "C11"),), True),
        ("C22", 0, ((1, "C22"), (1, "C11")), True),
    )),
    Product("A12", "B21", (("C11", 1, ((1, "T1"),), True),)),
)  # fmt: skip
"""One level of Winograd: 8 sums and 7 products that update C as they are stored."""

STRASSEN_OUTER: Program = (
    _sub("A21", "A11", "T1"),
    _add("B11", "B12", "T2"),
    _mul("T1", "T2", "C22"),
    _sub("A12", "A22", "T1"),
    _add("B21", "B22", "T2"),
    _mul("T1", "T2", "C11"),
    _add("A11", "A22", "T1"),
    _add("B11", "B22", "T2"),
    _mul("T1", "T2", "C12"),
    Sums((("C11", ((1, "C11"), (1, "C12"))), ("C22", ((1, "C22"), (1, "C12"))))),
    _add("A21", "A22", "T1"),
    _mul("T1", "B11", "C21"),
    _sub("C22", "C21", "C22"),
    _sub("B21", "B11", "T2"),
    _mul("A22", "T2", "C12"),
    Sums((("C11", ((1, "C11"), (1, "C12"))), ("C21", ((1, "C21"), (1, "C12"))))),
    _sub("B12", "B22", "T2"),
    _mul("A11", "T2", "C12"),
    _add("C22", "C12", "C22"),
    _add("A11", "A12", "T1"),
    _mul("T1", "B22", "T2"),
    Sums((("C11", ((1, "C11"), (-1, "T2"))), ("C12", ((1, "C12"), (1, "T2"))))),
)
"""A level of Strassen above others: its products recur, so their additions are separate.

The paper's steps, reordered so that sums of operands are in temporaries and never in C: then blocks
need not be square (T1 has A's shape, T2 B's and once C's).
"""

WINOGRAD_OUTER: Program = (
    _sub("A11", "A21", "T1"),
    _sub("B22", "B12", "T2"),
    _mul("T1", "T2", "C21"),
    _add("A21", "A22", "T1"),
    _sub("B12", "B11", "T2"),
    _mul("T1", "T2", "C22"),
    _sub("T1", "A11", "T1"),
    _sub("B22", "T2", "T2"),
    _mul("T1", "T2", "C11"),
    _sub("A12", "T1", "T1"),
    _mul("T1", "B22", "C12"),
    _add("C12", "C22", "C12"),
    _mul("A11", "B11", "T1"),
    Sums((("C12", ((1, "C12"),)), ("C11", ((1, "C21"),))), shared=((1, "C11"), (1, "T1"))),
    _sub("T2", "B21", "T2"),
    _mul("A22", "T2", "C21"),
    Sums((("C21", ((1, "C11"), (-1, "C21"))), ("C22", ((1, "C11"), (1, "C22"))))),
    _mul("A12", "B21", "C11"),
    _add("C11", "T1", "C11"),
)  # fmt: skip
"""A level of Winograd above others."""


def kinds(program: Program) -> dict[str, set[str]]:
    """The shapes of every temporary: "A" (m, k), "B" (k, n), "C" (m, n) of a block.

    >>> {name: sorted(found) for name, found in kinds(WINOGRAD_OUTER).items()}
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
            for target, *_ in step.stores:
                made(target, "C")
    return found
