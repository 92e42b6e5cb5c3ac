"""Sequential scans: a state that is carried along an axis, and what every step records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast as cast_type

from ...annotations import Element, Function, IntLike, ScanFunction
from ...array import Array, generated
from ...errors import AxisError, Location, ShapeError, TracingError, user_location
from ...expr import TRUE, Apply, Const, Expr, constant
from ...frontend.evaluation import number
from ...frontend.refusals import called
from ...frontend.sources import as_array
from ...frontend.tracing import check_result, forbid_nesting, traced_iteration
from ...graph import ArrayLoop, Check, Generate, Input, Label, Leaf, Permute, ended, indices
from ...scalar import Scalar, as_count, as_strong, lift
from ...shapes import on_host, same_shape
from ...types import LEAF, Structure
from .. import control
from ..common import is_literal, label_of, normalise_axis, operation
from ..indexing.row_major import minus

__all__ = ["scan"]


def _scan_function(function: object) -> ScanFunction:
    return cast_type(ScanFunction, function)


@_scan_function
@operation
def scan(
    f: Function,
    init: Element,
    xs: Element = None,
    *,
    axis: int = 0,
    reverse: bool = False,
    length: IntLike | None = None,
    name: str | None = None,
) -> Any:
    """Carry a state along an axis, and collect what every step returns: `(last state, ys)`.

        state = init
        for k in range(n):                  # n − 1 … 0 with reverse=True
            state, ys[k] = f(state, xs[k])  # along `axis`

    `f` is any function of arrays and need not be associative.  `init`, `xs` and what `f` returns
    are arrays, numbers, or tuples, named tuples, dataclasses, lists and dicts of them; the second
    value may be `None` if there is nothing to collect.  The state keeps its types and extents.

    Where `f` treats the elements of the other axes independently, the scan is one kernel that walks
    along the axis with the state in registers; otherwise it is a loop over arrays that writes what
    a step returns in place.  For associative functions, `td.scanl` and `td.cumsum` are parallel
    along the axis, too.  No steps: `init` and empty arrays.

    Errors: `TracingError` where `f` returns no pair, `DTypeError` and `ShapeError` where it changes
    the state's types or extents, `NestedParallelismError` inside a kernel (use `td.loop` there).

    Parameters
        f: a function (state, x) of arrays that returns (state, y).
        init: the first state: arrays, numbers, or tuples, classes, lists and dicts of them.
        xs: arrays of equal extent along `axis`; `f` receives their slices (numbers, from arrays of
            rank 1); without, it receives the number of the step, an int64.
        axis: the axis of `xs`; default 0.
        reverse: whether to begin at the end; default False.
        length: the number of steps, needed without `xs`; optional.

    Result: the last state and the collected results, as `f` returns them.

    >>> x = np.array([1.0, 0.0, 0.0, 2.0])
    >>> last, smooth = td.run(td.scan(lambda s, x: (0.5 * s + x, 0.5 * s + x), 0.0, x))
    >>> smooth
    array([1.   , 0.5  , 0.25 , 2.125])
    """
    forbid_nesting("scan")
    control.require_signature(f, ("state", "x"), "the function of scan")
    where = user_location()
    first, structure = control.flat(init, "the state of scan")

    def trace(first: Sequence[object]) -> object:
        return _scan(f, first, structure, xs, axis, reverse, length, name, where)

    return control.with_literals(first, trace)


def _scan(f: Function, first: Sequence[object], structure: Structure, xs: Element, axis: int,
          reverse: bool, length: IntLike | None, name: str | None, where: Location | None
          ) -> object:  # fmt: skip
    scalar = [not control.is_array(v) for v in first]
    arrays = [
        as_array(Scalar(as_strong(lift(v, "scan"))) if s else v, "scan")
        for v, s in zip(first, scalar, strict=True)
    ]
    given, nesting = control.flat(xs, "xs of scan") if xs is not None else ([], None)
    sources = [as_array(x, "scan") for x in given]
    count, checks = _steps(sources, length, axis)
    counter = Input("k", lift(0).type, (), kind="counter", where=where)
    step = control.index_scalar(counter)
    at = Scalar(minus(minus(count, constant(1)), lift(step))) if reverse else step

    states: list[Input] = []
    inside: list[Any] = []
    for array, is_scalar in zip(arrays, scalar, strict=True):
        made = [control.state_input(leaf, where) for leaf in array._leaves]
        states += made
        view = Array([s.leaf() for s in made], array.structure, array._shape)
        inside.append(view._scalar_at(()) if is_scalar else view)
    x = at if nesting is None else nesting.build([_slice(a, lift(at), axis) for a in sources])
    with traced_iteration():
        result = f(structure.build(inside), x)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TracingError(
            f"the function of scan must return the pair (state, y), but returned {called(result)}.",
            hint="Return (state, None) if there is nothing to collect.",
            where=where,
        )
    following, same = control.flat(result[0], "the function of scan", structure)
    if not same.same_nesting(structure):
        raise TracingError(
            "the function of scan must return the state with the structure of its initial value: "
            f"{structure.outline()}, not {same.outline()}.",
            hint="Return the new state first, with every component of the old one.",
            where=where,
        )
    bound = [*states, counter]
    leaves, before = control.next_state(
        tuple(following), Structure(tuple, (LEAF,) * len(following)), arrays, scalar,
        [is_literal(v) for v in first], bound, "scan", structure.paths("state"), where,
    )  # fmt: skip
    collected, shape_of = control.flat(result[1], "what the function of scan returns to collect")
    ys = [_Collected(v, axis, lift(at), count, bound, where) for v in collected]
    node = ArrayLoop(
        tuple(states) + tuple(s for y in ys for s in y.states),
        tuple(le for a in arrays for le in a._leaves) + tuple(le for y in ys for le in y.first),
        (*leaves, *(le for y in ys for le in y.update.leaves)),
        None,
        count,
        counter,
        label=label_of("scan", name, None),
        where=where,
        checks=(*checks, *before, *(c for y in ys for c in y.checks)),
    )
    ended(node.bound)
    many = len(states)
    results = control.regroup(node.leaves[:many], arrays, Structure(tuple, (LEAF,) * len(arrays)))
    last = [number(r._element(())[0]) if s else r for r, s in zip(results, scalar, strict=True)]
    whole = [Array(y.init_leaves(node.leaves[many:], ys), y.structure, y.shape) for y in ys]
    return structure.build(last), shape_of.build(whole)


class _Collected:
    """One collected array: the state that holds it, its first value, its update in a step."""

    def __init__(self, value: Any, axis: int, at: Expr, count: Expr, bound: Sequence[Input],
                 where: Any) -> None:  # fmt: skip
        check_result(value, "the function of scan", "an array or a number to collect")
        value = value if control.is_array(value) else Scalar(as_strong(lift(value, "scan")))
        made = as_array(value, "scan")
        if not -made.ndim - 1 <= axis <= made.ndim:
            raise AxisError(
                f"scan: axis {axis} does not exist in the collected array of rank {made.ndim + 1}.",
                hint=f"Results are collected along axis -{made.ndim + 1} … {made.ndim}.",
                where=where,
            )
        k = normalise_axis(axis, made.ndim + 1, "scan")
        fixed = tuple(_in_every_step(e, bound, where) for e in made._shape)
        self.checks = [c for e, f in zip(made._shape, fixed, strict=True) if e is not f
                       for c in same_shape((e.args[1],), (e.args[2],), "scan")]  # fmt: skip
        self.structure = made.structure
        self.shape = (*fixed[:k], count, *fixed[k:])
        zeros = Generate(self.shape, tuple(Const(t.numpy.type(0), t) for t in made.types),
                         label=Label("collected"), where=where)  # fmt: skip
        self.first = zeros.leaves
        self.states = [control.state_input(leaf, where) for leaf in self.first]
        index = indices(made.ndim)
        self.update = Permute(
            fixed,
            TRUE,
            (*index[:k], at, *index[k:]),
            tuple(made._element(index)),
            tuple(s.leaf() for s in self.states),
            None,
            label=Label("collect"),
            where=where,
        )

    def init_leaves(self, leaves: Sequence[Leaf], ys: Sequence[_Collected]) -> Sequence[Leaf]:
        """The leaves of the loop that hold this array; `leaves` are those of all of `ys`."""
        start = sum(len(y.states) for y in ys[: ys.index(self)])
        return leaves[start : start + len(self.states)]


def _in_every_step(extent: Expr, bound: Sequence[Input], where: Location | None) -> Expr:
    """An extent of what a step collects, which must not depend on the step: of a `cond` between
    arrays, the extent of either side."""
    if not control.depends(extent, bound):
        return extent
    if isinstance(extent, Apply) and extent.op.name == "select":
        _, then, other = extent.args
        if not (control.depends(then, bound) or control.depends(other, bound)):
            return then
    raise ShapeError(
        "the function of scan must collect arrays of the same extents in every step.",
        hint="Pad them to a common extent, and collect how many elements are valid.",
        where=where,
    )


def _steps(sources: Sequence[Array], length: Any, axis: int) -> tuple[Expr, list[Check]]:
    """The number of steps, and checks that all arrays have it."""
    extents = []
    for a in sources:
        if not a.ndim:
            raise ShapeError(
                "scan needs an axis to walk along; xs has rank 0.",
                hint="Numbers in a list are one array as np.array(xs).  Without xs, give the "
                "number of steps: td.scan(f, init, length=n).",
            )
        extents.append(a._shape[normalise_axis(axis, a.ndim, "scan")])
    if length is not None:
        extents.insert(0, on_host(as_count(length, "scan")))
    if not extents:
        raise TracingError(
            "scan needs arrays to walk along, or the number of its steps.",
            hint="td.scan(f, init, xs) or td.scan(f, init, length=n).",
        )
    checks = [c for e in extents[1:] for c in same_shape((extents[0],), (e,), "scan")]
    return extents[0], checks


def _slice(a: Array, at: Expr, axis: int) -> Any:
    """The slice of an array at one index of an axis; a number if it has no other axis."""
    k = normalise_axis(axis, a.ndim, "scan")
    shape = (*a._shape[:k], *a._shape[k + 1 :])
    index = indices(len(shape))
    elements = tuple(a._element((*index[:k], at, *index[k:])))
    if not shape:
        return a.structure.build([Scalar(e) for e in elements])
    return generated(shape, elements, "slice", structure=a.structure)
