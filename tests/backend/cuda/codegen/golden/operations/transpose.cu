// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// transpose, test_kernel_text.py
// schedule: default
// tiles of 64 × 64 in shared memory: input
extern "C" __global__ void __launch_bounds__(512)
transpose(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
                 int tiles_across, int tiles_across_multiplier, int tiles_across_shift) {
  __shared__ __align__(16) float input_tile[4096];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(task, tiles_across_multiplier, tiles_across_shift);
  const int i0 = t * 64;
  const int i1 = (task - t * tiles_across) * 64;
  const bool whole = i0 + 64 <= n0 && i1 + 64 <= n1;
  // Rows of input into the tile, columns exchanged by exclusive or: columns
  // read below meet each bank of shared memory once.
  if (whole) {
    const int across = (thread & 15) * 4;
    const int row = thread >> 4;
    const int i = i0 + across;
    #pragma unroll
    for (int iteration = 0; iteration < 2; ++iteration) {
      const int along = row + iteration * 32;
      const int j = i1 + along;
      const int at = j * n0 + i;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      *reinterpret_cast<float4*>(&input_tile[along * 64
          + (across ^ (((along >> 2) * 4) & 63))]) = input4;
    }
  } else {
    // A tile at an edge: what is beyond it is left out.
    const int across = (thread & 15) * 4;
    const int row = thread >> 4;
    const int i = i0 + across;
    for (int iteration = 0; iteration < 2; ++iteration) {
      const int along = row + iteration * 32;
      const int j = i1 + along;
      if (i < n0 && j < n1) {
        const int at = j * n0 + i;
        const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
        *reinterpret_cast<float4*>(&input_tile[along * 64
            + (across ^ (((along >> 2) * 4) & 63))]) = input4;
      }
    }
  }
  __syncthreads();
  // Columns of the tile are rows of the result.
  if (whole) {
    #pragma unroll
    for (int iteration = 0; iteration < 2; ++iteration) {
      const int t_1 = iteration * 16 + (thread >> 5);
      const int group = (thread & 7) + (t_1 & 1) * 8;
      const int across = (t_1 >> 1) * 4 + ((thread >> 3) & 3);
      const int i = i0 + across;
      const int j = i1 + group * 4;
      const int begin = group * 256 + (across ^ ((group * 4) & 63));
      *reinterpret_cast<float4*>(&out[i * n1 + j]) =
          make_float4(input_tile[begin], input_tile[begin + 64], input_tile[begin + 128],
              input_tile[begin + 192]);
    }
  } else {
    // A tile at an edge: what is beyond it is left out.
    for (int iteration = 0; iteration < 2; ++iteration) {
      const int t_1 = iteration * 16 + (thread >> 5);
      const int group = (thread & 7) + (t_1 & 1) * 8;
      const int across = (t_1 >> 1) * 4 + ((thread >> 3) & 3);
      const int i = i0 + across;
      const int j = i1 + group * 4;
      if (i < n0 && j < n1) {
        const int begin = group * 256 + (across ^ ((group * 4) & 63));
        *reinterpret_cast<float4*>(&out[i * n1 + j]) =
            make_float4(input_tile[begin], input_tile[begin + 64], input_tile[begin + 128],
                input_tile[begin + 192]);
      }
    }
  }
}
