"""The treadle programs by the names of NPBench's `bench_info` files.

    @program("gemm")
    def gemm(alpha, beta, C, A, B):
        return alpha * (A @ B) + beta * C

A program takes the arguments of NPBench's NumPy version, in that order.  It returns what that
version returns, followed by the arrays that it changes in place (NPBench's `output_args`).  Numbers
are run-time values, except those named in `static`: they shape the program, and are captured.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MODULES = (
    "codes",
    "learning",
    "polybench_linear",
    "polybench_other",
    "polybench_stencils",
    "weather",
)


@dataclass(frozen=True)
class Program:
    """A treadle function, and the names of its arguments that are fixed when it is traced."""

    name: str
    function: Callable[..., Any]
    static: tuple[str, ...]

    def bind(self, values: Sequence[Any]) -> tuple[Callable[..., Any], list[int]]:
        """The function of the arguments that are not static, with the values of those that are;
        and the positions of the former."""
        names = list(inspect.signature(self.function).parameters)
        if len(names) != len(values):
            raise TypeError(f"{self.name} takes {len(names)} arguments, NPBench has {len(values)}")
        fixed = {n: v for n, v in zip(names, values, strict=True) if n in self.static}
        rest = [k for k, n in enumerate(names) if n not in fixed]

        def bound(*given: Any) -> Any:
            return self.function(**{names[k]: v for k, v in zip(rest, given, strict=True)}, **fixed)

        bound.__name__ = bound.__qualname__ = self.function.__name__
        return bound, rest


PROGRAMS: dict[str, Program] = {}


def program(name: str, *, static: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Any]:
    """Record a function as the treadle version of NPBench's program `name`."""

    def record(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in PROGRAMS:
            raise ValueError(f"two programs are called {name!r}")
        PROGRAMS[name] = Program(name, function, tuple(static))
        return function

    return record


def load() -> dict[str, Program]:
    """All programs."""
    for module in MODULES:
        importlib.import_module(f"benchmarks.npbench.{module}")
    return PROGRAMS
