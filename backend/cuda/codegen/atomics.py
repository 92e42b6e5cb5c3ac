"""Concurrent accesses to one address: atomic updates, and loads and stores between blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.expr import Expr
from treadle.dsl.target import CUDA
from treadle.skeletons.ir.decompose import machine_update
from treadle.skeletons.ir.kernel import Atomic, Buffer, Fetch, FetchUpdate, Publish

from .layout import wrap
from .prelude import Helper
from .scalars import UNARY, Term

if TYPE_CHECKING:
    from .statements import Writer

_ATOMIC = {
    "add": "atomicAdd", "minimum": "atomicMin", "maximum": "atomicMax", "bitwise_and": "atomicAnd",
    "bitwise_or": "atomicOr", "bitwise_xor": "atomicXor", "exchange": "atomicExch",
}  # fmt: skip
#: Operations that CUDA provides for signed int64; the others do not depend on the sign.
_SIGNED = ("minimum", "maximum")

HELPERS = {
    "report": Helper("""
// Keep the first check that fails: its number, the index and the extent.
__device__ __noinline__ void report(int64* errors, int64 site, int64 index, int64 extent) {
  if (atomicCAS((unsigned long long*)errors, 0ull, (unsigned long long)site) == 0) {
    errors[1] = index;
    errors[2] = extent;
  }
}
""", ("int64",)),
    "unreported": Helper("""
// Whether no check has failed so far, of any thread.
__device__ __forceinline__ bool unreported(const int64* errors) {
  return *static_cast<const volatile int64*>(errors) == 0;
}
""", ("int64",)),
    "now": Helper("""
// Memory as other blocks see it: not a copy that this multiprocessor holds.
template <class T>
__device__ __forceinline__ T read_now(const T* location) {
  return *static_cast<const volatile T*>(location);
}
template <class T>
__device__ __forceinline__ void write_now(T* location, T x) {
  *static_cast<volatile T*>(location) = x;
}
"""),
    "now_float16": Helper("""
__device__ __forceinline__ float16 read_now(const float16* location) {
  float16 x;
  x.bits = read_now(&location->bits);
  return x;
}
__device__ __forceinline__ void write_now(float16* location, float16 x) {
  write_now(&location->bits, x.bits);
}
""", ("float16", "now")),
    "now_complex": Helper("""
template <class T>
__device__ __forceinline__ complex<T> read_now(const complex<T>* location) {
  return complex<T>(read_now(&location->real), read_now(&location->imag));
}
template <class T>
__device__ __forceinline__ void write_now(complex<T>* location, complex<T> z) {
  write_now(&location->real, z.real);
  write_now(&location->imag, z.imag);
}
""", ("complex", "now")),
    "locked": Helper("""
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
"""),
    "bits_complex64": Helper("""
__device__ __forceinline__ uint64 to_bits(complex64 z) {
  return uint64(__float_as_uint(z.imag)) << 32 | __float_as_uint(z.real);
}
__device__ __forceinline__ complex64 from_bits(uint64 bits) {
  return complex64(__uint_as_float(unsigned(bits)), __uint_as_float(unsigned(bits >> 32)));
}
""", ("complex64", "uint64")),
    "atomicAdd_float16": Helper("""
__device__ __forceinline__ void atomicAdd(float16* location, float16 x) {
  asm volatile("red.relaxed.gpu.add.noftz.f16 [%0], %1;" : : "l"(location), "h"(x.bits) : "memory");
}
""", ("float16",)),
    "atomicAdd_complex": Helper("""
// Sums of the parts are independent: each is atomic by itself.
template <class T>
__device__ __forceinline__ void atomicAdd(complex<T>* location, complex<T> z) {
  atomicAdd(&location->real, z.real);
  atomicAdd(&location->imag, z.imag);
}
""", ("complex",)),
}  # fmt: skip
HELPERS["now_bfloat16"] = Helper(
    HELPERS["now_float16"].text.replace("float16", "bfloat16"), ("bfloat16", "now")
)


def _update(bits: int, word: str) -> Helper:
    """A compare-and-swap loop."""
    return Helper(f"""
// *location = combine(*location) as one step: tried again when somebody else came between.
template <class T, class F>
__device__ __forceinline__ void atomic_update{bits}(T* location, F combine) {{
  {word}* const word = reinterpret_cast<{word}*>(location);
  {word} seen = *static_cast<volatile {word}*>(word), expected, wanted;
  do {{
    expected = seen;
    T x;
    memcpy(&x, &expected, sizeof(T));
    x = combine(x);
    memcpy(&wanted, &x, sizeof(T));
    if (wanted == expected) return;
    seen = atomicCAS(word, expected, wanted);
  }} while (seen != expected);
}}
""")


HELPERS["update16"] = _update(16, "unsigned short")
HELPERS["update32"] = _update(32, "unsigned")
HELPERS["update64"] = _update(64, "unsigned long long")
HELPERS["update8"] = Helper("""
// *location = combine(*location) as one step, by way of the 32-bit word around it.
template <class T, class F>
__device__ __forceinline__ void atomic_update8(T* location, F combine) {
  const size_t address = reinterpret_cast<size_t>(location);
  unsigned* const word = reinterpret_cast<unsigned*>(address & ~size_t(3));
  const unsigned shift = 8 * (address & 3);
  unsigned seen = *static_cast<volatile unsigned*>(word), expected;
  do {
    expected = seen;
    const T x = combine(T(seen >> shift & 0xff));
    const unsigned wanted = (seen & ~(0xffu << shift)) | unsigned((unsigned char)x) << shift;
    if (wanted == expected) return;
    seen = atomicCAS(word, expected, wanted);
  } while (seen != expected);
}
""")


def _passing(way: str, load: str, store: str) -> None:
    """Define `fetch` and `publish` for every type; `way` is the suffix of their names."""
    for name, kind, size, constraint, bits in (
        ("bool", "bool", "u8", "r", "unsigned"), ("int8", "int8", "s8", "r", "int"),
        ("uint8", "uint8", "u8", "r", "unsigned"), ("int16", "int16", "b16", "h", ""),
        ("uint16", "uint16", "b16", "h", ""), ("int32", "int", "b32", "r", ""),
        ("uint32", "uint32", "b32", "r", ""), ("int64", "int64", "b64", "l", ""),
        ("uint64", "uint64", "b64", "l", ""), ("float32", "float", "f32", "f", ""),
        ("float64", "double", "f64", "d", ""), ("float16", "float16", "b16", "h", "unsigned short"),
        ("bfloat16", "bfloat16", "b16", "h", "unsigned short"),
    ):  # fmt: skip
        half = name in ("float16", "bfloat16")
        into = "x.bits" if half else "x"
        register = kind if half or not bits else bits
        back = "x != 0" if name == "bool" else f"{kind}(x)" if bits and not half else "x"
        given = "x.bits" if half else f"{bits}(x)" if bits else "x"
        HELPERS[f"fetch{way}_{name}"] = Helper(f"""
__device__ __forceinline__ {kind} fetch{way}(const {kind}* location) {{
  {register} x;
  asm volatile("{load}.{size} %0, [%1];" : "={constraint}"({into}) : "l"(location) : "memory");
  return {back};
}}
""", (kind,))  # fmt: skip
        HELPERS[f"publish{way}_{name}"] = Helper(f"""
__device__ __forceinline__ void publish{way}({kind}* location, {kind} x) {{
  asm volatile("{store}.{size} [%0], %1;" : : "l"(location), "{constraint}"({given}) : "memory");
}}
""", (kind,))  # fmt: skip
    HELPERS[f"fetch{way}_complex64"] = Helper(
        f"""
__device__ __forceinline__ complex64 fetch{way}(const complex64* location) {{
  return from_bits(fetch{way}(reinterpret_cast<const uint64*>(location)));
}}
""",
        ("bits_complex64", f"fetch{way}_uint64"),
    )
    HELPERS[f"publish{way}_complex64"] = Helper(
        f"""
__device__ __forceinline__ void publish{way}(complex64* location, complex64 z) {{
  publish{way}(reinterpret_cast<uint64*>(location), to_bits(z));
}}
""",
        ("bits_complex64", f"publish{way}_uint64"),
    )
    HELPERS[f"fetch{way}_complex128"] = Helper(
        f"""
// One part after the other: a number that changes meanwhile may come in halves.
__device__ __forceinline__ complex128 fetch{way}(const complex128* location) {{
  const double real = fetch{way}(&location->real);
  return complex128(real, fetch{way}(&location->imag));
}}
""",
        ("complex128", f"fetch{way}_float64"),
    )
    HELPERS[f"publish{way}_complex128"] = Helper(
        f"""
__device__ __forceinline__ void publish{way}(complex128* location, complex128 z) {{
  publish{way}(&location->real, z.real);
  publish{way}(&location->imag, z.imag);
}}
""",
        ("complex128", f"publish{way}_float64"),
    )


_passing("", "ld.acquire.gpu", "st.release.gpu")
_passing("_relaxed", "ld.relaxed.gpu", "st.relaxed.gpu")


# --- atomic updates ---------------------------------------------------------------------------


def atomic(w: Writer, s: Atomic) -> None:
    """`buffers[index] = combine(values, old)`, atomically."""
    if s.combine is None:
        if len(s.buffers) == 1 and s.buffers[0].type.bits <= 64:
            address = f"{w.buffers[s.buffers[0]]}[{w.p.index(s.index)}]"
            w.line(f"{address} = {w.p.text(s.values[0])};  // whoever is last")
            return
    else:
        ops = [machine_update(CUDA, s, k) for k in range(len(s.buffers))]
        if all(ops):
            index = w.p.index(s.index)
            if len(s.buffers) > 1 and not index.isidentifier():
                index = w.name_value(s.index, "at")
            for b, op, value in zip(s.buffers, ops, s.values, strict=True):
                assert op is not None
                _native(w, b, index, op, value)
            return
    if s.locks is not None and (len(s.buffers) > 1 or s.buffers[0].type.bits > 64):
        _locked(w, s, s.locks)
    elif s.combine is not None and len(s.buffers) == 1 and s.buffers[0].type.bits <= 64:
        _exchange(w, s)
    else:
        raise AssertionError(f"{w.kernel.name}: an atomic update of several words")


def _address(w: Writer, b: Buffer, index: str) -> str:
    return w.buffers[b] if index == "0" else f"&{w.buffers[b]}[{index}]"


def _native(w: Writer, b: Buffer, index: str, op: str, value: Expr) -> None:
    """An update by one machine instruction."""
    t, p = b.type, w.p
    if t.bits < 32 and t.family != "float":
        _bits_of_a_word(w, b, index, op, value)
        return
    if op == "add" and (t.is_complex or t.bits == 16):
        p.use("atomicAdd_complex" if t.is_complex else "atomicAdd_float16")
    address, given = _address(w, b, index), p.exact(value)
    if t.name == "int64" and op not in _SIGNED:
        p.use("uint64")
        address, given = f"(uint64*){address}", p.cast("uint64", given)
    w.line(f"{_ATOMIC[op]}({address}, {given.code});")


def _bits_of_a_word(w: Writer, b: Buffer, index: str, op: str, value: Expr) -> None:
    """and, or, xor on 8 or 16 bits: applied to the enclosing 32-bit word."""
    t, p = b.type, w.p
    key = f"{_ATOMIC[op]}_small"
    if key not in HELPERS:
        raise AssertionError(key)
    p.use(key)
    w.line(f"{_ATOMIC[op]}({_address(w, b, index)}, {p.exact(value).code});")
    del t


def _small(function: str, outside: str) -> Helper:
    return Helper(f"""
// {function} on 8 or 16 bits, by way of the 32-bit word around them.
template <class T>
__device__ __forceinline__ void {function}(T* location, T x) {{
  constexpr unsigned mask = (1ull << 8 * sizeof(T)) - 1;
  const size_t address = reinterpret_cast<size_t>(location);
  const unsigned shift = 8 * (address & 3);
  {function}(reinterpret_cast<unsigned*>(address & ~size_t(3)), {outside});
}}
""")


HELPERS["atomicAnd_small"] = _small("atomicAnd", "(unsigned(x) & mask) << shift | ~(mask << shift)")
HELPERS["atomicOr_small"] = _small("atomicOr", "(unsigned(x) & mask) << shift")
HELPERS["atomicXor_small"] = _small("atomicXor", "(unsigned(x) & mask) << shift")


def _bind(w: Writer, s: Atomic, new: list[Term], old: list[Term]) -> None:
    assert s.combine is not None
    w.variables.update(zip(s.combine.left, new, strict=True))
    w.variables.update(zip(s.combine.right, old, strict=True))


def _named_values(w: Writer, s: Atomic) -> list[Term]:
    """The new values, computed once."""
    made = []
    for value in s.values:
        term = w.p.term(value)
        made.append(term if _is_name(term.code) else Term(w.name_value(value, "value")))
    return made


def _is_name(code: str) -> bool:
    return code.replace(".", "_").isidentifier() or code.rstrip("ful").replace(".", "").isdigit()


def _exchange(w: Writer, s: Atomic) -> None:
    """An update of one word of up to eight bytes, by compare-and-swap."""
    p, buffer = w.p, s.buffers[0]
    t = buffer.type
    assert s.combine is not None
    new = _named_values(w, s)
    p.use(f"update{t.bits}")
    address = _address(w, buffer, p.index(s.index))
    with w.names.scope():
        old = w.names.fresh("old")
        _bind(w, s, new, [Term(old)])
        head = f"atomic_update{t.bits}({address}, [&]({w.type(t)} {old})"
        if t.bits < 32 or t.family == "bool":  # the lambda must not return a promoted int
            head += f" -> {w.type(t)}"
        first = len(w.lines)
        with w.scope():
            w.prepare(s.combine.results)
            result = p.exact(s.combine.results[0]).code
            w.line(f"return {result};")
        if len(w.lines) == first + 1:
            w.lines.pop()
            w.line(f"{head} {{ return {result}; }});")
        else:
            w.lines[first:first] = wrap("  " * w.depth + f"{head} {{")
            w.line("});")


def _locked(w: Writer, s: Atomic, locks: Buffer) -> None:
    """An update of several words, or of a word wider than 64 bits, under one of the spin locks."""
    p = w.p
    new = _named_values(w, s)
    p.use("locked")
    for b in s.buffers:
        half = b.type.is_float and b.type.bits == 16
        p.use("now_complex" if b.type.is_complex else f"now_{b.type.name}" if half else "now")
    index = p.index(s.index)
    if not index.isidentifier():
        index = w.name_value(s.index, "at")
    many = p.term(locks.size)
    which = "0" if many.code == "1" else f"{index} % {many.within(UNARY)}"
    w.line(f"locked({_address(w, locks, which)}, [&] {{")
    with w.scope():
        if s.combine is None:
            made = [t.code for t in new]
        else:
            old = []
            for k, b in enumerate(s.buffers):
                old.append(w.names.fresh("old" if len(s.buffers) == 1 else f"old{k}"))
                w.line(f"const {w.type(b.type)} {old[-1]} = read_now({_address(w, b, index)});")
            _bind(w, s, new, [Term(o) for o in old])
            w.prepare(s.combine.results)
            made = [p.text(e) for e in s.combine.results]
        for b, value in zip(s.buffers, made, strict=True):
            kind = "" if b.type.is_complex or b.type.bits == 16 else f"<{w.type(b.type)}>"
            w.line(f"write_now{kind}({_address(w, b, index)}, {value});")
    w.line("});")


# --- between blocks ---------------------------------------------------------------------------


def between_blocks(w: Writer, s: Fetch | Publish | FetchUpdate) -> None:
    """Acquire or relaxed loads, release or relaxed stores, and atomic counters."""
    p, t = w.p, s.buffer.type
    address = _address(w, s.buffer, p.index(s.index))
    match s:
        case Fetch():
            function = "fetch" if s.ordered else "fetch_relaxed"
            p.use(f"{function}_{t.name}")
            w.line(f"const {w.type(t)} {w.introduce(s.var)} = {function}({address});")
        case Publish():
            function = "publish" if s.ordered else "publish_relaxed"
            p.use(f"{function}_{t.name}")
            w.line(f"{function}({address}, {p.exact(s.value).code});")
        case FetchUpdate():
            given = p.exact(s.value)
            if t.name == "int64" and s.op not in _SIGNED:
                p.use("uint64")
                address, given = f"(uint64*){address}", p.cast("uint64", given)
            before = f"const {w.type(t)} {w.introduce(s.var)} = " if w.is_read(s.var) else ""
            w.line(f"{before}{_ATOMIC[s.op]}({address}, {given.code});")
