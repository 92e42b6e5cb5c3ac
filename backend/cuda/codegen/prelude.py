"""Small device functions and types that a text needs beside its kernel: each once, only if used.

A helper has a key (what asks for it), its C++ text, and the keys of the helpers that it needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .scalars import ALIASES


@dataclass(frozen=True)
class Helper:
    """`text` is C++; `needs` are keys of helpers that must stand before it."""

    text: str
    needs: tuple[str, ...] = ()


def _code_words(text: str) -> list[str]:
    """The identifiers of a text, those of comments left out."""
    return re.findall(r"\w+", re.sub(r"//.*", "", text))


class Prelude:
    """The helpers that one text uses, in an order that C++ accepts."""

    def __init__(self, library: dict[str, Helper]) -> None:
        self._library = library
        self._used: dict[str, None] = {}
        self._aliases: set[str] = set()

    def use(self, key: str) -> None:
        """Have a helper, and what it needs, printed."""
        if key in ALIASES:
            self._aliases.add(key)
        elif key in self._library and key not in self._used:
            for needed in self._library[key].needs:
                self.use(needed)
            self._used[key] = None

    def add(self, key: str, helper: Helper) -> None:
        """A helper that only this text has."""
        self._library = {**self._library, key: helper}

    def include(self, other: Prelude) -> None:
        """Have all that another text uses."""
        self._aliases |= other._aliases
        for key in other._used:
            if key not in self._library:
                self.add(key, other._library[key])
            self.use(key)

    def text(self, body: str) -> str:
        """The head of the file for the kernels `body`; empty when nothing is needed."""
        parts = [self._library[key].text.strip() for key in self._used]
        words = {word for part in (*parts, body) for word in _code_words(part)}
        aliases = [f"using {a} = {ALIASES[a]};" for a in ALIASES if a in self._aliases & words]
        if aliases:
            parts.insert(0, "\n".join(aliases))
        return "\n\n".join(parts) + "\n\n" if parts else ""
