using int64 = long long;

extern "C" __global__ void __launch_bounds__(256)
large_shared_line6(const float* __restrict__ a, float* __restrict__ out) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  float* const one = reinterpret_cast<float*>(shared_memory);
  double* const two = reinterpret_cast<double*>(shared_memory + 64000);
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  one[thread] = a[i];
  __syncthreads();
  two[thread] = (double)one[thread];
  __syncthreads();
  out[i] = (float)two[thread];
}
