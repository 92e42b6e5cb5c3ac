"""The examples in the docstrings of the package run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import treadle as td
from tests.docs import pages

MODULES = (
    ["treadle"]
    + [
        "treadle." + ".".join(path.relative_to(pages.ROOT).with_suffix("").parts)
        for top in ("dsl", "backend", "skeletons")
        for path in sorted((pages.ROOT / top).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    + ["treadle.driver.program"]
)


@pytest.mark.parametrize("backend", pages.BACKENDS)
@pytest.mark.parametrize("name", MODULES)
def test_docstrings(
    name: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("", "treadle"):
            raise
        pytest.skip(f"needs {missing.name}")
    with td.config(backend=backend):
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
