// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// permute, test_kernel_text.py
// 8192 bins in shared memory
extern "C" __global__ void __launch_bounds__(512, 3)
permute_bins(const int* __restrict__ input, const int* __restrict__ input_1,
                    int* __restrict__ out, int n0, int count, int tiles, int copies, int groups,
                    int copies_multiplier, int copies_shift, int groups_multiplier,
                    int groups_shift, int stride_multiplier, int stride_shift) {
  __shared__ int bin[8192];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  // The bins of this block: copies of one lie side by side, so that threads which
  // meet in it seldom wait for each other.
  for (int b = thread; b < n0 * copies; b += 512) {
    bin[b] = 0;
  }
  __syncthreads();
  const int copy = thread - quotient(thread, copies_multiplier, copies_shift) * copies;
  const int rounds = quotient(tiles - task + groups - 1, groups_multiplier, groups_shift);
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int first = (task + iteration * groups) * 4096 + thread * 4;
    const int first_1 = first + 2048;
    const int4 input4 = *reinterpret_cast<const int4*>(&input[first]);
    const int4 input_1_4 = *reinterpret_cast<const int4*>(&input_1[first]);
    const int4 input4_1 = *reinterpret_cast<const int4*>(&input[first_1]);
    const int4 input_1_4_1 = *reinterpret_cast<const int4*>(&input_1[first_1]);
    const int slot = input_1_4.x * copies + copy;
    atomicAdd(&bin[slot], input4.x);
    const int slot_1 = input_1_4.y * copies + copy;
    atomicAdd(&bin[slot_1], input4.y);
    const int slot_2 = input_1_4.z * copies + copy;
    atomicAdd(&bin[slot_2], input4.z);
    const int slot_3 = input_1_4.w * copies + copy;
    atomicAdd(&bin[slot_3], input4.w);
    const int slot_4 = input_1_4_1.x * copies + copy;
    atomicAdd(&bin[slot_4], input4_1.x);
    const int slot_5 = input_1_4_1.y * copies + copy;
    atomicAdd(&bin[slot_5], input4_1.y);
    const int slot_6 = input_1_4_1.z * copies + copy;
    atomicAdd(&bin[slot_6], input4_1.z);
    const int slot_7 = input_1_4_1.w * copies + copy;
    atomicAdd(&bin[slot_7], input4_1.w);
  }
  const int left = tiles * 4096 + (task * 512 + thread);
  const int stride = groups * 512;
  const int rounds_1 =
      quotient(max(count - left, 0) + stride - 1, stride_multiplier, stride_shift);
  for (int iteration = 0; iteration < rounds_1; ++iteration) {
    const int p = left + iteration * stride;
    const int target = input_1[p];
    const int slot = target * copies + copy;
    atomicAdd(&bin[slot], input[p]);
  }
  __syncthreads();
  // The copies together, into the target.
  for (int b = thread; b < n0; b += 512) {
    const int base = b * copies;
    const int last = copies - 1;
    int total = 0;
    for (int c = 0; c < copies; ++c) {
      const int slot = base + ((c + thread) & last);
      total += (unsigned)bin[slot];
    }
    if (total != 0) {
      atomicAdd(&out[b], total);
    }
  }
}
