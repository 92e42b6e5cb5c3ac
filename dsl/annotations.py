"""Type aliases for annotating the arguments and results of public operations."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, overload

import numpy as np

if TYPE_CHECKING:
    from .array import Array
    from .scalar import Scalar
    from .schedule import Schedule
    from .types import ScalarType

    class _HasArray(Protocol):
        def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]: ...

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
#: A shape: an extent per axis, or a single extent.
ShapeLike: TypeAlias = IntLike | Sequence[IntLike]
#: One axis or several.
AxisLike: TypeAlias = int | Sequence[int]
#: An element type: of treadle, NumPy or Python, or its name.
DTypeLike: TypeAlias = Union["ScalarType", type, "np.dtype[Any]", str]
#: A layer (`Column(256)`) or several (`Column(256) | Block(8, 32)`).
ScheduleLike: TypeAlias = "Schedule"


class UnaryFunction(Protocol):
    """An element-wise function of one operand."""

    __name__: str

    @overload
    def __call__(self, x: ScalarLike) -> Scalar: ...
    @overload
    def __call__(self, x: Array | np.ndarray[Any, Any]) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike) -> Value: ...


class BinaryFunction(Protocol):
    """An element-wise function of two operands, with broadcasting."""

    __name__: str

    @overload
    def __call__(self, x: ScalarLike, y: ScalarLike) -> Scalar: ...
    @overload
    def __call__(self, x: Array | np.ndarray[Any, Any], y: ArrayLike) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike, y: Array | np.ndarray[Any, Any]) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike, y: ArrayLike) -> Value: ...
