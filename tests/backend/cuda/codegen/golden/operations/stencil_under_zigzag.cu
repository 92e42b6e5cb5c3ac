// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// stencil, test_operations.py
// schedule: ZigZag(64)
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int inside_from0, int inside_to0, int inside_from1, int inside_to1, int ids, int h,
               int h_1, int h_2, int h_multiplier, int h_shift, int h_multiplier_1,
               int h_shift_1) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int id = task * 128 + thread;
  if (id < ids) {
    const int t = quotient(id, h_multiplier, h_shift);
    const bool t_1 = t < h_1;
    const int t_2 = id - t * h;
    const int t_3 = quotient(t_2, h_multiplier_1, h_shift_1);
    const int t_4 = t_1 ? t_2 >> 6 : t_3;
    const int t_5 = t_1 ? t_2 & 63 : h_2 == 0 ? 0 : t_2 - t_3 * h_2;
    const int i1 = (unsigned)(t * 64)
        + ((t_4 & 1) > 0 ? (int)((unsigned)(t_1 ? 64 : h_2) - t_5 - 1u) : t_5);
    const bool inside = inside_from0 <= t_4 && t_4 < inside_to0 && inside_from1 <= i1
        && i1 < inside_to1;
    if (inside) {
      const float input_value = input[t_4 * n1 + i1];
      out[t_4 * n1 + i1] =
          input[(t_4 - 1) * n1 + i1] + input[t_4 * n1 + i1 - 1] + input_value
          + input[t_4 * n1 + i1 + 1] + input[(int)(t_4 + 1u) * n1 + i1];
    } else {
      const float input_value = input[t_4 * n1 + i1];
      out[t_4 * n1 + i1] =
          input[min(max(t_4 - 1, 0), n0 - 1) * n1 + i1]
          + input[t_4 * n1 + min(max((int)(i1 - 1u), 0), n1 - 1)] + input_value
          + input[t_4 * n1 + min(max((int)(i1 + 1u), 0), n1 - 1)]
          + input[min(max((int)(t_4 + 1u), 0), n0 - 1) * n1 + i1];
    }
  }
}
