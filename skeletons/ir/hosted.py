"""Host values that are scalars of kernels and that users cannot write."""

from __future__ import annotations

from treadle.dsl.expr import Expr, new
from treadle.dsl.graph import Leaf
from treadle.dsl.graphs.interning import find, publish
from treadle.dsl.types import int32, int64


class Stride(Expr):
    """The stride of a leaf along one axis, in elements."""

    __slots__ = ("axis", "leaf")
    leaf: Leaf
    axis: int

    def __new__(cls, leaf: Leaf, axis: int) -> Stride:
        key = (cls, leaf, axis)
        made: Stride | None = find(key)
        if made is None:
            made = new(cls, int64)
            made.leaf, made.axis = leaf, axis
            made = publish(key, made)
        return made


class Reciprocal(Expr):
    """One half of the reciprocal of a divisor d ≥ 1.

    part "multiplier": ⌈2^(31 + s) / d⌉ as the bits of an int32; part "shift": s = ⌈log₂ d⌉.
    0 for a divisor that is not positive or does not fit in an int32.
    """

    __slots__ = ("part",)
    part: str

    def __new__(cls, divisor: Expr, part: str) -> Reciprocal:
        key = (cls, divisor, part)
        made: Reciprocal | None = find(key)
        if made is None:
            made = new(cls, int32, (divisor,))
            made.part = part
            made = publish(key, made)
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Reciprocal(args[0], self.part)


class Most(Expr):
    """The largest value of an integer expression over all iterations of its enclosing loops, and at
    least 0.

    `loops`: their counters, outermost first, each with its number of iterations, which does not
    depend on counters.
    """

    __slots__ = ("loops", "of")
    of: Expr
    loops: tuple[tuple[Expr, Expr], ...]

    def __new__(cls, of: Expr, loops: tuple[tuple[Expr, Expr], ...]) -> Most:
        key = (cls, of, loops)
        made: Most | None = find(key)
        if made is None:
            made = new(cls, int64)
            made.of, made.loops = of, loops
            made = publish(key, made)
        return made

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that the host evaluates."""
        return self.of, *(count for _, count in self.loops)


def reciprocal(divisor: int, part: str) -> int:
    """The value of a `Reciprocal`.

    >>> m, s = reciprocal(7, "multiplier") % 2**32, reciprocal(7, "shift")
    >>> all((n * m) >> (31 + s) == n // 7 for n in (0, 6, 7, 2**31 - 1))
    True
    """
    if not 1 <= divisor <= (1 << 31) - 1:
        return 0
    shift = (divisor - 1).bit_length()
    if part == "shift":
        return shift
    return -(-(1 << (31 + shift)) // divisor) - (1 << 32)
