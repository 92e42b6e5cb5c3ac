using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// slice, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
slice(const float* __restrict__ input, float* __restrict__ out, int n1, int n2, int n3,
             int size, int n1_multiplier, int n1_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= size) {
    const int first = start + thread * 4;
    const int i0 = quotient(first, n1_multiplier, n1_shift);
    const int i1 = n1 == 0 ? 0 : first - i0 * n1;
    const int t = n2 + i0 * -1 - 1;
    const float input_x = input[t * n3 + i1 * 2 + 1];
    const float input_x_1 = input[t * n3 + (i1 + 1) * 2 + 1];
    const float input_x_2 = input[t * n3 + (i1 + 2) * 2 + 1];
    const float input_x_3 = input[t * n3 + (i1 + 3) * 2 + 1];
    *reinterpret_cast<float4*>(&out[first]) =
        make_float4(input_x, input_x_1, input_x_2, input_x_3);
  } else {
    for (int p = start + thread; p < size; p += 128) {
      const int i0 = quotient(p, n1_multiplier, n1_shift);
      const int i1 = n1 == 0 ? 0 : p - i0 * n1;
      out[p] = input[(n2 + i0 * -1 - 1) * n3 + i1 * 2 + 1];
    }
  }
}
