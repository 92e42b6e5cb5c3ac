"""Values while code is emitted: registers, representations, and linear int64 forms.

In registers bool is i1; float16 and bfloat16 are float32 numbers that their type can represent
exactly; a complex number is two registers.  In memory bool is a byte and the others their bits.

int64 values are kept as polynomials (`dsl/analysis/polynomial.py`) over the numbers of registers as
long as only +, − and × touch them, so that equal indices are found equal, neighbouring ones share
their base, and the coefficient of the lane number (which decides between vector load, broadcast and
gather) can be read off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from treadle.dsl.analysis.polynomial import Polynomial
from treadle.dsl.types import ScalarType

from .text import Reg

_WRAP = 1 << 64
_HALF = 1 << 63
LANE = 0  # the atom of the lane number: 0 … W−1
Poly: TypeAlias = Polynomial[int]


def wrap(value: int) -> int:
    """An int64 as a Python number."""
    value &= _WRAP - 1
    return value - _WRAP if value >= _HALF else value


def wrapped(poly: Poly) -> Poly:
    """The polynomial with coefficients that are int64 numbers."""
    for c in poly.terms.values():
        if not -_HALF <= c < _HALF:
            return Polynomial({m: w for m, c in poly.terms.items() if (w := wrap(c))})
    return poly


@dataclass(slots=True, eq=False)
class Value:
    """A value in registers.  Equal keys mean equal values.

    `regs` has one register per part (two for complex); it is empty for a polynomial that has not
    been written out.  `lanes` is 0 for a uniform value.  `const` is the number of a literal.
    """

    type: ScalarType
    regs: tuple[Reg, ...]
    lanes: int
    key: int
    poly: Poly | None = None
    const: Any = None

    @property
    def varying(self) -> bool:
        return self.lanes > 0


def register_element(t: ScalarType) -> str:
    """The LLVM type of one part of a value in a register."""
    if t.family == "bool":
        return "i1"
    if t.is_integer:
        return f"i{t.bits}"
    if t.is_complex:
        return "float" if t.bits == 64 else "double"
    return "double" if t.bits == 64 else "float"


def memory_element(t: ScalarType) -> str:
    """The LLVM type of one part of a value in memory."""
    if t.family == "bool":
        return "i8"
    if t.name == "float16":
        return "half"
    if t.name == "bfloat16":
        return "i16"
    return register_element(t)


def parts(t: ScalarType) -> int:
    return 2 if t.is_complex else 1
