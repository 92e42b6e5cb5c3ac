"""The tables of docs/reference.md: names, signatures, examples and what they give."""

from __future__ import annotations

import ast
import inspect
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from tests.docs import pages

PAGE = "docs/reference.md"
MODULES = ("fft", "linalg", "random", "schedule")  # with names of their own
SAID_ONCE = ("name", "schedule")  # of every operation: the page says so at its top
ROW = re.compile(r"^\| (`.*?`) \| (.+) \| `(.+)` \| `(.+)` \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    line: int
    signatures: tuple[str, ...]
    meaning: str
    example: str
    gives: str
    first: tuple[int, int]
    last: tuple[int, int]

    @property
    def names(self) -> list[str]:
        return [text.partition("(")[0] for text in self.signatures]


def rows() -> Iterator[Row]:
    """Every row of the page; the pipes in its cells unescaped."""
    text = (pages.ROOT / PAGE).read_text(encoding="utf-8")
    for found in ROW.finditer(text):
        cells = [cell.replace(r"\|", "|") for cell in found.groups()]
        line = text.count("\n", 0, found.start()) + 1
        signatures = tuple(re.findall(r"`(.+?)`", cells[0]))
        yield Row(line, signatures, *cells[1:], found.span(1), found.span(4))


def preamble() -> dict[str, Any]:
    """The names that the examples share: those of the page's first block."""
    names: dict[str, Any] = {}
    exec(next(iter(pages.blocks(PAGE))).code, names)
    return names


def signature(name: str) -> str:
    """As the page writes it: without types, and without what it says once for all operations."""
    thing = operator.attrgetter(name)(td)
    if inspect.isclass(thing):
        if not issubclass(thing, td.schedule.Layer) or thing is td.schedule.Layer:
            return name
    elif not inspect.isroutine(thing):
        return name
    parts, starred = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.name in SAID_ONCE and p.kind is p.KEYWORD_ONLY and name != "run":
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(prefix + p.name + ("" if p.default is p.empty else f"={_short(p.default)}"))
    return f"{name}({', '.join(parts)})"


def _short(default: Any) -> str:
    if inspect.isclass(default):
        return default.__name__
    if default is td.overwrite:
        return "overwrite"
    return repr(default).removeprefix("td.")


def evaluate(example: str, names: dict[str, Any]) -> str:
    """What an example gives, as the page writes it; of `with …: expression`, the expression."""
    statement = ast.parse(example).body[0]
    inner = statement.body if isinstance(statement, ast.With) else [statement]
    inner[-1] = ast.parse(f"result = {ast.unparse(inner[-1])}").body[0]
    body = [statement] if isinstance(statement, ast.With) else inner
    names = dict(names)
    exec(compile(ast.Module(body, []), "example", "exec"), names)
    value = names["result"]
    return shown(value if not _traced(value) else td.run(value))


def _traced(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_traced, value))
    return isinstance(value, td.Array | td.Scalar)


def shown(value: Any) -> str:
    """Lists for arrays, floats to six digits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, np.ndarray | np.generic):
        return shown(value.tolist())
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def public_names() -> set[str]:
    """Of the package and of its public modules; without submodules that happen to be imported."""
    of_package = {
        name for name in dir(td) if not name.startswith("_")
        if name in ("simulator", *MODULES) or not inspect.ismodule(getattr(td, name))
    }  # fmt: skip
    return of_package | {f"{m}.{name}" for m in MODULES for name in getattr(td, m).__all__}
