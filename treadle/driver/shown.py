"""What a program says about itself, as text that notebooks show richly: explanations in parts that
fold, sources with colours, folded by kernel, and graphs as pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from treadle.dsl.graph import ArrayLoop, Branch, Input, Node, inner_inputs, topological
from treadle.dsl.graphs.names import Names, is_kernel
from treadle.dsl.html import escape, preformatted
from treadle.dsl.text import Text

from .explain import fused, title
from .layout import Box, Drawing, Edge

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


def graphviz(program: Any) -> Graph:
    """The fused graph as text in DOT, with its drawing."""
    names = Names(program)
    drawing = Drawing()
    ids: dict[Node, int] = {}
    inner: list[Node] = []
    lines = []
    for node in topological(program.roots):
        ids[node] = len(drawing.boxes)
        name = f"n{ids[node]}"
        if isinstance(node, Input):
            parts = [names.inputs.get(node, node.name), names.type(node.leaf())]
            look = "shape=ellipse"
        else:
            parts, look = _box(node, names)
        lines.append(f"  {name} [{look}, label={_quoted(*parts)}];")
        drawing.boxes.append(Box(tuple(parts), not isinstance(node, Input)))
        if isinstance(node, ArrayLoop | Branch):
            inner.append(node)
    reads = [(leaf, node, False) for node in ids for leaf in node.inputs() if leaf.node in ids]
    reads += [(leaf, node, True) for node in inner for leaf in inner_inputs(node)]
    for leaf, node, dashed in reads:
        start, end, label = ids[leaf.node], ids[node], names.type(leaf)
        drawing.edges.append(Edge(start, end, label, dashed))
        style = "style=dashed, " if dashed else ""
        lines.append(f"  n{start} -> n{end} [{style}label={_quoted(label)}];")
    for k, leaf in enumerate(program.roots):
        drawing.edges.append(Edge(ids[leaf.node], len(drawing.boxes), names.type(leaf)))
        drawing.boxes.append(Box((f"result {k}",), kernel=False))
        lines.append(f"  out{k} [shape=ellipse, style=bold, label={_quoted(f'result {k}')}];")
        label = _quoted(names.type(leaf))
        lines.append(f"  n{ids[leaf.node]} -> out{k} [label={label}];")
    head = [
        f"digraph {_quoted(program.name)} {{",
        '  rankdir=TB; node [fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    made = Graph("\n".join([*head, *lines, "}"]) + "\n")
    made.drawing = drawing
    return made


def _box(node: Node, names: Names) -> tuple[list[str], str]:
    """The lines of a node's box, and its look."""
    if not is_kernel(node):
        return [title(node, names)], "shape=box, style=rounded"
    parts = [f"kernel {names.kernels[node]}", title(node, names)]
    parts += [f"+ {text}" for text in fused(node)]
    if node.label.schedule is not None:
        parts.append(repr(node.label.schedule))
    return parts, "shape=box"


def _quoted(*lines: str) -> str:
    escaped = "\\n".join(lines).replace('"', '\\"')
    return f'"{escaped}"'
