// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// permute, test_kernel_text.py
// overwrite updates
extern "C" __global__ void __launch_bounds__(512, 3)
permute_overwrite(const float* __restrict__ input, const int* __restrict__ input_1,
                         float* __restrict__ out, int count, int blocks, int tiles,
                         int blocks_multiplier, int blocks_shift, int stride_multiplier,
                         int stride_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int rounds = quotient(tiles - task + blocks - 1, blocks_multiplier, blocks_shift);
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int first = (task + iteration * blocks) * 4096 + thread * 4;
    const int first_1 = first + 2048;
    const float4 input4 = *reinterpret_cast<const float4*>(&input[first]);
    const int4 input_1_4 = *reinterpret_cast<const int4*>(&input_1[first]);
    const float4 input4_1 = *reinterpret_cast<const float4*>(&input[first_1]);
    const int4 input_1_4_1 = *reinterpret_cast<const int4*>(&input_1[first_1]);
    out[input_1_4.x] = input4.x;  // whoever is last
    out[input_1_4.y] = input4.y;  // whoever is last
    out[input_1_4.z] = input4.z;  // whoever is last
    out[input_1_4.w] = input4.w;  // whoever is last
    out[input_1_4_1.x] = input4_1.x;  // whoever is last
    out[input_1_4_1.y] = input4_1.y;  // whoever is last
    out[input_1_4_1.z] = input4_1.z;  // whoever is last
    out[input_1_4_1.w] = input4_1.w;  // whoever is last
  }
  const int left = tiles * 4096 + (task * 512 + thread);
  const int stride = blocks * 512;
  const int rounds_1 =
      quotient(max(count - left, 0) + stride - 1, stride_multiplier, stride_shift);
  for (int iteration = 0; iteration < rounds_1; ++iteration) {
    const int p = left + iteration * stride;
    const int target = input_1[p];
    out[target] = input[p];  // whoever is last
  }
}
