"""Instructions on scalars and vectors alike: one object per number of lanes."""

from __future__ import annotations

from .text import Code, Reg, constants, literal, suffix, vector

#: An integer type of the same size as each floating-point register type.
INTEGER_OF = {"float": "i32", "double": "i64", "half": "i16"}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}


class Lanes:
    """Emits instructions on values of `lanes` lanes (0: scalars) into `code`."""

    def __init__(self, code: Code, lanes: int) -> None:
        self.code, self.lanes = code, lanes

    def type(self, element: str) -> str:
        return vector(element, self.lanes)

    def lit(self, element: str, value: int | float) -> Reg:
        return literal(element, value, self.lanes)

    def op(self, name: str, element: str, a: Reg, b: Reg) -> Reg:
        """A binary instruction; floating-point ones carry the fast-math flags."""
        flags = self.code.flags if name[0] == "f" else ""
        return self.code.emit(f"{name} {flags}{self.type(element)} {a}, {b}")

    def negate(self, element: str, a: Reg) -> Reg:
        if element in INTEGER_OF:
            return self.code.emit(f"fneg {self.type(element)} {a}")
        return self.op("sub", element, self.lit(element, 0), a)

    def compare(self, predicate: str, element: str, a: Reg, b: Reg) -> Reg:
        """i1 lanes; predicate of fcmp for floating-point elements, else of icmp."""
        name = "fcmp" if element in INTEGER_OF else "icmp"
        made = self.code.emit(f"{name} {predicate} {self.type(element)} {a}, {b}")
        if predicate == "slt" and b == "0":
            self.code.tested[made] = a
        return made

    def select(self, element: str, condition: Reg, a: Reg, b: Reg) -> Reg:
        t, how = self.type(element), ""
        if self.code.branches and not self.lanes:
            self.code.module.rare, how = True, ", !prof !3"
        elif self.code.in_order and not self.lanes:
            how = ", !unpredictable !0"  # no branch: those are written as such
            if element == "i64" and self.code.tested.get(condition) == b:
                self.code.module.rare, how = True, ", !prof !3"  # an index from the end
        return self.code.emit(f"select {self.type('i1')} {condition}, {t} {a}, {t} {b}{how}")

    def convert(self, name: str, source: str, target: str, a: Reg) -> Reg:
        """A conversion instruction: zext, fptrunc, bitcast, …"""
        return self.code.emit(f"{name} {self.type(source)} {a} to {self.type(target)}")

    def bits(self, element: str, a: Reg) -> Reg:
        """The bits of a floating-point value as an integer."""
        return self.convert("bitcast", element, INTEGER_OF[element], a)

    def from_bits(self, element: str, a: Reg) -> Reg:
        return self.convert("bitcast", INTEGER_OF[element], element, a)

    def call(self, name: str, element: str, *arguments: Reg) -> Reg:
        """An LLVM intrinsic all of whose types are `element`."""
        t = self.type(element)
        return self.code.intrinsic(
            f"llvm.{name}.{suffix(element, self.lanes)}", t, [(t, a) for a in arguments]
        )

    def call_immediate(self, name: str, element: str, a: Reg, flag: bool) -> Reg:
        """An intrinsic with a trailing `i1 immarg`: ctlz, cttz, abs."""
        t = self.type(element)
        full = f"llvm.{name}.{suffix(element, self.lanes)}"
        return self.code.intrinsic(full, t, [(t, a), ("i1", "true" if flag else "false")])

    def both(self, a: Reg, b: Reg) -> Reg:
        return self.op("and", "i1", a, b)

    def either(self, a: Reg, b: Reg) -> Reg:
        return self.op("or", "i1", a, b)

    def inverse(self, a: Reg) -> Reg:
        return self.op("xor", "i1", a, self.lit("i1", 1))

    # --- between scalars and vectors (lanes > 0) ------------------------------------------

    def splat(self, element: str, a: Reg) -> Reg:
        """A scalar in every lane."""
        if not self.lanes:
            return a
        if not a.startswith("%"):
            return f"splat ({element} {a})"
        t = self.type(element)
        one = self.code.emit(f"insertelement {t} poison, {element} {a}, i64 0")
        zero = f"<{self.lanes} x i32> zeroinitializer"
        return self.code.emit(f"shufflevector {t} {one}, {t} poison, {zero}")

    def extract(self, element: str, a: Reg, lane: int | Reg) -> Reg:
        return self.code.emit(f"extractelement {self.type(element)} {a}, i64 {lane}")

    def insert(self, element: str, a: Reg, value: Reg, lane: int | Reg) -> Reg:
        t = self.type(element)
        return self.code.emit(f"insertelement {t} {a}, {element} {value}, i64 {lane}")

    def shuffle(self, element: str, a: Reg, b: Reg, picks: list[int]) -> Reg:
        """The lanes `picks` of `a` followed by `b` (−1: any)."""
        t = self.type(element)
        mask = "<" + ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in picks) + ">"
        return self.code.emit(f"shufflevector {t} {a}, {t} {b}, <{len(picks)} x i32> {mask}")

    def iota(self, element: str, step: int = 1) -> Reg:
        """0, step, 2·step, …"""
        return constants(element, (k * step for k in range(self.lanes)))

    def any(self, mask: Reg) -> Reg:
        """Whether a lane of the mask is set (a scalar i1)."""
        if not self.lanes:
            return mask
        word = f"i{self.lanes}"
        bits = self.code.emit(f"bitcast {self.type('i1')} {mask} to {word}")
        return self.code.emit(f"icmp ne {word} {bits}, 0")


def widen(code: Code, element: str, a: Reg, lanes: int, to: int) -> Reg:
    """A vector repeated until it has `to` lanes."""
    return Lanes(code, lanes).shuffle(element, a, "poison", [k % lanes for k in range(to)])


def slice_lanes(code: Code, element: str, a: Reg, lanes: int, first: int, count: int) -> Reg:
    """Lanes first … first + count − 1."""
    if count == lanes:
        return a
    return Lanes(code, lanes).shuffle(element, a, "poison", list(range(first, first + count)))


def join(code: Code, element: str, pieces: list[Reg], lanes: int) -> Reg:
    """Vectors of `lanes` lanes one after the other (a power of two of them)."""
    while len(pieces) > 1:
        both = list(range(2 * lanes))
        pieces = [
            Lanes(code, lanes).shuffle(element, pieces[k], pieces[k + 1], both)
            for k in range(0, len(pieces), 2)
        ]
        lanes *= 2
    return pieces[0]


def transposed(
    code: Code, element: str, rows: list[Reg], parts: int = 1, register: str = ""
) -> list[Reg]:
    """Transpose a square matrix given by its rows (n rows of n elements, n a power of two, each
    element of `parts` lanes): swap off-diagonal blocks, at all block sizes.

    Each size is hidden from the next, if a row is a `register`: LLVM would look for fewer shuffles
    that give the same, which takes half the time of code generation, and find none.
    """
    v, found, distance = Lanes(code, len(rows) * parts), list(rows), len(rows) // 2

    def lanes(elements: list[int]) -> list[int]:
        return [e * parts + part for e in elements for part in range(parts)]

    while distance:
        side = range(len(rows))
        near = lanes([k if not k & distance else len(rows) + k - distance for k in side])
        far = lanes([k + distance if not k & distance else len(rows) + k for k in side])
        for k in range(len(rows)):
            if not k & distance:
                pair = found[k], found[k + distance]
                found[k], found[k + distance] = (
                    v.shuffle(element, *pair, picks) for picks in (near, far)
                )
        distance //= 2
        if register and distance:
            found = [code.hidden(v.type(element), reg, register) for reg in found]
    return found


def interleave(code: Code, element: str, a: Reg, b: Reg, lanes: int) -> Reg:
    """a0 b0 a1 b1 …"""
    picks = [k // 2 + (lanes if k % 2 else 0) for k in range(2 * lanes)]
    return Lanes(code, lanes).shuffle(element, a, b, picks)


def deinterleave(code: Code, element: str, a: Reg, lanes: int) -> tuple[Reg, Reg]:
    """The even and the odd lanes of a vector of 2 × `lanes`."""
    wide = Lanes(code, 2 * lanes)
    return (
        wide.shuffle(element, a, "poison", list(range(0, 2 * lanes, 2))),
        wide.shuffle(element, a, "poison", list(range(1, 2 * lanes, 2))),
    )
