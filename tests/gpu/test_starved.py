"""Agents and locality graphs while another kernel holds most of the GPU.

The other kernel fills the multiprocessors that it is told to hold, wholly or but for a few threads,
and stays until it is let go: what runs beside it has to do everything with what is left, once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import treadle as td

S = td.schedule

THREADS = 512
#: Seconds after which the other kernel leaves by itself: a test fails then, but nothing hangs.
PATIENCE = 20
#: More than any GPU's multiprocessors.
MOST = 1024
STATE = ("arrived", "holding", "leave")

HOLD = r"""
// Blocks as many as fit, all resident; `keep[m]` of them stay on multiprocessor m until `leave`.
extern "C" __global__ void __launch_bounds__(512)
hold(volatile int* state, const int* keep, int* seated, unsigned long long patience) {
  volatile int *arrived = state, *holding = state + 1, *leave = state + 2;
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  __shared__ volatile int stays;
  if (threadIdx.x == 0) {
    unsigned here;
    asm volatile("mov.u32 %0, %smid;" : "=r"(here));
    atomicAdd_system((int*)arrived, 1);
    do {  // nobody leaves before all are seated
      __nanosleep(500);
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (*arrived < gridDim.x && now - begin < patience);
    stays = atomicAdd(&seated[here], 1) < keep[here];
    if (stays) atomicAdd_system((int*)holding, 1);
  }
  __syncthreads();
  if (!stays) return;
  if (threadIdx.x == 0) {
    do {
      __nanosleep(2000);
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (!*leave && now - begin < patience);
    stays = 0;
  } else if (threadIdx.x >= 32) {
    while (stays) {}  // takes instructions from whoever else runs here
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd_system((int*)holding, -1);
}
"""


@contextmanager
def held(keep_of) -> Iterator[None]:
    """`keep_of(m, fit)`: of the `fit` blocks that fill multiprocessor m, how many stay."""
    cupy = pytest.importorskip("cupy")
    import cupyx

    attributes = cupy.cuda.Device().attributes
    count = attributes["MultiProcessorCount"]
    fit = attributes["MaxThreadsPerMultiProcessor"] // THREADS
    state = cupyx.zeros_pinned(len(STATE), np.int32)
    keep = cupy.asarray(np.array([keep_of(m, fit) if m < count else 0 for m in range(MOST)], "i4"))
    kernel = cupy.RawKernel(HOLD, "hold", options=("-std=c++17",))
    kernel.preferred_shared_memory_carveout = 15  # a percentage: blocks of others need some as well
    seated, stream = cupy.zeros(MOST, np.int32), cupy.cuda.Stream(non_blocking=True)
    staying = int(keep.sum())
    cupy.cuda.Device().synchronize()
    with stream:
        kernel((count * fit,), (THREADS,), (state.ctypes.data, keep, seated, PATIENCE * 10**9))
    try:
        begin = time.monotonic()
        while state[1] < staying:
            assert time.monotonic() - begin < PATIENCE, f"the other kernel is not seated: {state}"
            time.sleep(0.001)
        yield
        assert state[1] == staying, "the other kernel left too early, or was waited for"
    finally:
        state[2] = 1
        stream.synchronize()


def three_free(m: int, fit: int) -> int:
    return 0 if m in (1, 40, 77) else fit


def every_other(m: int, fit: int) -> int:
    return fit if m % 2 else 0


def starved(m: int, fit: int) -> int:
    """All of two, and room for 512 threads beside busy ones on the others."""
    return 0 if m in (5, 60) else fit - 1


HOLDS = (three_free, every_other, starved)
RESIDENCIES = (S.Agents(1), S.Agents(8), S.LocalityGraph("mst"), S.LocalityGraph("bisect"),
               S.Clusters(4))  # fmt: skip
N, M = 1000, 1031
RNG = np.random.default_rng(7)
IMAGE = RNG.standard_normal((N, M)).astype(np.float32)
PLACES = RNG.permutation(N * M).astype(np.int32).reshape(N, M)
ROWS = RNG.permutation(N).astype(np.int32)


def count(places, ones):
    """Every element adds one to a place of its own: done twice is a two, left out a zero."""
    return td.permute(lambda new, old: new + old, np.zeros(N * M, np.int32),
                      lambda i, j: places[i, j], ones, name="op")  # fmt: skip


def windows(a):
    return td.stencil(lambda w: w[-1, 0] + w[1, 0] * w[0, -1] - w[0, 1], a, boundary=td.clamp,
                      name="op")  # fmt: skip


def gathered(a, rows):
    return td.generate(a.shape, lambda i, j: a[rows[i], j] + a[i, j], name="op")


def turned(a):
    return td.generate((M, N), lambda i, j: a[j, i], name="op")


PROGRAMS = ((count, (PLACES, np.ones((N, M), np.int32))), (windows, (IMAGE,)),
            (gathered, (IMAGE, ROWS)), (turned, (IMAGE,)))  # fmt: skip


@pytest.mark.parametrize("residency", RESIDENCIES, ids=str)
@pytest.mark.parametrize(("function", "arrays"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_everything_once_beside_a_kernel_that_holds_the_gpu(function, arrays, residency):
    cupy = pytest.importorskip("cupy")
    if residency == S.LocalityGraph("bisect"):
        pytest.importorskip("pymetis")
    given = [cupy.asarray(a) for a in arrays]
    plain = td.jit(function, backend="cuda").lower(*given)
    want = plain(*given).get()
    if function is count:
        np.testing.assert_array_equal(want, 1)
    program = plain.scheduled(op=S.Block(8, 32) | residency)
    if not isinstance(residency, S.Clusters):
        assert "on each multiprocessor, " in program.source("cuda")
    for _ in range(4):  # alone; compiled, allocated, recorded
        np.testing.assert_array_equal(program(*given).get(), want)
    for hold in HOLDS:
        for _ in range(3):
            with held(hold):
                got = program(*given).get()
            np.testing.assert_array_equal(got, want, err_msg=hold.__name__)


@pytest.mark.parametrize("hold", HOLDS, ids=lambda hold: hold.__name__)
def test_the_other_kernel_holds_what_it_is_told_to(hold):
    """A kernel that notes where its blocks run sees what is left, and nothing else."""
    cupy = pytest.importorskip("cupy")
    note = cupy.RawKernel(
        r"""extern "C" __global__ void note(int* seen) {
          unsigned m;
          unsigned long long begin, now;
          asm volatile("mov.u32 %0, %smid;" : "=r"(m));
          asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
          do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
          while (now - begin < 50000);
          if (threadIdx.x == 0) atomicAdd(&seen[m], 1);
        }""",
        "note",
    )
    blocks = 4096
    seen = cupy.zeros(MOST, np.int32)
    note((blocks,), (256,), (seen,))
    everywhere = np.flatnonzero(seen.get())
    seen.fill(0)
    with held(hold):
        note((blocks,), (256,), (seen,))
        found = seen.get()
    fit = cupy.cuda.Device().attributes["MaxThreadsPerMultiProcessor"] // THREADS
    left = [m for m in everywhere.tolist() if hold(m, fit) < fit]
    assert found.sum() == blocks
    assert np.flatnonzero(found).tolist() == left
    free = [m for m in left if hold(m, fit) == 0]
    assert found[free].min() > 1.5 * max((found[m] for m in left if m not in free), default=0)
