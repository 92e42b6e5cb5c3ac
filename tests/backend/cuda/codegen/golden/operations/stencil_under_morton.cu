using uint32 = unsigned int;

// a << b; 0 when b is negative or not less than the width.
__device__ __forceinline__ int shift_left(int a, int b) {
  return (uint32)b < 32u ? a << b : 0;
}

// a >> b; the sign of a (0 for unsigned) when b is negative or not less than the width.
__device__ __forceinline__ int shift_right(int a, int b) {
  return a >> (int)min((uint32)b, 31u);
}

// stencil, test_operations.py
// schedule: Morton()
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int inside_from0, int inside_to0, int inside_from1, int inside_to1, int ids, int h,
               int h_1, int h_2) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int id = task * 128 + thread;
  if (id < ids) {
    const int t = id & h;
    const int t_1 = (t >> 1) & 1431655765;
    const int t_2 = (t_1 | (t_1 >> 1)) & 858993459;
    const int t_3 = (t_2 | (t_2 >> 2)) & 252645135;
    const int t_4 = (t_3 | (t_3 >> 4)) & 16711935;
    const int t_5 = (t_4 | (t_4 >> 8)) & 65535;
    const bool t_6 = n0 < n1;
    const int t_7 = shift_left(shift_right(id, h_1), h_2);
    const int t_8 = t & 1431655765;
    const int t_9 = (t_8 | (t_8 >> 1)) & 858993459;
    const int t_10 = (t_9 | (t_9 >> 2)) & 252645135;
    const int t_11 = (t_10 | (t_10 >> 4)) & 16711935;
    const int t_12 = (t_11 | (t_11 >> 8)) & 65535;
    const int i0 = (unsigned)(t_5 | (t_5 >> 16)) + (t_6 ? 0 : t_7);
    const int i1 = (unsigned)(t_12 | (t_12 >> 16)) + (t_6 ? t_7 : 0);
    if (i0 < n0 && i1 < n1) {
      const bool inside = inside_from0 <= i0 && i0 < inside_to0 && inside_from1 <= i1
          && i1 < inside_to1;
      if (inside) {
        const float input_value = input[i0 * n1 + i1];
        out[i0 * n1 + i1] = input[(int)(i0 - 1u) * n1 + i1] + input[i0 * n1 + i1 - 1]
            + input_value + input[i0 * n1 + i1 + 1] + input[(int)(i0 + 1u) * n1 + i1];
      } else {
        const float input_value = input[i0 * n1 + i1];
        out[i0 * n1 + i1] = input[min(max((int)(i0 - 1u), 0), n0 - 1) * n1 + i1]
            + input[i0 * n1 + min(max((int)(i1 - 1u), 0), n1 - 1)] + input_value
            + input[i0 * n1 + min(max((int)(i1 + 1u), 0), n1 - 1)]
            + input[min(max((int)(i0 + 1u), 0), n0 - 1) * n1 + i1];
      }
    }
  }
}
