// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// scanl, test_kernel_text.py
// several rows to a block
extern "C" __global__ void __launch_bounds__(256)
scanl_rows(const float* __restrict__ input, float* __restrict__ out, int n0, int width,
                  int steps, int rows_per_block, int width_multiplier, int width_shift,
                  int chunk_multiplier, int chunk_shift) {
  float inside[16];
  float before[4];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, width_multiplier, width_shift);
  const int lane = thread - t * width;
  const int own = task * rows_per_block + t;
  const bool owner = own < 1;
  const int end = (thread & 31) - lane + width - 1;
  float carry = 0.0f;
  const int step = width * 4;
  const int chunk = step * 4;
  const int iteration_end = quotient(n0 + chunk - 1, chunk_multiplier, chunk_shift);
  for (int iteration = 0; iteration < iteration_end; ++iteration) {
    // inside: the prefixes inside each vector; before: their totals.
    const int origin = iteration * chunk;
    const int first = origin + lane * 4;
    const float base = carry;
    const bool by_vectors = (n0 & 3) == 0;
    if (by_vectors) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const int p_1 = min(p, n0 - 4);
        const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[p_1]));
        const float x = input4.x + input4.y;
        const float x_1 = x + input4.z;
        const float x_2 = x_1 + input4.w;
        const int slot = j * 4;
        inside[slot] = input4.x;
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
        const float input_p = input[p_1];
        const int p_2 = min(p + 1, n0 - 1);
        const float input_p_1 = input[p_2];
        const int p_3 = min(p + 2, n0 - 1);
        const float input_p_2 = input[p_3];
        const int p_4 = min(p + 3, n0 - 1);
        const float input_p_3 = input[p_4];
        const float x = input_p + input_p_1;
        const float x_1 = x + input_p_2;
        const float x_2 = x_1 + input_p_3;
        const int slot = j * 4;
        inside[slot] = input_p;
        inside[slot + 1] = x;
        inside[slot + 2] = x_1;
        inside[slot + 3] = x_2;
        before[j] = x_2;
      }
    }
    // before[j]: prefixes over the threads of the totals of their vectors j.
    #pragma unroll 1
    for (int e = 0; e < min(max(steps, 0), 5); ++e) {
      const int step_1 = 1 << e;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_1 = before[j];
        const float other = __shfl_up_sync(0xffffffff, before_1, step_1);
        if (step_1 <= lane) {
          before[j] = other + before_1;
        }
      }
    }
    float run = -0.0f;
    // before[j] becomes what comes before vector j; run is the total so far.
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float before_1 = before[j];
      const float other = __shfl_sync(0xffffffff, before_1, end);
      const float other_1 = __shfl_up_sync(0xffffffff, before_1, 1);
      before[j] = run;
      if (lane > 0) {
        before[j] = run + other_1;
      }
      run += other;
    }
    if (by_vectors) {
      float final = 0.0f;
      bool ends = false;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float x = base + before[j];
        const int slot = j * 4;
        const float x_1 = x + inside[slot];
        const float x_2 = x + inside[slot + 1];
        const float x_3 = x + inside[slot + 2];
        const float x_4 = x + inside[slot + 3];
        if (owner && p < n0) {
          __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x, x_1, x_2, x_3));
        }
        if (p + 1 == n0) {
          final = x_1;
          ends = true;
        }
        if (p + 2 == n0) {
          final = x_2;
          ends = true;
        }
        if (p + 3 == n0) {
          final = x_3;
          ends = true;
        }
        if (p + 4 == n0) {
          final = x_4;
          ends = true;
        }
      }
      if (owner && ends) {
        out[n0] = final;
      }
    } else {
      float final = 0.0f;
      bool ends = false;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float x = base + before[j];
        const int slot = j * 4;
        const float x_1 = x + inside[slot];
        const float x_2 = x + inside[slot + 1];
        const float x_3 = x + inside[slot + 2];
        const float x_4 = x + inside[slot + 3];
        if (owner) {
          if (p < n0) {
            out[p] = x;
          }
          if (p + 1 < n0) {
            out[p + 1] = x_1;
          }
          if (p + 2 < n0) {
            out[p + 2] = x_2;
          }
          if (p + 3 < n0) {
            out[p + 3] = x_3;
          }
        }
        if (p + 1 == n0) {
          final = x_1;
          ends = true;
        }
        if (p + 2 == n0) {
          final = x_2;
          ends = true;
        }
        if (p + 3 == n0) {
          final = x_3;
          ends = true;
        }
        if (p + 4 == n0) {
          final = x_4;
          ends = true;
        }
      }
      if (owner && ends) {
        out[n0] = final;
      }
    }
    carry += run;
  }
  if (n0 == 0 && owner && lane == 0) {
    out[n0] = carry;
  }
}

using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;

__device__ __forceinline__ void publish_relaxed(uint64* location, uint64 x) {
  asm volatile("st.relaxed.gpu.b64 [%0], %1;" : : "l"(location), "l"(x) : "memory");
}

__device__ __forceinline__ uint64 fetch_relaxed(const uint64* location) {
  uint64 x;
  asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(x) : "l"(location) : "memory");
  return x;
}

// scanl, test_kernel_text.py
// tiles of 24576 elements, in one pass
extern "C" __global__ void __launch_bounds__(512, 2)
scanl_tiles(const float* __restrict__ input, float* __restrict__ out,
                   uint64* __restrict__ zero_state, int n0, int tiles, int all_tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  int* const ticket = reinterpret_cast<int*>(shared_memory);
  float* const inside = reinterpret_cast<float*>(shared_memory + 16);
  float before[12];
  float* const warp_total = reinterpret_cast<float*>(shared_memory + 98320);
  float* const warp_prefix = reinterpret_cast<float*>(shared_memory + 98384);
  int64* const nearest = reinterpret_cast<int64*>(shared_memory + 98448);
  float* const head = reinterpret_cast<float*>(shared_memory + 98464);
  float* const sum = reinterpret_cast<float*>(shared_memory + 98480);
  const int thread = threadIdx.x;
  const int lane = thread & 31;
  const int warp = thread >> 5;
  // Blocks take tiles in the order in which they start: those before this one run.
  if (thread == 0) {
    const uint64 taken = atomicAdd(zero_state, 1ull);
    ticket[0] = taken;
  }
  __syncthreads();
  const int number = min(max(ticket[0], 0), all_tiles - 1);
  const int tile_start = number * 24576u;
  const int tile_stop = min((int)(tile_start + 24576u), n0);
  const int first = (unsigned)tile_start + (warp * 1536 + lane * 4);
  const bool whole = (int)((unsigned)tile_stop - tile_start) == 24576;
  const bool by_vectors = (n0 & 3) == 0;
  // inside: the prefixes inside each vector; before: their totals.
  if (whole) {
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = first + j * 128;
      const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[p]));
      const float x = input4.x + input4.y;
      const float x_1 = x + input4.z;
      const float x_2 = x_1 + input4.w;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside[slot]) = make_float4(input4.x, x, x_1, x_2);
      before[j] = x_2;
    }
  } else if (by_vectors) {
    #pragma unroll 1
    for (int turn = 0; turn < 6; ++turn) {
      #pragma unroll
      for (int k = 0; k < 10; ++k) {
        before[k] = before[k + 2];
      }
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const int p_1 = min(p, n0 - 4);
        const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[p_1]));
        const float x = input4.x + input4.y;
        const float x_1 = x + input4.z;
        const float x_2 = x_1 + input4.w;
        const int slot = (j * 512 + thread) * 4;
        *reinterpret_cast<float4*>(&inside[slot]) = make_float4(input4.x, x, x_1, x_2);
        before[u + 10] = x_2;
      }
    }
  } else {
    #pragma unroll 1
    for (int turn = 0; turn < 6; ++turn) {
      #pragma unroll
      for (int k = 0; k < 10; ++k) {
        before[k] = before[k + 2];
      }
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const int p_1 = min(p, n0 - 1);
        const float input_p = input[p_1];
        const int p_2 = min((int)(p + 1u), n0 - 1);
        const float input_p_1 = input[p_2];
        const int p_3 = min((int)(p + 2u), n0 - 1);
        const float input_p_2 = input[p_3];
        const int p_4 = min((int)(p + 3u), n0 - 1);
        const float input_p_3 = input[p_4];
        const float x = input_p + input_p_1;
        const float x_1 = x + input_p_2;
        const float x_2 = x_1 + input_p_3;
        const int slot = (j * 512 + thread) * 4;
        *reinterpret_cast<float4*>(&inside[slot]) = make_float4(input_p, x, x_1, x_2);
        before[u + 10] = x_2;
      }
    }
  }
  // before[j]: prefixes over the threads of the totals of their vectors j.
  #pragma unroll 1
  for (int e = 0; e < 5; ++e) {
    const int step = 1 << e;
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const float before_1 = before[j];
      const float other = __shfl_up_sync(0xffffffff, before_1, step);
      if (step <= lane) {
        before[j] = other + before_1;
      }
    }
  }
  float run = -0.0f;
  // before[j] becomes what comes before vector j; run is the total so far.
  #pragma unroll
  for (int j = 0; j < 12; ++j) {
    const float before_1 = before[j];
    const float other = __shfl_sync(0xffffffff, before_1, 31);
    const float other_1 = __shfl_up_sync(0xffffffff, before_1, 1);
    before[j] = run;
    if (lane > 0) {
      before[j] = run + other_1;
    }
    run += other;
  }
  // Every warp leaves its total.
  if (lane == 0) {
    warp_total[warp] = run;
  }
  __syncthreads();
  // Look back: the first warp publishes the total of the tile, waits for those in front
  // of it in its group of 32 and finds a group whose start is known; warp w adds up
  // the group that is w before.
  const int group = number / 32;
  const int index = number % 32;
  const int own = group - warp;
  const int tile_slot = own * 32 + lane;
  const bool wanted = warp <= 8 && own >= 0 && (warp > 0 || lane < index);
  uint64 word = wanted ? 0ull : 4294967296ull;
  const bool first_warp = warp == 0;
  if (first_warp) {
    float prefix = warp_total[min(lane, 15)];
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
          &zero_state[word_1], (uint64)(uint32)__float_as_uint(prefix) | 4294967296ull);
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
  if ((int64)warp <= nearest[0]) {
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
    if (first_warp && index == 31) {
      float whole_1 = sum_1;
      if (lane == 31) {
        whole_1 = warp_prefix[15];
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
    if ((first_warp ? index : 32) <= lane) {
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
      sum[warp] = sum_1;
    }
  }
  __syncthreads();
  // What comes before this warp, combined from left to right.
  const int64 nearest_1 = nearest[0];
  const bool begun = nearest_1 < (int64)group;
  float before_1 = head[0];
  if (!begun) {
    before_1 = 0.0f;
  }
  const int between = min(max(nearest_1, 0ll), 8ll);
  #pragma unroll 1
  for (int w = 0; w < between; ++w) {
    before_1 += sum[between - w];
  }
  if (thread == 0 && index == 31 && number + 1 < tiles) {
    float whole_1 = sum[9];
    whole_1 += before_1;
    const int word_1 = all_tiles + group + 2;
    publish_relaxed(
        &zero_state[word_1], (uint64)(uint32)__float_as_uint(whole_1) | 4294967296ull);
  }
  if (index > 0) {
    before_1 += sum[0];
  }
  if (warp > 0) {
    before_1 += warp_prefix[warp - 1];
  }
  if (whole) {
    float final = 0.0f;
    #pragma unroll
    for (int j = 0; j < 12; ++j) {
      const int p = first + j * 128;
      const float x = before_1 + before[j];
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_1_4 = *reinterpret_cast<const float4*>(&inside[slot]);
      const float x_1 = x + inside_1_4.x;
      const float x_2 = x + inside_1_4.y;
      const float x_3 = x + inside_1_4.z;
      __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x, x_1, x_2, x_3));
      final = x + inside_1_4.w;
    }
    if ((int)(first + 1412u) == n0) {
      out[n0] = final;
    }
  } else if (by_vectors) {
    float final = 0.0f;
    bool ends = false;
    #pragma unroll 1
    for (int turn = 0; turn < 6; ++turn) {
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const float x = before_1 + before[u];
        const int slot = (j * 512 + thread) * 4;
        const float4 inside_1_4 = *reinterpret_cast<const float4*>(&inside[slot]);
        const float x_1 = x + inside_1_4.x;
        const float x_2 = x + inside_1_4.y;
        const float x_3 = x + inside_1_4.z;
        const float x_4 = x + inside_1_4.w;
        if (p < n0) {
          __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x, x_1, x_2, x_3));
        }
        if ((int)(p + 1u) == n0) {
          final = x_1;
          ends = true;
        }
        if ((int)(p + 2u) == n0) {
          final = x_2;
          ends = true;
        }
        if ((int)(p + 3u) == n0) {
          final = x_3;
          ends = true;
        }
        if ((int)(p + 4u) == n0) {
          final = x_4;
          ends = true;
        }
      }
      #pragma unroll
      for (int k = 0; k < 10; ++k) {
        before[k] = before[k + 2];
      }
    }
    if (ends) {
      out[n0] = final;
    }
  } else {
    float final = 0.0f;
    bool ends = false;
    #pragma unroll 1
    for (int turn = 0; turn < 6; ++turn) {
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const float x = before_1 + before[u];
        const int slot = (j * 512 + thread) * 4;
        const float4 inside_1_4 = *reinterpret_cast<const float4*>(&inside[slot]);
        const float x_1 = x + inside_1_4.x;
        const float x_2 = x + inside_1_4.y;
        const float x_3 = x + inside_1_4.z;
        const float x_4 = x + inside_1_4.w;
        if (p < n0) {
          out[p] = x;
        }
        if ((int)(p + 1u) < n0) {
          out[p + 1] = x_1;
        }
        if ((int)(p + 2u) < n0) {
          out[p + 2] = x_2;
        }
        if ((int)(p + 3u) < n0) {
          out[p + 3] = x_3;
        }
        if ((int)(p + 1u) == n0) {
          final = x_1;
          ends = true;
        }
        if ((int)(p + 2u) == n0) {
          final = x_2;
          ends = true;
        }
        if ((int)(p + 3u) == n0) {
          final = x_3;
          ends = true;
        }
        if ((int)(p + 4u) == n0) {
          final = x_4;
          ends = true;
        }
      }
      #pragma unroll
      for (int k = 0; k < 10; ++k) {
        before[k] = before[k + 2];
      }
    }
    if (ends) {
      out[n0] = final;
    }
  }
}

using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;

__device__ __forceinline__ void publish_relaxed(uint64* location, uint64 x) {
  asm volatile("st.relaxed.gpu.b64 [%0], %1;" : : "l"(location), "l"(x) : "memory");
}

__device__ __forceinline__ uint64 fetch_relaxed(const uint64* location) {
  uint64 x;
  asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(x) : "l"(location) : "memory");
  return x;
}

// scanl, test_kernel_text.py
// tiles of 12288 elements, in one pass, five of a block at once
extern "C" __global__ void __launch_bounds__(416, 1)
scanl_pipelined(const float* __restrict__ input, float* __restrict__ out,
                       uint64* __restrict__ zero_state, int n0, int tiles, int all_tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  int* const taken = reinterpret_cast<int*>(shared_memory);
  float* const prefix = reinterpret_cast<float*>(shared_memory + 16);
  float* const base = reinterpret_cast<float*>(shared_memory + 160);
  float* const ring = reinterpret_cast<float*>(shared_memory + 176);
  float oldest[8];
  float middle[8];
  float before[8];
  float* const warp_total = reinterpret_cast<float*>(shared_memory + 147632);
  float coming[32];
  const int thread = threadIdx.x;
  const int lane = thread & 31;
  const int warp = thread >> 5;
  const bool taker = thread == 384;
  if (taker) {
    const uint64 found = atomicAdd(zero_state, 1ull);
    taken[1] = found;
  }
  __syncthreads();
  int stored = all_tiles;
  int looks_back = all_tiles;
  int published = all_tiles;
  int combined = all_tiles;
  int asked = min(max(taken[1], 0), all_tiles);
  int side = 0;
  int stage = 0;
  float total = -0.0f;
  float newest = -0.0f;
  #pragma unroll 1
  while (stored < all_tiles || looks_back < all_tiles || published < all_tiles
      || combined < all_tiles || asked < all_tiles) {
    const int other = (unsigned)1 - side;
    const bool helps = warp == 12;
    if (helps) {
      if (taker) {
        const uint64 found = atomicAdd(zero_state, 1ull);
        taken[side] = found;
      }
      total = newest;
      const int number = min(published, all_tiles - 1);
      const bool exists = published < all_tiles;
      if (exists) {
        // The last warp: prefixes over the warps' totals, the tile's published.
        float prefix_1 = warp_total[other * 12 + min(lane, 11)];
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
        if (lane == 0 && number + 1 < tiles) {
          const int word = number + 1;
          publish_relaxed(
              &zero_state[word], (uint64)(uint32)__float_as_uint(newest) | 4294967296ull);
        }
      }
      const int number_1 = min(looks_back, all_tiles - 1);
      const bool exists_1 = looks_back < all_tiles;
      if (exists_1) {
        // … and what comes before the tile that is stored in the next iteration.
        const int group = number_1 >> 5;
        const int index = number_1 & 31;
        const int mine = group - lane;
        const bool near = lane <= 8;
        const bool asked_1 = near && mine > 0;
        uint64 word = asked_1 ? 0ull : 4294967296ull;
        const bool wanted = lane < index;
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
            const int word_10 = all_tiles + mine + 1;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word = got;
          }
          if (word_1 < 4294967296ull) {
            const int word_10 = tile_slot + 1;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_1 = got;
          }
          if (word_2 < 4294967296ull) {
            const int word_10 = tile_slot - 31;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_2 = got;
          }
          if (word_3 < 4294967296ull) {
            const int word_10 = tile_slot - 63;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_3 = got;
          }
          if (word_4 < 4294967296ull) {
            const int word_10 = tile_slot - 95;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_4 = got;
          }
          if (word_5 < 4294967296ull) {
            const int word_10 = tile_slot - 127;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_5 = got;
          }
          if (word_6 < 4294967296ull) {
            const int word_10 = tile_slot - 159;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_6 = got;
          }
          if (word_7 < 4294967296ull) {
            const int word_10 = tile_slot - 191;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_7 = got;
          }
          if (word_8 < 4294967296ull) {
            const int word_10 = tile_slot - 223;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
            word_8 = got;
          }
          if (word_9 < 4294967296ull) {
            const int word_10 = tile_slot - 255;
            const uint64 got = fetch_relaxed(&zero_state[word_10]);
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
        float before_1 = other_1;
        if (!begun) {
          before_1 = 0.0f;
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
          before_1 += sum;
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
          before_1 += sum;
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
          before_1 += sum;
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
          before_1 += sum;
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
          before_1 += sum;
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
          before_1 += sum;
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
          before_1 += sum;
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
          before_1 += sum;
        }
        float sum = __uint_as_float((uint32)word_1);
        if (index == 31 && number_1 + 1 < tiles) {
          float whole = sum;
          if (lane == 31) {
            whole = total;
          }
          const float other_2 = __shfl_down_sync(0xffffffff, whole, 1);
          whole += other_2;
          const float other_3 = __shfl_down_sync(0xffffffff, whole, 2);
          whole += other_3;
          const float other_4 = __shfl_down_sync(0xffffffff, whole, 4);
          whole += other_4;
          const float other_5 = __shfl_down_sync(0xffffffff, whole, 8);
          whole += other_5;
          const float other_6 = __shfl_down_sync(0xffffffff, whole, 16);
          whole += other_6;
          if (lane == 0) {
            whole += before_1;
            const int word_10 = all_tiles + group + 2;
            publish_relaxed(
                &zero_state[word_10], (uint64)(uint32)__float_as_uint(whole) | 4294967296ull);
          }
        }
        if (index > 0) {
          if (index <= lane) {
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
          before_1 += sum;
        }
        if (lane == 0) {
          base[other] = before_1;
        }
      }
    } else {
      const bool by_vectors = (n0 & 3) == 0;
      const int number = min(stored, all_tiles - 1);
      const int tile_start = number * 12288u;
      const int tile_stop = min((int)(tile_start + 12288u), n0);
      const bool exists = stored < all_tiles;
      const int t = warp * 1024 + lane * 4;
      const int first = (unsigned)tile_start + t;
      const bool whole = (int)((unsigned)tile_stop - tile_start) == 12288;
      if (exists) {
        // Results of the oldest tile, whose prefixes lie in shared memory.
        float base_1 = base[side];
        if (warp > 0) {
          base_1 += prefix[stage * 12 + warp - 1];
        }
        if (whole) {
          float final = 0.0f;
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int p = first + j * 128;
            const float x = base_1 + oldest[j];
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            const float4 ring4 = *reinterpret_cast<const float4*>(&ring[slot]);
            const float x_1 = x + ring4.x;
            const float x_2 = x + ring4.y;
            const float x_3 = x + ring4.z;
            __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x, x_1, x_2, x_3));
            final = x + ring4.w;
          }
          if ((int)(first + 900u) == n0) {
            out[n0] = final;
          }
        } else if (by_vectors) {
          float final = 0.0f;
          bool ends = false;
          #pragma unroll 1
          for (int turn = 0; turn < 4; ++turn) {
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
              const int j = turn * 2 + u;
              const int p = (unsigned)first + j * 128;
              const float x = base_1 + oldest[u];
              const int slot = ((stage * 8 + j) * 384 + thread) * 4;
              const float4 ring4 = *reinterpret_cast<const float4*>(&ring[slot]);
              const float x_1 = x + ring4.x;
              const float x_2 = x + ring4.y;
              const float x_3 = x + ring4.z;
              const float x_4 = x + ring4.w;
              if (p < n0) {
                __stcs(reinterpret_cast<float4*>(&out[p]), make_float4(x, x_1, x_2, x_3));
              }
              if ((int)(p + 1u) == n0) {
                final = x_1;
                ends = true;
              }
              if ((int)(p + 2u) == n0) {
                final = x_2;
                ends = true;
              }
              if ((int)(p + 3u) == n0) {
                final = x_3;
                ends = true;
              }
              if ((int)(p + 4u) == n0) {
                final = x_4;
                ends = true;
              }
            }
            #pragma unroll
            for (int k = 0; k < 6; ++k) {
              oldest[k] = oldest[k + 2];
            }
          }
          if (ends) {
            out[n0] = final;
          }
        } else {
          float final = 0.0f;
          bool ends = false;
          #pragma unroll 1
          for (int turn = 0; turn < 4; ++turn) {
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
              const int j = turn * 2 + u;
              const int p = (unsigned)first + j * 128;
              const float x = base_1 + oldest[u];
              const int slot = ((stage * 8 + j) * 384 + thread) * 4;
              const float4 ring4 = *reinterpret_cast<const float4*>(&ring[slot]);
              const float x_1 = x + ring4.x;
              const float x_2 = x + ring4.y;
              const float x_3 = x + ring4.z;
              const float x_4 = x + ring4.w;
              if (p < n0) {
                out[p] = x;
              }
              if ((int)(p + 1u) < n0) {
                out[p + 1] = x_1;
              }
              if ((int)(p + 2u) < n0) {
                out[p + 2] = x_2;
              }
              if ((int)(p + 3u) < n0) {
                out[p + 3] = x_3;
              }
              if ((int)(p + 1u) == n0) {
                final = x_1;
                ends = true;
              }
              if ((int)(p + 2u) == n0) {
                final = x_2;
                ends = true;
              }
              if ((int)(p + 3u) == n0) {
                final = x_3;
                ends = true;
              }
              if ((int)(p + 4u) == n0) {
                final = x_4;
                ends = true;
              }
            }
            #pragma unroll
            for (int k = 0; k < 6; ++k) {
              oldest[k] = oldest[k + 2];
            }
          }
          if (ends) {
            out[n0] = final;
          }
        }
      }
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        oldest[j] = middle[j];
        middle[j] = before[j];
      }
      const int number_1 = min(combined, all_tiles - 1);
      const int tile_start_1 = number_1 * 12288u;
      const int tile_stop_1 = min((int)(tile_start_1 + 12288u), n0);
      const bool exists_1 = combined < all_tiles;
      const int first_1 = (unsigned)tile_start_1 + t;
      const bool whole_1 = (int)((unsigned)tile_stop_1 - tile_start_1) == 12288;
      if (exists_1) {
        // Prefixes inside a tile whose elements were requested one iteration ago.
        if (whole_1) {
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const float x = coming[(int64)j * 4];
            const float x_1 = x + coming[(int64)j * 4 + 1];
            const float x_2 = x_1 + coming[(int64)j * 4 + 2];
            const float x_3 = x_2 + coming[(int64)j * 4 + 3];
            const int slot = ((stage * 8 + j) * 384 + thread) * 4;
            *reinterpret_cast<float4*>(&ring[slot]) = make_float4(x, x_1, x_2, x_3);
            before[j] = x_3;
          }
        } else if (by_vectors) {
          #pragma unroll 1
          for (int turn = 0; turn < 4; ++turn) {
            #pragma unroll
            for (int k = 0; k < 6; ++k) {
              before[k] = before[k + 2];
            }
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
              const int j = turn * 2 + u;
              const int p = (unsigned)first_1 + j * 128;
              const int p_1 = min(p, n0 - 4);
              const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[p_1]));
              const float x = input4.x + input4.y;
              const float x_1 = x + input4.z;
              const float x_2 = x_1 + input4.w;
              const int slot = ((stage * 8 + j) * 384 + thread) * 4;
              *reinterpret_cast<float4*>(&ring[slot]) = make_float4(input4.x, x, x_1, x_2);
              before[u + 6] = x_2;
            }
          }
        } else {
          #pragma unroll 1
          for (int turn = 0; turn < 4; ++turn) {
            #pragma unroll
            for (int k = 0; k < 6; ++k) {
              before[k] = before[k + 2];
            }
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
              const int j = turn * 2 + u;
              const int p = (unsigned)first_1 + j * 128;
              const int p_1 = min(p, n0 - 1);
              const float input_p = input[p_1];
              const int p_2 = min((int)(p + 1u), n0 - 1);
              const float input_p_1 = input[p_2];
              const int p_3 = min((int)(p + 2u), n0 - 1);
              const float input_p_2 = input[p_3];
              const int p_4 = min((int)(p + 3u), n0 - 1);
              const float input_p_3 = input[p_4];
              const float x = input_p + input_p_1;
              const float x_1 = x + input_p_2;
              const float x_2 = x_1 + input_p_3;
              const int slot = ((stage * 8 + j) * 384 + thread) * 4;
              *reinterpret_cast<float4*>(&ring[slot]) = make_float4(input_p, x, x_1, x_2);
              before[u + 6] = x_2;
            }
          }
        }
        // before[j]: prefixes over the threads of the totals of their vectors j.
        #pragma unroll 1
        for (int e = 0; e < 5; ++e) {
          const int step = 1 << e;
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const float before_2 = before[j];
            const float other_1 = __shfl_up_sync(0xffffffff, before_2, step);
            if (step <= lane) {
              before[j] = other_1 + before_2;
            }
          }
        }
        float run = -0.0f;
        // before[j] becomes what comes before vector j; run is the total so far.
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float before_2 = before[j];
          const float other_1 = __shfl_sync(0xffffffff, before_2, 31);
          const float other_2 = __shfl_up_sync(0xffffffff, before_2, 1);
          before[j] = run;
          if (lane > 0) {
            before[j] = run + other_2;
          }
          run += other_1;
        }
        if (lane == 0) {
          warp_total[side * 12 + warp] = run;
        }
      }
      const int number_2 = min(asked, all_tiles - 1);
      const int tile_start_2 = number_2 * 12288u;
      const int tile_stop_2 = min((int)(tile_start_2 + 12288u), n0);
      const bool exists_2 = asked < all_tiles;
      const int first_2 = tile_start_2 + t;
      const bool whole_2 = (int)((unsigned)tile_stop_2 - tile_start_2) == 12288;
      if (exists_2 && whole_2) {
        // The elements of the newest tile, for the next iteration.
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int p = first_2 + j * 128;
          const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[p]));
          coming[(int64)j * 4] = input4.x;
          coming[(int64)j * 4 + 1] = input4.y;
          coming[(int64)j * 4 + 2] = input4.z;
          coming[(int64)j * 4 + 3] = input4.w;
        }
      }
    }
    __syncthreads();
    stored = looks_back;
    looks_back = published;
    published = combined;
    combined = asked;
    asked = min(max(taken[side], 0), all_tiles);
    side = other;
    stage = (uint32)(int)(stage + 1u) % 3u;
  }
}
