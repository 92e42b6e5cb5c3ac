"""split_planes: a stack of arrays stays separate arrays, in the state of a loop and on the way to a
result.

    f = iterate(n, lambda f: g(stack([roll(f[0], …), …, roll(f[8], …)])), f₀)
      →   f0, …, f8 = iterate(n, …, (f₀[0], …, f₀[8]));  f = stack([f0, …, f8])
    g = stack([dx, dy]);  g / sqrt(sum(g * g, axis=0))
      →   s = sqrt(dx * dx + dy * dy);  stack([dx / s, dy / s])

A kernel that selects the source array per element neither shares work among arrays nor fuses, so a
stack would be stored and read again.  Computations along the axis are split too: elements, at each
index of the axis, and short folds along it, which become expressions with the bits of the fold.
This runs before producers are inlined.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .. import expr as ex
from ..analysis.combines import identities
from ..errors import Location
from ..expr import Expr
from ..graph import ArrayLoop, Fold, Generate, Input, Label, Leaf, Node, Shape, known, topological
from ..graphs.rebuild import Rebuilder, rewrite_graph
from ..scalar import apply_primitive
from ..simplify import chosen
from .base import Context
from .cost import operations
from .rows import COMPARISONS, LONGEST
from .short_axes import is_free, is_plain, unrolled

#: The most work to split, in additions: the code is copied for each array.
LARGEST = 4000.0
#: Loops of fewer iterations keep the stack: splitting and joining it are two copies.
FEWEST = 8
#: The most joined arrays outside loops that are split, or tried.
MOST_JOINED = 8


def split_planes(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Split stacks in loops' states; not in checked programs or for partitioned arrays."""
    order = list(topological(roots))
    if not context.target.in_memory or context.settings.check:
        return list(roots)

    def change(node: Node) -> Node | Sequence[Leaf]:
        results = _split(node) if isinstance(node, ArrayLoop) else None
        if results is None:
            return node
        context.notes.append(f"{node.label}: a state that is a stack of arrays is these arrays")
        return results

    if any(isinstance(n, ArrayLoop) for n in order):
        roots = rewrite_graph(roots, change, context.kept)
    return _split_joined(roots, context)


def _split_joined(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Split arrays that are joined and then read several times on the way to one result."""
    tried: set[Node] = set()
    for _ in range(MOST_JOINED):
        nodes = list(topological(roots, inside=False))
        readers = Counter(leaf.node for node in nodes for leaf in node.inputs())
        found = next(((n, axis) for n in nodes if readers[n] > 1 and n not in tried
                      if (axis := _joined_along(n)) is not None), None)  # fmt: skip
        if found is None:
            break
        tried.add(found[0])
        try:
            roots = _Joined(roots, nodes, *found).results()
        except _NotSplit:
            continue
        context.notes.append(f"{found[0].label}: joined arrays stay apart until the end")
    return list(roots)


def _joined_along(node: Node) -> int | None:
    """The axis, other than the last, along which a node joins arrays."""
    if type(node) is not Generate:
        return None
    sizes = [known(extent) for extent in node.shape[:-1]]
    return next((k for k, size in enumerate(sizes) if size in range(2, LONGEST + 1)
                 and len(places(node, k)) >= size - 1), None)  # fmt: skip


class _NotSplit(Exception):
    """A state is used as a whole, or its arrays share no work."""


def _split(loop: ArrayLoop) -> list[Leaf] | None:
    """The replacements of the results of a loop with split states; None if none is split."""
    if loop.changing():
        return None
    if loop.count is not None and (count := known(loop.count)) is not None and count < FEWEST:
        return None
    seeds = [k for k, leaf in enumerate(loop.body) if _joined_axis(leaf) is not None]
    nodes = list(topological(loop.inner_roots())) if seeds else []
    for tried in (seeds, *([k] for k in seeds if len(seeds) > 1)):
        try:
            return _States(loop, nodes, tried).results() if tried else None
        except _NotSplit:
            continue
    return None


class _Planes(Rebuilder):
    """Splits arrays among `nodes`, those of `inside`, along the axes in `axes`, except arrays that
    are used as a `whole` and are not among `ends`."""

    def __init__(self, nodes: Sequence[Node], inside: set[Node]) -> None:
        super().__init__()
        self.all, self.inside = nodes, inside
        self.whole = {leaf.node for node in nodes for leaf in (*node.operands(), *node.inside())}
        checked = (e for node in nodes for c in node.checks for e in (c.left, c.right))
        self.whole |= {e.node for e in ex.reading(checked)}
        self.ends: set[Node] = set()
        self.axes: dict[Node, int] = {}
        self.waiting: list[Node] = []
        self.planes: dict[Leaf, list[Leaf]] = {}
        self.readers: defaultdict[Node, list[tuple[Node, ex.Read]]] = defaultdict(list)
        for node in nodes:
            for e in node.reads():
                self.readers[e.node].append((node, e))

    # --- which arrays are split, along which axis ---------------------------------------------

    def _split(self, node: Node, axis: int | None) -> None:
        """Mark an array as split along an axis."""
        if axis is None or self.axes.get(node, axis) != axis:
            raise _NotSplit
        if node not in self.axes:
            self.axes[node] = axis
            self.waiting.append(node)

    def _size(self, node: Node) -> int:
        """The number of arrays that a node is split into."""
        return _size(node.outputs[0].shape[self.axes[node]])

    def _spread(self) -> None:
        """Propagate splitting to the operands and readers of split arrays."""
        for node in self.waiting:
            axis = self.axes[node]
            self._follow(node, axis)
            for reader, read in self.readers[node]:
                own = _index_of(read.args[axis])
                if own is not None and isinstance(reader, Generate):
                    self._split(reader, own)
            if not isinstance(node, Generate):
                continue
            for e in ex.walk(node.elements):
                if isinstance(e, ex.Read) and e.node not in self.axes and self._may_split(e.node):
                    along = [k for k, a in enumerate(e.args)
                             if a is ex.Index(axis)
                             and known(e.node.outputs[0].shape[k]) == self._size(node)]  # fmt: skip
                    if len(along) == 1 and self._only_split_readers(e.node, along[0]):
                        self._split(e.node, along[0])

    def _follow(self, node: Node, axis: int) -> None:
        """Split the nodes that must be split along with a node."""

    def _may_split(self, node: Node) -> bool:
        return type(node) is Generate and node in self.inside and is_free(node)

    def _only_split_readers(self, node: Node, axis: int) -> bool:
        """Whether all readers of an array can be split along an axis, or are short folds."""
        size = known(node.outputs[0].shape[axis])
        waiting = [(node, axis)]
        for of, along in waiting:
            for reader, read in self.readers[of]:
                index = read.args[along]
                own = index.axis if isinstance(index, ex.Index) else None
                if isinstance(index, ex.Const):
                    continue
                if isinstance(reader, Fold):
                    inner = own == len(reader.outer) and len(reader.inner) == 1
                    if not inner or known(reader.inner[0]) != size:
                        return False
                elif own is None or self.axes.get(reader, own) != own:
                    return False
                elif reader not in self.axes:
                    free = self._may_split(reader) and reader not in self.whole | self.ends
                    if not free or known(reader.outputs[0].shape[own]) != size:
                        return False
                    if (reader, own) not in waiting:
                        waiting.append((reader, own))
        return size is not None

    def _require_split(self) -> None:
        """Raise unless every use of a split array selects one of its parts."""
        folds = {reader for node in self.axes for reader, _ in self.readers[node]
                 if isinstance(reader, Fold)}  # fmt: skip
        work, apart = sum(LONGEST * operations(f.elements) for f in folds), False
        for node, axis in self.axes.items():
            size = self._size(node)
            if node in self.whole or not 2 <= size <= LONGEST or len(node.outputs[0].shape) < 2:
                raise _NotSplit
            if node in self.inside and isinstance(node, Input):
                pass  # a state
            elif self._may_split(node):
                work += size * operations(node.bodies())
                apart |= len(places(node, axis)) >= size - 1
            else:
                raise _NotSplit
            for reader, read in self.readers[node]:
                self._require_one(node, reader, read)
        extents = {e.node for node in self.all for e in ex.walk(node.expressions())
                   if isinstance(e, ex.Extent)}  # fmt: skip
        if not apart or work > LARGEST or not extents.isdisjoint(self.axes):
            raise _NotSplit

    def _require_one(self, node: Node, reader: Node, read: ex.Read) -> None:
        index, size = read.args[self.axes[node]], self._size(node)
        own = _index_of(index)
        if isinstance(index, ex.Const):
            values: list[Expr] = [index]
        elif own is None:
            raise _NotSplit
        elif isinstance(reader, Fold):
            if own != len(reader.outer) or len(reader.inner) != 1 or not _unrolls(reader):
                raise _NotSplit
            values = _at_each(index, own, _size(reader.inner[0]))
        elif reader in self.axes:
            values = _at_each(index, own, self._size(reader))
        else:
            raise _NotSplit
        inside = all(isinstance(v, ex.Const) and 0 <= int(v.value) < size for v in values)
        if not inside and (
            read.boundary is not None or not all(isinstance(v, ex.Const) for v in values)
        ):
            raise _NotSplit

    # --- the arrays they are split into -------------------------------------------------------

    def rebuild(self) -> None:
        for node in self.all:
            if node in self.axes and isinstance(node, Generate):
                self._put(node, [self._plane(node, k) for k in range(self._size(node))])
            elif node not in self.axes:
                self._take(node)

    def _require_shared(self, first: Iterable[Node], last: Iterable[Leaf]) -> None:
        """Raise unless one of the arrays `first` contributes to several of `last`."""
        last = list(last)
        used: dict[Node, frozenset[Node]] = {node: frozenset((node,)) for node in first}
        for node in topological(last):
            inputs = {leaf.node for leaf in (*node.inputs(), *node.inside())}
            found = frozenset(one for n in inputs for one in used.get(n, ()))
            used[node] = used.get(node, found)
        reached = [one for leaf in last for one in used[leaf.node]]
        if len(reached) == len({*reached}):
            raise _NotSplit

    def _put(self, node: Node, made: Sequence[Node]) -> None:
        for leaf in node.leaves:
            self.planes[leaf] = [one.leaf(leaf.component) for one in made]
            self.leaves[leaf] = self.planes[leaf][0]  # so that its readers are rebuilt

    def _without(self, shape: Shape, node: Node) -> Shape:
        axis = self.axes[node]
        return (*shape[:axis], *shape[axis + 1 :])

    def _plane(self, node: Generate, k: int) -> Node:
        axis = self.axes[node]
        here: dict[Expr, Expr] = {ex.Index(axis): ex.constant(k)}
        here.update((ex.Index(a), ex.Index(a - 1)) for a in range(axis + 1, len(node.shape)))
        return node.with_(
            shape=self.exprs(self._without(node.shape, node)),
            elements=self.exprs(ex.substitute(node.elements, here)),
            checks=self.field(node.checks),
        )

    def _take(self, node: Node) -> None:
        if isinstance(node, Fold) and any(
            read.node in self.axes and not isinstance(read.args[self.axes[read.node]], ex.Const)
            for read in ex.walk(node.elements)
            if isinstance(read, ex.Read)
        ):
            made = self.node(unrolled(node))
        else:
            made = self.node(node)
        if made is not node:
            self.nodes[node] = made

    def _read(self, e: Expr) -> Expr:
        if not isinstance(e, ex.Read) or e.node not in self.axes:
            return super()._read(chosen(e))
        axis, parts = self.axes[e.node], self.planes[Leaf(e.node, e.component)]
        index = e.args[axis]
        assert isinstance(index, ex.Const)
        # (An index out of range is in a side of a `cond` that is not taken.)
        part = parts[min(max(int(index.value), 0), len(parts) - 1)]
        args = (*e.args[:axis], *e.args[axis + 1 :])
        return ex.Read(part.node, part.component, args, e.boundary, e.scoped, e.vars)


class _States(_Planes):
    """A loop whose states are split."""

    def __init__(self, loop: ArrayLoop, nodes: Sequence[Node], seeds: Sequence[int]) -> None:
        super().__init__(nodes, loop.varying(nodes))
        self.loop = loop
        self.ends = {leaf.node for leaf in loop.body}
        if loop.predicate is not None:
            self.whole.add(loop.predicate.node)
        for k in seeds:
            self._split(loop.state[k], _joined_axis(loop.body[k]))
        self._spread()
        self._require_split()
        if any((leaf.node in self.axes) != (state in self.axes)
               for leaf, state in zip(loop.body, loop.state, strict=True)):  # fmt: skip
            raise _NotSplit

    def _follow(self, node: Node, axis: int) -> None:
        for leaf, state in zip(self.loop.body, self.loop.state, strict=True):
            if node is state and isinstance(leaf.node, Generate | Input):
                self._split(leaf.node, axis)
            elif leaf.node is node:
                self._split(state, axis)

    def results(self) -> list[Leaf]:
        loop = self.loop
        states: list[Input] = []
        init: list[Leaf] = []
        for state, first in zip(loop.state, loop.init, strict=True):
            if state not in self.axes:
                states.append(state)
                init.append(first)
                continue
            made = [self._state(state, k) for k in range(self._size(state))]
            self._put(state, made)
            states += made
            init += [self._first(state, first, k) for k in range(len(made))]
        self.rebuild()
        body = [one for leaf in loop.body for one in self.planes.get(leaf, [self.leaf(leaf)])]
        predicate = None if loop.predicate is None else self.leaf(loop.predicate)
        split = loop.with_(state=tuple(states), init=tuple(init), body=tuple(body),
                           predicate=predicate)  # fmt: skip
        self._require_shared(
            [state for state in states if state not in loop.state],
            [leaf for leaf, state in zip(body, states, strict=True)
             if state not in loop.state and leaf.node not in states],
        )  # fmt: skip
        results, next_ = [], 0
        for k, state in enumerate(loop.state):
            size = self._size(state) if state in self.axes else 1
            parts = [split.leaf(next_ + p) for p in range(size)]
            next_ += size
            if state in self.axes:
                shape = loop.outputs[k].shape
                results.append(_stack(parts, self.axes[state], shape, loop.where))
            else:
                results += parts
        return results

    def _state(self, state: Input, k: int) -> Input:
        shape = self._without(state.shape, state)
        made = Input(f"{state.name}[{k}]", state.type, (False,) * len(shape), state.kind,
                     where=state.where)  # fmt: skip
        return made.of_shape(shape)

    def _first(self, state: Input, first: Leaf, k: int) -> Leaf:
        """Part `k` of the stack that is the initial value of a state."""
        axis, rank = self.axes[state], len(first.shape)
        index = [ex.Index(a) for a in range(rank - 1)]
        element = first.at(*index[:axis], ex.constant(k), *index[axis:])
        made = Generate(self._without(first.shape, state), (element,), label=Label("slice"),
                        where=self.loop.where)  # fmt: skip
        return made.leaf()


class _Joined(_Planes):
    """The computations on a joined array, up to a root that joins the results again."""

    def __init__(self, roots: Sequence[Leaf], nodes: Sequence[Node], node: Node, axis: int) -> None:
        super().__init__(nodes, {*nodes})
        inner = {*topological(roots)} - self.inside  # of loops and branches
        self.whole |= {leaf.node for n in inner for leaf in n.inputs()}
        self.roots, self.joined = roots, node
        self.ends = {leaf.node for leaf in roots}
        self._split(node, axis)
        self._spread()
        self._require_split()

    def results(self) -> list[Leaf]:
        ends = [leaf for leaf in dict.fromkeys(self.roots) if leaf.node in self.axes]
        if len(ends) != 1:
            raise _NotSplit
        self.rebuild()
        (end,) = ends
        first = [part.node for leaf in self.joined.leaves for part in self.planes[leaf]]
        self._require_shared(first, self.planes[end])
        made = _stack(self.planes[end], self.axes[end.node], end.shape, end.node.where)
        return [made if leaf == end else self.leaf(leaf) for leaf in self.roots]


def _size(extent: Expr) -> int:
    size = known(extent)
    if size is None:
        raise _NotSplit
    return int(size)


def _unrolls(node: Fold) -> bool:
    return is_plain(node) and identities(node.combine) is not None and (
        2 <= _size(node.inner[0]) <= LONGEST)  # fmt: skip


def _index_of(e: Expr) -> int | None:
    """The only domain axis on which an index depends; None if it depends on anything else."""
    leaves = [x for x in ex.walk((e,)) if not x.args]
    axes = {x.axis for x in leaves if isinstance(x, ex.Index)}
    if len(axes) != 1 or any(isinstance(x, ex.Read | ex.Var) for x in ex.walk((e,))):
        return None
    return axes.pop()


def _at_each(index: Expr, axis: int, size: int) -> list[Expr]:
    return [ex.substitute((index,), {ex.Index(axis): ex.constant(k)})[0] for k in range(size)]


def places(node: Node, axis: int) -> set[Expr]:
    """The constants that elements compare with their index along an axis."""
    return {
        e.args[1]
        for e in ex.walk(node.bodies())
        if isinstance(e, ex.Apply) and e.op.name in COMPARISONS and e.args[0] is ex.Index(axis)
        if isinstance(e.args[1], ex.Const)
    }


def _joined_axis(leaf: Leaf) -> int | None:
    """The short axis along which an array is computed part by part, or from such arrays."""
    every: tuple[int | None, ...] = tuple(range(len(leaf.shape)))
    waiting, seen = [(leaf.node, every)], {leaf.node}
    for node, axes in waiting:
        if type(node) is not Generate:
            continue
        for own, axis in enumerate(axes):
            if axis is not None and known(node.shape[own]) in range(2, LONGEST + 1):
                if len(places(node, own)) >= int(known(node.shape[own])) - 1:
                    return axis
        for e in ex.reading(node.elements):
            if e.node not in seen:
                seen.add(e.node)
                of: dict[Expr, int | None] = {ex.Index(own): axis for own, axis in enumerate(axes)}
                waiting.append((e.node, tuple(of.get(a) for a in e.args)))
    return None


def _stack(parts: Sequence[Leaf], axis: int, shape: Shape, where: Location | None) -> Leaf:
    index = tuple(ex.Index(a) for a in range(len(shape)) if a != axis)

    def element(low: int, high: int) -> Expr:
        if high - low == 1:
            return parts[low].at(*index)
        half = (low + high) // 2
        before = apply_primitive("less", [ex.Index(axis), ex.constant(half)])
        return ex.Proj(ex.Cond(before, (element(low, half),), (element(half, high),)), 0)

    made = Generate(shape, (element(0, len(parts)),), label=Label("stack"), where=where)
    return made.leaf()
