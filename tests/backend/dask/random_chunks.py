"""Random programs on arrays of dask with random chunks: the bits of `native`, by every scheduler.

    python -m tests.backend.dask.random_chunks --seconds 1200 --seed 1

The programs are those of `tests/conformance/fuzz`, whose arrays have extents of 0 and 1, and whose
stencils reach beyond chunks.  Chunks have any size, 0 too.  Half of the programs are planned as if
their arrays were large: sorts and scatters exchange elements, and processes send parts of chunks.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import dask
import dask.array as da
import numpy as np

import treadle as td
from tests.conformance.fuzz import Manner, Program, Verdict, draw, shrink
from tests.conformance.fuzz.judging import compare
from treadle.backend.blocks import gather, plan, scans, tasks as block_tasks
from treadle.backend.dask import executable, graph

SCHEDULERS = ("synchronous", "threads", "processes")
#: What BLAS computes, and so may add in another order for another number of rows.
PRODUCTS = re.compile(r"@|matmul|dot|einsum|inner|outer|kron|cov|corrcoef|convolve|correlate|solve"
                      r"|linalg|matrix|vander|polyfit|lstsq")  # fmt: skip


def cut(rng: Random, extent: int) -> tuple[int, ...]:
    """Random sizes of the chunks along an axis."""
    ends = sorted(rng.randint(0, extent) for _ in range(rng.choice((0, 0, 1, 2, 3, 6))))
    if rng.random() < 0.9:
        ends = sorted({*ends} - {0, extent})
    return tuple(np.diff([0, *ends, extent]).tolist())


def chunked(arguments: dict[str, Any], rng: Random) -> list[Any]:
    """The arguments, most arrays as arrays of dask."""
    made: list[Any] = []
    for name, value in arguments.items():
        if name[0] != "a" or rng.random() < 0.1:
            made.append(value)
        else:
            array = np.asarray(value)
            chunks = tuple(cut(rng, n) for n in array.shape)
            made.append(da.from_array(array, chunks=chunks))
    if not any(isinstance(m, da.Array) for m in made):
        made = [da.from_array(np.asarray(m), chunks=-1) if n[0] == "a" else m
                for n, m in zip(arguments, made, strict=True)]  # fmt: skip
    return made


@contextmanager
def as_if_large(on: bool) -> Iterator[None]:
    """Plans as for arrays of many megabytes."""
    with ExitStack() as stack:
        if on:
            for name in ("FEW", "LARGE", "MANY", "SMALL"):
                stack.enter_context(patch.object(plan, name, 64))
            stack.enter_context(patch.object(gather, "READ", 1.0))
            stack.enter_context(patch.object(scans, "ALONE", 0))
            stack.enter_context(patch.object(block_tasks, "WORTH", 0))
            stack.enter_context(patch.object(graph, "has_workers", lambda: True))
            stack.enter_context(patch.object(executable, "threads", lambda: 2))
        yield


def parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def judged(program: Program, seed: int, scheduler: str) -> Verdict:
    """How a program went on chunks, beside `native`."""
    rng = Random(seed)
    settings = program.manner.settings
    try:
        # Chunks are in row-major order, and sums of floats may depend on the layout of arguments.
        arguments = {n: np.array(v, order="C") if n[0] == "a" else v
                     for n, v in program.arguments().items()}  # fmt: skip
        with td.config(backend="native", **settings):
            wanted = td.jit(program.function())(*arguments.values())
    except Exception as error:  # of the program, whatever it runs on
        return Verdict("refused", str(error))
    try:
        with td.config(**settings), as_if_large(rng.random() < 0.5):
            given = chunked(arguments, rng)
            lazy = td.jit(program.function())(*given)
            flat = [p for value in lazy.values() for p in parts(value)]
            found = iter(dask.compute(*flat, scheduler=scheduler))
    except td.DistributionError as error:
        return Verdict("no rule", str(error))
    except Exception:
        return Verdict(f"raised: {sys.exc_info()[0].__name__}", traceback.format_exc())
    lines = {line.name: line for line in program.lines}
    floats = any(PRODUCTS.search(line.text) for line in program.lines)
    for name, value in lazy.items():
        got = tuple(np.asarray(next(found)) for _ in parts(value))
        want = tuple(map(np.asarray, parts(wanted[name])))
        for g, w, p in zip(got, want, parts(value), strict=True):
            if (g.dtype, g.shape) != (w.dtype, w.shape) or g.shape != p.shape:
                return Verdict("wrong", f"{name}: {g.dtype}{g.shape}, not {w.dtype}{w.shape}", name)
            if not same(g, w) and not (floats and not compare(g, w, lines[name])):
                return Verdict("wrong", f"{name}: {g.ravel()[:50]}, not {w.ravel()[:50]}", name)
    return Verdict("right")


def same(a: Any, b: Any) -> bool:
    """Equal bits, but for those of NaNs."""
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind in "fV" and a.size:
        wide = [x.astype(np.float32) if x.dtype.kind == "V" else x for x in (a, b)]
        nans = np.isnan(wide[0])
        if not np.array_equal(nans, np.isnan(wide[1])):
            return False
        a, b = np.where(nans, 0, wide[0]), np.where(nans, 0, wide[1])
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def program_of(seed: int, number: int) -> Program:
    """A random program, called once."""
    program = draw(seed, number)
    manner = program.manner
    return replace(program, manner=Manner("jit", deterministic=manner.deterministic,
                                          recognise=manner.recognise))  # fmt: skip


def campaign(seed: int, numbers: range, schedulers: Sequence[str], seconds: float,
             tell: bool = False) -> tuple[Counter[str], list[str]]:  # fmt: skip
    """Judges programs; how many went how, and reports of those that went wrong."""
    kinds: Counter[str] = Counter()
    failures: list[str] = []
    begun = time.monotonic()
    for number in numbers:
        if time.monotonic() - begun > seconds:
            break
        scheduler = schedulers[number % len(schedulers)]
        program = program_of(seed, number)
        verdict = judged(program, number, scheduler)
        kinds[verdict.kind] += 1
        if verdict.kind not in ("right", "refused", "no rule"):
            program, verdict = shrink(program, verdict, lambda p, n=number, s=scheduler:
                                      judged(p, n, s), 80)  # fmt: skip
            failures.append(f"seed {seed}, program {number}, {scheduler}: {verdict.kind}\n"
                            f"{verdict.message}\n\n{program.script('native')}")  # fmt: skip
            if tell:
                print(failures[-1], "-" * 80, sep="\n", flush=True)
    return kinds, failures


@contextmanager
def processes() -> Iterator[str]:
    """Two worker processes, as the scheduler "distributed"."""
    distributed = __import__("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=40
    ) as cluster, distributed.Client(cluster, set_as_default=False) as client:  # fmt: skip
        yield client


def main() -> int:
    say = argparse.ArgumentParser(prog="python -m tests.backend.dask.random_chunks")
    say.add_argument("--seed", type=int, default=0)
    say.add_argument("--first", type=int, default=0)
    say.add_argument("--count", type=int, default=1_000_000)
    say.add_argument("--seconds", type=float, default=1200)
    say.add_argument("--schedulers", nargs="*", default=SCHEDULERS)
    given = say.parse_args()
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        schedulers = [stack.enter_context(processes()) if s == "processes" else s
                      for s in given.schedulers]  # fmt: skip
        numbers = range(given.first, given.first + given.count)
        kinds, failures = campaign(given.seed, numbers, schedulers, given.seconds, tell=True)
    print(dict(kinds))
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
