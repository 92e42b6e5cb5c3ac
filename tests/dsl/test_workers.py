"""Jobs on several threads: results, exceptions, interruptions, limits."""

from __future__ import annotations

import _thread
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from treadle.dsl.errors import TreadleError
from treadle.dsl.process import workers
from treadle.dsl.process.workers import concurrently, on_other_thread

ROOT = str(Path(__file__).parents[2])


def test_results_are_in_the_order_of_the_jobs():
    seen = []

    def job(k):
        time.sleep(0.01 * (5 - k))
        seen.append(threading.get_ident())
        return k * k

    assert concurrently([partial(job, k) for k in range(5)], 3) == [0, 1, 4, 9, 16]
    assert len(set(seen)) <= 3 and threading.get_ident() not in seen
    assert concurrently([], 3) == []
    assert concurrently([threading.get_ident], 3) == [threading.get_ident()]


def test_threads_are_used_again():
    concurrently([partial(time.sleep, 0.01)] * 4, 4)
    before = threading.active_count()
    idle = len(workers._idle)
    for _ in range(20):
        concurrently([int] * 4, 4)
    assert len(workers._idle) == idle and threading.active_count() == before


def test_the_first_exception_is_raised_when_all_jobs_have_ended():
    ended = []

    def fail(k):
        time.sleep(0.01 * (3 - k))
        ended.append(k)
        raise ValueError(k)

    with pytest.raises(ValueError, match=r"^0$"):
        concurrently([partial(fail, k) for k in range(3)], 2)
    assert sorted(ended) == [0, 1, 2]


def test_what_is_done_later_is_done_by_another_thread(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.0)
    done = queue.SimpleQueue()

    def fail():
        done.put(None)
        raise TreadleError("no memory")

    for _ in range(2):
        workers.later(fail)
        done.get(timeout=20)
        workers.later(lambda: done.put(threading.get_ident()))
        assert done.get(timeout=20) != threading.get_ident()


@pytest.mark.sample(1)
@pytest.mark.parametrize("patience", [0.0, 100.0])
def test_the_end_of_a_process_waits_for_what_runs_only(patience):
    script = f"""if True:
        import time
        from treadle.dsl.process import workers
        workers.PATIENCE = {patience}

        def job():
            print("begun", flush=True)
            time.sleep(0.3)
            print("done", flush=True)

        for _ in range(3):
            workers.later(job)
        time.sleep(0.1)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ROOT}, timeout=60)  # fmt: skip
    assert not done.returncode, done.stderr
    assert done.stdout.split() == ([] if patience else ["begun", "done"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_child_of_a_fork_does_not_wait_for_a_job_of_its_parent(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.0)
    begun, go = threading.Event(), threading.Event()
    workers.later(lambda: (begun.set(), go.wait(20)))
    assert begun.wait(20)
    child = os.fork()
    if not child:
        workers._later.end()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    go.set()


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, as it may not in a process in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_jobs_are_asked_for_while_earlier_ones_run():
    begun = threading.Event()

    def jobs():
        yield begun.set
        assert begun.wait(20)
        yield threading.get_ident
        yield from [int] * 5

    found = concurrently(jobs(), 2)
    assert found[0] is None and found[1] != threading.get_ident() and found[2:] == [0] * 5
    assert concurrently(iter(()), 2) == []


def test_an_exception_between_jobs_is_raised_when_those_that_run_have_ended():
    ended = []

    def jobs():
        yield lambda: (time.sleep(0.1), ended.append(0))
        raise ValueError("no further job")

    with pytest.raises(ValueError, match="no further job"):
        concurrently(jobs(), 2)
    assert ended in ([0], [])

    def failing():
        yield partial(int, "x")
        time.sleep(0.05)
        raise RuntimeError("later")

    with pytest.raises(ValueError, match="invalid literal"):
        concurrently(failing(), 2)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_between_jobs_waits_for_those_that_run():
    running = []

    def job():
        running.append(0)
        time.sleep(0.2)
        running.clear()

    def jobs():
        yield job
        while not running:
            time.sleep(0.001)
        _thread.interrupt_main()
        time.sleep(5)
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        concurrently(jobs(), 2)
    assert not running


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_waits_for_running_jobs_and_starts_no_other():
    running, started = [], []

    def job(k):
        started.append(k)
        running.append(k)
        if k == 0:
            _thread.interrupt_main()
        time.sleep(0.2)
        running.remove(k)

    with pytest.raises(KeyboardInterrupt):
        concurrently([partial(job, k) for k in range(40)], 2)
    assert not running and len(started) < 40
    assert len(set(map(id, workers._idle))) == len(workers._idle)
    both = threading.Barrier(2, timeout=20)
    concurrently([both.wait, both.wait], 2)


def test_without_threads_jobs_run_one_after_the_other(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(workers, "_idle", [])
    monkeypatch.setattr(workers._thread, "start_new_thread", refuse)
    assert concurrently([threading.get_ident] * 3, 2) == [threading.get_ident()] * 3


def test_another_thread_runs_what_must_not_be_interrupted(interruptible):
    """It goes on to its end although the caller is interrupted; in other threads it stays there."""
    ended = []

    @on_other_thread
    def slow(result):
        _thread.interrupt_main()
        time.sleep(0.05)
        ended.append(threading.get_ident())
        return result

    with pytest.raises(KeyboardInterrupt):
        slow(1)
    assert len(ended) == 1 and ended[0] != threading.get_ident()
    here = on_other_thread(threading.get_ident)
    assert here() != threading.get_ident()
    assert concurrently([lambda: here() == threading.get_ident()] * 2, 2) == [True, True]
    with pytest.raises(ZeroDivisionError):
        on_other_thread(lambda: 1 // 0)()


def test_python_switches_often_while_jobs_run() -> None:
    usual = sys.getswitchinterval()
    found = concurrently([sys.getswitchinterval, sys.getswitchinterval], 2)
    assert found == [workers.SWITCHING, workers.SWITCHING]
    assert sys.getswitchinterval() == usual > workers.SWITCHING
