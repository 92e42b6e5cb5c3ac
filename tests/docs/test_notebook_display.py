"""Arrays, explanations, graphs, sources, schedules and tuning show themselves in notebooks."""

from __future__ import annotations

import base64
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import treadle as td
from tests.docs.pages import ROOT
from treadle.driver.layout import Box, Drawing, Edge

S = td.schedule


class _Balanced(HTMLParser):
    """Checks that tags are closed in order, and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.seen: list[str] = []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text += "\n"

    def handle_data(self, data: str) -> None:
        self.text += data


def program() -> td.Program:
    @td.jit
    def f(a, b):
        blurred = td.stencil(lambda w: (w[-1, 0] + w[1, 0]) / 2, a, name="blur")
        return td.exp(blurred) / td.sum(blurred * b), blurred @ b

    a = np.ones((32, 32), np.float32)
    return f.lower(a, a)


def test_arrays_are_tables() -> None:
    array = td.use(np.arange(12.0).reshape(3, 4)) / 8
    shown = _Balanced(array._repr_html_())
    assert shown.seen.count("td") == 12 and "3 × 4 float64" in shown.text
    assert "1.375" in shown.text
    assert repr(array).startswith("Array([[0.   , 0.125")


def test_long_arrays_are_shown_by_their_ends() -> None:
    shown = _Balanced(td.use(np.arange(3000).reshape(50, 60))._repr_html_())
    assert shown.seen.count("tr") == 11 and "2999" in shown.text and "50 × 60 int64" in shown.text
    assert "30" + "…" not in shown.text and "1530" not in shown.text
    _Balanced(td.iota(100)._repr_html_())


@pytest.mark.parametrize(
    "value",
    [np.float32(3), np.zeros((0, 3)), np.array([[1 + 2j, -3], [0, 1e-30j]]), np.ones((2, 3, 4)),
     np.array([True]), np.array([np.nan, np.inf])],
    ids=["one", "empty", "complex", "rank 3", "bool", "special"],
)  # fmt: skip
def test_all_kinds_of_arrays(value) -> None:
    _Balanced(td.use(value)._repr_html_())


def test_traced_arrays_and_tuples_are_text() -> None:
    seen = []
    td.jit(lambda a: (seen.append(a._repr_html_()), a + 1)[1]).lower(np.ones(3))
    assert seen == [None]
    assert td.indexed(td.iota(3))._repr_html_() is None


def test_explanations_fold_by_kernel() -> None:
    text = program().explain()
    shown = _Balanced(text._repr_html_())
    assert shown.seen.count("details") == text.count("\nKernel ") + 3
    words = [w for w in shown.text.split() if w]
    assert words == text.split()  # nothing is lost
    assert repr(text) == str(text)


@pytest.mark.parametrize("backend", ["native", "cuda", "reference"])
def test_sources_fold_by_kernel(backend: str) -> None:
    text = program().source(backend, arch="sm_90a" if backend == "cuda" else None)
    style, _, rest = text._repr_html_().partition("</style>")
    shown = _Balanced(rest)
    assert style.startswith("<style>")
    if backend != "reference":
        assert shown.seen.count("details") >= 3 and shown.seen.count("span") > 100
    description = "".join(shown.text.split())
    for line in filter(None, map(str.strip, text.splitlines())):
        assert "".join(line.split()) in description


def test_graphs_are_pictures() -> None:
    graph = program().graph()
    root = ElementTree.fromstring(graph._repr_svg_())
    texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("kernel 1" in t and "blur" in t for t in texts) and "result 1" in texts
    arrows = [p for p in root.iter("{http://www.w3.org/2000/svg}path") if p.get("marker-end")]
    assert len(arrows) == graph.count(" -> ")
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height"))
             for r in root.iter("{http://www.w3.org/2000/svg}rect")]  # fmt: skip
    for k, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for u, v, p, q in boxes[:k]:
            assert x + w <= u or u + p <= x or y + h <= v or v + q <= y, "boxes overlap"
    assert graph.startswith("digraph")


def test_a_layout_of_many_nodes_has_all_edges_downwards() -> None:
    rng = np.random.default_rng(0)
    edges = [Edge(int(rng.integers(0, k)), k, "x") for k in range(1, 40) for _ in range(2)]
    root = ElementTree.fromstring(Drawing([Box((f"n{k}",)) for k in range(40)], edges).svg())
    for path in root.iter("{http://www.w3.org/2000/svg}path"):
        numbers = [float(x) for x in path.get("d").replace("M", "").replace("C", "").split()
                   if x[-1] not in "z"] if path.get("marker-end") else [0, 0, 0, 1]  # fmt: skip
        assert numbers[-1] > numbers[1]
    assert ElementTree.fromstring(Drawing().svg()).tag.endswith("svg")


def _pixels(html: str) -> np.ndarray:
    """The pixels of the image in a picture of a schedule."""
    data = base64.b64decode(html.partition("base64,")[2].partition('"')[0])
    at, parts = 8, {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        parts[kind] = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + parts[kind])  # fmt: skip
        at += 12 + size
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, -1)
    return lines[:, 1:].reshape(height, width, 3)


def test_schedules_are_drawn() -> None:
    html = S.Column(4)._repr_html_()
    assert "Column(4) on 16 × 16" in _Balanced(html).text
    light = _pixels(html).astype(int).sum(axis=2)
    assert light.shape == (16, 16)
    assert light[15, 3] < light[0, 8] < light[15, 15]  # column by column
    rows = _pixels(S.Row()._repr_html_()).astype(int).sum(axis=2)
    assert rows[0, 15] < rows[8, 0] < rows[15, 15]  # row by row
    assert html != S.ZigZag(4)._repr_html_()  # their ways differ


@pytest.mark.parametrize(
    "schedule",
    [S.Hilbert(), S.Tile(8, 8), S.Column(256) | S.Block(8, 32), S.Block(1, 256), S.Block(256),
     S.Block(4, 4, 4), S.Block(8, 32) | S.PerThread(rows=4) | S.Hints(stores="streaming")],
    ids=str,
)  # fmt: skip
def test_all_orders_are_drawn(schedule) -> None:
    html = schedule._repr_html_()
    _Balanced(html)
    assert len(html) < 40_000 and _pixels(html).std() > 0


@pytest.mark.parametrize(
    "schedule", [S.Auto(), S.Tuned(), S.Stage(), S.Hints(stores="streaming"), S.Table(range(30))],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
def test_what_has_no_order_is_text(schedule) -> None:
    assert schedule._repr_html_() is None


def test_timings_are_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    a = np.ones((64, 64), np.float32)
    f = td.jit(lambda a: td.stencil(lambda w: w[-1, 0] + w[1, 0], a, name="blur"), backend="native")
    table = f.tune(a, budget=2, progress=False).tuning
    shown = _Balanced(table._repr_html_())
    assert shown.seen.count("tr") == len(table.rows) + 1
    assert "before" in shown.text and table.best in shown.text


CELLS = [
    "import numpy as np, treadle as td\n@td.jit\ndef f(a):\n    return td.exp(a) + 1",
    "td.iota(3) * 2",
    "f.lower(np.ones(3)).explain()",
    "f.lower(np.ones(3)).graph()",
    "f.lower(np.ones(3)).source()",
    "td.schedule.Column(4)",
    "x = td.iota(3)\ntry:\n    x + td.iota(4)\nexcept td.ShapeError as error:\n    print(error)",
    'g = td.jit(lambda a: td.map(lambda x: x + 1, a, name="m"), backend="native")\n'
    "tuned = g.tune(np.ones((300, 300)), budget=2)",
    "x + td.iota(4)",
]


def test_in_a_kernel_of_jupyter(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a running notebook stores: both forms, the cells named alike, one bar of progress."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(made, timeout=120, kernel_name="python3", allow_errors=True).execute()
    outputs = [cell.outputs for cell in made.cells]
    assert outputs[0] == []
    (array,), (explained,), (graph,), (source,), (order,) = outputs[1:6]
    assert array.data["text/plain"] == "Array([0, 2, 4])" and "<td" in array.data["text/html"]
    assert "at cell 1, line 4" in explained.data["text/plain"]
    assert "at cell 1, line 4" in explained.data["text/html"]
    assert graph.data["image/svg+xml"].startswith("<svg")
    assert graph.data["text/plain"].startswith("digraph")
    assert "cell 1, line 4" in source.data["text/html"]
    assert order.data["text/plain"] == "Column(4)" and "<svg" in order.data["text/html"]
    assert "\n  cell 7, line 3, in " in outputs[6][0].text
    (bar,) = [o for o in outputs[7] if "text/html" in o.get("data", {})]
    assert bar.data["text/html"].startswith("<progress") and "best" in bar.data["text/plain"]
    (raised,) = outputs[8]
    assert raised.ename == "ShapeError" and "cell 9, line 1" in "".join(raised.traceback)


def test_compiled_functions_and_programs_show_their_explanations() -> None:
    compiled = td.jit(lambda a: a + 1, backend="native")
    assert "not called yet" in compiled._repr_html_()
    program = compiled.lower(np.ones(3))
    shown = program._repr_html_()
    assert "&lt;Program" in shown and "kernel launched" in shown and "<details>" in shown
    assert shown in compiled._repr_html_()
