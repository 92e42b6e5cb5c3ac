using int64 = long long;

// *location = combine(*location) as one step: tried again when somebody else came between.
template <class T, class F>
__device__ __forceinline__ void atomic_update32(T* location, F combine) {
  unsigned* const word = reinterpret_cast<unsigned*>(location);
  unsigned seen = *static_cast<volatile unsigned*>(word), expected, wanted;
  do {
    expected = seen;
    T x;
    memcpy(&x, &expected, sizeof(T));
    x = combine(x);
    memcpy(&wanted, &x, sizeof(T));
    if (wanted == expected) return;
    seen = atomicCAS(word, expected, wanted);
  } while (seen != expected);
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

extern "C" __global__ void __launch_bounds__(256)
atomic_maximum_float32(const float* __restrict__ a, const int64* __restrict__ where,
                       float* __restrict__ out) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const float value = a[i];
  atomic_update32(&out[where[i]], [&](float old) { return maximum(value, old); });
}
