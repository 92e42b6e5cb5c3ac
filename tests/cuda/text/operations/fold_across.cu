using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold, test_kernel_text.py
// columns side by side, threads take turns
extern "C" __global__ void __launch_bounds__(256)
fold_blocks(const float* __restrict__ input, float* __restrict__ out,
                   float* __restrict__ partial, int n0, int count, int width, int height,
                   int across, int parts, int span, int across_multiplier, int across_shift,
                   int parts_multiplier, int parts_shift, int width_multiplier, int width_shift,
                   int height_multiplier, int height_shift) {
  __shared__ float side_1[1024];
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
  const int mine_1 = t_1 < height ? all_have
      + (t_1 < max(part_stop - part_start, 0) - all_have * height ? 1 : 0) : 0;
  const int rounds = (t_1 < height ? all_have : 0) >> 2;
  const int first_1 = part_start + t_1;
  for (int round_ = 0; round_ < rounds; ++round_) {
    const int k = first_1 + round_ * 4 * height;
    const int k_1 = first_1 + (round_ * 4 + 1) * height;
    const int k_2 = first_1 + (round_ * 4 + 2) * height;
    const int k_3 = first_1 + (round_ * 4 + 3) * height;
    const int at = k * n0 + column;
    const float4 input_x = *reinterpret_cast<const float4*>(&input[at]);
    const int at_1 = k_1 * n0 + column;
    const float4 input_x_1 = *reinterpret_cast<const float4*>(&input[at_1]);
    const int at_2 = k_2 * n0 + column;
    const float4 input_x_2 = *reinterpret_cast<const float4*>(&input[at_2]);
    const int at_3 = k_3 * n0 + column;
    const float4 input_x_3 = *reinterpret_cast<const float4*>(&input[at_3]);
    total += input_x.x;
    total_1 += input_x.y;
    total_2 += input_x.z;
    total_3 += input_x.w;
    total += input_x_1.x;
    total_1 += input_x_1.y;
    total_2 += input_x_1.z;
    total_3 += input_x_1.w;
    total += input_x_2.x;
    total_1 += input_x_2.y;
    total_2 += input_x_2.z;
    total_3 += input_x_2.w;
    total += input_x_3.x;
    total_1 += input_x_3.y;
    total_2 += input_x_3.z;
    total_3 += input_x_3.w;
  }
  const int base = rounds * 4;
  if (base < mine_1) {
    float x_1 = -0.0f;
    float x_2 = -0.0f;
    float x_3 = -0.0f;
    float x_4 = -0.0f;
    if (base < mine_1) {
      const int k = first_1 + base * height;
      const int at = k * n0 + column;
      const float4 input_x = *reinterpret_cast<const float4*>(&input[at]);
      x_1 = input_x.x;
      x_2 = input_x.y;
      x_3 = input_x.z;
      x_4 = input_x.w;
    }
    float x_5 = -0.0f;
    float x_6 = -0.0f;
    float x_7 = -0.0f;
    float x_8 = -0.0f;
    if (base + 1 < mine_1) {
      const int k = first_1 + (base + 1) * height;
      const int at = k * n0 + column;
      const float4 input_x = *reinterpret_cast<const float4*>(&input[at]);
      x_5 = input_x.x;
      x_6 = input_x.y;
      x_7 = input_x.z;
      x_8 = input_x.w;
    }
    float x_9 = -0.0f;
    float x_10 = -0.0f;
    float x_11 = -0.0f;
    float x_12 = -0.0f;
    if (base + 2 < mine_1) {
      const int k = first_1 + (base + 2) * height;
      const int at = k * n0 + column;
      const float4 input_x = *reinterpret_cast<const float4*>(&input[at]);
      x_9 = input_x.x;
      x_10 = input_x.y;
      x_11 = input_x.z;
      x_12 = input_x.w;
    }
    float x_13 = -0.0f;
    float x_14 = -0.0f;
    float x_15 = -0.0f;
    float x_16 = -0.0f;
    if (base + 3 < mine_1) {
      const int k = first_1 + (base + 3) * height;
      const int at = k * n0 + column;
      const float4 input_x = *reinterpret_cast<const float4*>(&input[at]);
      x_13 = input_x.x;
      x_14 = input_x.y;
      x_15 = input_x.z;
      x_16 = input_x.w;
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
  if (height > 1) {
    const int role = t_1 & 1;
    if (role == 1) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 1 < height) {
      const float side_1_1 = side_1[thread + width];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 2) {
    const int role = t_1 & 3;
    if (role == 2) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 2 < height) {
      const float side_1_1 = side_1[thread + width * 2];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 2 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 2 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 2 + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 4) {
    const int role = t_1 & 7;
    if (role == 4) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 4 < height) {
      const float side_1_1 = side_1[thread + width * 4];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 4 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 4 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 4 + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 8) {
    const int role = t_1 & 15;
    if (role == 8) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 8 < height) {
      const float side_1_1 = side_1[thread + width * 8];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 8 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 8 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 8 + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 16) {
    const int role = t_1 & 31;
    if (role == 16) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 16 < height) {
      const float side_1_1 = side_1[thread + width * 16];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 16 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 16 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 16 + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 32) {
    const int role = t_1 & 63;
    if (role == 32) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 32 < height) {
      const float side_1_1 = side_1[thread + width * 32];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 32 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 32 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 32 + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 64) {
    const int role = t_1 & 127;
    if (role == 64) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 64 < height) {
      const float side_1_1 = side_1[thread + width * 64];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 64 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 64 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 64 + 768];
      total_3 += side_1_4;
    }
  }
  if (height > 128) {
    const int role = t_1 & 255;
    if (role == 128) {
      side_1[thread] = total;
      side_1[thread + 256] = total_1;
      side_1[thread + 512] = total_2;
      side_1[thread + 768] = total_3;
    }
    __syncthreads();
    if (role == 0 && t_1 + 128 < height) {
      const float side_1_1 = side_1[thread + width * 128];
      total += side_1_1;
      const float side_1_2 = side_1[thread + width * 128 + 256];
      total_1 += side_1_2;
      const float side_1_3 = side_1[thread + width * 128 + 512];
      total_2 += side_1_3;
      const float side_1_4 = side_1[thread + width * 128 + 768];
      total_3 += side_1_4;
    }
  }
  if (t_1 == 0) {
    if (inside) {
      if (parts == 1) {
        const float x_1 = 0.0f + total;
        out[column] = x_1;
      } else {
        partial[(plane * parts + part) * n0 + column] = total;
      }
    }
    if (inside) {
      if (parts == 1) {
        const float x_1 = 0.0f + total_1;
        out[column + 1] = x_1;
      } else {
        const int64 t_2 = (plane * parts + part) * n0 + column;
        partial[t_2 + 1] = total_1;
      }
    }
    if (inside) {
      if (parts == 1) {
        const float x_1 = 0.0f + total_2;
        out[column + 2] = x_1;
      } else {
        const int64 t_2 = (plane * parts + part) * n0 + column;
        partial[t_2 + 2] = total_2;
      }
    }
    if (inside) {
      if (parts == 1) {
        const float x_1 = 0.0f + total_3;
        out[column + 3] = x_1;
      } else {
        const int64 t_2 = (plane * parts + part) * n0 + column;
        partial[t_2 + 3] = total_3;
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
                    int width_1, int height_1, int across_1, int span_1, int across_1_multiplier,
                    int across_1_shift, int width_1_multiplier, int width_1_shift,
                    int height_1_multiplier, int height_1_shift) {
  __shared__ float side_2[1024];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int plane = quotient(task, across_1_multiplier, across_1_shift);
  const int block = task - plane * across_1;
  const int t = quotient(thread, width_1_multiplier, width_1_shift);
  const int x = thread - t * width_1;
  const int part_stop = min(span_1, parts);
  const int begin = block * width_1;
  const int mine = begin + x;
  const int column = min(mine, n0 - 1);
  float total = -0.0f;
  const int all_have = quotient(max(part_stop, 0), height_1_multiplier, height_1_shift);
  const int mine_1 = t < height_1 ? all_have
      + (t < max(part_stop, 0) - all_have * height_1 ? 1 : 0) : 0;
  const int rounds = (t < height_1 ? all_have : 0) >> 3;
  for (int round_ = 0; round_ < rounds; ++round_) {
    const int k = t + round_ * 8 * height_1;
    const int k_1 = t + (round_ * 8 + 1) * height_1;
    const int k_2 = t + (round_ * 8 + 2) * height_1;
    const int k_3 = t + (round_ * 8 + 3) * height_1;
    const int k_4 = t + (round_ * 8 + 4) * height_1;
    const int k_5 = t + (round_ * 8 + 5) * height_1;
    const int k_6 = t + (round_ * 8 + 6) * height_1;
    const int k_7 = t + (round_ * 8 + 7) * height_1;
    const float partial_x = partial[(plane * parts + k) * n0 + column];
    const float partial_x_1 = partial[(plane * parts + k_1) * n0 + column];
    const float partial_x_2 = partial[(plane * parts + k_2) * n0 + column];
    const float partial_x_3 = partial[(plane * parts + k_3) * n0 + column];
    const float partial_x_4 = partial[(plane * parts + k_4) * n0 + column];
    const float partial_x_5 = partial[(plane * parts + k_5) * n0 + column];
    const float partial_x_6 = partial[(plane * parts + k_6) * n0 + column];
    const float partial_x_7 = partial[(plane * parts + k_7) * n0 + column];
    total += partial_x;
    total += partial_x_1;
    total += partial_x_2;
    total += partial_x_3;
    total += partial_x_4;
    total += partial_x_5;
    total += partial_x_6;
    total += partial_x_7;
  }
  const int base = rounds * 8;
  if (base < mine_1) {
    float x_1 = -0.0f;
    if (base < mine_1) {
      const int k = t + base * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_1 = partial_x;
    }
    float x_2 = -0.0f;
    if (base + 1 < mine_1) {
      const int k = t + (base + 1) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_2 = partial_x;
    }
    float x_3 = -0.0f;
    if (base + 2 < mine_1) {
      const int k = t + (base + 2) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_3 = partial_x;
    }
    float x_4 = -0.0f;
    if (base + 3 < mine_1) {
      const int k = t + (base + 3) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_4 = partial_x;
    }
    float x_5 = -0.0f;
    if (base + 4 < mine_1) {
      const int k = t + (base + 4) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_5 = partial_x;
    }
    float x_6 = -0.0f;
    if (base + 5 < mine_1) {
      const int k = t + (base + 5) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_6 = partial_x;
    }
    float x_7 = -0.0f;
    if (base + 6 < mine_1) {
      const int k = t + (base + 6) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_7 = partial_x;
    }
    float x_8 = -0.0f;
    if (base + 7 < mine_1) {
      const int k = t + (base + 7) * height_1;
      const float partial_x = partial[(plane * parts + k) * n0 + column];
      x_8 = partial_x;
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
  if (height_1 > 1) {
    const int role = t & 1;
    if (role == 1) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 1 < height_1) {
      const float side_2_1 = side_2[thread + width_1];
      total += side_2_1;
    }
  }
  if (height_1 > 2) {
    const int role = t & 3;
    if (role == 2) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 2 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 2];
      total += side_2_1;
    }
  }
  if (height_1 > 4) {
    const int role = t & 7;
    if (role == 4) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 4 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 4];
      total += side_2_1;
    }
  }
  if (height_1 > 8) {
    const int role = t & 15;
    if (role == 8) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 8 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 8];
      total += side_2_1;
    }
  }
  if (height_1 > 16) {
    const int role = t & 31;
    if (role == 16) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 16 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 16];
      total += side_2_1;
    }
  }
  if (height_1 > 32) {
    const int role = t & 63;
    if (role == 32) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 32 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 32];
      total += side_2_1;
    }
  }
  if (height_1 > 64) {
    const int role = t & 127;
    if (role == 64) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 64 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 64];
      total += side_2_1;
    }
  }
  if (height_1 > 128) {
    const int role = t & 255;
    if (role == 128) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 128 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 128];
      total += side_2_1;
    }
  }
  if (height_1 > 256) {
    const int role = t & 511;
    if (role == 256) {
      side_2[thread] = total;
    }
    __syncthreads();
    if (role == 0 && t + 256 < height_1) {
      const float side_2_1 = side_2[thread + width_1 * 256];
      total += side_2_1;
    }
  }
  if (t == 0) {
    if (mine < n0) {
      const float x_1 = 0.0f + total;
      out[column] = x_1;
    }
  }
}
