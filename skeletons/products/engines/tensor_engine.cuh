// Products on the tensor cores of Hopper (sm_90a), from tile images (tensor_images.cuh).
//
// An image holds a tile of an operand exactly as wgmma reads it: a stage of the ring is two
// contiguous bulk copies, without layouts, strides or fringes.  Two consumer warpgroups own
// 64 x BN outputs each; one thread of the third warpgroup starts the copies.
//
// An element is x0 + x1 (+ x2), each rounded from what the planes before leave, and the pairs of planes that matter are multiplied, small ones first.  A
// tensor core rounds its sums toward zero: so the products of one stage are summed from zero and then
// added to the totals in registers, rounded to nearest, while the other warpgroup multiplies.
#pragma once
#include "tensor_images.cuh"
#include "tile_pipeline.cuh"

namespace tile {

constexpr int CONSUMERS = 256, THREADS = CONSUMERS + 128;
constexpr int STAGE = IMAGE_A + IMAGE_B;
typedef Slots<STAGE, 226 * 1024 / STAGE> Feed;
constexpr int SHARED_BYTES = Feed::SHARED;
constexpr int OUTPUTS = BN / 2; // of a consumer thread

struct Target { int row, col; float factor; int first, last; };
struct Product { int count; Target target[4]; };
struct Arguments {
    const unsigned char *a, *b; // images
    const int *a_shift, *b_shift; // the exponents by which rows of A, columns of B are scaled: [product][row]
    float *c;
    const u32 *guard;           // nothing is computed unless it is zero
    int *arrived;               // as `SoftBarrier` says, and `pace`
    u64 extra[16];
    i64 c_row;
    int c_rows, c_cols, qm, qn, stages;
    float alpha, beta;
    int tiles_m, tiles_n, group, pace;
    int products, items;
    Product product[7];
};

template <int N> __device__ __forceinline__ void step(float (&d)[N], u32 a, u32 b, bool add) {
    const u64 da = swizzled(a), db = swizzled(b);
#pragma unroll
    for (int k = 0; k < 4; k++) Mma<ELEMENT, BN>::run(d, da + 2 * k, db + 2 * k, add || k);
}

// total += the products of one stage of k, for each stage.
__device__ __forceinline__ void multiply(float (&total)[OUTPUTS], Feed &ring, int stages, u32 rows, bool leader) {
    float d[OUTPUTS];
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
__device__ __forceinline__ void unscale(const Arguments &g, float (&total)[OUTPUTS], int r, int tm, int tn, int thread) {
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
__device__ __forceinline__ void write_back(const Arguments &g, const Target &d, const float (&acc)[OUTPUTS], int tm, int tn, int thread) {
    keep(thread);
    const int rows = min(g.c_rows - d.row * g.qm, g.qm), cols = min(g.c_cols - d.col * g.qn, g.qn);
    const int r0 = tm * BM + thread / 128 * 64 + thread / 32 % 4 * 16 + thread % 32 / 4, c0 = tn * BN + thread % 4 * 2;
    const float f = d.factor * g.alpha, share = d.first ? g.beta : 1.0f;
    float *corner = g.c + (i64)(d.row * g.qm + r0) * g.c_row + d.col * g.qn + c0;
    const bool fin = !Epilogue::identity && d.last, read = d.first ? g.beta != 0 : fin, add = !d.first && !fin;
    const bool pairs = (u64)corner % 8 == 0 && g.c_row % 2 == 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float *line = corner + 8 * h * g.c_row;
        if (r0 + 8 * h >= rows) continue;
#pragma unroll
        for (int j0 = 0; j0 < BN / 8; j0 += 8) {
            float old[16]; // a batch of loads in flight
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
            float made[8][2];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                float &v = made[i / 2][i % 2];
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
                const float (&v)[2] = made[i / 2];
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
    int count;
    __device__ __forceinline__ Images(const Arguments &g, int tm, int tn, int r) : count(g.stages * PLANES) {
        a = g.a + ((i64)r * g.tiles_m + tm) * g.stages * (PLANES * IMAGE_A);
        b = g.b + ((i64)r * g.tiles_n + tn) * g.stages * (PLANES * IMAGE_B);
    }
    __device__ __forceinline__ void load(const Arguments &, u32 to, u32 full) {
        bulk_load(to, a, IMAGE_A, full);
        bulk_load(to + IMAGE_A, b, IMAGE_B, full);
        a += IMAGE_A;
        b += IMAGE_B;
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
            float total[OUTPUTS];
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) total[i] = 0;
            multiply(total, ring, g.stages, t / 128 * 64 * ROW, (t & 31) == 0);
            if (SCALED) unscale(g, total, r, tm, tn, t);
            const Product &w = g.product[r];
            for (int d = 0; d < w.count; d++) write_back<Epilogue>(g, w.target[d], total, tm, tn, t);
        }
    }
};

template <class Epilogue> __device__ __forceinline__ void run(const Arguments &g) {
    if (*g.guard) return;
    pipeline<ByParts<Epilogue>, CONSUMERS>(g);
}

} // namespace tile
