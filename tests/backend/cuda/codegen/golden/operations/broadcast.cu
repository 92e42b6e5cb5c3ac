// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// add, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
add(const float* __restrict__ input, const float* __restrict__ input_1,
           float* __restrict__ out, int n1, int size, int n1_multiplier, int n1_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= size) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const int i0 = quotient(first, n1_multiplier, n1_shift);
    const int i1 = first - i0 * n1;
    const float4 input_1_4 = *reinterpret_cast<const float4*>(&input_1[i1]);
    const int at = i0 * n1 + i1;
    const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
    const float x = input4.x + input_1_4.x;
    const float x_1 = input4.y + input_1_4.y;
    const float x_2 = input4.z + input_1_4.z;
    const float x_3 = input4.w + input_1_4.w;
    *reinterpret_cast<float4*>(&out[first]) = make_float4(x, x_1, x_2, x_3);
  } else {
    for (int p = start + thread; p < size; p += 128) {
      const int i0 = quotient(p, n1_multiplier, n1_shift);
      const int i1 = p - i0 * n1;
      out[p] = input[i0 * n1 + i1] + input_1[i1];
    }
  }
}
