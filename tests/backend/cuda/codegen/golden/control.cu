using int64 = long long;

// A float towards zero as int64, held within the range; 0 of NaN.
__device__ __forceinline__ int64 to_int64(float x) {
  return x != x ? 0 : __float2ll_rz(x);
}

extern "C" __global__ void __launch_bounds__(256)
control_line2(const float* __restrict__ a, float* __restrict__ out, int64 n) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  float value = a[i];
  if (i < n) {
    const float a_i = a[i];
    if (a_i > 0.0f) {
      value = sqrtf(value);
    } else if (a_i < -1.0f) {
      value = -1.0f;
    } else {
      value = -value;
    }
    for (int64 k = 0; k < min(n, i); k += 2) {
      value += 1.0f;
    }
    #pragma unroll
    for (int64 u = 0; u < 4; ++u) {
      value *= value;
    }
    while (value < 100.0f) {
      value *= 3.0f;
    }
    #pragma unroll 1
    while (true) {
      const int64 t = to_int64(value);
      if (t >= n) break;
      value = expf(value);
    }
    out[i] = value;
  }
}
