using int64 = long long;

template <class T>
struct alignas(2 * sizeof(T)) complex {
  T real, imag;
  complex() = default;
  __device__ __forceinline__ complex(T r, T i) : real(r), imag(i) {}
  template <class U>
  __device__ __forceinline__ explicit complex(complex<U> z) : real(z.real), imag(z.imag) {}
};

using complex128 = complex<double>;

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

template <class T>
__device__ __forceinline__ complex<T> read_now(const complex<T>* location) {
  return complex<T>(read_now(&location->real), read_now(&location->imag));
}
template <class T>
__device__ __forceinline__ void write_now(complex<T>* location, complex<T> z) {
  write_now(&location->real, z.real);
  write_now(&location->imag, z.imag);
}

extern "C" __global__ void __launch_bounds__(256)
pairs_line9(const int* __restrict__ keys, const complex128* __restrict__ values,
            const int64* __restrict__ where, int* __restrict__ best, complex128* __restrict__ of,
            int* __restrict__ locks) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const int value = keys[i];
  const complex128 value_1 = values[i];
  const int64 at = where[i];
  locked(&locks[at % 1024], [&] {
    const int old0 = read_now(&best[at]);
    const complex128 old1 = read_now(&of[at]);
    write_now<int>(&best[at], value > old0 ? value : old0);
    write_now(&of[at], value > old0 ? value_1 : old1);
  });
}
