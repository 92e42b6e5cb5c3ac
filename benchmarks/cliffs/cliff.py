"""A program in natural form, with its other forms and peers, and the table of them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np

import treadle as td
from benchmarks import harness

Program = Callable[..., Any]


class Cliff:
    """A program with its data: `ours` by label ("" is the natural form), `peers` by name."""

    def __init__(
        self, ours: Mapping[str, Program], peers: Mapping[str, Program], *data: Any
    ) -> None:
        self.jits = {label: td.jit(f, backend="native") for label, f in ours.items()}
        self.peers, self.data = peers, data

    def case(self) -> harness.Case:
        runs = {
            label: (lambda f=f: f(*self.data)) for label, f in {**self.jits, **self.peers}.items()
        }
        first = next(iter(self.peers))
        return harness.Case(
            ours={label: runs[label] for label in self.jits},
            peers={label: runs[label] for label in self.peers},
            exact=runs[first], ceiling="", tolerance=1e-4,
        )  # fmt: skip

    def kernels(self) -> int:
        """The kernels of the natural form."""
        program = self.jits[""].lower(*self.data)
        return len(program.kernels)


CLIFFS: dict[str, Callable[[int], Cliff]] = {}


def cliff(make: Callable[[int], Cliff]) -> Callable[[int], Cliff]:
    CLIFFS[make.__name__.replace("_", " ")] = make
    return make


def compiled(f: Program) -> Program:
    return numba.njit(fastmath=False, parallel=False, error_model="numpy")(f)


def floats(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(3).random(shape).astype(dtype)
