"""docs/reference.md has every public name, with its signature, an example, and what it gives.

`TREADLE_UPDATE_DOCS=1 pytest tests/docs` writes signatures and results into the page instead.
"""

from __future__ import annotations

import pytest

import treadle as td
from tests.docs import pages, reference_page as page


def test_every_public_name_is_there_once() -> None:
    named = [name for row in page.rows() for name in row.names]
    assert sorted(named) == sorted(page.public_names())


def test_signatures() -> None:
    wrong = {}
    for row in page.rows():
        right = " ".join(f"`{page.signature(name)}`" for name in row.names)
        if right != " ".join(f"`{text}`" for text in row.signatures):
            wrong[row.first] = right
    if pages.UPDATE:
        pages.update(page.PAGE, list(wrong.items()))
    else:
        assert not wrong


@pytest.mark.parametrize("backend", pages.BACKENDS)
def test_examples(backend: str) -> None:
    names = page.preamble()
    wrong, replacements = [], []
    with td.config(backend=backend):
        for row in page.rows():
            given = page.evaluate(row.example, names)
            if given != row.gives:
                wrong.append(f"line {row.line}: {row.example} gives {given}, not {row.gives}")
                replacements.append((row.last, given.replace("|", r"\|")))
    if pages.UPDATE and backend == pages.BACKENDS[0]:
        pages.update(page.PAGE, replacements)
    else:
        assert not wrong, "\n".join(wrong)


def test_every_row_has_a_meaning_and_the_example_uses_the_name() -> None:
    for row in page.rows():
        assert row.meaning.strip(), row
        assert any(f"td.{name}" in row.example for name in row.names), row
