"""The float64 and u8-limb tile engines, emulated on a CPU (tiles.py), and compiled by NVRTC.

The emulation compiles a kernel for every variant, a few seconds each: two of them always run, the
others with `-m long`.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.backend.cuda.products import tiles
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products.form import FORMS, Code, Form, float64_form, structures
from treadle.skeletons.products import STANDARD, STRASSEN, BilinearAlgorithm

#: Other shapes of the float64 engine's tiles, which no program uses.
OTHERS = (
    float64_form("Float64Tall", 256, 64, 4),
    float64_form("Float64Small", 64, 64, 2),
)
emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")


@pytest.fixture(autouse=True)
def shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    for form in OTHERS:
        monkeypatch.setitem(FORMS, form.arithmetic, form)


def _operands(form: Form, m: int, n: int, k: int, how: str = "nn") -> tuple[Any, Any]:
    """Integers: every sum is exact.  `how`: layouts of a and b, "n", "t" or "s" (strided)."""
    rng = np.random.default_rng(m * n + k)
    if form.itemsize == 4:
        low, high, t = -(2**31), 2**31, np.int32
    else:
        low, high, t = -9, 10, np.float64
    made = []
    for rows, cols, lies in ((m, k, how[0]), (k, n, how[1])):
        room = rng.integers(low, high, (2 * rows, 2 * cols)).astype(t)
        x = room[::2, ::2]
        made.append(x if lies == "s" else np.require(x, None, "F" if lies == "t" else "C"))
    return made[0], made[1]


def _check(form: Form, sizes: tuple[int, int, int], mode: str = "owner",
           algorithm: BilinearAlgorithm = STANDARD, how: str = "nn", alpha: float = 1,
           beta: float = 0, **more: Any) -> Code:  # fmt: skip
    m, n, k = sizes
    a, b = _operands(form, m, n, k, how)
    c0 = np.full((m, n + 3), 5, a.dtype)
    whole = c0.copy()
    code = tiles.multiply(whole[:, :n], a, b, form, mode, algorithm, alpha=alpha, beta=beta, **more)
    want = a.dtype.type(alpha) * (a @ b) + a.dtype.type(beta) * c0[:, :n]
    np.testing.assert_array_equal(whole[:, :n], want)
    np.testing.assert_array_equal(whole[:, n:], c0[:, n:])  # and nothing beside it
    return code


@emulated
@pytest.mark.parametrize("sizes", [(300, 270, 83), (1, 1, 1), (258, 7, 33)])
def test_float64_strassen(sizes: tuple[int, int, int]) -> None:
    sizes = sizes[0], sizes[1] + sizes[1] % 2, sizes[2] + sizes[2] % 2  # sixteen-byte accesses
    for seed in range(3):
        code = _check(FORMS["Float64"], sizes, "owner", STRASSEN, processors=4, seed=seed,
                      prefer=seed, alpha=-2, beta=3)  # fmt: skip
        assert code.vector


@emulated
@pytest.mark.parametrize("sizes", [(131, 140, 212), (5, 3, 4), (129, 128, 64)])
def test_limbs(sizes: tuple[int, int, int]) -> None:
    for seed in range(3):
        _check(FORMS["Limbs32"], sizes, seed=seed, prefer=seed, alpha=3, beta=-1)


_LAYOUTS = ("nn", "nt", "tn", "tt", "ss")
_SHAPES = ((1, 1, 1), (7, 1, 129), (63, 130, 16), (129, 257, 17), (260, 40, 96))


@emulated
@pytest.mark.long
@pytest.mark.parametrize("how", _LAYOUTS)
@pytest.mark.parametrize(
    "case",
    ["Float64 owner", "Float64 atomic", "Float64 owner 7", "Float64 atomic 7",
     "Float64Tall owner 7", "Float64Small owner", "Limbs32 owner", "Limbs32 atomic",
     "Limbs32 owner 7"],
)  # fmt: skip
def test_every_layout(case: str, how: str) -> None:
    name, mode, *seven = case.split()
    algorithm = STRASSEN if seven else STANDARD
    for seed, sizes in enumerate(_SHAPES):
        _check(FORMS[name], sizes, mode, algorithm, how, processors=4, seed=seed, prefer=seed % 3,
               alpha=2, beta=-1)  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("dmma", [4, 8])
def test_other_instructions(dmma: int, monkeypatch: pytest.MonkeyPatch) -> None:
    form = float64_form("Float64Other", 64, 64, dmma=dmma, step=2 * max(dmma, 8), stages=3)
    monkeypatch.setitem(FORMS, form.arithmetic, form)
    _check(form, (130, 70, 75))


_SLOTS = """
struct Shifted {
    static constexpr bool identity = false;
    static double apply(double x, int i, int k) { return x * x + (i + 2 * k) % 3; }
};
struct Generated {
    static constexpr bool identity = false;
    static double apply(double, int k, int j) { return (3 * k + 5 * j) % 17 - 4; }
};
struct BiasRelu {
    static constexpr bool identity = false;
    static double finish(double x, int i, int j, const u64 *) { return std::fmax(x + i - j, 0); }
};
"""


@emulated
@pytest.mark.long
@pytest.mark.parametrize("algorithm", [STANDARD, STRASSEN])
def test_fused(algorithm: BilinearAlgorithm, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = (("TILE_A", "Shifted"), ("TILE_B", "Generated"), ("TILE_EPILOGUE", "BiasRelu"))
    base = FORMS["Float64Small"]
    form = replace(base, arithmetic="Float64Fused", defines=(*base.defines, *slots))
    monkeypatch.setitem(FORMS, form.arithmetic, form)
    m, n, k = 131, 75, 54
    a, b = _operands(form, m, n, k)
    i, j, depth = (np.arange(x) for x in (m, n, k))
    x = a * a + (i[:, None] + 2 * depth) % 3
    y = (3 * depth[:, None] + 5 * j) % 17 - 4.0
    out = np.full((m, n), np.nan)
    tiles.multiply(out, a, b, form, "owner", algorithm, fused=_SLOTS)
    np.testing.assert_array_equal(out, np.maximum(x @ y + i[:, None] - j, 0))


#: Mistakes that a GPU would forgive most of the time, and what the emulation says.
_MISTAKES = {
    "consumers do not wait": (
        "Float64", "owner", STANDARD, "race: read",
        ("                        barrier_wait(ring.at + S::OFF_FULL, ring.parity);\n", ""),
    ),
    "producers do not wait": (
        "Float64", "owner", STANDARD, "race",
        ("            barrier_wait(ring.at + S::OFF_EMPTY, ring.parity ^ 1);\n"
         "#pragma unroll\n            for (int c", "#pragma unroll\n            for (int c"),
    ),
    "copies are not awaited": (
        "Float64", "owner", STANDARD, "asynchronous copy",
        ("if (copies) copies_arrive(ring.at + S::OFF_FULL);\n        else ", ""),
    ),
    "no fence for the tensor cores": (
        "Limbs32", "owner", STANDARD, "without fence.proxy.async",
        ("        stores_visible();\n", ""),
    ),
    "results are used early": (
        "Limbs32", "owner", STANDARD, "changed while a wgmma was using it",
        ("        mma_commit();\n        mma_wait<1>();\n", "        mma_commit();\n"),
    ),
    "a stage is given back early": (
        "Limbs32", "owner", STANDARD, "race",
        ("        barrier_wait(ring.at + OFF_FULL, ring.parity);\n",
         "        barrier_wait(ring.at + OFF_FULL, ring.parity);\n"
         "        barrier_arrive(ring.at + OFF_EMPTY);\n"),
    ),
}  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str) -> None:
    name, mode, algorithm, says, change = _MISTAKES[mistake]
    with pytest.raises(tiles.Wrong, match=says):
        _check(FORMS[name], (400, 200, 230), mode, algorithm, processors=6, change=change)


# --- without emulation ---------------------------------------------------------------------------


_SMALL = "Float64Small"


@pytest.mark.long
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("name, mode", [(n, m) for n, f in FORMS.items() for m in f.modes])
def test_every_mode_compiles(name: str, mode: str, terms: int, nvrtc: None) -> None:
    if (mode, terms) == ("split", 2):
        pytest.skip("parts are of one product")
    form = FORMS[name]
    source = Code("K", "R", True, mode, terms, name).source()
    compile_text(source, form.entry, "sm_90a", dynamic_shared_bytes=form.shared_bytes)


@pytest.mark.parametrize(
    "name, arch, mode, terms",
    [("Float64", "sm_90a", "owner", 1), (_SMALL, "sm_80", "atomic", 1),
     (_SMALL, "sm_100", "owner", 1), ("Limbs32", "sm_90a", "owner", 1),
     pytest.param("Float64", "sm_90a", "atomic", 1, marks=pytest.mark.long)],
)  # fmt: skip
def test_compiles(name: str, arch: str, mode: str, terms: int, nvrtc: None) -> None:
    """What fits into registers, and that the host lays out `tile::Arguments` and shared memory as
    the kernel does."""
    form = FORMS[name]
    made = structures(form)
    offsets = {k: getattr(made.Arguments, k).offset for k, *_ in made.Arguments._fields_}
    claims = [
        f"sizeof(tile::Arguments) == {ctypes.sizeof(made.Arguments)}",
        f"sizeof(tile::Product) == {ctypes.sizeof(made.Product)}",
        f"tile::SHARED_BYTES == {form.shared_bytes}", f"tile::THREADS == {form.threads}",
        f"tile::BM == {form.rows}", f"tile::BN == {form.columns}",
        f"tile::BK == {form.step}",
    ]  # fmt: skip
    claims += [f"__builtin_offsetof(tile::Arguments, {k}) == {v}" for k, v in offsets.items()]
    source = Code("K", "R", True, mode, terms, name).source()
    source += "".join(f'static_assert({c}, "");\n' for c in claims)
    cubin = compile_text(source, form.entry, arch, dynamic_shared_bytes=form.shared_bytes)
    assert cubin.spills == 0
    assert cubin.registers <= 168
