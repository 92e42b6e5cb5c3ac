"""`reference` as a backend: a program's own graph, evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dsl.expr import Param
from treadle.dsl.graph import Input
from treadle.dsl.printer import show_graph
from treadle.dsl.sources import host_array

from .evaluate import run


def unavailable() -> str | None:
    """NumPy is always there."""
    return None


class Executable:
    """Evaluates a program's roots on the data of its inputs."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def __call__(self, data: Sequence[Any], params: Sequence[Any]) -> list[Any]:
        """`data` for `program.inputs`, `params` for `program.params`; one array per root."""
        inputs: Sequence[Input] = self.program.inputs
        names: Sequence[Param] = self.program.params
        return run(
            self.program.source_roots,
            dict(zip(inputs, map(host_array, data), strict=True)),
            dict(zip(names, params, strict=True)),
            self.program.settings.check,
        )

    def source(self) -> str:
        return show_graph(self.program.source_roots)
