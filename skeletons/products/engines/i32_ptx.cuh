// The u8-limb engine's additions to f32_ptx.cuh: wgmma on unsigned bytes (sm_90a), byte
// permutation, integer accesses.  One instruction per function, so that an emulation on a CPU can
// replace this file (tests/backend/cuda/products/emulation).
#pragma once
#include "f32_ptx.cuh"

namespace tile {

__device__ __forceinline__ u32 shared_base() {
    extern __shared__ __align__(128) unsigned char memory[];
    return shared_address(memory);
}

// ---------------------------------------------------------------- wgmma

// A matrix of bytes in shared memory, both operands K-major, no swizzle: core matrices of eight rows
// of sixteen bytes are contiguous; `along_k` bytes to the next sixteen k, `down` bytes to the next
// eight rows.
__device__ __forceinline__ u64 descriptor(u32 at, u32 along_k, u32 down) {
    return (u64)((at & 0x3FFFF) >> 4) | (u64)(along_k >> 4) << 16 | (u64)(down >> 4) << 32;
}
// d (+)= a b: 64 x 128 outputs of a warpgroup, 32 k, unsigned bytes; sums wrap modulo 2^32 (no .satfinite).
// Thread t holds, with warp w = t / 32 % 4, g = t % 32 / 4, q = t % 4: d[4 j + 2 h + e] = D(16 w + g + 8 h, 8 j + 2 q + e).
__device__ __forceinline__ void mma_u8(int (&d)[64], u64 a, u64 b, int add) {
#define TILE_D8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.u8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p;\n}"
        : TILE_D8(0), TILE_D8(8), TILE_D8(16), TILE_D8(24), TILE_D8(32), TILE_D8(40), TILE_D8(48), TILE_D8(56)
        : "l"(a), "l"(b), "r"(add));
#undef TILE_D8
}
// Required before the first mma_u8, and after any other access to the registers of one.
__device__ __forceinline__ void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void mma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Makes this thread's stores to shared memory visible to wgmma.
__device__ __forceinline__ void stores_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Keeps the compiler from moving uses of d across a wait.
__device__ __forceinline__ void pin(int (&d)[64]) {
#pragma unroll
    for (int i = 0; i < 64; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// ---------------------------------------------------------------- bytes and words

__device__ __forceinline__ u32 permuted(u32 x, u32 y, u32 how) {
    u32 v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(x), "r"(y), "r"(how));
    return v;
}
__device__ __forceinline__ void store(u32 at, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ void store(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// Values computed from x afterwards are computed there, instead of kept in registers during the loops before.
__device__ __forceinline__ void keep(int &x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void keep(const int *&x) { asm volatile("" : "+l"(x)); }
__device__ __forceinline__ void ldg(int &v, const int *p) { asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(v) : "l"(p)); }
__device__ __forceinline__ void ldg(int &a, int &b, int &c, int &d, const int *p) {
    asm volatile("ld.global.nc.v4.s32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p));
}
__device__ __forceinline__ void ldcg(int &v, const int *p) { asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); }
__device__ __forceinline__ void stg(int *p, int v) { asm volatile("st.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ void red(int *p, int v) { asm volatile("red.global.add.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

} // namespace tile
