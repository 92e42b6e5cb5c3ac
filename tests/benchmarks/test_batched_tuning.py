"""The benchmark that tunes kernels of many small products: choices, and the kernels on a CPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.matmul.batched_tuning import EXTENTS, SHARED, Instance, instances, kept, source

#: What the text asks of CUDA: a block's threads are threads of the machine, which meet at barriers.
EMULATION = """
#include <barrier>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>
#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct Place { int x; };
thread_local Place threadIdx, blockIdx;
using std::size_t;
inline int min(int a, int b) { return a < b ? a : b; }
static std::barrier<> *block_barrier, *warp_barrier[32];
static const void *shown[32][32];
inline void __syncthreads() { block_barrier->arrive_and_wait(); }
inline void __syncwarp() { warp_barrier[threadIdx.x / 32]->arrive_and_wait(); }
static unsigned short memory[65536];
template <class T> void show(const T *mine, const T *(&all)[32]) {
    shown[threadIdx.x / 32][threadIdx.x % 32] = mine;
    __syncwarp();
    for (int i = 0; i < 32; i++) all[i] = (const T *)shown[threadIdx.x / 32][i];
    __syncwarp();
}
inline void load(unsigned *v, int count, const unsigned short *p, bool turned) {
    const unsigned short *row[32];
    if ((uintptr_t)p % 16) std::abort();
    show(p, row);
    const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    for (int i = 0; i < count; i++) {
        const unsigned short *const *r = row + 8 * i;
        v[i] = turned ? r[2 * q][g] | r[2 * q + 1][g] << 16 : r[g][2 * q] | r[g][2 * q + 1] << 16;
    }
    __syncwarp();
}
typedef unsigned short Half;
template <bool TURNED> void matrices(unsigned (&v)[4], const Half *p) { load(v, 4, p, TURNED); }
inline void two_matrices(unsigned (&v)[2], const Half *p) { load(v, 2, p, true); }
inline float value(unsigned short v) { _Float16 x; std::memcpy(&x, &v, 2); return x; }
inline unsigned packed_pair(float low, float high) {
    _Float16 x[2] = {(_Float16)low, (_Float16)high};
    unsigned v;
    std::memcpy(&v, x, 4);
    return v;
}
inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned low, unsigned high) {
    struct Lane { unsigned a[4], b[2]; } mine = {{a[0], a[1], a[2], a[3]}, {low, high}};
    const Lane *all[32];
    show(&mine, all);
    const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) {
            const int row = g + 8 * (i / 2), column = 2 * q + i % 2;
            const Lane &x = *all[row % 8 * 4 + k % 8 / 2], &y = *all[column * 4 + k % 8 / 2];
            const unsigned u = x.a[row / 8 + k / 8 * 2], v = y.b[k / 8];
            d[i] += value(u >> 16 * (k % 2)) * value(v >> 16 * (k % 2));
        }
    __syncwarp();
}
"""
RUN = """
extern "C" void run(const u16 *a, const u16 *b, u16 *c, int n, int count, int blocks) {
    for (int block = 0; block < blocks; block++) {
        std::barrier<> all(THREADS);
        block_barrier = &all;
        for (int w = 0; w * 32 < THREADS; w++)
            warp_barrier[w] = new std::barrier<>(min(32, THREADS - 32 * w));
        std::memset(memory, 0x7E, sizeof memory);
        std::vector<std::thread> threads;
        for (int t = 0; t < THREADS; t++)
            threads.emplace_back([=] {
                threadIdx.x = t, blockIdx.x = block;
                ENTRY(a, b, c, n, n, n, count);
                warp_barrier[t / 32]->arrive_and_drop();
                block_barrier->arrive_and_drop();
            });
        for (auto &t : threads) t.join();
        for (int w = 0; w * 32 < THREADS; w++) delete warp_barrier[w];
    }
}
"""


def test_the_instances_meet_their_constraints() -> None:
    found = instances()
    assert len({i.name for i in found}) == len(found)
    assert all(i.shared <= 48 * 1024 and i.threads <= 1024 for i in found)
    for n in EXTENTS:
        assert sum(i.computes(n) for i in found) > 100
    for i in found:
        if i.kernel == "blocked":
            bm, bn, bk, tm, tn, x, warps, _ = i.parameters
            y = 32 * warps // x
            assert bm % tm == bn % tn == 0 and 2 * (bm + bn) * bk <= SHARED
            assert all(b % d == 0 for b in (bm, bn, bk) for d in (x, y))


def test_few_instances_are_kept() -> None:
    times = {1: {"a": 1.0, "b": 1.1, "c": 9.0}, 2: {"b": 1.0, "a": 1.2}, 3: {"c": 1.0, "b": 1.08}}
    assert kept(times, 10, 0.0) == {1: "a", 2: "b", 3: "c"}
    assert kept(times, 10, 0.1) == {1: "b", 2: "b", 3: "b"}
    assert kept(times, 1, 0.1) == {1: "a", 2: "b", 3: "c"}


@pytest.mark.sample(1)
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(
    ("instance", "n", "count"),
    [
        (Instance("blocked", (16, 16, 32, 16, 16, 16, 1, 3)), 10, 8),
        (Instance("blocked", (64, 64, 32, 32, 8, 32, 2, 1)), 66, 1),
        (Instance("blocked", (32, 32, 48, 16, 32, 8, 1, 1)), 33, 2),
        (Instance("packed", (3, 2)), 3, 13),
        (Instance("elements", (6, 3)), 6, 5),
    ],
)
def test_kernels_are_exact(instance: Instance, n: int, count: int, tmp_path: Path) -> None:
    text, made = tmp_path / "kernel.cpp", tmp_path / "kernel.so"
    words = f"#define THREADS {instance.threads}\n#define ENTRY {instance.name}\n"
    text.write_text(EMULATION + source([instance]) + words + RUN, encoding="utf-8")
    subprocess.run(["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", str(text),
                    "-o", str(made)], check=True)  # fmt: skip
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-2, 3, (count, n, n)).astype("f2") for _ in range(2))
    out = np.full((count + 1, n, n), np.nan, "f2")
    ctypes.CDLL(str(made)).run(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)), n, count,
                               instance.blocks(n, count))  # fmt: skip
    np.testing.assert_array_equal(out[:count], a.astype("f4") @ b.astype("f4"))
    assert np.isnan(out[count]).all()
