using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// scanr_total, test_kernel_text.py
// several rows to a block
extern "C" __global__ void __launch_bounds__(256)
scanr_total_rows(const float* __restrict__ input, float* __restrict__ out0,
                        float* __restrict__ out0_1, int n0, int width, int rows_per_block,
                        int width_multiplier, int width_shift) {
  float inside[16];
  float before[4];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, width_multiplier, width_shift);
  const int lane = thread - t * width;
  const int own = task * rows_per_block + t;
  const int row = min(own, 0);
  const bool owner = own < 1;
  const int end = (thread & 31) - lane + width - 1;
  float carry = 0.0f;
  const int step = width * 4;
  const int chunk = step * 4;
  const int turn_end = (n0 + chunk - 1) / chunk;
  for (int turn = 0; turn < turn_end; ++turn) {
    const int origin = turn * chunk;
    const int first = origin + lane * 4;
    const float base = carry;
    const bool by_vectors = (n0 & 3) == 0;
    if (by_vectors) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const int p_1 = min(p, n0 - 4);
        const int at = n0 + (0 - p_1);
        const float4 input_x = *reinterpret_cast<const float4*>(&input[at - 4]);
        const float x = input_x.z + input_x.w;
        const float x_1 = input_x.y + x;
        const float x_2 = input_x.x + x_1;
        const int slot = j * 4;
        inside[slot] = input_x.w;
        inside[slot + 1] = x;
        inside[slot + 2] = x_1;
        inside[slot + 3] = x_2;
        before[j] = x_2;
      }
    } else {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const int p_1 = min(p, n0 - 1);
        const float input_x = input[n0 - p_1 - 1];
        const int p_2 = min(p + 1, n0 - 1);
        const float input_x_1 = input[n0 - p_2 - 1];
        const int p_3 = min(p + 2, n0 - 1);
        const float input_x_2 = input[n0 - p_3 - 1];
        const int p_4 = min(p + 3, n0 - 1);
        const float input_x_3 = input[n0 - p_4 - 1];
        const float x = input_x_1 + input_x;
        const float x_1 = input_x_2 + x;
        const float x_2 = input_x_3 + x_1;
        const int slot = j * 4;
        inside[slot] = input_x;
        inside[slot + 1] = x;
        inside[slot + 2] = x_1;
        inside[slot + 3] = x_2;
        before[j] = x_2;
      }
    }
    if (width > 1) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_1 = before[j];
        const float other = __shfl_up_sync(0xffffffff, before_1, 1);
        if (lane >= 1) {
          const float x = before_1 + other;
          before[j] = x;
        }
      }
    }
    if (width > 2) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_1 = before[j];
        const float other = __shfl_up_sync(0xffffffff, before_1, 2);
        if (lane >= 2) {
          const float x = before_1 + other;
          before[j] = x;
        }
      }
    }
    if (width > 4) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_1 = before[j];
        const float other = __shfl_up_sync(0xffffffff, before_1, 4);
        if (lane >= 4) {
          const float x = before_1 + other;
          before[j] = x;
        }
      }
    }
    if (width > 8) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_1 = before[j];
        const float other = __shfl_up_sync(0xffffffff, before_1, 8);
        if (lane >= 8) {
          const float x = before_1 + other;
          before[j] = x;
        }
      }
    }
    if (width > 16) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_1 = before[j];
        const float other = __shfl_up_sync(0xffffffff, before_1, 16);
        if (lane >= 16) {
          const float x = before_1 + other;
          before[j] = x;
        }
      }
    }
    float run = -0.0f;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float before_1 = before[j];
      const float other = __shfl_sync(0xffffffff, before_1, end);
      const float other_1 = __shfl_up_sync(0xffffffff, before_1, 1);
      before[j] = run;
      if (lane > 0) {
        const float x = other_1 + run;
        before[j] = x;
      }
      const float x = other + run;
      run = x;
    }
    if (by_vectors) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float before_1 = before[j];
        const float x = before_1 + base;
        const int slot = j * 4;
        const float inside_1 = inside[slot];
        const float inside_2 = inside[slot + 1];
        const float inside_3 = inside[slot + 2];
        const float inside_4 = inside[slot + 3];
        const float x_1 = inside_1 + x;
        const float x_2 = inside_2 + x;
        const float x_3 = inside_3 + x;
        const float x_4 = inside_4 + x;
        if (owner) {
          if (p < n0) {
            const int at = n0 - p - 4;
            __stcs(reinterpret_cast<float4*>(&out0[at]), make_float4(x_3, x_2, x_1, x));
          }
          if (p < n0 && n0 <= p + 4) {
            float final = x_1;
            if (p + 2 == n0) {
              final = x_2;
            }
            if (p + 3 == n0) {
              final = x_3;
            }
            if (p + 4 == n0) {
              final = x_4;
            }
            out0_1[0] = final;
          }
        }
      }
    } else {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float before_1 = before[j];
        const float x = before_1 + base;
        const int slot = j * 4;
        const float inside_1 = inside[slot];
        const float inside_2 = inside[slot + 1];
        const float inside_3 = inside[slot + 2];
        const float inside_4 = inside[slot + 3];
        const float x_1 = inside_1 + x;
        const float x_2 = inside_2 + x;
        const float x_3 = inside_3 + x;
        const float x_4 = inside_4 + x;
        if (owner) {
          if (p < n0) {
            out0[n0 - p - 1] = x;
          }
          if (p + 1 < n0) {
            const int p_1 = p + 1;
            out0[n0 - p_1 - 1] = x_1;
          }
          if (p + 2 < n0) {
            const int p_1 = p + 2;
            out0[n0 - p_1 - 1] = x_2;
          }
          if (p + 3 < n0) {
            const int p_1 = p + 3;
            out0[n0 - p_1 - 1] = x_3;
          }
          if (p < n0 && n0 <= p + 4) {
            float final = x_1;
            if (p + 2 == n0) {
              final = x_2;
            }
            if (p + 3 == n0) {
              final = x_3;
            }
            if (p + 4 == n0) {
              final = x_4;
            }
            out0_1[0] = final;
          }
        }
      }
    }
    const float x = run + carry;
    carry = x;
  }
  if (n0 == 0 && owner && lane == 0) {
    out0_1[0] = carry;
  }
}

using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;

__device__ __forceinline__ void publish_relaxed(uint64* place, uint64 x) {
  asm volatile("st.relaxed.gpu.b64 [%0], %1;" : : "l"(place), "l"(x) : "memory");
}

__device__ __forceinline__ uint64 fetch_relaxed(const uint64* place) {
  uint64 x;
  asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(x) : "l"(place) : "memory");
  return x;
}

// scanr_total, test_kernel_text.py
// tiles of 24576 elements, in one pass
extern "C" __global__ void __launch_bounds__(512, 2)
scanr_total_tiles(const float* __restrict__ input, float* __restrict__ out0,
                         float* __restrict__ out0_1, uint64* __restrict__ zero_state, int n0,
                         int tiles, int all_tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  int* const ticket = reinterpret_cast<int*>(shared_memory);
  float* const inside_1 = reinterpret_cast<float*>(shared_memory + 16);
  float before_1[12];
  float* const warp = reinterpret_cast<float*>(shared_memory + 98320);
  float* const warp_prefix = reinterpret_cast<float*>(shared_memory + 98384);
  int64* const nearest = reinterpret_cast<int64*>(shared_memory + 98448);
  float* const head = reinterpret_cast<float*>(shared_memory + 98464);
  float* const sum = reinterpret_cast<float*>(shared_memory + 98480);
  const int thread = threadIdx.x;
  const int lane = thread & 31;
  const int warp_1 = thread >> 5;
  if (thread == 0) {
    const uint64 taken = atomicAdd(zero_state, 1ull);
    ticket[0] = taken;
  }
  __syncthreads();
  const int ticket_1 = ticket[0];
  const int number = min(max(ticket_1, 0), all_tiles - 1);
  const int tile_start = number * 24576u;
  const int tile_stop = min((int)(tile_start + 24576u), n0);
  const int first = (unsigned)tile_start + (warp_1 * 1536 + lane * 4);
  const bool whole = (int)((unsigned)tile_stop - tile_start) == 24576;
  const bool by_vectors = (n0 & 3) == 0;
  if (whole) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = first + j * 128;
      const int at = n0 + (0 - p);
      const float4 input_x = *reinterpret_cast<const float4*>(&input[at - 4]);
      const float x = input_x.z + input_x.w;
      const float x_1 = input_x.y + x;
      const float x_2 = input_x.x + x_1;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input_x.w, x, x_1, x_2);
      before_1[j] = x_2;
    }
  } else if (by_vectors) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const int p_1 = min(p, n0 - 4);
      const int at = n0 + (0 - p_1);
      const float4 input_x = *reinterpret_cast<const float4*>(&input[at - 4]);
      const float x = input_x.z + input_x.w;
      const float x_1 = input_x.y + x;
      const float x_2 = input_x.x + x_1;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input_x.w, x, x_1, x_2);
      before_1[j] = x_2;
    }
  } else {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const int p_1 = min(p, n0 - 1);
      const float input_x = input[n0 - p_1 - 1];
      const int p_2 = min((int)(p + 1u), n0 - 1);
      const float input_x_1 = input[n0 - p_2 - 1];
      const int p_3 = min((int)(p + 2u), n0 - 1);
      const float input_x_2 = input[n0 - p_3 - 1];
      const int p_4 = min((int)(p + 3u), n0 - 1);
      const float input_x_3 = input[n0 - p_4 - 1];
      const float x = input_x_1 + input_x;
      const float x_1 = input_x_2 + x;
      const float x_2 = input_x_3 + x_1;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input_x, x, x_1, x_2);
      before_1[j] = x_2;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 1);
    if (lane >= 1) {
      const float x = before_1_1 + other;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 2);
    if (lane >= 2) {
      const float x = before_1_1 + other;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 4);
    if (lane >= 4) {
      const float x = before_1_1 + other;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 8);
    if (lane >= 8) {
      const float x = before_1_1 + other;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 16);
    if (lane >= 16) {
      const float x = before_1_1 + other;
      before_1[j] = x;
    }
  }
  float run = -0.0f;
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_sync(0xffffffff, before_1_1, 31);
    const float other_1 = __shfl_up_sync(0xffffffff, before_1_1, 1);
    before_1[j] = run;
    if (lane > 0) {
      const float x = other_1 + run;
      before_1[j] = x;
    }
    const float x = other + run;
    run = x;
  }
  if (lane == 0) {
    warp[warp_1] = run;
  }
  __syncthreads();
  const int group = number / 32;
  const int place = number % 32;
  const int own = group - warp_1;
  const int tile_slot = own * 32 + lane;
  const bool wanted = warp_1 <= 8 && own >= 0 && (warp_1 > 0 || lane < place);
  uint64 word = wanted ? 0ull : 4294967296ull;
  const bool first_warp = warp_1 == 0;
  if (first_warp) {
    const float warp_2 = warp[min(lane, 15)];
    float prefix = warp_2;
    const float other = __shfl_up_sync(0xffffffff, prefix, 1);
    if (lane >= 1) {
      prefix += other;
    }
    const float other_1 = __shfl_up_sync(0xffffffff, prefix, 2);
    if (lane >= 2) {
      prefix += other_1;
    }
    const float other_2 = __shfl_up_sync(0xffffffff, prefix, 4);
    if (lane >= 4) {
      prefix += other_2;
    }
    const float other_3 = __shfl_up_sync(0xffffffff, prefix, 8);
    if (lane >= 8) {
      prefix += other_3;
    }
    if (lane < 16) {
      warp_prefix[lane] = prefix;
    }
    if (lane == 15 && number + 1 < tiles) {
      const int word_1 = number + 1;
      publish_relaxed(
          &zero_state[word_1],
          (uint64)(uint32)__float_as_uint(prefix) | 4294967296ull);
    }
    const int mine = group - lane;
    const bool near = lane <= 8;
    const bool asked = near && mine > 0;
    uint64 word_1 = asked ? 0ull : 4294967296ull;
    int64 away = 0;
    #pragma unroll 1
    while (true) {
      if (word_1 < 4294967296ull) {
        const int word_2 = all_tiles + mine + 1;
        const uint64 got = fetch_relaxed(&zero_state[word_2]);
        word_1 = got;
      }
      if (word < 4294967296ull) {
        const int word_2 = tile_slot + 1;
        const uint64 got = fetch_relaxed(&zero_state[word_2]);
        word = got;
      }
      const uint32 starts = __ballot_sync(0xffffffff, near && word_1 >= 4294967296ull);
      away = __clz(__brev(starts));
      const uint32 lacking = __ballot_sync(0xffffffff, word < 4294967296ull || (int)away >= 32);
      if (lacking == 0u) break;
    }
    if (lane == (int)away) {
      nearest[0] = away;
      head[0] = __uint_as_float((uint32)word_1);
    }
  } else if (word < 4294967296ull) {
    const int word_1 = tile_slot + 1;
    const uint64 got = fetch_relaxed(&zero_state[word_1]);
    word = got;
  }
  __syncthreads();
  const int64 nearest_1 = nearest[0];
  if ((int64)warp_1 <= nearest_1) {
    #pragma unroll 1
    while (true) {
      const uint32 lacking = __ballot_sync(0xffffffff, word < 4294967296ull);
      if (lacking == 0u) break;
      if (word < 4294967296ull) {
        const int word_1 = tile_slot + 1;
        const uint64 got = fetch_relaxed(&zero_state[word_1]);
        word = got;
      }
    }
    float sum_1 = __uint_as_float((uint32)word);
    if (first_warp && place == 31) {
      float whole_1 = sum_1;
      if (lane == 31) {
        const float warp_prefix_1 = warp_prefix[15];
        whole_1 = warp_prefix_1;
      }
      const float other = __shfl_down_sync(0xffffffff, whole_1, 1);
      whole_1 += other;
      const float other_1 = __shfl_down_sync(0xffffffff, whole_1, 2);
      whole_1 += other_1;
      const float other_2 = __shfl_down_sync(0xffffffff, whole_1, 4);
      whole_1 += other_2;
      const float other_3 = __shfl_down_sync(0xffffffff, whole_1, 8);
      whole_1 += other_3;
      const float other_4 = __shfl_down_sync(0xffffffff, whole_1, 16);
      whole_1 += other_4;
      if (lane == 0) {
        sum[9] = whole_1;
      }
    }
    if ((first_warp ? place : 32) <= lane) {
      sum_1 = -0.0f;
    }
    const float other = __shfl_down_sync(0xffffffff, sum_1, 1);
    sum_1 += other;
    const float other_1 = __shfl_down_sync(0xffffffff, sum_1, 2);
    sum_1 += other_1;
    const float other_2 = __shfl_down_sync(0xffffffff, sum_1, 4);
    sum_1 += other_2;
    const float other_3 = __shfl_down_sync(0xffffffff, sum_1, 8);
    sum_1 += other_3;
    const float other_4 = __shfl_down_sync(0xffffffff, sum_1, 16);
    sum_1 += other_4;
    if (lane == 0) {
      sum[warp_1] = sum_1;
    }
  }
  __syncthreads();
  const int64 nearest_2 = nearest[0];
  const bool begun = nearest_2 < (int64)group;
  const float head_1 = head[0];
  float before = head_1;
  if (!begun) {
    before = 0.0f;
  }
  if (nearest_2 >= 8) {
    const float sum_1 = sum[8];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 7) {
    const float sum_1 = sum[7];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 6) {
    const float sum_1 = sum[6];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 5) {
    const float sum_1 = sum[5];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 4) {
    const float sum_1 = sum[4];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 3) {
    const float sum_1 = sum[3];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 2) {
    const float sum_1 = sum[2];
    const float x = sum_1 + before;
    before = x;
  }
  if (nearest_2 >= 1) {
    const float sum_1 = sum[1];
    const float x = sum_1 + before;
    before = x;
  }
  if (thread == 0 && place == 31 && number + 1 < tiles) {
    const float sum_1 = sum[9];
    float whole_1 = sum_1;
    const float x = whole_1 + before;
    whole_1 = x;
    const int word_1 = all_tiles + group + 2;
    publish_relaxed(
        &zero_state[word_1],
        (uint64)(uint32)__float_as_uint(whole_1) | 4294967296ull);
  }
  if (place > 0) {
    const float sum_1 = sum[0];
    const float x = sum_1 + before;
    before = x;
  }
  if (warp_1 > 0) {
    const float warp_prefix_1 = warp_prefix[warp_1 - 1];
    const float x = warp_prefix_1 + before;
    before = x;
  }
  if (whole) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const float before_1_1 = before_1[j];
      const float x = before_1_1 + before;
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_x = *reinterpret_cast<const float4*>(&inside_1[slot]);
      const float x_1 = inside_1_x.x + x;
      const float x_2 = inside_1_x.y + x;
      const float x_3 = inside_1_x.z + x;
      const float x_4 = inside_1_x.w + x;
      const int at = n0 - p - 4;
      __stcs(reinterpret_cast<float4*>(&out0[at]), make_float4(x_3, x_2, x_1, x));
      if (p < n0 && n0 <= (int)(p + 4u)) {
        float final = x_1;
        if ((int)(p + 2u) == n0) {
          final = x_2;
        }
        if ((int)(p + 3u) == n0) {
          final = x_3;
        }
        if ((int)(p + 4u) == n0) {
          final = x_4;
        }
        out0_1[0] = final;
      }
    }
  } else if (by_vectors) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const float before_1_1 = before_1[j];
      const float x = before_1_1 + before;
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_x = *reinterpret_cast<const float4*>(&inside_1[slot]);
      const float x_1 = inside_1_x.x + x;
      const float x_2 = inside_1_x.y + x;
      const float x_3 = inside_1_x.z + x;
      const float x_4 = inside_1_x.w + x;
      if (p < n0) {
        const int at = n0 - p - 4;
        __stcs(reinterpret_cast<float4*>(&out0[at]), make_float4(x_3, x_2, x_1, x));
      }
      if (p < n0 && n0 <= (int)(p + 4u)) {
        float final = x_1;
        if ((int)(p + 2u) == n0) {
          final = x_2;
        }
        if ((int)(p + 3u) == n0) {
          final = x_3;
        }
        if ((int)(p + 4u) == n0) {
          final = x_4;
        }
        out0_1[0] = final;
      }
    }
  } else {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const float before_1_1 = before_1[j];
      const float x = before_1_1 + before;
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_x = *reinterpret_cast<const float4*>(&inside_1[slot]);
      const float x_1 = inside_1_x.x + x;
      const float x_2 = inside_1_x.y + x;
      const float x_3 = inside_1_x.z + x;
      const float x_4 = inside_1_x.w + x;
      if (p < n0) {
        out0[n0 - p - 1] = x;
      }
      if ((int)(p + 1u) < n0) {
        const int p_1 = p + 1u;
        out0[n0 - p_1 - 1] = x_1;
      }
      if ((int)(p + 2u) < n0) {
        const int p_1 = p + 2u;
        out0[n0 - p_1 - 1] = x_2;
      }
      if ((int)(p + 3u) < n0) {
        const int p_1 = p + 3u;
        out0[n0 - p_1 - 1] = x_3;
      }
      if (p < n0 && n0 <= (int)(p + 4u)) {
        float final = x_1;
        if ((int)(p + 2u) == n0) {
          final = x_2;
        }
        if ((int)(p + 3u) == n0) {
          final = x_3;
        }
        if ((int)(p + 4u) == n0) {
          final = x_4;
        }
        out0_1[0] = final;
      }
    }
  }
}
