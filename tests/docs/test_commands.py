"""The commands of the README and of the documentation run as printed.

`treadle …` runs here, in an empty folder with the file that a page names; `make …` is a target
(see test_docs.py); `pip install` names extras that exist, and .ci/run runs those of the README in
an environment of its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs import pages

EXTRAS = set(tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
             ["optional-dependencies"])  # fmt: skip
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM = "import treadle as td\n\n\ndef function(a, *more):\n    return td.sqrt(a)\n"


def commands(page: str) -> list[str]:
    text = (pages.ROOT / page).read_text(encoding="utf-8")
    lines = [line.partition(" #")[0].strip() for code in SHELL.findall(text)
             for line in code.splitlines()]  # fmt: skip
    return [line for line in lines if line]


PRINTED = sorted({c for page in pages.PAGES for c in commands(page) if c.startswith("treadle ")})


def test_the_readme_has_commands() -> None:
    first, *rest = commands("README.md")
    assert first.startswith("pip install ") and {"treadle doctor", "treadle explore"} <= set(rest)


@pytest.mark.parametrize(
    "command",  # .ci/run runs those of the README in any case
    [pytest.param(c, marks=[pytest.mark.long] * (c in commands("README.md"))) for c in PRINTED],
)
def test_a_command(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "true %s")  # a browser that shows nothing
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "my_program.py").write_text(PROGRAM, encoding="utf-8")
    words = [sys.executable, "-m", "treadle", *shlex.split(command)[1:]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "…" not in done.stdout, "a table is cut"


@pytest.mark.parametrize("page", pages.PAGES)
def test_extras_that_a_page_names_exist(page: str) -> None:
    text = (pages.ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"(?:pip install [^\n`]*?|')(?:\.|treadle|whl)\[([\w,]+)\]", text)
    assert {extra for group in named for extra in group.split(",")} <= EXTRAS
