"""pyproject.toml lists every folder of the package, and the wheel's version is the package's."""

from __future__ import annotations

import tomllib
from pathlib import Path

import treadle as td

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DRIVER = ("treadle/driver", "treadle/explore", "treadle/tuning")
FOLDERS = ("dsl", "backend", "skeletons", "examples")
DATA = (".cu", ".cuh", ".c", ".h", ".html", ".css", ".js", ".ll")


def test_every_folder_is_packaged() -> None:
    folders = {
        path.parent.relative_to(ROOT)
        for top in (*FOLDERS, *DRIVER)
        for path in (ROOT / top).rglob("*")
        if path.suffix == ".py" or path.suffix in DATA
    }
    found = {"treadle." + ".".join(folder.parts).removeprefix("treadle.") for folder in folders}
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == listed, "in order, please"
    assert set(listed) == found | {"treadle"}


def test_data_files_are_packaged() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    for top in (*FOLDERS, *DRIVER):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in DATA:
                parts = path.parent.relative_to(ROOT).parts
                package = "treadle." + ".".join(parts).removeprefix("treadle.")
                assert f"*{path.suffix}" in patterns[package], path


def test_folders_have_links() -> None:
    for top in FOLDERS:
        assert (ROOT / "treadle" / top).resolve() == ROOT / top


def test_the_changelog_knows_this_version() -> None:
    assert f"## [{td.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
