"""recognise_convolution: a product with windows of an array becomes a sum over the axes of a
window.

    tensordot(windows, w, axes=3)   →   Σ over p, q, c of x[b, i + p, j + q, c]·w[p, q, c, o]

The matrix of windows, which contains every element many times, is then not stored.  A CPU computes
such sums by loops (`short_folds.deep_folds`), or as a product again where that is faster
(`contracted`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..analysis.borders import is_zero
from ..analysis.combines import simple_combine
from ..analysis.polynomial import affine, variables
from ..expr import Apply, Const, Expr, Index, Read, constant, substitute, walk
from ..graph import Combine, Fold, Generate, Label, Leaf, Matmul, Node, Shape, indices, topological
from ..graphs.rebuild import Rebuilder
from ..operations.algebra.products import MatmulOptions
from ..operations.indexing.index_space import reshaped, reshaped_index
from ..operations.indexing.row_major import minus, plus, product, times
from ..operations.stencils import resolve_read
from ..scalar import apply_primitive
from .base import Context


def recognise_convolution(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    settings = context.settings
    unchanged = context.target.gpu or settings.check or settings.deterministic
    if unchanged or not settings.recognise:
        return list(roots)
    nodes = list(topological(roots))
    if not any(isinstance(node, Matmul) for node in nodes):
        return list(roots)
    builder, sums = Rebuilder(), dict[Node, Leaf]()
    for node in nodes:
        made = builder.node(node)
        summed = sum_over_windows(made) if isinstance(made, Matmul) else None
        if summed is not None:
            context.notes.append(f"{made.label}: a product with windows of an array is a sum")
            leaf = summed.leaf()
            shape = made.outputs[0].shape
            at = leaf.at(*reshaped_index(leaf.shape, shape))
            made = Generate(shape, (at,), label=Label("reshape"), where=made.where)
            sums[made] = leaf
        elif isinstance(made, Generate) and (whole := reshaped(made)) and len(whole) == 1:
            again = sums.get(whole[0].node)
            if again is not None and again.shape == made.shape:  # back to the axes of the sum
                made = made.with_(elements=(again.at(*indices(len(made.shape))),))
        builder.replace(node, made)
    return _longer_sums([builder.leaf(r) for r in roots] if sums else list(roots), context)


def _longer_sums(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Sums of elements of a product that nothing else reads, as in the adjoint of windows, are sums
    over one more axis:

        Σ over p, q of (g @ w)[b, i − p, j − q, p, q, c]   →   Σ over p, q, o of
                                                                g[b, i − p, j − q, o]·w[p, q, c, o]

    The product has as many elements as all windows, and is not stored.
    """
    nodes = list(topological(roots))
    readers = Counter(x for node in nodes for x in {leaf.node for leaf in node.inputs()})
    readers.update(leaf.node for leaf in roots)
    found: dict[Node, Node] = {}
    for node in nodes:
        made = _longer_sum(node, readers) if isinstance(node, Fold) else None
        if made is not None:
            context.notes.append(f"{node.label}: sums of elements of a product are one sum")
            found[node] = made
    if not found:
        return list(roots)
    builder = Rebuilder()
    for node in nodes:
        builder.replace(node, builder.node(found.get(node, node)))
    return [builder.leaf(r) for r in roots]


def _longer_sum(fold: Fold, readers: Counter[Node]) -> Fold | None:
    e, *others = fold.elements
    zero = fold.init is not None and is_zero(fold.init[0])
    if others or not zero or not _adds(fold.combine) or fold.label.ordered:
        return None
    while isinstance(e, Read) and e.boundary is None and readers[e.node] == 1:
        view = e.node
        if type(view) is not Generate or not isinstance(view.elements[e.component], Read):
            break
        if reshaped(view) is not None:
            break
        (e,) = substitute((view.elements[e.component],), dict(zip(
            indices(len(view.shape)), e.args, strict=True)))  # fmt: skip
    if not isinstance(e, Read) or readers[e.node] != 1 or all(isinstance(a, Index) for a in e.args):
        return None
    if e.boundary is not None and not (e.boundary == "constant" and is_zero(e.scoped[0])):
        return None
    source = reshaped(e.node)
    if source is None or len(source) > 1 or not isinstance(source[0].node, Matmul):
        return None
    product = source[0].node
    return _over_operands(fold, e, product) if readers[product] == 1 else None


def _over_operands(fold: Fold, e: Read, product: Matmul) -> Fold | None:
    t, space = product.left.type, (*fold.outer, *fold.inner)
    plain = product.epilogue == (product.result,) and not product.label.ordered
    if product.batch or not plain or not product.options.open or not t.is_float or t.bits < 32:
        return None
    for left, rows, along in _axes(product.left, product.m):
        for right, between, columns in _axes(product.right, product.n, -1):
            inner = tuple(left.shape[a] for a in along)
            shape = *(left.shape[a] for a in rows), *(right.shape[a] for a in columns)
            same = inner == tuple(right.shape[a] for a in between)
            if not same or shape != e.node.outputs[e.component].shape:
                continue
            summed = [Index(len(space) + k) for k in range(len(inner))]
            operands = list[Read | None]()
            for leaf, axes, at in (
                (left, (*rows, *along), (*e.args[: len(rows)], *summed)),
                (right, (*between, *columns), (*summed, *e.args[len(rows) :])),
            ):
                by_axis = dict(zip(axes, at, strict=True))
                read = leaf.at(*(by_axis[a] for a in range(len(axes))))
                outside = not all(
                    isinstance(i, Index) and (*space, *inner)[i.axis] is n
                    for i, n in zip(read.args, leaf.shape, strict=True)
                )
                padded = e.boundary is not None and outside
                operands.append(_padded(read, (*space, *inner), fold) if padded else read)
            x, y = operands
            if x is None or y is None:
                return None
            return fold.with_(
                inner=(*fold.inner, *inner), elements=(apply_primitive("multiply", [x, y]),),
                checks=(*fold.checks, *product.checks),
                fused=(*fold.fused, (product.label, product.where), *product.fused),
            )  # fmt: skip
    return None


def _padded(read: Read, space: Shape, fold: Fold) -> Read | None:
    """The read of a copy with a border of zeros, as far as indices reach over the `space`: loops
    then have no conditions.  None if an index is not affine."""
    shape, start, at = list(Leaf(read.node, read.component).shape), list[Expr](), list[Expr]()
    for k, i in enumerate(read.args):
        form = affine(i)
        moving = {} if form is None else variables(form)
        steps = {v: c for v, c in moving.items() if isinstance(v, Index)}
        if len(moving) > len(steps) or form is None:
            return None
        low: Expr = constant(0)
        high: Expr = low
        for v, c in steps.items():
            reach = times(minus(space[v.axis], constant(1)), constant(c))
            low, high = (plus(low, reach), high) if c < 0 else (low, plus(high, reach))
        if not (isinstance(i, Index) and space[i.axis] is shape[k]):
            origin: dict[Expr, Expr] = dict.fromkeys(steps, constant(0))
            shape[k] = plus(minus(high, low), constant(1))
            low = plus(low, substitute((i,), origin)[0])
        start.append(low)
        at.append(minus(i, low))
    own = (plus(Index(k), low) for k, low in enumerate(start))
    element = Read(read.node, read.component, tuple(own), "constant", (Const(0, read.type),))
    made = Generate(tuple(shape), (resolve_read(element),), label=Label("pad"), where=fold.where)
    return made.leaf().at(*at)


def sum_over_windows(
    node: Matmul, unified: Callable[[Shape], Shape] = lambda shape: shape
) -> Fold | None:
    """A product with windows as a fold over the axes of both operands; None for other products.
    `unified` maps extents that are equal to one expression."""
    t = node.left.type
    plain = node.epilogue == (node.result,) and not node.label.ordered and node.options.open
    if node.batch or not plain or node.options.deterministic or not t.is_float or t.bits < 32:
        return None
    for left, rows, along in _axes(node.left, node.m):
        for right, between, columns in _axes(node.right, node.n, -1):
            first, last = (tuple(leaf.shape[a] for a in axes)
                           for leaf, axes in ((left, rows), (right, columns)))  # fmt: skip
            inner, others = (unified(tuple(leaf.shape[a] for a in axes))
                             for leaf, axes in ((left, along), (right, between)))  # fmt: skip
            differ = sum(m is not n for m, n in zip(inner, others, strict=False))
            # The product of a matrix and a vector reads each window once.
            vector = not first or not last
            if len(inner) < (1 if vector else 2) or len(inner) != len(others) or differ > 1:
                continue
            straight = node.left.args[0] is node.right.args[0] is Index(0)
            if not (_windows(left) or _windows(right)) or not (vector or straight):
                continue
            i, k = len(first), len(first) + len(last)
            summed = range(k, k + len(inner))
            x = left.at(*_ordered((*rows, *along), (*range(i), *summed)))
            y = right.at(*_ordered((*between, *columns), (*summed, *range(i, k))))
            return Fold(
                (*first, *last), inner, (apply_primitive("multiply", [x, y]),),
                simple_combine("add", t), (Const(0, t),), label=node.label, where=node.where,
                checks=node.checks, fused=node.fused,
            )  # fmt: skip
    return None


def _ordered(axes: Sequence[int], places: Sequence[int]) -> list[Expr]:
    """The indices of an array, whose axis number axes[k] is read at Index(places[k])."""
    found = dict(zip(axes, places, strict=True))
    return [Index(found[a]) for a in range(len(axes))]


def _axes(e: Expr, kept: Expr, side: int = 0) -> list[tuple[Leaf, Sequence[int], Sequence[int]]]:
    """The array whose reshaping is the operand's matrix, perhaps transposed, and its axes that
    became rows and columns: `kept` is the extent of the matrix along `side`."""
    if not (isinstance(e, Read) and e.boundary is None and {*e.args} == {Index(0), Index(1)}):
        return []
    turned = e.args[0] is Index(1)
    leaf = Leaf(e.node, e.component)
    found = [(leaf, 1)]
    source = reshaped(e.node)
    if source is not None and len(source) == 1:
        (leaf,) = source
        part = 1 if (side == 0) == turned else 0
        splits = range(len(leaf.shape) + 1)
        found += [
            (leaf, s) for s in splits if product((leaf.shape[:s], leaf.shape[s:])[part]) is kept
        ]
    axes = [(leaf, range(s), range(s, len(leaf.shape))) for leaf, s in found]
    return [(leaf, b, a) if turned else (leaf, a, b) for leaf, a, b in axes]


def _windows(leaf: Leaf) -> bool:
    """Whether an array contains elements of another array, or of a slice of it, more than once."""
    node, component = leaf.node, leaf.component
    e: Expr = leaf.at(*indices(len(leaf.shape)))
    while isinstance(node, Generate) and isinstance(made := node.elements[component], Read):
        assert isinstance(e, Read)
        (e,) = substitute((made,), dict(zip(indices(len(node.shape)), e.args, strict=True)))
        assert isinstance(e, Read)
        node, component = e.node, e.component
    assert isinstance(e, Read)
    used = {i for i in walk(e.args) if isinstance(i, Index)}
    return e.boundary is None and len(used) > len(e.args)


@dataclass(frozen=True)
class Contraction:
    """A fold as a matrix product: the nodes that make the operands, the product, and the result."""

    before: tuple[Generate, ...]
    product: Matmul
    after: Generate


def contracted(node: Fold) -> Contraction | None:
    """A sum over several axes as a matrix product, if it is one."""
    rank, k = len(node.outer), len(node.inner)
    e, t = node.elements[0], node.elements[0].type
    zero = node.init is None or (isinstance(node.init[0], Const) and not node.init[0].value)
    if len(node.elements) > 1 or not zero or not _adds(node.combine) or node.label.ordered:
        return None
    if not (isinstance(e, Apply) and e.op.name == "multiply" and t.is_float and t.bits >= 32):
        return None
    for x, y in (e.args, e.args[::-1]):
        own, others = ({i.axis for i in walk((o,)) if isinstance(i, Index)} for o in (x, y))
        rows, columns = (sorted(a for a in axes if a < rank) for axes in (own, others))
        if not rows or not columns or sorted((*rows, *columns)) != list(range(rank)):
            continue
        if rows[0] > columns[0]:
            continue  # the other operand is the left one
        inner = range(rank, rank + k)
        left, right = (
            substitute((o,), {Index(a): Index(n) for n, a in enumerate(axes)})[0]
            for o, axes in ((x, (*rows, *inner)), (y, (*inner, *columns)))
        )
        return _contraction(node, left, right, rows, columns)
    return None


def _contraction(
    node: Fold, left: Expr, right: Expr, rows: Sequence[int], columns: Sequence[int]
) -> Contraction:
    label = Label(node.label.operation)
    first, last = (tuple(node.outer[a] for a in axes) for axes in (rows, columns))
    m, n, k = product(first), product(last), product(node.inner)
    before: list[Generate] = []

    def matrix(shape: Shape, element: Expr, rows: Expr, columns: Expr) -> Expr:
        whole = Generate(shape, (element,), label=label, where=node.where)
        at = whole.leaf().at(*reshaped_index(shape, (rows, columns)))
        before.extend((whole, Generate((rows, columns), (at,), label=label, where=node.where)))
        return before[-1].leaf().at(Index(0), Index(1))

    x = matrix((*first, *node.inner), left, m, k)
    y = matrix((*node.inner, *last), right, k, n)
    made = Matmul((), m, n, k, x, y, MatmulOptions(), label=label, where=node.where)
    places: dict[Expr, Expr] = {Index(p): Index(a) for p, a in enumerate((*rows, *columns))}
    at = substitute(reshaped_index((m, n), (*first, *last)), places)
    stored = substitute(node.epilogue, {node.results[0]: made.leaf().at(*at)})
    return Contraction(
        tuple(before), made, Generate(node.outer, stored, label=label, where=node.where)
    )


def _adds(combine: Combine) -> bool:
    (result, *others) = combine.results
    return not others and isinstance(result, Apply) and result.op.name == "add" and (
        {*result.args} == {combine.left[0], combine.right[0]})  # fmt: skip
