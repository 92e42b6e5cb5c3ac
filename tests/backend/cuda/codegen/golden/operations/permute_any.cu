using int64 = long long;

// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}

// Run `update` under a spin lock.  It runs inside the loop that tries, so that the threads of a
// warp that wait never keep the one that holds the lock from going on.
template <class F>
__device__ __forceinline__ void locked(int* lock, F update) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();  // see what the last holder wrote
      update();
      __threadfence();  // what is written is seen before the lock is free
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// Memory as other blocks see it: not a copy that this multiprocessor holds.
template <class T>
__device__ __forceinline__ T read_now(const T* location) {
  return *static_cast<const volatile T*>(location);
}
template <class T>
__device__ __forceinline__ void write_now(T* location, T x) {
  *static_cast<volatile T*>(location) = x;
}

// a modulo b with the sign of b, as Python does it; 0 for b = 0.
__device__ __forceinline__ int floor_remainder(int a, int b) {
  if (b == 0 || b == -1) return 0;
  const int rest = a % b;
  return rest != 0 && (rest ^ b) < 0 ? (int)((unsigned)rest + b) : rest;
}

// *location = combine(*location) as one step: tried again when somebody else came between.
template <class T, class F>
__device__ __forceinline__ void atomic_update32(T* location, F combine) {
  unsigned* const word = reinterpret_cast<unsigned*>(location);
  unsigned seen = *static_cast<volatile unsigned*>(word), expected, wanted;
  do {
    expected = seen;
    T x;
    memcpy(&x, &expected, sizeof(T));
    x = combine(x);
    memcpy(&wanted, &x, sizeof(T));
    if (wanted == expected) return;
    seen = atomicCAS(word, expected, wanted);
  } while (seen != expected);
}

// permute, test_kernel_text.py
// 4096 bins in shared memory
extern "C" __global__ void __launch_bounds__(512, 2)
permute_bins(const int* __restrict__ input, const int* __restrict__ input_1,
                    int* __restrict__ out, int n0, int count, int tiles, int copies, int groups,
                    int copies_multiplier, int copies_shift, int groups_multiplier,
                    int groups_shift, int stride_multiplier, int stride_shift) {
  __shared__ int filled[4096];
  __shared__ int bin[4096];
  __shared__ int lock[1024];
  const int task = blockIdx.x;
  const int thread = threadIdx.x;
  // The bins of this block: copies of one lie side by side, so that threads which
  // meet in it seldom wait for each other.
  for (int b = thread; b < n0 * copies; b += 512) {
    filled[b] = 0;
    bin[b] = 0;
  }
  for (int b = thread; b < 1024; b += 512) {
    lock[b] = 0;
  }
  __syncthreads();
  const int copy = thread - quotient(thread, copies_multiplier, copies_shift) * copies;
  const int rounds = quotient(tiles - task + groups - 1, groups_multiplier, groups_shift);
  for (int iteration = 0; iteration < rounds; ++iteration) {
    const int first = (task + iteration * groups) * 4096 + thread;
    const int first_1 = first + 512;
    const int first_2 = first + 1024;
    const int first_3 = first + 1536;
    const int first_4 = first + 2048;
    const int first_5 = first + 2560;
    const int first_6 = first + 3072;
    const int first_7 = first + 3584;
    const int target = input_1[first];
    const int input_first = input[first];
    const int target_1 = input_1[first_1];
    const int input_first_1 = input[first_1];
    const int target_2 = input_1[first_2];
    const int input_first_2 = input[first_2];
    const int target_3 = input_1[first_3];
    const int input_first_3 = input[first_3];
    const int target_4 = input_1[first_4];
    const int input_first_4 = input[first_4];
    const int target_5 = input_1[first_5];
    const int input_first_5 = input[first_5];
    const int target_6 = input_1[first_6];
    const int input_first_6 = input[first_6];
    const int target_7 = input_1[first_7];
    const int input_first_7 = input[first_7];
    const int64 at = target * copies + copy;
    locked(&lock[at % 1024], [&] {
      const int old0 = read_now(&filled[at]);
      const int old1 = read_now(&bin[at]);
      write_now<int>(&filled[at], 1);
      write_now<int>(&bin[at],
          old0 == 0 ? input_first : floor_remainder((int)((unsigned)input_first + old1), 9));
    });
    const int64 at_1 = target_1 * copies + copy;
    locked(&lock[at_1 % 1024], [&] {
      const int old0 = read_now(&filled[at_1]);
      const int old1 = read_now(&bin[at_1]);
      write_now<int>(&filled[at_1], 1);
      write_now<int>(&bin[at_1],
          old0 == 0 ? input_first_1 : floor_remainder((int)((unsigned)input_first_1 + old1), 9));
    });
    const int64 at_2 = target_2 * copies + copy;
    locked(&lock[at_2 % 1024], [&] {
      const int old0 = read_now(&filled[at_2]);
      const int old1 = read_now(&bin[at_2]);
      write_now<int>(&filled[at_2], 1);
      write_now<int>(&bin[at_2],
          old0 == 0 ? input_first_2 : floor_remainder((int)((unsigned)input_first_2 + old1), 9));
    });
    const int64 at_3 = target_3 * copies + copy;
    locked(&lock[at_3 % 1024], [&] {
      const int old0 = read_now(&filled[at_3]);
      const int old1 = read_now(&bin[at_3]);
      write_now<int>(&filled[at_3], 1);
      write_now<int>(&bin[at_3],
          old0 == 0 ? input_first_3 : floor_remainder((int)((unsigned)input_first_3 + old1), 9));
    });
    const int64 at_4 = target_4 * copies + copy;
    locked(&lock[at_4 % 1024], [&] {
      const int old0 = read_now(&filled[at_4]);
      const int old1 = read_now(&bin[at_4]);
      write_now<int>(&filled[at_4], 1);
      write_now<int>(&bin[at_4],
          old0 == 0 ? input_first_4 : floor_remainder((int)((unsigned)input_first_4 + old1), 9));
    });
    const int64 at_5 = target_5 * copies + copy;
    locked(&lock[at_5 % 1024], [&] {
      const int old0 = read_now(&filled[at_5]);
      const int old1 = read_now(&bin[at_5]);
      write_now<int>(&filled[at_5], 1);
      write_now<int>(&bin[at_5],
          old0 == 0 ? input_first_5 : floor_remainder((int)((unsigned)input_first_5 + old1), 9));
    });
    const int64 at_6 = target_6 * copies + copy;
    locked(&lock[at_6 % 1024], [&] {
      const int old0 = read_now(&filled[at_6]);
      const int old1 = read_now(&bin[at_6]);
      write_now<int>(&filled[at_6], 1);
      write_now<int>(&bin[at_6],
          old0 == 0 ? input_first_6 : floor_remainder((int)((unsigned)input_first_6 + old1), 9));
    });
    const int64 at_7 = target_7 * copies + copy;
    locked(&lock[at_7 % 1024], [&] {
      const int old0 = read_now(&filled[at_7]);
      const int old1 = read_now(&bin[at_7]);
      write_now<int>(&filled[at_7], 1);
      write_now<int>(&bin[at_7],
          old0 == 0 ? input_first_7 : floor_remainder((int)((unsigned)input_first_7 + old1), 9));
    });
  }
  const int left = tiles * 4096 + (task * 512 + thread);
  const int stride = groups * 512;
  const int rounds_1 =
      quotient(max(count - left, 0) + stride - 1, stride_multiplier, stride_shift);
  for (int iteration = 0; iteration < rounds_1; ++iteration) {
    const int p = left + iteration * stride;
    const int target = input_1[p];
    const int value = input[p];
    const int64 at = target * copies + copy;
    locked(&lock[at % 1024], [&] {
      const int old0 = read_now(&filled[at]);
      const int old1 = read_now(&bin[at]);
      write_now<int>(&filled[at], 1);
      write_now<int>(&bin[at],
          old0 == 0 ? value : floor_remainder((int)((unsigned)value + old1), 9));
    });
  }
  __syncthreads();
  // The copies together, into the target.
  for (int b = thread; b < n0; b += 512) {
    const int base = b * copies;
    const int last = copies - 1;
    bool some = false;
    int total = 0;
    for (int c = 0; c < copies; ++c) {
      const int slot = base + ((c + thread) & last);
      if (filled[slot] != 0) {
        if (some) {
          total = floor_remainder((int)((unsigned)total + bin[slot]), 9);
        } else {
          total = bin[slot];
        }
        some = true;
      }
    }
    if (some) {
      atomic_update32(
          &out[b], [&](int old) { return floor_remainder((int)((unsigned)total + old), 9); });
    }
  }
}
