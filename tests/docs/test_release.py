"""The release script refuses what is not a release.  `.ci/run` builds one with it."""

from __future__ import annotations

import hashlib
import importlib.util
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import treadle as td
from tests.docs.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = script()


def wheel_of(project: dict) -> list[str]:
    """The names that a complete wheel has at least."""
    tool = project["tool"]["setuptools"]
    data = tool["package-data"]
    names = [f"{p.replace('.', '/')}/a.py" for p in tool["packages"] if p not in data]
    for package, patterns in data.items():
        names += [f"{package.replace('.', '/')}/{p.replace('*', 'x')}" for p in patterns]
    return [*names, "treadle-0.1.0.dist-info/METADATA"]


def test_versions_agree() -> None:
    assert release.version(ROOT) == td.__version__


@pytest.mark.parametrize(
    ("file", "reason"),
    [("CHANGELOG.md", "CHANGELOG.md has no section"), ("CITATION.cff", "CITATION.cff is not of")],
)
def test_a_version_that_a_file_does_not_know(tmp_path: Path, file: str, reason: str) -> None:
    (tmp_path / "dsl").mkdir()
    for name in ("dsl/__init__.py", "CHANGELOG.md", "CITATION.cff"):
        text = (ROOT / name).read_text(encoding="utf-8")
        changed = text.replace(td.__version__, "9.9.9") if name == file else text
        (tmp_path / name).write_text(changed, encoding="utf-8")
    with pytest.raises(release.Refused, match=reason):
        release.version(tmp_path)


def test_a_wheel_has_all_and_nothing_else() -> None:
    names = wheel_of(PROJECT)
    release.check_wheel(names, PROJECT)
    with pytest.raises(release.Refused, match="do not belong"):
        release.check_wheel([*names, "tests/conftest.py"], PROJECT)
    with pytest.raises(release.Refused, match="do not belong"):
        release.check_wheel([*names, "treadle/__pycache__/cli.cpython-311.pyc"], PROJECT)
    for lost in (n for n in names if "dist-info" not in n):
        with pytest.raises(release.Refused, match="lacks"):
            release.check_wheel([n for n in names if n != lost], PROJECT)


def test_a_source_archive_has_what_tests_need() -> None:
    release.check_source(release.IN_SOURCE)
    with pytest.raises(release.Refused, match="lacks"):
        release.check_source(release.IN_SOURCE[1:])


def test_links() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    urls = tomllib.loads(release.with_links(text, "https://example.org/treadle/"))["project"][
        "urls"
    ]
    assert urls["Issues"] == "https://example.org/treadle/issues" and len(urls) == 5
    with pytest.raises(release.Refused, match="https"):
        release.with_links(text, "example.org")


def test_contents_and_checksums(tmp_path: Path) -> None:
    wheel, source = tmp_path / "a-1-py3-none-any.whl", tmp_path / "a-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("a/__init__.py", "x = 1\n")
    with tarfile.open(source, "w:gz") as archive:
        archive.add(wheel, "a-1/inner.whl")
    release.describe([wheel, source], tmp_path)
    listed = (tmp_path / "CONTENTS.txt").read_text(encoding="utf-8").splitlines()
    assert listed[:2] == [f"{wheel.name}: 1 files, 6 bytes unpacked", "         6 a/__init__.py"]
    assert listed[3].endswith(" inner.whl")
    first = (tmp_path / "SHA256SUMS").read_text(encoding="utf-8").splitlines()[0]
    assert first == f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}"
