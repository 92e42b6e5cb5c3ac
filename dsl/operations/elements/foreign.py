"""Foreign code: scalar functions called in kernels, whole-array functions per backend."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from ... import errors
from ...annotations import ArrayLike, Function, ScalarLike
from ...array import Array
from ...evaluator import evaluator
from ...expr import Foreign
from ...frontend.refusals import called
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Barrier, Label, Library, Output
from ...graphs.interning import cached_per_object, find, publish
from ...libraries.base import LibraryOperation, layout_of
from ...process.configuration import current_backend
from ...process.limits import require_numba
from ...scalar import Scalar, as_strong, lift
from ...types import LEAF, ScalarType, as_type
from ..common import label_of, operation

__all__ = ["compute", "foreign", "foreign_array"]


_CFUNCTION: Any = type(ctypes.pythonapi.Py_IsInitialized).__mro__[1]  # of all C functions


@operation
def foreign(f: Callable[..., object], *scalars: ScalarLike) -> Scalar:
    """Call a Numba-compiled scalar function inside a kernel, on the backends that support it.

    `f` is a Numba dispatcher (`numba.njit`), a plain Python function, which is compiled, what
    `numba.cfunc` made, or a function of a C library by `ctypes` whose `argtypes` and `restype` are
    set.

    Parameters
        f: a C or Numba function of numbers.
        *scalars: numbers or scalars.

    >>> td.map(lambda s: td.foreign(lambda t: 2 * t, s), np.array([3, 1, 2]))
    Array([6, 2, 4])
    """
    values = [as_strong(lift(s, "foreign")) for s in scalars]
    compiled = compile_scalar_function(f, tuple(e.type for e in values))
    return Scalar(Foreign(compiled, tuple(values), compiled.result))


class CompiledScalarFunction:
    """A Numba function for one signature: callable from Python, and by address.

    raises: whether the function may raise an exception.
    """

    def __init__(
        self, function: Any, arguments: tuple[ScalarType, ...], result: ScalarType, name: str
    ) -> None:
        self.function, self.arguments, self.result, self.name = function, arguments, result, name
        made = function.overloads[tuple(map(_numba_type, arguments))]
        self._library, self._symbol = made.library, made.fndesc.llvm_func_name
        body = dict(definitions(self._library.get_llvm_str()))[self._symbol]
        self.raises = set(re.findall(r"^\s*ret i32 (\S+)", body, re.M)) != {"0"}

    @property
    def address(self) -> int:
        """The address under Numba's internal calling convention: `i32 (ptr result, ptr exception,
        arguments…)`; the function returns 0 if there is no exception."""
        return int(self._library.get_pointer_to_function(self._symbol))

    def __call__(self, *values: ArrayLike) -> Any:
        try:
            return self.function(*values)
        except Exception as error:
            given = ", ".join(map(str, values))
            error.add_note(f"raised by the foreign function '{self.name}' for ({given})")
            raise


def definitions(module: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each function in a module of LLVM IR."""
    for found in re.finditer(r'^define [^@]*@("?)([^"(]+)\1\(.*?^}', module, re.M | re.S):
        yield found.group(2), found.group(0)


def _numba_type(t: ScalarType) -> Any:
    import numba

    return getattr(numba.types, "boolean" if t.family == "bool" else t.name)


def compile_scalar_function(f: Any, types: tuple[ScalarType, ...]) -> CompiledScalarFunction:
    """Compile `f` for argument types and infer its result type; cached for the lifetime of `f`."""
    if isinstance(f, FunctionType):
        return _of_plain(f, types)
    key = CompiledScalarFunction, id(f), types  # the published object keeps f alive
    return find(key) or publish(key, _compiled(f, types))


@cached_per_object(8)
def _of_plain(f: FunctionType, types: tuple[ScalarType, ...]) -> CompiledScalarFunction:
    """Compile a copy of `f`, because Numba's compiled objects keep their function alive."""
    copied = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copied.__kwdefaults__, copied.__qualname__ = f.__kwdefaults__, f.__qualname__
    return _compiled(copied, types)


def _of_address(f: Any) -> Any:
    """A function that Numba compiles: calls of `ctypes` functions and of Numba's C callbacks."""
    if isinstance(f, _CFUNCTION):
        if f.argtypes is None:
            name = getattr(f, "__name__", "f")
            raise errors.TracingError(
                f"the C function '{name}' does not say what it takes.",
                hint=f"Write {name}.argtypes = [ctypes.c_double] and {name}.restype = "
                "ctypes.c_double, or its types, before.",
            )
        called_at = f
    elif hasattr(f, "native_name") and hasattr(f, "ctypes"):  # made by numba.cfunc
        called_at = f.ctypes
    else:
        return f
    # (Numba unpacks no tuple of arguments into such a call.)
    names = ", ".join(f"x{k}" for k in range(len(called_at.argtypes)))
    return eval(f"lambda {names}: f({names})", {"f": called_at})


def _compiled(f: Any, types: tuple[ScalarType, ...]) -> CompiledScalarFunction:
    require_numba()
    try:
        import numba
    except ImportError:
        raise errors.TracingError("foreign needs Numba.", hint="pip install numba") from None
    if not callable(f):
        raise errors.TracingError(
            f"foreign needs a function, got {type(f).__name__}.",
            hint="Write td.foreign(f, x), f made by numba.njit or a plain function of numbers.",
        )
    if any(t.bits == 16 and t.is_float for t in types):
        raise errors.DTypeError(
            "foreign functions take no half-precision arguments.",
            hint="Cast: td.cast(x, td.float32).",
        )
    try:
        dispatcher = f if hasattr(f, "py_func") else numba.njit(_of_address(f))
        dispatcher.compile(tuple(_numba_type(t) for t in types))
        signature = dispatcher.overloads[tuple(_numba_type(t) for t in types)].signature
    except (MemoryError, errors.TreadleError):
        raise
    except Exception as error:
        raise errors.TracingError(
            f"Numba could not compile '{getattr(f, '__name__', f)}' for "
            f"({', '.join(map(str, types))}): {error}",
            hint="foreign takes scalar functions of numbers that numba.njit accepts"
            + ("." if types else ", and their arguments: td.foreign(f, x)."),
        ) from error
    result = str(signature.return_type)
    try:
        result_type = as_type({"bool": "bool"}.get(result, result))
    except (errors.DTypeError, TypeError):
        raise errors.TracingError(
            f"the foreign function returns {result}; it must return one number.",
            hint="Call one function per result, or return a complex number.",
        ) from None
    return CompiledScalarFunction(dispatcher, types, result_type, getattr(f, "__name__", "foreign"))


@operation
def foreign_array(
    implementations: Mapping[str, Function],
    *arrays: ArrayLike,
    fallback: Function,
    name: str | None = None,
) -> Any:
    """Call a whole-array function chosen by backend name; `fallback` is a treadle function.

    The fallback determines shapes and types, and runs on backends without an implementation:
    `td.foreign_array({"native": scipy_fft}, a, fallback=my_fft)`.

    Parameters
        implementations: a function for each backend, by its name.
        *arrays: arrays.
        fallback: a function of NumPy arrays.

    Result: what `fallback` returns: an array, or a tuple of arrays.

    >>> td.foreign_array({"reference": np.sort}, np.array([3, 1, 2]), fallback=td.sort)
    Array([1, 2, 3])
    """
    forbid_nesting("foreign_array")
    if not isinstance(implementations, Mapping):
        raise errors.TracingError(
            f"foreign_array needs a dict of functions by backend, got {called(implementations)}.",
            hint='Write td.foreign_array({"native": f}, a, fallback=g).',
        )
    label = label_of("foreign_array", name, None)
    known = evaluator().backends()
    for backend, function in implementations.items():
        if backend not in known:
            raise errors.TracingError(
                f"foreign_array: there is no backend {backend!r}.",
                hint=f"{errors.did_you_mean(str(backend), known)}Backends: {', '.join(known)}.",
            )
        if not callable(function):
            raise errors.TracingError(
                f"foreign_array: the implementation for {backend} is not a function.",
                hint='Write {"native": f}, where f gets NumPy arrays and returns one.',
            )
    operands = [as_array(a, "foreign_array") for a in arrays]
    meaning = fallback(*operands)
    single = isinstance(meaning, Array)
    results = [meaning] if single else list(meaning)
    if not all(isinstance(r, Array) and r.structure.is_leaf for r in results):
        raise errors.TracingError(
            "the fallback of foreign_array must return arrays of scalars.",
            hint="Return an Array, or a tuple of them; td.unzip(a) takes tuples apart.",
        )
    backend = current_backend()
    chosen = implementations.get(backend)
    if chosen is None:
        return meaning
    outs = tuple(Output(r._shape, r.types[0]) for r in results)

    def numpy(*values: ArrayLike) -> Any:
        got = chosen(*values)
        parts = [got] if single else list(got)
        for value, out in zip(parts, outs, strict=True):
            dtype, extents = layout_of(value)
            if dtype != out.type.numpy or len(extents) != len(out.shape):
                raise errors.ShapeError(
                    f"foreign_array: the implementation for {backend} returned {dtype} of "
                    f"rank {len(extents)}; the fallback says {out.type} of rank {len(out.shape)}.",
                    hint="Convert there, as in x.astype(np.float32), or change the fallback.",
                )
        return parts[0] if single else tuple(parts)

    operation = LibraryOperation(name or "foreign_array", (id(chosen),), numpy, ((backend, numpy),))
    node = Library(
        operation,
        tuple(le for a in operands for le in a._leaves),
        outs,
        label=label,
        where=errors.user_location(),
    )
    made = [Array((le,), LEAF, le.shape) for le in node.leaves]
    return made[0] if single else tuple(made)


@operation
def compute(a: ArrayLike | tuple[ArrayLike, ...]) -> Array | tuple[Array, ...]:
    """Materialise an array: nothing is fused across this point.

    Result: the same array, or tuple of arrays.

    >>> td.compute(td.use(np.array([3, 1, 2])) + 1)
    Array([4, 2, 3])
    """
    forbid_nesting("compute")
    if isinstance(a, tuple):
        return tuple(materialised(x) for x in a)
    return materialised(a)


def materialised(a: ArrayLike) -> Array:
    """The array behind a barrier."""
    array = as_array(a, "compute")
    node = Barrier(array._leaves, label=Label("compute"), where=errors.user_location())
    return Array(node.leaves, array.structure, array._shape)
