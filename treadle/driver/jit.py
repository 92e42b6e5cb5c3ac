"""`run` and `jit`: compute expressions and compile Python functions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    final,
    overload,
)

from treadle.backend.registry import require_name
from treadle.dsl import errors
from treadle.dsl.analysis.short_extents import specialising
from treadle.dsl.annotations import Argument, ScheduleLike, Tree
from treadle.dsl.array import Array
from treadle.dsl.expr import Param
from treadle.dsl.frontend.call_cache import fresh_together
from treadle.dsl.frontend.deferred import fresh
from treadle.dsl.frontend.drawn import warn_of_unrolled, watching
from treadle.dsl.frontend.refusals import called, of_structure
from treadle.dsl.frontend.sources import is_arraylike, is_lazy, use
from treadle.dsl.frontend.suggestions import COMPILED
from treadle.dsl.frontend.tracing import traced_function
from treadle.dsl.frontend.trees import apart, flatten_results
from treadle.dsl.graph import Input
from treadle.dsl.graphs.relations import with_checks
from treadle.dsl.html import escape
from treadle.dsl.node import fresh_uid
from treadle.dsl.process.collection import collected_rarely
from treadle.dsl.process.configuration import Settings, config, given, refresh_settings, settings
from treadle.dsl.scalar import Scalar
from treadle.dsl.target import target_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

from .arguments import mapped, signature, split_arguments, symbol, symbols_in, valued
from .binding import FORMS, Forms, Value, separated
from .expressions import Programs, backend_for, evaluate, shapes_of
from .program import Program, operation_names, unnamed_schedules
from .replaying import Replay, Replays, replay_for
from .several import gpus


class RunOptions(TypedDict, total=False):
    """What `run` takes by name."""

    backend: str | None
    schedule: ScheduleLike | None
    check: bool | None


@overload
def run(expr: Array | Scalar, **options: Unpack[RunOptions]) -> NDArray[Any]: ...
@overload
def run(
    expr: Array | Scalar,
    second: Array | Scalar,
    /,
    *more: Array | Scalar,
    backend: str | None = None,
    check: bool | None = None,
) -> tuple[NDArray[Any], ...]: ...
@overload
def run(
    expr: tuple[Array, Array], **options: Unpack[RunOptions]
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def run(expr: tuple[Array, ...], **options: Unpack[RunOptions]) -> tuple[NDArray[Any], ...]: ...
@overload
def run(expr: list[Array], **options: Unpack[RunOptions]) -> list[NDArray[Any]]: ...
@overload
def run(expr: Tree, **options: Unpack[RunOptions]) -> Any: ...
@errors.user_facing
def run(
    expr: Tree,
    *more: Tree,
    backend: str | None = None,
    schedule: ScheduleLike | None = None,
    check: bool | None = None,
) -> Any:
    """Compute an expression (or a tuple, list or dict of expressions) and return arrays.

    Host inputs give NumPy results.  `schedule` applies to the operation that computes the result.

    Parameters
        expr: an array, or a tuple, list or dict of arrays.
        more: further ones, which the same program computes: the result is a tuple.
        backend: "native", "cuda", "reference" or "dask"; default: the settings'.
        schedule: the schedule of the operation that computes the result; default Auto().
        check: whether indices and conversions are tested; default: the settings'.

    Result: NumPy arrays for host data, CuPy arrays for data on a GPU, in the same tuples, lists and
        dicts.

    >>> import treadle as td
    >>> td.run(td.iota(4) ** 2)
    array([0, 1, 4, 9])
    >>> td.run(td.iota(3) + 1, td.sum(td.iota(3)))
    (array([1, 2, 3]), array(3))

    See also `jit`, `config`, `precision`, `load`.
    """
    if more:
        expr = (expr, *more)
    if backend is None and schedule is None and check is None:
        value = fresh(expr) if type(expr) is Array else None
        if value is not None:
            return value
        if type(expr) is not Array:
            parts, tree = apart(expr)
            values = fresh_together(parts)
            if values is not None:
                return tree.build(values)
    if schedule is not None:
        if not isinstance(expr, Array):
            why = "there are several results"
            if not isinstance(expr, tuple | list | dict):
                why = f"nothing computes a {type(expr).__name__}"
            raise errors.TracingError(
                f"schedule= is for one operation, and {why}.",
                hint="Give schedules per operation: schedule=… or .scheduled(…).",
            )
        expr = expr.scheduled(schedule)
    refresh_settings()
    chosen = settings() if check is None else replace(settings(), check=bool(check))
    leaves, tree = flatten_results(expr)
    return tree.build(evaluate(leaves, chosen, backend))


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", covariant=True)
#: What a call with data returns: for the arrays of `R`, NumPy's.
S = TypeVar("S", covariant=True)
Data: TypeAlias = "NDArray[Any]"


def _named(module: str, path: str) -> object:
    """What a module has under a name with dots; None for nothing."""
    found: object = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _found_or_made(
    module: str, path: str, function: FunctionType, *made: Any
) -> Jit[..., object, object]:
    """The compiled function of this name, if it is of this function, else a new one."""
    found = _named(module, path)
    if isinstance(found, Jit) and found._function is function:
        return found
    function.__qualname__ = path
    return Jit(function, *made)


class Jit(Generic[P, R, S]):
    """A function compiled once per (rank, type) signature of its arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str | None,
        changes: dict[str, Any],
        overrides: dict[str, Any] | None = None,
        devices: tuple[int, ...] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._devices = devices
        self._function, self._backend, self._changes = function, backend, changes
        self._overrides = overrides or {}
        self._programs: dict[Settings, Programs] = {}
        # The programs for the settings of the last call, found without hashing the settings.
        self._recent: tuple[Settings, Programs] = (settings(), Programs())
        self._programs[self._recent[0]] = self._recent[1]
        self._forms = Forms(function)
        # Replay calls made under these settings, without inspecting types again: by the names of
        # the values that the function takes by name.
        self._replays: tuple[Settings | None, dict[tuple[str, ...], Replays]] = (None, {})
        self._elsewhere: dict[str, Jit[P, R, S]] = {}
        self.tuning: Any = None

    def __repr__(self) -> str:
        return f"<treadle.jit of {getattr(self._function, '__name__', 'a function')}>"

    def _repr_html_(self) -> str:
        """Its programs, which notebooks show folded."""
        found = [p for by_key in self._programs.values() for p in by_key.values()]
        shown = [p._repr_html_() for p in found if isinstance(p, Program)]
        return f"<div>{escape(repr(self))}</div>{''.join(shown) or 'not called yet'}"

    if not TYPE_CHECKING:  # a misspelled attribute is an error there

        def __getattr__(self, name: str) -> Any:
            if name in ("explain", "source", "graph", "kernels", "save"):
                raise errors.no_attribute(
                    f"a compiled function has no {name!r}: a program for certain arguments has "
                    f"one. Write f.lower(*args).{name}{'' if name == 'kernels' else '()'}.",
                    name,
                )
            instead = COMPILED.get(name)
            if instead is not None:
                raise errors.no_attribute(f"a compiled function has no {name!r}: {instead}.", name)
            raise AttributeError(f"'Jit' object has no attribute {name!r}")

    def __getitem__(self, launch: object) -> NoReturn:
        raise errors.TracingError(
            "a compiled function is called, not launched in blocks and threads.",
            hint="Write f(a): they follow from the shapes; a schedule changes them, "
            "f.scheduled(name=td.schedule.Block(256)).",
        )

    def on(self, backend: str) -> Jit[P, R, S]:
        """The same function on another backend, where it keeps its programs."""
        made = self._elsewhere.get(backend)
        if made is None:
            devices = self._devices if target_of(backend).several else None
            made = Jit(self._function, backend, self._changes, self._overrides, devices)
            self._elsewhere[backend] = made
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        """A decorated function is found by its name, as Python's are; it is compiled there anew.

        Where the name means nothing, as in a worker process that has another `__main__`, pickle
        fails and cloudpickle sends functions by value.  Both see the function that was decorated,
        under the name by which it is found, `f.__wrapped__`.
        """
        made = self._function, self._backend, self._changes, self._overrides, self._devices
        path = str(getattr(self, "__qualname__", ""))
        if _named(self.__module__, path) is not self:
            return Jit, made
        if int(protocol) < 4:  # where names have no dots
            return path
        self._function.__qualname__ = f"{path}.__wrapped__"
        return _found_or_made, (self.__module__, path, *made)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Argument) -> S: ...
    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        by_name: tuple[str, ...] = ()
        try:
            if kwargs:
                args, by_name = self._forms.values(args, kwargs)
            known, replays = self._replays
            if known is settings() and by_name in replays:
                for again in replays[by_name].functions:
                    found = again(*args)
                    if found is not None:
                        return found
            symbols = symbols_in(args)
            if symbols:
                values = valued(args, symbols)
                if values is None:
                    parts = mapped(args, lambda a: use(a) if is_arraylike(a) else a)
                    return self._traced(parts, by_name)  # a part of what is traced
                args = values
            flat, key = signature(args)
            key = (key, by_name) if by_name else key
            program = self._here().find(key, flat)
            if program is None:
                program = self._trace(args, by_name, flat, key)
            data, params = split_arguments(flat)
            as_arrays = bool(symbols) and not any(map(is_lazy, data))
            result = program.execute(data, params, as_arrays=as_arrays)
            replay = replay_for(program, args, data, params, as_arrays)
            if replay is not None:
                self._keep(by_name, program, replay)
            return result
        except errors.TreadleError as error:
            raise error.with_traceback(None) from error.__cause__
        except (RecursionError, MemoryError) as error:
            raise errors.of_limits(error) from None

    def _keep(self, by_name: tuple[str, ...], program: Program, replay: Replay) -> None:
        known, replays = self._replays
        chosen = settings()
        if known is not chosen or len(replays) >= FORMS:
            replays = {}
        added = replays.get(by_name, Replays()).having(program, replay)
        self._replays = chosen, {**replays, by_name: added}

    def _here(self) -> Programs:
        """The programs for the current settings."""
        refresh_settings()
        chosen = settings()
        known, programs = self._recent
        if chosen is not known:
            programs = self._programs.setdefault(chosen, Programs())
            self._recent = chosen, programs
        return programs

    def _traced(self, symbols: tuple[Value, ...], by_name: tuple[str, ...]) -> Value:
        """The function's result for symbolic arguments."""
        positional, named = separated(symbols, by_name)
        try:
            return self._function(*positional, **named)
        except (TypeError, ValueError) as error:
            found = of_structure(error, symbols)
            if isinstance(found, TypeError):
                found = errors.wrong_arguments(found, self._function, positional, named)
            if found is error:
                raise
            raise found from None

    @collected_rarely
    def _trace(
        self, args: tuple[Value, ...], by_name: tuple[str, ...], flat: Sequence[Value], key: object
    ) -> Program:
        chosen = replace(settings(), **self._changes)
        inputs: list[Input] = []
        params: list[Param] = []
        names = self._forms.names(len(args), by_name)
        symbols = tuple(symbol(a, inputs, params, n) for a, n in zip(args, names, strict=True))
        backend = backend_for(self._backend, flat)
        with (
            config(backend=backend, deterministic=chosen.deterministic),
            specialising(inputs, shapes_of(flat)) as specialised,
            traced_function(),
            watching(self._function),
        ):
            # trace-time choices depend on them
            leaves, tree = flatten_results(self._traced(symbols, by_name), "the compiled function")
        leaves = with_checks(leaves, [check for param in params for check in param.fits])
        ended = fresh_uid()
        for node in inputs:
            node.until = ended
        for param in params:
            param.until = ended
        program = Program(
            leaves,
            tree,
            chosen,
            backend,
            inputs,
            params,
            getattr(self._function, "__name__", "program"),
            self._overrides,
            self._devices,
        )
        warn_of_unrolled(program.name, program.optimised.runs[0])
        program.names = tuple(names)
        program.example_shapes = shapes_of(flat)
        self._here().keep(key, flat, program, specialised)
        return program

    @errors.user_facing
    def lower(self, *args: Argument, **kwargs: Argument) -> Program:
        """The `Program` for arguments like these: `.explain()`, `.source()`, `.graph()`, …

        It is compiled once for all extents; its explanations are for the extents of `args`.
        """
        by_name: tuple[str, ...] = ()
        if kwargs:
            args, by_name = self._forms.values(args, kwargs)
        flat, key = signature(args)
        key = (key, by_name) if by_name else key
        program = self._here().find(key, flat) or self._trace(args, by_name, flat, key)
        data, numbers = split_arguments(flat)
        chunks = tuple(a.chunks if is_lazy(a) else None for a in data)
        known = chunks if any(map(is_lazy, data)) else ()
        return program.explained_for(shapes_of(flat), tuple(numbers), known)

    @errors.user_facing
    def scheduled(self, *unnamed: ScheduleLike, **schedules: ScheduleLike) -> Jit[P, R, S]:
        """The same function with other schedules for named operations."""
        if unnamed:
            traced = [p.source_roots for by_key in self._programs.values()
                      for p in by_key.values() if isinstance(p, Program)]  # fmt: skip
            name = getattr(self._function, "__name__", "f")
            name = name if name.isidentifier() else "f"
            raise unnamed_schedules(name, unnamed, operation_names(traced))
        more = {**self._overrides, **schedules}
        return Jit(self._function, self._backend, self._changes, more, self._devices)

    @errors.user_facing
    def tune(
        self,
        *args: Argument,
        budget: float = 60.0,
        keep: int | None = None,
        tolerance: float | None = None,
        progress: bool = True,
    ) -> Jit[P, R, S]:
        """A new function with the fastest schedules found for arguments like these; the options are
        those of `Program.tune`: budget, progress, keep, tolerance."""
        tuned = self.lower(*args).tune(
            *args, budget=budget, keep=keep, tolerance=tolerance, progress=progress
        )
        made: Jit[P, R, S] = Jit(
            self._function,
            self._backend,
            self._changes,
            {**self._overrides, **tuned.overrides},
            self._devices,
        )
        made.tuning = tuned.tuning
        return made


@final
class _Unknown:
    """What only functions without annotations can return, for a type checker."""


class Compiler(Protocol):
    """The decorator that `td.jit(backend=…)` returns."""

    @overload
    def __call__(self, function: Callable[P, _Unknown], /) -> Jit[P, Any, Any]: ...
    @overload
    def __call__(self, function: Callable[P, Array], /) -> Jit[P, Array, Data]: ...
    @overload
    def __call__(
        self, function: Callable[P, tuple[Array, Array]], /
    ) -> Jit[P, tuple[Array, Array], tuple[Data, Data]]: ...
    @overload
    def __call__(
        self, function: Callable[P, tuple[Array, ...]], /
    ) -> Jit[P, tuple[Array, ...], tuple[Data, ...]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Jit[P, R, Any]: ...


class JitOptions(TypedDict, total=False):
    """What `jit` takes by name."""

    backend: str | None
    fast_math: bool | None
    recognise: bool | None
    deterministic: bool | None
    devices: int | Sequence[int] | None


@overload
def jit(function: Callable[P, _Unknown], **options: Unpack[JitOptions]) -> Jit[P, Any, Any]: ...
@overload
def jit(function: Callable[P, Array], **options: Unpack[JitOptions]) -> Jit[P, Array, Data]: ...
@overload
def jit(
    function: Callable[P, tuple[Array, Array]], **options: Unpack[JitOptions]
) -> Jit[P, tuple[Array, Array], tuple[Data, Data]]: ...
@overload
def jit(
    function: Callable[P, tuple[Array, ...]], **options: Unpack[JitOptions]
) -> Jit[P, tuple[Array, ...], tuple[Data, ...]]: ...
@overload
def jit(function: Callable[P, R], **options: Unpack[JitOptions]) -> Jit[P, R, Any]: ...
@overload
def jit(**options: Unpack[JitOptions]) -> Compiler: ...
@errors.user_facing
def jit(
    function: Callable[P, R] | None = None,
    *,
    backend: str | None = None,
    fast_math: bool | None = None,
    recognise: bool | None = None,
    deterministic: bool | None = None,
    devices: int | Sequence[int] | None = None,
) -> Jit[P, R, Any] | Compiler:
    """Compile a function of arrays (decorator, or `td.jit(f, backend=…)`).

    The function is traced once per (rank, type) signature.  Extents and Python scalars among the
    arguments are run-time values; captured arrays are read by reference at each call.  The 256 most
    recently used signatures stay compiled.

    Parameters
        function: a function of arrays; without: `jit` returns a decorator; optional.
        backend: "native", "cuda", "reference" or "dask"; default: the settings'.
        fast_math: whether floating-point sums and products may be reordered and approximated;
            optional.
        recognise: whether loops that are known operations are replaced by these; optional.
        deterministic: whether sums of floats have the same bits in every run; default: the
            settings', which begin with False.
        devices: with backend="cuda", the number of GPUs, or their numbers: arrays are in parts on
            all of them, as [several GPUs](larger.md#several-gpus) tells; optional.

    Result: the compiled function: it takes and returns data, or arrays inside other traced
        functions.

    >>> import numpy as np, treadle as td
    >>> double = td.jit(lambda a: 2 * a)
    >>> double(np.array([1, 2]))
    array([2, 4])

    See also `run`, `config`, `precision`, `load`.
    """
    changes = given(fast_math=fast_math, recognise=recognise, deterministic=deterministic)
    require_name(backend)
    numbers = None if devices is None else gpus(devices, backend)

    def wrap(f: Value) -> Value:
        if not callable(f) or isinstance(f, type | staticmethod | classmethod):
            raise _no_function(f)
        return Jit(f, backend, changes, devices=numbers)

    return wrap if function is None else wrap(function)


def _no_function(value: object) -> errors.TracingError:
    """The error for compiling an object that is not a function."""
    hint = "Write td.jit(f), or @td.jit above a function."
    if isinstance(value, type):
        hint = "Compile a function that calls an object of it: td.jit(lambda x: model(x))."
    elif isinstance(value, staticmethod | classmethod | property):
        hint = f"Write @{type(value).__name__} above @td.jit."
        if isinstance(value, property):
            hint = "Compile a function, and call it in the property."
    elif isinstance(value, str) or type(value).__module__.startswith("numba."):
        hint = "Leave the signature out, @td.jit: calls have the types of their arguments."
    return errors.TracingError(f"jit needs a function, got {called(value)}.", hint=hint)
