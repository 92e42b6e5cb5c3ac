using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// scanl1, test_kernel_text.py
// several rows to a block
extern "C" __global__ void __launch_bounds__(256)
scanl1_rows(const float* __restrict__ input, float* __restrict__ out, int n0, int width,
                   int rows_per_block, int width_multiplier, int width_shift) {
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
  float carry = -0.0f;
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
        const float4 input_x = __ldcs(reinterpret_cast<const float4*>(&input[p_1]));
        const float x = input_x.x + input_x.y;
        const float x_1 = x + input_x.z;
        const float x_2 = x_1 + input_x.w;
        const int slot = j * 4;
        inside[slot] = input_x.x;
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
        const float input_x = input[p_1];
        const int p_2 = min(p + 1, n0 - 1);
        const float input_x_1 = input[p_2];
        const int p_3 = min(p + 2, n0 - 1);
        const float input_x_2 = input[p_3];
        const int p_4 = min(p + 3, n0 - 1);
        const float input_x_3 = input[p_4];
        const float x = input_x + input_x_1;
        const float x_1 = x + input_x_2;
        const float x_2 = x_1 + input_x_3;
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
          const float x = other + before_1;
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
          const float x = other + before_1;
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
          const float x = other + before_1;
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
          const float x = other + before_1;
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
          const float x = other + before_1;
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
        const float x = run + other_1;
        before[j] = x;
      }
      const float x = run + other;
      run = x;
    }
    if (by_vectors) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float before_1 = before[j];
        const float x = base + before_1;
        const int slot = j * 4;
        const float inside_1 = inside[slot];
        const float inside_2 = inside[slot + 1];
        const float inside_3 = inside[slot + 2];
        const float inside_4 = inside[slot + 3];
        const float x_1 = x + inside_1;
        const float x_2 = x + inside_2;
        const float x_3 = x + inside_3;
        const float x_4 = x + inside_4;
        if (owner) {
          if (p < n0) {
            __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x_1, x_2, x_3, x_4));
          }
        }
      }
    } else {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float before_1 = before[j];
        const float x = base + before_1;
        const int slot = j * 4;
        const float inside_1 = inside[slot];
        const float inside_2 = inside[slot + 1];
        const float inside_3 = inside[slot + 2];
        const float inside_4 = inside[slot + 3];
        const float x_1 = x + inside_1;
        const float x_2 = x + inside_2;
        const float x_3 = x + inside_3;
        const float x_4 = x + inside_4;
        if (owner) {
          if (p < n0) {
            out[p] = x_1;
          }
          if (p + 1 < n0) {
            const int p_1 = p + 1;
            out[p_1] = x_2;
          }
          if (p + 2 < n0) {
            const int p_1 = p + 2;
            out[p_1] = x_3;
          }
          if (p + 3 < n0) {
            const int p_1 = p + 3;
            out[p_1] = x_4;
          }
        }
      }
    }
    const float x = carry + run;
    carry = x;
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

// scanl1, test_kernel_text.py
// tiles of 24576 elements, in one pass
extern "C" __global__ void __launch_bounds__(512, 2)
scanl1_tiles(const float* __restrict__ input, float* __restrict__ out,
                    uint64* __restrict__ zero_state, int n0, int tiles, int all_tiles) {
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
      const float4 input_x = __ldcs(reinterpret_cast<const float4*>(&input[p]));
      const float x = input_x.x + input_x.y;
      const float x_1 = x + input_x.z;
      const float x_2 = x_1 + input_x.w;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input_x.x, x, x_1, x_2);
      before_1[j] = x_2;
    }
  } else if (by_vectors) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const int p_1 = min(p, n0 - 4);
      const float4 input_x = __ldcs(reinterpret_cast<const float4*>(&input[p_1]));
      const float x = input_x.x + input_x.y;
      const float x_1 = x + input_x.z;
      const float x_2 = x_1 + input_x.w;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input_x.x, x, x_1, x_2);
      before_1[j] = x_2;
    }
  } else {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const int p_1 = min(p, n0 - 1);
      const float input_x = input[p_1];
      const int p_2 = min((int)(p + 1u), n0 - 1);
      const float input_x_1 = input[p_2];
      const int p_3 = min((int)(p + 2u), n0 - 1);
      const float input_x_2 = input[p_3];
      const int p_4 = min((int)(p + 3u), n0 - 1);
      const float input_x_3 = input[p_4];
      const float x = input_x + input_x_1;
      const float x_1 = x + input_x_2;
      const float x_2 = x_1 + input_x_3;
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
      const float x = other + before_1_1;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 2);
    if (lane >= 2) {
      const float x = other + before_1_1;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 4);
    if (lane >= 4) {
      const float x = other + before_1_1;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 8);
    if (lane >= 8) {
      const float x = other + before_1_1;
      before_1[j] = x;
    }
  }
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1_1 = before_1[j];
    const float other = __shfl_up_sync(0xffffffff, before_1_1, 16);
    if (lane >= 16) {
      const float x = other + before_1_1;
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
      const float x = run + other_1;
      before_1[j] = x;
    }
    const float x = run + other;
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
    before = -0.0f;
  }
  if (nearest_2 >= 8) {
    const float sum_1 = sum[8];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 7) {
    const float sum_1 = sum[7];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 6) {
    const float sum_1 = sum[6];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 5) {
    const float sum_1 = sum[5];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 4) {
    const float sum_1 = sum[4];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 3) {
    const float sum_1 = sum[3];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 2) {
    const float sum_1 = sum[2];
    const float x = before + sum_1;
    before = x;
  }
  if (nearest_2 >= 1) {
    const float sum_1 = sum[1];
    const float x = before + sum_1;
    before = x;
  }
  if (thread == 0 && place == 31 && number + 1 < tiles) {
    const float sum_1 = sum[9];
    float whole_1 = sum_1;
    const float x = before + whole_1;
    whole_1 = x;
    const int word_1 = all_tiles + group + 2;
    publish_relaxed(
        &zero_state[word_1],
        (uint64)(uint32)__float_as_uint(whole_1) | 4294967296ull);
  }
  if (place > 0) {
    const float sum_1 = sum[0];
    const float x = before + sum_1;
    before = x;
  }
  if (warp_1 > 0) {
    const float warp_prefix_1 = warp_prefix[warp_1 - 1];
    const float x = before + warp_prefix_1;
    before = x;
  }
  if (whole) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = first + j * 128;
      const float before_1_1 = before_1[j];
      const float x = before + before_1_1;
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_x = *reinterpret_cast<const float4*>(&inside_1[slot]);
      const float x_1 = x + inside_1_x.x;
      const float x_2 = x + inside_1_x.y;
      const float x_3 = x + inside_1_x.z;
      const float x_4 = x + inside_1_x.w;
      __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x_1, x_2, x_3, x_4));
    }
  } else if (by_vectors) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const float before_1_1 = before_1[j];
      const float x = before + before_1_1;
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_x = *reinterpret_cast<const float4*>(&inside_1[slot]);
      const float x_1 = x + inside_1_x.x;
      const float x_2 = x + inside_1_x.y;
      const float x_3 = x + inside_1_x.z;
      const float x_4 = x + inside_1_x.w;
      if (p < n0) {
        __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x_1, x_2, x_3, x_4));
      }
    }
  } else {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = (unsigned)first + j * 128;
      const float before_1_1 = before_1[j];
      const float x = before + before_1_1;
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_x = *reinterpret_cast<const float4*>(&inside_1[slot]);
      const float x_1 = x + inside_1_x.x;
      const float x_2 = x + inside_1_x.y;
      const float x_3 = x + inside_1_x.z;
      const float x_4 = x + inside_1_x.w;
      if (p < n0) {
        out[p] = x_1;
      }
      if ((int)(p + 1u) < n0) {
        const int p_1 = p + 1u;
        out[p_1] = x_2;
      }
      if ((int)(p + 2u) < n0) {
        const int p_1 = p + 2u;
        out[p_1] = x_3;
      }
      if ((int)(p + 3u) < n0) {
        const int p_1 = p + 3u;
        out[p_1] = x_4;
      }
    }
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

// scanl1, test_kernel_text.py
// tiles of 12288 elements, in one pass, five of a block at once
extern "C" __global__ void __launch_bounds__(416, 1)
scanl1_turns(const float* __restrict__ input, float* __restrict__ out,
                    uint64* __restrict__ zero_state_1, int n0, int tiles_1, int all_tiles_1) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  int* const taken = reinterpret_cast<int*>(shared_memory);
  float* const prefix = reinterpret_cast<float*>(shared_memory + 16);
  float* const base = reinterpret_cast<float*>(shared_memory + 160);
  float* const ring = reinterpret_cast<float*>(shared_memory + 176);
  float oldest[8];
  float middle[8];
  float before_2[8];
  float* const warp_total = reinterpret_cast<float*>(shared_memory + 147632);
  float coming[32];
  const int thread = threadIdx.x;
  const int lane = thread & 31;
  const int warp = thread >> 5;
  const bool taker = thread == 384;
  if (taker) {
    const uint64 found = atomicAdd(zero_state_1, 1ull);
    taken[1] = found;
  }
  __syncthreads();
  int stored = all_tiles_1;
  int looks_back = all_tiles_1;
  int published = all_tiles_1;
  int combined = all_tiles_1;
  const int taken_1 = taken[1];
  int asked = min(max(taken_1, 0), all_tiles_1);
  int side = 0;
  int stage = 0;
  float total = -0.0f;
  float newest = -0.0f;
  #pragma unroll 1
  while (stored < all_tiles_1 || looks_back < all_tiles_1 || published < all_tiles_1 || combined < all_tiles_1 || asked < all_tiles_1) {
    const int other = (unsigned)1 - side;
    const bool helps = warp == 12;
    if (helps) {
      if (taker) {
        const uint64 found = atomicAdd(zero_state_1, 1ull);
        taken[side] = found;
      }
      total = newest;
      const int number = min(published, all_tiles_1 - 1);
      const int tile_start = number * 12288u;
      const int tile_stop = min((int)(tile_start + 12288u), n0);
      const bool exists = published < all_tiles_1;
      const int t = warp * 1024 + lane * 4;
      const int first = tile_start + t;
      const bool whole = (int)((unsigned)tile_stop - tile_start) == 12288;
      if (exists) {
        const float warp_total_1 = warp_total[other * 12 + min(lane, 11)];
        float prefix_1 = warp_total_1;
        const float other_1 = __shfl_up_sync(0xffffffff, prefix_1, 1);
        if (lane >= 1) {
          prefix_1 += other_1;
        }
        const float other_2 = __shfl_up_sync(0xffffffff, prefix_1, 2);
        if (lane >= 2) {
          prefix_1 += other_2;
        }
        const float other_3 = __shfl_up_sync(0xffffffff, prefix_1, 4);
        if (lane >= 4) {
          prefix_1 += other_3;
        }
        const float other_4 = __shfl_up_sync(0xffffffff, prefix_1, 8);
        if (lane >= 8) {
          prefix_1 += other_4;
        }
        if (lane < 12) {
          prefix[(stage == 0 ? 2 : (int)(stage - 1u)) * 12 + lane] = prefix_1;
        }
        const float other_5 = __shfl_sync(0xffffffff, prefix_1, 11);
        newest = other_5;
        if (lane == 0 && number + 1 < tiles_1) {
          const int word = number + 1;
          publish_relaxed(
              &zero_state_1[word],
              (uint64)(uint32)__float_as_uint(newest) | 4294967296ull);
        }
      }
      const int number_1 = min(looks_back, all_tiles_1 - 1);
      const int tile_start_1 = number_1 * 12288u;
      const int tile_stop_1 = min((int)(tile_start_1 + 12288u), n0);
      const bool exists_1 = looks_back < all_tiles_1;
      const int first_1 = tile_start_1 + t;
      const bool whole_1 = (int)((unsigned)tile_stop_1 - tile_start_1) == 12288;
      if (exists_1) {
        const int group = number_1 >> 5;
        const int place = number_1 & 31;
        const int mine = (unsigned)group - lane;
        const bool near = lane <= 8;
        const bool asked_1 = near && mine > 0;
        uint64 word = asked_1 ? 0ull : 4294967296ull;
        const bool wanted = lane < place;
        uint64 word_1 = wanted ? 0ull : 4294967296ull;
        const bool wanted_1 = group >= 1;
        uint64 word_2 = wanted_1 ? 0ull : 4294967296ull;
        const bool wanted_2 = group >= 2;
        uint64 word_3 = wanted_2 ? 0ull : 4294967296ull;
        const bool wanted_3 = group >= 3;
        uint64 word_4 = wanted_3 ? 0ull : 4294967296ull;
        const bool wanted_4 = group >= 4;
        uint64 word_5 = wanted_4 ? 0ull : 4294967296ull;
        const bool wanted_5 = group >= 5;
        uint64 word_6 = wanted_5 ? 0ull : 4294967296ull;
        const bool wanted_6 = group >= 6;
        uint64 word_7 = wanted_6 ? 0ull : 4294967296ull;
        const bool wanted_7 = group >= 7;
        uint64 word_8 = wanted_7 ? 0ull : 4294967296ull;
        const bool wanted_8 = group >= 8;
        uint64 word_9 = wanted_8 ? 0ull : 4294967296ull;
        const int tile_slot = group * 32 + lane;
        int away = 0;
        #pragma unroll 1
        while (true) {
          if (word < 4294967296ull) {
            const int word_10 = all_tiles_1 + mine + 1;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word = got;
          }
          if (word_1 < 4294967296ull) {
            const int word_10 = tile_slot + 1;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_1 = got;
          }
          if (word_2 < 4294967296ull) {
            const int word_10 = tile_slot - 31;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_2 = got;
          }
          if (word_3 < 4294967296ull) {
            const int word_10 = tile_slot - 63;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_3 = got;
          }
          if (word_4 < 4294967296ull) {
            const int word_10 = tile_slot - 95;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_4 = got;
          }
          if (word_5 < 4294967296ull) {
            const int word_10 = tile_slot - 127;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_5 = got;
          }
          if (word_6 < 4294967296ull) {
            const int word_10 = tile_slot - 159;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_6 = got;
          }
          if (word_7 < 4294967296ull) {
            const int word_10 = tile_slot - 191;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_7 = got;
          }
          if (word_8 < 4294967296ull) {
            const int word_10 = tile_slot - 223;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_8 = got;
          }
          if (word_9 < 4294967296ull) {
            const int word_10 = tile_slot - 255;
            const uint64 got = fetch_relaxed(&zero_state_1[word_10]);
            word_9 = got;
          }
          const uint32 starts = __ballot_sync(0xffffffff, near && word >= 4294967296ull);
          away = __clz(__brev(starts));
          const uint32 lacking = __ballot_sync(
              0xffffffff,
              away >= 32 || (away >= 0 && word_1 < 4294967296ull)
                  || (away >= 1 && word_2 < 4294967296ull)
                  || (away >= 2 && word_3 < 4294967296ull)
                  || (away >= 3 && word_4 < 4294967296ull)
                  || (away >= 4 && word_5 < 4294967296ull)
                  || (away >= 5 && word_6 < 4294967296ull)
                  || (away >= 6 && word_7 < 4294967296ull)
                  || (away >= 7 && word_8 < 4294967296ull)
                  || (away >= 8 && word_9 < 4294967296ull));
          if (lacking == 0u) break;
        }
        const float other_1 = __shfl_sync(0xffffffff, __uint_as_float((uint32)word), away);
        const bool begun = away < group;
        float before = other_1;
        if (!begun) {
          before = -0.0f;
        }
        if (away >= 8) {
          float sum = __uint_as_float((uint32)word_9);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 7) {
          float sum = __uint_as_float((uint32)word_8);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 6) {
          float sum = __uint_as_float((uint32)word_7);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 5) {
          float sum = __uint_as_float((uint32)word_6);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 4) {
          float sum = __uint_as_float((uint32)word_5);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 3) {
          float sum = __uint_as_float((uint32)word_4);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 2) {
          float sum = __uint_as_float((uint32)word_3);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (away >= 1) {
          float sum = __uint_as_float((uint32)word_2);
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        float sum = __uint_as_float((uint32)word_1);
        if (place == 31 && number_1 + 1 < tiles_1) {
          float whole_2 = sum;
          if (lane == 31) {
            whole_2 = total;
          }
          const float other_2 = __shfl_down_sync(0xffffffff, whole_2, 1);
          whole_2 += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, whole_2, 2);
          whole_2 += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, whole_2, 4);
          whole_2 += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, whole_2, 8);
          whole_2 += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, whole_2, 16);
          whole_2 += other_6;
          if (lane == 0) {
            const float x = before + whole_2;
            whole_2 = x;
            const int word_10 = all_tiles_1 + group + 2;
            publish_relaxed(
                &zero_state_1[word_10],
                (uint64)(uint32)__float_as_uint(whole_2) | 4294967296ull);
          }
        }
        if (place > 0) {
          if (place <= lane) {
            sum = -0.0f;
          }
          const float other_2 = __shfl_down_sync(0xffffffff, sum, 1);
          sum += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, sum, 2);
          sum += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, sum, 4);
          sum += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, sum, 8);
          sum += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, sum, 16);
          sum += other_6;
          const float x = before + sum;
          before = x;
        }
        if (lane == 0) {
          base[other] = before;
        }
      }
    } else {
      const bool by_vectors = (n0 & 3) == 0;
      const int number = min(stored, all_tiles_1 - 1);
      const int tile_start = number * 12288u;
      const int tile_stop = min((int)(tile_start + 12288u), n0);
      const bool exists = stored < all_tiles_1;
      const int t = warp * 1024 + lane * 4;
      const int first = (unsigned)tile_start + t;
      const bool whole = (int)((unsigned)tile_stop - tile_start) == 12288;
      if (exists) {
        const float base_1 = base[side];
        float base_2 = base_1;
        if (warp > 0) {
          const float prefix_1 = prefix[stage * 12 + warp - 1];
          const float x = base_2 + prefix_1;
          base_2 = x;
        }
        if (whole) {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = first + j * 128;
            const float oldest_1 = oldest[j];
            const float x = base_2 + oldest_1;
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            const float4 ring_x = *reinterpret_cast<const float4*>(&ring[slot]);
            const float x_1 = x + ring_x.x;
            const float x_2 = x + ring_x.y;
            const float x_3 = x + ring_x.z;
            const float x_4 = x + ring_x.w;
            __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x_1, x_2, x_3, x_4));
          }
        } else if (by_vectors) {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = (unsigned)first + j * 128;
            const float oldest_1 = oldest[j];
            const float x = base_2 + oldest_1;
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            const float4 ring_x = *reinterpret_cast<const float4*>(&ring[slot]);
            const float x_1 = x + ring_x.x;
            const float x_2 = x + ring_x.y;
            const float x_3 = x + ring_x.z;
            const float x_4 = x + ring_x.w;
            if (p < n0) {
              __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x_1, x_2, x_3, x_4));
            }
          }
        } else {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = (unsigned)first + j * 128;
            const float oldest_1 = oldest[j];
            const float x = base_2 + oldest_1;
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            const float4 ring_x = *reinterpret_cast<const float4*>(&ring[slot]);
            const float x_1 = x + ring_x.x;
            const float x_2 = x + ring_x.y;
            const float x_3 = x + ring_x.z;
            const float x_4 = x + ring_x.w;
            if (p < n0) {
              out[p] = x_1;
            }
            if ((int)(p + 1u) < n0) {
              const int p_1 = p + 1u;
              out[p_1] = x_2;
            }
            if ((int)(p + 2u) < n0) {
              const int p_1 = p + 2u;
              out[p_1] = x_3;
            }
            if ((int)(p + 3u) < n0) {
              const int p_1 = p + 3u;
              out[p_1] = x_4;
            }
          }
        }
      }
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float middle_1 = middle[j];
        oldest[j] = middle_1;
        const float before_2_1 = before_2[j];
        middle[j] = before_2_1;
      }
      const int number_1 = min(combined, all_tiles_1 - 1);
      const int tile_start_1 = number_1 * 12288u;
      const int tile_stop_1 = min((int)(tile_start_1 + 12288u), n0);
      const bool exists_1 = combined < all_tiles_1;
      const int first_1 = (unsigned)tile_start_1 + t;
      const bool whole_1 = (int)((unsigned)tile_stop_1 - tile_start_1) == 12288;
      if (exists_1) {
        if (whole_1) {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = first_1 + j * 128;
            const float x = coming[(int64)j * 4];
            const float x_1 = coming[(int64)j * 4 + 1];
            const float x_2 = coming[(int64)j * 4 + 2];
            const float x_3 = coming[(int64)j * 4 + 3];
            const float x_4 = x + x_1;
            const float x_5 = x_4 + x_2;
            const float x_6 = x_5 + x_3;
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            *reinterpret_cast<float4*>(&ring[slot]) = make_float4(x, x_4, x_5, x_6);
            before_2[j] = x_6;
          }
        } else if (by_vectors) {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = (unsigned)first_1 + j * 128;
            const int p_1 = min(p, n0 - 4);
            const float4 input_x = __ldcs(reinterpret_cast<const float4*>(&input[p_1]));
            const float x = input_x.x + input_x.y;
            const float x_1 = x + input_x.z;
            const float x_2 = x_1 + input_x.w;
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            *reinterpret_cast<float4*>(&ring[slot]) = make_float4(input_x.x, x, x_1, x_2);
            before_2[j] = x_2;
          }
        } else {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = (unsigned)first_1 + j * 128;
            const int p_1 = min(p, n0 - 1);
            const float input_x = input[p_1];
            const int p_2 = min((int)(p + 1u), n0 - 1);
            const float input_x_1 = input[p_2];
            const int p_3 = min((int)(p + 2u), n0 - 1);
            const float input_x_2 = input[p_3];
            const int p_4 = min((int)(p + 3u), n0 - 1);
            const float input_x_3 = input[p_4];
            const float x = input_x + input_x_1;
            const float x_1 = x + input_x_2;
            const float x_2 = x_1 + input_x_3;
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            *reinterpret_cast<float4*>(&ring[slot]) = make_float4(input_x, x, x_1, x_2);
            before_2[j] = x_2;
          }
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2_1 = before_2[j];
          const float other_1 = __shfl_up_sync(0xffffffff, before_2_1, 1);
          if (lane >= 1) {
            const float x = other_1 + before_2_1;
            before_2[j] = x;
          }
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2_1 = before_2[j];
          const float other_1 = __shfl_up_sync(0xffffffff, before_2_1, 2);
          if (lane >= 2) {
            const float x = other_1 + before_2_1;
            before_2[j] = x;
          }
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2_1 = before_2[j];
          const float other_1 = __shfl_up_sync(0xffffffff, before_2_1, 4);
          if (lane >= 4) {
            const float x = other_1 + before_2_1;
            before_2[j] = x;
          }
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2_1 = before_2[j];
          const float other_1 = __shfl_up_sync(0xffffffff, before_2_1, 8);
          if (lane >= 8) {
            const float x = other_1 + before_2_1;
            before_2[j] = x;
          }
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2_1 = before_2[j];
          const float other_1 = __shfl_up_sync(0xffffffff, before_2_1, 16);
          if (lane >= 16) {
            const float x = other_1 + before_2_1;
            before_2[j] = x;
          }
        }
        float run = -0.0f;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2_1 = before_2[j];
          const float other_1 = __shfl_sync(0xffffffff, before_2_1, 31);
          const float other_2 = __shfl_up_sync(0xffffffff, before_2_1, 1);
          before_2[j] = run;
          if (lane > 0) {
            const float x = run + other_2;
            before_2[j] = x;
          }
          const float x = run + other_1;
          run = x;
        }
        if (lane == 0) {
          warp_total[side * 12 + warp] = run;
        }
      }
      const int number_2 = min(asked, all_tiles_1 - 1);
      const int tile_start_2 = number_2 * 12288u;
      const int tile_stop_2 = min((int)(tile_start_2 + 12288u), n0);
      const bool exists_2 = asked < all_tiles_1;
      const int first_2 = tile_start_2 + t;
      const bool whole_2 = (int)((unsigned)tile_stop_2 - tile_start_2) == 12288;
      if (exists_2 && whole_2) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int p = first_2 + j * 128;
          const float4 input_x = __ldcs(reinterpret_cast<const float4*>(&input[p]));
          coming[(int64)j * 4] = input_x.x;
          coming[(int64)j * 4 + 1] = input_x.y;
          coming[(int64)j * 4 + 2] = input_x.z;
          coming[(int64)j * 4 + 3] = input_x.w;
        }
      }
    }
    __syncthreads();
    stored = looks_back;
    looks_back = published;
    published = combined;
    combined = asked;
    const int taken_2 = taken[side];
    asked = min(max(taken_2, 0), all_tiles_1);
    side = other;
    stage = (uint32)(int)(stage + 1u) % 3u;
  }
}
