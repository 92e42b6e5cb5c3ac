using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// argmax, test_kernel_text.py
// threads take elements round-robin
extern "C" __global__ void __launch_bounds__(256)
argmax_blocks(const float* __restrict__ input, const float* __restrict__ argmax,
                     int64* __restrict__ out, int64* __restrict__ partial, int count, int lanes,
                     int parts, int span, int per_block, int lanes_multiplier, int lanes_shift,
                     int parts_multiplier, int parts_shift) {
  __shared__ int64 warp_total[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, parts - 1);
  const int row = quotient(unit, parts_multiplier, parts_shift);
  const int part = unit - row * parts;
  const int part_start = part * span;
  const int part_stop = min(part_start + span, count);
  int64 total = 9223372036854775807ll;
  int64 total_1 = 9223372036854775807ll;
  int64 total_2 = 9223372036854775807ll;
  int64 total_3 = 9223372036854775807ll;
  if (part_start < part_stop) {
    const float argmax_0 = argmax[0];
    const bool t_1 = argmax_0 != argmax_0;
    const int whole = (part_stop - part_start) >> 2;
    const int all_have = quotient(max(whole, 0), lanes_multiplier, lanes_shift);
    const int mine = all_have + (lane < whole - all_have * lanes ? 1 : 0);
    const int rounds = all_have >> 2;
    const int64 first = (int64)part_start + (int64)lane * 4;
    const int64 step = (int64)lanes * 4;
    for (int iteration = 0; iteration < rounds; ++iteration) {
      // 4 loads on their way before the first is waited for.
      const int64 p = first + (int64)iteration * 4 * step;
      const int64 p_1 = first + ((int64)iteration * 4 + 1) * step;
      const int64 p_2 = first + ((int64)iteration * 4 + 2) * step;
      const int64 p_3 = first + ((int64)iteration * 4 + 3) * step;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[(int)p]);
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[(int)p_1]);
      const float4 input4_2 = *reinterpret_cast<const float4*>(&input[(int)p_2]);
      const float4 input4_3 = *reinterpret_cast<const float4*>(&input[(int)p_3]);
      const int64 x = input4.x == argmax_0 || (isnan(input4.x) && t_1) ? p
          : 9223372036854775807ll;
      const int64 x_1 = input4.y == argmax_0 || (isnan(input4.y) && t_1) ? p + 1
          : 9223372036854775807ll;
      const int64 x_2 = input4.z == argmax_0 || (isnan(input4.z) && t_1) ? p + 2
          : 9223372036854775807ll;
      const int64 x_3 = input4.w == argmax_0 || (isnan(input4.w) && t_1) ? p + 3
          : 9223372036854775807ll;
      const int64 x_4 = input4_1.x == argmax_0 || (isnan(input4_1.x) && t_1) ? p_1
          : 9223372036854775807ll;
      const int64 x_5 = input4_1.y == argmax_0 || (isnan(input4_1.y) && t_1) ? p_1 + 1
          : 9223372036854775807ll;
      const int64 x_6 = input4_1.z == argmax_0 || (isnan(input4_1.z) && t_1) ? p_1 + 2
          : 9223372036854775807ll;
      const int64 x_7 = input4_1.w == argmax_0 || (isnan(input4_1.w) && t_1) ? p_1 + 3
          : 9223372036854775807ll;
      const int64 x_8 = input4_2.x == argmax_0 || (isnan(input4_2.x) && t_1) ? p_2
          : 9223372036854775807ll;
      const int64 x_9 = input4_2.y == argmax_0 || (isnan(input4_2.y) && t_1) ? p_2 + 1
          : 9223372036854775807ll;
      const int64 x_10 = input4_2.z == argmax_0 || (isnan(input4_2.z) && t_1) ? p_2 + 2
          : 9223372036854775807ll;
      const int64 x_11 = input4_2.w == argmax_0 || (isnan(input4_2.w) && t_1) ? p_2 + 3
          : 9223372036854775807ll;
      const int64 x_12 = input4_3.x == argmax_0 || (isnan(input4_3.x) && t_1) ? p_3
          : 9223372036854775807ll;
      const int64 x_13 = input4_3.y == argmax_0 || (isnan(input4_3.y) && t_1) ? p_3 + 1
          : 9223372036854775807ll;
      const int64 x_14 = input4_3.z == argmax_0 || (isnan(input4_3.z) && t_1) ? p_3 + 2
          : 9223372036854775807ll;
      const int64 x_15 = input4_3.w == argmax_0 || (isnan(input4_3.w) && t_1) ? p_3 + 3
          : 9223372036854775807ll;
      total = min(total, x);
      total_1 = min(total_1, x_1);
      total_2 = min(total_2, x_2);
      total_3 = min(total_3, x_3);
      total = min(total, x_4);
      total_1 = min(total_1, x_5);
      total_2 = min(total_2, x_6);
      total_3 = min(total_3, x_7);
      total = min(total, x_8);
      total_1 = min(total_1, x_9);
      total_2 = min(total_2, x_10);
      total_3 = min(total_3, x_11);
      total = min(total, x_12);
      total_1 = min(total_1, x_13);
      total_2 = min(total_2, x_14);
      total_3 = min(total_3, x_15);
    }
    const int base = rounds * 4;
    if (base < mine) {
      // What is no whole round: neutral elements stand for what does not exist.
      const int64 p = first + (int64)base * step;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[(int)p]);
      const int64 x = input4.x == argmax_0 || (isnan(input4.x) && t_1) ? p
          : 9223372036854775807ll;
      const int64 x_1 = input4.y == argmax_0 || (isnan(input4.y) && t_1) ? p + 1
          : 9223372036854775807ll;
      const int64 x_2 = input4.z == argmax_0 || (isnan(input4.z) && t_1) ? p + 2
          : 9223372036854775807ll;
      const int64 x_3 = input4.w == argmax_0 || (isnan(input4.w) && t_1) ? p + 3
          : 9223372036854775807ll;
      int64 x_4 = 9223372036854775807ll;
      int64 x_5 = 9223372036854775807ll;
      int64 x_6 = 9223372036854775807ll;
      int64 x_7 = 9223372036854775807ll;
      if (base + 1 < mine) {
        const int64 p_1 = first + ((int64)base + 1) * step;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[(int)p_1]);
        x_4 = input4_1.x == argmax_0 || (isnan(input4_1.x) && t_1) ? p_1 : 9223372036854775807ll;
        x_5 = input4_1.y == argmax_0 || (isnan(input4_1.y) && t_1) ? p_1 + 1
            : 9223372036854775807ll;
        x_6 = input4_1.z == argmax_0 || (isnan(input4_1.z) && t_1) ? p_1 + 2
            : 9223372036854775807ll;
        x_7 = input4_1.w == argmax_0 || (isnan(input4_1.w) && t_1) ? p_1 + 3
            : 9223372036854775807ll;
      }
      int64 x_8 = 9223372036854775807ll;
      int64 x_9 = 9223372036854775807ll;
      int64 x_10 = 9223372036854775807ll;
      int64 x_11 = 9223372036854775807ll;
      if (base + 2 < mine) {
        const int64 p_1 = first + ((int64)base + 2) * step;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[(int)p_1]);
        x_8 = input4_1.x == argmax_0 || (isnan(input4_1.x) && t_1) ? p_1 : 9223372036854775807ll;
        x_9 = input4_1.y == argmax_0 || (isnan(input4_1.y) && t_1) ? p_1 + 1
            : 9223372036854775807ll;
        x_10 = input4_1.z == argmax_0 || (isnan(input4_1.z) && t_1) ? p_1 + 2
            : 9223372036854775807ll;
        x_11 = input4_1.w == argmax_0 || (isnan(input4_1.w) && t_1) ? p_1 + 3
            : 9223372036854775807ll;
      }
      int64 x_12 = 9223372036854775807ll;
      int64 x_13 = 9223372036854775807ll;
      int64 x_14 = 9223372036854775807ll;
      int64 x_15 = 9223372036854775807ll;
      if (base + 3 < mine) {
        const int64 p_1 = first + ((int64)base + 3) * step;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[(int)p_1]);
        x_12 = input4_1.x == argmax_0 || (isnan(input4_1.x) && t_1) ? p_1 : 9223372036854775807ll;
        x_13 = input4_1.y == argmax_0 || (isnan(input4_1.y) && t_1) ? p_1 + 1
            : 9223372036854775807ll;
        x_14 = input4_1.z == argmax_0 || (isnan(input4_1.z) && t_1) ? p_1 + 2
            : 9223372036854775807ll;
        x_15 = input4_1.w == argmax_0 || (isnan(input4_1.w) && t_1) ? p_1 + 3
            : 9223372036854775807ll;
      }
      total = min(total, x);
      total_1 = min(total_1, x_1);
      total_2 = min(total_2, x_2);
      total_3 = min(total_3, x_3);
      total = min(total, x_4);
      total_1 = min(total_1, x_5);
      total_2 = min(total_2, x_6);
      total_3 = min(total_3, x_7);
      total = min(total, x_8);
      total_1 = min(total_1, x_9);
      total_2 = min(total_2, x_10);
      total_3 = min(total_3, x_11);
      total = min(total, x_12);
      total_1 = min(total_1, x_13);
      total_2 = min(total_2, x_14);
      total_3 = min(total_3, x_15);
    }
    // Elements that are no whole vector.
    const int p = (int)first + mine * (int)step;
    if (p < part_stop) {
      const float input_p = input[p];
      const int64 x = input_p == argmax_0 || (input_p != input_p && t_1) ? (int64)p
          : 9223372036854775807ll;
      total = min(total, x);
    }
    const int p_1 = p + 1;
    if (p_1 < part_stop) {
      const float input_p = input[p_1];
      const int64 x = input_p == argmax_0 || (input_p != input_p && t_1) ? (int64)p_1
          : 9223372036854775807ll;
      total_1 = min(total_1, x);
    }
    const int p_2 = p + 2;
    if (p_2 < part_stop) {
      const float input_p = input[p_2];
      const int64 x = input_p == argmax_0 || (input_p != input_p && t_1) ? (int64)p_2
          : 9223372036854775807ll;
      total_2 = min(total_2, x);
    }
  }
  total = min(total, total_1);
  total_2 = min(total_2, total_3);
  total = min(total, total_2);
  // The lanes of a warp, by halves.
  if (lanes > 1) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 1);
    total = min(total, other);
  }
  if (lanes > 2) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 2);
    total = min(total, other);
  }
  if (lanes > 4) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 4);
    total = min(total, other);
  }
  if (lanes > 8) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 8);
    total = min(total, other);
  }
  if (lanes > 16) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 16);
    total = min(total, other);
  }
  const int lane_1 = thread & 31;
  if (lanes > 32) {
    // Each warp leaves its total; the first warp combines them.
    if (lane_1 == 0) {
      warp_total[thread >> 5] = total;
    }
    __syncthreads();
    const int warps = lanes >> 5;
    if (lane < 32) {
      total = warp_total[(thread >> 5) + min(lane_1, warps - 1)];
      if (warps > 1) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 1);
        total = min(total, other);
      }
      if (warps > 2) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 2);
        total = min(total, other);
      }
      if (warps > 4) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 4);
        total = min(total, other);
      }
      if (warps > 8) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 8);
        total = min(total, other);
      }
    }
  }
  if (lane == 0 && own < parts) {
    if (parts == 1) {
      out[0] = min(total, 9223372036854775807ll);
    } else {
      partial[row * parts + part] = total;
    }
  }
}

using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// argmax, test_kernel_text.py
// partial results from left to right
extern "C" __global__ void __launch_bounds__(512)
argmax_combine(int64* __restrict__ out, const int64* __restrict__ partial, int parts,
                      int lanes, int span, int per_block, int lanes_multiplier, int lanes_shift) {
  __shared__ int64 warp_total[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, 0);
  const int part_stop = min(span, parts);
  const int base = unit * parts;
  int64 total = 9223372036854775807ll;
  if (part_stop > 0) {
    const int all_have = quotient(max(part_stop, 0), lanes_multiplier, lanes_shift);
    const int mine = all_have + (lane < part_stop - all_have * lanes ? 1 : 0);
    const int rounds = all_have >> 3;
    for (int iteration = 0; iteration < rounds; ++iteration) {
      // 8 loads on their way before the first is waited for.
      const int p = lane + iteration * 8 * lanes;
      const int p_1 = lane + (iteration * 8 + 1) * lanes;
      const int p_2 = lane + (iteration * 8 + 2) * lanes;
      const int p_3 = lane + (iteration * 8 + 3) * lanes;
      const int p_4 = lane + (iteration * 8 + 4) * lanes;
      const int p_5 = lane + (iteration * 8 + 5) * lanes;
      const int p_6 = lane + (iteration * 8 + 6) * lanes;
      const int p_7 = lane + (iteration * 8 + 7) * lanes;
      const int64 partial_value = partial[base + p];
      const int64 partial_value_1 = partial[base + p_1];
      const int64 partial_value_2 = partial[base + p_2];
      const int64 partial_value_3 = partial[base + p_3];
      const int64 partial_value_4 = partial[base + p_4];
      const int64 partial_value_5 = partial[base + p_5];
      const int64 partial_value_6 = partial[base + p_6];
      const int64 partial_value_7 = partial[base + p_7];
      total = min(total, partial_value);
      total = min(total, partial_value_1);
      total = min(total, partial_value_2);
      total = min(total, partial_value_3);
      total = min(total, partial_value_4);
      total = min(total, partial_value_5);
      total = min(total, partial_value_6);
      total = min(total, partial_value_7);
    }
    const int base_1 = rounds * 8;
    if (base_1 < mine) {
      // What is no whole round: neutral elements stand for what does not exist.
      const int p = lane + base_1 * lanes;
      const int64 partial_value = partial[base + p];
      int64 x = 9223372036854775807ll;
      if (base_1 + 1 < mine) {
        const int p_1 = lane + (base_1 + 1) * lanes;
        x = partial[base + p_1];
      }
      int64 x_1 = 9223372036854775807ll;
      if (base_1 + 2 < mine) {
        const int p_1 = lane + (base_1 + 2) * lanes;
        x_1 = partial[base + p_1];
      }
      int64 x_2 = 9223372036854775807ll;
      if (base_1 + 3 < mine) {
        const int p_1 = lane + (base_1 + 3) * lanes;
        x_2 = partial[base + p_1];
      }
      int64 x_3 = 9223372036854775807ll;
      if (base_1 + 4 < mine) {
        const int p_1 = lane + (base_1 + 4) * lanes;
        x_3 = partial[base + p_1];
      }
      int64 x_4 = 9223372036854775807ll;
      if (base_1 + 5 < mine) {
        const int p_1 = lane + (base_1 + 5) * lanes;
        x_4 = partial[base + p_1];
      }
      int64 x_5 = 9223372036854775807ll;
      if (base_1 + 6 < mine) {
        const int p_1 = lane + (base_1 + 6) * lanes;
        x_5 = partial[base + p_1];
      }
      int64 x_6 = 9223372036854775807ll;
      if (base_1 + 7 < mine) {
        const int p_1 = lane + (base_1 + 7) * lanes;
        x_6 = partial[base + p_1];
      }
      total = min(total, partial_value);
      total = min(total, x);
      total = min(total, x_1);
      total = min(total, x_2);
      total = min(total, x_3);
      total = min(total, x_4);
      total = min(total, x_5);
      total = min(total, x_6);
    }
  }
  // The lanes of a warp, by halves.
  if (lanes > 1) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 1);
    total = min(total, other);
  }
  if (lanes > 2) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 2);
    total = min(total, other);
  }
  if (lanes > 4) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 4);
    total = min(total, other);
  }
  if (lanes > 8) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 8);
    total = min(total, other);
  }
  if (lanes > 16) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 16);
    total = min(total, other);
  }
  const int lane_1 = thread & 31;
  if (lanes > 32) {
    // Each warp leaves its total; the first warp combines them.
    if (lane_1 == 0) {
      warp_total[thread >> 5] = total;
    }
    __syncthreads();
    const int warps = lanes >> 5;
    if (lane < 32) {
      total = warp_total[(thread >> 5) + min(lane_1, warps - 1)];
      if (warps > 1) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 1);
        total = min(total, other);
      }
      if (warps > 2) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 2);
        total = min(total, other);
      }
      if (warps > 4) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 4);
        total = min(total, other);
      }
      if (warps > 8) {
        const int64 other = __shfl_down_sync(0xffffffff, total, 8);
        total = min(total, other);
      }
    }
  }
  if (lane == 0 && own < 1) {
    out[0] = min(total, 9223372036854775807ll);
  }
}
