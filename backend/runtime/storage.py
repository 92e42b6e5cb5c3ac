"""Programs in files: `program.save(path)` and `td.load(path)`.

A file is one JSON document: format, versions, a SHA-256 of the payload, and the payload: the graph
as written (encoding.py), arguments, settings, results and the data of captured arrays.  Reading
never executes code from the file and imports nothing: classes of results (named tuples and
dataclasses) and user-defined orders must be in modules that have already been imported.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from treadle import dsl
from treadle.dsl.errors import ScheduleError, StorageError, TreadleError, user_facing
from treadle.dsl.expr import Const, Param
from treadle.dsl.graph import Input, Leaf
from treadle.dsl.graphs.encoding import TYPES, Decoder, Encoder, decode_tree, encode_tree
from treadle.dsl.graphs.verify import BrokenGraph, verify
from treadle.dsl.process.configuration import Settings
from treadle.dsl.process.environment import write_atomically
from treadle.dsl.program import TracedProgram
from treadle.skeletons.products import BilinearAlgorithm
from treadle.skeletons.schedules import from_dict

Made = TypeVar("Made", bound=TracedProgram)

FORMAT = "treadle program"
VERSION = 3


# --- writing ---------------------------------------------------------------------------------


@user_facing
def save(program: TracedProgram, path: str | os.PathLike[str]) -> None:
    """Write a program to a file atomically.

    `StorageError` for objects that cannot be stored: foreign functions, library operations that are
    Python functions, classes of results that another process could not import.
    """
    path = _path(path, "save")
    text = packed(program)
    try:
        write_atomically(Path(path), text.encode(), durable=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}.") from None


def packed(program: TracedProgram) -> str:
    """The text of the file, which is also the pickled form of a program."""
    payload = _payload(program)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "treadle": dsl.VERSION,
        "sha256": _checksum(payload),
        "payload": payload,
    }
    return _text(document)


def _payload(program: TracedProgram) -> dict[str, Any]:
    encoder = Encoder(program.params, full=True)
    roots = encoder.graph(program.source_roots, program.source_inputs)
    return {
        "name": program.name,
        "names": list(program.names),
        "backend": program.backend,
        "settings": asdict(program.settings),
        "params": [[p.name, p.type.name, p.weak] for p in program.params],
        "table": encoder.table,
        "roots": roots,
        "arguments": [encoder.numbers[node] for node in program.source_arguments],
        "inputs": [encoder.numbers[node] for node in program.source_inputs],
        "data": [
            _data(node) if node.source is not None else None
            for node in program.source_inputs[len(program.source_arguments) :]
        ],
        "results": encode_tree(program.tree),
        "example_shapes": [list(s) for s in program.example_shapes or ()],
    }


def _data(node: Input) -> str:
    """A captured array as base64 of NumPy's own format."""
    source = node.source
    array = source.get() if hasattr(source, "__cuda_array_interface__") else np.asarray(source)
    array = array.astype(node.type.numpy, copy=False)  # from a foreign byte order
    own = node.type.numpy.isbuiltin == 1
    plain = array if own else array.view(f"u{array.dtype.itemsize}")
    file = io.BytesIO()
    np.save(file, plain, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _path(path: str | os.PathLike[str], operation: str) -> str:
    if not isinstance(path, str | os.PathLike):
        raise StorageError(
            f"{operation} needs the path of a file, got {type(path).__name__}.",
            hint='program.save("blur.treadle") writes what td.load("blur.treadle") reads.',
        )
    return str(os.fspath(path))


def _checksum(payload: Any) -> str:
    return hashlib.sha256(_text(payload).encode()).hexdigest()


# --- reading ---------------------------------------------------------------------------------


def content(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The name of a file, for errors, and its text."""
    name = _path(path, "load")
    try:
        with open(name, "rb") as file:
            found = file.read()
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error.strerror}.") from None
    if found.startswith((b"\x93NUMPY", b"PK")):
        raise StorageError(f"{name} holds arrays of NumPy's, and no program.",
                           hint="td.use(np.load(path)) reads them.")  # fmt: skip
    if not found.lstrip().startswith(b"{"):
        raise _no_program(name)
    try:
        return name, found.decode()
    except ValueError:
        raise _damaged(name, "it is not a complete JSON document") from None


def _no_program(name: str) -> StorageError:
    return StorageError(
        f"{name} is not a stored treadle program.", hint="Write one with program.save(path)."
    )


def unpacked(text: str, make: Callable[..., Made], name: str = "the pickled program") -> Made:
    """Reconstruct a program of class `make` from the text of `packed`; errors call it `name`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged(name, "it is not a complete JSON document") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _no_program(name)
    if document.get("version") != VERSION:
        raise StorageError(
            f"{name} has format version {document.get('version')!r}, this treadle "
            f"({dsl.VERSION}) reads version {VERSION}; it was written by treadle "
            f"{document.get('treadle')!r}.",
            hint="Lower the function again and save it with this version.",
        )
    payload = document.get("payload")
    try:
        intact = _checksum(payload) == document.get("sha256")
    except RecursionError:
        intact = False
    if not intact:
        raise _damaged(name, "its checksum does not match")
    return _program(name, payload, make)


def _damaged(name: str, why: str) -> StorageError:
    return StorageError(f"{name} is damaged: {why}.", hint="Save the program again.")


def _program(name: str, payload: Any, make: Callable[..., Made]) -> Made:
    try:
        params = [Param(str(p), TYPES[t], bool(weak)) for p, t, weak in payload["params"]]
        decoder = Decoder(params, from_dict, BilinearAlgorithm)
        decoder.table(payload["table"])
        roots = [decoder.leaf(r) for r in payload["roots"]]
        inputs = [decoder.node(n, Input) for n in payload["inputs"]]
        arguments = [decoder.node(n, Input) for n in payload["arguments"]]
        for node, data in zip(inputs[len(arguments) :], payload["data"], strict=True):
            node.source, node.owned = None if data is None else _array(data, node), True
        tree = decode_tree(payload["results"])
        if tree.count != len(roots) or inputs[: len(arguments)] != arguments:
            raise ValueError("its parts do not fit together")
        verify(roots)
        made = make(roots, tree, Settings(**payload["settings"]), str(payload["backend"]),
                       arguments, params, str(payload["name"]))  # fmt: skip
        if any(node.source is None for node in made.source_inputs[len(arguments) :]):
            raise ValueError("an array that was captured has no data")
        shapes = tuple(tuple(map(_extent, s)) for s in payload["example_shapes"])
        if shapes and [len(s) for s in shapes] != [len(node.shape) for node in arguments]:
            raise ValueError("example shapes of other ranks")
        made.example_shapes = shapes or None
        made.names = tuple(map(str, payload["names"]))
    except StorageError:
        raise
    except ScheduleError as error:  # a user-defined class that is not available
        raise StorageError(f"{name} cannot be read here: {error.message}",
                           hint=error.hint) from None  # fmt: skip
    except (ArithmeticError, AssertionError, AttributeError, BrokenGraph, LookupError,
            RecursionError, TreadleError, TypeError, ValueError) as error:  # fmt: skip
        raise _damaged(name, f"{type(error).__name__}: {error}") from None
    return made


def _extent(n: Any) -> int:
    if type(n) is not int or n < 0:
        raise ValueError(f"{n!r} is no extent")
    return n


def _array(data: str, node: Input) -> Any:
    """The data of a captured array, validated against its input."""
    array = np.load(io.BytesIO(base64.b64decode(data, validate=True)), allow_pickle=False)
    if node.type.numpy.isbuiltin != 1:
        array = array.view(node.type.numpy)
    ones = tuple(isinstance(e, Const) for e in node.shape)
    if array.dtype != node.type.numpy or tuple(n == 1 for n in array.shape) != ones:
        raise ValueError(f"the data of {node.name} are {array.dtype} of shape {array.shape}")
    return array


# --- keys ------------------------------------------------------------------------------------


def canonical_key(roots: Sequence[Leaf], settings: Settings) -> str:
    """SHA-256 of the meaning of a program, for caches.

    Equal programs have equal keys in all processes: inputs, parameters and variables are numbered
    in order of first use; names, source locations and data are ignored.
    """
    encoder = Encoder((), full=False)
    found = encoder.graph(roots)
    text = _text([FORMAT, VERSION, asdict(settings), encoder.table, found])
    return hashlib.sha256(text.encode()).hexdigest()
