"""Arguments of differentiated functions: the variables that stand for them, and nested values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, cast

import numpy as np

from .. import simplify
from ..array import Array, generated
from ..errors import DTypeError, TracingError, user_location
from ..expr import Const, Expr, Read, walk
from ..frontend.deferred import data_number
from ..frontend.evaluation import number
from ..frontend.number_lists import as_argument
from ..frontend.refusals import called
from ..frontend.sources import as_array, is_arraylike
from ..frontend.tracing import is_tracing
from ..graph import ArrayLoop, Generate, Input, Label, Leaf, Node, ended, topological
from ..graphs.rebuild import Rebuilder
from ..operations.control import is_constant
from ..scalar import Scalar, as_strong, lift
from ..types import ScalarType, children_of, composed, field_names, is_composite, kind_of_literal

#: Types of constants that compare by meaning.
_NAMED = (type(None), str, type, Enum, np.dtype, ScalarType)


def is_value(value: Any) -> bool:
    return (
        isinstance(value, Array | Scalar)
        or kind_of_literal(value) is not None
        or hasattr(value, "dtype")
        or is_arraylike(value)
    )


def flatten(value: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The arrays and numbers of a nested value (tuples, named tuples, dataclasses, lists, dicts),
    and the function that rebuilds the nesting.  None, text, types and functions contain none."""
    if value is None or is_constant(value):
        return [], lambda flat: value
    if is_value(value):
        return [value], lambda flat: flat[0]
    children: list[Any]
    cls: type
    if isinstance(value, dict):
        children, cls = list(value.values()), dict
    elif isinstance(value, list):
        children, cls = list(value), list
    elif is_composite(value):
        children, cls = list(children_of(value)), type(value)
    else:
        raise TracingError(
            f"{called(value)} is no array and no number.",
            hint="Differentiate by arrays, numbers, and tuples, lists, dicts and classes of them; "
            "put other values into a closure.",
        )
    parts = [flatten(c) for c in children]

    def build(flat: Sequence[Any]) -> Any:
        made, at = [], 0
        for leaves, rebuild in parts:
            made.append(rebuild(flat[at : at + len(leaves)]))
            at += len(leaves)
        if cls is dict:
            return dict(zip(value, made, strict=True))
        if cls is list:
            return as_argument(made)
        return composed(cls, made)

    return [leaf for leaves, _ in parts for leaf in leaves], build


def outline(value: object) -> Hashable | None:
    """The structure that `flatten` removes, hashable; None if it contains a function."""
    if value is None or is_constant(value):
        return (type(value), value) if isinstance(value, _NAMED) else None
    if is_value(value):
        return "value"
    children = list(map(outline, _children(value) or ()))
    if None in children:
        return None
    keys = tuple(value) if isinstance(value, dict) else ()
    return cast("Hashable", type(value)), keys, *children


def parts_in_order(given: object, like: object, what: str) -> list[Any]:
    """The arrays, numbers and None of a nested value, in the order in which `flatten` returns those
    of `like`: entries of dicts match by key, whatever their order."""
    if like is None or is_constant(like):
        return []
    wanted = _children(like)
    if isinstance(like, list | tuple) and len(like) == 1 and not isinstance(given, list | tuple):
        return parts_in_order(given, like[0], what)
    own = _children(given)
    if isinstance(given, dict) and isinstance(like, dict):
        if given.keys() != like.keys():
            has, needs = (", ".join(map(repr, d)) or "none" for d in (given, like))
            raise TracingError(
                f"{what} has the keys {has}, and belongs to a dict with {needs}.",
                hint="Give an entry for every key.",
            )
        own = [given[k] for k in like]
    if given is None:
        return [None] * len(flatten(like)[0])
    if own is None:
        return flatten(given)[0]
    if wanted is None or len(wanted) != len(own):  # flat, or a mismatch
        return [p for g in own for p in ([None] if g is None else parts_in_order(g, g, what))]
    return [p for g, v in zip(own, wanted, strict=True) for p in parts_in_order(g, v, what)]


def _children(value: object) -> Sequence[object] | None:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else children_of(value) if is_composite(value) else None


def paths(value: Any, name: str) -> list[str]:
    """The access paths of the arrays and numbers of a nested value, in the order of `flatten`."""
    if value is None or is_constant(value):
        return []
    if is_value(value):
        return [name]
    if isinstance(value, dict):
        parts = [(v, f"{name}[{k!r}]") for k, v in value.items()]
    elif isinstance(value, list):
        parts = [(v, f"{name}[{k}]") for k, v in enumerate(value)]
    else:
        fields = zip(children_of(value), field_names(value), strict=True)
        parts = [(v, f"{name}.{k}" if k else f"{name}[{at}]") for at, (v, k) in enumerate(fields)]
    return [path for v, inside in parts for path in paths(v, inside)]


def names_of(function: Any, count: int) -> list[str]:
    """The names of a function's parameters, for errors."""
    try:
        found = [p.name for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        found = []
    return (found + [f"argument {k}" for k in range(len(found), count)])[:count]


class Variable:
    """An array or number with respect to which a function is differentiated.  `symbol` stands for
    it while the function is traced, `leaves` are its components, `given` those of the argument."""

    def __init__(self, value: Any, name: str, operation: str, path: str = "") -> None:
        """`path`: the access path, if it is a part of the argument `name`."""
        scalar = isinstance(value, Scalar) or kind_of_literal(value) is not None
        strong: Expr | None = None
        weak = False
        if scalar:
            literal = isinstance(value, int | float | complex) and not is_tracing()
            expression = lift(data_number(value) if literal else value, operation)
            strong, weak = as_strong(expression), expression.weak
            array = generated((), (strong,), name)
        else:
            array = as_array(value, operation)
        for t in array.types:
            if not t.is_inexact:
                instead = {
                    "grad": "leave it out of argnums",
                    "value_and_grad": "leave it out of argnums",
                    "jvp": "give None as its tangent",
                }.get(operation, "leave it out: a function of the others, lambda x: f(x, n)")
                raise DTypeError(
                    f"{operation}: the argument {path or name} is {t}, and has no gradient.",
                    hint=f"Convert it to a float, x.astype(td.float64) or 3.0 for 3; or {instead}.",
                )
        self.scalar, self.given, self.structure = scalar, array._leaves, array.structure
        self.shape = array._shape
        inputs = [
            Input(name, leaf.type, (False,) * len(leaf.shape), kind="argument",
                  where=user_location()).of_shape(leaf.shape)
            for leaf in array._leaves
        ]  # fmt: skip
        self.inputs = inputs
        self.leaves = tuple(i.leaf() for i in inputs)
        self.symbol: Any = Array(self.leaves, array.structure, array._shape)
        if scalar:
            read: Expr = self.leaves[0].at()
            self.symbol = Scalar(simplify.cast(read, read.type, True) if weak else read)

    def like(self, leaves: Sequence[Leaf]) -> Any:
        """A value of the variable's form with these components."""
        if self.scalar:
            return number(leaves[0].at())
        return Array(leaves, self.structure, self.shape)

    def close(self) -> None:
        ended(self.inputs)


class Substitution:
    """Substitutes the arguments for the variables in computed results."""

    def __init__(
        self,
        variables: Sequence[Variable],
        more: Sequence[tuple[Leaf, Leaf]] = (),
        expressions: Mapping[Expr, Expr] | None = None,
    ) -> None:
        #: Leaves that are replaced by others, which are rebuilt as well.
        self._pending: dict[Leaf, Leaf] = {}
        self._builder = Rebuilder()
        self._builder.memo.update(expressions or {})
        for v in variables:
            self._builder.leaves.update(zip(v.leaves, v.given, strict=True))
        for old, new in more:
            (self._builder.leaves if isinstance(old.node, Input) else self._pending)[old] = new
        self._inputs = {leaf.node for leaf in self._builder.leaves}
        self._done: set[Any] = set()
        #: States and counters that are replaced.
        self._renewed: set[Input] = set()

    def renew(self, roots: Sequence[Leaf]) -> None:
        """Give loops under `roots` that use replaced leaves new states and counters: the program
        contains these loops twice, with different bodies."""
        changed = {leaf.node for leaf in (*self._builder.leaves, *self._pending)}
        for node in topological(roots):
            if node in changed or any(
                leaf.node in changed for leaf in (*node.inputs(), *node.inside())
            ):
                changed.add(node)
                if isinstance(node, ArrayLoop):
                    self._renewed.update(node.bound)

    def _prepare(self, roots: Sequence[Leaf]) -> None:
        """Rebuild the roots' dependences in order; for a replaced node, its replacement."""
        stack: list[tuple[Node, bool]] = [(leaf.node, False) for leaf in roots]
        while stack:
            node, ready = stack.pop()
            if node in self._inputs or node in self._done:
                continue
            instead = [n.node for o in node.leaves if (n := self._pending.get(o)) is not None]
            if not ready:
                stack.append((node, True))
                stack += [(n, False) for n in instead or _needed(node)]
                continue
            self._done.add(node)
            if instead:
                for leaf in node.leaves:
                    self._builder.leaves[leaf] = self._builder.leaf(self._pending[leaf])
                continue
            made = self._bound(node) if isinstance(node, Input) else self._builder.node(node)
            if made is not node:
                self._builder.nodes[node] = made

    def _bound(self, node: Input) -> Input:
        """The state of a loop, with its current extents."""
        shape = self._builder.exprs(node.shape)
        if node not in self._renewed and (not node.bound or shape == node.shape):
            return node
        made = node.copy().of_shape(shape)
        self._inputs.add(made)
        return made

    def leaves(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        self._prepare(leaves)
        return [self._builder.leaf(leaf) for leaf in leaves]

    def value(self, value: Any) -> Any:
        flat, build = flatten(value)
        return build([self._one(v) for v in flat])

    def _one(self, value: Any) -> Any:
        if isinstance(value, Array):
            made = self.leaves(value._leaves)
            return Array(made, value.structure, made[0].shape)
        if isinstance(value, Scalar):
            reads = [e for e in walk((value._expr,)) if isinstance(e, Read)]
            self._prepare([Leaf(e.node, e.component) for e in reads])
            return number(self._builder.expr(value._expr))
        return value


def constant_leaf(value: float, like: Leaf, label: str) -> Leaf:
    """An array with the shape and the type of `like`."""
    node = Generate(like.shape, (Const(value, like.type),), label=Label(label),
                    where=user_location())  # fmt: skip
    return node.leaf()


def _needed(node: Node) -> list[Node]:
    """The nodes to rebuild before a node; for the state of a loop, those that its extents read."""
    if isinstance(node, Input):
        read = walk(node.shape) if node.bound else ()
        return [e.node for e in read if isinstance(e, Read) and e.node is not node]
    bound = node.bound if isinstance(node, ArrayLoop) else ()
    return [*(leaf.node for leaf in (*node.inputs(), *node.inside())), *bound]
