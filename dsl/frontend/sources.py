"""Convert external data to an `Array`."""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import errors, late_binding as later
from ..array import Array
from ..evaluator import evaluator, public
from ..expr import Const, Param
from ..graph import Input
from ..scalar import Scalar, number_by_itself
from ..types import LEAF, ScalarType, Structure, as_type, children_of, field_names, is_composite
from .refusals import SPARSE, no_array
from .tracing import enclosing_kernel

#: Array classes that need no conversion: `shape` is a tuple, `dtype` is NumPy's. A backend adds the
#: class of its device.
PLAIN_ARRAYS: set[type] = {np.ndarray}
#: Classes of arrays in parts, which a backend takes as they are.
IN_PARTS: set[type] = set()


_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__", "__array_interface__", "__array__")


def is_lazy(value: Any) -> bool:
    """Whether this is an array of dask, whose elements are not computed to inspect it."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(value, dask.Array)


def is_arraylike(value: Any) -> bool:
    """Whether this is an array: of NumPy or CuPy, with DLPack, `__cuda_array_interface__` or
    `__array__` (pandas), or of Python's array module."""
    if type(value) in PLAIN_ARRAYS or isinstance(value, np.ndarray):
        return True
    if isinstance(value, Array | Scalar | np.generic | type | ScalarType):
        return False
    return isinstance(value, memoryview | array) or any(hasattr(value, s) for s in _PROTOCOLS)


def is_rows(value: object) -> bool:
    """Whether this is an array where one is needed: a list, a range, or a plain tuple that is not
    made of arrays (`td.zip` takes these), or of tuples of classes."""
    return isinstance(value, list | range) or (
        type(value) is tuple and not any(map(_is_component, value))
    )


def _is_component(value: object) -> bool:
    fields = is_composite(value) and type(value) is not tuple
    return fields or isinstance(value, Array) or is_arraylike(value)


def takes_array(value: object) -> bool:
    """Whether an operand makes the result of an element-wise function an array."""
    return isinstance(value, Array) or is_arraylike(value) or is_rows(value)


_DLPACK_GPU = (2, 13)  # kDLCUDA, kDLCUDAManaged
_used: dict[int, tuple[weakref.ref[Any], weakref.ref[Input]]] = {}


def rows_by(operation: str) -> str:
    """The form of an operation that applies to the rows of an array."""
    function = public(operation)
    along = function is not None and "axis" in (errors.keywords(function) or ())
    return f"td.{operation}(a, axis=1)" if along else f"td.{operation}"


def _of_neighbours(function: str) -> str:
    """What to write instead of an array of several elements inside a kernel."""
    return (
        f"{function} passes single elements.  Stack shifted arrays instead, outside: "
        "td.median(td.stack([a[:-2], a[1:-1], a[2:]]), axis=0) is the median of three neighbours."
    )


def as_array(value: Any, operation: str = "an operation") -> Array:
    """Convert an Array, external data (implicit `use`) or a scalar (rank 0) to an Array."""
    if isinstance(value, Array):
        return value
    if is_rows(value):
        return use(list(value) if type(value) is tuple else value)
    of_fields = is_composite(value) and field_names(value)[:1] != (None,)
    if hasattr(value, "layers"):  # a schedule
        raise no_array(value, operation)
    if is_arraylike(value) or of_fields:
        return use(value)
    inside = enclosing_kernel()
    if isinstance(value, Scalar) and inside is not None:
        raise errors.NestedParallelismError(
            f"{operation} needs an array, but inside the function of {inside[0]!r} this is one "
            "element.",
            hint=_of_neighbours(inside[0])
            if operation == "stack"
            else f"{inside[0]} passes single elements: call {rows_by(operation)} on entire arrays, "
            "outside.",
        )
    if isinstance(value, Scalar | int | float | complex | np.generic):
        return later.unit(value)
    if (
        isinstance(value, tuple)
        and value
        and all(isinstance(x, Array) or is_arraylike(x) for x in value)
    ):
        alike = len({as_array(x).ndim for x in value}) == 1
        raise errors.TracingError(
            f"{operation} needs an array, got a tuple of {len(value)} arrays.",
            hint=f"td.zip(*arrays) makes one array of tuples: td.{operation}(…, td.zip(*arrays))."
            if alike
            else "Unpack it, values, count = …, as td.filter and td.compact return it.",
        )
    raise no_array(value, operation)


def normalise_source(value: Any) -> Any:
    """Host data as an ndarray without a copy; device data unchanged."""
    # (Asking for `np.ma` would import it.)
    if "numpy.ma" in sys.modules and isinstance(
        value._meta if is_lazy(value) else value, np.ma.MaskedArray
    ):
        raise errors.TracingError(
            "a masked array would lose its mask.",
            hint="Pass the data and the mask separately, or a.filled(value).",
        )
    if type(value) in PLAIN_ARRAYS or isinstance(value, np.ndarray) or is_lazy(value):
        return value
    if type(value) in IN_PARTS:
        return value
    if value is None or isinstance(value, str | Mapping | set):
        raise no_array(value, "use")
    if hasattr(value, "tocsr"):
        raise errors.DTypeError(
            f"a sparse matrix ({type(value).__name__}) is several arrays.", hint=SPARSE
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise errors.DTypeError(
            f"the integer {errors.shown(value)} does not fit in 64 bits.", hint="Use a float, 1e30."
        )
    if isinstance(value, list):
        return _of_list(value)
    try:
        if _on_gpu(value):
            # That of another library (PyTorch) gets NumPy's dtype, without a copy.
            return value if isinstance(value.dtype, np.dtype) else evaluator().borrowed(value)
        made = _of_protocols(value)
    except (errors.TreadleError, MemoryError):
        raise
    except Exception as error:
        raise _not_given(value, error) from error
    if made.dtype == object and not hasattr(value, "__array__"):
        raise no_array(value, "use")
    return made


def _of_protocols(value: Any) -> np.ndarray:
    """A NumPy array, without a copy where the object can be asked for its memory."""
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):
            # NumPy reads no bfloat16 by DLPack; an `__array__` may give ml_dtypes'.
            if not hasattr(value, "__array__"):
                raise
    return np.asarray(value)


def _not_given(value: Any, error: Exception) -> errors.TreadleError:
    """The error for an array that another library does not hand out."""
    name = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
    if "racer" in type(value).__name__:
        return errors.TracingError(
            f"{name} has no values: another library is tracing this function.",
            hint="Call treadle outside of it, on the arrays that it returns.",
        )
    if getattr(value, "requires_grad", False) is True:
        return errors.TracingError(
            f"a {name} that takes part in automatic differentiation cannot be used.",
            hint="Pass x.detach(); what treadle computes is then a constant of its derivatives.",
        )
    dtype = getattr(value, "dtype", None)
    if "bfloat16" in str(dtype):
        return errors.DTypeError(
            f"a {name} of {dtype} cannot be read: NumPy has no such type.",
            hint="Pass x.float(), or x.view(torch.int16).numpy().view(td.bfloat16.numpy).",
        )
    reason = str(error).partition("\n")[0].rstrip(".")
    return errors.TracingError(
        f"a {name} cannot be used: {reason}.", hint="Pass what NumPy converts to numbers."
    )


def _of_list(value: list[Any]) -> np.ndarray:
    if any(isinstance(x, Array) for x in value):
        raise errors.TracingError(
            "a list of treadle's arrays is not an array.",
            hint="td.stack([a, b]) makes one array of several.",
        )
    traced = [x._expr for x in entries(value)
              if isinstance(x, Scalar) and not isinstance(x._expr, Const)]  # fmt: skip
    if traced and isinstance(traced[0], Param) and traced[0].name.endswith("]"):
        raise number_by_itself(traced[0])
    inside = enclosing_kernel()
    if traced:
        raise errors.TracingError(
            "a list with a run-time number is not an array.",
            hint="td.stack([k, 2]) makes one array of several numbers."
            if inside is None
            else _of_neighbours(inside[0]),
        )
    try:
        return np.asarray(value)
    except ValueError:
        raise errors.ShapeError(
            "lists of different lengths do not make an array.",
            hint="Concatenate the rows, and pass their lengths separately: td.fold_seg and similar "
            "operations work on such rows.",
        ) from None


def entries(value: Sequence[Any]) -> Iterator[Any]:
    """What is in nested lists and tuples."""
    for x in value:
        if isinstance(x, list | tuple):
            yield from entries(x)
        else:
            yield x


def _on_gpu(value: Any) -> bool:
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__dlpack__") and int(value.__dlpack_device__()[0]) in _DLPACK_GPU


def host_array(value: Any) -> Any:
    """Data as a NumPy array in native byte order."""
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@errors.user_facing_maker
def use(x: Any) -> Array:
    """Make an array of external data with the shape and type of `x`, without a copy; of a scalar,
    the array of rank 0; of a tuple, named tuple or dataclass of arrays, the array of these.

    Elements are read when a program runs, so earlier changes to them are seen.  Later changes to
    `x.shape`, `x.strides` or `x.dtype` are not.

    Parameters
        x: an array of NumPy, CuPy, PyTorch, JAX or Dask; anything with DLPack or a buffer; numbers
            and lists.

    Result: an array of the same shape and type.

    >>> import numpy as np, treadle as td
    >>> td.run(td.use(np.array([1, 2])) + 1)
    array([2, 3])
    """
    if isinstance(x, Array):
        return x
    if type(x) is np.ndarray:
        return Array._of_input(_input_of(x))
    if is_composite(x) and not is_arraylike(x):  # (an array of zarr's is a dataclass, too)
        parts = [use(part) for part in children_of(x)]
        whole = later.zip(*parts)
        structure = Structure(type(x), tuple(part.structure for part in parts))
        return Array(whole._leaves, structure, whole._shape)
    if isinstance(x, Scalar):
        return as_array(x, "use")
    source = normalise_source(x)
    if not hasattr(source, "shape") or not hasattr(source, "dtype"):
        raise no_array(x, "use")
    return Array._of_input(_input_of(source))


def owned(array: Array) -> Array:
    """The array with a copy of its data, as they are now, if these are an array of NumPy's that was
    given to `use`, which others may change later."""
    given = {node() for _, node in list(_used.values())}
    leaves = list(array._leaves)
    for k, leaf in enumerate(leaves):
        if leaf.node in given and isinstance(leaf.node.source, np.ndarray):
            made = _new_input(leaf.node.source.copy())
            made.owned, leaves[k] = True, made.leaf()
    return array if tuple(leaves) == tuple(array._leaves) else Array(leaves, array.structure)


def computed(
    values: Sequence[Any], structure: Structure = LEAF, where: errors.Location | None = None
) -> Array:
    """An array with values that a program has computed, one for each component.  Nobody else has
    them, so they are not remembered as `use`d data."""
    if len(values) == 1:
        return Array._of_input(_new_input(values[0], where), structure)
    return Array([_new_input(value, where).leaf() for value in values], structure)


def _input_of(source: Any) -> Input:
    """The node of data that need not be converted: one for each array, while it is used."""
    cached = _used.get(id(source))
    if cached is not None:
        node = cached[1]()
        if cached[0]() is source and node is not None and _matches(node, source):
            node.where = _in_one_place(node.where, errors.user_location())
            return node
    node = _new_input(source)
    try:
        key = id(source)
        _used[key] = (weakref.ref(source), weakref.ref(node, lambda _: _used.pop(key, None)))
    except TypeError:
        pass  # not weakly referable: not cached
    return node


def _new_input(source: Any, where: errors.Location | None = None) -> Input:
    return Input(
        "input",
        as_type(source.dtype),
        tuple(int(n) == 1 for n in source.shape),
        # (A view, so that a later assignment to `x.shape` does not affect it.)
        source=source.view() if hasattr(source, "view") and not is_lazy(source) else source,
        where=where or errors.user_location(),
    )


def _in_one_place(
    before: errors.Location | None, here: errors.Location | None
) -> errors.Location | None:
    """The location where an array is used, or None if there are several."""
    if before is None or here is None or (before.file, before.line) != (here.file, here.line):
        return None
    return before


def _matches(node: Input, source: Any) -> bool:
    """Whether an array still has the memory layout with which it was used."""
    used = node.source
    if type(used) is type(source) is np.ndarray:
        return bool(
            used.shape == source.shape
            and used.strides == source.strides
            and used.dtype == source.dtype
        )
    return all(getattr(used, k, None) == getattr(source, k, None) for k in _LAYOUT)


_LAYOUT = ("shape", "strides", "dtype")


later.offer(as_array=as_array, is_arraylike=is_arraylike, is_rows=is_rows, owned=owned)
