"""Scalar types and literals in C++.

`bool`, `int`, `float` and `double` keep their names; the other integers have names with their
width (`int64`, `uint8`, …), declared at the head of a text that uses them.  `float16`,
`bfloat16` and the complex types are small structures of the prelude.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from treadle.dsl.expr import Const
from treadle.dsl.types import ScalarType

#: The operations that the target provides.
#: The C++ type of each name that is not built into C++.
ALIASES = {
    "int8": "signed char", "int16": "short", "int64": "long long", "uint8": "unsigned char",
    "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
}  # fmt: skip
_NATIVE = {"bool": "bool", "int32": "int", "float32": "float", "float64": "double"}

# Precedence levels of C++ operators: a higher level binds more tightly.
PRIMARY, UNARY, PRODUCT, SUM, SHIFT, RELATION, EQUALITY = 16, 15, 13, 12, 11, 9, 8
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 7, 6, 5, 4, 3, 2


class Term(NamedTuple):
    """C++ text of an expression and the level of its outermost operator."""

    code: str
    level: int = PRIMARY

    def within(self, level: int) -> str:
        """The text as an operand that must bind at least as tightly as `level`."""
        return self.code if self.level >= level else f"({self.code})"


def type_name(t: ScalarType) -> str:
    """The name of a scalar type in the text."""
    return _NATIVE.get(t.name, t.name)


def unsigned_name(bits: int) -> str:
    return "unsigned" if bits <= 32 else "uint64"


def part(t: ScalarType) -> str:
    """The C++ type in which a float type is computed."""
    return "double" if t.bits == (128 if t.is_complex else 64) else "float"


def literal(e: Const) -> Term:
    """A constant."""
    t, value = e.type, e.value
    if t.family == "bool":
        return Term("true" if value else "false")
    if t.is_integer:
        return integer(int(value), t)
    if t.is_complex:
        real, imaginary = (number(float(p), part(t)).code for p in (value.real, value.imag))
        return Term(f"{t.name}({real}, {imaginary})")
    if t.bits == 16:
        return Term(f"{t.name}({number(float(value), 'float').code})")
    return number(float(value), part(t))


def integer(value: int, t: ScalarType) -> Term:
    """An integer literal of (at least) type `t`."""
    if t.bits == 64:
        end = "ull" if not t.signed else "" if -(2**31) < value < 2**31 else "ll"
    else:
        end = "u" if t.name == "uint32" else ""
    if t.signed and value == t.lowest and t.bits >= 32:
        return Term(f"-{-(value + 1)}{end} - 1", SUM)  # the literal itself would be too large
    text = hex(value) if not t.signed and value == t.highest and t.bits >= 32 else str(value)
    return Term(f"{text}{end}", UNARY if value < 0 else PRIMARY)


def number(value: float, name: str) -> Term:
    """The shortest literal of type "float" or "double" with these bits."""
    end = "f" if name == "float" else ""
    negative = math.copysign(1.0, value) < 0
    level = UNARY if negative else PRIMARY
    sign = "-" if negative else ""
    if math.isnan(value):
        return Term("NAN")
    if math.isinf(value):
        return Term(f"{sign}INFINITY", level)
    size: Any = np.float32(abs(value)) if end else np.float64(abs(value))
    text = np.format_float_positional(size, trim="0") if 1e-4 <= size < 1e9 or size == 0 else (
        np.format_float_scientific(size, trim="-", exp_digits=1)
    )  # fmt: skip
    if end and "." not in text and "e" not in text:
        text += ".0"
    return Term(f"{sign}{text}{end}", level)
