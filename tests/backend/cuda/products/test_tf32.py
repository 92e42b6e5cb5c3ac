"""float32 products in tf32: the text of the kernel emulated on a CPU (tiles.py) under its host
side, with tensor maps that the test describes, and what it takes compiled."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.layout import asserted, laid_out
from tests.backend.cuda.products.test_float32 import RELU
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products import mapped
from treadle.backend.cuda.products.engine import Engine
from treadle.backend.cuda.products.form import FORMS, Code
from treadle.backend.cuda.products.launching import Fused, Matrix

emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
NAMES = [name for name, form in FORMS.items() if form.precision == "tf32" and form.maps]
SMALL = "Float32Tf32Square"
LAYOUTS = ("nn", "nt", "tn", "tt")


def _described(address: int, inner: int, outer: int, pitch: int, box: int, name: str
               ) -> tuple[int, ...]:  # fmt: skip
    """A map as the emulation reads it (emulation/tensor.h), of what the driver would accept."""
    size, _ = mapped.ELEMENTS[name]
    assert address % 16 == pitch * size % 16 == 0 and 0 < box <= 256 and pitch >= inner > 0 < outer
    words = address, size * inner, outer, size * pitch, box, int(name == "tf32"), size
    return (*words, *[0] * (16 - len(words)))


class Emulated(Engine):
    """The host side of the engine, with emulated launches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int = 0, processors: int = 3,
                 change: tuple[str, str] | None = None) -> None:  # fmt: skip
        super().__init__(SimpleNamespace(multiprocessors=processors, arch="sm_90a",
                                         empty=self._empty))  # fmt: skip
        monkeypatch.setattr(mapped, "tensor_map", _described)
        self.seed, self.change = seed, change
        self.arrays: list[tuple[Any, bool]] = []
        self.ran: list[Code] = []

    def put(self, x: Any, pad: int = 0, turned: bool = False, off: int = 0) -> Any:
        """A matrix with lines of `pad` elements more, which are NaN, `off` elements from a multiple
        of sixteen bytes."""
        x = x.T if turned else x
        made = self._empty((x.shape[0] * (x.shape[1] + pad) + off,), x.dtype)
        made[:] = np.nan
        made = made[off:].reshape(x.shape[0], x.shape[1] + pad)[:, : x.shape[1]]
        made[:] = x
        return made.T if turned else made

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        room = np.full(int(np.prod(shape)) * dtype.itemsize + 16, 0xFF, np.uint8)
        first = -room.ctypes.data % 16
        made = room[first : first + room.size - 16].view(dtype).reshape(shape)
        self.arrays.append((made, True))
        return made

    def copy_lines(self, to: int, to_pitch: int, source: int, pitch: int, width: int, count: int
                   ) -> None:  # fmt: skip
        for i in range(count):
            ctypes.memmove(to + i * to_pitch, source + i * pitch, width)

    def load(self, what: Any, name: str, threads: int, shared: int) -> Any:
        return what, threads, shared

    def run(self, loaded: Any, arguments: Any, blocks: tuple[int, int]) -> None:
        code, threads, shared = loaded
        self.ran.append(code)
        tiles.run(code, arguments[0], blocks, tiles.spans_of(self.arrays), threads=threads,
                  shared=shared, seed=self.seed, prefer=self.seed % 3,
                  change=None if code.file else self.change)  # fmt: skip


def matrix(x: Any) -> Matrix:
    return Matrix(x.ctypes.data, *x.shape, *(s // x.itemsize for s in x.strides), x.itemsize)


def integers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype("f4")


def multiplied(on: Emulated, a: Any, b: Any, name: str = SMALL, how: str = "nn", pad: int = 0,
               fused: Fused | None = None, off: int = 0) -> Any:  # fmt: skip
    """a b, of which nothing beside the result is written."""
    m, n = a.shape[0], b.shape[1]
    x, y = (on.put(v, pad, lies == "t", off) for v, lies in zip((a, b), how, strict=True))
    room = on.put(np.full((m + 1, n + pad), 7, "f4"))
    on.standard(matrix(room[:m, :n]), matrix(x), matrix(y), "owner", name, fused)
    assert (room[m] == 7).all() and (room[:, n:] == 7).all()
    return room[:m, :n].copy()


_SHAPES = ((1, 1, 1), (7, 130, 9), (129, 65, 257), (128, 96, 256), (260, 33, 140), (64, 200, 3))


@emulated
@pytest.mark.parametrize("how", LAYOUTS)
def test_small_integers_are_exact(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles a block, fringes, lines that begin anywhere."""
    a, b = integers(140, 101), integers(101, 270, seed=1)
    on = Emulated(monkeypatch, seed=LAYOUTS.index(how))
    np.testing.assert_array_equal(multiplied(on, a, b, SMALL, how, pad=3), a @ b)
    # lines along the inner index, or read into registers, or copied so
    assert [c.file for c in on.ran] == (["transposed.cu"] if how == "tn" else []) + [""]
    assert (on.ran[-1].left, on.ran[-1].right) == {
        "nn": ("K", "R"), "nt": ("K", "K"), "tt": ("R", "K"), "tn": ("K", "R")}[how]  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_shape(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, (m, k, n) in enumerate(_SHAPES):
        a, b = integers(m, k), integers(k, n, seed=1)
        for pad, off in ((0, 0), (1, 0), (0, 1), (4, 4)):
            on = Emulated(monkeypatch, seed, processors=2 + seed % 2)
            found = multiplied(on, a, b, name, how, pad, off=off)
            np.testing.assert_array_equal(found, a @ b, err_msg=f"{m, k, n, pad, off}")


def to_tf32(x: Any) -> Any:
    """Rounded to eleven significant bits, to nearest, ties to even."""
    bits = np.asarray(x, "f4").view("u4")
    return ((bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)).view("f4")


@emulated
def test_bits_are_those_of_rounded_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every layout: by tensor maps and by registers, in both orders of the operands."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((70, 90), (90, 140)))
    found = [multiplied(Emulated(monkeypatch, x), a, b, SMALL, how)
             for x, how in enumerate(LAYOUTS)]  # fmt: skip
    assert all(np.array_equal(x, found[0]) for x in found)
    np.testing.assert_array_equal(
        found[0], multiplied(Emulated(monkeypatch), to_tf32(a), to_tf32(b), SMALL))  # fmt: skip
    x, y = to_tf32(a).astype("f8"), to_tf32(b).astype("f8")
    assert np.abs(found[0] - x @ y).max() <= 90 * 2.0**-20 * (np.abs(x) @ np.abs(y)).max()
    error = np.linalg.norm(found[0] - a.astype("f8") @ b) / np.linalg.norm(a.astype("f8") @ b)
    assert 2e-4 < error < 4e-4


# --- fused code ----------------------------------------------------------------------------------

#: Of an element, its row and its column: also not zero beyond the operand's end.
_OF = """struct {0} {{
    static constexpr bool identity = false;
    static constexpr int sources = 1, second = 0;
    __device__ static __forceinline__ float apply(float x, float, int i, int j, const u64 *extra) {{
        return 2 * x + (i - 3 * j) % 5;
    }}
}};
"""
#: Reads an element of a row and one of a column.
_BIAS = """struct Epilogue {
    static constexpr bool identity = false;
    __device__ static __forceinline__ float finish(float x, int i, int j, const u64 *extra) {
        return x + tile::__ldg((const float *)extra[0] + i) - tile::__ldg((const float *)extra[1] + j);
    }
};
"""  # noqa: E501


@emulated
@pytest.mark.parametrize("how, side", [
    ("nn", "B"), *(pytest.param(h, s, marks=pytest.mark.long) for h in LAYOUTS for s in "AB"
                   if (h, s) != ("nn", "B")),
])  # fmt: skip
def test_a_function_of_an_operand(how: str, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the one that is in registers, in every layout; nothing of what is beside it counts."""
    for seed, (m, k, n) in enumerate(((140, 37, 270), (5, 64, 3))):
        a, b = integers(m, k), integers(k, n, seed=1)
        i, j = np.indices((m, k) if side == "A" else (k, n))
        more = np.fmod(i - 3 * j, 5)
        want = (2 * a + more) @ b if side == "A" else a @ (2 * b + more)
        fused = Fused(_OF.format(f"Producer{side}") + RELU, ())
        on = Emulated(monkeypatch, seed)
        found = multiplied(on, a, b, SMALL, how, pad=1, fused=fused)
        want += np.arange(m)[:, None] - np.arange(n)  # RELU's
        np.testing.assert_array_equal(found, np.maximum(want, 0))


@emulated
def test_a_function_is_rounded_after_it_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((40, 50), (50, 60)))
    thrice = _OF.format("ProducerB").replace("2 * x + (i - 3 * j) % 5", "3 * x")
    found = multiplied(Emulated(monkeypatch), a, b, fused=Fused(thrice, ()))
    want = multiplied(Emulated(monkeypatch), a, np.float32(3) * b)
    np.testing.assert_array_equal(found, want)


@emulated
@pytest.mark.parametrize("how", ["nn", *(pytest.param(h, marks=pytest.mark.long)
                                         for h in LAYOUTS[1:])])  # fmt: skip
def test_an_epilogue_reads_only_what_exists(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, (m, k, n) in enumerate(((140, 30, 270), (5, 64, 1))):
        a, b = integers(m, k), integers(k, n, seed=1)
        on = Emulated(monkeypatch, seed)
        down, across = on.put(integers(1, m)), on.put(integers(1, n, seed=1))
        fused = Fused(_BIAS, [x.ctypes.data for x in (down, across)])
        found = multiplied(on, a, b, SMALL, how, fused=fused)
        np.testing.assert_array_equal(found, a @ b + down[0][:, None] - across[0])


# --- mistakes ------------------------------------------------------------------------------------

_MISTAKES = {
    "consumers do not wait": (
        "race: .* of shared",
        ("                    barrier_wait(ring.full(), ring.parity);\n", "")),
    "a stage is given back early": (
        "race: |an operand in registers changed", ("                    mma_wait<1>();\n", "")),
    "registers of an operand are loaded early": (
        "an operand in registers changed", ("load(g, x[p], ", "load(g, x[0], ")),
    "results are used early": (
        "changed while a wgmma was using it|race|wgmma without a fence",
        ("        mma_wait<0>();\n", "")),
    "units are where they were": (
        "same banks", ("((in / 4) ^ q) * 16 + in % 4 * 4", "(in / 4) * 16 + in % 4 * 4")),
    "neighbours are in a row": (
        "same banks",
        ("16 * (g / 2 % 2) + 8 * (warp % 2) + 4 * (g / 4) + 2 * (g % 2)",
         "16 * (warp % 2) + 2 * g")),
}  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    says, change = _MISTAKES[mistake]
    a, b = integers(140, 330), integers(330, 270, seed=1)
    with pytest.raises(tiles.Wrong, match=says):
        for seed in range(4):
            multiplied(Emulated(monkeypatch, seed, change=change), a, b)


# --- machine code --------------------------------------------------------------------------------

_FUNCTION = _OF.format("ProducerB") + RELU
_CODES = [
    Code(left, right, False, "owner", 1, name, fused, flipped=flipped)
    for name, (left, right, flipped, fused) in itertools.product(NAMES, (
        ("K", "K", False, None), ("R", "K", False, None), ("K", "R", True, None),
        ("K", "R", True, RELU), ("K", "R", True, _FUNCTION), ("K", "K", True, _FUNCTION)))
]  # fmt: skip


@pytest.mark.parametrize(
    "code", [c if c.arithmetic == NAMES[0] and c.fused == RELU else
             pytest.param(c, marks=pytest.mark.long) for c in _CODES],
    ids=lambda c: f"{c.arithmetic} {c.left}{c.right}{' fused' * (c.fused is not None)}",
)  # fmt: skip
def test_compiles(code: Code, nvrtc: None) -> None:
    """Into registers, with structures where the host lays them out."""
    form = FORMS[code.arithmetic]
    claims = [*laid_out("tile::Arguments", mapped.Tf32Arguments),
              f"tile::SHARED_BYTES == {form.shared_bytes} && tile::THREADS == {form.threads}",
              f"tile::BM == {form.rows} && tile::BN == {form.columns}",
              f"tile::DEEP == {form.step}"]  # fmt: skip
    found = compile_text(code.source() + asserted(claims), form.entry, "sm_90a",
                         dynamic_shared_bytes=form.shared_bytes)  # fmt: skip
    assert found.spills == 0 and found.registers <= 168


def test_the_transposing_kernel_compiles(nvrtc: None) -> None:
    code = Code("K", "K", False, "owner", 1, SMALL, file="transposed.cu")
    claims = [*laid_out("tile::Arguments", mapped.Transposed),
              f"tile::SIDE == {mapped.SIDE} && tile::THREADS == {mapped.THREADS}",
              f"tile::SHARED_BYTES == {mapped.SHARED}"]  # fmt: skip
    assert compile_text(code.source() + asserted(claims), "transposed_words", "sm_90a",
                        dynamic_shared_bytes=mapped.SHARED).spills == 0  # fmt: skip


def test_maps_are_of_types_that_the_driver_has() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    for size, name in mapped.ELEMENTS.values():
        assert size in (2, 4)
        assert hasattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}")
