"""A target is known by what it is like, not by its name: one more needs no change elsewhere."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.backend import registry
from treadle.backend.cuda.codegen.text import print_file
from treadle.dsl import passes, target
from treadle.dsl.graph import Input, topological
from treadle.dsl.process.configuration import Settings
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.lower import lower

A = np.ones((40, 30), np.float32)
PROGRAMS = {
    "map": lambda: td.use(A) * 2 + 1,
    "stencil": lambda: td.stencil(lambda w: w[-1, 0] + w[1, 0], A, boundary=td.clamp),
    "transposed": lambda: td.transpose(td.use(A)) + 1,
    "fold": lambda: td.sum(td.use(A), axis=0),
    "scan": lambda: td.cumsum(td.use(A), axis=1),
    "scatter": lambda: td.permute(lambda x, y: x + y, td.zeros((30,)), lambda i, j: j, A),
}


@pytest.fixture
def hip(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(target, "_targets", dict(target._targets))
    target.register(target.Target("hip", gpu=True))
    return "hip"


def texts(array: td.Array, name: str) -> list[str]:
    """The kernels of a program for a target, as C++ text."""
    roots = passes.run_passes(array._leaves, Settings(), name).roots
    nodes = [n for n in topological(roots) if not isinstance(n, Input)]
    context = LoweringContext(target.target_of(name), threads=132)
    kernels = [k for n in nodes for k in lower(n, context).kernels]
    return [print_file([(lambda scalars: "", k)], fast_math=False) for k in kernels]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_another_gpu_gets_kernels_of_a_gpu(name: str, hip: str) -> None:
    array = PROGRAMS[name]()
    found = texts(array, hip)
    assert found == texts(array, "cuda") and "threadIdx" in "".join(found)


def test_unregistered_targets_run_the_graph() -> None:
    assert not target.target_of("abacus").kernels


#: The folder of a backend that prints kernels and runs nothing.
FOLDER = {
    "__init__.py": """
from treadle.backend.registry import Backend, register
from treadle.dsl.target import Target

HIP = Target("hip", gpu=True)
register(
    Backend("hip", "hip_of_a_test.executable", "hip_of_a_test", "AMD GPUs", instead="Read it."),
    HIP,
)

def unavailable():
    return "it prints text only"
""",
    "executable.py": """
from hip_of_a_test import HIP
from treadle.backend.runtime.choosing import first_choice
from treadle.backend.runtime.plan import Planner
from treadle.skeletons.lower.lower import LoweringContext, lower

def lowering(program, node):
    return LoweringContext(HIP, 104, vector_bytes=16, check=program.settings.check)

def source(program, arch=None):
    steps = Planner(program.roots, program.inputs).plan.steps
    kernels = (k for s in steps for k in lower(s.node, lowering(program, s.node)).kernels)
    return "".join(f"// {arch}\\n{kernel}\\n" for kernel in kernels)
""",
}


@pytest.fixture
def hip_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "hip_of_a_test"
    folder.mkdir()
    for name, text in FOLDER.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(target, "_targets", dict(target._targets))
    monkeypatch.setattr(registry, "BACKENDS", dict(registry.BACKENDS))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("hip_of_a_test")
    yield
    for name in [name for name in sys.modules if name.startswith("hip_of_a_test")]:
        del sys.modules[name]
    registry.why_not.cache_clear()


@pytest.mark.usefixtures("hip_folder")
def test_a_backend_is_one_folder() -> None:
    """It is listed, printed and explained, and says why it does not run."""
    program = td.jit(lambda a: td.sum(td.sin(a) + 1, axis=0), backend="native").lower(A)
    text = program.source("hip", arch="gfx942")
    assert text.startswith("// gfx942") and "thread" in text and "sin" in text
    assert "sum" in program.explain("hip")
    assert td.backends()["hip"] == "unavailable: it prints text only"
    with pytest.raises(td.BackendUnavailable, match=r"(?s)prints text only.*Read it"):
        td.jit(lambda a: a + 1, backend="hip")(A)
