// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// sum, test_kernel_text.py
// threads take elements round-robin
extern "C" __global__ void __launch_bounds__(256)
sum_blocks(const float* __restrict__ input, float* __restrict__ out,
                  float* __restrict__ partial, int count, int lanes, int parts, int span,
                  int per_block, int lanes_multiplier, int lanes_shift, int parts_multiplier,
                  int parts_shift) {
  __shared__ float warp_total[16];
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
  float total = -0.0f;
  float total_1 = -0.0f;
  float total_2 = -0.0f;
  float total_3 = -0.0f;
  if (part_start < part_stop) {
    const int whole = (part_stop - part_start) >> 2;
    const int all_have = quotient(max(whole, 0), lanes_multiplier, lanes_shift);
    const int mine = all_have + (lane < whole - all_have * lanes ? 1 : 0);
    const int rounds = all_have >> 2;
    const int first = part_start + lane * 4;
    const int step = lanes * 4;
    for (int iteration = 0; iteration < rounds; ++iteration) {
      // 4 loads on their way before the first is waited for.
      const int p = first + iteration * 4 * step;
      const int p_1 = first + (iteration * 4 + 1) * step;
      const int p_2 = first + (iteration * 4 + 2) * step;
      const int p_3 = first + (iteration * 4 + 3) * step;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[p]);
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[p_1]);
      const float4 input4_2 = *reinterpret_cast<const float4*>(&input[p_2]);
      const float4 input4_3 = *reinterpret_cast<const float4*>(&input[p_3]);
      total += input4.x;
      total_1 += input4.y;
      total_2 += input4.z;
      total_3 += input4.w;
      total += input4_1.x;
      total_1 += input4_1.y;
      total_2 += input4_1.z;
      total_3 += input4_1.w;
      total += input4_2.x;
      total_1 += input4_2.y;
      total_2 += input4_2.z;
      total_3 += input4_2.w;
      total += input4_3.x;
      total_1 += input4_3.y;
      total_2 += input4_3.z;
      total_3 += input4_3.w;
    }
    const int base = rounds * 4;
    if (base < mine) {
      // What is no whole round: neutral elements stand for what does not exist.
      const int p = first + base * step;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[p]);
      float x = -0.0f;
      float x_1 = -0.0f;
      float x_2 = -0.0f;
      float x_3 = -0.0f;
      if (base + 1 < mine) {
        const int p_1 = first + (base + 1) * step;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[p_1]);
        x = input4_1.x;
        x_1 = input4_1.y;
        x_2 = input4_1.z;
        x_3 = input4_1.w;
      }
      float x_4 = -0.0f;
      float x_5 = -0.0f;
      float x_6 = -0.0f;
      float x_7 = -0.0f;
      if (base + 2 < mine) {
        const int p_1 = first + (base + 2) * step;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[p_1]);
        x_4 = input4_1.x;
        x_5 = input4_1.y;
        x_6 = input4_1.z;
        x_7 = input4_1.w;
      }
      float x_8 = -0.0f;
      float x_9 = -0.0f;
      float x_10 = -0.0f;
      float x_11 = -0.0f;
      if (base + 3 < mine) {
        const int p_1 = first + (base + 3) * step;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[p_1]);
        x_8 = input4_1.x;
        x_9 = input4_1.y;
        x_10 = input4_1.z;
        x_11 = input4_1.w;
      }
      total += input4.x;
      total_1 += input4.y;
      total_2 += input4.z;
      total_3 += input4.w;
      total += x;
      total_1 += x_1;
      total_2 += x_2;
      total_3 += x_3;
      total += x_4;
      total_1 += x_5;
      total_2 += x_6;
      total_3 += x_7;
      total += x_8;
      total_1 += x_9;
      total_2 += x_10;
      total_3 += x_11;
    }
    // Elements that are no whole vector.
    const int p = first + mine * step;
    if (p < part_stop) {
      total += input[p];
    }
    const int p_1 = p + 1;
    if (p_1 < part_stop) {
      total_1 += input[p_1];
    }
    const int p_2 = p + 2;
    if (p_2 < part_stop) {
      total_2 += input[p_2];
    }
  }
  total += total_1;
  total_2 += total_3;
  total += total_2;
  // The lanes of a warp, by halves.
  if (lanes > 1) {
    const float other = __shfl_down_sync(0xffffffff, total, 1);
    total += other;
  }
  if (lanes > 2) {
    const float other = __shfl_down_sync(0xffffffff, total, 2);
    total += other;
  }
  if (lanes > 4) {
    const float other = __shfl_down_sync(0xffffffff, total, 4);
    total += other;
  }
  if (lanes > 8) {
    const float other = __shfl_down_sync(0xffffffff, total, 8);
    total += other;
  }
  if (lanes > 16) {
    const float other = __shfl_down_sync(0xffffffff, total, 16);
    total += other;
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
        const float other = __shfl_down_sync(0xffffffff, total, 1);
        total += other;
      }
      if (warps > 2) {
        const float other = __shfl_down_sync(0xffffffff, total, 2);
        total += other;
      }
      if (warps > 4) {
        const float other = __shfl_down_sync(0xffffffff, total, 4);
        total += other;
      }
      if (warps > 8) {
        const float other = __shfl_down_sync(0xffffffff, total, 8);
        total += other;
      }
    }
  }
  if (lane == 0 && own < parts) {
    if (parts == 1) {
      out[0] = 0.0f + total;
    } else {
      partial[row * parts + part] = total;
    }
  }
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// sum, test_kernel_text.py
// partial results from left to right
extern "C" __global__ void __launch_bounds__(512)
sum_combine(float* __restrict__ out, const float* __restrict__ partial, int parts,
                   int lanes, int span, int per_block, int lanes_multiplier, int lanes_shift) {
  __shared__ float warp_total[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, 0);
  const int part_stop = min(span, parts);
  const int base = unit * parts;
  float total = -0.0f;
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
      const float partial_value = partial[base + p];
      const float partial_value_1 = partial[base + p_1];
      const float partial_value_2 = partial[base + p_2];
      const float partial_value_3 = partial[base + p_3];
      const float partial_value_4 = partial[base + p_4];
      const float partial_value_5 = partial[base + p_5];
      const float partial_value_6 = partial[base + p_6];
      const float partial_value_7 = partial[base + p_7];
      total += partial_value;
      total += partial_value_1;
      total += partial_value_2;
      total += partial_value_3;
      total += partial_value_4;
      total += partial_value_5;
      total += partial_value_6;
      total += partial_value_7;
    }
    const int base_1 = rounds * 8;
    if (base_1 < mine) {
      // What is no whole round: neutral elements stand for what does not exist.
      const int p = lane + base_1 * lanes;
      const float partial_value = partial[base + p];
      float x = -0.0f;
      if (base_1 + 1 < mine) {
        const int p_1 = lane + (base_1 + 1) * lanes;
        x = partial[base + p_1];
      }
      float x_1 = -0.0f;
      if (base_1 + 2 < mine) {
        const int p_1 = lane + (base_1 + 2) * lanes;
        x_1 = partial[base + p_1];
      }
      float x_2 = -0.0f;
      if (base_1 + 3 < mine) {
        const int p_1 = lane + (base_1 + 3) * lanes;
        x_2 = partial[base + p_1];
      }
      float x_3 = -0.0f;
      if (base_1 + 4 < mine) {
        const int p_1 = lane + (base_1 + 4) * lanes;
        x_3 = partial[base + p_1];
      }
      float x_4 = -0.0f;
      if (base_1 + 5 < mine) {
        const int p_1 = lane + (base_1 + 5) * lanes;
        x_4 = partial[base + p_1];
      }
      float x_5 = -0.0f;
      if (base_1 + 6 < mine) {
        const int p_1 = lane + (base_1 + 6) * lanes;
        x_5 = partial[base + p_1];
      }
      float x_6 = -0.0f;
      if (base_1 + 7 < mine) {
        const int p_1 = lane + (base_1 + 7) * lanes;
        x_6 = partial[base + p_1];
      }
      total += partial_value;
      total += x;
      total += x_1;
      total += x_2;
      total += x_3;
      total += x_4;
      total += x_5;
      total += x_6;
    }
  }
  // The lanes of a warp, by halves.
  if (lanes > 1) {
    const float other = __shfl_down_sync(0xffffffff, total, 1);
    total += other;
  }
  if (lanes > 2) {
    const float other = __shfl_down_sync(0xffffffff, total, 2);
    total += other;
  }
  if (lanes > 4) {
    const float other = __shfl_down_sync(0xffffffff, total, 4);
    total += other;
  }
  if (lanes > 8) {
    const float other = __shfl_down_sync(0xffffffff, total, 8);
    total += other;
  }
  if (lanes > 16) {
    const float other = __shfl_down_sync(0xffffffff, total, 16);
    total += other;
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
        const float other = __shfl_down_sync(0xffffffff, total, 1);
        total += other;
      }
      if (warps > 2) {
        const float other = __shfl_down_sync(0xffffffff, total, 2);
        total += other;
      }
      if (warps > 4) {
        const float other = __shfl_down_sync(0xffffffff, total, 4);
        total += other;
      }
      if (warps > 8) {
        const float other = __shfl_down_sync(0xffffffff, total, 8);
        total += other;
      }
    }
  }
  if (lane == 0 && own < 1) {
    out[0] = 0.0f + total;
  }
}
