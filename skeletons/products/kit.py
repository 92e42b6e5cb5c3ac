"""The array-library operations that executions need: memory, standard products, sums, workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Job = Callable[[int], None]
"""A job; the argument is the index of the worker that runs it."""


class Kit:
    """The operations by NumPy; backends override them."""

    #: Workers for `streams` (at most two), `atomic`, `owner` and `persistent`.
    workers = 1
    #: Whether `update` needs no additional memory.
    adds = False

    def __init__(self, library: Any = np) -> None:
        self.library = library

    def empty(self, count: int, dtype: Any) -> Any:
        return self.library.empty(count, dtype)

    def product(self, a: Any, b: Any, out: Any) -> None:
        """`out[...] = a @ b` by the standard algorithm."""
        self.library.matmul(a, b, out=out)

    def update(self, a: Any, b: Any, out: Any, factor: float, add: bool) -> None:
        """`out[...] = factor * (a @ b)`, or `+=`."""
        made = self.library.matmul(a, b) * out.dtype.type(factor)
        out[...] = out + made if add else made

    def sums(self, made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
             shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
        """`out[...] = Σ c·x + Σ shared` for every (out, terms), as if reads preceded all writes."""
        add_up(self.library, made, shared)

    def concurrently(self, jobs: Sequence[Sequence[Job]]) -> None:
        """Run lists of jobs, one worker per list; return when all are done."""
        for worker, mine in enumerate(jobs):
            for job in mine:
                job(worker)


def add_up(library: Any, made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
           shared: Sequence[tuple[float, Any]]) -> None:  # fmt: skip
    """Sums by the library's own functions, in place.

    The shared terms are summed in a target that is one of them; the target's own sum is formed
    last.
    """
    if shared:
        home = next(out for out, _ in made if any(x is out for _, x in shared))
        add_up(library, ((home, shared),), ())
        for out, terms in sorted(made, key=lambda one: one[0] is home):
            add_up(library, ((out, ((1, home), *terms)),), ())
        return
    kept: dict[int, Any] = {}
    for at, (out, own) in enumerate(made):
        terms = [(c, kept.get(id(x), x)) for c, x in own]
        if any(x is out for _, later in made[at + 1 :] for _, x in later):
            kept[id(out)] = out.copy()
        # The target comes first if it is one of the terms: it is read before it is written.
        first, *rest = sorted(terms, key=lambda t: t[1] is not out)
        if not rest:
            _scaled(library, first, out)
        elif abs(first[0]) == 1 and abs(rest[0][0]) == 1:
            _pair(library, first, rest.pop(0), out)
        else:
            _scaled(library, first, out)
        for c, x in rest:
            if c == 1:
                library.add(out, x, out=out)
            elif c == -1:
                library.subtract(out, x, out=out)
            else:
                library.add(out, x * out.dtype.type(c), out=out)


def _scaled(library: Any, term: tuple[float, Any], out: Any) -> None:
    c, x = term
    if c == -1:
        library.negative(x, out=out)
    elif c != 1:
        library.multiply(x, out.dtype.type(c), out=out)
    elif x is not out:
        out[...] = x


def _pair(library: Any, first: tuple[float, Any], second: tuple[float, Any], out: Any) -> None:
    (c, x), (d, y) = first, second
    if c == d:
        library.add(x, y, out=out)
        if c < 0:
            library.negative(out, out=out)
    elif c > 0:
        library.subtract(x, y, out=out)
    else:
        library.subtract(y, x, out=out)
