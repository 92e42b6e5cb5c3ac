using int64 = long long;

extern "C" __global__ void __launch_bounds__(256)
let_line1(const float* __restrict__ a, float* __restrict__ out) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  // blur, example.py:7
  const float a_i = a[i];
  const float t = expf(a_i + 1.0f);
  const float y = (t - a_i) * -t;
  float total = y;
  total += 0.1f;
  total *= total - y;
  out[i] = total;
}
