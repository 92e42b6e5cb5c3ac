using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// permute, test_kernel_text.py
// the last source of each target
extern "C" __global__ void __launch_bounds__(512, 3)
permute_claim(const float* __restrict__ zip0, const int* __restrict__ zip1,
                     const int* __restrict__ input, int64* __restrict__ zero_last, int count,
                     int blocks, int tiles, int blocks_multiplier, int blocks_shift,
                     int stride_multiplier, int stride_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int rounds = quotient(tiles - task + blocks - 1, blocks_multiplier, blocks_shift);
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int64 first = ((int64)task + (int64)iteration * (int64)blocks) * 4096
        + (int64)thread * 4;
    const int64 first_1 = first + 2048;
    const int4 zip1_4 = *reinterpret_cast<const int4*>(&zip1[(int)first]);
    const float4 zip0_4 = *reinterpret_cast<const float4*>(&zip0[(int)first]);
    const int4 input4 = *reinterpret_cast<const int4*>(&input[(int)first]);
    const int4 zip1_4_1 = *reinterpret_cast<const int4*>(&zip1[(int)first_1]);
    const float4 zip0_4_1 = *reinterpret_cast<const float4*>(&zip0[(int)first_1]);
    const int4 input4_1 = *reinterpret_cast<const int4*>(&input[(int)first_1]);
    const int64 p = first + 1;
    const int64 p_1 = first + 2;
    const int64 p_2 = first + 3;
    const int64 p_3 = first_1 + 1;
    const int64 p_4 = first_1 + 2;
    const int64 p_5 = first_1 + 3;
    atomicMax(&zero_last[input4.x], p);
    atomicMax(&zero_last[input4.y], p + 1);
    atomicMax(&zero_last[input4.z], p_1 + 1);
    atomicMax(&zero_last[input4.w], p_2 + 1);
    atomicMax(&zero_last[input4_1.x], p_3);
    atomicMax(&zero_last[input4_1.y], p_3 + 1);
    atomicMax(&zero_last[input4_1.z], p_4 + 1);
    atomicMax(&zero_last[input4_1.w], p_5 + 1);
  }
  const int64 left = (int64)tiles * 4096 + ((int64)task * 512 + (int64)thread);
  const int stride = blocks * 512;
  const int rounds_1 =
      quotient(max(count - (int)left, 0) + stride - 1, stride_multiplier, stride_shift);
  for (int iteration = 0; iteration < rounds_1; ++iteration) {
    const int64 p = left + (int64)iteration * (int64)stride;
    const int target = input[(int)p];
    atomicMax(&zero_last[target], p + 1);
  }
}

using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// permute, test_kernel_text.py
// the last source of each target
extern "C" __global__ void __launch_bounds__(512, 3)
permute_claimed(const float* __restrict__ zip0, const int* __restrict__ zip1,
                       const int* __restrict__ input, float* __restrict__ out0,
                       int* __restrict__ out1, const int64* __restrict__ zero_last, int count,
                       int blocks, int tiles, int blocks_multiplier, int blocks_shift,
                       int stride_multiplier, int stride_shift) {
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  const int rounds = quotient(tiles - task + blocks - 1, blocks_multiplier, blocks_shift);
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int64 first = ((int64)task + (int64)iteration * (int64)blocks) * 4096
        + (int64)thread * 4;
    const int64 first_1 = first + 2048;
    const int4 zip1_4 = *reinterpret_cast<const int4*>(&zip1[(int)first]);
    const float4 zip0_4 = *reinterpret_cast<const float4*>(&zip0[(int)first]);
    const int4 input4 = *reinterpret_cast<const int4*>(&input[(int)first]);
    const int4 zip1_4_1 = *reinterpret_cast<const int4*>(&zip1[(int)first_1]);
    const float4 zip0_4_1 = *reinterpret_cast<const float4*>(&zip0[(int)first_1]);
    const int4 input4_1 = *reinterpret_cast<const int4*>(&input[(int)first_1]);
    const int64 p = first + 1;
    const int64 p_1 = first + 2;
    const int64 p_2 = first + 3;
    const int64 p_3 = first_1 + 1;
    const int64 p_4 = first_1 + 2;
    const int64 p_5 = first_1 + 3;
    if (zero_last[input4.x] == p) {
      out0[input4.x] = zip0_4.x;
      out1[input4.x] = zip1_4.x;
    }
    if (zero_last[input4.y] == p + 1) {
      out0[input4.y] = zip0_4.y;
      out1[input4.y] = zip1_4.y;
    }
    if (zero_last[input4.z] == p_1 + 1) {
      out0[input4.z] = zip0_4.z;
      out1[input4.z] = zip1_4.z;
    }
    if (zero_last[input4.w] == p_2 + 1) {
      out0[input4.w] = zip0_4.w;
      out1[input4.w] = zip1_4.w;
    }
    if (zero_last[input4_1.x] == p_3) {
      out0[input4_1.x] = zip0_4_1.x;
      out1[input4_1.x] = zip1_4_1.x;
    }
    if (zero_last[input4_1.y] == p_3 + 1) {
      out0[input4_1.y] = zip0_4_1.y;
      out1[input4_1.y] = zip1_4_1.y;
    }
    if (zero_last[input4_1.z] == p_4 + 1) {
      out0[input4_1.z] = zip0_4_1.z;
      out1[input4_1.z] = zip1_4_1.z;
    }
    if (zero_last[input4_1.w] == p_5 + 1) {
      out0[input4_1.w] = zip0_4_1.w;
      out1[input4_1.w] = zip1_4_1.w;
    }
  }
  const int64 left = (int64)tiles * 4096 + ((int64)task * 512 + (int64)thread);
  const int stride = blocks * 512;
  const int rounds_1 =
      quotient(max(count - (int)left, 0) + stride - 1, stride_multiplier, stride_shift);
  for (int iteration = 0; iteration < rounds_1; ++iteration) {
    const int64 p = left + (int64)iteration * (int64)stride;
    const int target = input[(int)p];
    const float zip0_p = zip0[(int)p];
    const int zip1_p = zip1[(int)p];
    if (zero_last[target] == p + 1) {
      out0[target] = zip0_p;
      out1[target] = zip1_p;
    }
  }
}
