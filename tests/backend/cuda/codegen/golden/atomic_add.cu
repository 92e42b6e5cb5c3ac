using int64 = long long;

extern "C" __global__ void __launch_bounds__(256)
atomic_add_float32(const float* __restrict__ a, const int64* __restrict__ where,
                   float* __restrict__ out) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  atomicAdd(&out[where[i]], a[i]);
}
