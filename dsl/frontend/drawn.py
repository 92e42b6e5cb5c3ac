"""Warnings for what Python does once, while a function is traced, instead of in each call: random
numbers that it draws become constants of the program, and its loops are unrolled.

A generator's state changes when numbers are drawn, so drawing is detected by comparing the states
of all generators that the function can reach by a name: those of the modules, and those that it
captures.  NumPy's module is not loaded for that: before it is loaded, nothing has been drawn from
it.
"""

from __future__ import annotations

import inspect
import random
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import Location
from ..graph import Input
from ..node import Leaf, topological

#: How a line that draws is recognised.
_DRAWS = re.compile(r"\brandom\b|\brng\b|\brand\w*\(")


class RandomConstantWarning(UserWarning):
    """Random numbers that are the same in every call of a compiled function."""


class UnrolledLoopWarning(UserWarning):
    """A Python loop that makes so many kernels that compiling them takes long."""


#: So many kernels of one operation take seconds to compile.
UNROLLED = 100


def warn_of_unrolled(name: str, roots: Sequence[Leaf]) -> None:
    """Warn if a program, after fusion, has many kernels that one place of the user's code made."""
    made: dict[object, list[Location]] = {}
    for node in topological(roots):
        if node.where is not None and not isinstance(node, Input):
            made.setdefault(node.where.place(), []).append(node.where)
    most = max(made.values(), key=len, default=[])
    if len(most) < UNROLLED:
        return
    warnings.warn_explicit(
        f"the program of {name!r} has {len(most)} kernels for the same operation: a Python loop is "
        "unrolled while a function is traced, and every iteration is compiled.  td.loop(n, lambda "
        "k, state: …, init), td.iterate(n, lambda state: …, init) and td.scan(lambda state, x: …, "
        "init, xs) compile one iteration, for any number of them.",
        UnrolledLoopWarning,
        most[0].file,
        most[0].line,
    )


@contextmanager
def watching(function: Callable[..., object]) -> Iterator[None]:
    """Warn if the function, traced inside, draws random numbers.  (Not if it sets a seed: they are
    the same in every call of the plain function, too.)"""
    codes = list(_codes(getattr(function, "__code__", None)))
    captured = [g for g in _reached(function, codes) if _is_generator(g)]
    before = [_state(g) for g in captured]
    common = _common()
    yield
    drew = any(_differ(_state(g), old) for g, old in zip(captured, before, strict=True))
    named = any(name == "random" for code in codes for name in code.co_names)
    if not drew and (named or threading.active_count() == 1):  # other threads may draw
        drew = any(map(_differ, _common(), common))
    if drew and not any(name == "seed" for code in codes for name in code.co_names):
        _warn(function, codes)


def _of_numpy() -> Any:
    """`numpy.random`, if it is loaded."""
    return sys.modules.get("numpy.random")


def _is_generator(value: object) -> bool:
    if isinstance(value, random.Random):
        return True
    module = _of_numpy()
    return module is not None and isinstance(value, module.Generator | module.RandomState)


def _codes(code: types.CodeType | None) -> Iterator[types.CodeType]:
    """The code of a function and of the functions in it."""
    if code is not None:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from _codes(constant)


def _reached(function: Callable[..., object], codes: list[types.CodeType]) -> Iterator[object]:
    """What the function refers to by name."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    known = getattr(function, "__globals__", {})
    yield from (known[name] for code in codes for name in code.co_names if name in known)
    yield from getattr(function, "__defaults__", None) or ()


def _state(generator: object) -> object:
    if isinstance(generator, random.Random):
        return generator.getstate()
    module: Any = _of_numpy()
    if isinstance(generator, module.RandomState):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state if isinstance(generator, module.Generator) else None


def _common() -> tuple[object, object]:
    """The states of Python's and NumPy's generators; None for NumPy's before it is loaded."""
    module = _of_numpy()
    return random.getstate(), None if module is None else module.get_state(legacy=False)


def _differ(now: object, before: object) -> bool:
    """Whether two states differ: nested tuples of numbers, or dicts, perhaps with arrays."""
    if before is None and isinstance(now, dict):  # NumPy's, loaded in the meantime
        fresh = _of_numpy().RandomState().get_state(legacy=False)
        return bool(now["state"]["pos"] != fresh["state"]["pos"])
    if isinstance(before, dict) and isinstance(now, dict):
        return any(_differ(now[k], before[k]) for k in before)
    if isinstance(before, np.ndarray) and isinstance(now, np.ndarray):
        return not np.array_equal(now, before)
    return now != before


def _warn(function: Callable[..., object], codes: list[types.CodeType]) -> None:
    file, line = "<a function>", 1
    if codes:
        file, line = codes[0].co_filename, codes[0].co_firstlineno
        try:
            lines, first = inspect.getsourcelines(codes[0])
        except (OSError, TypeError):
            lines, first = [], line
        line = next((first + k for k, text in enumerate(lines) if _DRAWS.search(text)), line)
    warnings.warn_explicit(
        f"random numbers were drawn while {getattr(function, '__name__', 'a function')!r} was "
        "traced: they are constants of its program, the same in every call.  td.random.normal(key, "
        "shape) and the others of td.random make new ones, of a key among the arguments: "
        "td.random.key(seed).  Constants that are meant to be are drawn outside.",
        RandomConstantWarning,
        file,
        line,
    )
