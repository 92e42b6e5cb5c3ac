"""Random programs: their derivatives are those of central differences, or an error."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from ...backend.cuda.emulated import emulation
from ...conformance.fuzz import draw
from .helpers import BACKENDS
from .random_programs import judge, kinds, smooth

SEED = 1


def campaign(seed: int, numbers: range, backend: str) -> int:
    """How many of the programs have a derivative that is right; none is wrong."""
    right = 0
    for number in numbers:
        program = draw(seed, number, kinds)
        verdict = judge(program, backend, number % 3 == 0)
        assert not verdict.failed, (
            f"program {number} of seed {seed}: {verdict.kind} {verdict.message}\n"
            f"{smooth(program).script(backend)}"
        )
        right += verdict.right
    return right


@pytest.mark.parametrize(("backend", "count"), [("reference", 24), ("native", 4)])
def test_random_programs(backend, count):
    assert campaign(SEED, range(count), backend) > count // 2


@pytest.mark.long
@pytest.mark.parametrize("backend", (*BACKENDS, "cuda"))
def test_many_random_programs(backend):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    with emulation() if backend == "cuda" else contextlib.nullcontext():
        assert campaign(seed, range(1500 if backend == "reference" else 300), backend) > 100
