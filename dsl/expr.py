"""The scalar IR: immutable, hash-consed expressions.

An expression is one value inside a kernel.  Nodes are interned, so structural equality is
identity, a value built twice exists once, and every analysis can memoise by node.

Two kinds of children keep sharing honest: `args` are evaluated where the node is; `scoped` only
under its guard or binder (the sides of a `Cond`, the body of a loop, the value of a boundary).
Nothing in `scoped` may be hoisted above the node.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from .primitives import TABLE, Primitive, convert
from .types import ScalarType, bool_, int64

if TYPE_CHECKING:
    from .graph import Node

E = TypeVar("E", bound="Expr")


class _Held(weakref.ref["Expr"]):
    """A weak reference that knows its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


#: Equal expressions are one object.  (A WeakValueDictionary that calls no Python functions.)
_interned: dict[tuple[Any, ...], _Held] = {}


def _drop(held: weakref.ref[Expr]) -> None:
    key = held.key  # type: ignore[attr-defined]
    if _interned.get(key) is held:
        del _interned[key]


_fresh = itertools.count()


class Expr:
    """Base of all scalar expressions.  `type` is None for nodes of several results."""

    __slots__ = ("__weakref__", "args", "scoped", "type", "vars", "weak")
    type: ScalarType
    weak: bool
    args: tuple[Expr, ...]
    scoped: tuple[Expr, ...]
    vars: tuple[Var, ...]

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        """The same node over other children."""
        raise TypeError(f"{type(self).__name__} has no children")

    def __repr__(self) -> str:
        from .printer import show

        return show(self)


def _intern(cls: type[E], key: tuple[Any, ...]) -> tuple[E, bool]:
    whole = (cls, *key)
    held = _interned.get(whole)
    if held is not None:
        found = held()
        if found is not None:
            return cast("E", found), False
    made = object.__new__(cls)
    held = _Held(made, _drop)
    held.key = whole
    _interned[whole] = held
    return made, True


def _fill(
    e: Expr, type_: Any, args: Any = (), scoped: Any = (), vars_: Any = (), weak: bool = False
) -> None:
    e.type, e.args, e.scoped, e.vars, e.weak = type_, args, scoped, vars_, weak


class Const(Expr):
    """A literal; `value` is a NumPy scalar of `type`."""

    __slots__ = ("value",)
    value: Any

    def __new__(cls, value: Any, type_: ScalarType, weak: bool = False) -> Const:
        held: Any = None
        if type(value) is int and type_.is_integer and type_.lowest <= value <= type_.highest:
            data = value.to_bytes(type_.bytes, sys.byteorder, signed=type_.signed)
        else:
            held = convert(np.asarray(value), type_)[()]
            data = held.tobytes()
        made, new = _intern(cls, (type_.name, weak, data))
        if new:
            _fill(made, type_, weak=weak)
            made.value = type_.numpy.type(value) if held is None else held
        return made


class Index(Expr):
    """The index along one axis of the domain of the operation whose body this is (int64)."""

    __slots__ = ("axis",)
    axis: int

    def __new__(cls, axis: int) -> Index:
        made, new = _intern(cls, (axis,))
        if new:
            _fill(made, int64)
            made.axis = axis
        return made


class Var(Expr):
    """A variable bound by a loop, by a combining function or by a fused epilogue."""

    __slots__ = ("name", "uid")
    uid: int
    name: str

    def __new__(cls, name: str, type_: ScalarType) -> Var:
        made = object.__new__(cls)
        _fill(made, type_)
        made.name, made.uid = name, next(_fresh)
        return made


class Param(Expr):
    """A scalar argument of a compiled program: a run-time value; `until` as an Input's."""

    __slots__ = ("name", "uid", "until")
    uid: int
    name: str
    until: int | None

    def __new__(cls, name: str, type_: ScalarType, weak: bool = False) -> Param:
        made = object.__new__(cls)
        _fill(made, type_, weak=weak)
        made.name, made.uid, made.until = name, next(_fresh), None
        return made


class Extent(Expr):
    """The run-time extent of an input array along one axis (int64, never negative)."""

    __slots__ = ("axis", "node")
    node: Node
    axis: int

    def __new__(cls, node: Node, axis: int) -> Extent:
        made, new = _intern(cls, (node, axis))
        if new:
            _fill(made, int64)
            made.node, made.axis = node, axis
        return made


class Apply(Expr):
    """A primitive of `primitives.TABLE` applied; operand types already agree."""

    __slots__ = ("op",)
    op: Primitive

    def __new__(
        cls, op: Primitive, args: tuple[Expr, ...], type_: ScalarType, weak: bool = False
    ) -> Apply:
        made, new = _intern(cls, (op.name, args, type_.name, weak))
        if new:
            _fill(made, type_, args, weak=weak)
            made.op = op
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        from .simplify import apply

        return apply(self.op, args, self.type, self.weak)


class Read(Expr):
    """One element of component `component` of an array node, at `args` (one index per axis).

    With a `boundary` kind the indices may be out of range; without, they must not be (a checked
    program tests it).
    """

    __slots__ = ("boundary", "component", "node")
    node: Node
    component: int
    boundary: str | None

    def __new__(
        cls,
        node: Node,
        component: int,
        indices: tuple[Expr, ...],
        boundary: str | None = None,
        value: tuple[Expr, ...] = (),
        vars_: tuple[Var, ...] = (),
    ) -> Read:
        made, new = _intern(cls, (node, component, indices, boundary, value, vars_))
        if new:
            _fill(made, node.outputs[component].type, indices, value, vars_)
            made.node, made.component, made.boundary = node, component, boundary
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Read(self.node, self.component, args, self.boundary, scoped, self.vars)


class Cond(Expr):
    """Only the chosen side is evaluated.  `scoped` holds the then-values and the else-values."""

    __slots__ = ("types",)
    types: tuple[ScalarType, ...]

    def __new__(cls, predicate: Expr, then: tuple[Expr, ...], other: tuple[Expr, ...]) -> Cond:
        made, new = _intern(cls, (predicate, then, other))
        if new:
            _fill(made, None, (predicate,), then + other)
            made.types = tuple(e.type for e in then)
        return made

    @property
    def then(self) -> tuple[Expr, ...]:
        return self.scoped[: len(self.types)]

    @property
    def other(self) -> tuple[Expr, ...]:
        return self.scoped[len(self.types) :]

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        n = len(self.types)
        return Cond(args[0], scoped[:n], scoped[n:])


class While(Expr):
    """`args` the initial state, `vars` its names, `scoped` the predicate and the next state."""

    __slots__ = ("types",)
    types: tuple[ScalarType, ...]

    def __new__(
        cls, init: tuple[Expr, ...], vars_: tuple[Var, ...], predicate: Expr, body: tuple[Expr, ...]
    ) -> While:
        made, new = _intern(cls, (init, vars_, predicate, body))
        if new:
            _fill(made, None, init, (predicate, *body), vars_)
            made.types = tuple(v.type for v in vars_)
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return While(args, self.vars, scoped[0], scoped[1:])


class Loop(Expr):
    """Counted: `args` the count and the initial state, `vars` the index and the state."""

    __slots__ = ("types",)
    types: tuple[ScalarType, ...]

    def __new__(
        cls, count: Expr, init: tuple[Expr, ...], vars_: tuple[Var, ...], body: tuple[Expr, ...]
    ) -> Loop:
        made, new = _intern(cls, (count, init, vars_, body))
        if new:
            _fill(made, None, (count, *init), body, vars_)
            made.types = tuple(v.type for v in vars_[1:])
        return made

    @property
    def count(self) -> Expr:
        return self.args[0]

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Loop(args[0], args[1:], self.vars, scoped)


class Proj(Expr):
    """One result of a node of several results."""

    __slots__ = ("which",)
    which: int

    def __new__(cls, of: Expr, which: int) -> Proj:
        made, new = _intern(cls, (of, which))
        if new:
            _fill(made, of.types[which], (of,))  # type: ignore[attr-defined]
            made.which = which
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Proj(args[0], self.which)


class Foreign(Expr):
    """A call of a Numba-compiled scalar function."""

    __slots__ = ("function",)
    function: Any

    def __new__(cls, function: Any, args: tuple[Expr, ...], type_: ScalarType) -> Foreign:
        made, new = _intern(cls, (id(function), args, type_))
        if new:
            _fill(made, type_, args)
            made.function = function
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Foreign(self.function, args, self.type)


TRUE = Const(True, bool_)
FALSE = Const(False, bool_)


def constant(value: int) -> Const:
    return Const(value, int64)


def primitive(name: str) -> Primitive:
    return TABLE[name]


def split_constant(e: Expr) -> tuple[Expr, int]:
    """Of integers `x + 3` as (x, 3), a number as (0, that); all else as (e, 0)."""
    if isinstance(e, Const) and e.type.is_integer:
        return constant(0), int(e.value)
    if isinstance(e, Apply) and e.op.name == "add" and e.type.is_integer:
        x, c = e.args
        return (x, int(c.value)) if isinstance(c, Const) else (e, 0)
    return e, 0


def conjuncts(e: Expr) -> list[Expr]:
    """What all has to hold for a condition to hold."""
    if isinstance(e, Apply) and e.op.name == "logical_and":
        return [part for a in e.args for part in conjuncts(a)]
    return [e]


# --- traversal (iterative: programs may be a thousand operations deep) -----------------------


def walk(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every node once, children first."""
    seen: set[Expr] = set()
    stack: list[Expr | None] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # the children of the next one are done
            yield stack.pop()  # type: ignore[misc]
            continue
        if node in seen:
            continue
        seen.add(node)
        children = node.args + node.scoped if node.scoped else node.args
        if children:
            stack += (node, None)
            stack += [child for child in children[::-1] if child not in seen]
        else:
            yield node


def rewrite(
    roots: Sequence[Expr],
    change: Callable[[Expr], Expr],
    memo: dict[Expr, Expr] | None = None,
) -> tuple[Expr, ...]:
    """Rebuild bottom-up; `change` sees each node over its already rewritten children."""
    memo = {} if memo is None else memo
    stack: list[Expr | None] = [r for r in roots[::-1] if r not in memo]
    while stack:
        node = stack.pop()
        if node is None:  # the children of the next one are done
            node = stack.pop()
            assert node is not None
            if node in memo:
                continue
            args = tuple([memo[c] for c in node.args])
            scoped = tuple([memo[c] for c in node.scoped]) if node.scoped else ()
            if args != node.args or scoped != node.scoped:
                memo[node] = change(node.rebuild(args, scoped))
            else:
                memo[node] = change(node)
            continue
        if node in memo:
            continue
        children = node.args + node.scoped if node.scoped else node.args
        if children:
            stack += (node, None)
            stack += [child for child in children[::-1] if child not in memo]
        else:
            memo[node] = change(node)
    return tuple([memo[r] for r in roots])


def substitute(roots: Sequence[Expr], mapping: dict[Expr, Expr]) -> tuple[Expr, ...]:
    """Replace leaves (indices, variables).  Bound variables are globally unique: no capture."""
    if not mapping:
        return tuple(roots)
    return rewrite(roots, lambda e: e, dict(mapping))
