"""Warp-level operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.skeletons.ir.kernel import Collective, WarpProduct

from .prelude import Helper
from .scalars import Term

if TYPE_CHECKING:
    from .statements import Writer

_SHUFFLES = {
    "shuffle": "__shfl_sync", "shuffle_up": "__shfl_up_sync", "shuffle_down": "__shfl_down_sync",
    "shuffle_xor": "__shfl_xor_sync",
}  # fmt: skip
ALL = "0xffffffff"
HELPERS: dict[str, Helper] = {}
for _op, _function in _SHUFFLES.items():
    for _half in ("float16", "bfloat16"):
        HELPERS[f"{_op}_{_half}"] = Helper(f"""
__device__ __forceinline__ {_half} {_function}(unsigned mask, {_half} x, int lane) {{
  x.bits = {_function}(mask, int(x.bits), lane);
  return x;
}}
""", (_half,))  # fmt: skip
    HELPERS[f"{_op}_complex"] = Helper(f"""
template <class T>
__device__ __forceinline__ complex<T> {_function}(unsigned mask, complex<T> z, int lane) {{
  return complex<T>({_function}(mask, z.real, lane), {_function}(mask, z.imag, lane));
}}
""", ("complex",))  # fmt: skip

for _half, _ptx in (("float16", "f16"), ("bfloat16", "bf16")):
    HELPERS[f"warp_product_{_half}"] = Helper(f"""
// sums + left · right: 16 x 16 by 16 x 8 elements, held by the threads of a warp as tensor cores
// hold them; without those, each thread fetches what it needs.
__device__ __forceinline__ void warp_product(float (&sums)[4], const {_half} (&left)[8],
                                             const {_half} (&right)[4]) {{
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = left[2 * i].bits | unsigned(left[2 * i + 1].bits) << 16;
  for (int i = 0; i < 2; ++i) b[i] = right[2 * i].bits | unsigned(right[2 * i + 1].bits) << 16;
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.{_ptx}.{_ptx}.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < 16; ++k) {{
    const int held = k % 8 / 2, high = k / 8, shift = k % 2 * 16;
    {_half} x[2], y[2];
    for (int i = 0; i < 2; ++i) {{
      x[i].bits = __shfl_sync({ALL}, a[2 * high + i], lane / 4 * 4 + held) >> shift;
      y[i].bits = __shfl_sync({ALL}, b[high], (lane % 4 * 2 + i) * 4 + held) >> shift;
    }}
    for (int i = 0; i < 4; ++i) sums[i] = fmaf((float)x[i / 2], (float)y[i % 2], sums[i]);
  }}
#endif
}}
""", (_half,))  # fmt: skip

HELPERS["warp_product_float64"] = Helper(f"""
// sums + left · right: 16 x 8 by 8 x 8 elements, held by the threads of a warp as tensor cores hold
// them; without those, each thread fetches what it needs.
__device__ __forceinline__ void warp_product(double (&sums)[4], const double (&left)[4],
                                             const double (&right)[2]) {{
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
      : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
      : "d"(left[0]), "d"(left[1]), "d"(left[2]), "d"(left[3]), "d"(right[0]), "d"(right[1]));
#elif __CUDA_ARCH__ >= 800
  for (int k = 0; k < 2; ++k)
    for (int row = 0; row < 2; ++row)
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%0, %1}}, {{%2}}, {{%3}}, {{%0, %1}};"
          : "+d"(sums[2 * row]), "+d"(sums[2 * row + 1])
          : "d"(left[2 * k + row]), "d"(right[k]));
#else
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < 4; ++i) {{
      const double x = __shfl_sync({ALL}, left[k / 4 * 2 + i / 2], lane / 4 * 4 + k % 4);
      const double y = __shfl_sync({ALL}, right[k / 4], (lane % 4 * 2 + i % 2) * 4 + k % 4);
      sums[i] = fma(x, y, sums[i]);
    }}
#endif
}}
""")


def product(w: Writer, s: WarpProduct) -> None:
    """The new sums are the elements of an array."""
    w.p.use(f"warp_product_{s.left[0].type.name}")
    sums, left, right = (
        ", ".join(w.p.exact(e).code for e in part) for part in (s.sums, s.left, s.right)
    )
    name = w.names.fresh(s.vars[0].name)
    w.line(f"{w.type(s.vars[0].type)} {name}[4] = {{{sums}}};")
    w.line(f"warp_product({name}, {{{left}}}, {{{right}}});")
    for k, v in enumerate(s.vars):
        w.variables[v] = Term(f"{name}[{k}]")


def collective(w: Writer, s: Collective) -> None:
    p = w.p
    value = s.args[0]
    t = value.type
    if s.op == "ballot":
        text = f"__ballot_sync({ALL}, {p.text(value)})"
    elif s.op == "all":
        text = f"__all_sync({ALL}, {p.text(value)})"
    elif s.op == "match":
        text = f"__match_any_sync({ALL}, {p.exact(value).code})"
    else:
        function = _SHUFFLES[s.op]
        if t.is_complex:
            p.use(f"{s.op}_complex")
        elif t.is_float and t.bits == 16:
            p.use(f"{s.op}_{t.name}")
        text = f"{function}({ALL}, {p.exact(value).code}, {p.text(s.args[1])})"
    w.line(f"const {w.type(s.var.type)} {w.introduce(s.var)} = {text};")
