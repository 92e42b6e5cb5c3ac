"""Which treadle this is: another version, and a file that was edited, added or removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treadle.backend.runtime import disk_cache as module


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation of a few files."""
    for name in ("backend/runtime/disk_cache.py", "backend/native/team.ll", "dsl/a.py",
                 "skeletons/b.py", "backend/cuda/c.py", "dsl/notes.txt"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "backend/runtime/disk_cache.py"))
    yield tmp_path
    module.sources.cache_clear()


def now() -> str:
    module.sources.cache_clear()
    return module.sources()


def touched(path: Path) -> None:
    os.utime(path, ns=(7, 7))


@pytest.mark.parametrize("change", [
    lambda root: (root / "dsl/a.py").write_bytes(b"12"),
    lambda root: touched(root / "skeletons/b.py"),
    lambda root: touched(root / "backend/native/team.ll"),
    lambda root: (root / "dsl/new.py").write_bytes(b""),
    lambda root: (root / "dsl/a.py").unlink(),
    lambda root: (root / "dsl/a.py").rename(root / "dsl/z.py"),
])  # fmt: skip
def test_another_treadle(made: Path, change: Callable[[Path], object]) -> None:
    before = now()
    assert now() == before
    change(made)
    assert now() != before


def test_what_decides_nothing(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = now()
    (made / "backend/cuda/c.py").write_bytes(b"another")
    (made / "dsl/notes.txt").write_bytes(b"another")
    (made / "dsl/LICENSE").write_bytes(b"a file")
    assert now() == before
    monkeypatch.setattr(module, "VERSION", "another")
    assert now() != before
