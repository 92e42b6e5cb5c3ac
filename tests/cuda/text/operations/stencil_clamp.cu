using uint32 = unsigned int;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// stencil, test_kernel_text.py
// schedule: default
// 4 × 4 elements a thread
extern "C" __global__ void __launch_bounds__(128)
stencil(const float* __restrict__ input, float* __restrict__ out, int n0, int n1, int low1,
               int high1, int n4, int rows_inside, int n6, int wide_1, int high_1, int n7,
               int wide_1_multiplier, int wide_1_shift, int n6_multiplier, int n6_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int own = quotient(thread, wide_1_multiplier, wide_1_shift);
  const int t = quotient(task, n6_multiplier, n6_shift);
  const int row = t * high_1 + own;
  const int column = (task - t * n6) * wide_1 + (thread - own * wide_1);
  const bool active = own < high_1 && row < n4 && column < n7;
  const int i1 = column * 4;
  const int first = row * 4;
  const int last = min(first + 4, n0);
  const uint32 every = __ballot_sync(
      0xffffffff,
      !(active && !(first >= 1 && first + 4 <= rows_inside && low1 <= i1 && i1 + 4 <= high1)));
  const bool plain = every == 0xffffffffu;
  if (active) {
    if (plain) {
      const float4 input_0 = *reinterpret_cast<const float4*>(&input[(first - 1) * n1 + i1]);
      const float4 input_1 = *reinterpret_cast<const float4*>(&input[first * n1 + i1]);
      const float4 input_2 = *reinterpret_cast<const float4*>(&input[(first + 1) * n1 + i1]);
      const float4 input_3 = *reinterpret_cast<const float4*>(&input[(first + 2) * n1 + i1]);
      const float4 input_4 = *reinterpret_cast<const float4*>(&input[(first + 3) * n1 + i1]);
      const float4 input_5 = *reinterpret_cast<const float4*>(&input[(first + 4) * n1 + i1]);
      const int x = i1 + 4;
      const int x_1 = i1 - 1;
      *reinterpret_cast<float4*>(&out[first * n1 + i1]) = make_float4(
          input_0.x + input[first * n1 + x_1] + input_1.x + input_1.y + input_2.x,
          input_0.y + input_1.x + input_1.y + input_1.z + input_2.y,
          input_0.z + input_1.y + input_1.z + input_1.w + input_2.z,
          input_0.w + input_1.z + input_1.w + input[first * n1 + x] + input_2.w);
      if (first + 1 < last) {
        *reinterpret_cast<float4*>(&out[(first + 1) * n1 + i1]) = make_float4(
            input_1.x + input[(first + 1) * n1 + x_1] + input_2.x + input_2.y + input_3.x,
            input_1.y + input_2.x + input_2.y + input_2.z + input_3.y,
            input_1.z + input_2.y + input_2.z + input_2.w + input_3.z,
            input_1.w + input_2.z + input_2.w + input[(first + 1) * n1 + x] + input_3.w);
      }
      if (first + 2 < last) {
        *reinterpret_cast<float4*>(&out[(first + 2) * n1 + i1]) = make_float4(
            input_2.x + input[(first + 2) * n1 + x_1] + input_3.x + input_3.y + input_4.x,
            input_2.y + input_3.x + input_3.y + input_3.z + input_4.y,
            input_2.z + input_3.y + input_3.z + input_3.w + input_4.z,
            input_2.w + input_3.z + input_3.w + input[(first + 2) * n1 + x] + input_4.w);
      }
      if (first + 3 < last) {
        *reinterpret_cast<float4*>(&out[(first + 3) * n1 + i1]) = make_float4(
            input_3.x + input[(first + 3) * n1 + x_1] + input_4.x + input_4.y + input_5.x,
            input_3.y + input_4.x + input_4.y + input_4.z + input_5.y,
            input_3.z + input_4.y + input_4.z + input_4.w + input_5.z,
            input_3.w + input_4.z + input_4.w + input[(first + 3) * n1 + x] + input_5.w);
      }
    } else {
      const bool leftmost = i1 == 0;
      const bool rightmost = i1 == n1 - 4;
      const int before = max(i1 - 4, 0);
      const int after = min(i1 + 4, n1 - 4);
      const int at = min(max(first - 1, 0), n0 - 1);
      const float4 input_0 = *reinterpret_cast<const float4*>(&input[at * n1 + i1]);
      const int at_1 = min(max(first, 0), n0 - 1);
      const float4 input_1_left = *reinterpret_cast<const float4*>(&input[at_1 * n1 + before]);
      const float4 input_1 = *reinterpret_cast<const float4*>(&input[at_1 * n1 + i1]);
      const float4 input_1_right = *reinterpret_cast<const float4*>(&input[at_1 * n1 + after]);
      const int at_2 = min(max(first + 1, 0), n0 - 1);
      const float4 input_2_left = *reinterpret_cast<const float4*>(&input[at_2 * n1 + before]);
      const float4 input_2 = *reinterpret_cast<const float4*>(&input[at_2 * n1 + i1]);
      const float4 input_2_right = *reinterpret_cast<const float4*>(&input[at_2 * n1 + after]);
      const int at_3 = min(max(first + 2, 0), n0 - 1);
      const float4 input_3_left = *reinterpret_cast<const float4*>(&input[at_3 * n1 + before]);
      const float4 input_3 = *reinterpret_cast<const float4*>(&input[at_3 * n1 + i1]);
      const float4 input_3_right = *reinterpret_cast<const float4*>(&input[at_3 * n1 + after]);
      const int at_4 = min(max(first + 3, 0), n0 - 1);
      const float4 input_4_left = *reinterpret_cast<const float4*>(&input[at_4 * n1 + before]);
      const float4 input_4 = *reinterpret_cast<const float4*>(&input[at_4 * n1 + i1]);
      const float4 input_4_right = *reinterpret_cast<const float4*>(&input[at_4 * n1 + after]);
      const int at_5 = min(max(first + 4, 0), n0 - 1);
      const float4 input_5 = *reinterpret_cast<const float4*>(&input[at_5 * n1 + i1]);
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
