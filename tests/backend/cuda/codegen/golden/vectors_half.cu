using int64 = long long;

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

// N neighbours that are read or written in one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

extern "C" __global__ void __launch_bounds__(256)
vectors_float16_8(const float16* __restrict__ a, float16* __restrict__ out,
                  float16* __restrict__ copy) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int64 first = i * 8;
  const Pack<float16, 8> x = *reinterpret_cast<const Pack<float16, 8>*>(&a[first]);
  *reinterpret_cast<Pack<float16, 8>*>(&out[first]) =
      {{x.at[7], x.at[6], x.at[5], x.at[4], x.at[3], x.at[2], x.at[1], x.at[0]}};
  *reinterpret_cast<Pack<float16, 8>*>(&copy[first]) = x;
}
