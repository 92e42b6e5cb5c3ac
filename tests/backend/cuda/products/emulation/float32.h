// f32_ptx.cuh for grid.h, beside instructions.h, and what the float32 engine asks of CUDA C++ itself.
#pragma once

#define __shared__
#define __align__(n)

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

// Adding to memory is one step for each element.
inline void red32(float *p, float v) { grid::add_global(p, [=](float old) { return old + v; }); }
inline void red32(int *p, int v) { grid::add_global(p, [=](int old) { return (int)((u32)old + (u32)v); }); }
inline void red128(float *p, const float (&v)[4]) {
    for (int j = 0; j < 4; j++) red32(p + j, v[j]);
}
inline void ldg128(float (&v)[4], const float *p) {
    if ((u64)p % 16) grid::fail("a load of sixteen bytes from %p", (const void *)p);
    grid::check(p, 16, false);
    std::memcpy(v, p, sizeof v);
}
inline void stg32(float *p, float v) { grid::write_global(p, v); }
inline void stg128(float *p, const float (&v)[4]) {
    if ((u64)p % 16) grid::fail("a store of sixteen bytes to %p", (const void *)p);
    for (int j = 0; j < 4; j++) stg32(p + j, v[j]);
}
// Operands are never written: no order to check.
inline float __ldg(const float *p) { grid::check(p, 4, false); return *p; }
inline float __ldcg(const float *p) { return grid::read_global<float>(p); }
inline void ldcg128(float (&v)[4], const float *p) {
    if ((u64)p % 16) grid::fail("a load of sixteen bytes from %p", (const void *)p);
    for (int j = 0; j < 4; j++) v[j] = __ldcg(p + j);
}

} // namespace tile
