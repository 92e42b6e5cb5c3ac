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
// schedule: Hilbert()
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int inside_from0, int inside_to0, int inside_from1, int inside_to1, int ids, int h,
               int h_1, int h_2, int h_3) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int id = task * 128 + thread;
  if (id < ids) {
    const bool t = n0 <= n1;
    const int t_1 = id & h;
    const int t_2 = (t_1 >> 1) & h_1;
    const int t_3 = ((t_1 & h_1) + t_2) ^ h_1;
    const int t_4 = t_3 ^ (t_3 >> 2);
    const int t_5 = t_4 ^ (t_4 >> 4);
    const int t_6 = t_5 ^ (t_5 >> 8);
    const int t_7 = t_6 ^ (t_6 >> 16);
    const int t_8 = t_7 ^ 0;
    const int t_9 = (t_1 & t_8 & h_1) ^ ((t_8 >> 1) & h_1);
    const int t_10 = t_1 ^ t_2 ^ t_9 ^ (t_9 << 1);
    const int t_11 = t_10 & 1431655765;
    const int t_12 = (t_11 | (t_11 >> 1)) & 858993459;
    const int t_13 = (t_12 | (t_12 >> 2)) & 252645135;
    const int t_14 = (t_13 | (t_13 >> 4)) & 16711935;
    const int t_15 = (t_14 | (t_14 >> 8)) & 65535;
    const int t_16 = t_15 | (t_15 >> 16);
    const int t_17 = (t_10 >> 1) & 1431655765;
    const int t_18 = (t_17 | (t_17 >> 1)) & 858993459;
    const int t_19 = (t_18 | (t_18 >> 2)) & 252645135;
    const int t_20 = (t_19 | (t_19 >> 4)) & 16711935;
    const int t_21 = (t_20 | (t_20 >> 8)) & 65535;
    const int t_22 = (unsigned)(t_21 | (t_21 >> 16)) + shift_left(shift_right(id, h_2), h_3);
    const int i0 = t ? t_16 : t_22;
    const int i1 = t ? t_22 : t_16;
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
