"""The backends by name: which work here, and for those that don't, why and what to install."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from treadle.dsl import target as targets
from treadle.dsl.environment import variable
from treadle.dsl.errors import BackendUnavailable, did_you_mean
from treadle.dsl.target import Target
from treadle.dsl.text import printable


@dataclass(frozen=True)
class Backend:
    """A place where programs run.

    `probe` is a module that is quick to import and offers `unavailable() -> str | None`: why the
    backend does not work here, and what to do.  `module` is imported when a program runs and offers
    `executable(program) -> Executable` (`runtime/device.py`) and `source(program, arch) -> str`;
    for `explain` also `remarks(program) -> list[str]` (lines about how it runs) and
    `lowering(program, node) -> LoweringContext | None` (None: a library computes it);
    `product_ways(node, size)`, what `tune` may try of a product; `placed(data)`, `wait()` and
    `machine()` where memory is apart and calls return early (see `Program`).
    """

    name: str
    module: str
    probe: str
    about: str
    #: What does work where the backend does not.
    instead: str | None = None


BACKENDS: dict[str, Backend] = {
    b.name: b
    for b in (
        Backend(
            "reference",
            "treadle.backend.reference.executable",
            "treadle.backend.reference.executable",
            "NumPy, the meaning of the language: slow and plain",
        ),
        Backend(
            "native",
            "treadle.backend.native.executable",
            "treadle.backend.native.availability",
            "LLVM, all CPU cores",
        ),
        Backend(
            "cuda",
            "treadle.backend.cuda.executable",
            "treadle.backend.cuda.availability",
            "an NVIDIA GPU",
            instead="What would run there can be read here, of a program for the CPU: "
            'td.jit(f).lower(…).source("cuda"), or .explain("cuda").',
        ),
    )
}


def register(backend: Backend, target: Target) -> None:
    """Make one more backend known, and what it is for: a folder for another machine calls this."""
    BACKENDS[backend.name] = backend
    targets.register(target)


#: What else people call them.
_ALSO = {"gpu": "cuda", "cpu": "native", "numpy": "reference", "llvm": "native"}

_PLANNED = {
    "dask": "many machines: this version of treadle has no Dask backend yet.",
}


def is_name(name: str) -> bool:
    """Whether there is such a backend, here or in a version to come."""
    return name in BACKENDS or name in _PLANNED


def require_name(name: str | None) -> None:
    """`BackendUnavailable` for what is neither the name of a backend, "auto" nor None."""
    if name is None or name == "auto" or name in BACKENDS:
        return
    working = ", ".join(repr(n) for n in BACKENDS)
    asked = ", which TREADLE_BACKEND asks for" if name == variable("TREADLE_BACKEND") else ""
    if name in _PLANNED:
        raise BackendUnavailable(
            f"the backend {name!r}{asked} is not available: {_PLANNED[name]}",
            hint=f"Backends here: {working}.",
        )
    raise BackendUnavailable(
        f"there is no backend {name!r}{asked}.",
        hint=f"{did_you_mean(_ALSO.get(name, str(name)), BACKENDS)}Backends: {working}.",
    )


def require(name: str) -> Backend:
    """The backend of this name; `BackendUnavailable` says why it does not work here."""
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
    """None when the backend works here, else the reason and what to install."""
    backend = BACKENDS.get(name)
    if backend is None:
        return _PLANNED.get(name, "unknown")
    try:
        module = importlib.import_module(backend.probe)
    except ImportError as error:
        return f"{error}; pip install {getattr(error, 'name', None) or 'its dependencies'}"
    reason: str | None = module.unavailable()
    return reason


class Backends(dict[str, str]):
    """name → "works" or the reason why not; prints as a table."""

    def __str__(self) -> str:
        width = max(len(n) for n in self)
        return printable("\n".join(f"{n:<{width}}  {state}" for n, state in self.items()))


def backends() -> Backends:
    """Which backends work here, and for those that don't, why and what to install."""
    table = Backends()
    for name, backend in BACKENDS.items():
        reason = why_not(name)
        table[name] = f"works: {backend.about}" if reason is None else f"unavailable: {reason}"
    for name, reason in _PLANNED.items():
        table.setdefault(name, f"unavailable: {reason}")
    return table


def offered(name: str, what: str) -> Any:
    """What a backend's module offers under a name, whether or not it works here, or None."""
    backend = BACKENDS.get(name)
    if backend is None:
        load(name)
        return None
    return getattr(importlib.import_module(backend.module), what, None)


def choose(name: str | None) -> str:
    """The backend to run on: the given one, or ("auto", None) the fastest that works here.

    A GPU that works is the fastest.  Nothing ever moves to another backend later: what goes wrong
    there is an error that says so.
    """
    if name is not None and name != "auto":
        require(name)
        return name
    return next((n for n in ("cuda", "native") if why_not(n) is None), "reference")
