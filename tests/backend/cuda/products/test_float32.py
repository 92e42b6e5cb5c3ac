"""The float32 tile engine: its text emulated on a CPU (tiles.py), and what it takes compiled.

`engines.json` holds registers and spills of representative variants for three architectures
(`--update-golden`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backend.cuda.compile import cubins
from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.layout import asserted, laid_out
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products.form import FORMS, Arguments, Code
from treadle.skeletons.products import STANDARD, STRASSEN, BilinearAlgorithm

BASELINE = Path(__file__).parent / "engines.json"
emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
MODES = ("owner", "split", "atomic", "persistent")


def _product(name: str, sizes: tuple[int, int, int], mode: str, algorithm: BilinearAlgorithm,
             how: str = "nn", *, fused: str = "", want: Callable[..., Any] | None = None,
             **more: Any) -> Any:  # fmt: skip
    """2 a b - c, exactly; `how`: layouts of a and b."""
    m, n, k = sizes
    rng = np.random.default_rng(m * n + k)
    t = np.int32 if name.startswith("Int") else np.float32
    a, b = (
        np.require(rng.integers(-9, 10, shape).astype(t), None, "F" if lies == "t" else "C")
        for shape, lies in (((m, k), how[0]), ((k, n), how[1]))
    )
    c = rng.integers(-9, 10, (m, n + 4)).astype(t)
    out = c.copy()
    tiles.multiply(out[:, :n], a, b, FORMS[name], mode, algorithm, alpha=2, beta=-1,
                   fused=fused, **more)  # fmt: skip
    made = 2 * (a @ b) - c[:, :n] if want is None else want(a, b, c[:, :n])
    np.testing.assert_array_equal(out[:, :n], made)
    np.testing.assert_array_equal(out[:, n:], c[:, n:])  # and nothing beside it
    return out


@pytest.mark.long
@emulated
def test_products_of_a_tile_are_added_in_order() -> None:
    for seed in range(3):
        _product("Float32Portable", (300, 284, 84), "persistent", STRASSEN, processors=4 + seed,
                 seed=seed, prefer=seed)  # fmt: skip


_SHAPES = ((1, 1, 1), (7, 1, 129), (129, 260, 17), (300, 540, 84))


@emulated
@pytest.mark.long
@pytest.mark.parametrize("how", ["nn", "tt"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["Float32", "Float32Portable", "Int32"])
def test_every_mode(name: str, mode: str, how: str) -> None:
    for seed, sizes in enumerate(_SHAPES):
        for algorithm in (STANDARD, STRASSEN)[: 1 + (mode != "split")]:
            _product(name, sizes, mode, algorithm, how, processors=5, seed=seed, prefer=seed % 3)


@emulated
@pytest.mark.long
def test_persistent_repeats_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((270, 72), (72, 520)))
    found = []
    for seed in range(4):
        out = np.zeros((270, 520), "f4")
        tiles.multiply(out, a, b, FORMS["Float32"], "persistent", STRASSEN, processors=5,
                       seed=seed, prefer=seed % 3)  # fmt: skip
        found.append(out)
    np.testing.assert_allclose(found[0], a @ b, atol=1e-4)
    assert all(np.array_equal(x, found[0]) for x in found)


_STRUCT = """struct {name} {{
    static constexpr bool identity = false;
    static constexpr int sources = {sources}, second = {second};
    __device__ static __forceinline__ float apply(float x, float y, int i, int j, const u64 *e) {{ return {body}; }}
}};
"""  # noqa: E501
LINE = _STRUCT.format(name="ProducerA", sources=1, second=0, body="x * 2.f + 1.f")
SUM = _STRUCT.format(name="ProducerA", sources=2, second=0, body="x + y")
PLACE = _STRUCT.format(name="ProducerA", sources=1, second=0,
                        body="x * x + (float)((i + 2 * j) % 3 + 1)")  # fmt: skip
GENERATED = _STRUCT.format(name="ProducerB", sources=0, second=0,
                            body="(float)((3 * i + 5 * j) % 7 - 2)")  # fmt: skip
RAMP = _STRUCT.format(name="ProducerB", sources=0, second=0, body="(float)(3 * i - 5 * j)")
SUM_B = _STRUCT.format(name="ProducerB", sources=2, second=3, body="x - y")
RELU = """struct Epilogue {
    static constexpr bool identity = false;
    __device__ static __forceinline__ float finish(float x, int i, int j, const u64 *) { float y = x + (float)(i - j); return y < 0.f ? 0.f : y; }
};
"""  # noqa: E501


def finished(a: Any, b: Any, c: Any) -> Any:
    (m, k), n = a.shape, b.shape[1]
    i, depth, j = np.arange(m)[:, None], np.arange(k), np.arange(n)
    x = a * a + (i + 2 * depth) % 3 + 1
    y = (3 * depth[:, None] + 5 * j) % 7 - 2
    return np.maximum(2 * (x @ y) - c + i - j, 0).astype("f4")


_CASES = [("owner", STANDARD), ("split", STANDARD), ("owner", STRASSEN), ("persistent", STRASSEN)]


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mode, algorithm", _CASES)
@pytest.mark.parametrize("sizes", [(132, 264, 20), (131, 261, 21)])
def test_fused(mode: str, algorithm: BilinearAlgorithm, sizes: tuple[int, int, int]) -> None:
    """An operand is not zero where it ends, until the tile is padded."""
    _product("Float32", sizes, mode, algorithm, fused=PLACE + GENERATED + RELU,
             want=finished, processors=3)  # fmt: skip


@emulated
@pytest.mark.parametrize(
    "name, mode, algorithm",
    [("Float32Portable", "owner", STANDARD),
     *(pytest.param("Float32", *case, marks=pytest.mark.long) for case in _CASES)],
)  # fmt: skip
def test_operands_of_two_arrays(name: str, mode: str, algorithm: BilinearAlgorithm) -> None:
    m, n, k = 140, 264, 20
    rng = np.random.default_rng(2)
    a, a2 = (rng.integers(-9, 10, (m, k)).astype("f4") for _ in range(2))
    b, b2 = (rng.integers(-9, 10, (k, n)).astype("f4") for _ in range(2))
    words = (a2.ctypes.data, k, 1, b2.ctypes.data, 1, n)
    out = np.zeros((m, n), "f4")
    tiles.multiply(out, a, b, FORMS[name], mode, algorithm, fused=SUM + SUM_B, words=words,
                   reads=(a2, b2))  # fmt: skip
    np.testing.assert_array_equal(out, (a + a2) @ (b - b2))


# --- mistakes ------------------------------------------------------------------------------------

_MISTAKES = {
    "nobody waits for its ticket": (
        "race: ", ("                            while (load_acquire(ticket) != rank) {}\n", ";\n")),
    "the ticket is passed on early": (
        "race: ",
        ("                    write_back<Arithmetic, Epilogue, ",
         "                    if (t == 0) store_release(ticket, rank + 1);\n"
         "                    write_back<Arithmetic, Epilogue, "),
    ),
    "consumers do not wait": (
        "race: read of shared",
        ("barrier_wait(ring.at + OFF_FULL, ring.parity);\n        u32 ca", "u32 ca")),
    "producers do not wait": (
        "race: write of shared",
        ("        barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);\n#pragma unroll\n"
         "        for (int i = 0; i < NA; i++) {\n            Extent",
         "#pragma unroll\n        for (int i = 0; i < NA; i++) {\n            Extent")),
}  # fmt: skip


@emulated
@pytest.mark.long
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str) -> None:
    says, change = _MISTAKES[mistake]
    with pytest.raises(tiles.Wrong, match=says):
        _product("Float32", (300, 540, 84), "persistent", STRASSEN, processors=9, change=change)


# --- machine code --------------------------------------------------------------------------------

_VARIANTS = {
    "standard owner": Code("K", "R", True, "owner", 1, "Float32"),
    "standard split": Code("K", "R", True, "split", 1, "Float32"),
    "strassen owner": Code("K", "R", True, "owner", 2, "Float32"),
    "strassen atomic": Code("K", "R", True, "atomic", 2, "Float32"),
    "strassen persistent": Code("K", "R", True, "persistent", 2, "Float32"),
    "unaligned owner": Code("K", "R", False, "owner", 2, "Float32"),
    "2 a + 1": Code("K", "R", True, "owner", 1, "Float32", LINE),
    "split 2 a + 1": Code("K", "R", True, "split", 1, "Float32", LINE),
    "2 a + 1, relu": Code("R", "K", True, "owner", 1, "Float32", LINE + RELU),
    "strassen 2 a + 1": Code("K", "R", True, "atomic", 2, "Float32", LINE),
    "strassen turned 2 b + 1": Code(
        "R", "R", True, "persistent", 2, "Float32", LINE.replace("ProducerA", "ProducerB")
    ),
    "strassen generated": Code("K", "R", True, "persistent", 2, "Float32", RAMP),
    "a + a2, b - b2": Code("K", "R", True, "owner", 1, "Float32", SUM + SUM_B),
    "strassen a + a2": Code("K", "R", True, "persistent", 2, "Float32", SUM),
    "strassen relu": Code("K", "R", True, "persistent", 2, "Float32", RELU),
}
_QUICK = ("strassen persistent", "a + a2, b - b2")


def _cases() -> list[Any]:
    found = []
    for name, code in _VARIANTS.items():
        for arch in cubins.ARCHITECTURES:
            name_here = "Float32" if arch == "sm_90a" else "Float32Portable"
            key = f"{name}, {name_here}, {arch}"
            marks = () if name in _QUICK else pytest.mark.long
            made = replace(code, arithmetic=name_here)
            found.append(pytest.param(made, arch, key, marks=marks, id=key))
    return found


@pytest.mark.parametrize("code, arch, key", _cases())
def test_compiles(code: Code, arch: str, key: str, nvrtc: None, updating: bool) -> None:
    form = FORMS[code.arithmetic]
    claims = [
        *laid_out("tile::Arguments", Arguments),
        f"tile::SHARED_BYTES == {form.shared_bytes}", f"tile::THREADS == {form.threads}",
        f"tile::BM == {form.rows} && tile::BN == {form.columns}",
    ]  # fmt: skip
    source = code.source() + asserted(claims)
    cubin = compile_text(source, form.entry, arch, dynamic_shared_bytes=form.shared_bytes)
    found = {"registers": cubin.registers, "spills": cubin.spills}
    held = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    if updating:
        held = {"nvrtc": cubins.nvrtc_version(), **held, key: found}
        BASELINE.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    if held["nvrtc"] == cubins.nvrtc_version():
        assert found == held[key], "see --update-golden"
    assert cubin.registers <= 168
    assert cubin.spills <= held[key]["spills"]


def _nvdisasm() -> str | None:
    try:
        import nvidia.cu13 as package
    except ImportError:
        return shutil.which("nvdisasm")
    return shutil.which("nvdisasm", path=str(Path(package.__path__[0]) / "bin"))


@pytest.mark.long
@pytest.mark.skipif(_nvdisasm() is None, reason="no nvdisasm")
@pytest.mark.parametrize("name", [n for n in _VARIANTS if n != "unaligned owner"])
def test_what_is_fused_leaves_the_loop_its_register_banks(name: str, nvrtc: None,
                                                          tmp_path: Path) -> None:  # fmt: skip
    """Producers short of registers would cost the consumers' loop a third of its speed."""
    import subprocess
    import sys

    code = _VARIANTS[name]
    form = FORMS[code.arithmetic]
    cubin = compile_text(code.source(), form.entry, "sm_90a",
                         dynamic_shared_bytes=form.shared_bytes)  # fmt: skip
    (tmp_path / "k.cubin").write_bytes(cubin.image)
    script = Path(__file__).parents[4] / "benchmarks" / "matmul" / "sass_stats.py"
    text = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "k.cubin"), "--nvdisasm", str(_nvdisasm())],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.search(r"bank-model/FFMA ([\d.]+)", text)
    assert found is not None and float(found[1]) < 1.25
