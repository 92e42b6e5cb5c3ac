"""Multi-line texts for display, with replacements for characters that an output cannot encode."""

from __future__ import annotations

import codecs
import sys

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


class Text(str):
    """A string whose `repr` is the text itself, for prompts and notebook cells; printed in
    characters that the output can encode."""

    __slots__ = ()

    def __str__(self) -> str:
        return printable(self)

    __repr__ = __str__
