using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// stencil, test_kernel_text.py
// schedule: default
// 4 × 4 elements a thread
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1,
               int inside_from1, int inside_to1, int strips, int rows_inside, int blocks_across,
               int block_width, int block_height, int groups, int block_width_multiplier,
               int block_width_shift, int blocks_across_multiplier, int blocks_across_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int own = quotient(thread, block_width_multiplier, block_width_shift);
  const int t = quotient(task, blocks_across_multiplier, blocks_across_shift);
  const int row = t * block_height + own;
  const int column = (task - t * blocks_across) * block_width + (thread - own * block_width);
  const bool active = own < block_height && row < strips && column < groups;
  const int i1 = column * 4;
  const int first = row * 4;
  const int last = min(first + 4, n0);
  // A warp of which every thread is inside needs no look at the borders.
  const bool plain = __all_sync(
      0xffffffff,
      !active || (first >= 1 && first + 4 <= rows_inside && inside_from1 <= i1
          && i1 + 4 <= inside_to1));
  if (active) {
    if (plain) {
      const float4 input_0 = *reinterpret_cast<const float4*>(&input[(first - 1) * n1 + i1]);
      const float4 input_1 = *reinterpret_cast<const float4*>(&input[first * n1 + i1]);
      const float4 input_2 = *reinterpret_cast<const float4*>(&input[(first + 1) * n1 + i1]);
      const float4 input_3 = *reinterpret_cast<const float4*>(&input[(first + 2) * n1 + i1]);
      const float4 input_4 = *reinterpret_cast<const float4*>(&input[(first + 3) * n1 + i1]);
      const float4 input_5 = *reinterpret_cast<const float4*>(&input[(first + 4) * n1 + i1]);
      // Every row here is below `last`. The tests keep all loads in front of the
      // arithmetic: the compiler moves no load over a branch.
      *reinterpret_cast<float4*>(&out[first * n1 + i1]) = make_float4(
          input_0.x + input[first * n1 + i1 - 1] + input_1.x + input_1.y + input_2.x,
          input_0.y + input_1.x + input_1.y + input_1.z + input_2.y,
          input_0.z + input_1.y + input_1.z + input_1.w + input_2.z,
          input_0.w + input_1.z + input_1.w + input[first * n1 + i1 + 4] + input_2.w);
      if (first + 1 < last) {
        const int64 position = (first + 1) * n1 + i1;
        *reinterpret_cast<float4*>(&out[position]) = make_float4(
            input_1.x + input[position - 1] + input_2.x + input_2.y + input_3.x,
            input_1.y + input_2.x + input_2.y + input_2.z + input_3.y,
            input_1.z + input_2.y + input_2.z + input_2.w + input_3.z,
            input_1.w + input_2.z + input_2.w + input[position + 4] + input_3.w);
      }
      if (first + 2 < last) {
        const int64 position = (first + 2) * n1 + i1;
        *reinterpret_cast<float4*>(&out[position]) = make_float4(
            input_2.x + input[position - 1] + input_3.x + input_3.y + input_4.x,
            input_2.y + input_3.x + input_3.y + input_3.z + input_4.y,
            input_2.z + input_3.y + input_3.z + input_3.w + input_4.z,
            input_2.w + input_3.z + input_3.w + input[position + 4] + input_4.w);
      }
      if (first + 3 < last) {
        const int64 position = (first + 3) * n1 + i1;
        *reinterpret_cast<float4*>(&out[position]) = make_float4(
            input_3.x + input[position - 1] + input_4.x + input_4.y + input_5.x,
            input_3.y + input_4.x + input_4.y + input_4.z + input_5.y,
            input_3.z + input_4.y + input_4.z + input_4.w + input_5.z,
            input_3.w + input_4.z + input_4.w + input[position + 4] + input_5.w);
      }
    } else {
      // At a border: what is outside is what the boundary says.
      const bool leftmost = i1 == 0;
      const bool rightmost = i1 == n1 - 4;
      const int before = max(i1 - 4, 0);
      const int after = min(i1 + 4, n1 - 4);
      const int at = min(max(first - 1, 0), n0 - 1);
      const float4 input_0 = *reinterpret_cast<const float4*>(&input[at * n1 + i1]);
      const float4 input_1_left = *reinterpret_cast<const float4*>(&input[first * n1 + before]);
      const float4 input_1 = *reinterpret_cast<const float4*>(&input[first * n1 + i1]);
      const float4 input_1_right = *reinterpret_cast<const float4*>(&input[first * n1 + after]);
      const int at_1 = min(max(first + 1, 0), n0 - 1);
      const float4 input_2_left = *reinterpret_cast<const float4*>(&input[at_1 * n1 + before]);
      const float4 input_2 = *reinterpret_cast<const float4*>(&input[at_1 * n1 + i1]);
      const float4 input_2_right = *reinterpret_cast<const float4*>(&input[at_1 * n1 + after]);
      const int at_2 = min(max(first + 2, 0), n0 - 1);
      const float4 input_3_left = *reinterpret_cast<const float4*>(&input[at_2 * n1 + before]);
      const float4 input_3 = *reinterpret_cast<const float4*>(&input[at_2 * n1 + i1]);
      const float4 input_3_right = *reinterpret_cast<const float4*>(&input[at_2 * n1 + after]);
      const int at_3 = min(max(first + 3, 0), n0 - 1);
      const float4 input_4_left = *reinterpret_cast<const float4*>(&input[at_3 * n1 + before]);
      const float4 input_4 = *reinterpret_cast<const float4*>(&input[at_3 * n1 + i1]);
      const float4 input_4_right = *reinterpret_cast<const float4*>(&input[at_3 * n1 + after]);
      const int at_4 = min(max(first + 4, 0), n0 - 1);
      const float4 input_5 = *reinterpret_cast<const float4*>(&input[at_4 * n1 + i1]);
      const float x = rightmost ? input_1.w : input_1_right.x;
      const float x_1 = leftmost ? input_1.x : input_1_left.w;
      const float x_2 = rightmost ? input_2.w : input_2_right.x;
      const float x_3 = leftmost ? input_2.x : input_2_left.w;
      const float x_4 = rightmost ? input_3.w : input_3_right.x;
      const float x_5 = leftmost ? input_3.x : input_3_left.w;
      const float x_6 = rightmost ? input_4.w : input_4_right.x;
      const float x_7 = leftmost ? input_4.x : input_4_left.w;
      *reinterpret_cast<float4*>(&out[first * n1 + i1]) = make_float4(
          input_0.x + x_1 + input_1.x + input_1.y + input_2.x,
          input_0.y + input_1.x + input_1.y + input_1.z + input_2.y,
          input_0.z + input_1.y + input_1.z + input_1.w + input_2.z,
          input_0.w + input_1.z + input_1.w + x + input_2.w);
      if (first + 1 < last) {
        *reinterpret_cast<float4*>(&out[(first + 1) * n1 + i1]) = make_float4(
            input_1.x + x_3 + input_2.x + input_2.y + input_3.x,
            input_1.y + input_2.x + input_2.y + input_2.z + input_3.y,
            input_1.z + input_2.y + input_2.z + input_2.w + input_3.z,
            input_1.w + input_2.z + input_2.w + x_2 + input_3.w);
      }
      if (first + 2 < last) {
        *reinterpret_cast<float4*>(&out[(first + 2) * n1 + i1]) = make_float4(
            input_2.x + x_5 + input_3.x + input_3.y + input_4.x,
            input_2.y + input_3.x + input_3.y + input_3.z + input_4.y,
            input_2.z + input_3.y + input_3.z + input_3.w + input_4.z,
            input_2.w + input_3.z + input_3.w + x_4 + input_4.w);
      }
      if (first + 3 < last) {
        *reinterpret_cast<float4*>(&out[(first + 3) * n1 + i1]) = make_float4(
            input_3.x + x_7 + input_4.x + input_4.y + input_5.x,
            input_3.y + input_4.x + input_4.y + input_4.z + input_5.y,
            input_3.z + input_4.y + input_4.z + input_4.w + input_5.z,
            input_3.w + input_4.z + input_4.w + x_6 + input_5.w);
      }
    }
  }
}
