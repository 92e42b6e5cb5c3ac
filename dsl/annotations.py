"""Type aliases for annotating the arguments and results of public operations."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    Union,
    overload,
)

import numpy as np

if TYPE_CHECKING:
    from dataclasses import Field

    from .array import Array
    from .scalar import Scalar
    from .schedule import Schedule
    from .types import ScalarType

    class _HasArray(Protocol):
        def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]: ...

    class Dataclass(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    class HasSchedule(Protocol):
        def as_schedule(self) -> Schedule: ...

    class _HasDLPack(Protocol):
        def __dlpack__(self, *_: Any, **__: Any) -> Any: ...

    class _HasCudaArray(Protocol):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]: ...


#: One number: known at trace time, or a value of the program.
ScalarLike: TypeAlias = Union["Scalar", bool, int, float, complex, np.generic]
#: A count, an extent or an index.
IntLike: TypeAlias = Union["Scalar", int, np.integer[Any]]
#: Arrays and scalars of the program, everything accepted by `td.use`, numbers.
ArrayLike: TypeAlias = Union[
    "Array",
    "Scalar",
    bool,
    int,
    float,
    complex,
    np.generic,
    "np.ndarray[Any, Any]",
    "_HasArray",
    "_HasDLPack",
    "_HasCudaArray",
    memoryview,
    "array[Any]",
]
#: The result of element-wise functions: an array for arrays, a scalar for scalars.
Value: TypeAlias = Union["Array", "Scalar"]
#: An element as a user's function takes or returns it, or the state of a loop: a scalar, or tuples,
#: named tuples and dataclasses of scalars; for a loop over arrays, of arrays.
Element: TypeAlias = Any
#: A user's function on elements.
Function: TypeAlias = Callable[..., Element]
#: The index in `a[…]`: NumPy's basic indexing, or an array of integers.
Indexing: TypeAlias = ArrayLike | slice | EllipsisType | tuple[Any, ...] | list[Any] | None
#: The index of a part of an array, which is an array, never an element.
Part: TypeAlias = Union["Array", "np.ndarray[Any, Any]", slice, EllipsisType, list[Any], None]
#: A shape: an extent per axis, or a single extent.
ShapeLike: TypeAlias = IntLike | Sequence[IntLike]
#: One axis or several.
AxisLike: TypeAlias = int | Sequence[int]
#: An element type: of treadle, NumPy or Python, or its name.
DTypeLike: TypeAlias = Union["ScalarType", type, "np.dtype[Any]", str]
#: NumPy's orders of elements: "A" and "K" are "C" for arrays, which have none in memory.
Order: TypeAlias = Literal["C", "F", "A", "K"]
#: What becomes of indices out of range.
IndexMode: TypeAlias = Literal["raise", "wrap", "clip"]
#: A layer (`Column(256)`) or several (`Column(256) | Block(8, 32)`).
ScheduleLike: TypeAlias = Union["Schedule", "HasSchedule"]


#: Arrays, in tuples, lists, dicts and the user's own classes: the results of programs.
Tree: TypeAlias = object
#: An argument of a compiled function: an array, a number, or tuples, lists, dicts, named tuples and
#: dataclasses of them.
Argument: TypeAlias = Union[ArrayLike, Sequence[Any], Mapping[str, Any], "Dataclass"]


class UnaryFunction(Protocol):
    """An element-wise function of one operand."""

    __name__: str
    __qualname__: str

    @overload
    def __call__(self, x: ScalarLike, *, name: str | None = None) -> Scalar: ...
    @overload
    def __call__(
        self,
        x: Array | np.ndarray[Any, Any],
        *,
        name: str | None = None,
        schedule: ScheduleLike | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self, x: ArrayLike, *, name: str | None = None, schedule: ScheduleLike | None = None
    ) -> Value: ...


P = ParamSpec("P")


class LeadingFunction(Protocol[P]):
    """An element-wise function with parameters in addition to its operand."""

    __name__: str

    @overload
    def __call__(self, x: ScalarLike, *args: P.args, **kwargs: P.kwargs) -> Scalar: ...
    @overload
    def __call__(
        self, x: Array | np.ndarray[Any, Any], *args: P.args, **kwargs: P.kwargs
    ) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Value: ...
    @overload
    def __call__(self, x: ArrayLike, *args: Any, name: str, **kwargs: Any) -> Value: ...


class ChoiceFunction(Protocol):
    """`where`: of scalars a scalar, with an array an array; of tuples and indices those."""

    __name__: str

    @overload
    def __call__(
        self, p: ScalarLike, a: ScalarLike, b: ScalarLike, *, name: str | None = None
    ) -> Scalar: ...
    @overload
    def __call__(
        self,
        p: Array | np.ndarray[Any, Any],
        a: ArrayLike,
        b: ArrayLike,
        *,
        name: str | None = None,
        schedule: ScheduleLike | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        p: ArrayLike,
        a: Element,
        b: Element,
        *,
        name: str | None = None,
        schedule: ScheduleLike | None = None,
    ) -> Element: ...


class BinaryFunction(Protocol):
    """An element-wise function of two operands, with broadcasting."""

    __name__: str
    __qualname__: str

    @overload
    def __call__(self, x: ScalarLike, y: ScalarLike, *, name: str | None = None) -> Scalar: ...
    @overload
    def __call__(
        self,
        x: Array | np.ndarray[Any, Any],
        y: ArrayLike,
        *,
        name: str | None = None,
        schedule: ScheduleLike | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        y: Array | np.ndarray[Any, Any],
        *,
        name: str | None = None,
        schedule: ScheduleLike | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        name: str | None = None,
        schedule: ScheduleLike | None = None,
    ) -> Value: ...
