// Products of 16-bit floats on the tensor cores of Hopper (sm_90a), added in float32.
//
// Tiles are copied by tensor maps, which pad fringes with zeros, in
// either layout.  Two consumer warpgroups own 64 x BN outputs each, one thread starts the copies.
#pragma once
#include "tensor_ptx.cuh"
#include "tile_work.cuh"

namespace tile {

#ifndef TILE_BN
#define TILE_BN 256
#endif
#ifndef TILE_ELEMENT
#define TILE_ELEMENT HALF
#endif
constexpr int BM = 128, BN = TILE_BN, DEEP = 64;
constexpr Element ELEMENT = TILE_ELEMENT;
constexpr int CONSUMERS = 256, THREADS = CONSUMERS + 128;
constexpr int OF_A = BM * 128, OF_B = BN * 128, STAGE = OF_A + OF_B, BOX = 64 * 128;
constexpr int STAGED = 16 * 128;                               // bytes of a warp's outputs: 16 rows of 64
constexpr int STAGES = (226 * 1024 - 8 * STAGED) / STAGE;
constexpr int OFF_STAGED = STAGES * STAGE, FULL = OFF_STAGED + 8 * STAGED, EMPTY = FULL + 8 * STAGES;
constexpr int SHARED_BYTES = EMPTY + 8 * STAGES;
constexpr int OUTPUTS = BN / 2;

struct Bits { unsigned short bits; }; // an output, where no fused code has a type for it
struct Arguments {
    TensorMap a, b;
    unsigned short *c;
    i64 c_row;
    int rows, cols, stages;
    int tiles_m, tiles_n, group, items;
    u64 extra[16];
};

typedef Slots<STAGE, STAGES, FULL> Feed;

__device__ __forceinline__ void warp_arrive(u32 bar, int lane) {
    __syncwarp();
    if (lane == 0) barrier_arrive(bar);
}

template <bool TA, bool TB> __device__ __forceinline__ void multiply(float (&total)[OUTPUTS], Feed &ring, int stages, int group, int lane) {
    u32 previous = 0;
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        barrier_wait(ring.full(), ring.parity);
        const u32 a = ring.stage() + group * BOX, b = ring.stage() + OF_A; // a box is 64 rows in both layouts
        const u64 da = TA ? swizzled_transposed(a, BOX) : swizzled(a), db = TB ? swizzled_transposed(b, BOX) : swizzled(b);
        mma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++) Mma<ELEMENT, BN>::template run<TA, TB>(total, da + (TA ? 128 : 2) * k, db + (TB ? 128 : 2) * k, s > 0 || k);
        mma_commit();
        mma_wait<1>();
        if (s) warp_arrive(previous, lane);
        previous = ring.empty();
        ring.next();
    }
    mma_wait<0>();
    pin(total);
    warp_arrive(previous, lane);
}

// Rounds the outputs, applies the epilogue, and stores rows of 128 bytes.
template <class Epilogue, class Value> __device__ __forceinline__ void store(const Arguments &g, const float (&acc)[OUTPUTS], u32 staged, int row, int col, int lane) {
    const int r = lane / 4, q = lane % 4;
    const bool whole = (u64)g.c % 16 == 0 && g.c_row % 8 == 0 && g.cols % 8 == 0;
#pragma unroll
    for (int part = 0; part < BN / 64; part++) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float *x = acc + 4 * (8 * part + j) + 2 * h;
                u32 v = packed<ELEMENT>(x[0], x[1]);
                if constexpr (!Epilogue::identity) {
                    const int i = row + r + 8 * h, k = col + 64 * part + 8 * j + 2 * q;
                    if (i < g.rows) {
                        Value low, high;
                        low.bits = v, high.bits = v >> 16;
                        if (k < g.cols) low = Epilogue::finish(low, i, k, g.extra);
                        if (k + 1 < g.cols) high = Epilogue::finish(high, i, k + 1, g.extra);
                        v = low.bits | (u32)high.bits << 16;
                    }
                }
                sts32(staged + (r + 8 * h) * 128 + ((j ^ r) * 16) + q * 4, v);
            }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int mine = 4 * i + lane / 8, unit = lane % 8, at = col + 64 * part + 8 * unit;
            u32 v[4];
            lds128(v, staged + mine * 128 + (unit ^ mine % 8) * 16);
            if (row + mine < g.rows && at < g.cols) {
                unsigned short *to = g.c + (row + mine) * g.c_row + at;
                if (whole) *reinterpret_cast<uint4 *>(to) = make_uint4(v[0], v[1], v[2], v[3]);
                else {
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        if (at + e < g.cols) to[e] = v[e / 2] >> 16 * (e % 2);
                }
            }
        }
    }
}

template <bool TA, bool TB, class Epilogue, class Value> __device__ __forceinline__ void run(const Arguments &g) {
    const int t = threadIdx.x, lane = t % 32;
    const u32 base = dynamic_base();
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            barrier_init(base + FULL + 8 * s, 1);
            barrier_init(base + EMPTY + 8 * s, CONSUMERS / 32);
        }
    barriers_made();
    __syncthreads();
    Feed ring = {base, 0, 0};
    if (t < CONSUMERS) {
        more_registers<232>();
        for (int item = blockIdx.x; item < g.items; item += gridDim.x) {
            int tm, tn;
            tile_of(g, item, tm, tn);
            float total[OUTPUTS];
            multiply<TA, TB>(total, ring, g.stages, t / 128, lane);
            const int warp = t / 32;
            store<Epilogue, Value>(g, total, base + OFF_STAGED + warp * STAGED, tm * BM + warp * 16, tn * BN, lane);
        }
    } else {
        fewer_registers<40>();
        if (t != CONSUMERS) return;
        for (int item = blockIdx.x; item < g.items; item += gridDim.x) {
            int tm, tn;
            tile_of(g, item, tm, tn);
            const int m = tm * BM, n = tn * BN;
            for (int s = 0; s < g.stages; s++) {
                const u32 full = ring.full(), to = ring.stage();
                const int k = s * DEEP;
                barrier_wait(ring.empty(), ring.parity ^ 1);
                barrier_expect(full, STAGE);
                if (TA) {
#pragma unroll
                    for (int r = 0; r < BM; r += 64) box_load(to + r * 128, g.a, m + r, k, full);
                } else box_load(to, g.a, k, m, full);
                if (TB) {
#pragma unroll
                    for (int c = 0; c < BN; c += 64) box_load(to + OF_A + c * 128, g.b, n + c, k, full);
                } else box_load(to + OF_A, g.b, k, n, full);
                ring.next();
            }
        }
    }
}

} // namespace tile
