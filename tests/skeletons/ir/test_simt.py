"""The SIMT interpreter finds what is wrong with a kernel, and computes what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.skeletons.ir.simt import launch
from tests.skeletons.ir.simt_memory import Divergence, Endless, KernelFault, OutOfRange, Race
from treadle.dsl.expr import Apply, Const, Expr, Var, constant, primitive
from treadle.dsl.graph import Combine
from treadle.dsl.types import bool_, float32, int32, int64, uint32
from treadle.skeletons.ir import arithmetic as at, kernel as ir
from treadle.skeletons.ir.verify import verify

N = Var("n", int64)
TASK, THREAD = Var("task", int64), Var("thread", int64)
LANE = at.remainder(THREAD, 32)
A = ir.Buffer("a", int64, "input", N)
OUT = ir.Buffer("out", int64, "output", N)
FLAGS = ir.Buffer("zero_flags", int32, "scratch", N)
TICKET = ir.Buffer("zero_ticket", int64, "scratch", constant(1))
SHARED = ir.Buffer("tile", int64, "shared", constant(64))
LOCAL = ir.Buffer("own", int64, "local", constant(4))


def position(threads: int) -> Expr:
    return at.add(at.multiply(TASK, threads), THREAD)


def run(*body: ir.Statement, n: int = 64, tasks: int = 1, threads: int = 64, seed: int = 0,
        **arrays: Any) -> np.ndarray:  # fmt: skip
    """Launch a kernel over `a = 0, 10, 20, …`; what it leaves in `out`."""
    buffers = (A, OUT, FLAGS, TICKET, SHARED, LOCAL)
    kernel = ir.Kernel("hand", buffers, (N,), (N,), constant(tasks), TASK, body, threads=threads,
                       thread=THREAD, aligned=(A, OUT))  # fmt: skip
    verify(kernel)
    held = {A: np.arange(n) * 10, OUT: np.full(n, -1), FLAGS: np.zeros(n, np.int32),
            TICKET: np.zeros(1, np.int64)}  # fmt: skip
    held.update({b: arrays[b.name] for b in buffers if b.name in arrays})
    launch(kernel, held, [n], tasks, seed)
    return held[OUT]


def call(name: str, *args: Expr) -> Expr:
    return Apply(primitive(name), args, args[0].type)


def let(name: str, value: Expr) -> tuple[Var, ir.Let]:
    var = Var(name, value.type)
    return var, ir.Let(var, value)


SEEDS = pytest.mark.parametrize("seed", range(4))


def test_a_thread_each():
    p = position(32)
    inside = ir.If(at.less(p, N), (ir.Store(OUT, p, at.add(ir.Load(A, p), 1)),))
    for n in (0, 1, 31, 32, 33, 1000):
        got = run(inside, n=n, tasks=-(-n // 32), threads=32)
        assert np.array_equal(got, np.arange(n) * 10 + 1)


def test_masks_of_conditions_and_loops():
    p = position(32)
    total, k = Var("total", int64), Var("k", int64)
    got = run(
        ir.Declare(total, constant(0)),
        ir.For(k, constant(0), p, (ir.Assign(total, at.add(total, k)),)),
        ir.If(at.equal(at.remainder(p, 2), 0), (ir.Store(OUT, p, total),),
              (ir.Store(OUT, p, at.subtract(0, total)),)),
        tasks=2, threads=32,
    )  # fmt: skip
    want = np.array([i * (i - 1) // 2 * (1 if i % 2 == 0 else -1) for i in range(64)])
    assert np.array_equal(got, want)


def test_while_until_no_lane_is_active():
    x, iterations = Var("x", int64), Var("iterations", int64)
    odd = at.equal(at.remainder(x, 2), 1)
    step = at.select(odd, at.add(at.multiply(x, 3), 1), at.floor_divide(x, 2))
    got = run(
        ir.Declare(x, at.add(THREAD, 1)),
        ir.Declare(iterations, constant(0)),
        ir.While(
            (), at.less(1, x), (ir.Assign(x, step), ir.Assign(iterations, at.add(iterations, 1)))
        ),
        ir.Store(OUT, THREAD, iterations),
    )
    assert got[26] == 111 and got[0] == 0 and got[63] == 6


def test_endless_loops():
    x = Var("x", int64)
    with pytest.raises(Endless):
        run(ir.Declare(x, constant(0)), ir.While((), at.less(x, 1), (ir.Assign(x, constant(0)),)))


def test_integers_wrap():
    x = Const(np.int64(2**62), int64)
    big = call("multiply", x, call("add", THREAD, constant(2)))
    assert run(ir.Store(OUT, THREAD, big))[0] == -(2**63)


def test_ranges_hold_for_active_lanes_only():
    inside = at.less(THREAD, 10)
    ir_store = ir.Store(OUT, THREAD, ir.Load(A, THREAD))
    assert np.array_equal(run(ir.If(inside, (ir_store,)), n=10), np.arange(10) * 10)
    with pytest.raises(OutOfRange, match=r"hand: load a\[63\] of 10"):
        run(ir_store, n=10)
    with pytest.raises(OutOfRange, match=r"store out\[-1\] of 64"):
        run(ir.Store(OUT, at.subtract(THREAD, 1), constant(0)))
    with pytest.raises(OutOfRange, match=r"load own\[4\] of 4"):
        run(ir.Store(OUT, THREAD, ir.Load(LOCAL, at.remainder(THREAD, 5))))
    with pytest.raises(OutOfRange, match=r"load a\[64\]"):  # one value for all lanes
        run(ir.Store(OUT, THREAD, ir.Load(A, N)))


def test_local_arrays_are_private():
    k = Var("k", int64)
    got = run(
        ir.For(k, constant(0), constant(4), (ir.Store(LOCAL, k, at.add(THREAD, k)),), "unrolled"),
        ir.Store(OUT, THREAD, ir.Load(LOCAL, at.remainder(THREAD, 4))),
    )
    assert np.array_equal(got, np.arange(64) + np.arange(64) % 4)


def test_unwritten_memory_is_garbage():
    assert run(ir.Store(OUT, THREAD, ir.Load(SHARED, THREAD)))[0] == 0x5B5B5B5B5B5B5B5B


def test_vectors():
    x, y = Var("x", int64), Var("y", int64)
    pair = at.multiply(THREAD, 2)
    got = run(ir.LoadVector((x, y), A, pair), ir.StoreVector(OUT, pair, (y, x)), n=128)
    assert np.array_equal(got.reshape(-1, 2), (np.arange(128) * 10).reshape(-1, 2)[:, ::-1])
    with pytest.raises(OutOfRange, match="2 elements at a\\[1\\]: not aligned"):
        run(ir.LoadVector((x, y), A, at.add(pair, 1)), n=200)
    with pytest.raises(OutOfRange):
        run(ir.LoadVector((x, y), A, pair), n=127)


# --- races ---

REVERSED = ir.Load(SHARED, at.subtract(63, THREAD))
FILL = ir.Store(SHARED, THREAD, ir.Load(A, THREAD))
TAKE = ir.Store(OUT, THREAD, REVERSED)


def test_shared_memory_with_barriers():
    assert np.array_equal(run(FILL, ir.Barrier(), TAKE), np.arange(64)[::-1] * 10)


def test_a_missing_barrier():
    with pytest.raises(Race, match=r"reads tile\[.*wrote: no barrier between"):
        run(FILL, TAKE)


def test_write_after_read():
    refill = ir.Store(SHARED, THREAD, constant(0))
    k = Var("k", int64)
    with pytest.raises(Race, match=r"writes tile\[.*read: no barrier"):
        run(FILL, ir.Barrier(), TAKE, refill)
    iteration = (FILL, ir.Barrier(), TAKE, ir.Barrier())
    run(ir.For(k, constant(0), constant(3), iteration))
    with pytest.raises(Race, match="writes tile"):
        run(ir.For(k, constant(0), constant(3), iteration[:-1]))


def test_a_warp_is_not_in_lockstep():
    neighbour = ir.Load(SHARED, call("bitwise_xor", THREAD, constant(1)))
    take = ir.Store(OUT, THREAD, neighbour)
    with pytest.raises(Race, match="no barrier between"):
        run(FILL, take)
    meet = ir.Collective(Var("votes", uint32), "ballot", (at.less(THREAD, 0),))
    with pytest.raises(Race, match="no barrier between"):  # orders registers, not memory
        run(FILL, meet, take)
    assert np.array_equal(run(FILL, ir.Barrier(), take), (np.arange(64) ^ 1) * 10)


def test_threads_that_store_to_one_place():
    with pytest.raises(Race, match=r"different values to tile\[0\]"):
        run(ir.Store(SHARED, constant(0), THREAD))
    run(ir.Store(SHARED, constant(0), constant(7)), ir.Barrier(),
        ir.Store(OUT, THREAD, ir.Load(SHARED, constant(0))))  # fmt: skip
    with pytest.raises(Race):
        run(ir.Store(OUT, at.floor_divide(THREAD, 2), THREAD))


@SEEDS
def test_blocks_that_store_to_one_place(seed):
    same = ir.Store(OUT, THREAD, constant(5))
    with pytest.raises(Race, match=r"two blocks store to out|of block"):
        run(same, tasks=2, seed=seed)


@SEEDS
def test_blocks_that_read_what_others_store(seed):
    p = position(32)
    other = at.remainder(at.add(p, 32), 64)
    with pytest.raises(Race, match="nothing orders blocks"):
        run(ir.Store(OUT, p, constant(1)), ir.Store(OUT, p, ir.Load(OUT, other)), tasks=2,
            threads=32, seed=seed)  # fmt: skip


def test_atomics():
    sums = ir.Buffer("zero_sums", int64, "shared", constant(64))
    left, right = Var("new", int64), Var("old", int64)
    add = Combine((left,), (right,), (at.add(left, right),))
    bins = at.remainder(THREAD, 3)
    kernel = ir.Kernel(
        "atomics", (OUT, sums), (), (), constant(1), TASK,
        (ir.Store(sums, THREAD, constant(0)), ir.Barrier(),
         ir.Atomic((sums,), bins, (THREAD,), add), ir.Barrier(),
         ir.Store(OUT, THREAD, ir.Load(sums, THREAD))),
        threads=64, thread=THREAD,
    )  # fmt: skip
    out = np.zeros(64, np.int64)
    launch(kernel, {OUT: out}, [], 1)
    assert list(out[:4]) == [sum(range(k, 64, 3)) for k in range(3)] + [0]
    with pytest.raises(Race):  # the sum is read while others still add
        run(ir.Atomic((OUT,), constant(0), (THREAD,), add),
            ir.Store(SHARED, THREAD, ir.Load(OUT, constant(0))))  # fmt: skip


# --- barriers and collectives ---


def test_divergent_barriers():
    with pytest.raises(Divergence, match="10 of 64 threads of block 0 reach a barrier"):
        run(ir.If(at.less(THREAD, 10), (ir.Barrier(),)))
    run(ir.If(at.less(TASK, 1), (ir.Barrier(),)), tasks=3)  # whole blocks


def test_divergent_collectives():
    vote = ir.Collective(Var("v", uint32), "ballot", (at.less(THREAD, 5),))
    run(ir.If(at.less(THREAD, 32), (vote,)))
    with pytest.raises(Divergence, match="8 of 32 threads of a warp"):
        run(ir.If(at.less(THREAD, 40), (vote,)))


@pytest.mark.parametrize(("op", "by", "want"), [
    ("shuffle", constant(3), lambda t: t // 32 * 32 + 3),
    ("shuffle_up", constant(2), lambda t: np.where(t % 32 < 2, t, t - 2)),
    ("shuffle_down", constant(5), lambda t: np.where(t % 32 > 26, t, t + 5)),
    ("shuffle_xor", constant(9), lambda t: t ^ 9),
])  # fmt: skip
def test_shuffles(op, by, want):
    x = Var("x", int64)
    got = run(ir.Collective(x, op, (THREAD, by)), ir.Store(OUT, THREAD, x))
    assert np.array_equal(got, want(np.arange(64)))


def test_ballot_and_match():
    votes, same = Var("votes", uint32), Var("same", uint32)
    wide = lambda e: Apply(primitive("cast"), (e,), int64)
    got = run(ir.Collective(votes, "ballot", (at.less(at.remainder(THREAD, 8), 1),)),
              ir.Collective(same, "match", (at.remainder(THREAD, 16),)),
              ir.If(at.less(THREAD, 32), (ir.Store(OUT, THREAD, wide(votes)),),
                    (ir.Store(OUT, THREAD, wide(same)),)))  # fmt: skip
    assert set(got[:32]) == {0x01010101} and got[32 + 5] == 0x00200020


# --- blocks that wait for each other ---


def chain(*, ticket: bool, publish: bool = True, fence: bool = True) -> tuple[ir.Statement, ...]:
    """out[b] = b + out[b − 1], one block after the other."""
    number, flag, before = Var("number", int64), Var("flag", int32), Var("before", int64)
    number_all, first = Var("block", int64), at.equal(THREAD, 0)
    slot = ir.Buffer("slot", int64, "shared", constant(1))
    mine: Expr = TASK
    head: tuple[ir.Statement, ...] = ()
    if ticket:
        head = (
            ir.If(first, (ir.FetchUpdate(number, TICKET, constant(0), constant(1)),
                          ir.Store(SHARED, constant(0), number))),
            ir.Barrier(), ir.Let(number_all, ir.Load(SHARED, constant(0))),
        )  # fmt: skip
        mine = number_all
    assert slot
    total, seen = Var("total", int64), Var("seen", int32)
    wait = (
        ir.Declare(seen, Const(0, int32)),
        ir.While((), Apply(primitive("equal"), (seen, Const(0, int32)), bool_), (
            ir.Fetch(flag, FLAGS, at.subtract(mine, 1)), ir.Assign(seen, flag))),
        ir.Fetch(before, OUT, at.subtract(mine, 1)),
        ir.Assign(total, at.add(total, before)),
    )  # fmt: skip
    tail: list[ir.Statement] = [ir.Store(OUT, mine, total)]
    if publish:
        done = Const(1, int32)
        tail.append(ir.Publish(FLAGS, mine, done) if fence else
                    ir.FetchUpdate(Var("was", int32), FLAGS, mine, done))  # fmt: skip
    return (*head, ir.If(first, (ir.Declare(total, mine), ir.If(at.less(0, mine), wait), *tail)))


@pytest.mark.sample(3)
@SEEDS
def test_chained_blocks(seed):
    got = run(*chain(ticket=True), tasks=40, n=40, threads=32, seed=seed)
    assert np.array_equal(got, np.cumsum(np.arange(40)))


def test_blocks_may_begin_in_any_order():
    with pytest.raises(Endless, match="blocks wait"):
        for seed in range(8):
            run(*chain(ticket=False), tasks=40, n=40, threads=32, seed=seed)


def test_waiting_for_what_never_comes():
    with pytest.raises(Endless, match="blocks wait"):
        run(*chain(ticket=True, publish=False), tasks=2, n=2, threads=32)


def test_publishing_needs_a_fence():
    with pytest.raises(Race, match="fetches out"):
        run(*chain(ticket=True, fence=False), tasks=9, n=9, threads=32)


def test_a_fence_covers_what_came_before_a_barrier():
    """Thread 33 stores, thread 0 publishes, another block fetches."""
    stored = ir.If(at.equal(THREAD, 33), (ir.Store(OUT, TASK, constant(5)),))
    done = ir.If(at.equal(THREAD, 0), (ir.Publish(FLAGS, TASK, Const(1, int32)),))
    flag, value = Var("flag", int32), Var("value", int64)
    other = at.subtract(1, TASK)
    late = Apply(primitive("equal"), (flag, Const(1, int32)), bool_)
    look = ir.If(at.equal(THREAD, 0), (
        ir.Fetch(flag, FLAGS, other), ir.If(late, (ir.Fetch(value, OUT, other),))))  # fmt: skip
    for seed in range(4):
        run(stored, ir.Barrier(), done, look, tasks=2, seed=seed)
    with pytest.raises(Race, match="fetches out"):
        run(stored, done, look, tasks=2)


# --- types ---


def test_types_are_kept():
    x = Apply(primitive("cast"), (THREAD,), float32)
    with pytest.raises(KernelFault, match="float32 stored to out"):
        kernel = ir.Kernel("odd", (OUT,), (), (), constant(1), TASK, (ir.Store(OUT, THREAD, x),),
                           threads=32, thread=THREAD)  # fmt: skip
        launch(kernel, {OUT: np.zeros(64, np.int64)}, [], 1)
