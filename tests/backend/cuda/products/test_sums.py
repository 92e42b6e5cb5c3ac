"""Sums of blocks: the kernel's text compiled for the host, launched as the backend launches it."""

from __future__ import annotations

import ctypes
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from tests.backend.cuda.products.tiles import COMPILER
from treadle.backend.cuda.products import sums
from treadle.skeletons.products import LADERMAN, STRASSEN, WINOGRAD
from treadle.skeletons.products.executions import execute, plan
from treadle.skeletons.products.kit import Kit

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
driver = pytest.importorskip("treadle.backend.cuda.device.driver", reason="CuPy is not installed")

_HOST = """
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(n)
#define __grid_constant__
struct Dim {{ unsigned x, y; }};
static Dim blockIdx, threadIdx, gridDim;
{}
extern "C" void run(const Arguments *g, unsigned x, unsigned y) {{
    gridDim = {{x, y}};
    for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < 256; threadIdx.x++) sums(*g);
}}
"""


class Host:
    """A device whose kernels are the host's functions; `vector`: of each launch."""

    arch, multiprocessors, library = "sm_90a", 3, np

    def __init__(self, folder):
        self.folder, self.vector, self.made = folder, [], {}

    def load(self, source, threads):
        assert threads == 256
        at = len(self.made)
        text, library = self.folder / f"{at}.cpp", self.folder / f"{at}.so"
        text.write_text(_HOST.format(source), encoding="utf-8")
        command = [COMPILER, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-fsanitize=alignment",
                   "-fno-sanitize-recover", str(text), "-o", str(library)]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        self.made[at] = ctypes.CDLL(str(library)).run
        return SimpleNamespace(handle=at)

    def launch(self, handle, x, y, z, threads, ty, tz, shared, stream, arguments, extra):
        assert (z, threads, ty, tz, shared, extra) == (1, 256, 1, 1, 0, 0)
        address = ctypes.c_void_p.from_address(arguments).value
        self.made[handle](ctypes.c_void_p(address), x, y)


@pytest.fixture
def adder(tmp_path, monkeypatch):
    if COMPILER is None:
        pytest.skip("there is no g++")
    device = Host(tmp_path)
    monkeypatch.setattr(sums, "compile_text", lambda source, name, arch: source)
    monkeypatch.setattr(driver, "launchKernel", device.launch)
    monkeypatch.setattr(driver, "stream_here", lambda: 0)
    return sums.Adder(device)


def data(name, *shape):
    t = np.dtype(name)
    found = np.random.default_rng(sum(shape)).integers(0 if t.kind == "u" else -9, 9, shape)
    return (found * (1 - 2j) if t.kind == "c" else found).astype(t)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ("float64", "float32", "int32", "uint8", "complex64"))
def test_sums_of_blocks(adder, name):
    """Blocks of one matrix into blocks of it, of many layouts and extents; what is written is read
    before, and nothing beside it is touched."""
    table = (((1, 0), (-1, 2)), ((-1, 1), (2, 3), (1, 0)), ((-1, 3),))
    for rows, cols in ((1, 1), (4, 8), (5, 7), (3, 600), (70, 2)):
        for layout in ("dense", "columns", "a step", "odd"):
            whole = data(name, 2 * rows + 3, 2 * (2 * cols + 3))
            if layout == "columns":
                whole = np.asfortranarray(whole)
            at = {"a step": (1, 2), "odd": (1, 1)}.get(layout, (0, 1))
            view = whole[:, at[0] :: at[1]]
            x = [view[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
                 for i in range(2) for j in range(2)]  # fmt: skip
            want = whole.copy(order="K")
            seen = want[:, at[0] :: at[1]]
            y = [seen[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
                 for i in range(2) for j in range(2)]  # fmt: skip
            new = [sum(np.array(c).astype(name) * y[k] for c, k in terms) for terms in table]
            for to, value in zip((1, 3, 0), new, strict=True):
                y[to][...] = value
            adder([(x[to], [(c, x[k]) for c, k in terms])
                   for to, terms in zip((1, 3, 0), table, strict=True)])  # fmt: skip
            assert np.array_equal(whole, want), (rows, cols, layout)
    assert len(adder.device.made) == 1


def test_what_is_shared_and_what_cancels(adder):
    x, y, z = (data("float64", 6, 10) + k for k in range(3))
    want = x + 2 * y, -1 * z + 2 * y, 0 * x
    out = np.empty((3, 6, 10))
    adder([(out[0], [(1, x)]), (out[1], [(-1, z)])], [(2, y)])
    adder([(out[2], [(1, x), (-1, x)])])
    assert all(np.array_equal(got, w) for got, w in zip(out, want, strict=True))


@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithm", (STRASSEN, WINOGRAD, LADERMAN), ids=lambda a: a.name)
def test_levels_of_algorithms(adder, algorithm):
    """Every sum of a fast product through the kernel; kits that add and that do not."""

    class Both(Kit):
        def __init__(self, adds):
            super().__init__(np)
            self.adds, self.passes = adds, 0

        def sums(self, made, shared=()):
            self.passes += 1
            adder(made, shared)

    for adds in (False, True):
        for turned in (False, True):
            size = 2 * algorithm.m * 5, 2 * algorithm.k * 4 + 1, 2 * algorithm.n * 3
            a, b = data("float64", *size[:2]), data("float64", *size[1:])
            a = np.asfortranarray(a) if turned else a
            made, kit = plan(algorithm, "batched", 1, size, 1, adds), Both(adds)
            out, room = np.full((size[0], size[2]), np.nan), np.full(made.workspace, np.nan)
            execute(kit, made, a, b, out, room)
            assert np.array_equal(out, a @ b)
            assert kit.passes == 3 + (not adds)  # of A, of B, of C; and the odd column's band
