"""The adjoint of reading an array: where the cotangents of `a[m(ix)]` go.

The adjoint of a gather is a scatter.  If the map `m` is affine it can be inverted, and the scatter
is a gather again: element p receives the sum over every ix with m(ix) = p.  Axes of the domain that
the map loses become a fold.  Only data-dependent maps need a permute.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ..analysis.borders import zero_beyond
from ..analysis.combines import simple_combine
from ..analysis.polynomial import affine, polynomial, variables
from ..errors import Location
from ..expr import (
    FALSE,
    TRUE,
    Apply,
    Const,
    Expr,
    Extent,
    Index,
    Param,
    Read,
    Var,
    constant,
    rewrite,
    walk,
)
from ..graph import Fold, Generate, Label, Leaf, Permute, Shape, indices, is_identity_read, known
from ..operations.indexing.index_space import reshaped_index
from ..operations.indexing.row_major import delinear, linear, minus, plus, product, times
from ..operations.stencils import in_range, resolve_index
from ..scalar import apply_primitive
from ..simplify import chosen
from ..types import int64
from .expressions import Cotangent, _under, add, both, guarded, index_map, settled, shifted, zero
from .residues import by_class

#: The largest stencil offset whose border is gathered; others are scattered.
_WIDEST_BORDER = 4
#: The cost above which cotangents are materialised before several elements read them.
CHEAP = 24.0
#: The most elements, a constant, of axes that are preferably summed over.
_SHORT = 64
#: The most operations of an expression that is factored out.
_LONGEST_FACTOR = 8


class Inverse(NamedTuple):
    """The inverse of an index map: `images[a]` is the index along axis a of the domain that reads
    element Index(…) of the array; None for lost axes.  It is valid where all `conditions` hold."""

    images: tuple[Expr | None, ...]
    conditions: tuple[Expr, ...]
    lost: tuple[int, ...]
    #: Whether no image depends on a lost axis.
    separate: bool


def one_to_one(maps: Sequence[Expr], domain: Shape, shape: Shape) -> bool:
    """Whether no two indices of `domain` are provably mapped to the same one of `shape`.  Maps may
    be affine, with coefficients such as the counter of a loop that are the same for all indices."""
    same: dict[Expr, Expr] = {
        e: Var("number", e.type)
        for e in walk(maps)
        if isinstance(e, Read) and not any(isinstance(x, Index) for x in walk((e,)))
    }
    moved = [shifted(m, same) for m in maps]
    found = inverse(moved, domain, shape)
    return (found is not None and not found.lost) or in_order(moved, domain, shape) is not None


def in_order(
    maps: Sequence[Expr], domain: Shape, shape: Shape, complete: bool = False
) -> Inverse | None:
    """The inverse of a map that reads consecutive elements in row-major order, as a reshape does:
    all of them, or from some position on.  None for other maps.

    `complete`: `domain` and `shape` are checked to have equally many elements.
    """
    whole = Inverse(reshaped_index(domain, shape), (), (), True)
    if complete and tuple(maps) == reshaped_index(shape, domain):
        return whole
    rank, one = len(domain), constant(1)
    only = index_map([constant(0) if n is one else Index(k) for k, n in enumerate(domain)])
    at, place = ([shifted(i, only) for i in of] for of in (indices(rank), maps))
    flat = linear(at, domain), linear(place, shape), product(domain), product(shape)
    first, found, wanted, have = map(polynomial, _with_quotients(flat))
    if first is None or found is None:
        return None
    start = found - first
    if any(isinstance(x, Index | Var | Read) for m in start.terms for a in m for x in walk((a,))):
        return None
    if not start.terms and (complete or (have is not None and have == wanted)):
        return whole
    origin: dict[Expr, Expr] = {Index(k): constant(0) for k in range(rank)}
    here = minus(linear(indices(len(shape)), shape), shifted(linear(maps, shape), origin))
    return Inverse(delinear(here, domain), (in_range(here, product(domain)),), (), True)


def _with_quotients(es: Sequence[Expr]) -> tuple[Expr, ...]:
    """Indices with variables for quotients, and x - x // n * n for a remainder x % n."""
    quotients: dict[Expr, Expr] = {}

    def quotient(of: Expr) -> Expr:
        if not isinstance(of, Apply) or of.op.name != "floor_divide":
            return of
        return quotients.setdefault(of, Var(f"quotient{len(quotients)}", of.type))

    def divided(x: Expr) -> Expr:
        if not isinstance(x, Apply) or x.op.name != "remainder":
            return quotient(x)
        a, n = x.args
        return minus(a, times(quotient(apply_primitive("floor_divide", [a, n])), n))

    return rewrite(es, divided)


def inverse(maps: Sequence[Expr], domain: Shape, shape: Sequence[Expr]) -> Inverse | None:
    """The inverse of an affine map from `domain` to `shape`, which may wrap around at its extents;
    lost axes are Index(rank of the array + k) in images and conditions.  None for other maps."""
    axes = [Var(f"axis{k}", int64) for k in range(len(domain))]
    number: dict[Expr, int] = {v: k for k, v in enumerate(axes)}
    pending = {j: shifted(m, index_map(axes)) for j, m in enumerate(maps)}
    images: dict[Expr, Expr] = {}
    conditions: list[Expr] = []
    wrapped: set[Expr] = set()
    while pending:
        forms = {}
        for j, m in pending.items():
            form = affine(m.args[0] if _wraps(m, shape[j]) else m)
            if form is None:
                return None
            forms[j] = {v: c for v, c in variables(form).items() if v in number}
        j = min(pending, key=lambda j: len(forms[j]))
        m, unknown = pending.pop(j), forms[j]
        if not unknown:
            conditions.append(apply_primitive("equal", [Index(j), m]))
            continue
        pivot = min(
            unknown,
            key=lambda v: (
                -_weight(domain[number[v]], unknown[v]),  # the axis that is lost is summed over
                not _grows(domain[number[v]], shape[j]),
                sum(v in f for f in forms.values()),
                number[v],
            ),
        )
        c = unknown[pivot]
        around = _wraps(m, shape[j])
        if around:
            if len(unknown) > 1 or abs(c) != 1 or domain[number[pivot]] is not shape[j]:
                return None
            m = m.args[0]
            wrapped.add(pivot)
        image = minus(Index(j), shifted(m, {pivot: constant(0)}))
        if abs(c) != 1:
            step = constant(abs(c))
            left = apply_primitive("remainder", [image, step])
            conditions.append(apply_primitive("equal", [left, constant(0)]))
            image = apply_primitive("floor_divide", [image, step])
        if c < 0:
            image = apply_primitive("negative", [image])
        if around:
            image = apply_primitive("remainder", [image, shape[j]])
        replaced = {pivot: image}
        images = {v: shifted(e, replaced) for v, e in images.items()}
        conditions = [shifted(e, replaced) for e in conditions]
        pending = {k: shifted(e, replaced) for k, e in pending.items()}
        images[pivot] = image
    lost = tuple(k for k, v in enumerate(axes) if v not in images)
    names: dict[Expr, Expr] = {axes[a]: Index(len(maps) + t) for t, a in enumerate(lost)}
    separate = not any(set(names) & set(walk((e,))) for e in (*images.values(), *conditions))
    found = [images.get(v) for v in axes]
    done = tuple(None if e is None else shifted(e, names) for e in found)
    ranges = []
    for a, e in enumerate(done):
        own = isinstance(e, Index) and e.axis < len(shape) and shape[e.axis] is domain[a]
        if e is not None and not own and axes[a] not in wrapped:
            ranges.append(in_range(e, domain[a]))
    after = (shifted(e, names) for e in conditions)
    return Inverse(done, (*after, *ranges), lost, separate)


def of_classes(maps: Sequence[Expr], domain: Shape, shape: Shape) -> Inverse | None:
    """The inverse of an affine map to an array that holds the quotient by a number along one axis,
    and the remainder along another, as `residues.by_class` reads its sums; None for other maps."""
    at: dict[Expr, tuple[int, Expr]] = {}
    left, flat, extents = dict(enumerate(maps)), dict[int, Expr](), [*shape]
    for j, m in enumerate(maps):
        if isinstance(m, Apply) and m.op.name == "remainder" and m.args[1] is shape[j]:
            at[apply_primitive("floor_divide", list(m.args))] = (j, m.args[0])
    for j, m in enumerate(maps):
        if m in at and isinstance(m, Apply):
            remainder, left[j] = at.pop(m)
            del left[remainder]
            flat[j] = plus(times(Index(j), m.args[1]), Index(remainder))
            extents[j] = times(shape[j], m.args[1])
    found = inverse([*left.values()], domain, [extents[j] for j in left]) if flat else None
    if found is None:
        return None
    own = [flat.get(j, Index(j)) for j in left]
    own += [Index(len(maps) + t) for t in range(len(found.lost))]
    to = index_map(own)
    images = tuple(None if e is None else shifted(e, to) for e in found.images)
    conditions = tuple(shifted(e, to) for e in found.conditions)
    return found._replace(images=images, conditions=conditions)


def _weight(n: Expr, c: int) -> float:
    """The preference for keeping an axis: of two axes, the one with less weight is summed over,
    in steps of the other's coefficient.  Short axes, such as those along windows, have known
    weights."""
    if not isinstance(n, Const) or int(n.value) > _SHORT:
        return float("inf")
    return int(n.value) * abs(c)


def _grows(n: Expr, whole: Expr) -> bool:
    """Whether an extent is computed from the array's extent, like its number of windows."""
    return any(isinstance(e, Extent) and e in set(walk((whole,))) for e in walk((n,)))


def _wraps(m: Expr, n: Expr) -> bool:
    """Whether an index is the remainder of a division by the extent."""
    return isinstance(m, Apply) and m.op.name == "remainder" and m.args[1] is n


def stored(shape: Shape, e: Expr, label: Label, where: Location | None) -> Leaf:
    """The leaf of an expression; no new node if it already is an array."""
    if is_identity_read(e, len(shape)):
        assert isinstance(e, Read)
        if e.node.outputs[e.component].shape == shape:
            return Leaf(e.node, e.component)
    return Generate(shape, (e,), label=label, where=where).leaf()


def summed(shape: Shape, inner: Shape, element: Expr, label: Label, where: Location | None) -> Leaf:
    """The sum over the last axes of a domain; fusion decides whether its elements are stored.  Axes
    of extent 1, such as inserted ones, are dropped."""
    if any(isinstance(n, Const) and n.value == 1 for n in inner):
        several = [n for n in inner if not (isinstance(n, Const) and n.value == 1)]
        axes = iter(range(len(shape), len(shape) + len(several)))
        at = [Index(next(axes)) if n in several else constant(0) for n in inner]
        element = shifted(element, index_map([*indices(len(shape)), *at]))
        inner = tuple(several)
        if not inner:
            return stored(shape, element, label, where)
    domain = (*shape, *inner)
    combine = simple_combine("add", element.type)
    if not is_identity_read(element, len(domain)):
        made = Generate(domain, (element,), label=label, where=where)
        element = made.leaf().at(*indices(len(domain)))
    node = Fold(shape, inner, (element,), combine, (zero(element.type),), label=label, where=where)
    return node.leaf()


def cost(e: Expr) -> float:
    return sum(x.op.cost for x in walk((e,)) if isinstance(x, Apply))


def factored(e: Expr) -> tuple[Expr, Expr | None]:
    """(x, c) with e = x * c, c equal for all indices or None; also through arrays."""
    x, c = _product(e)
    while isinstance(x, Read) and type(x.node) is Generate and len(x.node.elements) == 1:
        node, rank = x.node, len(x.node.shape)
        inner, found = _product(node.elements[0])
        if found is None or not rank or not is_identity_read(x, rank) or cost(inner) > CHEAP:
            break
        x = stored(node.shape, inner, node.label, node.where).at(*indices(rank))
        c = found if c is None else apply_primitive("multiply", [found, c])
    return x, c


def _product(e: Expr) -> tuple[Expr, Expr | None]:
    """`factored`, of the expression alone."""
    factor: Expr | None = None
    while isinstance(e, Apply) and e.op.name == "multiply":
        x, c = e.args if _is_factor(e.args[1]) else e.args[::-1]
        if not _is_factor(c):
            break
        e, factor = x, c if factor is None else apply_primitive("multiply", [c, factor])
    return e, factor


def _is_factor(e: Expr) -> bool:
    """Whether an expression is a real number that is the same for all indices."""
    if e.type.family != "float" or e.type.bits < 32 or (isinstance(e, Const) and not _finite(e)):
        return False
    stack, seen = [e], 0
    while stack:
        x = stack.pop()
        seen += 1
        same = isinstance(x, Const | Param | Apply) or (isinstance(x, Read) and not x.args)
        if not same or seen > _LONGEST_FACTOR:
            return False
        stack += x.args
    return True


def total_of(parts: Sequence[Expr]) -> Expr:
    """The sum of cotangents.  Those with a common factor are added first and multiplied once:
    contributions of neighbours are often a weighted sum times one number."""
    found = [factored(part) for part in parts] if len(parts) > 1 else []
    often = Counter(c for _, c in found if c is not None)
    sums: dict[Expr, Expr] = {}
    terms: list[Expr] = []
    for part, (x, c) in zip(parts, found, strict=True) if found else ():
        if c is None or often[c] == 1:
            terms.append(part)
        else:
            sums[c] = add(sums[c], x) if c in sums else x
    terms += [apply_primitive("multiply", [x, c]) for c, x in sums.items()]
    return functools.reduce(add, terms or parts)


class Scatterer:
    """Sends the cotangents of one operation's reads to the arrays that it reads."""

    def __init__(
        self, domain: Shape, label: Label, where: Location | None,
        unified: Callable[[Shape], Shape], finite: Callable[[Expr], bool],
    ) -> None:  # fmt: skip
        #: Maps extents that checks make equal to one expression.
        self.unified = unified
        #: Whether the product of a factor and a cotangent of 0 is 0.
        self.finite = finite
        self.domain, self.label, self.where = unified(domain), label, where

    def contribution(self, read: Read, cotangent: Cotangent) -> Expr:
        """The contribution to the array that is read, over its own indices."""
        shape = self.unified(read.node.outputs[read.component].shape)
        if is_identity_read(read, len(self.domain)) and shape == self.domain:
            return settled(cotangent)
        if read.boundary in (None, "constant", "function"):
            maps = self.unified(read.args)
            found = inverse(maps, self.domain, shape)
            if (found is None or found.lost) and read.boundary is None:
                have, wanted = self.unified((product(shape), product(self.domain)))
                found = in_order(maps, self.domain, shape, have is wanted) or found
            found = found or of_classes(maps, self.domain, shape)
            if found is not None:
                if not (found.conditions or found.lost or cotangent.mask):
                    x, c = factored(cotangent.value)
                    if c is not None:
                        moved = self._gathered(found, shape, self._stored(Cotangent((), x)))
                        return apply_primitive("multiply", [moved, c])
                return self._gathered(found, shape, self._stored(cotangent))
            return self._scattered(read.args, shape, cotangent, read.boundary is not None)
        offsets = self._offsets(read, shape)
        if offsets is None:
            resolved = tuple(
                resolve_index(read.boundary, i, n) for i, n in zip(read.args, shape, strict=True)
            )
            return self._scattered(resolved, shape, cotangent, False)
        return self._bordered(read, shape, offsets, self._stored(cotangent))

    def _stored(self, cotangent: Cotangent) -> Cotangent:
        """The cotangent, materialised if it is expensive to compute at another index."""
        if cost(cotangent.value) <= CHEAP:
            return cotangent
        made = Generate(self.domain, (settled(cotangent),), label=self.label, where=self.where)
        return Cotangent((), made.leaf().at(*indices(len(self.domain))))

    def _gathered(self, found: Inverse, shape: Shape, cotangent: Cotangent) -> Expr:
        rank = len(shape)
        g = self._repeated(settled(cotangent))
        places = [
            e if e is not None else Index(rank + found.lost.index(a))
            for a, e in enumerate(found.images)
        ]
        ranges = [in_range(e, n) for e, n in zip(places, self.domain, strict=True)]
        inner = tuple(self.domain[a] for a in found.lost)
        kept = [a for a in range(len(self.domain)) if a not in found.lost]
        if found.lost and found.separate:
            order: list[Expr] = [constant(0)] * len(self.domain)
            for position, a in enumerate([*kept, *found.lost]):
                order[a] = Index(position)
            outer = tuple(self.domain[a] for a in kept)
            total = summed(outer, inner, shifted(g, index_map(order)), self.label, self.where)
            read = total.at(*(places[a] for a in kept))
            if found.conditions and {*found.conditions} <= {*ranges}:
                return Read(read.node, read.component, read.args, "constant", (zero(g.type),))
            return guarded(_all(found.conditions), read, zero(g.type))
        wanted = {a for a, c in enumerate(ranges) if c in found.conditions}
        bordered, axes = self._with_zeros(g, wanted, places, shape)
        conditions = {*found.conditions}.difference(ranges[a] for a in axes)
        left = [c for c in found.conditions if c in conditions]
        if not found.lost:
            g, left = (g, [*found.conditions]) if left else (bordered, left)
            return guarded(_all(left), _at(g, places), zero(g.type))
        terms = by_class(places, left, shape, inner)
        # Windows whose extent is no multiple of their distance have a border of zeros, too.
        ends = {a: apply_primitive("less", [terms.images[a], self.domain[a]]) for a in found.lost}
        short = {a for a, c in ends.items() if c in terms.conditions}
        if short:
            bordered, axes = self._with_zeros(g, wanted | short, places, shape)
        left = [c for c in terms.conditions if c not in {ends[a] for a in short & axes}]
        element = guarded(_all(left), _at(bordered, terms.images), zero(g.type))
        if not terms.inner:
            return element
        return summed(terms.outer, terms.inner, element, self.label, self.where).at(*terms.at)

    def _scattered(
        self, target: Sequence[Expr], shape: Shape, cotangent: Cotangent, outside: bool
    ) -> Expr:
        """The contribution by a permute; `outside`: targets out of range are ignored."""
        if cotangent.mask and cotangent.mask[0].given is not None:
            # Zeros are sent as well: their own derivative need not be 0.
            rest = cotangent.mask[1:]
            cotangent = Cotangent(rest, _under(cotangent.mask[:1], cotangent.value,
                                               zero(cotangent.value.type)))  # fmt: skip
        valid = _under(cotangent.mask, TRUE, FALSE)
        if outside:
            for i, n in zip(target, shape, strict=True):
                valid = both(valid, in_range(i, n))
        nowhere = constant(0)
        if any(c.guarding for c in cotangent.mask):
            target = [guarded(valid, i, nowhere) for i in target]
        value = cotangent.value
        if value.reads and any(c.guarding for c in cotangent.mask):
            value = settled(cotangent)
        default = Generate(shape, (zero(value.type),), label=self.label, where=self.where)
        made = Permute(
            self.domain,
            valid,
            tuple(target),
            (value,),
            default.leaves,
            simple_combine("add", value.type),
            label=self.label,
            where=self.where,
        )
        return made.leaf().at(*indices(len(shape)))

    def _offsets(self, read: Read, shape: Shape) -> list[int] | None:
        """The offsets of a stencil's read; None for other reads, or if it reaches far outside."""
        if len(read.args) != len(self.domain):
            return None
        found = []
        for k, e in enumerate(read.args):
            form = affine(e)
            if form is None or variables(form) != {Index(k): 1}:
                return None
            rest = form - form.constant
            if len(rest.terms) != 1:
                return None
            around = self._outside(k, form.constant, shape[k])
            if around is None or max(around) > _WIDEST_BORDER:
                return None
            found.append(form.constant)
        return found

    def _outside(self, k: int, offset: int, n: Expr) -> tuple[int, int] | None:
        """The largest numbers of cells read before and after an axis."""
        longer = 0
        if n is not self.domain[k]:
            extent, cells = known(self.domain[k]), known(n)
            if extent is None or cells is None:
                return None
            longer = extent - cells
        return max(-offset, 0), max(longer + offset, 0)

    def _bordered(
        self, read: Read, shape: Shape, offsets: Sequence[int], cotangent: Cotangent
    ) -> Expr:
        """The interior reads its inverse; cells to which the boundary maps cells outside add the
        contributions of these, whatever the extents."""
        g = settled(cotangent)
        choices: list[list[tuple[Expr, Expr]]] = []
        for k, (o, n) in enumerate(zip(offsets, shape, strict=True)):
            here = minus(Index(k), constant(o))
            own = o == 0 and n is self.domain[k]
            ways = [(TRUE if own else in_range(here, self.domain[k]), here)]
            last, around = minus(n, constant(1)), self._outside(k, o, n)
            assert around is not None
            first: Expr = constant(0)
            beyond = [(first, -t) for t in range(1, around[0] + 1)]
            beyond += [(last, t + 1) for t in range(around[1])]
            for edge, distance in beyond:
                nearest = read.boundary == "symmetric" and distance in (-1, 1)
                if read.boundary == "clamp" or nearest:  # the edge, whatever the extent
                    mapped, image = edge, _moved(Index(k), distance - o)
                else:
                    outside = _moved(edge, distance)
                    mapped = resolve_index(str(read.boundary), outside, n)
                    image = minus(outside, constant(o))
                holds = apply_primitive("equal", [Index(k), mapped])
                ways.append((both(holds, in_range(image, self.domain[k])), image))
            choices.append(ways)
        total: Expr = zero(g.type)
        for way in itertools.product(*choices):
            condition: Expr = TRUE
            for c, _ in way:
                condition = both(condition, c)
            part = shifted(g, index_map([e for _, e in way]))
            total = add(total, guarded(condition, part, zero(g.type)))
        return total

    def _with_zeros(
        self, g: Expr, wanted: Collection[int], places: Sequence[Expr], shape: Shape
    ) -> tuple[Expr, set[int]]:
        return zero_beyond(g, self.domain, wanted, places, shape, self.unified, finite=self.finite)

    def _repeated(self, g: Expr) -> Expr:
        """A cotangent stored by a cheap operation on smaller arrays, such as that of windows of
        which each receives one number, as this operation: each element is read once."""
        while is_identity_read(g, len(self.domain)):
            assert isinstance(g, Read)
            node = g.node
            if type(node) is not Generate or len(node.elements) != 1 or node.checks:
                break
            (e,) = node.elements
            smaller = all(
                len(x.args) < len(self.domain) and all(isinstance(i, Index | Const) for i in x.args)
                for x in walk((e,))
                if isinstance(x, Read)
            )
            if self.unified(node.shape) != self.domain or not smaller or cost(e) > CHEAP:
                break
            g = e
        return g


def _at(e: Expr, places: Sequence[Expr]) -> Expr:
    """An element at other indices, which may decide its conditions."""
    return rewrite((e,), chosen, dict(index_map(places)))[0]


def _moved(index: Expr, distance: int) -> Expr:
    return apply_primitive("add", [index, constant(distance)])


def _all(conditions: Sequence[Expr]) -> Expr:
    holds: Expr = TRUE
    for c in conditions:
        holds = both(holds, c)
    return holds


def _finite(c: Const) -> bool:
    value = complex(c.value)
    return value == value and abs(value) != float("inf") and value != 0
