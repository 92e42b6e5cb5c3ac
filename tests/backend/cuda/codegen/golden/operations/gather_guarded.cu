// generate, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
generate(const int* __restrict__ input, const float* __restrict__ input_1,
                float* __restrict__ out, int n0) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= n0) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const int4 input4 = *reinterpret_cast<const int4*>(&input[first]);
    float chosen = 0.0f;
    if (input4.x >= 0) {
      chosen = input_1[input4.x];
    }
    float chosen_1 = 0.0f;
    if (input4.y >= 0) {
      chosen_1 = input_1[input4.y];
    }
    float chosen_2 = 0.0f;
    if (input4.z >= 0) {
      chosen_2 = input_1[input4.z];
    }
    float chosen_3 = 0.0f;
    if (input4.w >= 0) {
      chosen_3 = input_1[input4.w];
    }
    *reinterpret_cast<float4*>(&out[first]) = make_float4(chosen, chosen_1, chosen_2, chosen_3);
  } else {
    for (int p = start + thread; p < n0; p += 128) {
      const int input_p = input[p];
      float chosen = 0.0f;
      if (input_p >= 0) {
        chosen = input_1[input_p];
      }
      out[p] = chosen;
    }
  }
}
