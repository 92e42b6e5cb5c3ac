"""`Any` is for what has any type by nature: the count of a folder only falls."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Uses of `Any` in each folder.  Lower the number when there are fewer; types of what is any by
#: nature have names (`backend/runtime/types.py`, `dsl/annotations.py`), which count once.
MOST = {"dsl": 934, "skeletons": 344, "backend": 550, "treadle": 168}
#: Modules about objects of a library without types.
UNTYPED = {"backend/blocks", "backend/dask"}


def uses(folder: str) -> int:
    return sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in (ROOT / folder).rglob("*.py")
        if not any(ROOT / other in path.parents for other in UNTYPED)
        and not any(parent.is_symlink() for parent in path.parents)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


@pytest.mark.parametrize("folder", MOST)
def test_any_becomes_less(folder: str) -> None:
    assert uses(folder) <= MOST[folder]
