"""Numba's scalar functions as CUDA C++, from the LLVM IR that Numba makes of them for a CPU.

    Python function → Numba → LLVM IR of numbers and jumps → `__device__` functions of assignments
    and `goto`s, in the text of the kernel

So a kernel with a foreign function is a single source like any other kernel: NVRTC compiles it
without libNVVM or a linker, and the code caches store it.  Functions that LLVM calls by name
(`sin`, `pow`) are CUDA's.  Of an exception only a status remains: the launch reports the arguments,
and the host calls the function with them again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from treadle.dsl.errors import CompilationError
from treadle.dsl.graphs.interning import cached_per_object
from treadle.dsl.operations.elements.foreign import _numba_type, definitions
from treadle.dsl.process import locks
from treadle.dsl.types import ScalarType
from treadle.skeletons.ir.kernel import error_words

from .names import Names, identifier
from .scalars import number, type_name

_TYPES = {"i1": "bool", "i8": "uint8", "i16": "uint16", "i32": "uint32", "i64": "uint64",
          "float": "float", "double": "double", "ptr": "char*"}  # fmt: skip
_SIGNED = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int", "i64": "int64"}
_SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}
#: Integers of other widths, which LLVM creates for closed-form sums and bit tests.  They are stored
#: in the next wider C++ type, zero-extended.
_WIDEST, _WIDE = 128, ("unsigned __int128", "__int128")
_PLAIN = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<",
          "udiv": "/", "urem": "%", "lshr": ">>", "fadd": "+", "fsub": "-", "fmul": "*",
          "fdiv": "/"}  # fmt: skip
_AS_SIGNED = {"sdiv": "/", "srem": "%", "ashr": ">>"}
_ORDER = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_OPPOSITE = {"gt": "<=", "ge": "<", "lt": ">=", "le": ">"}
#: LLVM's intrinsics on floats -> CUDA's functions (without the f of float).
_FLOATS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "exp": "exp", "exp2": "exp2", "log": "log",
    "log2": "log2", "log10": "log10", "pow": "pow", "sqrt": "sqrt", "fabs": "fabs",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "nearbyint": "nearbyint",
    "roundeven": "rint", "round": "round", "copysign": "copysign", "fma": "fma",
    "minnum": "fmin", "maxnum": "fmax", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "ldexp": "ldexp",
}  # fmt: skip
#: Functions of the C library that CUDA provides too.
_LIBRARY = frozenset(
    [*_FLOATS.values(), "asinh", "acosh", "atanh", "cbrt", "erf", "erfc", "expm1", "log1p",
     "hypot", "tgamma", "lgamma", "fmod", "nextafter", "remainder", "logb", "exp10"]
)  # fmt: skip
_TYPE = r"(?:i\d+|double|float|ptr|\{[^}]*\}|\[[^\]]*\])"
_FLAGS = r"(?:(?:nuw|nsw|exact|disjoint|nneg|samesign|inbounds|nusw|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|tail|notail|musttail|noundef|range\([^)]*\)|volatile)\s+)*"  # noqa: E501
_ATTRIBUTES = r"^(\S+)\s+(?:\w+(?:\([^)]*\))?\s+)*(?=[%@\d\-]|null|true|false|undef|poison)"
_lock = locks.lock()


class _Unsupported(Exception):
    """An LLVM construct that scalar numeric functions do not need."""


def device_function(function: Any, name: str) -> str:
    """The C++ of a `CompiledScalarFunction`: a `__device__` function `name` of its arguments.

    `CompilationError` when it does more than compute with numbers.
    """
    try:
        return _translated(function, name)
    except _Unsupported as error:
        raise CompilationError(
            f"foreign: '{function.name}' cannot run on a GPU: {error}.",
            hint="On a GPU, foreign takes functions that compute with numbers and math.* only; "
                 'backend="native" runs every function that numba.njit compiles.',
        ) from None  # fmt: skip


@cached_per_object(8)
def _translated(function: Any, name: str) -> str:
    module, entry = _llvm(function)
    functions = dict(definitions(module))
    made: list[str] = []
    names = {entry: f"{name}_numba"}
    waiting = [entry]
    while waiting:
        symbol = waiting.pop()
        if symbol not in functions:
            raise _Unsupported(f"it calls {symbol}")

        def called(other: str) -> str:
            if other not in names:
                names[other] = f"{name}_numba{len(names)}"
                waiting.append(other)
            return names[other]

        body = _Function(functions[symbol], names[symbol], set(functions), called)
        made.insert(0, body.text())
    remark = f"// {function.name}, a function of Numba's: its LLVM IR as C++."
    return "\n".join([remark, *made, _wrapper(function, name)])


def _llvm(function: Any) -> tuple[str, str]:
    """The LLVM IR of the module, scalar, and the symbol of the function in it."""
    import numba

    config: Any = numba.config
    types = tuple(_numba_type(t) for t in function.arguments)
    with _lock:
        before = config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.OPT
        config.LOOP_VECTORIZE = config.SLP_VECTORIZE = 0
        config.OPT = config._OptLevel(1)  # do not unroll loops: the GPU's compiler does that
        try:
            dispatcher = numba.njit(function.function.py_func)
            dispatcher.compile(types)
        finally:
            config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.OPT = before
    made = dispatcher.overloads[types]
    return made.library.get_llvm_str(), made.fndesc.llvm_func_name


def _wrapper(function: Any, name: str) -> str:
    """The function that the kernel calls."""
    parameters, given = [], ["reinterpret_cast<char*>(&result)", "nullptr"]
    for k, t in enumerate(function.arguments):
        parameters.append(f"{type_name(t)} x{k}")
        given += [f"x{k}.real", f"x{k}.imag"] if t.is_complex else [f"x{k}"]
    result: ScalarType = function.result
    start = f"{result.name}(0, 0)" if result.is_complex else "0"
    kind = type_name(result)
    call = [f"  {name}_numba({', '.join(given)});"]
    if function.raises:
        parameters += ["int64* errors", "int64 site"]
        first = "atomicCAS((unsigned long long*)errors, 0ull, (unsigned long long)site) == 0"
        call = [f"  if ({call[0].strip(' ;')} != 0 && {first}) {{"]
        at = 1
        for k, t in enumerate(function.arguments):
            call.append(f"    memcpy(errors + {at}, &x{k}, sizeof(x{k}));")
            at += error_words(t)
        call.append("  }")
    lines = [f"__device__ __forceinline__ {kind} {name}({', '.join(parameters)}) {{",
             f"  {kind} result = {start};", *call, "  return result;", "}", ""]  # fmt: skip
    return "\n".join(lines)


def _split(text: str) -> list[str]:
    """Split operands at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()]


class _Function:
    """One LLVM function as C++."""

    def __init__(self, text: str, name: str, known: set[str], called: Callable[[str], str]) -> None:
        self.name, self.known, self.called = name, known, called
        self.names = Names()
        self.values: dict[str, str] = {}
        self.variables: list[tuple[str, str]] = []
        self.slots: list[str] = []
        head, *lines = text.splitlines()
        self.arguments = self._arguments(head)
        self.blocks = self._blocks(lines[:-1])
        self.labels = {label: self.names.fresh(f"at_{label}") for label, _ in self.blocks}

    def _arguments(self, head: str) -> list[tuple[str, str]]:
        inside = head[head.index("(", head.index("@")) + 1 : head.rindex(")")]
        found = []
        for part in _split(inside):
            if not part:
                continue
            kind, symbol = part.split()[0], part.split()[-1]
            _known(kind)
            name = self.names.fresh(identifier(symbol.strip('%"').removeprefix("arg.")))
            self.values[symbol] = name
            found.append((kind, name))
        return found

    def _blocks(self, lines: list[str]) -> list[tuple[str, list[str]]]:
        blocks: list[tuple[str, list[str]]] = []
        for line in lines:
            label = re.match(r'^(?:"([^"]+)"|([-\w.$]+)):', line)
            if label:
                blocks.append((label.group(1) or label.group(2), []))
            elif line.strip():
                if not blocks:
                    blocks.append(("entry", []))
                blocks[-1][1].append(re.sub(r",? ![\w.]+ !\d+", "", line.split(" ;")[0]).strip())
        joined = []
        for label_, body in blocks:  # join the lines of switches
            together: list[str] = []
            for text in body:
                if together and together[-1].startswith("switch") and "]" not in together[-1]:
                    together[-1] += " " + text
                else:
                    together.append(text)
            joined.append((label_, together))
        return joined

    # --- names and constants ----------------------------------------------------------------

    def define(self, symbol: str, kind: str) -> str:
        _known(kind)
        if symbol not in self.values:
            self.values[symbol] = self.names.fresh("v" + identifier(symbol.strip('%"')).strip("_"))
            self.variables.append((kind, self.values[symbol]))
        return self.values[symbol]

    def value(self, text: str, kind: str) -> str:
        """An operand of a known type."""
        text = text.strip()
        if text.startswith("%"):
            if text not in self.values:  # an operand of a phi, defined later
                return self.define(text, kind)
            return self.values[text]
        if text in ("undef", "poison", "zeroinitializer", "null"):
            return "nullptr" if kind == "ptr" else "0"
        if text.startswith("@") and "picklebuf" in text and kind == "ptr":
            return "nullptr"  # the exception that it would raise
        if text in ("true", "false"):
            return text
        if kind in ("float", "double"):
            value = (
                struct.unpack(">d", bytes.fromhex(text[2:].rjust(16, "0")))[0]
                if text.startswith("0x") else float(text)
            )  # fmt: skip
            return {"INFINITY": _infinity(kind), "-INFINITY": f"-{_infinity(kind)}",
                    "NAN": _nan(kind)}.get(code := number(value, kind).code, code)  # fmt: skip
        if re.fullmatch(r"-?\d+", text):
            return _constant(int(text), kind)
        raise _Unsupported(f"it uses {text}")

    def typed(self, text: str) -> tuple[str, str]:
        """`type value` as (C++ text, type)."""
        found = re.match(rf"({_TYPE})\s+(?:noundef\s+|nonnull\s+)*(.*)$", text.strip())
        if not found:
            raise _Unsupported(f"it uses {text}")
        return self.value(found.group(2), found.group(1)), found.group(1)

    # --- instructions -----------------------------------------------------------------------

    def text(self) -> str:
        lines: list[str] = []
        jumped = {t for _, body in self.blocks for t in re.findall(r"label %([^,\s\]]+)", body[-1])}
        for label, body in self.blocks:
            if label in {t.strip('"') for t in jumped}:
                lines.append(f"{self.labels[label]}:")
            for instruction in body:
                lines += ["  " + s for s in self.instruction(instruction, label)]
        declared: dict[str, list[str]] = {}
        for kind, name in self.variables:
            declared.setdefault(_known(kind), []).append(name)
        head = [f"  {kind} {', '.join(some)};" if kind != "char*" else
                "  char " + ", ".join(f"*{n}" for n in some) + ";"
                for kind, some in declared.items()]  # fmt: skip
        given = ", ".join(f"{_known(kind)} {name}" for kind, name in self.arguments)
        return "\n".join([f"__device__ __forceinline__ int {self.name}({given}) {{",
                          *self.slots, *head, *lines, "}", ""])  # fmt: skip

    def instruction(self, text: str, block: str) -> list[str]:
        found = re.match(r'(%(?:"[^"]+"|[-\w.$]+)) = (.*)$', text)
        if not found:
            return self._effect(text, block)
        symbol, rest = found.groups()
        rest = re.sub(r", align \d+$", "", rest)
        if re.match(r"(tail |notail |musttail )*call ", rest):
            return self._call(symbol, rest)
        if rest.startswith("phi"):
            kind = re.match(rf"phi {_FLAGS}({_TYPE})", rest)
            if kind is None:
                raise _Unsupported(rest)
            self.define(symbol, kind.group(1))
            return []
        code, kind_ = self._compute(symbol, rest)
        return [f"{self.define(symbol, kind_)} = {code};"]

    def _compute(self, symbol: str, rest: str) -> tuple[str, str]:
        op = rest.split()[0]
        rest = rest[len(op) :].strip()
        if op in _PLAIN or op in _AS_SIGNED or op == "frem":
            found = re.match(rf"{_FLAGS}({_TYPE}) (.*)$", rest)
            if found is None:
                raise _Unsupported(f"{op} {rest}")
            kind = found.group(1)
            a, b = (self.value(x, kind) for x in _split(found.group(2)))
            if op == "frem":
                return f"fmod{'f' if kind == 'float' else ''}({a}, {b})", kind
            if op in _AS_SIGNED:
                by = b if op == "ashr" else _signed(kind, b)
                return _wrapped(kind, f"{_signed(kind, a)} {_AS_SIGNED[op]} {by}"), kind
            if _stored_width(kind) == 16 and op == "mul":
                a = f"(uint32){a}"
            if kind == "i1" and op in ("add", "sub"):
                return f"{a} != {b}", kind
            return _wrapped(kind, f"{a} {_PLAIN[op]} {b}"), kind
        if op == "fneg":
            a, kind = self.typed(re.sub(rf"^{_FLAGS}", "", rest))
            return f"-{a}", kind
        if op in ("icmp", "fcmp"):
            return self._compare(op, re.sub(rf"^{_FLAGS}", "", rest)), "i1"
        if op == "select":
            condition, yes, no = _split(re.sub(rf"^{_FLAGS}", "", rest))
            a, kind = self.typed(yes)
            return f"{self.typed(condition)[0]} ? {a} : {self.typed(no)[0]}", kind
        if op == "freeze":
            return self.typed(rest)
        if op == "alloca":
            kind = _split(rest)[0]
            slot = self.names.fresh("slot")
            self.slots.append(f"  alignas(8) char {slot}[{_size(kind)}];")
            return slot, "ptr"
        if op == "load":
            kind, pointer = _split(re.sub(r"^volatile ", "", rest))[:2]
            return f"*reinterpret_cast<{_known(kind)}*>({self.typed(pointer)[0]})", kind
        if op == "getelementptr":
            return self._element(re.sub(rf"^{_FLAGS}", "", rest)), "ptr"
        if " to " in rest:
            return self._convert(op, re.sub(rf"^{_FLAGS}", "", rest))
        raise _Unsupported(f"it uses the instruction {op}")

    def _compare(self, op: str, rest: str) -> str:
        predicate, kind, operands = re.match(rf"(\w+) ({_TYPE}) (.*)$", rest).groups()  # type: ignore[union-attr]
        a, b = (self.value(x, kind) for x in _split(operands))
        if op == "icmp":
            if predicate[0] == "s" and predicate not in ("eq", "ne"):
                return f"{_signed(kind, a)} {_ORDER[predicate[1:]]} {_signed(kind, b)}"
            return f"{a} {_ORDER[predicate.removeprefix('u')]} {b}"
        match predicate:
            case "oeq" | "une":
                return f"{a} {'==' if predicate == 'oeq' else '!='} {b}"
            case "one" | "ueq":
                ordered = f"{a} < {b} || {a} > {b}"
                return ordered if predicate == "one" else f"!({ordered})"
            case "ord":
                return f"{a} == {a} && {b} == {b}"
            case "uno":
                return f"{a} != {a} || {b} != {b}"
            case "true" | "false":
                return predicate
        if predicate[0] == "o":
            return f"{a} {_ORDER[predicate[1:]]} {b}"
        return f"!({a} {_OPPOSITE[predicate[1:]]} {b})"

    def _convert(self, op: str, rest: str) -> tuple[str, str]:
        operand, kind = (part.strip() for part in rest.rsplit(" to ", 1))
        a, source = self.typed(operand)
        to = _known(kind)
        match op:
            case "zext" | "fptrunc" | "fpext" | "uitofp":
                return f"({to}){a}", kind
            case "fptoui":
                return _wrapped(kind, f"({to}){a}"), kind
            case "trunc":
                return (f"({a} & 1) != 0" if kind == "i1" else _wrapped(kind, f"({to}){a}")), kind
            case "sext":
                wide = f"{a} ? -1 : 0" if source == "i1" else f"({to}){_signed(source, a)}"
                return _wrapped(kind, wide), kind
            case "sitofp":
                return f"({to}){_signed(source, a)}", kind
            case "fptosi":
                return _wrapped(kind, _signed(f"i{_stored_width(kind)}", a)), kind
            case "bitcast":
                functions = {("double", "i64"): "__double_as_longlong",
                             ("i64", "double"): "__longlong_as_double",
                             ("float", "i32"): "__float_as_uint",
                             ("i32", "float"): "__uint_as_float"}  # fmt: skip
                if (source, kind) in functions:
                    return f"{functions[source, kind]}({a})", kind
        raise _Unsupported(f"it uses the conversion {op} {source} to {kind}")

    def _element(self, rest: str) -> str:
        kind, pointer, *operands = _split(rest)
        base = self.typed(pointer)[0]
        offset, inner = [], kind
        for k, operand in enumerate(operands):
            index, of = self.typed(operand)
            if k == 0:
                step = _size(inner)
            elif inner.startswith("["):
                inner = inner[1:-1].split(" x ", 1)[1]
                step = _size(inner)
            else:
                raise _Unsupported("it uses memory of structures")
            signed = _signed(of, index)
            offset.append(signed if step == 1 else f"{signed} * {step}")
        return " + ".join([base, *offset])

    def _call(self, symbol: str | None, rest: str) -> list[str]:
        found = re.match(rf'[\w\s]*?call {_FLAGS}(?:{_FLAGS})({_TYPE}|void)(?: \([^)]*\))? '
                         rf'@("?)([^"(]+)\2\((.*)\)[^)]*$', rest)  # fmt: skip
        if found is None:
            raise _Unsupported(f"it uses {rest}")
        kind, _, function, operands = found.groups()
        if function.startswith(("llvm.lifetime", "llvm.assume", "llvm.experimental.noalias",
                                "llvm.dbg")):  # fmt: skip
            return []
        given = [re.sub(_ATTRIBUTES, r"\1 ", p) for p in _split(operands) if p]
        if function.startswith("llvm.memset."):
            to, value, size = (self.typed(p)[0] for p in given[:3])
            return [f"memset({to}, {value}, {size});"]
        if kind == "void":
            raise _Unsupported(f"it calls {function}")
        if function in self.known:
            args = [self.typed(p)[0] for p in given]
            code = f"{self.called(function)}({', '.join(args)})"
        elif function.startswith("llvm."):
            code = self._intrinsic(function, kind, given)
        else:
            function = {"numba_gamma": "tgamma", "numba_gammaf": "tgammaf"}.get(function, function)
            plain = function[:-1] if kind == "float" and function.endswith("f") else function
            if plain not in _LIBRARY or kind not in ("float", "double"):
                raise _Unsupported(f"it calls {function}")
            code = f"{function}({', '.join(self.typed(p)[0] for p in given)})"
        return [f"{self.define(symbol, kind)} = {code};" if symbol else f"{code};"]

    def _intrinsic(self, function: str, kind: str, operands: list[str]) -> str:
        name = function.split(".")[1]
        args = [self.typed(p)[0] for p in operands]
        f = "f" if kind == "float" else ""
        if name == "is":  # is.fpclass
            return self._is_of_class(args[0], self.typed(operands[0])[1], int(args[1].rstrip("u")))
        if name in _FLOATS and kind in ("float", "double"):
            return f"{_FLOATS[name]}{f}({', '.join(args)})"
        if name == "powi":
            return f"pow{f}({args[0]}, (int){args[1]})"
        if name in ("minimum", "maximum") and kind in ("float", "double"):
            a, b = args
            return f"{a} != {a} || {b} != {b} ? {a} + {b} : f{name[:3]}{f}({a}, {b})"
        if 0 < _stored_width(kind) <= 64:
            u, bits = _known(kind), int(kind[1:])
            match name:
                case "smax" | "smin":
                    a, b = (_signed(kind, x) for x in args[:2])
                    return _wrapped(kind, f"{name[1:]}({a}, {b})")
                case "umax" | "umin":
                    return f"{name[1:]}({args[0]}, {args[1]})"
                case "abs":
                    minus = _wrapped(kind, f"0 - {args[0]}")
                    return f"{_signed(kind, args[0])} < 0 ? {minus} : {args[0]}"
                case "ctpop":
                    return f"__popcll((uint64){args[0]})"
                case "ctlz":
                    return f"__clzll((uint64){args[0]}) - {64 - bits}"
                case "cttz":
                    return f"min(__ffsll((uint64){args[0]} | 0x8000000000000000ull) - 1, {bits})"
                case "usub":
                    if ".sat" in function:
                        return f"{args[0]} > {args[1]} ? ({u})({args[0]} - {args[1]}) : 0"
        raise _Unsupported(f"it calls {function}")

    def _is_of_class(self, x: str, kind: str, mask: int) -> str:
        """Whether a float is of one of LLVM's classes: bits of `mask`, two for NaN, then negative
        infinite, normal, subnormal and zero, then the same in the opposite order."""
        if mask & 3 not in (0, 3):
            raise _Unsupported("it distinguishes NaNs")
        f, least = ("f", "1.17549435e-38f") if kind == "float" else ("", "2.2250738585072014e-308")
        size, infinite = f"fabs{f}({x})", self.value("0x7FF0000000000000", kind)
        kinds = (f"{size} == {infinite}", f"{size} >= {least} && {size} < {infinite}",
                 f"{size} < {least} && {x} != 0", f"{x} == 0")  # fmt: skip
        found = [f"{x} != {x}"] if mask & 3 else []
        for k, holds in enumerate(kinds):
            negative, positive = mask >> (2 + k) & 1, mask >> (9 - k) & 1
            if negative and positive:
                found.append(holds)
            elif negative or positive:
                sign = "<" if negative else ">"
                found.append(f"{holds} && copysign{f}(1, {x}) {sign} 0")
        return " || ".join(f"({part})" for part in found) or "false"

    # --- effects and jumps --------------------------------------------------------------------

    def _effect(self, text: str, block: str) -> list[str]:
        text = re.sub(r", align \d+$", "", text)
        if text.startswith("store"):
            value, pointer = _split(text[len("store ") :])[:2]
            if " @" in value or "excinfo" in pointer:
                return []  # the exception that it would raise
            code, kind = self.typed(value)
            return [f"*reinterpret_cast<{_known(kind)}*>({self.typed(pointer)[0]}) = {code};"]
        if text.startswith("ret"):
            return [f"return {self.typed(text[4:])[0]};"] if text != "ret void" else ["return 0;"]
        if text.startswith("unreachable"):
            return ["return 1;"]
        if text.startswith("switch"):
            return self._switch(text, block)
        if text.startswith("br"):
            return self._branch(text, block)
        if re.match(r"(tail |notail |musttail )*call ", text):
            return self._call(None, text)
        raise _Unsupported(f"it uses {text.split()[0]}")

    def _branch(self, text: str, block: str) -> list[str]:
        targets = [t.strip('"') for t in re.findall(r'label %("[^"]+"|[^,\s]+)', text)]
        if len(targets) == 1:
            return self._jump(block, targets[0])
        condition = self.typed(_split(text[3:])[0])[0]
        return [f"if ({condition}) {{", *(f"  {s}" for s in self._jump(block, targets[0])), "}",
                *self._jump(block, targets[1])]  # fmt: skip

    def _switch(self, text: str, block: str) -> list[str]:
        found = re.match(r'switch (.*?), label %("[^"]+"|[^,\s]+) \[(.*)\]', text)
        if found is None:
            raise _Unsupported(text)
        value, kind = self.typed(found.group(1))
        lines = []
        for constant, target in re.findall(
            r'i\d+ (-?\w+), label %("[^"]+"|[^,\s]+)', found.group(3)
        ):
            lines += [f"if ({value} == {self.value(constant, kind)}) {{",
                      *(f"  {s}" for s in self._jump(block, target.strip('"'))), "}"]  # fmt: skip
        return lines + self._jump(block, found.group(2).strip('"'))

    def _jump(self, block: str, target: str) -> list[str]:
        """Assign the target's phis in parallel, then jump."""
        moves = []
        for text in dict(self.blocks)[target]:
            found = re.match(rf'(%(?:"[^"]+"|[-\w.$]+)) = phi {_FLAGS}({_TYPE}) (.*)$', text)
            if found is None:
                continue
            symbol, kind, sources = found.groups()
            for value, origin in re.findall(r'\[ (.*?), %("[^"]+"|[^\s\]]+) \]', sources):
                if origin.strip('"') == block:
                    moves.append((kind, self.define(symbol, kind), self.value(value, kind)))
        moves = [m for m in moves if m[1] != m[2]]
        written = {to for _, to, _ in moves}
        lines = []
        if any(source in written for _, _, source in moves):
            phis = []
            for kind, to, source in moves:
                name = self.names.fresh("next")
                lines.append(f"  const {_known(kind)} {name} = {source};")
                phis.append((to, name))
            lines = ["{", *lines, *(f"  {to} = {name};" for to, name in phis), "}"]
        else:
            lines = [f"{to} = {source};" for _, to, source in moves]
        return [*lines, f"goto {self.labels[target]};"]


def _infinity(kind: str) -> str:
    return "__int_as_float(0x7f800000)" if kind == "float" else (
        "__longlong_as_double(0x7ff0000000000000)")  # fmt: skip


def _nan(kind: str) -> str:
    return "__int_as_float(0x7fc00000)" if kind == "float" else (
        "__longlong_as_double(0x7ff8000000000000)")  # fmt: skip


def _stored_width(kind: str) -> int:
    """The width of the C++ type that stores an LLVM integer type; 0 for other types."""
    if not re.fullmatch(r"i\d+", kind):
        return 0
    bits = int(kind[1:])
    found = next((b for b in (8, 16, 32, 64, _WIDEST) if bits <= b), None)
    if found is None:
        raise _Unsupported(f"a value of type {kind}")
    return found


def _odd(kind: str) -> bool:
    """Whether an integer has fewer bits than the C++ type that stores it."""
    return kind != "i1" and 0 < _stored_width(kind) != int(kind[1:])


def _known(kind: str) -> str:
    """The C++ type of a value."""
    if kind in _TYPES:
        return _TYPES[kind]
    width = _stored_width(kind)
    if not width:
        raise _Unsupported(f"a value of type {kind}")
    return _WIDE[0] if width == _WIDEST else _TYPES[f"i{width}"]


def _signed(kind: str, code: str) -> str:
    """An integer converted to a signed C++ type."""
    width = _stored_width(kind)
    s = _WIDE[1] if width == _WIDEST else _SIGNED[kind if kind == "i1" else f"i{width}"]
    if not _odd(kind):
        return f"({s}){code}"
    lost = width - int(kind[1:])
    return f"(({s})(({_known(kind)}){code} << {lost}) >> {lost})"


def _wrapped(kind: str, code: str) -> str:
    """A result truncated to the width of its integer type."""
    return f"({code}) & {_constant((1 << int(kind[1:])) - 1, kind)}" if _odd(kind) else code


def _constant(value: int, kind: str) -> str:
    bits = int(kind[1:])
    value %= 1 << bits
    if value >> 64:
        return f"(({_WIDE[0]}){value >> 64}ull << 64 | {value % (1 << 64)}ull)"
    return f"{value}{'ull' if bits > 32 else 'u'}"


def _size(kind: str) -> int:
    """The size of a scalar or of an array of scalars, in bytes."""
    if kind.startswith("["):
        count, inner = kind[1:-1].split(" x ", 1)
        return int(count) * _size(inner)
    if kind.startswith("{"):
        parts = [_size(p) for p in _split(kind[1:-1])]
        if len(set(parts)) != 1:
            raise _Unsupported("it uses memory of structures")
        return sum(parts)
    if kind not in _SIZES and not _stored_width(kind):
        raise _Unsupported(f"memory of type {kind}")
    return _SIZES.get(kind) or _stored_width(kind) // 8
