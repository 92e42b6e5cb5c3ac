"""`stream`: programs on arrays in files that are larger than memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np

from treadle.dsl.array import Array
from treadle.dsl.errors import DTypeError, ShapeError, TracingError, user_facing
from treadle.dsl.frontend.evaluation import known_array, values_of
from treadle.dsl.frontend.refusals import called
from treadle.dsl.frontend.sources import host_array, normalise_source
from treadle.dsl.frontend.trees import Tree
from treadle.dsl.scalar import Scalar
from treadle.dsl.text import byte_count
from treadle.dsl.types import children_of, is_composite

from .arguments import mapped, signature, split_arguments
from .binding import Value
from .jit import Jit, jit

_OPENED = (
    'Open the file: np.load(path, mmap_mode="r") or np.memmap(path, …) to read; '
    'np.lib.format.open_memmap(path, "w+", dtype, shape) to write.'
)

_PARTS = (
    "Let a compiled function of the state and of one part be called for each part: for part in "
    "parts: state = update(state, part)."
)


@user_facing
def stream(
    f: Any,
    *arrays: Any,
    out: Any = None,
    memory: str | float = "2 GB",
    progress: bool = False,
    chunks: int | Sequence[int | Sequence[int] | None] | None = None,
) -> Any:
    """Compute `f(*arrays)` for arrays in files that are larger than memory, block by block.

    While a block is computed, the next one is read and the previous one is written.  A loop over
    stencils makes several iterations in a pass over the file.  The results have the bits that
    `td.jit(f)` gives, as [larger than one machine](larger.md) tells.

    Parameters
        f: a function, compiled or not.
        *arrays: its arguments: numbers, anything with `shape`, `dtype` and slices (NumPy's arrays
            and memory maps, arrays of zarr, data sets of h5py), arrays of treadle, and tuples,
            lists and dicts of them.
        out: where the results are written: such an array, or for several results a tuple of them,
            or the tuple or dict that `f` returns with such arrays in place of its results.  For
            None (all of it, or in place of one), NumPy arrays in memory, which must have room.
        memory: bytes that the blocks in memory may have together: a number, "500 MB" or "2 GiB";
            default "2 GB".
        progress: whether to show a progress bar on a terminal; default False.
        chunks: the extents of the blocks of the arrays: one for each axis, or one for all axes, of
            all arrays with so many axes.  -1 and None stand for the whole axis, a tuple for the
            extent of each block.  Default: as many whole rows as fit.

    Result: that of `f`, with the arrays of `out`, or NumPy arrays.

    Errors: `MemoryLimitExceeded` if a block needs more memory than that, because a part of `f`
        cannot be computed in blocks; `DistributionError` if a part of `f` has no rule: a state
        of a loop whose extents depend on data, a Python function; `ShapeError` if `out` has other
        shapes or types, or shares elements with an argument; `StorageError` if it can only be read.

    >>> import numpy as np, treadle as td
    >>> td.stream(lambda a: a * 2, np.arange(5), memory="1 MB")
    array([0, 2, 4, 6, 8])
    """
    from treadle.backend.dask.stream import Stream

    if not callable(f):
        raise TracingError(
            f"stream needs a function, got {type(f).__name__}.",
            hint="The arguments, in order: stream(f, *arrays).",
        )
    compiled = f if isinstance(f, Jit) else jit(f)
    sources: list[Value] = []
    given = mapped(arrays, lambda value: _stand_in(value, sources))
    program = compiled.on("dask").lower(*given)
    _, numbers = split_arguments(signature(given)[0])
    sources += [node.source for node in program.source_inputs[len(program.arguments) :]]
    run = Stream(program, sources, program.numbers(sources, numbers), _bytes(memory), chunks)
    if (said := run.too_small() or run.decoded_again()) is not None:
        warnings.warn(f"td.stream: {said}", stacklevel=4)
    count = len(program.roots)
    outs = [None] * count if out is None else _outs(out, program.tree)
    for one in outs:
        if one is not None and not (hasattr(one, "shape") and hasattr(one, "__setitem__")):
            raise TracingError(f"stream writes to arrays, got out={one!r}.", hint=_OPENED)
    if len(outs) != count:
        raise ShapeError(f"out has {len(outs)} arrays, and the function has {count} results.")
    with _bar(progress) as report:
        return program.tree.build(run.run(outs, report))


def _outs(out: object, tree: Tree) -> list[object]:
    """The arrays of `out` in the order of the results."""
    kind, *_, inner = tree.description
    if kind == "array" or (isinstance(out, tuple | list) and len(out) == tree.count):
        return list(out) if isinstance(out, tuple | list) else [out]
    if kind == "dict":
        (keys,) = tree.description[1:-1]
        if not isinstance(out, Mapping) or set(out) != set(keys):
            got = f"out has {list(out)}" if isinstance(out, Mapping) else "out is no dict"
            raise ShapeError(f"the results are a dict with {list(keys)}, and {got}.")
        parts: list[object] = [out[key] for key in keys]
    else:
        given = list(children_of(out)) if is_composite(out) else out
        if not isinstance(given, list) or len(given) != len(inner):
            return given if isinstance(given, list) else [given]
        parts = given
    made: list[object] = []
    for part, one in zip(parts, inner, strict=True):
        made += [None] * one.count if part is None else _outs(part, one)
    return made


def _stand_in(value: Value, sources: list[Value]) -> Value:
    """An array without memory of this shape and type, for tracing, of an array that is put into
    `sources`; other values unchanged."""
    if isinstance(value, Array) and value._is_closed():
        values = values_of(value, "an argument of stream")
        return known_array([_stand_in(v, sources) for v in values], value.structure)
    if not hasattr(value, "shape") or not hasattr(value, "dtype") or isinstance(value, np.generic):
        if isinstance(value, str | PathLike):
            raise TracingError(f"stream reads arrays, no paths, got {value!r}.", hint=_OPENED)
        if isinstance(value, Iterator):
            raise TracingError(f"stream reads arrays, got {called(value)}.", hint=_PARTS)
        if not hasattr(value, "__array__") or isinstance(value, np.generic | Array | Scalar):
            return value
        value = host_array(value)  # of a data frame
    if isinstance(value, np.ndarray) or hasattr(value, "tocsr"):
        normalise_source(value)  # an error for what is no plain array
    if not isinstance(value.dtype, np.dtype):
        raise DTypeError(f"stream takes arrays with a dtype of NumPy, got {value.dtype}.")
    sources.append(value)
    return np.broadcast_to(np.zeros((), value.dtype), tuple(int(n) for n in value.shape))


def _bytes(memory: str | float) -> int:
    """The number of bytes that a text like "2 GB" means."""
    found = byte_count(memory)
    if found is None:
        raise ShapeError(
            f"memory={memory!r} is no number of bytes.",
            hint='Write "2 GB", "500 MB", "1.5 GiB", or a number of bytes: 2e9.',
        )
    return found


@contextmanager
def _bar(wanted: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, displayed if standard error is a terminal."""
    if not wanted:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("blocks")

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
