"""int32 products from tile images of bytes: the text of the kernels emulated on a CPU (tiles.py)
under their host side, and what they take compiled.

A few cases always run; the others, which compile a kernel for every variant, with `-m long`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.test_tensor import _IMAGES, _code, compiled, gaps, laid, multiply
from treadle.backend.cuda.products.form import FORMS, Code
from treadle.skeletons.products import STANDARD, STRASSEN, BilinearAlgorithm

__all__ = ["gaps"]  # a fixture
NAMES = [name for name, form in FORMS.items() if form.planes and not form.precision]
emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
#: Integers below these, in magnitude, need so many planes.
BELOW = {1: 2**7 - 1, 2: 2**15 - 2**7, 3: 2**23 - 2**15, 4: 2**31}


def exactly(name: str, sizes: tuple[int, int, int], algorithm: BilinearAlgorithm = STANDARD,
            how: str = "nn", *, planes: int = 4, dtype: str = "i4",
            want: Callable[..., Any] | None = None, **more: Any) -> None:  # fmt: skip
    """2 a b - c of integers that need so many planes, modulo 2^32."""
    m, n, k = sizes
    rng, below = np.random.default_rng(m * n + k), BELOW[planes]
    a, b, c = (rng.integers(-below, below, s).astype(dtype) for s in ((m, k), (k, n), (m, n + 3)))
    a[-1, -1] = np.array(1 - below).astype(dtype)
    a, b, out = laid(a, how[0]), laid(b, how[1]), c.copy()
    made = 2 * (a @ b) - c[:, :n] if want is None else want(a, b, c[:, :n])
    found = multiply(out[:, :n], a, b, name, algorithm, scales=(2, -1), **more)
    assert found == planes or algorithm is not STANDARD
    np.testing.assert_array_equal(out[:, :n], made)
    np.testing.assert_array_equal(out[:, n:], c[:, n:])  # and nothing beside it


@pytest.mark.long
@emulated
@pytest.mark.parametrize("planes", [4, 1])
@pytest.mark.parametrize("name", NAMES)
def test_exact_modulo_a_power_of_two(name: str, planes: int) -> None:
    for seed, sizes in enumerate([(131, 140, 212), (5, 3, 4), (259, 193, 140)]):
        exactly(name, sizes, planes=planes, processors=2 + seed, seed=seed, prefer=seed)
    exactly(name, (131, 67, 150), STRASSEN, planes=planes, dtype="u4" if planes == 4 else "i4")


_SHAPES = ((1, 1, 1), (7, 1, 129), (63, 130, 16), (129, 257, 265), (260, 40, 96))


@emulated
@pytest.mark.long
@pytest.mark.parametrize("how", ["nn", "tt", "ss", "nt", "bb"])
@pytest.mark.parametrize("algorithm", [STANDARD, STRASSEN], ids=lambda a: str(a.name))
@pytest.mark.parametrize("name", NAMES)
def test_every_layout(name: str, algorithm: BilinearAlgorithm, how: str) -> None:
    for seed, sizes in enumerate(_SHAPES):
        for planes in BELOW:
            exactly(name, sizes, algorithm, how, planes=planes, processors=4, seed=seed,
                    prefer=seed % 3)  # fmt: skip


@emulated
@pytest.mark.parametrize("name", NAMES)
def test_where_carries_end(name: str) -> None:
    """What does not fit into a signed byte is carried into the next; of the last it is lost."""
    edges = [0, 1, 127, 128, -128, -129, 255, 32639, 32640, -32896, -32897, 8355711, 8355712,
             -8421504, -8421505, 2**31 - 1, -(2**31), 2139062143, 2139062144]  # fmt: skip
    a = np.array(edges, "i4")
    out = np.zeros((a.size, a.size), "i4")
    assert multiply(out, a[:, None], a[None], name) == 4
    np.testing.assert_array_equal(out, a[:, None] * a[None])


_PRODUCERS = """struct ProducerA {
    static constexpr bool identity = false;
    static constexpr int sources = 2, second = 0;
    __device__ static __forceinline__ int apply(int x, int y, int i, int j, const u64 *e) { return x - y + i; }
};
struct ProducerB {
    static constexpr bool identity = false;
    static constexpr int sources = 0, second = 0;
    __device__ static __forceinline__ int apply(int x, int y, int i, int j, const u64 *e) { return 1000003 * i + j; }
};
"""  # noqa: E501
_EPILOGUE = """struct Epilogue {
    static constexpr bool identity = false;
    __device__ static __forceinline__ int finish(int x, int i, int j, const u64 *) { return x < j ? j : x; }
};
"""  # noqa: E501


@emulated
@pytest.mark.long
@pytest.mark.parametrize("algorithm", [STANDARD, STRASSEN], ids=lambda a: str(a.name))
@pytest.mark.parametrize("name", NAMES)
def test_fused(name: str, algorithm: BilinearAlgorithm) -> None:
    m, n, k = 131, 261, 77
    other = np.random.default_rng(1).integers(-(2**31), 2**31, (m, k)).astype("i4")
    i, depth, j = (
        np.arange(m, dtype="i4")[:, None],
        np.arange(k, dtype="i4"),
        np.arange(n, dtype="i4"),
    )
    y = np.int32(1000003) * depth[:, None] + j
    exactly(name, (m, n, k), algorithm, fused=_PRODUCERS + _EPILOGUE, reads=(other,),
            words=(other.ctypes.data, k, 1),
            want=lambda a, b, c: np.maximum(2 * ((a - other + i) @ y) - c, j))  # fmt: skip


#: What the emulation says, and the mistake.
_MISTAKES = {
    "consumers do not wait": (
        "race: .* of shared|more arrivals at the barrier",
        ("p > 0; p--) barrier_wait(of(p).full(), of(p).parity);", "p > 0; p--) ;"),
    ),
    "nor for the last plane": (
        "race: .* of shared",
        ("        if (W == USED - 1) barrier_wait(stage.of(0).full(), stage.of(0).parity);\n", ""),
    ),
    "sums are used early": (
        "changed while a wgmma was using it|race",
        ("    mma_wait<LATER>();\n", "    if (LATER == 0) mma_wait<LATER>();\n"),
    ),
    "no fence": (
        "without a fence", ("    bool add = false;\n    mma_fence();", "    bool add = false;"),
    ),
}  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str) -> None:
    says, change = _MISTAKES[mistake]
    with pytest.raises((tiles.Wrong, AssertionError), match=says):
        for seed in range(6):
            exactly(NAMES[-1], (400, 300, 330), how="tt", change=("", change), seed=seed,
                    prefer=seed % 3)  # fmt: skip


# --- machine code --------------------------------------------------------------------------------

_PRODUCTS = [_code(name, "", fused=fused) for name in NAMES for fused in (None, _EPILOGUE)]
_QUICK = (_PRODUCTS[-1], _code(NAMES[-1], _IMAGES, "K", "R", 2))
_OPERANDS = [
    _code(name, _IMAGES, *layouts, terms, fused)
    for name in NAMES for layouts in itertools.product("KRS", repeat=2) for terms in (1, 2)
    for fused in (None, _PRODUCERS)[: 1 + (layouts == ("K", "R"))]
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
