"""Nested results and arguments: tuples, lists, dicts and single arrays, flattened and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .array import Array, as_array, is_arraylike
from .errors import TracingError
from .graph import Leaf
from .scalar import Scalar
from .types import Structure, children_of, is_composite, kind_of_literal


class Tree:
    """The shape of a nested value around arrays; `rebuild` puts flat results back."""

    def __init__(self, build: Callable[[Sequence[Any]], Any], count: int) -> None:
        self.build, self.count = build, count


def flatten_results(value: Any) -> tuple[list[Leaf], Tree]:
    """The buffers that a nested value of Arrays needs, and how to put them back together."""
    if isinstance(value, Array):
        structure = value.structure
        return list(value._leaves), Tree(structure.build, structure.count)
    if isinstance(value, Scalar) or kind_of_literal(value) is not None or is_arraylike(value):
        return flatten_results(as_array(value, "run"))
    if isinstance(value, dict):
        return _joined(list(value.values()), lambda parts: dict(zip(value, parts, strict=True)))
    if isinstance(value, list):
        return _joined(value, list)
    if is_composite(value):
        structure = Structure(type(value), ())
        cls = structure.cls
        make = (lambda parts: tuple(parts)) if cls is tuple else (lambda parts: cls(*parts))  # type: ignore[misc]
        return _joined(list(children_of(value)), make)
    raise TracingError(
        f"a program gives Arrays, or tuples, lists and dicts of them, not {type(value).__name__}.",
        hint="Did the function forget to return an expression?" if value is None else None,
    )


def _joined(values: list[Any], make: Callable[[list[Any]], Any]) -> tuple[list[Leaf], Tree]:
    leaves: list[Leaf] = []
    trees: list[Tree] = []
    for v in values:
        more, tree = flatten_results(v)
        leaves += more
        trees.append(tree)

    def build(flat: Sequence[Any]) -> Any:
        parts, at = [], 0
        for tree in trees:
            parts.append(tree.build(flat[at : at + tree.count]))
            at += tree.count
        return make(parts)

    return leaves, Tree(build, len(leaves))
