"""How the accesses that a core of a CPU has under way meet in the sets of its first cache.

A core makes dozens of accesses at a time.  Where neighbours of a row go to places a power of two
apart, or nearly, the lines of all of them have their place in one set, or in a few: those for which
it has no room are thrown out before their turn comes, and asked for again.  Loads wait for that
together; stores leave a core in their order, and wait one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.skeletons.schedules import Schedule

from ..access.footprint import with_inner
from ..access.maps import KernelMaps, Map, Points
from ..access.sets import LINE, Cache
from .coverage import PLACES, Form, form_of, shared_loads
from .device import Ceilings
from .walk import points_of

#: Accesses of a core that are under way at a time; cycles that a store waits whose line was thrown
#: out before its turn; and that a load takes longer for every time that its set is filled anew:
#: transposing 512, 1 024 and 4 096 squared, by stores and by loads, beside 1 000 squared (measured
#: on a core of Zen 5).
UNDER_WAY, STORE_WAITS, FILLED_ANEW = 64, 28.0, 1.05


@dataclass(frozen=True)
class Meeting:
    """`lines` of an array that are under way meet in `sets` of a core's first cache; `lost` is the
    part of them that these have no room for, `fills` how often they are filled for all to have been
    there, beyond once; averages of a few places."""

    lines: float
    sets: float
    lost: float
    fills: float


def waiting(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Cycles of all cores in which accesses wait for lines that others threw out of their sets."""
    if form.staged:
        return 0.0
    total = 0.0
    for m in (m for m in kernel.maps if apart(m, kernel)):
        met = _meeting(m, kernel, form, device)
        if m.store:
            total += met.lost * STORE_WAITS
        elif met.lost:
            total += met.fills * FILLED_ANEW * shared_loads(m, form.patch, kernel.inner)
    return total * kernel.size


def meetings(kernel: KernelMaps, device: Ceilings, way: str, schedule: Schedule | None
             ) -> list[tuple[Map, Meeting]]:  # fmt: skip
    """Of every array whose neighbours lie apart, on a CPU."""
    if device.gpu:
        return []
    form = form_of(kernel, schedule, device, way)
    if form.staged:  # rows of both sides are read and written as they lie
        return []
    return [(m, _meeting(m, kernel, form, device)) for m in kernel.maps if apart(m, kernel)]


def apart(m: Map, kernel: KernelMaps) -> bool:
    """Whether neighbours along the last axis of the domain lie apart in an array."""
    last = len(kernel.outputs) - 1
    return bool(m.coefficients) and last >= 0 and abs(m.strides[last]) > 1


def _meeting(m: Map, kernel: KernelMaps, form: Form, device: Ceilings) -> Meeting:
    first = Cache(device.first, device.first_ways)
    found = []
    for part in PLACES:
        lines = np.unique(m.addresses(_under_way(kernel, form, device, part)) // LINE)
        counts = np.bincount(lines % first.seen(m.size))
        over = np.maximum(counts - first.ways, 0) if first.ways else np.zeros(len(counts))
        again = over * counts / max(first.ways, 1)
        found.append((float(len(lines)), float(np.count_nonzero(counts)),
                      float(over.sum()) / len(lines), float(again.sum()) / len(lines)))  # fmt: skip
    return Meeting(*(sum(numbers) / len(PLACES) for numbers in zip(*found, strict=True)))


def _under_way(kernel: KernelMaps, form: Form, device: Ceilings, part: float) -> Points:
    """The outputs, with turns of their loops, that a core is busy with at a time, at a part of the
    way through the domain."""
    walk = form.walk
    if form.block:
        origin = walk.origins(np.array([int(walk.size * part)]))[0]
        width = min(walk.unit[-1], walk.domain[-1])
        height = form.patch[-2] if len(form.patch) > 1 else 1
        if kernel.inner:
            width = min(width, device.lanes)
        if not kernel.inner:
            width = min(width, UNDER_WAY)
            height = max(UNDER_WAY // width, height)
        sides = np.ones(len(origin), np.int64)
        sides[-2:] = (height, width)[-len(sides) :]
        points = points_of(origin, origin + np.minimum(sides, walk.unit))
    else:
        count = device.lanes if kernel.inner else UNDER_WAY
        points = walk.origins(int(walk.size * part) + np.arange(count))
    inside = np.minimum(points, np.array(kernel.outputs) - 1)
    return with_inner(inside, kernel.inner, max(UNDER_WAY // len(inside), 1))
