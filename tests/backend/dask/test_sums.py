"""Sums of floats of everything, of any elements: the leaves of the kernel of one machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import plan

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

F = Callable[..., Any]


def near(w: Any) -> Any:
    return w[-1, 0] + w[1, 0] * 0.5 - 2 * w[0, 1]


def below(a: Any) -> Any:
    """The elements of the lower triangle."""
    row, column = td.iota(a.shape[0])[:, None], td.iota(a.shape[1])[None, :]
    return td.where(column <= row, a, 0)


ROWS: dict[str, F] = {
    "weights of columns": lambda a: a * a[0],
    "weights of rows": lambda a: a * a[:, :1],
    "differences of rows": lambda a: a[1:] - a[:-1],
    "differences of columns": lambda a: a[:, 1:] * a[:, :-1],
    "reversed": lambda a: a[:, ::-1] * a,
    "triangle": below,
    "residual": lambda a: (a - td.stencil(near, a, boundary=td.clamp)) ** 2,
    "periodic": lambda a: td.stencil(near, a, boundary=td.wrap),
}
LINES: dict[str, F] = {
    "differences": lambda a: (a[1:] - a[:-1]) ** 2,
    "moment": lambda a: a * td.iota(a.shape[0]),
    "reversed": lambda a: a * a[::-1],
    "stencil": lambda a: td.stencil(lambda w: w[-1] + w[2], a, boundary=td.mirror),
}
#: Matrices whose leaves are many rows, one row, and parts of rows.
SHAPES = [(20_000, 3), (3_000, 63), (300, 127), (70, 4_096), (9, 8_193), (5, 20_000)]


def check(f: F, a: np.ndarray, chunks: Any) -> str:
    """The bits of `native`; the explanation."""
    given, wanted = da.from_array(a, chunks=chunks), td.jit(f, backend="native")(a)
    found = td.jit(f)(given).compute(scheduler="sync")
    assert found.tobytes() == wanted.tobytes() and found.dtype == wanted.dtype
    text = td.jit(f).lower(given).explain("dask")
    return text[text.index("On arrays") :].split("\n\n")[0]


def largest(text: str) -> int:
    """The most tasks of a stage."""
    return max(map(int, re.findall(r"(\d+) tasks? of up to", text)))


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_matrices(name: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal(shape).astype(np.float32)
    third = shape[0] // 3
    chunks = ((third, third + 1, shape[0] - 2 * third - 1), shape[1:])
    text = check(lambda a: td.sum(ROWS[name](a)) * 2 + 1, a, chunks)
    assert largest(text) >= 2, text
    halves = (shape[1] // 2, shape[1] - shape[1] // 2)
    check(lambda a: td.mean(ROWS[name](a)), a, (chunks[0], halves))


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
@pytest.mark.parametrize("name", LINES)
def test_lines(name: str, dtype: Any) -> None:
    a = np.random.default_rng(2).standard_normal(30_011).astype(dtype)
    text = check(lambda a: td.sum(LINES[name](a)), a, ((10_000, 1, 12_000, 8_010),))
    assert largest(text) >= 3, text


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(100_003,), (300, 127), (5, 20_000), (30, 20, 70)], ids=str)
def test_in_a_fixed_order(shape: tuple[int, ...]) -> None:
    """Sums that are `deterministic`, and products of complex numbers, which have no Reduce."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal(shape).astype(np.float32)
    chunks = tuple((n // 2, n - n // 2) if k == 0 else n for k, n in enumerate(shape))
    text = check(lambda a: td.sum(a, deterministic=True), a, chunks)
    assert largest(text) >= 2, text
    check(lambda a: td.sum(a[..., ::-1] * a, deterministic=True), a, chunks)
    b = (1 + a * 1e-3 + 1e-3j).astype(np.complex64)
    check(td.prod, b, chunks)
    check(lambda b: td.prod(b * b[..., :1]), b, chunks)


def test_functions_that_do_not_commute() -> None:
    """Leaves in order, then these in order."""

    def steps(a: Any) -> Any:
        def then(x: Any, y: Any) -> Any:
            return x[0] * y[0], x[1] * y[0] + y[1]

        start = (td.float32(1), td.float32(0))
        return td.map(lambda pair: pair[1], td.fold(then, start, td.zip(a * 1e-3 + 1, a)))

    a = np.random.default_rng(4).standard_normal(50_000).astype(np.float32)
    text = check(steps, a, 20_000)
    assert largest(text) >= 3, text


def test_three_axes() -> None:
    a = np.random.default_rng(5).standard_normal((30, 40, 17)).astype(np.float32)
    for f in (lambda a: a[1:] * a[:-1], lambda a: a * a[:, :1, :1], lambda a: a[..., 1:] + 1):
        check(lambda a, f=f: td.sum(f(a)), a, ((15, 1, 14), (4, 16, 20), 17))


def test_more_than_the_memory(tmp_path: Path) -> None:
    """A weighted sum of a file of eight times the memory."""
    shape = (1024, 2048)
    source = np.memmap(tmp_path / "a", np.float32, "w+", shape=shape)
    source[...] = np.random.default_rng(6).random(shape, np.float32)
    weights = np.random.default_rng(7).random(2048, np.float32)
    for f in (lambda a: td.sum(a * weights), lambda a: td.sum((a[1:] - a[:-1]) ** 2)):
        found = td.stream(f, source, memory="1 MB")
        assert found.tobytes() == td.jit(f, backend="native")(np.array(source)).tobytes()


def test_a_trace_takes_the_diagonal_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task reads the whole matrix; the sum has the bits of one machine, in leaves, too."""
    monkeypatch.setattr(plan, "LARGE", 100)
    a = np.random.default_rng(4).standard_normal((300, 300))
    given = da.from_array(a, chunks=(60, 100))

    def few(a: Any) -> Any:
        return td.sum(td.generate((10_000,), lambda i: a[i % 300, (i * 7) % 300]) * 0.3)

    for f in (td.trace, few, lambda a: td.mean(td.diagonal(a, 3))):
        made = td.jit(f)(given)
        wanted = td.jit(f, backend="native")(a)
        assert made.compute(scheduler="synchronous").tobytes() == np.asarray(wanted).tobytes()
    text = td.jit(td.trace).lower(given).explain("dask")
    assert "every task reads all of" not in text
    assert "a grid of 5 blocks" in text
