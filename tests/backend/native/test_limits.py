"""Limits of the process: a result is right or an error of treadle's, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")

ROOT = Path(__file__).resolve().parents[3]

#: What the processes run: each part prints "right", or the class of treadle's error.
WORK = """
import os, resource, sys
import numpy as np, treadle as td

ones = np.ones((300, 300))

def taken():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

def leave(room):
    resource.setrlimit(resource.RLIMIT_AS, (taken() + (room << 20),) * 2)

def part(name, run, want):
    try:
        found = run()
    except td.TreadleError as error:
        print(name, type(error).__name__)
    except MemoryError as error:
        print(name, "of NumPy" if "array" in str(error) else repr(error))
    else:
        print(name, "right" if np.allclose(found, want) else f"wrong: {found}")

def parts():
    with td.config(backend="native"):
        part("small", lambda: td.run(td.use(np.arange(5.0)) * 2), np.arange(5.0) * 2)
        part("large", lambda: td.run(td.sum(td.compute(td.generate((1 << 22,), lambda i: i)))),
             (1 << 21) * ((1 << 22) - 1))
        part("team", lambda: td.run(td.sum(td.generate((1 << 20,), lambda i: td.cos(i * 0.0)))),
             1 << 20)
        part("several", lambda: td.run(td.cumsum(td.compute(td.sort(np.arange(50.0))) + 1))[-1],
             1275)
        part("product", lambda: td.run(td.use(ones) @ ones)[3, 4], 300)
        part("integers", lambda: td.run(td.use(ones.astype(int)) @ ones.astype(int))[3, 4], 300)
        part("reference", lambda: td.run(td.sum(td.use(ones) @ ones), backend="reference"), 27e6)
"""


def outcomes(before: str, shell: str = "", **variables: str) -> dict[str, str]:
    """What the parts print in a process of their own; `before`: Python before them; `shell`:
    what a shell says before Python starts."""
    code = f"{WORK}\n{before}\nparts()\n"
    command = [sys.executable, "-c", code]
    if shell:
        command = ["sh", "-c", f'{shell}; exec "$@"', "sh", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300,
                          encoding="utf-8", check=False)  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.sample(1)
@pytest.mark.parametrize("room", [8, 60, 230, 400, 900])
def test_address_space(room: int, tmp_path: Path) -> None:
    found = outcomes(f"leave({room})", TREADLE_CACHE_DIR=str(tmp_path))
    assert set(found.values()) <= {"right", "DeviceOutOfMemory", "of NumPy"}, found
    assert room > 8 or found["small"] == "DeviceOutOfMemory"
    assert room < 900 or set(found.values()) == {"right"}


@pytest.mark.long
@pytest.mark.parametrize("room", [1, 12, 45])
def test_address_space_once_all_is_loaded(room: int) -> None:
    found = outcomes(f"import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): "
                     f"parts()\nleave({room})")  # fmt: skip
    assert set(found.values()) <= {"right", "DeviceOutOfMemory", "of NumPy"}, found
    assert found["small"] == "right"


def test_the_error_tells_the_limit(tmp_path: Path) -> None:
    """Of a process that needs LLVM: nothing it could load is on disk."""
    code = f"{WORK}\nleave(4)\nprint(td.run(td.use(np.arange(5.0)) * 2, backend='native'))"
    cache = str(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TREADLE_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=environment, encoding="utf-8", check=False)  # fmt: skip
    assert done.returncode == 1 and "DeviceOutOfMemory" in done.stderr
    assert "no memory" in done.stderr or "the limit of this process" in done.stderr


#: What a process that may start no threads has done before: it may open fewer files as well.
STARTED = """
import contextlib, ctypes, io, threading
from treadle.backend.native.runtime import modules, threads
from treadle.dsl.process import workers

with contextlib.redirect_stdout(io.StringIO()):
    parts()
if os.getuid() == 0:
    os.setuid(65534)  # root has no limits
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("threads none")
if threads.team():
    ctypes.CFUNCTYPE(None)(modules.team()["forget_threads"])()
threads._state = threads._State()
workers._idle.clear()
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["", "python"])
def test_no_threads(kind: str) -> None:
    found = outcomes(STARTED, TREADLE_THREADS=kind, TREADLE_NUM_THREADS="4")
    assert found.pop("threads") == "none" and set(found.values()) == {"right"}, found


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "shell"),
    [
        ("resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))", ""),
        ("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", ""),
        ("parts()\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", ""),
        ("", "ulimit -s 1024"),
    ],
    ids=["no space for files", "one core", "no more files", "a small stack"],
)
def test_other_limits(before: str, shell: str, tmp_path: Path) -> None:
    found = outcomes(before, shell, TREADLE_CACHE_DIR=str(tmp_path))
    assert set(found.values()) == {"right"}, found


def test_a_stack_too_small() -> None:
    found = outcomes("", "ulimit -s 256")
    assert found["small"] == "DeviceOutOfMemory" and found["reference"] == "right"
