"""Texts for display: printable characters, and quantities in suitable units."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

#: ASCII replacements for characters that a stream cannot encode; others are escaped as in Python.
_PLAIN = {
    "…": "...", "×": "x", "·": "*", "−": "-", "—": "-", "→": "->", "≥": ">=", "≠": "!=", "∘": "o",
    "µ": "u", "²": "^2", "³": "^3", "ˣ": "^x", "⟨": "<", "⟩": ">", "\xa0": " ",
}  # fmt: skip


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or ascii(c)[1:-1] for c in lost), error.end


#: The name of an error handler for streams that writes these replacements.
PLAIN = "treadle.plain"
codecs.register_error(PLAIN, _plain)


def printable(text: str) -> str:
    """The text in characters that standard output can encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, PLAIN).decode(encoding)


def by_name(table: Mapping[str, T]) -> dict[str, T]:
    """The values of a table whose keys are several names each, as a table by single name."""
    return {name: value for names, value in table.items() for name in names.split()}


class Text(str):
    """A string whose `repr` is the text itself, for prompts and notebook cells; printed in
    characters that the output can encode."""

    __slots__ = ()

    def __str__(self) -> str:
        return printable(self)

    __repr__ = __str__


# --- Format quantities for display ----------------------------------------------------------------


def duration(seconds: float) -> str:
    """A duration with three digits in a suitable unit.

    >>> duration(1.57), duration(0.0834), duration(1.23e-5), duration(754)
    ('1.57 s', '83.4 ms', '12.3 µs', '754 s')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * size:
            scaled = seconds / size
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def count(n: int, word: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def count_of(x: float, word: str) -> str:
    """A rounded number with its noun: `0.25 operations`, `1.2 k operations`."""
    text = rounded(x)
    return f"{text} {word}" if text == "1" else f"{text} {word}s"


def rounded(x: float) -> str:
    """A number with two or three digits and a unit prefix.

    >>> rounded(0.0613), rounded(17), rounded(3.2e7)
    ('0.061', '17', '32 M')
    """
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if x >= size:
            return f"{x / size:.3g}{unit}"
    return f"{x:.0f}" if x >= 100 else f"{x:.2g}"


def in_bytes(n: float) -> str:
    """`48 B`, `1.05 MB`."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= 0.9995 * size:  # or 1e+03 of the next smaller unit
            return f"{n / size:.3g} {unit}"
    return f"{n:.0f} B"


def byte_count(memory: object) -> int | None:
    """The number of bytes in "2 GB", "300 MB" or a positive whole number; None for anything else.

    >>> byte_count("2 GB"), byte_count("1 MiB"), byte_count(4096), byte_count(2e9), byte_count("no")
    (2000000000, 1048576, 4096, 2000000000, None)
    """
    if isinstance(memory, float) and memory.is_integer():  # 2e9
        memory = int(memory)
    if isinstance(memory, int) and not isinstance(memory, bool):
        return memory if memory > 0 else None
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kKMGT]?)(i?)B?\s*", str(memory))
    if not isinstance(memory, str) or found is None:
        return None
    size = 1024 if found[3] else 1000
    return int(float(found[1]) * size ** " KMGT".index(found[2].upper() or " ")) or None
