// The float32 matrix-product engine for Hopper (sm_90a): FFMA, no tensor cores.
//
//   C = epilogue(alpha * A B + beta * C)                       one product
//   C_i += gamma_ir alpha (sum_j a_jr A_j)(sum_j b_jr B_j)     a bilinear algorithm
//
// A block of 12 warps owns one multiprocessor for its whole life (persistent).
// Warps 0-7 are consumers: 128 x 256 outputs, 8 x 16 a thread, nothing but
// shared-memory loads and FFMAs.  Warps 8-11 are producers: they read the
// operands from global memory (any layout, any strides), apply the fused
// element transforms, add the quadrant tiles of a Strassen product, pad fringes
// with zeros, and write k-major tiles into a ring of stages.  Each stage has two
// mbarriers: `full` (producers -> consumers) and `empty` (back).
//
// Sizes that matter, and why:
//   BK = 8      one stage is one pass of the unrolled loop: 1 024 FFMAs, 48
//               LDS.128 and about a dozen others, 17 KB of code.  Twice that
//               no longer streams from the instruction cache (measured: -4 %).
//   A as [k][m] the eight values of a k-step then lie in registers of both
//               parities, so ptxas can read a, b and the accumulator from
//               different register banks; as [m][k] quads they cannot (-7 %).
//   pitch 132   the transposing four-byte stores of the producers hit 32 banks.
#pragma once
#include "f32_ptx.cuh"

namespace tile {

constexpr int BM = 128, BN = 256, BK = 8;
constexpr int CONSUMERS = 256, PRODUCERS = 128, THREADS = CONSUMERS + PRODUCERS;
#ifndef TILE_PAD_A
#define TILE_PAD_A 4
#endif
#ifndef TILE_PAD_B
#define TILE_PAD_B 4
#endif
// Floats from one k to the next; the pad of four keeps transposing stores free of
// bank conflicts, none is needed (or allowed to the copy engine) without transposing.
constexpr int PITCH_A = BM + TILE_PAD_A, PITCH_B = BN + TILE_PAD_B;
constexpr int OFF_B = BK * PITCH_A * 4;
constexpr int OFF_FULL = OFF_B + BK * PITCH_B * 4, OFF_EMPTY = OFF_FULL + 8;
constexpr int STAGE = (OFF_FULL + 16 + 127) / 128 * 128;
#ifndef TILE_STAGES
#define TILE_STAGES 8
#endif
constexpr int STAGES = TILE_STAGES;
// With the copy engine the raw tiles of the terms land in a second ring first.
#ifndef TILE_RAW
#define TILE_RAW 4
#endif
constexpr int RAW_STAGES = TILE_RAW, RAW_A = BM * BK * 4, RAW_B = BN * BK * 4;
constexpr int TABLE = 2 * CONSUMERS * 4; // per-thread fragment offsets
constexpr int SHARED_BYTES = STAGES * STAGE + TABLE + 128; // and what the feed keeps
#ifndef TILE_CONSUMER_REGS
#define TILE_CONSUMER_REGS 208
#endif
#ifndef TILE_PRODUCER_REGS
#define TILE_PRODUCER_REGS 88 // 256 * 208 + 128 * 88 = 384 * 168, the registers of the launch
#endif

// ---------------------------------------------------------------- arguments

// One product of a bilinear algorithm.  The first term of each operand has
// coefficient 1 (the host moves signs into the others and into gamma).
struct Term { int row, col; float factor; };          // quadrant, coefficient
struct Target { int row, col; float factor; int first, last; };
struct Product { int na, nb, nc, pad; Term a[2], b[2]; Target c[2]; };

struct Arguments {
    const float *a, *b;
    float *c;
    i64 a_row, a_col, b_row, b_col, c_row;            // strides in elements; C's columns are contiguous
    int m, n, k;                                      // whole extents
    int qm, qn, qk;                                   // extents of a quadrant (of everything when there is one product)
    float alpha, beta;
    int tiles_m, tiles_n, group;                      // tiles of a quadrant; rows of tiles walked together
    int products, items;
    Product product[7];
};

// Fused producers and consumers.  `apply(x, i, k)` sees the element's own
// indices in the whole operand; the epilogue sees the finished value of C(i, j).
struct Plain {
    static constexpr bool identity = true;
    __device__ static __forceinline__ float apply(float x, int, int) { return x; }
};

enum Layout { K_CONTIGUOUS, R_CONTIGUOUS, STRIDED };  // which index of the tile walks memory in steps of one
// OWNER: a block computes all products of its tile, in order: deterministic, no workspace, beta and epilogue fused.
// ATOMIC: the work is a list of (tile, product) dealt out in waves; what would be the last, partly filled waves is
// cut along k into equal shares.  C, scaled by beta beforehand, is added to in the L2.
enum Mode { OWNER, ATOMIC };

__device__ __forceinline__ void tile_of(const Arguments &g, int t, int &tm, int &tn) {
    // Groups of g.group tile rows, walked column by column: the blocks that run
    // together share a nearly square part of A and B in the L2.
    int per = g.group * g.tiles_n, band = t / per, first = band * g.group;
    int rows = min(g.group, g.tiles_m - first), in = t - band * per;
    tm = first + in % rows;
    tn = in / rows;
}

// What a block does, in order: the same sequence for its producers and consumers.
template <Mode MODE> struct Walk {
    int item, from, count; // the item and its k-steps
    int unit, end;         // ATOMIC: position in this block's share, counted in k-steps behind the last whole wave
    __device__ static __forceinline__ int whole(const Arguments &g) { // items dealt in whole waves
        int waves = g.items / (int)gridDim.x;
        return (g.items % (int)gridDim.x ? max(waves - 1, 0) : waves) * (int)gridDim.x;
    }
    __device__ __forceinline__ Walk(const Arguments &g, int stages) : item((int)blockIdx.x - (int)gridDim.x), from(0), count(stages) {
        if (MODE == OWNER) return;
        i64 rest = (i64)(g.items - whole(g)) * stages;
        unit = (int)(rest * blockIdx.x / gridDim.x);
        end = (int)(rest * (blockIdx.x + 1) / gridDim.x);
    }
    __device__ __forceinline__ bool next(const Arguments &g, int stages) {
        item += gridDim.x;
        if (MODE == OWNER) return item < g.items;
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

// One operand's share of a stage: ROWS x 8 elements, four-element quads dealt to
// 128 threads.  r is the row of A or the column of B.
template <int ROWS, int PITCH, Layout L, bool VECTOR, class Transform, bool SWAP> struct Loader {
    static constexpr int QUADS = ROWS * BK / 4 / PRODUCERS;
    static_assert(QUADS * PRODUCERS * 4 == ROWS * BK, "");

    __device__ static __forceinline__ int quad_r(int t, int q) {
        return L != R_CONTIGUOUS ? (t >> 1) + q * (PRODUCERS / 2) : (t % (ROWS / 4)) * 4;
    }
    __device__ static __forceinline__ int quad_k(int t, int q) {
        return L != R_CONTIGUOUS ? (t & 1) * 4 : t / (ROWS / 4) + q * (PRODUCERS / (ROWS / 4));
    }
    __device__ static __forceinline__ float transformed(float x, int r, int k) {
        if (Transform::identity) return x;
        return SWAP ? Transform::apply(x, k, r) : Transform::apply(x, r, k);
    }
    // p points at element (quad_r(t, 0), quad_k(t, 0)) of this stage
    __device__ static __forceinline__ void load(float (&v)[QUADS][4], const float *p, i64 sr, i64 sk, int r0, int k0, int t) {
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            const float *e = L != R_CONTIGUOUS ? p + q * (PRODUCERS / 2) * sr : p + q * (PRODUCERS / (ROWS / 4)) * sk;
            if (VECTOR) ldg128(v[q], e);
            else {
                i64 s = L == STRIDED ? sk : 1;
#pragma unroll
                for (int j = 0; j < 4; j++) v[q][j] = __ldg(e + j * s);
            }
            if (!Transform::identity) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    v[q][j] = transformed(v[q][j], r0 + quad_r(t, q) + (L == R_CONTIGUOUS ? j : 0), k0 + quad_k(t, q) + (L != R_CONTIGUOUS ? j : 0));
            }
        }
    }
    // one quad, with zeros outside r < rows, k < depth (counted from this stage's origin); added to v times f
    __device__ static __forceinline__ void load_edge(float (&v)[4], float f, const float *p, i64 sr, i64 sk, int r0, int k0, int rows, int depth, int t, int q) {
        p += L != R_CONTIGUOUS ? q * (PRODUCERS / 2) * sr : q * (PRODUCERS / (ROWS / 4)) * sk;
        i64 s = L == STRIDED ? sk : 1;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int r = quad_r(t, q) + (L == R_CONTIGUOUS ? j : 0), k = quad_k(t, q) + (L != R_CONTIGUOUS ? j : 0);
            if (r < rows && k < depth) v[j] = fmaf(f, transformed(__ldg(p + j * s), r0 + r, k0 + k), v[j]);
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

struct Ring {
    u32 base, at;
    u32 parity; // of the phase that the next use of `at` completes
    __device__ __forceinline__ void next() {
        at += STAGE;
        if (at == base + STAGES * STAGE) { at = base; parity ^= 1; }
    }
};

// Where a term's tile starts in its operand, and how much of its quadrant is left from there.
struct Extent { int r0, k0, rows, depth; };
__device__ __forceinline__ Extent extent_a(const Arguments &g, const Term &x, int tm) {
    Extent e = {x.row * g.qm + tm * BM, x.col * g.qk, 0, 0};
    e.rows = min(g.m, (x.row + 1) * g.qm) - e.r0;
    e.depth = min(g.qk, g.k - e.k0);
    return e;
}
__device__ __forceinline__ Extent extent_b(const Arguments &g, const Term &x, int tn) {
    Extent e = {x.col * g.qn + tn * BN, x.row * g.qk, 0, 0};
    e.rows = min(g.n, (x.col + 1) * g.qn) - e.r0;
    e.depth = min(g.qk, g.k - e.k0);
    return e;
}

template <int Q> __device__ __forceinline__ void add(float (&x)[Q][4], const float (&y)[Q][4], float f) {
#pragma unroll
    for (int q = 0; q < Q; q++)
#pragma unroll
        for (int j = 0; j < 4; j++) x[q][j] = fmaf(f, y[q][j], x[q][j]);
}

// Feeds the ring from global memory through the producers' registers: any layout, any strides.
template <class LA, class LB> struct Registers {
static constexpr int shared_bytes = 0;
Ring ring;
__device__ __forceinline__ Registers(u32 base, u32, const TensorMap *, const TensorMap *) : ring{base, base, 0} {}
__device__ static __forceinline__ void init(u32) {}

template <int NA, int NB> __device__ __forceinline__ void produce(const Arguments &g, const Product &w, int tm, int tn, int s, int stages, int t) {
    const float *pa[NA], *pb[NB];
    const float fa = NA > 1 ? w.a[1].factor : 0.f, fb = NB > 1 ? w.b[1].factor : 0.f;
    const i64 step_a = BK * g.a_col, step_b = BK * g.b_row;
    int fast = stages; // whole k-steps of tiles that lie inside all their quadrants
#pragma unroll
    for (int i = 0; i < NA; i++) {
        Extent e = extent_a(g, w.a[i], tm);
        pa[i] = g.a + (i64)(e.r0 + LA::quad_r(t, 0)) * g.a_row + (i64)(e.k0 + LA::quad_k(t, 0) + s * BK) * g.a_col;
        fast = min(fast, e.rows >= BM ? max(e.depth, 0) / BK : 0);
    }
#pragma unroll
    for (int i = 0; i < NB; i++) {
        Extent e = extent_b(g, w.b[i], tn);
        pb[i] = g.b + (i64)(e.r0 + LB::quad_r(t, 0)) * g.b_col + (i64)(e.k0 + LB::quad_k(t, 0) + s * BK) * g.b_row;
        fast = min(fast, e.rows >= BN ? max(e.depth, 0) / BK : 0);
    }
#pragma unroll 1
    for (; s < fast; s++) {
        float va[NA][LA::QUADS][4], vb[NB][LB::QUADS][4];
#pragma unroll
        for (int i = 0; i < NA; i++) {
            LA::load(va[i], pa[i], g.a_row, g.a_col, w.a[i].row * g.qm + tm * BM, w.a[i].col * g.qk + s * BK, t);
            pa[i] += step_a;
        }
#pragma unroll
        for (int i = 0; i < NB; i++) {
            LB::load(vb[i], pb[i], g.b_col, g.b_row, w.b[i].col * g.qn + tn * BN, w.b[i].row * g.qk + s * BK, t);
            pb[i] += step_b;
        }
        barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);
        if (NA > 1) add(va[0], va[NA - 1], fa);
        LA::store(ring.at, va[0], t);
        if (NB > 1) add(vb[0], vb[NB - 1], fb);
        LB::store(ring.at + OFF_B, vb[0], t);
        __syncwarp();
        if ((t & 31) == 0) barrier_arrive(ring.at + OFF_FULL);
        ring.next();
    }
    // Fringes: tiles that reach outside a quadrant, and the last k-step.  The
    // empty asm keeps ptxas from holding the extents through the loop above.
    asm volatile("" : "+r"(tm), "+r"(tn));
#pragma unroll 1
    for (; s < stages; s++) {
        barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);
#pragma unroll 1
        for (int q = 0; q < LA::QUADS; q++) {
            float v[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
            for (int i = 0; i < NA; i++) {
                Extent e = extent_a(g, w.a[i], tm);
                LA::load_edge(v, i ? fa : 1.f, pa[i], g.a_row, g.a_col, e.r0, e.k0 + s * BK, e.rows, e.depth - s * BK, t, q);
            }
            LA::store_quad(ring.at, v, t, q);
        }
#pragma unroll 1
        for (int q = 0; q < LB::QUADS; q++) {
            float v[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
            for (int i = 0; i < NB; i++) {
                Extent e = extent_b(g, w.b[i], tn);
                LB::load_edge(v, i ? fb : 1.f, pb[i], g.b_col, g.b_row, e.r0, e.k0 + s * BK, e.rows, e.depth - s * BK, t, q);
            }
            LB::store_quad(ring.at + OFF_B, v, t, q);
        }
#pragma unroll
        for (int i = 0; i < NA; i++) pa[i] += step_a;
#pragma unroll
        for (int i = 0; i < NB; i++) pb[i] += step_b;
        __syncwarp();
        if ((t & 31) == 0) barrier_arrive(ring.at + OFF_FULL);
        ring.next();
    }
}
};

// Feeds the ring by the copy engine: row-major or column-major operands, sixteen-byte
// aligned.  Boxes of single terms that need no transposing go straight into the stage;
// all others land raw, and the producers transpose, transform and add them.
template <int ROWS, int PITCH, Layout L, class Transform, bool SWAP> struct Box {
    static constexpr int QUADS = ROWS * BK / 4 / PRODUCERS, BYTES = ROWS * BK * 4;
    typedef Loader<ROWS, PITCH, L, true, Transform, SWAP> Plain;
    // whether a single term may skip the producers
    static constexpr bool straight = L == R_CONTIGUOUS && PITCH == ROWS && Transform::identity;
    __device__ static __forceinline__ void copy(u32 to, const TensorMap *map, int r0, int k0, u32 bar) {
        if (L == K_CONTIGUOUS) copy_box(to, map, k0, r0, bar);
        else copy_box(to, map, r0, k0, bar);
    }
    __device__ static __forceinline__ void read(float (&v)[QUADS][4], u32 raw, const Extent &e, int k0, int t) {
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            lds128(v[q], raw + t * 16 + q * PRODUCERS * 16);
            if (!Transform::identity) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int r = Plain::quad_r(t, q) + (L == R_CONTIGUOUS ? j : 0), k = Plain::quad_k(t, q) + (L == R_CONTIGUOUS ? 0 : j);
                    v[q][j] = r < e.rows && k0 + k < e.depth ? Plain::transformed(v[q][j], e.r0 + r, e.k0 + k0 + k) : 0.f;
                }
            }
        }
    }
    __device__ static __forceinline__ void store(u32 at, const float (&v)[QUADS][4], int t) { Plain::store(at, v, t); }
};

template <class LA, class LB, int TERMS> struct CopyEngine {
    static constexpr int SLOT = TERMS * (RAW_A + RAW_B) - (TERMS == 1 && LB::straight ? RAW_B : 0), OFF_RAW_B = TERMS * RAW_A;
    static constexpr int shared_bytes = RAW_STAGES * SLOT + RAW_STAGES * 16;
    Ring ring;
    u32 raw;            // the ring of raw tiles; its barriers lie behind it
    int slot;
    u32 parity;
    const TensorMap *ma, *mb;
    __device__ __forceinline__ CopyEngine(u32 base, u32 extra, const TensorMap *a, const TensorMap *b)
        : ring{base, base, 0}, raw(extra), slot(0), parity(0), ma(a), mb(b) {}
    __device__ static __forceinline__ void init(u32 extra) {
        for (int i = 0; i < RAW_STAGES; i++) {
            barrier_init(extra + RAW_STAGES * SLOT + i * 16, 1);
            barrier_init(extra + RAW_STAGES * SLOT + i * 16 + 8, PRODUCERS / 32);
        }
    }
    template <int NA, int NB> __device__ __forceinline__ void request(const Arguments &g, const Product &w, int tm, int tn, int s, int at) {
        u32 to = raw + at * SLOT, bar = raw + RAW_STAGES * SLOT + at * 16;
        constexpr u32 bytes = (NA > 1 || !LA::straight ? NA * LA::BYTES : 0) + (NB > 1 || !LB::straight ? NB * LB::BYTES : 0);
        barrier_expect(bar, bytes);
        if (NA > 1 || !LA::straight) {
#pragma unroll
            for (int i = 0; i < NA; i++) LA::copy(to + i * RAW_A, ma, w.a[i].row * g.qm + tm * BM, w.a[i].col * g.qk + s * BK, bar);
        }
        if (NB > 1 || !LB::straight) {
#pragma unroll
            for (int i = 0; i < NB; i++) LB::copy(to + OFF_RAW_B + i * RAW_B, mb, w.b[i].col * g.qn + tn * BN, w.b[i].row * g.qk + s * BK, bar);
        }
    }
    template <int NA, int NB> __device__ __forceinline__ void produce(const Arguments &g, const Product &w, int tm, int tn, int from, int to, int t) {
        const float fa = NA > 1 ? w.a[1].factor : 0.f, fb = NB > 1 ? w.b[1].factor : 0.f;
        constexpr bool raw_a = NA > 1 || !LA::straight, raw_b = NB > 1 || !LB::straight;
        const bool first = t == 0, leader = (t & 31) == 0;
        if (first && (raw_a || raw_b)) // all slots are free here
            for (int i = 0; i < RAW_STAGES - 1 && from + i < to; i++) {
                int at = slot + i < RAW_STAGES ? slot + i : slot + i - RAW_STAGES;
                barrier_wait(raw + RAW_STAGES * SLOT + at * 16 + 8, (slot + i < RAW_STAGES ? parity : parity ^ 1) ^ 1);
                request<NA, NB>(g, w, tm, tn, from + i, at);
            }
        __syncwarp();
#pragma unroll 1
        for (int s = from; s < to; s++) {
            u32 here = raw + slot * SLOT, bar = raw + RAW_STAGES * SLOT + slot * 16;
            if (first && (raw_a || raw_b) && s + RAW_STAGES - 1 < to) {
                // the slot before this one, as soon as all producers have read it
                int at = slot ? slot - 1 : RAW_STAGES - 1;
                barrier_wait(raw + RAW_STAGES * SLOT + at * 16 + 8, slot ? parity : parity ^ 1);
                request<NA, NB>(g, w, tm, tn, s + RAW_STAGES - 1, at);
            }
            float va[NA][LA::QUADS][4], vb[NB][LB::QUADS][4];
            if (raw_a || raw_b) barrier_wait(bar, parity);
            if (raw_a) {
#pragma unroll
                for (int i = 0; i < NA; i++) LA::read(va[i], here + i * RAW_A, extent_a(g, w.a[i], tm), s * BK, t);
            }
            if (raw_b) {
#pragma unroll
                for (int i = 0; i < NB; i++) LB::read(vb[i], here + OFF_RAW_B + i * RAW_B, extent_b(g, w.b[i], tn), s * BK, t);
            }
            barrier_wait(ring.at + OFF_EMPTY, ring.parity ^ 1);
            if (first && (!raw_a || !raw_b)) {
                proxy_fence();
                barrier_bytes(ring.at + OFF_FULL, (raw_a ? 0 : LA::BYTES) + (raw_b ? 0 : LB::BYTES));
                if (!raw_a) LA::copy(ring.at, ma, w.a[0].row * g.qm + tm * BM, w.a[0].col * g.qk + s * BK, ring.at + OFF_FULL);
                if (!raw_b) LB::copy(ring.at + OFF_B, mb, w.b[0].col * g.qn + tn * BN, w.b[0].row * g.qk + s * BK, ring.at + OFF_FULL);
            }
            if (raw_a) {
                if (NA > 1) add(va[0], va[NA - 1], fa);
                LA::store(ring.at, va[0], t);
            }
            if (raw_b) {
                if (NB > 1) add(vb[0], vb[NB - 1], fb);
                LB::store(ring.at + OFF_B, vb[0], t);
            }
            __syncwarp();
            if (leader) {
                barrier_arrive(ring.at + OFF_FULL);
                if (raw_a || raw_b) barrier_arrive(bar + 8);
            }
            ring.next();
            if (raw_a || raw_b) {
                slot++;
                if (slot == RAW_STAGES) { slot = 0; parity ^= 1; }
            }
        }
    }
};

// ---------------------------------------------------------------- consumers

// A thread's outputs: rows lm*4 + {0..3} and + 32, columns ln*4 + {0..3} and + 16, 32, 48
// of its warp's 64 x 64 square.
struct Place {
    int row, col; // within the block tile
    __device__ __forceinline__ Place(int t) {
        int lane = t & 31, warp = t >> 5;
        row = (warp & 1) * 64 + (lane >> 2) * 4;
        col = (warp >> 1) * 64 + (lane & 3) * 4;
    }
};
__device__ __forceinline__ int row_of(int i) { return (i & 3) + (i >> 2) * 32; }

template <class Epilogue>
__device__ __forceinline__ void write_back(const Arguments &g, const Target &d, bool atomic, const float (&acc)[8][16], int tm, int tn, const Place &at) {
    int r0 = tm * BM + at.row, c0 = tn * BN + at.col;               // in the quadrant
    int rows = min(g.m - d.row * g.qm, g.qm), cols = min(g.n - d.col * g.qn, g.qn);
    float f = d.factor * g.alpha;
    float *base = g.c + (i64)(d.row * g.qm + r0) * g.c_row + d.col * g.qn + c0;
    bool vector = !((u64)g.c & 15) && !(g.c_row & 3) && !(d.col * g.qn & 3) && (tn + 1) * BN <= cols && (tm + 1) * BM <= rows;
    bool add = atomic || !d.first, beta = !atomic && d.first && g.beta != 0.f, fin = !Epilogue::identity && d.last;
    if (vector && !beta && !fin) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float *p = base + row_of(i) * g.c_row;
#pragma unroll
            for (int q = 0; q < 4; q++) {
                float v[4];
#pragma unroll
                for (int j = 0; j < 4; j++) v[j] = f * acc[i][q * 4 + j];
                if (add) red128(p + q * 16, v);
                else *reinterpret_cast<float4 *>(p + q * 16) = make_float4(v[0], v[1], v[2], v[3]);
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float *p = base + row_of(i) * g.c_row;
#pragma unroll
            for (int j = 0; j < 16; j++) {
                int c = (j & 3) + (j >> 2) * 16;
                if (r0 + row_of(i) < rows && c0 + c < cols) {
                    float v = f * acc[i][j];
                    if (add && !fin) red32(p + c, v);
                    else {
                        if (add) v += __ldcg(p + c);
                        if (beta) v = fmaf(g.beta, __ldcg(p + c), v);
                        if (fin) v = Epilogue::apply(v, d.row * g.qm + r0 + row_of(i), d.col * g.qn + c0 + c);
                        p[c] = v;
                    }
                }
            }
        }
    }
}

// The loop everything else exists for.  On entry the first k-step's fragments
// are in registers; on exit, those of whatever stage comes next.
__device__ __forceinline__ void multiply(float (&acc)[8][16], float (&a)[2][2][4], float (&b)[2][4][4], Ring &ring, int stages, u32 oa, u32 ob, bool leader) {
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
            for (int q = 0; q < 4; q++) lds128(b[p ^ 1][q], (k == BK - 1 ? nb : cb + (k + 1) * PITCH_B * 4) + q * 64);
#pragma unroll
            for (int q = 0; q < 2; q++) lds128(a[p ^ 1][q], (k == BK - 1 ? na : ca + (k + 1) * PITCH_A * 4) + q * 128);
            // column-wise in a snake: each FFMA shares one operand with the one before it
#ifndef TILE_ORDER
#define TILE_ORDER 0
#endif
#pragma unroll
            for (int x = 0; x < 128; x++) {
                int j = TILE_ORDER == 0 ? x / 8 : x % 16, i = TILE_ORDER == 0 ? x % 8 : x / 16;
                if (TILE_ORDER == 0 && (j & 1)) i = 7 - i;
                if (TILE_ORDER == 1 && (i & 1)) j = 15 - j;
                if (TILE_ORDER >= 2) { int h = x / 64, y = x % 64; j = h * 8 + (TILE_ORDER == 2 ? y / 8 : y % 8); i = TILE_ORDER == 2 ? y % 8 : y / 8;
                    if (TILE_ORDER == 2 && (j & 1)) i = 7 - i; if (TILE_ORDER == 3 && (i & 1)) j = h * 8 + 7 - (j & 7); }
                acc[i][j] = fmaf(a[p][i >> 2][i & 3], b[p][j >> 2][j & 3], acc[i][j]);
            }
        }
        if (leader) barrier_arrive(cur + OFF_EMPTY);
    }
}

// ---------------------------------------------------------------- the kernel

template <class Feed, class Epilogue, Mode MODE, int TERMS>
__device__ __forceinline__ void run(const Arguments &g, const TensorMap *ma, const TensorMap *mb) {
    extern __shared__ __align__(128) unsigned char memory[];
    const int t = threadIdx.x;
    u32 base = shared_address(memory), table = base + STAGES * STAGE, extra = table + TABLE + 128;
    if (t == 0) {
        Feed::init(extra);
        for (int s = 0; s < STAGES; s++) {
            barrier_init(base + s * STAGE + OFF_FULL, PRODUCERS / 32);
            barrier_init(base + s * STAGE + OFF_EMPTY, CONSUMERS / 32);
        }
    }
    if (t < CONSUMERS) {
        // Through shared memory, so that ptxas keeps the sums instead of the index arithmetic.
        Place at(t);
        sts32(table + t * 8, (u32)(at.row * 4));
        sts32(table + t * 8 + 4, (u32)(OFF_B + at.col * 4));
    }
    if (t == 0) sts32(table + CONSUMERS * 8, 0u);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    const int each = MODE == OWNER ? g.products : 1, stages = max(1, (g.qk + BK - 1) / BK);
    if (t < CONSUMERS) {
        more_registers<TILE_CONSUMER_REGS>();
        u32 oa = lds32(table + t * 8), ob = lds32(table + t * 8 + 4);
        const float zero = __uint_as_float(lds32(table + CONSUMERS * 8));
        const bool leader = (t & 31) == 0;
        Ring ring = {base, base, 0};
        float acc[8][16], a[2][2][4], b[2][4][4];
        barrier_wait(ring.at + OFF_FULL, 0);
#pragma unroll
        for (int q = 0; q < 2; q++) lds128(a[0][q], ring.at + oa + q * 128);
#pragma unroll
        for (int q = 0; q < 4; q++) lds128(b[0][q], ring.at + ob + q * 64);
        Walk<MODE> walk(g, stages);
        while (walk.next(g, stages)) {
            const int item = walk.item;
            int tm, tn;
            tile_of(g, MODE == OWNER ? item : item / g.products, tm, tn);
            for (int r = 0; r < each; r++) {
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 16; j++) acc[i][j] = zero;
                multiply(acc, a, b, ring, walk.count, oa, ob, leader);
                const Product &w = g.product[MODE == OWNER ? r : item % g.products];
                const Place at(t);
                for (int d = 0; d < w.nc; d++) write_back<Epilogue>(g, w.c[d], MODE == ATOMIC, acc, tm, tn, at);
            }
        }
    } else {
        fewer_registers<TILE_PRODUCER_REGS>();
        Feed feed(base, extra, ma, mb);
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
        if ((t & 31) == 0) barrier_arrive(feed.ring.at + OFF_FULL);
    }
}

} // namespace tile
