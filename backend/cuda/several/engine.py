"""Several GPUs as an engine of blocks: how they group sums, and what exchanges cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from treadle.dsl.analysis.combines import SHORT_ROW
from treadle.dsl.expr import constant
from treadle.dsl.graph import Fold, Label, Scan
from treadle.dsl.graphs.names import evaluate
from treadle.dsl.process.configuration import Settings
from treadle.skeletons.lower.fold import gpu as folds
from treadle.skeletons.lower.scan import gpu as scans
from treadle.skeletons.lower.stencil.gpu_temporal import MOST_ITERATIONS

from ...blocks.domain import Chunks, even
from ...blocks.engine import Engine

#: Bytes of an array that no other array determines, from which it is cut.
SMALL = 1 << 20
#: Seconds to queue the blocks of one GPU for a window of a loop, and to exchange their halos.
QUEUE, EXCHANGE = 100e-6, 60e-6
#: Bytes that a block gets of other GPUs from which it is computed in pieces, and how many.
PIPELINED, PIECES = 64 << 20, 4
#: Seconds that a GPU needs for an iteration of an element: those of the heat equation on float32,
#: several in a pass, on an H200 (benchmarks/gpus.py).
ELEMENT = 0.52e-12


@dataclass(frozen=True)
class GpuEngine(Engine):
    """Blocks on several GPUs."""

    def leaf(self, node: Fold, count: int) -> int | None:
        found = self.grouping(node, (count,))
        assert isinstance(found, tuple)
        return int(found[0])

    def leaves(self, node: Fold, count: int) -> tuple[Fold, int, bool] | None:
        size = self.leaf(node, count)
        return None if size is None else (node, size, True)

    def part(self, node: Fold, extents: Sequence[int]) -> int | None:
        count = extents[-1]
        if node.label.deterministic or count < SHORT_ROW:
            return None
        groups = self.grouping(node, extents)
        assert isinstance(groups, tuple)
        return int(groups[-1]) if groups[-1] < count else None

    def grouping(self, node: Fold | Scan, extents: Sequence[int]) -> object:
        shape = tuple(constant(n) for n in extents)
        groups = folds.groups if isinstance(node, Fold) else scans.groups
        return tuple(evaluate(e, {}) for e in groups(node, shape))  # type: ignore[arg-type]

    def regrouped(self, label: Label, extents: Sequence[int]) -> Label:
        return replace(label, whole=tuple(extents))


def engine(settings: Settings, devices: int, memory: int) -> GpuEngine:
    """The engine for `devices` GPUs with `memory` bytes each."""
    return GpuEngine(
        name="several GPUs", backend="cuda", settings=settings, allowed=memory,
        choose=partial(chunks_of, devices), overhead=EXCHANGE, queueing=devices * QUEUE,
        element=ELEMENT, iterations=MOST_ITERATIONS, pieces=PIECES, pipelined=PIPELINED,
        separate=False,
        instead="Compute this part on one GPU, by a function that is compiled without devices=.",
        smaller="Use more GPUs, devices=…, or smaller arrays.", single=True, split_boundary=True,
    )  # fmt: skip


def chunks_of(devices: int, extents: Sequence[int], itemsize: int) -> Chunks:
    """An array along its first axis of several elements in a part per GPU, unless it is small."""
    size = itemsize
    for n in extents:
        size *= n
    found: list[tuple[int, ...]] = [(n,) for n in extents]
    for k, n in enumerate(extents):
        if n > 1 and size >= SMALL:
            found[k] = even(n, devices)
            break
    return tuple(found)
