"""Distributed gathers: reads of a few elements of a large array at data-dependent indices.  Each
chunk looks up the elements that it contains, so that no task reads the whole array."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from treadle.dsl.analysis.combines import simple_combine
from treadle.dsl.expr import TRUE, Apply, Cond, Expr, Index, Read, Var, rewrite, substitute, walk
from treadle.dsl.graph import Fold, Generate, Label, Leaf, Node, indices
from treadle.dsl.node import result_variables
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at

from .domain import Chunks, Known, edges, reads_of


@dataclass
class Gatherer:
    """Rewrites reads of arrays with more than `least` bytes, whose `chunks` are given, into
    look-ups by chunks, each of at most `most` bytes.

    `compute(node, n)` plans a node, in blocks of one element along its last n axes; `constant`
    makes an array of numbers.  `bounded`: arrays of indices of which every block has its own part.
    """

    known: Known
    chunks: Mapping[Leaf, Chunks]
    least: int
    most: int
    compute: Callable[[Node, int], None]
    constant: Callable[[Any], Leaf]
    bounded: Collection[Leaf] = ()

    def split(self, node: Fold) -> Generate | None:
        """The epilogue of a fold as a node of its own, if it reads such arrays, otherwise None.
        The fold without the epilogue is planned."""
        count = self._size(node.outer)
        if count is None or not any(self._is_large(r, count) for r in reads_of(node.epilogue)):
            return None
        parts = result_variables(node.elements)
        bare = node.with_(results=parts, epilogue=parts)
        self.compute(bare, 0)
        index = indices(len(node.outer))
        found: dict[Expr, Expr] = {
            v: leaf.at(*index) for v, leaf in zip(node.results, bare.leaves, strict=True)
        }
        return Generate(node.outer, substitute(node.epilogue, found), label=node.label,
                        where=node.where)  # fmt: skip

    def answered(self, node: Generate) -> Generate:
        """The same elements, of answers."""
        count = self._size(node.shape)
        if count is None:
            return node
        large = [
            r for r in reads_of(node.elements)
            if self._is_large(r, count) and not any(isinstance(e, Var) for e in walk(r.args))
        ]  # fmt: skip
        if not large:
            return node
        memo: dict[Expr, Expr] = {}
        guards = _guards(node.elements)
        for read in large:  # those in the indices of others first
            guard = guards.get(read)
            if guard is None:
                continue
            args, (guard,) = (rewrite(x, lambda e: e, memo) for x in (read.args, (guard,)))
            if guard is not TRUE:  # others may be anything
                args = at.choose(guard, args, [at.integer(0)] * len(args))
            memo[read] = self._answer(node, read, args)
        elements = rewrite(node.elements, lambda e: e, memo)
        return node.with_(elements=elements)

    def _size(self, shape: tuple[Expr, ...]) -> int | None:
        found = [self.known.number(e) for e in shape]
        return None if any(n is None for n in found) else prod(n or 0 for n in found)

    def _is_large(self, read: Read, count: int) -> bool:
        """Whether `count` elements are better asked for than found in the whole array."""
        leaf = Leaf(read.node, read.component)
        if read.boundary is not None or leaf not in self.chunks:
            return False
        # What is computed from floats has no bounds, as if it depended on data.
        inner = [e for e in walk(read.args) if isinstance(e, Read | Var)
                 or (isinstance(e, Apply) and e.type.is_inexact)]  # fmt: skip
        if not inner or any(isinstance(e, Read) and Leaf(e.node, e.component) in self.bounded
                            for e in inner):  # fmt: skip
            return False
        sizes, itemsize = self.chunks[leaf], leaf.type.numpy.itemsize
        blocks = prod(map(len, sizes))
        size = prod(map(sum, sizes)) * itemsize
        return blocks > 1 and size > self.least and count * blocks * itemsize <= self.most

    def _answer(self, node: Generate, read: Read, indices_: tuple[Expr, ...]) -> Expr:
        """An element of the answers to a read, at these indices."""
        leaf, rank = Leaf(read.node, read.component), len(node.shape)
        cut = [a for a, sizes in enumerate(self.chunks[leaf]) if len(sizes) > 1]
        args, own, counts = list(indices_), list[Expr](), list[Expr]()
        for k, a in enumerate(cut):
            sizes, e = self.chunks[leaf][a], args[a]
            ends = edges(sizes)
            low, last = (self.constant(n).at(Index(rank + k))
                         for n in (ends[:-1], [n - 1 for n in ends[1:]]))  # fmt: skip
            args[a] = at.maximum(at.minimum(e, last), low)
            counts.append(at.integer(len(sizes)))
            own.append(self._owner(node, e, ends))
        value = Read(read.node, read.component, tuple(args))
        answers = Generate((*node.shape, *counts), (value,), label=Label("answers"),
                           where=node.where)  # fmt: skip
        self.compute(answers, len(counts))
        return answers.leaves[0].at(*indices(rank), *own)

    def _owner(self, node: Generate, e: Expr, ends: list[int]) -> Expr:
        """The number of the chunk that has an index."""
        begin = self.constant(ends[1:-1]).at(Index(len(node.shape)))
        element = at.select(at.less_equal(begin, e), 1, 0)
        found = Fold(node.shape, (at.integer(len(ends) - 2),), (element,),
                     simple_combine("add", int64), (at.integer(0),),
                     label=Label("owners"), where=node.where)  # fmt: skip
        self.compute(found, 0)
        return found.leaves[0].at(*indices(len(node.shape)))


def _guards(roots: Sequence[Expr]) -> dict[Read, Expr]:
    """Under which condition each read is evaluated, but for those in loops, of which some may have
    no iterations."""
    found: dict[Read, list[Expr]] = {}
    unknown: set[Expr] = set()
    pending: list[tuple[Expr, Expr]] = [(e, TRUE) for e in roots]
    seen = set(pending)
    while pending:
        e, guard = pending.pop()
        inner = [(a, guard) for a in e.args]
        if isinstance(e, Read):
            found.setdefault(e, []).append(guard)
        if isinstance(e, Cond):
            p = e.args[0]
            inner += [(x, at.both(guard, p)) for x in e.then]
            inner += [(x, at.both(guard, at.negate(p))) for x in e.other]
        else:
            unknown.update(walk(e.scoped))
        pending += [one for one in inner if one not in seen]
        seen.update(inner)
    return {read: TRUE if TRUE in given else at.either(*given)
            for read, given in found.items() if read not in unknown}  # fmt: skip
