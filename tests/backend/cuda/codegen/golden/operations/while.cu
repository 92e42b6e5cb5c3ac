// map, test_kernel_text.py
// schedule: default
// 2 contiguous axes as one
extern "C" __global__ void __launch_bounds__(128)
map(const float* __restrict__ input, float* __restrict__ out, int size) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int p = task * 128 + thread;
  if (p < size) {
    float s0 = input[p];
    while (s0 < 9.0f) {
      s0 *= s0;
    }
    out[p] = s0;
  }
}
