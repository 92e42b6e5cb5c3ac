"""How products reach cuBLAS and the tile engine, without either: what they are given is checked."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import types
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda import emulated
from tests.backend.cuda.products.layout import asserted, laid_out
from treadle.backend.cuda.products import (
    choice as product_choice,
    cublas,
    engine,
    form as engine_form,
    images,
    library as library_products,
    parts as engine_parts,
    step as engine_step,
    ways as product_ways,
)
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Matmul, topological
from treadle.dsl.operations.algebra.products import EXECUTIONS, MatmulOptions
from treadle.skeletons.products import LADERMAN, STRASSEN

FORM = engine_form.FORMS["Float32"]
ARGUMENTS = engine_form.Arguments

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


@pytest.mark.sample(32)
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


def test_results_in_a_part_of_a_matrix() -> None:
    """As blocks of C are: rows further apart than they are long."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (2, 4, 5)).astype("f4"), rng.integers(0, 9, (2, 5, 6)).astype("f4")
    whole = np.full((2, 9, 11), 7, "f4")
    for out, x, y in ((whole[0, 2:6, 3:9], a[0], b[0]), (whole[:, 2:6, 3:9], a, b)):
        whole[...] = 7
        cublas.gemm(on_device(out), on_device(x), on_device(y))
        assert np.array_equal(out, x @ y)
        assert (whole == 7).sum() >= whole.size - out.size


# --- the tile engine -----------------------------------------------------------------------------


def matrix(x: np.ndarray) -> engine.Matrix:
    down, across = (s // x.itemsize for s in x.strides)
    return engine.Matrix(x.ctypes.data, *x.shape, down, across, x.itemsize)


class Tiles(engine.Engine):
    """The engine with NumPy for a GPU: it does what the arguments of a launch say."""

    def __init__(self) -> None:
        super().__init__(types.SimpleNamespace(
            multiprocessors=132, arch="sm_90a", empty=self._empty
        ))  # fmt: skip
        self.launched: list[Any] = []
        self.allocated = 0
        self.summed = 0
        self.beside: list[int] = []

    def _empty(self, shape: Any, t: Any) -> Any:
        made = np.full(shape, 9, t)
        self.allocated += made.nbytes
        return on_device(made)

    def clear(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)

    def load(self, what: Any, name: str, threads: int, shared: int) -> Any:
        self.launched.append(what)
        return what

    def _concurrently(self, jobs: Any) -> None:
        self.beside.append(len(jobs))
        for job in reversed(jobs):  # launches beside each other may run in any order
            job()

    def run(self, loaded: Any, arguments: Any, blocks: tuple[int, int]) -> None:
        assert blocks[0] >= 1
        if isinstance(loaded, tuple):
            self.summed += 1
            _sum(NUMBERS[loaded[1]], *arguments)
        elif engine_form.FORMS[loaded.arithmetic].planes:
            steps = {"tensor_maxima.cu": _maxima, "tensor_images.cu": _images, "": _by_images}
            steps[loaded.file](engine_form.FORMS[loaded.arithmetic], arguments[0])
        elif not loaded.guarded or _array(arguments[0].flags, "u4", 1)[0]:
            _multiply(loaded, arguments[0])


def _matrix(pointer: int, t: Any, rows: int, cols: int, down: int, across: int) -> np.ndarray:
    size = np.dtype(t).itemsize
    reach = (max(rows - 1, 0) * down + max(cols - 1, 0) * across + 1) * size
    raw = (ctypes.c_char * reach).from_address(pointer)
    return np.ndarray((rows, cols), t, raw, strides=(down * size, across * size))


def _number(word: Any, t: Any) -> Any:
    return np.array([word], np.uint32).view(t)[0]


NUMBERS: dict[str, Any] = {"Float32": np.float32, "Int32": np.int32, "Limbs32": np.int32}


def _multiply(code: engine_form.Code, g: Any) -> None:
    t = NUMBERS[code.arithmetic]
    a = _matrix(g.a, t, g.a_rows, g.a_depth, g.a_row, g.a_col)
    b = _matrix(g.b, t, g.b_depth, g.b_cols, g.b_row, g.b_col)
    c = _matrix(g.c, t, g.c_rows, g.c_cols, g.c_row, 1)
    if code.vector:
        assert g.a % 16 == g.b % 16 == 0
        assert (g.a_row if code.left == "K" else g.a_col) * a.itemsize % 16 == 0
        assert (g.b_row if code.right == "R" else g.b_col) * a.itemsize % 16 == 0
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


def _array(address: int, t: str, *shape: int) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(t).itemsize
    return np.ndarray(shape, t, (ctypes.c_char * size).from_address(address))


def _sides(form: engine_form.Form, g: Any) -> Any:
    return (g.a, form.rows), (g.b, form.columns)


def _block(x: Any, row: int, col: int, t: str = "f4") -> np.ndarray:
    """A block of an operand for images, with zeros where the operand ends."""
    whole = _matrix(x.x, t, x.rows, x.depth, x.down, x.along)
    part = whole[row * x.block_rows :, col * x.block_depth :][: x.block_rows, : x.block_depth]
    made = np.zeros((x.block_rows, x.block_depth), t)
    made[: part.shape[0], : part.shape[1]] = part
    return made


def _maxima(form: engine_form.Form, g: Any) -> None:
    for x, rows in _sides(form, g):
        found = _array(x.maxima, "f4", x.blocks, x.tiles * rows)
        assert not found.any()
        for number in range(x.blocks):
            most = np.abs(_block(x, *divmod(number, x.across))).max(1)
            found[number, : x.block_rows] = most


def _of_images(form: engine_form.Form) -> str:
    return "f4" if form.precision else "u4"


def _images(form: engine_form.Form, g: Any) -> None:
    """Images that hold float32, or words, in the memory of the planes."""
    t = _of_images(form)
    for x, rows in _sides(form, g):
        maxima = _array(x.maxima, "f4", x.blocks, x.tiles * rows)
        shifts = _array(x.shifts, "i4", g.products, x.tiles * rows)
        each = form.planes * images.ROW * rows // 4
        kept = _array(x.images, t, g.products, x.tiles, x.stages, each)
        for r in range(g.products):
            total = np.zeros((x.tiles * rows, x.stages * form.step), t)
            most = np.zeros(x.tiles * rows, "f4")
            for term in list(x.term[r])[: x.count[r]]:
                part, factor = _block(x, term.row, term.col, t), _number(term.factor, t)
                total[: x.block_rows, : x.block_depth] += factor * part
                most += abs(factor) * maxima[term.row * x.across + term.col]
            if not np.isfinite(total).all():
                _array(g.flag, "u4", 1)[0] = 1
            if form.scaled:
                shifts[r] = np.where(most > 0, 15 - np.frexp(most)[1], 0)
                total = np.ldexp(total, shifts[r][:, None])
            split = total.reshape(x.tiles, rows, x.stages, form.step).swapaxes(1, 2)
            kept[r, :, :, : rows * form.step] = split.reshape(x.tiles, x.stages, -1)


def _by_images(form: engine_form.Form, g: Any) -> None:
    t = _of_images(form)
    if _array(g.guard, "u4", 1)[0]:
        return
    c = _matrix(g.c, t, g.c_rows, g.c_cols, g.c_row, 1)
    for r, w in enumerate(list(g.product)[: g.products]):
        sides, undone = [], []
        for address, shift, tiles, rows in ((g.a, g.a_shift, g.tiles_m, form.rows),
                                            (g.b, g.b_shift, g.tiles_n, form.columns)):  # fmt: skip
            each = form.planes * images.ROW * rows // 4
            kept = _array(address, t, g.products, tiles, g.stages, each)[r]
            split = kept[..., : rows * form.step].reshape(tiles, g.stages, rows, form.step)
            sides.append(split.swapaxes(1, 2).reshape(tiles * rows, -1))
            shifts = _array(shift, "i4", g.products, tiles * rows)[r]
            undone.append(-shifts if form.scaled else 0 * shifts)
        found = sides[0] @ sides[1].T
        if form.scaled:
            found = np.ldexp(found, undone[0][:, None] + undone[1])
        for d in list(w.target)[: w.count]:
            place = c[d.row * g.qm : (d.row + 1) * g.qm, d.col * g.qn :][:, : g.qn]
            factor = _number(d.factor, t) * _number(g.alpha, t)
            value = factor * found[: place.shape[0], : place.shape[1]]
            place[...] = value if d.first else place + value


def _sum(t: Any, out: Any, pitch: Any, rows: Any, x: Any, y: Any, f: Any, vector: Any) -> None:
    made = _matrix(out.value, t, rows.value, pitch.value, pitch.value, 1)
    made[...] = 0
    for q, factor in ((x, 1), (y, f.value)):
        part = _matrix(q.p, t, q.rows, q.cols, q.pitch, 1)
        made[: q.rows, : q.cols] += t(factor) * part


@pytest.mark.sample(8)
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
    for mode in ("owner", "atomic", "sequential", "streams", "batched", "persistent"):
        for levels in (1, 2):
            out = np.full((m, n), 7, dtype)
            if levels == 2:
                kept = [np.ascontiguousarray(x) for x in (a, b)]
                left, right = map(matrix, kept)
            tiles.product(matrix(out), left, right, mode, kind, STRASSEN, levels)
            assert np.array_equal(out, a @ b), (mode, levels)
    codes = [c for c in tiles.launched if isinstance(c, engine_form.Code)]
    assert {c.terms for c in codes} == {1, 2} and {c.arithmetic for c in codes} == {kind}


@pytest.mark.parametrize("kind", ["Float32", "Limbs32"])
def test_sums_in_memory(kind: str) -> None:
    rng = np.random.default_rng(0)
    for (m, k, n), how in (((70, 66, 130), "C"), ((70, 66, 130), "F"), ((5, 9, 3), "C")):
        kept = [np.require(rng.integers(-9, 9, shape).astype(NUMBERS[kind]), None, how)
                for shape in ((m, k), (k, n))]  # fmt: skip
        a, b = map(on_device, kept) if how == "C" else kept
        for levels in (1, 2):
            tiles = Tiles()
            out = np.full((m, n), 7, a.dtype)
            tiles.product(matrix(out), matrix(a), matrix(b), "recursive", kind, STRASSEN, levels)
            assert np.array_equal(out, a @ b), (levels, how)
            empty = (m, k, n) == (5, 9, 3)  # blocks beyond the operands need no sum
            assert tiles.summed == 10 * (1 + 7 * (levels - 1)) or empty


@pytest.mark.parametrize("how", ["CC", "FF", "CF"])
def test_operands_of_levels_are_copied_for_vectors(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "REUSED", 20)
    rng = np.random.default_rng(0)
    for (m, k, n), copied in (((31, 37, 45), 2), ((32, 36, 45), 1), ((19, 37, 45), 0)):
        a, b = (np.require(rng.integers(-9, 9, shape).astype("f4"), None, order)
                for shape, order in zip(((m, k), (k, n)), how, strict=True))  # fmt: skip
        for execution, levels in (("owner", 1), ("atomic", 1), ("atomic", 2), ("recursive", 1)):
            tiles, out = Tiles(), np.full((m, n), 7, "f4")
            tiles.product(matrix(out), matrix(a), matrix(b), execution, "Float32", STRASSEN, levels)
            assert np.array_equal(out, a @ b), (execution, levels)
            codes = [c for c in tiles.launched if isinstance(c, engine_form.Code)]
            if execution == "owner":
                assert all(c.vector for c in codes) == (copied > 0)
                if how == "CC":
                    assert tiles.summed == copied
                    assert tiles.allocated == tiles.workspace(m, n, k, "Float32", STRASSEN, 1,
                                                              execution)  # fmt: skip


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
    from treadle.backend.cuda.compile.nvrtc import compile_text

    code = engine_form.Code("K", "R", True, "owner", 1, "Float32")
    fields = ("flags", "a_row", "a_rows", "alpha", "items", "product", "extra")
    claims = [*laid_out("tile::Arguments", ARGUMENTS, fields),
              f"tile::SHARED_BYTES == {FORM.shared_bytes}", f"tile::THREADS == {FORM.threads}",
              f"tile::BM == {FORM.rows} && tile::BN == {FORM.columns}"]  # fmt: skip
    source = code.source() + asserted(claims)
    made = compile_text(source, "matmul_f32", "sm_90a", dynamic_shared_bytes=FORM.shared_bytes)
    assert made.registers == 168 and made.spills == 0


# --- whole programs ------------------------------------------------------------------------------


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> Tiles:
    """The backend on an emulated GPU, with the engine for every product that it can do."""
    device, made = emulated.EmulatedDevice(), Tiles()
    monkeypatch.setattr("treadle.backend.cuda.executable.device_here", lambda: device)
    monkeypatch.setattr("treadle.backend.cuda.availability.unavailable", lambda: None)
    monkeypatch.setattr(engine_parts, "engine_for", lambda d: made)
    eager = {k: dataclasses.replace(f, least_steps=0, least_inner=0)
             for k, f in engine_form.FORMS.items()}  # fmt: skip
    monkeypatch.setattr(engine_form, "FORMS", eager)
    monkeypatch.setattr(engine, "FORMS", eager)
    monkeypatch.setattr(engine, "FUSED_WAVES", 0)
    for module in (product_ways, product_choice):  # small no reason not to
        monkeypatch.setattr(module, "predicted", lambda *_, **__: {})
    made.device.library = np
    return made


def execute(array: Any) -> Any:
    """The array's program by an executable of its own (no registry, no real GPU)."""
    from treadle.backend.cuda.executable import executable
    from treadle.driver.program import Program
    from treadle.dsl.frontend.trees import flatten_results
    from treadle.dsl.graph import Input, topological
    from treadle.dsl.process.configuration import Settings

    leaves, tree = flatten_results(array)
    inputs = tuple(n for n in topological(leaves) if isinstance(n, Input))
    program = Program(leaves, tree, Settings(), "cuda", inputs)
    return executable(program)([n.source for n in program.inputs], ())[0]


def test_programs_reach_the_engine(tiles: Tiles) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (70, 65)).astype("f4"), rng.integers(-9, 9, (65, 90)).astype("f4")
    assert np.array_equal(execute(td.matmul(a, b)), a @ b)
    assert np.array_equal(execute(td.matmul(td.use(b).T, td.use(a).T)), b.T @ a.T)
    assert np.array_equal(execute(td.strassen(a, b)), a @ b)
    assert np.array_equal(execute(td.strassen(a, b, levels=2, execution="owner")), a @ b)
    halves = (td.cast(x.astype("f2"), td.float32) for x in (a, b))  # converted before the product
    assert np.array_equal(execute(td.strassen(*halves)), a @ b)
    batch = np.stack([a, 2 * a])
    assert np.array_equal(execute(td.matmul(batch, b)), batch @ b)
    whole = (a.astype("i4"), b.astype("i4"))
    assert np.array_equal(execute(td.matmul(*whole)), whole[0] @ whole[1])
    codes = [c for c in tiles.launched if isinstance(c, engine_form.Code)]
    assert [c.mode for c in codes[:3]] == ["split", "split", "atomic"]
    assert codes[1].left == "R" and codes[1].right == "K"
    assert codes[-1].arithmetic == "Limbs32"
    before = len(tiles.launched)
    assert np.array_equal(execute(td.matmul(a.astype("c8"), b.astype("c8"))), a @ b)
    assert len(tiles.launched) == before
    assert np.array_equal(execute(td.matmul(a, b, algorithm="winograd")), a @ b)
    leaves = tiles.launched[before:]  # sums in memory, the engine for the blocks' products
    assert len(leaves) >= 7 and all(c.terms == 1 for c in leaves)


PRECISIONS = ("fp16x3", "bf16x6", "tf32x3")


def launches(codes: Any) -> list[str]:
    """What each launch does: the file of a tensor-core kernel, or the arithmetic and a guard."""
    return [c.file.removesuffix(".cu") or ("guarded " if c.guarded else "") + c.arithmetic
            for c in codes]  # fmt: skip


def shown(array: Any, *size: int) -> dict[str, str]:
    """What `explain` says of the only product of a program, of extents m, k, n."""
    from treadle.backend.cuda.products.explain import describe

    (node,) = (n for n in topological(flatten_results(array)[0]) if isinstance(n, Matmul))
    m, k, n = size
    return describe(node, (m, k, n))


@pytest.mark.sample(1)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_precise_products_reach_tensor_cores(tiles: Tiles, precision: str) -> None:
    """In four launches, the last of which computes if an operand is not finite, and with the
    workspace that `explain` tells."""
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-9, 9, (150, 265)).astype("f4"),
        rng.integers(-9, 9, (265, 290)).astype("f4"),
    )
    for more in ({}, {"algorithm": "strassen"}):
        for x, y in ((a, b), (np.asfortranarray(a), b), (np.pad(a, (0, 3))[:-3, :-3], b)):
            tiles.launched.clear()
            tiles.allocated = 0
            made = td.matmul(x, y, precision=precision, **more)  # type: ignore[arg-type]
            assert np.array_equal(execute(made), a @ b)
            *prepared, product, guarded = launches(tiles.launched)
            assert prepared == ["tensor_maxima", "tensor_images"][precision != "fp16x3" :]
            assert engine_form.FORMS[product].precision == precision
            assert guarded == "guarded Float32"
            text = shown(made, 150, 265, 290)
            assert text["workspace"] == f"{tiles.allocated:,} bytes"
            assert text["algorithm"].startswith(more.get("algorithm", "standard"))
            assert text["precision"].startswith(f"{precision!r}: float32 as")
        wrong = a.copy()
        wrong[7, 200] = np.inf
        with np.errstate(invalid="ignore"):
            found, want = execute(td.matmul(wrong, b, precision=precision, **more)), wrong @ b  # type: ignore[arg-type]
        assert np.array_equal(found, want, equal_nan=True)
    batch = np.stack([a, 2 * a])  # a matrix that does not fill the engine
    tiles.launched.clear()
    assert np.array_equal(execute(td.matmul(batch, b, precision=precision)), batch @ b)
    assert not tiles.launched
    tiles.device.multiprocessors = 2
    assert np.array_equal(execute(td.matmul(batch, b, precision=precision)), batch @ b)
    assert launches(tiles.launched).count("tensor_images") == 2


@pytest.mark.parametrize("precision", PRECISIONS)
def test_leaves_of_a_recursion_keep_their_precision(tiles: Tiles, precision: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (260, 260)).astype("f4")
    made = td.matmul(a, a, precision=precision, algorithm="winograd")
    assert np.array_equal(execute(made), a @ a)
    assert launches(tiles.launched).count("guarded Float32") == 7
    assert shown(made, 260, 260, 260)["precision"].startswith(f"{precision!r}: float32 as")


def test_permission_to_be_fast_reaches_tensor_cores(tiles: Tiles) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (1024, 1024)).astype("f4")
    with td.precision(fast=True):
        made = td.matmul(a, a)
    assert np.array_equal(execute(made), a @ a)
    assert launches(tiles.launched) == [
        "tensor_maxima", "tensor_images", "Float32Fp16x3Square", "guarded Float32",
    ]  # fmt: skip
    assert "precision" not in shown(made, 1024, 1024, 1024)
    tiles.launched.clear()
    with td.precision(fast=True):
        made = td.matmul(a, a, precision="float32")
    assert np.array_equal(execute(made), a @ a)
    assert launches(tiles.launched) == ["Float32"]


@pytest.mark.parametrize("algorithm", ["standard", "strassen"])
def test_fused_parts_are_in_every_launch(tiles: Tiles, algorithm: str) -> None:
    """Their code, and the words that it reads, also of the launch in float32."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in ((240, 160), (160, 320)))
    bias = rng.random(320, np.float32)
    words: list[list[int]] = []
    tiles.run = lambda loaded, given, blocks: words.append(list(given[0].extra))  # type: ignore[method-assign]
    product = td.matmul(2 * td.use(a) + 1, b, precision="fp16x3", algorithm=algorithm)
    execute(td.maximum(product + bias, 0))
    assert len(tiles.launched) == len(words) == 4
    assert all(w == words[0] and any(w) for w in words)
    for code in tiles.launched:
        assert code.fused is not None and code.fused == tiles.launched[0].fused
        assert "struct ProducerA {" in code.fused and "struct Epilogue {" in code.fused


@pytest.mark.sample(1)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_precise_products_that_no_engine_computes(tiles: Tiles, precision: str) -> None:
    """With parts: those of leading axes that do not fill the engine, and empty ones."""
    rng = np.random.default_rng(0)
    for m, k, n in ((150, 200, 140), (3, 200, 0), (0, 200, 3), (3, 0, 4)):
        for lead in ((), (3,)):
            a, b = (rng.integers(-9, 9, (*lead, *s)).astype("f4") for s in ((m, k), (k, n)))
            if not lead and m * k * n:
                continue
            made = td.maximum(2 * td.matmul(a, b, precision=precision), 0)
            assert np.array_equal(execute(made), np.maximum(2 * (a @ b), 0))
    assert not tiles.launched


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("execution", product_ways.BY_ENGINE)
def test_executions_reach_the_engine(tiles: Tiles, execution: str, levels: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (70, 65)).astype("f4"), rng.integers(-9, 9, (65, 90)).astype("f4")
    made = td.matmul(a, b, algorithm="strassen", levels=levels, execution=execution)
    assert np.array_equal(execute(made), a @ b)
    outer = 7 if levels == 2 else 1
    groups = {"streams": [2, 2, 1], "batched": [4], "sequential": [1] * 7}.get(execution, [1])
    assert tiles.beside == ([] if execution == "recursive" else groups * outer)
    modes = {"atomic": "atomic", "batched": "atomic", "hybrid": "atomic", "recursive": "split",
             "persistent": "persistent"}  # fmt: skip
    assert {c.mode for c in tiles.launched if isinstance(c, engine_form.Code)} == {
        modes.get(execution, "owner")
    }


def test_launches_beside_each_other_share_the_multiprocessors() -> None:
    assert engine._shares(132, [1, 2, 2, 2]) == [18, 38, 38, 38]
    assert engine._shares(2, [1, 1, 1]) == [1, 1, 1]  # one each, where there are too few
    assert all(s >= 1 for s in engine._shares(4, [1, 9, 1]))


def test_recursive_products_of_every_algorithm(tiles: Tiles) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (66, 37)).astype("f4"), rng.integers(-9, 9, (37, 53)).astype("f4")
    for algorithm, most in (("strassen", 3), ("winograd", 3), (LADERMAN, 2)):
        for levels in (1, most):
            made = td.matmul(a, b, algorithm=algorithm, levels=levels, execution="recursive")
            assert np.array_equal(execute(made), a @ b)


def test_what_does_not_exist_is_refused(tiles: Tiles) -> None:
    a = np.ones((70, 70), "f4")
    before = len(tiles.launched)
    execute(td.strassen(a.astype("i4"), a.astype("i4"), execution="persistent"))
    assert {c.arithmetic for c in tiles.launched[before:]} == {"Int32"}  # limbs have no such mode
    with pytest.raises(td.ScheduleError, match="no tile engine computes this product"):
        execute(td.strassen(a.astype("c8"), a.astype("c8"), execution="owner"))
    with pytest.raises(td.ScheduleError, match="adds floats in any order"):
        execute(td.matmul(a, a, algorithm="strassen", execution="atomic", deterministic=True))
    exact = a.astype("i4")  # integers come out the same in any order
    made = td.matmul(exact, exact, algorithm="strassen", execution="atomic", deterministic=True)
    assert np.array_equal(execute(made), exact @ exact)


def test_the_model_chooses_among_what_was_measured() -> None:
    options = MatmulOptions()
    form, tiles = engine_form.FORMS["Float32"], Tiles()
    way = product_ways.way_for

    def fast(n: int, **more: Any) -> Any:
        return way(tiles, form, dataclasses.replace(options, fast=True, **more), (n, n, n))

    assert way(tiles, form, options, (8192,) * 3) == ("split", 0)  # floats: not requested
    assert fast(512) is None and fast(4096) == ("atomic", 1) and fast(16384) == ("atomic", 2)
    assert fast(8192, deterministic=True)[0] == "owner"
    exact = engine_form.FORMS["Int32"]
    assert way(tiles, exact, options, (8192,) * 3) == ("atomic", 1)
    assert way(tiles, exact, options, (1024,) * 3) is None  # the kernel of the skeletons


def test_which_engine_multiplies_integers() -> None:
    """Limbs from small products on, whatever is asked for, of large ones from tile images; a level
    only where it is faster."""
    tiles, options = Tiles(), MatmulOptions()

    def best(n: int, images: bool = False, **more: Any) -> Any:
        asked = dataclasses.replace(options, **more)
        form = engine_form.form_of(td.int32, (n, n, n), 132, asked)
        assert form is not None and form.arithmetic.startswith("Limbs32")
        assert (form.planes > 0) == images
        return product_ways.way_for(tiles, form, asked, (n, n, n))

    assert best(64) is None  # a kernel that is no engine's
    assert best(512) == ("atomic", 0) and best(2048, images=True) == ("owner", 0)
    assert best(8192, images=True) == ("owner", 0) and best(16384, images=True) == ("owner", 0)
    assert best(8192, images=True, algorithm="strassen", levels=1) == ("owner", 1)
    assert best(4096, algorithm="strassen", levels=2) == ("recursive", 2)
    assert best(8192, algorithm="strassen", levels=1, execution="atomic") == ("atomic", 1)
    limbs = engine_form.FORMS["Limbs32"]
    assert product_ways.way_for(tiles, limbs, options, (1, 8192, 8192)) == ("atomic", 0)


@pytest.mark.parametrize("execution", [e for e in EXECUTIONS if e is not None])
def test_float64_has_the_executions_of_the_library(tiles: Tiles, execution: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (70, 65)).astype("f8"), rng.integers(-9, 9, (65, 90)).astype("f8")
    for levels in (1, 2):
        made = td.strassen(a, b, levels=levels, execution=execution)
        if execution in product_ways.BY_LIBRARY:
            assert np.array_equal(execute(made), a @ b)
            continue
        with pytest.raises(td.ScheduleError, match="no tile engine computes this product") as said:
            execute(made)
        assert f"execution {execution!r} does not exist here for float64" in str(said.value)
        nearest = "recursive" if execution in ("hybrid", "owner") else "batched"
        assert said.value.hint == f"The nearest is execution={nearest!r}."
    assert not tiles.launched  # by cuBLAS


def test_levels_of_float64_are_those_that_were_measured_over_the_library() -> None:
    fast = MatmulOptions(fast=True)

    def levels(n: int, options: MatmulOptions = fast) -> int:
        made = library_products.planned(product_ways.Measured(), td.float64, options, (n, n, n))
        return 0 if made is None else made.levels

    assert [levels(n) for n in (2048, 4096, 6144, 16384)] == [0, 0, 1, 2]
    assert levels(16384, dataclasses.replace(fast, levels=1)) == 1
    assert levels(16384, MatmulOptions()) == 0


def test_a_block_of_a_result_is_not_cleared_with_its_neighbours() -> None:
    """Leaves of a recursion are written into blocks of C: "atomic" would clear what lies beside."""
    form, tiles, size = engine_form.FORMS["Limbs32"], Tiles(), 512
    assert product_ways.standard_way(tiles, form, (size,) * 3, MatmulOptions()) == "atomic"
    launched: list[str] = []
    cleared: list[int] = []
    tiles._launch = lambda out, a, b, mode, *more, **named: launched.append(mode)  # type: ignore[method-assign]
    tiles.clear = lambda address, count: cleared.append(count)  # type: ignore[method-assign]
    leaves = engine_step.Leaves(tiles, td.int32, MatmulOptions())
    whole = np.zeros((2 * size, 2 * size), np.int32)
    dense = np.zeros((size, size), np.int32)
    for out in (whole[:size, size:], dense):
        assert leaves(dense, dense, out)
    assert launched == ["owner", "atomic"] and cleared == [dense.nbytes]


def test_leading_axes_take_the_engine_where_each_matrix_fills_it() -> None:
    form, tiles = engine_form.FORMS["Limbs32"], Tiles()
    node = types.SimpleNamespace(batch=(3,), options=MatmulOptions())
    assert product_ways.way_in(node, tiles, form, (512,) * 3) is None
    assert product_ways.way_in(node, tiles, form, (2048,) * 3) == ("owner", 0)


def test_epilogues_are_compiled_into_the_engine(tiles: Tiles) -> None:
    """The code of a launch, and the words that it reads its arrays and numbers from."""
    from treadle.backend.cuda.compile.nvrtc import compile_text

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
    code = engine_form.Code("K", "R", True, "owner", 1, "Float32", fused.source)
    found = compile_text(code.source(), "matmul_f32", "sm_90a",
                         dynamic_shared_bytes=FORM.shared_bytes)  # fmt: skip
    assert found.spills == 0 and found.registers == 168


# --- the kernel itself, emulated on a CPU (tiles.py) ----------------------------------------------


class EmulatedKernels(Tiles):
    """Launches run the kernel's own text, compiled for the host; those beside each other backwards.

    Shared memory, barriers and races in it are checked; of global memory only the values are.
    """

    def run(self, loaded: Any, arguments: Any, blocks: tuple[int, int]) -> None:
        if isinstance(loaded, tuple):
            super().run(loaded, arguments, blocks)
            return
        from tests.backend.cuda.products import tiles as emulation

        form = engine_form.FORMS[loaded.arithmetic]
        emulation.run(loaded, arguments[0], blocks, [(0, 1 << 62, True)], threads=form.threads,
                      shared=form.shared_bytes, seed=1)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_executions_of_the_emulated_kernel(dtype: str) -> None:
    from tests.backend.cuda.products import tiles as emulation

    if emulation.COMPILER is None:
        pytest.skip("no g++")
    rng = np.random.default_rng(0)
    kind = "Float32" if dtype == "f4" else "Int32"
    for m, k, n, most in ((150, 70, 270, 2), (7, 129, 33, 1)):
        a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
        engines = EmulatedKernels()
        engines.device.multiprocessors = 6
        for mode in ("owner", "split"):
            out = np.full((m, n), 7, dtype)
            engines.standard(matrix(out), matrix(a), matrix(b), mode, kind)
            assert np.array_equal(out, a @ b), mode
        for execution in ("owner", "sequential", "streams", "atomic", "batched", "persistent"):
            for levels in range(1, most + 1):
                out = np.full((m, n), 7, dtype)
                engines.product(
                    matrix(out), matrix(a), matrix(b), execution, kind, STRASSEN, levels
                )
                assert np.array_equal(out, a @ b), (execution, levels)
