"""Reads of large arrays at data-dependent indices, as gathers.  The positions are computed first,
then each chunk supplies its elements at these positions, so that no task reads the whole array."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from treadle.dsl.expr import TRUE, Apply, Cond, Expr, Index, Read, Var, rewrite, substitute, walk
from treadle.dsl.graph import Fold, Generate, Label, Leaf, Shape, indices
from treadle.dsl.node import result_variables
from treadle.skeletons.ir import arithmetic as at

from .domain import Chunks, Known, reads_of
from .engine import BLOCK, Engine

#: Seconds to find a position in its chunk and store the element; per byte copied of an answer; per
#: byte read of a whole array; and per task on threads.
POSITION, ANSWERED, READ, TASK = 2e-8, 2e-9, 1.5e-10, 2e-4

Asking = TypeVar("Asking", Generate, Fold)


@dataclass
class Gatherer:
    """Rewrites reads of arrays with more than `least` bytes, whose `chunks` are given, into reads
    of gathered elements.

    `gathered(leaf, axes, positions)` plans the array of the elements of `leaf` at `positions`, in
    row-major order along `axes`: its axes are those of the positions, then the remaining axes of
    `leaf`.  `bounded`: arrays of indices of which every block has its own part.
    """

    engine: Engine
    known: Known
    chunks: Mapping[Leaf, Chunks]
    least: int
    compute: Callable[[Fold], None]
    gathered: Callable[[Leaf, tuple[int, ...], Generate], Leaf]
    bounded: Collection[Leaf] = ()

    def split(self, node: Fold) -> Generate | None:
        """The epilogue of a fold as a separate node if it reads such arrays, otherwise None.  The
        fold without the epilogue is planned."""
        if not self._large(node.epilogue, node.outer):
            return None
        parts = result_variables(node.elements)
        bare = node.with_(results=parts, epilogue=parts)
        self.compute(bare)
        index = indices(len(node.outer))
        found: dict[Expr, Expr] = {
            v: leaf.at(*index) for v, leaf in zip(node.results, bare.leaves, strict=True)
        }
        return Generate(node.outer, substitute(node.epilogue, found), label=node.label,
                        where=node.where)  # fmt: skip

    def answered(self, node: Asking) -> Asking:
        large = [r for r in self._large(node.elements, _domain(node))
                 if not any(isinstance(e, Var) for e in walk(r.args))]  # fmt: skip
        if not large:
            return node
        memo: dict[Expr, Expr] = {}
        guards = _guards(node.elements)
        for read in large:  # inner reads, which are indices of others, first
            guard = guards.get(read)
            if guard is not None:
                args, (guard,) = (rewrite(x, lambda e: e, memo) for x in (read.args, (guard,)))
                memo[read] = self._gathered(node, read, args, guard)
        return node.with_(elements=rewrite(node.elements, lambda e: e, memo))

    def _large(self, roots: Sequence[Expr], shape: Sequence[Expr]) -> list[Read]:
        """The reads that are better gathered than served by whole arrays."""
        extents = [self.known.number(e) for e in shape]
        if any(n is None for n in extents):
            return []
        reads = reads_of(roots)
        leaves = {Leaf(r.node, r.component) for r in reads}
        tasks = max((prod(map(len, self.chunks[x])) for x in leaves if x in self.chunks), default=1)
        return [r for r in reads if self._is_large(r, [n or 0 for n in extents], tasks)]

    def _is_large(self, read: Read, domain: Sequence[int], tasks: int) -> bool:
        """Whether gathering is faster for this number of tasks, or necessary."""
        leaf = Leaf(read.node, read.component)
        if read.boundary is not None or leaf not in self.chunks:
            return False
        # Indices computed from floats have no bounds, just as if they depended on data.
        inner = [e for e in walk(read.args) if isinstance(e, Read | Var)
                 or (isinstance(e, Apply) and e.type.is_inexact)]  # fmt: skip
        if not inner or any(isinstance(e, Read) and Leaf(e.node, e.component) in self.bounded
                            for e in inner):  # fmt: skip
            return False
        sizes, itemsize = self.chunks[leaf], leaf.type.numpy.itemsize
        extents = [sum(n) for n in sizes]
        chunks, size = prod(map(len, sizes)), prod(extents) * itemsize
        if chunks == 1 or size <= self.least or size > min(BLOCK, self.engine.allowed // 8):
            return chunks > 1 and size > self.least
        over, along = _over(read.args, TRUE, domain, extents)
        positions = prod(domain[k] for k in over)
        answers = positions * prod(extents[a] for a in along) * itemsize
        engine, workers = self.engine, max(self.engine.workers, 1)
        each = engine.overhead if engine.workers else TASK
        sent = engine.moving * (workers - 1)  # every worker receives the array
        asked = (positions * POSITION + answers * (ANSWERED + sent / workers)) / workers
        whole = size * (tasks * max(READ, engine.copying) + sent) / workers
        return asked + each * tasks * chunks <= whole

    def _gathered(self, node: Generate | Fold, read: Read, args: Sequence[Expr], guard: Expr
                  ) -> Expr:  # fmt: skip
        """A gathered element, of a read with these indices."""
        leaf = Leaf(read.node, read.component)
        extents = [sum(sizes) for sizes in self.chunks[leaf]]
        domain = _domain(node)
        numbers = [self.known.number(n) for n in domain]
        over, along = _over(args, guard, numbers, extents)
        axes = tuple(a for a in range(len(args)) if a not in along)
        zero = [at.integer(0)] * len(axes)
        places: Sequence[Expr] = [args[a] for a in axes]
        if guard is not TRUE and _reads(places):
            places = at.choose(guard, places, zero)
        last = [at.integer(extents[a] - 1) for a in axes]
        inside = [at.maximum(at.minimum(e, n), zero[0]) for e, n in zip(places, last, strict=True)]
        position = at.linear(inside, [at.integer(extents[a]) for a in axes])
        moved: dict[Expr, Expr] = {Index(k): Index(i) for i, k in enumerate(over)}
        positions = Generate(tuple(domain[k] for k in over), substitute((position,), moved),
                             label=Label("positions"), where=node.where)  # fmt: skip
        found = self.gathered(leaf, axes, positions)
        return found.at(*(Index(k) for k in (*over, *along.values())))


def _reads(args: Sequence[Expr]) -> bool:
    """Whether these indices read arrays, perhaps out of range if they are not used."""
    return any(isinstance(e, Read) for e in walk(args))


def _over(args: Sequence[Expr], guard: Expr, domain: Sequence[int | None], extents: Sequence[int]
          ) -> tuple[list[int], dict[int, int]]:  # fmt: skip
    """For a read of an array of these `extents`: the domain axes over which its positions vary, and
    the array axes whose index is a domain index."""
    along = {
        a: e.axis for a, (e, n) in enumerate(zip(args, extents, strict=True))
        if isinstance(e, Index) and domain[e.axis] == n
    }  # fmt: skip
    asked = [e for a, e in enumerate(args) if a not in along]
    asked += [guard] * _reads(asked)
    over = {e.axis for e in walk(asked) if isinstance(e, Index)}
    along = {a: k for a, k in along.items() if k not in over}
    if len(set(along.values())) < len(along):  # a diagonal
        over, along = {*over, *along.values()}, {}
    return sorted(over), along


def _domain(node: Generate | Fold) -> Shape:
    return node.shape if isinstance(node, Generate) else (*node.outer, *node.inner)


def _guards(roots: Sequence[Expr]) -> dict[Read, Expr]:
    """The condition under which each read is evaluated, except those in loops."""
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
