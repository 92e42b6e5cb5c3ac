"""Iterations of a loop over a stencil, several in a pass: a program on an emulated GPU."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import emulation
from treadle.backend.cuda.loops import TemporalBlocking


@pytest.mark.sample(2)
@pytest.mark.parametrize("iterations", [0, 1, 3, 7, 8, 9, 12, 16, 45])
@pytest.mark.parametrize("shape", [(24, 64), (9, 30)])
def test_passes_and_what_is_left(iterations, shape, monkeypatch):
    passed = []

    def launches(self, *args):
        found = original(self, *args)
        passed.append(found is not None)
        return found

    original = TemporalBlocking.launches
    monkeypatch.setattr(TemporalBlocking, "launches", launches)
    a = np.random.default_rng(0).integers(0, 100, shape).astype("f4")

    def program(x):
        return td.iterate(iterations, lambda y: td.stencil(
            lambda w: (w[-1, 0] + w[0, -1] + w[0, 1] + w[1, 0]) * 0.25, y), x)  # fmt: skip

    want = td.run(program(td.use(a)), backend="reference")
    with emulation():
        assert np.array_equal(np.asarray(td.jit(program, backend="cuda")(a)), want)
    if shape[1] % 4 == 0:
        assert passed == [True] * ((iterations >= 8) + (iterations % 8 >= 4))
    else:  # rows of whole vectors only
        assert passed == [False] * ((iterations >= 8) + (iterations >= 4))
