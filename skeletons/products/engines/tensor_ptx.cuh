// wgmma on 16-bit floats, tf32 and signed bytes (sm_90a), bulk copies: the tensor-core engine's additions to
// f32_ptx.cuh and i32_ptx.cuh.
#pragma once
#include "i32_ptx.cuh"

namespace tile {

enum Element { HALF, BFLOAT, TF32, BYTE };

// d (+)= a b: 64 x N outputs of a warpgroup over 32 bytes of k; operands by descriptors, K-major; of 16-bit floats
// M- or N-major if TA or TB is 1.
// Thread t holds, with warp w = t / 32 % 4, g = t % 32 / 4, q = t % 4: d[4 j + 2 h + e] = D(16 w + g + 8 h, 8 j + 2 q + e).
template <Element E, int N> struct Mma;
#define TILE_F8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define TILE_F32(i) TILE_F8(i), TILE_F8(i + 8), TILE_F8(i + 16), TILE_F8(i + 24)
#define TILE_R0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TILE_R32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TILE_R64 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TILE_R96 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TILE_REGISTERS128 TILE_R0 ", " TILE_R32
#define TILE_OUTPUTS128 TILE_F32(0), TILE_F32(32)
#define TILE_REGISTERS192 TILE_R0 ", " TILE_R32 ", " TILE_R64
#define TILE_OUTPUTS192 TILE_F32(0), TILE_F32(32), TILE_F32(64)
#define TILE_REGISTERS256 TILE_R0 ", " TILE_R32 ", " TILE_R64 ", " TILE_R96
#define TILE_OUTPUTS256 TILE_F32(0), TILE_F32(32), TILE_F32(64), TILE_F32(96)
// A, B, P: the numbers of the operands after the outputs: descriptors, whether to add; MAJOR: of the transpositions.
#define TILE_MMA(E, N, TYPE, K, A, B, P, MAJOR, ...)                                                                          \
    template <> struct Mma<E, N> {                                                                                           \
        template <int TA = 0, int TB = 0> __device__ static __forceinline__ void run(float (&d)[N / 2], u64 a, u64 b, int add) { \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                                      \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k" #K ".f32." TYPE "." TYPE " {" TILE_REGISTERS##N "}, "       \
                         A ", " B ", p, 1, 1" MAJOR ";\n}"                                                                   \
                         : TILE_OUTPUTS##N : "l"(a), "l"(b), "r"(add) __VA_ARGS__);                                            \
        }                                                                                                                    \
    };
TILE_MMA(HALF, 128, "f16", 16, "%64", "%65", "%66", ", %67, %68", , "n"(TA), "n"(TB))
TILE_MMA(BFLOAT, 128, "bf16", 16, "%64", "%65", "%66", ", %67, %68", , "n"(TA), "n"(TB))
TILE_MMA(HALF, 192, "f16", 16, "%96", "%97", "%98", ", %99, %100", , "n"(TA), "n"(TB))
TILE_MMA(BFLOAT, 192, "bf16", 16, "%96", "%97", "%98", ", %99, %100", , "n"(TA), "n"(TB))
TILE_MMA(HALF, 256, "f16", 16, "%128", "%129", "%130", ", %131, %132", , "n"(TA), "n"(TB))
TILE_MMA(BFLOAT, 256, "bf16", 16, "%128", "%129", "%130", ", %131, %132", , "n"(TA), "n"(TB))
TILE_MMA(TF32, 128, "tf32", 8, "%64", "%65", "%66", "")
TILE_MMA(TF32, 192, "tf32", 8, "%96", "%97", "%98", "")
TILE_MMA(TF32, 256, "tf32", 8, "%128", "%129", "%130", "")
#undef TILE_MMA
// The same with rows of a in registers, which must stay as they are until the products are complete: thread t holds
// A(16 w + g + 8 (i % 2), q + 4 (i / 2)) in a[i].
template <Element E, int N> struct MmaHeld;
#define TILE_MMA(N, A, B, P)                                                                                                  \
    template <> struct MmaHeld<TF32, N> {                                                                                    \
        __device__ static __forceinline__ void run(float (&d)[N / 2], const u32 (&a)[4], u64 b, int add) {                    \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                                      \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" TILE_REGISTERS##N "}, {" A "}, " B ", p, 1, 1;\n}" \
                         : TILE_OUTPUTS##N : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                   \
        }                                                                                                                    \
    };
TILE_MMA(128, "%64, %65, %66, %67", "%68", "%69")
TILE_MMA(192, "%96, %97, %98, %99", "%100", "%101")
TILE_MMA(256, "%128, %129, %130, %131", "%132", "%133")
#undef TILE_MMA
#undef TILE_F32
#undef TILE_F8
#define TILE_U8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define TILE_U32(i) TILE_U8(i), TILE_U8(i + 8), TILE_U8(i + 16), TILE_U8(i + 24)
#define TILE_MMA(N, A, B, P, ...) /* sums wrap modulo 2^32 */                                                                  \
    template <> struct Mma<BYTE, N> {                                                                                        \
        __device__ static __forceinline__ void run(u32 (&d)[N / 2], u64 a, u64 b, int add) {                                  \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                                      \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" TILE_REGISTERS##N "}, " A ", " B ", p;\n}"     \
                         : __VA_ARGS__ : "l"(a), "l"(b), "r"(add));                                                            \
        }                                                                                                                    \
    };
TILE_MMA(128, "%64", "%65", "%66", TILE_U32(0), TILE_U32(32))
#undef TILE_MMA
#undef TILE_U32
#undef TILE_U8

// A K-major matrix in shared memory: rows of 128 bytes whose sixteen-byte units are permuted (the
// 128-byte swizzle: unit u of row r is at u ^ r % 8); eight rows are 1024 bytes, and start at a multiple of that.
__device__ __forceinline__ u64 swizzled(u32 at) { return (u64)((at & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62; }
// The same of the transposed matrix: 64 elements of r in a row of 128 bytes, eight k are 1024 bytes; `next` bytes to the
// next 64 r.
__device__ __forceinline__ u64 swizzled_transposed(u32 at, u32 next) { return (u64)((at & 0x3FFFF) >> 4) | (u64)(next >> 4) << 16 | (u64)64 << 32 | (u64)1 << 62; }
template <int N> __device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> __device__ __forceinline__ void pin(u32 (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// ---------------------------------------------------------------- mma.sync (sm_80 and later)

// Four matrices of eight rows of sixteen bytes, whose addresses the lanes give: lane 4 g + q gets elements 2 q and 2 q + 1 of
// row g of each (TURNED: of column g).
template <bool TURNED> __device__ __forceinline__ void matrices(u32 (&v)[4], u32 at) {
    if (TURNED) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
    else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
}
// d += a b: 16 x 8 outputs of a warp over 16 k.
template <Element E> __device__ __forceinline__ void mma(float *d, const u32 (&a)[4], u32 low, u32 high) {
    if (E == HALF)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}

// ---------------------------------------------------------------- elements

// Two elements, rounded to nearest; and back.
template <Element E> __device__ __forceinline__ u32 packed(float low, float high) {
    u32 v;
    if (E == HALF) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
template <Element E> __device__ __forceinline__ void unpacked(u32 v, float &low, float &high) {
    if (E == HALF) asm("{.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;}" : "=f"(low), "=f"(high) : "r"(v));
    else {
        low = __int_as_float(v << 16);
        high = __int_as_float(v & 0xFFFF0000u);
    }
}
__device__ __forceinline__ void sts128(u32 at, const u32 (&v)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}
// A tf32 (in a word, its last thirteen bits zero), rounded to nearest, ties to even, as tensor maps and cuBLAS do.
__device__ __forceinline__ u32 rounded(float x) {
    u32 v;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(v) : "f"(x));
#else
    const u32 bits = __float_as_int(x);
    v = fabsf(x) <= 3.402823466e38f ? (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000 : x == x ? bits : 0x7FFFE000;
#endif
    return v;
}
__device__ __forceinline__ void lds64(u32 &a, u32 &b, u32 at) { asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(at) : "memory"); }
__device__ __forceinline__ void lds128(u32 (&v)[4], u32 at) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void ldcg(float &v, const float *p) { asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory"); }
__device__ __forceinline__ void ldcg(float &a, float &b, const float *p) { asm volatile("ld.global.cg.v2.f32 {%0,%1}, [%2];" : "=f"(a), "=f"(b) : "l"(p) : "memory"); }
__device__ __forceinline__ void ldcg(u32 &v, const u32 *p) { asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); }
__device__ __forceinline__ void ldcg(u32 &a, u32 &b, const u32 *p) { asm volatile("ld.global.cg.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "l"(p) : "memory"); }
__device__ __forceinline__ int load_relaxed(const int *p) {
    int v;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void stg64(float *p, const float (&v)[2]) { *reinterpret_cast<float2 *>(p) = make_float2(v[0], v[1]); }
__device__ __forceinline__ void stg32(u32 *p, u32 v) { *p = v; }
__device__ __forceinline__ void stg64(u32 *p, const u32 (&v)[2]) { *reinterpret_cast<uint2 *>(p) = make_uint2(v[0], v[1]); }
__device__ __forceinline__ void stg16(unsigned short *p, u32 v) { *p = (unsigned short)v; }
__device__ __forceinline__ void stg128(unsigned short *p, const u32 (&v)[4]) { *reinterpret_cast<uint4 *>(p) = make_uint4(v[0], v[1], v[2], v[3]); }
__device__ __forceinline__ void red64(float *p, const float (&v)[2]) { asm volatile("red.global.add.v2.f32 [%0], {%1,%2};" ::"l"(p), "f"(v[0]), "f"(v[1]) : "memory"); }
__device__ __forceinline__ void red32(u32 *p, u32 v) { asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ void red64(u32 *p, const u32 (&v)[2]) {
    red32(p, v[0]);
    red32(p + 1, v[1]);
}
__device__ __forceinline__ u32 dynamic_base() {
    extern __shared__ __align__(1024) unsigned char memory[];
    return shared_address(memory);
}

// ---------------------------------------------------------------- copies of sixteen bytes (sm_80 and later)

// The first `bytes` of sixteen, then zeros; nothing if not `on`.
__device__ __forceinline__ void copy16(u32 to, const void *from, int bytes, bool on) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n}" ::"r"(to), "l"(from), "r"(bytes), "r"((int)on) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the last `LATER` groups of this thread's copies have landed.
template <int LATER> __device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory"); }

// ---------------------------------------------------------------- bulk copies

__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// Contiguous bytes (a multiple of sixteen) to shared memory; completes on `bar`.
__device__ __forceinline__ void bulk_load(u32 to, const void *from, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void bulk_store(void *to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_stored() {
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}

// ---------------------------------------------------------------- tensor maps

struct alignas(64) TensorMap { u64 opaque[16]; };
// A box of a matrix at column x and row y, zeros outside of it; completes on `bar`.
__device__ __forceinline__ void box_load(u32 to, const TensorMap &map, int x, int y, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
}

} // namespace tile
