"""The operators and attributes that scalars and arrays share."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import later
from .errors import TracingError, no_attribute, user_facing_methods
from .evaluator import public
from .refusals import never_set, no_operand
from .tracing import enclosing_kernel
from .types import bool_, kind_of_literal

#: The method by which the class of a right operand computes, where it is not `__r…__`.
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


@never_set
@user_facing_methods
class Operators:
    """The operators shared by scalars and arrays; `_binary` builds the result."""

    __slots__ = ()
    # What stands on the left of an array leaves the operation to us: NumPy's arrays, pandas'.
    __array_priority__ = 1000
    __pandas_priority__ = 10_000

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Any:
        if not _is_operand(other):
            return self._beside(name, other, swapped)
        if name == "multiply" and isinstance(other, np.matrix):
            raise TracingError(
                "* of a np.matrix is its matrix product, of an array that of elements.",
                hint="Say which: a @ np.asarray(m), or a * np.asarray(m).",
            )
        return (
            later.elementwise(name, other, self)
            if swapped
            else later.elementwise(name, self, other)
        )

    def _beside(self, name: str, other: Any, swapped: bool) -> Any:
        """What the class of `other`, which is no number and no array, makes of the operation."""
        if name == "multiply" and self._repeats and isinstance(other, str | bytes | list | tuple):
            return NotImplemented  # [0] * n
        if not swapped and not isinstance(other, type):
            compute = getattr(type(other), _REFLECTED[name], None)
            made = NotImplemented if compute is None else compute(other, self)
            if made is not NotImplemented:
                return made
        raise no_operand(other, name)

    #: Whether a sequence times this value is a sequence repeated so often.
    _repeats = True

    def _unary(self, name: str) -> Any:
        return later.elementwise(name, self)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("subtract", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("multiply", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("true_divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("true_divide", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floor_divide", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("remainder", other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("remainder", other, True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return NotImplemented
        return (
            later.power(self, other) if _is_operand(other) else self._beside("power", other, False)
        )

    def __rpow__(self, other: Any) -> Any:
        return (
            later.power(other, self) if _is_operand(other) else self._beside("power", other, True)
        )

    def __matmul__(self, other: Any) -> Any:
        return later.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return later.matmul(other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._binary("left_shift", other)

    def __rlshift__(self, other: Any) -> Any:
        return self._binary("left_shift", other, True)

    def __rshift__(self, other: Any) -> Any:
        return self._binary("right_shift", other)

    def __rrshift__(self, other: Any) -> Any:
        return self._binary("right_shift", other, True)

    def __and__(self, other: Any) -> Any:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: Any) -> Any:
        return self._binary("bitwise_and", other, True)

    def __or__(self, other: Any) -> Any:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: Any) -> Any:
        return self._binary("bitwise_or", other, True)

    def __xor__(self, other: Any) -> Any:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: Any) -> Any:
        return self._binary("bitwise_xor", other, True)

    def __eq__(self, other: object) -> Any:
        return self._binary("equal", other)

    def __ne__(self, other: object) -> Any:
        return self._binary("not_equal", other)

    def __lt__(self, other: Any) -> Any:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Any:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self._binary("greater_equal", other)

    def __neg__(self) -> Any:
        return self._unary("negative")

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._unary("absolute")

    def __invert__(self) -> Any:
        return self._unary("invert")

    def __round__(self, digits: int = 0) -> Any:
        return later.round(self, digits)

    def astype(self, dtype: Any) -> Any:
        return later.cast(self, dtype)

    def round(self, decimals: int = 0) -> Any:
        return later.round(self, decimals)

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return later.clip(self, low, high)

    @property
    def real(self) -> Any:
        return self._unary("real")

    @property
    def imag(self) -> Any:
        return self._unary("imag")

    def conj(self) -> Any:
        return self._unary("conjugate")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """np.sin(x) on a traced value is td.sin(x)."""
        from . import elsewhere

        if ufunc.__name__ == "matmul" and method == "__call__" and not kwargs:
            return later.matmul(*inputs)
        name = {"divide": "true_divide"}.get(ufunc.__name__, ufunc.__name__)
        target = getattr(later.functions, name, None)
        if method != "__call__" or kwargs or target is None:
            what, hint = elsewhere.no_ufunc(ufunc.__name__, method, kwargs, self._is_closed())
            raise TracingError(f"{what} does not work on a traced value.", hint=hint)
        return target(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """np.sum(a) is td.sum(a); what td lacks is refused with advice."""
        from . import elsewhere

        name = function.__name__
        if name in ("shape", "ndim", "size") and args[0] is self and not args[1:]:
            return getattr(self, name)
        target = public(name)
        if target is None:
            raise TracingError(
                f"{function.__module__.replace('numpy', 'np', 1)}.{name} does not work on a "
                "traced value, and td has no such function.",
                hint=elsewhere.of_numpy(name, self._is_closed()),
            )
        return target(*args, **kwargs)

    def _is_closed(self) -> bool:
        """Whether it can be computed here and now."""
        return False

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self._unchanged(index, "td.scatter(a, indices, values)")

    def __delitem__(self, index: Any) -> None:
        raise self._unchanged(index, "td.concatenate([a[:k], a[k + 1:]])")

    def _unchanged(self, index: Any, instead: str) -> TracingError:
        outer = enclosing_kernel()
        if getattr(index, "dtype", None) == bool_:
            instead = "td.where(mask, value, a)"
        elif isinstance(index, slice):
            instead = "td.concatenate([a[:k], new, a[m:]])"
        hint = f"Make a new one: a = {instead}."
        if outer is not None:
            hint = (
                f"Return what the element is to be, from the function of {outer[0]}: it computes "
                "one of the elements of a new array."
            )
        return TracingError("arrays are never changed in place.", hint=hint)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: Any) -> Any:
        return self


def missing_attribute(value: Operators, name: str) -> AttributeError:
    """The error of an attribute that arrays, or scalars, have not."""
    from . import elsewhere

    kind = type(value).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    instead = elsewhere.METHODS.get(name) or elsewhere.INSTEAD.get(name)
    ours = not name.startswith("_") and callable(public(name))
    if isinstance(value, later.Scalar):
        if name in later.functions.__all__:
            said = f"a scalar has no {name!r}: write td.{name}(x)."
        elif ours or instead or (name[:1] != "_" and hasattr(public("Array"), name)):
            said = (
                f"a scalar has no {name!r}: it is one value, not known while a program is traced."
            )
    elif instead is not None:
        if instead.startswith(elsewhere.RUN) and not value._is_closed():
            instead = "its values are not known while a program is traced"
        said = f"an Array has no {name!r}: {instead}."
    elif ours:
        said = f"an Array has no method {name!r}: write td.{name}(a, …)."
    return no_attribute(said, name)


def _is_operand(value: Any) -> bool:
    return (
        isinstance(value, later.Scalar | later.Array | np.generic)
        or kind_of_literal(value) is not None
        or later.is_arraylike(value)
    )
