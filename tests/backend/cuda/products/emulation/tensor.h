// tensor_ptx.cuh for grid.h, beside float32.h: wgmma on floats and bytes, conversions and bulk copies, and what
// the tensor-core engine asks of CUDA C++ itself.
#pragma once

// `found` of operand_maxima, and global memory that kernels access without a function (tiles.py
// puts these types into their text).
struct Watched {
    struct Row {
        int row;
        struct Element {
            u32 at;
            void operator=(u32 v) { grid::write_shared(at, v); }
            operator u32() const { return grid::read_shared<u32>(at); }
        };
        Element operator[](int column) const { return {grid::BASE + 4 * (32 * row + column)}; }
    };
    Row operator[](int row) const { return {row}; }
};
inline u32 max(u32 a, Watched::Row::Element b) { return max(a, (u32)b); }
template <class T> struct Global {
    T *p;
    struct Element {
        T *p;
        void operator=(T v) { // several blocks may store one value
            if (*p == v) grid::check(p, sizeof v, true);
            else grid::write_global(p, v);
        }
        operator T() const { return grid::read_global<T>(p); }
    };
    Element operator[](i64 i) const { return {p + i}; }
    Element operator*() const { return {p}; }
    T *operator+(i64 i) const { return p + i; }
};

inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
inline u32 __shfl_xor_sync(u32, u32 v, int mask) {
    struct Lane { u32 given, found; int mask; } mine = {v, 0, mask};
    grid::together("__shfl_xor_sync", &mine, [](void **lanes) {
        for (int i = 0; i < 32; i++) {
            Lane *lane = static_cast<Lane *>(lanes[i]);
            lane->found = static_cast<Lane *>(lanes[i ^ lane->mask])->given;
        }
    });
    return mine.found;
}
inline u32 atomicMax(u32 *p, u32 v) {
    u32 found;
    grid::add_global(p, [&](u32 old) { return found = old, max(old, v); });
    return found;
}
inline u32 atomicAdd(u32 *p, u32 v) {
    u32 found;
    grid::add_global(p, [&](u32 old) { return found = old, old + v; });
    return found;
}

namespace tile {

enum Element { HALF, BFLOAT, TF32, BYTE };

inline u32 __ldg(const u32 *p) { grid::check(p, 4, false); return *p; }
inline int __ldg(const int *p) { grid::check(p, 4, false); return *p; }
inline void ldcg(float &v, const float *p) { v = grid::read_global<float>(p); }
struct alignas(8) Pair { float x[2]; };
inline void ldcg(float &a, float &b, const float *p) {
    const Pair v = grid::read_global<Pair>(p);
    a = v.x[0], b = v.x[1];
}
inline void ldcg(u32 &v, const u32 *p) { v = grid::read_global<u32>(p); }
struct alignas(8) Words { u32 x[2]; };
inline void ldcg(u32 &a, u32 &b, const u32 *p) {
    const Words v = grid::read_global<Words>(p);
    a = v.x[0], b = v.x[1];
}
inline void stg32(u32 *p, u32 v) { grid::write_global(p, v); }
inline void stg64(u32 *p, const u32 (&v)[2]) { grid::write_global(p, Words{v[0], v[1]}); }
inline void red32(u32 *p, u32 v) { grid::add_global(p, [=](u32 old) { return old + v; }); }
inline void red64(u32 *p, const u32 (&v)[2]) {
    for (int j = 0; j < 2; j++) red32(p + j, v[j]);
}
inline void stg64(float *p, const float (&v)[2]) { grid::write_global(p, Pair{v[0], v[1]}); }
inline void red64(float *p, const float (&v)[2]) {
    if ((u64)p % 8) grid::fail("a reduction of eight bytes at %p", (void *)p);
    for (int j = 0; j < 2; j++) red32(p + j, v[j]);
}
inline int load_relaxed(const int *p) {
    grid::turn();
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
inline void lds128(u32 (&v)[4], u32 at) { std::memcpy(v, grid::read_shared<Four>(at).x, sizeof v); }
inline void stg16(unsigned short *p, u32 v) { grid::write_global(p, (unsigned short)v); }
inline void stg128(unsigned short *p, const u32 (&v)[4]) { grid::write_global(p, Four{{v[0], v[1], v[2], v[3]}}); }
inline void sts128(u32 at, const u32 (&v)[4]) { grid::write_shared(at, Four{{v[0], v[1], v[2], v[3]}}); }
inline u32 dynamic_base() { return grid::BASE; }
inline void barrier_expect(u32 bar, u32 bytes) {
    grid::barrier(grid::now->block, bar).bytes += bytes;
    grid::arrive(bar);
}
inline void bulk_load(u32 to, const void *from, u32 bytes, u32 bar) { grid::begin_copy(true, to, from, bytes, bar); }
inline void bulk_store(void *to, u32 from, u32 bytes) { grid::begin_copy(false, from, to, bytes, 0); }
inline void bulk_stored() { grid::copies_done(); }
// A tensor map (test_tf32.py): address, bytes of a line, lines, bytes from line to line, lines of a box, whether to round,
// bytes of an element.
struct alignas(64) TensorMap { u64 opaque[16]; };
inline u32 rounded(float x) {
    const u32 bits = (u32)__float_as_int(x);
    return std::isfinite(x) ? (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000 : std::isnan(x) ? 0x7FFFE000 : bits;
}
inline void box_load(u32 to, const TensorMap &map, int x, int y, u32 bar) {
    const u64(&w)[16] = map.opaque;
    const grid::Matrix of{reinterpret_cast<const unsigned char *>(w[0]), w[1], w[2], w[3], (int)w[4]};
    if (w[6] == 2) grid::begin_box<unsigned short>(to, of, x, y, bar, [](unsigned short v) { return v; });
    else grid::begin_box<u32>(to, of, x, y, bar, [&](u32 v) { return w[5] ? rounded(__uint_as_float(v)) : v; });
}
// The sixteen lanes of half a warp must be in different banks.
inline void lds64(u32 &a, u32 &b, u32 at) {
    struct Lane { u32 at; u32 *a, *b; } mine = {at, &a, &b};
    grid::together("ld.shared.v2", &mine, [](void **lanes) {
        for (int half = 0; half < 32; half += 16) {
            u32 banks = 0;
            for (int i = half; i < half + 16; i++) banks |= 1u << static_cast<Lane *>(lanes[i])->at / 8 % 16;
            if (banks != 0xFFFF) grid::fail("loads of eight bytes from the same banks");
        }
    });
    Words v = grid::read_shared<Words>(at);
    a = v.x[0], b = v.x[1];
}
template <int N> inline void pin(float (&)[N]) {}
template <int N> inline void pin(u32 (&)[N]) {}
inline void copy16(u32 to, const void *from, int bytes, bool on) { if (on) grid::begin_copy16(to, from, bytes); }
inline void copies_commit() { grid::copies_commit(); }
template <int LATER> inline void copies_wait() { grid::copies_wait(LATER); }

// ---------------------------------------------------------------- elements

// Bits of a float16, rounded to nearest, ties to even.
inline u32 half_of(float x) {
    const u32 sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return 0x7FFF;
    if (x == 0) return sign;
    const double v = std::fabs((double)x), unit = std::ldexp(1.0, max(std::ilogb(v), -14) - 10), r = std::nearbyint(v / unit) * unit;
    if (r > 65504) return sign | 0x7C00;
    if (r < 0x1p-14) return sign | (u32)(r * 0x1p24);
    const int e = std::ilogb(r);
    return sign | (u32)(e + 15) << 10 | ((u32)std::ldexp(r, 10 - e) & 0x3FF);
}
inline u32 bfloat_of(float x) {
    const u32 bits = (u32)__float_as_int(x);
    return std::isnan(x) ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
// A float with `fraction` bits behind the point, as an integer times 2^(exponent - fraction).
struct Parts { int mantissa, exponent; bool finite; };
template <int EXPONENT, int FRACTION> inline Parts parts_of(u32 bits) {
    const int bias = (1 << (EXPONENT - 1)) - 1, e = (int)(bits >> FRACTION & ((1u << EXPONENT) - 1)), low = (int)(bits & ((1u << FRACTION) - 1));
    const int m = e ? low | 1 << FRACTION : low;
    return {bits >> (EXPONENT + FRACTION) & 1 ? -m : m, max(e, 1) - bias, e != (1 << EXPONENT) - 1};
}
template <Element E> inline u32 packed(float low, float high) {
    return E == HALF ? half_of(low) | half_of(high) << 16 : bfloat_of(low) | bfloat_of(high) << 16;
}
inline float half_value(u32 bits) {
    const Parts x = parts_of<5, 10>(bits & 0xFFFF);
    if (!x.finite) return x.mantissa & 0x3FF ? NAN : bits & 0x8000 ? -INFINITY : INFINITY;
    return std::copysign(std::ldexp((float)x.mantissa, x.exponent - 10), bits & 0x8000 ? -1.0f : 1.0f);
}
template <Element E> inline void unpacked(u32 v, float &low, float &high) {
    low = E == HALF ? half_value(v) : __int_as_float(v << 16);
    high = E == HALF ? half_value(v >> 16) : __int_as_float(v & 0xFFFF0000u);
}

// ---------------------------------------------------------------- mma.sync

// The eight rows of a matrix must be in different banks.
template <bool TURNED> inline void matrices(u32 (&v)[4], u32 at) {
    struct Lane { u32 at, *v; } mine = {at, v};
    grid::together("ldmatrix", &mine, [](void **lanes) {
        for (int i = 0; i < 4; i++) {
            unsigned short found[8][8];
            u32 banks = 0;
            for (int r = 0; r < 8; r++) {
                const u32 row = static_cast<Lane *>(lanes[8 * i + r])->at;
                std::memcpy(found[r], grid::shared(row, 16, false), 16);
                banks |= 1u << row / 16 % 8;
            }
            if (banks != 255) grid::fail("rows of a matrix in the same banks");
            for (int lane = 0; lane < 32; lane++)
                for (int e = 0; e < 2; e++) {
                    const int row = lane / 4, k = lane % 4 * 2 + e;
                    u32 &to = static_cast<Lane *>(lanes[lane])->v[i];
                    to = (e ? to : 0) | (u32)(TURNED ? found[k][row] : found[row][k]) << 16 * e;
                }
        }
    });
}
// Sums in double: whatever the order of a machine's, small integers are exact.
template <Element E> inline void mma(float *d, const u32 (&a)[4], u32 low, u32 high) {
    struct Lane { float *d; const u32 *a; u32 b[2]; } mine = {d, a, {low, high}};
    grid::together("mma", &mine, [](void **lanes) {
        float A[16][16], B[8][16];
        for (int lane = 0; lane < 32; lane++) {
            const Lane &x = *static_cast<Lane *>(lanes[lane]);
            const int g = lane / 4, k = lane % 4 * 2;
            for (int i = 0; i < 4; i++) unpacked<E>(x.a[i], A[g + i % 2 * 8][k + i / 2 * 8], A[g + i % 2 * 8][k + i / 2 * 8 + 1]);
            for (int i = 0; i < 2; i++) unpacked<E>(x.b[i], B[g][k + i * 8], B[g][k + i * 8 + 1]);
        }
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                float &out = static_cast<Lane *>(lanes[lane])->d[i];
                double sum = out;
                for (int k = 0; k < 16; k++) sum += (double)A[lane / 4 + i / 2 * 8][k] * B[lane % 4 * 2 + i % 2][k];
                out = (float)sum;
            }
    });
}

// ---------------------------------------------------------------- wgmma on floats

inline u64 swizzled(u32 at) { return (u64)((at & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62; }
// A row of 32 bytes of a K-major matrix with the 128-byte swizzle, which permutes addresses: sixteen-byte units by the
// number of their 128 bytes.
inline void row_of_operand(u64 descriptor, int row, u32 (&v)[8]) {
    if (descriptor >> 62 != 1) grid::fail("a matrix of wgmma without the 128-byte swizzle");
    const u32 down = (u32)(descriptor >> 32 & 0x3FFF) << 4;
    for (int unit = 0; unit < 2; unit++) {
        u32 at = ((u32)(descriptor & 0x3FFF) << 4) + row / 8 * down + row % 8 * 128 + 16 * unit;
        at ^= (at >> 7 & 7) << 4;
        std::memcpy(v + 4 * unit, grid::read_by_others(at, 16, false), 16);
    }
}
// The transposed matrix, of elements of two bytes: lines of 64 rows, eight k are `down` bytes from the next eight, and 64 rows
// `next` from the next ones.
inline u64 swizzled_transposed(u32 at, u32 next) { return swizzled(at) ^ (u64)1 << 16 ^ (u64)(next >> 4) << 16; }
inline u32 element_of_transposed(u64 descriptor, int row, int k) {
    if (descriptor >> 62 != 1) grid::fail("a matrix of wgmma without the 128-byte swizzle");
    const u32 down = (u32)(descriptor >> 32 & 0x3FFF) << 4, next = (u32)(descriptor >> 16 & 0x3FFF) << 4;
    u32 at = ((u32)(descriptor & 0x3FFF) << 4) + row / 64 * next + k / 8 * down + k % 8 * 128 + row % 64 * 2;
    at ^= (at >> 7 & 7) << 4;
    unsigned short v;
    std::memcpy(&v, grid::read_by_others(at & ~15u, 16, false) + at % 16, 2);
    return v;
}
// What the tensor cores of Hopper compute (MMA-Sim, arXiv 2511.10909): the products and the accumulator are aligned to
// the largest exponent, cut to 25 bits behind its point, and summed; the sum is rounded toward zero.
template <Element E, int N, int TA = 0, int TB = 0> void multiply_floats(const Wgmma &x, u32 *const (&d)[128]) {
    constexpr int K = E == TF32 ? 8 : 16, FRACTION = E == BFLOAT ? 7 : 10, KEPT = 25, NONE = -100000;
    static Parts A[64][K], B[N][K];
    auto read = [](u64 from, int row, Parts *to, bool transposed) {
        u32 v[8];
        if (!transposed) row_of_operand(from, row, v);
        else
            for (int k = 0; k < 8; k++) v[k] = element_of_transposed(from, row, 2 * k) | element_of_transposed(from, row, 2 * k + 1) << 16;
        for (int k = 0; k < K; k++)
            to[k] = E == TF32 ? parts_of<8, 10>(v[k] >> 13) : E == HALF ? parts_of<5, 10>(v[k / 2] >> 16 * (k % 2)) : parts_of<8, 7>(v[k / 2] >> 16 * (k % 2));
    };
    if (x.held) {
        for (int t = 0; t < 128; t++)
            for (int i = 0; i < 4; i++) A[16 * (t / 32) + t % 32 / 4 + i % 2 * 8][t % 4 + i / 2 * 4] = parts_of<8, 10>(held_by[t][i] >> 13);
    } else
        for (int r = 0; r < 64; r++) read(x.a, r, A[r], TA);
    for (int r = 0; r < N; r++) read(x.b, r, B[r], TB);
    auto cut = [](i64 v, int shift) { return shift > 62 ? 0 : v < 0 ? -(-v >> shift) : v >> shift; };
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < N / 2; i++) {
            const Parts *a = A[row_of(t, i)], *b = B[column_of(t, i)];
            const Parts c = x.add ? parts_of<8, 23>(d[t][i]) : Parts{0, 0, true};
            int most = c.mantissa ? c.exponent : NONE;
            bool finite = c.finite;
            i64 product[K];
            for (int k = 0; k < K; k++) {
                product[k] = (i64)a[k].mantissa * b[k].mantissa;
                finite = finite && a[k].finite && b[k].finite;
                if (product[k]) most = max(most, a[k].exponent + b[k].exponent);
            }
            float found = finite ? 0 : NAN;
            if (finite && most != NONE) {
                i64 sum = cut((i64)c.mantissa << (KEPT - 23), c.mantissa ? most - c.exponent : 0);
                for (int k = 0; k < K; k++)
                    if (product[k]) sum += cut(product[k] << (KEPT - 2 * FRACTION), most - a[k].exponent - b[k].exponent);
                int bits = 0;
                for (i64 v = sum < 0 ? -sum : sum; v; v >>= 1) bits++;
                const int unit = max(bits - 24, -149 - (most - KEPT));
                const int drop = max(unit, 0);
                found = (float)std::ldexp((double)cut(sum, drop), most - KEPT + drop);
            }
            std::memcpy(&d[t][i], &found, 4);
        }
}
template <Element E, int N> struct Mma {
    template <int TA = 0, int TB = 0> static void run(float (&d)[N / 2], u64 a, u64 b, int add) {
        static_assert(E != TF32 || !(TA || TB), "a transposed matrix of tf32");
        begin_mma(d, N / 2, a, b, add, multiply_floats<E, N, TA, TB>);
    }
};
template <Element E, int N> struct MmaHeld {
    static void run(float (&d)[N / 2], const u32 (&a)[4], u64 b, int add) { begin_mma(d, N / 2, 0, b, add, multiply_floats<E, N>, a); }
};
template <int N> struct Mma<BYTE, N> {
    static void run(u32 (&d)[N / 2], u64 a, u64 b, int add) {
        begin_mma(d, N / 2, a, b, add, [](const Wgmma &x, u32 *const (&d)[128]) {
            static signed char A[64][32], B[N][32];
            auto read = [](u64 from, int row, signed char *to) {
                u32 v[8];
                row_of_operand(from, row, v);
                std::memcpy(to, v, 32);
            };
            for (int r = 0; r < 64; r++) read(x.a, r, A[r]);
            for (int r = 0; r < N; r++) read(x.b, r, B[r]);
            for (int t = 0; t < 128; t++)
                for (int i = 0; i < N / 2; i++) {
                    u32 sum = x.add ? d[t][i] : 0;
                    for (int k = 0; k < 32; k++) sum += (u32)(A[row_of(t, i)][k] * B[column_of(t, i)][k]);
                    d[t][i] = sum;
                }
        });
    }
};

} // namespace tile
