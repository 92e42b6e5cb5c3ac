"""Threads that trace and compile the same at once, and forks in the middle of that."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import treadle as td

THREADS = 16


@pytest.fixture(autouse=True)
def often():
    """Threads take turns every ten microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work) -> None:
    """Call `work()` in threads that start at once; raises what one of them raised."""
    barrier = threading.Barrier(THREADS)
    errors: list[BaseException] = []

    def one() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def traced(k):
    x = td.map(lambda v: td.sqrt(v * k + 2.5) + td.where(v > k, v, 1.5), np.arange(8.0))
    y = td.scanl1(lambda p, q: p + q, x)
    return td.cond(td.sum(y) > 3, y, y + 1)


def test_tracing_the_same():
    made: list[list[object]] = []

    def work():
        a = td.use(shared)
        made.append([td.map(lambda v, k=k: v * k + 0.5, a)._leaves[0].node for k in range(30)])
        for k in range(5):
            traced(k)

    shared = np.ones(3)
    held = [td.use(shared)]  # one input for all
    together(work)
    assert held and all(nodes == made[0] for nodes in made)  # equal nodes are one


def test_first_calls(monkeypatch, tmp_path):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    a = np.arange(8.0)
    for k in range(2):
        f = td.jit(lambda x, n: (x * float(k) + n, td.scanl1(lambda p, q: p + q, x)),
                   backend="native")  # fmt: skip

        def work(f=f, k=k):
            first, second = f(a, 2)
            np.testing.assert_array_equal(first, a * k + 2)
            np.testing.assert_array_equal(second, np.cumsum(a))

        together(work)


FORKS = """
import os, signal, sys, threading, time
import numpy as np
import treadle as td

stop = False


def work(seed):
    k = 0
    while not stop:
        k += 1
        c = 1000.0 * seed + k
        td.run(td.map(lambda v: td.sqrt(v * c + 2), np.arange(50.0)), backend="native")


threads = [threading.Thread(target=work, args=(s,)) for s in range(3)]
for t in threads:
    t.start()
failed = 0
for k in range(int(sys.argv[1])):
    time.sleep(0.02 * (k % 5))
    child = os.fork()
    if not child:
        signal.alarm(60)
        a = np.arange(40_000.0)
        got = td.run(td.map(lambda v: v * 3.25 + float(k), a), backend="native")
        os._exit(0 if np.array_equal(got, a * 3.25 + k) else 1)
    failed += os.waitpid(child, 0)[1] != 0
stop = True
for t in threads:
    t.join()
sys.exit(failed)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks while threads run")
@pytest.mark.parametrize("count", [4, pytest.param(30, marks=pytest.mark.long)])
def test_children_of_forks_compile(count, tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    shown = subprocess.run([sys.executable, "-c", FORKS, str(count)], timeout=600, check=False)
    assert shown.returncode == 0


def test_no_lock_of_a_class_outlives_a_fork():
    """Before Python 3.12 `functools.cached_property` holds a lock of its class while it computes,
    which no fork waits for: `treadle.dsl.process.locks.cached` has none."""
    root = Path(__file__).resolve().parents[3]
    folders = ("dsl", "skeletons", "backend", "treadle/driver", "treadle/tuning", "treadle/explore")
    users = {
        path.relative_to(root).as_posix()
        for folder in folders
        for path in (root / folder).rglob("*.py")
        if "cached_property" in path.read_text(encoding="utf-8")
    }
    assert users == {"dsl/process/locks.py"}
