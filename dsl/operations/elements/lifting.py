"""Functions of elements that also take arrays, with broadcasting."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, cast as cast_type

from ... import late_binding as later, types
from ...annotations import BinaryFunction, Element, LeadingFunction, Operand, UnaryFunction, Value
from ...array import Array, broadcast_map
from ...errors import DTypeError
from ...expr import Expr
from ...frontend.sources import as_array, takes_array
from ...frontend.tracing import enclosing_kernel
from ...primitives import TABLE
from ...scalar import COMPARISONS, Scalar, apply_primitive, lift
from ..descriptions import complete


def elementwise(name: str, *operands: Any) -> Any:
    """Apply the primitive `name`: an Array if any operand is an array, otherwise a Scalar.  Tuples
    are compared lexicographically."""
    if name in COMPARISONS:
        if any(map(_has_components, operands)) and not any(map(_is_of_numbers, operands)):
            return _lexicographic(name, *operands)
        x, y = operands
        operands = _comparable(x, y, name), _comparable(y, x, name)
    return lifted(lambda values: apply_primitive(name, values), name, operands)


def _comparable(value: Operand, other: Operand, name: str) -> Operand:
    """An integer beyond all integer types as a float that compares with an operand as it does."""
    if type(value) is not int or -(1 << 63) <= value < 1 << 64:
        return value
    kind = other.dtype if isinstance(other, Scalar) else as_array(other, name).types[0]
    try:
        return float(value) if kind.is_inexact else math.inf if value > 0 else -math.inf
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _has_components(value: Any) -> bool:
    return types.is_composite(value) or (isinstance(value, Array) and not value.structure.is_leaf)


def _is_of_numbers(value: object) -> bool:
    """Whether this is an array of numbers: a tuple beside it is another one."""
    return not _has_components(value) and takes_array(value)


def _lexicographic(name: str, x: Element, y: Element) -> Any:
    """A comparison of tuples: by their first components that differ."""
    (left, structure), (right, other) = (
        (later.unzip_flat(v), v.structure)
        if isinstance(v, Array)
        else types.flatten(v, lambda _: False)
        for v in (x, y)
    )
    if not structure.same_nesting(other):
        raise DTypeError(
            f"{name}: tuples of {len(left)} and {len(right)} components do not compare.",
            hint="Both sides have the same nesting; td.unzip(a) takes an array of tuples apart.",
        )
    *before, last = zip(left, right, strict=True)
    if name in ("equal", "not_equal"):
        join = "logical_and" if name == "equal" else "logical_or"
        found = elementwise(name, *last)
        for pair in reversed(before):
            found = elementwise(join, elementwise(name, *pair), found)
        return found
    found, strict = elementwise(name, *last), name.removesuffix("_equal")
    for pair in reversed(before):
        found = elementwise("logical_and", elementwise("equal", *pair), found)
        found = elementwise("logical_or", elementwise(strict, *pair), found)
    return found


def lifted(build: Callable[[list[Expr]], Expr], name: str, operands: tuple[Any, ...]) -> Any:
    arrays = [takes_array(o) for o in operands]
    if any(arrays):
        converted = [as_array(o, name) if a else o for o, a in zip(operands, arrays, strict=True)]
        if enclosing_kernel() is not None and all(
            not isinstance(o, Array) or o.ndim == 0 for o in converted
        ):
            return Scalar(build([lift(o, name) for o in converted]))
        return broadcast_map(lambda values: (build(values),), converted, name)
    return Scalar(build([lift(o, name) for o in operands]))


P = ParamSpec("P")


def leading(function: Callable[Concatenate[Operand, P], Value]) -> LeadingFunction[P]:
    """Annotate a function whose result is an array or a scalar as its first operand is one."""
    complete(function)
    return cast_type("LeadingFunction[P]", function)


def unary(function: Callable[[Any], Any]) -> UnaryFunction:
    """Annotate a function as an element-wise function of one operand."""
    complete(function)
    return cast_type(UnaryFunction, function)


def binary(function: Callable[[Any, Any], Any]) -> BinaryFunction:
    """Annotate a function as an element-wise function of two operands."""
    complete(function)
    return cast_type(BinaryFunction, function)


#: Families of types, as texts name them.
_FAMILIES = {"bool": "booleans", "int": "integers", "uint": "integers", "float": "floats",
             "complex": "complex numbers"}  # fmt: skip
_EXAMPLES = (types.bool_, types.int32, types.uint32, types.float32, types.complex64)


def _documented(name: str, text: str, operands: str, of: str) -> str:
    """The docstring of an element-wise function, of what it does and an example; what it takes and
    gives follows from its rule."""
    doc, example = text.strip().split("\n    >>> ")
    result = f"Result: an array {of}, {_type_of_result(name)}; a scalar without arrays."
    paragraphs = [textwrap.fill(result, 96, subsequent_indent=" " * 8)]
    refused = dict.fromkeys(_FAMILIES[t.family] for t in _EXAMPLES if TABLE[name].rule(t) is None)
    if refused:
        paragraphs.append(f"Errors: `DTypeError` for {', '.join(refused)}.")
    return f"""{doc}

    Parameters
        {operands}

    {(chr(10) + "    ").join(paragraphs)}

    >>> import numpy as np, treadle as td
    >>> {example}
    """


def _type_of_result(name: str) -> str:
    made = {t: ruled[1] for t in types.ALL_TYPES if (ruled := TABLE[name].rule(t)) is not None}
    if set(made.values()) <= {types.bool_, types.int32} and len(set(made.values())) == 1:
        return "of booleans" if types.bool_ in made.values() else "of int32"
    if made.get(types.int32) == types.float64:
        return "of floats (float64 for integers, unless they are small)"
    if types.complex64 in made and made[types.complex64] == types.float32:
        return "of that type (of real numbers for complex ones)"
    return "of that type"


def documented_unary(name: str, text: str) -> UnaryFunction:
    @unary
    def function(x: Operand) -> Value:
        return elementwise(name, x)

    function.__name__ = function.__qualname__ = name
    operand = "x: a number, or an array of any shape."
    function.__doc__ = _documented(name, text, operand, "of the shape of `x`")
    return function


def documented_binary(name: str, text: str) -> BinaryFunction:
    @binary
    def function(x: Operand, y: Operand) -> Value:
        return elementwise(name, x, y)

    return _of_two(function, name, text)


def documented_comparison(name: str, text: str) -> BinaryFunction:
    """`documented_binary` for a function that compares tuples, too."""

    @binary
    def function(x: Element, y: Element) -> Value:
        return elementwise(name, x, y)

    return _of_two(function, name, text)


def _of_two(function: BinaryFunction, name: str, text: str) -> BinaryFunction:
    function.__name__ = function.__qualname__ = name
    operands = "x, y: numbers, or arrays that broadcast; their types are promoted as NumPy's."
    function.__doc__ = _documented(name, text, operands, "of the shape to which they broadcast")
    return function
