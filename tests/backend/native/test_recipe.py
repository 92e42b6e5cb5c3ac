"""Programs met before: found again by their meaning, neither lowered nor compiled."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.dsl.zoo import ZOO
from treadle.backend.native import recipe, steps
from treadle.backend.native.codegen.compile import emitted
from treadle.backend.native.codegen.target import Target
from treadle.backend.native.recipe import Recipe
from treadle.backend.native.runtime import code

A = np.arange(35.0, dtype=np.float32).reshape(5, 7)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own for one test."""
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    recipe.forget()
    code.forget()
    yield tmp_path
    recipe.forget()
    code.forget()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are compiled."""
    held: Any = emitted
    names: list[str] = []

    def compiled(kernel: Any, **named: Any) -> Any:
        names.append(kernel.name.split("_line")[0])
        return held(kernel, **named)

    monkeypatch.setattr("treadle.backend.native.codegen.compile.emitted", compiled)
    return names


def refused(*_: Any) -> Any:
    raise AssertionError("lowered again")


def run(function: Any, *args: Any) -> Any:
    return td.jit(lambda *given: function(*given), backend="native")(*args)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(np.array_equal(a, b, equal_nan=True))


FOUND_AGAIN = ("run_time_numbers", "complex_numbers", "stencil_of_costly_map", "fold_then_map",
               "fold_segments", "scans", "permuted", "filtered", "correlated",
               "diamond")  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", FOUND_AGAIN)
def test_nothing_is_lowered_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from memory nor from disk; and the recipe says all: results are equal bit by bit."""
    function, arguments = ZOO[name]
    first = run(function, *arguments)
    monkeypatch.setattr("treadle.skeletons.lower.lower.lower", refused)
    assert same(run(function, *arguments), first)
    recipe.forget()
    code.forget()
    assert same(run(function, *arguments), first)


def blur(a: Any) -> Any:
    return td.stencil(lambda w: w[-1, 0] + w[0, 0] * 2.0 + w[0, 1], a)


def test_kernels_are_made_when_they_are_looked_at(folder: Path) -> None:
    run(blur, A)
    recipe.forget()
    program = td.jit(blur, backend="native").lower(A)
    assert "define internal void @stencil" in program.source()


@pytest.mark.skipif(not Target.host().streaming_bytes, reason="no streaming stores")
def test_streaming_stores_are_compiled_for_large_arrays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = replace(Target.host(), streaming_bytes=4096)
    monkeypatch.setattr(Target, "host", staticmethod(lambda: target))
    held, asked = emitted, []

    def compiled(kernel: Any, **named: Any) -> Any:
        asked.append(named["target"].streaming_bytes)
        return held(kernel, **named)

    monkeypatch.setattr("treadle.backend.native.codegen.compile.emitted", compiled)

    def shifted(a: Any) -> Any:
        return a * 2 + 1

    for turn in range(2):
        program = td.jit(shifted, backend="native")
        for n, wanted in ((100, [0]), (10_000, [0, 4096]), (100, [0, 4096])):
            a = np.arange(float(n))
            assert same(program(a), a * 2 + 1)
            assert asked == wanted or turn
        recipe.forget()
        code.forget()
    assert asked == [0, 4096]  # the second time they are on disk

    asked.clear()
    a = np.arange(10_000.0)
    program = td.jit(lambda a: shifted(a[:100]), backend="native")
    assert same(program(a), a[:100] * 2 + 1)
    assert asked == [0]  # what is only read does not matter


@pytest.mark.skipif(not Target.host().streaming_bytes, reason="no streaming stores")
def test_only_what_the_first_call_launches_is_compiled_ahead(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what combines the parts of long folds, if there is one part, nor both kinds of stores."""
    target = replace(Target.host(), streaming_bytes=200_000)
    monkeypatch.setattr(Target, "host", staticmethod(lambda: target))
    held: Any = emitted
    asked: list[tuple[str, bool]] = []

    def compiled(kernel: Any, **named: Any) -> Any:
        phase = kernel.name.split("_line")[0]
        asked.append((phase, bool(named["target"].streaming_bytes)))
        return held(kernel, **named)

    monkeypatch.setattr("treadle.backend.native.codegen.compile.emitted", compiled)

    def scaled(a: Any) -> Any:
        return a * 2 / td.the(td.max(a * a))

    def called(program: Any, n: int) -> set[tuple[str, bool]]:
        asked.clear()
        a = np.arange(1.0, n + 1)
        assert np.allclose(program(a), a * 2 / (n * n))
        assert len(asked) == len(set(asked))
        return set(asked)

    program = td.jit(scaled, backend="native")
    assert called(program, 100) == {("max_blocks", False), ("true_divide", False)}
    assert called(program, 100_000) == {("max_combine", False), ("true_divide", True)}
    recipe.forget()
    code.forget()
    for stored in folder.rglob("*.*"):
        stored.unlink(missing_ok=True)
    found = called(td.jit(scaled, backend="native"), 100_000)
    assert found == {("max_blocks", False), ("max_combine", False), ("true_divide", True)}


def test_kernels_for_short_extents_are_compiled_before_the_first_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extents of arguments decide about them: the general kernels are not compiled."""
    asked: list[str] = []

    def launched(self: Any, *_: Any) -> Any:
        asked.append("launch")
        return launch(self, *_)

    def compiled(kernel: Any, **named: Any) -> Any:
        asked.append("compile")
        return held(kernel, **named)

    launch: Any = steps.KernelLaunch.run
    held: Any = emitted
    monkeypatch.setattr(steps.KernelLaunch, "run", launched)
    monkeypatch.setattr("treadle.backend.native.codegen.compile.emitted", compiled)
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    def nearest(p: Any, q: Any) -> Any:
        gaps = p[:, None, :] - q[None, :, :]
        best = td.argmin(td.sum(gaps * gaps, axis=2), axis=1)
        return td.cumsum(q[best], axis=0)

    p, q = (np.random.default_rng(3).random((n, 2)) for n in (50, 5))
    found = td.jit(nearest, backend="native")(p, q)
    best = np.argmin(((p[:, None] - q[None]) ** 2).sum(axis=2), axis=1)
    assert np.allclose(found, np.cumsum(q[best], axis=0))
    first = asked.index("launch")
    assert first >= 2
    assert set(asked[first:]) == {"launch"}


def test_the_largest_kernels_are_compiled_first(folder: Path, asked: list[str]) -> None:
    """Those that follow are lowered meanwhile."""

    def program(a: Any) -> Any:
        total = td.cumsum(a)[::-1]
        for k in range(9):
            total = td.sin(total * (0.1 + k))
        return total

    assert td.jit(program, backend="native")(np.arange(9.0) / 99).shape == (9,)
    assert [name.split("_")[0] for name in asked] == ["sin", "cumsum"]


def test_kernels_that_differ_in_their_names_are_compiled_once(
    folder: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are lowered once, too.  The texts of a program have their own names."""
    lower: Any = importlib.import_module("treadle.skeletons.lower.lower").lower
    lowered: list[str] = []
    monkeypatch.setattr("treadle.skeletons.lower.lower.lower",
                        lambda node, *given: lowered.append(str(node.label)) or lower(node, *given)
                        )  # fmt: skip

    def sums(a: Any, b: Any) -> Any:
        return td.sum(a, name="first"), td.sum(b, name="second")

    program = td.jit(sums, backend="native")
    a, b = np.arange(100.0), np.arange(50.0)
    assert same(program(a, b), (a.sum(), b.sum()))
    assert (asked, lowered) == (["first_blocks"], ["sum 'first'"])
    text = program.lower(a, b).source()
    assert "@first_blocks" in text and "@second_blocks" in text


def test_arrays_of_one_number_are_filled_by_one_kernel(folder: Path, asked: list[str]) -> None:
    def numbers(a: Any) -> Any:
        return td.zeros(a.shape), td.full(a.T.shape, -0.5)

    for made, value in zip(td.jit(numbers, backend="native")(A), (0, -0.5), strict=True):
        assert np.array_equal(made, np.full(made.shape, value))
    assert asked == ["fill"]


def test_kernels_that_differ_in_offsets_are_compiled_together(
    folder: Path, asked: list[str]
) -> None:
    """The second kernel, and those after it, have the differing integers as arguments; so has what
    is lowered again, where machine code is missing."""

    def sums(a: Any) -> Any:
        p = td.pad(a, 6, mode="reflect")
        return sum(td.cumsum(td.abs(p[k : k + 100] - a)) for k in range(1, 6))

    a = np.random.default_rng(5).random(100)
    p = np.pad(a, 6, mode="reflect")
    wanted = sum(np.cumsum(np.abs(p[k : k + 100] - a)) for k in range(1, 6))
    found = td.jit(sums, backend="native")(a)
    assert np.allclose(found, wanted, rtol=1e-14)
    names = [name for name in asked if name.startswith("cumsum")]
    assert len(names) == 3, names  # the last one also adds the others
    code.forget()
    for stored in (folder / "native").rglob("*.o"):
        stored.unlink()
    again = td.jit(lambda a: sums(a), backend="native")(a)
    assert np.array_equal(again, found)
    assert asked[len(names) + 1 :]


def test_ways_to_scatter_are_compiled_once_the_data_decides(folder: Path, asked: list[str]) -> None:
    """The number of bins is known when another kernel has run: not all five ways are compiled."""
    x = np.arange(10_000) % 100
    counts = td.jit(lambda x: td.bincount(x, minlength=16), backend="native")
    assert np.array_equal(counts(x), np.bincount(x, minlength=16))
    ways = [name for name in asked if name.startswith("bincount_")]
    assert ways
    assert len(ways) <= 2
    assert len(asked) == len(set(asked))


def test_what_a_key_depends_on(folder: Path) -> None:
    def keys(function: Any, *args: Any, **settings: Any) -> list[str | None]:
        program = td.jit(function, backend="native", **settings).lower(*args)
        owner = program.executable
        return [recipe.key_of(owner, s.node, frozenset(), None) for s in owner.kernel_steps]

    difference = keys(lambda a, b: a - b, A, A)
    assert difference == keys(lambda x, y: x - y, A, A + 1)
    others = [
        keys(lambda a, b: b - a, A, A),  # which argument is which
        keys(lambda a, b: a - b, A.astype("f8"), A.astype("f8")),
        keys(lambda a, b: a - b, A[:1], A),  # an extent of one is broadcast
        keys(lambda a, b: (a - b).scheduled(td.schedule.Column(4)), A, A),
        keys(lambda a, b: a - b, A, A, fast_math=True),
    ]
    assert all(o != difference for o in others)
    with td.config(check=True):
        assert keys(lambda a: a[1:], A) == [None]


def test_numbers_of_a_call_are_none_of_the_key(folder: Path) -> None:
    def scaled(a: Any, k: Any) -> Any:
        return a * k

    assert same(run(scaled, A, 2.0), A * 2)
    recipe.forget()
    assert same(run(scaled, A, 3.0), A * 3)
    assert len(list(folder.glob("recipes/*/*"))) == 1


def test_what_is_said_many_times_has_one_recipe(folder: Path) -> None:
    def centred(a: Any, iterations: int) -> Any:
        for _ in range(iterations):
            a = a - td.sum(a)
        return a

    kept = []
    for iterations in (30, 60):
        wanted = A.astype("f8")
        for _ in range(iterations):
            wanted = wanted - wanted.sum()
        found = run(lambda a, iterations=iterations: centred(a, iterations), A.astype("f8"))
        assert np.allclose(found, wanted)
        kept.append(len(list(folder.glob("recipes/*/*"))))
    assert kept[1] <= kept[0] + 3


def waves(weights: Sequence[float]) -> Any:
    """A kernel for each weight: a Python loop, unrolled while it is traced."""

    def f(a: Any) -> Any:
        for w in weights:
            left, far = td.roll(a, 1, axis=-1), td.roll(a, 2, axis=-1)
            a = left * w + td.sin(a * (w + 0.25)) - far * (w - 1.6)
        return a

    return f


WEIGHTS = (0.3, 1.7, -0.9, 2.0, 0.5, 0.3, 1e30, 0.0625, 3.3, -0.7)


@pytest.mark.parametrize("type_", ["f4", "f8", "c8", "f2"])
def test_kernels_that_differ_in_literals(
    folder: Path, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine code is made once; the bits are those of kernels that have their literals, in calls
    that are repeated, too."""
    a = np.linspace(-1.0, 2.0, 77).reshape(7, 11).astype(type_)

    def objects() -> int:
        return len(list(folder.glob("native/*/*")))

    program = td.jit(waves(WEIGHTS), backend="native")
    with np.errstate(all="ignore"):
        first = program(a)
        assert all(same(program(a), first) for _ in range(3))
        made = objects()
        others = waves([0.31 + 0.01 * k for k in range(12)])
        run(others, a)
        assert (objects() == made) == (type_ in ("f4", "f8"))
        recipe.forget()
        code.forget()
        found = run(waves(WEIGHTS), a)
        assert found.tobytes() == first.tobytes()
        monkeypatch.setattr("treadle.backend.native.executable.repeated_places", lambda _: ())
        apart = run(waves(WEIGHTS), a)
        assert apart.tobytes() == first.tobytes()
        assert objects() > made + 5


def test_kernels_of_literals_from_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found, and made again where their code is not."""
    a = A.astype("f8")
    first = run(waves(WEIGHTS), a)
    with monkeypatch.context() as patched:
        patched.setattr("treadle.skeletons.lower.lower.lower", refused)
        recipe.forget()
        code.forget()
        assert same(run(waves(WEIGHTS), a), first)
    for file in folder.glob("native/*/*"):
        file.unlink()
    recipe.forget()
    code.forget()
    assert same(run(waves(WEIGHTS), a), first)


def test_which_kernels_have_literals_as_arguments(folder: Path) -> None:
    """Those of a line with several nodes, unless the program may be reordered by LLVM."""

    def literals(weights: Sequence[float], **how: Any) -> list[int]:
        program = td.jit(waves(weights), backend="native", **how).lower(A)
        steps: Any = program.executable.kernel_steps
        return [k.kernel.literals for s in steps for k in s.compiled()]

    assert max(literals(WEIGHTS)) > 1
    assert not any(literals(WEIGHTS[:1]))
    assert not any(literals(WEIGHTS, fast_math=True))


@pytest.mark.sample(3)
@pytest.mark.parametrize("damage", ["cut", "format", "nonsense", "no code"])
def test_damaged_recipes_are_dropped(folder: Path, damage: str) -> None:
    first = run(blur, A)
    (path,) = folder.glob("recipes/*/*")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "no code":
        for file in folder.glob("native/*/*"):
            file.unlink()
    else:
        held = recipe._disk.get(path.stem)
        assert held is not None
        about = {**held[1], "format": 0} if damage == "format" else {**held[1], "host": [1, 2]}
        recipe._disk.put(path.stem, b"", about)
    recipe.forget()
    code.forget()
    assert same(run(blur, A), first)
    recipe.forget()
    held = recipe._disk.get(path.stem)
    assert held is not None and held[1]["format"] == recipe.FORMAT


def test_recipes_are_plain_data(folder: Path) -> None:
    run(ZOO["scans"].function, *ZOO["scans"].arguments)
    for path in folder.glob("recipes/*/*"):
        held = recipe._disk.get(path.stem)
        assert held is not None and held[0] == b""
        again = Recipe.of(json.loads(json.dumps(held[1])))
        assert json.dumps(again.data(), sort_keys=True) == json.dumps(held[1], sort_keys=True)


_CHILD = """
import sys
import numpy as np, treadle as td
f = td.jit(lambda a: td.sum(td.exp(a * 2.0), axis=1), backend="native")
print(float(f(np.ones((3, 4)))[0]))
heavy = ("skeletons.lower", "skeletons.ir.kernel", "backend.native.codegen.emitter")
print(*[m for m in heavy if f"treadle.{m}" in sys.modules])
"""


@pytest.mark.long
def test_a_hit_imports_nothing_that_lowers(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "TREADLE_CACHE_DIR": str(tmp_path), "PYTHONPATH": root}
    texts = [
        subprocess.run([sys.executable, "-c", _CHILD], env=environment, capture_output=True,
                       text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert texts[0][0] == texts[1][0]
    assert len(texts[0][1].split()) == 3 and texts[1][1] == ""
