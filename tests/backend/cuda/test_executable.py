"""Whole programs on the `cuda` backend, on a GPU made of NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import DeviceArray, EmulatedDevice, emulation, on_device
from treadle.backend import registry
from treadle.backend.cuda import availability, executable, loops
from treadle.backend.cuda.device.device import Copy


@pytest.fixture
def gpu(monkeypatch):
    """An emulated GPU in the place of the real one."""
    device = EmulatedDevice()
    monkeypatch.setattr(executable, "device_here", lambda: device)
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    caches = (registry.load, registry.why_not)
    for cache in caches:
        cache.cache_clear()
    yield device
    for cache in caches:
        cache.cache_clear()


def on_gpu(function):
    return td.jit(function, backend="cuda")


def same(function, *args, calls=3):
    """The function on the GPU, called again and again, and on the reference."""
    want = td.jit(function, backend="reference")(*args)
    compiled = on_gpu(function)
    for _ in range(calls):
        got = compiled(*args)
        for x, y in zip(_flat(got), _flat(want), strict=True):
            assert type(x) is np.ndarray
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    return compiled


def _flat(value):
    return [x for part in value for x in _flat(part)] if isinstance(value, tuple) else [value]


def the_executable(compiled, *args):
    return compiled.lower(*args).executable.calls


A = np.arange(1.0, 11.0)
M = np.arange(12.0, dtype="f4").reshape(3, 4)


# --- checks of what arrays hold ---------------------------------------------------------------


def test_segments_are_checked_after_the_work_and_before_the_results(gpu):
    def sums(values, lengths):
        return td.fold_seg(lambda x, y: x + y, 0.0, values, lengths)

    program = on_gpu(sums)
    right = np.array([3, 0, 5, 2])
    for _ in range(3):
        np.testing.assert_array_equal(program(A, right), [6, 0, 30, 19])
    executable = the_executable(program, A, right)
    assert executable.recordable
    before = dict(gpu.launched)
    for wrong, text in (([3, 0, 5, 1], "sum to 9"), ([3, 0, 5, 90], "sum to 98"),
                        ([-2, 9, 5, -2], "negative length -2")):  # fmt: skip
        with pytest.raises(td.ShapeError, match=text):
            program(A, np.array(wrong))
    assert gpu.launched != before
    np.testing.assert_array_equal(program(on_device(A), on_device(right)).get(), [6, 0, 30, 19])
    assert len(executable.tapes) == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ("scanl_seg", "scanr_seg", "scanl_total_seg", "scanr_total_seg"))
def test_wrong_segments_read_nothing_outside(gpu, form):
    """The work runs before they are known to be wrong (the emulated device tells such reads)."""
    compiled = on_gpu(lambda x, n: getattr(td, form)(lambda a, b: a + b, 0.0, x, n))
    for wrong in ([], [0], [1, 1], [5, -3, 3], [2, 10**12]):
        with pytest.raises(td.ShapeError):
            compiled(np.arange(5.0), np.array(wrong, int))


def test_checks_of_numbers_and_parameters(gpu):
    def program(values, lengths, n):
        return td.fold1_seg(lambda x, y: x * y, values * n, lengths)

    compiled = on_gpu(program)
    for n in (2.0, 3.0):
        np.testing.assert_array_equal(compiled(A[:3], np.array([1, 2]), n), [n, 6 * n * n])
    with pytest.raises(td.ShapeError, match="segment"):
        compiled(A[:3], np.array([0, 3]), 2.0)


def test_checks_in_a_loop_are_made_in_every_turn(gpu):
    def program(values, lengths):
        def iteration(state):
            v, n = state
            s = td.fold_seg(lambda x, y: x + y, 0.0, v, n)
            return v, n + td.cast(s * 0, td.int64) - td.iota(n.shape[0])

        return td.iterate(2, iteration, (values, lengths))[1]

    with pytest.raises(td.ShapeError, match="sum to"):
        on_gpu(program)(A, np.array([5, 5]))


# --- where results are, whose memory they have --------------------------------------------------


def test_host_in_host_out_and_device_in_device_out(gpu):
    program = on_gpu(lambda x, y: (x + y, td.sum(x)))
    assert all(type(r) is np.ndarray for r in program(A, A))
    for args in ((on_device(A), A), (A, on_device(A)), (on_device(A), on_device(A))):
        total, summed = program(*args)
        assert isinstance(total, DeviceArray) and isinstance(summed, DeviceArray)
        np.testing.assert_array_equal(total.get(), A + A)
    captured = on_device(A)
    assert isinstance(td.run(td.use(captured) * 2, backend="cuda"), DeviceArray)
    assert type(td.run(td.iota(3), backend="cuda")) is np.ndarray


def test_results_are_not_shared(gpu):
    d = on_device(A)
    program = on_gpu(lambda x: (x, x, td.compute(x), x + 1, td.cond(td.sum(x) > 0, x, x * 2)))
    for _ in range(3):
        found = program(d)
        for k, r in enumerate(found):
            assert not np.shares_memory(r, d)
            assert not any(np.shares_memory(r, other) for other in found[k + 1 :])
            r[...] = -1
        np.testing.assert_array_equal(d.get(), A)


def test_earlier_results_stay(gpu):
    program = on_gpu(lambda x: (td.cumsum(x), td.sort(x)))
    first = program(on_device(A))
    kept = [r.get() for r in first]
    program(on_device(A * 3))
    for r, k in zip(first, kept, strict=True):
        np.testing.assert_array_equal(r.get(), k)


def test_numbers_of_the_host_as_results(gpu):
    program = on_gpu(lambda x, n: (td.unit(n + 1), x * 2))
    assert program(A, 4)[0] == 5
    assert program(on_device(A), 6)[0].get() == 7


# --- layouts -------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[1:],
        lambda x: x.reshape(2, 5).T,
        lambda x: x.reshape(5, 2)[:, 0],
        lambda x: np.broadcast_to(x[:1], (4,)),
        lambda x: x[:0],
    ],
)
def test_views_of_device_arrays(gpu, view):
    d, h = view(on_device(A).view(np.ndarray)).view(DeviceArray), view(A)
    for f in (
        lambda x: x * 2,
        lambda x: td.sum(x),
        lambda x: td.sort(x),
        lambda x: td.scatter(x, np.array([0]), np.array([7.0])) if x.ndim == 1 else x + 1,
        lambda x: td.matmul(x, x.T) if x.ndim == 2 else x,
    ):
        if h.size == 0 and h.ndim == 1:
            f = lambda x: x * 2
        got = on_gpu(f)(d)
        want = td.jit(f, backend="reference")(h)
        np.testing.assert_allclose(got.get(), want)


# --- recordings ----------------------------------------------------------------------------------


def test_extents_are_recorded_once(gpu):
    program = on_gpu(lambda x: td.sum(x * 2) + x)
    made = the_executable(program, A)
    for n in (5, 7, 5, 7, 1000, 5):
        program(np.arange(1.0 * n + 1))
    assert len(made.tapes) == 3
    program(on_device(np.arange(6.0)))
    assert len(made.tapes) == 4


def test_numbers_that_are_no_extents_share_a_recording(gpu):
    program = on_gpu(lambda x, k, n: (x * k, td.iota(n)))
    made = the_executable(program, A, 2.0, 3)
    for k in (2.0, 3.5, -1.0):
        np.testing.assert_array_equal(program(A, k, 3)[0], A * k)
    assert len(made.tapes) == 1
    assert [len(program(A, 1.0, n)[1]) for n in (0, 3, 5)] == [0, 3, 5]
    assert len(made.tapes) == 3


def test_a_number_too_large_for_32_bits(gpu):
    program = on_gpu(lambda x, k: x * k)
    x = np.arange(5)
    for k in (3, 1 << 40, -(1 << 62), 7):
        np.testing.assert_array_equal(program(x, k), x * k)


def test_what_data_decides_is_not_recorded(gpu):
    def program(x):
        values, count = td.filter(lambda v: v > 4, x)
        return td.sum(values), count, values * 2

    made = the_executable(same(program, A), A)
    assert not made.recordable and not made.tapes
    same(lambda x: td.cond(td.sum(x) > 3, x + 1, x * 2), A)
    same(lambda x: td.cond(td.sum(x) > 300, x + 1, x * 2), A)


def test_a_branch_that_numbers_decide(gpu):
    program = on_gpu(lambda x, k: td.cond(k > 2, x + 1, x * 2))
    for k in (1, 3, 1, 3):
        np.testing.assert_array_equal(program(A, k), A + 1 if k > 2 else A * 2)
    assert the_executable(program, A, 1).recordable


def test_nothing_is_launched_over_nothing(gpu):
    program = on_gpu(lambda x: (x * 2, td.map(td.sin, x[1:])))
    assert [r.shape for r in program(np.empty(0))] == [(0,), (0,)]
    assert not gpu.launched


def test_defaults_are_updated_in_place_only_if_not_shared(gpu):
    indices = np.array([0, 2, 2])

    def one(x):
        return td.scatter(x * 2, indices, np.ones(3), lambda a, b: a + b)

    def two(x):
        kept = td.compute(x * 2)
        again = td.compute(kept)
        return td.scatter(again, indices, np.ones(3), lambda a, b: a + b), kept

    same(one, A)
    same(two, A)


# --- loops ---------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("iterations", [0, 1, 2, 7, 200, 301])
def test_counted_loops(gpu, iterations):
    same(lambda x: td.iterate(iterations, lambda s: s * 0.5 + 1, x), A)
    same(lambda x: td.loop(iterations, lambda k, s: s * 0.5 + k, x), A)
    same(lambda x, n: td.loop(n, lambda k, s: (s[1], s[0] * 0.5 + k), (x, x + 1)), A, iterations)


def neighbours(s):
    return td.stencil(lambda w: w[-1] + w[1] * 0.5, s, boundary=td.wrap)


DIRECT = {
    "one state": lambda n, x: td.iterate(n, neighbours, x),
    "one never changes": lambda n, x: td.iterate(n, lambda s: (neighbours(s[0]) + s[1], s[1]),
                                                 (x, x)),
    "exchanged": lambda n, x: td.iterate(n, lambda s: (s[1], neighbours(s[0])), (x, x + 1)),
    "in place": lambda n, x: td.iterate(n, lambda s: td.update(s, 3, s[2] + s[3] * 0.5), x),
    "of another loop": lambda n, x: td.iterate(3, lambda s: td.iterate(n, neighbours, s * 0.5), x),
    "read afterwards": lambda n, x: (td.iterate(n, neighbours, x * 2), x * 2),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 200, 301])
@pytest.mark.parametrize("name", DIRECT)
def test_the_first_iteration_reads_the_state_where_it_is(gpu, name, iterations, monkeypatch):
    """It is not copied; and nothing writes to it."""
    monkeypatch.setattr(loops, "DIRECT", 0)
    program, a = partial(DIRECT[name], iterations), A.copy()
    copied = []

    class Counted(Copy):
        def __init__(self, *blocks):
            copied.append(blocks)
            super().__init__(*blocks)

    monkeypatch.setattr(loops, "Copy", Counted)
    same(program, a)
    np.testing.assert_array_equal(a, A)
    if name == "one state":
        assert bool(copied) is (iterations == 0)
    if name in ("one never changes", "exchanged", "in place"):  # what is not direct still is there
        assert copied


def test_counters_cost_nothing_on_the_device(gpu):
    def program(x):
        return td.while_loop(lambda s: s[0] < 20, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))

    counted = on_gpu(program)
    counted(A)
    gpu.launched.clear()
    count, _ = counted(A)
    assert count == 20
    assert sum(gpu.launched.values()) == 20


def test_a_test_that_no_state_changes(gpu):
    program = on_gpu(
        lambda x, n: td.while_loop(
            lambda s: td.the(td.unit(n)) > 5, lambda s: (s[0] * 2, s[1] + 1), (x, 0)
        )
    )
    found, iterations = program(A, 3)
    np.testing.assert_array_equal(found, A)
    assert iterations == 0


def test_states_that_change_together_are_fused(gpu):
    on_gpu(lambda x: td.loop(200, lambda k, s: (td.roll(s[0], 1) + s[1] * k, s[1]), (x, x)))(A)
    assert sorted(gpu.launched.values()) == [200, 200]  # the iterations, and the index of the loop


def test_loops_that_data_ends(gpu):
    same(lambda x: td.while_loop(lambda s: td.the(td.sum(s)) < 1000, lambda s: s * 1.5, x), A)
    same(lambda x: td.while_loop(lambda s: td.the(td.sum(s)) < 0, lambda s: s * 1.5, x), A)
    same(
        lambda x: td.while_loop(
            lambda s: td.the(td.sum(s[0])) < 1000, lambda s: (s[1] * 1.5, s[0]), (x, x + 1)
        ),
        A,
    )
    # What does not change is not copied, and what counts is kept.
    same(
        lambda x: td.while_loop(
            lambda s: td.the(td.max(s[0])) < 100, lambda s: (s[0] + s[1], s[1], s[2] + 1), (x, x, 0)
        ),
        A,
    )


def test_loops_that_data_ends_update_in_place(gpu):
    """No iteration after the failed test: it would change the last state."""
    for second in (lambda b: b * 3, lambda b: td.concatenate([b, b])[: b.shape[0]]):

        def program(x, second=second):
            b = td.maximum(x, 2)
            return td.while_loop(
                lambda s: (td.the(s[2]) < 5) & (td.the(td.sum(b)) > -1),
                lambda s: (second(b), td.update(s[0], slice(1, None), b[:-1]), s[2] + 1),
                (b, b, td.unit(0)),
            )[0]

        same(program, A)


def test_loops_in_loops(gpu):
    same(lambda x: td.iterate(5, lambda s: td.iterate(40, lambda t: t * 0.9 + 1, s) + 1, x), A)
    same(
        lambda x: td.iterate(
            3,
            lambda s: td.while_loop(lambda t: td.the(td.sum(t)) < 50, lambda t: t * 1.1, s * 0.5),
            x,
        ),
        A,
    )
    same(lambda x: td.loop(3, lambda i, s: td.loop(i, lambda k, t: t * 0.5 + k, s), x), A)


def test_loops_after_what_cannot_be_recorded(gpu):
    def program(x):
        values, _ = td.filter(lambda v: v > 4, x)
        return td.iterate(100, lambda s: s * 0.5 + 1, values)

    same(program, A)
    same(lambda x: td.iterate(4, lambda s: td.sort(-s), x), A)
    same(lambda x: td.iterate(3, lambda s: s @ s.T / 100, x), np.ones((4, 4)))
    same(lambda x: td.loop(4, lambda k, s: td.cond(td.sum(s) > 50, s * 0.5, s + k), x), A)


def test_loops_that_differ_by_numbers_of_the_host_are_recorded_one_after_the_other(gpu):
    def rows(x):
        return td.loop(5, lambda i, s: td.loop(i, lambda k, t: t * 0.5 + k, s), x)

    triangle = same(rows, A)
    calls = the_executable(triangle, A)
    assert calls.recordable and len(calls.tapes) == 1

    def loss(x, k):
        return td.sum(td.iterate(30, lambda u: u + k * td.roll(u, 1) * u, x))

    x = A / 50
    stored = on_gpu(td.value_and_grad(loss, (0, 1)))(x, 0.3)
    checkpointed = on_gpu(td.value_and_grad(loss, (0, 1), memory=8 * x.nbytes))
    for _ in range(3):
        for a, b in zip(_flat(checkpointed(x, 0.3)), _flat(stored), strict=True):
            np.testing.assert_array_equal(a, b)
    calls = the_executable(checkpointed, x, 0.3)
    assert calls.recordable and len(calls.tapes) == 1
    assert "iterate inside has another number of" in checkpointed.lower(x, 0.3).explain()


def test_recordings_have_a_limit(gpu, monkeypatch):
    from treadle.backend.cuda import loops

    def program(x):
        return td.loop(12, lambda i, s: td.loop(i, lambda k, t: t * 0.5 + td.max(t) / 9, s), x)

    assert the_executable(same(program, A), A).recordable
    monkeypatch.setattr(loops, "UNROLLED", 40)
    assert not the_executable(same(program, A + 1), A + 1).recordable


def test_explain_says_how_loops_run(gpu):
    walked = on_gpu(lambda x: td.iterate(9, lambda s: s * 2, x)).lower(A).explain()
    assert "one kernel walks along the axis" in walked
    counted = on_gpu(lambda x: td.iterate(9, lambda s: s * td.sum(s), x)).lower(A).explain()
    assert "CUDA graphs of its iterations" in counted
    tested = on_gpu(lambda x: td.while_loop(lambda s: td.the(td.sum(s)) < 9, lambda s: s * 2, x))
    assert "conditional node" in tested.lower(A).explain()
    sorting = on_gpu(lambda x: td.iterate(9, lambda s: td.sort(-s), x)).lower(A).explain()
    assert "iteration by iteration, for sort is a library's" in sorting


def test_explain_says_what_is_copied_in_each_call(gpu):
    large = np.zeros(1 << 17)
    text = on_gpu(lambda x: x + large).lower(large).explain()
    assert "Captured arrays of the host, 1.05 MB, are copied to the GPU in each call" in text
    placed = on_device(large)
    assert "Captured arrays" not in on_gpu(lambda x: x + td.use(placed)).lower(large).explain()


# --- checks and libraries ------------------------------------------------------------------------


def test_checked_mode(gpu):
    outside = td.map(lambda i: td.use(A)[i + 5], td.iota(10))
    with pytest.raises(IndexError, match=r"index 1\d is out of range for axis 0"):
        td.run(outside, backend="cuda", check=True)
    inside = td.map(lambda i: td.use(A)[i], td.iota(10))
    np.testing.assert_array_equal(td.run(inside, backend="cuda", check=True), A)
    same(lambda x: td.iterate(3, lambda s: td.roll(s, 1), x), A)


def test_products(gpu):
    x = np.arange(12.0).reshape(3, 4)
    same(lambda a: a @ a.T, x)
    same(lambda a: td.strassen(a @ a.T, a @ a.T, levels=2), x)
    same(lambda a: td.matmul(a[:, ::-1], a.T), x)
    same(lambda a: td.matmul(a[:, :0], a.T[:0]), x)
    same(lambda a: a @ td.conj(a.T), x + 1j)


def test_foreign_functions_of_the_device(gpu):
    def doubled(x):
        assert isinstance(x, DeviceArray)
        return on_device(x.get() * 2)

    def program(x):
        return td.foreign_array({"cuda": doubled}, x, fallback=lambda v: v * 2) + 1

    np.testing.assert_array_equal(on_gpu(program)(A), A * 2 + 1)


def test_tuning_times_what_is_on_the_device(gpu):
    program = on_gpu(lambda a: td.map(td.sin, a, name="wave").T + 1).lower(M)
    tuned = program.tune(M, budget=3.0, progress=False)
    assert tuned.tuning.rows
    np.testing.assert_array_equal(tuned(M), program(M))


def test_tuning_of_products_on_the_device(gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    a = np.arange(40 * 40, dtype=np.float32).reshape(40, 40) % 101

    def product(a, schedule=None):
        return td.matmul(a, a, algorithm="strassen", name="product", schedule=schedule)

    program = on_gpu(product).lower(a)
    table = program.tune(a, budget=30.0, progress=False).tuning
    assert {r.schedule.execution for r in table.rows if r.schedule} >= {"batched", "streams"}
    assert not table.refused and "timed (program.tune" in " ".join(program.explain().split())
    by_itself = on_gpu(lambda a: product(a, td.schedule.Tuned()))
    np.testing.assert_allclose(by_itself(a), a @ a, rtol=1e-5)


def test_variants_that_want_more_shared_memory_than_there_is_are_left_out(gpu, monkeypatch):
    """A consumer card has 100 KB a block: what follows in the chain takes over."""
    from treadle.backend.cuda.codegen.text import dynamic_shared_bytes
    from treadle.skeletons.lower.scan import gpu as scan

    monkeypatch.setattr(scan, "LONG_ROW", 256)
    x = np.arange(3000, dtype=np.float32)
    wants = []
    for room in (227 << 10, 99 << 10):
        monkeypatch.setattr(gpu, "shared", room)
        program = td.jit(lambda x: td.cumsum(x), backend="cuda").lower(x)
        np.testing.assert_array_equal(program(x), np.cumsum(x, dtype=np.float64).astype("f4"))
        (step,) = program.executable.kernel_steps
        (made,) = step.variants.values()
        kernels = [variant.kernel for chain in made.launches for variant in chain]
        wants.append(max(dynamic_shared_bytes(k) for k in kernels))
    assert wants[0] > 99 << 10 >= wants[1]


# --- argmin and argmax of rows that fill several rounds of a block -------------------------------

N = 2 * 4096 + 77
RNG = np.random.default_rng(7)


def special(kind, dtype):
    """An array with what a comparison may get wrong."""
    if kind == "ties":
        return RNG.integers(0, 3, N).astype(dtype)
    if kind == "all worst":
        worst = -np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min
        return np.full(N, worst, dtype)
    made = RNG.integers(0, 100, N).astype(dtype)
    if kind == "nan":
        made[[6000, 5000, 8200]] = np.nan
    if kind == "late":
        made[-1] = 101
    return made


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "dtype", "axis"),
    [
        ("ties", np.float32, 0),
        ("all worst", np.float32, 1),
        ("nan", np.float32, 1),
        ("nan", np.float16, 0),
        ("late", np.float64, 1),
        ("ties", np.uint8, 1),
        ("all worst", np.int64, 1),
    ],
)
def test_long_rows(kind, dtype, axis):
    row = special(kind, dtype)
    a = np.stack([row, row[::-1]], axis=1 - axis)
    ours, theirs = (td.argmin, np.argmin) if kind == "late" else (td.argmax, np.argmax)
    with emulation():
        found = td.run(ours(a, axis=axis), backend="cuda")
        np.testing.assert_array_equal(np.asarray(found), theirs(a, axis=axis))


@pytest.mark.sample(2)
@pytest.mark.parametrize("order", ["Column(64)", "ZigZag(4)", "Tile(4, 4)"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 300), (7, 3), (33, 1)])
def test_idle_threads_of_a_fold_read_nothing(gpu, shape, order):
    """Blocks have more threads than a short fold has rows and columns."""
    schedule = eval(f"td.schedule.{order}")
    a = np.arange(float(np.prod(shape))).reshape(shape)
    same(lambda a: td.sum(a, axis=0, schedule=schedule), a, calls=1)
    fixed = td.generate(shape, lambda i, j: td.cast(i * 3 + j, float))
    same(lambda: td.mean(td.sort(fixed, 0), axis=0, schedule=schedule), calls=1)


def test_short_columns_of_known_extents_under_a_schedule():
    """A thread per column: the others of its block read no elements beyond the array."""
    order = td.schedule.Row() | td.schedule.Block(3, 5)

    def columns(n):
        filled = td.fill((8, 3), 2.5)
        return filled, td.sum(filled, axis=0, schedule=order)

    with emulation():
        assert (td.jit(columns, backend="cuda")(3)[1] == 20).all()


def test_a_choice_where_the_guard_of_a_kernel_is_not_known(gpu):
    """Nothing is stored beyond the output, whatever the model knows of conditions."""
    x, y = np.arange(17, dtype="u2")[None], np.full((1, 17), 3, "u2")

    def program(x, y):
        def step(s):
            joined = td.concatenate([s[0], x], 0)[: s[0].shape[0]]
            return td.maximum(s[1], x), y - td.reverse(s[1], axis=0), joined

        return td.iterate(6, step, (x, x, x))

    same(program, x, y, calls=1)
