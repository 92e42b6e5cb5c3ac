"""A target is known by what it is like, not by its name: one more needs no change elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.codegen.text import print_file
from treadle.dsl import passes, target
from treadle.dsl.configuration import Settings
from treadle.dsl.graph import Input, topological
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
    context = LoweringContext(target=name, threads=132)
    kernels = [k for n in nodes for k in lower(n, context).kernels]
    return [print_file([(lambda scalars: "", k)], fast_math=False) for k in kernels]


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_gpu_gets_kernels_of_a_gpu(name: str, hip: str) -> None:
    array = PROGRAMS[name]()
    found = texts(array, hip)
    assert found == texts(array, "cuda") and "threadIdx" in "".join(found)


def test_what_nobody_registered_runs_the_graph() -> None:
    assert not target.target_of("abacus").kernels and target.target_of("cpu").name == "native"
