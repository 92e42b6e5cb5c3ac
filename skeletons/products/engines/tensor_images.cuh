// Operands of the tensor-core engine as tile images.
//
// An operand is x(r, k): r a row of A or a column of B.  A tile of rows and 128 bytes of k becomes
// PLANES images, each rows of 128 bytes whose sixteen-byte units are permuted as wgmma reads them
// (unit u of row r is at u ^ r % 8), the plane of the smallest parts first.  Fused operand functions
// and the sums of blocks of a fast algorithm are computed here, once, in float32 or modulo 2^32.
//
// Integers are split into four signed bytes, x = x0 + 2^8 x1 + 2^16 x2 + 2^24 x3 modulo 2^32 with
// -128 <= xi < 128, a plane each, the highest first; the flag is the number of planes that are needed:
// those above are zero in both operands.
//
// fp16x3 scales every row by a power of two so that its largest magnitude is below 2^15, and above
// 2^14 unless it is a row of a sum of blocks.  The
// flag is set where the planes cannot hold an operand: infinities, NaN, or a row with more than one
// element in SPREAD below 2^-20 of its largest.  The product is then computed in float32.
#pragma once
#include "tensor_ptx.cuh"
#include "tile_work.cuh"

namespace tile {

#ifndef TILE_BN
#define TILE_BN 192
#endif
#ifndef TILE_PLANES
#define TILE_PLANES 2
#endif
#ifndef TILE_ELEMENT
#define TILE_ELEMENT HALF
#endif
constexpr int BM = 128, BN = TILE_BN, PLANES = TILE_PLANES, ROW = 128; // rows, columns of a tile of C; bytes of a row of an image
constexpr Element ELEMENT = TILE_ELEMENT;
constexpr int IMAGE_A = BM * ROW, IMAGE_B = BN * ROW;
constexpr bool SCALED = ELEMENT == HALF, INTEGERS = ELEMENT == BYTE;
constexpr int SPREAD = 8;

template <bool> struct NumberOf { typedef float Type; };
template <> struct NumberOf<true> { typedef u32 Type; };
typedef NumberOf<INTEGERS>::Type Number; // of operands and results

struct Term { int row, col; Number factor; };
struct Operand {
    const Number *x;
    unsigned char *images;  // [product][tile][stage][plane]
    u32 *maxima;            // bits of the largest magnitude of a row of a block: [block][row]
    int *shifts;            // the exponent that a row is scaled by: [product][row]
    u32 *small;             // the number of small elements of a row: [product][row]
    i64 down, along;        // strides of r and k
    int rows, depth;        // of the operand
    int block_rows, block_depth;
    int tiles, stages;
    int blocks, across;     // of the operand; along k
    int count[7];
    Term term[7][2];
};
struct Operands {
    Operand a, b;
    u32 *flag;
    i64 products;
    u64 extra[16];
};

// The exponent e with 2^14 <= 2^e x < 2^15, for the bits of x.
__device__ __forceinline__ int shift_of(u32 bits) {
    const int e = (int)(bits >> 23);
    return bits == 0 ? 0 : e ? 141 - e : 132 + __clz((int)bits);
}
__device__ __forceinline__ float power(int e) { return __int_as_float((e + 127) << 23); } // -127 < e < 128
// x 2^e, rounded once unless the result is subnormal.
__device__ __forceinline__ float scaled(float x, int e) {
    const int first = min(max(e, -126), 126);
    return x * power(first) * power(min(max(e - first, -126), 126));
}

// ---------------------------------------------------------------- elements

// Element (r, k) of a block of the operand; zero outside.
template <Layout L, class F, bool SWAP> __device__ __forceinline__ Number element(const Operand &g, const u64 *extra, int block_row, int block_col, int r, int k) {
    const int row = block_row * g.block_rows + r, deep = block_col * g.block_depth + k;
    Number v = 0;
    if (r < g.block_rows && k < g.block_depth && row < g.rows && deep < g.depth) {
        if constexpr (F::identity) v = __ldg(g.x + row * (L == R_CONTIGUOUS ? 1 : g.down) + deep * (L == K_CONTIGUOUS ? 1 : g.along));
        else {
            Number second = 0;
            if (F::sources > 0) v = __ldg(g.x + row * g.down + deep * g.along);
            if (F::sources > 1) second = __ldg((const Number *)extra[F::second] + row * (i64)extra[F::second + 1] + deep * (i64)extra[F::second + 2]);
            v = F::apply(v, second, SWAP ? deep : row, SWAP ? row : deep, extra);
        }
    }
    return v;
}
// The same of the operand of a product: a block, or the sum of two.
template <Layout L, class F, bool SWAP, int TERMS> __device__ __forceinline__ Number summed(const Operand &g, const u64 *extra, int product, int r, int k) {
    const Term(&t)[2] = g.term[product];
    Number v = element<L, F, SWAP>(g, extra, t[0].row, t[0].col, r, k);
    if (TERMS > 1)
        if (g.count[product] > 1) v += t[1].factor * element<L, F, SWAP>(g, extra, t[1].row, t[1].col, r, k);
    return v;
}
// The exponent that scales a row of the operand of a product, from the maxima of its blocks.
template <int ROWS> __device__ __forceinline__ int shift(const Operand &g, int product, int row) {
    float most = 0;
    for (int i = 0; i < g.count[product]; i++) {
        const Term &t = g.term[product][i];
        most += fabsf(t.factor) * __int_as_float(g.maxima[(i64)(t.row * g.across + t.col) * g.tiles * ROWS + row]);
    }
    return shift_of(__float_as_int(most));
}

// ---------------------------------------------------------------- the largest magnitudes of rows

constexpr int MAXIMA_THREADS = 256;
template <Layout L> constexpr int MAXIMA_ROWS = L == K_CONTIGUOUS ? 8 : 32; // of a block

// Part `part` of `parts` of k, for some rows of block `of` of the operand.
template <int ROWS, Layout L, class F, bool SWAP>
__device__ __forceinline__ void maxima(const Operand &g, const u64 *extra, int block, int part, int parts, int of, u32 (&found)[8][32]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int share = ((g.block_depth + parts - 1) / parts + 31) / 32 * 32, from = part * share, to = min(from + share, g.block_depth);
    const int row = of / g.across, col = of % g.across;
    u32 *out = g.maxima + (i64)of * g.tiles * ROWS;
    u32 most = 0;
    if (L == K_CONTIGUOUS) {
        const int r = block * 8 + warp;
#pragma unroll 8
        for (int k = from + lane; k < to; k += 32) most = max(most, __float_as_int(element<L, F, SWAP>(g, extra, row, col, r, k)) & 0x7FFFFFFFu);
#pragma unroll
        for (int i = 16; i; i /= 2) most = max(most, __shfl_xor_sync(~0u, most, i));
        if (lane == 0 && most) atomicMax(out + r, most);
    } else {
        const int r = block * 32 + lane;
#pragma unroll 8
        for (int k = from + warp; k < to; k += 8) most = max(most, __float_as_int(element<L, F, SWAP>(g, extra, row, col, r, k)) & 0x7FFFFFFFu);
        found[warp][lane] = most;
        __syncthreads();
        if (warp == 0) {
            for (int i = 1; i < 8; i++) most = max(most, found[i][lane]);
            if (most) atomicMax(out + r, most);
        }
        __syncthreads();
    }
}

// ---------------------------------------------------------------- images

constexpr int IMAGE_THREADS = 256, WIDTH = INTEGERS ? 1 : ELEMENT == TF32 ? 4 : 2, UNIT = 16 / WIDTH, DEEP = ROW / WIDTH; // elements of a unit, of a row

// Whether the planes hold an element badly: it counts as small, or the whole product is computed in float32.
__device__ __forceinline__ bool is_small(float x) { return x != 0 && fabsf(x) < (SCALED ? 0.015625f : 1.9721523e-31f); } // 2^-6, 2^-102
__device__ __forceinline__ bool is_lost(float x) { return !(fabsf(x) < (SCALED ? 65504.0f : 3.3895314e38f)); }           // or NaN

// Bytes: a thread splits four integers along k.
template <int ROWS, Layout L, class F, bool SWAP, int TERMS>
__device__ __forceinline__ void bytes(const Operand &g, const u64 *extra, u32 *flag, int stage, int tile, int product, u32 memory) {
    constexpr u32 CARRY = 0x808080;
    const int known = load_relaxed((const int *)(flag + 0));
    u32 used = 0;
#pragma unroll 4
    for (int i = 0; i < ROWS * ROW / 4 / IMAGE_THREADS; i++) {
        const int id = threadIdx.x + i * IMAGE_THREADS;
        const int r = L == K_CONTIGUOUS ? id / 32 : id % ROWS, four = L == K_CONTIGUOUS ? id % 32 : id / ROWS;
        u32 x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[j] = (summed<L, F, SWAP, TERMS>(g, extra, product, tile * ROWS + r, stage * DEEP + four * 4 + j) + CARRY) ^ CARRY;
            used |= x[j];
        }
        const u32 low0 = permuted(x[0], x[1], 0x5140), high0 = permuted(x[0], x[1], 0x7362);
        const u32 low1 = permuted(x[2], x[3], 0x5140), high1 = permuted(x[2], x[3], 0x7362);
        const u32 to = memory + r * ROW + (four / 4 ^ r & 7) * 16 + four % 4 * 4;
        sts32(to, permuted(high0, high1, 0x7632));
        sts32(to + ROWS * ROW, permuted(high0, high1, 0x5410));
        sts32(to + 2 * ROWS * ROW, permuted(low0, low1, 0x7632));
        sts32(to + 3 * ROWS * ROW, permuted(low0, low1, 0x5410));
    }
#pragma unroll
    for (int i = 16; i; i /= 2) used |= __shfl_xor_sync(~0u, used, i);
    const int planes = (39 - __clz((int)used)) / 8;
    if (threadIdx.x % 32 == 0 && planes > known) atomicMax(flag + 0, (u32)planes);
}

// The parts of floats: a thread splits a unit.
template <int ROWS, Layout L, class F, bool SWAP, int TERMS>
__device__ __forceinline__ void parts(const Operand &g, const u64 *extra, u32 *flag, int stage, int tile, int product, u32 memory) {
    constexpr int IMAGE = ROWS * ROW;
    const i64 first_row = ((i64)product * g.tiles + tile) * ROWS;
#pragma unroll 2
    for (int i = 0; i < 8 * ROWS / IMAGE_THREADS; i++) {
        const int id = threadIdx.x + i * IMAGE_THREADS;
        const int r = L == K_CONTIGUOUS ? id / 8 : id % ROWS, unit = L == K_CONTIGUOUS ? id % 8 : id / ROWS;
        const u32 to = memory + r * ROW + (unit ^ r & 7) * 16;
        float v[UNIT];
#pragma unroll
        for (int j = 0; j < UNIT; j++) v[j] = summed<L, F, SWAP, TERMS>(g, extra, product, tile * ROWS + r, stage * DEEP + unit * UNIT + j);
        if (SCALED) {
            const int e = shift<ROWS>(g, product, tile * ROWS + r);
            if (stage == 0 && unit == 0) g.shifts[first_row + r] = e;
#pragma unroll
            for (int j = 0; j < UNIT; j++) v[j] = scaled(v[j], e);
        }
        int few = 0;
        bool lost = false;
#pragma unroll
        for (int j = 0; j < UNIT; j++) {
            few += is_small(v[j]);
            lost = lost || is_lost(v[j]);
        }
        if (lost || (few && (atomicAdd(g.small + first_row + r, few) + few) * SPREAD > g.block_depth)) *flag = 1;
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
            u32 out[4];
            if constexpr (ELEMENT == TF32) { // of which the tensor core ignores the last thirteen bits
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    out[j] = (__float_as_int(v[j]) + 0x1000u) & 0xFFFFE000u;
                    v[j] -= __int_as_float(out[j]);
                }
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    out[j] = packed<ELEMENT>(v[2 * j], v[2 * j + 1]);
                    float low, high;
                    unpacked<ELEMENT>(out[j], low, high);
                    v[2 * j] -= low;
                    v[2 * j + 1] -= high;
                }
            }
            sts128(to + (PLANES - 1 - p) * IMAGE, out);
        }
    }
}

template <int ROWS, Layout L, class F, bool SWAP, int TERMS>
__device__ __forceinline__ void images(const Operand &g, const u64 *extra, u32 *flag, int stage, int tile, int product, u32 memory) {
    constexpr int SIZE = PLANES * ROWS * ROW;
    if constexpr (INTEGERS) bytes<ROWS, L, F, SWAP, TERMS>(g, extra, flag, stage, tile, product, memory);
    else parts<ROWS, L, F, SWAP, TERMS>(g, extra, flag, stage, tile, product, memory);
    stores_visible();
    __syncthreads();
    if (threadIdx.x == 0) {
        bulk_store(g.images + (((i64)product * g.tiles + tile) * g.stages + stage) * SIZE, memory, SIZE);
        bulk_stored();
    }
    __syncthreads(); // before the images of the next product
}

} // namespace tile
