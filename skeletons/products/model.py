"""The time of a product: counts of a tile engine against the ceilings of a machine.

Huang, Yu, van de Geijn (2020), section 5, model a product as the slowest of arithmetic, shared
memory and global memory.  `predict` is such a model for a persistent engine on a GPU with a large
L2 cache.  It adds what the paper leaves out: issue slots (each instruction other than a
multiply-add costs one), waves (of complete tiles, or of evenly divided work), the L2 cache
(concurrent tiles read the same rows and columns), updates of C, launches, and sums of an outer
level in memory.  `predict_recursive` is a library's product with sums in memory.  Times are in
seconds, rates per second, sizes in elements or bytes as documented; `measured` corrects predictions
by measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from .primitives import instances
from .sequences import passes
from .tables import BilinearAlgorithm

Size = tuple[int, int, int]
"""m, k, n."""


@dataclass(frozen=True)
class Machine:
    """Ceilings: multiply-adds per second, bytes per second of memory (copied, filled) and of the
    L2.

    `launch`: seconds until a kernel's first result; `tensor`: products of 16-bit floats per clock
    and multiprocessor.
    """

    name: str
    processors: int
    clock: float
    fma: float
    memory: float
    filling: float
    l2: float
    launch: float = 4e-6
    tensor: int = 2048


#: Measured rates of copying and filling; 128 multiply-adds a clock and multiprocessor.
H200 = Machine("NVIDIA H200", 132, 1.98e9, 132 * 128 * 1.98e9, 4.23e12, 4.23e12, 5.5e12)


# --- a persistent engine -----------------------------------------------------------------------


@dataclass(frozen=True)
class EngineCost:
    """What a stage of a tile engine issues in addition to its multiply-adds, in scheduler slots.

    `rest`: loads of fragments and loop control of the consumers; `load`: the producers' share for
    one-term operands; `term`: for every further term; `efficiency`: the usable fraction of the
    slots; `shape`: rows and columns of a tile, k-steps of a stage; `group`: rows of tiles visited
    together; `fill`: seconds to fill the pipeline; `itemsize`: bytes of an element; `wait`: seconds
    that the next part of a "split" tile waits for the previous one to be added to C.
    """

    shape: tuple[int, int, int] = (128, 256, 8)
    rest: int = 132
    load: int = 45
    term: int = 20
    efficiency: float = 0.943
    group: int = 16
    fill: float = 4e-6
    itemsize: int = 4
    wait: float = 5e-6
    planes: int = 0


#: Two consumer warps a scheduler, each with 48 loads of 16 bytes and 18 other instructions in a
#: stage of 8 k-steps; one producer warp: 45 instructions, 85 with two two-term operands (counted in
#: the machine code).
HOPPER_FLOAT32 = EngineCost()
#: The same with tiles of 192 columns: 40 loads, and five sixths of the producers' work.
PORTABLE_FLOAT32 = EngineCost((128, 192, 8), 116, 38)
#: int32 by limbs, as profiled.  Tensor cores run in parallel with the issue of other instructions.
HOPPER_LIMBS = EngineCost((128, 128, 64), 0, 0, 0, 0.59, 8)
#: The same from tile images: the fraction of the rate that the chip's power allows.
HOPPER_LIMB_IMAGES = EngineCost((128, 128, 128), 0, 0, 0, 0.76, 8, planes=4)
#: 16-bit floats: the fraction of the rate that the chip's power allows, as below.
HOPPER_HALF = EngineCost((128, 256, 64), 0, 0, 0, 0.75, 8, itemsize=2)
#: float32 rounded to tf32: the same.
HOPPER_TF32 = EngineCost((128, 256, 32), 0, 0, 0, 0.75, 8)
#: float32 by two 16-bit planes: the fraction of the rate that the chip's power allows.
HOPPER_FP16X3 = EngineCost((128, 192, 64), 0, 0, 0, 0.65, 8, planes=4)


def issued(on: Machine, cost: EngineCost) -> float:
    """The issue slots of a stage, relative to those of its multiply-adds: on machines with half as
    many units, a multiply-add takes two slots."""
    rows, cols, step = cost.shape
    multiply = rows * cols * step * on.processors * on.clock / on.fma
    return 1 + (cost.rest + cost.load) / multiply


#: Executions that divide work along k, so that every multiprocessor has the same share.
EVEN = ("split", "atomic", "batched", "streams")


@dataclass(frozen=True)
class Prediction:
    """The predicted seconds, and the limiting resource."""

    seconds: float
    limit: str
    workspace: int = 0


def predict(on: Machine, cost: EngineCost, size: Size, algorithm: BilinearAlgorithm | None = None,
            execution: str = "owner", targets: float | None = None) -> Prediction:  # fmt: skip
    """One launch (or one per product: "sequential") of the engine; C is cleared before "atomic".

    `algorithm` None: the standard product.  `targets`: mean number of blocks of C that a product
    updates, if it differs from the algorithm's.
    """
    m, _, n = size
    itemsize = cost.itemsize
    parts = (algorithm.m, algorithm.k, algorithm.n) if algorithm else (1, 1, 1)
    rows, cols, step = cost.shape
    qm, qk, qn = (ceil(s / p) for s, p in zip(size, parts, strict=True))
    tiles, stages = ceil(qm / rows) * ceil(qn / cols), max(1, ceil(qk / step))
    shapes = [i.variant for i in instances(algorithm)] if algorithm else [(1, 1, 1)]
    lanes = on.fma / on.processors / on.clock / 4
    multiply = rows * cols * step / lanes / 4  # slots of one of four schedulers
    share = tiles / on.processors
    waves = share if execution in EVEN else ceil(share)
    if execution == "persistent":  # the products of the last, partial wave are distributed
        left = tiles % on.processors * len(shapes)
        waves = tiles // on.processors + min(1.0, ceil(left / on.processors) / len(shapes))
    slots = sum(multiply + cost.rest + cost.load + cost.term * (a + b - 2) for a, b, _ in shapes)
    issue = waves * stages * slots / on.clock / cost.efficiency
    # The tiles of a wave share rows of A and columns of B; each tile reads its own from the L2.
    down = min(cost.group, ceil(qm / rows))
    across = min(ceil(on.processors / down), ceil(qn / cols))
    both = [(a * down * rows + b * across * cols) * qk for a, b, _ in shapes]
    through = [(a * rows + b * cols) * qk for a, b, _ in shapes]
    memory = max(share, 1.0) * itemsize * sum(both) / on.memory
    l2 = tiles * itemsize * sum(through) / on.l2
    updates = sum(c for *_, c in shapes) if targets is None else targets * len(shapes)
    written = tiles * rows * cols * itemsize * updates
    writing = written / on.l2
    launches = len(shapes) if execution == "sequential" else 1
    fixed = launches * (on.launch + cost.fill)
    if execution == "split" and algorithm is None and tiles < on.processors:
        fixed += (on.processors / tiles - 1) * cost.wait
    if execution == "atomic":
        fixed += m * n * itemsize / on.filling + on.launch
    if cost.planes:  # maxima, images; operands are read by both
        m, k, n = size
        moved = 2 * itemsize * (m * k + k * n) + len(shapes) * cost.planes * (qm * qk + qk * qn)
        fixed += moved / on.memory + 3 * on.launch
    found = {"issue slots": issue + writing, "memory": memory, "the L2 cache": l2}
    limit = max(found, key=found.__getitem__)
    return Prediction(found[limit] + fixed, limit)


def predict_two_levels(on: Machine, cost: EngineCost, size: Size, outer: BilinearAlgorithm,
                       inner: BilinearAlgorithm, execution: str = "atomic"
                       ) -> Prediction:  # fmt: skip
    """The outer level's operand sums in memory, one at a time; the inner level fused."""
    m, k, n = size
    half = ceil(m / outer.m), ceil(k / outer.k), ceil(n / outer.n)
    seconds, limit, itemsize = 0.0, "", cost.itemsize
    for instance in instances(outer):
        a, b, c = instance.variant
        sums = (a + 1) * half[0] * half[1] * (a > 1) + (b + 1) * half[1] * half[2] * (b > 1)
        mean = c * sum(i.variant[2] for i in instances(inner)) / inner.products
        one = predict(on, cost, half, inner, "owner" if execution == "owner" else "split",
                      targets=mean)  # fmt: skip
        seconds += one.seconds + sums * itemsize / on.memory + on.launch * ((a > 1) + (b > 1))
        limit = one.limit
    if execution == "atomic":
        seconds += m * n * itemsize / on.filling
    return Prediction(seconds, limit, itemsize * (half[0] * half[1] + half[1] * half[2]))


def predict_in_memory(on: Machine, cost: EngineCost, size: Size, algorithm: BilinearAlgorithm,
                      levels: int) -> Prediction:  # fmt: skip
    """Operand sums in memory at every level; standard products are added to their blocks of C."""
    m, k, n = size
    shapes = [i.variant for i in instances(algorithm)]
    passes_a, passes_b = (sum(v[x] + 1 for v in shapes if v[x] > 1) for x in range(2))
    moved = workspace = 0
    for level in range(levels):
        m, k, n = ceil(m / algorithm.m), ceil(k / algorithm.k), ceil(n / algorithm.n)
        moved += algorithm.products**level * (passes_a * m * k + passes_b * k * n)
        workspace += m * k + k * n
    updates = (sum(c for *_, c in shapes) / len(shapes)) ** levels
    leaf = predict(on, cost, (m, k, n), None, "split", targets=updates)
    product, sums = len(shapes) ** levels * leaf.seconds, moved * cost.itemsize / on.memory
    return Prediction(product + sums, leaf.limit, workspace * cost.itemsize)


# --- sums in memory ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rates:
    """A library's multiply-adds per second by extent, and bytes per second of sums in memory."""

    product: tuple[tuple[int, float], ...]
    sums: float

    def multiply_adds(self, size: Size) -> float:
        """Multiply-adds a second at the smallest extent, interpolated linearly."""
        at = min(size)
        lower = [p for p in self.product if p[0] <= at]
        upper = [p for p in self.product if p[0] > at]
        if not lower:
            return self.product[0][1]
        if not upper:
            return lower[-1][1]
        (x, y), (u, v) = lower[-1], upper[0]
        return y + (v - y) * (at - x) / (u - x)


def predict_recursive(rates: Rates, algorithm: BilinearAlgorithm, levels: int, size: Size,
                      itemsize: int) -> float:  # fmt: skip
    """Seconds of `levels` levels with sums in memory over a library's product."""
    m, k, n = size
    if not levels:
        return m * k * n / rates.multiply_adds(size)
    half = m // algorithm.m, k // algorithm.k, n // algorithm.n
    if 0 in half:
        return float("inf")
    counts = {"A": half[0] * half[1], "B": half[1] * half[2], "C": half[0] * half[2]}
    moved = itemsize * sum(counts[kind] * times for kind, times in passes(algorithm).items())
    inner = predict_recursive(rates, algorithm, levels - 1, half, itemsize)
    return algorithm.products * inner + moved / rates.sums


@dataclass(frozen=True)
class Choice:
    """The choice, its predicted time, and that of the standard product."""

    algorithm: BilinearAlgorithm | None
    levels: int
    execution: str
    seconds: float
    standard: float

    @property
    def why(self) -> str:
        if self.algorithm is None:
            return "no level of Strassen's algorithm is predicted to be faster"
        return f"{self.standard / self.seconds:.2f} times as fast as the standard product"


#: The least predicted speed-up for which a level is chosen by default.
MARGIN = 1.08


def choose_recursive(rates: Rates, algorithms: tuple[BilinearAlgorithm, ...], size: Size,
                     itemsize: int, most: int = 4) -> Choice:  # fmt: skip
    """The fastest of the standard product and up to `most` levels with sums in memory."""
    standard = predict_recursive(rates, algorithms[0], 0, size, itemsize) if algorithms else 0.0
    best = Choice(None, 0, "standard", standard, standard)
    for algorithm in algorithms:
        for levels in range(1, most + 1):
            seconds = predict_recursive(rates, algorithm, levels, size, itemsize)
            if seconds * MARGIN < standard and seconds < best.seconds:
                best = Choice(algorithm, levels, "recursive", seconds, standard)
    return best
