"""The extent from which a level of a fast algorithm is faster on this machine: measured and cached.

The criterion is a ratio: the time of one level (seven products and its sums) over the time of the
standard product of the same extent, measured in the same rounds.  Both are measured when the first
large enough product runs, in less than half a second per type, and stored as JSON next to the
compiled code.

A busy machine yields wrong rates, and a wrong choice would persist.  The rounds are therefore split
into two halves.  If the halves disagree, or if products seem slower the larger they are, the
measurement is rejected: the standard product is used and nothing is stored.  A stored measurement
has its date and the load at the time, and is repeated after a month, or after an hour if the
machine was busy.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from treadle.dsl.process.environment import cache_directory, keep
from treadle.dsl.records import dataclass
from treadle.dsl.text import duration
from treadle.dsl.types import ScalarType, float32, float64, int32, int64
from treadle.skeletons.products import STRASSEN, WINOGRAD, BilinearAlgorithm
from treadle.skeletons.products.executions import execute, plan
from treadle.skeletons.products.model import Choice, Rates, choose_recursive
from treadle.skeletons.products.sequences import passes

from .codegen.target import Target
from .product_kit import HostKit
from .runtime.threads import thread_count

VERSION = 3
#: Products with an extent below this always use the standard algorithm.
LEAST = 1024
#: Extents at which the standard product is measured; a level is measured at the last.  With few
#: cores or slow types, the larger ones are omitted for lack of time.
EXTENTS = (256, 512, 1024, 2048)
#: The maximum and the minimum number of rounds, and the seconds for all of them.
ROUNDS, FEWEST, SECONDS = 12, 4, 0.4
#: The tolerated ratio between the two halves of the rounds, and by which a larger product may be
#: slower.
AGREE = 1.2
#: The validity of a measurement in days: made on an idle machine, and on a busy one.
FRESH, FRESH_BUSY = 30.0, 1 / 24
#: The types that `treadle ceilings` measures.
TYPES = (float32, float64, int32, int64)


@dataclass(frozen=True)
class Measured:
    """Rates of a type (None if they were rejected), and when (seconds since 1970) and under which
    load per thread they were measured."""

    rates: Rates | None
    when: float
    load: float

    @property
    def fresh(self) -> bool:
        """Whether a measurement is still valid; one made on a busy machine expires sooner."""
        days = (time.time() - self.when) / 86400
        return 0 <= days < (FRESH if self.load <= 1 else FRESH_BUSY)


def variant(t: ScalarType) -> BilinearAlgorithm:
    """Winograd's variant has fewer sums; inexact types use Strassen's, which is more accurate."""
    return STRASSEN if t.is_inexact else WINOGRAD


def chosen(t: ScalarType, size: tuple[int, int, int], most: int | None = None) -> Choice:
    """The fastest algorithm for (m, k) by (k, n) in type `t`, with at most `most` levels."""
    found = rates(t) if min(size) >= LEAST and most != 0 else None
    if found is None:
        return Choice(None, 0, "standard", 0.0, 0.0)
    return _fastest(found, t, size, most)


def _fastest(found: Rates, t: ScalarType, size: tuple[int, int, int], most: int | None) -> Choice:
    """The fastest algorithm that splits no block below LEAST."""
    levels = int(math.log2(2 * min(size) / LEAST))
    levels = levels if most is None else min(levels, most)
    return choose_recursive(found, (variant(t),), size, t.bytes, levels)


def rates(t: ScalarType) -> Rates | None:
    """The rates of this machine, from disk or measured now; None if it is too busy to measure."""
    return measured(t).rates


@lru_cache(maxsize=16)
def measured(t: ScalarType) -> Measured:
    """The measurement that this process uses: stored and fresh, or made now."""
    kept = known().get(t.name)
    return kept if kept is not None and kept.fresh else remeasure(t)


def remeasure(t: ScalarType) -> Measured:
    """Measure now and store the rates; drop stored rates if the new measurement is rejected."""
    begun = time.perf_counter()
    found = measure(t)
    _took[t.name] = time.perf_counter() - begun
    if found.rates is not None or t.name in known():
        write(None, machine_key(), {**known(), t.name: found})
    return found


#: The seconds that measuring took in this process, by type.
_took: dict[str, float] = {}


def origin(t: ScalarType) -> str:
    """The origin of the rates of a type, for `treadle ceilings`."""
    if t.name not in _took:
        return "from rates measured on this machine"
    return f"from rates that this process has measured in {duration(_took[t.name])}, and kept"


def _path() -> Path:
    return cache_directory() / "crossover.json"


def machine_key() -> str:
    """A key of everything that the rates depend on: the processor, its threads, NumPy."""
    return f"{Target.host().cpu}, {thread_count()} threads, NumPy {np.__version__}"


# --- measuring ----------------------------------------------------------------------------------


def measure(t: ScalarType, clock: Callable[[], float] = time.perf_counter) -> Measured:
    """Interleaved rounds of standard products and of one level, as blocks of larger matrices.

    No round starts that would not end within SECONDS, however slow the machine is.
    """
    load = _load() / thread_count()
    kit = HostKit(t)

    @cache
    def operands(n: int) -> Any:
        return np.ones((3, n, n + 64), t.numpy)[:, :, :n]

    def product(n: int) -> None:
        kit.product(*operands(n))

    def seconds(work: Callable[[], None]) -> float:
        before = clock()
        work()
        return max(clock() - before, 1e-9)

    def one_level(n: int) -> Callable[[], None]:
        level = plan(variant(t), "recursive", 1, (n, n, n))
        a, b, c = operands(n)
        return partial(execute, kit, level, a, b, c, np.empty(level.workspace, t.numpy))

    one_level(EXTENTS[0])()  # compiles, wakes threads
    start = clock()
    works: list[Callable[[], None]] = []
    once = 0.0
    for n, last in zip(EXTENTS, (EXTENTS[0], *EXTENTS), strict=False):
        # There must be time for four rounds of a standard product and a level at this extent.
        if len(works) > 1 and 8 * (n / last) ** 3 * once > SECONDS:
            break
        works.append(partial(product, n))
        once = min(seconds(works[-1]) for _ in range(2))
    extents = EXTENTS[: len(works)]
    works.append(one_level(extents[-1]))
    rounds: list[list[float]] = []
    longest = 2 * once  # a product and a level
    while len(rounds) < ROUNDS and clock() - start + longest < SECONDS:
        rounds.append([seconds(work) for work in works])
        longest = max(longest, sum(rounds[-1]))
    return Measured(accepted(t, extents, rounds), time.time(), load)


def accepted(t: ScalarType, extents: Sequence[int], rounds: Sequence[Sequence[float]]
           ) -> Rates | None:  # fmt: skip
    """The rates from rounds of seconds (a product per extent, a level at the last extent); None if
    the rounds are rejected.

    The rate of sums follows from the time that a level takes in addition to its products.
    """
    if len(rounds) < FEWEST:
        return None
    half = len(rounds) // 2
    best, *halves = (list(map(min, zip(*part, strict=True)))
                     for part in (rounds, rounds[:half], rounds[half:]))  # fmt: skip
    *products, level = best
    found = [n**3 / s for n, s in zip(extents, products, strict=True)]
    algorithm = variant(t)
    sums_seconds = level - algorithm.products * products[-2]
    falls = any(y * AGREE < x for x, y in pairwise(found))
    differ = any(max(x, y) > AGREE * min(x, y) for x, y in zip(*halves, strict=True))
    if falls or differ or sums_seconds <= 0:
        return None
    moved = t.bytes * (extents[-1] // 2) ** 2 * sum(passes(algorithm).values())
    never_slower = accumulate(found, max)
    return Rates(tuple(zip(extents, never_slower, strict=True)), moved / sums_seconds)


def _load() -> float:
    """Runnable processes, averaged over the last minute; 0 if the system does not report it."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0


def known() -> dict[str, Measured]:
    """The stored measurements of this machine, by type."""
    return read(None, machine_key())


def in_words(t: ScalarType, found: Measured | None) -> str:
    """The square extent from which a fast algorithm is chosen, its predicted speedup there, and the
    date of the measurement `found`, as text."""
    if found is None or found.rates is None:
        return "not measured, or on too busy a machine: standard"
    date = time.strftime("%Y-%m-%d", time.gmtime(found.when))
    for n in (1 << k for k in range(10, 16)):
        best = _fastest(found.rates, t, (n, n, n), None)
        if best.algorithm is not None:
            times = best.standard / best.seconds
            return f"{best.algorithm.name} from {n:,}² on: {times:.2f} × ({date})"
    return f"standard up to 32,768² ({date})"


# --- on disk --------------------------------------------------------------------------------------


def read(path: Path | None, machine: str) -> dict[str, Measured]:
    """The measurements of a machine in a file (None: in the cache); none if it is invalid."""
    try:
        whole = json.loads((path or _path()).read_text(encoding="utf-8"))
        if whole["version"] != VERSION or whole["machine"] != machine:
            return {}
        return {str(name): _checked(entry) for name, entry in whole["types"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _checked(entry: Any) -> Measured:
    product = tuple((int(n), float(r)) for n, r in entry["product"])
    numbers = [float(entry["sums"]), *(r for _, r in product), *(n for n, _ in product)]
    if len(product) < 2 or list(product) != sorted(product):
        raise ValueError(entry)
    if not all(math.isfinite(x) and x > 0 for x in numbers):
        raise ValueError(entry)
    return Measured(Rates(product, numbers[0]), float(entry["when"]), float(entry["load"]))


def write(path: Path | None, machine: str, types: Mapping[str, Measured]) -> None:
    """Replace the complete file; a folder that is not writable stores nothing."""
    whole = {
        "version": VERSION, "machine": machine,
        "types": {name: {"date": time.strftime("%Y-%m-%d", time.gmtime(m.when)), "when": m.when,
                         "load": m.load, "product": m.rates.product, "sums": m.rates.sums}
                  for name, m in sorted(types.items()) if m.rates is not None},
    }  # fmt: skip
    keep(lambda: str(path or _path()), json.dumps(whole, indent=1).encode())
