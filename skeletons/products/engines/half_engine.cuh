// Products of 16-bit floats on tensor cores, added in float32.  How tiles arrive, and what multiplies
// them, is a `Unit`:
//
//   sm_90a         tensor maps copy tiles, and pad fringes with zeros; wgmma.  Two consumer warpgroups own
//                  64 x BN outputs each, one more thread starts the copies.
//   TILE_PORTABLE  (sm_80 and later) cp.async; ldmatrix and mma.sync.  Each warp owns 64 x 64 outputs, and all copy,
//                  AHEAD stages ahead: with another warp, none could have more than 168 registers.  A warp executes
//                  in order, so that what is between two products of a warp is time in which its tensor core waits for
//                  the other warp of its scheduler: copies are spread over the products of a stage.
//
// Both take either layout of both operands, whose lines begin at multiples of sixteen bytes.
#pragma once
#include "tensor_ptx.cuh"
#include "tile_work.cuh"
#include "tile_pipeline.cuh"

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
#define TILE_DEEP 64
#endif
constexpr int BM = 128, BN = TILE_BN, DEEP = TILE_DEEP;
constexpr Element ELEMENT = TILE_ELEMENT;
constexpr int CONSUMERS = TILE_PORTABLE ? BM * BN / 128 : 256, WARPS = CONSUMERS / 32, THREADS = CONSUMERS + (TILE_PORTABLE ? 0 : 128);
constexpr int OF_A = BM * DEEP * 2, OF_B = BN * DEEP * 2, STAGE = OF_A + OF_B;
#if TILE_PORTABLE
constexpr int ROWS = 64, COLS = 64; // of a consumer warp
#else
constexpr int ROWS = 16, COLS = BN;
#endif
constexpr int PART = 64;              // columns that a warp stores at a time
constexpr int STAGED = 16 * PART * 2; // bytes of them, 16 rows
#ifndef TILE_STAGES
#define TILE_STAGES (TILE_PORTABLE ? 3 : (226 * 1024 - WARPS * STAGED) / STAGE)
#endif
constexpr int STAGES = TILE_STAGES, OFF_STAGED = STAGES * STAGE, AHEAD = STAGES - 1;
typedef Slots<STAGE, STAGES, WARPS * STAGED> Feed;
constexpr int SHARED_BYTES = Feed::SHARED;
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
    int *arrived; // as `SoftBarrier` says
    int pace;
};

#if TILE_PORTABLE
// A tile of an operand: lines of DEEP elements of one row, or (TURNED) of WIDE elements of one k.  The sixteen-byte units
// of a line are permuted, so that eight lines have the same unit in different banks.
template <bool TURNED, int WIDE> struct Tile {
    static constexpr int LINE = 2 * (TURNED ? WIDE : DEEP), LINES = TURNED ? DEEP : WIDE, UNITS = LINE / 16;
    static constexpr int STEP = CONSUMERS / UNITS, CHUNKS = LINES / STEP; // lines that the block copies at a time
    static_assert(STEP % 8 == 0 && LINES % STEP == 0, "a thread's units are at equal distances");
    const unsigned short *from; // the next unit that this thread copies
    u32 to;                     // where its first unit is in a tile

    __device__ static __forceinline__ u32 address_of(int line, int unit) {
        return line * LINE + (unit ^ (UNITS == 4 ? line / 2 % 4 : line % 8)) * 16;
    }
    // What a lane gives to ldmatrix for eight rows from r on and eight k.
    __device__ static __forceinline__ u32 fragment(int r, int k, int lane) {
        return TURNED ? address_of(k + lane % 8, r / 8) : address_of(r + lane % 8, k / 8);
    }
    // The same for the elements 16 `down` rows and 16 `along` k from there.
    __device__ static __forceinline__ void load(u32 (&v)[4], u32 at, int down, int along) {
        matrices<TURNED>(v, (at ^ 32 * (TURNED ? down : along)) + 16 * LINE * (TURNED ? along : down));
    }
    // The first stage of the tile at row r is copied next.
    __device__ __forceinline__ void begin(const Lines &x, int r, int t) {
        const int line = t / UNITS, along = t % UNITS * 8;
        from = x.first + (i64)((TURNED ? 0 : r) + line) * x.pitch + (TURNED ? r : 0) + along;
        to = address_of(line, t % UNITS);
    }
    __device__ static __forceinline__ bool inside(const Lines &x, int r, int k) {
        return (TURNED ? r + WIDE : k + DEEP) <= x.inner && (TURNED ? k + DEEP : r + WIDE) <= x.outer;
    }
    // One of the CHUNKS of a stage inside of the operand.
    __device__ __forceinline__ void copy(u32 tile, const Lines &x, int chunk, bool on) {
        copy16(tile + to + chunk * STEP * LINE, from, 16, on);
        from += STEP * x.pitch;
    }
    // All of them, with zeros outside of the operand.
    __device__ __forceinline__ void copy_fringe(u32 tile, const Lines &x, int r, int k, int t) const {
        const int along = (TURNED ? r : k) + t % UNITS * 8, left = x.outer - (TURNED ? k : r) - t / UNITS;
        const int bytes = min(max(2 * (x.inner - along), 0), 16);
#pragma unroll 1
        for (int i = 0; i < CHUNKS; i++) {
            const bool there = i * STEP < left && bytes > 0;
            copy16(tile + to + i * STEP * LINE, there ? from + i * STEP * x.pitch : x.first, there ? bytes : 0, true);
        }
    }
    // To the next stage; `copied`: all chunks of this one by `copy`.
    __device__ __forceinline__ void next(const Lines &x, bool copied) {
        from += (TURNED ? DEEP * x.pitch : DEEP) - (copied ? LINES * x.pitch : 0);
    }
};

template <bool TA, bool TB> struct Unit {
    static constexpr bool LOADER = false;
    static constexpr int ARRIVALS = WARPS * ARRIVALS_PER_WARP, GIVEN = 0;
    static constexpr int STEPS = DEEP / 16, GROUPS = STEPS * BANDS;
    static_assert(AHEAD >= 2 && STEPS % 2 == 0, "");
    Feed ring, ahead;
    Tile<TA, BM> left;
    Tile<TB, BN> right;
    int item, m, n, s;                         // what is copied next
    u32 a[2][BANDS][4], b[2][COLS / 16][4];    // operands of the products of one step, and of the next
    u32 oa, ob;                                // what a lane loads of them, from the beginning of a stage on

    __device__ __forceinline__ Unit(const Arguments &g, u32 base, int t) : ring{base, 0, 0}, ahead{base, 0, 0}, item(blockIdx.x), s(0) {
        const int lane = t % 32, warp = t / 32;
        // In the order of the registers of a product: of A, other rows first, of B, other k.
        oa = Tile<TA, BM>::fragment(warp % 2 * ROWS + lane / 8 % 2 * 8, lane / 16 * 8, lane);
        ob = Tile<TB, BN>::fragment(warp / 2 * COLS + lane / 16 * 8, lane / 8 % 2 * 8, lane) + OF_A;
        find(g, t);
        for (int i = 0; i < AHEAD; i++) {
            if (item < g.items) copy_fringe(g, t);
            advance(g, t, false);
        }
        copies_wait<AHEAD - 1>();
        warp_arrive(ring.full(), lane == 0);
        barrier_wait(ring.full(), ring.parity);
        load(0, 0);
    }
    __device__ __forceinline__ void find(const Arguments &g, int t) {
        tile_of(g, item, m, n);
        m *= BM, n *= BN;
        left.begin(g.a, m, t);
        right.begin(g.b, n, t);
    }
    __device__ __forceinline__ void copy_fringe(const Arguments &g, int t) const {
        left.copy_fringe(ahead.stage(), g.a, m, s * DEEP, t);
        right.copy_fringe(ahead.stage() + OF_A, g.b, n, s * DEEP, t);
    }
    // After the copies of a stage.
    __device__ __forceinline__ void advance(const Arguments &g, int t, bool copied) {
        copies_commit();
        left.next(g.a, copied);
        right.next(g.b, copied);
        ahead.next();
        if (++s == g.stages) {
            s = 0;
            item += gridDim.x;
            find(g, t);
        }
    }
    __device__ __forceinline__ void load(int to, int k) {
#pragma unroll
        for (int j = 0; j < COLS / 16; j++) Tile<TB, BN>::load(b[to][j], ring.stage() + ob, j, k);
#pragma unroll
        for (int i = 0; i < BANDS; i++) Tile<TA, BM>::load(a[to][i], ring.stage() + oa, i, k);
    }
    // The products of `item`, the operands of whose first step are in registers; then those of the next item are.
    __device__ __forceinline__ void multiply(const Arguments &g, float (&acc)[BANDS][OUTPUTS], int t, bool last) {
        constexpr int ALL = Tile<TA, BM>::CHUNKS + Tile<TB, BN>::CHUNKS;
        const int lane = t % 32;
#pragma unroll
        for (int i = 0; i < BANDS; i++)
#pragma unroll
            for (int j = 0; j < OUTPUTS; j++) acc[i][j] = 0.f;
#pragma unroll 1
        for (int i = 0; i < g.stages; i++) {
            const bool more = i + 1 < g.stages || !last, fresh = item < g.items;
            const bool whole = fresh && Tile<TA, BM>::inside(g.a, m, s * DEEP) && Tile<TB, BN>::inside(g.b, n, s * DEEP);
            Feed following = ring;
            following.next();
            if (fresh && !whole) copy_fringe(g, t);
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                const int p = k & 1;
                if (k + 1 == STEPS) {
                    ring = following;
                    if (more) barrier_wait(ring.full(), ring.parity);
                }
                load(p ^ 1, (k + 1) % STEPS);
#pragma unroll
                for (int i = 0; i < BANDS; i++) {
                    // This warp read the whole stage, and brought its part of the next one: where all did so, the stage
                    // before may be overwritten.
                    if (k + 2 == STEPS && i == BANDS / 2 && more) {
                        copies_wait<AHEAD - 2>();
                        warp_arrive(following.full(), lane == 0);
                    }
#pragma unroll
                    for (int c = (k * BANDS + i) * ALL / GROUPS; c < (k * BANDS + i + 1) * ALL / GROUPS; c++)
                        if (c < left.CHUNKS) left.copy(ahead.stage(), g.a, c, whole);
                        else right.copy(ahead.stage() + OF_A, g.b, c - left.CHUNKS, whole);
#pragma unroll
                    for (int x = 0; x < COLS / 8; x++) {
                        const int j = i & 1 ? COLS / 8 - 1 - x : x; // so that neighbours share an operand
                        mma<ELEMENT>(acc[i] + 4 * j, a[p][i], b[p][j / 2][j % 2 * 2], b[p][j / 2][j % 2 * 2 + 1]);
                    }
                }
            }
            advance(g, t, true);
        }
    }
};
#else
template <bool TA, bool TB> struct Unit {
    static constexpr bool LOADER = true;
    static constexpr int ARRIVALS = 1, GIVEN = WARPS * ARRIVALS_PER_WARP, REGISTERS = 232;
    static constexpr int BOX = 64 * 128; // bytes of 64 rows, in both layouts
    struct Source { // boxes of both operands
        int m, n, k, count;
        __device__ __forceinline__ Source(const Arguments &g, int tm, int tn, int) : m(tm * BM), n(tn * BN), k(0), count(g.stages) {}
        template <bool TURNED, int WIDE> __device__ static __forceinline__ void box(u32 to, const TensorMap &x, int r, int k, u32 full) {
            if (TURNED) {
#pragma unroll
                for (int i = 0; i < WIDE; i += 64) box_load(to + i * 128, x, r + i, k, full);
            } else box_load(to, x, k, r, full);
        }
        __device__ __forceinline__ void load(const Arguments &g, u32 to, u32 full) {
            box<TA, BM>(to, g.a, m, k, full);
            box<TB, BN>(to + OF_A, g.b, n, k, full);
            k += DEEP;
        }
    };
    Feed ring;
    __device__ __forceinline__ Unit(const Arguments &, u32 base, int) : ring{base, 0, 0} {}
    __device__ __forceinline__ void multiply(const Arguments &g, float (&acc)[BANDS][OUTPUTS], int t, bool) {
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
            if (s) warp_arrive(previous, lane == 0);
            previous = ring.empty();
            ring.next();
        }
        mma_wait<0>();
        pin(acc[0]);
        warp_arrive(previous, lane == 0);
    }
};
#endif

// Rounds the outputs, applies the epilogue, and stores 16 rows of a warp, PART columns at a time.  What is outside of C
// is computed at its end, so that no branch keeps loads of the epilogue from being in flight together.
template <class Epilogue, class Value> __device__ __forceinline__ void store(const Arguments &g, const float (&acc)[OUTPUTS], u32 staged, int row, int col, int lane) {
    constexpr int UNITS = PART / 8; // of sixteen bytes in a row, permuted as below: no bank conflicts
    const int r = lane / 4, q = lane % 4;
    const bool whole = (u64)g.c % 16 == 0 && g.c_row % 8 == 0 && g.cols % 8 == 0;
#pragma unroll
    for (int part = 0; part < COLS / PART; part++) {
        u32 v[PART / 8][2];
#pragma unroll
        for (int j = 0; j < PART / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float *x = acc + 4 * (PART / 8 * part + j) + 2 * h;
                v[j][h] = packed<ELEMENT>(x[0], x[1]);
                if constexpr (!Epilogue::identity) {
                    const int i = min(row + r + 8 * h, g.rows - 1), k = col + PART * part + 8 * j + 2 * q;
                    Value low, high;
                    low.bits = v[j][h], high.bits = v[j][h] >> 16;
                    low = Epilogue::finish(low, i, min(k, g.cols - 1), g.extra);
                    high = Epilogue::finish(high, i, min(k + 1, g.cols - 1), g.extra);
                    v[j][h] = low.bits | (u32)high.bits << 16;
                }
            }
        __syncwarp();
#pragma unroll
        for (int j = 0; j < PART / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                sts32(staged + (r + 8 * h) * 2 * PART + (j ^ (UNITS == 8 ? r : r / 2)) * 16 + q * 4, v[j][h]);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < UNITS / 2; i++) {
            const int mine = 32 / UNITS * i + lane / UNITS, unit = lane % UNITS, at = col + PART * part + 8 * unit;
            u32 w[4];
            lds128(w, staged + mine * 2 * PART + (unit ^ (UNITS == 8 ? mine % 8 : mine / 2 % 4)) * 16);
            if (row + mine < g.rows && at < g.cols) {
                unsigned short *to = g.c + (row + mine) * g.c_row + at;
                if (whole) stg128(to, w);
                else {
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        if (at + e < g.cols) stg16(to + e, w[e / 2] >> 16 * (e % 2));
                }
            }
        }
    }
}

template <bool TA, bool TB, class Epilogue, class Value> struct Halves : Unit<TA, TB> {
    typedef tile::Feed Feed;
    using Unit<TA, TB>::Unit;
    __device__ static __forceinline__ int products(const Arguments &) { return 1; }
    __device__ __forceinline__ void consume(const Arguments &g, u32 base, int item, int tm, int tn, int t) {
        const int warp = t / 32;
        float acc[BANDS][OUTPUTS];
        this->multiply(g, acc, t, item + gridDim.x >= g.items);
        // warps over the rows of the tile, then over its columns
        const int row = tm * BM + warp % (BM / ROWS) * ROWS, col = tn * BN + warp / (BM / ROWS) * COLS;
#pragma unroll
        for (int i = 0; i < BANDS; i++)
            store<Epilogue, Value>(g, acc[i], base + OFF_STAGED + warp * STAGED, row + 16 * i, col, t % 32);
    }
};

template <bool TA, bool TB, class Epilogue, class Value> __device__ __forceinline__ void run(const Arguments &g) {
    pipeline<Halves<TA, TB, Epilogue, Value>, CONSUMERS>(g);
}

} // namespace tile
