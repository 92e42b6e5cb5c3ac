"""The page: one file that needs nothing else, with what the programs say of themselves."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.treadle.explore.pagedata import data_of, table_of, texts_of
from treadle import cli
from treadle.explore import PageError, load_program, page, presets
from treadle.explore.page import KERNELS

PROGRAM = """
import treadle as td

@td.jit
def blur(image, weights):
    around = td.stencil(lambda w: w[-1, 0] + w[0, 0] + w[1, 0], image)
    return td.map(lambda x, w: x * w, around, weights, name="blur")

def pick(x, at):
    return td.map(lambda i: x[i], at)

def shifted(x, by, factor):
    return td.generate(x.shape, lambda i: factor * x[td.minimum(i + by, 8)])

def running(x):
    return td.cumsum(x)

def total(x):
    return td.sum(x)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


class Elements(HTMLParser):
    """Every element with its attributes, and which were left open."""

    VOID = ("meta", "input", "link", "br")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_one_file_that_asks_for_nothing(html: str) -> None:
    elements = Elements()
    elements.feed(html)
    assert elements.open == []
    names = {"src", "href", "action", "srcset"}
    assert not [e for e in elements.found if names & set(e[1])]
    assert not re.search(r"@import|url\(|https?://|fetch\(|XMLHttp|\{\{ [\w.]+ \}\}", html)
    assert len(html.encode()) < 1_500_000
    ids = [a["id"] for _, a in elements.found if "id" in a]
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'\bat\("([\w-]+)"\)', html)
    assert set(wanted) - set(ids) <= {"block"}, "made by the page itself"
    for tag, attributes in elements.found:
        if tag == "canvas":
            assert attributes["role"] == "img"


def test_it_has_the_programs(html: str) -> None:
    programs = {p["key"]: p for p in data_of(html)}
    assert {"stencil3", "stencil7", "stencil9", "product", "transposition", "five_point",
            "column_sum", "histogram"} == set(programs)  # fmt: skip
    paper = programs["stencil7"]["variants"][0]
    assert (table_of(paper) >= 0).sum() == 12543 and paper["span"] == 357
    for each in programs.values():
        compile(each["code"], each["key"], "exec")
        texts = texts_of(each)
        assert len(texts["explain"]) == len(each["variants"])
        for variant, explained in zip(each["variants"], texts["explain"], strict=True):
            for extent in variant["shape"]:  # those that the page shows
                assert f" = {extent}" in explained
        assert f"def {each['key']}" in each["code"]
        kernels = {k["schedule"]: k["cuda"] for k in texts["kernels"]}
        assert all("__global__" in text for text in kernels.values())
        if each["key"] not in ("column_sum", "histogram"):
            assert {"Row()", "Column(8)"} == set(kernels)
            assert "schedule: Column(8)" in kernels["Column(8)"]
        for variant in each["variants"]:
            table = table_of(variant)
            assert table.shape[1] == np.prod(variant["shape"])
            assert table.min() >= -1 and table.max() < variant["span"]
            ends = [a["base"] + np.prod(a["shape"]) for a in variant["arrays"]]
            assert [a["base"] for a in variant["arrays"]] == [0, *ends[:-1]]
            assert ends[-1] >= variant["span"]


def test_kernels_of_all_schedules_that_it_brings() -> None:
    (_, small, *_) = presets(((4, 4),))
    (found,) = data_of(page([small]))
    assert [k["schedule"] for k in texts_of(found)["kernels"]] == list(map(repr, KERNELS))


def test_a_text_cannot_end_the_script_early() -> None:
    (first, *_) = presets(((4, 4),))
    sly = type(first)("sly", "</script><b>", "", "", first.variants)
    assert data_of(page([sly]))[0]["title"] == "</script><b>"


def test_a_program_of_ones_own(program: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    where = f"{program}:blur"
    done = CliRunner().invoke(cli.app, ["explore", where, "--shape", "6x5", "--kernel", "blur",
                                        "--output", str(out), "--no-open"])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert str(out) in done.output.replace("\n", "")
    (mine,) = data_of(out.read_text(encoding="utf-8"))
    assert mine["title"] == "blur (mine.py)" and "def blur" in mine["code"]
    (variant,) = mine["variants"]
    assert variant["shape"] == [6, 5] and variant["arrays"][0]["name"] == "image"
    assert len(texts_of(mine)["kernels"]) > 8


def test_integers_are_indices(program: str) -> None:
    found = load_program(f"{program}:pick", ["9", "20:int32"])
    (variant,) = found.variants
    assert variant.label == "9, 20"
    touched = variant.pattern.touched(np.arange(20)[:, None])
    assert touched.max() == variant.pattern.span - 1


def test_numbers_are_arguments(program: str) -> None:
    """Also where places depend on them."""
    found = load_program(f"{program}:shifted", ["9", "=3", "=0.5"])
    (variant,) = found.variants
    read = variant.pattern.touched(np.arange(9)[:, None])[:, 0]
    assert read.tolist() == [3, 4, 5, 6, 7, 8, 8, 8, 8]


def test_what_an_order_makes_one_kernel_is_shown_as_one(tmp_path: Path) -> None:
    """A box is summed axis by axis without an order; the page is about orders."""
    mine = tmp_path / "box.py"
    mine.write_text(
        "import treadle as td\n"
        "def box(image):\n"
        "    taps = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]\n"
        "    return td.stencil(lambda w: sum(w[t] for t in taps), image, name='blur')\n",
        encoding="utf-8",
    )
    (variant,) = load_program(f"{mine}:box", ["9x8"]).variants
    assert variant.pattern.shape == (9, 8) and variant.pattern.name == "blur"
    assert variant.pattern.touched(np.array([[4, 4]])).shape == (1, 25 + 1)


@pytest.mark.parametrize(
    ("name", "shapes", "said"),
    [
        (
            "absent",
            ["4x4"],
            r"has no function 'absent'; it has: blur, pick, shifted, running, total\.",
        ),
        ("blur", ["4y4"], "'4y4' is not a shape: write 64x64"),
        ("blur", ["4x4"] * 3, "takes 2 arrays, and there are 3 shapes"),
        ("running", ["16"], r"no kernel that the simulator supports \(there is: cumsum\)"),
        ("blur", ["0x4"], "is not a shape"),
        ("shifted", ["9", "=many", "=1"], "'=many' is not a number: write =3, or =0.5"),
        ("total", ["4x4"], "a single number: there is no order to choose"),
    ],
)
def test_mistakes(program: str, name: str, shapes: list[str], said: str) -> None:
    with pytest.raises(PageError, match=said):
        load_program(f"{program}:{name}", shapes)


def test_mistakes_on_the_command_line(program: str, tmp_path: Path) -> None:
    for args, said in [
        (["nothing.py:f"], "there is no file nothing.py"),
        ([program], "names no function"),
        ([f"{program}:blur", "--shape", "2000x2000"], "choose a smaller --shape"),
        (["--shape", "4"], "the programs of the page have two axes"),
    ]:
        done = CliRunner().invoke(cli.app, ["explore", *args, "--no-open", "--output",
                                            str(tmp_path / "x.html")])  # fmt: skip
        assert done.exit_code == 1
        assert said in done.output.replace("\n", " "), done.output
