"""Changing a part of an array: update, and `a.at[index].set`, `add`, `multiply`, `min`, `max`.

A part given by integers, slices and integer arrays becomes a `Permute` whose domain is the part, so
an array that is updated in place costs as much as its part.  A boolean array chooses element by
element, as `where` does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ... import errors, late_binding as later, simplify
from ...annotations import ArrayLike, Element, Function, Indexing
from ...array import Array, generated, require_scalars
from ...expr import TRUE, Expr, Read, constant, walk
from ...frontend.call_cache import CallCache, extents_of, type_of
from ...frontend.deferred import Literals
from ...frontend.refusals import never_set
from ...frontend.sources import as_array, is_arraylike, is_rows
from ...frontend.suggestions import AT_METHODS
from ...frontend.tracing import forbid_nesting, is_tracing
from ...graph import Check, Combine, Label, Permute, Shape, indices, known
from ...scalar import Scalar, apply_primitive, fit_weak, lift, yields
from ...shapes import show_shape, stretch_checks, stretched
from ...types import flatten
from ..common import combining_method, flatten_value, method, operation, trace_combine
from .parts import index_parts, mask_checks, part_of, unwrapped

__all__ = ["update"]


@operation
def update(a: ArrayLike, index: Indexing, new: Element) -> Array:
    """`a` with `new` in place of `a[index]`: NumPy's `a[index] = new`, as a new array.

    `index`: integers, slices, `...` and None, all of which may be run-time scalars; integer arrays,
    as in NumPy, where of several elements for one index the last in row order stays; or a boolean
    array over all axes of `a`, or its first ones.  `new` is broadcast to the part (for a boolean
    array: to `a`) and cast to the type of `a`; a literal must fit in it.

    Negative numbers count from the end.  A Python integer out of range is an error
    (`IndexOutOfBounds`), and so is one in a NumPy array outside of traced functions; a run-time one
    changes nothing, and is reported in checked mode.

    Parameters
        index: an index as in `a[index]`.
        new: the new elements: numbers or an array that broadcasts to the part.

    >>> td.run(td.update(np.zeros((2, 4), int), (0, slice(1, None, 2)), [7, 8]))
    array([[0, 7, 0, 8],
           [0, 0, 0, 0]])
    """
    return _updated(a, index, new, "update")


@never_set
class At:
    """`a.at`: its parts, `a.at[index]`, are changed by `set`, `add`, `multiply`, `min` and `max`,
    each of which returns a new array.

    >>> import numpy as np, treadle as td
    >>> a = td.use(np.array([1, 2, 3]))
    >>> td.run(a.at[1:].multiply(10)), td.run(a.at[[0, 0]].add([5, 6]))
    (array([ 1, 20, 30]), array([12,  2,  3]))
    """

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __repr__(self) -> str:
        return "<.at of an array: a.at[index].set(new), a.at[index].add(new)>"

    def __getitem__(self, index: Indexing) -> Part:
        return Part(self._array, index)

    def __setitem__(self, index: Indexing, new: Element) -> None:
        raise errors.TracingError(
            "arrays are immutable.", hint="Make a new one: a = a.at[index].set(new)."
        )

    def __call__(self, *_: Any) -> Part:
        raise errors.TracingError("a.at is not called.", hint="Write a.at[index].set(new).")

    def __getattr__(self, name: str) -> NoReturn:
        said = f"Write a.at[index].{name}(new)." if hasattr(Part, name) else repr(self)
        raise errors.no_attribute(f"a.at has no {name!r} without an index.  {said}", name)


@never_set
@errors.user_facing_methods
class Part:
    """`a.at[index]`.  The methods return `a` with the part changed; the index and `new` are those
    of `td.update`.

    `set` is `td.update`.  The others combine `new` with the elements there, all that have the same
    place; float sums and products of such elements may differ in their last bits from run to run
    unless `deterministic=True`.
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Array, index: Indexing) -> None:
        self._array, self._index = array, index

    def __repr__(self) -> str:
        return "<a part of an array: .set(new), .add(new), … return the array with it changed>"

    @method
    def set(self, new: Element) -> Array:
        """The array with `new` in place of the part."""
        return _called(None, self._array, self._index, new)

    @combining_method
    def add(self, new: Element) -> Array:
        """The array with `new` added to the part."""
        return self._combined("add", new)

    @combining_method
    def multiply(self, new: Element) -> Array:
        """The array with the part multiplied by `new`."""
        return self._combined("multiply", new)

    @combining_method
    def min(self, new: Element) -> Array:
        """The array with the smaller of the part and `new`; NaN if one of them is."""
        return self._combined("minimum", new)

    @combining_method
    def max(self, new: Element) -> Array:
        """The array with the larger of the part and `new`; NaN if one of them is."""
        return self._combined("maximum", new)

    def _operated(self, *_: object, **__: object) -> NoReturn:
        raise errors.TracingError(
            "a part of an array, a.at[index], has methods and no operators.",
            hint="Write a = a.at[index].add(new), multiply, min, max or set; a[index] reads it: "
            "a = a.at[index].set(f(a[index])).",
        )

    if not TYPE_CHECKING:
        __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = _operated
        __ipow__ = __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = _operated
        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _operated
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __matmul__ = __rmatmul__ = _operated
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _operated
        __bool__ = __int__ = __float__ = __getitem__ = __array__ = __array_ufunc__ = _operated
        __hash__ = None

    def _combined(self, primitive: str, new: Element) -> Array:
        return _called(primitive, self._array, self._index, new)

    def __getattr__(self, name: str) -> Any:
        methods = ["set", "add", "multiply", "min", "max"]
        if name in AT_METHODS:
            raise errors.no_attribute(f"a.at[…] has no {name!r}: {AT_METHODS[name]}.", name)
        advice = errors.did_you_mean(name, methods) or f"Its methods: {', '.join(methods)}."
        raise errors.no_attribute(f"a.at[…] has no {name!r}.  {advice}", name)


#: In place of an integer of an index, which is a run-time number.
_VARIES = "position"


@lru_cache(maxsize=16)
def _calls(primitive: str | None, varying: bool) -> CallCache:
    """The cached calls of the method that combines elements by a primitive; None: of `set`.
    Positions that are `varying` follow the new elements."""

    def combine(new: Scalar, old: Scalar) -> Scalar:
        return Scalar(apply_primitive(str(primitive), [new._expr, old._expr]))

    def compute(array: Array, index: Indexing, new: Element, *positions: Any) -> Array:
        if positions:
            left = iter(positions)
            parts = index if isinstance(index, tuple) else (index,)
            index = tuple([next(left) if p is _VARIES else p for p in parts])
        if primitive is None:
            return _updated(array, index, new, "a.at[…].set")
        called = f"a.at[…].{primitive.removesuffix('imum')}"
        require_scalars(array, called, ", or write td.permute(f, a, …)")
        return _updated(array, index, new, called, combine)

    return CallCache(compute, "all" if varying else "none")


def _called(primitive: str | None, array: Array, index: Indexing, new: Element) -> Array:
    """An update outside or inside of compiled functions."""
    varying = None if is_tracing() else _varying(array, index, new)
    args = (array, index, new) if varying is None else (array, *varying)
    return _calls(primitive, varying is not None)(args, {})  # type: ignore[return-value]


def _updated(a: Any, index: Indexing, new: Element, called: str,
             function: Function | None = None) -> Array:  # fmt: skip
    """`a` with `new`, or with `function(new, old)`, at the part; errors name `called`."""
    forbid_nesting("update")
    where = errors.user_location()
    array = as_array(a, called)
    combine = None
    if function is not None:
        combine = trace_combine(function, array.structure, array.types, called, where)
    index = unwrapped(index)
    mask = _mask(index)
    if mask is not None and not _of_chosen(new, array, mask):
        return _chosen(array, mask, new, called, combine)
    part = part_of(array, index, called, reading=False)
    values, checks = _values(new, array, part.shape, called)
    label = Label("update", deterministic=combine is None and part.repeats)
    node = Permute(part.shape, TRUE, part.target, values, array._leaves, combine, label=label,
                   where=where, checks=(*part.checks, *checks))  # fmt: skip
    return Array(node.leaves, array.structure, array._shape)


#: The positions and new numbers of updates outside of compiled functions.
_seen = Literals()


def _varying(array: Array, index: Indexing, new: Element) -> tuple[Any, ...] | None:
    """The index without its integers, the new element as data, and these integers, which are in
    range, if a few calls differed only in these numbers: the iterations of a Python loop,
    `a = a.at[k].set(x)`.  None if not."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(map(_is_plain, parts)):
        return None
    t, extents = type_of(array), extents_of(array)
    if t is None or extents is None:
        return None
    numbers = [p for p in parts if type(p) is int]
    number = type(new) in (int, float, complex)
    if number:
        whole = type(new) is int and t.is_integer and t.lowest <= new <= t.highest
        if not (whole or t.is_complex or (t.is_float and type(new) is not complex)):
            return None  # an error, or a float that is an integer
        numbers.append(new)
    family = t, extents, tuple(_VARIES if type(p) is int else repr(p) for p in parts)
    if not numbers or not _seen.vary((*family, len(numbers)), tuple(numbers)):
        return None
    made: list[Any] = []
    positions: list[int] = []
    axis = 0
    for part in index_parts(index, len(extents)):
        if type(part) is int:
            n = extents[axis]
            if not -n <= part < n:
                return None  # an error, of numbers
            positions.append(part % n)
        made.append(_VARIES if type(part) is int else part)
        axis += part is not None
    return tuple(made), np.asarray(new).astype(t.numpy) if number else new, *positions


def _is_plain(part: object) -> bool:
    """Whether a part of an index is made of Python numbers."""
    if isinstance(part, slice):
        return all(type(e) in (int, type(None)) for e in (part.start, part.stop, part.step))
    return type(part) is int or part is None or part is Ellipsis


# --- the new elements ------------------------------------------------------------------------


def _values(new: Element, array: Array, shape: Shape, called: str
            ) -> tuple[tuple[Expr, ...], tuple[Check, ...]]:  # fmt: skip
    """The components of the new element at an index of `shape`, in the types of the array."""
    if _is_array(new) or (is_rows(new) and array.structure.is_leaf):
        given = as_array(new, called)
        if not given.structure.same_nesting(array.structure):
            raise errors.DTypeError(
                f"{called}: the array has elements {array.structure.describe(array.types)}, the "
                f"new ones are {given.structure.describe(given.types)}.",
                hint="Both need the same nesting.",
            )
        fitted, checks = _fitted(given, shape, called)
        found = given._element(fitted)
    else:
        found, checks = [], ()
        for leaf in _components(new, array, called):
            if _is_array(leaf):
                given = as_array(leaf, called)
                fitted, more = _fitted(given, shape, called)
                found += given._element(fitted)
                checks += more
            else:
                found.append(lift(leaf, called))
    values = (
        fit_weak(e, t) if yields(e, t) else simplify.cast(e, t)
        for e, t in zip(found, array.types, strict=True)
    )
    return tuple(values), checks


def _components(new: Element, array: Array, called: str) -> list[Any]:
    if array.structure.is_leaf:
        return [new]
    leaves, nesting = flatten(new, _is_array)
    if isinstance(new, list) or not nesting.same_nesting(array.structure):
        return flatten_value(new, array.structure, "the new element", called)  # raises the error
    return leaves


def _is_array(value: Any) -> bool:
    return isinstance(value, Array) or is_arraylike(value)


def _fitted(given: Array, shape: Shape, called: str) -> tuple[tuple[Expr, ...], tuple[Check, ...]]:
    """The index of the given array for an index of `shape`, to which it is broadcast; as in NumPy,
    it may have more axes in front if their extent is 1."""
    own = given._shape
    extra = max(len(own) - len(shape), 0)
    misfit = f"{called}: {show_shape(own)} does not broadcast to the part {show_shape(shape)}"
    if any(known(e) != 1 for e in own[:extra]):
        raise errors.ShapeError(f"{misfit}: it has {len(own)} axes.", hint=_BROADCAST)
    checks = stretch_checks(own[extra:], shape, misfit, _BROADCAST)
    return ((constant(0),) * extra + stretched(own[extra:], shape)), checks


_BROADCAST = "The new elements have the shape of a[index], or extents of 1 that stretch to it."

# --- by a boolean array ----------------------------------------------------------------------


def _mask(index: Any) -> Array | None:
    if not (isinstance(index, list | Scalar) or _is_array(index)):
        return None
    found = as_array(index, "an index")
    return found if found.structure.is_leaf and found.types[0].family == "bool" else None


def _of_chosen(new: Element, array: Array, mask: Array) -> bool:
    """Whether new elements are those of the places where the mask holds, one after the other, as in
    NumPy: their number depends on data, or they do not broadcast to the array."""
    for leaf in [new] if array.structure.is_leaf else flatten(new, _is_array)[0]:
        if not (_is_array(leaf) or is_rows(leaf)):
            continue
        shape = as_array(leaf, "update")._shape
        masked = len(shape) - (array.ndim - mask.ndim)  # its axes that the mask covers
        for axis in range(max(masked, 0)):
            at = axis + array.ndim - len(shape)
            if at < 0:
                continue
            whole = {known(a._shape[at]) for a in (array, mask)} - {None}
            own = known(shape[axis])
            if any(isinstance(e, Read) for e in walk((shape[axis],))):
                return True
            if own not in (None, 1) and whole and own not in whole:
                return True
    return False


def _chosen(array: Array, mask: Array, new: Element, called: str, combine: Combine | None) -> Array:
    """The new elements where the mask holds."""
    if mask.ndim > array.ndim:
        raise errors.ShapeError(
            f"{called}: a boolean array of rank {mask.ndim} for an array of rank {array.ndim}.",
            hint="It has the shape of the array, or of its first axes.",
        )
    checks = mask_checks(array._shape, mask)
    index = indices(array.ndim)
    old = tuple(array._element(index))
    (chosen,) = mask._element(index[: mask.ndim])
    values, more = _values(new, array, array._shape, called)
    if combine is not None:
        values = combine.of(values, old)
    elements = tuple(simplify.select(chosen, v, o) for v, o in zip(values, old, strict=True))
    return generated(array._shape, elements, "update", (*checks, *more), array.structure)


later.offer(At=At)
