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

// The quotient rounded down, from the exact remainder, as Python and NumPy define it.
__device__ float floor_divide(float a, float b) {
  if (b == 0.0f) return a / b;
  const float rest = fmodf(a, b);
  const float q = (a - rest) / b;
  const float low = rest != 0.0f && (b < 0.0f) != (rest < 0.0f) ? q - 1.0f : q;
  if (low == 0.0f) return copysignf(0.0f, a / b);
  const float down = floorf(low);
  return low - down > 0.5f ? down + 1.0f : down;
}

// The exact remainder with the sign of b; NaN for b = 0.
__device__ float floor_remainder(float a, float b) {
  const float rest = fmodf(a, b);
  if (rest == 0.0f) return copysignf(0.0f, b);
  return (b < 0.0f) != (rest < 0.0f) ? rest + b : rest;
}

// The smaller; NaN if one of them is.
__device__ __forceinline__ float minimum(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a != a || b != b ? a + b : fminf(a, b);
#endif
}

// The larger; NaN if one of them is.
__device__ __forceinline__ float maximum(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a != a || b != b ? a + b : fmaxf(a, b);
#endif
}

// −1, 0 or 1; NaN for NaN.
__device__ __forceinline__ float sign(float x) {
  if (x != x) return x;
  if (x > 0.0f) return 1.0f;
  return x < 0.0f ? -1.0f : 0.0f;
}

template <class T>
__device__ __forceinline__ T from_bits(unsigned short bits) {
  T x;
  x.bits = bits;
  return x;
}

// The neighbour of a towards b, computed on the bit pattern.
__device__ __forceinline__ float16 nextafter(float16 a, float16 b) {
  if (a != a || b != b) return float16(a + b);
  if (a == b) return b;
  const bool up = a < b;
  return from_bits<float16>(a == 0.0f ? (up ? 1 : 32769) : up != (a > 0.0f)
      ? (uint16)(a.bits - 1) : (uint16)(a.bits + 1));
}

// A float towards zero as int64, held within the range; 0 of NaN.
__device__ __forceinline__ int64 to_int64(float x) {
  return x != x ? 0 : __float2ll_rz(x);
}

// A float towards zero as uint64, held within the range; 0 of NaN.
__device__ __forceinline__ uint64 to_uint64(float x) {
  return x != x ? 0ull : __float2ull_rz(x);
}

extern "C" __global__ void __launch_bounds__(256)
catalogue_float16(const float16* __restrict__ as, const float16* __restrict__ bs,
                  const float16* __restrict__ cs, const bool* __restrict__ ps,
                  float16* __restrict__ add_of, float16* __restrict__ subtract_of,
                  float16* __restrict__ multiply_of, float16* __restrict__ true_divide_of,
                  float16* __restrict__ floor_divide_of, float16* __restrict__ remainder_of,
                  float16* __restrict__ quot_of, float16* __restrict__ rem_of,
                  float16* __restrict__ power_of, float16* __restrict__ fma_of,
                  float16* __restrict__ minimum_of, float16* __restrict__ maximum_of,
                  float16* __restrict__ fmin_of, float16* __restrict__ fmax_of,
                  float16* __restrict__ negative_of, float16* __restrict__ absolute_of,
                  float16* __restrict__ sign_of, bool* __restrict__ equal_of,
                  bool* __restrict__ not_equal_of, bool* __restrict__ less_of,
                  bool* __restrict__ less_equal_of, bool* __restrict__ greater_of,
                  bool* __restrict__ greater_equal_of, float16* __restrict__ sqrt_of,
                  float16* __restrict__ exp_of, float16* __restrict__ log_of,
                  float16* __restrict__ sin_of, float16* __restrict__ cos_of,
                  float16* __restrict__ tan_of, float16* __restrict__ arcsin_of,
                  float16* __restrict__ arccos_of, float16* __restrict__ arctan_of,
                  float16* __restrict__ sinh_of, float16* __restrict__ cosh_of,
                  float16* __restrict__ tanh_of, float16* __restrict__ arcsinh_of,
                  float16* __restrict__ arccosh_of, float16* __restrict__ arctanh_of,
                  float16* __restrict__ exp2_of, float16* __restrict__ expm1_of,
                  float16* __restrict__ log2_of, float16* __restrict__ log10_of,
                  float16* __restrict__ log1p_of, float16* __restrict__ cbrt_of,
                  float16* __restrict__ erf_of, float16* __restrict__ erfc_of,
                  float16* __restrict__ arctan2_of, float16* __restrict__ hypot_of,
                  float16* __restrict__ fmod_of, float16* __restrict__ copysign_of,
                  float16* __restrict__ nextafter_of, float16* __restrict__ floor_of,
                  float16* __restrict__ ceil_of, float16* __restrict__ trunc_of,
                  float16* __restrict__ rint_of, bool* __restrict__ isnan_of,
                  bool* __restrict__ isinf_of, bool* __restrict__ isfinite_of,
                  bool* __restrict__ signbit_of, float16* __restrict__ real_of,
                  float16* __restrict__ imag_of, float16* __restrict__ conjugate_of,
                  float16* __restrict__ select_of, bool* __restrict__ cast_bool,
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
  const float16 a = as[i];
  const float16 b = bs[i];
  const float16 c = cs[i];
  const bool p = ps[i];
  add_of[i] = float16(a + b);
  subtract_of[i] = float16(a - b);
  multiply_of[i] = float16(a * b);
  true_divide_of[i] = float16(a / b);
  floor_divide_of[i] = float16(floor_divide((float)a, (float)b));
  remainder_of[i] = float16(floor_remainder((float)a, (float)b));
  quot_of[i] = float16(truncf(a / b));
  rem_of[i] = float16(fmodf(a, b));
  power_of[i] = float16(powf(a, b));
  fma_of[i] = float16(fmaf(a, b, c));
  minimum_of[i] = float16(minimum((float)a, (float)b));
  maximum_of[i] = float16(maximum((float)a, (float)b));
  fmin_of[i] = float16(fminf(a, b));
  fmax_of[i] = float16(fmaxf(a, b));
  negative_of[i] = float16(-a);
  absolute_of[i] = float16(fabsf(a));
  sign_of[i] = float16(sign((float)a));
  equal_of[i] = a == b;
  not_equal_of[i] = a != b;
  less_of[i] = a < b;
  less_equal_of[i] = a <= b;
  greater_of[i] = a > b;
  greater_equal_of[i] = a >= b;
  sqrt_of[i] = float16(sqrtf(a));
  exp_of[i] = float16(expf(a));
  log_of[i] = float16(logf(a));
  sin_of[i] = float16(sinf(a));
  cos_of[i] = float16(cosf(a));
  tan_of[i] = float16(tanf(a));
  arcsin_of[i] = float16(asinf(a));
  arccos_of[i] = float16(acosf(a));
  arctan_of[i] = float16(atanf(a));
  sinh_of[i] = float16(sinhf(a));
  cosh_of[i] = float16(coshf(a));
  tanh_of[i] = float16(tanhf(a));
  arcsinh_of[i] = float16(asinhf(a));
  arccosh_of[i] = float16(acoshf(a));
  arctanh_of[i] = float16(atanhf(a));
  exp2_of[i] = float16(exp2f(a));
  expm1_of[i] = float16(expm1f(a));
  log2_of[i] = float16(log2f(a));
  log10_of[i] = float16(log10f(a));
  log1p_of[i] = float16(log1pf(a));
  cbrt_of[i] = float16(cbrtf(a));
  erf_of[i] = float16(erff(a));
  erfc_of[i] = float16(erfcf(a));
  arctan2_of[i] = float16(atan2f(a, b));
  hypot_of[i] = float16(hypotf(a, b));
  fmod_of[i] = float16(fmodf(a, b));
  copysign_of[i] = float16(copysignf(a, b));
  nextafter_of[i] = nextafter(a, b);
  floor_of[i] = float16(floorf(a));
  ceil_of[i] = float16(ceilf(a));
  trunc_of[i] = float16(truncf(a));
  rint_of[i] = float16(rintf(a));
  isnan_of[i] = isnan((float)a);
  isinf_of[i] = isinf((float)a);
  isfinite_of[i] = isfinite((float)a);
  signbit_of[i] = signbit((float)a);
  real_of[i] = a;
  imag_of[i] = float16(0.0f);
  conjugate_of[i] = a;
  select_of[i] = p ? a : b;
  cast_bool[i] = a != 0.0f;
  cast_int8[i] = (int8)min(max(__float2int_rz((float)a), -128), 127);
  cast_int16[i] = (int16)min(max(__float2int_rz((float)a), -32768), 32767);
  cast_int32[i] = __float2int_rz((float)a);
  cast_int64[i] = to_int64((float)a);
  cast_uint8[i] = (uint8)min(max(__float2int_rz((float)a), 0), 255);
  cast_uint16[i] = (uint16)min(max(__float2int_rz((float)a), 0), 65535);
  cast_uint32[i] = __float2uint_rz((float)a);
  cast_uint64[i] = to_uint64((float)a);
  cast_float16[i] = a;
  cast_bfloat16[i] = bfloat16((float)a);
  cast_float32[i] = (float)a;
  cast_float64[i] = (double)a;
  cast_complex64[i] = complex64((float)a, 0.0f);
  cast_complex128[i] = complex128((double)a, 0.0);
}
