// Products of float32 on the tensor cores of Hopper (sm_90a), whose operands are rounded to tf32 (to nearest) and whose
// sums are float32's.
//
// One operand, X, gives the rows of wgmma, the other one, Y, its columns: A and B, or (FLIPPED) B transposed and A
// transposed, which computes C transposed.  wgmma reads tf32 from shared memory along k only, so Y's lines must be along k.
// X may have either layout: unless its lines are along k and it is plain, each thread loads its part into registers
// (HELD), where a fused function is applied to it.  Tensor maps copy tiles, pad fringes with zeros, and round elements on
// the way; those of a fused function are rounded after it.
//
// Two consumer warpgroups own 64 x BN outputs each, one more thread starts the copies.
#pragma once
#include "tensor_ptx.cuh"
#include "tile_work.cuh"
#include "tile_pipeline.cuh"

namespace tile {

#ifndef TILE_BN
#define TILE_BN 256
#endif
#ifndef TILE_FLIPPED
#define TILE_FLIPPED 0
#endif
constexpr int BM = 128, BN = TILE_BN, DEEP = 32, LINE = 128; // LINE: bytes of a line of a box
constexpr int CONSUMERS = 256, WARPS = CONSUMERS / 32, THREADS = CONSUMERS + 128;
constexpr int OF_X = BM * LINE, OF_Y = BN * LINE, STAGE = OF_X + OF_Y;
typedef Slots<STAGE, 226 * 1024 / STAGE> Feed;
constexpr int SHARED_BYTES = Feed::SHARED, OUTPUTS = BN / 2;

struct Arguments {
    TensorMap x, y;
    float *c;
    i64 c_row;
    int rows, cols, stages; // rows of X, rows of Y
    int tiles_m, tiles_n, group, items;
    u64 extra[16];
    int *arrived; // as `SoftBarrier` says
    int pace, depth;
};

template <bool FLIPPED, bool TURNED, class F, class Epilogue> struct Rounded {
    typedef tile::Feed Feed;
    static constexpr bool LOADER = true, HELD = TURNED || !F::identity;
    static constexpr int ARRIVALS = 1, GIVEN = WARPS * ARRIVALS_PER_WARP, REGISTERS = 240;
    static constexpr int BOX = 32 * LINE; // bytes of 32 rows of X and DEEP k, if its lines are along rows
    struct Source { // boxes of both operands
        int m, n, k, count;
        __device__ __forceinline__ Source(const Arguments &g, int tm, int tn, int) : m(tm * BM), n(tn * BN), k(0), count(g.stages) {}
        __device__ __forceinline__ void load(const Arguments &g, u32 to, u32 full) {
            if (TURNED) {
#pragma unroll
                for (int i = 0; i < BM / 32; i++) box_load(to + i * BOX, g.x, m + 32 * i, k, full);
            } else box_load(to, g.x, k, m, full);
            box_load(to + OF_X, g.y, k, n, full);
            k += DEEP;
        }
    };
    Feed ring;
    // What a thread holds of X, in the order of wgmma's registers: rows `row` and `row + APART` at k = 8 j + q and
    // 8 j + q + 4, for j = 0 to 3.  Where lines are along rows, the rows of a warp are such that the elements of a load are in
    // different banks: bits 0, 1 and 2 of g are bits 1, 4 and 2 of the row.
    static constexpr int APART = TURNED ? 1 : 8;
    u32 at;
    int row, q;

    __device__ __forceinline__ Rounded(const Arguments &, u32 base, int t) : ring{base, 0, 0} {
        const int warp = t / 32, g = t % 32 / 4;
        q = t % 4;
        if (TURNED) {
            const int in = 16 * (g / 2 % 2) + 8 * (warp % 2) + 4 * (g / 4) + 2 * (g % 2);
            row = warp / 2 * 32 + in;
            at = warp / 2 * BOX + q * LINE + ((in / 4) ^ q) * 16 + in % 4 * 4;
        } else {
            row = 16 * warp + g;
            at = row * LINE + g * 16 + q * 4;
        }
    }
    __device__ static __forceinline__ int products(const Arguments &) { return 1; }
    __device__ static __forceinline__ u32 made(const Arguments &g, u32 bits, int r, int k) {
        if constexpr (F::identity) return bits;
        else {
            const float v = F::apply(__uint_as_float(bits), 0.f, FLIPPED ? k : r, FLIPPED ? r : k, g.extra);
            return rounded(k < g.depth ? v : 0.f); // it need not be zero where the operand ends
        }
    }
    __device__ __forceinline__ void load(const Arguments &g, u32 (&x)[4][4], int m, int k) const {
        const u32 from = ring.stage() + at;
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (TURNED) lds64(x[j][2 * i], x[j][2 * i + 1], (from ^ 64 * i) + (8 * j + 4 * i) * LINE);
                else {
                    x[j][2 * i] = lds32(from ^ (2 * j + i) * 16);
                    x[j][2 * i + 1] = lds32((from ^ (2 * j + i) * 16) + 8 * LINE);
                }
#pragma unroll
                for (int h = 0; h < 2; h++) x[j][2 * i + h] = made(g, x[j][2 * i + h], m + row + APART * h, k + 8 * j + 4 * i + q);
            }
        }
    }

    __device__ __forceinline__ void consume(const Arguments &g, u32, int, int tm, int tn, int t) {
        float acc[OUTPUTS];
        u32 x[2][4][4] = {}, previous = 0;
        const int stages = g.stages;
#pragma unroll 1
        for (int s = 0; s < stages; s += 2) {
#pragma unroll
            for (int p = 0; p < 2; p++) // while the products of one set of registers are formed, the other one is loaded
                if (s + p < stages) {
                    barrier_wait(ring.full(), ring.parity);
                    if (HELD) load(g, x[p], tm * BM, (s + p) * DEEP);
                    const u64 a = swizzled(ring.stage() + t / 128 * 64 * LINE), b = swizzled(ring.stage() + OF_X);
                    mma_fence();
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        if (HELD) MmaHeld<TF32, BN>::run(acc, x[p][k], b + 2 * k, s + p > 0 || k);
                        else Mma<TF32, BN>::run(acc, a + 2 * k, b + 2 * k, s + p > 0 || k);
                    }
                    mma_commit();
                    mma_wait<1>();
                    if (HELD) // they are free only now
#pragma unroll
                        for (int k = 0; k < 4; k++) pin(x[p ^ 1][k]);
                    if (s + p) warp_arrive(previous, t % 32 == 0);
                    previous = ring.empty();
                    ring.next();
                }
        }
        mma_wait<0>();
        pin(acc);
        warp_arrive(previous, t % 32 == 0);
        store(g, acc, tm * BM + row, tn * BN + 2 * q);
    }

    // The outputs of rows r and r + APART of X with rows 8 j + c and 8 j + c + 1 of Y.  What is outside of C is computed at its
    // end, so that no branch keeps loads of the epilogue from being in flight together.
    __device__ __forceinline__ void store(const Arguments &g, const float (&acc)[OUTPUTS], int r, int c) const {
        const bool pairs = (u64)g.c % 8 == 0 && g.c_row % 2 == 0;
        constexpr int MANY = 4;
#pragma unroll
        for (int j0 = 0; j0 < BN / 8; j0 += MANY) {
            float v[MANY][2][2];
#pragma unroll
            for (int j = 0; j < MANY; j++)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        v[j][h][e] = acc[4 * (j0 + j) + 2 * h + e];
                        if constexpr (!Epilogue::identity) {
                            const int of_x = min(r + APART * h, g.rows - 1), of_y = min(c + 8 * (j0 + j) + e, g.cols - 1);
                            v[j][h][e] = Epilogue::finish(v[j][h][e], FLIPPED ? of_y : of_x, FLIPPED ? of_x : of_y, g.extra);
                        }
                    }
#pragma unroll
            for (int j = 0; j < MANY; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int across = c + 8 * (j0 + j);
                    if (FLIPPED) { // a row of C, of which a thread has neighbours if lines of X are along rows
                        if (across + i >= g.cols) continue;
                        float *to = g.c + (across + i) * g.c_row + r;
                        const float two[2] = {v[j][0][i], v[j][1][i]};
                        if (TURNED && pairs && r + 1 < g.rows) stg64(to, two);
                        else
#pragma unroll
                            for (int h = 0; h < 2; h++)
                                if (r + APART * h < g.rows) stg32(to + APART * h, two[h]);
                    } else {
                        if (r + APART * i >= g.rows) continue;
                        float *to = g.c + (r + APART * i) * g.c_row + across;
                        if (pairs && across + 1 < g.cols) stg64(to, v[j][i]);
                        else
#pragma unroll
                            for (int e = 0; e < 2; e++)
                                if (across + e < g.cols) stg32(to + e, v[j][i][e]);
                    }
                }
        }
    }
};

// F: of X.
template <bool FLIPPED, bool TURNED, class F, class Epilogue> __device__ __forceinline__ void run(const Arguments &g) {
    pipeline<Rounded<FLIPPED, TURNED, F, Epilogue>, CONSUMERS>(g);
}

} // namespace tile
