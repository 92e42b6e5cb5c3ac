"""The tile engines of skeletons/products on a CPU: compiled by g++ against emulation/.

What that emulation finds is said in emulation/grid.h.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from treadle.backend.cuda.products import form as engine_form
from treadle.backend.cuda.products.engine import Engine, _extents, _prepared
from treadle.backend.cuda.products.form import FORMS, HOPPER, Arguments, Code, Form, tables
from treadle.skeletons.products import STANDARD, BilinearAlgorithm

HERE = Path(__file__).parent / "emulation"
COMPILER = shutil.which("g++")
_ENTRY = """
static const GIVEN *given;
extern "C" const char *run(const GIVEN *g, int across, int down, int resident, int shared,
                           unsigned seed, int prefer, int ranges, const char **begin,
                           const u64 *bytes, const int *writable) {
    given = g;
    grid::allowed.clear();
    for (int i = 0; i < ranges; i++)
        grid::allowed.push_back({begin[i], begin[i] + bytes[i], writable[i] != 0});
    return grid::launch([] { KERNEL(*given); }, across, down, resident, shared, BLOCK, seed,
                        prefer);
}
extern "C" u64 size() { return sizeof(GIVEN); }
extern "C" int threads() { return BLOCK; }
"""
#: Of files whose kernels are not their form's: name, arguments and threads.
_KERNELS = {
    "tensor_maxima.cu": ("operand_maxima", "tile::Operands", "tile::MAXIMA_THREADS"),
    "tensor_images.cu": ("operand_images", "tile::Operands", "tile::IMAGE_THREADS"),
    "transposed.cu": ("transposed_words", "tile::Arguments", "tile::THREADS"),
}
#: Memory that kernels access without a function of *_ptx.cuh, as types that the emulation watches.
_WATCHED = {
    "u32 (&found)[8][32]": "Watched &found", "__shared__ u32 found[8][32];": "Watched found;",
    "u32 *maxima;": "Global<u32> maxima;", "int *shifts;": "Global<int> shifts;",
    "u32 *small;": "Global<u32> small;", "u32 *flag": "Global<u32> flag",
}  # fmt: skip
#: Writable and read-only memory of a launch: first address, the one after the last.
Spans = Sequence[tuple[int, int, bool]]


class Wrong(Exception):
    """What the emulation found."""


@lru_cache(maxsize=64)
def library(source: str) -> ctypes.CDLL:
    """Kernel text (without its _ptx.cuh files) as a library with the function `run`."""
    more = "" if "matmul_i32" in source else '#include "float32.h"\n'
    tensor = ("TILE_PLANES", "matmul_half", "matmul_tf32")
    more += '#include "tensor.h"\n' if any(name in source for name in tensor) else ""
    whole = f'#include "instructions.h"\n{more}{source}\n{_ENTRY}'
    key = hashlib.sha256(whole.encode())
    for header in sorted(HERE.glob("*.h")):
        key.update(header.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"treadle-emulation-{key.hexdigest()[:24]}"
    made = folder / "kernel.so"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = folder / "kernel.cpp"
        text.write_text(whole, encoding="utf-8")
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as new:
            subprocess.run(
                [str(COMPILER), "-std=c++17", "-O1", "-w", "-shared", "-fPIC",
                 "-U_FORTIFY_SOURCE", "-fno-strict-aliasing", f"-I{HERE}", str(text), "-o",
                 new.name],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
        Path(new.name).rename(made)
    loaded = ctypes.CDLL(str(made))
    loaded.run.restype = ctypes.c_char_p
    loaded.size.restype = ctypes.c_uint64
    return loaded


def _text(name: str) -> str:
    """A file of skeletons/products/engines with what it includes, but for the instructions."""
    lines = []
    for line in (engine_form._FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith('#include "'):
            inner = line.split('"')[1]
            if not inner.endswith("_ptx.cuh"):
                lines.append(_text(inner))
        elif line.strip() != "#pragma once":
            lines.append(line)
    return "\n".join(lines) + "\n"


def source(code: Code, change: tuple[str, str] | None = None) -> str:
    """The text of a kernel; `change`: a mistake to make in it."""
    form = FORMS[code.arithmetic]
    file = code.file or form.file
    head = code.source().partition(engine_form.text(file)[:40])[0]
    marker = 'extern "C" __global__'
    text = _text(file).replace(marker, f"{code.fused or ''}\n{marker}", 1)
    if change is not None:
        assert text.count(change[0]) == 1, (change[0], text.count(change[0]))
        text = text.replace(*change)
    if form.planes:
        for plain, watched in _WATCHED.items():
            text = text.replace(plain, watched)
    kernel = _KERNELS.get(code.file, (form.entry, "tile::Arguments", "tile::THREADS"))
    macros = zip(("KERNEL", "GIVEN", "BLOCK"), kernel, strict=True)
    head += f"#define TILE_HOPPER {int(form.needs == HOPPER)}\n"
    return f"{head}{text}\n" + "".join(f"#define {name} {value}\n" for name, value in macros)


def run(code: Code, arguments: Any, blocks: tuple[int, int], spans: Spans, *, threads: int,
        shared: int, resident: int = 0, seed: int = 0, prefer: int = 0,
        change: tuple[str, str] | None = None) -> None:  # fmt: skip
    """A launch; at most `resident` blocks run at a time, if that is not 0."""
    loaded = library(source(code, change))
    assert loaded.size() == ctypes.sizeof(arguments)
    assert loaded.threads() == threads
    n = len(spans)
    found = loaded.run(
        ctypes.byref(arguments), *blocks, resident or blocks[0] * blocks[1], shared, seed, prefer,
        n, (ctypes.c_void_p * n)(*(low for low, _, _ in spans)),
        (ctypes.c_uint64 * n)(*(high - low for low, high, _ in spans)),
        (ctypes.c_int * n)(*(int(writable) for *_, writable in spans)),
    )  # fmt: skip
    if found is not None:
        raise Wrong(found.decode())


def layout(x: Any) -> tuple[int, ...]:
    """Extents, and strides in elements."""
    return (*x.shape, *(s // x.itemsize for s in x.strides))


def spans_of(arrays: Sequence[tuple[Any, bool]]) -> Spans:
    """The memory of arrays; whether they are written."""
    return [(*np.lib.array_utils.byte_bounds(x), writable) for x, writable in arrays]


def multiply(out: Any, a: Any, b: Any, form: Form, mode: str = "owner",
             algorithm: BilinearAlgorithm = STANDARD, *, processors: int = 3, alpha: float = 1,
             beta: float = 0, seed: int = 0, prefer: int = 0, fused: str = "",
             words: Sequence[int] = (), reads: Sequence[Any] = (),
             change: tuple[str, str] | None = None) -> Code:  # fmt: skip
    """`out = alpha a b + beta out`; `prefer`: 1 producers run first, 2 consumers do.

    `fused`: structs of `SLOTS`, the `words` and arrays that they read.
    """
    sizes = (a.shape[0], b.shape[1], a.shape[1])
    size = sizes if algorithm is STANDARD else _extents(*sizes, algorithm, 1)
    table = tables(form, algorithm, (tuple(range(algorithm.products)),))[0]
    aligned = (a.ctypes.data | b.ctypes.data) % 16 == 0
    code, template, blocks = _prepared(layout(out), layout(a), layout(b), aligned, mode, size,
                                       table, form, fused or None, processors)  # fmt: skip
    g: Any = Arguments.from_buffer_copy(template)
    if mode == "atomic":
        out *= out.dtype.type(beta)
        beta = 0
    g.alpha, g.beta = form.word(alpha), form.word(beta)
    flags = np.zeros(max(processors + 2, 16 * g.tiles_m * g.tiles_n), np.uint32)
    g.a, g.b, g.c, g.flags = a.ctypes.data, b.ctypes.data, out.ctypes.data, flags.ctypes.data
    for k, word in enumerate(words):
        g.extra[k] = word
    arrays: Sequence[tuple[Any, bool]] = (
        (a, False), (b, False), (out, True), (flags, True), *((x, False) for x in reads)
    )  # fmt: skip
    run(code, g, (blocks, 1), spans_of(arrays), threads=form.threads, shared=form.shared_bytes,
        seed=seed, prefer=prefer, change=change)  # fmt: skip
    assert mode == "persistent" or not flags.any()
    return code


class TensorCores(Engine):
    """The tensor-core engine and its host side, with emulated launches.

    `reads`: arrays that launches may read; `out` is the one that they write.  `scales`: alpha and
    beta, which the host side leaves 1 and 0.  `change`: the file of a kernel, and a mistake in it.
    """

    def __init__(self, out: Any, reads: Sequence[Any], *, processors: int = 3, seed: int = 0,
                 prefer: int = 0, scales: tuple[float, float] = (1, 0),
                 change: tuple[str, tuple[str, str]] | None = None) -> None:  # fmt: skip
        super().__init__(SimpleNamespace(multiprocessors=processors, arch="sm_90a",
                                         empty=self._empty))  # fmt: skip
        self.arrays = [(out, True), *((x, False) for x in reads)]
        self.seed, self.prefer, self.scales, self.change = seed, prefer, scales, change
        self.memory: list[Any] = []
        self.ran: list[str] = []

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        room = np.full(int(np.prod(shape)) * dtype.itemsize + 16, 0xFF, np.uint8)
        first = -room.ctypes.data % 16
        self.memory.append(room[first : first + room.size - 16].view(dtype).reshape(shape))
        return self.memory[-1]

    def clear(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)

    def load(self, what: Any, name: str, threads: int, shared: int) -> Any:
        return what, name, threads, shared

    def run(self, loaded: Any, arguments: Any, blocks: tuple[int, int]) -> None:
        code, name, threads, shared = loaded
        (g,), form = arguments, FORMS[code.arithmetic]
        self.ran.append(name)
        spans, prepares = list(spans_of(self.arrays)), name in ("operand_maxima", "operand_images")
        if prepares:
            for x, rows in ((g.a, form.rows), (g.b, form.columns)):
                images = name == "operand_images"
                each = g.products * x.tiles * rows
                spans += _span(x.maxima, 4 * x.blocks * x.tiles * rows, not images)
                spans += _span(x.images, each * x.stages * form.planes * 128, images)
                spans += _span(x.shifts, 4 * each, images) + _span(x.small, 4 * each, images)
            spans += _span(g.flag, 4, True)
            if name == "operand_maxima":
                shared = 1024  # not dynamic
        elif form.planes:
            g.alpha, g.beta = map(form.word, self.scales)
            for first, tiles, rows in ((g.a, g.tiles_m, form.rows), (g.b, g.tiles_n, form.columns)):
                each = g.products * tiles * rows
                spans += _span(first, each * g.stages * form.planes * 128, False)
            spans += _span(g.arrived, 4, True)
            spans += _span(g.a_shift, 4 * g.products * g.tiles_m * form.rows, False)
            spans += _span(g.b_shift, 4 * g.products * g.tiles_n * form.columns, False)
        else:
            spans += _span(g.flags, 4, False)
        mine = [np.lib.array_utils.byte_bounds(x) for x in self.memory]
        for low, high, _ in spans[len(self.arrays) :]:
            assert any(first <= low and high <= last for first, last in mine)
        change = self.change[1] if self.change and self.change[0] == code.file else None
        run(code, g, blocks, spans, threads=threads, shared=shared, resident=4 * prepares,
            seed=self.seed, prefer=self.prefer, change=change)  # fmt: skip


def _span(first: int, size: int, writable: bool) -> list[tuple[int, int, bool]]:
    return [(first, first + size, writable)]
