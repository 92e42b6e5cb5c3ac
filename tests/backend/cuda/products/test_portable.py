"""The engines without instructions of Hopper: emulated on a CPU (tiles.py), and compiled for every
architecture from sm_80 on."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from benchmarks.matmul.portable import HALVES, OF_HALVES, Check, Place, best, checks, wrong
from tests.backend.cuda.products import tiles
from tests.backend.cuda.products.test_float32 import RELU, _product
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.products.engine import Engine, engine_for
from treadle.backend.cuda.products.form import (
    AMPERE,
    FORMS,
    HOPPER,
    Arguments,
    Code,
    form_of,
    shared_memory,
)
from treadle.backend.cuda.products.halves import PortableArguments
from treadle.backend.cuda.products.launching import Matrix
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
        f"sizeof(tile::Arguments) == {ctypes.sizeof(arguments)}",
        f"tile::SHARED_BYTES == {form.shared_bytes}", f"tile::THREADS == {form.threads}",
        f"tile::BM == {form.rows} && tile::BN == {form.columns}",
        *(f"__builtin_offsetof(tile::Arguments, {k}) == {getattr(arguments, k).offset}"
          for k, *_ in arguments._fields_),
    ]  # fmt: skip
    source = code.source() + "".join(f'static_assert({c}, "");\n' for c in claims)
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


def test_the_choice_follows_the_features_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """With measurements of a portable form, devices other than Hopper use it, and no other form."""
    size = (8192,) * 3
    assert engine_for(Measured("sm_86")) is None  # until then
    form = replace(FORMS["Float32Portable"], measured="some file")
    monkeypatch.setitem(FORMS, "Float32Portable", form)
    times = {"library": {8192: 22.4, 2048: 0.34}, "standard split": {8192: 20.4, 2048: 0.36},
             "strassen persistent": {8192: 18.9, 2048: 0.4}}  # fmt: skip
    monkeypatch.setitem(MEASURED, (H200.name, "Float32Portable"), times)
    engine_for.cache_clear()
    try:
        for arch in ("sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"):
            device = Measured(arch, 100)
            engine = engine_for(device)
            assert engine is not None
            made = form_of(td.float32, size, 100, arch=arch)
            assert made == form
            found = predicted(engine, made.arithmetic, size, fast=True, deterministic=True)
            assert min(found, key=found.__getitem__) == "strassen persistent"
            assert predicted(engine, "Float32", size, fast=True, deterministic=True) == {}
            assert predicted(engine, "Float64", size, fast=True, deterministic=True) == {}
        assert form_of(td.float32, size, 132) == FORMS["Float32"]
        assert engine_for(Measured("sm_75")) is None
        twice = []
        for arch in ("sm_80", "sm_86"):
            on = engine_for(Measured(arch, 100))
            assert on is not None
            found = predicted(on, "Float32Portable", size, fast=False, deterministic=True)
            twice.append(found["library"])
        assert 1.9 < twice[0] / twice[1] < 2.1  # half as many units of float32
    finally:
        engine_for.cache_clear()
