"""The engines without instructions of Hopper: emulated on a CPU (tiles.py), and compiled for every
architecture from sm_80 on."""

from __future__ import annotations

import ctypes
import gc
import json
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from benchmarks.matmul.portable import (
    HALVES,
    OF_HALVES,
    Check,
    Place,
    best,
    checks,
    page,
    type_of,
    wrong,
)
from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.layout import asserted, laid_out
from tests.backend.cuda.products.test_float32 import RELU, _product
from tests.backend.cuda.products.test_product_choice import arithmetic_of, chosen
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products.engine import Engine, engine_for
from treadle.backend.cuda.products.explain import describe
from treadle.backend.cuda.products.form import (
    AMPERE,
    FORMS,
    HOPPER,
    PORTABLE,
    Arguments,
    Code,
    form_of,
    shared_memory,
)
from treadle.backend.cuda.products.launching import Fused, Matrix
from treadle.backend.cuda.products.mapped import PortableArguments
from treadle.backend.cuda.products.ways import Measured, predicted
from treadle.skeletons.products import STANDARD, STRASSEN
from treadle.skeletons.products.measured import MEASURED
from treadle.skeletons.products.model import H200

emulated = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
#: Bytes that a thread of an engine with tiles of 192 columns may spill.
SPILLS = 136


class Emulated(Engine):
    """The host side of the engine, with emulated launches."""

    def __init__(self, seed: int = 0, change: tuple[str, str] | None = None) -> None:
        super().__init__(SimpleNamespace(multiprocessors=3, arch="sm_80", empty=self._empty))
        self.seed, self.change = seed, change
        self.arrays: list[tuple[Any, bool]] = []
        self.place = Place(self._put, lambda x: x, self._matrix)

    def _put(self, x: Any) -> Any:
        made = self._empty(x.shape, x.dtype)
        made[:] = x
        return made

    @staticmethod
    def _matrix(x: Any) -> Matrix:
        return Matrix(x.ctypes.data, *x.shape, *(s // x.itemsize for s in x.strides), x.itemsize)

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        room = np.zeros(int(np.prod(shape)) * dtype.itemsize + 16, np.uint8)
        first = -room.ctypes.data % 16
        made = room[first : first + room.size - 16].view(dtype).reshape(shape)
        self.arrays.append((made, True))
        return made

    def copy_lines(self, to: int, to_pitch: int, source: int, pitch: int, width: int, count: int
                   ) -> None:  # fmt: skip
        for i in range(count):
            ctypes.memmove(to + i * to_pitch, source + i * pitch, width)

    def clear(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)

    def load(self, what: Any, name: str, threads: int, shared: int) -> Any:
        return what, threads, shared

    def run(self, loaded: Any, arguments: Any, blocks: tuple[int, int]) -> None:
        code, threads, shared = loaded
        tiles.run(code, arguments[0], blocks, tiles.spans_of(self.arrays), threads=threads,
                  shared=shared, seed=self.seed, prefer=self.seed % 3,
                  change=self.change)  # fmt: skip


def _check(name: str, shape: tuple[int, int, int], layouts: Sequence[int] = (0,), seed: int = 0,
           change: tuple[str, str] | None = None) -> None:  # fmt: skip
    """The checks of the benchmark, which runs them on a GPU."""
    engine = Emulated(seed, change)
    made = checks(engine, engine.place, (name,), (shape,), layouts)
    assert made and wrong(engine.place, made) == []


@pytest.mark.long
@emulated
@pytest.mark.parametrize("layout", range(4))
def test_halves(layout: int) -> None:
    """Full and partial tiles, several tiles a block."""
    _check("Float16SquarePortable", (140, 100, 270), (layout,), layout)


@emulated
@pytest.mark.long
@pytest.mark.parametrize("layout", range(4))
@pytest.mark.parametrize("name", OF_HALVES)
def test_every_half(name: str, layout: int) -> None:
    shapes = ((1, 1, 1), (7, 130, 9), (129, 257, 65), (128, 96, 256), (513, 1, 127), (64, 32, 700))
    for seed, shape in enumerate(shapes):
        _check(name, shape, (layout,), seed)


#: An epilogue that changes the bits of outputs by those of an element of a row and of a column.
BITS = """struct float16 { unsigned short bits; };
struct Epilogue {
    static constexpr bool identity = false;
    __device__ static __forceinline__ float16 finish(float16 x, int i, int j, const u64 *extra) {
        const int down = tile::__ldg((const int *)extra[0] + i), across = tile::__ldg((const int *)extra[1] + j);
        return {(unsigned short)(x.bits ^ down ^ across)};
    }
};
"""  # noqa: E501


@pytest.mark.sample(1)
@emulated
@pytest.mark.parametrize("shape", [(140, 30, 270), (5, 64, 1)])
def test_an_epilogue_of_halves_reads_only_what_exists(shape: tuple[int, int, int]) -> None:
    engine, (m, k, n), rng = Emulated(), shape, np.random.default_rng(1)
    put, _, matrix = engine.place
    a, b = (put(rng.integers(-3, 4, s).astype(np.float16)) for s in ((m, k), (k, -(-n // 8) * 8)))
    down, across = (put(rng.integers(0, 2**15, s, np.int32)) for s in (m, n))
    out = put(np.zeros((m, n), np.float16))
    fused = Fused(BITS, [x.ctypes.data for x in (down, across)])
    form = "Float16SquarePortable"
    engine.standard(matrix(out), matrix(a), matrix(b[:, :n]), "owner", form, fused)
    want = (a.astype(np.float64) @ b[:, :n].astype(np.float64)).astype(np.float16)
    assert np.array_equal(out.view(np.uint16), want.view(np.uint16) ^ down[:, None] ^ across)


@emulated
@pytest.mark.long
def test_float32() -> None:
    _check("Float32Portable", (129, 65, 257), (0, 3))


@emulated
@pytest.mark.long
@pytest.mark.parametrize("name", HALVES)
def test_configurations_of_halves(name: str) -> None:
    _check(name, (140, 400, 270), (len(name) % 4,))


#: Mistakes that a GPU would forgive most of the time, and what the emulation says.
_MISTAKES = {
    "nobody waits for the copies of others": (
        "race: (read|write) of shared word",
        ("                    if (more) barrier_wait(ring.full(), ring.parity);\n", "")),
    "copies are announced before they have landed": (
        "race: read of shared word .* asynchronous copy",
        ("                    copies_wait<AHEAD - 2>();\n", "")),
    "a stage is overwritten while it is read": (
        "race: write of shared",
        ("AHEAD = STAGES - 1;", "AHEAD = STAGES;")),
    "a stage is given back before it is read": (
        "race: (read|write) of shared",
        ("if (k + 2 == STEPS && i == BANDS / 2 && more) {",
         "if (k + 2 == STEPS && i == BANDS / 2) load(p ^ 1, k + 1);\n"
         "                    if (k + 2 == STEPS && i == 0 && more) {")),
    "units are not permuted": (
        "rows of a matrix in the same banks",
        ("(unit ^ (UNITS == 4 ? line / 2 % 4 : line % 8)) * 16", "unit * 16")),
    "what is beyond the operand is read": (
        "outside of the arrays",
        ("there ? from + i * STEP * x.pitch : x.first, there ? bytes : 0",
         "from + i * STEP * x.pitch, 16")),
    "all stages are inside": (
        "outside of the arrays",
        ("const bool whole = fresh && Tile<TA, BM>::inside(g.a, m, s * DEEP) && "
         "Tile<TB, BN>::inside(g.b, n, s * DEEP);", "const bool whole = fresh;")),
}  # fmt: skip


@pytest.mark.sample(1)
@emulated
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_emulation_is_honest(mistake: str) -> None:
    says, change = _MISTAKES[mistake]
    with pytest.raises(tiles.Wrong, match=says):
        for seed in range(3):
            _check("Float16SquarePortable", (140, 300, 270), seed=seed, change=change)


def test_a_check_keeps_its_operands() -> None:
    """A product that is computed later than it was described: its arrays must still be there."""
    engine = Emulated()
    kept: list[Any] = []

    def put(x: Any) -> Any:
        made = x.view(type("Watched", (np.ndarray,), {}))
        kept.append(weakref.ref(made))
        return made

    place = Place(put, lambda x: x, Emulated._matrix)
    made = checks(engine, place, ("Float16Portable",), ((3, 5, 7), (4, 6, 8)))
    gc.collect()
    assert len(kept) == 2 * 4 * 2 * 3
    assert all(x() is not None for x in kept)
    del made
    gc.collect()
    assert all(x() is None for x in kept)


def test_a_check_finds_what_is_wrong() -> None:
    """A result that is not exact, and one that is beside the array."""
    engine = Emulated()
    made = checks(engine, engine.place, ("Float16Portable",), ((3, 5, 7),), (0,))

    def spoilt(check: Check, row: int) -> Check:
        def run() -> None:
            check.out[:-1] = check.want.view(check.out.dtype)
            check.out[row, 0] ^= 1

        return check._replace(run=run)

    assert wrong(engine.place, [spoilt(made[0], 1), spoilt(made[1], -1)]) == [c.name for c in made]


def test_the_fastest_is_named() -> None:
    times = {
        "float16": {"library": {"64": 1.0}}, "Float16": {"standard owner": {"64": 0.9}},
        "Float16Portable": {"standard owner": {"64": 2.0}},
        "Float16SquarePortable": {"standard owner": {"64": 1.6}},
    }  # fmt: skip
    assert best(times) == {
        "float16 standard": {"64": (0.625, "Float16SquarePortable, standard owner")}
    }


@emulated
@pytest.mark.parametrize(
    "mode, how",
    [("split", "nn"),
     *(pytest.param(m, h, marks=pytest.mark.long)
       for m in ("owner", "split", "atomic", "persistent") for h in ("nn", "tt", "nt", "tn"))],
)  # fmt: skip
def test_floats(mode: str, how: str) -> None:
    for seed, sizes in enumerate(((1, 1, 1), (129, 260, 37), (300, 400, 84))):
        for algorithm in (STANDARD, STRASSEN)[: 1 + (mode != "split")]:
            _product("Float32Portable", sizes, mode, algorithm, how, processors=4, seed=seed,
                     prefer=seed % 3)  # fmt: skip


_CODES = {
    "float32": Code("K", "R", True, "owner", 1, "Float32Portable"),
    "float32 split": Code("K", "R", True, "split", 1, "Float32Portable"),
    "float32 strassen": Code("K", "R", True, "persistent", 2, "Float32Portable"),
    "float32 strassen transposed": Code("R", "K", True, "persistent", 2, "Float32Portable"),
    "float32 unaligned": Code("K", "R", False, "owner", 2, "Float32Portable"),
    "float32 relu": Code("K", "R", True, "owner", 1, "Float32Portable", RELU),
    **{f"{name} {left}{right}": Code(left, right, False, "owner", 1, name)
       for name in OF_HALVES for left in "KR" for right in "KR"},
}  # fmt: skip
_QUICK = ("float32 strassen", "Float16SmallPortable KR")


def _cases() -> list[Any]:
    return [
        pytest.param(name, arch, id=f"{name}, {arch}",
                     marks=() if name in _QUICK else pytest.mark.long)
        for name, code in _CODES.items() for arch in ARCHITECTURES
        if FORMS[code.arithmetic].runs_on(arch)
    ]  # fmt: skip


@pytest.mark.parametrize("name, arch", _cases())
def test_compiles(name: str, arch: str, nvrtc: None) -> None:
    """For every architecture of a form; the host lays out arguments and shared memory as the kernel
    does."""
    code = _CODES[name]
    form = FORMS[code.arithmetic]
    arguments = PortableArguments if form.copies else Arguments
    claims = [
        *laid_out("tile::Arguments", arguments),
        f"tile::SHARED_BYTES == {form.shared_bytes}", f"tile::THREADS == {form.threads}",
        f"tile::BM == {form.rows} && tile::BN == {form.columns}",
    ]  # fmt: skip
    source = code.source() + asserted(claims)
    cubin = compile_text(source, form.entry, arch, dynamic_shared_bytes=form.shared_bytes)
    # With 192 columns there are no registers to spare for index arithmetic.
    assert cubin.spills <= (SPILLS if code.arithmetic == "Float32Portable" else 0)
    assert cubin.registers * form.threads * form.resident <= 65536


def test_an_engine_for_every_architecture() -> None:
    """Forms of Hopper are for Hopper only, portable ones for the rest, as far as their blocks fit:
    float32 and a form of each 16-bit type everywhere."""
    for form in FORMS.values():
        assert form.runs_on("sm_90a") == (form.needs == HOPPER)
        for arch in ARCHITECTURES:
            fits = form.resident * form.shared_bytes <= shared_memory(arch)
            assert form.runs_on(arch) == (form.needs == AMPERE and fits)
        assert not form.runs_on("sm_75")
    names = ("Float32Portable", *OF_HALVES)
    known = {arch: {n for n in names if FORMS[n].runs_on(arch)} for arch in ARCHITECTURES}
    small = {"Float32Portable", "Float16SmallPortable", "BFloat16SmallPortable"}
    assert known["sm_86"] == known["sm_89"] == known["sm_120"] == small
    assert known["sm_80"] == small | {"Float16Portable", "BFloat16Portable"}
    assert known["sm_90"] == known["sm_100"] == set(names)


OTHERS = ("sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a")


@pytest.mark.parametrize("arch", OTHERS)
def test_the_choice_follows_the_features_of_the_device(arch: str) -> None:
    """GPUs other than Hopper use portable forms, Hopper none; no architecture before sm_80 any."""
    engine = engine_for(Measured(arch, 100))
    assert engine is not None
    for t in (td.float32, td.float16, td.bfloat16):
        made = form_of(t, (8192,) * 3, 100, arch=arch)
        assert made is not None and made.runs_on(arch) and made.arithmetic.endswith("Portable")
        there = form_of(t, (8192,) * 3, 132)
        assert there is not None and there.needs == HOPPER
    assert form_of(td.int32, (8192,) * 3, 100, arch=arch) is None
    size = (8192,) * 3
    assert predicted(engine, "Float32", size, fast=True, deterministic=True) == {}
    assert predicted(engine, "Float64", size, fast=True, deterministic=True) == {}
    assert engine_for(Measured("sm_75")) is None


def test_half_as_many_units_of_float32_take_twice_the_time() -> None:
    """And other instructions of the library cost half as much there, as the engine's do."""
    times = []
    for arch in ("sm_80", "sm_86"):
        on = engine_for(Measured(arch, 100))
        assert on is not None
        found = predicted(on, "Float32Portable", (8192,) * 3, fast=True, deterministic=True)
        times.append((found["library"], found["standard split"]))
    (library, split), (other_library, other_split) = times
    assert 1.85 < library / other_library < 1.95
    assert 0.98 < (library / split) / (other_library / other_split) < 1.02


@pytest.mark.parametrize("arch", OTHERS)
def test_float32_uses_the_portable_form(arch: str) -> None:
    """Named Strassen products, permission to be fast where a level gains, and fused parts where
    these are predicted to gain; else the library."""
    device = Measured(arch, 100)
    on = engine_for(device)
    assert on is not None

    def way(function: Any, n: int, count: int = 1) -> tuple[str, str | None, Any, dict[str, str]]:
        node, made = chosen(function, (n, n, n), on=on, count=count)
        shown = describe(node, (n, n, n), device, count=count)
        return made.by, arithmetic_of(made), made.way, shown

    for levels in (1, 2):
        for execution in ("owner", "sequential", "streams", "atomic", "batched", "persistent",
                          "recursive"):  # fmt: skip
            by, form, found, shown = way(
                lambda a, b, e=execution, n=levels: td.strassen(a, b, levels=n, execution=e), 3000
            )  # type: ignore[misc]
            assert (by, form, found) == ("engine", "Float32Portable", (execution, levels))
            assert "in the form for GPUs without wgmma" in shown["algorithm"]
    by, form, (_, levels), _ = way(td.strassen, 1000)
    assert (by, form, levels) == ("engine", "Float32Portable", 1)

    def fast(a: Any, b: Any) -> Any:
        with td.precision(fast=True):
            return a @ b

    by, form, (_, levels), shown = way(fast, 16384)
    assert (by, form, levels) == ("engine", "Float32Portable", 1)
    assert f"scaled to 100 multiprocessors of {arch}" in shown["predicted"]
    assert way(fast, 2048)[:3] == ("library", None, None)
    for n in (512, 2048, 8192, 16384):  # where it is not predicted to win
        by, form, _, shown = way(lambda a, b: a @ b, n)
        assert (by, form) == ("library", None)
        assert "the tile engine" in shown["predicted"]
    by, form, _, shown = way(lambda a, b: td.maximum(td.strassen(2 * a + 1, b), 0), 8192)
    assert (by, form) == ("engine", "Float32Portable")
    assert shown["epilogue"].startswith("applied by") or "would take" in shown["epilogue"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("arch", OTHERS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_no_plain_product_is_slower_than_the_library(arch: str, dtype: str) -> None:
    """By the model, with a margin for GPUs that were not measured: a plain standard product is the
    library's, and one with an epilogue is an engine's or a kernel's only if that is predicted to be
    faster than the library and a kernel."""
    on = engine_for(Measured(arch, 100))
    assert on is not None
    for n in (256, 1000, 2048, 4096, 7777, 8192, 20000):
        for size in ((n, n, n), (n, 8192, n), (8192, n, 300)):
            _, made = chosen(lambda a, b: a @ b, size, dtype=dtype, on=on)
            assert made.by == "library"
            _, made = chosen(lambda a, b: td.maximum(a @ b + 1, 0), size, dtype=dtype, on=on)
            if made.by != "library":
                mine, library = made.prices[0][1], dict(made.prices)["cuBLAS and 1 separate kernel"]
                assert mine < library / 1.04


def test_measurements_are_the_ones_that_are_committed() -> None:
    """The times of the portable forms are those of the result that they name."""
    folder = Path(__file__).parents[4] / "benchmarks" / "results"
    data = json.loads((folder / PORTABLE).read_text(encoding="utf-8"))
    assert data["exact"]["wrong"] == [] and data["memcheck"]["rc"] == data["racecheck"]["rc"] == 0
    then = {"": " 256, 3 of 64", "Square": " 128, 3 of 64", "Small": "Portable"}
    names = {"Float32Portable": "Float32Portable"} | {
        f"{t}{kind}Portable": t + name for t in ("Float16", "BFloat16")
        for kind, name in then.items()
    }  # fmt: skip
    for name, before in names.items():
        assert FORMS[name].measured == PORTABLE
        want = {"library": data["times"][type_of(name)]["library"], **data["times"][before]}
        found = {way: {str(n): ms for n, ms in row.items()}
                 for way, row in MEASURED[H200.name, name].items()}  # fmt: skip
        assert found == want
    assert (folder / PORTABLE).with_suffix(".md").read_text(encoding="utf-8") == page(data)
