"""Texts that are read as they are wherever they are shown."""

from __future__ import annotations


class Text(str):
    """A text of several lines, whose `repr` is the text: at a prompt, and at the end of a
    notebook's cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
