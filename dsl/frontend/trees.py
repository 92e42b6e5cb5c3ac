"""Flatten and rebuild nested results and arguments: tuples, lists, dicts and single arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ..array import Array
from ..errors import TracingError
from ..graph import Leaf
from ..scalar import Scalar
from ..types import LEAF, Structure, children_of, composed, is_composite, kind_of_literal
from .evaluation import known_array
from .refusals import called, returned
from .sources import as_array, is_arraylike


class Tree:
    """The nesting of a value with arrays as leaves; `build` reassembles flat results.

    `description` is the nesting as plain data: ("array", Structure), ("list", trees), ("dict",
    keys, trees), ("tuple", class, trees) or ("none", ()).
    """

    def __init__(
        self, build: Callable[[Sequence[Any]], Any], count: int, description: tuple[Any, ...]
    ) -> None:
        self.build, self.count, self.description = build, count, description

    def arrays(self, flat: Sequence[Any]) -> Any:
        """The same nesting of Arrays with these values."""
        return _arrays(self.description, iter(flat))


def _arrays(description: tuple[Any, ...], flat: Iterator[Any]) -> Any:
    kind, *detail, inner = description
    if kind == "array":
        return known_array([next(flat) for _ in range(inner.count)], inner)
    parts = [_arrays(tree.description, flat) for tree in inner]
    if kind == "dict":
        return dict(zip(detail[0], parts, strict=True))
    return parts if kind == "list" else composed(detail[0], parts)


def array_tree(structure: Structure) -> Tree:
    """One array with elements of a structure."""
    return Tree(structure.build, structure.count, ("array", structure))


def joined_tree(trees: Sequence[Tree], kind: str, detail: Any = None) -> Tree:
    """A list, a dict (detail: its keys) or a tuple (detail: its class) of nested values; "none" is
    None."""
    make: Callable[[Sequence[Any]], Any] = list
    if kind == "none":
        make = lambda parts: None  # noqa: E731
    if kind == "dict":
        make = lambda parts: dict(zip(detail, parts, strict=True))  # noqa: E731
    elif kind == "tuple":
        make = tuple if detail is tuple else partial(composed, detail)

    single = all(tree.description == ("array", LEAF) for tree in trees)

    def build(flat: Sequence[Any]) -> Any:
        if single:
            return make(flat)
        parts, at = [], 0
        for tree in trees:
            parts.append(tree.build(flat[at : at + tree.count]))
            at += tree.count
        return make(parts)

    head = (kind,) if detail is None else (kind, detail)
    return Tree(build, sum(tree.count for tree in trees), (*head, tuple(trees)))


def apart(value: object) -> tuple[list[object], Tree]:
    """What is nested in a value, and the tree that reassembles it."""
    detail: tuple[object, ...] | type[object] | None = None
    if isinstance(value, dict):
        values, kind, detail = list(value.values()), "dict", tuple(value)
    elif isinstance(value, list):
        values, kind = value, "list"
    elif is_composite(value):
        values, kind, detail = list(children_of(value)), "tuple", type(value)
    else:
        return [value], array_tree(LEAF)
    found = [apart(v) for v in values]
    tree = joined_tree([t for _, t in found], kind, detail)
    return [p for parts, _ in found for p in parts], tree


def flatten_results(value: Any, whose: str = "") -> tuple[list[Leaf], Tree]:
    """The buffers of a nested value of Arrays, and the tree that reassembles them; errors name the
    function `whose` that returned it, if any.  None may be a part of the value."""
    if isinstance(value, Array):
        return list(value._leaves), array_tree(value.structure)
    if isinstance(value, Scalar) or kind_of_literal(value) is not None or is_arraylike(value):
        return flatten_results(as_array(value, "run"))
    if isinstance(value, dict):
        return _joined(list(value.values()), whose, "dict", tuple(value))
    if isinstance(value, list):
        return _joined(value, whose, "list")
    if is_composite(value):
        return _joined(list(children_of(value)), whose, "tuple", type(value))
    if whose:
        raise returned(value, whose, _RESULTS)
    raise TracingError(
        f"run needs {_RESULTS}, got {called(value)}.", hint=returned(value, whose, _RESULTS).hint
    )


#: The permitted results of programs.
_RESULTS = "Arrays, or tuples, lists and dicts of them"


def _joined(
    values: list[Any], whose: str, kind: str, detail: Any = None
) -> tuple[list[Leaf], Tree]:
    leaves: list[Leaf] = []
    trees: list[Tree] = []
    for v in values:
        more, tree = ([], joined_tree((), "none")) if v is None else flatten_results(v, whose)
        leaves += more
        trees.append(tree)
    return leaves, joined_tree(trees, kind, detail)
