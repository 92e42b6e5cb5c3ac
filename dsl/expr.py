"""The scalar IR: immutable, hash-consed expressions.

An expression is one value inside a kernel.  Expressions are interned, so structural equality is
identity, a value built twice exists once, and every analysis can memoise by expression.

There are two kinds of children.  `args` are evaluated where the expression is.  `scoped` are
evaluated only under its guard or binder: the sides of a `Cond`, the body of a loop, the value of a
boundary.  Nothing in `scoped` may be hoisted above the expression.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import late_binding as later
from .graphs.interning import find, publish
from .primitives import TABLE, Primitive, convert, value_of
from .types import ScalarType, bool_, int64

if TYPE_CHECKING:
    from .graph import Check, Input, Node

E = TypeVar("E", bound="Expr")


_fresh = itertools.count()


class Expr:
    """Base class of scalar expressions.  `type` is None for expressions with several results;
    `varies`: it contains an index or a variable; `reads`: it reads an element of an array;
    `scopes`: it contains a loop, a conditional, or a read whose boundary is a function."""

    __slots__ = ("__weakref__", "args", "below", "bounds", "reads", "scoped", "scopes", "type",
                 "varies", "vars", "weak")  # fmt: skip
    type: ScalarType
    weak: bool
    varies: bool
    reads: bool
    scopes: bool
    args: tuple[Expr, ...]
    scoped: tuple[Expr, ...]
    vars: tuple[Var, ...]
    #: The cached result of `walk` below a small expression, else None.  (Including the expression
    #: itself would make a reference cycle.)
    below: tuple[Expr, ...] | None
    #: What `analysis.bounds.bounds` has found, None before.
    bounds: tuple[int, int] | None

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        """The same expression with other children."""
        raise TypeError(f"{type(self).__name__} has no children")

    def __repr__(self) -> str:
        return later.show_expression(self)

    # For int64: indices, extents and positions (`simplify.add` and the following functions).

    #: NumPy scalars defer operators to expressions.
    __array_ufunc__ = None

    def __add__(self, other: Expr | int) -> Expr:
        return later.add(self, other)

    def __radd__(self, other: int) -> Expr:
        return later.add(other, self)

    def __sub__(self, other: Expr | int) -> Expr:
        return later.subtract(self, other)

    def __rsub__(self, other: int) -> Expr:
        return later.subtract(other, self)

    def __mul__(self, other: Expr | int) -> Expr:
        return later.multiply(self, other)

    def __rmul__(self, other: int) -> Expr:
        return later.multiply(other, self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return later.floor_divide(self, other)

    def __rfloordiv__(self, other: int) -> Expr:
        return later.floor_divide(other, self)

    def __mod__(self, other: Expr | int) -> Expr:
        return later.remainder(self, other)

    def __rmod__(self, other: int) -> Expr:
        return later.remainder(other, self)


def new(
    cls: type[E], type_: Any, args: Any = (), scoped: Any = (), vars_: Any = (), weak: bool = False
) -> E:
    """An unpublished expression, whose class sets the remaining fields."""
    e = object.__new__(cls)
    e.type, e.args, e.scoped, e.vars, e.weak = type_, args, scoped, vars_, weak
    e.below = e.bounds = None
    varies = reads = False
    scopes = bool(scoped)
    for child in args + scoped if scoped else args:
        varies = varies or child.varies
        reads = reads or child.reads
        scopes = scopes or child.scopes
    e.varies, e.reads, e.scopes = varies, reads, scopes
    return e


class Const(Expr):
    """A literal; `value` is a NumPy scalar of `type`."""

    __slots__ = ("value",)
    value: Any

    def __new__(cls, value: Any, type_: ScalarType, weak: bool = False) -> Const:
        converted: Any = None
        if type(value) is int and type_.is_integer and type_.lowest <= value <= type_.highest:
            data = value.to_bytes(type_.bytes, sys.byteorder, signed=type_.signed)
        else:
            converted = convert(np.asarray(value), type_)[()]
            data = converted.tobytes()
        key = (cls, type_.name, weak, data)
        made: Const | None = find(key)
        if made is None:
            made = new(cls, type_, weak=weak)
            made.value = type_.numpy.type(value) if converted is None else converted
            made = publish(key, made)
        return made


class Index(Expr):
    """The index along one axis of the domain of the operation that contains it (int64)."""

    __slots__ = ("axis",)
    axis: int

    def __new__(cls, axis: int) -> Index:
        key = (cls, axis)
        made: Index | None = find(key)
        if made is None:
            made = new(cls, int64)
            made.axis, made.varies = axis, True
            made = publish(key, made)
        return made


class Var(Expr):
    """A variable bound by a loop, by a combining function or by a fused epilogue."""

    __slots__ = ("name", "uid")
    uid: int
    name: str

    def __new__(cls, name: str, type_: ScalarType) -> Var:
        made = new(cls, type_)
        made.name, made.uid, made.varies = name, next(_fresh), True
        return made


class Param(Expr):
    """A scalar argument of a compiled program, a run-time value; `until` as in Input.

    During tracing, `fits` collects checks that values computed from it fit in their types.
    """

    __slots__ = ("fits", "name", "uid", "until")
    uid: int
    name: str
    until: int | None
    fits: tuple[Check, ...]

    def __new__(cls, name: str, type_: ScalarType, weak: bool = False) -> Param:
        made = new(cls, type_, weak=weak)
        made.name, made.uid, made.until, made.fits = name, next(_fresh), None, ()
        return made


class Extent(Expr):
    """The run-time extent of an input array along one axis (int64, non-negative)."""

    __slots__ = ("axis", "node")
    node: Node
    axis: int

    def __new__(cls, node: Node, axis: int) -> Extent:
        key = (cls, node, axis)
        made: Extent | None = find(key)
        if made is None:
            made = new(cls, int64)
            made.node, made.axis = node, axis
            made = publish(key, made)
        return made


class Needed(Param):
    """The smallest extent for which the integers of an input are valid indices (int64,
    non-negative).  Every run computes it from the data, which is on the host, unless the data
    cannot change.

    `from_end`: −1 is the last element; otherwise no extent is large enough for a negative index.
    """

    __slots__ = ("from_end", "kept", "node")
    node: Input
    from_end: bool
    kept: int | None

    def __new__(cls, node: Input, from_end: bool) -> Needed:
        key = (cls, node, from_end)
        made: Needed | None = find(key)
        if made is None:
            made = new(cls, int64)
            made.name, made.uid, made.until, made.fits = "indices", next(_fresh), None, ()
            made.node, made.from_end, made.kept = node, from_end, None
            made = publish(key, made)
        return made

    def value(self, data: NDArray[np.generic]) -> int:
        found = extent_needed(data, self.from_end) if self.kept is None else self.kept
        if self.node.owned:
            self.kept = found
        return found


def extent_needed(data: NDArray[np.generic], from_end: bool) -> int:
    limit: int = int64.highest
    if not data.size:
        return 0
    unsigned = _UNSIGNED.get(data.dtype)
    if unsigned is not None:  # negative ones are the largest there: mostly, one pass is enough
        most = int(np.maximum.reduce(data.view(unsigned), axis=None))
        if not most >> 8 * data.itemsize - 1:
            return min(most + 1, limit)
    lowest, highest = int(np.min(data)), int(np.max(data))
    if lowest < 0 and not from_end:
        return limit
    return min(max(highest + 1, -lowest), limit)


_UNSIGNED = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


class Apply(Expr):
    """Application of a primitive of `primitives.TABLE`; operand types already agree."""

    __slots__ = ("op",)
    op: Primitive

    def __new__(
        cls, op: Primitive, args: tuple[Expr, ...], type_: ScalarType, weak: bool = False
    ) -> Apply:
        key = (cls, op.name, args, type_.name, weak)
        made: Apply | None = find(key)
        if made is None:
            made = new(cls, type_, args, weak=weak)
            made.op = op
            made = publish(key, made)
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return later.simplified_apply(self.op, args, self.type, self.weak)

    def value(self, values: Sequence[Any]) -> Any:
        """The value for these values of the operands (numbers or arrays)."""
        return value_of(self.op, [a.type for a in self.args], values, self.type)


class Read(Expr):
    """One element of component `component` of an array node, at `args` (one index per axis).

    With a `boundary` kind the indices may be out of range; otherwise they must be in range, which a
    checked program tests.
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
        key = (cls, node, component, indices, boundary, value, vars_)
        made: Read | None = find(key)
        if made is None:
            made = new(cls, node.type_of(component), indices, value, vars_)
            made.node, made.component, made.boundary = node, component, boundary
            made.reads = True
            made = publish(key, made)
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Read(self.node, self.component, args, self.boundary, scoped, self.vars)

    def over(self, vars_: tuple[Var, ...]) -> Expr:
        """The same with other variables, which `scoped` already uses."""
        return Read(self.node, self.component, self.args, self.boundary, self.scoped, vars_)


class Cond(Expr):
    """Only the chosen side is evaluated.  `scoped` holds the then-values and the else-values."""

    __slots__ = ("types",)
    types: tuple[ScalarType, ...]

    def __new__(cls, predicate: Expr, then: tuple[Expr, ...], other: tuple[Expr, ...]) -> Cond:
        key = (cls, predicate, then, other)
        made: Cond | None = find(key)
        if made is None:
            made = new(cls, None, (predicate,), then + other)
            made.types = tuple(e.type for e in then)
            made = publish(key, made)
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
    """`args`: initial state; `vars`: its variables; `scoped`: predicate and next state."""

    __slots__ = ("types",)
    types: tuple[ScalarType, ...]

    def __new__(
        cls, init: tuple[Expr, ...], vars_: tuple[Var, ...], predicate: Expr, body: tuple[Expr, ...]
    ) -> While:
        key = (cls, init, vars_, predicate, body)
        made: While | None = find(key)
        if made is None:
            made = new(cls, None, init, (predicate, *body), vars_)
            made.types = tuple(v.type for v in vars_)
            made = publish(key, made)
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return While(args, self.vars, scoped[0], scoped[1:])

    def over(self, vars_: tuple[Var, ...]) -> Expr:
        return While(self.args, vars_, self.scoped[0], self.scoped[1:])


class Loop(Expr):
    """A counted loop.  `args`: the count and the initial state; `vars`: the index and the state."""

    __slots__ = ("types",)
    types: tuple[ScalarType, ...]

    def __new__(
        cls, count: Expr, init: tuple[Expr, ...], vars_: tuple[Var, ...], body: tuple[Expr, ...]
    ) -> Loop:
        key = (cls, count, init, vars_, body)
        made: Loop | None = find(key)
        if made is None:
            made = new(cls, None, (count, *init), body, vars_)
            made.types = tuple(v.type for v in vars_[1:])
            made = publish(key, made)
        return made

    @property
    def count(self) -> Expr:
        return self.args[0]

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Loop(args[0], args[1:], self.vars, scoped)

    def over(self, vars_: tuple[Var, ...]) -> Expr:
        return Loop(self.args[0], self.args[1:], vars_, self.scoped)


#: Expressions that bind variables.
BINDERS = (Read, While, Loop)


class Proj(Expr):
    """One result of an expression with several results."""

    __slots__ = ("which",)
    which: int

    def __new__(cls, of: Expr, which: int) -> Proj:
        key = (cls, of, which)
        made: Proj | None = find(key)
        if made is None:
            made = new(cls, of.types[which], (of,))  # type: ignore[attr-defined]
            made.which = which
            made = publish(key, made)
        return made

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Proj(args[0], self.which)


class Foreign(Expr):
    """A call of a Numba-compiled scalar function."""

    __slots__ = ("function",)
    function: Any

    def __new__(cls, function: Any, args: tuple[Expr, ...], type_: ScalarType) -> Foreign:
        key = (cls, id(function), args, type_)
        made: Foreign | None = find(key)
        if made is None:
            made = new(cls, type_, args)
            made.function = function
            made = publish(key, made)
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
    """(x, 3) for the integer expression `x + 3`, (0, c) for a constant c, otherwise (e, 0)."""
    if isinstance(e, Const) and e.type.is_integer:
        return constant(0), int(e.value)
    if isinstance(e, Apply) and e.op.name == "add" and e.type.is_integer:
        x, c = e.args
        return (x, int(c.value)) if isinstance(c, Const) else (e, 0)
    return e, 0


def conjuncts(e: Expr) -> list[Expr]:
    """The operands of a (nested) conjunction."""
    if isinstance(e, Apply) and e.op.name == "logical_and":
        return [part for a in e.args for part in conjuncts(a)]
    return [e]


# --- traversal (iterative: programs may be a thousand operations deep) -----------------------


#: The largest number of expressions below another that it caches, as most are walked repeatedly.
MOST_BELOW = 200


def walk(roots: Iterable[Expr], into: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """Every expression once, children first; descends only where `into` (if given) holds."""
    if into is not None or type(roots) is not tuple or len(roots) != 1:
        return _walked(roots, into)
    (root,) = roots
    if root.below is not None:
        return [*root.below, root]
    found = _walked(roots, None)
    if len(found) <= MOST_BELOW:
        root.below = tuple(found[:-1])
    return found


def known_before(e: Expr) -> bool:
    """Whether a number is known before the first kernel."""
    return all(isinstance(x, Const | Extent | Param | Apply) for x in walk((e,)))


def evaluated(roots: Iterable[Expr], into: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """The expressions evaluated whenever `roots` are; descends where `into`, if given, holds."""
    seen, stack = dict[Expr, None](), list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen[e] = None
            stack += e.args if into is None or into(e) else ()
    return list(seen)


def _walked(
    roots: Iterable[Expr], into: Callable[[Expr], bool] | None, known: Container[Expr] = ()
) -> list[Expr]:
    seen: set[Expr] = set()
    found: list[Expr] = []
    stack: list[Expr | None] = list(roots)
    stack.reverse()
    pop, add, append = stack.pop, seen.add, found.append  # this is the loop that runs most
    whole = into is None and not known
    while stack:
        node = pop()
        if node is None:  # the children of the next entry are finished
            append(pop())  # type: ignore[arg-type]
            continue
        if node in seen or node in known:
            continue
        add(node)
        if whole and node.below is not None:  # (below what is seen, everything is)
            more = [e for e in node.below if e not in seen]
            seen.update(more)
            found += more
            append(node)
            continue
        children = node.args + node.scoped if node.scoped else node.args
        if not children or not (into is None or into(node)):
            append(node)
            continue
        waiting: list[Expr | None] = []
        for child in children:
            if child in seen or child in known:
                continue
            if waiting or child.args or child.scoped:
                waiting.append(child)
            else:
                add(child)
                append(child)
        if waiting:
            waiting += (None, node)
            waiting.reverse()
            stack += waiting
        else:
            append(node)
    return found


def reading(roots: Iterable[Expr]) -> list[Read]:
    """The reads of arrays among `walk(roots)`, in the same order."""
    seen: set[Expr] = set()
    found: list[Read] = []
    stack: list[Expr | None] = [e for e in roots if e.reads]
    stack.reverse()
    while stack:
        e = stack.pop()
        if e is None:
            found.append(stack.pop())  # type: ignore[arg-type]
            continue
        if e in seen:
            continue
        seen.add(e)
        children = e.args + e.scoped if e.scoped else e.args
        inner = [c for c in children if c.reads and c not in seen]
        if type(e) is Read:
            if not inner:
                found.append(e)
                continue
            stack += (e, None)
        inner.reverse()
        stack += inner
    return found


def unknown(
    roots: Iterable[Expr], known: Container[Expr], into: Callable[[Expr], bool] | None = None
) -> list[Expr]:
    """Like `walk`, without the expressions in `known`, into which it does not descend."""
    return _walked(roots, into, known)


def varies(e: Expr) -> bool:
    """Whether an expression contains an index or variable, so that it may vary by element."""
    return e.varies


def reads(e: Expr) -> bool:
    return e.reads


def is_common_sum(e: Expr) -> bool:
    """Whether an expression is an integer sum that is the same for all elements, such as the offset
    of a joined array. n joined arrays have n such sums, each a term longer than the previous one,
    so traversals of elements skip them."""
    return (
        not (e.varies or e.reads)
        and isinstance(e, Apply) and e.op.name == "add" and e.type is int64
    )  # fmt: skip


def no_common_sum(e: Expr) -> bool:
    return not is_common_sum(e)


def rewrite(
    roots: Sequence[Expr],
    change: Callable[[Expr], Expr],
    memo: dict[Expr, Expr] | None = None,
    into: Callable[[Expr], bool] | None = None,
) -> tuple[Expr, ...]:
    """Rebuild bottom-up: `change` receives each expression with its children already rewritten.
    Expressions for which `into` (if given) does not hold remain unchanged."""
    memo = {} if memo is None else memo
    stack: list[Expr | None] = [r for r in roots[::-1] if r not in memo]
    while stack:
        node = stack.pop()
        if node is None:  # the children of the next entry are finished
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
        if into is not None and not into(node):
            memo[node] = node
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
