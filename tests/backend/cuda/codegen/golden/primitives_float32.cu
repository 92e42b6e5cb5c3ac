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

// A float towards zero as int64, held within the range; 0 of NaN.
__device__ __forceinline__ int64 to_int64(float x) {
  return x != x ? 0 : __float2ll_rz(x);
}

// A float towards zero as uint64, held within the range; 0 of NaN.
__device__ __forceinline__ uint64 to_uint64(float x) {
  return x != x ? 0ull : __float2ull_rz(x);
}

extern "C" __global__ void __launch_bounds__(256)
catalogue_float32(const float* __restrict__ as, const float* __restrict__ bs,
                  const float* __restrict__ cs, const bool* __restrict__ ps,
                  float* __restrict__ add_of, float* __restrict__ subtract_of,
                  float* __restrict__ multiply_of, float* __restrict__ true_divide_of,
                  float* __restrict__ floor_divide_of, float* __restrict__ remainder_of,
                  float* __restrict__ quot_of, float* __restrict__ rem_of,
                  float* __restrict__ power_of, float* __restrict__ fma_of,
                  float* __restrict__ minimum_of, float* __restrict__ maximum_of,
                  float* __restrict__ fmin_of, float* __restrict__ fmax_of,
                  float* __restrict__ negative_of, float* __restrict__ absolute_of,
                  float* __restrict__ sign_of, bool* __restrict__ equal_of,
                  bool* __restrict__ not_equal_of, bool* __restrict__ less_of,
                  bool* __restrict__ less_equal_of, bool* __restrict__ greater_of,
                  bool* __restrict__ greater_equal_of, float* __restrict__ sqrt_of,
                  float* __restrict__ exp_of, float* __restrict__ log_of,
                  float* __restrict__ sin_of, float* __restrict__ cos_of,
                  float* __restrict__ tan_of, float* __restrict__ arcsin_of,
                  float* __restrict__ arccos_of, float* __restrict__ arctan_of,
                  float* __restrict__ sinh_of, float* __restrict__ cosh_of,
                  float* __restrict__ tanh_of, float* __restrict__ arcsinh_of,
                  float* __restrict__ arccosh_of, float* __restrict__ arctanh_of,
                  float* __restrict__ exp2_of, float* __restrict__ expm1_of,
                  float* __restrict__ log2_of, float* __restrict__ log10_of,
                  float* __restrict__ log1p_of, float* __restrict__ cbrt_of,
                  float* __restrict__ erf_of, float* __restrict__ erfc_of,
                  float* __restrict__ arctan2_of, float* __restrict__ hypot_of,
                  float* __restrict__ fmod_of, float* __restrict__ copysign_of,
                  float* __restrict__ nextafter_of, float* __restrict__ floor_of,
                  float* __restrict__ ceil_of, float* __restrict__ trunc_of,
                  float* __restrict__ rint_of, bool* __restrict__ isnan_of,
                  bool* __restrict__ isinf_of, bool* __restrict__ isfinite_of,
                  bool* __restrict__ signbit_of, float* __restrict__ real_of,
                  float* __restrict__ imag_of, float* __restrict__ conjugate_of,
                  float* __restrict__ select_of, bool* __restrict__ cast_bool,
                  int8* __restrict__ cast_int8, int16* __restrict__ cast_int16,
                  int* __restrict__ cast_int32, int64* __restrict__ cast_int64,
                  uint8* __restrict__ cast_uint8, uint16* __restrict__ cast_uint16,
                  uint32* __restrict__ cast_uint32, uint64* __restrict__ cast_uint64,
                  float16* __restrict__ cast_float16, bfloat16* __restrict__ cast_bfloat16,
                  float* __restrict__ cast_float32, double* __restrict__ cast_float64,
                  complex64* __restrict__ cast_complex64,
                  complex128* __restrict__ cast_complex128, complex64* __restrict__ complex_of) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const float a = as[i];
  const float b = bs[i];
  const float c = cs[i];
  const bool p = ps[i];
  add_of[i] = a + b;
  subtract_of[i] = a - b;
  multiply_of[i] = a * b;
  true_divide_of[i] = a / b;
  floor_divide_of[i] = floor_divide(a, b);
  remainder_of[i] = floor_remainder(a, b);
  quot_of[i] = truncf(a / b);
  rem_of[i] = fmodf(a, b);
  power_of[i] = powf(a, b);
  fma_of[i] = fmaf(a, b, c);
  minimum_of[i] = minimum(a, b);
  maximum_of[i] = maximum(a, b);
  fmin_of[i] = fminf(a, b);
  fmax_of[i] = fmaxf(a, b);
  negative_of[i] = -a;
  absolute_of[i] = fabsf(a);
  sign_of[i] = sign(a);
  equal_of[i] = a == b;
  not_equal_of[i] = a != b;
  less_of[i] = a < b;
  less_equal_of[i] = a <= b;
  greater_of[i] = a > b;
  greater_equal_of[i] = a >= b;
  sqrt_of[i] = sqrtf(a);
  exp_of[i] = expf(a);
  log_of[i] = logf(a);
  sin_of[i] = sinf(a);
  cos_of[i] = cosf(a);
  tan_of[i] = tanf(a);
  arcsin_of[i] = asinf(a);
  arccos_of[i] = acosf(a);
  arctan_of[i] = atanf(a);
  sinh_of[i] = sinhf(a);
  cosh_of[i] = coshf(a);
  tanh_of[i] = tanhf(a);
  arcsinh_of[i] = asinhf(a);
  arccosh_of[i] = acoshf(a);
  arctanh_of[i] = atanhf(a);
  exp2_of[i] = exp2f(a);
  expm1_of[i] = expm1f(a);
  log2_of[i] = log2f(a);
  log10_of[i] = log10f(a);
  log1p_of[i] = log1pf(a);
  cbrt_of[i] = cbrtf(a);
  erf_of[i] = erff(a);
  erfc_of[i] = erfcf(a);
  arctan2_of[i] = atan2f(a, b);
  hypot_of[i] = hypotf(a, b);
  fmod_of[i] = fmodf(a, b);
  copysign_of[i] = copysignf(a, b);
  nextafter_of[i] = nextafterf(a, b);
  floor_of[i] = floorf(a);
  ceil_of[i] = ceilf(a);
  trunc_of[i] = truncf(a);
  rint_of[i] = rintf(a);
  isnan_of[i] = a != a;
  isinf_of[i] = isinf(a);
  isfinite_of[i] = isfinite(a);
  signbit_of[i] = signbit(a);
  real_of[i] = a;
  imag_of[i] = 0.0f;
  conjugate_of[i] = a;
  select_of[i] = p ? a : b;
  cast_bool[i] = a != 0.0f;
  cast_int8[i] = (int8)min(max(__float2int_rz(a), -128), 127);
  cast_int16[i] = (int16)min(max(__float2int_rz(a), -32768), 32767);
  cast_int32[i] = __float2int_rz(a);
  cast_int64[i] = to_int64(a);
  cast_uint8[i] = (uint8)min(max(__float2int_rz(a), 0), 255);
  cast_uint16[i] = (uint16)min(max(__float2int_rz(a), 0), 65535);
  cast_uint32[i] = __float2uint_rz(a);
  cast_uint64[i] = to_uint64(a);
  cast_float16[i] = float16(a);
  cast_bfloat16[i] = bfloat16(a);
  cast_float32[i] = a;
  cast_float64[i] = (double)a;
  cast_complex64[i] = complex64(a, 0.0f);
  cast_complex128[i] = complex128((double)a, 0.0);
  complex_of[i] = complex64(a, b);
}
