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
__device__ double floor_divide(double a, double b) {
  if (b == 0.0) return a / b;
  const double rest = fmod(a, b);
  const double q = (a - rest) / b;
  const double low = rest != 0.0 && (b < 0.0) != (rest < 0.0) ? q - 1.0 : q;
  if (low == 0.0) return copysign(0.0, a / b);
  const double down = floor(low);
  return low - down > 0.5 ? down + 1.0 : down;
}

// The exact remainder with the sign of b; NaN for b = 0.
__device__ double floor_remainder(double a, double b) {
  const double rest = fmod(a, b);
  if (rest == 0.0) return copysign(0.0, b);
  return (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}

// The smaller; NaN if one of them is.
__device__ __forceinline__ double minimum(double a, double b) {
  return a != a || b != b ? a + b : fmin(a, b);
}

// The larger; NaN if one of them is.
__device__ __forceinline__ double maximum(double a, double b) {
  return a != a || b != b ? a + b : fmax(a, b);
}

// −1, 0 or 1; NaN for NaN.
__device__ __forceinline__ double sign(double x) {
  if (x != x) return x;
  if (x > 0.0) return 1.0;
  return x < 0.0 ? -1.0 : 0.0;
}

// A float towards zero as int32, held within the range; 0 of NaN.
__device__ __forceinline__ int to_int32(double x) {
  return x != x ? 0 : __double2int_rz(x);
}

// A float towards zero as int64, held within the range; 0 of NaN.
__device__ __forceinline__ int64 to_int64(double x) {
  return x != x ? 0 : __double2ll_rz(x);
}

// A float towards zero as uint32, held within the range; 0 of NaN.
__device__ __forceinline__ uint32 to_uint32(double x) {
  return x != x ? 0u : __double2uint_rz(x);
}

// A float towards zero as uint64, held within the range; 0 of NaN.
__device__ __forceinline__ uint64 to_uint64(double x) {
  return x != x ? 0ull : __double2ull_rz(x);
}

extern "C" __global__ void __launch_bounds__(256)
catalogue_float64(const double* __restrict__ as, const double* __restrict__ bs,
                  const double* __restrict__ cs, const bool* __restrict__ ps,
                  double* __restrict__ add_of, double* __restrict__ subtract_of,
                  double* __restrict__ multiply_of, double* __restrict__ true_divide_of,
                  double* __restrict__ floor_divide_of, double* __restrict__ remainder_of,
                  double* __restrict__ quot_of, double* __restrict__ rem_of,
                  double* __restrict__ power_of, double* __restrict__ fma_of,
                  double* __restrict__ minimum_of, double* __restrict__ maximum_of,
                  double* __restrict__ fmin_of, double* __restrict__ fmax_of,
                  double* __restrict__ negative_of, double* __restrict__ absolute_of,
                  double* __restrict__ sign_of, bool* __restrict__ equal_of,
                  bool* __restrict__ not_equal_of, bool* __restrict__ less_of,
                  bool* __restrict__ less_equal_of, bool* __restrict__ greater_of,
                  bool* __restrict__ greater_equal_of, double* __restrict__ sqrt_of,
                  double* __restrict__ exp_of, double* __restrict__ log_of,
                  double* __restrict__ sin_of, double* __restrict__ cos_of,
                  double* __restrict__ tan_of, double* __restrict__ arcsin_of,
                  double* __restrict__ arccos_of, double* __restrict__ arctan_of,
                  double* __restrict__ sinh_of, double* __restrict__ cosh_of,
                  double* __restrict__ tanh_of, double* __restrict__ arcsinh_of,
                  double* __restrict__ arccosh_of, double* __restrict__ arctanh_of,
                  double* __restrict__ exp2_of, double* __restrict__ expm1_of,
                  double* __restrict__ log2_of, double* __restrict__ log10_of,
                  double* __restrict__ log1p_of, double* __restrict__ cbrt_of,
                  double* __restrict__ erf_of, double* __restrict__ erfc_of,
                  double* __restrict__ arctan2_of, double* __restrict__ hypot_of,
                  double* __restrict__ fmod_of, double* __restrict__ copysign_of,
                  double* __restrict__ nextafter_of, double* __restrict__ floor_of,
                  double* __restrict__ ceil_of, double* __restrict__ trunc_of,
                  double* __restrict__ rint_of, bool* __restrict__ isnan_of,
                  bool* __restrict__ isinf_of, bool* __restrict__ isfinite_of,
                  bool* __restrict__ signbit_of, double* __restrict__ real_of,
                  double* __restrict__ imag_of, double* __restrict__ conjugate_of,
                  double* __restrict__ select_of, bool* __restrict__ cast_bool,
                  int8* __restrict__ cast_int8, int16* __restrict__ cast_int16,
                  int* __restrict__ cast_int32, int64* __restrict__ cast_int64,
                  uint8* __restrict__ cast_uint8, uint16* __restrict__ cast_uint16,
                  uint32* __restrict__ cast_uint32, uint64* __restrict__ cast_uint64,
                  float16* __restrict__ cast_float16, bfloat16* __restrict__ cast_bfloat16,
                  float* __restrict__ cast_float32, double* __restrict__ cast_float64,
                  complex64* __restrict__ cast_complex64,
                  complex128* __restrict__ cast_complex128, complex128* __restrict__ complex_of) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const double a = as[i];
  const double b = bs[i];
  const double c = cs[i];
  const bool p = ps[i];
  add_of[i] = a + b;
  subtract_of[i] = a - b;
  multiply_of[i] = a * b;
  true_divide_of[i] = a / b;
  floor_divide_of[i] = floor_divide(a, b);
  remainder_of[i] = floor_remainder(a, b);
  quot_of[i] = trunc(a / b);
  rem_of[i] = fmod(a, b);
  power_of[i] = pow(a, b);
  fma_of[i] = fma(a, b, c);
  minimum_of[i] = minimum(a, b);
  maximum_of[i] = maximum(a, b);
  fmin_of[i] = fmin(a, b);
  fmax_of[i] = fmax(a, b);
  negative_of[i] = -a;
  absolute_of[i] = fabs(a);
  sign_of[i] = sign(a);
  equal_of[i] = a == b;
  not_equal_of[i] = a != b;
  less_of[i] = a < b;
  less_equal_of[i] = a <= b;
  greater_of[i] = a > b;
  greater_equal_of[i] = a >= b;
  sqrt_of[i] = sqrt(a);
  exp_of[i] = exp(a);
  log_of[i] = log(a);
  sin_of[i] = sin(a);
  cos_of[i] = cos(a);
  tan_of[i] = tan(a);
  arcsin_of[i] = asin(a);
  arccos_of[i] = acos(a);
  arctan_of[i] = atan(a);
  sinh_of[i] = sinh(a);
  cosh_of[i] = cosh(a);
  tanh_of[i] = tanh(a);
  arcsinh_of[i] = asinh(a);
  arccosh_of[i] = acosh(a);
  arctanh_of[i] = atanh(a);
  exp2_of[i] = exp2(a);
  expm1_of[i] = expm1(a);
  log2_of[i] = log2(a);
  log10_of[i] = log10(a);
  log1p_of[i] = log1p(a);
  cbrt_of[i] = cbrt(a);
  erf_of[i] = erf(a);
  erfc_of[i] = erfc(a);
  arctan2_of[i] = atan2(a, b);
  hypot_of[i] = hypot(a, b);
  fmod_of[i] = fmod(a, b);
  copysign_of[i] = copysign(a, b);
  nextafter_of[i] = nextafter(a, b);
  floor_of[i] = floor(a);
  ceil_of[i] = ceil(a);
  trunc_of[i] = trunc(a);
  rint_of[i] = rint(a);
  isnan_of[i] = a != a;
  isinf_of[i] = isinf(a);
  isfinite_of[i] = isfinite(a);
  signbit_of[i] = signbit(a);
  real_of[i] = a;
  imag_of[i] = 0.0;
  conjugate_of[i] = a;
  select_of[i] = p ? a : b;
  cast_bool[i] = a != 0.0;
  cast_int8[i] = (int8)min(max(to_int32(a), -128), 127);
  cast_int16[i] = (int16)min(max(to_int32(a), -32768), 32767);
  cast_int32[i] = to_int32(a);
  cast_int64[i] = to_int64(a);
  cast_uint8[i] = (uint8)min(max(to_int32(a), 0), 255);
  cast_uint16[i] = (uint16)min(max(to_int32(a), 0), 65535);
  cast_uint32[i] = to_uint32(a);
  cast_uint64[i] = to_uint64(a);
  cast_float16[i] = float16(a);
  cast_bfloat16[i] = bfloat16((float)a);
  cast_float32[i] = (float)a;
  cast_float64[i] = a;
  cast_complex64[i] = complex64((float)a, 0.0f);
  cast_complex128[i] = complex128(a, 0.0);
  complex_of[i] = complex128(a, b);
}
