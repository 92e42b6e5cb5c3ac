using int64 = long long;
using uint64 = unsigned long long;

// a modulo b with the sign of b, as Python does it; 0 for b = 0.
__device__ __forceinline__ int64 floor_remainder(int64 a, int64 b) {
  if (b == 0 || b == -1) return 0;
  const int64 rest = a % b;
  return rest != 0 && (rest ^ b) < 0 ? (int64)((uint64)rest + b) : rest;
}

extern "C" __global__ void __launch_bounds__(256)
hash_line11(const int* __restrict__ a, int* __restrict__ out, int64 n, int seed) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int t = a[i] * 1664525u + 1013904223u;
  out[floor_remainder((int64)(i * 2654435761ull), n) * n + 1] = (unsigned)(t ^ (t >> 16)) + seed;
}
