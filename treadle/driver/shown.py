"""What a program says about itself, as text that notebooks show richly: explanations in parts that
fold, sources with colours, folded by kernel, and graphs as pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from treadle.dsl.html import escape, preformatted
from treadle.dsl.text import Text

from .layout import Drawing

#: Parts of an explanation that are folded at first.
_FOLDED = ("Words",)
_LANGUAGES = {"cuda": re.compile(r"__global__|__device__"), "llvm": re.compile(r"^define ", re.M)}

_BOX = "treadle-source"
#: Longer sources, in characters, are not coloured.
_COLOURED = 300_000


class Explanation(Text):
    """The text of `explain()`; in a notebook, its kernels fold."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        head, *parts = re.split(r"\n\n+", self.strip("\n"))
        found = [f"<div><b>{escape(head)}</b></div>"]
        for part in parts:
            first, _, rest = part.partition("\n")
            depth = len(first) - len(first.lstrip())
            body = preformatted(rest) if rest else ""
            found.append(_fold(escape(first.strip()), body, first not in _FOLDED, depth))
        return "".join(found)


class Source(Text):
    """The text of `source()`; in a notebook, coloured, and folded by kernel."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.lexers.special import TextLexer

        name = next((n for n, sign in _LANGUAGES.items() if sign.search(self)), None)
        plain = name is None or len(self) > _COLOURED
        lexer = TextLexer() if plain else get_lexer_by_name(name)
        form = HtmlFormatter(cssclass=_BOX)
        parts = [_fold(escape(title), highlight(text, lexer, form), opened=False)
                 for title, text in self._kernels()]  # fmt: skip
        return f"<style>{form.get_style_defs('.' + _BOX)}</style>{''.join(parts)}"

    def _kernels(self) -> Iterator[tuple[str, str]]:
        """The title and text of each part: it begins with comments at the margin."""
        parts: list[list[str]] = []
        comment = False
        for line in self.rstrip("\n").split("\n"):
            begins = line.startswith(("//", ";"))
            if not parts or (begins and not comment):
                parts.append([])
            parts[-1].append(line)
            comment = begins
        for lines in parts:
            text = "\n".join(lines).strip("\n")
            if text:
                yield text.partition("\n")[0].lstrip("/; "), text


class Graph(Text):
    """The text of `graph()`, in Graphviz's language; in a notebook, a picture."""

    drawing: Drawing

    def _repr_svg_(self) -> str:
        return self.drawing.svg()


def folded(title: str, body: str) -> str:
    """A part that is folded at first; its body is HTML."""
    return _fold(escape(title), body, opened=False)


def _fold(title: str, body: str, opened: bool, depth: int = 0) -> str:
    """A part with a title, which shows or hides it."""
    margin = f' style="margin-left:{depth}ch"' if depth else ""
    if not body:
        return f"<div{margin}>{title}</div>"
    return f"<details{' open' * opened}{margin}><summary>{title}</summary>{body}</details>"
