"""Measure the peak rates of a device: `treadle ceilings`.

Each rate is measured by a small treadle program, so that one module serves all backends: copying a
large array (DRAM), reading an array that fits in a cache many times in one kernel (the shared
cache, a core's own cache), independent multiply-adds (issue), dependent ones (clock), and an empty
kernel many times (launch).  The result is the best of several runs, minus the time of an empty run
including the wait for it.  On a CPU this also measures the extent from which a fast algorithm
computes matrix products (`backend.native.crossover`).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import treadle as td
from treadle.backend.registry import offered
from treadle.skeletons.model import device
from treadle.skeletons.model.device import Ceilings
from treadle.skeletons.model.time import LATENCY

#: Seconds for which each measurement is repeated.
SECONDS = 0.3
#: Empty kernels launched before each wait.
LAUNCHES = 64
#: Independent accumulators, enough to fill the pipelines.
CHAINS = 8
#: The most bytes copied: several times the largest cache, and small enough for all devices.
MOST_COPIED = 1 << 30


def measure(backend: str, seconds: float = SECONDS, *, copied: int | None = None) -> Ceilings:
    """Measure the ceilings of the device of a backend.

    `copied`: bytes of the array for the copy rate (default: four times the shared cache). Errors:
    `BackendUnavailable`.
    """
    shipped = sizes(backend)
    take = copied or min(max(4 * shipped.shared, 1 << 26), MOST_COPIED)
    program = td.jit(lambda a: a + 1, backend=backend)
    empty = np.ones(1, np.float32)
    alone_call, launch = (_best(program, empty, seconds, calls)[0] for calls in (1, LAUNCHES))
    copy, a = _best(program, np.ones(take // 4, np.float32), seconds)
    copy -= min(alone_call, copy / 2)
    inside = shipped.shared // 2 if shipped.gpu else (shipped.own * shipped.units * shipped.shared)
    far_bytes = inside if shipped.gpu else int(math.sqrt(inside))
    far = _reading(backend, min(far_bytes, take), seconds, alone_call)
    own_bytes = min(shipped.own // 2, take)
    near = 0.0 if shipped.gpu else _reading(backend, own_bytes, seconds, alone_call)
    together = _multiplying(backend, shipped, CHAINS, seconds)
    alone = _multiplying(backend, shipped, 1, seconds)
    clock = shipped.clock if shipped.gpu else alone * LATENCY / shipped.units
    return dataclasses.replace(
        shipped, dram=2 * a.nbytes / copy, far=far, near=near, issue=together, clock=clock,
        launch=launch, origin=f"measured here by `treadle ceilings`, treadle {td.__version__}",
    )  # fmt: skip


def machine_of(backend: str) -> list[str]:
    """A backend's device, as in `Program.machine`."""
    machine = offered(backend, "machine")
    return [] if machine is None else list(machine())


def products(backend: str, *, remeasure: bool) -> list[tuple[str, str]]:
    """The extent from which a fast algorithm computes products, per type, and when it was measured;
    `remeasure`: measure now, and replace stored values.

    Only for the host: a GPU uses the tables of `skeletons.products.measured`.
    """
    crossovers = offered(backend, "crossovers")
    return [] if crossovers is None else list(crossovers(remeasure))


def sizes(backend: str) -> Ceilings:
    """Properties that are not measured (units, cache sizes, name), and default rates."""
    shipped = device.default(backend)
    here = offered(backend, "sizes")
    return shipped if here is None else here(shipped)


def _best(function: Any, data: Any, seconds: float, calls: int = 1) -> tuple[float, Any]:
    """The shortest time of a call, with `calls` calls per wait, after a warm-up; and the data."""
    program = function.lower(data)
    arrays = program.placed([data])

    def call() -> None:
        for _ in range(calls):
            program.execute(arrays)
        program.wait()

    return _shortest(call, seconds) / calls, data


def _shortest(call: Callable[[], None], seconds: float) -> float:
    call()
    found, end = math.inf, time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        found = min(found, now - start)
        if now >= end:
            return max(found, 1e-9)


def _reading(backend: str, size: int, seconds: float, call: float) -> float:
    """Bytes per second when one kernel reads an array of `size` bytes repeatedly; `call` is the
    overhead of a call in seconds."""
    count = max(size // 4, 1024)
    times = max((1 << 28) // (4 * count), 1)
    program = td.jit(lambda a: td.sum(td.replicate(a, times, 0), axis=1), backend=backend)
    shortest, a = _best(program, np.ones(count, np.float32), seconds)
    return float(times * a.nbytes / max(shortest - call, shortest / 2))


def _multiplying(backend: str, shipped: Ceilings, chains: int, seconds: float) -> float:
    """Multiply-adds per second of all units, with `chains` independent chains per lane."""
    threads = shipped.units * (2048 if shipped.gpu else shipped.lanes * 16)
    iterations = 4096

    def chained(x: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            return tuple(v * x + x for v in s)

        state = td.loop(iterations, step, tuple(x + k for k in range(chains)))
        return sum(state[1:], state[0])

    program = td.jit(lambda a: td.map(chained, a), backend=backend)
    shortest, _ = _best(program, np.full(threads, 0.5, np.float32), seconds)
    return threads / shipped.lanes * iterations * chains / shortest
