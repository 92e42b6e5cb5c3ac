using int8 = signed char;
using int16 = short;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

// A half-precision number: computes as float, rounds to nearest even where it is made.
struct float16 {
  unsigned short bits;
  float16() = default;
  __device__ __forceinline__ explicit float16(float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  }
  __device__ __forceinline__ explicit float16(double x) {
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
  }
  __device__ __forceinline__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};

// The upper half of a float: computes as float, rounds to nearest even where it is made.
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  __device__ __forceinline__ explicit bfloat16(float x) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    const unsigned u = __float_as_uint(x);
    bits = (x != x ? 0x7fff0000u : u + 0x7fff + (u >> 16 & 1)) >> 16;
#endif
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float(bits << 16); }
};

template <class T>
struct alignas(2 * sizeof(T)) complex {
  T real, imag;
  complex() = default;
  __device__ __forceinline__ complex(T r, T i) : real(r), imag(i) {}
  template <class U>
  __device__ __forceinline__ explicit complex(complex<U> z) : real(z.real), imag(z.imag) {}
};

using complex64 = complex<float>;

using complex128 = complex<double>;

extern "C" __global__ void __launch_bounds__(256)
catalogue_bool(const bool* __restrict__ as, const bool* __restrict__ bs,
               const bool* __restrict__ cs, const bool* __restrict__ ps,
               bool* __restrict__ add_of, bool* __restrict__ multiply_of,
               bool* __restrict__ minimum_of, bool* __restrict__ maximum_of,
               bool* __restrict__ fmin_of, bool* __restrict__ fmax_of,
               bool* __restrict__ absolute_of, bool* __restrict__ equal_of,
               bool* __restrict__ not_equal_of, bool* __restrict__ less_of,
               bool* __restrict__ less_equal_of, bool* __restrict__ greater_of,
               bool* __restrict__ greater_equal_of, bool* __restrict__ logical_and_of,
               bool* __restrict__ logical_or_of, bool* __restrict__ logical_xor_of,
               bool* __restrict__ logical_not_of, bool* __restrict__ bitwise_and_of,
               bool* __restrict__ bitwise_or_of, bool* __restrict__ bitwise_xor_of,
               bool* __restrict__ invert_of, bool* __restrict__ floor_of,
               bool* __restrict__ ceil_of, bool* __restrict__ trunc_of,
               bool* __restrict__ rint_of, bool* __restrict__ isnan_of,
               bool* __restrict__ isinf_of, bool* __restrict__ isfinite_of,
               bool* __restrict__ signbit_of, bool* __restrict__ real_of,
               bool* __restrict__ imag_of, bool* __restrict__ select_of,
               bool* __restrict__ cast_bool, int8* __restrict__ cast_int8,
               int16* __restrict__ cast_int16, int* __restrict__ cast_int32,
               int64* __restrict__ cast_int64, uint8* __restrict__ cast_uint8,
               uint16* __restrict__ cast_uint16, uint32* __restrict__ cast_uint32,
               uint64* __restrict__ cast_uint64, float16* __restrict__ cast_float16,
               bfloat16* __restrict__ cast_bfloat16, float* __restrict__ cast_float32,
               double* __restrict__ cast_float64, complex64* __restrict__ cast_complex64,
               complex128* __restrict__ cast_complex128) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const bool a = as[i];
  const bool b = bs[i];
  const bool c = cs[i];
  const bool p = ps[i];
  add_of[i] = a || b;
  multiply_of[i] = a && b;
  minimum_of[i] = a && b;
  maximum_of[i] = a || b;
  fmin_of[i] = a && b;
  fmax_of[i] = a || b;
  absolute_of[i] = a;
  equal_of[i] = a == b;
  not_equal_of[i] = a != b;
  less_of[i] = a < b;
  less_equal_of[i] = a <= b;
  greater_of[i] = a > b;
  greater_equal_of[i] = a >= b;
  logical_and_of[i] = a && b;
  logical_or_of[i] = a || b;
  logical_xor_of[i] = a != b;
  logical_not_of[i] = !a;
  bitwise_and_of[i] = a && b;
  bitwise_or_of[i] = a || b;
  bitwise_xor_of[i] = a != b;
  invert_of[i] = !a;
  floor_of[i] = a;
  ceil_of[i] = a;
  trunc_of[i] = a;
  rint_of[i] = a;
  isnan_of[i] = false;
  isinf_of[i] = false;
  isfinite_of[i] = true;
  signbit_of[i] = false;
  real_of[i] = a;
  imag_of[i] = false;
  select_of[i] = p ? a : b;
  cast_bool[i] = a;
  cast_int8[i] = a;
  cast_int16[i] = a;
  cast_int32[i] = a;
  cast_int64[i] = a;
  cast_uint8[i] = a;
  cast_uint16[i] = a;
  cast_uint32[i] = a;
  cast_uint64[i] = a;
  cast_float16[i] = float16((float)a);
  cast_bfloat16[i] = bfloat16((float)a);
  cast_float32[i] = (float)a;
  cast_float64[i] = (double)a;
  cast_complex64[i] = complex64((float)a, 0.0f);
  cast_complex128[i] = complex128((double)a, 0.0);
}
