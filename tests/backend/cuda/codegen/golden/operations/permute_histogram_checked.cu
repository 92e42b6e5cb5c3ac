using int64 = long long;

// Whether no check has failed so far, of any thread.
__device__ __forceinline__ bool unreported(const int64* errors) {
  return *static_cast<const volatile int64*>(errors) == 0;
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// Keep the first check that fails: its number, the index and the extent.
__device__ __noinline__ void report(int64* errors, int64 site, int64 index, int64 extent) {
  if (atomicCAS((unsigned long long*)errors, 0ull, (unsigned long long)site) == 0) {
    errors[1] = index;
    errors[2] = extent;
  }
}

// permute, test_kernel_text.py
// 8192 bins in shared memory
extern "C" __global__ void __launch_bounds__(512, 3)
permute_bins(const int* __restrict__ input, const int* __restrict__ input_1,
                    int* __restrict__ out, int64* __restrict__ errors, int n0, int count, int n1,
                    int copies, int groups, int copies_multiplier, int copies_shift,
                    int stride_multiplier, int stride_shift) {
  __shared__ int bin[8192];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  // The bins of this block: copies of one lie side by side, so that threads which
  // meet in it seldom wait for each other.
  for (int b = thread; b < n0 * copies && unreported(errors); b += 512) {
    bin[b] = 0;
  }
  __syncthreads();
  const int copy = thread - quotient(thread, copies_multiplier, copies_shift) * copies;
  const int left = task * 512 + thread;
  const int stride = groups * 512;
  const int rounds = quotient(max(count - left, 0) + stride - 1, stride_multiplier, stride_shift);
  for (int iteration = 0; iteration < rounds && unreported(errors); ++iteration) {
    const int p = left + iteration * stride;
    int target = -1;
    int value = 0;
    const bool ok = p >= 0 && p < n1;
    if (!ok) report(errors, 1, (int64)p, (int64)n1);
    int input_1_1 = 0;
    if (ok) {
      input_1_1 = input_1[p];
    }
    const int at = input_1_1;
    const bool ok_1 = at >= 0 && at < n0;
    if (!ok_1) report(errors, 2, (int64)at, (int64)n0);
    if (ok_1) {
      target = at;
      value = input[p];
    }
    if (target >= 0) {
      const int slot = target * copies + copy;
      atomicAdd(&bin[slot], value);
    }
  }
  __syncthreads();
  // The copies together, into the target.
  for (int b = thread; b < n0 && unreported(errors); b += 512) {
    const int base = b * copies;
    const int last = copies - 1;
    int total = 0;
    for (int c = 0; c < copies && unreported(errors); ++c) {
      const int slot = base + ((c + thread) & last);
      total += (unsigned)bin[slot];
    }
    if (total != 0) {
      atomicAdd(&out[b], total);
    }
  }
}
