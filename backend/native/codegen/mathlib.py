"""Mathematical functions: one routine per function and element type.

glibc's libmvec has vector routines (at most 4 ulp) under names such as `_ZGVeN16v_expf`; a function
it lacks, and every function on other systems, is the scalar one of libm, lane by lane.  Scalars go
through the same routine as vectors, so that a value never depends on where it was computed.

For arguments outside an interval, libmvec calls the scalar routine for each lane, which takes 10 to
100 times as long.  Where such arguments are common (the exponential of a mask's -inf, the logarithm
of 0, a power of 0), a test branches to a helper function that replaces them (`_GUARDED`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from treadle.dsl.records import dataclass

from .lanes import INTEGER_OF, Lanes, join, slice_lanes, widen
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
        whole = _call_guarded(code, function, found, element, filled)
        return Lanes(code, width).extract(element, whole, 0)
    if lanes < width:
        filled = [widen(code, element, a, lanes, width) for a in arguments]
        whole = _call_guarded(code, function, found, element, filled)
        return slice_lanes(code, element, whole, width, 0, lanes)
    pieces = []
    for first in range(0, lanes, width):
        part = [slice_lanes(code, element, a, lanes, first, width) for a in arguments]
        pieces.append(_call_guarded(code, function, found, element, part))
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


def _call_guarded(code: Code, function: str, found: Routine, element: str, arguments: list[Reg]
                  ) -> Reg:  # fmt: skip
    """A vector routine, or a helper function if it would be slow for an argument."""
    if function not in _GUARDED:
        return _call(code, found, element, arguments)
    is_hard, helper = _GUARDED[function]
    v, t = Lanes(code, found.lanes), vector(element, found.lanes)
    name = f"treadle.{found.symbol}"
    if name not in code.module.helpers:
        code.module.helpers.add(name)
        inner = Code(code.module)
        names = [f"%a{k}" for k in range(len(arguments))]

        def routine_of(*args: Reg) -> Reg:
            return _call(inner, found, element, list(args))

        result = helper(Lanes(inner, found.lanes), element, routine_of, *names)
        inner.do(f"ret {t} {result}")
        head = ", ".join(f"{t} {a}" for a in names)
        code.module.helper_functions.append(inner.finish(f"define internal {t} @{name}({head}) #2"))
    hard = v.any(is_hard(v, element, arguments[0]))
    slow, fast, done = code.label("hard"), code.label("easy"), code.label("done")
    code.branch(hard, slow, fast)
    code.start(slow)
    given = ", ".join(f"{t} {a}" for a in arguments)
    rare = code.emit(f"call {t} @{name}({given})")
    code.jump(done)
    code.start(fast)
    usual = _call(code, found, element, arguments)
    code.jump(done)
    code.start(done)
    result, at = code.phi(t, usual, fast)
    code.complete(at, rare, slow)
    return result


#: For an element type: the smallest normal number, the largest exponent, and the bits of a
#: significand.
_FORMATS = {"float": (2.0**-126, 128, 23), "double": (2.0**-1022, 1024, 52)}

#: The routine of a function whose arguments are safe.
_Routine = Callable[..., Reg]


def _is_large(limits: dict[str, tuple[float, float]]) -> Callable[[Lanes, str, Reg], Reg]:
    def test(v: Lanes, element: str, x: Reg) -> Reg:
        limit = v.lit(element, limits[element][0])
        return v.compare("ugt", element, v.call("fabs", element, x), limit)

    return test


def _is_not_positive(v: Lanes, element: str, x: Reg) -> Reg:
    """Whether x is not a positive, finite, normal number: by its bits, in one comparison."""
    integer, (_, exponent, digits) = INTEGER_OF[element], _FORMATS[element]
    first, end = 1 << digits, (2 * exponent - 1) << digits
    distance = v.op("sub", integer, v.bits(element, x), v.lit(integer, first))
    return v.compare("uge", integer, distance, v.lit(integer, end - first))


def _exponential(limits: dict[str, tuple[float, float]], base: float
                 ) -> Callable[[Lanes, str, _Routine, Reg], Reg]:  # fmt: skip
    """base^x as base^(x − c)·2^k, where c = k·log(2)/log(base) is subtracted without an error."""

    def helper(v: Lanes, element: str, routine_of: _Routine, x: Reg) -> Reg:
        lit = functools.partial(v.lit, element)
        (limit, most), (_, exponent, digits) = limits[element], _FORMATS[element]
        k = exponent // 4
        # Arguments beyond ±limit are multiples of `unit`, and so are the differences.
        unit = 2.0 ** (math.floor(math.log2(limit)) - digits)
        whole = k if base == 2 else round(k * math.log(2) / unit) * unit
        rest = 0.0 if base == 2 else k * _LN2_HIGH - whole + k * _LN2_LOW
        nan = v.compare("uno", element, x, x)
        within = v.select(element, nan, lit(0), x)
        within = v.call("maxnum", element, within, lit(-most))
        within = v.call("minnum", element, within, lit(most))
        below = v.compare("olt", element, within, lit(-limit))
        above = v.compare("ogt", element, within, lit(limit))

        def chosen(low: float, usual: float, high: float) -> Reg:
            others = v.select(element, above, lit(high), lit(usual))
            return v.select(element, below, lit(low), others)

        made = routine_of(v.op("fadd", element, within, chosen(whole, 0, -whole)))
        if rest:
            made = v.call("fma", element, made, chosen(rest, 0, -rest), made)
        none = v.compare("ole", element, within, lit(-most))  # (underflow would take longer)
        scale = v.select(element, none, lit(0), chosen(2.0**-k, 1, 2.0**k))
        made = v.op("fmul", element, made, scale)
        return v.select(element, nan, x, made)

    return helper


#: The natural logarithm of 2, as a sum whose first part has few digits.
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14


def _logarithm(base: float) -> Callable[[Lanes, str, _Routine, Reg], Reg]:
    """Of subnormal numbers, log(x·2^k) − k·log(2)."""

    def helper(v: Lanes, element: str, routine_of: _Routine, x: Reg) -> Reg:
        lit = functools.partial(v.lit, element)
        normal, _, digits = _FORMATS[element]
        k = digits + 1
        tiny = v.both(
            v.compare("ogt", element, x, lit(0)), v.compare("olt", element, x, lit(normal))
        )
        usual = v.select(element, tiny, v.op("fmul", element, x, lit(2.0**k)), x)
        made = routine_of(v.select(element, _is_not_positive(v, element, usual), lit(1), usual))
        less = v.op("fsub", element, made, lit(k * math.log(2) / math.log(base)))
        made = v.select(element, tiny, less, made)
        made = v.select(element, v.compare("oeq", element, x, lit(0)), lit(-math.inf), made)
        made = v.select(element, v.compare("olt", element, x, lit(0)), lit(math.nan), made)
        return v.select(element, v.compare("ueq", element, x, lit(math.inf)), x, made)

    return helper


def _power(v: Lanes, element: str, routine_of: _Routine, x: Reg, y: Reg) -> Reg:
    """Powers of 0 and of negative numbers by those of positive ones; of infinity and NaN, and
    powers by these, by the routine."""
    lit, code = functools.partial(v.lit, element), v.code
    size, other = v.call("fabs", element, x), v.call("fabs", element, y)
    finite = v.both(*(v.compare("olt", element, a, lit(math.inf)) for a in (size, other)))
    slow, usual = code.label("slow"), code.label("finite")
    code.branch(v.any(v.inverse(finite)), slow, usual)
    code.start(slow)
    code.do(f"ret {v.type(element)} {routine_of(x, y)}")
    code.start(usual)
    zero = v.compare("oeq", element, x, lit(0))
    made = routine_of(v.select(element, zero, lit(1), size), y)
    of_zero = v.select(element, v.compare("ogt", element, y, lit(0)), lit(0), lit(math.inf))
    of_zero = v.select(element, v.compare("oeq", element, y, lit(0)), lit(1), of_zero)
    made = v.select(element, zero, of_zero, made)
    half = v.op("fmul", element, y, lit(0.5))
    whole, even = (v.compare("oeq", element, v.call("trunc", element, a), a) for a in (y, half))
    signed = v.call("copysign", element, made, x)
    made = v.select(element, v.both(whole, v.inverse(even)), signed, made)
    below = v.both(v.compare("olt", element, x, lit(0)), v.inverse(whole))
    return v.select(element, below, lit(math.nan), made)


#: Exponentials are quick up to the first number; from the second on they are 0 or infinite.
_NATURAL = {"float": (80.0, 104.0), "double": (700.0, 746.0)}
_BINARY = {"float": (120.0, 151.0), "double": (1000.0, 1076.0)}

#: For functions that are slow for arguments that are common: the test of an argument, and the
#: function of such ones.
_GUARDED: dict[str, tuple[Callable[[Lanes, str, Reg], Reg], Callable[..., Reg]]] = {
    "exp": (_is_large(_NATURAL), _exponential(_NATURAL, math.e)),
    "exp2": (_is_large(_BINARY), _exponential(_BINARY, 2)),
    "log": (_is_not_positive, _logarithm(math.e)),
    "log2": (_is_not_positive, _logarithm(2)),
    "log10": (_is_not_positive, _logarithm(10)),
    "power": (_is_not_positive, _power),
}  # fmt: skip


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
        code.module.helper_functions.append(inner.finish(f"define internal {t} @{name}({head}) #2"))
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
    code.module.helper_functions.append(code.finish(head))
