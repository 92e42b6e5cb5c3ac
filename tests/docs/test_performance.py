"""The numbers of README.md and docs/performance.md are what the committed results say."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import readme

    for page in readme.PARTS:
        text = page.read_text(encoding="utf-8")
        assert readme.written(page) == text, "run python -m benchmarks.readme"


def test_the_page_of_products_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.matmul import page as products

    page = products.PAGE.read_text(encoding="utf-8")
    assert products.written(page) == page, "run python -m benchmarks.matmul.page"


def test_the_page_of_npbench_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.npbench import page

    assert page.PAGE.exists() == bool(page.newest()), "run python -m benchmarks.npbench.page"
    if page.PAGE.exists():
        text = page.PAGE.read_text(encoding="utf-8")
        assert page.written() == text, "run python -m benchmarks.npbench.page"


def test_tables_beside_the_results_are_what_the_results_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import readme, reporting

    for kind in ("gpu", "cpu"):
        path, _ = readme.newest(kind)
        text = path.with_suffix(".md").read_text(encoding="utf-8")
        assert readme.retold(path) == text, "run python -m benchmarks.readme"
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        assert {line.replace(r"\|", "").count("|") for line in rows} == {len(reporting.HEADS) + 1}


def test_a_wrong_peer_stands_apart(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.harness import Row, Timing
    from benchmarks.reporting import cells

    def took(seconds, error):
        return Timing(seconds, seconds, seconds, seconds, 3, error)

    peers = {"fast": took(1e-3, 1.0), "slow": took(4e-3, 0.0), "unchecked": took(3e-3, None)}
    row = Row("work", "group", took(2e-3, 0.0), peers)
    assert cells(row)[2] == "unchecked 3, slow 4; wrong: fast 1"
