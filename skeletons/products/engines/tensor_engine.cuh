// Products on the tensor cores of Hopper (sm_90a), from tile images (tensor_images.cuh).
//
// An image holds a tile of an operand exactly as wgmma reads it: a stage of the ring is two
// contiguous bulk copies, without layouts, strides or fringes.  Two consumer warpgroups own
// 64 x BN outputs each; one thread of the third warpgroup starts the copies.
//
// A float is x0 + x1 (+ x2), each rounded from what the planes before leave, and the pairs of planes that matter are multiplied, small ones first.  A
// tensor core rounds its sums toward zero: so the products of one stage are summed from zero and then
// added to the totals in registers, rounded to nearest, while the other warpgroup multiplies.
//
// An integer is x0 + 2^8 x1 + 2^16 x2 + 2^24 x3, so that modulo 2^32
//
//   A B = S0 + 2^8 S1 + 2^16 S2 + 2^24 S3,    S_w = sum over i + j = w of A_i B_j
//
// are ten products of bytes, or fewer if the highest planes are zero.  The products of one stage and
// weight are summed from zero, and then added to the totals.
#pragma once
#include "tensor_images.cuh"
#include "tile_pipeline.cuh"

namespace tile {

constexpr int CONSUMERS = 256, THREADS = CONSUMERS + 128;
constexpr int STAGE = IMAGE_A + IMAGE_B;
typedef Slots<STAGE, 226 * 1024 / STAGE> Feed;
constexpr int SHARED_BYTES = Feed::SHARED;
constexpr int OUTPUTS = BN / 2; // of a consumer thread

struct Target { int row, col; Number factor; int first, last; };
struct Product { int count; Target target[4]; };
struct Arguments {
    const unsigned char *a, *b; // images
    const int *a_shift, *b_shift; // the exponents by which rows of A, columns of B are scaled: [product][row]
    Number *c;
    const u32 *guard;           // the flag of the images: nothing is computed from parts of floats unless it is zero
    int *arrived;               // as `SoftBarrier` says, and `pace`
    u64 extra[16];
    i64 c_row;
    int c_rows, c_cols, qm, qn, stages;
    Number alpha, beta;
    int tiles_m, tiles_n, group, pace;
    int products, items;
    Product product[7];
};

// The planes that are stored, and multiplied.
__device__ __forceinline__ int planes_of(const Arguments &g) { return INTEGERS ? max(1, (int)*g.guard) : PLANES; }

template <class T, int N> __device__ __forceinline__ void step(T (&d)[N], u32 a, u32 b, bool add) {
    const u64 da = swizzled(a), db = swizzled(b);
#pragma unroll
    for (int k = 0; k < 4; k++) Mma<ELEMENT, BN>::run(d, da + 2 * k, db + 2 * k, add || k);
}

// The planes of a stage that are not zero.  Plane 0, the last one of the ring, is waited for when it is needed.
template <int USED> struct Planes {
    Feed first;
    __device__ __forceinline__ Planes(Feed &ring) : first(ring) {
#pragma unroll
        for (int p = USED - 1; p > 0; p--) barrier_wait(of(p).full(), of(p).parity);
        ring = ring.ahead(USED);
    }
    __device__ __forceinline__ Feed of(int p) const { return first.ahead(USED - 1 - p); }
};
// The sums of a weight, as a group of wgmma: those of plane 0 last.
template <int W, int USED> __device__ __forceinline__ void weight(u32 (&d)[OUTPUTS], const Planes<USED> &stage, u32 rows) {
    bool add = false;
    mma_fence();
#pragma unroll
    for (int i = 1; i < USED; i++)
        if (W - i > 0 && W - i < USED) {
            step(d, stage.of(i).stage() + rows, stage.of(W - i).stage() + IMAGE_A, add);
            add = true;
        }
    if constexpr (W < USED) {
        if (W == USED - 1) barrier_wait(stage.of(0).full(), stage.of(0).parity);
        step(d, stage.of(W).stage() + rows, stage.of(0).stage() + IMAGE_A, add);
        if (W) step(d, stage.of(0).stage() + rows, stage.of(W).stage() + IMAGE_A, true);
    }
    mma_commit();
}
// When all but the last LATER groups are complete: total += 2^(8 W) d, and plane W is not needed any more.
template <int W, int LATER, int USED>
__device__ __forceinline__ void gather(u32 (&total)[OUTPUTS], u32 (&d)[OUTPUTS], const Planes<USED> &stage, bool leader) {
    mma_wait<LATER>();
    if constexpr (W < USED) warp_arrive(stage.of(W).empty(), leader);
    if constexpr (W <= 2 * (USED - 1)) {
        pin(d);
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++) total[i] += d[i] << (8 * W);
    }
}
// With two sets of registers the sums before are gathered while those of weight W are formed, with one those of W.
template <int W, int SETS, int USED>
__device__ __forceinline__ void advance(u32 (&total)[OUTPUTS], u32 (&sets)[SETS][OUTPUTS], const Planes<USED> &stage, u32 rows, bool leader) {
    weight<W>(sets[W % SETS], stage, rows);
    if constexpr (SETS == 1) gather<W, 0>(total, sets[0], stage, leader);
    else if constexpr (W < 3) gather<W + 1, 1>(total, sets[(W + 1) % SETS], stage, leader);
}
// total += the products of one stage of k modulo 2^32, for each stage.
template <int USED> __device__ __forceinline__ void multiply(u32 (&total)[OUTPUTS], Feed &ring, int stages, u32 rows, bool leader) {
    u32 sets[OUTPUTS > 64 ? 1 : 2][OUTPUTS];
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        const Planes<USED> stage(ring);
        advance<3>(total, sets, stage, rows, leader);
        advance<2>(total, sets, stage, rows, leader);
        advance<1>(total, sets, stage, rows, leader);
        advance<0>(total, sets, stage, rows, leader);
        if (OUTPUTS <= 64) gather<0, 0>(total, sets[0], stage, leader);
    }
}
template <int N> __device__ __forceinline__ void multiply(u32 (&total)[N], Feed &ring, int stages, u32 rows, bool leader, int used) {
    if (used == 4) multiply<4>(total, ring, stages, rows, leader);
    else if (used == 3) multiply<3>(total, ring, stages, rows, leader);
    else if (used == 2) multiply<2>(total, ring, stages, rows, leader);
    else multiply<1>(total, ring, stages, rows, leader);
}

// total += the products of one stage of k, for each stage.
template <int N> __device__ __forceinline__ void multiply(float (&total)[N], Feed &ring, int stages, u32 rows, bool leader, int) {
    float d[N];
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++) d[i] = 0;
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        u32 a[PLANES], bar[PLANES];
#pragma unroll
        for (int p = PLANES - 1; p >= 0; p--) {
            barrier_wait(ring.full(), ring.parity);
            a[p] = ring.stage();
            bar[p] = ring.empty();
            ring.next();
        }
        mma_fence();
#pragma unroll
        for (int low = PLANES - 1; low >= 0; low--) { // low: the smallest plane of a pair, released after it
#pragma unroll
            for (int high = min(PLANES - 1 - low, low); high >= 0; high--) {
                step(d, a[high] + rows, a[low] + IMAGE_A, low < PLANES - 1); // high is 0 for the smallest plane
                if (high != low) step(d, a[low] + rows, a[high] + IMAGE_A, true);
            }
            mma_commit();
        }
        if constexpr (PLANES > 2) {
            mma_wait<2>();
            warp_arrive(bar[2], leader);
        }
        mma_wait<1>();
        warp_arrive(bar[1], leader);
        mma_wait<0>();
        pin(d);
        warp_arrive(bar[0], leader);
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++) total[i] += d[i];
    }
}

// The outputs of the operands themselves: their rows were scaled.
__device__ __forceinline__ void unscale(const Arguments &g, Number (&total)[OUTPUTS], int r, int tm, int tn, int thread) {
    keep(thread);
    const int *rows = g.a_shift + ((i64)r * g.tiles_m + tm) * BM + thread / 128 * 64 + thread / 32 % 4 * 16 + thread % 32 / 4;
    const int *columns = g.b_shift + ((i64)r * g.tiles_n + tn) * BN + thread % 4 * 2;
    const int down[2] = {-__ldg(rows), -__ldg(rows + 8)};
#pragma unroll
    for (int j = 0; j < BN / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int across = __ldg(columns + 8 * j + e);
#pragma unroll
            for (int h = 0; h < 2; h++) total[4 * j + 2 * h + e] = scaled(total[4 * j + 2 * h + e], down[h] - across);
        }
}

// Stores the outputs in a block of C, or adds them to it in the L2: in the order of the products,
// since all are of this block.
template <class Epilogue>
__device__ __forceinline__ void write_back(const Arguments &g, const Target &d, const Number (&acc)[OUTPUTS], int tm, int tn, int thread) {
    keep(thread);
    const int rows = min(g.c_rows - d.row * g.qm, g.qm), cols = min(g.c_cols - d.col * g.qn, g.qn);
    const int r0 = tm * BM + thread / 128 * 64 + thread / 32 % 4 * 16 + thread % 32 / 4, c0 = tn * BN + thread % 4 * 2;
    const Number f = d.factor * g.alpha, share = d.first ? g.beta : 1;
    Number *corner = g.c + (i64)(d.row * g.qm + r0) * g.c_row + d.col * g.qn + c0;
    const bool fin = !Epilogue::identity && d.last, read = d.first ? g.beta != 0 : fin, add = !d.first && !fin;
    const bool pairs = (u64)corner % 8 == 0 && g.c_row % 2 == 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        Number *line = corner + 8 * h * g.c_row;
        if (r0 + 8 * h >= rows) continue;
#pragma unroll
        for (int j0 = 0; j0 < BN / 8; j0 += 8) {
            Number old[16]; // a batch of loads in flight
            if (read) {
#pragma unroll
                for (int i = 0; i < 16; i += 2) {
                    const int across = 8 * j0 + 4 * i;
                    old[i] = old[i + 1] = 0;
                    if (pairs && c0 + across + 1 < cols) ldcg(old[i], old[i + 1], line + across);
                    else {
                        if (c0 + across < cols) ldcg(old[i], line + across);
                        if (c0 + across + 1 < cols) ldcg(old[i + 1], line + across + 1);
                    }
                }
            }
            Number made[8][2];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                Number &v = made[i / 2][i % 2];
                v = f * acc[4 * (j0 + i / 2) + 2 * h + i % 2];
                if (read) v += share * old[i];
            }
            if (!Epilogue::identity && fin) { // beyond C at its end: without branches, loads are in flight together
#pragma unroll
                for (int i = 0; i < 16; i++)
                    made[i / 2][i % 2] = Epilogue::finish(made[i / 2][i % 2], d.row * g.qm + r0 + 8 * h, d.col * g.qn + min(c0 + 8 * (j0 + i / 2) + i % 2, cols - 1), g.extra);
            }
#pragma unroll
            for (int i = 0; i < 16; i += 2) {
                const int j = j0 + i / 2;
                const Number (&v)[2] = made[i / 2];
                if (pairs && c0 + 8 * j + 1 < cols) {
                    if (add) red64(line + 8 * j, v);
                    else stg64(line + 8 * j, v);
                } else {
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        if (c0 + 8 * j + e < cols) {
                            if (add) red32(line + 8 * j + e, v[e]);
                            else stg32(line + 8 * j + e, v[e]);
                        }
                }
            }
        }
    }
}

// The images of a tile of A and of one of B, a plane of each a stage.
struct Images {
    const unsigned char *a, *b;
    int used, count, plane; // the last: of the next stage
    __device__ __forceinline__ Images(const Arguments &g, int tm, int tn, int r) : used(planes_of(g)), count(g.stages * used), plane(PLANES - used) {
        a = g.a + (((i64)r * g.tiles_m + tm) * g.stages * PLANES + plane) * IMAGE_A;
        b = g.b + (((i64)r * g.tiles_n + tn) * g.stages * PLANES + plane) * IMAGE_B;
    }
    __device__ __forceinline__ void load(const Arguments &, u32 to, u32 full) {
        bulk_load(to, a, IMAGE_A, full);
        bulk_load(to + IMAGE_A, b, IMAGE_B, full);
        const int on = ++plane < PLANES ? 1 : 1 + PLANES - used; // past planes that are zero
        if (plane == PLANES) plane -= used;
        a += on * IMAGE_A;
        b += on * IMAGE_B;
    }
};

template <class Epilogue> struct ByParts {
    typedef tile::Feed Feed;
    typedef Images Source;
    static constexpr bool LOADER = true;
    static constexpr int ARRIVALS = 1, GIVEN = CONSUMERS / 32 * ARRIVALS_PER_WARP, REGISTERS = 240;
    Feed ring;
    __device__ __forceinline__ ByParts(const Arguments &, u32 base, int) : ring{base, 0, 0} {}
    __device__ static __forceinline__ int products(const Arguments &g) { return g.products; }
    __device__ __forceinline__ void consume(const Arguments &g, u32, int, int tm, int tn, int t) {
        for (int r = 0; r < g.products; r++) {
            Number total[OUTPUTS];
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) total[i] = 0;
            multiply(total, ring, g.stages, t / 128 * 64 * ROW, (t & 31) == 0, planes_of(g));
            if (SCALED) unscale(g, total, r, tm, tn, t);
            const Product &w = g.product[r];
            for (int d = 0; d < w.count; d++) write_back<Epilogue>(g, w.target[d], total, tm, tn, t);
        }
    }
};

template <class Epilogue> __device__ __forceinline__ void run(const Arguments &g) {
    if (!INTEGERS && *g.guard) return;
    pipeline<ByParts<Epilogue>, CONSUMERS>(g);
}

} // namespace tile
