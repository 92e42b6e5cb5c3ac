"""Operators and attributes shared by scalars and arrays."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

import numpy as np

from .. import errors, late_binding as later
from ..evaluator import public
from ..types import fields_of, is_composite, kind_of_literal
from . import suggestions
from .refusals import functional_update, never_set, no_operand
from .standard import require_order
from .tracing import enclosing_kernel

if TYPE_CHECKING:
    from ..annotations import ArrayLike, DTypeLike, NumPyArray, Operand, Order, Rows
    from ..array import Array

#: The result type of an operation without array operands: the class itself.
V = TypeVar("V", bound="Operators[Any]")
W = TypeVar("W", covariant=True)


class Operator(Protocol[W]):
    """A binary operator, bound to its left operand."""

    @overload
    def __call__(self, other: Array | NumPyArray | Rows, /) -> Array: ...
    @overload
    def __call__(self, other: Operand, /) -> W: ...


#: The method of a right operand's class for an operation, where it is not `__r…__`.
_REFLECTED = {
    "equal": "__eq__",
    "not_equal": "__ne__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "true_divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
    "multiply": "__rmul__",
    "subtract": "__rsub__",
    "add": "__radd__",
}


def _operators(name: str) -> tuple[Callable[[Any, object], Any], Callable[[Any, object], Any]]:
    """The operator of an element-wise function, and its reflected form."""

    def operator(self: Operators[Any], other: object) -> Any:
        return self._binary(name, other)

    def reflected(self: Operators[Any], other: object) -> Any:
        return self._binary(name, other, True)

    return operator, reflected


#: `inspect.signature` takes longer than the call of an operation whose program is cached.
_signature = lru_cache(maxsize=256)(inspect.signature)
#: How parameters are annotated that take arrays.
_OF_ARRAYS = ("ArrayLike", "Operand")


def _takes(
    function: Callable[..., Any], args: Sequence[object], words: Mapping[str, object]
) -> bool:
    """Whether a function of td has these parameters, and takes these arguments as arrays: NumPy
    makes arrays of objects from None and texts, stacks lists of arrays, and knows bins="auto"."""
    parameters = _signature(function).parameters
    if not set(words) <= set(parameters):
        return False
    ordered = list(parameters.values())
    given = [(ordered[min(k, len(ordered) - 1)], a) for k, a in enumerate(args)]
    given += [(parameters[word], a) for word, a in words.items()]
    return not any(
        (isinstance(a, str) and any(word in of.annotation for word in _OF_ARRAYS))
        or (of.annotation in _OF_ARRAYS and (a is None or (type(a) is list and _has_arrays(a))))
        for of, a in given
    )


def _of_class(cls: type, name: str) -> Callable[[object, object], object] | None:
    """A method of a class; not one of its metaclass, as `int | str` calls."""
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)


def _has_arrays(values: Sequence[Any]) -> bool:
    return any(isinstance(x, later.Array) for x in values)


@never_set
@errors.user_facing_methods
class Operators(Generic[V]):
    """Operators shared by scalars and arrays; `_binary` builds the result: a `V`, or an array if
    the other operand is one."""

    __slots__ = ()
    # Make NumPy arrays and pandas objects on the left defer to our operators.
    __array_priority__ = 1000
    __pandas_priority__ = 10_000

    def _binary(self, name: str, other: object, swapped: bool = False) -> Any:
        tuples = isinstance(self, later.Array) and not self.structure.is_leaf
        if not (_is_operand(other) or (tuples and is_composite(other))):
            return self._with_other(name, other, swapped)
        if name == "multiply" and isinstance(other, np.matrix):
            raise errors.TracingError(
                "* is the matrix product for np.matrix, but element-wise for arrays.",
                hint="Write a @ np.asarray(m), or a * np.asarray(m).",
            )
        return self._elementwise(name, other, swapped)

    def _elementwise(self, name: str, other: object, swapped: bool) -> Any:
        compute: Callable[..., Any] = (
            later.power if name == "power" else partial(later.elementwise, name)
        )
        return compute(other, self) if swapped else compute(self, other)

    def _with_other(self, name: str, other: object, swapped: bool) -> Any:
        """An operation with an object that is neither a number nor an array: its class decides, or
        it is an array of numbers."""
        repeats = name == "multiply" and isinstance(other, str | bytes | list | tuple)
        if repeats and self._repeats:
            return NotImplemented  # [0] * n
        if not (swapped or repeats or isinstance(other, type)):
            compute = _of_class(type(other), _REFLECTED[name])
            made = NotImplemented if compute is None else compute(other, self)
            if made is not NotImplemented:
                return made
        count = isinstance(self, later.Array) and not self.ndim and self.types[0].is_integer
        if repeats and count:
            raise errors.TracingError(
                f"* with a {type(other).__name__} repeats it in Python, or multiplies an array.",
                hint="Write [0] * int(n) to repeat, td.array(x) * n to multiply.",
            )
        if later.is_rows(other):
            return self._elementwise(name, other, swapped)
        raise no_operand(other, name)

    #: Whether multiplying a sequence by this value repeats the sequence.
    _repeats = True

    def _unary(self, name: str) -> V:
        made: V = later.elementwise(name, self)
        return made

    if TYPE_CHECKING:
        __add__: Operator[V]
        __radd__: Operator[V]
        __sub__: Operator[V]
        __rsub__: Operator[V]
        __mul__: Operator[V]
        __rmul__: Operator[V]
        __truediv__: Operator[V]
        __rtruediv__: Operator[V]
        __floordiv__: Operator[V]
        __rfloordiv__: Operator[V]
        __mod__: Operator[V]
        __rmod__: Operator[V]
        __lshift__: Operator[V]
        __rlshift__: Operator[V]
        __rshift__: Operator[V]
        __rrshift__: Operator[V]
        __and__: Operator[V]
        __rand__: Operator[V]
        __or__: Operator[V]
        __ror__: Operator[V]
        __xor__: Operator[V]
        __rxor__: Operator[V]
        __lt__: Operator[V]
        __le__: Operator[V]
        __gt__: Operator[V]
        __ge__: Operator[V]
    else:
        __add__, __radd__ = _operators("add")
        __sub__, __rsub__ = _operators("subtract")
        __mul__, __rmul__ = _operators("multiply")
        __truediv__, __rtruediv__ = _operators("true_divide")
        __floordiv__, __rfloordiv__ = _operators("floor_divide")
        __mod__, __rmod__ = _operators("remainder")
        __lshift__, __rlshift__ = _operators("left_shift")
        __rshift__, __rrshift__ = _operators("right_shift")
        __and__, __rand__ = _operators("bitwise_and")
        __or__, __ror__ = _operators("bitwise_or")
        __xor__, __rxor__ = _operators("bitwise_xor")
        __lt__ = _operators("less")[0]
        __le__ = _operators("less_equal")[0]
        __gt__ = _operators("greater")[0]
        __ge__ = _operators("greater_equal")[0]

    def __eq__(self, other: object) -> V:  # type: ignore[override]
        made: V = self._binary("equal", other)
        return made

    def __ne__(self, other: object) -> V:  # type: ignore[override]
        made: V = self._binary("not_equal", other)
        return made

    def __divmod__(self, other: Operand) -> tuple[Array | V, Array | V]:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> tuple[Array | V, Array | V]:
        return self.__rfloordiv__(other), self.__rmod__(other)

    @overload
    def __pow__(self, other: Array | NumPyArray | Rows, modulus: object = None) -> Array: ...
    @overload
    def __pow__(self, other: Operand, modulus: object = None) -> V: ...
    def __pow__(self, other: Operand, modulus: object = None) -> Any:
        return NotImplemented if modulus is not None else self._binary("power", other)

    def __rpow__(self, other: Operand) -> V:
        made: V = self._binary("power", other, True)
        return made

    def __matmul__(self: Any, other: ArrayLike) -> Array:
        return later.matmul(self, other)

    def __rmatmul__(self: Any, other: ArrayLike) -> Array:
        return later.matmul(other, self)

    def __neg__(self) -> V:
        return self._unary("negative")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> V:
        return self._unary("absolute")

    def __invert__(self) -> V:
        return self._unary("invert")

    def __round__(self: Any, digits: int = 0) -> V:
        made: V = later.round(self, digits)
        return made

    @errors.user_facing
    def astype(self: Any, dtype: DTypeLike, order: Order = "K", *, copy: bool = True) -> V:
        """`td.cast`: the same values in another type.

        Parameters
            dtype: the element type: td.float32, np.float32, float, "float32", ….
            order: no effect: an array has no order in memory; default "K".
            copy: no effect: arrays never change; default True.

        Result: an array of the same shape; a scalar of a scalar.

        >>> import treadle as td
        >>> td.iota(3).astype(float)
        Array([0., 1., 2.])
        """
        require_order(order, "astype")
        made: V = later.cast(self, dtype)
        return made

    def round(self: Any, decimals: int = 0) -> V:
        """`td.round`: rounded half to even, to `decimals` places."""
        made: V = later.round(self, decimals)
        return made

    def clip(self: Any, min: Operand | None = None, max: Operand | None = None) -> V:
        """`td.clip`: limited to min … max."""
        made: V = later.clip(self, min, max)
        return made

    def copy(self) -> Self:
        """`td.copy`: the scalar itself, or an array whose data nobody else changes."""
        return self

    @property
    def real(self) -> V:
        """The real part."""
        return self._unary("real")

    @property
    def imag(self) -> V:
        """The imaginary part."""
        return self._unary("imag")

    def conj(self) -> V:
        """`td.conj`: the complex conjugate."""
        return self._unary("conjugate")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """np.sin(x) is td.sin(x); NumPy computes what td lacks if the values are known."""
        target = _same_function(ufunc)
        if method == "at" and isinstance(inputs[0], Operators):
            raise self._changed_by(
                f"np.{ufunc.__name__}.at", suggestions.at_indices(ufunc.__name__)
            )
        if any(isinstance(x, Operators) for x in kwargs.get("out", ())):
            instead = "Leave it out: the result is a new array"
            if target is not None and kwargs.get("where", True) is not True:
                instead = f"Write td.where(mask, td.{target.__name__}(…), other), a new array"
            raise self._changed_by(f"np.{ufunc.__name__} with out=", instead)
        kwargs = _meaningful(kwargs)
        if (method != "__call__" or kwargs or target is None) and self._is_closed():
            return getattr(ufunc, method)(*of_numpy(inputs), **of_numpy(kwargs))
        named = None if target is None else _REDUCING.get(method, {}).get(ufunc.__name__)
        if named is not None:
            return public(named)(*inputs, **{"axis": 0, **kwargs})
        if method == "outer" and target is not None and not kwargs:
            left, right = map(later.as_array, inputs)
            return target(left[(..., *[None] * right.ndim)], right)
        if method != "__call__" or kwargs or target is None:
            what, hint = suggestions.no_ufunc(ufunc, method, kwargs, self._is_closed())
            raise errors.TracingError(f"{what} does not work on a traced value.", hint=hint)
        return target(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """np.sum(a) is td.sum(a).  What td lacks, or does not take, is computed by NumPy if the
        values are known, and else raises an error with advice."""
        name = function.__name__
        if name in ("shape", "ndim", "size") and args[0] is self and not (args[1:] or kwargs):
            return getattr(self, name)
        args, kwargs = _in_words(function, args, kwargs)
        kwargs = _meaningful(kwargs)
        changes = name in _IN_PLACE or (name == "nan_to_num" and kwargs.get("copy") is False)
        if changes and (not self._is_closed() or any(isinstance(x, Operators) for x in args[:1])):
            raise self._changed_by(f"np.{name}", _IN_PLACE.get(name, "Write a = td.nan_to_num(a)"))
        if name == "where" and len(args) == 1 and not kwargs and not self._is_closed():
            raise errors.TracingError(
                "np.where of a condition alone does not work on a traced value: how many elements "
                "it finds is not known.",
                hint="td.nonzero(p) are their indices, td.filter(f, a) and a[p] the elements; "
                "td.where(p, a, b) chooses.",
            )
        if name in _OTHER_EDGES and not all(
            x._is_closed() for x in (*args, *kwargs.values()) if isinstance(x, Operators)
        ):
            return later.with_edges_of_numpy(name, *args, **kwargs)
        converts = name in _CONVERSIONS or (name == "where" and len(args) == 1)
        if changes or name in _OTHER_EDGES or (converts and self._is_closed()):
            return function(*of_numpy(args), **of_numpy(kwargs))
        module = function.__module__.partition(".")[2]
        module = "" if module.startswith("lib.") else module
        # (np.linalg.cond is not td.cond.)
        target = getattr(public(module), name, None) if module else public(name)
        if target is not None and kwargs:
            ours, defaults = _signature(target).parameters, _parameters(function)[1]
            kwargs = {word: x for word, x in kwargs.items() if word in ours or not (
                word in defaults and _is_same(x, defaults[word]))}  # fmt: skip
        if self._is_closed() and not (target and _takes(target, args, kwargs)):
            return function(*of_numpy(args), **of_numpy(kwargs))
        if target is None:
            raise errors.TracingError(
                f"{function.__module__.replace('numpy', 'np', 1)}.{name} does not work on a "
                "traced value, and td has no such function.",
                hint=suggestions.of_numpy(name, self._is_closed(), module),
            )
        return target(*args, **kwargs)

    def _is_closed(self) -> bool:
        """Whether the value can be computed now."""
        return False

    def _changed_by(self, function: str, instead: str) -> errors.TracingError:
        return errors.TracingError(f"{function} changes its argument, and arrays are immutable.",
                            hint=f"{instead.rstrip('.')}.")  # fmt: skip

    if not TYPE_CHECKING:  # a misspelled attribute is an error there

        def __getattr__(self, name: str) -> Any:
            if name in _ASKED:
                what, hint = _ASKED[name]
                raise errors.TracingError(what, hint=hint)
            if name in _MATRICES and isinstance(self, later.Array) and self.ndim == 2:
                if not self._is_closed():
                    raise errors.TracingError(
                        "SciPy's solvers take values, and there are none while a program is "
                        "traced.",
                        hint="td.matvec(a, v) is a product; a solver is a td.while_loop "
                        "(recipes: Iterative solvers).",
                    )
                return partial(np.matmul, _MATRICES[name](np.asarray(self)))
            if name == "__array_struct__":  # NumPy asks each scalar for it, and each array
                raise AttributeError(name)
            raise missing_attribute(self, name)

    def __setitem__(self, index: Any, value: Any) -> None:
        where = errors.user_location()
        raise self._unchanged(
            "td.update(a, index, new); for += a.at[index].add(new)", functional_update(where)
        )

    def __delitem__(self, index: Any) -> None:
        raise self._unchanged("td.concatenate([a[:k], a[k + 1:]])")

    def _unchanged(self, instead: str, statement: str | None = None) -> errors.TracingError:
        outer = enclosing_kernel()
        hint = f"Make a new one: {statement or f'a = {instead}'}."
        if outer is not None:
            hint = (
                f"Return the element's value from the function of {outer[0]}: it computes one "
                "element of a new array.  Updates at computed indices, s[k[i]] += w[i], are one "
                "operation outside: s.at[k].add(w).  A few values of a thread's own are a list of "
                "Python's, [0.0] * 3."
            )
        return errors.TracingError("arrays are immutable.", hint=hint)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, _: object) -> Self:
        return self.copy()


#: What libraries ask of a value that they do not take, and would say less about.
_ASKED = {
    "_numba_type_": (
        "a function that Numba compiled takes values.",
        "f.py_func(x) calls the Python function, which works if it has operators and td's "
        "functions; td.foreign(f, x) calls the compiled one from a kernel; outside of compiled "
        "functions pass td.run(x).",
    ),
    "as_integer_ratio": (
        "the modules statistics and fractions take numbers of Python's.",
        "a.tolist() has those of an array, a.item() is that of one value; td.mean(a), "
        "td.median(a) and td.std(a, ddof=1) compute.",
    ),
}
#: What SciPy's solvers ask of a matrix that is none of NumPy's: its products with a vector.
_MATRICES: dict[str, Callable[[NumPyArray], NumPyArray]] = {
    "matvec": lambda a: a,
    "rmatvec": lambda a: a.conj().T,
}
#: What is written instead of NumPy's functions that change their argument.
_IN_PLACE = {
    "copyto": "Write a = td.where(condition, new, a)",
    "fill_diagonal": "Write a = td.fill_diagonal(a, value)",
    "place": "Write a = td.place(a, mask, values)",
    "put": "Write a = td.put(a, indices, values)",
    "put_along_axis": "Write a = a.at[index].set(values)",
    "putmask": "Write a = td.where(mask, new, a)",
}
#: Functions that make NumPy's arrays of others, as SciPy's optimisers do of what they are given.
_CONVERSIONS = ("atleast_1d", "atleast_2d", "atleast_3d")
#: Methods of NumPy's ufuncs, and the functions that they are for some of these.
_REDUCING = {
    "reduce": {"add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max",
               "logical_and": "all", "logical_or": "any"},
    "accumulate": {"add": "cumsum", "multiply": "cumprod", "minimum": "cummin",
                   "maximum": "cummax"},
}  # fmt: skip
#: Words of NumPy's that change no result, or say no more than the default: sorts are stable, sums
#: of products are ordered, arrays have no layout; and other names of a word.
_SAYS_NOTHING = ("kind", "optimize", "subok", "writeable")
_DEFAULTS: dict[str, tuple[object, ...]] = {
    "out": (None,),
    "like": (None,),
    "order": ("C", "K", "A", None),
}
_RENAMED = {"a_min": "min", "a_max": "max"}
#: Functions of one name with NumPy's that treat edges otherwise.
_OTHER_EDGES = ("convolve", "correlate")


def _in_words(
    function: Callable[..., object], args: Sequence[object], words: Mapping[str, object]
) -> tuple[Sequence[object], dict[str, object]]:
    """The arguments of a function of NumPy's, of which those that have defaults are given by name:
    td's come in another order."""
    order, defaults = _parameters(function)
    first = next((k for k, name in enumerate(order) if name in defaults), len(args))
    return args[:first], {**dict(zip(order[first:], args[first:], strict=False)), **words}


def _parameters(function: Callable[..., object]) -> tuple[list[str], dict[str, object]]:
    """The names of parameters that may be given by position, and the defaults of those that may be
    given by name; none for functions of NumPy's that do not say."""
    try:
        found = _signature(function).parameters.values()
    except ValueError:
        return [], {}
    defaults = {
        p.name: p.default
        for p in found
        if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY
    }
    return [p.name for p in found if p.kind is not p.KEYWORD_ONLY], defaults


def _is_same(value: object, default: object) -> bool:
    """Whether an argument says no more than the default does."""
    plain = isinstance(value, bool | int | float | str) and type(value) is type(default)
    return value is default or (plain and value == default)


def _meaningful(words: Mapping[str, object]) -> dict[str, object]:
    """The keyword arguments of a function of NumPy's without those that say nothing here."""
    return {
        _RENAMED.get(word, word): value
        for word, value in words.items()
        if word not in _SAYS_NOTHING
        and not (word in _DEFAULTS and (value is None or isinstance(value, str))
                 and value in _DEFAULTS[word])
    }  # fmt: skip


def _same_function(ufunc: np.ufunc) -> Callable[..., object] | None:
    """What treadle has for a function of NumPy's or SciPy's; None for other people's, whatever
    they are called."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        found: Callable[..., object] | None = public({"divide": "true_divide"}.get(name, name))
        return found
    special = sys.modules.get("scipy.special")
    return getattr(later.functions, name, None) if getattr(special, name, None) is ufunc else None


def of_numpy(given: Any) -> Any:
    """Arguments with NumPy arrays instead of treadle's."""
    if isinstance(given, later.Array):
        return np.asarray(given)
    if type(given) in (tuple, list):
        return type(given)(map(of_numpy, given))
    return {k: of_numpy(v) for k, v in given.items()} if type(given) is dict else given


#: NumPy's methods that change their array, where td has functions.
_METHODS_IN_PLACE = ("partition", "put", "resize", "sort")


def missing_attribute(value: Operators[Any], name: str) -> AttributeError:
    """The error for an attribute that arrays, or scalars, do not have."""
    kind = type(value).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    instead = suggestions.METHODS.get(name) or suggestions.INSTEAD.get(name)
    ours = not name.startswith("_") and callable(public(name))
    if isinstance(value, later.Scalar):
        if name in later.functions.__all__:
            said = f"a scalar has no {name!r}: write td.{name}(x)."
        elif ours or instead or (name[:1] != "_" and hasattr(public("Array"), name)):
            said = (
                f"a scalar has no {name!r}: it is one value, not known while a program is traced."
            )
            if ours and enclosing_kernel() is not None and _takes(public(name), (), {"axis": -1}):
                said += f"  Of rows, outside of the function: td.{name}(a, axis=-1)."
    elif isinstance(value, later.Array) and name in (fields := fields_of(value.structure.cls)):
        said = f"an Array has no {name!r}, its elements have: {', '.join(fields)} = td.unzip(a)."
    elif instead is not None:
        if instead.startswith(suggestions.RUN) and not value._is_closed():
            instead = "its values are not known while a program is traced"
        said = f"an Array has no {name!r}: {instead}."
    elif ours:
        made = ", which returns a new array" if name in _METHODS_IN_PLACE else ""
        said = f"an Array has no method {name!r}: write td.{name}(a, …){made}."
    elif not name.startswith("_"):
        near = errors.did_you_mean(name, [n for n in dir(type(value)) if n[0] != "_"], least=0.7)
        said = f"an Array has no {name!r}.  {near}".rstrip()
    return errors.no_attribute(said, name)


def _is_operand(value: object) -> bool:
    return (
        isinstance(value, later.Scalar | later.Array | np.generic)
        or kind_of_literal(value) is not None
        or later.is_arraylike(value)
    )
