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

// a / b rounded down, as Python does it; 0 for b = 0, and the lowest a by -1 wraps.
__device__ __forceinline__ int64 floor_divide(int64 a, int64 b) {
  if (b == 0) return 0;
  if (b == -1) return (int64)-(uint64)a;
  const int64 q = a / b;
  const int64 rest = (int64)(a - (uint64)q * b);
  return rest != 0 && (rest ^ b) < 0 ? (int64)(q - 1ull) : q;
}

// a modulo b with the sign of b, as Python does it; 0 for b = 0.
__device__ __forceinline__ int64 floor_remainder(int64 a, int64 b) {
  if (b == 0 || b == -1) return 0;
  const int64 rest = a % b;
  return rest != 0 && (rest ^ b) < 0 ? (int64)((uint64)rest + b) : rest;
}

// a / b towards zero; 0 for b = 0, and the lowest a by -1 wraps.
__device__ __forceinline__ int64 quot(int64 a, int64 b) {
  if (b == 0) return 0;
  return b == -1 ? (int64)-(uint64)a : a / b;
}

// a − b · quot(a, b); 0 for b = 0.
__device__ __forceinline__ int64 rem(int64 a, int64 b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

// a to the power b, wrapping, for b >= 0.
template <class T>
__device__ __forceinline__ T natural_power(T a, T b) {
  uint64 result = 1, square = uint64(a);
  for (uint64 left = uint64(b); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return T(result);
}

// a to the power b, wrapping; negative powers are 0 except for those of 1 and −1.
__device__ __forceinline__ int64 power(int64 a, int64 b) {
  return b < 0 ? (a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0)
      : natural_power(a, max(b, 0ll));
}

// |a|; the lowest number maps to itself.
__device__ __forceinline__ int64 absolute(int64 a) {
  return a < 0 ? (int64)-(uint64)a : a;
}

__device__ __forceinline__ int64 sign(int64 a) {
  return (a >> 63) | (int64)(a != 0);
}

// a << b; 0 when b is negative or not less than the width.
__device__ __forceinline__ int64 shift_left(int64 a, int64 b) {
  return (uint64)b < 64ull ? a << b : 0;
}

// a >> b; the sign of a (0 for unsigned) when b is negative or not less than the width.
__device__ __forceinline__ int64 shift_right(int64 a, int64 b) {
  return a >> (int64)min((uint64)b, 63ull);
}

extern "C" __global__ void __launch_bounds__(256)
catalogue_int64(const int64* __restrict__ as, const int64* __restrict__ bs,
                const int64* __restrict__ cs, const bool* __restrict__ ps,
                int64* __restrict__ add_of, int64* __restrict__ subtract_of,
                int64* __restrict__ multiply_of, int64* __restrict__ floor_divide_of,
                int64* __restrict__ remainder_of, int64* __restrict__ quot_of,
                int64* __restrict__ rem_of, int64* __restrict__ power_of,
                int64* __restrict__ fma_of, int64* __restrict__ minimum_of,
                int64* __restrict__ maximum_of, int64* __restrict__ fmin_of,
                int64* __restrict__ fmax_of, int64* __restrict__ negative_of,
                int64* __restrict__ absolute_of, int64* __restrict__ sign_of,
                bool* __restrict__ equal_of, bool* __restrict__ not_equal_of,
                bool* __restrict__ less_of, bool* __restrict__ less_equal_of,
                bool* __restrict__ greater_of, bool* __restrict__ greater_equal_of,
                int64* __restrict__ bitwise_and_of, int64* __restrict__ bitwise_or_of,
                int64* __restrict__ bitwise_xor_of, int64* __restrict__ invert_of,
                int64* __restrict__ left_shift_of, int64* __restrict__ right_shift_of,
                int* __restrict__ popcount_of, int* __restrict__ clz_of, int* __restrict__ ctz_of,
                int64* __restrict__ fmod_of, int64* __restrict__ floor_of,
                int64* __restrict__ ceil_of, int64* __restrict__ trunc_of,
                int64* __restrict__ rint_of, bool* __restrict__ isnan_of,
                bool* __restrict__ isinf_of, bool* __restrict__ isfinite_of,
                bool* __restrict__ signbit_of, int64* __restrict__ real_of,
                int64* __restrict__ imag_of, int64* __restrict__ conjugate_of,
                int64* __restrict__ select_of, bool* __restrict__ cast_bool,
                int8* __restrict__ cast_int8, int16* __restrict__ cast_int16,
                int* __restrict__ cast_int32, int64* __restrict__ cast_int64,
                uint8* __restrict__ cast_uint8, uint16* __restrict__ cast_uint16,
                uint32* __restrict__ cast_uint32, uint64* __restrict__ cast_uint64,
                float16* __restrict__ cast_float16, bfloat16* __restrict__ cast_bfloat16,
                float* __restrict__ cast_float32, double* __restrict__ cast_float64,
                complex64* __restrict__ cast_complex64,
                complex128* __restrict__ cast_complex128) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int64 a = as[i];
  const int64 b = bs[i];
  const int64 c = cs[i];
  const bool p = ps[i];
  add_of[i] = (uint64)a + b;
  subtract_of[i] = (uint64)a - b;
  multiply_of[i] = (uint64)a * b;
  floor_divide_of[i] = floor_divide(a, b);
  remainder_of[i] = floor_remainder(a, b);
  quot_of[i] = quot(a, b);
  rem_of[i] = rem(a, b);
  power_of[i] = power(a, b);
  fma_of[i] = (uint64)a * b + c;
  minimum_of[i] = min(a, b);
  maximum_of[i] = max(a, b);
  fmin_of[i] = min(a, b);
  fmax_of[i] = max(a, b);
  negative_of[i] = (int64)-(uint64)a;
  absolute_of[i] = absolute(a);
  sign_of[i] = sign(a);
  equal_of[i] = a == b;
  not_equal_of[i] = a != b;
  less_of[i] = a < b;
  less_equal_of[i] = a <= b;
  greater_of[i] = a > b;
  greater_equal_of[i] = a >= b;
  bitwise_and_of[i] = a & b;
  bitwise_or_of[i] = a | b;
  bitwise_xor_of[i] = a ^ b;
  invert_of[i] = ~a;
  left_shift_of[i] = shift_left(a, b);
  right_shift_of[i] = shift_right(a, b);
  popcount_of[i] = __popcll(a);
  clz_of[i] = __clzll(a);
  ctz_of[i] = __clzll(__brevll(a));
  fmod_of[i] = rem(a, b);
  floor_of[i] = a;
  ceil_of[i] = a;
  trunc_of[i] = a;
  rint_of[i] = a;
  isnan_of[i] = false;
  isinf_of[i] = false;
  isfinite_of[i] = true;
  signbit_of[i] = a < 0;
  real_of[i] = a;
  imag_of[i] = 0;
  conjugate_of[i] = a;
  select_of[i] = p ? a : b;
  cast_bool[i] = a != 0;
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
