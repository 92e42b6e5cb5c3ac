"""What the user let go of goes at once, without Python's collector of cycles; what stays is what a
hundred programs leave."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

import treadle as td

ADD = lambda x, y: x + y

#: Programs of one array that they capture.
PROGRAMS = {
    "fold": td.sum,
    "map": lambda a: td.map(lambda x: x * 2.5 + 1, a),
    "scan": lambda a: td.scanl1(ADD, a),
    "filter": lambda a: td.filter(lambda x: x > 0, a),
    "stencil": lambda a: td.stencil(lambda w: w[-1] + w[1], a),
    "convolution": lambda a: td.convolve(a, np.array([1.0, 2.0, 1.0])),
    "permute": lambda a: td.permute(ADD, a, lambda i: i, a),
    "gather": lambda a: td.map(lambda x: td.use(a)[td.int64(x)], a),
    "segments": lambda a: td.fold_seg(ADD, 0.0, a, np.array([50, 50])),
    "product": lambda a: td.matmul(td.reshape(a, (10, 10)), td.reshape(a, (10, 10))),
    "sorted": td.sort,
    "loop": lambda a: td.loop(3, lambda k, u: u + a, td.use(a)),
    "while": lambda a: td.while_loop(lambda s: td.the(td.sum(s)) < 500, lambda s: s + a, td.use(a)),
    "branch": lambda a: td.cond(td.sum(td.use(a)) > 0, td.use(a) + 1, td.use(a)),
    "extent": lambda a: td.fill(td.use(a).shape[0], 1.0),
    "concatenation": lambda a: td.concatenate([a, a]),
}


def goes(use) -> bool:
    """Whether an array goes with the last name of it, after `use(array)`."""
    array = np.ones(100)
    gone = weakref.ref(array)
    gc.collect()
    gc.disable()
    try:
        use(array)
        del array
        return gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_arrays_go(name, backend):
    if backend == "cuda":
        pytest.skip("its programs are freed by the collector")
    program = PROGRAMS[name]
    assert goes(program), "traced"
    assert goes(lambda a: td.run(program(a), backend=backend)), "run"
    assert goes(lambda a: td.jit(lambda n: (program(a), n), backend=backend)(2.0)), "in a closure"


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_arrays_are_not_kept(name, backend):
    """With the collector, on every backend."""
    array = np.ones(100)
    gone = weakref.ref(array)
    td.run(PROGRAMS[name](array), backend=backend)
    del array
    gc.collect()
    assert gone() is None


def test_functions_that_lead_to_their_results_go(backend):
    """What a user's function holds may hold what is made of the function."""

    class Owner:
        def __init__(self, array):
            self.made = td.foreign_array({backend: self.double}, array, fallback=lambda x: x * 2)

        def double(self, x):
            return x * 2

    array = np.ones(100)
    gone = weakref.ref(array)
    with td.config(backend=backend):
        Owner(array)
    del array
    gc.collect()
    assert gone() is None


def test_a_scalar_keeps_what_it_is_of():
    """An extent, whose array has no other name."""
    extent = td.use(np.ones(7)).shape[0]
    gc.collect()
    assert td.run(td.iota(extent) + extent).tolist() == list(range(7, 14))
    a = td.use(np.ones(7))
    assert a.shape[0]._expr is a.shape[0]._expr


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def flood(of: range) -> None:
    a = np.ones(10)
    for k in of:
        td.run(td.map(lambda x: td.sqrt(x + float(k)) * 1.5, a), backend="native")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say")
def test_ten_thousand_programs_end_where_some_hundred_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    flood(range(500))  # what is kept for the next call is full
    gc.collect()
    before = resident()
    flood(range(500, 10_000))
    gc.collect()
    assert resident() - before < 20e6


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say")
def test_memory_is_flat_over_many_arrays(backend):
    if backend == "cuda":
        pytest.skip("the GPU is emulated: too slow")
    before = 0
    for k in range(20_000):
        td.run(td.sum(np.ones(50_000)), backend=backend)
        before = resident() if k == 500 else before
    assert resident() - before < 20e6
