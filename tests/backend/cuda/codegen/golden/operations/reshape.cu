// reshape, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
reshape(const float* __restrict__ input, float* __restrict__ out, int size) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= size) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const float4 input4 = *reinterpret_cast<const float4*>(&input[first]);
    *reinterpret_cast<float4*>(&out[first]) = input4;
  } else {
    for (int p = start + thread; p < size; p += 128) {
      out[p] = input[p];
    }
  }
}
