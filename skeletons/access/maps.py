"""Index maps: where a kernel reads and writes every array, and the reuse that they imply.

An index map is a tuple of polynomials over the domain's axes, counted-loop indices, extents, scalar
arguments and the counters of loops over arrays.  It is affine if axes and loop indices occur to the
first power only; then the offsets of all reads of one array through the same linear part form one
`Access`, as in

    image[i + {-1, 0, 1}, j + {-1, 0, 1}] clamp

The classes are those of Prasetya (2021), section 4.3: horizontal (elements of one row share
reads), vertical (neighbouring rows share reads or cache lines), streaming (each value is read
once), random (indices depend on data; "deterministic" loads are the others: Koo et al. 2015).

With known extents, a map becomes a matrix:

    index along axis a of the array  =  Σ_k coefficients[a][k] · axis k  +  offsets[·][a]

over the axes of the domain (outputs first, then folded axes and counted loops).  NumPy evaluates
other indices computed from these axes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl import expr as ex, graph
from treadle.dsl.analysis.borders import Inside
from treadle.dsl.analysis.bounds import is_counter
from treadle.dsl.analysis.polynomial import Forms, Polynomial, polynomial
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Leaf, Node
from treadle.dsl.graphs.names import evaluate
from treadle.dsl.passes.cost import UNKNOWN_TRIP_COUNT, operations
from treadle.dsl.process.locks import cached
from treadle.dsl.records import dataclass
from treadle.dsl.types import complex128, float64

AFFINE, COMPUTED, DATA = "affine", "computed", "data"
HORIZONTAL, VERTICAL, STREAMING, RANDOM = "horizontal", "vertical", "streaming", "random"

Points = NDArray[np.int64]


def counters(roots: Iterable[Expr]) -> set[Expr]:
    """The index variables of counted loops, which may occur in index maps."""
    return {e.vars[0] for e in ex.walk(roots) if isinstance(e, ex.Loop)}


@dataclass(frozen=True)
class Access:
    """All reads of one array through one linear index map, or its writes (`store`).

    `linear`: for each axis of the array, the map without its constant (None: not affine).
    `offsets`: the constant vectors that occur.  `kind`: "affine", "computed" (not affine, but from
    indices alone) or "data".  `boundary`: the boundary condition; None: always in range.
    `mentioned`: the axes of the domain in the map.  `classes`, most local first: "horizontal"
    (shared by elements of a row), "vertical" (neighbouring rows share elements, or their cache
    lines, as in a transposed read), "streaming" (touched once, along a row) or "random"
    (data-dependent indices).
    """

    leaf: Leaf
    linear: tuple[Polynomial[Expr], ...] | None
    offsets: tuple[tuple[int, ...], ...]
    kind: str
    boundary: str | None
    mentioned: frozenset[int]
    classes: tuple[str, ...] = ()
    store: bool = False

    @property
    def count(self) -> int:
        """Reads per element of the domain; reads in loops count once."""
        return len(self.offsets)


def outer_axes(node: Node) -> int:
    """The number of axes of the domain with a thread or a task per element."""
    if isinstance(node, graph.Fold | graph.StoringFold | graph.CrossedFolds) and node.outer:
        return len(node.outer)
    return len(node.iteration_space())


def read_bodies(node: Node) -> tuple[Expr, ...]:
    """The expressions that read, over the axes of the domain; a product's k is the last axis."""
    if isinstance(node, graph.Matmul):
        rank = len(node.batch) + 2
        left = ex.substitute((node.left,), {ex.Index(rank - 1): ex.Index(rank)})
        right = ex.substitute((node.right,), {ex.Index(rank - 2): ex.Index(rank)})
        folded = node.elements if isinstance(node, graph.FoldingMatmul) else ()
        if isinstance(node, graph.StoringMatmul):
            folded = ex.substitute(folded, {ex.Index(node.inner): ex.Index(rank)})
        return (*left, *right, *node.epilogue, *folded)
    if isinstance(node, graph.Permute):
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
    memo: Forms = {}
    for e in ex.walk(bodies):
        if not isinstance(e, ex.Read):
            continue
        kind, linear, offset = index_map(e.args, counting, memo)
        boundary = e.boundary or seen_through.get((e.node, e.component))
        key: tuple[object, ...] = (e.node, e.component, kind, linear, boundary)
        if kind != AFFINE:
            offset = (len(groups.get(key, ())),)
        groups.setdefault(key, [])
        if offset not in groups[key]:
            groups[key].append(offset)
        used = frozenset(x.axis for x in ex.walk(e.args) if isinstance(x, ex.Index))
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
    if not isinstance(node, graph.Generate):
        return bodies, {}
    inside = Inside({ex.Index(k): n for k, n in enumerate(node.shape)})
    made = inside.of(bodies)
    if made == bodies or len(inside.kinds) != 1:
        return made, {}
    (kind,) = inside.kinds
    reads = {e for e in ex.walk(bodies) if isinstance(e, ex.Read)}
    reads -= inside.guarded
    moved = (e for e in ex.walk(made) if isinstance(e, ex.Read) and e not in reads)
    return made, {(e.node, e.component): kind for e in moved}


def index_map(
    args: Sequence[Expr], counting: set[Expr], memo: Forms | None = None
) -> tuple[str, tuple[Polynomial[Expr], ...] | None, tuple[int, ...]]:
    """(kind, linear parts, offsets) of one index tuple."""
    linear, offsets = [], []
    memo = {} if memo is None else memo
    memo.update((e, Polynomial.atom(e)) for e in ex.walk(args) if is_counter(e))
    for a in args:
        p = polynomial(a, memo)
        if p is None or not _is_affine(p, counting):
            return (DATA if depends_on_data(a, counting) else COMPUTED), None, ()
        offsets.append(p.constant)
        linear.append(p.nonconstant)
    return AFFINE, tuple(linear), tuple(offsets)


def _is_affine(p: Polynomial[Expr], counting: set[Expr]) -> bool:
    for monomial in p.terms:
        moving = 0
        for atom in monomial:
            if isinstance(atom, ex.Var) and atom not in counting:
                return False
            moving += isinstance(atom, ex.Index | ex.Var)
        if moving > 1:
            return False
    return True


def depends_on_data(e: Expr, counting: set[Expr] | None = None) -> bool:
    """Whether an index depends on elements or on the state of a loop, other than counters."""
    known = counting or set()
    return any(
        (isinstance(x, ex.Read | ex.While) and not is_counter(x))
        or (isinstance(x, ex.Var) and x not in known)
        for x in ex.walk((e,))
    )


def _with_classes(access: Access, outer: int) -> Access:
    """The access with its reuse classes between elements of the (outer) domain."""
    classes: tuple[str, ...]
    if access.kind == DATA:
        classes = (RANDOM,)
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
            *rows, columns = map(_moved_by, access.linear)
            by_rows = bool(columns) and columns <= set(range(outer - 1))
            vertical = vertical or (by_rows and any(outer - 1 in axes for axes in rows))
        classes = _reuse(horizontal, vertical)
    return replace(access, classes=classes)


def _moved_by(p: Polynomial[Expr]) -> set[int | Expr]:
    """The axes of the domain, and other atoms, on which an index depends."""
    return {
        a.axis if isinstance(a, ex.Index) else a for a in p.atoms() if not isinstance(a, ex.Extent)
    }


def _slides(p: Polynomial[Expr], outer: int) -> bool:
    """Whether an index depends on both an outer axis and an inner loop, as in `i + k`."""
    atoms = p.atoms()
    inside = any(
        isinstance(a, ex.Var) or (isinstance(a, ex.Index) and a.axis >= outer) for a in atoms
    )
    return inside and any(isinstance(a, ex.Index) and a.axis < outer for a in atoms)


def _reuse(horizontal: bool, vertical: bool) -> tuple[str, ...]:
    found = ((HORIZONTAL,) if horizontal else ()) + ((VERTICAL,) if vertical else ())
    return found or (STREAMING,)


# --- with cache lines -------------------------------------------------------------------------


def access_classes(node: Node) -> tuple[Access, ...]:
    """Every array that a kernel reads, then every array that it writes, classified by cache lines.

    Operands of the node itself (defaults of a permute, offsets of segments) are streaming reads.
    """
    outer = outer_axes(node)
    found = [replace(a, classes=_line_classes(a, outer)) for a in accesses(node)]
    found += [_in_order(leaf) for leaf in node.operands()]
    return (*found, *stores(node))


def _in_order(leaf: Leaf, store: bool = False) -> Access:
    """The access of each element of an array by the element of the domain with its index."""
    own: list[Expr] = [ex.Index(k) for k in range(len(leaf.shape))]
    linear, offset = tuple(map(Polynomial.atom, own)), (0,) * len(own)
    return Access(leaf, linear, (offset,), AFFINE, None, frozenset(range(len(own))), (STREAMING,),
                  store)  # fmt: skip


def stores(node: Node) -> list[Access]:
    """How a kernel writes each of its results."""
    if not isinstance(node, graph.Permute):
        return [_in_order(leaf, True) for leaf in node.leaves]
    kind, linear, offset = index_map(node.target, counters(node.target))
    used = frozenset(x.axis for x in ex.walk(node.target) if isinstance(x, ex.Index))
    last = len(node.domain) - 1
    if kind == DATA:
        classes = (RANDOM,)
    elif len(used) <= last:  # several elements have one target
        classes = (VERTICAL,) if last in used else (HORIZONTAL,)
    else:
        straight = last < 1 or (linear is not None and _follows(linear, last))
        classes = (STREAMING,) if straight else (VERTICAL,)
    return [Access(leaf, linear, (offset,), kind, None, used, classes, True)
            for leaf in node.leaves]  # fmt: skip


def _line_classes(access: Access, outer: int) -> tuple[str, ...]:
    """The classes with cache lines considered, not only elements: a streaming read whose last axis
    does not follow the last axis of the domain shares its lines between rows."""
    if access.classes != (STREAMING,) or outer < 2 or not access.linear:
        return access.classes
    return access.classes if _follows(access.linear, outer - 1) else (VERTICAL,)


def _follows(linear: Sequence[Polynomial[Expr]], axis: int) -> bool:
    """Whether the last axis of an array moves with an axis of the domain, and no other does."""
    *others, last = map(_moved_by, linear)
    return axis in last and not any(axis in other for other in others)


# --- text ------------------------------------------------------------------------------------


def show_access(access: Access, text: Callable[[Polynomial[Expr]], str]) -> str:
    """`[i + {-1, 0, 1}, j] clamp`, "computed from the indices" or "data-dependent"; `text` writes a
    form of indices."""
    border = f" {access.boundary}" if access.boundary else ""
    if access.linear is None:
        count = "" if access.count == 1 else f" ({access.count} indices)"
        words = "data-dependent" if access.kind == DATA else "computed from the indices"
        return f"[{words}]{count}{border}"
    parts, positions = [], 1
    for axis, form in enumerate(access.linear):
        offsets = sorted({o[axis] for o in access.offsets})
        positions *= len(offsets)
        if len(offsets) == 1:
            parts.append(text(form + offsets[0]) or "0")
        else:
            parts.append(_show_offsets(text(form), offsets))
    some = f" ({access.count} of {positions} points)" if access.count < positions else ""
    return f"[{', '.join(parts)}]{some}{border}"


def _show_offsets(text: str, offsets: Sequence[int]) -> str:
    steps = offsets[-1] - offsets[0] == len(offsets) - 1
    inside = (f"{offsets[0]}…{offsets[-1]}" if steps and len(offsets) > 5
              else ", ".join(map(str, offsets)))  # fmt: skip
    return f"{text} + {{{inside}}}" if text else f"{{{inside}}}"


# --- for known extents -----------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """One array through one index map, for known extents.

    `element`: bytes; `shape`: the array's extents; `coefficients[a][k]`, `offsets[n][a]`: see the
    module (no coefficients if the map is not affine; a computed map then has `compute`, which gives
    the indices of points, one row each).  `iterations`: how often an output makes each access
    (loops and folded axes).  `rows`: data chooses the row that is read, but neighbours along the
    last axis of the domain are contiguous in it.
    """

    leaf: Leaf
    store: bool
    kind: str
    classes: tuple[str, ...]
    element: int
    shape: tuple[int, ...]
    coefficients: tuple[tuple[int, ...], ...] = ()
    offsets: tuple[tuple[int, ...], ...] = ()
    iterations: float = 1.0
    compute: Callable[[Points], Points] | None = None
    rows: bool = False

    @cached
    def pitch(self) -> tuple[int, ...]:
        """Elements from one index to the next along every axis: row-major, dense."""
        steps = [1]
        for n in self.shape[:0:-1]:
            steps.append(_wrapped(steps[-1] * max(n, 1)))
        return tuple(reversed(steps))[-len(self.shape) :] if self.shape else ()

    @property
    def taps(self) -> int:
        """Accesses of one iteration of one output."""
        return max(len(self.offsets), 1)

    @cached
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along every axis of the domain (affine maps)."""
        rank = len(self.coefficients[0]) if self.coefficients else 0
        return tuple(
            sum(c[k] * p for c, p in zip(self.coefficients, self.pitch, strict=True))
            for k in range(rank)
        )

    @cached
    def parts(self) -> tuple[Map, ...]:
        """This map; or one map for each row that its taps are in, if their bounding box has other
        rows as well (a star of 13 points in space has taps in 9 of 25 rows)."""
        if not self.coefficients or not self.shape:
            return (self,)
        rows: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for o in self.offsets:
            rows.setdefault(o[:-1], []).append(o)
        around = math.prod(max(a) - min(a) + 1 for a in zip(*rows, strict=True))
        if len(rows) == around:
            return (self,)
        return tuple(replace(self, offsets=tuple(taps)) for taps in rows.values())

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.element

    def indices(self, points: Points) -> Points:
        """Array indices (taps · points, array rank) of points of the domain (points, axes),
        as written: a boundary is not applied."""
        if self.compute is not None:
            return self.compute(points)
        c = np.array(self.coefficients, np.int64).reshape(len(self.shape), points.shape[1])
        linear = points @ c.T
        offsets = np.array(self.offsets, np.int64).reshape(-1, 1, len(self.shape))
        return (linear[None, :, :] + offsets).reshape(-1, len(self.shape))

    def addresses(self, points: Points) -> NDArray[np.int64]:
        """Byte addresses from the start of the array; indices outside go to the nearest edge."""
        if not self.shape:
            return np.zeros(len(points), np.int64)
        inside = np.clip(self.indices(points), 0, np.maximum(np.array(self.shape) - 1, 0))
        return (inside @ np.array(self.pitch, np.int64)) * self.element


def _wrapped(number: int) -> int:
    """An integer as kernels compute indices and addresses: modulo 2⁶⁴, signed."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


@dataclass(frozen=True)
class KernelMaps:
    """What the model needs to know of a kernel's memory accesses: its domain and its maps.

    `node`, `known`: what the maps were made of. `outputs`: extents of the axes that threads and
    tasks divide, (1,) for a single output; `inner`: of the folded axes and counted loops of
    every output; `operations`, `loads`: additions and reads per output; `shared`: additions
    that neighbours along the last axis but one have in common; `doubles`: additions of 64-bit
    floats. `state`: bytes that its loops carry between iterations; `regular`: whether the trip
    counts of all loops are the same for every output. `binned`: it combines into so few
    elements that each block of a GPU has a copy of them. `memo`: results of the model, by what
    they depend on; `lowerings`: kernels, which do not depend on extents.
    """

    node: Node
    known: Mapping[Expr, int]
    outputs: tuple[int, ...]
    inner: tuple[int, ...]
    maps: tuple[Map, ...]
    operations: float
    loads: float
    shared: float = 0.0
    state: int = 0
    regular: bool = True
    binned: bool = False
    doubles: float = 0.0
    memo: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    lowerings: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """The number of outputs."""
        return math.prod(self.outputs)

    @property
    def reads(self) -> tuple[Map, ...]:
        return tuple(m for m in self.maps if not m.store)

    @property
    def stores(self) -> tuple[Map, ...]:
        return tuple(m for m in self.maps if m.store)


def kernel_maps(node: Node, known: Mapping[Expr, int]) -> KernelMaps | None:
    """The maps of a kernel for known extents; None if an extent of the domain is unknown.

    `known` maps extents of inputs to integers, like `Names.known` of a program.
    """
    shapes = _axes(node)
    if shapes is None:
        return None
    outer = [evaluate(e, known) for e in shapes[0]]
    folded = [evaluate(e, known) for e in shapes[1]]
    if any(n is None for n in (*outer, *folded)):
        return None
    bodies = read_bodies(node)
    loops = [e for e in ex.walk(bodies) if isinstance(e, ex.Loop)]
    counts = {e.vars[0]: _count(e, known) for e in loops}
    rank, around = len(outer), math.prod(n or 0 for n in folded)
    axes: dict[Expr, int] = {ex.Index(k): k for k in range(rank + len(folded))}
    axes.update({v: rank + len(folded) + k for k, v in enumerate(counts)})
    inner = (*(int(n or 0) for n in folded), *counts.values())
    trips = _iterations(bodies, counts)
    maps = []
    for access in accesses(node):
        times = max((trips.get(e, 1.0) for e in ex.walk(bodies) if _is_of(e, access)), default=1.0)
        made = _numeric(access, axes, known, times * max(around, 1))
        made = replace(made, classes=_line_classes(access, rank),
                       rows=made.kind == DATA and _in_rows(access, bodies, rank))  # fmt: skip
        maps.append(made if made.kind != COMPUTED else _computed(made, bodies, axes, known))
    for access in stores(node):  # a computed target is like a random one
        kind = DATA if access.kind == COMPUTED else access.kind
        maps.append(replace(_numeric(access, axes, known, 1.0), store=True, kind=kind))
    bodies = node.per_element()
    combine = getattr(node, "combine", None)
    work = sum(_work(e, trips) for e in ex.walk(bodies)) if combine is None else operations(bodies)
    if isinstance(node, graph.Matmul):
        work = 2.0
    if combine is not None:
        work += operations(combine.results)
    moving = _moving(bodies, ex.Index(rank - 2)) if rank > 1 else set()
    shared = sum(_work(e, trips) for e in ex.walk(bodies) if e not in moving) if moving else 0.0
    if any(isinstance(e, ex.While) for e in ex.walk(bodies)):
        shared = 0.0  # each output has its own trip count
    doubles = sum(_work(e, trips) for e in ex.walk(bodies) if _is_double(e))
    loads = sum(m.taps * m.iterations for m in maps if not m.store)
    if not rank:
        maps = [_of_one(m) for m in maps]
    return KernelMaps(node, known, tuple(int(n or 0) for n in outer) if rank else (1,), inner,
                      tuple(maps), work * max(around, 1), loads, min(shared, work),
                      max((sum(t.bytes for t in e.types) for e in loops), default=0),
                      all(evaluate(e.count, known) is not None for e in loops)
                      and not any(isinstance(e, ex.While) for e in ex.walk(bodies)),
                      _binned(node, maps), doubles * max(around, 1))  # fmt: skip


def _of_one(m: Map) -> Map:
    """A map of a single output, with an axis of extent 1 for it, as walks over outputs expect."""
    coefficients = tuple((0, *row) for row in m.coefficients)
    inside = m.compute
    if inside is None:
        return replace(m, coefficients=coefficients)
    return replace(m, compute=lambda points: inside(points[:, 1:]))


#: Bytes of results of which each block of a GPU can have a copy (`lower/scatter/gpu.py`).
_BINS = 192 << 10


def _binned(node: Node, maps: Sequence[Map]) -> bool:
    combine = node.combine if isinstance(node, graph.Permute) else None
    combined = combine is not None and combine.results != combine.left
    return combined and sum(m.size for m in maps if m.store) <= _BINS


def _work(e: Expr, iterations: Mapping[Expr, float]) -> float:
    """The cost of an expression itself, in additions per output; indices of reads are free."""
    if isinstance(e, ex.Foreign):
        return 50.0 * iterations.get(e, 0.0)
    return e.op.cost * iterations.get(e, 0.0) if isinstance(e, ex.Apply) else 0.0


def _is_double(e: Expr) -> bool:
    """Whether an expression uses the units for 64-bit floats; comparisons of them do."""
    return any(t in (float64, complex128) for t in (e.type, *(a.type for a in e.args)))


def _moving(bodies: Sequence[Expr], index: Expr) -> set[Expr]:
    """The expressions that depend on an index; states of loops are taken to."""
    counting = counters(bodies)
    found: set[Expr] = set()
    for e in ex.walk(bodies):
        state = isinstance(e, ex.Var) and e not in counting
        if e is index or state or any(x in found for x in (*e.args, *e.scoped)):
            found.add(e)
    return found


def _axes(node: Node) -> tuple[Sequence[Expr], Sequence[Expr]] | None:
    match node:
        case graph.Generate() | graph.Scan() | graph.Recurrence():
            return node.shape, ()
        case graph.Fold() | graph.StoringFold() | graph.CrossedFolds():
            return node.outer, node.inner
        case graph.Permute():
            return node.domain, ()
        case graph.Matmul():
            return (*node.batch, node.m, node.n), (node.k,)
    return None


def _count(loop: ex.Loop, known: Mapping[Expr, int]) -> int:
    found = evaluate(loop.count, known)
    return int(UNKNOWN_TRIP_COUNT) if found is None else max(found, 0)


def _iterations(bodies: Iterable[Expr], counts: Mapping[ex.Var, int]) -> dict[Expr, float]:
    """How often an output evaluates each expression: the iterations of the loops whose index or
    state it depends on; loop-invariant expressions are computed before the loop.

    Indices of reads are excluded: they are cheap."""
    bodies = tuple(bodies)
    within: dict[Expr, frozenset[Expr]] = {}  # index and states that an expression depends on
    loops: dict[Expr, tuple[Expr, float]] = {}  # the loop of an index or state, and its iterations
    for e in ex.walk(bodies):
        found = frozenset().union(*(within[x] for x in (*e.args, *e.scoped)))
        within[e] = (found | {e} if isinstance(e, ex.Var) else found).difference(e.vars)
        if isinstance(e, ex.Loop | ex.While):
            iterations = counts[e.vars[0]] if isinstance(e, ex.Loop) else UNKNOWN_TRIP_COUNT
            loops.update((v, (e, iterations)) for v in e.vars)
    evaluated: set[Expr] = set()
    stack: list[Expr] = list(bodies)
    while stack:
        e = stack.pop()
        if e not in evaluated:
            evaluated.add(e)
            stack += e.scoped if isinstance(e, ex.Read) else (*e.args, *e.scoped)
    return {e: math.prod(dict(loops[v] for v in within[e] if v in loops).values(), start=1.0)
            for e in evaluated}  # fmt: skip


def _is_of(e: Expr, access: Access) -> bool:
    return isinstance(e, ex.Read) and Leaf(e.node, e.component) == access.leaf


def _in_rows(access: Access, bodies: Sequence[Expr], rank: int) -> bool:
    """Whether all reads of an array have the domain's last axis as last index, and only there."""
    last = ex.Index(rank - 1)
    return rank > 1 and all(
        e.args[-1] is last and not any(last in ex.walk((a,)) for a in e.args[:-1])
        for e in ex.walk(bodies) if _is_of(e, access)
    )  # fmt: skip


def _shape(leaf: Leaf, known: Mapping[Expr, int]) -> tuple[int, ...]:
    """Extents; unknown ones are taken to be as large as fits an array."""
    found = [evaluate(e, known) for e in leaf.shape]
    large = 1 << min(20, 40 // max(found.count(None), 1))
    return tuple(large if n is None else max(n, 0) for n in found)


def _numeric(access: Access, axes: Mapping[Expr, int], known: Mapping[Expr, int], iterations: float
             ) -> Map:  # fmt: skip
    leaf = access.leaf
    plain = Map(leaf, False, access.kind, access.classes, leaf.type.bytes, _shape(leaf, known),
                iterations=iterations)  # fmt: skip
    if access.linear is None:
        return replace(plain, offsets=tuple(() for _ in access.offsets))
    coefficients, constants = [], []
    for form in access.linear:
        row, fixed = [0] * len(axes), 0
        for monomial, c in form.terms.items():
            factor = c
            moving = [a for a in monomial if a in axes]
            for atom in monomial:
                if atom not in axes:
                    value = evaluate(atom, known)
                    factor *= 1 if value is None else value
            if moving:
                row[axes[moving[0]]] += factor
            else:
                fixed += factor
        coefficients.append(tuple(map(_wrapped, row)))
        constants.append(fixed)
    offsets = tuple(
        tuple(_wrapped(o + c) for o, c in zip(offset, constants, strict=True))
        for offset in access.offsets
    )
    return replace(plain, coefficients=tuple(coefficients), offsets=offsets)


def _computed(plain: Map, bodies: Sequence[Expr], axes: Mapping[Expr, int],
              known: Mapping[Expr, int]) -> Map:  # fmt: skip
    """A map that NumPy evaluates; random if it cannot."""
    reads = [e for e in ex.walk(bodies) if isinstance(e, ex.Read)
             and Leaf(e.node, e.component) == plain.leaf]  # fmt: skip
    counting = counters(bodies)
    computed = [e for e in reads if index_map(e.args, counting)[0] == COMPUTED]

    def indices(points: Points) -> Points:
        here: dict[Expr, Any] = {a: points[:, k] for a, k in axes.items() if k < points.shape[1]}
        found = [
            np.stack([np.broadcast_to(values_at(a, here, known), len(points)) for a in e.args], 1)
            for e in computed
        ]
        return np.concatenate(found)

    try:
        indices(np.zeros((1, len(axes)), np.int64))
    except KeyError:
        return replace(plain, kind=DATA, classes=(RANDOM,))
    return replace(plain, compute=indices, offsets=tuple(() for _ in computed))


def values_at(root: Expr, here: Mapping[Expr, Any], known: Mapping[Expr, int]) -> Any:
    """The value of an index expression over arrays of indices, by NumPy; KeyError if it depends on
    anything else."""
    found: dict[Expr, Any] = {}
    for e in ex.walk((root,)):
        if e in here:
            found[e] = here[e]
        elif isinstance(e, ex.Const):
            found[e] = e.value
        elif isinstance(e, ex.Apply):
            found[e] = e.value([found[a] for a in e.args])
        else:
            found[e] = known[e]
    return found[root]
