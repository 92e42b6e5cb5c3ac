"""The documentation site: its navigation is complete, docstrings become Markdown, it builds."""

from __future__ import annotations

import importlib.util
import inspect
import operator
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treadle as td
from docs.site import docstrings
from tests.docs import pages, reference_page

CONFIG = pages.ROOT / "mkdocs.yml"


def test_what_the_navigation_names_is_there() -> None:
    """Pages without a line of their own are appended to the guide."""
    listed = set(re.findall(r"[\w/-]+\.md", CONFIG.read_text(encoding="utf-8").split("\nnav:")[1]))
    written = {path.name for path in (pages.ROOT / "docs").glob("*.md")}
    placed = {"index.md", "contributing.md", "changelog.md"}
    notebooks = {f"notebooks/{p.stem}.md" for p in (pages.ROOT / "docs/notebooks").glob("*.ipynb")}
    assert listed <= written | placed | notebooks
    assert placed | notebooks <= listed


def test_a_docstring_becomes_markdown() -> None:
    def f(a: int, *, b: str = "x") -> int:
        """Add ``a`` and b[0].

        Parameters
            a, b: numbers; those
                of two lines, too.

        Raises
            ValueError: never.

        >>> 1 + 1
        2
        """
        return a

    assert docstrings.signature("f", f) == "```python\ntd.f(a: int, *, b: str = x) -> int\n```"
    assert docstrings.markdown(inspect.getdoc(f) or "", f) == (
        "Add `a` and b\\[0].\n\n**Parameters**\n\n- `a`, `b`: numbers; those\n    of two lines, "
        "too."
        "\n\n**Raises**\n\n- `ValueError`: never.\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def test_every_docstring_becomes_markdown() -> None:
    for name in reference_page.public_names():
        thing = operator.attrgetter(name)(td)
        text = docstrings.markdown(inspect.getdoc(thing) or "", thing)
        assert text.count("```") % 2 == 0, name
        assert docstrings.signature(name, thing).startswith(f"```python\ntd.{name}"), name


@pytest.mark.skipif(
    not all(importlib.util.find_spec(p) for p in ("mkdocs", "material", "nbclient", "ipykernel")),
    reason="needs the extra docs: `make docs`",
)
def test_the_site_builds(tmp_path: Path) -> None:
    """Strictly: a dead link, a lost heading or a notebook that fails is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir",
               str(tmp_path / "site"), "--config-file", str(CONFIG)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=pages.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "td.stencil" in (tmp_path / "site/reference/stencils.html").read_text(encoding="utf-8")
    assert (tmp_path / "site/explore.html").exists()
