"""What `make docs` adds to the pages in docs/ (hooks of mkdocs).

- README.md is the home page; CONTRIBUTING.md and CHANGELOG.md are pages, too.
- A link to a file outside docs/ leads to a copy on the site: Python highlighted, Markdown as a
  page.
- The notebooks are run, and shown with what they print and draw; a cell that fails ends the build.
- The reference has a page for each section of docs/reference.md, made of the docstrings of the
  names in its table, and the table links to it.
- The explorer's page is built, and linked where a page says <!-- explorer -->.
"""

from __future__ import annotations

import inspect
import operator
import os
import re
import sys
from functools import cache
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.site import docstrings, notebooks  # noqa: E402

#: Pages made of files of the repository: where they stand on the site.
PLACED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md",
          "CHANGELOG.md": "changelog.md"}  # fmt: skip
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
FENCED = re.compile(r"^```.*?^```[ ]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| (`.*?`) \| (.+) \| (`.+`) \| (`.+`) \|$", re.MULTILINE)
EXPLORER = "explore.html"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds to the navigation: the sections of the reference, and to the guide what has no place."""
    listed = set(re.findall(r"[\w/-]+\.md", str(config.nav)))
    others = [p.name for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in listed]
    for entry in config.nav or []:
        entry.get("Reference", []).extend({title: uri} for title, uri in _sections())
        entry.get("Guide", []).extend(others)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and the files that are not in docs/."""
    made = Made(files, config)
    for source, uri in PLACED.items():
        made.page(uri, ROOT / source)
    for file in list(files.documentation_pages()):
        if file.generated_by is None:
            made.links(file.src_uri, ROOT / "docs" / file.src_uri)
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        text = notebooks.page(notebook)
        made.text(f"notebooks/{notebook.stem}.md", text)
    for title, uri in _sections():
        made.text(uri, _section_page(title))
    made.text("assets/treadle.css", (ROOT / "docs" / "site" / "treadle.css").read_text("utf-8"))
    from treadle import explore

    made.text(EXPLORER, explore.page(explore.presets()))
    return files


class Made:
    """The files that are added, and from which file of the repository each comes."""

    def __init__(self, files: Files, config: MkDocsConfig) -> None:
        self.files, self.config = files, config

    def text(self, uri: str, text: str) -> None:
        self.files.append(File.generated(self.config, uri, content=text))

    def page(self, uri: str, source: Path) -> None:
        """A Markdown file of the repository, at `uri`, with all that it links to."""
        ORIGIN[uri] = source
        self.text(uri, source.read_text(encoding="utf-8"))
        self.links(uri, source)

    def links(self, uri: str, source: Path) -> None:
        ORIGIN[uri] = source
        for target in _targets(source.read_text(encoding="utf-8"), source):
            place = _place(target)
            if target.is_relative_to(ROOT / "docs") or self.files.get_file_from_path(place):
                continue
            if target.suffix == ".md":
                self.page(place, target)
            elif place.endswith(".md"):
                self.text(place, _code_page(target))
            else:
                self.files.append(File.generated(self.config, place, abs_src_path=str(target)))


#: The file of the repository that a page was made from, by its place on the site.
ORIGIN: dict[str, Path] = {}


def _targets(text: str, source: Path) -> list[Path]:
    found = []
    for match in LINK.finditer(FENCED.sub("", text)):
        path = Path(os.path.normpath(source.parent / match[2]))
        if "://" not in match[2] and path.exists():
            found.append(path)
    return found


def _place(target: Path) -> str:
    """Where a file of the repository stands on the site."""
    name = target.relative_to(ROOT).as_posix()
    if name in PLACED:
        return PLACED[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/").replace(".ipynb", ".md")
    plain = target.suffix in (".md", ".json", ".png", ".svg")
    return f"source/{name}" if plain else f"source/{name}.md"


def _code_page(target: Path) -> str:
    name = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        listed = sorted(p for p in target.glob("*.py") if not p.name.startswith("_"))
        return "\n\n".join([f"# {name}/", *map(_listing, listed)])
    return f"# {name}\n\n{_listing(target, titled=False)}"


def _listing(path: Path, titled: bool = True) -> str:
    title = f"## {path.name}\n\n" if titled else ""
    language = {".py": "python", ".hs": "haskell"}.get(path.suffix, "text")
    return f"{title}````{language}\n{path.read_text(encoding='utf-8')}````"


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository become links on the site."""
    uri = page.file.src_uri
    if uri == "reference.md":
        text = _linked_tables(text)
    if uri in ORIGIN:
        text = _relinked(text, uri, ORIGIN[uri])
    # Pipes in code are no borders of cells here; on GitHub they need a backslash.
    text = re.sub(r"^\|.*$", lambda row: CODE.sub(_pipes, row[0]), text, flags=re.MULTILINE)
    return text.replace("<!-- explorer -->", f"[Open the explorer]({EXPLORER}){{ .md-button }}")


def _pipes(code: re.Match[str]) -> str:
    return code[0].replace(r"\|", "|")


def _relinked(text: str, uri: str, source: Path) -> str:
    def link(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(source.parent / match[2]))
        if "://" in match[2] or not path.is_relative_to(ROOT) or not path.exists():
            return match[0]
        return f"{match[1]}{_relative(_place(path), uri)}{match[3] or ''}{match[4]}"

    parts, end = [], 0
    for code in FENCED.finditer(text):
        parts += [LINK.sub(link, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def _relative(place: str, uri: str) -> str:
    return PurePosixPath(os.path.relpath(place, PurePosixPath(uri).parent)).as_posix()


# The reference


@cache
def _tables() -> dict[str, str]:
    """The text of each section of docs/reference.md."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    _, *rest = SECTION.split(text)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def _sections() -> list[tuple[str, str]]:
    return [(title, f"reference/{_slug(title)}.md") for title in _tables()]


def _slug(title: str) -> str:
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def _rows(text: str) -> list[tuple[list[str], str, str, str]]:
    """Names, meaning, example and result of every row."""
    found = []
    for cells in ROW.findall(text):
        signatures, meaning, example, result = (c.replace(r"\|", "|") for c in cells)
        names = [s.partition("(")[0] for s in re.findall(r"`(.+?)`", signatures)]
        found.append((names, meaning, example.strip("`"), result.strip("`")))
    return found


def _places() -> dict[str, str]:
    """The page and the heading of each public name."""
    return {
        name: f"{uri}#{_slug('td.' + name)}"
        for title, uri in _sections()
        for names, *_ in _rows(_tables()[title])
        for name in names
    }


def _linked_tables(text: str) -> str:
    places = _places()

    def row(match: re.Match[str]) -> str:
        linked = re.sub(r"`([\w.]+)([^`]*)`", lambda m: f"[{m[0]}]({places[m[1]]})", match[1])
        return match[0].replace(match[1], linked, 1)

    return ROW.sub(row, text)


def _section_page(title: str) -> str:
    """Every name of a section, with its docstring, and the example of the table."""
    import treadle as td

    parts = [f"# {title}", _tables()[title].partition("\n|")[0]]
    for names, meaning, example, result in _rows(_tables()[title]):
        for name in names:
            thing = operator.attrgetter(name)(td)
            parts += [f"## td.{name}", docstrings.signature(name, thing)]
            text = docstrings.markdown(inspect.getdoc(thing) or "", thing)
            parts.append(text if text else f"{meaning}.")
            if f"td.{name}" in example and ">>>" not in text:
                parts.append(f"```pycon\n>>> {example}  # gives {result}\n```")
    return _moved_links("\n\n".join(parts))


def _moved_links(text: str) -> str:
    """Links of a page of docs/, seen from docs/reference/."""
    return re.sub(r"\]\((?!\w+:|#)([^)]+\.md)", r"](../\1", text)
