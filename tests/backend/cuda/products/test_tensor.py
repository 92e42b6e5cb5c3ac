"""float32 products by planes on tensor cores: the text of the three kernels emulated on a CPU
(tiles.py) under their host side, and what they take compiled.

A few cases always run; the others, which compile a kernel for every variant, with `-m long`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.layout import asserted, laid_out
from tests.backend.cuda.products.test_float32 import (
    GENERATED,
    LINE,
    PLACE,
    RELU,
    SUM,
    SUM_B,
    finished,
)
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products import images
from treadle.backend.cuda.products.form import FORMS, Code
from treadle.backend.cuda.products.launching import Fused, Launching, Matrix
from treadle.skeletons.products import STANDARD, STRASSEN, BilinearAlgorithm

NAMES = [name for name, form in FORMS.items() if form.planes and form.precision]
OF_PRECISION = {FORMS[name].precision: name for name in NAMES if "Square" not in name}
emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")


@pytest.fixture(autouse=True)
def gaps(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Nothing lies directly behind a part of the workspace."""

    def placed(self: images.WorkspaceLayout, sizes: Iterable[int]) -> list[int]:
        found = []
        for size in sizes:
            found.append(self.total)
            self.total += size + 4096
        return found

    monkeypatch.setattr(images.WorkspaceLayout, "_placed", placed)
    images._prepared.cache_clear()
    yield
    images._prepared.cache_clear()


def matrix(x: Any) -> Matrix:
    return Matrix(x.ctypes.data, *x.shape, *(s // x.itemsize for s in x.strides), x.itemsize)


def laid(x: Any, how: str) -> Any:
    """ "n", "t" (transposed), "s" (strided), "b" (backwards)."""
    if how == "s":
        room = np.full((3 * x.shape[0], 2 * x.shape[1]), -1, f"i{x.itemsize}").view(x.dtype)  # NaN
        room[::3, ::2] = x
        return room[::3, ::2]
    return x[::-1].copy()[::-1] if how == "b" else np.require(x, None, "F" if how == "t" else "C")


def multiply(out: Any, a: Any, b: Any, name: str, algorithm: BilinearAlgorithm = STANDARD, *,
             fused: str = "", words: tuple[int, ...] = (), reads: tuple[Any, ...] = (),
             **more: Any) -> int:  # fmt: skip
    """`out = a b` by images; returns the flag."""
    on = tiles.TensorCores(out, (a, b, *reads), **more)
    m, k, n = *a.shape, b.shape[1]
    size = (m, n, k) if algorithm is STANDARD else tiles._extents(m, n, k, algorithm, 1)
    flag, _ = images.multiply(on, matrix(out), matrix(a), matrix(b), size, FORMS[name], algorithm,
                              Fused(fused, words) if fused else None)  # fmt: skip
    return ctypes.c_uint32.from_address(flag).value


def exactly(name: str, sizes: tuple[int, int, int], algorithm: BilinearAlgorithm = STANDARD,
            how: str = "nn", want: Callable[..., Any] | None = None, **more: Any
            ) -> None:  # fmt: skip
    """2 a b - c of small integers."""
    m, n, k = sizes
    rng = np.random.default_rng(m * n + k)
    a, b, c = (rng.integers(-9, 10, s).astype("f4") for s in ((m, k), (k, n), (m, n + 3)))
    a, b, out = laid(a, how[0]), laid(b, how[1]), c.copy()
    flag = multiply(out[:, :n], a, b, name, algorithm, scales=(2, -1), **more)
    assert flag == 0
    made = 2 * (a @ b) - c[:, :n] if want is None else want(a, b, c[:, :n])
    np.testing.assert_array_equal(out[:, :n], made)
    np.testing.assert_array_equal(out[:, n:], c[:, n:])  # and nothing beside it


@pytest.mark.long
@emulated
@pytest.mark.parametrize("name", ["Float32Fp16x3", "Float32Bf16x6"])
def test_small_integers_are_exact(name: str) -> None:
    for seed, sizes in enumerate([(131, 140, 212), (5, 3, 4), (259, 193, 64)]):
        exactly(name, sizes, processors=2 + seed, seed=seed, prefer=seed)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("others", ["come", "never come"])
def test_loaders_wait_for_each_other(others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And go on without others, if these do not come."""
    name, (m, n, k) = "Float32Fp16x3", (300, 400, 200)
    form, algorithm = replace(FORMS[name], pace=3), STRASSEN
    monkeypatch.setitem(FORMS, name, form)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-9, 10, s).astype("f4") for s in ((m, k), (k, n)))
    out = np.zeros((m, n), "f4")
    alone = ("", ("red32(g.arrived, 1)", "red32(g.arrived, 0)")) if others == "never come" else None
    on = tiles.TensorCores(out, (a, b), processors=3, change=alone)
    size = tiles._extents(m, n, k, algorithm, 1)
    flag, _ = images.multiply(on, matrix(out), matrix(a), matrix(b), size, form, algorithm, None)
    np.testing.assert_array_equal(out, a @ b)
    room = images.WorkspaceLayout(form, size, algorithm)
    arrived = ctypes.c_int32.from_address(flag - room.flag + room.arrived).value
    # 4 tiles of 7 products of 2 stages of 2 planes: one block has two
    assert arrived == (3 * (2 * 28 // 3) if others == "come" else 0)


_SHAPES = ((1, 1, 1), (7, 1, 129), (63, 130, 16), (129, 257, 65), (260, 40, 96))


@emulated
@pytest.mark.long
@pytest.mark.parametrize("how", ["nn", "tt", "ss", "nt", "bb"])
@pytest.mark.parametrize("algorithm", [STANDARD, STRASSEN], ids=lambda a: str(a.name))
@pytest.mark.parametrize("name", NAMES)
def test_every_layout(name: str, algorithm: BilinearAlgorithm, how: str) -> None:
    for seed, sizes in enumerate(_SHAPES):
        exactly(name, sizes, algorithm, how, processors=4, seed=seed, prefer=seed % 3)


@emulated
@pytest.mark.parametrize(
    "name", ["Float32Fp16x3", *(pytest.param(n, marks=pytest.mark.long) for n in NAMES[1:])]
)
def test_integers_of_22_bits_are_exact(name: str) -> None:
    """Of which a plane holds eleven (or eight): one of them in each sum."""
    m, k, n = 70, 90, 130
    rng = np.random.default_rng(1)
    b = rng.integers(-(2**21), 2**21, (k, n)).astype("f4")
    a = np.zeros((m, k), "f4")
    a[np.arange(m), rng.integers(0, k, m)] = 2.0 ** rng.integers(-40, 40, m)
    out = np.zeros((m, n), "f4")
    assert multiply(out, a, b, name) == 0
    np.testing.assert_array_equal(out, a @ b)
    turned = np.zeros((n, m), "f4")
    assert multiply(turned, b.T.copy(), a.T.copy(), name) == 0
    np.testing.assert_array_equal(turned, out.T)


@emulated
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_the_order_of_warps(name: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((270, 200), (200, 260)))
    for algorithm in (STANDARD, STRASSEN):
        found = []
        for seed in range(4):
            found.append(np.zeros((270, 260), "f4"))
            assert multiply(found[-1], a, b, name, algorithm, processors=2 + seed, seed=seed,
                            prefer=seed % 3) == 0  # fmt: skip
        np.testing.assert_allclose(found[0], a @ b, atol=1e-4)
        assert all(np.array_equal(x, found[0]) for x in found)


@pytest.mark.parametrize("name", NAMES)
def test_launches_of_long_operands(name: str) -> None:
    """A grid has at most 65,535 rows of blocks."""
    device = SimpleNamespace(multiprocessors=132, arch="sm_90a")
    device.empty = lambda *_: SimpleNamespace(data=SimpleNamespace(ptr=0))
    on: Any = Launching(device)
    on.clear = on.load = lambda *_: None
    launched: list[tuple[int, int]] = []
    on.run = lambda loaded, arguments, blocks: launched.append(blocks)
    for m, k, n in ((10**7, 512, 64), (64, 10**7, 64), (64, 512, 10**7)):
        out, a, b = (Matrix(0, *shape, shape[1], 1) for shape in ((m, n), (m, k), (k, n)))
        images.multiply(on, out, a, b, (m, n, k), FORMS[name], STANDARD, None)
    assert len(launched) == 3 * (2 + FORMS[name].scaled)
    assert all(0 < x < 2**31 and 0 < y < 2**16 for x, y in launched)


# --- fused code ----------------------------------------------------------------------------------


@emulated
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(132, 264, 20), (131, 261, 77)])
def test_fused(name: str, sizes: tuple[int, int, int]) -> None:
    """An operand is not zero where it ends, until the image is padded."""
    for algorithm in (STANDARD, STRASSEN):
        exactly(name, sizes, algorithm, fused=PLACE + GENERATED + RELU, want=finished)


@emulated
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_operands_of_two_arrays(name: str) -> None:
    m, n, k = 140, 264, 70
    rng = np.random.default_rng(2)
    a, a2 = (rng.integers(-9, 9, (m, k)).astype("f4") for _ in range(2))
    b, b2 = (rng.integers(-9, 9, (k, n)).astype("f4") for _ in range(2))
    words = (a2.ctypes.data, k, 1, b2.ctypes.data, 1, n)
    for algorithm in (STANDARD, STRASSEN):
        out = np.zeros((m, n), "f4")
        assert multiply(out, a, b, name, algorithm, fused=SUM + SUM_B, words=words,
                        reads=(a2, b2)) == 0  # fmt: skip
        np.testing.assert_array_equal(out, (a + a2) @ (b - b2))


# --- what planes cannot hold ---------------------------------------------------------------------


def _hard(kind: str, name: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((40, 200), (200, 50)))
    if kind in ("inf", "-inf", "nan"):
        a[7, 11] = float(kind)
    elif kind == "right":
        b[199, 49] = np.nan
    elif kind == "spread":  # a huge element that meets a zero
        a *= np.float32(1e-7)
        a[:, 0], b[0] = 1e9, 0
        a *= np.float32(1 if FORMS[name].scaled else 1e-30)
    elif kind == "overflow":
        a[3, 100] = np.finfo("f4").max
    elif kind == "tiny":
        b *= np.float32(2.0**-140)
    return a, b


_HARD = ("inf", "-inf", "nan", "right", "spread", "overflow")


@emulated
@pytest.mark.parametrize("name, kind", [
    *((n, k) if n == "Float32Fp16x3" else pytest.param(n, k, marks=pytest.mark.long)
      for n in NAMES for k in _HARD),
    *(pytest.param(n, "tiny", marks=pytest.mark.long) for n in NAMES if not FORMS[n].scaled),
])  # fmt: skip
def test_nothing_is_computed_if_planes_cannot_hold_an_operand(name: str, kind: str) -> None:
    a, b = _hard(kind, name)
    out = np.full((40, 50), 7, "f4")
    assert multiply(out, a, b, name) == 1
    assert (out == 7).all()


@emulated
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_sums_of_blocks_may_overflow(name: str) -> None:
    a, b = np.full((20, 20), 3e38, "f4"), np.eye(20, dtype="f4")
    out = np.full((20, 20), 7, "f4")
    assert multiply(out, a, b, name, STRASSEN) == 1 and (out == 7).all()


@emulated
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["", "nan", "spread"])
def test_then_float32_computes_it(name: str, kind: str) -> None:
    a, b = _hard(kind, name)
    out = np.full((40, 50), np.nan, "f4")
    on = tiles.TensorCores(out, (a, b))
    on.product(matrix(out), matrix(a), matrix(b), "owner", name, STRASSEN, 1)
    assert on.ran[-3:] == ["operand_images", "matmul_tensor", "matmul_f32"]
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4 * float(np.nanmax(np.abs(a @ b))))


# --- precision -----------------------------------------------------------------------------------


def _operand(kind: str, shape: tuple[int, int], seed: int) -> Any:
    """Centred, positive, lognormal with a spread, badly scaled rows or columns."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if kind == "positive":
        x = rng.random(shape)
    elif kind.startswith("spread"):
        x *= np.exp(float(kind.split()[1]) * rng.standard_normal(shape))
    elif kind == "rows":
        x *= 10.0 ** rng.integers(-12, 13, (shape[0], 1))
    elif kind == "columns":
        x *= 10.0 ** rng.integers(-12, 13, (1, shape[1]))
    return x.astype("f4")


def _in_order(a: Any, b: Any) -> Any:
    """The product whose sums are rounded to float32 in order."""
    made = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        made += a[:, k : k + 1] * b[k]
    return made


@emulated
@pytest.mark.parametrize("precision", [
    "fp16x3", *(pytest.param(p, marks=pytest.mark.long) for p in ("bf16x6", "tf32x3"))
])  # fmt: skip
def test_as_precise_as_float32(precision: str) -> None:
    """Within the bound, near the typical error where elements are alike, and not worse than sums
    in order."""
    for left, right in (("centred", "centred"), ("positive", "positive"), ("spread 1", "spread 1"),
                        ("rows", "columns"), ("centred", "positive")):  # fmt: skip
        for k in (200, 640):
            a, b = _operand(left, (70, k), 1), _operand(right, (k, 60), 2)
            true, out = a.astype("f8") @ b.astype("f8"), np.zeros((70, 60), "f4")
            assert multiply(out, a, b, OF_PRECISION[precision]) == 0
            shown = td.error_bound(a, b, "standard", precision=precision)
            case, rms = (left, right, k), float(np.sqrt(np.mean((out - true) ** 2)))
            assert np.abs(out - true).max() <= shown.bound, case
            assert np.linalg.norm(out - true) <= 1.02 * np.linalg.norm(_in_order(a, b) - true), case
            if left not in ("rows", "spread 1"):
                assert 0.6 < rms / shown.typical < 1.4, (case, rms / shown.typical)


@emulated
@pytest.mark.long
@pytest.mark.parametrize("precision", OF_PRECISION)
def test_a_level_of_strassen_is_told(precision: str) -> None:
    for kind in ("centred", "positive"):
        a, b = _operand(kind, (128, 512), 1), _operand(kind, (512, 96), 2)
        true, out = a.astype("f8") @ b.astype("f8"), np.zeros((128, 96), "f4")
        assert multiply(out, a, b, OF_PRECISION[precision], STRASSEN) == 0
        shown = td.error_bound(a, b, "strassen", precision=precision)
        rms = float(np.sqrt(np.mean((out - true) ** 2)))
        assert np.abs(out - true).max() <= shown.bound
        assert 0.5 < rms / shown.typical < 1.5, (kind, rms / shown.typical)


# --- mistakes ------------------------------------------------------------------------------------

_MATMUL, _IMAGES, _MAXIMA = "", "tensor_images.cu", "tensor_maxima.cu"
#: The file, what the emulation says, and the mistake.
_MISTAKES = {
    "consumers do not wait": (
        _MATMUL, "race: .* of shared",
        ("            barrier_wait(ring.full(), ring.parity);\n            a[p]",
         "            a[p]"),
    ),
    "the producer does not wait": (
        _MATMUL, "race: .* of shared|more arrivals",
        ("                        barrier_wait(ring.empty(), ring.parity ^ 1);\n", ""),
    ),
    "fewer bytes are awaited": (
        _MATMUL, "race: .* of shared|wait for ever",
        ("barrier_expect(ring.full(), Work::Feed::BYTES)", "barrier_expect(ring.full(), IMAGE_A)"),
    ),
    "a plane is given back early": (
        _MATMUL, "race: ",
        ("        mma_wait<1>();\n        warp_arrive(bar[1], leader);\n",
         "        warp_arrive(bar[1], leader);\n"),
    ),
    "a plane is not given back": (
        _MATMUL, "wait for ever",
        ("        pin(d);\n        warp_arrive(bar[0], leader);\n", "        pin(d);\n"),
    ),
    "a warp gives back for the others": (
        _MATMUL, "more arrivals|race",
        ("        warp_arrive(bar[1], leader);\n",
         "        warp_arrive(bar[1], leader);\n        warp_arrive(bar[1], leader);\n"),
    ),
    "results are used early": (
        _MATMUL, "changed while a wgmma was using it|race",
        ("        mma_wait<0>();\n        pin(d);\n", "        pin(d);\n"),
    ),
    "no fence before wgmma": (
        _MATMUL, "wgmma without a fence",
        ("        mma_fence();\n#pragma unroll\n        for (int low", "        for (int low"),
    ),
    "barriers are not awaited": (
        _MATMUL, "no barrier at", ("        barriers_made();\n        __syncthreads();\n", "")),
    "stores are not visible to copies": (
        _IMAGES, "without fence.proxy.async", ("    stores_visible();\n", "")),
    "an image is copied early": (
        _IMAGES, "race: .* of shared",
        ("    stores_visible();\n    __syncthreads();\n", "    stores_visible();\n"),
    ),
    "an image is overwritten early": (
        _IMAGES, "race: .* of shared",
        ("    __syncthreads(); // before the images of the next product\n", "")),
    "a copy is not awaited": (
        _IMAGES, "race: .* of shared|nobody waits for", ("        bulk_stored();\n", "")),
    "maxima are read early": (
        _MAXIMA, "race: .* of shared",
        ("        __syncthreads();\n        if (warp == 0) {", "        if (warp == 0) {")),
    "maxima are overwritten early": (
        _MAXIMA, "race: .* of shared",
        ("            if (most) atomicMax(out + r, most);\n        }\n        __syncthreads();\n",
         "            if (most) atomicMax(out + r, most);\n        }\n")),
}  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str) -> None:
    file, says, change = _MISTAKES[mistake]
    with pytest.raises(tiles.Wrong, match=says):
        for seed in range(6):
            exactly("Float32Fp16x3", (400, 300, 330), STRASSEN, "tt", change=(file, change),
                    seed=seed, prefer=seed % 3)  # fmt: skip


# --- machine code --------------------------------------------------------------------------------


def compiled(code: Code) -> Any:
    form, source = FORMS[code.arithmetic], code.source()
    structures: tuple[Any, ...] = (images.Operands, images._Operand)
    if not code.file:
        structures = (images.Arguments,)
    claims = [f"tile::BM == {form.rows} && tile::BN == {form.columns}"]
    for structure in structures:
        name = f"tile::{structure.__name__.removeprefix('_')}"
        claims += laid_out(name, structure)
    if code.file:
        entry, _, _ = tiles._KERNELS[code.file]
        claims.append("tile::MAXIMA_THREADS == 256 && tile::IMAGE_THREADS == 256")
        claims += [f"tile::MAXIMA_ROWS<tile::{layout}> == {images.ROWS_OF_BLOCK[short]}" for
                   short, layout in zip("KRS", ("K_CONTIGUOUS", "R_CONTIGUOUS", "STRIDED"),
                                        strict=True)]  # fmt: skip
        claims.append(f"tile::DEEP == {form.step} && tile::ROW == {images.ROW}")
        shared = form.planes * max(form.rows, form.columns) * images.ROW
        shared *= code.file == _IMAGES
    else:
        entry, shared = form.entry, form.shared_bytes
        claims.append(f"tile::THREADS == {form.threads} && tile::SHARED_BYTES == {shared}")
    source += asserted(claims)
    return compile_text(source, entry, "sm_90a", dynamic_shared_bytes=shared)


def _code(name: str, file: str, left: str = "K", right: str = "K", terms: int = 1,
          fused: str | None = None) -> Code:  # fmt: skip
    return Code(left, right, False, "owner", terms, name, fused, file)


_PRODUCTS = [_code(name, _MATMUL, fused=fused) for name in NAMES for fused in (None, LINE + RELU)]
_QUICK = (_PRODUCTS[0], _PRODUCTS[1], _code(NAMES[0], _MAXIMA, "K", "R"),
          _code(NAMES[0], _IMAGES, "K", "R", 2))  # fmt: skip
_OPERANDS = [
    _code(name, file, *layouts, terms, fused)
    for name in NAMES for file in (_MAXIMA, _IMAGES)[not FORMS[name].scaled :]
    for layouts in itertools.product("KRS", repeat=2)
    for terms in (1, 2)[: 1 + (file == _IMAGES)]
    for fused in (None, PLACE + SUM_B)[: 1 + (layouts == ("K", "R"))]
]  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [*_QUICK, *(pytest.param(c, marks=pytest.mark.long)
                for c in (*_PRODUCTS, *_OPERANDS) if c not in _QUICK)],
    ids=lambda c: f"{c.arithmetic} {c.file[7:-3] or 'matmul'} {c.left}{c.right}{c.terms}"
                  f"{' fused' * (c.fused is not None)}",
)  # fmt: skip
def test_compiles(code: Code, nvrtc: None) -> None:
    """What fits into registers, and that the host lays out structures as the kernels do."""
    found = compiled(code)
    assert found.spills == 0
    assert found.registers <= (64 if code.file == _IMAGES else 168)
