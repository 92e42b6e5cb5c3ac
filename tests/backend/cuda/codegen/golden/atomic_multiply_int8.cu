using int8 = signed char;
using int64 = long long;

// *location = combine(*location) as one step, by way of the 32-bit word around it.
template <class T, class F>
__device__ __forceinline__ void atomic_update8(T* location, F combine) {
  const size_t address = reinterpret_cast<size_t>(location);
  unsigned* const word = reinterpret_cast<unsigned*>(address & ~size_t(3));
  const unsigned shift = 8 * (address & 3);
  unsigned seen = *static_cast<volatile unsigned*>(word), expected;
  do {
    expected = seen;
    const T x = combine(T(seen >> shift & 0xff));
    const unsigned wanted = (seen & ~(0xffu << shift)) | unsigned((unsigned char)x) << shift;
    if (wanted == expected) return;
    seen = atomicCAS(word, expected, wanted);
  } while (seen != expected);
}

extern "C" __global__ void __launch_bounds__(256)
atomic_multiply_int8(const int8* __restrict__ a, const int64* __restrict__ where,
                     int8* __restrict__ out) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int8 value = a[i];
  atomic_update8(&out[where[i]], [&](int8 old) -> int8 { return (int8)(value * old); });
}
