"""The registry of backends: which work on this machine, and why others do not, with the remedy."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from treadle.dsl import target as targets
from treadle.dsl.errors import BackendUnavailable, did_you_mean, user_facing
from treadle.dsl.process.environment import variable
from treadle.dsl.target import Target
from treadle.dsl.text import printable


@dataclass(frozen=True)
class Backend:
    """A backend.

    `probe` is a module that is quick to import and provides `unavailable() -> str | None`: the
    reason why the backend does not work here, with the remedy.  `module` is imported when a program
    runs and provides `executable(program) -> Executable` (`Device` in `runtime/executor.py`) and
    `source(program, arch) -> str`.  Optional attributes of the module: for `explain`,
    `remarks(program) -> list[str]` (lines about how it runs) and `lowering(program, node) ->
    LoweringContext | None` (None: a library computes the node); `product_ways(node, size)`, the
    alternatives of a product for `tune`; `other_numbers`, how NumPy scalars are passed to `replay`,
    other than those with the bits of a Python number; `placed(data)`, `wait()` and `machine()` if
    it has separate memory and asynchronous calls (see `Program`); `sizes(shipped)`, the ceilings of
    its device before any are measured, and `crossovers(remeasure)`, lines about the extents from
    which fast multiplication algorithms win, for `treadle ceilings`.
    """

    name: str
    module: str
    probe: str
    about: str
    #: What to use without this backend.
    instead: str | None = None
    #: Whether it needs packages that treadle does not depend on.
    optional: bool = True
    #: "auto" selects the backend with the highest rank that works here; 0: never.
    rank: int = 0
    #: Whether the performance model knows its device (`sizes` of the module).
    modelled: bool = False


BACKENDS: dict[str, Backend] = {
    b.name: b
    for b in (
        Backend(
            "reference",
            "treadle.backend.reference.executable",
            "treadle.backend.reference.executable",
            "NumPy, the meaning of the language: slow and plain",
            optional=False,
            rank=1,
        ),
        Backend(
            "native",
            "treadle.backend.native.executable",
            "treadle.backend.native.availability",
            "LLVM, all CPU cores",
            optional=False,
            rank=2,
            modelled=True,
        ),
        Backend(
            "dask",
            "treadle.backend.dask.executable",
            "treadle.backend.dask.availability",
            "arrays of dask: larger than memory, on threads or a cluster",
        ),
        Backend(
            "cuda",
            "treadle.backend.cuda.executable",
            "treadle.backend.cuda.availability",
            "an NVIDIA GPU",
            instead="What would run there can be read here, of a program for the CPU: "
            'td.jit(f).lower(…).source("cuda"), or .explain("cuda").',
            rank=3,
            modelled=True,
        ),
    )
}


def register(backend: Backend, target: Target) -> None:
    """Register another backend and its target; called by the backend's package."""
    BACKENDS[backend.name] = backend
    targets.register(target)


#: Common other names of backends, for suggestions.
_ALSO = {"gpu": "cuda", "cpu": "native", "numpy": "reference", "llvm": "native"}


def require_name(name: str | None) -> None:
    """Raises `BackendUnavailable` unless the name is that of a backend, "auto" or None."""
    if name is None or (isinstance(name, str) and (name == "auto" or name in BACKENDS)):
        return
    working = ", ".join(repr(n) for n in BACKENDS if why_not(n) is None)
    asked = ""
    if isinstance(name, str) and name == variable("TREADLE_BACKEND"):
        asked = ", which TREADLE_BACKEND asks for"
    llvm = (
        '"native" is made by LLVM: its source() is LLVM IR.  '
        if isinstance(name, str) and name == "llvm"
        else ""
    )
    raise BackendUnavailable(
        f"there is no backend {name!r}{asked}.",
        hint=f"{llvm}{did_you_mean(_ALSO.get(str(name), str(name)), BACKENDS)}Backends here: "
        f"{working}.",
    )


def require(name: str) -> Backend:
    """The backend of this name; raises `BackendUnavailable` with the reason if it does not work."""
    require_name(name)
    reason = why_not(name)
    if reason is not None:
        raise BackendUnavailable(
            f"the backend {name!r} does not work here: {reason}.", hint=BACKENDS[name].instead
        )
    return BACKENDS[name]


@cache
def load(name: str) -> Any:
    """The module of a backend that works here (see `require`)."""
    return importlib.import_module(require(name).module)


@cache
def why_not(name: str) -> str | None:
    """None if the backend works here, else the reason and what to install."""
    backend = BACKENDS.get(name)
    if backend is None:
        return "unknown"
    try:
        module = importlib.import_module(backend.probe)
    except ImportError as error:
        return f"{error}; pip install {getattr(error, 'name', None) or 'its dependencies'}"
    reason: str | None = module.unavailable()
    return reason


class Backends(dict[str, str]):
    """name → "works" or the reason why it does not; prints as a table."""

    def __str__(self) -> str:
        width = max(len(n) for n in self)
        return printable("\n".join(f"{n:<{width}}  {state}" for n, state in self.items()))


@user_facing
def backends() -> Backends:
    """The backends that work here, and for others the reason and what to install.

    Result: a mapping of names to texts, which prints as a table.

    >>> import treadle as td
    >>> td.backends()["reference"]
    'works: NumPy, the meaning of the language: slow and plain'
    """
    table = Backends()
    for name, backend in BACKENDS.items():
        reason = why_not(name)
        table[name] = f"works: {backend.about}" if reason is None else f"unavailable: {reason}"
    return table


def offered(name: str, what: str) -> Any:
    """An attribute of a backend's module, whether or not the backend works here, or None."""
    backend = BACKENDS.get(name)
    if backend is None:
        load(name)
        return None
    return getattr(importlib.import_module(backend.module), what, None)


def choose(name: str | None) -> str:
    """The backend to run on: the given one, or ("auto", None) the fastest that works here.

    A GPU that works is the fastest.  There is no later fallback to another backend: failures
    raise errors.
    """
    if name is not None and not (isinstance(name, str) and name == "auto"):
        require(name)
        return name
    ranked = sorted((b for b in BACKENDS.values() if b.rank), key=lambda b: -b.rank)
    return next(b.name for b in ranked if why_not(b.name) is None)
