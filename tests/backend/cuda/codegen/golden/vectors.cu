using int64 = long long;

extern "C" __global__ void __launch_bounds__(256)
vectors_float32_4(const float* __restrict__ a, float* __restrict__ out,
                  float* __restrict__ copy) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int64 first = i * 4;
  const float4 x = *reinterpret_cast<const float4*>(&a[first]);
  *reinterpret_cast<float4*>(&out[first]) = make_float4(x.w, x.z, x.y, x.x);
  *reinterpret_cast<float4*>(&copy[first]) = x;
}
