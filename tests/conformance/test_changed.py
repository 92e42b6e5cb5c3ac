"""An array of NumPy that is changed after a call has looked at it, and before its result is
computed: elements out of range are an error then, too, and never end the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treadle as td

from .changed import ATTACKS
from .helpers import assert_same, cuda, to_host

#: What becomes of an attack on indices is `IndexOutOfBounds`; of the others this.
OTHERS = {
    **dict.fromkeys(("bincount", "segments", "negative segments", "no empty segments",
                     "scan of segments", "negative repeats"), "ShapeError"),
    "repeat": "DeviceOutOfMemory",
    **dict.fromkeys(("mask", "compress", "nonzero", "searchsorted", "digitize", "histogram",
                     "interp", "quantile", "percentile"), "a value"),  # which no index decides
    "mask, written": "ShapeError",
    **dict.fromkeys(("roll", "partition", "delete", "insert", "pad", "choose", "unravel_index"),
                    "a value"),  # of the numbers as they were
}  # fmt: skip
#: Calls of functions that refer to the array: it is that of the call.
KEPT = ("gradient", "gradient of at")


def test_no_attack_ends_the_process() -> None:
    """On `native`, whose kernels read the memory of the process."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.changed"], cwd=root, capture_output=True,
        text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(root),
                                     "TREADLE_BACKEND": "native"},
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert done.returncode == 0, (said[-1:], done.stderr)
    found = dict(zip(said[::2], said[1::2], strict=True))
    want = {name: OTHERS.get(name, "IndexOutOfBounds") for name in ATTACKS}
    assert found == {name: f"{'a value' if name in KEPT else w}, {w}" for name, w in want.items()}


TABLE = np.arange(10.0)


@pytest.mark.parametrize("count", [1, 4])
def test_indices_are_tested_where_they_are_read(backend: str, count: int) -> None:
    """The first call, and one that is cached."""
    with td.config(backend=backend):
        for _ in range(count):
            k = np.array([1, 2, 3])
            good, bad = td.use(TABLE)[k], td.take(TABLE, k)
        k[:] = [0, 9, -1]
        assert_same(np.asarray(good), TABLE[[0, 9, -1]])
        k[1] = 10
        with pytest.raises(td.IndexOutOfBounds, match=r"take: .*axis 0 with extent 10"):
            np.asarray(bad)


def test_captured_indices_are_tested_in_each_call(backend: str) -> None:
    """Of the table of that call, which may be shorter than the one that was traced."""
    k = np.array([1, 2, 7])
    f = td.jit(lambda a: a[k] * 2, backend=backend)
    for table in (TABLE, TABLE, TABLE[:8], TABLE[:8], TABLE):
        assert_same(to_host(f(table)), table[k] * 2)
    for _ in range(2):
        with pytest.raises(td.IndexOutOfBounds, match="axis 0 with extent 7"):
            f(TABLE[:7])
    k[0] = -8
    with pytest.raises(td.IndexOutOfBounds, match="axis 0 with extent 7"):
        f(TABLE[:7])
    assert_same(to_host(f(TABLE[:8])), TABLE[:8][k] * 2)
    for table in (TABLE, TABLE[:8]):
        k[0] = -11
        with pytest.raises(td.IndexOutOfBounds, match=f"axis 0 with extent {len(table)}"):
            f(table)
        k[0] = 0


def test_captured_indices_of_a_part_that_data_decides(backend: str) -> None:
    k = np.array([2, -3])
    f = td.jit(lambda a: td.compress(a > 4, a)[k], backend=backend)
    assert_same(to_host(f(TABLE)), TABLE[TABLE > 4][k])
    with pytest.raises(td.IndexOutOfBounds, match="axis 0 with extent 2"):
        f(TABLE[:7])


def test_copies_of_indices_do_not_change(backend: str) -> None:
    k = np.array([1, 2, 7])
    own = td.array(k)
    f = td.jit(lambda a: a[own], backend=backend)
    assert_same(to_host(f(TABLE)), TABLE[k])
    k[:] = 99
    assert_same(to_host(f(TABLE)), TABLE[[1, 2, 7]])
    with pytest.raises(td.IndexOutOfBounds, match="axis 0 with extent 7"):
        f(TABLE[:7])


def test_stored_programs_test_indices(tmp_path: Path) -> None:
    k = np.array([1, 2, 7])
    td.jit(lambda a: a[k], backend="native").lower(TABLE).save(tmp_path / "program")
    program = td.load(tmp_path / "program")
    assert_same(program(TABLE), TABLE[k])
    with pytest.raises(td.IndexOutOfBounds, match="axis 0 with extent 7"):
        program(TABLE[:7])


def test_streams_test_indices() -> None:
    pytest.importorskip("dask")
    k = np.array([1, 2, 7])
    f = td.jit(lambda a, table: a + td.sum(table[k]))
    assert_same(td.stream(f, TABLE, TABLE, memory="1 MB"), TABLE + TABLE[k].sum())
    with pytest.raises(td.IndexOutOfBounds, match="axis 0 with extent 7"):
        td.stream(f, TABLE, TABLE[:7], memory="1 MB")


def test_replays_on_a_gpu_test_indices_before_they_run() -> None:
    k = np.array([1, 2, 7])
    with cuda(True):
        f = td.jit(lambda a: a[k] * 2, backend="cuda")
        for table in (TABLE, TABLE[:8], TABLE, TABLE[:8]):
            assert_same(to_host(f(table)), table[k] * 2)
        k[1] = 10**12  # the emulation would not find the element
        for table in (TABLE, TABLE[:8]):
            with pytest.raises(td.IndexOutOfBounds, match=f"extent {len(table)}"):
                f(table)
