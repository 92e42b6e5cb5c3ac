"""`reference` as a backend: a program's own graph, evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dsl.frontend.sources import host_array
from treadle.dsl.graphs.printer import show_graph
from treadle.dsl.program import TracedProgram

from .evaluate import run


def unavailable() -> str | None:
    return None


def source(program: TracedProgram, arch: str | None = None) -> str:
    return show_graph(program.roots)


def executable(program: TracedProgram) -> Interpreter:
    """The program, ready to run."""
    return Interpreter(program)


class Interpreter:
    """Evaluates a program's roots on the data of its inputs."""

    def __init__(self, program: TracedProgram) -> None:
        self.program = program

    def __call__(self, data: Sequence[Any], params: Sequence[Any]) -> list[Any]:
        """`data` for `program.inputs`, `params` for `program.params`; one array per root."""
        program = self.program
        return run(
            program.roots,
            dict(zip(program.inputs, map(host_array, data), strict=True)),
            dict(zip(program.params, params, strict=True)),
            program.settings.check,
        )

    def replay(self, args: Sequence[Any], data: Sequence[Any], params: Sequence[Any]) -> None:
        """None: no call is recorded."""
