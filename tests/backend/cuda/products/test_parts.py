"""What is computed with a product, and what beside it; the engine emulated on a CPU."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda import emulated
from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.test_products import EmulatedKernels, execute
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products import (
    choice as product_choice,
    engine,
    form as engine_form,
    parts as engine_parts,
    ways as product_ways,
)
from treadle.backend.cuda.products.choice import EPILOGUE, LEFT, RIGHT, Decision, decide
from treadle.backend.cuda.products.form import FORMS, SLOTS
from treadle.backend.runtime.operand import plain
from treadle.driver.program import Program
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Input, Matmul, topological
from treadle.dsl.process.configuration import Settings

M, K, N = 70, 64, 92
A, A2, B, B2 = (
    np.random.default_rng(k).integers(-3, 4, shape).astype("f4")
    for k, shape in enumerate(((M, K), (M, K), (K, N), (K, N)))
)
SCALE = np.arange(K, dtype="f4") % 5
BIAS = np.arange(N, dtype="f4") % 7 - 3


class Device(emulated.EmulatedDevice):
    """With an engine, or (`arch` of another GPU) without."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> EmulatedKernels:
    """The backend on an emulated GPU, whose engine computes every product that it can."""
    device, found = Device(), EmulatedKernels()
    found.device.multiprocessors, found.device.library = 6, np
    monkeypatch.setattr("treadle.backend.cuda.executable.device_here", lambda: device)
    monkeypatch.setattr(engine_parts, "engine_for", lambda d: found)
    for module in (product_ways, product_choice):
        monkeypatch.setattr(module, "predicted", lambda *x, **more: {})
    for name, form in FORMS.items():
        eager = dataclasses.replace(form, least_steps=0, least_inner=0)
        monkeypatch.setitem(engine_form.FORMS, name, eager)
    monkeypatch.setattr(engine, "FUSED_WAVES", 0)
    found.beside_engine = device.launched  # type: ignore[attr-defined]
    return found


def _fused(made: EmulatedKernels) -> list[tuple[str, list[str]]]:
    """(mode, slots) of every launch of the engine."""
    return [(c.mode, [v for v in SLOTS.values() if f"struct {v} {{" in (c.fused or "")])
            for c in made.launched if not isinstance(c, tuple)]  # fmt: skip


PROGRAMS: dict[str, tuple[Any, Any, str, list[str]]] = {
    "both": (
        lambda a, a2, b, b2: td.maximum((a + a2) @ (2 * b + 1) + td.use(BIAS), 0),
        np.maximum((A + A2) @ (2 * B + 1) + BIAS, 0), "owner", ["ProducerA", "ProducerB",
                                                                "Epilogue"],
    ),
    "strassen": (
        lambda a, a2, b, b2: td.maximum(
            td.strassen(a * a + 1, b, execution="persistent") + td.use(BIAS), 0),
        np.maximum((A * A + 1) @ B + BIAS, 0), "persistent", ["ProducerA", "Epilogue"],
    ),
    "transposed": (
        lambda a, a2, b, b2: td.use(np.ascontiguousarray(A.T)).T @ (b * b),
        A @ (B * B), "split", ["ProducerB"],
    ),
    "along one index": (
        lambda a, a2, b, b2: (a * td.use(SCALE)) @ (b - b2), (A * SCALE) @ (B - B2), "split",
        ["ProducerA", "ProducerB"],
    ),
    "atomic": (lambda a, a2, b, b2: td.strassen(a - 1, b), (A - 1) @ B, "atomic", ["ProducerA"]),
}  # fmt: skip
_QUICK = ("both",)


@pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
@pytest.mark.parametrize(
    "name", [n if n in _QUICK else pytest.param(n, marks=pytest.mark.long) for n in PROGRAMS]
)
def test_one_kernel(name: str, made: EmulatedKernels) -> None:
    function, want, mode, slots = PROGRAMS[name]
    got = execute(function(*map(td.use, (A, A2, B, B2))))
    np.testing.assert_array_equal(got, want)
    assert _fused(made) == [(mode, slots)] and not made.beside_engine  # type: ignore[attr-defined]


@pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
@pytest.mark.long
def test_kernels_around_an_execution_that_finishes_nothing(made: EmulatedKernels) -> None:
    a, b = map(td.use, (A, B))
    got = execute(td.strassen(a, b, execution="atomic") * 2 + td.use(BIAS))
    np.testing.assert_array_equal(got, 2 * (A @ B) + BIAS)
    assert _fused(made) == [("atomic", [])]
    assert sum(made.beside_engine.values()) == 1  # type: ignore[attr-defined]


def test_without_an_engine_parts_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setattr("treadle.backend.cuda.executable.device_here", lambda: device)
    monkeypatch.setattr(engine_parts, "engine_for", lambda d: None)
    a, b = map(td.use, (A, B))
    got = execute(td.maximum(td.matmul(2 * a + 1, b, algorithm="winograd") + td.use(BIAS), 0))
    np.testing.assert_array_equal(got, np.maximum((2 * A + 1) @ B + BIAS, 0))
    assert sum(device.launched.values()) == 2  # before the product, and after it
    with pytest.raises(td.ScheduleError, match="no tile engine"):
        execute(td.strassen(2 * a + 1, b, execution="owner"))


# --- what is decided -----------------------------------------------------------------------------


def _node(array: Any) -> Matmul:
    """The product of a program for a GPU, after the passes."""
    leaves, tree = flatten_results(array)
    inputs = tuple(n for n in topological(leaves) if isinstance(n, Input))
    program = Program(leaves, tree, Settings(), "cuda", inputs)
    (found,) = (n for n in topological(program.roots) if isinstance(n, Matmul))
    return found


ENGINE = engine.Engine(types.SimpleNamespace(multiprocessors=132, arch="sm_90a"))


def _decided(array: Any, n: int) -> Decision:
    return decide(ENGINE, _node(array), (n, n, n))


def test_light_operands_go_into_the_product() -> None:
    a, b = map(td.use, (A, B))
    light = _decided((2 * a + 1) @ b, 2048)
    assert light.way == ("owner", 0) and not light.separate
    assert "2 operations an element, 0.7 % of the time" in light.why[LEFT]
    for n in (2048, 4096, 8192):
        fast = _decided(td.strassen(2 * a + 1, b), n)
        assert fast.way is not None and fast.way[1] == 1 and not fast.separate
    assert _decided((2 * a + 1) @ b, 512).way is None  # the library's


def test_a_pass_over_memory_costs_less_where_products_are_large() -> None:
    a, b = map(td.use, (A, B))
    cubic = a @ ((b * b + 1) * b + 2)
    assert not _decided(cubic, 2048).separate
    large = _decided(cubic, 16384)
    assert large.separate == {RIGHT} and "a pass over memory" in large.why[RIGHT]
    # where parts of tiles are dealt out ("split"), too
    cut = _decided((2 * a + 1) @ b, 3072)
    assert cut.way == ("split", 0) and not cut.separate


def test_what_stays_outside() -> None:
    a, a2, b, b2 = map(td.use, (A, A2, B, B2))
    exp = _node(td.exp(a) @ b)  # heavy: an array of its own whatever the extents
    assert plain(exp.left)
    three = _node((a + a2 + td.use(A * 2)) @ b)
    assert plain(three.left)
    used = td.use(A) * 2
    leaves = flatten_results((used @ b, used))[0]
    program = Program(leaves, None, Settings(), "cuda", ())
    (shared,) = (n for n in topological(program.roots) if isinstance(n, Matmul))
    assert plain(shared.left)
    assert _decided(td.strassen(a, b + b2), 8192).separate == {RIGHT}  # registers
    assert _decided(td.strassen(a * 2, b, levels=2), 8192).separate == {LEFT}


def test_epilogues_of_fast_products() -> None:
    a, b = map(td.use, (A, B))
    small = _decided(td.maximum(td.strassen(a, b), 0), 2048)
    assert small.way == ("atomic", 1) and small.separate == {EPILOGUE}
    assert "'atomic' and a pass over memory take" in small.why[EPILOGUE]
    owner = _decided(td.maximum(td.strassen(a, b, execution="owner"), 0), 2048)
    assert owner.way == ("owner", 1) and not owner.separate
    ordered = td.matmul(a, b, algorithm="strassen", deterministic=True) * 2
    assert not _decided(ordered, 4096).separate
    assert _decided(ordered, 2048).way == ("persistent", 1)


def test_source_prints_the_engine_of_a_fast_product(nvrtc: None) -> None:
    """With what is fused into it, and the kernels around it, as one file."""
    large = np.zeros((2048, 2048), "f4")

    def program(a: td.Array, b: td.Array) -> td.Array:
        product = td.strassen(2 * a + 1, b, execution="persistent")
        return td.maximum(product, 0) + td.strassen(a, b)

    text = td.jit(program, backend="reference").lower(large, large).source("cuda")
    assert "by the tile engine: execution atomic\n#define" in text
    assert "by the tile engine: execution persistent, the same file with" in text
    assert "//   #define TILE_A ProducerA" in text and "//   #define TILE_MODE PERSISTENT" in text
    assert compile_text(text, "matmul_f32", "sm_90a").spills == 0
    small = np.zeros((64, 64), "f4")
    text = td.jit(lambda a, b: a @ b, backend="reference").lower(small, small).source("cuda")
    assert text.startswith("// no kernel")
    fused = td.jit(lambda a, b: td.strassen(2 * a + 1, b), backend="reference")
    assert "using fused::ProducerA;" in fused.lower(large, large).source("cuda")
