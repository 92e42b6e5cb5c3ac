"""Refusing values that have no place where they were given: what they are called, and what is
written instead."""

from __future__ import annotations

import inspect
import numbers
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from . import later
from .errors import Location, TracingError, TreadleError, form_of, is_users

T = TypeVar("T")

SPARSE = (
    "Give the arrays of its rows, m = m.tocsr(): m.data, m.indices and np.diff(m.indptr) are what "
    "td.fold_seg takes; or m.toarray()."
)
_EQUALITIES = ("equal", "not_equal")
_VOWELS = tuple("aeiouAEIOU")


def called(value: object) -> str:
    """What a value is called in a sentence: `None`, `a list`, `the class Model`, `a function`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    wrapped = isinstance(value, staticmethod | classmethod)
    kind = "function" if inspect.isroutine(value) and not wrapped else type(value).__name__
    return f"{'an' if kind.startswith(_VOWELS) else 'a'} {kind}"


def instead_of(value: object) -> str | None:
    """How an array, or a number, is made of what is neither; None where nobody knows."""
    if hasattr(value, "tocsr"):
        return SPARSE
    if isinstance(value, list | tuple):
        if any(isinstance(x, later.Array) for x in value):
            if len({getattr(x, "ndim", 0) for x in value}) == 1:
                return "td.stack([a, b]) makes one array of several."
            return "Take it apart: values, count = …, as td.filter and td.compact return them."
        if any(isinstance(x, later.Scalar) for x in value):
            return f"It stays {called(value)} of its parts: give one array, f(np.array(x))."
        return "np.array(x) makes an array of it."
    if isinstance(value, str | bytes | bytearray):
        return "Text is compared in Python, before the call; numbers stand for words in arrays."
    if isinstance(value, range):
        return "td.arange(start, stop, step) is the array of these numbers."
    if isinstance(value, Mapping):
        return "Take one of its values: x['name']."
    if inspect.iscoroutine(value):
        return "It has its result when it is awaited: write def instead of async def."
    if isinstance(value, Collection | Iterator):
        return "np.array(list(x)) makes an array of it."
    if isinstance(value, numbers.Number):
        return "Convert it: float(x)."
    return "Call it: f(x)." if callable(value) else None


#: … where the value says nothing about it.
_ANY_ARRAY = "Pass a NumPy array (np.array(x) makes one), anything with DLPack, or a td.Array."


def no_array(value: object, operation: str) -> TracingError:
    """The error of an operation on arrays that was given something else."""
    return TracingError(
        f"{operation} needs an array, got {type(value).__name__}.",
        hint=form_of(operation) if inspect.isroutine(value) else instead_of(value) or _ANY_ARRAY,
    )


def no_operand(value: object, operation: str) -> TracingError:
    """The error of arithmetic with what is no number, and no array."""
    hint = instead_of(value) or _ANY_ARRAY
    if value is None:
        hint = "Did a function forget to return it?"
        if operation in _EQUALITIES:
            hint = f"Write x is {'not ' * (operation == 'not_equal')}None."
    elif inspect.isroutine(value):
        form = form_of(operation)
        hint = hint if form.startswith("Check") else form
    return TracingError(
        f"{operation} cannot use a value of type {type(value).__name__}.", hint=hint
    )


def returned(value: object, whose: str, wanted: str) -> TracingError:
    """The error of a user's function, called `whose`, that returned none of what is `wanted`."""
    said = f"{whose} returned {called(value)}."
    if value is None:
        hint = f"Did you forget `return`?  It must return {wanted}."
    elif inspect.isgenerator(value) or inspect.isasyncgen(value):
        said = f"{whose} is a generator: it has a `yield`."
        hint = f"Write return instead of yield.  It must return {wanted}."
    elif inspect.iscoroutine(value):
        value.close()  # nobody will await it
        said = f"{whose} is asynchronous: its result is there when it is awaited."
        hint = "Write def instead of async def."
    elif isinstance(value, str):
        hint = "A value that is not known yet has no text: give the value itself."
    elif isinstance(value, type) or inspect.isroutine(value):
        hint = "Call it: what it returns has values."
    elif isinstance(value, tuple):
        said = f"{whose} returned an empty tuple."
        hint = f"Return {wanted}."
    elif isinstance(value, Iterator):
        hint = "Return a tuple: tuple(x)."
    elif isinstance(value, list | dict | set) and "list" not in wanted:
        hint = f"Return {wanted}: write (x, y) instead of [x, y]."
    else:
        hint = "Call it: what it returns has values." if callable(value) else f"Return {wanted}."
    return TracingError(said, hint=hint)


def of_structure(error: TypeError, arguments: Sequence[object]) -> TypeError:
    """What `error` is for a user whose function computed with a list, a tuple or a dict among its
    arguments as if it were an array or a number; all others as they are."""
    if isinstance(error, TreadleError):
        return error
    for argument in arguments:
        kind = type(argument).__name__
        if not isinstance(argument, list | tuple | dict) or not re.search(
            rf"\b{kind}\b", f"{error}"
        ):
            continue
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if place is None or not is_users(place.tb_frame):
            return error
        hint = instead_of(argument)
        if isinstance(argument, tuple):
            hint = "x, y = p takes it apart: its parts are numbers or arrays."
        return TracingError(
            f"an argument that is {called(argument)} is no array: {error}.",
            hint=hint,
            where=Location(place.tb_frame.f_code, place.tb_lasti, place.tb_lineno),
        )
    return error


#: What makes another array where a user of NumPy sets an attribute.
_INSTEAD_OF_SETTING = {
    "shape": "a = td.reshape(a, shape)",
    "dtype": "a = a.astype(dtype)",
    "real": "a = td.complex_(new, a.imag)",
    "imag": "a = td.complex_(a.real, new)",
}


def _refusing(name: str) -> Callable[..., None]:
    def refuse(self: object, *_: object) -> None:
        instead = _INSTEAD_OF_SETTING.get(name, "a = td.map(f, a), or whatever computes it")
        raise TracingError(
            f"{name} cannot be set: arrays and scalars never change.",
            hint=f"Make a new one: {instead}.",
        )

    return refuse


def never_set(cls: type[T]) -> type[T]:
    """The same class, whose properties say what to write instead of setting them."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, property):
            refuse = _refusing(name)
            setattr(cls, name, property(value.fget, refuse, refuse, value.__doc__))
    return cls
