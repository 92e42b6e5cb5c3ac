"""Warp-level operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.skeletons.ir.kernel import Collective

from .prelude import Helper

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
