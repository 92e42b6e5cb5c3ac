using int8 = signed char;
using int16 = short;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

template <class T>
struct alignas(2 * sizeof(T)) complex {
  T real, imag;
  complex() = default;
  __device__ __forceinline__ complex(T r, T i) : real(r), imag(i) {}
  template <class U>
  __device__ __forceinline__ explicit complex(complex<U> z) : real(z.real), imag(z.imag) {}
};

using complex64 = complex<float>;

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

using complex128 = complex<double>;

__device__ __forceinline__ complex64 operator+(complex64 z, complex64 w) {
  return complex64(z.real + w.real, z.imag + w.imag);
}

__device__ __forceinline__ complex64 operator-(complex64 z, complex64 w) {
  return complex64(z.real - w.real, z.imag - w.imag);
}

__device__ __forceinline__ complex64 operator*(complex64 z, complex64 w) {
  return complex64(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real);
}

// Smith's division, as in NumPy.
__device__ complex64 operator/(complex64 z, complex64 w) {
  const bool wide = fabsf(w.real) >= fabsf(w.imag);
  const float divisor = wide ? w.real : w.imag;
  if (divisor == 0.0f) return complex64(z.real / fabsf(w.real), z.imag / fabsf(w.real));
  const float other = wide ? w.imag : w.real;
  const float ratio = other / divisor;
  const float scale = 1.0f / (divisor + other * ratio);
  return complex64(((wide ? z.real : z.imag) + (wide ? z.imag : z.real) * ratio) * scale,
      (wide ? z.imag - z.real * ratio : z.imag * ratio - z.real) * scale);
}

#define NAN __int_as_float(0x7fc00000)

// e^x (cos y + i sin y); e^x is applied in two factors where it overflows (x > 709), since cos y
// may bring the product back into range.
__device__ complex128 exp(complex128 z) {
  const bool large = z.real > 709.0;
  const double size = exp(large ? z.real - 709.0 : z.real);
  if (size == 0.0 && (isfinite(z.imag) || isinf(z.real))) {
    return complex128(0.0, z.imag == 0.0 ? z.imag : 0.0);
  }
  double s, c;
  sincos(z.imag, &s, &c);
  const double cosine = isinf(z.real) && (isinf(z.imag) || isnan(z.imag)) ? 1.0 : c;
  const double factor = large ? 8.218407461554972e+307 : 1.0;
  return complex128(size * cosine * factor, z.imag == 0.0 ? z.imag : size * s * factor);
}

__device__ __forceinline__ complex128 operator*(complex128 z, complex128 w) {
  return complex128(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real);
}

// log |x + iy|, accurate also where |x + iy| is close to 1.
__device__ double log_size(double x, double y) {
  const bool swap = fabs(x) < fabs(y);
  const double a = swap ? fabs(y) : fabs(x);
  const double b = swap ? fabs(x) : fabs(y);
  if (a > 0.6 && a + b < 1.75) {
    const double squared = a * a;
    const double above = squared - 1.0;
    const double other = b * b;
    const double total = above + other;
    const double back = total - above;
    const double lost = above - (total - back) + (other - back);
    const double rest = fma(a, a, -squared) + fma(b, b, -other);
    return 0.5 * log1p(total + (lost + rest));
  }
  const bool huge = a > 1e+300;
  const double scale = huge ? 0.25 : 1.0;
  return log(hypot(a * scale, b * scale)) + (huge ? 1.3862943611198906 : 0.0);
}

__device__ complex128 log(complex128 z) {
  return complex128(log_size(z.real, z.imag), atan2(z.imag, z.real));
}

// exp(w log z); powers of 0 are 1, 0 or NaN.
__device__ complex128 pow(complex128 z, complex128 w) {
  if (w.real == 0.0 && w.imag == 0.0) return complex128(1.0, 0.0);
  if (z.real == 0.0 && z.imag == 0.0) {
    const double shrinks = w.real > 0.0 ? 0.0 : NAN;
    return complex128(shrinks, shrinks);
  }
  return exp(w * log(z));
}

__device__ __forceinline__ complex64 operator-(complex64 z) {
  return complex64(-z.real, -z.imag);
}

__device__ __forceinline__ float abs(complex64 z) {
  return hypotf(z.real, z.imag);
}

// z / |z|; 0 for z = 0; if one part is infinite, the sign of that part.
__device__ complex64 sign(complex64 z) {
  const float size = hypotf(z.real, z.imag);
  if (size != size) return complex64(size, size);
  if (size == 0.0f) return complex64(0.0f, 0.0f);
  return isinf(size) ? (isinf(z.real) && isinf(z.imag) ? complex64(NAN, NAN)
      : complex64(isinf(z.real) ? copysignf(1.0f, z.real) : 0.0f,
      isinf(z.imag) ? copysignf(1.0f, z.imag) : 0.0f)) : complex64(z.real / size, z.imag / size);
}

__device__ __forceinline__ bool operator==(complex64 z, complex64 w) {
  return z.real == w.real && z.imag == w.imag;
}

__device__ __forceinline__ bool operator!=(complex64 z, complex64 w) {
  return z.real != w.real || z.imag != w.imag;
}

// Numbers near the ends of the exponent range are scaled first.
__device__ complex128 sqrt(complex128 z) {
  if (isinf(z.imag)) return complex128(fabs(z.imag), z.imag);
  if (z.real == 0.0 && z.imag == 0.0) return complex128(0.0, z.imag);
  const double largest = fabs(z.real) < fabs(z.imag) ? fabs(z.imag) : fabs(z.real);
  const bool huge = largest > 1e+300;
  const bool tiny = largest < 1e-290;
  const double scale = huge ? 0.25 : tiny ? 3.2451855365842673e+32 : 1.0;
  const double y = z.imag * scale;
  const double x = z.real * scale;
  const double root = sqrt(0.5 * (hypot(x, y) + fabs(x)));
  const double undo = huge ? 2.0 : tiny ? 5.551115123125783e-17 : 1.0;
  const double other = y / (2.0 * root) * undo;
  return z.real < 0.0 ? complex128(fabs(other), copysign(root * undo, z.imag))
      : complex128(root * undo, other);
}

__device__ complex128 sinh(complex128 z) {
  double s, c;
  sincos(z.imag, &s, &c);
  return complex128(z.real == 0.0 ? z.real : isinf(z.real) && (isinf(z.imag) || isnan(z.imag))
      ? fabs(z.real) : sinh(z.real) * c, z.imag == 0.0 ? z.imag : cosh(z.real) * s);
}

// -i sinh(iz)
__device__ complex128 sin(complex128 z) {
  const complex128 w = sinh(complex128(-z.imag, z.real));
  return complex128(w.imag, -w.real);
}

__device__ complex128 cosh(complex128 z) {
  double s, c;
  sincos(z.imag, &s, &c);
  const double zero = copysign(0.0, copysign(1.0, z.real) * copysign(1.0, z.imag));
  return complex128(isinf(z.real) && (isinf(z.imag) || isnan(z.imag)) ? fabs(z.real)
      : cosh(z.real) * c, z.real == 0.0 || z.imag == 0.0 ? zero : sinh(z.real) * s);
}

__device__ complex128 cos(complex128 z) {
  return cosh(complex128(-z.imag, z.real));
}

__device__ complex128 tanh(complex128 z) {
  if (fabs(z.real) > 22.0) {
    const bool endless = isinf(z.real);
    double s, c;
    sincos(z.imag, &s, &c);
    const double small = exp(-2.0 * fabs(z.real));
    const double cross = 4.0 * s * (c * small);
    return complex128(copysign(1.0, z.real) + (endless ? 0.0 : z.imag - z.imag),
        z.imag == 0.0 ? z.imag : endless && (isinf(z.imag) || isnan(z.imag))
        ? (isinf(z.imag) ? copysign(0.0, z.imag) : 0.0) : cross);
  }
  const double tangent = tan(z.imag);
  const double beta = 1.0 + tangent * tangent;
  const double s = sinh(z.real);
  const double rho = sqrt(1.0 + s * s);
  const double below = 1.0 + beta * (s * s);
  return complex128(z.real == 0.0 ? z.real : beta * rho * s / below,
      z.imag == 0.0 ? z.imag : tangent / below);
}

// -i tanh(iz)
__device__ complex128 tan(complex128 z) {
  const complex128 w = tanh(complex128(-z.imag, z.real));
  return complex128(w.imag, -w.real);
}

#define INFINITY __int_as_float(0x7f800000)

__device__ complex128 asin(complex128 z) {
  if (isinf(z.real) || isinf(z.imag)) {
    return complex128(atan2(z.real, fabs(z.imag)), copysign(double(INFINITY), z.imag));
  }
  const complex128 less = sqrt(complex128(1.0 - z.real, -z.imag));
  const complex128 more = sqrt(complex128(1.0 + z.real, z.imag));
  return complex128(z.real == 0.0 ? z.real
      : atan2(z.real, less.real * more.real - less.imag * more.imag),
      asinh(less.real * more.imag - less.imag * more.real));
}

__device__ complex128 acos(complex128 z) {
  if (isinf(z.real) || isinf(z.imag)) {
    return complex128(atan2(fabs(z.imag), z.real), copysign(double(INFINITY), -z.imag));
  }
  const complex128 less = sqrt(complex128(1.0 - z.real, -z.imag));
  const complex128 more = sqrt(complex128(1.0 + z.real, z.imag));
  return complex128(z.real == 0.0 ? 1.5707963267948966 : 2.0 * atan2(less.real, more.real),
      asinh(more.real * less.imag - more.imag * less.real));
}

// Near ±1, where the square of the distance underflows, the real part is log(2 / |y|) / 2.
__device__ complex128 atanh(complex128 z) {
  const double x = fabs(z.real);
  if ((x < fabs(z.imag) ? fabs(z.imag) : x) > 1e+150 || isinf(z.imag)) {
    const double size = hypot(x, z.imag);
    return complex128(copysign(isinf(size) ? 0.0 : x / size / size, z.real),
        isnan(z.imag) ? z.imag : copysign(1.5707963267948966, z.imag));
  }
  const double gap = 1.0 - x;
  const bool edge = gap == 0.0 && fabs(z.imag) < 1e-40;
  const double below = gap * gap + z.imag * z.imag;
  const double t = log1p(edge ? 2.168404344971009e-19 / fabs(z.imag) : 4.0 * x / below);
  return complex128(x == 0.0 ? z.real
      : copysign(edge ? 0.5 * (t + 43.66827237527655) : 0.25 * t, z.real),
      0.5 * atan2(2.0 * z.imag, gap * (1.0 + x) - z.imag * z.imag));
}

// -i arctanh(iz)
__device__ complex128 atan(complex128 z) {
  const complex128 w = atanh(complex128(-z.imag, z.real));
  return complex128(w.imag, -w.real);
}

// -i arcsin(iz)
__device__ complex128 asinh(complex128 z) {
  const complex128 w = asin(complex128(-z.imag, z.real));
  return complex128(w.imag, -w.real);
}

__device__ complex128 acosh(complex128 z) {
  if (isinf(z.real) || isinf(z.imag)) return complex128(INFINITY, atan2(z.imag, z.real));
  const complex128 less = sqrt(complex128(z.real - 1.0, z.imag));
  const complex128 more = sqrt(complex128(z.real + 1.0, z.imag));
  return complex128(asinh(less.real * more.real + less.imag * more.imag),
      z.real == 0.0 ? copysign(1.5707963267948966, z.imag) : 2.0 * atan2(less.imag, more.real));
}

__device__ complex128 exp2(complex128 z) {
  return exp(complex128(z.real * 0.6931471805599453, z.imag * 0.6931471805599453));
}

__device__ complex128 expm1(complex128 z) {
  const bool low = z.real == -INFINITY;
  const bool t = isinf(z.imag) || isnan(z.imag);
  double s, c;
  sincos(z.imag, &s, &c);
  const double of_half = sin(0.5 * z.imag);
  return complex128(low ? -1.0 : t && isinf(z.real) ? z.real
      : expm1(z.real) * c - 2.0 * (of_half * of_half),
      z.imag == 0.0 ? z.imag : t && low ? 0.0 : exp(z.real) * s);
}

__device__ complex128 log2(complex128 z) {
  const complex128 w = log(z);
  return complex128(w.real * 1.4426950408889634, w.imag * 1.4426950408889634);
}

__device__ complex128 log10(complex128 z) {
  const complex128 w = log(z);
  return complex128(w.real * 0.4342944819032518, w.imag * 0.4342944819032518);
}

__device__ complex128 log1p(complex128 z) {
  const double moved = z.real + 1.0;
  return complex128(fabs(z.real) < 0.25 && fabs(z.imag) < 0.25
      ? 0.5 * log1p(z.real * (2.0 + z.real) + z.imag * z.imag) : log_size(moved, z.imag),
      atan2(z.imag, moved));
}

__device__ __forceinline__ complex64 rint(complex64 z) {
  return complex64(rintf(z.real), rintf(z.imag));
}

__device__ __forceinline__ bool isnan(complex64 z) {
  return z.real != z.real || z.imag != z.imag;
}

__device__ __forceinline__ bool isinf(complex64 z) {
  return isinf(z.real) || isinf(z.imag);
}

__device__ __forceinline__ bool isfinite(complex64 z) {
  return isfinite(z.real) && isfinite(z.imag);
}

__device__ __forceinline__ complex64 conj(complex64 z) {
  return complex64(z.real, -z.imag);
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
catalogue_complex64(const complex64* __restrict__ as, const complex64* __restrict__ bs,
                    const complex64* __restrict__ cs, const bool* __restrict__ ps,
                    complex64* __restrict__ add_of, complex64* __restrict__ subtract_of,
                    complex64* __restrict__ multiply_of, complex64* __restrict__ true_divide_of,
                    complex64* __restrict__ power_of, complex64* __restrict__ fma_of,
                    complex64* __restrict__ negative_of, float* __restrict__ absolute_of,
                    complex64* __restrict__ sign_of, bool* __restrict__ equal_of,
                    bool* __restrict__ not_equal_of, complex64* __restrict__ sqrt_of,
                    complex64* __restrict__ exp_of, complex64* __restrict__ log_of,
                    complex64* __restrict__ sin_of, complex64* __restrict__ cos_of,
                    complex64* __restrict__ tan_of, complex64* __restrict__ arcsin_of,
                    complex64* __restrict__ arccos_of, complex64* __restrict__ arctan_of,
                    complex64* __restrict__ sinh_of, complex64* __restrict__ cosh_of,
                    complex64* __restrict__ tanh_of, complex64* __restrict__ arcsinh_of,
                    complex64* __restrict__ arccosh_of, complex64* __restrict__ arctanh_of,
                    complex64* __restrict__ exp2_of, complex64* __restrict__ expm1_of,
                    complex64* __restrict__ log2_of, complex64* __restrict__ log10_of,
                    complex64* __restrict__ log1p_of, complex64* __restrict__ rint_of,
                    bool* __restrict__ isnan_of, bool* __restrict__ isinf_of,
                    bool* __restrict__ isfinite_of, float* __restrict__ real_of,
                    float* __restrict__ imag_of, complex64* __restrict__ conjugate_of,
                    complex64* __restrict__ select_of, bool* __restrict__ cast_bool,
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
  const complex64 a = as[i];
  const complex64 b = bs[i];
  const complex64 c = cs[i];
  const bool p = ps[i];
  add_of[i] = a + b;
  subtract_of[i] = a - b;
  multiply_of[i] = a * b;
  true_divide_of[i] = a / b;
  power_of[i] = complex64(pow(complex128(a), complex128(b)));
  fma_of[i] = a * b + c;
  negative_of[i] = -a;
  absolute_of[i] = abs(a);
  sign_of[i] = sign(a);
  equal_of[i] = a == b;
  not_equal_of[i] = a != b;
  sqrt_of[i] = complex64(sqrt(complex128(a)));
  exp_of[i] = complex64(exp(complex128(a)));
  log_of[i] = complex64(log(complex128(a)));
  sin_of[i] = complex64(sin(complex128(a)));
  cos_of[i] = complex64(cos(complex128(a)));
  tan_of[i] = complex64(tan(complex128(a)));
  arcsin_of[i] = complex64(asin(complex128(a)));
  arccos_of[i] = complex64(acos(complex128(a)));
  arctan_of[i] = complex64(atan(complex128(a)));
  sinh_of[i] = complex64(sinh(complex128(a)));
  cosh_of[i] = complex64(cosh(complex128(a)));
  tanh_of[i] = complex64(tanh(complex128(a)));
  arcsinh_of[i] = complex64(asinh(complex128(a)));
  arccosh_of[i] = complex64(acosh(complex128(a)));
  arctanh_of[i] = complex64(atanh(complex128(a)));
  exp2_of[i] = complex64(exp2(complex128(a)));
  expm1_of[i] = complex64(expm1(complex128(a)));
  log2_of[i] = complex64(log2(complex128(a)));
  log10_of[i] = complex64(log10(complex128(a)));
  log1p_of[i] = complex64(log1p(complex128(a)));
  rint_of[i] = rint(a);
  isnan_of[i] = isnan(a);
  isinf_of[i] = isinf(a);
  isfinite_of[i] = isfinite(a);
  real_of[i] = a.real;
  imag_of[i] = a.imag;
  conjugate_of[i] = conj(a);
  select_of[i] = p ? a : b;
  cast_bool[i] = a.real != 0.0f || a.imag != 0.0f;
  cast_int8[i] = (int8)min(max(__float2int_rz(a.real), -128), 127);
  cast_int16[i] = (int16)min(max(__float2int_rz(a.real), -32768), 32767);
  cast_int32[i] = __float2int_rz(a.real);
  cast_int64[i] = to_int64(a.real);
  cast_uint8[i] = (uint8)min(max(__float2int_rz(a.real), 0), 255);
  cast_uint16[i] = (uint16)min(max(__float2int_rz(a.real), 0), 65535);
  cast_uint32[i] = __float2uint_rz(a.real);
  cast_uint64[i] = to_uint64(a.real);
  cast_float16[i] = float16(a.real);
  cast_bfloat16[i] = bfloat16(a.real);
  cast_float32[i] = a.real;
  cast_float64[i] = (double)a.real;
  cast_complex64[i] = a;
  cast_complex128[i] = complex128(a);
}
