"""The values of arrays outside of traced functions: computed on demand, once, and kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import late_binding as later
from ..array import Array, generated
from ..errors import Location, ShapeError, TracingError, TreadleError
from ..evaluator import evaluator
from ..expr import Apply, Const, Expr, Extent, Read, walk
from ..graph import ArrayLoop, Input, known, topological
from ..process import locks
from ..process.configuration import settings
from ..scalar import Scalar, as_strong
from ..target import target_of
from ..types import LEAF, Structure, bfloat16
from . import deferred
from .held import kept_beside
from .refusals import given_to_numpy
from .sources import PLAIN_ARRAYS, computed, host_array, is_lazy, use
from .tracing import is_tracing

if TYPE_CHECKING:
    from .deferred import Result

_keeping = locks.lock()


def is_closed(array: Array) -> bool:
    """Whether the array can be computed now: no function is being traced, and it depends on no
    argument of one and on no state of a loop."""
    if is_tracing():
        return False
    if array._pending is not None:
        return True
    if len(array._leaves) == 1 and isinstance(only := array._leaves[0].node, Input):
        return only.source is not None
    nodes = list(topological(array._leaves))
    own = {state for node in nodes if isinstance(node, ArrayLoop) for state in node.bound}
    return all(node.source is not None or node in own for node in nodes if isinstance(node, Input))


def value_of_scalar(e: Expr) -> Any:
    """The number that a scalar of the program is: of known extents, or outside of traced functions
    of arrays that are closed.  None for others."""
    value = known(e)
    if value is not None or is_tracing():
        return value
    array = _closed(e)
    return None if array is None else on_host(values_of(array, "a scalar")[0])[()]


def _closed(e: Expr) -> Array | None:
    """A number as an array that can be computed now; None for others."""
    parts = list(walk((e,)))
    own = {v for x in parts for v in x.vars}  # those of loops
    if not all(isinstance(x, Read | Extent | Apply | Const) or x.args or x in own for x in parts):
        return None
    array = generated((), (e,), "value")
    return array if is_closed(array) else None


def number(e: Expr) -> Array | Scalar:
    """A number that an operation returns: outside of traced functions an array of rank 0, which
    is computed once, and which a Python loop may carry on; a symbol where there is no value yet."""
    array = None if is_tracing() else _closed(as_strong(e))
    return Scalar(e) if array is None else array


def no_value(array: Array, what: str, hint: str | None = None) -> TracingError:
    """The error where `what` needs the value of an array that is not closed."""
    if hint is None:
        hint = given_to_numpy(scalar=False) or (
            "Arrays have no values while a program is traced: operators and td's functions take "
            "the array itself; td.the(a) makes a scalar of a rank-0 array.  An array g of NumPy is "
            "indexed by it as td.use(g)[a]."
        )
        inputs = [n for n in topological(array._leaves) if isinstance(n, Input)]
        if not is_tracing() and not any(n.source is None and n.until is None for n in inputs):
            hint = "It belongs to a function whose call has ended: return it from that function."
    return TracingError(f"{what} needs the value of an array that is not computed.", hint=hint)


def values_of(array: Array, what: str, hint: str | None = None) -> list[Any]:
    """The arrays of the components, on the device where they were computed: computed at the first
    call, and kept instead of the expression, so that what is built later reads them.

    A value belongs to the handle: it lives as long as the array and what was built from it.
    """
    deferred.values_are_read()
    result = array._pending
    if result is not None and not is_tracing():
        value = deferred.value(array)
        if value is not None:
            return [value]
        deferred.forget(array)
    data = known_values(array)
    if data is not None and not is_tracing():
        return data
    if not is_closed(array):
        raise no_value(array, what, hint)
    beside = kept_beside(array)
    together = [array, *beside.on_the_way]
    others = [a for a in beside.others if is_closed(a)]
    try:
        made = _computed([*together, *others])
        together += others
    except TreadleError:
        if not others:
            raise
        made = _computed(together)  # an error of an array that nobody asked for is not reported
    with _keeping:
        data = known_values(array)  # another thread may have been faster
        for one, its in zip(together, made, strict=True):
            if known_values(one) is None:
                _keep(one, its, result if one is array else one._pending)
    return made[0] if data is None else data


def values_now(array: Array) -> Sequence[Any] | None:
    """The values that the array has, or that a cached call computes without tracing anything; None
    for others."""
    if array._pending is None:
        return known_values(array)
    deferred.values_are_read()
    value = deferred.value(array)
    return None if value is None else [value]


def _computed(arrays: Sequence[Array]) -> list[list[object]]:
    """The values of the components of each array, by one program."""
    values = iter(evaluator().values([leaf for a in arrays for leaf in a._leaves]))
    return [[next(values) for _ in a._leaves] for a in arrays]


def _keep(array: Array, values: Sequence[Any], result: Result | None) -> None:
    """Let the array, and the only result of a call that it was, be these values, instead of the
    expression that computed them."""
    array._become(known_array(values)._leaves)
    if result is not None and result.call.cached.count == 1 and result.call.values is None:
        result.call.keep(values)


def known_values(array: Array) -> list[Any] | None:
    """The data of an array that was given, or computed already, in native byte order."""
    found = []
    for leaf in array._leaves:
        if not isinstance(leaf.node, Input) or leaf.node.source is None:
            return None
        given = leaf.node.source
        swapped = isinstance(given, np.ndarray) and not given.dtype.isnative
        found.append(host_array(given) if swapped else given)
    return found


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """A computed or a given array as NumPy's, which cannot be written."""
    if not isinstance(value, np.ndarray) and hasattr(value, "get"):
        value = value.get()
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view


def host_value(array: Array, what: str, hint: str | None = None) -> Any:
    """The value as NumPy arrays in the structure of the elements: one array for scalars.  That of
    arrays of dask is computed here, and kept."""
    values = values_of(array, what, hint)
    found = [on_host(v) for v in values]
    if any(map(is_lazy, values)):
        with _keeping:
            _keep(array, found, array._pending)
    return array.structure.build(found)


def one_array(array: Array, what: str, hint: str | None = None) -> np.ndarray[Any, Any]:
    """The value of an array of scalars."""
    if not array.structure.is_leaf:
        raise TracingError(
            f"{what} needs an array of scalars: the elements are tuples.",
            hint="Take it apart: x, y = td.unzip(a).",
        )
    value: np.ndarray[Any, Any] = host_value(array, what, hint)
    return value


def one_number(
    array: Array,
    what: str,
    convert: Callable[[Any], Any],
    instead: Callable[[], str | None] = lambda: None,
) -> Any:
    """`convert` of the value of a rank-0 array; `instead` gives the hint where there is none."""
    known = None if is_tracing() else deferred.data_of(array)
    if known is None:
        value = one_array(array, what, None if is_closed(array) else instead())
    else:
        deferred.values_are_read()
        value = known
    if value.ndim:
        raise ShapeError(
            f"{what} needs one number, but the array has the shape {value.shape}.",
            hint="Index it, a[i], or reduce it: td.sum(a), td.any(a), td.all(a).",
        )
    return convert(value.item())


def exported(array: Array, readonly: bool = False) -> Any:
    """The value for DLPack, where it was computed; whoever takes it must not write to it.  Of
    values of NumPy's, `readonly` makes this a part of what is taken: DLPack 1.0 can say it."""
    one = array.structure.is_leaf
    value = values_of(array, "DLPack")[0] if one else one_array(array, "DLPack")
    if readonly and isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def known_array(
    values: Sequence[Any], structure: Structure = LEAF, where: Location | None = None
) -> Array:
    """An array with these values of its components (also: of a pickled array), made at a place:
    by default the user's line."""
    if any(type(value) not in PLAIN_ARRAYS for value in values):
        return Array([use(value)._leaves[0] for value in values], structure)
    return computed(values, structure, where)


def interface(array: Array) -> dict[str, Any]:
    """`__array_interface__` of the value, whose data is an object with a buffer, so that it lives
    as long as it is used; an AttributeError where there is no value now, and for elements that the
    protocol cannot name: tuples and bfloat16 (`__array__` serves NumPy there)."""
    if not (is_closed(array) and array.structure.is_leaf):
        raise AttributeError("no __array_interface__")  # (Array.__getattr__ says it in its own way)
    value = np.asarray(one_array(array, "__array_interface__"), order="C")
    if value.dtype == bfloat16.numpy:
        raise AttributeError("no __array_interface__")
    # (With strides Pillow asks for bytes, and not for a buffer of the array itself.)
    return {"shape": value.shape, "typestr": value.dtype.str, "data": value,
            "strides": value.strides, "version": 3}  # fmt: skip


def structure_of(array: Array) -> object:
    """`__array_struct__` of a value that the array keeps on the host; an AttributeError for others:
    NumPy holds the array, not what it is given here."""
    if not is_tracing() and array.structure.is_leaf and is_closed(array):
        (value,) = values_of(array, "NumPy")
        if type(value) is np.ndarray and value.dtype.isbuiltin == 1:
            return on_host(value).__array_struct__
    raise AttributeError("no __array_struct__")  # (Array.__getattr__ says it in its own way)


def on_gpu(array: Array) -> Any:
    """`__cuda_array_interface__` of the value; an AttributeError where that is on the host."""
    data = known_values(array)
    gpu = target_of(evaluator().choose_backend(settings().backend)).gpu if data is None else True
    if gpu and is_closed(array) and array.structure.is_leaf:
        value = values_of(array, "__cuda_array_interface__")[0]
        if hasattr(value, "__cuda_array_interface__"):
            return value.__cuda_array_interface__
    raise AttributeError("the array is not on a GPU")  # (Array.__getattr__ says it in its own way)


later.offer(computed=sys.modules[__name__])
