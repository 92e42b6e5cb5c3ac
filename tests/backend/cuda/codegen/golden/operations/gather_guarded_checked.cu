using int64 = long long;

// Keep the first check that fails: its number, the index and the extent.
__device__ __noinline__ void report(int64* errors, int64 site, int64 index, int64 extent) {
  if (atomicCAS((unsigned long long*)errors, 0ull, (unsigned long long)site) == 0) {
    errors[1] = index;
    errors[2] = extent;
  }
}

// generate, test_kernel_text.py
// schedule: default
extern "C" __global__ void __launch_bounds__(128)
generate(const int* __restrict__ input, const float* __restrict__ input_1,
                float* __restrict__ out, int64* __restrict__ errors, int n0, int n1) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int p = task * 128 + thread;
  if (p < n0) {
    const bool ok = p >= 0 && p < n1;
    if (!ok) report(errors, 1, (int64)p, (int64)n1);
    int input_2 = 0;
    if (ok) {
      input_2 = input[p];
    }
    float chosen = 0.0f;
    if (input_2 >= 0) {
      const int at = input_2;
      const bool ok_1 = at >= 0 && at < n0;
      if (!ok_1) report(errors, 2, (int64)at, (int64)n0);
      float input_1_1 = 0.0f;
      if (ok_1) {
        input_1_1 = input_1[at];
      }
      chosen = input_1_1;
    }
    out[p] = chosen;
  }
}
