"""Every piece of Python in the README and the docs runs, and prints what the page says.

`TREADLE_UPDATE_DOCS=1 pytest tests/docs` writes what is printed into the pages instead.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from tests.docs import pages
from treadle.dsl.process.environment import VARIABLES

FOLDERS = ("dsl", "skeletons", "backend", "treadle", "tests", "examples", "benchmarks", "docs")


@pytest.mark.parametrize("backend", pages.BACKENDS)
@pytest.mark.parametrize("page", pages.PAGES)
def test_code(page: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    replacements = []
    with np.printoptions():
        for block in pages.blocks(page):
            if block.native_only and not pages.native_works():
                continue
            if not pages.there(block.needs):
                compile(block.code, block.file, "exec")
                continue
            with td.config(backend="native" if block.native_only else backend):
                printed = pages.execute(block, names).replace("'native', 'cuda'.", "'native'.")
            if block.promised is None or pages.agrees(block.promised, printed):
                continue
            if pages.UPDATE and backend == pages.BACKENDS[0]:
                replacements.append((block.promised_at, printed))
                continue
            pytest.fail(
                f"{page}:{block.line} on {backend} prints\n{printed}\n"
                f"but the page says\n{block.promised}",
                pytrace=False,
            )
    if replacements:
        pages.update(page, replacements)


@pytest.mark.parametrize("page", pages.PAGES)
def test_links(page: str) -> None:
    """What a page links to or shows is there, and so is the heading that a link names."""
    text = (pages.ROOT / page).read_text(encoding="utf-8")
    for target, heading in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" in target:
            continue
        path = (pages.ROOT / page).parent / target if target else pages.ROOT / page
        assert path.exists(), f"{page} links to {target}"
        if heading:
            found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in found]
            assert heading in slugs, f"{page} links to {target}#{heading}"


def test_make_targets() -> None:
    """The commands that the pages tell a reader to type exist."""
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for page in pages.PAGES:
        text = (pages.ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{page} says `make {target}`"


def test_the_design_lists_the_passes() -> None:
    """docs/design.md has a row for every pass, in order."""
    from treadle.dsl.passes import PASSES

    text = (pages.ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [name for name, _ in PASSES]


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_the_map_is_of_this_tree(page: str) -> None:
    """Files and folders that a page names exist, and define what it says that they do."""
    text = (pages.ROOT / page).read_text(encoding="utf-8")
    found = (path for folder in FOLDERS for path in (pages.ROOT / folder).rglob("*"))
    files = [path.relative_to(pages.ROOT) for path in found if "__pycache__" not in path.parts]
    known = {f"/{path.as_posix()}{'/' * (pages.ROOT / path).is_dir()}" for path in files}
    known |= {f"/{path.name}" for path in pages.ROOT.iterdir()} | {f"/{f}/" for f in FOLDERS}
    named = re.findall(r"`([\w./-]+(?:/|\.py|\.c|\.html|\.md|\.toml))`", text)
    gone = {name for name in named if not any(k.endswith(f"/{name}") for k in known)}
    assert len(named) > 20 and not gone
    for symbol, name in re.findall(r"`(\w+)`\s+in\s+`([\w./-]+\.py)`", text):
        named = [f for f in files if f"/{f.as_posix()}".endswith(f"/{name}")]
        sources = [(pages.ROOT / f).read_text(encoding="utf-8") for f in named]
        assert any(re.search(rf"\b{symbol}\b", s) for s in sources), f"{symbol} in {name}"


def test_the_guide_lists_the_environment() -> None:
    """docs/guide.md has a row for every environment variable that the package reads."""
    text = (pages.ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    folders = ("dsl", "backend", "skeletons", "treadle", "examples")
    sources = [path.read_text(encoding="utf-8") for folder in folders
               for path in (pages.ROOT / folder).rglob("*.py")]  # fmt: skip
    read = {n for source in sources for n in re.findall(r"variable\(\"(TREADLE_\w+)", source)}
    assert read == set(VARIABLES)
    assert read == set(re.findall(r"^\| `(TREADLE_\w+)` \|", text, re.MULTILINE))
    assert not any(re.search(r"environ\W.*\bTREADLE_", source) for source in sources)


def test_every_error_is_shown() -> None:
    """docs/errors.md has a section and a row for every class of error."""
    text = (pages.ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    classes = {
        name
        for name, value in vars(td).items()
        if isinstance(value, type) and issubclass(value, td.TreadleError)
    } - {"TreadleError"}
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == classes
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == classes
