using int64 = long long;
using uint64 = unsigned long long;

// a << b; 0 when b is negative or not less than the width.
template <class T>
__device__ __forceinline__ T shift_left(T a, T b) {
  return b >= 0 && b < T(8 * sizeof(T)) ? T(a << b) : T(0);
}

// a >> b; the sign of a (0 for unsigned) when b is negative or not less than the width.
template <class T>
__device__ __forceinline__ T shift_right(T a, T b) {
  return b >= 0 && b < T(8 * sizeof(T)) ? T(a >> b) : T(a < 0 ? -1 : 0);
}

// stencil, test_operations.py
// schedule: Hilbert()
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int64 inside_from0, int64 inside_to0, int64 inside_from1, int64 inside_to1,
               int ids, int64 h, int64 h_1, int h_2, int64 h_3) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int64 id = (int64)task * 128 + (int64)thread;
  if ((int)id < ids) {
    const bool t = n0 <= n1;
    const int64 t_1 = id & h;
    const int64 t_2 = (t_1 >> 1) & h_1;
    const int64 t_3 = ((t_1 & h_1) + t_2) ^ h_1;
    const int64 t_4 = t_3 ^ (t_3 >> 2);
    const int64 t_5 = t_4 ^ (t_4 >> 4);
    const int64 t_6 = t_5 ^ (t_5 >> 8);
    const int64 t_7 = t_6 ^ (t_6 >> 16);
    const int64 t_8 = t_7 ^ (t_7 >> 32);
    const int64 t_9 = (t_1 & t_8 & h_1) ^ ((t_8 >> 1) & h_1);
    const int64 t_10 = t_1 ^ t_2 ^ t_9 ^ (t_9 << 1);
    const int64 t_11 = t_10 & 6148914691236517205ll;
    const int64 t_12 = (t_11 | (t_11 >> 1)) & 3689348814741910323ll;
    const int64 t_13 = (t_12 | (t_12 >> 2)) & 1085102592571150095ll;
    const int64 t_14 = (t_13 | (t_13 >> 4)) & 71777214294589695ll;
    const int64 t_15 = (t_14 | (t_14 >> 8)) & 281470681808895ll;
    const int64 t_16 = (t_15 | (t_15 >> 16)) & 4294967295ll;
    const int64 t_17 = (t_10 >> 1) & 6148914691236517205ll;
    const int64 t_18 = (t_17 | (t_17 >> 1)) & 3689348814741910323ll;
    const int64 t_19 = (t_18 | (t_18 >> 2)) & 1085102592571150095ll;
    const int64 t_20 = (t_19 | (t_19 >> 4)) & 71777214294589695ll;
    const int64 t_21 = (t_20 | (t_20 >> 8)) & 281470681808895ll;
    const int64 t_22 = (uint64)((t_21 | (t_21 >> 16)) & 4294967295ll)
        + shift_left((int64)shift_right((int)id, h_2), h_3);
    const int64 i0 = t ? t_16 : t_22;
    const int64 i1 = t ? t_22 : t_16;
    if (i0 < (int64)n0 && i1 < (int64)n1) {
      const bool inside = inside_from0 <= i0 && i0 < inside_to0 && inside_from1 <= i1
          && i1 < inside_to1;
      if (inside) {
        const float input_value = input[(int)i0 * n1 + (int)i1];
        out[(int)i0 * n1 + (int)i1] =
            input[((int)i0 - 1) * n1 + (int)i1] + input[(int)i0 * n1 + (int)i1 - 1] + input_value
            + input[(int)i0 * n1 + (int)i1 + 1] + input[((int)i0 + 1) * n1 + (int)i1];
      } else {
        const float input_value = input[(int)i0 * n1 + (int)i1];
        out[(int)i0 * n1 + (int)i1] =
            input[(int)min(max((int64)(i0 - 1ull), 0ll), (int64)n0 - 1) * n1 + (int)i1]
            + input[(int)i0 * n1 + (int)min(max((int64)(i1 - 1ull), 0ll), (int64)n1 - 1)]
            + input_value + input[(int)i0 * n1
            + (int)min(max((int64)(i1 + 1ull), 0ll), (int64)n1 - 1)]
            + input[(int)min(max((int64)(i0 + 1ull), 0ll), (int64)n0 - 1) * n1 + (int)i1];
      }
    }
  }
}
