"""Builds a release into dist/: the wheel, the source archive, what is in them, and checksums.

    python .ci/release.py [--home URL] [--out dist] [--dirty] [--try PYTHON ...]

Builds what is committed (with --dirty, the files as they are), so nothing that lies around gets
into an archive; the wheel is built from the source archive.  Then it checks that

- the version stands in CHANGELOG.md and CITATION.cff;
- the wheel has every package and every data file of pyproject.toml, and nothing but treadle/;
- the source archive has the tests, the documentation and the licence.

--home is the address of the repository, for the links of the metadata; the tree does not know it.
With the same commit and the same tools, the same bytes come out: times are those of the commit.
--try installs the wheel in a new environment of each Python that is named, and runs `treadle
doctor`
there.  CONTENTS.txt has a line for each file in each archive, with its size; SHA256SUMS is for
`sha256sum -c`.  Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What the source archive is for, beside the package.
IN_SOURCE = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "Makefile",
             "mkdocs.yml", "docs/guide.md", "tests/conftest.py", "examples/canny.py",
             "backend/native/runtime/replay.c")  # fmt: skip
NEVER = re.compile(r"__pycache__|\.pyc$|(^|/)\.venv/|\.so$|(^|/)build/|treadle-output/")


class Refused(Exception):
    """What keeps this from being a release."""


def version(root: Path) -> str:
    """The version, which the changelog and the citation have to know."""
    text = (root / "dsl" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^VERSION = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise Refused("dsl/__init__.py has no line VERSION = …")
    if f"## [{found[1]}]" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise Refused(f"CHANGELOG.md has no section [{found[1]}]")
    if f"\nversion: {found[1]}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        raise Refused(f"CITATION.cff is not of version {found[1]}")
    return found[1]


def with_links(pyproject: str, home: str) -> str:
    """pyproject.toml with the links of a repository."""
    home = home.rstrip("/")
    if not re.fullmatch(r"https://[\w./-]+", home):
        raise Refused(f"--home needs an address with https://, got {home}")
    links = {"Homepage": home, "Source": home, "Issues": f"{home}/issues",
             "Documentation": f"{home}/blob/main/docs/guide.md",
             "Changelog": f"{home}/blob/main/CHANGELOG.md"}  # fmt: skip
    lines = "".join(f'{name} = "{address}"\n' for name, address in links.items())
    head, mark, rest = pyproject.partition("[project.optional-dependencies]\n")
    return f"{head}[project.urls]\n{lines}\n{mark}{rest}"


def contents(path: Path) -> dict[str, int]:
    """The files of an archive with their sizes; of a source archive, without its folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {i.filename: i.file_size for i in wheel.infolist() if not i.is_dir()}
    with tarfile.open(path) as archive:
        return {m.name.partition("/")[2]: m.size for m in archive if m.isfile() or m.issym()}


def check_wheel(names: Sequence[str], project: dict) -> None:
    """Every package, every kind of data, and nothing else."""
    strange = [n for n in names if not re.match(r"treadle(/|-[^/]+\.dist-info/)", n)]
    strange += [n for n in names if NEVER.search(n)]
    if strange:
        raise Refused(f"the wheel has files that do not belong there: {strange[:5]}")
    tool = project["tool"]["setuptools"]
    folders = {n.rpartition("/")[0] for n in names}
    missing = [p for p in tool["packages"] if p.replace(".", "/") not in folders]
    for package, patterns in tool["package-data"].items():
        folder = package.replace(".", "/")
        for pattern in patterns:
            form = re.escape(f"{folder}/{pattern}").replace(r"\*", "[^/]*")
            if not any(re.fullmatch(form, n) for n in names):
                missing.append(f"{folder}/{pattern}")
    if missing:
        raise Refused(f"the wheel lacks {missing[:5]}")


def check_source(names: Sequence[str]) -> None:
    missing = [n for n in IN_SOURCE if n not in names]
    if missing:
        raise Refused(f"the source archive lacks {missing}")
    strange = [n for n in names if NEVER.search(n)]
    if strange:
        raise Refused(f"the source archive has files that do not belong there: {strange[:5]}")


def describe(paths: Sequence[Path], out: Path) -> None:
    """CONTENTS.txt and SHA256SUMS."""
    lines, sums = [], []
    for path in paths:
        found = contents(path)
        lines.append(f"{path.name}: {len(found)} files, {sum(found.values()):,} bytes unpacked")
        lines += [f"{size:>10} {name}" for name, size in sorted(found.items())]
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    (out / "CONTENTS.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def build(out: Path, home: str | None, dirty: bool) -> list[Path]:
    """The archives, checked and described."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "treadle"
        _copy(tree, dirty)
        if home:
            file = tree / "pyproject.toml"
            file.write_text(with_links(file.read_text("utf-8"), home), encoding="utf-8")
        named = version(tree)
        made = Path(scratch) / "dist"
        command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(made), str(tree)]
        subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": _time()})
        wheel, source = made / f"treadle-{named}-py3-none-any.whl", made / f"treadle-{named}.tar.gz"
        project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
        check_wheel(list(contents(wheel)), project)
        check_source(list(contents(source)))
        _normalise(source, int(_time()))
        out.mkdir(parents=True, exist_ok=True)
        paths = [Path(shutil.copy2(path, out)) for path in (wheel, source)]
    describe(paths, out)
    return paths


def _normalise(path: Path, when: int) -> None:
    """The same files in a fixed order, of nobody, and with one time: the same bytes every time."""
    with tarfile.open(path) as archive:
        members = [(m, archive.extractfile(m).read() if m.isfile() else b"") for m in archive]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in sorted(members, key=lambda pair: pair[0].name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            member.pax_headers = {}
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=when))


def tried(wheel: Path, python: str) -> None:
    """The wheel in an environment of its own runs."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([python, "-m", "venv", scratch], check=True)
        inside = Path(scratch) / ("Scripts" if os.name == "nt" else "bin")
        subprocess.run([inside / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
        done = subprocess.run([inside / "treadle", "doctor"], cwd=scratch)
        if done.returncode:
            raise Refused(f"the wheel does not work with {python}")


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def _time() -> str:
    """The time of the commit; 1980, the earliest in a zip file, where there is no git."""
    try:
        return _git("log", "-1", "--format=%ct").decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return "315619200"


def _copy(tree: Path, dirty: bool) -> None:
    """The files that are tracked: as committed, or as they are."""
    tree.mkdir()
    if not dirty:
        if _git("status", "--porcelain").strip():
            raise Refused("there are changes that are not committed (build them with --dirty)")
        archive = tree.with_suffix(".tar")
        archive.write_bytes(_git("archive", "--format=tar", "HEAD"))
        with tarfile.open(archive) as packed:
            packed.extractall(tree, filter="tar")
        return
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode()
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink() or source.exists():
            shutil.copy2(source, target, follow_symlinks=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--home", help="the address of the repository, for the metadata's links")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--dirty", action="store_true", help="also what is not committed")
    parser.add_argument("--try", nargs="+", default=[], metavar="PYTHON", dest="pythons")
    given = parser.parse_args()
    try:
        paths = build(given.out, given.home, given.dirty)
        for python in given.pythons:
            tried(paths[0].resolve(), python)
    except Refused as reason:
        print(f"not a release: {reason}", file=sys.stderr)
        return 1
    for path in (*paths, given.out / "CONTENTS.txt", given.out / "SHA256SUMS"):
        print(f"{path.stat().st_size:>10,} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
