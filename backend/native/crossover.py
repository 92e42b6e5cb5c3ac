"""When a level of a fast algorithm is faster on this machine: measured, and kept for a while.

What counts is a ratio: a level at one extent, its seven products and its sums, against the
standard product there, in the same rounds.  Both are measured when a product large enough first
asks, in a quarter of a second for every type, and kept as JSON beside the compiled code.

A busy machine gives wrong rates, and a wrong choice stays.  So the rounds are two halves, and what
they do not agree about, or products that seem slower the larger they are, is not believed: then
the standard product is taken, and nothing is kept.  What is kept carries its date and the load it
was measured under, and is measured again after a month, or an hour where the machine was busy.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from treadle.dsl.environment import cache_directory, keep
from treadle.dsl.quantities import duration
from treadle.dsl.types import ScalarType, float32, float64, int32, int64
from treadle.skeletons.products import STRASSEN, WINOGRAD, BilinearAlgorithm
from treadle.skeletons.products.counts import passes
from treadle.skeletons.products.executions import execute, plan
from treadle.skeletons.products.model import Choice, Rates, choose_recursive

from .own import Host
from .runtime.threads import thread_count

VERSION = 2
#: Products with a smaller extent are not worth asking for.
LEAST = 1024
#: Extents of the standard product that are measured; the last only if the type is quick enough.
EXTENTS = (256, 512, 1024)
#: Rounds, how many it takes at least, and the seconds for all.
ROUNDS, FEWEST, SECONDS = 12, 4, 0.22
#: By how much two halves of the rounds, or a larger product, may differ from what is expected.
AGREE = 1.2
#: Days that a measurement is used, of an idle machine and of a busy one.
FRESH, FRESH_BUSY = 30.0, 1 / 24
#: What `treadle ceilings` measures.
TYPES = (float32, float64, int32, int64)


@dataclass(frozen=True)
class Measured:
    """Rates of a type, None if they are not to be believed; when (seconds since 1970) and under
    which load for a thread they were measured."""

    rates: Rates | None
    when: float
    load: float

    @property
    def fresh(self) -> bool:
        """Whether it is still to be used: a busy machine's sooner not."""
        days = (time.time() - self.when) / 86400
        return 0 <= days < (FRESH if self.load <= 1 else FRESH_BUSY)


def variant(t: ScalarType) -> BilinearAlgorithm:
    """Winograd's has fewer sums; floats are given Strassen's, which loses fewer digits."""
    return STRASSEN if t.is_inexact else WINOGRAD


def chosen(t: ScalarType, size: tuple[int, int, int], most: int | None = None) -> Choice:
    """The fastest way for (m, k) by (k, n) in type `t`, by `most` levels at most."""
    found = rates(t) if min(size) >= LEAST and most != 0 else None
    if found is None:
        return Choice(None, 0, "standard", 0.0, 0.0)
    return _fastest(found, t, size, most)


def _fastest(found: Rates, t: ScalarType, size: tuple[int, int, int], most: int | None) -> Choice:
    """No block is divided that is smaller than LEAST."""
    levels = int(math.log2(2 * min(size) / LEAST))
    levels = levels if most is None else min(levels, most)
    return choose_recursive(found, (variant(t),), size, t.bytes, levels)


def rates(t: ScalarType) -> Rates | None:
    """Of this machine, from the disk or measured now; None where it is too busy to measure."""
    return measured(t).rates


@lru_cache(maxsize=16)
def measured(t: ScalarType) -> Measured:
    """What this process goes by: kept and fresh, or measured now and kept if steady."""
    kept = known().get(t.name)
    return kept if kept is not None and kept.fresh else again(t)


def again(t: ScalarType) -> Measured:
    """Measured now, whatever is known; kept if the rounds agree, forgotten if not."""
    begun = time.perf_counter()
    found = measure(t)
    _took[t.name] = time.perf_counter() - begun
    if found.rates is not None or t.name in known():
        write(None, machine_key(), {**known(), t.name: found})
    return found


#: The seconds that measuring took in this process, by type.
_took: dict[str, float] = {}


def origin(t: ScalarType) -> str:
    """Where the rates of a type come from, in words."""
    if t.name not in _took:
        return "from rates measured on this machine"
    return f"from rates that this process has measured in {duration(_took[t.name])}, and kept"


def _path() -> Path:
    return cache_directory() / "crossover.json"


def machine_key() -> str:
    """What the numbers depend on: the processor, its threads, NumPy."""
    from .codegen.target import Target
    from .runtime.threads import thread_count

    return f"{Target.host().cpu}, {thread_count()} threads, NumPy {np.__version__}"


# --- measuring ----------------------------------------------------------------------------------


def measure(t: ScalarType, clock: Callable[[], float] = time.perf_counter) -> Measured:
    """Interleaved rounds of standard products and of one level, as blocks of larger matrices.

    No round is begun that would not end within SECONDS, however slow the machine is.
    """
    load = _load() / thread_count()
    kit = Host(t)
    whole = np.ones((3, EXTENTS[-1], 2 * EXTENTS[-1]), t.numpy)

    def product(n: int) -> None:
        a, b, c = whole[:, :n, :n]
        kit.product(a, b, c)

    def seconds(work: Callable[[], None]) -> float:
        before = clock()
        work()
        return max(clock() - before, 1e-9)

    product(EXTENTS[0])  # compiles, wakes threads
    start = clock()
    works: list[Callable[[], None]] = []
    once = 0.0
    for n, last in zip(EXTENTS, (EXTENTS[0], *EXTENTS), strict=False):
        # Four rounds of the standard product and a level, or the extents before must do.
        if len(works) > 1 and 8 * (n / last) ** 3 * once > SECONDS:
            break
        works.append(partial(product, n))
        once = min(seconds(works[-1]) for _ in range(2))
    extents = EXTENTS[: len(works)]
    n = extents[-1]
    level = plan(variant(t), "recursive", 1, (n, n, n))
    room = np.empty(level.workspace, t.numpy)
    a, b, c = whole[:, :n, :n]
    works.append(lambda: execute(kit, level, a, b, c, room))
    rounds: list[list[float]] = []
    longest = 2 * once  # a product and a level
    while len(rounds) < ROUNDS and clock() - start + longest < SECONDS:
        rounds.append([seconds(work) for work in works])
        longest = max(longest, sum(rounds[-1]))
    return Measured(judged(t, extents, rounds), time.time(), load)


def judged(t: ScalarType, extents: Sequence[int], rounds: Sequence[Sequence[float]]
           ) -> Rates | None:  # fmt: skip
    """What rounds of seconds (a product for every extent, a level at the last) say, if anything.

    Sums get the rate that explains what a level took beside its products.
    """
    if len(rounds) < FEWEST:
        return None
    half = len(rounds) // 2
    best, *halves = (list(map(min, zip(*part, strict=True)))
                     for part in (rounds, rounds[:half], rounds[half:]))  # fmt: skip
    *products, level = best
    found = [n**3 / s for n, s in zip(extents, products, strict=True)]
    algorithm = variant(t)
    beside = level - algorithm.products * products[-2]
    falls = any(y * AGREE < x for x, y in pairwise(found))
    differ = any(max(x, y) > AGREE * min(x, y) for x, y in zip(*halves, strict=True))
    if falls or differ or beside <= 0:
        return None
    moved = t.bytes * (extents[-1] // 2) ** 2 * sum(passes(algorithm).values())
    never_slower = accumulate(found, max)
    return Rates(tuple(zip(extents, never_slower, strict=True)), moved / beside)


def _load() -> float:
    """Processes that wanted a processor in the last minute; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0


def known() -> dict[str, Measured]:
    """What is kept of this machine, by type."""
    return read(None, machine_key())


def in_words(t: ScalarType, found: Measured | None) -> str:
    """From which square a fast algorithm is chosen, how much faster it should be there, and when
    that was measured; `found`: what is kept."""
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
    """What a file (None: that of the cache) says about a machine; nothing where it cannot be
    trusted."""
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
    """Replace the file as a whole; a folder that cannot be written to keeps nothing."""
    whole = {
        "version": VERSION, "machine": machine,
        "types": {name: {"date": time.strftime("%Y-%m-%d", time.gmtime(m.when)), "when": m.when,
                         "load": m.load, "product": m.rates.product, "sums": m.rates.sums}
                  for name, m in sorted(types.items()) if m.rates is not None},
    }  # fmt: skip
    keep(lambda: path or _path(), json.dumps(whole, indent=1).encode())
