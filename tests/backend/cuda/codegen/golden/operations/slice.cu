// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// slice, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
slice(const float* __restrict__ input, float* __restrict__ out, int n0, int size, int n1,
             int size_1, int size_multiplier, int size_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= size_1) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const int i0 = quotient(first, size_multiplier, size_shift);
    const int i1 = size == 0 ? 0 : first - i0 * size;
    const int t = n0 - i0 - 1;
    *reinterpret_cast<float4*>(&out[first]) =
        make_float4(input[t * n1 + i1 * 2 + 1], input[t * n1 + (i1 + 1) * 2 + 1],
            input[t * n1 + (i1 + 2) * 2 + 1], input[t * n1 + (i1 + 3) * 2 + 1]);
  } else {
    for (int p = start + thread; p < size_1; p += 128) {
      const int i0 = quotient(p, size_multiplier, size_shift);
      const int i1 = size == 0 ? 0 : p - i0 * size;
      out[p] = input[(n0 - i0 - 1) * n1 + i1 * 2 + 1];
    }
  }
}
