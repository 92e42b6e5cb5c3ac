using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// argmax, test_kernel_text.py
// threads take turns
extern "C" __global__ void __launch_bounds__(256)
argmax_blocks(const float* __restrict__ input, const float* __restrict__ argmax,
                     int64* __restrict__ out, int64* __restrict__ partial, int count, int lanes,
                     int parts, int span, int per_block, int lanes_multiplier, int lanes_shift,
                     int parts_multiplier, int parts_shift) {
  __shared__ int64 warp[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, parts - 1);
  const int row = quotient(unit, parts_multiplier, parts_shift);
  const int part = unit - row * parts;
  const int64 part_start = (int64)part * (int64)span;
  const int part_stop = min((int)part_start + span, count);
  int64 total = 9223372036854775807ll;
  int64 total_1 = 9223372036854775807ll;
  int64 total_2 = 9223372036854775807ll;
  int64 total_3 = 9223372036854775807ll;
  if ((int)part_start < part_stop) {
    const float argmax_x = argmax[0];
    const bool t_1 = argmax_x != argmax_x;
    const int whole = (part_stop - (int)part_start) >> 2;
    const int all_have = quotient(max(whole, 0), lanes_multiplier, lanes_shift);
    const int64 mine = (int64)all_have + (lane < whole - all_have * lanes ? 1 : 0);
    const int rounds = all_have >> 2;
    const int64 first = part_start + (int64)lane * 4;
    const int64 step = (int64)lanes * 4;
    for (int round_ = 0; round_ < rounds; ++round_) {
      const int64 p = first + (int64)round_ * 4 * step;
      const int64 p_1 = first + ((int64)round_ * 4 + 1) * step;
      const int64 p_2 = first + ((int64)round_ * 4 + 2) * step;
      const int64 p_3 = first + ((int64)round_ * 4 + 3) * step;
      const float4 input_x = *reinterpret_cast<const float4*>(&input[(int)p]);
      const float4 input_x_1 = *reinterpret_cast<const float4*>(&input[(int)p_1]);
      const float4 input_x_2 = *reinterpret_cast<const float4*>(&input[(int)p_2]);
      const float4 input_x_3 = *reinterpret_cast<const float4*>(&input[(int)p_3]);
      const int64 x = input_x.x ==
          argmax_x || (isnan(input_x.x) && t_1) ? p : 9223372036854775807ll;
      const int64 x_1 = input_x.y ==
          argmax_x || (isnan(input_x.y) && t_1) ? p + 1 : 9223372036854775807ll;
      const int64 x_2 = input_x.z ==
          argmax_x || (isnan(input_x.z) && t_1) ? p + 2 : 9223372036854775807ll;
      const int64 x_3 = input_x.w ==
          argmax_x || (isnan(input_x.w) && t_1) ? p + 3 : 9223372036854775807ll;
      const int64 x_4 = input_x_1.x ==
          argmax_x || (isnan(input_x_1.x) && t_1) ? p_1 : 9223372036854775807ll;
      const int64 x_5 = input_x_1.y ==
          argmax_x || (isnan(input_x_1.y) && t_1) ? p_1 + 1 : 9223372036854775807ll;
      const int64 x_6 = input_x_1.z ==
          argmax_x || (isnan(input_x_1.z) && t_1) ? p_1 + 2 : 9223372036854775807ll;
      const int64 x_7 = input_x_1.w ==
          argmax_x || (isnan(input_x_1.w) && t_1) ? p_1 + 3 : 9223372036854775807ll;
      const int64 x_8 = input_x_2.x ==
          argmax_x || (isnan(input_x_2.x) && t_1) ? p_2 : 9223372036854775807ll;
      const int64 x_9 = input_x_2.y ==
          argmax_x || (isnan(input_x_2.y) && t_1) ? p_2 + 1 : 9223372036854775807ll;
      const int64 x_10 = input_x_2.z ==
          argmax_x || (isnan(input_x_2.z) && t_1) ? p_2 + 2 : 9223372036854775807ll;
      const int64 x_11 = input_x_2.w ==
          argmax_x || (isnan(input_x_2.w) && t_1) ? p_2 + 3 : 9223372036854775807ll;
      const int64 x_12 = input_x_3.x ==
          argmax_x || (isnan(input_x_3.x) && t_1) ? p_3 : 9223372036854775807ll;
      const int64 x_13 = input_x_3.y ==
          argmax_x || (isnan(input_x_3.y) && t_1) ? p_3 + 1 : 9223372036854775807ll;
      const int64 x_14 = input_x_3.z ==
          argmax_x || (isnan(input_x_3.z) && t_1) ? p_3 + 2 : 9223372036854775807ll;
      const int64 x_15 = input_x_3.w ==
          argmax_x || (isnan(input_x_3.w) && t_1) ? p_3 + 3 : 9223372036854775807ll;
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
    const int64 base = (int64)rounds * 4;
    if ((int)base < (int)mine) {
      int64 x = 9223372036854775807ll;
      int64 x_1 = 9223372036854775807ll;
      int64 x_2 = 9223372036854775807ll;
      int64 x_3 = 9223372036854775807ll;
      if ((int)base < (int)mine) {
        const int64 p = first + base * step;
        const float4 input_x = *reinterpret_cast<const float4*>(&input[(int)p]);
        const int64 x_4 = input_x.x ==
            argmax_x || (isnan(input_x.x) && t_1) ? p : 9223372036854775807ll;
        const int64 x_5 = input_x.y ==
            argmax_x || (isnan(input_x.y) && t_1) ? p + 1 : 9223372036854775807ll;
        const int64 x_6 = input_x.z ==
            argmax_x || (isnan(input_x.z) && t_1) ? p + 2 : 9223372036854775807ll;
        const int64 x_7 = input_x.w ==
            argmax_x || (isnan(input_x.w) && t_1) ? p + 3 : 9223372036854775807ll;
        x = x_4;
        x_1 = x_5;
        x_2 = x_6;
        x_3 = x_7;
      }
      int64 x_4 = 9223372036854775807ll;
      int64 x_5 = 9223372036854775807ll;
      int64 x_6 = 9223372036854775807ll;
      int64 x_7 = 9223372036854775807ll;
      if ((int)base + 1 < (int)mine) {
        const int64 p = first + (base + 1) * step;
        const float4 input_x = *reinterpret_cast<const float4*>(&input[(int)p]);
        const int64 x_8 = input_x.x ==
            argmax_x || (isnan(input_x.x) && t_1) ? p : 9223372036854775807ll;
        const int64 x_9 = input_x.y ==
            argmax_x || (isnan(input_x.y) && t_1) ? p + 1 : 9223372036854775807ll;
        const int64 x_10 = input_x.z ==
            argmax_x || (isnan(input_x.z) && t_1) ? p + 2 : 9223372036854775807ll;
        const int64 x_11 = input_x.w ==
            argmax_x || (isnan(input_x.w) && t_1) ? p + 3 : 9223372036854775807ll;
        x_4 = x_8;
        x_5 = x_9;
        x_6 = x_10;
        x_7 = x_11;
      }
      int64 x_8 = 9223372036854775807ll;
      int64 x_9 = 9223372036854775807ll;
      int64 x_10 = 9223372036854775807ll;
      int64 x_11 = 9223372036854775807ll;
      if ((int)base + 2 < (int)mine) {
        const int64 p = first + (base + 2) * step;
        const float4 input_x = *reinterpret_cast<const float4*>(&input[(int)p]);
        const int64 x_12 = input_x.x ==
            argmax_x || (isnan(input_x.x) && t_1) ? p : 9223372036854775807ll;
        const int64 x_13 = input_x.y ==
            argmax_x || (isnan(input_x.y) && t_1) ? p + 1 : 9223372036854775807ll;
        const int64 x_14 = input_x.z ==
            argmax_x || (isnan(input_x.z) && t_1) ? p + 2 : 9223372036854775807ll;
        const int64 x_15 = input_x.w ==
            argmax_x || (isnan(input_x.w) && t_1) ? p + 3 : 9223372036854775807ll;
        x_8 = x_12;
        x_9 = x_13;
        x_10 = x_14;
        x_11 = x_15;
      }
      int64 x_12 = 9223372036854775807ll;
      int64 x_13 = 9223372036854775807ll;
      int64 x_14 = 9223372036854775807ll;
      int64 x_15 = 9223372036854775807ll;
      if ((int)base + 3 < (int)mine) {
        const int64 p = first + (base + 3) * step;
        const float4 input_x = *reinterpret_cast<const float4*>(&input[(int)p]);
        const int64 x_16 = input_x.x ==
            argmax_x || (isnan(input_x.x) && t_1) ? p : 9223372036854775807ll;
        const int64 x_17 = input_x.y ==
            argmax_x || (isnan(input_x.y) && t_1) ? p + 1 : 9223372036854775807ll;
        const int64 x_18 = input_x.z ==
            argmax_x || (isnan(input_x.z) && t_1) ? p + 2 : 9223372036854775807ll;
        const int64 x_19 = input_x.w ==
            argmax_x || (isnan(input_x.w) && t_1) ? p + 3 : 9223372036854775807ll;
        x_12 = x_16;
        x_13 = x_17;
        x_14 = x_18;
        x_15 = x_19;
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
    const int64 p = first + mine * step;
    if ((int)p < part_stop) {
      const float input_x = input[(int)p];
      const int64 x = input_x ==
          argmax_x || (input_x != input_x && t_1) ? p : 9223372036854775807ll;
      total = min(total, x);
    }
    const int64 p_1 = p + 1;
    if ((int)p_1 < part_stop) {
      const float input_x = input[(int)p_1];
      const int64 x = input_x ==
          argmax_x || (input_x != input_x && t_1) ? p_1 : 9223372036854775807ll;
      total_1 = min(total_1, x);
    }
    const int64 p_2 = p + 2;
    if ((int)p_2 < part_stop) {
      const float input_x = input[(int)p_2];
      const int64 x = input_x ==
          argmax_x || (input_x != input_x && t_1) ? p_2 : 9223372036854775807ll;
      total_2 = min(total_2, x);
    }
  }
  total = min(total, total_1);
  total_2 = min(total_2, total_3);
  total = min(total, total_2);
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
    if (lane_1 == 0) {
      warp[thread >> 5] = total;
    }
    __syncthreads();
    const int warps = lanes >> 5;
    if (lane < 32) {
      const int64 warp_1 = warp[(thread >> 5) + min(lane_1, warps - 1)];
      total = warp_1;
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
      const int64 x = min(total, 9223372036854775807ll);
      out[0] = x;
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
                      int lanes_1, int span_1, int per_block_1, int lanes_1_multiplier,
                      int lanes_1_shift) {
  __shared__ int64 warp[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_1_multiplier, lanes_1_shift);
  const int lane = thread - t * lanes_1;
  const int own = task * per_block_1 + t;
  const int unit = min(own, 0);
  const int part_stop = min(span_1, parts);
  const int base = unit * parts;
  int64 total = 9223372036854775807ll;
  if (part_stop > 0) {
    const int all_have = quotient(max(part_stop, 0), lanes_1_multiplier, lanes_1_shift);
    const int mine = all_have + (lane < part_stop - all_have * lanes_1 ? 1 : 0);
    const int rounds = all_have >> 3;
    for (int round_ = 0; round_ < rounds; ++round_) {
      const int p = lane + round_ * 8 * lanes_1;
      const int p_1 = lane + (round_ * 8 + 1) * lanes_1;
      const int p_2 = lane + (round_ * 8 + 2) * lanes_1;
      const int p_3 = lane + (round_ * 8 + 3) * lanes_1;
      const int p_4 = lane + (round_ * 8 + 4) * lanes_1;
      const int p_5 = lane + (round_ * 8 + 5) * lanes_1;
      const int p_6 = lane + (round_ * 8 + 6) * lanes_1;
      const int p_7 = lane + (round_ * 8 + 7) * lanes_1;
      const int64 partial_x = partial[base + p];
      const int64 partial_x_1 = partial[base + p_1];
      const int64 partial_x_2 = partial[base + p_2];
      const int64 partial_x_3 = partial[base + p_3];
      const int64 partial_x_4 = partial[base + p_4];
      const int64 partial_x_5 = partial[base + p_5];
      const int64 partial_x_6 = partial[base + p_6];
      const int64 partial_x_7 = partial[base + p_7];
      total = min(total, partial_x);
      total = min(total, partial_x_1);
      total = min(total, partial_x_2);
      total = min(total, partial_x_3);
      total = min(total, partial_x_4);
      total = min(total, partial_x_5);
      total = min(total, partial_x_6);
      total = min(total, partial_x_7);
    }
    const int base_1 = rounds * 8;
    if (base_1 < mine) {
      int64 x = 9223372036854775807ll;
      if (base_1 < mine) {
        const int p = lane + base_1 * lanes_1;
        const int64 partial_x = partial[base + p];
        x = partial_x;
      }
      int64 x_1 = 9223372036854775807ll;
      if (base_1 + 1 < mine) {
        const int p = lane + (base_1 + 1) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_1 = partial_x;
      }
      int64 x_2 = 9223372036854775807ll;
      if (base_1 + 2 < mine) {
        const int p = lane + (base_1 + 2) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_2 = partial_x;
      }
      int64 x_3 = 9223372036854775807ll;
      if (base_1 + 3 < mine) {
        const int p = lane + (base_1 + 3) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_3 = partial_x;
      }
      int64 x_4 = 9223372036854775807ll;
      if (base_1 + 4 < mine) {
        const int p = lane + (base_1 + 4) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_4 = partial_x;
      }
      int64 x_5 = 9223372036854775807ll;
      if (base_1 + 5 < mine) {
        const int p = lane + (base_1 + 5) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_5 = partial_x;
      }
      int64 x_6 = 9223372036854775807ll;
      if (base_1 + 6 < mine) {
        const int p = lane + (base_1 + 6) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_6 = partial_x;
      }
      int64 x_7 = 9223372036854775807ll;
      if (base_1 + 7 < mine) {
        const int p = lane + (base_1 + 7) * lanes_1;
        const int64 partial_x = partial[base + p];
        x_7 = partial_x;
      }
      total = min(total, x);
      total = min(total, x_1);
      total = min(total, x_2);
      total = min(total, x_3);
      total = min(total, x_4);
      total = min(total, x_5);
      total = min(total, x_6);
      total = min(total, x_7);
    }
  }
  if (lanes_1 > 1) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 1);
    total = min(total, other);
  }
  if (lanes_1 > 2) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 2);
    total = min(total, other);
  }
  if (lanes_1 > 4) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 4);
    total = min(total, other);
  }
  if (lanes_1 > 8) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 8);
    total = min(total, other);
  }
  if (lanes_1 > 16) {
    const int64 other = __shfl_down_sync(0xffffffff, total, 16);
    total = min(total, other);
  }
  const int lane_1 = thread & 31;
  if (lanes_1 > 32) {
    if (lane_1 == 0) {
      warp[thread >> 5] = total;
    }
    __syncthreads();
    const int warps = lanes_1 >> 5;
    if (lane < 32) {
      const int64 warp_1 = warp[(thread >> 5) + min(lane_1, warps - 1)];
      total = warp_1;
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
    const int64 x = min(total, 9223372036854775807ll);
    out[0] = x;
  }
}
