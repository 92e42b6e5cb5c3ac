"""The tables of README.md are what the committed results say."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import readme

    page = readme.PAGE.read_text()
    assert readme.written(page) == page, "run python -m benchmarks.readme"


def test_the_page_of_products_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.matmul import page as products

    page = products.PAGE.read_text()
    assert products.written(page) == page, "run python -m benchmarks.matmul.page"
