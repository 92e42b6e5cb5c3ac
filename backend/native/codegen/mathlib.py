"""Mathematical functions: one routine per function and element type.

glibc's libmvec has vector routines (at most 4 ulp) under names such as `_ZGVeN16v_expf`; a function
it lacks, and every function on other systems, is the scalar one of libm, lane by lane.  Scalars go
through the same routine as vectors, so that a value never depends on where it was computed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .lanes import Lanes, join, slice_lanes, widen
from .libraries import address_in, libraries
from .target import Target
from .text import Code, Reg, literal, vector

#: treadle's (NumPy's) name -> C's name, and the number of arguments.
FUNCTIONS: dict[str, tuple[str, int]] = {
    "exp": ("exp", 1), "log": ("log", 1), "sin": ("sin", 1), "cos": ("cos", 1), "tan": ("tan", 1),
    "arcsin": ("asin", 1), "arccos": ("acos", 1), "arctan": ("atan", 1), "sinh": ("sinh", 1),
    "cosh": ("cosh", 1), "tanh": ("tanh", 1), "arcsinh": ("asinh", 1), "arccosh": ("acosh", 1),
    "arctanh": ("atanh", 1), "exp2": ("exp2", 1), "expm1": ("expm1", 1), "log2": ("log2", 1),
    "log10": ("log10", 1), "log1p": ("log1p", 1), "cbrt": ("cbrt", 1), "erf": ("erf", 1),
    "erfc": ("erfc", 1), "arctan2": ("atan2", 2), "hypot": ("hypot", 2), "power": ("pow", 2),
}  # fmt: skip


@dataclass(frozen=True)
class Routine:
    """A function to call: its symbol, lanes per call (0: scalar) and its address."""

    symbol: str
    lanes: int
    address: int
    convention: str = ""


@functools.cache
def routine(function: str, element: str, target: Target) -> Routine:
    """The routine for `function` on "float" or "double" elements."""
    name, arguments = FUNCTIONS[function]
    name += "f" if element == "float" else ""
    size = 4 if element == "float" else 8
    mvec, libm = libraries()
    shapes = [("n", 16, "aarch64_vector_pcs ")]
    if target.is_x86:
        shapes = [("e", 64, ""), ("d", 32, ""), ("b", 16, "")]
    for letter, width, convention in shapes:
        if width <= target.vector_bytes:
            symbol = f"_ZGV{letter}N{width // size}{'v' * arguments}_{name}"
            address = address_in(mvec, symbol)
            if address:
                return Routine(symbol, width // size, address, convention)
    return Routine(name, 0, address_in(libm, name))


def call(code: Code, target: Target, function: str, element: str, lanes: int,
         arguments: list[Reg]) -> Reg:  # fmt: skip
    """Emit a call of `function` on values of `lanes` lanes."""
    found = routine(function, element, target)
    code.module.symbols.add(found.symbol)
    if found.lanes == 0:
        if lanes == 0:
            return _call(code, found, element, arguments)
        return _per_lane(code, found.symbol, element, lanes, arguments)
    width = found.lanes
    if lanes == 0:
        filled = [Lanes(code, width).splat(element, a) for a in arguments]
        return Lanes(code, width).extract(element, _call(code, found, element, filled), 0)
    if lanes < width:
        filled = [widen(code, element, a, lanes, width) for a in arguments]
        whole = _call(code, found, element, filled)
        return slice_lanes(code, element, whole, width, 0, lanes)
    pieces = []
    for first in range(0, lanes, width):
        part = [slice_lanes(code, element, a, lanes, first, width) for a in arguments]
        pieces.append(_call(code, found, element, part))
    return join(code, element, pieces, width)


def _call(code: Code, found: Routine, element: str, arguments: list[Reg]) -> Reg:
    t = vector(element, found.lanes)
    module = code.module
    if found.symbol not in module.declarations:
        given = ", ".join([t] * len(arguments))
        module.declarations[found.symbol] = (
            f"declare {found.convention}{t} @{found.symbol}({given}) #1"
        )
    given = ", ".join(f"{t} {a}" for a in arguments)
    return code.emit(f"call {found.convention}{t} @{found.symbol}({given})")


def _per_lane(code: Code, symbol: str, element: str, lanes: int, arguments: list[Reg]) -> Reg:
    """A scalar routine on each lane, through a helper function with a loop."""
    t = vector(element, lanes)
    name = f"treadle.lanes.{symbol}.{lanes}"
    if name not in code.module.helpers:
        code.module.helpers.add(name)
        inner = Code(code.module)
        names = [f"%a{k}" for k in range(len(arguments))]
        slots = [inner.allocate(t) for _ in arguments]
        for slot, a in zip(slots, names, strict=True):
            inner.do(f"store {t} {a}, ptr {slot}")
        loop, done = inner.label("loop"), inner.label("done")
        inner.jump(loop)
        inner.start(loop)
        k, at = inner.phi("i64", "0", "entry")
        positions = [inner.emit(f"getelementptr {element}, ptr {s}, i64 {k}") for s in slots]
        values = [inner.emit(f"load {element}, ptr {p}") for p in positions]
        inner.module.declare(symbol, element, [element] * len(values))
        given = ", ".join(f"{element} {v}" for v in values)
        result = inner.emit(f"call {element} @{symbol}({given})")
        inner.do(f"store {element} {result}, ptr {positions[0]}")
        after = inner.emit(f"add i64 {k}, 1")
        inner.complete(at, after, loop)
        inner.branch(inner.emit(f"icmp ult i64 {after}, {lanes}"), loop, done)
        inner.start(done)
        inner.do(f"ret {t} {inner.emit(f'load {t}, ptr {slots[0]}')}")
        head = ", ".join(f"{t} {a}" for a in names)
        code.module.functions.append(inner.finish(f"define internal {t} @{name}({head}) #2"))
    given = ", ".join(f"{t} {a}" for a in arguments)
    return code.emit(f"call {t} @{name}({given})")


def fmod(code: Code, element: str, lanes: int, a: Reg, b: Reg) -> Reg:
    """The exact remainder with the sign of `a`: C's fmod."""
    symbol = "fmodf" if element == "float" else "fmod"
    code.module.symbols.add(symbol)
    if lanes == 0:
        code.module.declare(symbol, element, [element, element])
        return code.emit(f"call {element} @{symbol}({element} {a}, {element} {b})")
    t = vector(element, lanes)
    name = f"treadle.{symbol}.{lanes}"
    if name not in code.module.helpers:
        code.module.helpers.add(name)
        _fmod_helper(Code(code.module), name, symbol, element, lanes)
    return code.emit(f"call {t} @{name}({t} {a}, {t} {b})")


def _fmod_helper(code: Code, name: str, symbol: str, element: str, lanes: int) -> None:
    """Small quotients in one division and one fused multiply-add (exact), others by libm.

    Rounding is monotonic, so the integer part of the rounded quotient is correct or one too large.
    In the second case the remainder is negative and exact, and adding |b| corrects it.
    """
    v = Lanes(code, lanes)
    t = v.type(element)
    x, y = v.call("fabs", element, "%a"), v.call("fabs", element, "%b")
    quotient = v.call("trunc", element, v.op("fdiv", element, x, y))
    limit = v.lit(element, 2.0 ** (23 if element == "float" else 52))
    small = v.compare("olt", element, quotient, limit)
    finite = v.compare("olt", element, y, literal(element, float("inf"), lanes))
    rest = v.call("fma", element, v.negate(element, quotient), y, x)
    negative = v.compare("olt", element, rest, v.lit(element, 0.0))
    rest = v.select(element, negative, v.op("fadd", element, rest, y), rest)
    result = v.call("copysign", element, rest, "%a")
    hard = v.any(v.inverse(v.both(small, finite)))
    slow, fast = code.label("slow"), code.label("fast")
    code.branch(hard, slow, fast)
    code.start(slow)
    code.do(f"ret {t} {_per_lane(code, symbol, element, lanes, ['%a', '%b'])}")
    code.start(fast)
    code.do(f"ret {t} {result}")
    head = f"define internal {t} @{name}({t} %a, {t} %b) #2"
    code.module.functions.append(code.finish(head))
