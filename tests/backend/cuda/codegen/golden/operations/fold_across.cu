// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// short columns, each from the top
extern "C" __global__ void __launch_bounds__(256)
fold_short(const float* __restrict__ input, float* __restrict__ out, int n0, int count,
                  int groups, int groups_multiplier, int groups_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int unit = task * 256 + thread;
  if (unit < groups) {
    const int x = unit - quotient(unit, groups_multiplier, groups_shift) * groups;
    const int first = x * 4;
    const int column = min(first, n0 - 4);
    const bool inside = first < n0;
    float total = -0.0f;
    float total_1 = -0.0f;
    float total_2 = -0.0f;
    float total_3 = -0.0f;
    const int all_have = max(count, 0);
    const int rounds = all_have >> 2;
    for (int iteration = 0; iteration < rounds; ++iteration) {
      const int k = iteration * 4;
      const int k_1 = k + 1;
      const int k_2 = k + 2;
      const int k_3 = k + 3;
      const int at = k * n0 + column;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      const int at_1 = k_1 * n0 + column;
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
      const int at_2 = k_2 * n0 + column;
      const float4 input4_2 = *reinterpret_cast<const float4*>(&input[at_2]);
      const int at_3 = k_3 * n0 + column;
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
    if (base < all_have) {
      // What is no whole round: neutral elements stand for what does not exist.
      float x_1 = -0.0f;
      float x_2 = -0.0f;
      float x_3 = -0.0f;
      float x_4 = -0.0f;
      const int at = base * n0 + column;
      const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
      x_1 = input4.x;
      x_2 = input4.y;
      x_3 = input4.z;
      x_4 = input4.w;
      float x_5 = -0.0f;
      float x_6 = -0.0f;
      float x_7 = -0.0f;
      float x_8 = -0.0f;
      if (base + 1 < all_have) {
        const int k = base + 1;
        const int at_1 = k * n0 + column;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
        x_5 = input4_1.x;
        x_6 = input4_1.y;
        x_7 = input4_1.z;
        x_8 = input4_1.w;
      }
      float x_9 = -0.0f;
      float x_10 = -0.0f;
      float x_11 = -0.0f;
      float x_12 = -0.0f;
      if (base + 2 < all_have) {
        const int k = base + 2;
        const int at_1 = k * n0 + column;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
        x_9 = input4_1.x;
        x_10 = input4_1.y;
        x_11 = input4_1.z;
        x_12 = input4_1.w;
      }
      float x_13 = -0.0f;
      float x_14 = -0.0f;
      float x_15 = -0.0f;
      float x_16 = -0.0f;
      if (base + 3 < all_have) {
        const int k = base + 3;
        const int at_1 = k * n0 + column;
        const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
        x_13 = input4_1.x;
        x_14 = input4_1.y;
        x_15 = input4_1.z;
        x_16 = input4_1.w;
      }
      total += x_1;
      total_1 += x_2;
      total_2 += x_3;
      total_3 += x_4;
      total += x_5;
      total_1 += x_6;
      total_2 += x_7;
      total_3 += x_8;
      total += x_9;
      total_1 += x_10;
      total_2 += x_11;
      total_3 += x_12;
      total += x_13;
      total_1 += x_14;
      total_2 += x_15;
      total_3 += x_16;
    }
    if (inside) {
      out[column] = 0.0f + total;
    }
    if (inside) {
      out[column + 1] = 0.0f + total_1;
    }
    if (inside) {
      out[column + 2] = 0.0f + total_2;
    }
    if (inside) {
      out[column + 3] = 0.0f + total_3;
    }
  }
}

using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// columns side by side, threads take elements round-robin
extern "C" __global__ void __launch_bounds__(256)
fold_blocks(const float* __restrict__ input, float* __restrict__ out,
                   float* __restrict__ partial, int n0, int count, int width, int height,
                   int across, int parts, int span, int across_multiplier, int across_shift,
                   int parts_multiplier, int parts_shift, int width_multiplier, int width_shift,
                   int height_multiplier, int height_shift) {
  __shared__ float side[1024];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(task, across_multiplier, across_shift);
  const int plane = quotient(t, parts_multiplier, parts_shift);
  const int part = t - plane * parts;
  const int block = task - t * across;
  const int t_1 = quotient(thread, width_multiplier, width_shift);
  const int x = thread - t_1 * width;
  const int part_start = part * span;
  const int part_stop = min(part_start + span, count);
  const int mine = block * width + x;
  const int first = mine * 4;
  const int column = min(first, n0 - 4);
  const bool inside = first < n0;
  float total = -0.0f;
  float total_1 = -0.0f;
  float total_2 = -0.0f;
  float total_3 = -0.0f;
  const int all_have = quotient(max(part_stop - part_start, 0), height_multiplier, height_shift);
  const int mine_1 = t_1 < height
      ? all_have + (t_1 < max(part_stop - part_start, 0) - all_have * height ? 1 : 0) : 0;
  const int rounds = (t_1 < height ? all_have : 0) >> 2;
  const int first_1 = part_start + t_1;
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int k = first_1 + iteration * 4 * height;
    const int k_1 = first_1 + (iteration * 4 + 1) * height;
    const int k_2 = first_1 + (iteration * 4 + 2) * height;
    const int k_3 = first_1 + (iteration * 4 + 3) * height;
    const int at = k * n0 + column;
    const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
    const int at_1 = k_1 * n0 + column;
    const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
    const int at_2 = k_2 * n0 + column;
    const float4 input4_2 = *reinterpret_cast<const float4*>(&input[at_2]);
    const int at_3 = k_3 * n0 + column;
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
  if (base < mine_1) {
    // What is no whole round: neutral elements stand for what does not exist.
    float x_1 = -0.0f;
    float x_2 = -0.0f;
    float x_3 = -0.0f;
    float x_4 = -0.0f;
    const int k = first_1 + base * height;
    const int at = k * n0 + column;
    const float4 input4 = *reinterpret_cast<const float4*>(&input[at]);
    x_1 = input4.x;
    x_2 = input4.y;
    x_3 = input4.z;
    x_4 = input4.w;
    float x_5 = -0.0f;
    float x_6 = -0.0f;
    float x_7 = -0.0f;
    float x_8 = -0.0f;
    if (base + 1 < mine_1) {
      const int k_1 = first_1 + (base + 1) * height;
      const int at_1 = k_1 * n0 + column;
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
      x_5 = input4_1.x;
      x_6 = input4_1.y;
      x_7 = input4_1.z;
      x_8 = input4_1.w;
    }
    float x_9 = -0.0f;
    float x_10 = -0.0f;
    float x_11 = -0.0f;
    float x_12 = -0.0f;
    if (base + 2 < mine_1) {
      const int k_1 = first_1 + (base + 2) * height;
      const int at_1 = k_1 * n0 + column;
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
      x_9 = input4_1.x;
      x_10 = input4_1.y;
      x_11 = input4_1.z;
      x_12 = input4_1.w;
    }
    float x_13 = -0.0f;
    float x_14 = -0.0f;
    float x_15 = -0.0f;
    float x_16 = -0.0f;
    if (base + 3 < mine_1) {
      const int k_1 = first_1 + (base + 3) * height;
      const int at_1 = k_1 * n0 + column;
      const float4 input4_1 = *reinterpret_cast<const float4*>(&input[at_1]);
      x_13 = input4_1.x;
      x_14 = input4_1.y;
      x_15 = input4_1.z;
      x_16 = input4_1.w;
    }
    total += x_1;
    total_1 += x_2;
    total_2 += x_3;
    total_3 += x_4;
    total += x_5;
    total_1 += x_6;
    total_2 += x_7;
    total_3 += x_8;
    total += x_9;
    total_1 += x_10;
    total_2 += x_11;
    total_3 += x_12;
    total += x_13;
    total_1 += x_14;
    total_2 += x_15;
    total_3 += x_16;
  }
  // Rows of threads, by halves: one half hands its totals to the other.
  if (height > 1) {
    const int role = t_1 & 1;
    if (role == 1) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 1 < height) {
      total += side[thread + width];
      total_1 += side[thread + width + 256];
      total_2 += side[thread + width + 512];
      total_3 += side[thread + width + 768];
    }
  }
  if (height > 2) {
    const int role = t_1 & 3;
    if (role == 2) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 2 < height) {
      total += side[thread + width * 2];
      total_1 += side[thread + width * 2 + 256];
      total_2 += side[thread + width * 2 + 512];
      total_3 += side[thread + width * 2 + 768];
    }
  }
  if (height > 4) {
    const int role = t_1 & 7;
    if (role == 4) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 4 < height) {
      total += side[thread + width * 4];
      total_1 += side[thread + width * 4 + 256];
      total_2 += side[thread + width * 4 + 512];
      total_3 += side[thread + width * 4 + 768];
    }
  }
  if (height > 8) {
    const int role = t_1 & 15;
    if (role == 8) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 8 < height) {
      total += side[thread + width * 8];
      total_1 += side[thread + width * 8 + 256];
      total_2 += side[thread + width * 8 + 512];
      total_3 += side[thread + width * 8 + 768];
    }
  }
  if (height > 16) {
    const int role = t_1 & 31;
    if (role == 16) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 16 < height) {
      total += side[thread + width * 16];
      total_1 += side[thread + width * 16 + 256];
      total_2 += side[thread + width * 16 + 512];
      total_3 += side[thread + width * 16 + 768];
    }
  }
  if (height > 32) {
    const int role = t_1 & 63;
    if (role == 32) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 32 < height) {
      total += side[thread + width * 32];
      total_1 += side[thread + width * 32 + 256];
      total_2 += side[thread + width * 32 + 512];
      total_3 += side[thread + width * 32 + 768];
    }
  }
  if (height > 64) {
    const int role = t_1 & 127;
    if (role == 64) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 64 < height) {
      total += side[thread + width * 64];
      total_1 += side[thread + width * 64 + 256];
      total_2 += side[thread + width * 64 + 512];
      total_3 += side[thread + width * 64 + 768];
    }
  }
  if (height > 128) {
    const int role = t_1 & 255;
    if (role == 128) {
      side[thread] = total;
      side[thread + 256] = total_1;
      side[thread + 512] = total_2;
      side[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 128 < height) {
      total += side[thread + width * 128];
      total_1 += side[thread + width * 128 + 256];
      total_2 += side[thread + width * 128 + 512];
      total_3 += side[thread + width * 128 + 768];
    }
  }
  if (t_1 == 0) {
    if (inside) {
      if (parts == 1) {
        out[column] = 0.0f + total;
      } else {
        partial[(plane * parts + part) * n0 + column] = total;
      }
    }
    if (inside) {
      if (parts == 1) {
        out[column + 1] = 0.0f + total_1;
      } else {
        const int64 position = (plane * parts + part) * n0 + column;
        partial[position + 1] = total_1;
      }
    }
    if (inside) {
      if (parts == 1) {
        out[column + 2] = 0.0f + total_2;
      } else {
        const int64 position = (plane * parts + part) * n0 + column;
        partial[position + 2] = total_2;
      }
    }
    if (inside) {
      if (parts == 1) {
        out[column + 3] = 0.0f + total_3;
      } else {
        const int64 position = (plane * parts + part) * n0 + column;
        partial[position + 3] = total_3;
      }
    }
  }
}

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// partial results from top to bottom
extern "C" __global__ void __launch_bounds__(1024)
fold_combine(float* __restrict__ out, const float* __restrict__ partial, int n0, int parts,
                    int width, int height, int across, int span, int across_multiplier,
                    int across_shift, int width_multiplier, int width_shift,
                    int height_multiplier, int height_shift) {
  __shared__ float side[1024];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int plane = quotient(task, across_multiplier, across_shift);
  const int block = task - plane * across;
  const int t = quotient(thread, width_multiplier, width_shift);
  const int x = thread - t * width;
  const int part_stop = min(span, parts);
  const int begin = block * width;
  const int mine = begin + x;
  const int column = min(mine, n0 - 1);
  float total = -0.0f;
  const int all_have = quotient(max(part_stop, 0), height_multiplier, height_shift);
  const int mine_1 = t < height ? all_have + (t < max(part_stop, 0) - all_have * height ? 1 : 0)
      : 0;
  const int rounds = (t < height ? all_have : 0) >> 3;
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int k = t + iteration * 8 * height;
    const int k_1 = t + (iteration * 8 + 1) * height;
    const int k_2 = t + (iteration * 8 + 2) * height;
    const int k_3 = t + (iteration * 8 + 3) * height;
    const int k_4 = t + (iteration * 8 + 4) * height;
    const int k_5 = t + (iteration * 8 + 5) * height;
    const int k_6 = t + (iteration * 8 + 6) * height;
    const int k_7 = t + (iteration * 8 + 7) * height;
    const float partial_value = partial[(plane * parts + k) * n0 + column];
    const float partial_value_1 = partial[(plane * parts + k_1) * n0 + column];
    const float partial_value_2 = partial[(plane * parts + k_2) * n0 + column];
    const float partial_value_3 = partial[(plane * parts + k_3) * n0 + column];
    const float partial_value_4 = partial[(plane * parts + k_4) * n0 + column];
    const float partial_value_5 = partial[(plane * parts + k_5) * n0 + column];
    const float partial_value_6 = partial[(plane * parts + k_6) * n0 + column];
    const float partial_value_7 = partial[(plane * parts + k_7) * n0 + column];
    total += partial_value;
    total += partial_value_1;
    total += partial_value_2;
    total += partial_value_3;
    total += partial_value_4;
    total += partial_value_5;
    total += partial_value_6;
    total += partial_value_7;
  }
  const int base = rounds * 8;
  if (base < mine_1) {
    // What is no whole round: neutral elements stand for what does not exist.
    float x_1 = -0.0f;
    const int k = t + base * height;
    x_1 = partial[(plane * parts + k) * n0 + column];
    float x_2 = -0.0f;
    if (base + 1 < mine_1) {
      const int k_1 = t + (base + 1) * height;
      x_2 = partial[(plane * parts + k_1) * n0 + column];
    }
    float x_3 = -0.0f;
    if (base + 2 < mine_1) {
      const int k_1 = t + (base + 2) * height;
      x_3 = partial[(plane * parts + k_1) * n0 + column];
    }
    float x_4 = -0.0f;
    if (base + 3 < mine_1) {
      const int k_1 = t + (base + 3) * height;
      x_4 = partial[(plane * parts + k_1) * n0 + column];
    }
    float x_5 = -0.0f;
    if (base + 4 < mine_1) {
      const int k_1 = t + (base + 4) * height;
      x_5 = partial[(plane * parts + k_1) * n0 + column];
    }
    float x_6 = -0.0f;
    if (base + 5 < mine_1) {
      const int k_1 = t + (base + 5) * height;
      x_6 = partial[(plane * parts + k_1) * n0 + column];
    }
    float x_7 = -0.0f;
    if (base + 6 < mine_1) {
      const int k_1 = t + (base + 6) * height;
      x_7 = partial[(plane * parts + k_1) * n0 + column];
    }
    float x_8 = -0.0f;
    if (base + 7 < mine_1) {
      const int k_1 = t + (base + 7) * height;
      x_8 = partial[(plane * parts + k_1) * n0 + column];
    }
    total += x_1;
    total += x_2;
    total += x_3;
    total += x_4;
    total += x_5;
    total += x_6;
    total += x_7;
    total += x_8;
  }
  // Rows of threads, by halves: one half hands its totals to the other.
  if (height > 1) {
    const int role = t & 1;
    if (role == 1) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 1 < height) {
      total += side[thread + width];
    }
  }
  if (height > 2) {
    const int role = t & 3;
    if (role == 2) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 2 < height) {
      total += side[thread + width * 2];
    }
  }
  if (height > 4) {
    const int role = t & 7;
    if (role == 4) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 4 < height) {
      total += side[thread + width * 4];
    }
  }
  if (height > 8) {
    const int role = t & 15;
    if (role == 8) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 8 < height) {
      total += side[thread + width * 8];
    }
  }
  if (height > 16) {
    const int role = t & 31;
    if (role == 16) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 16 < height) {
      total += side[thread + width * 16];
    }
  }
  if (height > 32) {
    const int role = t & 63;
    if (role == 32) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 32 < height) {
      total += side[thread + width * 32];
    }
  }
  if (height > 64) {
    const int role = t & 127;
    if (role == 64) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 64 < height) {
      total += side[thread + width * 64];
    }
  }
  if (height > 128) {
    const int role = t & 255;
    if (role == 128) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 128 < height) {
      total += side[thread + width * 128];
    }
  }
  if (height > 256) {
    const int role = t & 511;
    if (role == 256) {
      side[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 256 < height) {
      total += side[thread + width * 256];
    }
  }
  if (t == 0 && mine < n0) {
    out[column] = 0.0f + total;
  }
}
