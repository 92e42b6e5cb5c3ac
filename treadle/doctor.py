"""`treadle doctor`: what works on this machine, what does not, and what to do about it.

Nothing here is believed: every backend that says it works runs a small program, and the cache is
written to.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import treadle as td
from treadle.backend.registry import BACKENDS
from treadle.dsl.process.environment import VARIABLES, cache_directory

#: Packages that are not needed: the extra that installs them, and what they are for.
OPTIONAL = {
    "matplotlib": ("plot", "plots of schedules, simulations and tuning"),
    "pillow": ("plot", "pictures: examples read and write them"),
    "scipy": ("examples", "fast Fourier transforms on CPUs; the examples' peer"),
    "pymetis": ("schedules", "two methods of td.schedule.LocalityGraph"),
}
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)\s*(?:>=\s*([\d.]+))?")


@dataclass(frozen=True)
class Finding:
    """One line: `state` is "works", "missing" (nothing breaks without it) or "broken"."""

    about: str
    state: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        lines = [f"{self.state:<8} {self.about}: {self.text}"]
        return "\n".join([*lines, *([f"         -> {self.remedy}"] if self.remedy else [])])


def examine() -> list[Finding]:
    """Everything that is worth knowing about treadle on this machine."""
    return [*_versions(), *_required(), *_backends(), _cache(), *_optional(), *_environment()]


def healthy(findings: list[Finding]) -> bool:
    """Whether programs can run, and nothing that treadle needs is broken."""
    return not any(finding.state == "broken" for finding in findings)


def _versions() -> Iterator[Finding]:
    where = Path(td.__file__).parent
    yield Finding("treadle", "works", f"{td.__version__} in {where}")
    machine = f"{platform.python_version()} on {platform.platform()}, {platform.machine()}"
    yield Finding("Python", "works", machine)


def _required() -> Iterator[Finding]:
    """The packages that treadle cannot do without, and whether they are new enough."""
    try:
        listed = importlib.metadata.requires("treadle") or []
    except importlib.metadata.PackageNotFoundError:
        remedy = "pip install . (or pip install -e .) in the checkout"
        yield Finding("packages", "broken", "treadle is imported but not installed", remedy)
        return
    for text in listed:
        found = _REQUIREMENT.match(text)
        if found is None or "extra ==" in text:
            continue
        name, least = found[1], found[2] or "0"
        have = _installed(name)
        remedy = f"pip install --upgrade '{name}>={least}'"
        if have is None:
            yield Finding(name, "broken", "not installed", remedy)
        elif _numbers(have) < _numbers(least):
            yield Finding(name, "broken", f"{have} is older than {least}", remedy)
        else:
            yield Finding(name, "works", have)


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The release of a version: of 2.4.0rc1, (2, 4, 0)."""
    return tuple(int(n) for n in re.findall(r"\d+", re.split(r"[a-z+-]", version)[0]))


def _backends() -> Iterator[Finding]:
    for name, state in td.backends().items():
        works, _, text = state.partition(": ")
        if works != "works":
            text, _, remedy = text.partition("; ")
            missing = BACKENDS[name].optional
            yield Finding(name, "missing" if missing else "broken", text, remedy)
            continue
        yield _tried(name, text)


def _tried(name: str, about: str, program: Callable[[td.Array], td.Array] | None = None) -> Finding:
    """A backend after it ran a program whose result is known."""

    def roots(x: td.Array) -> td.Array:
        return td.sum(td.sqrt(x) * 2)

    try:
        result = float(td.jit(program or roots, backend=name)(np.arange(5.0) ** 2))
    except Exception as error:
        return Finding(name, "broken", f"{type(error).__name__}: {error}",
                       "report this with all that `treadle doctor` prints")  # fmt: skip
    if result != 20.0:
        return Finding(name, "broken", f"a sum that is 20 came out as {result}",
                       "report this with all that `treadle doctor` prints")  # fmt: skip
    return Finding(name, "works", f"{about}; a small program ran")


def _cache() -> Finding:
    """The directory of compiled code: whether it can be written, and what it holds."""
    remedy = "set TREADLE_CACHE_DIR to a folder that you can write to"
    try:
        folder = cache_directory()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        text = f"cannot be written ({error}); every process compiles again"
        return Finding("cache", "missing", text, remedy)
    sizes = [entry.stat().st_size for entry in folder.rglob("*") if entry.is_file()]
    summary = f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
    return Finding("cache", "works", f"{summary}; the oldest are dropped, and you may delete all")


def _optional() -> Iterator[Finding]:
    for name, (extra, purpose) in OPTIONAL.items():
        have = _installed(name)
        if have is None:
            yield Finding(name, "missing", purpose, f"pip install 'treadle[{extra}]'")
        else:
            yield Finding(name, "works", have)


def _environment() -> Iterator[Finding]:
    for name in sorted(VARIABLES):
        if os.environ.get(name):
            yield Finding(name, "works", os.environ[name])
