"""Ctrl-C at any time, while processes of a `LocalCluster` compute: none of them is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[3]
#: Seconds within which all processes must have ended.
PATIENCE = 120.0

PROGRAM = """
import signal
import dask.array as da, numpy as np, treadle as td
from distributed import Client, LocalCluster

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background

def heat(u, n):
    def euler(w):
        return w[0, 0] + 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0])
    return td.iterate(n, lambda u: td.stencil(euler, u, boundary=td.clamp), u)

if __name__ == "__main__":
    print("begins", flush=True)
    client = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
    print("workers", flush=True)
    plate = np.random.default_rng(1).random((2000, 1000), dtype=np.float32)
    for k in range(10**6):
        td.jit(heat)(da.from_array(plate + k, chunks=(250, 1000)), 100).compute()
        print("computed", flush=True)
"""


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def interrupted(path: Path, after: str, seconds: float) -> list[int]:
    """What is left of a program that is interrupted so many seconds after it printed a word."""
    path.write_text(PROGRAM, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == after:
                break
        time.sleep(seconds)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        end = time.monotonic() + PATIENCE
        while (left := members(process.pid)) and time.monotonic() < end:
            process.poll()
            time.sleep(0.1)
        return left
    finally:
        for pid in members(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("after", ["workers", "computed"])
def test_no_process_is_left(after: str, tmp_path: Path) -> None:
    assert not interrupted(tmp_path / "program.py", after, 0.2)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_process_is_left_at_any_time(tmp_path: Path) -> None:
    rng = random.Random(1)
    for _ in range(20):
        after = rng.choice(("begins", "workers", "computed"))
        assert not interrupted(tmp_path / "program.py", after, rng.uniform(0, 2))
