// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// stencil, test_operations.py
// schedule: Tile(8, 8)
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int inside_from0, int inside_to0, int inside_from1, int inside_to1, int ids, int h,
               int h_1, int h_2, int h_3, int h_4, int h_multiplier, int h_shift,
               int h_multiplier_1, int h_shift_1, int h_multiplier_2, int h_shift_2) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int id = task * 128 + thread;
  if (id < ids) {
    const int t = quotient(id, h_multiplier, h_shift);
    const bool t_1 = t < h_1;
    const int t_2 = id - t * h;
    const int t_3 = quotient(t_2, h_multiplier_1, h_shift_1);
    const int t_4 = t_1 ? t_2 >> 6 : t_3;
    const bool t_5 = t_4 < h_3;
    const int t_6 = t_1 ? t_2 & 63 : h_2 == 0 ? 0 : t_2 - t_3 * h_2;
    const int t_7 = quotient(t_6, h_multiplier_2, h_shift_2);
    const int i0 = (unsigned)(t * 8) + (t_5 ? t_6 >> 3 : t_7);
    const int i1 = t_4 * 8u + (t_5 ? t_6 & 7 : h_4 == 0 ? 0 : (int)(t_6 - (unsigned)t_7 * h_4));
    const bool inside = inside_from0 <= i0 && i0 < inside_to0 && inside_from1 <= i1
        && i1 < inside_to1;
    if (inside) {
      const float input_value = input[i0 * n1 + i1];
      out[i0 * n1 + i1] = input[(int)(i0 - 1u) * n1 + i1] + input[i0 * n1 + i1 - 1] + input_value
          + input[i0 * n1 + i1 + 1] + input[(int)(i0 + 1u) * n1 + i1];
    } else {
      const float input_value = input[i0 * n1 + i1];
      out[i0 * n1 + i1] = input[min(max((int)(i0 - 1u), 0), n0 - 1) * n1 + i1]
          + input[i0 * n1 + min(max((int)(i1 - 1u), 0), n1 - 1)] + input_value
          + input[i0 * n1 + min(max((int)(i1 + 1u), 0), n1 - 1)]
          + input[min(max((int)(i0 + 1u), 0), n0 - 1) * n1 + i1];
    }
  }
}
