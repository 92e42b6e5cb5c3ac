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

template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_pack8(const Pack<T, N>* location) {
  static_assert(sizeof(Pack<T, N>) == 8);
  const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(location));
  Pack<T, N> values;
  memcpy(&values, &bits, 8);
  return values;
}
template <class T, int N>
__device__ __forceinline__ void store_pack8(Pack<T, N>* location, Pack<T, N> values) {
  uint2 bits;
  memcpy(&bits, &values, 8);
  __stcs(reinterpret_cast<uint2*>(location), bits);
}

extern "C" __global__ void __launch_bounds__(256)
vectors_float16_4(const float16* __restrict__ a, float16* __restrict__ out,
                  float16* __restrict__ copy) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int64 first = i * 4;
  const Pack<float16, 4> x = load_pack8(reinterpret_cast<const Pack<float16, 4>*>(&a[first]));
  store_pack8(reinterpret_cast<Pack<float16, 4>*>(&out[first]),
      Pack<float16, 4>{{x.at[3], x.at[2], x.at[1], x.at[0]}});
  store_pack8(reinterpret_cast<Pack<float16, 4>*>(&copy[first]), x);
}
