// f32_ptx.cuh for grid.h, beside instructions.h, and what the float32 engine asks of CUDA C++ itself.
// Its plain stores to C are plain stores here too: only what goes through instructions is checked.
#pragma once

#define __shared__
#define __align__(n)

struct float4 { float x, y, z, w; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class A, class B> inline B reinterpreted(A a) { B b; std::memcpy(&b, &a, sizeof b); return b; }
inline float __uint_as_float(unsigned v) { return reinterpreted<unsigned, float>(v); }
inline float __int_as_float(int v) { return reinterpreted<int, float>(v); }
inline int __float_as_int(float v) { return reinterpreted<float, int>(v); }

namespace tile {

using std::fmaf;
inline unsigned char memory[1]; // its address is not used: shared memory begins at shared_base()
inline u32 shared_address(const void *) { return grid::BASE; }

struct alignas(16) Quad { float x[4]; };
inline void lds128(float (&v)[4], u32 at) { std::memcpy(v, grid::read_shared<Quad>(at).x, sizeof v); }
inline void sts128(u32 at, const float (&v)[4]) { grid::write_shared(at, Quad{v[0], v[1], v[2], v[3]}); }
inline void sts32(u32 at, float v) { grid::write_shared(at, v); }
inline void sts32(u32 at, u32 v) { grid::write_shared(at, v); }
inline u32 lds32(u32 at) { return grid::read_shared<u32>(at); }
inline void barrier_wait(u32 bar, u32 parity) { grid::wait_barrier(bar, parity); }
template <int N> inline void more_registers() {}
template <int N> inline void fewer_registers() {}

// Adding to memory is one step for each element.
inline void red32(float *p, float v) { grid::check(p, 4, true); *p += v; }
inline void red32(int *p, int v) { grid::check(p, 4, true); *p = (int)((u32)*p + (u32)v); }
inline void red128(float *p, const float (&v)[4]) {
    for (int j = 0; j < 4; j++) red32(p + j, v[j]);
}
inline void ldg128(float (&v)[4], const float *p) {
    if ((u64)p % 16) grid::fail("a load of sixteen bytes from %p", (const void *)p);
    grid::check(p, 16, false);
    std::memcpy(v, p, sizeof v);
}
inline void ldcg128(float (&v)[4], const float *p) { ldg128(v, p); }
inline float __ldg(const float *p) { grid::check(p, 4, false); return *p; }
inline float __ldcg(const float *p) { return __ldg(p); }

} // namespace tile
