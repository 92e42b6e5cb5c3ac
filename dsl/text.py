"""Texts that are read as they are wherever they are shown."""

from __future__ import annotations

import codecs
import sys

#: What stands for a sign that a stream does not have; for others an escape as Python writes it.
_PLAIN = {
    "…": "...", "×": "x", "·": "*", "−": "-", "—": "-", "→": "->", "≥": ">=", "≠": "!=", "∘": "o",
    "µ": "u", "²": "^2", "³": "^3", "ˣ": "^x", "⟨": "<", "⟩": ">", "\xa0": " ",
}  # fmt: skip


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or ascii(c)[1:-1] for c in lost), error.end


#: The handler of errors, for streams, that writes other signs instead.
PLAIN = "treadle.plain"
codecs.register_error(PLAIN, _plain)


def printable(text: str) -> str:
    """A text in signs that standard output has: it may be in ASCII alone."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, PLAIN).decode(encoding)


class Text(str):
    """A text of several lines, whose `repr` is the text: at a prompt, and at the end of a
    notebook's cell; printed in signs that the output has."""

    __slots__ = ()

    def __str__(self) -> str:
        return printable(self)

    __repr__ = __str__
