"""What the tests of the documentation share: pages, the code in them, and running it."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import linecache
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import treadle as td

ROOT = Path(__file__).resolve().parents[2]
UPDATE = bool(os.environ.get("TREADLE_UPDATE_DOCS"))
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```[ ]*\n", re.MULTILINE | re.DOTALL)
NATIVE_ONLY = "<!-- native -->"
GRID = re.compile(r'^<div class="grid" markdown>$.*?^</div>$', re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs (\w+) -->\n\Z")


@dataclass(frozen=True)
class Block:
    """Python of a page, and the output that the page promises, if it promises any."""

    page: str
    line: int
    code: str
    promised: str | None
    promised_at: tuple[int, int]
    native_only: bool
    needs: str | None = None

    @property
    def file(self) -> str:
        return f"{Path(self.page).name}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    """The ```python blocks of a page, in order; a ```text block right behind one is its output.

    `<!-- native -->` above the output says that the block is to run on the native backend, and
    `<!-- needs jax -->` above a block that it runs where that package is.  Blocks side by side, in
    a <div class="grid">, all have the output behind it.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    grids = [found.span() for found in GRID.finditer(text)]
    for fence in fences:
        if fence[1] != "python":
            continue
        end = next((last for first, last in grids if first < fence.start() < last), fence.end())
        after = next((each for each in fences if each.start() >= end), None)
        between = text[end : after.start()].strip() if after else None
        follows = after is not None and after[1] == "text" and between in ("", NATIVE_ONLY)
        needs = NEEDS.search(text, 0, fence.start())
        yield Block(
            page,
            text.count("\n", 0, fence.start()) + 1,
            fence[2],
            after[2] if follows and after else None,
            after.span(2) if follows and after else (0, 0),
            between == NATIVE_ONLY,
            needs[1] if needs else None,
        )


def there(package: str | None) -> bool:
    """Whether what a block needs is installed, and for CuPy a GPU, too."""
    if package == "cupy":
        return td.backends()["cuda"].startswith("works")
    return package is None or importlib.util.find_spec(package) is not None


def execute(block: Block, names: dict[str, object]) -> str:
    """Runs a block; what it printed, and the last lines of the traceback of a treadle error."""
    lines = block.code.splitlines(keepends=True)
    linecache.cache[block.file] = (len(block.code), None, lines, block.file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(block.code, block.file, "exec"), names)
        except td.TreadleError as error:
            if block.promised is None:
                raise
            print(f"{type(error).__name__}: {error}")
    places = re.compile(re.escape(Path(block.page).name) + r":\d+")
    return _renumbered(places.sub("example.py", printed.getvalue()).rstrip("\n") + "\n")


def _renumbered(text: str) -> str:
    """The numbers of nodes, %7, in order of appearance: they count what was traced before."""
    order: dict[str, str] = {}
    return re.sub(r"%\d+", lambda m: order.setdefault(m[0], f"%{len(order)}"), text)


def agrees(promised: str, printed: str) -> bool:
    """Equal but for the end of lines; `...` in the promise stands for anything."""
    ends = [re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) for text in (promised, printed)]
    return doctest.OutputChecker().check_output(*ends, doctest.ELLIPSIS)


def update(page: str, replacements: list[tuple[tuple[int, int], str]]) -> None:
    """Writes new text into a page, at places counted in the old text."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    for (first, last), new in sorted(replacements, reverse=True):
        text = text[:first] + re.sub(r"[ \t]+$", "", new, flags=re.MULTILINE) + text[last:]
    path.write_text(text, encoding="utf-8")


def native_works() -> bool:
    """Whether the native backend is there."""
    return td.backends()["native"].startswith("works")


BACKENDS = ["reference", "native"] if native_works() else ["reference"]
