using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// 4 short rows a thread
extern "C" __global__ void __launch_bounds__(256)
fold_short(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
                  int lanes, int per_block, int vectors, int lanes_multiplier, int lanes_shift) {
  float row[16];
  float total[4];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int first = lane * 4;
  const int begin = task * per_block * 4 + t;
  #pragma unroll
  for (int iteration = 0; iteration < 4; ++iteration) {
    const int row_1 = min(begin + per_block * iteration, n0 - 1);
    const int slot = iteration * 4;
    row[slot] = -0.0f;
    row[slot + 1] = -0.0f;
    row[slot + 2] = -0.0f;
    row[slot + 3] = -0.0f;
    if (first < n1) {
      const int at = row_1 * n1 + first;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      row[slot] = input4.x;
      row[slot + 1] = input4.y;
      row[slot + 2] = input4.z;
      row[slot + 3] = input4.w;
    }
  }
  #pragma unroll
  for (int iteration = 0; iteration < 4; ++iteration) {
    float total_1 = row[(int64)iteration * 4];
    const int slot = iteration * 4;
    total_1 += row[slot + 1];
    total_1 += row[slot + 2];
    total_1 += row[slot + 3];
    total[iteration] = total_1;
  }
  if (vectors > 1) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  if (vectors > 2) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  if (vectors > 3) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  if (vectors > 4) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  if (vectors > 5) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  if (vectors > 6) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  if (vectors > 7) {
    #pragma unroll
    for (int iteration = 0; iteration < 4; ++iteration) {
      const float other = __shfl_up_sync(0xffffffff, total[iteration], 1);
      float total_1 = other;
      const int slot = iteration * 4;
      total_1 += row[slot];
      total_1 += row[slot + 1];
      total_1 += row[slot + 2];
      total_1 += row[slot + 3];
      total[iteration] = total_1;
    }
  }
  #pragma unroll
  for (int iteration = 0; iteration < 4; ++iteration) {
    float total_1 = total[iteration];
    const int row_1 = begin + per_block * iteration;
    if (lane == vectors - 1 && row_1 < n0) {
      out[row_1] = 0.0f + total_1;
    }
  }
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// short rows, each from the left
extern "C" __global__ void __launch_bounds__(256)
fold_short(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
                  int lanes, int side, int each, int vectors, int pitch, int lanes_multiplier,
                  int lanes_shift) {
  float row[16];
  __shared__ __align__(16) float line[4608];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int base = task * each;
  #pragma unroll
  for (int iteration = 0; iteration < 4; ++iteration) {
    const int number = base + (t + side * iteration);
    const int row_1 = min(number, n0 - 1);
    const int slot = iteration * 4;
    row[slot] = -0.0f;
    row[slot + 1] = -0.0f;
    row[slot + 2] = -0.0f;
    row[slot + 3] = -0.0f;
    const int first = lane * 4;
    if (first < n1) {
      const int at = row_1 * n1 + first;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      row[slot] = input4.x;
      row[slot + 1] = input4.y;
      row[slot + 2] = input4.z;
      row[slot + 3] = input4.w;
    }
  }
  #pragma unroll
  for (int iteration = 0; iteration < 4; ++iteration) {
    const int line_1 = (t + side * iteration) * pitch;
    const int slot = iteration * 4;
    const int first = lane * 4;
    if (first < n1) {
      *reinterpret_cast<float4*>(&line[line_1 + first]) =
          make_float4(row[slot], row[slot + 1], row[slot + 2], row[slot + 3]);
    }
  }
  __syncthreads();
  for (int line_1 = thread; line_1 < each; line_1 += 256) {
    const int number = base + line_1;
    const int row_1 = min(number, n0 - 1);
    if (number < n0) {
      const int start = line_1 * pitch;
      float total = -0.0f;
      for (int q = 0; q < vectors; ++q) {
        const float4 x = *reinterpret_cast<const float4*>(&line[start + q * 4]);
        total += x.x;
        total += x.y;
        total += x.z;
        total += x.w;
      }
      out[row_1] = 0.0f + total;
    }
  }
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// threads take elements round-robin
extern "C" __global__ void __launch_bounds__(256)
fold_blocks(const float* __restrict__ input, float* __restrict__ out,
                   float* __restrict__ partial, int n1, int lanes, int parts, int span,
                   int per_block, int units, int lanes_multiplier, int lanes_shift,
                   int parts_multiplier, int parts_shift) {
  __shared__ float warp_total[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, units - 1);
  const int row = quotient(unit, parts_multiplier, parts_shift);
  const int part = unit - row * parts;
  const int part_start = part * span;
  const int part_stop = min(part_start + span, n1);
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
      const int at = row * n1 + p;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      const int at_1 = row * n1 + p_1;
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
      const int at_2 = row * n1 + p_2;
      const float4 input4_2 = *reinterpret_cast<const float4*>(&input[at_2]);
      const int at_3 = row * n1 + p_3;
      const float4 input4_3 = *reinterpret_cast<const float4*>(&input[at_3]);
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
      const int at = row * n1 + p;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      float x = -0.0f;
      float x_1 = -0.0f;
      float x_2 = -0.0f;
      float x_3 = -0.0f;
      if (base + 1 < mine) {
        const int p_1 = first + (base + 1) * step;
        const int at_1 = row * n1 + p_1;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
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
        const int at_1 = row * n1 + p_1;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
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
        const int at_1 = row * n1 + p_1;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
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
      total += input[row * n1 + p];
    }
    const int p_1 = p + 1;
    if (p_1 < part_stop) {
      total_1 += input[row * n1 + p_1];
    }
    const int p_2 = p + 2;
    if (p_2 < part_stop) {
      total_2 += input[row * n1 + p_2];
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
  if (lane == 0 && own < units) {
    if (parts == 1) {
      out[row] = 0.0f + total;
    } else {
      partial[row * parts + part] = total;
    }
  }
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// partial results from left to right
extern "C" __global__ void __launch_bounds__(512)
fold_combine(float* __restrict__ out, const float* __restrict__ partial, int n0, int parts,
                    int lanes, int span, int per_block, int lanes_multiplier, int lanes_shift) {
  __shared__ float warp_total[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, n0 - 1);
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
  if (lane == 0 && own < n0) {
    out[unit] = 0.0f + total;
  }
}
