"""Literals as arguments: kernels that differ in them alone have the same machine code.

    out[i] = 1.25 * a[i] + 0.3   →   out[i] = literal * a[i] + literal1,  over 1.25 and 0.3

A Python loop that is unrolled while a program is traced makes many such kernels.  The bits of
results are the same: only operands of sums and products change, and none of the numbers for which
LLVM does something else (powers of two, 0, infinities, NaN).  Of integers, which are mostly offsets
of indices, only those become arguments in which kernels are found to differ (`Differences`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from treadle.dsl.expr import Apply, Const, Expr, Var, rewrite, walk
from treadle.dsl.types import float32, float64, int32, int64

from .kernel import Body, Kernel, Store, evaluated, mapped, statements

#: The operations that do the same with a number whether it is known or not.
_OPERATIONS = ("add", "subtract", "multiply", "fma")
#: Those of integers.
_OF_INTEGERS = frozenset((
    "add", "subtract", "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal",
))  # fmt: skip
_NUMBERS = (int32, int64, float32, float64)
#: A kernel with more literals keeps them.
MOST = 64


def as_arguments(kernel: Kernel) -> Kernel:
    """The kernel with its literals as further scalars, in the order in which it uses them."""
    found = _literals(kernel, _OPERATIONS, _is_ordinary)
    return _with_scalars(kernel, found) if 0 < len(found) <= MOST else kernel


def stored_as_arguments(kernel: Kernel) -> Kernel:
    """The kernel with literals that it stores, and uses for nothing else, as further scalars: zeros
    and ones are filled in by the same machine code."""
    every = list(statements(kernel.body))
    found = {s.value: None for s in every if isinstance(s, Store)
             and isinstance(s.value, Const) and s.value.type in _NUMBERS}  # fmt: skip
    if not 0 < len(found) <= MOST:
        return kernel
    others: set[Expr] = set()
    for s in every:
        own = (s.index,) if isinstance(s, Store) and s.value in found else evaluated(s)
        others.update(own)
        for e in walk(own):
            others.update(e.args + e.scoped)
    stored = [e for e in found if e not in others]
    return _with_scalars(kernel, stored) if stored else kernel


class Differences:
    """The integers in which otherwise equal kernels have differed so far."""

    def __init__(self) -> None:
        #: By the text of a kernel without them: the integers of the first, and which have differed.
        self._known: dict[str, tuple[list[int], set[int]]] = {}

    def of(
        self, kernel: Kernel, text: Callable[[Kernel, Collection[Const]], str]
    ) -> tuple[int, ...]:
        """The numbers of the integers that should be arguments of a kernel: none of the first one.
        `text` is that of a kernel without some of its literals."""
        found = _integers(kernel)
        if not 0 < len(found) <= MOST:
            return ()
        values = [int(e.value) for e in found]
        first, differing = self._known.setdefault(text(kernel, found), (values, set()))
        differing.update(k for k, value in enumerate(values) if value != first[k])
        return tuple(sorted(differing))


def integers_as_arguments(kernel: Kernel, which: Sequence[int]) -> Kernel:
    """The kernel with these of its integers (`Differences.of`) as further scalars."""
    found = _integers(kernel) if which else ()
    return _with_scalars(kernel, [found[k] for k in which]) if which else kernel


def _integers(kernel: Kernel) -> Sequence[Const]:
    return _literals(kernel, _OF_INTEGERS, lambda e: e.type in (int32, int64))


def _with_scalars(kernel: Kernel, found: Sequence[Const]) -> Kernel:
    given: dict[Expr, Expr] = {}
    scalars = tuple(Var("literal", e.type) for e in found)
    given.update(zip(found, scalars, strict=True))

    def value(e: Expr) -> Expr:
        return rewrite((e,), lambda x: x, given)[0]

    def body(made: Body) -> Body:
        return tuple(mapped(s, value, body) for s in made)

    return replace(
        kernel,
        scalars=(*kernel.scalars, *scalars),
        scalar_values=(*kernel.scalar_values, *found),
        body=body(kernel.body),
        literals=kernel.literals + len(found),
    )


def _literals(
    kernel: Kernel, operations: Collection[str], fits: Callable[[Const], bool]
) -> Sequence[Const]:
    """The literals of a kernel that may be arguments."""
    found: dict[Const, None] = {}
    others: set[Const] = set()
    roots: list[Expr] = []
    for s in statements(kernel.body):
        own = evaluated(s)
        roots += own
        if not isinstance(s, Store):
            others.update(e for e in own if isinstance(e, Const))
    for e in walk(roots):
        if not e.args and not e.scoped:
            continue
        used = [a for a in (*e.args, *e.scoped) if isinstance(a, Const)]
        if used and isinstance(e, Apply) and e.op.name in operations:
            found.update((a, None) for a in used if fits(a))
        else:
            others.update(used)
    return [e for e in found if e not in others]


def _is_ordinary(e: Const) -> bool:
    """Whether it is a float that is neither 0, a power of two, infinite nor NaN."""
    if e.type not in (float32, float64):
        return False
    value = float(e.value)
    return math.isfinite(value) and abs(math.frexp(value)[0]) not in (0.0, 0.5)
