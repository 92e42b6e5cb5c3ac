// a modulo b with the sign of b, as Python does it; 0 for b = 0.
__device__ __forceinline__ int floor_remainder(int a, int b) {
  if (b == 0 || b == -1) return 0;
  const int rest = a % b;
  return rest != 0 && (rest ^ b) < 0 ? (int)((unsigned)rest + b) : rest;
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// stencil, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int inside_from0,
               int inside_to0, int n0_multiplier, int n0_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= n0) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const bool inside = inside_from0 <= first && first + 3 < inside_to0;
    if (inside) {
      const float4 input4 = *reinterpret_cast<const float4*>(&input[first - 4]);
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[first]);
      const float4 input4_2 = *reinterpret_cast<const float4*>(&input[first + 4]);
      const float x = input4.w + input4_1.y;
      const float x_1 = input4_1.x + input4_1.z;
      const float x_2 = input4_1.y + input4_1.w;
      const float x_3 = input4_1.z + input4_2.x;
      *reinterpret_cast<float4*>(&out[first]) = make_float4(x, x_1, x_2, x_3);
    } else {
      for (int k = 0; k < 4; ++k) {
        out[first + k] = input[floor_remainder(first + k - 1, n0)]
            + input[first + k - quotient(first + k + 1, n0_multiplier, n0_shift) * n0 + 1];
      }
    }
  } else {
    for (int p = start + thread; p < n0; p += 128) {
      const bool inside = inside_from0 <= p && p < inside_to0;
      if (inside) {
        out[p] = input[p - 1] + input[p + 1];
      } else {
        out[p] = input[floor_remainder(p - 1, n0)]
            + input[p - quotient(p + 1, n0_multiplier, n0_shift) * n0 + 1];
      }
    }
  }
}
