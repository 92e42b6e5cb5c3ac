// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// a / b rounded down, as Python does it; 0 for b = 0, and the lowest a by -1 wraps.
template <class T>
__device__ __forceinline__ T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < 0 && b == T(-1)) return T(0ull - a);
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? T(q - 1) : q;
}

// permute, test_kernel_text.py
// 8192 bins in shared memory
extern "C" __global__ void __launch_bounds__(512, 3)
permute_bins(const int* __restrict__ input, int* __restrict__ out, int n0, int count,
                    int tiles, int copies, int groups_1, int copies_multiplier,
                    int copies_shift) {
  __shared__ int bin_3[8192];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  for (int b = thread; b < n0 * copies; b += 512) {
    bin_3[b] = 0;
  }
  __syncthreads();
  const int copy = thread - quotient(thread, copies_multiplier, copies_shift) * copies;
  const int rounds = floor_divide(tiles - task + groups_1 - 1, groups_1);
  for (int round_ = 0; round_ < rounds; ++round_) {
    const int first = (task + round_ * groups_1) * 4096 + thread * 4;
    const int first_1 = first + 2048;
    const int4 input_x = *reinterpret_cast<const int4*>(&input[first]);
    const int4 input_x_1 = *reinterpret_cast<const int4*>(&input[first_1]);
    const int p = first + 1;
    const int p_1 = first + 2;
    const int p_2 = first + 3;
    const int p_3 = first_1 + 1;
    const int p_4 = first_1 + 2;
    const int p_5 = first_1 + 3;
    const int slot = input_x.x * copies + copy;
    atomicAdd(&bin_3[slot], input_x.x);
    const int slot_1 = input_x.y * copies + copy;
    atomicAdd(&bin_3[slot_1], input_x.y);
    const int slot_2 = input_x.z * copies + copy;
    atomicAdd(&bin_3[slot_2], input_x.z);
    const int slot_3 = input_x.w * copies + copy;
    atomicAdd(&bin_3[slot_3], input_x.w);
    const int slot_4 = input_x_1.x * copies + copy;
    atomicAdd(&bin_3[slot_4], input_x_1.x);
    const int slot_5 = input_x_1.y * copies + copy;
    atomicAdd(&bin_3[slot_5], input_x_1.y);
    const int slot_6 = input_x_1.z * copies + copy;
    atomicAdd(&bin_3[slot_6], input_x_1.z);
    const int slot_7 = input_x_1.w * copies + copy;
    atomicAdd(&bin_3[slot_7], input_x_1.w);
  }
  const int left = tiles * 4096 + (task * 512 + thread);
  const int stride = groups_1 * 512;
  const int rounds_1 = floor_divide(count - left + stride - 1, stride);
  for (int round_ = 0; round_ < rounds_1; ++round_) {
    const int p = left + round_ * stride;
    const int place = input[p];
    const int slot = place * copies + copy;
    atomicAdd(&bin_3[slot], place);
  }
  __syncthreads();
  for (int b = thread; b < n0; b += 512) {
    const int base = b * copies;
    const int last = copies - 1;
    int total = 0;
    for (int c = 0; c < copies; ++c) {
      const int slot = base + ((c + thread) & last);
      const int b_1 = bin_3[slot];
      total += (unsigned)b_1;
    }
    if (total != 0) {
      atomicAdd(&out[b], total);
    }
  }
}
