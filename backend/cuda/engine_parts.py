"""Products whose operands or epilogue are computed with them, or in kernels around them.

    (2*a + 1) @ map(f, b)      operands computed while tiles are loaded
    relu(strassen(a, b) + c)   an epilogue for the last product that is added to a block

What the engine does itself costs instructions beside its multiply-adds, once for every tile that
reads an element; a kernel before or after costs a pass over memory.  `decide` weighs them when the
extents are known.  Without an engine every part is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from treadle.dsl.expr import Expr, Index, Read, rewrite
from treadle.dsl.graph import Generate, Matmul
from treadle.dsl.passes import cost, operands
from treadle.skeletons.algorithms import STRASSEN, instances
from treadle.skeletons.algorithms.model import H200, HOPPER_FLOAT32, predict

from .engine import Engine, engine_for
from .engine_form import Form, form_of
from .engine_fused import Epilogue, Piece, Producer
from .engine_step import Launcher, engine_step, fits
from .operand import plain
from .product_ways import algorithm_of, by_library, in_parts, predicted, refused, way_for
from .products import Product
from .running import HostFunction, Run
from .steps import KernelStep

Action = Callable[[Run], None]
LEFT, RIGHT, EPILOGUE = "left operand", "right operand", "epilogue"
#: What may be paid for an operand computed while it is loaded, as a part of the product's time,
#: even where a pass over memory costs less: the pass needs memory for its result.
ALLOWED = 0.02
#: What a second array costs beside instructions: it is read as often as the first, in the
#: registers of the same threads; and an array along one index, which is waited for ("split" worse;
#: benchmarks/matmul/NOTES.md, "Fused").
SECOND, ALONG, ALONG_SPLIT = 0.02, 0.04, 0.18
#: Executions in which a block of C is finished by a launch that knows it.
FINISHING = ("owner", "persistent", "sequential", "streams")
_HERE = (Index(0), Index(1))


def product_step(owner: Any, node: Matmul, released: set[int]) -> Action:
    """The step of a product."""
    if in_parts(node):
        return Parts(owner, node)
    if by_library(node):
        return engine_step(owner, node, Product(owner, node))
    kernels = KernelStep(owner, node, released)
    owner.kernel_steps.append(kernels)
    return engine_step(owner, node, kernels)


@dataclass(frozen=True)
class Decision:
    """`way` of the engine (execution, levels; None: not by it), the parts that are kernels of their
    own, and why each part is where it is."""

    way: tuple[str, int] | None
    apart: frozenset[str]
    why: dict[str, str]


def decide(engine: Engine | None, form: Form | None, node: Matmul, size: tuple[int, int, int]
           ) -> Decision:  # fmt: skip
    """For an (m, k) by (k, n) product."""
    m, k, n = size
    options = node.options
    sides = {LEFT: node.left, RIGHT: node.right}
    computed = {name: e for name, e in sides.items() if not plain(e)}
    ends, fast = node.epilogue != (node.result,), algorithm_of(options.algorithm) is not None
    every = frozenset(computed) | ({EPILOGUE} if ends and fast else frozenset())
    if engine is None or form is None or options.precision == "tf32":
        return Decision(None, every, dict.fromkeys(every, "a kernel of its own"))
    on = replace(H200, processors=engine.device.multiprocessors,
                 fma=H200.fma * engine.device.multiprocessors / H200.processors)  # fmt: skip
    why: dict[str, str] = {}
    apart: set[str] = set()
    if form.by_name and not fast:
        way = None
    elif not fast and ends:
        mode = engine.standard_mode(m, n, k, True, form.arithmetic)
        way = None if mode is None else (mode, 0)
    else:
        way = way_for(engine, form, options, size)
    if way is not None and ends and fast:
        way, why[EPILOGUE] = _finished(engine, form, node, size, way, on)
        if way[0] not in FINISHING:
            apart.add(EPILOGUE)
    if way is None:
        reason = "a kernel of its own: the product is not the engine's at these extents"
        return Decision(None, every, dict.fromkeys(every, reason))
    for name, e in computed.items():
        if not form.producers:
            apart.add(name)
            why[name] = "a kernel of its own: the engine of its type only loads operands"
            continue
        if way[1] > 1:
            apart.add(name)
            why[name] = "a kernel of its own: sums of its blocks are formed in memory"
            continue
        spent, passing = _prices(e, name == RIGHT, form, size, way, on)
        work = cost.operations((e,))
        word = f"{work:.0f} operation{'s' * (work != 1)} an element"
        word += f", {100 * spent:.1f} % of the time"
        if not _loadable(e, name == RIGHT, way[1]):
            apart.add(name)
            why[name] = "a kernel of its own: two arrays of two blocks each do not fit in registers"
        elif spent > max(ALLOWED, passing):
            apart.add(name)
            why[name] = f"a kernel of its own: {word}, a pass over memory {100 * passing:.1f} %"
        else:
            why[name] = (
                f"computed while tiles are loaded: {word}; a pass over memory would take "
                f"{100 * passing:.1f} %"
            )
    return Decision(way, frozenset(apart), why)


def _loadable(e: Expr, right: bool, levels: int) -> bool:
    """Whether producers have the registers: two arrays, of two blocks each, only for the smaller
    operand's tile."""
    reads = operands.sources(e) or ()
    return not (levels and right and len(reads) > 1)


def _prices(e: Expr, right: bool, form: Form, size: tuple[int, int, int], way: tuple[str, int],
            on: Any) -> tuple[float, float]:  # fmt: skip
    """Parts of the product's time: instructions beside its multiply-adds, and a pass over memory
    before it."""
    m, k, n = size
    reads = operands.sources(e) or ()
    others = cost.loads((e,)) - len(reads)
    made = [(len(i.b if right else i.a)) for i in instances(STRASSEN)] if way[1] else [1]
    terms = sum(made) / len(made)
    each = (form.columns if right else form.rows) * form.step / 128  # of a producer's stage
    slots = each * (cost.operations((e,)) + 2 * others)
    multiply = form.rows * form.columns * form.step / 128
    stage = multiply + HOPPER_FLOAT32.rest + HOPPER_FLOAT32.load
    model = replace(HOPPER_FLOAT32, shape=(form.rows, form.columns, form.step))
    seconds = predict(on, model, size, STRASSEN if way[1] else None, "split").seconds
    elements = k * n if right else m * k
    passing = form.itemsize * elements * (len(reads) + 1) / on.memory + on.launch
    spent = slots / stage + SECOND * max(len(reads) - 1, 0)
    spent += (ALONG_SPLIT if way[0] == "split" else ALONG) * others
    return terms * spent, passing / seconds


def _finished(engine: Engine, form: Form, node: Matmul, size: tuple[int, int, int],
              way: tuple[str, int], on: Any) -> tuple[tuple[str, int], str]:  # fmt: skip
    """The way of a fast product with an epilogue, and why."""
    execution, levels = way
    if node.options.execution not in (None, "hybrid") or execution in FINISHING:
        if execution in FINISHING:
            return way, "applied by the last product of a block"
        return way, "a kernel of its own: no product knows that it is the last one to be added"
    m, _, n = size
    kind = "strassen" if levels == 1 else "two levels"
    found = predicted(engine, form, size, fast=True, deterministic=False, levels=levels)
    arrays = 2 + cost.loads(node.epilogue)
    passing = form.itemsize * m * n * arrays / on.memory + on.launch
    after = found.get(f"{kind} {execution}", 0.0) + passing
    known = {e: found[f"{kind} {e}"] for e in FINISHING if f"{kind} {e}" in found}
    best = min(known, key=known.__getitem__, default="owner")
    within = known.get(best, float("inf"))
    if within <= after:
        return (best, levels), (
            f"applied by the last product of a block ({within * 1e3:.3g} ms); {execution!r} and a "
            f"pass over memory would take {after * 1e3:.3g} ms"
        )
    return way, (
        f"a kernel of its own: {execution!r} and a pass over memory take {after * 1e3:.3g} ms, "
        f"{best!r} with it {within * 1e3:.3g} ms"
    )


def pieces_of(owner: Any, node: Matmul) -> list[Piece] | None:
    """What goes into the engine with a product; None where it has no room for that."""
    found: list[Piece] = [
        Producer(owner, node, slot)
        for slot, e in (("TILE_A", node.left), ("TILE_B", node.right)) if not plain(e)
    ]  # fmt: skip
    if node.epilogue != (node.result,):
        if len(node.epilogue) != 1 or node.epilogue[0].type != node.left.type:
            return None
        found.append(Epilogue(owner, node))
    return found if fits(found) else None


class Parts:
    """One `Matmul` of the kind (module docstring)."""

    def __init__(self, owner: Any, node: Matmul) -> None:
        self.owner, self.node = owner, node
        engine = None if owner.program.settings.check else engine_for(owner.device)
        self.engine = engine
        error = refused(node, form_of(node.left.type, options=node.options) if engine else None)
        if error is not None:
            raise error
        self.extents = HostFunction(owner.host, (node.m, node.k, node.n))
        self.ends = node.epilogue != (node.result,)
        self.others: dict[frozenset[str], list[Action]] = {}

    def __call__(self, run: Run) -> None:
        m, k, n = (max(int(v), 0) for v in self.extents(run))
        form = None
        if self.engine is not None:
            options, processors = self.node.options, self.engine.device.multiprocessors
            form = form_of(self.node.left.type, (m, k, n), processors, options)
        made = decide(self.engine, form, self.node, (m, k, n))
        apart = made.apart
        launch = None if made.way is None or apart else self._launcher
        if launch is not None and form is not None and made.way is not None:
            given = launch.given(run)
            alike = {LEFT: _alike(given[0]), RIGHT: _alike(given[1])}
            apart = frozenset(name for name, same in alike.items() if not same)
            if not apart:
                launch(run, given, (m, k, n), form, made.way)
                return
        elif not apart:  # too much for one launch
            apart = self._every()
        for act in self._apart(apart):
            act(run)

    def _every(self) -> frozenset[str]:
        found = {name for name, e in ((LEFT, self.node.left), (RIGHT, self.node.right))
                 if not plain(e)}  # fmt: skip
        if self.ends and algorithm_of(self.node.options.algorithm) is not None:
            found.add(EPILOGUE)
        return frozenset(found)

    @cached_property
    def _launcher(self) -> Launcher | None:
        """The engine with everything in it; None where it has no room for that."""
        assert self.engine is not None
        pieces = pieces_of(self.owner, self.node)
        return None if pieces is None else Launcher(self.owner, self.node, self.engine, pieces)

    def _apart(self, parts: frozenset[str]) -> list[Action]:
        """The product with some parts as kernels of their own."""
        found = self.others.get(parts)
        if found is None:
            found = self.others[parts] = self._kernels(parts)
        return found

    def _kernels(self, parts: frozenset[str]) -> list[Action]:
        owner, slots = self.owner, self.owner.planner.slots
        before, inner, after = taken_apart(self.node, parts)
        spent = [owner.planner.slot(made.leaf()) for made in before]
        actions: list[Action] = [KernelStep(owner, made, set()) for made in before]
        if after is not None:
            spent.append(owner.planner.slot(inner.leaf()))
        last = inner if after is None else after
        for leaf, own in zip(last.leaves, self.node.leaves, strict=True):
            slots[leaf] = slots[own]
        actions.append(product_step(owner, inner, set()))
        if after is not None:
            actions.append(KernelStep(owner, after, set()))

        def release(run: Run) -> None:
            for slot in spent:
                run.faces[slot] = None

        return [owner.bring_tables, *actions, release]


def taken_apart(node: Matmul, parts: frozenset[str]
                ) -> tuple[list[Generate], Matmul, Generate | None]:  # fmt: skip
    """Kernels for some parts of a product: before it, what is left of it, and after it."""
    before, inner, after = list[Generate](), node, None
    for name, shape in ((LEFT, (node.m, node.k)), (RIGHT, (node.k, node.n))):
        if name in parts:
            e = node.left if name == LEFT else node.right
            made = Generate(shape, (e,), label=node.label, where=node.where)
            before.append(made)
            inner = inner.with_(**{name.split()[0]: Read(made, 0, _HERE)})
    if EPILOGUE in parts:
        inner = inner.with_(epilogue=(node.result,))
        value = Read(inner, 0, _HERE)
        stored = rewrite(node.epilogue, lambda e: value if e is node.result else e)
        after = Generate((node.m, node.n), stored, label=node.label, where=node.where)
    return before, inner, after


def _alike(given: Sequence[Any]) -> bool:
    """Whether the arrays of an operand walk memory along the same index."""
    steps = {
        next((k for k, s in enumerate(g.strides) if s == g.width), -1) if g.plain else -2
        for g in given
    }
    return len(given) < 2 or (len(steps) == 1 and -2 not in steps)
