"""Random scalar expressions of kernels and of the host, as text.

Integers are exact whatever they are; floats hold whole numbers, clipped after every step to a size
at which products and sums of the type are exact, so that fused multiply-adds change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

#: The largest whole number of a float at which a product of two, plus one, is exact.
LARGEST = {"bfloat16": 8, "float16": 32, "float32": 1000, "float64": 1000}
WHOLE = (0, 1, 2, 3, 5, 7, -1, -3, 100, 2**31, 2**62, -(2**63))


class Scalars:
    """Draws expressions over variables, a mapping from their text to a type's name; `sources` are
    arrays that may be read: their name, extents and type. "int" and "float" are literals' types."""

    def __init__(self, rng: Random, sources: Sequence[tuple[str, tuple[int, ...], str]] = ()):
        self.rng = rng
        self.sources = [s for s in sources if 0 not in s[1] and s[2][:7] != "complex"]
        self.states = 0

    def of_any_type(self, variables: Mapping[str, str], depth: int = 3) -> str:
        return getattr(self, self.rng.choice(("integer", "integer", "real", "truth")))(
            variables, depth
        )

    def _leaf(self, variables: Mapping[str, str], first: str) -> str | None:
        names = [n for n, kind in variables.items() if kind.startswith(first)]
        if not names:
            return None
        name = self.rng.choice(names)
        # An extent that is known while tracing is a Python number, without a type of its own.
        return f"td.int64({name})" if ".shape[" in name else name

    def integer(self, variables: Mapping[str, str], depth: int = 3) -> str:
        """An integer of 64 bits, or of the variables' type."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            unsigned = self._leaf(variables, "uint")
            found = self._leaf(variables, "int") or unsigned
            if found is None or rng.random() < 0.2:
                return f"td.int64({rng.choice(WHOLE)})"
            if unsigned and rng.random() < 0.4:
                found = unsigned
            return found if variables.get(found) != "uint64" else f"td.cast({found}, td.int64)"
        form = rng.choice(
            ("arithmetic",) * 4
            + ("bits", "divide", "shift", "choice", "cast", "unary", "read", "loop")
        )
        if form == "read":
            return self.read(variables, depth, "int") or self.integer(variables, depth - 1)
        if form == "loop":
            return self.loop(variables, depth)
        if form == "cast":
            if rng.random() < 0.4:
                return f"td.cast({self.real(variables, depth - 1)}, td.int64)"
            kind = rng.choice(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"))
            return f"td.cast({self.integer(variables, depth - 1)}, td.{kind})"
        left = self.integer(variables, depth - 1)
        if form == "unary":
            name = rng.choice(("-{}", "~{}", "td.abs({})", "td.sign({})", "td.popcount({})",
                               "td.clz({})", "td.ctz({})", "td.square({})"))  # fmt: skip
            return "(" + name.format(left) + ")"
        if form == "shift" and rng.random() < 0.7:
            amount = rng.choice(("0", "1", "7", "8", "31", "33", "63", "64", "200"))
            amount = f"td.cast({amount}, td.uint8)" if rng.random() < 0.3 else amount
            return (
                f"({left} {rng.choice(('<<', '>>'))} td.int64({amount}))"
                if "(" not in amount
                else (f"td.{rng.choice(('left_shift', 'right_shift'))}({left}, {amount})")
            )
        if form == "choice":
            right = self.integer(variables, depth - 1)
            word = rng.choice(("where", "cond"))
            return f"td.{word}({self.truth(variables, depth - 1)}, {left}, {right})"
        right = (
            str(rng.choice((2, 3, 5, 7, 11, 100)))
            if rng.random() < 0.3
            else (self.integer(variables, depth - 1))
        )
        if form == "divide":
            word = rng.choice(("//", "%", "td.quot", "td.rem"))
        elif form in ("bits", "shift"):
            word = rng.choice("&|^")
        else:
            word = rng.choice(("+", "-", "*", "td.minimum", "td.maximum"))
        return f"{word}({left}, {right})" if word[0] == "t" else f"({left} {word} {right})"

    def real(self, variables: Mapping[str, str], depth: int = 3) -> str:
        """A whole number as a float."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            found = self._leaf(variables, "float") or self._leaf(variables, "bfloat")
            if found is None or rng.random() < 0.2:
                kind = rng.choice(("float32", "float64"))
                return f"td.{kind}({rng.choice((0, 1, 2, -3, 7, 100))})"
            return found
        form = rng.choice(
            ("arithmetic",) * 4 + ("extreme", "choice", "integer", "unary", "read", "divide")
        )
        if form == "read":
            found = self.read(variables, depth, "float")
            return f"td.clip({found}, -8, 8)" if found else self.real(variables, depth - 1)
        if form == "integer":
            kind = rng.choice(("float32", "float64"))
            inside = self.integer(variables, depth - 1)
            return f"td.cast(td.cast({inside}, td.int64) % 101, td.{kind})"
        left = self.real(variables, depth - 1)
        if form == "unary":
            word = rng.choice(("abs", "negative", "floor", "ceil", "trunc", "rint", "sign"))
            return f"td.{word}({left})"
        if form == "divide":
            word = rng.choice(("floor", "ceil", "trunc", "rint"))
            return f"td.{word}({left} / {rng.choice((2, 3, 4, 5))})"
        right = (
            str(rng.choice((1, 2, 3, 5, -2)))
            if rng.random() < 0.3
            else (self.real(variables, depth - 1))
        )
        if form == "choice":
            return f"td.where({self.truth(variables, depth - 1)}, {left}, {right})"
        if form == "extreme":
            return f"td.{rng.choice(('minimum', 'maximum', 'fmin', 'fmax'))}({left}, {right})"
        # Of the narrowest type there may be.
        return f"td.clip({left} {rng.choice('+-*')} {right}, -8, 8)"

    def truth(self, variables: Mapping[str, str], depth: int = 3) -> str:
        rng = self.rng
        found = self._leaf(variables, "bool")
        if found and rng.random() < 0.3:
            return found
        if depth > 1 and rng.random() < 0.2:
            left, right = (self.truth(variables, depth - 2) for _ in "ab")
            return f"({left} {rng.choice('&|^')} {right})"
        kind = self.integer if rng.random() < 0.7 else self.real
        left, right = kind(variables, depth - 1), kind(variables, depth - 1)
        if kind == self.integer:
            left, right = (
                f"td.cast({x}, td.int64)" if rng.random() < 0.7 else x for x in (left, right)
            )
        return f"({left} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {right})"

    def place(self, variables: Mapping[str, str], extent: int | str, depth: int = 2) -> str:
        """An index within 0 … extent - 1."""
        return f"(td.cast({self.integer(variables, depth)}, td.int64) % {extent})"

    def read(self, variables: Mapping[str, str], depth: int, first: str) -> str | None:
        """An element of an array at an index that is inside."""
        sources = [s for s in self.sources if s[2].startswith(first)]
        if not sources:
            return None
        name, shape, _ = self.rng.choice(sources)
        parts = [self.place(variables, n, min(depth - 1, 2)) for n in shape]
        return f"{name}[{', '.join(parts)}]" if parts else f"td.the({name})"

    def loop(self, variables: Mapping[str, str], depth: int) -> str:
        """A loop over integers of 64 bits."""
        self.states += 1
        s, k = f"s{self.states}", f"k{self.states}"
        init = f"td.cast({self.integer(variables, depth - 2)}, td.int64)"
        iterations = (
            f"td.cast({self.integer(variables, 1)}, td.int64) % 5"
            if self.rng.random() < 0.5
            else (str(self.rng.randrange(5)))
        )
        form = self.rng.choice(("loop", "iterate", "while_loop"))
        if form == "while_loop":
            inside = {**variables, f"{s}[1]": "int64"}
            body = self.integer(inside, depth - 1)
            return (
                f"td.while_loop(lambda {s}: {s}[0] < {iterations}, "
                f"lambda {s}: ({s}[0] + 1, td.cast({body}, td.int64)), (0, {init}))[1]"
            )
        inside = {**variables, s: "int64"} | ({k: "int64"} if form == "loop" else {})
        given = f"{k}, {s}" if form == "loop" else s
        body = self.integer(inside, depth - 1)
        return f"td.{form}({iterations}, lambda {given}: td.cast({body}, td.int64), {init})"
