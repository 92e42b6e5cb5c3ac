"""`Array`: the handle on a collective computation (Accelerate's `Acc`)."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import expr as ir
from .errors import (
    AxisError,
    DTypeError,
    IndexOutOfBounds,
    NestedParallelismError,
    ShapeError,
    TracingError,
    form_of,
    user_facing,
    user_facing_methods,
    user_location,
)
from .expr import Apply, Const, Expr, Index, Read, walk
from .graph import Check, Generate, Input, Label, Leaf, Shape, known
from .scalar import Operators, Scalar
from .simplify import is_const
from .tracing import enclosing_kernel, forbid_nesting
from .types import LEAF, ScalarType, Structure, as_type


@user_facing_methods
class Array(Operators):
    """A collective, data-parallel computation: nothing runs until it is run.

    `shape` holds an int for every extent known to be constant and a scalar for the others;
    elements are scalars or (nested) tuples of them.

    >>> import treadle as td
    >>> a = td.iota(3) * 2
    >>> a.ndim, a.dtype
    (1, int64)
    """

    __slots__ = ("_leaves", "_shape", "structure")
    structure: Structure

    def __init__(
        self, leaves: Sequence[Leaf], structure: Structure = LEAF, shape: Shape | None = None
    ) -> None:
        self._leaves = tuple(leaves)
        self.structure = structure
        self._shape = self._leaves[0].shape if shape is None else shape

    # --- what it is ---
    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(int(e.value) if isinstance(e, Const) else Extent(e) for e in self._shape)

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def dtype(self) -> Any:
        """The element type; for tuple elements the same nesting of types."""
        return self.structure.build([leaf.type for leaf in self._leaves])

    @property
    def types(self) -> tuple[ScalarType, ...]:
        return tuple(leaf.type for leaf in self._leaves)

    @property
    def size(self) -> Any:
        from .functions import multiply

        total: Any = 1
        for extent in self.shape:
            total = (
                multiply(total, extent)
                if isinstance(extent, Scalar) or not isinstance(total, int)
                else total * extent
            )
        return total

    def __repr__(self) -> str:
        shape = ", ".join("?" if known(e) is None else str(known(e)) for e in self._shape)
        comma = "," if len(self._shape) == 1 else ""
        kind, label = self.structure.describe(self.types), self._leaves[0].node.label
        return f"<Array ({shape}{comma}) of {kind}: {label}; td.run(…) computes it>"

    def __getattr__(self, name: str) -> Any:
        import treadle

        if not name.startswith("_") and callable(getattr(treadle, name, None)):
            raise AttributeError(f"an Array has no method {name!r}: write td.{name}(a, …).")
        raise AttributeError(f"'Array' object has no attribute {name!r}")

    def __len__(self) -> int:
        if not self._shape:
            raise ShapeError("a rank-0 array has no length.")
        value = known(self._shape[0])
        if value is None:
            raise TracingError(
                "len() needs a number, but extents are run-time values here.",
                hint="Write a.shape[0]: a scalar that works in expressions and as an extent.",
            )
        return int(value)

    def __iter__(self) -> Any:
        if self.ndim and known(self._shape[0]) is not None:
            return (self[k] for k in range(len(self)))
        raise TracingError(
            "an array of run-time extent cannot be iterated in Python.",
            hint="Operate on the whole array: td.map(f, a); to take tuples apart: td.unzip(a).",
        )

    def __bool__(self) -> bool:
        raise TracingError(
            "the truth of an array is not known while a program is built.",
            hint="Use td.where(p, a, b), td.cond(p, a, b), td.while_loop(pred, body, init), or "
            "td.run(p) to get the value; & | ~ instead of and, or, not.",
        )

    def _no_value(self, what: str) -> TracingError:
        return TracingError(
            f"{what} needs the value of an array that has not been computed.",
            hint="td.run(a) computes it; td.the(a) makes a scalar of a rank-0 array.",
        )

    def __int__(self) -> int:
        raise self._no_value("int()")

    def __float__(self) -> float:
        raise self._no_value("float()")

    def __index__(self) -> int:
        raise self._no_value("a Python index or range()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._no_value("np.asarray()")

    # --- reading ---
    def _element(self, at: Sequence[Expr]) -> list[Expr]:
        """The components of one element."""
        place = tuple(at)
        return [Read(leaf.node, leaf.component, place) for leaf in self._leaves]

    def _scalar_at(self, at: Sequence[Expr]) -> Any:
        return self.structure.build([Scalar(e) for e in self._element(at)])

    def __getitem__(self, index: Any) -> Any:
        if enclosing_kernel() is not None:
            return _gather_in_kernel(self, index)
        from .operations.index_space import slice_array

        return slice_array(self, index)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """np.sum(a) on an Array is td.sum(a); what td lacks is refused with advice."""
        import treadle

        name = function.__name__
        target = getattr(treadle, name, None)
        if target is None:
            raise TracingError(
                f"np.{name} does not work on a treadle array, and td has no {name}.",
                hint="td.run(a) computes the array, and NumPy takes it from there.",
            )
        return target(*args, **kwargs)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TracingError(
            "arrays are never changed in place.",
            hint="Make a new one: td.where(mask, value, a), td.scatter(a, indices, values), or "
            "td.concatenate([…]).",
        )

    def item(self) -> Any:
        """Refused: the value is not there before the program runs."""
        raise self._no_value("item()")

    # --- methods with NumPy's names ---
    @property
    def T(self) -> Array:
        from .operations.index_space import transpose

        return transpose(self)

    def transpose(self, *axes: Any) -> Array:
        from .operations.index_space import transpose

        chosen: Any = axes
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
            chosen = axes[0]
        return transpose(self, chosen or None)

    def reshape(self, *shape: Any) -> Array:
        from .operations.index_space import reshape

        return reshape(self, shape[0] if len(shape) == 1 else shape)

    def flatten(self) -> Array:
        from .operations.index_space import flatten

        return flatten(self)

    ravel = flatten

    def __matmul__(self, other: Any) -> Array:
        from .operations.linalg import matmul

        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        from .operations.linalg import matmul

        return matmul(other, self)

    @user_facing
    def sum(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.sum(self, axis, keepdims)

    @user_facing
    def prod(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.prod(self, axis, keepdims)

    @user_facing
    def mean(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.mean(self, axis, keepdims)

    @user_facing
    def min(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.min(self, axis, keepdims)

    @user_facing
    def max(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.max(self, axis, keepdims)

    @user_facing
    def all(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.all(self, axis, keepdims)

    @user_facing
    def any(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.any(self, axis, keepdims)

    @user_facing
    def argmin(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.argmin(self, axis, keepdims)

    @user_facing
    def argmax(self, axis: Any = None, keepdims: bool = False) -> Array:
        from .operations import folds

        return folds.argmax(self, axis, keepdims)

    def dot(self, other: Any) -> Array:
        from .operations.linalg import dot

        return dot(self, other)

    def scheduled(self, schedule: Any) -> Array:
        """The same array computed under another schedule."""
        from .operations.common import relabel

        if isinstance(self._leaves[0].node, Input):
            raise TracingError("an input has no schedule: nothing computes it.")
        return relabel(self, None, schedule)  # type: ignore[no-any-return]


def Extent(e: Expr) -> Scalar:
    """A run-time extent as a scalar that also answers int() when its value is known."""
    return KnownScalar(e)


class KnownScalar(Scalar):
    """A scalar whose value may be known although it stands for a run-time extent."""

    __slots__ = ()

    def __index__(self) -> int:
        value = known(self._expr)
        return super().__index__() if value is None else int(value)

    def __int__(self) -> int:
        value = known(self._expr)
        return super().__int__() if value is None else int(value)

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        value = known(self._expr)
        return super().__bool__() if value is None else bool(value)

    def __eq__(self, other: object) -> Any:
        value = known(self._expr)
        if value is not None and isinstance(other, int | np.integer):
            return int(value) == int(other)
        if isinstance(other, Scalar) and other._expr is self._expr:
            return True
        return super().__eq__(other)

    __hash__ = Scalar.__hash__


def _gather_in_kernel(array: Array, index: Any) -> Any:
    from .scalar import as_index

    place = index if isinstance(index, tuple) else (index,)
    if len(place) != array.ndim or any(
        isinstance(p, slice) or p is None or p is Ellipsis for p in place
    ):
        if len(place) > array.ndim:
            raise AxisError(
                f"{len(place)} indices for an array of rank {array.ndim}.",
                hint=f"Write exactly {array.ndim}.",
            )
        outer, where = enclosing_kernel() or ("", None)
        names = ", ".join("ijklmn"[k % 6] for k in range(array.ndim))
        raise NestedParallelismError(
            f"a kernel reads single elements, but this would make an array: {len(place)} "
            f"indices for rank {array.ndim}.",
            also=((f"inside the scalar function of '{outer}':", where),),
            hint=f"Give every index: a[{names}]; or slice outside the kernel, before td.{outer}.",
        )
    at = [as_index(p, "an index") for p in place]
    for axis, e in enumerate(at):
        if isinstance(e, Const) and int(e.value) < 0:
            raise IndexOutOfBounds(
                f"the index {int(e.value)} is outside axis {axis}: inside kernels indices never "
                "count from the end.",
                hint=f"Write a.shape[{axis}] - {-int(e.value)}.",
            )
    return array._scalar_at(at)


# --- bringing data in ------------------------------------------------------------------------


#: Classes of arrays that are used as they are: `shape` is a tuple, `dtype` NumPy's.  A backend adds
#: the one of its device.
PLAIN_ARRAYS: set[type] = {np.ndarray}


def is_arraylike(value: Any) -> bool:
    """NumPy, CuPy, DLPack and `__cuda_array_interface__` arrays."""
    if type(value) in PLAIN_ARRAYS or isinstance(value, np.ndarray):
        return True
    if isinstance(value, Array | Scalar | np.generic | type | ScalarType):
        return False
    return hasattr(value, "__cuda_array_interface__") or (
        hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")
    )


_DLPACK_GPU = (2, 13)  # kDLCUDA, kDLCUDAManaged
_used: dict[int, tuple[weakref.ref[Any], weakref.ref[Input]]] = {}


def as_array(value: Any, operation: str = "an operation") -> Array:
    """The Array of an Array, of data (implicit `use`) or of a scalar (rank 0)."""
    if isinstance(value, Array):
        return value
    if is_arraylike(value) or isinstance(value, list):
        return use(value)
    inside = enclosing_kernel()
    if isinstance(value, Scalar) and inside is not None:
        raise NestedParallelismError(
            f"{operation} needs an array, and inside the function of {inside[0]!r} this is one "
            "element.",
            hint=f"{inside[0]} goes over single elements; for rows write td.{operation}(a, "
            "axis=1) of the whole array, outside.",
        )
    if isinstance(value, Scalar | int | float | complex | np.generic):
        from .operations.making import unit

        return unit(value)
    raise TracingError(
        f"{operation} needs an array, got {type(value).__name__}.",
        hint=form_of(operation) if callable(value)
        else "Pass a NumPy array, anything with DLPack, or a td.Array.",
    )  # fmt: skip


def normalise_source(value: Any) -> Any:
    """Host data as an ndarray without a copy; device data as it is."""
    # (Asking for `np.ma` would import it.)
    if "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray):
        raise TracingError(
            "a masked array would lose its mask.",
            hint="Pass the data and the mask apart, or a.filled(value).",
        )
    if type(value) in PLAIN_ARRAYS or isinstance(value, np.ndarray):
        return value
    if _on_gpu(value):
        return value if isinstance(value.dtype, np.dtype) else _borrowed(value)
    if isinstance(value, list) or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def _on_gpu(value: Any) -> bool:
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__dlpack__") and int(value.__dlpack_device__()[0]) in _DLPACK_GPU


def _borrowed(value: Any) -> Any:
    """An array on a GPU with types of its own (PyTorch's), as one with NumPy's; not a copy."""
    from treadle.backend.registry import load

    return load("cuda").borrowed(value)


@user_facing
def use(x: Any) -> Array:
    """Bring an array from outside into the language (rank and type of `x`; no copy).

    >>> import numpy as np, treadle as td
    >>> td.run(td.use(np.array([1, 2])) + 1)
    array([2, 3])
    """
    if isinstance(x, Array):
        return x
    if isinstance(x, tuple):
        from .operations.elementwise import zip as zip_

        return zip_(*x)
    source = normalise_source(x)
    if not hasattr(source, "shape") or not hasattr(source, "dtype"):
        raise TracingError(f"use needs an array, got {type(x).__name__}.")
    held = _used.get(id(source))
    if held is not None:
        node = held[1]()
        if held[0]() is source and node is not None and _matches(node, source):
            return Array(node.leaves)
    node = Input(
        "input",
        as_type(source.dtype),
        tuple(int(n) == 1 for n in source.shape),
        source=source,
        where=user_location(),
    )
    try:
        key = id(source)
        _used[key] = (weakref.ref(source), weakref.ref(node, lambda _: _used.pop(key, None)))
    except TypeError:
        pass  # not weakly referable: never shared
    return Array(node.leaves)


def _matches(node: Input, source: Any) -> bool:
    return len(node.shape) == len(source.shape) and all(
        (int(n) == 1) == isinstance(e, Const) for n, e in zip(source.shape, node.shape, strict=True)
    )


# --- shapes ----------------------------------------------------------------------------------


def as_shape(shape: Any, operation: str) -> Shape:
    """Extents from an int, a scalar or a sequence of them."""
    from .scalar import as_index

    parts = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    extents = []
    for part in parts:
        if isinstance(part, float):
            raise DTypeError(f"{operation} needs integer extents, got {part!r}.")
        e = as_index(part, f"{operation}'s shape")
        if isinstance(e, Const) and int(e.value) < 0:
            raise ShapeError(f"{operation} got the negative extent {int(e.value)}.")
        extents.append(e)
    return tuple(extents)


def show_shape(shape: Sequence[Expr]) -> str:
    values = [known(e) for e in shape]
    parts = [_show(e) if v is None else str(int(v)) for e, v in zip(shape, values, strict=True)]
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def _show(extent: Expr) -> str:
    """An extent that is not known yet, in the user's words: `x.shape[0]`."""
    text = repr(extent)
    for e in walk((extent,)):
        if isinstance(e, ir.Extent):
            name = e.node.label.name or e.node.label.operation
            text = text.replace(f"%{e.node.uid}.", f"{name}.")
    return text


def same_shape(a: Shape, b: Shape, operation: str) -> tuple[Check, ...]:
    """Two shapes that must be equal: an error now if they cannot be, else run-time checks."""
    if len(a) != len(b):
        raise ShapeError(
            f"{operation} needs arrays of equal shape, got {show_shape(a)} and {show_shape(b)}.",
            hint="td.replicate(a, n, axis) or td.broadcast_to(a, shape) adds an axis.",
        )
    checks = []
    where = user_location()
    for axis, (x, y) in enumerate(zip(a, b, strict=True)):
        if x is y:
            continue
        u, v = known(x), known(y)
        if u is not None and v is not None and int(u) != int(v):
            raise ShapeError(
                f"{operation} needs arrays of equal shape, got {show_shape(a)} and "
                f"{show_shape(b)}: axis {axis} has {int(u)} against {int(v)}.",
                hint="Slice to the common extent, a[:n], or use operators (a + b), which "
                "broadcast extents of 1.",
            )
        message = (
            f"{operation} needs arrays of equal shape, but axis {axis} has extent {{left}} in one "
            "and {right} in the other."
        )
        checks.append(Check(x, y, message, where=where, hint="Slice to the common extent: a[:n]."))
    return tuple(checks)


def broadcast_shapes(shapes: Sequence[Shape], operation: str) -> tuple[Shape, tuple[Check, ...]]:
    """NumPy's broadcasting; extents known to be 1 stretch, others must be equal (checked)."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Expr] = []
    checks: list[Check] = []
    for axis in range(-rank, 0):
        chosen: Expr | None = None
        for shape in shapes:
            if len(shape) < -axis:
                continue
            e = shape[axis]
            if chosen is None or chosen is e:
                chosen = e
                continue
            u, v = known(chosen), known(e)
            if v is not None and int(v) == 1:
                continue
            if u is not None and int(u) == 1:
                chosen = e
                continue
            if _at_most_one(e) and not _at_most_one(chosen):
                checks.append(_must_be_one(e, operation))
                continue
            if _at_most_one(chosen) and not _at_most_one(e):
                checks.append(_must_be_one(chosen, operation))
                chosen = e
                continue
            if u is not None and v is not None and int(u) != int(v):
                shown = " and ".join(show_shape(s) for s in shapes)
                raise ShapeError(
                    f"{operation} cannot broadcast the shapes {shown}: axis {axis} has "
                    f"{int(u)} against {int(v)}.",
                    hint="Extents must be equal or 1; a[:, None] inserts an axis of extent 1.",
                )
            checks.append(
                Check(
                    chosen,
                    e,
                    f"{operation} cannot broadcast: axis {axis} has extent {{left}} in one operand "
                    "and {right} in another.",
                    hint="Extents must be equal or 1.",
                    where=user_location(),
                )
            )
        result.append(chosen if chosen is not None else ir.constant(1))
    return tuple(result), tuple(checks)


def _at_most_one(e: Expr) -> bool:
    """An extent like that of `a[:1]`: 1, or 0 when `a` is empty."""
    return isinstance(e, Apply) and e.op.name == "minimum" and any(is_const(x, 1) for x in e.args)


def _must_be_one(e: Expr, operation: str) -> Check:
    return Check(
        e,
        ir.constant(1),
        f"{operation} cannot broadcast: an operand is empty (extent {{left}}).",
        where=user_location(),
    )


def stretched(shape: Shape, target: Shape) -> tuple[Expr, ...]:
    """Indices into an array of `shape` for an element of the broadcast shape `target`."""
    offset = len(target) - len(shape)
    place: list[Expr] = []
    for axis, e in enumerate(shape):
        one = known(e)
        goal = target[offset + axis]
        if goal is not e and (_at_most_one(e) or (one is not None and int(one) == 1)):
            place.append(ir.constant(0))
        else:
            place.append(Index(offset + axis))
    return tuple(place)


def broadcast_map(
    build: Callable[[list[Expr]], Sequence[Expr]],
    operands: Sequence[Any],
    label: Label,
    structure: Structure = LEAF,
) -> Array:
    """An element-wise operation over broadcast operands (scalars and arrays)."""
    forbid_nesting(label.operation)
    from .scalar import lift

    shapes = [o._shape for o in operands if isinstance(o, Array)]
    shape, checks = broadcast_shapes(shapes, label.operation)
    values: list[Expr] = []
    for o in operands:
        if isinstance(o, Array):
            if not o.structure.is_leaf:
                raise DTypeError(
                    f"{label.operation} works on scalars, but the elements are tuples: "
                    f"{o.structure.describe(o.types)}.",
                    hint="Take them apart with td.unzip(a), or use td.map(lambda p: …, a).",
                )
            values += o._element(stretched(o._shape, shape))
        else:
            values.append(lift(o, label.operation))
    from .scalar import as_strong

    elements = tuple(as_strong(e) for e in build(values))
    node = Generate(shape, elements, label=label, where=user_location(), checks=checks)
    return Array(node.leaves, structure)


def map_over(
    array: Array, place: Sequence[Expr], shape: Shape, label: Label, checks: tuple[Check, ...] = ()
) -> Array:
    """An index transform: result[ix] = array[place(ix)], for every component."""
    elements = tuple(array._element(place))
    node = Generate(shape, elements, label=label, where=user_location(), checks=checks)
    return Array(node.leaves, array.structure, shape)
