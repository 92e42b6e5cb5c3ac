"""The host's description of the tile engines of skeletons/products/engines: a `Form` for each.

A form names an engine's file, tile, launch and element size, and how large its table of a bilinear
algorithm can be (terms, targets, products).  The structures below mirror `tile::Arguments` and its
members; coefficients are 32-bit words.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

from treadle.dsl.types import ScalarType
from treadle.skeletons import products as engines_home
from treadle.skeletons.products import BilinearAlgorithm, instances
from treadle.skeletons.products.error import SPLITS
from treadle.skeletons.products.measured import exact, ways
from treadle.skeletons.products.model import H200, Machine
from treadle.skeletons.products.primitives import Instance, Terms

_FOLDER = Path(str(engines_home.__file__)).parent / "engines"
#: Words in a launch for fused code (`extra`).
WORDS = 16
#: The limits of a table: products, terms of an operand, and blocks of C that a product updates.
PRODUCTS, TERMS, TARGETS = 7, 2, 4

_I, _L, _P, _U = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_uint32


#: The GPU features that engines need: cp.async, mbarriers and mma.sync of bfloat16; and on Hopper
#: only, wgmma and the reallocation of registers.
AMPERE, HOPPER = frozenset(("asynchronous copies",)), frozenset(("wgmma",))
#: The measurements of the forms that do not need Hopper, and a remark on their unit.
PORTABLE, WITHOUT = "portable-gpu-2026-11-27.json", ", in the form for GPUs without wgmma"
#: The measurements of tf32; "" disables its engine.
TF32 = "tf32-gpu-2026-11-30.json"


#: Kilobytes of shared memory available to a block, by compute capability; elsewhere 99.  A
#: multiprocessor has one more for each block it holds.
_SHARED = {80: 163, 87: 163, 90: 227, 100: 227, 101: 227, 103: 227, 110: 227}
#: Multiply-adds of 16-bit floats per clock and multiprocessor, by compute capability; else 512.
_TENSOR = {80: 1024, 90: 2048, 100: 4096, 103: 4096}


def capability(arch: str) -> int:
    """The digits of an architecture's compute capability.

    >>> capability("sm_90a")
    90
    """
    return int("".join(c for c in arch if c.isdigit()))


@lru_cache(maxsize=16)
def features(arch: str) -> frozenset[str]:
    """The features of an architecture that engines need.

    >>> sorted(features("sm_86")), sorted(features("sm_90a"))
    (['asynchronous copies'], ['asynchronous copies', 'wgmma'])
    """
    modern = AMPERE if capability(arch) >= 80 else frozenset()
    return modern | (HOPPER if arch == "sm_90a" else frozenset())


def shared_memory(arch: str) -> int:
    """The most bytes of shared memory of a block.

    >>> shared_memory("sm_80"), shared_memory("sm_86"), shared_memory("sm_90a")
    (166912, 101376, 232448)
    """
    return _SHARED.get(capability(arch), 99) * 1024


def machine_of(arch: str, processors: int) -> Machine:
    """A model GPU with the units of this architecture (for float32, 64 lanes at compute capability
    8.0, elsewhere 128) and the clock and memory of an H200.
    """
    digits = capability(arch)
    share = processors / H200.processors * (0.5 if digits == 80 else 1)
    return replace(H200, processors=processors, fma=H200.fma * share,
                   tensor=_TENSOR.get(digits, 512))  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A tile engine.

    `types`: the element types it multiplies; `file`, `entry`, `threads`, `shared_bytes` of a
    launch; `rows` × `columns` of a tile; `step`: the extent of k per stage; `group`: rows of tiles
    visited together; `sums`: the file that adds blocks of an operand (entry `quadrant_sum`), if
    there is one; `unit`: the unit that multiplies, in words; `modes`: of the kernel; `producers`:
    whether elements of operands can be computed while they are loaded; `defines`: additional
    macros; `planes`: the number of 16-bit floats (or tf32, or bytes) into which tile images split
    an element, 0 if the engine reads the operands themselves; `scaled`: rows are scaled before
    the split; `precision`: the option of `matmul` that names it; `maps`: operands are described by
    tensor maps, and have contiguous rows or columns; `copies`: the same for lines copied with
    cp.async; `needs`: the features of a GPU (`features`) without which it does not run;
    `resident`: blocks that a multiprocessor holds at a time; `pace`: after this many stages blocks
    wait for each other, if a multiprocessor has several tiles.
    `measured`: where it was shown to be correct, and timed (a file of benchmarks/results or
    benchmarks/matmul/results); without that, no product of a program uses it.
    """

    arithmetic: str
    types: tuple[str, ...]
    file: str
    entry: str
    itemsize: int
    threads: int
    shared_bytes: int
    rows: int = 128
    columns: int = 256
    step: int = 8
    group: int = 16
    sums: str | None = None
    least_steps: int = 64
    least_inner: int = 256
    unit: str = "multiply-adds"
    modes: tuple[str, ...] = ("owner", "split", "atomic")
    producers: bool = False
    defines: tuple[tuple[str, str], ...] = ()
    planes: int = 0
    scaled: bool = False
    precision: str = ""
    maps: bool = False
    copies: bool = False
    needs: frozenset[str] = HOPPER
    resident: int = 1
    pace: int = 0
    measured: str = ""

    def word(self, value: float) -> int:
        """A coefficient in the representation of the engine's arithmetic."""
        if not exact(self.arithmetic):
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        return int(value) & 0xFFFFFFFF

    @property
    def aligned(self) -> int:
        return 16 // self.itemsize

    @property
    def cut(self) -> str:
        """The mode that cuts tiles into parts and is reproducible; "owner" if there is none."""
        return "split" if "split" in self.modes else "atomic" if exact(self.arithmetic) else "owner"

    def runs_on(self, arch: str) -> bool:
        """Whether it is used on an architecture: the GPU has the features and the shared memory for
        all `resident` blocks, and no form for Hopper replaces it."""
        found = features(arch)
        fits = self.resident * (self.shared_bytes + 1024) <= shared_memory(arch) + 1024
        return self.needs <= found and fits and (self.needs == HOPPER or not found >= HOPPER)

    def executes(self, execution: str | None) -> bool:
        """Whether it has an execution of fast algorithms."""
        if self.planes:
            return execution in (None, "owner")
        return execution != "persistent" or execution in self.modes

    def fits(self, algorithm: BilinearAlgorithm) -> bool:
        """Whether its table can hold an algorithm: few terms, one with coefficient ±1 in every
        operand."""
        made = instances(algorithm)
        return len(made) <= PRODUCTS and all(
            len(t) <= TERMS and any(abs(c) == 1 for _, c in t)
            for i in made for t in (i.a, i.b)
        ) and all(len(i.c) <= TARGETS for i in made)  # fmt: skip


def float32_form(name: str, types: tuple[str, ...], columns: int = 256, measured: str = "") -> Form:
    """The engine of 32-bit multiply-adds (in the arithmetic of the first type), with tiles of 128
    rows by `columns`."""
    stage = -(-(8 * 4 * (128 + 4 + columns + 4) + 16) // 128) * 128
    arithmetic = "tile::Float32" if types[0] == "float32" else "tile::Int32"
    return Form(
        name, types, "f32_matmul.cu", "matmul_f32", 4, 384, 8 * stage + 2048 + 128, 128, columns,
        sums="f32_sum.cu", measured=measured, producers=True,
        needs=HOPPER if columns == 256 else AMPERE,
        unit="multiply-adds" + WITHOUT * (columns < 256),
        modes=("owner", "split", "atomic", "persistent"),
        defines=(("TILE_ARITHMETIC", arithmetic), ("TILE_BN", str(columns))),
    )  # fmt: skip


def tensor_form(name: str, precision: str, element: str, planes: int, columns: int = 192,
                measured: str = "tensor-gpu-2026-11-24.json") -> Form:  # fmt: skip
    """The engine of tile images, with tiles of 128 rows by `columns`; `precision`: that of float32,
    "" for integers."""
    stage = (128 + columns) * 128
    stages = 226 * 1024 // stage
    return Form(
        name, ("float32",) if precision else ("int32", "uint32"), "tensor_matmul.cu",
        "matmul_tensor", 4, 384, stages * (stage + 16), 128, columns,
        {"TF32": 32, "BYTE": 128}.get(element, 64), 8,
        modes=("owner",), producers=True, least_steps=0,
        least_inner=SPLITS[precision].least if precision else 0,
        unit=f"{precision or 'limbs of 8 bits'} on tensor cores", planes=planes,
        scaled=element == "HALF", pace=4, precision=precision, measured=measured,
        defines=(("TILE_BN", str(columns)), ("TILE_PLANES", str(planes)),
                 ("TILE_ELEMENT", element)),
    )  # fmt: skip


def half_form(name: str, columns: int, portable: bool = False, step: int = 64, stages: int = 0
              ) -> Form:  # fmt: skip
    """The engine of 16-bit floats, with tiles of 128 rows by `columns`; `name`: its arithmetic,
    which begins with the type; `portable`: without instructions of Hopper, with `stages` of `step`
    along k."""
    stage, staged = (128 + columns) * step * 2, (columns // 32 if portable else 8) * 16 * 64 * 2
    stages = stages or (226 * 1024 - staged) // stage
    t = "bfloat16" if name.startswith("BFloat16") else "float16"
    macros = {"BN": columns, "ELEMENT": "HALF" if t == "float16" else "BFLOAT"}
    if portable:
        macros |= {"PORTABLE": 1, "DEEP": step, "STAGES": stages}
    return Form(
        name, (t,), "half_matmul.cu", "matmul_half", 2, columns if portable else 384,
        stages * (stage + 16) + staged, 128, columns, step, 8, modes=("owner",), least_steps=0,
        least_inner=64, unit="tensor cores" + WITHOUT * portable,
        measured=PORTABLE if portable else "tensor-gpu-2026-11-24.json",
        maps=not portable, copies=portable, needs=AMPERE if portable else HOPPER,
        resident=256 // columns if portable else 1,
        defines=tuple((f"TILE_{k}", str(v)) for k, v in macros.items()),
    )  # fmt: skip


def tf32_form(name: str, columns: int) -> Form:
    """The engine of float32 rounded to tf32, with tiles of 128 rows by `columns`, of C or of C
    transposed."""
    stage = (128 + columns) * 128
    return Form(
        name, ("float32",), "tf32_matmul.cu", "matmul_tf32", 4, 384,
        226 * 1024 // stage * (stage + 16), 128, columns, 32, 8, modes=("owner",), producers=True,
        least_steps=0, least_inner=32, unit="tf32 on tensor cores", precision="tf32",
        measured=TF32, maps=True, defines=(("TILE_BN", str(columns)),),
    )  # fmt: skip


FORMS: dict[str, Form] = {
    f.arithmetic: f
    for f in (
        float32_form("Float32", ("float32",), measured="2026-11-21-nvidia-h200-float32.json"),
        float32_form("Int32", ("int32", "uint32"), measured="2026-11-21-nvidia-h200-float32.json"),
        # without reallocation of registers
        float32_form("Float32Portable", ("float32",), 192, PORTABLE),
        # int32 by limbs of eight bits on tensor cores
        Form(
            "Limbs32",
            ("int32", "uint32"),
            "i32_matmul.cu",
            "matmul_i32",
            4,
            384,
            3 * (8 * 4 * 2048 + 128),
            128,
            128,
            64,
            8,
            sums="f32_sum.cu",
            unit="limbs of 8 bits on tensor cores",
            modes=("owner", "atomic"),
            least_steps=0,
            least_inner=0,
            measured="2026-11-22-nvidia-h200-candidates.json",
        ),
        # the same limbs, which another kernel writes as tile images first
        tensor_form("Limbs32ImagesSquare", "", "BYTE", 4, 128, "limbs-gpu-2026-11-29.json"),
        # float32 by parts of 16 bits (or tf32) on tensor cores
        tensor_form("Float32Fp16x3", "fp16x3", "HALF", 2),
        tensor_form("Float32Fp16x3Square", "fp16x3", "HALF", 2, 128),
        tensor_form("Float32Bf16x6", "bf16x6", "BFLOAT", 3),
        tensor_form("Float32Tf32x3", "tf32x3", "TF32", 2),
        # float32 rounded to tf32
        tf32_form("Float32Tf32", 256),
        tf32_form("Float32Tf32Square", 128),
        half_form("Float16", 256),
        half_form("Float16Square", 128),
        half_form("BFloat16", 256),
        half_form("BFloat16Square", 128),
        # without instructions of Hopper, in 160 KB of shared memory, 208 KB (two blocks), and 88 KB
        *(
            half_form(name + kind + "Portable", columns, portable=True, step=step, stages=3)
            for name in ("Float16", "BFloat16")
            for kind, columns, step in (("", 256, 64), ("Square", 128, 64), ("Small", 256, 32))
        ),
    )
}


def forms_of(t: ScalarType, options: Any = None, arch: str = "sm_90a") -> tuple[Form, ...]:
    """The engines for an architecture that were measured and may compute a product of a type with
    these `options` (of `matmul`), with tiles of several shapes.

    Tensor cores multiply float32 if their precision is named, or any is permitted
    (`td.precision(fast=True)`).
    """
    asked = None if options is None else options.precision
    free = options is not None and options.fast and asked is None
    found = [f for f in FORMS.values() if t.name in f.types and f.measured and f.runs_on(arch)]
    named = tuple(f for f in found if f.precision and f.precision == asked)
    if named or (asked == "tf32" and t.name == "float32"):  # or the library's
        return named
    return tuple(f for f in found if not f.precision or (free and f.scaled))


def form_of(t: ScalarType, size: tuple[int, int, int] | None = None, processors: int = 1,
            options: Any = None, arch: str = "sm_90a") -> Form | None:  # fmt: skip
    """The engine of a type, or None.  Of several that support the execution in `options` (of
    `matmul`), the one predicted to be fastest for an (m, k) by (k, n) product by the model,
    corrected by measurements."""
    execution = None if options is None else options.execution
    forms = forms_of(t, options, arch)
    if size is not None:  # with a short inner extent, float32 itself is as precise
        forms = tuple(f for f in forms if not f.planes or size[1] >= f.least_inner) or (
            forms_of(t, arch=arch) if forms else ()
        )
    forms = tuple(f for f in forms if f.executes(execution)) or forms
    if size is None or len(forms) < 2:
        return forms[0] if forms else None
    named = options is not None and options.algorithm not in ("auto", "standard")
    free = options is not None and options.fast and not named
    on = machine_of(arch, processors)

    def seconds(form: Form) -> float:
        found = ways(form.arithmetic, size, fast=free or not t.is_inexact,
                     deterministic=options is not None and options.deterministic,
                     levels=options.levels if named else None, on=on)  # fmt: skip
        return min((s for way, s in found.items() if way != "library"), default=inf)

    return min(forms, key=seconds)


# --- tile::Arguments ----------------------------------------------------------------------------


class Term(ctypes.Structure):
    _fields_ = (("row", _I), ("col", _I), ("factor", _U))


class Target(ctypes.Structure):
    _fields_ = (("row", _I), ("col", _I), ("factor", _U), ("first", _I), ("last", _I))


class Product(ctypes.Structure):
    _fields_ = (("na", _I), ("nb", _I), ("nc", _I), ("ranks", _U),
                ("a", Term * TERMS), ("b", Term * TERMS), ("c", Target * TARGETS))  # fmt: skip


class Arguments(ctypes.Structure):
    _fields_ = (
        ("a", _P), ("b", _P), ("c", _P), ("flags", _P),
        ("a_row", _L), ("a_col", _L), ("b_row", _L), ("b_col", _L), ("c_row", _L),
        ("a_rows", _I), ("a_depth", _I), ("b_depth", _I), ("b_cols", _I), ("c_rows", _I),
        ("c_cols", _I), ("qm", _I), ("qn", _I), ("qk", _I), ("alpha", _U), ("beta", _U),
        ("tiles_m", _I), ("tiles_n", _I), ("group", _I), ("products", _I), ("items", _I),
        ("product", Product * PRODUCTS), ("extra", ctypes.c_uint64 * WORDS),
    )  # fmt: skip


class Quadrant(ctypes.Structure):
    """One block of an operand for `quadrant_sum`."""

    _fields_ = (("p", _P), ("pitch", _L), ("rows", _I), ("cols", _I))


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """The products of an algorithm in one launch: `split` blocks of (m, k, n), entries as bytes."""

    split: tuple[int, int, int]
    count: int
    terms: int
    data: bytes


def normalised(instance: Instance) -> Instance:
    """The same product with coefficient 1 on the first term of each operand: signs move into the
    other terms and into the coefficients of C.

    >>> print(normalised(Instance(((3, 1),), ((0, -1), (2, -1)), ((0, 1),))))
    M = (A3)(B0 + B2); C0 -= M
    """
    sign: float = 1

    def leading(terms: Terms) -> Terms:
        nonlocal sign
        first = next((t for t in terms if t[1] == 1), None) or next(t for t in terms if t[1] == -1)
        sign *= first[1]
        rest = tuple((p, c * first[1]) for p, c in terms if p != first[0])
        return ((first[0], 1), *rest)

    a, b = leading(instance.a), leading(instance.b)
    return Instance(a, b, tuple((p, c * sign) for p, c in instance.c))


Launches = tuple[tuple[int, ...], ...]
"""The indices of the products of each launch."""


Updated = tuple[int, int, float]
"""A block of C that a product updates: its row and column, and the coefficient."""


def marked(products: Sequence[Sequence[Updated]]) -> list[list[tuple[int, int, float, bool, bool]]]:
    """The blocks of C that each product updates, and whether it is the first and the last product
    to update the block."""
    firsts: dict[tuple[int, int], int] = {}
    lasts: dict[tuple[int, int], int] = {}
    for number, blocks in enumerate(products):
        for i, j, _ in blocks:
            firsts.setdefault((i, j), number)
            lasts[i, j] = number
    return [
        [(i, j, c, firsts[i, j] == number, lasts[i, j] == number) for i, j, c in blocks]
        for number, blocks in enumerate(products)
    ]


def updated(made: Instance, columns: int) -> list[Updated]:
    """The blocks of C that a product updates; C has `columns` columns of blocks."""
    return [(p // columns, p % columns, c) for p, c in made.c]


def _tables(form: Form, split: tuple[int, int, int],
            launches: Sequence[Sequence[tuple[Instance, Sequence[Updated]]]]
            ) -> tuple[Table, ...]:  # fmt: skip
    """A table for each launch, which lists its products; launches run in this order."""
    blocks = iter(marked([x for launch in launches for _, x in launch]))
    found = []
    for launch in launches:
        entries = (Product * PRODUCTS)()
        ranks: dict[tuple[int, int], int] = {}
        for entry, (made, _) in zip(entries, launch, strict=False):
            _fill(form, entry, made, split, ranks, next(blocks))
        most = max(len(t) for made, _ in launch for t in (made.a, made.b))
        found.append(Table(split, len(launch), most, bytes(entries)))
    return tuple(found)


@lru_cache(maxsize=64)
def tables(form: Form, algorithm: BilinearAlgorithm, launches: Launches) -> tuple[Table, ...]:
    """The tables of an algorithm for these launches."""
    made = [(i, updated(i, algorithm.n)) for i in map(normalised, instances(algorithm))]
    split = algorithm.m, algorithm.k, algorithm.n
    return _tables(form, split, [[made[r] for r in launch] for launch in launches])


def _fill(form: Form, entry: Any, made: Instance, split: tuple[int, int, int],
          ranks: dict[tuple[int, int], int],
          targets: list[tuple[int, int, float, bool, bool]]) -> None:  # fmt: skip
    """Fill in one product of a launch; `ranks`: the number of earlier products per block of C."""
    entry.na, entry.nb, entry.nc = len(made.a), len(made.b), len(targets)
    for to, terms, cols in ((entry.a, made.a, split[1]), (entry.b, made.b, split[2])):
        for d, (p, c) in zip(to, terms, strict=False):
            d.row, d.col, d.factor = p // cols, p % cols, form.word(c)
    for k, (d, (row, col, c, first, last)) in enumerate(zip(entry.c, targets, strict=False)):
        d.row, d.col, d.factor, d.first, d.last = row, col, form.word(c), first, last
        rank = ranks.get((row, col), 0)
        entry.ranks |= rank << 8 * k
        ranks[row, col] = rank + 1


@lru_cache(maxsize=16)
def outer_tables(form: Form, outer: BilinearAlgorithm, inner: BilinearAlgorithm,
                 launches: Launches) -> tuple[tuple[Table, ...], ...]:  # fmt: skip
    """For each product of the outer level, the launches of the inner level, on the grid of C's
    blocks at both levels."""
    outers, inners = ([normalised(i) for i in instances(x)] for x in (outer, inner))

    def touched(r: int, s: int) -> list[Updated]:
        return [
            (i * inner.m + k, j * inner.n + m, c * d)
            for i, j, c in updated(outers[r], outer.n) for k, m, d in updated(inners[s], inner.n)
        ]  # fmt: skip

    found = _tables(form, (inner.m, inner.k, inner.n), [
        [(inners[s], touched(r, s)) for s in launch]
        for r in range(len(outers)) for launch in launches
    ])  # fmt: skip
    count = len(launches)
    return tuple(found[k : k + count] for k in range(0, len(found), count))


def in_order(algorithm: BilinearAlgorithm) -> tuple[Instance, ...]:
    """The products of a recursion in the order of their launches: those with few terms first."""
    made = map(normalised, instances(algorithm))
    return tuple(sorted(made, key=lambda i: len(i.a) + len(i.b)))


@lru_cache(maxsize=16)
def leaf_tables(form: Form, algorithm: BilinearAlgorithm, levels: int) -> tuple[Table, ...]:
    """For each product of `levels` levels, `in_order` at each, the standard product of its
    operands, which is added to blocks of C on the grid of all levels."""
    made = in_order(algorithm)
    targets: list[list[Updated]] = [[(0, 0, 1)]]
    for _ in range(levels):
        targets = [
            [(i * algorithm.m + k, j * algorithm.n + m, c * d)
             for i, j, c in above for k, m, d in updated(instance, algorithm.n)]
            for above in targets for instance in made
        ]  # fmt: skip
    plain = Instance(((0, 1),), ((0, 1),), ())
    return _tables(form, (1, 1, 1), [[(plain, blocks)] for blocks in targets])


# --- source -------------------------------------------------------------------------------------

#: The slots for fused code: macros of the engines' files, and the structs that they name.
SLOTS = {"TILE_A": "ProducerA", "TILE_B": "ProducerB", "TILE_EPILOGUE": "Epilogue"}


@dataclass(frozen=True)
class Code:
    """One compiled variant of an engine.

    Layouts: the index of the tile along which memory is contiguous, "K", "R" (rows of A, columns of
    B) or "S" (neither); `vector`: sixteen-byte loads; `fused`: source with structs of `SLOTS`;
    `file`: of the kernel, if it is not the form's; `guarded`: it computes only if a flag is set;
    `flipped`: the rows of a tile are columns of C.
    """

    left: str
    right: str
    vector: bool
    mode: str
    terms: int
    arithmetic: str
    fused: str | None = None
    file: str = ""
    guarded: bool = False
    flipped: bool = False

    @property
    def defines(self) -> dict[str, str]:
        """The macros of the source."""
        layouts = {"K": "K_CONTIGUOUS", "R": "R_CONTIGUOUS", "S": "STRIDED"}
        form = FORMS[self.arithmetic]
        defines = {
            "TILE_LAYOUT_A": layouts[self.left], "TILE_LAYOUT_B": layouts[self.right],
            "TILE_VECTOR": "true" if self.vector else "false", "TILE_MODE": self.mode.upper(),
            "TILE_TERMS": str(self.terms), "TILE_ARITHMETIC": f"tile::{self.arithmetic}",
        }  # fmt: skip
        defines |= dict(form.defines)
        if self.fused is not None and form.itemsize == 2:
            defines["TILE_VALUE"] = form.types[0]
        if self.guarded:
            defines["TILE_GUARDED"] = "1"
        if self.flipped:
            defines["TILE_FLIPPED"] = "1"
        fused = self.fused or ""
        return defines | {k: name for k, name in SLOTS.items() if f"struct {name} {{" in fused}

    def source(self) -> str:
        """CUDA C++ in a single file."""
        head = "".join(f"#define {k} {v}\n" for k, v in self.defines.items())
        source = text(self.file or FORMS[self.arithmetic].file)
        if self.fused is not None:
            marker = 'extern "C" __global__'
            source = source.replace(marker, f"{self.fused}\n{marker}", 1)
        return head + source


@lru_cache(maxsize=8)
def text(name: str) -> str:
    """A file of skeletons/products/engines with its includes expanded."""
    lines = []
    for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith('#include "'):
            lines.append(text(line.split('"')[1]))
        elif line.strip() != "#pragma once":
            lines.append(line)
    return "\n".join(lines) + "\n"


def sum_source(form: Form) -> str:
    """The kernel that adds two blocks of an operand; integers wrap."""
    assert form.sums is not None
    exact = (
        "#define SUM(f, y, x) __int_as_float(__float_as_int(x) + (int)(f) * __float_as_int(y))\n"
    )
    return (exact if "int32" in form.types else "") + text(form.sums)
