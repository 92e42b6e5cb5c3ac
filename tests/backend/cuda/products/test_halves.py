"""Products of 16-bit floats by tensor maps and wgmma: the text of the kernel emulated on a CPU
(tiles.py) under its host side.  The form without instructions of Hopper: test_portable.py."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.test_tf32 import Emulated, _described, matrix
from treadle.backend.cuda.products import mapped
from treadle.backend.cuda.products.form import FORMS

pytestmark = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
NAMES = [name for name, form in FORMS.items() if form.maps and not form.precision]
TYPES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
LAYOUTS = ("nn", "nt", "tn", "tt")


class Halves(Emulated):
    """Matrices of words of 16 bits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int = 0, processors: int = 3,
                 change: tuple[str, str] | None = None) -> None:  # fmt: skip
        super().__init__(monkeypatch, seed, processors, change)
        monkeypatch.setattr(mapped, "tensor_map", _described)

    def put(self, x: Any, pad: int = 0, turned: bool = False, off: int = 0) -> Any:
        """A matrix with lines of `pad` elements more, which are NaN, `off` elements from a multiple
        of sixteen bytes."""
        words = x.view("u2")
        words = words.T if turned else words
        made = self._empty((words.shape[0] * (words.shape[1] + pad) + off,), words.dtype)
        made[:] = 0xFFFF
        made = made[off:].reshape(words.shape[0], -1)[:, : words.shape[1]]
        made[:] = words
        return made.T if turned else made


def multiplied(on: Halves, a: Any, b: Any, name: str, how: str = "nn", pad: int = 0, off: int = 0
               ) -> Any:  # fmt: skip
    """a b, of which nothing beside the result is written."""
    m, n = a.shape[0], b.shape[1]
    x, y = (on.put(v, pad, lies == "t", off) for v, lies in zip((a, b), how, strict=True))
    room = on.put(np.full((m + 1, n + pad), 7, a.dtype))
    kept = room.copy()
    on.standard(matrix(room[:m, :n]), matrix(x), matrix(y), "owner", name)
    assert (room[m] == kept[m]).all() and (room[:, n:] == kept[:, n:]).all()
    return room[:m, :n].view(a.dtype).astype("f4")


def integers(name: str, m: int, k: int, n: int) -> tuple[Any, Any]:
    """Operands whose products are exact: sums stay below 256."""
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.integers(-2, 3, s) * (rng.random(s) < min(1.0, 20 / k)) for s in ((m, k), (k, n)))
    kind = TYPES[FORMS[name].types[0]]
    return a.astype(kind), b.astype(kind)


def exactly(on: Halves, sizes: tuple[int, int, int], name: str, how: str, **more: int) -> None:
    a, b = integers(name, *sizes)
    want = a.astype("f4") @ b.astype("f4")
    np.testing.assert_array_equal(multiplied(on, a, b, name, how, **more), want, f"{sizes} {more}")


@pytest.mark.parametrize("how", LAYOUTS)
def test_small_integers_are_exact(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles a block, fringes, lines that begin anywhere."""
    on = Halves(monkeypatch, seed=LAYOUTS.index(how))
    exactly(on, (140, 101, 270), "Float16Square", how, pad=3)
    (code,) = on.ran
    assert (code.left, code.right) == ("R" if how[0] == "t" else "K",
                                       "K" if how[1] == "t" else "R")  # fmt: skip


_SHAPES = ((1, 1, 1), (7, 130, 9), (129, 65, 257), (128, 96, 256), (260, 33, 140), (64, 200, 3))


@pytest.mark.long
@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_shape(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, sizes in enumerate(_SHAPES):
        for pad, off in ((0, 0), (1, 0), (0, 1), (8, 8)):
            on = Halves(monkeypatch, seed, processors=2 + seed % 2)
            exactly(on, sizes, name, how, pad=pad, off=off)


@pytest.mark.parametrize(
    "name", ["Float16Square", pytest.param("BFloat16", marks=pytest.mark.long)]
)
def test_bits_are_the_same_in_every_layout(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements are rounded once, after sums in float32."""
    rng = np.random.default_rng(3)
    kind = TYPES[FORMS[name].types[0]]
    a, b = (rng.standard_normal(s).astype(kind) for s in ((70, 90), (90, 140)))
    found = [multiplied(Halves(monkeypatch, x), a, b, name, how) for x, how in enumerate(LAYOUTS)]
    assert all(np.array_equal(x, found[0]) for x in found)
    exact = a.astype("f8") @ b.astype("f8")
    unit = float(ml_dtypes.finfo(kind).eps) / 2
    assert np.abs(found[0] - exact).max() <= 1.02 * unit * np.abs(exact).max()


_MISTAKES = {
    "consumers announce a stage that they still read": (
        "            if (s) warp_arrive(previous, lane == 0);\n",
        "            warp_arrive(ring.empty(), lane == 0);\n"),
    "boxes are read before they have landed": (
        "barrier_wait(ring.full(), ring.parity);\n            const u32 a = ring.stage()",
        "const u32 a = ring.stage()"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_finds_mistakes(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = integers("Float16Square", 130, 700, 130)
    on = Halves(monkeypatch, change=_MISTAKES[mistake])
    with pytest.raises(tiles.Wrong, match="race: read of shared word"):
        multiplied(on, a, b, "Float16Square")
