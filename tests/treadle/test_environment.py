"""Processes whose environment is not what one has at a desk: locales, homes, folders for caches."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("backend", "benchmarks", "dsl", "examples", "skeletons", "treadle", "tests")

#: No UTF-8, and nothing that sets it.
PLAIN = {"LC_ALL": "POSIX", "LANG": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
         "PYTHONIOENCODING": ""}  # fmt: skip


def python(*arguments: str, remove: str = "", folder: Path | None = None, **variables: str
           ) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """A process in `folder`, without the variable `remove`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop(remove, None)
    return subprocess.run([sys.executable, *arguments], capture_output=True, cwd=folder,
                          env=environment, encoding="utf-8", check=False, timeout=300)  # fmt: skip


PROGRAM = """
import numpy as np, treadle as td

f = td.jit(lambda a: td.sum(td.stencil(lambda w: w[-1] * 2 + w[1], a)) / 7, backend="native")
program = f.lower(np.ones(5))
print(program, td.backends(), program.explain(), program.source(), f(np.ones(5)))
for call in (lambda: td.fold(lambda x, y: x + y, np.ones(3)), td.iota(4).scheduled):
    try:
        call()
    except td.TreadleError as error:
        print(error)
td.fold(lambda x, \u00e4: x + \u00e4, "\u00d7", 1, 2)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("encoding", ["", "ascii:strict"])
def test_without_utf8(encoding: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    variables = {**PLAIN, "PYTHONIOENCODING": encoding, "TREADLE_CACHE_DIR": str(tmp_path)}
    done = python(str(script), **variables)
    assert "Kernel 1: sum" in done.stdout and "The arguments, in order: fold(" in done.stdout
    assert "treadle.AxisError: fold" in done.stderr and "UnicodeEncodeError" not in done.stderr
    assert done.stdout.isascii() and "lower(...)" in done.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    [
        "backends",
        "explain heat",
        "source life --backend cuda",
        "ceilings --backend native --show",
        "example life --size 32 --generations 2",
        "example nothing",
    ],
)
def test_the_command_line_without_utf8(command: str, tmp_path: Path) -> None:
    variables = {**PLAIN, "PYTHONIOENCODING": "ascii:strict", "TREADLE_CACHE_DIR": str(tmp_path)}
    done = python("-m", "treadle", *command.split(), folder=tmp_path, **variables)
    assert done.returncode == (command == "example nothing"), done.stderr
    assert "Traceback" not in done.stderr


WHERE = """
import numpy as np, treadle as td
from treadle.dsl.process.environment import cache_directory
print(cache_directory())
assert td.run(td.use(np.arange(3)) * 2, backend="native").tolist() == [0, 2, 4]
import treadle.dsl, os
print(sorted(os.listdir(".")))
"""


@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="folders of XDG")
@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("XDG_CACHE_HOME", "", "home/.cache/treadle"),
        ("XDG_CACHE_HOME", "beside", "home/.cache/treadle"),
        ("XDG_CACHE_HOME", "./treadle", "home/.cache/treadle"),
        ("XDG_CACHE_HOME", "{}/other", "other/treadle"),
        ("TREADLE_CACHE_DIR", "~/mine", "home/mine"),
        ("TREADLE_CACHE_DIR", "{}/mine", "mine"),
        ("TREADLE_CACHE_DIR", "near", "here/near"),
        ("TREADLE_CACHE_DIR", "", "home/.cache/treadle"),
    ],
)
def test_where_caches_are(name: str, value: str, place: str, tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    given = {"HOME": str(home), "XDG_CACHE_HOME": "", "TREADLE_CACHE_DIR": ""}
    given[name] = value.format(tmp_path)
    done = python("-W", "error", "-c", WHERE, folder=here, **given)
    assert done.returncode == 0, done.stderr
    found, files = done.stdout.splitlines()
    assert Path(found) == tmp_path / place
    assert (tmp_path / place / "native").is_dir()
    assert files == ("['near']" if value == "near" else "[]")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "folder", ["{}/file", "{}/file/below", "/dev/null", "/proc/treadle", "{}/" + "long" * 99]
)
def test_folders_that_cannot_be(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = python("-c", WHERE, folder=tmp_path, TREADLE_CACHE_DIR=folder.format(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("UserWarning") == 1 and "cannot be used as a cache" in done.stderr


def test_a_home_that_does_not_exist(tmp_path: Path) -> None:
    nowhere = "import os\ndel os.environ['HOME']\nos.getuid = lambda: 54321\n"
    done = python("-W", "error", "-c", nowhere + WHERE.replace("print(cache_directory())", ""),
                  folder=tmp_path, XDG_CACHE_HOME="", TREADLE_CACHE_DIR="")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("TREADLE_CHECK", "ja", "Write 1 or 0"),
        ("TREADLE_NUM_THREADS", "1e9", "1 or more"),
        ("TREADLE_NUM_THREADS", "9" * 30, "1024 are used"),
        ("TREADLE_VECTOR_BYTES", "\u00d7", "Write 16 or 32"),
        ("TREADLE_THREADS", "cuda", "Write python"),
        ("TREADLE_CACHE_DIR", "~nobody-of-this-name/x", "the path of a folder"),
        ("TREADLE_BACKENDS", "native", "did you mean TREADLE_BACKEND"),
    ],
)
def test_variables_that_mean_nothing(name: str, value: str, shown: str, tmp_path: Path) -> None:
    given = {"TREADLE_CACHE_DIR": str(tmp_path), name: value}
    done = python("-c", WHERE, folder=tmp_path, **given)
    assert done.returncode == 0 and done.stderr.count(shown) == 1, done.stderr


def test_a_backend_that_there_is_not(tmp_path: Path) -> None:
    code = WHERE.replace(', backend="native"', "")
    done = python("-c", code, TREADLE_BACKEND="nonsense", TREADLE_CACHE_DIR=str(tmp_path))
    assert "treadle.BackendUnavailable" in done.stderr and "TREADLE_BACKEND" in done.stderr


def unspecified(source: str) -> Iterator[str]:
    """The calls that read or write texts in an encoding which the locale decides."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or {k.arg for k in node.keywords} & {"encoding", None}:
            continue
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        modes = [a.value for a in (*node.args[1:2], *(k.value for k in node.keywords))
                 if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
        texts = name == "open" and not method and not any("b" in mode for mode in modes)
        given = len(node.args) - (name == "write_text")
        if texts or (name in ("read_text", "write_text") and given < 1):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_every_text_has_an_encoding() -> None:
    found = {
        str(path): calls
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not any(p.is_symlink() for p in path.parents)
        and re.search(r"open\(|_text\(", text := path.read_text(encoding="utf-8"))
        and (calls := list(unspecified(text)))
    }
    assert not found
