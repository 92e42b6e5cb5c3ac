"""Errors name the public function that was called, whatever it is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest

import treadle as td

M, V = np.ones((2, 3)), np.arange(3.0)

CALLS: dict[str, Callable[[], object]] = {
    "flip: axis 9": lambda: td.flip(M, 9),
    "reverse: axis 9": lambda: td.reverse(M, 9),
    "append: axis 5": lambda: td.append(M, M, axis=5),
    "append along axis 0": lambda: td.append(M, M[:, 1:], axis=0),
    "amax: axis 9": lambda: td.amax(M, axis=9),
    "nanmean: axis 9": lambda: td.nanmean(M, axis=9),
    "std: axis 7": lambda: td.use(M).std(axis=7),
    "lexsort: axis 4": lambda: td.lexsort([V, V], axis=4),
    "logspace's shape": lambda: td.logspace(0, 1, "n"),
    "ravel has no argument 'foo'": lambda: td.ravel(M, foo=3),
    "linalg.vector_norm: there is no norm": lambda: td.linalg.vector_norm(M, ord="q"),
    "polyval takes coefficients": lambda: td.polyval(M, V),
    "identity needs integer extents": lambda: td.identity(1.5),
    # NumPy's functions, while a program is traced.
    "nanmax: axis 8": lambda: td.jit(lambda a: np.nanmax(a, axis=8))(M),
    # What a user's function calls is what it calls.
    "sum needs an array": lambda: td.map(lambda x: td.sum(x), M),
    "'nanmax' was started inside": lambda: td.map(lambda x: td.nanmax(M, axis=1), M),
    "argsort: axis 3": lambda: td.grad(lambda a: td.sum(a[td.argsort(a, axis=3)]))(V),
    # Operators are no functions.
    "add cannot broadcast": lambda: td.use(M) + V[:2],
    "matmul: inner extents": lambda: td.std(td.use(M) @ M),
}  # fmt: skip


@pytest.mark.parametrize("said", CALLS)
def test_errors_name_what_was_called(said):
    with pytest.raises(td.TreadleError) as raised:
        CALLS[said]()
    assert raised.value.message.startswith(said)


def test_what_is_known_when_the_program_runs():
    f = td.jit(lambda a, b: td.append(a, b, axis=0))
    with pytest.raises(td.ShapeError, match=r"^append along axis 0"):
        f(M, M[:, 1:])
    g = td.jit(lambda a, n: td.nanmax(td.reshape(a, (n, 2)), axis=1))
    with pytest.raises(td.ShapeError, match=r"^reshape: 6 elements"):
        g(M, 4)


def test_no_other_function_is_named():
    """Of all functions with an axis, called by another name than theirs."""
    wrong = []
    for name in td.__all__:
        f = getattr(td, name)
        if not inspect.isfunction(f) or "axis" not in inspect.signature(f).parameters:
            continue
        if f.__name__ != name:  # (the name stands in the user's line)
            continue
        required = [p for p in inspect.signature(f).parameters.values()
                    if p.default is p.empty and p.name != "axis"
                    and p.kind is p.POSITIONAL_OR_KEYWORD]  # fmt: skip
        try:
            f(*[M] * len(required), axis=99)
        except td.TreadleError as error:
            if ": axis" in error.message and not re.match(rf"{name}\b", error.message):
                wrong.append((name, error.message))
        except TypeError:
            continue
    assert not wrong
