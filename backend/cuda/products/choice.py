"""The choice of what computes a product, and which of its parts become separate kernels.

    engine    one of our tile engines, with the parts that it computes as it loads and stores tiles
    library   cuBLAS, or a recursion over its products: plain operands and plain results
    kernel    a kernel of the skeletons, with all parts fused: for every type

`decide` makes this decision for execution, `explain()` and `source()` alike.  A part fused into an
engine costs instructions beyond its multiply-adds, once for every tile that reads an element; a
separate kernel costs a pass over memory.  The cost of each alternative, with each choice of
separate parts, is predicted from measurements on the device; the cheapest alternative is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import inf
from typing import Any

from treadle.dsl.analysis.polynomial import polynomial
from treadle.dsl.expr import Const, Expr, Index, Read, constant, walk
from treadle.dsl.graph import FoldedMatmul, Matmul, StoringMatmul
from treadle.dsl.graphs.interning import cached_per_object
from treadle.dsl.graphs.names import Names
from treadle.dsl.passes import cost, operands
from treadle.dsl.program import TracedProgram
from treadle.dsl.text import duration
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.specialise import specialise
from treadle.skeletons.products import STRASSEN, algorithm_of, instances
from treadle.skeletons.products.kernel_gpu import parts_along
from treadle.skeletons.products.measured import ceilings, corrected
from treadle.skeletons.products.model import H200, HOPPER_FLOAT32, Machine, predict
from treadle.skeletons.products.small import on_gpu

from ...runtime.operand import plain
from .engine import Engine, engine_for
from .form import AMPERE, Form, form_of, machine_of
from .fused import pieces_of
from .ways import (
    STEADY,
    VARIES,
    kernel_seconds,
    named,
    predicted,
    refused,
    tensor_seconds,
    unsure,
    way_in,
)

LEFT, RIGHT, EPILOGUE, ROWS = "left operand", "right operand", "epilogue", "fold of rows"
STORED = "stored operand"
ENGINE, LIBRARY, KERNEL = "engine", "library", "kernel"
#: The fraction of the product's time that an operand fused into the loads may cost, even if a pass
#: over memory costs less: the pass needs memory for its result.
ALLOWED = 0.02
#: Costs as fractions of the product's time, beyond instructions: of a second array in an operand
#: (read as often as the first, and held in registers of the same threads), and of an array along
#: one index, whose latency is exposed (more in "split"; benchmarks/matmul/NOTES.md, "Fused").
SECOND, ALONG, ALONG_SPLIT = 0.02, 0.04, 0.18
#: Seconds of a small kernel after another one, of an epilogue in an engine's tiles, and the extra
#: host time of calling a library or an engine instead of launching a kernel.
#: `SMALL`, `DEEPER`: of a small product of the library, and of each 256 steps of its inner axis
#: (measured on an NVIDIA H200: benchmarks/matmul/NOTES.md, "Layers").
LAUNCH, FINISH, HOST = 3e-6, 5.5e-6, 2.5e-6
SMALL, DEEPER = 2e-6, 1.8e-8
#: The time of several small products along leading axes, relative to a square product of as many
#: multiply-adds.
SEVERAL = 0.65
#: The arithmetic whose measurements contain the library's times for a type; default: float32's.
LIBRARY_OF = {"float64": "Float64", "float16": "Float16", "bfloat16": "BFloat16"}
TF32 = "Float32Tf32"
#: Executions in which the launch that completes a block of C is known.
FINISHING = ("owner", "persistent", "sequential", "streams")

Size = tuple[int, int, int]
"""Extents m, k, n of an (m, k) by (k, n) product."""


@dataclass(frozen=True)
class Decision:
    """`by`: ENGINE, LIBRARY or KERNEL; `way`: (execution, levels) of the engine with `form`;
    `separate`: the parts that are separate kernels; `why`: the reason for each part; `prices`: the
    predicted seconds of the alternatives, described, the chosen one first (empty if not chosen by
    time)."""

    by: str
    separate: frozenset[str] = frozenset()
    why: dict[str, str] = field(default_factory=dict)
    way: tuple[str, int] | None = None
    form: Form | None = None
    prices: tuple[tuple[str, float], ...] = ()


def parts_of(node: Matmul) -> tuple[str, ...]:
    """The parts that a library's product cannot compute: computed operands, an epilogue, a fold of
    the rows, and an operand that is stored and folded."""
    stored = (LEFT, RIGHT)[node.side] if isinstance(node, StoringMatmul) else ""
    sides = tuple(
        STORED if name == stored else name
        for name, e in ((LEFT, node.left), (RIGHT, node.right)) if name == stored or not plain(e)
    )  # fmt: skip
    if isinstance(node, FoldedMatmul):
        return (*sides, ROWS)
    return sides if node.epilogue == (node.result,) else (*sides, EPILOGUE)


def decide(engine: Engine | None, node: Matmul, size: Size, *, processors: int | None = None,
           checked: bool = False, scattered: frozenset[str] | None = None, count: int = 1
           ) -> Decision:  # fmt: skip
    """The decision for an (m, k) by (k, n) product, or `count` of them along leading axes.

    `engine`: that of the GPU, or None; `processors`: the number of multiprocessors, if there is no
    engine.  `checked`: indices are tested, which engines do not do.  `scattered`: operands whose
    arrays are contiguous along different indices (default: as for dense arrays).  Raises
    ScheduleError if the engine does not have a requested execution.
    """
    t, options, parts = node.left.type, node.options, parts_of(node)
    if t.family == "bool":
        return Decision(KERNEL, why=dict.fromkeys(parts, "in the kernel"))
    if engine is not None:
        processors = engine.device.multiprocessors
    form = (
        None if engine is None else form_of(t, size, processors or 1, options, engine.device.arch)
    )
    error = refused(node, form)
    if error is not None:
        raise error
    way = None
    if engine is not None and form is not None and 0 not in size:
        way = way_in(node, engine, form, size)
    named = algorithm_of(options.algorithm) is not None and options.levels
    case = _Case(node, size, parts, engine, form, processors or H200.processors, checked,
                 dense_scattered(node) if scattered is None else scattered, count)  # fmt: skip
    if way is not None and way[1]:
        return case.fast(way)
    if named:
        reason = "a kernel of its own: no engine computes the product at these extents"
        return Decision(LIBRARY, frozenset(parts), dict.fromkeys(parts, reason))
    if on_gpu(t, size, count, plain=not parts):
        why, apart = dict.fromkeys(parts, "in the kernel"), {ROWS, STORED}.intersection(parts)
        for name in apart:
            why[name] = "a kernel of its own: a warp computes a product"
        return Decision(KERNEL, frozenset(apart), why)
    if parts:
        return case.cheapest()
    if way is not None:
        return Decision(ENGINE, way=way, form=form)
    return Decision(LIBRARY if t.is_inexact else KERNEL)


def decided(program: Any, node: Matmul, device: Any) -> Decision | None:
    """The decision for a program's examples on a device; None if the extents are unknown."""
    names = Names(program)
    m, k, n, count = (names.size(s) for s in ((node.m,), (node.k,), (node.n,), node.batch))
    if m is None or k is None or n is None:
        return None
    return decide(engine_for(device), node, (m, k, n), processors=device.multiprocessors,
                  checked=program.settings.check, count=1 if count is None else count)  # fmt: skip


def small_product(program: TracedProgram, node: Matmul) -> Matmul | None:
    """The product with the extents of a program's examples as constants, if the kernel for many
    small products computes it; None otherwise."""
    names = Names(program)
    sizes = {e: names.size((e,)) for e in (node.m, node.k, node.n)}
    known = {e: n for e, n in sizes.items() if n is not None}
    count, named = names.size(node.batch), algorithm_of(node.options.algorithm) is not None
    if len(known) < len(sizes) or count is None or (named and node.options.levels):
        return None
    m, k, n = (known[e] for e in (node.m, node.k, node.n))
    if not on_gpu(node.left.type, (m, k, n), count, plain=not parts_of(node)):
        return None
    made = specialise(node, {e: n for e, n in known.items() if not isinstance(e, Const)})
    assert isinstance(made, Matmul)
    return made


@cached_per_object(16)
def fitting(node: Matmul, separate: frozenset[str]) -> bool:
    """Whether an engine's launch has enough words for the arguments of the parts not `separate`."""
    return pieces_of(None, node, separate) is not None


def dense_scattered(node: Matmul) -> frozenset[str]:
    """Computed operands whose arrays, taken as dense, are contiguous along different indices."""
    found = set()
    for name, e in ((LEFT, node.left), (RIGHT, node.right)):
        steps = {_along(r.args) for r in (operands.sources(e) or ())} if not plain(e) else set()
        if len(steps) > 1:
            found.add(name)
    return frozenset(found)


def _along(indices: Sequence[Expr]) -> int:
    """The index along which reads of a dense array are contiguous; -1 if there is none."""
    forms = [polynomial(a) for a in indices]
    for axis in (0, 1):
        steps = [0 if f is None else f.coefficient(Index(axis)) for f in forms]
        if steps[-1] == 1 and not any(steps[:-1]):
            return axis
    return -1


@dataclass(frozen=True)
class _Alternative:
    """`product`: seconds without the parts; `seconds`: the total; `price`: what is compared."""

    by: str
    separate: frozenset[str]
    product: float
    seconds: float
    price: float
    execution: str = ""

    def words(self) -> str:
        who = {ENGINE: "the tile engine", LIBRARY: "cuBLAS", KERNEL: "a kernel of treadle's"}
        count = len(self.separate)
        text = who[self.by] + (f" ({self.execution})" if self.execution else "")
        return text + (f" and {count} separate kernel{'s' * (count > 1)}" if count else "")


@dataclass(frozen=True)
class _Case:
    """A product with its extents (see `decide`)."""

    node: Matmul
    size: Size
    parts: tuple[str, ...]
    engine: Engine | None
    form: Form | None
    processors: int
    checked: bool
    scattered: frozenset[str]
    count: int

    @property
    def arch(self) -> str:
        return "sm_90a" if self.engine is None else self.engine.device.arch

    @property
    def on(self) -> Machine:
        return machine_of(self.arch, self.processors)

    # --- the cost of a part ---

    def operand(self, name: str) -> Expr:
        return self.node.left if self._is_left(name) else self.node.right

    def _is_left(self, name: str) -> bool:
        return name == LEFT or (
            name == STORED and isinstance(self.node, StoringMatmul) and not self.node.side
        )

    def passing(self, name: str) -> float:
        """Seconds of a separate kernel for a part."""
        m, k, n = self.size
        if name == ROWS and isinstance(self.node, FoldedMatmul):
            whole = [e for e in walk(self.node.elements) if isinstance(e, Read) and _varies(e)]
            elements, arrays = m * n, len(whole) + (1 if self.node.epilogue else 2)
        elif name == EPILOGUE:
            elements = m * n
            whole = [e for e in walk(self.node.epilogue) if isinstance(e, Read) and _varies(e)]
            arrays = 1 + len(self.node.epilogue) + len(whole)
        else:
            elements = m * k if self._is_left(name) else k * n
            arrays = 1 + max(len(operands.sources(self.operand(name)) or ()), 1)
        moved = self.count * self.node.left.type.bytes * elements * arrays
        return moved / self.on.memory + LAUNCH

    def spent(self, name: str, way: tuple[str, int]) -> float:
        """The cost of computing an operand while tiles are loaded, as a fraction of the product's
        time."""
        assert self.form is not None
        if self.form.planes:  # as elements are split, once each
            return 0.0
        e, right, form = self.operand(name), name == RIGHT, self.form
        reads = operands.sources(e) or ()
        others = cost.loads((e,)) - len(reads)
        made = [len(i.b if right else i.a) for i in instances(STRASSEN)] if way[1] else [1]
        terms = sum(made) / len(made)
        if form.maps:  # by the consumers of a warpgroup, while those of the other one multiply
            slots = form.rows * form.step / 128 * (cost.operations((e,)) + 2 * others + 4)
            clocks = form.rows * form.columns * form.step / (self.on.tensor / 2)
            return max(slots / clocks - 0.5, 0.0)
        each = (form.columns if right else form.rows) * form.step / 128  # of a producer's stage
        slots = each * (cost.operations((e,)) + 2 * others)
        multiply = form.rows * form.columns * form.step / 128
        stage = multiply + HOPPER_FLOAT32.rest + HOPPER_FLOAT32.load
        found = slots / stage + SECOND * max(len(reads) - 1, 0)
        found += (ALONG_SPLIT if way[0] == "split" else ALONG) * others
        return terms * found

    def why_not_loaded(self, name: str, way: tuple[str, int] = ("", 0)) -> str:
        """Why an engine cannot compute an operand as it loads it; "" if it can."""
        assert self.form is not None
        e = self.operand(name)
        if self.node.batch or self.checked or operands.sources(e) is None:
            return "the engine loads arrays"
        if not self.form.producers:
            return "the engine of its type only loads operands"
        if name in self.scattered:
            return "its arrays walk memory along different axes"
        if self.form.maps:
            other = RIGHT if name == LEFT else LEFT
            if len(operands.sources(e) or ()) != 1:
                return "the engine loads one array of an operand"
            if not self._along_inner(other):
                return f"tensor cores read the {other} along k, which its lines are not"
        execution, levels = way
        if levels > 1 or (levels and execution == "recursive"):
            return "sums of its blocks are formed in memory"
        if levels and name == RIGHT and len(operands.sources(e) or ()) > 1:
            return "two arrays of two blocks each do not fit in registers"
        return ""

    def _along_inner(self, name: str) -> bool:
        """Whether an operand is contiguous along the inner index: a dense array by its indices; the
        result of a separate kernel has contiguous rows."""
        e, inner = self.operand(name), int(name == LEFT)
        reads = [q for q in walk((e,)) if isinstance(q, Read)] if plain(e) else []
        return _along(reads[0].args) == inner if reads else name == LEFT

    def _turning(self, inside: frozenset[str]) -> float:
        """Seconds of transposing an operand first, because neither is contiguous along the inner
        index; `inside`: the operands computed while tiles are loaded."""
        if not (self.form and self.form.maps and self.form.precision) or {LEFT, RIGHT} & inside:
            return 0.0
        if self._along_inner(LEFT) or self._along_inner(RIGHT):
            return 0.0
        m, k, n = self.size
        return 2 * self.node.left.type.bytes * min(m, n) * k / self.on.memory + LAUNCH

    def why_not_stored(self) -> str:
        """Why an engine cannot apply the epilogue as it stores; "" if it can."""
        node = self.node
        if node.batch or self.checked:
            return "the engine stores plain products" + " of leading axes" * bool(node.batch)
        if len(node.epilogue) != 1 or node.epilogue[0].type != node.left.type:
            return "the engine stores one array, of the product's type"
        return ""

    # --- Strassen's algorithm ---

    def fast(self, way: tuple[str, int]) -> Decision:
        """The decision for a fast algorithm in the engine: an execution with levels."""
        why: dict[str, str] = {}
        separate: set[str] = set()
        if EPILOGUE in self.parts:
            reason = self.why_not_stored()
            if reason:
                why[EPILOGUE] = f"a kernel of its own: {reason}"
            else:
                way, why[EPILOGUE] = self._finished(way)
            if reason or way[0] not in FINISHING:
                separate.add(EPILOGUE)
        for name in self.parts:
            if name == EPILOGUE:
                continue
            inside, reason = False, self.why_not_loaded(name, way)
            if not reason:
                inside, reason = self._weighed(name, way, self._modelled(way[1]))
            why[name] = reason if inside else f"a kernel of its own: {reason}"
            if not inside:
                separate.add(name)
        if not fitting(self.node, frozenset(separate)):
            separate = set(self.parts)
            why = dict.fromkeys(separate, f"a kernel of its own: {NO_SPACE}")
        return Decision(ENGINE, frozenset(separate), why, way, self.form)

    def _weighed(self, name: str, way: tuple[str, int], seconds: float) -> tuple[bool, str]:
        """Whether to compute an operand as tiles are loaded, for a product of `seconds`; and
        why."""
        spent, passing = self.spent(name, way), self.passing(name) / seconds
        work = cost.operations((self.operand(name),))
        word = f"{work:.0f} operation{'s' * (work != 1)} an element"
        word += f", {100 * spent:.1f} % of the time"
        if spent > max(ALLOWED, passing):
            return False, f"{word}, a pass over memory {100 * passing:.1f} %"
        if self.form is not None and self.form.planes:
            return True, "computed as its elements are split for tensor cores"
        reason = f"computed while tiles are loaded: {word}; a pass over memory would take "
        reason += f"{100 * passing:.1f} %"
        if spent > passing:
            m, k, n = self.size
            size = self.node.left.type.bytes * (m * k if name == LEFT else k * n)
            reason += (
                f" and {size:,} bytes for its result, for which up to {100 * ALLOWED:.0f} % "
                "are paid"
            )
        return True, reason

    def _finished(self, way: tuple[str, int]) -> tuple[tuple[str, int], str]:
        """The execution of a fast product with an epilogue, and the reason."""
        execution, levels = way
        if self.node.options.execution not in (None, "hybrid") or execution in FINISHING:
            if execution in FINISHING:
                return way, "applied by the last product of a block"
            return way, "a kernel of its own: it is unknown which product is added last"
        assert self.engine is not None and self.form is not None
        kind = "strassen" if levels == 1 else "two levels"
        found = predicted(self.engine, self.form.arithmetic, self.size, fast=True,
                          deterministic=False, levels=levels)  # fmt: skip
        after = found.get(f"{kind} {execution}", 0.0) + self.passing(EPILOGUE)
        known = {e: found[f"{kind} {e}"] for e in FINISHING if f"{kind} {e}" in found}
        best = min(known, key=known.__getitem__, default="owner")
        within = known.get(best, inf)
        if within <= after:
            return (best, levels), (
                f"applied by the last product of a block ({duration(within)}); {execution!r} and "
                f"a pass over memory would take {duration(after)}"
            )
        return way, (
            f"a kernel of its own: {execution!r} and a pass over memory take {duration(after)}, "
            f"{best!r} with it {duration(within)}"
        )

    # --- the standard product ---

    def cheapest(self) -> Decision:
        """The cheapest alternative for the standard product with its parts."""
        ways = sorted(self._ways(), key=lambda w: w.price)
        best, others = ways[0], dict[str, _Alternative]()
        for w in ways[1:]:
            if w.by != best.by or w.separate != best.separate:
                others.setdefault(w.by, w)
        why = {name: self._reason(best, name) for name in self.parts}
        prices = tuple((w.words(), w.seconds) for w in (best, *others.values()))
        known = self.engine is not None and len(prices) > 1 and inf not in dict(prices).values()
        way = (best.execution, 0) if best.by == ENGINE else None
        return Decision(best.by, best.separate, why, way, self.form if way else None,
                        prices if known else ())  # fmt: skip

    def _ways(self) -> Iterator[_Alternative]:
        t, every = self.node.left.type, frozenset(self.parts)
        engine, form = self.engine, self.form
        reached = engine is not None and form is not None and self._computes(engine, form)
        precise = reached and named(form, self.node.options)  # then by this engine
        if t.is_inexact and not precise:
            library = self._library_seconds()
            seconds = library + sum(map(self.passing, every))
            price = library / self._doubt() + self._passes(every, library) + HOST
            yield _Alternative(LIBRARY, every, library, seconds, price)
        asked = self.node.options.precision == "tf32"  # the library's alone
        if not t.is_inexact or (t.name == "float32" and not asked and not precise):
            computed = len(every - {EPILOGUE, ROWS})
            own = kernel_seconds(t, self.size, self.on, computed, self.count)
            yield _Alternative(KERNEL, frozenset(), own, own, own)
        loaded = every - {EPILOGUE, ROWS, STORED}
        if t.name == "float64" and loaded and not (precise or self.checked):
            m, k, n = self.size
            if all(operands.sources(self.operand(p), casts=True) is not None for p in loaded):
                elements = self.count * ((LEFT in loaded) * m * k + (RIGHT in loaded) * k * n)
                for separate in self._rows_apart():
                    stored = ROWS not in every - separate or self.node.epilogue
                    passed = elements + (0 if stored else self.count * m * n)
                    if STORED in every - separate:  # it is read and written
                        passed -= self.count * k * (m if self._is_left(STORED) else n)
                    own = tensor_seconds(self.size, self.on, self.arch, passed, self.count)
                    whole = own + sum(map(self.passing, separate))
                    yield _Alternative(KERNEL, separate, own, whole, whole)
        if engine is None or form is None or not reached:
            return
        for separate in _subsets(self.parts):
            inside = every - separate
            if self._can(inside) and fitting(self.node, separate):
                yield from self._by_engine(engine, form, inside, separate)

    def _rows_apart(self) -> list[frozenset[str]]:
        """The choices of separate parts for treadle's kernel on tensor cores.  A stored operand may
        be fused; the fold of rows may be if only one block adds to each row."""
        if STORED in self.parts:
            return [frozenset({STORED}), *[frozenset()] * (0 not in self.size)]
        if ROWS not in self.parts:
            return [frozenset()]
        size = [constant(x) for x in self.size]
        _, cut = parts_along((constant(self.count),), size)
        whole = at.is_constant(cut, 1) and 0 not in self.size
        return [frozenset({ROWS}), *[frozenset()] * whole]

    def _computes(self, engine: Engine, form: Form) -> bool:
        """Whether the engine computes products of these extents."""
        m, k, n = self.size
        fills = not self.node.batch or engine.fills(m, n, form.arithmetic)
        return fills and k >= form.least_inner and 0 not in self.size

    def _by_engine(self, engine: Engine, form: Form, inside: frozenset[str],
                   separate: frozenset[str]) -> Iterator[_Alternative]:  # fmt: skip
        """The engine's executions, with the parts `inside` fused.  "split" is left out with an
        epilogue, for which ptxas allocates its registers badly."""
        m, k, n = self.size
        ends = EPILOGUE in inside
        if named(form, self.node.options):
            yield _Alternative(
                ENGINE, separate, inf, inf, sum(map(self.passing, separate)), "owner"
            )
            return
        found = predicted(engine, form.arithmetic, self.size, fast=False, deterministic=True)
        if "standard owner" not in found:  # no measurements: fuse as much as possible
            mode = engine.standard_mode(m, n, k, ends, form.arithmetic)
            if mode is not None:
                yield _Alternative(
                    ENGINE, separate, inf, inf, float(len(separate) - len(self.parts)), mode
                )
            return
        turning = self._turning(inside)
        for name, one in found.items():
            product = one * self.count + turning
            mode = name.rsplit(" ", 1)[1] if name != "library" else ""
            if not mode or (ends and mode not in FINISHING):
                continue
            spent = product * sum(self.spent(p, (mode, 0)) for p in inside if p != EPILOGUE)
            spent += FINISH * ends
            seconds = product + spent + sum(map(self.passing, separate))
            price = product + spent + self._passes(separate, product) + HOST
            yield _Alternative(ENGINE, separate, product, seconds, price, mode)

    def _can(self, inside: frozenset[str]) -> bool:
        """Whether the engine can compute these parts."""
        return not {ROWS, STORED} & inside and not any(
            self.why_not_stored() if name == EPILOGUE else self.why_not_loaded(name)
            for name in inside
        )

    def _doubt(self) -> float:
        """The predicted speed-up over the library that another alternative needs: more than 1 at
        small extents, and on a GPU unlike those that were measured."""
        m, k, n = self.size
        return (VARIES if m * k * n < STEADY else 1.0) * unsure(self.arch)

    def _passes(self, separate: frozenset[str], product: float) -> float:
        """The cost of separate kernels beside a product of `product` seconds; that of an operand's
        kernel includes the memory for its result, and is at least `ALLOWED` of the product."""
        least = ALLOWED * product
        return sum(max(self.passing(p), least if p != EPILOGUE else 0.0) for p in separate)

    def _library_seconds(self) -> float:
        """Seconds of the library's standard product, without parts; for types that were not
        measured, those of float32.  Where the engine needs no Hopper, large products use the
        measurements made with that engine."""
        t, (m, k, n) = self.node.left.type, self.size
        moved = self.count * t.bytes * (m * k + k * n + m * n) / self.on.memory
        least = SMALL + max(moved, DEEPER * min(k, 256))
        if min(m, n) == 1:  # a matrix times a vector
            return least
        arithmetic = LIBRARY_OF.get(t.name, "Float32")
        if self.node.options.precision == "tf32":
            arithmetic = TF32
        if self.form is not None and self.form.needs == AMPERE and m * k * n >= STEADY:
            arithmetic = self.form.arithmetic
        on, cost = ceilings(arithmetic, self.on)
        tiles = self.count * (-(-m // 32) * 32), -(-k // 8) * 8, -(-n // 32) * 32
        several = SEVERAL if self.count > 1 and self.count * m * k * n < STEADY else 1.0
        return max(several * corrected(arithmetic, "library", tiles, on=on, cost=cost), least)

    def _reason(self, best: _Alternative, name: str) -> str:
        """Where a part is computed, and why, for `explain()`."""
        if best.by == KERNEL and name in best.separate:
            one = "several blocks add to a row" if name == ROWS else "predicted to take less"
            return f"a kernel of its own: {one}"
        if best.by == KERNEL:
            less = ", predicted to take less than cuBLAS and separate kernels"
            return "in the kernel" + less * self.node.left.type.is_inexact
        if best.by == LIBRARY:
            stores = name in (EPILOGUE, ROWS)
            does = "stores plain products" if stores else "reads operands from memory"
            return f"a kernel of its own: cuBLAS {does}"
        product = best.product if best.product < inf else self._modelled(0)
        if name not in best.separate:
            if name == EPILOGUE:
                return "applied as tiles are stored"
            return self._weighed(name, (best.execution, 0), product)[1]
        if name in (ROWS, STORED):
            return "a kernel of its own: the engine stores plain products"
        reason = self.why_not_stored() if name == EPILOGUE else self.why_not_loaded(name)
        if not reason and not fitting(self.node, best.separate - {name}):
            reason = NO_SPACE
        if not reason and name == EPILOGUE:
            reason = "whole tiles with it take longer than parts of tiles and a pass over memory"
        return "a kernel of its own: " + (
            reason or self._weighed(name, (best.execution, 0), product)[1])  # fmt: skip

    def _modelled(self, levels: int) -> float:
        """Seconds of the product in the engine, by the uncorrected model."""
        form = self.form
        assert form is not None
        model = replace(HOPPER_FLOAT32, shape=(form.rows, form.columns, form.step))
        return predict(self.on, model, self.size, STRASSEN if levels else None, "split").seconds


NO_SPACE = "a launch has too few argument words for its arrays and scalars"


def _varies(e: Read) -> bool:
    """Whether an array is read along rows and columns."""
    return len({a.axis for a in walk(e.args) if isinstance(a, Index)}) > 1


def _subsets(parts: Sequence[str]) -> Iterator[frozenset[str]]:
    """All subsets, small ones first."""
    made = (combinations(parts, r) for r in range(len(parts) + 1))
    return map(frozenset, chain.from_iterable(made))
