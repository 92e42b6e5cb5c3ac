"""The command line as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from typer.testing import CliRunner

import treadle as td
from treadle import cli

NAMES = [
    "black_scholes", "canny", "equalise", "heat", "kmeans", "knights", "life", "lookalikes",
    "mandelbrot", "monte_carlo", "nbody", "one_word", "pagerank", "plate", "spmv", "stack",
]  # fmt: skip


def invoke(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, args)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_examples_lists_each_with_a_line() -> None:
    code, text = invoke("examples")
    assert code == 0
    lines = text.splitlines()
    for name in NAMES:
        assert any(line.startswith(name) and len(line) > len(name) + 20 for line in lines), name


@pytest.mark.parametrize("args", [("example",), ("example", "--help")])
def test_example_without_a_name_lists_them(args: tuple[str, ...]) -> None:
    code, text = invoke(*args)
    assert code == 0
    assert "Usage: treadle example NAME" in text
    assert all(name in text for name in NAMES)


def test_example_runs_and_says_where_its_picture_is(tmp_path: Path) -> None:
    picture = tmp_path / "board.png"
    code, text = invoke(
        "example", "life", "--size", "24", "--generations", "4", "--output", str(picture)
    )
    assert code == 0, text
    assert picture.is_file()
    assert str(picture) in text.replace("\n", "")
    assert "cells alive after 4 generations" in text


def test_example_prints_its_table_on_a_chosen_backend() -> None:
    code, text = invoke("example", "spmv", "--rows", "50", "--backend", "reference")
    assert code == 0, text
    assert "GB/s" in text and "uniform" in text


def test_example_takes_dashes_for_underscores() -> None:
    code, text = invoke("example", "black-scholes", "--options", "100")
    assert code == 0, text
    assert "strike" in text


def test_example_help_tells_its_own_options() -> None:
    code, text = invoke("example", "canny", "--help")
    assert code == 0
    for option in ("--image", "--output", "--size", "--strong", "--backend"):
        assert option in text


def test_every_option_of_every_example_is_described() -> None:
    for name in NAMES:
        for parameter in cli.parameters(name):
            assert parameter in cli.MEANING, f"{name} --{parameter}"


def test_an_unknown_example_lists_the_names() -> None:
    code, text = invoke("example", "cany")
    assert code == 1
    assert "no example is called 'cany'" in text
    assert "Did you mean canny?" in text
    assert all(name in text for name in NAMES)
    assert "Traceback" not in text


def test_explaining_an_unknown_example_lists_the_names() -> None:
    code, text = invoke("explain", "nothing")
    assert code == 1
    assert all(name in text for name in NAMES)


def test_an_absent_image_is_said(tmp_path: Path) -> None:
    code, text = invoke("example", "canny", "--image", str(tmp_path / "absent.jpg"))
    assert code == 1
    assert "no such image" in text and "Traceback" not in text


def test_an_unreadable_image_is_said(tmp_path: Path) -> None:
    path = tmp_path / "notes.jpg"
    path.write_text("not a picture", encoding="utf-8")
    code, text = invoke("example", "kmeans", "--image", str(path))
    assert code == 1
    assert "cannot read" in text and "as an image" in text and "Traceback" not in text


def test_an_output_that_is_no_picture_is_said(tmp_path: Path) -> None:
    code, text = invoke(
        "example", "life", "--size", "8", "--generations", "1", "--output", str(tmp_path / "a.doc")
    )
    assert code == 1
    assert ".png" in text and "Traceback" not in text


def test_an_unknown_backend_is_said() -> None:
    code, text = invoke("example", "spmv", "--rows", "10", "--backend", "abacus")
    assert code == 1
    assert "abacus" in text and "native" in text and "Traceback" not in text


def test_a_wrong_option_shows_the_usage() -> None:
    code, text = invoke("example", "life", "--image", "me.jpg")
    assert code == 2
    assert "No such option" in text
    code, text = invoke("example", "life", "--size", "0")
    assert code == 2
    assert "--size" in text


_OWN = """
import treadle as td

def halves(image, factor):
    rows, columns = image.shape
    return td.generate((columns, rows), lambda i, j: image[j, i] * factor, name="turned")
"""


def test_explain_and_source_of_a_program_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(_OWN, encoding="utf-8")
    code, text = invoke("explain", f"{file}:halves", "--shape", "40x60", "--shape", "=0.5")
    assert code == 0 and "Kernel 1: generate 'turned'" in text and "n1 = 40, n2 = 60" in text
    code, text = invoke("source", f"{file}:halves", "--shape", "40x60", "--shape", "=0.5",
                        "--backend", "cuda")  # fmt: skip
    assert code == 0 and "__global__" in text and "turned" in text
    code, text = invoke("explain", f"{file}:halves", "--shape", "48", "--shape", "=0.5")
    assert code == 1 and "not enough values to unpack" in text and "mine.py:5" in text
    code, text = invoke("explain", "life", "--shape", "48")
    assert code == 1 and "programs of your own" in text
    code, text = invoke("explain", str(file))
    assert code == 1 and "names no function" in text and text.endswith("It has: halves.\n")
    file.write_text(
        "import treadle as td\ndef powers(x, n): return td.iterate(n, td.sqrt, x)\n",
        encoding="utf-8",
    )
    code, text = invoke("explain", f"{file}:powers", "--shape", "8x8")
    assert code == 1 and "iterate needs a scalar" in text and "--shape 8x8 --shape =3" in text


def test_a_program_that_cannot_be_run_shows_the_frames_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def at(k):\n    return (1, 2)[k]\n\n\nlast = at(2)\n", encoding="utf-8")
    frames = [
        "error: broken.py cannot be run.",
        "Traceback (most recent call last):",
        f'  File "{file}", line 5, in <module>',
        "    last = at(2)",
        f'  File "{file}", line 2, in at',
        "    return (1, 2)[k]",
        "IndexError: tuple index out of range",
    ]
    for named in (f"{file}:f", str(file)):
        code, text = invoke("explain", named)
        assert code == 1 and [t for t in text.splitlines() if set(t) - set(" ~^")] == frames
    file.write_text("def f(a:\n", encoding="utf-8")
    code, text = invoke("explain", f"{file}:f")
    assert code == 1 and "SyntaxError" in text and "importlib" not in text


def test_explain_shows_kernels() -> None:
    code, text = invoke("explain", "heat")
    assert code == 0, text
    assert "euler" in text


def test_backends_names_each() -> None:
    code, text = invoke("backends")
    assert code == 0
    for name in ("reference", "native", "cuda"):
        assert name in text


def test_version() -> None:
    code, text = invoke("version")
    assert code == 0
    assert text.startswith("treadle ") and "numpy" in text and "python" in text


def test_as_a_module_and_without_heavy_imports() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "treadle", "--help"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "examples" in run.stdout
    probe = (
        "import sys, treadle.cli; "
        "print([m for m in ('scipy', 'matplotlib', 'PIL', 'rich.progress') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_version_is_an_option_too() -> None:
    code, text = invoke("--version")
    assert code == 0 and text == f"treadle {td.__version__}\n"


def test_a_file_finds_its_neighbours_and_its_classes(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("FACTOR = 3\n", encoding="utf-8")
    (tmp_path / "with_a_class.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "import treadle as td\n"
        "import beside_it\n"
        "@dataclass\nclass Pair:\n    low: object\n    high: object\n"
        "def pairs(x):\n    return td.map(lambda v: Pair(v * beside_it.FACTOR, v), x)\n",
        encoding="utf-8",
    )
    code, text = invoke("explain", f"{tmp_path / 'with_a_class.py'}:pairs")
    assert code == 0 and "1 kernel launched" in text, text
    code, text = invoke("explain", f"{tmp_path / 'with_a_class.py'}:Pair")
    assert code == 1 and "no function 'Pair'; it has: pairs." in text


@pytest.mark.parametrize("terminal", [True, False])
def test_no_table_is_cut_at_80_columns(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from treadle.examples._show import Made, Table

    monkeypatch.setenv("COLUMNS", "80")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    long = "of all patches of the photograph"
    row = ("a_word_that_is_longer_than_its_column_may_be_at_eighty", *[1234.5678] * 6, long)
    table = Table("a wide one", ("name", *(f"number {k}" for k in range(6)), "last"), (row,))
    cli._present(Made({}, tables=(table,)))
    text = capsys.readouterr().out
    assert "…" not in text
    assert text.count("1235") == 6  # on a terminal, long words go on in the next line
    assert terminal or (row[0] in text and long in text)


def test_ceilings_without_dask() -> None:
    """The command asks only the backends whose devices the model knows."""
    code = (
        "import sys; sys.modules['dask'] = None\n"
        "from treadle import cli\n"
        "sys.argv = ['treadle', 'ceilings', '--show']\n"
        "cli.app()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "native" in ran.stdout, ran.stderr
