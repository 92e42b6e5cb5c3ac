"""`Array`: a handle to a collective computation (Accelerate's `Acc`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast as cast_type, overload

import numpy as np

from . import errors, late_binding as later
from .analysis.short_extents import UNPACKED, short_extent
from .evaluator import evaluator, public
from .expr import Const, Expr, Read
from .frontend.operators import Operators
from .frontend.refusals import instead_of_comparing, instead_of_math, never_set
from .frontend.standard import MOST_AXES, current_device, require_device, require_version
from .frontend.tracing import enclosing_kernel, forbid_nesting, is_tracing, refuse_unless_guarded
from .graph import Check, Generate, Input, Label, Leaf, Shape, known
from .html import of_array
from .scalar import HINT_HASH, Scalar, as_index, as_strong, lift
from .shapes import Extent, broadcast_shapes, extents, stretched
from .types import LEAF, ScalarType, Structure

if TYPE_CHECKING:
    from .annotations import (
        ArrayLike,
        AxisLike,
        DTypeLike,
        Indexing,
        NumPyArray,
        Order,
        Part,
        ScalarLike,
        ScheduleLike,
        ShapeLike,
    )
    from .frontend.deferred import Result
    from .operations.indexing.updating import At

#: The hint for unpacking an array of tuples.
APART = "To take the tuples apart write x, y = td.unzip(a)."


@never_set
@errors.user_facing_methods
class Array(Operators["Array"]):
    """An array: an expression of other arrays and data, computed when its value is needed.

    `shape` contains an int for each constant extent and a scalar for the others; elements are
    scalars or (nested) tuples of scalars.

    Outside of functions that are being traced an array computes itself when it is printed,
    converted (`np.asarray`, `float`, `list`, DLPack, pickle) or iterated: once, with everything
    that it consists of fused, and it keeps the value.  `td.run(a, b)` computes several at once.

    >>> import treadle as td
    >>> a = td.iota(3) * 2
    >>> a
    Array([0, 2, 4])
    >>> a.ndim, a.dtype, float(td.sum(a))
    (1, int64, 6.0)
    """

    __slots__ = ("__weakref__", "_leaves", "_pending", "_shape", "structure")
    structure: Structure
    #: The deferred result of a cached call that this array is; it may have no nodes yet.
    _pending: Result | None

    def __init__(
        self, leaves: Sequence[Leaf], structure: Structure = LEAF, shape: Shape | None = None
    ) -> None:
        if not (isinstance(leaves, list | tuple) and all([isinstance(x, Leaf) for x in leaves])):
            raise errors.TracingError(
                f"td.Array cannot make an array of {type(leaves).__name__}: operations do.",
                hint="td.use(x) makes one from data; td.fill(shape, 0.0), td.iota(n) without data.",
            )
        self._leaves = tuple(leaves)
        self._pending = None
        self.structure = structure
        first = self._leaves[0].node
        if isinstance(first, Input) and shape is None:
            return  # the extents are computed when read
        self._shape = self._leaves[0].shape if shape is None else shape
        if not (isinstance(first, Input) or is_tracing()):
            first.held_by(self)
        if len(self._shape) > MOST_AXES:
            raise errors.ShapeError(
                f"an array of rank {len(self._shape)}: arrays have at most {MOST_AXES} axes, as "
                "NumPy's.",
                hint="Make one axis of several: td.reshape(a, (n * m, …)).",
            )

    @classmethod
    def _deferred(cls, result: Result) -> Array:
        """A result of a deferred call, of scalars; its nodes are created when read."""
        made = cls.__new__(cls)
        made._pending, made.structure = result, LEAF
        return made

    @classmethod
    def _of_input(cls, node: Input, structure: Structure = LEAF) -> Array:
        made = cls.__new__(cls)
        made._pending, made.structure, made._leaves = None, structure, node.leaves
        return made

    def _is_made(self) -> bool:
        try:
            return bool(object.__getattribute__(self, "_leaves"))
        except AttributeError:
            return False

    def _become(self, leaves: Sequence[Leaf], pending: Result | None = None) -> None:
        """Set the leaves of the array."""
        self._shape, self._leaves = leaves[0].shape, tuple(leaves)
        self._pending = pending
        if not isinstance(leaves[0].node, Input):
            leaves[0].node.held_by(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name in ("_leaves", "_shape"):
                if self._pending is not None:  # a deferred call
                    later.deferred.make(self)
                elif name == "_shape":  # an input
                    self._shape = self._leaves[0].shape
                return object.__getattribute__(self, name)
            return super().__getattr__(name)

    # --- properties ---
    @property
    def shape(self) -> tuple[int | Scalar, ...]:
        """The extents: an int where known, else a scalar."""
        found = None if self._pending is None else later.deferred.shape(self)
        return extents(self._shape) if found is None else found

    @property
    def ndim(self) -> int:
        """The rank: the number of axes."""
        found = None if self._pending is None else later.deferred.shape(self)
        return len(self._shape if found is None else found)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return sum(leaf.type.numpy.itemsize for leaf in self._leaves)

    @property
    def nbytes(self) -> int | Scalar:
        """The bytes of all elements, as an int if the extents are known."""
        total = self.size * self.itemsize
        return total if isinstance(total, int) else Extent(total._expr)

    @property
    def dtype(self) -> ScalarType:
        """The element type; for tuple elements the same nesting of types."""
        made: ScalarType = self.structure.build([leaf.type for leaf in self._leaves])
        return made

    @property
    def types(self) -> tuple[ScalarType, ...]:
        """The types of the components of an element: one for numbers."""
        return tuple(leaf.type for leaf in self._leaves)

    @property
    def size(self) -> int | Scalar:
        """The number of elements."""
        total = later.product_of(self._shape)
        return int(total.value) if isinstance(total, Const) else Extent(total)

    def __repr__(self) -> str:
        if not self._is_closed():
            shape = ", ".join("?" if known(e) is None else str(known(e)) for e in self._shape)
            comma = "," if len(self._shape) == 1 else ""
            kind, label = self.structure.describe(self.types), self._leaves[0].node.label
            return f"<Array ({shape}{comma}) of {kind}: {label}>"
        value = later.computed.host_value(self, "repr()")
        shown = repr(value)
        # "Array(" is as wide as "array(", so that the lines stay aligned.
        return f"A{shown[1:]}" if self.structure.is_leaf else f"Array({shown})"

    def _repr_html_(self) -> str | None:
        """An HTML table for notebooks; None (they show the text) while a function is traced."""
        if not (self.structure.is_leaf and self._is_closed()):
            return None
        return of_array(later.computed.host_value(self, "a notebook"), self.dtype.name)

    def __str__(self) -> str:
        return str(later.computed.host_value(self, "str()")) if self._is_closed() else repr(self)

    _repeats = False

    def __hash__(self) -> int:
        raise errors.TracingError(
            "an array has no hash: == compares its elements.",
            hint="Keep arrays in a list, or in a dict by names."
            if self._shape
            else "Its value as a Python number has one: a.item()."
            if self._is_closed()
            else HINT_HASH,
        )

    def __len__(self) -> int:
        if not self._shape:
            raise errors.ShapeError(
                "a rank-0 array has no length.",
                hint="td.the(a) is its value as a scalar, td.run(a) its value.",
            )
        value = known(self._shape[0])
        if value is None and self._is_closed():
            value = later.computed.values_of(self, "len()")[0].shape[0]
        if value is None:
            raise errors.TracingError(
                "len() needs a number, but extents are run-time values here.",
                hint="Write a.shape[0]: a scalar that works in expressions and as an extent.",
            )
        return int(value)

    def __iter__(self) -> Iterator[Array]:
        if self.ndim and self._is_closed():
            made, values = later.computed.known_array, later.computed.values_of(self, "iteration")
            where = errors.user_location()
            return (made([v[k : k + 1].reshape(v.shape[1:]) for v in values], self.structure, where)
                    for k in range(values[0].shape[0]))  # fmt: skip
        if self.ndim and known(self._shape[0]) is not None:
            return (self[k] for k in range(len(self)))
        if not self.ndim:
            leaf = self.structure.is_leaf
            raise errors.TracingError(
                "a rank-0 array cannot be iterated or unpacked: it is one "
                f"{'value' if leaf else 'tuple'}.",
                hint="td.the(a) is its value as a scalar." if leaf else APART,
            )
        leaf, inside = self.structure.is_leaf, enclosing_kernel() is not None
        if leaf and not inside and short_extent(self._shape[0], UNPACKED):
            return iter(later.unstack(self))
        raise errors.TracingError(
            "an array of run-time extent cannot be iterated or unpacked in Python, unless the "
            f"arguments decide its extent and it is at most {UNPACKED}.",
            hint="td.sum(a), td.max(a), td.any(a) instead of sum, max, any; td.map(f, a) applies a "
            "function to every element, h.at[a].add(1) adds at indices; td.loop(a.shape[0], f, "
            "init) is a loop; a[0], a[k] are slices."
            if self.structure.is_leaf
            else APART,
        )

    def __contains__(self, value: object) -> bool:
        if enclosing_kernel() is not None:
            raise errors.TracingError(
                "`in` needs the values of an array, which are not known while a program is traced.",
                hint="Write td.isin(x, a) for an entire array x, outside the function.",
            )
        data = later.computed.one_array(self, "`in`", "Write td.any(a == x).")
        return bool((data == value).any())

    def _is_closed(self) -> bool:
        return later.computed.is_closed(self)

    # --- the value, for arrays that depend on no argument of a function being traced ---
    def __bool__(self) -> bool:
        if self._is_closed():
            return bool(later.computed.one_number(self, "a truth value", bool))
        raise errors.TracingError(
            "the truth value of an array is not known while a program is traced.",
            hint=instead_of_comparing()
            or "Write td.where(p, a, b) or td.cond(p, a, b) instead of if, td.while_loop(pred, "
            "body, init) instead of while, & | ~ instead of and, or, not.",
        )

    def __int__(self) -> int:
        return int(later.computed.one_number(self, "int()", int))

    def __float__(self) -> float:
        return float(later.computed.one_number(self, "float()", float, instead_of_math))

    def __complex__(self) -> complex:
        return complex(later.computed.one_number(self, "complex()", complex))

    def __index__(self) -> int:
        what = "a Python index or range()"
        if not (self.structure.is_leaf and self.types[0].is_integer) and self._is_closed():
            raise errors.DTypeError(
                f"{what} needs an integer, but this is an array of {self.dtype}.",
                hint="Convert it: int(a), or a.astype(td.int64).",
            )
        return int(later.computed.one_number(self, what, int))

    def __format__(self, how: str) -> str:
        if not how:
            return str(self)
        return str(
            later.computed.one_number(self, f"formatting by {how!r}", lambda v: format(v, how))
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = later.computed.one_array(self, "NumPy")
        made: np.ndarray[Any, Any] = np.array(value, dtype=dtype, copy=copy)
        return made

    def copy(self) -> Array:
        """`td.copy`: an array with a copy of the current data of a NumPy array."""
        return later.owned(self)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's description of the value, for libraries such as Pillow that use nothing else."""
        return later.computed.interface(self)

    @property
    def __array_struct__(self) -> object:
        """The same as a C structure, which NumPy tries first because it is faster."""
        return later.computed.structure_of(self)

    def tobytes(self) -> bytes:
        """The bytes of the elements in row-major order; the array is computed.

        Result: bytes.

        Errors: `TracingError` while a function is traced: nothing has a value then.

        >>> import treadle as td
        >>> td.ones(2, td.uint8).tobytes()
        b'\\x01\\x01'
        """
        return bytes(later.computed.one_array(self, "tobytes()").tobytes())

    def __bytes__(self) -> bytes:
        return self.tobytes()

    # --- the Array API standard ---
    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        """The namespace of the Array API standard: `treadle`."""
        require_version(api_version)
        return evaluator().module

    @property
    def device(self) -> str:
        """The device on which arrays are computed: "cpu" or "cuda"."""
        return current_device()

    def to_device(self, device: str, /, *, stream: object = None) -> Array:
        """The array itself: `td.config(backend=…)` selects where programs run.

        Parameters
            device: must equal `a.device`.
            stream: must be None.

        Result: the array.

        >>> import treadle as td
        >>> a = td.iota(3)
        >>> a.to_device(a.device)
        Array([0, 1, 2])
        """
        require_device(device, "to_device")
        return self

    @property
    def __cuda_array_interface__(self) -> Any:
        return later.computed.on_gpu(self)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        options = {k: v for k, v in given.items() if v is not None}
        readonly = max_version is not None and max_version >= (1, 0)
        return later.computed.exported(self, readonly).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return later.computed.exported(self).__dlpack_device__()

    def __reduce__(self) -> Any:
        hint = "Pickle a program: td.jit(f).lower(*args), or program.save(path)."
        values = [*map(later.computed.on_host, later.computed.values_of(self, "pickle", hint))]
        return later.computed.known_array, (values, self.structure)

    def item(self, *index: int) -> Any:
        """One element as a Python number.

        Parameters
            *index: nothing for an array of one element; otherwise its position in row-major order,
                or its indices.

        Result: a Python number; the array is computed.

        Errors: `TracingError` while a function is traced, when nothing has a value; NumPy's errors
        for
            invalid indices, and `IndexOutOfBounds` for those out of range.

        >>> import treadle as td
        >>> td.iota(6).reshape(2, 3).item(1, 2)
        5

        See also `tolist`, `td.run`.
        """
        values = later.computed.one_array(self, "item()")
        try:
            return values.item(*index)
        except errors.TreadleError:
            raise
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            kind: type[errors.TreadleError] = errors.ShapeError
            if isinstance(error, IndexError | OverflowError):
                kind = errors.IndexOutOfBounds
            elif isinstance(error, TypeError):
                kind = errors.TracingError
            raise kind(f"item: {error}.", hint="Write a.item(0, 2).") from None

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; the array is computed.

        Result: nested lists with a level per axis; a number for rank 0.

        Errors: `TracingError` while a function is traced, when nothing has a value.

        >>> import treadle as td
        >>> td.iota(4).reshape(2, 2).tolist()
        [[0, 1], [2, 3]]

        See also `item`, `td.run`.
        """
        return later.computed.one_array(self, "tolist()").tolist()

    def to_numpy(self) -> NumPyArray:
        """The elements as a read-only NumPy array; the array is computed, and keeps its value.
        Libraries that look for this method, such as matplotlib's `hist`, accept arrays through it.

        Result: a NumPy array of the same shape and type.

        Errors: `TracingError` while a function is traced, when nothing has a value.

        >>> import treadle as td
        >>> td.iota(3).to_numpy()
        array([0, 1, 2])

        See also `td.run`, whose results are writable.
        """
        return later.computed.one_array(self, "to_numpy()")

    # --- operators: cached calls ---
    def _binary(self, name: str, other: object, swapped: bool = False) -> object:
        return later.call_cache.of_operator(name, swapped)((self, other), {})

    def _unary(self, name: str) -> Array:
        return cast_type("Array", later.call_cache.of_operator(name, None)((self,), {}))

    # --- reading ---
    def _element(self, at: Sequence[Expr]) -> list[Expr]:
        """The components of one element."""
        index = tuple(at)
        return [Read(leaf.node, leaf.component, index) for leaf in self._leaves]

    def _scalar_at(self, at: Sequence[Expr]) -> Any:
        return self.structure.build([Scalar(e) for e in self._element(at)])

    @overload
    def __getitem__(self, index: Part | tuple[Part, *tuple[Indexing, ...]]) -> Array: ...
    @overload
    def __getitem__(self, index: Indexing) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        if enclosing_kernel() is not None:
            return _gather_in_kernel(self, index)
        return later.call_cache.of_slices(self, index)

    # --- methods with NumPy's names ---
    @property
    def T(self) -> Array:
        """The array with its axes reversed."""
        return later.transpose(self)

    @property
    def mT(self) -> Array:
        """The matrices of the last two axes, transposed."""
        if self.ndim < 2:
            raise errors.AxisError(
                f"mT needs at least two axes, got rank {self.ndim}.",
                hint="Write a.T, or td.transpose(a).",
            )
        return later.transpose(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    def transpose(self, *axes: AxisLike | None) -> Array:
        """`td.transpose`: the axes in another order.

        Parameters
            *axes: the axes of the array in the order of the result, as numbers or as one tuple;
                reversed by default.

        Result: an array of the same elements, whose axis k is axis axes[k] of this one.

        Errors: `AxisError` if the axes are not those of the array.

        >>> import treadle as td
        >>> td.iota(6).reshape(2, 3).transpose(1, 0).shape
        (3, 2)
        """
        chosen: Any = axes
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
            chosen = axes[0]
        return later.transpose(self, chosen or None)

    def reshape(self, *shape: ShapeLike, order: Order = "C") -> Array:
        """`td.reshape`: the same elements in another shape.

        Parameters
            *shape: the extents, as numbers or as one tuple; one of them may be −1, which stands for
                the remaining factor.
            order: "C" (default): elements are in row-major order; "F": the first index varies
                fastest.

        Result: an array of that shape, with the elements in that order.

        Errors: `ShapeError` if the number of elements differs.

        >>> import treadle as td
        >>> td.iota(6).reshape(2, -1).shape
        (2, 3)
        """
        chosen: Any = shape[0] if len(shape) == 1 else shape
        return later.reshape(self, chosen, order)

    def flatten(self, order: Order = "C") -> Array:
        """`td.flatten`: the elements in row-major order, of rank 1."""
        return later.flatten(self, order)

    ravel = flatten

    @errors.user_facing
    def sum(self, axis: AxisLike | None = None, keepdims: bool = False, *,
            dtype: DTypeLike | None = None, initial: ScalarLike | None = None,
            where: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.sum` of the array, over all axes by default."""
        return later.reductions.sum(self, axis, keepdims, dtype=dtype, initial=initial, where=where)

    @errors.user_facing
    def prod(self, axis: AxisLike | None = None, keepdims: bool = False, *,
            dtype: DTypeLike | None = None, initial: ScalarLike | None = None,
            where: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.prod` of the array, over all axes by default."""
        return later.reductions.prod(
            self, axis, keepdims, dtype=dtype, initial=initial, where=where
        )

    @errors.user_facing
    def mean(self, axis: AxisLike | None = None, keepdims: bool = False, *,
             dtype: DTypeLike | None = None, where: ArrayLike | None = None
             ) -> Array:  # fmt: skip
        """`td.mean` of the array, over all axes by default."""
        return later.reductions.mean(self, axis, keepdims, dtype=dtype, where=where)

    @errors.user_facing
    def var(self, axis: AxisLike | None = None, ddof: float = 0, keepdims: bool = False, *,
            correction: float | None = None, dtype: DTypeLike | None = None,
            where: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.var` of the array, over all axes by default."""
        return later.reductions.var(
            self, axis, ddof, keepdims, correction=correction, dtype=dtype, where=where
        )

    @errors.user_facing
    def std(self, axis: AxisLike | None = None, ddof: float = 0, keepdims: bool = False, *,
            correction: float | None = None, dtype: DTypeLike | None = None,
            where: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.std` of the array, over all axes by default."""
        return later.reductions.std(
            self, axis, ddof, keepdims, correction=correction, dtype=dtype, where=where
        )

    @errors.user_facing
    def min(self, axis: AxisLike | None = None, keepdims: bool = False, *,
            initial: ScalarLike | None = None, where: ArrayLike | None = None
            ) -> Array:  # fmt: skip
        """`td.min` of the array, over all axes by default."""
        return later.reductions.min(self, axis, keepdims, initial=initial, where=where)

    @errors.user_facing
    def max(self, axis: AxisLike | None = None, keepdims: bool = False, *,
            initial: ScalarLike | None = None, where: ArrayLike | None = None
            ) -> Array:  # fmt: skip
        """`td.max` of the array, over all axes by default."""
        return later.reductions.max(self, axis, keepdims, initial=initial, where=where)

    @errors.user_facing
    def all(self, axis: AxisLike | None = None, keepdims: bool = False, *,
            where: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.all` of the array, over all axes by default."""
        return later.reductions.all(self, axis, keepdims, where=where)

    @errors.user_facing
    def any(self, axis: AxisLike | None = None, keepdims: bool = False, *,
            where: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.any` of the array, over all axes by default."""
        return later.reductions.any(self, axis, keepdims, where=where)

    @errors.user_facing
    def argmin(self, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
        """`td.argmin` of the array, over all axes by default."""
        return later.reductions.argmin(self, axis, keepdims)

    @errors.user_facing
    def argmax(self, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
        """`td.argmax` of the array, over all axes by default."""
        return later.reductions.argmax(self, axis, keepdims)

    def dot(self, other: ArrayLike) -> Array:
        """`td.dot`: the product with another array.

        Parameters
            other: an array whose second to last axis (the only one of a vector) has the extent of
                the last axis of this one.

        Result: an array without these two axes; of rank 0 for two vectors.

        Errors: `ShapeError` if the extents differ.

        >>> import treadle as td
        >>> td.iota(3).dot(td.iota(3))
        Array(5)

        See also `td.matmul`, `td.tensordot`.
        """
        return later.dot(self, other)

    def cumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Array:
        """`td.cumsum`: cumulative sums, of the flattened array by default."""
        return public("cumsum")(self, axis, dtype=dtype)  # type: ignore[no-any-return]

    def cumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Array:
        """`td.cumprod`: cumulative products, of the flattened array by default."""
        return public("cumprod")(self, axis, dtype=dtype)  # type: ignore[no-any-return]

    def argsort(self, axis: int | None = -1, *, descending: bool = False,
                stable: bool = True) -> Array:  # fmt: skip
        """`td.argsort`: the indices that sort along an axis; equal elements keep their order."""
        found = public("argsort")(self, axis, descending=descending, stable=stable)
        return found  # type: ignore[no-any-return]

    def take(self, indices: ArrayLike, axis: int | None = None) -> Array:
        """`td.take`: the elements at these indices, of the flattened array by default."""
        return public("take")(self, indices, axis)  # type: ignore[no-any-return]

    def repeat(self, repeats: ArrayLike, axis: int | None = None) -> Array:
        """`td.repeat`: each element several times, of the flattened array by default."""
        return public("repeat")(self, repeats, axis)  # type: ignore[no-any-return]

    def nonzero(self) -> tuple[Array, ...]:
        """`td.nonzero`: the indices of the elements that are not 0, an array for each axis."""
        return public("nonzero")(self)  # type: ignore[no-any-return]

    def searchsorted(self, v: ArrayLike, side: Literal["left", "right"] = "left",
                     sorter: ArrayLike | None = None) -> Array:  # fmt: skip
        """`td.searchsorted`: where elements would be inserted into this sorted array."""
        return public("searchsorted")(self, v, side, sorter)  # type: ignore[no-any-return]

    def compress(self, condition: ArrayLike, axis: int | None = None) -> Array:
        """`td.compress`: the elements or slices where a condition of rank 1 holds."""
        return public("compress")(condition, self, axis)  # type: ignore[no-any-return]

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """`td.diagonal`: the diagonal of two axes, as the last axis of the result."""
        return public("diagonal")(self, offset, axis1, axis2)  # type: ignore[no-any-return]

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """`td.trace`: the sum of a diagonal."""
        return public("trace")(self, offset, axis1, axis2)  # type: ignore[no-any-return]

    def squeeze(self, axis: AxisLike | None = None) -> Array:
        """`td.squeeze`: without axes of extent 1, by default all of them."""
        return public("squeeze")(self, axis)  # type: ignore[no-any-return]

    def swapaxes(self, first: int, second: int) -> Array:
        """`td.swapaxes`: two axes exchanged.

        Parameters
            first, second: axes, from −rank to rank − 1.

        Result: an array of the same elements with these axes exchanged.

        Errors: `AxisError` if there is no such axis.

        >>> import treadle as td
        >>> td.zeros((2, 3, 4)).swapaxes(0, 2).shape
        (4, 3, 2)
        """
        return public("swapaxes")(self, first, second)  # type: ignore[no-any-return]

    @property
    def at(self) -> At:
        """`a.at[index].set(new)`, `.add`, `.multiply`, `.min`, `.max`: `a` with a part changed."""
        return later.At(self)

    def scheduled(self, schedule: ScheduleLike | None = None, **named: ScheduleLike) -> Array:
        """The same array, computed with another schedule.

        Parameters
            schedule: a schedule or a layer, such as `td.schedule.Column(64)`.
            **named: rejected; `Program.scheduled` schedules the operations of a program by name.

        Result: an array of the same elements.

        Errors: `TracingError` for data, which nothing computes; `ScheduleError` for a schedule that
            does not fit.

        >>> import treadle as td
        >>> (td.iota(4) * 2).scheduled(td.schedule.Row())
        Array([0, 2, 4, 6])
        """
        if named or schedule is None:
            raise errors.TracingError(
                "an array takes one schedule, for the operation that computes it.",
                hint="Write array.scheduled(Row()). Operations are scheduled by name in programs: "
                "td.jit(f).lower(…).scheduled(blur=Row()).",
            )
        if isinstance(self._leaves[0].node, Input):
            raise errors.TracingError(
                "an input has no schedule: nothing computes it.",
                hint="Give the operation that reads it one: td.map(f, a, schedule=…).",
            )
        return later.relabel(self, None, schedule, user_orders=True)  # type: ignore[no-any-return]


def _gather_in_kernel(array: Array, index: Any) -> Any:
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) != array.ndim or any(
        isinstance(p, slice) or p is None or p is Ellipsis for p in indices
    ):
        if len(indices) > array.ndim:
            raise errors.AxisError(
                f"{len(indices)} indices for an array of rank {array.ndim}.",
                hint=f"Write exactly {array.ndim}.",
            )
        outer, where = enclosing_kernel() or ("", None)
        names = ", ".join("ijklmn"[k % 6] for k in range(array.ndim))
        raise errors.NestedParallelismError(
            f"a kernel reads single elements, but this would make an array: {len(indices)} "
            f"indices for rank {array.ndim}.",
            also=((f"inside the scalar function of '{outer}':", where),),
            hint=f"Give every index: a[{names}]; or slice outside the kernel, before td.{outer}.  "
            "Functions of arrays compute all rows at once, outside of it: td.sum(a, axis=-1), "
            "td.linalg.solve(a, b).",
        )
    at = [as_index(p, "an index") for p in indices]
    for axis, e in enumerate(at):
        if isinstance(e, Const) and int(e.value) < 0:
            error = errors.IndexOutOfBounds(
                f"the index {int(e.value)} is outside axis {axis}: inside kernels indices never "
                "count from the end.",
                hint=f"Write a.shape[{axis}] - {-int(e.value)}.",
            )
            refuse_unless_guarded(array._element(at), error)
    return array._scalar_at(at)


def require_scalars(array: Array, operation: str, otherwise: str = "") -> None:
    """Reject an array of tuples; `otherwise` continues the hint."""
    if not array.structure.is_leaf:
        raise errors.DTypeError(
            f"{operation} works on scalars, but the elements are tuples: "
            f"{array.structure.describe(array.types)}.",
            hint=f"Take them apart with td.unzip(a){otherwise}.",
        )


def broadcast_map(
    build: Callable[[list[Expr]], Sequence[Expr]], operands: Sequence[Any], operation: str
) -> Array:
    """An element-wise operation on operands (scalars and arrays), with broadcasting."""
    forbid_nesting(operation)
    shapes = [o._shape for o in operands if isinstance(o, Array)]
    shape, checks = broadcast_shapes(shapes, operation)
    values: list[Expr] = []
    for o in operands:
        if isinstance(o, Array):
            require_scalars(o, operation, ", or use td.map(lambda p: …, a)")
            values += o._element(stretched(o._shape, shape))
        else:
            values.append(lift(o, operation))
    return generated(shape, tuple(as_strong(e) for e in build(values)), operation, checks)


def generated(shape: Shape, elements: tuple[Expr, ...], operation: str,
              checks: tuple[Check, ...] = (), structure: Structure = LEAF) -> Array:  # fmt: skip
    """An array with elements computed from their index, as an operation at the user's line."""
    node = Generate(shape, elements, label=Label(operation), where=errors.user_location(),
                    checks=checks)  # fmt: skip
    return Array(node.leaves, structure, shape)


def map_over(array: Array, index: Sequence[Expr], shape: Shape, operation: str,
             checks: tuple[Check, ...] = ()) -> Array:  # fmt: skip
    """An index transformation of every component: result[ix] = array[index(ix)]."""
    return generated(shape, tuple(array._element(index)), operation, checks, array.structure)


later.offer(Array=Array)
