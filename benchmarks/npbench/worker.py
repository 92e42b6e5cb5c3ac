"""One framework's process: `python -m benchmarks.npbench.worker FRAMEWORK CLONE PRESET FOLDER`.

It reads a program's name from each line of its input, runs that program, and writes what it finds,
piece by piece, as lines of JSON: what was measured before a time limit ends the process counts.
The process for NumPy also makes the data and the expected results, for the other processes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.harness import timing
from benchmarks.npbench.clone import Benchmark, benchmarks, enter
from benchmarks.npbench.frameworks import OURS, Framework, Numba, as_list, make
from benchmarks.provenance import versions

#: Instead of a framework: compile Numba's versions, for the process that measures them.
COMPILER = "numba-compiler"
#: Repeat until so many seconds or calls.
SECONDS, CALLS = 0.5, 30


def _follow_parent() -> None:
    """End with the process that started this one, whatever a program is doing."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _save(folder: Path, kind: str, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, np.ndarray):
            np.save(folder / f"{kind}-{key}.npy", value)
    rest = {k: None if isinstance(v, np.ndarray) else v for k, v in values.items()}
    (folder / f"{kind}.pickle").write_bytes(pickle.dumps(rest))


def _load(folder: Path, kind: str) -> dict[str, Any] | None:
    """What `_save` wrote; None if there is nothing."""
    path = folder / f"{kind}.pickle"
    if not path.exists():
        return None
    values: dict[str, Any] = pickle.loads(path.read_bytes())
    for key, value in values.items():
        if value is None:
            values[key] = np.load(folder / f"{kind}-{key}.npy")
    return values


class Job:
    """One program on one framework."""

    def __init__(
        self, framework: Framework, benchmark: Benchmark, folder: Path, say: Callable[..., None]
    ) -> None:
        self.framework, self.benchmark, self.folder, self.say = framework, benchmark, folder, say

    def run(self, preset: str) -> None:
        """Every version that NPBench has for the framework; each says what it finds."""
        data = _load(self.folder, "data")
        if data is None:
            data = self.benchmark.data(preset)
            _save(self.folder, "data", data)
        found = self.framework.versions(self.benchmark)
        if not found:
            self.say(status="missing")
        for version, load in found.items():
            try:
                self._measure(version, load, data)
            except Exception as error:  # one version that fails does not end the others
                text = str(error).strip().splitlines() or [""]
                self.say(version=version, status="failed",
                         message=f"{type(error).__name__}: {text[0][:200]}")  # fmt: skip
            gc.collect()
            self.framework.clear()

    def _measure(self, version: str, load: Callable[..., Any], data: Mapping[str, Any]) -> None:
        framework, names = self.framework, self.benchmark.arguments
        arrays = [n for n in names if isinstance(data[n], np.ndarray)]

        def arguments() -> dict[str, Any]:
            """Fresh ones: NPBench's versions may change theirs."""
            return {**data, **{n: framework.upload(data[n]) for n in arrays}}

        given = arguments()
        framework.wait(list(given.values()))
        start = perf_counter()
        call = load()  # decorators may compile here
        returned = call(*(given[n] for n in names))
        framework.wait(returned)
        first = perf_counter() - start
        results = as_list(returned)
        if framework.name not in OURS:
            results += [given[n] for n in self.benchmark.outputs]
        downloaded = [np.asarray(framework.download(r)) for r in results]
        expected = _load(self.folder, "expected")
        if framework.name == "numpy":
            _save(self.folder, "expected", {str(k): r for k, r in enumerate(downloaded)})
            right, error = True, 0.0
        elif expected is None:
            right, error = None, None
        else:
            wanted = list(expected.values())
            if framework.name in OURS and len(wanted) != len(downloaded):
                raise ValueError(f"{len(wanted)} results expected, {len(downloaded)} returned")
            right, error = self.benchmark.compare(wanted, downloaded)
        del returned, results, downloaded, expected
        compiled = _load(self.folder.parent, f"compiled-{self.benchmark.name}-{version}")
        if compiled is not None:
            first += compiled["seconds"]
        self.say(version=version, first=first, right=right, error=error)
        # NumPy compiles nothing: a long first call is a sample like any other.
        samples = [first] if framework.name == "numpy" and first > SECONDS else []
        began = perf_counter() - sum(samples)
        while len(samples) < CALLS and (not samples or perf_counter() - began < SECONDS):
            if framework.in_place:
                given = arguments()
                framework.wait(list(given.values()))
            values = [given[n] for n in names]
            start = perf_counter()
            returned = call(*values)
            framework.wait(returned)
            samples.append(perf_counter() - start)
            del returned
        took = timing(samples)
        self.say(version=version, median=took.median, low=took.low, high=took.high,
                 least=took.least, samples=took.samples)  # fmt: skip


def compile_ahead(framework: Numba, benchmark: Benchmark, folder: Path) -> None:
    """Put the versions of a program into Numba's cache on disk, and note the processor time."""
    # The smallest data have the types of all.
    data = benchmark.data("S")
    for version, load in framework.versions(benchmark).items():
        with contextlib.suppress(Exception):  # the process that measures it says what is wrong
            start = process_time()
            framework.compile(load(), list(data.values()))
            took = process_time() - start
            _save(folder, f"compiled-{benchmark.name}-{version}", {"seconds": took})


def main(arguments: list[str]) -> None:
    name, clone, preset, folder = arguments
    _follow_parent()
    warnings.simplefilter("ignore")
    # What the programs print goes to the standard error; the lines of JSON to the first output.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(**found: Any) -> None:
        answers.write(json.dumps(found) + "\n")

    enter(Path(clone))
    known = benchmarks(Path(clone))
    if name == COMPILER:
        numba = Numba("numba")
        say(ready=True)
        for line in sys.stdin:
            compile_ahead(numba, known[line.strip()], Path(folder))
            say(done=True)
        return
    framework = make(name)
    packages = [p for p in framework.packages if p in versions(framework.packages)]
    say(ready=True, device=framework.device(), versions=versions(packages))
    for line in sys.stdin:
        job = Job(framework, known[line.strip()], Path(folder) / line.strip(), say)
        with contextlib.redirect_stdout(sys.stderr):
            try:
                job.run(preset)
            except Exception as error:
                text = str(error).strip().splitlines() or [""]
                say(status="failed", message=f"{type(error).__name__}: {text[0][:200]}")
        say(done=True)


if __name__ == "__main__":
    main(sys.argv[1:])
