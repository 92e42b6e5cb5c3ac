"""`Array`: a handle to a collective computation (Accelerate's `Acc`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import later
from .errors import (
    AxisError,
    DTypeError,
    IndexOutOfBounds,
    NestedParallelismError,
    ShapeError,
    TracingError,
    user_facing,
    user_facing_methods,
    user_location,
)
from .expr import Const, Expr, Read
from .graph import Check, Generate, Input, Label, Leaf, Shape, known, topological
from .operators import Operators
from .refusals import never_set
from .scalar import Scalar, as_index, as_strong, lift
from .shapes import Extent, broadcast_shapes, stretched
from .tracing import enclosing_kernel, forbid_nesting, refuse_unless_guarded
from .types import LEAF, ScalarType, Structure

if TYPE_CHECKING:
    from .operations.updating import At

#: The maximal rank of an array: NumPy's limit.
MOST_AXES = 64


@never_set
@user_facing_methods
class Array(Operators["Array"]):
    """A collective, data-parallel computation; it is an expression until `td.run` computes it.

    `shape` contains an int for each constant extent and a scalar for the others; elements are
    scalars or (nested) tuples of scalars.

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
        if not (isinstance(leaves, list | tuple) and all(isinstance(x, Leaf) for x in leaves)):
            raise TracingError(
                f"td.Array cannot make an array of {type(leaves).__name__}: operations do.",
                hint="td.use(x) makes one from data; td.fill(shape, 0.0), td.iota(n) without data.",
            )
        self._leaves = tuple(leaves)
        self.structure = structure
        self._shape = self._leaves[0].shape if shape is None else shape
        if len(self._shape) > MOST_AXES:
            raise ShapeError(
                f"an array of rank {len(self._shape)}: arrays have at most {MOST_AXES} axes, as "
                "NumPy's.",
                hint="Make one axis of several: td.reshape(a, (n * m, …)).",
            )

    # --- properties ---
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
        total = later.product_of(self._shape)
        return int(total.value) if isinstance(total, Const) else Extent(total)

    def __repr__(self) -> str:
        shape = ", ".join("?" if known(e) is None else str(known(e)) for e in self._shape)
        comma = "," if len(self._shape) == 1 else ""
        kind, label = self.structure.describe(self.types), self._leaves[0].node.label
        return f"<Array ({shape}{comma}) of {kind}: {label}; td.run(…) computes it>"

    _repeats = False

    def __hash__(self) -> int:
        raise TracingError(
            "an array has no hash: == compares its elements.",
            hint="Keep arrays in a list, or in a dict by names.",
        )

    def __len__(self) -> int:
        if not self._shape:
            raise ShapeError(
                "a rank-0 array has no length.",
                hint="td.the(a) is its value as a scalar, td.run(a) its value.",
            )
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
        if not self.ndim:
            raise TracingError(
                "a rank-0 array cannot be iterated or unpacked: it is one value.",
                hint="td.the(a) is its value as a scalar.",
            )
        raise TracingError(
            "an array of run-time extent cannot be iterated or unpacked in Python.",
            hint="td.map(f, a) applies a function to every element."
            if self.structure.is_leaf
            else "To take the tuples apart write x, y = td.unzip(a).",
        )

    def __contains__(self, value: object) -> bool:
        if enclosing_kernel() is not None:
            raise TracingError(
                "`in` needs the values of an array, which are not known while a program is traced.",
                hint="Write td.isin(x, a) for an entire array x, outside the function.",
            )
        raise self._no_value("`in`", "Write td.any(a == x).")

    def __bool__(self) -> bool:
        closed = self._is_closed()
        raise TracingError(
            "the truth value of an array is not known while a program is traced.",
            hint="td.run(p) computes it: if td.run(p): …; & | ~ stand for and, or, not."
            if closed
            else "Write td.where(p, a, b) or td.cond(p, a, b) instead of if, td.while_loop(pred, "
            "body, init) instead of while, & | ~ instead of and, or, not.",
        )

    def _is_closed(self) -> bool:
        """Whether the array can be computed now: it depends on no argument of a function that is
        being traced and on no state of a loop."""
        if enclosing_kernel() is not None:
            return False
        inputs = (n for n in topological(self._leaves) if isinstance(n, Input))
        return all(n.source is not None for n in inputs)

    def _no_value(self, what: str, hint: str | None = None) -> TracingError:
        if hint is None:
            hint = "td.run(a) computes it."
            if not self._is_closed():
                hint = (
                    "Arrays have no values while a program is traced: operators and td's functions "
                    "take the array itself; td.the(a) makes a scalar of a rank-0 array."
                )
        return TracingError(f"{what} needs the value of an array that is not computed.", hint=hint)

    def __int__(self) -> int:
        raise self._no_value("int()")

    def __float__(self) -> float:
        raise self._no_value("float()")

    def __format__(self, how: str) -> str:
        if not how:
            return repr(self)
        raise self._no_value(f"formatting by {how!r}")

    def __index__(self) -> int:
        raise self._no_value("a Python index or range()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._no_value("NumPy")

    # --- reading ---
    def _element(self, at: Sequence[Expr]) -> list[Expr]:
        """The components of one element."""
        index = tuple(at)
        return [Read(leaf.node, leaf.component, index) for leaf in self._leaves]

    def _scalar_at(self, at: Sequence[Expr]) -> Any:
        return self.structure.build([Scalar(e) for e in self._element(at)])

    def __getitem__(self, index: Any) -> Any:
        if enclosing_kernel() is not None:
            return _gather_in_kernel(self, index)
        return later.slice_array(self, index)

    def __reduce__(self) -> Any:
        raise TracingError(
            "an array cannot be pickled: it is an expression without values.",
            hint="Pickle td.run(a); or a program, td.jit(f).lower(*args), or program.save(path).",
        )

    def item(self) -> Any:
        """Always raises an error: an array has no value before the program runs."""
        raise self._no_value("item()")

    # --- methods with NumPy's names ---
    @property
    def T(self) -> Array:
        return later.transpose(self)

    def transpose(self, *axes: Any) -> Array:
        chosen: Any = axes
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
            chosen = axes[0]
        return later.transpose(self, chosen or None)

    def reshape(self, *shape: Any) -> Array:
        return later.reshape(self, shape[0] if len(shape) == 1 else shape)

    def flatten(self) -> Array:
        return later.flatten(self)

    ravel = flatten

    @user_facing
    def sum(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.sum(self, axis, keepdims)

    @user_facing
    def prod(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.prod(self, axis, keepdims)

    @user_facing
    def mean(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.mean(self, axis, keepdims)

    @user_facing
    def min(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.min(self, axis, keepdims)

    @user_facing
    def max(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.max(self, axis, keepdims)

    @user_facing
    def all(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.all(self, axis, keepdims)

    @user_facing
    def any(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.any(self, axis, keepdims)

    @user_facing
    def argmin(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.argmin(self, axis, keepdims)

    @user_facing
    def argmax(self, axis: Any = None, keepdims: bool = False) -> Array:
        return later.reductions.argmax(self, axis, keepdims)

    def dot(self, other: Any) -> Array:
        return later.dot(self, other)

    @property
    def at(self) -> At:
        """`a.at[index].set(new)`, `.add`, `.multiply`, `.min`, `.max`: `a` with a part changed."""
        return later.At(self)

    def scheduled(self, schedule: Any = None, **named: Any) -> Array:
        """The same array, computed under another schedule."""
        if named or schedule is None:
            raise TracingError(
                "an array takes one schedule, for the operation that computes it.",
                hint="Write array.scheduled(Row()). Operations are scheduled by name in programs: "
                "td.jit(f).lower(…).scheduled(blur=Row()).",
            )
        if isinstance(self._leaves[0].node, Input):
            raise TracingError(
                "an input has no schedule: nothing computes it.",
                hint="Give the operation that reads it one: td.map(f, a, schedule=…).",
            )
        return later.relabel(self, None, schedule)  # type: ignore[no-any-return]


def _gather_in_kernel(array: Array, index: Any) -> Any:
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) != array.ndim or any(
        isinstance(p, slice) or p is None or p is Ellipsis for p in indices
    ):
        if len(indices) > array.ndim:
            raise AxisError(
                f"{len(indices)} indices for an array of rank {array.ndim}.",
                hint=f"Write exactly {array.ndim}.",
            )
        outer, where = enclosing_kernel() or ("", None)
        names = ", ".join("ijklmn"[k % 6] for k in range(array.ndim))
        raise NestedParallelismError(
            f"a kernel reads single elements, but this would make an array: {len(indices)} "
            f"indices for rank {array.ndim}.",
            also=((f"inside the scalar function of '{outer}':", where),),
            hint=f"Give every index: a[{names}]; or slice outside the kernel, before td.{outer}.",
        )
    at = [as_index(p, "an index") for p in indices]
    for axis, e in enumerate(at):
        if isinstance(e, Const) and int(e.value) < 0:
            error = IndexOutOfBounds(
                f"the index {int(e.value)} is outside axis {axis}: inside kernels indices never "
                "count from the end.",
                hint=f"Write a.shape[{axis}] - {-int(e.value)}.",
            )
            refuse_unless_guarded(array._element(at), error)
    return array._scalar_at(at)


def broadcast_map(
    build: Callable[[list[Expr]], Sequence[Expr]],
    operands: Sequence[Any],
    label: Label,
    structure: Structure = LEAF,
) -> Array:
    """An element-wise operation on operands (scalars and arrays) that broadcast."""
    forbid_nesting(label.operation)
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
    elements = tuple(as_strong(e) for e in build(values))
    node = Generate(shape, elements, label=label, where=user_location(), checks=checks)
    return Array(node.leaves, structure)


def map_over(
    array: Array, index: Sequence[Expr], shape: Shape, label: Label, checks: tuple[Check, ...] = ()
) -> Array:
    """An index transformation of every component: result[ix] = array[index(ix)]."""
    elements = tuple(array._element(index))
    node = Generate(shape, elements, label=label, where=user_location(), checks=checks)
    return Array(node.leaves, array.structure, shape)


later.offer(Array=Array)
