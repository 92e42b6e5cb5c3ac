"""The array graph: immutable, hash-consed nodes, with one class per computation pattern.

All operations with independent elements — `generate`, `map`, `zip`, every index transformation,
`stencil` — are a `Generate`: a shape, and per component one expression over `Index` leaves that
reads other arrays.  Other patterns have their own classes.  Fusion is therefore substitution, and
the access map of every operation follows from its expressions.

A node computes `outputs`: components, each with a shape and a type; a `Leaf` is one of them.  After
fusion the same classes represent kernels: `epilogue` then contains the consumers' expressions, and
`fused` the fused operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from .errors import Location
from .expr import Const, Expr, Extent, Index, Read, Var, constant, primitive, substitute, walk
from .node import (
    Check,
    Combine,
    Label,
    Leaf,
    Node,
    Output,
    Scope,
    Shape,
    canonical_combine,
    field,
    fresh_uid,
    indices,
    inner_inputs,
    is_identity_read,
    known,
    latest_held,
    result_variables,
    topological,
)
from .simplify import apply
from .types import ScalarType

__all__ = ["ArrayLoop", "Barrier", "Branch", "Check", "Combine", "Compact", "CrossedFolds",
           "Fold", "FoldSeg", "FoldedMatmul", "FoldingMatmul", "Generate", "Input", "Label", "Leaf",
           "Library", "Matmul", "Memory", "Node", "Output", "Permute", "Recurrence", "Scan",
           "Scope", "Sequential", "Shape", "StoringFold", "StoringMatmul", "canonical_combine",
           "indices", "inner_inputs", "is_identity_read", "known", "latest_held",
           "result_variables", "topological"]  # fmt: skip


class Input(Node):
    """An external array: data that is `use`d, or a Python number as data (`source`), an argument of
    `jit`, the state of a loop, or its counter.

    Extents of 1 are the constant 1 (and broadcast); the others are `Extent` leaves of this input,
    unless `of_shape` expresses them by extents of other arrays.  `until` is the uid of the first
    node created after the traced function of this input returned, None before.  `owned`: nothing
    else refers to the data, so they never change.
    """

    __slots__ = ("_extents", "kind", "name", "owned", "source", "type", "until")
    fields: ClassVar[tuple[str, ...]] = ("name", "type", "kind")
    name: str
    type: ScalarType
    kind: str
    source: Any
    until: int | None
    owned: bool
    _extents: tuple[Expr | None, ...]

    def __new__(cls, *_: Any, **__: Any) -> Input:
        return object.__new__(cls)  # not interned

    def __init__(
        self,
        name: str,
        type_: ScalarType,
        ones: tuple[bool, ...],
        kind: str = "use",
        source: Any = None,
        where: Location | None = None,
    ) -> None:
        self.name, self.type, self.kind, self.source = name, type_, kind, source
        self.label, self.where, self.checks, self.fused = Label(kind, name), where, (), ()
        self.uid, self.until, self.owned = fresh_uid(), None, False
        #: None for its own extent: an `Extent` would refer back to this node, and the cycle would
        #: keep the data alive until the garbage collector runs.
        self._extents = tuple(constant(1) if one else None for one in ones)

    @property
    def bound(self) -> bool:
        return self.kind in ("state", "counter")

    @property
    def shape(self) -> Shape:
        return tuple([Extent(self, k) if e is None else e for k, e in enumerate(self._extents)])

    @property  # type: ignore[misc]
    def outputs(self) -> tuple[Output, ...]:  # type: ignore[override]
        return (Output(self.shape, self.type),)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return (Leaf(self, 0),)  # (without the outputs, which are made at each call)

    def of_shape(self, shape: Shape) -> Input:
        """Set the shape, before it has been read."""
        self._extents = tuple(None if e is Extent(self, k) else e for k, e in enumerate(shape))
        return self

    def copy(self) -> Input:
        """Another input with the same data, with which passes replace this one."""
        ones = tuple(isinstance(e, Const) for e in self.shape)
        made = Input(self.name, self.type, ones, self.kind, self.source, self.where)
        made.until, made.owned = self.until, self.owned
        return made

    def called(self) -> str:
        if self.kind == "use":
            location = None if self.where is None else self.where.short()
            return "an array" if location is None else f"the array used at {location}"
        return self.name


def ended(symbols: Iterable[Input]) -> None:
    """Invalidate symbols: the function or loop that defines them has been traced."""
    now = fresh_uid()
    for symbol in symbols:
        symbol.until = now


class Generate(Node):
    """Independent elements: component `k` at index `ix` is `elements[k]` with Index(j) = ix[j]."""

    shape: Shape
    elements: tuple[Expr, ...]

    computed = ("elements",)

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output(self.shape, e.type) for e in self.elements)

    def iteration_space(self) -> Shape:
        return self.shape

    def per_element(self) -> tuple[Expr, ...]:
        return self.elements

    def scopes(self) -> Iterator[Scope]:
        yield Scope("the elements", self.elements, len(self.shape))

    def bodies(self) -> tuple[Expr, ...]:
        return self.elements


class Memory(Generate):
    """Uninitialised memory: written before it is read; `elements` is never computed."""

    __slots__ = ()  # its fields are those of a Generate

    def _shared(self) -> bool:
        """Not interned: two of them are written differently."""
        return False


class Fold(Node):
    """`outer × inner → outer`: `elements` over Index(outer axes…, inner axes…), reduced over the
    inner axes in row-major order with `combine`; `init` is combined once, on the left (None: start
    with the first element).

    `results` are variables for the folded values in `epilogue`, the stored expressions over
    Index(outer axes…).
    """

    outer: Shape
    inner: Shape
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    results: tuple[Var, ...] = field(factory=lambda values: result_variables(values["elements"]))
    epilogue: tuple[Expr, ...] = field(factory=lambda values: values["results"])

    computed = ("elements", "epilogue")

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output(self.outer, e.type) for e in self.epilogue)

    def iteration_space(self) -> Shape:
        return (*self.outer, *self.inner)

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.elements, *self.epilogue)

    def schedule_axes(self) -> int:
        return len(self.outer) + 1  # all folded axes are one

    def scopes(self) -> Iterator[Scope]:
        yield Scope("the elements", self.elements, len(self.outer) + len(self.inner))
        yield Scope("the epilogue", self.epilogue, len(self.outer), self.results)

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*self.outer, *self.inner, *(self.init or ()))

    def bodies(self) -> tuple[Expr, ...]:
        return (
            *self.inner,
            *self.elements,
            *(self.init or ()),
            *self.combine.results,
            *self.epilogue,
        )


class StoringFold(Node):
    """A fold that also stores arrays over its domain, made by passes from a `Fold` and a
    `Generate`: `kept` over Index(outer axes…, inner axes…); axis k of the arrays is domain axis
    `order[k]`.  `elements` may read the stored values as the variables `names`.

    The components are those of the fold, then the arrays.
    """

    outer: Shape
    inner: Shape
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    kept: tuple[Expr, ...]
    names: tuple[Var, ...]
    order: tuple[int, ...]
    results: tuple[Var, ...] = field(factory=lambda values: result_variables(values["elements"]))
    epilogue: tuple[Expr, ...] = field(factory=lambda values: values["results"])

    computed = ("elements", "kept", "epilogue")

    @property
    def stored_shape(self) -> Shape:
        return tuple(self.iteration_space()[k] for k in self.order)

    def _outputs(self) -> tuple[Output, ...]:
        made = [Output(self.outer, e.type) for e in self.epilogue]
        return (*made, *(Output(self.stored_shape, e.type) for e in self.kept))

    def iteration_space(self) -> Shape:
        return (*self.outer, *self.inner)

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.kept, *self.elements, *self.epilogue)

    def schedule_axes(self) -> int:
        return 0

    def scopes(self) -> Iterator[Scope]:
        rank = len(self.outer) + len(self.inner)
        yield Scope("what is stored", self.kept, rank)
        yield Scope("the elements", self.elements, rank, self.names)
        yield Scope("the epilogue", self.epilogue, len(self.outer), self.results)

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*self.outer, *self.inner, *(self.init or ()))

    def bodies(self) -> tuple[Expr, ...]:
        return (
            *self.inner,
            *self.kept,
            *self.elements,
            *(self.init or ()),
            *self.combine.results,
            *self.epilogue,
        )

    def apart(self) -> tuple[Generate, Fold]:
        """The two equivalent separate nodes."""
        made = Generate(
            self.stored_shape,
            substitute(self.kept, {Index(a): Index(k) for k, a in enumerate(self.order)}),
            label=self.label,
            where=self.where,
        )
        at = tuple(Index(a) for a in self.order)
        read: dict[Expr, Expr] = {v: Read(made, k, at) for k, v in enumerate(self.names)}
        return made, self.fold(substitute(self.elements, read))

    def fold(self, elements: tuple[Expr, ...]) -> Fold:
        return Fold(self.outer, self.inner, elements, self.combine, self.init, self.results,
                    self.epilogue, label=self.label, where=self.where)  # fmt: skip


class CrossedFolds(Node):
    """A fold along rows and one across them in one traversal, made by passes from two `Fold`s that
    read the same array: `elements` over Index(planes…, row, column) are folded to one element per
    row, `across`, over the same indices, to one per column.  `across` may read what the first fold
    stores for the row as the variables `names`.

    The components are those of the fold along rows, then those of the one across.
    """

    outer: Shape
    inner: Shape
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    results: tuple[Var, ...]
    epilogue: tuple[Expr, ...]
    names: tuple[Var, ...]
    across: tuple[Expr, ...]
    across_combine: Combine
    across_init: tuple[Expr, ...] | None
    across_results: tuple[Var, ...]
    across_epilogue: tuple[Expr, ...]

    computed = ("elements", "epilogue", "across", "across_epilogue")

    @property
    def columns(self) -> Shape:
        return (*self.outer[:-1], *self.inner)

    @property
    def shared(self) -> tuple[Leaf, ...]:
        """The arrays with the extents of the domain that both folds read."""
        own = indices(len(self.outer) + 1)
        read = [
            {
                Leaf(e.node, e.component): None
                for e in walk(es)
                if isinstance(e, Read) and e.args == own
            }
            for es in (self.elements, self.across)
        ]
        return tuple(leaf for leaf in read[0] if leaf in read[1])

    @property
    def read_twice(self) -> int:
        """The bytes per element of all these arrays."""
        return sum(leaf.type.bytes for leaf in self.shared)

    def _outputs(self) -> tuple[Output, ...]:
        made = [Output(self.outer, e.type) for e in self.epilogue]
        return (*made, *(Output(self.columns, e.type) for e in self.across_epilogue))

    def iteration_space(self) -> Shape:
        return (*self.outer, *self.inner)

    @property
    def finished(self) -> tuple[Expr, ...]:
        """The stored expressions, over the axes of the domain."""
        last = len(self.outer)
        moved = substitute(self.across_epilogue, {Index(last - 1): Index(last)})
        return (*self.epilogue, *moved)

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.elements, *self.across, *self.finished)

    def schedule_axes(self) -> int:
        return 0

    def scopes(self) -> Iterator[Scope]:
        rank = len(self.outer) + 1
        yield Scope("the elements along rows", self.elements, rank)
        yield Scope("the results along rows", self.epilogue, rank - 1, self.results)
        yield Scope("the elements across rows", self.across, rank, self.names)
        yield Scope("the results across rows", self.across_epilogue, rank - 1, self.across_results)

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*self.outer, *self.inner, *(self.init or ()), *(self.across_init or ()))

    def bodies(self) -> tuple[Expr, ...]:
        combined = (*self.combine.results, *self.across_combine.results)
        return (*self.host_expressions(), *self.elements, *self.across, *combined, *self.epilogue,
                *self.across_epilogue)  # fmt: skip

    def along(self) -> Fold:
        return Fold(self.outer, self.inner, self.elements, self.combine, self.init, self.results,
                    self.epilogue, label=self.label, where=self.where)  # fmt: skip

    def over_rows(self, across: tuple[Expr, ...]) -> Fold:
        """A separate fold across rows, of these elements."""
        row = len(self.outer) - 1
        turned: dict[Expr, Expr] = {Index(row): Index(row + 1), Index(row + 1): Index(row)}
        return Fold(self.columns, self.outer[-1:], substitute(across, turned),
                    self.across_combine, self.across_init, self.across_results,
                    self.across_epilogue, label=self.label, where=self.where)  # fmt: skip

    def apart(self) -> tuple[Fold, Fold]:
        first = self.along()
        at = indices(len(self.outer))
        read: dict[Expr, Expr] = {v: Read(first, k, at) for k, v in enumerate(self.names)}
        return first, self.over_rows(substitute(self.across, read))


class FoldSeg(Node):
    """Segmented fold: for row `o` of `outer` and segment `s`, reduce `elements` over Index(outer…,
    p) for offsets[s] <= p < offsets[s + 1].  `offsets` is an int64 leaf of length segments + 1 with
    values in 0 … extent."""

    outer: Shape
    segments: Expr
    extent: Expr
    offsets: Leaf
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    results: tuple[Var, ...] = field(factory=lambda values: result_variables(values["elements"]))
    epilogue: tuple[Expr, ...] = field(factory=lambda values: values["results"])

    computed = ("elements", "epilogue")

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output((*self.outer, self.segments), e.type) for e in self.epilogue)

    def iteration_space(self) -> tuple[Expr | None, ...]:
        return (*self.outer, None)

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.elements, *self.epilogue)

    def scopes(self) -> Iterator[Scope]:
        yield Scope("the elements", self.elements, len(self.outer) + 1)
        yield Scope("the epilogue", self.epilogue, len(self.outer) + 1, self.results)

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*self.outer, self.segments, self.extent, *(self.init or ()))

    def expressions(self) -> tuple[Expr, ...]:
        return (*super().expressions(), self.extent)

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.elements, *(self.init or ()), *self.combine.results, *self.epilogue)

    def operands(self) -> tuple[Leaf, ...]:
        return (self.offsets,)


class Scan(Node):
    """Prefix combination along `axis` of `shape`.

    form "inclusive": n results; "exclusive": n + 1, starting with `init`; "total": the first n of
    those, and the last as further components (of the shape without `axis`).  `reverse` scans from
    the end: result k combines elements k…, in the order of the array. `epilogue`, over Index of the
    results and `results`, is stored; for "total" it applies to the prefixes.
    """

    shape: Shape
    axis: int
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    form: str
    reverse: bool
    results: tuple[Var, ...] = field(factory=lambda values: result_variables(values["elements"]))
    epilogue: tuple[Expr, ...] = field(factory=lambda values: values["results"])

    computed = ("elements", "epilogue")

    def _outputs(self) -> tuple[Output, ...]:
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        length = self.shape[self.axis]
        if self.form == "exclusive":
            length = apply(primitive("add"), (length, constant(1)), length.type)
        made = [Output((*before, length, *after), e.type) for e in self.epilogue]
        if self.form == "total":
            made += [Output((*before, *after), e.type) for e in self.elements]
        return tuple(made)

    def iteration_space(self) -> Shape:
        return self.shape

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.elements, *self.epilogue)

    def scopes(self) -> Iterator[Scope]:
        yield Scope("the elements", self.elements, len(self.shape))
        yield Scope("the epilogue", self.epilogue, len(self.shape), self.results)

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*self.shape, *(self.init or ()))

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.elements, *(self.init or ()), *self.combine.results, *self.epilogue)


Reduction = TypeVar("Reduction", bound=Fold | FoldSeg | Scan)


def over(node: Reduction, elements: Sequence[Expr], combine: Combine,
         init: tuple[Expr, ...] | None, label: Label) -> Reduction:  # fmt: skip
    """The same fold or scan with other elements and another function, without an epilogue."""
    given = {"elements": tuple(elements), "combine": combine, "init": init}
    fields = [f for f in node.fields if f not in ("results", "epilogue")]
    make: Callable[..., Reduction] = type(node)
    return make(*[given[f] if f in given else getattr(node, f) for f in fields],
                label=label, where=node.where)  # fmt: skip


class Recurrence(Node):
    """Steps along `axis` of `shape` that carry a state, separately for each index of the other
    axes.

    `start`, over Index of the other axes, is the state before the first step.  `state` are its
    variables in `steps` (the next state) and `collected` (the stored values), both over Index of
    `shape`.  `reverse` walks from the end.  The components are those of `collected`, then the final
    values of the parts of the state in `last`, of the shape without `axis`.
    """

    shape: Shape
    axis: int
    reverse: bool
    start: tuple[Expr, ...]
    state: tuple[Var, ...]
    steps: tuple[Expr, ...]
    collected: tuple[Expr, ...]
    last: tuple[int, ...] = field(factory=lambda values: tuple(range(len(values["state"]))))

    computed = ("start", "steps", "collected")

    @property
    def others(self) -> Shape:
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])

    def _outputs(self) -> tuple[Output, ...]:
        made = [Output(self.shape, e.type) for e in self.collected]
        return (*made, *(Output(self.others, self.state[k].type) for k in self.last))

    def iteration_space(self) -> Shape:
        return self.shape

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.steps, *self.collected)

    def schedule_axes(self) -> int:
        return 0

    def scopes(self) -> Iterator[Scope]:
        yield Scope("the first state", self.start, len(self.shape) - 1)
        yield Scope("the steps", self.per_element(), len(self.shape), self.state)

    def host_expressions(self) -> tuple[Expr, ...]:
        return self.shape

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.shape, *self.start, *self.steps, *self.collected)


class Permute(Node):
    """Scatter with combination into a copy of `defaults`.

    For every index of `domain` where `valid` holds, `out[target] = combine(values, out[target])`;
    `combine` None means overwrite.
    """

    domain: Shape
    valid: Expr
    target: tuple[Expr, ...]
    values: tuple[Expr, ...]
    defaults: tuple[Leaf, ...]
    combine: Combine | None

    computed = ("valid", "target", "values")

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output(d.shape, d.type) for d in self.defaults)

    def iteration_space(self) -> Shape:
        return self.domain

    def per_element(self) -> tuple[Expr, ...]:
        return (self.valid, *self.target, *self.values)

    def scopes(self) -> Iterator[Scope]:
        yield Scope("the sources", self.per_element(), len(self.domain))

    def host_expressions(self) -> tuple[Expr, ...]:
        return self.domain

    def bodies(self) -> tuple[Expr, ...]:
        own = (*self.domain, self.valid, *self.target, *self.values)
        return own if self.combine is None else (*own, *self.combine.results)

    def operands(self) -> tuple[Leaf, ...]:
        return self.defaults


class Compact(Permute):
    """The values of the sources where `valid` holds, stored consecutively.  The domain has one
    axis; for each `BLOCK` of sources, `target` (one index, the same for the whole block) is the
    position of the block's first value."""

    __slots__ = ()  # its fields are those of a Permute
    BLOCK: ClassVar[int] = 4096


#: Steps of a Sequential that write nothing.
BEGIN, TEST, END = -1, -2, -3


class Sequential(Node):
    """Writes into copies of `defaults` in the iterations of a domain, in row-major order, by one
    thread; reads of the defaults see the effects of earlier writes.

    Write w of an iteration stores `values[w]` in component `written[w]` where `valid[w]` holds, at
    the next indices of `target`, one per axis of the component.  Component numbers beyond the
    defaults denote `variables`.  The value of variable `names[k]`, `early[k]`, is computed in each
    iteration just before write `before[k]`.

    Instead of a component, `written` may mark the beginning (`BEGIN`) or the end (`END`) of a loop
    within the iteration, or a `TEST`: the loop is left unless `valid[w]` holds (evaluated just
    after what that needs).  A test outside such loops ends the whole computation.

    `first`: for one part of a loop, whose defaults are the results of earlier parts, the smallest
    and the largest element of each default before the first part.
    """

    domain: Shape
    written: tuple[int, ...]
    valid: tuple[Expr, ...]
    target: tuple[Expr, ...]
    values: tuple[Expr, ...]
    defaults: tuple[Leaf, ...]
    variables: tuple[Var, ...]
    names: tuple[Var, ...]
    early: tuple[Expr, ...]
    before: tuple[int, ...]
    first: tuple[tuple[int, int], ...] = field(factory=lambda values: ())

    computed = ("valid", "target", "values", "early")

    def targets(self) -> list[tuple[Expr, ...]]:
        ranks = [len(self.defaults[k].shape) if 0 <= k < len(self.defaults) else 0
                 for k in self.written]  # fmt: skip
        ends = itertools.accumulate(ranks)
        return [self.target[end - n : end] for n, end in zip(ranks, ends, strict=True)]

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output(d.shape, d.type) for d in self.defaults)

    def iteration_space(self) -> Shape:
        return self.domain

    def per_element(self) -> tuple[Expr, ...]:
        return (*self.early, *self.valid, *self.target, *self.values)

    def schedule_axes(self) -> int:
        return 0

    def scopes(self) -> Iterator[Scope]:
        names = (*self.variables, *self.names)
        yield Scope("the iterations", self.per_element(), len(self.domain), names)

    def host_expressions(self) -> tuple[Expr, ...]:
        return self.domain

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.domain, *self.per_element())

    def operands(self) -> tuple[Leaf, ...]:
        return self.defaults


class Matmul(Node):
    """Matrix product: `left` over Index(batch…, i, k), `right` over Index(batch…, k, j).

    `result` is the variable for the sum over k (scaled by alpha) in `epilogue`, over Index(batch…,
    i, j). `options` is a MatmulOptions (linalg.py).
    """

    batch: Shape
    m: Expr
    n: Expr
    k: Expr
    left: Expr
    right: Expr
    options: Any
    result: Var = field(factory=lambda values: result_variables((values["left"],))[0])
    epilogue: tuple[Expr, ...] = field(factory=lambda values: (values["result"],))

    computed = ("left", "right", "epilogue")

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output((*self.batch, self.m, self.n), e.type) for e in self.epilogue)

    def iteration_space(self) -> tuple[None, ...]:
        return (None,) * (len(self.batch) + 2)

    def per_element(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def scopes(self) -> Iterator[Scope]:
        rank = len(self.batch) + 2
        yield Scope("the operands", (self.left, self.right), rank)
        yield Scope("the epilogue", self.epilogue, rank, (self.result,))

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*self.batch, self.m, self.n, self.k)

    def bodies(self) -> tuple[Expr, ...]:
        return (self.k, self.left, self.right, *self.epilogue)


class FoldingMatmul(Matmul):
    """A matrix product with a fold of an operand or of its result, made by passes: `elements` over
    Index(axes of `space`) are folded along axis `inner`, into an array whose axis k is axis
    `places[k]` of the space.

    The components begin with those of the fold.
    """

    elements: tuple[Expr, ...] = field(factory=lambda values: ())
    combine: Combine = field(factory=lambda values: Combine((), (), ()))
    init: tuple[Expr, ...] | None = field(factory=lambda values: None)
    results: tuple[Var, ...] = field(factory=lambda values: result_variables(values["elements"]))
    finish: tuple[Expr, ...] = field(factory=lambda values: values["results"])
    places: tuple[int, ...] = field(factory=lambda values: ())

    computed = (*Matmul.computed, "elements", "finish")  # type: ignore[assignment]

    @property
    def inner(self) -> int:
        return len(self.space) - 1

    @property
    def space(self) -> Shape:
        return (*self.batch, self.m, self.n)

    @property
    def outer(self) -> Shape:
        return tuple(self.space[k] for k in self.places)

    @property
    def folded_value(self) -> Var:
        """The variable that stands for the product's value in `elements`."""
        return self.result

    def _outputs(self) -> tuple[Output, ...]:
        return (*(Output(self.outer, e.type) for e in self.finish), *super()._outputs())

    def scopes(self) -> Iterator[Scope]:
        yield from super().scopes()
        yield Scope("what is folded", self.elements, len(self.space), (self.folded_value,))
        yield Scope("the results", self.finish, len(self.outer), self.results)

    def host_expressions(self) -> tuple[Expr, ...]:
        return (*super().host_expressions(), *(self.init or ()))

    def bodies(self) -> tuple[Expr, ...]:
        folded = (*self.elements, *(self.init or ()), *self.combine.results, *self.finish)
        return (*super().bodies(), *folded)

    def fold(self, elements: tuple[Expr, ...] | None = None) -> Fold:
        """The separate fold, over Index(outer axes…, inner axis); default: its own elements."""
        if elements is None:
            elements = substitute(self.elements, self._moved())
        return Fold(self.outer, (self.space[self.inner],), elements, self.combine, self.init,
                    self.results, self.finish, label=self.label, where=self.where)  # fmt: skip

    def _moved(self) -> dict[Expr, Expr]:
        """Maps the axes of the fold to those of the space."""
        return {Index(a): Index(k) for k, a in enumerate((*self.places, self.inner))}

    def _product(self, left: Expr, right: Expr) -> Matmul:
        return Matmul(self.batch, self.m, self.n, self.k, left, right, self.options, self.result,
                      label=self.label, where=self.where)  # fmt: skip


class FoldedMatmul(FoldingMatmul):
    """A matrix product and a fold along its rows, made from a `Matmul` and a `Fold`: `elements` are
    over `result` and other arrays.

    The other components are those of the product: none if only the fold is used.
    """

    __slots__ = ()  # its fields are those of a FoldingMatmul

    def apart(self) -> tuple[Matmul, Fold]:
        product, moved = self._product(self.left, self.right), self._moved()
        read = Read(product, 0, substitute(indices(len(self.space)), moved))
        return product, self.fold(substitute(self.elements, {**moved, self.result: read}))


class StoringMatmul(FoldingMatmul):
    """A matrix product that also stores an operand (`side`: 0 left, 1 right) and folds it along k,
    made from a `StoringFold` and a `Matmul`: `elements` are over the operand's element `kept` and
    other arrays at its indices.  Axis k of the stored array is axis `order[k]` of the operand.

    The other components are the operand and the product.
    """

    side: int = field(factory=lambda values: 1)
    kept: Var = field(factory=lambda values: Var("kept0", values["left"].type))
    order: tuple[int, ...] = field(factory=lambda values: (*range(len(values["batch"]) + 2),))

    @property
    def inner(self) -> int:
        return len(self.batch) + 1 - self.side

    @property
    def space(self) -> Shape:
        return (*self.batch, self.k, self.n) if self.side else (*self.batch, self.m, self.k)

    @property
    def folded_value(self) -> Var:
        return self.kept

    @property
    def stored_shape(self) -> Shape:
        return tuple(self.space[k] for k in self.order)

    def _outputs(self) -> tuple[Output, ...]:
        outputs, count = super()._outputs(), len(self.finish)
        return (*outputs[:count], Output(self.stored_shape, self.kept.type), *outputs[count:])

    def apart(self) -> tuple[StoringFold, Matmul]:
        moved, domain = self._moved(), (*self.places, self.inner)
        (value, *elements) = substitute(((self.left, self.right)[self.side], *self.elements), moved)
        fold = StoringFold(
            self.outer, (self.k,), tuple(elements), self.combine, self.init, (value,), (self.kept,),
            tuple(domain.index(a) for a in self.order), self.results, self.finish,
            label=self.label, where=self.where,
        )  # fmt: skip
        read = Read(fold, len(self.finish), tuple(Index(a) for a in self.order))
        left, right = (self.left, read) if self.side else (read, self.right)
        return fold, self._product(left, right)


class Library(Node):
    """A library operation on whole arrays: `operation` is a LibraryOperation (libraries/)."""

    operation: Any
    arguments: tuple[Leaf, ...]
    outs: tuple[Output, ...]

    def _outputs(self) -> tuple[Output, ...]:
        return self.outs

    def _shared(self) -> bool:
        """Not interned with user functions: its key would refer to them, and they to the node."""
        return not self.operation.implementations

    def operands(self) -> tuple[Leaf, ...]:
        return self.arguments


class Barrier(Node):
    """`compute`: materialise here; nothing is fused across.

    With a `rule`: the `ruled` results of a function, then its arguments, and how it is
    differentiated (by `td.rule`, or as a library operation); programs that run contain no rules
    (`without_rules`).
    """

    arguments: tuple[Leaf, ...]
    rule: Any = field(factory=lambda values: None)
    ruled: int = field(factory=lambda values: 0)

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output(a.shape, a.type) for a in self.arguments)

    def operands(self) -> tuple[Leaf, ...]:
        return self.arguments


class ArrayLoop(Node):
    """A loop over whole arrays.

    `state` are the Input nodes for the state inside the loop; `init` is its initial value, `body`
    its next value.  Either `predicate` (a rank-0 bool leaf) or `count` (with `index`, a rank-0
    int64 Input) ends the loop.

    An extent of the state that changes from iteration to iteration is itself a rank-0 part of the
    state, which the shape reads; the extent of the result is the last value of that part.
    """

    state: tuple[Input, ...]
    init: tuple[Leaf, ...]
    body: tuple[Leaf, ...]
    predicate: Leaf | None
    count: Expr | None
    index: Input | None

    def _define(self) -> None:
        """Keep the types and shapes of the initial state: a chain of loops computes them once.
        Shapes that refer back to the node would make a cycle (see `Input`), and are computed when
        read."""
        self._begun = tuple([leaf.node.outputs[leaf.component] for leaf in self.init])
        extents = (e for state in self.state for e in state._extents)
        self._grows = any(isinstance(e, Read) and e.node in self.state for e in extents)

    @property  # type: ignore[misc]
    def outputs(self) -> tuple[Output, ...]:  # type: ignore[override]
        if not self._grows:
            return self._begun

        def last(inside: Expr, before: Expr) -> Expr:
            if isinstance(inside, Read) and inside.node in self.state:
                return Read(self, self.state.index(inside.node), ())
            return before

        return tuple(
            Output(tuple(map(last, state.shape, first.shape)), first.type)
            for state, first in zip(self.state, self._begun, strict=True)
        )

    def type_of(self, component: int) -> ScalarType:
        return self._begun[component].type

    def changing(self) -> list[int]:
        return [
            k
            for k, state in enumerate(self.state)
            if any(isinstance(e, Read) and e.node in self.bound for e in state.shape)
        ]

    def varying(self, nodes: Sequence[Node]) -> set[Node]:
        """Those of `nodes`, given in order of computation, that iterations compute: nodes that
        depend on a state or the counter, including inner loops and their nodes."""
        bound: set[Node] = set()
        found: set[Node] = set()
        more: set[Node] = set(self.bound)
        while not more <= bound:
            bound |= more
            found = set()
            for node in nodes:
                used = (*node.inputs(), *node.inside())
                if node in bound or any(leaf.node in found for leaf in used):
                    found.add(node)
            more = {b for node in found if isinstance(node, ArrayLoop) for b in node.bound}
        return found

    def expressions(self) -> tuple[Expr, ...]:
        return (*self.bodies(), *(e for first in self.init for e in first.shape))

    def host_expressions(self) -> tuple[Expr, ...]:
        return () if self.count is None else (self.count,)

    def bodies(self) -> tuple[Expr, ...]:
        return () if self.count is None else (self.count,)

    def operands(self) -> tuple[Leaf, ...]:
        return self.init

    def inner_roots(self) -> tuple[Leaf, ...]:
        return self.body if self.predicate is None else (*self.body, self.predicate)

    def inside(self) -> tuple[Leaf, ...]:
        return self.inner_roots()

    @property
    def bound(self) -> tuple[Input, ...]:
        return self.state if self.index is None else (*self.state, self.index)


class Branch(Node):
    """`cond` on arrays: only the chosen side's leaves are computed."""

    predicate: Expr
    then: tuple[Leaf, ...]
    other: tuple[Leaf, ...]
    outs: tuple[Output, ...]

    def _outputs(self) -> tuple[Output, ...]:
        return self.outs

    def host_expressions(self) -> tuple[Expr, ...]:
        return (self.predicate,)

    def bodies(self) -> tuple[Expr, ...]:
        return (self.predicate,)

    def inside(self) -> tuple[Leaf, ...]:
        return (*self.then, *self.other)
