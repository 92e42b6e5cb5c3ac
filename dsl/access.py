"""Access analysis: the index maps with which a kernel reads, and the reuse that they imply.

An index map is a tuple of polynomials over the domain's axes, counted-loop indices, extents and
scalar arguments.  It is affine if axes and loop indices occur to the first power only; then the
offsets of all reads of one array through the same linear part form one `Access`, as in

    image[i + {-1, 0, 1}, j + {-1, 0, 1}] clamp

The classes are those of Prasetya (2021), section 4.3: horizontal (elements of one row share
reads), vertical (neighbouring rows share reads or cache lines), streaming (each value is read
once), random (indices depend on data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .borders import Inside
from .expr import (
    Apply,
    Const,
    Expr,
    Extent,
    Index,
    Loop,
    Param,
    Read,
    Var,
    While,
    substitute,
    walk,
)  # fmt: skip
from .graph import Fold, Generate, Leaf, Matmul, Node, Permute

Monomial = tuple[Expr, ...]
Polynomial = dict[Monomial, int]

AXES = "ijklmnop"

DATA = "data"
COMPUTED = "computed"


def polynomial(e: Expr, memo: dict[Expr, Polynomial | None] | None = None) -> Polynomial | None:
    """An integer expression as a sum of products of atoms, None if it is not one.

    >>> from treadle.dsl.expr import Index, constant
    >>> from treadle.dsl.scalar import apply_primitive
    >>> polynomial(apply_primitive("add", [Index(0), constant(2)])) == {(Index(0),): 1, (): 2}
    True
    """
    done: dict[Expr, Polynomial | None] = {} if memo is None else memo
    for node in walk((e,)):
        if node not in done:
            done[node] = _polynomial(node, done)
    return done[e]


def _polynomial(e: Expr, done: dict[Expr, Polynomial | None]) -> Polynomial | None:
    if isinstance(e, Const):
        value = int(e.value) if e.type.is_integer else None
        return None if value is None else ({(): value} if value else {})
    if isinstance(e, Index | Extent | Param | Var):
        return {(e,): 1}
    if not isinstance(e, Apply):
        return None
    own: Polynomial | None = {(e,): 1} if e.type.is_integer and _fixed(e) else None
    if e.op.name == "cast" and e.type.is_integer and e.args[0].type.is_integer:
        return done[e.args[0]]
    if e.op.name not in ("add", "subtract", "multiply", "negative"):
        return own
    parts = [done[a] for a in e.args]
    if parts[0] is None or parts[-1] is None:
        return own
    left, right = parts[0], parts[-1]
    if e.op.name == "negative":
        return {m: -c for m, c in left.items()}
    total: Polynomial = {}
    if e.op.name == "multiply":
        if len(left) * len(right) > 64:
            return None
        terms: Iterable[tuple[Monomial, int]] = (
            (tuple(sorted((*m, *n), key=_atom_order)), c * d)
            for m, c in left.items() for n, d in right.items()
        )  # fmt: skip
    else:
        sign = -1 if e.op.name == "subtract" else 1
        terms = [*left.items(), *((m, sign * c) for m, c in right.items())]
    for m, c in terms:
        total[m] = total.get(m, 0) + c
    return {m: c for m, c in total.items() if c}


def _fixed(e: Expr) -> bool:
    """Whether an expression is constant during a launch: it contains only extents and scalars."""
    return all(isinstance(x, Const | Extent | Param | Apply) for x in walk((e,)))


def _atom_order(e: Expr) -> tuple[int, int, int]:
    if isinstance(e, Index):
        return (1, e.axis, 0)
    if isinstance(e, Extent):
        return (2, e.node.uid, e.axis)
    return (0, e.uid, 0) if isinstance(e, Var | Param) else (3, 0, 0)


def counters(roots: Iterable[Expr]) -> set[Expr]:
    """The index variables of counted loops, which may occur in index maps."""
    return {e.vars[0] for e in walk(roots) if isinstance(e, Loop)}


@dataclass(frozen=True)
class Access:
    """All reads of one array through one linear index map.

    `linear`: for each axis of the array, the map without its constant (None: not affine).
    `offsets`: the constant vectors that occur.  `kind`: "affine", "computed" (not affine, but from
    indices alone) or "data".  `boundary`: the boundary condition; None: always in range.
    """

    leaf: Leaf
    linear: tuple[tuple[tuple[Monomial, int], ...], ...] | None
    offsets: tuple[tuple[int, ...], ...]
    kind: str
    boundary: str | None
    mentioned: frozenset[int]
    classes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Reads per element of the domain; reads in loops count once."""
        return len(self.offsets)


def outer_axes(node: Node) -> int:
    """The number of axes of the domain with a thread or a task per element."""
    return len(node.outer) if isinstance(node, Fold) and node.outer else len(node.iteration_space())


def read_bodies(node: Node) -> tuple[Expr, ...]:
    """The expressions that read, over the axes of the domain; a product's k is the last axis."""
    if isinstance(node, Matmul):
        rank = len(node.batch) + 2
        left = substitute((node.left,), {Index(rank - 1): Index(rank)})
        right = substitute((node.right,), {Index(rank - 2): Index(rank)})
        return (*left, *right, *node.epilogue)
    if isinstance(node, Permute):
        own = (node.valid, *node.target, *node.values)
    else:
        own = node.per_element()
    combine = getattr(node, "combine", None)
    return own + (combine.results if combine is not None else ())


def accesses(node: Node) -> list[Access]:
    """The accesses of a kernel, grouped by array in order of first use."""
    bodies, seen_through = _inside(node)
    counting = counters(bodies)
    groups: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
    heads: dict[tuple[object, ...], tuple[Leaf, frozenset[int], str, str | None]] = {}
    memo: dict[Expr, Polynomial | None] = {}
    for e in walk(bodies):
        if not isinstance(e, Read):
            continue
        kind, linear, offset = index_map(e.args, counting, memo)
        boundary = e.boundary or seen_through.get((e.node, e.component))
        key: tuple[object, ...] = (e.node, e.component, kind, linear, boundary)
        if kind != "affine":
            offset = (len(groups.get(key, ())),)
        groups.setdefault(key, [])
        if offset not in groups[key]:
            groups[key].append(offset)
        used = frozenset(x.axis for x in walk(e.args) if isinstance(x, Index))
        before = heads[key][1] if key in heads else frozenset()
        heads[key] = (Leaf(e.node, e.component), before | used, kind, boundary)
    found = []
    outer = outer_axes(node)
    for key, offsets in groups.items():
        leaf, used, kind, boundary = heads[key]
        access = Access(leaf, key[3], tuple(sorted(offsets)), kind, boundary, used)  # type: ignore[arg-type]
        found.append(_with_classes(access, outer))
    return found


def _inside(node: Node) -> tuple[tuple[Expr, ...], dict[tuple[Node, int], str]]:
    """The expressions that read, with the indices used in the interior; and the boundary conditions
    of arrays whose indices are resolved at a border, as in stencils over views."""
    bodies = read_bodies(node)
    if not isinstance(node, Generate):
        return bodies, {}
    inside = Inside({Index(k): n for k, n in enumerate(node.shape)})
    made = inside.of(bodies)
    if made == bodies or len(inside.kinds) != 1:
        return made, {}
    (kind,) = inside.kinds
    reads = {e for e in walk(bodies) if isinstance(e, Read)}
    reads -= inside.guarded
    moved = (e for e in walk(made) if isinstance(e, Read) and e not in reads)
    return made, {(e.node, e.component): kind for e in moved}


def index_map(
    args: Sequence[Expr], counting: set[Expr], memo: dict[Expr, Polynomial | None] | None = None
) -> tuple[str, tuple[tuple[tuple[Monomial, int], ...], ...] | None, tuple[int, ...]]:
    """(kind, linear parts, offsets) of one index tuple."""
    linear, offsets = [], []
    for a in args:
        p = polynomial(a, memo)
        if p is None or not _is_affine(p, counting):
            return (DATA if depends_on_data(a, counting) else COMPUTED), None, ()
        offsets.append(p.get((), 0))
        linear.append(tuple(sorted(((m, c) for m, c in p.items() if m), key=_term_order)))
    return "affine", tuple(linear), tuple(offsets)


def _term_order(term: tuple[Monomial, int]) -> tuple[object, ...]:
    return tuple(_first(_atom_order(e)) for e in term[0])


def _first(order: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort key of terms: indices precede scalars, extents and computed values."""
    return ({1: 0, 0: 1, 2: 2, 3: 3}[order[0]], *order[1:])


def _is_affine(p: Polynomial, counting: set[Expr]) -> bool:
    for monomial in p:
        moving = 0
        for atom in monomial:
            if isinstance(atom, Var) and atom not in counting:
                return False
            moving += isinstance(atom, Index | Var)
        if moving > 1:
            return False
    return True


def depends_on_data(e: Expr, counting: set[Expr] | None = None) -> bool:
    """Whether an index depends on elements or on the state of a loop."""
    known = counting or set()
    return any(
        isinstance(x, Read | While) or (isinstance(x, Var) and x not in known) for x in walk((e,))
    )


def _with_classes(access: Access, outer: int) -> Access:
    """The access with its reuse classes between elements of the (outer) domain."""
    classes: tuple[str, ...]
    if access.kind == DATA:
        classes = ("random",)
    elif access.kind == COMPUTED or access.linear is None:
        missing = [k for k in range(outer) if k not in access.mentioned]
        classes = _reuse(bool(missing and missing[-1] == outer - 1), bool(missing[:-1] or (
            missing and missing[-1] != outer - 1)))  # fmt: skip
    else:
        last = len(access.linear) - 1
        several = [
            len({o[k] for o in access.offsets}) > 1 or _slides(access.linear[k], outer)
            for k in range(last + 1)
        ]
        missing = [k for k in range(outer) if k not in access.mentioned]
        horizontal = (last >= 0 and several[last]) or (outer > 0 and outer - 1 in missing)
        vertical = any(several[:last]) or any(k != outer - 1 for k in missing)
        # As in a transposed read, neighbouring elements are rows apart in memory, and each cache
        # line also contains elements for the following rows.
        if outer > 1 and last > 0 and not horizontal:
            *rows, columns = (_axes(terms) for terms in access.linear)
            by_rows = bool(columns) and columns <= set(range(outer - 1))
            vertical = vertical or (by_rows and any(outer - 1 in axes for axes in rows))
        classes = _reuse(horizontal, vertical)
    return Access(access.leaf, access.linear, access.offsets, access.kind, access.boundary,
                  access.mentioned, classes)  # fmt: skip


def _axes(terms: Sequence[tuple[Monomial, int]]) -> set[int | Expr]:
    """The axes of the domain, and other atoms, on which an index depends."""
    atoms = {atom for monomial, _ in terms for atom in monomial}
    return {a.axis if isinstance(a, Index) else a for a in atoms if not isinstance(a, Extent)}


def _slides(terms: Sequence[tuple[Monomial, int]], outer: int) -> bool:
    """Whether an index depends on both an outer axis and an inner loop, as in `i + k`."""
    atoms = {atom for monomial, _ in terms for atom in monomial}
    inside = any(isinstance(a, Var) or (isinstance(a, Index) and a.axis >= outer) for a in atoms)
    return inside and any(isinstance(a, Index) and a.axis < outer for a in atoms)


def _reuse(horizontal: bool, vertical: bool) -> tuple[str, ...]:
    found = (("horizontal",) if horizontal else ()) + (("vertical",) if vertical else ())
    return found or ("streaming",)


# --- text ------------------------------------------------------------------------------------


def show_access(access: Access, name: Callable[[Expr], str]) -> str:
    """`[i + {-1, 0, 1}, j] clamp`, "computed from the indices" or "data-dependent"."""
    border = f" {access.boundary}" if access.boundary else ""
    if access.linear is None:
        count = "" if access.count == 1 else f" ({access.count} places)"
        words = "data-dependent" if access.kind == DATA else "computed from the indices"
        return f"[{words}]{count}{border}"
    parts, places = [], 1
    for axis, terms in enumerate(access.linear):
        offsets = sorted({o[axis] for o in access.offsets})
        places *= len(offsets)
        parts.append(_show_axis(terms, offsets, name))
    some = f" ({access.count} of {places} places)" if access.count < places else ""
    return f"[{', '.join(parts)}]{some}{border}"


def _show_axis(terms: Sequence[tuple[Monomial, int]], offsets: Sequence[int],
               name: Callable[[Expr], str]) -> str:  # fmt: skip
    text = show_terms(terms, name)
    if len(offsets) == 1:
        only = offsets[0]
        if not text:
            return str(only)
        return text if only == 0 else f"{text} {'+' if only > 0 else '-'} {abs(only)}"
    steps = offsets[-1] - offsets[0] == len(offsets) - 1
    inside = (f"{offsets[0]}…{offsets[-1]}" if steps and len(offsets) > 5
              else ", ".join(map(str, offsets)))  # fmt: skip
    return f"{text} + {{{inside}}}" if text else f"{{{inside}}}"


def show_terms(terms: Iterable[tuple[Monomial, int]], name: Callable[[Expr], str]) -> str:
    """`i + 2·j − n` for the terms of a polynomial (the constant is last).

    Extents are sorted by name: their node numbers depend on when the arrays were first used,
    possibly in another program.
    """

    def order(e: Expr) -> tuple[int, int, str]:
        kind, number, _ = _atom_order(e)
        return (kind, len(name(e)), name(e)) if isinstance(e, Extent) else (kind, number, "")

    ordered = [(sorted(m, key=order), c) for m, c in terms]
    ordered.sort(key=lambda t: (not t[0], [_first(order(a)) for a in t[0]]))
    text = ""
    for monomial, c in ordered:
        factors = "·".join(name(a) for a in monomial)
        size = abs(c)
        body = factors if size == 1 and factors else (f"{size}·{factors}" if factors else str(size))
        sign = "-" if c < 0 else "+"
        text = f"{text} {sign} {body}" if text else (f"-{body}" if c < 0 else body)
    return text


def show_polynomial(p: Polynomial, name: Callable[[Expr], str]) -> str:
    """A polynomial as text, with the constant last; "0" if it has no terms."""
    terms = sorted(((m, c) for m, c in p.items() if m), key=_term_order)
    if p.get(()):
        terms.append(((), p[()]))
    return show_terms(terms, name) or "0"
