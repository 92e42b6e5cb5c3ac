"""Checks that the workers of a cluster compute the same results as this process: the versions of
treadle and of the packages that it computes with, and the processors.

Each worker of a client is asked once, by a message before the first task; workers that join later
are asked at the next call.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from weakref import WeakKeyDictionary

from treadle import dsl
from treadle.dsl.errors import DistributionError, user_location

from ..native.codegen.target import Target

#: The entry that may differ: it changes only the last bits of functions such as `exp`.
PROCESSOR = "processor"
#: Stands for the version of a package that is not installed.
_NONE = "none"

#: The addresses of the workers that have been asked, for each client.
_asked: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def environment() -> dict[str, str]:
    """The versions and the processor of this process, on which the bits of results depend."""
    found = {"treadle": dsl.VERSION}
    for package in ("numpy", "llvmlite"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = _NONE
    target = Target.host()
    found[PROCESSOR] = f"{target.cpu}, vectors of {target.vector_bytes} bytes"
    return found


def current_client() -> Any:
    """The current client of distributed; None if there is none."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _in_a_thread() -> Callable[[], Awaitable[dict[str, str]]]:
    """A function that runs `environment` in a thread of a worker: importing treadle would block its
    event loop.  (A nested function is sent by value.)"""

    def answer() -> dict[str, str]:
        found: dict[str, str] = importlib.import_module(__name__).environment()
        return found

    async def ask() -> dict[str, str]:
        return await asyncio.get_running_loop().run_in_executor(None, answer)

    return ask


def check_workers() -> None:
    """Raise `DistributionError` if a worker of the current client has other versions than this
    process; warn if it has another processor."""
    client = current_client()
    if client is None or client.asynchronous:  # its answers cannot be awaited here
        return
    asked = _asked.setdefault(client, set())
    new = [w for w in client.scheduler_info(n_workers=-1)["workers"] if w not in asked]
    if not new:
        return
    answers = client.run(_in_a_thread(), workers=new, on_error="return")
    silent = [w for w, answer in answers.items() if isinstance(answer, OSError)]
    if silent:  # a connection broke: ask the remaining workers again
        there = client.scheduler_info(n_workers=-1)["workers"]
        again = [w for w in silent if w in there]
        if again:
            answers.update(client.run(_in_a_thread(), workers=again, on_error="return"))
    # (A worker that is lost meanwhile does not count: its tasks go to others.)
    own = environment()
    found = {w: _of(answer, own) for w, answer in answers.items()
             if not isinstance(answer, OSError)}  # fmt: skip
    others = {w: e for w, e in found.items() if e != own}
    versions = [name for name in own if name != PROCESSOR]
    wrong = {w: e for w, e in others.items() if any(e[name] != own[name] for name in versions)}
    if wrong:
        raise DistributionError(
            "the workers of the cluster have other versions than this process, so they could "
            f"compute something else:\n{table(own, wrong, versions)}",
            hint="Install the same versions everywhere, and restart the workers.  Nothing has been "
            "computed.",
        )
    if others:
        _warn(
            "workers have other processors than this machine, so the last bits of functions such "
            f"as exp may differ:\n{table(own, others, [PROCESSOR])}"
        )
    asked.update(found)


def _of(answer: Any, own: Mapping[str, str]) -> dict[str, str]:
    """The answer of a worker; one that cannot import this module has another treadle, or none."""
    if isinstance(answer, dict):
        return {name: answer.get(name, _NONE) for name in own}
    missing = _NONE if "ModuleNotFoundError" in repr(answer) else repr(answer)  # of the worker's
    return {**own, "treadle": missing}


def table(own: Mapping[str, str], workers: Mapping[str, Mapping[str, str]],
          names: Sequence[str]) -> str:  # fmt: skip
    """A table of the differences: a row per name, a column per group of equal workers."""
    names = [n for n in names if any(e[n] != own[n] for e in workers.values())]
    groups: dict[tuple[str, ...], list[str]] = {}
    for worker, e in workers.items():
        groups.setdefault(tuple(e[n] for n in names), []).append(worker)
    heads = [g[0] if len(g) == 1 else f"{len(g)} workers, as {g[0]}" for g in groups.values()]
    columns = [["", *names], ["here", *(own[n] for n in names)],
               *([head, *values] for head, values in zip(heads, groups, strict=True))]  # fmt: skip
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    )


def _warn(message: str) -> None:
    where = user_location()
    file, line = ("<a program>", 1) if where is None else (where.file, where.line)
    warnings.warn_explicit(message, UserWarning, file, line)
