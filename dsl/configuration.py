"""Defaults for a block of code, per thread: `with td.config(backend=…, check=…)`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .errors import TracingError


@dataclass(frozen=True)
class Settings:
    """What a run may depend on besides the program.

    backend None: the best that works here; check: out-of-range indices raise; fast_math: float
    identities that may change a bit; recognise: idioms become library kernels; deterministic: no
    result depends on the order of atomics; fast_precision: Strassen for floats.
    """

    backend: str | None = None
    check: bool = False
    fast_math: bool = False
    recognise: bool = True
    deterministic: bool = False
    fast_precision: bool = False


class _Local(threading.local):
    def __init__(self) -> None:
        self.settings = Settings(
            backend=os.environ.get("TREADLE_BACKEND") or None,
            check=os.environ.get("TREADLE_CHECK", "") not in ("", "0"),
        )


_local = _Local()


def settings() -> Settings:
    """The settings in force on this thread."""
    return _local.settings


@contextmanager
def config(**changes: Any) -> Iterator[None]:
    """Defaults for a block: backend, check, fast_math, recognise, deterministic."""
    unknown = set(changes) - {"backend", "check", "fast_math", "recognise", "deterministic"}
    if unknown:
        raise TracingError(
            f"config knows no setting {', '.join(sorted(unknown))}.",
            hint="Settings: backend, check, fast_math, recognise, deterministic.",
        )
    before = _local.settings
    _local.settings = replace(before, **changes)
    try:
        yield
    finally:
        _local.settings = before


@contextmanager
def precision(fast: bool = False) -> Iterator[None]:
    """`with td.precision(fast=True)`: float products may use Strassen's algorithm."""
    before = _local.settings
    _local.settings = replace(before, fast_precision=fast)
    try:
        yield
    finally:
        _local.settings = before


def current_backend() -> str:
    """The backend a program built here will run on, unless told otherwise."""
    from treadle.backend.registry import choose

    return choose(settings().backend)
