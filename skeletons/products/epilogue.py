"""Products without what is fused into them: the rest is a kernel of its own."""

from __future__ import annotations

from treadle.dsl.expr import Index, Read, rewrite
from treadle.dsl.graph import Generate, Matmul


def without_epilogue(node: Matmul) -> tuple[Matmul, Generate]:
    """The plain product, and a kernel that applies the epilogue to its result."""
    inner = node.with_(epilogue=(node.result,))
    value = Read(inner, 0, tuple(Index(axis) for axis in range(len(node.batch) + 2)))
    stored = rewrite(node.epilogue, lambda e: value if e is node.result else e)
    shape = (*node.batch, node.m, node.n)
    return inner, Generate(shape, stored, label=node.label, where=node.where)
