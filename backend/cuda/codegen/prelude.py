"""Small device functions and types that a text needs in addition to its kernels, printed once each
and only if used.

A helper has a key, by which it is requested, its C++ text, and the keys of the helpers it needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .scalars import ALIASES


@dataclass(frozen=True)
class Helper:
    """`text` is C++; `needs` are the keys of helpers that must precede it."""

    text: str
    needs: tuple[str, ...] = ()


def _code_words(text: str) -> list[str]:
    """The identifiers of a text outside comments."""
    return re.findall(r"\w+", re.sub(r"//.*", "", text))


class Prelude:
    """The helpers that one text uses, in an order that C++ accepts."""

    def __init__(self, library: dict[str, Helper]) -> None:
        self._library = library
        self._used: dict[str, None] = {}
        self._aliases: set[str] = set()

    def use(self, key: str) -> None:
        """Add a helper and the helpers it needs."""
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
        """Add all helpers that another text uses."""
        self._aliases |= other._aliases
        for key in other._used:
            if key not in self._library:
                self.add(key, other._library[key])
            self.use(key)

    def text(self, body: str) -> str:
        """The head of the file for the kernels `body`; empty if they use no helper."""
        parts = [self._library[key].text.strip() for key in self._used]
        words = {word for part in (*parts, body) for word in _code_words(part)}
        aliases = [f"using {a} = {ALIASES[a]};" for a in ALIASES if a in self._aliases & words]
        if aliases:
            parts.insert(0, "\n".join(aliases))
        return "\n\n".join(parts) + "\n\n" if parts else ""
