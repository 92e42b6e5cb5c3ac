"""Loads and stores with cache policies (`Kernel.policies`).

    streaming      read or written once: evicted among the first (`.cs`)
    evict_first    evicted among the first, in the first-level cache
    evict_last     evicted only after all other lines
    no_l1          not allocated in the first-level cache

In PTX these are modifiers of single accesses of up to 16 bytes (PTX ISA, "cache operators" and
"cache eviction priority hints").  They never change a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.skeletons.ir.kernel import Buffer

from .prelude import Helper

if TYPE_CHECKING:
    from .expressions import Expressions

#: The modifier of each policy; loads are from arrays that are read-only during the kernel.
MODIFIERS = {
    "streaming": "cs",
    "evict_first": "L1::evict_first",
    "evict_last": "L1::evict_last",
    "no_l1": "L1::no_allocate",
}
#: How an access of this size moves: type and number of registers, their constraint letter,
#: the suffix of the instruction.
_WORDS = {
    1: ("unsigned short", 1, "h", "u8"),
    2: ("unsigned short", 1, "h", "u16"),
    4: ("unsigned", 1, "r", "u32"),
    8: ("unsigned long long", 1, "l", "u64"),
    16: ("unsigned long long", 2, "l", "v2.u64"),
}


def _load(policy: str, size: int) -> Helper:
    word, count, letter, suffix = _WORDS[size]
    modifier = f".{MODIFIERS[policy]}"
    # The operator precedes ".nc"; a priority follows it.
    space = f"{modifier}.nc" if policy == "streaming" else f".nc{modifier}"
    outs = ", ".join(f'"={letter}"(bits[{k}])' for k in range(count))
    into = "{%0, %1}" if count == 2 else "%0"
    return Helper(f"""
template <class T>
__device__ __forceinline__ T load_{policy}{size}(const T* location) {{
  {word} bits[{count}];
  asm("ld.global{space}.{suffix} {into}, [%{count}];" : {outs} : "l"(location));
  T value;
  memcpy(&value, bits, {size});
  return value;
}}
""")


def _store(policy: str, size: int) -> Helper:
    word, count, letter, suffix = _WORDS[size]
    given = ", ".join(f'"{letter}"(bits[{k}])' for k in range(count))
    values = "{%1, %2}" if count == 2 else "%1"
    clear = " = {0}" if size < 2 else ""
    return Helper(f"""
template <class T>
__device__ __forceinline__ void store_{policy}{size}(T* location, T value) {{
  {word} bits[{count}]{clear};
  memcpy(bits, &value, {size});
  asm volatile("st.global.{MODIFIERS[policy]}.{suffix} [%0], {values};"
               : : "l"(location), {given} : "memory");
}}
""")


HELPERS = {f"load_{p}{size}": _load(p, size) for p in MODIFIERS for size in _WORDS}
HELPERS |= {f"store_{p}{size}": _store(p, size) for p in MODIFIERS for size in _WORDS}


def load(p: Expressions, buffer: Buffer, location: str, type_: str, bytes_each: int) -> str | None:
    """The text of a load from `location`, a pointer to `type_`; None without a policy."""
    policy = p.policies.get(buffer)
    if policy is None or buffer.role != "input":
        return None
    p.use(f"load_{policy}{bytes_each}")
    return f"load_{policy}{bytes_each}<{type_}>({location})"


def store(p: Expressions, buffer: Buffer, location: str, value: str, type_: str, bytes_each: int
          ) -> str | None:  # fmt: skip
    """The statement that stores `value`; None if the buffer has no policy."""
    policy = p.policies.get(buffer)
    if policy is None:
        return None
    p.use(f"store_{policy}{bytes_each}")
    return f"store_{policy}{bytes_each}<{type_}>({location}, {value});"
