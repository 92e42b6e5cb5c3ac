// The exact int32 product, modulo 2^32, on the int8 tensor cores of Hopper (sm_90a).
//
// x = x0 + 2^8 x1 + 2^16 x2 + 2^24 x3 with unsigned bytes, so that modulo 2^32
//
//   A B = S0 + 2^8 S1 + 2^16 S2 + 2^24 S3,    S_w = sum over i + j = w of A_i B_j
//
// are ten products of bytes.  Their sums wrap modulo 2^32, which changes nothing.  (Signed and
// unsigned integers are the same modulo 2^32.)
//
// Blocks, ring and executions as in f32_engine.cuh.  Two consumer warpgroups own
// 64 x 128 outputs each.  Four accumulators per result, one for each weight, would fill the registers
// of a multiprocessor, so every stage (64 k) combines the weights by Horner's rule:
//   temp = S3;  temp = 2^8 temp + S2;  temp = 2^8 temp + S1;  total += S0 + 2^8 temp
// which costs 192 shifts and additions per thread and stage, next to 20 wgmma of 64 x 128 x 32; while
// one warpgroup shifts, the other multiplies.
//
// The four producer warps split integers into limbs as they load them: a 4 x 4 transposition of
// bytes is eight PRMTs.  A limb's plane in shared memory is K-major without swizzle, [16 k][row][16
// bytes]: each store of a warp, and every core matrix that wgmma reads, is 128 consecutive bytes.
#pragma once
#include "i32_ptx.cuh"
#include "tile_work.cuh"

namespace tile {

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int CONSUMERS = 256, PRODUCERS = 128, THREADS = CONSUMERS + PRODUCERS;
constexpr int LIMBS = 4, COLUMNS = BK / 16;                  // columns of sixteen k
constexpr int COLUMN = 128 * 16, PLANE = COLUMNS * COLUMN;   // bytes of a column, of a limb of an operand
constexpr int OFF_B = LIMBS * PLANE, OFF_FULL = 2 * LIMBS * PLANE, OFF_EMPTY = OFF_FULL + 8;
constexpr int STAGE = (OFF_EMPTY + 8 + 127) / 128 * 128;
#ifndef TILE_STAGES
#define TILE_STAGES 3
#endif
// The consumers and producers share the 384 * 168 registers of the launch.
#ifndef TILE_CONSUMER_REGS
#define TILE_CONSUMER_REGS (TILE_TERMS == 2 ? 168 : 160)
#endif
constexpr int CONSUMER_REGS = TILE_CONSUMER_REGS, PRODUCER_REGS = 504 - 2 * CONSUMER_REGS;
constexpr int STAGES = TILE_STAGES, SHARED_BYTES = STAGES * STAGE;

// As in f32_engine.cuh: the first term of an operand has coefficient 1, elements outside quadrants are zero.
struct Term { int row, col; int factor; };
struct Target { int row, col; int factor; int first, last; };
struct Product { int na, nb, nc, pad; Term a[2], b[2]; Target c[4]; };
struct Arguments {
    const int *a, *b;
    int *c;
    u32 *flags;
    i64 a_row, a_col, b_row, b_col, c_row;
    int a_rows, a_depth, b_depth, b_cols, c_rows, c_cols;
    int qm, qn, qk;
    int alpha, beta;
    int tiles_m, tiles_n, group;
    int products, items;
    Product product[7];
    u64 extra[16];
};

__device__ __forceinline__ int times(int a, int b) { return (int)((u32)a * (u32)b); }
__device__ __forceinline__ int plus(int a, int b) { return (int)((u32)a + (u32)b); }

// ---------------------------------------------------------------- producers

// One operand: 128 rows of A, or columns of B.  A thread handles sixteen integers of every column of sixteen k: all
// of one row (if rows are contiguous: neighbours read neighbours), or four k of four rows.
template <Layout L, bool VECTOR, class Transform, bool SWAP, int N> struct Operand {
    static constexpr bool ONE_ROW = L == R_CONTIGUOUS;
    static constexpr int AHEAD = N == 1 ? 2 : 1; // columns whose loads are in flight
    const int *p[N];        // this thread's first element of the next column
    int r0[N], k0[N], rows[N], depth[N];
    i64 sr, sk;
    int v[AHEAD][N][16];
    int t, k;               // the next column's first k, in the quadrant

    __device__ __forceinline__ int row(int i) const { return ONE_ROW ? t : t / 4 + i / 4 * 32; }
    __device__ __forceinline__ int deep(int i) const { return ONE_ROW ? i : t % 4 * 4 + i % 4; }

    template <bool EDGE, int SLOT> __device__ __forceinline__ void fetch() {
#pragma unroll
        for (int n = 0; n < N; n++) {
            int (&x)[16] = v[SLOT][n];
            const int *from = p[n];
#pragma unroll
            for (int q = 0; q < 16; q += 4) {
                if (!ONE_ROW && VECTOR && (!EDGE || (row(q) < rows[n] && k + deep(q) + 4 <= depth[n]))) ldg(x[q], x[q + 1], x[q + 2], x[q + 3], from);
                else {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        x[q + j] = 0;
                        if (!EDGE || (row(q + j) < rows[n] && k + deep(q + j) < depth[n])) ldg(x[q + j], ONE_ROW ? from : from + j * (L == K_CONTIGUOUS ? 1 : sk));
                        if (ONE_ROW) {
                            from += sk;
                            keep(from); // one pointer, not one per element
                        }
                    }
                }
                if (!ONE_ROW) {
                    from += 32 * sr;
                    keep(from);
                }
            }
            if (!Transform::identity) {
#pragma unroll
                for (int i = 0; i < 16; i++)
                    if (!EDGE || (row(i) < rows[n] && k + deep(i) < depth[n])) {
                        int r = r0[n] + row(i), d = k0[n] + k + deep(i);
                        x[i] = Transform::apply(x[i], SWAP ? d : r, SWAP ? r : d);
                    }
            }
            p[n] += 16 * sk;
        }
        k += 16;
    }
    // Stores the four limbs of a column, to `at` and the planes after it.
    template <int SLOT> __device__ __forceinline__ void put(u32 at, const Term *term) {
        u32 limb[4][LIMBS]; // [four k][limb]
#pragma unroll
        for (int q = 0; q < 4; q++) {
            u32 x[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int sum = v[SLOT][0][4 * q + j];
                if (N > 1) sum = plus(sum, times(term[N - 1].factor, v[SLOT][N - 1][4 * q + j]));
                x[j] = (u32)sum;
            }
            const u32 low0 = permuted(x[0], x[1], 0x5140), high0 = permuted(x[0], x[1], 0x7362);
            const u32 low1 = permuted(x[2], x[3], 0x5140), high1 = permuted(x[2], x[3], 0x7362);
            limb[q][0] = permuted(low0, low1, 0x5410);
            limb[q][1] = permuted(low0, low1, 0x7632);
            limb[q][2] = permuted(high0, high1, 0x5410);
            limb[q][3] = permuted(high0, high1, 0x7632);
        }
#pragma unroll
        for (int l = 0; l < LIMBS; l++) {
            if (ONE_ROW) store(at + l * PLANE + t * 16, limb[0][l], limb[1][l], limb[2][l], limb[3][l]);
            else {
#pragma unroll
                for (int q = 0; q < 4; q++) store(at + l * PLANE + row(4 * q) * 16 + t % 4 * 4, limb[q][l]);
            }
        }
    }
};

template <Layout LA, Layout LB, bool VECTOR, class TA, class TB> struct Feed {
    Ring<STAGE, STAGES> ring;
    int t;

    template <bool EDGE, class A, class B> __device__ __forceinline__ void steady(const Product &w, A &a, B &b, int &s, int until) {
        if (s >= until) return;
        a.template fetch<EDGE, 0>();
        b.template fetch<EDGE, 0>();
        if (A::AHEAD > 1) a.template fetch<EDGE, A::AHEAD - 1>();
        if (B::AHEAD > 1) b.template fetch<EDGE, B::AHEAD - 1>();
#pragma unroll 1
        for (; s < until; s++) {
            barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);
            const bool last = s + 1 == until;
            column<EDGE, 0>(w, a, b, last);
            column<EDGE, 1>(w, a, b, last);
            column<EDGE, 2>(w, a, b, last);
            column<EDGE, 3>(w, a, b, last);
            arrive();
            ring.next();
        }
    }
    template <bool EDGE, int C, class A, class B> __device__ __forceinline__ void column(const Product &w, A &a, B &b, bool last) {
        a.template put<C % A::AHEAD>(ring.at + C * COLUMN, w.a);
        if (!last || C + A::AHEAD < COLUMNS) a.template fetch<EDGE, C % A::AHEAD>();
        b.template put<C % B::AHEAD>(ring.at + OFF_B + C * COLUMN, w.b);
        if (!last || C + B::AHEAD < COLUMNS) b.template fetch<EDGE, C % B::AHEAD>();
    }
    __device__ __forceinline__ void arrive() {
        stores_visible();
        warp_arrive(ring.at + OFF_FULL, (t & 31) == 0);
    }
    template <int NA, int NB> __device__ __forceinline__ void produce(const Arguments &g, const Product &w, int tm, int tn, int s, int stages) {
        Operand<LA, VECTOR, TA, false, NA> a;
        Operand<LB, VECTOR, TB, true, NB> b;
        a.t = b.t = t;
        a.k = b.k = s * BK;
        a.sr = g.a_row; a.sk = g.a_col; b.sr = g.b_col; b.sk = g.b_row;
        int whole = stages;
        bool inside = true;
#pragma unroll
        for (int i = 0; i < NA; i++) {
            a.r0[i] = w.a[i].row * g.qm + tm * BM;
            a.k0[i] = w.a[i].col * g.qk;
            a.rows[i] = min(g.a_rows, (w.a[i].row + 1) * g.qm) - a.r0[i];
            a.depth[i] = min(g.qk, g.a_depth - a.k0[i]);
            a.p[i] = g.a + (i64)(a.r0[i] + a.row(0)) * a.sr + (i64)(a.k0[i] + a.k + a.deep(0)) * a.sk;
            whole = min(whole, max(a.depth[i], 0) / BK);
            inside = inside && a.rows[i] >= BM;
        }
#pragma unroll
        for (int i = 0; i < NB; i++) {
            b.r0[i] = w.b[i].col * g.qn + tn * BN;
            b.k0[i] = w.b[i].row * g.qk;
            b.rows[i] = min(g.b_cols, (w.b[i].col + 1) * g.qn) - b.r0[i];
            b.depth[i] = min(g.qk, g.b_depth - b.k0[i]);
            b.p[i] = g.b + (i64)(b.r0[i] + b.row(0)) * b.sr + (i64)(b.k0[i] + b.k + b.deep(0)) * b.sk;
            whole = min(whole, max(b.depth[i], 0) / BK);
            inside = inside && b.rows[i] >= BN;
        }
        if (inside) steady<false>(w, a, b, s, whole);
        steady<true>(w, a, b, s, stages);
    }
    template <int TERMS> __device__ __forceinline__ void product(const Arguments &g, const Product &w, int tm, int tn, int s, int stages) {
        if (TERMS == 1) produce<1, 1>(g, w, tm, tn, s, stages);
        if constexpr (TERMS == 2) {
            if (w.na == 1 && w.nb == 1) produce<1, 1>(g, w, tm, tn, s, stages);
            else if (w.na == 1) produce<1, 2>(g, w, tm, tn, s, stages);
            else if (w.nb == 1) produce<2, 1>(g, w, tm, tn, s, stages);
            else produce<2, 2>(g, w, tm, tn, s, stages);
        }
    }
};

// ---------------------------------------------------------------- consumers

// temp (+)= S_w of a stage; a and b are the descriptors of the first limbs.
template <int W> __device__ __forceinline__ void weight(int (&d)[64], u64 a, u64 b, bool add) {
#pragma unroll
    for (int i = 0; i <= W; i++)
#pragma unroll
        for (int k = 0; k < BK / 32; k++)
            mma_u8(d, a + (i * PLANE + 2 * k * COLUMN) / 16, b + ((W - i) * PLANE + 2 * k * COLUMN) / 16, add || i || k);
}

template <class R> __device__ __forceinline__ void multiply(int (&total)[64], int (&temp)[64], R &ring, int stages, u32 oa, bool leader) {
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        barrier_wait(ring.at + OFF_FULL, ring.parity);
        const u64 a = descriptor(ring.at + oa, COLUMN, 128), b = descriptor(ring.at + OFF_B, COLUMN, 128);
        mma_fence();
        weight<3>(temp, a, b, false);
        mma_commit();
        weight<0>(total, a, b, true);
        mma_commit();
        mma_wait<1>();
        pin(temp);
#pragma unroll
        for (int i = 0; i < 64; i++) temp[i] <<= 8;
        mma_fence();
        weight<2>(temp, a, b, true);
        mma_commit();
        mma_wait<0>();
        pin(temp);
#pragma unroll
        for (int i = 0; i < 64; i++) temp[i] <<= 8;
        mma_fence();
        weight<1>(temp, a, b, true);
        mma_commit();
        mma_wait<0>();
        pin(temp);
        pin(total);
        warp_arrive(ring.at + OFF_EMPTY, leader);
        ring.next();
#pragma unroll
        for (int i = 0; i < 64; i++) total[i] = plus(total[i], temp[i] << 8);
    }
}

template <class Epilogue, Mode MODE>
__device__ __forceinline__ void write_back(const Arguments &g, const Target &d, const int (&acc)[64], int tm, int tn, int thread) {
    keep(thread);
    const int rows = min(g.c_rows - d.row * g.qm, g.qm), cols = min(g.c_cols - d.col * g.qn, g.qn);
    const int r0 = tm * BM + thread / 128 * 64 + thread / 32 % 4 * 16 + thread % 32 / 4, c0 = tn * BN + thread % 4 * 2;
    const int f = times(d.factor, g.alpha);
    int *corner = g.c + (i64)(d.row * g.qm + r0) * g.c_row + d.col * g.qn + c0;
    const bool read = MODE == OWNER && (!d.first || g.beta != 0), fin = !Epilogue::identity && d.last;
    const int share = d.first ? g.beta : 1;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int *line = corner + 8 * h * g.c_row;
        if (r0 + 8 * h >= rows) continue;
#pragma unroll
        for (int j0 = 0; j0 < 16; j0 += 4) {
            int old[8]; // a batch of loads in flight
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int across = 8 * (j0 + i / 2) + i % 2;
                old[i] = 0;
                if (read && c0 + across < cols) ldcg(old[i], line + across);
            }
            int v[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = times(f, acc[4 * (j0 + i / 2) + 2 * h + i % 2]);
                if (read) v[i] = plus(v[i], times(share, old[i]));
            }
            if (!Epilogue::identity && fin) { // beyond C at its end: without branches, loads are in flight together
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v[i] = Epilogue::finish(v[i], d.row * g.qm + r0 + 8 * h, d.col * g.qn + min(c0 + 8 * (j0 + i / 2) + i % 2, cols - 1), g.extra);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int across = 8 * (j0 + i / 2) + i % 2;
                if (c0 + across < cols) {
                    if (MODE == ATOMIC) red(line + across, v[i]);
                    else stg(line + across, v[i]);
                }
            }
        }
    }
}

// ---------------------------------------------------------------- the kernel

// Integers may be added in any order: ATOMIC is as deterministic as OWNER.
template <Layout LA, Layout LB, bool VECTOR, class TA, class TB, class Epilogue, Mode MODE, int TERMS> __device__ __forceinline__ void run(const Arguments &g) {
    static_assert(MODE != ATOMIC || Epilogue::identity, "no block of the atomic execution sees a finished value");
    const int t = threadIdx.x;
    const u32 base = shared_base();
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            barrier_init(base + s * STAGE + OFF_FULL, PRODUCERS / 32 * ARRIVALS_PER_WARP);
            barrier_init(base + s * STAGE + OFF_EMPTY, CONSUMERS / 32 * ARRIVALS_PER_WARP);
        }
    barriers_made();
    __syncthreads();
    const int each = MODE == OWNER ? g.products : 1, stages = max(1, (g.qk + BK - 1) / BK);
    Ring<STAGE, STAGES> ring = {base, base, 0};
    Walk<MODE, Arguments> walk(g, stages);
    if (t < CONSUMERS) {
        fewer_registers<CONSUMER_REGS>();
        const u32 oa = t / 128 * 64 * 16;
        int total[64], temp[64];
        while (walk.next(g, stages)) {
            int tm, tn;
            tile_of(g, MODE == OWNER ? walk.item : walk.item / g.products, tm, tn);
            for (int r = 0; r < each; r++) {
#pragma unroll
                for (int i = 0; i < 64; i++) total[i] = temp[i] = 0;
                multiply(total, temp, ring, walk.count, oa, (t & 31) == 0);
                const Product &w = g.product[MODE == OWNER ? r : walk.item % g.products];
                for (int d = 0; d < w.nc; d++) write_back<Epilogue, MODE>(g, w.c[d], total, tm, tn, t);
            }
        }
    } else {
        more_registers<PRODUCER_REGS>();
        Feed<LA, LB, VECTOR, TA, TB> feed;
        feed.ring = ring;
        feed.t = t - CONSUMERS;
        while (walk.next(g, stages)) {
            int tm, tn;
            tile_of(g, MODE == OWNER ? walk.item : walk.item / g.products, tm, tn);
            for (int r = 0; r < each; r++)
                feed.template product<TERMS>(g, g.product[MODE == OWNER ? r : walk.item % g.products], tm, tn, walk.from, walk.from + walk.count);
        }
    }
}

} // namespace tile
