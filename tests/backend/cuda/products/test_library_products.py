"""What cuBLAS is asked for, and what sums of blocks a kernel makes: on the host's memory."""

from __future__ import annotations

import cProfile
import ctypes
import gc
import pstats
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import treadle as td
from treadle.backend import registry
from treadle.backend.cuda import availability, executable
from treadle.backend.cuda.products import cublas, library as products
from treadle.backend.cuda.products.ways import Measured
from treadle.dsl.operations.algebra.products import MatmulOptions

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
libs = pytest.importorskip("cupy_backends.cuda.libs", reason="CuPy is not installed")
pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")

from tests.backend.cuda.device.pretended import CAPTURED, pretend  # noqa: E402
from treadle.backend.cuda.device.device import Block, Call  # noqa: E402
from treadle.backend.cuda.device.optional import DriverError  # noqa: E402
from treadle.backend.cuda.graphs import captured, graphs, launch, queued  # noqa: E402

NUMPY = {0: "f4", 1: "f8", 4: "c8", 5: "c16", 2: "f2"}


def column_major(address, kind, rows, cols, lead, turned):
    """A matrix as BLAS sees it."""
    t = np.dtype(NUMPY[kind])
    stored = (cols, rows) if turned else (rows, cols)
    count = lead * (stored[1] - 1) + stored[0]
    flat = np.frombuffer((ctypes.c_char * (count * t.itemsize)).from_address(address), t)
    found = np.lib.stride_tricks.as_strided(flat, stored, (t.itemsize, lead * t.itemsize))
    assert lead >= stored[0]
    return found.T if turned else found


class Fake:
    """cuBLAS on the host's memory; `calls`: the arguments of each call."""

    def __init__(self):
        self.calls = []

    def gemmEx(self, *given):
        self.calls.append(given)
        _, ta, tb, m, n, k, scale, a, ka, la, b, kb, lb, beta, c, kc, lc, compute, _ = given
        s = np.dtype({64: "f4", 68: "f4", 70: "f8", 77: "f4"}[compute])
        s = np.dtype({0: s, 1: s, 2: s, 4: "c8", 5: "c16"}[ka])
        scale, beta = (np.frombuffer((ctypes.c_char * s.itemsize).from_address(x), s)[0]
                       for x in (scale, beta))  # fmt: skip
        x = column_major(a, ka, m, k, la, ta)
        y = column_major(b, kb, k, n, lb, tb)
        z = column_major(c, kc, m, n, lc, 0)
        made = scale * (x.astype(s) @ y.astype(s))
        z[...] = made if beta == 0 else made + beta * z

    def gemmStridedBatchedEx(self, *given):
        (handle, ta, tb, m, n, k, scale, a, ka, la, sa, b, kb, lb, sb, beta, c, kc, lc, sc, many,
         compute, algo) = given  # fmt: skip
        width = {x: np.dtype(t).itemsize for x, t in NUMPY.items()}
        for at in range(many):
            self.gemmEx(handle, ta, tb, m, n, k, scale, a + at * sa * width[ka], ka, la,
                        b + at * sb * width[kb], kb, lb, beta, c + at * sc * width[kc], kc, lc,
                        compute, algo)  # fmt: skip
        self.calls[-many:] = [given]


@pytest.fixture
def blas(monkeypatch):
    fake = Fake()
    cublas.prepared.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", fake)
    monkeypatch.setitem(vars(libs), "cublas", fake)
    monkeypatch.setattr(cupy.cuda.device, "get_cublas_handle", lambda: 1)
    yield fake
    cublas.prepared.cache_clear()


class Library:
    """The library itself: what it queues on a stream that is captured becomes part of a graph."""

    def __init__(self, fake, driver):
        self.fake, self.driver, self.stream, self.workspace = fake, driver, None, None

    def cublasSetStream_v2(self, handle, stream):
        self.stream, self.workspace = stream, None

    def cublasSetWorkspace_v2(self, handle, address, size):
        self.workspace = address
        return int(size < 4 << 20)

    def _queued(self, name, given):
        assert self.stream == CAPTURED and self.workspace
        scales = [ctypes.string_at(given[k], 16) for k in (6, 13 if name == "gemmEx" else 15)]

        def act(order):  # the factors are captured, not where they are
            kept = [ctypes.create_string_buffer(s, 16) for s in scales]
            a = list(given)
            a[6], a[13 if name == "gemmEx" else 15] = map(ctypes.addressof, kept)
            getattr(self.fake, name)(*a)

        self.driver.captured.add((), act)
        return 0

    def cublasGemmEx(self, *given):
        return self._queued("gemmEx", given)

    def cublasGemmStridedBatchedEx(self, *given):
        return self._queued("gemmStridedBatchedEx", given)


@pytest.fixture
def gpu(monkeypatch, blas):
    device, driver = pretend(monkeypatch)
    library = Library(blas, driver)
    monkeypatch.setattr(cublas, "library", lambda: library)
    monkeypatch.setattr(cublas, "new_handle", lambda: 5)
    device.driver = driver
    monkeypatch.setattr(executable, "device_here", lambda: device)
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    monkeypatch.setattr(cupy.cuda, "Device", lambda ordinal=0: nullcontext(SimpleNamespace(id=0)))
    for cache in (registry.load, registry.why_not):
        cache.cache_clear()
    yield device
    for cache in (registry.load, registry.why_not):
        cache.cache_clear()


def data(name, *shape):
    rng = np.random.default_rng(sum(shape))
    found = rng.integers(-4, 5, shape)
    return (found + 1j * rng.integers(-4, 5, shape) if name[0] == "c" else found).astype(name)


def address(x):
    return x.ctypes.data


def layout(x):
    return x.shape, tuple(s // x.itemsize for s in x.strides)


VIEWS = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "a block": lambda x: np.pad(x, [(0, 0)] * (x.ndim - 2) + [(1, 2), (3, 1)])[..., 1:-2, 3:-1],
    "alike": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim > 2 else x,
}


@pytest.mark.parametrize("name", ("float16", "float32", "float64", "complex64", "complex128"))
def test_operands_are_read_in_place(blas, name):
    """All layouts that an axis of runs through memory in steps of one, batches, and one row."""
    for shape in ((5, 3, 4), (1, 3, 4), (5, 1, 4), (5, 3, 1), (2, 5, 3, 4), (3, 2, 5, 3, 4)):
        *batch, m, k, n = shape
        for view in VIEWS:
            for other in VIEWS:
                a = VIEWS[view](data(name, *batch, m, k))
                b = VIEWS[other](data(name, *batch, k, n))
                out = np.full((*batch, m, n), 7, name)
                made = cublas.prepared(name, name, layout(out), layout(a), layout(b))
                assert (made is None) == (len(batch) > 1 and "alike" in (view, other))
                if made is not None:
                    blas.calls.clear()
                    made(address(out), address(a), address(b))
                    assert np.array_equal(out, a @ b) and len(blas.calls) == 1
                    made = cublas.prepared(name, name, layout(out), layout(a), layout(b), False,
                                           True, -2)  # fmt: skip
                    made(address(out), address(a), address(b))
                    assert np.array_equal(out, -(a @ b))


def test_what_one_call_cannot_do(blas):
    dense = ((4, 4), (4, 1))
    for wrong in (((4, 4), (8, 2)), ((4, 4), (-4, 1)), ((4, 4), (2, 1)), ((4, 4), (0, 1))):
        assert cublas.prepared("float32", "float32", dense, wrong, dense) is None
        assert cublas.prepared("float32", "float32", dense, dense, wrong) is None
    assert cublas.prepared("int32", "int32", dense, dense, dense) is None
    line = ((1, 4), (-9, 1))  # the step of an axis of one means nothing
    assert cublas.prepared("float32", "float32", line, line, dense) is not None
    assert cublas.prepared("float32", "float32", ((4, 1), (1, -9)), dense, ((4, 1), (1, -9)))
    long = ((2**31, 1), (1, 1))
    row, out = ((1, 4), (4, 1)), ((2**31, 4), (4, 1))
    assert cublas.prepared("float32", "float32", out, long, row) is None


def test_tf32_and_sixteen_bits(blas, monkeypatch):
    x = layout(np.empty((4, 4)))
    for name, tf32, compute in (("float32", True, 77), ("float32", False, 68),
                                ("float64", True, 70), ("bfloat16", False, 68)):  # fmt: skip
        given = []
        monkeypatch.setattr(blas, "gemmEx", lambda *a, given=given: given.extend(a))
        cublas.prepared.cache_clear()
        cublas.prepared(name, name, x, x, x, tf32)(0, 0, 0)
        assert given[-2] == compute


@pytest.mark.parametrize("name", ("float32", "float64", "complex128"))
def test_programs_call_it_with_addresses(gpu, blas, name):
    """No array of CuPy is made for a product's call, of whatever views."""
    programs = {
        "plain": (lambda a, b: a @ b, (6, 50), (50, 7)),
        "transposed": (lambda a, b: td.transpose(a) @ td.transpose(b), (50, 6), (7, 50)),
        "slices": (lambda a, b: a[1:, 2:] @ b[3:], (6, 52), (53, 4)),
        "batch": (lambda a, b: a @ b, (3, 4, 50), (3, 50, 2)),
        "shared": (lambda a, b: td.matmul(a, b), (3, 4, 50), (50, 2)),
        "a column": (lambda a, b: a @ b[:, :1], (4, 50), (50, 3)),
        "nothing": (lambda a, b: a @ b, (4, 0), (0, 3)),
    }
    for what, (function, *shapes) in programs.items():
        a, b = (data(name, *shape) for shape in shapes)
        want = td.jit(function, backend="reference")(a, b)
        program = td.jit(function, backend="cuda")
        for iteration in range(4):
            blas.calls.clear()
            x, y = (gpu.upload(v) for v in (a, b))
            got = gpu.download(program(x, y))
            assert got.dtype == name and np.array_equal(got, want), (what, iteration)
            assert len(blas.calls) == (what != "nothing"), what


def replayed(program, *args):
    _, _, replay, _ = next(iter(program.lower(*args).executable.calls.tapes.values()))
    return replay


def called(gpu, function, *args):
    """The program after it has become a graph; its results are right in every call."""
    want = td.jit(function, backend="reference")(*args)
    program, placed = td.jit(function, backend="cuda"), [gpu.upload(v) for v in args]
    for _ in range(4):
        np.testing.assert_allclose(gpu.download(program(*placed)), want, rtol=1e-12)
    return replayed(program, *placed)


def test_products_are_part_of_a_graph(gpu, blas):
    """One graph for the whole program, in any order that its edges allow."""
    a, b = (data("float64", 20, 20) for _ in range(2))

    def program(x, y):
        left, right = x @ (y + 1), td.compute(x * 2) @ y
        return td.compute(left[::-1] + right) @ td.matrix_transpose(x) - td.sum(left)

    replay = called(gpu, program, a, b)
    assert replay.whole and len(blas.calls) >= 3 and gpu.driver.graphs == 2  # and one that is tried
    blas.calls.clear()
    replay([gpu.upload(a), gpu.upload(b)], ())
    assert len(blas.calls) == 3


def test_products_in_loops_are_part_of_its_graphs(gpu, blas):
    a = data("float64", 20, 20) / 64

    def program(x):
        return td.iterate(300, lambda s: td.tanh(s @ x) + x, x)

    called(gpu, program, a)
    assert gpu.driver.graphs > 1


def test_large_programs_reuse_memory_in_their_graphs(gpu, blas, monkeypatch):
    monkeypatch.setattr(launch, "GRAPH_BYTES", 0)
    a = data("float64", 20, 20)

    def program(x):
        for _ in range(3):
            x = td.compute(x[::-1] / 64) @ x
        return x + td.sum(x)

    assert called(gpu, program, a).whole
    monkeypatch.setattr(launch, "OPERATION_BYTES", 0)
    assert not called(gpu, lambda x: program(x) + 1, a).parts


def test_products_of_a_graph_follow_each_other(gpu):
    """They share a workspace."""
    capture, graph = captured.captures(gpu).on(0), gpu.driver.cuGraphCreate(0)[1]
    x = gpu.upload(data("float64", 4, 4))
    made = cublas.prepared("float64", "float64", *[((4, 4), (4, 1))] * 3)
    outs = [gpu.empty((4, 4), np.dtype("f8")) for _ in range(3)]
    call = [products._Addressed(made, 0, 0) for _ in outs]
    blocks = [Block((4, 4), np.dtype("f8")) for _ in range(4)]
    ops = [Call(lambda reads, writes: None, blocks[:1] * 2, (b,), c)
           for b, c in zip(blocks[1:], call, strict=True)]  # fmt: skip
    steps = [queued.AddressStep(op, {b: k for k, b in enumerate(blocks)}) for op in ops]
    for step in steps:
        step.bind([v.data.ptr for v in (x, *outs)])
    graphs.Builder(graph, capture=capture).all(ops, steps)
    assert [needs for _, needs in graph.nodes] == [[], [0], [1]]


def failing(*given):
    raise KeyboardInterrupt


@pytest.mark.parametrize("failed", ["an interrupt", "the library", "the capture", "the graph"])
def test_a_capture_that_fails_ends_and_leaves_no_graph(gpu, blas, monkeypatch, failed):
    captures, driver = captured.captures(gpu), gpu.driver
    capture, graph = captures.on(0), driver.cuGraphCreate(0)[1]
    alive = list(driver.alive)
    end = type(driver).cuStreamEndCapture

    def invalid(stream):
        driver.alive.remove(end(driver, stream)[1])
        return 901, None

    with monkeypatch.context() as patch:
        if failed == "the capture":
            patch.setattr(driver, "cuStreamEndCapture", invalid)
        if failed == "the graph":
            patch.setattr(driver, "cuGraphAddChildGraphNode", lambda *given: (1, None))
        queue = {"an interrupt": failing, "the library": lambda handle: 15}
        with pytest.raises(KeyboardInterrupt if failed == "an interrupt" else DriverError):
            capture.add(graph, [], queue.get(failed, lambda handle: 0))
    assert driver.captured is None and driver.alive == alive and not graph.nodes
    capture.add(graph, [], lambda handle: 0)
    assert driver.alive == alive and len(graph.nodes) == 1


def test_a_graph_that_cannot_be_made_is_destroyed(gpu, blas, monkeypatch):
    """Of a program, of the iterations of a loop, and of a loop that tests."""
    a = data("float64", 20, 20)
    programs = (
        lambda x: td.sum(td.compute(x + 1) @ x) + x,
        lambda x: td.iterate(300, lambda s: td.tanh(s[::-1]) + x, x),
        lambda x: td.while_loop(lambda s: td.sum(s) < 9, lambda s: td.abs(s[::-1]) + 1, x),
    )
    for program in programs:
        with monkeypatch.context() as patch:
            assert captured.captures(gpu) is not None
            patch.setattr(gpu.driver, "cuGraphInstantiate", lambda *given: (2, None))
            with pytest.raises(td.BackendUnavailable, match="making a CUDA graph"):
                called(gpu, program, a)
        assert not gpu.driver.alive
        called(gpu, program, a)
        assert not gpu.driver.alive


def test_a_workspace_lives_as_long_as_graphs_that_use_it(gpu, blas):
    captures = captured.captures(gpu)
    idle = gpu.memory.idle[captures.size]
    assert len(idle) == 1 and not captures.known  # that of the products that were tried
    a = data("float64", 20, 20)
    kept = [called(gpu, lambda x, k=k: td.compute(x[::-1] + k) @ x * 2, a) for k in range(2)]
    assert not idle and [*captures.known] == [0]
    kept.pop()
    gc.collect()
    assert [*captures.known] == [0]
    kept.clear()
    gc.collect()
    assert len(idle) == 1 and not captures.known


def test_a_library_that_cannot_be_captured(gpu, blas, monkeypatch):
    """Its products lie between graphs."""
    monkeypatch.setattr(Library, "cublasGemmEx", lambda self, *given: 15)
    a = data("float64", 20, 20)
    replay = called(gpu, lambda x: td.compute(x[::-1] + 1) @ x * 2 + td.max(x), a)
    assert captured.captures(gpu) is None and not replay.whole


def test_what_a_call_costs(gpu, blas):
    """Python's calls for a product again: the launch, the result, and nothing for views."""
    a, b = (gpu.upload(data("float32", 64, 64)) for _ in range(2))
    program = td.jit(lambda x, y: x @ y, backend="cuda")
    for _ in range(4):
        program(a, b)
    profile = cProfile.Profile()
    profile.enable()
    program(a, b)
    profile.disable()
    made = [name for file, _, name in pstats.Stats(profile).stats
            if "treadle" in file and "tests" not in file]  # fmt: skip
    assert "array_at" not in made and "view" not in made and len(made) < 30, made


def test_how_float64_is_combined():
    """The default is what was measured to be fastest, in memory that a card has; `auto` takes a
    level where it is asked to be fast and that is faster."""

    def chosen(t, n, **options):
        return products.planned(Measured(), t, MatmulOptions(**options), (n, n, n))

    made = chosen(td.float64, 8192, algorithm="strassen", levels=1)
    assert (made.execution, made.adds, made.workspace) == ("batched", True, 10 * 4096**2)
    assert chosen(td.float64, 40000, algorithm="winograd", levels=1).execution == "recursive"
    asked = chosen(td.float64, 8192, algorithm="winograd", levels=2, execution="recursive")
    assert asked.execution == "recursive" and asked.workspace == 2 * (4096**2 + 2048**2)
    for t, adds in ((td.float32, False), (td.complex128, True), (td.int64, False)):
        made = chosen(t, 4096, algorithm="winograd", levels=1)
        assert (made.execution, made.adds) == ("recursive", adds)
    levels = [made and made.levels for n in (512, 4096, 8192, 16384)
              for made in [chosen(td.float64, n, fast=True)]]  # fmt: skip
    assert levels == [None, None, 2, 2] and chosen(td.float64, 6144, fast=True).levels == 1
    assert chosen(td.float64, 16384, fast=True, levels=1).levels == 1
    assert chosen(td.float64, 16384, fast=True, levels=0) is None
    assert chosen(td.float64, 16384) is None and chosen(td.float32, 16384, fast=True) is None
    assert products.flows(chosen(td.float64, 4096, algorithm="strassen", levels=1))
    assert not products.flows(chosen(td.float64, 4096, algorithm="strassen", levels=2))
    assert not products.flows(asked)
    other, size = Measured("sm_80"), (8192,) * 3
    assert products.planned(other, td.float64, MatmulOptions(fast=True), size) is None


def test_what_explain_says_of_it():
    a = np.broadcast_to(1.0, (8192, 8192))
    with td.precision(fast=True):
        text = td.jit(lambda x: x @ x, backend="native").lower(a).explain("cuda")
    assert "strassen, 2 levels, execution batched" in text
    assert (
        f"{8 * 10 * (4096**2 + 2048**2):,} bytes" in text
        and "times as fast as the best standard" in text
    )


def test_explain_says_why_of_every_product():
    floats, whole = np.broadcast_to(np.float32(1), (4096, 4096)), np.ones((2048, 2048), np.int32)
    for options, x, words in (
        ({}, whole, ("why", "Strassen's algorithm, execution", "would take")),
        ({"precision": "tf32"}, floats, ("precision", "11 significant bits")),
        ({"algorithm": "strassen", "scaling": "outer"}, floats,
         ("scaling", f"{2 * 4 * 4096**2:,} bytes", "leaves of 2,048 x 2,048")),
    ):  # fmt: skip
        program = td.jit(lambda a, o=options: td.matmul(a, a, **o), backend="native").lower(x)
        text = " ".join(program.explain("cuda").split())
        assert all(w in text for w in words)
