"""Vector accesses: several adjacent elements at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.types import ScalarType
from treadle.skeletons.ir.kernel import LoadVector, StoreVector

from . import policies
from .prelude import Helper
from .scalars import Term

if TYPE_CHECKING:
    from .statements import Writer

#: CUDA's own vector types.
_BUILTIN = {
    "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int",
    "uint32": "uint", "int64": "longlong", "uint64": "ulonglong", "float32": "float",
    "float64": "double",
}  # fmt: skip
_FIELDS = "xyzw"

HELPERS = {
    "Pack": Helper("""
// N neighbours that are read or written in one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
""")
}


def _streaming(word: str, size: int) -> Helper:
    """Accesses to data that is not read again: caches need not keep it."""
    return Helper(
        f"""
template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_pack{size}(const Pack<T, N>* location) {{
  static_assert(sizeof(Pack<T, N>) == {size});
  const {word} bits = __ldcs(reinterpret_cast<const {word}*>(location));
  Pack<T, N> values;
  memcpy(&values, &bits, {size});
  return values;
}}
template <class T, int N>
__device__ __forceinline__ void store_pack{size}(Pack<T, N>* location, Pack<T, N> values) {{
  {word} bits;
  memcpy(&bits, &values, {size});
  __stcs(reinterpret_cast<{word}*>(location), bits);
}}
""",
        ("Pack",),
    )


for _size, _word in ((2, "unsigned short"), (4, "unsigned"), (8, "uint2"), (16, "uint4")):
    HELPERS[f"streaming{_size}"] = _streaming(_word, _size)


def _kind(w: Writer, t: ScalarType, count: int) -> tuple[str, list[str], bool]:
    """The C++ type of `count` elements, the accessors of its parts, and whether it is built in."""
    if t.name in _BUILTIN and count in (2, 4):
        return f"{_BUILTIN[t.name]}{count}", [f".{f}" for f in _FIELDS[:count]], True
    w.p.use("Pack")
    return f"Pack<{w.type(t)}, {count}>", [f".at[{k}]" for k in range(count)], False


def _address(w: Writer, s: LoadVector | StoreVector) -> str:
    return f"&{w.buffers[s.buffer]}[{w.p.index(s.index)}]"


def load(w: Writer, s: LoadVector) -> None:
    """Load the elements; each variable is an element of the vector."""
    if len(s.vars) == 1:
        name = w.introduce(s.vars[0])
        kind, address = w.type(s.buffer.type), _address(w, s)
        hinted = policies.load(w.p, s.buffer, address, kind, s.buffer.type.bytes)
        w.line(f"const {kind} {name} = {hinted or address[1:]};")
        return
    kind, fields, builtin = _kind(w, s.buffer.type, len(s.vars))
    name = w.names.fresh(_common_name(s))
    address = f"reinterpret_cast<const {kind}*>({_address(w, s)})"
    access = f"{_streamed(w, s, builtin, 'load')}({address})" if s.streaming else f"*{address}"
    size = len(s.vars) * s.buffer.type.bytes
    access = policies.load(w.p, s.buffer, address, kind, size) or access
    w.line(f"const {kind} {name} = {access};")
    w.vectors[tuple(f"{name}{field}" for field in fields)] = kind, name
    for v, field in zip(s.vars, fields, strict=True):
        if v in w.mutable:
            w.line(f"{w.type(v.type)} {w.introduce(v)} = {name}{field};")
        else:
            w.variables[v] = Term(f"{name}{field}")


def _common_name(s: LoadVector) -> str:
    if len({v.name for v in s.vars}) == 1:
        return s.vars[0].name
    names = {v.name.rstrip("0123456789").rstrip("_") for v in s.vars}
    return (names.pop() if len(names) == 1 else "") or f"{s.buffer.name}_{len(s.vars)}"


def store(w: Writer, s: StoreVector) -> None:
    """Store the elements."""
    if len(s.values) == 1:
        address, value = _address(w, s), w.p.text(s.values[0])
        kind = w.type(s.buffer.type)
        w.line(policies.store(w.p, s.buffer, address, value, kind, s.buffer.type.bytes)
               or f"{address[1:]} = {value};")  # fmt: skip
        return
    kind, _, builtin = _kind(w, s.buffer.type, len(s.values))
    given = [w.p.text(v) for v in s.values]
    values = ", ".join(given)
    whole = w.vectors.get(tuple(given))
    made = (
        whole[1]
        if whole is not None and whole[0] == kind
        else (f"make_{kind}({values})" if builtin else f"{{{{{values}}}}}")
    )
    address = f"reinterpret_cast<{kind}*>({_address(w, s)})"
    value = f"{kind}{made}" if made.startswith("{") else made
    size = len(s.values) * s.buffer.type.bytes
    hinted = policies.store(w.p, s.buffer, address, value, kind, size)
    if hinted is not None:
        w.line(hinted)
    elif s.streaming:
        w.line(f"{_streamed(w, s, builtin, 'store')}({address}, {value});")
    else:
        w.line(f"*{address} = {made};")


def _streamed(w: Writer, s: LoadVector | StoreVector, builtin: bool, way: str) -> str:
    """The function that loads or stores data that is not read again."""
    if builtin:
        return "__ldcs" if way == "load" else "__stcs"
    count = len(s.vars if isinstance(s, LoadVector) else s.values)
    size = count * s.buffer.type.bytes
    w.p.use(f"streaming{size}")
    return f"{way}_pack{size}"
