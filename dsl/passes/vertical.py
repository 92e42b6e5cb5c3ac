"""fuse_vertical: inlines producers into their consumers.

A `Generate` is inlined where its elements are read, if that costs no more than writing it to memory
and reading it back (cost.py); the decision and its reason are kept for `explain()`.  Never inlined:
results of the program, arrays that are used as a whole (defaults of a permute, operands of
libraries and loops), arrays whose elements data-dependent checks guard, operations with a schedule,
and loop-invariant work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from .. import expr as ex, graph
from ..analysis.borders import is_zero, zero_beyond
from ..analysis.bounds import is_counter
from ..analysis.regions import changes_with, nested, regions
from ..expr import Expr, reads
from ..graph import Leaf, Node
from ..graphs.rebuild import Rebuilder
from ..operations.stencils import resolve_index, resolve_read
from ..simplify import chosen
from . import cost, operands
from .base import Context, Fused
from .repeats import FAR, GATHERED, counters, times_read
from .rows import reads_rows, row_axes
from .tested import keeps_tests

#: The most operations, arrays and conditions of a kernel, unless a single operation has more.
#: Producers that would exceed them are stored.
LARGEST = 6000
MOST_ARRAYS = 64
MOST_CONDITIONS = 32
#: The most conditions if rows are not divided into parts (`lower/elementwise/parts.py`), so that
#: every element evaluates all of them: LLVM's compile time grows faster than their number.
MOST_UNDIVIDED = 8
#: The most kernels that recompute work shared by rows; if there are more, it is stored.
MOST_ROW_READERS = 3
#: The number of neighbours, with indices that wrap around or are mirrored, from which an array is
#: stored for a fold: a CPU divides the elements of a map into border and interior, but resolves the
#: indices of a fold for every element.
RESOLVED = 2
#: A transposed view is stored if a stencil on a CPU reads its elements more often than this.  (On
#: an H200 five neighbours in 4 096² take 67 µs read across, 73 with a stored copy.)
TRANSPOSED = 2


@dataclass
class Uses:
    """The uses of one node."""

    whole: str | None = None
    reads: dict[tuple[Node, ex.Read], float] = field(default_factory=dict)
    by_matmul: bool = False
    by_view: bool = False  # by a matrix product through a view, and by other readers
    products: frozenset[graph.Matmul] = frozenset()  # readers, directly or through views
    by_products: bool = False  # all readers are products
    by_stencil: bool = False
    by_other_region: bool = False
    times: float = 0.0  # evaluations of an element, were it inlined
    gathered: bool = False


def find_uses(roots: Sequence[Leaf], gpu: bool = False) -> dict[Node, Uses]:
    """The uses of every node, by other nodes and as results; `gpu` as for `times_read`."""
    uses: dict[Node, Uses] = {}
    region, inside = regions(roots), nested(roots)

    def of(node: Node) -> Uses:
        return uses.setdefault(node, Uses())

    for leaf in roots:
        of(leaf.node).whole = "it is a result"
    for node in graph.topological(roots):
        for leaf in node.operands():
            of(leaf.node).whole = f"{node.label} uses it whole"
        if isinstance(node, graph.ArrayLoop):
            for leaf in node.inner_roots():
                of(leaf.node).whole = "it is the state of a loop"
        elif isinstance(node, graph.Branch):
            for leaf in (*node.then, *node.other):
                of(leaf.node).whole = "it is a side of a cond"
        hosts = [e for o in node.outputs for e in o.shape]
        hosts += [e for c in node.checks for e in (c.left, c.right)]
        if isinstance(node, graph.Fold):
            hosts += node.inner
        for group in (getattr(node, "init", None), getattr(node, "domain", None)):
            if isinstance(group, tuple) and group and isinstance(group[0], Expr):
                hosts += group
        for name in ("k", "extent", "count", "predicate"):
            value = getattr(node, name, None)
            if isinstance(value, Expr):
                hosts.append(value)
        for e in ex.reading(hosts):
            of(e.node).whole = "the host needs its value"
        over = node.iteration_space()
        combine = getattr(node, "combine", None)
        bodies = node.per_element() + (combine.results if combine is not None else ())
        bodies += node.start if isinstance(node, graph.Recurrence) else ()
        bodies += node.epilogue if isinstance(node, graph.Matmul) else ()
        if isinstance(node, graph.FoldingMatmul):
            bodies += (*node.elements, *node.finish)
        loops = counters(bodies)
        for e in ex.reading(bodies):
            use = of(e.node)
            times = times_read(e.args, over, loops, gpu)
            use.reads[(node, e)] = min((2.0 if isinstance(node, graph.Scan) else 1.0) * times, FAR)
            use.gathered |= times == GATHERED and any(map(reads, e.args))
            use.by_matmul |= isinstance(node, graph.Matmul)
            use.by_stencil |= e.boundary is not None
            use.by_other_region |= not changes_with(e.node, node, region, inside)
    _join_readers(roots, uses)
    _look_through_views(roots, uses)
    return uses


def _look_through_views(roots: Sequence[Leaf], uses: dict[Node, Uses]) -> None:
    """Find arrays that products read through views and that others read, too: the products then
    read the array that is stored, instead of each view being stored."""
    for node in reversed(list(graph.topological(roots))):
        use = uses.get(node)
        if use is None or not isinstance(node, graph.Generate):
            continue
        readers = {reader for reader, _ in use.reads}
        views = [r for r in readers if isinstance(r, graph.Generate) and cost.is_view(r.elements)]
        if len(readers) > 1:
            use.by_view = any(r in uses and (uses[r].by_matmul or uses[r].by_view) for r in views)
        through = [uses[r] for r in views if r in uses and cost.is_affine_view(r.elements)
                   and not r.label.ordered]  # fmt: skip
        products = {r for r in readers if isinstance(r, graph.Matmul)}
        use.products = frozenset(products.union(*(u.products for u in through)))
        use.by_products = use.whole is None and all(u.by_products for u in through)
        use.by_products &= len(products) + len(through) == len(readers)


def _join_readers(roots: Sequence[Leaf], uses: dict[Node, Uses]) -> None:
    """Merge readers that end up in one kernel, at one index, which computes an element once:
    `sqrt(b) + b` is one use of b.  Runs from consumers to producers, so that the kernels of all
    readers are known."""
    owners: dict[Node, Node] = {}  # node inlined at its reader's own index → its kernel
    for node in reversed(list(graph.topological(roots))):
        use = uses.get(node)
        if use is None:
            continue
        joined: dict[tuple[Node, tuple[Expr, ...], str | None], float] = {}
        identical = True
        for (reader, e), factor in use.reads.items():
            key = (owners.get(reader, reader), e.args, e.boundary)
            joined[key] = max(factor, joined.get(key, 0.0))
            identical = identical and graph.is_identity_read(e, len(reader.iteration_space()))
        use.times = _most_often([(args, times) for (_, args, _), times in joined.items()])
        alone = identical and len(joined) == 1 and use.times <= 1
        free = not (use.whole or use.by_matmul or use.by_other_region)
        free = free and not node.label.ordered
        if alone and free and isinstance(node, graph.Generate) and not checked_by_data(node):
            ((owner, _, _),) = joined
            owners[node] = owner


def _most_often(reads: Sequence[tuple[tuple[Expr, ...], float]]) -> float:
    """How often an element is used by reads at these indices, each with its multiplicity.  Reads at
    different constants along an axis, such as `a[i, 0]` and `a[i, 1]`, use different elements."""
    # (Components of nodes other than `Generate` may have different ranks.)
    fixed = [k for k, at in enumerate(zip(*(args for args, _ in reads), strict=False))
             if all(isinstance(e, ex.Const) for e in at)]  # fmt: skip
    found: dict[tuple[Expr, ...], float] = {}
    for args, times in reads:
        index = tuple(args[k] for k in fixed)
        found[index] = found.get(index, 0.0) + times
    return max(found.values(), default=0.0)


def times_resolved(node: Node, uses: dict[Node, Uses]) -> float:
    """How often elements of a view are read at indices that a CPU must resolve each time: at a loop
    counter, or at an offset known only at run time.  (For constant offsets it divides the elements
    into the border and the interior, where indices need no resolving.)"""
    found, stack, seen = 0.0, [node], {node}
    while stack:
        use = uses.get(stack.pop())
        for (reader, e), times in use.reads.items() if use is not None else ():
            if any(map(_moves, e.args)):
                found += times
            elif isinstance(reader, graph.Generate) and reader not in seen:
                seen.add(reader)
                if cost.is_view(reader.elements):
                    stack.append(reader)
    return found


def _moves(index: Expr) -> bool:
    """Whether an index is more than a reader's index plus a term equal for all elements."""
    inside = ex.walk((index,))
    own = [x for x in inside if isinstance(x, ex.Index)]
    if not own or index is own[0]:
        return False
    return (
        len(own) > 1
        or any(isinstance(x, ex.Read | ex.Var) for x in inside)
        or not (isinstance(index, ex.Apply) and index.op.name in ("add", "subtract"))
    )


def checked_by_data(node: Node) -> bool:
    """Whether checks that read arrays guard the elements.  Checks of the node's own extents do not
    count: an array of negative extent reads nothing."""
    read = ex.reading(e for c in node.checks for e in (c.left, c.right))
    own = ex.reading(e for o in node.outputs for e in o.shape) if read else ()
    return not set(read) <= set(own)


def _why_not_loaded(node: graph.Generate, use: Uses, body: tuple[Expr, ...], loads: frozenset[str],
                    full: str | None) -> str | None:  # fmt: skip
    """None if a product computes elements while it loads them, on a backend that does so for the
    types `loads`: elements that nothing else reads, once per operand; broadcast elements, for
    several products; and, beside other readers that also recompute them, elements that cost less
    than a round trip through memory."""
    if not use.products or use.by_other_region:
        return "a matrix product reads every element many times"
    batched = all(p.batch for p in use.products)
    alone = use.by_products and use.by_matmul and len({reader for reader, _ in use.reads}) == 1
    others = sum(n for (reader, _), n in use.reads.items() if not isinstance(reader, graph.Matmul))
    again = (cost.operations(body) + 2 * cost.loads(body)) * others
    if not use.by_products and (full is not None or again > cost.ROUND_TRIP):
        return "a matrix product reads every element many times"
    types = (operands.BATCHED if batched else operands.ENGINES) if alone else frozenset()
    if batched and operands.is_broadcast(body, len(node.shape)):
        types |= operands.BROADCAST
    if node.outputs[0].type.name not in types & loads:
        return "a matrix product reads every element many times"
    return operands.why_not(body, len(node.shape))


def decide(node: Node, use: Uses, body: tuple[Expr, ...],
           loads: frozenset[str] = frozenset(), checked: bool = False,
           transposes: bool = False, full: str | None = None,
           resolved: float = 0.0) -> str | None:  # fmt: skip
    """None to inline `node`, else the reason why it is stored in memory.

    `body`: its elements after inlining into them, that is, what a reader would recompute.
    `resolved`: `times_resolved` on a CPU.  `loads`: types whose products may compute light operands
    while loading them.  `checked`: every index is tested.  `transposes`: stencils get rows that are
    contiguous as read.  `full`: why a kernel that reads it has no room for it.
    """
    if not isinstance(node, graph.Generate):
        return "its results are known only when it has finished"
    if use.whole is not None:
        return use.whole
    if node.label.ordered:
        return "it has a schedule of its own"
    if checked_by_data(node):
        return "its elements are checked first"
    if checked and not keeps_tests(body, node.shape, use.reads):
        return "its indices are tested, and not all where it is read (check=True)"
    view, times = cost.is_view(body), use.times
    across = view and use.by_stencil and cost.crosses_rows(body, len(node.shape))
    if transposes and across and times > TRANSPOSED:
        return "a stencil reads its rows several times, and they lie across those of its array"
    if (
        transposes
        and not view
        and all(isinstance(reader, graph.Fold) for reader, _ in use.reads)
        and (_resolved(body) >= RESOLVED)
    ):
        return "a fold would resolve the indices of its neighbours for every element"
    if view and resolved:
        again = cost.resolving(body, len(node.shape)) * resolved
        if again and use.by_other_region:
            return "it does not change in the loop that reads it, and has indices to resolve"
        if again > cost.ROUND_TRIP:
            return (
                f"it is read {resolved:,.0f} time{'s' * (resolved != 1)} where every index would "
                f"be resolved: {again:,.0f} operations an element, a round trip through memory "
                f"{cost.ROUND_TRIP:.0f}"
            )
    if use.by_matmul and not (view and cost.is_affine_view(body)):
        return _why_not_loaded(node, use, body, loads, full)
    if use.products and not view and _why_not_loaded(node, use, body, loads, full) is None:
        return None
    if not cost.is_selection(body) and (axes := row_axes(body, node.shape)) is not None:
        if not all(reads_rows(reader, e, axes) for reader, e in use.reads):
            return "the elements of a row share work, and its reader does not compute whole rows"
    if view or (times <= 1 and full is None and not use.by_other_region):
        return None
    if full is None and not use.by_other_region and _shared_by_rows(node, use, body):
        return None
    if cost.is_formula(body):
        return None
    if use.by_view:
        return "a matrix product reads it through a view, which would be stored in its place"
    if use.by_other_region:
        return "it does not change in the loop that reads it"
    if full is not None:
        return full
    work, reads = cost.operations(body), cost.loads(body)
    again = work * (times - 1) + 2 * max(reads - 1, 0) * times
    if use.gathered and times < FAR and len({reader for reader, _ in use.reads}) == 1:
        again += cost.GATHER * (cost.arrays(body) - 1) * times
    if again <= cost.ROUND_TRIP:
        return None
    if times >= FAR:
        if not work:
            indices = [i for e in ex.walk(body) if isinstance(e, ex.Read) for i in e.args]
            data = any(isinstance(i, ex.Read) and not is_counter(i) for i in ex.walk(indices))
            where = "depends on data" if data else "changes with each iteration"
            return f"every element of a larger domain reads it, and where it reads {where}"
        return (
            "every element of a larger domain reads it: each would compute it again, by "
            f"{work:,.0f} operation{'s' * (work != 1)}"
        )
    if use.gathered:
        return (
            "it is read where data says, an element perhaps often: each time it would be computed "
            f"again, by {work:,.0f} operations, a round trip through memory {cost.ROUND_TRIP:.0f}"
        )
    return (
        f"it is read {times:.0f} times: computing it again would cost {again:,.0f} operations an "
        f"element, a round trip through memory {cost.ROUND_TRIP:.0f}"
    )


def _resolved(body: tuple[Expr, ...]) -> int:
    """The number of different indices that wrap around or are mirrored."""
    found: set[Expr] = set()
    for e in ex.reading(body):
        around = e.boundary in ("wrap", "mirror", "symmetric")
        for a in e.args:
            moved = isinstance(a, ex.Apply) and any(isinstance(x, ex.Index) for x in ex.walk((a,)))
            if moved and (around or a.op.name == "remainder"):  # type: ignore[attr-defined]
                found.add(a)
    return len(found)


def _shared_by_rows(node: graph.Generate, use: Uses, body: tuple[Expr, ...]) -> bool:
    """Whether few readers compute rows (`rows.py`) of which each uses one element of `node`."""
    readers = {reader for reader, _ in use.reads}
    if len(readers) > MOST_ROW_READERS:
        return False
    axes, work = len(node.shape), cost.operations(body)
    return all(reads_rows(reader, e, axes, work) for reader, e in use.reads)


def _apart(body: tuple[Expr, ...], args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """`body` with its loop variables renamed if `args` contain the same loops, as for an element
    whose index is computed from elements of the same array."""
    found = ex.walk([a for a in args if a.scopes])
    there = {v for e in found if isinstance(e, ex.BINDERS) for v in e.vars}
    if not there:
        return body
    own = dict.fromkeys(v for e in ex.walk(body) if isinstance(e, ex.BINDERS) for v in e.vars)
    renamed: dict[Expr, Expr] = {v: ex.Var(v.name, v.type) for v in own if v in there}
    if not renamed:
        return body

    def bound(e: Expr) -> Expr:
        if not isinstance(e, ex.BINDERS) or not any(v in renamed for v in e.vars):
            return e
        return e.over(tuple(cast(ex.Var, renamed.get(v, v)) for v in e.vars))

    return ex.rewrite(body, bound, dict(renamed))


class Inliner:
    """Expands reads of inlined nodes; expansions are shared by (node, component, indices)."""

    def __init__(self) -> None:
        self.bodies: dict[Node, tuple[Expr, ...]] = {}
        self.memo: dict[Expr, Expr] = {}
        self.at: dict[tuple[Node, tuple[Expr, ...]], tuple[Expr, ...]] = {}

    def expand(self, e: Expr) -> Expr:
        if not isinstance(e, ex.Read) or e.node not in self.bodies:
            return e
        node = e.node
        if e.boundary is not None:
            moved = self._with_boundary(e)
            if moved is not None:
                return moved
            return ex.rewrite((resolve_read(e),), self.expand)[0]
        return self._body_at(node, e.args)[e.component]

    def _body_at(self, node: Node, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        found = self.at.get((node, args))
        if found is None:
            mapping: dict[Expr, Expr] = {
                ex.Index(k): a for k, a in enumerate(args) if a is not ex.Index(k)
            }
            found = _apart(self.bodies[node], args)
            found = ex.rewrite(found, chosen, dict(mapping)) if mapping else found
            self.at[(node, args)] = found
        return found

    def without_needless_boundaries(self, es: tuple[Expr, ...], node: graph.Generate
                                    ) -> tuple[Expr, ...]:  # fmt: skip
        """`es` without the boundary of inlined reads along an axis that is read at its own index
        and has the node's extent, as at the centre of a stencil: such an index is always in range,
        and stays readable."""

        def change(e: Expr) -> Expr:
            if not isinstance(e, ex.Read) or e.boundary is None or e.node not in self.bodies:
                return e
            shape = e.node.outputs[e.component].shape
            moving = [
                k for k, (i, n) in enumerate(zip(e.args, shape, strict=True))
                if not (isinstance(i, ex.Index) and i.axis < len(node.shape)
                        and n is node.shape[i.axis])
            ]  # fmt: skip
            if len(moving) == len(shape) or (moving and e.boundary in ("constant", "function")):
                return e
            if self._with_boundary(e) is not None:
                return e
            index = list(e.args)
            for k in moving:
                index[k] = resolve_index(str(e.boundary), index[k], shape[k])
            return ex.Read(e.node, e.component, tuple(index))

        return ex.rewrite(es, change, into=reads)

    def _with_boundary(self, e: ex.Read) -> Expr | None:
        """A boundary commutes with an element-wise producer whose inputs have its shape; zeros
        beyond an array, if they make its elements 0."""
        body = self.bodies[e.node][e.component]
        shape = e.node.outputs[e.component].shape
        if e.boundary == "constant" and is_zero(e.scoped[0]):
            inside, axes = zero_beyond(body, shape, range(len(shape)), e.args, signed=True)
            if len(axes) < len(shape):
                return None
            mapping: dict[Expr, Expr] = dict(zip(graph.indices(len(shape)), e.args, strict=True))
            return ex.substitute(_apart((inside,), e.args), mapping)[0]
        if e.boundary in ("constant", "function"):
            return None
        rank = len(shape)
        for x in ex.walk((body,)):
            if isinstance(x, ex.Read):
                if (
                    not graph.is_identity_read(x, rank)
                    or x.node.outputs[x.component].shape != shape
                ):
                    return None
        if any(
            isinstance(x, ex.Index) for x in ex.walk((body,), lambda x: not isinstance(x, ex.Read))
        ):
            return None  # the body uses an index other than to index its reads

        def move(x: Expr) -> Expr:
            if isinstance(x, ex.Read):
                return ex.Read(x.node, x.component, e.args, e.boundary)
            return x

        return ex.rewrite((body,), move)[0]


def fuse_vertical(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with cheap or once-used producers inside their consumers."""
    uses = find_uses(roots, context.target.gpu)
    engine = context.target.gpu and not context.settings.check
    every = operands.ENGINES | operands.BATCHED | operands.BROADCAST
    loads = every if engine else frozenset()
    transposes = not context.target.gpu
    builder, inliner = Rebuilder(), Inliner()
    taken = _Taken()
    for node in graph.topological(roots):
        use = uses.get(node)
        readers = [] if use is None else list(dict.fromkeys(reader for reader, _ in use.reads))
        if isinstance(node, graph.Input):
            builder.take(node)
            taken.store(node, readers)
            continue
        made = builder.node(node)
        changes, eaten = _expand_fields(made, inliner)
        inside = taken.into(node, node.per_element())
        body: tuple[Expr, ...] = changes.get("elements", getattr(made, "elements", ()))
        reason = "it is unused" if use is None else decide(
            made, use, body, loads, context.settings.check, transposes,
            taken.full(inside, readers),
            times_resolved(node, uses) if transposes and cost.is_view(body) else 0.0)  # fmt: skip
        if reason is None and use is not None and not use.reads:
            reason = "its readers need it whole"
        if reason is None:  # never emitted: its readers compute the elements
            inliner.bodies[made] = body
            taken.keep(made, eaten, inside, readers)
            builder.replace(node, made)
            continue
        if eaten:
            checks, fused = taken.of(made, eaten)
            changes.update(checks=checks, fused=fused)
        final = made.with_(**changes) if changes else made
        if final is not node:
            builder.nodes[node] = final
        if use is not None and _is_known_beside(final, use, body, context):
            inliner.bodies[final] = body
            taken.keep(final, [], inside, readers)
        else:
            taken.store(node, readers)
        context.kept[final] = reason
        if isinstance(made, graph.Recurrence):
            parts = context.inlined.get(node, {})
            keys = ex.rewrite(builder.exprs(tuple(parts)), inliner.expand, inliner.memo)
            context.inlined[final] = dict(zip(keys, parts.values(), strict=True)) | {
                inliner.memo[e]: taken.labels(e.node)
                for e in ex.reading((*made.start, *made.per_element()))
                if e.node in inliner.bodies
            }
    return [_original(builder.leaf(r), context) for r in roots]


def _original(leaf: Leaf, context: Context) -> Leaf:
    """The kernel's array that a result copies, if any: it becomes the result itself."""
    node = leaf.node
    asked = node.label.name is not None or node.label.schedule is not None
    if type(node) is not graph.Generate or asked or context.settings.check:
        return leaf
    e = node.elements[leaf.component]
    if not graph.is_identity_read(e, len(node.shape)):
        return leaf
    assert isinstance(e, ex.Read)
    known = (
        isinstance(e.node, graph.Generate | graph.Fold | graph.Matmul)
        and type(e.node) is not graph.Memory
    )
    same = Leaf(e.node, e.component).shape == node.shape
    return Leaf(e.node, e.component) if known and same and not node.checks else leaf


def _is_known_beside(node: Node, use: Uses, body: tuple[Expr, ...], context: Context) -> bool:
    """Whether an array is stored because some reader needs it whole, such as a loop that starts
    with zeros, while readers of elements compute them: constants, or a formula of the index."""
    return (
        isinstance(node, graph.Generate)
        and use.whole is not None
        and bool(use.reads)
        and not use.by_matmul  # it reads operands in memory
        and not (node.label.ordered or context.settings.check or checked_by_data(node))
        and not any(isinstance(e, ex.Read) for e in ex.walk(body))
        and cost.is_formula(body)
    )


class _Inside:
    """The contents of a kernel: operations (each once), arrays read, and conditions."""

    __slots__ = ("arrays", "conditions", "members", "operations")

    def __init__(self) -> None:
        self.members: dict[Node, tuple[int, int, int]] = {}
        self.operations = self.arrays = self.conditions = 0

    def add(self, node: Node, own: tuple[int, int, int]) -> None:
        if node not in self.members:
            self.members[node] = own
            self.operations += own[0]
            self.arrays += own[1]
            self.conditions += own[2]

    def copy(self) -> _Inside:
        made = _Inside()
        made.members = dict(self.members)
        made.operations, made.arrays = self.operations, self.arrays
        made.conditions = self.conditions
        return made

    def joined(self, other: _Inside) -> _Inside:
        """The union; may reuse either operand."""
        small, large = sorted((self, other), key=lambda inside: len(inside.members))
        for node, own in small.members.items():
            large.add(node, own)
        return large

    def with_(self, other: _Inside) -> tuple[int, int, int]:
        small, large = sorted((self, other), key=lambda inside: len(inside.members))
        new = [own for node, own in small.members.items() if node not in large.members]
        here = (large.operations, large.arrays, large.conditions)
        return tuple(map(sum, zip(here, *new, strict=True)))  # type: ignore[return-value]


class _Taken:
    """The contents of kernels: the checks and labels of inlined operations, and their sizes."""

    def __init__(self) -> None:
        self.producers: dict[Node, list[Node]] = {}
        self.inside: dict[Node, _Inside] = {}  # contents of nodes that come later
        self.conditions: dict[Node, int] = {}

    def into(self, node: Node, bodies: Sequence[Expr]) -> _Inside:
        inside = self.inside.pop(node, None) or _Inside()
        conditions = operations = 0
        for e in ex.walk(bodies, ex.no_common_sum):
            operations += 1
            conditions += isinstance(e, ex.Cond)
        inside.add(node, (len(bodies) + operations, 0, conditions))
        return inside

    def store(self, node: Node, readers: Iterable[Node]) -> None:
        """Record that `readers` read a node from memory."""
        for reader in readers:
            self.inside.setdefault(reader, _Inside()).add(node, (0, 1, 0))

    def full(self, inside: _Inside, readers: Iterable[Node]) -> str | None:
        """Why one of `readers` lacks room for these contents; stored, they are one array."""
        for reader in readers:
            there = self.inside.get(reader, _Inside())
            operations, arrays, conditions = there.with_(inside)
            if operations > LARGEST:
                return f"the fused kernel would exceed {LARGEST} operations"
            if arrays > max(MOST_ARRAYS, there.arrays + 1):
                return f"the fused kernel would read more than {MOST_ARRAYS} arrays"
            own = self._conditions(reader)
            divided = isinstance(reader, graph.Generate)
            bound = MOST_CONDITIONS if divided else MOST_UNDIVIDED
            most = max(bound, own, *((there.conditions, inside.conditions) if divided else ()))
            if own + conditions > most:
                return f"the fused kernel would exceed {bound} conditions"
        return None

    def _conditions(self, node: Node) -> int:
        if node not in self.conditions:
            bodies = [e for e in node.per_element() if e.scopes]
            found = ex.walk(bodies, ex.no_common_sum)
            self.conditions[node] = sum(isinstance(e, ex.Cond) for e in found)
        return self.conditions[node]

    def keep(self, node: Node, eaten: list[Node], inside: _Inside, readers: Sequence[Node]) -> None:
        self.producers[node] = eaten
        *others, last = readers
        for reader in others:
            self._join(reader, inside.copy())
        self._join(last, inside)  # passed on, not copied

    def _join(self, reader: Node, inside: _Inside) -> None:
        there = self.inside.get(reader)
        self.inside[reader] = inside if there is None else there.joined(inside)

    def labels(self, node: Node) -> Fused:
        """The label of an inlined operation, and of those inlined into it."""
        return ((node.label, node.where), *self.of(node, self.producers[node])[1])

    def of(self, node: Node, eaten: list[Node]) -> tuple[tuple[graph.Check, ...], Fused]:
        """The checks of a kernel, in the order of its operations, so that the first failing check
        is the first one written; and fused labels: its own, then its producers', depth first."""
        checks, fused = dict[graph.Check, None](), dict.fromkeys(node.fused)
        stack, seen = [(p, False) for p in reversed(eaten)], set[Node]()
        while stack:
            producer, ready = stack.pop()
            if ready:
                checks.update(dict.fromkeys(producer.checks))
                continue
            if producer in seen:
                continue
            seen.add(producer)
            fused[(producer.label, producer.where)] = None
            fused.update(dict.fromkeys(producer.fused))
            stack.append((producer, True))
            stack += [(p, False) for p in reversed(self.producers[producer])]
        checks.update(dict.fromkeys(node.checks))
        return tuple(checks), tuple(fused)


def _expand_fields(node: Node, inliner: Inliner) -> tuple[dict[str, Any], list[Node]]:
    """The element fields of `node` with inlined reads expanded, and the inlined nodes."""
    changes: dict[str, Any] = {}
    eaten: dict[Node, None] = {}

    def expand(es: tuple[Expr, ...]) -> tuple[Expr, ...]:
        inlined = [e for e in ex.reading(es) if e.node in inliner.bodies]
        eaten.update((e.node, None) for e in inlined)
        if not inlined:
            return es
        if isinstance(node, graph.Generate) and any(e.boundary is not None for e in inlined):
            es = inliner.without_needless_boundaries(es, node)
        return ex.rewrite(es, inliner.expand, inliner.memo)

    for name in (*node.computed, "predicate"):
        value = getattr(node, name, None)
        if isinstance(value, Expr):
            made = expand((value,))[0]
            if made is not value:
                changes[name] = made
        elif isinstance(value, tuple) and value and isinstance(value[0], Expr):
            many = expand(value)
            if many != value:
                changes[name] = many
    combine = getattr(node, "combine", None)
    if combine is not None:
        results = expand(combine.results)
        if results != combine.results:
            changes["combine"] = type(combine)(combine.left, combine.right, results)
    return changes, list(eaten)
