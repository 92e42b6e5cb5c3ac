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

__device__ __forceinline__ complex128 operator*(complex128 z, complex128 w) {
  return complex128(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real);
}

extern "C" __global__ void __launch_bounds__(256)
atomic_multiply_complex128(const complex128* __restrict__ a, const int64* __restrict__ where,
                           complex128* __restrict__ out, int* __restrict__ locks) {
  const int64 task = blockIdx.x;
  const int64 thread = threadIdx.x;
  const int64 i = task * 256 + thread;
  const complex128 value = a[i];
  const int64 at = where[i];
  locked(&locks[at % 64], [&] {
    const complex128 old = read_now(&out[at]);
    write_now(&out[at], value * old);
  });
}
