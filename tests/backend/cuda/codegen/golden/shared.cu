using int64 = long long;

extern "C" __global__ void __launch_bounds__(256, 4)
shared_line5(const float* __restrict__ a, float* __restrict__ out) {
  __shared__ float tile[256];
  float window[3];
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  tile[thread] = a[i];
  __syncthreads();
  #pragma unroll
  for (int64 k = 0; k < 3; ++k) {
    window[k] = tile[(thread + k) % 256];
  }
  float total = 0.0f;
  #pragma unroll
  for (int64 k = 0; k < 3; ++k) {
    total += window[k];
  }
  out[i] = total;
}
