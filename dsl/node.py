"""The base of the array graph: nodes, their components, and what they carry."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    dataclass_transform,
)

from .errors import Location
from .expr import Apply, Const, Expr, Extent, Index, Read, Var, reads, substitute, walk
from .interning import find, publish
from .schedule import Schedule
from .types import ScalarType

_fresh = itertools.count()


def fresh_uid() -> int:
    """A number no other node has."""
    return next(_fresh)


Shape = tuple[Expr, ...]


class Output(NamedTuple):
    shape: Shape
    type: ScalarType


class Scope(NamedTuple):
    """Expressions of a node with the number of axes and the variables that they may mention."""

    what: str
    expressions: tuple[Expr, ...]
    axes: int
    variables: tuple[Var, ...] = ()


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
    schedule: Schedule | None = None
    deterministic: bool = False

    @property
    def ordered(self) -> bool:
        """Whether the schedule fixes anything: `Auto()` leaves everything as it is without one."""
        return self.schedule is not None and bool(self.schedule.layers)

    def __str__(self) -> str:
        return f"{self.operation} '{self.name}'" if self.name else self.operation


#: What the message of a broadcast adds about a 1 that nobody could know.
_BY_CHANCE = (
    ".  The 1 is so in this run only: extents that broadcast are known when the program is traced"
)


@dataclass(frozen=True)
class Check:
    """A relation that run-time extents must satisfy: `left` `relation` `right` before any kernel.

    `message` is a format string over `left` and `right`, and `by_chance`, which says where one of
    them is 1 that this is so in this run only; `error` names the class.
    Equal relations are equal wherever they were written, as nodes are.
    """

    left: Expr
    right: Expr
    message: str
    error: str = "ShapeError"
    relation: str = "=="
    hint: str | None = None
    where: Location | None = dataclass_field(default=None, compare=False)

    def told(self, left: int, right: int) -> str:
        """The message for two values between which the relation does not hold."""
        by_chance = _BY_CHANCE if 1 in (left, right) else ""
        return self.message.format(left=left, right=right, by_chance=by_chance)

    @property
    def reads(self) -> bool:
        """Whether it is about elements of arrays, which are known only once they are computed."""
        return self.left.reads or self.right.reads


@dataclass(frozen=True)
class Combine:
    """A binary function on elements: `results` over `left` and `right`, one each per component."""

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    results: tuple[Expr, ...]


def field(*, factory: Callable[[dict[str, Any]], Any]) -> Any:
    """A field with a default, made of the values of the fields before it."""
    return factory


@dataclass_transform(field_specifiers=(field, dataclass_field))
class _NodeType(type):
    """Makes a class's annotated attributes the fields of its nodes, in their order."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _NodeType:
        if "__slots__" not in namespace:
            own = tuple(namespace.get("__annotations__", ()))
            namespace["factories"] = {f: namespace.pop(f) for f in own if f in namespace}
            namespace["__slots__"] = namespace["fields"] = own
        return super().__new__(mcls, name, bases, namespace)


class Node(metaclass=_NodeType):
    """Base of the array graph.  A class of nodes declares its fields as annotated attributes;
    making, hashing, rewriting and storing nodes follow from them.  Nodes of equal fields are one.

    Besides its fields a node takes, by keyword: `label`, `where` it was written, `checks` to be
    done before it is computed, and the labels and locations of what was `fused` into it.
    """

    __slots__ = (
        "__weakref__",
        "_inputs",
        "checks",
        "fused",
        "label",
        "outputs",
        "uid",
        "where",
    )
    fields: ClassVar[tuple[str, ...]] = ()
    factories: ClassVar[dict[str, Callable[[dict[str, Any]], Any]]] = {}
    if TYPE_CHECKING:
        label: Label = dataclass_field(kw_only=True)
        where: Location | None = dataclass_field(kw_only=True, default=None)
        checks: tuple[Check, ...] = dataclass_field(kw_only=True, default=())
        fused: tuple[tuple[Label, Location | None], ...] = dataclass_field(kw_only=True, default=())
        outputs: tuple[Output, ...] = dataclass_field(init=False)
        uid: int = dataclass_field(init=False)
        _inputs: tuple[Leaf, ...] = dataclass_field(init=False)

    def __new__(
        cls,
        *given: Any,
        label: Label,
        where: Location | None = None,
        checks: tuple[Check, ...] = (),
        fused: tuple[tuple[Label, Location | None], ...] = (),
    ) -> Self:
        """The node of these fields: one that lives already, unless an option among them cannot be
        hashed."""
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
        node.outputs, node.uid = node._outputs(), next(_fresh)
        return node if key is None or not node._shared() else publish(key, node)

    def _outputs(self) -> tuple[Output, ...]:
        """The components that the node computes."""
        raise NotImplementedError

    def _shared(self) -> bool:
        """Whether equal nodes are to be one."""
        return True

    def leaf(self, component: int = 0) -> Leaf:
        return Leaf(self, component)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(Leaf(self, k) for k in range(len(self.outputs)))

    def called(self) -> str:
        """What errors call the array."""
        return self.label.name or self.label.operation

    def expressions(self) -> tuple[Expr, ...]:
        """Every scalar expression of the node, shapes included."""
        return (*self.bodies(), *(e for o in self.outputs for e in o.shape))

    def bodies(self) -> tuple[Expr, ...]:
        """The expressions evaluated per element."""
        return ()

    def iteration_space(self) -> tuple[Expr | None, ...]:
        """The extents of the axes that the element expressions range over, None where an extent is
        not known; empty: the node has no elements of its own."""
        return ()

    def per_element(self) -> tuple[Expr, ...]:
        """The expressions evaluated at every point of the iteration space: no shapes, no initial
        values."""
        return ()

    def schedule_axes(self) -> int:
        """How many axes a schedule of the node orders; 0: it takes none."""
        return len(self.iteration_space())

    def scopes(self) -> Iterator[Scope]:
        """The expressions evaluated on the device, with what they may mention."""
        return iter(())

    def host_expressions(self) -> tuple[Expr, ...]:
        """The expressions that the host evaluates, besides the shapes of the outputs."""
        return ()

    def operands(self) -> tuple[Leaf, ...]:
        """Leaves used whole, not through a `Read`."""
        return ()

    def inside(self) -> tuple[Leaf, ...]:
        """Leaves used inside the node's own sub-programs."""
        return ()

    def inputs(self) -> tuple[Leaf, ...]:
        """Every leaf the node depends on, in order of first use (found once)."""
        try:
            return self._inputs
        except AttributeError:
            pass
        seen: dict[Leaf, None] = dict.fromkeys(self.operands())
        for e in walk(self.expressions(), reads):
            if isinstance(e, Read):
                seen[Leaf(e.node, e.component)] = None
        for check in self.checks:
            for e in walk((check.left, check.right), reads):
                if isinstance(e, Read):
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
    """Rename a combining function's variables to canonical ones, so equal functions are equal."""
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
    """Leaves that a loop or a branch uses inside its own sub-programs."""
    return node.inside()


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
            needed += node.inside()
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


#: The values of sums of extents that are known: each of those of many arrays goes on from another.
_sums: weakref.WeakKeyDictionary[Expr, Any] = weakref.WeakKeyDictionary()
