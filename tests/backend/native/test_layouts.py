"""Arguments that are not dense: views of every kind give what dense copies give, by kernels that
know along which axis their elements are nearest to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import layouts, running, steps
from treadle.backend.native.codegen.compile import emit
from treadle.backend.native.codegen.target import Target

Views = dict[str, Any]


def base(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(3).integers(0, 50, (2, *shape))
    made = numbers[0] + (1j * numbers[1] if dtype.startswith("c") else 0)
    return made.astype(dtype)


def views(dtype: str, rows: int = 37, columns: int = 70) -> Views:
    wide = base((2 * rows, 9 * columns), dtype)
    return {
        "fortran": np.asfortranarray(wide[:rows, :columns])[::-1],
        "columns of a matrix": wide[:rows, 3 : 3 + columns],
        "reversed": wide[:rows, :columns][::-1, ::-1],
        "every third, backwards": wide[::2, : 3 * columns : 3][:, ::-1],
        "every fifth": wide[:rows, : 5 * columns : 5],
        "far apart": base((rows, columns, 20), dtype)[:, :, 7],
        "broadcast": np.broadcast_to(wide[0, :columns], (rows, columns)),
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["f4", "c8", "c16", "u1"])
def test_views_give_what_copies_give(dtype: str) -> None:
    @td.jit(backend="native")
    def program(a: Any) -> Any:
        cross = td.stencil(lambda w: w[-1, 0] + w[0, 1] - w[0, 0] + w[1, -1], a)
        return a * a + a[:, ::-1], cross, td.sum(a, axis=0)  # sums of small whole numbers

    for name, view in views(dtype).items():
        if dtype not in ("f4", "c8") and name not in ("fortran", "every third, backwards"):
            continue
        copy = np.ascontiguousarray(view)
        for found, wanted in zip(program(view), program(copy), strict=True):
            assert np.array_equal(found, wanted), name


def test_what_is_pinned_does_not_depend_on_the_layout() -> None:
    a = np.random.default_rng(5).random((300, 1100)).astype("f4")
    f = td.jit(
        lambda a: tuple(td.sum(a, axis=k, deterministic=True) for k in (None, 0, 1)),
        backend="native",
    )
    for found, wanted in zip(f(np.asfortranarray(a)), f(a), strict=True):
        assert np.array_equal(found, wanted)


def test_extremes_and_their_places_in_columns() -> None:
    a = np.asfortranarray(base((90, 130), "i4"))
    f = td.jit(lambda a: (td.argmax(a), td.argmin(a, axis=0), td.max(a, axis=1)), backend="native")
    for found, wanted in zip(f(a), (a.argmax(), a.argmin(0), a.max(1)), strict=True):
        assert np.array_equal(found, wanted)


def made_for(monkeypatch: pytest.MonkeyPatch, f: Any, view: Any) -> list[Any]:
    """The kernels that a call with a view is given."""
    kernels: list[Any] = []
    before = steps.KernelLaunch.compiled

    def compiled(self: Any, fast_math: bool, large: bool = False) -> Any:
        kernels.append(self.kernel)
        return before(self, fast_math, large)

    monkeypatch.setattr(steps.KernelLaunch, "compiled", compiled)
    td.jit(f, backend="native")(view)
    monkeypatch.undo()
    return kernels


@pytest.mark.parametrize("name", ["columns of a matrix", "reversed", "every fifth"])
def test_near_neighbours_are_not_gathered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view = views("f4", 40, 128)[name]  # whole vectors: tails are gathered
    (kernel,) = made_for(monkeypatch, lambda a: a * 2 + 1, view)
    text, _ = emit(kernel, Target.host())
    steps_known = [v.name for v in kernel.scalars]
    assert "stride0" in steps_known and "stride1" not in steps_known
    text = text[text.index("define internal void") :]  # without functions that it calls
    body = text.split("tail", 1)[0]
    assert "gather" not in body


def test_columns_are_folded_as_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.asfortranarray(base((90, 130), "f4"))
    for axis in (None, 0, 1):
        for kernel in made_for(monkeypatch, lambda a, axis=axis: td.sum(a, axis=axis), a):
            assert "stride0" not in str(kernel)


def test_stencils_of_columns_read_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Any] = []
    before = layouts.row_major

    def row_major(array: Any) -> Any:
        copied.append(array.shape)
        return before(array)

    def cross(a: Any) -> Any:
        return td.stencil(lambda w: w[-1, 0] + w[0, 1] + w[1, -1], a)

    a = np.asfortranarray(base((300, 310), "f4"))
    wanted = td.jit(cross, backend="native")(np.ascontiguousarray(a))
    monkeypatch.setattr(running, "row_major", row_major)
    f = td.jit(cross, backend="native")
    assert np.array_equal(f(a), wanted) and copied == [a.shape]
    assert np.array_equal(f(a[:20, :20]), f(np.ascontiguousarray(a[:20, :20])))
    assert np.array_equal(f(a.T[1:]), f(np.ascontiguousarray(a.T[1:]))) and len(copied) == 1


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["f4", "c8", "i2", "u1"])
def test_transpositions_go_through_squares_in_registers(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (*_, kernel) = made_for(monkeypatch, td.transpose, base((60, 60), dtype))
    text, _ = emit(kernel, Target.host())
    assert text.count("shufflevector") >= 48


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["f4", "i2", "c16", "u1"])
def test_copies_are_dense(dtype: str) -> None:
    large = base((90, 7, 110), dtype)
    for view in (large.T, large.transpose(1, 0, 2), large[:, ::-2, ::3], large[:2, 0].T):
        copy = layouts.row_major(view)
        assert copy.flags.c_contiguous and np.array_equal(copy, view)
    assert layouts.row_major(large) is large


def test_one_number_for_all() -> None:
    one = np.broadcast_to(np.float32(3), (5, 40))
    f = td.jit(lambda a: (a * 2, td.sum(a, axis=0), td.transpose(a)), backend="native")
    doubled, total, turned = f(one)
    assert (doubled == 6).all() and (total == 15).all() and (turned == 3).all()
    line = td.jit(lambda a: a + td.iota(40), backend="native")
    assert np.array_equal(line(one[0]), 3 + np.arange(40))
