// i32_ptx.cuh, and what it shares with f32_ptx.cuh, for grid.h: the same functions, by what the PTX
// ISA says of their instructions.
#pragma once
#include "grid.h"

namespace tile {

inline u32 shared_base() { return grid::BASE; }

inline void barrier_init(u32 bar, u32 count) {
    grid::Barrier b;
    b.count = b.left = (int)count;
    grid::now->block->barriers[bar] = b;
}
inline void barrier_arrive(u32 bar) { grid::arrive(bar); }
inline void barriers_made() {}
inline void barrier_wait(u32 bar, u32 parity) { grid::wait_barrier(bar, parity); }
inline void consumers_sync(int threads) { grid::meet(grid::now->block->some[1], threads); }
template <int N> inline void more_registers() {}
template <int N> inline void fewer_registers() {}
inline void keep(int &) {}
inline void keep(const int *&) {}

inline void store_release(u32 *p, u32 v) { grid::release(p, v); }
inline u32 load_acquire(const u32 *p) {
    grid::turn();
    return grid::acquire(p);
}

// ---------------------------------------------------------------- wgmma

// Asynchronous: a thread's wgmmas wait in a list and are done, at the latest moment, when it waits for their group.
// Until then their accumulators must stay as they are, and before each of them there is a fence since they were last
// waited for.  `act` does one for a warpgroup, whose threads' accumulators are d.
// `held`: the four registers of a, if it is not in shared memory; they must stay as they are, too.
struct Wgmma {
    u32 *d;
    int outputs;
    u32 before[128];
    u64 a, b;
    int add, group;
    void (*act)(const Wgmma &, u32 *const (&d)[128]);
    const u32 *held;
    u32 holds[4];
};
inline const u32 *held_by[128]; // while a wgmma of a warpgroup is done

inline void mma_fence() {
    grid::together("wgmma.fence", nullptr, [](void **) {});
    grid::now->fenced = true;
}
inline void begin_mma(void *d, int outputs, u64 a, u64 b, int add, void (*act)(const Wgmma &, u32 *const (&)[128]), const u32 *held = nullptr) {
    if (!grid::now->fenced) grid::fail("wgmma without a fence since its registers were touched");
    Wgmma x = {static_cast<u32 *>(d), outputs, {}, a, b, add, grid::now->groups, act, held, {}};
    std::memcpy(x.before, d, 4 * outputs);
    if (held) std::memcpy(x.holds, held, sizeof x.holds);
    if (!grid::now->pending) grid::now->pending = std::make_shared<std::vector<Wgmma>>();
    static_cast<std::vector<Wgmma> *>(grid::now->pending.get())->push_back(x);
}
inline void mma_commit() { grid::now->groups++; }
// The row and column of output i of thread t.
inline int row_of(int t, int i) { return 16 * (t / 32) + t % 32 / 4 + i / 2 % 2 * 8; }
inline int column_of(int t, int i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }
template <int N> inline void mma_wait() {
    // the 128 threads of a warpgroup meet; the last one does what all of them wait for
    const int first = grid::now->warp / 4 * 4;
    grid::now->upto = grid::now->groups - N;
    grid::meet(grid::now->block->some[16 + first], 128, [=] {
        std::vector<grid::Fiber *> lanes;
        for (auto &f : grid::fibers)
            if (f->block == grid::now->block && f->warp / 4 * 4 == first) lanes.push_back(f.get());
        auto list = [&](int t) { return static_cast<std::vector<Wgmma> *>(lanes[t]->pending.get()); };
        if (!list(0)) return;
        size_t done = 0;
        for (; done < list(0)->size() && (*list(0))[done].group < lanes[0]->upto; done++) {
            const Wgmma &one = (*list(0))[done];
            u32 *d[128];
            for (int t = 0; t < 128; t++) {
                Wgmma &x = (*list(t))[done];
                if (x.a != one.a || x.b != one.b || x.add != one.add) grid::fail("threads of a warpgroup disagree on a wgmma");
                if (std::memcmp(x.before, x.d, 4 * x.outputs)) grid::fail("an accumulator changed while a wgmma was using it");
                if (x.held && std::memcmp(x.holds, x.held, sizeof x.holds)) grid::fail("an operand in registers changed while a wgmma was using it");
                held_by[t] = x.held;
                d[t] = x.d;
            }
            one.act(one, d);
            for (int t = 0; t < 128; t++)
                for (size_t later = done + 1; later < list(t)->size(); later++) {
                    Wgmma &x = (*list(t))[later];
                    if (x.d == d[t]) std::memcpy(x.before, x.d, 4 * x.outputs);
                }
        }
        for (int t = 0; t < 128; t++) list(t)->erase(list(t)->begin(), list(t)->begin() + done);
    });
    grid::now->fenced = false;
}

inline u64 descriptor(u32 at, u32 along_k, u32 down) { return (u64)((at & 0x3FFFF) >> 4) | (u64)(along_k >> 4) << 16 | (u64)(down >> 4) << 32; }
// A byte of a K-major matrix without swizzle.
inline unsigned char byte_of(u64 descriptor, int row, int k) {
    const u32 at = (u32)(descriptor & 0x3FFF) << 4, along = (u32)(descriptor >> 16 & 0x3FFF) << 4, down = (u32)(descriptor >> 32 & 0x3FFF) << 4;
    const u32 byte = at + k / 16 * along + row / 8 * down + row % 8 * 16 + k % 16;
    return grid::read_by_others(byte & ~3u, 4, false)[byte & 3];
}
inline void mma_u8(int (&d)[64], u64 a, u64 b, int add) {
    begin_mma(d, 64, a, b, add, [](const Wgmma &x, u32 *const (&d)[128]) {
        static unsigned char A[64][32], B[128][32];
        for (int k = 0; k < 32; k++) {
            for (int r = 0; r < 64; r++) A[r][k] = byte_of(x.a, r, k);
            for (int r = 0; r < 128; r++) B[r][k] = byte_of(x.b, r, k);
        }
        for (int t = 0; t < 128; t++)
            for (int i = 0; i < 64; i++) {
                u32 sum = x.add ? d[t][i] : 0;
                for (int k = 0; k < 32; k++) sum += (u32)A[row_of(t, i)][k] * B[column_of(t, i)][k];
                d[t][i] = sum;
            }
    });
}
inline void stores_visible() { grid::publish(); }
inline void pin(int (&)[64]) {}

inline u32 permuted(u32 x, u32 y, u32 how) {
    const u64 bytes = (u64)y << 32 | x;
    u32 v = 0;
    for (int i = 0; i < 4; i++) v |= (u32)(bytes >> 8 * (how >> 4 * i & 7) & 255) << 8 * i;
    return v;
}
struct alignas(16) Four { u32 x[4]; };
inline void store(u32 at, u32 v) { grid::write_shared(at, v); }
inline void store(u32 at, u32 a, u32 b, u32 c, u32 d) { grid::write_shared(at, Four{{a, b, c, d}}); }
inline void ldg(int &v, const int *p) { v = grid::read_global<int>(p); }
inline void ldg(int &a, int &b, int &c, int &d, const int *p) {
    Four x = grid::read_global<Four>(p);
    a = (int)x.x[0], b = (int)x.x[1], c = (int)x.x[2], d = (int)x.x[3];
}
inline void ldcg(int &v, const int *p) { ldg(v, p); }
inline void stg(int *p, int v) { grid::write_global(p, v); }
inline void red(int *p, int v) { grid::add_global(p, [=](int old) { return (int)((u32)old + (u32)v); }); }

} // namespace tile
