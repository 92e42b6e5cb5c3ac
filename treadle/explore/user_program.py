"""A user's program, from a file: `my_program.py:function`."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from treadle.dsl.errors import TreadleError
from treadle.dsl.graph import Input, topological
from treadle.skeletons.schedules import Column, Row
from treadle.skeletons.simulator.patterns import Pattern
from treadle.skeletons.simulator.programs import as_scheduled, pattern_of
from treadle.skeletons.simulator.simulation import capacity_sweep

from .page import PageError, Shown, Variant


@dataclass(frozen=True)
class UserProgram:
    """A lowered function: `arrays` and `numbers` are its arguments, `wanted` the asked shapes."""

    file: Path
    name: str
    function: Callable[..., Any]
    program: Any
    arrays: list[np.ndarray[Any, Any]]
    numbers: dict[str, int | float]
    wanted: list[tuple[tuple[int, ...], np.dtype[Any]]]


def lowered(where: str, shapes: Sequence[str]) -> UserProgram:
    """The program at `FILE.py:FUNCTION`, with arrays of `shapes` as arguments.

    A shape is `64x64`, or `64x64:int32` for another type than float32; `=0.5` is a scalar argument.
    Give one for each argument, or one for all.  Integers are random and below the least extent of
    all shapes, as they may be indices. Errors: `PageError` for an invalid file, function or shape,
    and for an error raised by the function if one shape was given for several arguments.
    """
    file, _, name = where.rpartition(":")
    if not file or not name:
        raise PageError(naming_no_function(Path(file or name)))
    function = _loaded(Path(file), name)
    plain = getattr(function, "__wrapped__", function)
    names = [n for n, p in inspect.signature(plain).parameters.items() if p.default is p.empty]
    count = len(names)
    if len(shapes) not in (1, count):
        raise PageError(f"{name} takes {count} arrays, and there are {len(shapes)} shapes: "
                        "give --shape once for each (a number: --shape =0.5), or once for all."
                        )  # fmt: skip
    given = dict(zip(names, [*shapes] * count if len(shapes) == 1 else shapes, strict=True))
    numbers = {n: _number(text[1:]) for n, text in given.items() if text.startswith("=")}
    wanted = [_shape(text) for n, text in given.items() if n not in numbers]
    least = min((n for shape, _ in wanted for n in shape), default=1)
    random = np.random.default_rng(0)
    arrays = [
        random.integers(0, max(least, 1), shape).astype(dtype) if dtype.kind in "iu"
        else random.random(shape).astype(dtype)
        for shape, dtype in wanted
    ]  # fmt: skip
    rest = iter(arrays)
    arguments = [numbers[n] if n in numbers else next(rest) for n in names]
    compiled = function if hasattr(function, "lower") else td.jit(function)
    try:
        program = compiled.lower(*arguments)
    except TreadleError as error:
        if len(shapes) == count or count < 2:
            raise
        raise PageError(f"{error}\n  {_as_given(names, shapes)}") from None
    except Exception as error:  # raised by the function, usually because of a wrong shape
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise PageError(
            f"{name} raised {type(error).__name__}: {error}\n"
            f"  {Path(at.filename).name}:{at.lineno}: {at.line}\n"
            f"  {_as_given(names, shapes)}"
        ) from error
    return UserProgram(Path(file), name, plain, program, arrays, numbers, wanted)


def _as_given(names: Sequence[str], shapes: Sequence[str]) -> str:
    """What the arguments were, and how each is given one of its own, also if it is a number.

    >>> print(_as_given(["plate", "steps"], ["8x8"]))
    plate was 8x8, steps was 8x8: give each its own, a number as =3: --shape 8x8 --shape =3.
    """
    each = [*shapes] * len(names) if len(shapes) == 1 else [*shapes]
    were = ", ".join(f"{n} was {s}" for n, s in zip(names, each, strict=True))
    asked = " ".join(f"--shape {s}" for s in (*each[:-1], "=3"))
    return f"{were}: give each its own, a number as =3: {asked}."


def naming_no_function(path: Path) -> str:
    """The error for a file without a function name: the syntax, and the functions of the file."""
    if not path.is_file():
        return f"there is no file {path}; a program is named my_program.py:function."
    there = _functions(_module(path), path.stem)
    if not there:
        return f"{path.name} names no function: it has none."
    return f"{path.name} names no function: write {path}:{there[0]}. It has: {', '.join(there)}."


def load_program(where: str, shapes: list[str], kernel: str | None = None) -> Shown:
    """The program of `lowered` for the page.

    Errors: `PageError`, also for programs without an access pattern.
    """
    own = lowered(where, shapes)
    program, arrays, numbers = own.program, own.arrays, own.numbers
    try:
        # The page shows orders, and an operation with an order is one kernel.
        ordered = as_scheduled(program, kernel, Row())
        pattern = pattern_of(ordered, kernel, arrays, numbers)
    except TreadleError as error:
        said = str(error.message).replace("kernel=…", "--kernel")
        hint = str(error.hint or "").replace("kernel=…", "--kernel")
        raise PageError(f"{said}\n  {hint}".rstrip()) from None
    if not pattern.shape:
        raise PageError(f"{pattern.name!r} computes a single number: there is no order to choose.")
    named = _operation(program, pattern.name)
    order, lines = _initial_view(pattern)
    start = {"order": order, "width": 8, "line": 8, "policy": "Lru", "lines": lines}
    label = ", ".join(dict.fromkeys(" × ".join(map(str, shape)) for shape, _ in own.wanted))
    return Shown(
        "own", f"{own.name} ({own.file.name})", f"The kernel {pattern.name!r} of your program.",
        textwrap.dedent(inspect.getsource(own.function)), (Variant(label, pattern),), program,
        named, start,
    )  # fmt: skip


def _initial_view(pattern: Pattern) -> tuple[str, int]:
    """An initial order and number of cache lines: where columns of 8 gain most, else rows."""
    sizes = sorted({max(4, pattern.span // part) for part in (512, 256, 128, 64, 32)})
    rows, columns = capacity_sweep(pattern, [Row(), Column(8)], 8, sizes)
    k = int(np.argmax(rows - columns))
    return ("Column", sizes[k]) if rows[k] > columns[k] else ("Row", sizes[-1])


def plane_shapes(shapes: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Shapes of two axes, for programs on matrices.

    >>> plane_shapes(["8x16"])
    ((8, 16),)
    """
    planes = []
    for text in shapes:
        shape, _ = _shape(text)
        if len(shape) != 2:
            raise PageError(f"{text!r}: the programs of the page have two axes; write 64x64.")
        planes.append((shape[0], shape[1]))
    return tuple(planes)


def _module(path: Path) -> Any:
    if not path.is_file():
        raise PageError(f"there is no file {path}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PageError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    # As when Python runs a file: it is a module, and can import its neighbours.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (TreadleError, ModuleNotFoundError):  # these are clear as they are
        raise
    except Exception as error:
        raise PageError(f"{path.name} cannot be run.\n{_own_frames(error, spec.origin)}") from error
    return module


def _own_frames(error: Exception, file: str | None) -> str:
    """The traceback of an exception raised by a file, without the frames that loaded it."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != file:
        at = at.tb_next
    return "".join(traceback.format_exception(type(error), error, at)).rstrip()


def _functions(module: Any, stem: str) -> list[str]:
    """The names of the callable objects defined in a file."""
    return [
        n for n, v in vars(module).items()
        if n[0] != "_" and callable(v) and not isinstance(v, type)
        and getattr(v, "__module__", None) == stem
    ]  # fmt: skip


def _loaded(path: Path, name: str) -> Any:
    module = _module(path)
    found = getattr(module, name, None)
    if not callable(found) or isinstance(found, type):
        there = _functions(module, path.stem)
        raise PageError(
            f"{path.name} has no function {name!r}; it has: {', '.join(there) or 'none'}."
        )
    return found


def _shape(text: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    extents, _, dtype = text.partition(":")
    try:
        shape = tuple(int(n) for n in extents.replace("×", "x").split("x"))
        kind = np.dtype(dtype or "float32")
    except (ValueError, TypeError):
        shape, kind = (), np.dtype("float32")
    if not shape or min(shape) < 1:
        raise PageError(f"{text!r} is not a shape: write 64x64, or 64x64:int32.")
    return shape, kind


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise PageError(f"'={text}' is not a number: write =3, or =0.5.") from None


def _operation(program: Any, name: str) -> str | None:
    """The name or number of the operation for `scheduled`; None if it is ambiguous."""
    written = [n for n in topological(program.source_roots) if not isinstance(n, Input)]
    if any(n.label.name == name for n in written):
        return name
    alike = [k for k, n in enumerate(written, 1) if n.label.operation == name]
    return f"#{alike[0]}" if len(alike) == 1 else None
