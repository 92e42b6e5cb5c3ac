"""PageRank: blocks that read the same pages run together."""

from importlib.util import find_spec
from typing import Any

import numpy as np

import treadle as td
from treadle.examples._show import Made, Table, stage
from treadle.examples._timing import timed
from treadle.skeletons.lower.locality import queues_of
from treadle.skeletons.simulator import device, programs

BATCH, DAMPING = 256, 0.85
ROWS = td.schedule.Row() | td.schedule.Block(BATCH)
METHODS = ("mst", "kway", "bisect") if find_spec("pymetis") else ("mst",)
GRAPHS = tuple(ROWS | td.schedule.LocalityGraph(m) for m in METHODS)
SCHEDULES = (ROWS, ROWS | td.schedule.Agents(8), *GRAPHS)


def web(batches: int, sites: int, links: int, seed: int) -> np.ndarray:
    """The pages that link to each page: batches of pages of one site, the sites in random order,
    with nine of ten links inside the site."""
    random = np.random.default_rng(seed)
    site = np.repeat(random.permutation(np.arange(batches) % sites), BATCH)
    pages = np.argsort(site, kind="stable")
    first = np.searchsorted(site[pages], site)[:, None]
    shape = (batches * BATCH, links)
    inside = pages[first + random.integers(0, batches // sites * BATCH, shape)]
    return np.where(random.random(shape) < 0.9, inside, random.integers(0, shape[0], shape))


def ranking(sources: np.ndarray, schedule: Any = None) -> Any:
    """The function of old ranks that gives new ones, for pages to which `sources` link."""
    count, links = sources.shape
    linked = td.use(sources)
    share = td.use(1.0 / np.maximum(np.bincount(sources.ravel(), minlength=count), 1))

    def ranked(ranks: td.Array) -> td.Array:
        def page(i: Any) -> Any:
            more = lambda k, s: s + ranks[linked[i, k]] * share[linked[i, k]]  # noqa: E731
            return (1 - DAMPING) / count + DAMPING * td.loop(links, more, 0.0)

        return td.generate(ranks.shape, page, schedule=schedule)

    return ranked


def iteration(sources: np.ndarray, schedule: Any = None) -> td.Program:
    """Its program, which contains the links, so the queues of a graph are made once."""
    return td.jit(ranking(sources, schedule)).lower(np.ones(len(sources)))


def program() -> td.Program:
    """One iteration on a small web."""
    return iteration(web(8, 2, 4, 1), GRAPHS[0])


def main(batches: int = 128, sites: int = 16, links: int = 8, iterations: int = 10) -> Made:
    """Print what each schedule loads into the caches of a simulated GPU, and its time here."""
    sources = web(batches, sites, links, seed=1)
    gpu = device.Multiprocessors()
    start, plain = np.full(len(sources), 1.0 / len(sources)), iteration(sources)
    stage("simulating an iteration")
    trace = device.block_trace(programs.pattern_of(plain), ROWS.resolve(1), 16)
    values, rows = {"sources": sources}, []
    for schedule in SCHEDULES:
        made = iteration(sources, schedule)
        values[repr(schedule)] = start
        for _ in range(iterations):
            values[repr(schedule)] = made(values[repr(schedule)])
        found = queues_of(plain, schedule, gpu.count) if schedule in GRAPHS else None
        order, before = (None, 0.0) if found is None else (found.order, found.seconds)
        ran = device.run_blocks(trace, gpu, order, queues=schedule is not ROWS)
        who = repr(schedule.residency or td.schedule.Grid())
        rows.append((who, ran.l1_misses, before * 1e3, timed(made, start) * 1e3))
    columns = ("who runs a block", "lines into L1, simulated", "preprocessing ms", "ms/iteration")
    note = () if len(METHODS) > 1 else ("kway and bisect: pip install 'treadle[schedules]'",)
    return Made(values, tables=(Table("PageRank", columns, tuple(rows)),), notes=note)
