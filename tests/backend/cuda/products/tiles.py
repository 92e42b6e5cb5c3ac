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
from typing import Any

import numpy as np

from treadle.backend.cuda.products import form as engine_form
from treadle.backend.cuda.products.engine import _extents, _prepared
from treadle.backend.cuda.products.form import FORMS, Arguments, Code, Form, tables
from treadle.skeletons.products import STANDARD, BilinearAlgorithm

HERE = Path(__file__).parent / "emulation"
COMPILER = shutil.which("g++")
_ENTRY = """
static const tile::Arguments *given;
extern "C" const char *run(const tile::Arguments *g, int blocks, unsigned seed, int prefer,
                           int ranges, const char **begin, const u64 *bytes,
                           const int *writable) {
    given = g;
    grid::allowed.clear();
    for (int i = 0; i < ranges; i++)
        grid::allowed.push_back({begin[i], begin[i] + bytes[i], writable[i] != 0});
    return grid::launch([] { KERNEL(*given); }, blocks, tile::THREADS, seed, prefer);
}
extern "C" u64 size() { return sizeof(tile::Arguments); }
extern "C" int shared_bytes() { return tile::SHARED_BYTES; }
"""


class Wrong(Exception):
    """What the emulation found."""


@lru_cache(maxsize=64)
def library(source: str) -> ctypes.CDLL:
    """Kernel text (without its _ptx.cuh files) as a library with the function `run`."""
    more = '#include "float32.h"\n' if "matmul_f32" in source else ""
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
    head = code.source().partition(engine_form.text(form.file)[:40])[0]
    marker = 'extern "C" __global__'
    text = _text(form.file).replace(marker, f"{code.fused or ''}\n{marker}", 1)
    if change is not None:
        assert text.count(change[0]) == 1, (change[0], text.count(change[0]))
        text = text.replace(*change)
    return f"{head}{text}\n#define KERNEL {form.entry}\n"


def layout(x: Any) -> tuple[int, ...]:
    """Extents, and strides in elements."""
    return (*x.shape, *(s // x.itemsize for s in x.strides))


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
    loaded = library(source(code, change))
    assert loaded.size() == ctypes.sizeof(g)
    assert loaded.shared_bytes() == form.shared_bytes
    arrays: Sequence[tuple[Any, bool]] = (
        (a, False), (b, False), (out, True), (flags, True), *((x, False) for x in reads)
    )  # fmt: skip
    spans = [np.lib.array_utils.byte_bounds(x) for x, _ in arrays]
    n = len(arrays)
    found = loaded.run(
        ctypes.byref(g), blocks, seed, prefer, n,
        (ctypes.c_void_p * n)(*(low for low, _ in spans)),
        (ctypes.c_uint64 * n)(*(high - low for low, high in spans)),
        (ctypes.c_int * n)(*(int(w) for _, w in arrays)),
    )  # fmt: skip
    if found is not None:
        raise Wrong(found.decode())
    assert mode == "persistent" or not flags.any()
    return code
