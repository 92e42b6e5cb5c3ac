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
// schedule: Morton()
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int64 inside_from0, int64 inside_to0, int64 inside_from1, int64 inside_to1,
               int ids, int64 h, int h_1, int64 h_2) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int64 id = (int64)task * 128 + (int64)thread;
  if ((int)id < ids) {
    const int64 t = id & h;
    const int64 t_1 = (t >> 1) & 6148914691236517205ll;
    const int64 t_2 = (t_1 | (t_1 >> 1)) & 3689348814741910323ll;
    const int64 t_3 = (t_2 | (t_2 >> 2)) & 1085102592571150095ll;
    const int64 t_4 = (t_3 | (t_3 >> 4)) & 71777214294589695ll;
    const int64 t_5 = (t_4 | (t_4 >> 8)) & 281470681808895ll;
    const bool t_6 = n0 < n1;
    const int64 t_7 = shift_left((int64)shift_right((int)id, h_1), h_2);
    const int64 t_8 = t & 6148914691236517205ll;
    const int64 t_9 = (t_8 | (t_8 >> 1)) & 3689348814741910323ll;
    const int64 t_10 = (t_9 | (t_9 >> 2)) & 1085102592571150095ll;
    const int64 t_11 = (t_10 | (t_10 >> 4)) & 71777214294589695ll;
    const int64 t_12 = (t_11 | (t_11 >> 8)) & 281470681808895ll;
    const int64 i0 = (uint64)((t_5 | (t_5 >> 16)) & 4294967295ll) + (t_6 ? 0 : t_7);
    const int64 i1 = (uint64)((t_12 | (t_12 >> 16)) & 4294967295ll) + (t_6 ? t_7 : 0);
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
