using int64 = long long;

// Keep the first check that fails: its number, the index and the extent.
__device__ __noinline__ void report(int64* errors, int64 site, int64 index, int64 extent) {
  if (atomicCAS((unsigned long long*)errors, 0ull, (unsigned long long)site) == 0) {
    errors[1] = index;
    errors[2] = extent;
  }
}

extern "C" __global__ void __launch_bounds__(256)
checked_line4(const float* __restrict__ a, float* __restrict__ out,
              const int64* __restrict__ where, int64* __restrict__ errors, int64 n) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int64 where_i = where[i];
  const bool ok = where_i >= 0 && where_i < n;
  if (!ok) report(errors, 3, where_i, n);
  float value = 0.0f;
  if (ok) {
    value = a[where_i];
  }
  out[i] = value;
}
