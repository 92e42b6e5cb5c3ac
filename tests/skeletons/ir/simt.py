"""An interpreter of GPU kernels: all threads of a block in lockstep, as lanes of NumPy arrays.

Each kernel becomes a Python function (`simt_source.py`).  Everything is checked (`simt_memory.py`):
ranges, alignment of wide accesses, races, barriers that only some threads reach.  Blocks run in a
shuffled order, several side by side; those of a kernel whose blocks wait for each other take turns,
at random, and never all at once.

Lockstep is one of the ways a GPU may run a kernel.  What depends on it is reported as a race.
"""

from __future__ import annotations

import json
import random
import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.skeletons.ir.interpret import Arrays, Reported, evaluate, garbage, holds, variants
from tests.skeletons.ir.simt_memory import Endless, Grid, KernelFault, Lockstep, Memory
from tests.skeletons.ir.simt_source import Source
from treadle.dsl.errors import TreadleError
from treadle.dsl.expr import Expr, Param
from treadle.dsl.graph import Input, Leaf, Node, Permute, topological
from treadle.dsl.graphs.encoding import Encoder
from treadle.dsl.target import CUDA
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.schedules import to_dict

#: Lanes in flight at once, where blocks have nothing to do with each other.
LANES = 1 << 14
#: What a block of an H200 may have of shared memory.
SHARED_BYTES = 227 * 1024
#: Turns of waiting blocks without any news before they count as waiting for ever.
WAITS = 2_000


# --- launches -----------------------------------------------------------------------------------


@dataclass
class Compiled:
    """A kernel made ready for any number of launches."""

    kernel: ir.Kernel
    made: dict[tuple[bool, bool], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        statements = list(ir.statements(self.kernel.body))
        #: Whether a block may see what another one does meanwhile.
        self.talks = any(
            isinstance(s, ir.Fetch | ir.Publish | ir.FetchUpdate) and s.buffer.role != "shared"
            for s in statements
        )
        self.written = {b for s in statements for b in ir.written(s)}
        #: Whether a block asks where it runs.
        self.placed = any(isinstance(s, ir.Special) for s in statements)
        shared = sum(int(b.size.value) * b.type.bytes  # type: ignore[attr-defined]
                     for b in self.kernel.buffers if b.role == "shared")  # fmt: skip
        if shared > SHARED_BYTES:
            raise KernelFault(f"{self.kernel.name}: {shared:,} bytes of shared memory")

    def function(self, together: bool) -> Any:
        key = (together, self.talks)
        if key not in self.made:
            self.made[key] = Source(self.kernel, *key).compile()
        return self.made[key]

    def memory(self, buffer: ir.Buffer, held: Any) -> Memory:
        """`held`: flat data, or a strided array."""
        origin, valid = 0, None
        if held.ndim != 1 or not held.flags.c_contiguous:
            held, origin, valid = flat(held)
        return Memory(buffer.name, held, origin=origin, valid=valid,
                      watched=buffer in self.written)  # fmt: skip

    def own(self, buffer: ir.Buffer, step: Lockstep) -> Memory:
        """Shared memory of the blocks in flight, or local memory of the threads."""
        size = int(buffer.size.value)  # type: ignore[attr-defined]
        if buffer.role == "local":
            base = np.arange(step.count, dtype=np.int64) * size
            return Memory(buffer.name, garbage(size * step.count, buffer.type.numpy), size=size,
                          base=base)  # fmt: skip
        blocks = len(step.tasks)
        base = np.repeat(np.arange(blocks, dtype=np.int64) * size, step.threads)
        return Memory(buffer.name, garbage(size * blocks, buffer.type.numpy), size=size, base=base,
                      watched=buffer in self.written)  # fmt: skip

    def launch(self, arrays: dict[ir.Buffer, np.ndarray], scalars: Sequence[Any], tasks: int,
               order: random.Random | None = None,
               places: Sequence[int] | None = None) -> list[tuple[int, int, int]]:  # fmt: skip
        """Run `tasks` blocks; the failed checks of checked mode.

        `arrays` has flat data for each buffer that is neither shared nor local, or a strided array;
        `places` the multiprocessor of every block (by chance, some without any).
        """
        kernel = self.kernel
        reports: list[tuple[int, int, int]] = []
        if tasks <= 0:
            return reports
        order = order or random.Random(0)
        if self.placed and places is None:
            places = _anywhere(tasks, order)
        where = None if places is None else np.array(places, np.uint32)
        grid = Grid(kernel.name, kernel.threads, tasks, where)
        memories = {b: self.memory(b, arrays[b]) for b in kernel.buffers
                    if b.role not in ("shared", "local")}  # fmt: skip
        values = [v.type.numpy.type(x) for v, x in zip(kernel.scalars, scalars, strict=True)]
        numbers = np.arange(tasks, dtype=np.int64)
        np.random.default_rng(order.randrange(1 << 30)).shuffle(numbers)

        def begin(mine: np.ndarray) -> Any:
            step = Lockstep(grid, mine)
            held = [memories.get(b) or self.own(b, step) for b in kernel.buffers]
            task = kernel.task.type.numpy.type(mine[0]) if len(mine) == 1 else step.task.astype(
                kernel.task.type.numpy)  # fmt: skip
            assert kernel.thread is not None
            thread = step.thread.astype(kernel.thread.type.numpy)
            return self.function(len(mine) > 1)(step, reports, *held, *values, task, thread)

        with np.errstate(all="ignore"):
            if self.talks:
                ones = [numbers[k : k + 1] for k in range(tasks)]
                _take_turns(grid, ones, begin, order, unfair=self.placed)
            else:
                several = max(1, LANES // kernel.threads)
                for first in range(0, tasks, several):
                    begin(numbers[first : first + several])
        return reports


def _anywhere(tasks: int, order: random.Random) -> list[int]:
    """Multiprocessors of blocks: round robin, at random, few of many, or all the same one."""
    count = order.choice((132, 7, 2, 1))
    if order.random() < 0.3:
        return [k % count for k in range(tasks)]
    used = [order.randrange(144) for _ in range(count)]
    return [order.choice(used) for _ in range(tasks)]


def _take_turns(grid: Grid, blocks: list[np.ndarray], begin: Any, order: random.Random,
                unfair: bool = False) -> None:  # fmt: skip
    """Run blocks that wait for each other: a few at a time, whichever comes next by chance.

    `unfair`: some of them hardly ever come.
    """
    places = order.choice((1, 2, 5, 16))
    running: list[Any] = []
    waiting = blocks[::-1]
    idle, news = 0, grid.progress
    bias = order.choice((1, 1, 8)) if unfair else 1
    while running or waiting:
        while waiting and len(running) < places:
            running.append(begin(waiting.pop()))
        chosen = int(len(running) * order.random() ** bias)
        for _ in range(order.choice((1, 3, 40))):
            if next(running[chosen], running) is running:
                running.pop(chosen)
                idle = 0
                break
        idle = 0 if grid.progress != news else idle + 1
        news = grid.progress
        if idle > WAITS:
            raise Endless(f"{grid.name}: {len(running)} blocks wait, {len(waiting)} have not begun")


def launch(kernel: ir.Kernel, arrays: dict[ir.Buffer, np.ndarray], scalars: Sequence[Any],
           tasks: int, seed: int = 0) -> list[tuple[int, int, int]]:  # fmt: skip
    """Run one kernel (not its fallback) on flat arrays; `KernelFault` for what it does wrong."""
    return Compiled(kernel).launch(arrays, scalars, tasks, random.Random(seed))


def flat(array: np.ndarray) -> tuple[np.ndarray, int, np.ndarray | None]:
    """The memory of an array from its first position to its last, where element 0 lies in it, and
    which positions are the array's (None: all)."""
    if array.flags.c_contiguous:
        return array.reshape(-1), 0, None
    steps = [s // array.itemsize for s in array.strides]
    reach = [(n - 1) * s for n, s in zip(array.shape, steps, strict=True)]
    if array.size == 0:
        return np.empty(0, array.dtype), 0, None
    low = sum(min(r, 0) for r in reach)
    size = sum(max(r, 0) for r in reach) - low + 1
    corner = array[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in steps)]
    data = np.lib.stride_tricks.as_strided(corner, (size,), (array.itemsize,), writeable=False)
    at = np.zeros((), np.int64)
    for n, s in zip(array.shape, steps, strict=True):
        at = np.add.outer(at, np.arange(n, dtype=np.int64) * s)
    valid = np.zeros(size, np.bool_)
    valid[at.reshape(-1) - low] = True
    return data, -low, None if valid.all() else valid


# --- nodes --------------------------------------------------------------------------------------


def right_ways(kernel: ir.Kernel, known: dict[Expr, Any], arrays: Any) -> list[ir.Kernel]:
    """Every way of running a kernel that is right for these scalars and addresses, the one that a
    GPU would take first."""
    found = []
    for way in variants(kernel):
        placed = all(arrays(b).ctypes.data % 16 == 0 for b in way.aligned)
        if placed and all(holds(c, known) for c in way.requires):
            found.append(way)
    if not found:
        raise KernelFault(f"{kernel.name}: no variant for these scalars")
    return found


def _any_winner(kernel: ir.Kernel) -> bool:
    """Whether results depend on the order in which threads come: overwriting, sums of floats."""
    return any(
        isinstance(s, ir.Atomic)
        and (s.combine is None or any(v.type.is_inexact for v in s.values))
        for s in ir.statements(kernel.body)
    )  # fmt: skip


class Prepared:
    """A lowering made ready for any number of runs: narrowed, verified, its kernels compiled when
    they are first needed."""

    def __init__(self, lowered: ir.Lowered) -> None:
        self.lowered = lowered
        self.kernels = [narrow(k) or k for k in lowered.kernels]
        self._compiled: dict[int, Compiled] = {}
        for kernel in self.kernels:
            verify(kernel)

    def compiled(self, way: ir.Kernel) -> Compiled:
        if id(way) not in self._compiled:
            self._compiled[id(way)] = Compiled(way)
        return self._compiled[id(way)]


def execute(lowered: ir.Lowered | Prepared, node: Node, arrays: Arrays,
            parameters: dict[Expr, Any],
            seed: int = 0) -> list[tuple[Any, int, int]]:  # fmt: skip
    """Run the kernels on `arrays`, adding the node's outputs; the failed checks.

    Every variant of a kernel that may run does; their results must agree bit for bit.
    """
    memory: dict[ir.Buffer, np.ndarray] = {}
    reports: list[tuple[Any, int, int]] = []
    known: dict[Expr, Any] = dict(parameters)
    made = lowered if isinstance(lowered, Prepared) else Prepared(lowered)
    lowered = made.lowered
    for kernel in made.kernels:
        for way in variants(kernel):
            assert way.threads, f"{way.name}: no GPU kernel"
            for var, host in zip(way.scalars, way.scalar_values, strict=True):
                value = evaluate(host, parameters, arrays)
                known[var] = int(value) if host.type.name in ("int64", "bool") else value
    for leaf in node.leaves:
        shape = tuple(max(int(evaluate(e, parameters, arrays)), 0) for e in leaf.shape)
        if isinstance(node, Permute):
            arrays[leaf] = arrays[node.defaults[leaf.component]].copy()
        else:
            size = int(np.prod(shape, dtype=np.int64))
            arrays[leaf] = garbage(size, leaf.type.numpy).reshape(shape)
    filled = {t.buffer: t for t in lowered.tables}
    for buffer in lowered.scratch:
        block = garbage(int(evaluate(buffer.size, known, arrays)), buffer.type.numpy)
        if buffer in filled:
            table = filled[buffer]
            values = [int(evaluate(e, parameters, arrays)) for e in table.values]
            block[:] = table.make(values, [arrays[leaf] for leaf in table.arrays])
        if buffer.name.startswith("zero_"):
            block[:] = 0
        memory[buffer] = block

    def held(b: ir.Buffer) -> np.ndarray:
        if b.leaf is None:
            return memory[b]
        array = arrays.get(b.leaf, getattr(b.leaf.node, "source", None))
        if not array.flags.c_contiguous:
            assert b.role == "input", b
            return array
        return array.reshape(-1)

    order = random.Random(seed)
    for kernel in made.kernels:
        ways = [(way, int(evaluate(way.tasks, known, arrays)))
                for way in right_ways(kernel, known, held)]  # fmt: skip
        reports += _run_ways(made, kernel, ways, known, held, order)
    return reports


def _run_ways(made: Prepared, kernel: ir.Kernel, ways: list[tuple[ir.Kernel, int]],
              known: dict[Expr, Any], held: Any,
              order: random.Random) -> list[tuple[Any, int, int]]:  # fmt: skip
    """Run them from the same start, the preferred one last, and compare what they leave."""
    targets = {b: held(b) for way, _ in ways for s in ir.statements(way.body)
               for b in ir.written(s) if b.role not in ("shared", "local")}  # fmt: skip
    before = {b: a.copy() for b, a in targets.items()} if len(ways) > 1 else {}
    left: dict[ir.Buffer, np.ndarray] = {}
    own: list[tuple[int, int, int]] = []
    for number, (way, tasks) in enumerate(reversed(ways)):
        for b, start in before.items():
            targets[b][:] = start
        arrays = {b: held(b) for b in way.buffers if b.role not in ("shared", "local")}
        own = made.compiled(way).launch(arrays, [known[v] for v in way.scalars], tasks, order)
        if _any_winner(way):
            continue
        for b, array in targets.items():
            if b.name.startswith("zero_"):  # counters: who took what is chance
                continue
            if number and b in left and left[b].tobytes() != array.tobytes():
                where = int(np.flatnonzero(left[b].view(f"V{array.itemsize}")
                                           != array.view(f"V{array.itemsize}"))[0])  # fmt: skip
                raise KernelFault(
                    f"{kernel.name}: {b.name}[{where}] is {array[where]} by the variant "
                    f"{describe(way)}, {left[b][where]} by {describe(ways[-number][0])}"
                )
            left[b] = array.copy()
    return [(kernel.sites[site], index, extent) for site, index, extent in own]


def describe(kernel: ir.Kernel) -> str:
    conditions = len(kernel.requires) + len(kernel.aligned)
    narrow = "32-bit " if kernel.task.type.bits == 32 else ""
    return f"{narrow}{kernel.name} of {kernel.threads} threads, {conditions} conditions"


def run(*roots: Leaf, check: bool = False, schedule: Any = None, seed: int = 0,
        strided: frozenset[Leaf] = frozenset(), parameters: dict[Param, Any] | None = None,
        multiprocessors: int = 132) -> list[np.ndarray]:  # fmt: skip
    """Compute leaves with every node lowered on its own for a GPU; `Reported` if a check failed."""
    arrays: Arrays = {}
    failed: list[Any] = []
    values: dict[Expr, Any] = dict(parameters or {})
    # Reports name places; what is strided, and parameters, are objects of these very roots.
    plain = not (check or strided or parameters)
    same = _same_as(roots, (schedule, multiprocessors)) if plain else None
    if same is None:
        same = Structure(roots)
    for node, given in same.inputs.items():  # some only for their extents
        arrays[node.leaf()] = np.ascontiguousarray(given.source).reshape(given.source.shape)
    for node in topological(same.roots):
        if isinstance(node, Input):
            if node not in same.inputs:
                dense = np.ascontiguousarray(node.source).reshape(node.source.shape)
                arrays[node.leaf()] = node.source if node.leaf() in strided else dense
            continue
        if node not in same.prepared:
            chosen = schedule if node is same.roots[0].node else None
            context = LoweringContext(target=CUDA, threads=multiprocessors, check=check,
                                      strided=strided, schedule=chosen)  # fmt: skip
            same.prepared[node] = Prepared(lower(node, context))
        failed += execute(same.prepared[node], node, arrays, values, seed)
    if failed:
        raise Reported(failed)
    return [arrays[r] for r in same.roots]


# --- programs of one structure ------------------------------------------------------------------


@dataclass
class Structure:
    """A program that was lowered, and the inputs that stand for its own."""

    roots: Sequence[Leaf]
    numbers: dict[int, Input] = field(default_factory=dict)
    inputs: dict[Input, Input] = field(default_factory=dict)
    prepared: dict[Node, Prepared] = field(default_factory=dict)


#: The last ones: tests compute the same for array after array.
_structures: OrderedDict[str, Structure] = OrderedDict()
_KEPT = 24


def _same_as(roots: Sequence[Leaf], options: tuple[Any, ...]) -> Structure | None:
    """The program of the same structure (graph, options, constants of the lowerings, which tests
    change) that was lowered before, or this one from now on; None for what has no plain form."""
    schedule, *rest = options
    encoder = Encoder((), full=False)
    try:
        references = encoder.graph(roots)
        chosen = None if schedule is None else to_dict(schedule)
        key = json.dumps([encoder.table, references, chosen, rest, _constants()])
    except (TreadleError, TypeError):
        return None
    numbers = {k: node for node, k in encoder.numbers.items() if isinstance(node, Input)}
    found = _structures.pop(key, None) or Structure(roots, numbers)
    _structures[key] = found
    while len(_structures) > _KEPT:
        _structures.popitem(last=False)
    found.inputs = {node: numbers[k] for k, node in found.numbers.items()}
    return found


def _constants() -> list[str]:
    return [
        f"{name}.{constant}={value!r}"
        for name, module in sorted(sys.modules.items())
        if name.startswith("treadle.skeletons") and module is not None
        for constant, value in vars(module).items()
        if constant.lstrip("_").isupper() and isinstance(value, int | float | tuple | dict)
    ]


def run_array(array: Any, **options: Any) -> Any:
    """`td.run` by this interpreter: an array, or a tuple for tuple elements."""
    return array.structure.build(run(*array._leaves, **options))
