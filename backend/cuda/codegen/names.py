"""C++ names: valid identifiers, without collisions among visible names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.dsl.primitives import TABLE


def _words(text: str) -> list[str]:
    return text.split()


_KEYWORDS = _words("""
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern
false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires return short signed
sizeof static static_assert static_cast struct switch template this thread_local throw true try
typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
""")
_CUDA = _words("""
threadIdx blockIdx blockDim gridDim warpSize dim3 INFINITY NAN NULL main errors std char1 char2
char3 char4 uchar2 uchar4 short2 short4 ushort2 ushort4 int2 int4 uint2 uint4 long2 float2 float4
double2 double4 longlong2 ulonglong2 half nv_bfloat16 linux unix assert clock printf malloc free
memcpy memset signbit isnan isinf isfinite min max abs labs llabs
""")
#: Macros of the C library, which nvcc includes with <math.h>, <limits.h>, <float.h> and the like.
_MACROS = _words("""
BUFSIZ CHAR_BIT CLOCKS_PER_SEC DBL_EPSILON DBL_MAX DBL_MIN DOMAIN EDOM EOF EPERM ERANGE
EXIT_FAILURE EXIT_SUCCESS FLT_EPSILON FLT_MAX FLT_MIN FP_INFINITE FP_NAN FP_NORMAL FP_ZERO HUGE
HUGE_VAL INT_MAX INT_MIN LLONG_MAX LLONG_MIN LONG_MAX LONG_MIN MAXFLOAT MB_CUR_MAX M_1_PI M_2_PI
M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 M_SQRT1_2 M_SQRT2 OVERFLOW PATH_MAX PLOSS
RAND_MAX SCHAR_MAX SEEK_END SEEK_SET SHRT_MAX SING SIZE_MAX TLOSS UCHAR_MAX UINT_MAX ULONG_MAX
UNDERFLOW USHRT_MAX i386 offsetof stderr stdin stdout va_arg va_end va_list va_start
""")
#: CUDA's mathematical functions, which a variable of the same name would hide.
_MATHEMATICS = _words("""
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi erf erfc erfcinv erfinv
exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma
llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter norm normcdf
pow powi rcbrt remainder remquo rhypot rint round rsqrt scalbn sin sincos sinh sinpi sqrt tan tanh
tgamma trunc y0 y1 yn
""")
#: Names of the types and functions that a prelude may define.
OWN = _words("""
int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 complex complex64 complex128
Pack quot quotient rem floor_divide floor_remainder power natural_power sign minimum maximum
shift_left shift_right report unreported fetch publish fetch_relaxed publish_relaxed square cube
fourth_power negated absolute conj read_now write_now locked atomic_update8 atomic_update16
atomic_update32 atomic_update64 to_bits from_bits log_size to_bool to_int32 to_uint32 to_int64
to_uint64 load_pack2 load_pack4 load_pack8 load_pack16 store_pack2 store_pack4 store_pack8
store_pack16
""")
#: Primitives with a formula are printed as functions of their names.
_FORMULAS = [name for name, p in TABLE.items() if p.formula is not None]
_FLOATS = [f"{name}f" for name in _MATHEMATICS]
_RESERVED = frozenset([*_KEYWORDS, *_CUDA, *_MACROS, *_MATHEMATICS, *_FLOATS, *OWN, *_FORMULAS])


def identifier(name: str) -> str:
    """`name` as a C++ identifier that hides no other name."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)
    made = re.sub(r"__+", "_", made).strip("_") or "x"
    if made[0].isdigit():
        made = f"a{made}"
    return f"{made}_" if made in _RESERVED else made


class Names:
    """The names in use, by scope.  A name becomes free when its scope ends.

    `file`: the names of the enclosing file, which are visible here.
    """

    def __init__(self, file: Names | None = None) -> None:
        self._scopes: list[set[str]] = [*(file._scopes if file is not None else ()), set()]

    def fresh(self, wish: str) -> str:
        """A name like `wish` that differs from all visible names."""
        base = made = identifier(wish)
        count = 0
        while any(made in scope for scope in self._scopes):
            count += 1
            made = f"{base}_{count}"
        self._scopes[-1].add(made)
        return made

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope; names introduced inside become free at its end."""
        self._scopes.append(set())
        try:
            yield
        finally:
            self._scopes.pop()
