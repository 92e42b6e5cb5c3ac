"""A defect of ptxas, and the PTX that avoids it.

Where the hardware has a three-operand integer minimum and maximum (VIMNMX3: sm_90 and newer), the
ptxas of CUDA 12.8 to 13.3 drops a negation of the second operand: it compiles `max(max(x, -y), z)`
of 32-bit integers as `max(max(x, y), z)`.  This also affects kernels without a negation in their
source: NVVM turns `min(min(x, n - 1), m - 1)` into `~max(max(~x, -n), -m)` if that saves an
instruction.

A kernel whose PTX has such a negation is compiled again with minima and maxima that are opaque to
NVVM (`OPAQUE`).  Negations in the user's program, `maximum(maximum(x, -y), z)`, remain.  ptxas
translates a negation correctly if PTX writes it as a complement and a sum, so such a kernel is
assembled from rewritten PTX, at the cost of some registers (nvJitLink uses 67, NVRTC 56).
"""

from __future__ import annotations

import re

#: The first version of NVRTC whose ptxas was observed to be correct.
RIGHT_SINCE = (13, 4)
#: A prefix of the source: minima and maxima of 32-bit integers become inline assembly.
OPAQUE = """
__device__ __forceinline__ int opaque_min(int a, int b) {
  int r;
  asm("min.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ int opaque_max(int a, int b) {
  int r;
  asm("max.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
template <class A, class B>
__device__ __forceinline__ auto opaque_min(A a, B b) { return min(a, b); }
template <class A, class B>
__device__ __forceinline__ auto opaque_max(A a, B b) { return max(a, b); }
#define min opaque_min
#define max opaque_max
"""

_NEGATION = re.compile(r"\bneg\.s(16|32)(\s+)(%\w+), (%\w+);")
_COPY = re.compile(r"\bmov\.[bus](?:16|32)\s+(%\w+), (%\w+);")
_EXTREMUM = re.compile(r"\b(?:min|max)\.s(?:16|32)\s+%\w+, (%\w+), (%\w+);")


def concerned(version: tuple[int, int], arch: str) -> bool:
    """Whether a version of NVRTC may miscompile PTX for an architecture ("sm_90a")."""
    number = re.match(r"sm_(\d+)", arch)
    return version < RIGHT_SINCE and number is not None and int(number.group(1)) >= 90


def without_negations(ptx: str) -> str | None:
    """Equivalent PTX in which no operand of a minimum or maximum is a negation; None if that is
    already so."""
    extrema = _EXTREMUM.findall(ptx)
    negated = {found[2] for found in _NEGATION.findall(ptx)} if len(extrema) > 1 else set()
    copies = _COPY.findall(ptx) if negated else []
    while more := {to for to, source in copies if source in negated} - negated:
        negated |= more
    if not any(operand in negated for pair in extrema for operand in pair):
        return None
    return _NEGATION.sub(r"not.b\1\2\3, \4;\n\tadd.s\1\2\3, \3, 1;", ptx)
