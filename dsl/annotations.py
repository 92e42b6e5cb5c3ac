"""The types of what users give to operations, for annotations."""

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


#: A number that is known while a program is traced.
Number: TypeAlias = bool | int | float | complex | np.generic
#: One number: known, or a value of the program.
ScalarLike: TypeAlias = Union["Scalar", bool, int, float, complex, np.generic]
#: A count, an extent or an index.
IntLike: TypeAlias = Union["Scalar", int, np.integer[Any]]
#: What `td.use` takes, arrays and scalars of the program, numbers.
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
#: What operations without a function of the elements return: arrays of arrays, scalars of scalars.
Value: TypeAlias = Union["Array", "Scalar"]
#: An element as a user's function takes or returns it, or the state of a loop: a scalar, or tuples,
#: named tuples and dataclasses of such; for a loop over arrays, of arrays.
Element: TypeAlias = Any
#: A user's function of elements.
Function: TypeAlias = Callable[..., Element]
#: What stands in the brackets of an array: NumPy's basic indexing, or an array of integers.
Indexing: TypeAlias = ArrayLike | slice | EllipsisType | tuple[Any, ...] | list[Any] | None
#: A shape: an extent for each axis, or the only one.
ShapeLike: TypeAlias = IntLike | Sequence[IntLike]
#: One axis or several.
AxisLike: TypeAlias = int | Sequence[int]
#: An element type: treadle's, NumPy's or Python's, or the name of one.
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
    """An element-wise function of two operands, which broadcast."""

    __name__: str

    @overload
    def __call__(self, x: ScalarLike, y: ScalarLike) -> Scalar: ...
    @overload
    def __call__(self, x: Array | np.ndarray[Any, Any], y: ArrayLike) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike, y: Array | np.ndarray[Any, Any]) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike, y: ArrayLike) -> Value: ...
