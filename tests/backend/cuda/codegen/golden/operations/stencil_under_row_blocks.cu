// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// stencil, test_operations.py
// schedule: Row() | Block(8, 32) | PerThread(rows=8)
// 8 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(32)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int inside_from0, int inside_to0, int inside_from1, int inside_to1, int blocks1,
               int blocks1_multiplier, int blocks1_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(task, blocks1_multiplier, blocks1_shift);
  const int corner0 = t * 8;
  const int corner1 = (task - t * blocks1) * 32;
  const int i0 = corner0 + (thread >> 5) * 8;
  const int i1 = corner1 + (thread & 31);
  if (i0 < n0 && i1 < n1) {
    const bool whole = i0 + 8 <= n0;
    if (whole) {
      #pragma unroll
      for (int u0 = 0; u0 < 8; ++u0) {
        const int i0_1 = i0 + u0;
        const bool t_1 = inside_from1 <= i1 && i1 < inside_to1;
        const bool inside = inside_from0 <= i0_1 && i0_1 < inside_to0 && t_1;
        if (inside) {
          const float input_value = input[i0_1 * n1 + i1];
          out[i0_1 * n1 + i1] =
              input[(i0_1 - 1) * n1 + i1] + input[i0_1 * n1 + i1 - 1] + input_value
              + input[i0_1 * n1 + i1 + 1] + input[(i0_1 + 1) * n1 + i1];
        } else {
          const int t_2 = min(max(i1 - 1, 0), n1 - 1);
          const float input_value = input[i0_1 * n1 + i1];
          const int t_3 = min(max(i1 + 1, 0), n1 - 1);
          out[i0_1 * n1 + i1] =
              input[min(max(i0_1 - 1, 0), n0 - 1) * n1 + i1] + input[i0_1 * n1 + t_2]
              + input_value + input[i0_1 * n1 + t_3]
              + input[min(max(i0_1 + 1, 0), n0 - 1) * n1 + i1];
        }
      }
    } else {
      for (int u0 = 0; u0 < 8; ++u0) {
        const int i0_1 = i0 + u0;
        if (i0_1 < n0) {
          const bool t_1 = inside_from1 <= i1 && i1 < inside_to1;
          const bool inside = inside_from0 <= i0_1 && i0_1 < inside_to0 && t_1;
          if (inside) {
            const float input_value = input[i0_1 * n1 + i1];
            out[i0_1 * n1 + i1] =
                input[(i0_1 - 1) * n1 + i1] + input[i0_1 * n1 + i1 - 1] + input_value
                + input[i0_1 * n1 + i1 + 1] + input[(i0_1 + 1) * n1 + i1];
          } else {
            const int t_2 = min(max(i1 - 1, 0), n1 - 1);
            const float input_value = input[i0_1 * n1 + i1];
            const int t_3 = min(max(i1 + 1, 0), n1 - 1);
            out[i0_1 * n1 + i1] =
                input[min(max(i0_1 - 1, 0), n0 - 1) * n1 + i1] + input[i0_1 * n1 + t_2]
                + input_value + input[i0_1 * n1 + t_3]
                + input[min(max(i0_1 + 1, 0), n0 - 1) * n1 + i1];
          }
        }
      }
    }
  }
}
