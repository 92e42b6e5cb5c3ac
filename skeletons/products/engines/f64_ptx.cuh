// The float64 engine's additions to f32_ptx.cuh: sixteen- and eight-byte accesses of doubles,
// asynchronous copies, DMMA.  One instruction per function, so that an emulation on a CPU
// can replace this file (tests/backend/cuda/products/emulation).
//
// sm_90a has all of them; sm_80 lacks the large DMMA shapes (composed of m8n8k4), try_wait and
// setmaxnreg.
#pragma once
#include "f32_ptx.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TILE_SETMAXNREG 1
#else
#define TILE_SETMAXNREG 0
#endif

namespace tile {

__device__ __forceinline__ u32 shared_base() {
    extern __shared__ __align__(128) unsigned char memory[];
    return shared_address(memory);
}

// ---------------------------------------------------------------- shared memory

__device__ __forceinline__ void lds(double &v, u32 at) { asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v) : "r"(at)); }
__device__ __forceinline__ void sts(u32 at, const double (&v)[2]) { asm volatile("st.shared.v2.f64 [%0], {%1,%2};" ::"r"(at), "d"(v[0]), "d"(v[1]) : "memory"); }

// ---------------------------------------------------------------- asynchronous copies

// Copies `bytes` from global memory, and zero-fills the rest of sixteen (or eight).
__device__ __forceinline__ void copy16(u32 to, const double *from, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy8(u32 to, const double *from, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// One arrival of this thread at `bar` once all copies that it started have completed.
__device__ __forceinline__ void copies_arrive(u32 bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory"); }

// ---------------------------------------------------------------- global memory

__device__ __forceinline__ void ldg(double (&v)[2], const double *p) { asm volatile("ld.global.nc.v2.f64 {%0,%1}, [%2];" : "=d"(v[0]), "=d"(v[1]) : "l"(p)); }
__device__ __forceinline__ void ldg(double &v, const double *p) { asm volatile("ld.global.nc.f64 %0, [%1];" : "=d"(v) : "l"(p)); }
// From the L2, where other blocks write.
__device__ __forceinline__ void ldcg(double (&v)[2], const double *p) {
    asm volatile("ld.global.cg.v2.f64 {%0,%1}, [%2];" : "=d"(v[0]), "=d"(v[1]) : "l"(p) : "memory");
}
__device__ __forceinline__ void ldcg(double &v, const double *p) { asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(v) : "l"(p) : "memory"); }
__device__ __forceinline__ void stg(double *p, const double (&v)[2]) { asm volatile("st.global.v2.f64 [%0], {%1,%2};" ::"l"(p), "d"(v[0]), "d"(v[1]) : "memory"); }
__device__ __forceinline__ void stg(double *p, double v) { asm volatile("st.global.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory"); }
__device__ __forceinline__ void red(double *p, double v) { asm volatile("red.global.add.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory"); }

// ---------------------------------------------------------------- DMMA

// c += a b, 16 x 8 outputs.  Lane l holds, with g = l / 4 and t = l % 4:
//   a[2 s + h] = A(g + 8 h, 4 s + t)    b[s] = B(4 s + t, g)    c[2 h + e] = C(g + 8 h, 2 t + e)
__device__ __forceinline__ void mma_k4(double (&c)[4], double a0, double a1, double b0) {
#if TILE_HOPPER
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a0), "d"(a1), "d"(b0));
#else
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a0), "d"(b0));
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[2]), "+d"(c[3]) : "d"(a1), "d"(b0));
#endif
}
__device__ __forceinline__ void mma_k8(double (&c)[4], const double *a, const double *b) {
#if TILE_HOPPER
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    mma_k4(c, a[0], a[1], b[0]);
    mma_k4(c, a[2], a[3], b[1]);
#endif
}
__device__ __forceinline__ void mma_k16(double (&c)[4], const double *a, const double *b) {
#if TILE_HOPPER
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
    mma_k8(c, a, b);
    mma_k8(c, a + 4, b + 2);
#endif
}

// ---------------------------------------------------------------- registers

// Values computed from x afterwards are computed there, instead of kept in registers during the loops before.
__device__ __forceinline__ void keep(int &x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void keep(const double *&x) { asm volatile("" : "+l"(x)); }

template <int N> __device__ __forceinline__ void registers_up() {
#if TILE_SETMAXNREG
    more_registers<N>();
#endif
}
template <int N> __device__ __forceinline__ void registers_down() {
#if TILE_SETMAXNREG
    fewer_registers<N>();
#endif
}

} // namespace tile
