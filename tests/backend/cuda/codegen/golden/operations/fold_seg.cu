using int64 = long long;
using uint32 = unsigned int;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// fold_seg, test_kernel_text.py
// up to 256 segments a block
extern "C" __global__ void __launch_bounds__(256, 8)
fold_seg(const int64* __restrict__ offsets, const float* __restrict__ input,
                float* __restrict__ out, int n0, int n1, int blocks, int each, int beyond,
                int blocks_multiplier, int blocks_shift) {
  __shared__ int64 segment_end[257];
  __shared__ uint32 long_[8];
  __shared__ float warp_total[8];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int segment_start =
      (task - quotient(task, blocks_multiplier, blocks_shift) * blocks) * each;
  const int segment_stop = min(segment_start + each, n0);
  const int own = max(min(segment_stop - segment_start, 256), 1);
  // Where the segments of this block begin and end.
  for (int iteration = 0; iteration < ((own + 256) >> 8); ++iteration) {
    const int k = iteration * 256 + thread;
    if (k <= own) {
      segment_end[k] = offsets[segment_start + k];
    }
  }
  __syncthreads();
  const int end = min(max(segment_end[0], 0ll), (int64)n1);
  const int end_1 = min(max(segment_end[own], 0ll), (int64)n1);
  const int mean = max(end_1 - end, 0) / max(own, 1);
  const bool few = mean <= 64;
  const bool few_1 = mean <= 32;
  const bool few_2 = mean <= 16;
  const bool few_3 = mean <= 8;
  const bool few_4 = mean <= 4;
  const int lanes = few_4 ? 1 : few_3 ? 2 : few_2 ? 4 : few_1 ? 8 : few ? 16 : 32;
  // A bit for each segment that is long.
  const int segment = min(thread, own - 1);
  const int end_2 = min(max(segment_end[segment], 0ll), (int64)n1);
  const int end_3 = min(max(segment_end[segment + 1], 0ll), (int64)n1);
  const uint32 bits = __ballot_sync(0xffffffff, thread < own && lanes * 64 < end_3 - end_2);
  if ((thread & 31) == 0) {
    long_[thread >> 5] = bits;
  }
  // Segments that are not long: `lanes` threads each, side by side.
  const int t = thread >> (few_4 ? 0 : few_3 ? 1 : few_2 ? 2 : few_1 ? 3 : few ? 4 : 5);
  const int lane = thread - t * lanes;
  const int together = 256 / lanes;
  const int iteration_end = (own + together - 1) / together;
  for (int iteration = 0; iteration < iteration_end; ++iteration) {
    const int64 number = (int64)iteration * (int64)together + (int64)t;
    const int segment_1 = min(number, (int64)own - 1);
    const int end_4 = min(max(segment_end[segment_1], 0ll), (int64)n1);
    const int end_5 = min(max(segment_end[segment_1 + 1], 0ll), (int64)n1);
    const bool short_ = number < (int64)own && end_5 - end_4 <= lanes * 64;
    const int length = max(short_ ? end_5 - end_4 : 0, 0);
    const int stop_ = (unsigned)end_4 + length;
    float total = -0.0f;
    float total_1 = -0.0f;
    float total_2 = -0.0f;
    float total_3 = -0.0f;
    int p = min((int)((unsigned)((end_4 >> 2) * 4) + lane * 4), beyond);
    #pragma unroll 1
    while (p < stop_) {
      float x = -0.0f;
      float x_1 = -0.0f;
      float x_2 = -0.0f;
      float x_3 = -0.0f;
      const bool whole = (int)(p + 4u) <= n1;
      if (whole) {
        const float4 input4 = *reinterpret_cast<const float4*>(&input[p]);
        if (end_4 <= p && p < stop_) {
          x = input4.x;
        }
        const int q = p + 1u;
        if (end_4 <= q && q < stop_) {
          x_1 = input4.y;
        }
        const int q_1 = p + 2u;
        if (end_4 <= q_1 && q_1 < stop_) {
          x_2 = input4.z;
        }
        const int q_2 = p + 3u;
        if (end_4 <= q_2 && q_2 < stop_) {
          x_3 = input4.w;
        }
      } else {
        if (end_4 <= p && p < stop_) {
          x = input[p];
        }
        const int q = p + 1u;
        if (end_4 <= q && q < stop_) {
          x_1 = input[q];
        }
        const int q_1 = p + 2u;
        if (end_4 <= q_1 && q_1 < stop_) {
          x_2 = input[q_1];
        }
        const int q_2 = p + 3u;
        if (end_4 <= q_2 && q_2 < stop_) {
          x_3 = input[q_2];
        }
      }
      total += x;
      total_1 += x_1;
      total_2 += x_2;
      total_3 += x_3;
      p = min(max((int)((unsigned)p + lanes * 4), 0), beyond);
    }
    total += total_1;
    total_2 += total_3;
    total += total_2;
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
    if (lane == 0 && short_) {
      const int s = segment_start + segment_1;
      out[s] = 0.0f + total;
    }
  }
  __syncthreads();
  // Long segments, one after the other by the whole block.
  for (int word = 0; word < 8; ++word) {
    uint32 left = long_[word];
    #pragma unroll 1
    while (left != 0u) {
      const int segment_1 = word * 32 + __clz(__brev(left));
      const int end_4 = min(max(segment_end[segment_1], 0ll), (int64)n1);
      const int end_5 = min(max(segment_end[segment_1 + 1], 0ll), (int64)n1);
      float total = -0.0f;
      if (end_4 < end_5) {
        const int whole = end_5 - end_4;
        const int all_have = max(whole, 0) >> 8;
        const int mine = all_have + (thread < (int)((unsigned)whole - all_have * 256) ? 1 : 0);
        const int rounds = all_have >> 2;
        const int first = end_4 + thread;
        for (int iteration = 0; iteration < rounds; ++iteration) {
          // 4 loads on their way before the first is waited for.
          const int p = first + iteration * 1024;
          const int p_1 = first + (iteration * 4 + 1) * 256;
          const int p_2 = first + (iteration * 4 + 2) * 256;
          const int p_3 = first + (iteration * 4 + 3) * 256;
          const float input_p = input[p];
          const float input_p_1 = input[p_1];
          const float input_p_2 = input[p_2];
          const float input_p_3 = input[p_3];
          total += input_p;
          total += input_p_1;
          total += input_p_2;
          total += input_p_3;
        }
        const int base = rounds * 4;
        if (base < mine) {
          // What is no whole round: neutral elements stand for what does not exist.
          const int p = first + base * 256;
          const float input_p = input[p];
          float x = -0.0f;
          if (base + 1 < mine) {
            const int p_1 = first + (base + 1) * 256;
            x = input[p_1];
          }
          float x_1 = -0.0f;
          if (base + 2 < mine) {
            const int p_1 = first + (base + 2) * 256;
            x_1 = input[p_1];
          }
          float x_2 = -0.0f;
          if (base + 3 < mine) {
            const int p_1 = first + (base + 3) * 256;
            x_2 = input[p_1];
          }
          total += input_p;
          total += x;
          total += x_1;
          total += x_2;
        }
      }
      // The lanes of a warp, by halves.
      const float other = __shfl_down_sync(0xffffffff, total, 1);
      total += other;
      const float other_1 = __shfl_down_sync(0xffffffff, total, 2);
      total += other_1;
      const float other_2 = __shfl_down_sync(0xffffffff, total, 4);
      total += other_2;
      const float other_3 = __shfl_down_sync(0xffffffff, total, 8);
      total += other_3;
      const float other_4 = __shfl_down_sync(0xffffffff, total, 16);
      total += other_4;
      const int lane_1 = thread & 31;
      // Each warp leaves its total; the first warp combines them.
      if (lane_1 == 0) {
        warp_total[thread >> 5] = total;
      }
      __syncthreads();
      if ((thread & 255) < 32) {
        total = warp_total[(thread >> 5) + min(lane_1, 7)];
        const float other_5 = __shfl_down_sync(0xffffffff, total, 1);
        total += other_5;
        const float other_6 = __shfl_down_sync(0xffffffff, total, 2);
        total += other_6;
        const float other_7 = __shfl_down_sync(0xffffffff, total, 4);
        total += other_7;
      }
      if (thread == 0) {
        const int s = segment_start + segment_1;
        out[s] = 0.0f + total;
      }
      __syncthreads();
      left = left & (left + 0xffffffffu);
    }
  }
}
