// map, test_kernel_text.py
// schedule: default
// 2 contiguous axes as one
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
map(const float* __restrict__ input, float* __restrict__ out, int size) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= size) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const float4 input4 = *reinterpret_cast<const float4*>(&input[first]);
    const float x = input4.x * 2.0f + 1.0f;
    const float x_1 = input4.y * 2.0f + 1.0f;
    const float x_2 = input4.z * 2.0f + 1.0f;
    const float x_3 = input4.w * 2.0f + 1.0f;
    *reinterpret_cast<float4*>(&out[first]) = make_float4(x, x_1, x_2, x_3);
  } else {
    for (int p = start + thread; p < size; p += 128) {
      out[p] = input[p] * 2.0f + 1.0f;
    }
  }
}
