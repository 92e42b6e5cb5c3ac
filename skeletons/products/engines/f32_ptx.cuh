// Thin wrappers of the PTX that the float32 engine uses: shared memory, mbarriers,
// register reallocation, vector reductions.  No headers: both NVRTC and nvcc
// compile this file unchanged.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TILE_HOPPER 1 // or later: barriers that wait with a hint, vector reductions, clusters
#else
#define TILE_HOPPER 0
#endif
#ifndef TILE_HINT
#define TILE_HINT 10000000
#endif
namespace tile {

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void lds128(float (&v)[4], u32 at) {
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at));
}
__device__ __forceinline__ void sts128(u32 at, const float (&v)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
}
__device__ __forceinline__ void sts32(u32 at, float v) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory"); }
__device__ __forceinline__ void sts32(u32 at, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ u32 lds32(u32 at) {
    u32 v;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}

// A barrier completes a phase after `count` arrivals; waiting on parity p
// returns once the phase of parity p has completed.
__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
#if TILE_HOPPER
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
#else
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(bar) : "memory");
#endif
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
#if TILE_HOPPER
    asm volatile(
        "{\n.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, %2;\n"
        "@!done bra again;\n}" ::"r"(bar), "r"(parity), "n"(TILE_HINT) : "memory");
#else
    asm volatile(
        "{\n.reg .pred done;\n"
        "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(bar), "r"(parity) : "memory");
#endif
}
// Makes barriers that one thread initialised visible to others after a __syncthreads.
__device__ __forceinline__ void barriers_made() {
#if TILE_HOPPER
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
    __threadfence_block();
#endif
}
template <int N> __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

__device__ __forceinline__ void stg32(float *p, float v) { *p = v; }
__device__ __forceinline__ void stg128(float *p, const float (&v)[4]) {
    *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
}

__device__ __forceinline__ void red32(float *p, float v) { asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }
// Adds four floats to global memory in the L2, without returning them.
__device__ __forceinline__ void red128(float *p, const float (&v)[4]) {
#if TILE_HOPPER
    asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
#else
#pragma unroll
    for (int j = 0; j < 4; j++) red32(p + j, v[j]);
#endif
}
__device__ __forceinline__ void red32(int *p, int v) { asm volatile("red.global.add.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

__device__ __forceinline__ void ldg128(float (&v)[4], const float *p) {
    asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "l"(p));
}

// From the L2: the L1 may hold the value from before a reduction.
__device__ __forceinline__ void ldcg128(float (&v)[4], const float *p) {
    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "l"(p) : "memory");
}

__device__ __forceinline__ void store_release(u32 *p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_acquire(const u32 *p) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
// A barrier of the consumers only.
__device__ __forceinline__ void consumers_sync(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

} // namespace tile
