"""Scalar types, NumPy 2's promotion rules, and the structure of tuple elements.

A `ScalarType` is the element type of a buffer.  It is also a constructor of typed scalars:
`td.int32(0)` is a value of type int32, and `td.int32` is a dtype that NumPy understands.

Elements may be nested tuples, named tuples or dataclasses of scalars; each component is stored in a
buffer of its own.  A `Structure` describes the nesting, so that flat components can be reassembled
for the user's functions and for results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal

import ml_dtypes
import numpy as np

from . import late_binding as later
from .errors import DTypeError, without_frames
from .process.locks import cached

__all__ = ["bfloat16", "bool_", "complex64", "complex128", "float16", "float32", "float64", "int8",
           "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]  # fmt: skip

#: Attributes of NumPy dtypes that a `ScalarType` provides as well.
_OF_NUMPY = frozenset(
    ("alignment", "base", "byteorder", "char", "descr", "fields", "flags", "hasobject", "isnative",
     "itemsize", "names", "ndim", "num", "shape", "str", "subdtype", "type")
)  # fmt: skip

Family = Literal["bool", "int", "uint", "float", "complex"]
_LETTERS: dict[Family, Literal["b", "i", "u", "f", "c"]] = {
    "bool": "b", "int": "i", "uint": "u", "float": "f", "complex": "c"}  # fmt: skip


@dataclass(frozen=True)
class ScalarType:
    """A type of elements: `td.float32` and the others, with the attributes of NumPy's dtypes.

    It is what `dtype=` takes, it equals NumPy's dtype of that name, and calling it makes a typed
    number.  `family` is "bool", "int", "uint", "float" or "complex", `bits` the size of a value.

    >>> import numpy as np, treadle as td
    >>> td.float32.kind, td.float32.itemsize, td.float32 == np.float32
    ('f', 4, True)
    >>> td.float32(0.1) * 2
    Scalar(0.2: float32)
    """

    name: str
    family: Family
    bits: int
    numpy: np.dtype[Any]

    @without_frames
    def __call__(self, value: Any) -> Any:
        """A typed scalar: `td.float32(0.5)`; casts a scalar expression."""
        return later.typed_scalar(value, self)

    # NumPy asks an object used as a dtype for this attribute.
    @property
    def dtype(self) -> np.dtype[Any]:
        return self.numpy

    @property
    def kind(self) -> Literal["b", "i", "u", "f", "c"]:
        """NumPy's letter for the family: "b", "i", "u", "f" or "c"."""
        return _LETTERS[self.family]

    def __getattr__(self, name: str) -> Any:
        if name in _OF_NUMPY:
            return getattr(self.numpy, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @cached
    def bytes(self) -> int:
        return max(self.bits // 8, 1)

    @cached
    def is_integer(self) -> bool:
        return self.family in ("int", "uint")

    @cached
    def is_float(self) -> bool:
        return self.family == "float"

    @cached
    def is_narrow(self) -> bool:
        """Whether this is a float of 16 bits, whose products are summed in float32."""
        return self.family == "float" and self.bits == 16

    @cached
    def is_complex(self) -> bool:
        return self.family == "complex"

    @cached
    def is_inexact(self) -> bool:
        return self.family in ("float", "complex")

    @cached
    def signed(self) -> bool:
        return self.family != "uint" and self.family != "bool"

    @cached
    def lowest(self) -> Any:
        """The minimum (−inf for floats), as a Python number."""
        if self.family == "bool":
            return False
        if self.is_integer:
            return -(1 << (self.bits - 1)) if self.signed else 0
        return float("-inf")

    @cached
    def highest(self) -> Any:
        if self.family == "bool":
            return True
        if self.is_integer:
            return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1
        return float("inf")

    def wrapped(self, number: int) -> int:
        """An integer wrapped to this type, modulo 2**bits."""
        number &= (1 << self.bits) - 1
        return number - (1 << self.bits) if self.signed and number >> (self.bits - 1) else number

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.numpy)  # they are equal

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, ScalarType) or other is None:  # (np.dtype(None) is float64)
            return other is not None and self.name == other.name
        try:
            return bool(self.numpy == np.dtype(other))  # type: ignore[call-overload]
        except (TypeError, ValueError):  # (text that names no type)
            return NotImplemented


def _scalar_type(name: str, family: Family, bits: int, numpy: Any) -> ScalarType:
    made = ScalarType(name, family, bits, np.dtype(numpy))
    object.__setattr__(made, "__doc__", _DOC[family].format(name=name, bits=bits, **_limits(made)))
    return made


#: The text of `help(td.int32)` for each family.
_DOC: dict[Family, str] = {
    "bool": """The truth values: False and True, a byte each.  `td.bool` is the same type.

Calling it converts a number: `td.bool_(3)` is True.""",
    "int": """The integers from {low} to {high}: {bits} bits, signed; results beyond wrap around.

`td.{name}(3)` is a typed number, `a.astype(td.{name})` converts an array.""",
    "uint": """The integers from 0 to {high}: {bits} bits, unsigned; results beyond wrap around.

`td.{name}(3)` is a typed number, `a.astype(td.{name})` converts an array.""",
    "float": """Floating-point numbers of {bits} bits: {digits} significant bits, up to {large}.

`td.{name}(0.5)` is a typed number, `a.astype(td.{name})` converts an array.""",
    "complex": """Complex numbers of {bits} bits: two {part}s, the real and the imaginary part.

`td.{name}(1 + 2j)` is a typed number, `a.astype(td.{name})` converts an array.""",
}


def _limits(t: ScalarType) -> dict[str, object]:
    """The numbers in the documentation of a type."""
    if t.family in ("float", "complex"):
        limits = ml_dtypes.finfo(t.numpy)  # type: ignore[no-untyped-call]
        digits, large = limits.nmant + 1, f"{float(limits.max):.3g}"
        return {"digits": digits, "large": large, "part": f"float{t.bits // 2}"}
    return {"low": t.lowest, "high": t.highest}


bool_ = _scalar_type("bool", "bool", 8, np.bool_)
int8 = _scalar_type("int8", "int", 8, np.int8)
int16 = _scalar_type("int16", "int", 16, np.int16)
int32 = _scalar_type("int32", "int", 32, np.int32)
int64 = _scalar_type("int64", "int", 64, np.int64)
uint8 = _scalar_type("uint8", "uint", 8, np.uint8)
uint16 = _scalar_type("uint16", "uint", 16, np.uint16)
uint32 = _scalar_type("uint32", "uint", 32, np.uint32)
uint64 = _scalar_type("uint64", "uint", 64, np.uint64)
float16 = _scalar_type("float16", "float", 16, np.float16)
bfloat16 = _scalar_type("bfloat16", "float", 16, ml_dtypes.bfloat16)
float32 = _scalar_type("float32", "float", 32, np.float32)
float64 = _scalar_type("float64", "float", 64, np.float64)
complex64 = _scalar_type("complex64", "complex", 64, np.complex64)
complex128 = _scalar_type("complex128", "complex", 128, np.complex128)

ALL_TYPES: tuple[ScalarType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NUMPY: dict[np.dtype[Any], ScalarType] = {t.numpy: t for t in ALL_TYPES}

#: The type of a weak Python literal without a typed operand.
DEFAULT_OF_KIND = {"bool": bool_, "int": int64, "float": float64, "complex": complex128}
_RANK_OF_KIND = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def as_type(dtype: Any) -> ScalarType:
    """The scalar type of any NumPy dtype specifier; `DTypeError` for other values."""
    if isinstance(dtype, ScalarType):
        return dtype
    if isinstance(dtype, np.dtype) and dtype in _BY_NUMPY:
        return _BY_NUMPY[dtype]
    if dtype is bool:
        return bool_
    if dtype is int:
        return int64
    if dtype is float:
        return float64
    if dtype is complex:
        return complex128
    try:
        numpy_dtype = np.dtype(dtype)
    except (TypeError, ValueError):
        raise DTypeError(
            f"{dtype!r} is not a scalar type.",
            hint="A shape is one argument, as in td.zeros((2, 3)), before the type."
            if isinstance(dtype, int)
            else "Use one of " + ", ".join(f"td.{t.name}" for t in ALL_TYPES[1:]) + ", td.bool_.",
        ) from None
    found = _BY_NUMPY.get(numpy_dtype.newbyteorder("="))
    if found is None:
        hint = _conversion(numpy_dtype)
        if numpy_dtype.kind in "USTO" and isinstance(dtype, str | type):  # no array has it yet
            said = repr(dtype) if isinstance(dtype, str) else dtype.__name__
            hint = f"Elements are numbers.  NumPy converts them: np.asarray(a).astype({said})."
        raise DTypeError(f"arrays of dtype {numpy_dtype} are not supported.", hint=hint)
    return found


def _conversion(dtype: np.dtype[Any]) -> str:
    """A hint on converting an array with an unsupported dtype."""
    if dtype.names:
        fields = ", ".join(f"a[{name!r}]" for name in dtype.names)
        return f"Make an array of tuples from its fields: td.zip({fields})."
    if dtype.kind in "mM":
        return "Count its units: a.astype(np.int64)."
    if dtype.kind in "fc":
        return f"Convert it: a.astype(np.{'float64' if dtype.kind == 'f' else 'complex128'})."
    words = "pandas.factorize(column) or np.unique(a, return_inverse=True) numbers words."
    if dtype.kind in "USaT":
        return f"Elements are numbers: {words}"
    return (
        "If they are numbers, convert them: np.array(x, np.float64), which makes NaN of None.  "
        f"{words}"
    )


def kind_of_literal(value: Any) -> str | None:
    """The weak kind of a Python number, None for other values."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) and not isinstance(value, np.generic):
        return "int"
    if isinstance(value, float) and not isinstance(value, np.generic):
        return "float"
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return "complex"
    return None


@lru_cache(maxsize=4096)
def promote(a: ScalarType, weak_a: bool, b: ScalarType, weak_b: bool) -> tuple[ScalarType, bool]:
    """NumPy 2's promotion of two operands; weak operands are treated as Python literals.

    Returns the common type and whether the result is still weak.

    >>> promote(float32, False, float64, True)
    (float32, False)
    """
    if weak_a == weak_b:
        if a == b:
            return a, weak_a
        if weak_a and a.is_integer and b.is_integer:
            return uint64, True  # literals are int64, or uint64 from 2**63 on
        return _strong(a, b), weak_a
    if weak_b:
        return _with_weak(a, b), False
    return _with_weak(b, a), False


def _with_weak(strong: ScalarType, weak: ScalarType) -> ScalarType:
    if _RANK_OF_KIND[weak.family] <= _RANK_OF_KIND[strong.family]:
        return strong
    if weak.family == "complex" and strong.is_float:
        return complex64 if strong.bits <= 32 else complex128
    return weak if weak == uint64 else DEFAULT_OF_KIND[weak.family]


def _strong(a: ScalarType, b: ScalarType) -> ScalarType:
    if bfloat16 in (a, b):
        other = b if a == bfloat16 else a
        if other.family == "bool" or (other.is_integer and other.bits <= 8) or other == bfloat16:
            return bfloat16
        if other.is_integer:
            return float32 if other.bits <= 16 else float64
        if other == float16:
            return float32
        return other
    return as_type(np.promote_types(a.numpy, b.numpy))


# --- structure of elements -------------------------------------------------------------------


@dataclass(frozen=True)
class Structure:
    """The nesting of an element: a leaf, or a tuple of structures with the class that builds it.

    `cls` is None for a leaf, `tuple`, a named-tuple class or a dataclass otherwise.  The state of a
    loop may also hold a list, a dict with the keys `names`, or a `Constant` (`names` is its value).
    """

    cls: type | None = None
    children: tuple[Structure, ...] = ()
    names: tuple[Any, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return self.cls is None

    @property
    def only_tuples(self) -> bool:
        """Whether it holds no list, dict or constant."""
        return self.cls not in (list, dict, Constant) and all(c.only_tuples for c in self.children)

    @property
    def count(self) -> int:
        return 1 if self.cls is None else sum(c.count for c in self.children)

    def build(self, leaves: Sequence[Any]) -> Any:
        if self.cls is None:
            return leaves[0]
        parts, at = [], 0
        for child in self.children:
            parts.append(child.build(leaves[at : at + child.count]))
            at += child.count
        if self.cls is Constant:
            return self.names[0]
        if self.cls is dict:
            return dict(zip(self.names, parts, strict=True))
        return parts if self.cls is list else composed(self.cls, parts)

    def outline(self) -> str:
        """The nesting as a noun: `one value`, `(a, b)`."""
        if self.is_leaf:
            return "one value"
        letters = [chr(ord("a") + k) if k < 26 else f"a{k}" for k in range(self.count)]
        return str(self.build(letters)).replace("'", "")

    def describe(self, types: Sequence[ScalarType]) -> str:
        return str(self.build([t.name for t in types])).replace("'", "")

    def paths(self, name: str) -> list[str]:
        """The expression that reads each leaf from a value called `name`: `state[0]['w']`."""
        if self.cls is None:
            return [name]
        if self.cls is dict:
            keys: Iterable[str] = (f"[{k!r}]" for k in self.names)
        else:
            fields = fields_of(self.cls) or range(len(self.children))
            keys = (f".{k}" if isinstance(k, str) else f"[{k}]" for k in fields)
        inner = zip(keys, self.children, strict=True)
        return [path for key, child in inner for path in child.paths(name + key)]

    def same_nesting(self, other: Structure) -> bool:
        """Whether the nestings are equal, ignoring classes: `(x, y)` matches `Point(x, y)`."""
        return (
            self.is_leaf == other.is_leaf  # unlike a leaf, None and () have no parts
            and len(self.children) == len(other.children)
            and all(a.same_nesting(b) for a, b in zip(self.children, other.children, strict=True))
        )


LEAF = Structure()


class Constant:
    """The class of a constant in a nesting: None, text, types, functions."""


def tuple_of(children: Sequence[Structure]) -> Structure:
    return Structure(tuple, tuple(children))


def is_composite(value: Any) -> bool:
    """Whether `value` is a tuple, named tuple or dataclass instance (a tuple element)."""
    return isinstance(value, tuple) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type | ScalarType)
    )


def children_of(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return value
    return tuple(getattr(value, f.name) for f in dataclasses.fields(value) if f.init)


def composed(cls: type, parts: Sequence[object]) -> Any:
    """The tuple, named tuple or dataclass with these `children_of` it."""
    make: Callable[..., object] = cls
    if issubclass(cls, tuple) or not dataclasses.is_dataclass(cls):
        return make(*parts) if hasattr(cls, "_fields") else make(parts)
    fields = [f for f in dataclasses.fields(cls) if f.init]
    # The positional parameters of `__init__`: without fields that are only named, with `InitVar`s.
    order = getattr(cls, "__match_args__", [f.name for f in fields if not f.kw_only])
    first = sum(1 for _ in takewhile(lambda p: p[0].name == p[1], zip(fields, order, strict=False)))
    named = {f.name: part for f, part in zip(fields[first:], parts[first:], strict=True)}
    return make(*parts[:first], **named)


def field_names(value: Any) -> tuple[str | None, ...]:
    """The field names of `children_of(value)`; None for elements of a plain tuple."""
    return fields_of(type(value)) or (None,) * len(children_of(value))


def fields_of(cls: type | None) -> tuple[str, ...]:
    """The fields of a named-tuple class or a dataclass; empty for other classes."""
    if cls is not None and dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)
    return getattr(cls, "_fields", ())


def flatten(value: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Structure]:
    """Leaves and structure of a nested value; a leaf satisfies `is_leaf` or is no tuple."""
    if is_leaf(value) or not is_composite(value):
        return [value], LEAF
    leaves: list[Any] = []
    children = []
    for child in children_of(value):
        sub, structure = flatten(child, is_leaf)
        leaves += sub
        children.append(structure)
    return leaves, Structure(type(value), tuple(children))
