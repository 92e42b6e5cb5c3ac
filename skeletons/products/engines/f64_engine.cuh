// The float64 matrix-product engine: DMMA on the tensor cores, for Hopper (sm_90a; it also compiles
// for sm_80 and sm_100, with smaller tiles).
//
//   C = epilogue(alpha * A B + beta * C)                       one product
//   C_i += gamma_ir alpha (sum_j a_jr A_j)(sum_j b_jr B_j)     a bilinear algorithm
//
// The same scheme as f32_engine.cuh: persistent blocks of eight consumer warps (shared-memory loads
// and DMMA only) and four producer warps, which feed a ring of stages.  The differences, and the
// reasons (derived in benchmarks/matmul/NOTES-float64.md):
//   power        is the limit (of cuBLAS, too): m16n8k16 reads and writes accumulators half as often
//                as m16n8k8.  Issue slots are plentiful.  L2 bandwidth is scarce: a 128 x 128 tile
//                needs 16 B a clock and multiprocessor, a Strassen product 27.
//   producers    An operand that is one unchanged tile is copied asynchronously (cp.async, any
//                layout: an element is eight bytes); sums and transformed elements go through
//                registers, with the next chunk's loads in flight while this one is stored.
//   sums         of blocks for later products are formed by the producers during this one (Sums).
//   fragments    are loaded eight bytes at a time: a DMMA wants its operands in consecutive
//                registers, in an order that no sixteen-byte load of two k (of A) or two columns
//                (of B) delivers; with those ptxas moves 256 registers a stage.
#pragma once
#include "f64_ptx.cuh"
#include "tile_work.cuh"

namespace tile {

#ifndef TILE_BM
#define TILE_BM 128
#endif
#ifndef TILE_BN
#define TILE_BN 128
#endif
#ifndef TILE_WARPS_M // of the eight consumer warps, down the tile
#define TILE_WARPS_M 2
#endif
#ifndef TILE_MMA_K
#define TILE_MMA_K 16
#endif
#ifndef TILE_BK
#define TILE_BK (TILE_MMA_K == 16 ? 32 : 16)
#endif
#ifndef TILE_STAGES
#define TILE_STAGES (96 / TILE_BK)
#endif
#ifndef TILE_CONSUMER_REGS
#define TILE_CONSUMER_REGS 208
#endif
#ifndef TILE_B_SETS // register sets for fragments of B; with one, a fragment is loaded once its predecessor has been used
#define TILE_B_SETS (TILE_MMA_K == 16 ? 1 : 2)
#endif
// compute-sanitizer's racecheck follows only threads that arrive themselves.
#ifndef TILE_EVERY_LANE_ARRIVES
#define TILE_EVERY_LANE_ARRIVES 0
#endif
constexpr int BM = TILE_BM, BN = TILE_BN, BK = TILE_BK, STAGES = TILE_STAGES;
constexpr int CONSUMERS = 256, PRODUCERS = 128, THREADS = CONSUMERS + PRODUCERS;
constexpr int WARPS_M = TILE_WARPS_M, WARPS_N = 8 / WARPS_M;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8; // a warp's part of the tile, in DMMAs
// k-steps: a chunk is the unit of the shared layout, a step that of a DMMA (or two)
constexpr int CHUNK = 8, CHUNKS = BK / CHUNK, STEP = TILE_MMA_K == 16 ? 16 : 8, STEPS = BK / STEP, PAIRS = STEP / CHUNK;
constexpr int ARRIVALS_PER_WARP = TILE_EVERY_LANE_ARRIVES ? 32 : 1;
static_assert(MT % 2 == 0 && NT % 2 == 0 && STEPS % TILE_B_SETS == 0, "fragments alternate between two sets of registers");

// ---------------------------------------------------------------- arguments (as in f32_engine.cuh)

// One product of a bilinear algorithm.  The first term of each operand has coefficient 1.
struct Term { int row, col; double factor; };
struct Target { int row, col; double factor; int first, last; };
struct Product { int na, nb, nc, pad; Term a[2], b[2]; Target c[4]; };
// out = x + factor y, for a later product; out is dense, and x and y are padded with zeros.  All pointers and strides
// are multiples of sixteen bytes.
struct Sum { const double *x, *y; double *out; i64 x_row, y_row; int x_rows, x_cols, y_rows, y_cols, rows, cols; double factor; };

struct Arguments {
    const double *a, *b;
    double *c;
    u32 *flags;                                       // used by other engines: the host has one layout for all
    i64 a_row, a_col, b_row, b_col, c_row;            // strides in elements; C's rows are contiguous
    int a_rows, a_depth, b_depth, b_cols, c_rows, c_cols; // complete extents; elements outside are zero
    int qm, qn, qk;                                   // extents of a quadrant (of the matrices if there is one product)
    double alpha, beta;
    int tiles_m, tiles_n, group;                      // tiles of a quadrant; rows visited together
    int products, items;
    Product product[7];
    u64 extra[16];                                    // arguments of a fused epilogue
    int sums;                                         // formed during this product (TERMS = 1)
    Sum sum[4];
};

// The consumers and producers share the 384 * 168 registers of the launch.
constexpr int CONSUMER_REGS = TILE_CONSUMER_REGS, PRODUCER_REGS = 504 - 2 * CONSUMER_REGS;

// ---------------------------------------------------------------- shared memory

// A chunk (ROWS x 8 elements) of an operand, in the order of memory: [r][k] in rows of 64 bytes, of which rows 2, 3, 6,
// 7 ... swap halves, or [k][r] in rows padded by 32 bytes.  Lanes (g, t) that load element (g, t) or (g, t + 4) use each
// bank twice, as do the sixteen-byte stores of two neighbours.
template <int ROWS, Layout L> struct Tile {
    static constexpr bool ALONG_K = L != R_CONTIGUOUS;
    static constexpr int PITCH = ALONG_K ? CHUNK * 8 : ROWS * 8 + 32, BYTES = ALONG_K ? ROWS * PITCH : CHUNK * PITCH;
    __device__ static __forceinline__ u32 at(int r, int k) { return ALONG_K ? r * PITCH + ((k * 8) ^ ((r & 2) << 4)) : k * PITCH + r * 8; }
};
template <Layout A, Layout B> struct Stage {
    static constexpr int OFF_B = CHUNKS * Tile<BM, A>::BYTES, OFF_FULL = OFF_B + CHUNKS * Tile<BN, B>::BYTES, OFF_EMPTY = OFF_FULL + 8;
    static constexpr int BYTES = (OFF_FULL + 16 + 127) / 128 * 128;
};
// The shared memory of a launch, for all layouts.
constexpr int SHARED_BYTES = STAGES * ((CHUNKS * CHUNK * (BM * 8 + 32 + BN * 8 + 32) + 16 + 127) / 128 * 128);

__device__ __forceinline__ void warp_arrive(u32 bar, bool leader) {
    __syncwarp();
    if (TILE_EVERY_LANE_ARRIVES || leader) barrier_arrive(bar);
}

// ---------------------------------------------------------------- producers

// Where a term's tile starts in its operand, and the rest of its quadrant from there.
struct Extent { int r0, k0, rows, depth; };

// An operand's tile of ROWS, distributed to 128 threads in units of two elements.
// r is the row of A or the column of B.
template <int COUNT, Layout L, bool VECTOR, class Transform, bool SWAP> struct Loader {
    typedef Tile<COUNT, L> Place;
    static constexpr int UNITS = COUNT * CHUNK / 2 / PRODUCERS, DOWN = Place::ALONG_K ? 32 : 0, DEEP = Place::ALONG_K ? 0 : PRODUCERS * 2 / COUNT;
    static constexpr int ROWS = COUNT;
    static constexpr bool DIRECT = Transform::identity;
    static_assert(UNITS >= 1 && UNITS * PRODUCERS * 2 == COUNT * CHUNK, "");
    static_assert(L != STRIDED || !VECTOR, "sixteen-byte loads need a contiguous index");

    __device__ static __forceinline__ int first_r(int t) { return Place::ALONG_K ? t / 4 : t % (COUNT / 2) * 2; }
    __device__ static __forceinline__ int first_k(int t) { return Place::ALONG_K ? t % 4 * 2 : t / (COUNT / 2); }
    // how many of the two elements of a unit exist
    __device__ static __forceinline__ int present(int r, int k, int rows, int depth) {
        if (Place::ALONG_K) return r < rows ? max(0, min(2, depth - k)) : 0;
        return k < depth ? max(0, min(2, rows - r)) : 0;
    }
    __device__ static __forceinline__ double transformed(double x, int r, int k) { return Transform::apply(x, SWAP ? k : r, SWAP ? r : k); }
};

// One operand of a product while it is loaded: N terms.
template <class Load, int N> struct Stream {
    typedef typename Load::Place Place;
    static constexpr bool ASYNC = N == 1 && Load::DIRECT;
    static constexpr int U = Load::UNITS;
    const double *p[N]; // this thread's first unit of the chunk
    Extent e[N];
    i64 sr, sk, along;  // strides of rows and of k; of the two elements of a unit
    double v[ASYNC ? 1 : N][U][2];
    int t, k;           // the chunk's first k, in the quadrant
    u32 here;           // the first unit's offset in a chunk

    __device__ __forceinline__ void next_unit(const double *&from) const {
        from += Place::ALONG_K ? Load::DOWN * sr : Load::DEEP * sk;
        keep(from); // one pointer, not one per unit
    }
    __device__ __forceinline__ u32 place(int q) const { return here + q * (Place::ALONG_K ? Load::DOWN : Load::DEEP) * Place::PITCH; }
    __device__ __forceinline__ int r(int q) const { return Load::first_r(t) + q * Load::DOWN; }
    __device__ __forceinline__ int depth(int q) const { return Load::first_k(t) + q * Load::DEEP; } // of the unit in the chunk

    __device__ __forceinline__ bool inside() const {
        bool all = true;
#pragma unroll
        for (int i = 0; i < N; i++) all = all && e[i].rows >= Load::ROWS;
        return all;
    }
    __device__ __forceinline__ int whole(int stages) const { // stages before the first with a fringe
#pragma unroll
        for (int i = 0; i < N; i++) stages = min(stages, max(e[i].depth, 0) / BK);
        return stages;
    }
    __device__ __forceinline__ void advance() {
#pragma unroll
        for (int i = 0; i < N; i++) p[i] += CHUNK * sk;
        k += CHUNK;
    }
    template <bool EDGE, bool VECTOR> __device__ __forceinline__ void copy(u32 at) {
        const double *from = p[0];
#pragma unroll
        for (int q = 0; q < U; q++) {
            const int n = EDGE ? Load::present(r(q), depth(q), e[0].rows, e[0].depth - k) : 2;
            u32 to = at + place(q);
            if (VECTOR) copy16(to, from, 8 * n);
            else {
                copy8(to, from, n > 0 ? 8 : 0);
                copy8(to + 8, from + along, n > 1 ? 8 : 0);
            }
            next_unit(from);
        }
        advance();
    }
    // Issues the loads of the chunk.
    template <bool EDGE, bool VECTOR> __device__ __forceinline__ void fetch() {
#pragma unroll
        for (int i = 0; i < (ASYNC ? 0 : N); i++) {
            const double *from = p[i];
#pragma unroll
            for (int q = 0; q < U; q++) {
                const int n = EDGE ? Load::present(r(q), depth(q), e[i].rows, e[i].depth - k) : 2;
                if (EDGE) v[i][q][0] = v[i][q][1] = 0.0;
                if (VECTOR && n == 2) ldg(v[i][q], from);
                else {
                    if (n > 0) ldg(v[i][q][0], from);
                    if (n > 1) ldg(v[i][q][1], from + along);
                }
                next_unit(from);
            }
        }
    }
    template <bool EDGE, bool IDENTITY> __device__ __forceinline__ double value(int i, int q, int j) const {
        if (IDENTITY) return v[i][q][j];
        const int n = EDGE ? Load::present(r(q), depth(q), e[i].rows, e[i].depth - k) : 2;
        if (j >= n) return 0.0;
        return Load::transformed(v[i][q][j], e[i].r0 + r(q) + (Place::ALONG_K ? 0 : j), e[i].k0 + k + depth(q) + (Place::ALONG_K ? j : 0));
    }
    // Sums the fetched terms, and stores the sums.
    template <bool EDGE, bool VECTOR, bool IDENTITY> __device__ __forceinline__ void put(u32 at, const Term *term) {
        double sum[U][2];
#pragma unroll
        for (int q = 0; q < U; q++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                sum[q][j] = value<EDGE, IDENTITY>(0, q, j);
                if (N > 1) sum[q][j] = fma(term[1].factor, value<EDGE, IDENTITY>(N - 1, q, j), sum[q][j]);
            }
#pragma unroll
        for (int q = 0; q < U; q++) sts(at + place(q), sum[q]);
        advance();
    }
};

// The sums of a launch: a block handles every gridDim-th row, its producers two columns each.  A step adds and stores
// what the previous one loaded, so that no producer waits for memory.
struct Sums {
    static constexpr int UNITS = 2;
    double x[UNITS][2], y[UNITS][2], factor[UNITS];
    double *to[UNITS]; // null: nothing was loaded
    int t, number, r, c;

    __device__ __forceinline__ Sums(int t) : t(t), number(0), r(blockIdx.x), c(2 * t) {
#pragma unroll
        for (int u = 0; u < UNITS; u++) to[u] = nullptr;
    }
    __device__ __forceinline__ bool more(const Arguments &g) const { return number < g.sums; }
    __device__ static __forceinline__ void load(double (&v)[2], const double *from, i64 row, int rows, int cols, int r, int c) {
        const double *p = from + r * row + c;
        v[0] = v[1] = 0.0;
        if (r < rows && c + 1 < cols) ldg(v, p);
        else if (r < rows && c < cols) ldg(v[0], p);
    }
    __device__ __forceinline__ void step(const Arguments &g) {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            if (to[u]) {
                double v[2] = {fma(factor[u], y[u][0], x[u][0]), fma(factor[u], y[u][1], x[u][1])};
                stg(to[u], v);
                to[u] = nullptr;
            }
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            if (more(g)) {
                const Sum &s = g.sum[number];
                if (r < s.rows && c < s.cols) {
                    load(x[u], s.x, s.x_row, s.x_rows, s.x_cols, r, c);
                    load(y[u], s.y, s.y_row, s.y_rows, s.y_cols, r, c);
                    to[u] = s.out + (i64)r * s.cols + c;
                    factor[u] = s.factor;
                }
                if ((c += 2 * PRODUCERS) >= s.cols) {
                    c = 2 * t;
                    if ((r += gridDim.x) >= s.rows) {
                        r = blockIdx.x;
                        number++;
                    }
                }
            }
    }
};

// Fills the ring with the stages of one product of one tile.
template <Layout LA, Layout LB, bool VECTOR, class TA, class TB, bool SUMS> struct Feed {
    typedef Loader<BM, LA, VECTOR, TA, false> LoadA;
    typedef Loader<BN, LB, VECTOR, TB, true> LoadB;
    typedef Stage<LA, LB> S;
    Ring<S::BYTES, STAGES> ring;
    int t;
    Sums sums;
    __device__ __forceinline__ Feed(int t) : t(t), sums(t) {}

    template <bool EDGE, class A, class B> __device__ __forceinline__ void steady(const Arguments &g, const Product &w, A &a, B &b, int &s, int until) {
        if (s >= until) return;
        if (!A::ASYNC) a.template fetch<EDGE, VECTOR>();
        if (!B::ASYNC) b.template fetch<EDGE, VECTOR>();
#pragma unroll 1
        for (; s < until; s++) {
            barrier_wait(ring.at + S::OFF_EMPTY, ring.parity ^ 1);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const bool more = c + 1 < CHUNKS || s + 1 < until;
                u32 to_a = ring.at + c * Tile<BM, LA>::BYTES;
                u32 to_b = ring.at + S::OFF_B + c * Tile<BN, LB>::BYTES;
                if constexpr (A::ASYNC) a.template copy<EDGE, VECTOR>(to_a);
                else {
                    a.template put<EDGE, VECTOR, TA::identity>(to_a, w.a);
                    if (more) a.template fetch<EDGE, VECTOR>();
                }
                if constexpr (B::ASYNC) b.template copy<EDGE, VECTOR>(to_b);
                else {
                    b.template put<EDGE, VECTOR, TB::identity>(to_b, w.b);
                    if (more) b.template fetch<EDGE, VECTOR>();
                }
            }
            arrive(A::ASYNC || B::ASYNC);
            ring.next();
            if (SUMS)
#pragma unroll 1
                for (int i = 0; i < CHUNKS / 2; i++) sums.step(g); // one per sixteen k: enough for products of 2048
        }
    }
    // One arrival per thread, for its copies; one per warp, for its stores.
    __device__ __forceinline__ void arrive(bool copies) {
        if (copies) copies_arrive(ring.at + S::OFF_FULL);
        else barrier_arrive(ring.at + S::OFF_FULL);
        warp_arrive(ring.at + S::OFF_FULL, (t & 31) == 0);
    }
    template <int NA, int NB> __device__ __forceinline__ void produce(const Arguments &g, const Product &w, int tm, int tn, int s, int stages) {
        Stream<LoadA, NA> a;
        Stream<LoadB, NB> b;
        a.t = b.t = t;
        a.k = b.k = s * BK;
        a.here = LoadA::Place::at(LoadA::first_r(t), LoadA::first_k(t));
        b.here = LoadB::Place::at(LoadB::first_r(t), LoadB::first_k(t));
        a.sr = g.a_row; a.sk = g.a_col; b.sr = g.b_col; b.sk = g.b_row;
        a.along = Tile<BM, LA>::ALONG_K ? (LA == STRIDED ? a.sk : 1) : 1;
        b.along = Tile<BN, LB>::ALONG_K ? (LB == STRIDED ? b.sk : 1) : 1;
#pragma unroll
        for (int i = 0; i < NA; i++) {
            Extent x = {w.a[i].row * g.qm + tm * BM, w.a[i].col * g.qk, 0, 0};
            x.rows = min(g.a_rows, (w.a[i].row + 1) * g.qm) - x.r0;
            x.depth = min(g.qk, g.a_depth - x.k0);
            a.e[i] = x;
            a.p[i] = g.a + (i64)(x.r0 + LoadA::first_r(t)) * a.sr + (i64)(x.k0 + LoadA::first_k(t) + a.k) * a.sk;
        }
#pragma unroll
        for (int i = 0; i < NB; i++) {
            Extent x = {w.b[i].col * g.qn + tn * BN, w.b[i].row * g.qk, 0, 0};
            x.rows = min(g.b_cols, (w.b[i].col + 1) * g.qn) - x.r0;
            x.depth = min(g.qk, g.b_depth - x.k0);
            b.e[i] = x;
            b.p[i] = g.b + (i64)(x.r0 + LoadB::first_r(t)) * b.sr + (i64)(x.k0 + LoadB::first_k(t) + b.k) * b.sk;
        }
        if (a.inside() && b.inside()) steady<false>(g, w, a, b, s, min(a.whole(stages), b.whole(stages)));
        steady<true>(g, w, a, b, s, stages);
    }
    template <int TERMS> __device__ __forceinline__ void product(const Arguments &g, const Product &w, int tm, int tn, int s, int stages) {
        if (TERMS == 1) produce<1, 1>(g, w, tm, tn, s, stages);
        if constexpr (TERMS == 2) {
            if (w.na == 1 && w.nb == 1) produce<1, 1>(g, w, tm, tn, s, stages);
            else if (w.na == 1 && w.nb == 2) produce<1, 2>(g, w, tm, tn, s, stages);
            else if (w.na == 2 && w.nb == 1) produce<2, 1>(g, w, tm, tn, s, stages);
            else if (w.na == 2 && w.nb == 2) produce<2, 2>(g, w, tm, tn, s, stages);
        }
    }
};

// ---------------------------------------------------------------- consumers

// The offsets of the fragments of lane (g, t) of a warp in a chunk, and of its outputs in the tile.
template <Layout LA, Layout LB> struct Warp {
    typedef Tile<BM, LA> A;
    typedef Tile<BN, LB> B;
    int row, col; // of the warp in the tile
    int g, t;
    __device__ __forceinline__ Warp(int thread) : row((thread >> 5) % WARPS_M * WM), col((thread >> 5) / WARPS_M * WN), g((thread & 31) >> 2), t(thread & 3) {}
    __device__ __forceinline__ u32 at_a() const { return A::at(row + g, t); }
    __device__ __forceinline__ u32 at_b() const { return B::at(col + g, t); }
    // the first output; from there to (tile m, half h)
    __device__ __forceinline__ int out_row() const { return row + g; }
    __device__ __forceinline__ int out_col() const { return col + 2 * t; }
    __device__ static constexpr int down(int m, int h) { return 16 * m + 8 * h; }
    // element (r, k) of the tile at `at`, k a multiple of four
    template <class T> __device__ static __forceinline__ void load(double &v, u32 at, int r, int k) {
        const int chunk = k / CHUNK * T::BYTES, half = k % CHUNK;
        lds(v, T::ALONG_K ? (at ^ (half * 8)) + chunk + r * T::PITCH : at + chunk + half * T::PITCH + r * 8);
    }
    // a[2 s + h]: row g + 8 h, k-slot s
    __device__ static __forceinline__ void load_a(double (&a)[4 * PAIRS], u32 at, int m) {
#pragma unroll
        for (int s = 0; s < 2 * PAIRS; s++)
#pragma unroll
            for (int h = 0; h < 2; h++) load<A>(a[2 * s + h], at, down(m, h), 4 * s);
    }
    __device__ static __forceinline__ void load_b(double (&b)[2 * PAIRS], u32 at, int n) {
#pragma unroll
        for (int s = 0; s < 2 * PAIRS; s++) load<B>(b[s], at, 8 * n, 4 * s);
    }
    __device__ static __forceinline__ void load_b(double (&b)[NT][2 * PAIRS], u32 at) {
#pragma unroll
        for (int n = 0; n < NT; n++) load_b(b[n], at, n);
    }
};

__device__ __forceinline__ void multiply_one(double (&c)[4], const double (&a)[4 * PAIRS], const double (&b)[2 * PAIRS]) {
    if (TILE_MMA_K == 16) mma_k16(c, a, b);
    else if (TILE_MMA_K == 8) mma_k8(c, a, b);
    else
#pragma unroll
        for (int s = 0; s < 2 * PAIRS; s++) mma_k4(c, a[2 * s], a[2 * s + 1], b[s]);
}
__device__ __forceinline__ void multiply_row(double (&acc)[NT][4], const double (&a)[4 * PAIRS], const double (&b)[NT][2 * PAIRS]) {
    if (TILE_MMA_K == 4) {
#pragma unroll
        for (int s = 0; s < 2 * PAIRS; s++)
#pragma unroll
            for (int n = 0; n < NT; n++) mma_k4(acc[n], a[2 * s], a[2 * s + 1], b[n][s]);
    } else {
#pragma unroll
        for (int n = 0; n < NT; n++) multiply_one(acc[n], a, b[n]);
    }
}

// The main loop.  On entry the first fragments are in a[0] and b[0]; on exit those of the
// next stage.
template <class W, class S, class R>
__device__ __forceinline__ void multiply(double (&acc)[MT][NT][4], double (&a)[2][4 * PAIRS], double (&b)[TILE_B_SETS][NT][2 * PAIRS], R &ring, int stages, u32 oa, u32 ob,
                                         bool leader) {
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        const u32 cur = ring.at;
#pragma unroll
        for (int st = 0; st < STEPS; st++) {
            const u32 here = cur + oa + st * PAIRS * W::A::BYTES;
            const int next = st + 1 == STEPS ? 0 : st + 1;
#pragma unroll
            for (int m = 0; m < MT; m++) {
                if (m + 1 < MT) W::load_a(a[(m + 1) & 1], here, m + 1);
                if (m == MT - 2) { // the next step's first fragments
                    if (st + 1 == STEPS) {
                        ring.next();
                        barrier_wait(ring.at + S::OFF_FULL, ring.parity);
                    }
                    if (TILE_B_SETS > 1) W::load_b(b[(st + 1) % TILE_B_SETS], ring.at + ob + next * PAIRS * W::B::BYTES);
                }
                if (m + 1 == MT) W::load_a(a[0], ring.at + oa + next * PAIRS * W::A::BYTES, 0);
                if (m + 1 == MT && TILE_B_SETS == 1) {
#pragma unroll
                    for (int n = 0; n < NT; n++) {
                        multiply_one(acc[m][n], a[m & 1], b[0][n]);
                        W::load_b(b[0][n], ring.at + ob + next * PAIRS * W::B::BYTES, n);
                    }
                } else multiply_row(acc[m], a[m & 1], b[st % TILE_B_SETS]);
            }
        }
        warp_arrive(cur + S::OFF_EMPTY, leader);
    }
}

template <class Epilogue, Mode MODE, class W>
__device__ __forceinline__ void write_back(const Arguments &g, const Target &d, const double (&acc)[MT][NT][4], int tm, int tn, int thread) {
    keep(thread);
    const W at(thread);
    const int rows = min(g.c_rows - d.row * g.qm, g.qm), cols = min(g.c_cols - d.col * g.qn, g.qn); // of the quadrant
    const double f = d.factor * g.alpha;
    const int r0 = tm * BM + at.out_row(), c0 = tn * BN + at.out_col(); // in the quadrant
    double *corner = g.c + (i64)(d.row * g.qm + r0) * g.c_row + d.col * g.qn + c0;
    const bool vector = !((u64)g.c & 15) && !(g.c_row & 1) && !(d.col * g.qn & 1) && (tn + 1) * BN <= cols && (tm + 1) * BM <= rows;
    const bool fin = !Epilogue::identity && d.last, read = MODE != ATOMIC && (!d.first || g.beta != 0.0);
    const double share = d.first ? g.beta : 1.0; // factor of the old value
    // With one product per launch, no other block adds to this tile at the time. So the L2 can add, without waiting and
    // with the same bits.
    const bool adds = MODE == ATOMIC || (TILE_TERMS == 1 && !d.first && !fin);
    constexpr int BATCH = TILE_MMA_K == 16 ? 1 : 2; // rows; the larger fragments leave fewer registers
    if (vector && !adds) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h0 = 0; h0 < 2; h0 += BATCH) {
                double old[BATCH][NT][2]; // a batch of loads in flight
#pragma unroll
                for (int h = 0; h < BATCH; h++)
#pragma unroll
                    for (int q = 0; q < NT; q++) {
                        old[h][q][0] = old[h][q][1] = 0.0;
                        if (read) ldcg(old[h][q], corner + (i64)W::down(m, h0 + h) * g.c_row + 8 * q);
                    }
#pragma unroll
                for (int h = 0; h < BATCH; h++)
#pragma unroll
                    for (int q = 0; q < NT; q++) {
                        const int down = W::down(m, h0 + h), across = 8 * q;
                        double v[2];
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            v[j] = f * acc[m][q][2 * (h0 + h) + j];
                            if (read) v[j] = fma(share, old[h][q][j], v[j]);
                            if (!Epilogue::identity)
                                if (fin) v[j] = Epilogue::finish(v[j], d.row * g.qm + r0 + down, d.col * g.qn + c0 + across + j, g.extra);
                        }
                        stg(corner + (i64)down * g.c_row + across, v);
                    }
            }
    } else {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                double *line = corner + (i64)W::down(m, h) * g.c_row;
#pragma unroll
                for (int q = 0; q < NT; q++)
#pragma unroll
                    for (int j = 0; j < 2; j++)
                        if (r0 + W::down(m, h) < rows && c0 + 8 * q + j < cols) {
                            double *p = line + 8 * q + j;
                            double v = f * acc[m][q][2 * h + j];
                            if (adds) red(p, v);
                            else {
                                if (read) {
                                    double old;
                                    ldcg(old, p);
                                    v = fma(share, old, v);
                                }
                                if (!Epilogue::identity)
                                    if (fin) v = Epilogue::finish(v, d.row * g.qm + r0 + W::down(m, h), d.col * g.qn + c0 + 8 * q + j, g.extra);
                                stg(p, v);
                            }
                        }
            }
    }
}

// ---------------------------------------------------------------- the kernel

template <Layout LA, Layout LB, bool VECTOR, class TA, class TB, class Epilogue, Mode MODE, int TERMS> __device__ __forceinline__ void run(const Arguments &g) {
    static_assert(MODE == OWNER || MODE == ATOMIC, "");
    static_assert(MODE != ATOMIC || Epilogue::identity, "no block of the atomic execution sees a finished value");
    typedef Stage<LA, LB> S;
    typedef Warp<LA, LB> W;
    static_assert(STAGES * S::BYTES <= SHARED_BYTES, "");
    const int t = threadIdx.x;
    const u32 base = shared_base();
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            barrier_init(base + s * S::BYTES + S::OFF_FULL, PRODUCERS + PRODUCERS / 32 * ARRIVALS_PER_WARP);
            barrier_init(base + s * S::BYTES + S::OFF_EMPTY, CONSUMERS / 32 * ARRIVALS_PER_WARP);
        }
    barriers_made();
    __syncthreads();
    const int each = MODE == OWNER ? g.products : 1, stages = max(1, (g.qk + BK - 1) / BK);
    if (t < CONSUMERS) {
        registers_up<CONSUMER_REGS>();
        const u32 oa = W(t).at_a(), ob = S::OFF_B + W(t).at_b();
        const bool leader = (t & 31) == 0;
        Ring<S::BYTES, STAGES> ring = {base, base, 0};
        double acc[MT][NT][4], a[2][4 * PAIRS], b[TILE_B_SETS][NT][2 * PAIRS];
        barrier_wait(ring.at + S::OFF_FULL, 0);
        W::load_a(a[0], ring.at + oa, 0);
        W::load_b(b[0], ring.at + ob);
        Walk<MODE, Arguments> walk(g, stages);
        while (walk.next(g, stages)) {
            for (int r = 0; r < each; r++) {
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int n = 0; n < NT; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++) acc[m][n][i] = 0.0;
                multiply<W, S>(acc, a, b, ring, walk.count, oa, ob, leader);
                int item = walk.item, tm, tn;
                keep(item); // values derived from it need no registers in the loop above
                tile_of(g, MODE == OWNER ? item : item / g.products, tm, tn);
                const Product &w = g.product[MODE == OWNER ? r : item % g.products];
                for (int d = 0; d < w.nc; d++) write_back<Epilogue, MODE, W>(g, w.c[d], acc, tm, tn, t);
            }
        }
    } else {
        registers_down<PRODUCER_REGS>();
        Feed<LA, LB, VECTOR, TA, TB, TERMS == 1> feed(t - CONSUMERS);
        feed.ring = {base, base, 0};
        Walk<MODE, Arguments> walk(g, stages);
        while (walk.next(g, stages)) {
            const int item = walk.item;
            int tm, tn;
            tile_of(g, MODE == OWNER ? item : item / g.products, tm, tn);
            for (int r = 0; r < each; r++)
                feed.template product<TERMS>(g, g.product[MODE == OWNER ? r : item % g.products], tm, tn, walk.from, walk.from + walk.count);
        }
        if (TERMS == 1) {
            while (feed.sums.more(g)) feed.sums.step(g);
            feed.sums.step(g); // stores the last sums
        }
        // one stage without data: the consumers load fragments one stage ahead
        barrier_wait(feed.ring.at + S::OFF_EMPTY, feed.ring.parity ^ 1);
        feed.arrive(false);
    }
}

} // namespace tile
