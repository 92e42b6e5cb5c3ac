"""Products of floats in blocks by OpenBLAS, on treadle's threads."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from treadle.backend.native import blas
from treadle.backend.native.runtime import threads

pytestmark = pytest.mark.skipif(
    blas.library() is None, reason="NumPy has no OpenBLAS with threads of its own"
)

Matrix = np.ndarray[Any, Any]


def matrices(shape: tuple[int, ...], kind: str) -> Iterator[Matrix]:
    """Matrices of one shape in rows, in columns, with gaps, between others and upside down."""
    (*batch, rows, columns), rng = shape, np.random.default_rng(0)

    def made(*extents: int) -> Matrix:
        x = rng.standard_normal((*batch, *extents))
        return (x + 1j * rng.standard_normal(x.shape) if kind in "FD" else x).astype(kind)

    yield made(rows, columns)
    yield made(columns, rows).swapaxes(-1, -2)
    yield made(rows, 2 * columns)[..., ::2]
    yield made(rows, columns + 3)[..., 1:-2]
    yield made(rows, columns)[..., ::-1, :]


def near(found: Matrix, want: Matrix, k: int) -> None:
    assert found.shape == want.shape and found.dtype == want.dtype
    most = 30 * np.finfo(want.dtype).eps * k**0.5
    np.testing.assert_allclose(found, want, rtol=0, atol=most * max(1.0, abs(want).max()))


@pytest.fixture(params=(1, 2, 5))
def team(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A number of treadle's threads."""
    count: int = request.param
    monkeypatch.setattr(threads, "thread_count", lambda: count)
    return count


@pytest.mark.parametrize("kind", "fdFD")
@pytest.mark.parametrize(
    "extents", [(300, 70, 130), (1, 300, 400), (400, 300, 1), (64, 2000, 64), (1, 20000, 1)]
)
def test_products_are_numpys(team: int, kind: str, extents: tuple[int, int, int]) -> None:
    m, k, n = extents
    lefts, rights = matrices((m, k), kind), matrices((k, n), kind)
    for a, b in product(lefts, rights) if kind == "d" else zip(lefts, rights, strict=True):
        want = np.matmul(a.copy(), b.copy())
        near(blas.matmul(a, b), want, k)
        near(blas.matmul(a, b, alone=True), want, k)
        across = np.full((n, m), np.nan, kind).T
        assert blas.matmul(a, b, across) is across
        near(across, want, k)


@pytest.mark.parametrize(
    ("left", "right"), [((3,), ()), ((2, 3), (3,)), ((), (2,)), ((2, 1), (1, 3)), ((0,), ())]
)
@pytest.mark.parametrize("extents", [(200, 70, 130), (1, 300, 400), (400, 300, 1)])
def test_batches(
    team: int, left: tuple[int, ...], right: tuple[int, ...], extents: tuple[int, int, int]
) -> None:
    m, k, n = extents
    lefts, rights = matrices((*left, m, k), "d"), list(matrices((*right, k, n), "d"))
    for a, b in zip(lefts, rights[::-1], strict=True):
        want = np.matmul(a.copy(), b.copy())
        if want.size:
            near(blas.matmul(a, b), want, k)
        assert blas.matmul(a, b).shape == want.shape


@pytest.mark.parametrize("kind", "fdFD")
def test_a_matrix_by_itself_is_symmetric(team: int, kind: str) -> None:
    for m, k in ((300, 200), (50, 3000), (1000, 40)):
        for a in list(matrices((m, k), kind))[:2]:
            found = blas.matmul(a, a.T)
            near(found, np.matmul(a, a.T.copy()), k)
            assert (found == found.T).all()


def loaded() -> blas.Library:
    found = blas.library()
    assert found is not None
    return found


def set_threads(count: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(loaded().set_threads)(count)


def test_blas_has_its_threads_back() -> None:
    get = ctypes.CFUNCTYPE(ctypes.c_int32)(loaded().get_threads)
    before, (a,) = get(), list(matrices((700, 700), "d"))[:1]
    workers = [threading.Thread(target=lambda: blas.matmul(a, a)) for _ in range(4)]
    for worker in workers:
        worker.start()
    seen = set[int]()
    while any(worker.is_alive() for worker in workers):
        seen.add(get())
        assert loaded().threads() == before  # whatever it is meanwhile
    assert get() == before and seen <= {1, before}


def test_fewer_threads_of_blas_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    if loaded().most == 1:
        pytest.skip("one core")
    a = next(matrices((300, 300), "d"))

    def refused(*_: object) -> None:
        raise AssertionError("treadle's threads")

    monkeypatch.setattr(threads, "parallel", refused)
    with pytest.raises(AssertionError, match="treadle's threads"):
        blas.matmul(a, a)
    before = loaded().threads()
    set_threads(1)
    try:
        assert (blas.matmul(a, a) == np.matmul(a, a)).all()
    finally:
        set_threads(before)


def test_every_run_has_the_same_bits(team: int) -> None:
    """Also one that finds the team at work: blocks are the same, whoever computes them."""
    a, b = (next(matrices((400, 400), "f")) for _ in range(2))
    want, wrong = blas.matmul(a, b), list[bool]()

    def again() -> None:
        wrong.append(any((blas.matmul(a, b) != want).any() for _ in range(20)))

    workers = [threading.Thread(target=again) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == [False] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_of_a_fork_multiplies() -> None:
    """Forked while a thread is within a product: BLAS has its threads back there, too."""
    script = """
import ctypes, os, threading
import numpy as np
from treadle.backend.native import blas
a = np.ones((600, 600))
blas.matmul(a, a)
before = blas.library().threads()
going = True
def work():
    while going:
        blas.matmul(a, a)
worker = threading.Thread(target=work)
worker.start()
for _ in range(10):
    child = os.fork()
    if not child:
        get = ctypes.CFUNCTYPE(ctypes.c_int32)(blas.library().get_threads)
        os._exit(0 if get() == before and (blas.matmul(a, a) == 600).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
going = False
worker.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)
