"""record_in_place: a loop that stores its states computes them directly in the stored rows.

    u, s = f(u), update(s, k, u)   →   s = update(s, k + 1, f(s[k]));  u = s[n]

A gradient stores the states of a loop, so that an iteration would compute a state and copy it.
Here the rows of the stored array are the state, with one more row for the last.  The array starts
uninitialised, as every row is written before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..expr import TRUE, Const, Expr, Extent, Read, constant, rewrite, walk
from ..graph import (
    ArrayLoop,
    Fold,
    Generate,
    Input,
    Leaf,
    Memory,
    Node,
    Permute,
    indices,
    is_identity_read,
    topological,
)
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..operations.stencils import in_range, resolve_index, resolve_read
from ..scalar import apply_primitive
from .base import Context


def record_in_place(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Make the loops of a program compute the states that they store in the stored rows; not for
    arrays in blocks, whose blocks are not rows."""
    order = list(topological(roots))
    whole = context.target.in_memory and not context.settings.check
    if not whole or not any(isinstance(n, ArrayLoop) for n in order):
        return list(roots)
    arrays = _as_arrays(roots, order)

    def change(node: Node, made: Node) -> Node | Sequence[Leaf]:
        if not isinstance(made, ArrayLoop):
            return made
        made = _without_beginnings(made)
        recorded = [one for one in _Recorded.of(made)
                    if arrays.isdisjoint(node.leaf(j) for j in one.stores)]  # fmt: skip
        return _in_rows(made, recorded, context) if recorded else made

    return replace_nodes(roots, change, context.kept)


def _as_arrays(roots: Sequence[Leaf], order: Sequence[Node]) -> set[Leaf]:
    """The arrays whose own extents matter: all not only read element by element."""
    found = set(roots)
    for node in order:
        found.update(node.operands(), node.inside())
        for e in walk(node.expressions()):
            if isinstance(e, Extent) or (isinstance(e, Read) and e.boundary is not None):
                found.update(e.node.leaves)
    return found


#: The boundaries that map an index to another index.
RESOLVED = ("wrap", "clamp", "mirror", "symmetric")


class _Recorded(NamedTuple):
    """The states `carried`, with next values from `step`; and the states that store them."""

    step: Generate
    carried: tuple[int, ...]
    stores: tuple[int, ...]

    @staticmethod
    def of(loop: ArrayLoop) -> list[_Recorded]:
        if loop.count is None or loop.index is None or loop.changing():
            return []
        nodes = list(topological(loop.body))
        readers = _readers(loop)
        extents = {e.node for n in nodes for e in walk(n.expressions()) if isinstance(e, Extent)}
        stored: dict[int, int] = {}
        for k in range(len(loop.state)):
            source = _stored(loop, k, readers)
            if source is not None:
                stored.setdefault(source, k)
        found = []
        for step in dict.fromkeys(loop.body[k].node for k in stored):
            carried = [k for k, leaf in enumerate(loop.body) if leaf.node is step]
            carried.sort(key=lambda k: loop.body[k].component)
            if (
                type(step) is Generate
                and tuple(loop.body[k] for k in carried) == step.leaves
                and stored.keys() >= set(carried)
                and not any(leaf in readers for leaf in step.leaves)
                and not (step.label.ordered or step.label.schedule)
                and all(_only_read(loop, k, stored[k], readers, extents) for k in carried)
                and all(step.shape == loop.state[k].shape == loop.init[k].shape for k in carried)
            ):
                stores = tuple(stored[k] for k in carried)
                found.append(_Recorded(step, tuple(carried), stores))
        return found


def _written(loop: ArrayLoop, k: int, readers: Mapping[Leaf, Sequence[Node]]) -> Permute | None:
    """The update of state `k`, if every iteration writes a row of it, nothing reads it before the
    last iteration, and its initial value is an array computed for it."""
    put, state, first = loop.body[k].node, loop.state[k].leaf(), loop.init[k].node
    if type(put) is not Permute or put.valid is not TRUE or put.combine is not None:
        return None
    assert loop.count is not None and loop.index is not None
    rank = len(put.domain)
    rows = apply_primitive("maximum", [loop.count, constant(0)])
    whole = (
        state in put.defaults
        and put.defaults.index(state) == loop.body[k].component
        and put.target == (loop.index.leaf().at(), *indices(rank))
        and state.shape in ((loop.count, *put.domain), (rows, *put.domain))
        and readers[state] == [put]
        and not any(isinstance(e, Read) and e.node is state.node for e in walk(put.bodies()))
        and not any(leaf in readers for leaf in put.leaves)
        and isinstance(first, Generate)
    )
    return put if whole else None


def _stored(loop: ArrayLoop, k: int, readers: Mapping[Leaf, Sequence[Node]]) -> int | None:
    """The state whose values before each iteration state `k` stores, and nothing else."""
    put = _written(loop, k, readers)
    if put is None or len(put.values) != 1 or not put.domain:
        return None
    if put.label.ordered or put.label.schedule:
        return None
    value = put.values[0]
    if not isinstance(value, Read) or not is_identity_read(value, len(put.domain)):
        return None
    source = next((j for j, s in enumerate(loop.state) if s is value.node), None)
    if source is None or put.domain != loop.state[source].shape:
        return None
    return source


def _without_beginnings(loop: ArrayLoop) -> ArrayLoop:
    """The loop with uninitialised initial states, if every row is written before it is read."""
    if loop.count is None or loop.index is None or loop.changing():
        return loop
    readers = _readers(loop)
    init = list(loop.init)
    for k, leaf in enumerate(loop.init):
        first = leaf.node
        if type(first) is Generate and _written(loop, k, readers) is not None:
            init[k] = Memory(first.shape, (first.elements[leaf.component],), label=first.label,
                             where=first.where).leaf()  # fmt: skip
    return loop if init == list(loop.init) else loop.with_(init=tuple(init))


def _readers(loop: ArrayLoop) -> dict[Leaf, list[Node]]:
    found: dict[Leaf, list[Node]] = {}
    for n in topological(loop.body):
        for leaf in {*n.inputs(), *n.inside()}:
            found.setdefault(leaf, []).append(n)
    return found


def _only_read(loop: ArrayLoop, k: int, store: int, readers: Mapping[Leaf, Sequence[Node]],
               extents: Iterable[Node]) -> bool:  # fmt: skip
    """Whether an iteration only reads elements of state `k`."""
    state, put = loop.state[k], loop.body[store].node
    return (
        state.leaf() not in loop.body
        and state not in extents
        and all(type(n) in (Generate, Fold) for n in readers[state.leaf()] if n is not put)
    )


class _Rows(Rebuilder):
    """Rewrites states as rows of others: `rows` has the array of each, and the index of the row."""

    def __init__(self, rows: Mapping[Leaf, tuple[Leaf, Expr]]) -> None:
        super().__init__()
        self.rows = rows
        self.leaves.update((leaf, store) for leaf, (store, _) in rows.items())

    def _read(self, e: Expr) -> Expr:
        row = self.rows.get(Leaf(e.node, e.component)) if isinstance(e, Read) else None
        if row is None or not isinstance(e, Read):
            return super()._read(e)
        store, k = row

        def plain(x: Expr) -> Expr:
            same = isinstance(x, Read) and (x.node, x.component) == (e.node, e.component)
            return store.at(k, *x.args) if same else x

        return rewrite((resolve_read(e),), plain)[0]


def _own_indices(node: Generate) -> dict[Expr, Expr]:
    """The element's own index, as boundaries resolve it; it is in range."""
    found: dict[Expr, Expr] = {}
    for i, n in zip(indices(len(node.shape)), node.shape, strict=True):
        found.update((resolve_index(kind, i, n), i) for kind in RESOLVED)
        found[in_range(i, n)] = TRUE
    return found


def _in_rows(loop: ArrayLoop, recorded: Sequence[_Recorded], context: Context) -> list[Leaf]:
    """The results of the loop, with those states computed in the rows of their stores."""
    assert loop.count is not None and loop.index is not None
    n = apply_primitive("maximum", [loop.count, constant(0)])
    here = loop.index.leaf().at()
    states: dict[int, tuple[Input, Leaf]] = {}  # the replacement of a store, and its initial value
    sources: dict[int, int] = {}
    rows: dict[Leaf, tuple[Leaf, Expr]] = {}
    for one in recorded:
        for k, j in zip(one.carried, one.stores, strict=True):
            old, before, first = loop.state[j], loop.state[k].shape, loop.init[k]
            shape = (apply_primitive("add", [n, constant(1)]), *before)
            label, where = loop.init[j].node.label, loop.init[j].node.where
            memory = Memory(shape, (Const(0, first.type),), label=label, where=where)
            ix = indices(len(before))
            begin = Permute(before, TRUE, (constant(0), *ix), (first.at(*ix),), memory.leaves, None,
                            label=loop.body[j].node.label, where=where)  # fmt: skip
            state = Input(old.name, old.type, (False,) * len(shape), kind="state", where=old.where)
            state.of_shape(shape).until = old.until
            states[j], sources[k] = (state, begin.leaf()), j
            rows[loop.state[k].leaf()] = state.leaf(), here
    put = _Rows(rows)
    steps = {one.step: one for one in recorded}
    skipped = {loop.body[j].node for j in states}
    after: dict[int, Leaf] = {}
    for node in topological(loop.body):
        if node in skipped:
            continue
        made = put.node(node)
        if node not in steps:
            put.replace(node, made, context.kept)
        else:
            assert isinstance(made, Generate)
            elements = rewrite(made.elements, lambda e: e, _own_indices(made))
            stores = steps[node].stores
            following = apply_primitive("add", [here, constant(1)])
            copied = loop.body[stores[0]].node
            update = Permute(
                made.shape, TRUE, (following, *indices(len(made.shape))), elements,
                tuple(states[j][0].leaf() for j in stores), None, label=made.label,
                where=made.where, checks=made.checks,
                fused=(*made.fused, (copied.label, copied.where)),
            )  # fmt: skip
            after.update(zip(stores, update.leaves, strict=True))
            context.notes.append(f"{made.label}: computed where {loop.label} stores it")
    kept = [k for k in range(len(loop.state)) if k not in sources]
    changed = ArrayLoop(
        tuple(states[k][0] if k in states else loop.state[k] for k in kept),
        tuple(states[k][1] if k in states else loop.init[k] for k in kept),
        tuple(after[k] if k in after else put.leaf(loop.body[k]) for k in kept),
        None, loop.count, loop.index, label=loop.label, where=loop.where, checks=loop.checks,
    )  # fmt: skip
    result = {k: changed.leaf(j) for j, k in enumerate(kept)}
    for k, j in sources.items():
        shape = loop.state[k].shape
        last = result[j].at(n, *indices(len(shape)))
        result[k] = Generate(shape, (last,), label=loop.label, where=loop.where).leaf()
    return [result[k] for k in range(len(loop.state))]
