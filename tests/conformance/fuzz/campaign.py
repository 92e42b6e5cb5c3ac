"""Many programs, judged by worker processes, with a summary."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .drawing import draw
from .judging import Verdict
from .program import Program
from .shrinking import shrink
from .workers import SECONDS, Worker, judged_numbers


@dataclass
class Failure:
    """A program that went wrong, and the shortest one found that goes as wrong."""

    seed: int
    number: int
    verdict: Verdict
    program: Program | None

    def report(self, backend: str) -> str:
        """Which program, what was wrong, and a script of the short one."""
        script = self.program.script(backend) if self.program else ""
        head = (
            f"seed {self.seed}, program {self.number}: {self.verdict.kind}\n{self.verdict.message}"
        )
        return f"{head}\n\n{script}"


@dataclass
class Summary:
    """How a campaign went; `kinds` counts verdicts."""

    backend: str
    seed: int
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> str:
        """Counts, and each failure with its script."""
        failures = [
            {
                "program": f.number,
                "kind": f.verdict.kind,
                "message": f.verdict.message,
                "script": f.program.script(self.backend) if f.program else "",
            }
            for f in self.failures
        ]
        return json.dumps(
            {
                "backend": self.backend,
                "seed": self.seed,
                "programs": sum(self.kinds.values()),
                "seconds": round(self.seconds, 1),
                "kinds": dict(self.kinds),
                "failures": failures,
            },
            indent=1,
        )


def campaign(backend: str = "native", count: int = 100, seed: int = 0, *, first: int = 0,
             jobs: int = 1, batch: int = 1, shrinking: bool = True, limit: float = SECONDS,
             seconds: float | None = None, emulated: bool = False, most: int = 50,
             tell: bool = False) -> Summary:  # fmt: skip
    """Draws and judges programs `first` … `first + count - 1` of a seed in `jobs` processes.

    `batch` programs at a time (they share compiled programs where their manners agree); `limit`
    seconds each; no new ones after `seconds`, or after `most` failures; `tell` prints failures.
    """
    summary = Summary(backend, seed)
    begun = time.monotonic()
    lock = threading.Lock()
    waiting = iter(range(first, first + count, batch))

    def work() -> None:
        worker = Worker(emulated)
        while True:
            with lock:
                late = seconds is not None and time.monotonic() - begun > seconds
                start = None if late or len(summary.failures) >= most else next(waiting, None)
            if start is None:
                break
            numbers = list(range(start, min(start + batch, first + count)))
            found = worker.call(
                judged_numbers, backend, seed, numbers, seconds=limit * len(numbers)
            )
            if isinstance(found, Verdict) and len(numbers) > 1:
                found = []
                for k in numbers:
                    answer = worker.call(judged_numbers, backend, seed, [k], seconds=limit)
                    found += [answer] if isinstance(answer, Verdict) else answer
            found = [found] if isinstance(found, Verdict) else found
            for number, verdict in zip(numbers, found, strict=True):
                failure = _failure(worker, number, verdict) if verdict.failed else None
                with lock:
                    summary.kinds[verdict.kind] += 1
                    if failure:
                        summary.failures.append(failure)
                        if tell:
                            print(failure.report(backend), "-" * 80, sep="\n", flush=True)
        worker.stop()

    def _failure(worker: Worker, number: int, verdict: Verdict) -> Failure:
        program = worker.call(draw, seed, number, seconds=limit)
        if not isinstance(program, Program):
            return Failure(seed, number, verdict, None)
        if shrinking:
            within = 10.0 if verdict.kind == "hung" else limit
            program, verdict = shrink(
                program, verdict, lambda p: worker.judge(p, backend, within),
                20 if verdict.kind == "hung" else 150,
            )  # fmt: skip
        return Failure(seed, number, verdict, program)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary.seconds = time.monotonic() - begun
    return summary


def write(summary: Summary, path: Path) -> None:
    """The summary as JSON."""
    path.write_text(summary.as_json(), encoding="utf-8")
