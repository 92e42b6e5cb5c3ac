"""The ceilings of a device (the peak rates that feed the model), and their storage.

`treadle ceilings` measures and stores them.  Until then, shipped ones are used: measured ones of an
H200 (see `H200.origin`), and conservative guesses for a CPU.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.dsl.errors import BackendUnavailable
from treadle.dsl.program import TracedProgram
from treadle.dsl.target import target_of

from .. import store

FOLDER = "ceilings"


@dataclass(frozen=True)
class Ceilings:
    """Rates in bytes and operations per second for the whole device, sizes in bytes.

    `dram`: copying, bytes read and written; `far`: from the shared cache (a GPU's L2 to its L1s, a
    CPU's last-level cache to L2); `near`: from the L2s of all CPU cores (0 on a GPU, whose L1 is
    counted in wavefronts).  `issue`: instructions per second (of a warp, of a vector).  `clock`:
    Hz; `units`: multiprocessors or cores; `shared`, `own`, `first`: sizes of the shared cache, of a
    unit's L2 (0 on a GPU) and of its L1.  `launch`: the launch overhead in seconds.  `lanes`:
    elements of four bytes per instruction.  `origin`: where the numbers come from.  `first_ways`,
    `own_ways`: the associativity of a unit's L1 and L2 (0 if unknown, or on a GPU).
    """

    name: str
    gpu: bool
    dram: float
    far: float
    near: float
    issue: float
    clock: float
    units: int
    shared: int
    own: int
    first: int
    launch: float
    lanes: int
    origin: str
    first_ways: int = 0
    own_ways: int = 0

    @property
    def line(self) -> int:
        """Bytes of a cache line."""
        return 128 if self.gpu else 64

    @property
    def guessed(self) -> bool:
        """Whether these are defaults, not measured on this device or one of its kind."""
        return self.origin == UNKNOWN_CPU.origin

    def rows(self) -> list[tuple[str, str]]:
        shared, own = ("L2 to L1", "") if self.gpu else ("shared cache", "own caches")
        found = [
            ("copy", f"{self.dram / 1e9:,.1f} GB/s, read and written"),
            (shared, f"{self.far / 1e9:,.1f} GB/s, {self.shared / 2**20:,.0f} MiB"),
            (own, f"{self.near / 1e9:,.1f} GB/s, {self.own / 2**10:,.0f} KiB each"),
            ("multiply-adds", f"{self.issue * self.lanes / 1e9:,.1f} G/s in {self.lanes} lanes"),
            ("units", f"{self.units} at {self.clock / 1e9:.2f} GHz"),
            ("launch", f"{self.launch * 1e6:.1f} µs"),
        ]
        return [row for row in found if row[0]]

    @property
    def piece(self) -> int:
        """Bytes that a miss fetches."""
        return 32 if self.gpu else 64


H200 = Ceilings(
    name="NVIDIA H200", gpu=True, dram=4.2e12, far=8.4e12, near=0.0, issue=132 * 4 * 1.98e9,
    clock=1.98e9, units=132, shared=44 << 20, own=0, first=224 << 10, launch=2e-6, lanes=32,
    origin="shipped: copy 4.2 TB/s, L2 8.4 TB/s, clock 1.98 GHz, as measured on an H200; launch "
    "2 us assumed",
)  # fmt: skip

UNKNOWN_CPU = Ceilings(
    name="a CPU", gpu=False, dram=20e9, far=30e9, near=80e9, issue=3 * 3e9, clock=3e9, units=1,
    shared=16 << 20, own=1 << 20, first=32 << 10, launch=5e-6, lanes=8,
    origin="shipped: guesses for a core of a CPU; `treadle ceilings` measures this one",
    first_ways=8, own_ways=16,
)  # fmt: skip


def default(backend: str) -> Ceilings:
    """The shipped ceilings for a backend; for a CPU, with this machine's cores and caches."""
    if target_of(backend).gpu:
        return H200
    cores = os.cpu_count() or 1
    core, caches = UNKNOWN_CPU, data_caches()
    first, first_ways = caches.get(1, (core.first, core.first_ways))
    own, own_ways = caches.get(2, (core.own, core.own_ways))
    return dataclasses.replace(
        core, units=cores, dram=core.dram * math.sqrt(cores), far=core.far * cores,
        near=core.near * cores, issue=core.issue * cores, first=first, own=own,
        shared=caches.get(3, (core.shared, 0))[0], first_ways=first_ways, own_ways=own_ways,
    )  # fmt: skip


@functools.cache
def data_caches() -> dict[int, tuple[int, int]]:
    """(bytes, ways) of the data caches by level, as Linux reports them; empty elsewhere."""
    found: dict[int, tuple[int, int]] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind, level, size, ways = (
                (index / name).read_text(encoding="utf-8").strip()
                for name in ("type", "level", "size", "ways_of_associativity")
            )
        except OSError:
            continue
        unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        numbers = (level, size.rstrip("KM"), ways)
        if kind != "Instruction" and all(n.isdigit() for n in numbers):
            found[int(level)] = (int(size.rstrip("KM")) * unit, int(ways))
    return found


# --- storage ---------------------------------------------------------------------------------


def key(backend: str, machine: list[str]) -> str:
    """The key of a device's ceilings: processor or GPU, independent of versions."""
    return store.key(FOLDER, backend, store.processor(), os.cpu_count(), machine)


def keep(backend: str, machine: list[str], ceilings: Ceilings) -> None:
    """Store measured ceilings; does nothing if the store cannot be written."""
    store.put(key(backend, machine), dataclasses.asdict(ceilings), FOLDER)
    _recall.cache_clear()


def ceilings(backend: str, machine: list[str]) -> Ceilings:
    """The ceilings measured on this device, else the shipped ones.  Deletes a corrupt file."""
    return _recall(backend, tuple(machine), str(store.directory(FOLDER)))


def device_of(program: TracedProgram) -> Ceilings:
    """The ceilings of the device that a program runs on; the shipped ones if it is not present."""
    try:
        machine = program.machine()
    except BackendUnavailable:
        machine = []
    return ceilings(program.backend, machine)


@functools.lru_cache(maxsize=16)
def _recall(backend: str, machine: tuple[str, ...], folder: str) -> Ceilings:
    name = key(backend, list(machine))
    value = store.get(name, FOLDER)
    if value is not None:
        found = from_dict(value, default(backend))
        if found is not None and found.gpu == target_of(backend).gpu:
            return found
        store.drop(name, FOLDER)
    return default(backend)


def from_dict(value: Any, shipped: Ceilings | None = None) -> Ceilings | None:
    """The inverse of `dataclasses.asdict`; None for values that are not ceilings.

    `shipped` provides the associativity of caches, which older files lack.
    """
    fields = dataclasses.fields(Ceilings)
    if isinstance(value, dict) and shipped is not None:
        value = {"first_ways": shipped.first_ways, "own_ways": shipped.own_ways, **value}
    if not isinstance(value, dict) or set(value) != {f.name for f in fields}:
        return None
    kinds = {"str": str, "bool": bool, "int": int, "float": (int, float)}
    for f in fields:
        if not isinstance(value[f.name], kinds[str(f.type)]):  # type: ignore[arg-type]
            return None
    positive = ("dram", "far", "issue", "clock", "units", "shared", "first", "launch", "lanes")
    if not all(math.isfinite(value[n]) and value[n] > 0 for n in positive):
        return None
    return Ceilings(**value)
