"""Arguments of compiled functions: the signature that selects a program, and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl import types
from treadle.dsl.array import Array
from treadle.dsl.errors import DTypeError, TracingError, shown, user_location
from treadle.dsl.expr import Param
from treadle.dsl.frontend.evaluation import value_of_scalar, values_of
from treadle.dsl.frontend.number_lists import as_argument
from treadle.dsl.frontend.refusals import instead_of
from treadle.dsl.frontend.sources import PLAIN_ARRAYS, is_arraylike, is_lazy, normalise_source
from treadle.dsl.graph import Input
from treadle.dsl.scalar import Scalar

from .binding import Value

if TYPE_CHECKING:
    from treadle.dsl.program import TracedProgram


def symbols_in(args: Sequence[Value]) -> list[Array | Scalar]:
    """The arrays and scalars of treadle among arguments, however deep."""
    found: list[Array | Scalar] = []
    for a in args:
        if isinstance(a, Array | Scalar):
            found.append(a)
        elif isinstance(a, tuple | list):
            found += symbols_in(a)
        elif isinstance(a, dict):
            found += symbols_in(list(a.values()))
        elif type(a) not in PLAIN_ARRAYS and types.is_composite(a):
            found += symbols_in(types.children_of(a))
    return found


def valued(args: tuple[Value, ...], symbols: Sequence[Array | Scalar]) -> tuple[Value, ...] | None:
    """The arguments with the values of scalars in their place; None if one of `symbols` in them has
    no value here: a function is traced, and they belong to it."""
    values: dict[int, Value] = {}
    for a in symbols:
        if isinstance(a, Scalar):
            value = value_of_scalar(a._expr)
            if value is None:
                return None
            values[id(a)] = a._expr.type.numpy.type(value)
        elif not a._is_closed():
            return None
    return mapped(args, lambda a: values.get(id(a), a)) if values else args


def mapped(a: Value, leaf: Callable[[Value], Value]) -> Value:
    """The same structure with `leaf` of its arrays and numbers."""
    if isinstance(a, Array | Scalar) or is_arraylike(a):
        return leaf(a)
    if isinstance(a, dict):
        return {k: mapped(v, leaf) for k, v in a.items()}
    if isinstance(a, list):
        return [mapped(v, leaf) for v in a]
    if types.is_composite(a):
        parts = [mapped(v, leaf) for v in types.children_of(a)]
        return types.composed(type(a), parts)
    return leaf(a)


def is_constant(a: Value) -> bool:
    """Whether an argument is a part of the program: text, a member of an enumeration, a type, a
    function, None."""
    return a is None or isinstance(a, str | Enum | np.dtype) or callable(a)


def signature(args: Sequence[Value]) -> tuple[list[Any], Any]:
    """Flat run-time values (arrays and scalars) and the key that selects a program."""
    flat: list[Any] = []
    keys: list[Any] = []
    for a in args:
        if type(a) in PLAIN_ARRAYS:
            flat.append(a)
            shape = a.shape
            keys.append((a.dtype, len(shape), 1 in shape and tuple([n == 1 for n in shape])))
        else:
            keys.append(_key_of(a, flat))
    return flat, tuple(keys)


def _key_of(a: Value, flat: list[Any]) -> Any:
    kind = types.kind_of_literal(a)
    if kind is not None:
        if kind == "int" and not -(1 << 63) <= a < 1 << 63:
            raise DTypeError(
                f"the argument {shown(a)} does not fit in 64 bits, signed.",
                hint="Pass np.uint64(…), or a float.",
            )
        flat.append(a)
        return kind
    if isinstance(a, np.generic):
        flat.append(a)
        return ("scalar", a.dtype)
    if is_arraylike(a):
        source = normalise_source(a)
        flat.append(source)
        ones = tuple(n == 1 for n in source.shape)
        key = (np.dtype(source.dtype), len(ones), any(ones) and ones)
        return (*key, "lazy") if is_lazy(source) else key
    if isinstance(a, list | dict):
        items = a.items() if isinstance(a, dict) else enumerate(a)
        return (type(a), tuple((k, _key_of(v, flat)) for k, v in items))
    if types.is_composite(a):
        return (type(a), tuple(_key_of(v, flat) for v in types.children_of(a)))
    if isinstance(a, Array) and a._is_closed():
        return a.structure, tuple(_key_of(v, flat) for v in values_of(a, "an argument"))
    if isinstance(a, Array | Scalar):
        raise TracingError(
            "a compiled function was called with a value that is not known: it depends on the "
            "arguments of a function that is being traced.",
            hint="Call the plain function inside other functions.",
        )
    if is_constant(a):
        return ("static", a)
    raise TracingError(
        f"a compiled function cannot take an argument of type {type(a).__name__}.",
        hint=instead_of(a) or _ARGUMENTS,
    )


def symbol(a: Value, inputs: list[Input], params: list[Param], name: str) -> Value:
    """The traced symbol for one argument."""
    kind = types.kind_of_literal(a)
    if kind is not None or isinstance(a, np.generic):
        t = types.DEFAULT_OF_KIND[kind] if kind is not None else types.as_type(a.dtype)
        param = Param(name, t, weak=kind is not None and kind != "bool")
        params.append(param)
        return Scalar(param)
    if is_arraylike(a):
        source = normalise_source(a)
        node = Input(
            name,
            types.as_type(source.dtype),
            tuple(n == 1 for n in source.shape),
            kind="argument",
            where=user_location(),
        )
        inputs.append(node)
        return Array(node.leaves, types.LEAF)
    if isinstance(a, Array):  # `signature` has computed it
        parts = [symbol(v, inputs, params, name) for v in values_of(a, "an argument")]
        return Array([leaf for part in parts for leaf in part._leaves], a.structure)
    if isinstance(a, dict):
        return {k: symbol(v, inputs, params, f"{name}[{k!r}]") for k, v in a.items()}
    if isinstance(a, list):
        return as_argument([symbol(v, inputs, params, f"{name}[{k}]") for k, v in enumerate(a)])
    if types.is_composite(a):
        parts = [
            symbol(v, inputs, params, f"{name}.{k}" if k else f"{name}[{position}]")
            for position, (k, v) in enumerate(
                zip(types.field_names(a), types.children_of(a), strict=True)
            )
        ]
        return types.composed(type(a), parts)
    return a


def split_arguments(flat: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Separate arrays and scalars, each in order."""
    data: list[Any] = []
    scalars: list[Any] = []
    for a in flat:
        if type(a) in PLAIN_ARRAYS or (hasattr(a, "shape") and not isinstance(a, np.generic)):
            data.append(a)
        else:
            scalars.append(a)
    return data, scalars


_ARGUMENTS = (
    "Pass arrays (np.asarray(x) makes one), numbers, and tuples, named tuples, dataclasses, lists "
    "or dicts of them.  Put "
    "an object, as the self of a method, into a closure: "
    "self.step = td.jit(lambda a: self.advance(a))."
)


def _arrays_and_numbers(arrays: int, numbers: int) -> str:
    return f"{arrays} array{'s' * (arrays != 1)} and {numbers} number{'s' * (numbers != 1)}"


def in_order(
    names: Sequence[str], args: tuple[Value, ...], kwargs: dict[str, Value]
) -> tuple[Value, ...]:
    """The values of a call of a Program, of which some are given by name."""
    rest = names[len(args) :]
    if set(rest) != set(kwargs):
        raise TracingError(
            f"this program takes {', '.join(rest) or 'nothing'} after {len(args)} values, got "
            f"{', '.join(kwargs)}.",
            hint="Call it with arguments like those that it was lowered for.",
        )
    return (*args, *[kwargs[name] for name in rest])


def bind(program: TracedProgram, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Validate arguments of a Program called directly: ranks and types must be as traced."""
    flat, _ = signature(args)
    data, scalars = split_arguments(flat)
    arguments = program.source_arguments
    if len(data) != len(arguments) or len(scalars) != len(program.params):
        raise TracingError(
            f"this program takes {_arrays_and_numbers(len(arguments), len(program.params))}"
            f", got {_arrays_and_numbers(len(data), len(scalars))}.",
            hint="Call it with arguments like those that it was lowered for.",
        )
    for node, a in zip(arguments, data, strict=True):
        if types.as_type(a.dtype) != node.type or a.ndim != len(node.shape):
            raise TracingError(
                f"{node.name} was traced as {node.type} of rank {len(node.shape)}, got "
                f"{a.dtype} of rank {a.ndim}.",
                hint="Lower the function again for arguments like these.",
            )
    return data, scalars
