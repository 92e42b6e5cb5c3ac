"""Conflicts between the accesses in flight of a CPU core, in the sets of its first cache.

A core has dozens of accesses in flight.  If neighbours of a row go to addresses a power of two
apart, or nearly, all their lines map to one set, or to a few.  Lines beyond the associativity are
evicted before their accesses complete, and fetched again.  Loads wait for that together; stores
leave a core in program order, and wait one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.skeletons.schedules import Schedule

from ..access.footprint import with_inner
from ..access.maps import KernelMaps, Map, Points
from ..access.sets import LINE, Cache
from .coverage import POSITIONS, Form, form_of, shared_loads
from .device import Ceilings
from .walk import points_of

#: Accesses that a core has in flight; cycles that a store waits whose line was evicted before it
#: completed; and cycles that a load takes longer for every time that its set is refilled: from
#: transposing 512, 1 024 and 4 096 squared, by stores and by loads, next to 1 000 squared (measured
#: on a core of Zen 5).
IN_FLIGHT, STORE_STALL, REFILL = 64, 28.0, 1.05


@dataclass(frozen=True)
class Conflict:
    """`lines` of an array in flight map to `sets` of a core's first cache; `lost` is the fraction
    of them beyond the associativity, `fills` how often the sets are refilled until all lines have
    been there; averages over the sampled positions."""

    lines: float
    sets: float
    lost: float
    fills: float


def stalls(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Cycles, over all cores, in which accesses wait for lines that others evicted."""
    if form.staged:
        return 0.0
    total = 0.0
    for m in (m for m in kernel.maps if strided(m, kernel)):
        met = _conflict(m, kernel, form, device)
        if m.store:
            total += met.lost * STORE_STALL
        elif met.lost:
            total += met.fills * REFILL * shared_loads(m, form.patch, kernel.inner)
    return total * kernel.size


def conflicts(kernel: KernelMaps, device: Ceilings, way: str, schedule: Schedule | None
             ) -> list[tuple[Map, Conflict]]:  # fmt: skip
    """The conflicts of each array whose neighbours are not contiguous; empty on a GPU."""
    if device.gpu:
        return []
    form = form_of(kernel, schedule, device, way)
    if form.staged:  # tiles read and write contiguous rows on both sides
        return []
    return [(m, _conflict(m, kernel, form, device)) for m in kernel.maps if strided(m, kernel)]


def strided(m: Map, kernel: KernelMaps) -> bool:
    """Whether neighbours along the last axis of the domain are not contiguous in an array."""
    last = len(kernel.outputs) - 1
    return bool(m.coefficients) and last >= 0 and abs(m.strides[last]) > 1


def _conflict(m: Map, kernel: KernelMaps, form: Form, device: Ceilings) -> Conflict:
    first = Cache(device.first, device.first_ways)
    found = []
    for part in POSITIONS:
        lines = np.unique(m.addresses(_in_flight(kernel, form, device, part)) // LINE)
        counts = np.bincount(lines % first.seen(m.size))
        over = np.maximum(counts - first.ways, 0) if first.ways else np.zeros(len(counts))
        again = over * counts / max(first.ways, 1)
        found.append((float(len(lines)), float(np.count_nonzero(counts)),
                      float(over.sum()) / len(lines), float(again.sum()) / len(lines)))  # fmt: skip
    return Conflict(*(sum(numbers) / len(POSITIONS) for numbers in zip(*found, strict=True)))


def _in_flight(kernel: KernelMaps, form: Form, device: Ceilings, part: float) -> Points:
    """The outputs, with iterations of their loops, that a core has in flight at a fraction of the
    way through the domain."""
    walk = form.walk
    if form.block:
        origin = walk.origins(np.array([int(walk.size * part)]))[0]
        width = min(walk.unit[-1], walk.domain[-1])
        height = form.patch[-2] if len(form.patch) > 1 else 1
        if kernel.inner:
            width = min(width, device.lanes)
        if not kernel.inner:
            width = min(width, IN_FLIGHT)
            height = max(IN_FLIGHT // width, height)
        sides = np.ones(len(origin), np.int64)
        sides[-2:] = (height, width)[-len(sides) :]
        points = points_of(origin, origin + np.minimum(sides, walk.unit))
    else:
        count = device.lanes if kernel.inner else IN_FLIGHT
        points = walk.origins(int(walk.size * part) + np.arange(count))
    inside = np.minimum(points, np.array(kernel.outputs) - 1)
    return with_inner(inside, kernel.inner, max(IN_FLIGHT // len(inside), 1))
