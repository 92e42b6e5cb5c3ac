// fibonacci, a function of Numba's: its LLVM IR as C++.
__device__ __forceinline__ int fibonacci_numba(char* retptr, char* excinfo, uint64 x) {
  bool va21, va34;
  uint64 va_3_1, va_2_0, vb_2_0, va26;
  va21 = (int64)x > (int64)0ull;
  if (va21) {
    goto at_B26_preheader;
  }
  va_3_1 = 0ull;
  goto at_B52;
at_B26_preheader:
  va_2_0 = 0ull;
  vb_2_0 = 1ull;
  goto at_B26;
at_B26:
  va26 = vb_2_0 + va_2_0;
  va34 = (int64)vb_2_0 < (int64)x;
  if (va34) {
    {
      const uint64 next = vb_2_0;
      const uint64 next_1 = va26;
      va_2_0 = next;
      vb_2_0 = next_1;
    }
    goto at_B26;
  }
  va_3_1 = vb_2_0;
  goto at_B52;
at_B52:
  *reinterpret_cast<uint64*>(retptr) = va_3_1;
  return 0u;
}

__device__ __forceinline__ int64 fibonacci(int64 x0) {
  int64 result = 0;
  fibonacci_numba(reinterpret_cast<char*>(&result), nullptr, x0);
  return result;
}
