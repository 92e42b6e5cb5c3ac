"""Measures the programs of NPBench: treadle's beside NPBench's for NumPy, Numba, JAX and CuPy.

    git clone https://github.com/spcl/npbench
    python -m benchmarks.npbench --clone npbench --preset M --frameworks native,numpy,numba

Every framework has a process of its own, and only one of them works at a time (with `--parts`, one
on each part of the machine).  Every result is compared with NumPy's.  The file of results is
complete after every program, so a run that is interrupted keeps what it has, and
`--resume FILE.json` measures the rest of it on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.npbench.clone import benchmarks, enter
from benchmarks.npbench.frameworks import ALIASES, FRAMEWORKS
from benchmarks.npbench.page import summary, table, write_tables
from benchmarks.npbench.results import Entry, Run, Version, read
from benchmarks.npbench.worker import COMPILER
from benchmarks.provenance import ROOT

RESULTS = ROOT / "benchmarks" / "results"
#: Of what remains of the budget, the part that one program may use on one framework.
SHARE = 1 / 8
#: Seconds below which a program is not started.
LEAST = 0.5
#: Seconds in which a library must be imported.
IMPORT = 120.0


def arguments(argv: list[str] | None) -> argparse.Namespace:
    first_line = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.npbench", description=first_line)
    parser.add_argument("--clone", type=Path, required=True, metavar="DIR",
                        help="a clone of github.com/spcl/npbench")  # fmt: skip
    parser.add_argument("--preset", default="M", choices=("S", "M", "L", "paper"))
    parser.add_argument("--frameworks", default="native,numpy,numba", metavar="NAMES",
                        help=f"of {', '.join(FRAMEWORKS)}, separated by commas")  # fmt: skip
    parser.add_argument("--only", action="append", default=[], metavar="NAMES",
                        help="only these programs, separated by commas")  # fmt: skip
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS",
                        help="for one program on one framework (default: 60)")  # fmt: skip
    parser.add_argument("--budget", type=float, metavar="SECONDS",
                        help="for everything: a program gets at most an eighth of what remains on "
                        "each framework, and what does not fit is skipped")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--resume", type=Path, metavar="FILE.json",
                        help="results of the same command: only what was skipped there is "
                        "measured, the rest is kept")  # fmt: skip
    parser.add_argument("--parts", type=int, default=1, metavar="N",
                        help="measure N programs at a time, each on an Nth of the cores and on a "
                        "GPU of its own")  # fmt: skip
    options = parser.parse_args(argv)
    names = [ALIASES.get(n, n) for n in options.frameworks.split(",") if n]
    unknown = [n for n in names if n not in FRAMEWORKS]
    if unknown or not names:
        parser.error(f"unknown framework {', '.join(unknown)}: choose of {', '.join(FRAMEWORKS)}")
    options.frameworks = list(dict.fromkeys(names))
    options.only = [n for names in options.only for n in names.split(",") if n]
    return options


class Worker:
    """A framework's process.  It is started again when a time limit, or a crash, has ended it."""

    def __init__(self, name: str, options: argparse.Namespace, folder: Path) -> None:
        self.name, self.options, self.folder = name, options, folder
        self.about: dict[str, Any] = {}
        #: Why the framework cannot run here; then nothing more is tried.
        self.broken = ""
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.log = (folder / f"{name}.log").open("w+", encoding="utf-8")

    def start(self) -> None:
        """Start the process without waiting for it."""
        command = [sys.executable, "-m", "benchmarks.npbench.worker", self.name]
        command += [str(self.options.clone.resolve()), self.options.preset, str(self.folder)]
        cache = self.folder / f"cache-{self.name.partition('-')[0]}"  # first calls shall compile
        environment = {**os.environ, **FRAMEWORKS.get(self.name, ("", {}))[1]}
        for variable in ("TREADLE_CACHE_DIR", "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR"):
            environment[variable] = str(cache)
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip
        self.lines = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def _listen(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def answers(self, limit: float) -> Iterator[Mapping[str, Any]]:
        """What the process says; TimeoutError after `limit` seconds, EOFError when it has ended."""
        end = monotonic() + limit
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if line is None:
                raise EOFError
            yield json.loads(line)

    def ready(self) -> bool:
        """Whether the process runs and has imported its library; it is started if need be."""
        if self.broken:
            return False
        if self.process is None:
            self.start()
        elif self.about:
            return True
        try:
            self.about = dict(next(self.answers(IMPORT)))
        except (TimeoutError, EOFError):
            self.stop()
            self.broken = self.last_line() or "its process did not start"
        return not self.broken

    def last_line(self) -> str:
        self.log.flush()
        lines = Path(self.log.name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")

    def run(self, program: str, limit: float) -> Entry:
        """Run one program; the process ends with the limit."""
        entry = Entry(program, self.name)
        if not self.ready():
            entry.status, entry.message = "failed", self.broken
            return entry
        assert self.process is not None and self.process.stdin is not None
        versions: dict[str, Version] = {}
        try:
            self.process.stdin.write(program + "\n")
            self.process.stdin.flush()
            for said in self.answers(limit):
                if "done" in said:
                    break
                if "version" in said:
                    version = versions.setdefault(said["version"], Version(said["version"]))
                    for key, value in said.items():
                        setattr(version, key, value)
                else:
                    entry.status, entry.message = said["status"], said.get("message", "")
        except TimeoutError:
            entry.status, entry.message = "timeout", f"not done after {limit:.0f} s"
            self.stop()
        except (EOFError, OSError):
            self.stop()
            entry.status, entry.message = "failed", f"its process died: {self.last_line()}"
        entry.versions = list(versions.values())
        entry.close()
        return entry

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.about = None, {}


def compile_ahead(options: argparse.Namespace, programs: Sequence[str], folder: Path) -> None:
    """Compile Numba's versions, on all cores at once, while nothing is measured.

    Compiling them one after another would take most of the time of a run.  What the processor spent
    is added to the first calls.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for program in programs:
        waiting.put(program)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    end = monotonic() + (options.budget * SHARE if options.budget else float("inf"))

    def work() -> None:
        worker = Worker(COMPILER, options, folder)
        while monotonic() < end:
            try:
                program = waiting.get_nowait()
            except queue.Empty:
                break
            worker.run(program, min(options.time_limit, end - monotonic()))
        worker.stop()

    threads = [threading.Thread(target=work) for _ in range(min(cores or 1, len(programs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_line(entry: Entry) -> str:
    best = entry.best
    what = f"{entry.program} on {entry.framework}: "
    if best is None:
        return f"{what}{entry.status} {entry.message}"
    also = f", {best.version}" if len(entry.versions) > 1 else ""
    notes = [f"{v.version} is wrong by {v.error:.1e}"
             for v in entry.versions if v.right is False and v.error is not None]  # fmt: skip
    return (
        f"{what}{best.median * 1e3:.3g} ms (first {best.first * 1e3:.0f} ms, {best.samples} "
        f"samples, error {best.error or 0:.0e}{also}) {'; '.join(notes)}"
    )


def measure(options: argparse.Namespace, run: Run, out: Path, folder: Path) -> None:
    """Every program on every framework, one after another; the results so far are always in
    `out`."""
    started = monotonic()
    end = started + options.budget if options.budget else None
    known = benchmarks(options.clone)
    unknown = [n for n in options.only if n not in known]
    if unknown:
        raise SystemExit(f"NPBench has no {', '.join(unknown)}: choose of {', '.join(known)}")
    # NumPy makes the data and the expected results, whether it is measured or not.
    order = ["numpy", *(n for n in options.frameworks if n != "numpy")]
    workers = {name: Worker(name, options, folder) for name in order}
    programs = [n for n in options.only or known if n not in run.complete()]
    seconds = run.seconds
    if "numba" in workers:
        compile_ahead(options, programs, folder)
        print(f"Numba's versions compiled after {monotonic() - started:.0f} s", flush=True)
    try:
        for worker in workers.values():
            worker.start()
        for name, worker in workers.items():
            if worker.ready():
                kind, here = FRAMEWORKS[name][0], worker.about["device"]
                before = run.devices.get(kind, here)
                if any(before.get(k, v) != v for k, v in here.items() if k in ("cpu", "gpu")):
                    raise SystemExit(f"{options.resume} was measured on other devices: {before}")
                run.devices[kind] = {**here, **run.devices.get(kind, {})}
                run.versions.update(worker.about["versions"])
            else:
                print(f"{name} does not work here: {worker.broken}", file=sys.stderr)
        for program in programs:
            room = folder / program
            room.mkdir()
            for name, worker in workers.items():
                remains = float("inf") if end is None else end - monotonic()
                limit = min(options.time_limit, remains * SHARE)
                if limit < LEAST:
                    entry = Entry(program, name, "skipped", "the budget is spent")
                else:
                    entry = worker.run(program, limit)
                    if entry.status == "timeout" and limit < options.time_limit:
                        entry.status = "skipped"
                    worker.ready()  # again, if the limit ended it, before others are timed
                if name in options.frameworks:
                    run.entries.append(entry)
                    print(one_line(entry), flush=True)
            shutil.rmtree(room)
            run.seconds = round(seconds + monotonic() - started, 1)
            run.write(out)
    finally:
        for worker in workers.values():
            worker.stop()


def measure_parts(options: argparse.Namespace, argv: Sequence[str], run: Run, out: Path) -> None:
    """Every Nth program in a process of its own, with its part of the cores and its own GPU."""
    known = list(benchmarks(options.clone))
    n = min(options.parts, len(known))
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // n
    if not share:
        raise SystemExit(f"--parts {n} needs {n} cores, and {len(cores)} may be used")
    files = [out.with_suffix(f".part{k}.json") for k in range(n)]
    parts = []
    for k, file in enumerate(files):
        command = [sys.executable, "-m", "benchmarks.npbench", *argv, "--parts", "1"]
        command += ["--only", ",".join(known[k::n]), "--out", str(file)]
        mine = cores[k * share : (k + 1) * share]
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, mine)  # the process inherits it
        try:
            parts.append(subprocess.Popen(
                command, env={**os.environ, "CUDA_VISIBLE_DEVICES": str(k)}))  # fmt: skip
        finally:
            os.sched_setaffinity(0, before)
    for part in parts:
        part.wait()
    for file in files:
        if file.exists():
            found = read(file)
            run.entries += found.entries
            run.devices.update(found.devices)
            run.versions.update(found.versions)
            run.seconds = max(run.seconds, found.seconds)
        for path in out.parent.glob(f"{file.stem}.*"):
            path.unlink()
    run.parts = n
    order = {name: k for k, name in enumerate(known)}
    run.entries.sort(key=lambda e: order[e.program])
    run.write(out)


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 1 if a result of treadle's is wrong or missing."""
    options = arguments(argv)
    enter(options.clone)
    head = subprocess.run(["git", "-C", str(options.clone), "rev-parse", "HEAD"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    run = Run(options.preset, options.frameworks, head.stdout.strip())
    if options.resume:
        earlier = read(options.resume)
        if (earlier.preset, earlier.frameworks) != (run.preset, run.frameworks):
            raise SystemExit(f"{options.resume} has preset {earlier.preset} and frameworks "
                             f"{','.join(earlier.frameworks)}: name the same")  # fmt: skip
        run = earlier
        run.entries = [e for e in run.entries if e.program in run.complete()]
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    kind = f"npbench-{options.preset}-{today}"
    out = options.out or RESULTS / f"{kind}{'-partial' if options.only else ''}.json"
    if options.parts > 1:
        if options.only or options.resume:
            raise SystemExit("--parts takes neither --only nor --resume")
        measure_parts(options, sys.argv[1:] if argv is None else argv, run, out)
    else:
        with tempfile.TemporaryDirectory(prefix="npbench-") as folder:
            try:
                measure(options, run, out, Path(folder))
            except KeyboardInterrupt:
                print("interrupted: the results so far are kept", file=sys.stderr)
                run.write(out)
    print("\n".join(table(run)))
    print("\n".join(summary(run)))
    for path in [out, *write_tables(run, out)]:
        print(f"wrote {path}")
    ours = [e for e in run.entries if e.framework in ("native", "cuda", "reference")]
    bad = [e for e in ours if e.status not in ("ok", "skipped")]
    if bad:
        said = "; ".join(f"{e.program} on {e.framework} ({e.status})" for e in bad)
        print(f"WRONG or failed: {said}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
