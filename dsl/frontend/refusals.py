"""Errors for values of unsupported types: how they are named, and what to write instead."""

from __future__ import annotations

import ast
import inspect
import math
import numbers
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from .. import late_binding as later
from ..errors import (
    Location,
    TracingError,
    TreadleError,
    calling_library,
    form_of,
    is_users,
    user_location,
)
from ..evaluator import public
from ..types import ScalarType
from .suggestions import counterpart

T = TypeVar("T")

SPARSE = (
    "Give the arrays of its rows, m = m.tocsr(): m.data, m.indices and np.diff(m.indptr) are what "
    "td.fold_seg takes; or m.toarray()."
)
#: Where NumPy or Python needs the value of an extent.
HINT_EXTENT = (
    "Extents are run-time values.  Functions of td take them: td.zeros(a.shape), "
    "td.ones(a.shape[0]), td.full, td.arange, td.linspace, td.eye for NumPy's.  For a loop over "
    "one write td.loop(a.shape[0], f, init), for one that fills an array td.generate(a.shape, f); "
    "for one over a few slices, as of channels, `for c in td.unstack(a, axis)`.  Of an extent that "
    "is always the same write the number, range(5)."
)
#: Where NumPy makes random numbers.
_RANDOM = (
    "NumPy's random numbers would be constants of the program.  td.random.normal(key, shape) and "
    "the others of td.random make new ones in each call, of a key among its arguments: "
    "td.random.key(seed)."
)
_MAKES_RANDOM = re.compile(r"(?:np|numpy)\.random\b|\w*rng\b").match
#: Calls of NumPy's that make an array of a list, and statements that change an element.
_MAKES_ARRAY = re.compile(r"(?:np|numpy)\.(?:as)?array\(\s*[\[(]").match
_CONVERTS = re.compile(r"(?:np|numpy)\.(?:array|as(?:any|contiguous|fortran)?array)\(").match
#: Other calls of a list, which NumPy makes an array of.
_OF_LIST = re.compile(r"(?:np|numpy)\.[\w.]+\(\s*[\[(]").match
_CALLED = re.compile(r"(?:\w+\.)*(\w+)\(").match
_SHAPES = re.compile(r"(?:np|numpy)\.(prod|sum|max|min)\([\w.]*\bshape\b").match
#: Other functions of NumPy's of a count than those that the hint names.
_CONSTRUCTS = re.compile(
    r"(?:np|numpy)\.(?!(?:zeros|ones|full|arange|linspace|eye|empty)\()(\w+)\("
).match
_GRIDS = re.compile(r"(?:np|numpy)\.[mo]grid\[").match
_JOINS = re.compile(r"(?:np|numpy)\.([rc])_\[").match
#: Conversions of one value, and the types that they make.
_CONVERTED = re.compile(r"(np\.|numpy\.)?(\w+)\(").match
_PYTHON_TYPES = {"int": "int64", "float": "float64", "complex": "complex128"}
_UNPACKS = re.compile(r".*\.(?:item|tolist)\(\)$").match
_CHANGES = re.compile(r"(\w+)\[.*\]\s*[-+*]=").search
_CHANGES_BY = {ast.Add: "add", ast.Sub: "add", ast.Mult: "multiply"}
#: Where an array of NumPy's would hold values of a thread's.
_LOCAL = (
    "A few values of a thread's own are a list of Python's: p = [0.0] * 3, p[0] = x.  Arrays are "
    "new ones: td.generate makes each element, s.at[k].add(w) adds at indices."
)
_STORED = (
    "Make it by td.zeros(…), and then {}; or all elements at once: td.generate, td.stack([x, y])."
)
_EQUALITIES = ("equal", "not_equal")
_VOWELS = ("a", "e", "i", "o", "u", "A", "E", "I", "O", "U", "nd")


def called(value: object) -> str:
    """A value as the noun of a sentence: `None`, `a list`, `the class Model`, `a function`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    wrapped = isinstance(value, staticmethod | classmethod)
    kind = "function" if inspect.isroutine(value) and not wrapped else type(value).__name__
    return f"{'an' if kind.startswith(_VOWELS) else 'a'} {kind}"


def instead_of(value: object) -> str | None:
    """A hint on how to convert a value to an array or a number; None if there is none."""
    if hasattr(value, "tocsr"):
        return SPARSE
    if isinstance(value, list | tuple):
        if any(isinstance(x, later.Array) for x in value):
            if len({getattr(x, "ndim", 0) for x in value}) == 1:
                return "td.stack([a, b]) makes one array of several."
            return "Unpack it, values, count = …, as td.filter and td.compact return it."
        if any(isinstance(x, later.Scalar) for x in value):
            return f"It stays {called(value)} of its parts: give one array, f(np.array(x))."
        return "np.array(x) makes an array of it."
    if isinstance(value, str | bytes | bytearray):
        return "Text is compared in Python, before the call; encode words as numbers in arrays."
    if isinstance(value, slice):
        return "Give its bounds, which may be numbers of the run: x[start:stop]."
    if isinstance(value, range):
        return "td.arange(start, stop, step) is the array of these numbers."
    if isinstance(value, Mapping):
        every = "" if isinstance(value, dict) else "; a compiled function takes all, f(dict(x))"
        return f"Take one of its values: x['name']{every}."
    if inspect.iscoroutine(value):
        return "Its result exists only when it is awaited: write def instead of async def."
    if isinstance(value, Collection | Iterator):
        return "np.array(list(x)) makes an array of it."
    if isinstance(value, numbers.Number):
        return "Convert it: float(x)."
    if isinstance(value, later.BoundaryCondition):
        return f"Give it by name: boundary={value!r}."
    if hasattr(value, "layers"):
        return "Give it by name: schedule=…."
    return "Call it: f(x)." if callable(value) else None


#: The hint for other values.
_ANY_ARRAY = "Pass a NumPy array (np.array(x) makes one), anything with DLPack, or a td.Array."


def hint_of_extent() -> str:
    """The hint where the user's line gives NumPy an extent."""
    where = user_location()
    found = where and _SHAPES(where.text())
    if not found:
        made = where and _CONSTRUCTS(where.text())
        if not made or public(made[1]) is None:
            return HINT_EXTENT
        return f"Extents are run-time values; td.{made[1]} takes them."
    instead = {"prod": "a.size, or math.prod(a.shape)", "sum": "sum(a.shape)"}.get(
        found[1], f"td.{found[1]}imum(a.shape[0], a.shape[1])"
    )
    return f"Write {instead}."


def instead_of_math() -> str | None:
    """A hint for the function of Python's `math` that the user's code is calling, else None."""
    where = user_location()
    found = where and re.match(r"(?:math\.)?(\w+)\((.*)", where.text())
    if not found or not hasattr(math, found[1]) or public(found[1]) is None:
        return None
    return (
        f"Write td.{found[1]}({found[2]}: math takes numbers, and there are no values while a "
        "program is traced."
    )


#: Functions of Python's that compare, or test, what they are given.
_COMPARING = {
    "max": "Write td.maximum(a, b) instead of max(a, b); td.max(a) is that of an array's elements.",
    "min": "Write td.minimum(a, b) instead of min(a, b); td.min(a) is that of an array's elements.",
    "sorted": "Write td.sort(a) for an array; of two values td.minimum(a, b), td.maximum(a, b).",
    "any": "Write td.any(a) for an array, p | q for several values.",
    "all": "Write td.all(a) for an array, p & q for several values.",
}
_COMPARES = re.compile(rf"({'|'.join(_COMPARING)})\(").match


def _is_chained(text: str) -> bool:
    """Whether an expression is several comparisons, `a < x < b`."""
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return isinstance(found, ast.Compare) and len(found.ops) > 1


def instead_of_comparing() -> str | None:
    """A hint for the function of Python's that compares values in the user's code, else None."""
    where = user_location()
    text = "" if where is None else where.text()
    found = _COMPARES(text)
    if not found and _is_chained(text):
        return "Write (a < x) & (x < b) instead of a < x < b."
    return _COMPARING[found[1]] if found else None


def refuse_grid() -> None:
    """Raise an error if the user's line is np.mgrid[…] or np.ogrid[…], which catch TypeError."""
    where = user_location()
    if where is not None and _GRIDS(where.text()):
        raise TreadleError(
            "NumPy's grids need extents that are known while a program is traced.",
            hint="np.mgrid[:n, :m] is td.indices((n, m)), np.ogrid[:n, :m] is "
            "td.indices((n, m), sparse=True); td.arange and td.linspace take other bounds.",
        )


def _counterpart(where: Location | None, running: Collection[str]) -> str | None:
    """What is written instead of the library's function, one of those `running`, that is called at
    a place."""
    called = where and _CALLED(where.text())
    return counterpart(called[1]) if called and called[1] in running else None


def _converted(text: str) -> str | None:
    """A hint for text of the user's that converts a traced value to a type, `np.float32(x)` or
    `int(x)`, or takes the value out of an array; None for others."""
    if _UNPACKS(text):
        return (
            "Leave it out: operators and td's functions take the array itself, and the function "
            "may return it."
        )
    found = _CONVERTED(text)
    if not found:
        return None
    name = found[2] if found[1] else _PYTHON_TYPES.get(found[2], "")
    if not isinstance(public(name), ScalarType):
        return None
    return (
        f"Write td.{name}(x), which converts numbers and arrays of the program: there are no "
        "values while a program is traced."
    )


def given_to_numpy(scalar: bool) -> str | None:
    """A hint for the user's call that gives a traced scalar, or array, to NumPy or to a library
    that does; None if there is none for it in particular."""
    running, where = calling_library(), user_location()
    if running is not None:
        library, functions = running
        inside = "td.foreign(function, x)" if scalar else "td.foreign_array"
        instead = _counterpart(where, functions)
        outside = "call it outside of the compiled function, with what td.run returns."
        outside = outside if instead is None else f"instead of it, {instead}."
        return (
            f"{library} computes with values: {outside}  {inside} calls a function of values in "
            "the program."
        )
    if where is None:
        return None
    if _MAKES_RANDOM(where.text()):
        return _RANDOM
    if _MAKES_ARRAY(where.text()):
        return _LOCAL if scalar else "td.stack([x, y]), or td.array([x, y]), is the array of both."
    if not scalar and _OF_LIST(where.text()):
        return (
            "NumPy makes an array of the list by itself: give it one of td's, as in "
            "np.max(td.stack([a, b]), axis=0); of two arrays np.maximum(a, b) is it, too."
        )
    if not scalar and _CONVERTS(where.text()):
        return "td.asarray(x) takes arrays and lists of them; leave it out where x is an array."
    if converted := _converted(where.text()):
        return converted
    if joins := _JOINS(where.text()):
        return (
            "td.concatenate([a, b]) is np.r_[a, b]; a number is td.stack([x])."
            if joins[1] == "r"
            else "td.column_stack([a, b]) is np.c_[a, b]."
        )
    changed = _CHANGES(where.source()) if scalar else None
    if changed is None:
        return instead_of_storing(scalar)
    return (
        f"Without a loop, {changed[1]} = {changed[1]}.at[k].add(w) adds all w[i] at k[i], "
        "td.fold_seg sums segments.  In the loop read arrays of NumPy's as td.use(k)[i]."
    )


def instead_of_storing(scalar: bool) -> str | None:
    """A hint for the user's statement that stores into an array of NumPy's, or into a list, what is
    traced, or at an index that is; None for others."""
    update = functional_update(user_location())
    if update is None:
        return None
    if scalar:
        return (
            "In a list of Python's choose the element at run time: p = [td.where(i == k, new, x) "
            f"for k, x in enumerate(p)].  {_LOCAL}"
        )
    return _STORED.format(update)


def no_array(value: object, operation: str) -> TracingError:
    """The error for an operation on arrays with an argument that is not an array."""
    return TracingError(
        f"{operation} needs an array, got {type(value).__name__}.",
        hint=form_of(operation) if inspect.isroutine(value) else instead_of(value) or _ANY_ARRAY,
    )


def no_operand(value: object, operation: str) -> TracingError:
    """The error for arithmetic with a value that is neither a number nor an array."""
    hint = instead_of(value) or _ANY_ARRAY
    if value is None:
        hint = "Did a function forget to return it?"
        if operation in _EQUALITIES:
            hint = f"Write x is {'not ' * (operation == 'not_equal')}None."
    elif inspect.isroutine(value):
        form = form_of(operation)
        hint = hint if form.startswith("Check") else form
    return TracingError(
        f"{operation} cannot use a value of type {type(value).__name__}.", hint=hint
    )


def returned(value: object, whose: str, wanted: str) -> TracingError:
    """The error for a user's function, named `whose`, whose result is not what is `wanted`."""
    said = f"{whose} returned {called(value)}."
    if value is None:
        hint = f"Did you forget `return`?  It must return {wanted}."
    elif inspect.isgenerator(value) or inspect.isasyncgen(value):
        said = f"{whose} is a generator: it has a `yield`."
        hint = f"Write return instead of yield.  It must return {wanted}."
    elif inspect.iscoroutine(value):
        value.close()  # it will not be awaited
        said = f"{whose} is asynchronous: its result exists only when it is awaited."
        hint = "Write def instead of async def."
    elif isinstance(value, str):
        hint = f"Strings are not data (as arguments they only select a program): return {wanted}."
    elif isinstance(value, type) or inspect.isroutine(value):
        hint = "Call it: its result has values."
    elif isinstance(value, tuple):
        said = f"{whose} returned an empty tuple."
        hint = f"Return {wanted}."
    elif isinstance(value, Iterator):
        hint = "Return a tuple: tuple(x)."
    elif isinstance(value, dict) and "dict" not in wanted:
        hint = f"Return {wanted}: its values without their names, (x, y) instead of {{'a': x, …}}."
    elif isinstance(value, list | set) and "list" not in wanted:
        hint = f"Return {wanted}: write (x, y) instead of [x, y]."
    else:
        hint = "Call it: its result has values." if callable(value) else f"Return {wanted}."
    return TracingError(said, hint=hint)


def of_structure(
    error: TypeError | ValueError, arguments: Sequence[object], of_numbers: bool = False
) -> TypeError | ValueError:
    """The error for a user's function, of arrays or `of_numbers`, that computes with a list, tuple
    or dict argument as if it were an array or a number, or gives NumPy what is traced; other errors
    unchanged."""
    if isinstance(error, TreadleError):
        return error
    line, innermost = _line_of(error)
    if line is not None and "got 'Scalar(" in f"{error}":  # np.ones(a.shape[0]) says it so
        return TracingError(
            "NumPy needs the value of a traced scalar, as a shape.",
            hint=_RANDOM if _MAKES_RANDOM(line.text()) else HINT_EXTENT,
            where=line,
        )
    refused = line and _validated(error, line)
    if line is not None and refused:
        instead = _counterpart(line, (refused,))
        return TracingError(
            f"{line.text().partition('(')[0]} needs the value of what is traced: {error}.",
            hint=HINT_EXTENT if instead is None else f"Instead: {instead}.",
            where=line,
        )
    if line is not None and "setting an array element with a sequence" in f"{error}":
        update = None if of_numbers else functional_update(line)
        return TracingError(
            "an array of NumPy's cannot hold traced values.",
            hint=_LOCAL if update is None else _STORED.format(update),
            where=line,
        )
    for argument in arguments:
        kind = type(argument).__name__
        if not isinstance(argument, list | tuple | dict) or not re.search(
            rf"\b{kind}\b|multiply sequence", f"{error}"
        ):
            continue
        if not innermost:
            return error
        hint = instead_of(argument)
        if isinstance(argument, tuple):
            hint = "Unpack it, x, y = p: its parts are numbers or arrays."
        return TracingError(
            f"an argument that is {called(argument)} is not an array: {error}.",
            hint=hint,
            where=line,
        )
    return error


def functional_update(where: Location | None) -> str | None:
    """The statement at a place that changes elements of an array, `a[i] += x`, as one that makes a
    new array, `a = a.at[i].add(x)`; None if it is not a simple one on one line."""
    if where is None:
        return None
    try:
        statements = ast.parse(where.source().strip())
        wanted = ast.unparse(ast.parse(where.text(), mode="eval"))
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(statements):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, change = node.targets[0], "set"
        elif isinstance(node, ast.AugAssign):
            target, change = node.target, _CHANGES_BY.get(type(node.op), "")
        else:
            continue
        if not (change and isinstance(target, ast.Subscript) and ast.unparse(target) == wanted):
            continue
        array = ast.unparse(target.value)
        if not isinstance(target.value, ast.Name | ast.Attribute):
            return None
        new, negated = ast.unparse(node.value), isinstance(getattr(node, "op", None), ast.Sub)
        new = f"-({new})" if negated else new
        return f"{array} = {array}.at{wanted.removeprefix(array)}.{change}({new})"
    return None


def _validated(error: Exception, line: Location) -> str:
    """The function of NumPy's or SciPy's that was called at this line and refused an argument that
    is traced, as no number of Python's; "" if there is none."""
    step = error.__traceback__
    while step is not None and not (step.tb_frame.f_code is line._code and is_users(step.tb_frame)):
        step = step.tb_next
    step = step and step.tb_next
    if step is None or step.tb_next is not None:
        return ""
    frame = step.tb_frame
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    given = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    values = [frame.f_locals.get(name) for name in given]
    traced = package in ("numpy", "scipy") and any(isinstance(v, later.Scalar) for v in values)
    return frame.f_code.co_name if traced else ""


def _line_of(error: Exception) -> tuple[Location | None, bool]:
    """The last line of the user's on the way to an error, and whether the error is of that line
    itself, not of what it calls."""
    step, found, innermost = error.__traceback__, None, False
    while step is not None:
        innermost = is_users(step.tb_frame)
        if innermost:
            found = Location(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found, innermost


def result_of(function: Callable[..., T], arguments: Sequence[object]) -> T:
    """What a user's function of arrays returns, or the error of `of_structure`."""
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        found = of_structure(error, arguments)
        if found is error:
            raise
        raise found from None


#: The replacement for setting an attribute, as NumPy allows.
_INSTEAD_OF_SETTING = {
    "shape": "a = td.reshape(a, shape)",
    "dtype": "a = a.astype(dtype)",
    "real": "a = td.complex_(new, a.imag)",
    "imag": "a = td.complex_(a.real, new)",
}


def _refusing(name: str) -> Callable[..., None]:
    def refuse(self: object, *_: object) -> None:
        instead = _INSTEAD_OF_SETTING.get(name, "a = td.map(f, a), or another operation")
        raise TracingError(
            f"{name} cannot be set: arrays and scalars are immutable.",
            hint=f"Make a new one: {instead}.",
        )

    return refuse


def never_set(cls: type[T]) -> type[T]:
    """Decorate a class so that setting a property raises an error with advice."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, property):
            refuse = _refusing(name)
            setattr(cls, name, property(value.fget, refuse, refuse, value.__doc__))
    return cls
