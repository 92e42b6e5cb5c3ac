"""The u8-limb tile engine, emulated on a CPU (tiles.py), and every engine compiled by NVRTC.

The emulation compiles a kernel for every variant, a few seconds each: two of them always run, the
others with `-m long`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.layout import asserted, laid_out
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products.form import FORMS, Arguments, Code, Form, Product
from treadle.skeletons.products import STANDARD, STRASSEN, BilinearAlgorithm

emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")


def _operands(m: int, n: int, k: int, how: str) -> tuple[Any, Any]:
    """`how`: layouts of a and b, "n", "t" or "s" (strided)."""
    rng = np.random.default_rng(m * n + k)
    made = []
    for rows, cols, lies in ((m, k, how[0]), (k, n, how[1])):
        room = rng.integers(-(2**31), 2**31, (2 * rows, 2 * cols)).astype(np.int32)
        x = room[::2, ::2]
        made.append(x if lies == "s" else np.require(x, None, "F" if lies == "t" else "C"))
    return made[0], made[1]


def _check(form: Form, sizes: tuple[int, int, int], mode: str = "owner",
           algorithm: BilinearAlgorithm = STANDARD, how: str = "nn", alpha: float = 1,
           beta: float = 0, **more: Any) -> Code:  # fmt: skip
    m, n, k = sizes
    a, b = _operands(m, n, k, how)
    c0 = np.full((m, n + 3), 5, a.dtype)
    whole = c0.copy()
    code = tiles.multiply(whole[:, :n], a, b, form, mode, algorithm, alpha=alpha, beta=beta, **more)
    want = a.dtype.type(alpha) * (a @ b) + a.dtype.type(beta) * c0[:, :n]
    np.testing.assert_array_equal(whole[:, :n], want)
    np.testing.assert_array_equal(whole[:, n:], c0[:, n:])  # and nothing beside it
    return code


@emulated
@pytest.mark.parametrize(
    "sizes",
    [pytest.param((131, 140, 212), marks=pytest.mark.long), (5, 3, 4),
     pytest.param((129, 128, 64), marks=pytest.mark.long)],
)  # fmt: skip
def test_limbs(sizes: tuple[int, int, int]) -> None:
    for seed in range(3):
        _check(FORMS["Limbs32"], sizes, seed=seed, prefer=seed, alpha=3, beta=-1)


_LAYOUTS = ("nn", "nt", "tn", "tt", "ss")
_SHAPES = ((1, 1, 1), (7, 1, 129), (63, 130, 16), (129, 257, 17), (260, 40, 96))


@emulated
@pytest.mark.long
@pytest.mark.parametrize("how", _LAYOUTS)
@pytest.mark.parametrize(
    "case", ["Limbs32 owner", "Limbs32 atomic", "Limbs32 owner 7", "Limbs32 atomic 7"]
)
def test_every_layout(case: str, how: str) -> None:
    name, mode, *seven = case.split()
    algorithm = STRASSEN if seven else STANDARD
    for seed, sizes in enumerate(_SHAPES):
        _check(FORMS[name], sizes, mode, algorithm, how, processors=4, seed=seed, prefer=seed % 3,
               alpha=2, beta=-1)  # fmt: skip


#: Mistakes that a GPU would forgive most of the time, and what the emulation says.
_MISTAKES = {
    "consumers do not wait": (
        "race: read",
        ("        barrier_wait(ring.at + OFF_FULL, ring.parity);\n", ""),
    ),
    "producers do not wait": (
        "race",
        ("            barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);\n", ""),
    ),
    "no fence for the tensor cores": (
        "without fence.proxy.async",
        ("        stores_visible();\n", ""),
    ),
    "results are used early": (
        "changed while a wgmma was using it",
        ("        mma_commit();\n        mma_wait<1>();\n", "        mma_commit();\n"),
    ),
    "a stage is given back early": (
        "race",
        ("        barrier_wait(ring.at + OFF_FULL, ring.parity);\n",
         "        barrier_wait(ring.at + OFF_FULL, ring.parity);\n"
         "        barrier_arrive(ring.at + OFF_EMPTY);\n"),
    ),
}  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str) -> None:
    says, change = _MISTAKES[mistake]
    with pytest.raises(tiles.Wrong, match=says):
        _check(FORMS["Limbs32"], (400, 200, 230), processors=6, change=change)


# --- without emulation ---------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("name, mode", [(n, m) for n, f in FORMS.items() for m in f.modes])
def test_every_mode_compiles(name: str, mode: str, terms: int, nvrtc: None) -> None:
    if (mode, terms) == ("split", 2):
        pytest.skip("parts are of one product")
    form = FORMS[name]
    source = Code("K", "R", True, mode, terms, name).source()
    compile_text(source, form.entry, "sm_90a", dynamic_shared_bytes=form.shared_bytes)


def test_compiles(nvrtc: None) -> None:
    """What fits into registers, and that the host lays out `tile::Arguments` and shared memory as
    the kernel does."""
    form = FORMS["Limbs32"]
    claims = [
        *laid_out("tile::Arguments", Arguments),
        f"sizeof(tile::Product) == {ctypes.sizeof(Product)}",
        f"tile::SHARED_BYTES == {form.shared_bytes}", f"tile::THREADS == {form.threads}",
        f"tile::BM == {form.rows}", f"tile::BN == {form.columns}",
        f"tile::BK == {form.step}",
    ]  # fmt: skip
    source = Code("K", "R", True, "owner", 1, form.arithmetic).source()
    source += asserted(claims)
    cubin = compile_text(source, form.entry, "sm_90a", dynamic_shared_bytes=form.shared_bytes)
    assert cubin.spills == 0
    assert cubin.registers <= 168
