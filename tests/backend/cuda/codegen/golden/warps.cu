using int64 = long long;
using uint32 = unsigned int;

extern "C" __global__ void __launch_bounds__(256)
warps_line7(const float* __restrict__ a, float* __restrict__ out, uint32* __restrict__ bits,
            const int* __restrict__ keys) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const float v = __shfl_sync(0xffffffff, a[i], 0);
  const float v_1 = __shfl_up_sync(0xffffffff, v, 1);
  const float v_2 = __shfl_down_sync(0xffffffff, v_1, 2);
  const float v_3 = __shfl_xor_sync(0xffffffff, v_2, 16);
  const float a_i = a[i];
  const uint32 positive = __ballot_sync(0xffffffff, a_i > 0.0f);
  const uint32 same = __match_any_sync(0xffffffff, keys[i]);
  out[i] = v_3;
  bits[i] = same & positive;
}
