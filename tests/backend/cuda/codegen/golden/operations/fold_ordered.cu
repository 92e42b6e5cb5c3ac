using int64 = long long;
using uint64 = unsigned long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// in order
extern "C" __global__ void __launch_bounds__(256)
fold_blocks(const float* __restrict__ input, float* __restrict__ out0,
                   float* __restrict__ out1, float* __restrict__ partial,
                   float* __restrict__ partial_1, int n1, int lanes, int parts, int span,
                   int per_block, int units, int lanes_multiplier, int lanes_shift,
                   int parts_multiplier, int parts_shift, int tile_multiplier, int tile_shift,
                   int warps_multiplier, int warps_shift, int width_multiplier, int width_shift) {
  __shared__ float warp_total[16];
  __shared__ float warp_total_1[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, units - 1);
  const int row = quotient(unit, parts_multiplier, parts_shift);
  const int part = unit - row * parts;
  const int64 part_start = (int64)part * (int64)span;
  const int part_stop = min((int)part_start + span, n1);
  const int width = min(lanes, 32);
  const int warps = max(lanes >> 5, 1);
  const int tile = width * 16;
  const int length = max(part_stop - (int)part_start, 0);
  const int tiles = quotient(
      quotient(length + tile - 1, tile_multiplier, tile_shift) + warps - 1, warps_multiplier,
      warps_shift);
  const int share = tiles * tile;
  const int inside = lane - quotient(lane, width_multiplier, width_shift) * width;
  const int64 begin = part_start + (int64)(lane >> 5) * (int64)share;
  const int64 end = min(begin + (int64)share, (int64)part_stop);
  float total = 0.0f;
  float total_1 = 0.0f;
  for (int iteration = 0; iteration < tiles; ++iteration) {
    const int64 origin = begin + (int64)iteration * (int64)tile;
    const int64 first = origin + (int64)inside * 16;
    float part_1 = 0.0f;
    float part_2 = 0.0f;
    if (first + 16 <= end) {
      const int at = row * n1 + (int)first;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      const int p = (int)first + 4;
      const int at_1 = row * n1 + p;
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
      const int p_1 = (int)first + 8;
      const int at_2 = row * n1 + p_1;
      const float4 input4_2 = *reinterpret_cast<const float4*>(&input[at_2]);
      const int p_2 = (int)first + 12;
      const int at_3 = row * n1 + p_2;
      const float4 input4_3 = *reinterpret_cast<const float4*>(&input[at_3]);
      part_1 = input4.x;
      part_2 = input4.x;
      part_1 *= input4.y;
      part_2 = part_2 * input4.y + input4.y;
      part_1 *= input4.z;
      part_2 = part_2 * input4.z + input4.z;
      part_1 *= input4.w;
      part_2 = part_2 * input4.w + input4.w;
      part_1 *= input4_1.x;
      part_2 = part_2 * input4_1.x + input4_1.x;
      part_1 *= input4_1.y;
      part_2 = part_2 * input4_1.y + input4_1.y;
      part_1 *= input4_1.z;
      part_2 = part_2 * input4_1.z + input4_1.z;
      part_1 *= input4_1.w;
      part_2 = part_2 * input4_1.w + input4_1.w;
      part_1 *= input4_2.x;
      part_2 = part_2 * input4_2.x + input4_2.x;
      part_1 *= input4_2.y;
      part_2 = part_2 * input4_2.y + input4_2.y;
      part_1 *= input4_2.z;
      part_2 = part_2 * input4_2.z + input4_2.z;
      part_1 *= input4_2.w;
      part_2 = part_2 * input4_2.w + input4_2.w;
      part_1 *= input4_3.x;
      part_2 = part_2 * input4_3.x + input4_3.x;
      part_1 *= input4_3.y;
      part_2 = part_2 * input4_3.y + input4_3.y;
      part_1 *= input4_3.z;
      part_2 = part_2 * input4_3.z + input4_3.z;
      part_1 *= input4_3.w;
      part_2 = part_2 * input4_3.w + input4_3.w;
    } else {
      #pragma unroll 1
      for (int64 k = first; k < min(first + 16, end); ++k) {
        const float input_value = input[row * n1 + (int)k];
        if (k == first) {
          part_1 = input_value;
          part_2 = input_value;
        } else {
          part_1 *= input_value;
          part_2 = part_2 * input_value + input_value;
        }
      }
    }
    const int64 left = min((int64)((uint64)end - origin + 15ull) >> 4, (int64)width);
    if (width > 1) {
      const float other = __shfl_down_sync(0xffffffff, part_1, 1);
      const float other_1 = __shfl_down_sync(0xffffffff, part_2, 1);
      if ((int64)inside + 1 < left) {
        part_1 *= other;
        part_2 = part_2 * other + other_1;
      }
    }
    if (width > 2) {
      const float other = __shfl_down_sync(0xffffffff, part_1, 2);
      const float other_1 = __shfl_down_sync(0xffffffff, part_2, 2);
      if ((int64)inside + 2 < left) {
        part_1 *= other;
        part_2 = part_2 * other + other_1;
      }
    }
    if (width > 4) {
      const float other = __shfl_down_sync(0xffffffff, part_1, 4);
      const float other_1 = __shfl_down_sync(0xffffffff, part_2, 4);
      if ((int64)inside + 4 < left) {
        part_1 *= other;
        part_2 = part_2 * other + other_1;
      }
    }
    if (width > 8) {
      const float other = __shfl_down_sync(0xffffffff, part_1, 8);
      const float other_1 = __shfl_down_sync(0xffffffff, part_2, 8);
      if ((int64)inside + 8 < left) {
        part_1 *= other;
        part_2 = part_2 * other + other_1;
      }
    }
    if (width > 16) {
      const float other = __shfl_down_sync(0xffffffff, part_1, 16);
      const float other_1 = __shfl_down_sync(0xffffffff, part_2, 16);
      if ((int64)inside + 16 < left) {
        part_1 *= other;
        part_2 = part_2 * other + other_1;
      }
    }
    if (origin < end) {
      if (iteration == 0) {
        total = part_1;
        total_1 = part_2;
      } else {
        total *= part_1;
        total_1 = total_1 * part_1 + part_2;
      }
    }
  }
  const int valid = (length + max(share, 1) - 1) / max(share, 1);
  const int lane_1 = thread & 31;
  if (lanes > 32) {
    // Each warp leaves its total; the first warp combines them.
    if (lane_1 == 0) {
      warp_total[thread >> 5] = total;
      warp_total_1[thread >> 5] = total_1;
    }
    __syncthreads();
    const int warps_1 = lanes >> 5;
    if (lane < 32) {
      const int position = (thread >> 5) + min(lane_1, warps_1 - 1);
      total = warp_total[position];
      total_1 = warp_total_1[position];
      if (warps_1 > 1) {
        const float other = __shfl_down_sync(0xffffffff, total, 1);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 1);
        if (lane_1 + 1 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
      if (warps_1 > 2) {
        const float other = __shfl_down_sync(0xffffffff, total, 2);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 2);
        if (lane_1 + 2 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
      if (warps_1 > 4) {
        const float other = __shfl_down_sync(0xffffffff, total, 4);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 4);
        if (lane_1 + 4 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
      if (warps_1 > 8) {
        const float other = __shfl_down_sync(0xffffffff, total, 8);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 8);
        if (lane_1 + 8 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
    }
  }
  if (lane == 0 && own < units) {
    if (parts == 1) {
      float result = 1.0f;
      float result_1 = 0.0f;
      if (n1 > 0) {
        result = 1.0f * total;
        result_1 = 0.0f * total + total_1;
      }
      out0[row] = result;
      out1[row] = result_1;
    } else {
      partial[row * parts + part] = total;
      partial_1[row * parts + part] = total_1;
    }
  }
}

using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// partial results from left to right
extern "C" __global__ void __launch_bounds__(512)
fold_combine(float* __restrict__ out0, float* __restrict__ out1,
                    const float* __restrict__ partial, const float* __restrict__ partial_1,
                    int n0, int n1, int parts, int lanes, int span, int per_block,
                    int lanes_multiplier, int lanes_shift, int tile_multiplier, int tile_shift,
                    int warps_multiplier, int warps_shift, int width_multiplier, int width_shift,
                    int divisor_multiplier, int divisor_shift) {
  __shared__ float warp_total[16];
  __shared__ float warp_total_1[16];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, lanes_multiplier, lanes_shift);
  const int lane = thread - t * lanes;
  const int own = task * per_block + t;
  const int unit = min(own, n0 - 1);
  const int part_stop = min(span, parts);
  const int base = unit * parts;
  const int width = min(lanes, 32);
  const int warps = max(lanes >> 5, 1);
  const int tile = width * 4;
  const int length = max(part_stop, 0);
  const int tiles = quotient(
      quotient(length + tile - 1, tile_multiplier, tile_shift) + warps - 1, warps_multiplier,
      warps_shift);
  const int share = tiles * tile;
  const int inside = lane - quotient(lane, width_multiplier, width_shift) * width;
  const int64 begin = (int64)(lane >> 5) * (int64)share;
  const int64 end = min(begin + (int64)share, (int64)part_stop);
  float total = 0.0f;
  float total_1 = 0.0f;
  for (int iteration = 0; iteration < tiles; ++iteration) {
    const int64 origin = begin + (int64)iteration * (int64)tile;
    const int64 first = origin + (int64)inside * 4;
    float part = 0.0f;
    float part_1 = 0.0f;
    for (int64 k = first; k < min(first + 4, end); ++k) {
      const float partial_value = partial[base + (int)k];
      const float partial_1_value = partial_1[base + (int)k];
      if (k == first) {
        part = partial_value;
        part_1 = partial_1_value;
      } else {
        part *= partial_value;
        part_1 = part_1 * partial_value + partial_1_value;
      }
    }
    const int64 left = min((end - origin + 3) >> 2, (int64)width);
    if (width > 1) {
      const float other = __shfl_down_sync(0xffffffff, part, 1);
      const float other_1 = __shfl_down_sync(0xffffffff, part_1, 1);
      if ((int64)inside + 1 < left) {
        part *= other;
        part_1 = part_1 * other + other_1;
      }
    }
    if (width > 2) {
      const float other = __shfl_down_sync(0xffffffff, part, 2);
      const float other_1 = __shfl_down_sync(0xffffffff, part_1, 2);
      if ((int64)inside + 2 < left) {
        part *= other;
        part_1 = part_1 * other + other_1;
      }
    }
    if (width > 4) {
      const float other = __shfl_down_sync(0xffffffff, part, 4);
      const float other_1 = __shfl_down_sync(0xffffffff, part_1, 4);
      if ((int64)inside + 4 < left) {
        part *= other;
        part_1 = part_1 * other + other_1;
      }
    }
    if (width > 8) {
      const float other = __shfl_down_sync(0xffffffff, part, 8);
      const float other_1 = __shfl_down_sync(0xffffffff, part_1, 8);
      if ((int64)inside + 8 < left) {
        part *= other;
        part_1 = part_1 * other + other_1;
      }
    }
    if (width > 16) {
      const float other = __shfl_down_sync(0xffffffff, part, 16);
      const float other_1 = __shfl_down_sync(0xffffffff, part_1, 16);
      if ((int64)inside + 16 < left) {
        part *= other;
        part_1 = part_1 * other + other_1;
      }
    }
    if (origin < end) {
      if (iteration == 0) {
        total = part;
        total_1 = part_1;
      } else {
        total *= part;
        total_1 = total_1 * part + part_1;
      }
    }
  }
  const int valid = quotient(length + max(share, 1) - 1, divisor_multiplier, divisor_shift);
  const int lane_1 = thread & 31;
  if (lanes > 32) {
    // Each warp leaves its total; the first warp combines them.
    if (lane_1 == 0) {
      warp_total[thread >> 5] = total;
      warp_total_1[thread >> 5] = total_1;
    }
    __syncthreads();
    const int warps_1 = lanes >> 5;
    if (lane < 32) {
      const int position = (thread >> 5) + min(lane_1, warps_1 - 1);
      total = warp_total[position];
      total_1 = warp_total_1[position];
      if (warps_1 > 1) {
        const float other = __shfl_down_sync(0xffffffff, total, 1);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 1);
        if (lane_1 + 1 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
      if (warps_1 > 2) {
        const float other = __shfl_down_sync(0xffffffff, total, 2);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 2);
        if (lane_1 + 2 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
      if (warps_1 > 4) {
        const float other = __shfl_down_sync(0xffffffff, total, 4);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 4);
        if (lane_1 + 4 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
      if (warps_1 > 8) {
        const float other = __shfl_down_sync(0xffffffff, total, 8);
        const float other_1 = __shfl_down_sync(0xffffffff, total_1, 8);
        if (lane_1 + 8 < valid) {
          total *= other;
          total_1 = total_1 * other + other_1;
        }
      }
    }
  }
  if (lane == 0 && own < n0) {
    float result = 1.0f;
    float result_1 = 0.0f;
    if (n1 > 0) {
      result = 1.0f * total;
      result_1 = 0.0f * total + total_1;
    }
    out0[unit] = result;
    out1[unit] = result_1;
  }
}
