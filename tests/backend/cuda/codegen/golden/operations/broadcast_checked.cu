// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// add, test_kernel_text.py
// schedule: default
extern "C" __global__ void __launch_bounds__(128)
add(const float* __restrict__ input, const float* __restrict__ input_1,
           float* __restrict__ out, int n1, int size, int n1_multiplier, int n1_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int p = task * 128 + thread;
  if (p < size) {
    const int i0 = quotient(p, n1_multiplier, n1_shift);
    const int i1 = p - i0 * n1;
    out[p] = input[i0 * n1 + i1] + input_1[i1];
  }
}
