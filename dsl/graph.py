"""The array graph: immutable, hash-consed nodes, one class per way of computing an array.

Everything whose elements are independent of each other — `generate`, `map`, `zip`, every index
transform, `stencil` — is a `Generate`: a shape and one expression per component over `Index`
leaves that reads other arrays.  What needs more has a class of its own.  So fusion is
substitution, and the access map of every operation can be read off its expressions.

A node computes `outputs`, components with a shape and a type each; a `Leaf` is one of them.
After fusion the same classes stand for kernels: then `epilogue` holds consumers' expressions and
`fused` the operations that went in.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import Location
from .expr import Const, Expr, Extent, Index, Read, Var, constant, walk
from .types import ScalarType

_interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
_fresh = itertools.count()

Shape = tuple[Expr, ...]


class Output(NamedTuple):
    shape: Shape
    type: ScalarType


class Leaf(NamedTuple):
    """One component of a node: one buffer."""

    node: Node
    component: int

    @property
    def shape(self) -> Shape:
        return self.node.outputs[self.component].shape

    @property
    def type(self) -> ScalarType:
        return self.node.outputs[self.component].type

    def at(self, *indices: Expr) -> Read:
        return Read(self.node, self.component, tuple(indices))


@dataclass(frozen=True)
class Label:
    """What the user wrote: operation, given name, schedule and place."""

    operation: str
    name: str | None = None
    schedule: Any = None
    deterministic: bool = False

    def __str__(self) -> str:
        return f"{self.operation} '{self.name}'" if self.name else self.operation


@dataclass(frozen=True)
class Check:
    """A relation that run-time extents must satisfy: `left` `relation` `right` before any kernel.

    `message` and `hint` are format strings over `left` and `right`; `error` names the class.
    """

    left: Expr
    right: Expr
    message: str
    error: str = "ShapeError"
    relation: str = "=="
    hint: str | None = None
    where: Location | None = None


@dataclass(frozen=True)
class Combine:
    """A binary function on elements: `results` over `left` and `right`, one each per component."""

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    results: tuple[Expr, ...]


class Node:
    """Base of the array graph."""

    __slots__ = ("__weakref__", "_inputs", "_key", "checks", "fused", "label", "outputs", "uid",
                 "where")  # fmt: skip
    outputs: tuple[Output, ...]
    label: Label
    where: Location | None
    checks: tuple[Check, ...]
    fused: tuple[tuple[Label, Location | None], ...]
    uid: int
    _inputs: tuple[Leaf, ...]
    fields: tuple[str, ...] = ()

    def leaf(self, component: int = 0) -> Leaf:
        return Leaf(self, component)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(Leaf(self, k) for k in range(len(self.outputs)))

    def expressions(self) -> tuple[Expr, ...]:
        """Every scalar expression of the node, shapes included."""
        return (*self.bodies(), *(e for o in self.outputs for e in o.shape))

    def bodies(self) -> tuple[Expr, ...]:
        """The expressions evaluated per element."""
        return ()

    def operands(self) -> tuple[Leaf, ...]:
        """Leaves used whole, not through a `Read`."""
        return ()

    def inputs(self) -> tuple[Leaf, ...]:
        """Every leaf the node depends on, in order of first use (found once: nodes never change)."""
        try:
            return self._inputs
        except AttributeError:
            pass
        seen: dict[Leaf, None] = dict.fromkeys(self.operands())
        for e in walk(self.expressions()):
            if isinstance(e, Read):
                seen[Leaf(e.node, e.component)] = None
        for check in self.checks:
            for e in walk((check.left, check.right)):
                if isinstance(e, Read):
                    seen[Leaf(e.node, e.component)] = None
        self._inputs = tuple(seen)
        return self._inputs

    def with_(self, **changes: Any) -> Any:
        """A copy with other fields; `where`, `checks` and `fused` are carried over."""
        values = {f: getattr(self, f) for f in self.fields}
        values.update((k, v) for k, v in changes.items() if k in self.fields)
        cls: Any = type(self)
        made = cls(
            *values.values(),
            label=changes.get("label", self.label),
            where=self.where,
            checks=changes.get("checks", self.checks),
            fused=changes.get("fused", self.fused),
        )
        return made

    def __repr__(self) -> str:
        return f"%{self.uid} {self.label}"


def _make(
    cls: type[Any],
    values: tuple[Any, ...],
    label: Label,
    where: Location | None,
    checks: tuple[Check, ...] = (),
    fused: tuple[Any, ...] = (),
) -> Any:
    key: tuple[Any, ...] = (cls, values, label, checks, tuple(f[0] for f in fused))
    try:
        found = _interned.get(key)
    except TypeError:  # an unhashable option: do not share
        found, key = None, ()
    if found is not None:
        return found
    node = object.__new__(cls)
    for field, value in zip(cls.fields, values, strict=True):
        setattr(node, field, value)
    node.label, node.where, node.checks, node.fused = label, where, checks, fused
    node.uid = next(_fresh)
    node._key = key
    if key:
        _interned[key] = node
    return node


class Input(Node):
    """An array from outside: `use`d data (`source`), an argument of `jit`, or a loop's state.

    Extents that are 1 are the constant 1 (and broadcast); the others are `Extent` leaves.
    """

    __slots__ = ("kind", "name", "shape", "source", "type")
    fields = ("name", "type", "kind")
    name: str
    type: ScalarType
    kind: str
    source: Any
    shape: Shape

    def __init__(self, name: str, type_: ScalarType, ones: tuple[bool, ...], kind: str = "use",
                 source: Any = None, where: Location | None = None) -> None:  # fmt: skip
        self.name, self.type, self.kind, self.source = name, type_, kind, source
        self.label, self.where, self.checks, self.fused = Label(kind, name), where, (), ()
        self.uid = next(_fresh)
        self.shape = tuple(
            constant(1) if one else Extent(self, axis) for axis, one in enumerate(ones)
        )
        self.outputs = (Output(self.shape, type_),)


class Generate(Node):
    """Independent elements: component `k` at index `ix` is `elements[k]` with Index(j) = ix[j].

    `ordered` tells that `elements` holds boundary reads of a stencil (a hint for labels only).
    """

    __slots__ = ("elements", "shape")
    fields = ("shape", "elements")
    shape: Shape
    elements: tuple[Expr, ...]

    def __new__(cls, shape: Shape, elements: tuple[Expr, ...], *, label: Label,
                where: Location | None = None, checks: tuple[Check, ...] = (),
                fused: tuple[Any, ...] = ()) -> Generate:  # fmt: skip
        node = _make(cls, (shape, elements), label, where, checks, fused)
        node.outputs = tuple(Output(shape, e.type) for e in elements)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return self.elements


class Fold(Node):
    """`outer × inner → outer`: `elements` over Index(outer axes…, inner axes…), reduced over the
    inner axes in row-major order with `combine`, `init` once on the left (None: first element).

    `results` are variables standing for the folded values in `epilogue`, the expressions over
    Index(outer axes…) that are stored.
    """

    __slots__ = ("combine", "elements", "epilogue", "init", "inner", "outer", "results")
    fields = ("outer", "inner", "elements", "combine", "init", "results", "epilogue")
    outer: Shape
    inner: Shape
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    results: tuple[Var, ...]
    epilogue: tuple[Expr, ...]

    def __new__(cls, outer: Shape, inner: Shape, elements: tuple[Expr, ...], combine: Combine,
                init: tuple[Expr, ...] | None, results: tuple[Var, ...] = (),
                epilogue: tuple[Expr, ...] = (), *, label: Label, where: Location | None = None,
                checks: tuple[Check, ...] = (), fused: tuple[Any, ...] = ()) -> Fold:  # fmt: skip
        if not results:
            results = epilogue = result_variables(elements)
        node = _make(cls, (outer, inner, elements, combine, init, results, epilogue), label,
                     where, checks, fused)  # fmt: skip
        node.outputs = tuple(Output(outer, e.type) for e in epilogue)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.inner, *self.elements, *(self.init or ()), *self.combine.results,
                *self.epilogue)  # fmt: skip


class FoldSeg(Node):
    """Segmented fold: row `o` of `outer`, segment `s` reduces `elements` over Index(outer…, p)
    for offsets[s] <= p < offsets[s + 1]; `offsets` is an int64 leaf of length segments + 1."""

    __slots__ = ("combine", "elements", "epilogue", "init", "offsets", "outer", "results",
                 "segments")  # fmt: skip
    fields = ("outer", "segments", "offsets", "elements", "combine", "init", "results", "epilogue")
    outer: Shape
    segments: Expr
    offsets: Leaf
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    results: tuple[Var, ...]
    epilogue: tuple[Expr, ...]

    def __new__(cls, outer: Shape, segments: Expr, offsets: Leaf, elements: tuple[Expr, ...],
                combine: Combine, init: tuple[Expr, ...] | None, results: tuple[Var, ...] = (),
                epilogue: tuple[Expr, ...] = (), *, label: Label, where: Location | None = None,
                checks: tuple[Check, ...] = (), fused: tuple[Any, ...] = ()) -> FoldSeg:  # fmt: skip
        if not results:
            results = epilogue = result_variables(elements)
        node = _make(cls, (outer, segments, offsets, elements, combine, init, results, epilogue),
                     label, where, checks, fused)  # fmt: skip
        node.outputs = tuple(Output((*outer, segments), e.type) for e in epilogue)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.elements, *(self.init or ()), *self.combine.results, *self.epilogue)

    def operands(self) -> tuple[Leaf, ...]:
        return (self.offsets,)


class Scan(Node):
    """Prefix combination along `axis` of `shape`.

    form "inclusive": n results; "exclusive": n + 1, starting with `init`; "total": the first n of
    those and, as further components, the last (of the shape without `axis`).  `reverse` runs from
    the end: result k combines elements k…, in the order of the array.
    `epilogue` (over Index of the results and `results`) is stored; for "total" it covers prefixes.
    """

    __slots__ = ("axis", "combine", "elements", "epilogue", "form", "init", "results", "reverse",
                 "shape")  # fmt: skip
    fields = ("shape", "axis", "elements", "combine", "init", "form", "reverse", "results",
              "epilogue")  # fmt: skip
    shape: Shape
    axis: int
    elements: tuple[Expr, ...]
    combine: Combine
    init: tuple[Expr, ...] | None
    form: str
    reverse: bool
    results: tuple[Var, ...]
    epilogue: tuple[Expr, ...]

    def __new__(cls, shape: Shape, axis: int, elements: tuple[Expr, ...], combine: Combine,
                init: tuple[Expr, ...] | None, form: str, reverse: bool,
                results: tuple[Var, ...] = (), epilogue: tuple[Expr, ...] = (), *, label: Label,
                where: Location | None = None, checks: tuple[Check, ...] = (),
                fused: tuple[Any, ...] = ()) -> Scan:  # fmt: skip
        if not results:
            results = epilogue = result_variables(elements)
        node = _make(cls, (shape, axis, elements, combine, init, form, reverse, results, epilogue),
                     label, where, checks, fused)  # fmt: skip
        from .expr import primitive
        from .simplify import apply

        length = shape[axis]
        if form == "exclusive":
            length = apply(primitive("add"), (length, constant(1)), length.type)
        full = (*shape[:axis], length, *shape[axis + 1 :])
        outputs = [Output(full, e.type) for e in epilogue]
        if form == "total":
            rest = (*shape[:axis], *shape[axis + 1 :])
            outputs += [Output(rest, e.type) for e in elements]
        node.outputs = tuple(outputs)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return (*self.elements, *(self.init or ()), *self.combine.results, *self.epilogue)


class Permute(Node):
    """Scatter with combination into a copy of `defaults`.

    For every index of `domain` where `valid` holds, `out[target] = combine(values, out[target])`;
    `combine` None means overwrite.
    """

    __slots__ = ("combine", "defaults", "domain", "target", "valid", "values")
    fields = ("domain", "valid", "target", "values", "defaults", "combine")
    domain: Shape
    valid: Expr
    target: tuple[Expr, ...]
    values: tuple[Expr, ...]
    defaults: tuple[Leaf, ...]
    combine: Combine | None

    def __new__(cls, domain: Shape, valid: Expr, target: tuple[Expr, ...],
                values: tuple[Expr, ...], defaults: tuple[Leaf, ...], combine: Combine | None, *,
                label: Label, where: Location | None = None, checks: tuple[Check, ...] = (),
                fused: tuple[Any, ...] = ()) -> Permute:  # fmt: skip
        node = _make(cls, (domain, valid, target, values, defaults, combine), label, where,
                     checks, fused)  # fmt: skip
        node.outputs = tuple(Output(d.shape, d.type) for d in defaults)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        own = (*self.domain, self.valid, *self.target, *self.values)
        return own if self.combine is None else (*own, *self.combine.results)

    def operands(self) -> tuple[Leaf, ...]:
        return self.defaults


class Matmul(Node):
    """Matrix product: `left` over Index(batch…, i, k), `right` over Index(batch…, k, j).

    `result` stands for the sum over k (scaled by alpha) in `epilogue`, over Index(batch…, i, j).
    `options` is a MatmulOptions (linalg.py).
    """

    __slots__ = ("batch", "epilogue", "k", "left", "m", "n", "options", "result", "right")
    fields = ("batch", "m", "n", "k", "left", "right", "options", "result", "epilogue")
    batch: Shape
    m: Expr
    n: Expr
    k: Expr
    left: Expr
    right: Expr
    options: Any
    result: Var
    epilogue: tuple[Expr, ...]

    def __new__(cls, batch: Shape, m: Expr, n: Expr, k: Expr, left: Expr, right: Expr,
                options: Any, result: Var | None = None, epilogue: tuple[Expr, ...] = (), *,
                label: Label, where: Location | None = None, checks: tuple[Check, ...] = (),
                fused: tuple[Any, ...] = ()) -> Matmul:  # fmt: skip
        if result is None:
            result = result_variables((left,))[0]
            epilogue = (result,)
        node = _make(cls, (batch, m, n, k, left, right, options, result, epilogue), label, where,
                     checks, fused)  # fmt: skip
        node.outputs = tuple(Output((*batch, m, n), e.type) for e in epilogue)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return (self.k, self.left, self.right, *self.epilogue)


class Library(Node):
    """A library's operation on whole arrays: `operation` is a LibraryOperation (library.py)."""

    __slots__ = ("arguments", "operation", "outs")
    fields = ("operation", "arguments", "outs")
    operation: Any
    arguments: tuple[Leaf, ...]
    outs: tuple[Output, ...]

    def __new__(cls, operation: Any, arguments: tuple[Leaf, ...], outs: tuple[Output, ...], *,
                label: Label, where: Location | None = None, checks: tuple[Check, ...] = (),
                fused: tuple[Any, ...] = ()) -> Library:  # fmt: skip
        node = _make(cls, (operation, arguments, outs), label, where, checks, fused)
        node.outputs = outs
        return node  # type: ignore[no-any-return]

    def operands(self) -> tuple[Leaf, ...]:
        return self.arguments


class Barrier(Node):
    """`compute`: materialise here, fuse nothing across."""

    __slots__ = ("arguments",)
    fields = ("arguments",)
    arguments: tuple[Leaf, ...]

    def __new__(cls, arguments: tuple[Leaf, ...], *, label: Label, where: Location | None = None,
                checks: tuple[Check, ...] = (), fused: tuple[Any, ...] = ()) -> Barrier:  # fmt: skip
        node = _make(cls, (arguments,), label, where, checks, fused)
        node.outputs = tuple(Output(a.shape, a.type) for a in arguments)
        return node  # type: ignore[no-any-return]

    def operands(self) -> tuple[Leaf, ...]:
        return self.arguments


class ArrayLoop(Node):
    """A loop over whole arrays.

    `state` are Input nodes standing for the state inside; `init` its first value, `body` the next
    one.  Either `predicate` (a rank-0 bool leaf) or `count` (with `index`, an Input of rank 0,
    int64) ends it.
    """

    __slots__ = ("body", "count", "index", "init", "predicate", "state")
    fields = ("state", "init", "body", "predicate", "count", "index")
    state: tuple[Input, ...]
    init: tuple[Leaf, ...]
    body: tuple[Leaf, ...]
    predicate: Leaf | None
    count: Expr | None
    index: Input | None

    def __new__(cls, state: tuple[Input, ...], init: tuple[Leaf, ...], body: tuple[Leaf, ...],
                predicate: Leaf | None, count: Expr | None, index: Input | None, *, label: Label,
                where: Location | None = None, checks: tuple[Check, ...] = (),
                fused: tuple[Any, ...] = ()) -> ArrayLoop:  # fmt: skip
        node = _make(cls, (state, init, body, predicate, count, index), label, where, checks,
                     fused)  # fmt: skip
        node.outputs = tuple(Output(i.shape, i.type) for i in init)
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return () if self.count is None else (self.count,)

    def operands(self) -> tuple[Leaf, ...]:
        return self.init

    def inner_roots(self) -> tuple[Leaf, ...]:
        return self.body if self.predicate is None else (*self.body, self.predicate)

    @property
    def bound(self) -> tuple[Input, ...]:
        return self.state if self.index is None else (*self.state, self.index)


class Branch(Node):
    """`cond` on arrays: only the chosen side's leaves are computed."""

    __slots__ = ("other", "outs", "predicate", "then")
    fields = ("predicate", "then", "other", "outs")
    predicate: Expr
    then: tuple[Leaf, ...]
    other: tuple[Leaf, ...]
    outs: tuple[Output, ...]

    def __new__(cls, predicate: Expr, then: tuple[Leaf, ...], other: tuple[Leaf, ...],
                outs: tuple[Output, ...], *, label: Label, where: Location | None = None,
                checks: tuple[Check, ...] = (), fused: tuple[Any, ...] = ()) -> Branch:  # fmt: skip
        node = _make(cls, (predicate, then, other, outs), label, where, checks, fused)
        node.outputs = outs
        return node  # type: ignore[no-any-return]

    def bodies(self) -> tuple[Expr, ...]:
        return (self.predicate,)


def result_variables(elements: tuple[Expr, ...]) -> tuple[Var, ...]:
    """Canonical result variables: one per type and position, so equal folds stay equal."""
    return tuple(_result_variable(k, e.type) for k, e in enumerate(elements))


_results: dict[tuple[int, str], Var] = {}


def _result_variable(k: int, type_: ScalarType) -> Var:
    return _results.setdefault((k, type_.name), Var(f"result{k}", type_))


def canonical_combine(left: tuple[Var, ...], right: tuple[Var, ...],
                      results: tuple[Expr, ...]) -> Combine:  # fmt: skip
    """Rename a combining function's variables to canonical ones, so equal functions are equal."""
    from .expr import substitute

    new_left = tuple(_combine_variable("left", k, v.type) for k, v in enumerate(left))
    new_right = tuple(_combine_variable("right", k, v.type) for k, v in enumerate(right))
    mapping: dict[Expr, Expr] = dict(zip((*left, *right), (*new_left, *new_right), strict=True))
    return Combine(new_left, new_right, substitute(results, mapping))


def _combine_variable(side: str, k: int, type_: ScalarType) -> Var:
    key = (hash(side), f"{side}{k}{type_.name}")
    return _results.setdefault(key, Var(f"{side}{k}", type_))


def indices(rank: int) -> tuple[Index, ...]:
    return tuple(Index(k) for k in range(rank))


def inner_inputs(node: Node) -> Iterable[Leaf]:
    """Leaves that a loop or a branch uses inside its own sub-programs."""
    if isinstance(node, ArrayLoop):
        return node.inner_roots()
    if isinstance(node, Branch):
        return (*node.then, *node.other)
    return ()


def topological(roots: Iterable[Leaf], inside: bool = True) -> Iterator[Node]:
    """Every reachable node once, dependencies first (iterative).

    With `inside`, the bodies of loops and branches are visited too.
    """
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(leaf.node, False) for leaf in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        needed = list(node.inputs())
        if inside:
            needed += inner_inputs(node)
        for leaf in reversed(needed):
            if leaf.node not in seen:
                stack.append((leaf.node, False))


def is_identity_read(e: Expr, rank: int) -> bool:
    """`a[i, j, …]` at the very index of the element."""
    return (
        isinstance(e, Read)
        and e.boundary is None
        and len(e.args) == rank
        and all(isinstance(a, Index) and a.axis == k for k, a in enumerate(e.args))
    )


def known(e: Expr) -> Any:
    """The value of an extent expression when all its leaves are known now, else None."""
    if isinstance(e, Const):
        return e.value[()]
    values: dict[Expr, Any] = {}
    for node in walk((e,)):
        if isinstance(node, Const):
            values[node] = node.value
        elif isinstance(node, Extent):
            source = node.node.source if isinstance(node.node, Input) else None
            if source is None:
                return None
            values[node] = source.shape[node.axis]
        elif node.scoped or not node.args:
            return None
        else:
            op = getattr(node, "op", None)
            if op is None:
                return None
            import numpy as np

            from .primitives import convert

            args = [np.asarray(values[a], a.type.numpy) for a in node.args]
            values[node] = convert(np.asarray(op.numpy(*args)), node.type)[()]
    return values[e]
