// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// scanl1, test_kernel_text.py
// several rows to a block
extern "C" __global__ void __launch_bounds__(256)
scanl1_rows(const float* __restrict__ input, float* __restrict__ out0,
                   float* __restrict__ out1, int n0, int n1, int width, int steps,
                   int rows_per_block, int width_multiplier, int width_shift,
                   int chunk_multiplier, int chunk_shift) {
  float inside[16];
  float inside_1[16];
  float before[4];
  float before_1[4];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int t = quotient(thread, width_multiplier, width_shift);
  const int lane = thread - t * width;
  const int own = task * rows_per_block + t;
  const int row = min(own, n0 - 1);
  const bool owner = own < n0;
  const int end = (thread & 31) - lane + width - 1;
  float carry = 0.0f;
  float carry_1 = 0.0f;
  const int step = width * 4;
  const int chunk = step * 4;
  const int iteration_end = quotient(n1 + chunk - 1, chunk_multiplier, chunk_shift);
  for (int iteration = 0; iteration < iteration_end; ++iteration) {
    // inside: the prefixes inside each vector; before: their totals.
    const int origin = iteration * chunk;
    const int first = origin + lane * 4;
    const float base = carry;
    const float base_1 = carry_1;
    const bool by_vectors = (n1 & 3) == 0;
    if (by_vectors) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const int p_1 = min(p, n1 - 4);
        const int at = row * n1 + p_1;
        const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[at]));
        const float x = input4.x * input4.y;
        const float x_1 = x + input4.y;
        const float x_2 = x * input4.z;
        const float x_3 = x_1 * input4.z + input4.z;
        const float x_4 = x_2 * input4.w;
        const float x_5 = x_3 * input4.w + input4.w;
        const int slot = j * 4;
        inside[slot] = input4.x;
        inside[slot + 1] = x;
        inside[slot + 2] = x_2;
        inside[slot + 3] = x_4;
        inside_1[slot] = input4.x;
        inside_1[slot + 1] = x_1;
        inside_1[slot + 2] = x_3;
        inside_1[slot + 3] = x_5;
        before[j] = x_4;
        before_1[j] = x_5;
      }
    } else {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const int p_1 = min(p, n1 - 1);
        const float input_value = input[row * n1 + p_1];
        const int p_2 = min(p + 1, n1 - 1);
        const float input_value_1 = input[row * n1 + p_2];
        const int p_3 = min(p + 2, n1 - 1);
        const float input_value_2 = input[row * n1 + p_3];
        const int p_4 = min(p + 3, n1 - 1);
        const float input_value_3 = input[row * n1 + p_4];
        const float x = input_value * input_value_1;
        const float x_1 = x + input_value_1;
        const float x_2 = x * input_value_2;
        const float x_3 = x_1 * input_value_2 + input_value_2;
        const float x_4 = x_2 * input_value_3;
        const float x_5 = x_3 * input_value_3 + input_value_3;
        const int slot = j * 4;
        inside[slot] = input_value;
        inside[slot + 1] = x;
        inside[slot + 2] = x_2;
        inside[slot + 3] = x_4;
        inside_1[slot] = input_value;
        inside_1[slot + 1] = x_1;
        inside_1[slot + 2] = x_3;
        inside_1[slot + 3] = x_5;
        before[j] = x_4;
        before_1[j] = x_5;
      }
    }
    // before[j]: prefixes over the threads of the totals of their vectors j.
    #pragma unroll 1
    for (int e = 0; e < min(max(steps, 0), 5); ++e) {
      const int step_1 = 1 << e;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float before_2 = before[j];
        const float before_1_1 = before_1[j];
        const float other = __shfl_up_sync(0xffffffff, before_2, step_1);
        const float other_1 = __shfl_up_sync(0xffffffff, before_1_1, step_1);
        if (step_1 <= lane) {
          before[j] = other * before_2;
          before_1[j] = other_1 * before_2 + before_1_1;
        }
      }
    }
    float run = 0.0f;
    float run_1 = 0.0f;
    // before[j] becomes what comes before vector j; run is the total so far.
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float before_2 = before[j];
      const float before_1_1 = before_1[j];
      const float other = __shfl_sync(0xffffffff, before_2, end);
      const float other_1 = __shfl_sync(0xffffffff, before_1_1, end);
      const float other_2 = __shfl_up_sync(0xffffffff, before_2, 1);
      const float other_3 = __shfl_up_sync(0xffffffff, before_1_1, 1);
      if (j == 0) {
        before[j] = other_2;
        before_1[j] = other_3;
        run = other;
        run_1 = other_1;
      } else {
        before[j] = run;
        before_1[j] = run_1;
        if (lane > 0) {
          before[j] = run * other_2;
          before_1[j] = run_1 * other_2 + other_3;
        }
        run *= other;
        run_1 = run_1 * other + other_1;
      }
    }
    if (by_vectors) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float before_2 = before[j];
        const float before_1_1 = before_1[j];
        const bool some = j > 0 || lane > 0;
        float start = before_2;
        float start_1 = before_1_1;
        if (iteration > 0) {
          start = base;
          start_1 = base_1;
          if (some) {
            start = base * before_2;
            start_1 = base_1 * before_2 + before_1_1;
          }
        }
        const int slot = j * 4;
        const float inside_2 = inside[slot];
        const float inside_1_1 = inside_1[slot];
        const float inside_3 = inside[slot + 1];
        const float inside_1_2 = inside_1[slot + 1];
        const float inside_4 = inside[slot + 2];
        const float inside_1_3 = inside_1[slot + 2];
        const float inside_5 = inside[slot + 3];
        const float inside_1_4 = inside_1[slot + 3];
        float r = inside_2;
        float r_1 = inside_1_1;
        if (iteration > 0 || some) {
          r = start * inside_2;
          r_1 = start_1 * inside_2 + inside_1_1;
        }
        float r_2 = inside_3;
        float r_3 = inside_1_2;
        if (iteration > 0 || some) {
          r_2 = start * inside_3;
          r_3 = start_1 * inside_3 + inside_1_2;
        }
        float r_4 = inside_4;
        float r_5 = inside_1_3;
        if (iteration > 0 || some) {
          r_4 = start * inside_4;
          r_5 = start_1 * inside_4 + inside_1_3;
        }
        float r_6 = inside_5;
        float r_7 = inside_1_4;
        if (iteration > 0 || some) {
          r_6 = start * inside_5;
          r_7 = start_1 * inside_5 + inside_1_4;
        }
        if (owner && p < n1) {
          const int at = row * n1 + p;
          __stcs(reinterpret_cast<float4*>(&out0[at]), make_float4(r, r_2, r_4, r_6));
          __stcs(reinterpret_cast<float4*>(&out1[at]), make_float4(r_1, r_3, r_5, r_7));
        }
      }
    } else {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int p = first + j * step;
        const float before_2 = before[j];
        const float before_1_1 = before_1[j];
        const bool some = j > 0 || lane > 0;
        float start = before_2;
        float start_1 = before_1_1;
        if (iteration > 0) {
          start = base;
          start_1 = base_1;
          if (some) {
            start = base * before_2;
            start_1 = base_1 * before_2 + before_1_1;
          }
        }
        const int slot = j * 4;
        const float inside_2 = inside[slot];
        const float inside_1_1 = inside_1[slot];
        const float inside_3 = inside[slot + 1];
        const float inside_1_2 = inside_1[slot + 1];
        const float inside_4 = inside[slot + 2];
        const float inside_1_3 = inside_1[slot + 2];
        const float inside_5 = inside[slot + 3];
        const float inside_1_4 = inside_1[slot + 3];
        float r = inside_2;
        float r_1 = inside_1_1;
        if (iteration > 0 || some) {
          r = start * inside_2;
          r_1 = start_1 * inside_2 + inside_1_1;
        }
        float r_2 = inside_3;
        float r_3 = inside_1_2;
        if (iteration > 0 || some) {
          r_2 = start * inside_3;
          r_3 = start_1 * inside_3 + inside_1_2;
        }
        float r_4 = inside_4;
        float r_5 = inside_1_3;
        if (iteration > 0 || some) {
          r_4 = start * inside_4;
          r_5 = start_1 * inside_4 + inside_1_3;
        }
        float r_6 = inside_5;
        float r_7 = inside_1_4;
        if (iteration > 0 || some) {
          r_6 = start * inside_5;
          r_7 = start_1 * inside_5 + inside_1_4;
        }
        if (owner) {
          if (p < n1) {
            out0[row * n1 + p] = r;
            out1[row * n1 + p] = r_1;
          }
          if (p + 1 < n1) {
            const int p_1 = p + 1;
            out0[row * n1 + p_1] = r_2;
            out1[row * n1 + p_1] = r_3;
          }
          if (p + 2 < n1) {
            const int p_1 = p + 2;
            out0[row * n1 + p_1] = r_4;
            out1[row * n1 + p_1] = r_5;
          }
          if (p + 3 < n1) {
            const int p_1 = p + 3;
            out0[row * n1 + p_1] = r_6;
            out1[row * n1 + p_1] = r_7;
          }
        }
      }
    }
    if (iteration > 0) {
      carry *= run;
      carry_1 = carry_1 * run + run_1;
    } else {
      carry = run;
      carry_1 = run_1;
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

// scanl1, test_kernel_text.py
// tiles of 12288 elements, in one pass
extern "C" __global__ void __launch_bounds__(512, 2)
scanl1_tiles(const float* __restrict__ input, float* __restrict__ out0,
                    float* __restrict__ out1, uint64* __restrict__ zero_state, int n1, int tiles,
                    int groups, int all_tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  int* const ticket = reinterpret_cast<int*>(shared_memory);
  float* const inside = reinterpret_cast<float*>(shared_memory + 16);
  float* const inside_1 = reinterpret_cast<float*>(shared_memory + 49168);
  float before[6];
  float before_1[6];
  float* const warp_total = reinterpret_cast<float*>(shared_memory + 98320);
  float* const warp_total_1 = reinterpret_cast<float*>(shared_memory + 98384);
  float* const warp_prefix = reinterpret_cast<float*>(shared_memory + 98448);
  float* const warp_prefix_1 = reinterpret_cast<float*>(shared_memory + 98512);
  int64* const nearest = reinterpret_cast<int64*>(shared_memory + 98576);
  float* const head = reinterpret_cast<float*>(shared_memory + 98592);
  float* const head_1 = reinterpret_cast<float*>(shared_memory + 98608);
  float* const sum = reinterpret_cast<float*>(shared_memory + 98624);
  float* const sum_1 = reinterpret_cast<float*>(shared_memory + 98672);
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
  const int row = number / tiles;
  const int tile = number % tiles;
  const int tile_start = tile * 12288u;
  const int tile_stop = min((int)(tile_start + 12288u), n1);
  const int first = (unsigned)tile_start + (warp * 768 + lane * 4);
  const bool whole = (int)((unsigned)tile_stop - tile_start) == 12288;
  const bool by_vectors = (n1 & 3) == 0;
  // inside: the prefixes inside each vector; before: their totals.
  if (whole) {
    #pragma unroll
    for (int j = 0; j < 6; ++j) {
      const int p = first + j * 128;
      const int at = row * n1 + p;
      const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[at]));
      const float x = input4.x * input4.y;
      const float x_1 = x + input4.y;
      const float x_2 = x * input4.z;
      const float x_3 = x_1 * input4.z + input4.z;
      const float x_4 = x_2 * input4.w;
      const float x_5 = x_3 * input4.w + input4.w;
      const int slot = (j * 512 + thread) * 4;
      *reinterpret_cast<float4*>(&inside[slot]) = make_float4(input4.x, x, x_2, x_4);
      *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input4.x, x_1, x_3, x_5);
      before[j] = x_4;
      before_1[j] = x_5;
    }
  } else if (by_vectors) {
    #pragma unroll 1
    for (int turn = 0; turn < 3; ++turn) {
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        before[k] = before[k + 2];
        before_1[k] = before_1[k + 2];
      }
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const int p_1 = min(p, n1 - 4);
        const int at = row * n1 + p_1;
        const float4 input4 = __ldcs(reinterpret_cast<const float4*>(&input[at]));
        const float x = input4.x * input4.y;
        const float x_1 = x + input4.y;
        const float x_2 = x * input4.z;
        const float x_3 = x_1 * input4.z + input4.z;
        const float x_4 = x_2 * input4.w;
        const float x_5 = x_3 * input4.w + input4.w;
        const int slot = (j * 512 + thread) * 4;
        *reinterpret_cast<float4*>(&inside[slot]) = make_float4(input4.x, x, x_2, x_4);
        *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input4.x, x_1, x_3, x_5);
        before[u + 4] = x_4;
        before_1[u + 4] = x_5;
      }
    }
  } else {
    #pragma unroll 1
    for (int turn = 0; turn < 3; ++turn) {
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        before[k] = before[k + 2];
        before_1[k] = before_1[k + 2];
      }
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const int p_1 = min(p, n1 - 1);
        const float input_value = input[row * n1 + p_1];
        const int p_2 = min((int)(p + 1u), n1 - 1);
        const float input_value_1 = input[row * n1 + p_2];
        const int p_3 = min((int)(p + 2u), n1 - 1);
        const float input_value_2 = input[row * n1 + p_3];
        const int p_4 = min((int)(p + 3u), n1 - 1);
        const float input_value_3 = input[row * n1 + p_4];
        const float x = input_value * input_value_1;
        const float x_1 = x + input_value_1;
        const float x_2 = x * input_value_2;
        const float x_3 = x_1 * input_value_2 + input_value_2;
        const float x_4 = x_2 * input_value_3;
        const float x_5 = x_3 * input_value_3 + input_value_3;
        const int slot = (j * 512 + thread) * 4;
        *reinterpret_cast<float4*>(&inside[slot]) = make_float4(input_value, x, x_2, x_4);
        *reinterpret_cast<float4*>(&inside_1[slot]) = make_float4(input_value, x_1, x_3, x_5);
        before[u + 4] = x_4;
        before_1[u + 4] = x_5;
      }
    }
  }
  // before[j]: prefixes over the threads of the totals of their vectors j.
  #pragma unroll 1
  for (int e = 0; e < 5; ++e) {
    const int step = 1 << e;
    #pragma unroll
    for (int j = 0; j < 6; ++j) {
      const float before_2 = before[j];
      const float before_3 = before_1[j];
      const float other = __shfl_up_sync(0xffffffff, before_2, step);
      const float other_1 = __shfl_up_sync(0xffffffff, before_3, step);
      if (step <= lane) {
        before[j] = other * before_2;
        before_1[j] = other_1 * before_2 + before_3;
      }
    }
  }
  float run = 0.0f;
  float run_1 = 0.0f;
  // before[j] becomes what comes before vector j; run is the total so far.
  #pragma unroll
  for (int j = 0; j < 6; ++j) {
    const float before_2 = before[j];
    const float before_3 = before_1[j];
    const float other = __shfl_sync(0xffffffff, before_2, 31);
    const float other_1 = __shfl_sync(0xffffffff, before_3, 31);
    const float other_2 = __shfl_up_sync(0xffffffff, before_2, 1);
    const float other_3 = __shfl_up_sync(0xffffffff, before_3, 1);
    if (j == 0) {
      before[j] = other_2;
      before_1[j] = other_3;
      run = other;
      run_1 = other_1;
    } else {
      before[j] = run;
      before_1[j] = run_1;
      if (lane > 0) {
        before[j] = run * other_2;
        before_1[j] = run_1 * other_2 + other_3;
      }
      run *= other;
      run_1 = run_1 * other + other_1;
    }
  }
  // Every warp leaves its total.
  if (lane == 0) {
    warp_total[warp] = run;
    warp_total_1[warp] = run_1;
  }
  __syncthreads();
  // Look back: the first warp publishes the total of the tile, waits for those in front
  // of it in its group of 32 and finds a group whose start is known; warp w adds up
  // the group that is w before.
  const int group = tile >> 5;
  const int index = tile & 31;
  const int own = group - warp;
  const int tile_slot = row * tiles + own * 32 + lane;
  const bool wanted = warp <= 8 && own >= 0 && (warp > 0 || lane < index);
  uint64 word = wanted ? 0ull : 4294967296ull;
  uint64 word_1 = wanted ? 0ull : 4294967296ull;
  const bool first_warp = warp == 0;
  if (first_warp) {
    float prefix = warp_total[min(lane, 15)];
    float prefix_1 = warp_total_1[min(lane, 15)];
    const float other = __shfl_up_sync(0xffffffff, prefix, 1);
    const float other_1 = __shfl_up_sync(0xffffffff, prefix_1, 1);
    if (lane >= 1) {
      const float r = other_1 * prefix + prefix_1;
      prefix *= other;
      prefix_1 = r;
    }
    const float other_2 = __shfl_up_sync(0xffffffff, prefix, 2);
    const float other_3 = __shfl_up_sync(0xffffffff, prefix_1, 2);
    if (lane >= 2) {
      const float r = other_3 * prefix + prefix_1;
      prefix *= other_2;
      prefix_1 = r;
    }
    const float other_4 = __shfl_up_sync(0xffffffff, prefix, 4);
    const float other_5 = __shfl_up_sync(0xffffffff, prefix_1, 4);
    if (lane >= 4) {
      const float r = other_5 * prefix + prefix_1;
      prefix *= other_4;
      prefix_1 = r;
    }
    const float other_6 = __shfl_up_sync(0xffffffff, prefix, 8);
    const float other_7 = __shfl_up_sync(0xffffffff, prefix_1, 8);
    if (lane >= 8) {
      const float r = other_7 * prefix + prefix_1;
      prefix *= other_6;
      prefix_1 = r;
    }
    if (lane < 16) {
      warp_prefix[lane] = prefix;
      warp_prefix_1[lane] = prefix_1;
    }
    if (lane == 15 && tile + 1 < tiles) {
      const int word_2 = (row * tiles + tile) * 2 + 1;
      publish_relaxed(
          &zero_state[word_2], (uint64)(uint32)__float_as_uint(prefix) | 4294967296ull);
      publish_relaxed(
          &zero_state[word_2 + 1], (uint64)(uint32)__float_as_uint(prefix_1) | 4294967296ull);
    }
    const int mine = group - lane;
    const bool near = lane <= 8;
    const bool asked = near && mine > 0;
    const int slot = row * groups + mine;
    uint64 word_2 = asked ? 0ull : 4294967296ull;
    uint64 word_3 = asked ? 0ull : 4294967296ull;
    int64 away = 0;
    #pragma unroll 1
    while (true) {
      if (!(word_2 >= 4294967296ull && word_3 >= 4294967296ull)) {
        const int word_4 = all_tiles * 2 + slot * 2 + 1;
        const uint64 got = fetch_relaxed(&zero_state[word_4]);
        word_2 = got;
        const uint64 got_1 = fetch_relaxed(&zero_state[word_4 + 1]);
        word_3 = got_1;
      }
      if (!(word >= 4294967296ull && word_1 >= 4294967296ull)) {
        const int word_4 = tile_slot * 2 + 1;
        const uint64 got = fetch_relaxed(&zero_state[word_4]);
        word = got;
        const uint64 got_1 = fetch_relaxed(&zero_state[word_4 + 1]);
        word_1 = got_1;
      }
      const uint32 starts =
          __ballot_sync(0xffffffff, near && word_2 >= 4294967296ull && word_3 >= 4294967296ull);
      away = __clz(__brev(starts));
      const uint32 lacking = __ballot_sync(
          0xffffffff, !(word >= 4294967296ull && word_1 >= 4294967296ull) || (int)away >= 32);
      if (lacking == 0u) break;
    }
    if (lane == (int)away) {
      nearest[0] = away;
      head[0] = __uint_as_float((uint32)word_2);
      head_1[0] = __uint_as_float((uint32)word_3);
    }
  } else if (!(word >= 4294967296ull && word_1 >= 4294967296ull)) {
    const int word_2 = tile_slot * 2 + 1;
    const uint64 got = fetch_relaxed(&zero_state[word_2]);
    word = got;
    const uint64 got_1 = fetch_relaxed(&zero_state[word_2 + 1]);
    word_1 = got_1;
  }
  __syncthreads();
  if ((int64)warp <= nearest[0]) {
    #pragma unroll 1
    while (true) {
      const uint32 lacking =
          __ballot_sync(0xffffffff, !(word >= 4294967296ull && word_1 >= 4294967296ull));
      if (lacking == 0u) break;
      if (!(word >= 4294967296ull && word_1 >= 4294967296ull)) {
        const int word_2 = tile_slot * 2 + 1;
        const uint64 got = fetch_relaxed(&zero_state[word_2]);
        word = got;
        const uint64 got_1 = fetch_relaxed(&zero_state[word_2 + 1]);
        word_1 = got_1;
      }
    }
    float sum_2 = __uint_as_float((uint32)word);
    float sum_3 = __uint_as_float((uint32)word_1);
    if (first_warp && index == 31) {
      float whole_1 = sum_2;
      float whole_2 = sum_3;
      if (lane == 31) {
        whole_1 = warp_prefix[15];
        whole_2 = warp_prefix_1[15];
      }
      const float other = __shfl_down_sync(0xffffffff, whole_1, 1);
      const float other_1 = __shfl_down_sync(0xffffffff, whole_2, 1);
      whole_1 *= other;
      whole_2 = whole_2 * other + other_1;
      const float other_2 = __shfl_down_sync(0xffffffff, whole_1, 2);
      const float other_3 = __shfl_down_sync(0xffffffff, whole_2, 2);
      whole_1 *= other_2;
      whole_2 = whole_2 * other_2 + other_3;
      const float other_4 = __shfl_down_sync(0xffffffff, whole_1, 4);
      const float other_5 = __shfl_down_sync(0xffffffff, whole_2, 4);
      whole_1 *= other_4;
      whole_2 = whole_2 * other_4 + other_5;
      const float other_6 = __shfl_down_sync(0xffffffff, whole_1, 8);
      const float other_7 = __shfl_down_sync(0xffffffff, whole_2, 8);
      whole_1 *= other_6;
      whole_2 = whole_2 * other_6 + other_7;
      const float other_8 = __shfl_down_sync(0xffffffff, whole_1, 16);
      const float other_9 = __shfl_down_sync(0xffffffff, whole_2, 16);
      whole_1 *= other_8;
      whole_2 = whole_2 * other_8 + other_9;
      if (lane == 0) {
        sum[9] = whole_1;
        sum_1[9] = whole_2;
      }
    }
    const int count = first_warp ? index : 32;
    const float other = __shfl_down_sync(0xffffffff, sum_2, 1);
    const float other_1 = __shfl_down_sync(0xffffffff, sum_3, 1);
    if (lane + 1 < count) {
      sum_2 *= other;
      sum_3 = sum_3 * other + other_1;
    }
    const float other_2 = __shfl_down_sync(0xffffffff, sum_2, 2);
    const float other_3 = __shfl_down_sync(0xffffffff, sum_3, 2);
    if (lane + 2 < count) {
      sum_2 *= other_2;
      sum_3 = sum_3 * other_2 + other_3;
    }
    const float other_4 = __shfl_down_sync(0xffffffff, sum_2, 4);
    const float other_5 = __shfl_down_sync(0xffffffff, sum_3, 4);
    if (lane + 4 < count) {
      sum_2 *= other_4;
      sum_3 = sum_3 * other_4 + other_5;
    }
    const float other_6 = __shfl_down_sync(0xffffffff, sum_2, 8);
    const float other_7 = __shfl_down_sync(0xffffffff, sum_3, 8);
    if (lane + 8 < count) {
      sum_2 *= other_6;
      sum_3 = sum_3 * other_6 + other_7;
    }
    const float other_8 = __shfl_down_sync(0xffffffff, sum_2, 16);
    const float other_9 = __shfl_down_sync(0xffffffff, sum_3, 16);
    if (lane + 16 < count) {
      sum_2 *= other_8;
      sum_3 = sum_3 * other_8 + other_9;
    }
    if (lane == 0) {
      sum[warp] = sum_2;
      sum_1[warp] = sum_3;
    }
  }
  __syncthreads();
  // What comes before this warp, combined from left to right.
  const int64 nearest_1 = nearest[0];
  const bool begun = nearest_1 < (int64)group;
  float before_2 = head[0];
  float before_3 = head_1[0];
  if (!begun) {
    before_2 = 0.0f;
    before_3 = 0.0f;
  }
  bool some = begun;
  const int between = min(max(nearest_1, 0ll), 8ll);
  #pragma unroll 1
  for (int w = 0; w < between; ++w) {
    const float sum_2 = sum[between - w];
    const float sum_1_1 = sum_1[between - w];
    if (some) {
      before_2 *= sum_2;
      before_3 = before_3 * sum_2 + sum_1_1;
    } else {
      before_2 = sum_2;
      before_3 = sum_1_1;
      some = true;
    }
  }
  if (thread == 0 && index == 31 && tile + 1 < tiles) {
    float whole_1 = sum[9];
    float whole_2 = sum_1[9];
    if (some) {
      const float x = before_3 * whole_1 + whole_2;
      whole_1 *= before_2;
      whole_2 = x;
    }
    const int word_2 = all_tiles * 2 + (row * groups + group + 1) * 2 + 1;
    publish_relaxed(
        &zero_state[word_2], (uint64)(uint32)__float_as_uint(whole_1) | 4294967296ull);
    publish_relaxed(
        &zero_state[word_2 + 1], (uint64)(uint32)__float_as_uint(whole_2) | 4294967296ull);
  }
  if (index > 0) {
    const float sum_2 = sum[0];
    const float sum_1_1 = sum_1[0];
    if (some) {
      before_2 *= sum_2;
      before_3 = before_3 * sum_2 + sum_1_1;
    } else {
      before_2 = sum_2;
      before_3 = sum_1_1;
      some = true;
    }
  }
  if (warp > 0) {
    const float warp_prefix_2 = warp_prefix[warp - 1];
    const float warp_prefix_1_1 = warp_prefix_1[warp - 1];
    if (some) {
      before_2 *= warp_prefix_2;
      before_3 = before_3 * warp_prefix_2 + warp_prefix_1_1;
    } else {
      before_2 = warp_prefix_2;
      before_3 = warp_prefix_1_1;
      some = true;
    }
  }
  if (whole) {
    #pragma unroll
    for (int j = 0; j < 6; ++j) {
      const int p = first + j * 128;
      const float before_2_1 = before[j];
      const float before_3_1 = before_1[j];
      const bool some_1 = j > 0 || lane > 0;
      float start = before_2_1;
      float start_1 = before_3_1;
      if (some) {
        start = before_2;
        start_1 = before_3;
        if (some_1) {
          start = before_2 * before_2_1;
          start_1 = before_3 * before_2_1 + before_3_1;
        }
      }
      const int slot = (j * 512 + thread) * 4;
      const float4 inside_2_4 = *reinterpret_cast<const float4*>(&inside[slot]);
      const float4 inside_3_4 = *reinterpret_cast<const float4*>(&inside_1[slot]);
      float r = inside_2_4.x;
      float r_1 = inside_3_4.x;
      if (some || some_1) {
        r = start * inside_2_4.x;
        r_1 = start_1 * inside_2_4.x + inside_3_4.x;
      }
      float r_2 = inside_2_4.y;
      float r_3 = inside_3_4.y;
      if (some || some_1) {
        r_2 = start * inside_2_4.y;
        r_3 = start_1 * inside_2_4.y + inside_3_4.y;
      }
      float r_4 = inside_2_4.z;
      float r_5 = inside_3_4.z;
      if (some || some_1) {
        r_4 = start * inside_2_4.z;
        r_5 = start_1 * inside_2_4.z + inside_3_4.z;
      }
      float r_6 = inside_2_4.w;
      float r_7 = inside_3_4.w;
      if (some || some_1) {
        r_6 = start * inside_2_4.w;
        r_7 = start_1 * inside_2_4.w + inside_3_4.w;
      }
      const int at = row * n1 + p;
      __stcs(reinterpret_cast<float4*>(&out0[at]), make_float4(r, r_2, r_4, r_6));
      __stcs(reinterpret_cast<float4*>(&out1[at]), make_float4(r_1, r_3, r_5, r_7));
    }
  } else if (by_vectors) {
    #pragma unroll 1
    for (int turn = 0; turn < 3; ++turn) {
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const float before_2_1 = before[u];
        const float before_3_1 = before_1[u];
        const bool some_1 = j > 0 || lane > 0;
        float start = before_2_1;
        float start_1 = before_3_1;
        if (some) {
          start = before_2;
          start_1 = before_3;
          if (some_1) {
            start = before_2 * before_2_1;
            start_1 = before_3 * before_2_1 + before_3_1;
          }
        }
        const int slot = (j * 512 + thread) * 4;
        const float4 inside_2_4 = *reinterpret_cast<const float4*>(&inside[slot]);
        const float4 inside_3_4 = *reinterpret_cast<const float4*>(&inside_1[slot]);
        float r = inside_2_4.x;
        float r_1 = inside_3_4.x;
        if (some || some_1) {
          r = start * inside_2_4.x;
          r_1 = start_1 * inside_2_4.x + inside_3_4.x;
        }
        float r_2 = inside_2_4.y;
        float r_3 = inside_3_4.y;
        if (some || some_1) {
          r_2 = start * inside_2_4.y;
          r_3 = start_1 * inside_2_4.y + inside_3_4.y;
        }
        float r_4 = inside_2_4.z;
        float r_5 = inside_3_4.z;
        if (some || some_1) {
          r_4 = start * inside_2_4.z;
          r_5 = start_1 * inside_2_4.z + inside_3_4.z;
        }
        float r_6 = inside_2_4.w;
        float r_7 = inside_3_4.w;
        if (some || some_1) {
          r_6 = start * inside_2_4.w;
          r_7 = start_1 * inside_2_4.w + inside_3_4.w;
        }
        if (p < n1) {
          const int at = row * n1 + p;
          __stcs(reinterpret_cast<float4*>(&out0[at]), make_float4(r, r_2, r_4, r_6));
          __stcs(reinterpret_cast<float4*>(&out1[at]), make_float4(r_1, r_3, r_5, r_7));
        }
      }
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        before[k] = before[k + 2];
        before_1[k] = before_1[k + 2];
      }
    }
  } else {
    #pragma unroll 1
    for (int turn = 0; turn < 3; ++turn) {
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int j = turn * 2 + u;
        const int p = (unsigned)first + j * 128;
        const float before_2_1 = before[u];
        const float before_3_1 = before_1[u];
        const bool some_1 = j > 0 || lane > 0;
        float start = before_2_1;
        float start_1 = before_3_1;
        if (some) {
          start = before_2;
          start_1 = before_3;
          if (some_1) {
            start = before_2 * before_2_1;
            start_1 = before_3 * before_2_1 + before_3_1;
          }
        }
        const int slot = (j * 512 + thread) * 4;
        const float4 inside_2_4 = *reinterpret_cast<const float4*>(&inside[slot]);
        const float4 inside_3_4 = *reinterpret_cast<const float4*>(&inside_1[slot]);
        float r = inside_2_4.x;
        float r_1 = inside_3_4.x;
        if (some || some_1) {
          r = start * inside_2_4.x;
          r_1 = start_1 * inside_2_4.x + inside_3_4.x;
        }
        float r_2 = inside_2_4.y;
        float r_3 = inside_3_4.y;
        if (some || some_1) {
          r_2 = start * inside_2_4.y;
          r_3 = start_1 * inside_2_4.y + inside_3_4.y;
        }
        float r_4 = inside_2_4.z;
        float r_5 = inside_3_4.z;
        if (some || some_1) {
          r_4 = start * inside_2_4.z;
          r_5 = start_1 * inside_2_4.z + inside_3_4.z;
        }
        float r_6 = inside_2_4.w;
        float r_7 = inside_3_4.w;
        if (some || some_1) {
          r_6 = start * inside_2_4.w;
          r_7 = start_1 * inside_2_4.w + inside_3_4.w;
        }
        if (p < n1) {
          out0[row * n1 + p] = r;
          out1[row * n1 + p] = r_1;
        }
        if ((int)(p + 1u) < n1) {
          const int p_1 = p + 1u;
          out0[row * n1 + p_1] = r_2;
          out1[row * n1 + p_1] = r_3;
        }
        if ((int)(p + 2u) < n1) {
          const int p_1 = p + 2u;
          out0[row * n1 + p_1] = r_4;
          out1[row * n1 + p_1] = r_5;
        }
        if ((int)(p + 3u) < n1) {
          const int p_1 = p + 3u;
          out0[row * n1 + p_1] = r_6;
          out1[row * n1 + p_1] = r_7;
        }
      }
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        before[k] = before[k + 2];
        before_1[k] = before_1[k + 2];
      }
    }
  }
}
