"""Scripts that run in processes of their own, which may be killed, limited or forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

#: `program(k)` gives a compiled function, another for each k; `check(f, k)` calls it and compares.
PRELUDE = """
import gc, os, random, signal, sys, threading, time
import numpy as np, treadle as td

A = np.arange(1000.0)

def program(k, backend="native"):
    def scaled(a):
        return td.sum(td.map(lambda x: x * k + 1, a)), td.scanl1(lambda x, y: x + y, a)
    return td.jit(scaled, backend=backend)

def check(f, k, a=A):
    total, sums = f(a)
    assert total == (a * k + 1).sum(), (k, total)
    assert (sums == np.cumsum(a)).all(), k

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6  # MB
"""


def environment(cache: Path, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """This process's environment with a cache of its own; None in `changes` unsets a variable."""
    names = os.environ | {"PYTHONPATH": str(ROOT), "TREADLE_CACHE_DIR": str(cache)}
    for name, value in (changes or {}).items():
        if value is None:
            names.pop(name, None)
        else:
            names[name] = value
    return names


def start(script: str, cache: Path, changes: Mapping[str, str | None] | None = None,
          folder: Path | None = None) -> subprocess.Popen[str]:  # fmt: skip
    """Starts `PRELUDE` and a script in a new session (so that all of it can be killed)."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script],
        env=environment(cache, changes), cwd=folder or cache.parent, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def run(script: str, cache: Path, changes: Mapping[str, str | None] | None = None,
        folder: Path | None = None, seconds: float = 120) -> str:  # fmt: skip
    """What a script prints. It must end with 0, and in time."""
    process = start(script, cache, changes, folder)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"hung for {seconds} s:\n{out[-2000:]}\n{err[-4000:]}") from None
    assert process.returncode == 0, f"status {process.returncode}:\n{out[-2000:]}\n{err[-4000:]}"
    return out
