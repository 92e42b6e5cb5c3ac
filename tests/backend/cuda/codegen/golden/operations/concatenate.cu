using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// concatenate, test_kernel_text.py
// schedule: default
// 4 × 1 elements a thread
extern "C" __global__ void __launch_bounds__(128)
concatenate(const float* __restrict__ input, const float* __restrict__ input_1,
                   float* __restrict__ out, int size, int size_1, int n1, int n2,
                   int size_multiplier, int size_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int start = task * 512;
  if (start + 512 <= size_1) {
    // All elements of this block exist.
    const int first = start + thread * 4;
    const int i0 = quotient(first, size_multiplier, size_shift);
    const int i1 = first - i0 * size;
    float chosen = 0.0f;
    if (i1 < n1) {
      chosen = input[i0 * n1 + i1];
    } else {
      const int64 position = i0 * n2 + i1 - n1;
      chosen = input_1[position];
    }
    float chosen_1 = 0.0f;
    if (i1 + 1 < n1) {
      chosen_1 = input[i0 * n1 + i1 + 1];
    } else {
      const int64 position = i0 * n2 + i1 - n1;
      chosen_1 = input_1[position + 1];
    }
    float chosen_2 = 0.0f;
    if (i1 + 2 < n1) {
      chosen_2 = input[i0 * n1 + i1 + 2];
    } else {
      const int64 position = i0 * n2 + i1 - n1;
      chosen_2 = input_1[position + 2];
    }
    float chosen_3 = 0.0f;
    if (i1 + 3 < n1) {
      chosen_3 = input[i0 * n1 + i1 + 3];
    } else {
      const int64 position = i0 * n2 + i1 - n1;
      chosen_3 = input_1[position + 3];
    }
    *reinterpret_cast<float4*>(&out[first]) = make_float4(chosen, chosen_1, chosen_2, chosen_3);
  } else {
    for (int p = start + thread; p < size_1; p += 128) {
      const int i0 = quotient(p, size_multiplier, size_shift);
      const int i1 = p - i0 * size;
      float chosen = 0.0f;
      if (i1 < n1) {
        chosen = input[i0 * n1 + i1];
      } else {
        chosen = input_1[i0 * n2 + i1 - n1];
      }
      out[p] = chosen;
    }
  }
}
