"""Stencils: each element computed from a neighbourhood, with boundary conditions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from .. import errors, late_binding as later, simplify
from ..analysis.short_extents import short_extent
from ..annotations import ArrayLike, Element, Function, FunctionN, ScheduleLike
from ..array import Array, generated, require_scalars
from ..expr import Apply, Cond, Const, Expr, Index, Loop, Proj, Read, Var, constant, substitute
from ..frontend import tracing
from ..frontend.sources import as_array
from ..frontend.suggestions import BOUNDARIES
from ..graph import Check, Generate, Label, indices, known
from ..scalar import Scalar, apply_primitive, lift, refuse_argument, refuse_traced
from ..shapes import require, same_shape
from ..types import ScalarType, bool_, int64, kind_of_literal, promote
from .common import (
    checked,
    combining,
    fit_to,
    flatten_value,
    integer,
    label_of,
    operation,
    trace_elements,
)
from .elements import functions as f

__all__ = ["clamp", "convolve", "correlate", "mirror", "stencil", "symmetric", "wrap"]

P = ParamSpec("P")
R = TypeVar("R")
#: The modes of `correlate` and `convolve`.
Mode = Literal["same", "full", "valid"]


class BoundaryCondition:
    """The values that a stencil reads outside its array: `td.clamp`, `td.mirror`, `td.symmetric`,
    `td.wrap`, or made by `td.constant(v)` and `td.function(g)`."""

    def __init__(self, kind: str, payload: Any = None, doc: str | None = None) -> None:
        self.kind, self.payload = kind, payload
        if doc is not None:
            self.__doc__ = doc

    def __repr__(self) -> str:
        if self.kind in ("constant", "function"):
            return f"td.{self.kind}({self.payload!r})"
        return f"td.{self.kind}"

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise errors.TracingError(
            f"{self!r} is a value, not a function.", hint=f"Write boundary={self!r}."
        )


clamp = BoundaryCondition(
    "clamp",
    doc="""Outside the array, the nearest element: … 0 0 | 0 1 2 | 2 2 …, by index.

The default of `td.stencil`; NumPy's pad calls it "edge", SciPy "nearest".

>>> import numpy as np, treadle as td
>>> td.stencil(lambda w: w[-1], np.array([3, 1, 2]), boundary=td.clamp)
Array([3, 3, 1])

See also `mirror`, `symmetric`, `wrap`, `constant`, `function`.
""",
)
mirror = BoundaryCondition(
    "mirror",
    doc="""Outside the array, its reflection at the edge element: … 2 1 | 0 1 2 | 1 0 …, by index.

The edge itself is not repeated; NumPy's pad calls it "reflect", SciPy "mirror".

>>> import numpy as np, treadle as td
>>> td.stencil(lambda w: w[-1], np.array([3, 1, 2]), boundary=td.mirror)
Array([1, 3, 1])

See also `clamp`, `symmetric`, `wrap`, `constant`, `function`.
""",
)
symmetric = BoundaryCondition(
    "symmetric",
    doc="""Outside the array, its reflection, edge included: … 1 0 | 0 1 2 | 2 1 …, by index.

NumPy's pad calls it "symmetric", SciPy "reflect".

>>> import numpy as np, treadle as td
>>> td.stencil(lambda w: w[-2], np.array([3, 1, 2]), boundary=td.symmetric)
Array([1, 3, 3])

See also `clamp`, `mirror`, `wrap`, `constant`, `function`.
""",
)
wrap = BoundaryCondition(
    "wrap",
    doc="""Outside the array, its other side, as on a ring: … 1 2 | 0 1 2 | 0 1 …, by index.

For periodic domains; NumPy's pad and SciPy call it "wrap".

>>> import numpy as np, treadle as td
>>> td.stencil(lambda w: w[-1], np.array([3, 1, 2]), boundary=td.wrap)
Array([2, 3, 1])

See also `clamp`, `mirror`, `symmetric`, `constant`, `function`.
""",
)


def _public(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Rename a public function whose name in this module differs."""

    def named(function: Callable[P, R]) -> Callable[P, R]:
        function.__name__ = function.__qualname__ = name
        return errors.user_facing_maker(function)

    return named


@_public("constant")
def constant_boundary(value: Element) -> BoundaryCondition:
    """The boundary condition that reads `value` outside the array.

    Parameters
        value: the number, or the tuple for arrays of tuples.

    Result: a value for `boundary=`.

    >>> import numpy as np, treadle as td
    >>> td.stencil(lambda n: n[-1], np.array([3, 1, 2]), boundary=td.constant(9))
    Array([9, 3, 1])

    See also `clamp`, `mirror`, `symmetric`, `wrap`, `function`.
    """
    return BoundaryCondition("constant", value)


@_public("function")
def function_boundary(g: Function) -> BoundaryCondition:
    """The boundary condition `g(i, j, …)`, called with the out-of-range source index.

    Parameters
        g: a function of the index outside the array, one integer for each axis; it returns the
            element.

    Result: a value for `boundary=`.

    >>> import numpy as np, treadle as td
    >>> td.stencil(lambda n: n[-1], np.array([3, 1, 2]), boundary=td.function(lambda i: 100 * i))
    Array([-100,    3,    1])

    See also `clamp`, `mirror`, `symmetric`, `wrap`, `constant`.
    """
    if not callable(g):
        raise errors.TracingError(
            f"td.function needs a function of the coordinates, got {type(g).__name__}.",
            hint="For a value use td.constant(v).",
        )
    return BoundaryCondition("function", g)


def resolve_index(kind: str, i: Expr, n: Expr) -> Expr:
    """The index in 0 … n − 1 to which a boundary maps index `i`; correct for every n ≥ 1.

    clamp: the edge; mirror: … 2 1 0 1 2 … (NumPy's reflect); symmetric: … 1 0 0 1 …; wrap: modulo.
    """
    one = constant(1)
    last = apply_primitive("subtract", [n, one])
    if kind == "clamp":
        low = apply_primitive("maximum", [i, constant(0)])
        return apply_primitive("minimum", [low, last])
    if kind == "wrap":
        return apply_primitive("remainder", [i, n])
    if kind == "mirror":
        # The period is 2(n − 1); at n = 1 every index is 0.
        period = apply_primitive("maximum", [apply_primitive("multiply", [last, constant(2)]), one])
        r = apply_primitive("remainder", [i, period])
        back = apply_primitive("subtract", [period, r])
        folded = apply_primitive("minimum", [r, back])
        return apply_primitive("minimum", [folded, last])
    if kind == "symmetric":
        period = apply_primitive("multiply", [n, constant(2)])
        r = apply_primitive("remainder", [i, period])
        back = apply_primitive("subtract", [apply_primitive("subtract", [period, one]), r])
        return apply_primitive("minimum", [r, back])
    raise ValueError(f"unknown boundary {kind!r}")


def resolved_index(e: Expr) -> tuple[str, Expr] | None:
    """The kind and the index i such that `e` may be `resolve_index(kind, i, n)` for some extent n.

    A caller that knows n calls `resolve_index` and compares the result with `e`.
    """
    if not isinstance(e, Apply):
        return None
    if e.op.name == "remainder":
        return "wrap", e.args[0]
    if e.op.name != "minimum":
        return None
    kinds = ("symmetric", "mirror")
    for kind, x in zip(kinds, (e, e.args[0]), strict=True):
        first = x.args[0] if x.args else x
        if isinstance(first, Apply) and first.op.name == "remainder":
            return kind, first.args[0]
    first = e.args[0]
    if isinstance(first, Apply) and first.op.name == "maximum":
        return "clamp", first.args[0]
    return None


def in_range(i: Expr, n: Expr) -> Expr:
    return apply_primitive(
        "logical_and",
        [apply_primitive("greater_equal", [i, constant(0)]), apply_primitive("less", [i, n])],
    )


def resolve_read(read: Read) -> Expr:
    """The meaning of a read with a boundary, in terms of plain reads."""
    kind = read.boundary
    if kind is None:
        return read
    shape = read.node.outputs[read.component].shape
    if kind in ("constant", "function"):
        inside: Expr = Const(True, bool_)
        for i, n in zip(read.args, shape, strict=True):
            inside = apply_primitive("logical_and", [inside, in_range(i, n)])
        mapping: dict[Expr, Expr] = dict(zip(read.vars, read.args, strict=bool(read.vars)))
        (outside,) = substitute(read.scoped, mapping)
        plain = Read(read.node, read.component, read.args)
        return Proj(Cond(inside, (plain,), (outside,)), 0)
    index = tuple(resolve_index(kind, i, n) for i, n in zip(read.args, shape, strict=True))
    return Read(read.node, read.component, index)


_coordinates: dict[int, Var] = {}


def coordinate(axis: int) -> Var:
    """The canonical variable for an out-of-range coordinate."""
    return _coordinates.setdefault(axis, Var(f"outside{axis}", int64))


#: What `convolve` computes: the elements of the array, all with a product, those inside.
_MODES = ("same", "full", "valid")


class _Border:
    """A boundary condition prepared for one input."""

    def __init__(self, condition: Any, array: Array, where: errors.Location | None) -> None:
        if isinstance(condition, str) or not isinstance(condition, BoundaryCondition):
            uncalled = ""
            if condition is constant_boundary:
                uncalled = "td.constant is not called: write td.constant(value). "
            elif condition is function_boundary:
                uncalled = "td.function is not called: write td.function(g). "
            elif isinstance(condition, str) and condition in _MODES:
                zeros = ", boundary=td.constant(0)" if condition == "same" else ""
                uncalled = f"The mode has a name: mode={condition!r}{zeros}.  "
            elif kind_of_literal(condition) is not None:
                uncalled = f"Write boundary=td.constant({condition!r}).  "
            elif isinstance(condition, str) and condition in BOUNDARIES:
                uncalled = f"{condition!r}: {BOUNDARIES[condition]}.  "
            raise errors.TracingError(
                f"{'a function' if callable(condition) else repr(condition)} is not a boundary.",
                hint=f"{uncalled}Boundaries are values: td.clamp, td.mirror, td.symmetric, "
                "td.wrap, td.constant(v), td.function(g).",
                where=where,
            )
        self.kind = condition.kind
        self.values: tuple[tuple[Expr, ...], ...] = ((),) * len(array._leaves)
        self.variables: tuple[Var, ...] = ()
        if self.kind == "constant":
            fitted = fit_to(
                condition.payload, array.structure, array.types, "the boundary value", "stencil"
            )
            self.values = tuple((v,) for v in fitted)
        elif self.kind == "function":
            self.variables = tuple(coordinate(k) for k in range(array.ndim))
            result = tracing.call_scalar_function(
                condition.payload, [Scalar(v) for v in self.variables], "td.function", where
            )
            self.values = tuple(
                (simplify.cast(v, t),)
                for v, t in zip(fit_loosely(result, array), array.types, strict=True)
            )

    def read(self, array: Array, index: Sequence[Expr]) -> Any:
        """The neighbour at `index`, as passed to the user's function."""
        reads = [
            Scalar(
                Read(
                    leaf.node,
                    leaf.component,
                    tuple(index),
                    self.kind,
                    value,
                    self.variables if value else (),
                )
            )
            for leaf, value in zip(array._leaves, self.values, strict=True)
        ]
        return array.structure.build(reads)


def fit_loosely(value: Any, array: Array) -> list[Expr]:
    """The components of a boundary function's result; the caller casts them."""
    leaves = flatten_value(value, array.structure, "the boundary function's result", "stencil")
    return [lift(leaf, "stencil") for leaf in leaves]


class Neighbourhood(tracing.Scoped):
    """The argument of a stencil's function: `w[-1, 0]` is the neighbour one row above."""

    __slots__ = ("_array", "_border")

    def __init__(self, array: Array, border: _Border) -> None:
        self._array, self._border = array, border
        self.scope = tracing.current_scope()

    def __getitem__(self, offset: Any) -> Any:
        tracing.reject_escaped(self)
        offsets = offset if isinstance(offset, tuple) else (offset,)
        rank = self._array.ndim
        if len(offsets) != rank:
            shown = ", ".join(["0"] * rank)
            raise errors.ShapeError(
                f"a neighbourhood of rank {rank} takes {rank} offset{'s' * (rank != 1)}, "
                f"got {len(offsets)}.",
                hint=f"The element itself is w[{shown}].",
            )
        of_the_run = (
            "For run-time offsets index the array: a[i + k, j] in td.generate; for run-time "
            "weights use td.correlate(a, weights)."
        )
        if any(isinstance(o, slice) for o in offsets):
            raise errors.TracingError("a neighbourhood has no slices.", hint=_EACH)
        for o in offsets:
            refuse_argument(o, "the offset of a neighbour", of_the_run)
        numbers = [None if isinstance(o, Scalar) else integer(o) for o in offsets]
        if None in numbers:
            raise errors.TracingError(
                "the offsets of a stencil must be Python ints.", hint=of_the_run
            )
        index = [
            apply_primitive("add", [Index(k), constant(n or 0)]) for k, n in enumerate(numbers)
        ]
        return self._border.read(self._array, index)

    def __call__(self, *offsets: Any) -> Any:
        return self[offsets]

    def __iter__(self) -> Any:
        raise errors.TracingError("a neighbourhood cannot be iterated.", hint=_EACH)

    if not TYPE_CHECKING:  # a misspelled attribute is an error there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # what libraries ask for
                raise AttributeError(name)
            raise AttributeError(f"a neighbourhood is not an array, and has no {name!r}: {_EACH}")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise errors.TracingError("NumPy's functions cannot take a neighbourhood.", hint=_EACH)


_EACH = "Write the offsets: sum(w[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1))."


def _no_number(self: Neighbourhood, *_: Any) -> Any:
    middle = ", ".join(["0"] * self._array.ndim)
    raise errors.TracingError(
        "a neighbourhood is not a number.",
        hint=f"The element itself is w[{middle}], where w is the neighbourhood.  {_EACH}  "
        "For weights in an array, td.correlate(a, weights).",
    )


for _sign in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(Neighbourhood, f"__{_sign}__", _no_number)
    setattr(Neighbourhood, f"__r{_sign}__", _no_number)
for _sign in ("lt", "le", "gt", "ge", "neg", "abs", "invert"):
    setattr(Neighbourhood, f"__{_sign}__", _no_number)


@operation
def stencil(
    f: FunctionN,
    a: ArrayLike,
    *more: ArrayLike,
    boundary: BoundaryCondition | Sequence[BoundaryCondition] = clamp,
    index: bool = False,
) -> Array:
    """Compute each element from its neighbourhood: `f(w, …)`, one neighbourhood per input; with
    `index=True` also from its own index: `f(i, j, …, w, …)`.

    Parameters
        f: a function of a neighbourhood of each input; w[di, dj] is the neighbour at that offset,
            in constant integers, one for each axis.
        a: an array of rank ≥ 1.
        *more: further arrays of the same shape.
        boundary: what is read outside the arrays, one for all inputs or a tuple with one for each:
            `td.clamp` (default) the nearest element; `td.wrap` the other side (periodic);
            `td.mirror` reflection without repeating the edge (… 2 1 0 1 2 …); `td.symmetric`
            reflection that repeats it (… 1 0 0 1 …); `td.constant(v)` the value v; `td.function(g)`
            the value g(i, j, …) of the index outside.
        index: whether `f` first takes the index of the element: f(i, j, …, w); default False.

    >>> td.run(td.stencil(lambda w: w[-1] + w[1], np.array([1, 2, 3])))
    array([3, 4, 5])
    >>> td.run(td.stencil(lambda i, w: td.where(i == 0, 0, w[-1]), np.array([1, 2, 3]), index=True))
    array([0, 1, 2])
    """
    tracing.forbid_nesting("stencil")
    where = errors.user_location()
    if any(isinstance(x, str | BoundaryCondition) for x in more):
        raise errors.TracingError(
            "stencil: the boundary has a name.", hint="Write td.stencil(f, a, boundary=td.wrap)."
        )
    arrays = [as_array(x, "stencil") for x in (a, *more)]
    checks: tuple[Any, ...] = ()
    for other in arrays[1:]:
        checks += same_shape(arrays[0]._shape, other._shape, "stencil")
    if isinstance(boundary, tuple | list):
        if len(boundary) != len(arrays):
            raise errors.ShapeError(
                f"stencil: {len(boundary)} boundaries for {len(arrays)} input(s).",
                hint="Give one boundary for all inputs, or one for each.",
            )
        conditions = list(boundary)
    else:
        conditions = [boundary] * len(arrays)
    if arrays[0].ndim == 0:
        raise errors.ShapeError(
            "a rank-0 array has no neighbourhood.", hint="Use td.map, or give it an axis: a[None]."
        )
    windows = [
        Neighbourhood(x, _Border(c, x, where)) for x, c in zip(arrays, conditions, strict=True)
    ]
    shape = arrays[0]._shape
    own = [Scalar(i) for i in indices(len(shape))] if index else []
    elements, structure = trace_elements(f, [*own, *windows], "stencil", where, arrays)
    return generated(shape, elements, "stencil", checks, structure)


@combining
def correlate(
    a: ArrayLike,
    w: ArrayLike | None = None,
    boundary: BoundaryCondition | None = None,
    *,
    mode: Mode = "same",
    weights: ArrayLike | None = None,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """Each element's weighted sum of its neighbours, Σₖ w[k]·a[i + k − centre], where the centre of
    the weights is extent // 2, as in scipy.ndimage.correlate.

    Parameters
        w: the weights, an array of the rank of `a` and of any extents, also run-time values.
            Complex ones are not conjugated (by numpy.correlate they are).  Without any, sums are 0.
        mode: "same" (default): the extents of `a`; "full": all positions where both overlap,
            m + n − 1 along an axis; "valid": those where all weights do, m − n + 1.

    Errors: `ShapeError` if the ranks differ.

    >>> td.correlate(np.array([1, 2, 3]), np.array([1, 0, 2]), mode="valid")
    Array([7])
    """
    return _correlate(
        a, _either(w, weights, "correlate"), boundary, mode, "correlate", name, schedule
    )


@combining
def convolve(
    a: ArrayLike,
    w: ArrayLike | None = None,
    boundary: BoundaryCondition | None = None,
    *,
    mode: Mode = "same",
    method: str = "auto",
    weights: ArrayLike | None = None,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """`correlate` with the weights flipped along every axis (scipy.ndimage.convolve).

    Parameters
        a, w: arrays of equal rank; `weights` is another name for `w`.
        mode: "same": the extents of `a` (numpy.convolve has zeros outside, and so has
            `boundary=td.constant(0)`); "full": all positions where both overlap, m + n − 1 along
            an axis; "valid": those where all weights do, m − n + 1 (both as in numpy.convolve).
            A weight that is inf or NaN makes NaN of the zeros outside.
        method: "direct" adds the products of each element; "fft" multiplies Fourier transforms:
            errors are relative to the largest elements, and inf and NaN spread to all; "auto" (the
            default) is "fft" for floats and 400 weights or more (700 along one axis); a compiled
            function has a program for either.

    >>> td.run(td.convolve(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, -1.0]), method="direct"))
    array([1., 3., 2.])
    >>> td.convolve(np.array([1, 2, 3]), np.array([0, 1, 2]), mode="full")
    Array([0, 1, 4, 7, 6])
    """
    kernel = _either(w, weights, "convolve")
    return _correlate(a, kernel, boundary, mode, "convolve", name, schedule, method)


def with_edges_of_numpy(
    function: Literal["convolve", "correlate"], a: ArrayLike, v: ArrayLike, mode: Mode | None = None
) -> Array:
    """np.convolve or np.correlate of traced values, whose edges are zeros, and which conjugates."""
    array, kernel = as_array(a, f"np.{function}"), as_array(v, f"np.{function}")
    if array.ndim != 1 or kernel.ndim != 1:
        raise errors.ShapeError(
            f"np.{function} needs arrays of rank 1, got the ranks {array.ndim} and {kernel.ndim}.",
            hint=f"td.{function}(a, weights, boundary=td.constant(0)) takes any rank.",
        )
    mode = mode or ("full" if function == "convolve" else "valid")
    checks: tuple[Check, ...] = ()
    if mode == "same":  # (NumPy exchanges the arguments, and the result is as long as the longer)
        checks = require(
            array._shape[0], kernel._shape[0],
            f"np.{function}: {{right}} weights do not fit into an extent of {{left}}.",
            relation=">=", hint=f"Exchange them: np.{function}(w, a, \"same\").",
        ) + _of_elements(kernel._shape[0], "weights", f"np.{function}")  # fmt: skip
    if function == "convolve" and mode == "same":  # in the other order, its middle is NumPy's
        function, kernel = "correlate", kernel[::-1]
    elif function == "correlate" and kernel.types[0].is_complex:
        kernel = f.conjugate(kernel)
    zeros = constant_boundary(0)
    return checked(_correlate(array, kernel, zeros, mode, function, None, None), checks)


def _either(w: ArrayLike | None, weights: ArrayLike | None, operation: str) -> ArrayLike:
    chosen = weights if w is None else w
    if chosen is None or (w is not None and weights is not None):
        raise errors.TracingError(
            f"{operation} needs its weights once: w, or weights.",
            hint="Write correlate(a, w): `weights` is another name for the same argument.",
        )
    return chosen


#: Up to this number of weights, the sum is written out: more compile for seconds, and run no faster
#: than as a loop (10⁶ floats, two cores with AVX-512: equal at 250; at 361 and 390, 1.3 to 1.9
#: times as long).
UNROLLED_TAPS = 225
#: From this number of weights on, Fourier transforms take less processor time (10⁶ elements, two
#: cores with AVX-512): of weights along one axis, and along several.
_BY_FFT_1D, _BY_FFT = 700, 400


def _correlate(
    a: ArrayLike,
    weights: ArrayLike,
    boundary: BoundaryCondition | None,
    mode: Mode,
    operation: str,
    name: str | None,
    schedule: ScheduleLike | None,
    method: str = "direct",
) -> Array:
    tracing.forbid_nesting(operation)
    where = errors.user_location()
    array, kernel = as_array(a, operation), as_array(weights, operation)
    if array.ndim != kernel.ndim or array.ndim == 0:
        raise errors.ShapeError(
            f"{operation}: weights of rank {kernel.ndim} for an array of rank {array.ndim}.",
            hint="Numbers are multiplied: a * w."
            if array.ndim == kernel.ndim
            else "Both need the same rank: weights[:, :, None] are those of a colour image, each "
            "channel by itself; weights[None, :] those of each row.",
        )
    for side in (array, kernel):
        require_scalars(side, operation)
    t = promote(array.types[0], False, kernel.types[0], False)[0]
    if mode not in _MODES:
        raise errors.TracingError(
            f"{operation}: mode is 'same', 'full' or 'valid', got {mode!r}.",
            hint="What is outside of the array is boundary=td.clamp, td.mirror, td.wrap, …",
        )
    if boundary is None:
        boundary = clamp if mode == "same" else constant_boundary(0)
    border = _Border(boundary, array, where)
    flip = operation == "convolve"
    extents = [known(e) for e in kernel._shape]
    taps = 1
    for extent in extents:
        taps *= 10**9 if extent is None else int(extent)

    if _is_by_fft(method, t, kernel._shape, schedule):
        return _by_fft(array, kernel, border, mode, t, label_of(operation, name, schedule), where)
    unrolled = taps <= UNROLLED_TAPS
    checks: tuple[Check, ...] = ()
    sizes: list[Expr] = list(kernel._shape)
    if unrolled:  # the program is specialised to the extents of the weights
        sizes = [constant(int(e)) for e in extents]
        text = f"{operation}: the weights' extent changed from {{right}} to {{left}}."
        checks = tuple(
            Check(e, n, text, where=where)
            for e, n in zip(kernel._shape, sizes, strict=True)
            if e is not n
        )

    def term(k: Sequence[Expr]) -> Expr:
        """w[k] · a[i ± (k − centre)]."""
        index = []
        for axis, (i, n) in enumerate(zip(k, sizes, strict=True)):
            centre = _centre(n, mode, flip)
            step = apply_primitive("subtract", [centre, i] if flip else [i, centre])
            index.append(apply_primitive("add", [Index(axis), step]))
        value = border.read(array, index)
        weight = kernel._element(list(k))[0]
        return apply_primitive(
            "multiply", [simplify.cast(weight, t), simplify.cast(value._expr, t)]
        )

    if unrolled:
        element = _unrolled(term, [int(e) for e in extents], t)
    else:
        element = _looped(term, kernel._shape, Const(0, t))
    shape, more = _overlaps(array._shape, sizes, mode, operation)
    checks += more
    node = Generate(
        shape, (element,), label=label_of(operation, name, schedule), where=where, checks=checks
    )
    return Array(node.leaves)


def _is_by_fft(method: str, t: ScalarType, shape: Sequence[Expr], schedule: Any) -> bool:
    """Whether a convolution with weights of this shape is computed by Fourier transforms."""
    refuse_traced("convolve", method=method)
    if method not in ("auto", "direct", "fft"):
        raise errors.TracingError(
            f"convolve: there is no method {method!r}.", hint='Methods: "auto", "direct", "fft".'
        )
    if method == "fft" and not t.is_inexact:
        raise errors.DTypeError(
            f'convolve: method="fft" rounds, and the elements are {t}.',
            hint='Convert them, a.astype(td.float64), or write method="direct".',
        )
    if method != "auto" or schedule is not None or not t.is_inexact:
        return method == "fft"
    extents = [Scalar(n) for n in shape]
    along = sum((f.cast(n > 1, int64) for n in extents), Scalar(constant(0)))
    many = math.prod(extents, start=Scalar(constant(1))) >= f.where(along == 1, _BY_FFT_1D, _BY_FFT)
    return short_extent(f.cast(many, int64)._expr, 1) == 1


def _by_fft(array: Array, kernel: Array, border: _Border, mode: Mode, t: ScalarType, label: Label,
            where: errors.Location | None) -> Array:  # fmt: skip
    """The convolution as a product of transforms.

    For n results and m weights, the n + m − 1 elements that they depend on are transformed,
    with zeros up to an extent that has small factors.  The transforms are periodic, so only the
    first m − 1 values of the product are not those of the convolution.  Axes along which there is
    one weight, as the channels of an image, are not transformed.
    """
    before, shape, offsets = [], [], []
    axes = [k for k, m in enumerate(kernel._shape) if known(m) != 1] or [array.ndim - 1]
    results, checks = _overlaps(array._shape, kernel._shape, mode, "convolve")
    for axis, (n, m) in enumerate(zip(results, kernel._shape, strict=True)):
        less = apply_primitive("subtract", [m, constant(1)])
        if axis in axes:
            shape.append(_smooth(apply_primitive("add", [n, less]), axis == axes[-1]))
        offsets.append(less)
        centre = _centre(m, mode, flip=True)
        shift = apply_primitive("subtract", [centre, less])
        before.append(apply_primitive("add", [Index(axis), shift]))
    needed = [apply_primitive("add", [n, less]) for n, less in zip(results, offsets, strict=True)]
    padded = Array(Generate(
        tuple(needed), (simplify.cast(border.read(array, before)._expr, t),), label=label,
        where=where, checks=checks,
    ).leaves)  # fmt: skip
    extents = [Scalar(n) for n in shape]
    there, back = (later.fft.fftn, later.fft.ifftn) if t.is_complex else (
        later.fft.rfftn, later.fft.irfftn)  # fmt: skip
    product = there(padded, extents, axes) * there(kernel.astype(t), extents, axes)
    whole = back(product, axes=axes)  # (an even number of points along the last axis)
    here = [apply_primitive("add", [Index(k), less]) for k, less in enumerate(offsets)]
    element = simplify.cast(whole._element(here)[0], t)
    return Array(Generate(results, (element,), label=label, where=where).leaves)


def _smooth(n: Expr, even: bool) -> Expr:
    """The next number of the form k · 2ᵉ, k ≤ 16, and even if asked for."""
    count = Scalar(n)
    bits = 64 - f.cast(f.clz(count), int64)
    unit = Scalar(constant(1)) << f.maximum(bits - 4, 1 if even else 0)
    made: Scalar = (count + (unit - 1)) // unit * unit
    return made._expr


def _centre(n: Expr, mode: Mode, flip: bool) -> Expr:
    """The weight that meets the element of the result's own index, of `n` along an axis."""
    if mode == "same":
        return apply_primitive("floor_divide", [n, constant(2)])
    if (mode == "full") == flip:  # the first result has the first weight, or all of them
        return constant(0)
    return apply_primitive("subtract", [n, constant(1)])


def _overlaps(
    shape: Sequence[Expr], sizes: Sequence[Expr], mode: Mode, operation: str
) -> tuple[tuple[Expr, ...], tuple[Check, ...]]:
    """The extents of the results of a mode, for weights of these sizes."""
    if mode == "same":
        return tuple(shape), ()
    found: list[Expr] = []
    checks: tuple[Check, ...] = ()
    for n, m in zip(shape, sizes, strict=True):
        for extent, what in ((n, "an array"), (m, "weights")):
            checks += _of_elements(extent, what, operation)
        if mode == "full":
            more = apply_primitive("add", [n, apply_primitive("subtract", [m, constant(1)])])
        else:
            checks += require(
                n, m, f"{operation}: {{right}} weights do not fit into an extent of {{left}}.",
                relation=">=", hint=f"Exchange them: td.{operation}(w, a), or use mode=\"full\".",
            )  # fmt: skip
            less = apply_primitive("subtract", [n, m])
            more = apply_primitive("add", [less, constant(1)])
        found.append(more)
    return tuple(found), checks


def _of_elements(extent: Expr, what: str, operation: str) -> tuple[Check, ...]:
    return require(extent, constant(1), f"{operation}: {what} of extent {{left}}.",
                   relation=">=", hint="Give at least one element.")  # fmt: skip


def _unrolled(term: Callable[[Sequence[Expr]], Expr], extents: list[int], t: Any) -> Expr:
    """The sum of all terms; from 0 on, as `_looped`, so that both have the same bits."""
    total: Expr = Const(0, t)
    for k in itertools.product(*(range(n) for n in extents)):
        total = apply_primitive("add", [total, term([constant(i) for i in k])])
    return total


def _looped(term: Callable[[Sequence[Expr]], Expr], extents: Sequence[Expr], total: Expr,
            outside: tuple[Expr, ...] = ()) -> Expr:  # fmt: skip
    """Nested counted loops over the weights, starting from the sum `total`; `outside` are the
    indices of the enclosing loops."""
    axis = len(outside)
    if axis == len(extents):
        return apply_primitive("add", [total, term(outside)])
    index, state = Var(f"k{axis}", int64), Var("total", total.type)
    body = _looped(term, extents, state, (*outside, index))
    return Proj(Loop(extents[axis], (total,), (index, state), (body,)), 0)


later.offer(BoundaryCondition=BoundaryCondition, with_edges_of_numpy=with_edges_of_numpy)
