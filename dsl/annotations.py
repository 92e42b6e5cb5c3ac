"""Type aliases for annotating the arguments and results of public operations."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
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
        def __array__(self, *_: Any, **__: Any) -> NumPyArray: ...

    class Dataclass(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    class NamedTupleLike(Protocol):
        @property
        def _fields(self) -> tuple[str, ...]: ...

    class HasSchedule(Protocol):
        def as_schedule(self) -> Schedule: ...

    class _HasDLPack(Protocol):
        def __dlpack__(self, *_: Any, **__: Any) -> Any: ...

    class _HasCudaArray(Protocol):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]: ...

    E_co = TypeVar("E_co", covariant=True)

    class Listed(Protocol[E_co]):
        """A list with elements of any subtype; not a tuple or a string."""

        def __iter__(self) -> Iterator[E_co]: ...
        def __len__(self) -> int: ...
        def reverse(self) -> None: ...


NumPyArray: TypeAlias = "np.ndarray[Any, Any]"
#: One number: known at trace time, or a value of the program.
ScalarLike: TypeAlias = Union["Scalar", bool, int, float, complex, np.generic]
#: A count, an extent or an index.
IntLike: TypeAlias = Union["Scalar", int, np.integer[Any]]
#: An operand of element-wise functions: arrays and scalars of the program, and everything that
#: `td.use` converts to an array of numbers.  (They accept tuples of numbers, too, but comparisons
#: and `where` treat a tuple as one element.)
Operand: TypeAlias = Union[
    "Array",
    "Scalar",
    bool,
    int,
    float,
    complex,
    np.generic,
    NumPyArray,
    "_HasArray",
    "_HasDLPack",
    "_HasCudaArray",
    memoryview,
    "array[Any]",
    "Rows",
]
#: Operands of array operations: also tuples of numbers.
ArrayLike: TypeAlias = Union[Operand, "_Tuple"]
_Tuple: TypeAlias = "tuple[bool | int | float | complex | np.generic | Rows | _Tuple, ...]"
#: Numbers, and NumPy arrays, in lists.
Rows: TypeAlias = Union[
    "Listed[bool | int | float | complex | np.generic | NumPyArray | Rows | _Tuple]", range
]
#: The result of element-wise functions: an array for arrays, a scalar for scalars.
Value: TypeAlias = Union["Array", "Scalar"]
#: An element as a user's function takes or returns it, or the state of a loop: a scalar, or tuples,
#: named tuples and dataclasses of scalars; for a loop over arrays, of arrays.
Element: TypeAlias = Any
#: A user's function on elements.
Function: TypeAlias = Callable[..., Element]
#: Functions of one and of two elements, so that the parameters of a lambda are typed.
Function1: TypeAlias = Callable[[Element], Element]
Function2: TypeAlias = Callable[[Element, Element], Element]
#: A function of one element per array or axis, at most eight.
FunctionN: TypeAlias = (
    Callable[[], Element]
    | Function1
    | Function2
    | Callable[[Element, Element, Element], Element]
    | Callable[[Element, Element, Element, Element], Element]
    | Callable[[Element, Element, Element, Element, Element], Element]
    | Callable[[Element, Element, Element, Element, Element, Element], Element]
    | Callable[[Element, Element, Element, Element, Element, Element, Element], Element]
    | Callable[[Element, Element, Element, Element, Element, Element, Element, Element], Element]
)
#: The index in `a[…]`: NumPy's basic indexing, or an array of integers.
Indexing: TypeAlias = ArrayLike | slice | EllipsisType | tuple[Any, ...] | list[Any] | None
#: The index of a part of an array, which is an array, never an element.
Part: TypeAlias = Union["Array", NumPyArray, slice, EllipsisType, list[Any], None]
#: A shape: an extent per axis, or a single extent.
ShapeLike: TypeAlias = IntLike | Sequence[IntLike]
#: One axis or several.
AxisLike: TypeAlias = int | Sequence[int]
#: An element type: of treadle, NumPy or Python, or its name.
DTypeLike: TypeAlias = Union["ScalarType", type, "np.dtype[Any]", str]
#: NumPy's orders of elements: "A" and "K" mean "C", as the arrays have no order in memory.
Order: TypeAlias = Literal["C", "F", "A", "K"]
#: The treatment of indices out of range.
IndexMode: TypeAlias = Literal["raise", "wrap", "clip"]
#: A layer (`Column(256)`) or several (`Column(256) | Block(8, 32)`).
ScheduleLike: TypeAlias = Union["Schedule", "HasSchedule"]


#: Arrays, in tuples, lists, dicts and the user's own classes: the results of programs.
Tree: TypeAlias = object
#: An argument of a compiled function: an array, a number, or tuples, lists, dicts, named tuples and
#: dataclasses of them.
Argument: TypeAlias = Union[ArrayLike, Sequence[Any], Mapping[str, Any], "Dataclass"]


class Options(TypedDict, total=False):
    """Keyword arguments of operations."""

    name: str | None
    schedule: ScheduleLike | None


class ScanOptions(Options, total=False):
    """Keyword arguments of `scan`."""

    axis: int
    reverse: bool
    length: IntLike | None


class UnaryFunction(Protocol):
    """An element-wise function of one operand."""

    __name__: str
    __qualname__: str

    @overload
    def __call__(self, x: ScalarLike, *, name: str | None = None) -> Scalar: ...
    @overload
    def __call__(self, x: Array | NumPyArray | Rows, **options: Unpack[Options]) -> Array: ...
    @overload
    def __call__(self, x: Operand, **options: Unpack[Options]) -> Value: ...


P = ParamSpec("P")


class LeadingFunction(Protocol[P]):
    """An element-wise function with parameters in addition to its operand."""

    __name__: str

    @overload
    def __call__(self, x: ScalarLike, *args: P.args, **kwargs: P.kwargs) -> Scalar: ...
    @overload
    def __call__(
        self, x: Array | NumPyArray | Rows, *args: P.args, **kwargs: P.kwargs
    ) -> Array: ...
    @overload
    def __call__(self, x: Operand, *args: P.args, **kwargs: P.kwargs) -> Value: ...
    @overload
    def __call__(self, x: Operand, *args: Any, name: str, **kwargs: Any) -> Value: ...


class ChoiceFunction(Protocol):
    """`where`: a scalar for scalars, an array if an operand is one; tuples and indices likewise."""

    __name__: str

    @overload
    def __call__(
        self, p: ScalarLike, a: ScalarLike, b: ScalarLike, *, name: str | None = None
    ) -> Scalar: ...
    @overload
    def __call__(
        self, p: Array | NumPyArray | Rows, a: Operand, b: Operand, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(
        self, p: Operand, a: Element, b: Element, **options: Unpack[Options]
    ) -> Element: ...


class BinaryFunction(Protocol):
    """An element-wise function of two operands, with broadcasting."""

    __name__: str
    __qualname__: str

    @overload
    def __call__(self, x: ScalarLike, y: ScalarLike, *, name: str | None = None) -> Scalar: ...
    @overload
    def __call__(
        self, x: Array | NumPyArray | Rows, y: Operand, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(
        self, x: Operand, y: Array | NumPyArray | Rows, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(self, x: Operand, y: Operand, **options: Unpack[Options]) -> Value: ...


#: A loop state whose type the loop preserves: an array, or a class of arrays and numbers.  (Numbers
#: become scalars or arrays, as do those in plain tuples, lists and dicts.)
State = TypeVar("State", bound="Array | Dataclass | NamedTupleLike")


class WhileFunction(Protocol):
    """`while_loop`: the last state has the type of the first one."""

    __name__: str

    @overload
    def __call__(
        self, pred: Function1, body: Function1, init: State, **options: Unpack[Options]
    ) -> State: ...
    @overload
    def __call__(
        self, pred: Function1, body: Function1, init: NumPyArray, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(
        self, pred: Function1, body: Function1, init: Element, **options: Unpack[Options]
    ) -> Element: ...


class IterateFunction(Protocol):
    """`iterate`: the last state has the type of the first one."""

    __name__: str

    @overload
    def __call__(
        self, n: IntLike, f: Function1, init: State, **options: Unpack[Options]
    ) -> State: ...
    @overload
    def __call__(
        self, n: IntLike, f: Function1, init: NumPyArray, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(
        self, n: IntLike, f: Function1, init: Element, **options: Unpack[Options]
    ) -> Element: ...


class LoopFunction(Protocol):
    """`loop`, also between two bounds."""

    __name__: str

    @overload
    def __call__(
        self, n: IntLike, f: Function2, init: State, **options: Unpack[Options]
    ) -> State: ...
    @overload
    def __call__(
        self, n: IntLike, f: Function2, init: NumPyArray, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(
        self, n: IntLike, f: Function2, init: Element, **options: Unpack[Options]
    ) -> Element: ...
    @overload
    def __call__(
        self, start: IntLike, stop: IntLike, f: Function2, init: State, **options: Unpack[Options]
    ) -> State: ...
    @overload
    def __call__(
        self,
        start: IntLike,
        stop: IntLike,
        f: Function2,
        init: NumPyArray,
        **options: Unpack[Options],
    ) -> Array: ...
    @overload
    def __call__(
        self, start: IntLike, stop: IntLike, f: Function2, init: Element, **options: Unpack[Options]
    ) -> Element: ...


class ScanFunction(Protocol):
    """`scan`: the last state has the type of the first one."""

    __name__: str

    @overload
    def __call__(
        self, f: Function2, init: State, xs: Element = None, **options: Unpack[ScanOptions]
    ) -> tuple[State, Element]: ...
    @overload
    def __call__(
        self, f: Function2, init: NumPyArray, xs: Element = None, **options: Unpack[ScanOptions]
    ) -> tuple[Array, Element]: ...
    @overload
    def __call__(
        self, f: Function2, init: Element, xs: Element = None, **options: Unpack[ScanOptions]
    ) -> tuple[Element, Element]: ...


R_co = TypeVar("R_co", covariant=True)


class Derivative(Protocol[P, R_co]):
    """The result of `grad`: a function with the parameters of `f`, for arrays and for data."""

    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Argument, **kwargs: Argument) -> Element: ...
