"""`CudaDevice` and its graphs, on a driver that is only pretended."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend import registry
from treadle.backend.cuda import availability, executable
from treadle.backend.runtime.executor import Executor

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")

from tests.backend.cuda.device.pretended import pretend  # noqa: E402
from treadle.backend.cuda.device.device import Block, Call, Fill, Repeat  # noqa: E402
from treadle.backend.cuda.graphs.launch import LEAST, graph_parts  # noqa: E402

A = np.arange(1.0, 11.0)


@pytest.fixture
def gpu(monkeypatch):
    device, driver = pretend(monkeypatch)
    monkeypatch.setattr(executable, "device_here", lambda: device)
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    caches = (registry.load, registry.why_not)
    for cache in caches:
        cache.cache_clear()
    yield device, driver
    for cache in caches:
        cache.cache_clear()


def same(gpu, function, *args, calls=4):
    """The function again and again: the first calls launch, later ones replay graphs."""
    device, _ = gpu
    want = td.jit(function, backend="reference")(*args)
    compiled = td.jit(function, backend="cuda")
    for _ in range(calls):
        for x, y in zip(_flat(compiled(*args)), _flat(want), strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5)
    placed = [
        cupy.ndarray(a.shape, a.dtype, device.upload(a).data) if isinstance(a, np.ndarray) else a
        for a in args
    ]
    for _ in range(2):
        for x, y in zip(_flat(compiled(*placed)), _flat(want), strict=True):
            assert isinstance(x, cupy.ndarray)
            np.testing.assert_allclose(device.download(x), y, rtol=1e-3, atol=1e-5)
    return compiled


def _flat(value):
    return [x for part in value for x in _flat(part)] if isinstance(value, tuple) else [value]


def test_one_kernel_is_launched(gpu):
    same(gpu, lambda x: td.sin(x) * 2 + 1, A)
    assert gpu[1].graphs == 0


def test_several_kernels_become_a_graph(gpu):
    same(gpu, lambda x: (td.sum(x), x[::-1] * td.max(x), td.compute(x + 1) * 2), A)
    assert gpu[1].graphs > 0


def test_parts_between_loops_become_graphs(gpu):
    """What lies between loops (and library calls) is launched by graphs, in order."""

    def several(x):
        return td.compute(x[::-1] + td.sum(x) / td.max(x) + td.min(x * 2) - td.sum(x[1:] * x[:-1]))

    def program(x):
        y = td.iterate(48, lambda s: td.compute(s * 0.5)[::-1], several(x))
        z = several(y + x)
        return several(td.iterate(48, lambda s: td.compute(s * 0.5 + z)[::-1], z) + y), td.sum(y)

    compiled = same(gpu, program, A)
    driver = gpu[1]
    executable = compiled.lower(A).executable
    _, _, replay, _ = next(iter(executable.calls.tapes.values()))
    assert len(replay.parts) == 3 and driver.graphs >= 3 and not replay.whole
    for a, b in replay.parts.items():
        assert b - a >= LEAST
        assert not any(isinstance(op, Call | Repeat) for op in replay.operations[a:b])


def test_parts_of_a_program():
    fill = Fill(Block((), np.dtype("f8")), np.zeros(()))
    call = Call(lambda reads, writes: None, (), ())
    assert graph_parts([fill] * 2, 0) == {0: 2} and graph_parts([fill], 0) == {}
    assert graph_parts([fill] * 9, 4) == {0: 9}  # the host reads numbers within the graph
    some = [*[fill] * 4, call, *[fill] * 3, call, call, *[fill] * 5]
    assert graph_parts(some, 0) == {0: 4, 10: 15}
    assert graph_parts([*[fill] * 9, call], 4) == {0: 4, 4: 9}
    assert graph_parts([*[fill] * 9, call], 3) == {3: 9}
    assert graph_parts([call, *[fill] * 4], 1) == {1: 5}


def test_checks_of_numbers_come_before_the_rest(gpu):
    """Segments that do not cover the axis are noticed in every call, by a graph as without one."""
    device, driver = gpu
    program = same(gpu, lambda x, n: td.fold_seg(td.add, 0.0, x * 2, n), A, np.array([3, 0, 7]))
    assert driver.graphs > 0
    placed = [cupy.ndarray(a.shape, a.dtype, device.upload(a).data) for a in (A, np.array([4, 6]))]
    for _ in range(4):
        with pytest.raises(td.ShapeError, match="sum to 9, but the axis has extent 10"):
            program(A, np.array([3, 0, 6]))
        np.testing.assert_array_equal(device.download(program(*placed)), [20.0, 90.0])
    executable = program.lower(A, np.array([3, 0, 7])).executable
    _, _, replay, _ = next(iter(executable.calls.tapes.values()))
    names = [op.code.kernel.name for op in replay.operations if hasattr(op, "code")]
    assert all("check_of_lengths" in n for n in names[: replay.early])
    assert "fold_seg" in names[-1]


def test_calls_that_repeat_go_straight_to_the_replay(gpu, monkeypatch):
    device, _ = gpu
    slow = []
    whole = Executor.__call__
    monkeypatch.setattr(Executor, "__call__",
                        lambda self, *a: slow.append(1) or whole(self, *a))  # fmt: skip
    program = td.jit(lambda x, k, b: (x[::-1] * k, td.where(b, td.sum(x), 0.0)), backend="cuda")

    def placed(a):
        return cupy.ndarray(a.shape, a.dtype, device.upload(a).data)

    def check(a, k, b, ways):
        before = len(slow)
        many, one = program(a if isinstance(a, np.ndarray) else a[0], k, b)
        host = a if isinstance(a, np.ndarray) else a[1]
        fetch = (lambda r: r) if isinstance(a, np.ndarray) else device.download
        np.testing.assert_allclose(fetch(many), host[::-1] * k)
        np.testing.assert_allclose(fetch(one), host.sum() if b else 0.0)
        assert len(slow) - before == ways

    d, longer = (placed(A), A), (placed(np.tile(A, 2)), np.tile(A, 2))
    check(d, 2.0, True, 1)
    for k, b in ((2.0, True), (3.0, False), (-1.0, True)):
        check(d, k, b, 0)
    check(longer, 2.0, True, 1)
    check(longer, 4.0, True, 0)
    check(d, 4.0, True, 0)
    check(d, 4, True, 1)  # another program: the number is an integer
    check(A, 4.0, True, 1)  # on the host
    whole_array = device.upload(np.repeat(A, 2))
    strided = cupy.ndarray((10,), A.dtype, whole_array.data, strides=(16,))
    check((strided, A), 4.0, True, 1)
    shifted = cupy.ndarray((9,), A.dtype, d[0].data + 8)
    check((shifted, A[1:]), 4.0, True, 1)
    with pytest.raises(td.TracingError, match="missing a required argument"):
        program(d[0], 2.0)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_scalars_of_every_type(gpu, dtype):
    scalar = np.asarray(1).astype(dtype)[()]
    same(gpu, lambda x, k: (td.where(x > k, x, x + 1) if dtype[0] != "c" else x + k,
                            td.fill((3,), k), td.unit(k)), A.astype(dtype), scalar)  # fmt: skip


def test_loops(gpu):
    same(gpu, lambda x: td.iterate(300, lambda s: s * 0.5 + 1, x), A)
    same(gpu, lambda x: td.loop(301, lambda k, s: s * 0.5 + k, x), A)
    same(gpu, lambda x: td.loop(7, lambda k, s: (s[1], s[0] + k), (x, x * 2)), A)
    same(gpu, lambda x: td.iterate(5, lambda s: td.iterate(60, lambda t: t * 0.9, s) + 1, x), A)
    assert gpu[1].graphs > 0


def test_graphs_of_loops_follow_numbers(gpu):
    program = td.jit(lambda x, k: td.iterate(600, lambda s: s * k + 1, x), backend="cuda")
    ended = td.jit(
        lambda x, k: td.while_loop(lambda s: td.the(td.sum(s)) > 3, lambda s: s * k, x),
        backend="cuda",
    )
    for k in (0.5, 0.5, 0.25, 0.5, 0.75, 0.75):
        np.testing.assert_allclose(program(A, k), np.full(10, 1 / (1 - k)))
        state = A
        while state.sum() > 3:
            state = state * k
        np.testing.assert_allclose(ended(A, k), state)


def test_graphs_know_numbers_by_their_bits(gpu):
    """0.0 and -0.0 are equal, and a NaN differs from itself."""
    program = td.jit(lambda x, k: (1 / td.compute(x * k), td.sum(x)), backend="cuda")
    looped = td.jit(lambda x, k: 1 / td.iterate(301, lambda s: k * s, x), backend="cuda")
    for _ in range(2):
        for k in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0):
            np.testing.assert_array_equal(program(A, k)[0], np.full(10, np.copysign(np.inf, k)))
            np.testing.assert_array_equal(looped(A, k), np.full(10, np.copysign(np.inf, k)))
    made = []
    for text in ("0.5", "nan"):
        before = gpu[1].graphs
        for _ in range(6):
            program(A, float(text))
        made.append(gpu[1].graphs - before)
    assert made[0] == made[1]


def test_loops_that_test_themselves(gpu):
    same(gpu, lambda x: td.while_loop(lambda s: td.the(td.sum(s)) < 999, lambda s: s * 1.5, x), A)
    same(
        gpu,
        lambda x: td.while_loop(
            lambda s: td.the(td.sum(s[0])) < 999, lambda s: (s[1] * 1.5, s[0], s[2]), (x, x + 1, x)
        ),
        A,
    )
    same(gpu, lambda x: td.while_loop(lambda s: td.the(td.sum(s)) < 0, lambda s: s * 1.5, x), A)
    for limit in (70, 100, 150, 230):  # an odd and an even number of iterations
        same(
            gpu,
            lambda x, n: td.while_loop(lambda s: td.the(td.sum(s)) < n, lambda s: s * 1.5, x),
            A,
            limit,
        )
    assert gpu[1].conditions


def test_a_turn_too_many_reads_nothing_outside(gpu):
    """Where the state says what to read, no iteration runs after the test has failed."""
    steps = np.array([1, 2, 2, 3, 1, 10**9])

    def program(x):
        def iteration(s):
            at, total = s
            return td.map(lambda i: i + td.use(steps)[i], at), total + 1.0

        return td.while_loop(lambda s: td.the(td.max(s[0])) < 5, iteration, (x, td.ones(3)))

    same(gpu, program, np.array([0, 1]))
    assert gpu[1].conditions


def test_without_conditional_nodes_the_host_tests(gpu, monkeypatch):
    from treadle.backend.cuda.graphs import graphs

    monkeypatch.setattr(graphs, "conditional", lambda device: "the driver is old")
    same(gpu, lambda x: td.while_loop(lambda s: td.the(td.sum(s)) < 999, lambda s: s * 1.5, x), A)
    assert not gpu[1].conditions


def test_fills(gpu):
    for value in (0, 1, -1, 1 << 40, 0x0101010101010101):
        same(gpu, lambda x, v=value: td.while_loop(
            lambda s: td.the(s[0]) < v + td.cast(td.the(td.min(s[1])), td.int64),
            lambda s: (s[0] + 1, s[1]), (v, x)), A)  # fmt: skip


def test_copies_of_nothing(gpu):
    """CUDA refuses nodes of graphs that do nothing."""
    empty = np.zeros((3, 0, 2))
    same(gpu, lambda x, e: (td.sum(x), x[::-1] * td.max(x), td.compute(e), td.compute(e) + 1), A,
         empty)  # fmt: skip
    assert gpu[1].graphs > 0
    for n in (0, 1, 20):
        same(gpu, lambda x, e, n=n: td.iterate(n, lambda s: (s[0] + td.sum(s[1]), s[1] * 2),
                                               (x, td.compute(e)))[1], A, empty)  # fmt: skip
        same(gpu, lambda x, e, n=n: td.while_loop(lambda s: td.the(s[2]) < n,
                                                  lambda s: (s[0] + 1, s[1] * 2, s[2] + 1),
                                                  (x, e, 0))[1], A, empty)  # fmt: skip


def test_out_of_memory(gpu, monkeypatch):
    from treadle.backend.cuda.device import driver

    device, _ = gpu
    freed = []

    class Pool:
        def free_all_blocks(self):
            freed.append(1)

        def used_bytes(self):
            return 1234567

    def refuse(*args):
        raise cupy.cuda.memory.OutOfMemoryError(1, 2)

    monkeypatch.setattr(driver.cupy, "get_default_memory_pool", Pool)
    monkeypatch.setattr(driver.cupy, "ndarray", refuse)
    monkeypatch.setattr(driver.runtime, "memGetInfo", lambda: (1000, 2000), raising=False)
    from treadle.backend.cuda.graphs import launch

    with pytest.raises(MemoryError, match=r"80 bytes asked for, 1,234,567 in use by arrays, 1,000"):
        launch.CudaDevice.empty(device, (10,), np.dtype("f8"))
    assert freed == [1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "is lost for this process"),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU", "does not take code for sm_90a"),
        ("CUDA_ERROR_INVALID_VALUE", "launching: CUDA_ERROR_INVALID_VALUE"),
    ],
)
def test_errors_of_the_driver(gpu, monkeypatch, name, says):
    from treadle.backend.cuda.device import driver
    from treadle.backend.cuda.graphs import queued

    def broken(*args):
        raise driver.DriverError(name, "launching")

    program = td.jit(lambda x: x * 2, backend="cuda")
    program(A)
    monkeypatch.setattr(queued.LaunchStep, "run", broken)
    with pytest.raises(td.BackendUnavailable, match=says):
        program(A)
    np.testing.assert_array_equal(td.jit(lambda x: x * 2, backend="native")(A), A * 2)


def test_the_kernels_of_loops_compile():
    from treadle.backend.cuda.compile import nvrtc
    from treadle.backend.cuda.graphs import graphs

    pytest.importorskip("cuda.core")
    for name in ("go_on", "unless"):
        assert nvrtc.compile_text(graphs._LOOPS, name, "sm_90a").spills == 0
