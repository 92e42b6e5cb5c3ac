"""How products reach cuBLAS and the tile engine, without either: what they are given is checked."""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda import cublas, engine, engine_step

NAMES = {number: name for name, number in cublas._TYPES.items() if name != "bfloat16"}


class Device(np.ndarray):
    """An array with an address where CuPy has it."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)


def on_device(x: np.ndarray) -> Device:
    return x.view(Device)


def _columns(pointer: int, kind: int, lead: int, rows: int, cols: int) -> np.ndarray:
    """A column-major matrix in memory."""
    t = np.dtype(NAMES[kind])
    raw = (ctypes.c_char * (lead * max(cols - 1, 0) * t.itemsize + rows * t.itemsize)).from_address(
        pointer
    )
    return np.ndarray((rows, cols), t, raw, strides=(t.itemsize, lead * t.itemsize))


def gemm_ex(handle: Any, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, ka: int,
            lda: int, b: int, kb: int, ldb: int, beta: int, c: int, kc: int, ldc: int,
            compute: int, algo: int) -> None:  # fmt: skip
    """cublasGemmEx, as its manual says."""
    assert lda >= (k if ta else m) and ldb >= (n if tb else k) and ldc >= m
    left = _columns(a, ka, lda, k, m).T if ta else _columns(a, ka, lda, m, k)
    right = _columns(b, kb, ldb, n, k).T if tb else _columns(b, kb, ldb, k, n)
    out = _columns(c, kc, ldc, m, n)
    scale = np.float32 if NAMES[ka] in ("float16", "float32") else np.dtype(NAMES[ka]).type
    old = np.ndarray((), scale, (ctypes.c_char * 16).from_address(beta))[()]
    wide = np.float64 if scale == np.float32 else scale
    out[...] = left.astype(wide) @ right.astype(wide) + (out * old if old else 0)


def gemm_strided(handle: Any, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int,
                 ka: int, lda: int, sa: int, b: int, kb: int, ldb: int, sb: int, beta: int, c: int,
                 kc: int, ldc: int, sc: int, count: int, compute: int, algo: int
                 ) -> None:  # fmt: skip
    sizes = [np.dtype(NAMES[kind]).itemsize for kind in (ka, kb, kc)]
    for t in range(count):
        gemm_ex(handle, ta, tb, m, n, k, alpha, a + t * sa * sizes[0], ka, lda,
                b + t * sb * sizes[1], kb, ldb, beta, c + t * sc * sizes[2], kc, ldc, compute,
                algo)  # fmt: skip


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "cupy": types.ModuleType("cupy"), "cupy.cuda": types.ModuleType("cupy.cuda"),
        "cupy_backends.cuda.libs": types.ModuleType("cupy_backends.cuda.libs"),
    }  # fmt: skip
    made["cupy"].ascontiguousarray = lambda x: np.ascontiguousarray(x).view(Device)  # type: ignore[attr-defined]
    made["cupy.cuda"].device = types.SimpleNamespace(get_cublas_handle=lambda: 0)  # type: ignore[attr-defined]
    made["cupy_backends.cuda.libs"].cublas = types.SimpleNamespace(  # type: ignore[attr-defined]
        gemmEx=gemm_ex, gemmStridedBatchedEx=gemm_strided
    )
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "every other": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "part": lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 3)])[..., : x.shape[-1]],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("m", "k", "n"), [(4, 5, 6), (1, 5, 6), (4, 1, 6), (4, 5, 1), (1, 1, 1),
                                           (4, 0, 6), (0, 5, 6)])  # fmt: skip
def test_every_layout(dtype: str, batch: tuple[int, ...], m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 9, (*batch, *shape)).astype(dtype) for shape in ((m, k), (k, n)))
    for left in LAYOUTS.values():
        for right in LAYOUTS.values():
            out = np.full((*batch, m, n), 7, dtype)
            cublas.gemm(on_device(out), on_device(left(a)), on_device(right(b)))
            assert np.array_equal(out, a @ b)
            cublas.gemm(on_device(out), on_device(left(a)), on_device(right(b)), add=True)
            assert np.array_equal(out, 2 * (a @ b))


def test_broadcast_operands() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (4, 5)).astype("f4"), rng.integers(0, 9, (3, 5, 6)).astype("f4")
    out = np.empty((3, 4, 6), "f4")
    spread = np.broadcast_to(a, (3, 4, 5))
    cublas.gemm(on_device(out), on_device(spread), on_device(b))
    assert np.array_equal(out, a @ b)


# --- the tile engine -----------------------------------------------------------------------------


def matrix(x: np.ndarray) -> engine.Matrix:
    down, across = (s // 4 for s in x.strides)
    return engine.Matrix(x.ctypes.data, *x.shape, down, across)


class Tiles(engine.Engine):
    """The engine with NumPy for a GPU: it does what the arguments of a launch say."""

    def __init__(self) -> None:
        super().__init__(types.SimpleNamespace(
            multiprocessors=132, arch="sm_90a", empty=lambda s, t: on_device(np.full(s, 9, t))
        ))  # fmt: skip
        self.launched: list[Any] = []

    def _clear(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)

    def _load(self, what: Any, name: str, threads: int, shared: int) -> Any:
        self.launched.append(what)
        return what

    def _run(self, loaded: Any, arguments: Any, blocks: tuple[int, int]) -> None:
        assert blocks[0] >= 1
        if isinstance(loaded, tuple):
            _sum(np.int32 if loaded[1] == "Int32" else np.float32, *arguments)
        else:
            _multiply(loaded, arguments[0])


def _matrix(pointer: int, t: Any, rows: int, cols: int, down: int, across: int) -> np.ndarray:
    size = np.dtype(t).itemsize
    reach = (max(rows - 1, 0) * down + max(cols - 1, 0) * across + 1) * size
    raw = (ctypes.c_char * reach).from_address(pointer)
    return np.ndarray((rows, cols), t, raw, strides=(down * size, across * size))


def _number(word: int, t: Any) -> Any:
    return np.array([word], np.uint32).view(t)[0]


def _multiply(code: engine.Code, g: Any) -> None:
    t = np.float32 if code.arithmetic == "Float32" else np.int32
    a = _matrix(g.a, t, g.a_rows, g.a_depth, g.a_row, g.a_col)
    b = _matrix(g.b, t, g.b_depth, g.b_cols, g.b_row, g.b_col)
    c = _matrix(g.c, t, g.c_rows, g.c_cols, g.c_row, 1)
    if code.vector:
        assert g.a % 16 == g.b % 16 == 0
        assert (g.a_row if code.left == "K" else g.a_col) % 4 == 0
        assert (g.b_row if code.right == "R" else g.b_col) % 4 == 0
    assert {"K": g.a_col, "R": g.a_row, "S": 1}[code.left] == 1
    assert {"R": g.b_col, "K": g.b_row, "S": 1}[code.right] == 1

    def summed(x: np.ndarray, terms: Any, count: int, rows: int, cols: int) -> np.ndarray:
        total = np.zeros((rows, cols), t)
        for term in list(terms)[:count]:
            part = x[term.row * rows : (term.row + 1) * rows, term.col * cols :][:, :cols]
            total[: part.shape[0], : part.shape[1]] += part * _number(term.factor, t)
        return total

    for w in list(g.product)[: g.products]:
        found = summed(a, w.a, w.na, g.qm, g.qk) @ summed(b, w.b, w.nb, g.qk, g.qn)
        for d in list(w.c)[: w.nc]:
            place = c[d.row * g.qm : (d.row + 1) * g.qm, d.col * g.qn :][:, : g.qn]
            value = (found * _number(d.factor, t))[: place.shape[0], : place.shape[1]]
            first = d.first and code.mode != "atomic"
            place[...] = value if first else place + value


def _sum(t: Any, out: Any, pitch: Any, rows: Any, x: Any, y: Any, f: Any, vector: Any) -> None:
    made = _matrix(out.value, t, rows.value, pitch.value, pitch.value, 1)
    made[...] = 0
    for q, factor in ((x, 1), (y, f.value)):
        part = _matrix(q.p, t, q.rows, q.cols, q.pitch, 1)
        made[: q.rows, : q.cols] += t(factor) * part


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (70, 65, 131), (5, 9, 3), (40, 100, 33)])
@pytest.mark.parametrize("layout", [*LAYOUTS][:4])
def test_the_engine_is_told_the_product(dtype: str, m: int, k: int, n: int, layout: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
    kept = [LAYOUTS[layout](x) for x in (a, b)]
    left, right = map(matrix, kept)
    kind = "Float32" if dtype == "f4" else "Int32"
    tiles = Tiles()
    for mode in ("owner", "split"):
        out = np.full((m, n), 7, dtype)
        tiles.standard(matrix(out), left, right, mode, kind)
        assert np.array_equal(out, a @ b)
    for mode in ("owner", "atomic", "sequential"):
        for levels in (1, 2):
            out = np.full((m, n), 7, dtype)
            if levels == 2:
                kept = [np.ascontiguousarray(x) for x in (a, b)]
                left, right = map(matrix, kept)
            tiles.strassen(matrix(out), left, right, mode, kind, levels)
            assert np.array_equal(out, a @ b), (mode, levels)
    codes = [c for c in tiles.launched if isinstance(c, engine.Code)]
    assert {c.terms for c in codes} == {1, 2} and {c.arithmetic for c in codes} == {kind}


def test_how_a_product_is_dealt_out() -> None:
    tiles = Tiles()
    assert tiles.standard_mode(512, 512, 512) is None  # the library
    assert tiles.standard_mode(3072, 3072, 3072) == "split"
    assert tiles.standard_mode(12288, 12288, 12288) == "owner"
    assert tiles.standard_mode(8192, 8192, 64) is None
    assert tiles.standard_mode(1536, 1536, 1536, fused=True) is None
    assert tiles.standard_mode(4096, 4096, 4096, fused=True) == "owner"


def test_arguments_are_laid_out_as_the_engine_reads_them() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    from treadle.backend.cuda.compile import compile_text

    code = engine.Code("K", "R", True, "owner", 1, "Float32")
    fields = ("flags", "a_row", "a_rows", "alpha", "items", "product", "extra")
    offsets = {name: getattr(engine._Arguments, name).offset for name in fields}
    claims = [f"sizeof(tile::Arguments) == {ctypes.sizeof(engine._Arguments)}",
              f"tile::SHARED_BYTES == {engine.SHARED_BYTES}", f"tile::THREADS == {engine.THREADS}",
              f"tile::BM == {engine.ROWS} && tile::BN == {engine.COLUMNS}"]  # fmt: skip
    claims += [f"__builtin_offsetof(tile::Arguments, {k}) == {v}" for k, v in offsets.items()]
    source = code.source() + "".join(f'static_assert({c}, "");\n' for c in claims)
    made = compile_text(source, "matmul_f32", "sm_90a", dynamic_shared_bytes=engine.SHARED_BYTES)
    assert made.registers == 168 and made.spills == 0


# --- whole programs ------------------------------------------------------------------------------


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> Tiles:
    """The backend on an emulated GPU, with the engine for every product that it can do."""
    emulated = pytest.importorskip("emulated")
    device, made = emulated.EmulatedDevice(), Tiles()
    monkeypatch.setattr("treadle.backend.cuda.executable.device_here", lambda: device)
    monkeypatch.setattr("treadle.backend.cuda.executable.unavailable", lambda: None)
    monkeypatch.setattr(engine_step, "engine_for", lambda d: made)
    monkeypatch.setattr(engine, "LEAST_STEPS", 0)
    monkeypatch.setattr(engine, "LEAST_INNER", 0)
    monkeypatch.setattr(engine, "FUSED_WAVES", 0)
    made.device.library = np
    return made


def execute(array: Any) -> Any:
    """The array's program by an executable of its own (no registry, no real GPU)."""
    from treadle.backend.cuda.executable import Executable
    from treadle.dsl.configuration import Settings
    from treadle.dsl.graph import Input, topological
    from treadle.dsl.program import Program
    from treadle.dsl.values import flatten_results

    leaves, tree = flatten_results(array)
    inputs = tuple(n for n in topological(leaves) if isinstance(n, Input))
    program = Program(leaves, tree, Settings(), "cuda", inputs)
    return Executable(program)([n.source for n in program.inputs], ())[0]


def test_programs_reach_the_engine(tiles: Tiles) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (70, 65)).astype("f4"), rng.integers(-9, 9, (65, 90)).astype("f4")
    assert np.array_equal(execute(td.matmul(a, b)), a @ b)
    assert np.array_equal(execute(td.matmul(td.use(b).T, td.use(a).T)), b.T @ a.T)
    assert np.array_equal(execute(td.strassen(a, b)), a @ b)
    assert np.array_equal(execute(td.strassen(a, b, levels=2, execution="owner")), a @ b)
    batch = np.stack([a, 2 * a])
    assert np.array_equal(execute(td.matmul(batch, b)), batch @ b)
    whole = (a.astype("i4"), b.astype("i4"))
    assert np.array_equal(execute(td.matmul(*whole)), whole[0] @ whole[1])
    codes = [c for c in tiles.launched if isinstance(c, engine.Code)]
    assert [c.mode for c in codes[:3]] == ["split", "split", "atomic"]
    assert codes[1].left == "R" and codes[1].right == "K"
    assert codes[-1].arithmetic == "Int32"
    before = len(tiles.launched)
    assert np.array_equal(execute(td.matmul(a.astype("f8"), b.astype("f8"))), a @ b)
    assert np.array_equal(execute(td.matmul(a, b, algorithm="winograd")), a @ b)
    assert len(tiles.launched) == before


@pytest.mark.usefixtures("nvrtc")
def test_epilogues_are_compiled_into_the_engine(tiles: Tiles) -> None:
    """The code of a launch, and the words that it reads its arrays and numbers from."""
    from treadle.backend.cuda.compile import compile_text

    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in ((24, 16), (16, 32)))
    bias, c = rng.random(32, np.float32), rng.random((24, 32), np.float32)
    given: list[engine.Fused] = []
    plain = tiles.standard

    def standard(out: Any, x: Any, y: Any, mode: str, kind: str, fused: Any) -> None:
        given.append(fused)
        plain(out, x, y, mode, kind, None)

    tiles.standard = standard  # type: ignore[method-assign]
    made = td.maximum(td.matmul(a, b, alpha=2.5, beta=0.5, c=c) + bias, 0)
    execute(made)
    (fused,) = given
    assert len(fused.words) >= 3 and 32 in fused.words  # two addresses, the length of a row
    code = engine.Code("K", "R", True, "owner", 1, "Float32", fused.source)
    found = compile_text(code.source(), "matmul_f32", "sm_90a",
                         dynamic_shared_bytes=engine.SHARED_BYTES)  # fmt: skip
    assert found.spills == 0 and found.registers == 168
