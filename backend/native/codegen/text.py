"""LLVM IR as text: types, literals, and a builder of one function.

A register is a string (`%12`, or a literal such as `3` or `splat (i32 3)`).  `lanes` is 0 for a
scalar and W for a vector of W elements.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain
from typing import Any

Reg = str

#: The fence after streaming stores, which makes them visible to other cores.
FENCE = "llvm.x86.sse.sfence"

INTEGER_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def is_number(reg: Reg) -> bool:
    """Whether a register is an integer literal."""
    return reg[0] in "-0123456789"


def vector(element: str, lanes: int) -> str:
    """The type of `lanes` elements; the element type itself when `lanes` is 0."""
    return f"<{lanes} x {element}>" if lanes else element


def suffix(element: str, lanes: int) -> str:
    """The mangled name of a type in the name of an intrinsic."""
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}
    name = short.get(element, element)
    return f"v{lanes}{name}" if lanes else name


def literal(element: str, value: int | float, lanes: int = 0) -> Reg:
    """A constant; every lane the same."""
    if element == "i1":
        text = "true" if value else "false"
    elif element in INTEGER_BITS:
        bits = INTEGER_BITS[element]
        number = int(value) & ((1 << bits) - 1)
        text = str(number - (1 << bits) if number >> (bits - 1) else number)
    elif element == "float":
        single = struct.unpack("<f", struct.pack("<f", value))[0]
        text = f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"
    elif element == "double":
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    else:
        raise AssertionError(f"no literal of type {element}")
    return f"splat ({element} {text})" if lanes else text


def constants(element: str, values: Iterable[int]) -> Reg:
    """A vector constant of integers."""
    return "<" + ", ".join(f"{element} {v}" for v in values) + ">"


class Module:
    """Declarations and functions of one LLVM module; helper functions are made once by name."""

    def __init__(self, vector_bytes: int = 16) -> None:
        self.vector_bytes = vector_bytes
        self.declarations: dict[str, str] = {}
        self.functions: list[str] = []
        self.helper_functions: list[str] = []
        self.helpers: set[str] = set()
        self.symbols: set[str] = set()
        self.rare = False  # whether it has choices of what is rare

    def declare(self, name: str, result: str, arguments: Iterable[str], pure: bool = True) -> None:
        """Declare an external function or intrinsic."""
        if name not in self.declarations:
            end = " #1" if pure else ""
            self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)}){end}"

    def text(self, attributes: str) -> str:
        """The text of the complete module."""
        return "\n".join(
            [
                *self.functions,
                *self.helper_functions,
                *self.declarations.values(),
                f"attributes #0 = {{ nounwind alignstack={self.vector_bytes} {attributes} }}",
                # LLVM's knowledge of the C library has errors: LLVM 22 folds fmod(NaN, y) to poison
                # if y is neither 0 nor infinite.
                "attributes #1 = { nobuiltin nounwind willreturn memory(none) }",
                f"attributes #2 = {{ nounwind noinline {attributes} }}",
                "!0 = !{}",
                "!1 = !{i32 1}",
                # #0 aligns the stack for full vectors: otherwise each spilled vector would cross a
                # cache line boundary.
                f'!2 = !{{i32 1, !"override-stack-alignment", i32 {self.vector_bytes}}}',
                *(['!3 = !{!"branch_weights", i32 1, i32 4000}'] if self.rare else []),
                "!llvm.module.flags = !{!2}",
                "",
            ]
        )


class Code:
    """The instructions of one function under construction."""

    def __init__(self, module: Module, flags: str = "") -> None:
        self.module = module
        self.flags = flags  # fast-math flags, with a trailing blank
        self.lines: list[Any] = []  # texts, and lists of texts that grow later
        self.allocations: list[str] = []
        self.count = 0
        self.block = "entry"
        #: Whether a number that may be negative rarely is: what waits for a choice is slow, and a
        #: processor goes on while it tests.  The numbers whose signs are tested, by the tests.
        self.in_order, self.tested = False, dict[Reg, Reg]()
        self.branches = False  # whether the next choice is a branch
        #: Whether this is part of a larger function, for known extents: LLVM sees how counters
        #: change, and the first lanes of vectors are loaded and stored in parts without masks.
        self.whole = False
        #: The masks of the first lanes, and how many they are.
        self.first_lanes = dict[Reg, int]()
        #: Integer quotients, by their blocks and operands.
        self.quotients: dict[tuple[object, ...], Reg] = {}

    def fresh(self, hint: str = "t") -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    def emit(self, text: str) -> Reg:
        """One instruction with a result."""
        self.count += 1
        reg = f"%t{self.count}"
        self.lines.append(f"  {reg} = {text}")
        return reg

    def do(self, text: str) -> None:
        """One instruction without a result."""
        self.lines.append("  " + text)

    def remark(self, text: str) -> None:
        self.lines.append("  ; " + " ".join(text.split()))

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def insertion_point(self) -> list[str]:
        """A list at the current position, to which instructions can be added later."""
        made: list[str] = []
        self.lines.append(made)
        return made

    def start(self, label: str) -> None:
        """Begin a block; the one before must have been ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: Reg, then: str, other: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{other}")

    def phi(self, type_: str, first: Reg, first_block: str, hint: str = "p") -> tuple[Reg, int]:
        """A phi whose second source is passed to `complete` later."""
        reg = self.fresh(hint)
        self.lines.append(f"  {reg} = phi {type_} [ {first}, %{first_block} ]")
        return reg, len(self.lines) - 1

    def complete(self, at: int, value: Reg, block: str) -> None:
        self.lines[at] += f", [ {value}, %{block} ]"

    def hidden(self, type_: str, value: Reg, register: str = "r") -> Reg:
        """The value, in this kind of register, of which LLVM does not know how it was computed."""
        return self.emit(
            f'call {type_} asm "", "={register},0"({type_} {value}) nounwind memory(none)'
        )

    def advance(self, counter: Reg, step: int) -> Reg:
        """The counter of a loop for the next iteration.

        Hidden, because LLVM's loop strength reduction takes half the time of code generation if it
        sees how addresses change, and has little to do: they are sums of terms by loop depth.
        """
        after = self.emit(f"add i64 {counter}, {step}")
        return after if self.whole else self.hidden("i64", after)

    def allocate(self, type_: str, align: int = 0, count: int = 1) -> Reg:
        """Stack memory that lives until the function returns."""
        reg = self.fresh("m")
        many = f", i64 {count}" if count != 1 else ""
        aligned = f", align {align}" if align else ""
        self.allocations.append(f"  {reg} = alloca {type_}{many}{aligned}")
        return reg

    def intrinsic(self, name: str, result: str, arguments: list[tuple[str, Reg]]) -> Reg:
        """Call a pure intrinsic or external function by its full name."""
        self.module.declare(name, result, [t for t, _ in arguments])
        given = ", ".join(f"{t} {r}" for t, r in arguments)
        return self.emit(f"call {result} @{name}({given})")

    def finish(self, head: str) -> str:
        """The text of the function."""
        lines = chain.from_iterable([x] if isinstance(x, str) else x for x in self.lines)
        return "\n".join([f"{head} {{", "entry:", *self.allocations, *lines, "}", ""])
