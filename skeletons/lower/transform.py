"""Rewrites of element expressions into equivalent cheaper ones.

resolve      w[-1] at the border        →  equivalent plain reads interior     boundary reads in a
box    →  plain reads, if all of them are in range collapse     a[i, j] + b[i, j] over n×m →  a[p] +
b[p] over n·m, if all arrays are contiguous
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from treadle.dsl import expr as ex
from treadle.dsl.analysis.borders import Inside
from treadle.dsl.analysis.polynomial import Polynomial, affine_forms, variables
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Leaf, Shape
from treadle.dsl.operations.indexing.row_major import delinear, linear
from treadle.dsl.operations.stencils import resolve_index
from treadle.dsl.passes.neighbours import neighbour
from treadle.dsl.records import dataclass

from ..ir import arithmetic as at
from ..ir.kernel import Load
from .build import Builder


def has_boundary(roots: Iterable[Expr]) -> bool:
    return any(isinstance(e, ex.Read) and e.boundary is not None for e in ex.walk(roots))


# --- boundaries ------------------------------------------------------------------------------


def resolve_axes(read: ex.Read, axes: Sequence[int]) -> Expr:
    """`w[i − 1, j]` → equivalent plain reads, for indices that may be out of range on `axes`.

    Indices on other axes are in range.  With all axes this is `stencils.resolve_read`.
    """
    shape = read.node.outputs[read.component].shape
    if read.boundary in ("constant", "function"):
        inside = at.both(*(at.in_range(read.args[k], shape[k]) for k in axes))
        plain = ex.Read(read.node, read.component, read.args)
        if inside is ex.TRUE:
            return plain
        mapping: dict[Expr, Expr] = dict(zip(read.vars, read.args, strict=bool(read.vars)))
        (outside,) = ex.substitute(read.scoped, mapping)
        return ex.Proj(ex.Cond(inside, (plain,), (outside,)), 0)
    index = list(read.args)
    for k in axes:
        index[k] = resolve_index(str(read.boundary), read.args[k], shape[k])
    return ex.Read(read.node, read.component, tuple(index))


def indices_in_range(roots: Iterable[Expr], axes: Callable[[ex.Read], Iterable[int]]
                    ) -> dict[Expr, Expr]:  # fmt: skip
    """Map resolved indices to the original indices, for the `axes` on which a read is in range.

    Kernels also use them as values, where a stencil contains producers that use their indices."""
    found: dict[Expr, Expr] = {}
    for e in ex.walk(roots):
        if isinstance(e, ex.Read) and e.boundary not in (None, "constant", "function"):
            shape = e.node.outputs[e.component].shape
            for k in axes(e):
                index = resolve_index(str(e.boundary), e.args[k], shape[k])
                if not isinstance(index, ex.Const):  # the 0 of one element is ambiguous
                    found[index] = e.args[k]
    return found


def unresolved(roots: Sequence[Expr], domain: Shape, builder: Builder) -> tuple[Expr, ...]:
    """The inverse of resolving: `roots` with a boundary on every neighbour read at resolved
    indices.  Rows of arrays of higher rank count if their other indices are in range
    (`Builder.inside`)."""
    found: dict[Expr, Expr] = {}
    for e in ex.walk(roots):
        made = neighbour(e, domain) if isinstance(e, ex.Read) and domain else e
        if made is not e:
            found[e] = made
            builder.inside[made] = set(range(len(made.args) - len(domain)))
    return ex.rewrite(roots, lambda e: e, found) if found else tuple(roots)


def resolve(roots: Sequence[Expr], builder: Builder, domain: Shape,
            safe: Safe | None = None) -> tuple[Expr, ...]:  # fmt: skip
    """`roots` with every boundary read resolved, except on axes that are `safe`.

    An axis that is read at the index variable of a `domain` axis of equal extent is safe as well.
    The plain reads made here are in range by construction, so checked mode does not test them.
    """
    own = {e for e in ex.walk(roots) if isinstance(e, ex.Read) and e.boundary is None}
    for e in ex.walk(roots):
        if isinstance(e, ex.Read) and e.scoped:  # a boundary function may read the same element
            beyond = ex.substitute(e.scoped, dict(zip(e.vars, e.args, strict=bool(e.vars))))
            own.update(r for r in ex.walk(beyond) if isinstance(r, ex.Read) and r.boundary is None)
    safe = safe or Safe({})
    memo: dict[Expr, Expr] = {}
    numbers = indices_in_range(roots, lambda e: safe.axes.get(e, ()))
    within = Inside(safe.extents)

    def change(e: Expr) -> Expr:
        if not isinstance(e, ex.Read) or e.boundary is None:
            return within(numbers.get(e, e))
        shape = builder.node_shape(e)
        axes = [
            k for k, (index, extent) in enumerate(zip(e.args, shape, strict=True))
            if k not in safe.axes.get(e, ()) and k not in builder.inside.get(e, ()) and not (
                isinstance(index, ex.Index) and index.axis < len(domain)
                and builder.same(domain[index.axis], extent))
        ]  # fmt: skip
        made = resolve_axes(e, axes)
        inner = made if isinstance(made, ex.Read) else made.args[0].scoped[0]  # Proj(Cond(…))
        if inner not in own:
            builder.safe.add(inner)
        return made

    return flat_reads(ex.rewrite(roots, change, memo), builder)


@dataclass(frozen=True)
class Safe:
    """What is known to be in range: `axes` of boundary reads, and indices that were resolved on
    domain axes of these `extents` (`dsl/analysis/borders.py`)."""

    axes: Mapping[ex.Read, set[int]]
    extents: Mapping[Expr, Expr] = field(default_factory=dict)


@dataclass
class Interior:
    """The box of the domain in which boundary reads and resolved indices are in range.

    `low[k] ≤ i_k < high[k]`, clipped to the domain, as scalars of the kernel.  `axes` maps each
    boundary read that is safe in the box to its axes; reads whose index is not an index variable
    plus a constant stay resolved.  `positions` maps the domain axes on which indices were resolved
    to their extents.
    """

    low: list[Expr]
    high: list[Expr]
    axes: dict[ex.Read, dict[int, int]] = field(default_factory=dict)
    positions: dict[int, Expr] = field(default_factory=dict)

    def safe(self, domain_axes: Iterable[int]) -> Safe:
        """What is in range inside the box on `domain_axes`."""
        wanted = set(domain_axes)
        axes = {r: {a for a, k in m.items() if k in wanted} for r, m in self.axes.items()}
        return Safe(axes, {ex.Index(k): n for k, n in self.positions.items() if k in wanted})


def inside(roots: Sequence[Expr], domain: Shape) -> tuple[Expr, ...]:
    """`roots` with the original indices in place of those resolved at the borders of `domain`."""
    return Inside({ex.Index(k): n for k, n in enumerate(domain)}).of(roots)


def interior(roots: Sequence[Expr], domain: Shape, builder: Builder) -> Interior | None:
    """The largest box in which affine boundary reads and resolved indices are in range, or None.

    A read at  i_k + r  along an axis of extent n is in range for  −min r ≤ i_k < n − max r,
    where r may hold run-time constants and indices of counted loops.
    """
    within = Inside({ex.Index(k): n for k, n in enumerate(domain)})
    roots = within.of(roots)
    reads = [e for e in ex.walk(roots) if isinstance(e, ex.Read) and e.boundary is not None]
    if not (reads or within.low):
        return None
    forms = affine_forms(roots)
    counts = {e.vars[0]: e.count for e in ex.walk(roots) if isinstance(e, ex.Loop)}
    lows: list[dict[Expr, int]] = [{ex.constant(0): 0} for _ in domain]
    highs: list[dict[tuple[Expr, Expr], int]] = [{} for _ in domain]
    found = Interior([], [])
    for k, n in enumerate(domain):
        if ex.Index(k) in within.low:
            lows[k][ex.constant(0)] = min(within.low[ex.Index(k)], 0)
            highs[k][builder.root(n), ex.constant(0)] = within.high[ex.Index(k)]
            found.positions[k] = n
    for read in reads:
        spans: dict[int, tuple[int, _Span]] = {}
        for a, index in enumerate(read.args):
            form = forms.get(index)
            span = None if form is None else _span(form, counts)
            if span is not None:
                spans[a] = (span.axis, span)
        if not spans:
            continue
        shape = read.node.outputs[read.component].shape
        found.axes[read] = {a: k for a, (k, _) in spans.items()}
        for a, (k, span) in spans.items():
            lows[k][span.base_low] = min(lows[k].get(span.base_low, span.low), span.low)
            key = (builder.root(shape[a]), span.base_high)
            highs[k][key] = max(highs[k].get(key, span.high), span.high)
    if not (found.axes or found.positions):
        return None
    for k, n in enumerate(domain):
        low: Expr = ex.constant(0)
        for base, least in lows[k].items():
            low = at.maximum(low, -least - base)
        high = builder.root(n)
        for (extent, base), most in highs[k].items():
            high = at.minimum(high, extent - (base + most))
        low = at.minimum(low, n)
        found.low.append(builder.scalar(low, f"inside_from{k}"))
        found.high.append(builder.scalar(at.maximum(high, low), f"inside_to{k}"))
    return found


@dataclass(frozen=True)
class _Span:
    """Index(axis) + r with  base_low + low ≤ r ≤ base_high + high."""

    axis: int
    base_low: Expr
    low: int
    base_high: Expr
    high: int


def _span(form: Polynomial[Expr], counts: dict[ex.Var, Expr]) -> _Span | None:
    moving = variables(form)
    axes = [t for t, c in moving.items() if isinstance(t, ex.Index) and c == 1]
    others = [t for t in moving if t not in axes]
    if len(axes) != 1:
        return None
    base: Expr = ex.constant(0)
    for monomial, c in form.terms.items():
        if monomial and monomial[0] not in moving:
            base = base + monomial[0] * c
    low = high = base
    for v in others:
        count = counts.get(v) if isinstance(v, ex.Var) else None
        if count is None or not is_host(count):
            return None
        last = (count - 1) * moving[v]
        if moving[v] > 0:
            high = high + last
        else:
            low = low + last
    parts = [ex.split_constant(e) for e in (low, high)]
    (base_low, least), (base_high, most) = parts
    return _Span(axes[0].axis, base_low, least + form.constant, base_high, most + form.constant)


def is_host(e: Expr) -> bool:
    return all(
        isinstance(x, ex.Const | ex.Extent | ex.Param)
        or (bool(x.args) and not isinstance(x, ex.Read))
        for x in ex.walk((e,))
    )


def row_sharing(roots: Iterable[Expr], rank: int) -> float:
    """The fraction of reads that the next row of the domain (along the second to last axis) shares
    with this one: 6 of 9 for a 3 × 3 stencil, 2 of 7 for a 7-point star.  Reads in a loop over rows
    are always shared, as its iterations are the same for every row."""
    if rank < 2:
        return 0.0
    roots = tuple(roots)
    forms = affine_forms(roots)
    row = ex.Index(rank - 2)
    positions: set[tuple[Any, ...]] = set()
    moved: list[tuple[Any, ...]] = []
    for e in ex.walk(roots):
        if not isinstance(e, ex.Read):
            continue
        axes = [forms.get(index) for index in e.args]
        if not any(form is not None and form.coefficient(row) for form in axes):
            continue
        here: list[Any] = [e.node, e.component]
        there: list[Any] = [e.node, e.component]
        for index, form in zip(e.args, axes, strict=True):
            if form is None:
                here.append(index)
                there.append(index)
                continue
            turning = any(isinstance(v, ex.Var) for v in form.atoms())
            here.append(form)
            there.append(form if turning else form + form.coefficient(row))
        positions.add(tuple(here))
        moved.append(tuple(there))
    return sum(m in positions for m in moved) / len(moved) if moved else 0.0


def is_transposing(roots: Iterable[Expr], rank: int, builder: Builder | None = None) -> bool:
    """Whether a plain read traverses columns of an array while the domain traverses its rows.

    True if the last index of the domain is used along an axis that is not the array's row axis,
    and the row axis uses another index of the domain.  The row axis is the last axis unless
    `builder` has another layout for the array.
    """
    if rank < 2:
        return False
    forms = affine_forms(roots)
    last = ex.Index(rank - 1)
    for e in ex.walk(roots):
        if isinstance(e, ex.Read) and len(e.args) >= 2:
            row = None if builder is None else builder.row_axis(Leaf(e.node, e.component))
            row = len(e.args) - 1 if row is None else row
            maps = [f.atoms() if (f := forms.get(i)) is not None else set() for i in e.args]
            if last in maps[row]:
                continue
            if any(last in m for m in maps) and any(isinstance(v, ex.Index) for v in maps[row]):
                return True
    return False


# --- contiguous domains ----------------------------------------------------------------------


def collapse(roots: Sequence[Expr], domain: Shape, builder: Builder, position: Expr,
             first: int = 0, divided: bool = False) -> tuple[Expr, ...] | None:  # fmt: skip
    """`a[…, i, j]` → `a[(…)·n·m + position]`, with the axes from `first` on merged into one.

    Valid if the indices of those axes occur only as the trailing indices of reads of dense arrays
    of the same trailing extents, or together as their row-major position.  Otherwise the result is
    None, as for reads with a boundary, whose interior is a box of these axes.  With `divided`,
    other occurrences become quotients and remainders of the position.
    """
    if has_boundary(roots):
        return None
    own = {ex.Index(k) for k in range(first, len(domain))}
    whole = linear([ex.Index(k) for k in range(first, len(domain))], domain[first:])
    if len(own) > 1:
        roots = flat_reads(ex.rewrite(roots, lambda e: e, {whole: position}), builder)
    memo: dict[Expr, Expr] = {}
    for e in ex.walk(roots):
        if isinstance(e, ex.Read) and any(a in own for a in e.args):
            if _linear_read(e, domain, first, builder):
                memo[e] = _linear_load(e, len(own), builder, position)
            elif not divided:
                return None
    roots = ex.rewrite(roots, lambda e: e, memo)
    if divided:
        extents = [builder.root(n) for n in domain[first:]]
        positions = zip(range(first, len(domain)), delinear(position, tuple(extents)), strict=True)
        return ex.substitute(roots, {ex.Index(k): e for k, e in positions})
    return None if any(e in own for e in ex.walk(roots)) else roots


def flat_reads(roots: Sequence[Expr], builder: Builder) -> tuple[Expr, ...]:
    """`a[p // m, p % m]` → `a[p]`: a reshaped read of a dense array of rows of m.

    Checked mode keeps the coordinates, which it reports.
    """
    if builder.context.check:
        return tuple(roots)

    def change(e: Expr) -> Expr:
        if not isinstance(e, ex.Read) or e.boundary is not None or len(e.args) < 2:
            return e
        leaf = Leaf(e.node, e.component)
        split = next((a for a in reversed(e.args) if isinstance(a, ex.Apply)), None)
        if split is None or split.op.name != "remainder" or leaf in builder.context.strided:
            return e
        if delinear(split.args[0], leaf.shape) != e.args:
            return e
        return Load(builder.input(leaf), split.args[0])

    return ex.rewrite(roots, change)


def _linear_read(e: ex.Read, domain: Shape, first: int, builder: Builder) -> bool:
    leaf = Leaf(e.node, e.component)
    args, extents = _long_axes(e, builder)
    cut = len(args) - (len(domain) - first)
    if e.boundary is not None or leaf in builder.context.strided or cut < 0:
        return False
    tail = args[cut:]
    if tail != tuple(ex.Index(k) for k in range(first, len(domain))):
        return False
    if any(x in set(tail) for x in ex.walk(args[:cut])):
        return False
    return all(builder.same(a, b) for a, b in zip(extents[cut:], domain[first:], strict=True))


def _linear_load(read: ex.Read, count: int, builder: Builder, position: Expr) -> Load:
    args, axes = _long_axes(read, builder)
    cut = len(args) - count
    extents = builder.shape(axes)
    start = at.linear(args[:cut], extents[:cut]) * at.product(extents[cut:])
    return Load(builder.input(Leaf(read.node, read.component)), start + position)


def _long_axes(read: ex.Read, builder: Builder) -> tuple[tuple[Expr, ...], Shape]:
    """The indices and extents of a read, without axes of extent 1 that are read at 0."""
    shape = Leaf(read.node, read.component).shape
    kept = [k for k, n in enumerate(shape)
            if not (read.args[k] == ex.constant(0) and builder.is_one(n))]  # fmt: skip
    return tuple(read.args[k] for k in kept), tuple(shape[k] for k in kept)
