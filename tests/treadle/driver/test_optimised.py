"""Graphs met before: their passes do not run again, and nothing else changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from tests.dsl.zoo import ZOO
from treadle.backend.native import recipe
from treadle.backend.native.runtime import code
from treadle.driver import optimised
from treadle.dsl.passes import run_passes

A = np.arange(1.0, 36.0).reshape(5, 7)

#: The graphs whose passes ran.
Ran = list[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own for one test, also of graphs of one operation."""
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(optimised, "LEAST", 1)
    recipe.forget()
    code.forget()
    yield tmp_path
    recipe.forget()
    code.forget()


@pytest.fixture
def ran(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    found: Ran = []

    def passes(*args: Any) -> Any:
        found.append(args[2])
        return run_passes(*args)

    monkeypatch.setattr(optimised, "run_passes", passes)
    return found


def lowered(function: Callable[..., Any], *args: Any, backend: str = "native", **how: Any) -> Any:
    return td.jit(lambda *given: function(*given), backend=backend, **how).lower(*args)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(np.array_equal(a, b, equal_nan=True))


def plain(text: str) -> str:
    """Without the numbers of nodes and the names of graphs' files."""
    return re.sub(r"%\d+", "%", str(text))


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", ZOO)
def test_a_graph_met_before(name: str, ran: Ran, folder: Path) -> None:
    """The same bits, code and explanations, without the passes until someone asks."""
    function, arguments = ZOO[name]
    first = lowered(function, *arguments)
    source = str(first.source())
    results = first(*arguments)
    assert ran == ["native"]
    again = lowered(function, *arguments)
    if not list(folder.glob("graphs/*/*")):
        pytest.skip("a program that no file has")
    assert same(again(*arguments), results)
    recipe.forget()  # lowered again, from the graph on disk
    code.forget()
    for path in folder.glob("recipes/*/*"):
        path.unlink()
    assert str(lowered(function, *arguments).source()) == source
    assert ran == ["native"]
    assert plain(again.explain()) == plain(first.explain())
    assert plain(str(again)) == plain(str(first))
    assert ran == ["native", "native"]


def test_of_a_gpu(ran: Ran) -> None:
    a = A.astype(np.float32)

    def f(x: Any) -> Any:
        return td.sum(td.sqrt(x * x + 1), axis=1)

    with cuda(True):
        first = np.asarray(lowered(f, a, backend="cuda")(a))
        assert same(np.asarray(lowered(f, a, backend="cuda")(a)), first)
    assert ran == ["cuda"]
    lowered(f, a)
    assert ran == ["cuda", "native"]


def smooth(a: Any, weight: float = 0.25, name: str = "smooth") -> Any:
    return td.stencil(lambda w: w[0, 0] - weight * (w[-1, 0] + w[0, 1]), a * 3.0, name=name) + 1.0


def test_what_a_key_depends_on(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these is another graph, or other passes."""
    b = td.use(np.arange(7.0))
    programs: list[Callable[[], Any]] = [
        lambda: lowered(smooth, A),
        lambda: lowered(lambda a: smooth(a, 0.5), A),
        lambda: lowered(lambda a: smooth(a, name="other"), A),
        lambda: lowered(lambda a: smooth(a).scheduled(td.schedule.Column(4)), A),
        lambda: lowered(lambda a: smooth(a).scheduled(td.schedule.Tile(4, 4)), A),
        lambda: lowered(lambda a: smooth(a).scheduled(td.schedule.Tile(4, 8)), A),
        lambda: lowered(smooth, A.astype(np.float32)),
        lambda: lowered(smooth, A[:1]),
        lambda: lowered(smooth, A, fast_math=True),
        lambda: lowered(smooth, A, deterministic=True),
        lambda: lowered(lambda a: smooth(a) + b, A),
        lambda: lowered(lambda a, k: smooth(a) * k, A, 2.0),
        lambda: lowered(lambda a, k: smooth(a) * k, A, 2),
        lambda: lowered(lambda a: (smooth(a), td.sum(a)), A),
        lambda: lowered(lambda a: (td.sum(a), smooth(a)), A),
        lambda: lowered(smooth, A).scheduled(smooth=td.schedule.Morton()),
    ]
    for k, make in enumerate(programs, 1):
        before = len(ran)
        make()
        assert len(ran) > before, k
    count = len(ran)
    for make in programs:
        make()
    assert len(ran) == count
    monkeypatch.setattr(optimised, "sources", lambda: "an edited file")
    programs[0]()
    assert len(ran) == count + 1


def test_the_extents_of_data_are_a_part_of_the_key(ran: Ran) -> None:
    for n, times in ((3, 1), (4, 2), (3, 2)):
        data = np.arange(float(n))
        program = lowered(lambda a, data=data: td.sum(a) + td.use(data) * 2, A)
        assert same(program(A), A.sum() + data * 2)
        assert len(ran) == times
    other = lowered(lambda a: td.sum(a) + td.use(np.full(3, 9.0)) * 2, A)
    assert same(other(A), A.sum() + np.full(3, 18.0)) and len(ran) == 2


def test_schedules_and_places_are_those_of_the_program(ran: Ran) -> None:
    def make(tile: td.schedule.Tile, lines: int) -> Any:
        text = "\n" * lines + "f = lambda a, b: (a + b).scheduled(tile, )"
        space: dict[str, Any] = {"tile": tile}
        exec(compile(text, f"cell {lines}", "exec"), space)
        return lowered(space["f"], A, A)

    for lines in (3, 8):
        tile = td.schedule.Tile(4, 4)
        program = make(tile, lines)
        roots, _ = program.optimised.runs
        assert roots[0].node.label.schedule is program.source_roots[0].node.label.schedule
        assert roots[0].node.where.file == f"cell {lines}"
        with pytest.raises(td.ShapeError) as raised:
            program(A, A[:, :3])
        assert f"cell {lines}" in str(raised.value)
    assert ran == ["native"]


@pytest.mark.parametrize("vectors", ["16", "32"])
def test_kernels_are_those_of_the_machine(
    ran: Ran, folder: Path, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is the same for other features of the processor; recipes and code are not."""
    first = lowered(smooth, A)(A)
    kept = set(folder.glob("recipes/*/*"))
    held = recipe.machine.machine_key
    monkeypatch.setattr(recipe.machine, "machine_key", lambda: f"{held()}|{vectors}")
    recipe.forget()
    assert same(lowered(smooth, A)(A), first)
    assert ran == ["native"]
    assert kept < set(folder.glob("recipes/*/*"))


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "nonsense", "roots", "forward"])
def test_damaged_files_are_written_again(ran: Ran, folder: Path, damage: str) -> None:
    first = lowered(smooth, A)(A)
    (path,) = folder.glob("graphs/*/*")
    whole = path.read_bytes()
    _, about = optimised._disk.get(path.stem) or (b"", {})
    if damage == "cut":
        path.write_bytes(whole[:-9])
    elif damage == "bit":
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        table: list[Any] = about["table"]
        change = {
            "nonsense": {"table": [["a", "b"], *table]},
            "roots": {"roots": [["leaf", len(table) + 3, 0]]},
            "forward": {"table": table[::-1]},
        }[damage]
        optimised._disk.put(path.stem, b"", {**about, **change})
    assert same(lowered(smooth, A)(A), first)
    assert ran == ["native"] * 2
    assert path.read_bytes() == whole
    assert same(lowered(smooth, A)(A), first)
    assert ran == ["native"] * 2


def test_what_always_runs_its_passes(ran: Ran, folder: Path) -> None:
    """Checked programs, the reference, and graphs with functions of Python's."""
    with td.config(check=True):
        lowered(smooth, A)
    lowered(smooth, A, backend="reference")
    lowered(lambda a: td.foreign_array({"native": np.sort}, smooth(a), fallback=td.sort), A)
    assert len(ran) == 3 and not list(folder.glob("graphs/*/*"))


def test_few_operations_are_not_looked_up(ran: Ran, folder: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(optimised, "LEAST", 8)
    for _ in range(2):
        lowered(smooth, A)
    assert len(ran) == 2 and not list(folder.glob("graphs/*/*"))


_CHILD = """
import sys
import numpy as np, treadle as td
from treadle.driver import optimised
def f(a, b):
    for k in range(5):
        a = td.stencil(lambda w: (w[-1, 0] + w[0, 0] * 2.0 + w[0, 1]) / 4.0, a + b * k)
        b = td.iterate(3, lambda s: s * 0.5 + a, b)
    return a, td.cumsum(b, axis=1), td.sum(a * b)
held = optimised.run_passes
ran = []
optimised.run_passes = lambda *args: ran.append(1) or held(*args)
a = np.arange(35.0).reshape(5, 7)
made = td.jit(f, backend="native")(a, a + 1)
print(len(ran), *(x.tobytes().hex() for x in made))
print(len(ran), hash(0), td.jit(f, backend="native").lower(a, a).source().count("define"))
"""


def test_another_process_finds_the_graph(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "TREADLE_CACHE_DIR": str(tmp_path), "PYTHONPATH": root}
    texts = [
        subprocess.run([sys.executable, "-c", _CHILD], env=environment, capture_output=True,
                       text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert [t[0].split()[0] for t in texts] == ["1", "0"]
    assert texts[0][0].split()[1:] == texts[1][0].split()[1:]
    assert texts[0][1].split()[1:] == texts[1][1].split()[1:]


def test_files_are_plain_data(ran: Ran, folder: Path) -> None:
    lowered(smooth, A)
    (path,) = folder.glob("graphs/*/*")
    held = optimised._disk.get(path.stem)
    assert held is not None and held[0] == b"" and json.loads(json.dumps(held[1])) == held[1]
