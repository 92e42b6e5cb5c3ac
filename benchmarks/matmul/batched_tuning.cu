// Products of many small float16 matrices, added in float32, by the three kernels of A. Abdelfattah, S. Tomov and
// J. Dongarra, "Fast batched matrix multiplication for small sizes using half-precision arithmetic on GPUs"; row-major,
// one behind the other.  batched_tuning.py chooses their parameters.
//
//   blocked   (v1) a block of threads computes BM x BN of a product through shared memory, BK of k at a time; warps take
//             TM x TN of that, one after the other; DIM_X x DIM_Y threads move elements.  GROUPS products a block.
//   packed    (v2) a warp computes 16 / N products of N x N, the diagonal of one 16 x 16 x 16 product
//   elements  (v3) a thread computes an element, without tensor cores
//
// Rows in shared memory are padded by sixteen bytes, so that ldmatrix has no bank conflicts.
typedef unsigned short u16;
typedef unsigned int u32;
struct Arguments { const u16 *a, *b; u16 *c; int m, n, k, count; };

#ifndef EMULATED
extern __shared__ __align__(16) u16 memory[];
__device__ __forceinline__ u32 at(const u16 *p) { return (u32)__cvta_generic_to_shared(p); }
// Eight rows of sixteen bytes a matrix, whose addresses the lanes give: lane 4 g + q gets elements 2 q and 2 q + 1 of row g
// (TURNED: of column g).
template <bool TURNED> __device__ __forceinline__ void matrices(u32 (&v)[4], const u16 *p) {
    if (TURNED) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at(p)) : "memory");
    else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at(p)) : "memory");
}
__device__ __forceinline__ void two_matrices(u32 (&v)[2], const u16 *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(at(p)) : "memory");
}
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 low, u32 high) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}
__device__ __forceinline__ u32 packed_pair(float low, float high) {
    u32 v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
__device__ __forceinline__ float value(u16 bits) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
}
#endif
template <int WARPS> __device__ __forceinline__ void together() {
    if (WARPS == 1) __syncwarp();
    else __syncthreads();
}
__device__ __forceinline__ void put_pair(u16 *p, float low, float high) { *reinterpret_cast<u32 *>(p) = packed_pair(low, high); }
constexpr int PAD = 8;

template <int BM, int BN, int BK, int TM, int TN, int DIM_X, int WARPS, int GROUPS> __device__ __forceinline__ void blocked(const Arguments &g) {
    constexpr int T = 32 * WARPS, DIM_Y = T / DIM_X, LA = BK + PAD, LB = BN + PAD;
    constexpr int DOWN = BM / TM, BLOCKS = DOWN * (BN / TN), MINE = (BLOCKS + WARPS - 1) / WARPS;
    constexpr int OPERANDS = BM * LA + BK * LB, RESULT = BM * LB, SIZE = OPERANDS > RESULT ? OPERANDS : RESULT;
    static_assert(GROUPS == 1 || WARPS == 1, "a group has no barrier of its own");
    const int t = threadIdx.x % T, x = t % DIM_X, y = t / DIM_X, warp = t / 32, lane = t % 32;
    u16 *const sa = memory + threadIdx.x / T * SIZE, *const sb = sa + BM * LA;
    const u32 across = (g.n + BN - 1) / BN, tiles = across * ((g.m + BM - 1) / BM);
    const u32 item = blockIdx.x * GROUPS + threadIdx.x / T, product = item / tiles, tile = item % tiles;
    if (product >= (u32)g.count) return;
    const int row = tile / across * BM, col = tile % across * BN;
    const u16 *a = g.a + (size_t)product * g.m * g.k, *b = g.b + (size_t)product * g.k * g.n;
    u16 *c = g.c + (size_t)product * g.m * g.n;
    float sum[MINE][TM / 16][TN / 8][4];
#pragma unroll
    for (int f = 0; f < MINE; f++)
#pragma unroll
        for (int i = 0; i < TM / 16; i++)
#pragma unroll
            for (int j = 0; j < TN / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[f][i][j][e] = 0;
    for (int k = 0; k < g.k; k += BK) {
#pragma unroll
        for (int r = 0; r < BM; r += DIM_Y)
#pragma unroll
            for (int p = 0; p < BK; p += DIM_X) {
                const int i = row + r + y, j = k + p + x;
                sa[(r + y) * LA + p + x] = i < g.m && j < g.k ? a[i * g.k + j] : 0;
            }
#pragma unroll
        for (int r = 0; r < BK; r += DIM_Y)
#pragma unroll
            for (int p = 0; p < BN; p += DIM_X) {
                const int i = k + r + y, j = col + p + x;
                sb[(r + y) * LB + p + x] = i < g.k && j < g.n ? b[i * g.n + j] : 0;
            }
        together<WARPS>();
#pragma unroll
        for (int f = 0; f < MINE; f++) {
            const int block = f * WARPS + warp, m = block % DOWN * TM, n = block / DOWN * TN;
            if (BLOCKS % WARPS && block >= BLOCKS) break;
#pragma unroll
            for (int s = 0; s < BK; s += 16) {
                u32 left[TM / 16][4], right[TN / 8][2];
#pragma unroll
                for (int i = 0; i < TM / 16; i++) matrices<false>(left[i], sa + (m + 16 * i + lane % 16) * LA + s + lane / 16 * 8);
                if constexpr (TN == 8) two_matrices(right[0], sb + (s + lane % 16) * LB + n);
                else {
#pragma unroll
                    for (int j = 0; j < TN / 8; j += 2) {
                        u32 v[4];
                        matrices<true>(v, sb + (s + lane % 16) * LB + n + 8 * j + lane / 16 * 8);
                        right[j][0] = v[0], right[j][1] = v[1], right[j + 1][0] = v[2], right[j + 1][1] = v[3];
                    }
                }
#pragma unroll
                for (int i = 0; i < TM / 16; i++)
#pragma unroll
                    for (int j = 0; j < TN / 8; j++) mma(sum[f][i][j], left[i], right[j][0], right[j][1]);
            }
        }
        together<WARPS>();
    }
#pragma unroll
    for (int f = 0; f < MINE; f++) {
        const int block = f * WARPS + warp, m = block % DOWN * TM, n = block / DOWN * TN;
        if (BLOCKS % WARPS && block >= BLOCKS) break;
#pragma unroll
        for (int i = 0; i < TM / 16; i++)
#pragma unroll
            for (int j = 0; j < TN / 8; j++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    put_pair(sa + (m + 16 * i + 8 * h + lane / 4) * LB + n + 8 * j + lane % 4 * 2, sum[f][i][j][2 * h], sum[f][i][j][2 * h + 1]);
    }
    together<WARPS>();
#pragma unroll
    for (int r = 0; r < BM; r += DIM_Y)
#pragma unroll
        for (int p = 0; p < BN; p += DIM_X) {
            const int i = row + r + y, j = col + p + x;
            if (i < g.m && j < g.n) c[i * g.n + j] = sa[(r + y) * LB + p + x];
        }
}

template <int N, int WARPS> __device__ __forceinline__ void packed(const Arguments &g) {
    constexpr int MANY = 16 / N, L = 16 + PAD;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u16 *const sa = memory + warp * 2 * 16 * L, *const sb = sa + 16 * L;
    const u32 first = (blockIdx.x * WARPS + warp) * MANY;
    if (first >= (u32)g.count) return;
    const int elements = min(MANY, g.count - (int)first) * N * N;
    const size_t begin = (size_t)first * N * N;
#pragma unroll
    for (int e = lane; e < 16 * L; e += 32) reinterpret_cast<u32 *>(sa)[e] = 0;
    __syncwarp();
#pragma unroll
    for (int e = lane; e < MANY * N * N; e += 32)
        if (e < elements) {
            const int p = e / (N * N), r = e / N % N, c = e % N;
            sa[(p * N + r) * L + c] = g.a[begin + e];
            sb[r * L + p * N + c] = g.b[begin + e];
        }
    __syncwarp();
    u32 left[4], right[4];
    matrices<false>(left, sa + lane % 16 * L + lane / 16 * 8);
    matrices<true>(right, sb + lane % 16 * L + lane / 16 * 8);
    float sum[2][4] = {};
    mma(sum[0], left, right[0], right[1]);
    mma(sum[1], left, right[2], right[3]);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) put_pair(sa + (lane / 4 + 8 * h) * L + 8 * j + lane % 4 * 2, sum[j][2 * h], sum[j][2 * h + 1]);
    __syncwarp();
#pragma unroll
    for (int e = lane; e < MANY * N * N; e += 32)
        if (e < elements) {
            const int p = e / (N * N), r = e / N % N, c = e % N;
            g.c[begin + e] = sa[(p * N + r) * L + p * N + c];
        }
}

template <int N, int GROUPS> __device__ __forceinline__ void elements(const Arguments &g) {
    constexpr int SIZE = N * N * GROUPS;
    const int t = threadIdx.x, r = t / N % N, c = t % N, from = t / (N * N) * N * N;
    const size_t e = (size_t)blockIdx.x * SIZE + t, end = (size_t)g.count * N * N;
    u16 *const sa = memory, *const sb = sa + SIZE;
    if (e < end) sa[t] = g.a[e], sb[t] = g.b[e];
    __syncthreads();
    if (e >= end) return;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < N; k++) sum += value(sa[from + r * N + k]) * value(sb[from + k * N + c]);
    g.c[e] = (u16)packed_pair(sum, 0);
}
