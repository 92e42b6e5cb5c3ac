"""`Auto` on a GPU: what it chose is what is launched, and it changes no bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import EmulatedDevice
from treadle.backend import registry
from treadle.backend.cuda import availability, executable
from treadle.skeletons.model import device as ceilings
from treadle.skeletons.schedules import Row


@pytest.fixture(autouse=True)
def gpu(tmp_path, monkeypatch):
    """An emulated GPU, so small that little arrays are worth a choice."""
    small = dataclasses.replace(ceilings.H200, units=2, issue=8e6, clock=1e6, launch=1e-9)
    monkeypatch.setattr(ceilings, "default", lambda backend: small)
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    device = EmulatedDevice()
    monkeypatch.setattr(executable, "device_here", lambda: device)
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    caches = (registry.load, registry.why_not)
    for cache in caches:
        cache.cache_clear()
    yield device
    for cache in caches:
        cache.cache_clear()


def product(a, b):
    return td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0)),
        name="product",
    )


def of_rows(a, b):
    """a · bᵀ: neighbours of a row of the result read rows of b, which lie apart in memory."""
    return product(a, td.transpose(b))


def test_auto_launches_what_it_chose():
    rng = np.random.default_rng(0)
    # Rows of 15: several iterations of the loop cannot be read at once.
    a, b = rng.random((256, 15), np.float32), rng.random((256, 15), np.float32)
    auto = td.jit(of_rows, backend="cuda").lower(a, b)
    rows = td.jit(of_rows, backend="cuda").scheduled(product=Row()).lower(a, b)
    np.testing.assert_array_equal(auto(a, b), rows(a, b))
    (step,) = auto.executable.kernel_steps
    (chosen,) = {key[-1] for key in step.variants}
    assert chosen is not None and chosen == step.choosing(lambda slot: [a.shape, b.shape][slot])
    assert repr(chosen) in auto.source() and repr(chosen) in auto.explain()
    assert repr(chosen) not in rows.source()


def test_a_permute_that_turns_rows_has_a_choice(monkeypatch):
    """Its stores decide; inputs that are not dense are copied first, as ever."""
    slow = dataclasses.replace(ceilings.H200, units=2, far=1e6, launch=1e-9)
    monkeypatch.setattr(ceilings, "default", lambda backend: slow)
    ceilings._recall.cache_clear()
    a = np.arange(96 * 64, dtype=np.float32).reshape(96, 64)

    def turned(a):
        return td.permute(td.overwrite, td.zeros((64, 96), "float32"), lambda i, j: (j, i), a,
                          name="turned")  # fmt: skip

    program = td.jit(turned, backend="cuda").lower(a)
    np.testing.assert_array_equal(program(a), a.T)
    np.testing.assert_array_equal(program(np.asfortranarray(a)), a.T)
    (step,) = [s for s in program.executable.kernel_steps if s.choosing is not None]
    chosen = step.choosing(lambda slot: (96, 64))
    assert chosen is not None and chosen in {key[-1] for key in step.variants}
    assert repr(chosen) in program.explain()
