"""Errors for users: what is wrong, where in the user's code, and what to write instead.

Every error derives from `TreadleError` and from the built-in exception that a NumPy user would
catch.  It has a `Location` (file, line and columns of the user's call), which `str(error)` renders
with a caret, and a hint.
"""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import os
import re
import sys
import textwrap
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from . import late_binding as later
from .evaluator import public
from .naming import named
from .text import printable

__all__ = ["AxisError", "BackendUnavailable", "CompilationError", "DeviceOutOfMemory",
           "DistributionError", "DTypeError", "ExponentError", "GradientError", "IndexOutOfBounds",
           "LinAlgError", "MemoryLimitExceeded", "NestedParallelismError", "NotAssociative",
           "ScheduleError", "ShapeError", "StorageError", "TracingError",
           "TreadleError"]  # fmt: skip

#: The packed permutation of a `Table`.
_LONG_TABLE = re.compile(r'Table\("[A-Za-z0-9+/=]{40,}"')

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_HERE = os.path.dirname(os.path.realpath(__file__))
_ROOT = os.path.dirname(_HERE)
_FOLDERS = ("backend", "driver", "dsl", "explore", "skeletons", "tuning")
#: treadle's folders, in an installation and in a checkout, where `treadle` links to some of them.
_INTERNAL = tuple(
    os.path.join(root, folder) + os.sep
    for root in (_ROOT, os.path.join(_ROOT, "treadle"))
    for folder in _FOLDERS
)
#: Files of Python itself, and of installed packages.
_PYTHON = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: The folder of NumPy and of packages installed beside it: another folder after `pip --target`.
_BESIDE_NUMPY = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(np.__file__))), "")
#: Cython's source files, whose compiled functions appear as frames in tracebacks.
_CYTHON = (".pyx", ".pxd", ".pxi")
#: The owner of a file's code: the user, treadle, or a library between them, as in
#: `random.randint(0, x)`, which the user called and which called treadle.
_USER, _TREADLE, _LIBRARY = range(3)
_owners: dict[str, int] = {}
_OWNERS = 4096


def _owner(frame: FrameType) -> int:
    filename = frame.f_code.co_filename
    known = _owners.get(filename)
    if known is None:
        inside = filename.startswith((*_INTERNAL, "<treadle"))
        real = filename if inside else os.path.realpath(filename)
        known = _USER
        if (
            inside
            or real.startswith(_INTERNAL)
            or (
                os.path.basename(os.path.dirname(real)) == "treadle"
                and real.endswith("__init__.py")
            )
        ):
            known = _TREADLE
        elif any(part in real for part in _PACKAGES) or real.startswith(_BESIDE_NUMPY):
            known = _USER if _imports_treadle(frame.f_globals) else _LIBRARY
        elif real.startswith(_PYTHON) or filename.startswith("<frozen ") or real.endswith(_CYTHON):
            known = _LIBRARY
        if len(_owners) >= _OWNERS:  # notebooks have a file for every cell
            _owners.clear()
        _owners[filename] = known
    return known


def _imports_treadle(names: dict[str, Any]) -> bool:
    """Whether a module with these globals uses treadle, so that the mistake may be in it."""
    for value in names.values():
        if isinstance(value, ModuleType | FunctionType | type):
            home = value.__name__ if isinstance(value, ModuleType) else value.__module__
            if str(home).partition(".")[0] == "treadle":
                return True
    return False


def is_users(frame: FrameType) -> bool:
    """Whether a frame executes the user's own code."""
    return _owner(frame) == _USER and not _is_generated(frame.f_code)


def _is_generated(code: CodeType) -> bool:
    """Whether a class generated the code: a dataclass's `__init__` has the file "<string>", as has
    the code of `python -c`."""
    return code.co_filename == "<string>" and code.co_name.startswith("__")


#: The file that marimo names for a cell.
_MARIMO = re.compile(r"__marimo__cell_(\w+?)_\.py$")


def _line(file: str, number: int) -> str:
    """A line of a source file in its current state: a module may have been edited and reloaded."""
    linecache.checkcache(file)
    return linecache.getline(file, number)


def _cell(file: str) -> str | None:
    """The number (in marimo: the name) of the notebook cell whose code has this artificial file
    name, else None."""
    named = _MARIMO.search(file)
    if named:
        return named[1]
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    found = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return None if found is None else str(found)


class Location:
    """A call in the user's code: file, line (0 if unknown), and the columns of the expression.

    Every operation makes one, so it only keeps the code object and the instruction; the text is
    looked up when it is printed.
    """

    __slots__ = ("_code", "_instruction", "line")

    def __init__(self, code: CodeType, instruction: int, line: int) -> None:
        self._code = code
        self._instruction = instruction
        self.line = line

    @property
    def file(self) -> str:
        return self._code.co_filename

    @property
    def function(self) -> str:
        return self._code.co_name

    def place(self) -> tuple[object, ...]:
        """A key of the call's position in the code."""
        return self.file, self.function, self.line, self._instruction

    def short(self) -> str:
        cell = _cell(self.file)
        if cell is not None:
            return f"cell {cell}, line {self.line}"
        name = os.path.basename(self.file)
        return f"{name}:{self.line}" if self.line else name

    def source(self) -> str:
        return _line(self.file, self.line).rstrip("\n")

    def columns(self) -> tuple[int, int] | None:
        """Start and end (exclusive) of the expression on its line, in characters."""
        positions = list(self._code.co_positions())
        index = self._instruction // 2
        if index >= len(positions):
            return None
        line, end_line, start, end = positions[index]
        if line is None or start is None or end is None:
            return None
        text = _line(self.file, line)
        # Columns are UTF-8 byte offsets.
        raw = text.encode()
        first = len(raw[:start].decode(errors="ignore"))
        last = len(raw[:end].decode(errors="ignore")) if end_line == line else len(text.rstrip())
        return first, max(last, first + 1)

    def text(self) -> str:
        """The part of the expression on its first line; "" if the source is not available."""
        found = self.columns()
        return "" if found is None else self.source()[found[0] : found[1]]

    def render(self) -> str:
        """The user's line with a caret under the expression."""
        cell = _cell(self.file)
        line = f", line {self.line}" if self.line else ""
        head = f'  File "{self.file}"' if cell is None else f"  cell {cell}"
        head += f"{line}, in {self.function}"
        source = self.source()
        if not source.strip():
            return head
        indent = len(source) - len(source.lstrip())
        columns = self.columns()
        first, last = columns if columns else (indent, len(source))
        first = max(first, indent)
        marks = " " * (first - indent) + "^" * max(min(last, len(source)) - first, 1)
        return f"{head}\n    {source.strip()}\n    {marks}"

    def __repr__(self) -> str:
        return f"Location({self.short()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredLocation, (self.file, self.function, self.line, self.columns())


class StoredLocation(Location):
    """A position in a source file from another process, which may not exist here."""

    __slots__ = ("_columns", "_file", "_function")

    def __init__(
        self, file: str, function: str, line: int, columns: tuple[int, int] | None = None
    ) -> None:
        self._file, self._function, self.line, self._columns = file, function, line, columns

    @property
    def file(self) -> str:
        return self._file

    @property
    def function(self) -> str:
        return self._function

    def place(self) -> tuple[object, ...]:
        return self.file, self.function, self.line, self._columns

    def columns(self) -> tuple[int, int] | None:
        return self._columns


class _Standing(threading.local):
    """An override of the user's location."""

    place: Location | None = None


_standing = _Standing()


@contextmanager
def standing_at(place: Location | None) -> Iterator[None]:
    """While active, new nodes and errors are attributed to this place."""
    before = _standing.place
    _standing.place = place
    try:
        yield
    finally:
        _standing.place = before


def user_location() -> Location | None:
    """The innermost frame of user code; if there is none, of a library that called treadle."""
    if _standing.place is not None:
        return _standing.place
    library: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = _owners.get(frame.f_code.co_filename)
        if owner is None:
            owner = _owner(frame)
        if owner != _TREADLE and not _is_generated(frame.f_code):
            if owner == _USER:
                return Location(frame.f_code, frame.f_lasti, frame.f_lineno or 0)
            library = library or frame
        frame = frame.f_back
    return library and Location(library.f_code, library.f_lasti, library.f_lineno or 0)


def calling_library() -> tuple[str, set[str]] | None:
    """The name of a package other than NumPy that stands between the user's code and treadle, with
    the names of its running functions; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    name, running = "", set()
    while frame is not None and _owner(frame) != _USER:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if _owner(frame) == _LIBRARY and package not in ("", "numpy"):
            name = name or package
            running.add(frame.f_code.co_name)
        frame = frame.f_back
    return (name, running) if name else None


def at_membership() -> bool:
    """Whether the user's code is executing `in`, which calls == repeatedly."""
    where = user_location()
    if where is None:
        return False
    return dis.opname[where._code.co_code[where._instruction]] == "CONTAINS_OP"


def as_called(message: str) -> str:
    """A message about the operation being called, with the name that the user wrote."""
    return message if _standing.place is not None else named(message, is_users, _expression)


def _expression(frame: FrameType) -> str:
    return Location(frame.f_code, frame.f_lasti, frame.f_lineno or 0).text()


class TreadleError(Exception):
    """The base class of all errors of treadle.

    message: what was wrong; hint: what to write instead; where: the user's call (by default found
    on the stack); also: further locations, each with a description.

    >>> import treadle as td
    >>> try:
    ...     td.reshape(td.iota(3), 4)
    ... except td.TreadleError as error:
    ...     print(type(error).__name__)
    ShapeError
    """

    def __init__(
        self,
        message: str = "",
        *,
        hint: str | None = None,
        where: Location | None = None,
        also: tuple[tuple[str, Location | None], ...] = (),
    ) -> None:
        message = message if where is not None else as_called(message)
        self.message = message
        self.hint = hint
        self.where = where if where is not None else user_location()
        self.also = also
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.where is not None:
            parts.append(self.where.render())
        for words, location in self.also:
            parts.append(f"  {words}" + (f"\n{location.render()}" if location is not None else ""))
        if self.hint:
            for line in self.hint.split("\n"):
                parts.append(textwrap.fill(line, 98, initial_indent="  ", subsequent_indent="  "))
        return printable("\n".join(parts))

    def _render_traceback_(self) -> list[str]:
        return _in_notebook(self, type(self))


def _in_notebook(error: Exception, kind: type[Exception]) -> list[str]:
    """The traceback that IPython shows in a notebook (by `_render_traceback_`): its own, up to the
    user's code."""
    shell = sys.modules["IPython"].get_ipython()
    frames: list[TracebackType] = []
    link = error.__traceback__
    while link is not None:
        frames.append(link)
        link = link.tb_next
    while len(frames) > 1 and _owner(frames[-1].tb_frame) == _TREADLE:
        frames.pop()
    last = None
    for f in reversed(frames):
        last = TracebackType(last, f.tb_frame, f.tb_lasti, f.tb_lineno)
    lines: list[str] = shell.InteractiveTB.structured_traceback(kind, error, last)
    return lines


class ShapeError(TreadleError, ValueError):
    """Extents, ranks or axes that do not fit.

    >>> import treadle as td
    >>> td.iota(3) + td.iota(4)
    Traceback (most recent call last):
        ...
    treadle.ShapeError: ...
    """


class AxisError(ShapeError, IndexError):
    """An axis, or a number of indices, that exceeds the rank of an array.

    >>> import treadle as td
    >>> td.sum(td.iota(3), axis=1)
    Traceback (most recent call last):
        ...
    treadle.AxisError: ...
    """


class DTypeError(TreadleError, TypeError):
    """Element types that do not fit.

    >>> import treadle as td
    >>> td.gcd(1.5, 2)
    Traceback (most recent call last):
        ...
    treadle.DTypeError: ...
    """


class ExponentError(DTypeError, ValueError):
    """A negative exponent of integers: the power is not an integer.

    >>> import treadle as td
    >>> td.iota(3) ** -1
    Traceback (most recent call last):
        ...
    treadle.ExponentError: ...
    """


class IndexOutOfBounds(TreadleError, IndexError):
    """An index out of the range of its axis, known beforehand or found in checked mode.

    >>> import numpy as np, treadle as td
    >>> a = np.arange(3)
    >>> td.run(td.generate(1, lambda i: td.use(a)[i + 3]), check=True)
    Traceback (most recent call last):
        ...
    treadle.IndexOutOfBounds: ...
    """


#: Stands for the array that operations such as permute write to, in `out_of_range`.
WRITTEN = "the array that is written"


def out_of_range(
    operation: str, array: str, axis: int, index: int, extent: int, where: Location | None
) -> IndexOutOfBounds:
    """The error of checked mode, the same on every backend; `array`: `WRITTEN` if an element was to
    be written."""
    if not extent:
        hint = "The axis is empty."
    elif array == WRITTEN:
        hint = (
            f"Indices run from 0 to {extent - 1}.  What is to be left out has none: "
            "td.where(p, i, td.ignore) in the index function of td.permute, or elements chosen "
            "before, a[p]."
        )
    else:
        hint = (
            f"Indices run from 0 to {extent - 1}; inside kernels they never count from the end.  "
            "td.cond(p, a[i], b) reads only where p holds; td.where(p, a[i], b) reads everywhere, "
            "and so does p & (a[i] > 0) outside of a predicate of td.cond or td.while_loop."
        )
    return IndexOutOfBounds(
        f"{operation}: index {index} is out of range for axis {axis} of {array}, which has "
        f"extent {extent}.",
        hint=hint,
        where=where,
    )


class LinAlgError(TreadleError, np.linalg.LinAlgError):
    """A singular matrix, or one that is not positive definite, found in checked mode.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.inv(np.zeros((5, 5))), check=True)
    Traceback (most recent call last):
        ...
    treadle.LinAlgError: ...
    """


class NotAssociative(TreadleError, ValueError):
    """A function of a fold or a scan that is not associative, found in checked mode.

    >>> import numpy as np, treadle as td
    >>> decay = td.scanl1(lambda p, x: 0.5 * p + x, np.arange(9.0))
    >>> td.run(decay, check=True)
    Traceback (most recent call last):
        ...
    treadle.NotAssociative: ...
    """


class GradientError(TreadleError, NotImplementedError):
    """A derivative of something that has none, or none that is supported.

    >>> import treadle as td
    >>> issubclass(td.GradientError, NotImplementedError)
    True
    """


class NestedParallelismError(TreadleError, TypeError):
    """A collective operation started inside a scalar function.

    >>> import treadle as td
    >>> td.map(lambda i: td.sum(td.iota(3)), td.iota(3))
    Traceback (most recent call last):
        ...
    treadle.NestedParallelismError: ...
    """


class TracingError(TreadleError, TypeError):
    """Python code that cannot be traced: `if` on a traced value, a wrong return value, and others.

    >>> import treadle as td
    >>> td.map(lambda i: i if i > 0 else 0, td.iota(3))
    Traceback (most recent call last):
        ...
    treadle.TracingError: ...
    """


class BackendUnavailable(TreadleError, RuntimeError):
    """A backend that does not work here; the message says why and what to install.

    >>> import treadle as td
    >>> issubclass(td.BackendUnavailable, RuntimeError)
    True
    """


class DeviceOutOfMemory(TreadleError, MemoryError):
    """A failed allocation: how many bytes were requested, allocated and free.

    >>> import treadle as td
    >>> issubclass(td.DeviceOutOfMemory, MemoryError)
    True
    """


class MemoryLimitExceeded(TreadleError, MemoryError):
    """A block of a distributed or streamed program would not fit in the memory that it may use;
    raised before anything runs.

    >>> import treadle as td
    >>> issubclass(td.MemoryLimitExceeded, MemoryError)
    True
    """

    #: The object that does not fit, and the bytes it needs.
    what = ""
    needed = 0


class DistributionError(TreadleError, NotImplementedError):
    """A program, or a part of it, cannot be computed in blocks.

    >>> import treadle as td
    >>> issubclass(td.DistributionError, NotImplementedError)
    True
    """


class CompilationError(TreadleError, RuntimeError):
    """A compiler rejected generated code; `source` is the code, `log` the compiler's output.

    >>> import treadle as td
    >>> td.CompilationError("rejected", source="code", log="line 1").log
    'line 1'
    """

    def __init__(self, message: str = "", *, source: str = "", log: str = "", **kw: Any) -> None:
        super().__init__(message, **kw)
        self.source, self.log = source, log


class ScheduleError(TreadleError, ValueError):
    """A schedule that is malformed, or illegal for its operation.

    >>> import treadle as td
    >>> td.schedule.Column(0)
    Traceback (most recent call last):
        ...
    treadle.ScheduleError: ...
    """

    def __init__(self, message: str = "", *, hint: str | None = None, **kw: Any) -> None:
        # A table's repr is the code that makes it, which may be a megabyte.
        shorter = None if hint is None else _LONG_TABLE.sub("Table(…", hint)
        super().__init__(_LONG_TABLE.sub("Table(…", message), hint=shorter, **kw)


class StorageError(TreadleError, ValueError, OSError):
    """A file that cannot be read as a stored program or has no room for results, or a program that
    cannot be stored.

    >>> import treadle as td
    >>> td.load("missing.treadle")
    Traceback (most recent call last):
        ...
    treadle.StorageError: ...
    """


for _error in list(globals().values()):
    if isinstance(_error, type) and issubclass(_error, TreadleError):
        _error.__module__ = (
            "treadle"  # tracebacks show the public name of the class: treadle.ShapeError
        )


def shown(number: int) -> str:
    """An integer for a message; Python refuses to print thousands of digits."""
    bits = number.bit_length()
    return str(number) if bits < 1 << 10 else f"of {bits} bits"


def did_you_mean(word: str, names: Iterable[str], least: float = 0.6) -> str:
    """`Did you mean boundary?  ` for a misspelt name; "" if no name has difflib's similarity
    `least`."""
    near = get_close_matches(word, list(names), 1, least)
    return f"Did you mean {near[0]}?  " if near else ""


def no_attribute(said: str, name: str) -> AttributeError:
    """An AttributeError with this message for the missing attribute `name`."""
    # (If `obj` were set, Python would append its own suggestion.)
    return _MissingAttribute(said, name=name, obj=None)


class _MissingAttribute(AttributeError):
    """An AttributeError, displayed under that name, whose traceback ends at the user's line."""

    __module__, __qualname__ = "builtins", "AttributeError"

    def __reduce__(self) -> tuple[type[AttributeError], tuple[object, ...]]:
        return AttributeError, self.args

    def _render_traceback_(self) -> list[str]:
        return _in_notebook(self, AttributeError)


_MissingAttribute.__name__ = "AttributeError"


def form_of(operation: str) -> str:
    """A hint with the parameters of an operation, for arguments in the wrong order."""
    function = public(operation.partition("'s ")[0])
    return f"{_form(function)}." if callable(function) else "Check the order of the arguments."


def _without_init(signature: inspect.Signature, args: Sequence[Any]) -> bool:
    """Whether a fold or a scan was called without its initial value: an array is in its place, and
    too few arguments follow."""
    names = list(signature.parameters)
    at = names.index("init") if "init" in names else len(args)
    wanted = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
                 for p in signature.parameters.values())  # fmt: skip
    return at < len(args) < wanted and bool(getattr(args[at], "shape", None))


def _form(function: Callable[..., Any]) -> str:
    parameters = inspect.signature(function).parameters.values()
    given = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    return f"The arguments, in order: {_name_of(function)}({', '.join(given)})"


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "the function")
    if name == "__init__":
        return function.__qualname__.split(".")[-2]
    return "the call" if name == "__call__" else name


def wrong_arguments(
    error: TypeError, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> TypeError:
    """Replace the TypeError of a call with too few or too many arguments by one that lists the
    parameters; return other errors unchanged."""
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return error  # raised inside the function
    known = keywords(function)
    if known is not None and not known.issuperset(kwargs):
        return unknown_keyword(function, kwargs, known)
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as misfit:
        return misfitting(function, args, misfit)
    return error


def refused(
    error: Exception, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Exception:
    """The error for arguments that treadle's own code (or NumPy, or Python) cannot handle.  Errors
    raised in user functions, and TreadleErrors, are returned unchanged."""
    if isinstance(error, TypeError):
        found = wrong_arguments(error, function, args, kwargs)
        if found is not error:
            return found
    step = error.__traceback__
    while step is not None and not is_users(step.tb_frame):
        step = step.tb_next
    if step is not None or isinstance(error, TreadleError):
        return error
    kind = ShapeError if isinstance(error, ValueError) else TracingError
    made = kind(
        f"{_name_of(function)} can make nothing of these arguments: {error}.",
        hint=f"{_form(function)}.",
    )
    made.__cause__ = error
    return made


#: Exceptions that Python and NumPy raise for values of a wrong kind.
UNFIT = (TypeError, ValueError, OverflowError, AttributeError, LookupError)


def misfitting(
    function: Callable[..., Any], args: Sequence[Any], misfit: TypeError
) -> TracingError:
    """The error for arguments that do not fit a function; `misfit` is the TypeError of `bind`."""
    signature = inspect.signature(function)
    said = "the initial value is missing" if _without_init(signature, args) else str(misfit)
    named = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    by_name = f"; by name: {', '.join(f'{k}=…' for k in named)}" if named else ""
    word = "*" if len(args) > len(_positional(signature)) else ""
    asked = len(args) == 1 or word
    instead = later.instead_of_keyword(_name_of(function), word, ()) if asked else ""
    hint = f"{instead}{_in_a_tuple(function, args)}{_form(function)}{by_name}."
    return TracingError(f"{_name_of(function)}: {said}.", hint=hint)


#: How parameters are annotated that take several numbers.
_SEVERAL = ("ShapeLike", "AxisLike", "Sequence[int]", "Sequence[IntLike]")


def _positional(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def _in_a_tuple(function: Callable[..., object], args: Sequence[object]) -> str:
    """The advice if several numbers were passed where one argument is a tuple of them (a shape,
    axes), or several arrays where one is a list of them."""
    taken = _positional(inspect.signature(function))
    if len(args) > len(taken) == 1 and "Iterable[ArrayLike]" in str(taken[0].annotation):
        return f"Several arrays are a list: {_name_of(function)}([a, b]).  "
    for k, p in enumerate(taken[: len(args)] if len(args) > len(taken) else ()):
        numbers = [x for x in args[k:] if isinstance(x, int) and not isinstance(x, bool)]
        if len(numbers) == len(args) - k and any(a in str(p.annotation) for a in _SEVERAL):
            before = [*(q.name for q in taken[:k]), f"({', '.join(map(shown, numbers))})"]
            if before[0] == "self":
                return f"Several numbers are a tuple: a.{_name_of(function)}({before[-1]}).  "
            return f"Several numbers are a tuple: {_name_of(function)}({', '.join(before)}).  "
    return ""


def _code(function: Callable[..., Any]) -> CodeType | None:
    """The code object of a function, or of what it wraps, as read by `inspect.signature`; None for
    other callables.  The signature itself takes ten times as long, too long for every function when
    treadle is imported."""
    found = inspect.unwrap(function) if isinstance(function, FunctionType) else function
    plain = isinstance(found, FunctionType) and not hasattr(function, "__signature__")
    return found.__code__ if plain else None


def keywords(function: Callable[..., Any]) -> frozenset[str] | None:
    """The keyword arguments that a function accepts; None if it accepts any."""
    code = _code(function)
    if code is None:
        found = inspect.signature(function).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in found):
            return None
        named = (p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        return frozenset(p.name for p in named)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    end = code.co_argcount + code.co_kwonlyargcount
    return frozenset(code.co_varnames[code.co_posonlyargcount : end])


def annotated(
    function: Callable[..., object], wanted: Container[str]
) -> tuple[tuple[str, int], ...]:
    """The parameters of a treadle function that have one of these annotations, with their positions
    (a large number for keyword-only parameters)."""
    code, annotations = _code(function), inspect.unwrap(function).__annotations__
    assert code is not None
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(
        (name, k if k < code.co_argcount else sys.maxsize)
        for k, name in enumerate(taken)
        if annotations.get(name) in wanted
    )


#: How parameters are annotated that are True or False, and whether None is a third choice.
_TRUTHS = {"bool": False, "bool | None": True}


class Truths:
    """The boolean parameters of a function: values of any other type are rejected instead of being
    tested for truth."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        annotations = inspect.unwrap(function).__annotations__
        self.parameters = tuple(
            (name, k, _TRUTHS[annotations[name]]) for name, k in annotated(function, _TRUTHS)
        )

    def require(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise an error if a call passes anything but a bool for one of them."""
        for word, position, optional in self.parameters:
            value = args[position] if position < len(args) else kwargs.get(word, True)
            if value is not True and value is not False and not (optional and value is None):
                require_truth(_name_of(self.function), word, value)


def require_truth(operation: str, word: str, value: object) -> None:
    """Raise an error if the value of a parameter is not a bool."""
    if isinstance(value, bool | np.bool_):
        return
    later.refuse_argument(value, f"{operation}: {word}=")
    said = f"{word} is True or False, got {value!r}"
    if isinstance(value, later.Array | later.Scalar):
        said = f"{word}= determines the program, so it cannot be a run-time value"
    hint = f"Write {word}=True, or {word}=bool(x) for the truth of a number."
    if value is None or isinstance(value, type | np.dtype):  # as in NumPy's a.sum(0, float, None)
        hint = f"Arguments after the axis have names: {word}=True, dtype=float."
    raise TracingError(f"{operation}: {said}.", hint=hint)


def unknown_keyword(
    function: Callable[..., Any], given: Iterable[str], known: frozenset[str]
) -> TracingError:
    """The error for a call with a keyword argument that the function does not accept."""
    word = next(k for k in given if k not in known)
    taken = inspect.signature(function).parameters
    own = [str(p.replace(annotation=p.empty, default=p.empty))
           for name, p in taken.items() if name != "self"]  # fmt: skip
    more = sorted(known.difference(taken))
    name = _name_of(function)
    advice = did_you_mean(word, sorted(known)) or later.instead_of_keyword(name, word, known)
    return TracingError(
        f"{name} has no argument {word!r}.",
        hint=f"{advice}Its arguments: {', '.join([*own, *more])}.",
    )


def without_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that tracebacks of its errors omit treadle's own frames."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TreadleError as error:
            raise error.with_traceback(None) from error.__cause__
        except (RecursionError, MemoryError) as error:
            raise of_limits(error) from None
        except TypeError as error:
            found = wrong_arguments(error, function, args, kwargs)
            if found is error:
                raise
            raise found from None

    return call


def of_limits(error: RecursionError | MemoryError) -> TreadleError:
    """The error for a RecursionError or MemoryError raised in treadle or a user's function."""
    if isinstance(error, MemoryError):
        return DeviceOutOfMemory(
            f"no memory: {str(error).rstrip('.') or 'none is left'}.",
            hint="Use smaller arrays, or compute in parts; the program stays usable.",
        )
    return TracingError(
        f"this is nested too deeply: Python allows {sys.getrecursionlimit()} calls inside each "
        "other (sys.getrecursionlimit()).",
        hint="A function that calls itself never ends while it is traced, for both sides of "
        "td.cond and td.where are: write td.while_loop, or pass the depth as a Python number.\n"
        "Hundreds of conditions, loops or tuples inside each other: write a loop over a table, or "
        "raise the limit with sys.setrecursionlimit.",
    )


#: Methods that Python calls implicitly, or whose errors Python handles.
_PRIVATE = {"__init__", "__new__", "__repr__", "__str__", "__getattr__", "__del__"}


def user_facing_methods(cls: type[T]) -> type[T]:
    """Apply `without_frames` to the operators and public methods of a class."""
    for name, value in list(vars(cls).items()):
        public = not name.startswith("_") or (name.endswith("__") and name not in _PRIVATE)
        if public and inspect.isfunction(value):
            setattr(cls, name, without_frames(value))
    return cls


def user_facing(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public entry point: tracebacks omit treadle's own frames, and the error for an
    unknown keyword argument lists the accepted ones."""
    known, truths = keywords(function), Truths(function)

    @without_frames
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and known is not None and not known.issuperset(kwargs):
            raise unknown_keyword(function, kwargs, known)
        if truths.parameters:
            truths.require(args, kwargs)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = wrong_arguments(error, function, args, kwargs)
            if found is error:
                raise
            raise found from None

    return call


def user_facing_maker(function: Callable[P, R]) -> Callable[P, R]:
    """`user_facing` for a function that runs no program: arguments that it cannot handle raise a
    TreadleError."""

    @user_facing
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UNFIT as error:
            found = refused(error, function, args, kwargs)
            raise found from found.__cause__

    return call


def user_facing_class(cls: type[T]) -> type[T]:
    """Decorate a class so that errors of its constructor list the parameters."""
    cls.__init__ = user_facing(cls.__init__)  # type: ignore[method-assign]
    return cls
