"""Worker processes, in which a program may crash or hang without ending the campaign."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from .drawing import draw
from .judging import Verdict, judge, together
from .program import Program

SECONDS = 60.0


def judged_numbers(backend: str, seed: int, numbers: list[int]) -> list[Verdict]:
    """Programs by number. Those of one manner that are called once become one program where kernels
    take long to compile; should that one fail, each is judged alone."""
    programs = [draw(seed, number) for number in numbers]
    if len(programs) == 1:
        return [judge(programs[0], backend)]
    groups: dict[Any, list[int]] = {}
    for place, program in enumerate(programs):
        groups.setdefault(program.manner, []).append(place)
    found: dict[int, Verdict] = {}
    for places in groups.values():
        whole = judge(together([programs[p] for p in places]), backend) if len(places) > 1 else None
        for place in places:
            found[place] = (
                whole if whole and whole.kind == "right" else judge(programs[place], backend)
            )
        if whole and whole.failed and not any(found[p].failed for p in places):
            found[places[0]] = Verdict(f"together, not alone: {whole.kind}", whole.message)
    return [found[p] for p in range(len(programs))]


def _serve(connection: Connection, emulated: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        from ..helpers import cuda

        stack.enter_context(cuda(emulated))
        while True:
            try:
                function, arguments = connection.recv()
            except EOFError:
                break
            try:
                connection.send((True, function(*arguments)))
            except Exception as error:  # of the generator, not of a program
                connection.send((False, f"{type(error).__name__}: {error}"))
    sys.stdout.flush()
    os._exit(0)


class Worker:
    """A process that calls functions, one at a time; it is started anew after a crash or a hang."""

    def __init__(self, emulated: bool = False) -> None:
        self._emulated = emulated
        self._process: Any = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._emulated), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float = SECONDS) -> Any:
        """What `function(*arguments)` gives, or a `Verdict` that it crashed or hung."""
        if self._process is None:
            self._start()
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(seconds):
                self.stop()
                return Verdict("hung", f"no result after {seconds:.0f} s")
            fine, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(10)
            code = self._process.exitcode
            self.stop()
            name = signal.Signals(-code).name if code and code < 0 else f"status {code}"
            return Verdict(f"crashed: {name}", "the process ended")
        return answer if fine else Verdict("generator", answer)

    def judge(self, program: Program, backend: str, seconds: float = SECONDS) -> Verdict:
        verdict: Verdict = self.call(judge, program, backend, seconds=seconds)
        return verdict

    def stop(self) -> None:
        """Ends the process; the next call starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None
