"""The notebooks of the documentation run from the top, and are stored without outputs.

`make docs` runs them in a kernel of Jupyter and shows what they print and draw; here their code
runs as plain Python, so this needs no Jupyter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import treadle as td
from tests.docs import pages

NOTEBOOKS = sorted((pages.ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


def test_there_are_three() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"first-hour", "schedules", "products"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_code(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    with td.config(backend="native" if pages.native_works() else "reference"):
        for number, cell in enumerate(cells(path)):
            if cell["cell_type"] != "code":
                continue
            block = pages.Block(path.name, number, "".join(cell["source"]), "", (0, 0), False)
            printed = pages.execute(block, names)
            assert "Error: " not in printed or "try:" in block.code, printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path: Path) -> None:
    for cell in cells(path):
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_begin_with_a_title(path: Path) -> None:
    assert "".join(cells(path)[0]["source"]).startswith("# ")
