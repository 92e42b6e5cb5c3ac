// Products of 16-bit floats on tensor cores, added in float32: persistent blocks with a ring of stages.  How tiles
// arrive, and what multiplies them, is a `Unit`:
//
//   sm_90a         tensor maps copy tiles, and pad fringes with zeros; wgmma.  Two consumer warpgroups own
//                  64 x BN outputs each, one more thread starts the copies.
//   TILE_PORTABLE  (sm_80 and later) cp.async, completing on the same barriers; ldmatrix and mma.sync.  Each of eight
//                  warps owns 64 x BN / 4 outputs, and all copy, AHEAD stages ahead: with a ninth warp, none could have
//                  more than 168 registers.
//
// Both take either layout of both operands, whose lines begin at multiples of sixteen bytes.
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
#ifndef TILE_PORTABLE
#define TILE_PORTABLE 0
#endif
#ifndef TILE_DEEP
#define TILE_DEEP (TILE_PORTABLE ? 32 : 64)
#endif
constexpr int BM = 128, BN = TILE_BN, DEEP = TILE_DEEP;
constexpr Element ELEMENT = TILE_ELEMENT;
constexpr int CONSUMERS = 256, THREADS = CONSUMERS + (TILE_PORTABLE ? 0 : 128);
constexpr int OF_A = BM * DEEP * 2, OF_B = BN * DEEP * 2, STAGE = OF_A + OF_B;
#if TILE_PORTABLE
constexpr int ROWS = 64, COLS = BN / 4; // of a consumer warp
#else
constexpr int ROWS = 16, COLS = BN;
#endif
constexpr int PART = COLS < 64 ? COLS : 64;  // columns that a warp stores at a time
constexpr int STAGED = 16 * PART * 2;        // bytes of them, 16 rows
#ifndef TILE_STAGES
#define TILE_STAGES (TILE_PORTABLE ? 3 : (226 * 1024 - 8 * STAGED) / STAGE)
#endif
#ifndef TILE_AHEAD
#define TILE_AHEAD (TILE_STAGES - 1)
#endif
constexpr int STAGES = TILE_STAGES, AHEAD = TILE_AHEAD;
constexpr int OFF_STAGED = STAGES * STAGE, FULL = OFF_STAGED + 8 * STAGED, EMPTY = FULL + 8 * STAGES;
constexpr int SHARED_BYTES = EMPTY + 8 * STAGES;
// A thread's outputs in 16 rows of its warp's part: number 4 j + 2 h + e is in row lane / 4 + 8 h and column
// 8 j + lane % 4 * 2 + e.
constexpr int BANDS = ROWS / 16, OUTPUTS = COLS / 2;

struct Bits { unsigned short bits; }; // an output, where no fused code has a type for it
// Lines of `inner` contiguous elements, `pitch` elements from one to the next.
struct Lines { const unsigned short *first; i64 pitch; int inner, outer; };
#if TILE_PORTABLE
typedef Lines Operand;
#else
typedef TensorMap Operand;
#endif
struct Arguments {
    Operand a, b;
    unsigned short *c;
    i64 c_row;
    int rows, cols, stages;
    int tiles_m, tiles_n, group, items;
    u64 extra[16];
};

typedef Slots<STAGE, STAGES, FULL> Feed;

__device__ __forceinline__ void warp_arrive(u32 bar, int lane) {
    __syncwarp();
    if (TILE_EVERY_LANE_ARRIVES || lane == 0) barrier_arrive(bar);
}

#if TILE_PORTABLE
// A tile of an operand: lines of DEEP elements of one row, or (TURNED) of ROWS elements of one k.  The sixteen-byte units
// of a line are permuted, so that eight lines have the same unit in different banks.
template <bool TURNED, int WIDE> struct Tile {
    static constexpr int LINE = 2 * (TURNED ? WIDE : DEEP), LINES = TURNED ? DEEP : WIDE, UNITS = LINE / 16;
    __device__ static __forceinline__ u32 place(int line, int unit) {
        return line * LINE + (unit ^ (UNITS == 4 ? line / 2 % 4 : line % 8)) * 16;
    }
    // What a lane gives to ldmatrix for the 16 x 16 elements at row r: rows r .. r + 7, then those below, of eight k; then
    // of the next eight k.
    __device__ static __forceinline__ u32 fragment(int r, int lane) {
        const int below = lane / 8 % 2 * 8, behind = lane / 16 * 8;
        return TURNED ? place(behind + lane % 8, (r + below) / 8) : place(r + below + lane % 8, behind / 8);
    }
    // The same for the elements 16 `down` rows and 16 `along` k from there.
    __device__ static __forceinline__ void load(u32 (&v)[4], u32 at, int down, int along) {
        matrices<TURNED>(v, (at ^ 32 * (TURNED ? down : along)) + 16 * LINE * (TURNED ? along : down));
    }
    // The block copies the tile at row r and k; zeros outside of the operand.
    __device__ static __forceinline__ void copy(u32 to, const Lines &x, int r, int k, int t) {
        constexpr int STEP = CONSUMERS / UNITS; // lines that it copies at a time
        const int line = t / UNITS, first = (TURNED ? k : r) + line, along = (TURNED ? r : k) + t % UNITS * 8;
        const int inside = min(max(2 * (x.inner - along), 0), 16), left = x.outer - first;
        const unsigned short *from = x.first + (i64)first * x.pitch + along;
#pragma unroll
        for (int i = 0; i < LINES / STEP; i++) {
            const bool there = i * STEP < left && inside > 0;
            copy16(to + place(line + i * STEP, t % UNITS), there ? from : x.first, there ? inside : 0);
            from += STEP * x.pitch;
        }
    }
    static_assert(LINES % (CONSUMERS / UNITS) == 0, "");
};

template <bool TA, bool TB> struct Unit {
    typedef Tile<TA, BM> A;
    typedef Tile<TB, BN> B;
    static constexpr int ARRIVALS = CONSUMERS; // at a full stage
    Feed ring, ahead;
    int item, m, n, s; // what is copied next
    __device__ __forceinline__ Unit(const Arguments &g, u32 base, int t) : ring{base, 0, 0}, ahead{base, 0, 0}, item(blockIdx.x), s(0) {
        find(g);
        for (int i = 0; i < AHEAD; i++) copy(g, t);
    }
    __device__ __forceinline__ void find(const Arguments &g) {
        tile_of(g, item, m, n);
        m *= BM, n *= BN;
    }
    __device__ __forceinline__ void copy(const Arguments &g, int t) {
        if (item >= g.items) return;
        barrier_wait(ahead.empty(), ahead.parity ^ 1);
        A::copy(ahead.stage(), g.a, m, s * DEEP, t);
        B::copy(ahead.stage() + OF_A, g.b, n, s * DEEP, t);
        copies_arrive(ahead.full());
        ahead.next();
        if (++s == g.stages) {
            s = 0;
            item += gridDim.x;
            find(g);
        }
    }
    __device__ static __forceinline__ void load(u32 (&a)[BANDS][4], u32 (&b)[COLS / 16][4], u32 oa, u32 ob, int k) {
#pragma unroll
        for (int j = 0; j < COLS / 16; j++) B::load(b[j], ob, j, k);
#pragma unroll
        for (int i = 0; i < BANDS; i++) A::load(a[i], oa, i, k);
    }
    __device__ __forceinline__ void multiply(const Arguments &g, float (&acc)[BANDS][OUTPUTS], int t) {
        constexpr int STEPS = DEEP / 16;
        const int lane = t % 32, warp = t / 32;
        const u32 oa = A::fragment(warp % 2 * ROWS, lane), ob = OF_A + B::fragment(warp / 2 * COLS, lane);
        u32 a[2][BANDS][4], b[2][COLS / 16][4];
#pragma unroll
        for (int i = 0; i < BANDS; i++)
#pragma unroll
            for (int j = 0; j < OUTPUTS; j++) acc[i][j] = 0.f;
        barrier_wait(ring.full(), ring.parity);
        load(a[0], b[0], ring.stage() + oa, ring.stage() + ob, 0);
#pragma unroll 1
        for (int s = 0; s < g.stages; s++) {
            const u32 at = ring.stage(), empty = ring.empty();
            ring.next();
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                const int p = k & 1;
                if (k + 1 < STEPS) load(a[p ^ 1], b[p ^ 1], at + oa, at + ob, k + 1);
                else if (s + 1 < g.stages) {
                    barrier_wait(ring.full(), ring.parity);
                    load(a[p ^ 1], b[p ^ 1], ring.stage() + oa, ring.stage() + ob, 0);
                }
                if (k == 0) copy(g, t);
#pragma unroll
                for (int i = 0; i < BANDS; i++)
#pragma unroll
                    for (int x = 0; x < COLS / 8; x++) {
                        const int j = i & 1 ? COLS / 8 - 1 - x : x; // so that neighbours share an operand
                        mma<ELEMENT>(acc[i] + 4 * j, a[p][i], b[p][j / 2][j % 2], b[p][j / 2][j % 2 + 2]);
                    }
            }
            warp_arrive(empty, lane);
        }
    }
};
#else
template <bool TA, bool TB> struct Unit {
    static constexpr int BOX = 64 * 128; // bytes of 64 rows, in both layouts
    static constexpr int ARRIVALS = 1;   // at a full stage
    Feed ring;
    __device__ __forceinline__ Unit(const Arguments &g, u32 base, int t) : ring{base, 0, 0} {
        if (t < CONSUMERS) more_registers<232>();
        else {
            fewer_registers<40>();
            if (t == CONSUMERS) produce(g);
        }
    }
    __device__ __forceinline__ void produce(const Arguments &g) {
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
    __device__ __forceinline__ void multiply(const Arguments &g, float (&acc)[BANDS][OUTPUTS], int t) {
        const int lane = t % 32, stages = g.stages;
        u32 previous = 0;
#pragma unroll 1
        for (int s = 0; s < stages; s++) {
            barrier_wait(ring.full(), ring.parity);
            const u32 a = ring.stage() + t / 128 * BOX, b = ring.stage() + OF_A;
            const u64 da = TA ? swizzled_transposed(a, BOX) : swizzled(a), db = TB ? swizzled_transposed(b, BOX) : swizzled(b);
            mma_fence();
#pragma unroll
            for (int k = 0; k < 4; k++) Mma<ELEMENT, BN>::template run<TA, TB>(acc[0], da + (TA ? 128 : 2) * k, db + (TB ? 128 : 2) * k, s > 0 || k);
            mma_commit();
            mma_wait<1>();
            if (s) warp_arrive(previous, lane);
            previous = ring.empty();
            ring.next();
        }
        mma_wait<0>();
        pin(acc[0]);
        warp_arrive(previous, lane);
    }
};
#endif

// Rounds the outputs, applies the epilogue, and stores 16 rows of a warp, PART columns at a time.
template <class Epilogue, class Value> __device__ __forceinline__ void store(const Arguments &g, const float (&acc)[OUTPUTS], u32 staged, int row, int col, int lane) {
    constexpr int UNITS = PART / 8; // of sixteen bytes in a row, permuted as below: no bank conflicts
    const int r = lane / 4, q = lane % 4;
    const bool whole = (u64)g.c % 16 == 0 && g.c_row % 8 == 0 && g.cols % 8 == 0;
#pragma unroll
    for (int part = 0; part < COLS / PART; part++) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < PART / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float *x = acc + 4 * (PART / 8 * part + j) + 2 * h;
                u32 v = packed<ELEMENT>(x[0], x[1]);
                if constexpr (!Epilogue::identity) {
                    const int i = row + r + 8 * h, k = col + PART * part + 8 * j + 2 * q;
                    if (i < g.rows) {
                        Value low, high;
                        low.bits = v, high.bits = v >> 16;
                        if (k < g.cols) low = Epilogue::finish(low, i, k, g.extra);
                        if (k + 1 < g.cols) high = Epilogue::finish(high, i, k + 1, g.extra);
                        v = low.bits | (u32)high.bits << 16;
                    }
                }
                sts32(staged + (r + 8 * h) * 2 * PART + (j ^ (UNITS == 8 ? r : r / 2)) * 16 + q * 4, v);
            }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < UNITS / 2; i++) {
            const int mine = 32 / UNITS * i + lane / UNITS, unit = lane % UNITS, at = col + PART * part + 8 * unit;
            u32 v[4];
            lds128(v, staged + mine * 2 * PART + (unit ^ (UNITS == 8 ? mine % 8 : mine / 2 % 4)) * 16);
            if (row + mine < g.rows && at < g.cols) {
                unsigned short *to = g.c + (row + mine) * g.c_row + at;
                if (whole) stg128(to, v);
                else {
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        if (at + e < g.cols) stg16(to + e, v[e / 2] >> 16 * (e % 2));
                }
            }
        }
    }
}

template <bool TA, bool TB, class Epilogue, class Value> __device__ __forceinline__ void run(const Arguments &g) {
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const u32 base = dynamic_base();
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            barrier_init(base + FULL + 8 * s, Unit<TA, TB>::ARRIVALS);
            barrier_init(base + EMPTY + 8 * s, CONSUMERS / 32 * ARRIVALS_PER_WARP);
        }
    barriers_made();
    __syncthreads();
    Unit<TA, TB> unit(g, base, t);
    if (t >= CONSUMERS) return;
    for (int item = blockIdx.x; item < g.items; item += gridDim.x) {
        int tm, tn;
        tile_of(g, item, tm, tn);
        float acc[BANDS][OUTPUTS];
        unit.multiply(g, acc, t);
        // warps over the rows of the tile, then over its columns
        const int row = tm * BM + warp % (BM / ROWS) * ROWS, col = tn * BN + warp / (BM / ROWS) * COLS;
#pragma unroll
        for (int i = 0; i < BANDS; i++)
            store<Epilogue, Value>(g, acc[i], base + OFF_STAGED + warp * STAGED, row + 16 * i, col, lane);
    }
}

} // namespace tile
