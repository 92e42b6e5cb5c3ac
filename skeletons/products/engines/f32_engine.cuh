// The float32 matrix-product engine for Hopper (sm_90a): FFMA, no tensor cores.
// (int32, exact modulo 2^32, uses the same engine with IMAD.  With tiles of 192 columns
// it is for every architecture from sm_80 on.)
//
//   C = epilogue(alpha * A B + beta * C)                       one product
//   C_i += gamma_ir alpha (sum_j a_jr A_j)(sum_j b_jr B_j)     a bilinear algorithm
//
// A block of 12 warps owns one multiprocessor for its lifetime (persistent).
// Warps 0-7 are consumers: 128 x 256 outputs, 8 x 16 a thread, only
// shared-memory loads and FFMAs.  Warps 8-11 are producers: they read the
// operands from global memory (any layout, any strides), compute the fused
// elements (of up to two arrays), add the quadrant tiles of a Strassen product, pad
// fringes with zeros, and write k-major tiles into a ring of stages.  Each stage has two
// mbarriers: `full` (producers -> consumers) and `empty` (back).
//
// Choices that matter, and why (measured on an H200; benchmarks/matmul/NOTES.md):
//   BK = 8      one stage is one iteration of the unrolled loop: 1 024 FFMAs, 48
//               LDS.128, 18 others, 17 KB of code.  Twice that no longer streams
//               from the instruction cache; half of it needs a second backward
//               jump (-6 %).
//   A as [k][m] the eight values of a k-step are then in registers of both
//               parities, so ptxas can read a, b and the accumulator from
//               different register banks; as [m][k] quads it cannot (-10 %).
//   registers   setmaxnreg moves them from producers to consumers.  A producer
//               branch that is short of registers makes ptxas ignore the banks
//               in the consumer's loop as well (1.16 -> 1.6 clocks an FFMA): after
//               any change, count with benchmarks/matmul/sass_stats.py.
//   producers   in the last warps of the block: in the first ones -2 ... -6 %.
//               They are limited by the number of their instructions, since the
//               scheduler prefers the FFMA streams: one pointer a term, all else
//               in immediate offsets.
//   lanes       8 x 4 over rows and columns in the plain order.  Pairing lanes so
//               that a warp's LDS.128 merges into two wavefronts saves 3 % power
//               and costs 2 % time.
//   192 columns without setmaxnreg no thread has more than 168 registers.  Consumers that keep the fragments of the
//               next item while they store leave ptxas too few: it spills, or ignores register banks.
#pragma once
#include "f32_ptx.cuh"

namespace tile {

#ifndef TILE_BN // 256, or 192 where setmaxnreg does not exist
#define TILE_BN 256
#endif
constexpr int BM = 128, BN = TILE_BN, BK = 8;
static_assert(BN % 64 == 0, "a warp takes 64 rows and a quarter of the columns");
constexpr int COLS = BN / 16; // outputs of a thread: 8 rows, so many columns
constexpr int CONSUMERS = 256, PRODUCERS = 128, THREADS = CONSUMERS + PRODUCERS;
// Floats from one k to the next: transposing stores of a warp (lanes along m or n) have no
// bank conflicts, and rows stay aligned for sixteen-byte loads.
constexpr int PITCH_A = BM + 4, PITCH_B = BN + 4;
constexpr int OFF_B = BK * PITCH_A * 4;
constexpr int OFF_FULL = OFF_B + BK * PITCH_B * 4, OFF_EMPTY = OFF_FULL + 8;
constexpr int STAGE = (OFF_FULL + 16 + 127) / 128 * 128;
#ifndef TILE_STAGES
#define TILE_STAGES 8
#endif
constexpr int STAGES = TILE_STAGES;
constexpr int TABLE = 2 * CONSUMERS * 4; // per-thread fragment offsets
constexpr int SHARED_BYTES = STAGES * STAGE + TABLE + 128;

// ---------------------------------------------------------------- arguments

// One product of a bilinear algorithm.  The first term of each operand has
// coefficient 1 (the host moves signs into the others and into gamma).
struct Term { int row, col; float factor; };          // quadrant, coefficient
struct Target { int row, col; float factor; int first, last; };
// ranks: a byte for each target, the number of earlier products of the launch that add to it.  Four targets: for an outer level.
struct Product { int na, nb, nc; u32 ranks; Term a[2], b[2]; Target c[4]; };

struct Arguments {
    const float *a, *b;
    float *c;
    u32 *flags;                                       // zero before each launch. SPLIT: one a block; PERSISTENT: 16 a tile
    i64 a_row, a_col, b_row, b_col, c_row;            // strides in elements; C's rows are contiguous
    int a_rows, a_depth, b_depth, b_cols, c_rows, c_cols; // complete extents; elements outside are zero
    int qm, qn, qk;                                   // extents of a quadrant (of the matrices if there is one product)
    float alpha, beta;
    int tiles_m, tiles_n, group;                      // tiles of a quadrant; rows of tiles visited together
    int products, items;
    Product product[7];
    u64 extra[16];                                    // arguments of fused code: addresses, scalars
};

// Elements are kept in 32-bit registers declared float; these types interpret them.
struct Float32 {
    typedef float T;
    __device__ static __forceinline__ float mad(float a, float b, float c) { return fmaf(a, b, c); }
    __device__ static __forceinline__ float mul(float a, float b) { return a * b; }
    __device__ static __forceinline__ float add(float a, float b) { return a + b; }
    __device__ static __forceinline__ bool zero(float a) { return a == 0.f; }
    __device__ static __forceinline__ T value(float a) { return a; }
    __device__ static __forceinline__ float word(T a) { return a; }
    __device__ static __forceinline__ void red(float *p, float v) { red32(p, v); }
    __device__ static __forceinline__ void red(float *p, const float (&v)[4]) { red128(p, v); }
};
struct Int32 { // exact modulo 2^32
    typedef int T;
    __device__ static __forceinline__ int value(float a) { return __float_as_int(a); }
    __device__ static __forceinline__ float word(int a) { return __int_as_float(a); }
    __device__ static __forceinline__ float mul(float a, float b) { return word((int)((u32)value(a) * (u32)value(b))); }
    __device__ static __forceinline__ float add(float a, float b) { return word((int)((u32)value(a) + (u32)value(b))); }
    __device__ static __forceinline__ float mad(float a, float b, float c) { return add(mul(a, b), c); }
    __device__ static __forceinline__ bool zero(float a) { return value(a) == 0; }
    __device__ static __forceinline__ void red(float *p, float v) { red32(reinterpret_cast<int *>(p), value(v)); }
    __device__ static __forceinline__ void red(float *p, const float (&v)[4]) {
#pragma unroll
        for (int j = 0; j < 4; j++) red(p + j, v[j]);
    }
};

// Fused producers and consumers, on the type of the arithmetic, with the words of the launch.
// `apply(x, y, i, k, extra)` computes an element of an operand from the same element of its `sources`
// arrays (0: none; 1: x, the operand of `Arguments`; 2: also y, whose address and two strides in
// elements are the words from `second` on) and from its indices in the complete operand.
// The epilogue `finish(x, i, j, extra)` gets the final value of C(i, j) (not in ATOMIC).
struct Plain {
    static constexpr bool identity = true;
    static constexpr int sources = 1, second = 0;
    template <class T> __device__ static __forceinline__ T apply(T x, T, int, int, const u64 *) { return x; }
    template <class T> __device__ static __forceinline__ T finish(T x, int, int, const u64 *) { return x; }
};

enum Layout { K_CONTIGUOUS, R_CONTIGUOUS, STRIDED };  // the index of the tile along which memory is contiguous
// OWNER: a block computes all products of its tile, in order: deterministic, no workspace, beta and epilogue fused.
// ATOMIC: the items are (tile, product) pairs, distributed in waves; those of the last, partial waves are cut along k
// into equal shares.  Products are added to C, which is scaled by beta beforehand, in the L2.
// SPLIT: one product only.  The shares of ATOMIC, but the parts of an item are added to C in a fixed order, in which each
// block waits for the next one: deterministic, beta and epilogue fused.  The part with the last k-step is added first,
// since its block computes it first.
// PERSISTENT: the items of ATOMIC, tile by tile, but the products of a tile are added to a block of C in their order, and
// each waits for the previous one (of an earlier item, or of its own block): deterministic, beta and epilogue fused.
enum Mode { OWNER, ATOMIC, SPLIT, PERSISTENT };

// 256 consumers and 128 producers share the 384 * 168 registers of the launch.  Kernels with
// tiles of 192 columns do not reallocate them, and run on every architecture from sm_80 on.
constexpr bool MOVES_REGISTERS = BN == 256;

__device__ __forceinline__ void tile_of(const Arguments &g, int t, int &tm, int &tn) {
    // Groups of g.group tile rows, visited column by column: concurrent blocks
    // share a nearly square part of A and B in the L2.
    int per = g.group * g.tiles_n, band = t / per, first = band * g.group;
    int rows = min(g.group, g.tiles_m - first), in = t - band * per;
    tm = first + in % rows;
    tn = in / rows;
}

// The items of a block, in order: the same sequence for its producers and consumers.
template <Mode MODE> struct Walk {
    int item, from, count; // the item and its k-steps
    int unit, end;         // ATOMIC, SPLIT: position in this block's share, in k-steps after the last full wave
    __device__ static __forceinline__ int whole(const Arguments &g) { // items distributed in full waves
        int waves = g.items / (int)gridDim.x;
        return (g.items % (int)gridDim.x ? max(waves - 1, 0) : waves) * (int)gridDim.x;
    }
    __device__ __forceinline__ Walk(const Arguments &g, int stages) : item((int)blockIdx.x - (int)gridDim.x), from(0), count(stages) {
        if (MODE == OWNER || MODE == PERSISTENT) return;
        i64 rest = (i64)(g.items - whole(g)) * stages;
        unit = share(rest, blockIdx.x);
        end = share(rest, blockIdx.x + 1);
    }
    __device__ static __forceinline__ int share(i64 rest, int block) { return (int)(rest * block / gridDim.x); }
    __device__ __forceinline__ bool next(const Arguments &g, int stages) {
        item += gridDim.x;
        if (MODE == OWNER || MODE == PERSISTENT) return item < g.items;
        if (item < whole(g)) return true;
        if (unit >= end) return false;
        item = whole(g) + unit / stages;
        from = unit % stages;
        count = min(stages - from, end - unit);
        unit += count;
        return true;
    }
};

// ---------------------------------------------------------------- producers

// One operand's share of a stage: ROWS x 8 elements, in four-element quads distributed to
// 128 threads so that each thread's quads have constant distances: one pointer a
// term.  r is the row of A or the column of B.
template <class Arithmetic, int ROWS, int PITCH, Layout L, bool VECTOR, class Transform, bool SWAP> struct Loader {
    static constexpr int QUADS = ROWS * BK / 4 / PRODUCERS;
    static_assert(QUADS * PRODUCERS * 4 == ROWS * BK && BK == 8, "");
    static_assert(L == R_CONTIGUOUS || L == K_CONTIGUOUS || !VECTOR, "sixteen-byte loads need a contiguous index");

    // Loads along k: two neighbours share a row, so that a warp's load touches sixteen full sectors, not thirty-two halves
    // (-2 ... -5 % with sums of two blocks).
    __device__ static __forceinline__ int quad_r(int t, int q) {
        if (L == R_CONTIGUOUS) return (t % 16 + q * 16) * 4;
        return t / 2 + q * (PRODUCERS / 2);
    }
    __device__ static __forceinline__ int quad_k(int t, int q) {
        if (L == R_CONTIGUOUS) return t / 16;
        return t % 2 * 4;
    }
    // the q-th quad of a thread whose first element is *p
    __device__ static __forceinline__ const float *quad(const float *p, i64 sr, i64 sk, int q) {
        if (L == R_CONTIGUOUS) return p + q * 64;
        return p + q * (PRODUCERS / 2) * sr;
    }
    // The number of arrays that elements are computed from, and of their tiles in registers.
    static constexpr int SOURCES = Transform::sources, HELD = SOURCES > 1 ? SOURCES : 1;
    __device__ static __forceinline__ i64 step(const u64 *extra, int source, i64 own, int along) {
        return source ? (i64)extra[Transform::second + along] : own;
    }
    __device__ static __forceinline__ const float *base(const u64 *extra, int source, const float *own) {
        return source ? (const float *)extra[Transform::second] : own;
    }
    __device__ static __forceinline__ float transformed(float x, float y, int r, int k, const u64 *extra) {
        if (Transform::identity) return x;
        return Arithmetic::word(Transform::apply(Arithmetic::value(x), Arithmetic::value(y), SWAP ? k : r, SWAP ? r : k, extra));
    }
    // A full k-step.  EDGE: zeros for r >= rows (counted from the tile's origin).
    template <bool EDGE> __device__ static __forceinline__ void load(float (&v)[QUADS][4], const float *p, i64 sr, i64 sk, int rows, int t) {
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            const float *e = quad(p, sr, sk, q);
            if (EDGE) {
#pragma unroll
                for (int j = 0; j < 4; j++) v[q][j] = 0.f;
            }
            if (VECTOR) {
                if (!EDGE || quad_r(t, q) < rows) ldg128(v[q], e);
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (!EDGE || quad_r(t, q) + (L == R_CONTIGUOUS ? j : 0) < rows) v[q][j] = __ldg(e + j * (L == STRIDED ? sk : 1));
            }
        }
    }
    // Computes the operand in x[0] from its sources x.
    template <bool EDGE> __device__ static __forceinline__ void transform(float (&x)[HELD][QUADS][4], int r0, int k0, int rows, int t, const u64 *extra) {
#pragma unroll
        for (int q = 0; q < (Transform::identity ? 0 : QUADS); q++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int r = quad_r(t, q) + (L == R_CONTIGUOUS ? j : 0);
                if (!EDGE || r < rows) x[0][q][j] = transformed(x[0][q][j], x[HELD - 1][q][j], r0 + r, k0 + quad_k(t, q) + (L == R_CONTIGUOUS ? 0 : j), extra);
                else if (SOURCES == 0) x[0][q][j] = 0.f;
            }
    }
    // One quad, with zeros outside r < rows, k < depth (counted from this stage's origin); added to v times f.
    __device__ static __forceinline__ void load_edge(float (&v)[4], float f, const float *const (&p)[HELD], i64 sr, i64 sk, int r0, int k0, int rows, int depth, int t, int q, const u64 *extra) {
        const int r = quad_r(t, q), k = quad_k(t, q);
        float x[HELD][4];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) x[i][j] = 0.f;
            if (SOURCES == 0) break;
            const i64 down = step(extra, i, sr, 1), across = step(extra, i, sk, 2);
            const float *e = quad(p[i], down, across, q);
            if (VECTOR && (L == R_CONTIGUOUS ? r + 4 <= rows && k < depth : r < rows && k + 4 <= depth)) ldg128(x[i], e);
            else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (L == R_CONTIGUOUS ? r + j < rows && k < depth : r < rows && k + j < depth) x[i][j] = __ldg(e + j * (L == STRIDED ? across : 1));
            }
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int rj = r + (L == R_CONTIGUOUS ? j : 0), kj = k + (L == R_CONTIGUOUS ? 0 : j);
            if (Transform::identity || (rj < rows && kj < depth)) v[j] = Arithmetic::mad(f, transformed(x[0][j], x[HELD - 1][j], r0 + rj, k0 + kj, extra), v[j]);
        }
    }
    __device__ static __forceinline__ void store_quad(u32 at, const float (&v)[4], int t, int q) {
        u32 d = at + (quad_k(t, q) * PITCH + quad_r(t, q)) * 4;
        if (L == R_CONTIGUOUS) sts128(d, v);
        else {
#pragma unroll
            for (int j = 0; j < 4; j++) sts32(d + j * PITCH * 4, v[j]);
        }
    }
    __device__ static __forceinline__ void store(u32 at, const float (&v)[QUADS][4], int t) {
#pragma unroll
        for (int q = 0; q < QUADS; q++) store_quad(at, v[q], t, q);
    }
};

__device__ __forceinline__ void warp_arrive(u32 bar, bool leader) {
    __syncwarp();
    if (TILE_EVERY_LANE_ARRIVES || leader) barrier_arrive(bar);
}

struct Ring {
    u32 base, at;
    u32 parity; // of the phase that this use of `at` completes
    __device__ __forceinline__ void next() {
        at += STAGE;
        if (at == base + STAGES * STAGE) { at = base; parity ^= 1; }
    }
};

// Where a term's tile starts in its operand, and the rest of its quadrant from there.
struct Extent { int r0, k0, rows, depth; };
__device__ __forceinline__ Extent extent_a(const Arguments &g, const Term &x, int tm) {
    Extent e = {x.row * g.qm + tm * BM, x.col * g.qk, 0, 0};
    e.rows = min(g.a_rows, (x.row + 1) * g.qm) - e.r0;
    e.depth = min(g.qk, g.a_depth - e.k0);
    return e;
}
__device__ __forceinline__ Extent extent_b(const Arguments &g, const Term &x, int tn) {
    Extent e = {x.col * g.qn + tn * BN, x.row * g.qk, 0, 0};
    e.rows = min(g.b_cols, (x.col + 1) * g.qn) - e.r0;
    e.depth = min(g.qk, g.b_depth - e.k0);
    return e;
}

template <class Arithmetic, int Q> __device__ __forceinline__ void add(float (&x)[Q][4], const float (&y)[Q][4], float f) {
#pragma unroll
    for (int q = 0; q < Q; q++)
#pragma unroll
        for (int j = 0; j < 4; j++) x[q][j] = Arithmetic::mad(f, y[q][j], x[q][j]);
}

// Feeds the ring from global memory through the producers' registers: any layout, any strides.
template <class Arithmetic, class LA, class LB> struct Registers {
Ring ring;
__device__ __forceinline__ Registers(u32 base) : ring{base, base, 0} {}

// Full k-steps up to `until`.  pa, pb: a thread's pointers into every source of every term.
template <bool EDGE, int NA, int NB>
__device__ __forceinline__ void steady(const Arguments &g, const Product &w, int tm, int tn, const float *(&pa)[NA][LA::HELD], const float *(&pb)[NB][LB::HELD], int &s, int until, int t) {
    const float fa = NA > 1 ? w.a[1].factor : 0.f, fb = NB > 1 ? w.b[1].factor : 0.f;
#pragma unroll 1
    for (; s < until; s++) {
        // all loads are issued before the first wait
        float va[NA][LA::HELD][LA::QUADS][4], vb[NB][LB::HELD][LB::QUADS][4];
#pragma unroll
        for (int i = 0; i < NA; i++)
#pragma unroll
            for (int x = 0; x < LA::SOURCES; x++) {
                const i64 down = LA::step(g.extra, x, g.a_row, 1), across = LA::step(g.extra, x, g.a_col, 2);
                LA::template load<EDGE>(va[i][x], pa[i][x], down, across, extent_a(g, w.a[i], tm).rows, t);
                pa[i][x] += BK * across;
            }
#pragma unroll
        for (int i = 0; i < NB; i++)
#pragma unroll
            for (int x = 0; x < LB::SOURCES; x++) {
                const i64 down = LB::step(g.extra, x, g.b_col, 1), across = LB::step(g.extra, x, g.b_row, 2);
                LB::template load<EDGE>(vb[i][x], pb[i][x], down, across, extent_b(g, w.b[i], tn).rows, t);
                pb[i][x] += BK * across;
            }
        barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);
#pragma unroll
        for (int i = 0; i < NA; i++) {
            Extent e = extent_a(g, w.a[i], tm);
            LA::template transform<EDGE>(va[i], e.r0, e.k0 + s * BK, e.rows, t, g.extra);
        }
        if (NA > 1) add<Arithmetic>(va[0][0], va[NA - 1][0], fa);
        LA::store(ring.at, va[0][0], t);
#pragma unroll
        for (int i = 0; i < NB; i++) {
            Extent e = extent_b(g, w.b[i], tn);
            LB::template transform<EDGE>(vb[i], e.r0, e.k0 + s * BK, e.rows, t, g.extra);
        }
        if (NB > 1) add<Arithmetic>(vb[0][0], vb[NB - 1][0], fb);
        LB::store(ring.at + OFF_B, vb[0][0], t);
        warp_arrive(ring.at + OFF_FULL, (t & 31) == 0);
        ring.next();
    }
}

template <int NA, int NB> __device__ __forceinline__ void produce(const Arguments &g, const Product &w, int tm, int tn, int s, int stages, int t) {
    const float *pa[NA][LA::HELD], *pb[NB][LB::HELD];
    const float fa = NA > 1 ? w.a[1].factor : 0.f, fb = NB > 1 ? w.b[1].factor : 0.f;
    int whole = stages; // up to the last full k-step of all terms
    bool inside = true;
#pragma unroll
    for (int i = 0; i < NA; i++) {
        Extent e = extent_a(g, w.a[i], tm);
#pragma unroll
        for (int x = 0; x < LA::SOURCES; x++)
            pa[i][x] = LA::base(g.extra, x, g.a) + (i64)(e.r0 + LA::quad_r(t, 0)) * LA::step(g.extra, x, g.a_row, 1) + (i64)(e.k0 + LA::quad_k(t, 0) + s * BK) * LA::step(g.extra, x, g.a_col, 2);
        whole = min(whole, max(e.depth, 0) / BK);
        inside = inside && e.rows >= BM;
    }
#pragma unroll
    for (int i = 0; i < NB; i++) {
        Extent e = extent_b(g, w.b[i], tn);
#pragma unroll
        for (int x = 0; x < LB::SOURCES; x++)
            pb[i][x] = LB::base(g.extra, x, g.b) + (i64)(e.r0 + LB::quad_r(t, 0)) * LB::step(g.extra, x, g.b_col, 1) + (i64)(e.k0 + LB::quad_k(t, 0) + s * BK) * LB::step(g.extra, x, g.b_row, 2);
        whole = min(whole, max(e.depth, 0) / BK);
        inside = inside && e.rows >= BN;
    }
    if (inside) steady<false, NA, NB>(g, w, tm, tn, pa, pb, s, whole, t);
    else {
        asm volatile("" : "+r"(tm), "+r"(tn)); // keeps ptxas from keeping the extents live during the other loop
        steady<true, NA, NB>(g, w, tm, tn, pa, pb, s, whole, t);
    }
    // The last k-step, element by element.
    asm volatile("" : "+r"(tm), "+r"(tn));
#pragma unroll 1
    for (; s < stages; s++) {
        barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);
#pragma unroll 2
        for (int q = 0; q < LA::QUADS; q++) {
            float v[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
            for (int i = 0; i < NA; i++) {
                Extent e = extent_a(g, w.a[i], tm);
                LA::load_edge(v, i ? fa : Arithmetic::word(1), pa[i], g.a_row, g.a_col, e.r0, e.k0 + s * BK, e.rows, e.depth - s * BK, t, q, g.extra);
            }
            LA::store_quad(ring.at, v, t, q);
        }
#pragma unroll 2
        for (int q = 0; q < LB::QUADS; q++) {
            float v[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
            for (int i = 0; i < NB; i++) {
                Extent e = extent_b(g, w.b[i], tn);
                LB::load_edge(v, i ? fb : Arithmetic::word(1), pb[i], g.b_col, g.b_row, e.r0, e.k0 + s * BK, e.rows, e.depth - s * BK, t, q, g.extra);
            }
            LB::store_quad(ring.at + OFF_B, v, t, q);
        }
#pragma unroll
        for (int i = 0; i < NA; i++)
#pragma unroll
            for (int x = 0; x < LA::SOURCES; x++) pa[i][x] += BK * LA::step(g.extra, x, g.a_col, 2);
#pragma unroll
        for (int i = 0; i < NB; i++)
#pragma unroll
            for (int x = 0; x < LB::SOURCES; x++) pb[i][x] += BK * LB::step(g.extra, x, g.b_row, 2);
        warp_arrive(ring.at + OFF_FULL, (t & 31) == 0);
        ring.next();
    }
}
};

// ---------------------------------------------------------------- consumers

// A thread's outputs: rows lm*4 + {0..3} and + 32, columns ln*4 + {0..3} and + 16 (and + 32, 48)
// of its warp's 64 x BN / 4 part.
struct Place {
    int row, col; // within the block tile
    __device__ __forceinline__ Place(int t) {
        int lane = t & 31, warp = t >> 5;
        row = (warp & 1) * 64 + (lane >> 2) * 4;
        col = (warp >> 1) * (BN / 4) + (lane & 3) * 4;
    }
};
__device__ __forceinline__ int row_of(int i) { return (i & 3) + (i >> 2) * 32; }

// LOADS: vectors are loaded, added to, and stored, those of a row so that their latencies overlap (no other block adds to them
// at the same time): before Hopper, four scalar reductions of each take longer.
template <class Arithmetic, class Epilogue, bool LOADS>
__device__ __forceinline__ void write_back(const Arguments &g, const Target &d, bool first, bool last, const float (&acc)[8][COLS], int tm, int tn, const Place &at) {
    int r0 = tm * BM + at.row, c0 = tn * BN + at.col;               // in the quadrant
    int rows = min(g.c_rows - d.row * g.qm, g.qm), cols = min(g.c_cols - d.col * g.qn, g.qn);
    float f = Arithmetic::mul(d.factor, g.alpha);
    float *base = g.c + (i64)(d.row * g.qm + r0) * g.c_row + d.col * g.qn + c0;
    bool vector = !((u64)g.c & 15) && !(g.c_row & 3) && !(d.col * g.qn & 3) && (tn + 1) * BN <= cols && (tm + 1) * BM <= rows;
    bool add = !first, beta = first && !Arithmetic::zero(g.beta), fin = !Epilogue::identity && last;
    const bool read = beta || (add && (fin || LOADS)); // the old value is needed here, not in the L2
    if (vector) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float old[COLS / 4][4];
            auto load = [&](int q) {
#pragma unroll
                for (int j = 0; j < 4; j++) old[q][j] = 0.f;
                if (read) ldcg128(old[q], base + row_of(i) * g.c_row + q * 16);
            };
#pragma unroll
            for (int q = 0; LOADS && q < COLS / 4; q++) load(q);
            float *p = base + row_of(i) * g.c_row;
#pragma unroll
            for (int q = 0; q < COLS / 4; q++) {
                float v[4];
                if (!LOADS) load(q);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    v[j] = Arithmetic::mul(f, acc[i][q * 4 + j]);
                    if (read) v[j] = add ? Arithmetic::add(v[j], old[q][j]) : Arithmetic::mad(g.beta, old[q][j], v[j]);
                    if (!Epilogue::identity)
                        if (fin) v[j] = Arithmetic::word(Epilogue::finish(Arithmetic::value(v[j]), d.row * g.qm + r0 + row_of(i), d.col * g.qn + c0 + q * 16 + j, g.extra));
                }
                if (add && !fin && !LOADS) Arithmetic::red(p + q * 16, v);
                else stg128(p + q * 16, v);
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float *p = base + row_of(i) * g.c_row;
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                int c = (j & 3) + (j >> 2) * 16;
                if (r0 + row_of(i) < rows && c0 + c < cols) {
                    float v = Arithmetic::mul(f, acc[i][j]);
                    if (add && !fin) Arithmetic::red(p + c, v);
                    else {
                        if (add) v = Arithmetic::add(v, __ldcg(p + c));
                        if (beta) v = Arithmetic::mad(g.beta, __ldcg(p + c), v);
                        if (fin) v = Arithmetic::word(Epilogue::finish(Arithmetic::value(v), d.row * g.qm + r0 + row_of(i), d.col * g.qn + c0 + c, g.extra));
                        stg32(p + c, v);
                    }
                }
            }
        }
    }
}

__device__ __forceinline__ void first_fragments(float (&a)[2][2][4], float (&b)[2][COLS / 4][4], u32 at_a, u32 at_b) {
#pragma unroll
    for (int q = 0; q < 2; q++) lds128(a[0][q], at_a + q * 128);
#pragma unroll
    for (int q = 0; q < COLS / 4; q++) lds128(b[0][q], at_b + q * 64);
}

// The main loop.  On entry the first stage is full and, if there are registers to keep them, its first k-step's fragments
// are loaded; on exit, those of the next stage.
template <class Arithmetic>
__device__ __forceinline__ void multiply(float (&acc)[8][COLS], float (&a)[2][2][4], float (&b)[2][COLS / 4][4], Ring &ring, int stages, u32 oa, u32 ob, bool leader) {
    if (!MOVES_REGISTERS) first_fragments(a, b, ring.at + oa, ring.at + ob);
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        u32 cur = ring.at;
        ring.next();
        barrier_wait(ring.at + OFF_FULL, ring.parity);
        u32 ca = cur + oa, cb = cur + ob, na = ring.at + oa, nb = ring.at + ob;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            const int p = k & 1;
#pragma unroll
            for (int q = 0; q < COLS / 4; q++) lds128(b[p ^ 1][q], (k == BK - 1 ? nb : cb + (k + 1) * PITCH_B * 4) + q * 64);
#pragma unroll
            for (int q = 0; q < 2; q++) lds128(a[p ^ 1][q], (k == BK - 1 ? na : ca + (k + 1) * PITCH_A * 4) + q * 128);
            // boustrophedon, so that consecutive FFMAs share an operand
#pragma unroll
            for (int j = 0; j < COLS; j++)
#pragma unroll
                for (int x = 0; x < 8; x++) {
                    const int i = j & 1 ? 7 - x : x;
                    acc[i][j] = Arithmetic::mad(a[p][i >> 2][i & 3], b[p][j >> 2][j & 3], acc[i][j]);
                }
        }
        warp_arrive(cur + OFF_EMPTY, leader);
    }
}

// Stages whose products are all outside of the result: with tiles of 192 columns, most extents leave some.  (For tiles of
// 256 it would cost register banks.)
__device__ __forceinline__ void skip(Ring &ring, int stages, bool leader) {
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        const u32 cur = ring.at;
        ring.next();
        barrier_wait(ring.at + OFF_FULL, ring.parity);
        warp_arrive(cur + OFF_EMPTY, leader);
    }
}

// ---------------------------------------------------------------- the kernel

template <class Arithmetic, class Feed, class Epilogue, Mode MODE, int TERMS, int CONSUMER_REGS>
__device__ __forceinline__ void run(const Arguments &g) {
    static_assert(MODE != SPLIT || TERMS == 1, "parts are of one product");
    static_assert(MODE != ATOMIC || Epilogue::identity, "no block of the atomic execution sees a finished value");
    extern __shared__ __align__(128) unsigned char memory[];
    const int t = threadIdx.x;
    u32 base = shared_address(memory), table = base + STAGES * STAGE;
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            barrier_init(base + s * STAGE + OFF_FULL, PRODUCERS / 32 * ARRIVALS_PER_WARP);
            barrier_init(base + s * STAGE + OFF_EMPTY, CONSUMERS / 32 * ARRIVALS_PER_WARP);
        }
    if (t < CONSUMERS) {
        // Through shared memory, so that ptxas keeps the sums in registers, not the index arithmetic.
        Place at(t);
        sts32(table + t * 8, (u32)(at.row * 4));
        sts32(table + t * 8 + 4, (u32)(OFF_B + at.col * 4));
    }
    if (t == 0) {
        sts32(table + CONSUMERS * 8, 0u);
        sts32(table + CONSUMERS * 8 + 4, base);
    }
    barriers_made();
    __syncthreads();
    const int each = MODE == OWNER ? g.products : 1, stages = max(1, (g.qk + BK - 1) / BK);
    if (t < CONSUMERS) {
        if (MOVES_REGISTERS) more_registers<CONSUMER_REGS>();
        u32 oa = lds32(table + t * 8), ob = lds32(table + t * 8 + 4);
        const float zero = __uint_as_float(lds32(table + CONSUMERS * 8));
        const bool leader = (t & 31) == 0;
        Ring ring = {base, base, 0};
        float acc[8][COLS], a[2][2][4], b[2][COLS / 4][4];
        barrier_wait(ring.at + OFF_FULL, 0);
        if (MOVES_REGISTERS) first_fragments(a, b, ring.at + oa, ring.at + ob);
        Walk<MODE> walk(g, stages);
        while (walk.next(g, stages)) {
            const int item = walk.item;
            int tm, tn;
            tile_of(g, MODE == OWNER ? item : item / g.products, tm, tn);
            for (int r = 0; r < each; r++) {
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < COLS; j++) acc[i][j] = zero;
                if (MOVES_REGISTERS || tm * BM + t / 32 % 2 * 64 < g.qm && tn * BN + t / 64 * (BN / 4) < g.qn) multiply<Arithmetic>(acc, a, b, ring, walk.count, oa, ob, leader);
                else skip(ring, walk.count, leader);
                const Product &w = g.product[MODE == OWNER ? r : item % g.products];
                const Place at(t);
                // whether another part of this item is added before this one, or after it
                const bool after = MODE == SPLIT && walk.from + walk.count < stages, before = MODE == SPLIT && walk.from > 0;
                if (after) {
                    if (t == 0) {
                        while (load_acquire(g.flags + blockIdx.x + 1) == 0) {}
                        g.flags[blockIdx.x + 1] = 0;
                    }
                    consumers_sync(CONSUMERS);
                }
                for (int d = 0; d < w.nc; d++) {
                    u32 *ticket = nullptr, rank = 0;
                    if (MODE == PERSISTENT) {
                        ticket = g.flags + item / g.products * 16 + (w.c[d].row & 3) * 4 + (w.c[d].col & 3);
                        rank = w.ranks >> 8 * d & 255;
                        if (t == 0)
                            while (load_acquire(ticket) != rank) {}
                        consumers_sync(CONSUMERS);
                    }
                    write_back<Arithmetic, Epilogue, !TILE_HOPPER && (MODE == OWNER || MODE == PERSISTENT)>(g, w.c[d], MODE != ATOMIC && w.c[d].first && !after, w.c[d].last && !before, acc, tm, tn, at);
                    if (MODE == PERSISTENT) {
                        __threadfence();
                        consumers_sync(CONSUMERS);
                        if (t == 0) store_release(ticket, rank + 1);
                    }
                }
                if (before) {
                    __threadfence();
                    consumers_sync(CONSUMERS);
                    if (t == 0) store_release(g.flags + blockIdx.x, 1);
                }
            }
        }
    } else {
        if (MOVES_REGISTERS) fewer_registers<504 - 2 * CONSUMER_REGS>();
        Feed feed(lds32(table + CONSUMERS * 8 + 4));
        const int p = t - CONSUMERS;
        Walk<MODE> walk(g, stages);
        while (walk.next(g, stages)) {
            const int item = walk.item;
            int tm, tn;
            tile_of(g, MODE == OWNER ? item : item / g.products, tm, tn);
            for (int r = 0; r < each; r++) {
                const Product &w = g.product[MODE == OWNER ? r : item % g.products];
                if (TERMS == 1 || (w.na == 1 && w.nb == 1)) feed.template produce<1, 1>(g, w, tm, tn, walk.from, walk.from + walk.count, p);
                else if (w.na == 1) feed.template produce<1, TERMS>(g, w, tm, tn, walk.from, walk.from + walk.count, p);
                else if (w.nb == 1) feed.template produce<TERMS, 1>(g, w, tm, tn, walk.from, walk.from + walk.count, p);
                else feed.template produce<TERMS, TERMS>(g, w, tm, tn, walk.from, walk.from + walk.count, p);
            }
        }
        // one stage without data: the consumers load fragments one stage ahead
        barrier_wait(feed.ring.at + OFF_EMPTY, feed.ring.parity ^ 1);
        warp_arrive(feed.ring.at + OFF_FULL, (t & 31) == 0);
    }
}

} // namespace tile
