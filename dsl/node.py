"""Base classes of the array graph: nodes, their components and attributes."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

from .errors import Location
from .expr import Apply, Const, Expr, Extent, Index, Read, Var, constant, reading, substitute, walk
from .graphs.interning import find, publish
from .records import dataclass
from .schedule import Schedule
from .types import ScalarType

_fresh = itertools.count()


def fresh_uid() -> int:
    return next(_fresh)


Shape = tuple[Expr, ...]


class Output(NamedTuple):
    shape: Shape
    type: ScalarType


class Scope(NamedTuple):
    """Expressions of a node, the number of axes in scope and the variables in scope."""

    what: str
    expressions: tuple[Expr, ...]
    axes: int
    variables: tuple[Var, ...] = ()


class Leaf(NamedTuple):
    """One component of a node, stored in one buffer."""

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


#: The operations of parts of a fold or a scan, whose kernels group elements as those of the whole:
#: the leaves of a fold, each like a block of its first kernel; their combination, as by its second
#: kernel; a scan of some of many rows, which has one block per row.
LEAVES, PARTIALS, ROWS = "leaves", "combine leaves", "scan of rows"


@dataclass(frozen=True)
class Label:
    """What the user specified: operation, name, schedule and determinism.

    `whole`: for a block of a fold or scan, the extents of the whole, by which a GPU groups
    elements; not part of stored programs.
    """

    operation: str
    name: str | None = None
    schedule: Schedule | None = None
    deterministic: bool = False
    whole: tuple[int, ...] | None = None

    @property
    def ordered(self) -> bool:
        """Whether there is a schedule with layers; `Auto()` has none."""
        return self.schedule is not None and bool(self.schedule.layers)

    @property
    def called(self) -> str:
        """The user's name, or else that of the operation."""
        return self.name or self.operation

    @property
    def part(self) -> str | None:
        """The operation, if it decides how kernels group elements."""
        return self.operation if self.operation in (LEAVES, PARTIALS, ROWS) else None

    def grouping(self, extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The extents that determine how elements of a fold or scan over `extents` are grouped."""
        return extents if self.whole is None else tuple(map(constant, self.whole))

    def __str__(self) -> str:
        return f"{self.operation} '{self.name}'" if self.name else self.operation


#: Added to a broadcast error if an extent was 1 only at run time.
_BY_CHANCE = (
    ".  It is 1 only at run time: extents that broadcast must be 1 when the program is traced"
)


@dataclass(frozen=True)
class Check:
    """A relation between run-time extents, `left` `relation` `right`, checked before any kernel
    runs.

    `message` is a format string over `left`, `right` and `by_chance` (a remark if one of them is 1
    only at run time); `error` names the exception class; with `in_checked`, only checked programs
    make the check.  Equality ignores where the relation was written.
    """

    left: Expr
    right: Expr
    message: str
    error: str = "ShapeError"
    relation: str = "=="
    hint: str | None = None
    where: Location | None = dataclass_field(default=None, compare=False)
    in_checked: bool = False

    def text(self, left: int, right: int) -> str:
        """The message for two values that violate the relation."""
        by_chance = _BY_CHANCE if 1 in (left, right) else ""
        return self.message.format(left=left, right=right, by_chance=by_chance)

    @property
    def reads(self) -> bool:
        """Whether the check reads elements of arrays, which have to be computed first."""
        return self.left.reads or self.right.reads


@dataclass(frozen=True)
class Combine:
    """A binary function on elements: `results` over `left` and `right`, one per component."""

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    results: tuple[Expr, ...]

    def of(self, left: Iterable[Expr], right: Iterable[Expr]) -> tuple[Expr, ...]:
        """The function applied to two elements, given by their components."""
        given: dict[Expr, Expr] = dict(zip((*self.left, *self.right), (*left, *right), strict=True))
        return substitute(self.results, given)


def field(*, factory: Callable[[dict[str, Any]], Any]) -> Any:
    """A field with a default, computed from the values of the preceding fields."""
    return factory


#: The user's arrays that were made last, including dead ones.
latest_held: deque[weakref.ref[object]] = deque(maxlen=4096)

#: The node classes by name, wherever they are defined.
NODES: dict[str, type[Node]] = {}


@dataclass_transform(field_specifiers=(field, dataclass_field))
class _NodeType(type):
    """Makes the annotated attributes of a class fields of its nodes, after its base's."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _NodeType:
        if "__slots__" not in namespace:
            own = tuple(namespace.get("__annotations__", ()))
            made = {f: namespace.pop(f) for f in own if f in namespace}
            for base in bases:
                made = {**getattr(base, "factories", {}), **made}
            inherited = (f for base in bases for f in getattr(base, "fields", ()))
            namespace["factories"], namespace["fields"] = made, (*inherited, *own)
            namespace["__slots__"] = own
        return super().__new__(mcls, name, bases, namespace)


class Node(metaclass=_NodeType):
    """Base class of the array graph.  A node class declares its fields as annotated attributes;
    construction, hashing, rewriting and serialisation follow from them.  Equal nodes are shared.

    Besides its fields a node has the keyword arguments `label`, `where` it was written, `checks` to
    make before it is computed, and the labels and locations of operations `fused` into it.
    `holders` are the user's arrays with its elements, `evaluated` is whether their values were
    requested (`frontend/held.py`); an `Input` has neither.
    """

    __slots__ = (
        "__weakref__",
        "_begun",
        "_grows",
        "_inputs",
        "_reads",
        "checks",
        "evaluated",
        "fused",
        "holders",
        "label",
        "outputs",
        "uid",
        "where",
    )
    fields: ClassVar[tuple[str, ...]] = ()
    #: The fields that kernels evaluate for each element or result.
    computed: ClassVar[tuple[str, ...]] = ()
    factories: ClassVar[dict[str, Callable[[dict[str, Any]], Any]]] = {}
    if TYPE_CHECKING:
        label: Label = dataclass_field(kw_only=True)
        where: Location | None = dataclass_field(kw_only=True, default=None)
        checks: tuple[Check, ...] = dataclass_field(kw_only=True, default=())
        fused: tuple[tuple[Label, Location | None], ...] = dataclass_field(kw_only=True, default=())
        outputs: tuple[Output, ...] = dataclass_field(init=False)
        uid: int = dataclass_field(init=False)
        _begun: tuple[Output, ...] = dataclass_field(init=False)
        _grows: bool = dataclass_field(init=False)
        _inputs: tuple[Leaf, ...] = dataclass_field(init=False)
        _reads: tuple[Read, ...] = dataclass_field(init=False)
        holders: tuple[weakref.ref[object], ...] = dataclass_field(init=False)
        evaluated: bool = dataclass_field(init=False)

    def __init_subclass__(cls) -> None:
        NODES[cls.__name__] = cls

    def __new__(
        cls,
        *given: Any,
        label: Label,
        where: Location | None = None,
        checks: tuple[Check, ...] = (),
        fused: tuple[tuple[Label, Location | None], ...] = (),
    ) -> Self:
        """The interned node with these fields; a new one if a field is unhashable."""
        values = dict(zip(cls.fields, given, strict=False))
        for name in cls.fields[len(given) :]:
            values[name] = cls.factories[name](values)
        key: tuple[Any, ...] | None
        key = (cls, tuple(values.values()), label, checks, tuple([f[0] for f in fused]))
        try:
            found: Self | None = find(key)
        except TypeError:
            key, found = None, None
        if found is not None:
            return found
        node = object.__new__(cls)
        for name, value in values.items():
            setattr(node, name, value)
        node.label, node.where, node.checks, node.fused = label, where, checks, fused
        node.holders, node.evaluated = (), False
        node._define()
        node.uid = next(_fresh)
        return node if key is None or not node._shared() else publish(key, node)

    def _define(self) -> None:
        self.outputs = self._outputs()

    def type_of(self, component: int) -> ScalarType:
        return self.outputs[component].type

    def _outputs(self) -> tuple[Output, ...]:
        """The components that the node computes."""
        raise NotImplementedError

    def _shared(self) -> bool:
        """Whether nodes of this class are interned."""
        return True

    def leaf(self, component: int = 0) -> Leaf:
        return Leaf(self, component)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(Leaf(self, k) for k in range(len(self.outputs)))

    def held_by(self, array: object) -> None:
        """Record a user's array with the node's elements; only the latest ones are kept."""
        others = [holder for holder in self.holders[-7:] if holder() is not None]
        holder = weakref.ref(array)
        self.holders = (*others, holder)
        latest_held.append(holder)

    def called(self) -> str:
        """The name of the array in error messages."""
        return self.label.called

    def expressions(self) -> tuple[Expr, ...]:
        """All scalar expressions of the node, including shapes."""
        return (*self.bodies(), *(e for o in self.outputs for e in o.shape))

    def bodies(self) -> tuple[Expr, ...]:
        """The expressions evaluated per element."""
        return ()

    def iteration_space(self) -> tuple[Expr | None, ...]:
        """The extents of the axes over which element expressions range (None: unknown); empty if
        the node has no element expressions."""
        return ()

    def per_element(self) -> tuple[Expr, ...]:
        """The expressions at each point of the iteration space: no shapes or initial values."""
        return ()

    def schedule_axes(self) -> int:
        """The number of axes ordered by a schedule of the node; 0 if it takes no schedule."""
        return len(self.iteration_space())

    def scopes(self) -> Iterator[Scope]:
        """The expressions evaluated on the device, with their scopes."""
        return iter(())

    def host_expressions(self) -> tuple[Expr, ...]:
        """The expressions evaluated on the host, except the shapes of the outputs."""
        return ()

    def operands(self) -> tuple[Leaf, ...]:
        """Leaves used as whole arrays, not through a `Read`."""
        return ()

    def inside(self) -> tuple[Leaf, ...]:
        """Leaves used in the node's own subprograms."""
        return ()

    def reads(self) -> tuple[Read, ...]:
        """The reads of arrays in `expressions()`; cached."""
        try:
            return self._reads
        except AttributeError:
            self._reads = tuple(reading(self.expressions()))
        return self._reads

    def inputs(self) -> tuple[Leaf, ...]:
        """Every leaf on which the node depends, in order of first use; cached."""
        try:
            return self._inputs
        except AttributeError:
            pass
        seen: dict[Leaf, None] = dict.fromkeys(self.operands())
        for e in self.reads():
            seen[Leaf(e.node, e.component)] = None
        for check in self.checks:
            for e in reading((check.left, check.right)):
                seen[Leaf(e.node, e.component)] = None
        self._inputs = tuple(seen)
        return self._inputs

    def with_(self, **changes: Any) -> Self:
        """A copy with other fields; `where`, `checks` and `fused` are carried over."""
        make: Callable[..., Self] = type(self)
        return make(
            *[changes.get(f, getattr(self, f)) for f in self.fields],
            label=changes.get("label", self.label),
            where=self.where,
            checks=changes.get("checks", self.checks),
            fused=changes.get("fused", self.fused),
        )

    def __repr__(self) -> str:
        return f"%{self.uid} {self.label}"


def result_variables(elements: tuple[Expr, ...]) -> tuple[Var, ...]:
    """Canonical result variables: one per type and position, so equal folds stay equal."""
    return tuple(_result_variable(k, e.type) for k, e in enumerate(elements))


_results: dict[tuple[int, str], Var] = {}


def _result_variable(k: int, type_: ScalarType) -> Var:
    return _results.setdefault((k, type_.name), Var(f"result{k}", type_))


def canonical_combine(
    left: tuple[Var, ...], right: tuple[Var, ...], results: tuple[Expr, ...]
) -> Combine:
    """Use canonical variables in a combining function, so that equal functions compare equal."""
    new_left = tuple(_combine_variable("left", k, v.type) for k, v in enumerate(left))
    new_right = tuple(_combine_variable("right", k, v.type) for k, v in enumerate(right))
    mapping: dict[Expr, Expr] = dict(zip((*left, *right), (*new_left, *new_right), strict=True))
    return Combine(new_left, new_right, substitute(results, mapping))


def _combine_variable(side: str, k: int, type_: ScalarType) -> Var:
    key = (hash(side), f"{side}{k}{type_.name}")
    return _results.setdefault(key, Var(f"{side}{k}", type_))


def indices(rank: int) -> tuple[Index, ...]:
    return tuple(Index(k) for k in range(rank))


def inner_inputs(node: Node) -> tuple[Leaf, ...]:
    """Leaves that a loop or a branch uses in its subprograms."""
    return node.inside()


class _Remembered(threading.local):
    """The orders of graphs that `topological` has found in this thread, if it keeps them."""

    orders: dict[tuple[bool, tuple[Leaf, ...]], tuple[Node, ...]] | None = None


_remembered = _Remembered()


@contextmanager
def remembered_orders() -> Iterator[None]:
    """Many passes look at a graph before one changes it: `topological` keeps what it finds."""
    before = _remembered.orders
    _remembered.orders = {} if before is None else before
    try:
        yield
    finally:
        _remembered.orders = before


def topological(
    roots: Iterable[Leaf], inside: bool = True, known: Iterable[Node] = ()
) -> Iterator[Node]:
    """Iterate over every reachable node once, dependencies first; iterative.

    With `inside`, also visit the bodies of loops and branches.  Nodes of `known`, and nodes that
    only they need, are skipped.
    """
    orders = _remembered.orders
    if orders is None or known:
        return _ordered(roots, inside, known)
    key = (inside, tuple(roots))
    found = orders.get(key)
    if found is None:
        found = orders[key] = tuple(_ordered(key[1], inside, ()))
    return iter(found)


def _ordered(roots: Iterable[Leaf], inside: bool, known: Iterable[Node]) -> Iterator[Node]:
    seen: set[Node] = set(known)
    stack: list[Node | None] = [leaf.node for leaf in roots]
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # what the next entry needs is before it
            yield stack.pop()  # type: ignore[misc]
            continue
        if node in seen:
            continue
        seen.add(node)
        needed = node.inputs()
        if inside:
            needed += node.inside()
        waiting = [leaf.node for leaf in needed if leaf.node not in seen]
        if waiting:
            waiting.reverse()
            stack += (node, None, *waiting)
        else:
            yield node


def is_identity_read(e: Expr, rank: int) -> bool:
    """Whether this reads `a[i, j, …]` at exactly the index of the element."""
    return (
        isinstance(e, Read)
        and e.boundary is None
        and len(e.args) == rank
        and all(isinstance(a, Index) and a.axis == k for k, a in enumerate(e.args))
    )


def known(e: Expr) -> Any:
    """The value of an extent expression if all its leaves are known when tracing, else None."""
    if isinstance(e, Const):
        return e.value[()]
    values: dict[Expr, Any] = {}
    for node in walk((e,), lambda x: x not in _sums):
        source = getattr(node.node, "source", None) if isinstance(node, Extent) else None
        if isinstance(node, Const):
            values[node] = node.value
        elif source is not None:
            values[node] = source.shape[node.axis]  # type: ignore[attr-defined]
        elif node in _sums:
            values[node] = _sums[node]
        elif isinstance(node, Apply):
            values[node] = node.value([values[a] for a in node.args])[()]
            if node.op.name == "add":
                _sums[node] = values[node]
        else:
            return None
    return values[e]


#: Cached values of sums of extents: joining many arrays builds each sum on the previous one.
_sums: weakref.WeakKeyDictionary[Expr, Any] = weakref.WeakKeyDictionary()
