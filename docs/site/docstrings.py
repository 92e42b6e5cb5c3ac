"""Docstrings as Markdown: what `help` prints, with headings, lists and highlighted examples."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

HEADS = ("Parameters", "Args", "Attributes", "Returns", "Result", "Raises", "Errors", "Notes",
         "Example", "Examples", "See also", "See Also")  # fmt: skip
HEAD = re.compile(rf"({'|'.join(HEADS)}):?")
#: `name, other: what it is`, or `name : type` with the text below, as NumPy writes it.
ITEM = re.compile(r"(\*{0,2}[A-Za-z_][\w.*]*(?:, \*{0,2}[\w.*]+)*)(?: ?: | :$|:$)(.*)")
DOCTEST = re.compile(r">>> ")


def signature(name: str, thing: Any) -> str:
    """How the name is called, as a highlighted block; types without their modules."""
    try:
        text = str(inspect.signature(thing)) if callable(thing) else ""
    except ValueError:
        text = ""
    text = re.sub(r"\b(?:[a-z_]+\.)+([A-Z]\w*)", r"\1", text.replace("'", ""))
    if inspect.isclass(thing):
        text = text.removesuffix(" -> None")
    whole = f"td.{name}{text}"
    if len(whole) > 88:
        inner, _, result = text[1:].rpartition(")")
        arguments = "".join(f"    {part},\n" for part in _arguments(inner))
        whole = f"td.{name}(\n{arguments}){result}"
    return f"```python\n{whole}\n```"


def _arguments(text: str) -> Iterator[str]:
    """The parts between the commas that are not within brackets."""
    depth, start = 0, 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            yield text[start:k].strip()
            start = k + 1
    yield text[start:].strip()


def markdown(text: str, thing: Any) -> str:
    """The docstring, whose sections are headed by a line of their own."""
    own = getattr(thing, "__doc__", None)
    if not text or (not callable(thing) and own == type(thing).__doc__):
        return ""
    parts: list[str] = []
    for block in _blocks(text.expandtabs().splitlines()):
        head = HEAD.fullmatch(block[0])
        if head:
            rest = block[1:]
            if rest and not rest[0].strip("- "):
                rest = rest[1:]
            parts += [f"**{head[1]}**", _section(textwrap.dedent("\n".join(rest)))]
        elif DOCTEST.match(block[0].lstrip()):
            parts.append(f"```pycon\n{textwrap.dedent(chr(10).join(block))}\n```")
        elif all(line.startswith("    ") for line in block):
            parts.append(f"```text\n{textwrap.dedent(chr(10).join(block))}\n```")
        else:
            parts.append(_plain("\n".join(block)))
    return "\n\n".join(filter(None, parts))


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs and sections; a section ends where its indentation does, or at the next head."""
    block: list[str] = []
    for line in lines:
        within = bool(block) and bool(HEAD.fullmatch(block[0]))
        underlined = within and len(block) > 1 and not block[1].strip("- ")
        ends = not line.startswith(" ") and line.strip("- ") and not underlined
        if block and (HEAD.fullmatch(line) or (ends if within else not line.strip())):
            yield block
            block = []
        if line.strip() or within:
            block.append(line)
    if block:
        yield block


def _section(text: str) -> str:
    if any(DOCTEST.match(line) for line in text.splitlines()):
        return "\n\n".join(
            f"```pycon\n{part}\n```" if DOCTEST.match(part) else part
            for part in filter(None, map(str.strip, re.split(r"\n\n+", text)))
        )
    items: list[str] = []
    for line in text.strip().splitlines():
        item = ITEM.fullmatch(line)
        if item:
            names = ", ".join(f"`{n}`" for n in item[1].split(", "))
            items.append(f"- {names}: {_plain(item[2].strip())}".rstrip())
        elif items:
            items.append(f"    {_plain(line.strip())}")
        else:
            items.append(_plain(line))
    return "\n".join(items)


def _plain(text: str) -> str:
    """Double backticks are single ones in Markdown; what looks like HTML or a link is neither."""
    text = text.replace("``", "`")
    return re.sub(r"`[^`]*`|[<\[]", lambda m: m[0] if len(m[0]) > 1 else "\\" + m[0], text)
