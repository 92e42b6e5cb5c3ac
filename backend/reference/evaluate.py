"""Evaluates the nodes of the array graph by NumPy: one short method per node class."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.dsl import graph
from treadle.dsl.analysis.regions import regions
from treadle.dsl.errors import WRITTEN, out_of_range
from treadle.dsl.expr import Expr, Extent, Index, Param, constant, substitute
from treadle.dsl.graphs.relations import checks_before, verify_checks
from treadle.dsl.libraries.base import parts_of
from treadle.dsl.target import REFERENCE
from treadle.skeletons.schedules.user_orders import require_fits

from ..runtime.memory import ADDRESSABLE, matmul, no_memory
from ..runtime.plan import invariants
from .scalars import Lanes, Machine, combine_values

Arrays = tuple[Any, ...]

#: Nodes whose elements or parts a schedule may order.
ORDERED = (graph.Fold, graph.FoldSeg, graph.Generate, graph.Matmul, graph.Permute, graph.Scan)


def run(
    roots: Sequence[graph.Leaf],
    bindings: dict[graph.Node, Any],
    params: dict[Param, Any],
    check: bool,
) -> list[Any]:
    """The arrays of `roots`; `bindings` has the data of inputs, `params` the scalar arguments."""
    machine = Evaluator(bindings, params, check)
    machine.verify(roots)
    machine.compute(roots)
    return [np.array(machine.array(r), order="C") for r in roots]


class Evaluator:
    """Evaluates nodes on demand; loops and branches evaluate their bodies in a child evaluator."""

    def __init__(
        self,
        bindings: dict[graph.Node, Any],
        params: dict[Param, Any],
        check: bool,
        parent: Evaluator | None = None,
    ) -> None:
        self.bindings, self.params, self.check, self.parent = bindings, params, check, parent
        self.done: dict[graph.Node, Arrays] = {}
        self.machine = Machine(weakref.proxy(self), check)

    def array(self, leaf: graph.Leaf) -> Any:
        found = self.find(leaf.node)
        if found is None:
            self.compute([leaf])
            found = self.done[leaf.node]
        return found[leaf.component]

    def find(self, node: graph.Node) -> Arrays | None:
        if isinstance(node, graph.Input) and node in self.bindings:
            return (np.asarray(self.bindings[node]),)
        found = self.done.get(node)
        if found is None and self.parent is not None:
            return self.parent.find(node)
        return found

    def verify(self, roots: Sequence[graph.Leaf]) -> None:
        """Verify the checks that need no array, before anything is computed."""
        verify_checks(checks_before(roots), self.scalar)

    def compute(self, roots: Sequence[graph.Leaf]) -> None:
        for node in graph.topological(roots, inside=False):
            if self.find(node) is None:
                self.machine.operation, self.machine.where = str(node.label), node.where
                verify_checks((c for c in node.checks if c.reads), self.scalar)
                if node.label.ordered and isinstance(node, ORDERED):
                    self.require_order(node)
                self.done[node] = self.node(node)

    def require_order(self, node: graph.Node) -> None:
        """Reject a schedule that other backends reject here; it orders nothing."""
        from treadle.skeletons.lower.lower import LoweringContext, lower

        lowered = lower(node, LoweringContext())
        bound: dict[Expr, Expr] = {}
        for kernel in lowered.kernels:
            bound.update(kernel.hosts)
        for order, grid in lowered.fits:
            extents = [int(self.scalar(e)) for e in substitute(grid, bound)]
            require_fits(node, [(order, 0, len(extents))], extents, self.check)

    # --- host scalars ---
    def host_value(self, e: Expr) -> Any:
        if isinstance(e, Extent):
            found = self.find(e.node)
            assert found is not None
            return found[0].shape[e.axis]
        assert isinstance(e, Param)
        return self.params[e] if self.parent is None else self.parent.host_value(e)

    def scalar(self, e: Expr) -> Any:
        (value,) = Lanes(1, {}, self.machine).evaluate([e])
        return np.asarray(value).reshape(-1)[0]

    def extents(self, shape: Sequence[Expr]) -> tuple[int, ...]:
        return tuple(max(int(self.scalar(e)), 0) for e in shape)

    # --- elements over a domain ---
    def over(
        self, shape: tuple[int, ...], roots: Sequence[Expr], extra: dict[Expr, Any] | None = None
    ) -> list[Any]:
        """`roots` at every index of `shape`, as arrays of that shape."""
        count = math.prod(shape)
        # NumPy counts the bytes of the non-empty axes, and its error for too many is unclear.
        if math.prod(n for n in (8, len(shape), *shape) if n) >= ADDRESSABLE:
            raise no_memory(shape, roots[0].type.numpy)
        try:
            leaves: dict[Expr, Any] = _domain_indices(shape)
            for v, value in (extra or {}).items():
                leaves[v] = np.asarray(value).reshape(count)
            lanes = Lanes(count, leaves, self.machine)
            return [np.array(lanes.full(r)).reshape(shape) for r in lanes.evaluate(roots)]
        except MemoryError:
            raise no_memory(shape, roots[0].type.numpy) from None

    def node(self, node: graph.Node) -> Arrays:
        match node:
            case graph.Generate():
                return tuple(self.over(self.extents(node.shape), node.elements))
            case graph.Fold():
                return self.fold(node)
            case graph.StoringFold():
                array, fold = node.apart()
                return (*self.node(fold), *self.node(array))
            case graph.CrossedFolds():
                along, across = node.apart()
                return (*(self.array(leaf) for leaf in along.leaves), *self.node(across))
            case graph.FoldSeg():
                return self.fold_seg(node)
            case graph.Scan():
                return self.scan(node)
            case graph.Recurrence():
                return self.recurrence(node)
            case graph.Permute():
                return self.permute(node)
            case graph.FoldedMatmul():
                product, fold = node.apart()
                return (*self.node(fold), *self.node(product)[: len(node.epilogue)])
            case graph.StoringMatmul():
                storing, product = node.apart()
                return (*(self.array(leaf) for leaf in storing.leaves), *self.node(product))
            case graph.Matmul():
                return self.matmul(node)
            case graph.Library():
                operation = node.operation
                options = operation.options([self.scalar(e) for e in node.outputs[0].shape])
                given = (self.array(a) for a in node.arguments)
                result = operation.on(REFERENCE.name)(*given, **options)
                extents = (int(self.scalar(e)) for o in node.outputs for e in o.shape)
                parts = parts_of(node.operation, result, extents, node.where)
                return tuple(
                    np.asarray(p, o.type.numpy) for p, o in zip(parts, node.outputs, strict=True)
                )
            case graph.Barrier():
                return tuple(self.array(a) for a in node.arguments)
            case graph.ArrayLoop():
                return self.loop(node)
            case graph.Branch():
                side = node.then if self.scalar(node.predicate) else node.other
                child = Evaluator(self.bindings, self.params, self.check, self)
                child.verify(side)
                child.compute(side)
                return tuple(child.array(leaf) for leaf in side)
        raise AssertionError(f"{type(node).__name__} cannot be evaluated")

    # --- reductions: pairwise in order, so any associative function is correct ---
    def reduced(self, values: list[Any], combine: Any) -> list[Any]:
        """Reduce the last axis (extent ≥ 1)."""
        while values[0].shape[-1] > 1:
            n = values[0].shape[-1]
            left = [v[..., 0 : n - 1 : 2] for v in values]
            right = [v[..., 1:n:2] for v in values]
            pairs = combine_values(self.machine, combine, left, right)
            if n % 2:
                pairs = [
                    np.concatenate([p, v[..., -1:]], -1) for p, v in zip(pairs, values, strict=True)
                ]
            values = pairs
        return [v[..., 0] for v in values]

    def initial(self, init: Sequence[Expr], shape: tuple[int, ...]) -> list[Any]:
        return [np.full(shape, self.scalar(e), e.type.numpy) for e in init]

    def with_init(self, node: Any, values: list[Any], shape: tuple[int, ...]) -> list[Any]:
        """Reduce the last axis of `values`, `init` on the left; an empty axis gives `init`."""
        start = None if node.init is None else self.initial(node.init, shape)
        if values[0].shape[-1] == 0:
            assert start is not None
            return start
        total = self.reduced(values, node.combine)
        return total if start is None else combine_values(self.machine, node.combine, start, total)

    def finish(self, node: Any, results: list[Any], shape: tuple[int, ...]) -> Arrays:
        extra: dict[Expr, Any] = dict(zip(node.results, results, strict=True))
        return tuple(self.over(shape, node.epilogue, extra))

    def fold(self, node: graph.Fold) -> Arrays:
        outer, inner = self.extents(node.outer), self.extents(node.inner)
        values = self.over(outer + inner, node.elements)
        flat = [v.reshape(*outer, int(np.prod(inner, dtype=np.int64))) for v in values]
        return self.finish(node, self.with_init(node, flat, outer), outer)

    def fold_seg(self, node: graph.FoldSeg) -> Arrays:
        outer = self.extents(node.outer)
        offsets = self.array(node.offsets)
        values = self.over((*outer, int(offsets[-1])), node.elements)
        shape = (*outer, len(offsets) - 1)
        results = [np.zeros(shape, v.dtype) for v in values]
        for s in range(len(offsets) - 1):
            part = [v[..., offsets[s] : offsets[s + 1]] for v in values]
            for out, value in zip(results, self.with_init(node, part, outer), strict=True):
                out[..., s] = value
        return self.finish(node, results, shape)

    # --- scans ---
    def inclusive(self, values: list[Any], combine: Any) -> list[Any]:
        """All prefixes over the last axis, by halves."""
        n = values[0].shape[-1]
        if n <= 1:
            return values
        even = n - n % 2
        pairs = combine_values(
            self.machine,
            combine,
            [v[..., 0:even:2] for v in values],
            [v[..., 1:even:2] for v in values],
        )
        sums = self.inclusive(pairs, combine)
        results = [np.array(v) for v in values]
        for out, s in zip(results, sums, strict=True):
            out[..., 1:even:2] = s
        rest = [v[..., 2::2] for v in values]
        count = rest[0].shape[-1]
        filled = combine_values(self.machine, combine, [s[..., :count] for s in sums], rest)
        for out, f in zip(results, filled, strict=True):
            out[..., 2::2] = f
        return results

    def scan(self, node: graph.Scan) -> Arrays:
        shape = self.extents(node.shape)
        values = [np.moveaxis(v, node.axis, -1) for v in self.over(shape, node.elements)]
        combine = node.combine
        if node.reverse:  # from the right: flip the data and the arguments
            values = [v[..., ::-1] for v in values]
            combine = type(combine)(combine.right, combine.left, combine.results)
        if node.init is not None:
            start = self.initial(node.init, (*values[0].shape[:-1], 1))
            values = [np.concatenate([s, v], -1) for s, v in zip(start, values, strict=True)]
        results = self.inclusive(values, combine)
        totals: list[Any] = []
        if node.form == "total":
            totals = [r[..., -1] for r in results]
            results = [r[..., :-1] for r in results]
        if node.reverse:
            results = [r[..., ::-1] for r in results]
        results = [np.ascontiguousarray(np.moveaxis(r, -1, node.axis)) for r in results]
        return (*self.finish(node, results, results[0].shape), *totals)

    # --- recurrences ---
    def recurrence(self, node: graph.Recurrence) -> Arrays:
        shape, others = self.extents(node.shape), self.extents(node.others)
        state = self.over(others, node.start)
        outs = [np.zeros(shape, e.type.numpy) for e in node.collected]
        count = shape[node.axis]
        for k in range(count)[:: -1 if node.reverse else 1]:
            index: list[Expr] = [Index(a) for a in range(len(others))]
            index.insert(node.axis, constant(k))
            positions: dict[Expr, Expr] = {Index(a): e for a, e in enumerate(index)}
            roots = substitute(node.per_element(), positions)
            values = self.over(others, roots, dict(zip(node.state, state, strict=True)))
            state = values[: len(state)]
            for out, value in zip(outs, values[len(state) :], strict=True):
                np.moveaxis(out, node.axis, 0)[k] = value
        return (*outs, *(state[k] for k in node.last))

    # --- scatter ---
    def permute(self, node: graph.Permute) -> Arrays:
        shape = self.extents(node.domain)
        (valid,) = self.over(shape, (node.valid,))
        lanes_valid = valid.reshape(-1)
        leaves: dict[Expr, Any] = {k: at[lanes_valid] for k, at in _domain_indices(shape).items()}
        lanes = Lanes(int(lanes_valid.sum()), leaves, self.machine)
        got = [np.array(lanes.full(v)) for v in lanes.evaluate((*node.target, *node.values))]
        target, values = got[: len(node.target)], got[len(node.target) :]
        if isinstance(node, graph.Compact):  # the first of its block is at the target
            block = np.flatnonzero(lanes_valid) // graph.Compact.BLOCK
            target = [target[0] + np.arange(lanes.count) - np.searchsorted(block, block)]
        outs = [np.array(self.array(d), order="C") for d in node.defaults]  # written as flat ones
        extents = outs[0].shape
        inside = np.ones(lanes.count, bool)
        for axis, (i, n) in enumerate(zip(target, extents, strict=True)):
            bad = (i < 0) | (i >= n)
            if self.check and bad.any():
                raise out_of_range(str(node.label), WRITTEN, axis, int(i[bad][0]), n, node.where)
            inside &= ~bad
        at = np.zeros(int(inside.sum()), np.int64)
        for i, n in zip(target, extents, strict=True):
            at = at * n + i[inside]
        values = [v[inside] for v in values]
        self.scatter(outs, at, values, node.combine)
        return tuple(outs)

    def scatter(self, outs: list[Any], at: Any, values: list[Any], combine: Any) -> None:
        """Combine values of equal targets pairwise, then each once into `outs`."""
        order = np.argsort(at, kind="stable")
        at, values = at[order], [v[order] for v in values]
        while len(at):
            first = np.r_[True, at[1:] != at[:-1]]
            if first.all():
                break
            rank = np.arange(len(at)) - np.maximum.accumulate(
                np.where(first, np.arange(len(at)), 0)
            )
            keep = rank % 2 == 0
            has_mate = np.r_[keep[:-1] & ~keep[1:] & (at[1:] == at[:-1]), False]
            mates = np.flatnonzero(has_mate) + 1
            left, right = [v[has_mate] for v in values], [v[mates] for v in values]
            merged = (
                right if combine is None else combine_values(self.machine, combine, right, left)
            )
            for v, m in zip(values, merged, strict=True):
                v[has_mate] = m
            at, values = at[keep], [v[keep] for v in values]
        flat = [o.reshape(-1) for o in outs]
        old = [f[at] for f in flat]
        new = values if combine is None else combine_values(self.machine, combine, values, old)
        for f, v in zip(flat, new, strict=True):
            f[at] = v

    # --- products ---
    def matmul(self, node: graph.Matmul) -> Arrays:
        batch = self.extents(node.batch)
        m, n, k = self.extents((node.m, node.n, node.k))
        (a,) = self.over((*batch, m, k), (node.left,))
        (b,) = self.over((*batch, k, n), (node.right,))
        t = node.left.type
        with np.errstate(all="ignore"):
            wide = {"bfloat16": np.float32, "float16": np.float32}.get(t.name)
            product = matmul(a.astype(wide), b.astype(wide)) if wide else matmul(a, b)
        shape = (*batch, m, n)
        extra: dict[Expr, Any] = {node.result: np.asarray(product).astype(t.numpy)}
        return tuple(self.over(shape, node.epilogue, extra))

    # --- loops over arrays ---
    def loop(self, node: graph.ArrayLoop) -> Arrays:
        # Loop-invariant checks are verified once, even if there is no iteration.
        region = regions(node.inner_roots())
        for same in invariants(node, region, self.bindings.keys(), self.check):
            verify_checks((c for c in same.checks if c.reads), self.scalar)
        state = [np.array(self.array(leaf)) for leaf in node.init]
        iteration = 0
        limit = None if node.count is None else int(self.scalar(node.count))
        while limit is None or iteration < limit:
            bound: dict[graph.Node, Any] = {
                **self.bindings,
                **dict(zip(node.state, state, strict=True)),
            }
            if node.index is not None:
                bound[node.index] = np.asarray(iteration, np.int64)
            child = Evaluator(bound, self.params, self.check, self)
            if node.predicate is not None and not bool(child.array(node.predicate)):
                break
            state = [np.array(child.array(leaf)) for leaf in node.body]
            self.done.update(  # for the next iterations, and for those of the loop around
                (n, arrays) for n, arrays in child.done.items() if region[n].isdisjoint(node.bound)
            )
            iteration += 1
        return tuple(state)


def _domain_indices(shape: tuple[int, ...]) -> dict[Expr, Any]:
    """The index along every axis of each element, in row-major order."""
    flat = np.arange(math.prod(shape))
    positions: dict[Expr, Any] = {}
    for k in range(len(shape) - 1, -1, -1):
        positions[Index(k)] = flat % shape[k] if shape[k] else flat
        flat = flat // shape[k] if shape[k] else flat
    return positions
