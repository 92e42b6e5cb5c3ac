// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// cumsum, test_kernel_text.py
// a thread a part
extern "C" __global__ void __launch_bounds__(256)
cumsum_sums(const float* __restrict__ input, float* __restrict__ sum, int n0, int n1,
                   int span, int parts, int sums, int n1_multiplier, int n1_shift,
                   int divisor_multiplier, int divisor_shift) {
  float ahead[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int unit = task * 256 + thread;
  if (unit < sums) {
    const int t = quotient(unit, n1_multiplier, n1_shift);
    const int plane = quotient(t, divisor_multiplier, divisor_shift);
    const int part = parts - 1 == 0 ? 0 : t - plane * (parts - 1);
    const int column = unit - t * n1;
    const int part_start = part * span;
    const int part_stop = min(part_start + span, n0);
    float total = input[part_start * n1 + column];
    const int rounds = max(part_stop - (part_start + 1), 0) >> 4;
    for (int iteration = 0; iteration < rounds; ++iteration) {
      const int base = part_start + iteration * 16 + 1;
      #pragma unroll
      for (int u = 0; u < 16; ++u) {
        const int p = base + u;
        ahead[u] = input[p * n1 + column];
      }
      #pragma unroll
      for (int u = 0; u < 16; ++u) {
        total += ahead[u];
      }
    }
    for (int p = part_start + rounds * 16 + 1; p < part_stop; ++p) {
      total += input[p * n1 + column];
    }
    const int slot = (plane * parts + part) * n1 + column;
    sum[slot] = total;
  }
}

using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// cumsum, test_kernel_text.py
// what comes before each part
extern "C" __global__ void __launch_bounds__(256)
cumsum_carries(float* __restrict__ carry, const float* __restrict__ sum, int n1, int parts,
                      int n1_multiplier, int n1_shift) {
  __shared__ float warp_total[8];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int lane = thread & 31;
  const int warp = thread >> 5;
  const int plane = quotient(task, n1_multiplier, n1_shift);
  const int column = task - plane * n1;
  const int share = (parts + 254) >> 8;
  const int64 begin = min((int64)thread * (int64)share, (int64)parts - 1);
  const int64 end = min(begin + (int64)share, (int64)parts - 1);
  float total = -0.0f;
  if (begin < end) {
    const int slot = (plane * parts + (int)begin) * n1 + column;
    total = sum[slot];
    for (int64 k = begin + 1; k < end; ++k) {
      const int slot_1 = (plane * parts + (int)k) * n1 + column;
      total += sum[slot_1];
    }
  }
  const float other = __shfl_up_sync(0xffffffff, total, 1);
  if (lane >= 1) {
    total += other;
  }
  const float other_1 = __shfl_up_sync(0xffffffff, total, 2);
  if (lane >= 2) {
    total += other_1;
  }
  const float other_2 = __shfl_up_sync(0xffffffff, total, 4);
  if (lane >= 4) {
    total += other_2;
  }
  const float other_3 = __shfl_up_sync(0xffffffff, total, 8);
  if (lane >= 8) {
    total += other_3;
  }
  const float other_4 = __shfl_up_sync(0xffffffff, total, 16);
  if (lane >= 16) {
    total += other_4;
  }
  if (lane == 31) {
    warp_total[warp] = total;
  }
  __syncthreads();
  const float other_5 = __shfl_up_sync(0xffffffff, total, 1);
  if (begin < end) {
    float state = 0.0f;
    bool known = false;
    for (int w = 0; w < warp; ++w) {
      const float warp_total_1 = warp_total[w];
      if (known) {
        state += warp_total_1;
      } else {
        state = warp_total_1;
        known = true;
      }
    }
    if (lane > 0) {
      if (known) {
        state += other_5;
      } else {
        state = other_5;
        known = true;
      }
    }
    for (int64 k = begin; k < end; ++k) {
      const int slot = (plane * parts + (int)k) * n1 + column;
      const float x = sum[slot];
      if (known) {
        state += x;
      } else {
        state = x;
        known = true;
      }
      const int slot_1 = (plane * parts + (int)k + 1) * n1 + column;
      carry[slot_1] = state;
    }
  }
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// cumsum, test_kernel_text.py
// a thread a column
extern "C" __global__ void __launch_bounds__(256)
cumsum_columns(const float* __restrict__ input, float* __restrict__ out,
                      const float* __restrict__ carry, int n0, int n1, int span, int parts,
                      int partials, int n1_multiplier, int n1_shift, int parts_multiplier,
                      int parts_shift) {
  float ahead[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int unit = task * 256 + thread;
  if (unit < partials) {
    const int t = quotient(unit, n1_multiplier, n1_shift);
    const int plane = quotient(t, parts_multiplier, parts_shift);
    const int part = t - plane * parts;
    const int column = unit - t * n1;
    const int part_start = part * span;
    const int part_stop = min(part_start + span, n0);
    const int slot = (plane * parts + part) * n1 + column;
    int begin = part_start;
    float total = 0.0f;
    if (part == 0) {
      if (part_start < part_stop) {
        total = input[part_start * n1 + column];
        out[part_start * n1 + column] = total;
        begin = part_start + 1;
      }
    } else {
      total = carry[slot];
    }
    const int rounds = max((int)((unsigned)part_stop - begin), 0) >> 4;
    for (int iteration = 0; iteration < rounds; ++iteration) {
      const int base = begin + iteration * 16;
      #pragma unroll
      for (int u = 0; u < 16; ++u) {
        const int p = base + u;
        ahead[u] = input[p * n1 + column];
      }
      #pragma unroll
      for (int u = 0; u < 16; ++u) {
        const int p = base + u;
        total += ahead[u];
        out[p * n1 + column] = total;
      }
    }
    for (int p = begin + rounds * 16; p < part_stop; ++p) {
      total += input[p * n1 + column];
      out[p * n1 + column] = total;
    }
  }
}
